# SPDX-License-Identifier: Apache-2.0
"""Writes programs and requests by hand with flatc's own accessors, correct ones and hostile ones."""

from __future__ import annotations

import importlib
import struct

import flatbuffers
import numpy as np

from sojourn_numpy import decode, run, wire
from sojourn_numpy.program import program_hash
from sojourn_numpy.types import ELEMENT_OF, NAMES, TableType, TensorType
from sojourn_wire import format as wire_format


def _wire(name: str):
    return importlib.import_module(f"sojourn_wire.{name}")


def t(element: str, *shape: int) -> TensorType:
    return TensorType(NAMES.index(element), tuple(shape))


def type_of(x: np.ndarray) -> TensorType:
    return TensorType(ELEMENT_OF[x.dtype], x.shape)


def typed(x, shape):
    return TensorType(ELEMENT_OF[x.dtype], tuple(shape))


def bits_of(number: float) -> int:
    return struct.unpack("<q", struct.pack("<d", number))[0]


class ProgramBuilder:
    """Collects the vectors of Program.fbs as lists, which a test may damage before `encode`."""

    def __init__(self):
        self.strings, self.types, self.dims, self.tables, self.args = [], [], [], [], []
        self.ops, self.operands, self.result_types, self.attrs, self.ints, self.results = [], [], [], [], [], []
        self.format_version, self.dialect_version = wire_format.FORMAT_VERSION, wire_format.DIALECT_VERSION
        self.features = 0
        self.parties, self.parts, self.segments = 0, [], []
        self.producer, self.promotion = "test", "torch"
        self.identifier = b"SJP1"
        self.values = 0
        self.locations = []  # per op: [] or a chain of (file, line), innermost first

    def string(self, text: str) -> int:
        if text not in self.strings:
            self.strings.append(text)
        return self.strings.index(text)

    def type(self, tensor: TensorType) -> int:
        self.types.append((tensor.element, len(tensor.shape), 0, len(self.dims)))
        self.dims.extend(tensor.shape)
        return len(self.types) - 1

    def arg(self, kind: str, type_: TensorType | TableType) -> int:
        if isinstance(type_, TableType):
            names = [self.string(name) for name, _ in type_.columns]
            self.tables.append((type_.rows, names, [element for _, element in type_.columns], type_.dims))
            index = len(self.tables) - 1
        else:
            index = self.type(type_)
        self.args.append((index, ("state", "upload", "slot", "seed", "table").index(kind), 0, 0))
        self.values += 1
        return self.values - 1

    def op(self, name: str, operands, result_types, location=(), **attrs):
        """Returns the result's value id, or the list of them where there are several."""
        if isinstance(result_types, TensorType):
            result_types = [result_types]
        begin = len(self.attrs)
        for key in sorted(attrs):
            self.attrs.append(self._attr(key, attrs[key], result_types))
        self.ops.append((self.string(name), len(self.operands), len(operands), len(result_types), begin, len(attrs)))
        self.operands.extend(operands)
        self.result_types.extend(self.type(tensor) for tensor in result_types)
        self.locations.append(list(location))
        first, self.values = self.values, self.values + len(result_types)
        return first if len(result_types) == 1 else list(range(first, self.values))

    def _attr(self, key: str, value, result_types):
        name, begin, element = self.string(key), len(self.ints), 5
        typed = key == "value" and result_types
        if typed:
            element = result_types[0].element
        if isinstance(value, bool):
            kind, payload, element = 1, [int(value)], 0
        elif isinstance(value, int):
            kind, payload = 0, [value]
        elif isinstance(value, float):
            kind, payload = 2, [bits_of(value)]
        elif isinstance(value, str):
            kind, payload = 5, [self.string(value)]
        elif key == "fractions":  # the one list of reals, often empty
            kind, payload, element = 7, [bits_of(number) for number in value], NAMES.index("f64")
        elif len(value) and isinstance(value[0], str):
            kind, payload = 6, [self.string(text) for text in value]
        else:
            kind, payload = 3, list(value)
        self.ints.extend(payload)
        return (name, begin, len(payload), kind, element, 0)

    def result(self, kind: str, value: int, target: int = 0) -> None:
        self.results.append((value, target, ("commit", "keep", "publish").index(kind), 0, 0))

    def encode(self) -> bytes:
        b, program = flatbuffers.Builder(1024), _wire("Program")
        strings = _offset_vector(b, [b.CreateString(s) for s in self.strings])
        tables, all_dims = [], list(self.dims)
        for rows, names, elements, dims in self.tables:
            table = _wire("TableRecord")
            begins = []
            for entry in dims:
                begins.append(len(all_dims) if entry else 0)
                all_dims.extend(entry)
            begins = b.CreateNumpyVector(np.array(begins, np.uint32)) if dims else None
            ranks = b.CreateByteVector(bytes(map(len, dims))) if dims else None
            names, elements = b.CreateNumpyVector(np.array(names, np.uint32)), b.CreateByteVector(bytes(elements))
            table.TableRecordStart(b)
            table.TableRecordAddRows(b, rows)
            table.TableRecordAddColumnNames(b, names)
            table.TableRecordAddColumnElements(b, elements)
            if dims:
                table.TableRecordAddColumnDimsBegin(b, begins)
                table.TableRecordAddColumnRanks(b, ranks)
            tables.append(table.TableRecordEnd(b))
        tables = _offset_vector(b, tables)
        producer, promotion = b.CreateString(self.producer), b.CreateString(self.promotion)
        vectors = {
            "Strings": strings,
            "Tables": tables,
            "Types": _structs(b, 8, _wire("TypeRecord").CreateTypeRecord, self.types),
            "Args": _structs(b, 8, _wire("ArgRecord").CreateArgRecord, self.args),
            "Ops": _structs(b, 24, _wire("OpRecord").CreateOpRecord, self.ops),
            "Attrs": _structs(b, 16, _wire("AttrRecord").CreateAttrRecord, self.attrs),
            "Results": _structs(b, 12, _wire("ResultRecord").CreateResultRecord, self.results),
            "Dims": b.CreateNumpyVector(np.array(all_dims, np.int64)),
            "Operands": b.CreateNumpyVector(np.array(self.operands, np.uint32)),
            "ResultTypes": b.CreateNumpyVector(np.array(self.result_types, np.uint32)),
            "Ints": b.CreateNumpyVector(np.array(self.ints, np.int64)),
        }
        if self.parts:
            vectors["Parts"] = _structs(b, 16, _wire("PartsRecord").CreatePartsRecord, self.parts, 8)
        if self.segments:
            vectors["Segments"] = _structs(b, 16, _wire("SegmentRecord").CreateSegmentRecord, self.segments, 8)
        program.ProgramStart(b)
        program.ProgramAddFormatVersion(b, self.format_version)
        program.ProgramAddParties(b, self.parties)
        program.ProgramAddDialectVersion(b, self.dialect_version)
        program.ProgramAddFeatures(b, self.features)
        program.ProgramAddProducer(b, producer)
        program.ProgramAddPromotion(b, promotion)
        for name, offset in vectors.items():
            getattr(program, f"ProgramAdd{name}")(b, offset)
        b.Finish(program.ProgramEnd(b), file_identifier=self.identifier)
        return bytes(b.Output())

    def encode_debug(self) -> bytes:
        files, locations, op_locations = [], [], []
        for chain in self.locations:
            parent = 0
            for file, line in reversed(chain):
                if file not in files:
                    files.append(file)
                locations.append((files.index(file), line, 1, parent))
                parent = len(locations)
            op_locations.append(parent)
        b, debug = flatbuffers.Builder(256), _wire("Debug")
        files = _offset_vector(b, [b.CreateString(f) for f in files])
        places = _structs(b, 16, _wire("LocationRecord").CreateLocationRecord, locations)
        op_locations = b.CreateNumpyVector(np.array(op_locations, np.uint32))
        debug.DebugStart(b)
        debug.DebugAddFiles(b, files)
        debug.DebugAddLocations(b, places)
        debug.DebugAddOpLocations(b, op_locations)
        b.Finish(debug.DebugEnd(b), file_identifier=b"SJD1")
        return bytes(b.Output())


def _offset_vector(b: flatbuffers.Builder, offsets) -> int:
    b.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        b.PrependUOffsetTRelative(offset)
    return b.EndVector()


def _structs(b: flatbuffers.Builder, size: int, create, records, alignment: int = 4) -> int:
    b.StartVector(size, len(records), alignment)
    for record in reversed(records):
        create(b, *record)
    return b.EndVector()


def run_op(name: str, operands, result_types, **attrs):
    """One op through encoding, verification and its kernel."""
    p = ProgramBuilder()
    ids = [p.arg("upload", type_of(np.asarray(x))) for x in operands]
    results = p.op(name, ids, result_types, **attrs)
    single = not isinstance(results, list)
    for value in [results] if single else results:
        p.result("publish", value)
    out = run(decode(p.encode()), [np.asarray(x) for x in operands])
    return out[0] if single else tuple(out)


# Requests.


def request(kind: str, **fields) -> bytes:
    """Any request; vectors are given as lists, uploads as arrays or (element, dims, bytes[, number sent ahead])."""
    b, module = flatbuffers.Builder(1024), _wire(kind)
    prepared = []
    for key, value in fields.items():
        prepared.append((key, _field(b, key, value)))
    getattr(module, f"{kind}Start")(b)
    for key, value in prepared:
        camel = "".join(part.capitalize() for part in key.split("_"))
        getattr(module, f"{kind}Add{camel}")(b, value)
    body = getattr(module, f"{kind}End")(b)
    outer = _wire("Request")
    outer.RequestStart(b)
    outer.RequestAddBodyType(b, getattr(_wire("RequestBody").RequestBody, kind))
    outer.RequestAddBody(b, body)
    b.Finish(outer.RequestEnd(b), file_identifier=b"SJM1")
    return bytes(b.Output())


def _field(b: flatbuffers.Builder, key: str, value):
    if isinstance(value, str):
        return b.CreateString(value)
    if isinstance(value, bytes):
        return b.CreateByteVector(value)
    if key == "uploads":
        return _offset_vector(b, [_tensor(b, x) for x in value])
    if key == "repetitions":
        return _offset_vector(b, [_repetition(b, part) for part in value])
    if key == "tables":
        return _offset_vector(b, [_table_binding(b, *table) for table in value])
    if isinstance(value, (list, tuple)):
        return b.CreateNumpyVector(np.array(value, np.uint64))
    return value


def _repetition(b: flatbuffers.Builder, fields: dict) -> int:
    module = _wire("Repetition")
    made = {key: _field(b, key, value) for key, value in fields.items()}
    module.RepetitionStart(b)
    for key, value in made.items():
        getattr(module, "RepetitionAdd" + "".join(part.capitalize() for part in key.split("_")))(b, value)
    return module.RepetitionEnd(b)


def _table_binding(b: flatbuffers.Builder, name: str, version: str) -> int:
    module = _wire("TableBinding")
    name, version = b.CreateString(name), b.CreateString(version)
    module.TableBindingStart(b)
    module.TableBindingAddName(b, name)
    module.TableBindingAddVersion(b, version)
    return module.TableBindingEnd(b)


def _tensor(b: flatbuffers.Builder, x) -> int:
    if isinstance(x, np.ndarray):
        x = (ELEMENT_OF[x.dtype], x.shape, x.tobytes())
    element, shape, raw, *ahead = x
    module = _wire("Tensor")
    dims, data = b.CreateNumpyVector(np.array(shape, np.int64)), b.CreateByteVector(raw)
    module.TensorStart(b)
    module.TensorAddElement(b, element)
    module.TensorAddDims(b, dims)
    module.TensorAddData(b, data)
    if ahead:
        module.TensorAddSentAhead(b, ahead[0])
    return module.TensorEnd(b)


class Client:
    """Speaks to an owner; replies come back as records of the wire's layouts."""

    def __init__(self, owner, hello: bool = True):
        self.owner, self.session, self.steps = owner, 0, 0
        if hello:
            reply = self.send(
                "Hello",
                protocol_version=wire_format.PROTOCOL_VERSION,
                format_version=wire_format.FORMAT_VERSION,
                dialect_version=wire_format.DIALECT_VERSION,
                client="test",
            )
            self.session = reply.session

    def raw(self, data: bytes):
        reply = wire.read(self.owner.handle(data), "Reply", b"SJM1")
        reply.body.kind = reply.body_type
        return reply.body

    def send(self, kind: str, **fields):
        return self.raw(request(kind, **fields))

    def step(self, program: bytes, send_program: bool = True, **fields):
        fields = {"session": self.session, "sequence": self.steps + 1, "program_hash": program_hash(program), **fields}
        if any(isinstance(table, str) for table in fields.get("tables", ())):
            # A name alone means the version that the owner has.
            known = {dataset.name: dataset.version for dataset in self.send("ListDatasets").datasets}
            named = fields["tables"]
            fields["tables"] = [(t, known.get(t, "none")) if isinstance(t, str) else t for t in named]
        if send_program:
            fields["program"] = program
        return self.raw_step(request("Step", **fields))

    def raw_step(self, data: bytes):
        """Sends what may be a step; a Done that made the owner commit one is counted."""
        before = self.owner.steps
        reply = self.raw(data)
        self.steps += self.owner.steps > before
        return reply


def published(reply) -> list[np.ndarray]:
    from sojourn_numpy.types import DTYPES

    assert reply.kind == "Done", getattr(reply, "message", reply.kind)
    return [np.frombuffer(x.data.tobytes(), DTYPES[x.element]).reshape(x.dims.tolist()) for x in reply.published]
