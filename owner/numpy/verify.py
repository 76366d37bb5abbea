# SPDX-License-Identifier: Apache-2.0
"""The rules of core ops: operands, attributes, result types. No other op is ever run.

Each rule raises OwnerError for an invalid op and returns its work in scalar operations beyond
the elements it moves (None: nothing). The rules themselves are in verify_*.py, by family.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from sojourn_wire import format as wire_format

from . import limits, types
from .errors import LIMIT, MALFORMED, UNSUPPORTED, OwnerError, found, need
from .types import TableType, TensorType


class Rule(NamedTuple):
    operands: tuple[int, int]  # least, most
    results: int
    attrs: dict[str, str]  # name -> AttrKind
    optional: frozenset[str]  # attributes that an op may lack
    check: Callable
    table_operand: int  # position of the one operand that is a dataset, or -1


RULES: dict[str, Rule] = {}


def rule(
    names: str,
    operands: int | tuple[int, int],
    results: int = 1,
    table_operand: int = -1,
    optional: str = "",
    **attrs: str,
):
    """Registers the decorated `check(op)` for every op in `names`."""
    count = operands if isinstance(operands, tuple) else (operands, operands)
    may_lack = frozenset(optional.split())

    def register(check: Callable) -> Callable:
        for name in names.split():
            RULES[name] = Rule(count, results, attrs, may_lack, check, table_operand)
        return check

    return register


def check(op) -> int:
    """Holds one op against its rule; returns its work in scalar operations."""
    known = found(RULES.get(op.name), "unknown op: this owner runs core form only", UNSUPPORTED)
    least, most = known.operands
    need(least <= len(op.operands) <= most, f"has {len(op.operands)} operands, expected {_count(least, most)}")
    need(len(op.result_types) == known.results, f"has {len(op.result_types)} results, expected {known.results}")
    for name, attr in op.attrs.items():
        need(name in known.attrs, f"has the unknown attribute '{name}'", UNSUPPORTED)
        wanted = known.attrs[name]
        need(wanted in ("any", attr.kind), f"attribute '{name}' is of kind {attr.kind}, expected {wanted}")
        is_plain = wanted == "any" or attr.kind != "integer" or attr.element == types.I64
        need(is_plain, f"attribute '{name}' is of type {types.NAMES[attr.element]}, expected i64")
    for name in known.attrs:
        need(name in op.attrs or name in known.optional, f"lacks the attribute '{name}'")
    for index, operand in enumerate(op.operand_types):
        expected = TableType if index == known.table_operand else TensorType
        need(isinstance(operand, expected), f"operand {index} is {operand}")
    work = known.check(op)
    moved = sum(t.numel for t in op.operand_types if isinstance(t, TensorType)) + sum(t.numel for t in op.result_types)
    return moved + (work or 0) + limits.CALL_WORK


def _count(least: int, most: int) -> str:
    return str(least) if least == most else f"{least} to {most}"


# Helpers of the rules. They run for every op, so they write their texts only when they refuse.


def classes(what: str, tensor: TensorType, allowed: str) -> None:
    if tensor.kind not in allowed:
        raise OwnerError(MALFORMED, f"{what} is {tensor}, elements of class {'/'.join(allowed)} are allowed")


def _types(types) -> str:
    return ", ".join(map(str, types[:8])) + (", ..." if len(types) > 8 else "")


def same_element(op, first: int = 0) -> int:
    if len({t.element for t in op.operand_types[first:]}) != 1:
        raise OwnerError(MALFORMED, "operands differ in element type: " + _types(op.operand_types[first:]))
    return op.operand_types[first].element


def splat_shape(op) -> tuple[int, ...]:
    """The one shape of the operands; rank-0 operands are splats."""
    shapes = {t.shape for t in op.operand_types if t.rank}
    if len(shapes) > 1:
        raise OwnerError(MALFORMED, "operands differ in shape: " + _types(op.operand_types))
    return shapes.pop() if shapes else ()


def result_is(op, element: int, shape, index: int = 0) -> None:
    expected = TensorType(element, tuple(shape))
    if op.result_types[index] != expected:
        raise OwnerError(MALFORMED, f"result {index} is {op.result_types[index]}, expected {expected}")


def dim_of(op, rank: int, name: str = "dim") -> int:
    dim = op.attr(name)
    need(0 <= dim < rank, f"{name} = {dim} is not a dimension of rank {rank}")
    return dim


def dims_of(op, rank: int, name: str = "dims") -> tuple[int, ...]:
    dims = op.attr(name)
    need(all(0 <= d < rank for d in dims), f"{name} = {dims} are not dimensions of rank {rank}")
    need(len(set(dims)) == len(dims), f"{name} = {dims} repeats a dimension")
    return dims


def per_dim(op, name: str, rank: int, least: int | None, is_bounded: bool = True) -> tuple[int, ...]:
    """A list attribute with one entry per dimension; a stride within a tensor needs no bound, it leads nowhere else."""
    values = op.attr(name)
    need(len(values) == rank, f"{name} has {len(values)} entries, expected {rank}")
    for value in values:
        need(least is None or value >= least, f"{name} = {values} holds a value below {least}")
        need(not is_bounded or abs(value) <= wire_format.DIM_MAX, f"{name} = {values} is too large", LIMIT)
    return values


def without(shape: tuple[int, ...], dims) -> tuple[int, ...]:
    return tuple(size for d, size in enumerate(shape) if d not in dims)


def product(sizes) -> int:
    return math.prod(sizes)


# The families register their rules when imported.
from . import verify_elementwise, verify_layout, verify_reduce, verify_window  # noqa: E402, F401
