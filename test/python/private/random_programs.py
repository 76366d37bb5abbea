# SPDX-License-Identifier: Apache-2.0
"""Random programs in core form over private tables, as text and as programs of the NumPy owner.

Ops are computed while they are chosen, on a table and on its neighbours (one per slot, with another row there), so
that operands in which rows are still apart are found: else nearly every value would soon depend on all rows.
"""

from __future__ import annotations

import random

import numpy as np
from paired import compute, draw_entry, same_bits

from sojourn_numpy.datasets import Column, Dataset
from sojourn_numpy.program import Arg, Attr, Op, Program, Result
from sojourn_numpy.types import DTYPES, F64, NAMES, TableType, TensorType
from sojourn_numpy.verify import check

SLOTS, ROWS = 4, 9
BOUNDS = {
    "a": (-2.0, 2.0), "b": (0.5, 3.0), "c": (-1.0, 0.0), "k": (0, 4), "l": (-1, 2), "flag": (0, 1), "m": (-1.0, 1.0),
    "n": (0, 3), "image": (-1.0, 2.0),
}  # fmt: skip
ENTRIES = {"m": (2, 3), "n": (3,), "image": (2, 4, 3)}
KINDS = {"a": "f8", "b": "f8", "c": "f4", "k": "i8", "l": "i8", "flag": "?", "m": "f8", "n": "i8", "image": "f8"}
# Public tensors that every program may use; the tables come after them.
UPLOADS = [
    ("f64", ()), ("f64", (3,)), ("f64", (4,)), ("f64", (3, 4)), ("f64", (4, 4)), ("f64", (4, 2, 3)), ("f64", (2, 2, 2)),
    ("f64", (3, 2, 2, 2)), ("f32", ()), ("f32", (4, 3)), ("i64", ()), ("i64", ()), ("i64", (3,)), ("i64", (4,)),
    ("i64", (4, 3)), ("i64", (2, 2)), ("i1", (4,)),
]  # fmt: skip
PRIVATE, OTHER, OPEN = (len(UPLOADS) + k for k in range(3))  # numbers of the table arguments
OPTIONS = (
    "bounds="
    + ",".join(f"{name}={low:g}:{high:g}" for name, (low, high) in BOUNDS.items())
    + f" rows={ROWS} open-tables={OPEN}"
)


def _type(element: str, shape) -> TensorType:
    return TensorType(NAMES.index(element), tuple(shape))


def _dataset(rng, name: str) -> Dataset:
    columns = []
    for column, bounds in BOUNDS.items():
        values = np.zeros((ROWS, *ENTRIES.get(column, ())), KINDS[column])
        columns.append(Column(column, draw_entry(rng, bounds, values), bounds))
    return Dataset(name, columns)


class Writer:
    """Collects ops, and their values on the base tables and on each neighbour."""

    def __init__(self, seed: int):
        self.seed, self.wanted = seed, 0
        self.pick, self.rng = random.Random(seed), np.random.default_rng(seed)
        self.args, self.ops, self.types = [], [], []
        uploads = [self._upload(element, shape) for element, shape in UPLOADS]
        self.base = [*uploads, *(_dataset(self.rng, name) for name in ("one", "two", "open"))]
        self.args = [Arg("upload", _type(*u)) for u in UPLOADS] + [Arg("table", self._table(t)) for t in self.base[-3:]]
        self.types = [arg.type for arg in self.args]
        # Per value: (base, neighbour 0, ...). A neighbour has another row where the first draw has it.
        self.values = [(value,) for value in self.base]
        self.texts = []
        self.label = dict.fromkeys(range(len(self.args)), "public")
        self.pool = list(range(len(UPLOADS)))

    def _upload(self, element: str, shape):
        if element == "i64":
            return np.asarray(self.rng.integers(-1, 5, shape), np.int64)
        if element == "i1":
            return self.rng.random(shape) < 0.5
        return np.asarray(self.rng.standard_normal(shape), DTYPES[NAMES.index(element)])

    def _table(self, dataset: Dataset) -> TableType:
        """Half of them leave it to the owner how many rows there are."""
        columns = tuple((column.name, column.element) for column in dataset.columns)
        return TableType(self.pick.choice([ROWS, -1]), columns, tuple(column.dims for column in dataset.columns))

    # Ops.

    def op(self, name: str, operands, results, choose: bool = True, note: str = "", **attrs):
        """Appends an op, if its results are small; returns the number of its first result, or None."""
        results = results if isinstance(results, list) else [results]
        if any(t.numel > 600 or t.rank > 5 for t in results):
            return None
        typed = {}
        for key, value in sorted(attrs.items()):
            typed[key] = _attr(key, value, results[0])
        op = Op(name, tuple(operands), tuple(self.types[k] for k in operands), tuple(results), typed, len(self.types))
        check(op)
        runs = max(len(self.values[k]) for k in operands) if operands else 1
        columns = []
        for run in range(runs):
            given = [self.values[k][run if len(self.values[k]) > 1 else 0] for k in operands]
            columns.append(compute(op, given))
        self.ops.append(op)
        self.texts.append((op, note))
        for k, result in enumerate(results):
            value = tuple(column[k] for column in columns)
            self.types.append(result)
            self.values.append(value)
            number = op.first_result + k
            self.label[number] = self._label(value)
            if choose:
                self.pool.append(number)
        return op.first_result

    def _label(self, value) -> str:
        """public: no neighbour differs; rows: neighbours differ in different places; else mixed."""
        if len(value) == 1:
            return "public"
        differs = np.stack([~same_bits(value[0], other) for other in value[1:]])
        if not differs.any():
            return "public"
        return "rows" if (differs.sum(0) <= 1).all() else "mixed"

    def some(self, want=lambda t: True, mixed: float = 0.12, only: str = "") -> int | None:
        """A value whose type is wanted, more often one in which rows are apart, and a recent one."""
        found = [k for k in self.pool if want(self.types[k]) and only in ("", self.label[k])]
        dice = self.pick.random()
        label = "mixed" if dice < mixed else "public" if dice < 0.35 else "rows"
        chosen = [k for k in found if self.label[k] == label] or [k for k in found if self.label[k] != "mixed"] or found
        if not chosen:
            return None
        return self.pick.choice(chosen[-8:] if self.pick.random() < 0.5 else chosen)

    def draw_rows(self, few: bool = False) -> None:
        """Draws, reads of the private tables and of the open one, and the neighbours' values.

        `few`: only the draws that are read, and four reads.
        """
        i64 = _type("i64", (SLOTS,))
        seed, epoch = 10, 11
        ramp = self.op("iota", [], i64, choose=False, dim=0)

        def draw(positions, a, b, note="", part=(), split=False):
            fractions, sides = zip(*part) if part else ((), ())
            attrs = {"fractions": fractions, "sides": sides, "split": split}
            return self.op("sample_rows", [positions, a, b, PRIVATE], i64, choose=False, note=note, **attrs)

        def late():
            shift = self.op("constant", [], _type("i64", ()), choose=False, value=int(self.pick.choice([0, 0, 5, 7])))
            return draw(self.op("add", [ramp, shift], i64, choose=False), seed, epoch)

        def nested():
            """A batch of 7 rows of 9, or of 4 of those, found in the table split by split; or of 3, too few for the slots."""
            part = self.pick.choice([[(0.75, 0)], [(0.75, 0), (0.4, 1)], [(0.2, 1), (0.4, 0)]])
            rows = draw(ramp, epoch, seed, part=part)
            for depth in range(len(part), 0, -1):
                rows = draw(rows, seed, seed, part=part[:depth], split=True)
            return rows

        ways = {
            "part": lambda: draw(ramp, seed, epoch),
            "nested": nested,
            "late": late,
            "coins": lambda: draw(ramp, epoch, epoch, note="expected"),
        }
        main, beside = self.pick.choice(list(ways)), self.pick.choice(["part", "nested", "coins", "ramp"])
        drawn = {name: make() for name, make in ways.items() if not few or name in (main, beside)}
        first, other = drawn[main], {**drawn, "ramp": ramp}[beside]
        index = np.asarray(self.values[first][0])
        neighbours = []
        for slot in range(SLOTS):
            row = int(index[slot])
            neighbours.append(self.neighbour(row) if 0 <= row < ROWS else self.base[PRIVATE])
        self.values[PRIVATE] = (self.base[PRIVATE], *neighbours)
        self.main, self.other = first, other
        counts = (2, self.pick.choice([0, 1]), self.pick.choice([0, 1]), 1) if few else (6, 1, 1, 1)
        reads = ((PRIVATE, first), (PRIVATE, other), (OTHER, other), (OPEN, first))
        for (table, rows), count in zip(reads, counts):
            for _ in range(count):
                self.read(table, rows)

    def neighbour(self, row: int) -> Dataset:
        """The private table with another row of that number."""
        changed = []
        for column in self.base[PRIVATE].columns:
            values = np.array(column.values)
            values[row] = draw_entry(self.rng, BOUNDS[column.name], values[row : row + 1])[0]
            changed.append(Column(column.name, values, column.bounds))
        return Dataset("one", changed)

    def read(self, table: int, rows: int) -> None:
        plain = [name for name in BOUNDS if name not in ENTRIES]
        if self.pick.random() < 0.5:
            name = self.pick.choice(list(ENTRIES))
            names, shape = (name,), ENTRIES[name]
        else:
            names = tuple(self.pick.sample(plain, self.pick.choice([1, 1, 2, 3])))
            shape = (len(names),) if len(names) > 1 or self.pick.random() < 0.3 else ()
        element = {"k": "i64", "l": "i64", "n": "i64", "flag": "i1"}.get(names[0], "f64") if len(names) == 1 else "f64"
        element = self.pick.choice([element] * 6 + ["f32", "i32"])
        self.op("read_rows", [table, rows], _type(element, (SLOTS, *shape)), columns=names)

    # Text.

    def program(self) -> Program:
        """Publishes the last values, with everything that a decoder adds."""
        kept = [k for k in self.pool if k >= len(self.args)][-3:]
        program = Program(b"", 0, "torch", self.args, self.ops, [Result("publish", k, 0) for k in kept], self.types)
        program.last_use = [[] for _ in self.ops]
        return program

    def text(self, results) -> str:
        arguments = ", ".join(
            f'%v{k}: {_text(a.type)} {{sojourn.kind = "{a.kind}"}}' for k, a in enumerate(self.args)
        )  # fmt: skip
        kinds = ", ".join(f'{_text(self.types[r.value])} {{sojourn.result = "publish"}}' for r in results)
        lines = ['module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {']
        lines += [f"  func.func @step({arguments}) -> ({kinds}) {{"]
        names = {k: f"%v{k}" for k in range(len(self.args))}
        for op, note in self.texts:
            count = len(op.result_types)
            for k in range(count):
                names[op.first_result + k] = f"%v{op.first_result}" + (f"#{k}" if count > 1 else "")
            attrs = [f"{key} = {_attr_text(op.name, key, attr)}" for key, attr in op.attrs.items()]
            attrs += ["expected = 3 : i64"] if note == "expected" else []
            lines.append(
                f"    %v{op.first_result}{f':{count}' if count > 1 else ''} = "
                f'"sojourn.{op.name}"({", ".join(names[k] for k in op.operands)}) {{{", ".join(attrs)}}} : '
                f"({', '.join(map(_text, op.operand_types))}) -> ({', '.join(map(_text, op.result_types))})"
            )
        values = ", ".join(names[r.value] for r in results)
        lines += [f"    return {values} : {', '.join(_text(self.types[r.value]) for r in results)}", "  }", "}"]
        return "\n".join(lines) + "\n"


def _attr(key: str, value, result: TensorType) -> Attr:
    if key == "value":
        kind = {"B": "boolean", "Z": "integer", "F": "real"}[result.kind]
        return Attr(kind, value, result.element)
    if isinstance(value, bool):
        return Attr("boolean", value, 0)
    if isinstance(value, int):
        return Attr("integer", value, 5)
    if isinstance(value, str):
        return Attr("string", value, 0)
    value = tuple(value)
    if key == "fractions":
        return Attr("reals", value, F64)
    return Attr("strings" if value and isinstance(value[0], str) else "integers", value, 0)


def _element(number: int) -> str:
    return "ui8" if NAMES[number] == "u8" else NAMES[number]


def _text(type_) -> str:
    if isinstance(type_, TensorType):
        return "tensor<" + "".join(f"{d}x" for d in type_.shape) + _element(type_.element) + ">"
    columns = (f', "{name}" : ' + "".join(f"{d}x" for d in t.shape) + _element(t.element) for name, t in type_.entries)
    return f"!sojourn.table<{'?' if type_.rows < 0 else type_.rows}{''.join(columns)}>"


def _attr_text(name: str, key: str, attr: Attr) -> str:
    if key == "value":
        number = attr.value
        if attr.kind == "real":
            number = (
                f"{float(attr.value)!r}"
                if "e" not in repr(attr.value) or "." in repr(attr.value)
                else f"{float(attr.value):.17e}"
            )
        return f"{'true' if number else 'false'}" if attr.kind == "boolean" else f"{number} : {_element(attr.element)}"
    if attr.kind == "boolean":
        return "true" if attr.value else "false"
    if attr.kind == "integer":
        return f"{attr.value} : i64"
    if attr.kind == "string":
        return f'"{attr.value}"'
    if attr.kind == "strings":
        return "[" + ", ".join(f'"{text}"' for text in attr.value) + "]"
    kind = "f64" if attr.kind == "reals" else "i64"
    return f"array<{kind}" + (": " + ", ".join(map(str, attr.value)) if attr.value else "") + ">"
