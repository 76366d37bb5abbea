from ._array import ndarray
from ._convert import asarray, on
from ._ufuncs import ALL as _UFUNCS, ufunc
from . import _operators
globals().update(_UFUNCS)
_operators.install()
