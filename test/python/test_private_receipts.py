# SPDX-License-Identifier: Apache-2.0
"""What receipts say of a price: four figures, of two relations and of two ways to read Renyi divergences.

The oracle is written out here from the noise that the receipt names: divergences of single mechanisms (Mironov 2017;
Mironov, Talwar, Zhang 2019), and the epsilon of the best order (Canonne, Kamath, Steinke 2020, proposition 12).
"""

import math

import pytest
import torch
from private_support import DELTA, make_table, numpy_rng, own_owner  # noqa: F401

import sojourn

ROWS, SIZE = 120, 24
ORDERS = [2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024]


@pytest.fixture
def table(owner, rng):
    return make_table(owner, {"a": rng.uniform(-1, 1, ROWS)}, {"a": (-1.0, 1.0)}, 50, subject=None)


def pure(order, epsilon):
    likely, other = -math.log1p(math.exp(-epsilon)), -epsilon - math.log1p(math.exp(-epsilon))
    logs = order * likely + (1 - order) * other, order * other + (1 - order) * likely
    return (max(logs) + math.log1p(math.exp(min(logs) - max(logs)))) / (order - 1)


def sampled(order, q, rho):
    logs = [
        math.lgamma(order + 1)
        - math.lgamma(k + 1)
        - math.lgamma(order - k + 1)
        + ((order - k) * math.log1p(-q) if q < 1 else (0 if k == order else -math.inf))
        + k * math.log(q)
        + k * (k - 1) * rho
        for k in range(order + 1)
    ]
    most = max(logs)
    return (most + math.log(sum(math.exp(each - most) for each in logs))) / (order - 1)


def best(divergence):
    """The least epsilon at DELTA over all integer orders; between those that are charged by the chord of (a-1) R_a."""
    known = {order: (order - 1) * divergence(order) for order in ORDERS}

    def chord(order):
        below, above = (max(each for each in ORDERS if each <= order), min(each for each in ORDERS if each >= order))
        share = 0 if below == above else (order - below) / (above - below)
        return known[below] if share == 0 else (1 - share) * known[below] + share * known[above]

    return min(
        chord(order) / (order - 1) + math.log((order - 1) / order) - (math.log(DELTA) + math.log(order)) / (order - 1)
        for order in range(2, 1025)
    )


def by_null_row(divergence):
    """D_a(P || Q) by way of R, at the next accounted order that is at least 2 a."""

    def bound(order):
        twice = next((each for each in ORDERS if each >= 2 * order), None)
        return math.inf if twice is None else divergence(twice) * ((order - 0.5) / (order - 1) + 1)

    return bound


def ratio(receipt):
    (noise,) = receipt.noise
    return noise["sensitivity_int"] / noise["sigma_int"]


def check(receipt, null_one, replace_one):
    (price,) = receipt.price
    assert price["epsilon_of_best_order"] == pytest.approx(best(null_one), rel=1e-4)
    assert price["epsilon_replace_one_of_best_order"] == pytest.approx(best(replace_one), rel=1e-4)
    # A grant admits by several orders, each with a share of delta: more than the best alone.
    for name in ("epsilon", "epsilon_replace_one"):
        assert 1 <= price[name] / price[f"{name}_of_best_order"] < 1.35
    assert price["epsilon_replace_one"] > price["epsilon"]
    text = repr(receipt)
    assert f"paid     epsilon {price['epsilon']:.4g} at delta 1e-05 (null_one)" in text
    assert f"by the best order epsilon {price['epsilon_of_best_order']:.4g};" in text
    assert (
        f"(replace_one) {price['epsilon_replace_one']:.4g}, by the best order "
        f"{price['epsilon_replace_one_of_best_order']:.4g}" in text
    )


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 4.0])
def test_gaussian_noise_of_all_rows(table, epsilon):
    receipt = sojourn.publish(table["a"].mean(), epsilon=epsilon, delta=DELTA).receipt
    rho = ratio(receipt) ** 2 / 2
    check(receipt, lambda order: order * rho, lambda order: order * 4 * rho)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 4.0])
def test_laplace_noise(table, epsilon):
    receipt = sojourn.publish(table["a"].mean(), epsilon=epsilon).receipt
    spent = ratio(receipt)

    check(receipt, lambda order: pure(order, spent), lambda order: pure(order, 2 * spent))


def test_gaussian_noise_of_a_batch(owner, table):
    """A release beside the step of a Poisson batch: amplified under both relations."""
    x = next(iter(table.batches(["a"], size=SIZE)))
    with sojourn.step():
        published = sojourn.publish(x.mean(), epsilon=0.8, delta=DELTA)
    receipt = published.receipt
    rho, q = ratio(receipt) ** 2 / 2, SIZE / ROWS

    def null_one(order):
        return sampled(order, q, rho)

    def replace_one(order):
        return min(4 * order * rho, by_null_row(null_one)(order))

    check(receipt, null_one, replace_one)
    assert receipt.price[0]["epsilon_replace_one_of_best_order"] < best(lambda order: order * 4 * rho), "amplified"


def test_of_a_step_that_spends_too_only_what_is_beside_it(owner, table):
    """One batch is one charge: a receipt says what its release added to the step's part."""
    w = torch.ones(1).to(owner.device)
    sojourn.flush()
    x = next(iter(table.batches(["a"], size=SIZE)))
    with sojourn.privacy(table, noise_multiplier=2.0, delta=DELTA, size=SIZE, epochs=1):
        with sojourn.step():
            w -= ((x @ w.detach() - 1).unsqueeze(1) * x).mean(0)
            published = sojourn.publish(x.mean(), epsilon=0.8, delta=DELTA)
    receipt = published.receipt
    step, both, q = 1 / 8, 1 / 8 + ratio(receipt) ** 2 / 2, SIZE / ROWS

    def added(price):
        return lambda order: price(order, both) - price(order, step)

    def replaced(order, rho):
        return min(4 * order * rho, by_null_row(lambda each: sampled(each, q, rho))(order))

    check(receipt, added(lambda order, rho: sampled(order, q, rho)), added(replaced))
