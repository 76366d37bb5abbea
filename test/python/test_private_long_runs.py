# SPDX-License-Identifier: Apache-2.0
"""Runs whose sums are beyond counting at high orders: quoted, paid to the last step, and the budget goes on after them.

Oracles: the owner's budget after the run, and dp-accounting. The same run with all of its million steps is in
test/owner/AccountsTest.cpp and test/owner/ledger/LongRunTest.cpp.
"""

import dp_accounting
import numpy as np
import pytest
import torch
from dp_accounting import rdp
from private_support import DELTA, make_table, numpy_rng, own_owner  # noqa: F401
from torch import nn

import sojourn

BOUNDS = {"a": (0, 1), "y": (0, 1)}


def register(owner, rng, rows, epsilon):
    return make_table(owner, {"a": rng.uniform(0, 1, rows), "y": rng.integers(0, 2, rows)}, BOUNDS, epsilon)


def test_a_million_steps_are_quoted_within_a_grant_of_eight(owner, rng):
    table = owner.register(
        "people", {"a": rng.uniform(0, 1, 100_000), "y": np.zeros(100_000)}, policy="private", bounds=BOUNDS
    )
    owner.grant("people", epsilon=8, delta=1e-6)
    quote = sojourn.privacy(table, noise_multiplier=0.5, size=1, epochs=10).quote()
    assert (quote.steps, quote.delta) == (10**6, 1e-6) and quote.sampling_rate == pytest.approx(1e-5)
    accountant = rdp.RdpAccountant(orders=range(2, 65))
    event = dp_accounting.PoissonSampledDpEvent(1e-5, dp_accounting.GaussianDpEvent(0.5))
    best = accountant.compose(event, 10**6).get_epsilon(1e-6)
    assert best * (1 - 1e-6) <= quote.epsilon_of_best_order <= 1.01 * best
    assert quote.epsilon_of_best_order < quote.epsilon < 8
    assert f"epsilon {quote.epsilon:.4g} at delta 1e-06 (by the best order {quote.epsilon_of_best_order:.4g}): " in str(
        quote
    )


def test_a_run_goes_on_where_orders_are_lost(owner, rng):
    """So little noise that order 1024 is lost within the run: 2^24 nats after 13 steps; order 2 has 2,500 a step."""
    epsilon, steps = 2.0**18, 60
    table = register(owner, rng, 96, epsilon)
    model = nn.Linear(1, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    sojourn.to_owner(model, owner, optimizer)

    @sojourn.step
    def train(x, y):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    with sojourn.privacy(table, noise_multiplier=0.02, delta=DELTA, size=16, epochs=10) as run:
        assert run.steps == steps
        for x, y in table.batches(["a"], label="y", size=16, epochs=10):
            train(x, y)
    assert run.taken == steps
    spent = epsilon - owner.budget("people").epsilon_left
    assert spent == pytest.approx(run.quote().epsilon, rel=1e-9) == run.epsilon
    # The account and the people go on: with what is left, not with more.
    mean = sojourn.publish(table["a"].mean(), epsilon=1)
    assert 0 <= float(mean) + 5 * mean.stderr and owner.budget("people").epsilon_left < epsilon - spent
    with pytest.raises(sojourn.BudgetExhausted, match=r"is spent up to 1\.[45]"):
        sojourn.publish(table["a"].sum(), epsilon=epsilon)
