# SPDX-License-Identifier: Apache-2.0
"""A quick part of the sweep over op_db: two samples of each entry at the native owner. tools/sweep.py does all; what it
keeps and counts is tested here, too."""

import importlib.util
import pathlib
import sys

import pytest
import sweep_reviewed_support
import sweep_support
import sweep_values_support
import torch
from remote_support import shared_owner
from torch.testing._internal.common_methods_invocations import SampleInput

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


def test_the_choice_among_equals_is_free(seed):
    """And nothing else: not a value, not a place twice, not one outside."""
    x = torch.randint(0, 3, (4, 9)).to(torch.bfloat16)
    x[0], x[:, 0] = 1, 1  # equals along both axes, whatever the seed
    for name, call, arguments, kwargs in (
        ("sort", torch.sort, (1,), {}),
        ("argsort", torch.argsort, (), {"dim": 0}),
        ("topk", torch.topk, (4, 0), {}),
        ("kthvalue", torch.kthvalue, (2, 0), {}),
    ):
        sample = SampleInput(x, args=arguments, kwargs=kwargs)
        wanted = sweep_support.tensors_of(call(x, *arguments, **kwargs))
        axis = kwargs.get("dim", arguments[-1] if arguments else None)
        # Among equals the last comes first: by the mirrored input.
        other = [each.clone() for each in sweep_support.tensors_of(call(x.flip(axis), *arguments, **kwargs))]
        other[-1] = x.shape[axis] - 1 - other[-1]
        assert not torch.equal(other[-1], wanted[-1]), "there are equals"
        sweep_values_support.check_picks(ENTRIES[name], sample, wanted, other)

        def changed(place, change):
            given = [each.clone() for each in other]
            given[place] = change(given[place])
            return given

        wrong = [changed(-1, lambda i: i + 9), changed(-1, lambda i: i - 9)]
        wrong.append(changed(-1, lambda i: (i + 1) % x.shape[axis]))  # picks others, in some place
        wrong += [changed(0, lambda v: v + 1)] if len(other) > 1 else []
        if name != "kthvalue":
            wrong.append([each.narrow(axis, 0, 1).expand_as(each) for each in other])
        for given in wrong:
            with pytest.raises(AssertionError):
                sweep_values_support.check_picks(ENTRIES[name], sample, wanted, given)


def test_gradients_among_equals_come_in_any_order(seed):
    sample = SampleInput(torch.tensor([[2.0, 1.0, 2.0], [1.0, 2.0, 1.0]]), args=(1,))

    def grouped(*rows):
        return sweep_values_support.grouped(ENTRIES["sort"], sample, torch.tensor(rows))

    wanted = grouped([5.0, 6.0, 7.0], [1.0, 2.0, 3.0])
    assert torch.equal(wanted, grouped([7.0, 6.0, 5.0], [3.0, 2.0, 1.0]))
    assert not torch.equal(wanted, grouped([5.0, 7.0, 6.0], [1.0, 2.0, 3.0])), "of elements that differ"
    assert not torch.equal(wanted, grouped([1.0, 6.0, 7.0], [5.0, 2.0, 3.0])), "of rows that differ"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_are_judged_beside_f64(dtype, seed):
    """What is rounded once is good, whatever eager has; what is off by more than eager's and a rounding is not."""
    unit = torch.finfo(dtype).eps
    truth = torch.rand(50, dtype=torch.float64) + 1
    once = truth.to(dtype)
    far = (truth * (1 + 40 * unit)).to(dtype)
    farther = (truth * (1 + 44 * unit)).to(dtype)
    good = sweep_values_support.nearer_half
    assert good(once, far, truth) and good(far, far, truth) and good(far, farther, truth)
    assert not good(farther, far, truth) and not good(far, once, truth)
    mixed = once.clone()
    mixed[7] = far[7]
    assert not good(mixed, once, truth), "a single element counts"
    special = torch.tensor([torch.inf, -torch.inf, torch.nan], dtype=torch.float64)
    assert good(special.to(dtype), once[:3], special)
    assert not good(special.flip(0).to(dtype), once[:3], special)
    over = torch.full_like(once, torch.inf)
    assert good(once, over, truth), "eager overflows on the way"
    assert not good(far, over, truth) and not good(over, once, truth)


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
        "to_sparse": {"forward": {"refused": 1, "pass": 1}},  # reviewed
        "cos": {"forward": {"refused": 1}, "gradient": {"wrong": 1}},  # of which the second is not asked for
        "tan": {"forward": {}},
    }
    run.save({f"{name} float32": {"notes": {}, **entry} for name, entry in found.items()} | {"sin int64": {}})
    assert tool.summary([run], []) == {"passed": 1, "failed": 2, "skipped": 1}
    assert tool.summary([run], ["o_sp"]) == {"passed": 0, "failed": 0, "skipped": 1}


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
