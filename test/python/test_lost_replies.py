# SPDX-License-Identifier: Apache-2.0
"""A reply that does not come: the client asks once more, no step runs twice, and what is unknown is said."""

import pytest
import torch
from wire_support import wired_owner  # noqa: F401 (the fixture `wire`)

import _sojourn
import sojourn


@pytest.fixture
def x(wire):
    x = torch.zeros(3).to(wire.device)
    sojourn.flush()
    return x


@pytest.mark.parametrize("fate", ["lost", "dropped"])
def test_one_lost_reply_is_asked_for_again(wire, x, fate, seed):
    for k in range(1, 4):
        wire.requests.clear()
        wire.fates[:] = [fate]
        with sojourn.step():
            x.add_(1)
            published = sojourn.publish(x * 2)
        assert published.value.tolist() == [2 * k] * 3
        # With its program the first time; the repetition is the same bytes.
        assert len(wire.requests) == 2 and wire.requests[0] == wire.requests[1]
    assert sojourn.publish(x).tolist() == [3, 3, 3]


@pytest.mark.parametrize("fates,ran", [(["lost", "lost"], True), (["dropped", "lost"], True), (["dropped"] * 2, False)])
def test_two_lost_replies_leave_it_unknown(wire, x, fates, ran):
    for round_ in range(2):
        wire.fates[:] = list(fates)
        with pytest.raises(sojourn.ConnectionLost, match="cable is out.*unknown whether the owner ran the step"):
            with sojourn.step():
                x.add_(1)
                y = x * 2
                published = sojourn.publish(x)
        for use in (lambda: y + 1, lambda: published.value):
            with pytest.raises(sojourn.Error, match="unknown whether the step ran"):
                use()
        # The next step finds the states as they are, and runs under the right number.
        assert sojourn.publish(x).tolist() == [(round_ + 1 if ran else 0)] * 3
        assert sojourn.publish(x + 1).tolist() == [(round_ + 2 if ran else 1)] * 3


def test_lost_replies_one_after_the_other(wire, x):
    """Several equal steps in doubt, of which the owner ran some."""
    ran = 0
    # "fine": the owner says that the number which is tried first is used up, and which of two in doubt has used it.
    for fates, counts in (
        (["lost"] * 2, 1),
        (["dropped"] * 2, 0),
        (["fine"] * 2 + ["lost"] * 2, 1),
        (["fine"] + ["lost"] * 2, 1),
        (["fine"] + ["dropped"] * 2, 0),
    ):
        wire.fates[:] = list(fates)
        with pytest.raises(sojourn.ConnectionLost, match="unknown"):
            with sojourn.step():
                x.add_(1)
        ran += counts
    assert sojourn.publish(x).tolist() == [ran] * 3


def test_a_committed_step_whose_reply_is_forgotten(wire, x):
    wire.fates[:] = ["lost"]
    with sojourn.step():
        x.add_(1)
        y = x * 5
        published = sojourn.publish(x.expand(1 << 18, 3) + 0)  # 3 MiB; owners remember replies up to 1 MiB
    with pytest.raises(
        sojourn.Error, match="committed the step, but the reply with this value was lost; publish it again"
    ):
        published.value
    assert sojourn.publish([x, y])[1].tolist() == [5, 5, 5]
    assert sojourn.publish(x).tolist() == [1, 1, 1]


def test_an_owner_that_started_anew_knows_nothing(wire, x):
    wire.fates[:] = ["restarted"]
    with pytest.raises(sojourn.ConnectionLost, match="no longer knows this session.*unknown whether"):
        with sojourn.step():
            x.add_(1)


@pytest.mark.parametrize("wire", ["numpy"], indirect=True)  # no value makes a native kernel fail
def test_a_failing_step_uses_no_number(wire, x):
    for _ in range(2):
        with pytest.raises(sojourn.OwnerError):
            with sojourn.step():
                x.add_(1)
                sojourn.publish(x)
                wire.fates[:] = ["failing"]
    assert sojourn.publish(x + 1).tolist() == [1, 1, 1]


def test_an_artifact_whose_reply_is_lost(wire):
    with sojourn.offline() as device:
        kept = {}

        def init():
            kept["w"] = torch.zeros(2, device=device)

        def step(x):
            kept["w"].add_(x)
            return kept["w"] * 1

        program = sojourn.compile(step, init=init, inputs=[sojourn.spec((2,))])
    run = _sojourn.ArtifactRun(program._artifact, wire.session)
    ones = torch.ones(2)
    assert run.step([ones])[0].tolist() == [1, 1]
    wire.fates[:] = ["lost"]
    assert run.step([ones])[0].tolist() == [2, 2]
    wire.fates[:] = ["lost", "lost"]
    with pytest.raises(sojourn.ConnectionLost, match="unknown"):
        run.step([ones])
    assert sojourn.publish(torch.ones(1).to(wire.device)).tolist() == [1]


def growing(size):
    """An artifact whose step publishes a new value that is too large to be remembered."""
    with sojourn.offline() as device:
        kept = {}

        def init():
            kept["w"] = torch.zeros(size, device=device)

        def step(x):
            kept["w"] = kept["w"] + x  # a new value each time: its handle must not be the old one
            return kept["w"] * 1

        return sojourn.compile(step, init=init, inputs=[sojourn.spec((1,))])


LARGE = 1 << 19


def test_an_artifact_goes_on_after_a_committed_step_whose_reply_is_forgotten(wire):
    run = _sojourn.ArtifactRun(growing(LARGE)._artifact, wire.session)
    ones = torch.ones(1)
    for fates, expected in (([], 1), (["lost"], None), ([], 3), (["lost"], None), ([], 5)):
        wire.fates[:] = fates
        if expected is None:
            with pytest.raises(sojourn.ConnectionLost, match="committed this step, but its reply was lost"):
                run.step([ones])
        else:
            assert run.step([ones])[0].unique().tolist() == [expected]


@pytest.mark.parametrize("wire", ["numpy"], indirect=True)  # no value makes a native kernel fail
def test_a_reply_is_lost_and_the_step_after_it_fails(wire):
    """Lost values come first: the failure of the next step does not hide them."""
    run = _sojourn.ArtifactRun(growing(LARGE)._artifact, wire.session)
    ones, seen = [torch.ones(1)], 0

    def fail_in_second(index, op, results):
        nonlocal seen
        seen += index == 0
        if seen == 2:
            raise ValueError("as a kernel would")

    assert run.step(ones)[0].unique().tolist() == [1]
    wire.fates[:] = ["lost"]
    wire.owner.watch = fail_in_second
    published, committed, failure = run.steps([ones, ones], None)
    wire.owner.watch = None
    assert (published, committed) == ([], 1)
    assert isinstance(failure, sojourn.ConnectionLost) and "reply was lost" in str(failure)
    assert run.step(ones)[0].unique().tolist() == [3]
