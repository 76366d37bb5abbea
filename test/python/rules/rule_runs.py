# SPDX-License-Identifier: Apache-2.0
"""Runs of one candidate on the NumPy owner's kernels, many at once: the first axis of every array counts runs."""

from __future__ import annotations

import warnings

import numpy as np
from rule_batches import as_tuple, one_run, shifted, whole_batch
from rule_facts import Fact
from rule_predicates import differ

from sojourn_numpy.run import KERNELS


def slots_of(fact: Fact, size: int, start: int) -> np.ndarray:
    """The slot of its draw that each element of a per-row value belongs to; `start` is where dynamic parts begin."""
    moved = min(max(start, 0), fact.among - fact.slots) if fact.among else 0
    return moved + fact.first + fact.step * ((np.arange(size) // fact.stride) % fact.slots)


def _wide(x: np.ndarray):
    return np.dtype(np.float32) if x.dtype.itemsize == 2 else x.dtype


def _apart(terms: np.ndarray, dims: tuple[int, ...]) -> np.ndarray:
    """A sum in another order that contracts allow: positives, negatives, then both together."""
    zero = terms.dtype.type(0)
    return np.where(terms > 0, terms, zero).sum(dims) + np.where(terms < 0, terms, zero).sum(dims)


def _signs_apart(op, operands):
    x, dims = operands[0], tuple(op.attr("dims"))
    total = _apart(x.astype(_wide(x)), dims)
    return (np.where(np.isfinite(x.astype(_wide(x))).all(dims), total, KERNELS[op.name](op, x)).astype(x.dtype),)


def _dot_apart(op, operands):
    """The terms of a product, added up so."""
    a, b = operands
    letters = iter("abcdefghijklmnop")
    left = [next(letters) for _ in range(a.ndim)]
    right = [next(letters) for _ in range(b.ndim)]
    for i, j in (
        *zip(op.attr("lhs_batch"), op.attr("rhs_batch")),
        *zip(op.attr("lhs_contract"), op.attr("rhs_contract")),
    ):
        right[j] = left[i]
    batch = [left[i] for i in op.attr("lhs_batch")]
    gone = [left[i] for i in op.attr("lhs_contract")]
    out = batch + [x for x in left if x not in batch + gone] + [x for x in right if x not in batch + gone]
    whole = [*out, *gone]
    subscripts = f"{''.join(left)},{''.join(right)}->{''.join(whole)}"
    terms = np.einsum(subscripts, a.astype(_wide(a)), b.astype(_wide(a)))
    dims = tuple(range(len(out), len(whole)))
    return (np.where(np.isfinite(terms).all(dims), _apart(terms, dims), KERNELS[op.name](op, a, b)).astype(a.dtype),)


# Contracts say 'in any order'; kernels add in lanes.
ANY_ORDER = {"reduce_sum": _signs_apart, "dot": _dot_apart}


class Runner:
    """Computes the lines of one candidate. Results of ops that run one by one are remembered by their operands."""

    def __init__(self, ops):
        self.ops = ops
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
                operands = [values[k] for k in op.operands]
                if replace:
                    operands = replace(op, operands)
                for k, result in zip(wanted, self._compute(op, operands, count, any_order)):
                    values.setdefault(k, result)
        return values

    def _compute(self, op, operands, count: int, any_order: bool) -> tuple[np.ndarray, ...]:
        special = ANY_ORDER.get(op.name) if any_order and operands and operands[0].dtype.kind in "fV" else None
        self.computed += count
        if special:
            return as_tuple(special(shifted(op, count), operands))
        if (results := whole_batch(op, operands, count)) is not None:
            if count and op.operands:
                self._spot_check(op, operands, results, count)
            return results
        found = []
        for k in range(count):
            key = (op.first_result, *(x[k].tobytes() for x in operands))
            if key not in self.known:
                self.known[key] = one_run(op, operands, k)
            found.append(self.known[key])
        return tuple(np.stack(column) for column in zip(*found))

    def _spot_check(self, op, operands, results, count: int) -> None:
        """The batch against runs of their own."""
        if op.name in self.spotted:
            return
        self.spotted.add(op.name)
        for k in {0, count - 1}:
            for y, alone in zip(results, one_run(op, operands, k)):
                if y[k].shape != alone.shape or differ(y[k][None], alone[None]).any():
                    raise AssertionError(f"'{op.name}' of a batch differs from its runs: {y[k]} and {alone}")
