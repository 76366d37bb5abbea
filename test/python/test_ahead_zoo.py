# SPDX-License-Identifier: Apache-2.0
"""Goal: every model of the zoo is compiled in Python, and runs from C++ without Python as if it had been traced.

The same step runs four times: from the file in C++ and in Python, traced at an owner, and in eager on the CPU. The first
three are one program with the same draws, so losses and states are equal, bit by bit.
"""

import os
import pathlib
import subprocess
import uuid

import numpy as np
import pytest
import torch
from remote_support import shared_owner
from zoo_ahead_support import CASES, Form, Found, compiled, eager, run_python, traced
from zoo_runs_support import Run, assert_near
from zoo_support import RANDOM, ZOO

import sojourn

BIN = pathlib.Path(__file__).resolve().parents[2] / "build/bin"
STEPS = 7


def run(*command):
    """Without the variables by which a process finds Python's modules."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [str(part) for part in command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_cpp(path, address, draws, like: Found, *options) -> Found:
    """The run of a file by C++, its state by the names of another run's."""
    values, state = path.with_suffix(".values"), path.with_suffix(".state")
    run(BIN / "run-step", path, address, "--seed", draws, "--save", values, "--state", state, *options)
    kept = torch.load(state, weights_only=False)
    losses = [published[-1] for published in torch.load(values, weights_only=False)]
    return Found(losses, dict(zip(like.state, kept, strict=True)))


def assert_same(found: Found, wanted: Found):
    """Bit by bit, NaN nowhere."""
    for ours, theirs in zip(found.losses, wanted.losses, strict=True):
        assert ours.dtype == theirs.dtype and torch.equal(ours, theirs), (found.losses, wanted.losses)
    assert found.state.keys() == wanted.state.keys()
    for name, value in wanted.state.items():
        assert found.state[name].dtype == value.dtype and torch.equal(found.state[name], value), name


def assert_eager(found: Found, wanted: Found):
    """In float64, within the tolerance of the zoo; counts on the host are not in the state."""
    assert len(found.state) > 1
    as_runs = [
        Run(torch.tensor(each.losses), {name: each.state[name] for name in found.state}, 0, 0, None)
        for each in (found, wanted)
    ]
    assert_near(*as_runs)


@pytest.fixture
def wide():
    """Counts of steps as tensors have torch's default dtype, and Python's numbers those of eager have 64 bits."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def check(name, dtype, address, draws, folder):
    case = CASES[name]
    batches = list(Form(case, "cpu", dtype).inputs(STEPS))
    path, inputs = folder / "step.sojourn", folder / "inputs.pt"
    compiled(case, dtype).save(path)
    torch.save(batches, inputs)
    wanted = traced(case, dtype, batches, shared_owner(), draws)
    found = run_python(sojourn.load(path), shared_owner(), draws, batches, per_trip=3)
    assert_same(found, wanted)
    assert_same(run_cpp(path, address, draws, found, "--inputs", inputs), wanted)
    if dtype == torch.float64 and case.name not in RANDOM:
        assert_eager(wanted, eager(case, dtype, batches))


@pytest.mark.parametrize("name", CASES)
def test_python_compiles_and_cpp_runs(name, wide, owner_process, seed, tmp_path):
    check(name, torch.float64, owner_process.address, seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_in_float32(name, owner_process, seed, tmp_path):
    check(name, torch.float32, owner_process.address, seed, tmp_path)


def test_the_zoo_is_covered_and_python_is_not_there():
    assert {case.name for case in CASES.values()} == set(ZOO)
    assert "libpython" not in run("ldd", BIN / "run-step")


def columns_of(form, batches):
    """Rows of a table: batches of the script, one behind the other."""
    x, y = (torch.cat(parts).numpy() for parts in zip(*(form.script.batch() for _ in range(batches))))
    return {"x": x, "y": y}


@pytest.mark.parametrize("name", ["MLP", "CNN", "LSTM"])
def test_the_batches_are_those_of_a_table(name, owner_process, seed, tmp_path):
    """The data stays at the served owner; from the program's table it was described as, under another name."""
    case, dtype = CASES[name], torch.float32
    form, dataset = Form(case, "cpu", dtype), f"zoo-{uuid.uuid4()}"
    columns = columns_of(form, 5)
    size, rows = len(form.batches[0][0]), len(columns["y"])
    np.savez(tmp_path / "rows.npz", **columns)
    options = ["--name", dataset, "--policy", "open", "--anyone", "--store", owner_process.store]
    run(BIN / "sojourn-owner", "import", tmp_path / "rows.npz", *options)
    batches = lambda table: table.batches("x", label="y", size=size, epochs=2, seed=seed % 1000, drop_last=True)
    described = {key: (getattr(torch, str(x.dtype)), x.shape[1:]) for key, x in columns.items()}
    program = compiled(
        case, dtype, tables={"rows": sojourn.table_spec(None, described)}, batches=lambda rows: batches(rows)
    )
    program.save(tmp_path / "step.sojourn")
    with sojourn.connect(owner_process.address) as owner:
        wanted = traced(case, dtype, batches(owner.dataset(dataset)), owner, seed)
        assert len(wanted.losses) == 2 * (rows // size) >= 10
        before = owner.counters()
        found = run_python(program, owner, seed, tables={"rows": dataset}, per_trip=4)
        assert owner.counters()["round_trips"] - before["round_trips"] <= 3 + 3 + 1
    assert_same(found, wanted)
    assert_same(
        run_cpp(tmp_path / "step.sojourn", owner_process.address, seed, found, "--table", f"rows={dataset}"), wanted
    )
