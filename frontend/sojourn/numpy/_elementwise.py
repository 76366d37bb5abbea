# SPDX-License-Identifier: Apache-2.0
"""Functions of single elements that are no ufuncs: limits, rounding, comparisons within a tolerance, bits."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy
import torch

from . import _kernels as kernels
from ._array import ndarray, wrap
from ._convert import axis_of, function, is_remote, tensor, tensors
from ._dtypes import COMPLEX, FLOATS, INTEGERS, NUMPY, inexact, result_type
from ._outputs import into
from ._ufuncs import ALL, ufunc

__all__ = [
    "allclose",
    "angle",
    "around",
    "array_equal",
    "array_equiv",
    "clip",
    "fix",
    "i0",
    "isclose",
    "isneginf",
    "isposinf",
    "nan_to_num",
    "packbits",
    "real_if_close",
    "round",
    "sinc",
    "unpackbits",
    "unwrap",
]

_NONE: Any = numpy._NoValue


def _limited(x, low, high):
    return kernels.TABLE["minimum"](kernels.TABLE["maximum"](x, low), high)


def _fit(dtype: torch.dtype, *limits) -> bool:
    """Whether limits are numbers that leave the dtype as it is."""
    if dtype in INTEGERS:
        bounds: Any = torch.iinfo(dtype)
        return all(limit is None or (type(limit) is int and bounds.min <= limit <= bounds.max) for limit in limits)
    if dtype not in (torch.float32, torch.float64):
        return False
    largest = torch.finfo(dtype).max
    return all(limit is None or (type(limit) in (int, float) and -largest <= limit <= largest) for limit in limits)


def _rounded_limit(limit, dtype):
    """A Python number above all finite ones of a dtype is infinite, as in NumPy."""
    if type(limit) is float and numpy.dtype(dtype).kind in "fc" and abs(limit) > numpy.finfo(dtype).max:
        return math.copysign(math.inf, limit)
    return limit


kernels.TENSORS_ONLY.add(_limited)
_core: Any = numpy._core  # type: ignore[attr-defined]  # whose ufunc has no public name
_clip = ufunc(_core.umath.clip, _limited)


@function
def clip(a, a_min=_NONE, a_max=_NONE, out=None, *, min=_NONE, max=_NONE, **kwargs):
    """The elements, none below `a_min` and none above `a_max`; None: no limit."""
    if a_min is _NONE and a_max is _NONE:
        a_min, a_max = (None if limit is _NONE else limit for limit in (min, max))
    elif a_min is _NONE or a_max is _NONE:
        raise TypeError(f"clip() missing 1 required positional argument: '{'a_min' if a_min is _NONE else 'a_max'}'")
    elif min is not _NONE or max is not _NONE:
        raise ValueError("min and max are other names of a_min and a_max: give one pair of the two")
    if isinstance(a, torch.Tensor) or not hasattr(a, "dtype"):
        a = wrap(tensors(a, a_min, a_max)[0]) if not is_remote(a) else wrap(tensor(a))
    if numpy.dtype(a.dtype).kind in "iu":
        bounds = numpy.iinfo(a.dtype)
        a_min = None if type(a_min) is int and a_min <= bounds.min else a_min
        a_max = None if type(a_max) is int and a_max >= bounds.max else a_max
    a_min, a_max = (_rounded_limit(limit, a.dtype) for limit in (a_min, a_max))
    if a_min is None and a_max is None:
        return ALL["positive"](a, out=out, **kwargs)
    if out is None and not kwargs and is_remote(a) and _fit(a._t.dtype, a_min, a_max):
        return wrap(torch.clamp(a._t, a_min, a_max))
    if a_min is None or a_max is None:
        return ALL["minimum" if a_min is None else "maximum"](a, a_max if a_min is None else a_min, out=out, **kwargs)
    return _clip(a, a_min, a_max, out=out, **kwargs)


def _rounded(x: torch.Tensor, decimals: int) -> torch.Tensor:
    if x.dtype == torch.bool:
        if decimals:
            raise TypeError("round: bools have no digits; convert them first, e.g. with .astype(float)")
        return x.to(torch.float16)
    if x.dtype in COMPLEX:
        return torch.complex(_rounded(x.real, decimals), _rounded(x.imag, decimals))
    if x.dtype in FLOATS:
        power = float(10 ** abs(decimals))
        if decimals == 0:
            return torch.round(x)
        return torch.round(x * power) / power if decimals > 0 else torch.round(x / power) * power
    if decimals >= 0:
        return x.clone()
    return _rounded(x.to(torch.float64), decimals).to(x.dtype)


@function
def round(a, decimals=0, out=None):
    """Rounded to `decimals` digits, halves to even; negative: to tens, hundreds, ..."""
    return into(_rounded(tensor(a), operator.index(decimals)), out)


@function
def around(a, decimals=0, out=None):
    """As `round`."""
    return round(a, decimals, out)


@function
def fix(x, out=None):
    """Rounded towards zero."""
    return ALL["trunc"](x, out=out)


@function
def nan_to_num(x, copy=True, nan=0.0, posinf=None, neginf=None):
    """With `nan` for NaN, and `posinf` and `neginf` for infinities; None: the largest and smallest finite number."""
    found = tensor(x)
    if found.dtype in COMPLEX:
        made = torch.complex(*(_finite(part, nan, posinf, neginf) for part in (found.real, found.imag)))
    elif found.dtype in FLOATS:
        made = _finite(found, nan, posinf, neginf)
    else:
        made = found.clone() if copy else found
    if copy or not is_remote(x):
        return wrap(made)
    if made is not found:
        found.copy_(made)
    return x if type(x) is ndarray else wrap(found)


def _finite(x, nan, posinf, neginf):
    limits = torch.finfo(x.dtype)
    values = (nan, limits.max if posinf is None else posinf, limits.min if neginf is None else neginf)
    if all(isinstance(value, (int, float)) for value in values):
        return torch.nan_to_num(x, *map(float, values))
    for chosen, value in zip((torch.isnan(x), x == math.inf, x == -math.inf), values):
        x = torch.where(chosen, tensor(value, x.dtype, x.device), x)
    return x


@function
def real_if_close(a, tol=100):
    """The real part, where all imaginary parts are almost 0, else `a`.

    The dtype depends on values: of complex arrays this is a read, and inside a step an error.
    """
    found = tensor(a)
    if found.dtype not in COMPLEX:
        return wrap(found)
    limit = tol * torch.finfo(found.dtype).eps if tol > 1 else tol
    return wrap(found.real if bool(wrap(torch.all(torch.abs(found.imag) < limit))) else found)


@function
def angle(z, deg=False):
    """The angle of complex numbers, in (-pi, pi]; `deg`: in degrees."""
    z = wrap(tensor(z))
    made = ALL["arctan2"](z.imag, z.real) if z._t.dtype in COMPLEX else ALL["arctan2"](0, z)
    return ALL["multiply"](made, 180 / math.pi) if deg else made


@function
def sinc(x):
    """sin(pi x) / (pi x), and 1 at 0."""
    found = tensor(x)
    found = found.to(inexact(found.dtype))
    if found.dtype not in COMPLEX:
        return wrap(torch.sinc(found))
    turned = found * math.pi
    zero = turned == 0
    return wrap(torch.where(zero, 1.0, torch.sin(turned) / torch.where(zero, 1.0, turned)).to(found.dtype))


@function
def i0(x):
    """The modified Bessel function of the first kind, of order 0."""
    found = tensor(x)
    if found.dtype in COMPLEX:
        raise TypeError("i0 not supported for complex values")
    return wrap(torch.i0(found.to(inexact(found.dtype))))


# Comparisons.


@function
def isclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Elementwise |a - b| <= atol + rtol |b|; infinities where they are equal, NaN by `equal_nan`."""
    given: list[Any] = [x if isinstance(x, (int, float, complex)) else wrap(x) for x in _with_numbers(a, b, rtol, atol)]
    x, y, rtol, atol = given
    if isinstance(y, ndarray):
        y = y.astype(NUMPY[result_type(y._t, 1.0)], copy=False)
    elif isinstance(y, int):
        y = float(y)
    near = ALL["less_equal"](abs(x - y), atol + rtol * abs(y))
    made = (near & ALL["isfinite"](y)) | ALL["equal"](x, y)
    return made | (ALL["isnan"](x) & ALL["isnan"](y)) if equal_nan else made


def _with_numbers(*values):
    """Arrays as tensors at one device; Python numbers as they are."""
    arrays = iter(tensors(*(x for x in values if not isinstance(x, (int, float, complex)))))
    return [x if isinstance(x, (int, float, complex)) else next(arrays) for x in values]


@function
def allclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether all are: an array of no dimensions."""
    return wrap(torch.all(isclose(a, b, rtol, atol, equal_nan)._t))


def _all_equal(x, y, equal_nan):
    same = ALL["equal"](x, y)._t
    if equal_nan and not {x._t.dtype, y._t.dtype}.isdisjoint(FLOATS | COMPLEX):
        same = same | (ALL["isnan"](x) & ALL["isnan"](y))._t
    return wrap(torch.all(same))


@function
def array_equal(a1, a2, equal_nan=False):
    """Whether shapes and elements are equal: an array of no dimensions; False (a bool) where shapes differ."""
    try:
        x, y = map(wrap, tensors(a1, a2))
    except ValueError:  # no array: rows of several lengths
        return False
    return x.shape == y.shape and _all_equal(x, y, equal_nan)


@function
def array_equiv(a1, a2):
    """As `array_equal`, of arrays that are broadcast."""
    try:
        x, y = map(wrap, tensors(a1, a2))
        numpy.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return False
    return _all_equal(x, y, False)


def _infinite(x, sign, out):
    found = tensor(x)
    if found.dtype in COMPLEX:
        raise TypeError(
            f"This operation is not supported for {NUMPY[found.dtype]} values because it would be ambiguous."
        )
    made = (torch.isposinf if sign > 0 else torch.isneginf)(found)
    return into(made, out)


@function
def isneginf(x, out=None):
    """Where the elements are negative infinity. TypeError for complex numbers."""
    return _infinite(x, -1, out)


@function
def isposinf(x, out=None):
    """Where the elements are positive infinity. TypeError for complex numbers."""
    return _infinite(x, 1, out)


@function
def unwrap(p, discont=None, axis=-1, *, period=6.283185307179586):
    """Without the jumps of more than `discont` (half a period) along an axis: a period is added or taken away."""
    found = tensor(p)
    axis = axis_of(axis, found.dim())
    dtype = result_type(found, period)
    discont = period / 2 if discont is None else discont
    step = torch.diff(found, dim=axis).to(dtype)
    if dtype in INTEGERS:
        half, odd = divmod(period, 2)
    else:
        half, odd = period / 2, 0
    within = torch.remainder(step + half, period) - half
    if not odd:
        within = torch.where((within == -half) & (step > 0), half, within).to(dtype)
    change = within - step
    change = torch.where(torch.abs(step) < discont, torch.zeros_like(change), change)
    if not change.numel():
        return wrap(found.to(dtype, copy=True))
    moved = torch.cumsum(change, axis, dtype=dtype)
    first, rest = found.narrow(axis, 0, 1), found.narrow(axis, 1, moved.shape[axis])
    return wrap(torch.cat([first.to(dtype), rest.to(dtype) + moved], axis))


# Bits.


def _places(bitorder, device):
    if bitorder not in ("big", "little"):
        raise ValueError("'order' must be either 'little' or 'big'")
    places = torch.arange(8, dtype=torch.uint8, device=device)
    return places if bitorder == "little" else 7 - places


@function
def packbits(a, /, axis=None, bitorder="big"):
    """Whether elements are not 0 as bits of bytes, eight to one along an axis; the last byte is filled with zeros."""
    found = tensor(a)
    places = _places(bitorder, found.device)
    if found.dtype != torch.bool and found.dtype not in INTEGERS:
        raise TypeError("Expected an input array of integer or boolean data type")
    found = found.reshape(-1) if axis is None else found
    axis = axis_of(0 if axis is None else axis, found.dim())
    bits = torch.movedim(found != 0, axis, -1)
    bits = torch.nn.functional.pad(bits.to(torch.int32), (0, -bits.shape[-1] % 8))
    bits = bits.reshape(*bits.shape[:-1], bits.shape[-1] // 8, 8)
    return wrap(torch.movedim(torch.sum(bits << places.to(torch.int32), -1).to(torch.uint8), -1, axis))


@function
def unpackbits(a, /, axis=None, count=None, bitorder="big"):
    """The bits of bytes as elements 0 and 1, eight for one along an axis; `count`: how many, or less how many."""
    found = tensor(a)
    if found.dtype != torch.uint8:
        raise TypeError("Expected an input array of unsigned byte data type")
    found = found.reshape(-1) if axis is None else found
    axis = axis_of(0 if axis is None else axis, found.dim())
    moved = torch.movedim(found, axis, -1)
    bits = (moved.unsqueeze(-1) >> _places(bitorder, found.device)) & 1
    bits = bits.flatten(-2)
    if count is not None:
        total = bits.shape[-1]
        count = operator.index(count)
        if count < -total:
            raise ValueError(f"-ve count out of range: {count}, of {total} bits")
        count = count + total if count < 0 else count
        bits = bits[..., :count] if count <= total else torch.nn.functional.pad(bits, (0, count - total))
    return wrap(torch.movedim(bits, -1, axis))
