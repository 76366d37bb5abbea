# SPDX-License-Identifier: Apache-2.0
"""Element and tensor types: the numbers of the wire, the NumPy dtypes that store them."""

from __future__ import annotations

import math
from typing import NamedTuple

import ml_dtypes

import numpy as np
from sojourn_wire.ElementType import ElementType

# What NumPy stores each element type in, and its class: B boolean, Z integer, F float, X complex. Names and numbers are
# those of runtime/Program.fbs; tools/lint compares this table with dialect/elements/Elements.def, too.
_STORED = {
    "i1": (np.bool_, "B"),
    "u8": (np.uint8, "Z"),
    "i8": (np.int8, "Z"),
    "i16": (np.int16, "Z"),
    "i32": (np.int32, "Z"),
    "i64": (np.int64, "Z"),
    "f16": (np.float16, "F"),
    "bf16": (ml_dtypes.bfloat16, "F"),
    "f32": (np.float32, "F"),
    "f64": (np.float64, "F"),
    "c64": (np.complex64, "X"),
    "c128": (np.complex128, "X"),
}


def names_of(schema_enum: type) -> tuple[str, ...]:
    """The names of an enum that flatc made; the index is the number."""
    numbers = {name: number for name, number in vars(schema_enum).items() if not name.startswith("_")}
    assert sorted(numbers.values()) == list(range(len(numbers))), schema_enum
    return tuple(sorted(numbers, key=numbers.__getitem__))


NAMES = names_of(ElementType)  # index: the element's number
if unlike := sorted(set(NAMES) ^ _STORED.keys()):
    raise ImportError(f"owner/numpy/types.py and ElementType of runtime/Program.fbs differ in {', '.join(unlike)}")
CLASSES = "".join(_STORED[name][1] for name in NAMES)
DTYPES = tuple(np.dtype(_STORED[name][0]) for name in NAMES)
ELEMENT_OF = {dtype: element for element, dtype in enumerate(DTYPES)}
# Those that rules name.
I1, U8, I64 = ElementType.i1, ElementType.u8, ElementType.i64
F16, BF16, F32, F64 = ElementType.f16, ElementType.bf16, ElementType.f32, ElementType.f64
C64, C128 = ElementType.c64, ElementType.c128
#: Complex numbers, and the floats that their parts are.
PARTS = {C64: F32, C128: F64}
COMPLEX = {real: number for number, real in PARTS.items()}

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
    """A dataset argument: row count, -1 where any serves, and the columns that the program reads.

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
        return f"!sojourn.table<{'?' if self.rows < 0 else self.rows}{columns}>"


def entry_text(entry: TensorType) -> str:
    """The type of a column, as a table's type spells it: f64, 28x28xu8."""
    return "".join(f"{size}x" for size in entry.shape) + NAMES[entry.element]
