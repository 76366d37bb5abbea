# SPDX-License-Identifier: Apache-2.0
"""Attack: imports that end before they are done. Each left a copy of the rows in the store, which nothing ever removed;
a file that crashed its reader ended the command by a signal."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest
import torch
from imports_support import ROOT, SIGNALS, bring, child_of, large_csv, left, started, tool, words

import sojourn

TERMS = ["--policy=open"]


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    return large_csv(tmp_path_factory.mktemp("large") / "large.csv", 40)


@pytest.fixture
def store(tmp_path):
    """With a table that every test finds unchanged."""
    (tmp_path / "small.csv").write_text("x\n0.5\n0.25\n")
    bring(tmp_path / "small.csv", tmp_path / "store", *TERMS, name="small", code=0)
    assert len(left(tmp_path / "store")) == 1
    yield tmp_path / "store"
    assert "small:" in tool("datasets", "--store", tmp_path / "store")
    with sojourn.local(tmp_path / "store") as owner:
        assert float(sojourn.publish(owner.dataset("small").rows("x", dtype=torch.float64).sum())) == 0.75


def heeds_signals():
    """A process in the background may have them ignored, and so have its children."""
    for each in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(each, signal.SIG_DFL)


def begin(file, store, *more, name="large") -> subprocess.Popen:
    return subprocess.Popen(
        words(file, store, name, *TERMS, *more),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=heeds_signals,
    )


def test_imports_that_are_killed_at_any_moment(large, store, generator):
    """The next command removes what they left."""
    begun = time.monotonic()
    bring(large, store.parent / "other", *TERMS, code=0)
    whole = time.monotonic() - begun
    files = 0
    for number in range(12):
        before = left(store)
        process = begin(large, store, name=f"large{number}")
        end = time.monotonic() + float(generator.uniform(0, 1.1 * whole))
        if number % 2:  # as soon as there is something of the table
            end = time.monotonic() + 60
        while time.monotonic() < end and process.poll() is None:
            if number % 2 and any(".arrow" in name for name in left(store) - before):
                break
            time.sleep(0.0005)
        process.kill()
        process.communicate()
        files += len(left(store) - before)
        tables = tool("datasets", "--store", store)
        assert len(left(store)) == 1 + len(re.findall("^large", tables, re.M)), number
    assert files > 0  # there was something to sweep
    bring(large, store, *TERMS, name="again", code=0)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda how: how.name)
def test_an_import_that_is_interrupted(how, large, store):
    """It ends at once, removes its files itself, and its shell learns of the signal."""
    before = left(store)
    process = begin(large, store)
    child = child_of(process)
    started(child)
    begun = time.monotonic()
    process.send_signal(how)
    process.communicate(timeout=60)
    assert time.monotonic() - begun < 5 and process.returncode == -how
    assert left(store) == before and not pathlib.Path(f"/proc/{child}").exists()


def test_an_interrupt_of_the_terminal(large, store):
    """Reaches both processes."""
    before = left(store)
    process = subprocess.Popen(words(large, store, "large", *TERMS), start_new_session=True, preexec_fn=heeds_signals)
    started(child_of(process))
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(60) == -signal.SIGINT and left(store) == before


@pytest.mark.parametrize("how", [signal.SIGSEGV, signal.SIGBUS, signal.SIGKILL, signal.SIGXCPU], ids=SIGNALS.get)
def test_a_reader_that_crashes(how, large, store):
    """Or that the kernel ends for want of memory."""
    before = left(store)
    process = begin(large, store)
    child = child_of(process)
    started(child)
    os.kill(child, how)
    shown, _ = process.communicate(timeout=60)
    assert process.returncode == 1 and f"cannot import '{large}': the process that reads it" in shown
    expected = {signal.SIGKILL: "was killed", signal.SIGXCPU: "seconds of processor time"}
    assert expected.get(how, f"ended by {how.name}") in shown
    assert left(store) == before


def test_limits_of_the_reader(large, store):
    process = begin(large, store, "--max-bytes", 2**30)
    child = child_of(process)
    started(child)
    os.kill(child, signal.SIGSTOP)
    limits = pathlib.Path(f"/proc/{child}/limits").read_text()
    facts = pathlib.Path(f"/proc/{child}/status").read_text()
    streams = [os.readlink(f"/proc/{child}/fd/{number}") for number in range(3)]
    blame = pathlib.Path(f"/proc/{child}/oom_score_adj").read_text()
    # It ends with the command.
    process.kill()
    process.communicate()
    for _ in range(500):
        state = re.search(r"^State:\s+(\w)", facts_of(child), re.M)
        if not state or state[1] in "ZX":
            break
        time.sleep(0.01)
    else:
        raise AssertionError("the reader outlives the command")

    def limit(name):
        return re.search(rf"^{name} +(\S+)", limits, re.M)[1]

    assert limit("Max core file size") == "0" and limit("Max open files") == "256"
    assert 2**31 < int(limit("Max address space")) < 2**35
    assert 2**30 < int(limit("Max file size")) < 2**31
    assert 3600 <= int(limit("Max cpu time")) < 2**20
    assert re.search(r"^NoNewPrivs:\s+1$", facts, re.M)
    assert streams == ["/dev/null"] * 3 and int(blame) == 1000


def facts_of(process: int) -> str:
    try:
        return pathlib.Path(f"/proc/{process}/status").read_text()
    except OSError:
        return ""


def test_imports_of_other_processes_go_on(large, store):
    """While commands open the store."""
    process = begin(large, store)
    child = child_of(process)
    started(child)
    os.kill(child, signal.SIGSTOP)
    under_way = left(store)
    assert any(name.endswith(".importing") for name in under_way)
    for _ in range(2):
        assert "large" not in tool("datasets", "--store", store)
    with sojourn.local(store) as owner:
        assert [table.name for table in owner.datasets()] == ["small"]
    assert left(store) == under_way
    os.kill(child, signal.SIGCONT)
    shown, _ = process.communicate(timeout=120)
    assert process.returncode == 0, shown
    assert "large:" in tool("datasets", "--store", store) and len(left(store)) == 2


@pytest.mark.parametrize("keeps", [0, 0.3, 0.9])
def test_a_file_that_becomes_shorter_while_it_is_read(keeps, large, store, tmp_path):
    """A table of fewer rows, or an error: no signal."""
    file = tmp_path / "t.csv"
    file.write_bytes(large.read_bytes())
    process = begin(file, store)
    started(child_of(process))
    os.truncate(file, int(file.stat().st_size * keeps))
    shown, _ = process.communicate(timeout=120)
    assert process.returncode in (0, 1) and "ended by" not in shown, shown
    assert len(left(store)) == (2 if process.returncode == 0 else 1)


SCRIPT = """
import sys, sojourn
with sojourn.local(sys.argv[2]) as owner:
    print("ready", flush=True)
    owner.register("large", sys.argv[1], policy="open")
    print("done", flush=True)
"""


def test_a_script_that_is_killed(large, store):
    """An embedded owner imports in its own process."""
    before = left(store)
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, large, store], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout.readline() == "ready\n"
    end = time.monotonic() + 60
    while left(store) == before and time.monotonic() < end:
        time.sleep(0.001)
    process.kill()
    process.communicate()
    assert left(store) > before
    tool("datasets", "--store", store)
    assert left(store) == before


def test_what_is_not_of_an_import_stays(store, tmp_path):
    """A table without a mark is not swept: a catalogue that was restored from a copy may not know it yet."""
    for name in ("0123456789abcdef.arrow", "notes.importing.txt"):
        (store / "datasets" / name).write_text("precious")
    before = left(store)
    tool("datasets", "--store", store)
    assert left(store) == before


def test_progress_is_shown(large, store):
    """On a terminal."""
    master, slave = os.openpty()
    process = subprocess.Popen(words(large, store, "large", *TERMS), stdout=subprocess.PIPE, stderr=slave)
    os.close(slave)
    shown = b""
    while True:
        try:
            part = os.read(master, 4096)
        except OSError:
            break
        if not part:
            break
        shown += part
    process.communicate(timeout=120)
    os.close(master)
    assert process.returncode == 0
    assert b"0% reading" in shown and b"50% column y" in shown and b"0% writing" in shown
