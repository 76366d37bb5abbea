# SPDX-License-Identifier: Apache-2.0
"""One candidate against the facts of its results, for all values that the facts of its operands admit.

Values that a fact lets differ are put to a reference value in a second run: what agrees with the reference agrees with
each other, so one partner per changed slot is as good as all pairs.
"""

from __future__ import annotations

import dataclasses
import enum
import math

import numpy as np
import rule_predicates as predicates
from rule_facts import Fact
from rule_operands import Operand
from rule_runs import Runner, adds_in_any_order, slots_of
from rule_sums import check_sums
from rule_values import MOST_ARRAYS, all_arrays, stated

STARTS = (-1, 0, 1, 5)  # where dynamic parts begin
SEED = 5
# Ops that a batch of runs takes one by one.
ONE_BY_ONE = {
    "conv",
    "conv_grad_input",
    "conv_grad_weight",
    "ldl",
    "ldl_solve",
    "rng_bits",
    "rng_uniform",
    "rng_normal",
}


class Extent(enum.Enum):
    """Which values a candidate was checked for."""

    ALL = "all arrays of the stated values"
    FEWER = "all arrays of fewer values: an operand has more than three elements"
    SAMPLE = "arrays at random: operands have more choices together than are tried"


@dataclasses.dataclass
class Found:
    """A fact that does not hold, with the simplest runs that break it."""

    predicate: str
    result: str
    fact: Fact
    detail: str
    given: dict[str, np.ndarray]
    other: dict[str, np.ndarray] | None
    values: tuple


class Domains:
    """All arrays of each operand, the smallest first, and the reference that changed elements are put to."""

    def __init__(self, facts: dict[str, Fact], rng):
        self.facts, self.rng, self.arrays = facts, rng, {}
        self.paid: set[int] = set()  # draws at which a private table is read

    def fact_of(self, operand: Operand) -> Fact:
        return self.facts.get(operand.name, operand.fact)

    def of(self, operand: Operand) -> np.ndarray:
        if operand.name not in self.arrays:
            fact = self.fact_of(operand)
            self.arrays[operand.name] = all_arrays(
                operand.element, operand.shape, fact.range, fact.distinct, operand.whole, self.rng
            )
        return self.arrays[operand.name]

    def is_whole(self, operand: Operand) -> bool:
        """Whether its arrays hold all stated values at all places."""
        fact = self.fact_of(operand)
        return len(stated(operand.element, fact.range, operand.whole)) ** math.prod(operand.shape) <= MOST_ARRAYS

    def reference(self, operand: Operand) -> np.ndarray:
        """One number: a list without repetitions gets one that names no row."""
        arrays = self.of(operand)
        if self.fact_of(operand).distinct == "row":
            return arrays.dtype.type(-1)
        return arrays.reshape(-1)[0] if arrays.size else np.zeros((), arrays.dtype)[()]


class Check:
    """The runs of one candidate: `given` and `base` hold operands and all values by number, `count` runs at once."""

    def __init__(self, instance, values, domains: Domains, most: int, sample: int, rng, start: int):
        self.instance, self.domains, self.rng = instance, domains, rng
        chain = instance.chain()
        names = [name for line in chain for name in line[0]]
        self.facts = {values.numbers[n]: f for line in chain for n, f in zip(line[0], line[3])}
        self.named = {values.numbers[name]: name for name in names}
        used = set(instance.operands())
        ops = _closure(instance, values) + [values.op_of[line[0][0]] for line in chain]
        self.operands = [each for each in values.arguments if each.name in used]
        self.number = {each.name: values.numbers[each.name] for each in self.operands}
        self.runner = Runner([values.program.ops[k] for k in sorted(set(ops))], values.tables)
        for each in self.operands:
            self.facts.setdefault(self.number[each.name], domains.fact_of(each))
        wanted = [line for line in chain if line[0] in {tuple(instance.names(k)) for k in range(len(instance.texts))}]
        wanted = wanted if instance.idiom else wanted[-1:]
        self.results = [values.numbers[name] for line in wanted for name in line[0]]
        self.start = start
        if any(op.name in ONE_BY_ONE for op in self.runner.ops):
            most, sample = max(most // 50, 1), max(sample // 5, 1)
        self.given, self.count = self._assign(most, sample)
        self.found: list[Found] = []
        self.judged: dict[str, int] = {}

    def _assign(self, most: int, sample: int) -> tuple[dict[int, np.ndarray], int]:
        """All choices of the operands' arrays, or, of more than `most`, a sample; and how many."""
        one = {"s": np.array([self.start]), "seed": np.array([SEED])}
        arrays = [one[each.name] if each.name in one else self.domains.of(each) for each in self.operands]
        sizes = [len(x) for x in arrays]
        total = math.prod(sizes)
        whole = all(self.domains.is_whole(each) for each in self.operands)
        self.extent = (Extent.ALL if whole else Extent.FEWER) if total <= most else Extent.SAMPLE
        if total <= most:
            places = np.indices(sizes).reshape(len(sizes), -1) if sizes else np.zeros((0, 1), int)
        else:
            places = np.stack([self.rng.integers(0, size, sample) for size in sizes])
        count = places.shape[1] if sizes else 1
        return {self.number[e.name]: x[at] for e, x, at in zip(self.operands, arrays, places)}, count

    # Which elements belong together.

    def slots(self, number: int, values) -> np.ndarray:
        size = math.prod(values[number].shape[1:])
        return slots_of(self.facts[number], size, self.start)

    def _changed(self, wanted) -> dict[int, np.ndarray]:
        """The given values with those elements at their reference that `wanted(operand, fact)` selects; None where none
        are."""
        changed = dict(self.given)
        for each in self.operands:
            number = self.number[each.name]
            which = wanted(each, self.facts[number])
            if which is not None:
                x = changed[number].reshape(self.count, -1).copy()
                x[:, which] = self.domains.reference(each)
                changed[number] = x.reshape(self.given[number].shape)
        return changed

    def _note(self, predicate: str, broken: np.ndarray, number: int, detail: str, one, two=None, other=None) -> None:
        self.judged[predicate] = self.judged.get(predicate, 0) + len(broken)
        if not broken.any():
            return
        at = min(np.flatnonzero(broken), key=lambda k: _size(self.given, k))
        pick = lambda given: {each.name: given[self.number[each.name]][at] for each in self.operands}
        shown = tuple(x[number][at] for x in (one, two) if x is not None)
        given, changed = pick(self.given), pick(other) if other else None
        self.found.append(Found(predicate, self.named[number], self.facts[number], detail, given, changed, shown))

    # The facts.

    def run(self) -> list[Found]:
        self.base = self.runner.run(self.given, self.count)
        self._single_runs()
        self._one_slot_changed()
        self._cuts_held()
        self._coins_changed()
        sums = [k for k in self.results if self.facts[k].kind == "sum"]
        if sums:
            check_sums(self, sums)
        return self.found

    def _single_runs(self) -> None:
        runs = [self.base]
        ranges = [x for k in self.results for x in (self.facts[k].range, self.facts[k].present) if x]
        if not all(x.is_everything for x in ranges) and any(map(adds_in_any_order, self.runner.ops)):
            runs.append(self.runner.run(self.given, self.count, any_order=True))
        for number in self.results:
            fact = self.facts[number]
            for values in runs:
                x = values[number]
                if x.dtype.kind != "c":
                    self._ranges(number, fact, x, values)
                # A draw holds coins wherever they matter; its positions alone promise nothing.
                if fact.distinct and "expected = " not in self.instance.texts[-1]:
                    name = f"no {fact.distinct} twice"
                    self._note(name, predicates.DISTINCT[fact.distinct](x), number, "", values)

    def _ranges(self, number: int, fact: Fact, x, values) -> None:
        if not fact.range.is_everything:
            self._note("range", predicates.in_range(x, fact.range), number, "", values)
        if fact.kind == "per row" and (fact.present or fact.nonzeros is not None):
            keep = self.holding(number, values)
            if fact.present:
                self._note("present range", predicates.in_present_range(x, fact.present, keep), number, "", values)
            if fact.nonzeros is not None:
                broken = predicates.too_many_nonzeros(x, self.slots(number, values), fact.nonzeros, keep)
                self._note("nonzeros", broken, number, f"at most {fact.nonzeros} are claimed", values)

    def holding(self, number: int, values) -> np.ndarray:
        """Per run and element: whether it belongs to a slot that may hold a row, by the facts of all operands."""
        draw, slots = self.facts[number].draw, self.slots(number, values)
        keep = np.ones((self.count, len(slots)), bool)
        for slot in np.unique(slots):
            keep[:, slots == slot] = self.may_hold(draw, slot)[:, None]
        return keep

    def may_hold(self, draw: int, slot: int) -> np.ndarray:
        """Per run: whether the operands' elements of that slot are as those of a slot that holds a row."""
        may = np.ones(self.count, bool)
        for each in self.operands:
            number = self.number[each.name]
            fact = self.facts[number]
            if fact.kind != "per row" or fact.draw != draw:
                continue
            at = self.slots(number, self.given) == slot
            part = self.given[number].reshape(self.count, -1)[:, at]
            if fact.present:
                may &= ~predicates.in_range(part, fact.present)
            if fact.nonzeros is not None:
                may &= (part.astype(np.float64) != 0).sum(1) <= fact.nonzeros
        return may

    def _one_slot_changed(self) -> None:
        """A row, or the coin of a slot; and everything that is known of no draw."""
        rows = [each for each in self.operands if self.facts[self.number[each.name]].kind == "per row"]
        places = {
            (self.facts[self.number[e.name]].draw, int(s))
            for e in rows
            for s in self.slots(self.number[e.name], self.given)
        }
        for draw, slot in sorted(places):

            def at_slot(each, fact, draw=draw, slot=slot):
                if fact.kind != "per row" or fact.draw != draw:
                    return None
                return self.slots(self.number[each.name], self.given) == slot

            self._compare(self._changed(at_slot), draw, slot)
        beyond = {"sum", "derived", "mixed"}
        if any(self.facts[self.number[each.name]].kind in beyond for each in self.operands):
            self._compare(self._changed(lambda _, fact: slice(None) if fact.kind in beyond else None), -1, None)

    def _compare(self, changed, draw: int, slot: int | None) -> None:
        wanted = [k for k in self.results if self.facts[k].kind in ("public", "per row")]
        if not wanted:
            return
        two = self.runner.run(changed, self.count)
        what = (
            f"slot {slot} of draw {draw} differs" if slot is not None else "only sums, derived and mixed values differ"
        )
        for number in wanted:
            fact = self.facts[number]
            x, y = self.base[number], two[number]
            if fact.kind == "public":
                self._note("public", predicates.public(x, y), number, what, self.base, two, changed)
            else:
                mine = slot if fact.draw == draw else None
                broken = predicates.per_row(x, y, self.slots(number, self.base), mine)
                self._note("per row", broken, number, what, self.base, two, changed)

    def is_cut(self, op) -> bool:
        """Whether it sums rows: a sum of per-row values."""
        kinds = [self.facts[k].kind for k in op.operands if k in self.facts]
        return self.facts[op.first_result].kind == "sum" and "per row" in kinds

    def cut_ops(self) -> list:
        return [op for op in self.runner.ops if op.first_result in self.facts and self.is_cut(op)]

    def _cuts_held(self) -> None:
        cuts = self.cut_ops()
        own = {op.first_result for op in cuts}
        for number in self.results:
            fact = self.facts[number]
            if fact.kind not in ("sum", "derived") or number in own:
                continue
            free = lambda each, f: None if f.kind == "public" or (f.cuts and f.cuts <= fact.cuts) else slice(None)
            changed = self._changed(free)
            held = {
                op.first_result: self.base[op.first_result]
                for op in cuts
                if self.facts[op.first_result].cuts <= fact.cuts
            }
            two = self.runner.run({**changed, **held}, self.count)
            broken = predicates.function_of_cuts(self.base[number], two[number])
            self._note("function of cuts", broken, number, "the values of its cuts are held", self.base, two, changed)

    def _coins_changed(self) -> None:
        """Other coins of one draw after the other: what is not secret of it stays, and what nobody pays for does."""
        facts = [self.facts[self.number[each.name]] for each in self.operands]
        for draw in sorted(set().union(*(fact.secrets for fact in facts))):
            told = lambda _, fact, draw=draw: slice(None) if fact.kind == "mixed" or draw in fact.secrets else None
            changed = self._changed(told)
            two, what = self.runner.run(changed, self.count), f"coins of draw {draw} differ"
            for number in self.results:
                fact, x, y = self.facts[number], self.base[number], two[number]
                if fact.kind != "mixed" and draw not in fact.secrets:
                    self._note("secret", predicates.secret(x, y), number, what, self.base, two, changed)
                if fact.kind != "mixed" and draw not in fact.unpaid:
                    broken = predicates.payable(x, y, draw in self.domains.paid)
                    self._note("payable", broken, number, f"{what}, and nobody pays", self.base, two, changed)


def _closure(instance, values) -> list[int]:
    """Ops of fixed operands that the lines use."""
    found, ops, maker = [], values.program.ops, values.makers
    todo = [values.numbers[name] for name in instance.operands()]
    while todo:
        number = todo.pop()
        if number in maker and maker[number] not in found:
            found.append(maker[number])
            todo.extend(ops[maker[number]].operands)
    return found


def _size(given: dict[int, np.ndarray], k: int) -> tuple:
    """How much there is to read of a run: what is neither zero nor one, and how large it is."""
    parts = [
        np.nan_to_num(np.abs(x[k].astype(np.complex128)), nan=1e300, posinf=1e301).reshape(-1) for x in given.values()
    ]
    flat = np.concatenate(parts) if parts else np.zeros(0)
    return (int((flat > 1).sum()), int((flat != 0).sum()), float(np.log1p(flat).sum()))
