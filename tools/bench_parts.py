#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Breaks down the time of a traced training step: entry, zero_grad, forward, backward, optimizer, end; compares eager.

The three sides (eager, traced, replayed) take turns, one step each or `--streak` steps each. The steps in between
empty the processor's caches, as other work of a script does. Medians, microseconds.

`--import` measures `import sojourn` instead, beyond torch's own import: each time in a fresh process.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as F
from bench_models import CASES, Case, rows
from rich.console import Console
from rich.table import Table
from torch import nn
from tqdm import tqdm

import sojourn

IMPORT_AIM = 0.3  # seconds, of an idle machine
IMPORT = """
import json, time
def spent():
    return time.perf_counter(), time.process_time()
import torch
start = spent()
import _sojourn
loaded = spent()
import sojourn
print(json.dumps([start, loaded, spent()]))
"""
PARTS = ("entry", "zero_grad", "forward", "backward", "optimizer", "end")
console = Console() if sys.stdout.isatty() else Console(width=120)


def layered(parameters):
    """A network with the given number of small parameters: layers of 8 by 8, two parameters each."""
    return Case(
        "layers", parameters, lambda: nn.Sequential(*(nn.Linear(8, 8) for _ in range(parameters // 2))), rows(8, 8)
    )


class Side:
    """A network's training step at a place (None: eager), part by part, or replayed as a whole."""

    def __init__(self, case, owner=None, replay=False):
        self.model = case.model()
        self.optimizer = case.optimizer(self.model)
        if owner:
            sojourn.to_owner(self.model, owner, self.optimizer)
        self.batch = [tensor.to(owner.device) if owner else tensor for tensor in case.data()]
        self.times, self.totals = [], []
        self.replayed = sojourn.step(self.train, replay=True) if replay else None

    def train(self, x, y):
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def once(self):
        begin = time.perf_counter()
        if self.replayed:
            self.replayed(*self.batch)
        else:
            self.parts()
        self.totals.append(time.perf_counter() - begin)

    def parts(self):
        x, y = self.batch
        marks = [time.perf_counter()]
        step = sojourn.step()
        step.__enter__()
        marks.append(time.perf_counter())
        self.optimizer.zero_grad()
        marks.append(time.perf_counter())
        loss = F.cross_entropy(self.model(x), y)
        marks.append(time.perf_counter())
        loss.backward()
        marks.append(time.perf_counter())
        self.optimizer.step()
        marks.append(time.perf_counter())
        step.__exit__(None, None, None)
        marks.append(time.perf_counter())
        self.times.append([after - before for before, after in zip(marks, marks[1:])])

    def shown(self, warm):
        columns = zip(*self.times[warm:])
        parts = [f"{statistics.median(column) * 1e6:.0f}" for column in columns] or [""] * len(PARTS)
        return [*parts, f"{statistics.median(self.totals[warm:]) * 1e6:.0f}"]


def time_import(count):
    """Of `count` fresh processes, after two that fill the caches of files."""
    runs = []
    for _ in tqdm(range(count + 2), desc="import", leave=False):
        done = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True)
        start, loaded, end = json.loads(done.stdout)
        runs.append([(a - b) * 1e3 for x, y in ((loaded, start), (end, loaded), (end, start)) for a, b in zip(x, y)])
    library, library_cpu, package, package_cpu, whole, whole_cpu = map(statistics.median, zip(*runs[2:]))
    table = Table(
        "", "the library", "the package", "together", title="import sojourn after torch, ms", title_justify="left"
    )
    table.add_row("time", *(f"{ms:.0f}" for ms in (library, package, whole)))
    table.add_row("of the processor", *(f"{ms:.0f}" for ms in (library_cpu, package_cpu, whole_cpu)))
    console.print(table)
    console.print(f"aim: {IMPORT_AIM * 1e3:.0f} ms, {'met' if whole <= IMPORT_AIM * 1e3 else 'missed'}")


def main():
    parser = argparse.ArgumentParser(prog="tools/bench_parts.py", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--cases", nargs="*", choices=CASES, metavar="CASE", help=f"some of {', '.join(CASES)} (30-64-2/64)"
    )
    parser.add_argument(
        "--parameters", nargs="*", type=int, default=[], help="also networks with this many 8 by 8 parameters"
    )
    parser.add_argument("--threads", type=int, default=1, help="threads of each side (1)")
    parser.add_argument("--steps", type=int, default=400, help="steps of each side (400)")
    parser.add_argument("--streak", type=int, default=1, help="consecutive steps of one side (1)")
    parser.add_argument(
        "--import", dest="imports", nargs="?", type=int, const=9, metavar="N", help="measure N imports instead (9)"
    )
    arguments = parser.parse_args()
    if arguments.imports is not None:
        if arguments.imports < 1:
            parser.error(f"--import is {arguments.imports}, expected 1 or more")
        return time_import(arguments.imports)
    if min([arguments.steps - 40, arguments.streak, arguments.threads, *(n - 1 for n in arguments.parameters)]) < 1:
        parser.error("expected more than 40 steps, a streak and threads of 1 or more, and 2 parameters or more")
    torch.set_num_threads(arguments.threads)
    cases = [CASES[name] for name in (arguments.cases if arguments.cases is not None else ["30-64-2/64"])]
    for case in [*cases, *(layered(count) for count in arguments.parameters)]:
        owner = sojourn.local()
        sides = {"eager": Side(case), "traced": Side(case, owner), "replayed": Side(case, owner, replay=True)}
        for _ in tqdm(range(arguments.steps // arguments.streak), desc=case.name, leave=False):
            for side in sides.values():
                for _ in range(arguments.streak):
                    side.once()
        table = Table(
            "", *PARTS, "together", title=f"{case.name}, {arguments.threads} thread(s), us", title_justify="left"
        )
        for name, side in sides.items():
            table.add_row(name, *side.shown(warm=40))
        console.print(table)
        owner.close()


if __name__ == "__main__":
    main()
