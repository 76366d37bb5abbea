# SPDX-License-Identifier: Apache-2.0
"""Sources of tables in this process: dicts of arrays and data frames, as columns of numbers.

Text becomes integer codes, dates become numbers. The names behind the codes are public, as bounds are; so a private
table needs them declared, while an open one may take them from its rows. Arrow converts; neither pandas nor polars is
imported.
"""

from __future__ import annotations

import dataclasses
import datetime
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from . import checks
from .checks import is_number
from .errors import Error

# Types that a table keeps, and the next wider ones that hold what it does not.
_KEPT = [np.dtype(code) for code in ("?", "u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8")]
_WIDENED: dict[np.dtype, np.dtype] = {np.dtype("u2"): np.dtype("i4"), np.dtype("u4"): np.dtype("i8")}
_HOLDS = "a table holds bool, uint8, int8 to int64, float16, float32 and float64"
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
# Numbers of Unit in runtime/wire/Meaning.h.
_NO_UNIT, _DAYS, _TIME, _SECONDS = range(4)

Frame = Any  # of pandas or polars, or a table of Arrow


Meaning = tuple[tuple | None, int, bool]  # categories (all str or all int), unit, whether they were found in the rows


@dataclasses.dataclass
class Source:
    """A path or columns, with the numbers that stand for the given bounds and fills.

    What only the columns of a file can tell stays in words: `fill_texts` and `bound_texts`.
    """

    columns: str | dict[str, torch.Tensor]
    bounds: dict[str, tuple[float, float]]
    fills: dict[str, float]
    meanings: dict[str, Meaning]
    fill_texts: dict[str, str] = dataclasses.field(default_factory=dict)
    bound_texts: dict[str, tuple[str, str]] = dataclasses.field(default_factory=dict)

    def terms(self) -> dict:
        """What C++ takes beside columns, bounds and fills."""
        return {"meanings": self.meanings, "fill_texts": self.fill_texts, "bound_texts": self.bound_texts}


def read(
    source,
    bounds: Mapping | None = None,
    fills: Mapping | None = None,
    categories: Mapping[str, Iterable] | None = None,
    is_private: bool = False,
    only: Sequence[str] = (),
    subject: str | None = None,
) -> Source:
    """The source as numbers. `only`: the columns to convert; default: all. `subject`: a column to keep as it is."""
    bounds = checks.mapping("bounds", bounds, "columns to (lower, upper)")
    fills, declared = checks.mapping("fills", fills, "columns to numbers"), declared_categories(categories)
    named = _columns(source)
    if named is None:
        return _of_file(checks.path("source", source), bounds, fills, declared)
    known = [name for name, _ in named]
    if twice := next((name for name in known if known.count(name) > 1), None):
        raise Error(
            f"the source has several columns named {twice!r}; a table's columns have different names: rename them"
        )
    if lacking := next((name for name in declared if name not in known), None):
        raise Error(f"categories name column {lacking!r}, which the source lacks; columns: {', '.join(known)}")
    if set(only) <= set(known):
        named = [(name, values) for name, values in named if not only or name in only]
    made: dict[str, torch.Tensor] = {}
    read = _Reader(bounds, fills, declared, is_private, subject)
    for name, values in named:
        made[name] = read.column(name, values)
    return Source(made, bounds, fills, read.meanings)


def _of_file(path: str, bounds: dict, fills: dict, declared: dict[str, tuple]) -> Source:
    """Terms of a file, whose columns the owner's import reads."""
    fill_texts = {name: words for name, fill in fills.items() if (words := _words(fill)) is not None}
    bound_texts: dict[str, tuple[str, str]] = {}
    for name, pair in bounds.items():
        if isinstance(pair, Sequence) and len(pair) == 2 and any(_is_moment(each) for each in pair):
            lower, upper = (_words(each) or str(each) for each in pair)
            bound_texts[name] = lower, upper
    spans = {name: _number(fill, False) for name, fill in fills.items() if name not in fill_texts}
    # As a category an integer is exact, which a float is not.
    fill_texts |= {name: str(fill) for name, fill in fills.items() if _is_large(fill)}
    left = {name: pair for name, pair in bounds.items() if name not in bound_texts}
    meanings: dict[str, Meaning] = {name: (names, _NO_UNIT, False) for name, names in declared.items()}
    return Source(path, left, spans, meanings, fill_texts, bound_texts)


def _is_large(value) -> bool:
    """Whether an integer may lie between two floats."""
    return isinstance(value, (int, np.integer)) and abs(int(value)) > 2**53


def _is_moment(value) -> bool:
    return isinstance(value, (datetime.date, np.datetime64))


def _words(value) -> str | None:
    """A text or a moment as a command line has it; None for other values."""
    value = _of_numpy(value)
    return value.isoformat() if isinstance(value, datetime.date) else value if isinstance(value, str) else None


def declared_categories(categories) -> dict[str, tuple]:
    """The categories of each column, each once."""
    if categories is not None and not isinstance(categories, Mapping):
        raise Error(f"categories must map a column to its categories, {{'arm': ['a', 'b']}}, got {categories!r}")
    declared = {}
    for name, names in (categories or {}).items():
        if isinstance(names, (str, bytes)) or not isinstance(names, Iterable):
            raise Error(f"categories of column {name!r} must be a list, ['a', 'b'], got {names!r}")
        declared[name] = tuple(each.item() if isinstance(each, np.generic) else each for each in names)
        if len(set(map(type, declared[name]))) > 1 or not isinstance((*declared[name], "")[0], (str, int)):
            raise Error(f"categories of column {name!r} must be all str or all int, got {list(names)!r}")
        if not declared[name] or len(set(declared[name])) < len(declared[name]):
            raise Error(f"categories of column {name!r} must be different and at least one, got {list(names)!r}")
        if strange := next((each for each in declared[name] if not _is_kept(each)), None):
            raise Error(
                f"categories of column {name!r} must be texts that UTF-8 can write or whole numbers of 64 bits, got "
                f"{strange!r}"
            )
    return declared


def _columns(source) -> list[tuple[str, Any]] | None:
    """The columns of a dict, of a data frame or of an Arrow table; None for a path."""
    if hasattr(source, "items") and not isinstance(source, type):  # a dict, or a DataFrame of pandas
        return [(str(name), values) for name, values in source.items()]
    if not isinstance(source, (str, bytes, os.PathLike)):
        if hasattr(source, "column_names"):  # a Table or RecordBatch of Arrow
            return [(str(name), source.column(at)) for at, name in enumerate(source.column_names)]
        if hasattr(source, "get_columns"):  # a DataFrame of polars
            return [(str(values.name), values) for values in source.get_columns()]
        if hasattr(source, "__arrow_c_stream__"):
            import pyarrow

            return _columns(pyarrow.table(source))
        raise Error(
            f"source must be a path, a dict of arrays, a DataFrame of pandas or polars, or a pyarrow.Table, got "
            f"{type(source).__name__}" + ("; call .collect() on it first" if hasattr(source, "collect") else "")
        )
    return None


class _Reader:
    """Converts columns, and with them the bounds and fills that were given in their terms."""

    def __init__(self, bounds: dict, fills: dict, declared: dict[str, tuple], is_private: bool, subject: str | None):
        self._bounds, self._fills, self._declared = bounds, fills, declared
        self._is_private, self._subject = is_private, subject
        self.meanings: dict[str, Meaning] = {}

    def column(self, name: str, values) -> torch.Tensor:
        if isinstance(values, torch.Tensor) and name not in self._declared:
            return values.detach().cpu()
        array = _plain_array(name, values)
        if array is not None and name not in self._declared:
            return _tensor(name, array)
        return self._converted(name, _arrow(name, values if array is None else array))

    def _converted(self, name: str, values) -> torch.Tensor:
        import pyarrow

        values = _without_views(values)
        kind, types = values.type, pyarrow.types
        if name in self._declared or _is_text(kind) or types.is_dictionary(kind):
            return self._codes(name, values)
        if types.is_date(kind):
            self.meanings[name] = None, _DAYS, False
            self._as_numbers(name, in_days=True)
            if types.is_date64(kind):
                return self._whole(name, _floor_divided(values.cast(pyarrow.int64()), 86_400_000))
            return self._whole(name, values.cast(pyarrow.int32()).cast(pyarrow.int64()))
        if types.is_timestamp(kind) or types.is_duration(kind) or types.is_time(kind):
            self.meanings[name] = None, _TIME if types.is_timestamp(kind) else _SECONDS, False
            self._as_numbers(name, in_days=False)
            return torch.from_numpy(_seconds(values))
        if types.is_decimal(kind) or types.is_null(kind):
            return torch.from_numpy(np.array(values.cast(pyarrow.float64()).to_numpy(), dtype=np.float64))
        if types.is_floating(kind):
            return _tensor(name, values.to_numpy())
        if types.is_boolean(kind) or types.is_integer(kind):
            return self._whole(name, values)
        if types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind):
            return _tensor(name, _stacked(name, values.to_pylist(), _innermost(kind)))
        raise Error(f"column {name!r} has type {kind}; {_HOLDS}, besides text and dates")

    def _codes(self, name: str, values) -> torch.Tensor:
        """The position of each value among the categories."""
        import pyarrow
        import pyarrow.compute

        if name == self._subject:
            raise Error(
                f"column {name!r} has text for subjects, which only a file may have: write it to a Parquet file and "
                "register the path"
            )
        categories = self._declared.get(name)
        if categories is None and self._is_private:
            raise Error(
                f"column {name!r} holds text or categories; on a private table they must be declared, because those "
                f"found in the rows would tell of the rows: categories={{{name!r}: [...]}}, from public knowledge"
            )
        if pyarrow.types.is_dictionary(values.type):
            values = values.unify_dictionaries()
            if categories is None and values.num_chunks:
                categories = tuple(dict.fromkeys(values.chunk(0).dictionary.drop_null().to_pylist()))
            values = values.cast(values.type.value_type)
        if categories is None:
            categories = tuple(sorted(values.unique().drop_null().to_pylist()))
        try:
            codes = pyarrow.compute.index_in(values, value_set=pyarrow.array(categories, values.type))
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, pyarrow.ArrowNotImplementedError) as failure:
            raise Error(
                f"column {name!r} has type {values.type}, its categories are "
                f"{type((*categories, None)[0]).__name__}; declare categories of the column's type"
            ) from failure
        strange = pyarrow.compute.and_(codes.is_null(), values.is_valid())
        if name not in self._fills and (row := strange.index(True).as_py()) >= 0:
            raise Error(
                f"column {name!r}, row {row} (counting from 0): a value found outside of its {len(categories)} "
                f"categories; declare all of them, or a replacement (fills={{{name!r}: ...}}), or clean the data"
            )
        self.meanings[name] = _named(categories), _NO_UNIT, name not in self._declared
        self._bounds.setdefault(name, (0, max(len(categories) - 1, 0)))
        if name in self._fills:
            self._fills[name] = _code_of(name, self._fills[name], categories, _is_text(values.type))
        return self._whole(name, codes.cast(pyarrow.int64()))

    def _whole(self, name: str, values) -> torch.Tensor:
        """Integers or booleans, whose missing entries need a fill."""
        if values.null_count:
            fill = self._fills.get(name)
            if fill is None:
                row = values.is_null().index(True).as_py()
                raise Error(
                    f"column {name!r}, row {row} (counting from 0): no value found; clean the data or declare a "
                    f"replacement: fills={{{name!r}: ...}}"
                )
            values = values.fill_null(self._fitting(name, fill, values.type))
        return _tensor(name, values.to_numpy())

    def _fitting(self, name: str, fill, kind):
        """The fill as a value of an integer column."""
        import pyarrow

        try:
            if not is_number(fill) or fill != int(fill):
                raise ValueError
            return pyarrow.scalar(int(fill)).cast(kind)
        except (ValueError, OverflowError, pyarrow.ArrowInvalid):
            raise Error(f"fill {fill!r} of column {name!r} must be a number of its type, {kind}") from None

    def _as_numbers(self, name: str, in_days: bool) -> None:
        """Bounds and fills that are dates, as the numbers that stand for them."""
        if name in self._bounds and isinstance(self._bounds[name], Sequence):
            self._bounds[name] = tuple(_number(each, in_days) for each in self._bounds[name])
        if name in self._fills:
            self._fills[name] = _number(self._fills[name], in_days)


def _of_numpy(moment):
    """A moment or a duration of NumPy as Python's."""
    if not isinstance(moment, (np.datetime64, np.timedelta64)):
        return moment
    is_fine = np.datetime_data(moment.dtype)[0] in ("ns", "ps", "fs", "as")
    made = (moment.astype(f"{moment.dtype.kind}8[us]") if is_fine else moment).item()
    if not isinstance(made, (datetime.date, datetime.timedelta)):  # a number where Python has none
        raise Error(f"bounds and fills must be moments that Python's datetime holds, years 1 to 9999, got {moment!r}")
    return made


def _number(moment, in_days: bool):
    """Days or seconds since 1970, UTC; a number stays as it is."""
    moment = _of_numpy(moment)
    if isinstance(moment, datetime.timedelta):
        return moment.total_seconds()
    if isinstance(moment, datetime.datetime):  # also of pandas
        moment = moment.replace(tzinfo=datetime.UTC) if moment.tzinfo is None else moment
        since = moment - _EPOCH
        return since.days if in_days else since.total_seconds()
    if isinstance(moment, datetime.date):
        days = (moment - _EPOCH.date()).days
        return days if in_days else days * 86400.0
    return moment


def _seconds(values) -> np.ndarray:
    """Times as seconds, NaN where there is none; counts of nanoseconds exceed the whole numbers of a double."""
    import pyarrow

    whole = values.cast(pyarrow.int32()) if pyarrow.types.is_time32(values.type) else values
    counts, per_second = whole.cast(pyarrow.int64()).fill_null(0).to_numpy(), _PER_SECOND[values.type.unit]
    return np.where(values.is_valid().to_numpy(), counts // per_second + counts % per_second / per_second, np.nan)


def _floor_divided(values, by: int):
    """Arrow divides towards zero."""
    from pyarrow import compute

    quotients = compute.divide(values, by)
    is_above = compute.less(values, compute.multiply(quotients, by))
    return compute.subtract(quotients, is_above.cast(values.type))


def _is_kept(category: str | int) -> bool:
    """Whether a description of a table can say this category."""
    if isinstance(category, int):
        return -(2**63) <= category < 2**63
    return category.isascii() or not any("\ud800" <= each <= "\udfff" for each in category)


def _named(categories: tuple) -> tuple:
    """Categories of a data frame may be anything; a table keeps texts or whole numbers."""
    if all(isinstance(each, int) and _is_kept(each) for each in categories):
        return tuple(map(int, categories))
    return tuple(map(str, categories))


def _code_of(name: str, fill: Any, categories: tuple, are_texts: bool) -> int:
    """The code of the category that a fill names. A number beside texts is a code."""
    named = fill.item() if isinstance(fill, np.generic) else fill  # NumPy compares integers as floats
    try:
        code = {each: code for code, each in enumerate(categories)}.get(named)
    except TypeError:  # a list, for example
        code = None
    if code is None and are_texts and is_number(named) and named in range(len(categories)):
        return int(named)
    if code is None:
        raise Error(f"fill {fill!r} of column {name!r} is none of its {len(categories)} categories; name one of them")
    return code


def _is_text(kind) -> bool:
    return str(kind) in ("string", "large_string")


def _without_views(values):
    """Views of text, as polars has them, as text that Arrow computes with."""
    import pyarrow

    if str(values.type) == "string_view":
        return values.cast(pyarrow.large_string())
    if pyarrow.types.is_dictionary(values.type) and str(values.type.value_type) == "string_view":
        made = (
            pyarrow.DictionaryArray.from_arrays(chunk.indices, chunk.dictionary.cast(pyarrow.large_string()))
            for chunk in values.chunks
        )
        return pyarrow.chunked_array(made)
    return values


def _innermost(kind):
    while hasattr(kind, "value_type"):
        kind = kind.value_type
    return kind


def _plain_array(name: str, values) -> np.ndarray | None:
    """An array of numbers, or None for what Arrow has to read."""
    kind = getattr(values, "dtype", None)
    if hasattr(values, "__arrow_c_array__") or (
        hasattr(values, "__arrow_c_stream__") and not isinstance(kind, np.dtype)
    ):
        return None
    if kind is not None and not isinstance(kind, (np.dtype, torch.dtype)):
        return None  # a column of pandas with a type of its own
    try:
        array = np.asarray(values)
    except ValueError:
        raise _ragged(name) from None
    if array.dtype != object:
        return None if array.dtype.kind in "USMmT" else array
    first = next((each for each in array.flat if each is not None), None) if array.ndim == 1 else None
    if isinstance(first, (list, tuple, np.ndarray)):
        return _stacked(name, array)  # a DataFrame's column of arrays
    return None


def _stacked(name: str, rows, kind=None) -> np.ndarray:
    """The entries of a column, which have one shape."""
    try:
        return np.asarray([np.asarray(row) for row in rows], dtype=None if kind is None else kind.to_pandas_dtype())
    except (ValueError, TypeError):
        raise _ragged(name) from None


def _ragged(name: str) -> Error:
    return Error(f"the rows of column {name!r} differ in shape; a table holds entries of one shape: pad them")


def _arrow(name: str, values):
    """One column as a ChunkedArray."""
    import pyarrow

    try:
        if isinstance(values, torch.Tensor):
            values = values.detach().cpu().numpy()
        if hasattr(values, "__arrow_c_stream__") and not hasattr(values, "iloc"):  # pandas has its own way
            return pyarrow.chunked_array(values)
        made = values if isinstance(values, pyarrow.Array) else pyarrow.array(values, from_pandas=True)
        return made if isinstance(made, pyarrow.ChunkedArray) else pyarrow.chunked_array([made])
    except (pyarrow.ArrowInvalid, TypeError, pyarrow.ArrowNotImplementedError, UnicodeEncodeError):
        kind = getattr(values, "dtype", "object")
        raise Error(f"column {name!r} has type {kind}; {_HOLDS}, besides text and dates") from None


def _tensor(name: str, array: np.ndarray) -> torch.Tensor:
    native: np.dtype = array.dtype.newbyteorder("=")
    stored = _WIDENED.get(native, native)
    if stored not in _KEPT:
        raise Error(f"column {name!r} has type {array.dtype}; {_HOLDS}")
    return torch.from_numpy(np.array(array, dtype=stored))
