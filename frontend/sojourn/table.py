# SPDX-License-Identifier: Apache-2.0
"""A table as a data scientist sees it: names, types, bounds, batches. Never a value.

A `Table` asks its session for rows by number, and the session records that request: the rows are
drawn and read at the owner, inside the step that uses them. So nothing here makes a round trip.
`sojourn.plain` gives the same class a session over local CPU tensors (plain.py).
"""

from __future__ import annotations

import dataclasses
import difflib
import html
from collections.abc import Iterator, Sequence

import torch

from . import philox
from .errors import Error

_DTYPES = {
    "i1": torch.bool,
    "u8": torch.uint8,
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
}
_SHOWN_COLUMNS = 60


@dataclasses.dataclass(frozen=True)
class Column:
    """What the owner tells about a column. `bounds` are declared by the owner, not measured."""

    name: str
    dtype: torch.dtype
    bounds: tuple[float, float] | None = None


@dataclasses.dataclass(frozen=True)
class _Selection:
    """A split: entries `[start, start + size)` of a row order over the parent's rows."""

    parent: _Selection | None
    parent_rows: int
    size: int
    seed: int
    start: int


class Table:
    """A dataset at an owner, or a part of one. All methods work alike on a `sojourn.plain` table."""

    def __init__(self, session, info: dict, selection: _Selection | None = None, part: str = ""):
        self._session = session
        self._info = info
        self._selection = selection
        self._part = part
        self.name: str = info["name"]
        self.policy: str = info["policy"]
        self.columns: tuple[Column, ...] = tuple(_column(entry) for entry in info["columns"])
        self._by_name = {column.name: column for column in self.columns}
        self._count: int = selection.size if selection else info["rows"]

    @property
    def rows(self) -> _Rows:
        """The number of rows; called, `table.rows(features=[...])`, it reads whole columns."""
        return _Rows(self, self._count)

    # Batches and columns ---------------------------------------------------------------------

    def batches(
        self,
        features: Sequence[str],
        label: str | None = None,
        size: int = 64,
        epochs: int = 1,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        dtype: torch.dtype = torch.float32,
        label_dtype: torch.dtype = torch.int64,
    ) -> Batches:
        """Pairs `(x, y)` of shapes `[B, F]` and `[B]`; `x` alone if there is no label.

        Epoch `e` takes the rows in the order of `sojourn.batch_indices(len(table), size, seed, e)`.
        The last batch of an epoch may be short. Each batch is read within the step that uses it.
        """
        return Batches(self, features, label, size, epochs, shuffle, seed, drop_last, dtype, label_dtype)

    def split(self, fraction: float, seed: int = 0) -> tuple[Table, Table]:
        """Two tables without a common row; the first has `fraction` of the rows.

        Which rows: `sojourn.philox.split_indices`, the same at every owner and on the CPU.
        """
        _require(
            isinstance(fraction, (int, float)) and 0 < fraction < 1,
            f"fraction must lie between 0 and 1, got {fraction!r}",
        )
        rows, first = len(self), philox.split_rows(len(self), fraction)
        _require(0 < first < rows, f"a split of {rows} rows at {fraction} leaves one side empty")
        sizes = ((first, 0), (rows - first, first))
        return tuple(
            type(self)(
                self._session,
                self._info,
                _Selection(self._selection, rows, size, _integer("seed", seed), start),
                f"{self._part}[{'first' if start == 0 else 'other'} part of split {fraction:g}, seed {seed}]",
            )
            for size, start in sizes
        )

    def __getitem__(self, column: str) -> torch.Tensor:
        """One whole column in its own dtype."""
        found = self._find(column)
        return self._read([found.name], found.dtype, self._whole()).squeeze(1)

    def __contains__(self, column: object) -> bool:
        return column in self._by_name

    __iter__ = None  # a table is read by batches or columns, not element by element

    def __len__(self) -> int:
        return self._count

    # Row numbers -----------------------------------------------------------------------------

    def _read(self, columns: list[str], dtype: torch.dtype, indices: torch.Tensor) -> torch.Tensor:
        return self._session.rows(self.name, columns, dtype, indices)

    def _base(self, selection: _Selection) -> torch.Tensor:
        """The dataset's row numbers of a split, in its order.

        Computed anew in each program and not kept as a handle: it then needs no state, survives
        a dropped step, and every batch runs the same program.
        """
        order = self._session.sample(
            selection.parent_rows, selection.size, selection.seed, philox.SPLIT_EPOCH, selection.start
        )
        if selection.parent is None:
            return order
        return torch.index_select(self._base(selection.parent), 0, order)

    def _whole(self) -> torch.Tensor:
        return self._base(self._selection) if self._selection else self._session.range(len(self), 0)

    def _numbers(self, size: int, shuffle: bool, seed: int, epoch: int, start: int) -> torch.Tensor:
        """The dataset's row numbers of one batch."""
        if shuffle:
            positions = self._session.sample(len(self), size, seed, epoch, start)
        else:
            positions = self._session.range(size, start)
        return torch.index_select(self._base(self._selection), 0, positions) if self._selection else positions

    # Names -----------------------------------------------------------------------------------

    def _find(self, column: str) -> Column:
        _require(isinstance(column, str), f"a column is named by a str, got {type(column).__name__}")
        if column not in self._by_name:
            close = difflib.get_close_matches(column, self._by_name, n=3, cutoff=0.5)
            hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
            names = ", ".join(map(repr, list(self._by_name)[:20])) + (", ..." if len(self._by_name) > 20 else "")
            raise Error(f"table {self.name!r} has no column {column!r}{hint} (its columns: {names})")
        return self._by_name[column]

    def _features(self, features: Sequence[str]) -> list[str]:
        hint = f"features must be a list of column names, got {features!r}"
        _require(not isinstance(features, str), hint + f"; write [{features!r}]")
        try:
            names = list(features)
        except TypeError:
            raise Error(hint) from None
        _require(bool(names), "features must name at least one column")
        return [self._find(name).name for name in names]

    # Text ------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        rows = self._cells()
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        lines = ["  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
        return "\n".join([self._title(), *lines, *self._rest()])

    def _repr_html_(self) -> str:
        head, *body = self._cells()
        cells = ["<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in body]
        top = "<tr>" + "".join(f"<th>{cell}</th>" for cell in head) + "</tr>"
        rest = "".join(f"<p>{html.escape(line.strip())}</p>" for line in self._rest())
        return f"<p><b>{html.escape(self._title())}</b></p><table>{top}{''.join(cells)}</table>{rest}"

    def _title(self) -> str:
        return f"{self.name}{self._part}: {len(self)} rows, {len(self.columns)} columns, policy {self.policy}"

    def _cells(self) -> list[tuple[str, str, str]]:
        head = ("column", "dtype", "bounds")
        return [
            head,
            *((c.name, str(c.dtype).removeprefix("torch."), _bounds(c.bounds)) for c in self.columns[:_SHOWN_COLUMNS]),
        ]

    def _rest(self) -> list[str]:
        hidden = len(self.columns) - _SHOWN_COLUMNS
        return [f"  ... and {hidden} more columns"] if hidden > 0 else []


class _Rows(int):
    """`table.rows` is the number of rows, and `table.rows(features=[...])` reads whole columns."""

    def __new__(cls, table: Table, count: int):
        self = super().__new__(cls, count)
        self._table = table
        return self

    def __call__(self, features: Sequence[str] | None = None, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Whole columns side by side, `[rows, F]`; all columns if none are named."""
        table = self._table
        names = [c.name for c in table.columns] if features is None else table._features(features)
        return table._read(names, dtype, table._whole())


class Batches:
    """An iterable over batches that knows its length, so that `tqdm(table.batches(...))` works."""

    def __init__(self, table, features, label, size, epochs, shuffle, seed, drop_last, dtype, label_dtype):
        self._table = table
        self._columns = table._features(features)
        self._label = None if label is None else table._find(label).name
        self._size = _integer("size", size, least=1)
        self._epochs = _integer("epochs", epochs, least=0)
        self._seed = _integer("seed", seed)
        self._shuffle, self._dtype, self._label_dtype = bool(shuffle), dtype, label_dtype
        rows = len(table)
        self._end = rows - rows % self._size if drop_last else rows
        _require(self._end > 0, f"table {table.name!r} has {rows} rows: drop_last leaves no batch of {self._size}")

    def __len__(self) -> int:
        return self._epochs * self.per_epoch

    @property
    def per_epoch(self) -> int:
        """Batches of one epoch."""
        return -(-self._end // self._size)

    def __iter__(self) -> Iterator:
        for epoch in range(self._epochs):
            for start in range(0, self._end, self._size):
                size = min(self._size, self._end - start)
                numbers = self._table._numbers(size, self._shuffle, self._seed, epoch, start)
                x = self._table._read(self._columns, self._dtype, numbers)
                if self._label is None:
                    yield x
                else:
                    yield x, self._table._read([self._label], self._label_dtype, numbers).squeeze(1)


def _column(entry: dict) -> Column:
    bounded = entry.get("lower") is not None and entry.get("upper") is not None
    return Column(entry["name"], _DTYPES[entry["dtype"]], (entry["lower"], entry["upper"]) if bounded else None)


def _bounds(bounds: tuple[float, float] | None) -> str:
    return f"[{bounds[0]:g}, {bounds[1]:g}]" if bounds else "none"


def _integer(name: str, value: int, least: int | None = None) -> int:
    _require(
        not isinstance(value, bool) and hasattr(value, "__index__") and (least is None or value >= least),
        f"{name} must be an integer" + ("" if least is None else f" of at least {least}") + f", got {value!r}",
    )
    return int(value)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise Error(message)
