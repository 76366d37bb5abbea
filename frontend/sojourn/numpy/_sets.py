# SPDX-License-Identifier: Apache-2.0
"""Arrays as sets. How many elements a result has depends on values: outside of steps that number is read.

With `size=`, which NumPy's functions lack, nothing is read: the result has that many elements. Those that are too many
are left out, and `fill_value` stands for those that are missing.
"""

from __future__ import annotations

import math
import operator

import numpy
import torch
from numpy.lib import _arraysetops_impl as results

import _sojourn

from ..errors import ValueNeeded
from ._array import ndarray, wrap
from ._bins import _places_by_sorting
from ._convert import _device_among, axis_of, function, tensor, tensors
from ._dtypes import COMPLEX, FLOATS, NUMPY, torch_dtype
from ._reducing import operand
from ._sorting import order_by, order_of

__all__ = [
    "ediff1d", "intersect1d", "isin", "setdiff1d", "setxor1d", "union1d", "unique", "unique_all", "unique_counts",
    "unique_inverse", "unique_values",
]  # fmt: skip


def _is_first(ordered: torch.Tensor, equalNaN: bool) -> torch.Tensor:
    """Of sorted elements, or of sorted rows, the first ones among equal ones."""
    after, before = ordered[1:], ordered[:-1]
    differs = after != before
    if ordered.dim() > 1:
        differs = torch.any(differs, 1)
    elif equalNaN and (ordered.dtype in FLOATS or ordered.dtype in COMPLEX):
        differs = differs & ~(torch.isnan(after) & torch.isnan(before))
    return torch.cat([torch.ones(min(ordered.shape[0], 1), dtype=torch.bool, device=ordered.device), differs])


def _positions(flags: torch.Tensor, size: int | None) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Where flags are set; with a size, also whether each place is one."""
    if size is None:
        if _sojourn.step_active():
            raise ValueNeeded(
                "the size of a set depends on values; pass size=, the number of elements, and fill_value="
            )
        return torch.nonzero(flags).reshape(-1), None
    wanted = torch.arange(1, operator.index(size) + 1, device=flags.device)
    if flags.shape[0] == 0:
        return torch.zeros_like(wanted), torch.zeros_like(wanted, dtype=torch.bool)
    places = torch.searchsorted(torch.cumsum(flags, 0, dtype=torch.int64), wanted)
    found = places < flags.shape[0]
    return torch.where(found, places, 0), found


def _taken(x: torch.Tensor, places: torch.Tensor, found: torch.Tensor | None, fill) -> torch.Tensor:
    """Elements, or rows; the fill value, or else the first one, where there is no place."""
    if found is None:
        return x.index_select(0, places)
    if x.shape[0] == 0:
        return torch.full((places.shape[0], *x.shape[1:]), 0 if fill is None else fill, dtype=x.dtype, device=x.device)
    made = x.index_select(0, places)
    if fill is None:
        rest = made[:1]
    else:
        rest = tensor(fill, device=x.device).to(x.dtype)
    return torch.where(found.reshape(-1, *(1,) * (x.dim() - 1)), made, rest)


def _columns_order(rows: torch.Tensor) -> torch.Tensor:
    if rows.shape[1] == 0:
        return torch.arange(rows.shape[0], device=rows.device)
    return order_by(list(torch.flip(rows, (1,)).unbind(1)), 0)


@function
def unique(
    ar,
    return_index=False,
    return_inverse=False,
    return_counts=False,
    axis=None,
    *,
    equal_nan=True,
    sorted=True,
    size=None,
    fill_value=None,
):
    """The sorted different elements, or with `axis` the different slices; on request of each also the index of its
    first occurrence, the place of every element among them, and the count of each. Always sorted.

    `size`: how many; others are left out. `fill_value` stands for missing ones; default: the first one, of count 0.
    """
    x = tensor(ar)
    shape = tuple(x.shape)
    if axis is None:
        keys = x.reshape(-1)
        order = order_of(keys)
    else:
        axis = axis_of(axis, x.dim())
        x = torch.movedim(x, axis, 0)
        keys = x.reshape(x.shape[0], math.prod(x.shape[1:]))
        order = _columns_order(keys)
    ordered = keys.index_select(0, order)
    first = _is_first(ordered, equal_nan)
    n = keys.shape[0]
    places, found = _positions(first, size)
    values = _taken(ordered, places, found, fill_value)
    if axis is None:
        made = [values]
    else:
        made = [torch.movedim(values.reshape(values.shape[0], *x.shape[1:]), 0, axis)]
    if return_index:
        made.append(_taken(order, places, found, None))
    if return_inverse:
        place = torch.cumsum(first, 0, dtype=torch.int64) - 1
        inverse = torch.zeros_like(place).scatter(0, order, place)
        made.append(inverse.reshape(shape) if axis is None else inverse)
    if return_counts:
        begins = places if found is None else torch.where(found, places, n)
        # Also where those that follow are left out, the last one ends at the next first element.
        end = torch.full((1,), n, dtype=torch.int64, device=keys.device)
        if found is not None:
            more, isMore = _positions(first, operator.index(size) + 1)
            assert isMore is not None
            end = torch.where(isMore, more, n)[-1:]
        made.append(torch.diff(torch.cat([begins, end])))
    if len(made) == 1:
        return wrap(made[0])
    return tuple(wrap(each) for each in made)


@function
def unique_all(x, *, size=None, fill_value=None):
    """The values, indices, inverse_indices and counts of `unique`, in which no NaN equals another one."""
    return results.UniqueAllResult(*unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value))


@function
def unique_counts(x, *, size=None, fill_value=None):
    """The values and counts, likewise."""
    made = unique(x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value)
    return results.UniqueCountsResult(*made)


@function
def unique_inverse(x, *, size=None, fill_value=None):
    """The values and inverse_indices, likewise."""
    made = unique(x, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value)
    return results.UniqueInverseResult(*made)


@function
def unique_values(x, *, size=None, fill_value=None) -> ndarray:
    """The values, likewise, sorted."""
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)


def _both(ar1, ar2) -> tuple[torch.Tensor, torch.Tensor]:
    first, second = (each.reshape(-1) for each in tensors(ar1, ar2))
    to = torch_dtype(numpy.result_type(NUMPY[first.dtype], NUMPY[second.dtype]))
    return first.to(to), second.to(to)


def _ordered(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    order = order_of(x)
    return x.index_select(0, order), order


def _places(ordered: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Where elements are in a sorted array, and whether they are there; NaN is not."""
    n = ordered.shape[0]
    if n == 0:
        return torch.zeros_like(x, dtype=torch.int64), torch.zeros_like(x, dtype=torch.bool)
    if x.dtype in COMPLEX:
        places = _places_by_sorting(ordered, x, right=False)
    else:
        # NaN at the end would lead the search astray.
        known = torch.where(torch.isnan(ordered), math.inf, ordered) if ordered.dtype in FLOATS else ordered
        places = torch.searchsorted(known, x.contiguous())
    places = torch.clamp(places, max=n - 1)
    return places, ordered.index_select(0, places.reshape(-1)).reshape(x.shape) == x


@function
def intersect1d(ar1, ar2, assume_unique=False, return_indices=False, *, size=None, fill_value=None):
    """The sorted different elements that are in both; on request their first indices in both. `size` as `unique`'s."""
    one, two = _both(ar1, ar2)
    first, firstOrder = _ordered(one)
    second, secondOrder = _ordered(two)
    where, isThere = _places(second, first)
    places, found = _positions(_is_first(first, True) & isThere, size)
    made = wrap(_taken(first, places, found, fill_value))
    if not return_indices:
        return made
    other = secondOrder.index_select(0, where) if secondOrder.shape[0] else where
    return made, wrap(_taken(firstOrder, places, found, None)), wrap(_taken(other, places, found, None))


@function
def union1d(ar1, ar2, *, size=None, fill_value=None) -> ndarray:
    """The sorted different elements of both. `size` as `unique`'s."""
    return unique(wrap(torch.cat(_both(ar1, ar2))), size=size, fill_value=fill_value)


@function
def setdiff1d(ar1, ar2, assume_unique=False, *, size=None, fill_value=None) -> ndarray:
    """The sorted different elements of the first that are not in the second. `size` as `unique`'s.

    `assume_unique`: in the order of the first one, repeated ones, too.
    """
    one, two = _both(ar1, ar2)
    to = tensors(ar1, ar2)[0].dtype
    first = one if assume_unique else _ordered(one)[0]
    keep = ~_places(_ordered(two)[0], first)[1]
    if not assume_unique:
        keep = keep & _is_first(first, True)
    return wrap(_taken(first, *_positions(keep, size), fill_value).to(to))


@function
def setxor1d(ar1, ar2, assume_unique=False, *, size=None, fill_value=None) -> ndarray:
    """The sorted different elements that are in one of both only. `size` as `unique`'s."""
    one, two = (_ordered(each)[0] for each in _both(ar1, ar2))
    keep = torch.cat([
        ~_places(two, one)[1] & _is_first(one, True), ~_places(one, two)[1] & _is_first(two, True)
    ])  # fmt: skip
    ordered, order = _ordered(torch.cat([one, two]))
    return wrap(_taken(ordered, *_positions(keep.index_select(0, order), size), fill_value))


@function
def isin(element, test_elements, assume_unique=False, invert=False, *, kind=None) -> ndarray:
    """Whether elements are among others: bool, of the shape of the first. `kind` changes nothing."""
    if kind not in (None, "sort", "table"):
        raise ValueError(f"Invalid kind: '{kind}'. Please use None, 'sort' or 'table'.")
    x, among = tensors(element, test_elements)
    if kind == "table" and any(each.dtype in FLOATS or each.dtype in COMPLEX for each in (x, among)):
        raise ValueError(
            "The 'table' method is only supported for boolean or integer arrays. Please select 'sort' or None for kind."
        )
    to = torch_dtype(numpy.result_type(NUMPY[x.dtype], NUMPY[among.dtype]))
    found = _places(_ordered(among.to(to).reshape(-1))[0], x.to(to))[1]
    return wrap(~found if invert else found)


@function
def ediff1d(ary, to_end=None, to_begin=None) -> ndarray:
    """The differences of neighbours in a row; with elements before and after them, of the array's dtype."""
    x = operand(ary, to_end, to_begin).reshape(-1)
    if x.dtype == torch.bool:
        raise TypeError(
            "numpy boolean subtract, the `-` operator, is not supported, use the bitwise_xor, the `^` operator, or the "
            "logical_xor function instead."
        )
    parts = [x[1:] - x[:-1]]
    for name, more in (("to_begin", to_begin), ("to_end", to_end)):
        if more is None:
            continue
        found = tensor(more, device=_device_among((x,)))
        if not numpy.can_cast(NUMPY[found.dtype], NUMPY[x.dtype], "same_kind"):
            raise TypeError(f"dtype of `{name}` must be compatible with input `ary` under the `same_kind` rule.")
        parts.insert(0 if name == "to_begin" else len(parts), found.reshape(-1).to(x.dtype))
    return wrap(torch.cat(parts) if len(parts) > 1 else parts[0])
