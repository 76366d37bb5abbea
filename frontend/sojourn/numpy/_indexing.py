# SPDX-License-Identifier: Apache-2.0
"""Indexing: `x[key]` and `x[key] = value` by NumPy's rules, in torch's operators."""

from __future__ import annotations

import operator
from typing import Any

import numpy
import torch

from ._array import ndarray, wrap
from ._casts import cast, cast_host
from ._convert import any_remote, is_remote, tensor
from ._dtypes import NUMPY

__all__: list[str] = []

_NUMBERS = (bool, int, float, complex, numpy.generic)
_VALID = "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays are valid indices"
_index = torch.ops.aten.index.Tensor
_index_put = torch.ops.aten.index_put_.default


class _Plan:
    """A key of one shape: a view by integers, slices and new axes, in which the index arrays choose."""

    __slots__ = ("basic", "chosen", "common", "copies", "flips", "masked", "place", "ranks", "single")

    def __init__(self):
        self.basic: list[Any] = []
        self.flips: list[int] = []  # dims of the view that the key takes backwards
        self.chosen: list[tuple[int, Any]] = []  # (first dim in the view, a host array of int64 or a remote tensor)
        self.place = 0  # where NumPy puts the dims of the index arrays, among the dims that they leave
        self.common: tuple[int | None, ...] = ()  # the shape of the index arrays together; None: depends on values
        self.ranks = 0  # how many dims that are
        self.masked = False  # one mask of all dims is the key
        self.single = False  # integers alone are the key, and name one element
        self.copies = False

    def view(self, t: torch.Tensor) -> torch.Tensor:
        return t[tuple(self.basic)] if self.basic else t

    def indices(self, view: torch.Tensor) -> list[torch.Tensor | None]:
        found: list[torch.Tensor | None] = [None] * view.dim()
        for dim, index in self.chosen:
            each = tensor(index, device=view.device)
            found[dim] = each
            for further in range(dim + each.dim() - 1, dim, -1) if each.dtype == torch.bool else ():
                del found[further]  # a mask stands for all of its dims
        while found and found[-1] is None:
            found.pop()
        return found

    def torch_place(self) -> int:
        """Where torch puts the dims of the index arrays: by their places in the view, in which no integer is left."""
        end = first = self.chosen[0][0]
        for dim, index in self.chosen:
            if dim != end:
                return 0
            end = dim + _width(index)
        return first


def _width(index) -> int:
    return index.ndim if isinstance(index, torch.Tensor) and index.dtype == torch.bool else 1


def get(array: ndarray, key) -> ndarray:
    """`array[key]`. Integers and slices of positive steps give views, all else copies.

    Entries of remote index arrays are not checked against the bounds, since their values stay at the owner.
    """
    t = array._t
    if _is_torchs(key, t):
        try:
            return wrap(t[key._t if type(key) is ndarray else key])
        except (IndexError, RuntimeError):
            pass  # with NumPy's text below
    plan = _plan(t.shape, key)
    view = plan.view(t)
    if plan.flips:
        view = view.flip(plan.flips)
    if not plan.chosen:
        return wrap(view.clone() if plan.copies else view)
    found = _index(view, plan.indices(view))
    native = plan.torch_place()
    if native != plan.place and plan.ranks:
        found = found.movedim(_block(native, plan.ranks), _block(plan.place, plan.ranks))
    return wrap(found)


def _is_torchs(key, t: torch.Tensor) -> bool:
    """Whether torch reads a key as NumPy does, which is most often so."""
    if type(key) is ndarray:
        index = key._t
        return index.dim() > 0 and (
            index.dtype == torch.int64 or (index.dtype == torch.bool and index.shape == t.shape)
        )
    dots = 0
    for item in key if type(key) is tuple else (key,):
        if type(item) is slice:
            if item.step is not None:
                return False
        elif item is Ellipsis:
            dots += 1
        elif type(item) is not int and item is not None:
            return False
    return dots < 2


def put(array: ndarray, key, value) -> None:
    """`array[key] = value`. Where an index array names a place twice, either value may stay.

    Through a remote mask, a value has as many entries as the mask has ones, or is broadcast. The number of ones is not
    read: further entries are left out, and of too few only the first places are written.
    """
    _write(array._t, key, value, False)


def accumulate(array: ndarray, key, value) -> None:
    """`array[key] += value`, where an index array that names a place twice adds twice."""
    _write(array._t, key, value, True)


def _write(t: torch.Tensor, key, value, adds: bool) -> None:
    plan = _plan(t.shape, key)
    view = plan.view(t)
    if plan.chosen and isinstance(value, numpy.generic):
        value = value.astype(NUMPY[t.dtype])  # there NumPy casts, and elsewhere refuses what does not fit
    number = _number(value, t.dtype)
    if not plan.chosen:
        if number is None:
            found = _operand(value, t)
            if plan.single and found.dim():
                raise ValueError("setting an array element with a sequence.")
            found = _turned(_into(found, tuple(view.shape)), view.dim(), plan.flips)
        if not view.numel():
            return
        written = _apart(found, t) if number is None else number
        if adds:
            view.add_(written)
        elif number is None:
            view.copy_(written)
        else:
            view.fill_(written)
        return
    if number is not None:
        found = torch.full((), number, dtype=t.dtype, device=t.device)
    else:
        found = _apart(_operand(value, t), t)
        taken = {dim + k for dim, index in plan.chosen for k in range(_width(index))}
        left = [dim for dim in range(view.dim()) if dim not in taken]
        rank = len(left) + plan.ranks
        sizes = [view.shape[dim] for dim in left]
        shape = (*sizes[: plan.place], *plan.common, *sizes[plan.place :])
        if plan.masked:
            _check_values(found, plan.common[0])
        found = _into(found, shape) if plan.common == () else _chosen_into(found, shape)
        flips = [left.index(dim) for dim in plan.flips if dim in left]
        found = _turned(found, rank, [dim if dim < plan.place else dim + plan.ranks for dim in flips])
        native = plan.torch_place()
        if native != plan.place and plan.ranks and found.dim():
            full = found[(None,) * (rank - found.dim())]
            found = full.movedim(_block(plan.place, plan.ranks), _block(native, plan.ranks))
    if view.numel():
        indices = [index if index is None else _apart(index, t) for index in plan.indices(view)]
        _index_put(view, indices, found, adds)


def _block(first: int, count: int) -> tuple[int, ...]:
    return tuple(range(first, first + count))


def _number(value, dtype: torch.dtype):
    """A number as one of the dtype, by NumPy's conversion and errors; None: it is no number."""
    if type(value) is float and dtype.is_floating_point:
        return value
    if isinstance(value, _NUMBERS):
        host = numpy.empty((), NUMPY[dtype])
        host[()] = value
        return host.item()
    return None


def _operand(value, t: torch.Tensor) -> torch.Tensor:
    """An assigned value as a remote tensor of the dtype of `t`."""
    if not is_remote(value) and not (isinstance(value, (list, tuple)) and any_remote(value)):
        if not isinstance(value, torch.Tensor):
            dtype = NUMPY[t.dtype]
            value = cast_host(value, dtype) if isinstance(value, numpy.ndarray) else numpy.asarray(value, dtype)
        return tensor(value, t.dtype, t.device)
    return cast(tensor(value, device=t.device), t.dtype)


def _apart(value: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    """The value, copied where a write to `t` would change it."""
    same = value.untyped_storage()._cdata == t.untyped_storage()._cdata
    return value.clone() if same else value


def _shortened(value: torch.Tensor, rank: int) -> torch.Tensor:
    """The value without leading dims of one entry, down to a number of dims."""
    extra = 0
    while value.dim() - extra > rank and value.shape[extra] == 1:
        extra += 1
    return value[(0,) * extra] if extra else value


def _fits(value: torch.Tensor, shape: tuple[int | None, ...]) -> bool:
    offset = len(shape) - value.dim()
    return offset >= 0 and all(n == 1 or shape[offset + k] in (n, None) for k, n in enumerate(value.shape))


def _into(value: torch.Tensor, shape: tuple[int | None, ...]) -> torch.Tensor:
    short = _shortened(value, len(shape))
    if not _fits(short, shape):
        raise ValueError(f"could not broadcast input array from shape {_shown(short.shape)} into shape {_shown(shape)}")
    return short


def _chosen_into(value: torch.Tensor, shape: tuple[int | None, ...]) -> torch.Tensor:
    short = _shortened(value, len(shape))
    if not _fits(short, shape):
        raise ValueError(
            f"shape mismatch: value array of shape {_shown(value.shape)} could not be broadcast to indexing result "
            f"of shape {_shown(shape)}"
        )
    return short


def _check_values(value: torch.Tensor, count: int | None) -> None:
    """Of a write through one mask, which has `count` ones."""
    if value.dim() > 1:
        raise TypeError(
            "NumPy boolean array indexing assignment requires a 0 or 1-dimensional input, input has "
            f"{value.dim()} dimensions"
        )
    if value.dim() and count is not None and value.shape[0] not in (1, count):
        raise ValueError(
            f"NumPy boolean array indexing assignment cannot assign {value.shape[0]} input values to the {count} "
            "output values where the mask is true"
        )


def _shown(shape) -> str:
    return str(tuple("?" if n is None else n for n in shape)).replace(" ", "").replace("'", "")


def _turned(value: torch.Tensor, rank: int, flips: list[int]) -> torch.Tensor:
    """The value, backwards along dims of the result that it has."""
    dims = [dim - (rank - value.dim()) for dim in flips]
    dims = [dim for dim in dims if dim >= 0 and value.shape[dim] != 1]
    return value.flip(dims) if dims else value


# Keys.


def _check_bounds(index: int, size: int, axis: int) -> None:
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of bounds for axis {axis} with size {size}")


def _check_count(rank: int, given: int) -> None:
    if given > rank:
        raise IndexError(f"too many indices for array: array is {rank}-dimensional, but {given} were indexed")


def _item(item):
    """One entry of a key: an int, a slice, None, Ellipsis, a host array, or a remote tensor."""
    if item is None or item is Ellipsis or type(item) is int or type(item) is slice:
        return item
    if is_remote(item):
        index = tensor(item)
        if index.dtype == torch.bool:
            return index
        if index.is_floating_point() or index.is_complex():
            raise IndexError("arrays used as indices must be of integer (or boolean) type")
        return index if index.dtype == torch.int64 else index.to(torch.int64)
    if isinstance(item, (list, tuple)):
        if any_remote(item):
            return _item(wrap(tensor(list(item))))
        host = numpy.asarray(item)
        host = host.astype(numpy.int64) if host.size == 0 and host.dtype.kind == "f" else host
    elif isinstance(item, (bool, numpy.bool_, numpy.ndarray, torch.Tensor)):
        host = numpy.asarray(item)
    else:
        try:
            return operator.index(item)
        except TypeError:
            raise IndexError(_VALID) from None
    if host.dtype.kind not in "biu":
        if isinstance(item, (list, tuple)):
            raise IndexError(_VALID)
        raise IndexError("arrays used as indices must be of integer (or boolean) type")
    return host


def _consumed(item) -> int:
    """How many dims of the array an entry takes."""
    if item is None or item is Ellipsis:
        return 0
    if isinstance(item, numpy.ndarray):
        return item.ndim if item.dtype == bool else 1
    return _width(item) if isinstance(item, torch.Tensor) else 1


def _plan(shape: torch.Size, key) -> _Plan:
    items = [_item(item) for item in (key if isinstance(key, tuple) else (key,))]
    given = sum(map(_consumed, items))
    _check_count(len(shape), given)
    full = slice(None)
    dots = sum(1 for item in items if item is Ellipsis)
    if dots > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    plan = _Plan()
    if len(items) == 1 and isinstance(items[0], (numpy.ndarray, torch.Tensor)):
        plan.masked = items[0].ndim == len(shape) > 0 and items[0].dtype in (torch.bool, numpy.bool_)
    for k, item in enumerate(items):
        if isinstance(item, numpy.ndarray) and item.ndim == 0 and item.dtype != bool:
            items[k], plan.copies = int(item), True
    plan.single = len(items) == len(shape) > 0 and all(type(item) is int for item in items)
    axis, dim = 0, 0  # of the array, of the view
    runs = 0  # stretches of index arrays and integers
    inside = False
    first = 0
    for item in items if dots else [*items, Ellipsis]:
        isBasic = item is None or item is Ellipsis or type(item) is slice
        if not isBasic and not inside:
            runs += 1
            first = dim if runs == 1 else 0
        inside = not isBasic
        if item is Ellipsis:
            count = len(shape) - given
            plan.basic += [full] * count
            axis, dim = axis + count, dim + count
        elif item is None:
            plan.basic.append(None)
            dim += 1
        elif type(item) is slice:
            part, isTurned = _forwards(item, shape[axis])
            plan.basic.append(part)
            if isTurned:
                plan.flips.append(dim)
            axis, dim = axis + 1, dim + 1
        elif type(item) is int:
            _check_bounds(item, shape[axis], axis)
            plan.basic.append(item)
            axis += 1
        else:
            axis, dim = _choose(plan, item, shape, axis, dim)
    while plan.basic and plan.basic[-1] is full:
        plan.basic.pop()
    if plan.chosen:
        plan.place = first
        _join(plan)
    return plan


def _forwards(part: slice, size: int) -> tuple[slice, bool]:
    """The slice of positive step that has the same entries, and whether they come backwards."""
    start, stop, step = part.indices(size)
    if step > 0:
        return slice(start, max(start, stop), step), False
    count = len(range(start, stop, step))
    return (slice(start + (count - 1) * step, start + 1, -step), count > 1) if count else (slice(0, 0), False)


def _choose(plan: _Plan, item, shape: torch.Size, axis: int, dim: int) -> tuple[int, int]:
    """Enters an index array or a mask; the next axis and dim."""
    isMask = item.dtype in (torch.bool, numpy.bool_)
    if isMask and item.ndim == 0:  # a new axis of one entry, chosen or not
        plan.basic.append(None)
        plan.chosen.append(
            (dim, item.reshape(1) if isinstance(item, torch.Tensor) else numpy.zeros(int(item), numpy.int64))
        )
        return axis, dim + 1
    width = item.ndim if isMask else 1
    plan.basic += [slice(None)] * width
    if isMask:
        for k, size in enumerate(item.shape):
            if size != shape[axis + k]:
                raise IndexError(
                    f"boolean index did not match indexed array along axis {axis + k}; size of axis is "
                    f"{shape[axis + k]} but size of corresponding boolean axis is {size}"
                )
    if isMask and isinstance(item, numpy.ndarray):
        plan.chosen += [(dim + k, index) for k, index in enumerate(numpy.nonzero(item))]
    else:
        if isinstance(item, numpy.ndarray) and item.size:
            for bound in (int(item.max()), int(item.min())):
                _check_bounds(bound, shape[axis], axis)
        plan.chosen.append((dim, item.astype(numpy.int64) if isinstance(item, numpy.ndarray) else item))
    return axis + width, dim + width


def _join(plan: _Plan) -> None:
    """Broadcasts the shapes of the index arrays."""
    masks = [index for _, index in plan.chosen if isinstance(index, torch.Tensor) and index.dtype == torch.bool]
    shapes = [tuple(index.shape) for _, index in plan.chosen if not any(index is mask for mask in masks)]
    try:
        plan.common = numpy.broadcast_shapes(*shapes)
    except ValueError:
        raise IndexError(
            f"shape mismatch: indexing arrays could not be broadcast together with shapes {' '.join(map(_shown, shapes))} "
        ) from None
    plan.ranks = max(len(plan.common), 1 if masks else 0)
    if masks:
        plan.common = (None,) * plan.ranks
