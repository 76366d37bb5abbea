# SPDX-License-Identifier: Apache-2.0
"""numpy.linalg: as NumPy's. Factors that are unique only up to signs or phases are tested by what they multiply to."""

import itertools

import numpy
import pytest
from arrays_support import DTYPES, compare, draw, host

import sojourn
import sojourn.numpy as np

FACTORED = ("int32", "float32", "float64", "complex64", "complex128")
LOOSE = {"float32": 2e-4, "complex64": 2e-4}
SQUARE = ((1, 1), (3, 3), (2, 3, 3), (0, 0), (0, 2, 2))
STACKS = ((3, 3), (4, 2), (2, 4), (2, 3, 2), (2, 2, 3), (0, 3), (3, 0), (0, 2, 2))
WRONG = ((), (3,), (2, 3), (2, 3, 4))


def regular(rng, dtype, shape):
    """Values of matrices far from singular ones."""
    x = draw(rng, dtype, shape)
    return (x + 20 * numpy.eye(shape[-1])).astype(dtype)


def close(found, expected, dtype):
    tolerance = LOOSE.get(numpy.dtype(dtype).name, 1e-9)
    assert found.shape == expected.shape, (found.shape, expected.shape)
    assert numpy.allclose(found, expected, rtol=tolerance, atol=tolerance * 10), (found, expected)


def definite(rng, dtype, shape):
    x = regular(rng, dtype, shape)
    x = x if x.dtype.kind in "fc" else x.astype(float)
    return x @ x.conj().swapaxes(-1, -2)


def result_dtype(dtype):
    return dtype if numpy.dtype(dtype).kind in "fc" else "float64"


@pytest.mark.parametrize("dtype", FACTORED)
@pytest.mark.parametrize("shape", SQUARE, ids=str)
def test_of_square_matrices(rng, dtype, shape):
    x, loose = regular(rng, dtype, shape), LOOSE.get(dtype, 1e-9)
    for name in ("inv", "det", "slogdet"):
        compare(f"linalg.{name}", x, rtol=loose)
    compare("linalg.cholesky", definite(rng, dtype, shape), rtol=loose)
    compare("linalg.cholesky", definite(rng, dtype, shape), upper=True, rtol=loose)
    for b in (shape[:-1] + (2,), shape[-1:], (shape[-1], 4), shape, (3, 1, shape[-1], 2), (), (7,)):
        compare("linalg.solve", x, draw(rng, dtype, b), rtol=loose)
        compare("linalg.solve", x, draw(rng, "float64", b), rtol=loose)
    for p in (None, 2, -2, 1, -1, numpy.inf, -numpy.inf, "fro", "nuc", 3):
        compare("linalg.cond", x, p, rtol=loose)
    for n in (0, 1, 2, 3, -1, -2, 5):
        compare("linalg.matrix_power", x, n, rtol=loose)
    compare("linalg.matrix_power", x, 1.5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", WRONG + ((2, 2),), ids=str)
def test_errors_and_dtypes(rng, dtype, shape):
    x = regular(rng, dtype, shape) if shape == (2, 2) and dtype != "bool" else draw(rng, dtype, shape)
    x = numpy.eye(2, dtype=bool) if shape == (2, 2) and dtype == "bool" else x
    loose = LOOSE.get(dtype, 1e-9)
    for name in (
        "inv",
        "det",
        "slogdet",
        "pinv",
        "svdvals",
        "eigvalsh",
        "matrix_transpose",
        "diagonal",
        "trace",
        "matrix_norm",
    ):
        compare(f"linalg.{name}", x, rtol=loose if dtype != "float16" else None)
    compare("linalg.solve", x, draw(rng, dtype, (2,)), rtol=loose)
    compare("linalg.lstsq", x, draw(rng, dtype, (2,)), rtol=loose)
    compare("linalg.tensorinv", x if shape else numpy.ones((), dtype), 1, rtol=loose)
    compare("linalg.tensorinv", x, 0)
    if dtype in ("bool", "float16", "uint8", "int8"):
        compare("linalg.matrix_power", x, 3)
    if shape != (2, 2) or dtype == "float16":
        for name in ("eig", "eigvals", "eigh", "svd", "qr", "cholesky"):
            if not (name in ("svd", "qr") and len(shape) > 1):
                compare(f"linalg.{name}", x)


@pytest.mark.parametrize("dtype", FACTORED)
@pytest.mark.parametrize("shape", SQUARE, ids=str)
def test_eigenvalues(rng, dtype, shape):
    x = draw(rng, dtype, shape)
    values, vectors = (host(each) for each in np.linalg.eig(np.asarray(x)))
    kind = numpy.result_type(result_dtype(dtype), "complex64")
    assert values.dtype == vectors.dtype == kind
    close(x @ vectors, vectors * values[..., None, :], dtype)
    alone = host(np.linalg.eigvals(np.asarray(x)))
    close(numpy.sum(alone, -1), numpy.trace(x, axis1=-2, axis2=-1).astype(kind), dtype)
    assert alone.dtype == kind and type(np.linalg.eig(np.asarray(x))) is type(numpy.linalg.eig(x))

    compare("linalg.eigvalsh", x, rtol=LOOSE.get(dtype, 1e-9))
    compare("linalg.eigvalsh", x, UPLO="u", rtol=LOOSE.get(dtype, 1e-9))
    for triangle in ("L", "U"):
        values, vectors = (host(each) for each in np.linalg.eigh(np.asarray(x), triangle))
        close(values, numpy.linalg.eigvalsh(x, triangle), dtype)
        lower = numpy.tril(x, -1) if triangle == "L" else numpy.triu(x, 1)
        whole = lower + lower.conj().swapaxes(-1, -2) + numpy.eye(shape[-1]) * x.real
        close(whole @ vectors, vectors * values[..., None, :], dtype)
        assert vectors.dtype == result_dtype(dtype)
    with pytest.raises(ValueError, match="UPLO"):
        np.linalg.eigh(np.asarray(x), "x")


@pytest.mark.parametrize("dtype", FACTORED)
@pytest.mark.parametrize("shape", STACKS, ids=str)
def test_singular_values(rng, dtype, shape):
    x, loose = draw(rng, dtype, shape), LOOSE.get(dtype, 1e-9)
    compare("linalg.svdvals", x, rtol=loose)
    compare("linalg.svd", x, compute_uv=False, rtol=loose)
    for full, hermitian in itertools.product((False, True), (False, True)):
        if hermitian and shape[-1] != shape[-2]:
            continue
        y = x + x.conj().swapaxes(-1, -2) if hermitian else x
        u, s, vh = (host(each) for each in np.linalg.svd(np.asarray(y), full_matrices=full, hermitian=hermitian))
        expected = numpy.linalg.svd(y, full_matrices=full, hermitian=hermitian)
        assert [(each.dtype, each.shape) for each in (u, s, vh)] == [(each.dtype, each.shape) for each in expected]
        close(s, expected.S, dtype)
        count = s.shape[-1]
        close((u[..., :count] * s[..., None, :]) @ vh[..., :count, :], y.astype(u.dtype), dtype)
        close(
            u.conj().swapaxes(-1, -2) @ u,
            numpy.broadcast_to(numpy.eye(u.shape[-1]), u.shape[:-2] + (u.shape[-1],) * 2),
            dtype,
        )
        if hermitian:
            compare("linalg.svd", y, compute_uv=False, hermitian=True, rtol=loose)
            compare("linalg.matrix_rank", y, hermitian=True)
    compare("linalg.matrix_rank", x)
    for tol in (0.5, 3, 100):
        compare("linalg.matrix_rank", x, tol)
    compare("linalg.cond", x, rtol=LOOSE.get(dtype, 1e-7))
    for p in (1, "fro"):
        compare(
            "linalg.cond", x if shape[-1] != shape[-2] else regular(rng, dtype, shape), p, rtol=LOOSE.get(dtype, 1e-7)
        )


def pinv(x, **options):
    """compare takes `rtol` for itself."""
    if options.get("rtol", 0) is None and x.dtype.kind == "i":
        return  # NumPy takes the precision of integers, and raises
    expected = numpy.linalg.pinv(x, **options)
    found = np.linalg.pinv(np.asarray(x), **options)
    assert found.dtype == expected.dtype
    close(host(found), expected, expected.dtype)


@pytest.mark.parametrize("dtype", FACTORED)
@pytest.mark.parametrize("shape", ((3, 3), (5, 2), (2, 5), (2, 3, 2), (0, 3), (3, 0), (0, 2, 2)), ids=str)
def test_pseudo_inverses_and_ranks(rng, dtype, shape):
    x = draw(rng, dtype, shape)
    if shape == (3, 3):
        x = regular(rng, dtype, shape)
    for options in ({}, {"rcond": 0.3}, {"rtol": 1e-3}, {"rtol": None}):
        pinv(x, **options)
    if shape == (3, 3):
        pinv(x + x.conj().T, hermitian=True)
    if shape == (2, 3, 2):
        pinv(x, rcond=numpy.array([0.1, 0.9]))
        compare("linalg.matrix_rank", x, numpy.array([0.1, 4]))
    low = x[..., :1] @ x[..., :1, :] if 0 not in shape else x
    assert (
        host(np.linalg.matrix_rank(np.asarray(low), rtol=1e-4)).tolist()
        == numpy.linalg.matrix_rank(low, rtol=1e-4).tolist()
    )
    compare("linalg.pinv", x, rcond=1, hermitian=False)
    with pytest.raises(ValueError, match="both"):
        np.linalg.pinv(np.asarray(x), rcond=1, rtol=1)
    with pytest.raises(ValueError, match="both"):
        np.linalg.matrix_rank(np.asarray(x), tol=1, rtol=1)


def test_ranks_of_vectors():
    for x in (numpy.zeros(3), numpy.ones(3), numpy.array(0.0), numpy.array([0.0, 2])):
        assert int(np.linalg.matrix_rank(np.asarray(x))) == numpy.linalg.matrix_rank(x)


@pytest.mark.parametrize("dtype", FACTORED)
@pytest.mark.parametrize("shape", STACKS, ids=str)
def test_qr(rng, dtype, shape):
    x = draw(rng, dtype, shape)
    for mode in ("reduced", "complete"):
        q, r = (host(each) for each in np.linalg.qr(np.asarray(x), mode))
        expected = numpy.linalg.qr(x, mode)
        assert [(each.dtype, each.shape) for each in (q, r)] == [(each.dtype, each.shape) for each in expected]
        close(q @ r, x.astype(q.dtype), dtype)
        close(
            q.conj().swapaxes(-1, -2) @ q,
            numpy.broadcast_to(numpy.eye(q.shape[-1]), q.shape[:-2] + (q.shape[-1],) * 2),
            dtype,
        )
        assert not numpy.tril(r, -1).any()
    if 0 not in shape:
        compare("linalg.qr", x, "r", rtol=LOOSE.get(dtype, 1e-9))
        compare("linalg.qr", x, "raw", rtol=LOOSE.get(dtype, 1e-9))
    compare("linalg.qr", x, "other")


@pytest.mark.parametrize("dtype", FACTORED)
@pytest.mark.parametrize("sizes", [(5, 3), (3, 3), (3, 5), (0, 2), (2, 0), (4, 1)], ids=str)
def test_least_squares(rng, dtype, sizes):
    a, loose = draw(rng, dtype, sizes), LOOSE.get(dtype, 1e-8)
    if sizes == (3, 3):
        a = regular(rng, dtype, sizes)
    if 0 not in sizes and numpy.linalg.cond(a) > 50:
        a[: min(sizes), : min(sizes)] = regular(rng, dtype, (min(sizes),) * 2)
    for shape in ((sizes[0],), (sizes[0], 2), (sizes[0], 0), (7,), (), (sizes[0], 2, 2)):
        b = draw(rng, dtype, shape)
        compare("linalg.lstsq", a, b, rtol=loose)
        compare("linalg.lstsq", a, b, rcond=-1, rtol=loose)
    compare("linalg.lstsq", a, draw(rng, "float32", sizes[:1]), rtol=loose)
    # Of less than full rank: the residuals apart, which are of another shape.
    b = draw(rng, dtype, sizes[:1])
    low = numpy.concatenate([a, a], 1)
    for ours, theirs in zip(*(function(x, y, rcond=1e-4) for function, x, y in (
        (np.linalg.lstsq, np.asarray(low), np.asarray(b)), (numpy.linalg.lstsq, low, b)))):  # fmt: skip
        assert ours.dtype == theirs.dtype
        if ours.shape == theirs.shape:
            close(host(ours), theirs, dtype)


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "float16", "float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("shape", [(), (4,), (0,), (3, 4), (2, 3, 4), (0, 3), (2, 2, 2, 2)], ids=str)
def test_norms(rng, dtype, shape):
    x = draw(rng, dtype, shape)
    if dtype == "float16":
        x = numpy.where(numpy.abs(x) < 0.1, numpy.float16(1), x)  # powers of which overflow in NumPy
    loose = {"float16": 2e-2, **LOOSE}.get(dtype, 1e-9)
    orders = (None, 1, 2, 3, 0, -1, -2, 0.5, numpy.inf, -numpy.inf, "fro", "nuc", "f", "other", True)
    axes = (None, 0, -1, 1, (0, 1), (1, 0), (-1, 0), (0, 0), (0, 1, 2), 9, (0,))
    cases = list(itertools.product(orders, axes, (False, True)))
    for k in rng.choice(len(cases), 90, replace=False):
        compare("linalg.norm", x, *cases[k], rtol=loose)
    for order, keep in itertools.product(orders, (False, True)):
        compare("linalg.matrix_norm", x, ord=order, keepdims=keep, rtol=loose)
        for axis in (None, 0, (0, 1), -1):
            compare("linalg.vector_norm", x, axis=axis, ord=order, keepdims=keep, rtol=loose)


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_and_parts(rng, dtype):
    loose = {"float16": 2e-2, "float32": 1e-4, "complex64": 1e-4}.get(dtype)
    a, b, c = draw(rng, dtype, (3, 4)), draw(rng, dtype, (4, 2)), draw(rng, dtype, (2, 5))
    if loose:
        a, b, c = (numpy.rint(x) for x in (a, b, c))
    for arrays in (
        [a, b],
        [a, b, c],
        [a[0], b, c],
        [a, b, c[:, 0]],
        [a[0], b, c[:, 0]],
        [a],
        [a, c, b],
        [a, b[None], c],
        [a[0], b[:, 0]],
    ):
        compare("linalg.multi_dot", arrays, rtol=loose)
    for name in ("vecdot", "outer", "cross"):
        compare(f"linalg.{name}", a[0], b[:, 0], rtol=loose)
        compare(f"linalg.{name}", a.T.copy(), a.T.copy(), rtol=loose)
        compare(f"linalg.{name}", a, a, rtol=loose)
    compare("linalg.matmul", a, b, rtol=loose)
    compare("linalg.matmul", a[0], b, rtol=loose)
    compare("linalg.vecdot", a, a, axis=0, rtol=loose)
    compare("linalg.cross", a, a, axis=0)
    compare("linalg.tensordot", a, b, axes=1, rtol=loose)
    x = draw(rng, dtype, (2, 3, 4))
    for offset in (0, 1, -2):
        compare("linalg.trace", x, offset=offset)
        compare("linalg.diagonal", x, offset=offset)
    compare("linalg.trace", x, dtype="float64")
    compare("linalg.matrix_transpose", x)


@pytest.mark.parametrize("dtype", FACTORED)
def test_tensors(rng, dtype):
    loose = LOOSE.get(dtype, 1e-9)
    a = regular(rng, dtype, (6, 6))
    compare("linalg.tensorsolve", a.reshape(2, 3, 2, 3), draw(rng, dtype, (2, 3)), rtol=loose)
    compare("linalg.tensorsolve", a.reshape(2, 3, 6), draw(rng, dtype, (2, 3)), rtol=loose)
    compare(
        "linalg.tensorsolve",
        a.reshape(2, 3, 2, 3).transpose(0, 2, 1, 3).copy(),
        draw(rng, dtype, (2, 3)),
        axes=(1, 3),
        rtol=loose,
    )
    compare("linalg.tensorsolve", a.reshape(2, 3, 6), draw(rng, dtype, (2,)))
    compare("linalg.tensorinv", a.reshape(2, 3, 2, 3), rtol=loose)
    compare("linalg.tensorinv", a.reshape(6, 2, 3), ind=1, rtol=loose)
    compare("linalg.tensorinv", a.reshape(2, 3, 6), ind=1)


def test_singular_matrices_give_no_errors():
    x = np.asarray(numpy.ones((2, 2)))
    assert not numpy.isfinite(host(np.linalg.inv(x))).all()
    assert numpy.isnan(host(np.linalg.cholesky(-x))).any()
    assert float(np.linalg.cond(x, 1)) > 1e15
    assert np.linalg.LinAlgError is numpy.linalg.LinAlgError


def test_host_values_stay(rng):
    x = regular(rng, "float64", (3, 3))
    assert type(np.linalg.inv(x)) is numpy.ndarray and type(np.linalg.trace(x)) is numpy.float64
    assert set(np.linalg.__all__) == set(numpy.linalg.__all__)


def test_in_steps(rng):
    x, b = definite(rng, "float64", (3, 3)), draw(rng, "float64", (3,))

    def compute(np, x, b):
        linalg = np.linalg
        return [linalg.inv(x), linalg.solve(x, b), linalg.cholesky(x), linalg.det(x), linalg.slogdet(x)[1], linalg.eigvalsh(x),
                linalg.svdvals(x), linalg.pinv(x), linalg.norm(x), linalg.norm(x, 2), linalg.cond(x), linalg.matrix_rank(x),
                *linalg.lstsq(x, b), linalg.matrix_power(x, 3), linalg.multi_dot([x, x, b]), linalg.qr(x, "r")]  # fmt: skip

    found = host(sojourn.step(lambda x, b: compute(np, x, b))(np.asarray(x), np.asarray(b)))
    for ours, theirs in zip(found, compute(numpy, x, b)):
        assert ours.shape == numpy.shape(theirs) and numpy.allclose(ours, theirs)
