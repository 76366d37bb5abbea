# SPDX-License-Identifier: Apache-2.0
"""Checks of a script's arguments, before anything is recorded."""

from __future__ import annotations

import collections.abc
import numbers
import operator
import os

import numpy as np
import torch

import _sojourn

from .errors import Error

# What each term may be, as owners and C++ have it (runtime/wire/Terms.h).
EPSILON = _sojourn.EPSILON
DELTA = _sojourn.DELTA
BOUND = _sojourn.BOUND
NOISE_MULTIPLIER = _sojourn.NOISE_MULTIPLIER
METRIC_SHARE = _sojourn.METRIC_SHARE


_SHOWN_CHARACTERS = 80


def shown(value) -> str:
    """`value` in an error's text. A tensor by its shape, because its values would be read from an owner."""
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, (str, bytes, int, float, complex, bool, type(None))):
        text = repr(value)
        half = _SHOWN_CHARACTERS // 2
        return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:half]}...{text[-half:]}"
    try:
        text = repr(value).split("\n")[0]
    except Exception:  # whatever a class of the script says
        text = ""
    is_short = 0 < len(text) <= _SHOWN_CHARACTERS and " at 0x" not in text
    return text if is_short else f"an object of type {type(value).__name__}"


def is_number(value) -> bool:
    """Whether `value` is a real number of Python or NumPy; booleans and strings are not."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _float(value) -> float:
    """A float; infinity for an integer beyond all floats."""
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def number(name: str, value) -> float:
    """`value` as a float; raises `Error` unless it is a real number."""
    if not is_number(value):
        raise Error(f"{name} must be a number, got {shown(value)}")
    return _float(value)


def within(name: str, value, interval) -> float:
    """`value` as a float; raises `Error` outside of an interval such as EPSILON."""
    if not is_number(value) or not interval.admits(_float(value)):
        raise Error(f"{name} must be {interval.expected}, got {shown(value)}")
    return float(value)


def positive(name: str, value, most: float) -> float:
    """`value` as a float; raises `Error` unless it is above 0 and at most `most`."""
    if not is_number(value) or not 0 < _float(value) <= most:
        raise Error(f"{name} must be a number above 0 and at most {most:g}, got {shown(value)}")
    return float(value)


def integer(name: str, value, least: int | None = None) -> int:
    """`value` as an int; raises `Error` unless it fits in 64 bits and is at least `least`."""
    try:
        whole = None if isinstance(value, bool) else operator.index(value)
    except (TypeError, ValueError):  # a tensor of several elements has the method, too
        whole = None
    if whole is None:
        raise Error(f"{name} must be an integer, got {shown(value)}")
    if not -(2**63) <= whole < 2**63:
        raise Error(f"{name} must be a 64-bit integer, got {shown(value)}")
    if least is not None and whole < least:
        raise Error(f"{name} must be an integer of at least {least}, got {shown(value)}")
    return whole


def text(name: str, value) -> str:
    """`value`, which must be a str."""
    if not isinstance(value, str):
        raise Error(f"{name} must be a str, got {shown(value)}")
    return value


def flag(name: str, value) -> bool:
    """`value` as a bool. Other values than booleans, 0 and 1 are refused: `"no"` would count as true."""
    if isinstance(value, (bool, np.bool_)) or (type(value) is int and value in (0, 1)):
        return bool(value)
    raise Error(f"{name} must be True or False, got {shown(value)}")


def path(name: str, value) -> str:
    """`value` as a str, which must be a path."""
    if isinstance(value, (str, os.PathLike)) and isinstance(given := os.fspath(value), str):
        return given
    raise Error(f"{name} must be a path (str or os.PathLike), got {shown(value)}")


def choice(name: str, value, choices: tuple[str, ...]) -> str:
    """`value`, which must be one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise Error(f"{name} must be {' or '.join(map(repr, choices))}, got {shown(value)}")
    return value


def names(name: str, value) -> list[str]:
    """A list of names; one str alone is refused, because it would count as a list of letters."""
    try:
        listed = None if isinstance(value, (str, bytes, torch.Tensor)) else list(value)
    except TypeError:
        listed = None
    if listed is None or not all(isinstance(each, str) for each in listed):
        raise Error(f"{name} must be a list of names, got {shown(value)}")
    return listed


def dtype(name: str, value):
    """`value`, which must be a torch.dtype or None."""
    if value is not None and not isinstance(value, torch.dtype):
        raise Error(f"{name} must be a torch.dtype or None, got {shown(value)}")
    return value


def mapping(name: str, value, of: str) -> dict:
    """`value` as a dict with str keys; `of` describes it."""
    if value is None:
        return {}
    if not isinstance(value, collections.abc.Mapping) or not all(isinstance(key, str) for key in value):
        raise Error(f"{name} must map {of}, got {shown(value)}")
    return dict(value)


def bounds(name: str, value) -> dict[str, tuple[float, float]]:
    """Column -> (lower, upper)."""
    known = mapping(name, value, "columns to (lower, upper)")
    return {column: pair(f"{name} of column {column!r}", limits) for column, limits in known.items()}


def pair(name: str, value) -> tuple[float, float]:
    """(lower, upper) as floats."""
    try:
        lower, upper = (None, None) if isinstance(value, (str, bytes, set, dict)) else map(_plain, value)
    except (TypeError, ValueError):
        lower = upper = None
    if not isinstance(lower, numbers.Real) or not isinstance(upper, numbers.Real):
        raise Error(f"{name} must be (lower, upper), got {shown(value)}")
    return _float(lower), _float(upper)


def _plain(value):
    """The number in an array or a CPU tensor of one element; other values as they are."""
    is_array = isinstance(value, np.generic) or (isinstance(value, torch.Tensor) and value.device.type == "cpu")
    return value.item() if is_array else value


def fills(name: str, value) -> dict[str, float]:
    """Column -> number."""
    known = mapping(name, value, "columns to numbers")
    return {column: number(f"{name} of column {column!r}", _plain(given)) for column, given in known.items()}


def function(name: str, value):
    """`value`, which must be callable."""
    if not callable(value):
        raise Error(f"{name} must be a function, got {shown(value)}")
    return value


def iterable(name: str, value):
    """`value`, which must be iterable."""
    try:
        iter(value)
    except TypeError:
        raise Error(f"{name} must be an iterable, got {shown(value)}") from None
    return value
