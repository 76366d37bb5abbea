# SPDX-License-Identifier: Apache-2.0
"""Groups of owners: a device whose steps several owners compute together, over the tables of all of them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

import _sojourn

from . import checks, connections, notebook
from .errors import Error
from .owner import Connected, Owner
from .step import step
from .table import Table

_MEMBERS_LEAST, _MEMBERS_MOST = 2, 16
_WEIGHT_MOST = 1e15


class Parties(Connected):
    """Several owners as one device. `owners`: the members; `parties.device` is a torch device.

    A step on the device is one program, sent to each member at once: each computes on its rows, sums over rows meet,
    and the step is committed by all members or by none.

    `sums`: what members see of each other's rows. "clear": each other's sums over their rows, which are added in the
    order of the members. "masked": of sums over rows of all members, three or more, the total alone; floats are added on a
    grid of step 2^-42, and a sum with a member's part beyond 2^20 / members is NaN.
    """

    def __init__(self, session, owners: tuple[Owner, ...]):
        if not isinstance(session, _sojourn.Session):
            raise Error(f"a group is made by sojourn.parties(owner, owner), got {checks.shown(session)}")
        super().__init__(session)
        self.owners = owners
        self.sums = "masked" if _sojourn.is_masked(session) else "clear"
        connections.remember(session, None)
        connections.remember_group(self)

    def rows(self, *tables: str | Table) -> Table:
        """The members' tables as one `Table`: same columns, rows about different people.

        `rows("patients")`: the table of this name at each member. `rows(alice.dataset("a"), bob.dataset("b"))`: these,
        one of each member in the order of the group. Open tables only.

        A batch takes rows of each table in proportion to its rows (largest remainders), in the order that the table
        itself has for the seed; `split` splits each table. `sojourn.pooled` gives the same batches over plain tables.
        Raises `Error` where columns differ.
        """
        if len(tables) == 1 and isinstance(tables[0], str):
            found = [owner.dataset(tables[0]) for owner in self.owners]
        else:
            for table in tables:
                if not isinstance(table, Table):
                    raise Error(
                        f"parties.rows takes one name, or a table of each member, got {checks.shown(table)} among "
                        f"{len(tables)} arguments"
                    )
            found = [table for table in tables if isinstance(table, Table)]
        return Table(_sojourn.join_tables(self.session, [table._table for table in found]), self.session)

    def where(self, tensor: torch.Tensor) -> str:
        """The place of a tensor of this group: "copies at all members", "at alice", "a part at each of alice, bob"."""
        if not isinstance(tensor, torch.Tensor) or tensor.device != self.device:
            raise Error(f"where takes a tensor on {self.device}, got {checks.shown(tensor)}")
        return where(tensor) or "not computed yet: its step has not run"

    def programs(self, with_text: bool = False) -> list[dict]:
        """The joint programs in the logs of all members, in the order of the first one's, newest last.

        Of each: hash, client, ops, `runs` as a list, of each member in the order of the group, and, if `with_text`, the IR
        with the place of each value and what members send in each exchange. Members of this process only: the log of a
        served owner is read by its data owner, with `sojourn-owner programs`. Raises `Refused` there.
        """
        checks.flag("with_text", with_text)
        heading = f"// a step of {len(self.owners)} owners\n"
        first, *others = (
            {(program["hash"], program["client"]): program for program in owner.programs(True)} for owner in self.owners
        )
        found = []
        for key, program in first.items():
            if program["text"].startswith(heading) and all(key in other for other in others):
                joint = {name: program[name] for name in ("hash", "client", "ops")}
                joint["runs"] = [member[key]["runs"] for member in (first, *others)]
                found.append({**joint, "text": program["text"]} if with_text else joint)
        return found

    def __repr__(self) -> str:
        owners = ", ".join(owner.address for owner in self.owners)
        return f"Parties({owners}, device='{self.device}', sums='{self.sums}')"

    def _repr_html_(self) -> str:
        rows = [(str(role), owner.address, owner.key or "unknown") for role, owner in enumerate(self.owners)]
        return notebook.table(
            f"Group of {len(self.owners)} owners, device {self.device}", [("", "owner", "key"), *rows]
        )


def parties(*owners: Owner, sums: str | None = None) -> Parties:
    """A group of 2 to 16 owners, whose tables are used as one.

    `sums`: "clear" or "masked" (see `Parties`); by default masked where a member shares some table with another one as
    sums alone.

    Each owner decides what other members may see of its tables (`Owner.share`), and takes only members that it knows:
    owners of one process know each other, served ones those that their data owners have registered. Raises `Error` where one of them refuses.
    """
    for owner in owners:
        if not isinstance(owner, Owner):
            raise Error(f"sojourn.parties takes owners (sojourn.local, sojourn.connect), got {checks.shown(owner)}")
    if not _MEMBERS_LEAST <= len(owners) <= _MEMBERS_MOST:
        raise Error(f"a group has {_MEMBERS_LEAST} to {_MEMBERS_MOST} owners, got {len(owners)}")
    for at, owner in enumerate(owners):
        if owner.session in [before.session for before in owners[:at]]:
            raise Error(f"the owner at {owner.address} is in the group more than once; name each owner once")
    if sums not in (None, "clear", "masked"):
        raise Error(f"sums must be 'clear' or 'masked', got {checks.shown(sums)}")
    return Parties(_sojourn.open_group([owner.session for owner in owners], sums and sums == "masked"), owners)


def pooled(*tables: Table) -> Table:
    """Plain tables (`sojourn.plain`) as one `Table`, with the batches of a group with the same tables, for comparison.

    In the `batches=` of `sojourn.compile`, it also joins tables that are described for parties, with their row counts.
    Raises `Error` where columns differ.
    """
    for table in tables:
        if not isinstance(table, Table) or table.session is not None:
            raise Error(f"sojourn.pooled takes plain tables (sojourn.plain), got {checks.shown(table)}")
    return Table(_sojourn.join_tables(None, [table._table for table in tables]))


def average(model: nn.Module, copies: Mapping[Owner, nn.Module], weights: Mapping[Owner, float] | None = None) -> None:
    """Sets the parameters and buffers of a model on a group's device to the weighted mean of its copies, in one step.

    ::

        sojourn.average(model, {alice: at_alice, bob: at_bob}, weights={alice: 900, bob: 400})

    `copies`: by owner, members of the group; each was trained at its owner, for some local steps. `weights`: shares of
    the copies, such as their numbers of rows; they need not add up to 1. Default: equal shares. Buffers of integers
    become those of the first copy. Raises `Error` where a copy has other parameters than the model.
    """
    if not isinstance(model, nn.Module):
        raise Error(f"average takes a model on a group's device, got {checks.shown(model)}")
    if not isinstance(copies, Mapping) or not copies:
        raise Error(f"copies must map owners to modules, got {checks.shown(copies)}")
    for owner, copy in copies.items():
        if not isinstance(owner, Owner) or not isinstance(copy, nn.Module):
            raise Error(f"copies must map owners to modules, got {checks.shown(owner)}: {checks.shown(copy)}")
    shares = _shares(copies, weights)
    state = dict(model.state_dict())
    group = connections.group_at(next(iter(state.values())).device) if state else None
    if group is None:
        raise Error("the model to average into must be on a group's device: model.to(parties.device)")
    for owner, copy in copies.items():
        if owner not in group.owners:
            raise Error(f"the owner at {owner.address} is no member of the model's group; copies are of its members")
        own = copy.state_dict()
        if {name: value.shape for name, value in own.items()} != {name: value.shape for name, value in state.items()}:
            raise Error(f"the copy at {owner.address} has other parameters than the model; make it with copy.deepcopy")
        if any(value.device != owner.device for value in own.values()):
            raise Error(f"the copy for {owner.address} is not at its owner; move it with copy.to(owner.device)")
    names = list(state)
    values = [copy.state_dict()[name].detach() for copy in copies.values() for name in names]
    joined = _sojourn.borrow(values, group.session)
    with torch.no_grad(), step():
        for at, name in enumerate(names):
            parts = joined[at :: len(names)]
            if state[name].is_floating_point() or state[name].is_complex():
                state[name].copy_(torch.stack([part * share for part, share in zip(parts, shares)]).sum(0))
            else:
                state[name].copy_(parts[0])


def _shares(copies: Mapping[Owner, nn.Module], weights: Mapping[Owner, float] | None) -> list[float]:
    if weights is None:
        return [1 / len(copies)] * len(copies)
    if not isinstance(weights, Mapping) or set(weights) != set(copies):
        raise Error(f"weights must map the owners of the copies to numbers, got {checks.shown(weights)}")
    numbers = [checks.positive(f"weights[{owner.address}]", weights[owner], _WEIGHT_MOST) for owner in copies]
    return [number / sum(numbers) for number in numbers]


def where(tensor: torch.Tensor) -> str | None:
    """The place of a tensor of a group, in words; None for other tensors, and before its step has run."""
    place = _sojourn.place(tensor)
    group = connections.group_at(tensor.device)
    if place is None or group is None:
        return None
    is_whole, roles = place
    names = [group.owners[role].address for role in roles]
    if is_whole:
        return "copies at all members" if len(names) == len(group.owners) else f"at {names[0]}"
    return f"a part at each of {', '.join(names)}"
