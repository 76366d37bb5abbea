# SPDX-License-Identifier: Apache-2.0
"""Dtypes by name and by rule: NumPy's own answers, which need no values, and the array API's description."""

from __future__ import annotations

import numpy
import torch

from .. import connections
from ._convert import is_remote, place, tensor
from ._dtypes import NUMPY, TORCH

__all__ = ["can_cast", "common_type", "finfo", "iinfo", "iscomplexobj", "isdtype", "isrealobj", "isscalar", "iterable",
           "min_scalar_type", "promote_types", "result_type"]  # fmt: skip


def _dtypes(arguments):
    """Remote arrays as their dtypes: NumPy's rules ask for no more."""
    return [
        NUMPY[tensor(x).dtype] if is_remote(x) else NUMPY.get(x, x) if isinstance(x, torch.dtype) else x
        for x in arguments
    ]


def result_type(*arrays_and_dtypes) -> numpy.dtype:
    """The dtype of an operation on these arrays, dtypes and numbers."""
    return numpy.result_type(*_dtypes(arrays_and_dtypes))


def can_cast(from_, to, casting="safe") -> bool:
    """Whether a conversion is allowed by the rule."""
    given, target = _dtypes([from_, to])
    return numpy.can_cast(given, target, casting)


def promote_types(type1, type2) -> numpy.dtype:
    """The smallest dtype that both may be converted to."""
    return numpy.promote_types(*_dtypes([type1, type2]))


def common_type(*arrays) -> type:
    """The scalar type of floats that all arrays may be converted to."""
    return numpy.common_type(
        *(numpy.empty(0, dtype) if isinstance(dtype, numpy.dtype) else dtype for dtype in _dtypes(arrays))
    )


def min_scalar_type(a, /) -> numpy.dtype:
    """Of an array its dtype; of a host number the smallest dtype that holds it."""
    return numpy.min_scalar_type(a) if not is_remote(a) else _dtypes([a])[0]


def isdtype(dtype, kind) -> bool:
    """Whether a dtype is of a kind (array API)."""
    return numpy.isdtype(numpy.dtype(_dtypes([dtype])[0]), kind)


def finfo(dtype) -> numpy.finfo:
    """Limits of a float dtype, or of an array's."""
    return numpy.finfo(_dtypes([dtype])[0])


def iinfo(dtype) -> numpy.iinfo:
    """Limits of an integer dtype, or of an array's."""
    return numpy.iinfo(_dtypes([dtype])[0])


def iscomplexobj(x) -> bool:
    """Whether the dtype is complex."""
    return tensor(x).is_complex() if is_remote(x) else numpy.iscomplexobj(x)


def isrealobj(x) -> bool:
    """Whether the dtype is not complex."""
    return not iscomplexobj(x)


def isscalar(element) -> bool:
    """Whether it is a host number; arrays of no dimensions are arrays."""
    return numpy.isscalar(element)


def iterable(y) -> bool:
    """Whether it can be iterated over."""
    return tensor(y).dim() > 0 if is_remote(y) else numpy.iterable(y)


class _Info:
    """The array API's description of a namespace: `__array_namespace_info__()`."""

    def capabilities(self) -> dict:
        """Sizes that depend on values are read, which a step refuses."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 16}

    def default_device(self) -> torch.device:
        """Where creation functions make arrays."""
        return place()

    def default_dtypes(self, *, device=None) -> dict[str, numpy.dtype]:
        return {
            "real floating": numpy.dtype("float64"), "complex floating": numpy.dtype("complex128"),
            "integral": numpy.dtype("int64"), "indexing": numpy.dtype("int64"),
        }  # fmt: skip

    def devices(self) -> list[torch.device]:
        return connections.devices()

    def dtypes(self, *, device=None, kind=None) -> dict[str, numpy.dtype]:
        """Dtypes that owners hold, those of a kind."""
        return {
            dtype.name: dtype for dtype in TORCH if dtype != "float16" and (kind is None or numpy.isdtype(dtype, kind))
        }  # fmt: skip


def array_namespace_info() -> _Info:
    """The description of the namespace (array API)."""
    return _Info()
