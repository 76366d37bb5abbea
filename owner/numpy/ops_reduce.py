# SPDX-License-Identifier: Apache-2.0
"""Reductions, scans, sorting."""

from __future__ import annotations

import numpy as np

from .kernels import computed, kernel, rounded, widened


def _rows(x: np.ndarray, dims: tuple[int, ...]) -> np.ndarray:
    """Reduced dims last and contiguous: NumPy sums pairwise only there."""
    kept = [d for d in range(x.ndim) if d not in dims]
    moved = x.transpose(*kept, *dims)
    shape = [x.shape[d] for d in kept]
    count = int(np.prod([x.shape[d] for d in dims], dtype=np.int64))
    return np.ascontiguousarray(moved).reshape(*shape, count)


def _reduction(name: str, ufunc, prepare) -> None:
    @kernel(name)
    def run(op, x):
        rows = _rows(prepare(x), op.attr("dims"))
        return rounded(ufunc.reduce(rows, axis=-1, dtype=rows.dtype), x.dtype)


_reduction("reduce_sum", np.add, widened)
_reduction("reduce_prod", np.multiply, widened)
_reduction("reduce_max", np.maximum, computed)
_reduction("reduce_min", np.minimum, computed)


@kernel("argmax", "argmin")
def _arg(op, x):
    choose = np.argmax if op.name == "argmax" else np.argmin  # first on ties, first NaN wins
    return np.asarray(choose(computed(x), axis=op.attr("dim")), np.int64)


def _scan(name: str, ufunc, prepare) -> None:
    @kernel(name)
    def run(op, x):
        if x.size == 0:
            return x
        wide = prepare(x)
        return rounded(ufunc.accumulate(wide, axis=op.attr("dim"), dtype=wide.dtype), x.dtype)


_scan("cumsum", np.add, widened)
_scan("cumprod", np.multiply, widened)
_scan("cummax", np.maximum, computed)
_scan("cummin", np.minimum, computed)


def _log_add_exp(a, x):
    """Of complex numbers, shifted by the one with the larger real part."""
    is_less = x.real < a.real
    low, high = np.where(is_less, x, a), np.where(is_less, a, x)
    infinite = np.where(low.real < 0, low, np.log(np.exp(low) + np.exp(high)))
    y = np.where((low.real == high.real) & np.isinf(low.real), infinite, high + np.log(1 + np.exp(low - high)))
    return np.where(np.isnan(a) | np.isnan(x), complex(np.nan, np.nan), y)


@kernel("cumlogsumexp")
def _cumlogsumexp(op, x):
    if x.size == 0:
        return x
    wide, dim = widened(x), op.attr("dim")
    if wide.dtype.kind != "c":
        return rounded(np.logaddexp.accumulate(wide, axis=dim, dtype=wide.dtype), x.dtype)
    lines = np.moveaxis(wide, dim, 0)
    y = lines.copy()
    for k in range(1, len(y)):
        y[k] = _log_add_exp(y[k - 1], lines[k])
    return rounded(np.moveaxis(y, 0, dim), x.dtype)


def _sorted(x: np.ndarray, dim: int, descending: bool, count: int):
    """Stable in both directions, NaN largest: descending is the mirror image of ascending."""
    key = computed(x)
    if descending:
        order = np.argsort(np.flip(key, dim), axis=dim, kind="stable")
        order = x.shape[dim] - 1 - np.flip(order, dim)
    else:
        order = np.argsort(key, axis=dim, kind="stable")
    order = order[(slice(None),) * dim + (slice(0, count),)].astype(np.int64)
    return np.take_along_axis(x, order, dim), order


@kernel("sort")
def _sort(op, x):
    return _sorted(x, op.attr("dim"), op.attr("descending"), x.shape[op.attr("dim")])


@kernel("topk")
def _topk(op, x):
    return _sorted(x, op.attr("dim"), op.attr("largest"), op.attr("k"))
