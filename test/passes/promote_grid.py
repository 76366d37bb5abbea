# SPDX-License-Identifier: Apache-2.0
"""Goal: both rule sets of sojourn-promote agree with the libraries themselves, over every pair of element types and
every pairing of tensor, 0-dim tensor and Python number.
Method: each call is typed with the result that torch or NumPy returns for it; the pass compares and refuses to differ.
A second run with every type wrong must be refused in each call, so that silence means agreement."""

import itertools
import subprocess
import sys
import warnings

import ml_dtypes
import numpy as np
import torch

warnings.simplefilter("ignore")
ELEMENTS = {
    "i1": ("bool", bool),
    "ui8": ("uint8", None),
    "i8": ("int8", None),
    "i16": ("int16", None),
    "i32": ("int32", None),
    "i64": ("int64", int),
    "f16": ("float16", None),
    "bf16": ("bfloat16", None),
    "f32": ("float32", None),
    "f64": ("float64", float),
    "complex<f32>": ("complex64", None),
}
NAMES = {numpy_name: mlir for mlir, (numpy_name, _) in ELEMENTS.items()} | {"complex128": "complex<f64>"}
NUMBERS = {"i1": True, "i64": 2, "f64": 2.5}
BINARY = {
    "torch": {
        "add": torch.add,
        "mul": torch.mul,
        "div": torch.div,
        "pow": torch.pow,
        "eq": torch.eq,
        "lt": torch.lt,
        "maximum": torch.maximum,
        "remainder": torch.remainder,
        "where": lambda a, b: torch.where(torch.ones(2, dtype=torch.bool), a, b),
        "cat": lambda a, b: torch.cat([a, b]),
    },
    "numpy": {
        "add": np.add,
        "mul": np.multiply,
        "div": np.true_divide,
        "eq": np.equal,
        "lt": np.less,
        "maximum": np.maximum,
        "where": lambda a, b: np.where(np.ones(2, dtype=bool), a, b),
        "cat": lambda a, b: np.concatenate([a, b]),
    },
}
UNARY = {
    "torch": {
        "exp": torch.exp,
        "sqrt": torch.sqrt,
        "sum": torch.sum,
        "prod": torch.prod,
        "cumsum": lambda a: torch.cumsum(a, 0),
        "sigmoid": torch.sigmoid,
        "logical_not": torch.logical_not,
        "any": torch.any,
    },
    "numpy": {
        "exp": np.exp,
        "sqrt": np.sqrt,
        "sum": np.sum,
        "prod": np.prod,
        "cumsum": lambda a: np.cumsum(a, 0),
        "logical_not": np.logical_not,
        "any": np.any,
    },
}


def make(library, element, kind):
    if kind == "number":
        return NUMBERS[element]
    name = ELEMENTS[element][0]
    shape = [2] if kind == "tensor" else []
    if library == "torch":
        return torch.ones(shape, dtype=getattr(torch, name))
    return np.ones(shape, dtype=ml_dtypes.bfloat16 if name == "bfloat16" else name)


def element_of(result):
    return NAMES.get(str(result.dtype).removeprefix("torch."))


def mlir_type(element, kind):
    return f"!sojourn.scalar<{element}>" if kind == "number" else f"tensor<{'2x' if kind == 'tensor' else ''}{element}>"


def calls(library):
    """(operator, operand (element, kind) list, result element) for all that the library itself accepts."""
    values = [(e, k) for e in ELEMENTS for k in ("tensor", "zero_dim")] + [(e, "number") for e in NUMBERS]
    for op, function in BINARY[library].items():
        for a, b in itertools.product(values, values):
            if (a[1] == "number" and b[1] == "number") or (op == "cat" and (a[1], b[1]) != ("tensor", "tensor")):
                continue
            if library == "torch" and a[1] == "number" and op not in ("where", "pow"):
                continue  # torch's functions take a tensor first.
            if library == "torch" and b[1] == "number" and op == "maximum":
                continue
            if library == "numpy" and "bf16" in (a[0], b[0]) and op in ("where", "cat") and a[0] != b[0]:
                continue  # NumPy asks the extension type there in an order of its own.
            try:
                result = element_of(function(make(library, *a), make(library, *b)))
            except (TypeError, RuntimeError, ValueError):
                continue
            if result:
                yield op, [a, b], result
    for op, function in UNARY[library].items():
        for element in ELEMENTS:
            if op in ("logical_not", "any") and "complex" in element:
                continue  # Refused.
            try:
                result = element_of(function(make(library, element, "tensor")))
            except (TypeError, RuntimeError, ValueError):
                continue
            if result:
                yield op, [(element, "tensor")], result


def text(library, op, operands, result):
    names = {"where": ["self", "other"], "pow": ["self", "exponent"], "cat": ["tensors"]}.get(op, ["self", "other"])
    args = ", ".join(f"%a{i}: {mlir_type(*o)}" for i, o in enumerate(operands))
    refs = [f"#sojourn.operand<{i}>" for i in range(len(operands))]
    if op == "cat":
        refs = [f"[{', '.join(refs)}]"]
    quoted = ", ".join(f'"{n}"' for n in names[: len(refs)])
    rank = "" if op in ("sum", "prod", "any") or all(k != "tensor" for _, k in operands) else "2x"
    return (
        f'module attributes {{sojourn.promotion = "{library}"}} {{ func.func @step({args}) {{\n'
        f'%r = sojourn.aten "aten.{op}"({", ".join(f"%a{i}" for i in range(len(operands)))}) '
        f"{{args = [{', '.join(refs)}], names = [{quoted}]}} : ({', '.join(mlir_type(*o) for o in operands)}) -> "
        f"tensor<{rank}{result}>\nreturn }} }}\n"
    )


def run(modules, chunk=300):
    """What sojourn-opt says about the modules, all runs together; in chunks, as splitting a long input is slow."""
    command = ["sojourn-opt", "-split-input-file", "--sojourn-promote", "-o", "/dev/null"]
    said = []
    for start in range(0, len(modules), chunk):
        text = "// -----\n".join(modules[start : start + chunk])
        done = subprocess.run(command, input=text, capture_output=True, text=True)
        assert (done.returncode == 0) == ("error:" not in done.stderr), done.stderr
        said.append(done.stderr)
    return "".join(said)


def differences():
    """Markdown: every pair of operands for which the two libraries return another element type."""
    results = {library: {(op, *operands): r for op, operands, r in calls(library)} for library in ("torch", "numpy")}
    shared = [key for key in results["torch"] if key in results["numpy"]]
    print("# Where torch and NumPy promote differently\n")
    print(
        "Of the calls that both accept, over all element types. `2x` is a tensor, no prefix a 0-dim tensor, `number` a"
    )
    print("Python number. `dialect/elements/Promotion.cpp` implements both columns; operands in either order.")
    spelled = {"tensor": "2x{}", "zero_dim": "{}", "number": "number {}"}
    tables = {}
    for op in [*BINARY["numpy"], *UNARY["numpy"]]:
        rows = set()
        for key in shared:
            torch_type, numpy_type = results["torch"][key], results["numpy"][key]
            if key[0] == op and torch_type != numpy_type:
                operands = sorted(
                    (spelled[kind].format(element) for element, kind in key[1:]), key=lambda o: (len(o), o)
                )
                rows.add(f"| {', '.join(reversed(operands))} | {torch_type} | {numpy_type} |")
        tables.setdefault("\n".join(sorted(rows)), []).append(op)
    for rows, ops in tables.items():
        print(f"\n## {', '.join(ops)}\n")
        print(f"| operands | torch | NumPy |\n|---|---|---|\n{rows}" if rows else "No difference.")


if __name__ == "__main__":
    library = sys.argv[1]
    if library == "differences":
        differences()
        sys.exit()
    grid = list(calls(library))
    right = run([text(library, *c) for c in grid])
    assert not right, f"{right.count('error:')} of {len(grid)} calls differ from {library}\n{right[:6000]}"
    wrong = run([text(library, op, operands, "i16" if result != "i16" else "i8") for op, operands, result in grid])
    assert wrong.count("has a recorded result of") == len(grid), "a wrong type went through"
    print(f"{len(grid)} calls agree with {library}")
