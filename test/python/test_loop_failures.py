# SPDX-License-Identifier: Apache-2.0
"""Loops that do not come to their end: what has committed stands, on both sides, and the next loop goes on from it."""

import copy
import signal
import threading
import time

import pytest
import torch
from remote_support import shared_owner
from replay_support import OPTIMIZERS, batch, classify, mlp, same
from torch import nn
from wire_support import wired_owner  # noqa: F401 (the fixture `wire`)

import _sojourn
import sojourn
import sojourn_numpy


class Training:
    """One that can be continued on the CPU's terms: the same calls, a step at a time, on another owner."""

    def __init__(self, device, first, optimizer=OPTIMIZERS["Adam"], scheduled=False):
        self.device = device
        self.model = copy.deepcopy(first).to(device)
        self.optimizer = optimizer(self.model.parameters())
        self.scheduler = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.9) if scheduled else None

    def step(self, x, y):
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
        self.owner.watch = self.watch
        self.session = _sojourn.Session(self.owner.handle, "failing")
        self.device = torch.device("owner", self.session.index)

    def watch(self, index, op, results):
        if index == 0:
            self.seen += 1
            time.sleep(self.seconds)
            if self.seen == self.at:
                raise ValueError("as a kernel would")

    def fail_in(self, steps):
        self.seen, self.at = 0, steps


@pytest.fixture
def failing():
    made = Failing()
    yield made
    made.at, made.seconds = None, 0.0
    made.session.close()
    made.session = None


@pytest.mark.parametrize("at", [4, 5, 11, 12, 13, 20])
@pytest.mark.parametrize("scheduled", [False, True])
def test_a_step_that_fails_is_the_last(failing, at, scheduled, seed):
    first, calls = mlp(), calls_of(30)
    looped = Training(failing.device, first, scheduled=scheduled)
    beside = Training(shared_owner("numpy").device, first, scheduled=scheduled)
    failing.fail_in(at)
    with pytest.raises(sojourn.OwnerError, match="ValueError") as failure:
        sojourn.loop(looped.step, calls, 8, schedulers=looped.scheduler or ())
    assert failure.value.steps == at - 1 == len(failure.value.results)
    # Steps 1 to 3 are traced; 4 to 11, 12 to 19 and 20 to 27 travel together.
    assert ("of the 8 sent together failed, the ones before it are committed" in str(failure.value)) == (at not in (4, 12, 20))
    assert all(result.ready for result in failure.value.results)
    beside.single(calls[: at - 1])
    looped.check(beside)
    for ours, theirs in zip(looped.model.parameters(), beside.model.parameters()):
        assert ours.grad is None or torch.equal(sojourn.publish(ours.grad), sojourn.publish(theirs.grad))
    # The next one goes on from there.
    beside.single(calls[at:])
    sojourn.loop(looped.step, calls[at:], 8, schedulers=looped.scheduler or ())
    looped.check(beside)


def test_results_of_what_did_not_run_say_so(failing, seed):
    training, kept = Training(failing.device, mlp()), []

    def train(x, y):
        loss = classify(training.model, training.optimizer, x, y)
        return loss, sojourn.publish(loss)

    def generated():
        for x, y in [batch(failing.device) for _ in range(20)]:
            yield x, y

    original = sojourn.replay.Replay._results

    def keeping(plan, made, leaves):
        kept.append(original(plan, made, leaves))
        return kept[-1]

    failing.fail_in(9)
    sojourn.replay.Replay._results = staticmethod(keeping)
    try:
        with pytest.raises(sojourn.OwnerError):
            sojourn.loop(train, generated(), 10)
    finally:
        sojourn.replay.Replay._results = staticmethod(original)
    loss, published = kept[5]  # the ninth step
    with pytest.raises(sojourn.Error, match="did not run the step"):
        loss + 1
    with pytest.raises(sojourn.Error, match="never arrived"):
        published.value  # noqa: B018
    assert float(kept[4][1]) == float(sojourn.publish(kept[4][0]))


@pytest.mark.parametrize("fate", ["lost", "dropped"])
def test_a_lost_reply_is_asked_for_again(wire, fate, seed):
    first, calls = mlp(), calls_of(24)
    looped, beside = Training(wire.device, first), Training(shared_owner(wire.kind).device, first)
    sojourn.flush()
    wire.fates = ["fine"] * 4 + [fate]  # three traced steps, a message of ten, and the next
    losses = sojourn.loop(looped.step, calls, 10)
    assert all(loss.ready for loss in losses) and not wire.fates
    beside.single(calls)
    looped.check(beside)


def test_it_is_unknown_what_ran(wire, seed):
    looped = Training(wire.device, mlp())
    sojourn.flush()
    wire.fates = ["fine"] * 3 + ["lost", "dropped"]
    with pytest.raises(sojourn.ConnectionLost, match="unknown whether") as failure:
        sojourn.loop(looped.step, calls_of(20), 10)
    assert failure.value.steps == 3
    # What the owner has is what the next step starts from.
    sojourn.loop(looped.step, calls_of(20), 10)


def test_the_deadline(failing, seed):
    first, calls = mlp(), calls_of(60)
    looped, beside = Training(failing.device, first), Training(shared_owner("numpy").device, first)
    sojourn.loop(looped.step, calls[:4], 4)
    failing.seconds = 0.02
    with pytest.raises(sojourn.DeadlineExceeded, match="deadline of 0.3 seconds") as failure:
        sojourn.loop(looped.step, calls[4:], 50, deadline=0.3)
    assert isinstance(failure.value, TimeoutError) and 1 <= failure.value.steps <= 15
    assert f"after {failure.value.steps} steps" in str(failure.value)
    beside.single(calls[: 4 + failure.value.steps])
    looped.check(beside)


def test_an_interrupt_ends_it_after_the_step_under_way(failing, seed):
    first, calls = mlp(), calls_of(60)
    looped, beside = Training(failing.device, first), Training(shared_owner("numpy").device, first)
    sojourn.loop(looped.step, calls[:4], 4)
    failing.seconds = 0.03
    timer = threading.Timer(0.4, lambda: signal.raise_signal(signal.SIGINT))
    timer.start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt) as failure:
        sojourn.loop(looped.step, calls[4:], 56)
    timer.join()
    assert 1 <= failure.value.steps < 50 and time.monotonic() - begin < 1.5
    failing.seconds = 0.0
    beside.single(calls[: 4 + failure.value.steps])
    looped.check(beside)


def test_an_exception_between_steps_loses_none(seed):
    first, calls = mlp(), calls_of(20)
    looped, beside = Training(shared_owner().device, first), Training(shared_owner("numpy").device, first)

    def generated():
        yield from calls[:12]
        raise KeyError("a row that is not there")

    with pytest.raises(KeyError) as failure:
        sojourn.loop(looped.step, generated(), 8)
    assert failure.value.steps == 12
    beside.single(calls[:12])
    for ours, theirs in zip(looped.model.parameters(), beside.model.parameters()):
        torch.testing.assert_close(sojourn.publish(ours.detach()), sojourn.publish(theirs.detach()))


def test_progress_of_a_long_trip(failing, seed):
    seen = []
    looped = Training(failing.device, mlp())
    sojourn.loop(looped.step, calls_of(4), 4)
    failing.seconds = 0.03
    trip = _sojourn.Trip(40, None, seen.append)
    replay, held = sojourn.loop.__globals__["_replay_of"](looped.step), []
    for x, y in calls_of(3):
        replay._call((x, y), {}, None, None)  # armed
    for x, y in calls_of(40):
        replay.within(trip, held, (x, y), False)
    trip.send()
    assert trip.committed == 40
    assert len(seen) >= 5 and seen == sorted(seen) and 0 < seen[-1] <= 40


def test_the_bar_shows_what_has_committed(failing, seed, capsys):
    looped = Training(failing.device, mlp())
    sojourn.loop(looped.step, calls_of(20), 8, progress=True)
    assert "20/20" in capsys.readouterr().err


def test_another_thread_sends_what_is_held_first(seed):
    device = shared_owner().device
    counter = torch.zeros(3).to(device)
    sojourn.flush()
    seen = []

    def other():
        seen.append(sojourn.publish(counter * 1.0))

    def generated():
        for number in range(20):
            if number == 10:
                thread = threading.Thread(target=other)
                thread.start()
                thread.join()
            yield torch.ones(3).to(device)

    sojourn.loop(lambda x: counter.add_(x), generated(), 64)
    assert torch.equal(seen[0], torch.full((3,), 10.0))
    assert torch.equal(sojourn.publish(counter), torch.full((3,), 20.0))


def test_over_ipc(owner_process, seed):
    first, calls = mlp(), calls_of(40)
    with sojourn.connect(owner_process.address) as owner:
        looped, beside = Training(owner.device, first, scheduled=True), Training(shared_owner().device, first, scheduled=True)
        before = owner.counters()["round_trips"]
        losses = sojourn.loop(looped.step, calls, 16, schedulers=looped.scheduler)
        assert owner.counters()["round_trips"] - before <= 7
        beside.single(calls)
        looped.check(beside)
        assert all(loss.ready for loss in losses)


def test_a_long_trip_over_ipc_outlasts_the_timeout(owner_process, seed):
    """The time to wait is that of a step, not that of all of them; and it can be interrupted."""
    with sojourn.connect(owner_process.address, timeout=1.0) as owner:
        model = nn.Linear(400, 400).to(owner.device)

        def train(x):
            for _ in range(40):
                x = torch.tanh(model(x))
            return x.sum()

        x = torch.randn(512, 400).to(owner.device)
        sojourn.loop(train, [x] * 3)
        begin = time.monotonic()
        sojourn.loop(train, [x] * 16, 16)
        seconds = (time.monotonic() - begin) / 16
        steps = min(1000, int(2.5 / seconds) + 1)
        begin = time.monotonic()
        assert len(sojourn.loop(train, [x] * steps, steps)) == steps
        assert time.monotonic() - begin > 1.0
        timer = threading.Timer(0.5, lambda: signal.raise_signal(signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt) as failure:
            sojourn.loop(train, [x] * steps, steps)
        timer.join()
        assert failure.value.steps < steps
        assert sojourn.publish(train(x)).isfinite()
