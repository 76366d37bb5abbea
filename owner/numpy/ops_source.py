# SPDX-License-Identifier: Apache-2.0
"""Constants, ramps, random numbers, and the two ops that reach rows."""

from __future__ import annotations

import numpy as np

from . import parts, philox
from .kernels import kernel, rounded


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


def _drawn(op, seed, words: int, make) -> np.ndarray:
    """`make` of the words of each element (one array per word), chunk by chunk."""
    result = op.result_types[0]
    flat = np.empty(result.numel, result.dtype)
    for begin in range(0, flat.size, philox.CHUNK):
        part = flat[begin : begin + philox.CHUNK]
        drawn = philox.words(int(seed), op.attr("stream"), begin * words, part.size * words)
        part[:] = make(*(drawn[k::words] for k in range(words)))
    return flat.reshape(result.shape)


@kernel("rng_bits")
def _rng_bits(op, seed):
    return _drawn(op, seed, 1, lambda w: w)


@kernel("rng_uniform")
def _rng_uniform(op, seed):
    if op.result_types[0].dtype == np.float32:
        return _drawn(op, seed, 1, philox.uniform24)
    return _drawn(op, seed, 2, philox.uniform53)


def _box_muller(u1, u2):
    # 1 - u1 is in (0, 1], so that the logarithm is finite.
    return np.sqrt(-2.0 * np.log(1.0 - u1)) * np.cos(2.0 * np.pi * u2)


@kernel("rng_normal")
def _rng_normal(op, seed):
    u24, u53 = philox.uniform24, philox.uniform53
    if op.result_types[0].dtype == np.float32:
        return _drawn(op, seed, 2, lambda a, b: _box_muller(u24(a), u24(b)))
    return _drawn(op, seed, 4, lambda a, b, c, d: _box_muller(u53(a, b), u53(c, d)))


@kernel("sample_rows")
def _sample_rows(op, positions, seed, epoch, table):
    part = parts.rows_of(table.rows, parts.sides_of(op))
    if not op.attr("split"):
        return philox.epoch_rows(positions, int(seed), int(epoch), part.rows)
    inside = (positions >= 0) & (positions < part.rows)
    places = np.where(inside, positions + part.start, -1)
    return philox.epoch_rows(places, int(seed), int(epoch), part.parent)


@kernel("read_rows")
def _read_rows(op, table, indices):
    return table.read_rows(op.attr("columns"), indices, op.result_types[0])
