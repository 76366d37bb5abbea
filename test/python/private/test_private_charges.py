# SPDX-License-Identifier: Apache-2.0
"""What an owner charges and releases, step by step, on an embedded owner with coins of its own.

Oracles: the Rényi divergence of the sampled Gaussian, written here from its definition (Mironov, Talwar, Zhang 2019) and
turned into epsilon by its best order, which no filter undercuts; the binomial tail; and bits that must differ.
"""

import itertools
import math

import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch
from private_support import DELTA, own_owner  # noqa: F401
from sampled_gaussian import rdp_of_sampled_gaussian
from torch import nn

import sojourn

BOUNDS = {"a": (-1.0, 1.0), "b": (-1.0, 1.0)}


def zeros(rows):
    return {name: np.zeros(rows) for name in BOUNDS}


def register(owner, data, epsilon=1e6, delta=DELTA):
    table = owner.register("people", data, policy="private", bounds=BOUNDS)
    owner.grant("people", epsilon=epsilon, delta=delta)
    return table


def spent(owner, epsilon=1e6):
    return epsilon - owner.budget("people").epsilon_left


def epsilon_of(rate, rho, delta=DELTA):
    """At the best order, all of delta for it: no more than any owner that composes at such orders may charge."""
    return min(
        rdp_of_sampled_gaussian(order, rate, rho)
        + math.log1p(-1 / order)
        - (math.log(delta) + math.log(order)) / (order - 1)
        for order in range(2, 257)
    )


def test_releases_of_one_batch_are_one_charge(owner):
    """A loss with a price of its own, published of the batch that trains: amplified together, never apart."""
    rows, size, bound = 4000, 8, 3.0
    table = register(owner, zeros(rows))
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sojourn.to_owner(model, owner, optimizer)

    @sojourn.step
    def train(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return sojourn.publish(loss.detach(), epsilon=14.0, delta=1e-6, bound=bound)

    with sojourn.privacy(table, noise_multiplier=0.5, delta=DELTA):
        for x in table.batches(["a", "b"], size=size, epochs=1):
            loss = train(x)
            break
    # A row moves the mean over the rows that are expected by bound / size.
    rho = (bound / size / loss.stderr) ** 2 / 2
    step = 1 / (2 * 0.5**2)
    together, apart = epsilon_of(size / rows, step + rho), epsilon_of(size / rows, step)
    print(f"rho {rho}, together {together}, the step alone {apart}, charged {spent(owner)}")
    assert apart < together / 2 and epsilon_of(size / rows, rho) < together / 2
    assert together * (1 - 1e-6) <= spent(owner) <= 1.25 * together


def test_a_cheap_release_beside_a_step(owner):
    """Costs are rounded up, so at some orders the release adds nothing to the cost of the step: it is paid all the same."""
    table = register(owner, zeros(1_000_000))
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sojourn.to_owner(model, owner, optimizer)

    @sojourn.step
    def train(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return sojourn.publish(loss.detach(), epsilon=0.02, delta=1e-6, bound=3.0)

    with sojourn.privacy(table, noise_multiplier=4, delta=DELTA):
        for x in itertools.islice(table.batches(["a", "b"], size=32), 2):
            assert math.isfinite(float(train(x).value))
    assert spent(owner) > 0


def test_overflow_of_draws_is_charged(owner):
    """More rows than slots are drawn with a chance below 2^-60, which delta pays for: one as small does not."""
    rows, size = 20000, 58
    table = owner.register("people", zeros(rows), policy="private", bounds=BOUNDS)
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sojourn.to_owner(model, owner, optimizer)

    @sojourn.step
    def train(x):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    batches = iter(table.batches(["a", "b"], size=size, epochs=1))
    slots = next(batches).shape[0]
    mass = scipy.stats.binom.sf(slots, rows, size / rows)
    assert 2.0**-61 < mass < 2.0**-60, slots
    # Whatever else may fail is far below that chance, and would be paid by three times as much.
    owner.grant("people", epsilon=1e6, delta=3 * mass)
    with pytest.raises(sojourn.BudgetExhausted):
        train(next(batches))
    owner.grant("people", epsilon=1e6, delta=mass * 1000)
    train(next(batches))
    assert spent(owner) > 0


@pytest.mark.parametrize("delta", [None, 1e-6], ids=["laplace", "gaussian"])
def test_each_release_has_noise_of_its_own(owner, delta):
    """Sums of zeros are noise alone: of two columns, of two parts of one vector, of two steps, never the same."""
    table = register(owner, zeros(50))
    seen = []
    for _ in range(3):
        both = sojourn.publish({"a": table["a"].sum(), "b": table["b"].sum()}, epsilon=1.0, delta=delta)
        seen += [float(both.value["a"]), float(both.value["b"])]
        columns = torch.stack([table["a"], table["b"]], 1)
        seen += sojourn.publish(columns.sum(0), epsilon=1.0, delta=delta).value.tolist()
    assert len({abs(number) for number in seen}) == len(seen) == 12, seen


def test_each_gradient_has_noise_of_its_own(owner):
    """Two parameters of one shape and no gradient: what p.grad holds is noise."""
    table = register(owner, zeros(50))
    first, second = (nn.Parameter(torch.zeros(3, dtype=torch.float64)) for _ in range(2))
    optimizer = torch.optim.SGD([first, second], lr=0.1)
    model = nn.Module()
    model.first, model.second = first, second
    sojourn.to_owner(model, owner, optimizer)

    @sojourn.step
    def train(x):
        optimizer.zero_grad()
        a, b = x[:, 0].double(), x[:, 1].double()
        ((a[:, None] * model.first) ** 2 + (b[:, None] * model.second) ** 2).sum(1).mean().backward()
        optimizer.step()

    with sojourn.privacy(table, noise_multiplier=1.0, delta=DELTA):
        for x in itertools.islice(table.batches(["a", "b"], size=50, epochs=3), 3):
            train(x)
    one, two = (sojourn.publish(p.grad).tolist() for p in (model.first, model.second))
    assert len({abs(number) for number in one + two}) == 6, (one, two)
    assert all(one + two)


def test_what_is_kept_beside_a_release_stays_private(owner):
    """A sum that is kept without noise in a step that releases another one; no later step publishes it."""
    table = register(owner, zeros(50))
    kept = []

    @sojourn.step
    def look():
        kept.append(table["a"].sum())
        return sojourn.publish(table["b"].sum(), epsilon=1.0)

    look()
    before = spent(owner)
    for use in (lambda x: x, lambda x: x * 2, lambda x: x.to(torch.float32).exp()):
        with pytest.raises(sojourn.Refused, match="private dataset 'people'"):
            sojourn.publish(use(kept[0]))
    with pytest.raises(sojourn.Refused, match="private dataset 'people'"):
        sojourn.publish(kept[0], epsilon=1.0)
    assert spent(owner) == before


def test_a_cached_plan_is_not_one_for_other_labels(owner):
    """One program, first with a public argument and then with a private one in its place."""
    table = register(owner, zeros(50))

    @sojourn.step
    def look(number):
        return sojourn.publish(number * 2), sojourn.publish(table["b"].sum(), epsilon=1.0)

    public = torch.full((), 3.0, dtype=torch.float64, device=owner.device)
    private = table["a"].sum() + 5
    sojourn.flush()
    for _ in range(2):
        doubled, _ = look(public)
        assert doubled.value == 6
    before = spent(owner)
    with pytest.raises(sojourn.Refused):
        look(private)
    assert spent(owner) == before
    doubled, _ = look(public)
    assert doubled.value == 6
