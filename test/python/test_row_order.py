# SPDX-License-Identifier: Apache-2.0
"""The oracle of row orders against the literal vectors, and against itself in Python integers."""

import numpy as np
import pytest
from oracle.row_order import VECTORS, order, order_of, philox_word, position_to_row


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
