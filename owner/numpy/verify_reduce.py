# SPDX-License-Identifier: Apache-2.0
"""Rules of reductions, scans, sorting, dot and factors of matrices."""

from __future__ import annotations

from . import types
from .errors import LIMIT, need
from .verify import classes, dim_of, dims_of, product, result_is, rule, same_element, without


def _reduction(names: str, allowed: str, empty: bool) -> None:
    @rule(names, 1, dims="integers")
    def check(op):
        x = op.operand_types[0]
        classes("operand", x, allowed)
        dims = dims_of(op, x.rank)
        need(list(dims) == sorted(dims), f"dims = {dims} is not increasing")
        need(empty or all(x.shape[d] for d in dims), f"{x} is empty along {dims}")
        result_is(op, x.element, without(x.shape, dims))


_reduction("reduce_sum reduce_prod", "ZFX", empty=True)
_reduction("reduce_max reduce_min", "BZF", empty=False)


@rule("argmax argmin", 1, dim="integer")
def _arg(op):
    x = op.operand_types[0]
    classes("operand", x, "BZF")
    dim = dim_of(op, x.rank)
    need(x.shape[dim] > 0, f"{x} is empty along {dim}")
    result_is(op, types.I64, without(x.shape, (dim,)))


def _scan(names: str, allowed: str) -> None:
    @rule(names, 1, dim="integer")
    def check(op):
        x = op.operand_types[0]
        classes("operand", x, allowed)
        dim_of(op, x.rank)
        result_is(op, x.element, x.shape)
        return 4 * x.numel


_scan("cumsum cumprod", "ZFX")
_scan("cummax cummin", "BZF")
_scan("cumlogsumexp", "FX")


@rule("sort", 1, results=2, dim="integer", descending="boolean")
def _sort(op):
    x = op.operand_types[0]
    classes("operand", x, "BZF")
    dim_of(op, x.rank)
    result_is(op, x.element, x.shape)
    result_is(op, types.I64, x.shape, 1)
    return 64 * x.numel


@rule("topk", 1, results=2, dim="integer", k="integer", largest="boolean")
def _topk(op):
    x, k = op.operand_types[0], op.attr("k")
    classes("operand", x, "BZF")
    dim = dim_of(op, x.rank)
    need(0 <= k <= x.shape[dim], f"k = {k} is out of range for {x.shape[dim]} elements")
    shape = (*x.shape[:dim], k, *x.shape[dim + 1 :])
    result_is(op, x.element, shape)
    result_is(op, types.I64, shape, 1)
    return 64 * x.numel


@rule("dot", 2, lhs_batch="integers", rhs_batch="integers", lhs_contract="integers", rhs_contract="integers")
def _dot(op):
    (a, b), y = op.operand_types, op.result_types[0]
    need(a.element == b.element, f"operands differ in element type: {a}, {b}")
    classes("operand", a, "ZFX")
    wide = y.element == types.F32 and a.element in (types.F16, types.BF16)
    need(y.element == a.element or wide, f"result is {y} of operands {a}")
    lhs = dims_of(op, a.rank, "lhs_batch") + dims_of(op, a.rank, "lhs_contract")
    rhs = dims_of(op, b.rank, "rhs_batch") + dims_of(op, b.rank, "rhs_contract")
    need(len(set(lhs)) == len(lhs) and len(set(rhs)) == len(rhs), "a dimension is both batch and contracted")
    need(len(op.attr("lhs_batch")) == len(op.attr("rhs_batch")), "batch dimensions differ in number")
    need(len(lhs) == len(rhs), "contracted dimensions differ in number")
    for k, m in zip(lhs, rhs):
        need(a.shape[k] == b.shape[m], f"dimension {k} of {a} does not match dimension {m} of {b}")
    batch = tuple(a.shape[d] for d in op.attr("lhs_batch"))
    result_is(op, y.element, (*batch, *without(a.shape, lhs), *without(b.shape, rhs)))
    return y.numel * product(a.shape[d] for d in op.attr("lhs_contract"))


def _matrices(op, x, is_square=False):
    classes("operand", x, "FX")
    what = "square matrices, [..., n, n]" if is_square else "matrices, [..., m, n]"
    need(x.rank >= 2 and (not is_square or x.shape[-1] == x.shape[-2]), f"{x} does not hold {what}")
    need(max(x.shape[-2:]) < 1 << 31, f"{x} has too many rows or columns", LIMIT)
    return x.shape[:-2], x.shape[-2], x.shape[-1]


@rule("triangular_solve", 2, lower="boolean", unit="boolean")
def _triangular_solve(op):
    element, (a, b) = same_element(op), op.operand_types
    _matrices(op, a, is_square=True)
    need(b.rank == a.rank and b.shape[:-1] == a.shape[:-1], f"{b} does not hold matrices for those of {a}")
    need(b.shape[-1] < 1 << 31, f"{b} has too many columns", LIMIT)
    result_is(op, element, b.shape)
    return b.numel * a.shape[-1]


@rule("lu", 1, results=4)
def _lu(op):
    x = op.operand_types[0]
    batch, m, n = _matrices(op, x)
    result_is(op, x.element, x.shape)
    for index, shape in enumerate(((*batch, min(m, n)), (*batch, m), batch), 1):
        result_is(op, types.I64, shape, index)
    return x.numel * n


@rule("qr", 1, results=2, full="boolean")
def _qr(op):
    x = op.operand_types[0]
    batch, m, n = _matrices(op, x)
    inner = m if op.attr("full") else min(m, n)
    result_is(op, x.element, (*batch, m, inner))
    result_is(op, x.element, (*batch, inner, n), 1)
    return 4 * x.numel * max(m, n)


@rule("eigh", 1, results=2)
def _eigh(op):
    x = op.operand_types[0]
    batch, n, _ = _matrices(op, x, is_square=True)
    result_is(op, types.PARTS.get(x.element, x.element), (*batch, n))
    result_is(op, x.element, x.shape, 1)
    return 24 * x.numel * n


@rule("ldl", 1, results=3, hermitian="boolean")
def _ldl(op):
    x = op.operand_types[0]
    batch, n, _ = _matrices(op, x, is_square=True)
    result_is(op, x.element, x.shape)
    result_is(op, types.I64, (*batch, n), 1)
    result_is(op, types.I64, batch, 2)
    return x.numel * n


@rule("ldl_solve", 3, hermitian="boolean")
def _ldl_solve(op):
    a, pivots, b = op.operand_types
    _matrices(op, a, is_square=True)
    need(pivots.element == types.I64 and pivots.shape == a.shape[:-1], f"{pivots} does not hold pivots for {a}")
    need(b.element == a.element, f"operands differ in element type: {a}, {b}")
    need(b.rank == a.rank and b.shape[:-1] == a.shape[:-1], f"{b} does not hold matrices for those of {a}")
    need(b.shape[-1] < 1 << 31, f"{b} has too many columns", LIMIT)
    result_is(op, b.element, b.shape)
    return 2 * b.numel * a.shape[-1]


@rule("eig", 1, results=2)
def _eig(op):
    x = op.operand_types[0]
    need(x.element in types.COMPLEX or x.element in types.PARTS, f"operand is {x}, expected f32, f64 or complex")
    need(x.rank >= 2 and x.shape[-1] == x.shape[-2], f"{x} does not hold square matrices, [..., n, n]")
    need(x.shape[-1] < 1 << 31, f"{x} has too many rows or columns", LIMIT)
    element = types.COMPLEX.get(x.element, x.element)
    result_is(op, element, x.shape[:-1])
    result_is(op, element, x.shape, 1)
    return 64 * x.numel * x.shape[-1]


def _fourier(op, x):
    dims = dims_of(op, x.rank)
    need(len(dims) > 0, "dims are empty")
    for dim in dims:
        need(1 <= x.shape[dim] < 1 << 31, f"the size of dimension {dim} of {x} is outside of [1, 2^31)")
    return dims[-1]


@rule("fft_c2c", 1, dims="integers", inverse="boolean")
def _c2c(op):
    x = op.operand_types[0]
    classes("operand", x, "X")
    _fourier(op, x)
    result_is(op, x.element, x.shape)
    return 128 * x.numel


@rule("fft_r2c", 1, dims="integers")
def _r2c(op):
    x = op.operand_types[0]
    need(x.element in types.COMPLEX, f"operand is {x}, expected f32 or f64")
    last = _fourier(op, x)
    result_is(op, types.COMPLEX[x.element], (*x.shape[:last], x.shape[last] // 2 + 1, *x.shape[last + 1 :]))
    return 128 * x.numel


@rule("fft_c2r", 1, dims="integers", size="integer")
def _c2r(op):
    x, size = op.operand_types[0], op.attr("size")
    classes("operand", x, "X")
    last = _fourier(op, x)
    need(size >= 1 and size // 2 + 1 == x.shape[last], f"size = {size} does not fit dimension {last} of {x}")
    result_is(op, types.PARTS[x.element], (*x.shape[:last], size, *x.shape[last + 1 :]))
    return 128 * x.numel


@rule("svd", 1, results=3, full="boolean")
def _svd(op):
    x = op.operand_types[0]
    batch, m, n = _matrices(op, x)
    k, full = min(m, n), op.attr("full")
    result_is(op, x.element, (*batch, m, m if full else k))
    result_is(op, types.PARTS.get(x.element, x.element), (*batch, k), 1)
    result_is(op, x.element, (*batch, n if full else k, n), 2)
    return 32 * x.numel * max(m, n)


@rule("cholesky", 1, results=2)
def _cholesky(op):
    x = op.operand_types[0]
    classes("operand", x, "FX")
    need(x.rank >= 2 and x.shape[-1] == x.shape[-2], f"{x} does not hold square matrices, [..., n, n]")
    result_is(op, x.element, x.shape)
    result_is(op, types.I64, x.shape[:-2], 1)
    return x.numel * x.shape[-1]
