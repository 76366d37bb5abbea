# SPDX-License-Identifier: Apache-2.0
"""The documented row order: Philox4x32-10 in NumPy, and what `sample_rows` makes of it.

Both runtimes and the plain CPU table draw the same rows because all of them compute this function.
"""

from __future__ import annotations

import functools

import numpy as np
import torch

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (np.uint32(0x9E3779B9), np.uint32(0xBB67AE85))
_LOW32 = np.uint64(0xFFFFFFFF)
_SHIFT32 = np.uint64(32)
# Fourth counter word of a row draw ("SJRO"), so that no other Philox stream shares its counters.
_ROW_DOMAIN = 0x534A524F
# `Table.split` orders its rows as this epoch does: no training run counts that far, so a split and
# the batches drawn with the same seed are independent.
SPLIT_EPOCH = 2**32 - 1


def philox4x32(counter, key):
    """Ten rounds on counters `(c0, c1, c2, c3)` (uint32 arrays) under `key` (two Python ints)."""
    c0, c1, c2, c3 = (np.asarray(word, dtype=np.uint32) for word in counter)
    k0, k1 = (np.uint32(word) for word in key)
    with np.errstate(over="ignore"):
        for _ in range(10):
            product0 = c0.astype(np.uint64) * _MULTIPLIERS[0]
            product1 = c2.astype(np.uint64) * _MULTIPLIERS[1]
            high0, low0 = (product0 >> _SHIFT32).astype(np.uint32), (product0 & _LOW32).astype(np.uint32)
            high1, low1 = (product1 >> _SHIFT32).astype(np.uint32), (product1 & _LOW32).astype(np.uint32)
            c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
            k0, k1 = k0 + _WEYL[0], k1 + _WEYL[1]
    return c0, c1, c2, c3


@functools.lru_cache(maxsize=8)
def permutation(rows: int, seed: int, epoch: int) -> torch.Tensor:
    """The order of all `rows` rows in one epoch (int64). The caller must not write to it."""
    index = np.arange(rows, dtype=np.uint64)
    seed, epoch = seed & 0xFFFFFFFFFFFFFFFF, epoch & 0xFFFFFFFFFFFFFFFF
    counter = (
        (index & _LOW32).astype(np.uint32),
        (index >> _SHIFT32).astype(np.uint32),
        np.full(rows, epoch & 0xFFFFFFFF, dtype=np.uint32),
        np.full(rows, (epoch >> 32) ^ _ROW_DOMAIN, dtype=np.uint32),
    )
    word0, word1, _, _ = philox4x32(counter, (seed & 0xFFFFFFFF, seed >> 32))
    keys = word0.astype(np.uint64) | (word1.astype(np.uint64) << _SHIFT32)
    return torch.from_numpy(np.argsort(keys, kind="stable").astype(np.int64))


def sample_rows(rows: int, size: int, seed: int, epoch: int, start: int) -> torch.Tensor:
    """Entries `[start, start + size)` of the epoch's order; -1 beyond its end."""
    order = permutation(rows, seed, epoch)
    out = torch.full((size,), -1, dtype=torch.int64)
    begin, end = min(max(start, 0), rows), min(max(start + size, 0), rows)
    out[begin - start : end - start] = order[begin:end]
    return out


def batch_indices(rows: int, size: int, seed: int, epoch: int, drop_last: bool = False) -> list[torch.Tensor]:
    """The row numbers of each batch of one epoch, in the order that `Table.batches` uses.

    The last batch is short when `size` does not divide `rows`, unless `drop_last` leaves it out.
    """
    order = permutation(rows, seed, epoch)
    end = rows - rows % size if drop_last else rows
    return [order[start : min(start + size, end)].clone() for start in range(0, end, size)]


def split_rows(rows: int, fraction: float) -> int:
    """How many rows the first part of a split has (half rounds up)."""
    return int(fraction * rows + 0.5)


def split_indices(rows: int, fraction: float, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The row numbers behind the two tables of `Table.split(fraction, seed)`, in their order."""
    order, first = permutation(rows, seed, SPLIT_EPOCH), split_rows(rows, fraction)
    return order[:first].clone(), order[first:].clone()
