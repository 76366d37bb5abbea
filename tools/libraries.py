#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains with each library of test/libraries on CPU tensors and at an owner, and compares the two runs.

    tools/libraries                  every library, one line each; the exit status is 1 if one fails
    tools/libraries --only timm      the libraries whose names contain one of these texts (comma-separated)
    tools/libraries --keep           and stores the results in test/libraries/results.csv, for the page of the site
    tools/libraries --list           the libraries with their versions
    tools/libraries --report         the stored results as a document

Only the device differs between the runs. Losses, the update of every parameter and a case's results must agree; every
trained parameter must change, and every optimizer's step must have found its parameters at the owner, where they stay. The libraries are in
build/libraries, an environment that tools/setup --libraries makes from tools/requirements-libraries.txt. Each run draws
fresh weights and data; --seed repeats one.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import fnmatch
import json
import math
import pathlib
import re
import secrets
import subprocess
import sys
import tempfile
import time

import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "test/libraries"))

import library_support  # noqa: E402

ENVIRONMENT = ROOT / "build/libraries"
PINS = ROOT / "tools/requirements-libraries.txt"
RESULTS = library_support.FOLDER / "results.csv"
LIMIT_S = 300  # of one run of one library
# Of float32 arithmetic in another order, over a few steps of training.
UPDATE_WITHIN = 1e-3  # of the largest number of a parameter's update
# A parameter whose gradient is rounding, such as the bias of keys, has no update to agree with. Updates up to this part of
# the largest one of the model count as none; those of the cases are below 1e-7 of it, or above 1e-5.
ROUNDING = 1e-6
LOSS_WITHIN = 1e-4
VALUE_WITHIN = 1e-3


@dataclasses.dataclass
class Result:
    """A library's line. `state`: unchanged, in part, or failed."""

    library: str
    version: str
    torch: str
    about: str
    state: str
    steps: int = 0
    difference: str = ""
    reason: str = ""


def pins() -> dict[str, str]:
    """Version by package, of every pinned package."""
    lines = [line.partition("#")[0].strip() for line in PINS.read_text().splitlines()]
    return dict(line.split("==") for line in lines if line)


def start(package: str, place: str, seed: int, out: pathlib.Path) -> subprocess.Popen:
    command = [ENVIRONMENT / "bin/python", library_support.FOLDER / "library_worker.py", package, place]
    return subprocess.Popen(
        [str(word) for word in [*command, f"--seed={seed}", f"--out={out}"]],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def both(package: str, seed: int) -> tuple[dict, dict] | str:
    """The findings of the two processes, or the reason for which one has none."""
    with tempfile.TemporaryDirectory(prefix="sojourn-libraries-") as folder:
        outs = {place: pathlib.Path(folder) / f"{place}.pt" for place in ("cpu", "owner")}
        processes = {place: start(package, place, seed, out) for place, out in outs.items()}
        try:
            said = {place: process.communicate(timeout=LIMIT_S)[1] for place, process in processes.items()}
        except subprocess.TimeoutExpired:
            return f"took more than {LIMIT_S} s"
        finally:
            for process in processes.values():
                process.kill()
                process.wait()
        for place, process in processes.items():
            if process.returncode != 0:
                lines = [line for line in said[place].splitlines() if line.strip()]
                return f"at {place}: {lines[-1] if lines else f'ended with {process.returncode}'}"
        return tuple(torch.load(out, weights_only=True) for out in outs.values())


def apart(found, wanted, path: str, within: float) -> tuple[float, list[str]]:
    """The largest difference of two trees, relative to the larger values of each leaf, and a text for each that exceeds `within`."""
    if isinstance(wanted, dict | list):
        pairs = wanted.items() if isinstance(wanted, dict) else enumerate(wanted)
        if type(found) is not type(wanted) or len(found) != len(wanted):
            return math.inf, [f"{path} has another form"]
        parts = [apart(found[key], value, f"{path}.{key}", within) for key, value in pairs]
        return max((part[0] for part in parts), default=0.0), [text for part in parts for text in part[1]]
    if isinstance(wanted, torch.Tensor | float | int) and not isinstance(wanted, bool):
        there, here = torch.as_tensor(found), torch.as_tensor(wanted)
        if there.shape != here.shape or there.dtype != here.dtype:
            return math.inf, [f"{path} is {there.dtype} {list(there.shape)}, not {here.dtype} {list(here.shape)}"]
        if not here.is_floating_point():
            return (0.0, []) if torch.equal(there, here) else (math.inf, [f"{path} differs"])
        there, here = there.double(), here.double()
        if torch.equal(there.isnan(), here.isnan()) and here.numel():
            finite = here.isfinite()
            if torch.equal(there[~finite].nan_to_num(), here[~finite].nan_to_num()):
                size = here[finite].abs().max().item() if finite.any() else 0.0
                difference = (there - here)[finite].abs().max().item() / (size + 1e-3) if finite.any() else 0.0
                return difference, [f"{path} differs by {difference:.0e}"] if not difference <= within else []
        return (0.0, []) if not here.numel() else (math.inf, [f"{path} is finite elsewhere"])
    return (0.0, []) if found == wanted else (math.inf, [f"{path} is {found!r}, not {wanted!r}"])


def changes(run: dict, before: dict) -> dict[str, torch.Tensor]:
    """The update of every trained parameter, in float64."""
    return {name: run["state"][name].double() - tensor.double() for name, tensor in before.items()}


def largest(tensor: torch.Tensor) -> float:
    return tensor.abs().max().item() if tensor.numel() else 0.0


def updates_apart(still: tuple[str, ...], here: dict, there: dict) -> tuple[float, list[str]]:
    """How far the owner's update of a parameter is from the CPU's, at most, relative to its largest number; and a text for
    the parameters that differ, and for those that did not change. `still`: see library_support.Case."""
    before = here["before"]
    if not before:
        return math.inf, ["no optimizer has a parameter of the model"]
    missing = [name for name in before if name not in there["state"]]
    if missing:
        return math.inf, [f"the owner's model lacks {', '.join(missing[:3])}"]
    wanted, found = changes(here, before), changes(there, before)
    floor = ROUNDING * max(map(largest, wanted.values()))
    allowed = {name for name in before if any(fnmatch.fnmatch(name, pattern) for pattern in still)}
    apart_by = dict.fromkeys(before, 0.0)
    for name, update in wanted.items():
        if name in allowed:
            continue  # two roundings need not agree
        # The last bit of a stored parameter is no part of its update.
        last_bit = 2 * torch.finfo(before[name].dtype).eps * largest(here["state"][name])
        error = largest(found[name] - update) - last_bit
        size = largest(update) + floor
        relative = error / size if size else math.inf
        # NaN compares with nothing.
        apart_by[name] = 0.0 if error <= 0 else relative if math.isfinite(relative) else math.inf
    wrong = sorted((name for name in before if apart_by[name] > UPDATE_WITHIN), key=lambda name: -apart_by[name])
    texts = []
    if wrong:
        worst = ", ".join(f"{name} by {apart_by[name]:.0e}" for name in wrong[:3])
        texts.append(f"updates of {len(wrong)} of {len(before)} parameters differ: {worst}")
    for place, updates in (("on the CPU", wanted), ("at the owner", found)):
        stuck = [name for name, update in updates.items() if name not in allowed and largest(update) <= floor]
        if stuck:
            texts.append(f"{len(stuck)} of {len(before)} parameters did not change {place}: {', '.join(stuck[:3])}")
        if moved := [name for name in before if name in allowed and not largest(updates[name]) <= floor]:
            texts.append(f"{', '.join(moved[:3])} changed {place}, which the case does not expect")
    if idle := [pattern for pattern in still if not fnmatch.filter(before, pattern)]:
        texts.append(f"no trained parameter is named {', '.join(idle)}, which the case lets stay")
    return max(apart_by.values()), texts


def judged(case: library_support.Case, here: dict, there: dict) -> tuple[float, list[str]]:
    """The largest difference of two runs, and everything that is wrong."""
    problems = []
    if here["stepped"] != ["cpu"] or there["stepped"] != [there["device"]]:
        problems.append(f"optimizers stepped at {', '.join(there['stepped']) or 'no device'}, not at the owner")
    if here["steps"] != there["steps"] or not there["steps"]:
        problems.append(f"{there['steps']} steps at the owner, {here['steps']} on the CPU")
    if there["sent"] < there["steps"]:
        problems.append(f"{there['sent']} of {there['steps']} steps reached the owner")
    if there["stands"] != (["cpu"] if case.ends_on_cpu else [there["device"]]):
        problems.append(f"the model is at {', '.join(there['stands'])} after training")
    update, texts = updates_apart(case.still, here, there)
    problems += texts
    state = {name: tensor for name, tensor in here["state"].items() if name not in here["before"]}
    parts = [
        apart(there["losses"], here["losses"], "losses", LOSS_WITHIN),
        apart({name: there["state"].get(name) for name in state}, state, "state", VALUE_WITHIN),
        apart(there["values"], here["values"], "values", VALUE_WITHIN),
    ]
    return max(update, *(part[0] for part in parts)), problems + [text for part in parts for text in part[1]]


def tried(case: library_support.Case, seed: int) -> Result:
    result = Result(case.package, pins().get(case.package, ""), torch_version(), case.about, "failed")
    found = both(case.package, seed)
    if isinstance(found, str):
        result.reason = found
        return result
    here, there = found
    result.torch = there["torch"]
    difference, problems = judged(case, here, there)
    result.steps = there["steps"]
    if math.isfinite(difference):
        result.difference = f"below 1e{math.ceil(math.log10(difference)):d}" if difference else "0"
    if problems:
        result.reason = "; ".join(problems[:3])
    else:
        result.state, result.reason = ("in part", case.limit) if case.limit else ("unchanged", "")
    return result


def load() -> list[Result]:
    with RESULTS.open(newline="") as file:
        return [Result(steps=int(row.pop("steps")), **row) for row in csv.DictReader(file)]


def keep(results: list[Result]) -> None:
    """Stores results beside those of other libraries, in the order of the cases."""
    known = {each.library: each for each in load()} if RESULTS.exists() else {}
    known |= {each.library: each for each in results}
    with RESULTS.open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in dataclasses.fields(Result)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(dataclasses.asdict(known[name]) for name in library_support.cases() if name in known)


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def report() -> str:
    """The stored results as a document."""
    results = load()
    unchanged = sum(each.state == "unchanged" for each in results)
    lines = [
        "# Libraries",
        "",
        f"{unchanged} of {len(results)} libraries train at an owner as they do on the CPU: only the device differs. Each",
        "case trains a small model from random weights on CPU tensors and at an embedded owner. It compares losses, the",
        "update of every parameter and what the column names, and checks that every step of an optimizer ran at the owner.",
        f"Made by `tools/libraries --keep` with PyTorch {' and '.join(sorted({each.torch for each in results}))};",
        "`tools/check --all` repeats it.",
        "",
        "Lightning takes an `OwnerAccelerator`; accelerate and transformers take the line of",
        "[frameworks](../guides/frameworks.md); every other library takes `owner.device`.",
        "",
        "| library | version | the case | state | steps | difference |",
        "|---|---|---|---|---|---|",
    ]
    for each in results:
        state = each.state + (f": {each.reason}" if each.reason else "")
        lines.append(
            f"| {each.library} | {each.version} | {cell(each.about)} | {cell(state)} | {each.steps} | {each.difference} |"
        )
    return "\n".join(lines) + "\n"


def torch_version() -> str:
    found = re.search(r"^torch==(\S+)", (ROOT / "tools/requirements.txt").read_text(), re.MULTILINE)
    return found[1] if found else ""


def arguments_of(words=None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tools/libraries", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", metavar="NAMES", help="libraries whose names contain one of these texts")
    parser.add_argument("--keep", action="store_true", help="store the results in test/libraries/results.csv")
    parser.add_argument("--list", action="store_true", help="print the libraries with their versions")
    parser.add_argument("--report", action="store_true", help="print the stored results as a document; run nothing")
    parser.add_argument("--seed", type=int, help="of weights and data (default: a new one)")
    parser.add_argument("--counts", type=pathlib.Path, help="write the numbers of passed, failed and skipped, as JSON")
    arguments = parser.parse_args(words)
    arguments.cases = [
        case
        for name, case in library_support.cases().items()
        if not arguments.only or any(text.strip() in name for text in arguments.only.split(",") if text.strip())
    ]
    if not arguments.cases:
        parser.error(f"no library's name contains {arguments.only!r}; tools/libraries --list shows all")
    return arguments


def main() -> int:
    arguments = arguments_of()
    if arguments.report:
        print(report(), end="")
        return 0
    if arguments.list:
        for case in arguments.cases:
            print(f"{case.package}=={pins().get(case.package, '?')}: {case.about}")
        return 0
    if not (ENVIRONMENT / "bin/python").exists():
        sys.exit("libraries: build/libraries is missing; run tools/setup --libraries")
    seed = arguments.seed if arguments.seed is not None else secrets.randbelow(2**31)
    print(f"seed {seed}")
    results = []
    for at, case in enumerate(arguments.cases, 1):
        begin = time.monotonic()
        result = tried(case, seed)
        results.append(result)
        rest = "; ".join(
            text for text in (result.reason, result.difference and f"difference {result.difference}") if text
        )
        print(
            f"[{at} of {len(arguments.cases)}] {case.package} {result.version}: {result.state} "
            f"({result.steps} steps, {time.monotonic() - begin:.0f} s){'; ' if rest else ''}{rest}",
            flush=True,
        )
    counts = {
        "passed": sum(each.state == "unchanged" for each in results),
        "failed": sum(each.state == "failed" for each in results),
        "skipped": sum(each.state == "in part" for each in results),
    }
    print(f"{counts['passed']} unchanged, {counts['skipped']} in part, {counts['failed']} failed")
    if arguments.keep:
        keep(results)
    if arguments.counts:
        arguments.counts.write_text(json.dumps(counts))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
