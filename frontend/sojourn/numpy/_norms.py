# SPDX-License-Identifier: Apache-2.0
"""Norms of vectors and matrices, which `linalg` offers."""

from __future__ import annotations

import math
from typing import Any

import torch

from ._dtypes import inexact

__all__: list[str] = []


def vector(x: torch.Tensor, order: Any, axes: tuple[int, ...], keepdims: bool) -> torch.Tensor:
    """Over axes from 0 on; `order`: None or a number."""
    order = 2 if order is None else order
    if isinstance(order, str):
        raise ValueError(f"Invalid norm order '{order}' for vectors")
    x = x.to(inexact(x.dtype))
    if not axes:
        return _alone(x, order)
    if (order < 0 or order == math.inf) and 0 in (x.shape[k] for k in axes):
        if order == -math.inf:
            raise ValueError("zero-size array to reduction operation minimum which has no identity")
        none = torch.sum(torch.abs(x), axes, keepdim=keepdims)
        return none if order > 0 else none + math.inf
    return torch.linalg.vector_norm(x, float(order), axes, keepdim=keepdims)


def _alone(x, order):
    return (x != 0).to(torch.abs(x).dtype) if order == 0 else torch.abs(x)


def matrix(x: torch.Tensor, order: Any, axes: tuple[int, int], keepdims: bool) -> torch.Tensor:
    """Over an axis of rows and one of columns, from 0 on."""
    if axes[0] == axes[1]:
        raise ValueError("Duplicate axes given.")
    if order in (None, "fro", "f"):
        return vector(x, 2, axes, keepdims)
    x = x.to(inexact(x.dtype))
    if order in (2, -2, "nuc"):
        if x.dtype == torch.float16:
            raise TypeError("array type float16 is unsupported in linalg")
        values = torch.linalg.svdvals(torch.movedim(x, axes, (-2, -1)))
        made = torch.sum(values, -1) if order == "nuc" else _extreme(values, -1, order)
    elif order in (1, -1, math.inf, -math.inf):
        summed, kept = axes if abs(order) == 1 else axes[::-1]
        made = _extreme(torch.sum(torch.abs(x), summed), kept - (kept > summed), order)
    else:
        raise ValueError("Invalid norm order for matrices.")
    return made.reshape([1 if k in axes else size for k, size in enumerate(x.shape)]) if keepdims else made


def _extreme(values, axis, order):
    """The largest, 0 of none; the smallest for a negative order."""
    if order > 0:
        return torch.amax(values, axis) if values.shape[axis] else torch.sum(values, axis)
    if not values.shape[axis]:
        raise ValueError("zero-size array to reduction operation minimum which has no identity")
    return torch.amin(values, axis)
