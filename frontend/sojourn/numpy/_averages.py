# SPDX-License-Identifier: Apache-2.0
"""Weighted averages, medians, covariances and correlations. Quantiles are in _quantiles."""

from __future__ import annotations

import numpy
import torch

from ._array import ndarray, wrap
from ._convert import axes_of, function, tensor
from ._dtypes import COMPLEX, FLOATS, NUMPY, inexact, torch_dtype
from ._reducing import MISSING, isnan, keeps, last_axis, operand, reduced_shape, stored
from ._reductions import mean_of, wide
from ._sorting import sorted_of

__all__ = ["average", "corrcoef", "cov", "median"]


def weights_for(weights, x: torch.Tensor, axis) -> torch.Tensor:
    """Weights that broadcast to the array: of its shape, or of the shape of its axes `axis`."""
    found = tensor(weights, device=x.device)
    if found.shape == x.shape:
        return found
    if axis is None:
        raise TypeError("Axis must be specified when shapes of a and weights differ.")
    axes = axes_of(axis, x.dim())
    if tuple(found.shape) != tuple(x.shape[k] for k in axes):
        raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
    found = found.permute(*sorted(range(len(axes)), key=lambda k: axes[k]))
    return found.reshape([n if k in axes else 1 for k, n in enumerate(x.shape)])


@function
def average(a, axis=None, weights=None, returned=False, *, keepdims=MISSING):
    """The weighted average over axes. `returned`: also the sum of the weights, of the same shape.

    Where the weights sum to zero the average is NaN or infinite; NumPy raises ZeroDivisionError.
    """
    x = operand(a, weights)
    axes = axes_of(axis, x.dim())
    shape = reduced_shape(x.shape, axes, keeps(keepdims))
    if weights is None:
        found = mean_of(x, axes, None, wide(x.dtype)).to(inexact(x.dtype)).reshape(shape)
        if not returned:
            return wrap(found)
        count = x.numel() / max(found.numel(), 1)
        return wrap(found), wrap(torch.full(shape, count, dtype=found.dtype, device=x.device))
    by = weights_for(weights, x, axis)
    kinds = [NUMPY[x.dtype], NUMPY[by.dtype]]
    if x.dtype not in FLOATS and x.dtype not in COMPLEX:
        kinds.append(numpy.dtype("float64"))
    to = torch_dtype(numpy.result_type(*kinds))
    by = by.to(to)
    total = torch.sum(by.expand(x.shape), axes, True) if axes else by.expand(x.shape)
    product = x.to(to) * by
    found = ((torch.sum(product, axes, True) if axes else product) / total).reshape(shape)
    if not returned:
        return wrap(found)
    return wrap(found), wrap(total.reshape(shape).clone())


def median_of(parts: torch.Tensor) -> torch.Tensor:
    """The median along the last axis; NaN if there is one. Of no element: NaN."""
    to = inexact(parts.dtype)
    n = parts.shape[-1]
    if n == 0:
        return torch.full(parts.shape[:-1], numpy.nan, dtype=to, device=parts.device)
    ordered = sorted_of(parts)
    low, high = ordered[..., (n - 1) // 2].to(wide(to)), ordered[..., n // 2].to(wide(to))
    found = (low if n % 2 else (low + high) / 2).to(to)
    bad = isnan(ordered[..., -1])
    return found if bad is None else torch.where(bad, ordered[..., -1].to(to), found)


@function
def median(a, axis=None, out=None, overwrite_input=False, keepdims=False) -> ndarray:
    """The median over axes: the mean of the two in the middle for even counts. The input is never overwritten."""
    x = tensor(a)
    axes = axes_of(axis, x.dim())
    return stored(median_of(last_axis(x, axes)).reshape(reduced_shape(x.shape, axes, keeps(keepdims))), out)


def _variables(x: torch.Tensor, rowvar: bool, dtype: torch.dtype) -> torch.Tensor:
    """The observations of one variable in each row."""
    rows = x.to(dtype)
    if rows.dim() < 2:
        return rows.reshape(1, -1)
    return rows if rowvar else rows.T


def _frequencies(weights, name: str, rows: torch.Tensor) -> torch.Tensor:
    found = tensor(weights, torch.float64, rows.device)
    if found.dim() > 1:
        raise RuntimeError(f"cannot handle multidimensional {name}")
    if found.shape[0] != rows.shape[1]:
        raise RuntimeError(f"incompatible numbers of samples and {name}")
    return found


@function
def cov(m, y=None, rowvar=True, bias=False, ddof=None, fweights=None, aweights=None, *, dtype=None) -> ndarray:
    """The covariance matrix of the variables in the rows, or with `rowvar=False` in the columns.

    The values of `fweights` and `aweights` are not checked.
    """
    if ddof is not None and ddof != int(ddof):
        raise ValueError("ddof must be integer")
    x = operand(m, y, fweights, aweights)
    if x.dim() > 2:
        raise ValueError("m has more than 2 dimensions")
    other = None if y is None else tensor(y, device=x.device)
    if other is not None and other.dim() > 2:
        raise ValueError("y has more than 2 dimensions")
    kinds = [NUMPY[each.dtype] for each in (x, other) if each is not None]
    to = torch_dtype(numpy.result_type(*kinds, numpy.float64) if dtype is None else dtype)
    rows = _variables(x, rowvar, to)
    if rows.shape[0] == 0:
        return wrap(torch.empty((0, 0), dtype=torch.float64, device=x.device))
    if other is not None:
        rows = torch.cat([rows, _variables(other, rowvar or (other.dim() == 2 and other.shape[0] == 1), to)])
    if ddof is None:
        ddof = 0 if bias else 1
    weights = None if fweights is None else _frequencies(fweights, "fweights", rows)
    if aweights is not None:
        analytic = _frequencies(aweights, "aweights", rows)
        weights = analytic if weights is None else weights * analytic
    scale: float | torch.Tensor
    if weights is None:
        with numpy.errstate(divide="ignore"):
            scale = float(numpy.true_divide(1, max(rows.shape[1] - ddof, 0)))
        away = rows - torch.mean(rows, 1, True)
        found = torch.matmul(away, away.conj().resolve_conj().T)
    else:
        total = torch.sum(weights)
        less = ddof if aweights is None else ddof * torch.sum(weights * analytic) / total
        scale = 1 / torch.clamp(total - less, min=0)
        by = weights.to(to)
        away = rows - torch.sum(rows * by, 1, True) / torch.sum(by)
        found = torch.matmul(away, (away * by).conj().resolve_conj().T)
    found = found * (scale if isinstance(scale, float) else scale.to(found.dtype))
    return wrap(found.squeeze())


@function
def corrcoef(x, y=None, rowvar=True, *, dtype=None) -> ndarray:
    """The correlation coefficients of the variables in the rows, or with `rowvar=False` in the columns."""
    found = cov(x, y, rowvar, dtype=dtype)._t
    if found.dim() == 0:
        return wrap(found / found)
    diagonal = torch.diagonal(found)
    root = torch.sqrt(diagonal.real if diagonal.is_complex() else diagonal)
    found = found / root.unsqueeze(1) / root
    if found.is_complex():
        return wrap(torch.complex(torch.clamp(found.real, -1, 1), torch.clamp(found.imag, -1, 1)))
    return wrap(torch.clamp(found, -1, 1))
