# SPDX-License-Identifier: Apache-2.0
"""Every rule of the row analysis against what its facts mean, a sample of depth 1; `tools/rules` checks all of it.

A failure shows the fact, what it means, the simplest values that break it and a program for sojourn-opt.
"""

import dataclasses
import math
import os
import pathlib

import numpy as np
import pytest
import rule_driver
import rule_predicates as predicates
from rule_batches import one_run
from rule_check import Check
from rule_driver import Options
from rule_facts import Fact, Interval, parse
from rule_programs import facts_of
from rule_report import core_ops, counterexamples, program_of, summary
from rule_runs import products_apart, terms_apart
from rule_values import all_arrays

SECONDS = 30
OPT = os.environ.get("SOJOURN_OPT")  # another build, with a rule that is broken on purpose


@pytest.mark.slow
def test_a_sample_of_depth_1(seed):
    """Half a minute of candidates, rare ops first; SOJOURN_TEST_SEED repeats it."""
    options = Options(seconds=SECONDS, seed=seed, most=500, stop_at=5)
    if OPT:
        options.tools.opt = pathlib.Path(OPT)
    report = rule_driver.Driver(options).run()
    print(summary(report))
    assert not report.found, counterexamples(report)
    assert report.instances >= 300, summary(report)
    met = {op for op, _ in report.coverage}
    assert len(met) >= 0.8 * len(core_ops()), sorted(set(core_ops()) - met)


def test_a_wrong_claim_is_shown(monkeypatch):
    """Reversing rows mixes them; a rule that took it for public is found, with values and a program that shows it."""

    def claim(tools, lines):
        wrong = lambda fact: dataclasses.replace(fact, kind="public") if fact.kind == "mixed" else fact
        return [[wrong(fact) for fact in facts] for facts in facts_of(tools, lines)]

    monkeypatch.setattr(rule_driver, "facts_of", claim)
    options = Options(seconds=SECONDS, seed=1, most=200, ops=frozenset(["reverse"]))
    report = rule_driver.Driver(options).run()
    assert report.failed
    (count, depth, instance, _), *_ = report.found.values()
    text = counterexamples(report)
    assert count >= 1 and depth == 1 and "rule of 'reverse': public does not hold" in text and " and [" in text, text
    done = options.tools.run([options.tools.opt, "-", "--sojourn-rows"], program_of(instance))
    assert done.returncode == 0 and "reverses the order of rows" in done.stderr, done.stderr


def test_remarks_are_read_whole():
    """All that a remark says of a value."""
    fact = parse(
        "per row: draw 3, 2 slots, stride 4, from slot 1 by 2, of 6 from a run-time position, rows in [0.5, 4], in [0, 4] or NaN"
    )
    assert (fact.draw, fact.slots, fact.stride, fact.first, fact.step, fact.among) == (3, 2, 4, 1, 2, 6)
    assert fact.present == Interval(0.5, 4, False) and fact.range == Interval(0, 4, True)
    assert parse("public, in [-1, 5], no row twice").distinct == "row"
    total = parse("sum over rows: cuts 0, 12, one row moves it by 1.5, in [-3, inf]")
    assert total.kind == "sum" and total.cuts == {0, 12} and total.range == Interval(-3, math.inf, False)
    assert total.l1 == total.l2 == total.largest == 1.5
    total = parse("sum over rows: cuts 0, one row moves it by inf (sum inf, largest 1e+308), secret of draws 0, 3")
    assert (total.l1, total.l2, total.largest) == (math.inf, math.inf, 1e308) and total.secrets == {0, 3}
    drawn = parse("per row: draw 2, 3 slots, stride 1, no row twice, secret of draws 2, not paid by draws 2")
    assert drawn.distinct == "row" and drawn.secrets == drawn.unpaid == {2} and drawn.nonzeros is None
    assert parse("per row: draw 0, 3 slots, stride 2, at most 1 not zero, in [0, 1]").nonzeros == 1
    assert predicates.in_range(runs([0.0]), parse("public, in [0, -nan]").range)[0]
    assert parse("mixed: chooses rows by values of rows, in [0, 1]").range == Interval(0, 1, False)


def runs(*arrays):
    return np.array(arrays)


@np.errstate(all="ignore")
def test_sums_in_another_order():
    """Four terms that fit alone, and not together: positives first, then negatives."""
    x = np.float32([[3e38, -3e38, 3e38, -3e38]])
    total = terms_apart(lambda y: np.cumsum(y, axis=1, dtype=np.float32), [x], (0,))
    assert total.dtype == np.float32 and np.isnan(total[0, -1]) and total[0, 1] == 0
    ones, nan = np.ones_like(x), np.float32([[3e38, -3e38, np.nan, 0]])
    dot = lambda a, b: np.einsum("nk,nk->n", a, b)
    assert np.isnan(products_apart(dot, [x, ones]))[0] and np.isnan(products_apart(dot, [nan, ones]))[0]
    halves = np.float16([[1, -0.5, 0.25, 2]])
    assert terms_apart(lambda y: y.sum(1), [halves], (0,)).dtype == np.float16


@np.errstate(all="ignore")
def test_batches_are_runs():
    """Ops that another op computes for a batch: each run of it against one alone."""
    options = Options(seconds=SECONDS, seed=2, most=40, ops=frozenset(["take", "put", "pool_sum", "pool_max"]))
    driver = rule_driver.Driver(options)
    valid, values = driver._prepare(driver._ordered(driver.first_level())[:60], {})
    compared = 0
    for each in valid:
        check = Check(each, values, driver.domains, 40, 40, driver.rng, 0)
        run = check.runner.run(check.given, check.count)
        op = check.runner.ops[-1]
        for k in range(check.count):
            for result, alone in zip(range(op.first_result, 10**9), one_run(op, [run[n] for n in op.operands], k)):
                assert not predicates.differ(run[result][k][None], alone[None]).any(), each.texts
                compared += 1
    assert compared > 500


def test_predicates_tell_right_from_wrong():
    """One pair of runs that keeps each fact, and one that breaks it."""
    nan, zero = runs([np.nan, 1.0]), runs([-0.0, 1.0])
    assert not predicates.public(nan, nan)[0] and predicates.public(zero, np.abs(zero))[0]
    slots = np.array([0, 1])
    assert not predicates.per_row(runs([1, 2]), runs([1, 3]), slots, 1)[0]
    assert predicates.per_row(runs([1, 2]), runs([1, 3]), slots, 0)[0]
    assert predicates.per_row(runs([1, 2]), runs([1, 3]), slots, None)[0]
    assert predicates.in_range(nan, Interval(0, 1, False))[0] and not predicates.in_range(nan, Interval(0, 1, True))[0]
    assert predicates.in_range(runs([0.0, 2.0]), Interval(0, 1, True))[0]
    assert not predicates.in_present_range(runs([0.0, 2.0]), Interval(0, 1, True), runs([True, False]))[0]
    assert not predicates.no_row_twice(runs([-1, -1, 2]))[0] and predicates.no_row_twice(runs([2, -1, 2]))[0]
    assert not predicates.no_number_twice(runs([-1, 0, 2]))[0] and predicates.no_number_twice(runs([-1, -1, 2]))[0]
    assert predicates.row_once(runs([0, 0]), 0)[0] and not predicates.row_once(runs([0, 0]), 1)[0]
    assert predicates.too_many_nonzeros(runs([1.0, 2.0]), np.array([0, 0]), 1, runs([True, True]))[0]
    a, b = runs([1.0, 2.0]), runs([0.5, 0.5])
    assert not predicates.linear(0 * a, a, b, a + b)[0]
    assert predicates.linear(0 * a, a, b, a + b + 1)[0] and predicates.linear(0 * a + 1, a, b, a + b)[0]
    fact = Fact("sum", l1=4, l2=2.5, largest=2)
    assert not predicates.influence(runs([1.0, 2.0]), fact)[0] and predicates.influence(runs([2.0, 2.0]), fact)[0]
    assert predicates.function_of_cuts(a, b)[0] and predicates.secret(a, b)[0]
    assert predicates.payable(a, b, has_table=False)[0] and not predicates.payable(a, b, has_table=True)[0]


def test_all_arrays_are_all(rng):
    """Of three elements and six values, those of which no row stands twice are counted by hand."""
    found = all_arrays(
        "i64", (3,), Interval(-(2.0**63), 2.0**63, False), "row", False, np.random.default_rng(rng.getrandbits(32))
    )
    # Four of six values are rows: all different (24), one negative (3 * 2 * 12), two (3 * 4 * 4), three (8).
    assert len(found) == 24 + 72 + 48 + 8 == len(np.unique(found, axis=0))
