# SPDX-License-Identifier: Apache-2.0
"""Torch's operators behind the universal functions, by NumPy's names."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from ._dtypes import COMPLEX, FLOATS, INTEGERS

#: Kernels that take tensors of the dtypes which NumPy's loop computes in; the others may be given any operands.
TENSORS_ONLY: set[Callable[..., Any]] = set()


def _is_integer(x) -> bool:
    return x.dtype in INTEGERS if isinstance(x, torch.Tensor) else type(x) is int


def _sign(x):
    # torch gives 0 for NaN.
    return (
        torch.sgn(x)
        if x.dtype in COMPLEX
        else torch.where(torch.isnan(x), x, torch.sign(x))
        if x.dtype in FLOATS
        else torch.sign(x)
    )


def _subtract(x, y):
    if all(type(each) is bool or (isinstance(each, torch.Tensor) and each.dtype == torch.bool) for each in (x, y)):
        raise TypeError(
            "numpy boolean subtract, the `-` operator, is not supported, use the bitwise_xor, the `^` operator, or the "
            "logical_xor function instead."
        )
    return torch.sub(x, int(y) if type(y) is bool else y)


def _reciprocal(x):
    return torch.div(1, x, rounding_mode="trunc") if _is_integer(x) else torch.reciprocal(x)


def _power(x, y):
    if _is_integer(x) and type(y) is int and y < 0:
        raise ValueError("Integers to negative integer powers are not allowed.")
    return torch.pow(x if isinstance(x, torch.Tensor) else _full(x, y), y)


def _cbrt(x):
    # One step of Newton's method makes up for the rounding of 1/3.
    root = torch.copysign(torch.abs(x) ** (1.0 / 3.0), x)
    better = root - (root * root * root - x) / (3.0 * root * root)
    return torch.where((x == 0) | ~torch.isfinite(better), root, better)


def _logaddexp2(x, y):
    return torch.logaddexp(x * math.log(2.0), y * math.log(2.0)) / math.log(2.0)


def _heaviside(x, y):
    return torch.where(torch.isnan(x), x, torch.where(x == 0, y, (x > 0).to(x.dtype)))


def _spacing(x):
    up = torch.nextafter(x, torch.full_like(x, math.inf))
    down = torch.nextafter(x, torch.full_like(x, -math.inf))
    # NumPy's halves are as far from zero's side as from the other.
    return up - x if x.dtype == torch.float16 else torch.where(x >= 0, up - x, down - x)


def _ldexp(x, n):
    # In two halves: 2 ** n alone may overflow.
    half = torch.div(n, 2, rounding_mode="floor")
    two = torch.full((), 2.0, dtype=x.dtype, device=x.device)
    return x * two ** half.to(x.dtype) * two ** (n - half).to(x.dtype)


def _frexp(x):
    # From the logarithm, put right where it was rounded over a power of two; small numbers are scaled first.
    tiny = torch.finfo(x.dtype).tiny
    shift = 24 if x.dtype != torch.float64 else 54
    small = torch.abs(x) < tiny
    scaled = torch.where(small, x * 2.0**shift, x)
    usable = torch.isfinite(scaled) & (scaled != 0)
    safe = torch.where(usable, scaled, torch.ones_like(scaled))
    power = torch.floor(torch.log2(torch.abs(safe))) + 1.0
    fraction = safe * torch.exp2(-torch.floor(power / 2)) * torch.exp2(-(power - torch.floor(power / 2)))
    high, low = torch.abs(fraction) >= 1.0, torch.abs(fraction) < 0.5
    fraction = torch.where(high, fraction / 2, torch.where(low, fraction * 2, fraction))
    power = power + high.to(power.dtype) - low.to(power.dtype) - torch.where(small, float(shift), 0.0)
    return torch.where(usable, fraction, x), torch.where(usable, power, torch.zeros_like(power)).to(torch.int32)


def _rint(x):
    return torch.complex(torch.round(x.real), torch.round(x.imag)) if x.dtype in COMPLEX else torch.round(x)


def _modf(x):
    whole = torch.trunc(x)
    fraction = torch.where(torch.isinf(x), torch.zeros_like(x), x - whole)
    return torch.copysign(fraction, x), whole


def _remainder(x, y):
    # A zero has the divisor's sign in NumPy, and the dividend's in torch.
    rest = torch.remainder(x, y)
    if not rest.is_floating_point():
        return rest
    return torch.copysign(rest, y.to(rest.dtype) if isinstance(y, torch.Tensor) else float(y))


def _divmod(x, y):
    return torch.floor_divide(x, y), _remainder(x, y)


def _bitwise_count(x):
    magnitude = torch.abs(x.to(torch.int64))
    bits = torch.arange(64, device=x.device)
    return torch.sum((magnitude.unsqueeze(-1) >> bits) & 1, -1)


def _needs_dims(name: str, signature: str, *operands) -> None:
    for number, x in enumerate(operands):
        if not isinstance(x, torch.Tensor) or x.dim() == 0:
            raise ValueError(
                f"{name}: Input operand {number} does not have enough dimensions (has 0, gufunc core with signature "
                f"{signature} requires 1)"
            )


def _matmul(x, y):
    _needs_dims("matmul", "(n?,k),(k,m?)->(n?,m?)", x, y)
    if x.dtype == torch.bool:
        return torch.matmul(x.to(torch.int32), y.to(torch.int32)) != 0
    return torch.matmul(x, y)


def _vecdot(x, y):
    _needs_dims("vecdot", "(n),(n)->()", x, y)
    return _matmul(torch.conj(x).unsqueeze(-2).resolve_conj(), y.unsqueeze(-1)).squeeze(-1).squeeze(-1)


def _matvec(x, y):
    _needs_dims("matvec", "(m,n),(n)->(m)", x, y)
    return _matmul(x, y.unsqueeze(-1)).squeeze(-1)


def _vecmat(x, y):
    _needs_dims("vecmat", "(n),(n,m)->(m)", x, y)
    return _matmul(torch.conj(x).unsqueeze(-2).resolve_conj(), y).squeeze(-2)


def _is_complex(x) -> bool:
    return isinstance(x, complex) or (isinstance(x, torch.Tensor) and x.dtype in COMPLEX)


def _parts(x, like):
    """Real and imaginary part, and whether a part is NaN."""
    x = x if isinstance(x, torch.Tensor) else _full(x, like)
    real, imag = (x.real, x.imag) if x.dtype in COMPLEX else (x, torch.zeros_like(x))
    return real, imag, torch.isnan(imag)


def _ordered_complex(name: str, x, y):
    """Complex numbers are ordered by real, then by imaginary part."""
    (a, b, b_nan), (c, d, d_nan) = _parts(x, y), _parts(y, x)
    strictly = torch.lt if name in ("lt", "le") else torch.gt
    return (strictly(a, c) & ~b_nan & ~d_nan) | ((a == c) & getattr(torch, name)(b, d))


def _extreme(name: str) -> Callable[..., Any]:
    """Of the larger or the smaller of two; f-: NaN only where both are."""
    kernel, ignores = getattr(torch, name), name.startswith("f")
    order = "ge" if name in ("maximum", "fmax") else "le"

    def function(x, y):
        if not _is_complex(x):
            return kernel(x, y)
        return torch.where(_ordered_complex(order, x, y) | torch.isnan(y if ignores else x), x, y)

    return _tensors(function)


def _full(number, like):
    """A Python number as a tensor of the type that it has beside `like`: weak."""
    if isinstance(number, complex):
        dtype = (
            torch.complex128
            if like.dtype not in COMPLEX and like.dtype not in FLOATS
            else _COMPLEX_OF.get(like.dtype, like.dtype)
        )
    elif isinstance(number, float):
        dtype = like.dtype if like.dtype in FLOATS or like.dtype in COMPLEX else torch.float64
    else:
        dtype = torch.int64 if like.dtype == torch.bool and type(number) is int else like.dtype
    return torch.full((), number, dtype=dtype, device=like.device)


_COMPLEX_OF = {torch.float16: torch.complex64, torch.float32: torch.complex64, torch.float64: torch.complex128}


def _either(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Of an operator whose operands may be exchanged."""

    def function(x, y):
        return kernel(x, y) if isinstance(x, torch.Tensor) else kernel(y, x)

    return function


def _ordered(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Of an operator whose first operand is a tensor."""

    def function(x, y):
        return kernel(x if isinstance(x, torch.Tensor) else _full(x, y), y)

    return function


def _tensors(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Of an operator that takes no Python number, and whose operands are converted before it."""

    def function(x, y):
        return kernel(x, y)

    TENSORS_ONLY.add(function)
    return function


def _logical(name: str) -> Callable[..., Any]:
    kernel = getattr(torch, name)

    def function(x, y):
        truths = (each != 0 if isinstance(each, torch.Tensor) and each.dtype != torch.bool else each for each in (x, y))
        like = x if isinstance(x, torch.Tensor) else y
        x, y = (
            each if isinstance(each, torch.Tensor) else torch.full((), bool(each), device=like.device)
            for each in truths
        )
        return kernel(x, y)

    return function


def _compare(name: str) -> Callable[..., Any]:
    kernel, turned = (
        getattr(torch, name),
        getattr(torch, {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}.get(name, name)),
    )

    def function(x, y):
        if name not in ("eq", "ne") and (_is_complex(x) or _is_complex(y)):
            return _ordered_complex(name, x, y)
        return kernel(x, y) if isinstance(x, torch.Tensor) else turned(y, x)

    return function


TABLE: dict[str, Callable[..., Any]] = {
    # arithmetic
    "add": _either(torch.add), "subtract": _ordered(_subtract), "multiply": _either(torch.mul),
    "divide": _ordered(torch.true_divide),
    "floor_divide": _ordered(torch.floor_divide), "remainder": _ordered(_remainder), "fmod": _tensors(torch.fmod), "power": _power,
    "float_power": _ordered(torch.float_power), "divmod": _ordered(_divmod), "negative": torch.neg, "positive": torch.clone,
    "absolute": torch.abs, "fabs": torch.abs, "sign": _sign, "square": torch.square, "reciprocal": _reciprocal,
    "gcd": _tensors(torch.gcd), "lcm": _tensors(torch.lcm), "heaviside": _tensors(_heaviside),
    "conjugate": lambda x: torch.conj(x).resolve_conj() if x.dtype in COMPLEX else torch.clone(x),
    # products of matrices and vectors
    "matmul": _tensors(_matmul), "vecdot": _tensors(_vecdot), "matvec": _tensors(_matvec), "vecmat": _tensors(_vecmat),
    # exponents and logarithms
    "exp": torch.exp, "exp2": torch.exp2, "expm1": torch.expm1, "log": torch.log, "log2": torch.log2,
    "log10": torch.log10, "log1p": torch.log1p, "logaddexp": _tensors(torch.logaddexp),
    "logaddexp2": _tensors(_logaddexp2), "sqrt": torch.sqrt, "cbrt": _cbrt,
    # trigonometry
    "sin": torch.sin, "cos": torch.cos, "tan": torch.tan, "arcsin": torch.asin, "arccos": torch.acos,
    "arctan": torch.atan, "sinh": torch.sinh, "cosh": torch.cosh, "tanh": torch.tanh, "arcsinh": torch.asinh,
    "arccosh": torch.acosh, "arctanh": torch.atanh, "arctan2": _tensors(torch.atan2), "hypot": _tensors(torch.hypot),
    "degrees": torch.rad2deg, "radians": torch.deg2rad, "rad2deg": torch.rad2deg, "deg2rad": torch.deg2rad,
    # rounding
    "rint": _rint, "floor": torch.floor, "ceil": torch.ceil, "trunc": torch.trunc, "modf": _modf,
    "frexp": _frexp, "ldexp": _tensors(_ldexp), "copysign": _tensors(torch.copysign),
    "nextafter": _tensors(torch.nextafter), "spacing": _spacing,
    # comparisons and truth
    "equal": _compare("eq"), "not_equal": _compare("ne"), "less": _compare("lt"), "less_equal": _compare("le"),
    "greater": _compare("gt"), "greater_equal": _compare("ge"), "logical_and": _logical("logical_and"),
    "logical_or": _logical("logical_or"), "logical_xor": _logical("logical_xor"), "logical_not": torch.logical_not,
    "maximum": _extreme("maximum"), "minimum": _extreme("minimum"), "fmax": _extreme("fmax"),
    "fmin": _extreme("fmin"), "isnan": torch.isnan, "isinf": torch.isinf, "isfinite": torch.isfinite,
    "signbit": torch.signbit,
    # bits
    "bitwise_and": _either(torch.bitwise_and), "bitwise_or": _either(torch.bitwise_or), "bitwise_xor": _either(torch.bitwise_xor),
    "invert": torch.bitwise_not, "left_shift": _ordered(torch.bitwise_left_shift), "right_shift": _ordered(torch.bitwise_right_shift),
    "bitwise_count": _bitwise_count,
}  # fmt: skip

COMPARISONS = frozenset(("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"))
