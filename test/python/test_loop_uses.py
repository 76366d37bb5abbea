# SPDX-License-Identifier: Apache-2.0
"""Loops over what callers bring: gradients that they drop, schedulers, wrapped functions, own sequences and sources."""

import copy

import pytest
import torch
from loop_support import Training, calls_of, failing_owner  # noqa: F401 (the fixture `failing`)
from remote_support import shared_owner
from replay_support import mlp
from torch import nn
from wire_support import wired_owner  # noqa: F401 (the fixture `wire`)

import sojourn


def test_gradients_that_the_caller_drops_between_steps(seed):
    """What the last held step makes may be gone before it is sent."""
    first, calls = mlp(), calls_of(20)
    for runtime in ("native", "numpy"):
        looped = Training(shared_owner(runtime).device, first)
        beside = Training(shared_owner(runtime).device, first)

        def generated():
            for number, call in enumerate(calls):
                if number % 5 == 4:
                    looped.optimizer.zero_grad()
                yield call

        sojourn.loop(looped.step, generated(), 5)
        beside.single(calls)
        looped.check(beside)


def test_schedulers_keep_their_optimizer_and_their_parts(failing, seed):
    training = Training(failing.device, mlp())
    inner = [torch.optim.lr_scheduler.ExponentialLR(training.optimizer, 0.9) for _ in range(2)]
    scheduler = torch.optim.lr_scheduler.SequentialLR(training.optimizer, inner, [20])
    failing.fail_in(8)
    with pytest.raises(sojourn.OwnerError) as failure:
        sojourn.loop(training.step, calls_of(20), 8, schedulers=scheduler)
    assert failure.value.steps == 7
    assert scheduler.optimizer is training.optimizer and scheduler._schedulers[0] is inner[0]
    assert scheduler.last_epoch == inner[0].last_epoch == 7
    assert training.optimizer.param_groups[0]["lr"] == pytest.approx(0.01 * 0.9**7)


def test_a_function_that_wraps_one_that_was_looped(seed):
    import functools

    device = shared_owner().device
    weight = torch.zeros(2).to(device)

    def train(x):
        weight.add_(x)

    sojourn.loop(train, [torch.ones(2).to(device)] * 4)

    @functools.wraps(train)
    def other(x):
        weight.add_(x * 100)

    sojourn.loop(other, [torch.ones(2).to(device)] * 4)
    assert torch.equal(sojourn.publish(weight), torch.full((2,), 404.0))


class Trainer(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.model = nn.Linear(3, 1).to(device)

    def forward(self, x):
        return self.model(x).sum()


def test_what_was_looped_can_be_copied(seed):
    device = shared_owner().device
    trainer = Trainer(device)
    assert len(sojourn.loop(trainer, [torch.ones(3).to(device)] * 5)) == 5
    assert len(sojourn.loop(trainer.forward, [torch.ones(3).to(device)] * 5)) == 5
    copy.deepcopy(trainer)


class Changing(list):
    """A list that is none: code of the caller's runs between steps."""

    def __init__(self, calls, model):
        super().__init__(calls)
        self.model = model

    def __iter__(self):
        for number, call in enumerate(super().__iter__()):
            self.model.train(number % 8 < 5)
            yield call


def test_lists_of_the_callers_own_kind(seed):
    def make():
        return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))

    first, calls = make(), calls_of(24)
    looped, beside = Training(shared_owner().device, first), Training(shared_owner().device, first)
    sojourn.loop(looped.step, Changing(calls, looped.model), 8)
    train = sojourn.step(beside.step)
    for x, y in Changing(calls, beside.model):
        train(x, y)
    looped.check(beside)


class Endless(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter([torch.ones(3)] * 6)


def test_sources_that_do_not_say_how_many(seed):
    device = shared_owner().device
    loader = torch.utils.data.DataLoader(Endless(), batch_size=2)
    found = sojourn.loop(lambda x: sojourn.publish(x.to(device).sum()), loader, 2, progress=True)
    assert [float(value) for value in found] == [6.0, 6.0, 6.0]


def test_a_plateau_needs_a_metric(seed):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], 0.1)
    with pytest.raises(sojourn.Error, match="needs a metric"):
        sojourn.loop(lambda x: x, [], schedulers=torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer))
    stepped = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    sojourn.loop(lambda x: x, [torch.zeros(1)] * 3, schedulers=(s for s in [stepped]))
    assert stepped.last_epoch == 3
