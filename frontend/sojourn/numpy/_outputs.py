# SPDX-License-Identifier: Apache-2.0
"""Arguments `out` of functions that are no ufuncs, and functions of NumPy's submodules."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy
import torch

from ._array import ndarray, wrap
from ._convert import any_remote, is_remote, tensor
from ._dtypes import NUMPY

__all__: list[str] = []

_F = TypeVar("_F", bound=Callable[..., Any])


def into(result: torch.Tensor, out, exact: bool = False) -> ndarray:
    """The array of a result, or `out` after the result was written there.

    `exact`: dtypes have to be the same, ValueError if not; else NumPy's rule "same_kind", TypeError.
    """
    if out is None:
        return wrap(result)
    out = out[0] if isinstance(out, tuple) and len(out) == 1 else out
    if not is_remote(out):
        raise TypeError("return arrays must be of ArrayType: out lives at the owner, make it with zeros_like")
    to = tensor(out)
    if to.shape != result.shape:
        raise ValueError(f"output array has the shape {tuple(to.shape)}, and the result {tuple(result.shape)}")
    if exact and to.dtype != result.dtype:
        raise ValueError(
            f"output array is not acceptable: it is of {NUMPY[to.dtype]}, and the result of {NUMPY[result.dtype]}"
        )
    if not numpy.can_cast(NUMPY[result.dtype], NUMPY[to.dtype], "same_kind"):
        raise TypeError(
            f"Cannot cast output from {NUMPY[result.dtype]!r} to {NUMPY[to.dtype]!r} with casting rule 'same_kind'"
        )
    to.copy_(result)
    return out


def function_of(module) -> Callable[[_F], _F]:
    """Like `_convert.function`, for a submodule of NumPy."""

    def decorated(implementation: _F) -> _F:
        host = getattr(module, implementation.__name__)

        @functools.wraps(implementation)
        def called(*args, **kwargs):
            if any_remote(args) or (kwargs and any_remote(kwargs.values())):
                return implementation(*args, **kwargs)
            return host(*args, **kwargs)

        return called  # type: ignore[return-value]  # the same signature

    return decorated
