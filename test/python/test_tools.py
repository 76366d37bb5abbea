# SPDX-License-Identifier: Apache-2.0
"""tools/setup says what is missing and stops; tools/check counts what its runners report."""

import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def check():
    spec = importlib.util.spec_from_file_location("sojourn_check", ROOT / "tools/check.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def bare_clone(tmp_path):
    """A folder with set-up's own files, and a PATH of stand-ins that go before the real commands."""
    (tmp_path / "tools").mkdir()
    for name in ("setup", "packages.txt", "requirements.txt"):
        shutil.copy(ROOT / "tools" / name, tmp_path / "tools" / name)
    commands = tmp_path / "commands"
    commands.mkdir()

    def stand_in(name, script):
        (commands / name).write_text(f"#!/bin/sh\n{script}\n")
        (commands / name).chmod(0o755)

    def setup():
        environment = dict(os.environ, PATH=f"{commands}:{os.environ['PATH']}")
        done = subprocess.run([tmp_path / "tools/setup"], env=environment, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    return stand_in, setup


def test_setup_names_missing_packages_without_root(bare_clone):
    stand_in, setup = bare_clone
    stand_in("dpkg-query", "echo 'g++=4:12.2.0-3 installed'; echo 'flatbuffers-compiler=1.0 installed'")
    stand_in("id", "echo 1000")
    stand_in("sudo", "exit 1")
    code, text = setup()
    assert code == 1
    assert "libmlir-22-dev" in text and "sudo apt-get install" in text
    assert "flatbuffers-compiler=2.0.8" in text  # there, but in another version
    assert "g++" not in text.split("apt-get install", 1)[1].split()


def test_setup_says_that_it_needs_debian(bare_clone):
    stand_in, setup = bare_clone
    stand_in("dpkg-query", "exit 127")
    stand_in("apt-get", "exit 127")
    stand_in("id", "echo 1000")
    stand_in("sudo", "exit 1")
    code, text = setup()
    assert code == 1 and "missing" in text


def test_check_adds_up_reports(check):
    lit = {"tests": [{"code": code} for code in ("PASS", "PASS", "FAIL", "XFAIL", "UNSUPPORTED", "TIMEOUT")]}
    assert counts(check.parse_lit(json.dumps(lit))) == (3, 2, 1)
    cases = [{"status": "RUN"}, {"status": "RUN", "failures": [1]}, {"status": "RUN", "result": "SKIPPED"}]
    assert counts(check.parse_gtest(json.dumps({"testsuites": [{"testsuite": cases}]}))) == (1, 1, 1)
    junit = '<testsuites><testsuite tests="9" failures="2" errors="1" skipped="3"/></testsuites>'
    assert counts(check.parse_junit(junit)) == (3, 3, 3)
    assert counts(check.parse_lint("lint: 7 passed, 1 failed, 2 skipped\n")) == (7, 1, 2)


@pytest.mark.parametrize(
    "script, failed, broken",
    [
        ("kill -SEGV $$", 1, "SIGSEGV"),
        ("exit 0", 1, "left no report"),
        ("echo 'lint: 3 passed, 0 failed, 0 skipped' >$REPORT; exit 2", 1, "reports no failure"),
        ("echo 'lint: 3 passed, 1 failed, 0 skipped' >$REPORT; exit 1", 1, ""),
        ("echo 'lint: 3 passed, 0 failed, 0 skipped' >$REPORT", 0, ""),
    ],
)
def test_check_counts_a_crash_as_failure(check, tmp_path, monkeypatch, script, failed, broken):
    report = tmp_path / "report"
    monkeypatch.setenv("REPORT", str(report))
    count = check.run("runner", ["bash", "-c", script], report, check.parse_lint)
    assert count.failed == failed and broken in count.broken


def counts(count):
    return (count.passed, count.failed, count.skipped)
