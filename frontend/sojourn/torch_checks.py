# SPDX-License-Identifier: Apache-2.0
"""Checks inside torch that read values only to choose a faster path or to complain: answered without a read."""

from __future__ import annotations

import functools
import threading

import torch
from torch.distributions import constraints
from torch.nn.modules import linear_cross_entropy_options as chunked
from torch.nn.modules import transformer

import _sojourn

from .tensor import is_remote


def _answer(module, name: str, answer) -> None:
    """For remote tensors `answer(arguments...)` replaces torch's check; None leaves the check to torch."""
    original = getattr(module, name)

    @functools.wraps(original)
    def check(*args, **kwargs):
        found = answer(*args, **kwargs)
        return original(*args, **kwargs) if found is None else found

    setattr(module, name, check)


def install() -> None:
    """Installs the answers, once."""
    if hasattr(torch._is_all_true, "__wrapped__"):
        return
    # Arguments and samples of torch.distributions: as validate_args=False.
    _answer(torch, "_is_all_true", lambda tensor: True if is_remote(tensor) else None)
    # Whether a mask is the causal one: it is applied either way.
    _answer(
        transformer,
        "_detect_is_causal_mask",
        lambda mask, is_causal=None, size=None: False if is_causal is None and is_remote(mask) else None,
    )
    # Whether padding is at the end, for nested tensors in eval mode: what these would give is made at the owner.
    _answer(torch, "_nested_tensor_from_mask_left_aligned", _note_padding)
    _wrap_encoder()
    _read_assertions()
    _keep_backward_here()
    _add_chunks_in_float32()
    # A covariance that a distribution was given: symmetric, and with a factor.
    for constraint in (constraints._PositiveDefinite, constraints._PositiveSemidefinite):
        _answer(constraint, "check", _are_definite)


def _read_assertions() -> None:
    """An assertion on values is a read: outside of steps it is made here, inside of them it is refused."""
    original = torch._assert_async

    @functools.wraps(original)
    def assert_async(tensor, *args, **kwargs):
        if not is_remote(tensor):
            return original(tensor, *args, **kwargs)
        return original(tensor) if _sojourn.step_active() else original(tensor.detach().cpu(), *args, **kwargs)

    torch._assert_async = assert_async  # type: ignore[assignment]  # torch has no hook for it


def _add_chunks_in_float32() -> None:
    """The chunks of F.linear_cross_entropy are added up as on the CPU, where torch knows the device."""
    options = chunked.LinearCrossEntropyOptions
    original = options._resolve_auto_acc_dtype

    @functools.wraps(original)
    def resolve(dtype, device):
        return original(dtype, torch.device("cpu") if device is not None and device.type == "owner" else device)

    options._resolve_auto_acc_dtype = staticmethod(resolve)  # type: ignore[method-assign]  # torch has no hook for it
    for dtype in (torch.float16, torch.bfloat16):
        chunked._AUTO_DEFAULTS["owner", dtype] = chunked._AUTO_DEFAULTS["cpu", dtype]


def _keep_backward_here() -> None:
    """Keeps backward on the calling thread; after inference mode torch would use engine threads without a step."""
    original = torch.inference_mode.__enter__

    @functools.wraps(original)
    def enter(self):
        entered = original(self)
        if not self.mode:
            torch._C._set_multithreading_enabled(False)
        return entered

    torch.inference_mode.__enter__ = enter  # type: ignore[method-assign]  # torch has no hook for it


class _Asked(threading.local):
    """Positions (True) that an encoder's call would pack into nested tensors, if they are at the start of rows."""

    kept: torch.Tensor | None = None


_asked = _Asked()


def _note_padding(tensor, mask):
    if not is_remote(tensor) and not is_remote(mask):
        return None
    _asked.kept = mask
    return False


def _wrap_encoder() -> None:
    """Gives the zeros of nested tensors for padding, before the last norm, if padding is at the end of each row."""
    original = transformer.TransformerEncoder.forward

    @functools.wraps(original)
    def forward(self, src, mask=None, *args, **kwargs):
        _asked.kept = None
        output = original(self, src, mask, *args, **kwargs)
        kept, _asked.kept = _asked.kept, None
        is_training = torch.is_grad_enabled() and any(p.requires_grad for p in (src, *self.layers[0].parameters()))
        if kept is None or mask is not None or is_training or torch.is_autocast_enabled():
            return output
        kept = kept.to(output.device)
        is_packed = (kept[:, 1:] <= kept[:, :-1]).all()
        nothing = torch.zeros_like(output[:1, :1])
        if self.norm is not None:
            nothing = self.norm(nothing)
        return torch.where((is_packed & ~kept).unsqueeze(-1), nothing, output)

    transformer.TransformerEncoder.forward = forward  # type: ignore[method-assign]  # torch has no hook for it


def _are_definite(constraint, value):
    if not is_remote(value):
        return None
    if value.shape[-2] != value.shape[-1]:
        return torch.zeros(value.shape[:-2], dtype=torch.bool)
    is_symmetric = torch.isclose(value, value.mT, atol=1e-6).all(-2).all(-1)
    if isinstance(constraint, constraints._PositiveSemidefinite):
        return is_symmetric & torch.linalg.eigvalsh(value).ge(0).all(-1)
    return is_symmetric & torch.linalg.cholesky_ex(value).info.eq(0)
