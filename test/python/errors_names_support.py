# SPDX-License-Identifier: Apache-2.0
"""Refusals about names of values."""

import torch
from errors_support import example
from torch import nn

import sojourn
from sojourn import Error, Refused


@example(Error, "A value by an unknown name", "no value has the name 'weight'; names are 'weights'")
def _(owner, x):
    sojourn.name(x, "weights")
    owner.value("weight")


@example(Refused, "A name without an identity", "a client without an identity has no names", "sojourn keygen FILE")
def _(address):
    with sojourn.connect(address) as owner:
        sojourn.name(torch.ones(2).to(owner.device), "weights")


@example(Error, "A name inside of a step", "a tensor gets a name inside of a step; do it before or after the step")
def _(x):
    with sojourn.step():
        sojourn.name(x, "weights")


@example(Error, "A name for a view", "would name a view of another tensor", "tensor.clone()")
def _(x):
    sojourn.name(x[0], "row")


@example(Error, "A second name for a value", "this value has the name 'weights' already", "tensor.clone()")
def _(x):
    sojourn.name(x, "weights")
    sojourn.name(x, "best")


@example(Error, "A name with other characters", "'a/b' is not a valid name for a value", "letters, digits, spaces")
def _(x):
    sojourn.name(x, "a/b")


@example(Error, "A name for a CPU tensor", "would name a tensor that is not at an owner", "tensor.to(owner.device)")
def _():
    sojourn.name(torch.ones(2), "weights")


@example(Error, "A name for a module on the CPU", "which is no connection to one owner", "tensor.to(owner.device)")
def _():
    sojourn.name(nn.Linear(2, 2), "model")


@example(Error, "A name for a tensor of a group", "a value of a group has no name: name tensors of one owner")
def _(group):
    sojourn.name(torch.ones(2).to(group.device), "weights")


@example(Error, "Names for tensors of several owners", "name the values of each owner in a separate call")
def _(x, other):
    sojourn.name({"a": x, "b": torch.ones(2).to(other.device)}, "pair")


@example(
    Error, "A name for something else", "name takes a tensor, a module or a mapping from str to tensors, ", "got 3"
)
def _():
    sojourn.name(3, "weights")


@example(Error, "A name for an empty mapping", "'model' would name an empty mapping; expected at least one tensor")
def _():
    sojourn.name({}, "model")


@example(Error, "A name for one tensor under two keys", "'a' and 'b' are one tensor", "dict(model.named_parameters())")
def _(x):
    sojourn.name({"a": x, "b": x}, "model")


@example(Error, "A mapping beside values of an earlier one", "would mix with this mapping", "owner.release('model')")
def _(x):
    sojourn.name({"a": x}, "model")
    sojourn.name({"b": x + 1}, "model")


@example(Error, "A name for a tensor of a dropped step", "would name a tensor without a value: ")
def _(x):
    kept = []
    try:
        with sojourn.step():
            kept.append(x + 1)
            raise ZeroDivisionError
    except ZeroDivisionError:
        sojourn.name(kept[0], "weights")


@example(Error, "A name for columns of a private table", "which each step reads anew; name what steps compute of them")
def _(patients):
    sojourn.name(patients["age"], "ages")


@example(Error, "Values with names at an offline device", "at a device that only records, which keeps no values")
def _():
    with sojourn.offline() as device:
        sojourn.name(torch.ones(2, device=device), "weights")
