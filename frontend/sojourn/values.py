# SPDX-License-Identifier: Apache-2.0
"""Names of values at an owner, by which other connections of the same identity find them."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping, Sequence

import torch

import _sojourn

from . import checks, connections, notebook
from .errors import Error


@dataclasses.dataclass(frozen=True)
class NamedValue:
    """A value at an owner that has a name.

    `bytes`: of its elements. `lease`: how long the value keeps its name after `used`, its last use; a value that an
    open connection has is in use.
    """

    name: str
    tags: tuple[str, ...]
    dtype: torch.dtype
    shape: tuple[int, ...]
    bytes: int
    named: datetime.datetime
    used: datetime.datetime
    lease: datetime.timedelta


class NamedValues(list):
    """Values with names, each a `NamedValue`."""

    def _lines(self) -> list[tuple[str, ...]]:
        lines: list[tuple[str, ...]] = [("name", "tags", "dtype", "shape", "bytes", "named", "used")]
        for each in self:
            times = (f"{time.astimezone():%Y-%m-%d %H:%M:%S}" for time in (each.named, each.used))
            dtype = str(each.dtype).removeprefix("torch.")
            lines.append((each.name, ", ".join(each.tags), dtype, str(list(each.shape)), str(each.bytes), *times))
        return lines

    def __repr__(self) -> str:
        if not self:
            return "no values with names"
        lines = self._lines()
        widths = [max(map(len, column)) for column in zip(*lines)]
        return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, widths)).rstrip() for line in lines)

    def _repr_html_(self) -> str:
        return notebook.table(f"{len(self)} values", self._lines()) if self else notebook.paragraphs(repr(self))


def name(
    value: torch.Tensor | Mapping[str, torch.Tensor] | torch.nn.Module, name: str, tags: str | Sequence[str] = ()
) -> None:
    """Gives a value at an owner a name, by which later connections of the same identity find it.

    ::

        sojourn.name(model, "churn-model", tags=["2026"])
        ...
        weights = owner.value("churn-model")        # another day, another process
        owner.values(tag="2026")

    `value`: a remote tensor; a mapping of remote tensors, whose names are then `NAME.KEY`; or a module, for its
    `state_dict()`. The value stays in the owner's memory, and counts in the account's share, when the connection
    closes. It ends with `owner.release(name)`, after a week without use (or the time that the owner has set), and with
    the owner's server. Save to a file what must outlive the server.

    Updates in place, such as an optimizer's, change the named value. A new result is another value: after `w = w - g`
    the name belongs to the old one. A name that another tensor has moves to the new one. Naming a tensor by the same
    name again changes its tags. A value has one name at most.

    `name`: up to 256 letters, digits, spaces and - _ . characters. `tags`: up to 32 of up to 64 bytes. Raises `Error`
    inside of a step, for a part of another tensor (name the whole tensor or a copy), for tensors of several owners, and for a tensor that has
    another name; `Refused` without an identity.
    """
    label = checks.text("name", name)
    words = [tags] if isinstance(tags, str) else checks.names("tags", tags)
    if isinstance(value, torch.Tensor):
        _sojourn.name_values([(label, value)], words)
        return
    named = value.state_dict() if isinstance(value, torch.nn.Module) else value
    if not isinstance(named, Mapping) or not all(
        isinstance(key, str) and isinstance(each, torch.Tensor) for key, each in named.items()
    ):
        raise Error(
            f"name takes a tensor, a module or a mapping from str to tensors, such as a state_dict, got {checks.shown(value)}"
        )
    if not named:
        raise Error(f"'{label}' would name an empty mapping; expected at least one tensor")
    _check_ties(named)
    session = _session_of(next(iter(named.values())), label)
    _check_others(session, label, named)
    _sojourn.name_values([(f"{label}.{key}", each) for key, each in named.items()], words)


def _session_of(tensor: torch.Tensor, label: str):
    session = connections.session_at(tensor.device)
    if session is None:
        raise Error(
            f"'{label}' would name a tensor on {tensor.device}, which is no connection to one owner; move it to an "
            "owner first: tensor.to(owner.device)"
        )
    return session


def _check_ties(named: Mapping[str, torch.Tensor]) -> None:
    seen: dict[int, str] = {}
    for key, tensor in named.items():
        place = tensor.untyped_storage().data_ptr() if tensor.numel() else 0
        if place and place in seen:
            raise Error(
                f"'{seen[place]}' and '{key}' are one tensor, and a value has one name: name a mapping that has it once, "
                "such as dict(model.named_parameters())"
            )
        seen[place] = key


def _check_others(session, label: str, named: Mapping[str, torch.Tensor]) -> None:
    """Values of an earlier mapping would look like a part of this one."""
    keys = {f"{label}.{key}" for key in named}
    others = [each for each in _names(session) if (each == label or each.startswith(f"{label}.")) and each not in keys]
    if others:
        raise Error(
            f"{len(others)} other values have names of '{label}' ('{others[0]}'), and would mix with this mapping; "
            f"release them first, owner.release({label!r}), or choose another name"
        )


def _names(session) -> list[str]:
    return [each[0] for each in _sojourn.named_values(session, "")]


def listed(session, tag: str) -> NamedValues:
    """The values of a connection's account that have names."""

    def moment(milliseconds: int) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.UTC)

    return NamedValues(
        NamedValue(name, tags, dtype, shape, count, moment(named), moment(used), datetime.timedelta(milliseconds=lease))
        for name, tags, dtype, shape, count, named, used, lease in _sojourn.named_values(session, tag)
    )


def _of_mapping(session, label: str) -> list[str]:
    """The names that a mapping got under this one; none where a value has the name itself."""
    all_names = _names(session)
    return [] if label in all_names else [each for each in all_names if each.startswith(f"{label}.")]


def found(session, label: str) -> torch.Tensor | dict[str, torch.Tensor]:
    """The value with the name: a tensor, or a dict of them."""
    members = _of_mapping(session, label)
    if not members:
        return _sojourn.take_values(session, [label])[0]
    return dict(zip((each[len(label) + 1 :] for each in members), _sojourn.take_values(session, members)))


def release(session, label: str) -> None:
    """Takes the name away, or those of a mapping."""
    _sojourn.release_names(session, _of_mapping(session, label) or [label])
