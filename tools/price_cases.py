# SPDX-License-Identifier: Apache-2.0
"""One-op programs for tools/prices.py: for each core op the shapes, attributes and values at which it is slow for its
price, or at which a formula of shapes is easily wrong."""

from __future__ import annotations

import math
import pathlib
import re

from price_matrices import convolutions, dots, factors, fouriers, pools
from price_program import Case, t

ROOT = pathlib.Path(__file__).resolve().parent.parent
ELEMENTS = 1 << 16  # of an ordinary operand
HOSTILE = {  # of floats: least and largest
    "f32": ["1", "-2:2", "1e-42", "3e38", "-3e38:3e38", "nan", "inf", "1e-6", "-1e5:1e5", "300.5"],
    "f64": ["1", "-2:2", "5e-320", "1e308", "-1e308:1e308", "nan", "inf", "1e-12", "-1e15:1e15", "300.5"],
}
UNARY = "neg abs sign floor ceil round exp expm1 log log1p sqrt sin cos tanh logistic erf erfc erfinv lgamma digamma"
BINARY = "add sub mul div rem pow atan2 max min"
INTEGERS = "add sub mul div rem pow max min and or xor shl shr"
SLOW_FUNCTIONS = [
    ("zeta", "f32", "1e4", "-4095.5"),
    ("laguerre_polynomial_l", "f64", "0.5", "4096"),
    ("legendre_polynomial_p", "f64", "0.5", "4096"),
    ("laguerre_polynomial_l", "f32", "1e-6", "4095.5"),
]


def functions(arity):
    text = (ROOT / "dialect/SpecialFunctions.def").read_text()
    return re.findall(rf"^SOJOURN_SPECIAL\((\w+), {arity}\)", text, re.MULTILINE)


def elementwise():
    x = [ELEMENTS]
    for element, fills in HOSTILE.items():
        of = t(x, element)
        for fill in fills:
            for op in UNARY.split():
                yield Case(f"{op}/{element}/{fill}", [(of, fill)], f"sojourn.{op} %0 : {of}", [of])
            for function in functions(1):
                op = f'sojourn.special "{function}" %0 : {of}'
                yield Case(f"special/{function}/{element}/{fill}", [(of, fill)], op, [of])
            for other in fills:
                for op in BINARY.split():
                    text = f"sojourn.{op} %0, %1 : {of}, {of}"
                    yield Case(f"{op}/{element}/{fill}/{other}", [(of, fill), (of, other)], text, [of])
        few = t([1 << 8], element)
        degrees = ["4096", "4095.5", "2:100", "31.5", "0.5", "-4095.5", "1e-3", "1e10", "200.7"]
        for function in functions(2):
            for fill in [*fills, "0.5", "-0.9:0.9", "2:50", "4000.5", "1.0001", "4096", "1e4", "1e6"]:
                for other in degrees:
                    op = f'sojourn.special_binary "{function}" %0, %1 : {few}, {few}'
                    named = (function, element, fill, other)
                    quick = named in SLOW_FUNCTIONS
                    yield Case(f"special_binary/{'/'.join(named)}", [(few, fill), (few, other)], op, [few], quick)
    wide, tiny = ("1e300", "1e-300")
    of = t(x, "f64")
    yield Case("rem/f64/1e300/1e-300", [(of, wide), (of, tiny)], f"sojourn.rem %0, %1 : {of}, {of}", [of], quick=True)
    yield Case("rem/f64/near", [(of, "1e5:1e6"), (of, "1:2")], f"sojourn.rem %0, %1 : {of}, {of}", [of])
    for element in ("i64", "i32", "i8", "ui8", "i16"):
        of = t(x, element)
        for fill, other in (("1", "1"), ("-100:100", "-100:100"), ("127", "3"), ("100", "0")):
            for op in INTEGERS.split():
                text = f"sojourn.{op} %0, %1 : {of}, {of}"
                yield Case(f"{op}/{element}/{fill}/{other}", [(of, fill), (of, other)], text, [of])
    of = t(x, "i64")
    text = f"sojourn.pow %0, %1 : {of}, {of}"
    yield Case("pow/i64/large", [(of, "3"), (of, "4e18")], text, [of])
    for element in ("f16", "bf16"):
        of = t(x, element)
        for fill in ("-2:2", "1e-7", "nan"):
            for op in UNARY.split():
                yield Case(f"{op}/{element}/{fill}", [(of, fill)], f"sojourn.{op} %0 : {of}", [of])
            text = f"sojourn.add %0, %1 : {of}, {of}"
            yield Case(f"add/{element}/{fill}", [(of, fill), (of, fill)], text, [of])
    for element in ("complex<f32>", "complex<f64>"):
        of = t(x, element)
        for fill in ("-2:2", "1e-30", "1e30", "nan", "inf"):
            for op in ("neg", "exp", "log", "sqrt", "sin", "cos", "tanh"):
                yield Case(f"{op}/{element}/{fill}", [(of, fill)], f"sojourn.{op} %0 : {of}", [of])
            for op in ("add", "mul", "div", "pow"):
                text = f"sojourn.{op} %0, %1 : {of}, {of}"
                yield Case(f"{op}/{element}/{fill}", [(of, fill), (of, fill)], text, [of])
    kinds = ["f32", "f64", "f16", "bf16", "i64", "i32", "ui8", "i1"]
    for source in kinds:
        for target in kinds:
            if source != target:
                for fill in (
                    "1",
                    "1e4" if source not in ("ui8", "i1") else "0",
                    "nan" if source in ("f32", "f64") else "1",
                ):
                    op = f"sojourn.convert %0 : {t(x, source)} -> {t(x, target)}"
                    yield Case(f"convert/{source}/{target}/{fill}", [(t(x, source), fill)], op, [t(x, target)])


def layouts():
    n = 1 << 18
    long, wide, square, many = [n, 1], [1, n], [512, 512], [2] * 16
    for shape in (long, wide, square, [64, 64, 64], many):
        of, rank = t(shape), len(shape)
        turned = list(range(rank))[::-1]
        yield Case(
            f"transpose/{rank}/{shape[0]}", [(of, "1")], f"sojourn.transpose %0, perm = {turned} : {of}",
            [t([shape[k] for k in turned])],
        )  # fmt: skip
        dims = list(range(rank))
        yield Case(f"reverse/{rank}/{shape[0]}", [(of, "1")], f"sojourn.reverse %0, dims = {dims} : {of}", [of])
        for dim in {0, rank - 1}:
            whole = [size * (2 if k == dim else 1) for k, size in enumerate(shape)]
            yield Case(
                f"concat/{rank}/{shape[0]}/{dim}", [(of, "1"), (of, "1")],
                f"sojourn.concat %0, %1 dim = {dim} : {of}, {of}", [t(whole)],
            )  # fmt: skip
            rest = [size for k, size in enumerate(shape) if k != dim]
            for op in "sum prod max min".split():
                yield Case(
                    f"reduce_{op}/{rank}/{shape[0]}/{dim}", [(of, "0.5:1.5")],
                    f"sojourn.reduce_{op} %0, dims = [{dim}] : {of}", [t(rest)],
                )  # fmt: skip
            for op in ("argmax", "argmin"):
                yield Case(
                    f"{op}/{rank}/{shape[0]}/{dim}", [(of, "0:1")], f"sojourn.{op} %0, dim = {dim} : {of}",
                    [t(rest, "i64")],
                )  # fmt: skip
            for op in "cumsum cumprod cumlogsumexp".split():
                for fill in ("0.9:1.1", "-1e30", "nan"):
                    yield Case(
                        f"{op}/{rank}/{shape[0]}/{dim}/{fill}", [(of, fill)],
                        f"sojourn.{op} %0, dim = {dim} : {of}", [of],
                    )  # fmt: skip
            for op in ("cummax", "cummin"):
                yield Case(f"{op}/{rank}/{shape[0]}/{dim}", [(of, "0:1")], f"sojourn.{op} %0, dim = {dim} : {of}", [of])
            for fill in ("0:1", "1", "nan"):
                yield Case(
                    f"sort/{rank}/{shape[0]}/{dim}/{fill}", [(of, fill)],
                    f"sojourn.sort %0, dim = {dim}, descending = false : {of}", [of, t(shape, "i64")],
                )  # fmt: skip
        every = list(range(0, rank, 2))
        rest = [size for k, size in enumerate(shape) if k not in every]
        yield Case(
            f"reduce_sum/{rank}/{shape[0]}/every",
            [(of, "1")],
            f"sojourn.reduce_sum %0, dims = {every} : {of}",
            [t(rest)],
        )
    for rows in (1, 2, 1 << 20):
        of = t([1 << 20])
        result = t([1 << 20, 1]) if rows == 1 else t([2, 1 << 20])
        if rows < 3:
            yield Case(
                f"broadcast/{rows}", [(of, "1")],
                f"sojourn.broadcast %0, dims = [{0 if rows == 1 else 1}] : {of} -> {result}", [result],
            )  # fmt: skip
    yield Case(
        "broadcast/last",
        [(t([1 << 19]), "1")],
        f"sojourn.broadcast %0, dims = [0] : {t([1 << 19])} -> {t([1 << 19, 2])}",
        [t([1 << 19, 2])],
    )
    of = t([1 << 10, 1 << 10])
    yield Case(
        "slice/stride",
        [(of, "1")],
        f"sojourn.slice %0, start = [0, 0], limit = [1024, 1024], stride = [1, 1023] : {of}",
        [t([1024, 2])],
    )
    yield Case(
        "pad/wide",
        [(of, "1"), ("tensor<f32>", "0")],
        f"sojourn.pad %0, %1, low = [1, 1], high = [1, 1], interior = [0, 0] : {of}, tensor<f32>",
        [t([1026, 1026])],
    )
    yield Case(
        "pad/thin",
        [(t([1 << 19, 1]), "1"), ("tensor<f32>", "0")],
        f"sojourn.pad %0, %1, low = [0, 0], high = [0, 1], interior = [0, 0] : {t([1 << 19, 1])}, tensor<f32>",
        [t([1 << 19, 2])],
    )
    yield Case("iota", [], f"sojourn.iota dim = 0 : {t([1 << 18], 'i64')}", [t([1 << 18], "i64")])
    yield Case("iota/f16", [], f"sojourn.iota dim = 0 : {t([1 << 18], 'f16')}", [t([1 << 18], "f16")])
    for op, element in (
        ("rng_bits", "i64"),
        ("rng_uniform", "f32"),
        ("rng_uniform", "f64"),
        ("rng_normal", "f32"),
        ("rng_normal", "f64"),
    ):
        of = t([1 << 16], element)
        yield Case(f"{op}/{element}", [("tensor<i64>", "7")], f"sojourn.{op} %0, stream = 1 : {of}", [of])
    for k in (1, 3, 1 << 10):
        for shape in ([1, 1 << 16], [1 << 6, 1 << 10], [1 << 16, 1]):
            if k <= shape[1]:
                out = [shape[0], k]
                yield Case(
                    f"topk/{k}/{shape[0]}",
                    [(t(shape), "0:1")],
                    f"sojourn.topk %0, dim = 1, k = {k}, largest = true : {t(shape)}",
                    [t(out), t(out, "i64")],
                )


def parts():
    """Ops that choose, write or name parts of what they take."""
    n = 1 << 18
    for shape in ([n, 1], [1, n], [512, 512], [2] * 15):
        of, truth, whole = t(shape), t(shape, "i1"), t(shape, "complex<f32>")
        pairs, flat = t([*shape, 2]), t([math.prod(shape)])
        name = f"{len(shape)}/{shape[0]}"
        yield Case(f"bitcast/{name}", [(of, "1")], f"sojourn.bitcast %0 : {of} -> {t(shape, 'i32')}", [t(shape, "i32")])
        yield Case(f"complex/{name}", [(pairs, "1")], f"sojourn.complex %0 : {pairs}", [whole])
        yield Case(f"parts/{name}", [(whole, "1")], f"sojourn.parts %0 : {whole}", [pairs])
        yield Case(f"reshape/{name}", [(of, "1")], f"sojourn.reshape %0 : {of} -> {flat}", [flat])
        yield Case(f"not/{name}", [(truth, "1")], f"sojourn.not %0 : {truth}", [truth])
        for fill in ("0:1", "nan"):
            text = f'sojourn.compare "lt" %0, %1 : {of}, {of}'
            yield Case(f"compare/{name}/{fill}", [(of, fill), (of, fill)], text, [truth])
        text = f"sojourn.select %0, %1, %2 : {truth}, {of}, {of}"
        yield Case(f"select/{name}", [(truth, "1"), (of, "1"), (of, "2")], text, [of])
        dim = max(range(len(shape)), key=lambda k: shape[k])
        half = t([size // 2 if k == dim else size for k, size in enumerate(shape)])
        text = f"sojourn.dynamic_slice %0 from [%1], dims = [{dim}], sizes = [{shape[dim] // 2}] : {of}, tensor<i64>"
        yield Case(f"dynamic_slice/{name}", [(of, "1"), ("tensor<i64>", "1")], text, [half])
        text = f"sojourn.dynamic_update_slice %0, %1 from [%2], dims = [{dim}] : {of}, {half}, tensor<i64>"
        yield Case(f"dynamic_update_slice/{name}", [(of, "1"), (half, "2"), ("tensor<i64>", "1")], text, [of])
        start, stride = [0] * len(shape), [2 if k == dim else 1 for k in range(len(shape))]
        text = f"sojourn.update_slice %0, %1, start = {start}, stride = {stride} : {of}, {half}"
        yield Case(f"update_slice/{name}", [(of, "1"), (half, "2")], text, [of])


def indices():
    for rows, width, count in ((1 << 20, 1, 1 << 18), (2, 1, 1 << 18), (1 << 10, 1 << 8, 1 << 10), (1, 1 << 18, 4)):
        x, i, u = t([rows, width]), t([count], "i64"), t([count, width])
        for fill in (f"0:{rows}", "0", "-1"):
            name = f"{rows}x{width}/{count}/{fill}"
            yield Case(f"take/{name}", [(x, "1"), (i, fill)], f"sojourn.take %0, %1, dim = 0 : {x}, {i}", [u])
            for kind in "set add mul max min".split():
                text = f'sojourn.put "{kind}" %0, %1, %2, dim = 0 : {x}, {i}, {u}'
                yield Case(f"put/{kind}/{name}", [(x, "1"), (i, fill), (u, "1")], text, [x])
            along = t([count, width], "i64")
            yield Case(
                f"take_along/{name}",
                [(x, "1"), (along, fill)],
                f"sojourn.take_along %0, %1, dim = 0 : {x}, {along}",
                [u],
            )
            for kind in "set add mul max min".split():
                text = f'sojourn.put_along "{kind}" %0, %1, %2, dim = 0 : {x}, {along}, {u}'
                yield Case(f"put_along/{kind}/{name}", [(x, "1"), (along, fill), (u, "1")], text, [x])
    x, i = t([1 << 16, 4]), t([1 << 16], "i64")
    yield Case(
        "take/dim1",
        [(x, "1"), (t([8], "i64"), "0:4")],
        f"sojourn.take %0, %1, dim = 1 : {x}, {t([8], 'i64')}",
        [t([1 << 16, 8])],
    )


def rows():
    table, positions, number = '!sojourn.table<?, "age" : f64>', t([1 << 14], "i64"), "tensor<i64>"
    types = f"{positions}, {number}, {number}, {table} -> {positions}"
    for count in (1, 257, (1 << 20) + 1, (1 << 33) + 1):
        for part in ("", ", part = [first 5.000000e-01, other 5.000000e-01, first 5.000000e-01]"):
            text = f"sojourn.sample_rows %0, %1, %2 of %3{part} : {types}"
            fills = [(positions, f"0:{max(1, count // 8)}"), (number, "3"), (number, "5"), (table, str(count))]
            yield Case(f"sample_rows/{count}/{'part' if part else 'all'}", fills, text, [positions])
    out = t([1 << 14, 1], "f32")
    text = f'sojourn.read_rows %0, %1, columns = ["age"] : {table}, {positions} -> {out}'
    yield Case("read_rows", [(table, "1000"), (positions, "0:1000")], text, [out])


def cases():
    """Every case; names are unique."""
    for family in (elementwise, layouts, parts, indices, dots, factors, fouriers, convolutions, pools, rows):
        yield from family()
