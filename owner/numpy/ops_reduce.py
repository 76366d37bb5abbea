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
_scan("cumlogsumexp", np.logaddexp, widened)


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
