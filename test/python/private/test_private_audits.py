# SPDX-License-Identifier: Apache-2.0
"""Audits of whole programs at an embedded owner, whose coins nobody knows: what was given away stays within what was
charged, and the same audit flags a release that gives away more.

An audit computes a lower bound of epsilon from samples (audit.py) and compares it with the claim. A correct owner fails an
audit with a chance of at most LEVEL; with 14 of them a run raises a false alarm less than once in a million runs. A positive
control must be flagged: its noise is scaled down around the exact value, which the test knows. It misses less than
once in a million runs, too: bounds stay above the claim while rates are off by five deviations.
"""

import math

import numpy as np
import pytest
import torch
from audit import epsilon_of_one, epsilon_of_two, gaussian_epsilon, rate_between, strength_of_two
from private_support import DELTA, make_table, own_owner  # noqa: F401
from torch import nn

import sojourn

LEVEL = 5e-8
GRANT = 2.0**20
RATES = np.linspace(-1, 2, 7)  # thresholds, in units of what one row moves


def below(values, exact, factor):
    """What would have been released with so much less noise."""
    return exact + (np.asarray(values) - exact) / factor


def neighbours(owner, count=16):
    """Two tables that differ in one row: full in the first, zeros in the second."""
    columns = {"a": np.zeros(count), "b": np.zeros(count)}
    tables = []
    for name, first in (("one", 1.0), ("two", 0.0)):
        data = {key: np.array(values) for key, values in columns.items()}
        data["a"][0] = data["b"][0] = first
        tables.append(make_table(owner, data, dict.fromkeys(columns, (-1.0, 1.0)), GRANT, name))
    return tables


def published_sums(tables, runs, epsilon, delta=None):
    return [
        [float(sojourn.publish(table["a"].sum(), epsilon=epsilon, delta=delta)) for _ in range(runs)]
        for table in tables
    ]


def check_laplace(owner, runs):
    """Sums with Laplace noise at epsilon = 2; half of the noise, and half of the claim, are flagged."""
    epsilon = 2.0
    one, two = published_sums(neighbours(owner), runs, epsilon)
    found = epsilon_of_two(one, two, RATES, DELTA, LEVEL)
    control = epsilon_of_two(below(one, 1, 2), below(two, 0, 2), RATES, DELTA, LEVEL)
    print(f"at least {found:.3f} of {epsilon}, with half of the noise {control:.3f}")
    assert found <= epsilon < control
    assert found > epsilon / 2


def check_gaussian(owner, runs):
    """Sums with Gaussian noise at epsilon = 6; half of the noise is flagged."""
    epsilon = 6.0
    one, two = published_sums(neighbours(owner), runs, epsilon, 1e-6)
    found = gaussian_epsilon(strength_of_two(one, two, RATES, LEVEL), DELTA)
    anyhow = epsilon_of_two(one, two, RATES, DELTA, LEVEL)
    less = strength_of_two(below(one, 1, 2), below(two, 0, 2), RATES, LEVEL)
    control = gaussian_epsilon(less, DELTA)
    print(f"at least {found:.3f} ({anyhow:.3f} of any noise) of {epsilon}, with half of the noise {control:.3f}")
    assert max(found, anyhow) <= epsilon < control


def gradients(table, owner, runs):
    """Of so many steps on the whole table: p.grad of a weight that stays where it is, in units of what a row moves.

    A row of (1, 1) has a gradient of norm above the clip, along (1, 1); a row of zeros has none.
    """
    model = nn.Linear(2, 1, bias=False, dtype=torch.float64)
    nn.init.constant_(model.weight, 1.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    sojourn.to_owner(model, owner, optimizer)

    @sojourn.step
    def train(x):
        optimizer.zero_grad()
        (model(x.double()).square().mean() * 4).backward()
        optimizer.step()

    rows, found = table.rows, []
    with sojourn.privacy(table, noise_multiplier=1.0, delta=DELTA) as run:
        for x in table.batches(["a", "b"], size=rows, epochs=runs):
            train(x)
            gradient = sojourn.publish(model.weight.grad).reshape(-1)
            found.append(float(gradient.sum()) / math.sqrt(2) * rows)
    return np.array(found), run


def check_training(owner, runs):
    """The gradient of a step at q = 1, clipped to 1 per row, with noise multiplier 1; half of the noise is flagged."""
    tables = neighbours(owner)
    (one, run), (two, _) = (gradients(table, owner, runs) for table in tables)
    claim = run.quote(1).epsilon
    assert run.sampling_rate == 1
    strength = strength_of_two(one, two, RATES, LEVEL)
    found = max(gaussian_epsilon(strength, DELTA), epsilon_of_two(one, two, RATES, DELTA, LEVEL))
    less = strength_of_two(below(one, 1, 2), below(two, 0, 2), RATES, LEVEL)
    control = gaussian_epsilon(less, DELTA)
    print(f"at least {found:.3f} of {claim:.3f} (strength {strength:.3f} of 1), with half of the noise {control:.3f}")
    assert max(abs(one.mean() - 1), abs(two.mean())) < 8 / math.sqrt(runs)  # what is measured is the clipped row
    assert strength <= 1 and found <= claim < control


def check_one_run(owner, canaries):
    """One step of an embedding at q = 1: each row moves a number of its own if it is there, by the clip.

    The audit of one run knows no distribution and no other run, so that its bound is loose: it is an eighth of the noise
    that has to be flagged.
    """
    delta = 1e-11
    there = np.random.default_rng().random(canaries) < 0.5
    data = {"word": np.arange(canaries), "there": there.astype(np.float64)}
    bounds = {"word": (0, canaries - 1), "there": (0.0, 1.0)}
    table = owner.register("canaries", data, policy="private", bounds=bounds)
    owner.grant("canaries", epsilon=GRANT, delta=delta)
    model = nn.Embedding(canaries, 1, dtype=torch.float64)
    nn.init.zeros_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    sojourn.to_owner(model, owner, optimizer)

    @sojourn.step
    def train(word, there):
        optimizer.zero_grad()
        ((model(word).squeeze(1) - 1).square() * there.double() * 8).mean().backward()
        optimizer.step()

    with sojourn.privacy(table, noise_multiplier=2.0, delta=delta) as run:
        for word, weight in table.batches("word", label="there", size=canaries, epochs=1):
            train(word, weight)
    scores = -sojourn.publish(model.weight.grad).reshape(-1).numpy() * canaries
    claim, parts = run.quote(1).epsilon, [0.02, 0.06, 0.2, 0.6]
    found = epsilon_of_one(scores, there, parts, delta, LEVEL)
    control = epsilon_of_one(below(scores, there, 8), there, parts, delta, LEVEL)
    print(f"{canaries} canaries: at least {found:.3f} of {claim:.3f}, with an eighth of the noise {control:.3f}")
    assert 0 < found <= claim < control
    assert abs(scores[there].mean() - 1) < 20 / math.sqrt(canaries)


def test_laplace_sums(owner):
    check_laplace(owner, 2000)


def test_gaussian_sums(owner):
    check_gaussian(owner, 1500)


def test_training(owner):
    check_training(owner, 1000)


def test_canaries_in_one_run(owner):
    check_one_run(owner, 6000)


@pytest.mark.slow
def test_training_at_length(owner):
    check_training(owner, 8000)


@pytest.mark.slow
def test_sums_at_length(owner):
    check_laplace(owner, 12000)


def test_the_audits_alone(rng):
    """Mechanisms made here, whose epsilon is known: bounds below it, near it, and twice the noise is told apart."""
    generator = np.random.default_rng(rng.getrandbits(64))
    for sigma in (0.7, 2.0):
        one, two = (generator.normal(mean, sigma, 20_000) for mean in (1, 0))
        strength = strength_of_two(one, two, RATES, LEVEL)
        assert 0.7 / sigma < strength <= 1 / sigma
        exact = gaussian_epsilon(1 / sigma, 1e-3)
        assert epsilon_of_two(one, two, RATES, 1e-3, LEVEL) <= exact
        assert gaussian_epsilon(1 / sigma, 1e-6) > exact
    # The exact delta at this epsilon, by adding up the part of the first density above e^epsilon times the other one.
    x = np.linspace(-40, 40, 2_000_001)
    density = lambda mean: np.exp(-((x - mean) ** 2) / 2) / math.sqrt(2 * math.pi)
    epsilon = gaussian_epsilon(1.0, 1e-3)
    assert np.maximum(density(1) - math.exp(epsilon) * density(0), 0).sum() * (x[1] - x[0]) == pytest.approx(
        1e-3, rel=1e-4
    )
    # Randomised response with epsilon = 1 tells the truth with e / (1 + e).
    there = generator.random(20_000) < 0.5
    answers = np.where(generator.random(20_000) < math.e / (1 + math.e), there, ~there)
    found = epsilon_of_one(answers + generator.random(20_000) / 2, there, [1.0], 0.0, LEVEL)
    assert 0.85 < found <= 1
    low, high = rate_between(37, 200, 1e-3)
    assert low < 37 / 200 < high and rate_between(0, 9, 0.1)[0] == 0 and rate_between(9, 9, 0.1)[1] == 1
