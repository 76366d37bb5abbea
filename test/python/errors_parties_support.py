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


@example(
    Unsupported,
    "Rows of several members at one of them",
    "rows of several members of ",
    " as one tensor; sum over them first, or use the rows of one owner (owner.dataset)",
)
def _(device, group):
    torch.stack([torch.ones(2, device=owner.device) for owner in group.owners] + [torch.ones(2).to(group.device)]).to(
        device
    )


@example(Error, "A move between owners inside a step", " inside a step; move it before the step")
def _(device, group):
    value = torch.ones(2, device=device) * 2
    sojourn.flush()
    with sojourn.step():
        value.to(next(owner.device for owner in group.owners if owner.device != torch.device(device)))


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


@example(Error, "A party without a name", 'party must be a name, such as "a", or None, got 7')
def _():
    sojourn.table_spec(None, {"age": torch.int64}, party=7)


@example(Error, "A private table of a party", "it is private and of party 'a', and private tables do not take part in")
def _():
    sojourn.table_spec(None, {"age": torch.int64}, {"age": (0, 100)}, policy="private", party="a")


@example(
    Error,
    "A compiled step of one party",
    "a step of several owners has 2 to 16 parties, got 1 (a); for one owner, leave party out",
)
def _():
    with sojourn.offline():
        sojourn.compile(
            lambda x: x.mean(),
            tables={"houses": sojourn.table_spec(96, {"age": torch.int64}, party="a")},
            batches=lambda houses: houses.batches("age", size=16),
        )


HOUSES = {
    "first": sojourn.table_spec(96, {"age": torch.int64}, party="a"),
    "second": sojourn.table_spec(96, {"age": torch.int64}, party="b"),
}


@example(
    Error, "A table of no party beside others", "table 'third' is of no party, but the step is one of the parties a, b"
)
def _():
    with sojourn.offline():
        sojourn.compile(
            lambda x: x.sum(),
            tables={**HOUSES, "third": sojourn.table_spec(96, {"age": torch.int64})},
            batches=lambda first, second, third: third.batches("age", size=16),
        )


@example(Error, "Described tables of one owner, pooled", "described for one owner, and sojourn.pooled joins tables of")
def _():
    houses = sojourn.table_spec(96, {"age": torch.int64})
    with sojourn.offline():
        sojourn.compile(
            lambda x: x.sum(),
            tables={"first": houses, "second": houses},
            batches=lambda first, second: sojourn.pooled(first, second).batches("age", size=16),
        )


@example(Error, "Described and plain tables, pooled", "cannot be joined: one is described for a party of a step ahead")
def _(columns):
    with sojourn.offline():
        sojourn.compile(
            lambda x: x.sum(),
            tables=HOUSES,
            batches=lambda first, second: sojourn.pooled(first, sojourn.plain(columns)).batches("age", size=16),
        )


@example(Error, "Described tables in a group", "is described ahead of time, and a group has tables of its members")
def _(group):
    with sojourn.offline():
        sojourn.compile(
            lambda x: x.sum(),
            tables=HOUSES,
            batches=lambda first, second: group.rows(first, second).batches("age", size=16),
        )


@example(
    Error,
    "Pooled tables of parties without numbers of rows",
    "the number of rows of table 'first' is not known: the table was described without a number of rows",
)
def _():
    with sojourn.offline():
        sojourn.compile(
            lambda x: x.sum(),
            tables={name: sojourn.table_spec(None, {"age": torch.int64}, party=name[0]) for name in HOUSES},
            batches=lambda first, second: sojourn.pooled(first, second).batches("age", size=16),
        )


@example(
    Error,
    "Batches of a joined table beside others",
    "the steps take batches of 2 tables, one of them joined; give the batches of a joined table alone",
    "torch.cat",
)
def _():
    with sojourn.offline():
        sojourn.compile(
            lambda x, y: x.mean(),
            tables=HOUSES,
            batches=lambda first, second: [
                sojourn.pooled(first, second).batches("age", size=16),
                first.batches("age", size=16),
            ],
        )


@example(
    Error, "A short batch of full ones", "short is 3, but no batch of table 'first+second' is short: its 192 rows are"
)
def _():
    with sojourn.offline():
        sojourn.compile(
            lambda x: x.sum(),
            tables=HOUSES,
            batches=lambda first, second: sojourn.pooled(first, second).batches("age", size=16),
            short=3,
        )


@example(
    Error, "A party that is in no batch", "no batch of 8 rows has a row of table 'small'; compile the step for larger"
)
def _():
    with sojourn.offline():
        sojourn.compile(
            lambda x: x.sum(),
            tables={**HOUSES, "small": sojourn.table_spec(1, {"age": torch.int64}, party="c")},
            batches=lambda first, second, small: sojourn.pooled(first, second, small).batches(
                "age", size=8, drop_last=True
            ),
        )


@example(Error, "A compiled step with a party too few", "no owner plays party 'b' of the program", "its parties: a, b")
def _(owner, joint_program):
    joint_program.run({"a": owner})


@example(Error, "A compiled step with an unknown party", "the program has no party 'c' (its parties: 'a', 'b')")
def _(owner, other, joint_program):
    joint_program.run({"a": owner, "b": other, "c": owner})


@example(
    Error, "A party that is played by its address", "must map the program's parties to owners, got 'b': 'hospital'"
)
def _(owner, joint_program):
    joint_program.run({"a": owner, "b": "hospital"})


@example(
    Error, "An owner that plays two of three parties", "parties 'a' and 'b' are played by one owner, but others not"
)
def _(owner, other):
    with sojourn.offline():
        program = sojourn.compile(
            lambda x: x.sum(),
            tables={name: sojourn.table_spec(96, {"age": torch.int64}, party=name) for name in "abc"},
            batches=lambda a, b, c: sojourn.pooled(a, b, c).batches("age", size=16),
        )
    program.run({"a": owner, "b": owner, "c": other})


@example(Error, "A compiled step of one owner with parties", "compiled for one owner, and has no parties to play")
def _(owner, other, program):
    program.run({"a": owner, "b": other})


@example(
    Error, "A compiled step of one owner in a group", "compiled for one owner, but runs at the group of local, local"
)
def _(group, program):
    program.run(group)


@example(Error, "A group with a member too few", "has 3 parties (a, b, c), but the group of local, local has 2 members")
def _(group):
    with sojourn.offline():
        program = sojourn.compile(
            lambda x: x.sum(),
            tables={name: sojourn.table_spec(96, {"age": torch.int64}, party=name) for name in "abc"},
            batches=lambda a, b, c: sojourn.pooled(a, b, c).batches("age", size=16),
        )
    program.run(group)


@example(
    Error,
    "A party's table with other columns",
    "dataset 'flats' at local is not table 'b' of party 'b' of the compiled step: it has no column 'ill'",
)
def _(owner, houses, other, columns, joint_program):
    other.register("flats", {"age": columns["age"], "dose": columns["dose"]}, policy="open")
    joint_program.run({"a": owner, "b": other}, tables={"a": "houses", "b": "flats"})


@example(
    Error,
    "Parties' tables in other proportions",
    "batch 0 of an epoch takes 11 of 'a' and 5 of 'b', but the step was compiled for tables in other proportions "
    "(first 8 of 'a' and 8 of 'b')",
    "fit tables of any size",
)
def _(owner, houses, other, columns, joint_program):
    other.register("half", {name: values[:48] for name, values in columns.items()}, policy="open")
    joint_program.run({"a": owner, "b": other}, tables={"a": "houses", "b": "half"})
