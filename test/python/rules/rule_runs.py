# SPDX-License-Identifier: Apache-2.0
"""Runs of one candidate on the NumPy owner's kernels, many at once: the first axis of every array counts runs."""

from __future__ import annotations

import warnings

import numpy as np
from rule_batches import IN_OTHER_WORDS, Table, of_run, one_run, whole_batch
from rule_facts import Fact
from rule_predicates import differ, rounding_of


def slots_of(fact: Fact, size: int, start: int) -> np.ndarray:
    """The slot of its draw that each element of a per-row value belongs to; `start` is where dynamic parts begin."""
    moved = min(max(start, 0), fact.among - fact.slots) if fact.among else 0
    return moved + fact.first + fact.step * ((np.arange(size) // fact.stride) % fact.slots)


def _wide(x: np.ndarray):
    return np.dtype(np.float32) if x.dtype.itemsize == 2 else x.dtype


def _split(x: np.ndarray) -> list[np.ndarray]:
    """Positives, negatives and NaN, with zeros elsewhere: they add up to x."""
    wide = x.astype(_wide(x))
    return [np.where(which, wide, wide.dtype.type(0)) for which in (wide > 0, wide < 0, np.isnan(wide))]


def terms_apart(compute, operands, terms: tuple[int, ...]) -> np.ndarray:
    """An op that adds up elements of the operands `terms`."""
    total = 0
    for parts in zip(*(_split(operands[k]) for k in terms)):
        given = list(operands)
        for k, part in zip(terms, parts):
            given[k] = part
        total = total + compute(*given)
    return np.asarray(total).astype(operands[terms[0]].dtype)


def products_apart(compute, operands) -> np.ndarray:
    """An op that adds up products of two operands; as it is where one of them is not finite, since 0 * inf is NaN."""
    plain = compute(*operands)
    (p, n, _), (q, m, _) = map(_split, operands)
    apart = ((compute(p, q) + compute(n, m)) + (compute(p, m) + compute(n, q))).astype(plain.dtype)
    finite = [np.isfinite(x.astype(_wide(x))).reshape(len(x), -1).all(1) for x in operands]
    return np.where(np.logical_and(*finite).reshape(-1, *[1] * (plain.ndim - 1)), apart, plain)


# Contracts say 'in any order'; kernels add in lanes. Which operands hold the terms of a sum, and what adds up products.
_TERMS = {"reduce_sum": (0,), "cumsum": (0,), "pool_sum": (0,), "put": (0, 2), "put_along": (0, 2)}
_PRODUCTS = {"dot", "conv", "conv_grad_input", "conv_grad_weight"}


def adds_in_any_order(op) -> bool:
    """Whether another order of addition may give another result."""
    if not op.operands or op.result_types[0].dtype.kind not in "fV":
        return False
    return op.name in _PRODUCTS or (op.name in _TERMS and ("kind" not in op.attrs or op.attr("kind") == "add"))


def _in_other_order(op, operands, compute) -> np.ndarray:
    """Positives first, then negatives, then both together."""
    if op.name in _PRODUCTS:
        return products_apart(compute, operands)
    return terms_apart(compute, operands, _TERMS[op.name])


def _is_huge(x: np.ndarray) -> bool:
    return bool((np.abs(x.astype(_wide(x))) > 1e15).any())


class Runner:
    """Computes the lines of one candidate. Results of ops that run one by one are remembered by their operands."""

    def __init__(self, ops, tables: dict[int, Table] | None = None):
        self.ops, self.tables = ops, tables or {}
        self.known: dict = {}
        self.spotted: set[str] = set()
        self.computed = 0

    def run(
        self, given: dict[int, np.ndarray], count: int, replace=None, any_order: bool = False
    ) -> dict[int, np.ndarray]:
        """Every value by number, from those `given`. `replace(op, operands)` gives other operands; a value that is given
        is not computed."""
        values = dict(given)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for op in self.ops:
                wanted = range(op.first_result, op.first_result + len(op.result_types))
                if all(k in values for k in wanted):
                    continue
                operands = [values[k] if k in values else self.tables[k] for k in op.operands]
                if replace:
                    operands = replace(op, operands)
                for k, result in zip(wanted, self._compute(op, operands, count, any_order)):
                    values.setdefault(k, result)
        return values

    def _compute(self, op, operands, count: int, any_order: bool) -> tuple[np.ndarray, ...]:
        self.computed += count
        if any_order and adds_in_any_order(op):
            if whole_batch(op, operands, count) is not None:
                return (_in_other_order(op, operands, lambda *xs: whole_batch(op, xs, count)[0]),)
            alone = lambda *xs: one_run(op, xs, 0)[0][None]
            found = [_in_other_order(op, [x[k : k + 1] for x in operands], alone) for k in range(count)]
            return (np.concatenate(found),)
        if (results := whole_batch(op, operands, count)) is not None:
            if count and op.operands:
                self._spot_check(op, operands, results, count)
            return results
        found = []
        for k in range(count):
            key = (op.first_result, *(of_run(x, k).tobytes() for x in operands if not isinstance(x, Table)))
            if key not in self.known:
                self.known[key] = one_run(op, operands, k)
            found.append(self.known[key])
        return tuple(np.stack(column) for column in zip(*found))

    def _spot_check(self, op, operands, results, count: int) -> None:
        """The batch against runs of their own; more of them where another op computed it."""
        if op.name in self.spotted:
            return
        self.spotted.add(op.name)
        some = range(0, count, count // 5 + 1) if op.name in IN_OTHER_WORDS else ()
        for k in {0, count - 1, *some}:
            if adds_in_any_order(op) and any(_is_huge(x[k]) for x in operands):
                continue  # a sum that overflows in one order may not in another
            for y, alone in zip(results, one_run(op, operands, k)):
                if not self._agree(op, y[k], alone):
                    raise AssertionError(f"'{op.name}' of a batch differs from its runs: {y[k]} and {alone}")

    @staticmethod
    def _agree(op, one: np.ndarray, two: np.ndarray) -> bool:
        if one.shape != two.shape or not adds_in_any_order(op):
            return one.shape == two.shape and not differ(one[None], two[None]).any()
        wide = [x.astype(_wide(x)) for x in (one, two)]
        slack = rounding_of(one) * max(1.0, float(np.abs(wide[0]).max(initial=0, where=~np.isnan(wide[0]))))
        return bool(np.allclose(*wide, rtol=0, atol=slack, equal_nan=True))
