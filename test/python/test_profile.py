# SPDX-License-Identifier: Apache-2.0
"""Times of instructions: by an option of the embedded owner, and by SOJOURN_PROFILE for a process."""

import json
import os
import re
import subprocess
import sys

import pytest

import sojourn

PROGRAM = """
import torch
import sojourn

owner = sojourn.local({option})
weight = torch.randn(64, 32).to(owner.device)
for _ in range(3):
    with sojourn.step():
        image = torch.randn(16, 64).to(owner.device)
        result = torch.tanh(image @ weight).sum()
    assert torch.isfinite(sojourn.publish(result))
"""


@pytest.mark.parametrize("by_option", [True, False])
def test_a_process_leaves_tables_and_a_trace(tmp_path, by_option):
    folder = tmp_path / "profile"
    environment = dict(os.environ)
    environment.pop("SOJOURN_PROFILE", None)
    if not by_option:
        environment["SOJOURN_PROFILE"] = str(folder)
    program = PROGRAM.format(option=f"profile={str(folder)!r}" if by_option else "")
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

    tables = sorted(folder.glob("plan-*.txt"))
    assert tables
    counts = 0
    for table in tables:
        lines = table.read_text().splitlines()
        runs, instructions = map(int, re.match(r"plan \d+: (\d+) runs, (\d+) instructions", lines[0]).groups())
        rows = [line.split(None, 5) for line in lines[2:]]
        assert len(rows) == instructions
        assert all(int(row[3]) == runs for row in rows)
        # A plan that only passes an upload on has no instruction.
        assert sum(float(row[0]) for row in rows) == pytest.approx(100 if rows else 0, abs=0.01 * len(rows))
        times = [float(row[1]) for row in rows]
        assert times == sorted(times, reverse=True)
        counts += runs * instructions
    assert any("dot" in table.read_text() for table in tables)

    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    assert len(events) == counts
    assert all(event["ph"] == "X" and event["dur"] > 0 and event["args"]["bytes"] > 0 for event in events)
    dots = [event for event in events if event["name"] == "dot"]
    # Two operands and the result, whatever their values.
    assert {event["args"]["bytes"] for event in dots} == {4 * (16 * 64 + 64 * 32 + 16 * 32)}


def test_the_numpy_runtime_has_nothing_to_time(tmp_path):
    with pytest.raises(sojourn.Error, match="has no instructions to time; leave out `profile`"):
        sojourn.local(runtime="numpy", profile=str(tmp_path))


def test_a_step_on_a_private_table_shows_counts_and_bytes_alone(tmp_path):
    folder = tmp_path / "profile"
    program = f"""
import numpy as np
import sojourn

owner = sojourn.local(profile={str(folder)!r})
table = owner.register("rows", {{"a": np.random.rand(40)}}, policy="private", bounds={{"a": (0, 1)}})
owner.grant("rows", epsilon=10, delta=1e-5)
with sojourn.step():
    value = sojourn.publish(table["a"].sum(), epsilon=1)
print(float(value.value))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    tables = [table.read_text() for table in folder.glob("plan-*.txt")]
    private = [text for text in tables if "read" in text]
    assert private, tables
    for text in private:
        rows = [line.split(None, 5) for line in text.splitlines()[2:]]
        assert all(row[:3] == ["-", "-", "-"] and int(row[3]) == 1 and int(row[4]) > 0 for row in rows), text
    number = {re.match(r"plan (\d+):", text).group(1) for text in private}
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    assert not [event for event in events if str(event["args"]["plan"]) in number]
