# SPDX-License-Identifier: Apache-2.0
"""Steps on private tables that update weights more than once, or by gradients that do not depend on them.

Oracles: eager PyTorch on the whole table (every row in every batch, hardly any noise), and prices of runs.
"""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from private_support import DELTA, PLENTY, make_table, numpy_rng, own_owner  # noqa: F401
from torch import nn

import sojourn

ROWS, FEATURES = 64, ["a", "b", "c"]
BOUNDS = {**dict.fromkeys(FEATURES, (-1.0, 1.0)), "y": (0, 1)}


@pytest.fixture
def data(rng):
    return {name: rng.uniform(-1, 1, ROWS) for name in FEATURES} | {"y": rng.integers(0, 2, ROWS)}


@pytest.fixture
def table(owner, data):
    return make_table(owner, data, BOUNDS)


def whole(data):
    """All rows, as a batch of every row gives them."""
    x = torch.tensor(np.stack([data[name] for name in FEATURES], 1), dtype=torch.float32)
    return x, torch.tensor(data["y"])


def network(outputs=2):
    return nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, outputs))


def classify(model, optimizer, x, y):
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()


def inner_loop(models, optimizers, batches):
    for _ in range(3):
        classify(models[0], optimizers[0], *batches[0])


def draw_by_draw(models, optimizers, batches):
    for batch in batches:
        classify(models[0], optimizers[0], *batch)


def accumulated(models, optimizers, batches):
    optimizers[0].zero_grad()
    for x, y in batches:
        F.cross_entropy(models[0](x), y).backward()
    optimizers[0].step()


def two_models(models, optimizers, batches):
    """The second one learns from what the first, updated one says of the same rows."""
    x, y = batches[0]
    classify(models[0], optimizers[0], x, y)
    classify(models[1], optimizers[1], models[0](x).detach().repeat(1, 2)[:, :3], y)


def linear(models, optimizers, batches):
    x, y = batches[0]
    optimizers[1].zero_grad()
    ((models[1][0](x)).sum(1) * (2.0 * y - 1)).mean().backward()
    optimizers[1].step()


STEPS = {  # how many draws each takes
    inner_loop: 1,
    draw_by_draw: 2,
    accumulated: 2,
    two_models: 1,
    linear: 1,
}


def parts():
    """Two models with optimizers that remember."""
    models = [network(), network()]
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.5) for model in models]
    return models, optimizers


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_every_row_and_hardly_any_noise(owner, table, data, step):
    models, optimizers = parts()
    eager, others = parts()
    for ours, theirs, optimizer in zip(models, eager, optimizers):
        theirs.load_state_dict(ours.state_dict())
        sojourn.to_owner(ours, owner, optimizer)
    with sojourn.privacy(table, noise_multiplier=0.02, delta=DELTA, clip=20.0):
        drawn = iter(table.batches(FEATURES, label="y", size=ROWS, epochs=3 * STEPS[step]))
        for _ in range(3):
            batches = [next(drawn) for _ in range(STEPS[step])]
            with sojourn.step():
                step(models, optimizers, batches)
            del batches
            step(eager, others, [whole(data)] * STEPS[step])
    for ours, theirs in zip(models, eager):
        released = sojourn.publish(ours.state_dict())
        for name, value in theirs.state_dict().items():
            assert (released[name] - value).abs().max() < 0.15, name


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_a_step_costs_what_its_draws_cost(owner, table, step):
    """Whatever was computed of a draw: the noise grows, not the price."""
    models, optimizers = parts()
    for model, optimizer in zip(models, optimizers):
        sojourn.to_owner(model, owner, optimizer)
    with sojourn.privacy(table, noise_multiplier=1.0, delta=DELTA) as run:
        drawn = iter(table.batches(FEATURES, label="y", size=8, epochs=1))
        for _ in range(2):
            with sojourn.step():
                step(models, optimizers, [next(drawn) for _ in range(STEPS[step])])
    assert PLENTY - owner.budget("people").epsilon_left == pytest.approx(run.quote(2 * STEPS[step]).epsilon, rel=1e-6)
    released = sojourn.publish([model.state_dict() for model in models])
    assert all(torch.isfinite(value).all() for state in released for value in state.values())


def test_adversaries(owner, table):
    """The generator learns from a discriminator that was updated in the same step: of released values alone."""
    generator, critic = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 3)), network(1)
    optimizers = [torch.optim.Adam(model.parameters()) for model in (generator, critic)]
    for model, optimizer in zip((generator, critic), optimizers):
        sojourn.to_owner(model, owner, optimizer)
    before = sojourn.publish([generator.state_dict(), critic.state_dict()])
    with sojourn.privacy(table, noise_multiplier=1.0, delta=DELTA) as run:
        for x in table.batches(FEATURES, size=16, epochs=1):
            with sojourn.step():
                z = torch.randn(16, 2, device=owner.device)
                optimizers[1].zero_grad()
                real = F.softplus(-critic(x)).mean()
                (real + F.softplus(critic(generator(z).detach())).mean()).backward()
                optimizers[1].step()
                optimizers[0].zero_grad()
                F.softplus(-critic(generator(z))).mean().backward()
                optimizers[0].step()
    after = sojourn.publish([generator.state_dict(), critic.state_dict()])
    assert all(not torch.equal(a[name], b[name]) for a, b in zip(before, after) for name in a)
    assert PLENTY - owner.budget("people").epsilon_left == pytest.approx(run.epsilon, rel=1e-6)


def test_the_noise_of_an_update_grows_with_their_number(owner, table):
    """Three gradients of one draw share what one has: each has 1.7 times the noise."""
    reports = []
    for step in (draw_by_draw, inner_loop):
        models, optimizers = parts()
        sojourn.to_owner(models[0], owner, optimizers[0])
        with sojourn.privacy(table, noise_multiplier=1.0, delta=DELTA):
            with sojourn.step():
                step(models, optimizers, [next(iter(table.batches(FEATURES, label="y", size=8)))])
        reports.append(owner.programs(with_text=True)[-1]["privacy"])
    assert [report.count("gradient of 4 tensors") for report in reports] == [1, 3]


def test_weights_that_never_met_rows(owner, table, data):
    """A loss linear in the weights, from the step on that brings them along: released, not kept as they are."""
    weight = torch.zeros(3, device=owner.device, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    x, y = whole(data)
    gradient = (x * (2.0 * y - 1)[:, None]).mean(0)
    with sojourn.privacy(table, noise_multiplier=0.01, delta=DELTA, clip=20.0):
        for count, (rows, labels) in enumerate(table.batches(FEATURES, label="y", size=ROWS, epochs=3), 1):
            with sojourn.step():
                optimizer.zero_grad()
                (rows @ weight * (2.0 * labels - 1)).mean().backward()
                optimizer.step()
            released = sojourn.publish(weight.detach())
            assert (released + 0.1 * count * gradient).abs().max() < 0.02


def test_a_sum_that_is_not_trained_is_refused(owner, table):
    total = torch.zeros(()).to(owner.device)
    sojourn.flush()
    x = next(iter(table.batches(FEATURES, size=8)))
    with pytest.raises(sojourn.Refused, match="publish the sum inside the step, and add up the published values"):
        with sojourn.step():
            total += x.sum()


def test_a_gradient_of_a_gradient_is_refused(owner, table):
    """What an inner update gives is differentiated through: each row would meet the other rows' gradients."""
    models, optimizers = parts()
    sojourn.to_owner(models[0], owner, optimizers[0])
    x, y = next(iter(table.batches(FEATURES, label="y", size=8)))
    with pytest.raises(sojourn.Refused, match="meets rows again only through the parameters that it updates"):
        with sojourn.step():
            parameters = dict(models[0].named_parameters())
            loss = F.cross_entropy(models[0](x), y)
            inner = torch.autograd.grad(loss, list(parameters.values()), create_graph=True)
            updated = {name: p - 0.1 * g for (name, p), g in zip(parameters.items(), inner)}
            optimizers[0].zero_grad()
            F.cross_entropy(torch.func.functional_call(models[0], updated, (x,)), y).backward()
            optimizers[0].step()
