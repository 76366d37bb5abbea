# SPDX-License-Identifier: Apache-2.0
"""The functions of the module, on one generator of the process."""

from __future__ import annotations

import functools
from typing import Any

import numpy

from .._array import ndarray
from ._generator import Generator, default_rng

_hidden = default_rng()


def seed(seed=None) -> None:
    """Starts the module's generator anew: at a seed from 0 up to 2**32 - 1, an array of such, or unpredictably."""
    global _hidden
    bits = numpy.random.MT19937()
    state: Any = numpy.random.RandomState(seed).get_state(legacy=False)
    bits.state = state
    _hidden = Generator(bits)


def rand(*args) -> ndarray:
    """Uniform numbers in [0, 1) of a shape that the arguments give."""
    return _hidden.random(args)


def randn(*args) -> ndarray:
    """Standard normal numbers of a shape that the arguments give."""
    return _hidden.standard_normal(args)


def randint(low, high=None, size=None, dtype=int) -> ndarray:
    """Integers from `low` up to, without, `high`; with one bound from 0."""
    return _hidden.integers(low, high, size, dtype)


def random(size=None) -> ndarray:
    """Uniform numbers in [0, 1)."""
    return _hidden.random(size)


random_sample = ranf = sample = random


def standard_normal(size=None) -> ndarray:
    return _hidden.standard_normal(size)


def standard_exponential(size=None) -> ndarray:
    return _hidden.standard_exponential(size)


def standard_gamma(shape, size=None) -> ndarray:
    return _hidden.standard_gamma(shape, size)


def choice(a, size=None, replace=True, p=None) -> ndarray:
    """Entries of a row, or numbers below an integer `a`."""
    if len(getattr(a, "shape", None) or numpy.shape(a)) > 1:
        raise ValueError("a must be 1-dimensional")
    return _hidden.choice(a, size, replace, p)


def permutation(x) -> ndarray:
    """The numbers below an integer `x`, or the entries of an array along its first axis, in random order."""
    if not isinstance(x, (int, numpy.integer)) and len(getattr(x, "shape", None) or numpy.shape(x)) == 0:
        raise IndexError("x must be an integer or at least 1-dimensional")
    return _hidden.permutation(x)


def shuffle(x) -> None:
    """Reorders the entries along the first axis, in place."""
    _hidden.shuffle(x)


def _of_hidden(name: str):
    method = getattr(Generator, name)

    @functools.wraps(method)
    def called(*args, **kwargs):
        return method(_hidden, *args, **kwargs)

    called.__qualname__ = name
    return called


_SAME = (
    "beta", "binomial", "bytes", "chisquare", "dirichlet", "exponential", "f", "gamma", "geometric", "gumbel",
    "hypergeometric", "laplace", "logistic", "lognormal", "logseries", "multinomial", "multivariate_normal",
    "negative_binomial", "noncentral_chisquare", "noncentral_f", "normal", "pareto", "poisson", "power", "rayleigh",
    "standard_cauchy", "standard_t", "triangular", "uniform", "vonmises", "wald", "weibull", "zipf",
)  # fmt: skip
globals().update({name: _of_hidden(name) for name in _SAME})

__all__ = [
    "choice", "permutation", "rand", "randint", "randn", "random", "random_sample", "ranf", "sample", "seed", "shuffle",
    "standard_exponential", "standard_gamma", "standard_normal", *_SAME,
]  # fmt: skip
