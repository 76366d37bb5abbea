# SPDX-License-Identifier: Apache-2.0
"""Rules of convolution and pooling."""

from __future__ import annotations

from typing import Any

from . import limits, types
from .errors import LIMIT, need
from .verify import classes, per_dim, product, result_is, rule, same_element

_CONV: dict[str, Any] = {"stride": "integers", "padding": "integers", "dilation": "integers", "groups": "integer"}
_POOL: dict[str, Any] = {"window": "integers", "stride": "integers", "padding": "integers", "dilation": "integers"}


def _windows(op, sizes, window):
    """How many window positions fit; bounds what the kernel materialises on the way."""
    rank = len(sizes)
    stride, padding = per_dim(op, "stride", rank, 1), per_dim(op, "padding", rank, 0)
    dilation = per_dim(op, "dilation", rank, 1)
    need(product(window) <= limits.WINDOW_TAPS_MAX, f"window {window} is too large", LIMIT)
    out = []
    for size, taps, step, pad, spread in zip(sizes, window, stride, padding, dilation):
        room = size + 2 * pad - (spread * (taps - 1) + 1)
        need(taps >= 1 and room >= 0, f"window {window} does not fit {sizes} padded by {padding}")
        out.append(room // step + 1)
    return tuple(out)


def _padded(op, x) -> None:
    sizes = (n + 2 * p for n, p in zip(x.shape[2:], op.attr("padding")))
    volume = product(n or 1 for n in (*x.shape[:2], *sizes))
    need(volume * 8 <= 2 * limits.VALUE_BYTES_MAX, f"{x} padded by {op.attr('padding')} is too large", LIMIT)


def _convolution(op, x, w, g) -> int:
    for what, t in (("input", x), ("weight", w), ("output", g)):
        need(3 <= t.rank <= 5 and t.rank == x.rank, f"{what} is {t}, expected 1 to 3 spatial dimensions")
    classes("operand", x, "F")
    groups = op.attr("groups")
    need(groups >= 1 and w.shape[0] % groups == 0, f"{groups} groups do not divide the outputs of {w}")
    need(x.shape[1] == w.shape[1] * groups, f"input {x} and weight {w} do not fit {groups} groups")
    out = _windows(op, x.shape[2:], w.shape[2:])
    _padded(op, x)
    expected = (x.shape[0], w.shape[0], *out)
    need(g.shape == expected, f"output is {g}, expected shape {expected}")
    return product(expected) * product(w.shape[1:]) + 4 * limits.CALL_WORK * product(w.shape[2:])


@rule("conv", 2, **_CONV)
def _conv(op):
    element, (x, w) = same_element(op), op.operand_types
    work = _convolution(op, x, w, op.result_types[0])
    result_is(op, element, op.result_types[0].shape)
    return work


@rule("conv_grad_input", 2, **_CONV)
def _conv_grad_input(op):
    element, (g, w) = same_element(op), op.operand_types
    work = _convolution(op, op.result_types[0], w, g)
    result_is(op, element, op.result_types[0].shape)
    return work


@rule("conv_grad_weight", 2, **_CONV)
def _conv_grad_weight(op):
    element, (g, x) = same_element(op), op.operand_types
    work = _convolution(op, x, op.result_types[0], g)
    result_is(op, element, op.result_types[0].shape)
    return work


def _pooling(op) -> tuple:
    x = op.operand_types[0]
    need(3 <= x.rank <= 5, f"operand is {x}, expected 1 to 3 spatial dimensions")
    classes("operand", x, "ZF")
    window = per_dim(op, "window", x.rank - 2, 1)
    out = _windows(op, x.shape[2:], window)
    _padded(op, x)
    shape = (*x.shape[:2], *out)
    result_is(op, x.element, shape)
    return shape, (8 * product(shape) + 8 * limits.CALL_WORK) * product(window)


@rule("pool_sum", 1, **_POOL)
def _pool_sum(op):
    return _pooling(op)[1]


@rule("pool_max", 1, results=2, **_POOL)
def _pool_max(op):
    shape, work = _pooling(op)
    x = op.operand_types[0]
    for size, pad, taps, spread in zip(x.shape[2:], op.attr("padding"), op.attr("window"), op.attr("dilation")):
        # With these two every window touches an element, so that the largest one exists.
        need(2 * pad <= spread * (taps - 1) + 1, f"padding {op.attr('padding')} exceeds half of the window")
        need(pad == 0 or size >= spread, f"dilation {op.attr('dilation')} exceeds the size of {x}")
    result_is(op, types.I64, shape, 1)
    return work
