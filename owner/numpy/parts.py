# SPDX-License-Identifier: Apache-2.0
"""Parts of a table as lists of splits, from the table down, and how many rows each has."""

from __future__ import annotations

import math
from typing import NamedTuple


class Side(NamedTuple):
    """One side of a split."""

    fraction: float  # of the rows that the first side has
    is_other: bool  # the side of the rest


class PartRows(NamedTuple):
    rows: int  # of the part
    start: int  # its first position in the last split's order
    parent: int  # rows of what was split last; of the table where there is no split


def sides_of(op) -> tuple[Side, ...]:
    """The part that a checked `sample_rows` names."""
    return tuple(Side(fraction, side == 1) for fraction, side in zip(op.attr("fractions"), op.attr("sides")))


def rows_of(table_rows: int, sides: tuple[Side, ...]) -> PartRows:
    part = PartRows(table_rows, 0, table_rows)
    for side in sides:
        first = math.floor(side.fraction * part.rows + 0.5)
        part = PartRows(part.rows - first, first, part.rows) if side.is_other else PartRows(first, 0, part.rows)
    return part


def part_text(sides: tuple[Side, ...]) -> str:
    """The part in words, the innermost split first."""
    names = [f"the {'other' if side.is_other else 'first'} part of a split at {side.fraction:g}" for side in sides]
    return " of ".join(reversed(names)) or "the table"
