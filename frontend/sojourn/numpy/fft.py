# SPDX-License-Identifier: Apache-2.0
"""`numpy.fft` on arrays at an owner. float32 gives complex64, integers are computed in float64."""

from __future__ import annotations

import operator

import numpy
import torch

from ._array import wrap
from ._convert import axes_of, axis_of, place, tensor
from ._dtypes import COMPLEX, FLOATS, inexact, torch_dtype
from ._outputs import function_of, into

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

_function = function_of(numpy.fft)


# Along one axis.


def _taken(a, real: bool = False) -> torch.Tensor:
    """In a dtype that is transformed. `real`: complex numbers are refused."""
    found = tensor(a)
    if real and found.dtype in COMPLEX:
        raise TypeError("this transform takes real numbers; use fft, or x.real")
    return found.to(torch.float32 if found.dtype == torch.float16 else inexact(found.dtype))


def _norm(norm) -> str:
    if norm not in (None, "backward", "ortho", "forward"):
        raise ValueError(f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".')
    return norm or "backward"


def _points(n, default: int) -> int:
    n = default if n is None else operator.index(n)
    if n < 1:
        raise ValueError(f"Invalid number of FFT data points ({n}) specified.")
    return n


def _one(transform, a, n, axis, norm, out, real: bool = False, halved: bool = False):
    """`halved`: the argument holds one half of a symmetric spectrum, and the result is real."""
    axis = axis_of(axis, tensor(a).dim())
    size = tensor(a).shape[axis]
    n = _points(n, 2 * (size - 1) if halved else size)
    norm = _norm(norm)
    made = transform(_taken(a, real), n, axis, norm)
    half = halved and tensor(a).dtype == torch.float16
    return into(made.to(torch.float16) if half else made, out)


@_function
def fft(a, n=None, axis=-1, norm=None, out=None):
    """The discrete Fourier transform along an axis, cut or filled with zeros to `n`."""
    return _one(torch.fft.fft, a, n, axis, norm, out)


@_function
def ifft(a, n=None, axis=-1, norm=None, out=None):
    """The inverse of `fft`."""
    return _one(torch.fft.ifft, a, n, axis, norm, out)


@_function
def rfft(a, n=None, axis=-1, norm=None, out=None):
    """Of real numbers: the n // 2 + 1 terms of frequencies that are not negative."""
    return _one(torch.fft.rfft, a, n, axis, norm, out, real=True)


@_function
def irfft(a, n=None, axis=-1, norm=None, out=None):
    """The inverse of `rfft`; `n`: of the result, default twice the count of terms less 2."""
    return _one(torch.fft.irfft, a, n, axis, norm, out, halved=True)


@_function
def hfft(a, n=None, axis=-1, norm=None, out=None):
    """The real transform of a signal with conjugate symmetry, of which one half is given."""
    return _one(torch.fft.hfft, a, n, axis, norm, out, halved=True)


@_function
def ihfft(a, n=None, axis=-1, norm=None, out=None):
    """The inverse of `hfft`."""
    return _one(torch.fft.ihfft, a, n, axis, norm, out, real=True)


# Along several axes.


def _sizes(shape, s, axes, halved: bool = False) -> tuple[list[int], list[int]]:
    """Per axis its count of points, and the axes from 0 on. An axis may come twice, and is transformed twice."""
    if axes is None:
        axes = range(len(shape)) if s is None else range(-len(s), 0)
    known = [axis_of(axis, len(shape)) for axis in axes]
    if s is None:
        sizes = [shape[axis] for axis in known]
        if halved and sizes:
            sizes[-1] = 2 * (sizes[-1] - 1)
    else:
        if len(s) != len(known):
            raise ValueError("Shape and axes have different lengths.")
        sizes = [shape[axis] if size in (None, -1) else operator.index(size) for size, axis in zip(s, known)]
    return [_points(size, size) for size in sizes], known


def _several(transform, one, a, s, axes, norm, out):
    found, norm = tensor(a), _norm(norm)
    sizes, known = _sizes(tuple(found.shape), s, axes)
    if not known:
        return into(found, out)
    found = _taken(a)
    if len(set(known)) == len(known):
        return into(transform(found, sizes, known, norm), out)
    for size, axis in reversed(list(zip(sizes, known))):
        found = one(found, size, axis, norm)
    return into(found, out)


@_function
def fftn(a, s=None, axes=None, norm=None, out=None):
    """The transform along several axes, default all; `s`: the count of points of each."""
    return _several(torch.fft.fftn, torch.fft.fft, a, s, axes, norm, out)


@_function
def ifftn(a, s=None, axes=None, norm=None, out=None):
    """The inverse of `fftn`."""
    return _several(torch.fft.ifftn, torch.fft.ifft, a, s, axes, norm, out)


@_function
def fft2(a, s=None, axes=(-2, -1), norm=None, out=None):
    """The transform along two axes."""
    return fftn(wrap(tensor(a)), s, axes, norm, out)


@_function
def ifft2(a, s=None, axes=(-2, -1), norm=None, out=None):
    """The inverse of `fft2`."""
    return ifftn(wrap(tensor(a)), s, axes, norm, out)


@_function
def rfftn(a, s=None, axes=None, norm=None, out=None):
    """Of real numbers: `rfft` along the last of several axes, then `fft` along the others."""
    norm = _norm(norm)
    sizes, known = _sizes(tuple(tensor(a).shape), s, axes)
    if not known:
        raise IndexError("rfftn takes at least one axis")
    found = _taken(a, real=True)
    if len(set(known)) == len(known):
        return into(torch.fft.rfftn(found, sizes, known, norm), out)
    found = torch.fft.rfft(found, sizes[-1], known[-1], norm)
    for size, axis in reversed(list(zip(sizes[:-1], known[:-1]))):
        found = torch.fft.fft(found, size, axis, norm)
    return into(found, out)


@_function
def irfftn(a, s=None, axes=None, norm=None, out=None):
    """The inverse of `rfftn`: `ifft` along all axes but the last, then `irfft`."""
    found, norm = _taken(a), _norm(norm)
    sizes, known = _sizes(tuple(found.shape), s, axes, halved=True)
    if not known:
        raise IndexError("irfftn takes at least one axis")
    if len(known) == 1:
        return irfft(wrap(tensor(a)), sizes[0], known[0], norm, out)
    if len(set(known)) == len(known):
        return into(torch.fft.irfftn(found, sizes, known, norm), out)
    for size, axis in zip(sizes[:-1], known[:-1]):
        found = torch.fft.ifft(found, size, axis, norm)
    return into(torch.fft.irfft(found, sizes[-1], known[-1], norm), out)


@_function
def rfft2(a, s=None, axes=(-2, -1), norm=None, out=None):
    """`rfftn` along two axes."""
    return rfftn(wrap(tensor(a)), s, axes, norm, out)


@_function
def irfft2(a, s=None, axes=(-2, -1), norm=None, out=None):
    """The inverse of `rfft2`."""
    return irfftn(wrap(tensor(a)), s, axes, norm, out)


# Orders and frequencies.


def _moved(x, axes):
    found = tensor(x)
    known = axes_of(axes, found.dim())
    if not known:
        raise ValueError("shifts need at least one axis")
    return found, known


@_function
def fftshift(x, axes=None):
    """With the term of frequency 0 in the middle, along `axes`, default all."""
    return wrap(torch.fft.fftshift(*_moved(x, axes)))


@_function
def ifftshift(x, axes=None):
    """The inverse of `fftshift`."""
    return wrap(torch.fft.ifftshift(*_moved(x, axes)))


def _frequencies(made: torch.Tensor, n: int, d, dtype):
    to = torch.float64 if dtype is None else torch_dtype(dtype)
    if to not in FLOATS:
        raise ValueError(f"dtype: expected a real floating-point type, got {dtype}")
    # A remote spacing is not read.
    known = isinstance(d, (int, float, numpy.number))
    found = made * float(1.0 / (n * d)) if known else made / (tensor(d, torch.float64, made.device) * n)
    return wrap(found.to(to))


def _count(n) -> int:
    if not isinstance(n, (int, numpy.integer)):
        raise ValueError("n should be an integer")
    if n == 0:
        raise ZeroDivisionError("division by zero: n is 0")
    return int(n)


def fftfreq(n, d=1.0, device=None, *, dtype=None):
    """The frequencies of the terms of `fft` of `n` points `d` apart, float64 or `dtype`, at the owner `device`."""
    count, where = _count(n), place(device)
    ahead = torch.arange(0, (count - 1) // 2 + 1, dtype=torch.float64, device=where)
    behind = torch.arange(-(count // 2), 0, dtype=torch.float64, device=where)
    return _frequencies(torch.cat([ahead, behind]), n, d, dtype)


def rfftfreq(n, d=1.0, device=None, *, dtype=None):
    """The frequencies of the terms of `rfft`, likewise."""
    made = torch.arange(0, _count(n) // 2 + 1, dtype=torch.float64, device=place(device))
    return _frequencies(made, n, d, dtype)
