# SPDX-License-Identifier: Apache-2.0
"""Elementwise ops and casts. Rank-0 operands spread by NumPy's broadcasting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scipy import special

import numpy as np

from .kernels import computed, kernel, rounded, widened
from .types import CLASSES, DTYPES


def _is_integer(x: np.ndarray) -> bool:
    return x.dtype.kind in "iu"


def _simple(name: str, function) -> None:
    """Exact or correctly rounded in the dtype it computes in."""

    @kernel(name)
    def run(op, *operands):
        return rounded(function(*map(computed, operands)), operands[0].dtype)


def _transcendental(name: str, function) -> None:
    """Computed in f64, so that f32 results are correctly rounded except in rare ties."""

    @kernel(name)
    def run(op, *operands):
        return rounded(function(*map(widened, operands)), operands[0].dtype)


def _sign(x):
    return (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype)  # NaN gives 0, unlike np.sign


def _erfc(x):
    # exp(-x^2) loses digits with x; squaring a shortened x is exact, the rest is a small correction.
    short = x.astype(np.float32).astype(np.float64)
    tail = np.exp(-short * short) * np.exp((short - x) * (short + x)) * special.erfcx(x)
    return np.where((x > 1) & (x < 30), tail, special.erfc(x))


def _lgamma(x):
    return np.where(np.isinf(x), np.inf, special.gammaln(x))


def _digamma(x):
    at_pole = np.where(x == 0, np.copysign(np.inf, -x), np.nan)
    pole = (x <= 0) & (x == np.floor(x))
    return np.where(pole, at_pole, special.psi(np.where(pole, 1.0, x)))


_function: Callable[..., Any]
for _name, _function in (
    ("neg", np.negative), ("abs", np.abs), ("sign", _sign), ("floor", np.floor), ("ceil", np.ceil),
    ("round", np.rint), ("not", np.invert), ("sqrt", np.sqrt), ("add", np.add), ("sub", np.subtract),
    ("mul", np.multiply), ("max", np.maximum), ("min", np.minimum), ("and", np.bitwise_and),
    ("or", np.bitwise_or), ("xor", np.bitwise_xor),
):  # fmt: skip
    _simple(_name, _function)

for _name, _function in (
    ("exp", np.exp), ("expm1", np.expm1), ("log", np.log), ("log1p", np.log1p), ("sin", np.sin),
    ("cos", np.cos), ("tanh", np.tanh), ("logistic", special.expit), ("erf", special.erf),
    ("erfc", _erfc), ("erfinv", special.erfinv), ("lgamma", _lgamma), ("digamma", _digamma),
    ("atan2", np.arctan2),
):  # fmt: skip
    _transcendental(_name, _function)


@kernel("div")
def _div(op, a, b):
    if not _is_integer(a):
        return rounded(np.divide(computed(a), computed(b)), a.dtype)
    # Total: 0 for a zero divisor, and -1 negates (MIN wraps to itself). Both leave the division.
    one = b.dtype.type(1)
    minus = (b == -1) if a.dtype.kind == "i" else np.zeros_like(b, dtype=bool)
    safe = np.where((b == 0) | minus, one, b)
    quotient = np.floor_divide(a, safe)
    inexact = np.multiply(quotient, safe) != a
    quotient = quotient + (inexact & ((a < 0) != (safe < 0))).astype(a.dtype)
    return np.where(b == 0, a.dtype.type(0), np.where(minus, np.negative(a), quotient)).astype(a.dtype)


@kernel("rem")
def _rem(op, a, b):
    if not _is_integer(a):
        return rounded(np.fmod(computed(a), computed(b)), a.dtype)
    one = b.dtype.type(1)
    trivial = (b == 0) | ((b == -1) if a.dtype.kind == "i" else False)
    return np.where(trivial, a.dtype.type(0), np.fmod(a, np.where(trivial, one, b))).astype(a.dtype)


@kernel("pow")
def _pow(op, a, b):
    if not _is_integer(a):
        return rounded(np.power(widened(a), widened(b)), a.dtype)
    negative = b < 0
    power = np.power(a, np.where(negative, b.dtype.type(0), b))
    odd = (b & b.dtype.type(1)) != 0
    minus = np.where(odd, a, np.multiply(a, a))  # a is -1 wherever this is used
    inverse = np.where(a == 1, a, np.where(a == a.dtype.type(0) - a.dtype.type(1), minus, a.dtype.type(0)))
    return np.where(negative, inverse, power).astype(a.dtype)


def _shift(a, b, shift, out_of_range):
    width = a.dtype.itemsize * 8
    inside = (b >= 0) & (b < width)
    shifted = shift(a, np.where(inside, b, b.dtype.type(0)))
    return np.where(inside, shifted, out_of_range).astype(a.dtype)


@kernel("shl")
def _shl(op, a, b):
    return _shift(a, b, np.left_shift, a.dtype.type(0))


@kernel("shr")
def _shr(op, a, b):
    fill = np.negative((a < 0).astype(a.dtype)) if a.dtype.kind == "i" else a.dtype.type(0)
    return _shift(a, b, np.right_shift, fill)


_PREDICATES = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip


@kernel("compare")
def _compare(op, a, b):
    return _PREDICATES[op.attr("predicate")](computed(a), computed(b))


@kernel("select")
def _select(op, pred, a, b):
    return np.where(pred, a, b)


def convert(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """`convert`'s rules, also for the columns that read_rows reads."""
    if x.dtype == dtype:
        return x
    kind = CLASSES[DTYPES.index(dtype)]
    if kind == "B":
        return np.not_equal(computed(x), 0)
    if kind == "Z" and not _is_integer(x) and x.dtype != np.bool_:
        return _saturated(x.astype(np.float64), dtype)
    if kind == "F" and dtype.itemsize == 2:
        return (_to_odd(x) if x.dtype == np.float64 else computed(x).astype(np.float32)).astype(dtype)
    return x.astype(dtype)


def _to_odd(x: np.ndarray) -> np.ndarray:
    """f64 to f32 so that a second rounding gives what one rounding gives: toward zero, and odd if inexact."""
    y = np.asarray(x.astype(np.float32))
    y = np.asarray(np.where(np.abs(y.astype(np.float64)) > np.abs(x), np.nextafter(y, np.float32(0)), y))
    return (y.view(np.uint32) | (y.astype(np.float64) != x)).view(np.float32)


def _saturated(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Toward zero; NaN gives 0; values out of range give the nearest bound."""
    bounds, x = np.iinfo(dtype), np.trunc(x)
    # float64(max) may round up to max + 1, which still saturates; below it every value fits.
    high, low = x >= np.float64(bounds.max), x <= np.float64(bounds.min)
    inside = np.where(high | low | np.isnan(x), 0.0, x).astype(dtype)
    return np.where(high, dtype.type(bounds.max), np.where(low, dtype.type(bounds.min), inside)).astype(dtype)


@kernel("convert")
def _convert(op, x):
    return convert(x, op.result_types[0].dtype)


@kernel("bitcast")
def _bitcast(op, x):
    return np.ascontiguousarray(x).reshape(x.shape).view(op.result_types[0].dtype)
