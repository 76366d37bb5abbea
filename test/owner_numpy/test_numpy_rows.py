# SPDX-License-Identifier: Apache-2.0
"""Orders of rows and reads of rows, against the oracle that is written from the op's text alone."""

import importlib.util
import pathlib
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
from numpy_builder import Client, ProgramBuilder, published, t
from numpy_oracle import same

from sojourn_numpy import NumpyOwner, OwnerError, decode, errors, philox, run
from sojourn_numpy.types import F64, TableType

ROOT = pathlib.Path(__file__).resolve().parents[2]
ORACLE = ROOT / "test/python/oracle/row_order.py"
_spec = importlib.util.spec_from_file_location("row_order", ORACLE)
row_order = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(row_order)


def signed(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


def sampling(shape, table: TableType, part=(), split: bool = False, **attrs) -> bytes:
    """A program of one draw, whose positions, seed and epoch are uploads."""
    p = ProgramBuilder()
    ids = [p.arg("upload", t("i64", *shape)), *(p.arg("upload", t("i64")) for _ in range(2)), p.arg("table", table)]
    fractions, sides = zip(*part) if part else ((), ())
    rows = p.op("sample_rows", ids, t("i64", *shape), fractions=fractions, sides=sides, split=split, **attrs)
    p.result("publish", rows)
    return p.encode()


ANY = TableType(-1, (("x", F64),))


def sample(positions, seed, epoch, rows, part=(), split=False, **attrs):
    """A draw from a table of so many rows, of which a kernel knows nothing else."""
    positions = np.asarray(positions, np.int64)
    numbers = [np.array(signed(number), np.int64) for number in (seed, epoch)]
    program = decode(sampling(positions.shape, ANY, part, split, **attrs))
    return run(program, [positions, *numbers, SimpleNamespace(rows=rows)])[0]


@pytest.mark.parametrize("rows, seed, epoch, expected", row_order.VECTORS)
def test_literal_vectors(rows, seed, epoch, expected):
    assert sample(np.arange(len(expected)), seed, epoch, rows).tolist() == expected


def fresh(rng) -> tuple[int, int]:
    seed, epoch = int(rng.integers(2**64, dtype=np.uint64)), int(rng.integers(2**64, dtype=np.uint64))
    print(f"seed {seed} epoch {epoch}")
    return seed, epoch


def test_against_the_oracle(rng):
    """Positions of any shape, inside and outside, for row counts of every size up to 2^40."""
    for bits in range(41):
        rows, (seed, epoch) = min(int(rng.integers(1 << bits, 2 << bits)), 1 << 40), fresh(rng)
        positions = rng.integers(-3, rows + 3, (3, int(rng.integers(5))))
        expected = [row_order.position_to_row(int(p), rows, seed, epoch) for p in positions.reshape(-1)]
        assert sample(positions, seed, epoch, rows).reshape(-1).tolist() == expected


@pytest.mark.parametrize("rows", [1, 2, 3, 255, 256, 257, 1000, (1 << 20) + 7])
def test_an_epoch_has_every_row_once(rng, rows):
    whole = sample(np.arange(rows), *fresh(rng), rows)
    assert np.array_equal(np.sort(whole), np.arange(rows))


def test_outside_stays_absent(rng):
    seed, epoch = fresh(rng)
    edges = [-1, -(2**63), 2**63 - 1]
    for rows in (0, 1, 1000, 1 << 40):
        assert sample([*edges, rows], seed, epoch, rows).tolist() == [-1] * 4
    assert sample(np.zeros((2, 0), np.int64), seed, epoch, 9).shape == (2, 0)
    assert sample(0, seed, epoch, 1).shape == ()


def test_absence_survives_composition(rng):
    """A batch of a split: an order of the part, then the split's order of the parent."""
    (seed, epoch), (split_seed, _) = fresh(rng), fresh(rng)
    for side, start, count in ((0, 0, 37), (1, 37, 63)):
        inner = sample(np.arange(count - 7, count + 13), seed, epoch, 100, [(0.37, side)])
        outer = sample(inner, split_seed, 0xFFFFFFFF, 100, [(0.37, side)], split=True)
        assert (outer[:7] >= 0).all() and (outer[7:] == -1).all()
        rows = [row_order.position_to_row(start + int(p), 100, split_seed, 0xFFFFFFFF) for p in inner[:7]]
        assert outer[:7].tolist() == rows


def random_part(rng, most: int = 4) -> list[tuple[float, int]]:
    """Splits of splits; fractions of few digits, whose products are halves now and then, and any others."""
    part = []
    for _ in range(int(rng.integers(most + 1))):
        fraction = float(rng.choice([0.1, 0.25, 0.3, 0.5, 0.75, 0.8, rng.uniform(1e-3, 1 - 1e-3)]))
        part.append((fraction, int(rng.integers(2))))
    return part


def test_parts_against_the_oracle(rng):
    """Draws of parts and of splits, for tables of every size up to 2^40; those of empty parts are all absent."""
    counts = []
    for number in range(200):
        rows, (seed, epoch) = int(rng.integers(1 << number % 41)), fresh(rng)
        part, split = random_part(rng), bool(rng.integers(2))
        split = split and len(part) > 0
        print(f"rows {rows} part {part} split {split}")
        count, _, _ = row_order.part_rows(rows, part)
        counts.append(count)
        positions = np.concatenate([rng.integers(-3, count + 3, 8), [-1, 0, count - 1, count, -(2**63), 2**63 - 1]])
        expected = [row_order.row_of_part(int(p), rows, seed, epoch, part, split) for p in positions]
        assert sample(positions, seed, epoch, rows, part, split).tolist() == expected
        # Of open tables an expected number of rows changes nothing.
        assert split or sample(positions, seed, epoch, rows, part, expected=1).tolist() == expected
    assert counts.count(0) >= 3 and max(counts) > 1 << 30, counts


def test_sides_hold_every_row_once(rng):
    """Splits of a split: what three leaves draw, found in the table, is the table."""
    for _ in range(20):
        rows, (seed, epoch), (above, below) = int(rng.integers(1, 400)), fresh(rng), fresh(rng)
        f, g = (float(x) for x in rng.uniform(0.01, 0.99, 2))
        print(f"rows {rows} fractions {f} {g}")
        found = []
        for part in ([(f, 1)], [(f, 0), (g, 0)], [(f, 0), (g, 1)]):
            indices = sample(np.arange(row_order.part_rows(rows, part)[0]), seed, epoch, rows, part)
            for seed_of, depth in ((below, 2), (above, 1)):
                if depth <= len(part):
                    indices = sample(indices, seed_of, 0xFFFFFFFF, rows, part[:depth], split=True)
            found += indices.tolist()
        assert sorted(found) == list(range(rows))


def test_the_deepest_part(rng):
    seed, epoch = fresh(rng)
    part = [(0.875, int(rng.integers(2))) if k % 8 == 0 else (1 - 2.0**-40, 0) for k in range(64)]
    rows = 1 << 40
    count, _, _ = row_order.part_rows(rows, part)
    positions = [0, 1, count // 2, count - 1, count]
    for split in (False, True):
        expected = [row_order.row_of_part(p, rows, seed, epoch, part, split) for p in positions]
        assert sample(positions, seed, epoch, rows, part, split).tolist() == expected


# Tables of which a program does not know how many rows they have.


def drawing(part=(), rows: int = -1) -> bytes:
    """Publishes rows that are drawn from a part, found by its split, and what they hold."""
    p = ProgramBuilder()
    positions, seed = p.arg("upload", t("i64", 12)), p.arg("seed", t("i64"))
    table = p.arg("table", TableType(rows, (("x", F64),)))
    fractions, sides = zip(*part) if part else ((), ())
    named = {"fractions": fractions, "sides": sides}
    indices = p.op("sample_rows", [positions, seed, seed, table], t("i64", 12), **named, split=False)
    if part:
        indices = p.op("sample_rows", [indices, seed, seed, table], t("i64", 12), **named, split=True)
    p.result("publish", indices)
    p.result("publish", p.op("read_rows", [table, indices], t("f64", 12), columns=["x"]))
    return p.encode()


@pytest.mark.parametrize("part", [(), ((0.3, 0),), ((0.3, 1),)], ids=["whole", "first", "other"])
def test_one_program_serves_tables_of_any_length(rng, part):
    client, program = Client(NumpyOwner()), drawing(part)
    assert str(decode(program).args[2].type) == '!sojourn.table<?, "x" : f64>'
    for rows in (5, 40, 300):
        x, seed = rng.normal(size=rows), fresh(rng)[0] >> 1
        client.owner.register(f"d{rows}", {"x": x})
        count, _, _ = row_order.part_rows(rows, part)
        positions = np.arange(12)
        reply = client.step(program, uploads=[positions], seeds=[seed], tables=[f"d{rows}"])
        indices = [row_order.row_of_part(int(p), rows, seed, seed, part) for p in positions]
        if part:
            indices = [row_order.row_of_part(p, rows, seed, seed, part, split=True) for p in indices]
        assert indices.count(-1) == max(0, 12 - count)
        read, values = published(reply)
        assert read.tolist() == indices
        same(values, np.array([x[i] if i >= 0 else 0.0 for i in indices]))
    assert [plan.runs for plan in client.send("ListPrograms").programs] == [3], "one plan for all tables"


def refused(reply, text: str) -> None:
    assert reply.kind == "Error" and (reply.code, reply.message) == (errors.DATASET, text), reply.message


def test_another_number_of_rows_is_refused():
    """Of a program that insists on one."""
    client = Client(NumpyOwner())
    client.owner.register("patients", {"x": np.arange(3.0)})
    bind = lambda rows: client.step(drawing((), rows), uploads=[np.arange(12)], seeds=[1], tables=["patients"])
    assert bind(3).kind == bind(-1).kind == "Done"
    for rows in (0, 2, 4, 1 << 32):
        refused(bind(rows), f"dataset 'patients' has 3 rows, the program expects {rows}")


@pytest.mark.parametrize(
    "rows, part, text",
    [
        (3, [(0.1, 0)], "the first part of a split at 0.1"),
        (3, [(0.9, 1)], "the other part of a split at 0.9"),
        (1, [(0.5, 1)], "the other part of a split at 0.5"),
        (3, [(0.8, 0), (0.2, 0)], "the first part of a split at 0.2 of the first part of a split at 0.8"),
        (3, [(0.1, 0), (0.5, 1)], "the other part of a split at 0.5 of the first part of a split at 0.1"),
    ],
)
def test_an_empty_part_is_refused_when_it_is_bound(rows, part, text):
    """The op needs no such result, and no other table than its own is asked."""
    client = Client(NumpyOwner())
    client.owner.register("patients", {"x": np.arange(float(rows))})
    client.owner.register("many", {"x": np.arange(1000.0)})
    whole = (
        f"dataset 'patients' has {rows} rows, and {text} of them is empty: nothing can be drawn from it; take another "
        "fraction"
    )
    for split in (False, True):
        program = sampling((4,), ANY, part, split)
        uploads = [np.arange(4), np.array(1), np.array(2)]
        refused(client.step(program, uploads=uploads, tables=["patients"]), whole)
        assert client.step(program, uploads=uploads, tables=["many"]).kind == "Done"
    p = ProgramBuilder()
    positions, seed = p.arg("upload", t("i64", 4)), p.arg("seed", t("i64"))
    tables = [p.arg("table", ANY) for _ in range(2)]
    fractions, sides = zip(*part)
    for table, named in zip(tables, ({"fractions": (), "sides": ()}, {"fractions": fractions, "sides": sides})):
        drawn = p.op("sample_rows", [positions, seed, seed, table], t("i64", 4), **named, split=False)
        p.result("publish", drawn)
    bind = lambda *names: client.step(p.encode(), uploads=[np.arange(4)], seeds=[7], tables=list(names))
    assert bind("patients", "many").kind == "Done"
    refused(bind("many", "patients"), whole)


def test_parts_of_one_table_are_bounded():
    def drawing(count):
        p = ProgramBuilder()
        drawn, seed = p.arg("upload", t("i64", 2)), p.arg("seed", t("i64"))
        table = p.arg("table", ANY)
        for number in range(count):
            part = {"fractions": (0.5, (number % 257 + 1) / 1024), "sides": (0, 1), "split": False}
            drawn = p.op("sample_rows", [drawn, seed, seed, table], t("i64", 2), **part)
        p.result("publish", drawn)
        return p.encode()

    decode(drawing(256))
    with pytest.raises(OwnerError, match="rows of one table are drawn from more than 256 of its parts"):
        decode(drawing(257))


def test_parts_are_told_to_who_asks():
    client = Client(NumpyOwner())
    client.owner.register("d", {"x": np.arange(30.0)})
    part = [(0.8, 0), (0.5, 1)]
    client.step(sampling((2,), ANY, part, expected=3), uploads=[np.arange(2), np.array(0), np.array(0)], tables=["d"])
    (text,) = [plan.text for plan in client.send("ListPrograms", with_text=True).programs]
    assert '!sojourn.table<?, "x" : f64>' in text
    assert "expected = 3 : i64, fractions = [0.8, 0.5], sides = [0, 1], split = false" in text


def chi_square_limit(freedom: int) -> float:
    """What chi-square exceeds with a probability of 1e-6 (Wilson and Hilferty 1931)."""
    share = 2 / (9 * freedom)
    return freedom * (1 - share + 4.7534 * share**0.5) ** 3


def uniform(counts: np.ndarray) -> None:
    expected = counts.sum() / counts.size
    assert expected >= 5, "the test has too few draws to say anything"
    chi_square = float(((counts - expected) ** 2).sum() / expected)
    assert chi_square < chi_square_limit(counts.size - 1), f"chi-square {chi_square} of {counts.size} cells"


@pytest.mark.parametrize("rows, epochs", [(1, 20), (2, 500), (3, 500), (1000, 100), ((1 << 20) + 7, 1)])
def test_positions_and_neighbours_are_even(rng, rows, epochs):
    """Over epochs every position meets every part of the rows, and so do the steps between neighbours."""
    seed, first = fresh(rng)
    orders = np.stack([philox.epoch_rows(np.arange(rows), seed, first + e, rows) for e in range(epochs)])
    cells = min(rows, 25)
    place = np.arange(rows) * cells // rows
    if rows == 1:
        assert (orders == 0).all()
        return
    met = np.zeros((cells, cells), np.int64)
    np.add.at(met, (np.broadcast_to(place, orders.shape), place[orders]), 1)
    weight = np.bincount(place)
    if rows <= 3:  # every cell is one row at one position; a row has one position per epoch
        for position in met:
            uniform(position)
    else:  # cells differ by a row in size: compare with their share
        expected = np.outer(weight, weight) / rows * epochs
        chi_square = float(((met - expected) ** 2 / expected).sum())
        assert chi_square < chi_square_limit((cells - 1) ** 2)
    # Of a uniform order the step to the next position, modulo the rows, is any of 1 .. rows - 1.
    steps = (orders[:, 1:] - orders[:, :-1]) % rows
    assert (steps > 0).all()
    if rows > 2:
        # Steps within one epoch hang together a little when rows are few: then one per epoch counts.
        steps = (steps if rows > 3 else steps[:, :1]) - 1
        parts = min(rows - 1, 40)
        counts = np.bincount((steps * parts // (rows - 1)).reshape(-1), minlength=parts)
        share = np.bincount(np.arange(rows - 1) * parts // (rows - 1)) / (rows - 1)
        expected = counts.sum() * share
        assert float(((counts - expected) ** 2 / expected).sum()) < chi_square_limit(parts - 1)


def test_consecutive_epochs_and_seeds_differ(rng):
    seed, epoch = fresh(rng)
    rows = 1000
    one = sample(np.arange(rows), seed, epoch, rows)
    for other in (sample(np.arange(rows), seed, epoch + 1, rows), sample(np.arange(rows), seed + 1, epoch, rows)):
        assert (one == other).sum() < 15  # of two independent orders, about one position agrees


def test_nothing_is_resident(rng):
    """Memory follows the positions, not the rows."""
    seed, epoch = fresh(rng)
    tracemalloc.start()
    sample(rng.integers(1 << 40, size=1000), seed, epoch, 1 << 40)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20


# Reading rows.
