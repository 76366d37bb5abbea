# SPDX-License-Identifier: Apache-2.0
"""Records the tests that each patch of test/edits turns red, as lines `Red: RUNNER TEST` in the patch.

test/python/test_changed.py compares these lists with the selection of tools/changed.py. First all patches are applied
at once, and every test that is not slow runs. Then each patch is applied alone, and the tests that were red run.
Results are kept in build/edits.json, so that an interrupted run continues. This takes three quarters of an hour on two
cores. Uncommitted changes are refused.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

from check import NO_TESTS
from check_runs import BIN, BUILD, ROOT, default_jobs

FOLDER = ROOT / "test/edits"


def run(*command):
    """Runs a command as tools/check does."""
    environment = dict(os.environ, PATH=f"{BIN}:{BUILD / 'bin'}:{os.environ['PATH']}", OPENBLAS_NUM_THREADS="1")
    return subprocess.run([str(word) for word in command], cwd=ROOT, env=environment, stdin=subprocess.DEVNULL)


def git(*words):
    done = subprocess.run(["git", *map(str, words)], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"edits: git {words[0]}: {done.stderr.strip()}")
    return done.stdout


def build():
    if run("ninja", "-C", BUILD, "all", "tests").returncode != 0:
        raise SystemExit("edits: an edited tree does not build")


def red_lit(files, folder):
    report = folder / "lit.json"
    run(BIN / "lit", "-s", f"-j{default_jobs()}", "-o", report, *files)
    for test in json.loads(report.read_text())["tests"]:
        if test["code"] not in {"PASS", "UNSUPPORTED"}:
            yield test["name"].partition(" :: ")[2]


def red_programs(names, folder):
    for name in names:
        report = folder / f"{name}.json"
        report.unlink(missing_ok=True)
        status = run(BUILD / "bin" / name, "--gtest_brief=1", f"--gtest_output=json:{report}").returncode
        if status != 0:
            yield name


def red_pytest(tests, folder):
    """Test files with a failing test or that cannot be read, with the ids of the tests if known."""
    report = folder / "pytest.xml"
    report.unlink(missing_ok=True)
    workers = [f"--numprocesses={default_jobs()}", "--dist=loadfile"]
    options = ["-q", "--timeout=60", f"--junitxml={report}", "-o", "junit_family=xunit1", "-m", "not slow", *workers]
    status = run(BIN / "python", "-m", "pytest", *options, *tests).returncode
    if status not in (0, 1, NO_TESTS):
        raise SystemExit(f"edits: pytest ended with {status}")
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            file = case.get("file") or f"{case.get('name', '').replace('.', '/')}.py"
            yield f"{file}::{case.get('name')}" if case.get("file") else file


def red_tests(patches, red=None):
    """Runner -> tests that are red with these patches, among all tests or among those in `red`."""
    applied = []
    with tempfile.TemporaryDirectory(prefix="sojourn-edits-") as made:
        folder = pathlib.Path(made)
        try:
            for patch in patches:
                git("apply", patch)
                applied.append(patch)
            build()
            every = {
                "lit": [""],
                "gtest": sorted(path.name for path in BUILD.glob("bin/*-tests")),
                "pytest": ["test"],
            }
            wanted = red or every
            return {
                "lit": sorted(red_lit([ROOT / "test" / name for name in wanted["lit"]], folder))
                if wanted["lit"]
                else [],
                "gtest": sorted(red_programs(wanted["gtest"], folder)),
                "pytest": sorted(red_pytest(wanted["pytest"], folder)) if wanted["pytest"] else [],
            }
        finally:
            for patch in reversed(applied):
                git("apply", "-R", patch)


def record(patch, red):
    """Writes the lists into the patch, above its diff, and replaces the old ones."""
    text = re.sub(r"^Red: .*\n", "", patch.read_text(), flags=re.MULTILINE)
    files = sorted({name.partition("::")[0] for name in red["pytest"]})
    lines = [f"Red: {runner} {name}" for runner in ("lit", "gtest") for name in red[runner]]
    lines += [f"Red: pytest {name}" for name in files]
    head, rule, diff = text.partition("\n\n--- ")
    patch.write_text("\n".join([head, *lines]) + rule + diff)
    print(f"edits: {patch.name}: {len(lines)} red", flush=True)


def candidates(patches):
    """Tests that are red with all patches and green without them; cached, because they take most of the time."""
    key = [git("rev-parse", "HEAD").strip(), [path.name for path in patches]]
    kept = BUILD / "edits.json"
    if kept.exists():
        known, red = json.loads(kept.read_text())
        if known == key:
            return red
    red = red_tests(patches)
    without = red_tests([], red)
    red = {runner: [test for test in tests if test not in without[runner]] for runner, tests in red.items()}
    kept.write_text(json.dumps([key, red]))
    return red


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="TEXT", default="", help="only patches with this text in their name")
    arguments = parser.parse_args()
    patches = [path for path in sorted(FOLDER.glob("*.patch")) if arguments.only in path.name]
    if git("status", "--porcelain", "--untracked-files=no", "--", ":!test/edits"):
        raise SystemExit("edits: files differ from the last commit: commit or restore them")
    red = candidates(patches)
    for patch in patches:
        record(patch, red_tests([patch], red))
    build()
    return 0


if __name__ == "__main__":
    sys.exit(main())
