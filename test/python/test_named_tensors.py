# SPDX-License-Identifier: Apache-2.0
"""Several tensors of one draw: `table.batches({"image": ..., "row": [...]})`, on the CPU, at open owners and compiled.

Values are compared with plain indexing of the arrays, networks with eager PyTorch on those rows.
"""

import operator
import pathlib

import numpy as np
import pytest
import torch
from branches_support import Branches, scaling, stepper
from torch.utils._pytree import tree_leaves

import sojourn

ROWS = 43
BOUNDS = {"age": (0, 100), "dose": (-3, 3), "smoker": (0, 1)}
SHORT = ROWS % 8


@pytest.fixture
def data(seed):
    generator = np.random.default_rng(seed)
    return {
        "scan": generator.integers(0, 256, (ROWS, 2, 4, 3)).astype(np.uint8),
        "heat": generator.normal(size=(ROWS, 5)),
        "age": generator.integers(0, 100, ROWS),
        "dose": generator.uniform(-3, 3, ROWS),
        "smoker": generator.random(ROWS) < 0.3,
        "code": generator.integers(0, 7, ROWS).astype(np.int16),
        "y": generator.integers(0, 3, ROWS).astype(np.int32),
    }


@pytest.fixture(params=["plain", "native", "numpy"])
def table(request, data):
    if request.param == "plain":
        yield sojourn.plain(data, name="people", bounds=BOUNDS)
        return
    with sojourn.local(runtime=request.param) as owner:
        yield owner.register("people", data, policy="open", bounds=BOUNDS)


WANTED = {"image": "scan", "row": ["dose", "smoker", "age"], "code": "code", "heat": "heat", "one": ["age"], "y": "y"}


def expected(data, columns, rows):
    """What the columns are in these rows, by NumPy alone."""
    if not isinstance(columns, str):
        return np.stack([data[name][rows].astype(np.float32) for name in columns], 1)
    found = data[columns][rows]
    kept = found.dtype == np.uint8 and found.ndim > 1
    return found if kept else found.astype(np.float32 if found.dtype.kind == "f" else np.int64)


def same(found: torch.Tensor, wanted: np.ndarray):
    assert found.numpy().dtype == wanted.dtype
    np.testing.assert_array_equal(found.numpy(), wanted)


@pytest.mark.parametrize("part", ["table", "first", "other"])
@pytest.mark.parametrize("shuffle", [True, False])
def test_all_tensors_are_of_the_same_rows(table, data, rng, part, shuffle):
    split, order, size = rng.getrandbits(40), rng.getrandbits(40), rng.randint(2, 12)
    rows = np.arange(ROWS)
    if part != "table":
        table = table.split(0.6, split)[part == "other"]
        rows = rows[sojourn.split_indices(ROWS, 0.6, split)[part == "other"].numpy()]
    batches = table.batches(WANTED, label="y", size=size, epochs=2, shuffle=shuffle, seed=order)
    drawn = [each for epoch in range(2) for each in sojourn.batch_indices(len(rows), size, order, epoch)]
    if not shuffle:
        drawn = [torch.arange(k, min(k + size, len(rows))) for _ in range(2) for k in range(0, len(rows), size)]
    assert len(batches) == len(drawn)
    for positions, (x, y) in zip(drawn, batches, strict=True):
        here = rows[positions.numpy()]
        assert type(x) is dict and list(x) == list(WANTED)
        found, labels = sojourn.publish((x, y))
        for name, columns in WANTED.items():
            same(found[name], expected(data, columns, here))
        same(labels, expected(data, "y", here))


def test_without_a_label_a_batch_is_a_dict(table, data):
    for batch in table.batches({"image": "scan", "row": ("age", "dose")}, size=ROWS, shuffle=False, drop_last=True):
        found = sojourn.publish(batch)
        same(found["image"], data["scan"])
        same(found["row"], expected(data, ["age", "dose"], slice(None)))


def test_changing_one_changes_no_other(table, data):
    wanted = {"one": "heat", "other": "heat", "row": ["age"]}
    batches = table.batches(wanted, size=ROWS, shuffle=False)
    wanted.clear()  # was read when the batches were made
    x = next(iter(batches))
    x["one"].zero_()
    found = sojourn.publish(x)
    assert not found["one"].any()
    same(found["other"], expected(data, "heat", slice(None)))


def test_whole_columns_by_name(table, data):
    _, other = table.split(0.7, 5)
    rows = sojourn.split_indices(ROWS, 0.7, 5)[1].numpy()
    found = sojourn.publish(other.rows(WANTED))
    assert list(found) == list(WANTED)
    for name, columns in WANTED.items():
        same(found[name], expected(data, columns, rows))
    scaled = sojourn.publish(table.scaled(other.rows({"row": ["dose", "age"]})["row"]))
    lower, width = np.array([-3, 0]), np.array([6, 100])
    wanted = 2 * (np.stack([data["dose"], data["age"]], 1)[rows] - lower) / width - 1
    np.testing.assert_allclose(scaled.numpy(), wanted, atol=1e-6)


def test_mistakes_are_told(table):
    for features, dtype, text in [
        ({}, None, r"features must name at least one tensor.*got an empty dict"),
        ({3: "scan"}, None, "features must map names to columns, and a name must be a str, got 3"),
        ({"row": []}, None, r"features\['row'\] must name at least one column, got an empty list"),
        (
            {"row": {"a": "age"}},
            None,
            r"features\['row'\] must be a column name or a list of names, got \{'a': 'age'\}",
        ),
        ({"row": 3}, None, r"features\['row'\] must be a column name or a list of names, got 3"),
        ({"row": [3]}, None, "a column name must be a str, got int"),
        ({"image": "scan", "row": ["age", "dsoe"]}, None, "table 'people' has no column 'dsoe'.*'dose'"),
        ({"image": ["scan"]}, None, r'cannot be read in a list of columns; read it alone, by its name: "scan"'),
        ({"image": "scan", "row": ["age"]}, torch.float64, r"dict of 2 tensors.*x\['image'\]\.to\(torch\.float64\)"),
    ]:
        with pytest.raises(sojourn.Error, match=text):
            table.batches(features, label="y", dtype=dtype)
        with pytest.raises(sojourn.Error, match=text):
            table.rows(features, dtype=dtype)
    with pytest.raises(sojourn.Error, match=r"columns must be a column name or a list of names, got \{'age': 'age'\}"):
        table.scaled(table.rows("age"), {"age": "age"})


def test_a_batch_is_one_draw_of_one_program(data):
    """A short last batch is the second program, as for one tensor."""
    with sojourn.local() as owner:
        train, _ = owner.register("people", data, policy="open").split(0.7, 1)
        for x, y in train.batches(WANTED, label="y", size=8, epochs=2):
            sojourn.publish((x, y))
        programs = [program["text"] for program in owner.programs(with_text=True)]
        assert len(programs) == 2
        for text in programs:
            assert text.count("sojourn.sample_rows ") == 2  # the batch's place in the part, and the part's in the table
            assert text.count("sojourn.read_rows ") == len(WANTED)  # the label is read as y already


INPUTS = {"image": "scan", "code": "code", "row": ["age", "dose", "smoker"]}


def network():
    return Branches(image=(2, 4, 3), codes=7, columns=3, classes=3)


def training(model, scaled=lambda row: row, publish=sojourn.publish):
    """A step of training, which returns what `publish` makes of the loss."""
    at_owner = model.head.weight.device.type == "owner"
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, capturable=at_owner)
    return stepper(scaling(model, scaled), optimizer, publish)


def eager(data, state, size, epochs, seed):
    """The losses of the rows in the documented order, without a table."""
    model = network()
    model.load_state_dict(state)
    model_train = training(model, publish=float)
    lower, width = np.array([0, -3, 0], np.float32), np.array([100, 6, 1], np.float32)
    losses = []
    for epoch in range(epochs):
        for rows in sojourn.batch_indices(ROWS, size, seed, epoch):
            batch = {name: expected(data, columns, rows.numpy()) for name, columns in INPUTS.items()}
            batch["row"] = 2 * (batch["row"] - lower) / width - 1
            batch = {name: torch.from_numpy(values) for name, values in batch.items()}
            losses.append(model_train(batch, torch.from_numpy(expected(data, "y", rows.numpy()))))
    return losses


def close(found, wanted):
    np.testing.assert_allclose([float(loss) for loss in found], wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("how", ["undeclared", "step", "replay", "loop"])
def test_a_network_of_branches_trains(table, data, seed, how):
    state, size, epochs = network().state_dict(), 8, 3
    model = network()
    model.load_state_dict(state)
    device = table.rows("age").device
    model.to(device)
    train = training(model, table.scaled)
    batches = table.batches(INPUTS, label="y", size=size, epochs=epochs, seed=seed)
    if how == "loop":
        losses = sojourn.loop(train, batches, per_trip=4)
    else:
        step = {"undeclared": train, "step": sojourn.step(train), "replay": sojourn.step(train, replay=True)}[how]
        losses = [step(batch, y) for batch, y in batches]
        if how == "replay" and device.type == "owner":
            assert step.replayed == len(batches) - step.traced > len(batches) / 2, sojourn.explain()
    close(losses, eager(data, state, size, epochs, seed))


def test_other_keys_are_other_calls(data):
    """A replayed function is traced for a dict of other keys, or of the same keys with other columns."""
    with sojourn.local() as owner:
        table = owner.register("people", data, policy="open", bounds=BOUNDS)

        @sojourn.step(replay=True)
        def sums(batch):
            return {name: sojourn.publish(table.scaled(x).sum()) for name, x in batch.items()}

        wanted = [{"a": "age", "b": "dose"}, {"a": "age", "c": "dose"}, {"b": "age", "a": "dose"}, {"a": "age"}] * 4
        for features in wanted * 2:
            (batch,) = table.batches(features, size=ROWS)
            found = sums(batch)
            assert list(found) == list(features)
            for name, column in features.items():
                lower, upper = BOUNDS[column]
                truth = (2 * (data[column].astype(np.float64) - lower) / (upper - lower) - 1).sum()
                assert float(found[name]) == pytest.approx(truth, abs=1e-3)
        assert sums.replayed > 0


def compiled(state, batches, short=None, rows=ROWS):
    columns = {
        "scan": (torch.uint8, (2, 4, 3)),
        "code": torch.int16,
        "age": torch.int64,
        "dose": torch.float64,
        "smoker": torch.bool,
        "y": torch.int32,
    }
    kept = {}

    def init():
        model = network()
        model.load_state_dict(state)
        kept["train"] = training(model.to(device), kept["table"].scaled, publish=lambda loss: loss)
        return model

    def serve(people):
        kept["table"] = people
        return batches(people)

    with sojourn.offline() as device:
        return sojourn.compile(
            lambda *args: kept["train"](*args),
            init=init,
            tables={"people": sojourn.table_spec(rows, columns, bounds=BOUNDS)},
            batches=serve,
            short=short,
        )


@pytest.mark.parametrize("runtime", ["native", "numpy"])
def test_ahead_of_time(data, seed, tmp_path: pathlib.Path, runtime):
    """The compiled step takes the dict; a run needs no description of it, and the file no more than before."""
    state = network().state_dict()
    program = compiled(state, lambda t: t.batches(INPUTS, label="y", size=8, epochs=2, seed=seed), short=SHORT)
    program.save(tmp_path / "branches.sojourn")
    with sojourn.local(runtime=runtime) as owner:
        owner.register("people", data, policy="open", bounds=BOUNDS)
        losses = sojourn.load(tmp_path / "branches.sojourn").run(owner)
    close(losses, eager(data, state, 8, 2, seed))


def test_two_batches_of_a_compiled_step(data, seed):
    """Each of a list of batches has its own form."""
    program_rows = []

    def step(one, alone, two, label):
        program_rows.append((sorted(one), alone.dim(), sorted(two), label.dim()))
        return {"sum": one["a"].sum() + two["row"].sum(), "rest": alone.sum() + label.sum()}

    columns = {"age": torch.int64, "dose": torch.float64, "y": torch.int32}
    with sojourn.offline():
        program = sojourn.compile(
            step,
            tables={"people": sojourn.table_spec(None, columns)},
            batches=lambda people: [
                people.batches({"a": "age", "b": "dose"}, size=4, drop_last=True),
                people.batches(["age", "dose"], size=4, seed=1, drop_last=True),
                people.batches({"row": ["dose", "age"]}, label="y", size=4, seed=2, drop_last=True),
            ],
        )
    assert program_rows == [(["a", "b"], 2, ["row"], 1)] * 3
    with sojourn.local() as owner:
        owner.register("people", {name: data[name] for name in columns}, policy="open")
        found = program.run(owner)
    assert len(found) == ROWS // 4
    wanted = [
        [rows.numpy() for rows in sojourn.batch_indices(ROWS, 4, order, 0, drop_last=True)] for order in (0, 1, 2)
    ]
    for result, first, second, third in zip(found, *wanted, strict=True):
        total = data["age"][first].sum() + data["dose"][third].sum() + data["age"][third].sum()
        rest = data["age"][second].sum() + data["dose"][second].sum() + data["y"][third].sum()
        assert float(result["sum"]) == pytest.approx(total, rel=1e-5)
        assert float(result["rest"]) == pytest.approx(rest, rel=1e-5)


@pytest.mark.parametrize("how", ["replay", "loop"])
def test_dicts_of_arguments_are_replayed(seed, rng, how):
    """Of other keys, other orders, none at all, and with lists in them; values and returned arguments are the call's."""
    with sojourn.local() as owner:
        base = torch.ones(2, device=owner.device)

        def combine(batch, factor):
            leaves = [leaf for value in batch.values() for leaf in (value if isinstance(value, list) else [value])]
            weighted = sum((k * leaf for k, leaf in enumerate(leaves, 1)), base * 0)
            return sojourn.publish(weighted * factor + base), batch

        def number():
            value = torch.tensor([float(rng.randint(-9, 9)), 1.0])
            return value, value.to(owner.device)

        forms = [["a"], ["a", "b"], ["b", "a"], [], ["a", "list"], ["b"]]
        rng.shuffle(forms)
        calls = [(form, rng.choice([0.5, 2.0])) for form in forms * 2 for _ in range(5)]
        given, wanted = [], []
        for form, factor in calls:
            pairs = {name: [number(), number()] if name == "list" else number() for name in form}
            sides = [
                {name: [v[side] for v in p] if name == "list" else p[side] for name, p in pairs.items()}
                for side in (0, 1)
            ]
            leaves = [leaf for v in sides[0].values() for leaf in (v if isinstance(v, list) else [v])]
            wanted.append(sum((k * leaf for k, leaf in enumerate(leaves, 1)), torch.zeros(2)) * factor + 1)
            given.append((sides[1], factor))
        sojourn.flush()
        train = sojourn.step(combine, replay=True)
        found = sojourn.loop(train, given, per_trip=3) if how == "loop" else [train(*call) for call in given]
        for (value, returned), (batch, _), truth in zip(found, given, wanted, strict=True):
            assert torch.equal(torch.as_tensor(value.value), truth)
            assert list(returned) == list(batch)
            assert all(map(operator.is_, tree_leaves(returned), tree_leaves(batch)))
        assert train.replayed > len(calls) / 3, sojourn.explain()
