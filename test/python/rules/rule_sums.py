# SPDX-License-Identifier: Apache-2.0
"""What a sum over rows promises: it is linear in its cuts, a cut is the sum of its rows' shares, and no share is larger
than the influence that is claimed."""

from __future__ import annotations

import numpy as np
import rule_predicates as predicates


def check_sums(check, sums: list[int]) -> None:
    """`check` is a rule_check.Check that has run; `sums` are the results that are sums over rows."""
    cuts = check.cut_ops()
    tame = np.flatnonzero(_tame(check))
    if len(tame):
        _linear(check, sums, cuts, tame)
        _additive(check, [op for op in cuts if op.first_result in sums], tame)
    _influence(check, sums, cuts)


def _tame(check) -> np.ndarray:
    """Runs in which every number is small: there, arithmetic is close to exact."""
    good = np.ones(check.count, bool)
    for x in check.given.values():
        wide = np.abs(x.reshape(check.count, -1).astype(np.complex128))
        good &= (wide <= 1e3).all(1) if wide.size else True
    return good


def _sources(check, cuts) -> list[int]:
    """The sums that everything else is computed from: operands, and cuts in the candidate itself."""
    operands = [check.number[each.name] for each in check.operands]
    return [k for k in operands if check.facts[k].kind == "sum"] + [op.first_result for op in cuts]


def _part(values: dict, runs) -> dict:
    return {k: x[runs] for k, x in values.items()}


def _magnitude(x: np.ndarray) -> np.ndarray:
    """Per run, of its largest element."""
    return np.abs(x.reshape(len(x), -1).astype(np.complex128)).max(1, initial=0)


def _rounding(check) -> float:
    """Of the narrowest floats on the way."""
    return max(predicates.rounding_of(x) for x in check.base.values())


def _linear(check, sums, cuts, tame) -> None:
    sources = _sources(check, cuts)
    beyond = [k for k in sums if k not in sources]
    if not beyond:
        return
    given = _part(check.given, tame)
    a = _part({k: check.base[k] for k in sources}, tame)
    b = {k: np.roll(x, 1, axis=0) for k, x in a.items()}
    with np.errstate(all="ignore"):
        both = {k: (a[k] + b[k]).astype(a[k].dtype) for k in sources}
    zero = {k: np.zeros_like(x) for k, x in a.items()}
    runs = [check.runner.run({**given, **x}, len(tame)) for x in (zero, a, b, both)]
    size = np.max([_magnitude(x) for x in both.values()], axis=0)
    for k in beyond:
        broken = np.zeros(check.count, bool)
        broken[tame] = predicates.linear(*(run[k] for run in runs), size, _rounding(check))
        check._note("linear", broken, k, "L(C) + L(C') is not L(C + C'), or L(0) is not 0", check.base)


def _only(check, slot: int):
    """Gives cuts the operands of one slot: zeros elsewhere, and no place to write to."""

    def replace(op, operands):
        if op.first_result not in check.facts or not check.is_cut(op):
            return operands
        changed = []
        for k, (number, x) in enumerate(zip(op.operands, operands)):
            if number in check.facts and check.facts[number].kind == "per row":
                slots = check.slots(number, check.base)
                nothing = -1 if op.name == "put" and k == 1 else 0
                flat = x.reshape(len(x), -1)
                x = np.where(slots == slot, flat, np.asarray(nothing).astype(x.dtype)).reshape(x.shape)
            changed.append(x)
        return changed

    return replace


def _slots(check, cuts) -> list[int]:
    found = set()
    for op in cuts:
        for number in op.operands:
            if number in check.facts and check.facts[number].kind == "per row":
                found.update(map(int, check.slots(number, check.base)))
    return sorted(found)


def _additive(check, cuts, tame) -> None:
    """A cut is the sum of the shares of its slots."""
    given = _part(check.given, tame)
    for op in cuts:
        k, total, size = op.first_result, None, 0.0
        for slot in _slots(check, [op]):
            share = check.runner.run(given, len(tame), _only(check, slot))[k]
            with np.errstate(all="ignore"):
                total = share if total is None else (total + share).astype(share.dtype)
                size = size + _magnitude(share)
        base = check.base[k][tame]
        broken = np.zeros(check.count, bool)
        broken[tame] = predicates.linear(np.zeros_like(base), total, np.zeros_like(base), base, size, _rounding(check))
        check._note("linear", broken, k, "it is not the sum of what its slots add", check.base)


def _influence(check, sums, cuts) -> None:
    claimed = [k for k in sums if np.isfinite([check.facts[k].l1, check.facts[k].l2, check.facts[k].largest]).any()]
    claimed = [k for k in claimed if check.base[k].dtype.kind in "fV" or check.base[k].dtype == np.int64]
    if not claimed:
        return
    shares = {}
    for each in check.operands:
        number = check.number[each.name]
        if check.facts[number].kind == "sum":
            signs = check.rng.choice([1, -1, 1, -1, 0], check.given[number].shape)
            signs[: check.count // 8 + 1] = 1  # a row may move every element as far as it can
            shares[number] = (signs * each.share).astype(check.given[number].dtype)
    draws = {
        check.facts[n].draw for op in cuts for n in op.operands if n in check.facts and check.facts[n].kind == "per row"
    }
    for slot in _slots(check, cuts) or [0]:
        may = np.ones(check.count, bool)
        for draw in draws:
            may &= check.may_hold(draw, slot)
        moved = check.runner.run({**check.given, **shares}, check.count, _only(check, slot))
        for k in claimed:
            broken = predicates.influence(moved[k], check.facts[k], _rounding(check)) & may
            detail = (
                f"the row of slot {slot} adds what is shown" if cuts else "sums that are operands hold one row's share"
            )
            check._note("influence", broken, k, detail, moved, None)
