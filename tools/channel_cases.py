# SPDX-License-Identifier: Apache-2.0
"""Small one-op programs for tools/bench_channels.py: for each core op that may meet private rows, the operands that they
reach. A fill LEAST:MOST is varied over the classes of values, =LEAST:MOST is the same for all of them."""

from __future__ import annotations

import pathlib
import re

from price_cases import BINARY, INTEGERS, UNARY, functions
from price_matrices import window
from price_program import Case, t

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINE, SQUARE = [256], [16, 16]
FLOATS = ("f32", "f64")
# Ops whose operands are public, or that the measurement does not cover: why.
LEFT_OUT = {
    "constant": "has no operand",
    "iota": "has no operand",
    "rng_bits": "its operand is a seed, which is the client's",
    "rng_uniform": "its operand is a seed, which is the client's",
    "rng_normal": "its operand is a seed, which is the client's",
    "sample_rows": "its operands are the epoch's numbers, which are public",
}


def declared(kind: str = "oblivious") -> list[str] | None:
    """Ops that the product declares to be of this kind; nothing where it has no such list."""
    path = ROOT / "runtime/KernelTimes.def"
    if not path.exists():
        return None
    return re.findall(rf"^SOJOURN_KERNEL_TIME\((\w+), {kind}\b", path.read_text(), re.MULTILINE)


def elementwise():
    for element in FLOATS:
        of = t(LINE, element)
        for op in UNARY.split():
            yield Case(f"{op}/{element}", [(of, "-2:2")], f"sojourn.{op} %0 : {of}", [of])
        for op in BINARY.split():
            text = f"sojourn.{op} %0, %1 : {of}, {of}"
            yield Case(f"{op}/{element}", [(of, "-2:2"), (of, "-2:2")], text, [of])
            yield Case(f"{op}/{element}/second", [(of, "=-2:2"), (of, "-2:2")], text, [of])
        for function in functions(1):
            yield Case(f"special/{function}/{element}", [(of, "0:1")], f'sojourn.special "{function}" %0 : {of}', [of])
        for function in functions(2):
            text = f'sojourn.special_binary "{function}" %0, %1 : {of}, {of}'
            yield Case(f"special_binary/{function}/{element}", [(of, "0:1"), (of, "1:9")], text, [of])
    for element in ("i64", "i32", "i8"):
        of = t(LINE, element)
        for op in ("neg", "abs", "sign"):
            yield Case(f"{op}/{element}", [(of, "-99:99")], f"sojourn.{op} %0 : {of}", [of])
        for op in INTEGERS.split():
            text = f"sojourn.{op} %0, %1 : {of}, {of}"
            yield Case(f"{op}/{element}", [(of, "-99:99"), (of, "-99:99")], text, [of])
            yield Case(f"{op}/{element}/second", [(of, "=-99:99"), (of, "-99:99")], text, [of])
    for element in ("f16", "bf16", "complex<f32>"):
        of = t(LINE, element)
        for op in ("neg", "exp", "tanh"):
            yield Case(f"{op}/{element}", [(of, "-2:2")], f"sojourn.{op} %0 : {of}", [of])
        for op in ("add", "mul", *(("div",) if element != "complex<f32>" else ())):  # which is covered
            text = f"sojourn.{op} %0, %1 : {of}, {of}"
            yield Case(f"{op}/{element}", [(of, "-2:2"), (of, "-2:2")], text, [of])
    for source, target in (
        ("f32", "f64"), ("f64", "f32"), ("f32", "f16"), ("f16", "f32"), ("f32", "bf16"), ("f32", "i64"), ("f64", "i64"),
        ("f32", "i1"), ("f32", "ui8"), ("i64", "f32"), ("i64", "i32"), ("i1", "f32"),
    ):  # fmt: skip
        text = f"sojourn.convert %0 : {t(LINE, source)} -> {t(LINE, target)}"
        yield Case(f"convert/{source}/{target}", [(t(LINE, source), "-2:2")], text, [t(LINE, target)])


def layouts():
    of, line, number, truth = t(SQUARE), t(LINE), "tensor<i64>", t(LINE, "i1")
    for element in FLOATS:
        kind, bits = t(LINE, element), t(LINE, "i1")
        text = f'sojourn.compare "lt" %0, %1 : {kind}, {kind}'
        yield Case(f"compare/{element}", [(kind, "-2:2"), (kind, "-2:2")], text, [bits])
        text = f"sojourn.select %0, %1, %2 : {bits}, {kind}, {kind}"
        yield Case(f"select/{element}", [(bits, "0:1"), (kind, "-2:2"), (kind, "-2:2")], text, [kind])
    yield Case("not", [(truth, "0:1")], f"sojourn.not %0 : {truth}", [truth])
    whole = t(LINE, "i32")
    yield Case("bitcast", [(line, "-2:2")], f"sojourn.bitcast %0 : {line} -> {whole}", [whole])
    pairs, complexes = t([256, 2]), t(LINE, "complex<f32>")
    yield Case("complex", [(pairs, "-2:2")], f"sojourn.complex %0 : {pairs}", [complexes])
    yield Case("parts", [(complexes, "-2:2")], f"sojourn.parts %0 : {complexes}", [pairs])
    wide, half, both = t([256, 2]), t([8, 16]), t([32, 16])
    one = {
        "broadcast": (line, f"broadcast %0, dims = [0] : {line} -> {wide}", wide),
        "reshape": (of, f"reshape %0 : {of} -> {line}", line),
        "transpose": (of, f"transpose %0, perm = [1, 0] : {of}", of),
        "slice": (of, f"slice %0, start = [0, 0], limit = [16, 16], stride = [2, 1] : {of}", half),
        "reverse": (of, f"reverse %0, dims = [0] : {of}", of),
    }
    for op, (kind, text, result) in one.items():
        yield Case(op, [(kind, "-2:2")], f"sojourn.{text}", [result])
    yield Case("concat", [(of, "-2:2"), (of, "-2:2")], f"sojourn.concat %0, %1 dim = 0 : {of}, {of}", [both])
    text = f"sojourn.pad %0, %1, low = [1, 1], high = [1, 1], interior = [0, 0] : {of}, tensor<f32>"
    yield Case("pad", [(of, "-2:2"), ("tensor<f32>", "0")], text, [t([18, 18])])
    text = f"sojourn.update_slice %0, %1, start = [0, 0], stride = [2, 1] : {of}, {half}"
    yield Case("update_slice", [(of, "-2:2"), (half, "-2:2")], text, [of])
    text = f"sojourn.dynamic_slice %0 from [%1], dims = [0], sizes = [8] : {of}, {number}"
    yield Case("dynamic_slice", [(of, "-2:2"), (number, "0:8")], text, [half])
    text = f"sojourn.dynamic_update_slice %0, %1 from [%2], dims = [0] : {of}, {half}, {number}"
    yield Case("dynamic_update_slice", [(of, "-2:2"), (half, "-2:2"), (number, "0:8")], text, [of])


def along():
    for element in (*FLOATS, "i64"):
        for shape, dim in ((LINE, 0), (SQUARE, 0), (SQUARE, 1)):
            of, name = t(shape, element), f"{element}/{len(shape)}/{dim}"
            rest = [size for k, size in enumerate(shape) if k != dim]
            for op in ("sum", "prod", "max", "min"):
                text = f"sojourn.reduce_{op} %0, dims = [{dim}] : {of}"
                yield Case(f"reduce_{op}/{name}", [(of, "-2:2")], text, [t(rest, element)])
            for op in ("argmax", "argmin"):
                text = f"sojourn.{op} %0, dim = {dim} : {of}"
                yield Case(f"{op}/{name}", [(of, "-2:2")], text, [t(rest, "i64")])
            for op in ("cumsum", "cumprod", "cummax", "cummin", *(("cumlogsumexp",) if element != "i64" else ())):
                yield Case(f"{op}/{name}", [(of, "-2:2")], f"sojourn.{op} %0, dim = {dim} : {of}", [of])
            text = f"sojourn.sort %0, dim = {dim}, descending = false : {of}"
            yield Case(f"sort/{name}", [(of, "-2:2")], text, [of, t(shape, "i64")])
            few = [4 if k == dim else size for k, size in enumerate(shape)]
            text = f"sojourn.topk %0, dim = {dim}, k = 4, largest = true : {of}"
            yield Case(f"topk/{name}", [(of, "-2:2")], text, [t(few, element), t(few, "i64")])
    of, positions, square = t(LINE), t(LINE, "i64"), t(SQUARE)
    indices = t(SQUARE, "i64")
    fill = "0:256"
    yield Case("take", [(of, "-2:2"), (positions, fill)], f"sojourn.take %0, %1, dim = 0 : {of}, {positions}", [of])
    text = f"sojourn.take_along %0, %1, dim = 0 : {square}, {indices}"
    yield Case("take_along", [(square, "-2:2"), (indices, "0:16")], text, [square])
    for kind in "set add mul max min".split():
        text = f'sojourn.put "{kind}" %0, %1, %2, dim = 0 : {of}, {positions}, {of}'
        yield Case(f"put/{kind}", [(of, "-2:2"), (positions, fill), (of, "-2:2")], text, [of])
        text = f'sojourn.put_along "{kind}" %0, %1, %2, dim = 0 : {square}, {indices}, {square}'
        yield Case(f"put_along/{kind}", [(square, "-2:2"), (indices, "0:16"), (square, "-2:2")], text, [square])


def contractions():
    dims = "lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0]"
    for element in (*FLOATS, "bf16", "i64"):
        of, out = t(SQUARE, element), t(SQUARE, "f32" if element == "bf16" else element)
        text = f"sojourn.dot %0, %1, {dims} : {of}, {of} -> {out}"
        yield Case(f"dot/{element}", [(of, "-2:2"), (of, "-2:2")], text, [out])
    over = window([8, 8], [3, 3], padding=1)
    x, w = t([1, 4, 8, 8]), t([4, 4, 3, 3])
    attributes = f"{over.attributes()}, groups = 1"
    yield Case("conv", [(x, "-1:1"), (w, "-1:1")], f"sojourn.conv %0, %1, {attributes} : {x}, {w}", [x])
    text = f"sojourn.conv_grad_input %0, %1, {attributes} : {x}, {w} -> {x}"
    yield Case("conv_grad_input", [(x, "-1:1"), (w, "-1:1")], text, [x])
    text = f"sojourn.conv_grad_weight %0, %1, {attributes} : {x}, {x} -> {w}"
    yield Case("conv_grad_weight", [(x, "-1:1"), (x, "-1:1")], text, [w])
    over = window([16, 16], [2, 2], stride=2)
    x, y = t([1, 1, 16, 16]), [1, 1, 8, 8]
    text = f"window = {over.kernel}, {over.attributes()} : {x}"
    yield Case("pool_sum", [(x, "-1:1")], f"sojourn.pool_sum %0, {text}", [t(y)])
    yield Case("pool_max", [(x, "-1:1")], f"sojourn.pool_max %0, {text}", [t(y), t(y, "i64")])


def factors():
    x, line, one = t([1, 16, 16]), t([1, 16], "i64"), t([1], "i64")
    whole = t([1, 16], "complex<f32>")
    texts = {
        "cholesky": ("cholesky %0", [x, one]),
        "lu": ("lu %0", [x, line, line, one]),
        "qr": ("qr %0 full = false", [x, x]),
        "eigh": ("eigh %0", [t([1, 16]), x]),
        "svd": ("svd %0 full = false", [x, t([1, 16]), x]),
        "ldl": ("ldl %0 hermitian = false", [x, line, one]),
        "eig": ("eig %0", [whole, t([1, 16, 16], "complex<f32>")]),
    }
    for op, (text, results) in texts.items():
        yield Case(op, [(x, "-1:1")], f"sojourn.{text} : {x}", results)
    text = f"sojourn.triangular_solve %0, %1, lower = true, unit = false : {x}, {x}"
    yield Case("triangular_solve", [(x, "-1:1"), (x, "-1:1")], text, [x])
    text = f"sojourn.ldl_solve %0, %1, %2, hermitian = false : {x}, {line}, {x}"
    yield Case("ldl_solve", [(x, "-1:1"), (line, "1:16"), (x, "-1:1")], text, [x])
    x, y = t([64], "complex<f32>"), t([33], "complex<f32>")
    yield Case("fft_c2c", [(x, "-1:1")], f"sojourn.fft_c2c %0, dims = [0], inverse = false : {x}", [x])
    yield Case("fft_r2c", [(t([64]), "-1:1")], f"sojourn.fft_r2c %0, dims = [0] : {t([64])}", [y])
    yield Case("fft_c2r", [(y, "-1:1")], f"sojourn.fft_c2r %0, dims = [0], size = 64 : {y}", [t([64])])


def rows():
    numbers = t(LINE, "i64")
    yield Case("first_rows", [(numbers, "0:400")], f"sojourn.first_rows %0 : {numbers}", [numbers])
    table, positions, out = '!sojourn.table<?, "age" : f64>', numbers, t([256, 1])
    text = f'sojourn.read_rows %0, %1, columns = ["age"] : {table}, {positions} -> {out}'
    yield Case("read_rows", [(table, "@1000"), (positions, "0:1000")], text, [out])


def cases() -> dict[str, list[Case]]:
    """By op."""
    found: dict[str, list[Case]] = {}
    for family in (elementwise, layouts, along, contractions, factors, rows):
        for case in family():
            found.setdefault(case.name.split("/")[0], []).append(case)
    return found
