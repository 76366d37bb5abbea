# SPDX-License-Identifier: Apache-2.0
"""Loops on private tables: each step is drawn and charged as if it had come alone, and a budget ends them where it ends."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from private_support import DELTA, make_table, numpy_rng, own_owner  # noqa: F401
from torch import nn

import sojourn

ROWS, SIZE = 400, 40


@pytest.fixture
def training(owner, rng):
    columns = {"a": rng.uniform(-1, 1, ROWS), "b": rng.uniform(-1, 1, ROWS), "y": rng.integers(0, 2, ROWS)}
    bounds = {"a": (-1, 1), "b": (-1, 1), "y": (0, 1)}
    return lambda name, epsilon: make_table(owner, columns, bounds, epsilon, name=name)


def stepper(owner):
    model = nn.Linear(2, 2).to(owner.device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def train(x, y):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    train.model = model
    return train


def batches(table, epochs):
    return table.batches(["a", "b"], label="y", size=SIZE, epochs=epochs)


def test_a_loop_costs_what_single_steps_cost(owner, training, seed):
    single, looped = training("single", 100.0), training("looped", 100.0)
    train = sojourn.step(stepper(owner))
    with sojourn.privacy(single, epsilon=3, delta=DELTA, epochs=4) as one:
        for x, y in batches(single, 4):
            train(x, y)
    with sojourn.privacy(looped, epsilon=3, delta=DELTA, epochs=4) as many:
        before = owner.counters()["round_trips"]
        sojourn.loop(stepper(owner), batches(looped, 4), 16)
        assert owner.counters()["round_trips"] - before < 12
    assert one.taken == many.taken == 40
    assert one.epsilon == many.epsilon
    assert owner.budget("single").epsilon_left == owner.budget("looped").epsilon_left


def test_a_plan_ends_a_loop_where_it_ends_single_steps(owner, training, seed):
    """Its step after the last that is paid for is one of several in a message."""

    def more(planned):
        yield from planned
        yield from planned

    taken, left = [], []
    for name, run in (("one", lambda f, b: [f(*each) for each in b]), ("other", lambda f, b: sojourn.loop(f, b, 16))):
        table = training(name, 100.0)
        with sojourn.privacy(table, epsilon=2.0, delta=DELTA) as spent:
            train, planned = stepper(owner), batches(table, 1)
            with pytest.raises(sojourn.BudgetExhausted, match="plan has 10 steps") as failure:
                run(train if name == "other" else sojourn.step(train), more(planned))
            taken.append(spent.taken)
        left.append(owner.budget(name).epsilon_left)
    assert failure.value.steps == 10 and "step 8 of the" in str(failure.value)
    assert taken == [10, 10] and left[0] == left[1]


def test_weights_of_a_loop_are_noised_anew_in_each_step(owner, training, seed):
    """What a loop publishes are its own draws: two from one state differ, and so do their steps."""
    table = training("table", 2.0**19)
    model = nn.Linear(2, 2).to(owner.device)

    def look(x, y):
        loss = F.cross_entropy(model(x), y)
        return sojourn.publish(loss)

    with sojourn.privacy(table, noise_multiplier=0.5, delta=DELTA):
        losses = [float(loss) for loss in sojourn.loop(look, batches(table, 4), 16)]
    assert np.isfinite(losses).all() and len(set(losses)) > 30
