# SPDX-License-Identifier: Apache-2.0
"""Registered tables: checked once at registration, then read row by row for `read_rows`."""

from __future__ import annotations

import hashlib
import math
import os
from dataclasses import dataclass

import numpy as np

from . import limits
from .errors import DATASET, LIMIT, REFUSED, OwnerError, need
from .ops_elementwise import convert
from .types import ELEMENT_OF, NAMES, TableType

# The types that a column is kept in: what it holds is never narrowed, little-used types widen.
_KEPT = [np.dtype(code) for code in ("?", "u1", "i1", "i2", "i4", "i8", "f4", "f8")]
_WIDENED = {np.dtype("u2"): np.dtype("i4"), np.dtype("u4"): np.dtype("i8"), np.dtype("f2"): np.dtype("f4")}


@dataclass(frozen=True)
class Column:
    name: str
    values: np.ndarray
    bounds: tuple[float, float] | None

    @property
    def element(self) -> int:
        return ELEMENT_OF[self.values.dtype]


class Dataset:
    """An open table. The row source of a program's table argument."""

    def __init__(self, name: str, columns: list[Column]):
        self.name, self.columns, self.policy = name, columns, "open"
        self.rows = len(columns[0].values)
        self.by_name = {column.name: column for column in columns}
        digest = hashlib.blake2b(digest_size=16)
        for column in columns:
            digest.update(f"{column.name}\0{NAMES[column.element]}\0".encode())
            digest.update(column.values.tobytes())
        self.version = digest.hexdigest()

    def serves(self, table: TableType) -> None:
        """A program was made for rows and columns; they must be these."""
        text = f"dataset '{self.name}' has {self.rows} rows, the program expects {table.rows}"
        need(table.rows == self.rows, text, DATASET)
        for name, element in table.columns:
            column = self.by_name.get(name)
            need(column is not None, f"dataset '{self.name}' has no column '{name}'", DATASET)
            text = f"column '{name}' of '{self.name}' is {NAMES[column.element]}, the program expects {NAMES[element]}"
            need(column.element == element, text, DATASET)

    def read_rows(self, columns: tuple[str, ...], indices: np.ndarray, dtype: np.dtype) -> np.ndarray:
        inside = (indices >= 0) & (indices < self.rows)
        rows = np.zeros((len(indices), len(columns)), dtype)
        for f, name in enumerate(columns):
            rows[inside, f] = convert(self.by_name[name].values[indices[inside]], dtype)
        return rows


def make_dataset(name: str, source, policy="open", bounds=None, fills=None, columns=None) -> Dataset:
    """Checks everything that a step relies on; see NumpyOwner.register for the arguments."""
    fits = isinstance(name, str) and 0 < len(name.encode()) <= limits.DATASET_NAME_MAX
    need(fits, f"a dataset needs a name of at most {limits.DATASET_NAME_MAX} bytes", DATASET)
    text = f"dataset '{name}': the NumPy owner holds open tables only; register private data with the main owner"
    need(policy != "private", text, REFUSED)
    need(policy == "open", f"dataset '{name}': unknown policy {policy!r}, expected 'open'", REFUSED)
    arrays = dict(source) if isinstance(source, dict) else _read_file(name, source)
    need(len(arrays) > 0, f"dataset '{name}' has no columns", DATASET)
    need(len(arrays) <= limits.DATASET_COLUMNS_MAX, f"dataset '{name}' has {len(arrays)} columns", LIMIT)
    bounds, fills = dict(bounds or {}), dict(fills or {})
    kept = list(arrays) if columns is None else list(columns)
    need(len(set(kept)) == len(kept), f"dataset '{name}': a column to keep is named twice", DATASET)
    for what, names in (("columns", kept), ("bounds", bounds), ("fills", fills)):
        unknown = [str(column) for column in names if column not in arrays or column not in kept]
        need(not unknown, f"dataset '{name}': {what} name the missing columns {sorted(unknown)}", DATASET)
    made = [_column(name, key, arrays[key], bounds.get(key), fills.get(key)) for key in kept]
    lengths = {column.name: len(column.values) for column in made}
    need(len(set(lengths.values())) == 1, f"dataset '{name}': columns differ in length: {lengths}", DATASET)
    need(min(lengths.values()) > 0, f"dataset '{name}' has no rows", DATASET)
    return Dataset(name, made)


def _column(dataset: str, name, values, bounds, fill) -> Column:
    where = f"dataset '{dataset}', column '{name}'"
    need(isinstance(name, str) and name != "", f"dataset '{dataset}': a column needs a name", DATASET)
    if hasattr(values, "null_count"):  # a column of an Arrow file
        missing = values.null_count
        need(not missing or fill is not None, f"{where}: has {missing} missing values; drop such rows or give a fill",
             DATASET)  # fmt: skip
        values = (values.fill_null(fill) if missing else values).to_numpy()
    values = np.asarray(values)
    need(values.ndim == 1, f"{where}: has {values.ndim} dimensions, expected one", DATASET)
    dtype = values.dtype.newbyteorder("=") if values.dtype.kind != "V" else values.dtype
    dtype = _WIDENED.get(dtype, dtype)
    need(dtype in _KEPT, f"{where}: has type {values.dtype}, expected numbers or booleans "
         f"({', '.join(NAMES[ELEMENT_OF[kept]] for kept in _KEPT)})", DATASET)  # fmt: skip
    values = values.astype(dtype)  # a copy: the owner's data does not change with the caller's
    low, high = _limits(where, dtype, bounds)
    if fill is not None:
        whole = dtype.kind == "f" or float(fill).is_integer()
        need(whole and low <= fill <= high, f"{where}: the fill {fill} is not a value of it", DATASET)
    if dtype.kind == "f":
        broken = ~np.isfinite(values)
        if broken.any() and fill is None:
            row = int(np.argmax(broken))
            raise OwnerError(DATASET, f"{where}: row {row} is {values[row]}; drop such rows or give a fill")
        values[broken] = 0 if fill is None else fill
    if bounds is not None:
        values = values.view(np.uint8).clip(low, high).view(np.bool_) if dtype.kind == "b" else values.clip(low, high)
        bounds = (float(bounds[0]), float(bounds[1]))
    values.setflags(write=False)
    return Column(name, values, bounds)


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


def _read_file(name: str, source) -> dict:
    known = isinstance(source, (str, os.PathLike))
    text = f"dataset '{name}': source is a {type(source).__name__}, expected a dict of arrays or a path"
    need(known, text, DATASET)
    path = os.fspath(source)
    suffix = os.path.splitext(path)[1].lower()
    known = suffix in (".npz", ".csv", ".parquet", ".arrow", ".feather")
    need(known, f"dataset '{name}': cannot read '{path}', expected .npz, .csv, .parquet, .arrow or .feather", DATASET)
    need(os.path.isfile(path), f"dataset '{name}': there is no file '{path}'", DATASET)
    try:
        return _read_columns(name, path, suffix)
    except OwnerError:
        raise
    except Exception as error:  # each format has errors of its own
        raise OwnerError(DATASET, f"dataset '{name}': cannot read '{path}': {error}") from error


def _read_columns(name: str, path: str, suffix: str) -> dict:
    if suffix == ".npz":
        with np.load(path, allow_pickle=False) as file:
            return {key: file[key] for key in file.files}
    # Imported here, so that tables given as arrays need no pyarrow.
    if suffix == ".csv":
        from pyarrow import csv

        table = csv.read_csv(path)
    elif suffix == ".parquet":
        from pyarrow import parquet

        table = parquet.read_table(path)
    else:
        from pyarrow import feather

        table = feather.read_table(path)
    need(len(set(table.column_names)) == len(table.column_names), f"dataset '{name}': '{path}' names a column twice",
         DATASET)  # fmt: skip
    return dict(zip(table.column_names, table.columns))
