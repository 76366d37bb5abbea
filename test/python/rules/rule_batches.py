# SPDX-License-Identifier: Apache-2.0
"""Ops as they are on a batch: a new first dim counts runs, and dims in attributes move by one.

What a kernel gives for a batch has to be what it gives for each run alone; the first and the last run are compared.
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


def elementwise(op, operands) -> tuple[np.ndarray, ...]:
    rank = max(x.ndim for x in operands)
    spread = [x.reshape(len(x), *[1] * (rank - 1)) if x.ndim == 1 else x for x in operands]
    return as_tuple(KERNELS[op.name](op, *spread))


def one_run(op, operands, k: int) -> tuple[np.ndarray, ...]:
    return as_tuple(KERNELS[op.name](op, *(np.asarray(x[k]) for x in operands)))


def whole_batch(op, operands, count: int) -> tuple[np.ndarray, ...] | None:
    """All runs in one call, or None where the op cannot."""
    if op.name in ELEMENTWISE:
        return elementwise(op, operands)
    if not operands:
        return tuple(np.broadcast_to(y, (count, *y.shape)) for y in as_tuple(KERNELS[op.name](op)))
    if op.name not in BATCHED or count < 3:
        return None
    operands = list(operands)
    for k in range(UNIFORM.get(op.name, len(operands)), len(operands)):
        if len({x.tobytes() for x in operands[k]}) > 1:
            return None
        operands[k] = operands[k][0]
    results = as_tuple(KERNELS[op.name](shifted(op, count), *operands))
    return tuple(np.ascontiguousarray(y) for y in results)
