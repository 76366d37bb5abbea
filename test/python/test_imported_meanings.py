# SPDX-License-Identifier: Apache-2.0
"""Files with text, categories, dates and missing entries: `sojourn-owner import`, and what every client sees of them.

The oracle is the same data as Python's values, registered in memory (test_sources.py compares that with Python itself).
"""

import datetime
import decimal
import json
import pathlib
import sqlite3
import subprocess

import numpy as np
import pyarrow
import pyarrow.feather
import pyarrow.parquet
import pytest
import torch

import sojourn

ROOT = pathlib.Path(__file__).resolve().parents[2]
DAY = datetime.date(1970, 1, 1)
ARMS = ["placebo", "low", "high", "other"]


def tool(*words, code=0):
    done = subprocess.run([ROOT / "build/bin/sojourn-owner", *map(str, words)], capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


def people(rng, rows=40):
    """Columns with missing entries, as Python's values."""

    def gaps(values):
        return [None if rng.random() < 0.2 else value for value in values]

    start = datetime.datetime(2023, 5, 1)
    return {
        "arm": [*gaps(rng.choice(ARMS[:3]) for _ in range(rows - 4)), "high", "low", "placebo", None],
        "ward": [*gaps(rng.choice([3, 5, 7]) for _ in range(rows - 4)), 3, 5, 7, None],
        "age": [*gaps(rng.randrange(18, 90) for _ in range(rows - 1)), 33],
        "visit": [*gaps(DAY + datetime.timedelta(days=rng.randrange(-9000, 19000)) for _ in range(rows - 1)), DAY],
        "seen": [*gaps(start + datetime.timedelta(seconds=rng.randrange(10**7)) for _ in range(rows - 1)), start],
        "dose": [rng.uniform(0, 5) for _ in range(rows)],
    }


FILLS = {
    "arm": "low", "ward": 5, "age": 40, "visit": datetime.date(2000, 2, 29),
    "seen": datetime.datetime(2023, 6, 1, 12, 30),
}  # fmt: skip
CATEGORIES = {"arm": ARMS, "ward": [7, 5, 3]}
BOUNDS = {
    "age": (20, 80), "dose": (0, 5), "visit": (datetime.date(1960, 1, 1), datetime.date(2020, 12, 31)),
    "seen": (datetime.datetime(2023, 1, 1), datetime.datetime(2023, 8, 1, 18, 15)),
}  # fmt: skip


def csv_text(data):
    """As programs write it: nothing for a missing entry."""
    rows = zip(*data.values())
    cell = {None: ""}
    return "\n".join([",".join(data), *(",".join(cell.get(each, str(each)) for each in row) for row in rows)]) + "\n"


def arrow_table(data):
    """With a dictionary for the texts, large texts, and times of another unit."""
    table = pyarrow.table(data)
    arm = pyarrow.chunked_array([
        pyarrow.array(data["arm"][:9]).dictionary_encode(), pyarrow.array(data["arm"][9:]).dictionary_encode()
    ])  # fmt: skip
    seen = pyarrow.array(data["seen"], pyarrow.timestamp("ns", tz="UTC"))
    return table.set_column(0, "arm", arm).set_column(4, "seen", pyarrow.chunked_array([seen]))


def save(kind, data, folder):
    path = folder / f"people.{kind}"
    if kind in ("csv", "tsv"):
        path.write_text(csv_text(data).replace(",", "," if kind == "csv" else "\t"))
    elif kind == "parquet":
        pyarrow.parquet.write_table(arrow_table(data), path)
    else:
        pyarrow.feather.write_feather(arrow_table(data), path, compression="uncompressed")
    return path


def options(bounds=BOUNDS, fills=FILLS, categories=CATEGORIES):
    words = []
    for column, (lower, upper) in bounds.items():
        words += ["--bound", f"{column}={getattr(lower, 'isoformat', lower.__str__)()}:{upper}"]
    for column, fill in fills.items():
        words += ["--fill", f"{column}={fill}"]
    for column, names in categories.items():
        words += ["--categories", f"{column}={','.join(map(str, names))}"]
    return words


def described(table):
    return [tuple(column) for column in table.columns]


def read(table):
    return {
        name: values.tolist()
        for name, values in sojourn.publish({c.name: table[c.name] for c in table.columns}).items()
    }


def same(found, expected):
    assert described(found) == described(expected)
    assert read(found) == read(expected)


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
    shown = tool("import", path, "--name", name, "--policy", "open", "--store", store, *options())
    for text in (shown, tool("datasets", "--store", store)):
        assert "arm: 0 placebo, 1 low, 2 high, 3 other; missing entries are 1 low" in text
        assert "ward: 0 7, 1 5, 2 3; missing entries are 1 5" in text
        assert "visit: days since 1970-01-01; missing entries are 11016" in text
    for _ in range(2):  # also from a store that was opened before
        with sojourn.local(store=store) as owner:
            same(owner.dataset(name), expected)
            first, other = owner.dataset(name).split(0.5)
            assert described(first) == described(other) == described(expected)
    tool("import", path, "--name", name, "--policy=open", "--anyone", "--store", owner_process.store, *options())
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
        tool("import", tmp_path / name, "--name", "people", "--policy", "open", "--store", store, *options())
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
    tool("import", path, "--name", "t", "--policy", "open", "--fill", "arm=b", "--store", tmp_path / "store")
    refused = tool("policy", "t", "private", "--rows-are-subjects", "--store", tmp_path / "store", code=1)
    assert "have none: 'x'" in refused  # bounds, first of all
    tool(
        "import",
        path,
        "--name",
        "u",
        "--policy",
        "open",
        "--fill",
        "arm=b",
        "--bound",
        "x=0:9",
        "--store",
        tmp_path / "store",
    )
    refused = tool("policy", "u", "private", "--rows-are-subjects", "--store", tmp_path / "store", code=1)
    assert "categories of column 'arm' were found in the rows" in refused and "--categories arm=A,B" in refused
    with sojourn.local(store=tmp_path / "store") as owner:
        assert owner.dataset("u").policy == "open"
        table = owner.register("v", {"arm": ["b", "a"]}, policy="open", categories={"arm": ["a", "b"]})
    tool("policy", "v", "private", "--rows-are-subjects", "--store", tmp_path / "store")


def test_a_slip_in_a_column_of_numbers_makes_no_categories(seed, tmp_path):
    """A text file alone does not say what a column is; a column of codes is asked for."""
    path = tmp_path / "t.csv"
    path.write_text(csv_text({"x": [250, None, "V45", 7, "V45"], "n": [3, 1, 2, 3, 3]}))
    with pytest.raises(
        sojourn.Error, match=r"column 'x' has type string, because row 2 \(counting from 0\) is the first without"
    ) as refused:
        sojourn.plain(path)
    assert "--categories x=*" in str(refused.value) and "V45" not in str(refused.value)
    words = [
        "--name",
        "t",
        "--categories",
        "x=*",
        "--categories",
        "n=*",
        "--fill",
        "x=7",
        "--store",
        tmp_path / "store",
    ]
    tool("import", path, *words, "--policy", "open")
    with sojourn.local(store=tmp_path / "store") as owner:
        table = owner.dataset("t")
        assert [column.categories for column in table.columns] == [("250", "7", "V45"), ("1", "2", "3")]
        assert read(table) == {"x": [0, 1, 2, 1, 2], "n": [2, 0, 1, 2, 2]}
    words[1] = "private"
    refused = tool("import", path, *words, "--policy", "private", "--rows-are-subjects", code=1)
    assert "column 'x' holds text or categories; on a private table they must be declared" in refused
    pyarrow.parquet.write_table(pyarrow.table({"n": [3, 1, 3]}), tmp_path / "t.parquet")
    tool(
        "import",
        tmp_path / "t.parquet",
        "--name",
        "u",
        "--policy",
        "open",
        "--categories",
        "n=*",
        "--store",
        tmp_path / "store",
    )
    with sojourn.local(store=tmp_path / "store") as owner:
        assert owner.dataset("u").columns[0].categories == (1, 3) and read(owner.dataset("u")) == {"n": [1, 0, 1]}


@pytest.mark.parametrize("kind", ["csv", "parquet", "dictionary"])
def test_private_tables_declare_their_categories(kind, seed, tmp_path):
    """Texts that are found in rows tell of rows: not in the table, not in a refusal."""
    secret = f"secret{seed}"
    data = {"arm": ["low", secret, "high"], "age": [1, 2, 3]}
    path = tmp_path / ("t.csv" if kind == "csv" else "t.parquet")
    if kind == "csv":
        path.write_text(csv_text(data))
    else:
        arm = pyarrow.array(data["arm"])
        table = pyarrow.table({"arm": arm.dictionary_encode() if kind == "dictionary" else arm, "age": data["age"]})
        pyarrow.parquet.write_table(table, path)
    words = ["import", path, "--name", "t", "--bound", "age=0:5", "--rows-are-subjects", "--store", tmp_path / "store"]
    for more in ([], ["--bound", "arm=0:2"], ["--fill", "arm=low"]):
        refused = tool(*words, *more, code=1)
        assert "column 'arm' holds text or categories; on a private table they must be declared" in refused
        assert "--categories arm=A,B" in refused and secret not in refused
    refused = tool(*words, "--categories", "arm=low,high", code=1)
    assert "column 'arm', row 1 (counting from 0): a value found outside of its 2 categories" in refused
    assert secret not in refused and "--fill arm=CATEGORY" in refused
    assert "no datasets" in tool("datasets", "--store", tmp_path / "store")
    tool(*words, "--categories", "arm=low,high,other", "--fill", "arm=other")
    with sojourn.local(store=tmp_path / "store") as owner:
        table = owner.dataset("t")
        assert table.policy == "private" and table.columns[0].categories == ("low", "high", "other")
        assert table.columns[0].bounds == (0, 2) and secret not in str(owner.datasets()) + str(table)
        owner.grant("t", epsilon=2.0**19, delta=1e-5)
        counts = sojourn.publish(torch.bincount(table["arm"], minlength=3), epsilon=2.0**18)
        assert [round(float(count)) for count in counts] == [1, 1, 1]


def test_all_columns_without_categories_are_named_at_once(seed, tmp_path):
    (tmp_path / "t.csv").write_text("a,b,c,d\nx,y,z,1\n")
    words = ["import", tmp_path / "t.csv", "--name", "t", "--rows-are-subjects", "--store", tmp_path / "store"]
    refused = tool(*words, "--categories", "b=y,n", code=1)
    assert "columns 'a', 'c' hold text or categories; on a private table they must be declared" in refused
    assert "categories={'a': [...], ...}, --categories a=A,B" in refused and "leave the columns out" in refused
    tool(*words, "--categories", "b=y,n", "--columns", "b")


def test_a_fill_replaces_what_is_no_category(seed, tmp_path):
    data = {"arm": ["low", None, "hihg", "high", "NULL"], "x": [1, 2, 3, 4, 5]}
    (tmp_path / "t.csv").write_text(csv_text(data))
    pyarrow.parquet.write_table(pyarrow.table(data), tmp_path / "t.parquet")
    declared = {"categories": {"arm": ["low", "high", "other"]}, "fills": {"arm": "other"}}
    found = sojourn.plain(data, **declared)
    assert read(found)["arm"] == [0, 2, 2, 1, 2]
    for name in ("t.csv", "t.parquet"):
        same(sojourn.plain(tmp_path / name, **declared), found)


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


def test_dates_in_text(rng, tmp_path):
    """--date reads texts and times as days; every day of the calendar, compared with Python's own."""
    days = [DAY + datetime.timedelta(days=rng.randrange(-719000, 2900000)) for _ in range(300)]
    days += [
        datetime.date(2000, 2, 29),
        datetime.date(1900, 2, 28),
        datetime.date(1, 1, 1),
        datetime.date(9999, 12, 31),
    ]
    texts = [f"{day.isoformat()}{rng.choice(['', 'T23:59', ' 00:00:00'])}" for day in days]
    (tmp_path / "t.csv").write_text(csv_text({"visit": [*texts, ""], "x": [0] * (len(texts) + 1)}))
    pyarrow.parquet.write_table(
        pyarrow.table({"visit": [*texts, None], "x": [0] * (len(texts) + 1)}), tmp_path / "t.parquet"
    )
    for name in ("t.csv", "t.parquet"):
        words = ["--date", "visit", "--fill", "visit=1999-12-31", "--policy", "open", "--store", tmp_path / "store"]
        tool("import", tmp_path / name, "--name", name, *words)
        with sojourn.local(store=tmp_path / "store") as owner:
            table = owner.dataset(name)
            assert read(table)["visit"] == [(day - DAY).days for day in [*days, datetime.date(1999, 12, 31)]]
            assert table.columns[0].unit == "days since 1970-01-01"
    for wrong in ("2023-02-29", "2024-13-01", "2024-3-1", "01.03.2024", "2024-03-01T25:00", "2024-03-01x", "soon"):
        (tmp_path / "w.csv").write_text(f"visit\n2024-03-01\n{wrong}\n")
        refused = tool(
            "import",
            tmp_path / "w.csv",
            "--name",
            "w",
            "--date",
            "visit",
            "--policy",
            "open",
            "--store",
            tmp_path / "s",
            code=1,
        )
        assert "column 'visit', row 1 (counting from 0): a value found that is no date, expected one such as" in refused
        assert wrong not in refused


def test_times_in_words(rng, tmp_path):
    """Fills and bounds, with zones, compared with Python's own arithmetic."""
    pyarrow.parquet.write_table(
        pyarrow.table({"at": pyarrow.array([None, 0], pyarrow.timestamp("us"))}), tmp_path / "t.parquet"
    )
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    for _ in range(100):
        zone = datetime.timezone(datetime.timedelta(minutes=rng.randrange(-14 * 60, 14 * 60)))
        moment = datetime.datetime(rng.randrange(2, 9999), rng.randrange(1, 13), rng.randrange(1, 29), rng.randrange(24), rng.randrange(60), rng.randrange(60), rng.choice([0, rng.randrange(10**6)]), rng.choice([zone, None]))  # fmt: skip
        table = sojourn.plain(tmp_path / "t.parquet", fills={"at": moment})
        expected = (moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)) - epoch
        assert read(table)["at"][0] == pytest.approx(expected.total_seconds(), rel=0, abs=3e-5)
        assert table.columns[0].fill == read(table)["at"][0]


def test_terms_in_a_file(rng, tmp_path):
    data = people(rng)
    save("csv", data, tmp_path)
    (tmp_path / "terms.toml").write_text(
        'arm = {categories = ["placebo", "low", "high", "other"], fill = "low"}\nward = {categories = [7, 5, 3], fill = 5}\n'
        "age = {lower = 20, upper = 80, fill = 40}\ndose = [0, 5]\n"
        "visit = {lower = 1960-01-01, upper = 2020-12-31, fill = 2000-02-29}\n"
        "seen = {lower = 2023-01-01T00:00:00, upper = 2023-08-01T18:15:00, fill = 2023-06-01T12:30:00}\n"
    )
    words = ["--name", "t", "--rows-are-subjects", "--bounds", tmp_path / "terms.toml", "--store", tmp_path / "store"]
    tool("import", tmp_path / "people.csv", *words)
    expected = sojourn.plain(data, bounds=BOUNDS, fills=FILLS, categories=CATEGORIES)
    with sojourn.local(store=tmp_path / "store") as owner:
        assert described(owner.dataset("t")) == described(expected) and owner.dataset("t").policy == "private"
    tool("policy", "t", "open", "--store", tmp_path / "store")
    with sojourn.local(store=tmp_path / "store") as owner:
        same(owner.dataset("t"), expected)
    for wrong in ("arm = {categories = []}", 'arm = {categories = ["a", 1]}', "arm = {categories = 'a'}", "age = {lower = 2000-01-01, upper = 3}", "arm = {date = 3}", "arm = {colour = 3}"):  # fmt: skip
        (tmp_path / "wrong.toml").write_text(wrong + "\n")
        words = ["--name", "u", "--policy", "open", "--bounds", tmp_path / "wrong.toml", "--store", tmp_path / "store"]
        refused = tool("import", tmp_path / "people.csv", *words, code=1)
        assert "line 1: column 'a" in refused and "categories = [..], date = true}" in refused


def test_categories_of_a_command_line(seed, tmp_path):
    store = tmp_path / "store"
    path = tmp_path / "t.csv"
    path.write_text('arm,code\n"a, b",01\nc,02\n')
    names = tmp_path / "names.txt"
    names.write_bytes("\ufeffa, b\r\nc\r\nü\r\n".encode())
    tool(
        "import",
        path,
        "--name",
        "t",
        "--policy",
        "open",
        "--categories",
        f"arm=@{names}",
        "--categories",
        "code=01,02",
        "--store",
        store,
    )
    with sojourn.local(store=store) as owner:
        assert [column.categories for column in owner.dataset("t").columns] == [("a, b", "c", "ü"), ("01", "02")]
        assert read(owner.dataset("t")) == {"arm": [0, 1], "code": [0, 1]}
    names.write_text("a\n\nb\n")
    for given, text in (
        (f"arm=@{names}", "line 2: found an empty line, expected one category per line"),
        (f"arm=@{tmp_path}/none", "cannot read categories from"),
        ("arm=a, b", "white space around ' b'; write a,b,c without spaces"),
        ("arm=a,,b", "have an empty one"),
        ("arm", "is not of the form column=a,b,c or column=@FILE"),
        ("arms=a", "categories or dates are declared for the unknown column 'arms'"),
        ("arm=a,a", "column 'arm' has category number 1 (counting from 0) twice"),
        ("arm=" + "x" * 1025, "of 1025 bytes, the limit is 1024"),
    ):
        words = ["--name", "u", "--policy", "open", "--store", store, "--categories", given]
        assert text in tool("import", path, *words, code=1)
    names.write_bytes(b"a\n\xff\n")
    words = ["--name", "u", "--policy", "open", "--store", store, "--categories", f"arm=@{names}"]
    assert "number 1 (counting from 0), that is no UTF-8 text; save it as UTF-8" in tool("import", path, *words, code=1)


@pytest.mark.parametrize(
    "terms, text",
    [
        ({"categories": {"age": ["1"]}}, "column 'age', row 1 .counting from 0.: a value found outside of its 1"),
        ({"categories": {"arm": [1]}}, "column 'arm' has type string, its categories are int; declare"),
        ({"categories": {"dose": [1]}}, "column 'dose' has type double, its categories are int; declare"),
        ({"categories": {"nobody": ["a"]}}, "categories or dates are declared for the unknown column 'nobody'"),
        ({"fills": {"arm": "none"}}, "fill 'none' of column 'arm' is none of its 2 categories; declare one of them"),
        ({"fills": {"age": "low"}}, "fill 'low' of column 'age' must be a number"),
        ({"fills": {"age": DAY}}, "fill '1970-01-01' of column 'age' must be a number"),
        ({"fills": {"visit": "soon"}}, "fill 'soon' of column 'visit' must be a number or a date such as 2024-03-01"),
        ({"bounds": {"visit": (datetime.date(2024, 1, 2), datetime.date(2024, 1, 1))}}, "are not a range"),
        ({"bounds": {"age": (DAY, DAY)}}, "bound '1970-01-01' of column 'age' must be a number"),
    ],
)
def test_refusals(terms, text, seed, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("arm,age,dose,visit\nlow,1,1.5,2024-01-01\nhigh,2,2.5,2024-01-02\n")
    with pytest.raises(sojourn.Error, match=text):
        sojourn.plain(path, **terms)
    with sojourn.local() as owner:
        with pytest.raises(sojourn.Error, match=text):
            owner.register("t", path, policy="open", **terms)
        assert not owner.datasets()


def test_categories_of_another_type_than_the_column(seed, tmp_path):
    pyarrow.parquet.write_table(
        pyarrow.table({"n": [1, 2], "s": ["1", "2"], "f": [True, False]}), tmp_path / "t.parquet"
    )
    for name, names, text in (("n", ["1", "2"], "int64, its categories are str"), ("s", [1, 2], "string, its categories are int"), ("f", [0, 1], "bool, its categories are int")):  # fmt: skip
        with pytest.raises(
            sojourn.Error, match=f"column '{name}' has type {text}; declare categories of the column's type"
        ):
            sojourn.plain(tmp_path / "t.parquet", categories={name: names})
    words = ["--policy", "open", "--categories", "n=2,1", "--categories", "s=2,1", "--store", tmp_path / "store"]
    tool("import", tmp_path / "t.parquet", "--name", "t", *words)  # a command line has texts alone
    with sojourn.local(store=tmp_path / "store") as owner:
        assert [column.categories for column in owner.dataset("t").columns] == [(2, 1), ("2", "1"), None]


def test_other_categories_of_data_frames(seed):
    """A table keeps texts and whole numbers: others by their texts."""
    for values, names in (([2.5, 1.5], ("2.5", "1.5")), ([True, False], (1, 0)), ([7, -7], (7, -7))):
        table = sojourn.plain({"a": pyarrow.array(values).dictionary_encode()})
        assert table.columns[0].categories == names and read(table)["a"] == [0, 1]


def test_too_many_categories(rng, tmp_path):
    many = [f"{number:06}" for number in range(65_537)]
    text = "column 'a' has 65537 categories, the limit is 65536; group the rare ones, or leave the column out"
    pyarrow.parquet.write_table(pyarrow.table({"a": many}), tmp_path / "t.parquet")
    long = {f"c{k}": [f"{number:0500}" for number in range(11_000)] for k in range(4)}
    with sojourn.local() as owner:
        for source in ({"a": many}, tmp_path / "t.parquet"):
            with pytest.raises(sojourn.Error, match=text):
                owner.register("t", source, policy="open")
        with pytest.raises(
            sojourn.Error, match="categories up to column 'c3' have 22000000 bytes, the limit of a table"
        ):
            owner.register("t", long, policy="open")
        table = owner.register("t", {"a": many[1:]}, policy="open")
        assert table.columns[0].categories == tuple(many[1:])
        assert "0 000001, 1 000002" in str(table) and "and 65524 more" in str(table)
    with sojourn.local(runtime="numpy") as owner, pytest.raises(sojourn.Error, match="has 65537 categories, at most"):
        owner.register("t", {"a": many}, policy="open")


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
