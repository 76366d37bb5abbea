# SPDX-License-Identifier: Apache-2.0
"""Reductions that leave NaN out. Whether a slice has only NaN is not known without its values: nothing is raised."""

from __future__ import annotations

import math

import torch

from . import _reductions as reductions
from ._array import ndarray
from ._averages import median_of
from ._convert import axes_of, function
from ._dtypes import COMPLEX, inexact, real_of, torch_dtype
from ._quantiles import quantiles
from ._reducing import (
    MISSING,
    count_of,
    isnan,
    keeps,
    last_axis,
    mask_of,
    operand,
    reduced_axes,
    reduced_shape,
    scalar_of,
    stored,
)
from ._reductions import center_of, freedom, mean_of, variance, wide
from ._sorting import sorted_of

__all__ = [
    "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmedian", "nanmin", "nanpercentile",
    "nanprod", "nanquantile", "nanstd", "nansum", "nanvar",
]  # fmt: skip


def _filled(x: torch.Tensor, number) -> torch.Tensor:
    """With a number in place of NaN."""
    bad = isnan(x)
    return x if bad is None else torch.where(bad, torch.full((), number, dtype=x.dtype, device=x.device), x)


@function
def nansum(a, axis=None, dtype=None, out=None, keepdims=MISSING, initial=MISSING, where=MISSING) -> ndarray:
    """The sum over axes without NaN; 0 of nothing else."""
    return reductions.sum(_filled(operand(a, out, where), 0), axis, dtype, out, keepdims, initial, where)


@function
def nanprod(a, axis=None, dtype=None, out=None, keepdims=MISSING, initial=MISSING, where=MISSING) -> ndarray:
    """The product over axes without NaN; 1 of nothing else."""
    return reductions.prod(_filled(operand(a, out, where), 1), axis, dtype, out, keepdims, initial, where)


@function
def nancumsum(a, axis=None, dtype=None, out=None) -> ndarray:
    """Running sums in which NaN counts as 0."""
    return reductions.cumsum(_filled(operand(a, out), 0), axis, dtype, out)


@function
def nancumprod(a, axis=None, dtype=None, out=None) -> ndarray:
    """Running products in which NaN counts as 1."""
    return reductions.cumprod(_filled(operand(a, out), 1), axis, dtype, out)


def _outermost(x: torch.Tensor, largest: bool) -> complex | float:
    bound = -math.inf if largest else math.inf
    return complex(bound, bound) if x.dtype in COMPLEX else bound


def _extreme(a, axis, out, keepdims, initial, where, largest: bool) -> ndarray:
    x = operand(a, out, where, initial)
    kernel = reductions.max if largest else reductions.min
    bad = isnan(x)
    if bad is None:
        return kernel(x, axis, out, keepdims, initial, where)
    if initial is not MISSING and initial is not None:
        start = scalar_of(initial, x)
        first = torch.where(torch.isnan(start), _outermost(x, largest), start)
        found = kernel(torch.where(bad, first, x), axis, None, keepdims, first, where)._t
        mask = mask_of(where, x)
        none = bad if mask is None else bad | ~mask
        isEmpty = reductions.all(none, axis, None, keepdims)._t
        return stored(torch.where(isEmpty, start, found), out)
    found = kernel(_filled(x, _outermost(x, largest)), axis, None, keepdims, MISSING, where)._t
    isEmpty = reductions.all(bad, axis, None, keepdims)._t
    return stored(torch.where(isEmpty, torch.full((), math.nan, dtype=x.dtype, device=x.device), found), out)


@function
def nanmax(a, axis=None, out=None, keepdims=MISSING, initial=MISSING, where=MISSING) -> ndarray:
    """The largest element over axes without NaN; NaN of nothing else."""
    return _extreme(a, axis, out, keepdims, initial, where, largest=True)


@function
def nanmin(a, axis=None, out=None, keepdims=MISSING, initial=MISSING, where=MISSING) -> ndarray:
    """The smallest element over axes without NaN; NaN of nothing else."""
    return _extreme(a, axis, out, keepdims, initial, where, largest=False)


def _position(a, axis, out, keepdims, largest: bool) -> ndarray:
    x = operand(a, out)
    kernel = reductions.argmax if largest else reductions.argmin
    bad = isnan(x)
    if bad is None:
        return kernel(x, axis, out, keepdims=keepdims)
    found = kernel(_filled(x, _outermost(x, largest)), axis, keepdims=keepdims)._t
    isEmpty = reductions.all(bad, axis, None, keepdims)._t
    return stored(torch.where(isEmpty, -1, found), out)


@function
def nanargmax(a, axis=None, out=None, *, keepdims=MISSING) -> ndarray:
    """The first index of the largest element without NaN. -1 where all are NaN; NumPy raises ValueError."""
    return _position(a, axis, out, keepdims, largest=True)


@function
def nanargmin(a, axis=None, out=None, *, keepdims=MISSING) -> ndarray:
    """The first index of the smallest element without NaN. -1 where all are NaN; NumPy raises ValueError."""
    return _position(a, axis, out, keepdims, largest=False)


def _inexact_only(dtype, out) -> None:
    if dtype is not None and not torch_dtype(dtype).is_floating_point and not torch_dtype(dtype).is_complex:
        raise TypeError("If a is inexact, then dtype must be inexact")
    if isinstance(out, ndarray) and out.dtype.kind not in "fc":
        raise TypeError("If a is inexact, then out must be inexact")


@function
def nanmean(a, axis=None, dtype=None, out=None, keepdims=MISSING, *, where=MISSING) -> ndarray:
    """The mean over axes without NaN; NaN of nothing else. Of float16 it is computed in float32."""
    x = operand(a, out, where)
    bad = isnan(x)
    if bad is None:
        return reductions.mean(x, axis, dtype, out, keepdims, where=where)
    _inexact_only(dtype, out)
    axes = reduced_axes(axis, x.dim())
    mask = mask_of(where, x)
    used = ~bad if mask is None else ~bad & mask
    found = mean_of(x, axes, used, wide(x.dtype) if dtype is None else torch_dtype(dtype))
    found = found.reshape(reduced_shape(x.shape, axes, keeps(keepdims)))
    return stored(found.to(x.dtype if dtype is None else torch_dtype(dtype)), out, "unsafe")


def _variance(a, axis, dtype, out, ddof, keepdims, where, mean, correction, isRoot: bool) -> ndarray:
    x = operand(a, out, where, mean)
    bad = isnan(x)
    ddof = freedom(ddof, correction)
    if bad is None:
        kernel = reductions.std if isRoot else reductions.var
        return kernel(x, axis, dtype, out, ddof, keepdims, where=where, mean=mean)
    _inexact_only(dtype, out)
    axes = reduced_axes(axis, x.dim())
    mask = mask_of(where, x)
    used = ~bad if mask is None else ~bad & mask
    to = wide(x.dtype) if dtype is None else wide(torch_dtype(dtype))
    center, to = center_of(x, axes, used, mean, to)
    found = variance(x, axes, used, center, ddof, to)
    count = torch.sum(used, axes, True, dtype=torch.int64) if axes else used.to(torch.int64)
    found = torch.where(count - ddof <= 0, math.nan, found)
    found = found.reshape(reduced_shape(x.shape, axes, keeps(keepdims)))
    asked = real_of(inexact(x.dtype)) if dtype is None else torch_dtype(dtype)
    found = found.to(asked)
    return stored(torch.sqrt(found) if isRoot else found, out, "unsafe")


@function
def nanvar(
    a, axis=None, dtype=None, out=None, ddof=0, keepdims=MISSING, *, where=MISSING, mean=MISSING, correction=MISSING
) -> ndarray:
    """The variance over axes without NaN; NaN where no more than `ddof` elements are left."""
    return _variance(a, axis, dtype, out, ddof, keepdims, where, mean, correction, isRoot=False)


@function
def nanstd(
    a, axis=None, dtype=None, out=None, ddof=0, keepdims=MISSING, *, where=MISSING, mean=MISSING, correction=MISSING
) -> ndarray:
    """The standard deviation: the root of `nanvar`."""
    return _variance(a, axis, dtype, out, ddof, keepdims, where, mean, correction, isRoot=True)


@function
def nanmedian(a, axis=None, out=None, overwrite_input=False, keepdims=MISSING) -> ndarray:
    """The median over axes without NaN; NaN of nothing else. The input is never overwritten."""
    x = operand(a, out)
    axes = axes_of(axis, x.dim())
    shape = reduced_shape(x.shape, axes, keeps(keepdims))
    parts = last_axis(x, axes)
    bad = isnan(parts)
    if bad is None or count_of(x.shape, axes) == 0:
        return stored(median_of(parts).reshape(shape), out)
    # NaN is sorted to the end, and taken only where there is nothing else.
    ordered = sorted_of(parts)
    count = torch.sum(~bad, -1, True, dtype=torch.int64)
    low = torch.clamp(torch.div(count - 1, 2, rounding_mode="floor"), min=0)
    high = torch.clamp(torch.div(count, 2, rounding_mode="floor"), max=parts.shape[-1] - 1)
    to = wide(x.dtype)
    first, second = (torch.gather(ordered, -1, each).to(to) for each in (low, high))
    found = torch.where(low == high, first, (first + second) / 2)
    return stored(found.to(x.dtype).reshape(shape), out)


@function
def nanquantile(
    a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=MISSING, *, weights=None
) -> ndarray:
    """As `quantile`, without NaN; NaN of nothing else. The dtype does not depend on values.

    NumPy's does: where the first slice is all NaN and `q` is an array, it gives the dtype of `a`.
    """
    return quantiles(a, q, axis, out, method, keepdims, weights, percent=False, skipsNaN=True)


@function
def nanpercentile(
    a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=MISSING, *, weights=None
) -> ndarray:
    """As `percentile`, without NaN; NaN of nothing else."""
    return quantiles(a, q, axis, out, method, keepdims, weights, percent=True, skipsNaN=True)
