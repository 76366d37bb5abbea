# SPDX-License-Identifier: Apache-2.0
"""The array API standard's rules for tests: random arrays, `array_api_strict` as second oracle, differences, totals."""

from __future__ import annotations

import collections
import functools
import os
import types
import warnings

import array_api_strict as strict
import numpy
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import sojourn.numpy as np

VERSION = "2024.12"
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    strict.set_array_api_strict_flags(api_version=VERSION)

BOOLS, INTS, FLOATS, COMPLEX = (
    ("bool",),
    ("uint8", "int8", "int16", "int32", "int64"),
    ("float32", "float64"),
    ("complex64", "complex128"),
)
NUMERIC, INEXACT = INTS + FLOATS + COMPLEX, FLOATS + COMPLEX
REAL, DTYPES = INTS + FLOATS, BOOLS + NUMERIC

#: What the standard has and sojourn.numpy has not, or not so, with the reason. Tests assert that there is no more.
DIFFERENCES: dict[str, str] = {
    **{f"dtype {name}": "owners hold no such elements" for name in ("uint16", "uint32", "uint64")},
    "sums of uint8": "the standard's default is uint64, which owners do not hold: int64",
    "unchecked matrices": "values are not read: NaN or infinity instead of LinAlgError",
    "dlpack": "an array has no memory in this process: BufferError, as the standard has it",
    **{
        f"size of {name}": "depends on values, which a step does not read"
        for name in ("nonzero", "unique_all", "unique_counts", "unique_inverse", "unique_values")
    },
}

#: Examples per function.
tried: collections.Counter[str] = collections.Counter()
told: collections.Counter[str] = collections.Counter()


def examples(number: int, **options):
    """Settings of a test. The examples of the check are the same in each run, because a rare one that fails says nothing of
    the change under test; with SOJOURN_FRESH_EXAMPLES set, each run has others."""
    is_fresh = "SOJOURN_FRESH_EXAMPLES" in os.environ
    return settings(
        max_examples=number, derandomize=not is_fresh, print_blob=is_fresh, deadline=None, database=None,
        suppress_health_check=list(HealthCheck), **options,
    )  # fmt: skip


def totals(file: str) -> str:
    """Of the file that ends, and of all files until now."""
    mine = tried - told
    told.update(mine)
    return f"{file}: {len(mine)} functions, {sum(mine.values())} examples; all: {len(told)}, {sum(told.values())}"


# Random arrays.


def elements(dtype: str, small: bool = False, finite: bool = False):
    """Values of a dtype. `small`: of moderate size, so that sums are compared well. `finite`: no NaN, no infinity."""
    found = numpy.dtype(dtype)
    if found.kind == "b":
        return st.booleans()
    if found.kind in "iu":
        limits = numpy.iinfo(found)
        low, high = (max(limits.min, -9), 9) if small else (limits.min, limits.max)
        return st.integers(low, high)
    if found.kind == "c":
        width = found.itemsize * 4
        if small:
            part = elements("float64", small)
            return st.builds(complex, part, part)
        return st.complex_numbers(width=width * 2, allow_nan=not finite, allow_infinity=not finite)
    width = found.itemsize * 8
    if small:
        return st.integers(-(2**12), 2**12).map(lambda n: n / 64)
    special = (0.0, -0.0, 1.0, -1.0) + (() if finite else (numpy.inf, -numpy.inf, numpy.nan))
    return st.sampled_from(special) | st.floats(
        width=width, allow_nan=not finite, allow_infinity=not finite, allow_subnormal=False
    )


def shapes(min_dims: int = 0, max_dims: int = 3, min_side: int = 0, max_side: int = 3):
    return arrays.array_shapes(min_dims=min_dims, max_dims=max_dims, min_side=min_side, max_side=max_side)


@st.composite
def array(draw, dtypes=DTYPES, shape=None, small=False, finite=False, **limits):
    """A host array."""
    dtype = draw(st.sampled_from(dtypes)) if not isinstance(dtypes, str) else dtypes
    if shape is None or isinstance(shape, st.SearchStrategy):
        shape = draw(shapes(**limits) if shape is None else shape)
    return draw(arrays.arrays(dtype, shape, elements=elements(dtype, small, finite)))


@st.composite
def pair(draw, dtypes=DTYPES, same=False, small=False, finite=False):
    """Two host arrays that broadcast together. `same`: of one dtype."""
    found = draw(arrays.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3)).input_shapes
    first = draw(st.sampled_from(dtypes))
    second = first if same else draw(st.sampled_from(dtypes))
    return tuple(
        draw(arrays.arrays(dtype, shape, elements=elements(dtype, small, finite)))
        for dtype, shape in zip((first, second), found)
    )


# The two sides.


def _mapped(value, change):
    if isinstance(value, numpy.ndarray):
        return change(value)
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(_mapped(each, change) for each in value)
    return value


def ours(value):
    """Host arrays of a nesting as remote ones."""
    return _mapped(value, np.asarray)


def theirs(value):
    """Host arrays of a nesting as those of array_api_strict."""
    return _mapped(value, lambda each: strict.asarray(each, copy=True))


def host(value):
    """Arrays of either side as host ones."""
    if isinstance(value, np.ndarray):
        return numpy.asarray(value)
    if type(value) is type(strict.empty(0)):
        return value._array
    if isinstance(value, (list, tuple)):
        return [host(each) for each in value]
    return value


def named(space: types.ModuleType, name: str):
    return functools.reduce(getattr, name.split("."), space)


def call(space, change, name, args, kwargs):
    """The result of a function of a side."""
    with numpy.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        function = name if callable(name) else named(space, name)
        return function(*change(list(args)), **{key: change(value) for key, value in kwargs.items()})


def agree(name, *args, ulps: float = 4, signs: bool = True, expected=None, **kwargs):
    """Asserts that both sides give the same dtypes, shapes and values, unless the standard leaves the call open.

    `name`: of a function, or a function of the arguments. Returns the result, or None where array_api_strict refuses.
    """
    return agree_all([name], *args, ulps=ulps, signs=signs, expected=expected, **kwargs)[0]


def agree_all(names, *args, ulps: float = 4, signs: bool = True, expected=None, **kwargs) -> list:
    """Likewise of several functions of the same arguments, which are read in one go."""
    pairs = []
    for name in names:
        tried[name if isinstance(name, str) else name.__name__.strip("_") + " (operator)"] += 1
        reference = expected
        if reference is None:
            try:
                reference = host(call(strict, theirs, name, args, kwargs))
            except (TypeError, ValueError, IndexError):
                pairs.append((name, None, None))
                continue
        pairs.append((name, reference, call(np, ours, name, args, kwargs)))
    results = []
    for name, reference, found in pairs:
        results.append(None if found is None else host(found))
        problem = "" if found is None else difference(results[-1], reference, ulps, signs)
        assert not problem, f"{name}{args}{kwargs or ''}: {problem}"
    return results


def difference(found, expected, ulps: float = 4, signs: bool = True) -> str:
    """How two results differ; empty if they agree. `ulps`: of inexact values. `signs`: zeros have to agree, too."""
    if isinstance(expected, (tuple, list)):
        if not isinstance(found, (tuple, list)) or len(found) != len(expected):
            return f"{found!r}, expected {len(expected)} results"
        return "; ".join(filter(None, (difference(a, b, ulps, signs) for a, b in zip(found, expected))))
    found, expected = numpy.asarray(found), numpy.asarray(expected)
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return f"{found.dtype}{list(found.shape)}, expected {expected.dtype}{list(expected.shape)}"
    if found.dtype.kind in "biu":
        return "" if numpy.array_equal(found, expected) else f"{found!r}, expected {expected!r}"
    with numpy.errstate(all="ignore"):
        same = _close(found, expected, ulps, signs)
    return "" if numpy.all(same) else f"{found!r}, expected {expected!r}"


def _close(found, expected, ulps, signs):
    unit = ulps * numpy.finfo(expected.dtype).eps
    tiny = numpy.finfo(expected.dtype).tiny
    if expected.dtype.kind == "c":
        # A complex value is finite, or infinite, or neither; the parts of those that are not finite are tested apart.
        finite = numpy.isfinite(expected)
        near = numpy.abs(found - expected) <= unit * numpy.abs(expected) + tiny
        return numpy.where(finite, near, ~numpy.isfinite(found))
    same = (found == expected) | (numpy.isnan(found) & numpy.isnan(expected))
    if signs:
        same &= (expected != 0) | (numpy.signbit(found) == numpy.signbit(expected))
    finite = numpy.isfinite(found) & numpy.isfinite(expected) & ((expected != 0) | (ulps > 4))
    return same | (finite & (numpy.abs(found - expected) <= unit * numpy.abs(expected) + tiny))
