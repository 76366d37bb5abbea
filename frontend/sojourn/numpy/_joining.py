# SPDX-License-Identifier: Apache-2.0
"""Arrays made of several, and several made of one."""

from __future__ import annotations

import operator

import numpy
import torch

from ._array import ndarray, wrap
from ._casts import cast
from ._convert import _device_among, _weak, any_remote, asarray, axis_of, function, is_remote, on, tensor, tensors
from ._dtypes import NUMPY, dtype_of, torch_dtype
from ._manipulation import atleast_1d, atleast_2d, atleast_3d, stand_in
from ._ranges import arange, linspace

__all__ = [
    "array_split",
    "block",
    "c_",
    "column_stack",
    "concat",
    "concatenate",
    "dsplit",
    "dstack",
    "hsplit",
    "hstack",
    "r_",
    "split",
    "stack",
    "unstack",
    "vsplit",
    "vstack",
]


def _sequence(arrays) -> list:
    """An argument `arrays`: a list, a tuple, or an array, along its first axis."""
    if is_remote(arrays):
        return [wrap(part) for part in tensor(arrays).unbind()]
    return list(arrays)


def _joined(parts: list[torch.Tensor], kernel, axis: int, out, dtype, casting, name: str) -> ndarray:
    """The parts of one dtype, joined by a kernel; written into `out` if there is one."""
    if out is not None and dtype is not None:
        raise TypeError(f"{name}() only takes `out` or `dtype` as an argument, but both were provided.")
    if out is not None and not is_remote(out):
        raise TypeError(f"{name}: out is not at an owner; make it with empty or empty_like")
    held = [NUMPY[part.dtype] for part in parts]
    wanted = (
        NUMPY[tensor(out).dtype] if out is not None else dtype_of(numpy.result_type(*held) if dtype is None else dtype)
    )
    for each in held:
        if not numpy.can_cast(each, wanted, casting):
            raise TypeError(f"Cannot cast array data from {each!r} to {wanted!r} according to the rule {casting!r}")
    to = torch_dtype(wanted)
    made = kernel([cast(part, to) for part in parts], axis)
    if out is None:
        return wrap(made)
    target = tensor(out)
    if target.shape != made.shape:
        raise ValueError("Output array is the wrong shape")
    target.copy_(made)
    return out


def _joined_alike(arrays, axis: int) -> ndarray | None:
    """Of arrays of one dtype, none of them empty; None if they are others, or do not fit."""
    dtype, parts = None, []
    for each in arrays:
        if type(each) is not ndarray:
            return None
        part = each._t
        if dtype is None:
            dtype = part.dtype
        if part.dtype != dtype or part.numel() == 0 or part.dim() == 0:
            return None
        parts.append(part)
    try:
        return wrap(torch.cat(parts, axis)) if parts else None
    except (IndexError, RuntimeError):
        return None  # told in NumPy's words


@function
def concatenate(arrays, /, axis=0, out=None, *, dtype=None, casting="same_kind") -> ndarray:
    """Arrays one behind the other along an axis; with `axis=None`, their elements in a row."""
    if out is None and dtype is None and type(axis) is int and type(arrays) in (list, tuple):
        made = _joined_alike(arrays, axis)
        if made is not None:
            return made
    parts = tensors(*_sequence(arrays))
    if not parts:
        raise ValueError("need at least one array to concatenate")
    if axis is None:
        parts, axis = [part.reshape(-1) for part in parts], 0
    if parts[0].dim() == 0:
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    axis = axis_of(axis, parts[0].dim())
    sizes = [list(part.shape) for part in parts]
    for each in sizes:
        # torch leaves out vectors of no elements where NumPy refuses them.
        if len(each) != len(sizes[0]) or each[:axis] + each[axis + 1 :] != sizes[0][:axis] + sizes[0][axis + 1 :]:
            numpy.concatenate([stand_in(part) for part in parts], axis)
    return _joined(parts, torch.cat, axis, out, dtype, casting, "concatenate")


@function
def concat(arrays, /, axis=0, out=None, *, dtype=None, casting="same_kind") -> ndarray:
    """Arrays one behind the other along an axis; with `axis=None`, their elements in a row."""
    return concatenate(arrays, axis, out, dtype=dtype, casting=casting)


@function
def stack(arrays, axis=0, out=None, *, dtype=None, casting="same_kind") -> ndarray:
    """Arrays of one shape along a new axis."""
    parts = tensors(*_sequence(arrays))
    if not parts:
        raise ValueError("need at least one array to stack")
    if any(part.shape != parts[0].shape for part in parts):
        raise ValueError("all input arrays must have the same shape")
    axis = axis_of(axis, parts[0].dim() + 1)
    return _joined(parts, torch.stack, axis, out, dtype, casting, "stack")


def _extended(arrays, extend) -> list:
    made = extend(*tensors(*_sequence(arrays)))
    return list(made) if isinstance(made, tuple) else [made]


@function
def vstack(tup, *, dtype=None, casting="same_kind") -> ndarray:
    """Arrays below each other; vectors are rows."""
    return concatenate(_extended(tup, atleast_2d), 0, dtype=dtype, casting=casting)


@function
def hstack(tup, *, dtype=None, casting="same_kind") -> ndarray:
    """Arrays side by side, along the second axis; vectors along their first."""
    parts = _extended(tup, atleast_1d)
    return concatenate(parts, 0 if parts and parts[0].ndim == 1 else 1, dtype=dtype, casting=casting)


@function
def dstack(tup) -> ndarray:
    """Arrays along the third axis."""
    return concatenate(_extended(tup, atleast_3d), 2)


@function
def column_stack(tup) -> ndarray:
    """Vectors as the columns of a matrix; matrices side by side."""
    parts = tensors(*_sequence(tup))
    return concatenate([wrap(x.reshape(-1, 1) if x.dim() < 2 else x) for x in parts], 1)


@function
def block(arrays) -> ndarray:
    """Blocks, given as nested lists: the innermost lie along the last axis, the next along the one before."""
    device = _device_among([arrays])

    def depth_of(x, place: tuple[int, ...]) -> int:
        if type(x) is tuple:
            raise TypeError(
                f"arrays{_where(place)} is a tuple. Only lists can be used to arrange blocks, and np.block does not "
                "allow implicit conversion from tuple to ndarray."
            )
        if type(x) is not list:
            return 0
        if not x:
            raise ValueError(f"List at arrays{_where(place)} cannot be empty")
        depths = [depth_of(each, (*place, at)) for at, each in enumerate(x)]
        for at, depth in enumerate(depths):
            if depth != depths[0]:
                raise ValueError(
                    f"List depths are mismatched. First element was at depth {len(place) + 1 + depths[0]}, but there is "
                    f"an element at depth {len(place) + 1 + depth} (arrays{_where((*place, at))})"
                )
        return 1 + depths[0]

    def leaves(x):
        return [leaf for each in x for leaf in leaves(each)] if type(x) is list else [tensor(x, device=device)]

    depth = depth_of(arrays, ())
    parts = leaves(arrays)
    dims = max(depth, *(part.dim() for part in parts))
    extended = iter([wrap(part.reshape((1,) * (dims - part.dim()) + tuple(part.shape))) for part in parts])

    def joined(x, level: int) -> ndarray:
        if type(x) is not list:
            return next(extended)
        return concatenate([joined(each, level - 1) for each in x], -level)

    return joined(arrays, depth) if depth else wrap(parts[0].clone())


def _where(place) -> str:
    return "".join(f"[{at}]" for at in place)


# One into several. The parts are views.


@function
def array_split(ary, indices_or_sections, axis=0) -> list[ndarray]:
    """Parts along an axis: views. An integer: that many, the first ones longer by one; else where parts begin."""
    found = tensor(ary)
    if found.dim() == 0:
        axis_of(axis, 0)
    axis = axis_of(axis, found.dim())
    size = found.shape[axis]
    try:
        begins = [operator.index(each) for each in indices_or_sections]
    except TypeError:
        count = int(indices_or_sections)
        if count <= 0:
            raise ValueError("number sections must be larger than 0.") from None
        each, longer = divmod(size, count)
        begins = [k * each + min(k, longer) for k in range(1, count)]
    edges = [0, *begins, size]
    parts = []
    for begin, end in zip(edges, edges[1:]):
        first, last, _ = slice(begin, end).indices(size)
        parts.append(wrap(found.narrow(axis, first, max(last - first, 0))))
    return parts


@function
def split(ary, indices_or_sections, axis=0) -> list[ndarray]:
    """As `array_split`; ValueError where an integer gives parts of different sizes."""
    found = tensor(ary)
    if not hasattr(indices_or_sections, "__len__") or is_remote(indices_or_sections):
        size = found.shape[axis_of(axis, found.dim())]
        if size % (int(indices_or_sections) if is_remote(indices_or_sections) else indices_or_sections):
            raise ValueError("array split does not result in an equal division")
    return array_split(ary, indices_or_sections, axis)


@function
def hsplit(ary, indices_or_sections) -> list[ndarray]:
    """As `split` along the second axis; a vector along its first."""
    dims = tensor(ary).dim()
    if dims == 0:
        raise ValueError("hsplit only works on arrays of 1 or more dimensions")
    return split(ary, indices_or_sections, 1 if dims > 1 else 0)


@function
def vsplit(ary, indices_or_sections) -> list[ndarray]:
    """As `split` along the first axis, of two axes or more."""
    if tensor(ary).dim() < 2:
        raise ValueError("vsplit only works on arrays of 2 or more dimensions")
    return split(ary, indices_or_sections, 0)


@function
def dsplit(ary, indices_or_sections) -> list[ndarray]:
    """As `split` along the third axis."""
    if tensor(ary).dim() < 3:
        raise ValueError("dsplit only works on arrays of 3 or more dimensions")
    return split(ary, indices_or_sections, 2)


@function
def unstack(x, /, *, axis=0) -> tuple[ndarray, ...]:
    """The parts along an axis, without it: views."""
    found = tensor(x)
    if found.dim() == 0:
        raise ValueError("Input array must be at least 1-d.")
    return tuple(wrap(part) for part in found.unbind(axis_of(axis, found.dim())))


class _Concatenator:
    """`r_[...]` and `c_[...]`: arrays, ranges as slices, and numbers, joined. Without a remote operand NumPy's."""

    def __init__(self, name: str, axis: int, ndmin: int, turned: int):
        self._name, self._given = name, (axis, ndmin, turned)

    def __getitem__(self, key) -> ndarray:
        items = list(key) if isinstance(key, tuple) else [key]
        device = _device_among(items)
        if device is None or not any_remote(items):
            return getattr(numpy, self._name)[key]
        axis, ndmin, turned = self._given
        if isinstance(items[0], str):
            axis, ndmin, turned = self._directive(items.pop(0))
        parts, kinds = [], []
        with on(device):
            for item in items:
                if isinstance(item, str):
                    raise ValueError("special directives must be the first entry.")
                if isinstance(item, (bool, int, float, complex, numpy.generic)):
                    parts.append(asarray(item))
                    kinds.append(_weak(item))
                    continue
                given = self._range(item) if isinstance(item, slice) else asarray(item)
                made = given._t.reshape((1,) * (ndmin - given.ndim) + given.shape)
                added = ndmin - given.ndim
                if isinstance(item, slice) and added and turned != -1:
                    made = made.transpose(-1, turned)
                elif turned != -1 and added > 0:
                    at = turned + added + 1 if turned < 0 else turned
                    axes = list(range(ndmin))
                    made = made.permute(axes[:at] + axes[added:] + axes[at:added])
                parts.append(wrap(made))
                kinds.append(NUMPY[made.dtype])
            to = numpy.result_type(*kinds)
            extended = [
                wrap(part._t.reshape((1,) * (ndmin - part.ndim) + part.shape).to(torch_dtype(to))) for part in parts
            ]
            return concatenate(extended, axis)

    def _directive(self, text: str) -> tuple[int, int, int]:
        _, ndmin, turned = self._given
        if text in ("r", "c"):
            raise ValueError(f"{self._name}: matrices are not supported; leave out {text!r}")
        try:
            numbers = [int(each) for each in text.split(",")]
        except ValueError:
            raise ValueError(f"unknown special directive {text!r}") from None
        if len(numbers) > 1:
            ndmin = numbers[1]
        if len(numbers) == 3:
            turned = numbers[2]
        return numbers[0], ndmin, turned

    @staticmethod
    def _range(item: slice) -> ndarray:
        begin = 0 if item.start is None else item.start
        step = 1 if item.step is None else item.step
        if isinstance(step, (complex, numpy.complexfloating)):
            return linspace(begin, item.stop, int(abs(complex(step))))
        return arange(begin, item.stop, step)

    def __len__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return f"<{self._name} of sojourn.numpy>"


r_ = _Concatenator("r_", 0, 1, -1)
c_ = _Concatenator("c_", -1, 2, 0)
