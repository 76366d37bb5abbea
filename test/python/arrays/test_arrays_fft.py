# SPDX-License-Identifier: Apache-2.0
"""numpy.fft: as NumPy's."""

import itertools

import numpy
import pytest
from arrays_support import DTYPES, compare, draw, host

import sojourn
import sojourn.numpy as np

LOOSE = {"float16": 4e-3, "float32": 1e-5, "complex64": 1e-5}
NORMS = (None, "backward", "ortho", "forward")
ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
SEVERAL = ("fftn", "ifftn", "rfftn", "irfftn", "fft2", "ifft2", "rfft2", "irfft2")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ONE)
def test_along_one_axis(rng, dtype, name):
    loose = LOOSE.get(dtype, 1e-10)
    for shape in ((), (0,), (1,), (6,), (5,), (3, 4), (0, 3), (2, 3, 4)):
        x = draw(rng, dtype, shape)
        cases = list(itertools.product((None, 1, 4, 7, 0, -2), (-1, 0, 1, 3), NORMS))
        compare(f"fft.{name}", x, rtol=loose)
        for k in rng.choice(len(cases), 8, replace=False):
            n, axis, norm = cases[k]
            if name in ("irfft", "hfft") and 0 in shape and n is not None and n > 0 and axis in (-1, 0):
                # NumPy's values of an empty complex64 axis are whatever lay in memory.
                found = getattr(np.fft, name)(np.asarray(x), n, axis, norm)
                assert found.shape == getattr(numpy.fft, name)(x, n, axis, norm).shape and not host(found).any()
                continue
            compare(f"fft.{name}", x, n, axis, norm, rtol=loose)
    compare(f"fft.{name}", x, norm="other")
    compare(f"fft.{name}", x, n=2.5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SEVERAL)
def test_along_several_axes(rng, dtype, name):
    if name.startswith("rfft") and dtype.startswith("complex"):
        return compare(f"fft.{name}", draw(rng, dtype, (3, 4)))  # a TypeError
    loose = LOOSE.get(dtype, 1e-10)
    for shape in ((5,), (3, 4), (2, 3, 4), (0, 3)):
        x = draw(rng, dtype, shape)
        compare(f"fft.{name}", x, rtol=loose)
        for norm in NORMS:
            compare(f"fft.{name}", x, norm=norm, rtol=loose)
        for s, axes in ((None, (0, 1)), (None, (1, 0)), ((4, 2), (0, 1)), ((3, -1), (-1, -2)), ((5,), (0, 1)), ((2, 0), (0, 1)), (None, (0, 0)),
                        ((4, 3), (1, 1)), (None, (7, 0)), (None, (0,)), ((4, 5), None)):  # fmt: skip
            compare(f"fft.{name}", x, s, axes, rtol=loose)
    compare(f"fft.{name}", x, norm="other")
    if name in ("fftn", "rfftn", "irfftn"):
        compare(f"fft.{name}", x, axes=())


def test_out(rng):
    x = draw(rng, "float64", (3, 4))
    there, out = np.asarray(x), np.asarray(numpy.zeros((3, 4), complex))
    for name in ("fft", "ifft", "fftn", "fft2"):
        assert getattr(np.fft, name)(there, out=out) is out
        assert numpy.allclose(host(out), getattr(numpy.fft, name)(x))
    with pytest.raises(ValueError, match="shape"):
        np.fft.fft(there, 2, out=out)
    with pytest.raises(TypeError, match="Cannot cast"):
        np.fft.fft(there, out=there)


@pytest.mark.parametrize("name", ["fftshift", "ifftshift"])
def test_shifts(rng, name):
    for shape in ((), (0,), (5,), (4, 3), (2, 3, 4)):
        x = draw(rng, "int32", shape)
        for axes in (None, 0, -1, (0, 1), 5):
            compare(f"fft.{name}", x, axes)


def test_frequencies():
    for n, d in itertools.product((1, 2, 5, 8, numpy.int64(3)), (1.0, 0.25, numpy.float32(0.5), 3)):
        for name in ("fftfreq", "rfftfreq"):
            compare(f"fft.{name}", n, d)
            assert isinstance(getattr(np.fft, name)(n, d), np.ndarray)
        for dtype in ("float16", "float32", "float64", float):  # as the array API has it; NumPy has no such argument
            found = host(np.fft.fftfreq(n, d, dtype=dtype))
            assert found.dtype == dtype and numpy.array_equal(found, numpy.fft.fftfreq(n, d).astype(dtype))
    for dtype in ("int32", "bool", "complex64"):
        with pytest.raises(ValueError, match="real floating-point"):
            np.fft.rfftfreq(4, dtype=dtype)
    compare("fft.fftfreq", 4, numpy.array(0.5))
    compare("fft.fftfreq", 2.5)
    assert set(np.fft.__all__) == set(numpy.fft.__all__)


def test_in_steps(rng):
    x = draw(rng, "float64", (4, 6))

    def compute(np, x):
        fft = np.fft
        return [fft.fft(x), fft.irfft(fft.rfft(x)), fft.fftn(x), fft.fft2(x, s=(3, 3)), fft.irfftn(fft.rfftn(x)), fft.hfft(x),
                fft.fftshift(x), fft.fftfreq(6) * x]  # fmt: skip

    found = host(sojourn.step(lambda x: compute(np, x))(np.asarray(x)))
    for ours, theirs in zip(found, compute(numpy, x)):
        assert ours.shape == numpy.shape(theirs) and numpy.allclose(ours, theirs)
