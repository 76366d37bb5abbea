# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F401  # names of the namespace
"""NumPy's namespace over values that stay with their owner: `import sojourn.numpy as np`.

::

    owner = sojourn.local()
    table = owner.register("patients", "patients.csv", policy="open")
    age = np.asarray(table["age"])
    scaled = (age - np.mean(age)) / np.std(age)     # recorded; nothing has left the owner

Functions take arrays, tensors at owners, NumPy's arrays and numbers, and return arrays (`ndarray`). Where no argument is
at an owner, NumPy itself answers. Result types, broadcasting and errors are NumPy 2's; checks that need a value are left
out. docs/guides/numpy.md has the differences, docs/reference/numpy.md the list of names.
"""

from __future__ import annotations

import importlib as _importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

import numpy as _numpy

from . import _methods, _names, _operators
from ._array import ndarray
from ._convert import asarray, on
from ._info import array_namespace_info as __array_namespace_info__
from ._ufuncs import ALL as universal_functions
from ._ufuncs import ufunc

_MODULES = (
    "_applied", "_averages", "_bins", "_calculus", "_creation", "_elementwise", "_histograms", "_index_sets", "_info",
    "_joining", "_manipulation", "_nan", "_nonzero", "_padding", "_polynomials", "_products", "_quantiles", "_ranges",
    "_rearranging", "_reductions", "_selection", "_sets", "_sorting", "_windows",
)  # fmt: skip


if _TYPE_CHECKING:

    def __getattr__(name: str) -> _Any: ...


def _gather() -> list[str]:
    """Fills the namespace; its names."""
    space = globals()
    names = ["asarray", "fft", "linalg", "ndarray", "on", "random", "ufunc", "universal_functions"]
    for name in sorted(_names.NUMPYS):
        if hasattr(_numpy, name) or name == "newaxis":
            space[name] = getattr(_numpy, name)
            names.append(name)
    for name, function in universal_functions.items():
        space[name] = function
        names.append(name)
    for module in _MODULES:
        loaded = _importlib.import_module(f".{module}", __name__)
        for name in loaded.__all__:
            space[name] = getattr(loaded, name)
            names.append(name)
    return sorted(set(names))


_operators.install()
__all__ = _gather()
_methods.install(globals())

from . import fft, linalg, random  # noqa: E402  # which use the functions above
