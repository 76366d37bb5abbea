# SPDX-License-Identifier: Apache-2.0
"""Cases of tools/price_cases.py: products, factors of matrices, transforms, convolutions and windows."""

from __future__ import annotations

import dataclasses

from price_program import Case, t


def dots():
    for element in ("f32", "f64", "i64", "i32", "bf16", "complex<f32>"):
        for m, k, n in (
            (256, 256, 256),
            (1, 1 << 18, 1),
            (1 << 16, 1, 1),
            (1, 1, 1 << 16),
            (512, 1, 512),
            (1 << 14, 2, 2),
            (1 << 18, 0, 1),
            (1, 1 << 10, 1 << 8),
        ):
            a, b, out = t([m, k], element), t([k, n], element), t([m, n], "f32" if element == "bf16" else element)
            dims = "lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0]"
            for fill in ("1", "1e-40") if element in ("f32", "f64") else ("1",):
                yield Case(
                    f"dot/{element}/{m}x{k}x{n}/{fill}",
                    [(a, fill), (b, fill)],
                    f"sojourn.dot %0, %1, {dims} : {a}, {b} -> {out}",
                    [out],
                )
        for batch, m, k, n in ((1 << 16, 1, 1, 1), (1 << 12, 2, 2, 2), (1 << 12, 1, 8, 1), (1 << 16, 1, 0, 1)):
            a, b, out = (
                t([batch, m, k], element),
                t([batch, k, n], element),
                t([batch, m, n], "f32" if element == "bf16" else element),
            )
            dims = "lhs_batch = [0], rhs_batch = [0], lhs_contract = [2], rhs_contract = [1]"
            yield Case(
                f"dot/{element}/{batch}of{m}x{k}x{n}",
                [(a, "1"), (b, "1")],
                f"sojourn.dot %0, %1, {dims} : {a}, {b} -> {out}",
                [out],
            )


MATRICES = [(1 << 14, 1, 1), (1 << 14, 2, 2), (256, 16, 16), (1, 256, 256), (1, 1 << 12, 1), (1, 1, 1 << 12), (1, 2048, 16),
            (1, 16, 2048), (1 << 14, 0, 0), (1 << 14, 0, 1), (1 << 14, 1, 0), (1 << 12, 64, 0), (64, 1, 256), (64, 256, 1)]  # fmt: skip


def factors():
    for element in ("f32", "f64", "complex<f32>"):
        real, wide = ("f32", "complex<f32>") if element != "f64" else ("f64", "complex<f64>")
        for count, m, n in MATRICES:
            x, k = t([count, m, n], element), min(m, n)
            name = f"{element}/{count}of{m}x{n}"
            for fill in ("-1:1", "1", "nan", "1e-30:1e30") if count == 1 else ("-1:1",):
                at = f"{name}/{fill}"
                results = [x, t([count, k], "i64"), t([count, m], "i64"), t([count], "i64")]
                yield Case(
                    f"lu/{at}", [(x, fill)], f"sojourn.lu %0 : {x}", results, quick=count > 1000 and element == "f32"
                )
                for full in ("true", "false"):
                    inner = m if full == "true" else k
                    yield Case(
                        f"qr/{full}/{at}",
                        [(x, fill)],
                        f"sojourn.qr %0 full = {full} : {x}",
                        [t([count, m, inner], element), t([count, inner, n], element)],
                        quick=count > 1000 and element == "f32",
                    )
                    rows = n if full == "true" else k
                    yield Case(
                        f"svd/{full}/{at}",
                        [(x, fill)],
                        f"sojourn.svd %0 full = {full} : {x}",
                        [t([count, m, inner], element), t([count, k], real), t([count, rows, n], element)],
                    )
                if m == n:
                    yield Case(f"cholesky/{at}", [(x, fill)], f"sojourn.cholesky %0 : {x}", [x, t([count], "i64")])
                    yield Case(f"eigh/{at}", [(x, fill)], f"sojourn.eigh %0 : {x}", [t([count, n], real), x])
                    yield Case(
                        f"ldl/{at}",
                        [(x, fill)],
                        f"sojourn.ldl %0 hermitian = false : {x}",
                        [x, t([count, n], "i64"), t([count], "i64")],
                    )
                    yield Case(
                        f"eig/{at}", [(x, fill)], f"sojourn.eig %0 : {x}", [t([count, n], wide), t([count, n, n], wide)]
                    )
                    for right in (0, 1, 64):
                        b, pivots = t([count, n, right], element), t([count, n], "i64")
                        if count * right > 1 << 16:
                            continue
                        yield Case(
                            f"triangular_solve/{at}/{right}",
                            [(x, fill), (b, "1")],
                            f"sojourn.triangular_solve %0, %1, lower = true, unit = false : {x}, {b}",
                            [b],
                        )
                        yield Case(
                            f"ldl_solve/{at}/{right}",
                            [(x, fill), (pivots, "1"), (b, "1")],
                            f"sojourn.ldl_solve %0, %1, %2, hermitian = false : {x}, {pivots}, {b}",
                            [b],
                        )


def fouriers():
    shapes = [
        [1 << 16],
        [65537 - 2],
        [65521],
        [8191, 8],
        [4, 1 << 14],
        [1 << 14, 4],
        [2] * 14,
        [3] * 10,
        [1 << 16, 1],
        [997, 61],
        [1, 3**10],
    ]
    for shape in shapes:
        for dims in {tuple(range(len(shape))), (0,), (len(shape) - 1,)}:
            if len(dims) > 3 and len(shape) < 3:
                continue
            x = t(shape, "complex<f32>")
            d = list(dims)
            name = f"{'x'.join(map(str, shape[:3]))}r{len(shape)}/{len(d)}from{d[0]}"
            yield Case(f"fft_c2c/{name}", [(x, "-1:1")], f"sojourn.fft_c2c %0, dims = {d}, inverse = false : {x}", [x])
            half = [size // 2 + 1 if k == d[-1] else size for k, size in enumerate(shape)]
            y = t(half, "complex<f32>")
            yield Case(f"fft_r2c/{name}", [(t(shape), "-1:1")], f"sojourn.fft_r2c %0, dims = {d} : {t(shape)}", [y])
            yield Case(
                f"fft_c2r/{name}",
                [(y, "-1:1")],
                f"sojourn.fft_c2r %0, dims = {d}, size = {shape[d[-1]]} : {y}",
                [t(shape)],
            )


@dataclasses.dataclass
class Window:
    size: list[int]
    kernel: list[int]
    stride: list[int]
    padding: list[int]
    dilation: list[int]

    def out(self):
        return [
            (s + 2 * p - d * (k - 1) - 1) // j + 1
            for s, k, j, p, d in zip(self.size, self.kernel, self.stride, self.padding, self.dilation)
        ]

    def attributes(self):
        return f"stride = {self.stride}, padding = {self.padding}, dilation = {self.dilation}"


def window(size, kernel, stride=1, padding=0, dilation=1):
    many = len(size)
    return Window(size, kernel, [stride] * many, [padding] * many, [dilation] * many)


# images, channels, output channels, groups, window
CONVOLUTIONS = {
    "plain": (4, 16, 16, 1, window([32, 32], [3, 3], padding=1)),
    "rgb": (4, 3, 16, 1, window([64, 64], [3, 3], padding=1)),
    "one": (4, 16, 16, 1, window([32, 32], [1, 1])),
    "depthwise": (4, 64, 64, 64, window([32, 32], [3, 3], padding=1)),
    "depthwise one": (4, 64, 64, 64, window([32, 32], [1, 1])),
    "depthwise tiny": (1, 1 << 14, 1 << 14, 1 << 14, window([1, 1], [1, 1])),
    "depthwise point": (1, 1 << 12, 1 << 12, 1 << 12, window([4, 4], [1, 1])),
    "single one": (1, 1, 1, 1, window([512, 512], [1, 1])),
    "stride": (1, 1, 1, 1, window([1024, 1024], [1, 1], stride=1000)),
    "stride many": (4, 64, 64, 1, window([64, 64], [1, 1], stride=63)),
    "stride deep": (1, 4096, 1, 1, window([32, 32], [1, 1], stride=31)),
    "stride three": (1, 1, 1, 1, window([64, 64, 64], [2, 2, 2], stride=62)),
    "dilation": (1, 4, 4, 1, window([256, 256], [3, 3], dilation=100)),
    "whole": (1, 4, 4, 1, window([96, 96], [96, 96])),
    "whole small": (1 << 12, 1, 1, 1, window([4, 4], [4, 4])),
    "half": (1, 1, 1, 1, window([96, 96], [48, 48])),
    "half wide": (1, 1, 1, 1, window([160, 160], [80, 80])),
    "half deep": (1, 2, 2, 1, window([64, 64], [32, 32])),
    "padding": (1, 1, 1, 1, window([1, 1], [1, 1], padding=300)),
    "padding many": (1 << 8, 4, 4, 1, window([1, 1], [3, 3], padding=16)),
    "images": (1 << 14, 1, 1, 1, window([1, 1], [1, 1])),
    "images two": (1 << 12, 2, 2, 2, window([2, 2], [2, 2])),
    "line": (1, 1, 1, 1, window([1 << 18], [1])),
    "line window": (1, 1, 1, 1, window([1 << 14], [1 << 8])),
    "line dilation": (1, 1, 1, 1, window([1 << 16], [3], dilation=1 << 14)),
    "many in": (1, 1 << 14, 1, 1, window([1, 1], [1, 1])),
    "many out": (1, 1, 1 << 14, 1, window([1, 1], [1, 1])),
    "many out window": (1, 1, 1 << 12, 1, window([8, 8], [8, 8])),
    "cube": (1, 4, 4, 1, window([16, 16, 16], [3, 3, 3], padding=1)),
    "cube half": (1, 1, 1, 1, window([24, 24, 24], [12, 12, 12])),
    "cube groups": (1, 256, 256, 256, window([4, 4, 4], [1, 1, 1])),
    "groups": (1, 512, 512, 256, window([8, 8], [3, 3], padding=1)),
}


def convolutions():
    for element in ("f32", "f64", "bf16"):
        for name, (images, channels, made, groups, over) in CONVOLUTIONS.items():
            x, w = t([images, channels, *over.size], element), t([made, channels // groups, *over.kernel], element)
            y = t([images, made, *over.out()], element)
            attributes = f"{over.attributes()}, groups = {groups}"
            quick = name in ("stride", "stride many", "depthwise one", "depthwise tiny", "half") and element != "bf16"
            at = f"{element}/{name.replace(' ', '-')}"
            yield Case(
                f"conv/{at}", [(x, "-1:1"), (w, "-1:1")], f"sojourn.conv %0, %1, {attributes} : {x}, {w}", [y], quick
            )
            yield Case(
                f"conv_grad_input/{at}",
                [(y, "-1:1"), (w, "-1:1")],
                f"sojourn.conv_grad_input %0, %1, {attributes} : {y}, {w} -> {x}",
                [x],
                quick,
            )
            yield Case(
                f"conv_grad_weight/{at}",
                [(y, "-1:1"), (x, "-1:1")],
                f"sojourn.conv_grad_weight %0, %1, {attributes} : {y}, {x} -> {w}",
                [w],
                quick,
            )


def pools():
    shapes = {
        "plain": window([64, 64], [2, 2], stride=2),
        "one": window([256, 256], [1, 1]),
        "stride": window([1024, 1024], [1, 1], stride=1000),
        "half": window([128, 128], [64, 64]),
        "whole": window([256, 256], [256, 256]),
        "line": window([1 << 16], [1 << 12]),
        "dilation": window([256, 256], [3, 3], dilation=100),
        "cube": window([32, 32, 32], [3, 3, 3]),
    }
    for element in ("f32", "f64", "i64"):
        for name, over in shapes.items():
            x, y = t([1, 2, *over.size], element), [1, 2, *over.out()]
            for fill in ("-1:1", "1", "nan") if element != "i64" else ("1",):
                at = f"{element}/{name}/{fill}"
                text = f"window = {over.kernel}, {over.attributes()} : {x}"
                yield Case(f"pool_sum/{at}", [(x, fill)], f"sojourn.pool_sum %0, {text}", [t(y, element)])
                yield Case(f"pool_max/{at}", [(x, fill)], f"sojourn.pool_max %0, {text}", [t(y, element), t(y, "i64")])
