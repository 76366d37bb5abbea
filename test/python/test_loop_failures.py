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
    assert ("of the 8 sent together failed, the ones before it are committed" in str(failure.value)) == (
        at not in (4, 12, 20)
    )
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
    training = Training(failing.device, mlp())

    def train(x, y):
        loss = classify(training.model, training.optimizer, x, y)
        return loss, sojourn.publish(loss)

    trip = _sojourn.Trip(10, None, None)
    replay, loop = sojourn.replay.Replay(train, sojourn.step), sojourn.replay.Loop(trip, trip.send)
    for _ in range(3):
        replay(*batch(failing.device))
    failing.fail_in(6)
    for _ in range(10):
        replay.within(loop, batch(failing.device), False)
    with pytest.raises(sojourn.OwnerError, match="step 6 of the 10"):
        trip.raise_failure()
    results = [loop.result(at) for at in range(10)]
    assert trip.committed == 5
    for at, (loss, published) in enumerate(results):
        if at < 5:
            assert float(published) == float(sojourn.publish(loss))
            continue
        with pytest.raises(sojourn.Error, match="did not run the step"):
            loss + 1
        with pytest.raises(sojourn.Error, match="never arrived"):
            published.value


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
        looped, beside = (
            Training(owner.device, first, scheduled=True),
            Training(shared_owner().device, first, scheduled=True),
        )
        before = owner.counters()["round_trips"]
        losses = sojourn.loop(looped.step, calls, 16, schedulers=looped.scheduler)
        assert owner.counters()["round_trips"] - before <= 7
        beside.single(calls)
        looped.check(beside)
        assert all(loss.ready for loss in losses)


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


def test_a_step_of_two_owners_that_fails_at_one(failing, seed):
    near = Training(shared_owner().device, mlp())
    far = Training(failing.device, mlp())
    calls = calls_of(60)

    def both(x, y):
        return near.step(x, y), far.step(x, y)

    failing.fail_in(8)
    with pytest.raises(sojourn.OwnerError) as failure:
        sojourn.loop(both, calls, 6)
    assert failure.value.steps == 7
    counts = [next(iter(t.optimizer.state.values()))["step"].item() for t in (near, far)]
    assert counts == [7, 7]


def test_a_step_of_two_owners_counts_where_the_loop_ends(seed):
    near, far = Training(shared_owner().device, mlp(), scheduled=True), Training(shared_owner("numpy").device, mlp())

    def generated():
        yield from calls_of(15)
        raise KeyError("no more")

    with pytest.raises(KeyError) as failure:
        sojourn.loop(lambda x, y: (near.step(x, y), far.step(x, y)), generated(), 6, schedulers=near.scheduler)
    assert failure.value.steps == len(failure.value.results) == 15
    for training in (near, far):
        assert next(iter(training.optimizer.state.values()))["step"].item() == 15
    assert near.scheduler.last_epoch == 15 and all(loss.ready for pair in failure.value.results for loss in pair)


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
        timer.start()
        try:
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
    with pytest.raises(sojourn.Error, match="decides by a metric"):
        sojourn.loop(lambda x: x, [], schedulers=torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer))
    stepped = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    sojourn.loop(lambda x: x, [torch.zeros(1)] * 3, schedulers=(s for s in [stepped]))
    assert stepped.last_epoch == 3


@pytest.mark.parametrize("at", [1, 2, 3, 9])
def test_a_compiled_step_that_fails(failing, at, seed):
    with sojourn.offline() as device:
        weight = torch.zeros(3).to(device)

        def train(x):
            return weight.add_(x).clone()

        program = sojourn.compile(train, inputs=[sojourn.spec((3,))])
    inputs = [torch.full((3,), float(k)) for k in range(12)]
    run = _sojourn.ArtifactRun(program._artifact, failing.session, {})
    failing.fail_in(at)
    published, committed, failure = run.steps([[x] for x in inputs], None) if at > 1 else ([], 0, None)
    if at == 1:
        with pytest.raises(sojourn.OwnerError):
            run.steps([[x] for x in inputs], None)
    else:
        assert isinstance(failure, sojourn.OwnerError) and committed == len(published) == at - 1
    failing.at = None
    for x in inputs[at - 1 :]:
        (value,) = run.step([x])
    assert torch.equal(value, sum(inputs))


def test_large_values_travel_in_messages_that_are_remembered(wire, seed):
    """A lost reply loses nothing that single steps would not have lost."""
    weight = torch.zeros(1 << 16).to(wire.device)
    sojourn.flush()

    def train(x):
        weight.add_(x)
        return sojourn.publish(weight)  # 256 KiB

    wire.fates = ["fine"] * 3 + ["lost", "fine"] * 3
    values = sojourn.loop(train, [torch.ones(1 << 16).to(wire.device)] * 9, 64)
    assert [float(value.value[0]) for value in values] == list(range(1, 10))


def test_owners_in_circles_make_room(seed):
    """Steps, closures and optimizers refer to one another: who drops an owner need not collect them."""
    for _ in range(20):
        owner = sojourn.local()
        training = Training(owner.device, nn.Linear(2, 1))
        training.circle = [training, owner]
        sojourn.loop(lambda x: training.model(x).sum(), [torch.ones(2).to(owner.device)] * 4)
