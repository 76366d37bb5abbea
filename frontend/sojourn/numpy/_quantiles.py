# SPDX-License-Identifier: Apache-2.0
"""Quantiles and percentiles by every method of NumPy's, from one sort. The probabilities may be remote, too."""

from __future__ import annotations

from typing import Any

import numpy
import torch

from ._array import ndarray
from ._averages import weights_for
from ._convert import any_remote, axes_of, function, tensor
from ._dtypes import FLOATS, NUMPY, dtype_of, torch_dtype
from ._reducing import count_of, isnan, keeps, last_axis, operand, reduced_shape, stored
from ._sorting import order_of, sorted_of

__all__ = ["percentile", "quantile"]

# Hyndman and Fan's alpha and beta of the continuous methods.
_SPREAD = {
    "interpolated_inverted_cdf": (0.0, 1.0),
    "hazen": (0.5, 0.5),
    "weibull": (0.0, 0.0),
    "median_unbiased": (1 / 3.0, 1 / 3.0),
    "normal_unbiased": (3 / 8.0, 3 / 8.0),
}
_METHODS = (
    "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "hazen", "weibull",
    "linear", "median_unbiased", "normal_unbiased", "lower", "higher", "midpoint", "nearest",
)  # fmt: skip


class Probabilities:
    """An argument `q` between 0 and 1: on the host, or at an owner, where it is not checked."""

    def __init__(self, q, percent: bool):
        #: A Python number, which does not widen the dtype of the result.
        self.isWeak = type(q) in (int, float)
        self.value: Any
        self.isRemote = any_remote((q,))
        if self.isRemote:
            self.value = tensor(q)
            if percent:
                isFloat = self.value.dtype in FLOATS
                self.value = (self.value if isFloat else self.value.to(torch.float64)) / 100
        else:
            self.value = numpy.asarray(q)
            dtype_of(self.value.dtype)
            self.value = numpy.true_divide(self.value, 100) if percent else self.value
            self.value = numpy.asarray(self.value)
            if not bool(numpy.all((self.value >= 0) & (self.value <= 1))):
                kind, top = ("Percentiles", 100) if percent else ("Quantiles", 1)
                raise ValueError(f"{kind} must be in the range [0, {top}]")
        if len(self.value.shape) > 2:
            raise ValueError("q must be a scalar or 1d")
        self.dtype = NUMPY[self.value.dtype] if self.isRemote else self.value.dtype
        self.shape = tuple(self.value.shape)

    def at(self, device: torch.device) -> torch.Tensor:
        """In a row, at a device."""
        found = self.value if self.isRemote else tensor(self.value, device=device)
        return found.reshape(-1)

    def floating(self):
        """Of a floating dtype; integers as float64."""
        if self.dtype.kind == "f":
            return self.value
        return self.value.to(torch.float64) if self.isRemote else self.value.astype("float64")


def _places(method: str, n, q, xp) -> tuple[Any, Any, Any]:
    """The places of the two neighbours among `n` sorted elements, and the weight of the second; None: no weight.

    `xp`: numpy or torch, whichever `n` and `q` are of.
    """
    last = n - 1
    if method in ("inverted_cdf", "closest_observation"):
        exact = n * q - 1 - (0 if method == "inverted_cdf" else 0.5)
        down = xp.floor(exact)
        stays = exact == down if method == "inverted_cdf" else (exact == down) & (down % 2 == 1)
        place = xp.where(stays, down, down + 1)
        return xp.where(place < 0, 0 * place, place), None, None
    exact = last * q
    if method in ("lower", "higher", "nearest"):
        kernel = {"lower": xp.floor, "higher": xp.ceil, "nearest": xp.round}[method]
        return kernel(exact), None, None
    if method == "averaged_inverted_cdf":
        exact = n * q - 1
    elif method == "midpoint":
        exact = 0.5 * (xp.floor(exact) + xp.ceil(exact))
    elif method != "linear":
        alpha, beta = _SPREAD[method]
        exact = n * q + (alpha + q * (1 - alpha - beta)) - 1
    down = xp.floor(exact)
    weight = exact - down
    half = 0 * weight + 0.5
    if method == "averaged_inverted_cdf":
        weight = xp.where(weight == 0, half, 2 * half)
    elif method == "midpoint":
        weight = xp.where(weight == 0, 0 * half, half)
    up = down + 1
    isHigh, isLow = exact >= last, exact < 0
    # NaN counts as the last place, too.
    isHigh = isHigh | (exact != exact)
    down, up = (xp.where(isHigh, 0 * down + last, xp.where(isLow, 0 * each, each)) for each in (down, up))
    return down, up, weight


def _between(low: torch.Tensor, high: torch.Tensor, weight, to: torch.dtype) -> torch.Tensor:
    """From the nearer end, as NumPy interpolates: the distance is rounded to the elements' dtype."""
    if low.dtype in FLOATS:
        away = (high - low).to(to)
    else:
        away = high.to(to) - low.to(to)
    low, high = low.to(to), high.to(to)
    if isinstance(weight, float):
        return high - away * (1 - weight) if weight >= 0.5 else low + away * weight
    return torch.where(weight >= 0.5, high - away * (1 - weight), low + away * weight)


def _refuse_bool(parts: torch.Tensor) -> None:
    if parts.dtype == torch.bool:
        raise TypeError(
            "numpy boolean subtract, the `-` operator, is not supported, use the bitwise_xor, the `^` operator, or the "
            "logical_xor function instead."
        )


def quantiles_of(parts: torch.Tensor, q: Probabilities, method: str, skipsNaN: bool = False) -> torch.Tensor:
    """Along the last axis; the shape of `q` comes first."""
    if method not in _METHODS:
        raise ValueError(f"{method!r} is not a valid method. Use one of: {', '.join(_METHODS)}")
    n = parts.shape[-1]
    if n == 0:
        raise IndexError("index -1 is out of bounds for axis 0 with size 0")
    takes = method == "linear" and q.dtype.kind in "biu"
    ordered = sorted_of(parts)
    to = (
        parts.dtype
        if q.isWeak and parts.dtype in FLOATS
        else torch_dtype(numpy.result_type(NUMPY[parts.dtype], q.dtype if q.dtype.kind == "f" else "float64"))
    )
    lacking = isnan(parts)
    skipsNaN = skipsNaN and lacking is not None
    low: torch.Tensor
    high: torch.Tensor | None
    if skipsNaN or q.isRemote:
        count: Any = n
        given = q.floating() if q.isRemote else tensor(q.floating(), device=parts.device)
        if skipsNaN:
            count = torch.sum(~torch.isnan(parts), -1, dtype=torch.int64).to(given.dtype)
            given = given.reshape(given.shape + (1,) * count.dim())
        places = _places(method, count, given, torch)

        def taken(place: torch.Tensor) -> torch.Tensor:
            index = torch.clamp(place, 0, n - 1).to(torch.int64)
            if not skipsNaN:
                found = ordered.index_select(-1, index.reshape(-1))
            else:
                found = torch.gather(ordered, -1, torch.movedim(index.reshape(-1, *parts.shape[:-1]), 0, -1))
            return torch.movedim(found, -1, 0).reshape(q.shape + parts.shape[:-1])

        low, weight = taken(places[0]), places[2]
        high = None if places[1] is None else taken(places[1])
        if weight is not None and not skipsNaN:
            weight = weight.reshape(q.shape + (1,) * (parts.dim() - 1))
    else:
        places = _places(method, n, q.floating(), numpy)
        if q.shape == ():
            low = ordered[..., int(places[0])]
            high = None if places[1] is None else ordered[..., int(places[1])]
            weight = None if places[2] is None else float(places[2])
        else:
            index = [None if each is None else each.astype("int64").reshape(-1) for each in places[:2]]

            def chosen(index) -> torch.Tensor:
                found = ordered.index_select(-1, tensor(index, device=parts.device))
                return torch.movedim(found, -1, 0).reshape(q.shape + parts.shape[:-1])

            low = chosen(index[0])
            high = None if index[1] is None else chosen(index[1])
            weight = None
            if places[2] is not None:
                weight = tensor(places[2].reshape(q.shape + (1,) * (parts.dim() - 1)), device=parts.device)
    if high is None or takes:
        found = low
    else:
        _refuse_bool(parts)
        if isinstance(weight, torch.Tensor):
            weight = weight.to(to)
        found = _between(low, high, weight, to)
    if lacking is None or skipsNaN:
        return found
    # A NaN is sorted to the end.
    end = ordered[..., -1]
    return torch.where(torch.isnan(end), end.to(found.dtype), found)


def weighted_of(parts: torch.Tensor, weights: torch.Tensor, q: Probabilities, skipsNaN: bool = False) -> torch.Tensor:
    """By the inverse of the weighted distribution function, along the last axis of both."""
    n = parts.shape[-1]
    order = order_of(parts)
    ordered = torch.gather(parts, -1, order)
    shares = torch.gather(weights.to(torch.float64), -1, order)
    lacking = isnan(ordered)
    if skipsNaN and lacking is not None:
        shares = torch.where(lacking, 0.0, shares)
    reached = torch.cumsum(shares, -1)
    reached = reached / reached[..., -1:]
    wanted = q.at(parts.device)
    if wanted.dtype in FLOATS:
        reached = reached.to(wanted.dtype)
    # An element of no weight at the beginning is never taken, not even by q = 0.
    reached = torch.where(reached == 0, -1.0, reached).contiguous()
    wanted = wanted.to(reached.dtype).expand(parts.shape[:-1] + (wanted.shape[0],)).contiguous()
    index = torch.clamp(torch.searchsorted(reached, wanted), max=n - 1)
    found = torch.movedim(torch.gather(ordered, -1, index), -1, 0)
    if lacking is not None and not skipsNaN:
        found = torch.where(lacking[..., -1], ordered[..., -1], found)
    return found.reshape(q.shape + parts.shape[:-1])


def quantiles(a, q, axis, out, method, keepdims, weights, percent: bool, skipsNaN: bool = False) -> ndarray:
    """Common parts of quantiles and percentiles, with and without NaN."""
    x = operand(a, q, weights, out)
    if x.is_complex():
        raise TypeError("a must be an array of real numbers")
    given = Probabilities(q, percent)
    if weights is not None and method != "inverted_cdf":
        raise ValueError(f"Only method 'inverted_cdf' supports weights. Got: {method}.")
    axes = axes_of(axis, x.dim())
    shape = given.shape + reduced_shape(x.shape, axes, keeps(keepdims))
    if skipsNaN and count_of(x.shape, axes) == 0:
        to = x.dtype if x.dtype in FLOATS else torch.float64
        return stored(torch.full(shape, numpy.nan, dtype=to, device=x.device), out)
    parts = last_axis(x, axes)
    if weights is None:
        return stored(quantiles_of(parts, given, method, skipsNaN).reshape(shape), out)
    if not any_remote((weights,)) and bool(numpy.any(numpy.asarray(weights) < 0)):
        raise ValueError("Weights must be non-negative.")
    by = last_axis(weights_for(weights, x, axis).expand(x.shape), axes)
    return stored(weighted_of(parts, by, given, skipsNaN).reshape(shape), out)


@function
def quantile(
    a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False, *, weights=None
) -> ndarray:
    """The quantiles over axes for probabilities `q`, a number or an array; its shape comes first.

    Of 64-bit elements where `q` is an array, as NumPy's. The values of `q` and of `weights` are not checked where they
    are remote. `weights` needs the method "inverted_cdf". The input is never overwritten.
    """
    return quantiles(a, q, axis, out, method, keepdims, weights, percent=False)


@function
def percentile(
    a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False, *, weights=None
) -> ndarray:
    """The percentiles: `quantile` of q / 100."""
    return quantiles(a, q, axis, out, method, keepdims, weights, percent=True)
