# SPDX-License-Identifier: Apache-2.0
"""Finds `sojourn_numpy` and the generated `sojourn_wire`: in build/python, else made for this run."""

import os
import pathlib
import subprocess
import sys
import tempfile
import zlib

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent


def _python_path() -> str:
    built = pathlib.Path(os.environ.get("SOJOURN_PYTHON", ROOT / "build" / "python"))
    wanted = ["sojourn_numpy", *(f"sojourn_wire/{root}.py" for root in ("Program", "Debug", "Reply"))]
    if all((built / name).exists() for name in wanted):
        return str(built)
    folder = tempfile.mkdtemp(prefix="sojourn-numpy-")
    for schema in ("runtime/Program.fbs", "runtime/Debug.fbs", "runtime/wire/Step.fbs", "runtime/wire/Messages.fbs"):
        subprocess.run(["flatc", "--python", "-o", folder, str(ROOT / schema)], check=True)
    os.symlink(ROOT / "owner" / "numpy", os.path.join(folder, "sojourn_numpy"))
    return folder


PYTHON_PATH = _python_path()
sys.path[:0] = [PYTHON_PATH, str(HERE)]


@pytest.fixture
def rng(request):
    """Fresh numbers for each run and test; pytest shows the seed when a test fails. SOJOURN_TEST_SEED repeats it."""
    run = int(os.environ["SOJOURN_TEST_SEED"])  # test/conftest.py draws it
    print(f"SOJOURN_TEST_SEED={run}")
    return np.random.default_rng(zlib.crc32(f"{run}:{request.node.name}".encode()))


@pytest.fixture
def python_path():
    return PYTHON_PATH
