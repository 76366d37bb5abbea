# SPDX-License-Identifier: Apache-2.0
"""Elements by index along axes, writes by index and by mask, diagonals, and parts of complex arrays."""

from __future__ import annotations

import numpy
import torch

from ._array import ndarray, wrap
from ._casts import cast, require_cast
from ._convert import _device_among, any_remote, axis_of, function, is_remote, tensor
from ._dtypes import COMPLEX, INTEGERS, NUMPY
from ._indexing import _number, _operand
from ._indexing import put as _put_item
from ._nonzero import broadcast, common, numbered, truth

__all__ = [
    "choose",
    "diagonal",
    "fill_diagonal",
    "imag",
    "iscomplex",
    "isreal",
    "piecewise",
    "place",
    "put",
    "put_along_axis",
    "putmask",
    "real",
    "take",
    "take_along_axis",
]

_MODES = ("raise", "wrap", "clip")
_index = torch.ops.aten.index.Tensor


def stored(made: torch.Tensor, out, function: str = "take") -> ndarray:
    """The result, written into an argument `out` where there is one."""
    if out is None:
        return wrap(made)
    if not is_remote(out):
        raise TypeError("return arrays must be of ArrayType: out lives at the owner, make it with zeros_like")
    to = tensor(out)
    if to.shape != made.shape:
        raise ValueError(f"output array does not match result of ndarray.{function}")
    # NumPy fills a buffer of the result's dtype that holds the old values, too.
    if not numpy.can_cast(NUMPY[to.dtype], NUMPY[made.dtype], "safe"):
        raise TypeError(
            f"Cannot cast array data from {NUMPY[to.dtype]!r} to {NUMPY[made.dtype]!r} according to the rule 'safe'"
        )
    to.copy_(cast(made, to.dtype))
    return out


def _positions(indices, size: int, axis: int, mode: str, device: torch.device) -> torch.Tensor:
    """Indices along an axis as int64, in bounds as far as they are known here."""
    if mode not in _MODES:
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    if is_remote(indices) or any_remote([indices]):
        index = tensor(indices, device=device)
        if index.dtype not in INTEGERS and index.dtype != torch.bool:
            raise TypeError(
                f"Cannot cast array data from {NUMPY[index.dtype]!r} to dtype('int64') according to the rule 'same_kind'"
            )
        index = index.to(torch.int64)
    else:
        kept = indices if isinstance(indices, numpy.ndarray) else numpy.asarray(indices, dtype=numpy.int64)
        host = kept.astype(numpy.int64, casting="same_kind")
        if mode == "raise" and host.size and size:
            wrong = host[(host < -size) | (host >= size)]
            if wrong.size:
                raise IndexError(f"index {wrong.flat[0]} is out of bounds for axis {axis} with size {size}")
        index = tensor(host, device=device)
    if index.numel() and not size:
        raise IndexError("cannot do a non-empty take from an empty axes.")
    if mode == "wrap":
        return torch.remainder(index, size) if size else index
    return index.clamp(0, size - 1) if mode == "clip" else index


def _of(value, t: torch.Tensor) -> torch.Tensor:
    """A value to write as a tensor of the dtype of `t`."""
    number = _number(value, t.dtype)
    return _operand(value, t) if number is None else torch.full((), number, dtype=t.dtype, device=t.device)


def _safely(value, t: torch.Tensor) -> torch.Tensor:
    """A value to write, as `_of` gives it. TypeError for an array whose dtype holds more than that of `t`; scalars, and
    remote arrays of no dimensions, which stand for NumPy's scalars, are cast."""
    given = NUMPY[tensor(value).dtype] if is_remote(value) else getattr(value, "dtype", None)
    if isinstance(given, numpy.dtype) and not isinstance(value, numpy.generic) and value.ndim:
        require_cast(given, NUMPY[t.dtype], "safe")
    return _of(value, t)


def _repeated(values: torch.Tensor, count: int) -> torch.Tensor:
    """The first entries, begun again where they end."""
    flat = values.reshape(-1)
    if flat.shape[0] == 1:
        return flat.expand(count)
    return (flat if flat.shape[0] >= count else flat.repeat(-(-count // flat.shape[0])))[:count]


def _target(a, text: str) -> torch.Tensor:
    """The array that a function writes into."""
    if isinstance(a, numpy.ndarray):
        raise TypeError(
            "the array to write into is a host array, and an argument is remote; make it remote by np.asarray"
        )
    if not is_remote(a):
        raise TypeError(text.format(type(a).__name__))
    return tensor(a)


# Elements by index.


@function
def take(a, indices, axis=None, out=None, mode="raise") -> ndarray:
    """Elements along an axis; default: of the raveled array. The dims of the indices take the place of the axis.

    `mode`: the treatment of indices out of bounds, "raise", "wrap" or "clip". Remote indices are not checked: their
    values stay at the owner.
    """
    device = _device_among((a, indices, out))
    x = tensor(a, device=device)
    x, axis = (x.reshape(-1), 0) if axis is None else (x, axis_of(axis, x.dim()))
    index = _positions(indices, x.shape[axis], axis, mode, x.device)
    return stored(_index(x, [None] * axis + [index]), out)


def _aligned(x: torch.Tensor, indices, axis) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Of functions along an axis: the array, the indices from 0 on, both of equal other dims, and the axis."""
    if not hasattr(indices, "dtype"):
        indices = tensor(indices, device=x.device) if any_remote([indices]) else numpy.asarray(indices)
    if axis is None:
        if indices.ndim != 1:
            raise ValueError("when axis=None, `indices` must have a single dimension.")
        x, axis = x.reshape(-1), 0
    axis = axis_of(axis, x.dim())
    if indices.ndim != x.dim():
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    kinds = NUMPY[indices.dtype].kind if isinstance(indices, torch.Tensor) else indices.dtype.kind
    if kinds not in "iu":
        raise IndexError("`indices` must be an integer array")
    size = x.shape[axis]
    if is_remote(indices):
        index = tensor(indices).to(torch.int64)
        index = torch.where(index < 0, index + size, index)
    else:
        wrong = indices[(indices < -size) | (indices >= size)]
        if wrong.size:
            raise IndexError(f"index {wrong.flat[0]} is out of bounds for axis {axis} with size {size}")
        index = tensor(numpy.where(indices < 0, indices + size, indices).astype(numpy.int64), device=x.device)
    mine = [1 if k == axis else n for k, n in enumerate(x.shape)]
    theirs = [1 if k == axis else n for k, n in enumerate(index.shape)]
    try:
        other = list(numpy.broadcast_shapes(mine, theirs))
    except ValueError:
        shapes = f"{tuple(index.shape)} {tuple(mine)}".replace(" ", "").replace(")(", ") (")
        raise IndexError(
            f"shape mismatch: indexing arrays could not be broadcast together with shapes {shapes} "
        ) from None
    index = index.expand([index.shape[axis] if k == axis else n for k, n in enumerate(other)])
    return x, index, axis


@function
def take_along_axis(arr, indices, axis=-1) -> ndarray:
    """Elements by one index array per line along an axis, as `argsort` gives them; other dims are broadcast.

    Remote indices are not checked against the bounds.
    """
    x = tensor(arr, device=_device_among((arr, indices)))
    x, index, axis = _aligned(x, indices, axis)
    full = x.expand([x.shape[axis] if k == axis else n for k, n in enumerate(index.shape)])
    return wrap(torch.gather(full, axis, index))


@function
def put_along_axis(arr, indices, values, axis) -> None:
    """Writes values, which are broadcast to the indices, to where `take_along_axis` would take them."""
    t = _target(arr, "'{}' object has no attribute 'ndim'")
    flat, index, along = _aligned(t, indices, axis)
    if any(n != m for k, (n, m) in enumerate(zip(flat.shape, index.shape)) if k != along):
        # Dims of one entry, which the indices broadcast: the last write stays.
        where = tuple(
            index
            if k == along
            else torch.arange(n, device=t.device).reshape([-1 if j == k else 1 for j in range(t.dim())])
            for k, n in enumerate(t.shape)
        )
        _put_item(wrap(t), tuple(map(wrap, where)), values)
        return
    found = _of(values, t)
    shape = tuple(index.shape)
    if numpy.broadcast_shapes(tuple(found.shape), shape) != shape:
        raise ValueError(
            f"shape mismatch: value array of shape {tuple(found.shape)} could not be broadcast to indexing result of "
            f"shape {shape}"
        )
    source = found.expand(shape)
    if not index.numel():
        return
    if axis is None:
        t.copy_(flat.scatter(0, index, source).reshape(t.shape))
    else:
        t.scatter_(along, index, source)


@function
def put(a, ind, v, mode="raise") -> None:
    """Writes values, repeated as needed, to places of the raveled array. Remote indices are not checked."""
    t = _target(a, "argument 1 must be numpy.ndarray, not <class '{}'>")
    if t.numel() == 0 and not any_remote([ind]) and numpy.size(ind):
        raise IndexError("cannot replace elements of an empty array")
    index = _positions(ind, t.numel(), 0, mode, t.device).reshape(-1)
    values = _of(v, t)
    if not values.numel() or not index.numel():
        return
    source = _repeated(values, index.numel())
    if t.is_contiguous():
        t.view(-1).index_put_((index,), source)
    else:
        t.copy_(t.reshape(-1).index_put((index,), source).reshape(t.shape))


def _mask(mask, t: torch.Tensor, name: str) -> torch.Tensor:
    found = truth(tensor(mask, device=t.device))
    if found.numel() != t.numel():
        raise ValueError(f"{name}: mask and data must be the same size")
    return found.reshape(t.shape)


@function
def place(arr, mask, vals) -> None:
    """Writes the first values, repeated as needed, to where the mask holds, in C order.

    ValueError for no values, also where a remote mask holds nowhere.
    """
    t = _target(arr, "place() argument 1 must be numpy.ndarray, not {}")
    chosen = _mask(mask, t, "place")
    values = _safely(vals, t)
    if not values.numel():
        if any_remote([mask]) or numpy.any(mask):
            raise ValueError("Cannot insert from an empty array!")
        return
    if not t.numel():
        return
    if values.numel() == 1:
        t.copy_(torch.where(chosen, values.reshape(()), t))
    else:
        t.masked_scatter_(chosen, _repeated(values, t.numel()))


@function
def putmask(a, /, mask, values) -> None:
    """Writes to where the mask holds what the values, repeated as needed, have at the same place of the raveled array."""
    t = _target(a, "putmask: first argument must be an array")
    chosen = _mask(mask, t, "putmask")
    source = _safely(values, t)
    if source.numel() and t.numel():
        t.copy_(torch.where(chosen, _repeated(source, t.numel()).reshape(t.shape), t))


@function
def choose(a, choices, out=None, mode="raise") -> ndarray:
    """Per element, that of the choice which the index array names; all are broadcast.

    `mode`: as of `take`. Remote indices are not checked against the number of choices.
    """
    given = list(tensor(choices).unbind()) if is_remote(choices) else list(choices)
    if not given:
        raise ValueError("0-length sequence.")
    device = _device_among((a, given, out))
    assert device is not None  # an argument is remote
    if mode not in _MODES:
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    if not any_remote([a]):
        host = numpy.asarray(a)
        index = tensor(host.astype(numpy.int64, casting="safe"), device=device)
        if mode == "raise" and ((host < 0) | (host >= len(given))).any():
            raise ValueError("invalid entry in choice array")
    else:
        index = tensor(a, device=device)
        if index.dtype not in INTEGERS and index.dtype != torch.bool:
            raise TypeError(
                f"Cannot cast array data from {NUMPY[index.dtype]!r} to dtype('int64') according to the rule 'safe'"
            )
        index = index.to(torch.int64)
    if mode != "raise":
        index = torch.remainder(index, len(given)) if mode == "wrap" else index.clamp(0, len(given) - 1)
    dtype = common(*given)
    parts = [numbered(each, dtype, device) for each in given]
    shape = broadcast(index, *parts)
    stack = torch.stack([part.expand(shape) for part in parts])
    return stored(torch.gather(stack, 0, index.expand(shape).unsqueeze(0)).squeeze(0), out, "choose")


@function
def piecewise(x, condlist, funclist, *args, **kw) -> ndarray:
    """Per element, the function (or the number) of the last condition that holds, else the further one, else zero.

    Functions are called on the whole array, not on the elements where the condition holds: their number stays at the
    owner. Give functions that work per element.
    """
    device = _device_among((x, condlist))
    t = tensor(x, device=device)
    if isinstance(condlist, (bool, numpy.bool_)):
        condlist = [condlist]
    else:
        first = condlist[0]
        within = is_remote(first) and (first.ndim > 0 or not is_remote(condlist))
        if t.dim() and not within and not isinstance(first, (list, numpy.ndarray)):
            condlist = [condlist]
    masks = [truth(tensor(each, device=device)) for each in condlist]
    count = len(masks)
    if len(funclist) not in (count, count + 1):
        raise ValueError(f"with {count} condition(s), either {count} or {count + 1} functions are expected")
    for mask in masks:
        for k, (n, m) in enumerate(zip(t.shape, mask.shape)):
            if n != m:
                raise IndexError(
                    f"boolean index did not match indexed array along axis {k}; size of axis is {n} but size of "
                    f"corresponding boolean axis is {m}"
                )
    functions = list(funclist)
    found = torch.zeros_like(t)
    if len(functions) == count + 1:
        last = functions.pop()
        masks.insert(0, torch.ones((), dtype=torch.bool, device=t.device))
        functions.insert(0, last)
    for mask, each in zip(masks, functions):
        value = _of(each(wrap(t), *args, **kw) if callable(each) else each, t)
        column = mask.reshape(tuple(mask.shape) + (1,) * (t.dim() - mask.dim())) if mask.dim() else mask
        found = torch.where(column, value, found)
    return wrap(found)


# Diagonals.


@function
def diagonal(a, offset=0, axis1=0, axis2=1) -> ndarray:
    """The diagonals of two axes, as the last axis: a view, which (unlike NumPy's) can be written."""
    x = tensor(a)
    if x.dim() < 2:
        raise ValueError("diag requires an array of at least two dimensions")
    first, second = (
        numpy.lib.array_utils.normalize_axis_index(axis, x.dim(), name)
        for axis, name in ((axis1, "axis1"), (axis2, "axis2"))
    )
    if first == second:
        raise ValueError("axis1 and axis2 cannot be the same")
    return wrap(torch.diagonal(x, offset, first, second))


@function
def fill_diagonal(a, val, wrap=False) -> None:
    """Writes a number, or values repeated as needed, to the main diagonal. `wrap`: begins again in tall matrices."""
    if getattr(a, "ndim", 0) < 2:
        raise ValueError("array must be at least 2-d")
    t = _target(a, "'{}' object has no attribute 'ndim'")
    if t.dim() > 2 and len(set(t.shape)) != 1:
        raise ValueError("All dimensions of input must be of equal length")
    values = _of(val, t)
    if not values.numel() or not t.numel():
        return
    if wrap and t.dim() == 2 and t.shape[0] > t.shape[1] > 0:
        flat = numpy.arange(0, t.numel(), t.shape[1] + 1)
        where = [tensor(part, device=t.device) for part in numpy.divmod(flat, t.shape[1])]
        t.index_put_(tuple(where), _repeated(values, flat.size))
        return
    line = t.diagonal()
    for _ in range(t.dim() - 2):
        line = line.diagonal(dim1=0, dim2=-1)
    line.copy_(_repeated(values, line.shape[0]))


# Parts of complex arrays.


@function
def real(val) -> ndarray:
    """The real part: a view of a complex array, the array itself of any other."""
    x = tensor(val)
    return wrap(x.real) if x.dtype in COMPLEX else wrap(x)


@function
def imag(val) -> ndarray:
    """The imaginary part: a view of a complex array, zeros of any other."""
    x = tensor(val)
    return wrap(x.imag) if x.dtype in COMPLEX else wrap(torch.zeros_like(x))


@function
def iscomplex(x) -> ndarray:
    """Which elements have an imaginary part that is not zero."""
    t = tensor(x)
    return wrap(t.imag != 0 if t.dtype in COMPLEX else torch.zeros_like(t, dtype=torch.bool))


@function
def isreal(x) -> ndarray:
    """Which elements have an imaginary part of zero."""
    t = tensor(x)
    return wrap(t.imag == 0 if t.dtype in COMPLEX else torch.ones_like(t, dtype=torch.bool))
