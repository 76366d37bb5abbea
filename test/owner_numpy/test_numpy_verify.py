# SPDX-License-Identifier: Apache-2.0
"""Every core op has a rule, a kernel and at least one refusal; the layouts are those of the schemas."""

import pathlib
import re

import pytest
from numpy_builder import ProgramBuilder, t

from sojourn_numpy import OwnerError, decode, errors, verify, wire
from sojourn_numpy.kernels import load
from sojourn_numpy.types import F64, TableType

ROOT = pathlib.Path(__file__).resolve().parents[2]


def core_ops() -> set[str]:
    """The implemented ops of dialect/CoreOps.def."""
    text = (ROOT / "dialect" / "CoreOps.def").read_text()
    return set(re.findall(r"^SOJOURN_CORE_OP\((\w+),\s*\d,\s*implemented,", text, re.M))


def test_every_core_op_is_here():
    ops = core_ops()
    assert len(ops) >= 70, sorted(ops)
    assert set(verify.RULES) == ops, sorted(set(verify.RULES) ^ ops)
    assert set(load()) == ops, sorted(set(load()) ^ ops)


def schema_tables() -> dict[str, list[str]]:
    """Field names of each table, in id order, from the schema files themselves."""
    tables = {}
    for path in ("runtime/Program.fbs", "runtime/Debug.fbs", "runtime/wire/Step.fbs", "runtime/wire/Messages.fbs"):
        text = re.sub(r"//[^\n]*", "", (ROOT / path).read_text())
        for name, body in re.findall(r"table (\w+) \{(.*?)\}", text, re.S):
            fields = re.findall(r"(\w+):\s*[\w\[\]]+(?:\s*=\s*-?\d+)?\s*\(id: (\d+)\)", body)
            tables[name] = [field for field, _ in sorted(fields, key=lambda f: int(f[1]))]
    return tables


def test_layouts_are_those_of_the_schemas():
    tables = schema_tables()
    assert set(tables) == set(wire.LAYOUTS)
    for name, fields in tables.items():
        assert [field for field, _ in wire.LAYOUTS[name]] == fields, name


def test_struct_layouts_are_those_of_flatc():
    import importlib

    layouts = dict(wire.LAYOUTS["Program"]) | {"locations": dict(wire.LAYOUTS["Debug"])["locations"]}
    for field, name in (("types", "TypeRecord"), ("args", "ArgRecord"), ("attrs", "AttrRecord"), ("ops", "OpRecord"),
                        ("results", "ResultRecord"), ("locations", "LocationRecord")):  # fmt: skip
        record = getattr(importlib.import_module(f"sojourn_wire.{name}"), name)
        assert layouts[field].dtype.itemsize == record.SizeOf(), name


F, Z, B = t("f32", 4, 6), t("i64", 3), t("i1", 4, 6)
S = t("f32")
SEED, LIST = t("i64"), t("i64", 2)
TABLE = TableType(-1, (("a", F64),))
WHOLE = {"fractions": (), "sides": (), "split": False}
IMAGE, WEIGHT = t("f32", 2, 4, 8, 8), t("f32", 6, 2, 3, 3)
CONV = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 2}
POOL = {"window": (2, 2), "stride": (2, 2), "padding": (0, 0), "dilation": (1, 1)}
DOT = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (1,)}


def part(*fractions: float, sides=None) -> dict:
    return {**WHOLE, "fractions": fractions, "sides": (0,) * len(fractions) if sides is None else sides}


REFUSALS = [
    ("constant", [], t("f32", 2), {"value": 1.0}, "rank 0"),
    ("constant", [], t("f32"), {"value": 1}, "kind integer"),
    ("constant", [], t("c64"), {"value": 1.0}, "of kind real and type c64"),
    ("constant", [], t("f32"), {}, "lacks the attribute 'value'"),
    ("iota", [], t("f32", 2), {"dim": 1}, "not a dimension"),
    ("iota", [], t("i1", 2), {"dim": 0}, "class Z/F"),
    ("iota", [], t("f32", 2), {"dim": "x"}, "of kind string"),
    ("rng_bits", [SEED], t("i32", 2), {"stream": 0}, "result is"),
    ("rng_uniform", [SEED], t("f16", 2), {"stream": 0}, "result is"),
    ("rng_normal", [t("i64", 1)], t("f32", 2), {"stream": 0}, "seed is"),
    ("rng_normal", [SEED], t("f32", 2), {"stream": -1}, "32 bits"),
    ("sample_rows", [LIST, SEED, SEED, TABLE], t("i64", 2, 2), WHOLE, "expected tensor<2xi64>"),
    ("sample_rows", [t("i32", 2), SEED, SEED, TABLE], t("i32", 2), WHOLE, "positions are tensor<2xi32>"),
    ("sample_rows", [LIST, SEED, t("i64", 1), TABLE], LIST, WHOLE, "epoch is tensor<1xi64>"),
    ("sample_rows", [LIST, t("i32"), SEED, TABLE], LIST, WHOLE, "seed is tensor<i32>"),
    ("sample_rows", [LIST, SEED, SEED], LIST, WHOLE, "3 operands, expected 4"),
    ("sample_rows", [LIST, SEED, SEED, SEED], LIST, WHOLE, "operand 3 is tensor<i64>"),
    ("sample_rows", [LIST, SEED, TABLE, SEED], LIST, WHOLE, "operand 2 is !sojourn.table<?"),
    ("sample_rows", [LIST, SEED, SEED, TABLE], LIST, {**WHOLE, "rows": 3}, "unknown attribute 'rows'"),
    ("sample_rows", [LIST, SEED, SEED, TABLE], LIST, {"sides": (), "split": False}, "lacks the attribute 'fractions'"),
    *(("sample_rows", [LIST, SEED, SEED, TABLE], LIST, part(fraction), f"fraction {fraction} of a split")
      for fraction in (0.0, 1.0, -0.25, 1.5, float("nan"), float("inf"), -float("inf"))),
    *(("sample_rows", [LIST, SEED, SEED, TABLE], LIST, part(0.5, 0.5, sides=(0, side)), f"side {side} of a split")
      for side in (2, -1, 1 << 40)),
    ("sample_rows", [LIST, SEED, SEED, TABLE], LIST, part(0.5, sides=(0, 1)), "1 fractions and 2 sides"),
    ("sample_rows", [LIST, SEED, SEED, TABLE], LIST, part(0.5, sides=()), "1 fractions and 0 sides"),
    ("sample_rows", [LIST, SEED, SEED, TABLE], LIST, {**WHOLE, "split": True}, "of a split but names no split"),
    ("sample_rows", [LIST, SEED, SEED, TABLE], LIST, {**WHOLE, "split": 1}, "of kind integer, expected boolean"),
    ("sample_rows", [LIST, SEED, SEED, TABLE], LIST, {**part(0.5), "split": True, "expected": 1}, "split's seed alone"),
    ("sample_rows", [LIST, SEED, SEED, TABLE], LIST, part(*[0.5] * 65), "a part of 65 splits, at most 64"),
    ("sample_rows", [LIST, SEED, SEED, TABLE], LIST, {**WHOLE, "expected": 0}, "expected = 0 is not a number of rows"),
    ("sample_rows", [LIST, SEED, SEED, TABLE], LIST, {**WHOLE, "expected": (1 << 32) + 1}, "is not a number of rows"),
    ("convert", [t("c64", 2)], t("f32", 2), {}, "complex"),
    ("convert", [t("f32", 2)], t("f32", 3), {}, "the operand"),
    ("bitcast", [t("f32", 2)], t("f64", 2), {}, "width"),
    ("bitcast", [t("i1", 2)], t("u8", 2), {}, "class Z/F"),
    ("neg", [B], B, {}, "class Z/F/X"),
    ("neg", [F], t("f64", 4, 6), {}, "expected tensor<4x6xf32>"),
    ("neg", [F, F], F, {}, "2 operands, expected 1"),
    ("neg", [F], [F, F], {}, "2 results, expected 1"),
    ("neg", [F], F, {"fast": True}, "unknown attribute 'fast'"),
    ("abs", [t("c64", 2)], t("c64", 2), {}, "class Z/F"),
    ("exp", [Z], Z, {}, "class F/X"),
    ("logistic", [t("c64", 2)], t("c64", 2), {}, "class F"),
    ("not", [F], F, {}, "class B/Z"),
    ("add", [F, t("f64", 4, 6)], F, {}, "element type"),
    ("add", [F, t("f32", 6)], F, {}, "differ in shape"),
    ("add", [F, t("f32", 1, 1)], F, {}, "differ in shape"),
    ("add", [S, S], F, {}, "expected tensor<f32>"),
    ("mul", [B, B], B, {}, "class Z/F/X"),
    ("rem", [t("c64", 2)] * 2, t("c64", 2), {}, "class Z/F"),
    ("shl", [F, F], F, {}, "class Z"),
    ("and", [F, F], F, {}, "class B/Z"),
    ("atan2", [Z, Z], Z, {}, "class F"),
    ("max", [t("c64", 2)] * 2, t("c64", 2), {}, "class B/Z/F"),
    ("compare", [F, F], B, {"predicate": "lessthan"}, "unknown predicate"),
    ("compare", [t("c64", 2)] * 2, t("i1", 2), {"predicate": "lt"}, "no order"),
    ("compare", [F, F], F, {"predicate": "lt"}, "expected tensor<4x6xi1>"),
    ("select", [F, F, F], F, {}, "expected i1"),
    ("broadcast", [t("f32", 2)], t("f32", 3), {"dims": (0,)}, "spread"),
    ("broadcast", [F], t("f32", 6, 4), {"dims": (1, 0)}, "increasing"),
    ("broadcast", [F], F, {"dims": (0,)}, "1 entries"),
    ("reshape", [F], t("f32", 25), {}, "cannot be reshaped"),
    ("transpose", [F], F, {"perm": (0, 0)}, "repeats"),
    ("transpose", [F], F, {"perm": (1, 0)}, "expected tensor<6x4xf32>"),
    ("slice", [F], F, {"start": (0, 0), "limit": (5, 6), "stride": (1, 1)}, "not inside"),
    ("slice", [F], F, {"start": (0, 0), "limit": (4, 6), "stride": (0, 1)}, "below 1"),
    ("slice", [F], F, {"start": (-1, 0), "limit": (4, 6), "stride": (1, 1)}, "below 0"),
    ("reverse", [F], F, {"dims": (2,)}, "not dimensions"),
    ("update_slice", [F, t("f32", 2, 6)], F, {"start": (3, 0), "stride": (1, 1)}, "extends beyond"),
    ("update_slice", [F, t("f32", 6)], F, {"start": (0, 0), "stride": (1, 1)}, "rank"),
    ("dynamic_slice", [F, t("i64")], F, {"dims": (0, 1), "sizes": (2, 2)}, "1 starts for 2 dims"),
    ("dynamic_slice", [F, t("i64")], F, {"dims": (2,), "sizes": (2,)}, "not dimensions"),
    ("dynamic_slice", [F, t("i64"), t("i64")], F, {"dims": (1, 0), "sizes": (2, 2)}, "increasing"),
    ("dynamic_slice", [F, t("i32")], t("f32", 2, 6), {"dims": (0,), "sizes": (2,)}, "expected one i64"),
    ("dynamic_slice", [F, t("i64", 1)], t("f32", 2, 6), {"dims": (0,), "sizes": (2,)}, "expected one i64"),
    ("dynamic_slice", [F, t("i64")], F, {"dims": (0,), "sizes": (5,)}, "5 elements do not fit dimension 0"),
    ("dynamic_slice", [F, t("i64")], F, {"dims": (0,), "sizes": (-1,)}, "-1 elements"),
    ("dynamic_slice", [F, t("i64")], F, {"dims": (0,), "sizes": (1, 2)}, "2 entries"),
    ("dynamic_slice", [F, t("i64")], F, {"dims": (0,), "sizes": (2,)}, "expected tensor<2x6xf32>"),
    ("dynamic_update_slice", [F, t("f32", 5, 6), t("i64")], F, {"dims": (0,)}, "does not cover"),
    ("dynamic_update_slice", [F, t("f32", 2, 5), t("i64")], F, {"dims": (0,)}, "does not cover"),
    ("dynamic_update_slice", [F, t("i32", 2, 6), t("i64")], F, {"dims": (0,)}, "cannot be written into"),
    ("concat", [F, t("f32", 4, 5)], t("f32", 8, 6), {"dim": 0}, "differ beyond"),
    ("concat", [S, S], S, {"dim": 0}, "not a dimension"),
    ("pad", [F, F], F, {"low": (0, 0), "high": (0, 0), "interior": (0, 0)}, "rank 0"),
    ("pad", [F, S], F, {"low": (-9, 0), "high": (0, 0), "interior": (0, 0)}, "negative"),
    ("pad", [F, S], F, {"low": (0, 0), "high": (0, 0), "interior": (0, -1)}, "below 0"),
    ("take", [F, t("f32", 3)], t("f32", 3, 6), {"dim": 0}, "class Z"),
    ("take", [F, Z], t("f32", 3, 5), {"dim": 0}, "expected tensor<3x6xf32>"),
    ("take_along", [F, Z], F, {"dim": 0}, "does not match tensor"),
    ("take_along", [F, t("i64", 3, 6)], t("f32", 3, 6), {"dim": 1}, "does not match tensor"),
    ("put", [F, Z, t("f32", 3, 6)], F, {"dim": 0, "kind": "sub"}, "unknown kind"),
    ("put", [F, Z, t("f32", 4, 6)], F, {"dim": 0, "kind": "add"}, "expected shape (3, 6)"),
    ("put", [B, Z, t("i1", 3, 6)], B, {"dim": 0, "kind": "add"}, "class Z/F/X"),
    ("put_along", [F, t("i64", 5, 6), t("f32", 5, 6)], F, {"dim": 1, "kind": "add"}, "does not match tensor"),
    ("put_along", [F, t("i64", 3, 6), t("f32", 3, 6)], F, {"dim": 1, "kind": "add"}, "does not match tensor"),
    ("reduce_sum", [B], t("i1", 4), {"dims": (1,)}, "class Z/F/X"),
    ("reduce_sum", [F], t("f32", 4), {"dims": (0,)}, "expected tensor<6xf32>"),
    ("reduce_max", [t("f32", 0, 2)], t("f32", 2), {"dims": (0,)}, "is empty along (0,)"),
    ("argmax", [t("f32", 0, 2)], t("i64", 2), {"dim": 0}, "is empty along 0"),
    ("argmin", [F], t("i32", 6), {"dim": 0}, "expected tensor<6xi64>"),
    ("cumsum", [B], B, {"dim": 0}, "class Z/F/X"),
    ("cumlogsumexp", [Z], Z, {"dim": 0}, "class F"),
    ("cummax", [S], S, {"dim": 0}, "not a dimension"),
    ("sort", [F], [F, t("i32", 4, 6)], {"dim": 0, "descending": True}, "result 1"),
    ("sort", [F], F, {"dim": 0, "descending": True}, "1 results, expected 2"),
    ("topk", [F], [t("f32", 5, 6), t("i64", 5, 6)], {"dim": 0, "k": 5, "largest": True}, "k = 5"),
    ("dot", [F, F], t("f32", 4, 5), DOT, "expected tensor<4x4xf32>"),
    ("dot", [F, t("f32", 4, 5)], t("f32", 4, 4), DOT, "does not match"),
    ("dot", [F, F], t("f64", 4, 4), DOT, "of operands"),
    ("dot", [F, F], t("f32", 4, 4), {**DOT, "lhs_batch": (1,), "rhs_batch": (1,)}, "both batch and contracted"),
    ("cholesky", [t("f32", 4)], [t("f32", 4), t("i64")], {}, "does not hold square matrices"),
    ("cholesky", [F], [F, t("i64")], {}, "does not hold square matrices"),
    ("cholesky", [t("i64", 3, 3)], [t("i64", 3, 3), t("i64")], {}, "class F"),
    ("cholesky", [t("f64", 2, 3, 3)], [t("f64", 2, 3, 3), t("i64", 3)], {}, "result 1"),
    ("conv", [IMAGE, WEIGHT], t("f32", 2, 6, 8, 7), CONV, "output is"),
    ("conv", [IMAGE, WEIGHT], t("f32", 2, 6, 8, 8), {**CONV, "groups": 4}, "groups do not divide"),
    ("conv", [IMAGE, WEIGHT], t("f32", 2, 6, 8, 8), {**CONV, "groups": 0}, "groups do not divide"),
    ("conv", [IMAGE, WEIGHT], t("f32", 2, 6, 8, 8), {**CONV, "stride": (1,)}, "1 entries"),
    ("conv", [t("i32", 2, 4, 8, 8), t("i32", 6, 2, 3, 3)], t("i32", 2, 6, 8, 8), CONV, "class F"),
    ("conv_grad_input", [t("f32", 2, 6, 8, 8), WEIGHT], t("f32", 2, 4, 9, 8), CONV, "output is"),
    ("conv_grad_weight", [t("f32", 2, 6, 8, 8), IMAGE], t("f32", 6, 4, 3, 3), CONV, "do not fit"),
    ("pool_sum", [IMAGE], t("f32", 2, 4, 8, 8), POOL, "expected tensor<2x4x4x4xf32>"),
    ("pool_sum", [IMAGE], t("f32", 2, 4, 4, 4), {**POOL, "window": (0, 2)}, "below 1"),
    ("pool_sum", [t("f32", 2, 4)], t("f32", 2, 4), POOL, "spatial"),
    ("pool_max", [IMAGE], [t("f32", 2, 4, 6, 6), t("i64", 2, 4, 6, 6)], {**POOL, "padding": (2, 2)}, "padding"),
    ("aten", [F], F, {}, "unknown op"),
    ("sojourn.add", [F, F], F, {}, "unknown op"),
]  # fmt: skip


def arguments(p: ProgramBuilder, operands) -> list[int]:
    """An argument per operand; tables come last in a program."""
    order = sorted(range(len(operands)), key=lambda k: isinstance(operands[k], TableType))
    ids = {k: p.arg("table" if isinstance(operands[k], TableType) else "upload", operands[k]) for k in order}
    return [ids[k] for k in range(len(operands))]


@pytest.mark.parametrize(
    "name, operands, results, attrs, text", REFUSALS, ids=[f"{i}-{r[0]}" for i, r in enumerate(REFUSALS)]
)
def test_refused(name, operands, results, attrs, text):
    p = ProgramBuilder()
    ids = arguments(p, operands)
    p.op(name, ids, results, location=[("model.py", 17)], **attrs)
    with pytest.raises(OwnerError) as caught:
        decode(p.encode(), p.encode_debug())
    assert text in caught.value.message, caught.value.message
    assert (caught.value.op, caught.value.location) == (name, "model.py:17:1")
    assert caught.value.code in (errors.MALFORMED, errors.UNSUPPORTED, errors.LIMIT)


def test_the_refused_forms_are_near_valid_ones():
    """Refusals above must not come from the test's own slips: the valid forms pass."""
    for name, operands, results, attrs in (
        ("conv", [IMAGE, WEIGHT], t("f32", 2, 6, 8, 8), CONV),
        ("conv_grad_input", [t("f32", 2, 6, 8, 8), WEIGHT], IMAGE, CONV),
        ("conv_grad_weight", [t("f32", 2, 6, 8, 8), IMAGE], WEIGHT, CONV),
        ("pool_sum", [IMAGE], t("f32", 2, 4, 4, 4), POOL),
        ("dot", [F, F], t("f32", 4, 4), DOT),
        ("put", [F, Z, t("f32", 3, 6)], F, {"dim": 0, "kind": "add"}),
        ("topk", [F], [t("f32", 4, 6), t("i64", 4, 6)], {"dim": 0, "k": 4, "largest": True}),
        ("sample_rows", [LIST, SEED, SEED, TABLE], LIST, WHOLE),
        ("sample_rows", [LIST, SEED, SEED, TABLE], LIST, {**WHOLE, "expected": 1 << 32}),
        ("sample_rows", [LIST, SEED, SEED, TABLE], LIST, part(*[0.5] * 64, sides=(0, 1) * 32)),
        ("sample_rows", [LIST, SEED, SEED, TABLE], LIST, {**part(5e-324, 1 - 2.0**-53), "split": True}),
    ):
        p = ProgramBuilder()
        p.op(name, arguments(p, operands), results, **attrs)
        decode(p.encode())
