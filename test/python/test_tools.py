# SPDX-License-Identifier: Apache-2.0
"""tools/setup says what is missing and stops; tools/check counts what its runners report."""

import csv
import hashlib
import importlib
import importlib.util
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def check():
    sys.path.insert(0, str(ROOT / "tools"))
    spec = importlib.util.spec_from_file_location("sojourn_check", ROOT / "tools/check.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def bare_clone(tmp_path):
    """A folder with set-up's own files, and a PATH of stand-ins that go before the real commands."""
    (tmp_path / "tools").mkdir()
    for name in ("setup", "packages.txt", "packages-all.txt", "requirements.txt", "sources.txt", "nng.patch"):
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


def test_setup_asks_for_more_packages_only_for_all(environment_made, tmp_path):
    setup, _, stand_in, _ = environment_made
    listed = [line.partition("=") for line in (tmp_path / "tools/packages.txt").read_text().splitlines()[1:]]
    installed = "".join(f"{name}={version or '1'}-1 installed\n" for name, _, version in listed)
    (tmp_path / "installed").write_text(installed)
    stand_in("dpkg-query", f"cat {tmp_path / 'installed'}")
    stand_in("id", "echo 1000")
    stand_in("sudo", "exit 1")
    code, text = setup("--no-build")
    assert code == 0, text
    code, text = setup("--no-build", "--all")
    assert code == 1
    assert "clang-22=1:22.1.8" in text and "libmlir" not in text
    more = ("clang-22", "clang-tidy-22", "libclang-rt-22-dev", "llvm-22")
    (tmp_path / "installed").write_text(installed + "".join(f"{name}=1:22.1.8-9 installed\n" for name in more))
    assert setup("--all", "--no-build")[0] == 0


def test_setup_installs_the_packages_of_the_site_once(environment_made, tmp_path):
    setup, pip, stand_in, calls = environment_made
    assert setup("--no-build")[0] == 0
    before = len(calls())
    for name in ("packages-docs.txt", "requirements-docs.txt"):
        shutil.copy(ROOT / "tools" / name, tmp_path / "tools" / name)
    every = [
        line
        for name in ("packages.txt", "packages-docs.txt")
        for line in (ROOT / "tools" / name).read_text().split("\n")
    ]
    stand_in(
        "dpkg-query",
        "\n".join(
            f"echo '{line.partition('=')[0]}={line.partition('=')[2] or 1}-1 installed'"
            for line in every
            if line and line[0] != "#"
        ),
    )
    pip('echo "$@" >pip-arguments')
    code, text = setup("--no-build", "--docs")
    assert code == 0 and "requirements-docs.txt" in text, text
    assert calls()[before:] == ["pip"]
    code, text = setup("--no-build", "--docs")
    assert code == 0 and calls()[before:] == ["pip"], text


def test_setup_makes_the_environment_of_libraries_once(environment_made, tmp_path):
    """Above .venv, with its torch as a constraint; anew where a pin changes."""
    setup, _, _, _ = environment_made
    shutil.copy(ROOT / "tools/requirements-libraries.txt", tmp_path / "tools")
    assert setup("--no-build")[0] == 0 and not (tmp_path / "build/libraries").exists()
    log, python = tmp_path / "pip-log", tmp_path / "python"
    python.write_text(f"""#!{sys.executable}
import os, pathlib, sys
if sys.argv[1:3] == ["-m", "venv"]:
    place = pathlib.Path(sys.argv[3])
    (place / "bin").mkdir(parents=True)
    (place / "bin/python").symlink_to({str(python)!r})
    (place / "site/torchvision").mkdir(parents=True)
elif sys.argv[1:3] == ["-m", "pip"]:
    print(*sys.argv[3:], file=open({str(log)!r}, "a"))
elif "sysconfig" in sys.argv[-1]:
    print(pathlib.Path(sys.argv[0]).parent.parent / "site")
else:
    sys.exit(1)  # torchvision cannot be imported
""")
    python.chmod(0o755)
    (tmp_path / ".venv/bin/python").unlink()
    (tmp_path / ".venv/bin/python").symlink_to(python)
    (tmp_path / ".venv/site").mkdir()
    place = tmp_path / "build/libraries"
    for times in (1, 1, 2):
        if times == 2:
            with (tmp_path / "tools/requirements-libraries.txt").open("a") as file:
                file.write("more==1\n")
        code, text = setup("--no-build", "--libraries")
        assert code == 0, text
        installed = [line for line in log.read_text().splitlines() if "requirements-libraries.txt" in line]
        assert len(installed) == times and f"-c {place}/constraints.txt" in installed[0]
    assert re.fullmatch(r"torch==\S+\n", (place / "constraints.txt").read_text())
    assert f'site.addsitedir("{tmp_path}/.venv/site")' in (place / "site/environment.pth").read_text()
    assert 'for _name in ("nms", "qnms")' in (place / "site/torchvision/extension.py").read_text()


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
    config = tmp_path / "pynng-1/mbedtls/include/mbedtls/mbedtls_config.h"
    config.parent.mkdir(parents=True)
    config.write_text("//#define MBEDTLS_THREADING_C\n//#define MBEDTLS_THREADING_PTHREAD\n")
    stand_in("patch", "exit 0")
    subprocess.run(["tar", "-czf", archive, "-C", tmp_path, "pynng-1"], check=True)

    def pip(script):
        (binaries / "pip").write_text(f"#!/bin/sh\necho pip >>{calls}\n{script}\n")
        (binaries / "pip").chmod(0o755)

    pip(f'[ "$1" = install ] && exit; while [ "$1" != -d ]; do shift; done; cp {archive} "$2"')
    return setup, pip, stand_in, lambda: calls.read_text().split() if calls.exists() else []


def test_setup_builds_nng_once(environment_made, tmp_path):
    setup, _, _, calls = environment_made
    code, text = setup("--no-build")
    assert code == 0 and "building nng with TLS" in text, text
    assert calls() == ["pip", "pip", "cmake", "ninja", "cmake", "ninja"]
    assert (tmp_path / ".venv/nng/licences/mbedtls/LICENSE").exists()
    assert not (tmp_path / ".venv/nng-scratch").exists()
    code, text = setup("--no-build")
    assert code == 0 and "nng" not in text and len(calls()) == 6
    pins = tmp_path / "tools/sources.txt"
    pins.write_text(pins.read_text().replace("sha256:", "sha256:0"))
    assert setup("--no-build")[0] == 0 and len(calls()) == 12
    patch = tmp_path / "tools/nng.patch"
    patch.write_text("another one\n" + patch.read_text())
    assert setup("--no-build")[0] == 0 and len(calls()) == 18


def test_setup_refuses_an_mbedtls_without_locks(environment_made, tmp_path):
    setup, _, stand_in, _ = environment_made
    stand_in("sed", "exit 0")
    code, text = setup("--no-build")
    assert code == 1 and "building mbedTLS failed" in text


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


def test_check_runs_programs_side_by_side_slowest_first(check, tmp_path, monkeypatch):
    """The order is that of earlier times, programs without one first; counts come back in that order, output whole."""
    runs = sys.modules["check_runs"]
    monkeypatch.setattr(runs, "TIMES", tmp_path / "times.json")
    programs = []
    for name in ("quick-tests", "slow-tests", "new-tests"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        programs.append(tmp_path / name)
    runs.remember_times({"quick-tests": 0.5, "slow-tests": 9.0})
    runs.remember_times({"quick-tests": 1.5})
    assert runs.known_times() == {"quick-tests": 1.5, "slow-tests": 9.0}
    assert [path.name for path in runs.slowest_first(programs)] == ["new-tests", "slow-tests", "quick-tests"]

    begun, both = [], threading.Barrier(2, timeout=30)

    def start(name):
        begun.append(name)
        if name in "ab":
            both.wait()  # never passes unless two run at the same time
        return check.Count(name, passed=1)

    counts = runs.side_by_side([lambda name=name: start(name) for name in "abc"], 2)
    assert [count.runner for count in counts] == list("abc") and sorted(begun) == list("abc")


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_what_check_has_started(tmp_path, signal_number):
    """Programs that run end with all they have started, those that wait never start."""
    script = f"""
import signal, sys
sys.path.insert(0, {str(ROOT / "tools")!r})
import check_runs
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
def start(name):
    script = f"touch {tmp_path}/{{name}}; sleep 300 & echo $! >{tmp_path}/{{name}}.pid; wait"
    return check_runs.run(name, ["bash", "-c", script], None, None, quiet=True)
check_runs.side_by_side([lambda name=name: start(name) for name in "abc"], 2)
"""
    process = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    pids = [tmp_path / "a.pid", tmp_path / "b.pid"]
    while not all(path.exists() and path.read_text().strip() for path in pids):
        assert time.monotonic() < deadline and process.poll() is None, process.stderr.read()
        time.sleep(0.02)
    process.send_signal(signal_number)
    assert process.wait(timeout=60) != 0
    process.stderr.close()
    assert not (tmp_path / "c").exists()
    while any(
        pathlib.Path(f"/proc/{path.read_text().strip()}/cmdline").exists()
        and b"sleep" in pathlib.Path(f"/proc/{path.read_text().strip()}/cmdline").read_bytes()
        for path in pids
    ):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_check_shows_what_a_quiet_program_said_when_it_ends(check, tmp_path, capsys):
    report = tmp_path / "report"
    script = f"echo one; echo two >&2; echo 'lint: 3 passed, 0 failed, 0 skipped' >{report}; exit 7"
    count = check.run("runner", ["bash", "-c", script], report, check.parse_lint, quiet=True, fine=(0, 7))
    assert (count.passed, count.failed, count.broken) == (3, 0, "")
    assert re.fullmatch(r"\n\[check\] runner: bash -c [^\n]*(?:\n[^\n]*)?\none\ntwo\n", capsys.readouterr().out)


def test_check_keeps_times_of_files(check):
    junit = '<testsuites><testsuite><testcase file="test/a.py" time="1.5"/><testcase file="test/a.py" time="2"/>'
    junit += '<testcase file="test/b.py" time="0.25"/></testsuite></testsuites>'
    assert sys.modules["check_runs"].junit_times(junit) == {"test/a.py": 3.5, "test/b.py": 0.2}


def test_check_runs_tests_that_need_the_machine_at_the_end(check, tmp_path, monkeypatch):
    ran = []

    def run(runner, command, report, parse, variables=None, **options):
        ran.append((runner, [str(word) for word in command]))
        return check.Count(runner, passed=1)

    monkeypatch.setattr(check, "run", run)
    arguments = check.arguments_of(["--only=pytest", "--quick", "--jobs=3"])
    assert len([count for start in check.all_runs(arguments, tmp_path) for count in start()]) == 2
    (first, beside), (last, alone) = ran
    assert (first, last) == ("pytest", "pytest alone")
    assert {"not alone and not slow", "--numprocesses=3", "--dist=loadfile"} <= set(beside)
    assert "alone and not slow" in alone and not any(word.startswith("--numprocesses") for word in alone)
    with pytest.raises(SystemExit):
        check.arguments_of(["--jobs=0"])


def test_check_all_adds_the_sweep(check, tmp_path, monkeypatch):
    """One runner: what passes, what neither passes nor is reviewed, what is reviewed; anew where sources changed."""
    commands = []

    def run(runner, command, report, parse, variables=None, **options):
        commands.append([str(word) for word in command])
        report.write_text('{"passed": 5, "failed": 2, "skipped": 3}')
        return parse(report.read_text())

    monkeypatch.setattr(check, "run", run)
    monkeypatch.setattr(check.check_sanitizers, "SANITIZERS", {})
    found = [count for start in check.all_runs(check.arguments_of(["--only=sweep"]), tmp_path) for count in start()]
    assert [(count.passed, count.failed, count.skipped) for count in found] == [(5, 2, 3)]
    assert {"tools/sweep.py", "--whole", "--current"} <= set(commands[0])
    kinds = lambda *options: len(list(check.all_runs(check.arguments_of(options), tmp_path)))
    assert kinds("--all") == kinds() + len(check.WHOLE)


def test_check_all_adds_the_sanitizers(check, tmp_path, monkeypatch):
    """Programs run with the sanitizer's options after their build; a build that fails is one failure."""
    sanitizers, ran = check.check_sanitizers, []
    problems = {"asan": "", "tsan": "cmake --preset tsan failed"}
    monkeypatch.setattr(sanitizers, "build", lambda sanitizer: problems[sanitizer.name])

    def run(runner, command, report, parse, variables=None, **options):
        ran.append((runner, command, variables))
        return check.Count(runner, passed=1)

    monkeypatch.setattr(check, "remember_times", lambda times: None)

    monkeypatch.setattr(check, "run", run)

    def all_counts(*options):
        ran.clear()
        return [count for start in check.all_runs(check.arguments_of(options), tmp_path) for count in start()]

    assert not any(count.runner.startswith(("asan", "tsan")) for count in all_counts())
    plain = len(ran)
    found = all_counts("--all")
    asan = sanitizers.SANITIZERS["asan"]
    assert len(ran) == plain + len(check.WHOLE) + 1 + len(asan.programs)  # and whole runs, with the libraries' two
    assert (found[-1].runner, found[-1].failed, found[-1].broken) == ("tsan build", 1, "cmake --preset tsan failed")
    found = all_counts("--only=asan")
    assert [count.runner for count in found] == [f"asan {program}" for program in asan.programs]
    assert all("build/asan/bin/" in str(command[0]) and variables == asan.variables for _, command, variables in ran)


def test_sanitizers_are_as_their_presets_say(check):
    """Every finding ends a program or its exit code; suppressions are those of the repository."""
    presets = {
        preset["name"]: preset for preset in json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]
    }
    for name, sanitizer in check.check_sanitizers.SANITIZERS.items():
        assert presets[name]["inherits"] == "sanitized" and sanitizer.programs
        for file in re.findall(r"suppressions=([^:]+)", " ".join(sanitizer.variables.values())):
            if file != "0":
                assert pathlib.Path(file).is_file()
    assert "-fno-sanitize-recover=all" in presets["asan"]["cacheVariables"]["CMAKE_CXX_FLAGS"]


def test_precompiled_headers_that_are_made_anew_are_found(check):
    plan = "[1/9] Building CXX object a/CMakeFiles/b.dir/cmake_pch.hxx.gch\n[2/9] Building CXX object c/d.cpp.o\n"
    plan += "[3/9] Building CXX object e/cmake_pch.hxx.pch\n"
    assert check.check_sanitizers.stale_headers(plan) == ["a/CMakeFiles/b.dir/cmake_pch.hxx.gch", "e/cmake_pch.hxx.pch"]


def counts(count):
    return (count.passed, count.failed, count.skipped)


def test_bench_history_grows_at_its_end(check, tmp_path):
    """One row per network and number of threads; a file with other columns is left as it is."""
    history = importlib.import_module("bench_history")
    case = {"network": "cnn", "batch": 64, "ratios": {"embedded/eager": 0.71234, "replayed/eager": 0.5}}
    path = tmp_path / "history.csv"
    for threads in (1, 2):
        history.append({"processor": "a, b"}, [{"threads": threads, "cases": [case]}], path)
    head, one, two = list(csv.reader(path.read_text().splitlines()))
    assert tuple(head) == history.COLUMNS
    assert one[2:] == ["a, b", "1", "cnn", "64", "0.712", "0.500", "", ""] and two[3] == "2"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", one[0]) and one[1].rstrip("+")
    path.write_text("date,ratio\n")
    with pytest.raises(SystemExit, match="expected date, commit"):
        history.append({"processor": "a"}, [], path)
    assert path.read_text() == "date,ratio\n"


@pytest.mark.parametrize("command", ["sojourn", "sojourn-owner", "sojourn-opt", "sojourn-translate"])
def test_commands_print_their_version(command):
    import sojourn

    done = subprocess.run([ROOT / "build/bin" / command, "--version"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(
        rf"Sojourn {re.escape(sojourn.__version__)} \(program format \d+, dialect \d+, protocol \d+\)",
        done.stdout.strip(),
    )
