# SPDX-License-Identifier: Apache-2.0
"""Gather and scatter. Out of range, negatives included: reads give 0, writes are dropped."""

from __future__ import annotations

import numpy as np

from .kernels import computed, kernel, rounded, widened


def _inside(i: np.ndarray, size: int) -> np.ndarray:
    return (i >= 0) & (i < size)


@kernel("take")
def _take(op, x, i):
    dim, result = op.attr("dim"), op.result_types[0]
    size = x.shape[dim]
    if size == 0 or result.numel == 0:
        return np.zeros(result.shape, x.dtype)
    i = i.astype(np.int64)
    inside = _inside(i, size)
    y = np.take(x, np.where(inside, i, 0), axis=dim)
    keep = inside.reshape(inside.shape + (1,) * (x.ndim - dim - 1))
    return np.where(keep, y, np.zeros((), x.dtype))


@kernel("take_along")
def _take_along(op, x, i):
    dim = op.attr("dim")
    if x.shape[dim] == 0 or i.size == 0:
        return np.zeros(i.shape, x.dtype)
    i = i.astype(np.int64)
    inside = _inside(i, x.shape[dim])
    y = np.take_along_axis(x, np.where(inside, i, 0), dim)
    return np.where(inside, y, np.zeros((), x.dtype))


_AT = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _combined(kind: str, x: np.ndarray, index: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Row `index[k]` of x combined with row k of u; the indices are in range, later ones win a `set`."""
    if kind == "set":
        y = x.copy()
        targets, last = np.unique(index[::-1], return_index=True)
        y[targets] = u[len(index) - 1 - last]
        return y
    prepare = widened if kind in ("add", "mul") else computed
    y = prepare(x).astype(prepare(x).dtype, copy=True)
    _AT[kind].at(y, index, prepare(u))
    return rounded(y, x.dtype)


@kernel("put")
def _put(op, x, i, u):
    dim = op.attr("dim")
    index = i.astype(np.int64).reshape(-1)
    rows = np.moveaxis(x, dim, 0)
    # u is x.shape[:dim] + i.shape + x.shape[dim + 1:]: one row per index, like x's.
    updates = u.reshape(*x.shape[:dim], index.size, *x.shape[dim + 1 :])
    updates = np.moveaxis(updates, dim, 0)
    inside = _inside(index, x.shape[dim])
    y = _combined(op.attr("kind"), rows, index[inside], updates[inside])
    return np.moveaxis(y, 0, dim)


@kernel("put_along")
def _put_along(op, x, i, u):
    dim = op.attr("dim")
    inside = _inside(i, x.shape[dim])
    places = np.indices(i.shape, dtype=np.int64, sparse=True)
    linear = np.zeros(i.shape, np.int64)
    for d, size in enumerate(x.shape):
        linear = linear * size + (np.where(inside, i, 0).astype(np.int64) if d == dim else places[d])
    y = _combined(op.attr("kind"), x.reshape(-1), linear[inside], u[inside])
    return y.reshape(x.shape)
