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


def epoch_rows(positions: np.ndarray, seed: int, epoch: int, rows: int) -> np.ndarray:
    """The row at each position of an epoch, -1 at positions outside [0, rows), a part of a table or all of it.

    A keyed bijection of [0, rows): six rounds of a Feistel network over Philox, on just as many bits
    as a row number takes (at least 8), repeated until the result is a row. Memory is a chunk's.
    """
    flat = positions.reshape(-1)
    found = np.full(flat.shape, -1, np.int64)
    if 0 < rows < flat.size:  # each row's position is walked once
        table = epoch_rows(np.arange(rows, dtype=np.int64), seed, epoch, rows)
        inside = (flat >= 0) & (flat < rows)
        found[inside] = table[flat[inside]]
        return found.reshape(positions.shape)
    few = None  # among few rows a walk is long, and one pass over all numbers of 8 bits is cheap
    if flat.size and rows <= 256:
        few = _feistel(np.arange(256, dtype=np.uint64), split(seed), split(epoch), rows)
    for begin in range(0, flat.size, CHUNK):
        part = flat[begin : begin + CHUNK]
        places = np.flatnonzero((part >= 0) & (part < rows))
        x = part[places].astype(np.uint64)
        while places.size:
            x = _feistel(x, split(seed), split(epoch), rows) if few is None else few[x]
            arrived = x < np.uint64(rows)
            found[begin + places[arrived]] = x[arrived].astype(np.int64)
            places, x = places[~arrived], x[~arrived]
    return found.reshape(positions.shape)


def _feistel(x: np.ndarray, key: tuple[int, int], epoch: tuple[int, int], rows: int) -> np.ndarray:
    """One pass over numbers of `bits` bits; the halves swap places, and widths, in every round."""
    bits = max(8, (rows - 1).bit_length())
    left, right = bits // 2, bits - bits // 2
    low, high = split(rows)
    a, b = x >> np.uint64(right), x & np.uint64((1 << right) - 1)
    for number in range(6):
        width = right if number % 2 else left
        counter = b + np.uint64((number << 20) + (high << 23))
        drawn = philox(counter, low, epoch[0], epoch[1] ^ 0x534A524F, key)[0]
        a, b = b, a ^ (drawn & np.uint64((1 << width) - 1))
    return a << np.uint64(right) | b
