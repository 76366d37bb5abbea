# SPDX-License-Identifier: Apache-2.0
"""Histograms, counts and places in sorted arrays beside NumPy's."""

import numpy
import pytest
from arrays_support import DTYPES, compare, draw

import sojourn
import sojourn.numpy as np

REAL = tuple(each for each in DTYPES if not each.startswith("complex"))
RULES = ("auto", "doane", "fd", "rice", "scott", "sqrt", "stone", "sturges")


@pytest.mark.parametrize("dtype", REAL)
def test_histogram(rng, dtype):
    x = draw(rng, dtype, (20, 5))
    compare("histogram", x, range=(-4, 5))
    compare("histogram", x, bins=7, range=(-3.5, 9))
    compare("histogram", x, bins=[-3, -1, 0, 0.5, 4])
    compare("histogram", x, bins=numpy.array([-3, -1, 2, 4]), density=True)
    compare("histogram", x[:0], bins=3)
    if numpy.dtype(dtype).kind != "b":
        compare("histogram", x, bins=1)
        compare("histogram", x[0, :1], bins=4)
    if dtype not in ("float16", "float32"):
        # Edges from the values are rounded in another order; a value beside one of them may change its bin.
        compare("histogram", x, bins=11)
        compare("histogram", x, density=True)
        compare("histogram_bin_edges", x, bins=5)


@pytest.mark.parametrize("dtype", ("float16", "float32"))
def test_histogram_of_narrow_values(rng, dtype):
    x = draw(rng, dtype, 500)
    counts, edges = np.histogram(np.asarray(x), 9)
    expected = numpy.histogram(x, 9)
    assert edges.dtype == expected[1].dtype and counts.dtype == expected[0].dtype
    numpy.testing.assert_allclose(numpy.asarray(edges), expected[1], rtol=4e-3, atol=4e-3)
    assert numpy.array_equal(numpy.asarray(counts), numpy.histogram(x, numpy.asarray(edges))[0])


@pytest.mark.parametrize("dtype", ("int32", "float64"))
@pytest.mark.parametrize("weights", ("bool", "int64", "float32", "float64", "complex64"))
def test_weighted_histogram(rng, dtype, weights):
    x, w = draw(rng, dtype, (6, 5)), draw(rng, weights, (6, 5))
    compare("histogram", x, 6, weights=w)
    if weights != "bool":  # of which NumPy subtracts running sums
        compare("histogram", x, [-4, 0, 1, 5], weights=w)
    if weights in ("float64", "int64"):
        compare("histogram", x, 6, weights=numpy.abs(w) + 1, density=True)
    compare("histogram", x, 6, weights=w[0])


def test_histogram_arguments(rng):
    x = draw(rng, "float64", 30)
    for wrong in (0, -1, 1.5, "best", [[1, 2]], [3, 2, 1], numpy.zeros((2, 2))):
        compare("histogram", x, wrong)
    for wrong in ((1, 0), (0, numpy.inf)):
        compare("histogram", x, range=wrong)
    compare("histogram", x, range=(2, 2))
    x[:2] = numpy.nan
    compare("histogram", x, range=(-1, 1))
    compare("histogram", x, bins=[-1, 0, 1])
    a = np.asarray(x[2:])
    found = np.histogram(a, 4, range=(np.min(a), np.max(a)))
    for ours, theirs in zip(found, numpy.histogram(x[2:], 4)):
        numpy.testing.assert_allclose(numpy.asarray(ours), theirs)
    edges = numpy.histogram_bin_edges(x[2:], 5)
    compare("histogram", numpy.repeat(edges, 3), edges)


@pytest.mark.parametrize("rule", RULES)
def test_rules(rng, rule):
    for x in (rng.normal(size=200), rng.exponential(size=57), rng.integers(0, 40, 80), numpy.ones(5), numpy.ones(1)):
        compare("histogram", x, rule)
        compare("histogram", x, rule, range=(0, 3))
    compare("histogram", x[:0], rule)
    compare("histogram", x, rule, weights=x)

    @sojourn.step
    def inside(a):
        return np.histogram(a, rule)[0]

    with pytest.raises(sojourn.errors.ValueNeeded, match="how many bins"):
        inside(np.asarray(rng.normal(size=20)))


@pytest.mark.parametrize("dtype", ("int16", "float64", "float32"))
def test_many_dimensions(rng, dtype):
    x = draw(rng, dtype, (40, 3))
    spans = [(-4, 4), (-3, 6), (-5, 5)]
    compare("histogramdd", x, 3, range=spans)
    compare("histogramdd", x, (2, 3, 4), range=spans)
    compare("histogramdd", x, [[-3, 0, 2], 3, numpy.array([-1.0, 0.3, 5])], range=spans)
    compare("histogramdd", x, 3, range=spans, density=True)
    w = rng.random(40)
    compare("histogramdd", x, 3, range=spans, weights=w)
    compare("histogram2d", x[:, 0], x[:, 1], range=spans[:2])
    compare("histogram2d", x[:, 0], x[:, 1], (3, 4), range=spans[:2], weights=w)
    compare("histogram2d", x[:, 0], x[:, 1], [-3, 0, 1, 2, 5])
    compare("histogram2d", x[:, 0], x[:, 1], numpy.array([-3.0, 0, 1, 2, 5]), density=True)
    compare("histogram2d", x[:, 0], x[:, 1], [numpy.array([-3.0, 0, 5]), 4], range=spans[:2])
    compare("histogram2d", x[:, 0], x[:9, 1])
    if dtype != "float32":
        compare("histogramdd", [x[:, 0], x[:, 1]], 4)
        compare("histogramdd", x, 3)
        compare("histogram2d", x[:, 0], x[:, 1], 5)
    for wrong in ({"bins": (2, 3)}, {"bins": 0}, {"bins": 1.5}, {"range": [(0, 1)]}, {"weights": w[:3]}):
        compare("histogramdd", x, **wrong)


@pytest.mark.parametrize("dtype", DTYPES)
def test_bincount(rng, dtype):
    x = numpy.abs(draw(rng, dtype, 30)).astype(dtype)
    compare("bincount", x)
    compare("bincount", x, minlength=20)
    compare("bincount", x, minlength=2)
    compare("bincount", numpy.arange(30) % 4, weights=draw(rng, dtype, 30))
    compare("bincount", numpy.arange(30) % 4, draw(rng, dtype, 30), 9)


def test_bincount_arguments(rng):
    x = rng.integers(0, 6, 20)
    for shape in ((), (2, 3)):
        compare("bincount", numpy.zeros(shape, int))
    compare("bincount", x[:0])
    compare("bincount", x[:0], minlength=3)
    compare("bincount", x, minlength=-1)
    compare("bincount", x, weights=numpy.ones(3))
    compare("bincount", -1 - x)
    for length in (0, 3, 6, 9):
        found = numpy.asarray(np.bincount(np.asarray(x - 1), length=length))
        assert found.tolist() == [int((x - 1 == k).sum()) for k in range(length)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("side", ("left", "right"))
def test_searchsorted(rng, side, dtype):
    a = numpy.sort(draw(rng, dtype, 12))
    for shape in ((), (5,), (3, 4), (0,)):
        compare("searchsorted", a, draw(rng, dtype, shape), side=side)
    compare("searchsorted", a, a, side=side)
    compare("searchsorted", a[:0], a, side=side)
    compare("searchsorted", a, draw(rng, "float32", 6), side=side)
    compare("searchsorted", a, 1, side=side)
    shuffled = rng.permutation(a)
    compare("searchsorted", shuffled, a, side=side, sorter=numpy.argsort(shuffled))
    special = draw(rng, dtype, 9, special=True)
    compare("searchsorted", numpy.sort(special), special, side=side)


def test_searchsorted_arguments(rng):
    a = numpy.sort(draw(rng, "float64", 12))
    compare("searchsorted", a, 2.5)
    compare("searchsorted", rng.integers(0, 9, 5).cumsum(), 2.5)
    compare("searchsorted", a, a, side="middle")
    compare("searchsorted", a.reshape(3, 4), a)
    compare("searchsorted", a, a, sorter=numpy.arange(3))
    compare("searchsorted", a, a, sorter=a)
    assert numpy.asarray(np.searchsorted(a, np.asarray(a[::2]))).tolist() == list(range(0, 12, 2))
    assert numpy.asarray(np.searchsorted(np.asarray(a), a[3])).tolist() == 3


@pytest.mark.parametrize("dtype", DTYPES)
def test_digitize(rng, dtype):
    x = draw(rng, dtype, (4, 5))
    for right in (False, True):
        for bins in (
            numpy.array([-3.0, 0, 1, 4]),
            numpy.array([4, 1, 0, -2]),
            numpy.array([1, 1, 2]),
            numpy.array([2.0]),
            numpy.array([]),
        ):
            compare("digitize", x, bins, right=right)
        compare("digitize", x, [3, 1, -1], right)
        compare("digitize", x, [3, 1, 2], right)
        compare("digitize", x[0, 0], numpy.array([0, 1]))
    compare("digitize", x, numpy.zeros((2, 2)))


def test_step(rng):
    x, w = rng.normal(size=50), rng.random(50)

    def compute(np, a, w):
        counts, edges = np.histogram(a, 6)
        weighted, _ = np.histogram(a, 4, (-1, 1), weights=w)
        both, _, _ = np.histogram2d(a, w, 3)
        return counts, edges, weighted, both, np.digitize(a, edges), np.searchsorted(edges, a)

    inside = sojourn.step(lambda a, w: compute(np, a, w))
    for found, value in zip(inside(np.asarray(x), np.asarray(w)), compute(numpy, x, w)):
        numpy.testing.assert_allclose(numpy.asarray(found), value)

    k = rng.integers(0, 5, 30)
    counted = sojourn.step(lambda k: np.bincount(k, length=8))(np.asarray(k))
    assert numpy.array_equal(numpy.asarray(counted), numpy.bincount(k, minlength=8))
    for unknown in (lambda k: np.bincount(k), lambda k: np.bincount(k, minlength=3)):
        with pytest.raises(sojourn.errors.ValueNeeded, match="pass length="):
            sojourn.step(unknown)(np.asarray(k))
