# SPDX-License-Identifier: Apache-2.0
"""Integers, choices and orders."""

from __future__ import annotations

import math
from typing import Any

import numpy
import torch

from .._array import ndarray, wrap
from .._convert import any_remote, axis_of, is_remote, tensor
from .._dtypes import TORCH, dtype_of
from . import _arguments as arguments
from ._arguments import CHECKS, host_tensor
from ._draws import Draws, first_accepted

__all__ = ["Arrangements"]

_NARROW = 2**32  # ranges up to here are the remainders of 63 bits
_whole = numpy.frompyfunc(int, 1, 1)
_WIDE_ROUNDS = 30  # each refuses with a chance of at most 0.5


class Arrangements:
    """A part of `Generator`."""

    _draws: Any
    _host: numpy.random.Generator

    def integers(self, low, high=None, size=None, dtype=numpy.int64, endpoint=False) -> ndarray:
        """Integers of a dtype that owners hold. For ranges up to 2**32 their chances are equal to within 5e-10."""
        kind = dtype_of(dtype) if isinstance(dtype, torch.dtype) else numpy.dtype(dtype)
        if kind.kind not in "biu":
            raise TypeError(f"Unsupported dtype {kind!r} for integers")
        to = TORCH[dtype_of(kind)]
        isRemote = is_remote(low) or is_remote(high)
        if not isRemote:
            CHECKS.integers(low, high, dtype=kind, endpoint=endpoint)
        low, high = (0, low) if high is None else (low, high)
        shapes = [tuple(numpy.shape(x)) if not is_remote(x) else tuple(x.shape) for x in (low, high)]
        draws = self._draws(arguments.full_shape(size, *shapes), low, high)
        if isRemote:
            isNarrow = all(
                x.dtype.itemsize <= 4 if is_remote(x) else numpy.max(numpy.abs(x), initial=0) < 2**31
                for x in (low, high)
            )
            begin, end = (tensor(x, torch.int64, draws.device) for x in (low, high))
            return wrap(_integers(draws, begin, end if endpoint else end - 1, isNarrow).to(to))
        # NumPy has checked that the last one fits; the end of int64 does not.
        first, last = (numpy.asarray(_whole(x), dtype=object) for x in (low, high))
        last = numpy.asarray(last - (0 if endpoint else 1), dtype=object)
        widest = max((int(each) for each in numpy.ravel(last - first)), default=0)
        return wrap(_integers(draws, _bound(first, draws), _bound(last, draws), widest < _NARROW).to(to))

    def choice(self, a, size=None, replace=True, p=None, axis=0, shuffle=True) -> ndarray:
        """Entries of `a` along `axis`, or numbers below an integer `a`. `shuffle` has no meaning: all orders are random."""
        shape = arguments.shape_of(size)
        wanted = math.prod(shape or ())
        source = None
        if not any_remote((a,)) and numpy.ndim(a) == 0 and numpy.asarray(a).dtype.kind in "iu":
            a = int(a)
        if not isinstance(a, int):
            source = tensor(a) if any_remote((a,)) else numpy.asarray(a)
            if source.ndim == 0:
                raise ValueError(f"a must be a sequence or an integer, not {type(a)}")
            axis = axis_of(axis, source.ndim)
            n = source.shape[axis]
            if n == 0 and wanted:
                raise ValueError("a cannot be empty unless no samples are taken")
        else:
            n = a
            if n <= 0 and wanted:
                raise ValueError("a must be a positive integer unless no samples are taken")
        weights = None if p is None else _weights(p, n, None if replace else wanted)
        if not replace and wanted > n:
            raise ValueError("Cannot take a larger sample than population when replace is False")
        draws = self._draws(shape or (), a, p)
        at = _positions(draws, n, wanted, replace, weights)
        if source is None:
            return wrap(at.reshape(draws.shape))
        entries = tensor(source, device=draws.device)
        taken = entries.index_select(axis, at.reshape(-1))
        return wrap(taken.reshape(*entries.shape[:axis], *draws.shape, *entries.shape[axis + 1 :]))

    def permutation(self, x, axis=0) -> ndarray:
        """The numbers below an integer `x`, or the entries of an array along `axis`, in random order: a copy."""
        if isinstance(x, (int, numpy.integer)):
            return wrap(self._draws(()).order(max(int(x), 0)))
        given = self._uploaded(x)
        axis = axis_of(axis, given.dim())
        return wrap(given.index_select(axis, self._draws((), wrap(given)).order(given.shape[axis])))

    def permuted(self, x, *, axis=None, out=None) -> ndarray:
        """Each row along `axis` in its own random order; without `axis` all numbers. `out` may be `x`."""
        given = self._uploaded(x)
        if given.dim() == 0:
            raise TypeError("len() of unsized object")
        if out is not None and not is_remote(out):
            raise TypeError(f"out: expected an array at the owner, got {type(out).__name__}")
        if out is not None and tuple(out.shape) != tuple(given.shape):
            raise ValueError("out must have the same shape as x")
        if axis is None:
            order = self._draws((), wrap(given)).order(given.numel())
            return arguments.finish(given.reshape(-1).index_select(0, order).reshape(given.shape), out)
        axis = axis_of(axis, given.dim())
        keys = self._draws(tuple(given.shape), wrap(given)).words()
        return arguments.finish(given.gather(axis, keys.argsort(axis)), out)

    def shuffle(self, x, axis=0) -> None:
        """Reorders the entries of a remote array in place. A host array or list is shuffled in this process."""
        if not is_remote(x):
            self._host.shuffle(x, axis)
            return
        target = tensor(x)
        if target.dim() == 0:
            raise TypeError("len() of unsized object")
        axis = axis_of(axis, target.dim())
        target.copy_(target.index_select(axis, self._draws((), x).order(target.shape[axis])))

    def _uploaded(self, x) -> torch.Tensor:
        return tensor(x) if is_remote(x) else tensor(x, device=self._draws((), x).device)


def _bound(x: numpy.ndarray, draws: Draws) -> torch.Tensor:
    if x.ndim == 0:
        return torch.full((), int(x), dtype=torch.int64, device=draws.device)
    return host_tensor(x.astype(numpy.int64), torch.int64).to(draws.device)


def _integers(draws: Draws, first: torch.Tensor, last: torch.Tensor, isNarrow: bool) -> torch.Tensor:
    if isNarrow:
        return first + torch.remainder(draws.words(), last - first + 1)
    # What is left above the last whole multiple of the range is refused. A range that overflows takes any 64 bits.
    count = last - first + 1
    words = draws.words(rounds=_WIDE_ROUNDS)
    rest = torch.remainder(words, torch.where(count > 0, count, 1))
    any64 = (words << 1) | (draws.words(rounds=_WIDE_ROUNDS) & 1)
    isWhole = words - rest <= torch.iinfo(torch.int64).max - (count - 1)
    proposed = torch.where(count > 0, first + rest, any64)
    return first_accepted(proposed, torch.where(count > 0, isWhole, (any64 >= first) & (any64 <= last)))


def _weights(p, n: int, wanted: int | None) -> torch.Tensor:
    """`wanted`: the number of samples without replacement, or None."""
    weights = host_tensor(p)
    if weights.dim() != 1:
        raise ValueError("p must be 1-dimensional")
    if len(weights) != n:
        raise ValueError("a and p must have same size")
    if not is_remote(p):
        total = float(weights.sum())
        if math.isnan(total):
            raise ValueError("Probabilities contain NaN")
        if bool((weights < 0).any()):
            raise ValueError("Probabilities are not non-negative")
        kind = numpy.asarray(p).dtype
        if abs(total - 1) > math.sqrt(numpy.finfo(kind if kind.kind == "f" else float).eps) and n:
            raise ValueError("Probabilities do not sum to 1. See Notes section of docstring for more information.")
        if wanted is not None and wanted <= n and int((weights > 0).sum()) < wanted:
            raise ValueError("Fewer non-zero entries in p than size")
    return weights


def _positions(draws: Draws, n: int, wanted: int, replace: bool, weights: torch.Tensor | None) -> torch.Tensor:
    if n <= 0:
        return torch.zeros(draws.shape, dtype=torch.int64, device=draws.device)
    if weights is None:
        if not replace:
            return draws.order(n)[:wanted]
        zero = torch.full((), 0, dtype=torch.int64, device=draws.device)
        return _integers(draws, zero, zero + (n - 1), n <= _NARROW)
    if not replace:
        # The first arrivals of exponential clocks are successive samples.
        arrivals = draws.of(n).exponential() / weights.to(draws.device)
        return arrivals.argsort()[:wanted]
    running = weights.to(draws.device).cumsum(0)
    at = torch.searchsorted(running / running[-1], draws.uniform(), right=True)
    return at.clamp(max=n - 1)
