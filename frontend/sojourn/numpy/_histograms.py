# SPDX-License-Identifier: Apache-2.0
"""Histograms. Edges are remote arrays: those of a number of bins follow from the range of the values, unread."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy
import torch

import _sojourn

from ..errors import ValueNeeded
from ._array import ndarray, wrap
from ._bins import counted, places_of
from ._convert import _device_among, any_remote, function, is_remote, place, tensor
from ._dtypes import FLOATS, NUMPY, torch_dtype
from ._quantiles import percentile
from ._reductions import std

__all__ = ["histogram", "histogram2d", "histogram_bin_edges", "histogramdd"]

_RULES = ("auto", "doane", "fd", "rice", "scott", "sqrt", "stone", "sturges")


def _checked_range(span) -> tuple[Any, Any]:
    first, last = span
    if not is_remote(first) and not is_remote(last):
        if first > last:
            raise ValueError("max must be larger than min in range parameter.")
        if not (numpy.isfinite(first) and numpy.isfinite(last)):
            raise ValueError(f"supplied range of [{first}, {last}] is not finite")
        if first == last:
            first, last = first - 0.5, last + 0.5
    return first, last


def _outer(x: torch.Tensor, span) -> tuple[Any, Any]:
    """The first and the last edge: numbers, or remote in a floating dtype."""
    if span is not None:
        first, last = _checked_range(span)
        if not is_remote(first) and not is_remote(last):
            return first, last
    elif x.numel() == 0:
        return 0, 1
    else:
        first, last = torch.amin(x, tuple(range(x.dim()))), torch.amax(x, tuple(range(x.dim())))
    to = x.dtype if x.dtype in FLOATS else torch.float64
    first, last = tensor(first, to, x.device), tensor(last, to, x.device)
    isEmpty = first == last
    return torch.where(isEmpty, first - 0.5, first), torch.where(isEmpty, last + 0.5, last)


def _spaced(first, last, count: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Edges of equal bins."""
    if not isinstance(first, torch.Tensor):
        edges = numpy.linspace(first, last, count + 1, dtype=NUMPY[dtype])
        if numpy.any(edges[:-1] >= edges[1:]):
            raise ValueError(f"Too many bins for data range. Cannot create {count} finite-sized bins.")
        return tensor(edges, device=device)
    steps = torch.arange(count, dtype=dtype, device=device)
    first, last = first.to(dtype), last.to(dtype)
    return torch.cat([steps * ((last - first) / count) + first, last.reshape(1)])


def _given_edges(bins, device: torch.device, name: str = "`bins`") -> torch.Tensor:
    if not any_remote((bins,)):
        edges = numpy.asarray(bins)
        if edges.ndim != 1:
            raise ValueError(f"{name} must be 1d, when an array")
        if numpy.any(edges[:-1] > edges[1:]):
            raise ValueError(f"{name} must increase monotonically, when an array")
    made = tensor(bins, device=device)
    if made.dim() != 1:
        raise ValueError(f"{name} must be 1d, when an array")
    return made


def _is_scalar(bins) -> bool:
    """Whether it is a number of bins; an error where it is an invalid one."""
    if isinstance(bins, (list, tuple)):
        return False
    return len(bins.shape) == 0 if is_remote(bins) else numpy.ndim(bins) == 0


def _edges(x: torch.Tensor, bins, span, hasWeights: bool) -> torch.Tensor:
    if isinstance(bins, str):
        bins = _count_by(bins, x, span, hasWeights)
    if not _is_scalar(bins):
        return _given_edges(bins, x.device)
    try:
        count = operator.index(bins)
    except TypeError as error:
        raise TypeError("`bins` must be an integer, a string, or an array") from error
    if count < 1:
        raise ValueError("`bins` must be positive, when an integer")
    to = x.dtype if x.dtype in FLOATS else torch.float64
    return _spaced(*_outer(x, span), count, to, x.device)


def _count_by(rule: str, x: torch.Tensor, span, hasWeights: bool) -> int:
    """The number of bins by a rule, from a few numbers about the values, which are read."""
    if rule not in _RULES:
        raise ValueError(f"{rule!r} is not a valid estimator for `bins`")
    if hasWeights:
        raise TypeError("Automated estimation of the number of bins is not supported for weighted data")
    if _sojourn.step_active():
        raise ValueNeeded(
            f"bins={rule!r} needs the values to know how many bins there are: inside a step give a number of bins"
        )
    if span is not None:
        first, last = _checked_range(span)
        x = x[(x >= first) & (x <= last)]
    n = x.numel()
    if n == 0:
        return 1
    isInteger = x.dtype not in FLOATS
    low, high = (kernel(x.to(torch.float64), (0,)) for kernel in (torch.amin, torch.amax))
    facts = [low, high, std(x)._t.to(torch.float64)]
    if rule in ("auto", "fd"):
        facts += list(percentile(x, [25, 75])._t.to(torch.float64).unbind())
    if rule == "doane":
        away = x.to(torch.float64) - torch.mean(x.to(torch.float64))
        facts.append(torch.mean((away / facts[2]) ** 3))
    read = wrap(torch.stack(facts)).tolist()
    extent = read[1] - read[0]
    if span is None:
        first, last = (read[0], read[1]) if extent else (read[0] - 0.5, read[1] + 0.5)
    width = _width(rule, x, extent, read, (first, last))
    if not width:
        return 1
    if isInteger and width < 1:
        width = 1
    return math.ceil((last - first) / width)


def _width(rule: str, x: torch.Tensor, extent: float, read: list[float], span) -> float:
    n = x.numel()
    if rule == "sqrt":
        return extent / math.sqrt(n)
    if rule == "sturges":
        return extent / (math.log2(n) + 1)
    if rule == "rice":
        return extent / (2 * n ** (1 / 3))
    if rule == "scott":
        return (24 * math.sqrt(math.pi) / n) ** (1 / 3) * read[2]
    if rule in ("fd", "auto"):
        width = 2 * (read[4] - read[3]) * n ** (-1 / 3)
        if rule == "fd":
            return width
        return min(max(width, extent / math.sqrt(n) / 2), extent / (math.log2(n) + 1))
    if rule == "doane":
        if n <= 2 or read[2] <= 0:
            return 0.0
        spread = math.sqrt(6 * (n - 2) / ((n + 1) * (n + 3)))
        return extent / (1 + math.log2(n) + math.log2(1 + abs(read[3]) / spread))
    # Stone's: the least estimate of the integrated squared error, by cross-validation.
    if n <= 1 or extent == 0:
        return 0.0
    most = max(100, int(math.sqrt(n)))
    shares = [histogram(x, k, span)[0]._t.to(torch.float64) / n for k in range(1, most + 1)]
    squares = wrap(torch.stack([torch.sum(share * share) for share in shares])).tolist()
    losses = [(2 - (n + 1) * square) * k / extent for k, square in enumerate(squares, 1)]
    return extent / (1 + min(range(most), key=losses.__getitem__))


def _values(a, *others) -> torch.Tensor:
    x = tensor(a, device=_device_among((a, *others)) or place())
    return x.reshape(-1).to(torch.uint8) if x.dtype == torch.bool else x.reshape(-1)


def _weights(weights, a, x: torch.Tensor) -> torch.Tensor | None:
    if weights is None:
        return None
    by = tensor(weights, device=x.device)
    if tuple(by.shape) != tuple(numpy.shape(a) if not is_remote(a) else a.shape):
        raise ValueError("weights should have the same shape as a.")
    return by.reshape(-1)


@function
def histogram_bin_edges(a, bins=10, range=None, weights=None) -> ndarray:
    """The edges that `histogram` uses."""
    x = _values(a, bins, range, weights)
    _weights(weights, a, x)
    return wrap(_edges(x, bins, range, weights is not None))


@function
def histogram(a, bins=10, range=None, density=None, weights=None) -> tuple[ndarray, ndarray]:
    """The counts of values in bins, int64, or the sums of their weights, and the edges. NaN is left out.

    A rule by its name ("auto", ...) reads a few numbers to know how many bins there are, which inside a step raises ValueNeeded.
    A range that is infinite gives edges of NaN; NumPy raises ValueError. Remote edges are not checked.
    """
    x = _values(a, bins, range, weights)
    by = _weights(weights, a, x)
    edges = _edges(x, bins, range, by is not None)
    count = edges.shape[0] - 1
    common = torch_dtype(numpy.result_type(NUMPY[x.dtype], NUMPY[edges.dtype]))
    bounds, values = edges.to(common), x.to(common)
    index = places_of(bounds, values, True) - 1
    index = torch.where(values == bounds[count], count - 1, index)
    if by is None:
        made = counted(index, None, count)
    else:
        made = counted(index, by if by.is_complex() else by.to(torch.float64), count).to(by.dtype)
    if density:
        total = torch.sum(made)
        made = made / torch.diff(edges).to(torch.float64) / total
    return wrap(made), wrap(edges)


@function
def histogramdd(sample, bins=10, range=None, density=None, weights=None) -> tuple[ndarray, list[ndarray]]:
    """The counts of points in boxes, float64, or the sums of their weights, and a list of the edges per dimension.

    `sample`: an array with a point in each row, or a sequence of arrays of coordinates. As `histogram` otherwise.
    """
    device = _device_among((sample, bins, range, weights)) or place()
    if isinstance(sample, (list, tuple)):
        columns = [tensor(each, device=device).reshape(-1) for each in sample]
    else:
        points = tensor(sample, device=device)
        points = points if points.dim() == 2 else points.reshape(1, -1).T
        columns = list(points.unbind(1))
    if _is_scalar(bins):
        bins = [bins] * len(columns)
    if len(bins) != len(columns):
        raise ValueError("The dimension of bins must be equal to the dimension of the sample x.")
    spans = [None] * len(columns) if range is None else range
    if len(spans) != len(columns):
        raise ValueError("range argument must have one entry per dimension")
    edges, flat, sizes = [], None, []
    for k, (column, each, span) in enumerate(zip(columns, bins, spans)):
        bounds = _edges_along(column, each, span, f"`bins[{k}]`")
        edges.append(bounds)
        common = torch_dtype(numpy.result_type(NUMPY[column.dtype], NUMPY[bounds.dtype]))
        limits, values = bounds.to(common), column.to(common)
        index = places_of(limits, values, True)
        # The last edge belongs to the last bin. Bins 0 and n + 1 are of what lies outside.
        index = torch.where(values == limits[-1], index - 1, index)
        sizes.append(bounds.shape[0] + 1)
        flat = index if flat is None else flat * sizes[-1] + index
    assert flat is not None
    by = None
    if weights is not None:
        by = tensor(weights, device=device)
        if by.is_complex():
            raise TypeError(
                "Cannot cast array data from dtype('complex128') to dtype('float64') according to the rule 'safe'"
            )
        if by.shape != flat.shape:
            raise ValueError("The weights and list don't have the same length.")
        by = by.to(torch.float64)
    made = counted(flat, by, math.prod(sizes)).to(torch.float64).reshape(sizes)
    for k, size in enumerate(sizes):
        made = made.narrow(k, 1, size - 2)
    if density:
        total = torch.sum(made)
        for k, bounds in enumerate(edges):
            shape = [-1 if j == k else 1 for j, _ in enumerate(sizes)]
            made = made / torch.diff(bounds).to(torch.float64).reshape(shape)
        made = made / total
    return wrap(made.contiguous()), [wrap(each) for each in edges]


def _edges_along(column: torch.Tensor, bins, span, name: str) -> torch.Tensor:
    if not _is_scalar(bins):
        return _given_edges(bins, column.device, name)
    try:
        count = operator.index(bins)
    except TypeError as error:
        raise TypeError(f"{name} must be an integer, when a scalar") from error
    if count < 1:
        raise ValueError(f"{name} must be positive, when an integer")
    first, last = _outer(column, span)
    to = first.dtype if isinstance(first, torch.Tensor) else torch.float64
    return _spaced(first, last, count, to, column.device)


@function
def histogram2d(x, y, bins=10, range=None, density=None, weights=None) -> tuple[ndarray, ndarray, ndarray]:
    """The counts of points in rectangles, float64, and the edges of both dimensions. As `histogramdd` otherwise.

    A remote array `bins` has the edges of both dimensions, also where it is of length 2.
    """
    if len(x) != len(y):
        raise ValueError("x and y must have the same length.")
    if not _is_scalar(bins) and (is_remote(bins) or len(bins) not in (1, 2)):
        bins = [bins, bins]
    made, edges = histogramdd([x, y], bins, range, density, weights)
    return made, edges[0], edges[1]
