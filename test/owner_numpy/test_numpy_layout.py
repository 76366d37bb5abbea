# SPDX-License-Identifier: Apache-2.0
"""Layout, gather and scatter against plain loops and torch, with empty dims and indices out of range."""

import itertools

import numpy as np
import pytest
import torch
from numpy_builder import run_op, t, type_of, typed
from numpy_oracle import assert_close, dtype, dtypes, from_torch, random_shape, same, to_torch, values

from sojourn_numpy.types import NAMES


@pytest.mark.parametrize("name", NAMES)
def test_transpose_reshape_reverse_broadcast(rng, name):
    for _ in range(8):
        x = values(rng, name, random_shape(rng, 0))
        perm = tuple(int(p) for p in rng.permutation(x.ndim))
        same(
            run_op("transpose", [x], typed(x, [x.shape[p] for p in perm]), perm=perm),
            from_torch(to_torch(x).permute(perm)),
        )
        same(run_op("reshape", [x], typed(x, (x.size, 1))), from_torch(to_torch(x).reshape(x.size, 1)))
        dims = tuple(d for d in range(x.ndim) if rng.random() < 0.5)
        same(run_op("reverse", [x], type_of(x), dims=dims), from_torch(to_torch(x).flip(dims)))
        shape, dims = [], []
        for size in x.shape:
            for _ in range(int(rng.integers(2))):
                shape.append(int(rng.integers(0, 4)))
            dims.append(len(shape))
            shape.append(int(rng.integers(0, 4)) if size == 1 else size)
        aligned = [1] * len(shape)
        for k, d in enumerate(dims):
            aligned[d] = x.shape[k]
        expected = to_torch(x).reshape(aligned).expand(shape)
        same(run_op("broadcast", [x], typed(x, shape), dims=tuple(dims)), from_torch(expected))


@pytest.mark.parametrize("name", ["i1", "u8", "i64", "bf16", "f32", "c64"])
def test_slice_and_update_slice(rng, name):
    for _ in range(20):
        x = values(rng, name, random_shape(rng, 0))
        start = tuple(int(rng.integers(0, n + 1)) for n in x.shape)
        limit = tuple(int(rng.integers(s, n + 1)) for s, n in zip(start, x.shape))
        stride = tuple(int(rng.integers(1, 4)) for _ in x.shape)
        index = tuple(range(*bounds) for bounds in zip(start, limit, stride))
        shape = tuple(map(len, index))
        places = list(itertools.product(*index))
        expected = np.array([x[p] for p in places], x.dtype).reshape(shape)
        same(run_op("slice", [x], typed(x, shape), start=start, limit=limit, stride=stride), expected)
        u, y = values(rng, name, shape), x.copy()
        for place, value in zip(places, u.reshape(-1)):
            y[place] = value
        before = x.copy()
        same(run_op("update_slice", [x, u], type_of(x), start=start, stride=stride), y)
        same(x, before)


@pytest.mark.parametrize("name", ["i1", "u8", "i64", "bf16", "f32", "c64"])
def test_slices_from_where_operands_say(rng, name):
    """Starts far outside move to the nearest place where the part lies inside."""
    for _ in range(40):
        x = values(rng, name, random_shape(rng, 0))
        dims = tuple(d for d in range(x.ndim) if rng.integers(2))
        sizes = tuple(int(rng.integers(0, x.shape[d] + 1)) for d in dims)
        given = [int(rng.choice([-(2**63), -1, 0, 1, 2, 5, 2**63 - 1])) for _ in dims]
        starts = [np.array(start, np.int64) for start in given]
        shape = [*x.shape]
        expected = x
        for dim, size, start in zip(dims, sizes, given):
            shape[dim] = size
            first = max(0, min(start, x.shape[dim] - size))
            expected = np.take(expected, range(first, first + size), axis=dim)
        same(run_op("dynamic_slice", [x, *starts], typed(x, tuple(shape)), dims=dims, sizes=sizes), expected)
        u, before = values(rng, name, tuple(shape)), x.copy()
        y = run_op("dynamic_update_slice", [x, u, *starts], type_of(x), dims=dims)
        same(run_op("dynamic_slice", [y, *starts], typed(x, tuple(shape)), dims=dims, sizes=sizes), u)
        nowhere = np.zeros(x.shape, bool)
        touched = run_op("dynamic_update_slice", [nowhere, np.ones(shape, bool), *starts], type_of(nowhere), dims=dims)
        assert touched.sum() == np.prod(shape)
        same(y[~touched], x[~touched])
        same(x, before)


def test_concat(rng):
    for _ in range(20):
        shape = list(random_shape(rng))
        dim, parts = int(rng.integers(len(shape))), []
        for _ in range(int(rng.integers(1, 5))):
            shape[dim] = int(rng.integers(0, 4))
            parts.append(values(rng, "f32", tuple(shape)))
        expected = from_torch(torch.cat([to_torch(x) for x in parts], dim))
        same(run_op("concat", parts, typed(parts[0], expected.shape), dim=dim), expected)


@pytest.mark.parametrize("name", ["i1", "i32", "bf16", "f64"])
def test_pad(rng, name):
    for _ in range(60):
        x, v = values(rng, name, random_shape(rng, 0, 3)), values(rng, name, ())
        low, high, interior = ([int(n) for n in rng.integers(a, b, x.ndim)] for a, b in ((-3, 4), (-3, 4), (0, 3)))
        shape = []
        for d, n in enumerate(x.shape):
            length = low[d] + high[d] + n + max(n - 1, 0) * interior[d]
            if length < 0:
                high[d] -= length
                length = 0
            shape.append(length)
        y = np.full(shape, v, x.dtype)
        for place in np.ndindex(*x.shape):
            to = tuple(low[d] + j * (interior[d] + 1) for d, j in enumerate(place))
            if all(0 <= q < n for q, n in zip(to, shape)):
                y[to] = x[place]
        attrs = {"low": tuple(low), "high": tuple(high), "interior": tuple(interior)}
        same(run_op("pad", [x, v], typed(x, shape), **attrs), y)


def random_index(rng, name, shape, size):
    """In range, negative and too large."""
    d = dtype(name)
    low = -2 if d.kind == "i" else 0
    i = rng.integers(low, size + 2, shape)
    far = rng.random(shape) < 0.05
    return np.where(far, np.iinfo(d).max, i).astype(d)


@pytest.mark.parametrize("index", dtypes("Z"))
def test_take(rng, index):
    for _ in range(15):
        x = values(rng, str(rng.choice(["f32", "bf16", "i64", "i1"])), random_shape(rng))
        dim = int(rng.integers(x.ndim))
        i = random_index(rng, index, random_shape(rng, 0, 2), x.shape[dim])
        y = np.zeros((*x.shape[:dim], *i.shape, *x.shape[dim + 1 :]), x.dtype)
        for before in np.ndindex(*x.shape[:dim]):
            for at in np.ndindex(*i.shape):
                if 0 <= i[at] < x.shape[dim]:
                    y[before + at] = x[(*before, int(i[at]))]
        same(run_op("take", [x, i], typed(x, y.shape), dim=dim), y)


def along(rng, x, index="i64"):
    dim = int(rng.integers(x.ndim))
    shape = tuple(int(rng.integers(0, 5)) if d == dim else n for d, n in enumerate(x.shape))
    return dim, random_index(rng, index, shape, x.shape[dim])


@pytest.mark.parametrize("index", dtypes("Z"))
def test_take_along(rng, index):
    for _ in range(15):
        x = values(rng, "f32", random_shape(rng))
        dim, i = along(rng, x, index)
        y = np.zeros(i.shape, x.dtype)
        for at in np.ndindex(*i.shape):
            if 0 <= i[at] < x.shape[dim]:
                y[at] = x[(*at[:dim], int(i[at]), *at[dim + 1 :])]
        same(run_op("take_along", [x, i], typed(x, i.shape), dim=dim), y)


KINDS = {"set": lambda a, b: b, "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def check_scatter(actual, x, cells, kind, name):
    """`cells` = (place, update) in row-major order; floats are combined in f64 and rounded once."""
    wide = x.astype(np.float64) if name in dtypes("F") else x.copy()
    for place, value in cells:
        combine = value if kind == "set" else KINDS[kind](wide[place], wide.dtype.type(value))
        wide[place] = combine
    if name in dtypes("F") and kind in ("add", "mul"):
        assert_close(actual, wide, name, 0.51, 1e-12 if name == "f64" else 0)
    else:
        same(actual, wide.astype(x.dtype))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["u8", "i64", "bf16", "f16", "f32", "f64", "i1"])
def test_put(rng, name, kind):
    if name == "i1" and kind in ("add", "mul"):
        return
    for _ in range(12):
        x = values(rng, name, random_shape(rng), edges=False)
        dim = int(rng.integers(x.ndim))
        i = random_index(rng, "i64", random_shape(rng, 0, 2), x.shape[dim])
        u = values(rng, name, (*x.shape[:dim], *i.shape, *x.shape[dim + 1 :]), edges=False)
        cells = []
        for before in np.ndindex(*x.shape[:dim]):
            for at in np.ndindex(*i.shape):
                for after in np.ndindex(*x.shape[dim + 1 :]):
                    if 0 <= i[at] < x.shape[dim]:
                        cells.append(((*before, int(i[at]), *after), u[before + at + after]))
        with np.errstate(all="ignore"):
            check_scatter(run_op("put", [x, i, u], type_of(x), dim=dim, kind=kind), x, cells, kind, name)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["u8", "i64", "bf16", "f32", "f64"])
def test_put_along(rng, name, kind):
    for _ in range(12):
        x = values(rng, name, random_shape(rng), edges=False)
        dim, i = along(rng, x)
        u = values(rng, name, i.shape, edges=False)
        cells = [
            ((*at[:dim], int(i[at]), *at[dim + 1 :]), u[at]) for at in np.ndindex(*i.shape) if 0 <= i[at] < x.shape[dim]
        ]
        with np.errstate(all="ignore"):
            check_scatter(run_op("put_along", [x, i, u], type_of(x), dim=dim, kind=kind), x, cells, kind, name)


def test_scatter_propagates_nan():
    x, i, u = np.array([1.0, 2]), np.array([0, 0, 1]), np.array([np.nan, 5, np.nan])
    for kind in ("max", "min", "add", "mul"):
        y = run_op("put", [x, i, u], t("f64", 2), dim=0, kind=kind)
        assert np.isnan(y).all(), kind


def test_scatter_against_torch(rng):
    """The same updates as torch where torch accepts them: indices in range."""
    x, i, u = values(rng, "f64", (6, 4), False), rng.integers(0, 6, (9,)), values(rng, "f64", (9, 4), False)
    y = run_op("put", [x, i, u], t("f64", 6, 4), dim=0, kind="add")
    np.testing.assert_allclose(y, to_torch(x).index_add(0, to_torch(i), to_torch(u)).numpy(), rtol=1e-13)
    i = rng.integers(0, 4, (6, 9))
    u = values(rng, "f64", (6, 9), False)
    for kind, reduce in (("add", "sum"), ("mul", "prod"), ("max", "amax"), ("min", "amin")):
        y = run_op("put_along", [x, i, u], t("f64", 6, 4), dim=1, kind=kind)
        expected = to_torch(x).scatter_reduce(1, to_torch(i), to_torch(u), reduce).numpy()
        np.testing.assert_allclose(y, expected, rtol=1e-12)
