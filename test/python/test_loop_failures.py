# SPDX-License-Identifier: Apache-2.0
"""Steps of a loop that fail or get lost: what has committed stands, on both sides, and the next loop goes on from it."""

import threading

import pytest
import torch
from loop_support import Training, calls_of, failing_owner  # noqa: F401 (the fixture `failing`)
from remote_support import shared_owner
from replay_support import OPTIMIZERS, batch, classify, mlp
from torch import nn
from wire_support import wired_owner  # noqa: F401 (the fixture `wire`)

import _sojourn
import sojourn


@pytest.mark.parametrize("at", [4, 5, 11, 12, 13, 20])
@pytest.mark.parametrize("scheduled, optimizer", [(False, "Adam"), (True, "Adam"), (True, "NAdam")])
def test_a_step_that_fails_is_the_last(failing, at, scheduled, optimizer, seed):
    first, calls = mlp(), calls_of(30)
    looped = Training(failing.device, first, OPTIMIZERS[optimizer], scheduled)
    beside = Training(shared_owner("numpy").device, first, OPTIMIZERS[optimizer], scheduled)
    failing.fail_in(at)
    with pytest.raises(sojourn.OwnerError, match="ValueError") as failure:
        sojourn.loop(looped.step, calls, 8, schedulers=looped.scheduler or ())
    assert failure.value.steps == at - 1 == len(failure.value.results)
    # Three steps are traced, or one more where the collector ran in one; then 8 travel together each time.
    assert 3 <= looped.traced <= 5
    assert ("of the 8 sent together failed, the steps before it are committed" in str(failure.value)) == (
        at > looped.traced and (at - looped.traced) % 8 != 1
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
