# SPDX-License-Identifier: Apache-2.0
"""Storages of remote tensors: device, size and an address that tells which tensors share memory, and no bytes."""

from __future__ import annotations

import functools

import torch

import _sojourn

from .errors import Unsupported

_READ = "the bytes of a remote tensor's storage are at its owner; read the tensor with .cpu() and take that one's"
_KEPT = "a remote tensor keeps its own storage; assign x.data or copy_"
# Every way of torch's to the bytes, and to a copy of them.
_READS = (
    *("__getitem__", "__iter__", "tolist", "clone", "new", "cpu", "mps", "cuda", "hpu", "to", "_to", "type", "copy_"),
    *("__reduce__", "__reduce_ex__", "_write_file", "is_pinned", "pin_memory"),
    *("share_memory_", "_share_fd_cpu_", "_share_filename_cpu_"),
)
_WRITES = ("__setitem__", "fill_", "resize_", "_set_from_file", "_byteswap", "byteswap")


def of(tensor: torch.Tensor):
    """The `torch.UntypedStorage` of a remote tensor, the same for all its views; None for a wrapper of torch.func."""
    return _sojourn.shown_storage(tensor)


def address(tensor: torch.Tensor) -> int | None:
    """The address of a remote tensor's first element within its storage; None for a wrapper of torch.func."""
    return _sojourn.shown_address(tensor)


def _is_remote(storage) -> bool:
    return isinstance(storage, torch.UntypedStorage) and storage.device.type == "owner"


def _shown(storage: torch.UntypedStorage) -> str:
    return f"[{torch.typename(storage)}(device={storage.device}) of size {len(storage)}, at the owner]"


def _patch(name: str, replacement) -> None:
    original = getattr(torch.UntypedStorage, name)

    @functools.wraps(original)
    def method(self, *args, **kwargs):
        if _is_remote(self):
            return replacement(self, *args, **kwargs)
        return original(self, *args, **kwargs)

    setattr(torch.UntypedStorage, name, method)


def _refuse(name: str, text: str):
    def method(self, *args, **kwargs):
        raise Unsupported(f"UntypedStorage.{name}: {_shown(self)}: {text}")

    return method


def _guard_copies() -> None:
    """A storage of this process takes no bytes of a remote one, either."""
    original, refuse = torch.UntypedStorage.copy_, _refuse("copy_", _READ)

    @functools.wraps(original)
    def copy_(self, source, *args, **kwargs):
        return refuse(source) if _is_remote(source) else original(self, source, *args, **kwargs)

    torch.UntypedStorage.copy_ = copy_  # type: ignore[method-assign]  # torch has no hook for it


def install() -> None:
    """Patches `torch.UntypedStorage`, once."""
    if getattr(torch.UntypedStorage, "_sojourn_installed", False):
        return
    torch.UntypedStorage._sojourn_installed = True  # type: ignore[attr-defined]  # a mark of ours
    for name in _READS:
        _patch(name, _refuse(name, _READ))
    for name in _WRITES:
        _patch(name, _refuse(name, _KEPT))
    _guard_copies()
    _patch("data_ptr", _sojourn.storage_address)
    _patch("__repr__", _shown)
    _patch("__str__", _shown)
    _patch("is_shared", lambda storage: False)
    _patch("resizable", lambda storage: False)
