# SPDX-License-Identifier: Apache-2.0
"""Shapes, axes and broadcasting; conversions that keep the elements; questions that need no values."""

from __future__ import annotations

import itertools
import math
import operator

import numpy
import torch

from ._array import ndarray, wrap
from ._casts import cast, cast_host, require_cast
from ._convert import asarray, axes_of, axis_of, device_of, function, is_remote, tensor, tensors
from ._dtypes import NUMPY

__all__ = [
    "astype",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "copyto",
    "expand_dims",
    "iscomplexobj",
    "isfortran",
    "isrealobj",
    "matrix_transpose",
    "may_share_memory",
    "moveaxis",
    "ndim",
    "permute_dims",
    "ravel",
    "require",
    "reshape",
    "rollaxis",
    "shape",
    "shares_memory",
    "size",
    "squeeze",
    "swapaxes",
    "transpose",
]

broadcast_shapes = numpy.broadcast_shapes


def stand_in(of: torch.Tensor) -> numpy.ndarray:
    """A host array of the shape and the dtype, without memory: NumPy's checks and error texts for a remote one."""
    return numpy.broadcast_to(numpy.zeros((), NUMPY[of.dtype]), tuple(of.shape))


def sizes_of(shape) -> tuple[int, ...]:
    """An argument `shape`: an integer or a sequence."""
    try:
        return (operator.index(shape),)
    except TypeError:
        return tuple(operator.index(n) for n in shape)


def reversed_axes(x: torch.Tensor) -> torch.Tensor:
    """The transpose, of any number of dimensions."""
    return x.permute(tuple(range(x.dim() - 1, -1, -1)))


def fortran(x: torch.Tensor) -> torch.Tensor:
    """Likewise in memory of Fortran's order."""
    return reversed_axes(reversed_axes(x).contiguous())


def _is_fortran(x: torch.Tensor) -> bool:
    return reversed_axes(x).is_contiguous()


def _order(order, known: str = "CFAK") -> str:
    name = "C" if order is None else str(order).upper()
    if len(name) != 1 or name not in "CFAK":
        raise ValueError(f"order must be one of 'C', 'F', 'A', or 'K' (got {order!r})")
    if name not in known:
        raise ValueError(f"order {name!r} is not permitted for reshaping")
    return name


# Shapes.


@function
def reshape(a, /, shape, order="C", *, copy=None) -> ndarray:
    """The array in another shape: a view where the memory allows it, else a copy; with `copy=True` always a copy.

    One size may be -1. `order`: "C", "F" or "A". ValueError if `copy=False` and a copy is needed.
    """
    if order == "C" and copy is None and type(a) is ndarray and type(shape) is tuple:
        try:
            return wrap(a._t.reshape(shape))
        except (RuntimeError, TypeError):
            pass  # sizes that do not fit or are no integers; told below
    found = tensor(a)
    sizes = tuple(max(n, -1) for n in sizes_of(shape))
    order = _order(order, "CFA")
    turned = order == "F" or (order == "A" and _is_fortran(found) and not found.is_contiguous())
    base = reversed_axes(found) if turned else found
    try:
        if copy is False:
            try:
                made = base.view(sizes[::-1] if turned else sizes)
            except RuntimeError:
                base.reshape(sizes[::-1] if turned else sizes)
                raise ValueError("Unable to avoid creating a copy while reshaping.") from None
        else:
            base = base.clone() if copy else base
            made = base.reshape(sizes[::-1] if turned else sizes)
    except RuntimeError:
        numpy.reshape(stand_in(found), shape)
        raise
    return wrap(reversed_axes(made) if turned else made)


@function
def ravel(a, order="C") -> ndarray:
    """The elements in a row: a view where they lie so in memory, else a copy. `order`: "C", "F", "A" or "K"."""
    found = tensor(a)
    order = _order(order)
    if order == "K":
        # Memory's order: the axis of the widest stride first.
        strides = found.stride()
        found = found.permute(sorted(range(found.dim()), key=lambda axis: -strides[axis]))
    elif order == "F" or (order == "A" and _is_fortran(found)):
        found = reversed_axes(found)
    return wrap(found.reshape(-1))


@function
def expand_dims(a, axis) -> ndarray:
    """A view with new axes of size 1 at `axis`, an integer or a tuple of positions in the result."""
    found = tensor(a)
    new = axis if isinstance(axis, (tuple, list)) else (axis,)
    for each in sorted(axes_of(tuple(new), found.dim() + len(new))):
        found = found.unsqueeze(each)
    return wrap(found)


@function
def squeeze(a, axis=None) -> ndarray:
    """A view without the axes of size 1, or without those of `axis`. ValueError if one has another size."""
    found = tensor(a)
    if axis is None or (found.dim() == 0 and axis in (0, -1)):
        return wrap(found.squeeze())
    axes = axes_of(axis, found.dim())
    if any(found.shape[each] != 1 for each in axes):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return wrap(found.squeeze(axes))


def _at_least(arrays, extend):
    made = tuple(wrap(extend(each)) for each in tensors(*arrays))
    return made[0] if len(made) == 1 else made


@function
def atleast_1d(*arys):
    """Arrays of one dimension or more: one, or a tuple of several."""
    return _at_least(arys, lambda x: x.reshape(1) if x.dim() == 0 else x)


@function
def atleast_2d(*arys):
    """Arrays of two dimensions or more: a vector becomes a row."""
    return _at_least(arys, lambda x: x.reshape((1,) * (2 - x.dim()) + tuple(x.shape)) if x.dim() < 2 else x)


@function
def atleast_3d(*arys):
    """Arrays of three dimensions or more: (n,) becomes (1, n, 1), (m, n) becomes (m, n, 1)."""

    def extend(x):
        if x.dim() >= 3:
            return x
        return x.unsqueeze(-1) if x.dim() == 2 else x.reshape(1, -1, 1)

    return _at_least(arys, extend)


# Axes.


@function
def transpose(a, axes=None) -> ndarray:
    """A view with the axes in the order of `axes`, by default reversed."""
    found = tensor(a)
    if axes is None:
        return wrap(reversed_axes(found))
    count = found.dim()
    order = [operator.index(each) for each in ((axes,) if isinstance(axes, (int, numpy.integer)) else axes)]
    if len(order) != count:
        raise ValueError("axes don't match array")
    order = [axis_of(each, count) for each in order]
    if len(set(order)) != count:
        raise ValueError("repeated axis in transpose")
    return wrap(found.permute(order))


@function
def permute_dims(a, axes=None) -> ndarray:
    """A view with the axes in the order of `axes`, by default reversed."""
    return transpose(a, axes)


@function
def matrix_transpose(x, /) -> ndarray:
    """A view with the last two axes exchanged. ValueError below two dimensions."""
    found = tensor(x)
    if found.dim() < 2:
        raise ValueError(f"Input array must be at least 2-dimensional, but it is {found.dim()}")
    return wrap(found.transpose(-1, -2))


@function
def moveaxis(a, source, destination) -> ndarray:
    """A view with the axes `source` at the places `destination`; the others keep their order."""
    found = tensor(a)
    try:
        origins = axes_of(source, found.dim())
        targets = axes_of(destination, found.dim())
    except numpy.exceptions.AxisError:
        numpy.moveaxis(stand_in(found), source, destination)
        raise
    if len(origins) != len(targets):
        raise ValueError("`source` and `destination` arguments must have the same number of elements")
    order = [axis for axis in range(found.dim()) if axis not in origins]
    for target, origin in sorted(zip(targets, origins)):
        order.insert(target, origin)
    return wrap(found.permute(order))


@function
def rollaxis(a, axis, start=0) -> ndarray:
    """A view with one axis moved before the axis `start`."""
    found = tensor(a)
    count = found.dim()
    axis = axis_of(axis, count)
    begin = operator.index(start)
    if not -count <= begin <= count:
        numpy.rollaxis(stand_in(found), axis, start)
    begin += count if begin < 0 else 0
    order = [each for each in range(count) if each != axis]
    order.insert(begin - 1 if axis < begin else begin, axis)
    return wrap(found.permute(order))


@function
def swapaxes(a, axis1, axis2) -> ndarray:
    """A view with two axes exchanged."""
    found = tensor(a)
    return wrap(found.transpose(axis_of(axis1, found.dim()), axis_of(axis2, found.dim())))


# Broadcasting.


@function
def broadcast_to(array, shape, subok=False) -> ndarray:
    """A view of a larger shape, whose elements share memory. Writing into it raises RuntimeError; NumPy's is read-only."""
    found = tensor(array)
    sizes = sizes_of(shape)
    if min(sizes, default=0) < 0:
        raise ValueError("all elements of broadcast shape must be non-negative")
    try:
        return wrap(found.expand(sizes))
    except RuntimeError:
        numpy.broadcast_to(stand_in(found), sizes)
        raise


@function
def broadcast_arrays(*args, subok=False) -> tuple[ndarray, ...]:
    """Views of the common shape. ValueError if the shapes do not fit."""
    found = tensors(*args)
    common = numpy.broadcast_shapes(*(tuple(each.shape) for each in found))
    return tuple(wrap(each.expand(common)) for each in found)


# Questions that need no values.


@function
def shape(a) -> tuple[int, ...]:
    """The sizes of the axes."""
    return tuple(tensor(a).shape)


@function
def ndim(a) -> int:
    """The number of axes."""
    return tensor(a).dim()


@function
def size(a, axis=None) -> int:
    """The number of elements, or of those along an axis or a tuple of axes."""
    found = tensor(a)
    return found.numel() if axis is None else math.prod(found.shape[each] for each in axes_of(axis, found.dim()))


@function
def iscomplexobj(x) -> bool:
    """Whether the dtype is complex."""
    return tensor(x).is_complex()


@function
def isrealobj(x) -> bool:
    """Whether the dtype is not complex."""
    return not tensor(x).is_complex()


@function
def isfortran(a) -> bool:
    """Whether the elements lie in Fortran's order, and not in C's."""
    found = tensor(a)
    return _is_fortran(found) and not found.is_contiguous()


class _Extent:
    """Where a tensor's elements lie, as a host array that nothing reads."""

    def __init__(self, x: torch.Tensor):
        itemsize = x.element_size()
        self.__array_interface__ = {
            "version": 3,
            "shape": tuple(x.shape),
            "typestr": NUMPY[x.dtype].str,
            "strides": tuple(itemsize * stride for stride in x.stride()),
            "data": (2**40 + itemsize * x.storage_offset(), True),
        }


def _same_storage(a, b) -> bool:
    return is_remote(a) and is_remote(b) and tensor(a).untyped_storage()._cdata == tensor(b).untyped_storage()._cdata


@function
def shares_memory(a, b, /, max_work=-1) -> bool:
    """Whether two arrays have an element in common."""
    if not _same_storage(a, b):
        return False
    return bool(numpy.shares_memory(numpy.asarray(_Extent(tensor(a))), numpy.asarray(_Extent(tensor(b))), max_work))


@function
def may_share_memory(a, b, /, max_work=0) -> bool:
    """Whether the memory of two arrays overlaps from the first byte to the last; elements need not coincide."""
    if not _same_storage(a, b):
        return False
    return bool(numpy.may_share_memory(numpy.asarray(_Extent(tensor(a))), numpy.asarray(_Extent(tensor(b))), max_work))


# Conversions and copies.


@function
def astype(x, dtype, /, *, copy=True, device=None) -> ndarray:
    """The elements in another dtype. `device`: an owner, a group or a device to which they move."""
    if not is_remote(x):
        raise TypeError(f"Input should be a NumPy array. It is a {type(x)} instead.")
    made = wrap(tensor(x)).astype(dtype, copy=copy)
    return made if device is None else wrap(made._t.to(device_of(device)))


@function
def require(a, dtype=None, requirements=None, *, like=None) -> ndarray:
    """The array in a dtype and an order of memory. `requirements`: names as NumPy's.

    "C" and "F" make a copy where the order differs; memory is always aligned, writable and an array's own or a view's:
    "O" copies a view.
    """
    names = {"C_CONTIGUOUS": "C", "CONTIGUOUS": "C", "F_CONTIGUOUS": "F", "FORTRAN": "F", "ALIGNED": "A", "WRITEABLE": "W",
             "OWNDATA": "O", "ENSUREARRAY": "E"}  # fmt: skip
    names |= {each: each for each in "CFAWOE"}
    wanted = {names[str(each).upper()] for each in requirements or ()}
    if wanted >= {"C", "F"}:
        raise ValueError('Cannot specify both "C" and "F" order')
    made = asarray(a, dtype)._t
    if "F" in wanted and not _is_fortran(made):
        made = fortran(made)
    elif "C" in wanted:
        made = made.contiguous()
    if "O" in wanted and made.untyped_storage().nbytes() != made.numel() * made.element_size():
        made = made.clone()
    return wrap(made)


@function
def copyto(dst, src, casting="same_kind", where=True) -> None:
    """Writes `src` into `dst`, where `where` is true; both are broadcast to the shape of `dst`.

    TypeError if the cast is none of `casting`, or if `dst` is a host array: `numpy.copyto(dst, numpy.asarray(src))`
    reads the values.
    """
    if not is_remote(dst):
        raise TypeError(
            "copyto: dst is not at an owner; numpy.copyto(dst, numpy.asarray(src)) reads the values into it"
        )
    to = tensor(dst)
    held = NUMPY[to.dtype]
    if not is_remote(src):
        # A number is weak, and NumPy says whether it fits.
        probe = numpy.empty((), held)
        given = src if type(src) in (bool, int, float, complex) else numpy.asarray(src)
        if isinstance(given, numpy.ndarray):
            require_cast(given.dtype, held, casting)
            value = tensor(cast_host(given, held), to.dtype, to.device)
        else:
            numpy.copyto(probe, given, casting)
            value = torch.full((), probe.item(), dtype=to.dtype, device=to.device)
    else:
        value = tensor(src)
        require_cast(NUMPY[value.dtype], held, casting)
        value = cast(value, to.dtype)
    while value.dim() > to.dim() and value.shape[0] == 1:
        value = value[0]
    check_fits(value, to.shape)
    if where is True:
        to.copy_(value)
        return
    mask = tensor(where, device=to.device)
    if mask.dtype != torch.bool:
        raise TypeError(
            f"Cannot cast array data from {NUMPY[mask.dtype]!r} to dtype('bool') according to the rule 'safe'"
        )
    check_fits(mask, to.shape)
    to.copy_(torch.where(mask, value, to))


def check_fits(value: torch.Tensor, sizes) -> None:
    """ValueError, as NumPy's, where an assigned value cannot be broadcast to a shape."""
    pairs = itertools.zip_longest(reversed(value.shape), reversed(tuple(sizes)))
    if any(have is not None and have not in (1, want) for have, want in pairs):
        raise ValueError(f"could not broadcast input array from shape {tuple(value.shape)} into shape {tuple(sizes)}")
