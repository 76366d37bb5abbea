# SPDX-License-Identifier: Apache-2.0
"""Registered tables: checked once at registration, then read row by row for `read_rows`."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import numpy as np
from sojourn_wire import format as wire_format

from . import limits
from .descriptions import Description
from .errors import DATASET, LIMIT, REFUSED, OwnerError, found, need
from .ops_elementwise import convert
from .parts import Side, part_text, rows_of
from .table_files import arrow_values, read_file
from .types import ELEMENT_OF, NAMES, TableType, TensorType, entry_text

# The types that a column is kept in: what it holds is never narrowed, little-used types widen.
_KEPT = [np.dtype(code) for code in ("?", "u1", "i1", "i2", "i4", "i8", "f4", "f8")]
_WIDENED: dict[np.dtype, np.dtype] = {
    np.dtype("u2"): np.dtype("i4"),
    np.dtype("u4"): np.dtype("i8"),
    np.dtype("f2"): np.dtype("f4"),
}


@dataclass(frozen=True)
class Meaning:
    """What the numbers of a column stand for: a list of str or of int behind its codes, a Unit, the fill of entries."""

    categories: tuple = ()
    unit: int = 0
    fill: float | None = None


@dataclass(frozen=True)
class Column:
    name: str
    values: np.ndarray  # [rows, *dims]
    bounds: tuple[float, float] | None
    meaning: Meaning = Meaning()

    @property
    def element(self) -> int:
        return ELEMENT_OF[self.values.dtype]

    @property
    def dims(self) -> tuple[int, ...]:
        """Sizes of one row's entry; () for a plain number."""
        return self.values.shape[1:]

    @property
    def entry(self) -> TensorType:
        return TensorType(self.element, self.dims)


class Dataset:
    """An open table. The row source of a program's table argument."""

    def __init__(self, name: str, columns: list[Column]):
        self.name, self.columns, self.policy = name, columns, "open"
        self.rows = len(columns[0].values)
        self.by_name = {column.name: column for column in columns}
        self.description = Description()
        digest = hashlib.blake2b(digest_size=16)
        for column in columns:
            digest.update(f"{column.name}\0{entry_text(column.entry)}\0".encode())
            digest.update(column.values.tobytes())
        self.version = digest.hexdigest()

    def serves(self, table: TableType) -> None:
        """Checks the columns, and the number of rows where the program states one."""
        text = f"dataset '{self.name}' has {self.rows} rows, the program expects {table.rows}"
        need(table.rows in (-1, self.rows), text, DATASET)
        for name, wanted in table.entries:
            column = found(self.by_name.get(name), f"dataset '{self.name}' has no column '{name}'", DATASET)
            text = f"column '{name}' of '{self.name}' is {entry_text(column.entry)}, the program expects "
            need(column.entry == wanted, text + entry_text(wanted), DATASET)

    def has_part(self, sides: tuple[Side, ...]) -> None:
        """Checks that the part from which a program draws is not empty in this table."""
        text = f"dataset '{self.name}' has {self.rows} rows, and {part_text(sides)} of them is empty: nothing can be "
        need(rows_of(self.rows, sides).rows > 0, text + "drawn from it; take another fraction", DATASET)

    def read_rows(self, columns: tuple[str, ...], indices: np.ndarray, result: TensorType) -> np.ndarray:
        """[B, F], or [B, *entry] of one column, as `result` says; zeros for rows outside the table."""
        inside = (indices >= 0) & (indices < self.rows)
        rows = np.zeros(result.shape, result.dtype)
        if result.rank == 2 and all(not self.by_name[name].dims for name in columns):
            for f, name in enumerate(columns):
                rows[inside, f] = convert(self.by_name[name].values[indices[inside]], result.dtype)
        else:
            rows[inside] = convert(self.by_name[columns[0]].values[indices[inside]], result.dtype)
        return rows


def make_dataset(name: str, source, policy="open", bounds=None, fills=None, columns=None, meanings=None) -> Dataset:
    """Checks everything that a step relies on; see NumpyOwner.register for the arguments."""
    fits = isinstance(name, str) and 0 < len(name.encode()) <= limits.DATASET_NAME_MAX
    need(fits, f"a dataset needs a name of at most {limits.DATASET_NAME_MAX} bytes", DATASET)
    text = f"dataset '{name}': the NumPy owner holds open tables only; register private data with the main owner"
    need(policy != "private", text, REFUSED)
    need(policy == "open", f"dataset '{name}': unknown policy {policy!r}, expected 'open'", REFUSED)
    arrays = dict(source) if isinstance(source, dict) else read_file(name, source)
    need(len(arrays) > 0, f"dataset '{name}' has no columns", DATASET)
    need(len(arrays) <= limits.DATASET_COLUMNS_MAX, f"dataset '{name}' has {len(arrays)} columns", LIMIT)
    bounds, fills, meanings = dict(bounds or {}), dict(fills or {}), dict(meanings or {})
    kept = list(arrays) if columns is None else list(columns)
    need(len(set(kept)) == len(kept), f"dataset '{name}': a column to keep is named twice", DATASET)
    for what, names in (("columns", kept), ("bounds", bounds), ("fills", fills), ("meanings", meanings)):
        unknown = [str(column) for column in names if column not in arrays or column not in kept]
        need(not unknown, f"dataset '{name}': {what} name the missing columns {sorted(unknown)}", DATASET)
    made = [_column(name, key, arrays[key], bounds.get(key), fills.get(key), meanings.get(key)) for key in kept]
    size = sum(len(each) if isinstance(each, str) else 8 for column in made for each in column.meaning.categories)
    text = f"dataset '{name}': its categories have {size} bytes, at most {wire_format.TABLE_CATEGORY_BYTES_MAX}"
    need(size <= wire_format.TABLE_CATEGORY_BYTES_MAX, text, LIMIT)
    lengths = {column.name: len(column.values) for column in made}
    need(len(set(lengths.values())) == 1, f"dataset '{name}': columns differ in length: {lengths}", DATASET)
    need(min(lengths.values()) > 0, f"dataset '{name}' has no rows", DATASET)
    size = sum(column.values.nbytes for column in made)
    need(size <= limits.DATASET_BYTES_MAX, f"dataset '{name}' has {size} bytes, at most {limits.DATASET_BYTES_MAX}",
         LIMIT)  # fmt: skip
    return Dataset(name, made)


def _column(dataset: str, name, values, bounds, fill, meaning) -> Column:
    where = f"dataset '{dataset}', column '{name}'"
    need(isinstance(name, str) and name != "", f"dataset '{dataset}': a column needs a name", DATASET)
    missing = None
    if hasattr(values, "null_count"):  # a column of an Arrow file
        values, missing = arrow_values(where, values)
        count = int(missing.sum())
        need(count == 0 or fill is not None, f"{where}: has {count} missing values; drop such rows or give a fill",
             DATASET)  # fmt: skip
    try:
        values = np.asarray(values)
    except ValueError as error:
        text = f"{where}: is not an array: its rows differ in shape; expected entries of one shape ({error})"
        raise OwnerError(DATASET, text) from None
    _check_shape(where, values)
    dtype: np.dtype = values.dtype.newbyteorder("=") if values.dtype.kind != "V" else values.dtype
    dtype = _WIDENED.get(dtype, dtype)
    need(dtype in _KEPT, f"{where}: has type {values.dtype}, expected numbers or booleans "
         f"({', '.join(NAMES[ELEMENT_OF[kept]] for kept in _KEPT)})", DATASET)  # fmt: skip
    values = values.astype(dtype)  # a copy: the owner's data does not change with the caller's
    categories, unit = (meaning or ((), 0))[:2]
    if categories:
        _check_terms(where, len(categories), bounds, fill)
    low, high = _limits(where, dtype, bounds)
    if fill is not None:
        whole = dtype.kind == "f" or float(fill).is_integer()
        need(whole and low <= fill <= high, f"{where}: the fill {fill} is not a value within its bounds", DATASET)
    if missing is not None and missing.any():
        values[missing] = fill
    if dtype.kind == "f":
        broken = ~np.isfinite(values)
        if broken.any() and fill is None:
            at = np.unravel_index(int(np.argmax(broken)), values.shape)
            inside = f", element {list(map(int, at[1:]))}" if len(at) > 1 else ""
            raise OwnerError(DATASET, f"{where}: row {at[0]}{inside} is {values[at]}; drop such rows or give a fill")
        values[broken] = 0 if fill is None else fill
    if bounds is not None:
        values = values.view(np.uint8).clip(low, high).view(np.bool_) if dtype.kind == "b" else values.clip(low, high)
        bounds = (float(bounds[0]), float(bounds[1]))
    values.setflags(write=False)
    if categories:
        _check_categories(where, values, categories)
    return Column(name, values, bounds, Meaning(tuple(categories or ()), unit, fill))


def _check_terms(where: str, count: int, bounds, fill) -> None:
    """Codes are never clamped, and the fill is one of them."""
    codes = f"those of its {count} categories, 0 to {count - 1}"
    need(
        bounds is None or tuple(bounds) == (0, count - 1), f"{where}: its bounds must be {codes}, or left out", DATASET
    )
    need(fill is None or fill in range(count), f"{where}: its fill {fill} must be a code, one of {codes}", DATASET)


def _check_categories(where: str, values: np.ndarray, categories: tuple) -> None:
    """Bounded lists, and codes that lie in them."""
    count, most = len(categories), wire_format.CATEGORIES_MAX
    need(count <= most, f"{where}: has {count} categories, at most {most}", LIMIT)
    need(len(set(categories)) == count, f"{where}: has a category twice; name each category once", DATASET)
    text = f"{where}: has texts and whole numbers as categories, expected one kind"
    need(len(set(map(type, categories))) == 1, text, DATASET)
    for code, category in enumerate(categories):
        try:
            size, most = len(str(category).encode()), wire_format.CATEGORY_BYTES_MAX
        except UnicodeEncodeError:
            raise OwnerError(DATASET, f"{where}: category {code} is no UTF-8 text; save it as UTF-8") from None
        need(size <= most, f"{where}: category {code} has {size} bytes, at most {most}", LIMIT)
    text = f"{where}: its codes must be int64 in [0, {count - 1}]"
    need(values.dtype == np.int64 and bool(((values >= 0) & (values < count)).all()), text, DATASET)


def _check_shape(where: str, values: np.ndarray) -> None:
    """Rows first, then the sizes of one row's entry."""
    need(values.ndim > 0, f"{where}: is a single number, expected one entry per row", DATASET)
    entry = values.shape[1:]
    text = f"{where}: has entries of {len(entry)} dimensions, at most {wire_format.ENTRY_RANK_MAX}"
    need(len(entry) <= wire_format.ENTRY_RANK_MAX, text, LIMIT)
    need(0 not in entry, f"{where}: has entries of shape {entry}, which are empty", DATASET)
    text = f"{where}: has entries of shape {entry}, at most {wire_format.ENTRY_ELEMENTS_MAX} elements"
    need(math.prod(entry) <= wire_format.ENTRY_ELEMENTS_MAX, text, LIMIT)


def _limits(where: str, dtype: np.dtype, bounds):
    """The least and greatest value of the column's type within the bounds: they are rounded inwards."""
    if dtype.kind == "f":
        least, most = dtype.type(np.finfo(dtype).min), dtype.type(np.finfo(dtype).max)
    else:
        least, most = (0, 1) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    if bounds is None:
        return least, most
    lower, upper = (float(bound) for bound in bounds)
    ordered = math.isfinite(lower) and math.isfinite(upper) and lower <= upper
    need(ordered, f"{where}: bounds ({lower}, {upper}) are not ordered finite numbers", DATASET)
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            low, high = max(least, dtype.type(lower)), min(most, dtype.type(upper))
        low = np.nextafter(low, most) if float(low) < lower else low
        high = np.nextafter(high, least) if float(high) > upper else high
    else:
        low, high = max(least, math.ceil(lower)), min(most, math.floor(upper))
    need(low <= high, f"{where}: no {dtype} lies in [{lower}, {upper}]", DATASET)
    return low, high
