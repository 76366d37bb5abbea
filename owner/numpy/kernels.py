# SPDX-License-Identifier: Apache-2.0
"""The registry of kernels and the two rules of arithmetic that all of them share.

A kernel is a function `(op, *operands) -> array or tuple of arrays`. Operands are never written.
Values are stored in their declared dtype. f16 and bf16 are computed in f32 and rounded once per op;
sums and functions of f32 are computed in f64 and rounded once (plain and slow, but the better oracle).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .types import BF16, DTYPES, F16

KERNELS: dict[str, Callable] = {}

_HALVES = (DTYPES[F16], DTYPES[BF16])


def kernel(*names: str):
    def register(function: Callable) -> Callable:
        for name in names:
            assert name not in KERNELS, name
            KERNELS[name] = function
        return function

    return register


def computed(x: np.ndarray) -> np.ndarray:
    """The dtype to compute in: f32 for f16 and bf16, c128 for c64 (products cancel), else its own."""
    if x.dtype == np.complex64:
        return x.astype(np.complex128)
    return x.astype(np.float32) if x.dtype in _HALVES else x


def widened(x: np.ndarray) -> np.ndarray:
    """The dtype to accumulate in: f64 and c128 for floats, else its own."""
    if x.dtype in _HALVES or x.dtype == np.float32:
        return x.astype(np.float64)
    return x.astype(np.complex128) if x.dtype == np.complex64 else x


def rounded(y: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The wide result as `dtype`; halves go through f32, in which they are defined."""
    y = np.asarray(y)
    if dtype in _HALVES and y.dtype == np.float64:
        y = y.astype(np.float32)
    return y.astype(dtype, copy=False)


def load() -> dict[str, Callable]:
    """All kernels, by op name."""
    from . import (  # noqa: F401
        ops_contract,
        ops_elementwise,
        ops_index,
        ops_layout,
        ops_reduce,
        ops_source,
        ops_special,
        ops_transform,
    )

    return KERNELS
