# SPDX-License-Identifier: Apache-2.0
"""Descriptions of a compiled step's inputs and of an owner's tables."""

from __future__ import annotations

import collections.abc
import dataclasses

import torch

import _sojourn

from . import checks, sources
from .checks import integer, shown
from .errors import Error

#: Characters of the name of an input.
NAME_MOST = 128


@dataclasses.dataclass(frozen=True)
class spec:
    """Shape and dtype of an input; its contents are given at run time.

    `name`: for error texts, up to 128 printable ASCII characters; by default that of the step's parameter.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float32
    is_number: bool = False
    name: str = dataclasses.field(default="", compare=False)

    def __post_init__(self):
        try:
            sizes = tuple(None if isinstance(self.shape, str) else self.shape)
        except TypeError:
            raise Error(f"shape must be a sequence of sizes, got {shown(self.shape)}") from None
        for size in sizes:
            integer("a size in shape", size, 0)
        if not isinstance(self.dtype, torch.dtype):
            raise Error(f"dtype must be a torch.dtype, got {shown(self.dtype)}")
        checks.flag("is_number", self.is_number)
        is_text = isinstance(self.name, str) and self.name.isascii() and len(self.name) <= NAME_MOST
        if not is_text or not (self.name == "" or self.name.isprintable()):
            raise Error(f"name must be a str of up to {NAME_MOST} printable ASCII characters, got {shown(self.name)}")


def number() -> spec:
    """An input that the step receives as a Python float, for example a scheduled learning rate.

    The step may pass it or its negative to an op. Other values that Python computes from it cannot be
    traced and are refused.
    """
    return spec((), torch.float64, True)


@dataclasses.dataclass(frozen=True)
class table_spec:
    """Describes an owner's table without its data: `sojourn.compile(..., tables={"train": sojourn.table_spec(...)})`.

    `columns`: name -> dtype, or (dtype, shape of one row's entry); the columns that the step reads are
    enough. `rows`: number of rows. Whole columns (`table["age"]`, `table.rows(...)`) need it, and the
    owner's table must then have exactly as many rows. Batches and splits do not need it: a run uses the
    row count of the table it is given. `bounds`: column -> (lower, upper), if the step relies on exactly
    these declared bounds. `categories`: column -> the texts (or ints) behind its codes, if the step relies
    on exactly these; the column is an int64 with the bounds (0, count - 1), unless others are given. Raises
    `Error` for an impossible description.

    `policy="private"` compiles for a private table and needs bounds for every column except booleans.
    The owner then draws the batches, `compile` refuses a step that cannot be proved private, and
    `Program.quote` gives prices. `defaults`: the table's (noise multiplier, clip, metric bound), if the
    step relies on them. A run compares the whole description with the owner's table when it starts; no
    owner trusts it.

    `party`: name of the party that has the table, for a step of several owners; then each table of the program names
    one. A run says which owner plays which party. Open tables only.
    """

    rows: int | None = None
    columns: collections.abc.Mapping[str, torch.dtype | tuple[torch.dtype, collections.abc.Sequence[int]]] = (
        dataclasses.field(default_factory=dict)
    )
    bounds: collections.abc.Mapping[str, tuple[float, float]] | None = None
    policy: str | None = None
    defaults: collections.abc.Sequence[float] | None = None
    categories: collections.abc.Mapping[str, collections.abc.Iterable] | None = None
    party: str | None = None

    def __post_init__(self):
        if problem := _sojourn.check_table_spec(*self._described()):
            raise Error(f"invalid table_spec: {problem}")

    def _described(self) -> tuple[int | None, list, str, list[float] | None, str]:
        """Rows, columns, policy, defaults and party."""
        if self.party is not None and (not isinstance(self.party, str) or not self.party):
            raise Error(f'party must be a name, such as "a", or None, got {shown(self.party)}')
        if self.policy is not None and not isinstance(self.policy, str):
            raise Error(f'policy must be "open", "private" or None, got {shown(self.policy)}')
        try:
            defaults = None if self.defaults is None else list(map(float, self.defaults))
            if defaults is not None and len(defaults) != 3:
                raise ValueError
        except (TypeError, ValueError):
            raise Error(
                f"defaults must be (noise multiplier, clip, metric bound), got {shown(self.defaults)}"
            ) from None
        return *self._described_columns(), self.policy or "", defaults, self.party or ""

    def _described_columns(self) -> tuple[int | None, list]:
        if not isinstance(self.columns, collections.abc.Mapping):
            raise Error(f"columns must map names to dtypes or (dtype, shape), got {shown(self.columns)}")
        bounds = checks.mapping("bounds", self.bounds, "columns to (lower, upper)")
        categories = sources.declared_categories(self.categories)
        described = []
        for name, kind in self.columns.items():
            if not isinstance(name, str):
                raise Error(f"a column name must be a str, got {shown(name)}")
            dtype, shape = kind if isinstance(kind, tuple) and len(kind) == 2 else (kind, ())
            if not isinstance(dtype, torch.dtype) or not isinstance(shape, collections.abc.Sequence):
                raise Error(f"column {name!r} must be a torch.dtype or (dtype, shape), got {shown(kind)}")
            names = categories.pop(name, None)
            limits = bounds.pop(name, None if names is None else (0, len(names) - 1))
            pair = None if limits is None else checks.pair(f"bounds of column {name!r}", limits)
            sizes = [integer(f"a size of column {name!r}", size) for size in shape]
            described.append((name, dtype, sizes, pair, names))
        for what, left in (("bounds", bounds), ("categories", categories)):
            if left:
                raise Error(
                    f"{what} name {', '.join(map(repr, left))}, which is not in columns; "
                    f"columns: {', '.join(map(repr, self.columns))}"
                )
        return None if self.rows is None else integer("rows", self.rows), described
