# SPDX-License-Identifier: Apache-2.0
"""Polynomials and windows: as NumPy's, but for leading zeros, which stay."""

import numpy
import pytest
from arrays_support import DTYPES, compare, draw, host

import sojourn
import sojourn.numpy as np

LOOSE = {"float32": 1e-4, "complex64": 1e-4, "float16": 2e-2}


def coefficients(rng, dtype, size):
    """The first of which is not 0."""
    x = draw(rng, dtype, (size,))
    if size:
        x[0] = 1 if dtype == "bool" else 2
    return x


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", [(1, 1), (4, 2), (2, 4), (5, 5), (3, 1), (6, 3)], ids=str)
def test_arithmetic(rng, dtype, sizes):
    a, b = (coefficients(rng, dtype, size) for size in sizes)
    loose = LOOSE.get(dtype)
    compare("polyadd", a, b)
    compare("polyadd", a, 3)
    compare("polysub", a, b)
    compare("polymul", a, b, rtol=loose)
    compare("polymul", a, [1, 2.5], rtol=loose)
    q, r = (host(each) for each in np.polydiv(np.asarray(a), np.asarray(b)))
    expected = numpy.polydiv(a, b)
    assert q.dtype == expected[0].dtype and r.dtype == expected[1].dtype and q.shape == expected[0].shape
    assert numpy.allclose(q, expected[0], rtol=loose or 1e-9, atol=loose or 1e-9)
    assert r.shape == (max(1, min(sizes[0], sizes[1] - 1)),) or sizes[0] < sizes[1]
    whole = numpy.zeros(r.shape, r.dtype)
    whole[len(r) - min(len(expected[1]), len(r)) :] = expected[1][-len(r) :]
    scale = 1 + numpy.abs(numpy.polyval(numpy.abs(q.astype(complex)), 1)) * numpy.abs(b).max()
    assert numpy.allclose(r, whole, rtol=loose or 1e-9, atol=(loose or 1e-9) * scale)


@pytest.mark.parametrize("dtype", DTYPES)
def test_values(rng, dtype):
    p = draw(rng, dtype, (4,))
    for kind in DTYPES:
        compare(
            "polyval",
            p,
            draw(rng, kind, (2, 3)) if kind != "float16" else numpy.rint(draw(rng, kind, (2, 3))),
            rtol=LOOSE.get(kind, LOOSE.get(dtype)),
        )
    compare("polyval", p, 3, rtol=LOOSE.get(dtype))
    compare("polyval", p, 2.5, rtol=LOOSE.get(dtype))
    compare("polyval", p[:0], draw(rng, "float32", (3,)))
    compare("polyval", p[0], draw(rng, "float32", (3,)))
    compare("polyval", p[:1], numpy.array([numpy.nan, numpy.inf, 1]))
    compare("polyval", draw(rng, dtype, (3, 2)), draw(rng, "float64", (2,)), rtol=LOOSE.get(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_derivatives_and_integrals(rng, dtype):
    for size in (0, 1, 2, 5):
        p = draw(rng, dtype, (size,))
        for m in (0, 1, 2, 7, -1):
            compare("polyder", p, m)
            compare("polyint", p, m)
            compare("polyint", p, m, 3)
            compare("polyint", p, m, [1, 2, 3])
            compare("polyint", p, m, k=numpy.array([1j, 2]))
    compare("polyder", p[0])
    compare("polyint", p[0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_poly(rng, dtype):
    loose = LOOSE.get(dtype, 1e-8)
    for size in (0, 1, 2, 5):
        compare("poly", draw(rng, dtype, (size,)), rtol=loose)
    x = draw(rng, dtype, (3, 3))
    if not dtype.startswith("complex"):
        compare("poly", x, rtol=loose)
    compare("poly", x[:2])


@pytest.mark.parametrize("dtype", DTYPES)
def test_roots(rng, dtype):
    def ordered(x):
        return numpy.sort_complex(numpy.round(x, 3))

    for size in (1, 2, 3, 5):
        p = coefficients(rng, dtype, size)
        p[-1] = 1
        if dtype == "float16" and size > 1:
            with pytest.raises(TypeError):
                np.roots(np.asarray(p))
            continue
        found, expected = host(np.roots(np.asarray(p))), numpy.roots(p)
        assert found.shape == expected.shape and found.dtype == numpy.result_type(
            expected.dtype, "complex64" if size > 1 else "complex128"
        )
        # By the polynomial of the roots: several roots near to each other have no order.
        if size > 1:
            again = numpy.poly(found) * p[0]
            assert numpy.allclose(again, p, atol=1e-2 if dtype in ("float32", "complex64") else 1e-6)
    compare("roots", numpy.ones((2, 2)))


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64", "complex128"])
def test_polyfit(rng, dtype):
    x = (
        numpy.linspace(-2, 2, 8).astype("float32" if dtype == "float32" else "float64")
        if dtype != "int32"
        else numpy.arange(-4, 4)
    )
    w = rng.uniform(0.5, 2, 8)
    loose = 2e-4 if dtype == "float32" else 1e-8
    for y in (draw(rng, dtype, (8,)), draw(rng, dtype, (8, 2))):
        for degree in (0, 1, 3):
            compare("polyfit", x, y, degree, rtol=loose)
            compare("polyfit", x, y, degree, w=w if dtype != "float32" else w.astype(dtype), rtol=loose)
            compare("polyfit", x, y, degree, full=True, rtol=loose)
            compare("polyfit", x, y, degree, rcond=1e-10, full=True, rtol=loose)
            compare("polyfit", x, y, degree, cov=True, rtol=loose)
            compare("polyfit", x, y, degree, cov="unscaled", rtol=loose)
        compare("polyfit", x, y, 7, cov=True, rtol=loose)
        compare("polyfit", x, y, -1)
        compare("polyfit", x, y[:3], 1)
        compare("polyfit", x, y, 1, w=w[:2])
        compare("polyfit", x, y, 1, w=numpy.ones((8, 1)))
        compare("polyfit", x[:0], y, 1)
        compare("polyfit", x.reshape(2, 4), y, 1)
    compare("polyfit", x, draw(rng, dtype, (8, 2, 2)), 1)


def test_poly1d(rng):
    a, b = coefficients(rng, "float64", 4), coefficients(rng, "float64", 2)
    x = rng.normal(size=3)
    p, q, ours, others = numpy.poly1d(a), numpy.poly1d(b), np.poly1d(np.asarray(a)), np.poly1d(np.asarray(b))
    assert isinstance(np.poly1d([1, 2]), numpy.poly1d) and ours.order == len(ours) == 3
    for found, expected in (
        (ours + others, p + q), (ours - 2, p - 2), (2 - ours, 2 - p), (ours * others, p * q), (3 * ours, 3 * p), (ours**2, p**2), (-ours, -p),
        (ours.deriv(), p.deriv()), (ours.integ(2, 1), p.integ(2, 1)), *zip(ours / others, p / q), (ours + q, p + q),
    ):  # fmt: skip
        assert type(found) is np.poly1d and numpy.allclose(host(found.c), expected.c)
    assert numpy.allclose(host(ours(np.asarray(x))), p(x)) and numpy.allclose(host(ours(x)), p(x))
    assert float(ours[2]) == p[2] and ours[9] == 0
    assert numpy.allclose(host(np.poly1d(np.asarray(x), r=True).c), numpy.poly1d(x, r=True).c)
    assert numpy.allclose(host(np.polyadd(ours.c, others.c)), (p + q).c)
    assert numpy.allclose(numpy.sort_complex(host(ours.roots)), numpy.sort_complex(p.roots))


@pytest.mark.parametrize("name", ["bartlett", "blackman", "hamming", "hanning"])
def test_windows(name):
    for count in (-1, 0, 1, 2, 3, 8, 11, 2.5, numpy.int8(7)):
        compare(name, count)
        assert isinstance(getattr(np, name)(count), np.ndarray)


def test_kaiser():
    for count in (0, 1, 2, 3, 8, 11):
        for beta in (0, 5.0, 14, numpy.array(8.6)):
            compare("kaiser", count, beta)


def test_in_steps(rng):
    a, x = coefficients(rng, "float64", 4), draw(rng, "float64", (9,))

    def compute(np, a, x):
        return [np.polyadd(a, a), np.polymul(a, a), np.polyval(a, x), np.polyder(a), np.polyint(a), np.polydiv(x, a)[0], np.poly(a),
                np.polyfit(x, x**2, 2), np.hanning(9) * x, np.kaiser(9, 5) * x]  # fmt: skip

    found = host(sojourn.step(lambda a, x: compute(np, a, x))(np.asarray(a), np.asarray(x)))
    for ours, theirs in zip(found, compute(numpy, a, x)):
        assert ours.shape == numpy.shape(theirs) and numpy.allclose(ours, theirs)
