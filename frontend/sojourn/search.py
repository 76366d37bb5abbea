# SPDX-License-Identifier: Apache-2.0
"""Tables of several owners, found by words, tags and columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from . import checks, notebook
from .errors import Error
from .owner import Owner
from .table import Table

_SHOWN_COLUMNS, _SHOWN_WORDS = 6, 60


class FoundTables(list):
    """The tables that a search found, owner by owner; each is a `Table`. `owners`: that of each."""

    def __init__(self, found: Iterable[tuple[Owner, Table]]):
        pairs = list(found)
        super().__init__(table for _, table in pairs)
        self.owners = tuple(owner for owner, _ in pairs)

    def _lines(self) -> list[tuple[str, ...]]:
        lines: list[tuple[str, ...]] = [("owner", "table", "rows", "policy", "columns", "tags", "description")]
        for owner, table in zip(self.owners, self):
            columns = ", ".join(column.name for column in table.columns[:_SHOWN_COLUMNS])
            more = len(table.columns) - _SHOWN_COLUMNS
            words = (table.description.splitlines() or [""])[0]
            lines.append(
                (
                    owner.address,
                    table.name,
                    str(len(table)),
                    table.policy,
                    columns + (f" and {more} more" if more > 0 else ""),
                    ", ".join(table.tags),
                    words if len(words) <= _SHOWN_WORDS else words[: _SHOWN_WORDS - 3] + "...",
                )
            )
        return lines

    def __repr__(self) -> str:
        if not self:
            return "no tables"
        lines = self._lines()
        widths = [max(map(len, column)) for column in zip(*lines)]
        return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, widths)).rstrip() for line in lines)

    def _repr_html_(self) -> str:
        return notebook.table(f"{len(self)} tables", self._lines()) if self else notebook.paragraphs(repr(self))


def search(
    owners: Owner | Iterable[Owner], text: str = "", tag: str | None = None, columns: str | Sequence[str] = ()
) -> FoundTables:
    """The tables of these owners to which this client has access and that fit; each owner is asked once.

    ::

        sojourn.search([alice, bob], "blood pressure", tag="icu", columns=["age"])

    `text`: up to 16 words; each is part of the name, the description, a tag or the name of a column, in upper or lower case.
    `tag`: one of the tags. `columns`: names of columns, all of which the table has. Omitted arguments admit every
    table. Printed, the result is a table with owner, name, rows, policy, columns, tags and description.
    """
    try:
        asked = [owners] if isinstance(owners, (Owner, str)) else list(owners)
    except TypeError:
        asked = [owners]  # type: ignore[list-item]  # refused below
    for owner in asked:
        if not isinstance(owner, Owner):
            raise Error(f"owners must be owners, from sojourn.connect or sojourn.local, got {checks.shown(owner)}")
    words = checks.text("text", text)
    label = "" if tag is None else checks.text("tag", tag)
    names = [columns] if isinstance(columns, str) else checks.names("columns", columns)
    return FoundTables(
        (owner, Table(each, owner.session)) for owner in asked for each in owner.session.search(words, label, names)
    )
