# SPDX-License-Identifier: Apache-2.0
"""Numbers that a script gives: what they may be, told before anything is recorded."""

from __future__ import annotations

import math
import numbers

import _sojourn

from .errors import Error

# runtime/wire/Terms.h says them, for owners and C++, too.
EPSILON_MOST: float = _sojourn.EPSILON_MOST
DELTA_MOST: float = _sojourn.DELTA_MOST
BOUNDS: tuple[float, float] = _sojourn.BOUNDS
NOISE_MULTIPLIERS: tuple[float, float] = _sojourn.NOISE_MULTIPLIERS
METRIC_SHARE_MOST: float = _sojourn.METRIC_SHARE_MOST


def is_number(value) -> bool:
    """A real number of Python or NumPy; no boolean, and no text."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def positive(name: str, value, most: float = math.inf, within: tuple[float, float] | None = None) -> float:
    """A finite number above 0: at most `most` (a `delta` below it), or from `within[0]` to `within[1]`."""
    expected = "a number above 0"
    good = is_number(value) and 0 < float(value) < math.inf
    if within:
        expected += f", from {within[0]:g} to {within[1]:g}"
        good = good and within[0] <= float(value) <= within[1]
    elif math.isfinite(most):
        expected += f" and {'below' if most == DELTA_MOST else 'at most'} {most:g}"
        good = good and (float(value) < most if most == DELTA_MOST else float(value) <= most)
    if not good:
        raise Error(f"{name} must be {expected}, got {value!r}")
    return float(value)


def integer(name: str, value, least: int | None = None) -> int:
    """A number that C++ holds in 64 bits."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise Error(f"{name} must be an integer, got {value!r}")
    if not -(2**63) <= int(value) < 2**63:
        raise Error(f"{name} must be an integer of 64 bits, got {value!r}")
    if least is not None and int(value) < least:
        raise Error(f"{name} must be an integer of at least {least}, got {value!r}")
    return int(value)
