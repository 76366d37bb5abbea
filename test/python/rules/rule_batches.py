# SPDX-License-Identifier: Apache-2.0
"""Ops as they are on a batch: a new first dim counts runs, and dims in attributes move by one.

What a kernel gives for a batch has to be what it gives for each run alone; some runs are compared.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from rule_candidates import BINARY, REDUCTIONS, UNARY

from sojourn_numpy.run import KERNELS

ELEMENTWISE = {*UNARY, *BINARY, "compare", "select", "convert", "bitcast", "special", "special_binary"}
# Attributes that name dims, and those that hold one number per dim with what the new dim has.
DIMS = {"dims", "dim", "perm", "lhs_contract", "rhs_contract", "lhs_batch", "rhs_batch"}
_PER_DIM = {"start": 0, "stride": 1, "low": 0, "high": 0, "interior": 0}
_LEADING = {"perm", "lhs_batch", "rhs_batch"}
BATCHED = {
    *REDUCTIONS, "cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp", "argmax", "argmin", "sort", "topk", "concat",
    "take_along", "put_along", "transpose", "broadcast", "reshape", "slice", "update_slice", "reverse", "pad", "dot", "dynamic_slice",
    "dynamic_update_slice", "cholesky", "lu", "qr", "eigh", "svd", "eig", "triangular_solve", "parts", "complex", "fft_c2c", "fft_r2c",
    "fft_c2r", "sample_rows",
}  # fmt: skip
UNIFORM = {
    "pad": 1,
    "dynamic_slice": 1,
    "dynamic_update_slice": 2,
    "sample_rows": 1,
}  # operands from here on: one for all


class Table:
    """What an op knows of a table that it draws from: the same in all runs."""

    def __init__(self, rows: int):
        self.rows = rows


def of_run(x, k: int):
    """An operand in one run."""
    return x if isinstance(x, Table) else np.asarray(x[k])


def as_tuple(results) -> tuple:
    return tuple(np.asarray(y) for y in (results if isinstance(results, tuple) else (results,)))


def shifted(op, count: int):
    """The op with a first dim of `count`."""
    attrs = {}
    for key, attr in op.attrs.items():
        value = attr.value
        if key in DIMS and isinstance(value, tuple):
            value = (
                *((0,) if key in _LEADING or (key == "dims" and op.name == "broadcast") else ()),
                *(d + 1 for d in value),
            )
        elif key == "dim":
            value = value + 1
        elif key in _PER_DIM and isinstance(value, tuple):
            value = (_PER_DIM[key], *value)
        elif key == "limit":
            value = (count, *value)
        attrs[key] = attr._replace(value=value)
    results = tuple(type_._replace(shape=(count, *type_.shape)) for type_ in op.result_types)
    return dataclasses.replace(op, attrs=attrs, result_types=results)


def is_one(x: np.ndarray) -> bool:
    """Whether all runs have the same value."""
    bits = np.ascontiguousarray(x).reshape(len(x), -1).view(np.uint8)
    return not (bits != bits[:1]).any()


def elementwise(op, operands) -> tuple[np.ndarray, ...]:
    rank = max(x.ndim for x in operands)
    # A number that is the same in all runs stays one: NumPy's powers by one number are other functions.
    one = lambda x: x[0] if is_one(x) else x.reshape(len(x), *[1] * (rank - 1))
    spread = [one(x) if x.ndim == 1 < rank and len(x) else x for x in operands]
    return as_tuple(KERNELS[op.name](op, *spread))


def one_run(op, operands, k: int) -> tuple[np.ndarray, ...]:
    return as_tuple(KERNELS[op.name](op, *(of_run(x, k) for x in operands)))


def _numbers_along(dim: int, x, i) -> np.ndarray:
    """Numbers of a dim, one list per run, as take_along and put_along want them: for every place beside that dim."""
    flat = i.reshape(len(i), -1)
    wide = flat.reshape(len(flat), *[1] * (dim - 1), flat.shape[1], *[1] * (x.ndim - 1 - dim))
    return np.broadcast_to(wide, (*x.shape[:dim], flat.shape[1], *x.shape[dim + 1 :]))


def _take(op, x, i):
    dim = op.attr("dim") + 1
    y = KERNELS["take_along"](shifted(op, len(x)), x, _numbers_along(dim, x, i))
    return as_tuple(y.reshape(*x.shape[:dim], *i.shape[1:], *x.shape[dim + 1 :]))


def _put(op, x, i, u):
    index = _numbers_along(op.attr("dim") + 1, x, i)
    return as_tuple(KERNELS["put_along"](shifted(op, len(x)), x, index, u.reshape(index.shape)))


def _pool(op, x):
    """Windows leave the first two dims alone; the op is that of one run."""
    merged = lambda shape: (len(x) * shape[0], *shape[1:])
    types = tuple(type_._replace(shape=merged(type_.shape)) for type_ in op.result_types)
    results = KERNELS[op.name](dataclasses.replace(op, result_types=types), x.reshape(merged(x.shape[1:])))
    return tuple(y.reshape(len(x), *type_.shape) for y, type_ in zip(as_tuple(results), op.result_types))


# Ops that another op computes for a batch.
IN_OTHER_WORDS = {"take": _take, "put": _put, "pool_sum": _pool, "pool_max": _pool}


def whole_batch(op, operands, count: int) -> tuple[np.ndarray, ...] | None:
    """All runs in one call, or None where the op cannot."""
    if op.name in ELEMENTWISE:
        return elementwise(op, operands)
    if not operands:
        return tuple(np.broadcast_to(y, (count, *y.shape)) for y in as_tuple(KERNELS[op.name](op)))
    if op.name in IN_OTHER_WORDS and count >= 3:
        return IN_OTHER_WORDS[op.name](op, *operands)
    if op.name not in BATCHED or count < 3:
        return None
    operands = list(operands)
    for k in range(UNIFORM.get(op.name, len(operands)), len(operands)):
        if isinstance(operands[k], Table):
            continue
        if not is_one(operands[k]):
            return None
        operands[k] = operands[k][0]
    results = as_tuple(KERNELS[op.name](shifted(op, count), *operands))
    return tuple(np.ascontiguousarray(y) for y in results)
