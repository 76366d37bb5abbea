# SPDX-License-Identifier: Apache-2.0
"""Sequences of numbers, and grids made of them."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy
import torch

from ._array import ndarray, wrap
from ._casts import cast
from ._convert import _device_among, _weak, asarray, axis_of, function, is_remote, place, tensor, tensors, upload
from ._dtypes import INTEGERS, NUMPY, dtype_of, real_of, torch_dtype
from ._manipulation import expand_dims, sizes_of
from ._ufuncs import ALL

__all__ = ["arange", "fromfunction", "geomspace", "indices", "linspace", "logspace", "meshgrid", "mgrid", "ogrid"]


def _number(x):
    """A host number; of a remote array it is read, for it decides about a size."""
    return numpy.asarray(wrap(tensor(x)))[()] if is_remote(x) else x


def arange(start_or_stop, /, stop=None, step=1, *, dtype=None, device=None, like=None) -> ndarray:
    """Numbers from `start` (0) to before `stop`, `step` apart. Remote bounds are read, so they raise inside a step."""
    where = place(like if device is None and is_remote(like) else device)
    first, last = (0, start_or_stop) if stop is None else (start_or_stop, stop)
    given = [last] + ([first] if stop is not None else []) + ([step] if type(step) is not int else [])
    plain = all(type(x) in (int, float) for x in given)
    if not plain:
        first, last, step = (x if type(x) in (int, float) else _number(x) for x in (first, last, step))
        given = [last, *([first] if stop is not None else []), *([step] if type(step) is not int else [])]
    # Narrow integers and float32 become the default integer and float64, as in NumPy.
    held = dtype_of(numpy.result_type(int, *(numpy.asarray(x).dtype for x in given)) if dtype is None else dtype)
    if held.kind in "cb" or any(isinstance(x, (complex, numpy.complexfloating)) for x in given):
        bounds = [last] if stop is None and type(step) is int and step == 1 else [first, last, step]
        return wrap(upload(numpy.arange(*bounds, dtype=held), where))
    if not plain:
        first, last, step = (
            x.item() if isinstance(x, (numpy.generic, numpy.ndarray)) else x for x in (first, last, step)
        )
    size = (last - first) / step
    if not math.isfinite(size):
        raise ValueError("arange: cannot compute length")
    if all(type(x) is int for x in (first, last, step)):
        count = max(0, -((first - last) // step))
    else:
        count = max(0, math.ceil(size))
    to = torch_dtype(held)
    # NumPy converts the first two elements; their difference is the step.
    begin, second = (numpy.array(x, held).item() for x in (first, first + step))
    if not (math.isfinite(begin) and math.isfinite(second)):
        return wrap(upload(numpy.arange(first, last, step, dtype=held), where))
    delta = second - begin
    if begin == 0 and delta == 1:
        return wrap(torch.arange(count, dtype=to, device=where))
    if to in INTEGERS and delta:
        return wrap(torch.arange(begin, begin + count * delta, delta, dtype=torch.int64, device=where).to(to))
    return wrap(torch.arange(count, dtype=to, device=where) * delta + begin)


def _spaced(start, stop, num: int, endpoint: bool, held: numpy.dtype, device: torch.device):
    """`num` numbers along a new first axis, and their step. `start` and `stop`: numbers of `held`, or two tensors."""
    to = torch_dtype(held)
    parts = num - 1 if endpoint else num
    step: Any = numpy.nan
    counts = torch.arange(num, dtype=real_of(to), device=device).to(to)
    if not isinstance(start, torch.Tensor):
        with numpy.errstate(all="ignore"):
            delta = stop - start
            step = delta / parts if parts > 0 else step
        if parts > 0:
            # A step that vanishes while the distance does not: denormal numbers.
            made = counts / parts * delta.item() if step == 0 else counts * step.item()
        else:
            made = counts * delta.item()
        made = made + start.item()
        if endpoint and num > 1:
            made[-1:].fill_(stop.item())
        return made, step
    delta = stop - start
    counts = counts.reshape((-1,) + (1,) * delta.dim())
    if parts > 0:
        step = delta / parts
        made = torch.where(step == 0, counts / parts * delta, counts * step)
    else:
        made = counts * delta
    made = made + start
    if endpoint and num > 1:
        made[-1].copy_(stop.expand(made.shape[1:]))
    return made, step


def _host_number(x) -> bool:
    return not isinstance(x, (ndarray, torch.Tensor, list, tuple)) and numpy.ndim(x) == 0


def _count(num) -> int:
    count = operator.index(num)
    if count < 0:
        raise ValueError(f"Number of samples, {count}, must be non-negative.")
    return count


def linspace(start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0, *, device=None):
    """`num` numbers from `start` to `stop`, along a new axis `axis`. The bounds may be arrays, remote or not.

    `retstep`: the pair of the array and the step, which is an array where a bound is.
    """
    count = _count(num)
    held = dtype_of(numpy.result_type(_weak(start), _weak(stop), 0.0))
    where = place(device) if device is not None else _device_among([start, stop]) or place()
    first: Any
    last: Any
    if _host_number(start) and _host_number(stop):
        first, last = (numpy.asarray(x).astype(held)[()] for x in (start, stop))
    else:
        first, last = (tensor(x, torch_dtype(held), where).to(where) for x in (start, stop))
    made, step = _spaced(first, last, count, endpoint, held, where)
    if axis != 0:
        made = made.movedim(0, axis_of(axis, made.dim()))
    if dtype is not None:
        to = torch_dtype(dtype)
        if to in INTEGERS and made.is_complex():
            raise TypeError("linspace: complex numbers have no floor; give a complex dtype")
        made = (torch.floor(made) if to in INTEGERS else cast(made, to)).to(to)
    if not retstep:
        return wrap(made)
    return wrap(made), wrap(step) if isinstance(step, torch.Tensor) else step


def logspace(start, stop, num=50, endpoint=True, base=10.0, dtype=None, axis=0) -> ndarray:
    """`base` to the power of `linspace(start, stop)`. All three may be arrays, remote or not."""
    if type(base) not in (int, float) and (base.ndim if is_remote(base) else numpy.ndim(base)):
        found = tensors(start, stop, base)
        dims = max(each.dim() for each in found)
        start, stop, base = (wrap(each.reshape((1,) * (dims - each.dim()) + tuple(each.shape))) for each in found)
        base = expand_dims(base, axis)
    made = ALL["power"](base, linspace(start, stop, num, endpoint, axis=axis))
    return made if dtype is None else made.astype(dtype, copy=False)


def geomspace(start, stop, num=50, endpoint=True, dtype=None, axis=0) -> ndarray:
    """`num` numbers from `start` to `stop`, each a multiple of the one before. The bounds may be arrays.

    ValueError if a bound of this process is zero; of a remote one it is not known, and the result is NaN.
    An integer `dtype` cuts off, so that a rounding error of the power may show.
    """
    count = _count(num)
    if any(not is_remote(x) and not numpy.all(numpy.asarray(x)) for x in (start, stop)):
        raise ValueError("Geometric sequence cannot include zero")
    kinds = [NUMPY[x.dtype] if isinstance(x, torch.Tensor) else numpy.dtype(getattr(x, "dtype", None) or numpy.asarray(x).dtype)
             for x in (start, stop)]  # fmt: skip
    wanted = numpy.dtype(float) if dtype is None else dtype_of(dtype)
    held = numpy.result_type(*kinds, 0.0, wanted)
    first, last = torch.broadcast_tensors(*tensors(start, stop, dtype=torch_dtype(held)))
    # Turned so that the first number is positive, and its logarithm real.
    sign = torch.sgn(first)
    first, last = first / sign, last / sign
    made = torch.pow(10.0, _spaced(torch.log10(first), torch.log10(last), count, endpoint, held, first.device)[0])
    if count > 0:
        made[0].copy_(first)
    if endpoint and count > 1:
        made[-1].copy_(last)
    made = made * sign
    if axis != 0:
        made = made.movedim(0, axis_of(axis, made.dim()))
    return wrap(made if dtype is None else cast(made, torch_dtype(dtype)))


# Grids.


@function
def meshgrid(*xi, copy=True, sparse=False, indexing="xy") -> tuple[ndarray, ...]:
    """The coordinates of a grid, an array for each vector of them. `sparse`: of the shapes (n, 1), (1, m), ...

    `indexing`: "xy" exchanges the first two axes. `copy=False` gives views, whose elements share memory.
    """
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    if not xi:
        return ()
    count = len(xi)
    places = list(range(count))
    if indexing == "xy" and count > 1:
        places[:2] = 1, 0
    made = []
    for at, each in zip(places, tensors(*xi)):
        made.append(each.reshape((1,) * at + (-1,) + (1,) * (count - 1 - at)))
    if not sparse:
        made = list(torch.broadcast_tensors(*made))
    return tuple(wrap(each.clone(memory_format=torch.contiguous_format) if copy else each) for each in made)


def indices(dimensions, dtype=int, sparse=False):
    """The indices of a grid's points: of shape (ndim, *dimensions), or a tuple of vectors if `sparse`."""
    sizes, to, where = sizes_of(dimensions), torch_dtype(dtype), place()
    vectors = [wrap(torch.arange(n, device=where).to(to)) for n in sizes]
    if sparse:
        return meshgrid(*vectors, sparse=True, indexing="ij")
    if not sizes:
        return wrap(torch.empty((0,), dtype=to, device=where))
    return wrap(torch.stack([x._t for x in meshgrid(*vectors, copy=False, indexing="ij")]))


def fromfunction(function, shape, *, dtype=float, like=None, **kwargs):
    """The values of a function at the coordinates of a grid: it is called once, with arrays."""
    there = place(like if is_remote(like) else None)
    sizes, to = sizes_of(shape), torch_dtype(dtype)
    vectors = [wrap(torch.arange(n, device=there).to(to)) for n in sizes]
    return function(*meshgrid(*vectors, indexing="ij"), **kwargs)


class _Grid:
    """`mgrid` and `ogrid`: grids by slices. A complex step is a number of points, the end included."""

    def __init__(self, name: str):
        self._name = name

    def __getitem__(self, key):
        vectors = numpy.ogrid[key]
        if not isinstance(vectors, (tuple, list)):
            return asarray(vectors)
        arrays = tuple(map(asarray, vectors))
        if self._name == "ogrid":
            return arrays
        if not arrays:
            return asarray(numpy.mgrid[key])
        return wrap(torch.stack(torch.broadcast_tensors(*(x._t for x in arrays))))

    def __len__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return f"<{self._name} of sojourn.numpy>"


mgrid = _Grid("mgrid")
ogrid = _Grid("ogrid")
