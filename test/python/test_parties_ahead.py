# SPDX-License-Identifier: Apache-2.0
"""Steps of several owners, compiled ahead of time: equal to the traced step, and to plain PyTorch on all rows."""

import pathlib
import re
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from ahead_support import CHECKSUM_BYTES, Device, changed_bits
from torch import nn

import sojourn
from sojourn_wire import Artifact

BIN = pathlib.Path(__file__).resolve().parents[2] / "build/bin"

COLUMNS = {"age": torch.float64, "dose": torch.float64, "relapse": torch.int64}
BATCHES = {"features": ["age", "dose"], "label": "relapse", "dtype": torch.float64}


def rows_of(count, rng):
    generator = torch.Generator().manual_seed(rng.randrange(2**31))
    return {
        "age": torch.randn(count, generator=generator, dtype=torch.float64),
        "dose": torch.randn(count, generator=generator, dtype=torch.float64),
        "relapse": torch.randint(0, 2, (count,), generator=generator),
    }


def train(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.detach()


def setup(seed):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def compiled(seed, rows, batches, **options):
    """The program over a table of each party; `rows`: of the descriptions, by party."""
    kept = {}

    def init():
        model, optimizer = setup(seed)
        kept["all"] = sojourn.to_owner(model, Device(device), optimizer), optimizer
        return model

    tables = {name: sojourn.table_spec(count, COLUMNS, party=name) for name, count in rows.items()}
    with sojourn.offline() as device:
        return sojourn.compile(
            lambda *batch: train(*kept["all"], *joined(batch)), init=init, tables=tables, batches=batches, **options
        )


def joined(batch):
    """Rows of each party, one after another."""
    return batch if len(batch) == 2 else (torch.cat(batch[::2]), torch.cat(batch[1::2]))


def plain(seed, batches):
    """Losses and weights of the same steps in plain PyTorch."""
    model, optimizer = setup(seed)
    losses = [train(model, optimizer, x, y) for x, y in batches]
    return losses, model.state_dict()


def same(found, expected):
    losses, state = found
    assert len(losses) == len(expected[0])
    torch.testing.assert_close(torch.stack(losses), torch.stack(expected[0]), rtol=1e-11, atol=1e-12)
    assert list(state) == list(expected[1])
    for name, value in expected[1].items():
        torch.testing.assert_close(state[name], value, rtol=1e-11, atol=1e-12)


class Hospitals:
    """Some owners that share a table each, and the same tables as plain ones."""

    def __init__(self, *rows, rng):
        self.data = [rows_of(count, rng) for count in rows]
        self.owners = [sojourn.local() for _ in rows]
        for owner, table in zip(self.owners, self.data):
            owner.register("patients", table, policy="open")
        for owner in self.owners:
            owner.share("patients", [other for other in self.owners if other is not owner])
        self.by_party = dict(zip("abcdef", self.owners))
        self.tables = dict.fromkeys(self.by_party, "patients")
        self.rows = dict(zip("abcdef", rows))
        self.pooled = sojourn.pooled(*(sojourn.plain(table, name="patients") for table in self.data))

    def everywhere(self, program, per_trip=1):
        """What the program gives in a group, by either name of it, and at one owner that has all tables."""
        found = [(program.run(self.by_party, tables=self.tables, per_trip=per_trip), program.state())]
        with sojourn.parties(*self.owners) as group:
            found.append((program.run(group, tables=self.tables, per_trip=per_trip), program.state()))
        for runtime in ("native", "numpy"):
            with sojourn.local(runtime=runtime) as owner:
                for name, table in zip(self.by_party, self.data):
                    owner.register(name, table, policy="open")
                found.append((program.run(owner, per_trip=per_trip), program.state()))
                found.append((program.run(dict.fromkeys(self.by_party, owner)), program.state()))
        return found

    def close(self):
        for owner in self.owners:
            owner.close()


@pytest.fixture
def hospitals(rng):
    made = []

    def make(*rows):
        made.append(Hospitals(*rows or [rng.randrange(12, 60) for _ in range(3)], rng=rng))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize("per_trip", [1, 5])
@pytest.mark.parametrize("drop", [True, False])
def test_a_program_trains_as_on_all_rows(hospitals, rng, tmp_path, drop, per_trip):
    three, seed, size = hospitals(), rng.randrange(1000), 12
    options = {"size": size, "epochs": 3, "seed": seed, "drop_last": drop, **BATCHES}
    rest = sum(three.rows.values()) % size
    program = compiled(
        seed,
        three.rows,
        lambda a, b, c: sojourn.pooled(a, b, c).batches(**options),
        short=rest if rest and not drop else None,
    )
    program.save(tmp_path / "train.sojourn")
    program = sojourn.load(tmp_path / "train.sojourn")
    assert program.parties == ("a", "b", "c")
    assert {name: table.party for name, table in program.tables.items()} == {"a": "a", "b": "b", "c": "c"}
    expected = plain(seed, three.pooled.batches(**options))
    assert program.steps == len(expected[0])
    for found in three.everywhere(program, per_trip):
        same(found, expected)


def test_it_is_the_traced_step(hospitals, rng):
    """To the bit, with few messages."""
    three, seed = hospitals(30, 18, 24), rng.randrange(1000)
    options = {"size": 24, "epochs": 4, "seed": seed, **BATCHES}
    program = compiled(seed, three.rows, lambda a, b, c: sojourn.pooled(a, b, c).batches(**options))
    with sojourn.parties(*three.owners) as group:
        model, optimizer = setup(seed)
        sojourn.to_owner(model, group, optimizer)
        step = sojourn.step(lambda x, y: train(model, optimizer, x, y))
        losses = [sojourn.publish(step(x, y)) for x, y in group.rows("patients").batches(**options)]
        weights = sojourn.publish(model.state_dict())
        before = group.counters()["round_trips"]
        found = program.run(group, tables=three.tables, per_trip=20)
        assert group.counters()["round_trips"] - before == 3 * 3  # init, the first step, the others
        assert torch.equal(torch.stack(found), torch.stack(losses))
        for name, value in program.state().items():
            assert torch.equal(value, weights[name]), name


def test_batches_of_each_party_fit_tables_of_any_size(hospitals, rng):
    """One program for three hospitals, and for three others."""
    seed, sizes = rng.randrange(1000), {"a": 6, "b": 4, "c": 3}

    def batches_of(tables):
        return [
            table.batches(size=size, epochs=2, seed=seed, drop_last=True, **BATCHES)
            for table, size in zip(tables, sizes.values())
        ]

    program = compiled(seed, dict.fromkeys("abc"), lambda a, b, c: batches_of([a, b, c]))
    assert program.steps is None
    for _ in range(2):
        three = hospitals()
        plains = [sojourn.plain(table, name="patients") for table in three.data]
        parts = zip(*batches_of(plains))
        expected = plain(seed, [joined([each for part in batch for each in part]) for batch in parts])
        for found in three.everywhere(program):
            same(found, expected)


def test_roles_are_played_by_whom_the_run_says(hospitals, rng):
    three, seed = hospitals(24, 24, 24), rng.randrange(1000)
    options = {"size": 12, "epochs": 2, "seed": seed, **BATCHES}
    program = compiled(seed, three.rows, lambda a, b, c: sojourn.pooled(a, b, c).batches(**options))
    for _ in range(2):
        order = rng.sample(range(3), 3)
        pooled = sojourn.pooled(*(sojourn.plain(three.data[at], name="patients") for at in order))
        players = {"abc"[place]: three.owners[at] for place, at in enumerate(order)}
        shuffled = dict(rng.sample(sorted(players.items()), 3))  # the order of the dict says nothing
        found = program.run(shuffled, tables=three.tables), program.state()
        same(found, plain(seed, pooled.batches(**options)))


def test_splits_inputs_and_whole_columns(hospitals, rng):
    """What a step takes beside batches: numbers, tensors, columns of one party's table."""
    two = hospitals(30, 21)
    shift = torch.randn(3, dtype=torch.float64, generator=torch.Generator().manual_seed(rng.randrange(999)))
    held = {}

    def batches(a, b):
        held.update(a=a, b=b)
        return (
            sojourn.pooled(a, b)
            .split(0.7, seed=3)[0]
            .batches("age", size=9, seed=5, drop_last=True, dtype=torch.float64)
        )

    def step(x, given, factor):
        whole = held["b"]["dose"].mean() + sojourn.pooled(held["a"], held["b"])["age"].sum()
        return {"mean": (x * factor).mean(), "rows": x, "shifted": given + whole}

    with sojourn.offline():
        program = sojourn.compile(
            step,
            tables={name: sojourn.table_spec(count, COLUMNS, party=name) for name, count in two.rows.items()},
            batches=batches,
            inputs=[sojourn.spec((3,), torch.float64), sojourn.number()],
        )
    expected = two.pooled.split(0.7, seed=3)[0].batches("age", size=9, seed=5, drop_last=True, dtype=torch.float64)
    expected = list(expected)
    factors = [rng.random() for _ in expected]
    found = program.run(two.by_party, [(shift, factor) for factor in factors], tables=two.tables, per_trip=2)
    whole = two.data[1]["dose"].mean() + two.pooled["age"].sum()
    assert len(found) == len(expected)
    for each, x, factor in zip(found, expected, factors):
        torch.testing.assert_close(each["rows"], x, rtol=0, atol=0)
        torch.testing.assert_close(each["mean"], (x * factor).mean(), rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(each["shifted"], shift + whole, rtol=1e-12, atol=1e-12)


ELSEWHERE = """
import sys
import torch
import sojourn

path, data, values = sys.argv[1:]
program, tables = sojourn.load(path), torch.load(data)
owners = {}
for name, table in zip(program.parties, tables):
    owners[name] = sojourn.local()
    owners[name].register(name, table, policy="open")
for name, owner in owners.items():
    owner.share(name, [other for other in owners.values() if other is not owner])
torch.save((program.run(owners, per_trip=4), program.state()), values)
"""


def test_another_process_runs_the_file(hospitals, rng, tmp_path):
    three, seed = hospitals(), rng.randrange(1000)
    options = {"size": 12, "epochs": 2, "seed": seed, "drop_last": True, **BATCHES}
    program = compiled(seed, three.rows, lambda a, b, c: sojourn.pooled(a, b, c).batches(**options))
    path, data, values = (tmp_path / name for name in ("train.sojourn", "data.pt", "values.pt"))
    program.save(path)
    torch.save(three.data, data)
    subprocess.run([sys.executable, "-c", ELSEWHERE, path, data, values], check=True, timeout=120)
    same(torch.load(values), plain(seed, three.pooled.batches(**options)))


def test_programs_of_one_owner_have_files_as_before(hospitals, tmp_path):
    """Version 4 and no field of parties, also on a device that has compiled for parties; version 5 for these."""
    three = hospitals(24, 24, 24)

    def version(program):
        program.save(tmp_path / "step.sojourn")
        file = Artifact.Artifact.GetRootAs((tmp_path / "step.sojourn").read_bytes()[:-CHECKSUM_BYTES], 0)
        return file.Version(), file.PartiesLength(), file.VariantsIsNone()

    def double(party):
        return sojourn.compile(
            lambda *rows: sum(each.sum() for each in rows),
            init=lambda: torch.ones(2, device=device),
            tables={name: sojourn.table_spec(24, COLUMNS, party=name if party else None) for name in "ab"},
            batches=lambda a, b: [each.batches("age", size=12) for each in (a, b)],
        )

    with sojourn.offline() as device:
        before, joint, after = double(False), double(True), double(False)
    assert [version(program) for program in (before, joint, after)] == [(4, 0, True), (5, 2, False), (4, 0, True)]
    assert before.parties == after.parties == ()
    for call in ("init", "first", "steady"):
        assert before.program_bytes(call) == after.program_bytes(call) != joint.program_bytes(call)
    owner = three.owners[0]
    expected = [2 * x.sum() for x in owner_batches(three.data[0])]
    found = after.run(owner, tables=dict.fromkeys("ab", "patients"))
    torch.testing.assert_close(torch.stack(found), torch.stack(expected), rtol=1e-5, atol=1e-5)


def owner_batches(table):
    return sojourn.plain(table).batches("age", size=12)


def test_a_right_checksum_is_not_believed(hospitals, rng, tmp_path):
    """A file with a changed bit and a new checksum is refused, here or by a member, or it is a program."""
    two, seed = hospitals(20, 13), rng.randrange(1000)
    options = {"size": 8, "seed": seed, "drop_last": True, **BATCHES}
    program = compiled(seed, two.rows, lambda a, b: sojourn.pooled(a, b).batches(**options))
    path = tmp_path / "step.sojourn"
    program.save(path)
    whole = path.read_bytes()
    refused = ran = 0
    for data in changed_bits(whole[:-CHECKSUM_BYTES], rng, 120):
        path.write_bytes(data)
        try:
            sojourn.load(path).run(two.by_party, tables=two.tables)
            ran += 1
        except sojourn.Error as error:
            assert "the owner failed" not in str(error)
            refused += 1
    assert refused and ran


def test_members_decide_when_it_runs(hospitals, rng):
    three, seed = hospitals(24, 24, 24), rng.randrange(1000)
    program = compiled(seed, three.rows, lambda a, b, c: sojourn.pooled(a, b, c).batches(size=12, **BATCHES))
    three.owners[2].share("patients", three.owners[:2], "none")
    with pytest.raises(sojourn.Refused, match="does not share it with"):
        program.run(three.by_party, tables=three.tables)
    three.owners[2].share("patients", three.owners[:2], "clear")
    assert len(program.run(three.by_party, tables=three.tables)) == program.steps


def test_tables_that_do_not_fit_are_named_with_their_party(hospitals, rng):
    three, seed = hospitals(24, 24, 24), rng.randrange(1000)
    program = compiled(seed, three.rows, lambda a, b, c: sojourn.pooled(a, b, c).batches(size=12, **BATCHES))
    three.owners[1].register("other", {"age": three.data[1]["age"]}, policy="open")
    with pytest.raises(sojourn.Error, match="dataset 'other' at local is not table 'b' of party 'b'.*no column 'dose'"):
        program.run(three.by_party, tables={**three.tables, "b": "other"})
    with pytest.raises(sojourn.Error, match="no dataset 'patient' for table 'c' of party 'c'.*did you mean 'patients'"):
        program.run(three.by_party, tables={**three.tables, "c": "patient"})
    small = rows_of(7, rng)
    three.owners[0].register("small", small, policy="open")
    with pytest.raises(sojourn.Error, match="last batch of each epoch has 7 of 12 rows .table 'a.b.c' has 55"):
        program.run(three.by_party, tables={**three.tables, "a": "small"})


def test_the_example_in_cpp_trains_as_plain_libtorch(rng):
    command = [BIN / "train-parties", "--rows", str(rng.randrange(60, 300)), "--seed", str(rng.randrange(999))]
    text = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
    assert float(re.search("largest difference to plain libtorch: (.*)", text)[1]) < 1e-12, text
