# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F841 (examples name what they compute)
"""Refusals of groups of owners."""

import torch
from errors_support import example
from torch import nn

import sojourn
from sojourn import Error, Refused, Unsupported


@example(Error, "A group of one owner", "a group has 2 to 16 owners, got 1")
def _(owner):
    sojourn.parties(owner)


@example(Error, "An owner twice in a group", "the owner at local is in the group more than once")
def _(owner, other):
    sojourn.parties(owner, other, owner)


@example(Error, "A group of an address", "sojourn.parties takes owners (sojourn.local, sojourn.connect), got 'alice'")
def _(owner):
    sojourn.parties(owner, "alice")


@example(Unsupported, "A group with an owner that knows no others", "takes part in no groups")
def _(owner):
    sojourn.parties(owner, sojourn.local(runtime="numpy"))


@example(Refused, "A group of an embedded and a served owner", "does not know the owner with key", "peer add")
def _(owner, address):
    with sojourn.connect(address) as served:
        sojourn.parties(owner, served)


@example(
    Unsupported,
    "A group with a served owner that other owners cannot reach",
    "takes part in no groups: its server has no address for other owners",
    "sojourn-owner serve --peers ADDRESS",
)
def _(owner, address):
    with sojourn.connect(address) as served:
        sojourn.parties(served, owner)


@example(Error, "A group of a closed owner", "is no open connection to one owner, and a group is of such")
def _(owner, other):
    other.close()
    sojourn.parties(owner, other)


@example(Error, "A session for a group", "a group is made by sojourn.parties(owner, owner), got 'session'")
def _():
    sojourn.Parties("session", ())


@example(
    Refused,
    "Rows that a data owner does not share",
    "its data owner does not share it with member 1 (the owner with key ",
    "the data owner does so with owner.share('houses', with_=[...], level='sums') or level='clear'",
)
def _(group):
    sojourn.publish(group.rows("houses")["age"].sum())


@example(
    Error,
    "Sharing at a served owner",
    "is not an embedded owner; share the table at the owner",
    "sojourn-owner share houses",
)
def _(owner, address):
    with sojourn.connect(address) as served:
        served.share("houses", [owner])


@example(Error, "Sharing with a name", "with_ must be a list of owners, got 'bob'")
def _(owner, houses):
    owner.share("houses", "bob")


@example(Error, "Sharing with a served owner without an identity", "is not known; connect with an identity")
def _(owner, houses, address):
    with sojourn.connect(address) as served:
        owner.share("houses", [served])


@example(Error, "An unknown level of sharing", "level 'all' is unknown; expected 'none', 'sums' or 'clear'")
def _(owner, other, houses):
    owner.share("houses", [other], level="all")


@example(
    Refused,
    "A table shared as sums in a group of two",
    "is shared with member 1 (the owner with key ",
    "as sums alone, and of a sum of two members each knows the other one's part; make a group of three or more",
)
def _(owner, other, group, houses):
    owner.share("houses", [other], level="sums")
    sojourn.publish(group.rows("houses")["age"].sum())


@example(Error, "An unknown way of summing", "sums must be 'clear' or 'masked', got 'hidden'")
def _(owner, other):
    sojourn.parties(owner, other, sums="hidden")


@example(Error, "Masks for two owners", "sums are masked among 3 owners or more, got 2: of two, each would know the")
def _(owner, other):
    sojourn.parties(owner, other, sums="masked")


@example(Error, "Sharing with oneself", "dataset 'houses' is shared with its own owner; name the other members")
def _(owner, houses):
    owner.share("houses", [owner])


@example(Error, "Tables of a group with other columns", "tables of a group have the same columns; 'houses' has ")
def _(owner, other, group, columns):
    other.register("flats", {"age": columns["age"]}, policy="open")
    group.rows(owner.dataset("houses"), other.dataset("flats"))


@example(Error, "Tables of a group with other categories", "stands for something else in each of the tables")
def _(owner, other, group):
    owner.register("a", {"town": ["Ulm", "Bonn"]}, policy="open")
    other.register("b", {"town": ["Ulm", "Köln"]}, policy="open")
    group.rows(owner.dataset("a"), other.dataset("b"))


@example(Refused, "A private table in a group", "'patients' is private, and private tables do not take part in steps")
def _(other, group, patients):
    group.rows(patients, other.dataset("houses"))


@example(Error, "Too few tables for a group", "got 1 tables, expected 2, one of each member in the order of the group")
def _(group, houses):
    group.rows(houses)


@example(Error, "Tables of a group in another order", "expected a table at local; give one table of each member, in")
def _(group, houses):
    group.rows(houses, houses)


@example(Error, "A part of a table in a group", "is a part of a table; join whole tables, then split")
def _(other, group, houses):
    group.rows(houses.split(0.5)[0], other.dataset("houses"))


@example(Error, "A plain table in a group", "is a plain table of this process, expected one at an owner")
def _(group, houses, columns):
    group.rows(houses, sojourn.plain(columns))


@example(Error, "A joined table in another one", "is joined of several tables already; join single ones")
def _(columns):
    pooled = sojourn.pooled(sojourn.plain(columns), sojourn.plain(columns))
    sojourn.pooled(pooled, sojourn.plain(columns))


@example(Error, "A group's table by a number", "parties.rows takes one name, or a table of each member, got 7")
def _(group):
    group.rows(7)


@example(Error, "A pooled table of an owner's", "sojourn.pooled takes plain tables (sojourn.plain), got ")
def _(houses):
    sojourn.pooled(houses, houses)


@example(Error, "The place of a tensor here", "where takes a tensor on owner:", "got ")
def _(group):
    group.where(torch.ones(2))


@example(
    Error,
    "A member's tensor with a gradient in a group's op",
    ", which requires a gradient, meets tensors of a group; move it to the group first: tensor.to(parties.device)",
)
def _(device, group):
    weight = torch.ones(2, device=device, requires_grad=True)
    weight * torch.ones(2, device=group.device)


@example(Error, "A member's tensor that a group's op writes to", ", which the op writes to, meets tensors of a group")
def _(device, group):
    torch.ones(2, device=device).add_(torch.ones(2, device=group.device))


@example(Unsupported, "A group's value at a member", "a value of a group would move to one of its members")
def _(device, group):
    torch.ones(2, device=group.device).to(device)


@example(
    Error,
    "A member's tensor that a step has not computed",
    " joins a group before its value is computed; compute it in a step before this one, or on the group's device",
)
def _(device, group):
    with sojourn.step():
        torch.ones(2, device=device).to(group.device)


@example(Refused, "A private value in a group", "the tensor is read from a private table of local")
def _(group, funded):
    age = funded["age"].to(group.device)


@example(
    Unsupported,
    "A median over rows of several owners",
    "the rows lie at roles 0 and 1, and owners can only add up sums over rows",
)
def _(group):
    sojourn.publish(group.rows("houses")["dose"].median())


@example(Error, "An average into a number", "average takes a model on a group's device, got 7")
def _(owner):
    sojourn.average(7, {owner: nn.Linear(2, 2)})


@example(Error, "An average of a list", "copies must map owners to modules, got ")
def _(group):
    sojourn.average(nn.Linear(2, 2).to(group.device), [nn.Linear(2, 2)])


@example(Error, "An average by name", "copies must map owners to modules, got 'alice': Linear(")
def _(group):
    sojourn.average(nn.Linear(2, 2).to(group.device), {"alice": nn.Linear(2, 2)})


@example(Error, "An average here", "the model to average into must be on a group's device: model.to(parties.device)")
def _(owner, device):
    sojourn.average(nn.Linear(2, 2), {owner: nn.Linear(2, 2).to(device)})


@example(Error, "An average of another model", " has other parameters than the model; make it with copy.deepcopy")
def _(owner, device, group):
    sojourn.average(nn.Linear(2, 2).to(group.device), {owner: nn.Linear(2, 3).to(device)})


@example(Error, "An average of a copy here", " is not at its owner; move it with copy.to(owner.device)")
def _(owner, group):
    sojourn.average(nn.Linear(2, 2).to(group.device), {owner: nn.Linear(2, 2)})


@example(Error, "An average of a copy elsewhere", "is no member of the model's group; copies are of its members")
def _(group):
    with sojourn.local() as stranger:
        copy = nn.Linear(2, 2).to(stranger.device)
        sojourn.average(nn.Linear(2, 2).to(group.device), {stranger: copy})


@example(Error, "An average with weights by name", "weights must map the owners of the copies to numbers, got ")
def _(owner, device, group):
    sojourn.average(nn.Linear(2, 2).to(group.device), {owner: nn.Linear(2, 2).to(device)}, weights={"alice": 1})
