# SPDX-License-Identifier: Apache-2.0
"""Random steps with sums over the rows of a draw, for clip_check: per-row values, cuts of the four forms, what is linear
in them."""

from __future__ import annotations

import dataclasses
import math
import random

from rule_operands import tensor

SLOTS, ROWS = 6, 40
TABLE = '!sojourn.table<?, "a" : 4xf64, "k" : i64, "m" : 2x3x3xf32>'
BOUNDS = {"a": (-1, 3), "k": (-1, 3), "m": (-2, 2)}
LARGEST = 500  # elements of a product


@dataclasses.dataclass(frozen=True)
class Value:
    name: str
    shape: tuple[int, ...]
    element: str

    @property
    def type(self) -> str:
        return tensor(self.shape, self.element)


@dataclasses.dataclass
class Step:
    """The text of a program, and how its sums leave: committed, so that they are clipped, or published."""

    text: str
    element: str  # of the client's weights, which are 4x4


def _at(shape, dim: int, value: int, others) -> list[int]:
    return [value if d == dim else (others[d] if isinstance(others, tuple) else others) for d in range(len(shape))]


class Writer:
    """Writes one program. Methods named per_row_*, cut_* and linear_* add an op each, or nothing where none fits."""

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.element = rng.choice(("f64", "f32"))
        self.lines: list[str] = []
        self.rows: list[Value] = []
        self.sums: list[Value] = []
        self._line("%ramp", f"iota dim = 0 : tensor<{SLOTS}xi64>")
        types = f"tensor<{SLOTS}xi64>, tensor<i64>, tensor<i64>, {TABLE} -> tensor<{SLOTS}xi64>"
        self._line("%draw", f"sample_rows %ramp, %seed, %epoch of %t, expected = 2 : {types}")
        self.numbers = self._column("%k", "k", (SLOTS,), "i64")
        self.rows.append(self._column("%a", "a", (SLOTS, 4), self.element))
        if self.element == "f32":
            self.rows.append(self._column("%m", "m", (SLOTS, 2, 3, 3), "f32"))

    def _line(self, name: str, text: str) -> None:
        self.lines.append(f"{name} = sojourn.{text}")

    def _column(self, name: str, column: str, shape, element: str) -> Value:
        type_ = tensor(shape, element)
        self._line(name, f'read_rows %t, %draw, columns = ["{column}"] : {TABLE}, tensor<{SLOTS}xi64> -> {type_}')
        return Value(name, shape, element)

    def _add(self, shape, element: str, text: str, *into: list) -> Value:
        value = Value(f"%v{len(self.lines)}", tuple(shape), element)
        self._line(value.name, text)
        for values in into:
            values.append(value)
        return value

    def _splat(self, number: str, shape, element: str) -> Value:
        one = self._add((), element, f"constant {number} : {element}")
        return self._add(shape, element, f"broadcast {one.name}, dims = [] : {one.type} -> {tensor(shape, element)}")

    # Of rows.

    def per_row_curve(self, x: Value) -> None:
        self._add(x.shape, x.element, f"{self.rng.choice(('tanh', 'exp'))} {x.name} : {x.type}", self.rows)

    def per_row_relu(self, x: Value) -> None:
        zero = self._splat("0.0", x.shape, x.element)
        self._add(x.shape, x.element, f"max {x.name}, {zero.name} : {x.type}, {x.type}", self.rows)

    def per_row_product(self, x: Value) -> None:
        y = self.rng.choice([y for y in self.rows if y.shape == x.shape])
        self._add(x.shape, x.element, f"mul {x.name}, {y.name} : {x.type}, {y.type}", self.rows)

    def per_row_classes(self, _: Value) -> None:
        wide = f"tensor<{SLOTS}x4xi64>"
        ramp = self._add((SLOTS, 4), "i64", f"iota dim = 1 : {wide}")
        spread = self._add((SLOTS, 4), "i64", f"broadcast %k, dims = [0] : {self.numbers.type} -> {wide}")
        hot = self._add((SLOTS, 4), "i1", f'compare "eq" {spread.name}, {ramp.name} : {wide}, {wide}')
        to = tensor((SLOTS, 4), self.element)
        self._add((SLOTS, 4), self.element, f"convert {hot.name} : {hot.type} -> {to}", self.rows)

    def per_row_layer(self, x: Value) -> None:
        if x.shape[-1:] == (4,):
            lists = f"lhs_batch = [], rhs_batch = [], lhs_contract = [{len(x.shape) - 1}], rhs_contract = [{self.rng.randint(0, 1)}]"
            weights = tensor((4, 4), x.element)
            self._add(x.shape, x.element, f"dot {x.name}, %w, {lists} : {x.type}, {weights} -> {x.type}", self.rows)

    def per_row_copies(self, x: Value) -> None:
        if len(x.shape) < 4:
            dim = self.rng.randint(0, len(x.shape))
            shape = (*x.shape[:dim], self.rng.choice((2, 3)), *x.shape[dim:])
            dims = [d for d in range(len(shape)) if d != dim]
            text = f"broadcast {x.name}, dims = {dims} : {x.type} -> {tensor(shape, x.element)}"
            self._add(shape, x.element, text, self.rows)

    # Of rows and of sums.

    def _reshape(self, x: Value, into: list) -> None:
        count = math.prod(x.shape)
        part = self.rng.choice([k for k in range(1, count + 1) if count % k == 0])
        shape = self.rng.choice([(count,), (part, count // part), (1, count)])
        self._add(shape, x.element, f"reshape {x.name} : {x.type} -> {tensor(shape, x.element)}", into)

    def _transpose(self, x: Value, into: list) -> None:
        if len(x.shape) > 1:
            perm = self.rng.sample(range(len(x.shape)), len(x.shape))
            self._add([x.shape[d] for d in perm], x.element, f"transpose {x.name}, perm = {perm} : {x.type}", into)

    def _slice(self, x: Value, into: list) -> None:
        if x.shape:
            dim = self.rng.randrange(len(x.shape))
            start = self.rng.randrange(x.shape[dim])
            limit, step = self.rng.randint(start + 1, x.shape[dim]), self.rng.randint(1, 3)
            lists = (
                f"start = {_at(x.shape, dim, start, 0)}, limit = {_at(x.shape, dim, limit, x.shape)}, "
                f"stride = {_at(x.shape, dim, step, 1)}"
            )
            shape = _at(x.shape, dim, -(-(limit - start) // step), x.shape)
            self._add(shape, x.element, f"slice {x.name}, {lists} : {x.type}", into)

    def _pad(self, x: Value, into: list, number: str) -> None:
        if x.shape:
            dim, inside = self.rng.randrange(len(x.shape)), self.rng.randint(0, 2)
            low = self.rng.randint(0, inside)
            zero = self._add((), x.element, f"constant {number} : {x.element}")
            lists = ", ".join(
                f"{name} = {_at(x.shape, dim, size, 0)}"
                for name, size in (("low", low), ("high", inside - low), ("interior", inside))
            )
            shape = _at(x.shape, dim, x.shape[dim] * (inside + 1), x.shape)
            self._add(shape, x.element, f"pad {x.name}, {zero.name}, {lists} : {x.type}, {zero.type}", into)

    def _concat(self, x: Value, into: list) -> None:
        if x.shape:
            dim = self.rng.randrange(len(x.shape))
            rest = lambda y: (y.element, *y.shape[:dim], -1, *y.shape[dim + 1 :])
            y = self.rng.choice([y for y in into if len(y.shape) == len(x.shape) and rest(y) == rest(x)])
            shape = _at(x.shape, dim, x.shape[dim] + y.shape[dim], x.shape)
            self._add(shape, x.element, f"concat {x.name}, {y.name} dim = {dim} : {x.type}, {y.type}", into)

    def per_row_layout(self, x: Value) -> None:
        move = self.rng.choice((self._reshape, self._transpose, self._slice, self._pad, self._concat))
        if move == self._pad:
            self._pad(x, self.rows, self.rng.choice(("0.0", "0.5")))
        else:
            move(x, self.rows)

    # Sums over rows.

    def cut_sum(self, x: Value) -> None:
        dims = sorted(self.rng.sample(range(len(x.shape)), self.rng.randint(1, len(x.shape))))
        shape = [size for d, size in enumerate(x.shape) if d not in dims]
        self._add(shape, x.element, f"reduce_sum {x.name}, dims = {dims} : {x.type}", self.sums)

    def cut_dot(self, x: Value) -> None:
        y = self.rng.choice(self.rows)
        batch, contract = ([], []), ([], [])
        pairs = [(i, j) for i, a in enumerate(x.shape) for j, b in enumerate(y.shape) if a == b]
        for number in range(self.rng.randint(1, 3)):
            free = [(i, j) for i, j in pairs if i not in batch[0] + contract[0] and j not in batch[1] + contract[1]]
            if free:
                i, j = self.rng.choice(free)
                chosen = contract if number == 0 or self.rng.random() < 0.6 else batch
                chosen[0].append(i)
                chosen[1].append(j)
        shape = [x.shape[i] for i in batch[0]]
        shape += [size for i, size in enumerate(x.shape) if i not in batch[0] + contract[0]]
        shape += [size for j, size in enumerate(y.shape) if j not in batch[1] + contract[1]]
        if contract[0] and math.prod(shape) <= LARGEST and len(shape) <= 5:
            lists = f"lhs_batch = {batch[0]}, rhs_batch = {batch[1]}, lhs_contract = {contract[0]}, rhs_contract = {contract[1]}"
            types = f"{x.type}, {y.type} -> {tensor(shape, x.element)}"
            self._add(shape, x.element, f"dot {x.name}, {y.name}, {lists} : {types}", self.sums)

    def cut_put(self, x: Value) -> None:
        if x.shape[0] == SLOTS:
            onto = self._splat("0.0", (3, *x.shape[1:]), x.element)
            types = f"{onto.type}, {self.numbers.type}, {x.type}"
            self._add(onto.shape, x.element, f'put "add" {onto.name}, %k, {x.name}, dim = 0 : {types}', self.sums)

    def cut_conv(self, x: Value) -> None:
        if x.shape == (SLOTS, 2, 3, 3):
            y = self.rng.choice([y for y in self.rows if y.shape == x.shape])
            attrs = "stride = [1, 1], padding = [1, 1], dilation = [1, 1], groups = 1"
            to = tensor((2, 2, 3, 3), x.element)
            text = f"conv_grad_weight {x.name}, {y.name}, {attrs} : {x.type}, {y.type} -> {to}"
            self._add((2, 2, 3, 3), x.element, text, self.sums)

    # Linear in sums.

    def linear_neg(self, x: Value) -> None:
        self._add(x.shape, x.element, f"neg {x.name} : {x.type}", self.sums)

    def linear_add(self, x: Value) -> None:
        y = self.rng.choice([y for y in self.sums if y.element == x.element and y.shape in (x.shape, ())])
        op = self.rng.choice(("add", "sub"))
        self._add(x.shape, x.element, f"{op} {x.name}, {y.name} : {x.type}, {y.type}", self.sums)

    def linear_convert(self, x: Value) -> None:
        to = "f32" if x.element == "f64" else "f64"
        self._add(x.shape, to, f"convert {x.name} : {x.type} -> {tensor(x.shape, to)}", self.sums)

    def linear_layout(self, x: Value) -> None:
        move = self.rng.choice((self._reshape, self._transpose, self._slice, self._pad, self._concat))
        if move == self._pad:
            self._pad(x, self.sums, "0.0")
        else:
            move(x, self.sums)

    def some(self, kind: str, count: int, values: list) -> None:
        methods = [getattr(self, name) for name in sorted(dir(self)) if name.startswith(kind + "_")]
        for _ in range(count):
            self.rng.choice(methods)(self.rng.choice(values[-4:]))


def write(rng: random.Random, bounded: bool) -> Step | None:
    """A step whose sums are published, for whoever knows BOUNDS, or committed; None where no sum came out."""
    writer = Writer(rng)
    writer.some("per_row", rng.randint(0, 5), writer.rows)
    for _ in range(rng.randint(1, 3)):
        writer.some("cut", 1, writer.rows)
    if not writer.sums:
        return None
    writer.some("linear", rng.randint(0, 5), writer.sums)
    left = dict.fromkeys([writer.sums[-1], *rng.sample(writer.sums, rng.randint(0, 1))])
    arguments = [(f"%s{k}", x.type, "state") for k, x in enumerate(left)] if not bounded else []
    arguments += [("%w", tensor((4, 4), writer.element), "upload")]
    arguments += [("%seed", "tensor<i64>", "seed"), ("%epoch", "tensor<i64>", "seed"), ("%t", TABLE, "table")]
    listed = ", ".join(f'{name}: {type_} {{sojourn.kind = "{kind}"}}' for name, type_, kind in arguments)
    leave = lambda k: (
        'sojourn.result = "publish"'
        if bounded
        else f'sojourn.result = "commit", sojourn.target = {k} : i64, sojourn.trained'
    )
    results = ", ".join(f"{x.type} {{{leave(k)}}}" for k, x in enumerate(left))
    body = "\n".join(writer.lines)
    names, types = ", ".join(x.name for x in left), ", ".join(x.type for x in left)
    head = 'module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {\n'
    text = f"{head}func.func @step({listed}) -> ({results}) {{\n{body}\nreturn {names} : {types}\n}}\n}}\n"
    return Step(text, writer.element)
