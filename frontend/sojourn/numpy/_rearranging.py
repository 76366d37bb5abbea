# SPDX-License-Identifier: Apache-2.0
"""Elements in another order, repeated, left out or put in. All results are copies: torch has no negative strides."""

from __future__ import annotations

import math
import operator

import numpy
import torch

from ._array import ndarray, wrap
from ._casts import cast
from ._convert import _device_among, any_remote, axes_of, axis_of, function, is_remote, tensor, tensors
from ._joining import concatenate
from ._manipulation import check_fits, reshape, sizes_of

__all__ = [
    "append",
    "delete",
    "flip",
    "fliplr",
    "flipud",
    "insert",
    "repeat",
    "resize",
    "roll",
    "rot90",
    "tile",
    "trim_zeros",
]


def picked(x: torch.Tensor, axis: int, places: numpy.ndarray) -> torch.Tensor:
    """The elements at host indices along an axis."""
    return x.index_select(axis, torch.from_numpy(numpy.ascontiguousarray(places, numpy.int64)).to(x.device))


# In another order.


@function
def flip(m, axis=None) -> ndarray:
    """A copy in reverse order along an axis, several, or all."""
    found = tensor(m)
    return wrap(found.flip(axes_of(axis, found.dim())))


@function
def flipud(m) -> ndarray:
    """A copy in reverse order along the first axis."""
    found = tensor(m)
    if found.dim() < 1:
        raise ValueError("Input must be >= 1-d.")
    return wrap(found.flip(0))


@function
def fliplr(m) -> ndarray:
    """A copy in reverse order along the second axis."""
    found = tensor(m)
    if found.dim() < 2:
        raise ValueError("Input must be >= 2-d.")
    return wrap(found.flip(1))


@function
def roll(a, shift, axis=None) -> ndarray:
    """Elements moved by `shift` along an axis, those beyond the end to the beginning; without an axis, in a row.

    `shift` and `axis` may be sequences, which are broadcast. A remote `shift` has no dimensions.
    """
    found = tensor(a)
    if axis is None:
        return wrap(_rolled(found.reshape(-1), [(0, shift)]).reshape(found.shape))
    axes = list(axis) if isinstance(axis, (tuple, list)) else [axis]
    axes = [axis_of(each, found.dim()) for each in axes]
    shifts = [shift] if is_remote(shift) or numpy.ndim(shift) == 0 else list(shift)
    if numpy.ndim(axis) > 1 or (len(shifts) != len(axes) and 1 not in (len(shifts), len(axes))):
        raise ValueError("'shift' and 'axis' should be scalars or 1D sequences")
    count = max(len(shifts), len(axes)) if shifts and axes else 0
    pairs = [(axes[k % len(axes)], shifts[k % len(shifts)]) for k in range(count)]
    return wrap(_rolled(found, pairs))


def _rolled(x: torch.Tensor, pairs) -> torch.Tensor:
    steps: dict[int, int] = {}
    for axis, shift in pairs:
        if is_remote(shift):
            size = x.shape[axis]
            by = tensor(shift)
            if by.dim():
                raise ValueError("'shift' and 'axis' should be scalars or 1D sequences")
            x = x.index_select(axis, torch.remainder(torch.arange(size, device=x.device) - by, max(size, 1)))
        else:
            steps[axis] = steps.get(axis, 0) + operator.index(shift)
    return x.roll(list(steps.values()), list(steps)) if steps else x.clone()


@function
def rot90(m, k=1, axes=(0, 1)) -> ndarray:
    """A copy turned by `k` quarters, from the first of two axes towards the second."""
    if len(axes) != 2:
        raise ValueError("len(axes) must be 2.")
    found = tensor(m)
    count = found.dim()
    first, second = map(operator.index, axes)
    if first == second or abs(first - second) == count:
        raise ValueError("Axes must be different.")
    if not (-count <= first < count and -count <= second < count):
        raise ValueError(f"Axes={axes!r} out of range for array of ndim={count}.")
    return wrap(torch.rot90(found, operator.index(k) % 4, (first, second)))


# Repeated.


@function
def resize(a, new_shape) -> ndarray:
    """The elements in a row, repeated or cut to fill another shape; zeros if there are none."""
    found = tensor(a)
    sizes = sizes_of(new_shape)
    if min(sizes, default=0) < 0:
        raise ValueError("all elements of `new_shape` must be non-negative")
    count = math.prod(sizes)
    if found.numel() == 0:
        return wrap(found.new_zeros(sizes))
    row = found.reshape(-1)
    return wrap(row.repeat(-(-count // row.shape[0]))[:count].reshape(sizes))


@function
def tile(A, reps) -> ndarray:
    """The array repeated along its axes, `reps` times each."""
    found = tensor(A)
    times = sizes_of(reps)
    if min(times, default=0) < 0:
        if found.numel():
            raise ValueError("negative dimensions are not allowed")
        count = max(len(times), found.dim())
        sizes = [(1,) * (count - len(each)) + each for each in (times, tuple(found.shape))]
        return reshape(wrap(found), [n * m for n, m in zip(*sizes)])
    return wrap(found.repeat((1,) * (found.dim() - len(times)) + times) if times else found.clone())


@function
def repeat(a, repeats, axis=None) -> ndarray:
    """Each element `repeats` times along an axis; without one, of the elements in a row.

    `repeats`: an integer, or one for each element. They decide about the result's size: an array at an owner is read,
    which a step refuses.
    """
    found = tensor(a, device=_device_among([a, repeats]))
    if any_remote([repeats]):
        repeats = wrap(tensor(repeats))._read("repeat")
    if axis is None:
        found, axis = found.reshape(-1), 0
    axis = axis_of(axis, found.dim())
    if type(repeats) is int and repeats >= 0:
        return wrap(found.repeat_interleave(repeats, axis))
    return wrap(picked(found, axis, numpy.repeat(numpy.arange(found.shape[axis]), repeats)))


# Left out and put in.


@function
def trim_zeros(filt, trim="fb", axis=None) -> ndarray:
    """The array without the outer zeros along all axes, or those of `axis`. `trim`: "f" at the front, "b" at the back.

    A view, whose size depends on values: outside of steps the first and last indices are read, inside it raises.
    """
    found = tensor(filt)
    sides = trim.lower()
    if sides not in ("fb", "bf", "f", "b"):
        raise ValueError(f"unexpected character(s) in `trim`: {sides!r}")
    axes = axes_of(axis, found.dim())
    if not axes:
        return wrap(found)
    if not found.numel():
        return wrap(found[tuple(slice(0 if k in axes else None) for k in range(found.dim()))])
    marks = []
    for each in axes:
        # Along one axis: whether anything else is not zero.
        others = tuple(k for k in range(found.dim()) if k != each)
        used = ((found != 0).any(others) if others else found != 0).to(torch.uint8)
        last = used.shape[0] - 1 - used.flip(0).argmax()
        marks.append(torch.stack([used.argmax(), last, used.amax().to(torch.int64)]))
    made = found
    for each, (first, last, any_used) in zip(axes, wrap(torch.stack(marks))._read("trim_zeros").tolist()):
        begin = first if "f" in sides else 0
        end = last + 1 if "b" in sides else found.shape[each]
        made = made.narrow(each, begin if any_used else 0, end - begin if any_used else 0)
    return wrap(made)


def _known(name: str, obj) -> None:
    if any_remote([obj]):
        raise TypeError(
            f"{name}: the result's size follows from obj, so it has to be known; x[mask], where and compress take remote masks"
        )


@function
def delete(arr, obj, axis=None) -> ndarray:
    """The array without the elements `obj` along an axis: an index, a slice, indices or a mask, of this process."""
    _known("delete", obj)
    found = tensor(arr)
    if axis is None:
        found, axis = found.reshape(-1), 0
    axis = axis_of(axis, found.dim())
    size = found.shape[axis]
    if isinstance(obj, (int, numpy.integer)) and not isinstance(obj, bool) and not -size <= obj < size:
        raise IndexError(f"index {obj} is out of bounds for axis {axis} with size {size}")
    return wrap(picked(found, axis, numpy.delete(numpy.arange(size), obj)))


@function
def insert(arr, obj, values, axis=None) -> ndarray:
    """The array with `values` put before the elements `obj` along an axis: an index, a slice, indices or a mask.

    `obj` is of this process. The values are converted to the array's dtype.
    """
    _known("insert", obj)
    found, new = tensors(arr, values)
    new = cast(new, found.dtype)
    if axis is None:
        found, axis = found.reshape(-1), 0
    axis = axis_of(axis, found.dim())
    size = found.shape[axis]
    places = numpy.arange(*obj.indices(size)) if isinstance(obj, slice) else numpy.array(obj)
    if places.dtype == bool:
        if places.ndim != 1:
            raise ValueError("boolean array argument obj to insert must be one dimensional")
        places = numpy.flatnonzero(places)
    elif places.ndim > 1:
        raise ValueError("index array argument obj to insert must be one dimensional or scalar")
    if places.size == 0:
        places = places.astype(numpy.int64)
    elif places.dtype.kind not in "iu":
        if places.size == 1:
            raise TypeError("slice indices must be integers or None or have an __index__ method")
        raise IndexError("arrays used as indices must be of integer (or boolean) type")
    outside = [each for each in places.reshape(-1).tolist() if not -size <= each <= size]
    if outside:
        raise IndexError(f"index {outside[0]} is out of bounds for axis {axis} with size {size}")
    at = numpy.where(places < 0, places + size, places).reshape(-1)
    if places.size == 1:
        # One index takes all that `values` has along the axis.
        if new.dim() < found.dim():
            new = new.reshape((1,) * (found.dim() - new.dim()) + tuple(new.shape))
        if places.ndim == 0:
            new = new.movedim(0, axis)
        at = numpy.repeat(at, new.shape[axis])
    count = len(at)
    sizes = [count if k == axis else n for k, n in enumerate(found.shape)]
    while new.dim() > found.dim() and new.shape[0] == 1:
        new = new[0]
    check_fits(new, sizes)
    both = torch.cat([found, new.expand(sizes)], axis)
    # NumPy's order of equal places is that of the argument.
    order = numpy.argsort(numpy.concatenate([numpy.arange(size) + 0.5, at]), kind="stable")
    return wrap(picked(both, axis, order))


@function
def append(arr, values, axis=None) -> ndarray:
    """The array with `values` behind it along an axis; without one, of the elements of both in a row."""
    first, second = tensors(arr, values)
    if axis is None:
        return concatenate([wrap(first.reshape(-1)), wrap(second.reshape(-1))])
    return concatenate([wrap(first), wrap(second)], axis)
