# SPDX-License-Identifier: Apache-2.0
"""A recorded step after sojourn-make-private, run on the NumPy owner with its coins as inputs."""

from __future__ import annotations

import dataclasses
import pathlib
import re
import tempfile

import numpy as np
from core_form import Done, facts_by_value, op_lines, rows_of, tool
from paired import Promises, norm_of, run
from private_support import flushed_denormals

from sojourn_numpy import decode

_SITE = re.compile(
    r"remark: (.*): bound \S+, (\d+) numbers, sensitivity (\S+) and noise (\d+) in units of 2\^(-?\d+), (\w+) (\S+)$",
    re.M,
)


@dataclasses.dataclass
class Site:
    """One release: what its remark says, and its coins."""

    what: str
    numbers: int
    sensitivity: float
    noise: int
    exponent: int
    price: str
    cost: float
    coins: list[int] = dataclasses.field(default_factory=list)


def encode(text: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="sojourn-") as folder:
        path = pathlib.Path(folder) / "program.bin"
        tool("sojourn-translate", "encode", "-", "-o", path, text=text)
        return path.read_bytes()


def make_private(text: str, options: str) -> Done:
    return tool("sojourn-opt", "-", f"--sojourn-make-private={options}", text=text, may_fail=True)


class PrivateStep:
    """The program, its noise coins and draw coins, and the sums before noise."""

    def __init__(self, plain, text: str, options: str):
        done = make_private(text, options + " coins-as-uploads")
        assert done.code == 0, done.stderr[:2000]
        self.text, self.remarks = done.stdout, done.stderr
        self.program = decode(encode(done.stdout))
        count = len(self.program.args) - len(plain.args)
        first = sum(arg.kind in ("state", "upload") for arg in plain.args)
        self.first, self.appended = first, list(range(first, first + count))
        left = list(self.appended)  # noise first, then draws
        self.sites = [self._site(found, left) for found in _SITE.findall(self.remarks)]
        self.draws, self.coins = left, [coin for site in self.sites for coin in site.coins]
        # Noise of what turns out to be used nowhere is left out.
        self.rounded = {coin: self._rounded(self._users(coin)) for coin in self.coins if self._users(coin)}

    def _users(self, value: int):
        return [op for op in self.program.ops if value in op.operands]

    def _rounded(self, users) -> int:
        """The value of round(sum / h) that a coin is added to."""
        (wide,) = users
        (add,) = self._users(wide.first_result)
        assert wide.name == "convert" and add.name == "add"
        (other,) = [k for k in add.operands if k != wide.first_result]
        (maker,) = [op for op in self.program.ops if op.first_result == other]
        assert maker.name == "round"
        return other

    def _site(self, found: tuple, left: list[int]) -> Site:
        what, numbers, sensitivity, noise, exponent, price, cost = found
        site = Site(what, int(numbers), float(sensitivity), int(noise), int(exponent), price, float(cost))
        while sum(self.program.args[k].type.numel for k in site.coins) < site.numbers:
            site.coins.append(left.pop(0))
        return site

    def args(self, plain_args: list, coins: dict | None = None, draw=None) -> list:
        """Arguments of the plain step with coins, zeros where none are given, and row numbers for draws."""
        given = []
        for k in self.appended:
            shape = self.program.args[k].type.shape
            if k in self.draws:
                given.append(np.asarray(draw, np.int64))
            else:
                given.append(np.asarray((coins or {}).get(k, np.zeros(shape, np.int64)), np.int64))
        return plain_args[: self.first] + given + plain_args[self.first :]

    def run(self, args, change=None) -> dict[int, np.ndarray]:
        with flushed_denormals():
            return run(self.program, args, change)

    def units(self, values) -> dict[int, np.ndarray]:
        """Per coin the sum in units of its grid, rounded."""
        return {coin: values[rounded] for coin, rounded in self.rounded.items()}

    def sums(self, values) -> dict[int, np.ndarray]:
        """Per coin the sum before rounding and noise."""
        exponent = {coin: site.exponent for site in self.sites for coin in site.coins}
        found = {}
        for coin, rounded in self.rounded.items():
            (maker,) = [op for op in self.program.ops if op.first_result == rounded]
            found[coin] = values[maker.operands[0]] * 2.0 ** exponent[coin]
        return found


def absent(slots):
    """A change of a run: nobody stands in these slots of the draws."""

    def change(op, operands, results):
        if op.name != "sample_rows":
            return None
        rows = np.array(results[0])
        rows[list(slots)] = -1
        return (rows,)

    return change


class Points:
    """The noise points of the plain program, and each slot's part of them: an oracle that knows no clipping."""

    def __init__(self, recorded, options: str):
        (rows,) = rows_of([recorded.text], options)
        self.program, facts = recorded.program, facts_by_value(recorded.program, recorded.text, rows)
        tables = {number for number, _ in recorded.program.args_of("table")}
        self.promises = Promises(recorded.program, facts, tables, recorded.name)
        lines = {line: number for number, line in enumerate(op_lines(recorded.text))}
        self.points = [recorded.program.ops[lines[line]].first_result for line, _ in rows.points]

    def gradients(self) -> list[int]:
        """Points that a commit depends on, in order; the others are metrics."""
        return [
            point
            for point in self.points
            if any(self.program.results[k].kind == "commit" for k in reached(self.program, point))
        ]

    def metric(self, result: int) -> list[int]:
        """Points of a published result that no earlier one releases."""
        found = []
        for point in self.points:
            published = [k for k in sorted(reached(self.program, point)) if self.program.results[k].kind == "publish"]
            if point not in self.gradients() and published[:1] == [result]:
                found.append(point)
        return found

    def parts(self, values, slot: int, draw: int = 0) -> dict[int, np.ndarray]:
        return self.promises.parts(values, draw, slot)


def reached(program, value: int) -> set[int]:
    """Numbers of the results that depend on a value."""
    known = {value}
    for op in program.ops:
        if known & set(op.operands):
            known.update(range(op.first_result, op.first_result + len(op.result_types)))
    return {k for k, result in enumerate(program.results) if result.value in known}


def total_norm(arrays) -> float:
    return norm_of(np.concatenate([np.asarray(x).reshape(-1) for x in arrays]))
