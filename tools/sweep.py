#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares every operator, module and optimizer of PyTorch's own test databases with eager, on PyTorch's samples.

    tools/sweep.py                          all operators, float32: forward and gradient; all modules and optimizers
    tools/sweep.py --parts all --dtypes float32,int64 --runtimes native,numpy --only linalg
    tools/sweep.py --databases modules,optimizers
    tools/sweep.py --list failures          entries that did not pass, with the first sample's error
    tools/sweep.py --report                 totals and failures as a document, which tools/docs makes a page of
    tools/sweep.py --whole --current        the sweep of tools/check --all

The parts and the meaning of outcomes are in test/python/sweep_support.py (operators), sweep_modules_support.py and
sweep_optimizers_support.py. An entry that does not pass must be in the reviewed list (sweep_reviewed_support.py) with a
reason; otherwise the exit status is 1. Results are kept in build/sweep, and a later run continues from them. `--again`
repeats all entries; `--current` repeats those whose results come from other sources than the present ones. Workers are
processes: if one ends, its entry counts as a crash.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import hashlib
import json
import multiprocessing
import os
import pathlib
import queue
import re
import sys
import time
import warnings

ROOT = pathlib.Path(__file__).resolve().parent.parent
KEPT = ROOT / "build" / "sweep"
SAMPLES = 30

sys.path.insert(0, str(ROOT / "test" / "python"))

import sweep_modules_support  # noqa: E402
import sweep_optimizers_support  # noqa: E402
import sweep_reviewed_support  # noqa: E402
import sweep_support  # noqa: E402

#: By name: the module that tries its entries, and what a run without `--parts` tries.
DATABASES = {
    "ops": (sweep_support, ["forward", "gradient"]),
    "modules": (sweep_modules_support, sweep_modules_support.PARTS),
    "optimizers": (sweep_optimizers_support, sweep_optimizers_support.PARTS),
}


@dataclasses.dataclass(frozen=True)
class Run:
    """Entries of one database at one runtime."""

    database: str
    runtime: str
    dtypes: tuple
    parts: tuple

    @property
    def file(self) -> pathlib.Path:
        return KEPT / (f"{self.runtime}.json" if self.database == "ops" else f"{self.runtime}-{self.database}.json")

    def load(self) -> dict:
        return json.loads(self.file.read_text()) if self.file.exists() else {}

    def save(self, kept: dict) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps(kept, indent=0, sort_keys=True))
        new.replace(self.file)

    def wanted(self, names) -> list:
        import torch

        tried = DATABASES[self.database][0]
        return [
            (name, dtype)
            for dtype in self.dtypes
            for name, entry in tried.entries().items()
            if getattr(torch, dtype) in tried.dtypes_of(entry) and (not names or any(n in name for n in names))
        ]


def sources() -> str:
    """A digest of the sources of results: the built libraries, and the Python files that run."""
    whole = hashlib.sha256()
    files = [path for folder in ("build/python", "build/lib") for path in (ROOT / folder).rglob("*.so")]
    for folder in ("frontend/sojourn", "owner/numpy"):
        files += (ROOT / folder).rglob("*.py")
    for path in sorted([*files, *(ROOT / "test/python").glob("sweep*_support.py")]):
        whole.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return whole.hexdigest()[:16]


def work(run: Run, samples: int, tasks, results) -> None:
    warnings.simplefilter("ignore")
    sys.stderr = open(os.devnull, "w")
    import torch

    import sojourn

    torch.set_num_threads(1)
    parent = os.getppid()
    tried = DATABASES[run.database][0]
    sweep, entries = tried.Sweep(sojourn.local(runtime=run.runtime), samples, run.parts), tried.entries()
    while os.getppid() == parent:  # a run that was killed leaves nobody behind
        try:
            name, dtype = tasks.get(timeout=5)
        except queue.Empty:
            continue
        start = time.monotonic()
        try:
            found = sweep.entry(entries[name], getattr(torch, dtype))
        except Exception as error:
            found = broken(run, "internal", f"{type(error).__name__}: {error}"[:400])
        results.put(found | {"seconds": round(time.monotonic() - start, 2)})


def broken(run: Run, outcome: str, note: str) -> dict:
    return {run.parts[0]: {outcome: 1}, "notes": {f"{run.parts[0]} {outcome}": note}}


def execute(run: Run, samples: int, wanted, processes: int, seconds: float, made_by: str, current: bool) -> None:
    """Runs the entries that are not in the file yet; replaces a worker that ends or hangs."""
    kept = run.load()

    def is_known(name, dtype):
        entry = kept.get(f"{name} {dtype}", {})
        if current:
            return all(entry.get("sources", {}).get(part) == made_by for part in run.parts)
        return set(run.parts) <= set(entry.get("tried", []))

    left = [(name, dtype) for name, dtype in wanted if not is_known(name, dtype)]
    context = multiprocessing.get_context("spawn")
    done, total = 0, len(left)
    workers = []

    def start():
        tasks, results = context.Queue(), context.Queue()
        process = context.Process(target=work, args=(run, samples, tasks, results), daemon=True)
        process.start()
        return {"process": process, "tasks": tasks, "results": results, "at": None, "since": time.monotonic()}

    try:
        workers += [start() for _ in range(min(processes, total))]
        while done < total:
            for index, worker in enumerate(workers):
                if worker["at"] is None and left:
                    worker["at"], worker["since"] = left.pop(0), time.monotonic()
                    worker["tasks"].put(worker["at"])
                found = None
                try:
                    found = worker["results"].get(timeout=0.05)
                except Exception:
                    hangs = worker["at"] and time.monotonic() - worker["since"] > seconds
                    if worker["at"] and (hangs or not worker["process"].is_alive()):
                        why = "took too long" if hangs else f"ended with {worker['process'].exitcode}"
                        found = broken(run, "crash", f"the process {why}")
                        worker["process"].kill()
                        at = worker["at"]
                        workers[index] = start() | {"at": at}
                        worker = workers[index]
                if found is not None:
                    key = " ".join(worker["at"])
                    kept[key] = merged(kept.get(key, {}), found, run.parts, made_by)
                    worker["at"] = None
                    done += 1
                    print(f"\r{run.database} {run.runtime}: {done} of {total}", end="", file=sys.stderr, flush=True)
                    if done % 20 == 0:
                        run.save(kept)
    finally:
        for worker in workers:
            worker["process"].kill()
        if total:
            run.save(kept)
            print(file=sys.stderr)


def merged(before: dict, found: dict, parts, made_by: str) -> dict:
    """An entry with new results of some parts; results of other parts stay."""
    ours = {f"{part} {outcome}" for part in parts for outcome in sweep_support.OUTCOMES}
    notes = {key: note for key, note in before.get("notes", {}).items() if key not in ours}
    rest = {key: value for key, value in before.items() if key not in parts}
    return (
        rest
        | found
        | {
            "notes": notes | found.get("notes", {}),
            "tried": sorted({*before.get("tried", []), *parts}),
            "sources": before.get("sources", {}) | dict.fromkeys(parts, made_by),
        }
    )


def verdict(entry: dict, part: str) -> str:
    counts = entry.get(part) or {}
    worst = [outcome for outcome in sweep_support.OUTCOMES if counts.get(outcome)]
    return worst[-1] if worst else "none"


def each(run: Run, names=()):
    """(dtype, part, entries by name) of the results so far."""
    kept = run.load()
    for dtype in run.dtypes:
        mine = {key.split(" ")[0]: entry for key, entry in sorted(kept.items()) if key.endswith(" " + dtype)}
        for part in run.parts:
            found = {name: entry for name, entry in mine.items() if verdict(entry, part) != "none"}
            found = {name: entry for name, entry in found.items() if not names or any(n in name for n in names)}
            if found:
                yield dtype, part, found


def summary(runs, names) -> dict:
    """The numbers of entries that pass, fail, and fail with a reviewed reason."""
    total = collections.Counter(passed=0, failed=0, skipped=0)
    for run in runs:
        for dtype, part, found in each(run, names):
            counts = collections.Counter(verdict(entry, part) for entry in found.values())
            reviewed = [name for name in found if sweep_reviewed_support.reason(name, part, dtype)]
            failing = [name for name in found if verdict(found[name], part) != "pass"]
            open_ = [name for name in failing if name not in reviewed]
            total.update(passed=counts["pass"], failed=len(open_), skipped=len(failing) - len(open_))
            said = [f"{counts[outcome]} {outcome}" for outcome in sweep_support.OUTCOMES[1:] if counts[outcome]]
            of = f"{run.database} {run.runtime} {dtype} {part}: {counts['pass']} of {len(found)} pass"
            print(f"{of}; {', '.join(said) or 'no other outcome'}")
            if open_:
                print(f"  without a reviewed reason: {' '.join(open_)}")
    return dict(total)


def said(entry: dict, part: str, outcome: str) -> str:
    """The first failing sample's text, without source locations of this tool."""
    text = entry.get("notes", {}).get(f"{part} {outcome}", "")
    text = re.sub(r"^sample \d+: ", "", text)
    text = re.sub(r" at \S+\.py:\d+( \(backward of the op at \S+\.py:\d+\))?", "", text)
    return text.split("; express it by supported ops")[0].replace("|", "\\|")[:200]


def table(heading: str, runs, about: str) -> tuple[list, list]:
    """Totals of one database, and a line for each failure."""
    others = sweep_support.OUTCOMES[1:]
    lines = ["", f"## {heading}", "", about, "", "| runtime | dtype | part | pass | " + " | ".join(others) + " |"]
    lines.append("|---|---|---|---|" + "---|" * len(others))
    details = []
    for run in runs:
        for dtype, part, found in each(run):
            counts = collections.Counter(verdict(entry, part) for entry in found.values())
            cells = [f"{counts['pass']} of {len(found)}", *(str(counts[outcome] or "") for outcome in others)]
            lines.append(f"| {run.runtime} | {dtype} | {part} | " + " | ".join(cells) + " |")
            for name, entry in found.items():
                outcome = verdict(entry, part)
                if outcome != "pass":
                    why = sweep_reviewed_support.reason(name, part, dtype) or said(entry, part, outcome)
                    details.append(f"| {name} | {run.runtime} {dtype} {part} | {outcome} | {why} |")
    return lines, details


def report() -> str:
    """The stored results as a document."""
    import torch

    about = {
        "ops": f"Entries of `op_db`, with up to {SAMPLES} samples each.",
        "modules": f"Entries of `module_db`, with up to {SAMPLES} samples each and the parameters of the CPU's "
        "`state_dict`.",
        "optimizers": f"Entries of `optim_db`: each set of options takes {sweep_optimizers_support.STEPS} steps; "
        "parameters and state are compared.",
    }
    lines = [
        "# Operators, modules, optimizers",
        "",
        "Each entry of PyTorch's own test databases, compared with eager on the CPU, on PyTorch's samples. Made by",
        f"`tools/sweep.py --whole` and `tools/sweep.py --report` for PyTorch {torch.__version__.split('+')[0]}.",
    ]
    if not any(KEPT.glob("*.json")):
        lines += ["", "**This build has no results: run `tools/sweep.py --whole` (hours), then `tools/docs`.**"]
    details = []
    runtimes = sorted({file.stem.split("-")[0] for file in KEPT.glob("*.json")})
    for database, (tried, _) in DATABASES.items():
        runs = [Run(database, runtime, (), tuple(tried.PARTS)) for runtime in runtimes]
        runs = [
            dataclasses.replace(run, dtypes=tuple(sorted({key.split(" ")[1] for key in run.load()}))) for run in runs
        ]
        totals, more = table({"ops": "Operators"}.get(database, database.capitalize()), runs, about[database])
        lines += totals
        details += more
    within = [
        f"| {name} | {part} | {dtype} | {why} (rtol {rtol}, atol {atol}) |".replace("*", "all")
        for (name, part, dtype), (rtol, atol, why) in sweep_reviewed_support.BANDS.items()
    ]
    lines += [
        "",
        "## Entries with another comparison",
        "",
        "| entry | part | dtype | comparison |",
        "|---|---|---|---|",
        *(f"| {name} | all | all | {why} |" for name, why in sweep_reviewed_support.DRAWS.items()),
        *(f"| {name} | all | all | {why} |" for name, (_, why) in sweep_reviewed_support.PICKS.items()),
        *within,
        "",
        "## Failures",
        "",
        "| entry | run | outcome | reason, or the first sample's text |",
        "|---|---|---|---|",
        *details,
    ]
    return "\n".join(lines) + "\n"


def whole() -> list:
    """The runs of tools/check --all."""
    operators = [
        ("native", ("float32", "float64"), sweep_support.PARTS),
        ("native", ("int64", "bool"), ["forward", "in place", "out", "gaps"]),
        ("native", ("bfloat16", "float16"), ["forward"]),
        ("native", ("complex64",), ["forward", "gradient", "in place", "out", "gaps"]),
        ("numpy", ("float32",), ["forward", "gradient", "forward mode"]),
    ]
    runs = [Run("ops", runtime, dtypes, tuple(parts)) for runtime, dtypes, parts in operators]
    others = [(name, tried) for name, (tried, _) in DATABASES.items() if name != "ops"]
    return runs + [Run(name, "native", tried.DTYPES, tuple(tried.PARTS)) for name, tried in others]


def chosen(options, parser) -> list:
    """The runs that the options name."""
    if unknown := set(options.databases.split(",")) - set(DATABASES):
        parser.error(f"unknown databases {sorted(unknown)}, expected some of {', '.join(DATABASES)}")
    runs, unused = [], set(options.parts.split(",")) - {"", "all"}
    for database in options.databases.split(","):
        tried, usual = DATABASES[database]
        named = [part for part in tried.PARTS if part in options.parts.split(",")]
        unused -= set(named)
        parts = tried.PARTS if options.parts == "all" else named if options.parts else usual
        dtypes = tuple(options.dtypes.split(",")) if options.dtypes else tried.DTYPES
        runs += [Run(database, runtime, dtypes, tuple(parts)) for runtime in options.runtimes.split(",") if parts]
    if unused:
        known = [f"{name}: {', '.join(DATABASES[name][0].PARTS)}" for name in options.databases.split(",")]
        parser.error(f"unknown parts {sorted(unused)}, expected some of {'; '.join(known)}")
    return runs


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--databases", default=",".join(DATABASES), help="comma-separated (default: %(default)s)")
    parser.add_argument(
        "--dtypes", default="", help="comma-separated (default: float32; float64 of modules, optimizers)"
    )
    parser.add_argument("--runtimes", default="native", help="native, numpy or both, comma-separated")
    parser.add_argument("--only", "--ops", default="", help="entries whose name contains one of these, comma-separated")
    parser.add_argument("--parts", default="", help="some of the databases' parts, or all (default: see above)")
    parser.add_argument(
        "--whole", action="store_true", help="the runs of tools/check --all; ignores the five options above"
    )
    parser.add_argument("--samples", type=int, default=SAMPLES, help="samples of each entry (default: %(default)s)")
    parser.add_argument("--again", action="store_true", help="repeat entries that have results")
    parser.add_argument("--current", action="store_true", help="repeat entries with results of other sources")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=300, help="time limit of an entry")
    parser.add_argument("--list", default="", help="print entries of one outcome, or 'failures'")
    parser.add_argument(
        "--counts", type=pathlib.Path, help="write the numbers of passed, failed and reviewed entries, as JSON"
    )
    parser.add_argument("--report", action="store_true", help="print the stored results as a document; run no entry")
    options = parser.parse_args()
    if options.report:
        print(report(), end="")
        return 0
    names = [] if options.whole else [name for name in options.only.split(",") if name]
    runs = whole() if options.whole else chosen(options, parser)
    made_by = f"{sources()} by {options.samples} samples"
    for run in runs:
        wanted = run.wanted(names)
        if options.again and run.file.exists():
            forgotten = {f"{name} {dtype}" for name, dtype in wanted}
            run.save({key: entry for key, entry in run.load().items() if key not in forgotten})
        execute(run, options.samples, wanted, options.processes, options.seconds, made_by, options.current)
    if options.list:
        for run in runs:
            for dtype, part, found in each(run, names):
                for name, entry in found.items():
                    what = verdict(entry, part)
                    if what != "pass" and options.list in (what, "failures"):
                        print(f"{name} {dtype} {part}: {what}: {entry['notes'].get(f'{part} {what}', '')[:260]}")
    counts = summary(runs, names)
    if options.counts:
        options.counts.write_text(json.dumps(counts))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
