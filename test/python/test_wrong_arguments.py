# SPDX-License-Identifier: Apache-2.0
"""Wrong arguments of every public function and method: a clear error that names the argument and the found value.

The table below lists the arguments of everything in `sojourn.__all__` with values that each must refuse. No error may
show the text of a binding or of an internal attribute.
"""

import dataclasses
import inspect
import re

import numpy as np
import pytest
import torch
from errors_support import compiled
from torch import nn

import sojourn

RAW = re.compile(
    "incompatible function arguments|incompatible constructor|unable to cast|_sojourn|pybind|has no attribute|"
    "object is not|must be real number|cannot be interpreted|invalid literal|could not convert|unpack",
    re.IGNORECASE,
)


class Thing:
    """A value that nothing expects."""


TEXT = [7, 1.5, b"age", ["age"], None, Thing(), torch.ones(2)]
NUMBER = ["much", b"1", [1.0], None, 1j, Thing(), True, torch.ones(2)]
POSITIVE = [*NUMBER, -1.0, 0, float("nan"), float("inf"), 10**400]
INTEGER = ["many", 1.5, [1], None, Thing(), True, 2**70, torch.ones(2)]
COUNT = [*INTEGER, 0, -1]
FLAG = ["no", 2, 0.5, [], None, Thing(), torch.ones(2)]
PATH = [7, 1.5, b"file", ["file"], None, Thing(), torch.ones(2)]
NAMES = [7, 1.5, b"age", [7], Thing(), torch.ones(2)]
LIMITS = [7, "age", [1], Thing(), {"age": 7}, {"age": "ab"}, {"age": (0,)}, {"age": (0, "1")}, {4: (0, 1)}]
FILLS = [7, "age", [1], Thing(), {"age": "x"}, {"age": (0, 1)}, {4: 1}]
DTYPE = [7, "float32", np.float32, Thing(), [torch.float32]]
ITERABLE = [7, 1.5, Thing(), len]
FUNCTION = [7, "train", [len], torch.ones(2)]


def but(values, *without):
    """Wrong values without those that an argument takes."""
    return [value for value in values if not any(value is each or type(value) is each for each in without)]


class World:
    """What the calls of the table start from."""

    def __init__(self, folder):
        self.owner = sojourn.local()
        self.folder = folder
        data = {"age": np.arange(96) % 90, "dose": np.linspace(0, 2, 96), "ill": np.arange(96) % 2}
        bounds = {"age": (0, 100), "dose": (0, 2), "ill": (0, 1)}
        self.data, self.bounds = data, bounds
        self.table = self.owner.register("houses", data, policy="open", bounds=bounds)
        self.private = self.owner.register("patients", data, policy="private", bounds=bounds)
        self.owner.grant("patients", epsilon=4, delta=1e-5)
        self.other = sojourn.local()
        self.group = sojourn.parties(self.owner, self.other)
        self.plain = sojourn.plain(data)
        self.model = nn.Linear(2, 2).to(self.owner.device)
        self.shared = nn.Linear(2, 2).to(self.group.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.program = compiled("houses", "open")
        self.private_program = compiled("patients", "private")
        sojourn.name(torch.ones(2).to(self.owner.device), "kept")
        self.receipt = sojourn.publish(self.private["dose"].mean(), epsilon=0.1).receipt

    def named(self) -> str:
        """The name of a fresh value."""
        sojourn.name(torch.ones(2).to(self.owner.device), "fresh")
        return "fresh"


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    made = World(tmp_path_factory.mktemp("wrong"))
    yield made
    made.owner.close()


def inside_offline(**given):
    with sojourn.offline():
        return sojourn.compile(**{"step_fn": lambda: (), **given})


def strictly(on=True):
    with sojourn.strict(on):
        pass


@dataclasses.dataclass
class Call:
    """A public function, its other arguments, and the values that each of its arguments must refuse."""

    made: object  # the function, from the world
    given: object  # the arguments that are right, from the world
    wrong: dict


SOURCES = [7, 1.5, b"age", ["age"], None, Thing(), dict]
CATEGORIES = [7, "age", ["age"], {"age": 7}, {"age": "ab"}, {"age": [1.5]}, {"age": []}, {"nobody": ["a"]}]

CALLS = {
    "Owner": Call(lambda w: sojourn.Owner, lambda w: {"address": "local"}, {"session": [*TEXT, "local"]}),
    "Owner.register": Call(
        lambda w: w.owner.register,
        lambda w: {"name": "cars", "source": {"age": np.arange(4)}, "policy": "open"},
        {
            "name": TEXT,
            "source": SOURCES,
            "policy": [*TEXT, "public"],
            "bounds": LIMITS,
            "fills": FILLS,
            "categories": CATEGORIES,
            "subject": but(TEXT, None),
            "population": but(TEXT, None),
        },
    ),
    "Owner.describe": Call(
        lambda w: w.owner.describe,
        lambda w: {"name": "houses"},
        {"name": TEXT, "text": but(TEXT, None), "tags": [*NAMES, "icu", ["a,b"], [""]]},
    ),
    "Owner.share": Call(
        lambda w: w.owner.share,
        lambda w: {"name": "houses", "with_": [w.other], "level": "clear"},
        {"name": TEXT, "with_": [*TEXT, ["bob"], [7], Thing()], "level": [*TEXT, "total", "all"]},
    ),
    "Owner.values": Call(lambda w: w.owner.values, lambda w: {}, {"tag": but(TEXT, None)}),
    "Owner.value": Call(lambda w: w.owner.value, lambda w: {"name": "kept"}, {"name": [*TEXT, "lost"]}),
    "Owner.release": Call(lambda w: w.owner.release, lambda w: {"name": w.named()}, {"name": [*TEXT, "lost"]}),
    "name": Call(
        lambda w: sojourn.name,
        lambda w: {"value": w.model.weight, "name": "weights"},
        {"value": [7, "model", None, Thing(), [1], {"a": 7}], "name": TEXT, "tags": but(NAMES, None)},
    ),
    "parties": Call(
        lambda w: lambda owners=w.other, sums=None: sojourn.parties(w.owner, owners, sums=sums),
        lambda w: {},
        {"owners": [*TEXT, "local"], "sums": [*but(TEXT, None), "hidden"]},
    ),
    "Parties": Call(lambda w: sojourn.Parties, lambda w: {"owners": ()}, {"session": [*TEXT, "local"]}),
    "Parties.rows": Call(lambda w: lambda tables: w.group.rows(tables, w.table), lambda w: {}, {"tables": [*TEXT, 7]}),
    "Parties.programs": Call(lambda w: w.group.programs, lambda w: {}, {"with_text": FLAG}),
    "Parties.where": Call(lambda w: w.group.where, lambda w: {}, {"tensor": TEXT}),
    "average": Call(
        lambda w: sojourn.average,
        lambda w: {"model": w.shared, "copies": {w.owner: w.model}},
        {
            "model": [7, "model", None, Thing(), torch.ones(2)],
            "copies": [7, "model", None, [1], Thing(), {"alice": nn.Linear(2, 2)}, {}],
            "weights": [7, "one", [1.0], Thing(), {"alice": 1}],
        },
    ),
    "pooled": Call(
        lambda w: lambda tables: sojourn.pooled(w.plain, tables), lambda w: {}, {"tables": [*TEXT, "houses"]}
    ),
    "search": Call(
        lambda w: sojourn.search,
        lambda w: {"owners": w.owner},
        {
            "owners": [7, "hospital", None, Thing(), ["hospital"], [7]],
            "text": TEXT,
            "tag": but(TEXT, None),
            "columns": NAMES,
        },
    ),
    "Owner.set_defaults": Call(
        lambda w: w.owner.set_defaults,
        lambda w: {"name": "patients"},
        {
            "name": TEXT,
            "noise_multiplier": but(POSITIVE, None),
            "clip": but(POSITIVE, None),
            "metric_bound": but(POSITIVE, None),
        },
    ),
    "Owner.grant": Call(
        lambda w: w.owner.grant,
        lambda w: {"name": "patients", "epsilon": 1.0, "delta": 1e-5},
        {"name": TEXT, "epsilon": POSITIVE, "delta": [*POSITIVE, 1, 1.5]},
    ),
    "Owner.budget": Call(lambda w: w.owner.budget, lambda w: {}, {"name": TEXT}),
    "Owner.dataset": Call(lambda w: w.owner.dataset, lambda w: {}, {"name": TEXT}),
    "Owner.programs": Call(lambda w: w.owner.programs, lambda w: {}, {"with_text": FLAG}),
    "Table": Call(lambda w: sojourn.Table, lambda w: {}, {"table": [*TEXT, "houses"]}),
    "Table.batches": Call(
        lambda w: w.table.batches,
        lambda w: {"features": ["age"]},
        {
            "features": [7, 1.5, b"age", [7], Thing(), None, []],
            "label": but(TEXT, None),
            "size": COUNT,
            "epochs": [*INTEGER, -1],
            "shuffle": FLAG,
            "seed": INTEGER,
            "drop_last": FLAG,
            "dtype": DTYPE,
            "label_dtype": DTYPE,
        },
    ),
    "Table.split": Call(
        lambda w: w.table.split,
        lambda w: {"fraction": 0.5},
        {"fraction": [*NUMBER, -0.5, 2, float("nan")], "seed": INTEGER},
    ),
    "Table.scaled": Call(
        lambda w: w.table.scaled,
        lambda w: {"x": torch.ones(3, 1), "columns": ["age"]},
        {"x": [7, "age", None, [1.0], Thing(), np.ones(2)], "columns": but(NAMES, None)},
    ),
    "Table.rows": Call(
        lambda w: w.table.rows,
        lambda w: {},
        {"features": [7, 1.5, b"age", [7], Thing(), []], "dtype": DTYPE},
    ),
    "Table.__getitem__": Call(lambda w: w.table.__getitem__, lambda w: {}, {"column": TEXT}),
    "Program": Call(lambda w: sojourn.Program, lambda w: {}, {"artifact": [*TEXT, "file"]}),
    "Program.save": Call(lambda w: w.program.save, lambda w: {}, {"path": PATH}),
    "Program.text": Call(lambda w: w.program.text, lambda w: {}, {"phase": [*TEXT, "last"], "call": [*TEXT, "second"]}),
    "Program.program_bytes": Call(lambda w: w.program.program_bytes, lambda w: {}, {"call": [*TEXT, "second"]}),
    "Program.program_hash": Call(lambda w: w.program.program_hash, lambda w: {}, {"call": [*TEXT, "short"]}),
    "Program.run": Call(
        lambda w: w.program.run,
        lambda w: {"owner": w.owner},
        {
            "owner": [*TEXT, "local"],
            "batches": [*ITERABLE, [Thing()], [("x",)], ["x"], [None]],
            "progress": FLAG,
            "tables": [7, "houses", ["houses"], Thing(), {"houses": 7}, {7: "houses"}],
            "per_trip": [*COUNT, 10**6],
        },
    ),
    "Program.quote": Call(
        lambda w: w.private_program.quote,
        lambda w: {"delta": 1e-5},
        {
            "epsilon": but(POSITIVE, None),
            "delta": but([*POSITIVE, 1], None),
            "noise_multiplier": but(POSITIVE, None),
            "steps": but([*INTEGER, -1], None),
            "table": but([*TEXT, "houses"], None),
            "rows": but(COUNT, None),
        },
    ),
    "Receipt": Call(lambda w: sojourn.Receipt, lambda w: {}, {"data": [7, "text", None, ["x"], Thing(), b"x"]}),
    "Receipt.verify": Call(lambda w: w.receipt.verify, lambda w: {}, {"owner_key": TEXT}),
    "batch_indices": Call(
        lambda w: sojourn.batch_indices,
        lambda w: {"rows": 9, "size": 2, "seed": 0, "epoch": 0},
        {
            "rows": [*INTEGER, -1],
            "size": COUNT,
            "seed": INTEGER,
            "epoch": INTEGER,
            "drop_last": FLAG,
        },
    ),
    "split_indices": Call(
        lambda w: sojourn.split_indices,
        lambda w: {"rows": 9, "fraction": 0.5, "seed": 0},
        {"rows": [*INTEGER, -1], "fraction": [*NUMBER, -0.5, 2, float("nan")], "seed": INTEGER},
    ),
    "compile": Call(
        lambda w: inside_offline,
        lambda w: {},
        {
            "step_fn": [*FUNCTION, None, Thing()],
            "init": [7, "init", [len], Thing()],
            "inputs": [7, "x", Thing(), [7], [torch.ones(2)], sojourn.number()],
            "tables": [7, "houses", ["houses"], Thing(), {7: sojourn.table_spec(9, {"age": torch.float64})}],
            "batches": [7, "houses", Thing()],
            "short": but(COUNT, None),
        },
    ),
    "connect": Call(
        lambda w: sojourn.connect,
        lambda w: {"address": "ipc:///nonsense"},
        {
            "address": TEXT,
            "timeout": POSITIVE,
            "identity": but(PATH, None),
            "owner_key": but(TEXT, None),
            "plain_tcp": FLAG,
        },
    ),
    "load": Call(lambda w: sojourn.load, lambda w: {}, {"path": PATH}),
    "local": Call(
        lambda w: sojourn.local,
        lambda w: {},
        {"store": but(PATH, None), "runtime": [*TEXT, "cuda"], "profile": but(PATH, None)},
    ),
    "loop": Call(
        lambda w: sojourn.loop,
        lambda w: {"train": lambda x: x, "batches": []},
        {
            "train": [*FUNCTION, None, Thing()],
            "batches": [*ITERABLE, None],
            "per_trip": [*COUNT, 10**6],
            "schedulers": [7, Thing(), [7], "step"],
            "progress": FLAG,
            "deadline": but(POSITIVE, None),
        },
    ),
    "plain": Call(
        lambda w: sojourn.plain,
        lambda w: {"source": {"age": np.arange(4)}},
        {
            "source": SOURCES,
            "name": but(TEXT, None),
            "bounds": LIMITS,
            "fills": FILLS,
            "categories": CATEGORIES,
            "columns": but([*NAMES, "age"], None),
        },
    ),
    "privacy": Call(
        lambda w: sojourn.privacy,
        lambda w: {"table": w.private},
        {
            "table": [7, "patients", None, Thing()],
            "epsilon": but(POSITIVE, None),
            "delta": but([*POSITIVE, 1], None),
            "noise_multiplier": but(POSITIVE, None),
            "clip": but(POSITIVE, None),
            "epochs": but(COUNT, None),
            "size": but(COUNT, None),
            "loss": [*TEXT, "max"],
            "per_layer": FLAG,
            "metric_share": but([*NUMBER, -1, 2, float("nan")], None),
        },
    ),
    "privacy.quote": Call(
        lambda w: sojourn.privacy(w.private, noise_multiplier=1.0, size=8, epochs=1).quote,
        lambda w: {},
        {"steps": but([*INTEGER, -1], None)},
    ),
    "publish": Call(
        lambda w: sojourn.publish,
        lambda w: {"tree": torch.ones(2)},
        {
            "epsilon": but(POSITIVE, None),
            "delta": but([*POSITIVE, 1], None),
            "bound": but(POSITIVE, None),
        },
    ),
    "quote": Call(
        lambda w: sojourn.quote,
        lambda w: {"tree": torch.ones(2), "epsilon": 1.0},
        {
            "tree": [7, "x", None, [], Thing()],
            "epsilon": POSITIVE,
            "delta": but([*POSITIVE, 1], None),
            "bound": but(POSITIVE, None),
        },
    ),
    "spec": Call(
        lambda w: sojourn.spec,
        lambda w: {"shape": (2,)},
        {
            "shape": [7, "ab", None, Thing(), (1.5,), (-1,), ("x",), (2**70,)],
            "dtype": [*DTYPE, None],
            "is_number": FLAG,
            "name": [7, None, "a\nb", "ä", "x" * 129, Thing()],
        },
    ),
    "step": Call(lambda w: sojourn.step, lambda w: {}, {"function": [7, "train", Thing()], "replay": FLAG}),
    "strict": Call(lambda w: strictly, lambda w: {}, {"on": FLAG}),
    "table_spec": Call(
        lambda w: sojourn.table_spec,
        lambda w: {"columns": {"age": torch.float64}},
        {
            "rows": but([*INTEGER, -1], None),
            "columns": [7, "age", ["age"], Thing(), {"age": "f"}, {4: torch.int64}, {"age": (torch.int64, 4)}],
            "bounds": LIMITS,
            "policy": but([*TEXT, "public"], None),
            "defaults": [7, "abc", (1, 2), Thing(), {"clip": 1}, ("a", "b", "c")],
            "categories": [*CATEGORIES, {"age": ["a"]}],  # of a column of floats
            "party": but([*TEXT, 7], None),
        },
    ),
    "to_owner": Call(
        lambda w: sojourn.to_owner,
        lambda w: {"module": w.model, "owner": w.owner},
        {
            "module": [7, "model", None, Thing(), torch.ones(2), [nn.Linear(1, 1)]],
            "owner": [1.5, "nonsense", "cpu", Thing(), [1]],
            "optimizer": [7, "sgd", Thing(), torch.ones(2)],
        },
    ),
}
#: Arguments that take anything: trees of values, and what a class of the results is made with.
ANY = {"publish": {"tree"}, "Table.__contains__": {"column"}}
#: Classes that only the package makes, and those without arguments to get wrong.
RESULTS = {"Budget", "NamedValue", "NamedValues", "Published", "Quote", "ReleaseQuote"}
ERRORS = {name for name in sojourn.__all__ if str(name) in vars(sojourn.errors)}
#: Arguments that are not for scripts.
HIDDEN = {
    ("Owner", "embedded"),
    ("Table", "session"),
    ("Program", "texts"),
    ("step", "_trip"),
    ("Owner", "address"),
    ("Parties", "owners"),
}
#: What the text calls an argument, where it does not say its name.
SAID = {
    "session": {"an owner is opened by", "a group is made by"},
    "artifact": {"a program is made by"},
    "features": {"a column name", "at least one column"},
    "label": {"a column name"},
    "columns": {"a column name"},
    "x": {"scaled takes a tensor"},
    "data": {"receipt"},
    "module": {"Module"},
    "owner": {"at an owner"},
    "with_": {"with_"},
    "tables": {"plain tables", "a table of each member"},
    "batches": {"an input of a step"},
    "tree": {"takes a tensor"},
    "value": {"name takes a tensor"},
    "step_fn": {"function"},
    "train": {"function"},
}
CASES = [
    pytest.param(name, argument, id=f"{name}-{argument}") for name, call in CALLS.items() for argument in call.wrong
]


def mentions(text, value):
    """Whether the text shows the value, a part of it, or its type."""
    parts = [value, *(value.items() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ())]
    parts += [each for part in parts if isinstance(part, tuple) for each in part]
    if value is not True and isinstance(value, (int, float)) and f"{float(str(value)):g}" in text:
        return True  # as C++ writes it
    if isinstance(value, list) and not value:
        return True
    shown = any(repr(each)[:20] in text or f"{type(each).__name__}" in text or str(each) in text for each in parts)
    return shown or ("tensor" in text and any(isinstance(each, torch.Tensor) for each in parts))


@pytest.mark.parametrize("name, argument", CASES)
def test_a_wrong_argument_is_named(world, name, argument):
    call = CALLS[name]
    words = {argument, argument.rstrip("s"), argument.replace("_", " ")} | SAID.get(argument, set())
    for value in call.wrong[argument]:
        with pytest.raises((sojourn.Error, TypeError)) as failure:
            call.made(world)(**{**call.given(world), argument: value})
            pytest.fail(f"{value!r} is taken")
        text = str(failure.value)
        assert not RAW.search(text), text
        assert text[0].islower() and not text.endswith("."), text
        assert any(word in text for word in words), text
        assert mentions(text, value), text


@pytest.mark.parametrize("name", CALLS)
def test_right_arguments_are_taken(world, name):
    """The table's other arguments are right, so that what is refused is the wrong one."""
    call = CALLS[name]
    lacking = inspect.signature(call.made(world)).parameters.values()
    if any(p.default is p.empty and p.name not in call.given(world) and p.kind != p.VAR_KEYWORD for p in lacking):
        return  # the table's own argument is the only one
    if name == "connect":
        with pytest.raises(sojourn.ConnectionLost):
            call.made(world)(**call.given(world))
        return
    call.made(world)(**call.given(world))
    if name == "Owner.register":
        assert len(world.owner.dataset("cars")) == 4


def public_calls():
    """Every public function, class and method, with its arguments."""
    for name in sojourn.__all__:
        value = getattr(sojourn, name)
        if name in ERRORS or name in RESULTS:
            continue
        yield name, value
        if inspect.isclass(value):
            for method, member in vars(value).items():
                is_asked = not method.startswith("_") or method in ("__getitem__", "__contains__")
                if is_asked and inspect.isfunction(member):
                    yield f"{name}.{method}", member


def test_every_argument_is_in_the_table():
    lacking = []
    for name, value in public_calls():
        arguments = [each for each in inspect.signature(value).parameters if each != "self"]
        known = set(CALLS[name].wrong) if name in CALLS else set()
        lacking += [
            f"{name}({argument})"
            for argument in arguments
            if argument not in known | ANY.get(name, set()) and (name, argument) not in HIDDEN
        ]
    assert not lacking, lacking


def test_right_forms_are_taken(seed, world, tmp_path):
    """Paths, NumPy's scalars and tensors of one element are as good as Python's own."""
    torch.manual_seed(seed)
    values = torch.rand(4, dtype=torch.float64)
    bounds = {"age": (values.min(), np.float32(2))}
    table = sojourn.plain({"age": values}, bounds=bounds, fills={"age": np.int64(1)}, columns=("age",))
    torch.testing.assert_close(table["age"], values, rtol=0, atol=0)
    assert table.columns[0].bounds == (values.min().item(), 2.0)
    assert len(table.batches(["age"], size=np.int64(2), shuffle=np.bool_(True), drop_last=1)) == 2
    with sojourn.local(store=tmp_path / "store") as owner:
        assert owner.datasets() == []
    world.program.save(tmp_path / "train.sojourn")
    assert sojourn.load(tmp_path / "train.sojourn").program_hash() == world.program.program_hash()
