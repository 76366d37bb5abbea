# SPDX-License-Identifier: Apache-2.0
"""A training that can be continued on another owner, and an owner that fails, for test_loop*.py."""

import copy
import time

import pytest
import torch
from replay_support import OPTIMIZERS, classify, same
from wire_support import wired_owner  # noqa: F401 (the fixture `wire`)

import _sojourn
import sojourn
import sojourn_numpy


class Training:
    """One that can be continued on the CPU's terms: the same calls, a step at a time, on another owner."""

    def __init__(self, device, first, optimizer=OPTIMIZERS["Adam"], scheduled=False):
        self.device, self.traced = device, 0
        self.model = copy.deepcopy(first).to(device)
        self.optimizer = optimizer(self.model.parameters())
        self.scheduler = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.9) if scheduled else None

    def step(self, x, y):
        self.traced += 1  # what is replayed does not run
        return sojourn.publish(classify(self.model, self.optimizer, x.to(self.device), y.to(self.device)))

    def single(self, calls):
        train = sojourn.step(self.step)
        for x, y in calls:
            train(x, y)
            if self.scheduler:
                self.scheduler.step()

    def check(self, other):
        """Equal on another device, host state included."""
        for ours, theirs in zip(*(training.model.state_dict().items() for training in (self, other))):
            same(sojourn.publish(ours[1]), sojourn.publish(theirs[1]), ours[0])
        states = [training.optimizer.state_dict() for training in (self, other)]
        same(sojourn.publish(states[0]["state"]), sojourn.publish(states[1]["state"]))
        assert states[0]["param_groups"] == states[1]["param_groups"]
        if self.scheduler:
            assert self.scheduler.state_dict() == other.scheduler.state_dict()


def calls_of(count):
    return [(torch.randn(10, 6), torch.randint(0, 3, (10,))) for _ in range(count)]


class Failing:
    """A NumPy owner whose kernels fail in one step, counted from when `at` is set."""

    def __init__(self):
        self.owner, self.at, self.seen, self.seconds = sojourn_numpy.NumpyOwner(), None, 0, 0.0
        self.owner.watch, self.meanwhile = self.watch, None
        self.session = _sojourn.Session(self.owner.handle, "failing")
        self.device = torch.device("owner", self.session.index)

    def watch(self, index, op, results):
        if index == 0:
            self.seen += 1
            if self.meanwhile:
                meanwhile, self.meanwhile = self.meanwhile, None
                meanwhile()
            time.sleep(self.seconds)
            if self.seen == self.at:
                raise ValueError("as a kernel would")

    def fail_in(self, steps):
        self.seen, self.at = 0, steps


@pytest.fixture(name="failing")
def failing_owner():
    made = Failing()
    yield made
    made.at, made.seconds = None, 0.0
    made.session.close()
    made.session = None
