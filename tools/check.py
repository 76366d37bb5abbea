# SPDX-License-Identifier: Apache-2.0
"""Runs lit, the GoogleTest programs, pytest and tools/lint, and adds up what they count.

Counts come from each runner's own report file; a runner that leaves none (a crash, a time-out)
counts as one failure. --all adds the programs that check_sanitizers.py has built, tools/sweep.py (entries that pass
count as passed, those with a reviewed reason as skipped, all others as failed), tools/rules.py, all of depth 1, and a
minute of build/bin/attack. Run by tools/check, after set-up.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree

import check_sanitizers

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
BIN = ROOT / ".venv/bin"
RUNNER_LIMIT_S = 3600
SWEEP_LIMIT_S = 6 * 3600  # the next run goes on from there
PLAIN = ["lit", "gtest", "pytest", "lint"]
WHOLE = ["rules", "attack", "sweep"]  # with --all


@dataclasses.dataclass
class Count:
    """What one runner did. `broken` says why its report cannot be trusted."""

    runner: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    broken: str = ""


def run(runner, command, report, parse, variables=None, limit=RUNNER_LIMIT_S):
    """Runs a command in sight of the user and parses the report it wrote."""
    print(f"\n[check] {runner}: {' '.join(str(part) for part in command)}", flush=True)
    begin = time.monotonic()
    environment = dict(os.environ, PATH=f"{BIN}:{BUILD / 'bin'}:{os.environ['PATH']}", **(variables or {}))
    process = subprocess.Popen([str(part) for part in command], cwd=ROOT, env=environment, stdin=subprocess.DEVNULL)
    try:
        status = process.wait(timeout=limit)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        status = None
    try:
        count = parse(report.read_text())
    except (OSError, ValueError, KeyError, ElementTree.ParseError):
        count = Count(runner, broken="left no report")
    count.runner, count.seconds = runner, time.monotonic() - begin
    if status is None:
        count.broken = f"took more than {limit} s"
    elif status < 0:
        count.broken = f"died of {signal.Signals(-status).name}"
    elif status != 0 and count.failed == 0 and not count.broken:
        count.broken = f"exited with {status} but reports no failure"
    count.failed += bool(count.broken)
    return count


def parse_lit(text):
    tally: dict[str, int] = {}
    for test in json.loads(text)["tests"]:
        tally[test["code"]] = tally.get(test["code"], 0) + 1
    passed = sum(tally.pop(code, 0) for code in ("PASS", "FLAKYPASS", "XFAIL"))
    skipped = sum(tally.pop(code, 0) for code in ("UNSUPPORTED", "SKIPPED", "EXCLUDED"))
    return Count("", passed, sum(tally.values()), skipped)


def parse_gtest(text):
    report = json.loads(text)
    tests = [test for suite in report["testsuites"] for test in suite["testsuite"]]
    failed = sum(bool(test.get("failures")) for test in tests)
    skipped = sum(test.get("result") == "SKIPPED" or test.get("status") == "NOTRUN" for test in tests)
    return Count("", len(tests) - failed - skipped, failed, skipped)


def parse_junit(text):
    totals = [0, 0, 0]
    for suite in ElementTree.fromstring(text).iter("testsuite"):
        tests, failures, errors, skipped = (
            int(suite.get(key, 0)) for key in ("tests", "failures", "errors", "skipped")
        )
        totals[0] += tests - failures - errors - skipped
        totals[1] += failures + errors
        totals[2] += skipped
    passed, failed, skipped = totals
    return Count("", passed, failed, skipped)


def parse_lint(text):
    found = re.search(r"lint: (\d+) passed, (\d+) failed, (\d+) skipped\s*$", text)
    if not found:
        raise ValueError("no closing line")
    passed, failed, skipped = map(int, found.groups())
    return Count("", passed, failed, skipped)


def parse_counts(text):
    return Count("", **json.loads(text))


def sanitized(sanitizer, folder):
    """Builds what runs under one sanitizer and runs it: a count for each program, or for the broken build."""
    begin = time.monotonic()
    print(f"\n[check] {sanitizer.name}: building in {sanitizer.folder.relative_to(ROOT)}", flush=True)
    if problem := check_sanitizers.build(sanitizer):
        yield Count(f"{sanitizer.name} build", failed=1, seconds=time.monotonic() - begin, broken=problem)
        return
    for program, options in sanitizer.programs.items():
        report = folder / f"{sanitizer.name}-{program}.json"
        command = [sanitizer.folder / "bin" / program, "--gtest_brief=1", f"--gtest_output=json:{report}", *options]
        yield run(f"{sanitizer.name} {program}", command, report, parse_gtest, sanitizer.variables)


def all_runs(arguments, folder):
    """The runners, each as a function that runs it and gives its counts."""
    wanted = arguments.only or PLAIN + ([*WHOLE, *check_sanitizers.SANITIZERS] if arguments.all else [])
    if "lit" in wanted:
        for name, options in (("lit", []), ("lit-roundtrip", ["--param=roundtrip=1"])):
            report = folder / f"{name}.json"
            command = [BIN / "lit", "-sv", "--timeout=300", *options, "-o", report, ROOT / "test"]
            yield lambda name=name, command=command, report=report: [run(name, command, report, parse_lit)]
    if "gtest" in wanted:
        more = {"SOJOURN_AUDIT_SCALE": "8"} if arguments.all else None  # samples of audits
        for program in sorted((BUILD / "bin").glob("*-tests")):
            report = folder / f"{program.name}.json"
            options = ["--gtest_brief=1", f"--gtest_output=json:{report}"]
            yield lambda program=program, report=report, options=options: [
                run(program.name, [program, *options], report, parse_gtest, more)
            ]
    if "pytest" in wanted:
        report = folder / "pytest.xml"
        options = ["-q", "--durations=10", f"--junitxml={report}", "-o", "junit_family=xunit1"]
        if arguments.quick:
            options += ["-m", "not slow"]
        # NumPy's threads would wait for each other where its matrices are small and other processes run.
        alone = {"OPENBLAS_NUM_THREADS": "1"}
        yield lambda: [run("pytest", [BIN / "python", "-m", "pytest", *options], report, parse_junit, alone)]
    if "lint" in wanted:
        report = folder / "lint.txt"
        command = ["bash", "-c", f"set -o pipefail; '{BIN / 'python'}' tools/lint | tee '{report}'"]
        yield lambda: [run("lint", command, report, parse_lint)]
    if "rules" in wanted:
        report = folder / "rules.json"
        command = [BIN / "python", "tools/rules.py", "--runtime=both", "--seconds=3000", f"--counts={report}"]
        yield lambda report=report, command=command: [run("rules", command, report, parse_counts)]
    if "attack" in wanted:
        report = folder / "attack.json"
        command = [BUILD / "bin/attack", "--seconds=60", f"--counts={report}", f"--out={folder}"]
        yield lambda report=report, command=command: [run("attack", command, report, parse_counts)]
    if "sweep" in wanted:
        report = folder / "sweep.json"
        command = [BIN / "python", "tools/sweep.py", "--whole", "--current", f"--counts={report}"]
        yield lambda: [run("sweep", command, report, parse_counts, limit=SWEEP_LIMIT_S)]
    for name, sanitizer in check_sanitizers.SANITIZERS.items():
        if name in wanted:
            yield lambda sanitizer=sanitizer: sanitized(sanitizer, folder)


def arguments_of(words=None):
    parser = argparse.ArgumentParser(prog="tools/check", description="Run every test and add up the counts.")
    speed = parser.add_mutually_exclusive_group()
    speed.add_argument("--quick", action="store_true", help="leave out the tests marked slow")
    speed.add_argument("--all", action="store_true", help="the whole sweep, all rules of rows, and sanitizers, too")
    choices = [*PLAIN, *WHOLE] + list(check_sanitizers.SANITIZERS)
    parser.add_argument("--only", action="append", choices=choices, help="these runners only")
    return parser.parse_args(words)


def main():
    arguments = arguments_of()
    counts = []
    with tempfile.TemporaryDirectory(prefix="sojourn-check-") as folder:
        for start in all_runs(arguments, pathlib.Path(folder)):
            counts.extend(start())
    print(f"\n{'runner':<24}{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>9}")
    for count in counts:
        print(
            f"{count.runner:<24}{count.passed:>8}{count.failed:>8}{count.skipped:>9}{count.seconds:>9.1f}"
            f"{'  ' + count.broken if count.broken else ''}"
        )
    passed, failed, skipped = (sum(getattr(count, key) for count in counts) for key in ("passed", "failed", "skipped"))
    if not passed and not failed:
        print("no test was executed")
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
