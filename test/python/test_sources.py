# SPDX-License-Identifier: Apache-2.0
"""Tables made of data frames, Arrow tables and dicts with text, dates and missing entries.

The oracle is Python: the position of a text in a list, the days and seconds that datetime counts. pandas and polars need
not be installed; their tests are skipped then.
"""

import datetime
import decimal

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import torch
from private_support import make_table

import sojourn

DAY = datetime.date(1970, 1, 1)
BERLIN = datetime.timezone(datetime.timedelta(hours=2))


@pytest.fixture(params=["plain", "native", "numpy"])
def made(request, seed):
    """Makes an open table and reads its columns: in this process, or at an owner of either runtime."""
    if request.param == "plain":
        yield lambda source, **terms: sojourn.plain(source, **terms)
        return
    with sojourn.local(runtime=request.param) as owner:
        yield lambda source, **terms: owner.register("t", source, policy="open", **terms)


def read(table, name):
    return sojourn.publish(table[name]).tolist()


def column(table, name):
    return next(each for each in table.columns if each.name == name)


def people(rng, rows=23):
    """Columns as lists of Python's values."""
    return {
        "arm": [rng.choice(["placebo", "low", "high"]) for _ in range(rows - 3)] + ["high", "low", "placebo"],
        "age": [rng.randrange(18, 90) for _ in range(rows)],
        "dose": [rng.uniform(0, 5) for _ in range(rows)],
        "ill": [rng.random() < 0.4 for _ in range(rows)],
        "born": [DAY + datetime.timedelta(days=rng.randrange(-9000, 19000)) for _ in range(rows)],
        "seen": [datetime.datetime(2024, 1, 1) + datetime.timedelta(seconds=rng.randrange(10**7), milliseconds=250) for _ in range(rows)],
    }  # fmt: skip


def expected(data):
    """The same as numbers."""
    names = sorted(set(data["arm"]))
    utc = datetime.UTC
    return {
        "arm": [names.index(each) for each in data["arm"]],
        "age": data["age"],
        "dose": data["dose"],
        "ill": data["ill"],
        "born": [(each - DAY).days for each in data["born"]],
        "seen": [each.replace(tzinfo=utc).timestamp() for each in data["seen"]],
    }


def frames(data):
    """Each kind of source that this process can make of the columns."""
    yield "lists", data
    yield "arrays", {name: np.array(values) for name, values in data.items()} | {
        "born": np.array(data["born"], dtype="datetime64[D]"), "seen": np.array(data["seen"], dtype="datetime64[ms]")
    }  # fmt: skip
    table = pyarrow.table(data)
    yield "arrow", table
    yield "batch", table.combine_chunks().to_batches()[0]
    yield "chunks", pyarrow.concat_tables([table.slice(0, 7), table.slice(7)])
    yield "columns", {name: table.column(name) for name in data}


def check(made, data, source, days=True):
    table = made(source)
    assert len(table) == len(data["arm"]) and [each.name for each in table.columns] == list(data)
    for name, values in expected(data).items():
        found = read(table, name)
        if name == "born" and not days:
            values = [each * 86400.0 for each in values]
        assert found == pytest.approx(values, rel=1e-12, abs=1e-6), name
    assert column(table, "arm").categories == ("high", "low", "placebo") and column(table, "age").categories is None
    assert column(table, "arm").dtype == torch.int64 and column(table, "arm").bounds == (0, 2)
    assert column(table, "born").dtype == (torch.int64 if days else torch.float64)
    assert column(table, "seen").dtype == torch.float64 and column(table, "ill").dtype == torch.bool
    return table


@pytest.mark.parametrize("kind", ["lists", "arrays", "arrow", "batch", "chunks", "columns"])
def test_sources_are_equal(made, rng, kind):
    data = people(rng)
    check(made, data, dict(frames(data))[kind])


@pytest.mark.parametrize("dtype", ["numpy", "pyarrow", "nullable"])
def test_pandas(made, rng, dtype):
    pandas = pytest.importorskip("pandas", reason="tools/setup --libraries installs it")
    data = people(rng)
    frame = pandas.DataFrame(data)
    if dtype == "pyarrow":
        frame = pandas.DataFrame({k: pandas.Series(pyarrow.array(v), dtype=pandas.ArrowDtype(pyarrow.array(v).type)) for k, v in data.items()})  # fmt: skip
    elif dtype == "nullable":
        frame = frame.convert_dtypes()
    check(made, data, frame)
    frame["arm"] = pandas.Categorical(data["arm"], categories=["placebo", "low", "high", "other"])
    frame["born"] = pandas.to_datetime(frame["born"])
    table = sojourn.plain(frame)
    assert column(table, "arm").categories == ("placebo", "low", "high", "other")
    assert read(table, "arm") == [["placebo", "low", "high"].index(each) for each in data["arm"]]
    assert read(table, "born") == [(each - DAY).days * 86400.0 for each in data["born"]]


def test_pandas_with_gaps(seed, rng):
    pandas = pytest.importorskip("pandas", reason="tools/setup --libraries installs it")
    frame = pandas.DataFrame({"n": pandas.array([1, None, 3], dtype="Int64"), "x": [1.0, np.nan, 2.0], "s": ["a", None, "b"], "f": pandas.array([True, None, False], dtype="boolean")})  # fmt: skip
    table = sojourn.plain(frame, fills={"n": 7, "x": 0.5, "s": "b", "f": 1})
    assert {name: read(table, name) for name in frame} == {
        "n": [1, 7, 3],
        "x": [1, 0.5, 2],
        "s": [0, 1, 1],
        "f": [1, 1, 0],
    }
    for name in frame:
        with pytest.raises(sojourn.Error, match=f"column '{name}', row 1 .counting from 0.: .*found.*replacement"):
            sojourn.plain({name: frame[name]})
    arrays = pandas.DataFrame({"image": [np.full((2, 2), k) for k in range(3)]})
    assert sojourn.plain(arrays)["image"].shape == (3, 2, 2)


def test_polars(made, rng):
    polars = pytest.importorskip("polars", reason="tools/setup --libraries installs it")
    data = people(rng)
    check(made, data, polars.DataFrame(data))
    check(lambda source: sojourn.plain(source), data, {name: polars.Series(values) for name, values in data.items()})
    enum = polars.Series("arm", data["arm"], dtype=polars.Enum(["placebo", "low", "high"]))
    table = sojourn.plain(polars.DataFrame([enum, polars.Series("n", [1, None] + [5] * 21)]), fills={"n": 2})
    assert column(table, "arm").categories == ("placebo", "low", "high")
    assert read(table, "arm") == [["placebo", "low", "high"].index(each) for each in data["arm"]]
    assert read(table, "n") == [1, 2] + [5] * 21
    with pytest.raises(sojourn.Error, match=r"got LazyFrame; call .collect\(\) on it first"):
        sojourn.plain(polars.DataFrame(data).lazy())


def test_declared_categories(made, rng):
    data = people(rng)
    names = ["low", "other", "placebo", "high"]
    table = made(data, categories={"arm": names, "age": range(10, 100)})
    assert read(table, "arm") == [names.index(each) for each in data["arm"]]
    assert column(table, "arm").categories == tuple(names) and column(table, "arm").bounds == (0, 3)
    assert read(table, "age") == [each - 10 for each in data["age"]] and column(table, "age").categories[0] == 10
    first, second = table.split(0.5)
    assert column(first, "arm").categories == column(second, "arm").categories == tuple(names)
    assert "arm: 0 low, 1 other, 2 placebo, 3 high" in repr(table) and "78 more" in repr(table)
    assert "categories=('low', 'other'" in repr(column(table, "arm")) and "categories" not in repr(
        column(table, "dose")
    )
    tensor = made if made is None else sojourn.plain({"code": torch.tensor([5, 9, 5])}, categories={"code": [9, 5]})
    assert read(tensor, "code") == [1, 0, 1]


def test_categories_in_notebooks_are_escaped(seed):
    table = sojourn.plain({"arm": ["<b>", "a&b"]})
    assert "&lt;b&gt;" in table._repr_html_() and "<b>," not in table._repr_html_() and "a&amp;b" in table._repr_html_()


@pytest.mark.parametrize("bounds", [(0, 1), (1, 2), (-1, 2), (0, 3), (0.5, 1.5)])
def test_codes_are_never_clamped(made, bounds):
    source = {"arm": ["b", "c", "a"]}
    with pytest.raises(
        sojourn.Error, match="column 'arm'.* 3 categories.* bounds|column 'arm'.* bounds .* 3 categories"
    ):
        made(source, bounds={"arm": bounds})
    table = made(source, bounds={"arm": (0, 2)})
    assert read(table, "arm") == [1, 2, 0] and column(table, "arm").bounds == (0, 2)


def test_dictionaries_with_equal_entries(made):
    """The first of them is the category."""
    arm = pyarrow.DictionaryArray.from_arrays([2, 0, None, 1, 3], ["a", "b", "a", None])
    ward = pyarrow.DictionaryArray.from_arrays([0, 1, 2, 2, 1], pyarrow.array([7, 7, 5]))
    table = made({"arm": arm, "ward": pyarrow.chunked_array([ward, ward]).slice(0, 5)}, fills={"arm": "b"})
    assert read(table, "arm") == [0, 0, 1, 1, 1] and column(table, "arm").categories == ("a", "b")
    assert read(table, "ward") == [0, 0, 1, 1, 0] and column(table, "ward").categories == (7, 5)


def test_fills_among_integers_are_exact(made, rng):
    """Neighbours that one float stands for."""
    odd = 2**53 + 1 + 2 * rng.randrange(2**20)
    names = rng.sample([odd - 1, odd, odd + 1], 3)
    for name, fill in enumerate([names[1], np.int64(names[1])]):
        source = {f"n{name}": [*names, None]}
        table = sojourn.plain(source, categories={f"n{name}": names}, fills={f"n{name}": fill})
        assert read(table, f"n{name}") == [0, 1, 2, 1] and column(table, f"n{name}").fill == 1
    source = pyarrow.table({"n": [*names, None]})
    with pytest.raises(sojourn.Error, match="is none of its 3 categories"):
        made(source, categories={"n": names}, fills={"n": np.float64(2.0**60)})
    assert read(made(source, categories={"n": names}, fills={"n": odd}), "n") == [0, 1, 2, names.index(odd)]


def test_days_before_1970(made, rng):
    """Rounded down, also where a day's count of milliseconds is none."""
    counts = [-1, 0, 1, -86_400_000, -86_400_001, 86_399_999, -(2**63), 2**63 - 1, rng.randrange(-(2**62), 2**62)]
    table = made({"day": pyarrow.array(counts).view(pyarrow.date64())})
    assert read(table, "day") == [count // 86_400_000 for count in counts]


@pytest.mark.parametrize("source", ["text", "dictionary"])
def test_private_tables_declare_their_categories(seed, source):
    """Texts that are found in rows tell of rows: not in the table, and not in a refusal."""
    secret = [f"secret{seed}", "a", "b", "a"]
    values = pyarrow.array(secret).dictionary_encode() if source == "dictionary" else secret
    with sojourn.local() as owner:
        for terms in ({}, {"bounds": {"arm": (0, 2)}}):
            with pytest.raises(sojourn.Error, match="column 'arm' holds text .* must be declared") as refused:
                owner.register("people", {"arm": values}, policy="private", **terms)
            assert "secret" not in str(refused.value)
        with pytest.raises(sojourn.Error, match="row 0 .*found outside of its 2 categories") as refused:
            owner.register("people", {"arm": values}, policy="private", categories={"arm": ["a", "b"]})
        assert "secret" not in str(refused.value) and not owner.datasets()
        declared = ["a", "b", "c", f"secret{seed}"]
        table = owner.register("people", {"arm": values}, policy="private", categories={"arm": declared})
        assert table.columns[0].categories == owner.dataset("people").columns[0].categories == tuple(declared)
        assert table.columns[0].bounds == (0, 3) and owner.datasets()[0].columns[0].categories == tuple(declared)


def test_statistics_of_categories(rng):
    data = people(rng, 400)
    with sojourn.local() as owner:
        names = ["placebo", "low", "high"]
        bounds = {"born": (datetime.date(1940, 1, 1), datetime.date(2024, 12, 31))}
        source = {"arm": data["arm"], "born": data["born"]}
        table = make_table(owner, source, bounds, categories={"arm": names})
        assert column(table, "born").bounds == (
            (datetime.date(1940, 1, 1) - DAY).days,
            (datetime.date(2024, 12, 31) - DAY).days,
        )
        counts = sojourn.publish(torch.bincount(table["arm"], minlength=3), epsilon=50.0)
        assert [round(float(count)) for count in counts] == pytest.approx([data["arm"].count(n) for n in names], abs=3)
        mean = sojourn.publish(table["born"].double().mean(), epsilon=50.0)
        assert float(mean) == pytest.approx(np.mean([(each - DAY).days for each in data["born"]]), abs=60)


def test_dates_and_times(made, rng):
    at = datetime.datetime(2024, 3, 1, 12, 30, 15, 250000)
    source = {
        "date64": pyarrow.array([at.date()], pyarrow.date64()),
        "zoned": [at.replace(tzinfo=BERLIN)],
        "s": pyarrow.array([at.replace(microsecond=0)], pyarrow.timestamp("s")),
        "ns": np.array([at], dtype="datetime64[ns]"),
        "span": [datetime.timedelta(minutes=3, milliseconds=500)],
        "clock": [at.time()],
        "day": [at.date()],
    }
    table = made(source, bounds={"s": (at - datetime.timedelta(1), at), "day": (np.datetime64("2024-01-01"), 10**6)})
    seconds = at.replace(tzinfo=datetime.UTC).timestamp()
    wanted = {
        "date64": 19783, "zoned": seconds - 7200, "s": seconds - 0.25, "ns": seconds, "span": 180.5,
        "clock": 12 * 3600 + 30 * 60 + 15.25, "day": 19783,
    }  # fmt: skip
    assert {name: read(table, name) for name in source} == {name: [value] for name, value in wanted.items()}
    assert column(table, "s").bounds == (seconds - 86400, seconds) and column(table, "day").bounds == (19723, 10**6)


@pytest.mark.parametrize(
    "strange",
    [np.datetime64("10000-01-01"), np.datetime64("-0001-01-01"), np.datetime64("NaT"), np.timedelta64("NaT"),
     np.datetime64(2**62, "D"), np.timedelta64(2**62, "D"), np.timedelta64(1, "Y")],
)  # fmt: skip
def test_moments_beyond_those_of_python(strange, seed, tmp_path):
    """Refused by name, in memory and for a file, whose column is not read yet."""
    pyarrow.parquet.write_table(pyarrow.table({"day": [DAY, None]}), tmp_path / "t.parquet")
    for source in ({"day": [DAY, None]}, tmp_path / "t.parquet"):
        for terms in ({"fills": {"day": strange}}, {"fills": {"day": DAY}, "bounds": {"day": (DAY, strange)}}):
            if source == tmp_path / "t.parquet" and "bounds" in terms and isinstance(strange, np.timedelta64):
                continue  # no moment: a bound of another type
            with pytest.raises(sojourn.Error, match="must be moments that Python's datetime holds"):
                sojourn.plain(source, **terms)


def test_missing_entries(made, rng):
    day, at = datetime.date(2024, 3, 1), datetime.datetime(2024, 3, 1, 12)
    source = pyarrow.table({
        "n": pyarrow.array([1, None, 3], pyarrow.int32()), "u": pyarrow.array([1, None, 3], pyarrow.uint16()),
        "x": pyarrow.array([1.5, None, 2.5]), "s": ["a", None, "b"], "f": [True, None, False], "day": [day, None, day],
        "at": [at, None, at], "none": pyarrow.nulls(3), "price": [decimal.Decimal("1.25"), None, decimal.Decimal("2.5")],
    })  # fmt: skip
    fills = {"n": 7, "u": 9, "x": 0.5, "s": "b", "f": 0, "day": day, "at": at, "none": 4, "price": 1}
    table = made(source, fills=fills)
    days, seconds = (day - DAY).days, at.replace(tzinfo=datetime.UTC).timestamp()
    assert {name: read(table, name) for name in fills} == {
        "n": [1, 7, 3], "u": [1, 9, 3], "x": [1.5, 0.5, 2.5], "s": [0, 1, 1], "f": [1, 0, 0], "day": [days] * 3,
        "at": [seconds] * 3, "none": [4.0] * 3, "price": [1.25, 1, 2.5],
    }  # fmt: skip
    for name in fills:
        with pytest.raises(sojourn.Error, match=f"column '{name}', row [01] .*found.* declare a replacement"):
            sojourn.plain({name: source.column(name)})


def test_entries_with_a_shape(made, rng):
    images = [[[rng.random() for _ in range(3)] for _ in range(2)] for _ in range(4)]
    kind = pyarrow.list_(pyarrow.list_(pyarrow.float64(), 3), 2)
    table = made(pyarrow.table({"image": pyarrow.array(images, kind), "codes": [[1, 2]] * 4}))
    assert column(table, "image").shape == (2, 3) and read(table, "image") == images
    assert column(table, "codes").shape == (2,) and column(table, "codes").dtype == torch.int64


def test_only_the_chosen_columns_are_converted(seed):
    source = pyarrow.table({"x": [1.0], "blob": [b"binary"]})
    assert [each.name for each in sojourn.plain(source, columns=["x"]).columns] == ["x"]
    with pytest.raises(sojourn.Error, match="column 'blob' has type binary"):
        sojourn.plain(source)
    with pytest.raises(sojourn.Error, match="y"):
        sojourn.plain({"x": [1.0]}, columns=["y"])


@pytest.mark.parametrize(
    "source, terms, text",
    [
        ({"a": ["x"]}, {"categories": {"b": ["x"]}}, "categories name column 'b', which the source lacks; columns: a"),
        ({"a": ["x"]}, {"categories": {"a": "x"}}, "must be a list"),
        ({"a": ["x"]}, {"categories": ["x"]}, "must map a column to its categories"),
        ({"a": ["x"]}, {"categories": {"a": ["x", "x"]}}, "must be different and at least one"),
        ({"a": ["x"]}, {"categories": {"a": []}}, "must be different and at least one"),
        ({"a": ["x"]}, {"categories": {"a": ["x", 1]}}, "must be all str or all int"),
        ({"a": ["x"]}, {"categories": {"a": [1, 2]}}, "column 'a' has type string, its categories are int"),
        ({"a": [1]}, {"categories": {"a": ["x"]}}, "column 'a' has type int64, its categories are str"),
        (
            {"a": ["x", None]},
            {"fills": {"a": "y"}},
            "fill 'y' of column 'a' is none of its 1 categories; name one of them",
        ),
        ({"a": ["x", None]}, {"fills": {"a": 1}}, "fill 1 of column 'a' is none of its 1 categories"),
        ({"a": ["x", None]}, {"fills": {"a": 0.5}}, "fill 0.5 of column 'a' is none of its 1 categories"),
        ({"a": ["x", None]}, {"fills": {"a": True}}, "fill True of column 'a' is none of its 1 categories"),
        ({"a": ["x", None]}, {"fills": {"a": ["x"]}}, "of column 'a' is none of its 1 categories"),
        ({"a": ["x", None]}, {"fills": {"a": np.array(["x", "y"])}}, "of column 'a' is none of its 1 categories"),
        ({"a": [7, 5]}, {"categories": {"a": [7, 5]}, "fills": {"a": 1}}, "fill 1 of column 'a' is none of its 2"),
        ({"a": [1, None]}, {"fills": {"a": 0.5}}, "fill 0.5 of column 'a' must be a number of its type, int64"),
        ({"a": [1, "x"]}, {}, "column 'a' has type object; a table holds"),
        ({"a": [np.datetime64("2024-03-01"), None]}, {}, "column 'a' has type object; a table holds"),
        ({"a": [object()]}, {}, "column 'a' has type object; a table holds"),
        (pyarrow.table([[1], [2]], names=["a", "a"]), {}, "several columns named 'a'"),
        ("people.csv", {"categories": {"a": ["x"]}}, "cannot read 'people.csv': no such file"),
        (7, {}, "source must be a path, a dict of arrays, .* got int"),
    ],
)
def test_refusals(seed, source, terms, text):
    with pytest.raises(sojourn.Error, match=text):
        sojourn.plain(source, **terms)
    with sojourn.local() as owner, pytest.raises(sojourn.Error, match=text):
        owner.register("t", source, policy="open", **terms)


def test_subjects_of_text_come_from_files(seed, tmp_path):
    with sojourn.local() as owner, pytest.raises(sojourn.Error, match="text for subjects, which only a file may have"):
        owner.register("t", {"who": ["ada"], "x": [1.0]}, bounds={"x": (0, 1)}, subject="who")
