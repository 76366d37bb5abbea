# SPDX-License-Identifier: Apache-2.0
"""Runs a module of any phase, op by op: ATen calls by eager torch on real storages, core ops by the NumPy kernels.
So a trace can be compared with itself after every phase."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from aten_calls import ELEMENTS, KERNELS, ROOT, CoreOp, parse_type, parse_value

DTYPES = {name: dtype for dtype, name in ELEMENTS.items()}
HIDDEN_MUTATION = ("running_mean", "running_var")
TYPE = re.compile(r"tensor<[^<>]*>|!sojourn\.ref<[^<>]*>|!sojourn\.scalar<\w+>|none")
LINE = re.compile(r'^\s*(?:(%\w+)(?::\d+)? = )?"([\w.]+)"\((.*?)\)(?: <\{(.*)\}>)?(?: \{.*\})? : \((.*)\) -> (.*)$')


class Ref(NamedTuple):
    dtype: torch.dtype
    shape: list[int]
    strides: list[int]
    offset: int


class Argument(NamedTuple):
    kind: str
    type: str


class Module(NamedTuple):
    arguments: list[Argument]
    targets: list[int]  # state that each commit belongs to
    lines: list[str]


def load(path: Path) -> Module:
    command = [str(ROOT / "build/bin/sojourn-opt"), "--mlir-print-op-generic", str(path)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = text.splitlines()
    head = next(line for line in lines if '"func.func"' in line)
    block = next(line for line in lines if line.strip().startswith("^bb0"))
    kinds = re.findall(r'sojourn\.kind = "(\w+)"', head)
    arguments = [Argument(k, t) for k, t in zip(kinds, TYPE.findall(block), strict=True)]
    return Module(arguments, [int(t) for t in re.findall(r"sojourn\.target = (\d+)", head)], lines)


def parse_ref(text: str) -> Ref:
    shape, _, layout = text.removeprefix("!sojourn.ref<").removesuffix(">").partition(",")
    *dims, element = shape.split("x")
    sizes = [int(d) for d in dims]
    if layout:
        numbers = [int(v) for v in re.findall(r"-?\d+", layout)]
        return Ref(DTYPES[element], sizes, numbers[:-1], numbers[-1])
    return Ref(DTYPES[element], sizes, list(torch.empty(sizes, device="meta").stride()), 0)


def make_inputs(module: Module, seed: int) -> list:
    """Values that every op likes: small positive floats, small indices."""
    generator = torch.Generator().manual_seed(seed)
    values = []
    for argument in module.arguments:
        if argument.type.startswith("!sojourn.scalar"):
            values.append(0.1 + 0.8 * torch.rand((), generator=generator, dtype=torch.float64).item())
            continue
        ref = parse_ref(argument.type)
        value = torch.empty_strided(ref.shape, ref.strides, dtype=ref.dtype)
        if ref.dtype.is_floating_point:
            value.copy_(0.1 + 0.8 * torch.rand(ref.shape, generator=generator, dtype=torch.float64))
        else:
            value.copy_(torch.randint(0, 2, ref.shape, generator=generator))
        values.append(value)
    return values


class Reader:
    """Recursive descent over the attributes of a `sojourn.aten`."""

    TOKEN = re.compile(r'\s*("[^"]*"|#sojourn\.operand<\d+>|array<i64[^>]*>|[\w.+-]+|[\[\],=:])')

    def __init__(self, text: str, operands: list):
        self.tokens, self.operands, self.position = self.TOKEN.findall(text), operands, 0

    def take(self) -> str:
        self.position += 1
        return self.tokens[self.position - 1]

    def peek(self) -> str | None:
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    def value(self):
        token = self.take()
        if token == "[":
            items = []
            while self.peek() != "]":
                items.append(self.value())
                if self.peek() == ",":
                    self.take()
            self.take()
            return items
        if token.startswith("#"):
            return self.operands[int(re.findall(r"\d+", token)[0])]
        if token.startswith("array"):
            return parse_value(token)
        if token in ("true", "false", "unit"):
            return {"true": True, "false": False, "unit": None}[token]
        if token.startswith('"'):
            return token.strip('"')
        if token in DTYPES:
            return DTYPES[token]
        if self.peek() == ":":
            self.take()
            return float(token) if self.take().startswith("f") else int(token)
        return int(token)

    def dictionary(self) -> dict:
        result = {}
        while self.peek() is not None:
            name = self.take()
            self.take()
            result[name] = self.value()
            if self.peek() == ",":
                self.take()
        return result


def number_type(argument) -> bool:
    return any(kind in str(argument.real_type) for kind in ("number", "Scalar", "float", "int"))


def plain(value):
    if isinstance(value, torch.Tensor) and value.dim() == 0:
        return value.item()
    return [plain(v) for v in value] if isinstance(value, list) else value


def call_overload(overload, named: dict):
    schema = {a.name: a for a in overload._schema.arguments}
    if set(named) - set(schema):
        raise TypeError("other arguments")
    given = {}
    for name, value in named.items():
        if value is None and schema[name].has_default_value():
            continue
        given[name] = (
            plain(value) if number_type(schema[name]) and "Tensor" not in str(schema[name].real_type) else value
        )
    if any(a.name not in given and not a.has_default_value() for a in schema.values()):
        raise TypeError("an argument is missing")
    return overload(**given)


def lstm_cell(input_gates, hidden_gates, cx, input_bias=None, hidden_bias=None):
    """The fused cell, which torch has no CPU kernel for; the workspace holds the four activated gates."""
    gates = input_gates + hidden_gates
    if input_bias is not None:
        gates = gates + input_bias + hidden_bias
    i, f, g, o = gates.chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * cx + i * g
    return [o * cy.tanh(), cy, torch.cat([i, f, g, o], 1)]


def lstm_cell_backward(grad_hy, grad_cy, cx, cy, workspace, has_bias):
    i, f, g, o = workspace.chunk(4, 1)
    hidden = torch.zeros_like(cx) if grad_hy is None else grad_hy
    cell = hidden * o * (1 - cy.tanh() ** 2) + (0 if grad_cy is None else grad_cy)
    gates = torch.cat([cell * g * i * (1 - i), cell * cx * f * (1 - f), cell * i * (1 - g * g),
                       hidden * cy.tanh() * o * (1 - o)], 1)  # fmt: skip
    return [gates, cell * f, gates.sum(0) if has_bias else None]


DEVICE_ONLY = {"_thnn_fused_lstm_cell": lstm_cell, "_thnn_fused_lstm_cell_backward_impl": lstm_cell_backward}


def call_aten(name: str, named: dict):
    """What eager returns for the overload of that name; if it does not take these arguments, for one that does."""
    _, base, *overload = name.split(".")
    if base in DEVICE_ONLY:
        return DEVICE_ONLY[base](**named)
    packet = getattr(torch.ops.aten, base)
    first = overload[0] if overload else "default"
    failures = []
    for candidate in [first, *(o for o in packet.overloads() if o != first and "out" not in o)]:
        if candidate not in packet.overloads():
            continue
        try:
            return call_overload(getattr(packet, candidate), named)
        except (TypeError, RuntimeError) as error:
            failures.append(f"{candidate}: {error}")
    raise AssertionError(f"{name}: no overload takes {list(named)}\n" + "\n".join(failures))


def flatten(value) -> list:
    return [w for v in value for w in flatten(v)] if isinstance(value, (list, tuple)) else [value]


def run_aten(attrs: dict, types: list[str], functional: bool) -> list:
    named = dict(zip(attrs["names"], attrs["args"], strict=True))
    hidden = []
    if functional:
        hidden = [n for n in HIDDEN_MUTATION if "native_batch_norm" in attrs["name"] and named.get(n) is not None]
        named.update({n: named[n].clone() for n in hidden})
    returned = call_aten(attrs["name"], named)
    results = [] if returned is None else flatten(returned)
    results = (results + [named[n] for n in hidden])[: len(types)]
    assert len(results) == len(types), (attrs["name"], len(results), len(types))
    return [None if t == "none" else shaped(r, t) for r, t in zip(results, types, strict=True)]


def shaped(value: torch.Tensor, text: str):
    """The value in the layout (captured) or type (later) that the module declares for it."""
    if text.startswith("!sojourn.ref"):
        ref = parse_ref(text)
        assert value.dtype == ref.dtype and list(value.shape) == ref.shape, (text, value.dtype, value.shape)
        root = torch.empty_strided(ref.shape, ref.strides, dtype=ref.dtype)
        return root.copy_(value)
    declared = parse_type(text)
    assert list(value.shape) == list(declared.shape), (text, value.shape)
    return value


def to_torch(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.array(array, order="C"))


def run_core(name: str, text: str, operands: list, types: list[str]) -> list:
    attrs = {}
    for part in re.split(r", (?=\w+ = )", text or ""):
        key, _, value = part.partition(" = ")
        if key:
            attrs[key] = parse_value(value)
    op = CoreOp(name, attrs, [parse_type(t) for t in types])
    arrays = [np.asarray(o) if isinstance(o, float) else o.contiguous().numpy() for o in operands]
    with np.errstate(all="ignore"):
        results = KERNELS[name](op, *arrays)
    return [to_torch(r) for r in (results if isinstance(results, tuple) else (results,))]


def run(module: Module, inputs: list, strict: bool) -> list:
    """Values of the results. `strict`: a call returns exactly the declared element type (after promotion)."""
    values: dict[str, list] = {}
    captured = any(a.type.startswith("!sojourn.ref") for a in module.arguments)
    for line in module.lines:
        if line.strip().startswith("^bb0"):
            values.update({n: [v] for n, v in zip(re.findall(r"%\w+", line), inputs, strict=True)})
            continue
        match = LINE.match(line)
        if not match or match[2].startswith(("builtin", "func.func")):
            continue
        operands = [
            values[n.partition("#")[0]][int(n.partition("#")[2] or 0)] for n in filter(None, match[3].split(", "))
        ]
        types = TYPE.findall(match[6])
        name = match[2].removeprefix("sojourn.")
        if name == "func.return":
            return operands
        if name == "aten":
            attrs = Reader(match[4], operands).dictionary()
            results = run_aten(attrs, types, functional=not captured)
            for i, (value, declared) in enumerate(zip(results, types, strict=True)):
                if value is not None and declared.startswith("tensor"):
                    wanted = DTYPES[declared.removesuffix(">").split("x")[-1].removeprefix("tensor<")]
                    assert not strict or value.dtype == wanted, (line, value.dtype)
                    results[i] = value.to(wanted)
        elif name == "view":
            ref = parse_ref(types[0])
            results = [operands[0].as_strided(ref.shape, ref.strides, ref.offset)]
        elif name in ("alloc", "load"):
            results = [operands[0].clone()]
        else:
            results = run_core(name, match[4], operands, types)
        if match[1]:
            values[match[1]] = results
    raise AssertionError("no return")
