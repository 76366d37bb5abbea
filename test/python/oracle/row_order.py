# SPDX-License-Identifier: Apache-2.0
"""The order of an epoch's rows, from the op text of `sojourn.sample_rows` alone.

`position_to_row` is the text in Python integers, one position at a time; `order` is the same in
NumPy, for whole epochs; `row_of_part` adds the parts of a table, whose numbers of rows are fractions
in f64, rounded from exact ones. It shares nothing with the product, its NumPy runtime included.
"""

import math
from fractions import Fraction

import numpy as np

MASK32 = 0xFFFFFFFF
ROUNDS = 6
EPOCH_TAG = 0x534A524F

# (rows, seed, epoch, rows at positions 0, 1, ...), computed once by a program of its own in C++.
VECTORS = [
    (1, 0, 0, [0]),
    (2, 1, 0, [1, 0]),
    (3, 7, 2, [1, 2, 0]),
    (10, 0, 0, [3, 7, 5, 1, 0, 6, 8, 4, 2, 9]),
    (10, 0, 1, [5, 0, 9, 1, 7, 8, 4, 2, 6, 3]),
    (569, 42, 3, [57, 432, 110, 94, 22, 87, 495, 299, 141, 372]),
    (1000, 18446744073709551615, 5, [838, 698, 497, 979, 891, 916, 612, 581, 427, 969]),
    (1048583, 123456789012345, 4294967295,
     [348454, 955737, 987095, 242304, 921811, 440978, 375513, 224659, 60650, 848659]),
    (4294967296, 9, 1,
     [370058575, 4218705112, 4060099028, 3838052784, 1310379029, 3274113433, 2826108521, 1766265392, 2484536418,
      3328275903]),
    (1099511627773, 5, 4294967297,
     [284898317415, 344360557445, 524940690953, 1005149496901, 194181136607, 288014776981, 817146251552,
      254279823197, 231757725237, 832248992718]),
    (1099511627776, 5, 0,
     [713953332599, 633616600717, 186103134128, 95173509646, 731840867477, 486336047883, 118971145603,
      907488574867, 265099694719, 950934787642]),
]  # fmt: skip


def philox_word(counter: tuple, key: tuple):
    """Word 0 of Philox4x32-10 (Salmon et al. 2011). Python integers, or uint64 arrays as counter words."""
    a, b, c, d = counter
    k0, k1 = key
    for _ in range(10):
        low, high = a * 0xD2511F53, c * 0xCD9E8D57
        a, b, c, d = (high >> 32) ^ b ^ k0, high & MASK32, (low >> 32) ^ d ^ k1, low & MASK32
        k0, k1 = (k0 + 0x9E3779B9) & MASK32, (k1 + 0xBB67AE85) & MASK32
    return a


def widths(rows: int) -> tuple[int, int]:
    """Bits of the left and the right half of a position."""
    bits = max(8, (rows - 1).bit_length())
    return bits // 2, bits - bits // 2


def position_to_row(p: int, rows: int, seed: int, epoch: int) -> int:
    """The row at position `p` of an epoch; -1 where there is none. Seed and epoch count modulo 2^64."""
    if not 0 <= p < rows:
        return -1
    seed, epoch = seed % 2**64, epoch % 2**64
    left, right = widths(rows)
    x = p
    while True:
        upper, lower = x >> right, x % 2**right
        for r in range(ROUNDS):
            counter = (
                lower + r * 2**20 + (rows >> 32) * 2**23,
                rows % 2**32,
                epoch % 2**32,
                (epoch >> 32) ^ EPOCH_TAG,
            )
            w = philox_word(counter, (seed % 2**32, seed >> 32))
            upper, lower = lower, upper ^ w % 2 ** (left if r % 2 == 0 else right)
        x = upper * 2**right + lower
        if x < rows:
            return x


# Parts: lists of (fraction, side) from the table down, side 0 the first and 1 the other.


def first_side(rows: int, fraction: float) -> int:
    """floor(fraction * rows + 0.5), product and sum each rounded to f64."""
    product = float(Fraction(fraction) * rows)
    return math.floor(float(Fraction(product) + Fraction(1, 2)))


def part_rows(rows: int, part) -> tuple[int, int, int]:
    """Rows of a part, its first position in the last split's order, and rows of what was split last."""
    start, parent = 0, rows
    for fraction, side in part:
        first, parent = first_side(rows, fraction), rows
        rows, start = (first, 0) if side == 0 else (rows - first, first)
    return rows, start, parent


def row_of_part(p: int, rows: int, seed: int, epoch: int, part=(), split: bool = False) -> int:
    """What `sample_rows` gives at position `p` of a table of so many rows."""
    count, start, parent = part_rows(rows, part)
    if not 0 <= p < count:
        return -1
    return position_to_row(start + p, parent, seed, epoch) if split else position_to_row(p, count, seed, epoch)


def order_of(positions, rows: int, seed: int, epoch: int) -> np.ndarray:
    """`position_to_row` of every element of an int64 array."""
    positions = np.asarray(positions, np.int64)
    flat = positions.reshape(-1)
    result = np.full(flat.shape, -1, np.int64)
    walking = np.flatnonzero((flat >= 0) & (flat < rows))
    x = flat[walking].astype(np.uint64)
    seed, epoch = seed % 2**64, epoch % 2**64
    left, right = widths(rows)
    u = np.uint64
    while len(walking):
        upper, lower = x >> u(right), x & u(2**right - 1)
        for r in range(ROUNDS):
            first = lower + u(r * 2**20 + (rows >> 32) * 2**23)
            w = _philox_words(first, rows % 2**32, epoch % 2**32, (epoch >> 32) ^ EPOCH_TAG, seed)
            upper, lower = lower, upper ^ (w & u(2 ** (left if r % 2 == 0 else right) - 1))
        x = upper << u(right) | lower
        done = x < u(rows)
        result[walking[done]] = x[done].astype(np.int64)
        walking, x = walking[~done], x[~done]
    return result.reshape(positions.shape)


def _philox_words(first: np.ndarray, second: int, third: int, fourth: int, seed: int) -> np.ndarray:
    u, mask = np.uint64, np.uint64(MASK32)
    a, b, c, d = first, u(second), np.full_like(first, third), u(fourth)
    k0, k1 = seed % 2**32, seed >> 32
    for _ in range(10):
        low, high = a * u(0xD2511F53), c * u(0xCD9E8D57)  # below 2^64: both factors are below 2^32
        a, b = (high >> u(32)) ^ b ^ u(k0), high & mask
        c, d = (low >> u(32)) ^ d ^ u(k1), low & mask
        k0, k1 = (k0 + 0x9E3779B9) & MASK32, (k1 + 0xBB67AE85) & MASK32
    return a


def order(rows: int, seed: int, epoch: int) -> np.ndarray:
    """All rows in the order of an epoch, int64 [rows]."""
    return order_of(np.arange(rows, dtype=np.int64), rows, seed, epoch)
