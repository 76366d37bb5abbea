# SPDX-License-Identifier: Apache-2.0
"""Reductions without NaN beside NumPy's."""

import numpy
import pytest
from arrays_support import DTYPES, compare, draw

import sojourn
import sojourn.numpy as np

REDUCTIONS = ("nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nanstd")
METHODS = (
    "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "hazen", "weibull",
    "linear", "median_unbiased", "normal_unbiased", "lower", "higher", "midpoint", "nearest",
)  # fmt: skip


def holes(rng, dtype, shape, share=0.3):
    """Values of which some are NaN."""
    x = draw(rng, dtype, shape)
    if x.dtype.kind in "fc":
        x = numpy.where(rng.random(shape) < share, numpy.nan, x).astype(dtype)
    return x


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(rng, name, dtype):
    for shape in ((), (1,), (7,), (3, 4), (2, 3, 4)):
        x = holes(rng, dtype, shape)
        compare(name, x)
        compare(name, x, axis=-1 if shape else None, keepdims=True)
        compare(name, x, axis=tuple(range(len(shape))))
    compare(name, x, axis=(0, 2))
    compare(name, x, axis=7)
    compare(name, x[:0])
    compare(name, x[:0], axis=1)
    if x.dtype.kind in "fc":
        x[:, 1] = numpy.nan
        compare(name, x, axis=(0, 2))
    if x.dtype.kind == "f":
        # Products and rounding of infinite complex numbers differ between libraries.
        x[0, 0, 0] = numpy.inf
        compare(name, x, axis=2)


@pytest.mark.parametrize("dtype", ("int32", "float32", "float64", "complex128"))
def test_where_and_initial(rng, dtype):
    x, mask = holes(rng, dtype, (4, 5)), draw(rng, "bool", (4, 5))
    for name in ("nansum", "nanprod", "nanmax", "nanmin"):
        compare(name, x, axis=0, where=mask, initial=1)
        compare(name, x, initial=0.0 if x.dtype.kind == "f" else 0)
        compare(name, x, axis=0, where=mask)
    for name in ("nanmean", "nanvar", "nanstd"):
        compare(name, x, axis=0, where=mask)
    for name in ("nanvar", "nanstd"):
        for ddof in (1, 3, 9):
            compare(name, x, axis=0, ddof=ddof)
            compare(name, x, axis=1, correction=ddof, keepdims=True)
        compare(name, x, axis=1, mean=numpy.nanmean(x, axis=1, keepdims=True))
    compare("nanmax", holes(rng, "float64", (3, 4), 1.0), axis=0, initial=numpy.nan)
    compare("nanmean", x, dtype="int32")
    compare("nanmean", x, dtype="complex64")


@pytest.mark.parametrize("dtype", DTYPES)
def test_positions_and_running(rng, dtype):
    for shape in ((5,), (4, 6)):
        x = holes(rng, dtype, shape)
        x[0] = x[..., 0] = 1
        for name in ("nanargmax", "nanargmin"):
            compare(name, x)
            compare(name, x, axis=0)
            compare(name, x, axis=-1, keepdims=True)
        for name in ("nancumsum", "nancumprod"):
            compare(name, x)
            compare(name, x, axis=0)
            compare(name, x, axis=-1, dtype="complex128")
    lost = np.asarray(numpy.array([[numpy.nan, 1.0], [numpy.nan, 2.0]]))
    assert numpy.asarray(np.nanargmax(lost, axis=0)).tolist() == [-1, 1]
    compare("nanargmax", x[:0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_median(rng, dtype):
    for shape in ((), (1,), (7,), (8,), (3, 4), (2, 3, 4)):
        x = holes(rng, dtype, shape)
        compare("nanmedian", x)
        compare("nanmedian", x, axis=-1 if shape else None, keepdims=True)
    compare("nanmedian", x, axis=(0, 2))
    compare("nanmedian", x[:0])
    compare("nanmedian", holes(rng, dtype, (3, 4), 1.0), axis=0)


@pytest.mark.parametrize("dtype", ("int16", "float16", "float32", "float64"))
@pytest.mark.parametrize("method", METHODS)
def test_quantile(rng, method, dtype):
    x = holes(rng, dtype, (7, 5))
    x[0, 0] = 1  # where the first slice is all NaN, NumPy's dtype is another one
    for q in (0.3, numpy.array([0.0, 0.25, 0.8, 1.0])):
        compare("nanquantile", x, q, method=method)
        compare("nanquantile", x, q, axis=0, method=method)
        compare("nanquantile", x, q, axis=1, method=method, keepdims=True)
    compare("nanpercentile", x, 40, axis=0, method=method)
    if x.dtype.kind == "f":
        x[:, 2] = numpy.nan
        compare("nanquantile", x, 0.4, axis=0, method=method)
        compare("nanquantile", x[:0], 0.4, axis=0, method=method)


def test_weighted_quantile(rng):
    x, weights = holes(rng, "float64", (7, 5)), rng.random((7, 5)) + 0.1
    x[0] = 1
    for q in (0.0, 0.6, numpy.array([0.2, 1.0])):
        compare("nanquantile", x, q, axis=0, weights=weights, method="inverted_cdf")
        compare("nanquantile", x, q, weights=weights, method="inverted_cdf")


def test_out(rng):
    x = holes(rng, "float64", (5, 4))
    for name in (*REDUCTIONS, "nanmedian"):
        out = np.asarray(numpy.zeros(4))
        assert getattr(np, name)(np.asarray(x), axis=0, out=out) is out
        compare(name, x, axis=0)
        numpy.testing.assert_allclose(numpy.asarray(out), numpy.asarray(getattr(np, name)(np.asarray(x), axis=0)))


def test_step(rng):
    x, q = holes(rng, "float64", (6, 4)), rng.random(3)
    x[0] = 1

    def compute(np, a, q):
        return (
            np.nansum(a, axis=0), np.nanmax(a), np.nanmean(a, axis=1), np.nanstd(a, ddof=1), np.nanmedian(a, axis=0),
            np.nanquantile(a, q, axis=0), np.nanargmin(a, axis=0), np.nancumsum(a), np.nanpercentile(a, 30.0),
        )  # fmt: skip

    inside = sojourn.step(lambda a, q: compute(np, a, q))
    for found, value in zip(inside(np.asarray(x), np.asarray(q)), compute(numpy, x, q)):
        numpy.testing.assert_allclose(numpy.asarray(found), value)
