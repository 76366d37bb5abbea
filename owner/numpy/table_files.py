# SPDX-License-Identifier: Apache-2.0
"""Table files and Arrow columns as NumPy arrays: [rows] for numbers, [rows, *entry] for fixed-size lists."""

from __future__ import annotations

import os
import re

import numpy as np

from .errors import DATASET, OwnerError, need


def read_file(name: str, source) -> dict:
    """Name to array, or to Arrow column, of every column in the file that `source` names."""
    known = isinstance(source, (str, os.PathLike))
    text = f"dataset '{name}': source is a {type(source).__name__}, expected a dict of arrays or a path"
    need(known, text, DATASET)
    path = os.fspath(source)
    suffix = os.path.splitext(path)[1].lower()
    known = suffix in (".npz", ".csv", ".parquet", ".arrow", ".feather")
    need(known, f"dataset '{name}': cannot read '{path}', expected .npz, .csv, .parquet, .arrow or .feather", DATASET)
    need(os.path.isfile(path), f"dataset '{name}': no such file '{path}'", DATASET)
    try:
        return _read_columns(name, path, suffix)
    except OwnerError:
        raise
    except Exception as error:  # each format has errors of its own
        raise OwnerError(DATASET, f"dataset '{name}': cannot read '{path}': {error}") from error


def _check_delimiter(name: str, path: str) -> None:
    """Refuses a text whose columns another delimiter separates, which would be read as one column."""
    with open(path, encoding="utf-8", errors="replace") as file:
        header, row = (re.sub('"[^"]*"?', "", file.readline()) for _ in range(2))
    found = [other for other in ";\t|" if header.count(other) and header.count(other) == row.count(other)]
    need(not found or "," in header, f"dataset '{name}': cannot read '{path}': its first line is delimited by "
         f"{found[0] if found else ''!r}, expected ','; write the file with ','", DATASET)  # fmt: skip


def _read_columns(name: str, path: str, suffix: str) -> dict:
    if suffix == ".npz":
        with np.load(path, allow_pickle=False) as file:
            return {key: file[key] for key in file.files}
    # Imported here, so that tables given as arrays need no pyarrow.
    if suffix == ".csv":
        from pyarrow import csv

        _check_delimiter(name, path)
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


def arrow_values(where: str, column) -> tuple[np.ndarray, np.ndarray]:
    """Values [rows, *entry] of an Arrow column, and where they are missing; missing values are 0.

    Fixed-size lists, nested ones too, give the entry's sizes. A missing list misses all its elements.
    """
    import pyarrow

    parts = column.chunks if isinstance(column, pyarrow.ChunkedArray) else [column]
    split = [_part_values(where, part) for part in parts] or [_part_values(where, pyarrow.array([], column.type))]
    return np.concatenate([values for values, _ in split]), np.concatenate([missing for _, missing in split])


def _part_values(where: str, part) -> tuple[np.ndarray, np.ndarray]:
    from pyarrow import BaseExtensionType, types

    need(not isinstance(part.type, BaseExtensionType), f"{where}: has type {part.type}, an unsupported extension type; "
         "save it as plain numbers or as nested fixed-size lists", DATASET)  # fmt: skip
    shape, present = [len(part)], _present(part)
    while types.is_fixed_size_list(part.type):
        size = part.type.list_size
        need(size > 0, f"{where}: has type {part.type}, an entry without elements", DATASET)
        # `values` knows nothing of the list's own offset; unlike `flatten` it keeps what null lists cover.
        part = part.values.slice(part.offset * size, len(part) * size)
        shape.append(size)
        present = np.repeat(present, size) & _present(part)
    ragged = types.is_list(part.type) or types.is_large_list(part.type)
    need(not ragged, f"{where}: has type {part.type}, lists that may differ in length; "
         "make it a fixed-size list, all rows of one shape", DATASET)  # fmt: skip
    if part.null_count:
        part = part.fill_null(False if types.is_boolean(part.type) else 0)
    return part.to_numpy(zero_copy_only=False).reshape(shape), ~present.reshape(shape)


def _present(part) -> np.ndarray:
    return part.is_valid().to_numpy(zero_copy_only=False) if part.null_count else np.ones(len(part), bool)
