# SPDX-License-Identifier: Apache-2.0
"""Checks inside of torch that read values only to choose a faster way, or to complain: answered without reading."""

from __future__ import annotations

import functools

import torch
from torch.nn.modules import transformer

from .tensor import is_remote


def _answer(module, name: str, answer) -> None:
    """For remote tensors `answer(arguments...)` stands for what torch would find out; None leaves it to torch."""
    original = getattr(module, name)

    @functools.wraps(original)
    def check(*args, **kwargs):
        found = answer(*args, **kwargs)
        return original(*args, **kwargs) if found is None else found

    setattr(module, name, check)


def install() -> None:
    """Once."""
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
    # Whether padding is at the end, for nested tensors in eval mode.
    _answer(
        torch,
        "_nested_tensor_from_mask_left_aligned",
        lambda tensor, mask: False if is_remote(tensor) or is_remote(mask) else None,
    )
