# SPDX-License-Identifier: Apache-2.0
"""Sums, products, extremes, truth, positions and moments over axes; running sums and products.

Results of no dimensions are arrays. Sums and products of uint8 are int64, where NumPy's are uint64.
"""

from __future__ import annotations

import numpy
import torch

from ._array import ndarray, wrap
from ._casts import real_for
from ._convert import axes_of, axis_of, function, tensor
from ._dtypes import FLOATS, INTEGERS, inexact, real_of, torch_dtype
from ._reducing import (
    MISSING,
    count_of,
    extreme,
    keeps,
    last_axis,
    mask_of,
    operand,
    position,
    reduced_axes,
    reduced_shape,
    scalar_of,
    selected,
    stored,
)

__all__ = [
    "all", "amax", "amin", "any", "argmax", "argmin", "count_nonzero", "cumprod", "cumsum", "cumulative_prod",
    "cumulative_sum", "max", "mean", "min", "prod", "ptp", "std", "sum", "var",
]  # fmt: skip


def _sum_dtype(x: torch.Tensor, dtype) -> torch.dtype:
    if dtype is not None and dtype is not MISSING:
        return torch_dtype(dtype)
    return torch.int64 if x.dtype in INTEGERS or x.dtype == torch.bool else x.dtype


def _total(x: torch.Tensor, axes: tuple[int, ...], keepdims: bool, dtype: torch.dtype) -> torch.Tensor:
    if not axes:
        return real_for(x, dtype).to(dtype, copy=True)
    return torch.sum(real_for(x, dtype), axes, keepdims, dtype=dtype)


@function
def sum(a, axis=None, dtype=None, out=None, keepdims=MISSING, initial=MISSING, where=MISSING) -> ndarray:
    """The sum over axes. Of bool and integers: int64."""
    if axis is dtype is out is None and keepdims is initial is where is MISSING and type(a) is ndarray:
        if a._t.dtype in FLOATS:
            return wrap(torch.sum(a._t))  # the most frequent call
    x = operand(a, out, where, initial)
    axes = reduced_axes(axis, x.dim())
    found = _total(selected(x, mask_of(where, x), 0), axes, keeps(keepdims), _sum_dtype(x, dtype))
    if initial is not MISSING and initial is not None:
        found = found + scalar_of(initial, found)
    return stored(found, out, "unsafe")


@function
def prod(a, axis=None, dtype=None, out=None, keepdims=MISSING, initial=MISSING, where=MISSING) -> ndarray:
    """The product over axes. Of bool and integers: int64."""
    x = operand(a, out, where, initial)
    axes = reduced_axes(axis, x.dim())
    to = _sum_dtype(x, dtype)
    parts = last_axis(selected(x, mask_of(where, x), 1), axes)
    found = torch.prod(real_for(parts, to), -1, dtype=to).reshape(reduced_shape(x.shape, axes, keeps(keepdims)))
    if initial is not MISSING and initial is not None:
        found = found * scalar_of(initial, found)
    return stored(found, out, "unsafe")


def _extreme(a, axis, out, keepdims, initial, where, largest: bool) -> ndarray:
    x = operand(a, out, where, initial)
    axes = reduced_axes(axis, x.dim())
    name = "maximum" if largest else "minimum"
    mask = mask_of(where, x)
    start = None if initial is MISSING or initial is None else scalar_of(initial, x)
    if mask is not None:
        if start is None:
            raise ValueError(
                f"reduction operation '{name}' does not have an identity, so to use a where mask one has to specify "
                "'initial'"
            )
        x = torch.where(mask, x, start)
    shape = reduced_shape(x.shape, axes, keeps(keepdims))
    if x.numel() == 0:
        made = torch.empty(shape, dtype=x.dtype, device=x.device)
        if made.numel() and start is None:
            raise ValueError(f"zero-size array to reduction operation {name} which has no identity")
        return stored(made if start is None else start.expand(shape).clone(), out, "unsafe")
    found = extreme(x, axes, largest).reshape(shape)
    if start is not None:
        found = extreme(torch.stack([found, start.expand(shape)]), (0,), largest).squeeze(0)
    return stored(found, out, "unsafe")


@function
def max(a, axis=None, out=None, keepdims=MISSING, initial=MISSING, where=MISSING) -> ndarray:
    """The largest element over axes; NaN if there is one. Complex numbers are ordered lexicographically."""
    return _extreme(a, axis, out, keepdims, initial, where, largest=True)


@function
def min(a, axis=None, out=None, keepdims=MISSING, initial=MISSING, where=MISSING) -> ndarray:
    """The smallest element over axes; NaN if there is one. Complex numbers are ordered lexicographically."""
    return _extreme(a, axis, out, keepdims, initial, where, largest=False)


@function
def amax(a, axis=None, out=None, keepdims=MISSING, initial=MISSING, where=MISSING) -> ndarray:
    """Another name of `max`."""
    return _extreme(a, axis, out, keepdims, initial, where, largest=True)


@function
def amin(a, axis=None, out=None, keepdims=MISSING, initial=MISSING, where=MISSING) -> ndarray:
    """Another name of `min`."""
    return _extreme(a, axis, out, keepdims, initial, where, largest=False)


@function
def ptp(a, axis=None, out=None, keepdims=MISSING) -> ndarray:
    """The largest minus the smallest element over axes."""
    x = tensor(a)
    if x.dtype == torch.bool:
        raise TypeError(
            "numpy boolean subtract, the `-` operator, is not supported, use the bitwise_xor, the `^` operator, or the "
            "logical_xor function instead."
        )
    high = _extreme(x, axis, None, keepdims, MISSING, MISSING, largest=True)
    low = _extreme(x, axis, None, keepdims, MISSING, MISSING, largest=False)
    return stored(high._t - low._t, out)


@function
def all(a, axis=None, out=None, keepdims=MISSING, *, where=MISSING) -> ndarray:
    """Whether every element over axes is true: bool."""
    return _truth(a, axis, out, keepdims, where, True)


@function
def any(a, axis=None, out=None, keepdims=MISSING, *, where=MISSING) -> ndarray:
    """Whether one element over axes is true: bool."""
    return _truth(a, axis, out, keepdims, where, False)


def _truth(a, axis, out, keepdims, where, ofAll: bool) -> ndarray:
    x = operand(a, out, where)
    axes = reduced_axes(axis, x.dim())
    truth = x if x.dtype == torch.bool else x != 0
    truth = selected(truth, mask_of(where, truth), ofAll)
    if not axes:
        return stored(truth.clone(), out, "unsafe")
    return stored((torch.all if ofAll else torch.any)(truth, axes, keeps(keepdims)), out, "unsafe")


@function
def count_nonzero(a, axis=None, *, keepdims=False) -> ndarray:
    """How many elements over axes are not zero: int64."""
    x = tensor(a)
    return stored(_total(x != 0, reduced_axes(axis, x.dim()), bool(keepdims), torch.int64), None)


def _along(kernel, x: torch.Tensor, axis: int, to: torch.dtype) -> torch.Tensor:
    if to == torch.bool:
        return kernel(x != 0, axis, dtype=torch.int64) != 0
    return kernel(real_for(x, to), axis, dtype=to)


def _running(kernel, a, axis, dtype, out) -> ndarray:
    x = tensor(a)
    if axis is None or (x.dim() == 0 and axis in (0, -1)):
        x, axis = x.reshape(-1), 0
    return stored(_along(kernel, x, axis_of(axis, x.dim()), _sum_dtype(x, dtype)), out, "unsafe")


@function
def cumsum(a, axis=None, dtype=None, out=None) -> ndarray:
    """Running sums along an axis; of all elements in a row without one. Of bool and integers: int64."""
    return _running(torch.cumsum, a, axis, dtype, out)


@function
def cumprod(a, axis=None, dtype=None, out=None) -> ndarray:
    """Running products, likewise."""
    return _running(torch.cumprod, a, axis, dtype, out)


def _cumulative(kernel, x, axis, dtype, out, include_initial, identity: int) -> ndarray:
    found = tensor(x)
    if found.dim() == 0:
        found = found.reshape(1)
    if axis is None:
        if found.dim() != 1:
            raise ValueError("For arrays which have more than one dimension ``axis`` argument is required.")
        axis = 0
    axis = axis_of(axis, found.dim())
    to = _sum_dtype(found, dtype)
    result = _along(kernel, found, axis, to)
    if include_initial:
        shape = [1 if k == axis else n for k, n in enumerate(found.shape)]
        result = torch.cat([torch.full(shape, identity, dtype=result.dtype, device=result.device), result], axis)
    return stored(result, out, "unsafe")


@function
def cumulative_sum(x, /, *, axis=None, dtype=None, out=None, include_initial=False) -> ndarray:
    """Running sums along an axis, which an array of more than one dimension needs. `include_initial`: from 0 on."""
    return _cumulative(torch.cumsum, x, axis, dtype, out, include_initial, 0)


@function
def cumulative_prod(x, /, *, axis=None, dtype=None, out=None, include_initial=False) -> ndarray:
    """Running products, likewise. `include_initial`: from 1 on."""
    return _cumulative(torch.cumprod, x, axis, dtype, out, include_initial, 1)


def _position(a, axis, out, keepdims, largest: bool) -> ndarray:
    x = tensor(a)
    shape = tuple(x.shape)
    if axis is None:
        axes: tuple[int, ...] = tuple(range(x.dim()))
    else:
        axes = () if x.dim() == 0 and axis in (0, -1) else (axis_of(axis, x.dim()),)
    result = reduced_shape(shape, axes, keeps(keepdims))
    if count_of(shape, axes) == 0 and numpy.prod(result) != 0:
        raise ValueError(f"attempt to get {'argmax' if largest else 'argmin'} of an empty sequence")
    parts = last_axis(x, axes)
    if parts.numel() == 0:
        return stored(torch.empty(result, dtype=torch.int64, device=x.device), out)
    return stored(position(parts, -1, largest).reshape(result), out)


@function
def argmax(a, axis=None, out=None, *, keepdims=MISSING) -> ndarray:
    """The first index of the largest element along an axis, or in the array as one row; of the first NaN. int64."""
    return _position(a, axis, out, keepdims, largest=True)


@function
def argmin(a, axis=None, out=None, *, keepdims=MISSING) -> ndarray:
    """The first index of the smallest element, likewise."""
    return _position(a, axis, out, keepdims, largest=False)


def _count(x: torch.Tensor, mask: torch.Tensor | None, axes: tuple[int, ...]) -> torch.Tensor | int:
    """The number of elements, over axes that are kept."""
    if mask is None:
        return count_of(x.shape, axes)
    return _total(mask.expand(x.shape), axes, True, torch.int64)


def _moment_axes(axis, x: torch.Tensor) -> tuple[int, ...]:
    return axes_of(axis, x.dim())


def mean_of(x: torch.Tensor, axes: tuple[int, ...], mask: torch.Tensor | None, to: torch.dtype) -> torch.Tensor:
    """The mean in the dtype `to`, over axes that are kept."""
    if mask is None and axes and to not in INTEGERS and to != torch.bool:
        return torch.mean(real_for(x, to).to(to), axes, True)
    total = _total(selected(x, mask, 0), axes, True, to)
    return total / _count(x, mask, axes)


def wide(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which moments of such elements are computed."""
    return torch.float32 if dtype == torch.float16 else inexact(dtype)


@function
def mean(a, axis=None, dtype=None, out=None, keepdims=MISSING, *, where=MISSING) -> ndarray:
    """The mean over axes: float64 of bool and integers; of float16 it is computed in float32."""
    x = operand(a, out, where)
    axes = _moment_axes(axis, x)
    if (
        dtype is None
        and out is None
        and where is MISSING
        and axes
        and (x.dtype == torch.float64 or x.dtype == torch.float32)
    ):
        return wrap(torch.mean(x, axes, keeps(keepdims)))
    found = mean_of(x, axes, mask_of(where, x), wide(x.dtype) if dtype is None else torch_dtype(dtype))
    found = found.reshape(reduced_shape(x.shape, axes, keeps(keepdims)))
    return stored(found.to(inexact(x.dtype) if dtype is None else torch_dtype(dtype)), out, "unsafe")


def variance(x: torch.Tensor, axes, mask, center, ddof, to: torch.dtype) -> torch.Tensor:
    """The variance of elements converted to the dtype `to`, over axes that are kept; real."""
    x = x.to(to)
    if mask is None and center is None and axes:
        return torch.var(x, axes, correction=ddof, keepdim=True)
    if center is None:
        center = mean_of(x, axes, mask, to)
    away = x - center
    square = away * away if not away.is_complex() else away.real * away.real + away.imag * away.imag
    total = _total(selected(square, mask, 0), axes, True, square.dtype)
    count = _count(x, mask, axes)
    if isinstance(count, int):
        return total / float(numpy.maximum(count - ddof, 0))
    return total / torch.clamp(count - ddof, min=0).to(total.dtype)


def center_of(x: torch.Tensor, axes, mask, mean, to: torch.dtype) -> tuple[torch.Tensor | None, torch.dtype]:
    """The argument `mean` of a variance in the dtype `to`, and the dtype of the deviations."""
    isNarrowed = x.is_complex() and not to.is_complex
    dtype = x.dtype if isNarrowed else to
    if mean is not MISSING:
        return tensor(mean, dtype, x.device), dtype
    # NumPy takes deviations of complex numbers from the mean of their real parts.
    return (mean_of(x, axes, mask, to) if isNarrowed else None), dtype


def freedom(ddof, correction):
    """The given one of the two arguments with this meaning."""
    if correction is MISSING:
        return ddof
    if ddof != 0:
        raise ValueError("ddof and correction can't be provided simultaneously.")
    return correction


def _variance(a, axis, dtype, ddof, keepdims, where, mean, correction) -> torch.Tensor:
    x = operand(a, where)
    axes = _moment_axes(axis, x)
    asked = None if dtype is None else torch_dtype(dtype)
    to = wide(x.dtype) if asked is None or (asked not in FLOATS and x.dtype in FLOATS) else wide(asked)
    mask = mask_of(where, x)
    center, to = center_of(x, axes, mask, mean, to)
    found = variance(x, axes, mask, center, freedom(ddof, correction), to)
    found = found.reshape(reduced_shape(x.shape, axes, keeps(keepdims)))
    return found.to(real_of(inexact(x.dtype)) if asked is None else asked)


@function
def var(
    a, axis=None, dtype=None, out=None, ddof=0, keepdims=MISSING, *, where=MISSING, mean=MISSING, correction=MISSING
) -> ndarray:
    """The variance over axes, real; the sum of squares is divided by the count minus `ddof`.

    `mean`: the means with kept axes, if they are known. `correction`: another name of `ddof`.
    """
    return stored(_variance(a, axis, dtype, ddof, keepdims, where, mean, correction), out, "unsafe")


@function
def std(
    a, axis=None, dtype=None, out=None, ddof=0, keepdims=MISSING, *, where=MISSING, mean=MISSING, correction=MISSING
) -> ndarray:
    """The standard deviation: the root of `var`."""
    return stored(torch.sqrt(_variance(a, axis, dtype, ddof, keepdims, where, mean, correction)), out)
