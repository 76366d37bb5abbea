# SPDX-License-Identifier: Apache-2.0
"""Kernels one by one, for tools/bench_channels.py: times of build/bin/bench-channels, and whether classes differ in them."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
from channel_statistics import BLIND, SEPARATE, largest_t, second_order_t
from price_program import Case

PROGRAM = pathlib.Path(__file__).resolve().parent.parent / "build/bin/bench-channels"
CONTROLS = [Case("control/early-exit", [], "", []), Case("control/whole-sum", [], "", [])]
CONFIRMATIONS = 2  # further measurements of a case whose classes seem to differ


@dataclasses.dataclass
class Finding:
    """Of the class that differs most from random values."""

    name: str
    samples: int = 0
    other: str = ""
    t: float = 0
    second_order: float = 0
    medians: tuple[float, float] = (0, 0)  # random values, the class; nanoseconds
    error: str = ""
    again: tuple[float, ...] = ()  # |t| of the same class in further measurements

    @property
    def op(self) -> str:
        return self.name.split("/")[0]

    @property
    def least(self) -> float:
        """The smallest |t| of all measurements: a difference that is there is there each time."""
        return min(self.t, *self.again) if self.again else self.t

    @property
    def is_separate(self) -> bool:
        return self.least >= SEPARATE


def classes(header: dict, kinds: np.ndarray, times: np.ndarray) -> dict[str, np.ndarray]:
    return {name: times[kinds == number] for number, name in enumerate(header["classes"])}


def compared(name: str, by_class: dict[str, np.ndarray], only: str = "") -> Finding:
    """Each class, or only one, with random values."""
    base, *others = by_class
    found = [Finding(name, error="no sample")]
    for other in [only] if only else others:
        one, two = by_class[base], by_class[other]
        medians = float(np.median(one)), float(np.median(two))
        t, second = abs(largest_t(one, two)[0]), abs(second_order_t(one, two))
        found.append(Finding(name, sum(map(len, by_class.values())), other, t, second, medians))
    return max(found[1:] or found, key=lambda each: each.t)


def times(cases: list[Case], samples: int, seed: int) -> Iterator[tuple[str, str, dict[str, np.ndarray]]]:
    """Per case its name, why it failed, and nanoseconds by class."""
    environment = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    command = [str(PROGRAM), str(samples), str(seed)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as worker:
        assert worker.stdin is not None and worker.stdout is not None
        for case in cases:
            worker.stdin.write(f"{case.name}\nend\n".encode() if not case.op else case.text().encode())
            worker.stdin.flush()
            line = worker.stdout.readline()
            if not line:
                sys.exit(f"bench: bench-channels ended with {worker.wait()} at {case.name}")
            header = json.loads(line)
            count = header["samples"]
            kinds = np.frombuffer(worker.stdout.read(count), np.uint8)
            yield (
                case.name,
                header["error"],
                classes(header, kinds, np.frombuffer(worker.stdout.read(4 * count), "<u4")),
            )


def measured(cases: list[Case], samples: int, seed: int, show=lambda name: None) -> list[Finding]:
    """A finding for each case. One whose classes seem to differ is measured again, with other seeds."""
    found = []
    for name, error, by_class in times(cases, samples, seed):
        found.append(Finding(name, error=error) if error else compared(name, by_class))
        show(name)
    named = {case.name: case for case in cases}
    for number in range(CONFIRMATIONS):
        doubtful = {each.name: each for each in found if each.is_separate}
        again = [named[name] for name in doubtful]
        for name, _, by_class in times(again, samples, seed + 1 + number) if again else ():
            doubtful[name].again += (compared(name, by_class, doubtful[name].other).t,)
            show("")
    return found


def controls(samples: int, seed: int) -> tuple[Finding, Finding, list[str]]:
    """An early exit put back, a sum without it, and the faults of the measurement itself."""
    early, whole = measured(CONTROLS, samples, seed)
    wrong = []
    if early.least < BLIND:
        wrong.append(f"a sum that ends at the first NaN has |t| {early.least:.1f}, expected more than {BLIND:g}")
    if whole.is_separate:
        wrong.append(f"a sum of integers has |t| {whole.least:.1f}, expected less than {SEPARATE:g}")
    return early, whole, wrong
