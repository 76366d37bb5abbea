# SPDX-License-Identifier: Apache-2.0
"""Where elements are nonzero, conversions of flat and multiple indices, and choices between arrays by a condition.

How many elements are nonzero depends on values: outside of steps the number is read, inside a step `size` gives it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy
import torch

from ._array import ndarray, wrap
from ._convert import _device_among, any_remote, by_numpy, function, is_remote, tensor, tensors
from ._dtypes import INTEGERS, NUMPY, torch_dtype

__all__ = [
    "argwhere",
    "compress",
    "extract",
    "flatnonzero",
    "nonzero",
    "ravel_multi_index",
    "select",
    "unravel_index",
    "where",
]

_WEAK = (bool, int, float, complex)
_MODES = ("raise", "wrap", "clip")


def truth(x: torch.Tensor) -> torch.Tensor:
    """Which elements are not zero."""
    return x if x.dtype == torch.bool else x != 0


def numbered(x, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """As `tensor`; a Python number is cast as NumPy casts it, and is no upload."""
    if type(x) not in _WEAK:
        return tensor(x, dtype, device)
    value = numpy.asarray(x).astype(NUMPY[dtype]).item()
    return torch.full((), value, dtype=dtype, device=device)


def common(*operands) -> torch.dtype:
    """NumPy's common dtype of arrays and host values, in which Python numbers are weak."""
    return torch_dtype(
        numpy.result_type(
            *(
                x
                if type(x) in _WEAK
                else NUMPY[x.dtype]
                if isinstance(x, torch.Tensor)
                else x.dtype
                if hasattr(x, "dtype")
                else NUMPY[tensor(x).dtype]
                if any_remote([x])
                else numpy.asarray(x).dtype
                for x in operands
            )
        )
    )


def broadcast(*operands: torch.Tensor) -> tuple[int, ...]:
    """The common shape; ValueError as NumPy's."""
    return numpy.broadcast_shapes(*(tuple(x.shape) for x in operands))


# Nonzero elements.


def _fixed(mask: torch.Tensor, size: int, fill_value) -> torch.Tensor:
    """The indices of the first `size` ones, [size, ndim]; rows that are left over are `fill_value`."""
    fills = fill_value if isinstance(fill_value, (list, tuple)) else (fill_value or 0,) * mask.dim()
    if len(fills) != mask.dim():
        raise ValueError(
            f"fill_value has {len(fills)} entries; expected a number, or one for each of {mask.dim()} axes"
        )
    if len(set(fills)) <= 1:
        return torch.nonzero_static(mask, size=size, fill_value=int(fills[0]) if fills else 0)
    rows = torch.nonzero_static(mask, size=size, fill_value=-1)
    return torch.where(rows < 0, torch.tensor([int(each) for each in fills]).to(rows.device), rows)


def _rows(x: torch.Tensor, size: int | None, fill_value) -> torch.Tensor:
    return x.nonzero() if size is None else _fixed(truth(x), size, fill_value)


def nonzero(a, *, size: int | None = None, fill_value=None) -> tuple[ndarray, ...]:
    """The indices of the elements that are not zero, an int64 array per axis.

    `size`: the number of indices, for steps, where it cannot be read: further ones are left out, missing ones are
    `fill_value` (default 0; a number, or one per axis). ValueError for arrays of no dimensions.
    """
    if size is None and not any_remote([a]):
        return numpy.nonzero(a)  # type: ignore[return-value]
    x = tensor(a)
    if x.dim() == 0:
        raise ValueError("Calling nonzero on 0d arrays is not allowed. Use np.atleast_1d(scalar).nonzero() instead.")
    return tuple(wrap(column) for column in _rows(x, size, fill_value).unbind(1))


def flatnonzero(a, *, size: int | None = None, fill_value=None) -> ndarray:
    """The indices in the raveled array of the elements that are not zero. `size`, `fill_value`: as of `nonzero`."""
    if size is None and not any_remote([a]):
        return numpy.flatnonzero(a)  # type: ignore[return-value]
    return wrap(_rows(tensor(a).reshape(-1), size, fill_value).squeeze(1))


def argwhere(a, *, size: int | None = None, fill_value=None) -> ndarray:
    """The indices of the elements that are not zero, int64[n, ndim]. `size`, `fill_value`: as of `nonzero`."""
    if size is None and not any_remote([a]):
        return numpy.argwhere(a)  # type: ignore[return-value]
    x = tensor(a)
    if x.dim() == 0:
        return wrap(_rows(x.reshape(1), size, fill_value)[:, :0])
    return wrap(_rows(x, size, fill_value))


def _plain(x, other):
    """An operand that torch takes as NumPy does: an array, or a float beside an array of floats. Else None."""
    if type(x) is ndarray:
        return x._t
    return x if type(x) is float and type(other) is ndarray and other._t.is_floating_point() else None


def where(condition, x=None, y=None, /, *, size: int | None = None, fill_value=None):
    """The elements of `x` where the condition holds, else those of `y`; with the condition alone, its `nonzero`.

    The dtype is NumPy's common one, in which Python numbers are weak.
    """
    if x is None and y is None:
        return nonzero(condition, size=size, fill_value=fill_value)
    if x is None or y is None:
        raise ValueError("either both or neither of x and y should be given")
    if size is not None:
        raise ValueError("size is of where(condition) alone: where(condition, x, y) has the shape of its arguments")
    if type(condition) is ndarray and condition._t.dtype == torch.bool:
        left, right = _plain(x, y), _plain(y, x)
        if left is not None and right is not None:
            try:
                return wrap(by_numpy(torch.where, condition._t, left, right))
            except RuntimeError:
                pass  # shapes that do not fit; told below
    device = _device_among((condition, x, y))
    if device is None:
        return numpy.where(condition, x, y)
    dtype = common(x, y)
    holds = truth(tensor(condition, device=device))
    left, right = numbered(x, dtype, device), numbered(y, dtype, device)
    try:
        broadcast(holds, left, right)
    except ValueError:
        shapes = " ".join(str(tuple(each.shape)).replace(" ", "") for each in (holds, left, right))
        raise ValueError(f"operands could not be broadcast together with shapes {shapes} ") from None
    return wrap(torch.where(holds, left, right))


def _along(x: torch.Tensor, mask: torch.Tensor, axis: int, size: int | None, fill_value) -> ndarray:
    """Where a mask of one dimension has ones along an axis."""
    leading: list[torch.Tensor | None] = [None] * axis
    if size is None:
        return wrap(torch.ops.aten.index.Tensor(x, [*leading, mask]))
    rows = _fixed(mask, size, -1).squeeze(1)
    found = torch.ops.aten.index.Tensor(x, [*leading, rows])
    column = (rows < 0).reshape((size,) + (1,) * (x.dim() - axis - 1))
    return wrap(torch.where(column, numbered(fill_value or 0, x.dtype, x.device), found))


def compress(condition, a, axis=None, out=None, *, size: int | None = None, fill_value=None) -> ndarray:
    """The slices along an axis for which the condition holds; default: of the raveled array.

    `size`: the number of slices, for steps: further ones are left out, missing ones are `fill_value` (default 0).
    A condition longer than the axis is refused, also where its entries beyond are zero.
    """
    if size is None and not any_remote((condition, a, out)):
        return numpy.compress(condition, a, axis, out)
    from ._selection import stored, take

    if not is_remote(condition) and not any_remote([condition]):
        holds = numpy.asarray(condition)
        if holds.ndim != 1:
            raise ValueError("condition must be a 1-d array")
        if size is None:
            return take(a, numpy.flatnonzero(holds), axis, out)
    mask, x = tensors(condition, a)
    if mask.dim() != 1:
        raise ValueError("condition must be a 1-d array")
    x, axis = (x.reshape(-1), 0) if axis is None else (x, numpy.lib.array_utils.normalize_axis_index(axis, x.dim()))
    if mask.shape[0] > x.shape[axis]:
        raise IndexError(
            f"condition has {mask.shape[0]} entries; index {mask.shape[0] - 1} is out of bounds for axis {axis} with "
            f"size {x.shape[axis]}"
        )
    return stored(_along(x.narrow(axis, 0, mask.shape[0]), truth(mask), axis, size, fill_value)._t, out)


def extract(condition, arr, *, size: int | None = None, fill_value=None) -> ndarray:
    """The elements of the raveled array for which the raveled condition holds. `size`, `fill_value`: of `compress`."""
    if size is None and not any_remote((condition, arr)):
        return numpy.extract(condition, arr)  # type: ignore[return-value]
    if not is_remote(condition) and not any_remote([condition]):
        return compress(numpy.ravel(condition), arr, size=size, fill_value=fill_value)
    return compress(wrap(tensor(condition).reshape(-1)), arr, size=size, fill_value=fill_value)


@function
def select(condlist, choicelist, default=0) -> ndarray:
    """Per element, the choice of the first condition that holds, else the default. Conditions are bool arrays."""
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    if len(condlist) == 0:
        raise ValueError("select with an empty condition list is not possible")
    device = _device_among((list(condlist), list(choicelist), default))
    assert device is not None  # an argument is remote
    dtype = common(*choicelist, default)
    masks = [tensor(each, device=device) for each in condlist]
    for k, mask in enumerate(masks):
        if mask.dtype != torch.bool:
            raise TypeError(f"invalid entry {k} in condlist: should be boolean ndarray")
    choices = [numbered(each, dtype, device) for each in choicelist]
    shape = numpy.broadcast_shapes(broadcast(*masks), broadcast(*choices))
    found = numbered(default, dtype, device).expand(shape)
    for mask, choice in zip(reversed(masks), reversed(choices)):
        found = torch.where(mask, choice, found)
    return wrap(found.clone() if not masks else found)


# Flat and multiple indices.


def _integers(x, device) -> tuple[torch.Tensor, numpy.ndarray | None]:
    """Of indices: the int64 tensor, and the host values, if they are at hand."""
    if is_remote(x) or any_remote([x]):
        found = tensor(x, device=device)
        if found.dtype not in INTEGERS and found.dtype != torch.bool:
            raise TypeError("only int indices permitted")
        return found.to(torch.int64), None
    host = numpy.asarray(x)
    if host.dtype.kind not in "biu" and host.size:
        raise TypeError("only int indices permitted")
    host = host.astype(numpy.int64)
    return tensor(host, device=device), host


def _steps(dims: tuple[int, ...], order: str) -> list[int]:
    if order not in ("C", "F"):
        raise ValueError("only 'C' or 'F' order is permitted")
    counts = [math.prod(dims[k + 1 :]) if order == "C" else math.prod(dims[:k]) for k in range(len(dims))]
    return counts


@function
def ravel_multi_index(multi_index, dims, mode="raise", order="C") -> ndarray:
    """The flat indices of indices per axis. Remote indices are not checked against the bounds in mode "raise"."""
    dims = tuple(dims) if isinstance(dims, (list, tuple)) else (int(dims),)
    modes = mode if isinstance(mode, tuple) else (mode,) * len(dims)
    for each in modes:
        if each not in _MODES:
            raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {each!r})")
    columns: Any = tensor(multi_index).unbind() if is_remote(multi_index) else multi_index
    if len(columns) != len(dims):
        raise ValueError(f"parameter multi_index must be a sequence of length {len(dims)}")
    device = _device_among(list(columns))
    flat = None
    for column, size, how, step in zip(columns, dims, modes, _steps(dims, order)):
        index, host = _integers(column, device)
        if how == "raise":
            if host is not None and ((host < 0) | (host >= size)).any():
                raise ValueError("invalid entry in coordinates array")
        else:
            index = torch.remainder(index, size) if how == "wrap" else index.clamp(0, size - 1)
        if flat is not None:
            broadcast(flat, index)
        flat = index * step if flat is None else flat + index * step
    assert flat is not None  # an argument is remote
    return wrap(flat)


@function
def unravel_index(indices, shape, order="C") -> tuple[ndarray, ...]:
    """The indices per axis of flat indices. Remote indices are not checked against the bounds."""
    dims = tuple(shape) if isinstance(shape, (list, tuple)) else (int(shape),)
    index, _ = _integers(indices, _device_among([indices]))
    if not dims:
        if index.dim():
            raise ValueError("multiple indices are not supported for 0d arrays")
        return ()
    return tuple(
        wrap(torch.remainder(torch.div(index, step, rounding_mode="floor") if step != 1 else index, size))
        for size, step in zip(dims, (max(step, 1) for step in _steps(dims, order)))
    )
