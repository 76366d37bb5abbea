# SPDX-License-Identifier: Apache-2.0
"""Element and tensor types: the numbers of the wire, the NumPy dtypes that store them."""

from __future__ import annotations

import math
from typing import NamedTuple

import ml_dtypes

import numpy as np

# Index = ElementType of runtime/Program.fbs. Class: B boolean, Z integer, F float, X complex.
NAMES = ("i1", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "c64", "c128")
CLASSES = "BZZZZZFFFFXX"
DTYPES = tuple(
    np.dtype(t)
    for t in (
        np.bool_, np.uint8, np.int8, np.int16, np.int32, np.int64,
        np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.complex64, np.complex128,
    )
)  # fmt: skip
I1, U8, I8, I16, I32, I64, F16, BF16, F32, F64, C64, C128 = range(12)
ELEMENT_OF = {dtype: element for element, dtype in enumerate(DTYPES)}

assert np.little_endian, "the wire is little-endian and is read in place"


class TensorType(NamedTuple):
    element: int
    shape: tuple[int, ...]

    @property
    def dtype(self) -> np.dtype:
        return DTYPES[self.element]

    @property
    def kind(self) -> str:
        """B, Z, F or X."""
        return CLASSES[self.element]

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def numel(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.numel * self.dtype.itemsize

    @property
    def span(self) -> int:
        """Elements if no dimension were empty: NumPy's stride arithmetic needs even these to be few."""
        return math.prod(size or 1 for size in self.shape)

    def __str__(self) -> str:
        return "tensor<" + "".join(f"{d}x" for d in self.shape) + NAMES[self.element] + ">"


class TableType(NamedTuple):
    """A dataset argument: row count and the columns that the program reads.

    `dims` has the sizes of an entry per column, () for a plain number; it is () itself where all are.
    """

    rows: int
    columns: tuple[tuple[str, int], ...]
    dims: tuple[tuple[int, ...], ...] = ()

    @property
    def entries(self) -> tuple[tuple[str, TensorType], ...]:
        """Name of each column, and the type of one row of it."""
        dims = self.dims or ((),) * len(self.columns)
        return tuple((name, TensorType(element, sizes)) for (name, element), sizes in zip(self.columns, dims))

    def __str__(self) -> str:
        columns = "".join(f', "{name}" : {entry_text(entry)}' for name, entry in self.entries)
        return f"!sojourn.table<{self.rows}{columns}>"


def entry_text(entry: TensorType) -> str:
    """The type of a column, as a table's type spells it: f64, 28x28xu8."""
    return "".join(f"{size}x" for size in entry.shape) + NAMES[entry.element]
