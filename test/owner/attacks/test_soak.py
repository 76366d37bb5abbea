# SPDX-License-Identifier: Apache-2.0
"""10,000 steps of 64 clients, a fifth of them rude: the owner's memory and descriptors stay what they were.

51 clients train, 13 each in a process, and compare each parameter with eager PyTorch. Beside them 12 connections
send parts of messages, garbage and bursts, take no reply, and close; and a process opens sessions, keeps values and is
killed, again and again.
"""

import pathlib
import secrets
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
from frames_support import HEAD, Connection, frame
from owner_process import OwnerProcess

POLITE, PER_PROCESS, RUDE = 51, 13, 12
STEPS = 10_000
# A first round fills caches, pools of memory and threads.
WARM_STEPS = 4_000
# Of the allocator's arenas, one per thread, after it all.
GROWTH = 48 << 20

TRAIN = """
import copy, sys, threading, torch, sojourn
address, clients, steps, seed = sys.argv[1], *map(int, sys.argv[2:])
wrong = []

def train(number):
    generator = torch.Generator().manual_seed(seed + number)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8, dtype=torch.float64), torch.nn.Linear(8, 1, dtype=torch.float64))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    x, y = (torch.randn(16, n, generator=generator, dtype=torch.float64) for n in (4, 1))
    results = []
    with sojourn.connect(address) as owner:
        for device in ("cpu", owner.device):
            twin, a, b = copy.deepcopy(model).to(device), x.to(device), y.to(device)
            optimizer = torch.optim.Adam(twin.parameters(), lr=0.01)
            for _ in range(steps):
                optimizer.zero_grad()
                loss = torch.nn.functional.mse_loss(twin(a), b)
                loss.backward()
                optimizer.step()
                last = loss.item()
            results.append([last, *torch.cat([p.detach().flatten() for p in twin.parameters()]).tolist()])
    eager, found = (torch.tensor(each, dtype=torch.float64) for each in results)
    if len(found) != 50 or not torch.allclose(found, eager, rtol=1e-9, atol=1e-10):
        wrong.append(results)

def guarded(number):
    try:
        train(number)
    except BaseException as error:
        wrong.append(f"{type(error).__name__}: {error}")

threads = [threading.Thread(target=guarded, args=(n,)) for n in range(clients)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(wrong or "equal")
"""

LEAVE = """
import os, sys, torch, sojourn
kept = []
for _ in range(8):
    owner = sojourn.connect(sys.argv[1])
    kept.append((owner, torch.randn(1 << 17).to(owner.device) * 2))
    kept[-1][1].sum().item()
os.kill(os.getpid(), 9)
"""


def noted(work, *arguments, done):
    """Runs in a thread; an error is noted among what was done."""
    try:
        work(*arguments, done)
    except BaseException as error:
        done.append(f"{type(error).__name__}: {error}")


def rude(address, generator, is_over, done):
    """One connection after another; `done` counts them."""
    while not is_over.is_set():
        done.append("connection")
        with Connection(address, timeout=0.2) as client:
            body = generator.bytes(int(generator.integers(200)))
            session = secrets.randbits(63)
            pieces = {
                "nothing": [],
                "part of a head": [frame(body)[: int(generator.integers(1, HEAD.size))]],
                "part of a body": [frame(body + b"more", session)[:-2]],
                "large part": [frame(bytes(1 << 20), session)[: 1 << 19]],
                "another protocol": [generator.bytes(64)],
                "burst": [frame(body)] * int(generator.choice((1, 3, 30))),
                "no reply taken": [frame(body)] * 2_000,
            }
            kind = list(pieces)[int(generator.integers(len(pieces)))]
            try:
                for piece in pieces[kind]:
                    client.socket.sendall(piece)
            except (TimeoutError, BrokenPipeError, ConnectionResetError):
                pass
            time.sleep(float(generator.uniform(0, 0.05)))


def leave(address, is_over, done):
    while not is_over.is_set():
        ended = subprocess.run([sys.executable, "-W", "ignore", "-c", LEAVE, address], timeout=100).returncode
        done.append("killed" if ended == -9 else f"ended with {ended}")


def round_of(process, steps, generator):
    """Memory and descriptors once all clients are gone and their sessions have ended."""
    is_over, seed, done = threading.Event(), int(generator.integers(1 << 31)), []
    others = [
        threading.Thread(
            target=noted, args=(rude, process.address, np.random.default_rng(number), is_over), kwargs={"done": done}
        )
        for number in generator.integers(1 << 31, size=RUDE)
    ]
    others.append(threading.Thread(target=noted, args=(leave, process.address, is_over), kwargs={"done": done}))
    for thread in others:
        thread.start()
    children = []
    try:
        for first in range(0, POLITE, PER_PROCESS):
            count = min(PER_PROCESS, POLITE - first)
            words = [process.address, count, steps // POLITE + 1, seed + first]
            command = [sys.executable, "-W", "ignore", "-c", TRAIN, *map(str, words)]
            children.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        for child in children:
            assert child.communicate(timeout=600)[0] == "equal\n"
    finally:
        is_over.set()
        for child in children:
            child.kill()
            child.wait()
        for thread in others:
            thread.join()
    assert set(done) == {"connection", "killed"} and len(done) > 500, f"{len(done)} rude clients, of them {set(done)}"
    time.sleep(4)  # sessions of those that left
    return process.resident(), process.descriptors()


@pytest.mark.slow
def test_a_soak_leaves_nothing(generator, tmp_path):
    config = tmp_path / "owner.toml"
    config.write_text("[sessions]\nreconnect_seconds = 1\nanonymous_per_minute = 10_000\n")
    process = OwnerProcess(tmp_path, None, "--config", str(config))
    try:
        memory, files = round_of(process, WARM_STEPS, generator)
        later, more = round_of(process, STEPS, generator)
        print(f"memory {memory >> 20} MiB, then {later >> 20} MiB; descriptors {files}, then {more}")
        assert later < memory + GROWTH
        assert more <= files + 4
    finally:
        assert process.close() == 0
