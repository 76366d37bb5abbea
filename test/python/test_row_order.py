# SPDX-License-Identifier: Apache-2.0
"""The oracle of row orders against the literal vectors, and against itself in Python integers."""

import numpy as np
import pytest
from oracle.row_order import (
    VECTORS,
    first_side,
    order,
    order_of,
    part_rows,
    philox_word,
    position_to_row,
    row_of_part,
)


def test_philox_is_the_published_one():
    assert philox_word((0, 0, 0, 0), (0, 0)) == 0x6627E8D5
    assert philox_word((0xFFFFFFFF,) * 4, (0xFFFFFFFF, 0xFFFFFFFF)) == 0x408F276D


@pytest.mark.parametrize("rows, seed, epoch, expected", VECTORS)
def test_literal_vectors(rows, seed, epoch, expected):
    assert [position_to_row(p, rows, seed, epoch) for p in range(len(expected))] == expected
    assert order_of(np.arange(len(expected)), rows, seed, epoch).tolist() == expected


@pytest.mark.parametrize("rows", [1, 2, 3, 255, 256, 257, 1000, 2**17 + 3])
def test_every_row_once(rng, rows):
    seed, epoch = rng.randrange(-(2**63), 2**63), rng.randrange(2**63)
    whole = order(rows, seed, epoch)
    assert np.array_equal(np.sort(whole), np.arange(rows))
    for p in rng.sample(range(rows), min(rows, 20)):
        assert position_to_row(p, rows, seed, epoch) == whole[p]


def test_outside_is_absent(rng):
    seed = rng.randrange(2**63)
    for rows in (0, 1, 10, 2**40):
        outside = [-1, -(2**63), rows, 2**63 - 1]
        assert [position_to_row(p, rows, seed, 0) for p in outside] == [-1] * 4
        assert order_of(outside, rows, seed, 0).tolist() == [-1] * 4
    assert len(order(0, seed, 0)) == 0


def test_sides_of_a_split():
    """Counts to the row, where halves and roundings decide; 0.3 * 5 is 1.5 in f64, and below it in truth."""
    for rows, fraction, first in (
        (5, 0.3, 2), (10, 0.25, 3), (569, 0.8, 455), (3, 0.1, 0), (4, 0.9, 4), (0, 0.5, 0), (1, 0.5, 1), (101, 0.75, 76),
        (1, 0.49999999999999994, 1), (2**32, 1 - 2.0**-53, 2**32), (2**32, 5e-324, 0),
    ):  # fmt: skip
        assert first_side(rows, fraction) == first, (rows, fraction)


def test_parts_cover_their_parent(rng):
    """Both sides of a split, found in what was split, are each of its rows once, at every depth."""
    for _ in range(20):
        rows, seed, epoch = rng.randrange(1, 200), rng.randrange(2**63), rng.randrange(2**63)
        above = [(rng.uniform(0.01, 0.99), rng.randrange(2)) for _ in range(rng.randrange(3))]
        fraction, parent = rng.uniform(0.01, 0.99), part_rows(rows, above)[0]
        found = []
        for side in (0, 1):
            part = [*above, (fraction, side)]
            count = part_rows(rows, part)[0]
            found += [row_of_part(p, rows, seed, epoch, part, split=True) for p in range(count)]
            assert row_of_part(count, rows, seed, epoch, part, split=True) == -1
            assert row_of_part(-1, rows, seed, epoch, part, split=True) == -1
            drawn = [row_of_part(p, rows, seed, epoch, part) for p in range(count + 1)]
            assert sorted(drawn) == [-1, *range(count)]
        assert sorted(found) == list(range(parent))
