# SPDX-License-Identifier: Apache-2.0
"""The whole rewrite and its lowering: what one row moves in front of the noise, against the sensitivity that is reported.

Programs of clip_programs after sojourn-make-private, on the NumPy owner: a slot of the draw holds its row, or nobody's.
Sums are clipped, or proved by the bounds of columns. The one claim is the remark of each release.
"""

from __future__ import annotations

import dataclasses
import random
import re
import time

import clip_programs
import numpy as np
from clip_programs import BOUNDS, ROWS, SLOTS, Step
from rule_programs import ToolError, Tools, encoded

from sojourn_numpy import decode
from sojourn_numpy.ops_elementwise import convert
from sojourn_numpy.run import run

WAYS = {
    "clipped": "",
    "clipped per layer": " per-layer",
    "proved by bounds": "".join(f" bounds={name}={low}:{high}" for name, (low, high) in BOUNDS.items()),
}
_SITE = re.compile(r"bound \S+, (\d+) numbers, sensitivity (\S+) and noise \d+ in units of 2\^-?\d+")
SLACK = 1e-6  # numbers of remarks have six digits
HOSTILE = (0.0, 1.0, -1.0, 0.5, 7.0, 1e3, -1e3, 1e30, -1e30, 1e-30, 1e160, -1e160, 1e300, 1e-300, 3.4e38, 5e-324)


@dataclasses.dataclass
class Broken:
    """A row that moves more than is claimed."""

    way: str
    moved: float
    claimed: float
    text: str
    row: dict[str, np.ndarray]


@dataclasses.dataclass
class ClipReport:
    seed: int
    made: dict[str, int] = dataclasses.field(default_factory=lambda: dict.fromkeys(WAYS, 0))
    refused: int = 0
    pairs: dict[str, int] = dataclasses.field(default_factory=lambda: dict.fromkeys(WAYS, 0))
    largest: dict[str, float] = dataclasses.field(default_factory=lambda: dict.fromkeys(WAYS, 0.0))  # of the claim
    broken: list[Broken] = dataclasses.field(default_factory=list)


class Rows:
    """A table with these columns."""

    rows = ROWS

    def __init__(self, columns: dict[str, np.ndarray]):
        self.columns = columns

    def read_rows(self, columns, index: np.ndarray, result) -> np.ndarray:
        read = np.zeros(result.shape, result.dtype)
        inside = (index >= 0) & (index < ROWS)
        with np.errstate(all="ignore"):
            read[inside] = convert(self.columns[columns[0]][index[inside]], result.dtype)
        return read


def _numbers(rng, shape, mode: int) -> np.ndarray:
    """Plain ones, hostile ones, of any magnitude, or the same for each row but for its sign."""
    if mode == 0:
        return rng.normal(size=shape)
    if mode == 1:
        return rng.choice(HOSTILE, shape)
    if mode == 2:
        return rng.choice([1.0, -1.0], shape) * 10.0 ** rng.integers(-40, 40, shape)
    return np.broadcast_to(rng.choice(HOSTILE, shape[1:]), shape) * rng.choice(
        [1.0, -1.0], (shape[0], *[1] * (len(shape) - 1))
    )


MODES = 4


def _table(rng, mode: int, bounded: bool) -> Rows:
    columns = {
        "a": _numbers(rng, (ROWS, 4), mode),
        "k": rng.integers(-1, 4, ROWS),
        "m": np.clip(_numbers(rng, (ROWS, 2, 3, 3), mode), -3.4e38, 3.4e38).astype(np.float32),
    }
    for name, (low, high) in BOUNDS.items() if bounded else ():
        x = np.clip(columns[name], low, high)  # half of them at an end
        columns[name] = np.where(rng.random(x.shape) < 0.5, rng.choice([low, high], x.shape), x).astype(x.dtype)
    return Rows(columns)


class Private:
    """A rewritten step: its releases, and what noise is added to."""

    def __init__(self, tools: Tools, step: Step, text: str, remarks: str):
        self.step, self.program = step, decode(encoded(tools, text))
        uploads = [k for k, arg in enumerate(self.program.args) if arg.kind == "upload"]
        coins = uploads[1:]  # behind the weights: of noise, in the order of the releases, then the draw's
        self.sites, self.rounded = [], []
        for numbers, sensitivity in _SITE.findall(remarks):
            self.sites.append(float(sensitivity))
            mine, left = [], int(numbers)
            while left > 0:
                coin = coins.pop(0)
                left -= self.program.args[coin].type.numel
                mine += self._sum_with(coin)
            self.rounded.append(mine)
        self.draw = coins[-1] if coins else None

    def _sum_with(self, coin: int) -> list[int]:
        """The rounded sum that a coin is added to; none where the result is used nowhere."""
        users = lambda value: [op for op in self.program.ops if value in op.operands]
        added = [op for wide in users(coin) for op in users(wide.first_result) if op.name == "add"]
        others = {k for op in added for k in op.operands}
        found = [op.first_result for op in self.program.ops if op.name == "round" and op.first_result in others]
        assert found or not users(coin), f"no rounded sum stands beside coin {coin}: the lowering has another form"
        return found

    def units(self, table: Rows, weights: np.ndarray, draw: np.ndarray) -> list[np.ndarray]:
        """Per release what is rounded to its grid: only the lowering rounds there."""
        given, seen = [], {}
        for k, arg in enumerate(self.program.args):
            if arg.kind == "table":
                given.append(table)
            elif k == self.draw:
                given.append(draw)
            elif arg.kind == "upload" and arg.type.dtype.kind == "f":
                given.append(weights.astype(arg.type.dtype))
            else:
                given.append(np.zeros(arg.type.shape, arg.type.dtype))

        def watch(_, op, results):
            if op.name == "round":
                seen[op.first_result] = np.asarray(results[0], np.float64).reshape(-1)

        run(self.program, given, watch)
        return [np.concatenate([seen[k] for k in mine] or [np.zeros(0)]) for mine in self.rounded]


def _moved(one: np.ndarray, two: np.ndarray) -> float:
    """Euclidean; NaN on one side alone is infinite."""
    same = (one == two) | (np.isnan(one) & np.isnan(two))
    with np.errstate(all="ignore"):
        moved = float(np.sqrt((np.where(same, 0, one - two) ** 2).sum()))
    return np.inf if np.isnan(moved) else moved


class ClipCheck:
    """Programs from a seed, each way in turn. `claim` is a part of what is reported, to show that the check can fail."""

    def __init__(self, seed: int, tools: Tools | None = None, claim: float = 1.0):
        self.report, self.claim, self.tools = ClipReport(seed), claim, tools or Tools()
        self.random, self.rng = random.Random(seed), np.random.default_rng(seed)

    def run(self, programs: int, until: float = np.inf) -> ClipReport:
        """So many programs of each way, or as many as there are until that time."""
        while min(self.report.made.values()) < programs and time.monotonic() < until:
            for way in WAYS:
                if self.report.made[way] < programs:
                    self._program(way)
        return self.report

    def _program(self, way: str) -> None:
        step = clip_programs.write(self.random, way == "proved by bounds")
        if step is None:
            return
        options = f"rows={ROWS} noise-multiplier=1 clip=1 loss-is-sum coins-as-uploads" + WAYS[way]
        done = self.tools.run([self.tools.opt, "-", f"--sojourn-make-private={options}"], step.text)
        if done.returncode:
            if done.returncode != 1 or "error: " not in done.stderr:
                raise ToolError(f"sojourn-opt --sojourn-make-private: {done.stderr[-2000:]}\n{step.text}")
            self.report.refused += 1
            return
        private = Private(self.tools, step, done.stdout, done.stderr)
        self.report.made[way] += 1
        for mode in range(MODES):
            self._rows(private, way, mode)

    def _rows(self, private: Private, way: str, mode: int) -> None:
        table = _table(self.rng, mode, way == "proved by bounds")
        weights = self.rng.normal(size=(4, 4)) * self.rng.choice([1, 1e10])
        draw = self.rng.permutation(ROWS)[:SLOTS]
        draw[self.rng.random(SLOTS) < 0.3] = -1
        base, report = private.units(table, weights, draw), self.report
        for slot in np.flatnonzero(draw >= 0):
            without = draw.copy()
            without[slot] = -1
            other = private.units(table, weights, without)
            report.pairs[way] += 1
            for sensitivity, one, two in zip(private.sites, base, other):
                moved, claimed = _moved(one, two), sensitivity * self.claim
                report.largest[way] = max(report.largest[way], moved / claimed)
                if not moved <= claimed * (1 + SLACK):
                    row = {name: x[draw[slot]] for name, x in table.columns.items()}
                    report.broken.append(Broken(way, moved, claimed, private.step.text, row))


def clip_summary(report: ClipReport) -> str:
    ways = ", ".join(
        f"{report.made[way]} {way} ({report.pairs[way]} pairs of runs, at most {report.largest[way]:.4f} of the claim)"
        for way in WAYS
    )
    return f"rewritten programs: {ways}; {report.refused} refused; {len(report.broken)} above; seed {report.seed}"


def clip_counterexample(found: Broken) -> str:
    shown = [f"  {name} = {np.array2string(x, separator=', ')}".replace("\n", "") for name, x in found.row.items()]
    head = f"{found.way}: a row moves {found.moved:g} units in front of the noise, claimed are {found.claimed:g}"
    return "\n".join([head, *shown, *("    " + line for line in found.text.splitlines())])
