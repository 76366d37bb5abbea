# SPDX-License-Identifier: Apache-2.0
"""tools/setup says what is missing and stops; tools/check counts what its runners report."""

import hashlib
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
    for name in ("setup", "packages.txt", "requirements.txt", "sources.txt"):
        shutil.copy(ROOT / "tools" / name, tmp_path / "tools" / name)
    commands = tmp_path / "commands"
    commands.mkdir()

    def stand_in(name, script):
        (commands / name).write_text(f"#!/bin/sh\n{script}\n")
        (commands / name).chmod(0o755)

    def setup(*options):
        environment = dict(os.environ, PATH=f"{commands}:{os.environ['PATH']}")
        done = subprocess.run([tmp_path / "tools/setup", *options], env=environment, capture_output=True, text=True)
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


@pytest.fixture
def environment_made(bare_clone, tmp_path):
    """A clone whose packages and environment are there; pip, cmake and ninja are stand-ins that `calls` counts."""
    stand_in, setup = bare_clone
    calls = tmp_path / "calls"
    binaries = tmp_path / ".venv/bin"
    binaries.mkdir(parents=True)
    (binaries / "python").symlink_to(sys.executable)
    pins = b"".join((tmp_path / "tools" / name).read_bytes() for name in ("packages.txt", "requirements.txt"))
    (tmp_path / ".venv/sojourn-setup.stamp").write_text(hashlib.sha256(pins).hexdigest() + "\n")
    for tool in ("cmake", "ninja"):
        stand_in(tool, f"echo {tool} >>{calls}")
    archive = tmp_path / "pynng-1.tar.gz"
    for part in ("nng", "mbedtls"):
        (tmp_path / "pynng-1" / part).mkdir(parents=True)
        (tmp_path / "pynng-1" / part / "LICENSE").write_text("text")
    subprocess.run(["tar", "-czf", archive, "-C", tmp_path, "pynng-1"], check=True)

    def pip(script):
        (binaries / "pip").write_text(f"#!/bin/sh\necho pip >>{calls}\n{script}\n")
        (binaries / "pip").chmod(0o755)

    pip(f'while [ "$1" != -d ]; do shift; done; cp {archive} "$2"')
    return setup, pip, stand_in, lambda: calls.read_text().split() if calls.exists() else []


def test_setup_builds_nng_once(environment_made, tmp_path):
    setup, _, _, calls = environment_made
    code, text = setup("--no-build")
    assert code == 0 and "building nng with TLS" in text, text
    assert calls() == ["pip", "cmake", "ninja", "cmake", "ninja"]
    assert (tmp_path / ".venv/nng/licences/mbedtls/LICENSE").exists()
    assert not (tmp_path / ".venv/nng-scratch").exists()
    code, text = setup("--no-build")
    assert code == 0 and "nng" not in text and len(calls()) == 5
    pins = tmp_path / "tools/sources.txt"
    pins.write_text(pins.read_text().replace("sha256:", "sha256:0"))
    assert setup("--no-build")[0] == 0 and len(calls()) == 10


@pytest.mark.parametrize("broken", ["pip", "cmake", "ninja"])
def test_setup_says_what_failed_and_tries_again(environment_made, tmp_path, broken):
    setup, pip, stand_in, _ = environment_made
    before = (tmp_path / ".venv/bin/pip").read_text().splitlines()[-1]
    (pip if broken == "pip" else lambda script: stand_in(broken, script))("echo no such luck; exit 1")
    code, text = setup("--no-build")
    assert code == 1
    assert "no such luck" in text and "failed; the whole log is" in text
    assert ("fetching the sources" if broken == "pip" else "building mbedTLS") in text
    (pip if broken == "pip" else lambda script: stand_in(broken, script))(before if broken == "pip" else "exit 0")
    assert setup("--no-build")[0] == 0


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
