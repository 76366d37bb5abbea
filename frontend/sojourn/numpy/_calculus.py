# SPDX-License-Identifier: Apache-2.0
"""Differences, integrals, interpolation and convolution."""

from __future__ import annotations

import operator
from typing import Any

import numpy
import torch

from ._array import wrap
from ._convert import _device_among, axes_of, axis_of, function, promoted, tensor, tensors
from ._dtypes import COMPLEX, FLOATS, INTEGERS
from ._products import summed
from ._ufuncs import ALL

__all__ = ["convolve", "correlate", "diff", "gradient", "interp", "trapezoid"]

_NONE: Any = numpy._NoValue


@function
def diff(a, n=1, axis=-1, prepend=_NONE, append=_NONE):
    """The differences of neighbours along an axis, `n` times; of bools: whether they differ."""
    if n == 0:
        return wrap(tensor(a))
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n!r}")
    around = [x for x in (prepend, append) if x is not _NONE]
    found, *more = tensors(a, *around)
    if found.dim() == 0:
        raise ValueError("diff requires input that is at least one dimensional")
    axis = axis_of(axis, found.dim())
    if more:
        edge = [1 if k == axis else size for k, size in enumerate(found.shape)]
        more = [x.expand(edge) if x.dim() == 0 else x for x in more]
        if any(x.dim() != found.dim() or _without(x, axis) != _without(found, axis) for x in more):
            raise ValueError("all the input array dimensions except for the concatenation axis must match exactly")
        parts = [*(more[:1] if prepend is not _NONE else []), found, *(more[-1:] if append is not _NONE else [])]
        found = torch.cat(promoted(*map(wrap, parts)), axis)
    for _ in range(min(operator.index(n), found.shape[axis])):
        found = torch.diff(found, dim=axis)
    return wrap(found)


def _without(x, axis):
    return [size for k, size in enumerate(x.shape) if k != axis]


@function
def trapezoid(y, x=None, dx=1.0, axis=-1):
    """The integral along an axis by the trapezoidal rule, at points `x` or `dx` apart."""
    given, points = tensors(y, x) if x is not None else (tensors(y, dx)[0], None)
    axis = axis_of(axis, given.dim())
    count = given.shape[axis]
    if points is None:
        step = dx if isinstance(dx, (int, float, complex)) else wrap(tensor(dx, device=given.device))
    else:
        steps = torch.diff(points, dim=-1 if points.dim() == 1 else axis)
        if points.dim() == 1:
            steps = steps.reshape([-1 if k == axis else 1 for k in range(given.dim())])
        step = wrap(steps)
    after, before = (wrap(given.narrow(axis, k, max(count - 1, 0)) if count else given) for k in (min(1, count), 0))
    parts = ALL["divide"](ALL["multiply"](step, ALL["add"](after, before)), 2.0)
    return wrap(torch.sum(parts._t, axis, dtype=parts._t.dtype))


# Gradients of samples.


def _spacings(f: torch.Tensor, varargs, axes) -> list[Any]:
    """Per axis a number, or the coordinates of the samples as a tensor."""
    if not varargs:
        return [1.0] * len(axes)
    if len(varargs) == 1 and numpy.ndim(_shaped(varargs[0])) == 0:
        return [_spacing(varargs[0], f)] * len(axes)
    if len(varargs) != len(axes):
        raise TypeError("invalid number of arguments")
    spacings = [_spacing(x, f) for x in varargs]
    for x, axis in zip(spacings, axes):
        if not isinstance(x, torch.Tensor) or x.dim() == 0:
            continue
        if x.dim() != 1:
            raise ValueError("distances must be either scalars or 1d")
        if len(x) != f.shape[axis]:
            raise ValueError("when 1d, distances must match the length of the corresponding dimension")
    return spacings


def _shaped(x):
    """Something of the same number of dimensions, of which no values are read."""
    return numpy.broadcast_to(0, tuple(x.shape)) if hasattr(x, "shape") else x


def _spacing(x, f):
    if isinstance(x, (int, float, complex)):
        return x
    found = tensor(x, device=f.device)
    return found.to(torch.float64) if found.dtype in INTEGERS else found


def _slope(f: torch.Tensor, axis: int, spacing, edge_order: int) -> torch.Tensor:
    """Second-order differences inside, differences of `edge_order` at both ends; in the dtype of `f`."""
    x = torch.movedim(f, axis, -1)
    uneven = isinstance(spacing, torch.Tensor) and spacing.dim() == 1
    steps = torch.diff(spacing) if uneven else spacing
    if uneven:
        left, right = steps[:-1], steps[1:]
        a, b, c = -right / (left * (left + right)), (right - left) / (left * right), left / (right * (left + right))
        middle = a * x[..., :-2] + b * x[..., 1:-1] + c * x[..., 2:]
    else:
        middle = (x[..., 2:] - x[..., :-2]) / (2.0 * steps)
    if edge_order == 1:
        first, last = (steps[0], steps[-1]) if uneven else (steps, steps)
        begin, end = (x[..., 1] - x[..., 0]) / first, (x[..., -1] - x[..., -2]) / last
    elif uneven:
        begin = _edge(x[..., :3].flip(-1), steps[1], steps[0], -1.0)
        end = _edge(x[..., -3:], steps[-2], steps[-1], 1.0)
    else:
        outer, middle_one, inner = 1.5 / steps, 2.0 / steps, 0.5 / steps
        begin = -outer * x[..., 0] + middle_one * x[..., 1] - inner * x[..., 2]
        end = inner * x[..., -3] - middle_one * x[..., -2] + outer * x[..., -1]
    parts = [part.to(f.dtype) for part in (begin.unsqueeze(-1), middle, end.unsqueeze(-1))]
    return torch.movedim(torch.cat(parts, -1), -1, axis)


def _edge(x, inner, outer, sign):
    """At the last of three points, `inner` and `outer` apart, by a parabola."""
    a = sign * outer / (inner * (inner + outer))
    b = -sign * (outer + inner) / (inner * outer)
    c = sign * (2.0 * outer + inner) / (outer * (inner + outer))
    return a * x[..., 0] + b * x[..., 1] + c * x[..., 2]


@function
def gradient(f, *varargs, axis=None, edge_order=1):
    """The gradient of samples along each axis, or along those of `axis`; a tuple if these are several.

    `varargs`: distances of the samples, one for all axes or one per axis; or coordinates, 1-d. TypeError for bools.
    """
    device = _device_among([f, *varargs])
    found = tensor(f, device=device)
    axes = axes_of(axis, found.dim())
    spacings = _spacings(found, varargs, axes)
    if edge_order > 2:
        raise ValueError("'edge_order' greater than 2 not supported")
    if any(found.shape[k] < edge_order + 1 for k in axes):
        raise ValueError(
            "Shape of array too small to calculate a numerical gradient, at least (edge_order + 1) elements are "
            "required."
        )
    if found.dtype == torch.bool and axes:
        raise TypeError("numpy boolean subtract, the `-` operator, is not supported; convert to integers first")
    if found.dtype not in FLOATS and found.dtype not in COMPLEX:
        found = found.to(torch.float64)
    slopes = tuple(wrap(_slope(found, k, spacing, edge_order)) for k, spacing in zip(axes, spacings))
    return slopes[0] if len(slopes) == 1 else slopes


# Interpolation.


@function
def interp(x, xp, fp, left=None, right=None, period=None):
    """Values at `x` of the line through the points (`xp`, `fp`), in float64 or complex128; `xp` increases.

    `left` and `right`: beyond the points, default: the first and the last value. `period`: of `x` and `xp`, which then
    need no order.
    """
    x, points, values = tensors(x, xp, fp)
    x, points = x.to(torch.float64), points.to(torch.float64)
    values = values.to(torch.complex128 if values.dtype in COMPLEX else torch.float64)
    if points.dim() != 1 or values.dim() != 1:
        raise ValueError("Data points must be 1-D sequences")
    if points.shape != values.shape:
        raise ValueError("fp and xp are not of the same length.")
    if not len(points):
        raise ValueError("array of sample points is empty")
    if period is not None:
        if period == 0:
            raise ValueError("period must be a non-zero value")
        period, left, right = abs(period), None, None
        x, points = torch.remainder(x, period), torch.remainder(points, period)
        points, order = torch.sort(points)
        values = values[order]
        points = torch.cat([points[-1:] - period, points, points[:1] + period])
        values = torch.cat([values[-1:], values, values[:1]])
    ends = [
        values[k] if given is None else tensor(given, values.dtype, values.device)
        for k, given in ((0, left), (-1, right))
    ]
    if values.dtype not in COMPLEX:
        return wrap(_between(x, points, values, *ends))
    left, right = ends
    real = _between(x, points, values.real, left.real, right.real)
    return wrap(torch.complex(real, _between(x, points, values.imag, left.imag, right.imag, unknown=0.0)))


def _between(x, points, values, left, right, unknown=None):
    """`unknown`: where `x` is NaN, default: NaN."""
    if len(points) == 1:
        inside = values[0].expand(x.shape)
    else:
        k = torch.clamp(torch.searchsorted(points, x.contiguous(), right=True) - 1, 0, len(points) - 2)
        x0, x1, y0, y1 = points[k], points[k + 1], values[k], values[k + 1]
        slope = (y1 - y0) / (x1 - x0)
        inside = slope * (x - x0) + y0
        # An infinite value spoils one way to compute it only.
        other = slope * (x - x1) + y1
        other = torch.where(torch.isnan(other) & (y0 == y1), y0, other)
        inside = torch.where(torch.isnan(inside), other, inside)
        inside = torch.where(x == x0, y0, torch.where(x == x1, y1, inside))
        inside = torch.where(torch.isnan(x), x if unknown is None else unknown, inside)
    return torch.where(x < points[0], left, torch.where(x > points[-1], right, inside))


# Convolution.


def _correlated(a: torch.Tensor, v: torch.Tensor, mode: str) -> torch.Tensor:
    """sum_k a[n + k] v[k], where `v` is not the longer one."""
    count = len(v)
    before = {"full": count - 1, "same": count // 2, "valid": 0}[mode]
    after = {"full": count - 1, "same": count - count // 2 - 1, "valid": 0}[mode]

    def convolved(x, y):
        x = torch.nn.functional.pad(x, (before, after)) if before or after else x
        return torch.nn.functional.conv1d(x.reshape(1, 1, -1), y.reshape(1, 1, -1)).reshape(-1)

    return summed(convolved, a, v)


def _two(a, v, mode, name: str) -> list[torch.Tensor]:
    pair = [x.reshape(1) if x.dim() == 0 else x for x in promoted(*map(wrap, tensors(a, v)))]
    if any(x.dim() > 1 for x in pair):
        raise ValueError("object too deep for desired array")
    for x, which in zip(pair, ("a", "v") if name == "convolve" else ("first array argument", "second array argument")):
        if not len(x):
            raise ValueError(f"{which} cannot be empty")
    return pair


def _mode(mode) -> str:
    known = ("valid", "same", "full")
    if isinstance(mode, str):
        if mode not in known:
            raise ValueError(f"mode must be one of 'valid', 'same', or 'full' (got {mode!r})")
        return mode
    if mode not in (0, 1, 2):
        raise ValueError(f"mode must be one of 0, 1 or 2 (got {mode!r})")
    return known[mode]


@function
def convolve(a, v, mode="full"):
    """The discrete convolution of two 1-d arrays. `mode`: "full", "same" (of the longer one's length) or "valid".

    The ends of "full" and "same" are computed with zeros beside the longer one: an infinity or NaN in the shorter one
    makes NaN of them, where NumPy leaves products out.
    """
    a, v = _two(a, v, mode, "convolve")
    if len(v) > len(a):
        a, v = v, a
    return wrap(_correlated(a, v.flip(0), _mode(mode)))


@function
def correlate(a, v, mode="valid"):
    """The cross-correlation of two 1-d arrays: sum_n a[n + k] conj(v[n]) for each k; `mode` as of `convolve`."""
    a, v = _two(a, v, mode, "correlate")
    v = torch.conj(v).resolve_conj() if v.dtype in COMPLEX else v
    if len(v) > len(a):
        return wrap(_correlated(v, a, _mode(mode)).flip(0))
    return wrap(_correlated(a, v, _mode(mode)))
