# SPDX-License-Identifier: Apache-2.0
"""Differences, integrals, interpolation and convolution: as NumPy's."""

import numpy
import pytest
from arrays_support import DTYPES, compare, draw, host

import sojourn
import sojourn.numpy as np

SHAPES = ((), (0,), (1,), (6,), (3, 4), (2, 3, 4))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_diff(rng, dtype, shape):
    x = draw(rng, dtype, shape, special=True)
    for n in (0, 1, 2, 9, -1):
        compare("diff", x, n)
    for axis in (0, -2, 1, 7):
        compare("diff", x, axis=axis)
        compare("diff", x, axis=axis, prepend=0)
        compare("diff", x, axis=axis, append=1.5)
        compare("diff", x, 2, axis=axis, prepend=x[..., :1] if shape else 1, append=x if shape else 2)
    compare("diff", x, append=numpy.array([1, 2]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_trapezoid(rng, dtype):
    y = draw(rng, dtype, (3, 5))
    compare("trapezoid", y)
    compare("trapezoid", y, dx=2)
    compare("trapezoid", y, dx=numpy.float32(0.5))
    for axis in (0, 1, -1, 2):
        compare("trapezoid", y, axis=axis)
        compare("trapezoid", y, x=numpy.sort(draw(rng, "float64", (3, 5))), axis=axis)
    compare("trapezoid", y, draw(rng, "float32", (5,)))
    compare("trapezoid", y, draw(rng, "int64", (5,)))
    compare("trapezoid", y, [1, 2, 4, 5, 9])
    compare("trapezoid", y[:, :1])
    compare("trapezoid", y[:, :0])
    compare("trapezoid", [1, 2, 3, 4, 5], y[0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_gradient(rng, dtype):
    x = draw(rng, dtype, (4, 5))
    apart = numpy.cumsum(rng.uniform(0.5, 2, 5))
    for edge in (1, 2, 3):
        loose = 2e-2 if dtype == "float16" else 2e-5 if dtype in ("float32", "complex64") else None
        for spacing in (
            (),
            (2,),
            (0.5,),
            (2, 0.5),
            (numpy.arange(4) ** 2, 2.0),
            (2.0, apart),
            (1, 2, 3),
            (numpy.float32(0.1),),
        ):
            compare("gradient", x, *spacing, edge_order=edge, rtol=loose)
        for axis in (0, 1, -1, (0, 1), (1,), 5, ()):
            compare("gradient", x, axis=axis, edge_order=edge, rtol=loose)
        if dtype != "bool":  # of which NumPy makes bools for edge_order=2
            compare("gradient", x, apart, axis=1, edge_order=edge, rtol=loose)
            compare("gradient", x, apart.astype("float32"), axis=-1, edge_order=edge, rtol=loose)
        compare("gradient", x, apart, axis=0, edge_order=edge)
        for few in (0, 1, 2):
            compare("gradient", x[0, :few], edge_order=edge, rtol=loose)
        compare("gradient", x[0, 0], edge_order=edge)
        compare("gradient", x, numpy.ones((2, 2)), axis=0, edge_order=edge)


def test_gradient_of_host_values_by_remote_distances(rng):
    x, apart = rng.normal(size=5), numpy.cumsum(rng.uniform(1, 2, 5))
    assert numpy.allclose(host(np.gradient(x, np.asarray(apart))), numpy.gradient(x, apart))
    assert numpy.allclose(host(np.gradient(np.asarray(x), np.asarray(0.5))), numpy.gradient(x, 0.5))


@pytest.mark.parametrize("dtype", DTYPES)
def test_interp(rng, dtype):
    points = numpy.sort(draw(rng, "float64", (7,)))
    values = draw(rng, dtype, (7,))
    x = numpy.concatenate([draw(rng, "float64", (20,), special=True) * 2, points, [-numpy.inf]])
    for options in (
        {},
        {"left": -1},
        {"right": 7.5},
        {"left": 0, "right": 2.5},
        {"period": 3},
        {"period": -2.5},
        {"period": 0},
    ):
        compare("interp", x, points, values, **options)
        compare("interp", x[:20].reshape(4, 5), points, values, **options)
        compare("interp", 0.5, points, values, **options)
        compare("interp", [1, 2], points.astype("float32"), values, **options)
        compare("interp", x, points[:1], values[:1], **options)
        compare("interp", x, points[:0], values[:0], **options)
    compare("interp", x, rng.permutation(points), values, period=4)
    compare("interp", x, points, values[:3])
    compare("interp", x, points, numpy.ones((7, 1)))
    compare("interp", x.astype("float32"), [-1.0, 0, 2], [1, 2, 3])


def test_interp_beside_infinities():
    x = numpy.linspace(-1, 5, 25)
    for values in ([0, numpy.inf, 1, 2], [numpy.inf, numpy.inf, 1, -numpy.inf], [0, numpy.nan, 1, 2], [numpy.inf] * 4):
        compare("interp", x, [0.0, 1, 2, 3], values)
        compare("interp", x, [0.0, 1, 1, 3], values)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "sizes", [(1, 1), (5, 1), (7, 3), (3, 7), (6, 4), (4, 6), (5, 5), (40, 11), (0, 2), (2, 0)], ids=str
)
def test_convolve_and_correlate(rng, dtype, sizes):
    a, v = (draw(rng, dtype, (size,)) for size in sizes)
    if dtype in ("float16", "float32", "complex64"):
        a, v = numpy.rint(a), numpy.rint(v)  # sums that are exact
    for mode in ("full", "same", "valid", 0, 1, 2, "other"):
        for name in ("convolve", "correlate"):
            compare(name, a, v, mode)
    compare("convolve", a, v)
    compare("correlate", a, v)


def test_convolve_of_two_dtypes(rng):
    a, v = draw(rng, "float32", (6,)), draw(rng, "int64", (3,))
    compare("convolve", a, v)
    compare("correlate", v, a, "full")
    compare("convolve", a, [1, 2, 3])
    compare("convolve", a, 2)
    compare("convolve", a, numpy.ones((2, 2)))
    compare("correlate", a, draw(rng, "complex64", (2,)), "same")
    compare("convolve", numpy.array([2**60, 2**61 + 1, 3]), numpy.array([3, -1]))


def test_in_steps(rng):
    x, points = draw(rng, "float64", (9,)), numpy.cumsum(rng.uniform(0.1, 1, 9))

    def compute(np, x, points):
        return [np.diff(x), np.trapezoid(x, points), np.gradient(x, points), np.interp(x, points, x, period=2.0),
                np.convolve(x, points[:3]), np.correlate(x, points[:4], "same")]  # fmt: skip

    found = host(sojourn.step(lambda x, y: compute(np, x, y))(np.asarray(x), np.asarray(points)))
    for ours, theirs in zip(found, compute(numpy, x, points)):
        assert ours.shape == numpy.shape(theirs) and numpy.allclose(ours, theirs)
