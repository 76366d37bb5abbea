# SPDX-License-Identifier: Apache-2.0
"""Arguments of functions as remote tensors: arrays, lists and numbers."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import numpy
import torch

import _sojourn

from .. import connections
from ..errors import Error
from ..uses import tracing
from ._array import ndarray, wrap
from ._casts import cast
from ._dtypes import NUMPY, dtype_of, torch_dtype

by_numpy = _sojourn.by_numpy
_F = TypeVar("_F", bound=Callable[..., Any])


class _Places(threading.local):
    """Of a thread: the devices of open `on` blocks, the innermost last."""

    def __init__(self):
        self.devices: list[torch.device] = []


_places = _Places()


class on:
    """Where arrays are made that follow from no other: `with np.on(owner): np.zeros(3)`.

    `place`: an owner, a group of owners, a device, or a remote array. Without it, creation functions use the one open
    connection, and refuse if there are several.
    """

    def __init__(self, place):
        self._device = device_of(place)

    def __enter__(self):
        _places.devices.append(self._device)
        return self

    def __exit__(self, *exception):
        _places.devices.pop()
        return False


def device_of(place) -> torch.device:
    """The device that `place` names or lives on."""
    device = place if isinstance(place, (torch.device, str)) else getattr(place, "device", None)
    device = torch.device(device) if isinstance(device, str) else device
    if not isinstance(device, torch.device) or device.type != "owner":
        raise TypeError(f"device: {place!r} is no owner's; expected an owner, a group, its device or an array there")
    return device


def place(device=None) -> torch.device:
    """The device for a new array. `device`: the argument of the caller, or None."""
    if device is not None:
        return device_of(device)
    if _places.devices:
        return _places.devices[-1]
    known = connections.devices()
    if len(known) == 1:
        return known[0]
    raise Error(
        f"{'no owner is' if not known else f'{len(known)} owners are'} connected, and a new array has to live at one; "
        "give device=owner, or surround the lines by `with np.on(owner):`"
    )


def is_remote(x) -> bool:
    """Whether it is an array or a tensor at an owner."""
    return type(x) is ndarray or (isinstance(x, torch.Tensor) and x.device.type == "owner")


def any_remote(arguments) -> bool:
    """Whether one of them is remote, or has a remote one in a list or a tuple."""
    for x in arguments:
        if type(x) is ndarray or (isinstance(x, (list, tuple)) and any_remote(x)):
            return True
        if isinstance(x, torch.Tensor) and x.device.type == "owner":
            return True
    return False


def _device_among(x) -> torch.device | None:
    if isinstance(x, (list, tuple)):
        return next((device for device in map(_device_among, x) if device is not None), None)
    return x.device if is_remote(x) else None


def detached(x: torch.Tensor) -> torch.Tensor:
    """The tensor, which has no graph: no function of the namespace records one."""
    if x.requires_grad:
        raise RuntimeError("an array of a tensor that requires grad would lose its graph; use tensor.detach()")
    return x.detach()


def _note(x) -> None:
    """Tells the traced call of arrays that it reads."""
    if isinstance(x, (list, tuple)):
        for each in x:
            _note(each)
    elif tracing.host is not None:
        tracing.host.add_array(x)


def upload(x, device: torch.device) -> torch.Tensor:
    """A host array, a number or a nesting of lists, some of them remote, as a tensor at the device."""
    if isinstance(x, (list, tuple)) and any_remote(x):
        parts = [tensor(each, device=device) for each in x]
        common = torch_dtype(numpy.result_type(*(NUMPY[part.dtype] for part in parts)))
        return torch.stack([part.to(common) for part in parts])
    if isinstance(x, torch.Tensor):
        dtype_of(x.dtype)
        return detached(x).to(device)
    _note(x)
    host = numpy.asarray(x)
    dtype = dtype_of(host.dtype)
    if not host.dtype.isnative or host.dtype != dtype or not host.flags.writeable or any(s < 0 for s in host.strides):
        host = numpy.array(host, dtype=dtype)
    return torch.from_numpy(host).to(device)


def tensor(x, dtype=None, device: torch.device | None = None) -> torch.Tensor:
    """The remote tensor of anything that `asarray` takes. `dtype`: torch's, or None. `device`: for uploads."""
    if type(x) is ndarray:
        found = x._t
    elif isinstance(x, torch.Tensor) and x.device.type == "owner":
        dtype_of(x.dtype)
        found = detached(x)
    else:
        found = upload(x, device or _device_among(x) or place())
    return found if dtype is None else cast(found, dtype)


def tensors(*arrays, dtype=None) -> list[torch.Tensor]:
    """Likewise of several, at the device of the first remote one."""
    device = _device_among(arrays)
    return [tensor(x, dtype, device) for x in arrays]


def promoted(*arrays) -> list[torch.Tensor]:
    """Likewise, all of NumPy's common dtype; Python numbers are weak."""
    dtype = torch_dtype(numpy.result_type(*(_weak(x) for x in arrays)))
    return tensors(*arrays, dtype=dtype)


def _weak(x):
    if type(x) in (bool, int, float, complex):
        return x
    return (
        NUMPY[x.dtype]
        if isinstance(x, torch.Tensor)
        else dtype_of(x.dtype)
        if hasattr(x, "dtype")
        else numpy.asarray(x)
    )


def asarray(a, dtype=None, order=None, *, device=None, copy=None, like=None) -> ndarray:
    """The remote array of a remote tensor (the same memory), an array (itself), or of host values (an upload).

    `dtype`: NumPy's or torch's. `device`: an owner, a group, a device; default: that of `a`, else as `np.zeros`.
    `copy`: True always copies, False raises ValueError where a copy is needed. `order` has no meaning at an owner.
    """
    where = None if device is None else device_of(device)
    if is_remote(a):
        found = tensor(a)
        wanted = found.dtype if dtype is None else torch_dtype(dtype)
        moves = where is not None and where != found.device
        if copy is False and (wanted != found.dtype or moves):
            raise ValueError("a copy is needed to change dtype or device, and copy=False was given")
        if moves:
            found = found.to(where)
        made = cast(found, wanted)
        return wrap(made.clone() if copy and made is found and not moves else made)
    if copy is False:
        raise ValueError("host values are copied to an owner, and copy=False was given")
    made = upload(a, where or _device_among(a) or place(like))
    return wrap(made if dtype is None else cast(made, torch_dtype(dtype)))


def function(implementation: _F) -> _F:
    """A function of the namespace: NumPy's own answers where no argument is remote, as it does for host values."""
    name = implementation.__name__
    host = getattr(numpy, name, None)

    @functools.wraps(implementation)
    def called(*args, **kwargs):
        # Most calls have an array first.
        if args and type(args[0]) is ndarray:
            return implementation(*args, **kwargs)
        if host is None or any_remote(args) or (kwargs and any_remote(kwargs.values())):
            return implementation(*args, **kwargs)
        return host(*args, **kwargs)

    return called  # type: ignore[return-value]  # the same signature


def axes_of(axis, ndim: int) -> tuple[int, ...]:
    """An argument `axis` as axes from 0 on; None: all. AxisError as NumPy's."""
    if axis is None:
        return tuple(range(ndim))
    if type(axis) is int and -ndim <= axis < ndim:
        return (axis % ndim,)
    return tuple(numpy.lib.array_utils.normalize_axis_tuple(axis, ndim))


def axis_of(axis, ndim: int) -> int:
    """One axis from 0 on."""
    if type(axis) is int and -ndim <= axis < ndim:
        return axis % ndim
    return numpy.lib.array_utils.normalize_axis_index(axis, ndim)
