# SPDX-License-Identifier: Apache-2.0
"""Refusals of compiled steps: their runs, their quotes and their files."""

import torch
from errors_support import example

import sojourn
from sojourn import Error, Refused


@example(Error, "A run without inputs", "each step takes 1 inputs: pass an iterable with a tuple of them")
def _(owner):
    with sojourn.offline():
        double = sojourn.compile(lambda x: x * 2, inputs=[sojourn.spec((3,))])
    double.run(owner)


@example(Error, "A run with too few inputs", "the compiled step takes 1 inputs (x), got 0")
def _(owner):
    with sojourn.offline():
        double = sojourn.compile(lambda x: x * 2, inputs=[sojourn.spec((3,))])
    double.run(owner, [()])


@example(
    Error,
    "A run with an input of another shape",
    "input 0 (x) is Float[4] on cpu, but the step was compiled for Float[3] on cpu",
)
def _(owner):
    with sojourn.offline():
        double = sojourn.compile(lambda x: x * 2, inputs=[sojourn.spec((3,))])
    double.run(owner, [(torch.ones(4),)])


@example(Error, "A run with more batches than compiled", "all 6 batches of the compiled step have been served")
def _(owner, houses, program):
    program.run(owner, [()] * 7)


@example(
    Error,
    "A run with too many steps in one round trip",
    "per_trip is 5000, an owner takes up to 4096 steps in one message",
)
def _(owner, houses, program):
    program.run(owner, per_trip=5000)


@example(Error, "A run with tables in place of names", "tables must map the program's tables to names of datasets, got")
def _(owner, houses, program):
    program.run(owner, tables={"houses": houses})


@example(Error, "A run with a table unknown to the step", "reads no table 'cars'", "its tables: 'houses'")
def _(owner, houses, program):
    program.run(owner, tables={"cars": "houses"})


@example(
    Error, "A run at an owner without the table", "has no dataset 'houses' for table 'houses' of the compiled step"
)
def _(owner, program):
    program.run(owner)


@example(Error, "A run on another table", "dataset 'houses' at local is not table 'houses'", "'dose' is int64")
def _(owner, program):
    owner.register("houses", {"age": [1, 2], "dose": [1, 2], "ill": [0, 1]}, policy="open")
    program.run(owner)


@example(
    Error,
    "A run on a table without a full batch",
    "table 'houses' has 2 rows, too few for a batch of 16",
    "use a table with more rows",
)
def _(owner, program):
    owner.register("houses", {"age": [1, 2], "dose": [0.5, 1.0], "ill": [0, 1]}, policy="open")
    program.run(owner)


@example(
    Error,
    "A run on a table with a short last batch",
    "the last batch of each epoch has 2 of 16 rows",
    "drop_last=True",
)
def _(owner, program):
    ages = list(range(18))
    owner.register("houses", {"age": ages, "dose": [0.5] * 18, "ill": [0, 1] * 9}, policy="open")
    program.run(owner)


@example(
    Error,
    "A run of whole columns on a table with another number of rows",
    "it has 2 rows, but the step reads whole columns of 8 rows",
)
def _(owner):
    owner.register("cars", {"age": [1, 2]}, policy="open")
    whole = {}

    def batches(cars):
        whole["age"] = cars["age"]
        return cars.batches(["age"], size=1)

    with sojourn.offline():
        program = sojourn.compile(
            lambda x: x + whole["age"].sum(),
            tables={"cars": sojourn.table_spec(8, {"age": torch.int64})},
            batches=batches,
        )
    program.run(owner)


@example(
    Error,
    "A quote without a number of rows",
    "the price depends on the number of rows of table 'patients'",
    "give the number of the owner's table: quote(..., rows=N)",
)
def _():
    with sojourn.offline():
        patients = sojourn.table_spec(columns={"age": torch.float32}, policy="private", bounds={"age": (0, 100)})
        program = sojourn.compile(
            lambda x: x.sum(),
            tables={"patients": patients},
            batches=lambda patients: patients.batches(["age"], size=16),
        )
    program.quote(delta=1e-5, steps=10)


@example(
    Refused, "A quote for a table with fewer rows than a batch", "expects a batch of 16 rows, but there are only 8"
)
def _():
    with sojourn.offline():
        patients = sojourn.table_spec(columns={"age": torch.float32}, policy="private", bounds={"age": (0, 100)})
        program = sojourn.compile(
            lambda x: x.sum(),
            tables={"patients": patients},
            batches=lambda patients: patients.batches(["age"], size=16),
        )
    program.quote(delta=1e-5, steps=10, rows=8)


@example(Error, "A split nested too deeply", "a split of splits is at most 64 deep")
def _():
    part = sojourn.plain({"age": torch.arange(4096)})
    for _ in range(65):
        part, _rest = part.split(0.99)


@example(Error, "A quote without delta", "give delta: offline there is no budget to take it from")
def _(private_program):
    private_program.quote(epsilon=3)


@example(
    Error, "A quote with price and noise", "give epsilon (the noise follows) or noise_multiplier (the price follows)"
)
def _(private_program):
    private_program.quote(epsilon=3, noise_multiplier=1.0, delta=1e-5)


@example(
    Error, "A quote that no noise reaches", "no amount of noise keeps this run within epsilon 0.000000 at its delta"
)
def _(private_program):
    private_program.quote(epsilon=1e-9, delta=1e-5)


@example(
    Error,
    "A quote of a program without private tables",
    "the program reads 0 private tables (none)",
    'policy="private"',
)
def _(program):
    program.quote(epsilon=3, delta=1e-5)


@example(Error, "A quote of an open table", "'houses' was not described as private, so its values have no price")
def _(program):
    program.quote(epsilon=3, delta=1e-5, table="houses")


@example(Error, "A quote of a table unknown to the step", "the compiled step reads no table 'cars'", "'patients'")
def _(private_program):
    private_program.quote(epsilon=3, delta=1e-5, table="cars")


@example(Error, "A quote of zero steps", "the run has 0 steps, expected at least 1", "give the number of steps")
def _(private_program):
    private_program.quote(epsilon=3, delta=1e-5, steps=0)


@example(Error, "A missing compiled step", "cannot read FOLDER/step.sojourn: No such file or directory")
def _(folder):
    sojourn.load(folder / "step.sojourn")


@example(
    Error,
    "A file that is not a compiled step",
    "FOLDER/step.sojourn is not a compiled step",
    "sojourn.compile(...).save(path)",
)
def _(folder):
    (folder / "step.sojourn").write_bytes(b"print('hello')" * 10)
    sojourn.load(folder / "step.sojourn")


@example(Error, "A truncated compiled step", "FOLDER/step.sojourn is damaged", "copy it again, or compile it again")
def _(program, folder):
    program.save(folder / "step.sojourn")
    content = (folder / "step.sojourn").read_bytes()
    (folder / "step.sojourn").write_bytes(content[:-20])
    sojourn.load(folder / "step.sojourn")


@example(
    Error,
    "A compiled step that cannot be written",
    "cannot write FOLDER/nowhere/step.sojourn: No such file or directory",
)
def _(program, folder):
    program.save(folder / "nowhere" / "step.sojourn")
