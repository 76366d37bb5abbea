# SPDX-License-Identifier: Apache-2.0
"""Refusals of arguments: values of another type than a function takes."""

import numpy as np
import torch
from errors_support import example

import sojourn
from sojourn import Error, Unsupported


@example(Error, "An owner that nobody opened", "an owner is opened by sojourn.local() or sojourn.connect(address), got")
def _():
    sojourn.Owner("ipc:///run/owner.sock", "hospital")


@example(Error, "A table of another type", "a table comes from its owner, owner.dataset(name)", "got 'houses'")
def _():
    sojourn.Table("houses")


@example(Error, "A source of another type", "source must be a path, a dict of arrays", "got int")
def _():
    sojourn.plain(7)


@example(Error, "A fill that is not a number", "fills of column 'age' must be a number, got 'none'")
def _():
    sojourn.plain({"age": np.arange(4)}, fills={"age": "none"})


@example(Error, "One column for a list of columns", "columns must be a list of names, got 'age'")
def _():
    sojourn.plain({"age": np.arange(4)}, columns="age")


@example(Error, "A switch that is not a boolean", "shuffle must be True or False, got 'no'")
def _(houses):
    houses.batches(["age"], shuffle="no")


@example(Error, "A path of another type", "path must be a path (str or os.PathLike), got 7")
def _():
    sojourn.load(7)


@example(Error, "A loop over one number", "batches must be an iterable, got 64")
def _():
    sojourn.loop(lambda x: x, 64)


@example(Error, "A compiled step that is not a function", "step_fn must be a function, got 'train'")
def _():
    with sojourn.offline():
        sojourn.compile("train")


@example(
    Error, "A module of another type", "to_owner moves a torch.nn.Module", "tensor.to(owner.device) moves a tensor"
)
def _(owner):
    sojourn.to_owner(torch.ones(3), owner)


@example(Error, "An optimizer of another type", "optimizer must be a torch.optim.Optimizer, got 'adam'")
def _(owner, model):
    sojourn.to_owner(model, owner, "adam")


@example(Error, "A program of another type", "a program is made by sojourn.compile(...) or read by sojourn.load(path)")
def _():
    sojourn.Program("train.sojourn")


@example(Error, "A program run at no owner", "a program runs at an owner (sojourn.local, sojourn.connect), got")
def _(program, device):
    program.run(device)


@example(Error, "Inputs of steps without tuples", "batches must give a tuple of tensors and numbers for each step")
def _(program, owner, houses):
    program.run(owner, batches=["x"])


@example(Error, "An input that is no tensor", "an input of a step must be a tensor or a number, got 'x'")
def _(program, owner, houses):
    program.run(owner, batches=[("x",)])


@example(Error, "An input without a shape", "shape must be a sequence of sizes, got 64")
def _():
    sojourn.spec(64)


@example(Error, "An input without a dtype", "dtype must be a torch.dtype, got 'float32'")
def _():
    sojourn.spec((64,), "float32")


@example(Error, "Inputs that are not described", "inputs must be a sequence of sojourn.spec(shape, dtype)")
def _():
    with sojourn.offline():
        sojourn.compile(lambda x: x, inputs=[torch.ones(3)])


@example(
    Error, "State of a program without a model", "its init returned no module or tensor; let init return the model"
)
def _(program):
    program.state()


@example(
    Error, "State of a program that has not run", "this program has not run here yet; call run(owner) before state()"
)
def _():
    with sojourn.offline() as device:
        program = sojourn.compile(lambda: (), init=lambda: torch.zeros(3, device=device))
    program.state()


@example(Unsupported, "Exporting a model at an owner", "torch.export takes no tensors at an owner", "sojourn.compile")
def _(model):
    torch.export.export(model, (torch.ones(1, 2),))
