# SPDX-License-Identifier: Apache-2.0
"""Every core op on given operands, with all small attributes: texts, of which the parser drops those that are no ops."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from rule_operands import SHORT, Operand, sample, tensor

FLOATS = ("f64", "f32", "f16", "bf16")
UNARY = "neg abs sign floor ceil round not exp expm1 log log1p sqrt sin cos tanh logistic erf erfc erfinv lgamma digamma".split()
BINARY = "add sub mul div rem pow atan2 max min and or xor shl shr".split()
ALONG = "cumsum cumprod cummax cummin cumlogsumexp".split()
REDUCTIONS = "reduce_sum reduce_prod reduce_max reduce_min".split()
RESULTS = {
    "sort": 2,
    "topk": 2,
    "pool_max": 2,
    "cholesky": 2,
    "qr": 2,
    "eigh": 2,
    "eig": 2,
    "ldl": 3,
    "svd": 3,
    "lu": 4,
}
ZEROS = {
    "f64": ("c_f64_0", "c_f64_2"),
    "f32": ("c_f32_0",),
    "f16": ("c_f16_0",),
    "bf16": ("c_bf16_0",),
    "i64": ("c_i64_0", "c_i64_1"),
}
ONES = {"f64": "c_f64_2", "f32": "c_f32_2", "f16": "c_f16_1", "bf16": "c_bf16_1", "i64": "c_i64_2"}
# Of 6 rows: 3, 3 behind them, 1 of 3, and none.
PARTS = ("first 0.5", "other 0.5", "first 0.5, other 0.5", "first 0.05")
Text = tuple[str, str]  # op, and what stands behind its "="


def _at(rank: int, dim: int, value: int, others: int) -> list[int]:
    return [value if k == dim else others for k in range(rank)]


def _subsets(rank: int) -> list[list[int]]:
    return [list(found) for size in range(1, rank + 1) for found in itertools.combinations(range(rank), size)]


def sources(x: Operand) -> Iterator[Text]:
    """Random numbers of a seed, orders and draws of row numbers."""
    if x.element != "i64":
        return
    if not x.shape:
        yield "rng_bits", f"sojourn.rng_bits %{x.name}, stream = 1 : tensor<3xi64>"
        for op, element in itertools.product(("rng_uniform", "rng_normal"), FLOATS):
            yield op, f"sojourn.{op} %{x.name}, stream = 1 : tensor<3x{element}>"
        for op in ("seed", "epoch"):
            a, b = (x.name, "seed") if op == "seed" else ("seed", x.name)
            for more in ("", ", expected = 2"):
                yield "sample_rows", sample("ramp", "tensor<3xi64>", "t", more, a, b)
    else:
        for table, more in itertools.product((*SHORT, "t", "q"), ("", ", expected = 2")):
            yield "sample_rows", sample(x.name, x.type, table, more)
        for part in PARTS:
            yield "sample_rows", sample(x.name, x.type, "t", f", split = [{part}]")
            for more in ("", ", expected = 2"):
                yield "sample_rows", sample(x.name, x.type, "t", f", part = [{part}]{more}")


def nullary() -> Iterator[Text]:
    """Ops without operands."""
    for element, shape in itertools.product(("i64", "i8", "f32", "f16", "f64"), ((3,), (2, 2), (1,), (0,))):
        for dim in range(len(shape)):
            yield "iota", f"sojourn.iota dim = {dim} : {tensor(shape, element)}"
    for number in (
        "0.0 : f64",
        "-0.0 : f32",
        "3.0e38 : bf16",
        "1.0 : f16",
        "9007199254740993 : i64",
        "-128 : i8",
        "255 : ui8",
        "true",
    ):
        yield "constant", f"sojourn.constant {number}"


def unary(x: Operand) -> Iterator[Text]:
    n = f"%{x.name} : {x.type}"
    for op in UNARY:
        yield op, f"sojourn.{op} {n}"
    if x.element in FLOATS:
        for function in ("bessel_j0", "i0e", "ndtri", "erfcx"):
            yield "special", f'sojourn.special "{function}" {n}'
    for element in ("f64", "f32", "f16", "bf16", "i64", "i8", "ui8", "i1"):
        if element != x.element:
            yield "convert", f"sojourn.convert {n} -> {tensor(x.shape, element)}"
    for element in ("i64", "f64", "f16", "bf16", "i8", "ui8"):
        if element != x.element:
            yield "bitcast", f"sojourn.bitcast {n} -> {tensor(x.shape, element)}"
    for op in ("parts", "complex", "cholesky", "lu", "eigh", "eig"):
        yield op, f"sojourn.{op} {n}"
    for op in ("qr", "svd"):
        yield op, f"sojourn.{op} %{x.name} full = false : {x.type}"
    yield "ldl", f"sojourn.ldl %{x.name} hermitian = false : {x.type}"


def layout(x: Operand) -> Iterator[Text]:
    rank, shape, n, t = len(x.shape), x.shape, f"%{x.name}", x.type
    count = math.prod(shape)
    shapes = {(count,), (1, *shape), (*shape, 1), (1, count)} | {(k, count // k) for k in (2, 3) if count % k == 0}
    for to in sorted(shapes - {shape}):
        yield "reshape", f"sojourn.reshape {n} : {t} -> {tensor(to, x.element)}"
    for perm in itertools.permutations(range(rank)):
        if perm != tuple(range(rank)):
            yield "transpose", f"sojourn.transpose {n}, perm = {list(perm)} : {t}"
    for dim in range(rank + 1):
        for size in (1, 2):
            to = (*shape[:dim], size, *shape[dim:])
            dims = [k for k in range(rank + 1) if k != dim]
            yield "broadcast", f"sojourn.broadcast {n}, dims = {dims} : {t} -> {tensor(to, x.element)}"
    if 1 in shape:
        yield (
            "broadcast",
            f"sojourn.broadcast {n}, dims = {list(range(rank))} : {t} -> {tensor([2 if k == 1 else k for k in shape], x.element)}",
        )
    for dim in range(rank):
        yield "reverse", f"sojourn.reverse {n}, dims = [{dim}] : {t}"
        size = shape[dim]
        for start, limit, stride in itertools.product(range(size), range(1, size + 1), (1, 2, 3)):
            if start < limit:
                yield (
                    "slice",
                    f"sojourn.slice {n}, start = {_at(rank, dim, start, 0)}, limit = {[limit if k == dim else shape[k] for k in range(rank)]}, stride = {_at(rank, dim, stride, 1)} : {t}",
                )
        for part in range(1, size + 1):
            yield (
                "dynamic_slice",
                f"sojourn.dynamic_slice {n} from [%s], dims = [{dim}], sizes = [{part}] : {t}, tensor<i64>",
            )
        for low, high, interior in itertools.product((-1, 0, 1, 2), (-1, 0, 1), (0, 1, 2)):
            for zero in ZEROS.get(x.element, ()):
                yield (
                    "pad",
                    f"sojourn.pad {n}, %{zero}, low = {_at(rank, dim, low, 0)}, high = {_at(rank, dim, high, 0)}, interior = {_at(rank, dim, interior, 0)} : {t}, tensor<{x.element}>",
                )


def along(x: Operand) -> Iterator[Text]:
    """Reductions, scans, sorts, transforms and windows."""
    rank, n, t = len(x.shape), f"%{x.name}", x.type
    for dim in range(rank):
        for op in (*ALONG, "argmax", "argmin"):
            yield op, f"sojourn.{op} {n}, dim = {dim} : {t}"
        yield "sort", f"sojourn.sort {n}, dim = {dim}, descending = true : {t}"
        yield "topk", f"sojourn.topk {n}, dim = {dim}, k = {min(2, x.shape[dim])}, largest = true : {t}"
    for dims in _subsets(rank):
        for op in REDUCTIONS:
            yield op, f"sojourn.{op} {n}, dims = {dims} : {t}"
        yield "fft_c2c", f"sojourn.fft_c2c {n}, dims = {dims}, inverse = false : {t}"
        yield "fft_r2c", f"sojourn.fft_r2c {n}, dims = {dims} : {t}"
        yield "fft_c2r", f"sojourn.fft_c2r {n}, dims = {dims}, size = {2 * (x.shape[dims[-1]] - 1)} : {t}"
    if rank >= 3:
        for window, stride, padding in ((2, 1, 0), (1, 1, 0), (2, 2, 0), (2, 1, 1), (4, 1, 0)):
            lists = ", ".join(
                f"{key} = {[value] * (rank - 2)}"
                for key, value in (("window", window), ("stride", stride), ("padding", padding), ("dilation", 1))
            )
            for op in ("pool_sum", "pool_max"):
                yield op, f"sojourn.{op} {n}, {lists} : {t}"


def _dots(x: Operand, y: Operand) -> Iterator[str]:
    def text(lb, rb, lc, rc):
        shape = [x.shape[k] for k in lb]
        shape += [size for k, size in enumerate(x.shape) if k not in lb + lc]
        shape += [size for k, size in enumerate(y.shape) if k not in rb + rc]
        return f"sojourn.dot %{x.name}, %{y.name}, lhs_batch = {lb}, rhs_batch = {rb}, lhs_contract = {lc}, rhs_contract = {rc} : {x.type}, {y.type} -> {tensor(shape, x.element)}"

    pairs = [(i, j) for i in range(len(x.shape)) for j in range(len(y.shape)) if x.shape[i] == y.shape[j]]
    for i, j in pairs:
        yield text([], [], [i], [j])
        yield text([i], [j], [], [])
        for k, m in pairs:
            if k != i and m != j:
                yield text([i], [j], [k], [m])
                if i < k:
                    yield text([], [], [i, k], [j, m])


def _windows(x: Operand, y: Operand) -> Iterator[Text]:
    space = len(x.shape) - 2
    attrs = f"stride = {[1] * space}, padding = {[0] * space}, dilation = {[1] * space}, groups = 1"
    yield "conv", f"sojourn.conv %{x.name}, %{y.name}, {attrs} : {x.type}, {y.type}"
    larger = (x.shape[0], y.shape[1], *(a + b - 1 for a, b in zip(x.shape[2:], y.shape[2:])))
    yield (
        "conv_grad_input",
        f"sojourn.conv_grad_input %{x.name}, %{y.name}, {attrs} : {x.type}, {y.type} -> {tensor(larger, x.element)}",
    )
    if x.shape[0] == y.shape[0] and all(b >= a for a, b in zip(x.shape[2:], y.shape[2:])):
        weight = (x.shape[1], y.shape[1], *(b - a + 1 for a, b in zip(x.shape[2:], y.shape[2:])))
        yield (
            "conv_grad_weight",
            f"sojourn.conv_grad_weight %{x.name}, %{y.name}, {attrs} : {x.type}, {y.type} -> {tensor(weight, x.element)}",
        )


def binary(x: Operand, y: Operand) -> Iterator[Text]:
    a, b, types, rank = f"%{x.name}", f"%{y.name}", f"{x.type}, {y.type}", len(x.shape)
    if x.element == y.element and (x.shape == y.shape or not x.shape or not y.shape):
        for op in BINARY:
            yield op, f"sojourn.{op} {a}, {b} : {types}"
        for predicate in ("eq", "ne", "lt", "le", "gt", "ge"):
            yield "compare", f'sojourn.compare "{predicate}" {a}, {b} : {types}'
        if x.element in FLOATS:
            yield "special_binary", f'sojourn.special_binary "zeta" {a}, {b} : {types}'
    if x.element == "i1" and (y.shape == x.shape or not x.shape) and y.element in ONES and y.shape:
        for zero in (f"c_{y.element}_0", ONES[y.element]):
            yield "select", f"sojourn.select {a}, {b}, %{zero} : {types}, tensor<{y.element}>"
            yield "select", f"sojourn.select {a}, %{zero}, {b} : {x.type}, tensor<{y.element}>, {y.type}"
    if x.element == y.element and rank and rank == len(y.shape):
        for dim in range(rank):
            yield "concat", f"sojourn.concat {a}, {b} dim = {dim} : {types}"
            if all(u <= v for u, v in zip(y.shape, x.shape)):
                yield (
                    "dynamic_update_slice",
                    f"sojourn.dynamic_update_slice {a}, {b} from [%s], dims = [{dim}] : {types}, tensor<i64>",
                )
        if all(u <= v for u, v in zip(y.shape, x.shape)):
            yield (
                "update_slice",
                f"sojourn.update_slice {a}, {b}, start = {[v - u for u, v in zip(y.shape, x.shape)]}, stride = {[1] * rank} : {types}",
            )
    if x.element == y.element and x.element in FLOATS and rank and y.shape:
        yield from (("dot", text) for text in _dots(x, y))
        if rank == len(y.shape) >= 3:
            yield from _windows(x, y)
        if rank >= 2 and rank == len(y.shape):
            yield "triangular_solve", f"sojourn.triangular_solve {a}, {b}, lower = true, unit = false : {types}"
    if y.element == "i64" and rank:
        for dim in range(rank):
            if y.shape:
                yield "take", f"sojourn.take {a}, {b}, dim = {dim} : {types}"
            if len(y.shape) == rank:
                yield "take_along", f"sojourn.take_along {a}, {b}, dim = {dim} : {types}"


def writes(x: Operand, index: Operand, update: Operand) -> Iterator[Text]:
    """put and put_along: `update` into `x` at `index`."""
    names, types = f"%{x.name}, %{index.name}, %{update.name}", f"{x.type}, {index.type}, {update.type}"
    for dim in range(len(x.shape)):
        if (*x.shape[:dim], *index.shape, *x.shape[dim + 1 :]) == update.shape and index.shape:
            for kind in ("add", "set", "max"):
                yield "put", f'sojourn.put "{kind}" {names}, dim = {dim} : {types}'
        if index.shape == update.shape and len(index.shape) == len(x.shape):
            for kind in ("add", "set", "mul"):
                yield "put_along", f'sojourn.put_along "{kind}" {names}, dim = {dim} : {types}'


def is_write(x: Operand, index: Operand, update: Operand) -> bool:
    return index.element == "i64" and x.element == update.element and x.element in (*FLOATS, "i64") and bool(x.shape)


def texts_of(x: Operand) -> Iterator[Text]:
    """All candidates of which x is the one operand."""
    for family in (sources, unary, layout, along):
        yield from family(x)


def results_of(op: str) -> int:
    return RESULTS.get(op, 1)
