# SPDX-License-Identifier: Apache-2.0
"""read_rows against tables: which row stands where is the one thing that uploads cannot show.

Tables of 0, 1, 2, 3 and 6 rows, lists of row numbers that are any with their fact, and orders of a draw's own list.
"""

from __future__ import annotations

import itertools

import numpy as np
import rule_predicates as predicates
from rule_check import SEED, Domains, Extent, Found
from rule_facts import EVERYTHING, Interval
from rule_operands import COLUMNS, OPEN, OPERANDS, READ, SHORT, TABLE_ROWS, TABLES, sample, tensor
from rule_programs import BY_NAME, USED, Instance, part_of
from rule_runs import slots_of
from rule_values import dtype_of, stated

from sojourn_numpy import philox
from sojourn_numpy.ops_elementwise import convert

LISTS = ("ramp", "numbers", "list", "order", "draw", "coins", "n", "k", "mixi", "deri")
ORDERS = (
    ("t2", ""),
    ("t", ""),
    ("t", ", part = [first 0.5]"),
    ("t", ", split = [first 0.5]"),
    ("t", ", split = [other 0.5]"),
)
ELEMENTS = {
    "a": ("f64", "f32", "f16", "bf16", "i64", "i1"),
    "p": ("f64", "f16", "i8", "ui8"),
    "v": ("f64", "f16"),
    "k": ("i64", "f32", "i8"),
    "h": ("f64", "f32"),
}


def candidates() -> list[tuple[str, ...]]:
    """Lines, the read last; in front of it an order of the list, or nothing."""
    found = []
    for index, table, column in itertools.product(LISTS, ("t", OPEN, *SHORT), READ):
        if index == "coins" and table != OPEN:
            continue  # then its draw has a private table
        for element in ELEMENTS[column]:
            read = 'sojourn.read_rows %{0}, %{1}, columns = ["{2}"] : {3}, tensor<3xi64> -> {4}'
            fill = lambda name: read.format(table, name, column, TABLES[table], tensor((3,), element))
            found.append((fill(index),))
            if column == "a" and element == "f64":
                for of, more in ORDERS:
                    found.append((sample(index, "tensor<3xi64>", of, more), fill("i{number}_0")))
    return found


def instance(lines: tuple[str, ...], number: int) -> Instance:
    return Instance("read_rows", tuple(line.replace("{number}", str(number)) for line in lines), number, idiom=True)


def paid_draws(domains: Domains) -> set[int]:
    """Draws at which a private table is read, by the producers of operands; candidates add none."""
    reads = [line for each in OPERANDS for line in each.lines if "read_rows" in line]
    found = [USED.findall(line)[:2] for line in reads]
    return {domains.facts[name].draw for name, table in found if table != OPEN and name in domains.facts}


def lists_of_draws(domains: Domains) -> dict[int, str]:
    """The list of row numbers that each draw is read at, by the producers of operands."""
    found = {}
    for each in OPERANDS:
        for line in each.lines:
            name = USED.match(line)[1]
            if "read_rows" in line and name in domains.facts:
                found[domains.facts[name].draw] = USED.findall(line)[2]
    return found


class ReadCheck:
    """One read, for all lists that the fact of its index admits and some tables."""

    def __init__(self, each: Instance, domains: Domains, lists: dict[int, str], rng):
        self.instance, self.lists = each, lists
        words = each.texts[-1].split('columns = ["')
        self.column = words[1].split('"')[0]
        self.table, used = USED.findall(each.texts[-1])[:2]
        self.rows = TABLE_ROWS[self.table]
        self.list_name = USED.findall(each.texts[0])[0] if len(each.texts) > 1 else used
        operand = BY_NAME[self.list_name]
        self.own = np.arange(3)[None] if operand.fixed else domains.of(operand)
        self.index = self._ordered(self.own)
        self.list_fact, self.reference = domains.fact_of(operand), domains.reference(operand)
        self.paid = domains.paid
        # Reads where the number in one slot is another row's, or another coin.
        self.moved = {} if self.list_fact.kind == "public" else {slot: self._moved(slot) for slot in range(3)}
        self.fact, self.element = each.facts[-1][0], each.types[-1][0][1]
        self.found: list[Found] = []
        self.judged: dict[str, int] = {}
        self.count, self.extent = len(self.index), Extent.ALL

    def _ordered(self, lists: np.ndarray) -> np.ndarray:
        """The numbers that are read, of lists: these, or their places in an order."""
        if len(self.instance.texts) == 1 or not len(lists):
            return lists
        text = self.instance.texts[0]
        part = part_of(text)
        if ", split = " not in text:
            return np.stack([philox.epoch_rows(x, SEED, SEED, part.rows) for x in lists])
        places = np.where((lists >= 0) & (lists < part.rows), lists + part.start, -1)
        return np.stack([philox.epoch_rows(x, SEED, SEED, part.parent) for x in places])

    def _moved(self, slot: int) -> np.ndarray:
        lists = self.own.copy()
        lists[:, slot] = self.reference
        return self._ordered(lists)

    def _columns(self) -> list[np.ndarray]:
        """Every stated value in every row. The next one follows each, for a row that is changed."""
        kind, bounds = COLUMNS[self.column]
        values = stated(kind, Interval(*bounds, nan=False) if bounds else EVERYTHING)
        return [np.resize(np.roll(values, k), self.rows) for k in range(len(values))]

    def _read(self, column: np.ndarray, index: np.ndarray) -> np.ndarray:
        out = np.zeros(index.shape, dtype_of(self.element))
        inside = (index >= 0) & (index < self.rows)
        with np.errstate(all="ignore"):
            out[inside] = convert(column[index[inside]], out.dtype)
        return out

    def _note(self, predicate: str, broken, detail: str, *values) -> None:
        self.judged[predicate] = self.judged.get(predicate, 0) + len(broken)
        if broken.any():
            at = int(np.flatnonzero(broken)[0])
            name = self.instance.names(len(self.instance.texts) - 1)[0]
            given = {self.list_name: self.own[at], "(read at)": self.index[at]}
            self.found.append(Found(predicate, name, self.fact, detail, given, None, tuple(x[at] for x in values)))

    def run(self) -> list[Found]:
        fact = self.fact
        slots = slots_of(fact, 3, 0) if fact.kind == "per row" else np.arange(3)
        columns = self._columns()
        for column, following in zip(columns, columns[1:] + columns[:1]):
            one = self._read(column, self.index)
            if not fact.range.is_everything:
                self._note("range", predicates.in_range(one, fact.range), "", one)
            if fact.kind == "per row" and fact.present:
                # What is past the end is no row, and its slot counts.
                self._note("present range", predicates.in_present_range(one, fact.present, self.index >= 0), "", one)
            for slot, index in self.moved.items():
                self._list_changed(slot, one, self._read(column, index), slots)
            for row in range(self.rows) if self.table != OPEN else ():
                changed = column.copy()
                changed[row] = following[row]
                two = self._read(changed, self.index)
                what = f"row {row} of a table of {self.rows} differs"
                if fact.kind == "public":
                    self._note("public", predicates.public(one, two), what, one, two)
                elif fact.kind == "per row":
                    for slot in range(3):
                        here = self.index[:, slot] == row
                        broken = predicates.per_row(one, two, slots, slot) & here
                        self._note("per row", broken, what, one, two)
        if fact.kind == "per row" and self.table != OPEN:
            self._once()
        return self.found

    def _list_changed(self, slot: int, one: np.ndarray, two: np.ndarray, slots: np.ndarray) -> None:
        fact, of_list, what = self.fact, self.list_fact, f"the number in slot {slot} differs"
        if fact.kind == "public":
            self._note("public", predicates.public(one, two), what, one, two)
        elif fact.kind == "per row" and of_list.kind == "per row":
            mine = slot if fact.draw == of_list.draw else None
            self._note("per row", predicates.per_row(one, two, slots, mine), what, one, two)
        for draw in of_list.secrets if fact.kind != "mixed" else ():
            if draw not in fact.secrets:
                self._note("secret", predicates.secret(one, two), what, one, two)
            if draw not in fact.unpaid:
                broken = predicates.payable(one, two, draw in self.paid)
                self._note("payable", broken, f"{what}, and nobody pays", one, two)

    def _once(self) -> None:
        """No row stands in two slots of the draw, in this list or in that at which the draw is read elsewhere."""
        known = self.lists.get(self.fact.draw)
        lists = self.index
        for row in range(self.rows):
            self._note("a row stands once", predicates.row_once(lists, row), f"row {row} stands in several slots")
            if known and len(self.instance.texts) > 1 and known == self.list_name:
                apart = (self.own == row).any(1) & (lists == row).any(1) & ((self.own == row) != (lists == row)).any(1)
                self._note("a row stands once", apart, f"row {row} stands elsewhere in another list of the draw")
