# SPDX-License-Identifier: Apache-2.0
"""Indices of triangles, diagonals and grids. They follow from sizes, so they are made here and uploaded."""

from __future__ import annotations

import numpy
import torch

from ._array import ndarray, wrap
from ._convert import asarray, function, tensor, tensors, upload
from ._manipulation import stand_in

__all__ = [
    "diag_indices",
    "diag_indices_from",
    "ix_",
    "mask_indices",
    "tril_indices",
    "tril_indices_from",
    "triu_indices",
    "triu_indices_from",
]


def tril_indices(n, k=0, m=None) -> tuple[ndarray, ndarray]:
    """The rows and columns on and below the diagonal `k` of an (n, m) matrix."""
    rows, columns = numpy.tril_indices(n, k, m)
    return asarray(rows), asarray(columns)


def triu_indices(n, k=0, m=None) -> tuple[ndarray, ndarray]:
    """The rows and columns on and above the diagonal `k` of an (n, m) matrix."""
    rows, columns = numpy.triu_indices(n, k, m)
    return asarray(rows), asarray(columns)


def _of(arr, host, *args) -> tuple[ndarray, ...]:
    found = tensor(arr)
    return tuple(wrap(upload(each, found.device)) for each in host(stand_in(found), *args))


@function
def tril_indices_from(arr, k=0) -> tuple[ndarray, ...]:
    """As `tril_indices`, of a matrix's shape. ValueError if it has not two dimensions."""
    return _of(arr, numpy.tril_indices_from, k)


@function
def triu_indices_from(arr, k=0) -> tuple[ndarray, ...]:
    """As `triu_indices`, of a matrix's shape. ValueError if it has not two dimensions."""
    return _of(arr, numpy.triu_indices_from, k)


def diag_indices(n, ndim=2) -> tuple[ndarray, ...]:
    """The indices of the main diagonal of an array of `ndim` axes of size `n`."""
    return tuple(map(asarray, numpy.diag_indices(n, ndim)))


@function
def diag_indices_from(arr) -> tuple[ndarray, ...]:
    """As `diag_indices`, of an array's shape. ValueError if the axes differ in size."""
    return _of(arr, numpy.diag_indices_from)


def mask_indices(n, mask_func, k=0) -> tuple[ndarray, ...]:
    """Where `mask_func(ones((n, n)), k)` is not zero. It is called with a host array."""
    return tuple(map(asarray, numpy.mask_indices(n, mask_func, k)))


@function
def ix_(*args) -> tuple[ndarray, ...]:
    """Index vectors as the axes of a grid. A mask's indices are read in size, so it raises inside a step."""
    made = []
    for at, (given, each) in enumerate(zip(args, tensors(*args))):
        if each.dim() != 1:
            raise ValueError("Cross index must be 1 dimensional")
        if each.numel() == 0 and not hasattr(given, "dtype"):
            each = each.to(torch.int64)  # an empty list
        elif each.dtype == torch.bool:
            each = each.nonzero().squeeze(1)
        made.append(wrap(each.reshape((1,) * at + (-1,) + (1,) * (len(args) - 1 - at))))
    return tuple(made)
