# SPDX-License-Identifier: Apache-2.0
"""Methods of arrays that are functions of the namespace."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from ._array import ndarray

_NAMES = (
    "all", "any", "argmax", "argmin", "argpartition", "argsort", "choose", "clip", "compress", "conj", "conjugate",
    "cumprod", "cumsum", "diagonal", "dot", "max", "mean", "min", "nonzero", "prod", "put", "repeat", "round",
    "searchsorted", "squeeze", "std", "sum", "swapaxes", "take", "trace", "var",
)  # fmt: skip
_NO_MEMORY = {
    "byteswap": "its bytes are the owner's", "data": "it has no memory in this process", "ctypes": "it has no memory in this process",
    "dump": "numpy.asarray(x).dump(file) reads and writes it", "dumps": "numpy.asarray(x).dumps() reads it",
    "tofile": "numpy.asarray(x).tofile(file) reads and writes it", "setflags": "an owner's arrays have no flags",
    "getfield": "an owner's arrays have no fields", "setfield": "an owner's arrays have no fields",
    "flags": "an owner's arrays have no flags", "base": "views share memory at the owner",
}  # fmt: skip


def _method(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def method(self, *args, **kwargs):
        return function(self, *args, **kwargs)

    method.__qualname__ = f"ndarray.{name}"
    return method


def _compress(function: Callable[..., Any]) -> Callable[..., Any]:
    # The function takes the array second.
    def method(self, condition, axis=None, out=None):
        return function(condition, self, axis, out)

    return method


def _in_place(space: Mapping[str, Any]) -> None:
    """Sorting and partitioning of the array itself."""

    def sort(self, axis=-1, kind=None, order=None, *, stable=None):
        self._t.copy_(space["sort"](self, axis, kind, order, stable=stable)._t)

    def partition(self, kth, axis=-1, kind="introselect", order=None):
        self._t.copy_(space["partition"](self, kth, axis, kind, order)._t)

    def resize(self, *new_shape, refcheck=True):
        raise ValueError("a remote array cannot be resized in place; np.resize(x, shape) makes another one")

    for method in (sort, partition, resize):
        method.__qualname__ = f"ndarray.{method.__name__}"
        setattr(ndarray, method.__name__, method)


def _refused(name: str, reason: str) -> property:
    def get(self):
        raise AttributeError(f"a remote array has no {name}: {reason}")

    return property(get)


def install(space: Mapping[str, Any]) -> None:
    """Adds the methods to the class. `space`: the functions by name."""
    for name in _NAMES:
        setattr(ndarray, name, _compress(space[name]) if name == "compress" else _method(name, space[name]))
    _in_place(space)
    for name, reason in _NO_MEMORY.items():
        setattr(ndarray, name, _refused(name, reason))
