# SPDX-License-Identifier: Apache-2.0
"""Integers that vary in steps on private tables: parts of the rows by number are proved and noised like any others."""

import numpy as np
import torch
from private_support import DELTA, make_table, numpy_rng, own_owner  # noqa: F401
from torch import nn

import sojourn

ROWS, PART, FEATURES = 96, 24, ["a", "b", "c"]
BOUNDS = dict.fromkeys(FEATURES, (-1.0, 1.0))


def test_sums_over_parts_of_the_rows_by_number(owner, rng):
    """Each part from another number on; together they are all rows. One program for all numbers but the first."""
    columns = {name: rng.uniform(-1, 1, ROWS) for name in FEATURES}
    table = make_table(owner, columns, BOUNDS)

    @sojourn.step
    def sums(x, k):
        return sojourn.publish(x[k : k + PART].sum(0), bound=2.0)

    found, made, errors = [], [], []
    with sojourn.privacy(table, noise_multiplier=0.02, delta=DELTA):
        for number, x in enumerate(table.batches(FEATURES, size=ROWS, epochs=8)):
            before = owner.counters()["programs_compiled"]
            published = sums(x, PART * (number % 4))
            made.append(owner.counters()["programs_compiled"] - before)
            found.append(published.value.numpy())
            errors.append(published.stderr)
    assert made == [1, 1, 0, 0, 0, 0, 0, 0], sojourn.explain()
    total = np.stack([columns[name] for name in FEATURES], 1).sum(0)
    for parts in (found[:4], found[4:]):
        assert not np.allclose(parts[0], parts[1], atol=0.05), "the same rows twice"
        assert np.abs(np.sum(parts, 0) - total).max() < 6 * 2 * float(np.max(errors)) + 1e-3


def test_training_on_parts_of_the_rows_by_number(owner, rng):
    """Gradients per row of a part, with what is another row's left out: a mean that is learnt is that of the parts."""
    columns = {name: np.full(ROWS, value) for name, value in zip(FEATURES, (0.5, -0.25, 0.75))}
    table = make_table(owner, columns, BOUNDS)
    weight = nn.Parameter(torch.zeros(3).to(owner.device))
    # The mean of a part of the slots is over the rows expected there: fewer than the slots, all of which have a row.
    slots = next(iter(table.batches(FEATURES, size=ROWS))).shape[0]
    optimizer = torch.optim.SGD([weight], lr=0.5 * ROWS / slots)

    @sojourn.step
    def train(x, k):
        optimizer.zero_grad()
        (weight - x[k : k + PART]).square().sum(1).mean().backward()
        optimizer.step()

    with sojourn.privacy(table, noise_multiplier=0.02, delta=DELTA, clip=8.0):
        for number, x in enumerate(table.batches(FEATURES, size=ROWS, epochs=12)):
            train(x, 7 * number % (ROWS - PART))
    learnt = sojourn.publish(weight.detach())
    assert (learnt - torch.tensor([0.5, -0.25, 0.75])).abs().max() < 0.05
    assert sum("the start of" in line and "along dim 0" in line for line in sojourn.explain().splitlines()) >= 1
