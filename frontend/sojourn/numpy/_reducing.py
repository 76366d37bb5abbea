# SPDX-License-Identifier: Apache-2.0
"""Common parts of the reductions: axes, masks, initial values, and `out`."""

from __future__ import annotations

import math

import numpy
import torch

from ._array import ndarray, wrap
from ._casts import real_for
from ._convert import _device_among, axes_of, is_remote, tensor
from ._dtypes import COMPLEX, NUMPY

__all__: list[str] = []

MISSING = numpy._NoValue


def operand(a, *others) -> torch.Tensor:
    """The tensor of the first argument, at the device of the first remote one."""
    return a._t if type(a) is ndarray else tensor(a, device=_device_among((a, *others)))


def keeps(keepdims) -> bool:
    """Of an argument that may be left out."""
    return keepdims is not MISSING and bool(keepdims)


def reduced_axes(axis, ndim: int) -> tuple[int, ...]:
    """Likewise as `axes_of`; an array of no dimensions takes axis 0 and -1, too."""
    if axis is None:
        return tuple(range(ndim))
    if ndim == 0 and (axis in (0, -1) or axis in ((0,), (-1,))):
        return ()
    return axes_of(axis, ndim)


def reduced_shape(shape, axes, keepdims: bool) -> tuple[int, ...]:
    """The shape of a result."""
    if len(axes) == len(shape) and not keepdims:
        return ()
    if keepdims:
        return tuple(1 if k in axes else n for k, n in enumerate(shape))
    return tuple(n for k, n in enumerate(shape) if k not in axes)


def count_of(shape, axes) -> int:
    """How many elements meet in one of the result."""
    return math.prod(shape[k] for k in axes)


def last_axis(x: torch.Tensor, axes: tuple[int, ...]) -> torch.Tensor:
    """The axes as one, the last one; without axes, a last one of length 1."""
    if not axes:
        return x.unsqueeze(-1)
    if len(axes) == 1:
        return torch.movedim(x, axes[0], -1)
    kept = [k for k in range(x.dim()) if k not in axes]
    moved = x.permute(*kept, *sorted(axes))
    return moved.reshape(*(x.shape[k] for k in kept), count_of(x.shape, axes))


def mask_of(where, x: torch.Tensor) -> torch.Tensor | None:
    """An argument `where`; None: all elements."""
    if where is True or where is MISSING:
        return None
    mask = tensor(where, device=x.device)
    if mask.dtype != torch.bool:
        raise TypeError(
            f"Cannot cast array data from {NUMPY[mask.dtype]!r} to dtype('bool') according to the rule 'safe'"
        )
    try:
        fits = torch.broadcast_shapes(mask.shape, x.shape) == x.shape
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(f"where of shape {tuple(mask.shape)} does not broadcast to the array's shape {tuple(x.shape)}")
    return mask


def scalar_of(number, x: torch.Tensor) -> torch.Tensor:
    """A number, or an array of no dimensions, in the dtype of `x`."""
    if is_remote(number):
        return tensor(number, x.dtype)
    return torch.full((), numpy.array(number, NUMPY[x.dtype]).item(), dtype=x.dtype, device=x.device)


def selected(x: torch.Tensor, mask: torch.Tensor | None, fill) -> torch.Tensor:
    """`fill`, a number, where the mask is false."""
    return x if mask is None else torch.where(mask, x, torch.full((), fill, dtype=x.dtype, device=x.device))


def isnan(x: torch.Tensor) -> torch.Tensor | None:
    """None where no element can be NaN."""
    return torch.isnan(x) if x.is_floating_point() or x.is_complex() else None


def stored(result: torch.Tensor, out, casting="same_kind") -> ndarray:
    """The array of the result, or `out`, into which it is written. NumPy's ufuncs reduce into any dtype ("unsafe")."""
    if out is None or out is MISSING:
        return wrap(result)
    target = out[0] if isinstance(out, tuple) else out
    if not is_remote(target):
        raise TypeError("return arrays must be of ArrayType: out lives at the owner, make it with zeros_like")
    to = tensor(target)
    if tuple(to.shape) != tuple(result.shape):
        raise ValueError(f"output array has shape {tuple(to.shape)}, expected {tuple(result.shape)}")
    if not numpy.can_cast(NUMPY[result.dtype], NUMPY[to.dtype], casting):
        raise TypeError(
            f"Cannot cast output from {NUMPY[result.dtype]!r} to {NUMPY[to.dtype]!r} with casting rule {casting!r}"
        )
    to.copy_(real_for(result, to.dtype))
    return target


def extreme(x: torch.Tensor, axes: tuple[int, ...], largest: bool) -> torch.Tensor:
    """The largest or smallest element over axes, which are kept with length 1. NaN wins."""
    dims = axes or (0,)
    found = x if axes else x.unsqueeze(0)
    kernel = torch.amax if largest else torch.amin
    if x.dtype not in COMPLEX:
        made = kernel(found, dims, True)
    else:
        # The order is lexicographic: of those of the outermost real part the outermost imaginary part.
        real, imag = found.real, found.imag
        is_bad = torch.isnan(real) | torch.isnan(imag)
        bound = -math.inf if largest else math.inf
        top = kernel(torch.where(is_bad, bound, real), dims, True)
        bottom = kernel(torch.where((real == top) & ~is_bad, imag, bound), dims, True)
        has_bad = torch.amax(is_bad, dims, True)
        made = torch.complex(torch.where(has_bad, math.nan, top), torch.where(has_bad, math.nan, bottom))
    return made if axes else made.squeeze(0)


def position(x: torch.Tensor, dim: int, largest: bool) -> torch.Tensor:
    """The first index of the largest or smallest element; of the first NaN, if there is one."""
    if x.dtype == torch.bool:
        x = x.to(torch.uint8)
    if x.dtype in COMPLEX:
        bad = torch.isnan(x.real) | torch.isnan(x.imag)
        top = extreme(x, (dim,), largest)
        # Where there is no NaN, none is equal to NaN; where there is, nothing is equal to the largest.
        return torch.argmax(((x == top) | bad).to(torch.uint8), dim)
    return torch.argmax(x, dim) if largest else torch.argmin(x, dim)
