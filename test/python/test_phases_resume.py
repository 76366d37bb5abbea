# SPDX-License-Identifier: Apache-2.0
"""Goal: `sojourn-opt` in a new process goes on from every dumped phase of every model of the zoo, to equal bytes.

The bytes are those that the client sent: the owner lists their hashes.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import subprocess
import sys

import pytest
import torch
from same_steps_support import compiled
from zoo_dumps_support import folder_of
from zoo_support import ZOO

import sojourn

BIN = pathlib.Path(__file__).resolve().parents[2] / "build/bin"
PHASES = ["captured", "functional", "promoted", "decomposed", "core"]
STEPS = 10  #: after which every script has done all that it does now and then


@pytest.fixture(scope="module")
def dumps(tmp_path_factory):
    root = tmp_path_factory.mktemp("dumps")
    script = pathlib.Path(__file__).parent / "zoo_dumps_support.py"
    command = [sys.executable, script, root, str(STEPS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return root


def run(*command, given=b""):
    done = subprocess.run([str(part) for part in command], input=given, capture_output=True, timeout=120)
    assert done.returncode == 0, (command, done.stderr.decode()[-2000:])
    return done.stdout


def resumed(text: bytes, phase) -> bytes:
    """Program bytes made from the text of a phase, in new processes."""
    core = run(BIN / "sojourn-opt", "-", f"--sojourn-to-core=from={phase}", given=text)
    return run(BIN / "sojourn-translate", "encode", "-", given=core)


def resumed_dump(program, phase) -> bytes:
    return resumed((program / f"0{PHASES.index(phase)}-{phase}.mlir").read_bytes(), phase)


def programs_of(root, name):
    programs = sorted(path.parent for path in folder_of(root, name).glob("*/program.bin"))
    assert len(programs) >= 2, "a first step, which makes what an optimizer keeps, and a later one"
    return programs


@pytest.mark.parametrize("name", ZOO)
def test_every_phase_goes_on_to_the_bytes_that_were_sent(name, dumps):
    sent = set(json.loads((folder_of(dumps, name) / "hashes.json").read_text()))
    programs = programs_of(dumps, name)
    bytes_of = {program: (program / "program.bin").read_bytes() for program in programs}
    hashes = {hashlib.blake2b(each, digest_size=32).hexdigest() for each in bytes_of.values()}
    assert hashes == sent
    pairs = [(program, phase) for program in programs for phase in PHASES]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:  # of processes
        for (program, phase), found in zip(pairs, pool.map(lambda pair: resumed_dump(*pair), pairs)):
            assert found == bytes_of[program], f"{program.name} from {phase}"


def with_short_batches():
    """A step whose first call is like the others, with a state to read and a second step for short batches."""
    kept = {}

    def init():
        kept["sum"] = torch.zeros((), device=device)
        return kept["sum"]

    def step(x):
        kept["sum"].add_(x.sum())
        return kept["sum"] * 2

    with sojourn.offline() as device:
        return sojourn.compile(
            step,
            init=init,
            tables={"rows": sojourn.table_spec(None, {"x": torch.float32})},
            batches=lambda rows: rows.batches("x", size=4),
            short=3,
        )


MADE = {"dense": lambda: compiled("dense"), "places": lambda: compiled("places"), "short": with_short_batches}


@pytest.mark.parametrize("name", MADE)
def test_texts_of_a_compiled_program_go_on_to_its_bytes(name):
    """Those of each call, also where calls share a program."""
    program = MADE[name]()
    for call in ("init", "first", "steady", *(["short"] if name == "short" else [])):
        for phase in PHASES:
            found = resumed(program.text(phase, call).encode(), phase)
            assert found == program.program_bytes(call), f"{call} from {phase}"


def test_another_dump_gives_other_bytes(dumps):
    """The comparison can fail: another number in a captured text."""
    program = programs_of(dumps, "MLP")[-1]
    text = (program / "00-captured.mlir").read_text()
    assert text.count('"aten.relu"') == 1
    changed = resumed(text.replace('"aten.relu"', '"aten.sin"').encode(), "captured")
    assert changed != (program / "program.bin").read_bytes()
