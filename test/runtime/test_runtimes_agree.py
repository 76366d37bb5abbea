# SPDX-License-Identifier: Apache-2.0
"""One program, both runtimes: every core op on random shapes, element types and values.

The two share no code but the schema, so each is the other's oracle: same programs accepted, same
values (exact where arithmetic is exact, a stated tolerance elsewhere).
"""

import fractions
import math
import random

import numpy as np
import pytest

pytest.importorskip("torch", reason="the native runtime needs torch")
import torch
from numpy_builder import Client, ProgramBuilder, published, t
from numpy_oracle import values
from test_numpy_total import FORMS, TABLE, build, change

import _sojourn
from sojourn_numpy import NumpyOwner, OwnerError, decode
from sojourn_numpy.types import NAMES

ROUNDS = 40
# Relative to the largest magnitude of the result, per element type of 8 or 4 bytes; halves round once.
LOOSE = {"f64": 1e-12, "f32": 2e-5, "f16": 4e-3, "bf16": 3e-2}
# Sums and products in another order, and functions of the mathematics library.
INEXACT = set(
    "exp expm1 log log1p sqrt sin cos tanh logistic erf erfc erfinv lgamma digamma pow atan2 rng_normal dot conv "
    "conv_grad_input conv_grad_weight reduce_sum reduce_prod cumsum cumprod cumlogsumexp pool_sum rem div".split()
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


def canonical(p):
    """The one encoding that the native owner reads: strings by first use, sizes type by type."""
    strings = []

    def intern(index):
        text = p.strings[index]
        if text not in strings:
            strings.append(text)
        return strings.index(text)

    p.tables[:] = [(rows, [intern(name) for name in names], *rest) for rows, names, *rest in p.tables]
    attrs = list(p.attrs)
    ints = list(p.ints)
    for at, (name, *operands, attr_begin, attr_count) in enumerate(p.ops):
        p.ops[at] = (intern(name), *operands, attr_begin, attr_count)
        for index in range(attr_begin, attr_begin + attr_count):
            key, begin, count, kind, *rest = attrs[index]
            attrs[index] = (intern(key), begin, count, kind, *rest)
            if kind in (5, 6):
                ints[begin : begin + count] = [intern(text) for text in ints[begin : begin + count]]
    p.attrs[:], p.ints[:], p.strings[:] = attrs, ints, strings
    dims, types = [], []
    for element, rank, reserved, begin in p.types:
        types.append((element, rank, reserved, len(dims)))
        dims.extend(p.dims[begin : begin + rank])
    p.types[:], p.dims[:] = types, dims
    return p


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


@pytest.mark.parametrize("name", sorted(FORMS))
def test_both_runtimes_agree(owners, rng, name):
    dice = random.Random(int(rng.integers(1 << 60)))
    clients = [Client(owner) for owner in owners]
    compared = 0
    for round_ in range(ROUNDS):
        p = build(name)
        for _ in range(0 if round_ == 0 else dice.randint(1, 3)):
            change(p, dice)
        try:
            decode(p.encode())
            data = canonical(p).encode()
            program = decode(data)
        except OwnerError:
            data = p.encode()
            reply = clients[0].step(data, uploads=[])
            assert reply.kind == "Error", f"only the native owner accepts {p.ops} {p.types}"
            continue
        if sum(getattr(type_, "numel", 0) for type_ in program.types) > 20_000:
            continue
        if any(arg.kind == "table" and arg.type != TABLE for arg in program.args):
            continue
        uploads = [
            # What functions of complex numbers give at infinities and near overflow is not specified.
            values(rng, NAMES[arg.type.element], arg.type.shape, edges=name not in TAME and arg.type.element < C64)
            for arg in program.args
            if arg.kind == "upload"
        ]
        fields = {"uploads": uploads} if uploads else {}
        if any(arg.kind == "table" for arg in program.args):
            fields["tables"] = ["d"]
        replies = [client.step(data, **fields) for client in clients]
        assert replies[1].kind == "Done", replies[1].message
        if replies[0].kind == "Error" and "attribute" in replies[0].message:
            continue  # stricter on how an attribute is spelled (its element type, a boolean of -1)
        assert replies[0].kind == "Done", (replies[0].message, p.ops, p.types, p.dims, p.ints)
        for ours, theirs, type_ in zip(published(replies[0]), published(replies[1]), program.types[-len(p.results) :]):
            element = NAMES[type_.element]
            assert agree(exact(name, p), element, ours, theirs), (element, uploads, p.dims, p.ints, ours, theirs)
        compared += 1
    assert compared >= 1


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
