# SPDX-License-Identifier: Apache-2.0
"""The C++ surface as a program: examples/train.cpp on CPU tensors, an embedded and a served owner."""

import pathlib
import re
import subprocess
import uuid

import numpy as np
import pytest

BIN = pathlib.Path(__file__).resolve().parents[2] / "build/bin"


@pytest.fixture
def table(tmp_path, rng):
    """A table that a small network can learn: path of an .npz file."""
    generator = np.random.default_rng(rng.getrandbits(64))
    x = generator.normal(size=(rng.randint(90, 150), 4))
    path = tmp_path / "points.npz"
    np.savez(path, y=(x[:, 0] * x[:, 1] > 0).astype(np.int64), **{f"x{k}": x[:, k] for k in range(4)})
    return path


def train(table, owner):
    command = [BIN / "train", table, "--label", "y", "--owner", owner, "--epochs", "3", "--size", "32", "--seed", "7"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    numbers = dict(re.findall(r"^(epoch \d  loss|accuracy|round trips per step) (\S+)$", done.stdout, re.M))
    return {name: float(number) for name, number in numbers.items()}


def test_one_program_wherever_the_table_is(table, owner_process):
    name = f"points-{uuid.uuid4()}"
    command = [
        BIN / "sojourn-owner",
        "import",
        table,
        "--name",
        name,
        "--policy",
        "open",
        "--anyone",
        "--store",
        owner_process.store,
    ]
    subprocess.run(command, check=True, capture_output=True)
    plain, embedded, served = train(table, "none"), train(table, "local"), train(name, owner_process.address)
    assert len(plain) == 5 and plain.pop("round trips per step") == 0
    for report in (embedded, served):
        assert report.pop("round trips per step") == 1
        assert report == pytest.approx(plain, rel=1e-5)


def test_no_python_in_the_process():
    libraries = subprocess.run(["ldd", BIN / "train"], capture_output=True, text=True, check=True).stdout
    assert "libtorch_cpu" in libraries and "libpython" not in libraries and "libtorch_python" not in libraries


def test_mistakes_end_with_a_line_and_status_1(table):
    for arguments, text in [
        ((table, "--label", "z"), "no column 'z'"),
        (("nowhere.csv", "--label", "y"), "no such file"),
        ((table, "--label", "y", "--owner", "ipc:///nowhere.sock"), "no owner answers"),
    ]:
        done = subprocess.run([BIN / "train", *arguments], capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and done.stderr.startswith("train: ") and text in done.stderr
