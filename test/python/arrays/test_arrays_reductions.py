# SPDX-License-Identifier: Apache-2.0
"""Reductions beside NumPy's."""

import warnings

import numpy
import pytest
from arrays_support import DTYPES, compare, draw

import sojourn
import sojourn.numpy as np

SHAPES = ((), (1,), (7,), (3, 4), (2, 3, 4), (0,), (0, 3), (3, 0, 2))
AXES = {
    0: (None, 0, -1, ()),
    1: (None, 0, -1, (0,), ()),
    2: (None, 0, -1, (0, 1), ()),
    3: (None, 1, -1, (0, 2), (-1, 0, 1), ()),
}
REDUCTIONS = ("sum", "prod", "max", "min", "amax", "amin", "ptp", "all", "any", "mean", "std", "var", "count_nonzero")
REAL = ("int16", "float16", "float32", "float64")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_dtypes(rng, name, dtype):
    for shape in ((3, 4), ()):
        x = draw(rng, dtype, shape)
        compare(name, x)
        compare(name, x, axis=-1 if shape else None, keepdims=True)
    compare(name, draw(rng, dtype, (4, 3), special=True), axis=0)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_shapes(rng, name, shape):
    x = draw(rng, "float64", shape, special=True)
    for axis in AXES[len(shape)]:
        compare(name, x, axis=axis)
        compare(name, x, axis=axis, keepdims=True)
    compare(name, x, axis=5)
    compare(name, x, axis=(0, 0))


@pytest.mark.parametrize("dtype", ("bool", "int8", "uint8", "float32", "float64", "complex64"))
def test_asked_dtypes(rng, dtype):
    x = draw(rng, dtype, (3, 4))
    for to in ("bool", "int16", "int64", "float16", "float32", "complex128"):
        for name in ("sum", "prod", "cumsum", "cumprod"):
            compare(name, x, axis=0, dtype=to)
        if numpy.dtype(to).kind in "fc":
            for name in ("mean", "var", "std"):
                compare(name, x, axis=1, dtype=to, rtol=4e-3 if to == "float16" else 1e-5)
    compare("mean", x, dtype="complex64")


@pytest.mark.parametrize("name", ("sum", "prod", "cumsum", "cumprod", "mean", "var", "nansum", "nanstd"))
def test_casts_to_real_dtypes_warn(rng, name):
    x = draw(rng, "complex128", (3, 4))
    x[0, 0], x[1, 1] = 0, 1j
    compare(name, x, axis=0, dtype="float64")
    for space, y in ((numpy, x), (np, np.asarray(x))):
        with pytest.warns(numpy.exceptions.ComplexWarning, match="discards the imaginary part") as told:
            getattr(space, name)(y, dtype="float32")
        assert len(told) == 1
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if name not in ("nanstd", "var", "mean"):
            compare(name, x, axis=0, dtype=bool)
        getattr(np, name)(np.asarray(x))


@pytest.mark.parametrize("name", ("sum", "prod", "max", "min"))
@pytest.mark.parametrize("dtype", ("bool", "uint8", "int32", "float16", "float64", "complex128"))
def test_initial_and_where(rng, name, dtype):
    x = draw(rng, dtype, (3, 4))
    mask = draw(rng, "bool", (3, 4))
    for initial in (1, 0, numpy.asarray(1)):
        compare(name, x, initial=initial)
        compare(name, x, axis=0, initial=initial, keepdims=True)
        compare(name, x, axis=0, initial=initial, where=mask)
        compare(name, x, initial=initial, where=mask[0])
    compare(name, x, axis=1, where=mask)
    compare(name, x[:0], axis=0, initial=1)
    compare(name, x, axis=(0, 1), initial=1, where=False)
    compare(name, x, where=mask[:, :2], initial=1)
    compare(name, x, where=mask.astype("int8"), initial=1)


@pytest.mark.parametrize("name", ("all", "any", "mean", "var", "std"))
@pytest.mark.parametrize("dtype", ("bool", "int32", "float16", "float64", "complex64"))
def test_where(rng, name, dtype):
    x = draw(rng, dtype, (3, 4))
    mask = draw(rng, "bool", (3, 4))
    mask[0] = True
    compare(name, x, where=mask)
    compare(name, x, axis=0, where=mask)
    compare(name, x, axis=1, where=mask[0], keepdims=True)
    compare(name, x, where=mask[:, :1], axis=(0, 1))
    compare(name, x, where=False)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ("argmax", "argmin"))
def test_positions(rng, name, dtype):
    for shape in ((), (1,), (9,), (3, 4), (2, 3, 4)):
        x = draw(rng, dtype, shape, special=bool(rng.integers(2)))
        x = numpy.concatenate([x, x], 0) if shape else x
        for axis in (None, 0, -1):
            compare(name, x, axis=axis)
            compare(name, x, axis=axis, keepdims=True)
    compare(name, x[:0])
    compare(name, x[:0], axis=1)
    compare(name, x[:0], axis=0)
    compare(name, x, axis=3)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ("cumsum", "cumprod"))
def test_running(rng, name, dtype):
    for shape in SHAPES:
        x = draw(rng, dtype, shape)
        for axis in (None, 0, -1, 7):
            compare(name, x, axis=axis)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ("cumulative_sum", "cumulative_prod"))
def test_cumulative(rng, name, dtype):
    for shape in ((), (5,), (3, 4), (0, 2)):
        x = draw(rng, dtype, shape)
        for axis in (None, 0, -1):
            compare(name, x, axis=axis)
            compare(name, x, axis=axis, include_initial=True)
    compare(name, x, axis=0, dtype="float32", include_initial=True)


@pytest.mark.parametrize("dtype", REAL + ("complex128",))
def test_freedom_and_mean(rng, dtype):
    x = draw(rng, dtype, (4, 5))
    for name in ("var", "std"):
        for ddof in (1, 2.5, 4, 6):
            compare(name, x, axis=0, ddof=ddof)
            compare(name, x, axis=1, correction=ddof)
            compare(name, x, axis=1, correction=ddof, where=x.real > -2)
        compare(name, x, ddof=1, correction=1)
        compare(name, x, axis=0, mean=numpy.mean(x, axis=0, keepdims=True))
    compare("mean", draw(rng, "float16", 5000))


def test_out(rng):
    x = draw(rng, "float64", (3, 4))
    a = np.asarray(x)
    for name in ("sum", "prod", "max", "min", "mean", "var", "std", "ptp"):
        for dtype in ("float64", "float32"):
            out = np.asarray(numpy.zeros(4, dtype))
            assert getattr(np, name)(a, axis=0, out=out) is out
            numpy.testing.assert_allclose(numpy.asarray(out), getattr(numpy, name)(x, axis=0), rtol=1e-5, atol=1e-6)
    out = np.asarray(numpy.zeros(4, "int64"))
    assert np.argmax(a, axis=0, out=out) is out and numpy.asarray(out).tolist() == x.argmax(0).tolist()
    assert np.sum(4 * a, axis=0, out=out) is out
    assert numpy.asarray(out).tolist() == numpy.sum(4 * x, axis=0, out=numpy.zeros(4, "int64")).tolist()
    with pytest.raises(ValueError):
        np.sum(a, axis=1, out=np.asarray(numpy.zeros(4)))
    with pytest.raises(TypeError):
        np.sum(a, axis=1, out=numpy.zeros(3))
    out = np.asarray(numpy.zeros((3, 4)))
    assert np.cumsum(a, axis=1, out=out) is out
    numpy.testing.assert_allclose(numpy.asarray(out), numpy.cumsum(x, 1))
    flags = np.asarray(numpy.zeros(4, bool))
    assert np.all(a > 0, axis=0, out=flags) is flags


def test_ufunc_methods(rng):
    x = draw(rng, "int32", (3, 4))
    a = np.asarray(x)
    for name in ("add", "multiply", "maximum", "minimum", "logical_and", "logical_or"):
        ours, theirs = getattr(np, name), getattr(numpy, name)
        assert numpy.array_equal(numpy.asarray(ours.reduce(a)), theirs.reduce(x))
        assert numpy.array_equal(
            numpy.asarray(ours.reduce(a, axis=None, keepdims=True)), theirs.reduce(x, axis=None, keepdims=True)
        )
    assert numpy.array_equal(numpy.asarray(np.add.accumulate(a, 1)), numpy.add.accumulate(x, 1))


def test_host_values_are_numpys():
    assert np.sum([1, 2, 3]) == 6 and isinstance(np.mean(numpy.ones(3)), numpy.floating)


def test_step(rng):
    x = draw(rng, "float64", (3, 4))

    @sojourn.step
    def compute(a):
        return {
            "sum": np.sum(a, axis=0), "max": np.max(a), "argmin": np.argmin(a, axis=1), "mean": np.mean(a, where=a > 0),
            "var": np.var(a, ddof=1), "cumsum": np.cumsum(a), "any": np.any(a > 1, axis=0), "ptp": np.ptp(a),
            "prod": np.prod(a, axis=(0, 1)), "initial": np.min(a, initial=-0.5),
        }  # fmt: skip

    expected = {
        "sum": x.sum(0), "max": x.max(), "argmin": x.argmin(1), "mean": x.mean(where=x > 0), "var": x.var(ddof=1),
        "cumsum": x.cumsum(), "any": (x > 1).any(0), "ptp": numpy.ptp(x), "prod": x.prod(), "initial": x.min(initial=-0.5),
    }  # fmt: skip
    for name, value in compute(np.asarray(x)).items():
        numpy.testing.assert_allclose(numpy.asarray(value), expected[name])
