# SPDX-License-Identifier: Apache-2.0
"""`tensor.data = other` with `other` at another place: the tensor moves there, as between a CPU and a GPU.

torch exchanges the memory of tensors of one kind only. So scripts that move parameters one by one
(`p.data = p.data.to(device)`) and libraries that assign CPU values to buffers would fail.
"""

from __future__ import annotations

from typing import Any

import torch

import _sojourn

from . import module
from .errors import Unsupported

_own: Any = torch._C.TensorBase.data  # the descriptor; to stubs a tensor


def install() -> None:
    """Replaces the setter of `torch.Tensor.data`; the getter remains torch's own."""
    if not isinstance(torch.Tensor.__dict__.get("data"), property):
        torch.Tensor.data = property(_own.__get__, _assign, _own.__delete__, _own.__doc__)  # type: ignore[assignment]


def _assign(tensor: torch.Tensor, value) -> None:
    if isinstance(value, torch.Tensor) and len(places := _places(tensor, value)) > 1 and "owner" in places:
        _move(tensor, value)
        return
    _own.__set__(tensor, value)


def _places(*tensors: torch.Tensor) -> set[str]:
    """Kinds of devices; classes with `__torch_function__` see no call more than without this package."""
    with torch._C.DisableTorchFunctionSubclass():
        return {tensor.device.type for tensor in tensors}


def _move(tensor: torch.Tensor, value: torch.Tensor) -> None:
    way = f"from {str(tensor.device)!r} to {str(value.device)!r}"
    if _sojourn.step_active():
        raise Unsupported(
            f"`.data =` would move a tensor of shape {tuple(tensor.shape)} {way} inside of a step; move it before the "
            "step, or use copy_, which leaves it where it is"
        )
    if not tensor.is_leaf:
        raise Unsupported(
            f"`.data =` would move a computed tensor of shape {tuple(tensor.shape)} {way}; move a leaf, such as a "
            "parameter, or use .to(device), which keeps the gradient"
        )
    moved = value.detach()
    moved.requires_grad_(tensor.requires_grad)
    if tensor.grad is not None:
        moved.grad = tensor.grad.to(value.device, value.dtype)
    module.exchange(tensor, moved)
