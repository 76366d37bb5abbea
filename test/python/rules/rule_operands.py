# SPDX-License-Identifier: Apache-2.0
"""Operands for rules: programs that give a value a fact, one per kind of fact, type and shape that rules tell apart.

A rule is checked for every value that its operands' facts admit, so what a producer computes is never looked at: only
the fact that it gets. Operands that rules look through (constants, ramps, zeros) are `fixed` and computed.
"""

from __future__ import annotations

import dataclasses
import re

from rule_facts import Fact

ROWS = 6  # of the private tables
# Column: its type, and its bounds in [low, high] where it has any.
COLUMNS = {
    "a": ("f64", (-1, 1)), "a2": ("2xf64", (-1, 1)), "a3": ("3xf64", (-1, 1)), "a22": ("2x2xf64", (-1, 1)),
    "a12": ("1x2xf64", (-1, 1)), "v": ("f64", None), "v2": ("2xf64", None), "p": ("f64", (0.5, 4)),
    "h": ("f64", (-1.7e308, 1.7e308)), "h2": ("2xf64", (-1.7e308, 1.7e308)), "z": ("f64", (0, 0)), "c": ("f64", (-0.7, 0.3)), "k": ("i64", (0, 2)),
    "k2": ("2xi64", (0, 2)), "k3": ("3xi64", (0, 2)), "w": ("i64", None), "flag": ("i1", (0, 1)), "u": ("ui8", (0, 255)),
    "h4": ("1x4xf64", (-1.7e308, 1.7e308)), "g4": ("1x4xf64", (-3e38, 3e38)),
}  # fmt: skip
BOUNDS = "bounds=" + ",".join(f"{name}={b[0]}:{b[1]}" for name, (_, b) in COLUMNS.items() if b)


def table_type(rows: int | str, columns=tuple(COLUMNS)) -> str:
    listed = ", ".join(f'"{name}" : {COLUMNS[name][0]}' for name in columns)
    return f"!sojourn.table<{rows}, {listed}>"


SHORT = {f"t{rows}": rows for rows in (0, 1, 2, 3)}  # tables that candidates alone read
READ = ("a", "p", "v", "k", "h")  # columns that these have
OPEN = "o"  # a table that is not private
TABLES = {"t": table_type(ROWS), "q": table_type("?"), OPEN: table_type(ROWS, READ)}
TABLES |= {name: table_type(rows, READ) for name, rows in SHORT.items()}
TABLE_ROWS = {name: SHORT.get(name, ROWS) for name in TABLES}  # what programs do not say, the owner knows


def tensor(shape, element: str) -> str:
    return "tensor<" + "".join(f"{size}x" for size in shape) + element + ">"


def sample(positions: str, type_: str, table: str, more: str = "", seed: str = "seed", epoch: str = "seed") -> str:
    """The text of a draw. `more`: `, part = [...]`, `, split = [...]`, `, expected = N`."""
    types = f"{type_}, tensor<i64>, tensor<i64>, {TABLES[table]} -> {type_}"
    return f"sojourn.sample_rows %{positions}, %{seed}, %{epoch} of %{table}{more} : {types}"


def parse_tensor(text: str) -> tuple[tuple[int, ...], str]:
    found = re.fullmatch(r"tensor<((?:\d+x)*)(.+)>", text)
    return tuple(int(size) for size in found[1].split("x") if size), found[2]


@dataclasses.dataclass(eq=False)
class Operand:
    """A value that candidates may use. `lines` compute it: of a leaf in the program of facts alone, of a chain (an
    operand that is itself a candidate) in that of values, too."""

    name: str
    element: str
    shape: tuple[int, ...]
    lines: tuple[str, ...] = ()
    fact: Fact = dataclasses.field(default_factory=lambda: Fact("public", "public"))
    fixed: bool = False
    is_argument: bool = False
    whole: bool = False  # floats that are whole numbers, which ranges know and remarks do not show
    share: float = 0.0  # of sums: the largest element that one row adds
    chain: tuple = ()  # (result names and types, text) per line that both programs hold
    few: bool = False  # other operands pair with it only where they are few, too

    @property
    def type(self) -> str:
        return tensor(self.shape, self.element)


OPERANDS: list[Operand] = []


def _add(name: str, element: str, shape, *lines: str, **more) -> Operand:
    OPERANDS.append(Operand(name, element, tuple(shape), tuple(lines), **more))
    return OPERANDS[-1]


def _argument(name: str, element: str, *shape: int, **more) -> None:
    _add(name, element, shape, is_argument=True, **more)


def _read(name: str, table: str, index: str, slots: int, column: str, element: str, **more) -> str:
    kind = COLUMNS[column][0]
    shape = (slots, *(int(size) for size in kind.split("x")[:-1]))
    text = f'%{name} = sojourn.read_rows %{table}, %{index}, columns = ["{column}"] : {TABLES[table]}, tensor<{slots}xi64> -> {tensor(shape, element)}'
    if more.pop("hidden", False):
        _add("-" + name, element, shape, text)
    else:
        _add(name, element, shape, text, **more)
    return text


def _hidden(*lines: str) -> None:
    """Lines that operands rest on and no candidate uses."""
    _add("-", "", (), *lines)


# Arguments: public, and any value.
for _name, _element, *_shape in (
    ("w", "f64", 3), ("w0", "f64"), ("w22", "f64", 2, 2), ("w212", "f64", 2, 1, 2), ("x3", "f32", 3), ("hf", "f16", 3),
    ("hb", "bf16", 3), ("n", "i64", 3), ("n22", "i64", 2, 2), ("n2", "i64", 2), ("n1", "i64", 1), ("e8", "i8", 3),
    ("u8", "ui8", 3), ("h212", "f16", 2, 1, 2), ("m", "i1", 3), ("m22", "i1", 2, 2), ("m0", "i1"), ("cx", "complex<f32>", 2), ("w0x", "f64", 0),
    ("w1", "f64", 1),
):  # fmt: skip
    _argument(_name, _element, *_shape)
_argument("s", "i64")  # where dynamic parts begin
_argument("seed", "i64")

CONSTANTS = {
    "f64": ["0.0", "-0.0", "1.0", "-2.0", "0.5", "1.7e308", "1.0e-310", "0x7FF0000000000000", "0x7FF8000000000000"],
    "f32": ["0.0", "-0.0", "1.0", "-1.0", "3.0e38", "0x7FC00000"],
    "f16": ["0.0", "1.0", "-1.0", "0.3"],
    "bf16": ["0.0", "1.0", "-1.0", "0.3"],
    "i64": ["0", "1", "-1", "3", "4611686018427387904", "63"],
    "i8": ["0", "1", "100"],
    "ui8": ["0", "200"],
}
for _element, _numbers in CONSTANTS.items():
    for _k, _number in enumerate(_numbers):
        _c = f"c_{_element}_{_k}"
        _add(_c, _element, (), f"%{_c} = sojourn.constant {_number} : {_element}", fixed=True)
_add("true", "i1", (), "%true = sojourn.constant true", fixed=True)
for _name, _element, *_shape in (
    ("zer", "f64", 3), ("zer22", "f64", 2, 2), ("zer32", "f64", 3, 2), ("zeri", "i64", 3), ("zerf", "f32", 3), ("zerh", "f16", 3), ("zerb", "bf16", 3), ("zeri22", "i64", 2, 2),
):  # fmt: skip
    _text = (
        f"%{_name} = sojourn.broadcast %c_{_element}_0, dims = [] : tensor<{_element}> -> {tensor(_shape, _element)}"
    )
    _add(_name, _element, _shape, _text, fixed=True)
_add("ramp", "i64", (3,), "%ramp = sojourn.iota dim = 0 : tensor<3xi64>", fixed=True)
_add("ramp2", "i64", (2,), "%ramp2 = sojourn.iota dim = 0 : tensor<2xi64>", fixed=True)

# Public, with a range.
for _name, _of, _type, _low, _high in (
    ("near", "w", "tensor<3xf64>", "c_f64_3", "c_f64_2"),
    ("nearh", "hf", "tensor<3xf16>", "c_f16_2", "c_f16_1"),
):
    _e = parse_tensor(_type)[1]
    _t = f"{_type}, tensor<{_e}>"
    _add("-" + _name, _e, (3,), f"%{_name}0 = sojourn.max %{_of}, %{_low} : {_t}")
    _add(_name, _e, (3,), f"%{_name} = sojourn.min %{_name}0, %{_high} : {_t}")

# Row numbers.
_hidden("%six = sojourn.iota dim = 0 : tensor<6xi64>")
_add("numbers", "i64", (3,), "%numbers = sojourn.add %ramp, %s : tensor<3xi64>, tensor<i64>")
for _name, *_draw in (
    ("list", "numbers", "tensor<3xi64>", "t"), ("order", "ramp", "tensor<3xi64>", "q"),
    ("draw", "ramp", "tensor<3xi64>", "t", ", expected = 2", "seed", "s"),
):  # fmt: skip
    _add(_name, "i64", (3,), f"%{_name} = {sample(*_draw)}")
# A draw of the owner at which no private table is read.
_coins = sample("ramp", "tensor<3xi64>", OPEN, ", expected = 2", "s", "seed")
_add("coins", "i64", (3,), f"%coins = {_coins}", few=True)
_hidden("%other = " + sample("ramp2", "tensor<2xi64>", "q"))

# Per row: draw of 3 slots, of 2, parts of 6; another public draw of each; the owner's secret draw.
for _name, _column, _element in (
    ("a", "a", "f64"), ("v", "v", "f64"), ("p", "p", "f64"), ("h", "h", "f64"), ("z", "z", "f64"), ("k", "k", "i64"),
    ("kw", "w", "i64"), ("flag", "flag", "i1"), ("u", "u", "ui8"), ("k8", "k", "i8"), ("af", "a", "f32"), ("vf", "v", "f32"),
    ("ch", "c", "f16"), ("vh", "v", "f16"), ("cb", "c", "bf16"), ("whole", "k", "f64"), ("a32", "a2", "f64"),
):  # fmt: skip
    _read(_name, "t", "ramp", 3, _column, _element, whole=_name == "whole", few=_name in ("z", "whole"))
_read("b", "q", "order", 3, "a", "f64")
_read("d", "t", "draw", 3, "a", "f64")
_read("kd", "t", "draw", 3, "k", "i64")
_read("e", OPEN, "coins", 3, "a", "f64", few=True)
_add("up", "f64", (3,), "%up = sojourn.exp %h : tensor<3xf64>", few=True)
for _name, _column, _element in (
    ("a2", "a", "f64"), ("a22", "a2", "f64"), ("v22", "v2", "f64"), ("h22", "h2", "f64"), ("k2", "k", "i64"), ("k22", "k2", "i64"),
    ("r212", "a12", "f64"), ("r222", "a22", "f64"), ("f22", "a2", "f32"),
    ("c22", "a2", "f16"), ("c212", "a12", "f16"), ("b212", "a12", "bf16"), ("h214", "h4", "f64"), ("g214", "g4", "f32"),
):  # fmt: skip
    _read(_name, "t", "ramp2", 2, _column, _element, few=len(COLUMNS[_column][0]) > 6 or _name == "c22")
_read("b22", "q", "other", 2, "a2", "f64")
_add("t22", "f64", (2, 2), "%t22 = sojourn.transpose %a22, perm = [1, 0] : tensor<2x2xf64>")
_add("f4", "f64", (4,), "%f4 = sojourn.reshape %a22 : tensor<2x2xf64> -> tensor<4xf64>")
_add("g4", "f64", (4,), "%g4 = sojourn.reshape %t22 : tensor<2x2xf64> -> tensor<4xf64>")
_add("kt22", "i64", (2, 2), "%kt22 = sojourn.transpose %k22, perm = [1, 0] : tensor<2x2xi64>")
_add("kf4", "i64", (4,), "%kf4 = sojourn.reshape %k22 : tensor<2x2xi64> -> tensor<4xi64>")
_add("kg4", "i64", (4,), "%kg4 = sojourn.reshape %kt22 : tensor<2x2xi64> -> tensor<4xi64>")
_read("six_a", "t", "six", 6, "a", "f64", hidden=True)
_part = "%{0} = sojourn.slice %six_a, start = [{1}], limit = [{2}], stride = [{3}] : tensor<6xf64>"
for _name, *_where in (("even", 0, 6, 2), ("odd", 1, 6, 2), ("early", 0, 3, 1), ("late", 3, 6, 1)):
    _add(_name, "f64", (3,), _part.format(_name, *_where))
_dynamic = "%dyn = sojourn.dynamic_slice %six_a from [%s], dims = [0], sizes = [3] : tensor<6xf64>, tensor<i64>"
_add("dyn", "f64", (3,), _dynamic)
_hidden("%hot0 = sojourn.iota dim = 1 : tensor<2x2xi64>")
_hidden("%hot1 = sojourn.broadcast %k2, dims = [0] : tensor<2xi64> -> tensor<2x2xi64>")
_add("hotm", "i1", (2, 2), '%hotm = sojourn.compare "eq" %hot0, %hot1 : tensor<2x2xi64>, tensor<2x2xi64>')
_add("hot", "f64", (2, 2), "%hot = sojourn.convert %hotm : tensor<2x2xi1> -> tensor<2x2xf64>", whole=True)
_hidden("%cx0 = sojourn.convert %v22 : tensor<2x2xf64> -> tensor<2x2xf32>")
_add("cxr", "complex<f32>", (2,), "%cxr = sojourn.complex %cx0 : tensor<2x2xf32>")

# Sums over rows, what is derived from them, and mixed values.
_read("a3", "t", "ramp", 3, "a3", "f64", hidden=True)
_read("b3", "q", "order", 3, "a3", "f64", hidden=True)
_read("k3", "t", "ramp", 3, "k3", "i64", hidden=True)
_read("d3", "t", "draw", 3, "a3", "f64", hidden=True)
_read("e2", OPEN, "coins", 3, "a", "f64", hidden=True)
_sum = "%{0} = sojourn.reduce_sum %{1}, dims = [0] : {2}"
for _name, _of, _from, _share in (
    ("sum", "a3", "tensor<3x3xf64>", 1), ("sumb", "b3", "tensor<3x3xf64>", 1), ("sum22", "r222", "tensor<2x2x2xf64>", 1),
    ("sum0", "a", "tensor<3xf64>", 1), ("sumi", "k3", "tensor<3x3xi64>", 2), ("sumv", "v", "tensor<3xf64>", 0),
    ("sumd", "d3", "tensor<3x3xf64>", 1), ("sume", "e2", "tensor<3xf64>", 1),
):  # fmt: skip
    _shape, _element = parse_tensor(_from)
    _few = _name in ("sumd", "sume")
    _add(_name, _element, _shape[1:], _sum.format(_name, _of, _from), share=_share, few=_few)
_add("sumf", "f32", (3,), "%sumf = sojourn.convert %sum : tensor<3xf64> -> tensor<3xf32>", share=1)
_add("sumh", "f16", (3,), "%sumh = sojourn.convert %sum : tensor<3xf64> -> tensor<3xf16>", share=1)
_add("sumb16", "bf16", (3,), "%sumb16 = sojourn.convert %sum : tensor<3xf64> -> tensor<3xbf16>", share=1)
_add("der", "f64", (3,), "%der = sojourn.exp %sum : tensor<3xf64>")
_add("derb", "f64", (3,), "%derb = sojourn.exp %sumb : tensor<3xf64>")
_add("derd", "f64", (3,), "%derd = sojourn.exp %sumd : tensor<3xf64>", few=True)
_add("der22", "f64", (2, 2), "%der22 = sojourn.exp %sum22 : tensor<2x2xf64>")
_add("deri", "i64", (3,), "%deri = sojourn.abs %sumi : tensor<3xi64>")
_add("mix", "f64", (3,), "%mix = sojourn.reverse %a, dims = [0] : tensor<3xf64>")
_add("mix22", "f64", (2, 2), "%mix22 = sojourn.reverse %a22, dims = [0] : tensor<2x2xf64>")
_add("mixi", "i64", (3,), "%mixi = sojourn.reverse %k, dims = [0] : tensor<3xi64>")


def usable() -> list[Operand]:
    """Those that candidates may take."""
    return [each for each in OPERANDS if not each.name.startswith("-")]
