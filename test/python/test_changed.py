# SPDX-License-Identifier: Apache-2.0
"""tools/check --changed: whatever an edit turns red is among the tests that it is said to reach."""

import importlib
import pathlib
import re
import shlex
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Patches with lines `Red: RUNNER TEST`, as tools/edits recorded them, or `Tests: ...`, as tools/mutants runs them.
EDITS = sorted((ROOT / "test/edits").glob("*.patch"))
MUTANTS = sorted((ROOT / "test/mutants").glob("*.patch"))


@pytest.fixture(scope="module")
def changed():
    sys.path.insert(0, str(ROOT / "tools"))
    return importlib.import_module("changed")


def edited(patch):
    return re.findall(r"^\+\+\+ b/(\S+)", patch.read_text(), re.MULTILINE)


def red(patch):
    """Names as Tests has them: files of lit and pytest, programs."""
    for line in re.findall(r"^(?:Red|Tests): (.+)", patch.read_text(), re.MULTILINE):
        runner, *words = shlex.split(line)
        if runner == "gtest":
            yield words[0]
        elif runner == "lit":
            yield from (f"test/{word}" for word in words)
        else:
            yield from (word.partition("::")[0] for word in words if word.startswith("test/"))


def test_what_an_edit_turned_red_is_selected(changed):
    """Of edits whose red tests were recorded by running every test that is not slow (tools/edits.py)."""
    assert len(EDITS) >= 20
    for patch in EDITS:
        found, expected = changed.reached_by(edited(patch)), set(red(patch))
        assert expected, patch.name
        assert {name for name in expected if name not in found} == set(), patch.name


def test_what_notices_a_broken_rule_is_selected(changed):
    """Of the patches of test/mutants, each with the tests that it is known to turn red."""
    missed: set[tuple[str, str]] = set()
    for patch in MUTANTS:
        found = changed.reached_by(edited(patch))
        missed |= {(patch.name, name) for name in red(patch) if name not in found}
    assert missed == set()


@pytest.mark.parametrize(
    "name, reached, spared",
    [
        (
            "test/python/loop_support.py",
            ["test/python/test_loop_ends.py"],
            ["test/python/test_storms.py", "owner-tests"],
        ),
        (
            "test/passes/optimize.mlir",
            ["test/passes/optimize.mlir"],
            ["test/passes/functionalize.mlir", "runtime-tests"],
        ),
        ("owner/ledger/Books.cpp", ["ledger-tests", "owner-tests"], ["runtime-tests", "test/passes/optimize.mlir"]),
        ("test/runtime/golden/v3.mlir", ["runtime-tests"], ["owner-tests"]),
        (
            "owner/numpy/run.py",
            ["test/owner_numpy/test_numpy_verify.py", "test/python/test_gradients.py"],
            ["owner-tests"],
        ),
        ("test/python/oracle/row_order.py", ["test/owner_numpy/test_numpy_rows.py"], ["owner-tests"]),
        ("tools/demo.py", ["test/python/test_demo.py"], ["test/python/test_loop.py"]),
        (
            "docs/quickstart/private-table.md",
            ["test/python/test_documents.py"],
            ["test/python/test_loop.py", "owner-tests"],
        ),
        ("runtime/Program.fbs", ["runtime-tests", "test/owner_numpy/test_numpy_owner.py"], []),
        ("dialect/RowOps.td", ["dialect-tests", "test/dialect/invalid_source.mlir"], ["ledger-tests"]),
    ],
)
def test_a_change_reaches_what_it_is_part_of(changed, name, reached, spared):
    assert (ROOT / name).exists()
    found = changed.reached_by([name])
    assert [test for test in reached if test not in found] == []
    assert [test for test in spared if test in found] == []


@pytest.mark.parametrize(
    "name",
    [
        "docs/gone.md",
        "test/python/gone_support.py",
        "CMakeLists.txt",
        "tools/setup",
        "tools/requirements.txt",
        "pyproject.toml",
        "strange.bin",
    ],
)
def test_files_of_the_build_and_unknown_ones_reach_everything(changed, name):
    assert changed.reached_by([name]) == changed.everything()


def test_changed_files_are_those_that_differ(changed, tmp_path, monkeypatch):
    def git(*words):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=tmp_path, check=True)

    git("init", "-q", "-b", "main")
    for name in ("kept.py", "edited.py", "gone.py"):
        (tmp_path / name).write_text("1\n")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    monkeypatch.setattr(changed, "ROOT", tmp_path)
    base = changed.default_base()
    git("checkout", "-q", "-b", "branch")
    (tmp_path / "edited.py").write_text("2\n")
    (tmp_path / "new.py").write_text("3\n")
    (tmp_path / "gone.py").unlink()
    assert changed.changed_files(base) == ["edited.py", "gone.py", "new.py"]
    git("mv", "kept.py", "moved.py")
    git("add", "-A")
    git("commit", "-q", "-m", "second")
    names = ["edited.py", "gone.py", "kept.py", "moved.py", "new.py"]
    assert changed.default_base() == base and changed.changed_files(base) == names
    git("branch", "-q", "-m", "main", "trunk")
    with pytest.raises(SystemExit, match="there is no branch main; name a revision"):
        changed.default_base()
    with pytest.raises(SystemExit, match="nonsense"):
        changed.changed_files("nonsense")
