# SPDX-License-Identifier: Apache-2.0
"""Python's operators on arrays are universal functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import torch

from ._array import ndarray
from ._convert import is_remote
from ._ufuncs import ALL

_BINARY = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide",
    "mod": "remainder", "divmod": "divmod", "pow": "power", "matmul": "matmul", "and": "bitwise_and",
    "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "left_shift", "rshift": "right_shift",
}  # fmt: skip
_COMPARE = {
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
}  # fmt: skip
_UNARY = {"neg": "negative", "pos": "positive", "abs": "absolute", "invert": "invert"}


def _taken(x) -> bool:
    """Whether an operator takes it: another class may know what to do with an array."""
    return is_remote(x) or isinstance(x, (int, float, complex, numpy.ndarray, numpy.generic, list, tuple, torch.Tensor))


def _forward(function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self, other):
        return function(self, other) if type(other) is ndarray or _taken(other) else NotImplemented

    return method


def _reflected(function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self, other):
        return function(other, self) if _taken(other) else NotImplemented

    return method


def _in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self, other):
        return function(self, other, out=(self,)) if _taken(other) else NotImplemented

    return method


def _alone(function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self):
        return function(self)

    return method


def _set(name: str, method: Callable[..., Any]) -> None:
    method.__name__ = name
    method.__qualname__ = f"ndarray.{name}"
    setattr(ndarray, name, method)


def install() -> None:
    """Adds the operators to the class."""
    for name, ufunc in {**_BINARY, **_COMPARE}.items():
        _set(f"__{name}__", _forward(ALL[ufunc]))
    for name, ufunc in _BINARY.items():
        _set(f"__r{name}__", _reflected(ALL[ufunc]))
        if name != "divmod":
            _set(f"__i{name}__", _in_place(ALL[ufunc]))
    for name, ufunc in _UNARY.items():
        _set(f"__{name}__", _alone(ALL[ufunc]))
