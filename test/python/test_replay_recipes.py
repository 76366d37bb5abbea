# SPDX-License-Identifier: Apache-2.0
"""Replayed calls in any surroundings: what a call sends is the same with pending ops before it, with uploads or values
at the owner, with results that are kept or dropped, with one tensor for two arguments."""

import random

import pytest
import torch
from remote_support import shared_owner
from wire_support import wired_owner  # noqa: F401 (the fixture `wire`)

import sojourn


@pytest.fixture(params=["native", "numpy"])
def device(request):
    sojourn.flush()
    return shared_owner(request.param).device


def combine(state, x, y):
    """Two results, and a state that is changed in place."""
    state.mul_(0.5).add_(x.sum() - y.mean())
    return x * 2 + y, (x - y).relu() * state


class Walk:
    """One function traced on the CPU and replayed at an owner, with everything around it drawn at random."""

    def __init__(self, device, seed):
        self.device, self.random = device, random.Random(seed)
        self.here, self.there = torch.zeros(3), torch.zeros(3).to(device)
        self.call = sojourn.step(replay=True)(lambda x, y: combine(self.there, x, y))
        self.resident = [torch.randn(4, 3) for _ in range(3)]
        self.at_owner = [x.to(device) for x in self.resident]
        sojourn.flush()
        self.kept: list = []
        self.pending: list = []
        self.was_replayed = False

    def argument(self):
        """A pair (here, there): a value at the owner, an upload that waits, or a result that waits."""
        kind = self.random.choice(["resident", "resident", "upload", "computed"])
        at = self.random.randrange(3)
        if kind == "resident":
            return self.resident[at], self.at_owner[at]
        fresh = torch.randn(4, 3)
        if kind == "upload":
            return fresh, fresh.to(self.device)
        return fresh + 1, fresh.to(self.device) + 1

    def around(self):
        what = self.random.choice(["nothing", "nothing", "nothing", "pending", "flush", "dead", "published"])
        if what == "pending":
            self.pending.append((self.resident[0] * 3, self.at_owner[0] * 3))
        elif what == "dead":
            _ = self.at_owner[1] * 7
        elif what == "published":
            self.kept.append((self.resident[2].sum(), sojourn.publish(self.at_owner[2].sum())))
        elif what == "flush":
            sojourn.flush()

    def step(self):
        self.around()
        x = self.argument()
        # While calls are traced, two tensors that are one would be other ops than those of the call before.
        y = x if self.was_replayed and self.random.random() < 0.25 else self.argument()
        if self.random.random() < 0.5:
            x, y = y, x  # uploads that wait are in no order
        wanted = combine(self.here, x[0], y[0])
        before = self.call.replayed
        found = self.call(x[1], y[1])
        self.was_replayed = self.call.replayed > before
        keep = self.random.choice([(), (0,), (1,), (0, 1)])
        self.kept += [(wanted[i], found[i]) for i in keep]
        del found

    def check(self):
        for wanted, found in [*self.kept, *self.pending, (self.here, self.there)]:
            found = found if found.device.type == "cpu" else sojourn.publish(found)
            torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
        self.kept.clear()
        self.pending.clear()


@pytest.mark.parametrize("walk", range(6))
def test_random_surroundings(device, seed, walk):
    walking = Walk(device, seed + walk)
    for at in range(60):
        walking.step()
        if at % 7 == 0:
            walking.check()
    walking.check()
    assert walking.call.replayed > 10, sojourn.explain()


def test_arguments_that_become_one_tensor(device, seed):
    """Two numbers of the recipe have one id then."""
    call = sojourn.step(replay=True)(lambda x, y: (x + 1) * y.exp())
    here = [torch.randn(5) for _ in range(4)]
    there = [t.to(device) for t in here]
    for x, y in [(0, 1), (2, 3), (1, 2), (3, 0), (0, 2), (0, 0), (1, 1), (1, 0), (3, 3), (0, 1)]:
        found = sojourn.publish(call(there[x], there[y]))
        torch.testing.assert_close(found, (here[x] + 1) * here[y].exp(), rtol=1e-5, atol=1e-5)
    assert call.replayed == 7, sojourn.explain()


@pytest.mark.parametrize("wire", ["numpy"], indirect=True)  # no value makes a native kernel fail
@pytest.mark.parametrize("fates, ran", [(["failing"], 0), (["lost", "lost"], 1), (["dropped", "dropped"], 0)])
def test_a_replay_that_fails(wire, fates, ran):
    """A step that the owner did not run is taken back, and the next call is sent by the same recipe."""
    state, x = torch.zeros(3).to(wire.device), torch.ones(3).to(wire.device)
    call = sojourn.step(replay=True)(lambda x: state.add_(x).sum())
    for _ in range(5):
        call(x)
    wire.fates[:] = list(fates)
    with pytest.raises(sojourn.OwnerError if fates == ["failing"] else sojourn.ConnectionLost):
        call(x)
    assert (call.traced, call.replayed) == (3, 2), sojourn.explain()  # a call that failed counts as neither
    for at in range(3):
        assert float(sojourn.publish(call(x))) == (6 + ran + at) * 3
    assert (call.traced, call.replayed) == (3, 5) and sojourn.publish(state).tolist() == [8 + ran] * 3


@pytest.mark.parametrize("wire", ["numpy"], indirect=True)
def test_a_dropped_call_that_makes_no_value_counts(wire):
    state, x = torch.zeros(3).to(wire.device), torch.ones(3).to(wire.device)

    @sojourn.step(replay=True)
    def call(x):
        state.add_(x)

    for _ in range(5):
        call(x)
    before = wire.session.counters()
    wire.fates[:] = ["failing"]
    with pytest.raises(sojourn.OwnerError):
        call(x)
    after = wire.session.counters()
    assert (after["steps"], after["steps_dropped"]) == (before["steps"], before["steps_dropped"] + 1)


def test_a_call_within_a_step_that_is_dropped(device, seed):
    state, x = torch.zeros(3).to(device), torch.ones(3).to(device)
    call = sojourn.step(replay=True)(lambda x: state.add_(x).sum())
    for _ in range(5):
        call(x)
    assert call.replayed == 2
    with pytest.raises(ZeroDivisionError), sojourn.step():
        call(x)  # joins the outer step
        raise ZeroDivisionError
    for at in range(6, 9):
        assert float(sojourn.publish(call(x))) == at * 3
        (x * 2).sum()  # pending before the next call
    assert sojourn.publish(state).tolist() == [8.0] * 3


def test_another_default_dtype(device, seed):
    x = torch.randn(4).to(device)
    call = sojourn.step(replay=True)(lambda x: torch.arange(4, device=x.device) * 0.5 + x)
    before = torch.get_default_dtype()
    try:
        for dtype in [torch.float32] * 4 + [torch.float64] * 4 + [torch.float32] * 2:
            torch.set_default_dtype(dtype)
            found = sojourn.publish(call(x))
            wanted = torch.arange(4) * 0.5 + x.cpu()
            assert found.dtype == wanted.dtype
            torch.testing.assert_close(found, wanted)
    finally:
        torch.set_default_dtype(before)
