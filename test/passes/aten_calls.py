# SPDX-License-Identifier: Apache-2.0
"""Single ATen calls as programs: captured from eager torch, written as functional form, lowered by sojourn-opt,
run op by op with the NumPy kernels. The oracle is the value that eager torch gave for the very same call."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/python"))

from sojourn_numpy import kernels, types  # noqa: E402

KERNELS = kernels.load()
ELEMENTS = {
    torch.bool: "i1", torch.uint8: "ui8", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32",
    torch.int64: "i64", torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64",
}  # fmt: skip
# Floats that define a shape are literals, all others are run-time slots.
SHAPE_FLOATS = {"arange"}
# Running statistics are written without the schema saying so.
HIDDEN_MUTATION = {"native_batch_norm": ("running_mean", "running_var")}


class Call(NamedTuple):
    func: torch._ops.OpOverload
    args: dict[str, object]  # by schema name
    outputs: list[torch.Tensor | None]  # fresh results, then new values of what was written
    mutated: list[int]  # positions of the latter
    default_float: torch.dtype = torch.float32  # torch's default when it was called


def base_name(func) -> str:
    name = func._schema.name.split("::")[1]
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


class Capture(TorchDispatchMode):
    """Collects distinct calls that run below it, at most `limit` of each overload."""

    def __init__(self, limit: int = 20, numel: int = 20000):
        self.calls: dict[str, Call] = {}
        self.counts: dict[str, int] = {}
        self.limit, self.numel = limit, numel

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        named = bind(func, args, kwargs)
        keep = self.wanted(func, named)
        if keep:
            named = pytree.tree_map_only(torch.Tensor, lambda t: t.detach().clone(), named)
        outputs = func(*args, **kwargs)
        if keep:
            self.record(func, named, bind(func, args, kwargs), outputs)
        return outputs

    def wanted(self, func, named) -> bool:
        if func.namespace != "aten" or self.counts.get(str(func), 0) >= self.limit:
            return False
        tensors = [t for t in pytree.tree_leaves(named) if isinstance(t, torch.Tensor)]
        plain = all(t.dtype in ELEMENTS and t.layout == torch.strided and t.numel() <= self.numel for t in tensors)
        values = pytree.tree_leaves(named)
        if not plain or any(isinstance(v, (complex, torch.Generator)) for v in values):
            return False
        view = any(r.alias_info is not None and not r.alias_info.is_write for r in func._schema.returns)
        return not view

    def record(self, func, before, after, outputs) -> None:
        returned = outputs if isinstance(outputs, (tuple, list)) else [outputs]
        flat, schema = [], func._schema.returns
        for position, value in enumerate(returned):
            result = schema[min(position, len(schema) - 1)]
            if result.alias_info is None or not result.alias_info.is_write:
                flat.append(value)
        if any(v is not None and not isinstance(v, torch.Tensor) for v in flat):
            return
        mutated = []
        for argument in func._schema.arguments:
            hidden = argument.name in HIDDEN_MUTATION.get(base_name(func), ()) and before.get("training")
            written = argument.alias_info is not None and argument.alias_info.is_write
            for tensor in pytree.tree_leaves(after[argument.name]) if written or hidden else ():
                if isinstance(tensor, torch.Tensor):
                    mutated.append(len(flat))
                    flat.append(tensor)
        flat = [v if v is None else v.detach().clone() for v in flat]
        if not flat or any(v is not None and v.dtype not in ELEMENTS for v in flat):
            return
        key = f"{func} {pytree.tree_map_only(torch.Tensor, lambda t: (t.dtype, tuple(t.shape)), before)}"
        if key not in self.calls:
            self.counts[str(func)] = self.counts.get(str(func), 0) + 1
            self.calls[key] = Call(func, before, flat, mutated, torch.get_default_dtype())


def bind(func, args, kwargs) -> dict[str, object]:
    named = {}
    for position, argument in enumerate(func._schema.arguments):
        if position < len(args):
            named[argument.name] = args[position]
        elif argument.name in kwargs:
            named[argument.name] = kwargs[argument.name]
        else:
            named[argument.name] = argument.default_value if argument.has_default_value() else None
    return named


def tensor_type(tensor: torch.Tensor) -> str:
    return "tensor<" + "".join(f"{size}x" for size in tensor.shape) + ELEMENTS[tensor.dtype] + ">"


class Written:
    """One call in functional form: text, and the values of the arguments of @step."""

    def __init__(self, call: Call, number: int):
        self.inputs: list[np.ndarray] = []
        self.kinds: list[tuple[str, str]] = []
        self.slots: list[float] = []
        args, names = [], []
        for argument in call.func._schema.arguments:
            if argument.kwarg_only and argument.alias_info is not None and argument.alias_info.is_write:
                continue  # out= was only a place
            self.argument, self.base = argument, base_name(call.func)
            args.append(self.attribute(call.args[argument.name], str(argument.real_type)))
            names.append(f'"{argument.name}"')
        uploads = len(self.inputs)
        self.inputs += [np.asarray(slot, np.float64) for slot in self.slots]
        self.kinds += [("slot", "!sojourn.scalar<f64>")] * len(self.slots)
        if "seed" in call.args:
            args.append(f"#sojourn.operand<{len(self.inputs)}>")
            names.append('"seed"')
            self.inputs.append(np.asarray(call.args["seed"], np.int64))
            self.kinds.append(("seed", "tensor<i64>"))
        text = ", ".join(args)
        for slot in range(len(self.slots)):
            text = text.replace(f"@slot{slot}@", f"#sojourn.operand<{uploads + slot}>")
        parameters = ", ".join(f'%{i}: {t} {{sojourn.kind = "{k}"}}' for i, (k, t) in enumerate(self.kinds))
        operands = ", ".join(f"%{i}" for i in range(len(self.kinds)))
        operand_types = ", ".join(t for _, t in self.kinds)
        results = ["none" if v is None else tensor_type(v) for v in call.outputs]
        kept = [i for i, v in enumerate(call.outputs) if v is not None]
        name = "aten." + base_name(call.func) + ("." + call.func._overloadname if call.func._overloadname else "")
        name = name.replace(".default", "")
        mutated = f", sojourn.mutated = array<i64: {', '.join(map(str, call.mutated))}>" if call.mutated else ""
        pack = f"%r:{len(results)}" if len(results) > 1 else "%r"
        values = ", ".join(f"%r#{i}" if len(results) > 1 else "%r" for i in kept)
        returned = ", ".join(results[i] for i in kept)
        declared = ", ".join(f'{results[i]} {{sojourn.result = "keep"}}' for i in kept)
        self.outputs = [call.outputs[i] for i in kept]
        self.text = (
            f"module @case{number} attributes {{sojourn.default_float = {ELEMENTS[call.default_float]}, "
            f'sojourn.phase = "functional", sojourn.promotion = "torch"}} {{\n'
            f"  func.func @step({parameters}) -> ({declared}) {{\n"
            f'    {pack} = sojourn.aten "{name}"({operands}) {{args = [{text}], names = [{", ".join(names)}]{mutated}}}'
            f" : ({operand_types}) -> ({', '.join(results)})\n"
            f"    return {values} : {returned}\n  }}\n}}\n"
        )

    def upload(self, tensor: torch.Tensor) -> str:
        self.kinds.append(("upload", tensor_type(tensor)))
        self.inputs.append(to_numpy(tensor))
        return f"#sojourn.operand<{len(self.inputs) - 1}>"

    def slot(self, value: float) -> str:
        if self.base in SHAPE_FLOATS:
            return f"{float(value)!r} : f64"
        self.slots.append(float(value))
        return f"@slot{len(self.slots) - 1}@"

    def attribute(self, value, kind: str) -> str:
        if value is None or isinstance(value, (torch.layout, torch.device, torch.memory_format)):
            return "unit"
        if self.argument.name in ("pin_memory", "non_blocking", "layout", "memory_format", "device"):
            return "unit" if self.argument.name != "non_blocking" else "false"
        if isinstance(value, torch.Tensor):
            return self.upload(value)
        if isinstance(value, torch.dtype):
            return ELEMENTS[value]
        if isinstance(value, (list, tuple)):
            element = kind.removeprefix("List[").removesuffix("]")
            return "[" + ", ".join(self.attribute(v, element) for v in value) + "]"
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str):
            return f'"{value}"'
        if isinstance(value, int) and kind not in ("float", "Optional[float]"):
            return f"{value} : i64"
        return self.slot(value)


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    tensor = tensor.detach().contiguous()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(types.DTYPES[types.BF16])
    return tensor.numpy().copy()


class CoreOp:
    def __init__(self, name: str, attrs: dict[str, object], result_types: list):
        self.name, self.attrs, self.result_types = name, attrs, result_types

    def attr(self, name: str):
        return self.attrs[name]


def parse_type(text: str) -> types.TensorType:
    *dims, element = text.strip().removeprefix("tensor<").removesuffix(">").split("x")
    names = {"ui8": "u8"}
    return types.TensorType(types.NAMES.index(names.get(element, element)), tuple(int(d) for d in dims))


def parse_value(text: str):
    text = text.strip()
    if text.startswith("array<i64"):
        return tuple(int(v) for v in re.findall(r"-?\d+", text.removeprefix("array<i64")))
    if text in ("true", "false"):
        return text == "true"
    if text.startswith('"'):
        return text.strip('"')
    number, _, element = text.partition(" : ")
    if number.startswith("0x"):
        storage = {"f16": np.uint16, "bf16": np.uint16, "f32": np.uint32, "f64": np.uint64}[element]
        return float(np.asarray(int(number, 16), storage).view(parse_type(f"tensor<{element}>").dtype))
    return float(number) if element.startswith(("f", "bf")) else int(number)


OP = re.compile(r'^\s*(?:(%\w+)(?::\d+)? = )?"([\w.]+)"\(([^)]*)\)(?: <\{(.*)\}>)? : \((.*?)\) -> (.*)$')


def interpret(text: str, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Runs the generic text of one module in core form."""
    values: dict[str, tuple] = {}
    for line in text.splitlines():
        if line.strip().startswith("^bb0"):
            for name, value in zip(re.findall(r"%\w+", line), inputs, strict=True):
                values[name] = (value,)
            continue
        match = OP.match(line)
        if not match or match[2].startswith(("builtin", "func.func")):
            continue
        operands = []
        for name in filter(None, match[3].split(", ")):
            stem, _, index = name.partition("#")
            operands.append(values[stem][int(index or 0)])
        if match[2] == "func.return":
            return operands
        attrs = {}
        for part in re.split(r", (?=\w+ = )", match[4] or ""):
            name, _, value = part.partition(" = ")
            if name:
                attrs[name] = parse_value(value)
        result_types = [parse_type(t) for t in re.findall(r"tensor<[^>]*>", match[6])]
        op = CoreOp(match[2].removeprefix("sojourn."), attrs, result_types)
        with np.errstate(all="ignore"):
            results = KERNELS[op.name](op, *operands)
        results = results if isinstance(results, tuple) else (results,)
        results = tuple(np.asarray(r) for r in results)
        for value, expected in zip(results, result_types, strict=True):
            assert value.shape == expected.shape and value.dtype == expected.dtype, (line, value.shape, value.dtype)
        values[match[1]] = results
    raise AssertionError("no return")


def lower(texts: list[str], to: str = "core") -> tuple[dict[int, str], str]:
    """Generic core text by case number, for the cases that lower; and what was said about the others."""
    command = [str(ROOT / "build/bin/sojourn-opt"), "--split-input-file", "--mlir-print-op-generic",
               f"--sojourn-to-core=from=functional to={to}"]  # fmt: skip
    run = subprocess.run(command, input="// -----\n".join(texts), capture_output=True, text=True, check=False)
    done = {}
    for chunk in run.stdout.split("// -----"):
        name = re.search(r'sym_name = "case(\d+)"', chunk)
        if name:
            done[int(name[1])] = chunk
    return done, run.stderr


def compare(got: np.ndarray, expected: torch.Tensor, factor: float = 1) -> str:
    """Empty when equal within what the element type allows, else the difference."""
    tolerance = {torch.float64: 1e-9, torch.float32: 3e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
    if expected.dtype in tolerance:
        bound = tolerance[expected.dtype] * factor
        a, b = np.asarray(got, np.float64), to_numpy(expected).astype(np.float64)
        if a.shape == b.shape and np.allclose(a, b, rtol=bound, atol=bound, equal_nan=True):
            return ""
    else:
        a, b = got, to_numpy(expected)
        if a.shape == b.shape and np.array_equal(a, b):
            return ""
    return f"got {a.ravel()[:8]} expected {b.ravel()[:8]} shape {a.shape} {b.shape}"
