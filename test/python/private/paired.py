# SPDX-License-Identifier: Apache-2.0
"""Runs of a program on the NumPy owner that see and change every value, and what the facts of sojourn-rows promise.

Two runs are compared whose tables differ in one row. The promises:

* public: bitwise equal; per row: equal outside of the slots of that row;
* sum over rows: the sum, over slots, of its value when all but one slot of every cut are left out, each of which is at
  most as large as the printed influence;
* sum and derived: bitwise equal once the cuts that the fact names are;
* every value lies in its printed range, and that of rows where a slot holds a row; one without counts in no release.
"""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
from core_form import Fact

from sojourn_numpy.run import KERNELS

PRINTED = 2e-5  # numbers of remarks have six digits


def compute(op, operands) -> tuple[np.ndarray, ...]:
    with np.errstate(all="ignore"):
        results = KERNELS[op.name](op, *operands)
    return tuple(np.asarray(x) for x in (results if isinstance(results, tuple) else (results,)))


def run(program, args, change=None) -> dict[int, np.ndarray]:
    """Every value by number. `change(op, operands, results)` gives other results, or None."""
    values = dict(enumerate(args))
    for op in program.ops:
        operands = [values[k] for k in op.operands]
        results = compute(op, operands)
        if change is not None:
            results = change(op, operands, results) or results
        for k, value in enumerate(results):
            values[op.first_result + k] = value
    return values


def results_of(program, values) -> list[np.ndarray]:
    return [values[result.value] for result in program.results]


def with_rows(args: list, entry) -> list:
    """The arguments with other tables: `entry(column, values)` changes a copy in place."""
    changed = []
    for argument in args:
        if hasattr(argument, "by_name"):
            argument = copy.copy(argument)
            columns = {}
            for name, column in argument.by_name.items():
                values = np.array(column.values)
                entry(name, values)
                columns[name] = dataclasses.replace(column, values=values)
            argument.by_name = columns
        changed.append(argument)
    return changed


def draw_entry(rng, bounds, values: np.ndarray) -> np.ndarray:
    """Numbers of a column within its bounds, corners among them."""
    low, high = bounds
    shape = values.shape
    inner = rng.uniform(low, high, shape) if values.dtype.kind == "f" else rng.integers(int(low), int(high) + 1, shape)
    corner = np.where(rng.random(shape) < 0.5, low, high)
    return np.where(rng.random(shape) < 0.3, corner, inner).astype(values.dtype)


def same_bits(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Per element in row-major order."""
    bytes_of = lambda x: np.frombuffer(np.ascontiguousarray(x).tobytes(), np.uint8).reshape(x.size, -1)
    return (bytes_of(a) == bytes_of(b)).all(1) if a.size else np.ones(0, bool)


def norm_of(x: np.ndarray) -> float:
    x = np.abs(x.astype(np.float64).reshape(-1))
    largest = x.max(initial=0.0)
    return float(largest * np.linalg.norm(x / largest)) if 0 < largest < np.inf else float(largest)


def least(x: np.ndarray) -> np.ndarray:
    """Of unsigned numbers, which wrap below 0, those of least magnitude that they stand for: influence is one in exact
    arithmetic, and owners add what they release in floats (passes/privacy/Lower.cpp)."""
    if x.dtype.kind != "u":
        return x
    return x.astype(np.int64) - np.where(x > np.iinfo(x.dtype).max // 2, np.int64(np.iinfo(x.dtype).max) + 1, 0)


def slots_of(fact: Fact, size: int) -> np.ndarray:
    """The slot of its draw that each element belongs to."""
    return fact.first + fact.step * ((np.arange(size) // fact.stride) % fact.slots)


class Promises:
    """What sojourn-rows said of one program, held against runs of it."""

    def __init__(self, program, facts: dict[int, Fact], private_tables: set[int], name: str):
        self.program, self.facts, self.name = program, facts, name
        self.tables = private_tables
        self.judged = {
            "public": 0,
            "per row": 0,
            "sum over rows": 0,
            "derived from sums over rows": 0,
            "range": 0,
            "range of rows": 0,
            "influence": 0,
        }
        self.cuts, self.reads, self.sums = {}, [], []
        for op in program.ops:
            kinds = [self.kind(k) for k in op.operands]
            if op.name == "read_rows" and op.operands[0] in private_tables and self.kind(op.first_result) == "per row":
                self.reads.append(op)
            if self.kind(op.first_result) == "sum over rows":
                self.sums.append(op)
                if "per row" in kinds:
                    self.cuts[op.first_result] = len(self.cuts)

    def slots_of(self, value: int, values) -> np.ndarray:
        """The slot of its draw that each element of a per-row value belongs to, in the run that gave `values`."""
        fact = self.facts[value]
        slots = slots_of(fact, values[value].size)
        if fact.among is None:
            return slots
        # The part begins where the slice says that it comes from.
        while True:
            op = next(
                op for op in self.program.ops if op.first_result <= value < op.first_result + len(op.result_types)
            )
            before = [k for k in op.operands if k in self.facts and self.facts[k].among is not None]
            if op.name == "dynamic_slice" and not before:
                moved = [
                    int(values[start])
                    for start, dim in zip(op.operands[1:], op.attr("dims"))
                    if op.operand_types[0].shape[dim] != op.result_types[0].shape[dim] and self._holds_rows(op, dim)
                ]
                return slots + min(max(moved[0], 0), fact.among - fact.slots)
            value = before[0]

    def _holds_rows(self, op, dim: int) -> bool:
        """Whether the slots of the operand of a slice lie along that dim."""
        shape = op.operand_types[0].shape
        return self.facts[op.operands[0]].stride == int(np.prod(shape[dim + 1 :], dtype=np.int64))

    def kind(self, value: int) -> str:
        return self.facts[value].kind if value in self.facts else "public"

    def where(self, value: int) -> str:
        op = next(op for op in self.program.ops if op.first_result <= value < op.first_result + len(op.result_types))
        fact = self.facts[value].text
        types = ", ".join(map(str, op.operand_types))
        attrs = {key: attr.value for key, attr in op.attrs.items()}
        return f"{self.name}: {op.name}({types}) {attrs}: {fact}"

    def slots_with(self, values, row: int, table: int | None = None) -> dict[int, set[int]]:
        """Per draw the slots that hold that row."""
        found = {}
        for op in self.reads:
            if table is None or op.operands[0] == table:
                slots = np.flatnonzero(np.asarray(values[op.operands[1]]) == row)
                found.setdefault(self.facts[op.first_result].draw, set()).update(map(int, slots))
        return found

    def missing(self, values) -> dict[int, set[int]]:
        """Per draw the slots that hold no row."""
        found = {}
        for op in self.reads:
            fact, index = self.facts[op.first_result], np.asarray(values[op.operands[1]])
            slots = fact.first + fact.step * np.arange(index.size)
            found.setdefault(fact.draw, set()).update(map(int, slots[index < 0]))
        return found

    def check_pair(self, one, two, changed: dict[int, set[int]]) -> None:
        """`changed`: the slots per draw whose row differs."""
        for value, fact in self.facts.items():
            if fact.kind not in ("public", "per row"):
                continue
            same = same_bits(one[value], two[value])
            if fact.kind == "per row":
                same |= np.isin(self.slots_of(value, one), list(changed.get(fact.draw, ())))
            self.judged[fact.kind] += 1
            assert same.all(), f"differs at {np.flatnonzero(~same)[:9]}: {self.where(value)}"

    def check_derived(self, one, run_with, free: int | None = None) -> None:
        """`run_with(change)` runs on the neighbour. All cuts but number `free` get the values of `one`."""

        def change(op, operands, results):
            number = self.cuts.get(op.first_result)
            return None if number is None or number == free else (one[op.first_result],)

        two = run_with(change)
        for value, fact in self.facts.items():
            if fact.kind not in ("sum over rows", "derived from sums over rows") or free in fact.cuts:
                continue
            self.judged[fact.kind] += 1
            assert same_bits(one[value], two[value]).all(), f"depends on more than its cuts: {self.where(value)}"

    def check_ranges(self, values) -> None:
        missing = self.missing(values)
        for value, fact in self.facts.items():
            x = values[value].astype(np.float64) if fact.low is not None or fact.present else None
            if fact.low is not None and x.size:
                self._check_range(x, fact.low, fact.high, "range", value)
            if fact.present:
                slots = self.slots_of(value, values)
                rows = x.reshape(-1)[~np.isin(slots, list(missing.get(fact.draw, ())))]
                self._check_range(rows, *fact.present, "range of rows", value)

    def _check_range(self, x, low: float, high: float, what: str, value: int) -> None:
        bottom, top = (PRINTED * abs(end) if np.isfinite(end) else 0 for end in (low, high))
        self.judged[what] += 1
        inside = (x >= low - bottom) & (x <= high + top)
        assert inside.all(), f"{x[~inside][:3]} is out of {what}: {self.where(value)}"

    def parts(self, values, draw: int, slot: int) -> dict[int, np.ndarray]:
        """Every sum with only that slot of that draw."""
        part = {}
        for op in self.sums:
            operands = [part.get(k, values[k]) for k in op.operands]
            if op.first_result in self.cuts:
                operands = self._only(op, operands, values, draw, slot)
            part[op.first_result] = compute(op, operands)[0]
        return part

    def _only(self, op, operands, values, draw: int, slot: int) -> list[np.ndarray]:
        """The operands of a cut, where other slots count nothing: zeros, and no place to write to."""
        left = []
        for k, x in zip(op.operands, operands):
            fact = self.facts.get(k)
            if fact is not None and fact.kind == "per row":
                x = np.asarray(x)
                keep = (self.slots_of(k, values) == slot if fact.draw == draw else np.zeros(x.size, bool)).reshape(
                    x.shape
                )
                nothing = -1 if op.name == "put" and k == op.operands[1] else 0
                x = np.where(
                    keep, x, np.asarray(nothing, x.dtype) if x.dtype.kind != "u" or not nothing else x.dtype.type(255)
                )
            left.append(x)
        return left

    def check_sums(self, values) -> None:
        """Additivity and influence."""
        slots = {}
        for op in self.program.ops:
            for k in op.operands:
                fact = self.facts.get(k)
                if op.first_result in self.cuts and fact is not None and fact.kind == "per row":
                    slots.setdefault(fact.draw, set()).update(map(int, self.slots_of(k, values)))
        total, size, missing = {}, {}, self.missing(values)
        for draw, numbers in slots.items():
            for slot in sorted(numbers):
                for value, part in self.parts(values, draw, slot).items():
                    wide = part if part.dtype.kind in "iub" else part.astype(np.float64)
                    with np.errstate(all="ignore"):
                        total[value] = wide if value not in total else total[value] + wide
                        size[value] = np.abs(wide.astype(np.float64)) + size.get(value, 0)
                    fact = self.facts[value]
                    if fact.influence is not None and slot not in missing.get(draw, ()):
                        self._check_influence(least(part), fact, value)
        self._check_totals(values, total, size)

    def _check_influence(self, share, fact: Fact, value: int) -> None:
        self.judged["influence"] += 1
        numbers = np.abs(share.astype(np.float64))
        moved = (numbers.sum(), norm_of(share), numbers.max(initial=0.0))
        for norm, most in zip(moved, (fact.influence_sum, fact.influence, fact.influence_largest)):
            assert norm <= most * (1 + PRINTED) + 1e-30, f"moves by {norm} of {most}: {self.where(value)}"

    def _check_totals(self, values, total, size) -> None:
        large, unit = {}, {}  # of everything that a sum is computed from: what its rounding is relative to
        for op in self.sums:
            value = op.first_result
            x = values[value]
            largest = float(size[value].max()) if x.size else 0.0
            large[value] = max([largest] + [large.get(k, 0.0) for k in op.operands])
            floats = [t.dtype.itemsize for t in (*op.operand_types, *op.result_types) if t.kind == "F"]
            unit[value] = max(
                [{8: 1e-11, 4: 1e-4, 2: 0.05}[min(floats, default=8)]] + [unit.get(k, 0.0) for k in op.operands]
            )
            if x.dtype.kind in "iub":
                good = (total[value].astype(x.dtype) == x).all()
            else:
                x = x.astype(np.float64)
                if not np.isfinite(x).all() or not np.isfinite(total[value]).all() or large[value] > 1e30:
                    continue
                good = (np.abs(total[value] - x) <= unit[value] * max(1e-30, large[value])).all()
            self.judged["sum over rows"] += 1
            assert good, f"{total[value].reshape(-1)[:5]} is not {x.reshape(-1)[:5]}: {self.where(value)}"
