# SPDX-License-Identifier: Apache-2.0
"""Breaks one rule after the other, with the patches of test/mutants, and checks that the tests they name turn red.

Works in this tree, one patch at a time. Files that a patch changes must equal the last commit. Their bytes are kept in
build/mutants until they are restored; if a run is interrupted (Ctrl-C, a kill, a power cut), it or the next run
restores the files. The tests of a patch must be green without it. Results are kept in build/mutants/results.json as
long as the product's code, the patch and its tests stay the same.
"""

import argparse
import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER, STATE = ROOT / "test/mutants", ROOT / "build/mutants"
PRODUCT = ["CMakeLists.txt", "dialect", "passes", "runtime", "owner", "frontend"]
TEST_LIMIT_S, BUILD_LIMIT_S = 900, 3600
# The lock's file: what is started keeps it open, so that nothing is put back while a killed run's build goes on.
HELD: list[int] = []
RUNNERS, FIELDS = ("lit", "pytest", "gtest"), ("Tests", "Holds", "Build")
GOOD = {"killed"}


@dataclasses.dataclass
class Mutant:
    """One patch: its title, the tests that must turn red, those that must stay green, and the targets to build."""

    name: str
    path: pathlib.Path
    title: str
    tests: list[str]
    holds: list[str]
    targets: list[str]
    files: list[str]


class Broken(Exception):
    """The tool itself cannot continue; the text gives the next step."""


def targets_of(test):
    runner, first, *_ = shlex.split(test)
    tools = ["sojourn-opt", "sojourn-translate"]
    return {"lit": tools, "gtest": [first], "pytest": ["_sojourn", *tools]}[runner]


def read_mutant(path):
    """The lines above the first diff are prose, `Tests:`, `Holds:` (tests that other walls keep green) and, if fewer
    targets than usual are enough, `Build:`."""
    text = path.read_text()
    head = re.split(r"^--- ", text, maxsplit=1, flags=re.M)[0].splitlines()
    field = {name: [line[len(name) + 1 :].strip() for line in head if line.startswith(f"{name}:")] for name in FIELDS}
    tests, holds, build = field["Tests"], field["Holds"], field["Build"]
    files = re.findall(r"^\+\+\+ b/(\S+)", text, re.M)
    if not tests or not files or not head or any(shlex.split(test)[0] not in RUNNERS for test in tests + holds):
        raise Broken(f"{path.name} needs a title, a diff and lines 'Tests: lit|pytest|gtest ...'")
    targets = build[0].split() if build else [target for test in tests + holds for target in targets_of(test)]
    title = " ".join(line for line in head if not line.startswith(tuple(f"{name}:" for name in FIELDS))).strip()
    return Mutant(path.stem, path, title, tests, holds, list(dict.fromkeys(targets)), files)


def command_of(test):
    runner, *words = shlex.split(test)
    if runner == "gtest":
        program, *filters = words
        return [ROOT / "build/bin" / program, "--gtest_brief=1", *(f"--gtest_filter={each}" for each in filters)]
    if runner == "lit":
        return [ROOT / ".venv/bin/lit", "-sv", *(ROOT / "test" / word for word in words)]
    return [ROOT / ".venv/bin/python", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *words]


def git(*words, **options):
    return subprocess.run(["git", *map(str, words)], cwd=ROOT, capture_output=True, text=True, **options)


# --- What makes a result old -------------------------------------------------------------------------------------------


def sources_of(test):
    """Files of a test; a result is stale if they changed."""
    runner, *words = shlex.split(test)
    if runner == "lit":
        return [ROOT / "test" / word for word in words]
    if runner == "pytest":
        return [ROOT / word.split("::")[0] for word in words if word.startswith("test/")]
    lists = [path for path in (ROOT / "test").rglob("CMakeLists.txt") if f"({words[0]} " in path.read_text()]
    lists += [path for path in (ROOT / "test").rglob("CMakeLists.txt") if f"({words[0]}\n" in path.read_text()]
    kinds = ("*.cpp", "*.h", "*/*.mlir")  # and the programs that they play
    return sorted(source for path in lists for kind in kinds for source in path.parent.glob(kind))


def digest_of_product():
    """A digest of all current files of the product."""
    names = git("ls-files", "-z", "--", *PRODUCT, check=True).stdout.split("\0")
    whole = hashlib.sha256()
    for name in filter(None, names):
        path = ROOT / name
        whole.update(name.encode() + b"\0" + (path.read_bytes() if path.is_file() else b""))
    return whole.hexdigest()


def digest_of(product, tests, patch=b""):
    whole = hashlib.sha256(product.encode() + patch)
    for test in tests:
        whole.update(test.encode())
        for path in sources_of(test):
            whole.update(path.read_bytes() if path.is_file() else b"missing")
    return whole.hexdigest()


class Results:
    """Known results by name; written after every step."""

    def __init__(self, path):
        self.path = path
        self.known = {}
        with contextlib.suppress(OSError, ValueError):
            self.known = json.loads(path.read_text())

    def get(self, name, digest):
        entry = self.known.get(name)
        return entry if entry and entry["digest"] == digest else None

    def put(self, name, digest, verdict, detail="", seconds=0.0):
        entry = {"digest": digest, "verdict": verdict, "detail": detail, "seconds": round(seconds, 1)}
        self.known[name] = entry
        write_safely(self.path, json.dumps(self.known, indent=1, sort_keys=True).encode())
        return entry


def write_safely(path, data):
    """Writes all data or none, and syncs it to disk."""
    other = path.with_name(path.name + ".new")
    with open(other, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(other, path)


# --- The tree ----------------------------------------------------------------------------------------------------------


def restore():
    """Restores the files that an interrupted run left changed. The journal names them and is removed last."""
    journal = STATE / "journal.json"
    if not journal.exists():
        return []
    entry = json.loads(journal.read_text())
    for number, name in enumerate(entry["files"]):
        kept = (STATE / f"original-{number}").read_bytes()
        if (ROOT / name).read_bytes() != kept:  # a new time, so that it is built again
            write_safely(ROOT / name, kept)
    journal.unlink()
    return entry["files"]


@contextlib.contextmanager
def applied(mutant):
    """The tree with the patch applied; yields the problem if it does not apply."""
    dirty = git("status", "--porcelain", "--", *mutant.files, check=True).stdout
    if dirty:
        raise Broken(f"{', '.join(mutant.files)} differs from the last commit; commit or restore it first")
    for number, name in enumerate(mutant.files):
        write_safely(STATE / f"original-{number}", (ROOT / name).read_bytes())
    write_safely(STATE / "journal.json", json.dumps({"name": mutant.name, "files": mutant.files}).encode())
    try:
        done = git("apply", mutant.path)
        yield "" if done.returncode == 0 else done.stderr.strip()
    finally:
        restore()


# --- Building and testing ----------------------------------------------------------------------------------------------


def call(command, limit, log):
    """Exit code (None after a time-out) and output. The process leads a group, which ends as a whole."""
    environment = dict(os.environ, PATH=f"{ROOT / '.venv/bin'}:{ROOT / 'build/bin'}:{os.environ['PATH']}")
    with open(log, "w+") as output:
        process = subprocess.Popen(
            [str(part) for part in command],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=HELD,
        )
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        output.seek(0)
        return code, output.read()


def build(targets, log):
    code, text = call(["ninja", "-C", "build", *targets], BUILD_LIMIT_S, log)
    if code == 0:
        return ""
    return next((line for line in text.splitlines() if re.search(r"\berror:", line)), f"ninja ended with {code}")


def judge(test, log):
    """green, red, or the reason why the test gave no verdict."""
    code, text = call(command_of(test), TEST_LIMIT_S, log)
    runner = test.split()[0]
    if code is None:
        return "red"  # what a broken rule hangs is noticed
    if code == 0:
        counts = re.findall(r"\[  PASSED  \] (\d+) test", text) if runner == "gtest" else ["1"]
        return "green" if counts and int(counts[-1]) > 0 else "names no test"
    if code == 1 or (runner == "gtest" and code < 0):
        return "red"
    return {4: "names no test", 5: "names no test"}.get(code, f"{runner} ended with {code}")


def check_green(mutants, results, product, begun, ended):
    """Tests that are not green without any patch and so cannot judge one."""
    bad = {}
    tests = list(dict.fromkeys(test for mutant in mutants for test in mutant.tests + mutant.holds))
    for test in tests:
        digest = digest_of(product, [test])
        entry = results.get(f"green: {test}", digest)
        if not entry:
            begun(f"unbroken: {test}")
            begin = time.monotonic()
            problem = build(targets_of_all(test, mutants), STATE / "build.log")
            verdict = f"does not build: {problem}" if problem else judge(test, STATE / "test.log")
            entry = results.put(f"green: {test}", digest, verdict, seconds=time.monotonic() - begin)
            ended(verdict, f"unbroken: {test}")
        if entry["verdict"] != "green":
            bad[test] = entry["verdict"]
    return bad


def targets_of_all(test, mutants):
    return list(dict.fromkeys(t for mutant in mutants if test in mutant.tests + mutant.holds for t in mutant.targets))


def try_mutant(mutant):
    """Verdict and detail."""
    with applied(mutant) as problem:
        if problem:
            return "does not apply", problem
        if problem := build(mutant.targets, STATE / "build.log"):
            return "does not build", problem
        for test in mutant.tests:
            colour = judge(test, STATE / f"{mutant.name}.log")
            if colour != "red":
                return ("survives" if colour == "green" else colour), test
        for test in mutant.holds:
            colour = judge(test, STATE / f"{mutant.name}-holds.log")
            if colour != "green":
                return ("no wall holds" if colour == "red" else colour), test
    return "killed", ""


# --- The command -------------------------------------------------------------------------------------------------------


def select(only):
    mutants = [read_mutant(path) for path in sorted(FOLDER.glob("*.patch"))]
    chosen = [mutant for mutant in mutants if not only or any(each in mutant.name for each in only)]
    if not chosen:
        raise Broken(f"no patch of {FOLDER.relative_to(ROOT)} has {' or '.join(only)} in its name; see --list")
    return chosen


@contextlib.contextmanager
def alone():
    """One run per tree."""
    STATE.mkdir(parents=True, exist_ok=True)
    with open(STATE / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Broken(
                "another tools/mutants, or a process that it started, runs in this tree; wait for it"
            ) from None
        HELD[:] = [lock.fileno()]
        try:
            if files := restore():
                print(f"an earlier run was interrupted; restored: {', '.join(files)}", flush=True)
            yield
        finally:
            HELD.clear()


def run(mutants, force):
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Table

    console = Console()
    results = Results(STATE / "results.json")
    product = digest_of_product()
    digests = {m.name: digest_of(product, m.tests + m.holds, m.path.read_bytes()) for m in mutants}
    waiting = [m for m in mutants if force or not results.get(m.name, digests[m.name])]
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()]
    touched = False
    try:
        with Progress(*columns, console=console) as progress:
            task = progress.add_task("", total=len(mutants), completed=len(mutants) - len(waiting))

            def begun(text):
                progress.update(task, description=text)

            def ended(verdict, text):
                console.print(f"{verdict:<15} {text}", highlight=False, markup=False, soft_wrap=True)

            bad = check_green(waiting, results, product, begun, ended)
            for mutant in waiting:
                begun(mutant.name)
                begin = time.monotonic()
                if unusable := [test for test in mutant.tests + mutant.holds if test in bad]:
                    verdict, detail = "no green test", f"{unusable[0]}: {bad[unusable[0]]}"
                else:
                    touched = True
                    verdict, detail = try_mutant(mutant)
                results.put(mutant.name, digests[mutant.name], verdict, detail, time.monotonic() - begin)
                ended(verdict, mutant.name)
                progress.advance(task)
    finally:
        if touched:  # the build folder holds the last mutant
            targets = list(dict.fromkeys(target for mutant in waiting for target in mutant.targets))
            console.print("rebuilding the changed files")
            if problem := build(targets, STATE / "build.log"):
                console.print(f"[red]the build folder may hold a broken rule: run ninja -C build ({problem})[/red]")

    table = Table(title="broken rules", title_justify="left")
    for column in ("patch", "broken rule", "verdict", "seconds"):
        table.add_column(column, justify="right" if column == "seconds" else "left", overflow="fold")
    entries = [(mutant, results.known[mutant.name]) for mutant in mutants]
    for mutant, entry in entries:
        colour = "green" if entry["verdict"] in GOOD else "red"
        verdict = f"[{colour}]{entry['verdict']}[/{colour}]" + (
            f"\n{escape(entry['detail'])}" if entry["detail"] else ""
        )
        table.add_row(mutant.name, mutant.title, verdict, f"{entry['seconds']:.0f}")
    console.print(table)
    killed = sum(entry["verdict"] in GOOD for _, entry in entries)
    console.print(f"{killed} of {len(entries)} killed", highlight=False)
    return 0 if killed == len(entries) else 1


def main():
    parser = argparse.ArgumentParser(
        prog="tools/mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", metavar="TEXT", help="patches with this in their name (repeatable)")
    parser.add_argument("--list", action="store_true", help="print names, titles and tests; run no test")
    parser.add_argument("--force", action="store_true", help="also run patches with known results")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that files are put back
    try:
        mutants = select(arguments.only or [])
        if arguments.list:
            for mutant in mutants:
                print(f"{mutant.name}: {mutant.title}")
                for test in mutant.tests:
                    print(f"    {test}")
                for test in mutant.holds:
                    print(f"    holds: {test}")
            return 0
        with alone():
            return run(mutants, arguments.force)
    except Broken as problem:
        sys.exit(f"tools/mutants: {problem}")
    except KeyboardInterrupt:
        sys.exit("tools/mutants: interrupted; all files are restored, and the next run continues from here")


if __name__ == "__main__":
    sys.exit(main())
