# SPDX-License-Identifier: Apache-2.0
"""Operators of a user's library (torch.library): an operator without a kernel for owners uses its decomposition."""

from __future__ import annotations

import torch

import _sojourn


def _decomposed(name: str, overload: str, args, kwargs):
    """Runs the operator's entry in torch._decomp.register_decomposition, which consists of recorded ops."""
    namespace, base = name.split("::")
    op = getattr(getattr(getattr(torch.ops, namespace), base), overload or "default")
    function = torch._decomp.decomposition_table.get(op)
    return NotImplemented if function is None else function(*args, **kwargs)


def install() -> None:
    """Installs the listener, once."""
    _sojourn.set_foreign_listener(_decomposed)
