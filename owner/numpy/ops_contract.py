# SPDX-License-Identifier: Apache-2.0
"""dot, factors of matrices, the three convolutions, pooling. Windows are walked tap by tap: plain, and small in memory."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

import numpy as np

from .kernels import computed, kernel, rounded, widened


@kernel("dot")
def _dot(op, a, b):
    lhs_batch, rhs_batch = op.attr("lhs_batch"), op.attr("rhs_batch")
    lhs, rhs = op.attr("lhs_contract"), op.attr("rhs_contract")
    lhs_free = [d for d in range(a.ndim) if d not in lhs_batch + lhs]
    rhs_free = [d for d in range(b.ndim) if d not in rhs_batch + rhs]

    def size(x, dims):
        return int(np.prod([x.shape[d] for d in dims], dtype=np.int64))

    shape = (size(a, lhs_batch), size(a, lhs_free), size(a, lhs))
    left = widened(a).transpose(*lhs_batch, *lhs_free, *lhs).reshape(shape)
    right = widened(b).transpose(*rhs_batch, *rhs, *rhs_free).reshape(shape[0], shape[2], size(b, rhs_free))
    return rounded(np.matmul(left, right), op.result_types[0].dtype).reshape(op.result_types[0].shape)


@kernel("cholesky")
def _cholesky(op, x):
    """Column by column; a pivot that is not positive, a NaN too, ends a matrix."""
    x = computed(x)
    nan = complex(np.nan, np.nan) if np.iscomplexobj(x) else np.nan
    factor, order = np.zeros(x.shape, x.dtype), np.zeros(x.shape[:-2], np.int64)
    for j in range(x.shape[-1] if x.size else 0):  # columns of no matrix are no work that was priced
        done = factor[..., j:, :j]
        column = x[..., j:, j] - (done @ np.conj(done[..., 0, :, None]))[..., 0]
        pivot = np.sqrt(column[..., 0].real)
        order = np.where((order == 0) & ~(pivot > 0), j + 1, order)
        factor[..., j, j], factor[..., j + 1 :, j] = pivot, column[..., 1:] / pivot[..., None]
    factor[order > 0] = nan
    return rounded(factor, op.result_types[0].dtype), np.asarray(order, np.int64)


@kernel("triangular_solve")
def _triangular_solve(op, a, b):
    """Row by row, from the end that the triangle is short at."""
    a, x = computed(a), computed(b).copy()
    n, lower = a.shape[-1], op.attr("lower")
    for i in range(n) if lower else reversed(range(n)):
        known = slice(0, i) if lower else slice(i + 1, n)
        x[..., i, :] -= (a[..., i, None, known] @ x[..., known, :])[..., 0, :]
        if not op.attr("unit"):
            x[..., i, :] /= a[..., i, i, None]
    return rounded(x, op.result_types[0].dtype)


@kernel("lu")
def _lu(op, x):
    lu = computed(x).copy()
    *batch, m, n = lu.shape
    steps = min(m, n)
    pivots = np.zeros((*batch, steps), np.int64)
    rows = np.broadcast_to(np.arange(m), (*batch, m)).copy()
    order = np.zeros(batch, np.int64)
    for place in itertools.product(*map(range, batch)) if x.size else ():
        mine, row = lu[place], rows[place]
        for k in range(steps):
            sizes = np.abs(mine[k:, k].real) + np.abs(mine[k:, k].imag)  # what LAPACK compares
            pivot = k + (int(np.argmax(np.where(np.isnan(sizes), -1, sizes))) if not np.isnan(sizes[0]) else 0)
            pivots[(*place, k)] = pivot
            mine[[k, pivot]], row[[k, pivot]] = mine[[pivot, k]], row[[pivot, k]]
            if mine[k, k] != 0:
                mine[k + 1 :, k] /= mine[k, k]
            elif order[place] == 0:
                order[place] = k + 1
            mine[k + 1 :, k + 1 :] -= np.outer(mine[k + 1 :, k], mine[k, k + 1 :])
    return rounded(lu, op.result_types[0].dtype), pivots, rows, np.asarray(order, np.int64)


@kernel("qr")
def _qr(op, x):
    q, r = np.linalg.qr(computed(x), mode="complete" if op.attr("full") else "reduced")
    return rounded(q, op.result_types[0].dtype), rounded(r, op.result_types[1].dtype)


def turns(vectors):
    """Numbers of magnitude 1 by which the entry of the largest magnitude of each column, the first of nearly equal ones,
    is real and not negative."""
    sizes = np.abs(vectors)
    first = np.argmax(sizes >= sizes.max(-2, keepdims=True) * (1 - 2.0**-12), axis=-2, keepdims=True)
    entries = np.take_along_axis(vectors, first, -2)
    if not np.iscomplexobj(vectors):
        return np.where(entries < 0, -1, 1).astype(vectors.dtype)
    return np.where(entries == 0, 1, np.conj(entries) / np.where(entries == 0, 1, np.abs(entries)))


def without(op, index, x):
    """NaN in the shape of a result, in the dtype to compute in."""
    real, result = x.real.dtype, op.result_types[index]
    return (
        np.full(result.shape, complex(np.nan, np.nan), x.dtype)
        if result.kind == "X"
        else np.full(result.shape, np.nan, real)
    )


@kernel("eigh")
def _eigh(op, x):
    x = computed(x)
    batch = x.shape[:-2]
    values, vectors = without(op, 0, x), without(op, 1, x)
    for place in itertools.product(*map(range, batch)) if x.size else ():
        if np.isfinite(np.tril(x[place])).all():
            with contextlib.suppress(np.linalg.LinAlgError):
                values[place], vectors[place] = np.linalg.eigh(x[place], "L")
                vectors[place] *= turns(vectors[place])
    return rounded(values, op.result_types[0].dtype), rounded(vectors, op.result_types[1].dtype)


@kernel("svd")
def _svd(op, x):
    x = computed(x)
    u, s, vt = (without(op, index, x) for index in range(3))
    k = s.shape[-1]
    for place in itertools.product(*map(range, x.shape[:-2])) if u.size + vt.size else ():
        if np.isfinite(x[place]).all():
            with contextlib.suppress(np.linalg.LinAlgError):
                left, values, right = np.linalg.svd(x[place], full_matrices=op.attr("full"))
                factors = turns(left)[0] if left.size else np.ones(0)
                left = left * factors
                right[:k] *= np.conj(factors[:k, None])
                if right[k:].size:
                    right[k:] *= turns(right[k:].T)[0][:, None]
                u[place], s[place], vt[place] = left, values, right
    return tuple(rounded(y, t.dtype) for y, t in zip((u, s, vt), op.result_types))


def _taps(window):
    return itertools.product(*map(range, window))


def _at_tap(tap, out, stride, dilation) -> tuple[slice, ...]:
    """Where tap `tap` of every window lies in the padded input."""
    begins = [t * d for t, d in zip(tap, dilation)]
    ends = [b + (n - 1) * s + 1 for b, n, s in zip(begins, out, stride)]
    return (slice(None), slice(None), *map(slice, begins, ends, stride))


def _padded(x, padding, value=0):
    return np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)], constant_values=value)


def _grouped(x, groups):
    """[N, C, spatial...] as [N, groups, C / groups, positions]."""
    return x.reshape(x.shape[0], groups, x.shape[1] // groups, int(np.prod(x.shape[2:], dtype=np.int64)))


def _tap_weight(w, tap, groups):
    """[groups, O / groups, C / groups] of one tap."""
    return w[(slice(None), slice(None), *tap)].reshape(groups, w.shape[0] // groups, w.shape[1])


@kernel("conv")
def _conv(op, x, w):
    result, groups, stride, dilation = op.result_types[0], op.attr("groups"), op.attr("stride"), op.attr("dilation")
    if result.numel == 0:
        return np.zeros(result.shape, x.dtype)
    xp, wide = _padded(widened(x), op.attr("padding")), widened(w)
    y: Any = 0  # an array from the first tap on
    out = result.shape[2:]
    for tap in _taps(w.shape[2:]):
        y = y + np.matmul(_tap_weight(wide, tap, groups), _grouped(xp[_at_tap(tap, out, stride, dilation)], groups))
    return rounded(y.reshape(result.shape), x.dtype)


@kernel("conv_grad_input")
def _conv_grad_input(op, g, w):
    result, groups, padding = op.result_types[0], op.attr("groups"), op.attr("padding")
    out, wide, gg = g.shape[2:], widened(w), _grouped(widened(g), groups)
    spatial = [n + 2 * p for n, p in zip(result.shape[2:], padding)]
    xp = np.zeros((*result.shape[:2], *spatial), gg.dtype)
    if g.size and w.size:
        for tap in _taps(w.shape[2:]):
            share = np.matmul(_tap_weight(wide, tap, groups).transpose(0, 2, 1), gg)
            xp[_at_tap(tap, out, op.attr("stride"), op.attr("dilation"))] += share.reshape(*result.shape[:2], *out)
    cropped = xp[(slice(None), slice(None), *(slice(p, n - p) for p, n in zip(padding, spatial)))]
    return rounded(cropped, g.dtype)


@kernel("conv_grad_weight")
def _conv_grad_weight(op, g, x):
    result, groups = op.result_types[0], op.attr("groups")
    out, xp = g.shape[2:], _padded(widened(x), op.attr("padding"))
    gw = np.zeros(result.shape, xp.dtype)
    # One long product per group: positions of the whole batch are contracted together.
    gg = _grouped(widened(g), groups).transpose(1, 2, 0, 3).reshape(groups, g.shape[1] // groups, -1 if g.size else 0)
    for tap in _taps(result.shape[2:]) if g.size and result.numel else ():
        xs = _grouped(xp[_at_tap(tap, out, op.attr("stride"), op.attr("dilation"))], groups)
        xs = xs.transpose(1, 0, 3, 2).reshape(groups, -1, result.shape[1])
        gw[(slice(None), slice(None), *tap)] = np.matmul(gg, xs).reshape(result.shape[:2])
    return rounded(gw, g.dtype)


def _inside(op, sizes, out):
    """Per tap that lies on the input for some window: those windows, and the elements that it lies on there."""
    per_dim = []
    for size, count, taps, step, pad, spread in zip(
        sizes, out, op.attr("window"), op.attr("stride"), op.attr("padding"), op.attr("dilation")
    ):
        found = []
        for tap in range(taps):
            start = tap * spread - pad
            first = max(0, -(start // step)) if start < 0 else 0
            past = min(count, (size - 1 - start) // step + 1)
            if first < past:
                at = first * step + start
                found.append((slice(first, past), slice(at, at + (past - first - 1) * step + 1, step)))
        per_dim.append(found)
    for places in itertools.product(*per_dim):
        windows, elements = zip(*places)
        yield (slice(None), slice(None), *windows), (slice(None), slice(None), *elements)


@kernel("pool_sum")
def _pool_sum(op, x):
    result, wide = op.result_types[0], widened(x)
    y = np.zeros(result.shape, wide.dtype)
    for windows, elements in _inside(op, x.shape[2:], result.shape[2:]):
        y[windows] += wide[elements]
    return rounded(y, x.dtype)


@kernel("pool_max")
def _pool_max(op, x):
    result, key = op.result_types[0], computed(x)
    best, where = np.zeros(result.shape, key.dtype), np.full(result.shape, -1, np.int64)
    position = np.arange(int(np.prod(x.shape[2:], dtype=np.int64)), dtype=np.int64).reshape(1, 1, *x.shape[2:])
    for windows, elements in _inside(op, x.shape[2:], result.shape[2:]):
        value, known, place = key[elements], best[windows], where[windows]
        # The first element of a window is taken whatever it is; a later NaN wins over all before it.
        better = (value > known) | (place < 0) | np.isnan(value)
        best[windows] = np.where(better, value, known)
        where[windows] = np.where(better, position[elements], place)
    return rounded(best, x.dtype), where
