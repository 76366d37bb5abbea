# SPDX-License-Identifier: Apache-2.0
"""Paired execution of rewritten programs: with equal coins, a row that goes away moves what is noised by at most what
its remark says, and nothing else changes what leaves.
"""

import random

import numpy as np
import pytest
from core_form import facts_by_value, rows_of
from corpus import ACCEPTED, COLUMNS
from paired import draw_entry, run, same_bits, with_rows
from private_step import PrivateStep, make_private, total_norm
from programs import record
from random_ops import random_program
from random_programs import OPTIONS, ROWS

from sojourn_numpy.program import Program, Result


def gone(step: PrivateStep, row: int):
    """A change of a run: the row stands in no slot."""
    index = {op.operands[1] for op in step.program.ops if op.name == "read_rows"}

    def change(op, operands, results):
        if op.first_result in index and op.name == "sample_rows":
            return (np.where(results[0] == row, -1, results[0]),)
        return None

    return change


def moves(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """By how much two runs differ; what public numbers make infinite or NaN has to be that in both."""
    finite = np.isfinite(one) & np.isfinite(two)
    with np.errstate(invalid="ignore"):
        return np.where(finite, one - two, np.where(same_bits(one, two).reshape(one.shape), 0.0, np.inf))


def compare(step: PrivateStep, args_one: list, args_two: list, change=None, rows: int = 1) -> int:
    """`args_two` and `change` are a run on a neighbour, at a distance of so many rows; how many releases were compared."""
    one = step.run(args_one)
    two = step.run(args_two, change)
    units = step.units(one), step.units(two)
    for site in step.sites:
        differences = [moves(units[0][coin], units[1][coin]) for coin in site.coins if coin in step.rounded]
        if not differences:
            continue
        difference = np.concatenate([d.reshape(-1) for d in differences])
        moved = np.abs(difference).sum() if site.price == "epsilon" else total_norm([difference])
        assert moved <= rows * site.sensitivity + 0.01, (
            f"{site.what} moves by {moved} units, proved are {site.sensitivity}"
        )
    # Once these are noised, nothing that leaves tells the neighbours apart.
    made = {rounded: units[0][coin] for coin, rounded in step.rounded.items()}

    def released(op, operands, results):
        if op.first_result in made:
            return (made[op.first_result],)
        return change(op, operands, results) if change else None

    two = step.run(args_two, released)
    for result in step.program.results:
        if result.kind != "keep":
            assert same_bits(one[result.value], two[result.value]).all(), f"{result} is not released"
    return len(step.sites)


@pytest.mark.parametrize("name", ACCEPTED)
def test_training_steps(name, rng):
    """Every accepted step of the corpus, in its own element type."""
    generator = np.random.default_rng(rng.getrandbits(64))
    r = record(name)
    step = PrivateStep(r.program, r.text, f"{r.bounds} clip={rng.choice([0.1, 1, 30])} {rng.choice(['', 'per-layer'])}")
    coins = {coin: generator.integers(-(2**21), 2**21, step.program.args[coin].type.shape) for coin in step.coins}
    args = step.args(r.args, coins)
    for slot in rng.sample(range(len(r.rows)), 3):
        row = int(r.rows[slot])

        def entry(column, values):
            values[row] = draw_entry(generator, COLUMNS[column], values[row : row + 1])[0]

        other = step.args(with_rows(r.args, entry), coins)
        compare(step, args, args, gone(step, row))
        compare(step, args, other, rows=2)  # a row in the place of another: one goes, one comes


def publish_some(writer, rng) -> tuple[Program, str] | None:
    """The random program with some of its sums, and of what is derived from sums, published."""
    program = writer.program()
    text = writer.text(program.results)
    (rows,) = rows_of([text], OPTIONS)
    facts = facts_by_value(program, text, rows)
    sums = [k for k, fact in facts.items() if "sums" in fact.kind or fact.kind.startswith("sum")]
    real = [k for k in sums if program.types[k].kind in "ZF"]
    if not real:
        return None
    program.results = [Result("publish", k, 0) for k in rng.sample(real, min(len(real), rng.choice([1, 1, 2, 3])))]
    return program, writer.text(program.results)


def check_random_steps(rng: random.Random, count: int) -> tuple[int, int]:
    """How many programs were rewritten, and how many releases compared."""
    accepted = releases = 0
    while accepted < count:
        writer = random_program(rng.getrandbits(40))
        made = publish_some(writer, rng)
        if made is None or writer.other == writer.ops[0].first_result:  # a list of rows in which none can be missing
            continue
        program, text = made
        options = OPTIONS.split(" open")[0] + f" metric-bound={rng.choice([0.5, 10, 1000])}"
        if make_private(text, options).code != 0:  # rows of the open table are private here
            continue
        step = PrivateStep(program, text, options)
        index = np.asarray(writer.values[writer.main][0])
        generator = np.random.default_rng(rng.getrandbits(64))
        coins = {coin: generator.integers(-(2**21), 2**21, step.program.args[coin].type.shape) for coin in step.coins}
        args = step.args(list(writer.base), coins, draw=index)
        for row in {int(k) for k in index if 0 <= k < ROWS}:
            other = step.args(list(writer.base), coins, draw=np.where(index == row, -1, index)) if step.draws else args
            releases += compare(step, args, other, gone(step, row))
        accepted += 1
    return accepted, releases


def test_random_statistics(rng):
    """Random programs that publish sums over rows and what is computed from such sums."""
    accepted, releases = check_random_steps(rng, 40)
    print(f"{accepted} programs, {releases} releases compared")
    assert releases >= 100


@pytest.mark.slow
def test_many_random_statistics(rng):
    print(check_random_steps(rng, 250))


def test_equal_ops():
    """The neighbour's run is the same ops in the same order: no value decides what is run."""
    r = record("mlp")
    step = PrivateStep(r.program, r.text, r.bounds)
    traces = []
    for change in (None, gone(step, int(r.rows[0]))):
        trace = []

        def watch(op, operands, results):
            trace.append((op.name, [np.shape(x) for x in operands if not hasattr(x, "by_name")]))
            return change(op, operands, results) if change else None

        run(step.program, step.args(r.args), watch)
        traces.append(trace)
    assert traces[0] == traces[1]
