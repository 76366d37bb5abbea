# SPDX-License-Identifier: Apache-2.0
"""Gradients of steps that did not run."""

from __future__ import annotations

import gc

import torch

import _sojourn


def is_leaf(tensor: torch.Tensor) -> bool:
    """Whether torch counts it as a leaf; torch does not say of a view made under no_grad whose base was written to."""
    try:
        return tensor.is_leaf
    except RuntimeError:
        return False


def drop_lost_gradients() -> None:
    """Resets gradients that a dropped step created to None: they have no value, and their leaves had none before."""
    for value in gc.get_objects():
        if issubclass(type(value), torch.Tensor) and value.device.type == "owner" and is_leaf(value):
            if value.grad is not None and not _sojourn.has_value(value.grad):
                value.grad = None
