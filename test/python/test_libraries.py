# SPDX-License-Identifier: Apache-2.0
"""tools/libraries: a case that trains elsewhere, or computes something else, fails; the kept results are of today's list."""

import copy
import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from owner_process import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import libraries

CASES = """
import dataclasses
import torch
import torch.nn.functional as F
from library_support import Run, batches, case, fit

def classifier():
    return torch.nn.Linear(3, 2)

def data():
    return batches(lambda: torch.randn(8, 3), lambda: torch.randint(2, (8,)))

loss_of = lambda net, x, y: F.cross_entropy(net(x), y)

@case("honest", "")
def honest(at):
    model = classifier()
    losses = fit(at, model, data(), loss_of)
    torch.save(model.state_dict(), "kept.pt")
    return Run(losses, model, {"kept": torch.load("kept.pt", map_location="cpu"), "mode": "train", "counts": torch.arange(3)})

@case("elsewhere", "")
def elsewhere(at):
    return honest(dataclasses.replace(at, device=torch.device("cpu")))

@case("broken", "")
def broken(at):
    raise ValueError("no such layer")
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """What the two processes of each fake case found; they need nothing but .venv."""
    folder = tmp_path_factory.mktemp("libraries")
    for name in ("library_support.py", "library_worker.py"):
        shutil.copy(libraries.library_support.FOLDER / name, folder)
    (folder / "cases_fake.py").write_text(CASES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(libraries, "ENVIRONMENT", ROOT / ".venv")
        patch.setattr(libraries.library_support, "FOLDER", folder)
        return {
            name: libraries.both(name, int(os.environ["SOJOURN_TEST_SEED"]))
            for name in ("honest", "elsewhere", "broken")
        }


@pytest.fixture
def tried(runs, monkeypatch):
    """The result of a fake case; `change` edits what was found at the owner, `before` what was found in both places."""

    def run(package, change=lambda there: None, limit="", ends_on_cpu=False, still=(), before=lambda here, there: None):
        found = copy.deepcopy(runs[package])
        if not isinstance(found, str):
            before(*found)
            change(found[1])
        monkeypatch.setattr(libraries, "both", lambda *_: found)
        return libraries.tried(libraries.library_support.Case(package, "a case", None, limit, ends_on_cpu, still), 0)

    return run


def test_a_case_that_trains_at_the_owner_passes(tried):
    result = tried("honest")
    assert (result.state, result.steps, result.reason) == ("unchanged", 4, "")
    assert result.difference == "0" or re.fullmatch(r"below 1e-[5-9]", result.difference)
    partial = tried("honest", limit="no pictures")
    assert (partial.state, partial.reason) == ("in part", "no pictures")
    assert tried("honest", lambda there: there.update(stands=["cpu"]), ends_on_cpu=True).state == "unchanged"


def longer_update(there):
    there["state"]["weight"] += 0.01 * there["state"]["weight"]


CHANGES = {
    "the model is at cpu after training": lambda there: there.update(stands=["cpu"]),
    "optimizers stepped at cpu, owner:0, not": lambda there: there.update(stepped=["cpu", "owner:0"], device="owner:0"),
    "3 steps at the owner, 4 on the CPU": lambda there: there.update(steps=3),
    "3 of 4 steps reached the owner": lambda there: there.update(sent=3),
    "updates of 1 of 2 parameters differ: weight by": longer_update,
    "updates of 1 of 2 parameters differ: bias by inf": lambda there: there["state"]["bias"].fill_(float("nan")),
    "the owner's model lacks bias": lambda there: there["state"].pop("bias"),
    "losses.1 differs by": lambda there: there["losses"].__setitem__(1, there["losses"][1] * 1.001),
    "losses has another form": lambda there: there["losses"].pop(),
    "values.kept.bias differs by": lambda there: there["values"]["kept"]["bias"].add_(1),
    "values.mode is 'eval', not 'train'": lambda there: there["values"].update(mode="eval"),
    "values.counts is": lambda there: there["values"].update(counts=there["values"]["counts"].float()),
    "values.counts differs": lambda there: there["values"]["counts"].add_(1),
}


@pytest.mark.parametrize("reason", CHANGES)
def test_a_case_that_finds_something_else_fails(tried, reason):
    result = tried("honest", CHANGES[reason])
    assert result.state == "failed" and reason in result.reason, result


def moved(factors, *runs):
    """Multiplies the updates of parameters, in one or both of the runs, of which the first is the CPU's."""
    before = runs[0]["before"]
    for run in runs:
        for name, factor in factors.items():
            run["state"][name] = before[name] + factor * (run["state"][name] - before[name])


def test_each_parameter_is_judged_by_itself(tried):
    """A wrong update, or one that is missing, shows beside one that is a hundred times as long."""

    def longer(here, there):
        moved({"weight": 100.0}, here, there)

    assert tried("honest", before=longer).state == "unchanged"

    def wrong(here, there):
        longer(here, there)
        there["state"]["bias"] += 0.01 * (there["state"]["bias"] - here["before"]["bias"])

    assert "updates of 1 of 2 parameters differ: bias by" in tried("honest", before=wrong).reason

    def stuck(here, there):
        longer(here, there)
        there["state"]["bias"] = here["before"]["bias"].clone()

    reason = tried("honest", before=stuck).reason
    assert "1 of 2 parameters differ: bias by 1e+00; 1 of 2 parameters did not change at the owner: bias" in reason


def test_a_parameter_that_stays_is_named_by_its_case(tried):
    def stuck(here, there):
        moved({"bias": 0.0}, here, there)

    reason = tried("honest", before=stuck).reason
    assert "1 of 2 parameters did not change on the CPU: bias; 1 of 2 parameters did not change at the owner" in reason
    assert tried("honest", before=stuck, still=("b*s",)).state == "unchanged"
    assert "weight changed on the CPU, which the case does not expect" in tried("honest", still=("weight",)).reason

    assert "is named gain, which the case lets stay" in tried("honest", still=("gain",)).reason

    def rounding(here, there):
        moved({"bias": 1e-7}, here, there)
        moved({"bias": 0.0}, here)

    assert tried("honest", before=rounding, still=("bias",)).state == "unchanged"
    assert "did not change at the owner: bias" in tried("honest", before=rounding).reason

    def lost(here, there):
        rounding(here, there)
        there["state"]["bias"].fill_(float("nan"))

    assert "bias changed at the owner, which" in tried("honest", before=lost, still=("bias",)).reason
    assert tried("honest", before=lambda here, there: here["before"].clear()).reason.startswith("no optimizer has")


def test_a_case_that_trains_elsewhere_or_raises_fails(tried):
    silent = tried("elsewhere")
    assert silent.state == "failed" and "optimizers stepped at cpu, not at the owner" in silent.reason
    assert tried("broken").reason == "at cpu: ValueError: no such layer"


def test_every_library_is_pinned_and_has_a_kept_result():
    """With the pinned version: a newer pin needs a new run, `tools/libraries --keep`."""
    pins, cases, kept = libraries.pins(), libraries.library_support.cases(), libraries.load()
    assert [each.library for each in kept] == list(cases)
    assert "torch" not in pins
    for each in kept:
        assert each.version == pins[each.library] and each.about == cases[each.library].about
        assert each.torch.partition("+")[0] == libraries.torch_version(), "run tools/libraries --keep"
        assert each.state in ("unchanged", "in part") and each.steps > 0, each
        assert each.reason == cases[each.library].limit
    unchanged = sum(each.state == "unchanged" for each in kept)
    assert len(kept) >= 30 and unchanged >= 27
    assert f"{unchanged} of {len(kept)} popular libraries" in (ROOT / "README.md").read_text()


def test_the_page_shows_the_kept_results(tmp_path, monkeypatch):
    kept = libraries.load()[:2]
    monkeypatch.setattr(libraries, "RESULTS", tmp_path / "results.csv")
    limited = dataclasses.replace(kept[1], state="in part", reason="a | b", torch="1.2.3")
    libraries.keep([kept[0], limited])
    libraries.keep([kept[0]])  # keeps the other
    assert libraries.load() == [kept[0], limited]
    page = libraries.report()
    assert "1 of 2 libraries" in page and f"| {kept[0].library} | {kept[0].version} |" in page
    assert "in part: a \\| b" in page and f"with PyTorch 1.2.3 and {kept[0].torch}" in page


def test_the_command_lists_and_refuses(tmp_path):
    def command(*words):
        return subprocess.run([sys.executable, ROOT / "tools/libraries.py", *words], capture_output=True, text=True)

    listed = command("--list", "--only=timm,einops").stdout.splitlines()
    assert len(listed) == 2 and all(re.match(r"(timm|einops)==\d", line) for line in listed)
    unknown = command("--only=nothing-like-it")
    assert unknown.returncode == 2 and "no library's name contains 'nothing-like-it'" in unknown.stderr


def test_the_numbers_go_to_check(tmp_path, monkeypatch, capsys):
    states = {"einops": "unchanged", "timm": "in part", "entmax": "failed"}

    def tried(case, seed):
        return libraries.Result(case.package, "1", "2", "", states[case.package])

    monkeypatch.setattr(libraries, "tried", tried)
    monkeypatch.setattr(libraries, "ENVIRONMENT", ROOT / ".venv")
    counts = tmp_path / "counts.json"
    monkeypatch.setattr(sys, "argv", ["libraries", "--only=einops,timm,entmax", f"--counts={counts}"])
    assert libraries.main() == 1
    assert json.loads(counts.read_text()) == {"passed": 1, "failed": 1, "skipped": 1}
    assert "1 unchanged, 1 in part, 1 failed" in capsys.readouterr().out
