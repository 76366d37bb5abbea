# SPDX-License-Identifier: Apache-2.0
"""Goal: the same ops give the same program bytes: with data and without, in another process, from Python and from C++.

A step's ops are recorded in Python and again in C++ (test/frontend/SameSteps.cpp), each at an owner and ahead of time.
What is compared is the program that an owner gets and hashes. Lines of the source are in a debug table beside it, whose
bytes differ between files and languages; no program depends on it, which is compared, too.
"""

import hashlib
import os
import pathlib
import subprocess
import sys

import pytest
import torch
from same_steps_support import CALLS, STEPS, compiled, trace

import sojourn

FOLDER = pathlib.Path(__file__).resolve().parent
BIN = FOLDER.parents[1] / "build/bin"


def run(command, dump=None):
    """In a process of its own, which leaves its programs in the folder `dump`."""
    environment = os.environ | ({"SOJOURN_DUMP": str(dump)} if dump else {})
    command = [str(part) for part in command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=FOLDER, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def bytes_of(program):
    return {call: program.program_bytes(call) for call in CALLS}


def each_once(programs):
    """In the order of their compilation: a first step that makes no state of an optimizer is the steady one."""
    return list(dict.fromkeys(programs))


def dumped(folder):
    return [path.read_bytes() for path in sorted(pathlib.Path(folder).glob("*/program.bin"))]


@pytest.fixture(scope="module")
def wanted():
    """Compiled here, without data."""
    return {name: bytes_of(compiled(name)) for name in STEPS}


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """What another process of Python made: ahead of time to files, then traced at an owner, each into its folder."""
    folder = tmp_path_factory.mktemp("elsewhere")
    code = (
        "import os, sys, sojourn\n"
        "from same_steps_support import STEPS, compiled, trace\n"
        "for name in STEPS:\n"
        "    os.environ['SOJOURN_DUMP'] = f'{sys.argv[1]}/{name}'\n"
        "    with sojourn.local() as owner:\n"
        "        trace(name, owner)\n"
        "    del os.environ['SOJOURN_DUMP']\n"
        "    compiled(name).save(f'{sys.argv[1]}/{name}.sojourn')\n"
    )
    run([sys.executable, "-c", code, folder])
    return folder


@pytest.mark.parametrize("name", STEPS)
def test_without_data_in_another_process(name, wanted, elsewhere):
    assert bytes_of(sojourn.load(elsewhere / f"{name}.sojourn")) == wanted[name]


@pytest.mark.parametrize("name", STEPS)
def test_with_data_in_another_process(name, wanted, elsewhere):
    """A trace makes the same programs and no other."""
    assert dumped(elsewhere / name) == each_once(wanted[name].values())


@pytest.mark.parametrize("name", STEPS)
def test_with_data_here(name, wanted, owner, seed):
    """An owner of either runtime has seen these programs, by the hashes of their bytes."""
    before = {info["hash"] for info in owner.programs()}
    trace(name, owner)
    trace(name, owner, steps=5)  # other data, in another session of optimizers
    hashes = {hashlib.blake2b(program, digest_size=32).hexdigest() for program in wanted[name].values()}
    ran = {info["hash"] for info in owner.programs()}
    assert hashes <= ran and ran - before <= hashes


@pytest.mark.parametrize("name", STEPS)
def test_from_cpp_without_data(name, wanted, tmp_path):
    run([BIN / "same-steps", name, "--ahead", tmp_path / "step.sojourn"])
    assert bytes_of(sojourn.load(tmp_path / "step.sojourn")) == wanted[name]


@pytest.mark.parametrize("name", STEPS)
def test_from_cpp_with_data(name, wanted, tmp_path):
    run([BIN / "same-steps", name], dump=tmp_path)
    assert dumped(tmp_path) == each_once(wanted[name].values())


def test_no_python_in_the_process():
    assert "libpython" not in run(["ldd", BIN / "same-steps"])


@pytest.mark.parametrize("name", STEPS)
def test_other_ops_give_other_bytes(name, wanted):
    """The comparison can fail: one more op, and another constant, are other programs."""

    class More(STEPS[name]):
        def step(self, *given):
            first, *others = super().step(*given)
            return first.sin(), *others

    class Other(STEPS[name]):
        def step(self, *given):
            return super().step(given[0] + 1, *given[1:])

    for kind in (More, Other):
        changed = bytes_of(compiled(name, kind))
        assert changed["init"] == wanted[name]["init"] and changed["steady"] != wanted[name]["steady"]


def test_lines_are_not_in_the_bytes(wanted, tmp_path):
    """The same source at other lines of a file of another name."""
    text = (FOLDER / "same_steps_support.py").read_text().replace("from __future__ import annotations\n", "")
    (tmp_path / "elsewhere_steps.py").write_text("\n" * 40 + text)
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import elsewhere_steps as steps, sojourn\n"
        "for name in steps.STEPS:\n"
        "    steps.compiled(name).save(f'{sys.argv[1]}/{name}.sojourn')\n"
    )
    run([sys.executable, "-c", code, tmp_path], dump=tmp_path / "dump")
    for name in STEPS:
        assert bytes_of(sojourn.load(tmp_path / f"{name}.sojourn")) == wanted[name]
    debug = b"".join(path.read_bytes() for path in (tmp_path / "dump").glob("*/debug.bin"))
    assert b"elsewhere_steps.py" in debug and b"same_steps_support.py" not in debug


def test_values_are_not_in_the_bytes(wanted, seed):
    """Weights from another seed, and others than the owner's data, are uploads of a run."""
    torch.manual_seed(seed)
    with sojourn.local() as owner:
        published = [trace("dense", owner, steps=2) for _ in range(2)]
        ran = {info["hash"] for info in owner.programs()}
    assert not torch.equal(published[0][0][0].value, published[1][0][0].value)
    assert len(ran) == 3
