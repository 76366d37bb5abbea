# SPDX-License-Identifier: Apache-2.0
"""`sojourn.plain(source)`: the Table interface over local CPU tensors, with the same batches.

What registration does at an owner is done here too (numeric columns only, missing values refused
or filled, bounds by clamping), so that one script gives the same rows on both.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence

import numpy as np
import torch

from . import philox
from .errors import Error
from .table import _DTYPES, Table

_ELEMENT_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
# Types that a table keeps, and the next wider ones that hold what it does not.
_NUMPY_TYPES = [np.dtype(code) for code in ("?", "u1", "i1", "i2", "i4", "i8", "f4", "f8")]
_STORED = {np.dtype("u2"): np.dtype("i4"), np.dtype("u4"): np.dtype("i8"), np.dtype("f2"): np.dtype("f4")}
_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


class PlainTable(Table):
    """A table in this process's memory; every method gives ordinary CPU tensors."""


def plain(
    source: str | os.PathLike | Mapping,
    name: str | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    fills: Mapping[str, float] | None = None,
    columns: Sequence[str] | None = None,
) -> PlainTable:
    """A table from a .csv, .parquet, .arrow, .feather or .npz file, or a dict of 1-D arrays.

    `bounds` clamp a column's values; `fills` replace its missing and non-finite ones, which are
    refused otherwise; `columns` keeps only these, in this order.
    """
    if hasattr(source, "items"):  # a dict, or a DataFrame
        arrays, title = dict(source.items()), name or "plain"
    else:
        path = os.fspath(source)
        arrays, title = _read_file(path), name or os.path.splitext(os.path.basename(path))[0]
    known = list(arrays)
    for asked, what in ((bounds or {}, "bounds"), (fills or {}, "fills"), (columns or [], "columns")):
        for column in asked:
            if column not in arrays:
                raise Error(f"{what} name the column {column!r}, which is not in the source (its columns: {known})")
    kept = {key: arrays[key] for key in columns} if columns else arrays
    tensors = {key: _tensor(key, value, (bounds or {}).get(key), (fills or {}).get(key)) for key, value in kept.items()}
    lengths = {key: len(value) for key, value in tensors.items()}
    if len(set(lengths.values())) != 1 or not next(iter(lengths.values())):
        raise Error(f"a table needs at least one row and columns of one length, got {lengths}")
    info = {
        "name": title,
        "rows": next(iter(lengths.values())),
        "policy": "open",
        "columns": [_describe(key, value, (bounds or {}).get(key)) for key, value in tensors.items()],
    }
    return PlainTable(_LocalSession(tensors), info)


class _LocalSession:
    """What a Table needs of a session, computed at once."""

    def __init__(self, tensors: dict[str, torch.Tensor]):
        self._tensors = tensors

    def sample(self, rows: int, size: int, seed: int, epoch: int, start: int) -> torch.Tensor:
        return philox.sample_rows(rows, size, seed, epoch, start)

    def range(self, size: int, start: int) -> torch.Tensor:
        return torch.arange(start, start + size)

    def rows(self, dataset: str, columns: list[str], dtype: torch.dtype, indices: torch.Tensor) -> torch.Tensor:
        return torch.stack([_convert(self._tensors[column][indices], dtype) for column in columns], dim=1)


def _convert(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The core op `convert`: floats go to integers by truncation and saturate."""
    if values.is_floating_point() and dtype in _INTEGERS:
        limits, wide = torch.iinfo(dtype), values.double()
        inside = (wide > limits.min) & (wide < float(limits.max))
        whole = torch.where(inside, wide, 0.0).to(dtype)
        return torch.where(wide >= float(limits.max), limits.max, torch.where(wide <= limits.min, limits.min, whole))
    return values.to(dtype)


def _read_file(path: str) -> dict:
    ending = os.path.splitext(path)[1].lower()
    if not os.path.exists(path):
        raise Error(f"there is no file {path!r}")
    if ending == ".npz":
        with np.load(path, allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}
    if ending == ".csv":
        import pyarrow.csv

        table = pyarrow.csv.read_csv(path)
    elif ending == ".parquet":
        import pyarrow.parquet

        table = pyarrow.parquet.read_table(path)
    elif ending in (".arrow", ".feather"):
        import pyarrow.feather

        table = pyarrow.feather.read_table(path)
    else:
        raise Error(f"cannot read {path!r}: a table comes from .csv, .parquet, .arrow, .feather or .npz")
    return {key: table.column(key) for key in table.column_names}


def _tensor(name: str, values, bounds: tuple[float, float] | None, fill: float | None) -> torch.Tensor:
    if hasattr(values, "combine_chunks"):  # a column of an Arrow file
        missing = values.null_count
        if missing and fill is None:
            raise Error(
                f"column {name!r} has {missing} missing values; drop these rows or give fills={{{name!r}: ...}}"
            )
        # Without pandas' rule that a missing integer makes the column a float one.
        array = (values.fill_null(fill) if missing else values).combine_chunks().to_numpy(zero_copy_only=False)
    else:
        array = values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)
    if array.ndim != 1:
        raise Error(f"column {name!r} must be one-dimensional, got shape {array.shape}")
    stored = _STORED.get(array.dtype.newbyteorder("="), array.dtype.newbyteorder("="))
    if stored not in _NUMPY_TYPES:
        raise Error(f"column {name!r} has type {array.dtype}; a table holds booleans, integers and floats")
    tensor = torch.from_numpy(np.array(array, dtype=stored))
    if tensor.is_floating_point():
        broken = ~torch.isfinite(tensor)
        if broken.any() and fill is None:
            row = int(broken.nonzero()[0])
            raise Error(f"column {name!r} has a NaN or infinity in row {row}; give fills={{{name!r}: ...}}")
        tensor = tensor.masked_fill(broken, fill or 0.0)
    return tensor if bounds is None else _clamp(name, tensor, bounds)


def _clamp(name: str, tensor: torch.Tensor, bounds: tuple[float, float]) -> torch.Tensor:
    """Clamps to the values of the column's type within the bounds: they are rounded inwards."""
    lower, upper = bounds
    if not lower <= upper:
        raise Error(f"bounds of column {name!r} must be (lower, upper), got {tuple(bounds)}")
    if tensor.dtype == torch.float32:
        low, high = np.float32(lower), np.float32(upper)
        lower = float(low if low >= lower else np.nextafter(low, np.float32(np.inf)))
        upper = float(high if high <= upper else np.nextafter(high, np.float32(-np.inf)))
    elif not tensor.is_floating_point():
        limits = torch.iinfo(torch.uint8 if tensor.dtype == torch.bool else tensor.dtype)
        lower = limits.min if lower <= limits.min else math.ceil(lower)
        upper = limits.max if upper >= limits.max else math.floor(upper)
        upper = min(upper, 1) if tensor.dtype == torch.bool else upper
    if lower > upper:
        raise Error(f"bounds {tuple(bounds)} of column {name!r} leave no value of its type")
    if tensor.dtype == torch.bool:
        return tensor.to(torch.uint8).clamp(lower, upper).to(torch.bool)
    return tensor.clamp(lower, upper)


def _describe(name: str, tensor: torch.Tensor, bounds: tuple[float, float] | None) -> dict:
    lower, upper = bounds or (None, None)
    return {"name": name, "dtype": _ELEMENT_NAMES[tensor.dtype], "lower": lower, "upper": upper}
