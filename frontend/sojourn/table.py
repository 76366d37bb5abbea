# SPDX-License-Identifier: Apache-2.0
"""A table as a scientist sees it: names, types, bounds and batches, never a value.

Rows are requested by number, and at an owner the request is recorded: rows are drawn and read inside
the step that uses them. So only showing a private table makes a round trip, for its remaining budget.
frontend/tables/Table.h does the work; this module adds its Python interface and the conversion of arrays.
"""

from __future__ import annotations

import html
import itertools
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, overload

import torch

import _sojourn

from . import checks, current, sources
from .checks import flag, integer, shown, text
from .current import columns_of, knowing
from .errors import Error

_SHOWN_COLUMNS = 60
# Marks whole columns of a private table.
_WHOLE = "_sojourn_whole"
# So many ranges of whole columns are scaled one by one; each costs a few ops.
_APART_MOST = 256


def _run_of(table: Table) -> current.Run | None:
    """The open `sojourn.privacy` if it is one of this table or of a part of it, else None."""
    run = current.run()
    return run if run is not None and (table.name, table.session) == (run.table, run.session) else None


class Defaults(NamedTuple):
    """Noise over sensitivity of a step; bound of a row's gradient; bound of a row's share in a published value."""

    noise_multiplier: float
    clip: float
    metric_bound: float


class Column(NamedTuple):
    """A column of a table, as its data owner declared it.

    `categories`: meanings of its integer codes, by position, or None. `unit`: of dates and times, for example "days
    since 1970-01-01", or None. `fill`: the number that replaced missing entries, or None.
    """

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    bounds: tuple[float, float] | None
    categories: tuple | None = None
    unit: str | None = None
    fill: float | None = None

    def __repr__(self) -> str:
        fields = [
            (name, value) for at, (name, value) in enumerate(zip(self._fields, self)) if at < 4 or value is not None
        ]
        return f"Column({', '.join(f'{name}={value!r}' for name, value in fields)})"


def _column(of: _sojourn.Column) -> Column:
    fill = of.fill if of.fill is None or of.dtype.is_floating_point else int(of.fill)
    return Column(of.name, of.dtype, of.shape, of.bounds, of.categories, of.unit, fill)


class Table:
    """A dataset at an owner, or a part of one; `sojourn.plain` makes one of local CPU tensors.

    `name`; `policy`: "open" or "private"; `columns`: each with `name`, `dtype`, `shape` (of one row's
    entry: `()` for a plain number, `(28, 28)` for a small image), `bounds`, declared by the owner and
    not measured, or None, `categories`, the texts behind the codes of a column of text, or None, `unit`
    of dates and times, or None, and `fill`, which replaced missing entries, or None. `description` and `tags`: the data
    owner's words.
    """

    def __init__(self, table: _sojourn.Table, session=None):
        if not isinstance(table, _sojourn.Table):
            raise Error(
                f"a table comes from its owner, owner.dataset(name), or from sojourn.plain(source), got {shown(table)}"
            )
        self._table = table
        self.session = session
        self._scalings = threading.local()
        self.name: str = table.name
        self.policy: str = table.policy
        self.columns: tuple[Column, ...] = tuple(map(_column, table.columns))
        self.description: str = table.description
        self.tags: tuple[str, ...] = tuple(table.tags)

    @property
    def rows(self) -> _Rows:
        """The number of rows; called as `table.rows(features=...)`, it reads whole columns.

        Raises `Error` if a `table_spec` omits the number.
        """
        return _Rows(self)

    def batches(
        self,
        features: str | Sequence[str] | Mapping[str, str | Sequence[str]],
        label: str | None = None,
        size: int = 64,
        epochs: int = 1,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        dtype: torch.dtype | None = None,
        label_dtype: torch.dtype | None = None,
    ) -> Batches:
        """Pairs `(x, y)`, or only `x` without a label.

        A list of features gives `[B, F]`: columns of plain numbers side by side, as float32. One name,
        `features="image"`, gives that column alone, `[B, *shape]` (`[B]` for a plain number); the label
        does the same. A column alone is float32 for floats and int64 for integers and booleans; a uint8
        column with a shape stays uint8. `dtype` and `label_dtype` override these.

        A dict gives several tensors in a dict with the same keys, all of the same rows: for
        `features={"image": "scan", "row": ["age", "bmi"]}`, `x["image"]` is the column `scan` and
        `x["row"]` the two others side by side. On a private table a step may combine them. There is no
        `dtype` then; `label` and `label_dtype` stay.

        Epoch `e` takes the rows in the order of `sojourn.batch_indices(len(table), size, seed, e)`: each
        row once, so the rows of an epoch are distinct. The last batch of an epoch may be short. Each batch
        is read within the step that uses it.

        On a private table the owner draws each batch: `size` rows on average, in a larger, fixed number of
        slots, `x.shape[0]`. Slots without a row count as nothing. Take sizes from the batch:
        `x.view(x.shape[0], -1)`, not `x.view(128, -1)`.
        """
        numbers = {"size": size, "epochs": epochs, "seed": seed}
        size, epochs, seed = (integer(name, value) for name, value in numbers.items())
        label = None if label is None else _name(label)
        dtype = checks.dtype("dtype", dtype)
        wanted = _named(features, dtype) if isinstance(features, Mapping) else _features(features)
        batches = self._table.batches(
            wanted,
            label,
            size,
            epochs,
            flag("shuffle", shuffle),
            seed,
            flag("drop_last", drop_last),
            dtype,
            checks.dtype("label_dtype", label_dtype),
        )
        return Batches(batches, wanted, label, self, size, epochs)

    def split(self, fraction: float, seed: int = 0) -> tuple[Table, Table]:
        """Two tables without a common row; the first has `fraction` of the rows.

        `sojourn.split_indices` gives their rows, the same at every owner and on the CPU.
        """
        if not checks.is_number(fraction):
            raise Error(f"fraction must be a number between 0 and 1, got {shown(fraction)}")
        first, other = self._table.split(checks.number("fraction", fraction), integer("seed", seed))
        return Table(first, self.session), Table(other, self.session)

    def scaled(self, x: torch.Tensor, columns: str | Sequence[str] | None = None) -> torch.Tensor:
        """`x`, with the declared bounds of each column scaled to [-1, 1]; integers and booleans become float32.

        Bounds are public, so nothing is learned of the rows, and each row is scaled by itself. Steps on
        private tables may use it, while a measured mean and deviation would cost budget. `columns`: the
        columns in `x`, as given to `batches` or `rows`: a list for `[..., F]`, or one name. Tensors from
        `batches` and `rows` know their columns, tensors computed from them do not. Recorded as one
        difference and one product; for whole columns of a private table as those of each column, so that
        the noise of a statistic follows from [-1, 1]. Statistics of a private batch are clamped to the
        `bound=` of their publish. Raises `Error` for columns without bounds.
        """
        if not isinstance(x, torch.Tensor):
            more = "; scale its tensors one by one" if isinstance(x, Mapping) else ""
            raise Error(f"scaled takes a tensor of this table's columns, got {type(x).__name__}{more}")
        columns = columns_of(x) if columns is None else _features(columns, "columns")
        if columns is None:
            raise Error(
                f"unknown columns of table '{self.name}' in this tensor of shape {tuple(x.shape)}: it was computed, "
                "not drawn; scale the result of batches(...) or rows(...), or name the columns: scaled(x, features)"
            )
        alone = isinstance(columns, str)
        limits = self._limits([columns] if isinstance(columns, str) else columns)
        if not alone and (x.dim() == 0 or x.shape[-1] != len(columns)):
            raise Error(f"{len(columns)} columns need a tensor of shape [..., {len(columns)}], got {tuple(x.shape)}")
        dtype = x.dtype if x.is_floating_point() else torch.float32
        runs = [(limit, len(list(alike))) for limit, alike in itertools.groupby(limits)]
        if 1 < len(runs) <= _APART_MOST and _is_whole(x):
            # The owner's proof takes numbers of the step into account, and none of an uploaded tensor.
            parts = x.split([count for _, count in runs], dim=-1)
            scales = (_centre_and_factor(limit) for limit, _ in runs)
            return torch.cat([(part.to(dtype) - c) * f for part, (c, f) in zip(parts, scales)], dim=-1)
        x = x.to(dtype)
        centre, factor = self._scaling(limits, x)
        return (x - centre) * factor

    def _scaling(self, limits: list[tuple[float, float]], x: torch.Tensor):
        """Centre and factor for each column of the last dimension, or two numbers if all columns are alike."""
        centres, factors = zip(*map(_centre_and_factor, limits))
        if len(set(limits)) == 1:
            return centres[0], factors[0]
        # An owner gets them once from each thread; a step that was dropped, or an owner's end, loses them.
        key = (tuple(limits), x.dtype, x.device)
        here: dict = self._scalings.__dict__
        if x.device.type == "owner" and (known := here.get(key)) and all(map(_sojourn.has_value, known)):
            return known
        made = tuple(torch.tensor(values, dtype=x.dtype).to(x.device) for values in (centres, factors))
        if x.device.type == "owner":
            here[key] = made
        return made

    def _limits(self, names: Sequence[str]) -> list[tuple[float, float]]:
        """The bounds of columns."""
        known = {column.name: column.bounds for column in self.columns}
        for name in names:
            if name not in known:
                self._table.column(name)  # says which there are
        if lacking := [name for name in names if known[name] is None]:
            raise Error(
                f"table '{self.name}' declares no bounds for {', '.join(map(repr, lacking))}, and scaling needs them; "
                "the data owner declares them at registration: bounds={column: (lower, upper)}"
            )
        return [limits for name in names if (limits := known[name]) is not None]

    def __getitem__(self, column: str) -> torch.Tensor:
        """One whole column, `[rows, *shape]`, in its own dtype.

        On a private table each step that uses the tensor, or a view of it, reads the rows again and pays for its
        releases; after a write to it the tensor is no longer a column. To keep the rows at the owner as a value,
        compute one from them (`column * 1`) in the step that reads it.
        """
        return knowing(self._table.column(_name(column)), column)

    def __contains__(self, column: object) -> bool:
        return any(known.name == column for known in self.columns)

    __iter__ = None  # a table is read by batches or columns, not element by element

    def __len__(self) -> int:
        return self._table.count

    @property
    def defaults(self) -> Defaults:
        """The data owner's defaults for steps on this private table that do not set them."""
        return Defaults(*self._table.defaults)

    def _budget_line(self) -> str:
        """This client's remaining budget on a private table, queried from its owner."""
        if self.policy != "private" or self.session is None:
            return ""
        try:
            granted, epsilon, delta, left, common = _sojourn.budget(self.session, self.name)
        except Error:
            return ""  # a table can be shown when its owner is gone
        if not granted:
            return "no budget"
        cap = "" if common is None else f"; the common cap of all clients leaves epsilon {common:.4g}"
        return f"budget left: epsilon {left:.4g} of {epsilon:.4g} at delta {delta:g}{cap}"

    def __repr__(self) -> str:
        return "\n  ".join(filter(None, [str(self._table), self._budget_line()]))

    def _repr_html_(self) -> str:
        head, *body = self._table.cells()
        shown = body[:_SHOWN_COLUMNS]
        cells = ["<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in shown]
        top = "<tr>" + "".join(f"<th>{cell}</th>" for cell in head) + "</tr>"
        rest = f"<p>... and {len(body) - len(shown)} more columns</p>" if len(shown) < len(body) else ""
        lines = [self._table.defaults_text(), *self._table.meanings(), self._budget_line()]
        notes = "".join(f"<p>{html.escape(line)}</p>" for line in lines if line)
        return f"<p><b>{html.escape(self._table.title())}</b></p><table>{top}{''.join(cells)}</table>{rest}{notes}"


class _Rows(int):
    """`table.rows` is the number of rows, and `table.rows(features=...)` reads whole columns."""

    _table: Table

    def __new__(cls, table: Table):
        self = super().__new__(cls, len(table))
        self._table = table
        return self

    @overload
    def __call__(
        self, features: str | Sequence[str] | None = None, dtype: torch.dtype | None = None
    ) -> torch.Tensor: ...

    @overload
    def __call__(self, features: Mapping[str, str | Sequence[str]]) -> dict[str, torch.Tensor]: ...

    def __call__(self, features=None, dtype=None):
        """Whole columns: a list side by side, `[rows, F]`; one name alone, `[rows, *shape]`; None for all columns.

        A dict gives a dict of such tensors. Dtypes are those of `Table.batches`.
        """
        dtype = checks.dtype("dtype", dtype)
        if isinstance(features, Mapping):
            return {name: self(columns) for name, columns in _named(features, dtype).items()}
        names = [] if features is None else _features(features)
        if features is not None and not names:
            raise Error("features must name at least one column")
        values = self._table._table.rows(names, dtype)
        if self._table.policy == "private":
            setattr(values, _WHOLE, True)
        return knowing(values, names or [column.name for column in self._table.columns])


class Batches:
    """An iterable over batches that knows its length, so that `tqdm(table.batches(...))` works."""

    def __init__(
        self,
        batches: _sojourn.Batches,
        features: str | list[str] | dict[str, str | list[str]],
        label: str | None,
        table: Table,
        size: int,
        epochs: int,
    ):
        self.recorded = batches  # the draws, which artifacts take
        self._names = tuple(features) if isinstance(features, dict) else None
        self._label = label
        # Those of each tensor of a batch, the label's last.
        self.columns = [*(features.values() if isinstance(features, dict) else [features])]
        self.columns += [] if label is None else [label]
        self._table, self._size, self._epochs = table, size, epochs
        self._run: current.Run | None = None
        self._find_run()  # sizes that do not fit it are refused here

    def _find_run(self):
        """Declares these steps to the open `sojourn.privacy`, unless it is of another table."""
        run = _run_of(self._table)
        if run is not None and run is not self._run:
            run.declare(self._table.name, len(self._table), self._size, self._epochs, len(self))
            self._run = run

    def __len__(self) -> int:
        return len(self.recorded)

    @property
    def per_epoch(self) -> int:
        """Batches of one epoch."""
        return self.recorded.per_epoch

    def __iter__(self) -> Iterator:
        self._find_run()  # it may be open since the batches were made, or be over
        for index in range(len(self)):
            _sojourn.mark_batch()  # a step that nobody declared has ended
            batch = self.arguments(self.recorded.at(index))
            yield batch[0] if self._label is None else tuple(batch)

    def arguments(self, tensors: list[torch.Tensor]) -> list:
        """Features and label of a batch, from its tensors."""
        for tensor, columns in zip(tensors, self.columns):
            knowing(tensor, columns)
        if self._names is None:
            return tensors
        return [dict(zip(self._names, tensors)), *tensors[len(self._names) :]]


def plain(
    source: str | os.PathLike | Mapping | sources.Frame,
    name: str | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    fills: Mapping[str, float] | None = None,
    columns: Sequence[str] | None = None,
    categories: Mapping[str, Sequence] | None = None,
) -> Table:
    """A `Table` over CPU tensors in this process, with the same batches.

    `source`: a .csv, .parquet, .arrow, .feather or .npz file, a dict of arrays, a DataFrame of pandas or polars, or a
    `pyarrow.Table`. The first dimension of an array counts rows, the others are the shape of one row's entry. As in a
    registration at an owner (`Owner.register`), `bounds` clamp a column's values, `fills` replace its missing and
    non-finite values, which are otherwise refused, and `categories` name the codes of text. `columns`: the only columns
    to keep.
    """
    called = "" if name is None else text("name", name)
    kept = [] if columns is None else checks.names("columns", columns)
    given = sources.read(source, bounds, fills, categories, only=kept)
    limits, replacing = checks.bounds("bounds", given.bounds), checks.fills("fills", given.fills)
    return Table(_sojourn.plain(given.columns, called, limits, replacing, kept, **given.terms()))


def _centre_and_factor(limits: tuple[float, float]) -> tuple[float, float]:
    """The numbers that scale these bounds to [-1, 1]. A column of one value has no width; it becomes 0."""
    lower, upper = limits
    return (lower + upper) / 2, 2 / (upper - lower) if upper > lower else 1.0


def _is_whole(x: torch.Tensor) -> bool:
    """Whether `x` is whole columns of a private table, or a view of them, and nothing was written to it."""
    base = x if x._base is None else x._base
    return hasattr(base, _WHOLE) and (base.is_inference() or base._version == 0)


def _name(column: str) -> str:
    if not isinstance(column, str):
        raise Error(f"a column name must be a str, got {type(column).__name__}")
    return column


def _features(features: str | Sequence[str], what: str = "features") -> str | list[str]:
    """One column by its name, or a list of columns."""
    if isinstance(features, str):
        return features
    try:
        if isinstance(features, (bytes, Mapping)):
            raise TypeError
        return [_name(feature) for feature in features]
    except TypeError:
        raise Error(f"{what} must be a column name or a list of names, got {shown(features)}") from None


def _named(features: Mapping[str, str | Sequence[str]], dtype: torch.dtype | None) -> dict[str, str | list[str]]:
    """The columns of several tensors, by their names."""
    if not features:
        raise Error('features must name at least one tensor, such as {"row": ["age", "bmi"]}, got an empty dict')
    for name in features:
        if not isinstance(name, str):
            raise Error(f"features must map names to columns, and a name must be a str, got {shown(name)}")
    if dtype is not None:
        raise Error(
            f"dtype is {dtype}, but features is a dict of {len(features)} tensors; leave dtype out and convert a "
            f"tensor where it is used: x[{next(iter(features))!r}].to({dtype})"
        )
    wanted = {name: _features(columns, f"features[{name!r}]") for name, columns in features.items()}
    for name, columns in wanted.items():
        if not columns and not isinstance(columns, str):
            raise Error(f"features[{name!r}] must name at least one column, got an empty list")
    return wanted
