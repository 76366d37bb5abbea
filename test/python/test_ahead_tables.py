# SPDX-License-Identifier: Apache-2.0
"""Steps compiled over descriptions of an owner's tables: what a run publishes is what tracing over the tables does.

The oracle is the training script itself, traced over `table.batches(..., drop_last=True)`, and for
the rows that each step gets plain indexing with the documented order.
"""

import gc
import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from ahead_support import CHECKSUM_BYTES, Device, changed_bits, stamped
from remote_support import Count

import _sojourn
import sojourn
from sojourn_wire import Artifact, ReplyBody
from sojourn_wire.Datasets import Datasets
from sojourn_wire.Reply import Reply

FEATURES = ["age", "weight", "height"]
COLUMNS = {
    "age": torch.int64,
    "weight": torch.float64,
    "height": torch.float32,
    "image": (torch.uint8, (2, 3)),
    "y": torch.int32,
}
# Short names for what most tests ask for.
BATCHES = {"features": FEATURES, "label": "y", "size": 8, "epochs": 2, "seed": 5, "drop_last": True}


@pytest.fixture
def data(seed):
    """A table whose rows and values are drawn per run."""
    generator = np.random.default_rng(seed)
    rows = int(generator.integers(19, 60))
    return {
        "age": generator.integers(0, 100, rows),
        "weight": generator.normal(0, 1, rows),
        "height": generator.normal(0, 1, rows).astype(np.float32),
        "image": generator.integers(0, 256, (rows, 2, 3)).astype(np.uint8),
        "unused": generator.normal(0, 1, rows),
        "y": generator.integers(0, 3, rows).astype(np.int32),
    }


@pytest.fixture(params=["native", "numpy"])
def owner(request):
    with sojourn.local(runtime=request.param) as owner:
        yield owner


def spec_of(data, **options):
    return sojourn.table_spec(len(data["y"]), COLUMNS, **options)


def network(state=None):
    model = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))
    if state is not None:
        model.load_state_dict(state)
    return model


def train(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x / 10), y)
    loss.backward()
    optimizer.step()
    return loss.detach()


def setup(device, state):
    """A model and an optimizer with momentum at `device`."""
    model = network(state)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return sojourn.to_owner(model, Device(device), optimizer), optimizer


def compiled(spec, state, batches):
    kept = {}

    def init():
        kept["both"] = setup(device, state)

    with sojourn.offline() as device:
        return sojourn.compile(
            lambda x, y: {"loss": train(*kept["both"], x, y), "rows": y},
            init=init,
            tables={"train": spec},
            batches=batches,
        )


def traced(owner, state, batches):
    """The script that a compiled step stands for."""
    model, optimizer = setup(owner.device, state)
    results = []
    for x, y in batches:
        with sojourn.step():
            results.append(sojourn.publish({"loss": train(model, optimizer, x, y), "rows": y}))
    return [result.value for result in results]


def assert_equal_results(ahead, expected):
    assert len(ahead) == len(expected) > 0
    for ours, theirs in zip(ahead, expected):
        assert torch.equal(ours["loss"], theirs["loss"]) and torch.equal(ours["rows"], theirs["rows"])


SELECTIONS = {
    "shuffled": (lambda table: table, {}),
    "in order": (lambda table: table, {"shuffle": False}),
    "part of a split": (lambda table: table.split(0.6, seed=3)[0], {"size": 4}),
    "part of a part": (lambda table: table.split(0.7, seed=3)[0].split(0.5, seed=4)[1], {"size": 2}),
}


@pytest.mark.parametrize("selection", SELECTIONS)
def test_a_run_is_the_traced_script(owner, data, tmp_path, selection):
    part, changed = SELECTIONS[selection]
    options = BATCHES | changed | {"seed": random.getrandbits(60)}
    print(options)
    state = network().state_dict()
    path = tmp_path / "train.sojourn"
    compiled(spec_of(data), state, lambda train: part(train).batches(**options)).save(path)
    program = sojourn.load(path)

    table = owner.register("people", data, policy="open")
    loop = part(table).batches(**options)
    assert program.steps == len(loop) == 2 * loop.per_epoch
    with Count(owner) as count:
        ahead = program.run(owner, tables={"train": "people"})
    # The catalogue, init, and one trip per step; the weights travel with init, no row does.
    assert count.round_trips == 2 + len(loop) and count.of["uploads"] == 0
    assert_equal_results(ahead, traced(owner, state, loop))


def test_steps_get_the_documented_rows(data):
    """Against plain indexing: every epoch in its order, also after the end of the first."""
    with sojourn.offline():
        program = sojourn.compile(
            lambda image, age, rows, again: (image, age, rows.sum(), again),
            tables={"train": spec_of(data), "valid": spec_of(data)},
            batches=lambda train, valid: [
                train.batches("image", "age", size=7, epochs=3, seed=1, drop_last=True),
                valid.batches(["weight"], "y", size=5, epochs=2, seed=2, drop_last=True),
            ],
        )
    assert set(program.tables["train"].columns) == {"image", "age"}
    assert program.tables["train"].columns["image"] == (torch.uint8, (2, 3))
    assert set(program.tables["valid"].columns) == {"weight", "y"}
    rows = len(data["y"])
    first = [index for epoch in range(3) for index in sojourn.batch_indices(rows, 7, 1, epoch, drop_last=True)]
    second = [index for epoch in range(2) for index in sojourn.batch_indices(rows, 5, 2, epoch, drop_last=True)]
    with sojourn.local() as owner:
        owner.register("train", data, policy="open")
        results = program.run(owner, tables={"valid": "train"})
    assert len(results) == program.steps == min(len(first), len(second))
    for (image, age, total, y), here, there in zip(results, first, second):
        assert torch.equal(image, torch.from_numpy(data["image"][here.numpy()]))
        assert torch.equal(age, torch.from_numpy(data["age"][here.numpy()]))
        torch.testing.assert_close(float(total), data["weight"][there.numpy()].sum(), rtol=1e-5, atol=1e-5)
        assert torch.equal(y, torch.from_numpy(data["y"][there.numpy()]).long())


def test_inputs_go_with_batches(owner, data):
    """Batches come first, then what the caller supplies; whole columns can be read as well."""
    kept = {}

    def batches(train):
        kept["mean"] = train["weight"].mean()
        return train.batches(["weight"], size=6, epochs=2, shuffle=False, drop_last=True)

    with sojourn.offline():
        program = sojourn.compile(
            lambda x, shift, rate: (x - kept["mean"] + shift) * rate,
            inputs=[sojourn.spec((1,)), sojourn.number()],
            tables={"train": spec_of(data)},
            batches=batches,
        )
    owner.register("train", data, policy="open")
    given = [(torch.randn(1), random.random()) for _ in range(program.steps)]
    per_epoch = program.steps // 2
    for step, (result, (shift, rate)) in enumerate(zip(program.run(owner, given), given, strict=True)):
        start = step % per_epoch * 6
        x = torch.from_numpy(data["weight"][start : start + 6, None])
        expected = (x - data["weight"].mean() + shift) * rate
        torch.testing.assert_close(result.double(), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(sojourn.Error, match="takes 2 inputs: pass an iterable"):
        program.run(owner)
    with pytest.raises(sojourn.Error, match=f"all {program.steps} batches of the compiled step have been served"):
        program.run(owner, given + given[:1])


def test_programs_do_not_depend_on_data(data):
    """The same bytes without an owner as beside one that holds other data, and no data in them."""
    state = network().state_dict()

    def make():
        program = compiled(spec_of(data), state, lambda train: train.batches(**BATCHES))
        return [program.program_bytes(call) for call in ("init", "first", "steady")]

    alone = make()
    with sojourn.local() as owner:
        owner.register("train", {**data, "weight": -data["weight"]}, policy="open")
        assert make() == alone
    assert "sojourn.read_rows" in compiled(spec_of(data), state, lambda train: train.batches(**BATCHES)).text()


def test_a_run_sends_no_rows(owner, data):
    """Bytes of a step do not grow with the batch."""
    grown = {name: np.concatenate([column] * 100) for name, column in data.items()}
    owner.register("train", grown, policy="open")
    per_step = []
    for size in (8, 512):
        options = BATCHES | {"size": size}
        program = compiled(spec_of(grown), network().state_dict(), lambda train: train.batches(**options))
        run = _sojourn.ArtifactRun(program._artifact, owner.session)
        run.step([])
        run.step([])
        with Count(owner) as count:
            for _ in range(4):
                run.step([])
        assert count.of["uploads"] == 0 and count.of["upload_parts"] == 0
        per_step.append(count.of["bytes_up"] / 4)
    assert abs(per_step[0] - per_step[1]) < 64 and max(per_step) < 2000, per_step


def bad_owner_tables(data):
    missing = {("heigth" if name == "height" else name): column for name, column in data.items()}
    return [
        (missing, "it has no column 'height'; did you mean .*'heigth'"),
        ({**data, "weight": data["weight"].astype(np.float32)}, "its column 'weight' is float32, .* for float64"),
        (
            {**data, "y": np.stack([data["y"]] * 2, 1)},
            r"its column 'y' is int32 \[2\], but the step was compiled for int32",
        ),
    ]


@pytest.mark.parametrize("case", range(3))
def test_other_tables_are_refused(owner, data, case):
    program = compiled(spec_of(data), network().state_dict(), lambda train: train.batches(**BATCHES))
    other, text = bad_owner_tables(data)[case]
    owner.register("train", other, policy="open")
    with (
        Count(owner) as count,
        pytest.raises(sojourn.Error, match=f"dataset 'train' at .* is not table 'train'.*{text}"),
    ):
        program.run(owner)
    assert count.of["steps"] == 0


def test_a_table_without_one_batch_is_refused(owner, data):
    program = compiled(spec_of(data), network().state_dict(), lambda train: train.batches(**BATCHES))
    owner.register("train", {name: column[:7] for name, column in data.items()}, policy="open")
    with (
        Count(owner) as count,
        pytest.raises(sojourn.Error, match="has 7 rows, too few for a batch of 8; use a table with more rows"),
    ):
        program.run(owner)
    assert count.of["steps"] == 0


def test_bounds_are_compared_where_they_are_specified(data):
    def run(specified, registered):
        with sojourn.local() as owner:
            owner.register("train", data, policy="open", bounds=registered)
            spec = spec_of(data, bounds=specified)
            return compiled(spec, network().state_dict(), lambda train: train.batches(**BATCHES)).run(owner)

    assert run(None, {"weight": (-1, 1)}) and run({"weight": (-1, 1)}, {"weight": (-1, 1)})
    for registered, found in [({"weight": (-1, 2)}, r"bounds \[-1, 2\]"), ({}, "no bounds")]:
        with pytest.raises(
            sojourn.Error, match=rf"'weight' has {found}, but the step was compiled for bounds \[-1, 1\]"
        ):
            run({"weight": (-1, 1)}, registered)


def test_names_of_a_run_are_checked(owner, data):
    program = compiled(spec_of(data), network().state_dict(), lambda train: train.batches(**BATCHES))
    owner.register("trian", data, policy="open")
    with pytest.raises(sojourn.Error, match="no dataset 'train' for table 'train'.*did you mean 'trian'"):
        program.run(owner)
    with pytest.raises(sojourn.Error, match="reads no table 'trains'; did you mean 'train'"):
        program.run(owner, tables={"trains": "trian"})
    with pytest.raises(sojourn.Error, match="tables must map"):
        program.run(owner, tables={"train": owner.dataset("trian")})
    assert len(program.run(owner, tables={"train": "trian"})) == program.steps


def test_steps_name_the_version_that_the_run_found(data):
    """A table that changes after the run has looked is another one: here the catalogue tells another version."""
    embedded = _sojourn.EmbeddedOwner()
    versions = []

    def handle(request):
        reply = bytearray(embedded.handle(request))
        whole = Reply.GetRootAs(reply, 0)
        if whole.BodyType() == ReplyBody.ReplyBody.Datasets:
            datasets = Datasets()
            datasets.Init(whole.Body().Bytes, whole.Body().Pos)
            versions.append(datasets.Datasets(0).Version())
            place = reply.index(versions[-1])
            reply[place] = ord("x")
        return bytes(reply)

    program = compiled(spec_of(data), network().state_dict(), lambda train: train.batches(**BATCHES))
    embedded.register("train", {name: torch.from_numpy(column) for name, column in data.items()}, "open")
    session = _sojourn.Session(handle, "another version")
    run = _sojourn.ArtifactRun(program._artifact, session)
    found, told = versions[0].decode(), "x" + versions[0].decode()[1:]
    with pytest.raises(sojourn.OwnerError, match=f"'train' has version {found}, the step was made for version {told}"):
        run.step([])
    session.close()


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: sojourn.table_spec(0, {"a": torch.int64}), r"it has 0 rows; expected a number in \[1, "),
        (lambda: sojourn.table_spec(2.5, {"a": torch.int64}), "rows must be an integer, got 2.5"),
        (lambda: sojourn.table_spec(2**33, {"a": torch.int64}), "it has 8589934592 rows"),
        (lambda: sojourn.table_spec(3, {}), "it has 0 columns"),
        (lambda: sojourn.table_spec(3, ["a"]), "columns must map names to dtypes"),
        (lambda: sojourn.table_spec(3, {"": torch.int64}), "a column's name has 0 bytes"),
        (lambda: sojourn.table_spec(3, {4: torch.int64}), "a column name must be a str, got 4"),
        (lambda: sojourn.table_spec(3, {"a": "int64"}), "column 'a' must be a torch.dtype or"),
        (lambda: sojourn.table_spec(3, {"a": torch.bfloat16}), "column 'a' has type bfloat16; a table holds bool"),
        (lambda: sojourn.table_spec(3, {"a": torch.complex64}), "column 'a' has type complex64"),
        (lambda: sojourn.table_spec(3, {"a": (torch.int64, (2, 0))}), r"entries of shape \[2, 0\]; expected at most 8"),
        (lambda: sojourn.table_spec(3, {"a": (torch.int64, (2**40, 2**40))}), "at most 16777216 elements"),
        (lambda: sojourn.table_spec(3, {"a": (torch.int64, (1.5,))}), "a size of column 'a' must be an integer"),
        (lambda: sojourn.table_spec(3, {"a": torch.int64}, bounds={"b": (0, 1)}), "bounds name 'b'"),
        (
            lambda: sojourn.table_spec(3, {"a": torch.int64}, bounds={"a": (1, 0)}),
            r"bounds \[1, 0\]; expected two finite",
        ),
        (lambda: sojourn.table_spec(3, {"a": torch.int64}, bounds={"a": (0,)}), "must be .lower, upper., got"),
        (lambda: sojourn.table_spec(3, {"a": torch.int64}, bounds={"a": (0, float("nan"))}), "expected two finite"),
    ],
)
def test_impossible_descriptions_are_told_at_once(make, text):
    with pytest.raises(sojourn.Error, match=text):
        make()


def of_another_device(t):
    return sojourn.plain({"a": np.arange(8.0)}).batches(["a"], size=8)


@pytest.mark.parametrize(
    "batches, text",
    [
        (
            lambda t: t.batches(["a"], size=3),
            r"the last batch of each epoch has 2 of 3 rows \(table 't' has 8\).*drop_last",
        ),
        (lambda t: t.batches(["a"], size=9, drop_last=True), "it has no batch of 9"),
        (lambda t: t.batches(["a"], size=9), "has 8 of 9 rows"),
        (lambda t: t.batches(["b"], size=8), "no column 'b'"),
        (lambda t: t, "batches must return the result of table.batches"),
        (lambda t: [t.batches(["a"], size=8), 3], "batches must return the result of table.batches"),
        (None, "tables and batches must be given together"),
        (of_another_device, "are on cpu, but the step is compiled on owner:"),
    ],
)
def test_mistakes_are_told_when_compiling(batches, text):
    with sojourn.offline(), pytest.raises(sojourn.Error, match=text):
        sojourn.compile(lambda x: x, tables={"t": sojourn.table_spec(8, {"a": torch.float64})}, batches=batches)


def test_tables_are_checked_when_compiling():
    with sojourn.offline():
        with pytest.raises(sojourn.Error, match="tables and batches must be given together"):
            sojourn.compile(lambda x: x, batches=lambda t: t)
        with pytest.raises(sojourn.Error, match="tables must map names to sojourn.table_spec"):
            sojourn.compile(lambda x: x, tables={"t": {"a": torch.float64}}, batches=lambda t: t)
        # A size that divides the rows leaves no short batch.
        spec = sojourn.table_spec(8, {"a": torch.float64})
        assert sojourn.compile(lambda x: x, tables={"t": spec}, batches=lambda t: t.batches(["a"], size=4)).steps == 2
        # A batch that the step reads itself is the same one in every step: its numbers do not change.
        kept = {}
        again = sojourn.compile(
            lambda x: (x, next(iter(kept["t"].batches(["a"], size=3, shuffle=False)))),
            tables={"t": spec},
            batches=lambda t: kept.update(t=t) or t.batches(["a"], size=4, shuffle=False),
        )
    values = np.arange(8.0)
    with sojourn.local() as owner:
        owner.register("t", {"a": values}, policy="open")
        for step, (x, same) in enumerate(again.run(owner)):
            assert x[:, 0].tolist() == values[4 * step : 4 * step + 4].tolist() and same[:, 0].tolist() == [0, 1, 2]


def test_devices_end_with_their_programs(data):
    """A compiled step keeps neither its optimizer nor its device."""
    gc.collect()
    before = _sojourn.device_count()
    for _ in range(3):
        compiled(spec_of(data), network().state_dict(), lambda train: train.batches(**BATCHES))
        gc.collect()
        assert _sojourn.device_count() == before


def test_a_right_checksum_is_not_believed(data, tmp_path, rng):
    path = tmp_path / "step.sojourn"
    compiled(spec_of(data), network().state_dict(), lambda train: train.batches(**BATCHES)).save(path)
    refused = 0
    files = list(changed_bits(path.read_bytes()[:-CHECKSUM_BYTES], rng, 100))
    with sojourn.local() as owner:
        owner.register("train", data, policy="open")
        for file in files:
            path.write_bytes(file)
            try:
                assert len(sojourn.load(path).run(owner, [()] * 3)) == 3
            except sojourn.Error as error:
                assert "the owner failed" not in str(error)
                refused += 1
    assert 0 < refused < len(files)


def test_impossible_tables_in_a_file_are_refused(data, tmp_path):
    path = tmp_path / "step.sojourn"
    compiled(spec_of(data), network().state_dict(), lambda train: train.batches(**BATCHES)).save(path)
    whole = bytearray(path.read_bytes()[:-CHECKSUM_BYTES])
    artifact = Artifact.Artifact.GetRootAs(whole, 0)
    table, batches = artifact.Tables(0), artifact.Batches(0)
    assert (table.Name(), table.Rows(), batches.Size()) == (b"train", len(data["y"]), 8)

    def field(owner, number):
        return owner._tab.Pos + owner._tab.Offset(4 + 2 * number)

    steady = artifact.Calls(2)
    slots = [steady.SlotBatches(slot) for slot in range(steady.SlotBatchesLength())]
    assert set(slots) == {-1, 0, 1}
    vector = steady._tab.Vector(steady._tab.Offset(4 + 2 * 5))
    changes = [
        (field(table, 1), (2**33).to_bytes(8, "little"), "has 8589934592 rows"),
        (field(batches, 0), bytes(8), "its batches have invalid sizes"),
        (field(batches, 1), (2**64 - 1).to_bytes(8, "little"), "its batches have invalid sizes"),
        (vector + 4 * slots.index(1), (2).to_bytes(4, "little"), "a slot takes batches that do not exist"),
        (whole.index(b"train\0", table._tab.Pos), b"trail", "reads table 'train', which it does not describe"),
        (field(table.Columns(0), 1), bytes([10]), "has type complex64"),
    ]
    for place, value, text in changes:
        damaged = bytearray(whole)
        damaged[place : place + len(value)] = value
        path.write_bytes(stamped(damaged))
        with pytest.raises(sojourn.Error, match=f"is not a compiled step: .*{text}"):
            sojourn.load(path)


@pytest.mark.parametrize("kind", ["embedded", "numpy"])
@pytest.mark.parametrize("per_trip", [1, 3, 64])
def test_several_steps_in_one_trip(make_owner, kind, seed, per_trip):
    """Dropout, a schedule and Adam: as a step at a time, with the trips that were asked for."""
    counted, rows, size = make_owner(kind), 200, 20
    columns = {"a": torch.randn(rows), "b": torch.randn(rows), "y": torch.randint(0, 2, (rows,))}
    counted.owner.register("t", columns, policy="open")
    with sojourn.offline() as device:
        model = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 2))
        model = model.to(device)
        optimizer = torch.optim.Adam(model.parameters(), capturable=True)

        def train(x, y, scale):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y) * scale
            loss.backward()
            optimizer.step()
            return {"loss": loss, "weight": model[0].weight}

        program = sojourn.compile(
            train, inputs=[sojourn.number()],
            tables={"t": sojourn.table_spec(rows, {"a": torch.float32, "b": torch.float32, "y": torch.int64})},
            batches=lambda t: t.batches(["a", "b"], label="y", size=size, epochs=3),
        )  # fmt: skip
    inputs = [(0.5 + k / 10,) for k in range(30)]
    results = []
    for trip in (1, per_trip):
        torch.manual_seed(seed % 1000)
        before = counted.round_trips()
        results.append(program.run(counted.owner, inputs, per_trip=trip))
    # The table is asked for; init and the first step go alone.
    assert counted.round_trips() - before <= 3 + -(-29 // per_trip) + (per_trip > 1)
    for one, other in zip(*results, strict=True):
        assert torch.equal(one["loss"], other["loss"]) and torch.equal(one["weight"], other["weight"])
    with pytest.raises(sojourn.Error, match="all 30 batches") as failure:
        program.run(counted.owner, inputs + [(1.0,)], per_trip=per_trip)
    assert failure.value.steps == len(failure.value.results) < 31
