# SPDX-License-Identifier: Apache-2.0
"""Hand-written programs are built by the NumPy owner's test tools."""

import pathlib
import secrets
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/owner_numpy"))


@pytest.fixture
def rng():
    seed = secrets.randbits(60)
    print("seed", seed)
    return np.random.default_rng(seed)
