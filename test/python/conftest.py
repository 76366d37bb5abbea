# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the Python tests: a fresh seed per run, and owners of all three kinds.

The seed is new in every run; a failing test shows it, and SOJOURN_TEST_SEED=N repeats the run.
"""

import os
import pathlib
import random
import re
import tempfile
import zlib

import pytest
import torch
from owner_process import OwnerProcess
from remote_support import shared_owner

import sojourn

# The models of the tests are small, and several runners share the machine.
torch.set_num_threads(1)

RUN_SEED = int(os.environ["SOJOURN_TEST_SEED"])  # test/conftest.py draws it


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


@pytest.fixture(params=["native", "numpy"])
def owner(request):
    """The embedded owner of the whole run, on each runtime."""
    return shared_owner(request.param)


@pytest.fixture
def device(owner):
    """Its device, with nothing pending."""
    sojourn.flush()
    return owner.device


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
        assert int(closed[1]) == process.settled()


class CountedOwner:
    """An owner with the number of requests counted on its side of the transport."""

    def __init__(self, kind: str, process: OwnerProcess | None = None):
        self.kind = kind
        self._process = process
        if process:
            self._before = process.settled()
            self.owner = sojourn.connect(process.address)
        else:
            self.owner = sojourn.local(runtime="numpy" if kind == "numpy" else "native")
        self.device = self.owner.device

    def round_trips(self) -> int:
        """As the client counts, since the connection."""
        return self.owner.counters()["round_trips"]

    def requests(self) -> int:
        """As the owner counts, since the connection."""
        if self._process:
            return self._process.requests(self._before + self.round_trips()) - self._before
        return self.owner._embedded.requests

    def close(self):
        """Both counts of the whole connection agree."""
        if self._process:
            self._process.settled()
        # A message of several steps is looked after while it takes long.
        requests, round_trips = self.requests(), self.round_trips() + self.owner.counters()["looks"]
        self.owner.close()
        assert requests == round_trips


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
        counted.close()


@pytest.fixture(params=["embedded", "ipc", "numpy"])
def counted(request, make_owner):
    """An owner of each kind."""
    return make_owner(request.param)


@pytest.fixture
def embedded(make_owner):
    """An embedded owner."""
    return make_owner("embedded")
