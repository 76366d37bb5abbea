# SPDX-License-Identifier: Apache-2.0
"""Casts as NumPy's: complex elements lose their imaginary part with a warning, and are true where they are not zero."""

from __future__ import annotations

import warnings

import numpy
import torch

from .. import connections


def cast(x: torch.Tensor, to: torch.dtype) -> torch.Tensor:
    """The elements of a remote tensor in another dtype; the tensor itself where that is its own."""
    return x if x.dtype == to else real_for(x, to).to(to)


def real_for(x: torch.Tensor, to: torch.dtype) -> torch.Tensor:
    """Elements for a cast to a dtype without imaginary parts: real parts, with a warning; for booleans, whether they are
    not zero."""
    if not x.is_complex() or to.is_complex:
        return x
    if to == torch.bool:
        return x != 0
    _warn_of_imaginary_parts()
    return x.real


def cast_host(values: numpy.ndarray, to: numpy.dtype) -> numpy.ndarray:
    """A host array in another dtype; the warning names the caller's line."""
    if values.dtype.kind == "c" and to.kind not in "cb":
        _warn_of_imaginary_parts()
        values = values.real
    return values.astype(to)


def require_cast(given: numpy.dtype, held: numpy.dtype, casting) -> None:
    """TypeError where the casting rule forbids it."""
    if not numpy.can_cast(given, held, casting):
        raise TypeError(f"Cannot cast array data from {given!r} to {held!r} according to the rule {casting!r}")


def _warn_of_imaginary_parts() -> None:
    text = "Casting complex values to real discards the imaginary part"
    warnings.warn(text, numpy.exceptions.ComplexWarning, stacklevel=connections.callers_depth())
