# SPDX-License-Identifier: Apache-2.0
"""A program of the alias fuzzer as data: bases, constants and ops over registers, with a text form that is read back.

mode replay
seed 17
b0 = base(float32, (3, 4), grad=True)
k0 = const(int64, [0, 2])
before: r0 = narrow(b0, 0, 1, 2)
r1, r2 = chunk(b0, 2, 0)
no_grad: add_(r0, r1, alpha=2)
"""

from __future__ import annotations

import ast
import dataclasses
from typing import Any

import torch

DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
        torch.uint8, torch.bool, torch.complex64, torch.complex128,
    )
}  # fmt: skip
MODES = ("step", "repeat", "replay", "loop", "outside", "failing")
# How an op runs: as it is, without gradients, with gradients inside of that, or before the step (without gradients).
WAYS = ("", "no_grad", "enable_grad", "before")


@dataclasses.dataclass(frozen=True)
class Ref:
    """A register."""

    name: str

    def __repr__(self) -> str:
        return self.name


@dataclasses.dataclass
class Op:
    name: str
    args: tuple = ()
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    outs: tuple[str, ...] = ()
    way: str = ""

    def refs(self) -> list[str]:
        return [leaf.name for leaf in leaves((*self.args, *self.options.values())) if isinstance(leaf, Ref)]

    def __str__(self) -> str:
        words = [shown(arg) for arg in self.args] + [f"{key}={shown(value)}" for key, value in self.options.items()]
        way = f"{self.way}: " if self.way else ""
        outs = f"{', '.join(self.outs)} = " if self.outs else ""
        return f"{way}{outs}{self.name}({', '.join(words)})"


@dataclasses.dataclass
class Base:
    """An argument of the step: random values of the program's seed and the round."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    grad: bool = False

    def __str__(self) -> str:
        grad = ", grad=True" if self.grad else ""
        return f"{self.name} = base({shown(self.dtype)}, {self.shape!r}{grad})"


@dataclasses.dataclass
class Const:
    """An argument that is the same in every round: indices, masks."""

    name: str
    dtype: torch.dtype
    values: list

    def __str__(self) -> str:
        return f"{self.name} = const({shown(self.dtype)}, {self.values!r})"


@dataclasses.dataclass
class Program:
    seed: int
    mode: str = "step"
    late: bool = False  # values are read after the step, not published in it
    inputs: list[Base | Const] = dataclasses.field(default_factory=list)
    ops: list[Op] = dataclasses.field(default_factory=list)

    def replace(self, **changes) -> Program:
        return dataclasses.replace(self, **changes)

    def __str__(self) -> str:
        head = [f"mode {self.mode}", f"seed {self.seed}"] + (["late"] if self.late else [])
        return "\n".join([*head, *map(str, self.inputs), *map(str, self.ops)])


def leaves(value):
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from leaves(each)
    elif isinstance(value, slice):
        yield from (value.start, value.stop, value.step)
    else:
        yield value


def shown(value) -> str:
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(shown, value))}{',' if len(value) == 1 else ''})"
    if value is Ellipsis:
        return "..."
    return repr(value)


def parse(text: str) -> Program:
    """The program of a text; lines that are empty or start with # say nothing."""
    program = Program(0)
    for line in map(str.strip, text.splitlines()):
        if not line or line.startswith("#"):
            continue
        if line.startswith("mode "):
            program.mode = line.split()[1]
        elif line.startswith("seed "):
            program.seed = int(line.split()[1])
        elif line == "late":
            program.late = True
        else:
            _parse_line(program, line)
    return program


def _parse_line(program: Program, line: str) -> None:
    way = next((way for way in WAYS if way and line.startswith(f"{way}: ")), "")
    (node,) = ast.parse(line.removeprefix(f"{way}: ") if way else line).body
    outs: tuple[str, ...] = ()
    if isinstance(node, ast.Assign):
        (target,) = node.targets
        outs = tuple(each.id for each in (target.elts if isinstance(target, ast.Tuple) else [target]))  # type: ignore[attr-defined]  # names alone
    call = node.value  # type: ignore[attr-defined]  # an expression or an assignment
    args = tuple(_value(arg) for arg in call.args)
    options = {word.arg: _value(word.value) for word in call.keywords}
    if call.func.id == "base":
        program.inputs.append(Base(outs[0], args[0], args[1], options.get("grad", False)))
    elif call.func.id == "const":
        program.inputs.append(Const(outs[0], args[0], args[1]))
    else:
        program.ops.append(Op(call.func.id, args, options, outs, way))


def _value(node):
    if isinstance(node, ast.Name):
        return DTYPES.get(node.id) or Ref(node.id)
    if isinstance(node, ast.Tuple):
        return tuple(_value(each) for each in node.elts)
    if isinstance(node, ast.List):
        return [_value(each) for each in node.elts]
    if isinstance(node, ast.Call):
        return slice(*(_value(each) for each in node.args))
    return ast.literal_eval(node)
