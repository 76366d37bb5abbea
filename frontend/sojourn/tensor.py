# SPDX-License-Identifier: Apache-2.0
"""Methods of `torch.Tensor` for remote tensors: shape, dtype and device, and values where reads are allowed."""

from __future__ import annotations

import functools
import os
import sys
import types
import warnings

import torch

import _sojourn

from . import connections, parties, published, reads, serialization
from . import storage as storages
from .errors import Error, Refused, Unsupported

_PUBLISH = "inside a step values leave the owner only by sojourn.publish(tensor)"
_NO_MEMORY = "a remote tensor has no memory in this process; read it with .cpu(), or publish it inside a step"


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
    return f"{name}(<{parties.where(tensor) or 'at the owner'}>, {', '.join(parts)})"


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
        raise kind(f"Tensor.{name}: {_describe(self)}: {text}{_way_out()}")

    return method


def _way_out() -> str:
    """A hint if torch's own code asks for the memory."""
    frame: types.FrameType | None = sys._getframe(2)
    while frame is not None:
        if hint := _hint(frame):
            return hint
        frame = frame.f_back
    return ""


def _hint(frame: types.FrameType) -> str:
    for part, hint in _ASKING.items():
        if part in frame.f_code.co_filename:
            return f"; {hint}"
    return ""


# Parts of torch that would go on with the bytes.
_ASKING = {
    os.path.join("torch", "_dynamo", ""): "leave out torch.compile: each sojourn.step is already compiled",
    os.path.join("torch", "nested", ""): (
        "nested tensors are not supported on device owner, use dense ones (to_padded_tensor())"
    ),
    os.path.join("torch", "multiprocessing", "reductions.py"): (
        "a tensor at an owner does not go to another process, send tensor.cpu()"
    ),
}


def _known(name: str, answer):
    """The method `name` by what is known of a remote tensor's memory; refused to those parts of torch."""
    refuse = _refuse(name, Unsupported, _NO_MEMORY)

    def method(self):
        frame: types.FrameType | None = sys._getframe(2)
        while frame is not None and not connections.is_users(frame.f_code.co_filename):
            if _hint(frame):
                return refuse(self)
            frame = frame.f_back
        found = answer(self)
        return refuse(self) if found is None else found

    return method


def _guard_dlpack() -> None:
    original = torch._C._to_dlpack

    @functools.wraps(original)
    def to_dlpack(tensor, *args, **kwargs):
        # The protocol's method refuses remote tensors; the C function would only say that it has no pointer.
        return tensor.__dlpack__() if is_remote(tensor) else original(tensor, *args, **kwargs)

    torch.to_dlpack = torch.utils.dlpack.to_dlpack = to_dlpack  # type: ignore[assignment]  # takes all that it took


def _shown(self: torch.Tensor, *, tensor_contents=None) -> str:
    """Shows values where they may be read. Private values stay, and a repr never loses unsent ops of a step."""
    if tensor_contents is None:
        if (
            _sojourn.step_active()
            or not _sojourn.has_value(self)
            or torch._C._functorch.maybe_current_level() is not None
        ):
            return _describe(self)
        try:
            value = reads.value(self)
        except Error:
            return _describe(self)  # a text for people never fails; what was pending says so when it is used
        prefix = "tensor(" if type(self) in (torch.Tensor, torch.nn.Parameter) else f"{type(self).__name__}("
        tensor_contents = torch._tensor_str._tensor_str(value, len(prefix)) if value.numel() else "[]"
    return torch._tensor_str._str(self, tensor_contents=tensor_contents)


def _reading(name: str):
    """The method `name`, applied to a CPU copy."""
    refuse = _refuse(name, Refused, _PUBLISH)

    def method(self, *args, **kwargs):
        if _sojourn.step_active():
            return refuse(self)
        # In the graph, so that torch says what it says of tensors that require a gradient.
        return getattr(self.cpu(), name)(*args, **kwargs)

    return method


def _reduce(self: torch.Tensor, protocol):
    if _sojourn.step_active():
        raise Refused(
            f"Tensor.__reduce_ex__: {_describe(self)}: inside a step a remote tensor cannot be pickled or saved; save "
            "it after the step, or sojourn.publish it"
        )
    return serialization.reduced(self, protocol)


def _save_without_marks() -> None:
    """Files hold published tensors as tensors alone: whoever reads them may have no Sojourn."""
    original = torch.Tensor.__reduce_ex__

    @functools.wraps(original)
    def reduce(self, protocol):
        plain = published.unmarked(self)
        return original(self if plain is None else plain, protocol)

    torch.Tensor.__reduce_ex__ = reduce  # type: ignore[method-assign]  # torch has no hook for it


def _allow_pinning() -> None:
    """`DataLoader(pin_memory=True)` and `tensor.pin_memory()` do nothing, because uploads use no pinned memory."""
    original = torch.Tensor.pin_memory
    told: list[bool] = []

    @functools.wraps(original)
    def pin_memory(self, *args, **kwargs):
        if is_remote(self) or torch.cuda.is_available():
            return original(self, *args, **kwargs)
        # Frameworks pin by default, and a script can say nothing to it.
        if not told and connections.is_users(connections.reader().f_code.co_filename):
            told.append(True)
            warnings.warn(
                "pin_memory does nothing for an owner's device; leave it out", stacklevel=connections.callers_depth()
            )
        return self

    torch.Tensor.pin_memory = pin_memory  # type: ignore[method-assign]  # torch has no hook for it


def install() -> None:
    """Patches `torch.Tensor`, once."""
    if getattr(torch.Tensor, "_sojourn_installed", False):
        return
    torch.Tensor._sojourn_installed = True  # type: ignore[attr-defined]  # a mark of ours
    _patch("__repr__", _shown)
    for name in ("numpy", "tolist", "__array__"):
        _patch(name, _reading(name))
    _patch("__reduce_ex__", _reduce)
    _save_without_marks()
    for name in ("share_memory_", "pin_memory", "__dlpack__", "__dlpack_device__"):
        _patch(name, _refuse(name, Unsupported, _NO_MEMORY))
    _patch("untyped_storage", _known("untyped_storage", storages.of))
    _patch("data_ptr", _known("data_ptr", storages.address))
    _patch("__deepcopy__", _deepcopy)
    _allow_pinning()
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
