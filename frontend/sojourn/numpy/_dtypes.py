# SPDX-License-Identifier: Apache-2.0
"""NumPy's dtypes and torch's; element types that an owner holds."""

from __future__ import annotations

import numpy
import torch

TORCH: dict[numpy.dtype, torch.dtype] = {
    numpy.dtype(name): getattr(torch, name)
    for name in (
        "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128",
    )
}  # fmt: skip
NUMPY: dict[torch.dtype, numpy.dtype] = {value: key for key, value in TORCH.items()}

INTEGERS = frozenset((torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64))
FLOATS = frozenset((torch.float16, torch.float32, torch.float64))
COMPLEX = frozenset((torch.complex64, torch.complex128))


def dtype_of(dtype) -> numpy.dtype:
    """The NumPy dtype that an argument `dtype` names; a torch dtype is taken, too. TypeError if no owner holds it."""
    if isinstance(dtype, torch.dtype):
        if dtype not in NUMPY:
            raise TypeError(f"{dtype} has no NumPy dtype; convert the tensor first, e.g. with .float()")
        return NUMPY[dtype]
    found = numpy.dtype(dtype)
    found = found.newbyteorder("=")
    if found not in TORCH:
        raise TypeError(
            f"dtype {found} is not held by owners; use bool, uint8, int8..int64, float16..float64, complex64 or complex128"
        )
    return found


def torch_dtype(dtype) -> torch.dtype:
    """Likewise as torch's."""
    return TORCH[dtype_of(dtype)]


def inexact(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which means, norms and factorizations of such elements are computed: f64 for integers."""
    return dtype if dtype in FLOATS or dtype in COMPLEX else torch.float64


def real_of(dtype: torch.dtype) -> torch.dtype:
    """Of the real part."""
    return {torch.complex64: torch.float32, torch.complex128: torch.float64}.get(dtype, dtype)


def result_type(*operands) -> torch.dtype:
    """NumPy's common dtype; Python numbers are weak (NEP 50). Operands: tensors and Python numbers."""
    return torch_dtype(numpy.result_type(*(NUMPY[x.dtype] if isinstance(x, torch.Tensor) else x for x in operands)))
