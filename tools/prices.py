#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures core ops beside their prices, at shapes and values that make them slow (tools/price_cases.py).

An op may take up to 20 times as long per priced operation as ordinary ops do, which run in between, and no more memory
than its price says. A long call of the kernel library (tools/price_long.py) may take up to three times the seconds that
an owner expects of it. Prints the worst case of each op; fails where one is beyond that.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

from price_cases import cases
from price_long import long_cases
from price_program import Case, t

ROOT = pathlib.Path(__file__).resolve().parent.parent
MEASURE = ROOT / "build/bin/measure-ops"
FACTOR = 20
CALL_S = 100e-6  # of one instruction, whatever it does
MEMORY = 32 << 20  # pages that a process touches anyway
EVERY = 40  # ordinary ops run once per so many cases
TRIES = 3
LONG = 3  # times the seconds that are expected of a long call


def ordinary():
    """Ops whose time per operation is the unit."""
    x, y = t([1 << 16]), t([1 << 16], "f64")
    yield Case("unit/add", [(y, "1"), (y, "1")], f"sojourn.add %0, %1 : {y}, {y}", [y])
    yield Case("unit/exp", [(y, "-1:1")], f"sojourn.exp %0 : {y}", [y])
    yield Case(
        "unit/sort", [(x, "0:1")], f"sojourn.sort %0, dim = 0, descending = false : {x}", [x, t([1 << 16], "i64")]
    )
    yield Case("unit/convert", [(x, "-9:9")], f"sojourn.convert %0 : {x} -> {y}", [y])
    square = t([256, 256])
    yield Case("unit/transpose", [(square, "1")], f"sojourn.transpose %0, perm = [1, 0] : {square}", [square])


def measured(chosen):
    """A record per case, in order, with the unit of ordinary ops around it."""
    parts = [chosen[start : start + EVERY] for start in range(0, len(chosen), EVERY)]
    units = list(ordinary())
    everything = [case for part in parts for case in [*units, *part]] + units
    done = subprocess.run(
        [MEASURE], input="".join(case.text() for case in everything), stdout=subprocess.PIPE, text=True,
        env=dict(os.environ, OMP_NUM_THREADS="1"), check=False,
    )  # fmt: skip
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode != 0 or len(lines) != len(everything):
        last = everything[len(lines)].name if len(lines) < len(everything) else "the end"
        sys.exit(f"measure-ops ended with {done.returncode} at {last}")
    each = [line["seconds"] / line["operations"] for line in lines if line["name"].startswith("unit/")]
    unit = statistics.median(each)
    found = [line for line in lines if not line["name"].startswith("unit/")]
    for line in found:
        line["unit"] = unit
    return found


def ratio(line):
    """Time per operation, in that of ordinary ops."""
    return max(line["seconds"] - CALL_S, 0) / (line["unit"] * max(line["operations"], 1))


def problem(line):
    """What is wrong with one record, or nothing."""
    if "error" in line:
        return line["error"]
    if "/long/" in line["name"] and line["seconds"] > LONG * line["library"]:
        return f"{line['seconds']:.2f} seconds in the kernel library, expected about {line['library']:.2f}"
    if ratio(line) > FACTOR:
        return f"{ratio(line):.0f} times as long per operation as ordinary ops, expected at most {FACTOR}"
    most = max(line["arena"], line["planned"]) + MEMORY
    if line["grown"] > most:
        return f"{line['grown'] >> 20} MiB, expected at most {most >> 20}"
    return None


def checked(chosen):
    """Records of all cases. Those beyond a bound are measured again: a moment of another process is no property."""
    best = {line["name"]: line for line in measured(chosen)}
    for _ in range(TRIES - 1):
        wrong = [case for case in chosen if problem(best[case.name]) and "error" not in best[case.name]]
        for line in measured(wrong) if wrong else []:
            if problem(line) is None or ratio(line) < ratio(best[line["name"]]):
                best[line["name"]] = line
    return [best[case.name] for case in chosen]


def table(lines):
    """The case with the largest ratio, and with the smallest, of each op."""
    families: dict[str, list] = {}
    for line in lines:
        if "error" not in line:
            families.setdefault(line["name"].split("/")[0], []).append(line)
    print(f"{'op':20}{'ratio':>9}{'operations':>14}{'us':>11}{'MiB':>8}  worst case{'':34}least ratio")
    for op, group in sorted(families.items(), key=lambda entry: -max(ratio(line) for line in entry[1])):
        worst, least = max(group, key=ratio), min(group, key=lambda line: line["seconds"] / max(line["operations"], 1))
        print(
            f"{op:20}{ratio(worst):9.2f}{worst['operations']:14}{worst['seconds'] * 1e6:11.0f}"
            f"{worst['grown'] / 2**20:8.1f}  {worst['name'][:44]:44}"
            f"{least['seconds'] / max(least['operations'], 1) / least['unit']:9.4f} {least['name']}"
        )


def main():
    parser = argparse.ArgumentParser(prog="tools/prices.py", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="only the cases that were once wrong")
    parser.add_argument("--only", default="", metavar="REGEX", help="only cases whose names it matches")
    parser.add_argument("--json", type=pathlib.Path, help="file to write all records to")
    parser.add_argument("--counts", type=pathlib.Path, help="file to write counts to, for tools/check")
    arguments = parser.parse_args()
    named = {case.name: case for case in [*cases(), *long_cases()]}
    chosen = [
        case for name, case in named.items() if (case.quick or not arguments.quick) and re.match(arguments.only, name)
    ]
    lines = checked(chosen)
    table(lines)
    wrong = [(line["name"], found) for line in lines if (found := problem(line))]
    for name, found in wrong:
        print(f"{name}: {found}")
    print(f"{len(lines) - len(wrong)} cases passed, {len(wrong)} failed")
    if arguments.json:
        arguments.json.write_text(json.dumps(lines, indent=0))
    if arguments.counts:
        arguments.counts.write_text(json.dumps({"passed": len(lines) - len(wrong), "failed": len(wrong)}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
