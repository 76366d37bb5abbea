#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the cost of the first run of a training step, phase by phase, by its number of recorded ops.

Each cell is a separate process. It times a step that is new to client and owner, then the same
step again. build/bin/bench-compile times the phases: it runs the same passes and owner functions
on the step's captured form.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from rich.console import Console
from rich.table import Table
from tqdm import tqdm

ROOT = pathlib.Path(__file__).resolve().parent.parent
PHASES = ROOT / "build/bin/bench-compile"
SIZES = (20, 200, 1000, 5000, 20000, 50000)
# Case: recorded ops of a step besides, and per layer, point in time or pair of ops.
CASES = {"mlp-foreach": (11, 6), "mlp-loop": (4, 20), "rnn": (10, 14), "chain": (0, 2)}
VERIFICATIONS = 2  # of a compilation, in a release build
AIM = "aims: the first run of a step of 1,000 ops <= 150 ms, recording included; a phase's row is constant"
# A log has no width of its own.
console = Console() if sys.stdout.isatty() else Console(width=140)


def make_step(case, ops, owner):
    """A step of about that many recorded ops, with its inputs and states at the owner."""
    import torch
    import torch.nn.functional as F
    from torch import nn

    import sojourn

    torch.manual_seed(0)
    base, each = CASES[case]
    count = max(1, round((ops - base) / each))
    if case == "chain":
        x = torch.randn(64).to(owner.device)

        def step():
            y = x
            for _ in range(count):
                y = y * 0.999 + x
            return y
    elif case == "rnn":
        cell, x = nn.RNNCell(8, 8), torch.randn(count, 4, 8)
        optimizer = torch.optim.Adam(cell.parameters())
        sojourn.to_owner(cell, owner, optimizer)
        x = x.to(owner.device)

        def step():
            optimizer.zero_grad()
            h = x.new_zeros(4, 8)
            for i in range(count):
                h = cell(x[i], h)
            loss = h.square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()
    else:
        model = nn.Sequential(*(part for _ in range(count) for part in (nn.Linear(8, 8), nn.ReLU())))
        optimizer = torch.optim.Adam(model.parameters(), foreach=case == "mlp-foreach")
        x, y = torch.randn(4, 8), torch.randint(8, (4,))
        sojourn.to_owner(model, owner, optimizer)
        x, y = x.to(owner.device), y.to(owner.device)

        def step():
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss.detach()

    sojourn.flush()
    return step


def run(step):
    """Recorded ops, milliseconds of recording, milliseconds of the rest."""
    import sojourn

    before, begin = sojourn.counters()["ops_recorded"], time.perf_counter()
    with sojourn.step():
        kept = step()
        recorded = time.perf_counter()
    end = time.perf_counter()
    del kept
    return sojourn.counters()["ops_recorded"] - before, (recorded - begin) * 1e3, (end - recorded) * 1e3


def measure(case, ops):
    """One cell, in this process."""
    import sojourn

    # A step at another owner loads what a process loads once; Adam makes its states in the first step.
    run(make_step(case, 20, sojourn.local()))
    step = make_step(case, ops, sojourn.local())
    if case != "chain":
        run(step)
    count, record, cold = run(step)
    _, _, warm = run(step)
    with tempfile.TemporaryDirectory(prefix="sojourn-bench-") as folder:
        step = make_step(case, ops, sojourn.local())
        if case != "chain":
            run(step)
        os.environ["SOJOURN_DUMP"] = folder
        run(step)
        del os.environ["SOJOURN_DUMP"]
        (captured,) = pathlib.Path(folder).glob("*/00-captured.mlir")
        phases = json.loads(subprocess.check_output([PHASES, captured]))
    return {"ops": count, "record": record, "cold": cold, "warm": warm, "phases": phases}


def measured(case, ops, rounds):
    """The fastest of several processes, phase by phase, or the reason why there is no result."""
    best = None
    for _ in range(rounds):
        command = [sys.executable, __file__, "--cell", case, str(ops)]
        environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=str(ROOT / "build/python"))
        environment.pop("SOJOURN_DUMP", None)
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            return {"failure": done.stderr.strip().splitlines()[-1][:200]}
        cell = json.loads(done.stdout)
        if best is not None:
            cell["phases"] = {name: min(value, best["phases"][name]) for name, value in cell["phases"].items()}
            cell |= {name: min(cell[name], best[name]) for name in ("record", "cold", "warm")}
        best = cell
    return best


def rows_of(cell):
    """Milliseconds by phase, in the order in which a step passes them."""
    phases = dict(cell["phases"])
    phases.pop("program bytes")
    owner, parts = phases.pop("plan"), ("decode", "price", "dependence", "text", "lower")
    phases["verify"] *= VERIFICATIONS
    client = {name: value for name, value in phases.items() if name not in (*parts, "first run")}
    rows = {"recording": cell["record"], **client}
    rows |= {f"owner: {name}": phases[name] for name in parts}
    rows["owner: rest of the plan"] = owner - sum(phases[name] for name in parts)
    rows["first run"] = phases["first run"]
    rows["import, sending, bookkeeping"] = cell["cold"] - sum(client.values()) - owner - phases["first run"]
    return rows


def print_case(case, cells):
    good = [cell for cell in cells if "failure" not in cell]
    for cell in cells:
        if "failure" in cell:
            console.print(f"{case}: {cell['wanted']} ops: {cell['failure']}", style="yellow")
    if not good:
        return
    table = Table(title=f"{case}: microseconds per recorded op", title_justify="left")
    table.add_column("recorded ops")
    for cell in good:
        table.add_column(f"{cell['ops']:,}", justify="right")
    columns = [rows_of(cell) for cell in good]
    for name in columns[0]:
        table.add_row(name, *(f"{column[name] / cell['ops'] * 1e3:.2f}" for column, cell in zip(columns, good)))
    table.add_section()
    totals = [cell["record"] + cell["cold"] for cell in good]
    table.add_row("first run, total", *(f"{total / cell['ops'] * 1e3:.1f}" for total, cell in zip(totals, good)))
    table.add_row("... in ms", *(f"{total:.1f}" for total in totals))
    table.add_row("second run in ms", *(f"{cell['record'] + cell['warm']:.1f}" for cell in good))
    table.add_row("program in KB", *(f"{cell['phases']['program bytes'] / 1e3:.0f}" for cell in good))
    console.print(table)


def main():
    parser = argparse.ArgumentParser(prog="tools/bench_compile.py", description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="*", choices=list(CASES), default=list(CASES), help="only these cases")
    parser.add_argument(
        "--sizes", nargs="*", type=int, default=SIZES, help="approximate numbers of recorded ops (20 to 50,000)"
    )
    parser.add_argument("--rounds", type=int, default=2, help="processes per cell; the fastest counts (2)")
    parser.add_argument("--json", type=pathlib.Path, help="also write the cells to this file")
    parser.add_argument("--cell", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.cell:
        json.dump(measure(arguments.cell[0], int(arguments.cell[1])), sys.stdout)
        return
    if not PHASES.exists():
        sys.exit(f"bench_compile: {PHASES} is missing; build with SOJOURN_BENCHMARKS=ON")
    found: dict = {}
    with tqdm(total=len(arguments.cases) * len(arguments.sizes), desc="bench_compile", unit="cell") as bar:
        for case in arguments.cases:
            found[case] = []
            for ops in arguments.sizes:
                found[case].append({"wanted": ops, **measured(case, ops, arguments.rounds)})
                bar.update()
    for case, cells in found.items():
        print_case(case, cells)
    console.print(AIM)
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
