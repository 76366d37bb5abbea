# SPDX-License-Identifier: Apache-2.0
"""New arrays: of host values, of constants, copies, and matrices of simple form."""

from __future__ import annotations

import operator

import numpy
import torch

from ._array import ndarray, wrap
from ._convert import asarray, function, is_remote, place, tensor
from ._dtypes import COMPLEX, FLOATS, NUMPY, dtype_of, torch_dtype
from ._manipulation import check_fits, fortran, sizes_of

__all__ = [
    "array",
    "asanyarray",
    "asarray_chkfinite",
    "ascontiguousarray",
    "asfortranarray",
    "copy",
    "diag",
    "diagflat",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "frombuffer",
    "fromiter",
    "fromstring",
    "full",
    "full_like",
    "identity",
    "ones",
    "ones_like",
    "tri",
    "tril",
    "triu",
    "vander",
    "zeros",
    "zeros_like",
]


def _at(device, like) -> torch.device:
    return place(like if device is None and is_remote(like) else device)


def _sizes(shape) -> tuple[int, ...]:
    sizes = sizes_of(shape)
    if min(sizes, default=0) < 0:
        raise ValueError("negative dimensions are not allowed")
    return sizes


# Of values.


def array(
    object, dtype=None, *, copy=True, order="K", subok=False, ndmin=0, ndmax=0, like=None, device=None
) -> ndarray:  # fmt: skip
    """A new array of remote or host values, or of a nesting of lists of both.

    `copy`: None copies only where it is needed; False raises ValueError where it is, and for all host values.
    `ndmin`: axes of size 1 go before. `ndmax`: ValueError above it. `order` and `subok` have no meaning at an owner.
    """
    made = asarray(object, dtype, device=_at(device, like) if like is not None else device, copy=copy)._t
    if ndmax and made.dim() > ndmax:
        raise ValueError(f"setting an array element with a sequence: {made.dim()} dimensions are above ndmax={ndmax}")
    if made.dim() < ndmin:
        made = made.reshape((1,) * (ndmin - made.dim()) + tuple(made.shape))
    return wrap(made)


def asanyarray(a, dtype=None, order=None, *, device=None, copy=None, like=None) -> ndarray:
    """As `asarray`: there are no subclasses."""
    return asarray(a, dtype, order, device=device, copy=copy, like=like)


def ascontiguousarray(a, dtype=None, *, like=None) -> ndarray:
    """An array in C's order, of one dimension or more; itself where it is one."""
    made = asarray(a, dtype, like=like)._t
    return wrap(made.contiguous() if made.dim() else made.reshape(1))


def asfortranarray(a, dtype=None, *, like=None) -> ndarray:
    """An array in Fortran's order, of one dimension or more. Functions may give results in another order."""
    made = asarray(a, dtype, like=like)._t
    return wrap(fortran(made) if made.dim() else made.reshape(1))


def asarray_chkfinite(a, dtype=None, order=None) -> ndarray:
    """As `asarray`; ValueError if an element is infinite or NaN. It reads one bit, so it raises inside a step."""
    made = asarray(a, dtype, order)
    if (made._t.dtype in FLOATS or made._t.dtype in COMPLEX) and not bool(wrap(torch.isfinite(made._t).all())):
        raise ValueError("array must not contain infs or NaNs")
    return made


@function
def copy(a, order="K", subok=False) -> ndarray:
    """A copy."""
    return wrap(tensor(a).clone())


def frombuffer(buffer, dtype=None, count=-1, offset=0, *, like=None) -> ndarray:
    """A copy, at an owner, of a host buffer's elements."""
    return asarray(numpy.frombuffer(buffer, dtype_of(dtype), count, offset), like=like)


def fromiter(iter, dtype, count=-1, *, like=None) -> ndarray:
    """The elements that an iterator of host numbers gives."""
    return asarray(numpy.fromiter(iter, dtype_of(dtype), count), like=like)


def fromstring(string, dtype=float, count=-1, *, sep, like=None) -> ndarray:
    """The numbers of a text."""
    return asarray(numpy.fromstring(string, dtype_of(dtype), count, sep=sep), like=like)


def from_dlpack(x, /, *, device=None, copy=None) -> ndarray:
    """A copy, at an owner, of an array of another library in this process. ValueError if `copy=False`."""
    return asarray(x if is_remote(x) else numpy.from_dlpack(x), device=device, copy=copy)


# Of constants.


def empty(shape, dtype=None, order="C", *, device=None, like=None) -> ndarray:
    """An array of any values."""
    return wrap(torch.empty(_sizes(shape), dtype=torch_dtype(dtype), device=_at(device, like)))


def zeros(shape, dtype=None, order="C", *, device=None, like=None) -> ndarray:
    """An array of zeros, by default of float64."""
    return wrap(torch.zeros(_sizes(shape), dtype=torch_dtype(dtype), device=_at(device, like)))


def ones(shape, dtype=None, order="C", *, device=None, like=None) -> ndarray:
    """An array of ones, by default of float64."""
    return wrap(torch.ones(_sizes(shape), dtype=torch_dtype(dtype), device=_at(device, like)))


def full(shape, fill_value, dtype=None, order="C", *, device=None, like=None) -> ndarray:
    """An array of `fill_value`, which may be an array, remote or not: it is broadcast."""
    if like is None and is_remote(fill_value):
        like = fill_value
    return wrap(_filled(_sizes(shape), fill_value, dtype, _at(device, like)))


def _filled(sizes: tuple[int, ...], value, dtype, device: torch.device) -> torch.Tensor:
    if not is_remote(value):
        host = numpy.asarray(value)
        if host.ndim == 0:
            # NumPy converts the number: integers out of range are errors.
            host = numpy.full((), value, dtype_of(host.dtype if dtype is None else dtype))
            return torch.full(sizes, host.item(), dtype=torch_dtype(host.dtype), device=device)
    there = tensor(value, None if dtype is None else torch_dtype(dtype), device).to(device)
    made = torch.empty(sizes, dtype=there.dtype, device=device)
    check_fits(there, sizes)
    return made.copy_(there)


def _like(of, dtype, shape, device) -> tuple[tuple[int, ...], torch.dtype, torch.device]:
    if is_remote(of):
        sizes, held, there = tuple(of.shape), dtype_of(of.dtype), of.device
    else:
        host = numpy.asarray(of)
        sizes, held, there = host.shape, host.dtype, None
    return (
        sizes if shape is None else _sizes(shape),
        torch_dtype(held if dtype is None else dtype),
        place(device) if device is not None or there is None else there,
    )


def empty_like(prototype, /, dtype=None, order="K", subok=True, shape=None, *, device=None) -> ndarray:
    """As `empty`, of another array's shape, dtype and device."""
    sizes, held, there = _like(prototype, dtype, shape, device)
    return wrap(torch.empty(sizes, dtype=held, device=there))


def zeros_like(a, dtype=None, order="K", subok=True, shape=None, *, device=None) -> ndarray:
    """As `zeros`, of another array's shape, dtype and device."""
    sizes, held, there = _like(a, dtype, shape, device)
    return wrap(torch.zeros(sizes, dtype=held, device=there))


def ones_like(a, dtype=None, order="K", subok=True, shape=None, *, device=None) -> ndarray:
    """As `ones`, of another array's shape, dtype and device."""
    sizes, held, there = _like(a, dtype, shape, device)
    return wrap(torch.ones(sizes, dtype=held, device=there))


def full_like(a, fill_value, dtype=None, order="K", subok=True, shape=None, *, device=None) -> ndarray:
    """As `full`, of another array's shape, dtype and device."""
    sizes, held, there = _like(a, dtype, shape, device)
    return wrap(_filled(sizes, fill_value, held, there))


# Matrices.


def eye(N, M=None, k=0, dtype=float, order="C", *, device=None, like=None) -> ndarray:
    """A matrix with ones on the diagonal `k`, and zeros elsewhere."""
    rows = _sizes(N)[0]
    columns = rows if M is None else _sizes(M)[0]
    held, there, k = torch_dtype(dtype), _at(device, like), operator.index(k)
    if k == 0:
        return wrap(torch.eye(rows, columns, dtype=held, device=there))
    made = torch.zeros((rows, columns), dtype=held, device=there)
    if -rows < k < columns:
        made.diagonal(k).fill_(1)
    return wrap(made)


def identity(n, dtype=None, *, like=None) -> ndarray:
    """The unit matrix, by default of float64."""
    return eye(n, dtype=dtype, like=like)


def tri(N, M=None, k=0, dtype=float, *, like=None) -> ndarray:
    """A matrix of ones on and below the diagonal `k`, and zeros above."""
    rows = _sizes(N)[0]
    columns = rows if M is None else _sizes(M)[0]
    return wrap(torch.ones((rows, columns), dtype=torch_dtype(dtype), device=_at(None, like)).tril(operator.index(k)))


def _triangle(m, k, kernel) -> ndarray:
    found = tensor(m)
    if found.dim() == 0:
        raise TypeError("the triangle of an array of 0 dimensions is undefined")
    return wrap(kernel(found.expand(found.shape[0], -1) if found.dim() == 1 else found, operator.index(k)))


@function
def tril(m, k=0) -> ndarray:
    """A copy with zeros above the diagonal `k` of the last two axes; of a vector, of the matrix of such rows."""
    return _triangle(m, k, torch.tril)


@function
def triu(m, k=0) -> ndarray:
    """A copy with zeros below the diagonal `k` of the last two axes; of a vector, of the matrix of such rows."""
    return _triangle(m, k, torch.triu)


@function
def diag(v, k=0) -> ndarray:
    """The diagonal `k` of a matrix, a view that can be written to; or the matrix of a vector on that diagonal."""
    found = tensor(v)
    if found.dim() == 1:
        return wrap(torch.diag_embed(found, operator.index(k)))
    if found.dim() == 2:
        return wrap(found.diagonal(operator.index(k)))
    raise ValueError("Input must be 1- or 2-d.")


@function
def diagflat(v, k=0) -> ndarray:
    """The matrix of an array's elements on the diagonal `k`."""
    return wrap(torch.diag_embed(tensor(v).reshape(-1), operator.index(k)))


@function
def vander(x, N=None, increasing=False) -> ndarray:
    """The matrix of the powers of a vector's elements, `N` columns; int64, or float64 and complex128 as NumPy's."""
    found = tensor(x)
    if found.dim() != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    held = torch_dtype(numpy.promote_types(NUMPY[found.dtype], int))
    count = found.shape[0] if N is None else _sizes(N)[0]
    if count == 0:
        return wrap(found.new_empty((found.shape[0], 0), dtype=held))
    found = found.to(held).unsqueeze(1)
    one = torch.ones_like(found)
    powers = torch.cat([one, found.expand(-1, count - 1)], 1).cumprod(1)
    return wrap(powers if increasing else powers.flip(1))
