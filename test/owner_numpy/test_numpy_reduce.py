# SPDX-License-Identifier: Apache-2.0
"""Reductions, scans and sorting against loops and torch, with ties, NaN and empty dims."""

import math

import numpy as np
import pytest
import torch
from numpy_builder import run_op, t, type_of, typed
from numpy_oracle import assert_close, dtype, dtypes, random_shape, same, to_torch, values

from sojourn_numpy.types import ELEMENT_OF, TensorType


def random_dims(rng, rank):
    return tuple(d for d in range(rank) if rng.random() < 0.6)


def kept(shape, dims):
    return tuple(n for d, n in enumerate(shape) if d not in dims)


@pytest.mark.parametrize("name", dtypes("ZF"))
@pytest.mark.parametrize("op", ["reduce_sum", "reduce_prod"])
def test_sum_and_prod(rng, op, name):
    for _ in range(15):
        x = values(rng, name, random_shape(rng, 0), edges=False)
        dims = random_dims(rng, x.ndim)
        y = run_op(op, [x], typed(x, kept(x.shape, dims)), dims=dims)
        function = np.sum if op == "reduce_sum" else np.prod
        if name in dtypes("Z"):
            with np.errstate(all="ignore"):
                same(y, np.asarray(function(x, axis=dims, dtype=x.dtype)))
        else:
            wide = x.astype(np.longdouble)
            slack = float(np.abs(wide).sum()) * 1e-15 if op == "reduce_sum" else 0
            assert_close(y, function(wide, axis=dims).astype(np.float64), name, 20 if name == "f64" else 0.51, slack)


@pytest.mark.parametrize("name", dtypes("X"))
def test_complex_sum(rng, name):
    x = values(rng, name, (4, 5), edges=False)
    y = run_op("reduce_sum", [x], typed(x, (5,)), dims=(0,))
    assert_close(y, x.astype(np.complex128).sum(0), name, 4, 1e-6 if name == "c64" else 1e-14)


@pytest.mark.parametrize("name", ["i1", *dtypes("ZF")])
@pytest.mark.parametrize("op", ["reduce_max", "reduce_min"])
def test_max_and_min(rng, op, name):
    for _ in range(10):
        x = values(rng, name, tuple(max(n, 1) for n in random_shape(rng, 0)))
        dims = random_dims(rng, x.ndim)
        expected = to_torch(x).amax(dims) if op == "reduce_max" else to_torch(x).amin(dims)
        if not dims:
            expected = to_torch(x)
        from numpy_oracle import from_torch

        same(run_op(op, [x], typed(x, kept(x.shape, dims)), dims=dims), from_torch(expected))


def test_long_sums_keep_their_digits():
    """Off the last axis NumPy does not sum pairwise: 1e6 f32 summands, and f64 ones."""
    x = np.full((1_000_000, 2), 1000.0016, np.float32)
    y = run_op("reduce_sum", [x], t("f32", 2), dims=(0,))
    assert np.abs(y / (1e6 * float(x[0, 0])) - 1).max() < 1e-7
    z = np.full((1_000_000, 2), 0.1)
    y = run_op("reduce_sum", [z], t("f64", 2), dims=(0,))
    assert np.abs(y - math.fsum([0.1] * 1_000_000)).max() < 1e-9
    b = np.ones(1000, dtype("bf16"))
    assert float(run_op("reduce_sum", [b], t("bf16"), dims=(0,))) == 1000
    h = np.full(70_000, 1.0, np.float16)
    assert np.isinf(run_op("reduce_sum", [h], t("f16"), dims=(0,)))


@pytest.mark.parametrize("name", dtypes("ZF"))
@pytest.mark.parametrize("op", ["argmax", "argmin"])
def test_arg(rng, op, name):
    for _ in range(10):
        x = values(rng, name, tuple(max(n, 1) for n in random_shape(rng)))
        dim = int(rng.integers(x.ndim))
        expected = np.zeros(kept(x.shape, (dim,)), np.int64)
        moved = np.moveaxis(x, dim, -1)
        for place in np.ndindex(*expected.shape):
            row = [float(v) if name in dtypes("F") else int(v) for v in moved[place]]
            nans = [k for k, v in enumerate(row) if v != v]
            best = max(row, key=lambda v: v) if op == "argmax" else min(row)
            expected[place] = nans[0] if nans else row.index(best)
        same(run_op(op, [x], t("i64", *expected.shape), dim=dim), expected)


SCANS = {"cumsum": torch.cumsum, "cumprod": torch.cumprod, "cummax": torch.cummax, "cummin": torch.cummin,
         "cumlogsumexp": torch.logcumsumexp}  # fmt: skip


@pytest.mark.parametrize("name", dtypes("ZF"))
@pytest.mark.parametrize("op", SCANS)
def test_scans(rng, op, name):
    if op == "cumlogsumexp" and name in dtypes("Z"):
        return
    for _ in range(10):
        x = values(rng, name, random_shape(rng), edges=op in ("cummax", "cummin"))
        dim = int(rng.integers(x.ndim))
        y = run_op(op, [x], type_of(x), dim=dim)
        if op in ("cummax", "cummin"):
            ufunc = np.fmax if op == "cummax" else np.fmin
            wide = x.astype(np.float64) if name in dtypes("F") else x
            expected = ufunc.accumulate(wide, axis=dim) if x.size else wide
            if name in dtypes("F") and x.size:
                expected = np.where(np.logical_or.accumulate(np.isnan(wide), axis=dim), np.nan, expected)
            same(y, expected.astype(x.dtype))
        elif name in dtypes("Z"):
            wide = torch.from_numpy(x.astype(np.int64))
            same(y, SCANS[op](wide, dim).numpy().astype(x.dtype))
        else:
            expected = SCANS[op](torch.from_numpy(x.astype(np.float64)), dim).numpy()
            slack = float(np.abs(x.astype(np.float64)).sum()) * 1e-15
            assert_close(y, expected, name, 20 if name == "f64" else 0.51, slack)


def test_cumlogsumexp_spans_ranges():
    x = np.array([-200.0, 0, 200, -np.inf, np.inf, 3, np.nan, 1])
    y = run_op("cumlogsumexp", [x.astype(np.float32)], t("f32", 8), dim=0)
    np.testing.assert_array_equal(y, np.array([-200, 0, 200, 200, np.inf, np.inf, np.nan, np.nan], np.float32))
    y = run_op("cumlogsumexp", [np.full(3, -np.inf)], t("f64", 3), dim=0)
    np.testing.assert_array_equal(y, np.full(3, -np.inf))


def sort_row(row, descending):
    """Stable, NaN largest."""

    def key(k):
        v = row[k]
        rank = (1, 0) if v != v else (0, v)
        return (-rank[0], -rank[1]) if descending else rank

    return sorted(range(len(row)), key=key)


@pytest.mark.parametrize("name", ["i1", *dtypes("ZF")])
@pytest.mark.parametrize("flag", [False, True])
def test_sort_and_topk(rng, name, flag):
    for _ in range(10):
        x = values(rng, name, random_shape(rng))
        dim = int(rng.integers(x.ndim))
        moved, order = np.moveaxis(x, dim, -1), np.zeros(np.moveaxis(x, dim, -1).shape, np.int64)
        for place in np.ndindex(*moved.shape[:-1]):
            row = [float(v) if name in dtypes("F") else int(v) for v in moved[place]]
            order[place] = sort_row(row, flag)
        order = np.moveaxis(order, -1, dim)
        v, i = run_op("sort", [x], [type_of(x), t("i64", *x.shape)], dim=dim, descending=flag)
        same(i, order)
        same(v, np.take_along_axis(x, order, dim))
        k = int(rng.integers(0, x.shape[dim] + 1))
        shape = (*x.shape[:dim], k, *x.shape[dim + 1 :])
        types = [TensorType(ELEMENT_OF[x.dtype], shape), t("i64", *shape)]
        tv, ti = run_op("topk", [x], types, dim=dim, k=k, largest=flag)
        first = (slice(None),) * dim + (slice(0, k),)
        same(ti, order[first])
        same(tv, v[first])
