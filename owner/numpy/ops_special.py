# SPDX-License-Identifier: Apache-2.0
"""Special functions (dialect/SpecialFunctions.def) by SciPy, orthogonal polynomials by their recurrences."""

from __future__ import annotations

from scipy import special

import numpy as np

from .kernels import kernel, rounded

#: Of a degree, and of zeta's positions below 0: what takes longer is NaN.
LONGEST = 4096


def _airy(x):
    # SciPy has no phase of arguments this large; the amplitude falls with the fourth root.
    return np.where(np.abs(x) > 1e6, _far_airy(x), special.airy(np.where(np.abs(x) > 1e6, 0.0, x))[0])


def _far_airy(x):
    phase = 2.0 / 3.0 * np.abs(x) ** 1.5
    below = np.sin(phase + np.pi / 4) / (np.sqrt(np.pi) * np.abs(x) ** 0.25)
    return np.where(np.isinf(x), np.nan, np.where(x > 0, 0.0, below))


def _spherical(x):
    return np.where(np.isinf(x), 0.0, np.sinc(np.where(np.isinf(x), 0.0, x) / np.pi))


UNARY = {
    "airy_ai": _airy, "bessel_j0": special.j0, "bessel_j1": special.j1, "bessel_y0": special.y0,
    "bessel_y1": special.y1, "erfcx": special.erfcx, "i0": special.i0, "i0e": special.i0e, "i1": special.i1,
    "i1e": special.i1e, "modified_bessel_k0": special.k0, "modified_bessel_k1": special.k1,
    "scaled_modified_bessel_k0": special.k0e, "scaled_modified_bessel_k1": special.k1e, "ndtri": special.ndtri,
    "spherical_bessel_j0": _spherical,
}  # fmt: skip


@kernel("special")
def _special(op, x):
    return rounded(UNARY[op.attr("function")](x.astype(np.float64)), x.dtype)


def _zeta(exponent, position):
    far = position < -LONGEST
    result = special.zeta(exponent, np.where(far, 1.0, position))
    pole = (position <= 0) & (position == np.floor(position))
    valid = exponent > 1
    # Below 0 SciPy and torch agree: a power of a negative number needs an integer.
    result = np.where(valid & pole, np.inf, result)
    return np.where(far | (valid & np.isposinf(position)), np.nan, result)


def _incomplete(function, at_zero, at_infinity):
    def run(shape, bound):
        result = function(shape, bound)
        result = np.where(np.isnan(shape) & (bound == 0), at_zero, result)
        result = np.where(np.isnan(shape) & np.isposinf(bound), at_infinity, result)
        return np.where(np.isposinf(shape) & np.isnan(bound), at_zero, result)

    return run


def _polynomial(first, step, transform=lambda x: x, most=lambda dtype: LONGEST):
    """`first(x)`: that of degree 1; `step(k, x, q, p)`: the one after q and p, of degree k + 1."""

    def run(x, degree):
        dtype = x.dtype
        n = np.where((degree >= 0) & (degree <= LONGEST), np.trunc(degree), 0)
        x, n = np.broadcast_arrays(transform(x.astype(np.float64)), n)
        before, now = np.ones(x.shape), first(x)
        result = np.where(n == 0, before, now)
        for k in range(1, int(min(n.max(initial=0), most(dtype)))):
            before, now = now, step(k, x, now, before)
            result = np.where(n == k + 1, now, result)
        result = np.where(n > most(dtype), np.nan, result)
        result = np.where(np.broadcast_to(degree, x.shape) <= -1, 0.0, result)
        return np.where(np.broadcast_to(~(degree <= LONGEST), x.shape), np.nan, result)

    return run


def _chebyshev(k, x, q, p):
    return 2 * x * q - p


def _shifted(x):
    return x + x - 1


def _hermite_most(dtype):
    return 128 if dtype == np.float32 else 512  # torch's: beyond it most values overflow


BINARY = {
    "zeta": _zeta,
    "gammainc": _incomplete(special.gammainc, 0.0, 1.0),
    "gammaincc": _incomplete(special.gammaincc, 1.0, 0.0),
    "hermite_polynomial_h": _polynomial(lambda x: 2 * x, lambda k, x, q, p: 2 * x * q - 2 * k * p, most=_hermite_most),
    "hermite_polynomial_he": _polynomial(lambda x: x, lambda k, x, q, p: x * q - k * p, most=_hermite_most),
    "laguerre_polynomial_l": _polynomial(lambda x: 1 - x, lambda k, x, q, p: ((2 * k + 1 - x) * q - k * p) / (k + 1)),
    "legendre_polynomial_p": _polynomial(lambda x: x, lambda k, x, q, p: ((2 * k + 1) * x * q - k * p) / (k + 1)),
}
for _name, _first in (
    ("t", lambda x: x), ("u", lambda x: 2 * x), ("v", lambda x: 2 * x - 1), ("w", lambda x: 2 * x + 1),
):  # fmt: skip
    BINARY[f"chebyshev_polynomial_{_name}"] = _polynomial(_first, _chebyshev)
    BINARY[f"shifted_chebyshev_polynomial_{_name}"] = _polynomial(_first, _chebyshev, _shifted)


@kernel("special_binary")
def _special_binary(op, a, b):
    if "polynomial" in op.attr("function"):
        return rounded(BINARY[op.attr("function")](a, b.astype(np.float64)), a.dtype)
    return rounded(BINARY[op.attr("function")](a.astype(np.float64), b.astype(np.float64)), a.dtype)
