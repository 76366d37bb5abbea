# SPDX-License-Identifier: Apache-2.0
"""Reads of a table's rows and table records, against NumPy."""

import numpy as np
import pytest
from numpy_builder import Client, ProgramBuilder, published, t
from numpy_oracle import same

from sojourn_numpy import NumpyOwner, OwnerError, decode, errors, run
from sojourn_numpy.datasets import make_dataset
from sojourn_numpy.types import F64, I64, NAMES, U8, TableType


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
        (((), ()), "the only valid encoding", errors.MALFORMED),
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
        ([0, 1], [0, 1], "exceeds its vector"),
        ([0, 2**32 - 1], [0, 1], "exceeds its vector"),
        ([1, 0], [0, 1], "plain column's entry starts at 1"),
        ([0, 0], [0, 2], "exceeds its vector"),
        ([0, 0], [0, 255], "rank 255"),
    ):
        with pytest.raises(OwnerError, match=text):
            decode(damaged(begins, ranks))


def test_a_billion_rows_cost_nothing_to_plan():
    """Rows are declared; what is sampled and read is a batch."""
    p = ProgramBuilder()
    positions, seed = p.arg("upload", t("i64", 4)), p.arg("seed", t("i64"))
    table = p.arg("table", TableType(1 << 30, (("a", F64),)))
    whole = {"fractions": (), "sides": (), "split": False}
    p.result("publish", p.op("sample_rows", [positions, seed, seed, table], t("i64", 4), **whole))
    decode(p.encode())
    p.tables[0] = ((1 << 32) + 1, *p.tables[0][1:])
    with pytest.raises(OwnerError, match="too long"):
        decode(p.encode())
