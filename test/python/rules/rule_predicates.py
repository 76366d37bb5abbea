# SPDX-License-Identifier: Apache-2.0
"""The meaning of each fact of the row analysis: one predicate per fact over runs, and its sentence.

Tables T and U differ in one row r (any entries that the columns can hold); coins c and d of an owner's draw differ in one
slot. v(T, c) is the value in a run, of any kernel that the contract of an op allows. Values come in batches: the first
axis counts runs, and element k of both arguments are the two runs of one pair. Each function says per pair whether the
fact is BROKEN, so that a caller can show the simplest pair that breaks it.
"""

from __future__ import annotations

import numpy as np
from rule_facts import Fact, Interval

PRINTED = 6e-6  # numbers of remarks have six digits
# Relative to the magnitudes that were added: sums of halves round once per op, in float32 inside.
ROUNDING = {2: 2e-2, 4: 1e-5, 8: 1e-9}


def differ(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """Per element: other bits. NaN counts as one value."""
    if one.dtype == bool:
        return one != two
    width = one.dtype.itemsize
    bits = lambda x: np.ascontiguousarray(x).view(np.uint8).reshape(*x.shape, width)
    unlike = (bits(one) != bits(two)).any(-1)
    if one.dtype.kind in "fcV":
        unlike &= ~(is_nan(one) & is_nan(two))
    return unlike


def is_nan(x: np.ndarray) -> np.ndarray:
    return np.isnan(x.astype(np.float64) if x.dtype.kind == "V" else x)


def any_element(flags: np.ndarray) -> np.ndarray:
    """One flag per run."""
    return flags.reshape(len(flags), -1).any(1) if flags.size else np.zeros(len(flags), bool)


def public(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """public: v(T, c) = v(U, c) = v(T, d) to the bit.

    It may leave without noise, and be a seed, a start or an index.
    """
    return any_element(differ(one, two))


def per_row(one: np.ndarray, two: np.ndarray, slots: np.ndarray, changed: int | None) -> np.ndarray:
    """per row of draw D, first/step/stride: the element at flat position p belongs to slot
    first + step * ((p / stride) mod slots). T against U, only elements of slots s with index_D[s] = r differ; c against d,
    only those of the slot whose coin differs, and none where D is not the owner's draw.

    `slots` is the slot of each element, `changed` the slot that is another row's now; None where none is.
    """
    apart = differ(one, two).reshape(len(one), -1)
    return (apart & (slots != changed if changed is not None else True)).any(1) if apart.size else any_element(apart)


def _outside(values: np.ndarray, interval: Interval) -> np.ndarray:
    """Per run and element. Nothing lies in a range whose end is NaN."""
    x = values.reshape(len(values), -1)
    x = x.astype(np.float64) if x.dtype != np.float64 else x
    slack = lambda bound: PRINTED * abs(bound) if np.isfinite(bound) else 0.0
    inside = (x >= interval.low - slack(interval.low)) & (x <= interval.high + slack(interval.high))
    return ~(inside | np.isnan(x)) if interval.nan else ~inside


def in_range(values: np.ndarray, interval: Interval) -> np.ndarray:
    """range [a, b], or NaN: every element of every slot lies there in every admissible run, for any order of addition.

    A value whose range is one number is public; influence follows from ranges.
    """
    return any_element(_outside(values, interval))


def in_present_range(values: np.ndarray, interval: Interval, keep: np.ndarray) -> np.ndarray:
    """present range: the same of slots whose number names a row of every table of the draw.

    `keep` flags elements of such slots. How far one row moves a sum follows from it.
    """
    return any_element(_outside(values, interval) & keep)


def _twice(numbers: np.ndarray, count) -> np.ndarray:
    """Whether two entries for which `count` holds are equal."""
    x = np.sort(numbers.reshape(len(numbers), -1), axis=1)
    return any_element((x[:, 1:] == x[:, :-1]) & count(x[:, 1:]))


def no_row_twice(numbers: np.ndarray) -> np.ndarray:
    """no row twice: entries at two places are equal only if they are negative, which name no row.

    It does not speak of a table's length. A row counts once in a sum.
    """
    return _twice(numbers, lambda x: x >= 0)


def no_number_twice(numbers: np.ndarray) -> np.ndarray:
    """no number twice: entries at two places differ, negative ones too.

    Adding a constant keeps it, and it is no row twice as well.
    """
    return _twice(numbers, lambda x: np.ones(x.shape, bool))


DISTINCT = {"row": no_row_twice, "number": no_number_twice}  # by Fact.distinct


def row_once(index: np.ndarray, row: int) -> np.ndarray:
    """a row stands once: it is in at most one slot of a draw, for any list at which its tables are read.

    A row's share of a sum is that of one slot.
    """
    return (index.reshape(len(index), -1) == row).sum(1) > 1


def too_many_nonzeros(values: np.ndarray, slots: np.ndarray, most: int, keep: np.ndarray) -> np.ndarray:
    """nonzeros n: at most n elements of a slot that holds a row are not zero (`keep` flags elements of such slots)."""
    x = values.reshape(len(values), -1)
    other = (x.astype(np.float64) != 0) & keep
    return np.any([other[:, slots == slot].sum(1) > most for slot in np.unique(slots)], axis=0)


def function_of_cuts(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """function of cuts C: v does not change while the values of C are held, whatever happens to the tables.

    It is free once these are noised. A sum over rows promises this, too.
    """
    return any_element(differ(one, two))


def linear(zero, a, b, both, size=0.0, rounding: float = 0.0) -> np.ndarray:
    """linear in cuts C: v = L(C) with L linear: L(0) = 0 and L(C) + L(C') = L(C + C'), public values held.

    Compared in exact arithmetic, but for the rounding of floats, relative to the largest number on the way: `size` is
    that of each run where it is not one of these, `rounding` that of the narrowest type on the way. Integers are compared modulo their width.
    """
    if both.dtype.kind in "iub":
        with np.errstate(all="ignore"):
            return any_element(np.add(a, b, dtype=both.dtype) != both) | any_element(zero != 0)
    wide = [x.astype(np.complex128 if x.dtype.kind == "c" else np.float64) for x in (zero, a, b, both)]
    with np.errstate(all="ignore"):
        scale = np.max([np.abs(x) for x in wide], axis=0) if both.size else np.abs(wide[3])
        largest = np.maximum(size, scale.reshape(len(scale), -1).max(1, initial=0)).reshape(-1, *[1] * (both.ndim - 1))
        off = np.abs(wide[1] + wide[2] - wide[3]) > max(rounding, rounding_of(both)) * largest + 1e-30
    usable = np.isfinite(scale).reshape(len(scale), -1).all(1)
    return usable & (any_element(off) | any_element(wide[0] != 0))


def rounding_of(x: np.ndarray) -> float:
    """Of the type; integers have none."""
    if x.dtype.kind not in "fcV":
        return 0.0
    return ROUNDING[x.dtype.itemsize if x.dtype.kind != "c" else x.dtype.itemsize // 2]


def influence(share: np.ndarray, fact: Fact, rounding: float = 0.0) -> np.ndarray:
    """influence (l1, l2, largest): norms of L(the term that one slot adds to C) are at most these, in exact arithmetic.

    The scale of noise rests on it. Shares that overflow are added up elsewhere and judge nothing.
    """
    x = np.abs(share.reshape(len(share), -1).astype(np.float64))
    usable = np.isfinite(x).all(1)
    x = np.where(usable[:, None], x, 0)
    largest = x.max(1, initial=0)
    part = x / np.where(largest > 0, largest, 1)[:, None]
    slack = 1 + PRINTED + max(rounding, rounding_of(share))
    with np.errstate(over="ignore"):
        broken = largest > fact.largest * slack + 1e-30
        broken |= largest * np.sqrt((part**2).sum(1)) > fact.l2 * slack + 1e-30
        broken |= largest * part.sum(1) > fact.l1 * slack + 1e-30
    return broken & usable


def secret(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """secret(D): v(T, c) may differ from v(T, d), if coins of D reach it without noise.

    A value that is not secret(D) is broken where it differs; kept results carry the label of D's tables.
    """
    return any_element(differ(one, two))


def payable(one: np.ndarray, two: np.ndarray, has_table: bool) -> np.ndarray:
    """payable(D): D has a private table, whose ledger pays, or values are equal whatever its coins are.

    A release of a draw without it is an error.
    """
    return np.zeros(len(one), bool) if has_table else any_element(differ(one, two))


SENTENCES = {
    "public": public,
    "per row": per_row,
    "no row twice": no_row_twice,
    "no number twice": no_number_twice,
    "a row stands once": row_once,
    "range": in_range,
    "present range": in_present_range,
    "nonzeros": too_many_nonzeros,
    "function of cuts": function_of_cuts,
    "linear": linear,
    "influence": influence,
    "secret": secret,
    "payable": payable,
}


def sentence(name: str) -> str:
    """The first paragraph of a predicate's text, in one line, without its name."""
    text = " ".join(SENTENCES[name].__doc__.split("\n\n")[0].split())
    return text.split(": ", 1)[1]
