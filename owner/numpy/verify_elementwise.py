# SPDX-License-Identifier: Apache-2.0
"""Rules of the ops without shape logic: sources, rows, casts, elementwise."""

from __future__ import annotations

from sojourn_wire import format as wire_format

from . import limits, ops_special, types
from .errors import LIMIT, need
from .types import DTYPES, TensorType
from .verify import classes, dim_of, result_is, rule, same_element, splat_shape

SEED = TensorType(types.I64, ())


@rule("constant", 0, value="any")
def _constant(op):
    value, result = op.attrs["value"], op.result_types[0]
    need(result.rank == 0, f"result is {result}, constants have rank 0")
    wanted = {"B": ("boolean", "integer"), "Z": ("integer",), "F": ("real",), "X": ()}[result.kind]
    need(value.kind in wanted, f"a constant of type {result} cannot hold an attribute of kind {value.kind}")
    need(value.element == result.element, f"value is of type {types.NAMES[value.element]}, the result is {result}")


@rule("iota", 0, dim="integer")
def _iota(op):
    classes("result", op.result_types[0], "ZF")
    dim_of(op, op.result_types[0].rank)


@rule("rng_bits rng_uniform rng_normal", 1, stream="integer")
def _random(op):
    need(op.operand_types[0] == SEED, f"seed is {op.operand_types[0]}, expected {SEED}")
    need(0 <= op.attr("stream") < 1 << 32, f"stream {op.attr('stream')} does not fit 32 bits")
    allowed = (types.I64,) if op.name == "rng_bits" else (types.F32, types.F64)
    need(op.result_types[0].element in allowed, f"result is {op.result_types[0]}")
    return 20 * op.result_types[0].numel


@rule(
    "sample_rows", 4, table_operand=3, optional="expected",
    fractions="reals", sides="integers", split="boolean", expected="integer",
)  # fmt: skip
def _sample_rows(op):
    positions, fractions, sides = op.operand_types[0], op.attr("fractions"), op.attr("sides")
    for name, operand in zip(("seed", "epoch"), op.operand_types[1:]):
        need(operand == SEED, f"{name} is {operand}, expected {SEED}")
    need(positions.element == types.I64, f"positions are {positions}, expected elements of i64")
    result_is(op, types.I64, positions.shape)
    text = f"has {len(fractions)} fractions and {len(sides)} sides, expected one side for each fraction"
    need(len(fractions) == len(sides), text)
    text = f"names a part of {len(fractions)} splits, at most {limits.SPLITS_MAX}"
    need(len(fractions) <= limits.SPLITS_MAX, text, LIMIT)
    for fraction, side in zip(fractions, sides):
        need(0 < fraction < 1, f"fraction {fraction} of a split is not above 0 and below 1")
        need(side in (0, 1), f"side {side} of a split is neither 0 (first) nor 1 (other)")
    need(len(fractions) > 0 or not op.attr("split"), "orders the rows of a split but names no split")
    if "expected" in op.attrs:  # means something on private tables alone
        expected, most = op.attr("expected"), wire_format.TABLE_ROWS_MAX
        need(1 <= expected <= most, f"expected = {expected} is not a number of rows from 1 to {most}")
        need(not op.attr("split"), "gives `expected` for a split's own order, which the split's seed alone decides")
    # Two passes of six Philox words on average; where there are few rows, each walks its cycle once.
    return 240 * positions.numel + 240 * 256


@rule("read_rows", 2, table_operand=0, columns="strings")
def _read_rows(op):
    table, indices = op.operand_types
    known, columns, result = dict(table.entries), op.attr("columns"), op.result_types[0]
    for column in columns:
        need(column in known, f"column '{column}' is not among the table's declared columns")
    need(indices.element == types.I64 and indices.rank == 1, f"indices are {indices}, expected i64 of rank 1")
    classes("result", result, "BZF")
    count, shaped = indices.shape[0], [column for column in columns if known[column].rank]
    if shaped:
        need(len(columns) == 1, f"column '{shaped[0]}' has entries of shape {known[shaped[0]].shape}, so it must "
             f"be read alone, not beside {len(columns) - 1} others")  # fmt: skip
        result_is(op, result.element, (count, *known[shaped[0]].shape))
    elif len(columns) != 1 or result.rank != 1:  # one plain column gives [B, 1] or [B]
        result_is(op, result.element, (count, len(columns)))
    else:
        result_is(op, result.element, (count,))
    return limits.CALL_WORK * len(columns)


@rule("convert", 1)
def _convert(op):
    x, y = op.operand_types[0], op.result_types[0]
    need(x.shape == y.shape, f"result is {y}, the operand {x}")
    need(x.kind != "X" or y.kind == "X", f"{x} to {y}: complex numbers do not convert to real ones")


@rule("bitcast", 1)
def _bitcast(op):
    x, y = op.operand_types[0], op.result_types[0]
    classes("operand", x, "ZF")
    classes("result", y, "ZF")
    same_width = DTYPES[x.element].itemsize == DTYPES[y.element].itemsize
    need(x.shape == y.shape and same_width, f"{x} and {y} differ in shape or width")


def _elementwise(names: str, operands: int, allowed: str) -> None:
    @rule(names, operands)
    def check(op):
        element = same_element(op)
        classes("operand", op.operand_types[0], allowed)
        result_is(op, element, splat_shape(op))
        return 4 * op.result_types[0].numel


_elementwise("neg", 1, "ZFX")
_elementwise("abs sign", 1, "ZF")
_elementwise("floor ceil round expm1 log1p logistic erf erfc erfinv lgamma digamma", 1, "F")
_elementwise("exp log sqrt sin cos tanh", 1, "FX")
_elementwise("not", 1, "BZ")
_elementwise("add sub mul div", 2, "ZFX")
_elementwise("pow", 2, "ZFX")
_elementwise("rem", 2, "ZF")
_elementwise("atan2", 2, "F")
_elementwise("max min", 2, "BZF")
_elementwise("and or xor", 2, "BZ")
_elementwise("shl shr", 2, "Z")


def _special(name: str, operands: int, functions) -> None:
    @rule(name, operands, function="string")
    def check(op):
        element = same_element(op)
        need(element in (types.F32, types.F64), f"operands are {op.operand_types[0]}, expected f32 or f64")
        need(op.attr("function") in functions, f"unknown special function '{op.attr('function')}'")
        result_is(op, element, splat_shape(op))
        return 8 * op.result_types[0].numel


_special("special", 1, ops_special.UNARY)
_special("special_binary", 2, ops_special.BINARY)


@rule("compare", 2, predicate="string")
def _compare(op):
    same_element(op)
    predicate = op.attr("predicate")
    need(predicate in ("eq", "ne", "lt", "le", "gt", "ge"), f"unknown predicate '{predicate}'")
    need(op.operand_types[0].kind != "X" or predicate in ("eq", "ne"), "complex numbers have no order")
    result_is(op, types.I1, splat_shape(op))


@rule("select", 3)
def _select(op):
    need(op.operand_types[0].element == types.I1, f"predicate is {op.operand_types[0]}, expected i1")
    result_is(op, same_element(op, first=1), splat_shape(op))
