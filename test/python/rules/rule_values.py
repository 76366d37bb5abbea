# SPDX-License-Identifier: Apache-2.0
"""The stated values of each element type, and all arrays of them that satisfy a fact."""

from __future__ import annotations

import itertools
import math

import numpy as np
from rule_facts import Interval
from rule_predicates import DISTINCT

from sojourn_numpy.types import DTYPES, NAMES

MOST_ARRAYS = 256  # of one operand: six values at three places are 216
ELEMENTS = {"ui8": "u8", "complex<f32>": "c64", "complex<f64>": "c128"}
# At most six per type, the telling ones first: operands of more than three elements take the first few.
STATED = {
    "f64": [1.0, -0.0, math.inf, math.nan, -1.7e308, 0.0],
    "f32": [1.0, -0.0, math.inf, math.nan, -3e38, 0.0],
    "f16": [1.0, -0.0, math.inf, math.nan, -65504.0, 0.0],
    "bf16": [1.0, -0.0, math.inf, math.nan, -3e38, 0.0],
    "i64": [0, -1, 1, 2**63 - 1, -(2**63), 2],
    "i32": [0, -1, 1, 2**31 - 1, -(2**31), 2],
    "i16": [0, -1, 1, 2**15 - 1, -(2**15), 2],
    "i8": [0, -1, 1, 127, -128, 2],
    "u8": [0, 1, 255, 2, 128, 3],
    "i1": [0, 1],
    "c64": [1.0, -0.0, 1j, math.nan, complex(math.inf, -1), 0.5 - 2j],
    "c128": [1.0, -0.0, 1j, math.nan, complex(math.inf, -1), 0.5 - 2j],
}


def dtype_of(element: str) -> np.dtype:
    return DTYPES[NAMES.index(ELEMENTS.get(element, element))]


def _inward(bound: float, dtype: np.dtype, direction: int) -> float:
    """A bound as printed, as a number of the type that the true bound admits: six digits may be rounded outward."""
    if dtype.kind in "iub" or not math.isfinite(bound):
        return bound
    is_exact = float(f"{bound:.5g}") == bound
    moved = bound if is_exact else bound - direction * 5e-6 * abs(bound)
    number = dtype.type(moved)
    while direction * (float(number) - moved) > 0:
        number = np.nextafter(number, dtype.type(-direction * math.inf))
    return float(number)


def stated(element: str, interval: Interval, whole: bool = False) -> np.ndarray:
    """At most six values of the type that lie in the interval: its ends, and what is telling between them."""
    dtype = dtype_of(element)
    name = ELEMENTS.get(element, element)
    of_type = STATED[name]
    if interval.is_everything or dtype.kind == "c":
        return np.array(of_type).astype(dtype)
    if dtype.kind in "iub":
        info = np.iinfo(dtype) if dtype.kind != "b" else None
        low, high = (info.min, info.max) if info else (0, 1)
        if interval.low > low:
            low = math.ceil(interval.low)
        if interval.high < high:
            high = math.floor(interval.high)
        found = [low, high, *(x for x in of_type if low <= x <= high), (low + high) // 2]
        return np.array([*dict.fromkeys(found)][:6], dtype=dtype)
    low, high = _inward(interval.low, dtype, -1), _inward(interval.high, dtype, 1)
    between = [x for x in (0.0, -0.0, 1.0, 0.5 * low + 0.5 * high, *of_type) if low <= x <= high]
    found = [low, high, *([math.nan] if interval.nan else []), *between]
    found = [x for x in found if not whole or x != x or x == math.floor(x)]
    unique = list({np.array(x).astype(dtype).tobytes(): x for x in found}.values())
    with np.errstate(all="ignore"):
        return np.array(unique[:6], dtype=np.float64).astype(dtype)


def all_arrays(element: str, shape, interval: Interval, distinct: str, whole: bool, rng) -> np.ndarray:
    """Every array of the stated values with these facts, as a batch: of larger shapes, of as many of the values as give
    at most MOST_ARRAYS, which `rng` chooses behind the first."""
    values = stated(element, interval, whole)
    count = math.prod(shape)
    if count == 0 or len(values) == 0:
        return np.zeros((1, *shape), dtype_of(element))
    taken = len(values)
    while taken > 1 and taken**count > MOST_ARRAYS:
        taken -= 1
    taken = max(taken, min(2, len(values)))
    if taken < len(values):
        ends = [] if interval.is_everything else [1]  # both ends of a range stand first
        others = [*ends, *rng.permutation(np.arange(1 + len(ends), len(values)))][: taken - 1]
        values = values[np.concatenate([[0], np.sort(others)])]
    if len(values) ** count <= MOST_ARRAYS:
        places = np.array(list(itertools.product(range(len(values)), repeat=count)))
    else:
        places = rng.integers(0, len(values), (MOST_ARRAYS, count))
    found = values[places].reshape(len(places), *shape)
    if distinct:
        found = found[~DISTINCT[distinct](found)]
    return found
