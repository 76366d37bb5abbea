# SPDX-License-Identifier: Apache-2.0
"""10,000 joint steps of three served owners, of which one is killed and started again every 1,000: the client gets an
error that names the end of the group, makes a new one, and trains on from its checkpoint; losses are those of plain
torch, and memory, descriptors and threads of the owners stay what they were.
"""

import os
import pathlib
import random
import re
import sys
import threading
import time

import pytest
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
from parties_support import COLUMNS, close, network
from served_parties_support import ServedHospitals

import sojourn

STEPS, EVERY = 10_000, 1_000
# Caches of plans and pools of memory fill up in the first groups.
WARM_GROUPS = 3
# Of an owner with its processes, from then on; and of one process that lives as long as a group.
GROWTH, SPREAD = 8 << 20, 8 << 20
ROWS, SIZE = (400, 230, 310), 48
ENDED = "the group has ended|is not reachable any more|has left the group|carol|no server|closed the connection"


def family(pid: int) -> list[int]:
    """A process and its children."""
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(each for child in children for each in family(int(child)))]


def state(process) -> dict[str, int]:
    """Of a server with its workers: bytes of memory that are its own; descriptors and threads of the server itself."""
    own = 0
    for pid in family(process.pid):
        try:
            _, resident, shared, *_ = pathlib.Path(f"/proc/{pid}/statm").read_text().split()
        except FileNotFoundError:  # a worker that has ended meanwhile
            continue
        own += (int(resident) - int(shared)) * os.sysconf("SC_PAGESIZE")
    threads = len(os.listdir(f"/proc/{process.pid}/task"))
    return {"memory": own, "descriptors": process.descriptors(), "threads": threads}


def take_steps(table, device, start: dict, steps: int, seed: int, decorate):
    """From a checkpoint: the last weights, and the losses."""
    net = network(0)
    net.load_state_dict(start)
    net = net.to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    losses = []

    @decorate
    def train(x, y):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    while len(losses) < steps:
        for x, y in table.batches(COLUMNS, label="relapse", size=SIZE, epochs=1, seed=seed + len(losses)):
            losses.append(train(x, y))
            if len(losses) == steps:
                break
    return net, losses


def killed_in_a_step(three, parties, start: dict, seed: int) -> str:
    """Kills carol while steps are under way; the error that the client gets."""
    process = three.processes[2]._process

    def kill():
        time.sleep(0.3)
        process.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        with pytest.raises(sojourn.Error) as failed:
            take_steps(parties.rows("patients"), parties.device, start, 100_000, seed, sojourn.step)
    finally:
        killer.join()
        process.wait()
    return str(failed.value)


@pytest.mark.slow
def test_groups_whose_members_die_leave_nothing(generator, tmp_path):
    seed = int(generator.integers(1 << 31))
    print(f"seed {seed}")
    three = ServedHospitals(tmp_path, ROWS, random.Random(seed))
    states: list[list[dict[str, int]]] = []
    checkpoint = network(seed).state_dict()
    try:
        for group in range(STEPS // EVERY):
            parties = sojourn.parties(*three.owners)
            net, losses = take_steps(
                parties.rows("patients"), parties.device, checkpoint, EVERY, seed + group, sojourn.step
            )
            found = sojourn.publish(net.state_dict())
            told = torch.stack([sojourn.publish(loss) for loss in losses[:: EVERY // 100]])
            plain, expected = take_steps(three.pooled, "cpu", checkpoint, EVERY, seed + group, lambda step: step)
            close(told, torch.stack(expected[:: EVERY // 100]), 1e-3)
            for name, value in found.items():
                close(value, plain.state_dict()[name], 1e-3)
            checkpoint = {name: value.clone() for name, value in found.items()}
            states.append([state(process) for process in three.processes])
            print(group, states[-1], flush=True)
            text = killed_in_a_step(three, parties, checkpoint, seed + group)
            assert re.search(ENDED, text), text
            del net, losses
            with pytest.raises(sojourn.ConnectionLost, match="carol"):  # the others have ended their sessions
                parties.close()
            three.serve(2)
            three.owners[2] = sojourn.connect(three.addresses[2])
    finally:
        three.close()
    for member, name in enumerate(three.names):
        each = [states[group][member] for group in range(len(states))]
        memory = [one["memory"] for one in each]
        assert max(memory[WARM_GROUPS:]) <= memory[WARM_GROUPS - 1] + (SPREAD if member == 2 else GROWTH), name
        for what, most in (("descriptors", 4), ("threads", 4)):
            counts = [one[what] for one in each]
            assert max(counts[WARM_GROUPS:]) <= counts[WARM_GROUPS - 1] + most, (name, what, counts)
