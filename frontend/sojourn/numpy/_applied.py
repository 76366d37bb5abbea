# SPDX-License-Identifier: Apache-2.0
"""Python functions over elements, lines and axes; the indices of all elements."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy
import torch

from ._array import ndarray, wrap
from ._convert import _device_among, any_remote, axis_of, function, tensor
from ._dtypes import torch_dtype

__all__ = ["apply_along_axis", "apply_over_axes", "ndenumerate", "ndindex", "vectorize"]

ndindex = numpy.ndindex


class ndenumerate:
    """Pairs of an index and the element there, an array of no dimensions; no values are read."""

    def __new__(cls, arr):
        return super().__new__(cls) if any_remote([arr]) else numpy.ndenumerate(arr)

    def __init__(self, arr):
        x = tensor(arr)
        self._pairs = zip(ndindex(tuple(x.shape)), x.reshape(-1).unbind())

    def __next__(self) -> tuple[tuple[int, ...], ndarray]:
        index, element = next(self._pairs)
        return index, wrap(element)

    def __iter__(self):
        return self


@function
def apply_along_axis(func1d, axis, arr, *args, **kwargs) -> ndarray:
    """The results of a function of each line along an axis; their dims take the place of the axis.

    The function is called once per line and records its operations each time: prefer functions with an `axis`.
    """
    x = tensor(arr)
    axis = axis_of(axis, x.dim())
    lines = x.movedim(axis, -1)
    if 0 in lines.shape[:-1]:
        raise ValueError("Cannot apply_along_axis when any iteration dimensions are 0")
    outer = tuple(lines.shape[:-1])
    results = [
        tensor(func1d(wrap(line), *args, **kwargs), device=x.device)
        for line in lines.reshape(-1, x.shape[axis]).unbind()
    ]
    first = results[0]
    made = torch.stack([each.to(first.dtype) for each in results]).reshape(outer + tuple(first.shape))
    own = range(len(outer), made.dim())
    return wrap(made.permute(*range(axis), *own, *range(axis, len(outer))))


@function
def apply_over_axes(func, a, axes) -> ndarray:
    """The result of `func(a, axis)` over one axis after another; each is kept with one entry."""
    rank = a.ndim if hasattr(a, "ndim") else tensor(a).dim()
    found = a if type(a) is ndarray else wrap(tensor(a))
    for axis in (axes,) if isinstance(axes, (int, numpy.integer)) else axes:
        axis = axis + rank if axis < 0 else axis
        made = func(found, axis)
        if made.ndim != found.ndim:
            made = wrap(tensor(made).unsqueeze(axis_of(axis, made.ndim + 1)))
            if made.ndim != found.ndim:
                raise ValueError("function is not returning an array of the correct shape")
        found = made
    return found


class vectorize:
    """A function of elements as one of arrays, which are broadcast.

    The function is called for each element with arrays of no dimensions, and records its operations each time: prefer
    functions of whole arrays, and `where` for branches. Inside a step, the function cannot branch on values. `cache`
    has no effect; `signature` is not supported for remote arrays.
    """

    def __init__(self, pyfunc=numpy._NoValue, otypes=None, doc=None, excluded=None, cache=False, signature=None):
        self._options = {"otypes": otypes, "doc": doc, "excluded": excluded, "cache": cache, "signature": signature}
        self._host = numpy.vectorize(pyfunc, **self._options)
        self.pyfunc: Callable[..., Any] | None = None
        if pyfunc is not numpy._NoValue:
            self._keep(pyfunc)

    def _keep(self, pyfunc) -> None:
        self.pyfunc = pyfunc
        self.__doc__ = self._options["doc"] or pyfunc.__doc__
        self.__name__ = getattr(pyfunc, "__name__", type(self).__name__)

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args, **kwargs):
        if self.pyfunc is None:
            made = type(self)(args[0], **self._options)
            return made
        device = _device_among((list(args), list(kwargs.values())))
        if device is None:
            return self._host(*args, **kwargs)
        if self._options["signature"] is not None:
            raise NotImplementedError("vectorize: signature is not supported on remote arrays; use apply_along_axis")
        excluded = self._options["excluded"] or ()
        keys = [k for k in (*range(len(args)), *kwargs) if k not in excluded]
        given: dict[Any, Any] = dict(enumerate(args))
        given.update(kwargs)
        arrays = {k: tensor(given[k]) if any_remote([given[k]]) else numpy.asarray(given[k]) for k in keys}
        shape = numpy.broadcast_shapes(*(tuple(x.shape) for x in arrays.values()))
        columns = {k: _elements(x, shape) for k, x in arrays.items()}
        results = []
        for row in zip(*columns.values()):
            now = {**given, **dict(zip(columns, row))}
            results.append(self.pyfunc(*(now[k] for k in range(len(args))), **{k: now[k] for k in kwargs}))
        return self._joined(results, shape, device)

    def _joined(self, results, shape, device):
        types: Any = self._host.otypes
        if not results and types is None:
            raise ValueError("cannot call `vectorize` on size 0 inputs unless `otypes` is set")
        many = isinstance(results[0], tuple) if results else len(types) > 1
        rows = results if many else [(each,) for each in results]
        made = []
        for k in range(len(rows[0]) if rows else len(types)):
            column = [tensor(row[k], device=device) for row in rows]
            dtype = column[0].dtype if types is None else torch_dtype(types[k])
            if column:
                made.append(wrap(torch.stack([each.to(dtype) for each in column]).reshape(shape)))
            else:
                made.append(wrap(torch.zeros(shape, dtype=dtype, device=device)))
        return tuple(made) if many else made[0]


def _elements(x, shape):
    if isinstance(x, torch.Tensor):
        return [wrap(each) for each in x.expand(shape).reshape(-1).unbind()]
    return list(numpy.broadcast_to(x, shape).flat)
