# SPDX-License-Identifier: Apache-2.0
"""Attack: texts that steer the data owner's terminal. Names of clients and files, columns and lines of programs could
carry escape sequences, C1 controls and marks of direction, which hide or reorder what is shown."""

import pathlib
import subprocess
import sys

import flatbuffers
import numpy as np
import pytest
import torch

import sojourn
import sojourn_wire.Hello as hello_wire
import sojourn_wire.Request as request_wire
from sojourn_wire.format import DIALECT_VERSION, FORMAT_VERSION, PROTOCOL_VERSION
from sojourn_wire.RequestBody import RequestBody

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
from frames_support import Connection
from owner_process import ROOT, OwnerProcess

# Clears a screen, the same by one C1 character, renames a window, turns text around, hides a space.
EVIL = ["\x1b[2J", "\x9b2J", "\x1b]0;x\x07", "\u202e", "\u2066", "\u200b", "\u2028"]


def assert_plain(text: str):
    assert not [character for character in text if character in set("".join(EVIL)) - set("[2J]0;x")], repr(text)


def command(*words):
    done = subprocess.run([ROOT / "build/bin/sojourn-owner", *map(str, words)], capture_output=True, timeout=60)
    return done.returncode, done.stdout.decode() + done.stderr.decode()


def hello(name: str) -> bytes:
    builder = flatbuffers.Builder(256)
    said = builder.CreateString(name)
    hello_wire.HelloStart(builder)
    hello_wire.HelloAddProtocolVersion(builder, PROTOCOL_VERSION)
    hello_wire.HelloAddFormatVersion(builder, FORMAT_VERSION)
    hello_wire.HelloAddDialectVersion(builder, DIALECT_VERSION)
    hello_wire.HelloAddClient(builder, said)
    body = hello_wire.HelloEnd(builder)
    request_wire.RequestStart(builder)
    request_wire.RequestAddBodyType(builder, RequestBody.Hello)
    request_wire.RequestAddBody(builder, body)
    builder.Finish(request_wire.RequestEnd(builder), b"SJM1")
    return bytes(builder.Output())


def test_a_name_of_a_client_in_the_log(tmp_path):
    process = OwnerProcess(tmp_path)
    try:
        with Connection(process.address) as client:
            for evil in EVIL:
                client.handle(hello(f"ada{evil}end"))
            process._wait(lambda: process.log().count("session opened") == len(EVIL))
        assert "which calls itself 'ada?" in process.log()
        assert_plain(process.log())
    finally:
        assert process.close() == 0


@pytest.mark.parametrize("evil", EVIL)
def test_names_of_files_and_columns(tmp_path, evil):
    file = tmp_path / f"patients{evil}.csv"
    store = ["--store", tmp_path / "store"]
    file.write_text("age\n1\n2\n")
    status, shown = command("import", file, "--name", "t", "--policy", "open", *store)
    assert status == 0 and "patients?" in shown
    assert_plain(shown)
    assert_plain(command("datasets", *store)[1])
    for head, text in ((f"age{evil}\n1\n", "not plain"), ("age\nx\n", "")):
        file.write_text(head)
        status, shown = command("import", file, "--name", "u", "--policy", "open", "--columns", f"b{evil}", *store)
        assert status == 1 and text in shown
        assert_plain(shown)
    status, shown = command("import", tmp_path / f"none{evil}", "--name", f"n{evil}", *store)
    assert status == 1 and shown
    assert_plain(shown)


def test_lines_of_programs(tmp_path, generator):
    """A scientist's function and file may have such names."""
    store = tmp_path / "store"
    with sojourn.local(store) as owner:
        owner.register("t", {"a": generator.standard_normal(5)}, policy="open")
    process = OwnerProcess(tmp_path)
    try:
        with sojourn.connect(process.address) as owner:
            source = "def total(x):\n    return sojourn.publish(x.sum())\n"
            space = {"sojourn": sojourn}
            exec(compile(source, f"scr{''.join(EVIL)}ipt.py", "exec"), space)
            x = torch.from_numpy(generator.standard_normal(4))
            assert np.isclose(float(sojourn.step(space["total"])(x.to(owner.device)).value), x.sum())
        status, listed = command("programs", "--store", store)
        assert status == 0
        assert_plain(listed)
        (program,) = [line.split()[0] for line in listed.splitlines() if "pid" in line]
        status, shown = command("programs", "--text", program, "--store", store)
        assert status == 0 and "scr?" in shown
        assert_plain(shown)
    finally:
        assert process.close() == 0
