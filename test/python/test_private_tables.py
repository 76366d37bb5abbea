# SPDX-License-Identifier: Apache-2.0
"""Private tables at an embedded owner: what registration asks for, populations, defaults, receipts."""

import pytest
from private_support import DELTA, numpy_rng, own_owner  # noqa: F401

import sojourn

ROWS = 40


@pytest.fixture
def data(rng):
    return {"age": rng.uniform(0, 100, ROWS), "who": rng.permutation(1000)[:ROWS], "ill": rng.integers(0, 2, ROWS) > 0}


def test_bounds_of_every_column_are_asked_for(owner, data):
    with pytest.raises(sojourn.Error, match=r"2 of 3 have none: 'age', 'who'. Declare them \(bounds"):
        owner.register("people", data)
    with pytest.raises(sojourn.Error, match=r"1 of 3 have none: 'who'"):
        owner.register("people", data, policy="private", bounds={"age": (0, 100)})
    table = owner.register("people", data, policy="private", bounds={"age": (0, 100), "who": (0, 999)})
    assert {column.name: column.bounds for column in table.columns}["ill"] == (0, 1)
    assert "[0, 100]" in repr(table) and repr(table).endswith("no budget")


def test_a_subject_has_one_row_and_stays_with_the_owner(owner, data):
    with pytest.raises(sojourn.Error, match=r"rows 3 and 7 \(counting from 0\) have the same subject in column 'who'"):
        twice = data["who"].copy()
        twice[7] = twice[3]
        owner.register("people", {**data, "who": twice}, bounds={"age": (0, 100)}, subject="who")
    table = owner.register("people", data, bounds={"age": (0, 100)}, subject="who")
    assert [column.name for column in table.columns] == ["age", "ill"]
    with pytest.raises(sojourn.Error, match="unknown column 'nobody' for the subject"):
        owner.register("other", data, bounds={"age": (0, 100), "who": (0, 999)}, subject="nobody")
    with pytest.raises(sojourn.Error, match="subject must be a str"):
        owner.register("other", data, bounds={"age": (0, 100)}, subject=7)
    with pytest.raises(sojourn.Error, match="subject: the numpy runtime keeps no budgets"):
        sojourn.local(runtime="numpy").register("t", data, policy="open", subject="who")


def test_tables_of_one_population_are_paid_for_together(owner, data):
    columns = {"age": data["age"]}
    for name in ("first", "second"):
        owner.register(name, columns, bounds={"age": (0, 100)}, population="people")
    owner.register("others", columns, bounds={"age": (0, 100)})
    for name in ("first", "second", "others"):
        owner.grant(name, epsilon=1, delta=DELTA)
    sojourn.publish(owner.dataset("first")["age"].mean(), epsilon=0.7)
    with pytest.raises(sojourn.BudgetExhausted, match="cap on the people of 'people' over all clients"):
        sojourn.publish(owner.dataset("second")["age"].mean(), epsilon=0.7)
    sojourn.publish(owner.dataset("others")["age"].mean(), epsilon=0.7)
    with pytest.raises(sojourn.Error, match="no dataset is named 'nowhere'"):
        owner.grant("nowhere", epsilon=1, delta=DELTA)


def test_defaults_are_the_owners(owner, data):
    table = owner.register("people", {"age": data["age"]}, bounds={"age": (0, 100)})
    assert table.defaults == (1, 1, 10)
    table = owner.set_defaults("people", clip=0.25, metric_bound=3)
    assert table.defaults == (1, 0.25, 3)
    assert "defaults: noise multiplier 1, clip 0.25, metric bound 3" in repr(table)
    assert "metric bound 3" in table._repr_html_()
    for bad in (0, -1, float("nan"), float("inf")):
        with pytest.raises(sojourn.Error, match="the noise multiplier is .*, expected a number from"):
            owner.set_defaults("people", noise_multiplier=bad)
    with pytest.raises(sojourn.Error, match="serves open tables only, which have no defaults"):
        sojourn.local(runtime="numpy").set_defaults("t", clip=1)


@pytest.mark.parametrize("epsilon, delta, named", [(0, DELTA, "epsilon"), (-1, DELTA, "epsilon"), (float("nan"), DELTA, "epsilon"),
                                                   (float("inf"), DELTA, "epsilon"), (1, 0, "delta"), (1, 1, "delta"),
                                                   (1, float("nan"), "delta"), (1, -1, "delta")])  # fmt: skip
def test_budgets_are_numbers_within_their_bounds(owner, data, epsilon, delta, named):
    owner.register("people", {"age": data["age"]}, bounds={"age": (0, 100)})
    with pytest.raises(sojourn.Error, match=f"{named} is .*, expected a number above 0"):
        owner.grant("people", epsilon=epsilon, delta=delta)


def test_receipts_of_the_embedded_owner(owner, data, tmp_path):
    owner.register("people", {"age": data["age"]}, bounds={"age": (0, 100)})
    owner.grant("people", epsilon=1, delta=DELTA)
    assert owner.account == "local"
    receipt = sojourn.publish(owner.dataset("people")["age"].mean(), epsilon=0.25).receipt
    assert receipt.verify(owner.key)
    assert [item["owner"] for item in receipt.price] == [owner.key] and f"  owner    {owner.key}" in repr(receipt)
    (tmp_path / "receipt").write_bytes(bytes(receipt))
    assert sojourn.Receipt((tmp_path / "receipt").read_bytes()).verify(owner.key)
    with sojourn.local() as other, pytest.raises(sojourn.Error, match="not signed by this owner"):
        receipt.verify(other.key)
    program = owner.programs(with_text=True)[-1]
    assert program["client"] == receipt.client == owner.account
    report = program["privacy"]
    assert report.startswith("on private dataset 'people': noise multiplier 1") and "Laplace noise of scale" in report


def test_nobody_is_shown_a_subject(tmp_path, rng):
    who = [f"person {number:016x}" for number in rng.integers(0, 2**62, ROWS)]
    rows = "".join(f" {name}\t,{age}\n" for name, age in zip(who, rng.uniform(0, 100, ROWS), strict=True))
    (tmp_path / "people.csv").write_text("who,age\n" + rows)
    with sojourn.local(store=tmp_path / "store") as owner:
        table = owner.register("people", str(tmp_path / "people.csv"), bounds={"age": (0, 100)}, subject="who")
        owner.grant("people", epsilon=1, delta=DELTA)
        mean = sojourn.publish(table["age"].mean(), epsilon=0.25)
        with pytest.raises(sojourn.Error) as refused:
            sojourn.publish(table["who"], epsilon=0.25)
        shown = [owner.programs(with_text=True), owner.datasets(), table, table._repr_html_(), mean, mean.receipt]
        shown += [bytes(mean.receipt), refused.value, owner.budget("people")]
    text = "\n".join(map(repr, shown))
    kept = [path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file()]
    assert any((tmp_path / "store" / "datasets").glob("*.subjects"))
    for name in who:
        assert name not in text and not any(name.encode() in each for each in kept)


def test_a_store_keeps_whom_it_protects(data, tmp_path):
    with sojourn.local(store=tmp_path / "store") as owner:
        owner.register("people", data, bounds={"age": (0, 100)}, subject="who", population="ward")
        owner.set_defaults("people", noise_multiplier=2)
        owner.grant("people", epsilon=1, delta=DELTA)
        sojourn.publish(owner.dataset("people")["age"].mean(), epsilon=0.75)
        key = owner.key
    with sojourn.local(store=tmp_path / "store") as owner:
        assert owner.key == key and owner.dataset("people").defaults.noise_multiplier == 2
        assert owner.budget("people").epsilon_left == pytest.approx(0.25, abs=0.01)
