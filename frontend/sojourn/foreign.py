# SPDX-License-Identifier: Apache-2.0
"""Operators of a user's own library (torch.library): those without a kernel for owners by their decomposition."""

from __future__ import annotations

import torch

import _sojourn


def _decomposed(name: str, overload: str, args, kwargs):
    """By what torch._decomp.register_decomposition has for the operator, which is made of ops that are recorded."""
    namespace, base = name.split("::")
    op = getattr(getattr(getattr(torch.ops, namespace), base), overload or "default")
    function = torch._decomp.decomposition_table.get(op)
    return NotImplemented if function is None else function(*args, **kwargs)


def install() -> None:
    """Once."""
    _sojourn.set_foreign_listener(_decomposed)
