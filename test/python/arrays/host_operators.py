# SPDX-License-Identifier: Apache-2.0
"""What NumPy and torch give for CPU tensors beside arrays, as JSON on standard output.

A program of its own: one process runs it with Sojourn (argument "sojourn"), another without.
"""

import copy
import functools
import itertools
import json
import sys
import warnings

import numpy
import torch

if sys.argv[1:] == ["sojourn"]:
    import sojourn  # noqa: F401

warnings.simplefilter("ignore")
ARRAYS = {
    "f8": numpy.array([1.5, -2.0]), "f4": numpy.array([1.5, -2.0], numpy.float32),
    "i4": numpy.array([3, 4], numpy.int32), "b1": numpy.array([True, False]), "no dims": numpy.array(2.0),
    "square": numpy.ones((2, 2)), "float64": numpy.float64(2), "float32": numpy.float32(2), "int64": numpy.int64(3),
    "int16": numpy.int16(3), "bool": numpy.bool_(True), "masked": numpy.ma.masked_array([1.0, 2.0]),
    "matrix": numpy.matrix([[1.0, 2.0]]),
}  # fmt: skip
TENSORS = {
    "t f64": torch.tensor([1.5, -2.0], dtype=torch.float64), "t f32": torch.tensor([1.5, -2.0]),
    "t i64": torch.tensor([3, 4]), "t bool": torch.tensor([True, False]), "t no dims": torch.tensor(2.0),
    "t u8": torch.tensor([3, 4], dtype=torch.uint8), "parameter": torch.nn.Parameter(torch.tensor([1.0, 2.0])),
}  # fmt: skip
VALUES = {**ARRAYS, **TENSORS}
SIGNS = ("+ - * / // % ** @ & | ^ << >> < <= == != > >= += -= *= /= //= %= **= &= |= ^= <<= >>=").split()
FUNCTIONS = """mean sum prod concatenate stack sort median argmax where clip std round dot reshape allclose array_equal linalg.norm
linalg.inv fft.fft shape result_type asarray array zeros_like histogram unique einsum""".split()


def shown(result) -> str:
    if isinstance(result, torch.Tensor):
        return f"{type(result).__name__} {result.dtype} {result.tolist()} {result.requires_grad}"
    if isinstance(result, (numpy.ndarray, numpy.generic)):
        return f"{type(result).__name__} {result.dtype} {result.tolist()}"
    return str(list(map(shown, result))) if isinstance(result, (tuple, list)) else f"{type(result).__name__} {result}"


def tried(function) -> str:
    try:
        return shown(function())
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def operated(sign: str, x, y):
    names = {"x": x, "y": y}
    if sign.endswith("=") and sign not in ("<=", "==", "!=", ">="):
        exec(f"x {sign} y", names)
        return names["x"]
    return eval(f"x {sign} y", names)


def main() -> None:
    results = {}
    for sign in SIGNS:
        for a, b in itertools.chain(itertools.product(TENSORS, ARRAYS), itertools.product(ARRAYS, TENSORS)):
            x, y = copy.deepcopy(VALUES[a]), copy.deepcopy(VALUES[b])
            results[f"{a} {sign} {b}"] = tried(lambda: operated(sign, x, y))
    for name in sorted(name for name in dir(numpy) if isinstance(getattr(numpy, name), numpy.ufunc)):
        function = getattr(numpy, name)
        kinds = VALUES if function.nin == 1 else {k: VALUES[k] for k in ("f8", "i4", "float32", "matrix", *TENSORS)}
        for operands in itertools.product(kinds, repeat=function.nin):
            if any(each in TENSORS for each in operands):
                results[f"{name}{operands}"] = tried(lambda: function(*(copy.deepcopy(VALUES[k]) for k in operands)))
    for method, arguments in (("reduce", ()), ("accumulate", ()), ("outer", (ARRAYS["f8"],)), ("at", ([0, 0], 1))):
        for name in TENSORS:
            value = copy.deepcopy(TENSORS[name])
            results[f"add.{method} {name}"] = tried(lambda: getattr(numpy.add, method)(value, *arguments))
    for name in FUNCTIONS:
        function = functools.reduce(getattr, name.split("."), numpy)
        for key, value in TENSORS.items():
            for number, given in enumerate(((value,), ([value, value],), (value, value), (value, ARRAYS["f8"]))):
                results[f"{name} {key} {number}"] = tried(lambda: function(*given))
    for key, value in TENSORS.items():
        for name in ("__array_ufunc__", "__array_function__", "__array_namespace__"):
            results[f"{key} has {name}"] = str(hasattr(value, name))
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
