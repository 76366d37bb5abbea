# SPDX-License-Identifier: Apache-2.0
"""Averages, medians, quantiles and covariances beside NumPy's."""

import numpy
import pytest
from arrays_support import DTYPES, compare, draw

import sojourn
import sojourn.numpy as np

REAL = tuple(each for each in DTYPES if not each.startswith("complex"))
METHODS = (
    "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "hazen", "weibull",
    "linear", "median_unbiased", "normal_unbiased", "lower", "higher", "midpoint", "nearest",
)  # fmt: skip
SHAPES = ((), (1,), (6,), (7,), (3, 4), (2, 3, 4))


@pytest.mark.parametrize("dtype", DTYPES)
def test_average(rng, dtype):
    x = draw(rng, dtype, (3, 4))
    compare("average", x)
    compare("average", x, axis=0, keepdims=True)
    compare("average", x, axis=1, returned=True)
    for weights_dtype in ("int64", "float32", "float64"):
        weights = rng.integers(1, 9, (3, 4)).astype(weights_dtype)
        compare("average", x, weights=weights, returned=True)
        compare("average", x, axis=1, weights=weights, returned=True)
        compare("average", x, axis=0, weights=weights[:, 0], returned=True, keepdims=True)
        compare("average", x, axis=(1, 0), weights=weights.T)
        compare("average", x, weights=weights[0])
        compare("average", x, axis=0, weights=weights[0])
    compare("average", x, axis=0, weights=[1, 2, 3])


@pytest.mark.parametrize("dtype", DTYPES)
def test_median(rng, dtype):
    for shape in SHAPES:
        x = draw(rng, dtype, shape)
        compare("median", x)
        for axis in range(-len(shape), len(shape)):
            compare("median", x, axis=axis)
            compare("median", x, axis=axis, keepdims=True)
    compare("median", x, axis=(0, 2), keepdims=True)
    compare("median", x, axis=3)
    if numpy.dtype(dtype).kind == "f":
        y = draw(rng, dtype, (5, 6), special=True)
        compare("median", y, axis=0)
        compare("median", y, axis=1)
        compare("median", y[:0])


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("method", METHODS)
def test_quantile(rng, method, dtype):
    x = draw(rng, dtype, (7, 5))
    for q in (0.5, 0.0, 1.0, 0.3, numpy.array([0.2, 0.9, 0.4]), numpy.array(0.25)):
        compare("quantile", x, q, method=method)
        compare("quantile", x, q, axis=0, method=method)
    compare("quantile", x, [0.1, 0.6], axis=-1, method=method, keepdims=True)
    compare("percentile", x, 37, axis=1, method=method)
    compare("percentile", x, [0, 12.5, 100], axis=(0, 1), method=method)
    if numpy.dtype(dtype).kind == "f":
        compare("quantile", draw(rng, dtype, (7, 5), special=True), numpy.array([0.3, 0.5]), axis=0, method=method)


@pytest.mark.parametrize("count", (1, 2, 3, 4, 8, 9))
@pytest.mark.parametrize("method", METHODS)
def test_quantile_places(rng, method, count):
    q = numpy.round(numpy.arange(0, count + 1) / count, 12)
    compare("quantile", rng.normal(size=count), q, method=method)
    compare("quantile", rng.normal(size=(count, 2)), rng.random((2, 3)), axis=0, method=method)


def test_quantile_on_the_host(rng):
    x = draw(rng, "float64", (6, 4))
    a = np.asarray(x)
    for q in (0.3, [0.1, 0.5], numpy.array([[0.2, 0.4]])):
        for method in METHODS:
            found = numpy.asarray(np.quantile(a, q, axis=1, method=method))
            numpy.testing.assert_allclose(found, numpy.quantile(x, q, axis=1, method=method))
    assert numpy.asarray(np.quantile(np.asarray(x.astype("float32")), 0.3)).dtype == numpy.float32
    found = np.quantile(x, np.asarray(numpy.array([0.5])))
    numpy.testing.assert_allclose(numpy.asarray(found), numpy.quantile(x, [0.5]))
    found = np.quantile(a, [np.asarray(numpy.array(0.5)), 0.25])
    numpy.testing.assert_allclose(numpy.asarray(found), numpy.quantile(x, [0.5, 0.25]))
    for wrong in (1.5, [-0.1], numpy.zeros((1, 1, 1))):
        with pytest.raises(ValueError):
            np.quantile(a, wrong)
    with pytest.raises(ValueError, match="not a valid method"):
        np.quantile(a, 0.5, method="best")
    with pytest.raises(ValueError, match="0, 100"):
        np.percentile(a, 101)


def test_quantile_integers(rng):
    x = draw(rng, "int32", 9)
    compare("quantile", x, 1)
    compare("quantile", x, 0, method="linear")
    compare("quantile", x, numpy.array([0, 1]))
    compare("quantile", x + 1j, 0.5)
    compare("quantile", x[:0], 0.5)


@pytest.mark.parametrize("dtype", ("int32", "float32", "float64"))
def test_weighted_quantile(rng, dtype):
    x = draw(rng, dtype, (6, 5))
    weights = rng.integers(0, 4, (6, 5)).astype("float64")
    weights[2] = 1
    for q in (0.0, 0.35, 1.0, numpy.array([0.1, 0.5, 0.9])):
        compare("quantile", x, q, weights=weights, method="inverted_cdf")
        compare("quantile", x, q, axis=0, weights=weights, method="inverted_cdf", keepdims=True)
        compare("quantile", x, q, axis=1, weights=weights[2] + numpy.arange(5), method="inverted_cdf")
        compare("percentile", x, q * 100, axis=(0, 1), weights=weights, method="inverted_cdf")
    compare("quantile", x, 0.5, weights=weights)
    compare("quantile", x, 0.5, weights=weights[0], method="inverted_cdf")
    y = draw(rng, "float64", (6, 5), special=True)
    compare("quantile", y, numpy.array([0.2, 0.7]), axis=0, weights=weights, method="inverted_cdf")


@pytest.mark.parametrize("dtype", DTYPES)
def test_cov(rng, dtype):
    x, y = draw(rng, dtype, (3, 6)), draw(rng, dtype, (2, 6))
    compare("cov", x)
    compare("cov", x, y)
    compare("cov", x.T, rowvar=False, bias=True)
    compare("cov", x.T, y.T, rowvar=False, ddof=2)
    compare("cov", x[0])
    compare("cov", x[0], y[0])
    compare("cov", x, dtype="complex64" if x.dtype.kind == "c" else "float32", rtol=1e-5)
    f, w = rng.integers(1, 5, 6), rng.random(6) + 0.1
    compare("cov", x, fweights=f)
    compare("cov", x, aweights=w)
    compare("cov", x, fweights=f, aweights=w, ddof=0)
    compare("cov", x, fweights=f, aweights=w)
    compare("cov", x, fweights=f[:3])
    compare("cov", x, ddof=1.5)
    compare("cov", numpy.stack([x, x]))
    # Where a row is constant, both give NaN.
    compare("corrcoef", x)
    compare("corrcoef", x, y)
    compare("corrcoef", x.T, rowvar=False)
    compare("corrcoef", x[0])


def test_out(rng):
    x = draw(rng, "float64", (5, 4))
    for name, more in (("median", ()), ("quantile", (0.3,)), ("percentile", (30,))):
        out = np.asarray(numpy.zeros(4))
        assert getattr(np, name)(np.asarray(x), *more, axis=0, out=out) is out
        numpy.testing.assert_allclose(numpy.asarray(out), getattr(numpy, name)(x, *more, axis=0))


def test_step(rng):
    x, w, q = draw(rng, "float64", (6, 4)), rng.random(6), rng.random(3)

    def compute(np, a, w, q):
        return (
            np.average(a, axis=0, weights=w), np.median(a, axis=1), np.quantile(a, q, axis=0), np.percentile(a, 25),
            np.cov(a.T, aweights=w), np.corrcoef(a.T), np.quantile(a, q, axis=0, weights=w, method="inverted_cdf"),
        )  # fmt: skip

    inside = sojourn.step(lambda a, w, q: compute(np, a, w, q))
    for found, value in zip(inside(np.asarray(x), np.asarray(w), np.asarray(q)), compute(numpy, x, w, q)):
        numpy.testing.assert_allclose(numpy.asarray(found), value)
