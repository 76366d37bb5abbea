# SPDX-License-Identifier: Apache-2.0
"""A quick part of the sweep over op_db: two samples of each entry at the native owner. tools/sweep.py does all; what it
keeps and counts is tested here, too."""

import importlib.util
import pathlib
import sys

import pytest
import sweep_reviewed_support
import sweep_support
import torch
from remote_support import shared_owner

ENTRIES = sweep_support.entries()
PARTS = ("forward", "gradient")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name", [name for name, op in ENTRIES.items() if torch.complex64 in op.supported_dtypes("cpu")]
)
def test_complex_entry(name):
    """Right, or refused when it is recorded."""
    found = sweep_support.Sweep(shared_owner(), 1, PARTS).entry(ENTRIES[name], torch.complex64)
    outcomes = set(found.get("forward", {})) | set(found.get("gradient", {}))
    assert outcomes <= {"pass", "refused"}, found["notes"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name, op in ENTRIES.items() if torch.float32 in op.supported_dtypes("cpu")])
def test_entry(name):
    found = sweep_support.Sweep(shared_owner(), 2, PARTS).entry(ENTRIES[name], torch.float32)
    for part in PARTS:
        outcomes = set(found.get(part, {})) - {"pass"}
        if sweep_reviewed_support.reason(name, part):
            outcomes -= {"refused", "late", "other error"}
        assert not outcomes, found["notes"]


@pytest.fixture
def tool(tmp_path, monkeypatch):
    path = pathlib.Path(__file__).resolve().parents[2] / "tools/sweep.py"
    spec = importlib.util.spec_from_file_location("sweep_tool", path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setitem(sys.modules, "sweep_tool", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "KEPT", tmp_path / "kept")
    return module


def test_the_tool_counts_what_is_reviewed_apart(tool):
    run = tool.Run("ops", "native", ("float32",), ("forward", "vmap"))
    found = {
        "sin": {"forward": {"pass": 3}, "vmap": {"pass": 2, "wrong": 1}},
        "nonzero": {"forward": {"refused": 1, "pass": 1}},  # reviewed
        "cos": {"forward": {"refused": 1}, "gradient": {"wrong": 1}},  # of which the second is not asked for
        "tan": {"forward": {}},
    }
    run.save({f"{name} float32": {"notes": {}, **entry} for name, entry in found.items()} | {"sin int64": {}})
    assert tool.summary([run], []) == {"passed": 1, "failed": 2, "skipped": 1}
    assert tool.summary([run], ["nonz"]) == {"passed": 0, "failed": 0, "skipped": 1}


def test_the_tool_keeps_what_is_known(tool):
    """Parts come one after the other; each says of which sources it is."""
    first = {"forward": {"wrong": 1}, "notes": {"forward wrong": "off", "forward mode late": "x"}}
    entry = tool.merged({}, first, ("forward",), "old")
    entry = tool.merged(entry, {"vmap": {"pass": 1}, "notes": {}}, ("vmap",), "new")
    assert entry["forward"] == {"wrong": 1} and entry["notes"]["forward wrong"] == "off"
    entry = tool.merged(entry, {"notes": {}}, ("forward",), "new")
    assert "forward" not in entry and entry["notes"] == {"forward mode late": "x"}
    assert entry["sources"] == {"forward": "new", "vmap": "new"} and entry["tried"] == ["forward", "vmap"]


def test_the_tool_takes_up_where_it_stopped(tool, monkeypatch):
    started = []
    monkeypatch.setattr(tool.multiprocessing, "get_context", lambda kind: started.append(kind) or object())
    run = tool.Run("optimizers", "native", ("float32",), ("plain",))
    wanted = run.wanted(["Adamax"])
    assert wanted == [("Adamax", "float32")]
    run.save({"Adamax float32": tool.merged({}, {"plain": {"pass": 1}, "notes": {}}, run.parts, tool.sources())})
    for made_by, current in ((tool.sources(), True), ("other", False)):
        tool.execute(run, 1, wanted, 1, 60, made_by, current)
    with pytest.raises(AttributeError):  # of other sources: a worker would start
        tool.execute(run, 1, wanted, 1, 60, "other", True)
