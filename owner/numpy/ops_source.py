# SPDX-License-Identifier: Apache-2.0
"""Constants, ramps, random numbers, and the two ops that reach rows."""

from __future__ import annotations

import functools

import numpy as np

from . import philox
from .kernels import kernel, rounded

_CACHED_ROWS_MAX = 1 << 20


@kernel("constant")
def _constant(op):
    value, dtype = op.attr("value"), op.result_types[0].dtype
    if dtype.kind in "iu":
        return np.asarray(value, np.int64).astype(dtype)  # an unsigned value may be written either way
    return rounded(np.asarray(value, np.float64), dtype) if dtype.kind != "b" else np.asarray(value != 0)


@kernel("iota")
def _iota(op):
    result, dim = op.result_types[0], op.attr("dim")
    ramp = np.arange(result.shape[dim], dtype=np.int64)
    ramp = rounded(ramp.astype(np.float64), result.dtype) if result.kind == "F" else ramp.astype(result.dtype)
    return np.broadcast_to(ramp.reshape([-1 if d == dim else 1 for d in range(result.rank)]), result.shape).copy()


@kernel("rng_bits")
def _rng_bits(op, seed):
    result = op.result_types[0]
    return philox.words(int(seed), op.attr("stream"), result.numel).astype(np.int64).reshape(result.shape)


@kernel("rng_uniform")
def _rng_uniform(op, seed):
    result = op.result_types[0]
    if result.dtype == np.float32:
        drawn = philox.uniform24(philox.words(int(seed), op.attr("stream"), result.numel))
    else:
        w = philox.words(int(seed), op.attr("stream"), 2 * result.numel)
        drawn = philox.uniform53(w[0::2], w[1::2])
    return drawn.astype(result.dtype).reshape(result.shape)


@kernel("rng_normal")
def _rng_normal(op, seed):
    result = op.result_types[0]
    if result.dtype == np.float32:
        w = philox.words(int(seed), op.attr("stream"), 2 * result.numel)
        u1, u2 = philox.uniform24(w[0::2]), philox.uniform24(w[1::2])
    else:
        w = philox.words(int(seed), op.attr("stream"), 4 * result.numel)
        u1, u2 = philox.uniform53(w[0::4], w[1::4]), philox.uniform53(w[2::4], w[3::4])
    # 1 - u1 is in (0, 1], so that the logarithm is finite.
    z = np.sqrt(-2.0 * np.log(1.0 - u1)) * np.cos(2.0 * np.pi * u2)
    return z.astype(result.dtype).reshape(result.shape)


@functools.lru_cache(maxsize=2)
def _cached_order(seed: int, epoch: int, rows: int) -> np.ndarray:
    return philox.epoch_order(seed, epoch, rows)


@kernel("sample_rows")
def _sample_rows(op, seed, epoch, start):
    rows, count = op.attr("rows"), op.result_types[0].numel
    order = _cached_order if rows <= _CACHED_ROWS_MAX else philox.epoch_order
    permutation, first = order(int(seed), int(epoch), rows), int(start)
    result = np.full(count, -1, np.int64)
    low, high = max(0, first), min(rows, first + count)  # Python integers: start + b cannot overflow
    if low < high:
        result[low - first : high - first] = permutation[low:high]
    return result


@kernel("read_rows")
def _read_rows(op, table, indices):
    return table.read_rows(op.attr("columns"), indices, op.result_types[0].dtype)
