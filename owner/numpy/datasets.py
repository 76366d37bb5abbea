# SPDX-License-Identifier: Apache-2.0
"""Registered tables: checked once at registration, then read row by row for `read_rows`."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass

import numpy as np

from . import limits
from .errors import DATASET, LIMIT, REFUSED, OwnerError, need
from .ops_elementwise import convert
from .types import DTYPES, ELEMENT_OF, F64, NAMES, TableType

_WIDENED = {np.dtype(np.uint16): np.dtype(np.int32), np.dtype(np.uint32): np.dtype(np.int64)}


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
        need(
            table.rows == self.rows,
            f"dataset '{self.name}' has {self.rows} rows, the program expects {table.rows}",
            DATASET,
        )
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


def make_dataset(name: str, source, policy: str = "open", bounds: dict | None = None) -> Dataset:
    need(isinstance(name, str) and 0 < len(name) <= limits.DATASET_NAME_MAX, "a dataset needs a name of at most "
         f"{limits.DATASET_NAME_MAX} characters", DATASET)  # fmt: skip
    if policy == "private":
        need(False, f"dataset '{name}': the NumPy owner holds open tables only; register private data with the "
             "main owner", REFUSED)  # fmt: skip
    need(policy == "open", f"dataset '{name}': unknown policy {policy!r}, expected 'open'", REFUSED)
    arrays = dict(source) if isinstance(source, dict) else _read_file(name, source)
    need(len(arrays) > 0, f"dataset '{name}' has no columns", DATASET)
    need(len(arrays) <= limits.DATASET_COLUMNS_MAX, f"dataset '{name}' has {len(arrays)} columns", LIMIT)
    bounds = dict(bounds or {})
    unknown = set(bounds) - set(arrays)
    need(not unknown, f"dataset '{name}': bounds name the missing columns {sorted(map(str, unknown))}", DATASET)
    columns = [_column(name, key, values, bounds.get(key)) for key, values in arrays.items()]
    lengths = {len(column.values) for column in columns}
    need(len(lengths) == 1, f"dataset '{name}': columns differ in length: {sorted(lengths)}", DATASET)
    return Dataset(name, columns)


def _column(dataset: str, name, values, bounds) -> Column:
    where = f"dataset '{dataset}', column '{name}'"
    need(isinstance(name, str) and name != "", f"dataset '{dataset}': a column needs a name", DATASET)
    values = np.asarray(values)
    need(values.ndim == 1, f"{where}: has {values.ndim} dimensions, expected one", DATASET)
    dtype = values.dtype.newbyteorder("=") if values.dtype.kind != "V" else values.dtype
    dtype = _WIDENED.get(dtype, dtype)
    known = dtype in ELEMENT_OF and ELEMENT_OF[dtype] <= F64
    need(known, f"{where}: has type {values.dtype}, expected numbers or booleans ({', '.join(NAMES[:10])})", DATASET)
    values = values.astype(dtype)  # a copy: the owner's data does not change with the caller's
    if ELEMENT_OF[dtype] >= ELEMENT_OF[DTYPES[6]]:
        bad = np.flatnonzero(np.isnan(values.astype(np.float64)))
        need(bad.size == 0, f"{where}: row {bad[0] if bad.size else 0} is NaN; fill or drop such rows first", DATASET)
    if bounds is not None:
        low, high = (float(bound) for bound in bounds)
        need(low <= high, f"{where}: bounds ({low}, {high}) are not ordered", DATASET)
        values, bounds = _clamped(values, low, high), (low, high)
    values.setflags(write=False)
    return Column(name, values, bounds)


def _clamped(values: np.ndarray, low: float, high: float) -> np.ndarray:
    if values.dtype.kind in "iu":
        # The integers inside the bounds, as far as the type reaches.
        info = np.iinfo(values.dtype)
        low_int = info.min if low <= info.min else int(np.ceil(min(low, 2.0**63)))
        high_int = info.max if high >= info.max else int(np.floor(max(high, -(2.0**63))))
        need(info.min <= low_int <= high_int <= info.max, f"no {values.dtype} lies in [{low}, {high}]", DATASET)
        return np.clip(values, values.dtype.type(low_int), values.dtype.type(high_int))
    if values.dtype == np.bool_:
        need(low <= 0 and high >= 1, "boolean columns are bounded by themselves", DATASET)
        return values
    return np.clip(values.astype(np.float64), low, high).astype(values.dtype)


def _read_file(name: str, source) -> dict[str, np.ndarray]:
    need(isinstance(source, (str, os.PathLike)), f"dataset '{name}': source is a {type(source).__name__}, expected a "
         "dict of arrays or a path", DATASET)  # fmt: skip
    path = os.fspath(source)
    suffix = os.path.splitext(path)[1].lower()
    need(suffix in (".npz", ".csv", ".parquet"), f"dataset '{name}': cannot read '{path}', expected .npz, .csv or "
         ".parquet", DATASET)  # fmt: skip
    need(os.path.isfile(path), f"dataset '{name}': there is no file '{path}'", DATASET)
    try:
        return _read_columns(name, path, suffix)
    except OwnerError:
        raise
    except Exception as error:  # each format has errors of its own
        raise OwnerError(DATASET, f"dataset '{name}': cannot read '{path}': {error}") from error


def _read_columns(name: str, path: str, suffix: str) -> dict[str, np.ndarray]:
    if suffix == ".npz":
        with np.load(path, allow_pickle=False) as file:
            return {key: file[key] for key in file.files}
    # Imported here, so that tables given as arrays need no pyarrow.
    if suffix == ".csv":
        from pyarrow import csv

        table = csv.read_csv(path)
    else:
        from pyarrow import parquet

        table = parquet.read_table(path)
    columns = {}
    for key, column in zip(table.column_names, table.columns):
        need(key not in columns, f"dataset '{name}': '{path}' names column '{key}' twice", DATASET)
        need(
            column.null_count == 0, f"dataset '{name}', column '{key}': has {column.null_count} missing values", DATASET
        )
        columns[key] = column.to_numpy()
    return columns
