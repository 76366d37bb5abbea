# SPDX-License-Identifier: Apache-2.0
"""Rules of layout, gather and scatter ops."""

from __future__ import annotations

from sojourn_wire.format import DIM_MAX

from . import types
from .errors import need
from .limits import OPERANDS_PER_OP_MAX
from .verify import classes, dim_of, dims_of, per_dim, result_is, rule, same_element


@rule("broadcast", 1, dims="integers")
def _broadcast(op):
    x, y = op.operand_types[0], op.result_types[0]
    dims = dims_of(op, y.rank)
    need(len(dims) == x.rank, f"dims has {len(dims)} entries for {x}")
    need(list(dims) == sorted(dims), f"dims = {dims} is not increasing")
    need(x.element == y.element, f"result is {y}, the operand {x}")
    for k, dim in enumerate(dims):
        need(x.shape[k] in (1, y.shape[dim]), f"dimension {k} of {x} does not spread over dimension {dim} of {y}")


@rule("reshape", 1)
def _reshape(op):
    x, y = op.operand_types[0], op.result_types[0]
    need(x.element == y.element and x.numel == y.numel, f"{x} cannot be reshaped to {y}")


@rule("parts", 1)
def _parts(op):
    x = op.operand_types[0]
    classes("operand", x, "X")
    result_is(op, types.PARTS[x.element], (*x.shape, 2))


@rule("complex", 1)
def _complex(op):
    x = op.operand_types[0]
    need(x.element in types.COMPLEX, f"operand is {x}, expected f32 or f64")
    need(x.rank > 0 and x.shape[-1] == 2, f"{x} does not hold pairs of parts, [..., 2]")
    result_is(op, types.COMPLEX[x.element], x.shape[:-1])


@rule("transpose", 1, perm="integers")
def _transpose(op):
    x = op.operand_types[0]
    perm = dims_of(op, x.rank, "perm")
    need(len(perm) == x.rank, f"perm has {len(perm)} entries for {x}")
    result_is(op, x.element, (x.shape[p] for p in perm))


@rule("slice", 1, start="integers", limit="integers", stride="integers")
def _slice(op):
    x = op.operand_types[0]
    start, stride = per_dim(op, "start", x.rank, 0), per_dim(op, "stride", x.rank, 1, is_bounded=False)
    limit, shape = per_dim(op, "limit", x.rank, 0), []
    for size, low, high, step in zip(x.shape, start, limit, stride):
        need(low <= high <= size, f"[{low}, {high}) is not inside {x}")
        shape.append(-(-(high - low) // step))
    result_is(op, x.element, shape)


@rule("reverse", 1, dims="integers")
def _reverse(op):
    x = op.operand_types[0]
    dims = dims_of(op, x.rank)
    need(list(dims) == sorted(dims), f"dims = {dims} is not increasing")
    result_is(op, x.element, x.shape)


@rule("update_slice", 2, start="integers", stride="integers")
def _update_slice(op):
    element, (x, u) = same_element(op), op.operand_types
    need(x.rank == u.rank, f"{u} does not have the rank of {x}")
    start, stride = per_dim(op, "start", x.rank, 0), per_dim(op, "stride", x.rank, 1, is_bounded=False)
    for size, count, low, step in zip(x.shape, u.shape, start, stride):
        last = low + (count - 1) * step + 1 if count else low
        need(last <= size, f"{u} at {start} by {stride} extends beyond {x}")
    result_is(op, element, x.shape)


def _moved(op, starts, dims):
    need(list(dims) == sorted(set(dims)), f"dims = {dims} is not increasing")
    need(len(starts) == len(dims), f"{len(starts)} starts for {len(dims)} dims")
    for start in starts:
        need(start.rank == 0 and start.element == types.I64, f"a start is {start}, expected one i64")


@rule("dynamic_slice", (1, OPERANDS_PER_OP_MAX), dims="integers", sizes="integers")
def _dynamic_slice(op):
    x, *starts = op.operand_types
    dims, sizes, shape = dims_of(op, x.rank), op.attr("sizes"), list(x.shape)
    _moved(op, starts, dims)
    need(len(sizes) == len(dims), f"sizes has {len(sizes)} entries for {len(dims)} dims")
    for dim, size in zip(dims, sizes):
        need(0 <= size <= shape[dim], f"{size} elements do not fit dimension {dim} of {x}")
        shape[dim] = size
    result_is(op, x.element, shape)


@rule("dynamic_update_slice", (2, OPERANDS_PER_OP_MAX), dims="integers")
def _dynamic_update_slice(op):
    x, u, *starts = op.operand_types
    dims = dims_of(op, x.rank)
    _moved(op, starts, dims)
    need(u.element == x.element and u.rank == x.rank, f"{u} cannot be written into {x}")
    for dim, (size, count) in enumerate(zip(x.shape, u.shape)):
        need(count <= size if dim in dims else count == size, f"{u} does not cover {x} except along dims {dims}")
    result_is(op, x.element, x.shape)


@rule("concat", (1, OPERANDS_PER_OP_MAX), dim="integer")
def _concat(op):
    element, first = same_element(op), op.operand_types[0]
    dim, total = dim_of(op, first.rank), 0
    for t in op.operand_types:
        fits = (
            t.rank == first.rank and t.shape[:dim] == first.shape[:dim] and t.shape[dim + 1 :] == first.shape[dim + 1 :]
        )
        need(fits, f"{t} and {first} differ beyond dimension {dim}")
        total += t.shape[dim]
    result_is(op, element, (*first.shape[:dim], total, *first.shape[dim + 1 :]))


@rule("pad", 2, low="integers", high="integers", interior="integers")
def _pad(op):
    element, (x, value) = same_element(op), op.operand_types
    need(value.rank == 0, f"padding value is {value}, expected rank 0")
    low, high = per_dim(op, "low", x.rank, None), per_dim(op, "high", x.rank, None)
    interior, shape = per_dim(op, "interior", x.rank, 0), []
    for size, before, after, between in zip(x.shape, low, high, interior):
        length = before + after + size + max(size - 1, 0) * between
        need(0 <= length <= DIM_MAX, f"padded size {length} is negative or too large")
        shape.append(length)
    result_is(op, element, shape)


@rule("take", 2, dim="integer")
def _take(op):
    x, i = op.operand_types
    classes("index", i, "Z")
    result_is(op, x.element, _taken(op, x, i))


def _taken(op, x, i):
    dim = dim_of(op, x.rank)
    return (*x.shape[:dim], *i.shape, *x.shape[dim + 1 :])


def _along(op, x, i):
    """Only along the indexed dimension may sizes differ from the operand's."""
    dim = dim_of(op, x.rank)
    fits = i.rank == x.rank and all(d == dim or n == m for d, (n, m) in enumerate(zip(i.shape, x.shape)))
    need(fits, f"index {i} does not match {x}")


@rule("take_along", 2, dim="integer")
def _take_along(op):
    x, i = op.operand_types
    classes("index", i, "Z")
    _along(op, x, i)
    result_is(op, x.element, i.shape)


@rule("put put_along", 3, dim="integer", kind="string")
def _put(op):
    x, i, u = op.operand_types
    classes("index", i, "Z")
    kind = op.attr("kind")
    need(kind in ("set", "add", "mul", "max", "min"), f"unknown kind '{kind}'")
    if kind != "set":
        classes("operand", x, "ZFX" if kind in ("add", "mul") else "BZF")
    need(u.element == x.element, f"updates are {u}, expected the element type of {x}")
    if op.name == "put":
        shape = _taken(op, x, i)
    else:
        _along(op, x, i)
        shape = i.shape
    need(u.shape == shape, f"updates are {u}, expected shape {shape}")
    result_is(op, x.element, x.shape)
    return 16 * u.numel
