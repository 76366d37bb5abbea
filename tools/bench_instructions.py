# SPDX-License-Identifier: Apache-2.0
"""Breaks down the time of a warm, replayed step into instructions by kind, for each of bench's networks.

With `--beside` another built checkout runs the same steps, in turns, and both results are shown.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from bench_models import CASES
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

HERE = pathlib.Path(__file__).resolve()
ROOT = HERE.parent.parent
RUNS = re.compile(r": (\d+) runs")
ROW = re.compile(r"\s*[\d.]+\s+([\d.]+)\s+[\d.]+\s+\d+\s+\d+\s+\d+ (.*)")
console = Console() if sys.stdout.isatty() else Console(width=120)


def kind(name):
    """The kind of an instruction: its text without source lines and sizes."""
    return re.sub(r" of \d.*| over \d.*", "", name.split(" at ")[0].split(" (")[0])


def run(case, folder, threads, steps):
    """Runs in a separate process, because the profile is written when the process ends."""
    import torch
    from bench_worker import Variant

    import sojourn

    torch.set_num_threads(threads)
    variant = Variant(CASES[case], sojourn.local(profile=folder), replay=True)
    for _ in range(steps):
        variant.once()


def measured(case, checkout, arguments):
    """Microseconds per step and kind, and the number of such instructions in a step."""
    with tempfile.TemporaryDirectory(prefix="sojourn-bench-") as folder:
        environment = dict(
            os.environ, PYTHONPATH=str(checkout / "build/python"), OMP_NUM_THREADS=str(arguments.threads)
        )
        options = ["--one", case, folder, "--threads", arguments.threads, "--steps", arguments.steps]
        subprocess.run([sys.executable, str(HERE), *map(str, options)], env=environment, check=True)
        plans = [path.read_text().splitlines() for path in pathlib.Path(folder).glob("plan-*.txt")]
    # The step's own plan is the one that ran most often.
    runs, lines = max(((int(RUNS.findall(plan[0])[0]), plan) for plan in plans), key=lambda each: each[0])
    times: collections.defaultdict[str, float] = collections.defaultdict(float)
    counts: collections.Counter[str] = collections.Counter()
    for line in lines:
        if found := ROW.match(line):
            times[kind(found[2])] += float(found[1]) * 1e3 / runs
            counts[kind(found[2])] += 1
    return {name: {"us": time, "instructions": counts[name]} for name, time in times.items()}


def best(case, checkout, arguments, results):
    """The round with the smallest total: a noisy moment makes steps longer, never shorter."""
    results.append(measured(case, checkout, arguments))
    return min(results, key=lambda result: sum(entry["us"] for entry in result.values()))


def print_case(case, sides):
    total = {side: sum(entry["us"] for entry in found.values()) for side, found in sides.items()}
    shown = ", ".join(f"{side} {time / 1e3:.2f} ms" for side, time in total.items())
    table = Table(title=f"{case}: {shown} per step", title_justify="left")
    table.add_column("instructions")
    for side in sides:
        table.add_column(f"{side}: count", justify="right")
        table.add_column("us", justify="right")
        table.add_column("%", justify="right")
    names = sorted(
        set().union(*sides.values()), key=lambda name: -max(f.get(name, {"us": 0})["us"] for f in sides.values())
    )
    for name in names[:12]:
        cells = []
        for side, found in sides.items():
            entry = found.get(name, {"us": 0, "instructions": 0})
            cells += [
                str(entry["instructions"]),
                f"{entry['us']:.0f}",
                f"{100 * entry['us'] / max(total[side], 1e-9):.1f}",
            ]
        table.add_row(name, *cells)
    console.print(table)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--cases", nargs="+", choices=CASES, metavar="CASE", default=list(CASES), help="only these cases"
    )
    parser.add_argument("--threads", type=int, default=1, help="threads of a step (1)")
    parser.add_argument("--steps", type=int, default=30, help="steps per round (30)")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each side; the fastest is shown (3)")
    parser.add_argument("--beside", type=pathlib.Path, help="another built checkout, measured in turns")
    parser.add_argument("--json", type=pathlib.Path, help="file to write")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        case, folder = arguments.one
        return run(case, folder, arguments.threads, arguments.steps)
    checkouts = {"here": ROOT} | ({"beside": arguments.beside.resolve()} if arguments.beside else {})
    everything = {}
    with tqdm(total=len(arguments.cases) * arguments.rounds * len(checkouts), unit="process") as bar:
        for case in arguments.cases:
            kept: dict[str, list] = {side: [] for side in checkouts}
            sides = {}
            for _ in range(arguments.rounds):
                for side, checkout in checkouts.items():
                    sides[side] = best(case, checkout, arguments, kept[side])
                    bar.update()
            everything[case] = sides
    for case, sides in everything.items():
        print_case(case, sides)
    if arguments.json:
        arguments.json.write_text(json.dumps(everything, indent=1) + "\n")


if __name__ == "__main__":
    main()
