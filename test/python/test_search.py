# SPDX-License-Identifier: Apache-2.0
"""Words and tags of tables, and the tables that a search finds at one and at several owners."""

import numpy as np
import pytest
from hospital_support import hospital_with_patients  # noqa: F401 (the fixture `hospital`)

import sojourn

WORDS = "blood pressure heart Rate ICU ward Äpfel sugar".split()
COLUMNS = "age bmi sex dose arm".split()


@pytest.fixture(params=["native", "numpy"], name="owner")
def embedded_owner(request):
    with sojourn.local(runtime=request.param) as made:
        yield made


def add(owner, name, columns=("age",), text="", tags=()):
    owner.register(name, {column: np.arange(3.0) for column in columns}, policy="open")
    return owner.describe(name, text, list(tags))


def test_words_and_tags_of_a_table(owner):
    table = add(owner, "patients", text="  Vital signs, hourly.\nTwo wards.  ", tags=["icu", "adult", "icu"])
    assert table.description == "Vital signs, hourly.\nTwo wards." and table.tags == ("adult", "icu")
    assert owner.dataset("patients").tags == ("adult", "icu")
    assert owner.describe("patients", tags=["icu"]).description.startswith("Vital")  # what is omitted stays
    assert owner.describe("patients", "").tags == ("icu",)
    plain = sojourn.plain({"age": np.arange(3.0)})
    assert (plain.description, plain.tags) == ("", ())


def expected(tables, text, tag, columns):
    """By the definition: each word in a name, the description, a tag or a column."""

    def fits(table):
        texts = [table["name"], table["text"], *table["tags"], *table["columns"]]
        words = all(any(word.lower() in t.lower() for t in texts) for word in text.split())
        return words and (tag is None or tag in table["tags"]) and set(columns) <= set(table["columns"])

    return sorted(table["name"] for table in tables if fits(table))


def test_random_searches(owner, rng):
    def some(words, most):
        return rng.sample(words, rng.randint(0, most))

    tables = []
    for index in range(40):
        table = {
            "name": f"{rng.choice(WORDS[:6]).lower()}_{index}",
            "text": " ".join(some(WORDS, 4)),
            "tags": some(WORDS, 3),
            "columns": some(COLUMNS, 3) or ["age"],
        }
        add(owner, **table)
        tables.append(table)
    found_some = 0
    for _ in range(200):
        text = " ".join(rng.choice([str.upper, str.lower, str])(w) for w in some([*WORDS[:6], "ar", "pres", "_1"], 2))
        tag, columns = rng.choice([None, *WORDS]), some(COLUMNS, 2)
        found = sojourn.search(owner, text, tag=tag, columns=columns)
        # In the order of registration, and by name within a millisecond.
        assert sorted(table.name for table in found) == expected(tables, text, tag, columns), (text, tag, columns)
        found_some += bool(found) and len(found) < len(tables)
    assert found_some > 20


def test_a_search_at_several_owners():
    with sojourn.local() as alice, sojourn.local(runtime="numpy") as bob:
        add(alice, "patients", ("age", "bmi"), "blood pressure", ["icu"])
        add(alice, "cars", ("speed",))
        add(bob, "records", ("age",), "Blood sugar", ["icu", "children"])
        found = sojourn.search([alice, bob], "blood", tag="icu", columns="age")
        assert [(owner, table.name) for owner, table in zip(found.owners, found)] == [
            (alice, "patients"),
            (bob, "records"),
        ]
        assert found[1]["age"].sum().item() == 3.0  # a table as any other
        lines = repr(found).splitlines()
        assert lines[0].split() == ["owner", "table", "rows", "policy", "columns", "tags", "description"]
        assert "patients" in lines[1] and "age, bmi" in lines[1] and lines[2].endswith("Blood sugar")
        html = found._repr_html_()
        assert "2 tables" in html and all(
            word in html for word in ("patients", "records", "Blood sugar", "children, icu")
        )
        assert repr(sojourn.search([alice, bob], "nothing has this")) == "no tables"
        assert len(sojourn.search([alice, bob])) == 3


@pytest.mark.parametrize(
    "text, tags, match",
    [
        ("x" * 4097, [], "the description has 4097 bytes, the limit is 4096"),
        ("", [""], "a tag is ''"),
        ("", ["a,b"], "a tag is 'a,b'"),
        ("", ["x" * 65], "expected 1 to 64 bytes of one line"),
        ("", [f"t{i}" for i in range(33)], "the table has 33 tags, the limit is 32"),
    ],
)
def test_descriptions_have_bounds(owner, text, tags, match):
    owner.register("t", {"age": np.arange(3.0)}, policy="open")
    with pytest.raises(sojourn.Error, match=match):
        owner.describe("t", text, tags)
    assert owner.dataset("t").tags == ()


@pytest.mark.parametrize(
    "text, tag, columns, match",
    [
        ("x" * 1025, None, [], "the text of a search has 1025 bytes, expected up to 1024"),
        ("a " * 17, None, [], "a search has 17 words, expected up to 16"),
        ("", "x" * 65, [], "the tag of a search has 65 bytes, expected up to 64"),
        ("", None, ["x" * 257], "a column of a search has 257 bytes, expected up to 256"),
        ("", None, ["x"] * 65, "a search names 65 columns, expected up to 64"),
    ],
)
def test_searches_have_bounds(owner, text, tag, columns, match):
    with pytest.raises(sojourn.OwnerError, match=match):
        sojourn.search(owner, text, tag=tag, columns=columns)


def test_a_client_finds_what_it_may_see(hospital):
    """The words of a table are for clients with access; a server takes them up at once, and a renamed table keeps them."""
    hospital.add_table("staff")
    ada, bob = hospital.add_client("ada"), hospital.add_client("bob")
    hospital("access", "patients", "--clients", "ada,bob")
    hospital("access", "staff", "--clients", "bob")
    shown = hospital("describe", "patients", "--text", "Blood pressure, hourly", "--tag", "icu", "--tag", "adult")
    assert "Blood pressure, hourly" in shown and "tags adult, icu" in shown
    hospital("describe", "staff", "--text", "Shifts", "--tag", "icu")
    with hospital.serving() as served:
        with sojourn.connect(served, identity=ada) as one, sojourn.connect(served, identity=bob) as two:
            assert [t.name for t in sojourn.search(one, tag="icu")] == ["patients"]
            assert {t.name for t in sojourn.search(two, tag="icu")} == {"patients", "staff"}
            assert not sojourn.search(one, "shifts")
            hospital("describe", "patients", "--tag", "night", "--remove-tag", "adult")
            hospital("rename", "patients", "people")
            (found,) = sojourn.search(one, "pressure", tag="night", columns=["age", "ill"])
            assert (found.name, found.tags) == ("people", ("icu", "night"))
            hospital("describe", "people", "--no-tags", "--text", "")
            assert not sojourn.search(one, "pressure") and not sojourn.search(one, tag="icu")
            with pytest.raises(sojourn.Error, match="sojourn-owner describe people --text TEXT --tag TAG"):
                one.describe("people", "mine")
    assert "has no tag 'icu'" in hospital("describe", "people", "--remove-tag", "icu", code=1)
    assert "no dataset is named 'patients'" in hospital("describe", "patients", "--tag", "icu", code=1)
