# SPDX-License-Identifier: Apache-2.0
"""sojourn-rows against runs: what it promises of every value of a program holds on neighbouring tables."""

import collections

import numpy as np
import pytest
import tqdm
from core_form import facts_by_value, rows_of
from corpus import CASES, COLUMNS
from corpus import ROWS as CORPUS_ROWS
from paired import Promises, draw_entry, run, with_rows
from private_step import encode
from programs import record
from random_ops import random_program
from random_programs import OPTIONS, OTHER, PRIVATE, ROWS, SLOTS

from sojourn_numpy import decode
from sojourn_numpy.datasets import make_dataset

BOUNDS = "bounds=" + ",".join(f"{name}={low:g}:{high:g}" for name, (low, high) in COLUMNS.items())
judged = collections.Counter()


@pytest.fixture(scope="module")
def corpus():
    """Every program of the corpus with its facts, with and without bounds of the columns and numbers of rows."""
    recorded = {name: record(name) for name in CASES}
    texts = [r.text for r in recorded.values()]
    found = {}
    for bounds in (f"{BOUNDS} rows={CORPUS_ROWS}", ""):
        for (name, r), rows in zip(recorded.items(), rows_of(texts, bounds)):
            found[name, bool(bounds)] = r, facts_by_value(r.program, r.text, rows)
    return found


def neighbour(r, rng, row: int):
    """The arguments with another row of that number."""

    def entry(name, values):
        values[row] = draw_entry(rng, COLUMNS[name], values[row : row + 1])[0]

    return with_rows(r.args, entry)


def tables_of(program) -> set[int]:
    return {number for number, _ in program.args_of("table")}


@pytest.mark.parametrize("bounded", [True, False], ids=["bounds", "no-bounds"])
@pytest.mark.parametrize("name", CASES)
def test_neighbours(name, bounded, corpus, rng):
    """Of recorded training steps: one row changed, everything else equal."""
    rng = np.random.default_rng(rng.getrandbits(64))
    r, facts = corpus[name, bounded]
    promises = Promises(r.program, facts, tables_of(r.program), name)
    one = run(r.program, r.args)
    for slot in sorted({0, len(r.rows) // 2, len(r.rows) - 1}):
        row = int(r.rows[slot])
        other = neighbour(r, rng, row)
        two = run(r.program, other)
        promises.check_pair(one, two, promises.slots_with(one, row))
        promises.check_ranges(two)
        promises.check_derived(one, lambda change: run(r.program, other, change))
        if promises.cuts:
            promises.check_derived(
                one, lambda change: run(r.program, other, change), int(rng.integers(len(promises.cuts)))
            )
    promises.check_sums(one)
    judged.update(promises.judged)


@pytest.mark.parametrize("name", CASES)
def test_ranges(name, corpus, rng):
    """Ranges and influences hold on tables within the bounds, corners and absent rows among them."""
    rng = np.random.default_rng(rng.getrandbits(64))
    r, facts = corpus[name, True]
    promises = Promises(r.program, facts, tables_of(r.program), name)

    def table(make):
        def entry(name, values):
            values[...] = make(COLUMNS[name], values)

        return with_rows(r.args, entry)

    def absent(op, operands, results):
        if op.name == "sample_rows":
            return (np.where(rng.random(results[0].shape) < 0.5, -1, results[0]),)
        return None

    for make in (
        lambda bounds, values: np.full_like(values, bounds[0]),
        lambda bounds, values: np.full_like(values, bounds[1]),
        lambda bounds, values: draw_entry(rng, bounds, values),
    ):
        for change in (None, absent):
            values = run(r.program, table(make), change)
            promises.check_ranges(values)
            promises.check_sums(values)
    judged.update(promises.judged)


def check_random(writer, facts) -> Promises:
    """One random program against its runs on the neighbours that it was made with."""
    program = writer.program()
    promises = Promises(program, facts, {PRIVATE, OTHER}, f"random_program({writer.seed}, {writer.wanted})")
    at = lambda run: {k: value[run if len(value) > 1 else 0] for k, value in enumerate(writer.values)}
    one = at(0)
    for slot in range(SLOTS):
        two = at(slot + 1)
        index = np.asarray(one[writer.main])[slot]
        promises.check_pair(one, two, promises.slots_with(one, int(index), PRIVATE))
        promises.check_ranges(two)
        if promises.cuts:
            args = [two[k] for k in range(len(program.args))]
            free = None if slot % 2 else int(writer.rng.integers(len(promises.cuts)))
            promises.check_derived(one, lambda change: run(program, args, change), free)
    promises.check_ranges(one)
    promises.check_sums(one)
    return promises


def check_random_programs(seed: int, count: int, options: str = OPTIONS, ops: int = 60) -> collections.Counter:
    """Random programs of about so many ops, in one process of sojourn-opt; what was judged."""
    writers = [random_program(seed + k, ops) for k in range(count)]
    found = rows_of([writer.text(writer.program().results) for writer in writers], options)
    total = collections.Counter()
    for writer, rows in zip(writers, found):
        text = writer.text(writer.program().results)
        facts = facts_by_value(writer.program(), text, rows)
        total.update(check_random(writer, facts).judged)
        total["values"] += len(facts)
        total.update(f"{fact.kind} values" for fact in facts.values())
        for op in writer.ops:
            total.update([f"op {op.name}"] if facts[op.first_result].kind in ("per row", "sum over rows") else [])
    return total


def test_random_programs(rng):
    """Every op that keeps rows apart or sums them; at least 10,000 values."""
    total = check_random_programs(rng.getrandbits(40), 170)
    total += check_random_programs(rng.getrandbits(40), 15, f"open-tables={OPTIONS.rsplit('=', 1)[1]}")
    total += check_random_programs(rng.getrandbits(40), 15, f"rows={ROWS} open-tables={OPTIONS.rsplit('=', 1)[1]}")
    print(dict(total))
    assert total["values"] >= 10_000
    for kind, least in (("per row", 2000), ("sum over rows", 300), ("derived from sums over rows", 100)):
        assert total[f"{kind} values"] >= least, total
    assert total["range of rows"] >= 100, total


@pytest.mark.slow
def test_many_random_programs(rng):
    """10,000: most of them small, where ops meet in many ways early, the others as long as those above."""
    total, programs = collections.Counter(), 0
    parts = [(100, 14)] * 94 + [(100, 60)] * 6
    for count, ops in tqdm.tqdm(parts, desc="random programs", unit_scale=100, unit="program"):
        total += check_random_programs(rng.getrandbits(40), count, ops=ops)
        programs += count
    print(dict(total))
    assert programs == 10_000 and total["values"] >= 150_000
    judging = {name for name in total if name.startswith("op ")}
    assert len(judging) >= 60, sorted(judging)


HOSTILE = {
    # The square of an integer wraps to a negative number.
    "square wraps": """
    %q = sojourn.constant 3037000500 : i64
    %z = sojourn.constant 0 : i64
    %r = sojourn.mul %k, %q : tensor<4xi64>, tensor<i64>
    %s = sojourn.mul %r, %r : tensor<4xi64>, tensor<4xi64>
    %u = sojourn.compare "lt" %s, %z : tensor<4xi64>, tensor<i64>""",
    # A range that is infinite on one side is rounded on the other: 1e-20 is 0 in f16.
    "underflow below infinity": """
    %zero = sojourn.constant 0.0 : f16
    %one = sojourn.constant 1.0 : f16
    %tiny = sojourn.constant 1.0e-30 : f64
    %big = sojourn.constant 1.0e300 : f64
    %ten = sojourn.constant 1.0e10 : f64
    %large = sojourn.mul %a, %big : tensor<4xf64>, tensor<f64>
    %moved = sojourn.add %large, %tiny : tensor<4xf64>, tensor<f64>
    %d = sojourn.mul %moved, %ten : tensor<4xf64>, tensor<f64>
    %e = sojourn.convert %d : tensor<4xf64> -> tensor<4xf16>
    %f = sojourn.min %e, %one : tensor<4xf16>, tensor<f16>
    %u = sojourn.compare "gt" %f, %zero : tensor<4xf16>, tensor<f16>""",
    # 2^53 + 1 is not 2^53, though a double cannot tell.
    "constant beyond double": """
    %m = sojourn.constant 9007199254740993 : i64
    %m0 = sojourn.constant 9007199254740992 : i64
    %km = sojourn.mul %k, %m : tensor<4xi64>, tensor<i64>
    %o = sojourn.min %km, %m : tensor<4xi64>, tensor<i64>
    %u = sojourn.compare "le" %o, %m0 : tensor<4xi64>, tensor<i64>""",
    # A ramp of one number, repeated, is no ramp: a row is in all of the classes.
    "repeated ramp": """
    %r = sojourn.iota dim = 0 : tensor<1xi64>
    %w = sojourn.broadcast %r, dims = [1] : tensor<1xi64> -> tensor<4x50xi64>
    %x = sojourn.broadcast %k, dims = [0] : tensor<4xi64> -> tensor<4x50xi64>
    %e = sojourn.compare "eq" %w, %x : tensor<4x50xi64>, tensor<4x50xi64>
    %f = sojourn.convert %e : tensor<4x50xi1> -> tensor<4x50xf64>
    %u = sojourn.reduce_sum %f, dims = [0] : tensor<4x50xf64>""",
    # Half of an integer is rounded: not linear, and half a row can be a whole one.
    "integer division": """
    %two = sojourn.constant 2 : i64
    %s = sojourn.reduce_sum %k, dims = [0] : tensor<4xi64>
    %u = sojourn.div %s, %two : tensor<i64>, tensor<i64>""",
    # 1 + 0.7 units in the last place of f32 rounds up to 1 + 1 unit, beyond 1 + 0.8.
    "rounded up": """
    %c = sojourn.constant 8.3446502e-08 : f32
    %e = sojourn.constant 1.0000000953674316 : f64
    %x = sojourn.convert %a : tensor<4xf64> -> tensor<4xf32>
    %y = sojourn.add %x, %c : tensor<4xf32>, tensor<f32>
    %w = sojourn.convert %y : tensor<4xf32> -> tensor<4xf64>
    %u = sojourn.compare "gt" %w, %e : tensor<4xf64>, tensor<f64>""",
    # What meets rows hands on why it does, and not where it lies: a zero has the sign of a row, and its inverse is not 0.
    "sign of a mixed zero": """
    %zero = sojourn.constant 0.0 : f64
    %one = sojourn.constant 1.0 : f64
    %z = sojourn.mul %a, %zero : tensor<4xf64>, tensor<f64>
    %m = sojourn.reverse %z, dims = [0] : tensor<4xf64>
    %w = sojourn.div %one, %m : tensor<f64>, tensor<4xf64>
    %u = sojourn.compare "lt" %w, %zero : tensor<4xf64>, tensor<f64>""",
    "bits of a mixed zero": """
    %zero = sojourn.constant 0.0 : f64
    %z = sojourn.mul %a, %zero : tensor<4xf64>, tensor<f64>
    %m = sojourn.reverse %z, dims = [0] : tensor<4xf64>
    %n0 = sojourn.neg %m : tensor<4xf64>
    %u = sojourn.bitcast %n0 : tensor<4xf64> -> tensor<4xi64>""",
    # An absent row reads zeros, which the bounds of the column do not have.
    "absent rows": """
    %c = sojourn.constant 0.5 : f64
    %u = sojourn.compare "ge" %b, %c : tensor<4xf64>, tensor<f64>""",
}


@pytest.mark.parametrize("said", ["9", "?"])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile(name, said, rng):
    """Programs made to find a hole in ranges: the same promises, on tables at the corners. The last slot is absent."""
    table = f'!sojourn.table<{said}, "a" : f64, "b" : f64, "k" : i64>'
    body = "\n".join(line for line in HOSTILE[name].split("\n") if line)
    reads = "\n".join(
        f'    %{c} = sojourn.read_rows %t, %i, columns = ["{c}"] : {table}, tensor<4xi64> -> tensor<4x{"i64" if c == "k" else "f64"}>'
        for c in "abk"
    )
    text = f"""module attributes {{sojourn.phase = "core", sojourn.promotion = "torch"}} {{
  func.func @step(%n: tensor<i64> {{sojourn.kind = "upload"}}, %t: {table} {{sojourn.kind = "table"}}) {{
    %ramp = sojourn.iota dim = 0 : tensor<4xi64>
    %six = sojourn.constant 6 : i64
    %late = sojourn.add %ramp, %six : tensor<4xi64>, tensor<i64>
    %i = sojourn.sample_rows %late, %n, %n of %t : tensor<4xi64>, tensor<i64>, tensor<i64>, {table} -> tensor<4xi64>
{reads}
{body}
    return
  }}
}}
"""
    program = decode(encode(text))
    (rows,) = rows_of([text], "bounds=a=0:1,b=0.5:1,k=0:1 rows=9")
    facts = facts_by_value(program, text, rows)
    promises = Promises(program, facts, {1}, name)
    for number in range(20):
        tables = []
        for _ in range(2):
            columns = {"a": [0.0, 1.0], "b": [0.5, 1.0], "k": [0, 1]}
            tables.append({key: np.array([rng.choice(ends) for _ in range(9)]) for key, ends in columns.items()})
        args = [np.asarray(number), make_dataset("hostile", tables[0])]
        one = run(program, args)
        row = int(one[next(op.first_result for op in program.ops if op.name == "sample_rows")][rng.randrange(3)])
        other = {key: np.where(np.arange(9) == row, tables[1][key], tables[0][key]) for key in tables[0]}
        two = run(program, [args[0], make_dataset("hostile", other)])
        promises.check_pair(one, two, promises.slots_with(one, row))
        promises.check_ranges(one)
        promises.check_sums(one)


def test_enough_was_judged():
    """Values judged above, by kind; the corpus is no small one."""
    print(dict(judged))
    for kind in ("public", "per row", "sum over rows", "derived from sums over rows", "range", "influence"):
        assert judged[kind] >= 500, judged
