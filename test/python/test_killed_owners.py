# SPDX-License-Identifier: Apache-2.0
"""`sojourn-owner serve` killed right before each of its durable writes, one after the other, while a client trains and
publishes; then it starts again.

The oracle is the same script at a server that nobody kills: whoever has received so many values has paid for them, and
for no more than was under way. The session is gone with the process, which its client is told; the ledger verifies, and
the store serves on.
"""

import math
import pathlib
import re
import shutil
import subprocess
import threading

import numpy as np
import pytest
import torch
from owner_process import ROOT, OwnerProcess

import sojourn

LIBRARY = ROOT / "build/lib/libkilled-writes.so"
ROWS, EACH, DELTA, GRANT = 64, 0.125, 1e-5, 8.0
RELEASES = 3


def tool(name: str, *words) -> str:
    done = subprocess.run([ROOT / "build/bin" / name, *map(str, words)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def store(tmp_path, seed):
    generator = np.random.default_rng(seed)
    np.savez(tmp_path / "t.npz", age=generator.uniform(0, 100, ROWS), ill=generator.integers(0, 2, ROWS))
    folder = tmp_path / "first"
    tool("sojourn", "keygen", tmp_path / "ada.key")
    terms = ("--name", "t", "--policy=private", "--rows-are-subjects", "--bound=age=0:100", "--bound=ill=0:1")
    tool("sojourn-owner", "import", tmp_path / "t.npz", "--store", folder, *terms)
    tool("sojourn-owner", "client", "add", "ada", "--key", tmp_path / "ada.key.pub", "--store", folder)
    for words in (("cap", "t"), ("grant", "ada", "t")):
        tool("sojourn-owner", "budget", *words, "--epsilon", GRANT, "--delta", DELTA, "--store", folder)
    return folder


class Served:
    """A server that is killed at one of its writes, and started once more when it is."""

    def __init__(self, folder: pathlib.Path, number: int):
        self.folder, self.writes = folder, folder / "writes"
        self.address = f"ipc://{folder.parent}/o.sock"
        environment = {"LD_PRELOAD": str(LIBRARY), "SOJOURN_TEST_WRITES": str(self.writes)}
        environment["SOJOURN_TEST_KILL_AT"] = str(number)
        self.first = self.second = None
        try:
            self.first = OwnerProcess(folder, self.address, environment=environment)
        except AssertionError:  # killed before it listened
            self.second = OwnerProcess(folder, self.address)
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._restart)
        self.thread.start()

    def _restart(self) -> None:
        while self.first and not self.ended.is_set():
            try:
                self.first._process.wait(0.01)
            except subprocess.TimeoutExpired:
                continue
            self.second = OwnerProcess(self.folder, self.address)
            return

    def was_killed(self) -> bool:
        """Whether it was; from now on the second one listens."""
        was_killed = True
        if self.first:
            try:
                self.first._process.wait(0.3)
            except subprocess.TimeoutExpired:
                was_killed = False
                self.first.close()
        self.thread.join(30)
        if not self.second:
            self.second = OwnerProcess(self.folder, self.address)
        return was_killed

    def close(self) -> None:
        self.ended.set()
        self.thread.join()
        for owner in (self.first, self.second):
            if owner and owner._process.poll() is None:
                owner.close()


def train(owner):
    """Steps of a message whose run is paid in the ledger."""
    table = owner.dataset("t")
    weight = torch.zeros(1, requires_grad=True, device=owner.device)
    optimizer = torch.optim.SGD([weight], lr=0.1)

    @sojourn.step
    def step(x, y):
        optimizer.zero_grad()
        torch.nn.functional.binary_cross_entropy_with_logits((x * weight).squeeze(1), y.float()).backward()
        optimizer.step()

    with sojourn.privacy(table, noise_multiplier=8.0, clip=1.0):
        sojourn.loop(step, table.batches(["age"], label="ill", size=8, epochs=1), per_trip=4)


def script(address: str, key: pathlib.Path, received: list[float], spent: list[float] | None = None) -> str:
    """Publishes and trains, for as long as the session lives; the error that ends it. `spent`: what was after each."""
    try:
        with sojourn.connect(address, identity=key, timeout=20) as owner:
            table = owner.dataset("t")
            for _ in range(RELEASES):
                received.append(float(sojourn.publish(table["age"].mean(), epsilon=EACH)))
                if spent is not None:
                    spent.append(GRANT - owner.budget("t").epsilon_left)
            train(owner)
            if spent is not None:
                spent.append(GRANT - owner.budget("t").epsilon_left)
    except sojourn.Error as error:
        return f"{type(error).__name__}: {error}"
    return ""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_ledger_is_true_after_a_kill_at_each_write(tmp_path, store):
    number, errors = 0, []
    folder = tmp_path / "0"
    folder.mkdir()
    shutil.copytree(store, folder / "store")
    served = Served(folder, 0)
    costs = [0.0]  # of nothing, of each release, and of the training
    try:
        assert script(served.address, tmp_path / "ada.key", [], costs) == ""
    finally:
        served.close()
    assert costs == sorted(set(costs)) and len(costs) == RELEASES + 2
    while True:
        number += 1
        folder = tmp_path / str(number)
        folder.mkdir()
        shutil.copytree(store, folder / "store")
        served = Served(folder, number)
        try:
            received: list[float] = []
            error = script(served.address, tmp_path / "ada.key", received)
            was_killed = served.was_killed()
            if error:
                assert was_killed, error
                assert re.search("session|unknown whether|no owner answers|could not send", error), (
                    f"write {number}: {error}"
                )
                errors.append(error)
            with sojourn.connect(served.address, identity=tmp_path / "ada.key", timeout=20) as owner:
                spent = GRANT - owner.budget("t").epsilon_left
                assert all(math.isfinite(value) for value in received)
                least, most = costs[len(received)], costs[len(received) + 1]
                assert least - 1e-9 <= spent <= most + 1e-9, f"write {number}: {spent} for {len(received)} releases"
                before = owner.budget("t").epsilon_left
                assert math.isfinite(float(sojourn.publish(owner.dataset("t")["age"].mean(), epsilon=EACH)))
                assert owner.budget("t").epsilon_left < before
        finally:
            served.close()
        verified = tool("sojourn-owner", "ledger", "verify", "--store", folder / "store")
        assert "error" not in verified.lower()
        shutil.rmtree(folder / "store")
        if not was_killed:
            break
    print(f"{number - 1} writes, {len(errors)} sessions ended:", *sorted({error[:90] for error in errors}), sep="\n")
    assert number > 2 * RELEASES
