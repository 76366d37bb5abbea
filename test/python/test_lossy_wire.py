# SPDX-License-Identifier: Apache-2.0
"""Messages that are lost, doubled, delayed and reordered: each step runs once, and each release is paid for once.

`python test/python/lossy_support.py --runs 10000` takes more seeds.
"""

import gc

import pytest
import torch
from lossy_support import runs

import _sojourn
import sojourn

RUNS = 150


@pytest.mark.parametrize("timeout_ms", [0, 60_000], ids=["once more", "until it answers"])
def test_each_step_runs_once(timeout_ms, seed):
    faults = runs(range(seed, seed + RUNS), timeout_ms=timeout_ms)
    assert faults["runs"] == RUNS
    for kind in ("request lost", "reply lost", "doubled", "late"):
        assert faults[kind] > RUNS / 4, faults
    # Who waits for long enough is told of no failure.
    assert (faults["told"] > 0) == (timeout_ms == 0), faults


class Scripted:
    """A wire to an owner of its own, on which `fates` say what becomes of each request to come."""

    def __init__(self):
        gc.collect()  # closed owners of earlier tests count as long as a tensor on them lives
        self.owner, self.fates, self.kept = _sojourn.EmbeddedOwner(), [], []
        self.session = _sojourn.Session(self.handle, "scripted")
        self.x = torch.zeros(3).to(torch.device("owner", self.session.index))
        self.step()  # the owner knows the program from here on

    def step(self):
        with sojourn.step():
            self.x.add_(1)

    def arrive(self):
        """What was kept, with no ear for the replies."""
        while self.kept:
            self.owner.handle(self.kept.pop(0))

    def handle(self, request):
        fate = self.fates.pop(0) if self.fates else "fine"
        if fate in ("kept", "doubled"):
            self.kept.append(request)
        if fate in ("kept", "dropped"):
            raise sojourn.ConnectionLost("the cable is out")
        if fate == "after what was kept":
            self.arrive()
        return self.owner.handle(request)


@pytest.fixture
def scripted():
    _sojourn.set_first_pause(0)
    wire = Scripted()
    yield wire
    wire.fates.clear()
    wire.session.close()
    wire.session = None
    _sojourn.set_first_pause(20)


def test_late_copies_of_a_step_that_looked_for_its_number_do_not_run(scripted):
    """The step before it is in doubt and never arrives, so the owner has another number next than the client thinks."""
    scripted.fates[:] = ["dropped", "dropped"]
    with pytest.raises(sojourn.ConnectionLost, match="unknown"):
        scripted.step()
    scripted.fates[:] = ["doubled", "doubled"]
    scripted.step()
    scripted.arrive()
    assert sojourn.publish(scripted.x).tolist() == [2, 2, 2]


def test_a_step_in_doubt_that_arrives_late_is_no_answer_to_an_equal_one(scripted):
    scripted.fates[:] = ["kept", "kept"]
    with pytest.raises(sojourn.ConnectionLost, match="unknown"):
        scripted.step()
    scripted.fates[:] = ["after what was kept"]
    scripted.step()
    assert sojourn.publish(scripted.x).tolist() == [3, 3, 3]


def test_a_step_in_doubt_that_arrives_last_does_not_run(scripted):
    scripted.fates[:] = ["kept", "kept"]
    with pytest.raises(sojourn.ConnectionLost, match="unknown"):
        scripted.step()
    assert sojourn.publish(scripted.x).tolist() == [1, 1, 1]  # it has not run, and what is told stays so
    scripted.arrive()
    scripted.step()
    assert sojourn.publish(scripted.x).tolist() == [2, 2, 2]
