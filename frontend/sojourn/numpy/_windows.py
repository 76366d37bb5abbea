# SPDX-License-Identifier: Apache-2.0
"""Windows of signal processing: `M` points, symmetric, float64, at the owner `device`."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from ._array import ndarray, wrap
from ._convert import place, tensor

__all__ = ["bartlett", "blackman", "hamming", "hanning", "kaiser"]


def _window(M, device, shape: Callable[[torch.Tensor], torch.Tensor]) -> ndarray:
    """`shape`: of places from -1 to 1."""
    M, where = float(M), place(device)
    if M < 1:
        return wrap(torch.zeros(0, dtype=torch.float64, device=where))
    if M == 1:
        return wrap(torch.ones(1, dtype=torch.float64, device=where))
    return wrap(shape(torch.arange(1 - M, M, 2, dtype=torch.float64, device=where) / (M - 1)))


def bartlett(M, device=None):
    """A triangle, 0 at both ends."""
    return _window(M, device, lambda x: 1 - torch.abs(x))


def blackman(M, device=None):
    """0.42 + 0.5 cos(pi x) + 0.08 cos(2 pi x), for x from -1 to 1."""
    return _window(M, device, lambda x: 0.42 + 0.5 * torch.cos(math.pi * x) + 0.08 * torch.cos(2 * math.pi * x))


def hamming(M, device=None):
    """0.54 + 0.46 cos(pi x), for x from -1 to 1."""
    return _window(M, device, lambda x: 0.54 + 0.46 * torch.cos(math.pi * x))


def hanning(M, device=None):
    """0.5 + 0.5 cos(pi x), for x from -1 to 1."""
    return _window(M, device, lambda x: 0.5 + 0.5 * torch.cos(math.pi * x))


def kaiser(M, beta, device=None):
    """i0(beta sqrt(1 - x ** 2)) / i0(beta), for x from -1 to 1."""
    M, where = float(M), place(device)
    if M == 1:
        return wrap(torch.ones(1, dtype=torch.float64, device=where))
    beta = tensor(beta, torch.float64, where)
    half = (M - 1) / 2
    x = (torch.arange(0, M, dtype=torch.float64, device=where) - half) / half
    return wrap(torch.i0(beta * torch.sqrt(1 - x**2)) / torch.i0(beta))
