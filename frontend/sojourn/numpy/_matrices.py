# SPDX-License-Identifier: Apache-2.0
"""Arguments, products and parts of matrices, for `linalg`."""

from __future__ import annotations

import functools
import operator

import numpy
import torch
from numpy.linalg import LinAlgError

from . import _products as products
from ._array import wrap
from ._convert import axis_of, promoted, tensor, tensors
from ._dtypes import NUMPY, inexact, torch_dtype
from ._outputs import function_of, into
from ._ufuncs import ALL

__all__: list[str] = []  # those of `linalg` are no names of the namespace

_function = function_of(numpy.linalg)


# What is taken.


def stack(a, square: bool = False) -> torch.Tensor:
    """Matrices, whose dtype is still any."""
    found = tensor(a)
    if found.dim() < 2:
        raise LinAlgError(f"{found.dim()}-dimensional array given. Array must be at least two-dimensional")
    if square and found.shape[-1] != found.shape[-2]:
        raise LinAlgError("Last 2 dimensions of the array must be square")
    return found


def common(*given: torch.Tensor) -> list[torch.Tensor]:
    """In the dtype in which they are factored."""
    for x in given:
        if x.dtype == torch.float16:
            raise TypeError("array type float16 is unsupported in linalg")
    dtype = torch_dtype(numpy.result_type(*(NUMPY[inexact(x.dtype)] for x in given)))
    return [x.to(dtype) for x in given]


def matrices(a, square: bool = False) -> torch.Tensor:
    return common(stack(a, square))[0]


def triangle(UPLO) -> str:
    UPLO = UPLO.upper()
    if UPLO not in ("L", "U"):
        raise ValueError("UPLO argument must be 'L' or 'U'")
    return UPLO


def adjoint(x: torch.Tensor) -> torch.Tensor:
    return torch.conj(x.transpose(-1, -2)).resolve_conj()


def times(a, b):
    """Of weights per column with a matrix."""
    return a.to(b.dtype).unsqueeze(-2) * b


# Products.


@_function
def matrix_power(a, n):
    """The n-th power of matrices; a negative one of the inverse, in float64 of integers."""
    found = stack(a, square=True)
    try:
        n = operator.index(n)
    except TypeError as error:
        raise TypeError("exponent must be an integer") from error
    if n < 0:
        found, n = torch.linalg.inv(matrices(found)), -n
    if n == 0:
        one = torch.eye(found.shape[-1], dtype=found.dtype, device=found.device)
        return wrap(one.expand(found.shape).clone())
    if found.dtype != torch.bool:
        return wrap(torch.linalg.matrix_power(found, n))
    parts = []
    while n:
        if n & 1:
            parts.append(found)
        n >>= 1
        if n:
            found = products.summed(torch.matmul, found, found)
    return wrap(functools.reduce(lambda x, y: products.summed(torch.matmul, x, y), parts))


@_function
def multi_dot(arrays, *, out=None):
    """The product of two or more matrices in the cheapest order; the first and the last may be vectors."""
    if len(arrays) < 2:
        raise ValueError("Expecting at least two arrays.")
    given = promoted(*arrays)
    if len(given) == 2:
        return products.dot(wrap(given[0]), wrap(given[1]), out)
    for k, x in enumerate(given):
        if x.dim() != 2 and not (x.dim() == 1 and k in (0, len(given) - 1)):
            raise LinAlgError(f"{x.dim()}-dimensional array given. Array must be two-dimensional")
    for x, y in zip(given, given[1:]):
        if x.shape[-1] != y.shape[0]:
            raise ValueError(
                f"shapes {tuple(x.shape)} and {tuple(y.shape)} not aligned: {x.shape[-1]} (dim {x.dim() - 1}) != "
                f"{y.shape[0]} (dim 0)"
            )
    if given[0].dtype == torch.bool:
        made = functools.reduce(lambda x, y: products.summed(torch.matmul, x, y), given)
    else:
        made = torch.linalg.multi_dot(given)
    return into(made, out, exact=True)


@_function
def matmul(x1, x2, /):
    """The product of matrices."""
    return ALL["matmul"](x1, x2)


@_function
def vecdot(x1, x2, /, *, axis=-1):
    """The sum of products along an axis; elements of `x1` are conjugated."""
    return ALL["vecdot"](*(wrap(torch.movedim(x, axis_of(axis, x.dim()), -1)) for x in tensors(x1, x2)))


@_function
def outer(x1, x2, /):
    """All products of an element of one vector with one of another."""
    x1, x2 = map(wrap, tensors(x1, x2))
    if x1.ndim != 1 or x2.ndim != 1:
        raise ValueError(f"Input arrays must be one-dimensional, but they are x1.ndim={x1.ndim} and x2.ndim={x2.ndim}.")
    return products.outer(x1, x2)


@_function
def cross(x1, x2, /, *, axis=-1):
    """The vector product along an axis of length 3."""
    x1, x2 = map(wrap, tensors(x1, x2))
    sizes = [x.shape[axis_of(axis, x.ndim)] for x in (x1, x2)]
    if sizes != [3, 3]:
        raise ValueError(
            "Both input arrays must be (arrays of) 3-dimensional vectors, but they are "
            f"{sizes[0]} and {sizes[1]} dimensional instead."
        )
    return products.cross(x1, x2, axis=axis)


@_function
def tensordot(x1, x2, /, *, axes=2):
    """As `numpy.tensordot`."""
    a, b = map(wrap, tensors(x1, x2))
    return products.tensordot(a, b, axes)


# Parts of matrices.


@_function
def trace(x, /, *, offset=0, dtype=None):
    """The sum of the diagonal of each matrix; of integers in int64."""
    return products.trace(wrap(tensor(x)), offset, -2, -1, dtype)


@_function
def diagonal(x, /, *, offset=0):
    """The diagonal of each matrix: a view."""
    found = tensor(x)
    if found.dim() < 2:
        raise ValueError("diag requires an array of at least two dimensions")
    return wrap(torch.diagonal(found, operator.index(offset), -2, -1))


@_function
def matrix_transpose(x, /):
    """With the last two axes exchanged: a view."""
    found = tensor(x)
    if found.dim() < 2:
        raise ValueError(f"Input array must be at least 2-dimensional, but it is {found.dim()}")
    return wrap(found.transpose(-1, -2))
