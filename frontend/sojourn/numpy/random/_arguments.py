# SPDX-License-Identifier: Apache-2.0
"""Arguments of random functions: sizes, parameters and their checks, dtypes, and targets."""

from __future__ import annotations

import operator
from typing import Any

import numpy
import torch

from .._array import ndarray, wrap
from .._convert import is_remote, tensor
from .._dtypes import NUMPY, TORCH, dtype_of

__all__ = ["CHECKS", "check", "finish", "float_dtype", "full_shape", "host_tensor", "shape_of", "target_shape"]

CHECKS = numpy.random.Generator(numpy.random.PCG64(0))  # NumPy's, whose numbers go unused
_VALID = {
    "geometric": (0.5,),
    "logseries": (0.5,),
    "zipf": (2.0,),
    "binomial": (1, 0.5),
    "negative_binomial": (1.0, 0.5),
}
_JOINT = ("hypergeometric", "triangular", "uniform")  # conditions on several parameters together


def shape_of(size) -> tuple[int, ...] | None:
    """An argument `size` as a shape."""
    if size is None:
        return None
    shape: tuple[int, ...]
    try:
        shape = (operator.index(size),)
    except TypeError:
        try:
            shape = tuple(operator.index(each) for each in size)
        except TypeError:
            raise TypeError(f"expected a sequence of integers or a single integer, got {str(size)!r}") from None
    if any(each < 0 for each in shape):
        raise ValueError("negative dimensions are not allowed")
    return shape


def full_shape(size, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of results for parameters of these shapes."""
    inner, asked = numpy.broadcast_shapes(*shapes), shape_of(size)
    if asked is None:
        return inner
    full = numpy.broadcast_shapes(asked, inner)
    if full != asked:
        raise ValueError(f"Output size {asked} is not compatible with broadcast dimensions of inputs {full}.")
    return asked


def host_tensor(x, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """A parameter as a tensor: of a remote one at its owner, of numbers on the CPU."""
    return tensor(x, dtype) if is_remote(x) else torch.from_numpy(numpy.array(x, dtype=NUMPY[dtype]))


def check(name: str, *parameters) -> None:
    """NumPy's errors for the parameters on the host."""
    hasRemote = any(map(is_remote, parameters))
    if hasRemote and name in _JOINT:
        return
    valid = _VALID.get(name, (1.0,) * len(parameters))
    asked = [instead if is_remote(x) else x for x, instead in zip(parameters, valid)]
    getattr(CHECKS, name)(*asked, size=(0, *numpy.broadcast_shapes(*map(numpy.shape, asked))))


def float_dtype(dtype, name: str) -> torch.dtype:
    found: Any = dtype_of(dtype) if isinstance(dtype, torch.dtype) else numpy.dtype(dtype)
    if found.name not in ("float32", "float64"):
        raise TypeError(f"Unsupported dtype {found!r} for {name}")
    return TORCH[found]


def target_shape(size, out, dtype: torch.dtype):
    """The size for results that go to `out`."""
    if out is None:
        return size
    if not is_remote(out):
        raise TypeError(f"out: expected an array at the owner, got {type(out).__name__}")
    if out.dtype not in (dtype, NUMPY[dtype]):
        raise TypeError(f"Supplied output array has the wrong type. Expected {NUMPY[dtype]}, got {out.dtype}")
    if size is not None and shape_of(size) != tuple(out.shape):
        raise ValueError("size must match out.shape when used together")
    return tuple(out.shape)


def finish(drawn: torch.Tensor, out=None) -> ndarray:
    """The array of the result, or `out` with it."""
    if out is None:
        return wrap(drawn)
    tensor(out).copy_(drawn)
    return out
