# SPDX-License-Identifier: Apache-2.0
"""Products of vectors, matrices and tensors. Those of integers are exact and wrap, those of bools are "any of both"."""

from __future__ import annotations

import operator
import string
from collections.abc import Callable, Sequence
from typing import Any

import numpy
import torch

from ..errors import Error
from ._array import wrap
from ._casts import cast
from ._convert import axis_of, function, promoted, tensor
from ._dtypes import FLOATS, NUMPY, torch_dtype
from ._outputs import into
from ._ufuncs import ALL

__all__ = ["cross", "dot", "einsum", "einsum_path", "inner", "kron", "outer", "tensordot", "trace", "vdot"]


def summed(product: Callable[..., torch.Tensor], *operands: torch.Tensor) -> torch.Tensor:
    """A sum of products in the dtype of the operands, which is one."""
    dtype = operands[0].dtype
    if dtype == torch.bool:
        return product(*(x.to(torch.int32) for x in operands)) != 0
    made = product(*operands)
    return made if made.dtype == dtype else made.to(dtype)


def _contracted(a: torch.Tensor, b: torch.Tensor, axis: int) -> torch.Tensor:
    """The sum over the last axis of `a` and an axis of `b`, both of at least one dimension."""
    axis %= b.dim()
    if a.shape[-1] != b.shape[axis]:
        raise ValueError(
            f"shapes {tuple(a.shape)} and {tuple(b.shape)} not aligned: {a.shape[-1]} (dim {a.dim() - 1}) != "
            f"{b.shape[axis]} (dim {axis})"
        )
    if b.dim() <= 2 and axis == max(0, b.dim() - 2):
        return summed(torch.matmul, a, b)
    return summed(lambda x, y: torch.tensordot(x, y, ([-1], [axis])), a, b)


@function
def dot(a, b, out=None):
    """The sum of products over the last axis of `a` and the last but one of `b`; the product if one has no axes."""
    a, b = _operands(a, b)
    if a.dim() == 0 or b.dim() == 0:
        return into(ALL["multiply"](wrap(a), wrap(b))._t, out, exact=True)
    return into(_contracted(a, b, -2 if b.dim() > 1 else -1), out, exact=True)


def _operands(a, b) -> list[torch.Tensor]:
    """Of one dtype; numbers are not weak in products."""
    return promoted(*(numpy.asarray(x) if isinstance(x, (bool, int, float, complex)) else x for x in (a, b)))


@function
def inner(a, b, /):
    """The sum of products over the last axes; the product if one has no axes."""
    a, b = _operands(a, b)
    if a.dim() == 0 or b.dim() == 0:
        return ALL["multiply"](wrap(a), wrap(b))
    return wrap(_contracted(a, b, -1))


@function
def outer(a, b, out=None):
    """All products of an element of `a` with one of `b`: [size of a, size of b]."""
    a, b = _operands(a, b)
    return into(ALL["multiply"](wrap(a.reshape(-1, 1)), wrap(b.reshape(1, -1)))._t, out)


@function
def vdot(a, b, /):
    """The sum of products over all elements; those of `a` are conjugated."""
    a, b = (x.reshape(-1) for x in _operands(a, b))
    if a.shape != b.shape:
        raise ValueError(f"cannot reshape array of size {b.shape[0]} into shape {tuple(a.shape)}")
    return wrap(summed(torch.matmul, torch.conj(a).resolve_conj() if a.is_complex() else a, b))


@function
def tensordot(a, b, axes=2):
    """The sum of products over pairs of axes: the last of `a` with the first of `b`, or those of two lists."""
    a, b = _operands(a, b)
    try:
        left, right = axes
    except TypeError:
        count = operator.index(axes)
        left, right = range(a.dim() - count, a.dim()), range(count)
    pairs: list[list[int]] = []
    for given, x in ((left, a), (right, b)):
        given = list(given) if isinstance(given, Sequence) or hasattr(given, "__iter__") else [given]
        if not all(-x.dim() <= each < x.dim() for each in given):
            raise IndexError(f"tensordot: axes {given} are not among those of an array of {x.dim()} dimensions")
        pairs.append([int(each) % x.dim() for each in given])
    if any(len(set(each)) != len(each) for each in pairs):
        raise ValueError("duplicate axes are not allowed in tensordot")
    if [a.shape[each] for each in pairs[0]] != [b.shape[each] for each in pairs[1]]:
        raise ValueError("shape-mismatch for sum")
    return wrap(summed(lambda x, y: torch.tensordot(x, y, pairs), a, b))


@function
def kron(a, b):
    """The Kronecker product: `a` with each element replaced by it times `b`."""
    a, b = _operands(a, b)
    ndim = max(a.dim(), b.dim())
    left, right = ((1,) * (ndim - x.dim()) + tuple(x.shape) for x in (a, b))
    apart = [x for size in left for x in (size, 1)], [x for size in right for x in (1, size)]
    product = ALL["multiply"](wrap(a.reshape(apart[0])), wrap(b.reshape(apart[1])))._t
    return wrap(product.reshape([m * n for m, n in zip(left, right)]))


@function
def cross(a, b, axisa=-1, axisb=-1, axisc=-1, axis=None):
    """The vector product over axes of length 3, or 2: a third element is 0 then.

    Of two vectors of length 2 only the third element of the product is returned.
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = _operands(a, b)
    if a.dim() < 1 or b.dim() < 1:
        raise ValueError("At least one array has zero dimension")
    a, b = (torch.movedim(x, axis_of(k, x.dim()), -1) for x, k in ((a, axisa), (b, axisb)))
    if a.shape[-1] not in (2, 3) or b.shape[-1] not in (2, 3):
        raise ValueError(
            "incompatible dimensions for cross product\n"
            f"(dimension must be 2 or 3, not {a.shape[-1]} and {b.shape[-1]})"
        )
    shape = numpy.broadcast_shapes(a.shape[:-1], b.shape[:-1])
    if a.dtype == torch.bool:
        raise TypeError("numpy boolean subtract, the `-` operator, is not supported; convert to integers first")
    if a.shape[-1] == b.shape[-1] == 2:
        return wrap(a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0])
    axisc = axis_of(axisc, len(shape) + 1)
    a, b = (x if x.shape[-1] == 3 else torch.nn.functional.pad(x, (0, 1)) for x in (a, b))
    made = torch.linalg.cross(a.expand(*shape, 3), b.expand(*shape, 3), dim=-1)
    return wrap(torch.movedim(made, -1, axisc))


@function
def trace(a, offset=0, axis1=0, axis2=1, dtype=None, out=None):
    """The sum of a diagonal; of bools and integers in int64 (NumPy has uint64 of uint8)."""
    found = tensor(a)
    if found.dim() < 2:
        raise ValueError("diag requires an array of at least two dimensions")
    axis1, axis2 = axis_of(axis1, found.dim()), axis_of(axis2, found.dim())
    if axis1 == axis2:
        raise ValueError("axis1 and axis2 cannot be the same")
    wanted = torch_dtype(dtype) if dtype is not None else found.dtype
    if dtype is None and wanted not in FLOATS and not wanted.is_complex:
        wanted = torch.int64
    diagonal = cast(torch.diagonal(found, operator.index(offset), axis1, axis2), wanted)
    made = torch.sum(diagonal.to(torch.int64) if wanted == torch.bool else diagonal, -1)
    return into(made.to(wanted), out)


# Sums in Einstein's notation.

_LETTERS = string.ascii_uppercase + string.ascii_lowercase


def _subscripts(labels) -> str:
    """Of a list of numbers and Ellipsis."""
    try:
        return "".join("..." if label is Ellipsis else _LETTERS[operator.index(label)] for label in labels)
    except IndexError:
        raise ValueError("subscript is not within the valid range [0, 52)") from None


def _notation(operands) -> tuple[str, list[Any]]:
    """The text and the arrays of either way to call einsum."""
    if len(operands) < 2:
        raise ValueError(
            "must specify the einstein sum subscripts string and at least one operand, or at least one operand and its "
            "corresponding subscripts list"
        )
    if isinstance(operands[0], str):
        return operands[0].replace(" ", ""), list(operands[1:])
    arrays = list(operands[: len(operands) // 2 * 2 : 2])
    text = ",".join(_subscripts(labels) for labels in operands[1::2])
    return (text + "->" + _subscripts(operands[-1]) if len(operands) % 2 else text), arrays


def _checked(text: str, arrays: list[torch.Tensor]) -> None:
    """Raises what NumPy raises for a text that does not fit the arrays."""
    inputs, arrow, output = text.partition("->")
    parts = inputs.split(",")
    if len(parts) != len(arrays):
        more = "more" if len(arrays) > len(parts) else "fewer"
        raise ValueError(f"{more} operands provided to einstein sum function than specified in the subscripts string")
    sizes: dict[str, int] = {}
    for number, (part, array) in enumerate(zip(parts, arrays)):
        names = part.replace("...", "", 1)
        if not all(name in _LETTERS for name in names):
            raise ValueError(f"invalid subscripts {part!r} in einstein sum, subscripts must be letters")
        if len(names) > array.dim():
            raise ValueError(f"einstein sum subscripts string contains too many subscripts for operand {number}")
        if len(names) < array.dim() and "..." not in part:
            raise ValueError(
                "operand has more dimensions than subscripts given in einstein sum, but no '...' ellipsis provided to "
                "broadcast the extra dimensions."
            )
        before, _, after = part.partition("...")
        shape = list(array.shape)
        for name, size in [*zip(before, shape), *(zip(after[::-1], shape[::-1]))]:
            if sizes.setdefault(name, size) == 1:
                sizes[name] = size
            if size not in (1, sizes[name]):
                raise ValueError(
                    f"operands could not be broadcast together: subscript '{name}' is of {sizes[name]} and of {size}"
                )
    names = output.replace("...", "", 1)
    if any(name not in sizes for name in names):
        raise ValueError("einstein sum subscripts string included an output subscript which never appeared in an input")
    if len(set(names)) != len(names):
        raise ValueError("einstein sum subscripts string includes an output subscript multiple times")
    if (
        arrow
        and "..." not in output
        and any("..." in part and len(part) - 3 < array.dim() for part, array in zip(parts, arrays))
    ):
        raise ValueError(
            "output has more dimensions than subscripts given in einstein sum, but no '...' ellipsis provided to "
            "broadcast the extra dimensions."
        )


@function
def einsum(*operands, out=None, optimize=False, **kwargs):
    """Sums of products by a text such as "ij,jk->ik", or with lists of numbers: `einsum(a, [0, 1], b, [1, 2])`.

    Keywords `dtype` and `casting` as NumPy's; `order` and `optimize` mean nothing at an owner.
    """
    dtype, casting = kwargs.pop("dtype", None), kwargs.pop("casting", "safe")
    kwargs.pop("order", None)
    if kwargs:
        raise TypeError(f"Did not understand the following kwargs: {sorted(kwargs)}")
    text, given = _notation(operands)
    given = [numpy.asarray(x) if isinstance(x, (bool, int, float, complex)) else x for x in given]
    arrays = promoted(*given)
    if dtype is not None:
        wanted = torch_dtype(dtype)
        for number, x in enumerate(given):
            held = tensor(x, device=arrays[0].device).dtype
            if not numpy.can_cast(NUMPY[held], NUMPY[wanted], casting):
                raise TypeError(
                    f"Iterator operand {number} dtype could not be cast from {NUMPY[held]!r} to {NUMPY[wanted]!r} "
                    f"according to the rule {casting!r}"
                )
        arrays = [cast(x, wanted) for x in arrays]
    _checked(text, arrays)
    try:
        return into(summed(lambda *x: torch.einsum(text, *x), *arrays), out)
    except Error:
        raise
    except RuntimeError as error:
        raise ValueError(str(error)) from None


@function
def einsum_path(*operands, optimize="greedy", einsum_call=False):
    """NumPy's own answer for the shapes: an order in which to multiply, and a text about its cost."""
    text, arrays = _notation(operands)
    shapes = [x.shape if hasattr(x, "shape") else numpy.shape(x) for x in arrays]
    blanks = [numpy.broadcast_to(numpy.zeros(()), tuple(shape)) for shape in shapes]
    return numpy.einsum_path(text, *blanks, optimize=optimize, einsum_call=einsum_call)
