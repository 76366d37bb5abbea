# SPDX-License-Identifier: Apache-2.0
"""Imports that are refused: texts that would tell of rows, terms that do not fit the column, lists beyond the limits."""

import datetime
import os
import re
import sqlite3

import pyarrow
import pyarrow.parquet
import pytest
import torch
from meanings_support import DAY, bring, csv_text, read, tool

import sojourn


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
    bring(tmp_path / "t.parquet", "u", tmp_path / "store", "--categories", "n=*")
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


@pytest.mark.parametrize("kind", ["csv", "parquet", "dictionary"])
def test_bounds_of_categories_are_those_of_their_codes(kind, seed, tmp_path):
    """Codes are never clamped to another category."""
    path, store = tmp_path / ("t.csv" if kind == "csv" else "t.parquet"), tmp_path / "store"
    data, names = {"arm": ["low", "high", "other"]}, ["low", "high", "other"]
    arm = pyarrow.array(data["arm"])
    if kind == "csv":
        path.write_text(csv_text(data))
    else:
        pyarrow.parquet.write_table(pyarrow.table({"arm": arm.dictionary_encode() if kind != "parquet" else arm}), path)
    terms = tmp_path / "terms.toml"
    text = "column 'arm' has 3 categories and other bounds than those of their codes, 0 to 2; leave its bounds out"
    for lower, upper in ((0, 1), (1, 2), (0, 3), (-1, 2), (0.5, 1.5)):
        for declared in (None, {"arm": names}):
            for source in (path, data):
                with pytest.raises(sojourn.Error, match=text):
                    sojourn.plain(source, bounds={"arm": (lower, upper)}, categories=declared)
        assert text in bring(path, "t", store, "--bound", f"arm={lower}:{upper}", code=1)
        terms.write_text(f"arm = {{lower = {lower}, upper = {upper}, categories = {names}}}\n")
        assert text in bring(path, "t", store, "--bounds", terms, code=1)
        words = ["--bound", f"arm={lower}:{upper}", "--categories", "arm=low,high,other", "--rows-are-subjects"]
        assert text in tool("import", path, "--name", "t", "--store", store, *words, code=1)
    assert "no datasets" in tool("datasets", "--store", store)
    bring(path, "t", store, "--bound", "arm=0:2", "--categories", "arm=low,high,other")
    with sojourn.local(store=store) as owner:
        assert read(owner.dataset("t")) == {"arm": [0, 1, 2]} and owner.dataset("t").columns[0].bounds == (0, 2)


def test_fills_that_are_no_category(seed, tmp_path):
    """Neither one of them nor a code: named with their number, never with the texts."""
    data = {"arm": ["low", "high", None], "ward": [7, 5, None]}
    path, store, terms = tmp_path / "t.csv", tmp_path / "store", tmp_path / "terms.toml"
    path.write_text(csv_text(data))
    names = {"arm": ["low", "high"], "ward": [7, 5]}
    words = ["--categories", "arm=low,high", "--categories", "ward=7,5"]
    for column, fill in (("arm", 2), ("arm", -1), ("arm", 0.5), ("arm", "hihg"), ("ward", 1), ("ward", 0), ("ward", 7.5), ("ward", "low")):  # fmt: skip
        fills = {"arm": "low", "ward": 7} | {column: fill}
        text = f"column '{column}'.*(none of its 2 categories|a code from 0 to 1)"
        for source in (path, data):
            with pytest.raises(sojourn.Error, match=text):
                sojourn.plain(source, fills=fills, categories=names)
        refused = bring(path, "t", store, *words, *(f"--fill={name}={each}" for name, each in fills.items()), code=1)
        assert re.search(text, refused), refused
        given = [f"{name} = {{fill = {each!r}, categories = {names[name]}}}\n" for name, each in fills.items()]
        terms.write_text("".join(given))
        assert re.search(text, bring(path, "t", store, "--bounds", terms, code=1))
    for fill in ("nan", "inf", "-inf"):
        refused = bring(path, "t", store, *words, "--fill", "ward=7", "--fill", f"arm={fill}", code=1)
        assert "column 'arm' has a fill that is not finite" in refused
    assert "no datasets" in tool("datasets", "--store", store)


def test_categories_of_rows_stop_at_the_limit(seed, tmp_path):
    """One more than the limit is counted, of 70,000 texts and numbers."""
    (tmp_path / "t.csv").write_text("a,n\n" + "".join(f"x{number},{number}\n" for number in range(70_000)))
    for column in ("a", "n"):
        refused = bring(
            tmp_path / "t.csv", "t", tmp_path / "s", "--columns", column, "--categories", f"{column}=*", code=1
        )
        assert f"column '{column}' has 65537 categories, the limit is 65536; group the rare ones" in refused


def test_files_of_categories_are_bounded_before_they_are_read(seed, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("arm\nlow\n")
    large, many, folder, pipe, most = (tmp_path / name for name in ("large", "many", "folder", "pipe", "most"))
    with open(large, "wb") as file:
        file.truncate(2**40)  # which no disk holds
    folder.mkdir()
    os.mkfifo(pipe)
    many.write_text("".join(f"{number}\n" for number in range(70_000)))
    most.write_text("\n".join(["low", *map(str, range(65_535))]))
    for given, text in (
        (large, "has 1099511627776 bytes, the limit of a table's categories is 16777216"),
        (folder, "cannot read categories from"),
        (pipe, "cannot read categories from"),
        ("/dev/zero", "cannot read categories from"),
        (tmp_path / "nothing", "cannot read categories from"),
        (many, "column 'arm' has 65537 categories, the limit is 65536"),
    ):
        assert text in bring(path, "t", tmp_path / "store", "--categories", f"arm=@{given}", code=1), given
    large.write_bytes(b"\n" * 2**24)
    refused = bring(path, "t", tmp_path / "store", "--categories", f"arm=@{large}", code=1)
    assert "line 1: found an empty line, expected one category per line" in refused
    bring(path, "t", tmp_path / "store", "--categories", f"arm=@{most}")
    with sojourn.local(store=tmp_path / "store") as owner:
        assert len(owner.dataset("t").columns[0].categories) == 65_536 and read(owner.dataset("t")) == {"arm": [0]}


def test_found_categories_of_a_table_made_private_by_hand(seed, tmp_path):
    """Neither they nor their number reach a client, whoever wrote the catalogue; the declared ones do."""
    secret, store = f"secret{seed}", tmp_path / "store"
    path = tmp_path / "t.csv"
    path.write_text(f"arm,ward\nlow,y\n{secret},n\n")
    bring(path, "t", store, "--categories", "ward=n,y", "--fill", "ward=n")
    with sojourn.local(store=store) as owner:
        assert owner.dataset("t").columns[0].categories == ("low", secret)
    for policy, found in (("private", None), ("secret", None), ("open", ("low", secret))):
        with sqlite3.connect(store / "catalogue.db") as books:
            assert books.execute("UPDATE datasets SET policy = ?, subject = ''", [policy]).rowcount == 1
        books.close()
        listed = tool("datasets", "--store", store)
        with sojourn.local(store=store) as owner:
            table = owner.dataset("t")
            assert table.columns[0].categories == found and table.columns[1].categories == ("n", "y")
            assert table.columns[0].bounds == (found and (0, 1)) and table.columns[1].bounds == (0, 1)
            if found is None:
                assert secret not in str(table) + str(owner.datasets()) + listed
                owner.grant("t", epsilon=8.0, delta=1e-5)
                assert sojourn.publish(torch.bincount(table["arm"], minlength=2), epsilon=1.0).shape == (2,)
            else:
                assert secret in listed and read(table) == {"arm": [0, 1], "ward": [1, 0]}
