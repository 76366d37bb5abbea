# SPDX-License-Identifier: Apache-2.0
"""torch.load(map_location=owner.device): storages stay in this process, their tensors move to the owner."""

from __future__ import annotations

import functools
import threading

import torch

from .errors import Unsupported


class _Loading(threading.local):
    fills_later = False  # the format before torch 1.6: storages get their contents when all tensors have been made


_loading = _Loading()


def _restored(storage, location: str):
    """The unchanged storage, marked with the destination of its tensors."""
    if not location.startswith("owner"):
        return None
    if _loading.fills_later:
        raise Unsupported(
            "torch.load onto an owner found a file of the format before torch 1.6, expected a newer one; load it onto "
            'the CPU (map_location="cpu") and move the result'
        )
    storage._sojourn_device = torch.device(location)
    storage._sojourn_moved = {}
    return storage


def _legacy(original):
    @functools.wraps(original)
    def load(*args, **kwargs):
        before, _loading.fills_later = _loading.fills_later, True
        try:
            return original(*args, **kwargs)
        finally:
            _loading.fills_later = before

    return load


def _over(original):
    @functools.wraps(original)  # torch allows it by its name
    def rebuild(storage, offset, size, stride):
        tensor = original(storage, offset, size, stride)
        untyped = storage._untyped_storage
        device = getattr(untyped, "_sojourn_device", None)
        if device is None:
            return tensor
        # One upload for all tensors of a storage, so that those which share memory go on sharing it.
        whole = untyped._sojourn_moved.get(tensor.dtype)
        if whole is None:
            count = untyped.nbytes() // tensor.element_size()
            whole = untyped._sojourn_moved[tensor.dtype] = original(storage, 0, (count,), (1,)).to(device)
        return whole.as_strided(size, stride, offset)

    return rebuild


def install() -> None:
    """Installs the hooks, once."""
    torch.serialization.register_package(15, lambda storage: None, _restored)
    torch._utils._rebuild_tensor = _over(torch._utils._rebuild_tensor)
    torch.serialization._legacy_load = _legacy(torch.serialization._legacy_load)
