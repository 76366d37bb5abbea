# SPDX-License-Identifier: Apache-2.0
"""Every transition of an open trace that frontend/flight/README.md draws, and what it does to values."""

import pathlib
import re

import pytest
import torch
from loop_support import Training, calls_of, failing_owner  # noqa: F401 (the fixture `failing`)
from private_support import make_table
from remote_support import shared_owner
from torch import nn
from wire_support import wired_owner  # noqa: F401 (the fixture `wire`)

import _sojourn
import sojourn

README = pathlib.Path(__file__).parents[2] / "frontend/flight/README.md"
WALKS = {}


def walk(*transitions):
    """Notes which transitions a test walks."""

    def note(test):
        WALKS.update(dict.fromkeys(transitions, test.__name__))
        return test

    return note


def refuse(a):
    """Recorded, for its shape is known; the passes do not convolve booleans."""
    return torch.conv1d(a.bool().reshape(1, 1, -1), a[:1].bool().reshape(1, 1, 1)).reshape(-1)


def steps(wire):
    return wire.session.counters()["steps"]


@pytest.fixture
def x(wire):
    made = torch.zeros(3).to(wire.device)
    sojourn.flush()
    return made


@walk(("open", "ended"))
def test_an_optimizer_ends_it(wire, seed):
    model = nn.Linear(2, 1).to(wire.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    sojourn.flush()
    rows, before = torch.randn(4, 2), steps(wire)
    model(rows.to(wire.device)).sum().backward()
    assert steps(wire) == before  # open
    optimizer.step()
    assert steps(wire) == before  # ended: it waits for what comes next
    optimizer.step()
    assert steps(wire) == before + 1  # the same optimizer again sends
    model.weight.sum().item()
    assert steps(wire) == before + 2


@walk(("prepared", "open"))
def test_a_refused_op_of_an_undeclared_step(wire, x):
    kept = x + 1
    lost = refuse(x)
    before = wire.session.counters()
    with pytest.raises(sojourn.Unsupported, match="convolution"):
        sojourn.flush()
    assert wire.session.counters()["steps"] == before["steps"]
    with pytest.raises(sojourn.Error, match="no value.*convolution"):
        lost + 1
    assert kept.tolist() == [1, 1, 1]


@walk(("prepared", "dropped"))
def test_a_refused_op_of_an_explicit_step(wire, x):
    before = wire.session.counters()
    with pytest.raises(sojourn.Unsupported, match="convolution"):
        with sojourn.step():
            x.add_(1)
            unrelated = x * 2
            refuse(x)
    after = wire.session.counters()
    assert (after["steps"], after["steps_dropped"]) == (before["steps"], before["steps_dropped"] + 1)
    with pytest.raises(sojourn.Error, match="no value.*convolution"):
        unrelated + 1
    assert x.tolist() == [0, 0, 0]


@walk(("sent", "landed"))
def test_a_step_that_runs(wire, x):
    before = wire.session.counters()
    with sojourn.step():
        x.add_(1)
        y = x * 2
        published = sojourn.publish(y)
    after = wire.session.counters()
    assert (after["steps"], after["round_trips"]) == (before["steps"] + 1, before["round_trips"] + 1)
    assert published.value.tolist() == y.tolist() == [2, 2, 2] and x.tolist() == [1, 1, 1]


@walk(("sent", "dropped"))
@pytest.mark.parametrize("wire", ["numpy"], indirect=True)  # no value makes a native kernel fail
def test_a_step_that_fails_at_the_owner(wire, x):
    with pytest.raises(sojourn.OwnerError):
        with sojourn.step():
            x.add_(1)
            y = x * 2
            published = sojourn.publish(y)
            wire.fates[:] = ["failing"]
    with pytest.raises(sojourn.Error, match="did not run the step"):
        y + 1
    with pytest.raises(sojourn.Error, match="did not run the step"):
        published.value
    assert x.tolist() == [0, 0, 0]


@walk(("sent", "unknown"))
@pytest.mark.parametrize("fates, ran", [(["lost", "lost"], 1), (["dropped", "dropped"], 0)])
def test_a_step_without_an_answer(wire, x, fates, ran):
    wire.fates[:] = list(fates)
    with pytest.raises(sojourn.ConnectionLost, match="unknown whether"):
        with sojourn.step():
            x.add_(1)
            y = x * 2
    with pytest.raises(sojourn.Error, match="unknown whether the step ran"):
        y + 1
    assert x.tolist() == [ran] * 3


@walk(("sent", "open"))
def test_a_publish_that_is_not_paid(seed):
    ages = torch.rand(200) * 50
    with sojourn.local() as owner:
        table = make_table(owner, {"age": ages}, {"age": (0, 50)}, epsilon=2.0)
        state = torch.zeros(3).to(owner.device)
        sojourn.flush()
        state.add_(1)
        doubled, before = table["age"] * 2, owner.counters()["steps"]
        for _ in range(2):
            with pytest.raises(sojourn.BudgetExhausted):
                sojourn.publish(doubled.mean(), epsilon=50)
            assert owner.counters()["steps"] == before  # still open
        mean = sojourn.publish(doubled.mean(), epsilon=1.0)
        assert float(mean) == pytest.approx(2 * float(ages.mean()), abs=12 * mean.stderr)
        assert state.tolist() == [1, 1, 1]  # it happened once


@walk(("held", "landed"))
def test_steps_of_a_loop(wire, seed):
    training = Training(wire.device, nn.Linear(6, 3))
    sojourn.flush()
    before = wire.session.counters()
    losses = sojourn.loop(training.step, calls_of(23), 10)
    after = wire.session.counters()
    assert after["steps"] - before["steps"] == 23 and all(loss.ready for loss in losses)
    assert after["round_trips"] - before["round_trips"] == training.traced + 2  # a message of ten, and the rest


@walk(("held", "dropped"))
def test_steps_of_a_loop_that_fail(failing, seed):
    training = Training(failing.device, nn.Linear(6, 3))
    failing.fail_in(7)
    with pytest.raises(sojourn.OwnerError) as failure:
        sojourn.loop(training.step, calls_of(23), 10)
    assert failure.value.steps == 6 == len(failure.value.results)
    assert failing.session.counters()["steps_dropped"] > 0


@walk(("held", "unknown"))
def test_steps_of_a_loop_without_an_answer(wire, seed):
    """The owner has run the message of ten, and its tensors are those after thirteen steps."""
    first, calls = nn.Linear(6, 3), calls_of(23)
    training, beside = Training(wire.device, first), Training(shared_owner(wire.kind).device, first)
    sojourn.flush()
    wire.fates[:] = ["fine"] * 3 + ["lost", "lost"]
    with pytest.raises(sojourn.ConnectionLost, match="unknown whether") as failure:
        sojourn.loop(training.step, calls, 10)
    assert failure.value.steps == 3
    beside.single(calls[:13])
    for ours, theirs in zip(training.model.parameters(), beside.model.parameters()):
        assert torch.equal(sojourn.publish(ours), sojourn.publish(theirs))


def test_each_transition_is_walked():
    rows = re.findall(r"^\| (\w+) \| ([^|]+) \|", README.read_text(), re.MULTILINE)
    drawn = {
        (start, end)
        for start, ends in rows
        if start != "from"
        for end in re.findall(r"open|ended|landed|dropped|unknown", ends)
    }
    assert drawn == set(WALKS)


def test_a_thread_that_sends_cannot_send_within(seed):
    """A transport that sends a step while it carries one: refused, and the step that it carries is unharmed."""
    owner, armed, refusals = _sojourn.EmbeddedOwner(), [], []

    def handle(request):
        if armed:
            armed.clear()
            try:
                sojourn.publish(other + 1)
            except sojourn.Error as error:
                refusals.append(str(error))
        return owner.handle(request)

    session = _sojourn.Session(handle, "nested")
    x, other = torch.zeros(2, 3).to(torch.device("owner", session.index)).unbind()
    other = other.clone()
    sojourn.flush()
    armed.append(True)
    with sojourn.step():
        x.add_(1)
        published = sojourn.publish(x)
    assert published.value.tolist() == [1, 1, 1]
    assert len(refusals) == 1 and "while this thread compiles or sends a step of the same session" in refusals[0]
    session.close()


@pytest.mark.parametrize("explicit", [False, True])
def test_a_step_that_cannot_be_judged(seed, explicit):
    """Ctrl-C while the owner is asked about its tables: nothing is sent, its values say so, and the session continues."""
    embedded, broken = _sojourn.EmbeddedOwner(), []

    def handle(request):
        if broken:
            raise KeyboardInterrupt
        return embedded.handle(request)

    session = _sojourn.Session(handle, "judged")
    owner = sojourn.owner.Owner(session, "judged", embedded)
    ages = torch.rand(200) * 50
    table = make_table(owner, {"age": ages}, {"age": (0, 50)}, epsilon=2.0)
    state = torch.zeros(3).to(owner.device)
    sojourn.flush()
    before = owner.counters()["steps"]
    doubled = table["age"] * 2
    broken.append(True)
    with pytest.raises(KeyboardInterrupt):
        if explicit:
            with sojourn.step():
                state.add_(1)
                lost = table["age"] + 1
                sojourn.publish(lost, epsilon=0.1)  # a value per row is refused, which asks for the policies again
        else:
            lost = doubled + 1
            sojourn.publish(lost, epsilon=0.1)
    broken.clear()
    assert owner.counters()["steps"] == before
    with pytest.raises(sojourn.Error, match="no value.*could not be asked about the step's tables"):
        lost + 1
    mean = sojourn.publish((table["age"] * 2).mean(), epsilon=1.0)  # takes the releases of all open traces
    assert float(mean) == pytest.approx(2 * float(ages.mean()), abs=12 * mean.stderr)
    assert state.tolist() == [0, 0, 0]
    session.close()
