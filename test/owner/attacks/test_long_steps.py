# SPDX-License-Identifier: Apache-2.0
"""Attack: steps that take long. Each held one of 16 threads of the server for as long as it took, so that 16 of them
stopped all clients; neither a signal nor the end of the client ended one."""

import contextlib
import os
import pathlib
import re
import signal
import sys
import time

import pytest
import torch

import sojourn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import long_steps
from owner_process import OwnerProcess

ANY = ("--max-operations", "1000000000000000")


def long_step(process):
    """A quarter of an hour at least."""
    return long_steps.long_step(process, 2000, 2048)


def seconds_used(pid):
    """Processor time so far of a process and of those that it has started, as long as they live."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return own + sum(seconds_used(int(child)) for child in children)


def await_running(process):
    """Until the process computes."""
    used, end = seconds_used(process.pid), time.monotonic() + 60
    while seconds_used(process.pid) < used + 1 and time.monotonic() < end:
        time.sleep(0.05)
    assert seconds_used(process.pid) >= used + 1


def test_long_steps_hold_up_no_small_one(tmp_path):
    process = OwnerProcess(tmp_path, None, *ANY)
    children = []
    try:
        with sojourn.connect(process.address) as owner:
            x = torch.ones(3).to(owner.device)
            assert (x + 1).tolist() == [2, 2, 2]
            children = [long_step(process) for _ in range(20)]
            await_running(process)
            for i in range(50):
                assert (x + i).tolist() == [1 + i] * 3
            ended = [child.stdout.read() for child in children if child.poll() is not None]
            assert ended == [], "the long ones still run or wait"
    finally:
        for child in children:
            child.kill()
            child.wait()
        assert process.close() == 0


def test_a_deadline_ends_a_step(tmp_path):
    process = OwnerProcess(tmp_path, None, "--step-seconds", "1", *ANY)
    try:
        child = long_step(process)
        told = child.communicate(timeout=100)[0]
        assert re.match(
            "OwnerError Stopped: the step was stopped: it took longer than 1 seconds, this owner's deadline of a step",
            told,
        )
        assert child.returncode == 0
        with sojourn.connect(process.address) as owner:
            assert (torch.ones(3).to(owner.device) + 1).tolist() == [2, 2, 2]
    finally:
        assert process.close() == 0


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_the_server(tmp_path, kind):
    process = OwnerProcess(tmp_path, None, *ANY)
    children = [long_step(process) for _ in range(3)]
    await_running(process)
    os.kill(process.pid, kind)
    for child in children:
        told = child.communicate(timeout=100)[0]
        assert told.startswith("OwnerError Stopped: the step was stopped: the owner is closing"), told
    assert process._process.wait(60) == 0
    assert process.log().rstrip().endswith("steps")


def test_a_step_ends_with_its_client(tmp_path):
    process = OwnerProcess(tmp_path, None, *ANY)
    try:
        child = long_step(process)
        await_running(process)
        before = seconds_used(process.pid)
        child.kill()
        child.wait()
        end = time.monotonic() + 60
        while time.monotonic() < end:
            used = seconds_used(process.pid)
            time.sleep(1)
            if seconds_used(process.pid) < used + 0.2:
                break
        else:
            pytest.fail("the step still runs")
        # A second of grace on each processor, and what it takes to see the flag; other processes do not count.
        assert seconds_used(process.pid) < before + 2 * os.cpu_count() + 1
    finally:
        assert process.close() == 0


@contextlib.contextmanager
def served(tmp_path, settings):
    """A server with these settings, and a client's owner."""
    config = tmp_path / "owner.toml"
    config.write_text(settings)
    process = OwnerProcess(tmp_path, None, "--config", str(config), *ANY)
    try:
        with sojourn.connect(process.address) as owner:
            yield process, owner
    finally:
        assert process.close() == 0


FACTORS = {
    "svd": lambda x: torch.linalg.svdvals(x).sum(),
    "eigh": lambda x: torch.linalg.eigvalsh(x).sum(),
    "qr": lambda x: torch.linalg.qr(x).R.sum(),
    "lu": lambda x: torch.linalg.slogdet(x).logabsdet,
    "eig": lambda x: torch.linalg.eigvals(x).sum().real,
}


@pytest.mark.parametrize("name", FACTORS)
def test_a_long_call_of_the_library_is_refused(tmp_path, name):
    """Nothing ends the factors of one large matrix before they are there."""
    text = r"its call of the kernel library would take about .* seconds, expected at most 1 \(call_seconds\)"
    with served(tmp_path, "[steps]\nseconds = 1\n") as (process, owner):
        x = torch.randn(6000, 6000).to(owner.device)
        sojourn.flush()
        used = seconds_used(process.pid)
        with pytest.raises(sojourn.Error, match=text):
            FACTORS[name](x).item()
        assert seconds_used(process.pid) < used + 1


def test_calls_that_are_short_each_run(tmp_path):
    with served(tmp_path, "[steps]\ncall_seconds = 0.05\n") as (_, owner):
        x = torch.randn(2000, 40, 40, dtype=torch.float64)
        found = torch.linalg.svdvals(x.to(owner.device)).tolist()
        torch.testing.assert_close(torch.tensor(found, dtype=x.dtype), torch.linalg.svdvals(x))
        square = torch.randn(2048, 2048, dtype=torch.float64)
        found = (square.to(owner.device) @ square.to(owner.device)).diagonal().tolist()
        torch.testing.assert_close(torch.tensor(found, dtype=square.dtype), (square @ square).diagonal())
        with pytest.raises(sojourn.Error, match=r"expected at most 0.05 \(call_seconds\): no step can be ended"):
            torch.linalg.svdvals(torch.randn(500, 500).to(owner.device)).sum().item()


def test_a_long_line_is_sorted_until_the_deadline(tmp_path):
    with served(tmp_path, "[steps]\nseconds = 1\nall_arena_bytes = 32_000_000_000\n") as (process, owner):
        used = seconds_used(process.pid)
        with pytest.raises(sojourn.Error, match="it took longer than 1 second"):
            torch.rand(50_000_000, device=owner.device).sort().values[0].item()
        # The whole step takes 3 seconds of a processor.
        assert seconds_used(process.pid) < used + 2.5
