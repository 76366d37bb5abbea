# SPDX-License-Identifier: Apache-2.0
import importlib as _importlib
import pathlib as _pathlib

from . import _operators
from ._array import ndarray
from ._convert import asarray, on
from ._ufuncs import ALL as _UFUNCS, ufunc

universal_functions = _UFUNCS
globals().update(_UFUNCS)
_operators.install()
for _file in sorted(_pathlib.Path(__file__).parent.glob("_*.py")):
    if _file.stem not in ("__init__", "_array", "_convert", "_dtypes", "_kernels", "_operators", "_ufuncs", "_methods"):
        _module = _importlib.import_module("." + _file.stem, __name__)
        for _name in getattr(_module, "__all__", ()):
            globals()[_name] = getattr(_module, _name)
for _name in ("linalg", "fft", "random"):
    try:
        globals()[_name] = _importlib.import_module("." + _name, __name__)
    except ModuleNotFoundError:
        pass
