# SPDX-License-Identifier: Apache-2.0
"""Attack: a table file that becomes shorter while the owner has it in memory. A read of a page that is gone ended the
server (SIGBUS), and the error of a file that could not be opened showed its path to every client."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import torch

import sojourn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
from owner_process import ROOT, OwnerProcess

ROWS = 50_000  # columns of many pages


@pytest.fixture
def data(generator):
    return {name: generator.standard_normal(ROWS) for name in "abc"}


@pytest.fixture
def store(data, tmp_path):
    """A store of two tables, and the file of the first."""
    with sojourn.local(tmp_path / "store") as owner:
        owner.register("whole", {"a": data["a"]}, policy="open")
        before = set(tmp_path.rglob("*.arrow"))
        owner.register("short", data, policy="open")
    (file,) = set(tmp_path.rglob("*.arrow")) - before
    for name in ("whole", "short"):
        words = [ROOT / "build/bin/sojourn-owner", "access", name, "--anyone", "--store", tmp_path / "store"]
        subprocess.run(words, check=True, capture_output=True)
    return tmp_path / "store", file


@pytest.fixture
def served(store, tmp_path):
    process = OwnerProcess(tmp_path)
    yield process
    assert process.close() == 0


def total(owner, table, column):
    return float(sojourn.publish(owner.dataset(table).rows(column, dtype=torch.float64).sum()))


@pytest.mark.parametrize("keeps", [0.6, 0.4, 0.0])
def test_a_file_that_becomes_shorter_in_use(served, store, data, keeps):
    with sojourn.connect(served.address) as owner:
        assert total(owner, "short", "b") == pytest.approx(data["b"].sum(), abs=1e-8)
        os.truncate(store[1], int(os.path.getsize(store[1]) * keeps))
        for _ in range(2):
            with pytest.raises(sojourn.OwnerError, match="Dataset: the file of dataset 'short' became shorter"):
                total(owner, "short", "c")
        assert total(owner, "whole", "a") == pytest.approx(data["a"].sum(), abs=1e-8)
    with sojourn.connect(served.address) as another:
        with pytest.raises(sojourn.OwnerError, match="became shorter"):
            total(another, "short", "c")
        assert total(another, "whole", "a") == pytest.approx(data["a"].sum(), abs=1e-8)


@pytest.mark.parametrize("damage", [lambda file: os.truncate(file, 1000), os.remove], ids=["shorter", "gone"])
def test_a_file_that_cannot_be_opened(served, store, damage):
    """Its path is for the data owner."""
    damage(store[1])
    with sojourn.connect(served.address) as owner:
        with pytest.raises(sojourn.OwnerError) as failure:
            total(owner, "short", "a")
        assert "Dataset: the owner cannot read a table of this step; its log says why" in str(failure.value)
        assert str(store[0]) not in str(failure.value)
        assert total(owner, "whole", "a") != 0
    assert f"cannot read '{store[1]}'" in served.log()


def test_an_embedded_owner(store, data):
    """Of a process that has other handlers of the signal; a restored file is read by the next owner."""
    content = store[1].read_bytes()
    with sojourn.local(store[0]) as owner:
        assert total(owner, "short", "a") == pytest.approx(data["a"].sum(), abs=1e-8)
        os.truncate(store[1], 0)
        with pytest.raises(sojourn.OwnerError, match="became shorter"):
            total(owner, "short", "c")
        assert np.isclose(total(owner, "whole", "a"), data["a"].sum())
    store[1].write_bytes(content)
    with sojourn.local(store[0]) as owner:
        assert total(owner, "short", "c") == pytest.approx(data["c"].sum(), abs=1e-8)
