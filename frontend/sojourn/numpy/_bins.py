# SPDX-License-Identifier: Apache-2.0
"""Places in sorted arrays, and counts of places."""

from __future__ import annotations

import math
import operator

import numpy
import torch

import _sojourn

from ..errors import ValueNeeded
from ._array import ndarray, wrap
from ._convert import _device_among, any_remote, function, promoted, tensor, tensors
from ._dtypes import COMPLEX, FLOATS, INTEGERS, NUMPY
from ._sorting import order_of

__all__ = ["bincount", "digitize", "searchsorted"]


def counted(index: torch.Tensor, weights: torch.Tensor | None, length: int) -> torch.Tensor:
    """How often every number below `length` occurs, or the sum of its weights; others are left out."""
    index = index.reshape(-1).to(torch.int64)
    index = torch.where((index < 0) | (index >= length), length, index)
    source = torch.ones_like(index) if weights is None else weights.reshape(-1)
    return torch.zeros(length + 1, dtype=source.dtype, device=index.device).scatter_add(0, index, source)[:length]


@function
def bincount(x, /, weights=None, minlength=0, *, length=None) -> ndarray:
    """How often every number from 0 on occurs: int64; or the sums of its weights: float64.

    The size of the result depends on values, which inside a step needs `length`: then exactly so many numbers are
    counted, and others are left out. A negative number raises ValueError only without `length`.
    """
    found = tensor(x, device=_device_among((x, weights)))
    device = found.device
    if found.dim() != 1:
        raise ValueError(f"object {'too deep' if found.dim() else 'of too small depth'} for desired array")
    if found.dtype not in INTEGERS and found.dtype != torch.bool:
        raise TypeError(
            f"Cannot cast array data from {NUMPY[found.dtype]!r} to dtype('int64') according to the rule 'safe'"
        )
    minlength = operator.index(minlength)
    if minlength < 0:
        raise ValueError("'minlength' must not be negative")
    by = None if weights is None else tensor(weights, device=device)
    if by is not None:
        if by.dtype in COMPLEX:
            raise TypeError(
                "Cannot cast array data from dtype('complex128') to dtype('float64') according to the rule 'safe'"
            )
        if by.shape != found.shape:
            raise ValueError("The weights and list don't have the same length.")
        by = by.to(torch.float64)
    found = found.to(torch.int64)
    if length is not None:
        made = counted(found, by, operator.index(length))
        if minlength > made.shape[0]:
            raise ValueError(f"minlength {minlength} is above length {made.shape[0]}")
        return wrap(made)
    if found.shape[0] == 0:
        return wrap(torch.zeros(minlength, dtype=torch.int64 if by is None else by.dtype, device=device))
    if _sojourn.step_active():
        raise ValueNeeded("bincount: the size of its result depends on values; pass length=, the number of counts")
    try:
        made = torch.bincount(found, by)
    except RuntimeError as error:
        if "non-negative" not in str(error):
            raise
        raise ValueError("'list' argument must have no negative elements") from error
    more = max(minlength - made.shape[0], 0)
    return wrap(torch.cat([made, torch.zeros(more, dtype=made.dtype, device=made.device)]) if more else made)


def places_of(edges: torch.Tensor, v: torch.Tensor, right: bool) -> torch.Tensor:
    """Where the elements belong in sorted edges of the same dtype without NaN. NaN belongs to the end."""
    return torch.searchsorted(edges, v.contiguous(), right=right)


def _places(a: torch.Tensor, v: torch.Tensor, right: bool, mayLack: bool) -> torch.Tensor:
    if a.dtype in COMPLEX:
        return _places_by_sorting(a, v, right)
    if a.dtype not in FLOATS or not mayLack:
        return places_of(a, v, right)
    # NaN is sorted to the end, which torch's search does not know.
    bad = torch.isnan(a)
    count = torch.sum(~bad, dtype=torch.int64)
    found = torch.minimum(places_of(torch.where(bad, math.inf, a), v, right), count)
    return torch.where(torch.isnan(v), a.shape[0], found) if right else found


def _places_by_sorting(a: torch.Tensor, v: torch.Tensor, right: bool) -> torch.Tensor:
    """From the ranks of the elements among both arrays; equal ones come before those of `a`, or after them."""
    flat = v.reshape(-1)
    both = torch.cat([a, flat] if right else [flat, a])
    ranks = order_of(order_of(both))
    own = order_of(order_of(flat))
    return ((ranks[a.shape[0] :] if right else ranks[: flat.shape[0]]) - own).reshape(v.shape)


@function
def searchsorted(a, v, side="left", sorter=None) -> ndarray:
    """The indices at which elements would be put into a sorted array: before equal ones, or after them. int64.

    `sorter`: the indices that sort `a`, which are not checked.
    """
    if side not in ("left", "right"):
        raise ValueError(f"search side must be one of 'left' or 'right' (got {side!r})")
    mayLack = any_remote((a,)) or bool(numpy.any(numpy.isnan(numpy.asarray(a))))
    if sorter is not None and not any_remote((a, v)):
        a, _ = tensors(a, sorter)
    found, values = promoted(a, v)
    if found.dim() != 1:
        raise ValueError(
            "object too deep for desired array" if found.dim() else "object of too small depth for desired array"
        )
    if sorter is not None:
        order = tensor(sorter, device=found.device)
        if order.dtype not in INTEGERS:
            raise TypeError("sorter must only contain integers")
        if order.shape != found.shape:
            raise ValueError("sorter.size must be equal to a.size")
        found = found.index_select(0, order.to(torch.int64))
    return wrap(_places(found, values, side == "right", mayLack))


@function
def digitize(x, bins, right=False) -> ndarray:
    """The indices of the bins to which elements belong: int64. `right`: a bin has its right edge, not its left one.

    Edges fall or rise; NumPy raises ValueError for others, here only where `bins` is at the host.
    """
    found, edges = promoted(x, bins)
    if tensors(x, bins)[0].dtype in COMPLEX:
        raise TypeError("x may not be complex")
    if edges.dim() != 1:
        raise ValueError(
            "object of too small depth for desired array" if edges.dim() == 0 else "object too deep for desired array"
        )
    if not any_remote((bins,)):
        steps = numpy.diff(numpy.asarray(bins).astype(NUMPY[edges.dtype]))
        if not (numpy.all(steps >= 0) or numpy.all(steps <= 0)):
            raise ValueError("bins must be monotonically increasing or decreasing")
    n = edges.shape[0]
    if n == 0:
        return wrap(torch.zeros_like(found, dtype=torch.int64))
    isFalling = edges[0] > edges[n - 1]
    rising = torch.where(isFalling, torch.flip(edges, (0,)), edges)
    place = places_of(rising, found, not right)
    return wrap(torch.where(isFalling, n - place, place))
