# SPDX-License-Identifier: Apache-2.0
"""Loops that are watched, stopped or broken off from outside: what has committed stands, on both sides."""

import signal
import threading
import time

import pytest
import torch
from loop_support import Training, calls_of, failing_owner  # noqa: F401 (the fixture `failing`)
from remote_support import shared_owner
from replay_support import mlp
from torch import nn
from wire_support import wired_owner  # noqa: F401 (the fixture `wire`)

import _sojourn
import sojourn
from sojourn_numpy import wire


@pytest.fixture(autouse=True)
def interruptible():
    """As in a terminal, also where whoever started the tests ignores Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_the_deadline(failing, seed):
    first, calls = mlp(), calls_of(60)
    looped, beside = Training(failing.device, first), Training(shared_owner("numpy").device, first)
    sojourn.loop(looped.step, calls[:4], 4)
    failing.seconds, failing.seen = 0.02, 0
    with pytest.raises(sojourn.DeadlineExceeded, match="deadline of 0.3 seconds") as failure:
        sojourn.loop(looped.step, calls[4:], 50, deadline=0.3)
    assert isinstance(failure.value, TimeoutError)
    assert failure.value.steps == failing.seen <= 15  # what the owner ran, and no more
    assert f"after {failure.value.steps} steps" in str(failure.value)
    beside.single(calls[: 4 + failure.value.steps])
    looped.check(beside)


def test_an_interrupt_ends_it_after_the_step_under_way(failing, seed):
    first, calls = mlp(), calls_of(60)
    looped, beside = Training(failing.device, first), Training(shared_owner("numpy").device, first)
    sojourn.loop(looped.step, calls[:4], 4)
    failing.seconds, failing.seen = 0.03, 0
    timer = threading.Timer(0.4, lambda: signal.raise_signal(signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt) as failure:
        sojourn.loop(looped.step, calls[4:], 56)
    timer.join()
    assert failure.value.steps == failing.seen < 50
    failing.seconds = 0.0
    beside.single(calls[: 4 + failure.value.steps])
    looped.check(beside)


def test_a_late_request_to_stop_ends_no_other_loop(failing, seed):
    """It waits in the network until the next message runs."""
    first, calls = mlp(), calls_of(60)
    late, steps, handle = [], [], failing.owner.handle

    def slow(message):
        asked = wire.read(message, "Request", b"SJM1")
        if asked.body_type == "Step":
            steps.append(1 + len(asked.body.repetitions))
            if late and steps[-1] > 1:
                failing.meanwhile = lambda: handle(late.pop())
        if asked.body_type == "Watch" and asked.body.stop:
            late.append(bytes(message))
        return handle(message)

    session = _sojourn.Session(slow, "slow")
    device = torch.device("owner", session.index)
    looped, beside = Training(device, first), Training(shared_owner("numpy").device, first)
    sojourn.loop(looped.step, calls[:4], 4)
    failing.seconds, failing.seen = 0.02, 0
    timer = threading.Timer(0.4, lambda: signal.raise_signal(signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt) as failure:
        sojourn.loop(looped.step, calls[4:], 50)
    timer.join()
    done = 4 + failure.value.steps
    assert late, "nothing was asked to stop"
    del late[1:], steps[:]
    failing.seconds = 0.0
    assert len(sojourn.loop(looped.step, calls[done : done + 8], 8)) == 8
    assert not late and failing.meanwhile is None, "the late request came"
    assert sum(steps) == 8 and sum(count > 1 for count in steps) == 1, "none was left for another message"
    assert steps[-1] > 1
    beside.single(calls[: done + 8])
    looped.check(beside)
    session.close()


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
    replay, loop = sojourn.loop.__globals__["_replay_of"](looped.step), sojourn.replay.Loop(trip, trip.send)
    for x, y in calls_of(3):
        replay(x, y)  # armed
    for x, y in calls_of(40):
        replay.within(loop, (x, y), False)
    trip.send()
    assert trip.committed == 40 == len(loop.calls)
    assert len(seen) >= 5 and seen == sorted(seen) and 0 < seen[-1] <= 40


def test_the_bar_shows_what_has_committed(failing, seed, capsys):
    looped = Training(failing.device, mlp())
    sojourn.loop(looped.step, calls_of(20), 8, progress=True)
    assert "20/20" in capsys.readouterr().err


@pytest.mark.alone
def test_a_long_trip_over_ipc_outlasts_the_timeout(owner_process, seed):
    """The time to wait is that of a step, not that of all of them; and it can be interrupted."""
    with sojourn.connect(owner_process.address, timeout=2.0) as owner:
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
        steps = min(1000, int(5 / seconds) + 1)
        begin = time.monotonic()
        assert len(sojourn.loop(train, [x] * steps, steps)) == steps
        assert time.monotonic() - begin > 2.0
        timer = threading.Timer(0.5, lambda: signal.raise_signal(signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt) as failure:
            sojourn.loop(train, [x] * steps, steps)
        timer.join()
        assert failure.value.steps < steps
        assert sojourn.publish(train(x)).isfinite()


@pytest.mark.parametrize("quiet", [True, False])
def test_interrupts_at_any_moment(quiet, seed):
    """Weights, counts, schedulers and results are those of one step, whenever the signal comes."""
    first, calls = mlp(), calls_of(64)
    device = shared_owner().device
    there = [(x.to(device), y.to(device)) for x, y in calls]
    beside = Training(shared_owner().device, first, scheduled=not quiet)
    looped = Training(device, first, scheduled=not quiet)
    train = looped.step.__func__

    def step(x, y):
        return train(looped, x, y)

    sojourn.loop(step, there[:4], 4, schedulers=looped.scheduler or ())
    taken_before, order = 4, there[:4]
    generator = torch.Generator().manual_seed(seed)
    for _ in range(12):
        timer = threading.Timer(
            float(torch.rand((), generator=generator)) * 0.015, signal.raise_signal, [signal.SIGINT]
        )
        batches = there if quiet else iter(there)
        try:
            timer.start()  # the signal may come at once
            try:
                sojourn.loop(step, batches, 8, schedulers=looped.scheduler or ())
            finally:
                timer.join()
        except KeyboardInterrupt as interrupt:
            # One that comes before or after the loop's own part has none.
            assert not hasattr(interrupt, "steps") or len(interrupt.results) == interrupt.steps
        count = int(next(iter(looped.optimizer.state.values()))["step"].item())
        assert quiet or looped.scheduler.last_epoch == count
        order += there[: count - taken_before]
        taken_before = count
    beside.single(order)
    for ours, theirs in zip(looped.model.parameters(), beside.model.parameters()):
        assert torch.equal(sojourn.publish(ours.detach()), sojourn.publish(theirs.detach()))
