# SPDX-License-Identifier: Apache-2.0
"""One program for tables of any number of rows: traced, ahead of time, at two owners, open and private.

Oracles: the same script traced over the same table, the documented orders (`test/python/oracle`, plain indexing), and
the prices that `sojourn.privacy` quotes for each count.
"""

import itertools

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from ahead_support import Device
from private_support import DELTA, make_table, numpy_rng, own_owner  # noqa: F401
from remote_support import Count

import sojourn

FEATURES = ["a", "b", "c"]
KINDS = {**dict.fromkeys(FEATURES, torch.float64), "y": torch.int64}
BOUNDS = {**dict.fromkeys(FEATURES, (-1.0, 1.0)), "y": (0, 1)}


def columns(rng, rows):
    return {name: rng.uniform(-1, 1, rows) for name in FEATURES} | {"y": rng.integers(0, 2, rows)}


def network(at, state):
    model = torch.nn.Linear(3, 2)
    model.load_state_dict(state)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    return sojourn.to_owner(model, at, optimizer), optimizer


def train(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return sojourn.publish({"loss": loss.detach(), **model.state_dict()}, bound=20.0)


def compiled(spec, state, part=lambda table: table, short=None, **options):
    kept = {}

    def init():
        kept["both"] = network(Device(device), state)

    with sojourn.offline() as device:
        return sojourn.compile(
            lambda x, y: train(*kept["both"], x, y),
            init=init,
            tables={"people": spec},
            batches=lambda people: part(people).batches(FEATURES, label="y", **options),
            short=short,
        )


def traced(owner, state, batches):
    model, optimizer = network(owner, state)
    results = []
    for x, y in batches:
        with sojourn.step():
            results.append(train(model, optimizer, x, y))
    return [result.value for result in results]


def assert_same_runs(ahead, expected):
    assert len(ahead) == len(expected) > 0
    for ours, theirs in zip(ahead, expected):
        assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in theirs)


def run_hashes(owner):
    return {entry["hash"] for entry in owner.programs()}


PARTS = {
    "table": lambda table: table,
    "part": lambda table: table.split(0.7, seed=3)[0],
    "part of a part": lambda table: table.split(0.7, seed=3)[1].split(0.6, seed=4)[0],
}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("runtime", ["native", "numpy"])
def test_batches_of_tables_of_three_counts_are_one_program(runtime, part, rng):
    state = torch.nn.Linear(3, 2).state_dict()
    options = {"size": 8, "epochs": 2, "seed": 7, "drop_last": True}
    seen = []
    with sojourn.local(runtime=runtime) as owner:
        for rows in (96, 97, int(rng.integers(98, 300))):
            data = columns(rng, rows)
            table = PARTS[part](owner.register(f"people-{rows}", data, policy="open"))
            ours = traced(owner, state, table.batches(FEATURES, label="y", **options))
            # The same rows as in this process's memory.
            for (x, y), (x_there, y_there) in zip(
                PARTS[part](sojourn.plain(data)).batches(FEATURES, label="y", **options),
                table.batches(FEATURES, label="y", **options),
            ):
                assert torch.equal(sojourn.publish(x_there), x) and torch.equal(sojourn.publish(y_there), y)
            seen.append(run_hashes(owner))
            assert len(ours) == 2 * (len(table) // 8)
    assert seen[0] == seen[1] == seen[2]


def test_a_short_last_batch_is_a_program_of_its_own(owner, rng):
    state = torch.nn.Linear(3, 2).state_dict()
    for rows in (24, 27, 35):
        table = owner.register(f"people-{rows}", columns(rng, rows), policy="open")
        before = run_hashes(owner)
        traced(owner, state, table.batches(FEATURES, label="y", size=8))
        fresh = len(run_hashes(owner) - before)
        # 24: the first step and the others; 27 and 35: one for 3 rows, which both leave.
        assert fresh == {24: 2, 27: 1, 35: 0}[rows], rows


@pytest.mark.parametrize("described", [96, None])
@pytest.mark.parametrize("part", PARTS)
def test_an_artifact_trains_on_other_counts_and_at_another_owner(described, part, rng, tmp_path):
    state = torch.nn.Linear(3, 2).state_dict()
    options = {"size": 8, "epochs": 2, "seed": 5, "drop_last": True}
    spec = sojourn.table_spec(described, KINDS) if described else sojourn.table_spec(columns=KINDS)
    compiled(spec, state, PARTS[part], **options).save(tmp_path / "train.sojourn")
    program = sojourn.load(tmp_path / "train.sojourn")
    stored = program.program_bytes()
    assert (program.steps is None) == (described is None)
    for runtime, rows in [("native", 96), ("native", 97), ("numpy", 97), ("numpy", int(rng.integers(100, 300)))]:
        with sojourn.local(runtime=runtime) as owner:
            table = owner.register("people", columns(rng, rows), policy="open")
            with Count(owner) as count:
                ahead = program.run(owner)
            assert count.of["uploads"] == 0
            loop = PARTS[part](table).batches(FEATURES, label="y", **options)
            assert len(ahead) == len(loop)
            assert_same_runs(ahead, traced(owner, state, loop))
    assert program.program_bytes() == stored


@pytest.mark.parametrize("described", [27, None])
def test_a_short_step_is_compiled_beside(described, rng, tmp_path):
    state = torch.nn.Linear(3, 2).state_dict()
    options = {"size": 8, "epochs": 3, "seed": 5}
    spec = sojourn.table_spec(described, KINDS) if described else sojourn.table_spec(columns=KINDS)
    compiled(spec, state, short=3, **options).save(tmp_path / "train.sojourn")
    program = sojourn.load(tmp_path / "train.sojourn")
    assert "tensor<3x3xf32>" in program.text(call="short") and "tensor<3x3xf32>" not in program.text()
    # 11: the first step of a run is followed by a short one; 24: none is short.
    for runtime, rows in [("native", 27), ("numpy", 27), ("native", 11), ("native", 24), ("native", 83)]:
        for per_trip in (1, 5):
            with sojourn.local(runtime=runtime) as owner:
                table = owner.register("people", columns(rng, rows), policy="open")
                ahead = program.run(owner, per_trip=per_trip)
                assert_same_runs(ahead, traced(owner, state, table.batches(FEATURES, label="y", **options)))
    with sojourn.local() as owner:
        owner.register("people", columns(rng, 28), policy="open")
        with pytest.raises(sojourn.Error, match="has 4 of 8 rows.*its short step has 3 rows.*short="):
            program.run(owner)
        owner.register("few", columns(rng, 3), policy="open")
        with pytest.raises(sojourn.Error, match="has 3 rows, too few for a batch of 8"):
            program.run(owner, tables={"people": "few"})


@pytest.mark.parametrize(
    "spec, options, text",
    [
        ({"rows": 27}, {"short": 4}, "has 3 of 8 rows .*its short step has 4 rows"),
        ({}, {"short": 8}, "short is 8, expected a number of rows from 1 to 7"),
        ({}, {"short": 0}, "short must be"),
        ({}, {"short": 3, "drop_last": True}, "needs the batches of exactly one open table, without drop_last"),
        ({"policy": "private", "bounds": BOUNDS}, {"short": 3}, "needs the batches of exactly one open table"),
    ],
)
def test_short_steps_that_cannot_be(spec, options, text):
    with pytest.raises(sojourn.Error, match=text):
        compiled(sojourn.table_spec(columns=KINDS, **spec), torch.nn.Linear(3, 2).state_dict(), size=8, **options)


def test_a_private_artifact_is_priced_by_each_count(rng, tmp_path):
    state = torch.nn.Linear(3, 2).state_dict()
    spec = sojourn.table_spec(columns=KINDS, bounds=BOUNDS, policy="private")
    compiled(spec, state, size=16, epochs=2).save(tmp_path / "train.sojourn")
    program = sojourn.load(tmp_path / "train.sojourn")
    with pytest.raises(
        sojourn.Error, match=r"depends on the number of rows of table 'people'.*quote\(\.\.\., rows=N\)"
    ):
        program.quote(noise_multiplier=1.0, delta=DELTA)
    prices = []
    for rows in (96, 97, 400):
        with sojourn.local() as owner:
            table = make_table(owner, columns(rng, rows), BOUNDS)
            with sojourn.privacy(table, noise_multiplier=1.0, delta=DELTA) as run:
                published = program.run(owner)
            quote = program.quote(noise_multiplier=1.0, delta=DELTA, rows=rows)
            assert len(published) == quote.steps == 2 * -(-rows // 16)
            assert quote.sampling_rate == pytest.approx(16 / rows)
            assert run.epsilon == pytest.approx(quote.epsilon, rel=1e-6)
            prices.append(program.quote(noise_multiplier=1.0, delta=DELTA, rows=rows, steps=12).epsilon)
    assert prices[0] > prices[1] > prices[2] > 0


def test_one_private_program_serves_all_counts(owner, rng):
    """Traced, too: slots follow from the size alone, and the owner prices each table by its own count."""
    state = torch.nn.Linear(3, 2).state_dict()
    seen, prices = [], []
    for rows in (96, 97, 500):
        table = make_table(owner, columns(rng, rows), BOUNDS, name=f"people-{rows}")
        before = run_hashes(owner)
        with sojourn.privacy(table, noise_multiplier=1.0, delta=DELTA) as run:
            traced(owner, state, itertools.islice(table.batches(FEATURES, label="y", size=16), 3))
            prices.append(run.epsilon)
            quote = sojourn.privacy(table, noise_multiplier=1.0, delta=DELTA, size=16, epochs=1).quote(steps=3)
            assert run.epsilon == pytest.approx(quote.epsilon, rel=1e-6)
        seen.append(run_hashes(owner) - before)
    assert seen[0] and not seen[1] and not seen[2], seen
    assert prices[0] > prices[1] > prices[2]


def test_whole_columns_are_bound_to_their_number_of_rows(rng):
    with sojourn.offline():
        program = sojourn.compile(
            lambda x: (x.sum(), x),
            tables={"people": sojourn.table_spec(12, KINDS)},
            batches=lambda people: [people.batches(["a"], size=4)],
        )
        assert "!sojourn.table<?" in program.text()
        whole = {}

        def take(people):
            whole["a"] = people["a"]
            return people.batches(["a"], size=4)

        counted = sojourn.compile(
            lambda x: x.sum() + whole["a"].sum(),
            tables={"people": sojourn.table_spec(12, KINDS)},
            batches=take,
        )
    assert "!sojourn.table<12" in counted.text(call="init") and "!sojourn.table<12" not in counted.text()
    with sojourn.local() as owner:
        data = columns(rng, 16)
        owner.register("longer", data, policy="open")
        owner.register("people", {name: column[:12] for name, column in data.items()}, policy="open")
        assert len(program.run(owner)) == 3 and len(program.run(owner, tables={"people": "longer"})) == 4
        values = counted.run(owner)
        expected = [
            data["a"][index].astype(np.float32).sum() + data["a"][:12].sum()
            for index in (sojourn.batch_indices(12, 4, 0, 0))
        ]
        assert np.allclose([float(v) for v in values], expected, rtol=1e-5)
        with pytest.raises(sojourn.Error, match="it has 16 rows, but the step reads whole columns of 12 rows"):
            counted.run(owner, tables={"people": "longer"})


def test_open_descriptions_refuse_what_needs_a_count_by_name():
    spec = sojourn.table_spec(columns=KINDS)
    seen = []

    def look(people):
        first, other = people.split(0.25, seed=1)
        for what, ask in {
            "column 'a'": lambda: first["a"],
            "the number of rows": lambda: people.rows(["a"]),
            "the number of rows ": lambda: len(other),
            "the number of batches": lambda: len(people.batches(["a"], size=4)),
        }.items():
            with pytest.raises(sojourn.Error, match=f"{what.strip()} of table 'people' is not known.*table_spec"):
                ask()
            seen.append(what)
        assert "any number of rows" in str(people)
        return other.batches(["a"], size=4, drop_last=True)

    with sojourn.offline():
        sojourn.compile(lambda x: x.sum(), tables={"people": spec}, batches=look)
        assert len(seen) == 4
        with pytest.raises(sojourn.Error, match=r"described without a number of rows.*drop_last=True"):
            sojourn.compile(
                lambda x: x.sum(), tables={"people": spec}, batches=lambda people: people.batches(["a"], size=4)
            )


def test_counts_that_do_not_fit_are_refused_before_anything_runs(rng):
    with sojourn.offline():
        full = sojourn.compile(
            lambda x: x.sum(),
            tables={"people": sojourn.table_spec(16, KINDS)},
            batches=lambda people: people.batches(["a"], size=8),
        )
        tenth = sojourn.compile(
            lambda x: x.sum(),
            tables={"people": sojourn.table_spec(columns=KINDS)},
            batches=lambda people: people.split(0.1)[0].batches(["a"], size=1, drop_last=True),
        )
    for runtime in ("native", "numpy"):
        with sojourn.local(runtime=runtime) as owner:
            owner.register("seventeen", columns(rng, 17), policy="open")
            owner.register("few", columns(rng, 4), policy="open")
            assert len(tenth.run(owner, tables={"people": "seventeen"})) == 2
            with Count(owner) as count:
                with pytest.raises(sojourn.Error, match=r"last batch of each epoch has 1 of 8 rows.*has 17"):
                    full.run(owner, tables={"people": "seventeen"})
                with pytest.raises(sojourn.Error, match="has 0 rows, too few for a batch of 1"):
                    tenth.run(owner, tables={"people": "few"})
            assert count.of["steps"] == 0


def test_quotes_of_impossible_counts(rng):
    spec = sojourn.table_spec(columns=KINDS, bounds=BOUNDS, policy="private")
    program = compiled(spec, torch.nn.Linear(3, 2).state_dict(), size=16, epochs=2)
    for rows, text in [(15, "expects a batch of 16 rows, but there are only 15"), (2**33, "it has 8589934592 rows")]:
        with pytest.raises(sojourn.Error, match=text):
            program.quote(noise_multiplier=1.0, delta=DELTA, rows=rows)
