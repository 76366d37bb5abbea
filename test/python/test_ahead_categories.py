# SPDX-License-Identifier: Apache-2.0
"""Categories in descriptions of tables: the described table shows them, the file keeps them, a run compares them.

The oracle is plain indexing of the codes of the data.
"""

import pytest
import torch
from ahead_support import CHECKSUM_BYTES, changed_bits, stamped

import sojourn

ARMS = ["placebo", "low", "höch"]
COLUMNS = {"arm": torch.int64, "ward": torch.int64, "x": torch.float64}
CATEGORIES = {"arm": ARMS, "ward": [7, -5]}


def spec(**terms):
    return sojourn.table_spec(None, COLUMNS, **{"categories": CATEGORIES, **terms})


def compiled(described):
    """Counts each category in a batch of 4 rows."""
    seen = []

    def step(x):
        counts = torch.nn.functional.one_hot(x[:, 0].long(), 3).sum(0)
        return counts, x[:, 1].sum()

    def batches(train):
        seen.append(train)
        return train.batches(["arm", "ward"], size=4, shuffle=False, drop_last=True)

    with sojourn.offline():
        program = sojourn.compile(step, tables={"train": described}, batches=batches)
    return program, seen[0]


@pytest.fixture
def data(rng):
    rows = 4 * rng.randrange(3, 9)
    return {
        "arm": [rng.choice(ARMS) for _ in range(rows)],
        "ward": [rng.choice([7, -5]) for _ in range(rows)],
        "x": [rng.random() for _ in range(rows)],
    }


def test_a_description_carries_them_to_its_runs(data, tmp_path):
    program, table = compiled(spec())
    assert [column.categories for column in table.columns] == [tuple(ARMS), (7, -5), None]
    assert [column.bounds for column in table.columns] == [(0, 2), (0, 1), None]
    assert "arm: 0 placebo, 1 low, 2 höch" in str(table)
    program.save(tmp_path / "step.sojourn")
    for each in (program, sojourn.load(tmp_path / "step.sojourn")):
        described = each.tables["train"]
        assert described.categories == {"arm": tuple(ARMS), "ward": (7, -5)}
        assert compiled(described)[0].tables == each.tables
        with sojourn.local() as owner:
            owner.register("train", data, policy="open", categories=CATEGORIES)
            results = each.run(owner)
        for start, (counts, wards) in zip(range(0, len(data["arm"]), 4), results, strict=True):
            rows = slice(start, start + 4)
            assert counts.tolist() == [data["arm"][rows].count(name) for name in ARMS]
            assert float(wards) == data["ward"][rows].count(-5)


@pytest.mark.parametrize(
    "there, text",
    [
        ({"arm": ["low", "placebo", "höch"]}, "its column 'arm' has category 0 'low', but the step was compiled for 'placebo'"),
        ({"arm": [*ARMS, "other"]}, "its column 'arm' has 4 categories, but the step was compiled for 3"),
        ({"ward": [-5, 7]}, "its column 'ward' has category 0 '-5', but the step was compiled for '7'"),
        ({"ward": None}, "its column 'ward' has 0 categories, but the step was compiled for 2"),
    ],
)  # fmt: skip
def test_a_run_compares_them(there, text, data):
    """Codes of another list would mean something else. A step that relies on none runs everywhere."""
    names = {name: each for name, each in (CATEGORIES | there).items() if each is not None}
    bounds = {"ward": (0, 1)}
    with sojourn.local() as owner:
        owner.register("train", data, policy="open", bounds=bounds, categories=names)
        with pytest.raises(sojourn.Error, match=text):
            compiled(spec())[0].run(owner)
        assert len(compiled(spec(categories=None))[0].run(owner)) == len(data["arm"]) // 4


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: spec(categories={"nobody": ["a"]}), "categories name 'nobody', which is not in columns; columns: 'arm'"),
        (lambda: spec(categories={"arm": "low"}), "categories of column 'arm' must be a list"),
        (lambda: spec(categories={"x": ["a"]}), "column 'x' has categories and is float64; codes of categories are plain"),
        (lambda: spec(categories={"arm": range(65_537)}), "column 'arm' has 65537 categories, the limit is 65536"),
        (lambda: spec(categories={"arm": ["a" * 1025]}), "of 1025 bytes, the limit is 1024"),
        (lambda: spec(categories={"arm": [2**70]}), "whole numbers of 64 bits, got 1180591620"),
    ],
)  # fmt: skip
def test_impossible_descriptions(make, text):
    with pytest.raises(sojourn.Error, match=text):
        make()


def test_private_tables_have_bounds_by_their_categories(data):
    table = sojourn.table_spec(40, {"arm": torch.int64}, policy="private", categories={"arm": ARMS})
    with pytest.raises(sojourn.Error, match="column 'arm' has no bounds"):
        sojourn.table_spec(40, {"arm": torch.int64}, policy="private")
    assert table.categories == {"arm": ARMS}


def test_changed_files_never_crash(tmp_path, rng):
    """With a right checksum: what reads is a program, whose categories keep to the limits."""
    program, _ = compiled(spec())
    path = tmp_path / "step.sojourn"
    program.save(path)
    refused = 0
    for data in changed_bits(path.read_bytes()[:-CHECKSUM_BYTES], rng, 300):
        path.write_bytes(data)
        try:
            tables = sojourn.load(path).tables
            assert len(str(tables)) < 10 * len(data)
        except sojourn.Error:
            refused += 1
    assert refused > 0


@pytest.mark.parametrize("name", ["train", "ward", "data"])
def test_names_that_are_no_text_are_an_error(tmp_path, name):
    """A column, a table, and the key of a result, each as a byte that begins no character."""

    def step(x):
        return {"data": x.sum()}

    with sojourn.offline():
        program = sojourn.compile(
            step, tables={"train": spec()}, batches=lambda train: train.batches(["arm", "ward"], size=4, drop_last=True)
        )
    path = tmp_path / "step.sojourn"
    program.save(path)
    content = path.read_bytes()[:-CHECKSUM_BYTES]
    assert name.encode() in content
    path.write_bytes(stamped(content.replace(name.encode(), b"\xf2" + name.encode()[1:])))
    with pytest.raises(sojourn.Error, match="is not UTF-8 text|is not UTF-8"):
        sojourn.load(path)
