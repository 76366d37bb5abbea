# SPDX-License-Identifier: Apache-2.0
"""Limits, rounding, tolerances and bits: as NumPy's."""

import numpy
import pytest
from arrays_support import DTYPES, compare, draw, host

import sojourn
import sojourn.numpy as np

REAL = tuple(name for name in DTYPES if not name.startswith("complex"))
SHAPES = ((), (0,), (5,), (3, 4), (2, 3, 2))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_of_one_array(rng, dtype, shape):
    x = draw(rng, dtype, shape, special=True)
    if dtype == "float16":  # NumPy rounds pi x to float16
        expected = numpy.sinc(x.astype("float64"))
        assert numpy.allclose(host(np.sinc(np.asarray(x))), expected, rtol=1e-3, atol=1e-3, equal_nan=True)
    else:
        compare("sinc", x)
    for name in ("fix", "nan_to_num", "angle", "i0", "isneginf", "isposinf"):
        if name == "fix" and dtype.startswith("complex"):
            continue  # NumPy raises for another reason
        compare(name, x)
    compare("angle", x, deg=True)
    for decimals in (0, 1, 2, -1):
        compare("round", x, decimals)
        compare("around", x * 3 if dtype != "bool" else x, decimals=decimals)


@pytest.mark.parametrize("dtype", DTYPES)
def test_clip(rng, dtype):
    x = draw(rng, dtype, (4, 5), special=True)
    low, high = draw(rng, dtype, (5,)), draw(rng, dtype, (4, 1))
    for limits in ((1, 3), (None, 3), (1, None), (None, None), (-1.5, 2.5), (low, high), (None, high), (low, None), (low, 2),
                   (0, 300), (-300, 1), (3, 1), (numpy.nan, 1), (0, numpy.inf), (0.5, 1e300), (False, True), (low.astype("float64"), high), (numpy.float32(0.5), numpy.int16(4)), ([0, 1, 2, 3, 4], 3)):  # fmt: skip
        compare("clip", x, *limits)
        compare("clip", x, min=limits[0], max=limits[1])
    compare("clip", [1, 2, 30], numpy.array(2), 3)
    compare("clip", x, 1)
    compare("clip", x, 1, 2, min=3)
    if dtype != "bool":
        out = np.asarray(numpy.zeros((4, 5), dtype))
        assert np.clip(np.asarray(x), 1, 3, out=out) is out
        assert numpy.array_equal(numpy.asarray(out), numpy.clip(x, 1, 3), equal_nan=dtype.startswith("float"))


def test_halves_are_rounded_to_even():
    compare("round", numpy.array([0.5, 1.5, 2.5, -0.5, -1.5, numpy.nan, numpy.inf]))
    compare("round", numpy.array([5, 15, 25, -35, 149]), -1)
    compare("round", numpy.array([5, 15, 25, -35, 120], "int8"), -1)
    compare("round", numpy.array([0.25, 0.35, 1.05]), 1)


def test_finite_values(rng):
    x = draw(rng, "float32", (6,), special=True)
    x[3] = -numpy.inf
    compare("nan_to_num", x, nan=1.5, posinf=7, neginf=-7)
    compare("nan_to_num", x, nan=numpy.arange(6.0), posinf=numpy.arange(6.0))
    compare("nan_to_num", x + 1j * x[::-1], nan=1.5, neginf=-7)
    there = np.asarray(x)
    assert np.nan_to_num(there, copy=False) is there
    assert numpy.array_equal(numpy.asarray(there), numpy.nan_to_num(x))


def test_real_if_close():
    for tiny in (0.0, 1e-15, 1e-3):
        compare("real_if_close", numpy.array([1 + tiny * 1j, 2.0]))
    compare("real_if_close", numpy.array([1 + 0.1j]), tol=0.5)
    compare("real_if_close", numpy.arange(3))


@pytest.mark.parametrize("dtype", DTYPES)
def test_tolerances(rng, dtype):
    x, y = draw(rng, dtype, (3, 4), special=True), draw(rng, dtype, (3, 4), special=True)
    near = (x * 1.000001).astype(dtype) if numpy.dtype(dtype).kind in "fc" else x
    for a, b in ((x, x), (x, y), (x, near), (near, x), (x, y[0]), (x, 1.0), (x, 2), (1, x), (x, [1, 2, 3, 4])):
        for nan in (False, True):
            compare("isclose", a, b, equal_nan=nan)
            compare("allclose", a, b, equal_nan=nan)
        compare("isclose", a, b, rtol=0.5, atol=0.1)
    for a, b in ((x, x), (x, y), (x, x[:2]), (x[:1], x[0]), (x[0], x), (x, x.astype("complex128")), (x, 3)):
        for nan in (False, True):
            compare("array_equal", a, b, equal_nan=nan)
        compare("array_equiv", a, b)
    assert np.array_equal(np.asarray(x), np.asarray(x[:2])) is False
    assert isinstance(np.array_equal(np.asarray(x), x), np.ndarray)


@pytest.mark.parametrize("dtype", REAL)
def test_unwrap(rng, dtype):
    x = (draw(rng, dtype, (3, 6)) * (3 if dtype != "bool" else 1)).astype(dtype)
    signed = dtype not in ("bool", "uint8")
    compare("unwrap", x)
    compare("unwrap", x, axis=0, discont=4)
    compare("unwrap", x, period=5.0)
    compare("unwrap", x[:, :0])
    compare("unwrap", x[:, :1])
    if signed:
        compare("unwrap", x, period=5)
        compare("unwrap", x, period=6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_bits(rng, dtype):
    x = draw(rng, dtype, (3, 10))
    for axis in (None, 0, 1, -1, 2):
        for order in ("big", "little"):
            compare("packbits", x, axis=axis, bitorder=order)
            compare("unpackbits", x, axis=axis, bitorder=order)
            for count in (0, 3, 17, -2, 100, -500):
                compare("unpackbits", x, axis=axis, bitorder=order, count=count)
    compare("packbits", x[:0])
    compare("packbits", x[0, 0])
    compare("packbits", x, bitorder="middle")


def test_in_steps(rng):
    x = draw(rng, "float64", (3, 4), special=True)

    def compute(np, x):
        y = np.nan_to_num(np.clip(x, -1, 1), nan=0.5)
        return [y, np.round(y, 1), np.isclose(y, 0.5), np.allclose(y, y), np.array_equal(y, x), np.unwrap(y, period=1.0),
                np.packbits(y > 0, axis=1), np.angle(y + 1j), np.sinc(y), np.i0(y)]  # fmt: skip

    found = host(sojourn.step(lambda x: compute(np, x))(np.asarray(x)))
    for ours, theirs in zip(found, compute(numpy, x)):
        assert ours.shape == numpy.shape(theirs) and numpy.allclose(ours, theirs)
