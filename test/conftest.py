# SPDX-License-Identifier: Apache-2.0
"""For all Python tests: one seed for the processes of a run, and files in the order in which they are handed out."""

import gc
import itertools
import json
import os
import pathlib
import random
import zlib

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
TIMES = ROOT / "build/check-times.json"  # seconds of each file in earlier runs, which tools/check keeps

# Processes of one run inherit its seed, from which follow the tests that they collect and their draws.
os.environ.setdefault("SOJOURN_TEST_SEED", str(random.SystemRandom().randrange(2**31)))


_number = itertools.count()


@pytest.fixture(scope="session")
def _settings(tmp_path_factory):
    return tmp_path_factory.mktemp("settings")


@pytest.fixture(autouse=True)
def _owners_that_were_met(_settings, monkeypatch):
    """Each test meets its owners for the first time: a free port may have been that of another owner before."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(_settings / str(next(_number))))


@pytest.fixture
def generator(request):
    """NumPy's generator, from the run's seed and the test's name. A failing test shows how to repeat it."""
    seed = os.environ["SOJOURN_TEST_SEED"]
    print(f"repeat this run with SOJOURN_TEST_SEED={seed}")
    return np.random.default_rng(zlib.crc32(f"{seed}:{request.node.name}".encode()))


def pytest_collection_finish():
    """Objects made before the first test live to the end, so the collector can skip them."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items):
    """The slowest files first, as far as earlier runs tell; before them those that no run has seen, slow tests first."""
    try:
        times = json.loads(TIMES.read_text())
    except (OSError, ValueError):
        times = {}
    weights: dict[str, tuple[bool, float]] = {}
    for item in items:
        name = item.nodeid.partition("::")[0]
        if name in times:
            weights[name] = (False, times[name])
        else:
            more = 100.0 if item.get_closest_marker("slow") else 1.0
            weights[name] = (True, weights.get(name, (True, 0.0))[1] + more)
    items.sort(key=lambda item: weights[item.nodeid.partition("::")[0]], reverse=True)
