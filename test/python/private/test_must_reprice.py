# SPDX-License-Identifier: Apache-2.0
"""Programs that differ in one thing from another and must cost more, or get other noise.

Each price and each deviation is computed here from the definitions: Rényi divergence of the sampled Gaussian (Mironov,
Talwar, Zhang 2019) at its best order, which no filter undercuts; noise over sensitivity; the gradient's noise from its
values, of a loss that has no gradient. The number of the other program must lie outside what is allowed for the first.
"""

import dataclasses
import functools
import itertools
import math
import operator
from collections.abc import Callable

import numpy as np
import pytest
import torch
from sampled_gaussian import rdp_of_sampled_gaussian
from torch import nn

import sojourn

ROWS, SIZE, NOISE, STEPS, DELTA, GRANT = 400, 40, 1.0, 8, 1e-5, 1e6
SHARE = 0.05  # of a step's price, for what is published in it
WIDTH = 20_000  # numbers in a gradient: their deviation is known to 0.5 %


def register(owner, name="people", bounds=(0.0, 1.0), rows=ROWS, delta=DELTA, **people):
    columns = {"a": np.zeros(rows), "b": np.zeros(rows)}
    owner.register(name, columns, policy="private", bounds=dict.fromkeys(columns, bounds), **people)
    owner.grant(name, epsilon=GRANT, delta=delta)
    return owner.dataset(name)


# Prices.


@dataclasses.dataclass(frozen=True)
class Gaussian:
    """One mechanism: each row is in it with a probability of `rate`; rho = sensitivity^2 / (2 sigma^2)."""

    rate: float
    rho: float
    times: int = 1

    def rdp(self, order: int) -> float:
        one = order * self.rho if self.rate == 1 else rdp_of_sampled_gaussian(order, self.rate, self.rho)
        return self.times * one


def price_of(*mechanisms, delta: float = DELTA) -> float:
    """At the best order, all of delta for it."""

    def at(order: int) -> float:
        rest = math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
        return sum(one.rdp(order) for one in mechanisms) + rest

    return min(map(at, range(2, 257)))


RATE, RHO = SIZE / ROWS, 1 / (2 * NOISE**2)
RUN = Gaussian(RATE, RHO, STEPS)


def train(
    owner, draws=1, steps=STEPS, size=SIZE, noise=NOISE, whole=False, beside=None, delta=DELTA, tables=("people",)
):
    """Epsilon that is charged for steps of one run, and what they publish beside it."""
    made = [register(owner, name, delta=delta) for name in tables]
    weight = nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    module = nn.Module()
    module.weight = weight
    sojourn.to_owner(module, owner, optimizer)

    @sojourn.step
    def step(batches):
        optimizer.zero_grad()
        loss = functools.reduce(operator.add, ((x @ module.weight).square().mean() for x in batches))
        loss.backward()
        optimizer.step()
        return sojourn.publish(loss.detach(), **beside) if beside else None

    with sojourn.privacy(made[0], noise_multiplier=noise, delta=delta) as run:
        loops = [iter(table.batches(["a", "b"], size=size, epochs=draws * steps)) for table in made]
        for _ in range(steps):
            batches = (
                [made[0].rows(["a", "b"])] if whole else [x for loop in loops for x in itertools.islice(loop, draws)]
            )
            found = step(batches)
    spent = [GRANT - owner.budget(name).epsilon_left for name in tables]
    assert beside or spent[0] == pytest.approx(run.epsilon, rel=1e-6)
    assert all(one == pytest.approx(spent[0], rel=1e-9) for one in spent)
    return spent[0], found


def charged(**terms):
    return lambda owner: train(owner, **terms)[0]


def charged_beside(owner):
    """A loss of the batch that trains, with a price of its own: its rho is what its error says, amplified with the step's."""
    bound = 3.0
    spent, found = train(owner, beside={"epsilon": 8.0, "delta": 1e-6, "bound": bound})
    rho = (bound / SIZE / found.stderr) ** 2 / 2
    assert rho > RHO
    # What to expect follows from the error alone: the number is brought to that of a run without such releases.
    return spent * price_of(RUN) / price_of(Gaussian(RATE, RHO + rho, STEPS))


def charged_statistics(*terms):
    def measure(owner):
        table = register(owner)
        for each in terms:
            sojourn.publish(table["a"].sum(), **each)
        return GRANT - owner.budget("people").epsilon_left

    return measure


def charged_as_a_population(shared: bool):
    """Of two tables the epsilon that is left to the second, of a cap of 2, after 1.5 were spent on the first."""

    def measure(owner):
        people = {"population": "the same"} if shared else {}
        names = ("first", "second")
        for name in names:
            owner.register(name, {"a": np.zeros(ROWS)}, policy="private", bounds={"a": (0, 1)}, **people)
            owner.grant(name, epsilon=2.0, delta=DELTA)
        sojourn.publish(owner.dataset("first")["a"].sum(), epsilon=1.5)
        for asked in np.arange(2.0, 0.0, -0.05):
            try:
                sojourn.publish(owner.dataset("second")["a"].sum(), epsilon=float(asked))
                return float(asked)
            except sojourn.BudgetExhausted:
                pass
        return 0.0

    return measure


# Noise.


def gradient_noise(size=SIZE, noise=NOISE, whole=False, updates=1, **terms):
    """Standard deviation of what p.grad holds, of a loss without a gradient."""

    def measure(owner):
        table = register(owner)
        module = nn.Module()
        module.weights = nn.ParameterList(nn.Parameter(torch.zeros(2, WIDTH // 2)) for _ in range(updates))
        optimizers = [torch.optim.SGD([weight], lr=0.1) for weight in module.weights]
        for optimizer in optimizers:
            sojourn.to_owner(module, owner, optimizer)

        @sojourn.step
        def step(x):
            for weight, optimizer in zip(module.weights, optimizers):
                optimizer.zero_grad()
                before = sum(other.detach() for other in module.weights if other is not weight)  # the last ones are new
                loss = (x @ (weight + before)).square().sum(1)
                (loss.sum() if terms.get("loss") == "sum" else loss.mean()).backward()
                optimizer.step()

        with sojourn.privacy(table, noise_multiplier=noise, delta=DELTA, **terms):
            x = next(iter(table.batches(["a", "b"], size=size)))
            step(table.rows(["a", "b"]) if whole else x)
        return sojourn.publish(module.weights[-1].grad).double().std().item()

    return measure


def clipped(per_layer: bool):
    """What is left of a gradient that is in one of four tensors alone and far beyond the clip; every row is there."""

    def measure(owner):
        columns = {"a": np.ones(ROWS), "b": np.ones(ROWS)}
        table = owner.register("people", columns, policy="private", bounds=dict.fromkeys(columns, (0, 1)))
        owner.grant("people", epsilon=GRANT, delta=DELTA)
        module = nn.Module()
        module.weights = nn.ParameterList(nn.Parameter(torch.zeros(1)) for _ in range(4))
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        sojourn.to_owner(module, owner, optimizer)

        @sojourn.step
        def step(x):
            optimizer.zero_grad()
            (first, *others) = module.weights
            small = functools.reduce(operator.add, (1e-9 * k * x[:, 1] * weight for k, weight in enumerate(others, 1)))
            (1000 * x[:, 0] * first + small).mean().backward()
            optimizer.step()

        with sojourn.privacy(table, noise_multiplier=0.02, delta=DELTA, clip=1.0, per_layer=per_layer):
            step(next(iter(table.batches(["a", "b"], size=ROWS))))
        return sojourn.publish(module.weights[0].grad).item()

    return measure


def metric_error(metrics=1, bound=3.0, size=SIZE, **terms):
    """Standard error of a loss that is published in the step."""

    def measure(owner):
        table = register(owner)
        module = nn.Module()
        module.weight = nn.Parameter(torch.zeros(2))
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        sojourn.to_owner(module, owner, optimizer)

        @sojourn.step
        def step(x):
            optimizer.zero_grad()
            loss = (x @ module.weight).square().mean()
            loss.backward()
            optimizer.step()
            losses = [loss.detach(), (x @ module.weight.detach()).exp().mean()][:metrics]
            return [sojourn.publish(each, bound=bound) for each in losses]

        with sojourn.privacy(table, noise_multiplier=NOISE, delta=DELTA, **terms):
            published = step(next(iter(table.batches(["a", "b"], size=size))))
        return published[0].stderr

    return measure


def metric_error_of(metrics=1, bound=3.0, size=SIZE, share=SHARE):
    return bound / size * NOISE * math.sqrt(metrics / share)


def statistic_error(value, bounds=(0.0, 1.0), **terms):
    def measure(owner):
        table = register(owner, bounds=bounds)
        return sojourn.publish(value(table), **{"epsilon": 0.5, **terms}).stderr

    return measure


def total(table):
    return table["a"].sum()


def pair(table):
    return torch.stack([table["a"], table["b"]], 1).sum(0)


LAPLACE = math.sqrt(2) / 0.5  # deviation of a sum that a row moves by 1, at epsilon = 0.5
COLUMN = LAPLACE / 2  # of a column in [0, 1], which is summed around 1/2


@dataclasses.dataclass(frozen=True)
class Case:
    """Two programs; what is measured of each must be what is computed, up to a factor of `most`."""

    one: Callable
    two: Callable
    of_one: float
    of_two: float
    most: float
    least: float = 1 - 1e-6


def price(two, of_two):
    """Against a run of eight steps. A filter's own price is up to a quarter."""
    return Case(charged(), two, price_of(RUN), of_two, most=1.25)


def noise(one, two, of_one, of_two):
    return Case(one, two, of_one, of_two, most=1.06, least=0.95)


GRADIENT = NOISE / SIZE / math.sqrt(1 - SHARE)
CASES = {
    "two draws in a step": price(charged(draws=2), price_of(Gaussian(RATE, RHO, 2 * STEPS))),
    "twice as many steps": price(charged(steps=2 * STEPS), price_of(Gaussian(RATE, RHO, 2 * STEPS))),
    "a larger batch": price(charged(size=2 * SIZE), price_of(Gaussian(2 * RATE, RHO, STEPS))),
    "the whole table for a batch": price(charged(whole=True), price_of(Gaussian(1, RHO, STEPS))),
    "less noise": price(charged(noise=NOISE / 2), price_of(Gaussian(RATE, 4 * RHO, STEPS))),
    "a smaller delta": price(charged(delta=1e-12), price_of(RUN, delta=1e-12)),
    "a second release": Case(
        charged_statistics({"epsilon": 3.0}), charged_statistics({"epsilon": 3.0}, {"epsilon": 3.0}), 3, 6, 1.001, 0.97
    ),
    "a release of more": Case(
        charged_statistics({"epsilon": 3.0}), charged_statistics({"epsilon": 4.0}), 3, 4, 1.001, 0.999
    ),
    "two updates in a step": noise(gradient_noise(), gradient_noise(updates=2), GRADIENT, GRADIENT * math.sqrt(2)),
    "a larger clip": noise(gradient_noise(), gradient_noise(clip=2.0), GRADIENT, 2 * GRADIENT),
    "a loss that is summed": noise(gradient_noise(), gradient_noise(loss="sum"), GRADIENT, GRADIENT * SIZE),
    "fewer rows expected": noise(gradient_noise(), gradient_noise(size=SIZE // 2), GRADIENT, 2 * GRADIENT),
    "a mean over all rows": noise(gradient_noise(), gradient_noise(whole=True), GRADIENT, GRADIENT * SIZE / ROWS),
    "half of the step for metrics": noise(
        gradient_noise(), gradient_noise(metric_share=0.5), GRADIENT, GRADIENT * math.sqrt((1 - SHARE) / 0.5)
    ),
    "a clip for each of four tensors": noise(clipped(False), clipped(True), 1.0, 1 / math.sqrt(4)),
    "a larger bound": noise(metric_error(), metric_error(bound=6.0), metric_error_of(), metric_error_of(bound=6.0)),
    "a second metric": noise(metric_error(), metric_error(metrics=2), metric_error_of(), metric_error_of(metrics=2)),
    "a larger share for metrics": noise(
        metric_error(), metric_error(metric_share=0.2), metric_error_of(), metric_error_of(share=0.2)
    ),
    "a wider column": noise(statistic_error(total), statistic_error(total, (0.0, 4.0)), COLUMN, 4 * COLUMN),
    "a column around zero": noise(statistic_error(total), statistic_error(total, (-3.0, 3.0)), COLUMN, 6 * COLUMN),
    "a histogram, whose classes have no middle": noise(
        statistic_error(lambda t: (t["a"] > 0.5).sum()),
        statistic_error(lambda t: nn.functional.one_hot((t["a"] > 0.5).long(), 5).sum(0)),
        COLUMN,
        LAPLACE,
    ),
    "rows that are used twice": noise(
        statistic_error(total), statistic_error(lambda t: torch.stack([t["a"], t["a"]], 1).sum()), COLUMN, 2 * COLUMN
    ),
    "a mean of half of the table": noise(
        statistic_error(lambda t: t["a"].mean()),
        statistic_error(lambda t: t.split(0.5)[0]["a"].mean()),
        COLUMN / ROWS,
        2 * COLUMN / ROWS,
    ),
    "two numbers for one": noise(statistic_error(total), statistic_error(pair), COLUMN, 2 * COLUMN),
    "half of the epsilon": noise(statistic_error(total), statistic_error(total, epsilon=0.25), COLUMN, 2 * COLUMN),
}


@pytest.mark.parametrize("name", CASES)
def test_reprices(name):
    case = CASES[name]
    assert not case.least <= case.of_one / case.of_two <= case.most, "the two could not be told apart"
    for measure, expected in ((case.one, case.of_one), (case.two, case.of_two)):
        with sojourn.local() as owner:
            found = measure(owner)
        print(f"{name}: found {found:.6g}, expected {expected:.6g}, ratio {found / expected:.4f}")
        assert case.least <= found / expected <= case.most


def test_tables_of_one_population_share_what_is_left():
    """Of a cap of 2 no more than 0.5 is left to the second table of the same people; of other people all of it."""
    for shared, most, least in ((True, 0.55, 0.4), (False, 2.0, 1.9)):
        with sojourn.local() as owner:
            assert least <= charged_as_a_population(shared)(owner) <= most


def test_a_release_of_the_batch_beside_the_step():
    """What it adds is amplified together with the step, which costs several times as much as the run without it."""
    with sojourn.local() as owner:
        expected, found = price_of(RUN), charged_beside(owner)
    print(f"expected {expected:.6g}, found {found:.6g}")
    assert expected * (1 - 1e-6) <= found <= 1.25 * expected


def test_a_step_on_two_tables_is_charged_to_both():
    with sojourn.local() as owner:
        both, _ = train(owner, tables=("one", "two"))
    assert price_of(RUN) * (1 - 1e-6) <= both <= 1.25 * price_of(RUN)
