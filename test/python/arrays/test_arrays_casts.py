# SPDX-License-Identifier: Apache-2.0
"""Casts of complex arrays to dtypes without imaginary parts: NumPy's values, errors and warnings, at the caller's line."""

import pathlib
import warnings

import numpy
import pytest
from remote_support import fresh_seed

import sojourn
import sojourn.numpy


def written(write, shape=(4,)):
    """A case that writes the complex array `z` into zeros of a dtype."""

    def run(np, z, dtype, zeros):
        y = zeros(shape, dtype)
        write(np, y, z)
        return y

    return run


def into(function, **options):
    """A function with `out=`."""
    return lambda np, z, dtype, zeros: function(np)(z, out=zeros((4,), dtype), **options)


def assigned(key):
    def write(np, y, z):
        y[key(y)] = z

    return written(write)


CASES = {
    "astype": lambda np, z, dtype, zeros: z.astype(dtype),
    "astype function": lambda np, z, dtype, zeros: np.astype(z, numpy.dtype(dtype)),
    "asarray": lambda np, z, dtype, zeros: np.asarray(z, dtype=dtype),
    "array": lambda np, z, dtype, zeros: np.array(z, dtype=dtype),
    "require": lambda np, z, dtype, zeros: np.require(z, dtype=dtype),
    "sum": lambda np, z, dtype, zeros: np.sum(z, dtype=dtype),
    "concatenate": lambda np, z, dtype, zeros: np.concatenate([z, z[:1]], dtype=dtype, casting="unsafe"),
    "conjugate out": into(lambda np: np.conjugate, casting="unsafe"),
    "cumsum out": into(lambda np: np.cumsum),
    "cumulative_prod out": into(lambda np: np.cumulative_prod),
    "sum out": lambda np, z, dtype, zeros: np.sum(z, out=zeros((), dtype)),
    "prod out": lambda np, z, dtype, zeros: np.prod(z, out=zeros((), dtype)),
    "max out": lambda np, z, dtype, zeros: np.max(z, out=zeros((), dtype)),
    "trace": lambda np, z, dtype, zeros: np.trace(z.reshape(2, 2), dtype=dtype),
    "einsum": lambda np, z, dtype, zeros: np.einsum("i,i", z, z, dtype=dtype, casting="unsafe"),
    "insert": lambda np, z, dtype, zeros: np.insert(zeros((2,), dtype), 1, z[:1]),
    "add dtype": lambda np, z, dtype, zeros: np.add(z, z, dtype=dtype, casting="unsafe"),
    "slice": assigned(lambda y: slice(None)),
    "indices": assigned(lambda y: [3, 0, 1, 2]),
    "mask": assigned(lambda y: y == 0),
    "copyto": written(lambda np, y, z: np.copyto(y, z, casting="unsafe")),
    "copyto same kind": written(lambda np, y, z: np.copyto(y, z)),
    "put": written(lambda np, y, z: np.put(y, [0, 1], z[:2])),
    "putmask": written(lambda np, y, z: np.putmask(y, y == 0, z)),
    "putmask of a scalar": written(lambda np, y, z: np.putmask(y, y == 0, z.real[0])),
    "place of a scalar": written(lambda np, y, z: np.place(y, y == 0, z.real[0])),
    "place": written(lambda np, y, z: np.place(y, y == 0, z)),
    "fill": written(lambda np, y, z: y.fill(z[0])),
    "fill_diagonal": written(lambda np, y, z: np.fill_diagonal(y, z[:2]), (2, 2)),
    "add.at": written(lambda np, y, z: np.add.at(y, [0, 1], z[:2])),
}


def outcome(run, names_line=False):
    """Values and dtype, or the error; and the warning of the cast, if there is one, which names this file."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            made = numpy.asarray(run())
            found = made.dtype, made.tolist()
        except TypeError as error:
            found = "TypeError", str(error)
    casts = [each for each in caught if each.category is numpy.exceptions.ComplexWarning]
    if names_line:  # NumPy's may name its own files
        assert {pathlib.Path(each.filename).name for each in casts} <= {pathlib.Path(__file__).name}
    return found, {str(each.message) for each in casts}


@pytest.mark.parametrize("dtype", ["float64", "float32", "int16", "bool", "complex64"])
@pytest.mark.parametrize("name", CASES)
def test_complex_values(device, name, dtype):
    z = numpy.random.default_rng(fresh_seed(f"{name} {dtype}")).integers(-3, 4, (2, 4)) / 2.0
    z = z[0] + 1j * z[1]
    here = sojourn.numpy.asarray(z, device=device)
    run = CASES[name]
    zeros = lambda *given: sojourn.numpy.zeros(*given, device=device)
    ours = outcome(lambda: run(sojourn.numpy, here, dtype, zeros), names_line=True)
    theirs = outcome(lambda: run(numpy, z, dtype, numpy.zeros))
    if theirs[0][0] == "TypeError":
        assert ours[0][0] == "TypeError", ours
        return
    assert ours == theirs


@pytest.mark.parametrize("dtype", ["float64", "int16", "bool"])
def test_complex_host_arrays(device, dtype):
    z = numpy.array([1 + 2j, 0, 3j, 0.5])

    def copied(np, y):
        np.copyto(y, z, casting="unsafe")
        return y

    def assigned(np, y):
        y[:] = z
        return y

    for write in (copied, assigned):
        ours = outcome(lambda: write(sojourn.numpy, sojourn.numpy.zeros(4, dtype, device=device)), names_line=True)
        assert ours == outcome(lambda: write(numpy, numpy.zeros(4, dtype)))
