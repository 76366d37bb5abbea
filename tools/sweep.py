#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every operator of PyTorch's own test database, by its own samples, beside eager.

    tools/sweep.py                          all operators, float32, at the native owner: forward and gradient
    tools/sweep.py --parts all --dtypes float32,int64 --runtimes native,numpy --ops linalg
    tools/sweep.py --list failures          what did not pass, with the first sample's error
    tools/sweep.py --report                 totals and what does not pass, into docs/operators.md

What is tried, and what its outcomes mean, is in test/python/sweep_support.py. An entry that does not pass has to be in
the reviewed list (test/python/sweep_reviewed_support.py) with its reason: the exit status is 1 otherwise. Results are
kept in build/sweep and a later run goes on from them (`--again` forgets them). Workers are processes: one that ends
counts as a crash of the operator it was at.
"""

from __future__ import annotations

import argparse
import collections
import json
import multiprocessing
import os
import pathlib
import re
import sys
import time
import warnings

ROOT = pathlib.Path(__file__).resolve().parent.parent
KEPT = ROOT / "build" / "sweep"
SAMPLES = 30

sys.path.insert(0, str(ROOT / "test" / "python"))

import sweep_reviewed_support  # noqa: E402
import sweep_support  # noqa: E402


def work(runtime: str, parts, samples: int, tasks, results) -> None:
    warnings.simplefilter("ignore")
    sys.stderr = open(os.devnull, "w")
    import torch

    import sojourn

    torch.set_num_threads(1)
    owner = sojourn.local(runtime=runtime)
    sweep, ops = sweep_support.Sweep(owner, samples, parts), sweep_support.entries()
    for name, dtype in iter(tasks.get, None):
        results.put(("begin", name, dtype, os.getpid()))
        start = time.monotonic()
        try:
            found = sweep.entry(ops[name], getattr(torch, dtype))
        except Exception as error:
            found = {
                "forward": {"internal": 1},
                "notes": {"forward internal": f"{type(error).__name__}: {error}"[:400]},
            }
        results.put(("end", name, dtype, found | {"seconds": round(time.monotonic() - start, 2)}))


def run(runtime: str, parts, samples: int, wanted, processes: int, seconds: float) -> None:
    """Runs what is not in the file yet; a worker that ends or hangs is replaced."""
    file = KEPT / f"{runtime}.json"
    kept = json.loads(file.read_text()) if file.exists() else {}
    left = [
        (name, dtype)
        for name, dtype in wanted
        if not set(parts) <= set(kept.get(f"{name} {dtype}", {}).get("tried", []))
    ]
    context = multiprocessing.get_context("spawn")
    done, total = 0, len(left)
    workers = []

    def start():
        tasks, results = context.Queue(), context.Queue()
        process = context.Process(target=work, args=(runtime, parts, samples, tasks, results), daemon=True)
        process.start()
        return {"process": process, "tasks": tasks, "results": results, "at": None, "since": time.monotonic()}

    workers = [start() for _ in range(min(processes, max(1, total)))]
    try:
        while done < total:
            for index, worker in enumerate(workers):
                if worker["at"] is None and left:
                    worker["at"], worker["since"] = left.pop(0), time.monotonic()
                    worker["tasks"].put(worker["at"])
                found = None
                try:
                    message = worker["results"].get(timeout=0.05)
                    found = message[3] if message[0] == "end" else None
                except Exception:
                    hangs = worker["at"] and time.monotonic() - worker["since"] > seconds
                    if worker["at"] and (hangs or not worker["process"].is_alive()):
                        why = "took too long" if hangs else f"ended with {worker['process'].exitcode}"
                        found = {"forward": {"crash": 1}, "notes": {"forward crash": f"the process {why}"}}
                        worker["process"].kill()
                        at = worker["at"]
                        workers[index] = start() | {"at": at}
                        worker = workers[index]
                if found is not None:
                    key = " ".join(worker["at"])
                    before = kept.get(key, {"notes": {}, "tried": []})
                    notes = {k: v for k, v in before["notes"].items() if not k.startswith(tuple(parts))}
                    tried = sorted({*before["tried"], *parts})
                    kept[key] = before | found | {"notes": notes | found.get("notes", {}), "tried": tried}
                    worker["at"] = None
                    done += 1
                    print(f"\r{runtime}: {done} of {total}", end="", file=sys.stderr, flush=True)
                    if done % 20 == 0 or done == total:
                        file.parent.mkdir(parents=True, exist_ok=True)
                        file.write_text(json.dumps(kept, indent=0, sort_keys=True))
    finally:
        for worker in workers:
            worker["process"].kill()
        if total:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(kept, indent=0, sort_keys=True))
            print(file=sys.stderr)


def verdict(entry: dict, part: str) -> str:
    counts = entry.get(part) or {}
    worst = [outcome for outcome in sweep_support.OUTCOMES if counts.get(outcome)]
    return worst[-1] if worst else "none"


def each(runtimes):
    """(runtime, dtype, part, entries by name) of what has been run."""
    for runtime in runtimes:
        file = KEPT / f"{runtime}.json"
        kept = json.loads(file.read_text()) if file.exists() else {}
        for dtype in sorted({key.split(" ")[1] for key in kept}):
            mine = {key.split(" ")[0]: entry for key, entry in sorted(kept.items()) if key.endswith(" " + dtype)}
            for part in sweep_support.PARTS:
                found = {name: entry for name, entry in mine.items() if verdict(entry, part) != "none"}
                if found:
                    yield runtime, dtype, part, found


def summary(runtimes) -> int:
    """How many entries neither pass nor are reviewed."""
    unexplained = 0
    for runtime, dtype, part, found in each(runtimes):
        counts = collections.Counter(verdict(entry, part) for entry in found.values())
        reviewed = [name for name in found if sweep_reviewed_support.reason(name, part)]
        open_ = [name for name in found if verdict(found[name], part) != "pass" and name not in reviewed]
        unexplained += len(open_)
        said = [f"{counts[outcome]} {outcome}" for outcome in sweep_support.OUTCOMES[1:] if counts[outcome]]
        print(f"{runtime} {dtype} {part}: {counts['pass']} of {len(found)} pass; {', '.join(said) or 'none else'}")
        if open_:
            print(f"  without a reviewed reason: {' '.join(open_)}")
    return unexplained


def said(entry: dict, part: str, outcome: str) -> str:
    """The first failing sample's text, without the places of this tool."""
    text = entry.get("notes", {}).get(f"{part} {outcome}", "")
    text = re.sub(r"^sample \d+: ", "", text)
    text = re.sub(r" at \S+\.py:\d+( \(backward of the op at \S+\.py:\d+\))?", "", text)
    return text.split("; express it by supported ops")[0].replace("|", "\\|")[:200]


def report() -> None:
    """What was run, as a document."""
    import torch

    others = sweep_support.OUTCOMES[1:]
    lines = [
        "# Operators",
        "",
        f"Each entry of PyTorch's own test database (`op_db`), by up to {SAMPLES} of its own samples, beside eager on the",
        f"CPU. Made by `tools/sweep.py --parts all` and `tools/sweep.py --report`; PyTorch {torch.__version__.split('+')[0]}.",
        "",
        "| runtime | dtype | part | pass | " + " | ".join(others) + " |",
        "|---|---|---|---|" + "---|" * len(others),
    ]
    details = []
    for runtime, dtype, part, found in each(sorted(file.stem for file in KEPT.glob("*.json"))):
        counts = collections.Counter(verdict(entry, part) for entry in found.values())
        cells = [f"{counts['pass']} of {len(found)}", *(str(counts[outcome] or "") for outcome in others)]
        lines.append(f"| {runtime} | {dtype} | {part} | " + " | ".join(cells) + " |")
        for name, entry in found.items():
            outcome = verdict(entry, part)
            if outcome != "pass":
                why = sweep_reviewed_support.reason(name, part) or sweep_reviewed_support.OPEN.get(name, "")
                why = why or said(entry, part, outcome)
                details.append(f"| {name} | {runtime} {dtype} {part} | {outcome} | {why} |")
    lines += [
        "",
        "## What does not pass",
        "",
        "| entry | run | outcome | why, or what the first sample says |",
        "|---|---|---|---|",
        *details,
    ]
    (ROOT / "docs" / "operators.md").write_text("\n".join(lines) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtypes", default="float32", help="comma-separated (default: float32)")
    parser.add_argument("--runtimes", default="native", help="native, numpy or both, comma-separated")
    parser.add_argument("--ops", default="", help="only operators whose name holds one of these, comma-separated")
    parser.add_argument("--parts", default="forward,gradient", help=f"of {', '.join(sweep_support.PARTS)}; or all")
    parser.add_argument("--samples", type=int, default=SAMPLES, help="of each entry (default: %(default)s)")
    parser.add_argument("--again", action="store_true", help="run also what has been run")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=300, help="an operator may take this long")
    parser.add_argument("--list", default="", help="print entries of one outcome, or 'failures'")
    parser.add_argument("--report", action="store_true", help="write docs/operators.md from what was run, run nothing")
    options = parser.parse_args()
    if options.report:
        report()
        return 0
    names = [part for part in options.ops.split(",") if part]
    runtimes = options.runtimes.split(",")
    parts = sweep_support.PARTS if options.parts == "all" else options.parts.split(",")
    if unknown := set(parts) - set(sweep_support.PARTS):
        parser.error(f"unknown parts {sorted(unknown)}, expected some of {', '.join(sweep_support.PARTS)}")
    import torch

    wanted = [
        (name, dtype)
        for dtype in options.dtypes.split(",")
        for name, op in sweep_support.entries().items()
        if getattr(torch, dtype) in op.supported_dtypes("cpu") and (not names or any(n in op.name for n in names))
    ]
    for runtime in runtimes:
        file = KEPT / f"{runtime}.json"
        if options.again and file.exists():
            kept = json.loads(file.read_text())
            for name, dtype in wanted:
                kept.pop(f"{name} {dtype}", None)
            file.write_text(json.dumps(kept, indent=0, sort_keys=True))
        run(runtime, parts, options.samples, wanted, options.processes, options.seconds)
    if options.list:
        for _, dtype, part, found in each(runtimes):
            for name, entry in found.items():
                what = verdict(entry, part)
                if what != "pass" and options.list in (what, "failures"):
                    print(f"{name} {dtype} {part}: {what}: {entry['notes'].get(f'{part} {what}', '')[:260]}")
    return 1 if summary(runtimes) else 0


if __name__ == "__main__":
    sys.exit(main())
