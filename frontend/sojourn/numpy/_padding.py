# SPDX-License-Identifier: Apache-2.0
"""Arrays with a margin."""

from __future__ import annotations

import numpy
import torch

from ._array import ndarray, wrap
from ._convert import any_remote, function, is_remote, tensor
from ._dtypes import COMPLEX, FLOATS, INTEGERS, NUMPY
from ._manipulation import check_fits
from ._ranges import linspace
from ._rearranging import picked

__all__ = ["pad"]

_OPTIONS: dict[str, tuple[str, ...]] = {
    "constant": ("constant_values",),
    "linear_ramp": ("end_values",),
    **dict.fromkeys(("maximum", "mean", "median", "minimum"), ("stat_length",)),
    **dict.fromkeys(("reflect", "symmetric"), ("reflect_type",)),
    **dict.fromkeys(("empty", "edge", "wrap"), ()),
}


@function
def pad(array, pad_width, mode="constant", **kwargs) -> ndarray:
    """The array with margins before and behind each axis, filled by `mode`; NumPy's modes and their options.

    `pad_width`: a number, a pair, a pair for each axis, or a dictionary of axes. NotImplementedError for a function as
    `mode`: pad with a constant and assign to slices.
    """
    found = tensor(array)
    widths = _widths(pad_width, found.dim())
    if callable(mode):
        raise NotImplementedError("pad: mode is a function; pad with mode='empty', and assign to slices of the result")
    if mode not in _OPTIONS:
        raise ValueError(f"mode '{mode}' is not supported")
    unknown = set(kwargs) - set(_OPTIONS[mode])
    if unknown:
        raise ValueError(f"unsupported keyword arguments for mode '{mode}': {unknown}")
    if mode == "empty":
        return wrap(_constant(found, widths, [(0, 0)] * found.dim()))
    if mode == "constant":
        return wrap(_constant(found, widths, _pairs(kwargs.get("constant_values", 0), found.dim())))
    if found.numel() == 0:
        for axis, width in enumerate(widths):
            if found.shape[axis] == 0 and any(width):
                raise ValueError(f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'")
        return wrap(found.new_empty([n + sum(width) for n, width in zip(found.shape, widths)]))
    if mode == "linear_ramp":
        ends = _pairs(kwargs.get("end_values", 0), found.dim())
        return wrap(_by_axis(found, widths, lambda x, axis, width: _ramps(x, axis, width, ends[axis])))
    if mode in ("maximum", "mean", "median", "minimum"):
        given = kwargs.get("stat_length")
        lengths = [(None, None)] * found.dim() if given is None else _checked(_pairs(given, found.dim()))
        return wrap(_by_axis(found, widths, lambda x, axis, width: _statistics(x, axis, width, lengths[axis], mode)))
    if mode in ("reflect", "symmetric") and kwargs.get("reflect_type", "even") == "odd":
        return wrap(_by_axis(found, widths, lambda x, axis, width: _odd(x, axis, width, mode == "symmetric")))
    for axis, width in enumerate(widths):
        if any(width):
            # NumPy pads the indices.
            found = picked(found, axis, numpy.pad(numpy.arange(found.shape[axis]), width, mode))
    return wrap(found if any(map(any, widths)) else found.clone())


def _widths(pad_width, dims: int) -> list[tuple[int, int]]:
    """The widths before and behind each axis."""
    if isinstance(pad_width, dict):
        pairs: list = [(0, 0)] * dims
        for axis, width in pad_width.items():
            pairs[axis] = (width, width) if isinstance(width, (int, numpy.integer)) else tuple(width)
        pad_width = pairs
    given = numpy.asarray(pad_width)
    if given.dtype.kind != "i":
        raise TypeError("`pad_width` must be of integral type.")
    if (given < 0).any():
        raise ValueError("index can't contain negative values")
    return _checked(_pairs(given, dims))


def _checked(pairs) -> list[tuple[int, int]]:
    made = [tuple(None if x is None else round(float(x)) for x in pair) for pair in pairs]
    if any(x is not None and x < 0 for pair in made for x in pair):
        raise ValueError("index can't contain negative values")
    return made  # type: ignore[return-value]


def _pairs(given, dims: int) -> list[tuple]:
    """An option as a pair for each axis. Remote numbers are taken in lists; a remote array is one of no dimensions."""
    if is_remote(given):
        if tensor(given).dim():
            given = [tensor(part) for part in tensor(given).unbind()]
            return _pairs([[tensor(x) for x in part.unbind()] if part.dim() else part for part in given], dims)
        return [(given, given)] * dims
    if any_remote([given]):
        # Nested lists, of which NumPy broadcasts places.
        flat = [x for part in given for x in (part if isinstance(part, (list, tuple)) else (part,))]
        rows = [len(part) if isinstance(part, (list, tuple)) else None for part in given]
        shape = (len(rows),) if rows[0] is None else (len(rows), rows[0])
        places = _pairs(numpy.arange(len(flat)).reshape(shape), dims)
        return [(flat[int(a)], flat[int(b)]) for a, b in places]
    values = numpy.asarray(given)
    if values.ndim < 3 and values.size == 1:
        return [(values.reshape(-1)[0],) * 2] * dims
    if values.ndim < 3 and values.size == 2 and values.shape != (2, 1):
        return [tuple(values.reshape(-1))] * dims
    return [tuple(pair) for pair in numpy.broadcast_to(values, (dims, 2))]


def _by_axis(x: torch.Tensor, widths, margins) -> torch.Tensor:
    """Each axis extended by its margins, which include those of the axes before."""
    for axis, width in enumerate(widths):
        if any(width):
            before, behind = margins(x, axis, width)
            parts = [before] if width[0] else []
            parts.append(x)
            parts.extend([behind] if width[1] else [])
            x = torch.cat(parts, axis)
    return x if any(map(any, widths)) else x.clone()


def _sized(x: torch.Tensor, axis: int, count: int) -> list[int]:
    return [count if k == axis else n for k, n in enumerate(x.shape)]


def _constant(x: torch.Tensor, widths, values) -> torch.Tensor:
    numbers: list[tuple] = []
    for pair in values:
        numbers.append(tuple(v if is_remote(v) else numpy.asarray(v).astype(NUMPY[x.dtype]).item() for v in pair))
    host = {v for pair in numbers for v in pair} if not any_remote([*numbers]) else set()
    if len(host) == 1 and not x.is_complex():
        flat = [w for width in reversed(widths) for w in width]
        return torch.nn.functional.pad(x, flat, value=host.pop()) if any(flat) else x.clone()

    def margins(x, axis, width):
        return [_filled(x, _sized(x, axis, count), v) for count, v in zip(width, numbers[axis])]

    return _by_axis(x, widths, margins)


def _filled(like: torch.Tensor, sizes, value) -> torch.Tensor:
    if not is_remote(value):
        return torch.full(sizes, value, dtype=like.dtype, device=like.device)
    there = tensor(value, like.dtype)
    check_fits(there, sizes)
    return there.expand(sizes)


def _ramps(x: torch.Tensor, axis: int, width, ends):
    made = []
    for end, at, count in zip(ends, (0, x.shape[axis] - 1), width):
        bound = end if is_remote(end) else numpy.asarray(end)[()]
        edge = wrap(x.select(axis, at))
        ramp = linspace(bound, edge, count, endpoint=False, dtype=NUMPY[x.dtype], axis=axis)
        made.append(ramp._t)
    return made[0], made[1].flip(axis)


def _statistics(x: torch.Tensor, axis: int, width, lengths, mode: str):
    size = x.shape[axis]
    first, last = (size if n is None or n > size else n for n in lengths)
    if 0 in (first, last) and mode in ("maximum", "minimum"):
        raise ValueError("stat_length of 0 yields no value for padding")
    if mode in ("maximum", "minimum", "median") and x.dtype in COMPLEX:
        raise TypeError(f"pad: mode={mode!r} of complex arrays is not supported: they have no order")
    chunks = [x.narrow(axis, 0, first), x.narrow(axis, size - last, last)]
    return [
        _statistic(chunk, axis, mode, x.dtype).expand(_sized(x, axis, count)) for chunk, count in zip(chunks, width)
    ]


def _statistic(chunk: torch.Tensor, axis: int, mode: str, held: torch.dtype) -> torch.Tensor:
    if mode in ("maximum", "minimum"):
        return (torch.amax if mode == "maximum" else torch.amin)(chunk, axis, keepdim=True)
    wide = chunk.to(torch.float32) if held == torch.float16 else chunk
    wide = wide if wide.dtype in FLOATS or wide.dtype in COMPLEX else wide.to(torch.float64)
    if mode == "mean":
        made = wide.mean(axis, keepdim=True)
    else:
        count = chunk.shape[axis]
        ordered = wide.sort(axis).values
        # Sorted, NaN is last; a median of values with NaN is NaN.
        middle = ordered.narrow(axis, (count - 1) // 2, 2 - count % 2).mean(axis, keepdim=True)
        end = ordered.narrow(axis, count - 1, 1)
        made = torch.where(torch.isnan(end), end, middle)
    return (made.round() if held in INTEGERS else made).to(held)


def _odd(x: torch.Tensor, axis: int, width, with_edge: bool):
    """Reflections at the edges' values, again and again where the margin is wider than the axis."""
    size = x.shape[axis]
    if size == 1:
        return [x.expand(_sized(x, axis, count)) for count in width]

    def extended(part: torch.Tensor, count: int) -> torch.Tensor:
        # The margin behind; each block is the one before, turned at its last element.
        made: list[torch.Tensor] = []
        left = count
        while left > 0:
            edge = part.narrow(axis, size - 1, 1)
            turned = part.flip(axis)
            # Of a bool, 2 * edge - part is not zero where one of them is not.
            block = edge | turned if x.dtype == torch.bool else 2 * edge - turned
            if not with_edge:
                made.append(block.narrow(axis, 1, min(size - 1, left)))
                left -= size - 1
            else:
                made.append(block.narrow(axis, 0, min(size, left)))
                left -= size
            part = block
        return torch.cat(made, axis) if made else part.narrow(axis, 0, 0)

    return [extended(x.flip(axis), width[0]).flip(axis), extended(x, width[1])]
