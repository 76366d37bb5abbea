# SPDX-License-Identifier: Apache-2.0
"""One program, both runtimes: every core op on random shapes, element types and values.

The two share no code but the schema, so each is the other's oracle: same programs accepted, same
values (exact where arithmetic is exact, a stated tolerance elsewhere).
"""

import fractions
import math
import random
import re

import numpy as np
import pytest
import torch
from canonical_form import canonical
from numpy_builder import Client, ProgramBuilder, published, t
from numpy_forms import FORMS, TABLE, build, change
from numpy_oracle import values

import _sojourn
from sojourn_numpy import NumpyOwner, OwnerError, decode, errors
from sojourn_numpy.parts import rows_of
from sojourn_numpy.types import NAMES

ROUNDS, COMPARED = 40, 5  # programs per op: tried, and of these run on both, at least
# Relative to the largest magnitude of the result, per element type of 8 or 4 bytes; halves round once.
LOOSE = {"f64": 1e-12, "f32": 2e-5, "f16": 4e-3, "bf16": 3e-2}
# Sums and products in another order, and functions of the mathematics library.
INEXACT = set(
    "exp expm1 log log1p sqrt sin cos tanh logistic erf erfc erfinv lgamma digamma pow atan2 rng_normal dot conv "
    "conv_grad_input conv_grad_weight reduce_sum reduce_prod cumsum cumprod cumlogsumexp pool_sum rem div cholesky triangular_solve lu qr eigh svd ldl ldl_solve "
    "eig fft_c2c fft_r2c fft_c2r special special_binary".split()
)
C64 = NAMES.index("c64")
# Order matters where infinities and huge values cancel; signed zeros are unspecified in max and min.
TAME = INEXACT - {"sqrt", "exp", "tanh", "div"} | {"pool_max", "put", "put_along", "bitcast"}


@pytest.fixture(scope="module")
def owners():
    columns = {"a": np.arange(5.0), "b": np.arange(5)}
    native, numpy = _sojourn.EmbeddedOwner(), NumpyOwner()
    native.register("d", {name: torch.from_numpy(column) for name, column in columns.items()}, "open")
    numpy.register("d", columns, policy="open")
    return native, numpy


def exact(name, p):
    """Whether both owe the same bits; `put` adds and multiplies in any order."""
    return name not in INEXACT and not (name in ("put", "put_along") and {"add", "mul"} & set(p.strings))


def agree(exact, element, ours, theirs):
    if ours.dtype.kind in "iub":
        return np.array_equal(ours, theirs)
    ours, theirs = ours.astype(np.complex128), theirs.astype(np.complex128)
    if exact and not element.startswith("c"):
        return np.array_equal(ours, theirs, equal_nan=True)
    finite = np.isfinite(theirs) & np.isfinite(ours)
    scale = max(1.0, float(np.max(np.abs(theirs[finite]), initial=0)))
    same = np.array_equal(np.where(finite, 0, ours), np.where(finite, 0, theirs), equal_nan=True)
    return same and bool(np.all(np.abs(ours[finite] - theirs[finite]) <= LOOSE.get(element, 1e-5) * scale))


def recombined(name, results):
    """Of factors that rounding may choose otherwise, what they are factors of."""
    if any(part.size == 0 for part in results):
        return []
    kind = results[0].dtype
    wide = [part.astype(np.complex128 if np.iscomplexobj(part) else np.float64) for part in results]
    kind = np.result_type(*(part.dtype for part in results if part.dtype.kind in "fc")) if kind.kind in "fc" else kind
    if name == "qr":
        products = [wide[0] @ wide[1]]
    elif name == "eigh":
        products = [wide[0], wide[1] * wide[0][..., None, :] @ np.conj(np.swapaxes(wide[1], -1, -2))]
    elif name == "eig":
        products = [
            np.swapaxes(
                np.linalg.solve(*(np.swapaxes(y, -1, -2) for y in (wide[1], wide[1] * wide[0][..., None, :]))), -1, -2
            )
        ]
    elif name == "svd":
        count = wide[1].shape[-1]
        products = [wide[1], wide[0][..., :count] * wide[1][..., None, :] @ wide[2][..., :count, :]]
    else:
        count = min(wide[0].shape[-2:])
        lower = np.tril(wide[0], -1)[..., :count] + np.eye(wide[0].shape[-2], count)
        product, rows = lower @ np.triu(wide[0])[..., :count, :], results[2]
        products = [np.empty_like(product)]
        np.put_along_axis(products[0], np.broadcast_to(rows[..., None], product.shape), product, -2)
    return [product.astype(kind) for product in products]


def step_of(rng, name, program):
    """What a step of the program binds, or None if it is too large to run or reads another table."""
    if sum(getattr(type_, "numel", 0) for type_ in program.types) > 20_000:
        return None
    if any(arg.kind == "table" and arg.type != TABLE for arg in program.args):
        return None
    uploads = [
        # What functions of complex numbers give at infinities and near overflow is not specified.
        values(rng, NAMES[arg.type.element], arg.type.shape, edges=name not in TAME and arg.type.element < C64)
        for arg in program.args
        if arg.kind == "upload"
    ]
    fields = {"uploads": uploads} if uploads else {}
    if any(arg.kind == "table" for arg in program.args):
        fields["tables"] = ["d"]
    return fields


@pytest.mark.parametrize("name", sorted(FORMS))
def test_both_runtimes_agree(owners, rng, name):
    """On which programs run, and on what they give: no program is accepted by one owner alone."""
    dice = random.Random(int(rng.integers(1 << 60)))
    clients = [Client(owner) for owner in owners]
    compared = refused = tried = 0
    while tried < ROUNDS or compared < COMPARED:
        p = build(name)
        for _ in range(0 if tried == 0 else dice.randint(1, 3)):
            change(p, dice)
        tried += 1
        assert tried <= 50 * ROUNDS, f"only {compared} of {tried} programs ran"
        data = canonical(p).encode()
        try:
            program = decode(data)
        except OwnerError as error:
            reply = clients[0].step(data, uploads=[])
            assert reply.kind == "Error" and "the request binds" not in reply.message, (error.message, p.ops, p.types)
            assert {reply.code, error.code} <= {errors.MALFORMED, errors.LIMIT, errors.UNSUPPORTED}, reply.message
            refused += 1
            continue
        fields = step_of(rng, name, program)
        if fields is None:
            continue
        replies = [client.step(data, **fields) for client in clients]
        if any(rows_of(5, part).rows == 0 for parts in program.parts.values() for part in parts):
            assert {(reply.kind, reply.code) for reply in replies} == {("Error", errors.DATASET)}, replies
            assert len({reply.message for reply in replies}) == 1, replies
            continue
        for reply in replies:
            assert reply.kind == "Done", (reply.message, p.ops, p.types, p.dims, p.attrs, p.ints)
        results = [published(reply) for reply in replies]
        assert len(results[0]) == len(results[1]) == len(program.results) >= 1
        if name in ("lu", "qr", "eigh", "eig", "svd"):
            element = NAMES[program.types[program.results[0].value].element]
            for ours, theirs in zip(*(recombined(name, result) for result in results)):
                assert agree(False, element, ours / 8, theirs / 8), (element, fields, ours, theirs)
            compared += 1
            continue
        for ours, theirs, result in zip(*results, program.results):
            element = NAMES[program.types[result.value].element]
            case = (element, fields, p.dims, p.ints, ours, theirs)
            assert ours.dtype == theirs.dtype and ours.shape == theirs.shape, case
            assert agree(exact(name, p), element, ours, theirs), case
        compared += 1
    assert refused >= 1


# Of an op's attribute: an integer that both owners take (None: the form's own), and a kind, element type and integer
# that both refuse. Kinds in the order of Program.fbs: integer, boolean, real, integers, type, string, strings, reals.
NAN, QUIET = 0x7FF8 << 48, 1 << 51
TINY, THIRD, HALF = (int(np.array(x).view(np.int64)) for x in (1e-300, 1 / 3, 1 / 2))
SPELLINGS = {
    "integer of another type": ("argmax", "dim", None, (0, "i32", 1)),
    "integer that is a boolean": ("argmax", "dim", None, (1, "i1", 1)),
    "integer beyond its type": ("constant", "value", None, (0, "i8", 128)),
    "boolean of -1": ("sort", "descending", 0, (1, "i1", -1)),
    "boolean of 2": ("sort", "descending", 1, (1, "i1", 2)),
    "boolean of another type": ("sort", "descending", None, (1, "i64", 0)),
    "real that is rounded": ("constant", "value", 0, (2, "f32", THIRD)),
    "real that is too small": ("constant", "value", 1 << 63, (2, "f32", TINY)),
    "NaN with a long payload": ("constant", "value", NAN, (2, "f32", NAN + 1)),
    "signaling NaN": ("constant", "value", NAN | 1 << 40, (2, "f32", (NAN | 1 << 40) ^ QUIET)),
    "real of an integer type": ("constant", "value", None, (2, "i32", 0)),
    "integers of another type": ("transpose", "perm", None, (3, "i32", 1)),
    "string of another type": ("put", "kind", None, (5, "i1", 0)),
    "string that is not there": ("put", "kind", None, (5, "i64", 1 << 40)),
    "strings of another type": ("read_rows", "columns", None, (6, "f32", 0)),
    "reals of another type": ("sample_rows", "fractions", None, (7, "f32", HALF)),
}


@pytest.mark.parametrize("what", SPELLINGS)
def test_an_attribute_has_one_spelling(owners, what):
    name, attr, right, (kind, element, wrong) = SPELLINGS[what]
    for owner in owners:
        good, bad = build(name), build(name)
        (at,) = (k for k, record in enumerate(good.attrs) if good.strings[record[0]] == attr)
        name_id, begin, count, *_ = good.attrs[at]
        if right is not None:
            good.ints[begin] = right - (right >> 63 << 64)
        reply = Client(owner).step(canonical(good).encode(), uploads=[])
        assert reply.kind == "Done" or re.search("the request binds|step gives", reply.message), reply.message
        bad.attrs[at] = (name_id, begin, count, kind, NAMES.index(element), 0)
        bad.ints[begin] = wrong
        reply = Client(owner).step(canonical(bad).encode(), uploads=[])
        assert reply.kind == "Error" and reply.code == errors.MALFORMED and f"'{attr}'" in reply.message, reply


ELEMENTS = "i1 i8 i16 i32 i64 u8 f16 bf16 f32 f64 c64 c128".split()


@pytest.mark.parametrize("element", ELEMENTS)
def test_every_conversion_agrees(owners, rng, element):
    """Every element type to every other, of a scalar, an empty tensor and more than one block."""
    clients = [Client(owner) for owner in owners]
    for to in ELEMENTS:
        for shape in [(), (0, 2), (3, 4), (129, 67)]:
            p = ProgramBuilder()
            p.result("publish", p.op("convert", [p.arg("upload", t(element, *shape))], t(to, *shape)))
            uploads = [values(rng, element, shape, edges=True)]
            replies = [client.step(canonical(p).encode(), uploads=uploads) for client in clients]
            if element.startswith("c") and not to.startswith("c"):
                assert all(reply.kind == "Error" and "real" in reply.message for reply in replies)
                continue
            assert [reply.kind for reply in replies] == ["Done", "Done"], [reply.message for reply in replies]
            ours, theirs = (published(reply)[0] for reply in replies)
            assert ours.dtype == theirs.dtype and np.array_equal(
                ours, theirs, equal_nan=ours.dtype.kind not in "iub"
            ), (
                to,
                uploads,
                ours,
                theirs,
            )


@pytest.mark.parametrize("element", ["c64", "c128"])
@pytest.mark.parametrize("name", ["add", "sub", "neg", "eq", "ne"])
def test_complex_arithmetic_goes_by_parts(owners, rng, name, element):
    """Sums, negation and equality of complex numbers, infinities and NaN among them, against their parts."""
    for shape, other in [((3, 4), (3, 4)), ((129, 67), ()), ((), (7,)), ((5,), (5,))]:
        p = ProgramBuilder()
        sizes = [shape] if name == "neg" else [shape, other]
        operands = [p.arg("upload", t(element, *size)) for size in sizes]
        result = shape if len(shape) >= len(other) else other
        if name in ("eq", "ne"):
            p.result("publish", p.op("compare", operands, t("i1", *result), predicate=name))
        else:
            p.result("publish", p.op(name, operands, t(element, *(shape if name == "neg" else result))))
        numbers = [values(rng, element, size, edges=True) for size in sizes]
        for owner in owners:
            reply = Client(owner).step(canonical(p).encode(), uploads=numbers)
            found = published(reply)[0]
            real, imag = ([getattr(number, part) for number in numbers] for part in ("real", "imag"))
            if name in ("eq", "ne"):
                same = (real[0] == real[1]) & (imag[0] == imag[1])
                assert np.array_equal(found, same if name == "eq" else ~same)
                continue
            compute = {"add": np.add, "sub": np.subtract, "neg": np.negative}[name]
            with np.errstate(invalid="ignore"):
                assert np.array_equal(found.real, compute(*real), equal_nan=True)
                assert np.array_equal(found.imag, compute(*imag), equal_nan=True)


@pytest.mark.parametrize("element, digits", [("f16", 11), ("bf16", 8)])
def test_halves_are_rounded_once(owners, rng, element, digits):
    """f64 values beside ties, further from them than f32 tells, against exact fractions."""
    ties = 1 + (2 * rng.integers(0, 2 ** (digits - 1), 50) + 1) * 2.0**-digits
    numbers = np.concatenate([ties, ties + 2.0**-45, ties - 2.0**-45]) * rng.choice([-1.0, 1.0, 4.0], 150)
    p = ProgramBuilder()
    p.result("publish", p.op("convert", [p.arg("upload", t("f64", 150))], t(element, 150)))
    wanted = []
    for number in numbers.tolist():
        unit = fractions.Fraction(2) ** (math.frexp(number)[1] - digits)
        wanted.append(float(round(fractions.Fraction(number) / unit) * unit))
    for owner in owners:
        reply = Client(owner).step(canonical(p).encode(), uploads=[numbers])
        assert published(reply)[0].astype(np.float64).tolist() == wanted
