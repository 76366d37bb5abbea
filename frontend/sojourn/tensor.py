# SPDX-License-Identifier: Apache-2.0
"""What `torch.Tensor` answers for remote tensors: shape, dtype and device; never a value."""

from __future__ import annotations

import functools
import os
import sys

import torch

from .errors import Refused, Unsupported

_PUBLISH = "values leave the owner only by sojourn.publish(tensor)"


def is_remote(value) -> bool:
    """Whether `value` is a tensor at an owner."""
    return isinstance(value, torch.Tensor) and value.device.type == "owner"


def _describe(tensor: torch.Tensor) -> str:
    name = "Parameter" if isinstance(tensor, torch.nn.Parameter) else "tensor"
    parts = [f"shape={tuple(tensor.shape)}", f"dtype={tensor.dtype}", f"device='{tensor.device}'"]
    if tensor.grad_fn is not None:
        parts.append(f"grad_fn=<{type(tensor.grad_fn).__name__}>")
    elif tensor.requires_grad:
        parts.append("requires_grad=True")
    return f"{name}(<at the owner>, {', '.join(parts)})"


def _patch(name: str, replacement) -> None:
    original = getattr(torch.Tensor, name)

    @functools.wraps(original)
    def method(self, *args, **kwargs):
        if isinstance(self, torch.Tensor) and self.device.type == "owner":
            return replacement(self, *args, **kwargs)
        return original(self, *args, **kwargs)

    setattr(torch.Tensor, name, method)


def _refuse(name: str, kind: type, text: str):
    def method(self, *args, **kwargs):
        raise kind(f"Tensor.{name}: {_describe(self)}: {text}{_compiling()}")

    return method


def _compiling() -> str:
    """A hint for `torch.compile`, which asks for memory as its first step."""
    frame = sys._getframe(2)
    while frame is not None and f"torch{os.sep}_dynamo{os.sep}" not in frame.f_code.co_filename:
        frame = frame.f_back
    return "; leave out torch.compile: each sojourn.step is compiled as it is" if frame else ""


def _guard_dlpack() -> None:
    original = torch._C._to_dlpack

    @functools.wraps(original)
    def to_dlpack(tensor, *args, **kwargs):
        # The protocol's method refuses remote tensors; the C function would only say that it has no pointer.
        return tensor.__dlpack__() if is_remote(tensor) else original(tensor, *args, **kwargs)

    torch.to_dlpack = torch.utils.dlpack.to_dlpack = to_dlpack


def install() -> None:
    """Patches `torch.Tensor`, once."""
    if getattr(torch.Tensor, "_sojourn_installed", False):
        return
    torch.Tensor._sojourn_installed = True
    _patch("__repr__", lambda self, *args, **kwargs: _describe(self))
    for name in ("numpy", "tolist", "__array__"):
        _patch(name, _refuse(name, Refused, _PUBLISH))
    _patch(
        "__reduce_ex__", _refuse("__reduce_ex__", Refused, "a remote tensor cannot be pickled or saved; " + _PUBLISH)
    )
    storage = "a remote tensor has no memory in this process; " + _PUBLISH
    for name in (
        "data_ptr",
        "storage",
        "untyped_storage",
        "share_memory_",
        "pin_memory",
        "__dlpack__",
        "__dlpack_device__",
    ):
        _patch(name, _refuse(name, Unsupported, storage))
    _patch("__deepcopy__", _deepcopy)
    _guard_dlpack()


def _deepcopy(self: torch.Tensor, memo: dict) -> torch.Tensor:
    if id(self) in memo:
        return memo[id(self)]
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment."
        )
    with torch.no_grad():
        copy = self.detach().clone()
    if isinstance(self, torch.nn.Parameter):
        copy = torch.nn.Parameter(copy, self.requires_grad)
    else:
        copy.requires_grad_(self.requires_grad)
    if self.grad is not None:
        copy.grad = _deepcopy(self.grad, memo)
    memo[id(self)] = copy
    return copy
