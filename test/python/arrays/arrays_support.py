# SPDX-License-Identifier: Apache-2.0
"""The differential test of a function: sojourn.numpy on remote arrays beside NumPy on the same values."""

from __future__ import annotations

import functools
import warnings

import numpy

import sojourn.numpy as np

DTYPES = (
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip
UNSIGNED = ("uint16", "uint32", "uint64")  # which no owner holds


def remote(value):
    """Host arrays of a nesting as remote ones."""
    if isinstance(value, numpy.ndarray):
        return np.asarray(value)
    if isinstance(value, list):
        return [remote(each) for each in value]
    if type(value) is tuple:
        return tuple(remote(each) for each in value)
    return value


def host(value):
    """Remote arrays of a nesting as host ones."""
    if isinstance(value, np.ndarray):
        return numpy.asarray(value)
    if isinstance(value, (list, tuple)):
        return [host(each) for each in value]
    return value


def draw(rng: numpy.random.Generator, dtype: str, shape, special: bool = False):
    """Random values of a dtype. `special`: with zero, NaN and infinity among real floats."""
    kind = numpy.dtype(dtype).kind
    if kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if kind in "iu":
        return rng.integers(0 if kind == "u" else -9, 10, shape).astype(dtype)
    # Products of halves stay in range: NumPy rounds each of them, owners the last one.
    value = rng.normal(size=shape) * (1 if numpy.dtype(dtype) == numpy.float16 else 2)
    if kind == "c":
        value = value + 1j * rng.normal(size=shape)
    value = numpy.asarray(value)
    if special and kind == "f" and value.size > 2:
        value.flat[:3] = (0.0, numpy.nan, numpy.inf)
    return value.astype(dtype)


def difference(found, expected, rtol: float | None = None) -> str:
    """How two results differ in kind, dtype, shape or values; empty if they agree."""
    if isinstance(expected, (tuple, list)):
        if not isinstance(found, (tuple, list)) or len(found) != len(expected):
            return f"{type(found).__name__} of {len(found) if hasattr(found, '__len__') else '?'}, expected {len(expected)} results"
        return "; ".join(filter(None, (difference(a, b, rtol) for a, b in zip(found, expected))))
    if expected is None or isinstance(expected, (str, numpy.dtype)):
        return "" if found == expected else f"{found!r}, expected {expected!r}"
    found, expected = numpy.asarray(found), numpy.asarray(expected)
    if expected.dtype.name in UNSIGNED:
        expected = expected.astype(found.dtype)  # NumPy's sums of bytes
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return f"{found.dtype}{list(found.shape)}, expected {expected.dtype}{list(expected.shape)}"
    if expected.dtype.kind in "biu":
        return "" if numpy.array_equal(found, expected) else f"{found!r}, expected {expected!r}"
    usual = {"float16": 4e-3, "float32": 3e-6, "complex64": 6e-6}.get(expected.dtype.name, 1e-11)
    tolerance = usual if rtol is None else rtol
    scale = numpy.max(numpy.abs(expected[numpy.isfinite(expected)]), initial=0.0)
    same = numpy.allclose(found, expected, rtol=tolerance, atol=tolerance * max(float(scale), 1e-3), equal_nan=True)
    return "" if same else f"{found!r}, expected {expected!r}"


def compare(name: str, *args, rtol: float | None = None, **kwargs) -> None:
    """Asserts that the function (`"linalg.inv"`, say) gives what NumPy's gives, or raises the same kind of error."""
    reference = functools.reduce(getattr, name.split("."), numpy)
    ours = functools.reduce(getattr, name.split("."), np)
    with numpy.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = reference(*args, **kwargs)
        except Exception as error:
            expected = error
        try:
            found = host(ours(*remote(list(args)), **{key: remote(value) for key, value in kwargs.items()}))
        except Exception as error:
            if not isinstance(expected, Exception):
                raise
            kinds = (TypeError, ValueError, IndexError, OverflowError, numpy.linalg.LinAlgError)
            assert isinstance(error, tuple(k for k in kinds if isinstance(expected, k)) or Exception), (
                name,
                error,
                expected,
            )
            return
    assert not isinstance(expected, Exception), f"{name}{args}{kwargs}: {found!r}, expected {expected!r}"
    problem = difference(found, expected, rtol)
    assert not problem, f"{name}{args}{kwargs}: {problem}"
