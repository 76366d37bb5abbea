# SPDX-License-Identifier: Apache-2.0
"""Sorting. Every sort at an owner is stable; NaN comes last, complex numbers are ordered lexicographically."""

from __future__ import annotations

import operator

import numpy
import torch

from ._array import ndarray, wrap
from ._convert import axis_of, function, tensor, tensors
from ._dtypes import COMPLEX, NUMPY

__all__ = ["argpartition", "argsort", "lexsort", "partition", "sort", "sort_complex"]

_KINDS = ("quicksort", "heapsort", "mergesort", "stable")


def order_of(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """The indices that sort along a dimension."""
    if x.dtype not in COMPLEX:
        return torch.sort(x, stable=True, dim=dim).indices
    # From the least to the most important: a number with NaN in its real part comes after all with NaN in the other.
    gaps = torch.isnan(x.real).to(torch.uint8) * 2 + torch.isnan(x.imag).to(torch.uint8)
    return order_by([x.imag, x.real, gaps], dim)


def order_by(keys: list[torch.Tensor], dim: int) -> torch.Tensor:
    """The indices that sort by keys of one shape, the last one first."""
    order = order_of(keys[0], dim)
    for key in keys[1:]:
        order = torch.gather(order, dim, order_of(torch.gather(key, dim, order), dim))
    return order


def sorted_of(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """The elements sorted along a dimension."""
    if x.dtype not in COMPLEX:
        return torch.sort(x, stable=True, dim=dim).values
    return torch.gather(x, dim, order_of(x, dim))


def _checked(kind, order, stable) -> None:
    if order is not None:
        raise ValueError("Cannot specify order when the array has no fields.")
    if kind is not None:
        if stable is not None:
            raise ValueError("`kind` and `stable` parameters can't be provided at the same time. Use only one of them.")
        if kind not in _KINDS:
            raise ValueError(f"sort kind must be one of 'quick', 'heap', or 'stable' (got {kind!r})")


def _along(a, axis) -> tuple[torch.Tensor, int]:
    x = tensor(a)
    if axis is None:
        return x.reshape(-1), 0
    return x, axis_of(axis, x.dim())


@function
def sort(a, axis=-1, kind=None, order=None, *, stable=None, descending=False) -> ndarray:
    """A sorted copy. `axis=None`: of all elements in a row. `kind` and `stable` change nothing.

    `descending` (array API): the largest first, NaN before all.
    """
    _checked(kind, order, stable)
    x, dim = _along(a, axis)
    made = sorted_of(x, dim)
    return wrap(made.flip(dim) if descending else made)


@function
def argsort(a, axis=-1, kind=None, order=None, *, stable=None, descending=False) -> ndarray:
    """The indices that sort, int64. Elements that are equal keep their order, whatever `kind` is.

    `descending` (array API): the largest first, NaN before all.
    """
    _checked(kind, order, stable)
    x = tensor(a)
    if x.dim() == 0 and axis in (0, -1):
        x = x.reshape(1)
    x, dim = _along(x, axis)
    if not descending:
        return wrap(order_of(x, dim))
    # Turned twice: equal elements keep their order.
    return wrap(x.shape[dim] - 1 - order_of(x.flip(dim), dim).flip(dim))


@function
def lexsort(keys, axis=-1) -> ndarray:
    """The indices that sort by several keys of one shape: the last key first. int64.

    `keys`: a sequence of arrays, or an array whose rows are the keys.
    """
    found = tensors(*keys) if isinstance(keys, (list, tuple)) else list(tensor(keys).unbind())
    if not found:
        raise TypeError("need sequence of keys with len > 0 in lexsort")
    if any(key.shape != found[0].shape for key in found):
        raise ValueError("all keys need to be the same shape")
    if found[0].dim() == 0:
        return wrap(torch.zeros((), dtype=torch.int64, device=found[0].device))
    return wrap(order_by(found, axis_of(axis, found[0].dim())))


def _places(kth, kind, order, x: torch.Tensor, dim: int) -> None:
    """Raises for invalid places."""
    if order is not None:
        raise ValueError("Cannot specify order when the array has no fields.")
    if kind != "introselect":
        raise ValueError(f"select kind must be 'introselect' (got {kind!r})")
    places = numpy.asarray(kth)
    if places.dtype.kind not in "iu":
        raise TypeError("Partition index must be integer")
    if places.ndim > 1:
        raise ValueError("kth must be a scalar or 1-D")
    n = x.shape[dim]
    for place in map(operator.index, places.reshape(-1).tolist()):
        if x.numel() and not -n <= place < n:
            raise ValueError(f"kth(={place}) out of bounds ({n})")


@function
def partition(a, kth, axis=-1, kind="introselect", order=None) -> ndarray:
    """A copy with the elements `kth` in the places that they have when sorted. All others are sorted, too."""
    x, dim = _along(a, axis)
    _places(kth, kind, order, x, dim)
    return wrap(sorted_of(x, dim))


@function
def argpartition(a, kth, axis=-1, kind="introselect", order=None) -> ndarray:
    """The indices that `partition` follows: those that sort."""
    x, dim = _along(a, axis)
    _places(kth, kind, order, x, dim)
    return wrap(order_of(x, dim))


@function
def sort_complex(a) -> ndarray:
    """Complex numbers sorted along the last axis: complex64 of small integers, complex128 of other real numbers."""
    x = tensor(a)
    made = sorted_of(x, axis_of(-1, x.dim()))
    if made.dtype in COMPLEX:
        return wrap(made)
    isSmall = NUMPY[made.dtype].kind in "iu" and made.element_size() < 4
    return wrap(made.to(torch.complex64 if isSmall else torch.complex128))
