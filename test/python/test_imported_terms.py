# SPDX-License-Identifier: Apache-2.0
"""Terms of imported columns: bounds, fills and categories of a command line, of TOML and of Python.

The oracle is Python: positions in a list, its own calendar, its exact integers.
"""

import datetime

import numpy as np
import pyarrow
import pyarrow.feather
import pyarrow.parquet
import pytest
from meanings_support import BOUNDS, CATEGORIES, DAY, FILLS, bring, csv_text, described, people, read, same, save, tool

import sojourn


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
        refused = bring(tmp_path / "w.csv", "w", tmp_path / "s", "--date", "visit", code=1)
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
    tool("policy", "t", "open", "--yes", "--store", tmp_path / "store")
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
    bring(path, "t", store, "--categories", f"arm=@{names}", "--categories", "code=01,02")
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


def test_a_fill_replaces_what_is_no_category(seed, tmp_path):
    data = {"arm": ["low", None, "hihg", "high", "NULL"], "x": [1, 2, 3, 4, 5]}
    (tmp_path / "t.csv").write_text(csv_text(data))
    pyarrow.parquet.write_table(pyarrow.table(data), tmp_path / "t.parquet")
    declared = {"categories": {"arm": ["low", "high", "other"]}, "fills": {"arm": "other"}}
    found = sojourn.plain(data, **declared)
    assert read(found)["arm"] == [0, 2, 2, 1, 2]
    for name in ("t.csv", "t.parquet"):
        same(sojourn.plain(tmp_path / name, **declared), found)


def file_of(kind, columns, folder):
    path = folder / f"t.{kind}"
    if kind == "csv":
        path.write_text(csv_text(columns))
    elif kind == "parquet":
        pyarrow.parquet.write_table(pyarrow.table(columns), path)
    else:
        pyarrow.feather.write_feather(pyarrow.table(columns), path, compression="uncompressed")
    return path


@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow"])
def test_fills_of_large_integers_are_exact(kind, rng, tmp_path):
    """Neighbours that one float stands for: on the command line, in TOML, in Python, in memory; declared or found."""
    odd = rng.choice([-1, 1]) * (2**53 + 1 + 2 * rng.randrange(2**20))
    names = rng.sample([odd - 1, odd, odd + 1], 3)
    assert len({float(name) for name in names}) < 3
    data, terms, store = {"n": [*names, None], "x": [1.0, 2.0, 3.0, 4.0]}, tmp_path / "terms.toml", tmp_path / "store"
    declared = {"n": names}
    if kind == "arrow":  # those of its dictionary are found
        declared, data["n"] = None, pyarrow.DictionaryArray.from_arrays([0, 1, 2, None], pyarrow.array(names))
    path = file_of(kind, data, tmp_path)
    for fill in names:
        wanted = {"n": [0, 1, 2, names.index(fill)], "x": data["x"]}
        given = "" if declared is None else f", categories = {names}"
        terms.write_text(f"n = {{fill = {fill}{given}}}\n")
        bring(path, f"toml{fill}", store, "--bounds", terms)
        words = [] if declared is None else ["--categories", f"n={','.join(map(str, names))}"]
        bring(path, f"words{fill}", store, *words, "--fill", f"n={fill}")
        found = [sojourn.plain(source, fills={"n": each(fill)}, categories=declared) for source in (path, data) for each in (int, np.int64)]  # fmt: skip
        with sojourn.local(store=store) as owner:
            found += [owner.dataset(f"toml{fill}"), owner.dataset(f"words{fill}")]
            for table in found:
                assert read(table) == wanted and table.columns[0].categories == tuple(names)
                assert table.columns[0].fill == names.index(fill)
    for wrong in (odd + 2, float(2**54)):
        for source in (path, data):
            with pytest.raises(sojourn.Error, match="of column 'n' is none of its 3 categories"):
                sojourn.plain(source, fills={"n": wrong}, categories=declared)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_number_beside_texts_is_a_code(kind, seed, tmp_path):
    """Only a command line, which has texts alone, names the category of these digits."""
    data, names = {"arm": ["10", "1", "x", None], "x": [1, 2, 3, 4]}, ["1", "10", "x"]
    path, terms, store = file_of(kind, data, tmp_path), tmp_path / "terms.toml", tmp_path / "store"
    for fill, toml, code in ((1, "1", 1), (1.0, "1.0", 1), (2, "2", 2), ("1", '"1"', 0), (np.int64(0), "0", 0)):
        terms.write_text(f"arm = {{fill = {toml}, categories = {names}}}\n")
        name = f"t{toml.strip(chr(34))}{type(fill).__name__}"
        bring(path, name, store, "--bounds", terms)
        expected = sojourn.plain(data, fills={"arm": fill}, categories={"arm": names})
        assert read(expected)["arm"] == [1, 0, 2, code] and expected.columns[0].fill == code
        same(sojourn.plain(path, fills={"arm": fill}, categories={"arm": names}), expected)
        with sojourn.local(store=store) as owner:
            same(owner.dataset(name), expected)
    for word, code in (("1", 0), ("10", 1), ("2", 2), ("x", 2)):
        bring(path, f"words{word}", store, "--categories", "arm=1,10,x", "--fill", f"arm={word}")
        with sojourn.local(store=store) as owner:
            assert read(owner.dataset(f"words{word}"))["arm"] == [1, 0, 2, code]


def test_columns_and_categories_with_equals_signs(seed, tmp_path):
    """Categories and texts begin after the first one, numbers after the last one."""
    path, store = tmp_path / "t.csv", tmp_path / "store"
    path.write_text("a,b=c\nx=y,1\nz,2\n,\n")
    bring(path, "t", store, "--categories", "a=x=y,z", "--fill", "a=x=y", "--fill", "b=c=7", "--bound", "b=c=0:9")
    with sojourn.local(store=store) as owner:
        table = owner.dataset("t")
        assert [column.name for column in table.columns] == ["a", "b=c"]
        assert table.columns[0].categories == ("x=y", "z") and table.columns[1].bounds == (0, 9)
        assert read(table) == {"a": [0, 1, 0], "b=c": [1, 2, 7]}
    for words in (["--categories", "=a,b"], ["--categories", "a="], ["--categories", "a"], ["--fill", "=x"]):
        assert "is not of the form column=" in bring(path, "u", store, *words, code=1)


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_the_earliest_and_latest_times(unit, rng, tmp_path):
    """Counts near the ends of 64 bits, compared with Python's exact fractions."""
    per = {"ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    ends = [-(2**63), -(2**63) + 1, -(2**63) + rng.randrange(per), 2**63 - 1, 2**63 - 1 - rng.randrange(per)]
    counts = [*ends, -1, 0, 1, -per, -per - 1, *(rng.randrange(-(2**62), 2**62) for _ in range(20))]
    whole = pyarrow.array(counts)
    table = pyarrow.table({
        "at": whole.view(pyarrow.timestamp(unit)), "span": whole.view(pyarrow.duration(unit)),
        "day": whole.view(pyarrow.date64()),
    })  # fmt: skip
    path = tmp_path / "t.arrow"
    pyarrow.feather.write_feather(table, path, compression="uncompressed")
    found = sojourn.plain(path)
    same(found, sojourn.plain(table))
    values = read(found)
    assert values["day"] == [count // 86_400_000 for count in counts]
    for name in ("at", "span"):
        assert values[name] == pytest.approx([count // per + count % per / per for count in counts], rel=1e-15, abs=0)
    bring(path, "t", tmp_path / "store", "--date", "at", "--columns", "at")
    with sojourn.local(store=tmp_path / "store") as owner:
        assert read(owner.dataset("t")) == {"at": [count // (86_400 * per) for count in counts]}


def test_a_zone_without_its_minutes(seed, tmp_path):
    """`+02` and `+0230` are zones, `+02:` is a slip."""
    at = "2024-03-01T01:00"
    (tmp_path / "t.csv").write_text(f"visit\n{at}\n{at}Z\n{at}+02\n{at}+0230\n{at}-02:30\n")
    bring(tmp_path / "t.csv", "t", tmp_path / "store", "--date", "visit")
    with sojourn.local(store=tmp_path / "store") as owner:
        assert read(owner.dataset("t")) == {"visit": [19783, 19783, 19782, 19782, 19783]}
    for zone in ("+02:", "+", "+2", "+02:3", "+02:60", "-24", "+02:30:", "Z:"):
        (tmp_path / "w.csv").write_text(f"visit\n{at}\n{at}{zone}\n")
        refused = bring(tmp_path / "w.csv", "w", tmp_path / "store", "--date", "visit", code=1)
        assert "column 'visit', row 1 (counting from 0): a value found that is no date" in refused


def test_dictionaries_that_name_a_category_twice(seed, tmp_path):
    """Codes of both are those of the first."""
    arm = pyarrow.DictionaryArray.from_arrays([2, 0, 1, 3], ["a", "b", "a", "b"])
    ward = pyarrow.DictionaryArray.from_arrays([2, 0, 1, 1], pyarrow.array([7, 5, 7]))
    table = pyarrow.table({"arm": pyarrow.chunked_array([arm, arm]), "ward": pyarrow.chunked_array([ward, ward])})
    pyarrow.feather.write_feather(table, tmp_path / "t.arrow", compression="uncompressed")
    found = sojourn.plain(table)
    assert read(found) == {"arm": [0, 0, 1, 1] * 2, "ward": [0, 0, 1, 1] * 2}
    assert [column.categories for column in found.columns] == [("a", "b"), (7, 5)]
    same(sojourn.plain(tmp_path / "t.arrow"), found)
