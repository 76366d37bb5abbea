# SPDX-License-Identifier: Apache-2.0
"""Program bytes to a checked `Program`: ids, ranges, types and bounds here, meaning in verify.py."""

from __future__ import annotations

import hashlib
import math
import struct
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import ml_dtypes

import numpy as np
from sojourn_wire import format as wire_format
from sojourn_wire.ArgKind import ArgKind
from sojourn_wire.AttrKind import AttrKind
from sojourn_wire.ResultKind import ResultKind

from . import limits, types, verify, wire
from .errors import LIMIT, VERSION, OwnerError, need
from .parties import Parts, roles_of
from .parts import Side, sides_of
from .types import TableType, TensorType, names_of

ARG_KINDS, RESULT_KINDS, ATTR_KINDS = names_of(ArgKind), names_of(ResultKind), names_of(AttrKind)


class Attr(NamedTuple):
    kind: str
    value: Any  # int, bool, float, str, tuple of int, of float, of str
    element: int


class Arg(NamedTuple):
    kind: str
    type: TensorType | TableType
    party: int | None = None  # of a joint step: the role that holds it; None: all, or parts
    parts: Parts | None = None


class Result(NamedTuple):
    kind: str
    value: int
    target: int


@dataclass(slots=True)
class Op:
    name: str
    operands: tuple[int, ...]
    operand_types: tuple[TensorType | TableType, ...]
    result_types: tuple[TensorType, ...]
    attrs: dict[str, Attr]
    first_result: int
    location: str = ""

    def attr(self, name: str):
        return self.attrs[name].value


@dataclass(slots=True)
class Program:
    hash: bytes
    size: int  # encoded bytes
    promotion: str
    args: list[Arg]
    ops: list[Op]
    results: list[Result]
    types: list[TensorType | TableType]  # by value id
    last_use: list[list[int]] = field(default_factory=list)  # per op: values that die there
    parts: dict[int, list[tuple[Side, ...]]] = field(default_factory=dict)  # per table argument: what it draws from

    def result_type(self, result: Result) -> TensorType:
        """Results are never tables: the reader has checked that."""
        return cast(TensorType, self.types[result.value])

    def args_of(self, kind: str) -> list[tuple[int, TensorType | TableType]]:
        return [(i, arg.type) for i, arg in enumerate(self.args) if arg.kind == kind]


def program_hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=32).digest()


def decode(data: bytes, debug: bytes = b"") -> Program:
    """The whole way from bytes to a program that may run; raises OwnerError naming op and line."""
    raw = wire.read(data, "Program", b"SJP1")
    check_versions(raw.format_version, raw.dialect_version)
    unknown = raw.features & ~wire_format.FEATURE_PARTIES
    need(unknown == 0, f"program needs features {unknown:#x}, which this owner does not know", VERSION)
    need(raw.promotion in ("torch", "numpy"), f"unknown promotion rules {raw.promotion!r}")
    _check_counts(raw)
    locations = _Locations(debug, len(raw.ops))
    args = _read_args(raw, _read_types(raw), _read_tables(raw))
    values: list[TensorType | TableType] = [arg.type for arg in args]
    ops = _read_ops(raw, values, locations)
    results = _read_results(raw, args, values)
    program = Program(program_hash(data), len(data), raw.promotion, args, ops, results, values)
    _check_memory(program)
    _note_parts(program)
    return program


def check_versions(format_version: int, dialect_version: int) -> None:
    for what, found, known in (
        ("program format", format_version, wire_format.FORMAT_VERSION),
        ("dialect", dialect_version, wire_format.DIALECT_VERSION),
    ):
        need(found == known, f"client uses {what} version {found}, this owner reads version {known}", VERSION)


def _check_counts(raw: wire.Record) -> None:
    for name, most in (
        ("args", limits.ARGS_MAX), ("ops", limits.OPS_MAX), ("results", limits.RESULTS_MAX),
        ("types", limits.TYPES_MAX), ("result_types", limits.TYPES_MAX), ("operands", limits.OPERANDS_MAX),
        ("strings", limits.TYPES_MAX), ("attrs", limits.OPERANDS_MAX), ("ints", limits.ATTR_INTS_MAX),
        ("dims", limits.ATTR_INTS_MAX), ("tables", limits.ARGS_MAX), ("parts", limits.ARGS_MAX),
        ("segments", limits.ARGS_MAX),
    ):  # fmt: skip
        count = len(getattr(raw, name))
        need(count <= most, f"program has {count} {name}, at most {most} are read", LIMIT)
    need(len(set(raw.strings)) == len(raw.strings), "the string table repeats a string")
    for name in ("types", "attrs", "results", "segments"):
        records = getattr(raw, name)
        for column in records.dtype.names:
            if column.startswith("reserved"):
                need(not records[column].any(), f"a reserved field of {name} is not zero")


def _inside(begin: int, count: int, length: int, what: str) -> slice:
    need(begin + count <= length, f"range [{begin}, {begin + count}) of {what} exceeds its vector of {length}")
    return slice(begin, begin + count)


def _read_types(raw: wire.Record) -> list[TensorType]:
    dims, read = raw.dims.tolist(), []
    for element, rank, _, begin in raw.types.tolist():
        need(element < len(types.NAMES), f"unknown element type {element}")
        need(rank <= wire_format.RANK_MAX, f"rank {rank} exceeds {wire_format.RANK_MAX}", LIMIT)
        shape = tuple(dims[_inside(begin, rank, len(dims), "dims")])
        need(min(shape, default=0) >= 0, f"negative size in shape {shape}")
        need(max(shape, default=0) <= wire_format.DIM_MAX, f"shape {shape} is too large", LIMIT)
        tensor = TensorType(element, shape)
        if tensor.span <= limits.VALUE_BYTES_MAX >> 4:  # 16 bytes is the widest element
            read.append(tensor)
            continue
        need(tensor.span <= wire_format.VALUE_ELEMENTS_MAX, f"{tensor} is too large", LIMIT)
        need(tensor.nbytes <= limits.VALUE_BYTES_MAX, f"{tensor} is larger than {limits.VALUE_BYTES_MAX} bytes", LIMIT)
        read.append(tensor)
    return read


def _read_tables(raw: wire.Record) -> list[TableType]:
    tables, dims = [], raw.dims.tolist()
    for record in raw.tables:
        need(record.rows >= -1, f"a table has {record.rows} rows")  # -1: the program does not say
        need(record.rows <= wire_format.TABLE_ROWS_MAX, f"a table of {record.rows} rows is too long", LIMIT)
        names, elements = record.column_names.tolist(), record.column_elements.tolist()
        need(len(names) == len(elements), "a table's column names and elements differ in number")
        need(all(n < len(raw.strings) for n in names), "a column name lies outside the string table")
        need(
            all(e < len(types.NAMES) and types.CLASSES[e] != "X" for e in elements),
            "a column has an unknown element type",
        )
        need(len(set(names)) == len(names), "a table names a column twice")
        columns = tuple((raw.strings[n], e) for n, e in zip(names, elements))
        tables.append(TableType(record.rows, columns, _read_entries(record, dims)))
    return tables


def _read_entries(record: wire.Record, dims: list[int]) -> tuple[tuple[int, ...], ...]:
    """The sizes of an entry per column; () where no column has a shape, which the bytes then do not mention."""
    begins, ranks = record.column_dims_begin.tolist(), record.column_ranks.tolist()
    count = len(record.column_names)
    if not begins and not ranks:
        return ()
    text = f"a table of {count} columns has {len(begins)} starts and {len(ranks)} ranks of entries"
    need(len(begins) == count and len(ranks) == count, text)
    need(any(ranks), "a table of plain numbers states ranks of entries; the only valid encoding omits them")
    entries = []
    for begin, rank in zip(begins, ranks):
        need(rank > 0 or begin == 0, f"a plain column's entry starts at {begin}, expected 0")
        need(rank <= wire_format.ENTRY_RANK_MAX, f"an entry of rank {rank} exceeds {wire_format.ENTRY_RANK_MAX}", LIMIT)
        entry = tuple(dims[_inside(begin, rank, len(dims), "dims")])
        need(min(entry, default=1) >= 1, f"an entry has the shape {entry}, expected sizes of at least 1")
        text = f"an entry of shape {entry} is too large, at most {wire_format.ENTRY_ELEMENTS_MAX} elements"
        need(math.prod(entry) <= wire_format.ENTRY_ELEMENTS_MAX, text, LIMIT)
        entries.append(entry)
    return tuple(entries)


def _read_args(raw: wire.Record, tensors: list[TensorType], tables: list[TableType]) -> list[Arg]:
    args, last, roles = [], 0, roles_of(raw)
    for index, (type_id, kind, party, parts) in enumerate(raw.args.tolist()):
        need(kind < len(ARG_KINDS), f"argument {index} has the unknown kind {kind}")
        need(kind >= last, "arguments are not ordered states, uploads, slots, seeds, tables")
        last, pool = kind, tables if ARG_KINDS[kind] == "table" else tensors
        need(type_id < len(pool), f"the type of argument {index} lies outside its vector")
        name, type_ = ARG_KINDS[kind], pool[type_id]
        arg = Arg(name, type_, *roles.place(index, name, type_, party, parts))
        if arg.kind == "slot":
            need(arg.type in _SLOT_TYPES, f"slot argument {index} has type {arg.type}")
        if arg.kind == "seed":
            need(arg.type == TensorType(types.I64, ()), f"seed argument {index} has type {arg.type}")
        args.append(arg)
    need(roles.used == len(roles.parts), "parts that no argument has")
    # Result types share the pool of tensors; _read_ops fetches them from here.
    raw.tensor_types = tensors
    return args


_SLOT_TYPES = tuple(TensorType(element, ()) for element in (types.F64, types.I64, types.I1))


def _read_ops(raw: wire.Record, values: list, locations: _Locations) -> list[Op]:
    operands, result_ids, strings = raw.operands.tolist(), raw.result_types.tolist(), raw.strings
    attr_records, ints = raw.attrs.tolist(), raw.ints.tolist()
    need(all(i < len(raw.tensor_types) for i in result_ids), "a result type lies outside the vector of types")
    ops, taken, work = [], 0, 0
    budget = _Budget()  # ranges may overlap, so that short vectors could describe endless lists
    for index, (name_id, o_begin, o_count, r_count, a_begin, a_count) in enumerate(raw.ops.tolist()):
        name = ""
        try:
            need(name_id < len(strings), "the op's name lies outside the string table")
            name = strings[name_id]
            need(o_count <= limits.OPERANDS_PER_OP_MAX and a_count <= 64, "too many operands or attributes", LIMIT)
            budget.spend(o_count + a_count)
            ids = tuple(operands[_inside(o_begin, o_count, len(operands), "operands")])
            need(all(i < len(values) for i in ids), "an operand is not defined before its use")
            result_slice = _inside(taken, r_count, len(result_ids), "result types")
            attrs = _read_attrs(
                attr_records[_inside(a_begin, a_count, len(attr_records), "attrs")], ints, strings, budget
            )
            op = Op(
                name, ids, tuple(values[i] for i in ids),
                tuple(raw.tensor_types[i] for i in result_ids[result_slice]), attrs, len(values),
            )  # fmt: skip
            work += verify.check(op)
            need(work <= limits.WORK_MAX, f"the program needs more than {limits.WORK_MAX} scalar operations", LIMIT)
        except OwnerError as error:
            where = locations.of(index)
            raise OwnerError(error.code, f"op {index} '{name}': {error.message}", name, where) from None
        op.location = locations.of(index)
        taken += r_count
        values.extend(op.result_types)
        ops.append(op)
    need(taken == len(result_ids), "there are more result types than op results")
    return ops


class _Budget:
    """Operands, attributes and attribute values of all ops together."""

    def __init__(self):
        self.left = limits.OPERANDS_MAX

    def spend(self, count: int) -> None:
        self.left -= count
        need(self.left >= 0, f"ops use more than {limits.OPERANDS_MAX} operands and attribute values", LIMIT)


def _holds(kind: str, element: int, number: int) -> bool:
    """Whether an integer of a payload is one that an attribute of the kind and element type may have.

    Program.fbs: each value has one spelling, so that a program has one encoding.
    """
    if kind == "boolean":
        return element == types.I1 and number in (0, 1)
    if kind == "integer":
        of_integers = types.CLASSES[element] == "Z"
        return of_integers and np.iinfo(types.DTYPES[element]).min <= number <= np.iinfo(types.DTYPES[element]).max
    if kind == "real":
        return types.CLASSES[element] == "F" and _is_exact(element, number)
    if kind == "reals":
        return element == types.F64  # all bits are a number of it, or a NaN, which no rule takes
    return element == types.I64 and (kind != "type" or 0 <= number < len(types.NAMES))


def _is_exact(element: int, bits: int) -> bool:
    """Whether the float64 of these bits is a number of the element type; a NaN is quiet and keeps its payload."""
    real = np.array(bits, np.int64).view(np.float64)
    if np.isnan(real):
        dropped = 52 - ml_dtypes.finfo(types.DTYPES[element]).nmant
        return bits >> 51 & 1 == 1 and bits & ((1 << dropped) - 1) == 0
    with np.errstate(over="ignore"):
        return bool(real.astype(types.DTYPES[element]).astype(np.float64).view(np.int64) == bits)


def _read_attrs(records: list[tuple], ints: list[int], strings: list[str], budget: _Budget) -> dict[str, Attr]:
    attrs: dict[str, Attr] = {}
    for name_id, begin, count, kind_id, element, _ in records:
        need(name_id < len(strings), "an attribute's name lies outside the string table")
        need(kind_id < len(ATTR_KINDS), f"attribute has the unknown kind {kind_id}")
        need(element < len(types.NAMES), f"attribute has the unknown element type {element}")
        name, kind = strings[name_id], ATTR_KINDS[kind_id]
        need(name not in attrs, f"attribute '{name}' is given twice")
        budget.spend(count)
        payload = ints[_inside(begin, count, len(ints), "ints")]
        if kind not in ("integers", "reals", "strings"):
            need(count == 1, f"attribute '{name}' has {count} values instead of one")
        for number in payload:
            typed = _holds(kind, element, number)
            need(typed, f"attribute '{name}' of kind {kind} and type {types.NAMES[element]} has invalid value {number}")
        if kind in ("string", "strings"):
            need(all(0 <= i < len(strings) for i in payload), f"attribute '{name}' lies outside the string table")
            texts = tuple(strings[i] for i in payload)
            value: object = texts if kind == "strings" else texts[0]
        elif kind == "integers":
            value = tuple(payload)
        elif kind in ("real", "reals"):
            numbers = struct.unpack(f"<{count}d", struct.pack(f"<{count}q", *payload))
            value = numbers if kind == "reals" else numbers[0]
        elif kind == "boolean":
            value = payload[0] == 1
        else:
            value = payload[0]
        attrs[name] = Attr(kind, value, element)
    return attrs


def _read_results(raw: wire.Record, args: list[Arg], values: list) -> list[Result]:
    results, committed = [], set()
    for index, (value, target, kind, flags, _) in enumerate(raw.results.tolist()):
        need(kind < len(RESULT_KINDS), f"result {index} has the unknown kind {kind}")
        # 1: trained, which is no matter of an owner of open tables.
        need(flags <= (RESULT_KINDS[kind] != "publish"), f"result {index} has the unknown flags {flags}")
        need(value < len(values), f"result {index} names a value that does not exist")
        need(isinstance(values[value], TensorType), f"result {index} is a table, rows leave only through read_rows")
        if RESULT_KINDS[kind] == "commit":
            need(target < len(args) and args[target].kind == "state", f"result {index} commits to no state")
            need(target not in committed, f"state argument {target} is committed twice")
            need(args[target].type == values[value], f"result {index} changes the type of state argument {target}")
            committed.add(target)
        else:
            need(target == 0, f"result {index} has a target but commits nothing")
        results.append(Result(RESULT_KINDS[kind], value, target))
    return results


def _check_memory(program: Program) -> None:
    """Bounds what is alive at once, and notes where each value dies."""
    escaping = {result.value for result in program.results}
    last = {}
    for index, op in enumerate(program.ops):
        for value in (*op.operands, *range(op.first_result, op.first_result + len(op.result_types))):
            last[value] = index
    program.last_use = [[] for _ in program.ops]
    for value, index in last.items():
        if value not in escaping:
            program.last_use[index].append(value)
    size = [t.nbytes if isinstance(t, TensorType) else 0 for t in program.types]
    live = sum(size[: len(program.args)])
    for op, dying in zip(program.ops, program.last_use):
        live += sum(t.nbytes for t in op.result_types)
        if live > limits.LIVE_BYTES_MAX:
            text = f"more than {limits.LIVE_BYTES_MAX} bytes are live at op '{op.name}'"
            raise OwnerError(LIMIT, text, op.name, op.location)
        live -= sum(size[value] for value in dying)


def _note_parts(program: Program) -> None:
    """Which parts a step draws from, each once: whether one is empty is known when its table is bound."""
    found: dict[int, dict] = {}
    for op in program.ops:
        if op.name == "sample_rows":
            parts = found.setdefault(op.operands[3], {})
            parts[sides_of(op)] = None
            many = f"rows of one table are drawn from more than {limits.PARTS_PER_TABLE_MAX} of its parts"
            need(len(parts) <= limits.PARTS_PER_TABLE_MAX, many, LIMIT)
    program.parts = {table: list(parts) for table, parts in found.items()}


class _Locations:
    """The scientist's line of each op, from the debug side table; "" where it says nothing."""

    def __init__(self, debug: bytes, op_count: int):
        self.table = wire.read(debug, "Debug", b"SJD1") if len(debug) else None
        if self.table is None:
            return
        table = self.table
        for name in ("op_locations", "op_hints"):
            count = len(getattr(table, name))
            need(count in (0, op_count), f"debug table has {count} {name} for {op_count} ops")
        places = len(table.locations)
        need(bool((table.op_locations <= places).all()), "an op's location lies outside the debug table")
        need(bool((table.op_hints <= len(table.hints)).all()), "an op's hint lies outside the debug table")
        need(bool((table.locations["file"] < max(len(table.files), 1)).all()), "a location names no file")
        need(places == 0 or len(table.files) > 0, "a location names no file")
        need(bool((table.locations["parent"] <= places).all()), "a location's parent lies outside the debug table")

    def of(self, op: int) -> str:
        if self.table is None or len(self.table.op_locations) == 0:
            return ""
        parts: list[str] = []
        place = int(self.table.op_locations[op])
        while place and len(parts) < limits.LOCATION_DEPTH_MAX:
            file, line, column, parent = self.table.locations[place - 1].tolist()
            parts.append(f"{self.table.files[file]}:{line}" + (f":{column}" if column else ""))
            place = parent
        return " (called from ".join(parts) + ")" * (len(parts) - 1)
