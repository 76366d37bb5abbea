# SPDX-License-Identifier: Apache-2.0
"""Sorting beside NumPy's."""

import numpy
import pytest
from arrays_support import DTYPES, compare, draw

import sojourn
import sojourn.numpy as np

SHAPES = ((), (1,), (9,), (4, 5), (2, 3, 4), (0,), (3, 0))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_sort(rng, dtype, shape):
    x = draw(rng, dtype, shape, special=True)
    for axis in (None, 0, -1, 4):
        compare("sort", x, axis=axis)
        compare("argsort", x, axis=axis, kind="stable")
        compare("argsort", x, axis=axis, stable=True)
    if shape:
        compare("sort_complex", x)


@pytest.mark.parametrize("dtype", ("complex64", "complex128"))
def test_complex_order(rng, dtype):
    parts = numpy.array([0.0, -1.0, 2.0, numpy.nan, numpy.inf, -numpy.inf])
    x = numpy.empty(60, dtype)
    x.real, x.imag = rng.choice(parts, 60), rng.choice(parts, 60)
    found = numpy.asarray(np.sort(np.asarray(x)))
    assert numpy.array_equal(found.view(found.real.dtype), numpy.sort(x).view(found.real.dtype), equal_nan=True)
    compare("argsort", x, kind="stable")
    compare("argsort", x.reshape(6, 10), axis=0, kind="stable")


def test_sort_arguments(rng):
    x = draw(rng, "float32", (3, 4))
    for kind in ("quicksort", "mergesort", "heapsort", "stable"):
        compare("sort", x, kind=kind)
    for wrong in ({"kind": "bubble"}, {"order": "x"}, {"kind": "stable", "stable": True}):
        with pytest.raises(ValueError):
            np.sort(np.asarray(x), **wrong)


@pytest.mark.parametrize("dtype", ("int8", "float64", "bool"))
def test_lexsort(rng, dtype):
    keys = [draw(rng, dtype, (3, 8)) for _ in range(3)]
    compare("lexsort", keys)
    compare("lexsort", tuple(keys), axis=0)
    compare("lexsort", keys[0])
    compare("lexsort", [keys[0], draw(rng, "int16", (3, 8))])
    compare("lexsort", [keys[0], keys[1][:2]])
    compare("lexsort", keys, axis=3)


@pytest.mark.parametrize("dtype", DTYPES)
def test_partition(rng, dtype):
    x = draw(rng, dtype, (5, 7))
    a = np.asarray(x)
    for axis in (-1, 0, None):
        n = x.size if axis is None else x.shape[axis]
        for kth in (2, -1, [0, 3]):
            places = numpy.atleast_1d(kth) % n
            expected = numpy.partition(x, kth, axis).take(places, axis or 0 if axis is None else axis)
            found = numpy.asarray(np.partition(a, kth, axis)).take(places, axis or 0 if axis is None else axis)
            assert numpy.array_equal(found, expected)
            order = numpy.asarray(np.argpartition(a, kth, axis))
            flat = x.reshape(-1) if axis is None else x
            by = numpy.take_along_axis(flat, order, 0 if axis is None else axis)
            assert numpy.array_equal(by, numpy.asarray(np.partition(a, kth, axis)))
    for wrong in (7, -8, 1.5, [[1]], numpy.zeros((1, 1), int)):
        with pytest.raises((ValueError, TypeError)):
            np.partition(a, wrong)


def test_step(rng):
    x = draw(rng, "float64", (3, 6))

    @sojourn.step
    def compute(a):
        return np.sort(a, axis=0), np.argsort(a), np.lexsort((a, -a)), np.partition(a, 2), np.sort_complex(a * 1j)

    expected = (
        numpy.sort(x, 0), numpy.argsort(x), numpy.lexsort((x, -x)), numpy.sort(x), numpy.sort_complex(x * 1j),
    )  # fmt: skip
    for found, value in zip(compute(np.asarray(x)), expected):
        assert numpy.array_equal(numpy.asarray(found), value)
