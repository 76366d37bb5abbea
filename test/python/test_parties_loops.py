# SPDX-License-Identifier: Apache-2.0
"""Loops of a group of served owners whose worker processes are killed: the committed steps are those of plain torch."""

import contextlib
import itertools
import os
import pathlib
import signal
import threading

import pytest
import torch
from parties_support import COLUMNS, close, network
from served_parties_support import ServedHospitals

import sojourn

STEPS, FAILURES, ROUNDS = 64, 4, 200


def parents() -> dict[int, int]:
    """Of all processes."""
    found = {}
    for place in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            found[int(place.parent.name)] = int(place.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended
            continue
    return found


def workers(server: int) -> list[int]:
    """The processes of a server that run steps: none has children."""
    above = parents()

    def is_below(each: int) -> bool:
        return each == server or (each in above and is_below(above[each]))

    return [each for each in above if each != server and is_below(each) and each not in above.values()]


def kill_all(server: int) -> None:
    for each in workers(server):
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)


def trainer(net):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)

    def step(x, y):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()

    return step


@pytest.mark.parametrize("share", ["clear", "sums"])
def test_a_killed_worker_loses_no_step_of_a_loop(tmp_path, rng, share):
    three, seed = ServedHospitals(tmp_path, (40, 23, 31), rng, share=share), rng.randrange(1000)
    try:
        parties = sojourn.parties(*three.owners)
        net, plain = network(seed).to(parties.device), network(seed)
        step, plain_step = trainer(net), trainer(plain)
        batches, plain_batches = (
            iter(table.batches(COLUMNS, label="relapse", size=60, epochs=10_000, seed=seed, drop_last=True))
            for table in (parties.rows("patients"), three.pooled)
        )
        failures = inside = 0
        for _ in range(ROUNDS):
            taken = 0

            def counted():
                nonlocal taken
                for batch in itertools.islice(batches, STEPS):
                    taken += 1
                    yield batch

            victim = rng.choice(three.processes)._process.pid
            timer = threading.Timer(rng.uniform(0, 0.05), kill_all, [victim])
            timer.start()
            try:
                sojourn.loop(step, counted(), per_trip=32)
                committed = STEPS
            except sojourn.Error as error:
                assert "process" in str(error), str(error)
                committed = error.steps
                failures, inside = failures + 1, inside + (committed % 32 > 0)
            timer.join()
            for at, batch in enumerate(itertools.islice(plain_batches, taken)):
                if at < committed:
                    plain_step(*batch)
            if failures >= FAILURES and inside > 0:
                break
        assert inside > 0, f"no worker ended between two steps of a message, in {failures} failures"
        found = [
            sojourn.publish({name: value.to(owner.device) for name, value in net.state_dict().items()})
            for owner in three.owners
        ]
        for name, value in plain.state_dict().items():
            assert all(torch.equal(each[name], found[0][name]) for each in found), name
            close(found[0][name], value, 2e-3)
    finally:
        three.close()
