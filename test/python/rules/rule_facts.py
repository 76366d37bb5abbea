# SPDX-License-Identifier: Apache-2.0
"""What a remark of sojourn-rows says of one value, all of it: facts as records that predicates are asked about."""

from __future__ import annotations

import dataclasses
import math
import re


@dataclasses.dataclass(frozen=True)
class Interval:
    """A closed range of numbers; NaN lies in it where `nan` says so."""

    low: float = -math.inf
    high: float = math.inf
    nan: bool = True

    @property
    def is_everything(self) -> bool:
        return self.nan and self.low == -math.inf and self.high == math.inf


EVERYTHING = Interval()


@dataclasses.dataclass(frozen=True)
class Fact:
    """One value of the lattice of dialect/rows/Fact.h, as remarks show it."""

    kind: str = "mixed"  # public, per row, sum, derived, mixed
    text: str = "public"
    draw: int = -1
    slots: int = 0
    stride: int = 0
    first: int = 0
    step: int = 1
    among: int = 0  # the part begins at a number of the run, within so many slots; 0 where it does not
    cuts: frozenset = frozenset()
    l1: float = math.inf
    l2: float = math.inf
    largest: float = math.inf
    range: Interval = EVERYTHING
    present: Interval | None = None
    nonzeros: int | None = None
    secrets: frozenset = frozenset()  # draws whose coins may reach it; those of a mixed value are all
    unpaid: frozenset = frozenset()  # draws that it holds and for which no account pays
    distinct: str = ""  # "row": no row twice; "number": no number twice

    def label(self) -> str:
        """The column of the coverage table that an operand of this fact counts in."""
        if self.kind == "public" and self.distinct:
            return f"no {self.distinct} twice"
        if self.kind == "per row" and (self.first or self.step != 1 or self.among):
            return "per row, a part"
        return self.kind


_NUMBER = r"(-?[\d.]+(?:e[+-]?\d+)?|-?inf|-?nan)"
_SHORT = {"public": "public", "per row": "per row", "sum over rows": "sum", "mixed": "mixed"}
_SHORT["derived from sums over rows"] = "derived"
_KIND = re.compile("|".join(_SHORT))
_PLACE = re.compile(
    r"draw (\d+), (\d+) slots, stride (\d+)(?:, from slot (-?\d+) by (-?\d+))?(?:, of (\d+) from a run-time position)?"
)
_CUTS = re.compile(r": cuts ([\d, ]*\d)")
_MOVES = re.compile(rf"one row moves it by {_NUMBER}(?:\s*\(sum {_NUMBER}, largest {_NUMBER}\))?")
_PRESENT = re.compile(rf", rows in \[{_NUMBER}, {_NUMBER}\]( or NaN)?")
_RANGE = re.compile(rf", in \[{_NUMBER}, {_NUMBER}\]( or NaN)?")
_NONZEROS = re.compile(r", at most (\d+) not zero")
_DISTINCT = re.compile(r", no (row|number) twice(?=$|, )")
_SECRET = re.compile(r", secret of draws ([\d, ]*\d)")
_UNPAID = re.compile(r", not paid by draws ([\d, ]*\d)")


def _interval(found) -> Interval:
    return Interval(float(found[1]), float(found[2]), bool(found[3]))


def _numbers(listed: str) -> frozenset:
    return frozenset(int(number) for number in listed.split(", "))


def parse(text: str) -> Fact:
    """The fact of one remark. Reasons of mixed values are free text; what follows them stands at the end."""
    known: dict = {"kind": _SHORT[_KIND.match(text)[0]], "text": text}
    if known["kind"] == "per row" and (place := _PLACE.search(text)):
        known.update(draw=int(place[1]), slots=int(place[2]), stride=int(place[3]), among=int(place[6] or 0))
        if place[4]:
            known.update(first=int(place[4]), step=int(place[5]))
    if known["kind"] in ("sum", "derived") and (cuts := _CUTS.search(text)):
        known["cuts"] = _numbers(cuts[1])
    if moves := _MOVES.search(text):
        known["l1"], known["l2"], known["largest"] = (float(moves[k] or moves[1]) for k in (2, 1, 3))
    if found := _PRESENT.search(text):
        known["present"] = _interval(found)
    if found := _RANGE.search(text):
        known["range"] = _interval(found)
    assert text.count(" in [") == sum(key in known for key in ("present", "range")), f"cannot read '{text}'"
    if found := _NONZEROS.search(text):
        known["nonzeros"] = int(found[1])
    if found := _DISTINCT.search(text):
        known["distinct"] = found[1]
    if found := _SECRET.search(text):
        known["secrets"] = _numbers(found[1])
    if found := _UNPAID.search(text):
        known["unpaid"] = _numbers(found[1])
    return Fact(**known)
