# SPDX-License-Identifier: Apache-2.0
"""Checks of the numbers in a script's arguments, before anything is recorded."""

from __future__ import annotations

import numbers

import _sojourn

from .errors import Error

# What each term may be, as owners and C++ have it (runtime/wire/Terms.h).
EPSILON = _sojourn.EPSILON
DELTA = _sojourn.DELTA
BOUND = _sojourn.BOUND
NOISE_MULTIPLIER = _sojourn.NOISE_MULTIPLIER
METRIC_SHARE = _sojourn.METRIC_SHARE


def is_number(value) -> bool:
    """Whether `value` is a real number of Python or NumPy; booleans and strings are not."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def within(name: str, value, interval) -> float:
    """`value` as a float; raises `Error` outside of an interval such as EPSILON."""
    if not is_number(value) or not interval.admits(float(value)):
        raise Error(f"{name} must be {interval.expected}, got {value!r}")
    return float(value)


def positive(name: str, value, most: float) -> float:
    """`value` as a float; raises `Error` unless it is above 0 and at most `most`."""
    if not is_number(value) or not 0 < float(value) <= most:
        raise Error(f"{name} must be a number above 0 and at most {most:g}, got {value!r}")
    return float(value)


def integer(name: str, value, least: int | None = None) -> int:
    """`value` as an int; raises `Error` unless it fits in 64 bits and is at least `least`."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise Error(f"{name} must be an integer, got {value!r}")
    if not -(2**63) <= int(value) < 2**63:
        raise Error(f"{name} must be a 64-bit integer, got {value!r}")
    if least is not None and int(value) < least:
        raise Error(f"{name} must be an integer of at least {least}, got {value!r}")
    return int(value)
