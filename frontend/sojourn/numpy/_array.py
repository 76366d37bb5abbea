# SPDX-License-Identifier: Apache-2.0
"""The remote array: a tensor at an owner, with NumPy's attributes, methods and operators."""

from __future__ import annotations

import operator
from typing import Any

import numpy
import torch
from torch.utils import _pytree as pytree

import _sojourn

from .. import reads
from ..errors import Error, Refused
from ..parties import where as lives
from ._casts import cast
from ._dtypes import NUMPY, TORCH, dtype_of, torch_dtype


def wrap(tensor: torch.Tensor) -> ndarray:
    """The array of a remote tensor, which it shares."""
    made = _new(ndarray)
    made._t = tensor
    return made


class ndarray:
    """An array at an owner. Made by `asarray`, `zeros`, ..., and by every function of the namespace.

    Values stay at the owner: inside a step they leave by `sojourn.publish`, outside of steps `float(x)`, `x.item()`,
    `x.tolist()` and `numpy.asarray(x)` read them, where the owner allows it, in one round trip. Results of no
    dimensions are arrays, too. Arithmetic takes arrays, tensors at the owner, NumPy's arrays (an upload) and Python
    numbers, by NumPy's promotion (NEP 50).
    """

    __slots__ = ("__weakref__", "_t")
    _t: torch.Tensor

    __array_priority__ = 2000.0  # above torch's tensors and NumPy's arrays
    __hash__ = None  # type: ignore[assignment]  # as NumPy's

    def __init__(self, *args, **kwargs):
        raise TypeError("ndarray is not made by its class; use asarray, empty, zeros or full")

    # What is known without values.

    @property
    def tensor(self) -> torch.Tensor:
        """The torch tensor of the same memory, without a graph."""
        return self._t

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._t.shape)

    @property
    def dtype(self) -> numpy.dtype:
        return NUMPY[self._t.dtype]

    @property
    def ndim(self) -> int:
        return self._t.dim()

    @property
    def size(self) -> int:
        return self._t.numel()

    @property
    def itemsize(self) -> int:
        return self._t.element_size()

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        return tuple(self.itemsize * stride for stride in self._t.stride())

    @property
    def device(self) -> torch.device:
        return self._t.device

    def to_device(self, device, /, *, stream=None) -> ndarray:
        """The array at another device of owners."""
        if stream is not None:
            raise ValueError("owners have no streams; leave out stream")
        from ._convert import device_of

        return wrap(self._t.to(device_of(device)))

    def __array_namespace__(self, /, *, api_version=None):
        """This namespace (array API)."""
        if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
            raise ValueError(f"array API version {api_version!r} is unknown, expected 2024.12 or earlier")
        from .. import numpy as namespace

        return namespace

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        from . import universal_functions

        known = universal_functions.get(ufunc.__name__)
        if known is None:
            raise TypeError(
                f"the universal function {ufunc.__name__} is not part of sojourn.numpy; nothing was computed"
            )
        return getattr(known, method)(*inputs, **options)

    def __array_function__(self, function, types, args, kwargs):
        from ..protocols import call_by_name

        return call_by_name(function, args, kwargs)

    def __len__(self) -> int:
        if self._t.dim() == 0:
            raise TypeError("len() of unsized object")
        return self._t.shape[0]

    def __iter__(self):
        if self._t.dim() == 0:
            raise TypeError("iteration over a 0-d array")
        return (wrap(part) for part in self._t.unbind())

    def __repr__(self) -> str:
        value = self._shown()
        if value is not None:
            return repr(value)
        return f"array(<{lives(self._t) or 'at the owner'}>, shape={self.shape}, dtype={self.dtype})"

    def __str__(self) -> str:
        value = self._shown()
        return repr(self) if value is None else str(value)

    def _shown(self) -> numpy.ndarray | None:
        """The values, where a repr may read them."""
        if _sojourn.step_active() or not _sojourn.has_value(self._t):
            return None
        try:
            return reads.value(self._t).numpy()
        except Error:
            return None

    # Values, where they may be read.

    def _read(self, what: str) -> numpy.ndarray:
        if _sojourn.step_active():
            raise Refused(
                f"{what} needs a value of {self!r}: inside a step values leave the owner only by sojourn.publish(array)"
            )
        return self._t.cpu().numpy()

    def __array__(self, dtype=None, copy=None) -> numpy.ndarray:
        if copy is False:
            raise ValueError("the values of a remote array are copied to this process, and copy=False was given")
        value = self._read("numpy.asarray")
        return value if dtype is None else value.astype(dtype, copy=False)

    def item(self, *args) -> Any:
        return self._read("item").item(*args)

    def tolist(self) -> Any:
        return self._read("tolist").tolist()

    def tobytes(self, order="C") -> bytes:
        return self._read("tobytes").tobytes(order)

    def _scalar(self, what: str) -> Any:
        if self._t.numel() != 1 or (what != "bool" and self._t.dim()):
            if what == "bool":
                if self._t.numel() == 0:
                    raise ValueError("The truth value of an empty array is ambiguous. Use `array.size > 0`")
                raise ValueError(
                    "The truth value of an array with more than one element is ambiguous. Use a.any() or a.all()"
                )
            raise TypeError("only 0-dimensional arrays can be converted to Python scalars")
        return self._read(what).item()

    def __bool__(self) -> bool:
        return bool(self._scalar("bool"))

    def __int__(self) -> int:
        return int(self._scalar("int"))

    def __float__(self) -> float:
        return float(self._scalar("float"))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex"))

    def __index__(self) -> int:
        if self._t.dim() or self._t.is_floating_point() or self._t.is_complex() or self._t.dtype == torch.bool:
            raise TypeError("only integer scalar arrays can be converted to a scalar index")
        return operator.index(self._scalar("index"))

    def __format__(self, spec: str) -> str:
        return format(self._read("format").item(), spec) if spec and self._t.dim() == 0 else format(str(self), spec)

    def __reduce__(self):
        return asarray_of, (self._t,)

    def __copy__(self) -> ndarray:
        return wrap(self._t.clone())

    def __deepcopy__(self, memo) -> ndarray:
        return wrap(self._t.clone())

    # Elements.

    def __getitem__(self, key) -> ndarray:
        from ._indexing import get

        return get(self, key)

    def __setitem__(self, key, value) -> None:
        from ._indexing import put

        put(self, key, value)

    def __contains__(self, value) -> bool:
        return bool((self == value).any())

    # Views and copies.

    @property
    def T(self) -> ndarray:
        return wrap(self._t.permute(tuple(range(self._t.dim() - 1, -1, -1))))

    @property
    def mT(self) -> ndarray:
        if self._t.dim() < 2:
            raise ValueError("matrix transpose with ndim < 2 is undefined")
        return wrap(self._t.transpose(-1, -2))

    @property
    def real(self) -> ndarray:
        return wrap(self._t.real) if self._t.is_complex() else self

    @real.setter
    def real(self, value) -> None:
        self.real[...] = value

    @property
    def imag(self) -> ndarray:
        return wrap(self._t.imag) if self._t.is_complex() else wrap(torch.zeros_like(self._t))

    @imag.setter
    def imag(self, value) -> None:
        if not self._t.is_complex():
            raise TypeError("array does not have imaginary part to set")
        self.imag[...] = value

    @property
    def flat(self) -> ndarray:
        """The elements in a row: a view where the array is contiguous, else a copy."""
        return self.ravel()

    def reshape(self, *shape, order="C", copy=None) -> ndarray:
        from ._manipulation import reshape

        return reshape(self, shape[0] if len(shape) == 1 else shape, order=order, copy=copy)

    def transpose(self, *axes) -> ndarray:
        from ._manipulation import transpose

        return transpose(self, (axes[0] if len(axes) == 1 else axes) or None)

    def ravel(self, order="C") -> ndarray:
        from ._manipulation import ravel

        return ravel(self, order)

    def flatten(self, order="C") -> ndarray:
        return self.ravel(order).copy()

    def view(self, dtype=None, type=None) -> ndarray:
        """The same memory as elements of another dtype of the same size."""
        return self if dtype is None else wrap(self._t.view(torch_dtype(dtype)))

    def copy(self, order="C") -> ndarray:
        return wrap(self._t.clone())

    def astype(self, dtype, order="K", casting="unsafe", subok=True, copy=True) -> ndarray:
        to = dtype_of(dtype)
        if casting != "unsafe" and not numpy.can_cast(self.dtype, to, casting):
            raise TypeError(f"Cannot cast array data from {self.dtype!r} to {to!r} according to the rule {casting!r}")
        if to == self.dtype:
            return self.copy() if copy else self
        return wrap(cast(self._t, TORCH[to]))

    def fill(self, value) -> None:
        self[...] = value

    def __dlpack__(self, **kwargs):
        raise BufferError("a remote array has no memory in this process; read it with numpy.asarray(x)")

    def __dlpack_device__(self):
        raise BufferError("a remote array has no memory in this process; read it with numpy.asarray(x)")


_new = ndarray.__new__


def asarray_of(tensor: torch.Tensor) -> ndarray:
    """Of a pickled array, whose values came along: where its owner is known, at the owner."""
    from ._convert import asarray

    return asarray(tensor)


def _unflattened(children, _):
    """Of a tree whose tensors were published: their values are no remote array."""
    (child,) = children
    return wrap(child) if isinstance(child, torch.Tensor) and child.device.type == "owner" else child


pytree.register_pytree_node(
    ndarray,
    lambda array: ([array._t], None),
    _unflattened,
    serialized_type_name="sojourn.numpy.ndarray",
)
