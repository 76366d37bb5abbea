# SPDX-License-Identifier: Apache-2.0
"""Runs lit, the GoogleTest programs, pytest and tools/lint, and adds up their counts.

Processes run in parallel, one per core, the slowest first; tests marked `alone` run at the end, with no other test.
Counts come from each runner's report file; a runner that leaves none (a crash, a time-out) counts as one failure.
--changed runs the tests that the changes reach (tools/changed.py). --all adds the programs that check_sanitizers.py
builds, tools/sweep.py (entries that pass count as passed, those with a reviewed reason as skipped, all others as
failed), tools/rules.py, all of depth 1, a minute of build/bin/attack, two minutes of
tools/fuzz for each target, tools/prices.py, 10,000 runs over a wire that loses messages, and tools/libraries (a library
that works in part, with its reason, counts as skipped). tools/check runs this file after set-up.
"""

import argparse
import os
import pathlib
import signal
import sys
import tempfile
import time

import changed
import check_sanitizers
from check_runs import (
    BIN,
    BUILD,
    ROOT,
    Count,
    default_jobs,
    junit_times,
    parse_counts,
    parse_gtest,
    parse_junit,
    parse_lint,
    parse_lit,
    remember_times,
    run,
    side_by_side,
    slowest_first,
)

NO_TESTS = 5  # pytest's exit status where no test has the marks
SWEEP_LIMIT_S = 6 * 3600  # the next run goes on from there
LIBRARIES_LIMIT_S = 2 * 3600
PLAIN = ["lit", "gtest", "pytest", "lint"]
WHOLE = ["rules", "attack", "fuzz", "prices", "losses", "sweep", "libraries"]  # with --all


def sanitized(sanitizer, folder):
    """Builds and runs the programs of one sanitizer; returns a count for each program, or for the broken build."""
    begin = time.monotonic()
    print(f"\n[check] {sanitizer.name}: building in {sanitizer.folder.relative_to(ROOT)}", flush=True)
    if problem := check_sanitizers.build(sanitizer):
        yield Count(f"{sanitizer.name} build", failed=1, seconds=time.monotonic() - begin, broken=problem)
        return
    for program, options in sanitizer.programs.items():
        report = folder / f"{sanitizer.name}-{program}.json"
        command = [sanitizer.folder / "bin" / program, "--gtest_brief=1", f"--gtest_output=json:{report}", *options]
        yield run(f"{sanitizer.name} {program}", command, report, parse_gtest, sanitizer.variables)


def lit_runs(arguments, folder, files):
    """Runs every test unchanged, and once more through text and bytecode."""
    for name, options in (("lit", []), ("lit-roundtrip", ["--param=roundtrip=1"])):
        report = folder / f"{name}.json"
        command = [BIN / "lit", "-sv", "--timeout=300", f"-j{arguments.jobs}", *options, "-o", report, *files]
        yield lambda name=name, command=command, report=report: run(name, command, report, parse_lit)


def program_runs(arguments, folder, programs):
    """GoogleTest programs, each quiet until it ends; those of the owner a second time, with steps in processes."""
    more = {"SOJOURN_AUDIT_SCALE": "8"} if arguments.all else {}  # samples of audits
    for program in slowest_first(programs):
        runs = [(program.name, more)]
        if program.name == "owner-tests":
            runs.append((f"{program.name} in processes", more | {"SOJOURN_TEST_PROCESSES": "1"}))
        for name, environment in runs:
            report = folder / f"{name.replace(' ', '-')}.json"
            command = [program, "--gtest_brief=1", f"--gtest_output=json:{report}"]
            yield lambda name=name, command=command, report=report, environment=environment: run(
                name, command, report, parse_gtest, environment, quiet=True
            )


def lint_run(folder):
    report = folder / "lint.txt"
    command = ["bash", "-c", f"set -o pipefail; '{BIN / 'python'}' tools/lint | tee '{report}'"]
    return lambda: run("lint", command, report, parse_lint, quiet=True)


def tidy_run(arguments, folder):
    """clang-tidy over the changed files, if it is installed."""
    report = folder / "tidy.json"
    names = changed.changed_files(arguments.changed or changed.default_base())
    files = [name for name in names if name.endswith((".cpp", ".h")) and (ROOT / name).exists()]
    if not files:
        return Count("tidy")
    command = [BIN / "python", "tools/lint", f"--counts={report}", "--tidy", *files]
    return run("tidy", command, report, parse_counts)


def beside_each_other(arguments, starts):
    counts = side_by_side(starts, arguments.jobs)
    remember_times({count.runner: round(count.seconds, 1) for count in counts if not count.broken})
    return counts


def pytest_run(arguments, folder, name, marks, options, files):
    """One run of pytest over the tests with matching marks."""
    report = folder / f"{name.replace(' ', '-')}.xml"
    marks = [*marks, *(["not slow"] if arguments.quick else [])]
    command = [
        BIN / "python",
        "-m",
        "pytest",
        "-q",
        "--durations=10",
        f"--junitxml={report}",
        "-o",
        "junit_family=xunit1",
    ]
    command += ["-m", " and ".join(marks), *options, *files]
    # NumPy's threads would wait for each other where its matrices are small and other processes run.
    alone = {"OPENBLAS_NUM_THREADS": "1"}
    if arguments.all:
        alone["SOJOURN_TIME_TRIALS"] = os.environ.get("SOJOURN_TIME_TRIALS", "4000")
    may_be_empty = name != "pytest" or arguments.quick or arguments.changed is not None
    count = run(name, command, report, parse_junit, alone, fine=(0, NO_TESTS) if may_be_empty else (0,))
    if name == "pytest" and not arguments.quick and report.exists():
        remember_times(junit_times(report.read_text()))
    return count


def pytest_runs(arguments, folder, files):
    """Test files in parallel, then the tests marked `alone`, without any other test."""
    workers = [f"--numprocesses={arguments.jobs}", "--dist=loadfile", "--no-loadscope-reorder"]
    yield pytest_run(arguments, folder, "pytest", ["not alone"], workers, files)
    yield pytest_run(arguments, folder, "pytest alone", ["alone"], [], files)


def optional_tests():
    """Tests that .venv skips for want of a library, and the guide whose blocks it leaves out."""
    files = sorted(path for path in (ROOT / "test/python").glob("test_*.py") if "importorskip(" in path.read_text())
    guide = ROOT / "test/python/test_documents.py::test_a_document_runs[frameworks]"
    return [path for path in files if path.name != "test_docs.py"] + [guide]  # whose package .venv has


def optional_run(folder):
    report = folder / "libraries.xml"
    command = [
        BUILD / "libraries/bin/python",
        "-m",
        "pytest",
        "-q",
        f"--junitxml={report}",
        "-o",
        "junit_family=xunit1",
    ]
    return run("libraries pytest", [*command, *optional_tests()], report, parse_junit, {"OPENBLAS_NUM_THREADS": "1"})


def all_runs(arguments, folder):
    """The runners, each as a function that runs it and returns its counts."""
    wanted = arguments.only or PLAIN + ([*WHOLE, *check_sanitizers.SANITIZERS] if arguments.all else [])
    reached = (
        changed.everything()
        if arguments.changed is None
        else changed.reached(arguments.changed or changed.default_base())
    )
    if "lit" in wanted and reached.lit:
        yield lambda: [start() for start in lit_runs(arguments, folder, reached.lit)]
    starts = list(program_runs(arguments, folder, reached.programs)) if "gtest" in wanted else []
    starts += [lint_run(folder)] if "lint" in wanted else []
    if starts:
        yield lambda: beside_each_other(arguments, starts)
    if arguments.changed is not None and "lint" in wanted:
        yield lambda: [tidy_run(arguments, folder)]
    if "pytest" in wanted and reached.pytest:
        yield lambda: pytest_runs(arguments, folder, reached.pytest)
    if "rules" in wanted:
        report = folder / "rules.json"
        command = [BIN / "python", "tools/rules.py", "--runtime=both", "--seconds=3000", f"--counts={report}"]
        yield lambda report=report, command=command: [run("rules", command, report, parse_counts)]
    if "attack" in wanted:
        report = folder / "attack.json"
        command = [BUILD / "bin/attack", "--seconds=60", f"--counts={report}", f"--out={folder}"]
        yield lambda report=report, command=command: [run("attack", command, report, parse_counts)]
    if "fuzz" in wanted:
        report = folder / "fuzz.json"
        command = [BIN / "python", "tools/fuzz.py", "--all", "--minutes=2", "--quiet", f"--counts={report}"]
        yield lambda report=report, command=command: [run("fuzz", command, report, parse_counts)]
    if "prices" in wanted:
        report = folder / "prices.json"
        command = [BIN / "python", "tools/prices.py", f"--counts={report}"]
        yield lambda report=report, command=command: [run("prices", command, report, parse_counts)]
    if "losses" in wanted:
        report = folder / "losses.json"
        command = [BIN / "python", "test/python/lossy_support.py", f"--counts={report}"]
        yield lambda report=report, command=command: [run("losses", command, report, parse_counts)]
    if "sweep" in wanted:
        report = folder / "sweep.json"
        command = [BIN / "python", "tools/sweep.py", "--whole", "--current", f"--counts={report}"]
        yield lambda: [run("sweep", command, report, parse_counts, limit=SWEEP_LIMIT_S)]
    if "libraries" in wanted:
        report = folder / "libraries.json"
        command = [ROOT / "tools/libraries", f"--counts={report}"]
        yield lambda report=report, command=command: [
            run("libraries", command, report, parse_counts, limit=LIBRARIES_LIMIT_S),
            optional_run(folder),
        ]
    for name, sanitizer in check_sanitizers.SANITIZERS.items():
        if name in wanted:
            yield lambda sanitizer=sanitizer: sanitized(sanitizer, folder)


def arguments_of(words=None):
    parser = argparse.ArgumentParser(prog="tools/check", description="Run every test and add up the counts.")
    speed = parser.add_mutually_exclusive_group()
    speed.add_argument("--quick", action="store_true", help="leave out the tests marked slow")
    speed.add_argument(
        "--all",
        action="store_true",
        help="add the whole sweep, all rules of the row analysis, attacks, fuzzers, prices, lost messages, libraries, and "
        "sanitizers",
    )
    choices = [*PLAIN, *WHOLE] + list(check_sanitizers.SANITIZERS)
    parser.add_argument("--only", action="append", choices=choices, help="only these runners")
    parser.add_argument(
        "--changed",
        nargs="?",
        const="",
        metavar="REVISION",
        help="tests reached by the files that differ from a revision (default: the commit at which this branch left main; "
        "on main, the last commit)",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=default_jobs(),
        help="parallel processes (default: one per core, as memory allows)",
    )
    arguments = parser.parse_args(words)
    if arguments.jobs < 1:
        parser.error(f"--jobs must be at least 1, not {arguments.jobs}")
    return arguments


def main():
    arguments = arguments_of()
    # As Ctrl-C does, it ends the programs that run.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    counts = []
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="sojourn-check-") as folder:
        for start in all_runs(arguments, pathlib.Path(folder)):
            counts.extend(start())
    print(f"\n{'runner':<24}{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>9}")
    for count in counts:
        print(
            f"{count.runner:<24}{count.passed:>8}{count.failed:>8}{count.skipped:>9}{count.seconds:>9.1f}"
            f"{'  ' + count.broken if count.broken else ''}"
        )
    print(f"{'all':<49}{time.monotonic() - begin:>9.1f}  with {arguments.jobs} jobs")
    passed, failed, skipped = (sum(getattr(count, key) for count in counts) for key in ("passed", "failed", "skipped"))
    if not passed and not failed:
        print("no test was executed")
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
