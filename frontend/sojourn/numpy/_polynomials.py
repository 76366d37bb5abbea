# SPDX-License-Identifier: Apache-2.0
"""Polynomials as 1-d arrays of coefficients, that of the highest power first.

Coefficients are not read to see whether they are 0: where NumPy drops leading zeros from a result, they stay here.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy
import torch

from . import _calculus as calculus
from . import linalg
from ._array import ndarray, wrap
from ._convert import any_remote, function, promoted, tensor, tensors
from ._dtypes import COMPLEX, FLOATS, NUMPY, inexact, result_type
from ._ufuncs import ALL

__all__ = [
    "poly",
    "poly1d",
    "polyadd",
    "polyder",
    "polydiv",
    "polyfit",
    "polyint",
    "polymul",
    "polysub",
    "polyval",
    "roots",
]


def _coefficients(*given) -> list[torch.Tensor]:
    """Of at least one dimension."""
    found = tensors(*(x.coeffs if isinstance(x, poly1d) else x for x in given))
    return [x.reshape(1) if x.dim() == 0 else x for x in found]


def _one_dimension(*given) -> list[torch.Tensor]:
    found = _coefficients(*given)
    if any(x.dim() != 1 for x in found):
        raise ValueError("Polynomial must be 1d only.")
    return found


@function
def poly(seq_of_zeros):
    """The coefficients of the polynomial of given roots, or the characteristic polynomial of a matrix.

    Complex for complex roots (NumPy's is real where they come in conjugate pairs).
    """
    zeros = tensor(seq_of_zeros)
    isReal = zeros.dtype not in COMPLEX
    if zeros.dim() == 2 and zeros.shape[0] == zeros.shape[1] != 0:
        zeros = linalg.eigvals(wrap(zeros))._t
    elif zeros.dim() <= 1:
        zeros = zeros.to(torch.float64 if zeros.dtype == torch.float16 else inexact(zeros.dtype)).reshape(-1)
    else:
        raise ValueError("input must be 1d or non-empty square 2d array.")
    if not len(zeros):
        return 1.0
    made = torch.ones(1, dtype=zeros.dtype, device=zeros.device)
    for zero in zeros.unbind():
        pad = torch.nn.functional.pad
        made = pad(made, (0, 1)) - zero * pad(made, (1, 0))
    return wrap(made.real if isReal and zeros.dtype in COMPLEX else made)


def _summed(name: str, a1, a2) -> ndarray:
    a, b = _coefficients(a1, a2)
    size = max(a.shape[0], b.shape[0])
    a, b = (torch.nn.functional.pad(x, (0, 0) * (x.dim() - 1) + (size - x.shape[0], 0)) for x in (a, b))
    return ALL[name](wrap(a), wrap(b))


@function
def polyadd(a1, a2):
    """The sum of two polynomials."""
    return _summed("add", a1, a2)


@function
def polysub(a1, a2):
    """The difference of two polynomials."""
    return _summed("subtract", a1, a2)


@function
def polymul(a1, a2):
    """The product of two polynomials."""
    a, b = _one_dimension(a1, a2)
    a, b = (x if len(x) else torch.zeros(1, dtype=torch.float64, device=x.device) for x in (a, b))
    return calculus.convolve(wrap(a), wrap(b))


@function
def polydiv(u, v):
    """Quotient and remainder. The remainder has as many coefficients as its degree may need, at least one."""
    given = (wrap(x) for x in _one_dimension(u, v))
    a, b = promoted(*(ALL["add"](x, 0.0) for x in given))
    degree, steps = len(b) - 1, len(a) - len(b) + 1
    if degree < 0 or not len(a):
        raise IndexError("index 0 is out of bounds for axis 0 with size 0")
    if steps <= 0:
        return wrap(torch.zeros(1, dtype=a.dtype, device=a.device)), wrap(a)
    scale = 1.0 / b[0]
    rest, quotient = a[: degree + 1], []
    for k in range(steps):
        first = scale * rest[0]
        quotient.append(first)
        rest = rest - first * b
        if k + 1 < steps:
            rest = torch.cat([rest[1:], a[degree + 1 + k : degree + 2 + k]])
    return wrap(torch.stack(quotient)), wrap(rest[1:] if degree else rest)


@function
def polyval(p, x):
    """The values of a polynomial at `x`, by Horner's rule."""
    found, points = tensors(p.coeffs if isinstance(p, poly1d) else p, x)
    if found.dim() == 0:
        raise TypeError("iteration over a 0-d array")
    if not len(found):
        return wrap(torch.zeros_like(points))
    dtype = result_type(found, points)
    if dtype == torch.bool:
        made = wrap(torch.zeros_like(points))
        for part in found.unbind():
            made = ALL["add"](ALL["multiply"](made, wrap(points)), wrap(part))
        return made
    points = points.to(dtype)
    value = torch.zeros_like(points)
    for part in found.to(dtype).unbind():
        value = value * points + part
    return wrap(value)


@function
def polyder(p, m=1):
    """The derivative of order `m`."""
    m = operator.index(m)
    if m < 0:
        raise ValueError("Order of derivative must be positive (see polyint)")
    found = tensor(p)
    if found.dim() == 0:
        raise TypeError("len() of unsized object")
    for _ in range(m):
        powers = torch.arange(max(len(found) - 1, 0), 0, -1, dtype=torch.int64, device=found.device)
        found = ALL["multiply"](wrap(found[:-1]), wrap(powers))._t
    return wrap(found)


@function
def polyint(p, m=1, k=None):
    """The integral of order `m`; `k`: the constants, one for each integration or one for all, default 0."""
    m = operator.index(m)
    if m < 0:
        raise ValueError("Order of integral must be positive (see polyder)")
    found, *constants = tensors(p, *([] if k is None else [k]))
    if found.dim() == 0:
        raise TypeError("len() of unsized object")
    if m == 0:
        return wrap(found)
    if constants:
        constant = constants[0].reshape(1) if constants[0].dim() == 0 else constants[0]
        constant = constant.expand(m) if len(constant) == 1 else constant
        if len(constant) < m:
            raise ValueError("k must be a scalar or a rank-1 array of length 1 or >m.")
    else:
        constant = torch.zeros(m, dtype=torch.float64, device=found.device)
    for step in range(m):
        powers = torch.arange(len(found), 0, -1, dtype=torch.int64, device=found.device)
        parts = promoted(ALL["divide"](wrap(found), wrap(powers)), wrap(constant[step : step + 1]))
        found = torch.cat(parts)
    return wrap(found)


@function
def roots(p):
    """The roots, always complex: eigenvalues of the companion matrix.

    NumPy drops leading coefficients that are 0; here they give infinite or NaN roots.
    """
    found = _coefficients(p)[0]
    if found.dim() != 1:
        raise ValueError("Input must be a rank-1 array.")
    found = found if found.dtype in FLOATS or found.dtype in COMPLEX else found.to(torch.float64)
    size = len(found) - 1
    if size < 1:
        return wrap(torch.zeros(0, dtype=torch.complex128, device=found.device))
    below = torch.eye(size, dtype=found.dtype, device=found.device)[:-1]
    companion = torch.cat([(-found[1:] / found[0]).unsqueeze(0), below])
    return linalg.eigvals(wrap(companion))


@function
def polyfit(x, y, deg, rcond=None, full=False, w=None, cov=False):
    """The polynomial of degree `deg` of least squares through points; with residuals, ... or covariances as NumPy's.

    No warning of points that do not determine it, and residuals as of `linalg.lstsq`: both depend on values.
    """
    order = int(deg) + 1
    x, y, *weights = tensors(x, y, *([] if w is None else [w]))
    points, values = (x if x.dtype in FLOATS or x.dtype in COMPLEX else x.to(torch.float64) for x in (x, y))
    if deg < 0:
        raise ValueError("expected deg >= 0")
    if points.dim() != 1:
        raise TypeError("expected 1D vector for x")
    if not len(points):
        raise TypeError("expected non-empty vector for x")
    if values.dim() not in (1, 2):
        raise TypeError("expected 1D or 2D array for y")
    if len(points) != len(values):
        raise TypeError("expected x and y to have same length")
    if rcond is None:
        rcond = len(points) * numpy.finfo(NUMPY[points.dtype]).eps
    powers = points.to(result_type(points, numpy.int64(1)))
    # torch's function takes no count of 1.
    powers = torch.linalg.vander(powers, N=order).flip(-1) if order > 1 else torch.ones_like(powers).unsqueeze(-1)
    if weights:
        weight = weights[0]
        if weight.dim() != 1:
            raise TypeError("expected a 1-d array for weights")
        if len(weight) != len(values):
            raise TypeError("expected w and y to have the same length")
        weight = weight if weight.dtype in FLOATS or weight.dtype in COMPLEX else weight.to(torch.float64)
        powers = powers * weight.unsqueeze(-1).to(powers.dtype)
        weight = weight.to(values.dtype)
        values = values * (weight.unsqueeze(-1) if values.dim() == 2 else weight)
    scale = torch.sqrt(torch.sum(powers * powers, 0))
    powers = powers / scale
    solved, rest, rank, singular = linalg.lstsq(wrap(powers), wrap(values), rcond)
    solution = solved._t / (scale.unsqueeze(-1) if values.dim() == 2 else scale).to(solved._t.dtype)
    if full:
        return wrap(solution), rest, rank, singular, rcond
    if not cov:
        return wrap(solution)
    base = torch.linalg.inv(torch.matmul(powers.T, powers)) / (scale.unsqueeze(-1) * scale)
    base = base.unsqueeze(-1) if values.dim() == 2 else base
    if isinstance(cov, str) and cov == "unscaled":
        return wrap(solution), wrap(base)
    if len(points) <= order:
        raise ValueError("the number of data points must exceed order to scale the covariance matrix")
    return wrap(solution), ALL["multiply"](wrap(base), rest / (len(points) - order))


class poly1d:
    """A polynomial that is called: NumPy's where its coefficients are host values, else one of remote coefficients.

    The latter has `coeffs`, `order`, `roots`, `variable`, `deriv`, `integ`, the operators + - * ** and division, which
    gives quotient and remainder.
    """

    coeffs: ndarray
    variable: str
    __array_priority__ = 2000.0

    def __new__(cls, c_or_r, r=False, variable=None):
        given = c_or_r.coeffs if isinstance(c_or_r, poly1d) else c_or_r
        coeffs = (poly if r else numpy.asarray)(given) if not any_remote([given]) else None
        if coeffs is not None:
            return numpy.poly1d(coeffs, variable=variable)
        self = super().__new__(cls)
        self.coeffs = poly(given) if r else wrap(_one_dimension(given)[0])
        self.variable = variable or getattr(c_or_r, "variable", "x")
        return self

    c = coef = coefficients = property(lambda self: self.coeffs)
    order = o = property(lambda self: len(self.coeffs) - 1)
    roots = r = property(lambda self: roots(self.coeffs))

    def __call__(self, x):
        return polyval(self.coeffs, x)

    def __len__(self) -> int:
        return self.order

    def __iter__(self):
        return iter(self.coeffs)

    def __getitem__(self, power: int):
        """The coefficient of a power."""
        return self.coeffs[self.order - power] if 0 <= power <= self.order else self.coeffs.dtype.type(0)

    def __array__(self, dtype=None, copy=None):
        return self.coeffs.__array__(dtype, copy)

    def __repr__(self) -> str:
        return f"poly1d({self.coeffs!r})"

    def deriv(self, m=1):
        """The derivative of order `m`."""
        return poly1d(polyder(self.coeffs, m))

    def integ(self, m=1, k=0):
        """The integral of order `m`."""
        return poly1d(polyint(self.coeffs, m, k))

    def __neg__(self):
        return poly1d(ALL["negative"](self.coeffs))

    def __add__(self, other):
        return poly1d(polyadd(self.coeffs, _raw(other)))

    def __sub__(self, other):
        return poly1d(polysub(self.coeffs, _raw(other)))

    def __rsub__(self, other):
        return poly1d(polysub(_raw(other), self.coeffs))

    def __mul__(self, other):
        return poly1d(polymul(self.coeffs, _raw(other)))

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other):
        return tuple(map(poly1d, polydiv(self.coeffs, _raw(other))))

    def __rtruediv__(self, other):
        return tuple(map(poly1d, polydiv(_raw(other), self.coeffs)))

    def __pow__(self, exponent: int):
        if operator.index(exponent) < 0:
            raise ValueError("Power to non-negative integers only.")
        made: Any = numpy.ones(1, self.coeffs.dtype)
        for _ in range(exponent):
            made = polymul(self.coeffs, made)
        return poly1d(made)


def _raw(x):
    return x.coeffs if isinstance(x, (poly1d, numpy.poly1d)) else x
