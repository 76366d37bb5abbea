# SPDX-License-Identifier: Apache-2.0
"""Which calls eager leaves undefined: what memory they read and write, and conversions that no integer holds."""

from __future__ import annotations

import numpy as np
import torch
from alias_fuzz_ops import ELEMENTWISE, UNIFORM, Spec


class Hazard(Exception):
    """Eager's result depends on the order in which it reads and writes, or on the processor."""


def starts(x: torch.Tensor) -> np.ndarray:
    """The place of each element in the storage, in bytes."""
    width = x.element_size()
    places = np.full((1,), x.storage_offset() * width)
    for size, stride in zip(x.shape, x.stride()):
        places = (places[:, None] + np.arange(size) * (stride * width)).reshape(-1)
    return places


def overlaps_itself(x: torch.Tensor) -> bool:
    if x.is_contiguous() or x.numel() < 2:
        return False
    places = starts(x)
    return np.unique(places).size != places.size


def same_storage(x: torch.Tensor, y: torch.Tensor) -> bool:
    return x.untyped_storage()._cdata == y.untyped_storage()._cdata


def same_window(x: torch.Tensor, y: torch.Tensor) -> bool:
    return (x.dtype, x.shape, x.stride(), x.storage_offset()) == (y.dtype, y.shape, y.stride(), y.storage_offset())


def share_bytes(x: torch.Tensor, y: torch.Tensor) -> bool:
    if not same_storage(x, y):
        return False
    if not x.numel() or not y.numel():
        return x is y  # refused by some ops, though nothing is written
    bytes_of = lambda t: (starts(t)[:, None] + np.arange(t.element_size())).reshape(-1)
    return bool(np.intersect1d(bytes_of(x), bytes_of(y)).size)


def check(spec: Spec, args: tuple) -> None:
    """Raises Hazard for a call whose outcome in eager says nothing."""
    if spec.rounds:
        for arg in args:
            for each in arg if isinstance(arg, (list, tuple)) else [arg]:
                if isinstance(each, torch.Tensor) and not _is_finite(each):
                    # Arithmetic promises neither the bits nor the sign of NaN, which views as other types show.
                    raise Hazard("computes with NaN or infinity")
    for at in spec.writes:
        targets = args[at] if isinstance(args[at], (list, tuple)) else [args[at]]
        others = [arg for position, arg in enumerate(args) if position != at]
        for number, target in enumerate(targets):
            reads = [
                each
                for arg in others
                for each in (
                    # The lists of foreach go element by element, in their order.
                    [arg[number]]
                    if isinstance(args[at], list) and isinstance(arg, list) and len(arg) == len(targets)
                    else arg
                    if isinstance(arg, (list, tuple))
                    else [arg]
                )
                if isinstance(each, torch.Tensor)
            ]
            _check_write(spec, target, reads)


def _is_finite(x: torch.Tensor) -> bool:
    if not x.is_floating_point() and not x.is_complex():
        return True
    parts = torch.view_as_real(x.detach().resolve_conj()) if x.is_complex() else x.detach()
    # Larger ones may overflow between two roundings.
    return bool((parts.abs() < torch.finfo(x.dtype).max / 64).all())


def _check_write(spec: Spec, target, reads: list[torch.Tensor]) -> None:
    if spec.style != UNIFORM and overlaps_itself(target):
        raise Hazard("writes to elements that share memory")
    for read in reads:
        if (
            read.requires_grad
            and not (target.is_floating_point() and not read.is_complex())
            and not read.dtype == target.dtype
        ):
            # A shortcut for one number on the CPU gives integers a gradient, and a real one to complex numbers.
            raise Hazard("writes a gradient into another kind of numbers")
        if share_bytes(target, read) and not (spec.style == ELEMENTWISE and same_window(target, read)):
            raise Hazard("reads memory that it writes to")
        check_cast(read, target.dtype)


def check_cast(x: torch.Tensor, dtype: torch.dtype) -> None:
    """Floats beyond an integer type convert as the processor likes."""
    if not x.is_floating_point() and not x.is_complex():
        return
    if dtype.is_floating_point or dtype.is_complex or dtype == torch.bool or not x.numel():
        return
    x = torch.view_as_real(x.detach().resolve_conj()) if x.is_complex() else x.detach()
    bounds = torch.iinfo(dtype)
    if not bool(((x >= bounds.min) & (x <= min(bounds.max, 2**62))).all()):
        raise Hazard("converts floats beyond the integers")
