# SPDX-License-Identifier: Apache-2.0
"""Training on a private table without `sojourn.privacy`: the first step says what it costs, once.

Oracle: the price of a run of the same noise, batches and steps.
"""

import logging
import re
import subprocess
import sys

import pytest
import torch
from private_support import DELTA, make_table, numpy_rng, own_owner  # noqa: F401
from torch import nn

import sojourn

ROWS = 96
BOUNDS = {"a": (-1.0, 1.0), "y": (-1.0, 1.0)}
LINE = (
    r"training on private table '(?P<table>\w+)' uses the owner's defaults: noise multiplier (?P<noise>\S+), clip "
    r"(?P<clip>\S+), sampling rate (?P<rate>\S+); a step costs epsilon (?P<epsilon>\S+) at delta (?P<delta>\S+), "
    r"and the whole grant of epsilon (?P<granted>\S+) pays for (?P<steps>\d+) such steps; plan a run with "
    r"sojourn\.privacy\("
)


def columns(rng):
    return {column: rng.uniform(-1, 1, ROWS) for column in BOUNDS}


def register(owner, rng, name="people", epsilon=5.0, policy="private"):
    return make_table(owner, columns(rng), BOUNDS, epsilon, name, policy)


def trainer(owner):
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sojourn.to_owner(model, owner, optimizer)

    @sojourn.step
    def train(*batches):
        optimizer.zero_grad()
        sum(((model(x) - y.unsqueeze(1)) ** 2).mean() for x, y in batches).backward()
        optimizer.step()

    return train


def batches(table, size=16, epochs=1):
    return table.batches(["a"], label="y", size=size, epochs=epochs)


def lines(caplog):
    found = [re.search(LINE, record.getMessage()) for record in caplog.records if record.name == "sojourn"]
    assert all(found), [record.getMessage() for record in caplog.records]
    return found


def test_the_first_step_says_what_it_cost(owner, rng, caplog):
    table = register(owner, rng)
    train = trainer(owner)
    taken = iter(batches(table))
    train(next(taken))
    (line,) = lines(caplog)
    assert (line["table"], float(line["granted"]), float(line["delta"])) == ("people", 5, DELTA)
    assert (float(line["noise"]), float(line["clip"])) == table.defaults[:2] == (1, 1)
    assert float(line["rate"]) == pytest.approx(16 / ROWS, rel=1e-3)
    run = sojourn.privacy(table, noise_multiplier=1.0, delta=DELTA, size=16, epochs=1)
    assert float(line["epsilon"]) == pytest.approx(run.quote(1).epsilon, rel=1e-3)
    steps = int(line["steps"])
    assert run.quote(steps).epsilon <= 5 < run.quote(steps + 1).epsilon
    for batch in taken:
        train(batch)
    assert len(lines(caplog)) == 1


def test_each_table_says_so_once_and_two_draws_cost_twice(owner, rng, caplog):
    first, second = register(owner, rng), register(owner, rng, "others", epsilon=7)
    train = trainer(owner)
    train(*list(batches(first))[:2])
    train(next(iter(batches(second, size=8))))
    train(next(iter(batches(first))))
    both, other = lines(caplog)
    assert (both["table"], other["table"]) == ("people", "others")
    run = sojourn.privacy(first, noise_multiplier=1.0, delta=DELTA, size=16, epochs=1)
    assert float(both["epsilon"]) == pytest.approx(run.quote(2).epsilon, rel=1e-3)
    assert float(other["rate"]) == pytest.approx(8 / ROWS, rel=1e-3) and float(other["granted"]) == 7


def test_nothing_is_said_where_the_price_was_chosen_or_nothing_is_spent(owner, rng, caplog):
    table, open_one = register(owner, rng), register(owner, rng, "open", policy="open")
    train = trainer(owner)
    train(next(iter(batches(open_one))))
    sojourn.publish(table["a"].mean(), epsilon=0.5)
    with sojourn.privacy(table, noise_multiplier=2.0, delta=DELTA):
        for batch in batches(table):
            train(batch)
    assert not lines(caplog)
    train(next(iter(batches(table))))  # the same program, without terms
    assert len(lines(caplog)) == 1


def test_a_step_that_is_refused_says_nothing(owner, rng, caplog):
    table = register(owner, rng, epsilon=0.01)
    with pytest.raises(sojourn.BudgetExhausted):
        trainer(owner)(next(iter(batches(table))))
    assert not lines(caplog)


def test_each_connection_says_so(rng, caplog):
    for _ in range(2):
        with sojourn.local() as owner:
            trainer(owner)(next(iter(batches(register(owner, rng)))))
    assert len(lines(caplog)) == 2
    assert all(record.levelno == logging.WARNING for record in caplog.records)


SCRIPT = """
import numpy, sojourn, torch
with sojourn.local() as owner:
    table = owner.register("people", {"a": numpy.zeros(40)}, policy="private", bounds={"a": (-1.0, 1.0)})
    owner.grant("people", epsilon=5, delta=1e-5)
    w = torch.zeros(1, device=owner.device)
    for x in table.batches(["a"], size=8):
        with sojourn.step():
            w -= ((x @ w.detach() - 1).unsqueeze(1) * x).mean(0)
"""


def test_it_is_seen_without_any_setting():
    """Python prints warnings of a logger that nobody has configured."""
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=300)
    assert len(re.findall(LINE, ran.stderr)) == 1, ran.stderr
