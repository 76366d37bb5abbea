# SPDX-License-Identifier: Apache-2.0
"""Layout ops: the same elements elsewhere. Results may share memory with operands, nothing is written."""

from __future__ import annotations

import numpy as np

from .kernels import kernel


@kernel("broadcast")
def _broadcast(op, x):
    shape, dims = op.result_types[0].shape, op.attr("dims")
    aligned = [1] * len(shape)
    for k, dim in enumerate(dims):
        aligned[dim] = x.shape[k]
    return np.broadcast_to(x.reshape(aligned), shape)


@kernel("reshape")
def _reshape(op, x):
    return x.reshape(op.result_types[0].shape)


@kernel("transpose")
def _transpose(op, x):
    return x.transpose(op.attr("perm"))


@kernel("slice")
def _slice(op, x):
    return x[_slices(op.attr("start"), op.attr("limit"), op.attr("stride"))]


def _slices(start, limit, stride) -> tuple[slice, ...]:
    return tuple(slice(*bounds) for bounds in zip(start, limit, stride))


@kernel("reverse")
def _reverse(op, x):
    return np.flip(x, op.attr("dims")) if op.attr("dims") else x


@kernel("update_slice")
def _update_slice(op, x, u):
    y, start, stride = x.copy(), op.attr("start"), op.attr("stride")
    limit = [low + max(n - 1, 0) * step + (n > 0) for low, n, step in zip(start, u.shape, stride)]
    y[_slices(start, limit, stride)] = u
    return y


def _window(dims, starts, shape, part) -> tuple[slice, ...]:
    """Where a part of a shape lies that begins at `starts` along `dims`, moved inside."""
    first = [0] * len(shape)
    for dim, start in zip(dims, starts):
        first[dim] = min(max(int(start), 0), shape[dim] - part[dim])
    return tuple(slice(low, low + size) for low, size in zip(first, part))


@kernel("dynamic_slice")
def _dynamic_slice(op, x, *starts):
    return x[_window(op.attr("dims"), starts, x.shape, op.result_types[0].shape)]


@kernel("dynamic_update_slice")
def _dynamic_update_slice(op, x, u, *starts):
    y = x.copy()
    y[_window(op.attr("dims"), starts, x.shape, u.shape)] = u
    return y


@kernel("concat")
def _concat(op, *xs):
    return np.concatenate(xs, axis=op.attr("dim"))


@kernel("pad")
def _pad(op, x, value):
    y = np.full(op.result_types[0].shape, value[()], x.dtype)
    source, target = [], []
    for size, length, low, between in zip(x.shape, y.shape, op.attr("low"), op.attr("interior")):
        # Element j lands at low + j * step; those inside [0, length) are first .. last - 1.
        step = between + 1
        first = max(0, -(low // step)) if low < 0 else 0
        last = min(size, max(first, -(-(length - low) // step)))
        source.append(slice(first, last))
        begin = low + first * step
        target.append(slice(begin, begin + max(last - first - 1, 0) * step + (last > first), step))
        if last <= first:
            return y
    y[tuple(target)] = x[tuple(source)]
    return y
