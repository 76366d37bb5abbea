# SPDX-License-Identifier: Apache-2.0
"""The array API standard: products, the extensions linalg (by what its results give when multiplied) and fft."""

import arrays_api_support as api
import numpy
import pytest
from arrays_api_support import np
from hypothesis import given
from hypothesis import strategies as st

ROOM = {"float32": 2e-4, "complex64": 2e-4, "float64": 1e-9, "complex128": 1e-9}


def _near(found, expected, room=1.0):
    found, expected = api.host(found), api.host(expected)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape), (found, expected)
    scale = max(1.0, float(numpy.max(numpy.abs(expected), initial=0.0)))
    assert numpy.all(numpy.abs(found - expected) <= room * ROOM[str(expected.dtype)] * scale), (found, expected)


def _tried(*names):
    api.tried.update(f"linalg.{name}" for name in names)


@st.composite
def _matrices(draw, square=True, dtypes=api.INEXACT, definite=False):
    """Batches of matrices, far from singular. `definite`: Hermitian and positive."""
    dtype = draw(st.sampled_from(dtypes))
    batch = draw(api.shapes(max_dims=1, max_side=2))
    n = draw(st.integers(1, 4))
    m = n if square else draw(st.integers(1, 4))
    x = draw(api.array(dtype, shape=(*batch, m, n), small=True)) / 64
    if definite:
        x = x @ x.conj().swapaxes(-1, -2)
    return (x + (8 * numpy.eye(m, n) if square else 0)).astype(dtype)


# Products.


@api.examples(100)
@given(st.data())
def test_matmul(data):
    dtypes = data.draw(st.sampled_from([api.INTS, api.INEXACT]))
    signature = data.draw(
        api.arrays.mutually_broadcastable_shapes(signature="(m?,n),(n,p?)->(m?,p?)", max_dims=1, max_side=3)
    )
    x, y = (data.draw(api.array(dtypes, shape=shape, small=True)) for shape in signature.input_shapes)
    for name in ("matmul", "linalg.matmul"):
        found = api.agree(name, x, y, ulps=256 * 64, signs=False)
        assert found is None or found.shape == signature.result_shape
    if x.ndim and y.ndim > 1 and y.dtype == x.dtype:
        api.agree(lambda a, b: a @ b, x, y, ulps=256 * 64, signs=False)


@api.examples(80)
@given(st.data())
def test_other_products(data):
    dtypes = data.draw(st.sampled_from([api.INTS, api.INEXACT]))
    x = data.draw(api.array(dtypes, small=True, min_dims=1))
    y = data.draw(api.array(str(x.dtype), shape=x.shape, small=True))
    axis = data.draw(st.integers(-x.ndim, -1))
    for name in ("vecdot", "linalg.vecdot"):
        api.agree(name, x, y, axis=axis, ulps=256 * 64, signs=False)
    some = data.draw(st.integers(0, x.ndim))
    api.agree("tensordot", x, numpy.permute_dims(y, [*range(x.ndim - some, x.ndim), *range(x.ndim - some)]), axes=some,
              ulps=256 * 64, signs=False)  # fmt: skip
    pairs = tuple(data.draw(st.permutations(range(x.ndim)))[:some])
    for name in ("tensordot", "linalg.tensordot"):
        api.agree(name, x, y, axes=(pairs, pairs), ulps=256 * 64, signs=False)
    api.agree("linalg.outer", x.ravel(), y.ravel(), signs=False, ulps=64)
    if x.ndim > 1:
        offset = data.draw(st.integers(-2, 2))
        assert api.agree("linalg.diagonal", x, offset=offset) is not None
        expected = None if x.dtype != numpy.uint8 else numpy.linalg.trace(x, offset=offset, dtype=numpy.int64)
        api.agree("linalg.trace", x, offset=offset, expected=expected, signs=False, ulps=64)
        assert api.agree("linalg.matrix_transpose", x) is not None
    three = data.draw(api.arrays.array_shapes(min_dims=1, max_dims=3, max_side=3)) + (3,)
    a, b = (data.draw(api.array(str(x.dtype), shape=three, small=True)) for _ in "ab")
    assert api.agree("linalg.cross", a, b, axis=-1, signs=False, ulps=256 * 64) is not None


@api.examples(60)
@given(st.data())
def test_norms(data):
    x = data.draw(api.array(api.INEXACT, small=True, min_dims=1, min_side=1))
    order = data.draw(st.sampled_from([0, 1, 2, 3, -1, numpy.inf, -numpy.inf, 0.5]))
    nonzero = numpy.where(x == 0, x.dtype.type(1), x)
    axis = data.draw(st.none() | st.integers(-x.ndim, x.ndim - 1))
    api.agree(
        "linalg.vector_norm", nonzero, ord=order, axis=axis, keepdims=data.draw(st.booleans()), ulps=2000, signs=False
    )
    if x.ndim > 1:
        order = data.draw(st.sampled_from(["fro", 1, -1, numpy.inf, -numpy.inf, 2, "nuc"]))
        api.tried["linalg.matrix_norm"] += 1
        options = {"ord": order, "keepdims": data.draw(st.booleans())}
        _near(np.linalg.matrix_norm(np.asarray(x), **options), numpy.linalg.matrix_norm(x, **options))


# Decompositions.


@api.examples(60)
@given(_matrices())
def test_inverses(x):
    y = np.asarray(x)
    eye = numpy.broadcast_to(numpy.eye(x.shape[-1], dtype=x.dtype), x.shape)
    _near(y @ np.linalg.inv(y), eye)
    _near(np.linalg.solve(y, y), eye)
    _near(y @ np.linalg.solve(y, y[..., 0:1]), x[..., :1])
    _near(np.linalg.pinv(y), np.linalg.inv(y))
    _near(np.linalg.matrix_power(y, 3), x @ x @ x, 4)
    _near(np.linalg.matrix_power(y, 0), eye)
    _near(np.linalg.matrix_power(y, -1), np.linalg.inv(y))
    sign, size = np.linalg.slogdet(y)
    _near(sign * np.exp(size).astype(sign.dtype), np.linalg.det(y))
    _near(np.linalg.det(y), numpy.linalg.det(x), 4)
    assert numpy.all(api.host(np.linalg.matrix_rank(y)) == x.shape[-1])
    _tried("inv", "solve", "solve", "pinv", *["matrix_power"] * 3, "slogdet", "det", "matrix_rank")


@api.examples(60)
@given(_matrices(square=False))
def test_singular_values(x):
    y = np.asarray(x)
    for full in (True, False):
        u, s, vh = np.linalg.svd(y, full_matrices=full)
        k = s.shape[-1]
        _near((u[..., :k] * s[..., None, :].astype(u.dtype)) @ vh[..., :k, :], x, 4)
        for each in (u, np.conj(vh.mT)):
            _near(
                np.conj(each.mT) @ each,
                numpy.broadcast_to(numpy.eye(each.shape[-1], dtype=x.dtype), api.host(np.conj(each.mT) @ each).shape),
            )
        assert numpy.all(numpy.diff(api.host(s)) <= 0) and numpy.all(api.host(s) >= 0)
        _near(np.linalg.svdvals(y), s)
        assert np.linalg.svd(y, full_matrices=full)._fields == ("U", "S", "Vh")
    s = api.host(s)
    if numpy.all(s[..., -1] > 1e-2 * s[..., 0]):
        _near(y @ np.linalg.pinv(y, rtol=1e-3) @ y, x, 100)
    _tried("svd", "svd", "svdvals", "svdvals", "pinv")


@api.examples(60)
@given(_matrices(square=False), st.sampled_from(["reduced", "complete"]))
def test_qr(x, mode):
    y = np.asarray(x)
    q, r = np.linalg.qr(y, mode=mode)
    assert np.linalg.qr(y, mode=mode)._fields == ("Q", "R")
    _near(q @ r, x)
    _near(
        np.conj(q.mT) @ q,
        numpy.broadcast_to(numpy.eye(q.shape[-1], dtype=x.dtype), (*x.shape[:-2], q.shape[-1], q.shape[-1])),
    )
    assert not api.host(np.tril(r, k=-1)).any()
    _tried("qr", "qr")


@api.examples(60)
@given(_matrices(definite=True))
def test_hermitian_matrices(x):
    y = np.asarray(x)
    values, vectors = np.linalg.eigh(y)
    assert np.linalg.eigh(y)._fields == ("eigenvalues", "eigenvectors") and numpy.all(numpy.diff(api.host(values)) >= 0)
    _near((vectors * values[..., None, :].astype(vectors.dtype)) @ np.conj(vectors.mT), x, 4)
    _near(np.linalg.eigvalsh(y), values)
    _near(np.sum(values, axis=-1).astype(x.dtype), np.linalg.trace(y))
    for upper in (False, True):
        root = np.linalg.cholesky(y, upper=upper)
        _near(np.conj(root.mT) @ root if upper else root @ np.conj(root.mT), x)
        assert not api.host((np.tril if upper else np.triu)(root, k=-1 if upper else 1)).any()
    _tried("eigh", "eigvalsh", "cholesky", "cholesky")


def test_matrices_whose_values_are_not_checked():
    """Checks that need values are not made; NumPy raises here."""
    reason = "unchecked matrices"
    assert reason in api.DIFFERENCES
    singular = np.zeros((2, 2))
    for call in (np.linalg.inv, lambda x: np.linalg.solve(x, x), np.linalg.cholesky):
        assert not numpy.isfinite(api.host(call(singular - np.eye(2) * (call is np.linalg.cholesky)))).all()


# Transforms.


@api.examples(80)
@given(st.data())
def test_transforms(data):
    x = data.draw(api.array(api.INEXACT, small=True, min_dims=1, min_side=1))
    options = {
        "n": data.draw(st.none() | st.integers(1, 5)), "axis": data.draw(st.integers(-x.ndim, x.ndim - 1)),
        "norm": data.draw(st.sampled_from(["backward", "ortho", "forward"])),
    }  # fmt: skip
    wide = {"float32": numpy.complex64, "float64": numpy.complex128}.get(str(x.dtype), x.dtype)
    for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
        if name in ("rfft", "ihfft") and x.dtype.kind == "c":
            continue
        z = x if name in ("rfft", "ihfft") else x.astype(wide)
        if name in ("irfft", "hfft") and options["n"] is None and z.shape[options["axis"]] < 2:
            continue
        api.tried[f"fft.{name}"] += 1
        _near(
            getattr(np.fft, name)(np.asarray(z), **options),
            api.host(api.call(api.strict, api.theirs, f"fft.{name}", [z], options)),
        )


@api.examples(60)
@given(st.data())
def test_transforms_of_several_axes(data):
    x = data.draw(api.array(api.FLOATS, small=True, min_dims=1, min_side=2))
    axes = tuple(data.draw(st.permutations(range(x.ndim)))[: data.draw(st.integers(1, x.ndim))])
    options = {"axes": axes, "norm": data.draw(st.sampled_from(["backward", "ortho", "forward"]))}
    if data.draw(st.booleans()):
        options["s"] = tuple(data.draw(st.integers(2, 4)) for _ in axes)
    for name in ("fftn", "ifftn", "rfftn", "irfftn"):
        z = x if name == "rfftn" else x.astype({"float32": numpy.complex64}.get(str(x.dtype), numpy.complex128))
        api.tried[f"fft.{name}"] += 1
        _near(
            getattr(np.fft, name)(np.asarray(z), **options),
            api.host(api.call(api.strict, api.theirs, f"fft.{name}", [z], options)),
        )
    assert api.agree("fft.fftshift", x, axes=axes) is not None and api.agree("fft.ifftshift", x, axes=axes) is not None


@api.examples(60)
@given(st.data())
def test_transforms_there_and_back(data):
    x = data.draw(api.array(api.COMPLEX, small=True, min_dims=1, min_side=1))
    y, norm = np.asarray(x), data.draw(st.sampled_from(["backward", "ortho", "forward"]))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    n = x.shape[axis]
    options = {"axis": axis, "norm": norm}
    _near(np.fft.ifft(np.fft.fft(y, **options), **options), x)
    _near(np.fft.ifftn(np.fft.fftn(y, norm=norm), norm=norm), x)
    _near(np.fft.irfft(np.fft.rfft(np.real(y), **options), n=n, **options), x.real)
    _near(np.fft.hfft(np.fft.ihfft(np.real(y), **options), n=n, **options), x.real)
    _near(np.fft.irfftn(np.fft.rfftn(np.real(y), norm=norm), s=x.shape, axes=tuple(range(x.ndim)), norm=norm), x.real)
    _near(np.fft.ifftshift(np.fft.fftshift(y)), x)
    # A sum is the first value; energies are the same.
    _near(np.take(np.fft.fft(y, axis=axis), np.asarray([0]), axis=axis), x.sum(axis=axis, keepdims=True, dtype=x.dtype))
    energy = numpy.sum(numpy.abs(x) ** 2)
    _near(np.sum(np.abs(np.fft.fftn(y, norm="ortho")) ** 2), numpy.asarray(energy), 4)


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_frequencies(n, there):
    for d in (1.0, 0.25):
        for name in ("fftfreq", "rfftfreq"):
            found = getattr(np.fft, name)(n, d=d, device=there.device)
            assert found.device == there.device
            assert not api.difference(api.host(found), getattr(numpy.fft, name)(n, d=d))
            api.tried[f"fft.{name}"] += 1


def test_totals(capsys):
    with capsys.disabled():
        print(f"\n{api.totals('products, linalg, fft')}")
