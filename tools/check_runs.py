# SPDX-License-Identifier: Apache-2.0
"""Runs programs of tests for tools/check, reads their reports, and stores the time that each took."""

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import time
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
BIN = ROOT / ".venv/bin"
RUNNER_LIMIT_S = 3600
JOB_MEMORY = 3 << 30  # bytes that a process of tests may take
TIMES = BUILD / "check-times.json"  # {program or test file: seconds}, of earlier runs
_print_lock = threading.Lock()
_running: set[subprocess.Popen] = set()  # each leads a group of its own, which no Ctrl-C reaches but ours


@dataclasses.dataclass
class Count:
    """The results of one runner. `broken` says why its report cannot be trusted."""

    runner: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    broken: str = ""


def default_jobs():
    """Number of parallel test processes: one per core that this process may use, fewer if memory is short."""
    cores = len(os.sched_getaffinity(0))
    available = re.search(r"MemAvailable:\s+(\d+) kB", pathlib.Path("/proc/meminfo").read_text())
    return max(1, min(cores, int(available[1]) * 1024 // JOB_MEMORY if available else cores))


def run(runner, command, report, parse, variables=None, limit=RUNNER_LIMIT_S, quiet=False, fine=(0,)):
    """Runs a command and parses the report it wrote.

    Its output is printed at once; with quiet, at the end. `fine`: exit statuses that do not count as failures.
    """
    headline = f"\n[check] {runner}: {' '.join(str(part) for part in command)}"
    if not quiet:
        print(headline, flush=True)
    begin = time.monotonic()
    environment = dict(os.environ, PATH=f"{BIN}:{BUILD / 'bin'}:{os.environ['PATH']}", **(variables or {}))
    with tempfile.TemporaryFile("w+", errors="replace") if quiet else contextlib.nullcontext() as output:
        process = subprocess.Popen(
            [str(part) for part in command],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT if quiet else None,
            start_new_session=True,
        )
        _running.add(process)
        try:
            status = process.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            _end(process)
            status = None
        except BaseException:  # Ctrl-C, or SIGTERM as tools/check takes it
            _end(process)
            raise
        finally:
            _running.discard(process)
        if output:
            output.seek(0)
            with _print_lock:
                print(headline, output.read(), sep="\n", end="", flush=True)
    try:
        count = parse(report.read_text())
    except (OSError, ValueError, KeyError, ElementTree.ParseError):
        count = Count(runner, broken="left no report")
    count.runner, count.seconds = runner, time.monotonic() - begin
    if status is None:
        count.broken = f"took more than {limit} s"
    elif status < 0:
        count.broken = f"died of {signal.Signals(-status).name}"
    elif status not in fine and count.failed == 0 and not count.broken:
        count.broken = f"exited with {status} but reports no failure"
    count.failed += bool(count.broken)
    return count


def _end(process):
    """Ends a process and all processes that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def side_by_side(starts, jobs):
    """Runs all starts, at most `jobs` at a time, and returns their counts in order. An interrupt ends all of them."""
    pool = ThreadPoolExecutor(jobs)
    try:
        futures = [pool.submit(start) for start in starts]
        return [future.result() for future in futures]
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in list(_running):
            _end(process)
        raise
    finally:
        pool.shutdown()


def known_times():
    try:
        return json.loads(TIMES.read_text())
    except (OSError, ValueError):
        return {}


def remember_times(times):
    """Adds these times to those of earlier runs."""
    TIMES.parent.mkdir(exist_ok=True)
    TIMES.write_text(json.dumps({**known_times(), **times}, indent=0, sort_keys=True))


def slowest_first(programs):
    """Sorts programs by their last time. Programs without a known time come first, the largest of them at the front."""
    times = known_times()
    return sorted(programs, key=lambda path: (-times.get(path.name, float("inf")), -path.stat().st_size))


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


def junit_times(text):
    """Seconds of each test file."""
    times: dict[str, float] = {}
    for case in ElementTree.fromstring(text).iter("testcase"):
        name = case.get("file", "")
        times[name] = round(times.get(name, 0.0) + float(case.get("time", 0)), 1)
    return times


def parse_lint(text):
    found = re.search(r"lint: (\d+) passed, (\d+) failed, (\d+) skipped\s*$", text)
    if not found:
        raise ValueError("no closing line")
    passed, failed, skipped = map(int, found.groups())
    return Count("", passed, failed, skipped)


def parse_counts(text):
    return Count("", **json.loads(text))
