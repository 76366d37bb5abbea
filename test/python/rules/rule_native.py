# SPDX-License-Identifier: Apache-2.0
"""The same candidates on the native runtime: an embedded owner gets the operands as uploads and publishes every result.

A step computes a whole module for one choice of all operands, so fewer values are tried than on the NumPy kernels.
"""

from __future__ import annotations

import pathlib
import sys

import numpy as np
import rule_predicates as predicates
from rule_check import SEED, STARTS, Domains, Found
from rule_operands import COLUMNS, TABLE_ROWS, TABLES, parse_tensor
from rule_programs import part_of
from rule_runs import slots_of

BASES, PLACES = 3, 6  # per module: choices of all operands, and changed slots that are tried with each


def _client():
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "owner_numpy"))
    from numpy_builder import Client

    import _sojourn

    return Client(_sojourn.EmbeddedOwner())


def _zeros(rows: int, columns) -> dict:
    """Nobody reads them: a table is bound for its number of rows."""
    import torch

    types = {"f64": torch.float64, "i64": torch.int64, "i1": torch.bool, "ui8": torch.uint8}
    found = {}
    for name in columns:
        shape, element = parse_tensor(f"tensor<{COLUMNS[name][0]}>")
        found[name] = torch.zeros((rows, *shape), dtype=types[element])
    return found


def is_bound(each) -> bool:
    """Whether an owner binds the tables of a candidate: none without rows, none with a part that is empty."""
    texts = [text for _, _, text, _ in each.chain()]
    return all(part_of(text).rows > 0 for text in texts if text.startswith("sojourn.sample_rows "))


class Native:
    """One owner for all modules."""

    def __init__(self):
        self.client = _client()
        for name, rows in TABLE_ROWS.items():
            if rows:
                columns = [column for column in COLUMNS if f'"{column}" : ' in TABLES[name]]
                self.client.owner.register(name, _zeros(rows, columns), "open")

    def steps(self, values, runs: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
        """Every result by name, with one entry per run."""
        from numpy_builder import published

        found = []
        for k, given in enumerate(runs):
            uploads = [np.array(given[each.name], order="C") for each in values.arguments]
            reply = self.client.step(values.data, send_program=k == 0, uploads=uploads, tables=values.table_names)
            found.append(published(reply))
        return {name: np.stack(column) for name, column in zip(values.results, zip(*found))}


def check_module(native: Native, values, instances, domains: Domains, rng):
    """Pairs of an instance and what it breaks."""
    start = int(rng.choice(STARTS))
    facts = {each.name: domains.fact_of(each) for each in values.arguments}
    slots = {
        each.name: slots_of(facts[each.name], int(np.prod(each.shape, dtype=int)), start)
        for each in values.arguments
        if facts[each.name].kind == "per row"
    }
    bases = []
    for _ in range(BASES):
        given = {each.name: domains.of(each)[rng.integers(len(domains.of(each)))] for each in values.arguments}
        bases.append(given | {"s": np.array(start), "seed": np.array(SEED)})
    base = native.steps(values, bases)
    yield from _ranges(instances, base, bases)
    places = sorted({(facts[name].draw, int(slot)) for name, where in slots.items() for slot in where})
    chosen = [places[k] for k in rng.permutation(len(places))[:PLACES]]
    for draw, slot in [*chosen, (-1, None)]:
        changed = [dict(given) for given in bases]
        for each in values.arguments:
            fact = facts[each.name]
            which = slice(None) if slot is None and fact.kind in ("sum", "derived", "mixed") else None
            if fact.kind == "per row" and fact.draw == draw:
                which = slots[each.name] == slot
            if which is not None:
                for given in changed:
                    flat = given[each.name].reshape(-1).copy()
                    flat[which] = domains.reference(each)
                    given[each.name] = flat.reshape(given[each.name].shape)
        two = native.steps(values, changed)
        yield from _ranges(instances, two, changed)
        yield from _pairs(instances, base, two, draw, slot, start, bases, changed)


def _results(instances):
    for each in instances:
        for k in range(len(each.texts)) if each.idiom else [len(each.texts) - 1]:
            for name, fact in zip(each.names(k), each.facts[k]):
                yield each, name, fact


def _found(each, predicate, name, fact, detail, broken, given, other, *shown) -> Found:
    at = int(np.flatnonzero(broken)[0])
    pick = lambda runs: {used: runs[at][used] for used in each.operands() if used in runs[at]}
    return Found(
        predicate, name, fact, detail, pick(given), pick(other) if other else None, tuple(x[at] for x in shown)
    )


def _ranges(instances, values, runs):
    for each, name, fact in _results(instances):
        x = values[name]
        if not fact.range.is_everything and x.dtype.kind != "c":
            broken = predicates.in_range(x, fact.range)
            if broken.any():
                yield each, _found(each, "range", name, fact, "", broken, runs, None, x)
        if fact.distinct and "expected = " not in each.texts[-1]:
            broken = predicates.DISTINCT[fact.distinct](x)
            if broken.any():
                yield each, _found(each, f"no {fact.distinct} twice", name, fact, "", broken, runs, None, x)


def _pairs(instances, base, two, draw, slot, start, bases, changed):
    what = f"slot {slot} of draw {draw} differs" if slot is not None else "only sums, derived and mixed values differ"
    for each, name, fact in _results(instances):
        x, y = base[name], two[name]
        if fact.kind == "public":
            broken = predicates.public(x, y)
        elif fact.kind == "per row":
            where = slots_of(fact, int(np.prod(x.shape[1:], dtype=int)), start)
            broken = predicates.per_row(x, y, where, slot if fact.draw == draw else None)
        else:
            continue
        if broken.any():
            yield each, _found(each, fact.kind, name, fact, what, broken, bases, changed, x, y)
