# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the Python tests: a fresh seed per run, and owners of all three kinds.

The seed is new in every run; a failing test shows it, and SOJOURN_TEST_SEED=N repeats the run.
"""

import os
import pathlib
import random
import re
import signal
import subprocess
import tempfile
import time
import zlib

import pytest
import torch

import sojourn

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUN_SEED = int(os.environ.get("SOJOURN_TEST_SEED") or random.SystemRandom().randrange(2**31))


@pytest.fixture
def seed(request):
    """A number of this run and test; torch's generator starts from it."""
    value = zlib.crc32(f"{RUN_SEED}:{request.node.name}".encode())
    print(f"seed {value}; repeat this run with SOJOURN_TEST_SEED={RUN_SEED}")  # shown when a test fails
    torch.manual_seed(value)
    return value


@pytest.fixture
def rng(seed):
    """Python's generator, from the seed."""
    return random.Random(seed)


class OwnerProcess:
    """`sojourn-owner serve` over ipc, and what its own log says of the requests that reached it."""

    def __init__(self, folder: pathlib.Path):
        self.address = f"ipc://{folder}/o.sock"
        self._log = folder / "log"
        command = [ROOT / "build/bin/sojourn-owner", "serve", "--store", folder / "store", "--listen", self.address]
        with self._log.open("w") as log:
            self._process = subprocess.Popen([*command, "--verbose"], stdout=log, stderr=log)
        self._wait(lambda: (folder / "o.sock").exists())

    def log(self) -> str:
        return self._log.read_text()

    def requests(self, expected: int | None = None) -> int:
        """Requests answered so far. A line is written after its reply, so wait for what is expected."""
        count = lambda: len(re.findall(r"request of \d+ bytes, reply of", self.log()))
        if expected is not None:
            self._wait(lambda: count() >= expected)
        return count()

    def _wait(self, condition, seconds=20):
        end = time.monotonic() + seconds
        while not condition() and time.monotonic() < end:
            assert self._process.poll() is None, f"sojourn-owner ended with {self._process.returncode}:\n{self.log()}"
            time.sleep(0.002)

    def close(self) -> int:
        """Interrupts the server; its exit status."""
        self._process.send_signal(signal.SIGINT)
        try:
            return self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise


@pytest.fixture(scope="session")
def owner_process():
    """One server for the whole run. At its end it counts as many requests as its log has lines."""
    with tempfile.TemporaryDirectory(prefix="sojourn-") as folder:
        process = OwnerProcess(pathlib.Path(folder))
        try:
            yield process
        finally:
            status = process.close()
        closed = re.search(r"closed after (\d+) requests", process.log())
        assert status == 0 and closed, process.log()[-2000:]
        assert int(closed[1]) == process.requests()


class CountedOwner:
    """An owner with the number of requests counted on its side of the transport."""

    def __init__(self, kind: str, process: OwnerProcess | None = None):
        self.kind = kind
        self._process = process
        if kind == "ipc":
            self._before = process.requests()
            self.owner = sojourn.connect(process.address)
        else:
            self.owner = sojourn.local(runtime="numpy" if kind == "numpy" else "native")
        self.device = self.owner.device

    def round_trips(self) -> int:
        """As the client counts."""
        return self.owner.counters()["round_trips"]

    def requests(self, expected: int | None = None) -> int:
        """As the owner counts."""
        return self._process.requests(expected) if self._process else self.owner._embedded.requests


@pytest.fixture
def make_owner(request):
    """make_owner("embedded" | "ipc" | "numpy"); closed when the test ends."""
    made = []

    def make(kind: str) -> CountedOwner:
        process = request.getfixturevalue("owner_process") if kind == "ipc" else None
        made.append(CountedOwner(kind, process))
        return made[-1]

    yield make
    for counted in made:
        counted.owner.close()


@pytest.fixture(params=["embedded", "ipc", "numpy"])
def counted(request, make_owner):
    """An owner of each kind."""
    return make_owner(request.param)


@pytest.fixture
def embedded(make_owner):
    """An embedded owner."""
    return make_owner("embedded")
