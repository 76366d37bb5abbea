# SPDX-License-Identifier: Apache-2.0
"""Refusals ahead of time: compiling without data, and texts of phases."""

import torch
from errors_support import example

import sojourn
from sojourn import Error, Refused, Unsupported, ValueNeeded


@example(Error, "Compiling without an offline device", "inside `with sojourn.offline() as device:`")
def _():
    sojourn.compile(lambda x: x * 2, inputs=[sojourn.spec((3,))])


@example(
    Unsupported,
    "A number that changes from step to step",
    "a number changes from step to step (2.5",
    "sojourn.number()",
    ":3",
)
def _():
    numbers = iter([1.5, 2.5, 3.5])
    with sojourn.offline():
        sojourn.compile(lambda x: x * next(numbers), inputs=[sojourn.spec((3,))])


@example(
    Unsupported,
    "A step with different work each time",
    "different work in its third call than in its second",
    "the same ops",
)
def _():
    turns = iter([1, 2, 3])
    with sojourn.offline():
        sojourn.compile(lambda x: sum(x for _ in range(next(turns))) * 2, inputs=[sojourn.spec((3,))])


@example(
    Unsupported,
    "A step that takes ever other values",
    "takes another of its values in each call",
    "exchange them alike",
)
def _():
    kept = []
    with sojourn.offline() as device:
        sojourn.compile(
            lambda x: kept.pop() * x,
            init=lambda: kept.extend(torch.ones(3, device=device) for _ in range(100)),
            inputs=[sojourn.spec((3,))],
        )


@example(
    Unsupported,
    "A result of init that a run cannot follow",
    "the values in the result of init change places from step to step",
    "return from init what each step takes or replaces",
)
def _():
    kept = {}

    def init():
        kept.update(a=torch.zeros(3, device=device), b=torch.ones(3, device=device))
        return kept

    def step(x):
        kept["a"], kept["b"] = kept["b"], kept["a"]
        return x * 2

    with sojourn.offline() as device:
        sojourn.compile(step, init=init, inputs=[sojourn.spec((3,))])


@example(
    Unsupported, "An upload that changes from step to step", "a CPU tensor that the step uploads changes", "as an input"
)
def _():
    tensors = iter([torch.zeros(3), torch.ones(3), torch.full((3,), 2.0)])
    with sojourn.offline() as device:
        sojourn.compile(lambda x: x + next(tensors).to(device), inputs=[sojourn.spec((3,))])


@example(
    Error, "A compiled step that returns other values than it publishes", "must return the values that it publishes",
    "it published 2 and returned 1 values",
)  # fmt: skip
def _():
    def step(x):
        values = sojourn.publish([x.sum(), x.mean()])
        return values[1]

    with sojourn.offline():
        sojourn.compile(step, inputs=[sojourn.spec((3,))])


@example(
    Error, "A compiled step that returns no tensor", "must return tensors (or a tree of them), got str", "return ()"
)
def _():
    with sojourn.offline():
        sojourn.compile(lambda x: "done", inputs=[sojourn.spec((3,))])


@example(ValueNeeded, "A publish on an offline device", "on an offline device, which only records")
def _():
    with sojourn.offline() as device:
        sojourn.publish(torch.ones(3, device=device))


@example(
    Error, "Tables without batches", "tables and batches must be given together", "returns the batches of the steps"
)
def _():
    with sojourn.offline():
        sojourn.compile(lambda x: x, tables={"cars": sojourn.table_spec(8, {"age": torch.int64})})


@example(Error, "A table without a table_spec", "tables must map names to sojourn.table_spec(...), got 'cars'")
def _():
    with sojourn.offline():
        sojourn.compile(lambda x: x, tables={"cars": {"age": torch.int64}}, batches=lambda cars: cars)


@example(
    Error,
    "Invalid batches",
    "batches must return the result of table.batches(...) or a list of such results, got cars: 8 rows",
)
def _():
    with sojourn.offline():
        cars = sojourn.table_spec(8, {"age": torch.int64})
        sojourn.compile(lambda x: x, tables={"cars": cars}, batches=lambda cars: cars)


@example(Error, "A short last batch", "the last batch of each epoch has 2 of 3 rows", "drop_last=True")
def _():
    with sojourn.offline():
        cars = sojourn.table_spec(8, {"age": torch.int64})
        sojourn.compile(lambda x: x, tables={"cars": cars}, batches=lambda cars: cars.batches(["age"], size=3))


@example(
    Error,
    "A possibly short last batch",
    "table 'cars' was described without a number of rows",
    "may be short",
    "drop_last=True",
)
def _():
    with sojourn.offline():
        cars = sojourn.table_spec(columns={"age": torch.int64})
        sojourn.compile(lambda x: x, tables={"cars": cars}, batches=lambda cars: cars.batches(["age"], size=3))


@example(
    Error,
    "A whole column without a number of rows",
    "column 'age' of table 'cars' is not known: the table was described without a number of rows",
)
def _():
    with sojourn.offline():
        cars = sojourn.table_spec(columns={"age": torch.int64})
        sojourn.compile(lambda x: x, tables={"cars": cars}, batches=lambda cars: cars["age"])


@example(Error, "A short step without a short batch", "short= compiles a second step for the short last batch")
def _():
    with sojourn.offline():
        cars = sojourn.table_spec(columns={"age": torch.int64})
        sojourn.compile(
            lambda x: x,
            tables={"cars": cars},
            batches=lambda cars: cars.batches(["age"], size=3, drop_last=True),
            short=2,
        )


@example(
    Error,
    "A short step for another remainder",
    "the last batch of each epoch has 2 of 3 rows",
    "but a compiled step has one shape, and its short step has 1 rows",
)
def _():
    with sojourn.offline():
        cars = sojourn.table_spec(8, {"age": torch.int64})
        sojourn.compile(lambda x: x, tables={"cars": cars}, batches=lambda cars: cars.batches(["age"], size=3), short=1)


@example(Unsupported, "A short step with different work", "does different work for a short batch than for a full batch")
def _():
    kept = {}

    def init():
        kept["total"] = torch.zeros((), device=device)

    def step(x):
        if x.shape[0] == 3:
            kept["total"] = kept["total"] + x.sum()
        return x.sum()

    with sojourn.offline() as device:
        cars = sojourn.table_spec(columns={"age": torch.int64})
        sojourn.compile(
            step, init=init, tables={"cars": cars}, batches=lambda cars: cars.batches(["age"], size=3), short=1
        )


@example(Error, "A short step that is not short", "short is 3, expected a number of rows from 1 to 2")
def _():
    with sojourn.offline():
        cars = sojourn.table_spec(columns={"age": torch.int64})
        sojourn.compile(lambda x: x, tables={"cars": cars}, batches=lambda cars: cars.batches(["age"], size=3), short=3)


@example(
    Error,
    "Batches of a table on another device",
    "are on cpu, but the step is compiled on owner:0",
    "compile(tables=...)",
)
def _():
    here = sojourn.plain({"age": torch.arange(8)})
    with sojourn.offline():
        cars = sojourn.table_spec(8, {"age": torch.int64})
        sojourn.compile(lambda x: x, tables={"cars": cars}, batches=lambda cars: here.batches(["age"], size=4))


@example(Error, "A description with an invalid policy", 'policy must be "open", "private" or None, got 3')
def _():
    sojourn.table_spec(8, {"age": torch.int64}, policy=3)


@example(Error, "A description without columns", "invalid table_spec", "it has 0 columns")
def _():
    sojourn.table_spec(8, {})


@example(
    Error,
    "A private description without bounds",
    "column 'age' has no bounds; declare bounds for each column of a private table",
)
def _():
    sojourn.table_spec(8, {"age": torch.int64}, policy="private")


@example(
    Error, "A description with invalid defaults", "defaults must be (noise multiplier, clip, metric bound), got (1, 2)"
)
def _():
    sojourn.table_spec(8, {"age": torch.int64}, defaults=(1, 2))


@example(Error, "A description with invalid columns", "columns must map names to dtypes or (dtype, shape), got ['age']")
def _():
    sojourn.table_spec(8, ["age"])


@example(Error, "A described column without a name", "a column name must be a str, got 4")
def _():
    sojourn.table_spec(8, {4: torch.int64})


@example(
    Error, "A described column without a dtype", "column 'age' must be a torch.dtype or (dtype, shape), got 'int64'"
)
def _():
    sojourn.table_spec(8, {"age": "int64"})


@example(Error, "A description with invalid bounds", "bounds of column 'age' must be (lower, upper), got (0,)")
def _():
    sojourn.table_spec(8, {"age": torch.int64}, bounds={"age": (0,)})


@example(
    Error,
    "A description with bounds of an unknown column",
    "bounds name 'aeg', which is not in columns; columns: 'age'",
)
def _():
    sojourn.table_spec(8, {"age": torch.int64}, bounds={"aeg": (0, 100)})


@example(Error, "A described table with too long a name", "the name of a table has 2000 bytes; expected 1 to")
def _():
    with sojourn.offline():
        cars = sojourn.table_spec(8, {"age": torch.int64})
        sojourn.compile(lambda x: x, tables={"c" * 2000: cars}, batches=lambda **tables: [])


@example(Refused, "A private step that cannot be proved", "'patients'", "takes a single row out of the batch")
def _():
    patients = sojourn.table_spec(96, {"age": torch.float32}, policy="private", bounds={"age": (0, 100)})
    with sojourn.offline():
        sojourn.compile(
            lambda x: x[3],
            tables={"patients": patients},
            batches=lambda patients: patients.batches(["age"], size=16),
        )


@example(Error, "A text of an unknown phase", "no text for 'steady' at 'late'; calls: init, first, steady; phases:")
def _(program):
    program.text("late")


@example(Error, "A phase of a loaded program", "holds its core form only, not 'captured'; compile it here")
def _(program, folder):
    program.save(folder / "step.sojourn")
    sojourn.load(folder / "step.sojourn").text("captured")


@example(Error, "An impossible name of an input", "name must be a str of up to 128 printable ASCII characters, got")
def _():
    sojourn.spec((3,), name="rows\n")
