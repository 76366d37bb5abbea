# SPDX-License-Identifier: Apache-2.0
"""Orders of rows and reads of rows, against the oracle that is written from the op's text alone."""

import importlib.util
import pathlib
import tracemalloc

import numpy as np
import pytest
from numpy_builder import Client, ProgramBuilder, published, run_op, t
from numpy_oracle import same

from sojourn_numpy import NumpyOwner, OwnerError, decode, errors, philox, run
from sojourn_numpy.datasets import make_dataset
from sojourn_numpy.types import F64, I64, NAMES, U8, TableType

ORACLE = pathlib.Path(__file__).resolve().parents[1] / "python" / "oracle" / "row_order.py"
_spec = importlib.util.spec_from_file_location("row_order", ORACLE)
row_order = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(row_order)


def signed(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


def sample(positions, seed, epoch, rows):
    positions = np.asarray(positions, np.int64)
    numbers = [np.array(signed(number), np.int64) for number in (seed, epoch)]
    return run_op("sample_rows", [positions, *numbers], t("i64", *positions.shape), rows=rows)


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
    parent, part = 100, 37
    inner = sample(np.arange(30, 50), seed, epoch, part)
    outer = sample(inner, split_seed, 0xFFFFFFFF, parent)
    assert (outer[:7] >= 0).all() and (outer[7:] == -1).all()
    assert outer[:7].tolist() == [row_order.position_to_row(int(p), parent, split_seed, 0xFFFFFFFF) for p in inner[:7]]


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


def read(table: TableType, dataset, indices, columns, result):
    p = ProgramBuilder()
    i = p.arg("upload", t("i64", len(indices)))
    p.result("publish", p.op("read_rows", [p.arg("table", table), i], result, columns=columns))
    return run(decode(p.encode()), [np.asarray(indices, np.int64), dataset])[0]


TABLE = TableType(5, (("a", F64), ("scan", U8), ("b", I64)), ((), (2, 3), ()))


@pytest.fixture
def data(rng):
    return {"a": rng.normal(size=5), "scan": rng.integers(0, 256, (5, 2, 3), np.uint8), "b": rng.integers(-9, 9, 5)}


def test_reads_of_each_form(data):
    dataset, indices = make_dataset("d", data), [4, -1, 0, 5, 4]
    rows, absent = [4, 0, 0, 0, 4], np.array([False, True, False, True, False])

    def expected(values):
        values = values[rows].copy()
        values[absent] = 0
        return values

    a, b = data["a"].astype(np.float32), data["b"].astype(np.float32)
    same(read(TABLE, dataset, indices, ["a", "b"], t("f32", 5, 2)), expected(np.stack([a, b], 1)))
    same(read(TABLE, dataset, indices, ["b"], t("i64", 5)), expected(data["b"]))
    same(read(TABLE, dataset, indices, ["b"], t("i64", 5, 1)), expected(data["b"])[:, None])
    same(read(TABLE, dataset, indices, ["scan"], t("u8", 5, 2, 3)), expected(data["scan"]))
    same(read(TABLE, dataset, indices, ["scan"], t("f32", 5, 2, 3)), expected(data["scan"].astype(np.float32)))
    same(read(TABLE, dataset, [], ["scan"], t("u8", 0, 2, 3)), np.zeros((0, 2, 3), np.uint8))


@pytest.mark.parametrize(
    "columns, result, text",
    [
        (["a", "scan"], t("f32", 2, 7), "read alone"),
        (["scan", "scan"], t("f32", 2, 2, 3), "read alone"),
        (["scan"], t("f32", 2, 6), "expected tensor<2x2x3xf32>"),
        (["scan"], t("f32", 2, 1), "expected tensor<2x2x3xf32>"),
        (["a"], t("f32", 3), "expected tensor<2xf32>"),
        (["a", "b"], t("f32", 2), "expected tensor<2x2xf32>"),
        (["a"], t("c64", 2), "class B/Z/F"),
        (["c"], t("f32", 2), "declared columns"),
    ],
)
def test_refused_reads(columns, result, text):
    p = ProgramBuilder()
    i = p.arg("upload", t("i64", 2))
    p.op("read_rows", [p.arg("table", TABLE), i], result, columns=columns)
    with pytest.raises(OwnerError, match=text) as caught:
        decode(p.encode())
    assert caught.value.code == errors.MALFORMED


def test_random_tables_of_shaped_columns(rng):
    """Small tables of any types and shapes, read in any result type, over the protocol."""
    from sojourn_numpy.ops_elementwise import convert
    from sojourn_numpy.types import DTYPES

    client = Client(NumpyOwner())
    for number in range(40):
        rows = int(rng.integers(1, 6))
        element, rank = int(rng.integers(F64 + 1)), int(rng.integers(0, 4))
        element = element if NAMES[element] not in ("f16", "bf16") else U8
        entry = tuple(int(n) for n in rng.integers(1, 4, rank))
        values = (rng.normal(size=(rows, *entry)) * 50).astype(DTYPES[element])
        client.owner.register(f"t{number}", {"x": values})
        listed = client.send("ListDatasets").datasets[number]
        assert (listed.rows, tuple(listed.columns[0].dims.tolist())) == (rows, entry)
        indices, result = rng.integers(-2, rows + 2, 4), int(rng.integers(F64 + 1))
        p = ProgramBuilder()
        i = p.arg("upload", t("i64", 4))
        table = p.arg("table", TableType(rows, (("x", element),), (entry,) if entry else ()))
        p.result("publish", p.op("read_rows", [table, i], t(NAMES[result], 4, *entry), columns=["x"]))
        reply = published(client.step(p.encode(), uploads=[indices], tables=[f"t{number}"]))
        for index, row in zip(indices, reply[0]):
            wanted = convert(values[index], DTYPES[result]) if 0 <= index < rows else np.zeros(entry, DTYPES[result])
            same(row, np.asarray(wanted))


def test_another_shape_is_another_column(data):
    client = Client(NumpyOwner())
    client.owner.register("d", data)
    for dims in (((), (3, 2), ()), ((), (6,), ()), ()):
        p = ProgramBuilder()
        i = p.arg("upload", t("i64", 2))
        table = p.arg("table", TableType(5, TABLE.columns, dims))
        p.result("publish", p.op("read_rows", [table, i], t("f32", 2), columns=["a"]))
        reply = client.step(p.encode(), uploads=[np.arange(2)], tables=["d"])
        assert reply.kind == "Error" and reply.code == errors.DATASET and "2x3xu8" in reply.message


# Table records as nobody honest writes them.


def decoded(dims, extra=()):
    """A program of one table whose entries are given as they stand, well made or not."""
    p = ProgramBuilder()
    p.arg("table", TableType(5, (("a", F64), ("s", U8)), dims))
    p.dims.extend(extra)
    return decode(p.encode())


def test_table_records_are_read():
    for dims in ((), ((), (2, 3)), ((4,), ()), ((1,) * 8, (1 << 24,))):
        (arg,) = decoded(dims).args
        assert arg.type == TableType(5, (("a", F64), ("s", U8)), dims)
    assert str(TABLE) == '!sojourn.table<5, "a" : f64, "scan" : 2x3xu8, "b" : i64>'


@pytest.mark.parametrize(
    "dims, text, code",
    [
        (((), ()), "one encoding", errors.MALFORMED),
        (((2,),), "2 columns has 1 starts", errors.MALFORMED),
        (((2,), (2,), (2,)), "2 columns has 3 starts", errors.MALFORMED),
        (((), (2, 0)), "at least 1", errors.MALFORMED),
        (((), (2, -1)), "at least 1", errors.MALFORMED),
        (((), (1,) * 9), "rank 9", errors.LIMIT),
        (((), ((1 << 24) + 1,)), "too large", errors.LIMIT),
        (((), (1 << 40, 1 << 40, 1 << 40)), "too large", errors.LIMIT),
    ],
)
def test_hostile_table_records(dims, text, code):
    with pytest.raises(OwnerError, match=text) as caught:
        decoded(dims)
    assert caught.value.code == code


def test_entries_outside_the_dims(monkeypatch):
    import numpy_builder

    module = numpy_builder._wire("TableRecord")

    def damaged(begins, ranks):
        class Damaged:
            def __getattr__(self, name):
                return getattr(module, name)

        p = ProgramBuilder()
        p.arg("table", TableType(5, (("a", F64), ("s", U8)), ((), (2,))))
        make = numpy_builder.flatbuffers.Builder.CreateNumpyVector

        def vector(builder, values):
            values = np.array(begins, np.uint32) if len(values) == 2 and values.tolist() == [0, 0] else values
            return make(builder, values)

        byte_vector = numpy_builder.flatbuffers.Builder.CreateByteVector
        with monkeypatch.context() as patch:
            patch.setattr(numpy_builder.flatbuffers.Builder, "CreateNumpyVector", vector)
            patch.setattr(
                numpy_builder.flatbuffers.Builder, "CreateByteVector",
                lambda builder, data: byte_vector(builder, bytes(ranks) if data == b"\x00\x01" else data),
            )  # fmt: skip
            return p.encode()

    decode(damaged([0, 0], [0, 1]))
    for begins, ranks, text in (
        ([0, 1], [0, 1], "leaves its vector"),
        ([0, 2**32 - 1], [0, 1], "leaves its vector"),
        ([1, 0], [0, 1], "plain column's entry starts at 1"),
        ([0, 0], [0, 2], "leaves its vector"),
        ([0, 0], [0, 255], "rank 255"),
    ):
        with pytest.raises(OwnerError, match=text):
            decode(damaged(begins, ranks))


def test_a_billion_rows_cost_nothing_to_plan():
    """Rows are declared; what is sampled and read is a batch."""
    p = ProgramBuilder()
    positions, seed = p.arg("upload", t("i64", 4)), p.arg("seed", t("i64"))
    p.arg("table", TableType(1 << 30, (("a", F64),)))
    p.result("publish", p.op("sample_rows", [positions, seed, seed], t("i64", 4), rows=1 << 30))
    decode(p.encode())
    p.tables[0] = ((1 << 32) + 1, *p.tables[0][1:])
    with pytest.raises(OwnerError, match="too long"):
        decode(p.encode())
