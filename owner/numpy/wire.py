# SPDX-License-Identifier: Apache-2.0
"""Reads FlatBuffers from strangers: every offset is checked before it is followed.

Python's flatbuffers package has no verifier, so nothing here uses its readers. A buffer is decoded
once, from the layouts below (they repeat runtime/*.fbs and runtime/wire/*.fbs; the tests hold them
against flatc's own), into plain Python values: strings, NumPy arrays over the bytes, `Record`s.
"""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from . import limits
from .errors import LIMIT, OwnerError, need

Record = SimpleNamespace


class Scalar(NamedTuple):
    code: str  # of module struct


class Text(NamedTuple):
    pass


class Vector(NamedTuple):
    """Scalars or structs, as a read-only NumPy array over the buffer."""

    dtype: np.dtype
    align: int


class Texts(NamedTuple):
    pass


class Table(NamedTuple):
    name: str


class Tables(NamedTuple):
    name: str


class Union(NamedTuple):
    """Takes two field ids: the tag (1-based), then the table."""

    names: tuple[str, ...]


def _vector(code: str) -> Vector:
    dtype = np.dtype(code)
    return Vector(dtype, dtype.itemsize)


def _structs(*fields: tuple[str, str]) -> Vector:
    return Vector(np.dtype(list(fields)), 4)


U8S, U32S, U64S, I64S = _vector("<u1"), _vector("<u4"), _vector("<u8"), _vector("<i8")
U8, U32, U64, I64, F64 = Scalar("<B"), Scalar("<I"), Scalar("<Q"), Scalar("<q"), Scalar("<d")

_TYPE = _structs(("element", "u1"), ("rank", "u1"), ("reserved", "<u2"), ("dims_begin", "<u4"))
_ARG = _structs(("type", "<u4"), ("kind", "u1"), ("party", "u1"), ("parts", "<u2"))
_PARTS = _structs(("stride", "<i8"), ("begin", "<u4"), ("count", "<u4"))
_SEGMENT = _structs(("rows", "<i8"), ("role", "<u4"), ("reserved", "<u4"))
_ATTR = _structs(("name", "<u4"), ("begin", "<u4"), ("count", "<u4"), ("kind", "u1"), ("element", "u1"),
                 ("reserved", "<u2"))  # fmt: skip
_OP = _structs(("name", "<u4"), ("operand_begin", "<u4"), ("operand_count", "<u4"), ("result_count", "<u4"),
               ("attr_begin", "<u4"), ("attr_count", "<u4"))  # fmt: skip
_RESULT = _structs(("value", "<u4"), ("target", "<u4"), ("kind", "u1"), ("flags", "u1"), ("reserved1", "<u2"))
_LOCATION = _structs(("file", "<u4"), ("line", "<u4"), ("column", "<u4"), ("parent", "<u4"))

# Fields in id order.
LAYOUTS: dict[str, tuple[tuple[str, Scalar | Text | Vector | Texts | Table | Tables | Union], ...]] = {
    # runtime/Program.fbs
    "TableRecord": (("rows", I64), ("column_names", U32S), ("column_elements", U8S), ("column_dims_begin", U32S),
                    ("column_ranks", U8S)),
    "Program": (
        ("format_version", U32), ("dialect_version", U32), ("features", U64), ("producer", Text()),
        ("promotion", Text()), ("strings", Texts()), ("types", _TYPE), ("dims", I64S),
        ("tables", Tables("TableRecord")), ("args", _ARG), ("ops", _OP), ("operands", U32S),
        ("result_types", U32S), ("attrs", _ATTR), ("ints", I64S), ("results", _RESULT),
        ("parties", U8), ("parts", _PARTS), ("segments", _SEGMENT),
    ),
    # runtime/Debug.fbs
    "Debug": (("files", Texts()), ("locations", _LOCATION), ("op_locations", U32S), ("op_hints", U32S),
              ("hints", Texts())),
    # runtime/wire/Step.fbs
    "Tensor": (("element", U8), ("dims", I64S), ("data", U8S), ("sent_ahead", U64)),
    "TableBinding": (("name", Text()), ("version", Text())),
    "Step": (
        ("session", U64), ("sequence", U64), ("program_hash", U8S), ("program", U8S), ("debug", U8S), ("states", U64S),
        ("uploads", Tables("Tensor")), ("slots", U64S), ("seeds", U64S), ("tables", Tables("TableBinding")),
        ("results", U64S), ("releases", U64S), ("spending", Table("Spending")),
        ("repetitions", Tables("Repetition")), ("deadline_ms", U64), ("mark", U64), ("attempt", U64), ("masked", U8),
        ("first_result", U64), ("result_count", U32), ("first_release", U64), ("release_count", U32),
    ),
    "Repetition": (("states", U64S), ("uploads", Tables("Tensor")), ("slots", U64S), ("seeds", U64S),
                   ("results", U64S), ("releases", U64S), ("first_result", U64), ("result_count", U32),
                   ("first_release", U64), ("release_count", U32)),
    "Spending": (
        ("run", U64), ("steps", U64), ("noise_multiplier", F64), ("clip", F64), ("per_layer", U8),
        ("loss_is_sum", U8), ("metric_share", F64), ("releases", Tables("ReleaseTerms")),
    ),
    "ReleaseTerms": (("bound", F64), ("epsilon", F64), ("delta", F64), ("continues", U8)),
    # runtime/wire/Messages.fbs
    "Hello": (("protocol_version", U32), ("format_version", U32), ("dialect_version", U32), ("client", Text()),
              ("identity", U8S), ("nonce", U8S)),
    "Prove": (("client", Text()), ("identity", U8S), ("nonce", U8S), ("challenge", U8S), ("signature", U8S)),
    "ListDatasets": (("session", U64), ("text", Text()), ("tag", Text()), ("columns", Texts())),
    "Upload": (("session", U64), ("upload", U64), ("size", U64), ("offset", U64), ("data", U8S)),
    "Received": (("bytes", U64),),
    "Release": (("session", U64), ("handles", U64S)),
    "Bye": (("session", U64),),
    "ListPrograms": (("with_text", U8),),
    "Request": (("body", Union(("Hello", "ListDatasets", "Step", "Release", "Bye", "ListPrograms", "Upload",
                                 "GetBudget", "Prove", "Watch", "Join", "Borrow", "NameValues", "ListValues", "TakeValues",
                                 "ReleaseNames"))),),
    "NameEntry": (("handle", U64), ("name", Text()), ("tags", Texts()), ("strides", I64S), ("shape", I64S)),
    "NameValues": (("session", U64), ("values", Tables("NameEntry"))),
    "ListValues": (("session", U64), ("tag", Text())),
    "TakeValues": (("session", U64), ("names", Texts()), ("as", U64S)),
    "ReleaseNames": (("session", U64), ("names", Texts())),
    "Borrow": (("session", U64), ("from", U64), ("handles", U64S), ("as", U64S)),
    "Member": (("key", U8S),),
    "Join": (("session", U64), ("role", U8), ("nonce", U8S), ("members", Tables("Member"))),
    "Watch": (("session", U64), ("stop", U8), ("mark", U64)),
    "GetBudget": (("session", U64), ("dataset", Text()), ("end_run", U64)),
    "Column": (("name", Text()), ("element", U8), ("bounded", U8), ("lower", F64), ("upper", F64),
               ("dims", I64S), ("categories", Texts()), ("category_numbers", I64S), ("unit", U8), ("filled", U8),
               ("fill", F64)),
    "Dataset": (("name", Text()), ("rows", I64), ("columns", Tables("Column")), ("policy", Text()), ("version", Text()),
                ("noise_multiplier", F64), ("clip", F64), ("metric_bound", F64), ("description", Text()), ("tags", Texts())),
    "Welcome": (("session", U64), ("owner", Text()), ("limits_text", Text()), ("account", Text()), ("key", U8S)),
    "Challenge": (("challenge", U8S), ("owner_key", U8S), ("signature", U8S)),
    "Datasets": (("datasets", Tables("Dataset")),),
    "Done": (("published", Tables("Tensor")), ("releases", Tables("ReleaseInfo")),
             ("notes", Texts()), ("steps", U32), ("failure", Table("Error"))),
    "ReleaseInfo": (("error", F64), ("receipt", U8S), ("text", Text())),
    "Budget": (("dataset", Text()), ("granted", U8), ("epsilon", F64), ("delta", F64), ("epsilon_left", F64),
               ("common_left", F64)),
    "NeedProgram": (),
    "Committed": (("steps", U32), ("failure", Table("Error"))),
    "Progress": (("steps", U32),),
    "Joined": (("masked", U8),),
    "NamedValue": (("name", Text()), ("tags", Texts()), ("element", U8), ("dims", I64S), ("strides", I64S),
                   ("bytes", U64), ("named_ms", I64), ("used_ms", I64), ("reads", U8), ("shape", I64S)),
    "NamedValues": (("values", Tables("NamedValue")), ("lease_ms", I64)),
    "ProgramInfo": (("hash", U8S), ("runs", U64), ("ops", U64), ("text", Text()), ("client", Text()),
                    ("privacy", Text())),
    "Programs": (("programs", Tables("ProgramInfo")),),
    "Error": (("code", U8), ("message", Text()), ("location", Text()), ("op", Text())),
    "Reply": (("body", Union(("Welcome", "Datasets", "Done", "NeedProgram", "Programs", "Error", "Received",
                               "Committed", "Budget", "Challenge", "Progress", "Joined", "NamedValues"))),),
}  # fmt: skip


def read(data: bytes | np.ndarray, root: str, identifier: bytes | None) -> Record:
    """Decodes `data` as table `root`; raises OwnerError for malformed bytes."""
    return _Reader(data).root(root, identifier)


class _Reader:
    def __init__(self, data: bytes | np.ndarray):
        self.data = memoryview(data).cast("B")  # type: ignore[arg-type]  # stubs of arrays say __buffer__ from Python 3.12 on
        self.size = len(self.data)
        need(self.size <= limits.REQUEST_BYTES_MAX, f"buffer of {self.size} bytes is too large", LIMIT)
        self.tables_left = limits.TABLES_MAX
        # Offsets may overlap, so a small buffer could describe much: what is read in all is bounded.
        self.bytes_left = 2 * self.size + 4096

    def root(self, name: str, identifier: bytes | None) -> Record:
        need(self.size >= 8, "buffer is shorter than a root offset and a file identifier")
        if identifier is not None:
            found = bytes(self.data[4:8])
            need(found == identifier, f"file identifier is {found!r}, expected {identifier!r}")
        return self.table(name, self.uint(0))

    def span(self, position: int, length: int, align: int) -> None:
        need(0 <= position and position + length <= self.size, "an offset points outside the buffer")
        need(position % align == 0, "a value is not aligned")

    def uint(self, position: int) -> int:
        self.span(position, 4, 4)
        return struct.unpack_from("<I", self.data, position)[0]

    def spend(self, length: int) -> None:
        self.bytes_left -= length
        need(self.bytes_left >= 0, "parts of the buffer overlap")

    def table(self, name: str, position: int) -> Record:
        self.tables_left -= 1
        need(self.tables_left >= 0, f"more than {limits.TABLES_MAX} tables in one buffer", LIMIT)
        self.spend(4)
        self.span(position, 4, 4)
        vtable = position - struct.unpack_from("<i", self.data, position)[0]
        self.span(vtable, 4, 2)
        vtable_size, table_size = struct.unpack_from("<HH", self.data, vtable)
        need(vtable_size >= 4 and vtable_size % 2 == 0 and table_size >= 4, f"vtable of {name} is malformed")
        self.span(vtable, vtable_size, 2)
        self.span(position, table_size, 4)

        def at(index: int, size: int) -> int:
            """Position of field `index`, 0 where it is absent."""
            if 4 + 2 * index >= vtable_size:
                return 0
            offset = struct.unpack_from("<H", self.data, vtable + 4 + 2 * index)[0]
            if offset == 0:
                return 0
            need(4 <= offset and offset + size <= table_size, f"a field of {name} lies outside its table")
            need((position + offset) % size == 0, f"a field of {name} is not aligned")
            return position + offset

        record, index = Record(), 0
        for field, kind in LAYOUTS[name]:
            if isinstance(kind, Union):
                tag_at, value_at, index = at(index, 1), at(index + 1, 4), index + 2
                tag = self.data[tag_at] if tag_at else 0
                need(1 <= tag <= len(kind.names), f"{name}.{field} has the unknown kind {tag}")
                need(value_at > 0, f"{name}.{field} is missing")
                setattr(record, field, self.table(kind.names[tag - 1], self.follow(value_at)))
                setattr(record, field + "_type", kind.names[tag - 1])
                continue
            if isinstance(kind, Scalar):
                where = at(index, struct.calcsize(kind.code))
                value = struct.unpack_from(kind.code, self.data, where)[0] if where else 0
            else:
                where = at(index, 4)
                value = self.value(kind, self.follow(where) if where else 0)
            setattr(record, field, value)
            index += 1
        return record

    def follow(self, position: int) -> int:
        offset = self.uint(position)
        need(offset > 0, "an offset points to itself")
        return position + offset

    def value(self, kind: Text | Vector | Texts | Table | Tables, position: int) -> object:
        """A string or vector; `position` 0 means it is absent, which reads as empty."""
        if isinstance(kind, Text):
            return self.text(position) if position else ""
        if isinstance(kind, Table):
            return self.table(kind.name, position) if position else None
        if isinstance(kind, Vector):
            if not position:
                return np.zeros(0, kind.dtype)
            count = self.length(position, kind.dtype.itemsize, kind.align)
            return np.frombuffer(self.data, kind.dtype, count, position + 4)
        if not position:
            return []
        count = self.length(position, 4, 4)
        places = [self.follow(position + 4 + 4 * i) for i in range(count)]
        if isinstance(kind, Texts):
            return [self.text(place) for place in places]
        return [self.table(kind.name, place) for place in places]

    def length(self, position: int, width: int, align: int) -> int:
        count = self.uint(position)
        self.span(position + 4, count * width, 1)
        # An empty vector has no element to align; writers place it anywhere.
        need(count == 0 or (position + 4) % align == 0, "a vector is not aligned")
        self.spend(4 + count * width)
        return count

    def text(self, position: int) -> str:
        count = self.length(position, 1, 1)
        need(count <= limits.STRING_BYTES_MAX, f"string of {count} bytes is too long", LIMIT)
        end = position + 4 + count
        self.span(end, 1, 1)
        need(self.data[end] == 0, "a string is not terminated")
        try:
            return bytes(self.data[position + 4 : end]).decode("utf-8")
        except UnicodeDecodeError:
            raise OwnerError(0, "a string is not UTF-8") from None
