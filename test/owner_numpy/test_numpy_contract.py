# SPDX-License-Identifier: Apache-2.0
"""dot, convolutions and their gradients, pooling: against einsum and torch in float64."""

import numpy as np
import pytest
import torch
from numpy_builder import run_op, t
from numpy_oracle import assert_close, dtype, dtypes, same, values

from sojourn_numpy.types import ELEMENT_OF, TensorType

LETTERS = "abcdefghij"


def wide(x):
    return torch.from_numpy(np.ascontiguousarray(x.astype(np.float64)))


def bound(name, magnitude):
    """f64 results differ by order of summation; narrower ones are rounded once."""
    return (20, magnitude * 1e-14) if name == "f64" else (0.51, magnitude * 1e-15)


def definite(rng, shape, size):
    """Symmetric matrices [*shape, size, size] in float64 with eigenvalues of at least 1."""
    a = rng.standard_normal((*shape, size, size))
    return a @ a.swapaxes(-1, -2) + np.eye(size)


@pytest.mark.parametrize("name", dtypes("F"))
def test_cholesky(rng, name):
    for _ in range(20):
        shape = tuple(int(n) for n in rng.choice([0, 1, 2, 3], int(rng.integers(0, 3)), p=[0.1, 0.3, 0.3, 0.3]))
        size = int(rng.choice([0, 1, 2, 5, 9]))
        x = definite(rng, shape, size).astype(dtype(name))
        exact = np.linalg.cholesky(x.astype(np.float64))
        # What lies above the diagonal is not read.
        given = np.where(np.tri(size, dtype=bool), x, np.asarray(np.nan, x.dtype)).astype(x.dtype)
        factor, order = run_op("cholesky", [given], [TensorType(ELEMENT_OF[x.dtype], x.shape), t("i64", *shape)])
        same(order, np.zeros(shape, np.int64))
        # Halves: one unit in the last place of the input and one of the result; others: sums of up to 9 terms.
        loose = {"f64": 1e-13, "f32": 1e-5, "f16": 1e-3, "bf16": 8e-3}[name]
        loose *= 1 + np.abs(exact).max(initial=0)
        np.testing.assert_allclose(factor.astype(np.float64), exact, rtol=0, atol=loose)


def test_cholesky_says_where_there_is_no_factor(rng):
    size, cases = 6, []
    for order in range(1, size + 1):
        place = (order - 1, order - 1)
        lower = np.tril(rng.uniform(0.5, 1.5, (size, size)))
        for pivot in (-2.0, np.nan, -np.inf):
            x = lower @ lower.T
            x[place] += pivot - lower[place] ** 2
            cases.append((x, order))
        x = np.eye(size)
        x[place] = 0
        cases.append((x, order))
    x = np.stack([case for case, _ in cases])
    factor, order = run_op("cholesky", [x], [TensorType(ELEMENT_OF[x.dtype], x.shape), t("i64", len(cases))])
    same(order, np.array([order for _, order in cases], np.int64))
    assert np.isnan(factor).all()
    # A matrix that has one is not touched by its neighbours.
    good = definite(rng, (), size)
    factor, order = run_op("cholesky", [np.stack([x[0], good])], [t("f64", 2, size, size), t("i64", 2)])
    same(order, np.array([1, 0], np.int64))
    np.testing.assert_allclose(factor[1], np.linalg.cholesky(good), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("name", dtypes("F"))
def test_dot(rng, name):
    for _ in range(25):
        batch, contract = int(rng.integers(0, 3)), int(rng.integers(0, 3))
        sizes = {letter: int(rng.choice([0, 1, 2, 3, 6], p=[0.05, 0.2, 0.25, 0.25, 0.25])) for letter in LETTERS}
        b, c = LETTERS[:batch], LETTERS[batch : batch + contract]
        lhs = b + c + "".join(LETTERS[6 : 6 + int(rng.integers(0, 3))])
        rhs = b + c + "".join(LETTERS[8 : 8 + int(rng.integers(0, 3))])
        lhs, rhs = ("".join(rng.permutation(list(s))) if s else "" for s in (lhs, rhs))
        out = b + "".join(x for x in lhs if x not in b + c) + "".join(x for x in rhs if x not in b + c)
        x, y = (values(rng, name, tuple(sizes[k] for k in s), edges=False) for s in (lhs, rhs))
        attrs = {
            "lhs_batch": tuple(lhs.index(k) for k in b), "rhs_batch": tuple(rhs.index(k) for k in b),
            "lhs_contract": tuple(lhs.index(k) for k in c), "rhs_contract": tuple(rhs.index(k) for k in c),
        }  # fmt: skip
        expected = np.einsum(f"{lhs},{rhs}->{out}", x.astype(np.float64), y.astype(np.float64))
        results = {name, "f32"} if name in ("f16", "bf16") else {name}
        for result in results:
            z = run_op("dot", [x, y], t(result, *(sizes[k] for k in out)), **attrs)
            assert_close(z, expected, result, *bound(name, 100.0))


@pytest.mark.parametrize("name", dtypes("Z"))
def test_integer_dot_wraps(rng, name):
    info = np.iinfo(dtype(name))
    x, y = (rng.integers(info.min, info.max, (4, 5), dtype=dtype(name), endpoint=True) for _ in range(2))
    expected = [[sum(int(a) * int(b) for a, b in zip(r, s)) for s in y] for r in x]
    expected = np.array([[v & ((1 << info.bits) - 1) for v in row] for row in expected], dtype=np.uint64).astype(
        dtype(name)
    )
    attrs = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (1,)}
    same(run_op("dot", [x, y], t(name, 4, 4), **attrs), expected)


def random_conv(rng):
    rank, groups = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    kernel, stride, dilation = ([int(k) for k in rng.integers(1, 4, rank)] for _ in range(3))
    padding = [int(p) for p in rng.integers(0, 3, rank)]
    size = [max(1, d * (k - 1) + 1 - 2 * p) + int(rng.integers(0, 5)) for k, d, p in zip(kernel, dilation, padding)]
    depthwise = rng.random() < 0.3
    per_group = (1, 1) if depthwise else tuple(int(n) for n in rng.integers(1, 4, 2))
    n = int(rng.choice([0, 1, 2, 3], p=[0.05, 0.35, 0.3, 0.3]))
    x, w = (n, per_group[0] * groups, *size), (per_group[1] * groups, per_group[0], *kernel)
    return x, w, {"stride": tuple(stride), "padding": tuple(padding), "dilation": tuple(dilation), "groups": groups}


@pytest.mark.parametrize("name", dtypes("F"))
def test_convolutions(rng, name):
    """The forward op and both gradients, 1 to 3 spatial dims, strides, dilation, groups."""
    for _ in range(20):
        x_shape, w_shape, attrs = random_conv(rng)
        x, w = values(rng, name, x_shape, edges=False), values(rng, name, w_shape, edges=False)
        rank = len(x_shape) - 2
        tx, tw = wide(x).requires_grad_(), wide(w).requires_grad_()
        function = (torch.conv1d, torch.conv2d, torch.conv3d)[rank - 1]
        y = function(tx, tw, None, attrs["stride"], attrs["padding"], attrs["dilation"], attrs["groups"])
        assert_close(run_op("conv", [x, w], t(name, *y.shape), **attrs), y.detach().numpy(), name, *bound(name, 500.0))
        g = values(rng, name, tuple(y.shape), edges=False)
        y.backward(wide(g))
        gx = run_op("conv_grad_input", [g, w], t(name, *x_shape), **attrs)
        assert_close(gx, tx.grad.numpy(), name, *bound(name, 500.0))
        gw = run_op("conv_grad_weight", [g, x], t(name, *w_shape), **attrs)
        assert_close(gw, tw.grad.numpy(), name, *bound(name, 5000.0))


def random_pool(rng):
    rank = int(rng.integers(1, 4))
    window, stride, dilation = ([int(k) for k in rng.integers(1, 4, rank)] for _ in range(3))
    padding = [int(rng.integers(0, k // 2 + 1)) for k in window]
    size = [max(1, d * (k - 1) + 1 - 2 * p) + int(rng.integers(0, 5)) for k, d, p in zip(window, dilation, padding)]
    shape = (int(rng.integers(0, 3)), int(rng.integers(1, 3)), *size)
    attrs = {"window": tuple(window), "stride": tuple(stride), "padding": tuple(padding), "dilation": tuple(dilation)}
    return shape, attrs


def walk_windows(shape, attrs):
    """For each output position the flat input positions of its window, padding left out."""
    spatial = shape[2:]
    out = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, p, d in zip(spatial, attrs["window"], attrs["stride"], attrs["padding"], attrs["dilation"])
    ]
    windows = {}
    for at in np.ndindex(*out):
        places = []
        for tap in np.ndindex(*attrs["window"]):
            place = [a * s - p + k * d for a, s, p, k, d in
                     zip(at, attrs["stride"], attrs["padding"], tap, attrs["dilation"])]  # fmt: skip
            if all(0 <= q < n for q, n in zip(place, spatial)):
                places.append(int(np.ravel_multi_index(place, spatial)))
        windows[at] = places
    return tuple(out), windows


@pytest.mark.parametrize("name", dtypes("ZF"))
def test_pools(rng, name):
    for _ in range(12):
        shape, attrs = random_pool(rng)
        x = values(rng, name, shape, edges=name in dtypes("F"))
        out, windows = walk_windows(shape, attrs)
        full = (*shape[:2], *out)
        flat = x.reshape(*shape[:2], int(np.prod(shape[2:])))
        total, best, where = np.zeros(full), np.zeros(full, x.dtype), np.zeros(full, np.int64)
        for n, c in np.ndindex(*shape[:2]):
            for at, places in windows.items():
                row = [float(flat[n, c, p]) for p in places]
                with np.errstate(all="ignore"):
                    total[(n, c, *at)] = np.sum(row) if name in dtypes("F") else sum(row)
                if places:
                    nans = [k for k, v in enumerate(row) if v != v]
                    k = nans[-1] if nans else row.index(max(row))
                    best[(n, c, *at)], where[(n, c, *at)] = flat[n, c, places[k]], places[k]
        # pool_max takes no window that could lie wholly in the padding.
        if all(p == 0 or n >= d for n, p, d in zip(shape[2:], attrs["padding"], attrs["dilation"])):
            assert all(windows.values())
            v, i = run_op("pool_max", [x], [t(name, *full), t("i64", *full)], **attrs)
            same(v, best)
            same(i, where)
        y = run_op("pool_sum", [x], t(name, *full), **attrs)
        if name in dtypes("F"):
            with np.errstate(all="ignore"):
                largest = np.abs(np.where(np.isfinite(flat.astype(np.float64)), flat, 0).astype(np.float64)).max(
                    initial=0
                )
            assert_close(y, total, name, *bound(name, 100.0 * largest))
        else:
            same(y, total.astype(np.int64).astype(x.dtype))


def test_pools_against_torch(rng):
    x = values(rng, "f32", (2, 3, 9, 8), edges=False)
    attrs = {"window": (3, 2), "stride": (2, 1), "padding": (1, 1), "dilation": (1, 2)}
    tx = torch.from_numpy(x)
    v, i = torch.nn.functional.max_pool2d(tx, (3, 2), (2, 1), (1, 1), (1, 2), return_indices=True)
    types = [TensorType(ELEMENT_OF[np.dtype(np.float32)], tuple(v.shape)), t("i64", *i.shape)]
    av, ai = run_op("pool_max", [x], types, **attrs)
    same(av, v.numpy())
    same(ai, i.numpy())
    y = torch.nn.functional.avg_pool2d(tx.double(), (3, 2), (2, 1), (1, 1)) * 6
    attrs["dilation"] = (1, 1)
    assert_close(run_op("pool_sum", [x], t("f32", *y.shape), **attrs), y.numpy(), "f32", 0.51, 1e-12)
