# SPDX-License-Identifier: Apache-2.0
"""Descriptions of tables by an owner that lies, or in a damaged message: an error of Sojourn, never a crash.

The replies are written with flatc's own accessors. An honest one of them is read first.
"""

import types

import flatbuffers
import numpy as np
import pytest

import _sojourn
import sojourn
import sojourn_wire.Column as column_wire
import sojourn_wire.Dataset as dataset_wire
import sojourn_wire.Datasets as datasets_wire
from sojourn_numpy import replies
from sojourn_numpy.datasets import Meaning
from sojourn_wire.ReplyBody import ReplyBody

I64 = 5


@pytest.fixture
def lies(seed):
    """A session at an owner that answers every list of tables with `lies.reply`."""
    honest = _sojourn.EmbeddedOwner()
    made = types.SimpleNamespace(reply=b"")

    def handle(request):
        return made.reply if made.armed else honest.handle(request)

    made.armed = False
    made.session = _sojourn.Session(handle, "liar")
    made.armed = True
    yield made
    made.armed = False
    made.session.close()
    made.session = None


def column(builder, texts=None, numbers=None, unit=0, fill=None):
    """One table with one column; lists are vectors that were written before."""
    name = builder.CreateString("arm")
    column_wire.ColumnStart(builder)
    column_wire.ColumnAddName(builder, name)
    column_wire.ColumnAddElement(builder, I64)
    if texts is not None:
        column_wire.ColumnAddCategories(builder, texts)
    if numbers is not None:
        column_wire.ColumnAddCategoryNumbers(builder, numbers)
    column_wire.ColumnAddUnit(builder, unit)
    if fill is not None:
        column_wire.ColumnAddFilled(builder, True)
        column_wire.ColumnAddFill(builder, fill)
    return column_wire.ColumnEnd(builder)


def reply(builder, *columns):
    listed = replies._offsets(builder, list(columns))
    name, policy = builder.CreateString("t"), builder.CreateString("open")
    dataset_wire.DatasetStart(builder)
    dataset_wire.DatasetAddName(builder, name)
    dataset_wire.DatasetAddRows(builder, 3)
    dataset_wire.DatasetAddColumns(builder, listed)
    dataset_wire.DatasetAddPolicy(builder, policy)
    tables = replies._offsets(builder, [dataset_wire.DatasetEnd(builder)])
    datasets_wire.DatasetsStart(builder)
    datasets_wire.DatasetsAddDatasets(builder, tables)
    return replies._finish(builder, ReplyBody.Datasets, datasets_wire.DatasetsEnd(builder))


def texts(builder, *given):
    return replies._offsets(builder, [builder.CreateString(text) for text in given])


def numbers(builder, *given):
    return builder.CreateNumpyVector(np.array(given, np.int64))


def test_an_honest_description_is_read(lies):
    builder = flatbuffers.Builder(64)
    lies.reply = reply(
        builder,
        column(builder, texts(builder, "low", "high"), fill=1.0),
        column(builder, None, numbers(builder, -(2**63), 2**63 - 1), 99),
    )
    first, second = lies.session.datasets()[0].columns
    assert first.categories == ("low", "high") and first.fill == 1 and first.unit is None
    assert second.categories == (-(2**63), 2**63 - 1) and second.unit is None  # a unit of a later release


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda b: column(b, texts(b, "a"), numbers(b, 1)), "texts and whole numbers as categories"),
        (lambda b: column(b, texts(b, "a", "a")), "category number 1 .counting from 0. twice"),
        (lambda b: column(b, None, numbers(b, 3, 1, 3)), "category number 2 .counting from 0. twice"),
        (lambda b: column(b, texts(b, "a" * 1025)), "of 1025 bytes, the limit is 1024"),
        (lambda b: column(b, texts(b, b"\xff")), "is no UTF-8 text"),
        (lambda b: column(b, None, numbers(b, *range(65_537))), "has 65537 categories, the limit is 65536"),
        (lambda b: column(b, texts(b, *map(str, range(65_535)), "7")), "category number 65535 .counting from 0. twice"),
        (lambda b: column(b, fill=float("nan")), "a fill that is not finite"),
        (lambda b: column(b, texts(b, "low", "high"), fill=float("inf")), "a fill that is not finite"),
        (lambda b: column(b, texts(b, "low", "high"), fill=2.0), "a fill of 2, expected one of its .* code from 0 to 1"),
        (lambda b: column(b, texts(b, "low", "high"), fill=-1.0), "a fill of -1, expected one of its"),
        (lambda b: column(b, None, numbers(b, 7, 5), fill=0.5), "a fill of 0.5, expected one of its"),
        (lambda b: column(b, None, numbers(b, 7, 5), fill=1e300), "a fill of 1e.300, expected one of its"),
    ],
)  # fmt: skip
def test_lies_are_named(lies, make, text):
    builder = flatbuffers.Builder(64)
    lies.reply = reply(builder, make(builder))
    with pytest.raises(sojourn.OwnerError, match=f"the owner describes a column that .*{text}"):
        lies.session.datasets()


@pytest.mark.parametrize("name", [b"arm", b"open"])
def test_names_that_are_no_text(lies, name):
    """Of a column and of a policy; the last byte begins a character that does not go on."""
    builder = flatbuffers.Builder(64)
    honest = bytes(reply(builder, column(builder)))
    assert honest.count(name) == 1
    lies.reply = honest.replace(name, name[:-1] + b"\xf2")
    with pytest.raises(sojourn.OwnerError, match="describes a table with a name that is not UTF-8 text"):
        lies.session.datasets()


def test_one_list_is_not_counted_again_and_again(lies):
    """Columns share one valid list: gigabytes for who copies before it counts."""
    builder = flatbuffers.Builder(1 << 20)
    shared = texts(builder, *(f"{code:0500}" for code in range(3000)))
    lies.reply = reply(builder, *(column(builder, shared) for _ in range(100)))
    with pytest.raises(sojourn.OwnerError, match="categories of 1524000 bytes, more than the message holds"):
        lies.session.datasets()


def test_flipped_bytes_never_crash(lies, rng):
    """Each byte of a description, once; what is still readable keeps to the limits."""
    builder = flatbuffers.Builder(64)
    honest = reply(
        builder,
        column(builder, texts(builder, "low", "high", "é"), fill=1.0),
        column(builder, None, numbers(builder, 5, 6), 2),
    )
    refused = 0
    for place in range(len(honest)):
        broken = bytearray(honest)
        broken[place] ^= rng.choice([1, 0x80, 0xFF])
        lies.reply = bytes(broken)
        try:
            for dataset in lies.session.datasets():
                for each in dataset.columns:
                    shown = f"{dataset.name} {dataset.policy} {each.name} {each.categories} {each.fill} {each.unit}"
                    assert len(shown) < 4 * len(honest)
        except sojourn.Error:
            refused += 1
    assert 0 < refused < len(honest)


def test_the_numpy_owner_says_the_same(seed):
    """Its description of a table, byte for byte as it is read: categories, unit and fill."""
    source = {"arm": ["low", None, "high"], "ward": [3, 5, 3]}
    terms = {"categories": {"arm": ["high", "low"], "ward": [5, 3]}, "fills": {"arm": "low"}, "policy": "open"}
    with sojourn.local() as native, sojourn.local(runtime="numpy") as plain:
        found = [owner.register("t", source, **terms) for owner in (native, plain)]
        assert found[0].columns == found[1].columns and str(found[0]) == str(found[1])
    assert Meaning().categories == () and Meaning().fill is None
