# SPDX-License-Identifier: Apache-2.0
"""Files with text, categories, dates and missing entries: `sojourn-owner import`, and what every client sees of them.

The oracle is the same data as Python's values, registered in memory (test_sources.py compares that with Python itself).
"""

import datetime
import decimal
import json
import sqlite3

import numpy as np
import pyarrow
import pyarrow.feather
import pyarrow.parquet
import pytest
from meanings_support import (
    ARMS,
    BOUNDS,
    CATEGORIES,
    DAY,
    FILLS,
    bring,
    csv_text,
    described,
    options,
    people,
    read,
    same,
    save,
    tool,
)  # fmt: skip

import sojourn


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet", "feather"])
def test_an_import_is_equal_to_the_table_in_memory(kind, rng, tmp_path, owner_process):
    """Imported by the command, listed by it, opened here and at a running server."""
    data, name = people(rng), f"people-{kind}"
    path = save(kind, data, tmp_path)
    expected = sojourn.plain(data, bounds=BOUNDS, fills=FILLS, categories=CATEGORIES)
    assert [column.categories for column in expected.columns][:2] == [tuple(ARMS), (7, 5, 3)]
    assert [column.unit for column in expected.columns][3:5] == ["days since 1970-01-01", "seconds since 1970-01-01"]
    assert [column.fill for column in expected.columns][:4] == [1, 1, 40, 11016]
    same(sojourn.plain(path, bounds=BOUNDS, fills=FILLS, categories=CATEGORIES), expected)
    store = tmp_path / "store"
    shown = bring(path, name, store, *options())
    for text in (shown, tool("datasets", "--store", store)):
        assert "arm: 0 placebo, 1 low, 2 high, 3 other; missing entries are 1 low" in text
        assert "ward: 0 7, 1 5, 2 3; missing entries are 1 5" in text
        assert "visit: days since 1970-01-01; missing entries are 11016" in text
    for _ in range(2):  # also from a store that was opened before
        with sojourn.local(store=store) as owner:
            same(owner.dataset(name), expected)
            first, other = owner.dataset(name).split(0.5)
            assert described(first) == described(other) == described(expected)
    bring(path, name, owner_process.store, "--anyone", *options())
    with sojourn.connect(owner_process.address) as owner:
        same(owner.dataset(name), expected)
        assert str(owner.dataset(name)).splitlines()[1:] == str(expected).splitlines()[1:]


def test_a_store_keeps_what_memory_registered(rng, tmp_path):
    data = people(rng)
    expected = sojourn.plain(data, bounds=BOUNDS, fills=FILLS, categories=CATEGORIES)
    with sojourn.local(store=tmp_path / "store") as owner:
        owner.register("people", data, policy="open", bounds=BOUNDS, fills=FILLS, categories=CATEGORIES)
    with sojourn.local(store=tmp_path / "store") as owner:
        same(owner.dataset("people"), expected)
        owner.register("more", {"dose": data["dose"]}, policy="open")
        assert owner.dataset("more").columns[0].categories is owner.dataset("more").columns[0].fill is None


def test_pandas_and_the_import_of_its_files_agree(rng, tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(people(rng))
    frame["arm"] = pandas.Categorical(frame["arm"], categories=ARMS)
    frame["ward"], frame["age"] = frame["ward"].astype("Int64"), frame["age"].astype("Int64")
    expected = sojourn.plain(frame, bounds=BOUNDS, fills=FILLS, categories={"ward": [7, 5, 3]})
    assert expected.columns[0].categories == tuple(ARMS)
    frame.to_parquet(tmp_path / "people.parquet")
    frame.to_csv(tmp_path / "people.csv", index=False)
    for name in ("people.parquet", "people.csv"):
        store = tmp_path / f"store of {name}"
        bring(tmp_path / name, "people", store, *options())
        with sojourn.local(store=store) as owner:
            same(owner.dataset("people"), expected)
    # The dictionary of the file, where nothing is declared.
    found = sojourn.plain(tmp_path / "people.parquet", bounds=BOUNDS, fills=FILLS, categories={"ward": [7, 5, 3]})
    same(found, expected)


def test_undeclared_text_of_an_open_table(rng, tmp_path):
    """Sorted as in memory. Empty cells, and texts that say that there is none, are missing."""
    data = {"arm": ["b", "", "a", "é", "NA", "b"], "x": [1, 2, 3, 4, 5, 6]}
    path = tmp_path / "t.csv"
    path.write_text(csv_text(data))
    with pytest.raises(sojourn.Error, match="column 'arm', row 1 .*no value found"):
        sojourn.plain(path)
    table = sojourn.plain(path, fills={"arm": "é"})
    assert table.columns[0].categories == ("a", "b", "é") and table.columns[0].bounds == (0, 2)
    assert read(table)["arm"] == [1, 2, 0, 2, 2, 1]
    declared = sojourn.plain(path, categories={"arm": ["NA", "a", "b", "é", ""]})  # then they are texts as others
    assert read(declared)["arm"] == [2, 4, 1, 3, 0, 2]
    bring(path, "t", tmp_path / "store", "--fill", "arm=b")
    refused = tool("policy", "t", "private", "--rows-are-subjects", "--store", tmp_path / "store", code=1)
    assert "have none: 'x'" in refused  # bounds, first of all
    bring(path, "u", tmp_path / "store", "--fill", "arm=b", "--bound", "x=0:9")
    refused = tool("policy", "u", "private", "--rows-are-subjects", "--store", tmp_path / "store", code=1)
    assert "categories of column 'arm' were found in the rows" in refused and "--categories arm=A,B" in refused
    with sojourn.local(store=tmp_path / "store") as owner:
        assert owner.dataset("u").policy == "open"
        table = owner.register("v", {"arm": ["b", "a"]}, policy="open", categories={"arm": ["a", "b"]})
    tool("policy", "v", "private", "--rows-are-subjects", "--store", tmp_path / "store")


def test_every_kind_of_column(rng, tmp_path):
    at = datetime.datetime(2024, 3, 1, 12, 30, 15, 250000)
    zone = datetime.timezone(datetime.timedelta(hours=2))
    table = pyarrow.table({
        "large": pyarrow.array(["b", "a", None], pyarrow.large_string()),
        "view": pyarrow.array(["b", "a", None]).cast(pyarrow.string_view()),
        "codes": pyarrow.array([9, 5, None], pyarrow.uint16()),
        "dictionary": pyarrow.DictionaryArray.from_arrays([1, 0, None], ["x", "y", "unused"]),
        "numbers": pyarrow.DictionaryArray.from_arrays(pyarrow.array([1, 0, None], pyarrow.uint8()), [30, 20]),
        "date64": pyarrow.array([at.date(), DAY, None], pyarrow.date64()),
        "zoned": pyarrow.array([at.replace(tzinfo=zone), at.replace(tzinfo=zone), None]),
        "s": pyarrow.array([at.replace(microsecond=0), datetime.datetime(1901, 1, 1), None], pyarrow.timestamp("s")),
        "ns": pyarrow.array([at, datetime.datetime(1969, 12, 31, 23, 59, 59, 750000), None], pyarrow.timestamp("ns")),
        "span": pyarrow.array([datetime.timedelta(minutes=3, milliseconds=500), datetime.timedelta(-1), None]),
        "clock": pyarrow.array([at.time(), datetime.time(), None]),
        "clock32": pyarrow.array([at.time(), datetime.time(), None], pyarrow.time32("ms")),
        "price": [decimal.Decimal("1.25"), decimal.Decimal("-2.5"), None],
        "wide": pyarrow.array([decimal.Decimal("1e30"), decimal.Decimal("0"), None], pyarrow.decimal256(50, 2)),
    })  # fmt: skip
    fills = {
        "large": "a", "view": "b", "codes": 9, "dictionary": "unused", "numbers": 30, "date64": at.date(), "zoned": at,
        "s": at, "ns": at.date(), "span": datetime.timedelta(1), "clock": 5, "clock32": 7, "price": 1, "wide": 2,
    }  # fmt: skip
    bounds = {"s": (at - datetime.timedelta(10**5), at), "date64": (np.datetime64("1970-01-01"), np.int64(10**6))}
    terms = {"fills": fills, "bounds": bounds, "categories": {"codes": [5, 9], "view": ["a", "b", "c"]}}
    expected = sojourn.plain(table, **terms)
    pyarrow.feather.write_feather(table, tmp_path / "t.feather", compression="uncompressed")
    same(sojourn.plain(tmp_path / "t.feather", **terms), expected)
    pyarrow.feather.write_feather(table.slice(1), tmp_path / "u.feather", compression="uncompressed")
    same(sojourn.plain(tmp_path / "u.feather", **terms), sojourn.plain(table.slice(1), **terms))
    for name in table.column_names:
        path = tmp_path / f"{name}.arrow"
        pyarrow.feather.write_feather(table.select([name]), path, compression="uncompressed")
        with pytest.raises(sojourn.Error, match=f"column '{name}', row 2 .*no value found"):
            sojourn.plain(path, categories={name: terms["categories"][name]} if name in terms["categories"] else None)


def test_other_categories_of_data_frames(seed):
    """A table keeps texts and whole numbers: others by their texts."""
    for values, names in (([2.5, 1.5], ("2.5", "1.5")), ([True, False], (1, 0)), ([7, -7], (7, -7))):
        table = sojourn.plain({"a": pyarrow.array(values).dictionary_encode()})
        assert table.columns[0].categories == names and read(table)["a"] == [0, 1]


def test_texts_of_any_kind_survive(seed, tmp_path):
    texts = ["", " a ", "ü\n<b>", "\x1b[31m", "日本", "'\"", "a" * 1024]
    with sojourn.local(store=tmp_path / "store") as owner:
        owner.register("t", {"a": texts}, policy="open", categories={"a": texts})
        for wrong in (["\ud800", "a"], [2**70, 1], [-(2**63) - 1]):
            with pytest.raises(
                sojourn.Error, match="must be texts that UTF-8 can write or whole numbers of 64 bits, got"
            ):
                owner.register("u", {"a": ["a"]}, policy="open", categories={"a": wrong})
        with pytest.raises(sojourn.Error, match="column 'a' has type"):
            owner.register("u", {"a": ["\ud800"]}, policy="open")
    with sojourn.local(store=tmp_path / "store") as owner:
        table = owner.dataset("t")
        assert table.columns[0].categories == tuple(texts) and "\x1b" not in str(table) + table._repr_html_()
    assert "\x1b" not in tool("datasets", "--store", tmp_path / "store")


def test_catalogues_of_older_releases_open(rng, tmp_path):
    """A catalogue without meanings is that of the release before, which goes on to read one with them."""
    data = people(rng)
    numbers = {"dose": data["dose"], "x": list(range(len(data["dose"])))}
    with sojourn.local(store=tmp_path / "store") as owner:
        owner.register("old", numbers, policy="open", bounds={"x": (0, 9)})
    with sqlite3.connect(tmp_path / "store/catalogue.db") as books:
        books.executescript("DROP TABLE meanings")
        assert books.execute("PRAGMA user_version").fetchone() == (4,)
    books.close()
    with sojourn.local(store=tmp_path / "store") as owner:
        same(owner.dataset("old"), sojourn.plain(numbers, bounds={"x": (0, 9)}))
        owner.register("new", data, policy="open", fills=FILLS, categories=CATEGORIES)
    with sqlite3.connect(tmp_path / "store/catalogue.db") as books:
        assert books.execute("PRAGMA user_version").fetchone() == (4,)
        stored = dict(books.execute("SELECT position, categories FROM meanings WHERE dataset = 'new'"))
        assert json.loads(stored[0]) == ARMS and json.loads(stored[1]) == [7, 5, 3]
        # What a release before says and asks.
        row = books.execute(
            "SELECT name, element, lower, upper, dims FROM columns WHERE dataset = 'new' ORDER BY position"
        )
        assert row.fetchone() == ("arm", "i64", 0, 3, "")
        books.execute("UPDATE meanings SET unit = 'fortnights' WHERE dataset = 'new' AND position = 3")
    books.close()
    with sojourn.local(store=tmp_path / "store") as owner:
        assert owner.dataset("new").columns[3].unit is None  # of a later release
    for damaged in ("[1, 'a", "{}", "[1.5]", '["a", 1]', '["a", "a"]', "[null]"):
        with sqlite3.connect(tmp_path / "store/catalogue.db") as books:
            books.execute("UPDATE meanings SET categories = ? WHERE position = 0", [damaged])
        books.close()
        assert "the catalogue is damaged: the categories of a column" in tool(
            "datasets", "--store", tmp_path / "store", code=1
        )
