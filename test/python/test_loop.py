# SPDX-License-Identifier: Apache-2.0
"""Many steps in one trip give what single steps give, bit for bit, with the trips that were asked for."""

import copy
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from remote_support import Count, shared_owner
from replay_support import OPTIMIZERS, batch, classify, mlp, same
from torch import nn

import sojourn

STEPS = 100


@pytest.fixture(params=["native", "numpy"])
def owner(request):
    sojourn.flush()
    return shared_owner(request.param)


class Pair:
    """One training twice from the same weights: a step at a time, and in loops."""

    def __init__(self, owner, make=mlp, optimizer=OPTIMIZERS["Adam"], body=classify, scheduler=None):
        first = make()
        self.owner = owner
        self.models = [copy.deepcopy(first).to(owner.device) for _ in range(2)]
        self.optimizers = [optimizer(model.parameters()) for model in self.models]
        self.schedulers = [scheduler(o) for o in self.optimizers] if scheduler else []
        self.runs = [self._run(body, model, o) for model, o in zip(self.models, self.optimizers)]
        self.single = sojourn.step(self.runs[0])

    @staticmethod
    def _run(body, model, optimizer):
        return lambda *args: body(model, optimizer, *args)

    def train(self, batches, per_trip=16, **options):
        """Both, from the same random state; the round trips of the loop."""
        state = torch.get_rng_state()
        expected = []
        for args in batches:
            expected.append(self.single(*args))
            if self.schedulers:
                self.schedulers[0].step()
        after = torch.get_rng_state()
        torch.set_rng_state(state)
        if self.schedulers:
            options["schedulers"] = self.schedulers[1]
        with Count(self.owner) as count:
            found = sojourn.loop(self.runs[1], batches, per_trip, **options)
        assert torch.equal(torch.get_rng_state(), after), "random numbers were drawn otherwise"
        same(expected, found)
        self.check()
        return count.round_trips

    def check(self):
        for ours, theirs in zip(*(model.state_dict().items() for model in self.models)):
            same(ours[1], theirs[1], ours[0])
        same(*(optimizer.state_dict() for optimizer in self.optimizers))
        for ours, theirs in zip(*(model.parameters() for model in self.models)):
            same(ours.grad, theirs.grad)
        if self.schedulers:
            same(*(scheduler.state_dict() for scheduler in self.schedulers))


def batches_of(owner, count, size=10):
    return [batch(owner.device, size) for _ in range(count)]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(owner, seed, name):
    trips = Pair(owner, optimizer=OPTIMIZERS[name]).train(batches_of(owner, STEPS), 32)
    # RAdam's first step that rectifies has other constants, and is traced again.
    assert trips <= (6 if name in ("RAdam", "RAdam in loops") else 4) + math.ceil(STEPS / 32)


@pytest.mark.parametrize("optimizer", ["SGD momentum", "AdamW"])
def test_schedulers(owner, seed, optimizer):
    pair = Pair(owner, optimizer=OPTIMIZERS[optimizer],
                scheduler=lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.05, total_steps=STEPS + 1))  # fmt: skip
    assert pair.train(batches_of(owner, STEPS)) < STEPS / 4


def test_dropout_draws_new_seeds(owner, seed):
    def make():
        return nn.Sequential(nn.Linear(6, 40), nn.Dropout(0.4), nn.Linear(40, 3))

    def body(model, optimizer, x, y):
        return sojourn.publish(classify(model, optimizer, x, y))

    Pair(owner, make, body=body).train([batch(owner.device)] * STEPS)


def test_batches_of_a_table_whose_last_is_short(seed):
    owner = shared_owner()
    rows, features = 325, [f"f{i}" for i in range(6)]
    columns = {name: torch.randn(rows) for name in features} | {"y": torch.randint(0, 3, (rows,))}
    table = owner.register(f"loop {seed}", columns, policy="open")
    pair = Pair(owner, body=lambda model, optimizer, x, y: sojourn.publish(classify(model, optimizer, x, y)))
    batches = table.batches(features, label="y", size=32, epochs=6, seed=seed % 1000)
    # An epoch has ten full batches and a short one, which does not travel with others.
    assert pair.train(batches, 64) <= 6 + 2 * 6


def test_accumulated_gradients(owner, seed):
    def body(model, optimizer, x, y, is_last):
        loss = F.cross_entropy(model(x), y) / 2
        loss.backward()
        if is_last:
            optimizer.step()
            optimizer.zero_grad()
        return loss.detach()

    Pair(owner, body=body).train([(*batch(owner.device), number % 2 == 1) for number in range(40)])
    # Steps of one program that add to gradients at the owner travel together.
    pair = Pair(owner, body=lambda model, optimizer, x, y: body(model, optimizer, x, y, False))
    assert pair.train(batches_of(owner, 60)) < 12


def test_modes_and_rates_between_loops(owner, seed):
    def make():
        return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.Linear(8, 3))

    def body(model, optimizer, x, y):
        return classify(model, optimizer, x, y) if model.training else F.cross_entropy(model(x), y)

    pair = Pair(owner, make, OPTIMIZERS["SGD momentum"], body)
    for number in range(8):
        for model, optimizer in zip(pair.models, pair.optimizers):
            model.train(number % 3 < 2)
            optimizer.param_groups[0]["lr"] = 0.05 / (1 + number)
        pair.train(batches_of(owner, 12, 10 if number % 4 else 7), 5)


def test_uploads_and_numbers(owner, seed):
    """CPU arguments travel with each step; numbers are its slots."""

    def body(model, optimizer, x, y, scale):
        return classify(model, optimizer, x.to(owner.device) * scale, y.to(owner.device))

    calls = [(torch.randn(10, 6), torch.randint(0, 3, (10,)), 0.5 + k / 7) for k in range(40)]
    assert Pair(owner, body=body).train(calls) < 12


def test_any_iterable_and_what_happens_between(owner, seed):
    """Code of the caller's that runs between steps is seen: what it records and what it sends."""
    pair = Pair(owner)
    source = batches_of(owner, 30)

    def generated(model):
        for number, (x, y) in enumerate(source):
            if number == 12:
                model.eval()
                model.train()
            if number == 20:
                sojourn.publish(x.sum())  # has everything sent
            yield x * 1.5, y

    expected = [pair.single(x, y) for x, y in generated(pair.models[0])]
    found = sojourn.loop(pair.runs[1], generated(pair.models[1]), 8)
    same(expected, found)
    pair.check()


def test_two_owners_at_once(seed):
    near, far = shared_owner(), shared_owner("numpy")

    def body(model, optimizer, x, y, z):
        return classify(model, optimizer, x, y), z.square().sum()

    pair = Pair(near, body=body)
    batches = [(*batch(near.device), torch.randn(3).to(far.device)) for _ in range(20)]
    pair.train(batches, 8)


def test_single_arguments_and_functions_that_are_steps(seed):
    device = shared_owner().device
    weight = torch.ones(3).to(device).requires_grad_()
    optimizer = torch.optim.SGD([weight], 0.5)

    @sojourn.step
    def train(x):
        optimizer.zero_grad()
        (weight * x).sum().backward()
        optimizer.step()

    assert sojourn.loop(train, [torch.ones(3).to(device)] * 8, per_trip=4) == [None] * 8
    np.testing.assert_array_equal(sojourn.publish(weight.detach()), np.full(3, -3.0))


def test_a_loop_over_nothing():
    assert sojourn.loop(lambda x: x, []) == []


def test_on_cpu_tensors_it_is_a_loop(seed):
    calls = []
    assert sojourn.loop(lambda x: calls.append(x) or x + 1, [torch.tensor(1.0)] * 5) == [torch.tensor(2.0)] * 5
    assert len(calls) == 5


@pytest.mark.parametrize(
    "arguments, text",
    [
        ({"train": 3}, "takes a function, got int"),
        ({"per_trip": 0}, "per_trip must be an integer of at least 1"),
        ({"per_trip": 5000}, "up to 4096 steps"),
        ({"per_trip": 2.5}, "per_trip must be an integer"),
        ({"deadline": -1}, "deadline must be a number above 0"),
        ({"schedulers": [3]}, "lr_scheduler, got int"),
    ],
)
def test_arguments_are_checked(arguments, text):
    with pytest.raises(sojourn.Error, match=text):
        sojourn.loop(**{"train": lambda x: x, "batches": []} | arguments)


def test_a_loop_within_a_step_is_refused():
    with sojourn.step(), pytest.raises(sojourn.Error, match="outside of a step"):
        sojourn.loop(lambda x: x, [])


def test_a_loop_leaves_no_handles(owner, seed):
    pair = Pair(owner)
    pair.train(batches_of(owner, 12), 4)
    sojourn.flush()
    before = owner.counters()["live_handles"]
    source = batches_of(owner, 30)
    sojourn.loop(pair.runs[1], source, 8)
    del source
    pair.single(*batch(owner.device))
    assert owner.counters()["live_handles"] <= before
