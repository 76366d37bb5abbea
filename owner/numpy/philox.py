# SPDX-License-Identifier: Apache-2.0
"""Philox4x32-10, vectorised: counter-based random words, equal on every runtime."""

from __future__ import annotations

import numpy as np

_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
CHUNK = 1 << 18  # drawn at once: a block costs many times the memory of its words
_W0, _W1 = 0x9E3779B9, 0xBB67AE85


def philox(c0, c1, c2, c3, key: tuple[int, int]) -> tuple[np.ndarray, ...]:
    """Four words (uint64 arrays below 2^32) per counter; counters broadcast against each other."""
    c0, c1, c2, c3 = (np.asarray(c, np.uint64) for c in (c0, c1, c2, c3))
    k0, k1 = key
    for _ in range(10):
        p0, p1 = c0 * _M0, c2 * _M1
        c0, c1, c2, c3 = (
            (p1 >> _SHIFT) ^ c1 ^ np.uint64(k0), p1 & _LOW, (p0 >> _SHIFT) ^ c3 ^ np.uint64(k1), p0 & _LOW,
        )  # fmt: skip
        k0, k1 = (k0 + _W0) & 0xFFFFFFFF, (k1 + _W1) & 0xFFFFFFFF
    return c0, c1, c2, c3


def split(number: int) -> tuple[int, int]:
    """Low and high half of a 64-bit number; negative ones count modulo 2^64."""
    number &= (1 << 64) - 1
    return number & 0xFFFFFFFF, number >> 32


def words(seed: int, stream: int, first: int, count: int) -> np.ndarray:
    """Words `first`, a multiple of 4, to `first + count` of a stream, as uint64 below 2^32."""
    blocks = np.arange(first // 4, first // 4 + -(-count // 4), dtype=np.uint64)
    drawn = philox(blocks & _LOW, blocks >> _SHIFT, stream, 0, split(seed))
    return np.stack(np.broadcast_arrays(*drawn), axis=1).reshape(-1)[:count]


def uniform53(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return ((high << _SHIFT | low) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def uniform24(bits: np.ndarray) -> np.ndarray:
    return (bits >> np.uint64(8)).astype(np.float64) * 2.0**-24


def epoch_order(seed: int, epoch: int, rows: int) -> np.ndarray:
    """The epoch's order of all rows: rows sorted by their own random 64-bit key, ties by number."""
    keys, (low, high) = np.empty(rows, np.uint64), split(epoch)
    for begin in range(0, rows, CHUNK):
        index = np.arange(begin, min(begin + CHUNK, rows), dtype=np.uint64)
        w0, w1, _, _ = philox(index & _LOW, index >> _SHIFT, low, high ^ 0x534A524F, split(seed))
        keys[begin : begin + CHUNK] = w1 << _SHIFT | w0
    return np.argsort(keys, kind="stable").astype(np.int64, copy=False)
