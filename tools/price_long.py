# SPDX-License-Identifier: Apache-2.0
"""Cases of tools/prices.py for long calls of the kernel library: operands large enough that the rates of
passes/LibraryTime.cpp hold."""

from __future__ import annotations

from price_matrices import window
from price_program import Case, t

COMPLEX = {"f32": "complex<f32>", "f64": "complex<f64>"}
# Images, channels, size, channels of the result, window, groups.
CONVOLUTIONS = [(1, 64, 192, 64, 3, 1), (1, 3, 512, 64, 7, 1), (2, 256, 48, 256, 3, 1), (2, 1, 256, 1, 31, 1)]


def products():
    for element in ("f32", "f64", "bf16", "complex<f32>", "i64"):
        for m, k, n in ((1024, 1024, 1024), (4, 1 << 22, 4), (1, 1 << 22, 1), (1 << 16, 64, 64)):
            a, b, out = t([m, k], element), t([k, n], element), t([m, n], "f32" if element == "bf16" else element)
            dims = "lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0]"
            yield Case(
                f"dot/long/{element}/{m}x{k}x{n}", [(a, "-1:1"), (b, "-1:1")],
                f"sojourn.dot %0, %1, {dims} : {a}, {b} -> {out}", [out],
            )  # fmt: skip


def positive_definite(n, element):
    """%d: %0, which is small, and ones on the diagonal."""
    x, number, truth = (t([1, n, n], kind) for kind in (element, "i64", "i1"))
    return (
        f"%i = sojourn.iota dim = 1 : {number}\n%j = sojourn.iota dim = 2 : {number}\n"
        f'%e = sojourn.compare "eq" %i, %j : {number}, {number}\n'
        f"%c = sojourn.convert %e : {truth} -> {x}\n%d = sojourn.add %0, %c : {x}, {x}\n"
    )


def factors():
    for real in ("f32", "f64"):
        for element in (real, COMPLEX[real]):
            for m, n in ((1200, 1200), (20000, 100)):
                x, k = t([1, m, n], element), min(m, n)
                whole = [t([1, k], "i64"), t([1, m], "i64"), t([1], "i64")]
                named = {
                    "lu": ("lu %0", [x, *whole]),
                    "qr": ("qr %0 full = false", [t([1, m, k], element), t([1, k, n], element)]),
                    "svd": ("svd %0 full = false", [t([1, m, k], element), t([1, k], real), t([1, k, n], element)]),
                }
                if m == n:
                    named["eigh"] = ("eigh %0", [t([1, n], real), x])
                    named["ldl"] = ("ldl %0 hermitian = false", [x, t([1, n], "i64"), t([1], "i64")])
                for op, (text, results) in named.items():
                    yield Case(f"{op}/long/{element}/{m}x{n}", [(x, "-1:1")], f"sojourn.{text} : {x}", results)
            x, pivots = t([1, 1200, 1200], element), t([1, 1200], "i64")
            yield Case(
                f"cholesky/long/{element}", [(x, "-1e-4:1e-4")], f"sojourn.cholesky %d : {x}", [x, t([1], "i64")],
                before=positive_definite(1200, element),
            )  # fmt: skip
            yield Case(
                f"ldl_solve/long/{element}", [(x, "-1:1"), (pivots, "1"), (x, "-1:1")],
                f"sojourn.ldl_solve %0, %1, %2, hermitian = false : {x}, {pivots}, {x}", [x],
            )  # fmt: skip
            yield Case(
                f"triangular_solve/long/{element}", [(x, "-1:1"), (x, "-1:1")],
                f"sojourn.triangular_solve %0, %1, lower = true, unit = false : {x}, {x}", [x],
            )  # fmt: skip
            x, values = t([1, 500, 500], element), t([1, 500], COMPLEX[real])
            vectors = t([1, 500, 500], COMPLEX[real])
            yield Case(f"eig/long/{element}", [(x, "-1:1")], f"sojourn.eig %0 : {x}", [values, vectors])


def fouriers():
    for element in COMPLEX.values():
        for shape, dims in (([1 << 22], [0]), ([1 << 11, 1 << 11], [0, 1]), ([3**13], [0])):
            x = t(shape, element)
            text = f"sojourn.fft_c2c %0, dims = {dims}, inverse = false : {x}"
            yield Case(f"fft_c2c/long/{element}/{shape[0]}", [(x, "-1:1")], text, [x])
    for real, element in COMPLEX.items():
        for shape, dims in (([1 << 23], [0]), ([1 << 11, 1 << 12], [0, 1]), ([3**13], [0])):
            x, y = t(shape, real), t([*shape[:-1], shape[-1] // 2 + 1], element)
            yield Case(
                f"fft_r2c/long/{real}/{shape[0]}", [(x, "-1:1")], f"sojourn.fft_r2c %0, dims = {dims} : {x}", [y]
            )
            text = f"sojourn.fft_c2r %0, dims = {dims}, size = {shape[-1]} : {y}"
            yield Case(f"fft_c2r/long/{real}/{shape[0]}", [(y, "-1:1")], text, [x])


def convolutions():
    for element in ("f32", "f64", "bf16"):
        for images, channels, size, made, side, groups in CONVOLUTIONS:
            over = window([size, size], [side, side])
            x, w = t([images, channels, size, size], element), t([made, channels // groups, side, side], element)
            y, at = t([images, made, *over.out()], element), f"{over.attributes()}, groups = {groups}"
            name = f"long/{element}/{images}x{channels}x{size}>{made}k{side}"
            random = "-1:1"
            yield Case(f"conv/{name}", [(x, random), (w, random)], f"sojourn.conv %0, %1, {at} : {x}, {w}", [y])
            yield Case(
                f"conv_grad_input/{name}", [(y, random), (w, random)],
                f"sojourn.conv_grad_input %0, %1, {at} : {y}, {w} -> {x}", [x],
            )  # fmt: skip
            yield Case(
                f"conv_grad_weight/{name}", [(y, random), (x, random)],
                f"sojourn.conv_grad_weight %0, %1, {at} : {y}, {x} -> {w}", [w],
            )  # fmt: skip


def long_cases():
    for family in (products, factors, fouriers, convolutions):
        yield from family()
