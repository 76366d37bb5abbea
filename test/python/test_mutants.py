# SPDX-License-Identifier: Apache-2.0
"""`tools/mutants`: whatever ends a run, the tree is as it was; and what it says of a patch is what happened.

The tool works on a small repository made here, whose build and tests are scripts.
"""

import importlib.machinery
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = "// A bound.\nint bound = 1;\nint other = 1;\n"
PATCH = """{title}
Tests: {tests}
Build: all

--- a/passes/sum.cpp
+++ b/passes/sum.cpp
@@ -1,3 +1,3 @@
 // A bound.
-int bound = {old};
+int bound = {new};
 int other = 1;
"""
# What a test program says of the bound that was built: 1 is right, 7 does not build, 9 hangs.
CHECK = """#!{python}
import pathlib, sys, time
bound = pathlib.Path("build/built").read_text()
if bound == "9": time.sleep(60)
print("[  PASSED  ] 0 tests." if any("Nothing" in word for word in sys.argv) else "[  PASSED  ] 1 test.")
sys.exit(bound != "1" and not any("Blind" in word for word in sys.argv))
"""


@pytest.fixture
def tool(tmp_path, monkeypatch):
    loader = importlib.machinery.SourceFileLoader("mutants", str(ROOT / "tools/mutants.py"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutants", loader))
    monkeypatch.setitem(sys.modules, "mutants", module)
    loader.exec_module(module)
    for name, text in {
        "passes/sum.cpp": SOURCE,
        "test/CMakeLists.txt": "add_executable(sum-tests SumTest.cpp)\n",
        "test/SumTest.cpp": "",
        "build/bin/sum-tests": CHECK.format(python=sys.executable),
        ".gitignore": "build/\ntest/mutants/\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "build/bin/sum-tests").chmod(0o755)
    for command in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "a bound"],
    ):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    for name, path in {"ROOT": ".", "FOLDER": "test/mutants", "STATE": "build/mutants"}.items():
        monkeypatch.setattr(module, name, (tmp_path / path).resolve())
    monkeypatch.setattr(module, "TEST_LIMIT_S", 3)

    def build(targets, log):
        bound = (tmp_path / "passes/sum.cpp").read_text().split("bound = ")[1][0]
        (tmp_path / "build/built").write_text(bound)
        return "error: seven" if bound == "7" else ""

    monkeypatch.setattr(module, "build", build)
    return module


def patch(tool, name, tests="gtest sum-tests Bound.*", old=1, new=2):
    tool.FOLDER.mkdir(parents=True, exist_ok=True)
    (tool.FOLDER / f"{name}.patch").write_text(PATCH.format(title=name, tests=tests, old=old, new=new))


def verdicts(tool):
    known = json.loads((tool.STATE / "results.json").read_text())
    return {name: entry["verdict"] for name, entry in known.items() if not name.startswith("green: ")}


def run(tool, *names, force=False):
    with tool.alone():
        return tool.run(tool.select(list(names)), force)


def test_verdicts(tool, capsys):
    patch(tool, "1-killed")
    patch(tool, "2-hangs", new=9)
    assert run(tool) == 0
    patch(tool, "3-survives", tests="gtest sum-tests Blind.*")
    patch(tool, "4-fails-to-build", new=7)
    patch(tool, "5-is-stale", old=3)
    patch(tool, "6-names-nothing", tests="gtest sum-tests Nothing.*")
    assert run(tool) == 1
    assert verdicts(tool) == {
        "1-killed": "killed",
        "2-hangs": "killed",
        "3-survives": "survives",
        "4-fails-to-build": "does not build",
        "5-is-stale": "does not apply",
        "6-names-nothing": "no green test",
    }
    assert (tool.ROOT / "passes/sum.cpp").read_text() == SOURCE
    assert (tool.ROOT / "build/built").read_text() == "1", "the build folder holds no broken rule"
    assert "2 of 6 killed" in capsys.readouterr().out
    assert run(tool, "1-killed") == 0


def test_walls_that_hold(tool):
    patch(tool, "1-holds", tests="gtest sum-tests Bound.*\nHolds: gtest sum-tests Blind.*")
    patch(tool, "2-falls", tests="gtest sum-tests Bound.*\nHolds: gtest sum-tests Other.*")
    patch(tool, "3-unnoticed", tests="gtest sum-tests Blind.*\nHolds: gtest sum-tests Blind.Too")
    assert run(tool) == 1
    assert verdicts(tool) == {"1-holds": "killed", "2-falls": "no wall holds", "3-unnoticed": "survives"}


def test_what_is_known_is_not_run_again(tool, monkeypatch):
    patch(tool, "1-killed")
    assert run(tool) == 0
    tried = []
    monkeypatch.setattr(tool, "try_mutant", lambda mutant: tried.append(mutant.name) or ("killed", ""))
    assert run(tool) == 0 and tried == []
    (tool.ROOT / "test/SumTest.cpp").write_text("// another test\n")
    assert run(tool) == 0 and tried == ["1-killed"]
    patch(tool, "1-killed", new=3)
    assert run(tool) == 0 and len(tried) == 2
    (tool.ROOT / "passes/sum.cpp").write_text(SOURCE + "\n")
    assert run(tool) == 0 and len(tried) == 3
    assert run(tool, force=True) == 0 and len(tried) == 4


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit])
def test_an_interrupted_run_puts_files_back(tool, monkeypatch, end):
    patch(tool, "1-killed")
    patch(tool, "2-killed")

    def judge(test, log):
        if "bound = 2" in (tool.ROOT / "passes/sum.cpp").read_text():
            raise end
        return "green"

    monkeypatch.setattr(tool, "judge", judge)
    with pytest.raises(end):
        run(tool)
    assert (tool.ROOT / "passes/sum.cpp").read_text() == SOURCE and verdicts(tool) == {}
    assert (tool.ROOT / "build/built").read_text() == "1"


def test_a_killed_run_is_cleaned_up_by_the_next_one(tool, capsys):
    patch(tool, "1-killed")
    (mutant,) = tool.select([])
    tool.STATE.mkdir(parents=True)
    held = tool.applied(mutant)
    assert held.__enter__() == ""  # and the process is gone
    assert "bound = 2" in (tool.ROOT / "passes/sum.cpp").read_text()
    with tool.alone():
        assert (tool.ROOT / "passes/sum.cpp").read_text() == SOURCE
    assert "an earlier run was interrupted; restored: passes/sum.cpp" in capsys.readouterr().out
    with tool.alone():
        assert capsys.readouterr().out == ""


def test_other_peoples_changes_are_left_alone(tool):
    patch(tool, "1-killed")
    changed = SOURCE + "// not committed\n"
    (tool.ROOT / "passes/sum.cpp").write_text(changed)
    with pytest.raises(tool.Broken, match=r"passes/sum.cpp differs from the last commit"):
        run(tool)
    assert (tool.ROOT / "passes/sum.cpp").read_text() == changed


def test_one_run_per_tree(tool):
    patch(tool, "1-killed")
    with (
        tool.alone(),
        pytest.raises(tool.Broken, match="another tools/mutants, or a process that it started"),
        tool.alone(),
    ):
        pass


def test_what_a_killed_run_has_started_is_waited_for(tool):
    """A build that goes on would finish after the files are back, and pass for one of them."""
    patch(tool, "1-killed")
    started = tool.ROOT / "started"
    killed = os.fork()
    if killed == 0:
        with tool.alone():
            tool.call(
                ["sh", "-c", f"echo $$ > '{started}.new'; mv '{started}.new' '{started}'; exec sleep 60"],
                60,
                tool.STATE / "log",
            )
        os._exit(0)
    while not started.exists():
        time.sleep(0.01)
    os.kill(killed, signal.SIGKILL)
    os.waitpid(killed, 0)
    with pytest.raises(tool.Broken, match="a process that it started"), tool.alone():
        pass
    os.kill(int(started.read_text()), signal.SIGKILL)
    deadline = time.monotonic() + 20
    while True:
        try:
            with tool.alone():
                return
        except tool.Broken:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_names_that_fit_nothing(tool):
    patch(tool, "1-killed")
    with pytest.raises(tool.Broken, match="no patch of test/mutants has nonsense in its name; see --list"):
        tool.select(["nonsense"])
    (tool.FOLDER / "2-empty.patch").write_text("Nothing.\n")
    with pytest.raises(tool.Broken, match="2-empty.patch needs a title, a diff and lines 'Tests:"):
        tool.select([])
