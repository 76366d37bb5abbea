# SPDX-License-Identifier: Apache-2.0
"""Tables: the documented row order, batches and columns, on the CPU and at an owner.

The order is checked against a second implementation, written from the op's text, and that one
against Philox's known answers; batches against plain indexing with that order.
"""

import random
import re

import numpy as np
import pytest
import torch
from oracle import row_order

import sojourn
from sojourn import plain


@pytest.fixture(scope="module")
def data():
    generator = np.random.default_rng(20)
    rows = 101
    return {
        "age": generator.integers(0, 100, rows),
        "weight": generator.normal(70, 12, rows),
        "height": generator.normal(170, 9, rows).astype(np.float32),
        "smoker": generator.random(rows) < 0.3,
        "y": generator.integers(0, 3, rows).astype(np.int32),
    }


OPEN = []


@pytest.fixture(autouse=True)
def close_owners():
    """A process has a bounded number of owners."""
    yield
    while OPEN:
        OPEN.pop().close()


# How tables are made: each test below runs on each of them.
def plain_table(data, **options):
    return plain(data, name="people", **options)


def remote_table(data, runtime="native", **options):
    OPEN.append(sojourn.local(runtime=runtime))
    return OPEN[-1].register("people", data, policy="open", **options)


def numpy_table(data, **options):
    return remote_table(data, runtime="numpy", **options)


@pytest.fixture(params=[plain_table, remote_table, numpy_table], ids=["plain", "owner", "owner-numpy"])
def make(request):
    return request.param


def values(tensor):
    return sojourn.publish(tensor)


@pytest.mark.parametrize(
    "counter, key, expected",
    [
        ((0,) * 4, (0,) * 2, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_philox_known_answers(counter, key, expected):
    """The oracle of the order is built on Philox; it uses the first word."""
    assert f"{row_order.philox_word(counter, key):08x}" == expected.split()[0]


def test_order_is_the_documented_function():
    for rows, seed, epoch in [(1, 0, 0), (7, 3, 1), (64, -5, 2), (129, 2**40 + 9, 2**33 + 1), (1000, 5, -1)]:
        assert sojourn.batch_indices(rows, rows, seed, epoch)[0].tolist() == row_order.order(rows, seed, epoch).tolist()


def test_splits_are_the_documented_function(rng):
    for rows in (2, 11, 300):
        seed = rng.getrandbits(63)
        first, other = sojourn.split_indices(rows, 0.7, seed)
        expected = row_order.order(rows, seed, 2**32 - 1).tolist()
        assert first.tolist() + other.tolist() == expected and len(first) == round(0.7 * rows)


def test_batch_indices_cover_every_row_once():
    for rows, size in [(1, 1), (10, 3), (12, 4), (5, 9)]:
        batches = sojourn.batch_indices(rows, size, seed=8, epoch=2)
        assert [len(batch) for batch in batches] == [size] * (rows // size) + [rows % size] * (rows % size > 0)
        assert sorted(torch.cat(batches).tolist()) == list(range(rows))
        assert all(batch.dtype == torch.int64 for batch in batches)


def test_facts_and_repr(make, data):
    table = make(data, bounds={"age": (0, 120)})
    assert (table.name, int(table.rows), len(table), table.policy) == ("people", 101, 101, "open")
    assert [column.name for column in table.columns] == list(data)
    assert [column.dtype for column in table.columns] == [
        torch.int64,
        torch.float64,
        torch.float32,
        torch.bool,
        torch.int32,
    ]
    assert table.columns[0].bounds == (0, 120) and table.columns[1].bounds is None
    assert all(column.shape == () for column in table.columns)
    assert repr(table.columns[0]) == "Column(name='age', dtype=torch.int64, shape=(), bounds=(0.0, 120.0))"
    text = repr(table)
    assert text.splitlines()[0] == "people: 101 rows, 5 columns, policy open"
    assert "[0, 120]" in text and "height" in text
    assert all(f"{value:.6g}" not in text for value in data["weight"])
    assert "<table>" in table._repr_html_()


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("drop_last", [True, False])
def test_batches_follow_the_documented_order(make, data, shuffle, drop_last):
    size = random.choice([1, 7, 32, 101, 200]) if not drop_last else random.choice([1, 7, 32])
    seed = random.getrandbits(62)
    print(f"size {size}, seed {seed}")
    table = make(data)
    features = ["weight", "smoker", "height"]
    batches = table.batches(features, label="y", size=size, epochs=2, shuffle=shuffle, seed=seed, drop_last=drop_last)
    expected = []
    for epoch in range(2):
        order = sojourn.batch_indices(101, size, seed, epoch, drop_last=drop_last)
        if not shuffle:
            order = [torch.arange(k * size, k * size + len(batch)) for k, batch in enumerate(order)]
        expected += order
    got = list(batches)
    assert len(got) == len(batches) == len(expected)
    for (x, y), rows in zip(values(got), expected):
        rows = rows.numpy()
        assert (x.dtype, y.dtype, y.shape) == (torch.float32, torch.int64, (len(rows),))
        wanted = np.stack([data[name][rows].astype(np.float32) for name in features], axis=1)
        assert np.array_equal(x.numpy(), wanted)
        assert np.array_equal(y.numpy(), data["y"][rows])


def test_split_has_every_row_once_and_nests(make, data):
    table = make(data)
    train, test = table.split(0.8, seed=4)
    fit, valid = train.split(0.5, seed=4)
    assert (len(train), len(test), len(fit), len(valid)) == (81, 20, 41, 40)
    parts = values([part["weight"] for part in (fit, valid, test)])
    assert np.array_equal(np.sort(torch.cat(parts).numpy()), np.sort(data["weight"]))
    first, other = sojourn.split_indices(101, 0.8, 4)
    assert np.array_equal(values(train["weight"]).numpy(), data["weight"][first.numpy()])
    assert np.array_equal(parts[2].numpy(), data["weight"][other.numpy()])
    x, y = values(next(iter(valid.batches(["age"], "y", size=9, seed=1))))
    inner = sojourn.split_indices(81, 0.5, 4)[1][sojourn.batch_indices(40, 9, 1, 0)[0]]
    assert np.array_equal(x[:, 0].numpy(), data["age"][first[inner].numpy()].astype(np.float32))
    assert np.array_equal(y.numpy(), data["y"][first[inner].numpy()])
    assert "split 0.8" in repr(train).splitlines()[0]


def test_whole_columns(make, data):
    table = make(data)
    for name, array in data.items():
        column = values(table[name])
        assert np.array_equal(column.numpy(), array) and column.numpy().dtype == array.dtype
    wide = values(table.rows(features=["age", "weight"], dtype=torch.float64))
    assert np.array_equal(wide.numpy(), np.stack([data["age"], data["weight"]], 1))
    assert values(table.rows()).shape == (101, 5)
    assert "age" in table and "Age" not in table


def test_bounds_clamp(make):
    table = make({"a": np.array([-3.0, 0.5, 99.0])}, bounds={"a": (0, 10)})
    assert values(table["a"]).tolist() == [0.0, 0.5, 10.0]


def test_a_float_label_keeps_its_fraction(make):
    table = make({"a": np.arange(3), "b": np.array([-1.7, 1.7, 2.5]), "c": np.array([1.25, 0, 3], np.float16)})
    for label in ("b", "c"):
        _, y = values(next(iter(table.batches(["a"], label, size=3, shuffle=False))))
        assert y.dtype == torch.float32 and y.shape == (3,)
        assert torch.equal(y, values(table[label]).float())
    _, y = values(next(iter(table.batches(["a"], "b", size=3, shuffle=False, label_dtype=torch.int64))))
    assert y.tolist() == [-1, 1, 2]
    _, y = values(next(iter(table.batches(["a"], "b", size=3, shuffle=False, label_dtype=torch.float64))))
    assert y.dtype == torch.float64 and y.tolist() == [-1.7, 1.7, 2.5]


@pytest.mark.parametrize(
    "column, dtype",
    [("age", torch.int64), ("weight", torch.float32), ("height", torch.float32), ("smoker", torch.int64)],
)
def test_one_name_reads_one_column(make, data, column, dtype):
    """Features by one name are that column alone, as a label is: [B], in the kind of its type."""
    table = make(data)
    x, y = values(next(iter(table.batches(column, column, size=7, seed=3))))
    rows = sojourn.batch_indices(101, 7, 3, 0)[0].numpy()
    assert (x.dtype, x.shape, y.dtype, y.shape) == (dtype, (7,), dtype, (7,))
    assert torch.equal(x, y) and torch.equal(x, torch.from_numpy(data[column][rows]).to(dtype))
    assert next(iter(table.batches([column], size=7))).shape == (7, 1)
    assert next(iter(table.batches([column], size=7))).dtype == torch.float32
    whole = table.rows(column)
    assert (whole.dtype, whole.shape) == (dtype, (101,))
    assert torch.equal(values(whole), torch.from_numpy(data[column]).to(dtype))
    assert table.rows(column, dtype=torch.float64).dtype == torch.float64
    assert next(iter(table.batches(column, size=7, dtype=torch.float64))).dtype == torch.float64


def test_what_is_read_is_the_reader_s_own(make, data):
    """Changing what was read changes no later read of the same rows."""
    table = make(data)
    first = table["weight"]
    first.mul_(0)
    second = table["weight"]
    first.add_(1)
    assert np.array_equal(values(second).numpy(), data["weight"])
    assert values(first).tolist() == [1.0] * 101


class Programs:
    """The ops of the programs that one owner ran meanwhile, in core form."""

    def __init__(self):
        self.owner = OPEN[-1]
        self.before = {program["hash"] for program in self.owner.programs()}

    def new(self):
        return [p["text"] for p in self.owner.programs(with_text=True) if p["hash"] not in self.before]


def test_equal_requests_are_recorded_once(data):
    """One table argument with the union of the columns, and one draw for what is drawn twice."""
    table = remote_table(data)
    _, valid = table.split(0.75, seed=2)
    programs = Programs()
    with sojourn.step():
        x, y = next(iter(valid.batches(["age", "weight"], "y", size=9, seed=1)))
        again, label = next(iter(valid.batches(["age", "weight"], "y", size=9, seed=1)))
        whole, column, twice = valid.rows(["height"]), valid["weight"], valid["weight"]
        result = sojourn.publish([x, y, again, label, whole, column, twice])
    (text,) = programs.new()
    names = re.findall(r'"(\w+)" : \w+', re.search(r"!sojourn\.table<101, ([^>]*)>", text).group(1))
    assert sorted(names) == ["age", "height", "weight", "y"]
    assert len(re.findall(r'sojourn\.kind = "table"', text)) == 1
    # Batch and split of the batch, split of the whole part.
    assert text.count("sojourn.sample_rows ") == 3
    assert text.count("sojourn.read_rows ") == 4
    x, y, again, label, whole, column, twice = result.value
    _, other = sojourn.split_indices(101, 0.75, 2)
    rows = other[sojourn.batch_indices(len(valid), 9, 1, 0)[0]].numpy()
    assert np.array_equal(x.numpy(), np.stack([data["age"], data["weight"]], 1)[rows].astype(np.float32))
    assert np.array_equal(y.numpy(), data["y"][rows])
    assert torch.equal(x, again) and torch.equal(y, label) and torch.equal(column, twice)
    assert np.array_equal(column.numpy(), data["weight"][other.numpy()])
    assert np.array_equal(whole[:, 0].numpy(), data["height"][other.numpy()])


def test_a_failed_step_takes_its_columns_back(data):
    table = remote_table(data)
    programs = Programs()
    kept = table["age"] + 1
    with pytest.raises(ZeroDivisionError):
        with sojourn.step():
            lost = table["weight"] + table["age"]
            raise ZeroDivisionError
    after = values([kept + table["age"], table["smoker"]])
    assert np.array_equal(after[0].numpy(), 2 * data["age"] + 1) and np.array_equal(after[1].numpy(), data["smoker"])
    assert not any('"weight"' in text for text in programs.new())
    with pytest.raises(sojourn.Error, match="has no value"):
        values(lost)


def test_batches_of_all_epochs_run_one_program(data):
    table = remote_table(data)
    train, _ = table.split(0.8, seed=9)
    programs = Programs()
    seen = []
    for x, y in train.batches(["age"], "weight", size=27, epochs=3, seed=4):
        seen.append(values([x, y]))
    (text,) = programs.new()
    assert "!sojourn.table<?, " in text and ", part = [first " in text and ", split = [first " in text
    first, _ = sojourn.split_indices(101, 0.8, 9)
    wanted = [first[rows].numpy() for epoch in range(3) for rows in sojourn.batch_indices(81, 27, 4, epoch)]
    for (x, y), rows in zip(seen, wanted, strict=True):
        assert np.array_equal(x[:, 0].numpy(), data["age"][rows].astype(np.float32))
        assert np.array_equal(y.numpy(), data["weight"][rows].astype(np.float32))
    for epoch in range(3):
        rows = np.concatenate(wanted[3 * epoch : 3 * epoch + 3])
        assert sorted(rows.tolist()) == sorted(first.tolist())


def test_tables_of_any_length_run_one_program(data):
    """What batches of splits do is said in fractions; the owner counts the rows."""
    remote_table(data)
    lengths = {"people": 101, "few": 40, "more": 1000}
    columns = {name: np.resize(data["weight"], rows) for name, rows in lengths.items()}
    for name in ("few", "more"):
        OPEN[-1].register(name, {k: np.resize(x, lengths[name]) for k, x in data.items()}, policy="open")
    programs = Programs()
    for name, rows in lengths.items():
        _, valid = OPEN[-1].dataset(name).split(0.6, seed=3)
        fit, _ = valid.split(0.5, seed=8)
        x = values(next(iter(fit.batches(["weight"], size=7, seed=1))))
        other = sojourn.split_indices(rows, 0.6, 3)[1]
        first = other[sojourn.split_indices(len(other), 0.5, 8)[0]]
        wanted = first[sojourn.batch_indices(len(first), 7, 1, 0)[0]].numpy()
        assert len(fit) == len(first) == row_order.part_rows(rows, [(0.6, 1), (0.5, 0)])[0]
        assert np.array_equal(x[:, 0].numpy(), columns[name][wanted].astype(np.float32)), name
    (text,) = programs.new()
    assert text.count("sojourn.sample_rows ") == 3 and "!sojourn.table<?, " in text


def test_bounds_are_rounded_inwards():
    data = {
        "whole": np.array([-5, 0, 3, 9], dtype=np.int16),
        "single": np.array([0.0, 0.1, 0.2, 1.0], dtype=np.float32),
        "flag": np.array([True, False, True, False]),
    }
    bounds = {"whole": (-0.5, 3.5), "single": (0.1, 0.7), "flag": (1, 5)}
    tables = [plain(data, bounds=bounds), remote_table(data, bounds=bounds)]
    expected = {"whole": [0, 0, 3, 3], "flag": [True] * 4}
    for table in tables:
        for name, wanted in expected.items():
            assert values(table[name]).tolist() == wanted
        single = values(table["single"]).double()
        assert single.min() >= 0.1 and single.max() <= 0.7
    assert torch.equal(tables[0]["single"], values(tables[1]["single"]))


def test_tqdm_sees_the_length(make, data):
    batches = make(data).batches(["age"], "y", size=50, epochs=3)
    assert (len(batches), batches.per_epoch) == (9, 3)
    assert len(make(data).batches(["age"], size=50, drop_last=True)) == 2


@pytest.mark.parametrize(
    "use, text",
    [
        (lambda t: t["agee"], "no column 'agee'; did you mean 'age'"),
        (lambda t: t.batches(["wight"], "y"), "did you mean 'weight'"),
        (lambda t: t.batches(["age"], "label"), "no column 'label'"),
        (lambda t: t.batches("wight", "y"), "did you mean 'weight'"),
        (lambda t: t.batches("", "y"), "no column ''"),
        (lambda t: t.batches(3, "y"), "must be a column name or a list of names, got 3"),
        (lambda t: t.batches(["age", 3], "y"), "a column name must be a str, got int"),
        (lambda t: t.batches(["age"], "y", label_dtype="int"), "must be a torch.dtype"),
        (lambda t: t.batches([], "y"), "at least one column"),
        (lambda t: t.batches(["age"], "y", size=0), "size must be an integer of at least 1"),
        (lambda t: t.batches(["age"], "y", size=2.5), "size must be an integer"),
        (lambda t: t.batches(["age"], "y", epochs=-1), "epochs must be"),
        (lambda t: t.batches(["age"], "y", seed=0.5), "seed must be an integer"),
        (lambda t: t.batches(["age"], "y", size=102, drop_last=True), "no batch of 102"),
        (lambda t: t.batches(["age"], "y", epochs=2**62), "epochs have too many batches"),
        (lambda t: t.batches(["age"], "y", seed=2**63), "seed must be a 64-bit integer"),
        (lambda t: sojourn.batch_indices(len(t), 3, 2**63, 0), "seed must be a 64-bit integer"),
        (lambda t: t.split(1.0), "between 0 and 1"),
        (lambda t: t.split(0.001), "one side empty"),
        (lambda t: t.rows(features=["nothing"]), "no column 'nothing'"),
        (lambda t: t.rows("nothing"), "no column 'nothing'"),
        (lambda t: sojourn.batch_indices(-1, 3, 0, 0), r"rows must be a number in \[0, 2\^40\], got -1"),
        (lambda t: sojourn.split_indices(2**41, 0.5, 0), r"rows must be a number in \[0, 2\^40\]"),
    ],
)
def test_mistakes_are_told_at_the_call(make, data, use, text):
    with pytest.raises(sojourn.Error, match=text):
        use(make(data))


def test_a_table_is_not_iterable(make, data):
    with pytest.raises(TypeError, match="not iterable"):
        iter(make(data))


def test_batches_make_no_round_trip(data):
    table = remote_table(data)
    before = sojourn.counters()["round_trips"]
    with sojourn.step():
        total = sum(x.sum() for x, _ in table.split(0.5)[0].batches(["age"], "y", size=20, epochs=2))
        published = sojourn.publish(total)
    assert sojourn.counters()["round_trips"] - before == 1
    first = sojourn.split_indices(101, 0.5, 0)[0].numpy()
    assert float(published.value) == 2 * data["age"][first].sum()


@pytest.mark.parametrize("ending", ["csv", "parquet", "npz", "arrow"])
def test_files(tmp_path, data, ending):
    import pyarrow
    import pyarrow.csv
    import pyarrow.feather
    import pyarrow.parquet

    path = tmp_path / f"people.{ending}"
    table = pyarrow.table(data)
    if ending == "csv":
        pyarrow.csv.write_csv(table, path)
    elif ending == "parquet":
        pyarrow.parquet.write_table(table, path)
    elif ending == "arrow":
        pyarrow.feather.write_feather(table, path, compression="uncompressed")
    else:
        np.savez(path, **data)
    local = plain(path)
    assert local.name == "people" and len(local) == 101
    remote = remote_table(path)
    assert [(c.name, c.dtype) for c in local.columns] == [(c.name, c.dtype) for c in remote.columns]
    for name in data:
        assert torch.equal(local[name], values(remote[name]))
        assert np.allclose(local[name].numpy(), data[name], rtol=1e-6)


@pytest.mark.parametrize("register", [plain, remote_table], ids=["plain", "owner"])
@pytest.mark.parametrize(
    "source, text",
    [
        ({"a": np.array([1.0, np.nan])}, "column 'a', row 1 .*NaN found, expected a finite number"),
        ({"a": np.array([-np.inf])}, "column 'a', row 0 .*infinite value found"),
        ({"a": np.array([b"x"])}, "column 'a' has type binary; a table holds bool, uint8, int8"),
        ({"a": np.zeros(1, dtype=complex)}, "column 'a' has type complex128"),
        ({"a": np.zeros(())}, "column .a. must be a CPU tensor whose first dimension counts rows, got shape"),
        ({"a": [[1.0, 2.0], [3.0]]}, "the rows of column .a. differ in shape"),
        ({"a": np.zeros(2), "b": np.zeros(3)}, "column 'b' has 3 rows, but column 'a' has 2"),
        ({"a": np.zeros(0)}, "0 rows and 1 columns, expected at least one of each"),
        ("nowhere.csv", "no such file"),
    ],
)
def test_sources_are_checked(register, source, text):
    with pytest.raises(sojourn.Error, match=text):
        register(source)


def test_plain_fills():
    table = plain({"a": np.array([1.0, np.nan, np.inf])}, fills={"a": -1.0})
    assert table["a"].tolist() == [1.0, -1.0, -1.0]


def test_conversion_to_integers_saturates():
    table = plain({"a": np.array([1e300, -1e300, 2.9, -2.9])})
    converted = table.rows(dtype=torch.int64)[:, 0].tolist()
    assert converted == [2**63 - 1, -(2**63), 2, -2]
