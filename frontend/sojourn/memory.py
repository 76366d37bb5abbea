# SPDX-License-Identifier: Apache-2.0
"""Memory of NumPy's arrays that a traced call may have read: a replay compares it, byte by byte."""

from __future__ import annotations

import numpy
import torch

#: Bytes of an array that a function can only reach, beyond which comparing would take longer than a traced call.
REACHED_MOST = 64 << 20


class _Bytes:
    """The bytes of an array's elements, in an additional last dim, as NumPy's array interface tells of them."""

    def __init__(self, array: numpy.ndarray):
        backwards = tuple(axis for axis, stride in enumerate(array.strides) if stride < 0)
        forwards = numpy.flip(array, backwards) if backwards else array
        self._array = forwards  # keeps its memory alive
        self.__array_interface__ = {
            "version": 3, "typestr": "|u1", "data": (forwards.__array_interface__["data"][0], False),
            "shape": (*forwards.shape, forwards.itemsize), "strides": (*forwards.strides, 1),
        }  # fmt: skip


def bytes_of(array: numpy.ndarray) -> torch.Tensor:
    """A tensor over the memory of an array of any dtype without Python objects, shape [*array.shape, itemsize]."""
    return torch.from_numpy(numpy.asarray(_Bytes(array)))


def is_plain(array) -> bool:
    """Whether it is an array whose memory holds its values."""
    return isinstance(array, numpy.ndarray) and not array.dtype.hasobject and array.size > 0
