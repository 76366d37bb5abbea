# SPDX-License-Identifier: Apache-2.0
"""A program as text, near to the dialect's own, for the people who ask what ran."""

from __future__ import annotations

from .program import Attr, Program
from .types import NAMES


def describe(program: Program) -> str:
    names = [f"%arg{i}" if i < len(program.args) else f"%{i - len(program.args)}" for i in range(len(program.types))]
    args = ", ".join(f'{names[i]}: {a.type} {{sojourn.kind = "{a.kind}"}}' for i, a in enumerate(program.args))
    lines = [f"func.func @step({args}) {{"]
    for op in program.ops:
        results = ", ".join(names[op.first_result + k] for k in range(len(op.result_types)))
        operands = ", ".join(names[i] for i in op.operands)
        attrs = ", ".join(f"{name} = {_attr(attr)}" for name, attr in op.attrs.items())
        types = f"({', '.join(map(str, op.operand_types))}) -> {', '.join(map(str, op.result_types))}"
        line = f'  {results} = "sojourn.{op.name}"({operands})' + (f" <{{{attrs}}}>" if attrs else "") + f" : {types}"
        lines.append(line + (f'  loc("{op.location}")' if op.location else ""))
    for result in program.results:
        target = f" {names[result.target]}" if result.kind == "commit" else ""
        lines.append(f"  {result.kind}{target} {names[result.value]} : {program.types[result.value]}")
    return "\n".join([*lines, "}"]) + "\n"


def _attr(attr: Attr) -> str:
    if attr.kind in ("string", "strings"):
        return str(attr.value if attr.kind == "string" else list(attr.value)).replace("'", '"')
    if attr.kind == "integers":
        return str(list(attr.value))
    if attr.kind == "boolean":
        return str(attr.value).lower()
    return f"{attr.value} : {NAMES[attr.element]}"
