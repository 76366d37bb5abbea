# SPDX-License-Identifier: Apache-2.0
"""Steps that update their weights more than once, each time with gradients at what the last update gave.

Each update's gradients are clipped and noised for themselves; what follows depends on the noised ones. Oracles: the
same updates by torch in float64 with the gradients of single rows, clipped; and runs on neighbouring tables in which
the first noise is chosen so that the first release is the same.
"""

import copy
import math

import numpy as np
import pytest
import torch
from corpus import CASES, SEVERAL, classify, reconstruct
from private_step import PrivateStep, absent, total_norm
from programs import record
from sums import options_of

F64 = torch.float64
# Per update the tensors that are released, of which every parameter counts once.
TENSORS = {
    "two_steps": [4, 4], "three_momentum": [4, 4, 4], "three_adam": [4, 4, 4], "two_optimizers": [4, 4],
    "masked_twice": [4, 4], "words_twice": [17, 17],
}  # fmt: skip


def test_table_is_complete():
    assert TENSORS.keys() == SEVERAL


@pytest.mark.parametrize("name", TENSORS)
def test_each_update_is_a_release(name):
    """All on one draw: their parts of the step's rho add up to that of one update, whatever their number."""
    r = record(name)
    step = PrivateStep(r.program, r.text, r.bounds)
    assert [site.what for site in step.sites] == [f"gradient of {count} tensors" for count in TENSORS[name]]
    assert f"draw 0: 8 rows, {len(step.sites)} releases" in step.remarks
    for site in step.sites:
        assert site.cost == pytest.approx(0.475 / len(step.sites), rel=1e-4)
    assert sum(site.cost for site in step.sites) <= 0.475


def updates_of(name, model):
    """Loss, names of parameters and learning rate of each update."""
    every = [name for name, _ in model.named_parameters()]
    if name == "two_optimizers":
        return [
            (loss, [name for name in every if name.startswith(parts)])
            for loss, parts in ((reconstruct, ("code", "back")), (classify, ("code", "head")))
        ]
    return [(CASES[name].loss, every)] * 2


def parts_of(model, loss, names, x, y):
    """Per row the gradients of its part of the mean."""
    rows = []
    for k in range(len(x)):
        gradients = torch.autograd.grad(
            loss(model, x[k : k + 1], y[k : k + 1]) / len(x), [dict(model.named_parameters())[name] for name in names]
        )
        rows.append([g.numpy() for g in gradients])
    return rows


@pytest.mark.parametrize("name", ["two_steps", "two_optimizers"])
def test_values(name):
    """Weights after the step: each update with its rows clipped at the weights that the last one left."""
    r = record(name, F64)
    model, bound = copy.deepcopy(r.model).double(), None
    x, y = r.x.double(), r.y
    for loss, names in updates_of(name, model):
        parts = parts_of(model, loss, names, x, y)
        norms = np.array([total_norm(part) for part in parts])
        bound = bound or float(np.median(norms))
        factors = np.minimum(1, bound / norms)
        assert (factors < 1).any() and (factors == 1).any(), "the bound clips some rows of each update"
        with torch.no_grad():
            for k, parameter in enumerate(dict(model.named_parameters())[name] for name in names):
                parameter -= 0.1 * torch.from_numpy(sum(f * part[k] for f, part in zip(factors, parts)))
    # The grid is as fine as the noise is small.
    step = PrivateStep(r.program, r.text, options_of(r, bound, "noise-multiplier=1e-3"))
    values = step.run(step.args(r.args))
    for name, expected in model.named_parameters():
        state = r.argument_of(name)
        (result,) = [one for one in step.program.results if one.kind == "commit" and one.target == state]
        assert np.abs(values[result.value] - expected.detach().numpy()).max() <= 1e-8 * bound, name


@pytest.mark.parametrize("name", TENSORS)
def test_neighbours(name, rng):
    """A row moves each release by at most the proved sensitivity, given the releases before it."""
    r = record(name, F64)
    bound = 0.01
    step = PrivateStep(r.program, r.text, options_of(r, bound))
    generator = np.random.default_rng(rng.getrandbits(64))
    coins = {
        coin: np.rint(generator.normal(0, site.noise, step.program.args[coin].type.shape)).astype(np.int64)
        for site in step.sites
        for coin in site.coins
    }
    values = step.run(step.args(r.args, coins))
    released = {coin: units + coins[coin] for coin, units in step.units(values).items()}
    for slot in rng.sample(range(len(r.rows)), 3):
        other = dict(coins)
        for site in step.sites:
            # The coins that give the same release; later ones are a function of it.
            moved = step.units(step.run(step.args(r.args, other), absent([slot])))
            difference = []
            for coin in site.coins:
                if coin in moved:
                    other[coin] = (released[coin] - moved[coin]).astype(np.int64)
                    difference.append(moved[coin] - (released[coin] - coins[coin]))
            change = total_norm(difference)
            assert change <= site.sensitivity, f"slot {slot} moves a release by {change} of {site.sensitivity}"
            assert change > 0 or CASES[name].label == "masked", "a row without a label counts nothing"
        rest = step.run(step.args(r.args, other), absent([slot]))
        for result in step.program.results:
            if result.kind == "commit":
                assert (values[result.value] == rest[result.value]).all(), "what follows is a function of the releases"


def test_a_second_update_sees_the_first_ones_noise():
    """Noise on the first release changes what the second one sums."""
    r = record("two_steps", F64)
    step = PrivateStep(r.program, r.text, options_of(r, 0.01))
    first, second = step.sites
    quiet = step.sums(step.run(step.args(r.args)))
    noised = step.sums(
        step.run(step.args(r.args, {coin: np.full_like(quiet[coin], first.noise) for coin in first.coins}))
    )
    assert all((quiet[coin] == noised[coin]).all() for coin in first.coins)
    moved = total_norm([quiet[coin] - noised[coin] for coin in second.coins])
    assert 0 < moved < math.inf
