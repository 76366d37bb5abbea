# SPDX-License-Identifier: Apache-2.0
"""A program as text, close to that of the dialect, for lists of programs that ran."""

from __future__ import annotations

from .limits import PROGRAM_TEXT_MAX
from .program import Attr, Program
from .types import NAMES

_LIST_MAX, _STRING_MAX = 64, 200  # a program may be made to be long when written out


def describe(program: Program) -> str:
    first_op = len(program.args)

    def name(value: int) -> str:
        return f"%arg{value}" if value < first_op else f"%{value - first_op}"

    lines, length = ["func.func @step("], 0
    for i, arg in enumerate(program.args):
        lines.append(f'  {name(i)}: {arg.type} {{sojourn.kind = "{arg.kind}"}}'[:2000])
    lines.append(") {")
    for op in program.ops:
        results = ", ".join(name(op.first_result + k) for k in range(len(op.result_types)))
        attrs = ", ".join(f"{key} = {_attr(attr)}" for key, attr in op.attrs.items())
        types = f"({_list(op.operand_types)}) -> {_list(op.result_types)}"
        line = f'  {results} = "sojourn.{op.name}"({_list(op.operands, name)})'
        line += (
            (f" <{{{attrs}}}>" if attrs else "") + f" : {types}" + (f'  loc("{op.location}")' if op.location else "")
        )
        lines.append(line)
        length += len(line)
        if length > PROGRAM_TEXT_MAX:
            lines.append("  ... the rest is omitted")
            break
    for result in program.results:
        target = f" {name(result.target)}" if result.kind == "commit" else ""
        lines.append(f"  {result.kind}{target} {name(result.value)} : {program.types[result.value]}")
    return "\n".join([*lines, "}"]) + "\n"


def _list(items, show=str) -> str:
    text = ", ".join(show(item) for item in items[:_LIST_MAX])
    return text if len(items) <= _LIST_MAX else text + f", ... {len(items) - _LIST_MAX} more"


def _quoted(text: str) -> str:
    return '"' + text[:_STRING_MAX].replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _attr(attr: Attr) -> str:
    if attr.kind == "string":
        return _quoted(attr.value)
    if attr.kind in ("strings", "integers", "reals"):
        return "[" + _list(attr.value, _quoted if attr.kind == "strings" else str) + "]"
    if attr.kind == "boolean":
        return str(attr.value).lower()
    return f"{attr.value} : {NAMES[attr.element]}"
