# SPDX-License-Identifier: Apache-2.0
"""Measures what the time of replies and kernels tells of private rows, by dudect's method (tools/bench --channels).

Three parts: each kernel that is declared oblivious, with classes of values in random order; replies of a served owner
for two tables that differ in one row; and leaks made on purpose, which the measurement has to find. A measurement that
does not find them is blind, and says so. Figures are Welch's t: below 4.5 two classes count as equal.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import random
import sys
import tempfile
import time

import channel_cases
import channel_kernels
from channel_statistics import BLIND, CROPS, SEPARATE, Guess, capacity, guess, largest_t
from tqdm import tqdm

TRIALS = 100_000  # of the attack on the default owner
CHANCE = 0.5
MARGIN = 0.01  # over chance, which the bound on the attack's success may reach after TRIALS
OVERRUN_BITS = 256  # that the default owner lets a client learn of a table by late replies
SUCCESS = 0.9  # that the same attack needs where replies leave at once


@dataclasses.dataclass
class Series:
    """Replies of one program at one owner."""

    title: str
    headroom: float | None
    publishes: bool
    count: int  # of each world
    overruns: bool = False
    beside: bool = False  # times of another client's steps: measured, and stated as what time still tells
    replies: int = 0  # that the owner gave
    found: Guess | None = None
    t: float = 0
    null_t: float = 0  # of a table and its copy
    medians: tuple[float, float] = (0, 0)  # microseconds
    failed: int = 0
    closed: str = ""

    @property
    def is_open(self) -> bool:
        return self.headroom == 0


def series(arguments) -> list[Series]:
    few, many, paid = (1_000, 2_000, 100) if arguments.quick else (5_000, TRIALS // 2, 2_500)
    many = arguments.trials // 2 if arguments.trials else many
    return [
        Series("publishes nothing", 0, False, few),
        Series("publishes nothing", arguments.headroom, False, many),
        Series("publishes with noise", 0, True, 150),
        Series("publishes with noise", arguments.headroom, True, paid),
        Series("takes too long for label 1", arguments.headroom, False, 2_000, overruns=True),
        Series("publishes with noise; another client's steps", arguments.headroom, True, 100, beside=True),
    ]


def measure_replies(one: Series, seed: int) -> None:
    import channel_attack
    import numpy as np

    # A copy of the first table, for the tables themselves may lie differently; fewer replies, for t grows with them.
    worlds = ("zero", "one", "again") if one.count <= 5_000 else ("zero", "one")
    total = one.count * len(worlds)
    name = f"{one.title}, {'at once' if one.is_open else 'quantum'}"
    with tempfile.TemporaryDirectory(prefix="sojourn-channels-") as folder, tqdm(total=total, desc=name) as bar:
        channel_attack.make_store(pathlib.Path(folder), seed)
        found = channel_attack.attack(
            pathlib.Path(folder),
            one.headroom,
            one.publishes,
            one.count,
            worlds,
            seed,
            lambda: bar.update(),
            one.overruns,
            one.beside,
        )
    one.closed = found.closed
    times = {world: found.of(world).seconds for world in worlds}
    pair = found.of("zero", "one")
    one.failed, one.replies = int(pair.failed.sum()), len(pair.seconds)
    if min(map(len, times.values())) < (2 if one.overruns else 100):
        return
    one.found = guess(pair.seconds, pair.labels("one"), pair.failed, 0 if one.overruns else 2 * one.count)
    one.t = largest_t(times["zero"], times["one"])[0]
    one.null_t = largest_t(times["zero"], times["again"])[0] if "again" in times else 0
    one.medians = float(1e6 * np.median(times["zero"])), float(1e6 * np.median(times["one"]))


def allowed(trials: int, width: float) -> float:
    """The most that the bound on the attack's success may be: fewer trials show less."""
    return CHANCE + MARGIN + (0 if trials >= TRIALS else width)


def reply_faults(found: list[Series]) -> tuple[list[str], list[str]]:
    """Faults of the owner, and of the measurement."""
    faults: list[str] = []
    blind: list[str] = []
    for one in found:
        name = f"replies, {one.title}, {'at once' if one.is_open else 'quantum'}"
        if one.found is None:
            (blind if one.is_open else faults).append(f"{name}: too few replies; {one.closed or 'no error'}")
        elif one.overruns:
            bits = one.replies * capacity(one.found.least)
            if not one.closed or bits > OVERRUN_BITS * 2:
                faults.append(
                    f"{name}: at least {bits:.0f} bits of two tables in {one.replies} replies, expected at most {OVERRUN_BITS} of each; {one.closed or 'the tables stay open'}"
                )
        elif one.is_open:
            if abs(one.t) <= BLIND:
                blind.append(f"{name}: |t| {abs(one.t):.1f}, expected more than {BLIND:g}")
            if one.found.success <= SUCCESS:
                blind.append(
                    f"{name}: the attack is right in {one.found.success:.1%}, expected more than {SUCCESS:.0%}"
                )
        elif not one.beside:
            most = allowed(one.found.trials, one.found.most - one.found.least)
            if one.found.most > most:
                faults.append(f"{name}: the attack is right in up to {one.found.most:.2%}, expected {most:.2%} at most")
            if abs(one.t) >= SEPARATE:
                faults.append(f"{name}: |t| {abs(one.t):.1f}, expected less than {SEPARATE:g}")
    return faults, blind


def kernel_lines(found: list[channel_kernels.Finding]) -> list[str]:
    """Per op its case with the largest |t|."""
    lines = [
        "| op | cases | samples | largest abs t | second order | class | median, random | median, class | again |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    by_op: dict[str, list[channel_kernels.Finding]] = {}
    for each in found:
        by_op.setdefault(each.op, []).append(each)
    for op, group in sorted(by_op.items(), key=lambda entry: -max(each.least for each in entry[1])):
        worst = max(group, key=lambda each: each.least)
        mark = "**" if worst.is_separate else ""
        again = ", ".join(f"{t:.1f}" for t in worst.again) or "-"
        where = worst.name.partition("/")[2]
        lines.append(
            f"| {op}{' (' + where + ')' if where else ''} | {len(group)} | {sum(each.samples for each in group):,} | "
            f"{mark}{worst.t:.1f}{mark} | {worst.second_order:.1f} | {worst.other} | {worst.medians[0]:.0f} ns | "
            f"{worst.medians[1]:.0f} ns | {again} |"
        )
    return lines


def reply_lines(found: list[Series]) -> list[str]:
    lines = [
        "| program | replies leave | trials | replies | errors | median, label 0 | median, label 1 | abs t | abs t of a copy | "
        "right | bound (99.9 %) | bits/s | at most |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one in found:
        leave = "at once" if one.is_open else f"headroom {'default' if one.headroom is None else f'{one.headroom:g}'}"
        if one.found is None:
            lines.append(f"| {one.title} | {leave} | - | too few | {one.failed} | - | - | - | - | - | - | - | - |")
            continue
        measured, most = one.found.bits_per_second
        speed = "- | -" if one.beside else f"{measured:.3g} | {most:.3g}"
        null = f"{abs(one.null_t):.1f}" if one.null_t else "-"
        lines.append(
            f"| {one.title} | {leave} | {one.found.trials:,} | {one.replies:,}{', closed' if one.closed else ''} | {one.failed} | {one.medians[0]:.0f} us | "
            f"{one.medians[1]:.0f} us | {abs(one.t):.1f} | {null} | {one.found.success:.2%} | {one.found.most:.2%} | "
            f"{speed} |"
        )
    return lines


def report(arguments, control, kernels, replies, missing, faults, blind) -> str:
    lines = [
        "# What times tell of private rows",
        "",
        f"seed {arguments.seed}, {arguments.samples:,} samples per case",
        "",
    ]
    if blind:
        lines += ["**The measurement is blind: leaks made on purpose were not found, and nothing below counts.**", ""]
    lines += [f"- blind: {text}" for text in blind] + [f"- fault: {text}" for text in faults]
    lines += ["no class of values and no label differs from others by its times"] if not faults and not blind else []
    if kernels:
        lines += [
            "", "## Kernels", "",
            f"Each class of values against random ones, over {len(CROPS)} crops of the slow tail. Below {SEPARATE:g} they "
            "count as equal; a case above it is measured again, and counts where it is above it each time.", "",
            *kernel_lines([*control, *kernels]),
        ]  # fmt: skip
        lines += ["", "Not measured:", "", *(f"- {op}: {why}" for op, why in missing.items())] if missing else []
    if replies:
        lines += [
            "", "## Replies", "",
            "Two tables that differ in the label of one row; the program is slow where it is 1. *right*: an attacker's "
            "guesses by a threshold that it learnt on other replies, over times or over their distance from recent ones. *bits/s*: capacity of that guess times replies per "
            "second, and the most that the bound on the guesses allows. *closed*: the owner gave no more replies, and the other "
            "trials are thrown coins. *another client's steps*: their times beside the program, which read no rows and are not held back.", "",
            *reply_lines(replies),
        ]  # fmt: skip
    return "\n".join(lines) + "\n"


def chosen_cases(arguments) -> tuple[list, dict[str, str]]:
    """Cases of the ops that are asked for, and why others have none."""
    known = channel_cases.cases()
    ops = arguments.ops or channel_cases.declared()
    if ops is None:
        sys.exit("bench: there is no runtime/KernelTimes.def; name the ops: --ops add mul")
    missing = {op: channel_cases.LEFT_OUT.get(op, "has no case in channel_cases.py") for op in ops if op not in known}
    return [case for op in ops for case in known.get(op, [])], missing


def measure_kernels(arguments):
    cases, missing = chosen_cases(arguments)
    early, whole, blind = channel_kernels.controls(max(arguments.samples, 20_000), arguments.seed)
    with tqdm(total=len(cases), desc="kernels", unit="case") as bar:
        found = channel_kernels.measured(
            cases, arguments.samples, arguments.seed, lambda name: bar.update(1 if name else 0)
        )
    faults = [f"{op}: {why}" for op, why in missing.items() if op not in channel_cases.LEFT_OUT]
    faults += [f"{each.name}: not measured: {each.error}" for each in found if each.error]
    found = [each for each in found if not each.error]
    faults += [
        f"{each.name}: |t| {each.least:.1f} between random values and {each.other}"
        for each in found
        if each.is_separate
    ]
    return [early, whole], found, missing, faults, blind


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tools/bench --channels", description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=100_000, help="samples of each case of a kernel (100000)")
    parser.add_argument("--trials", type=int, help=f"replies that the attack guesses ({TRIALS})")
    parser.add_argument("--seed", type=int, help="of orders and values; drawn and printed where it is not given")
    parser.add_argument("--headroom", type=float, help="of the owner that is attacked (its default)")
    parser.add_argument("--ops", nargs="+", metavar="OP", help="these instead of those declared oblivious")
    parser.add_argument("--only", choices=["kernels", "replies"], help="one part")
    parser.add_argument("--quick", action="store_true", help="a fifth of the samples, and fewer replies: a first look")
    parser.add_argument("--output", type=pathlib.Path, metavar="FILE", help="also write the report here")
    arguments = parser.parse_args(words)
    if arguments.seed is None:
        arguments.seed = random.SystemRandom().randrange(2**31)
    if arguments.quick:
        arguments.samples //= 5
    print(f"seed {arguments.seed}", file=sys.stderr, flush=True)
    begin = time.monotonic()
    control, kernels, missing, faults, blind, replies = [], [], {}, [], [], []
    if arguments.only != "replies":
        control, kernels, missing, faults, blind = measure_kernels(arguments)
    if arguments.only != "kernels":
        replies = series(arguments)
        for number, one in enumerate(replies):
            measure_replies(one, arguments.seed + number)
        more = reply_faults(replies)
        faults, blind = faults + more[0], blind + more[1]
    text = report(arguments, control, kernels, replies, missing, faults, blind)
    text += f"\n{(time.monotonic() - begin) / 60:.1f} minutes\n"
    print(text)
    if arguments.output:
        arguments.output.write_text(text)
    return 1 if faults or blind else 0


if __name__ == "__main__":
    sys.exit(main())
