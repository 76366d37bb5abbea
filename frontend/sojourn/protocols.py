# SPDX-License-Identifier: Apache-2.0
"""NumPy's protocols on torch's tensors: `numpy.exp(x)`, `numpy.mean(x)` and `x * ndarray` of remote tensors record.

Tensors on other devices share the class, so NumPy asks them, too; they answer what they did before. One thing differs:
functions of module `operator`, which NumPy's calls cannot be told from, compute `array + tensor` of host
values instead of refusing it.
"""

from __future__ import annotations

import dis
import functools
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy
import torch

import _sojourn

from .tensor import is_remote

_OPERATIONS = frozenset(dis.opmap[name] for name in ("BINARY_OP", "COMPARE_OP"))
# By the name of an operator: the universal function of it.
_UFUNCS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "power", "matmul": "matmul", "and": "bitwise_and", "or": "bitwise_or",
    "xor": "bitwise_xor", "lshift": "left_shift", "rshift": "right_shift", "lt": "less", "le": "less_equal",
    "eq": "equal", "ne": "not_equal", "gt": "greater", "ge": "greater_equal",
}  # fmt: skip
_COMPARISONS = frozenset(("lt", "le", "eq", "ne", "gt", "ge"))


class _OfRemote:
    """A protocol's method: found on the class, as NumPy looks there, and of instances on remote tensors alone.

    `__array_ufunc__` is not found by an operator of a script: there NumPy does as without it, and leaves arithmetic to
    the tensor's own methods.
    """

    def __init__(self, function: Callable[..., Any]):
        self._function = function

    def __get__(self, instance, owner=None):
        if instance is None:
            frame = sys._getframe(1)
            if self._function is __array_ufunc__ and frame.f_code.co_code[frame.f_lasti] in _OPERATIONS:
                raise AttributeError(self._function.__name__)
            return self._function
        if not is_remote(instance):
            raise AttributeError(f"'{type(instance).__name__}' object has no attribute '{self._function.__name__}'")
        return functools.partial(self._function, instance)


def _any_remote(values) -> bool:
    loaded = sys.modules.get(f"{__package__}.numpy")  # until it is imported, there are no arrays
    kinds = (loaded.ndarray,) if loaded is not None else ()
    return any(
        is_remote(value) or isinstance(value, kinds) or (isinstance(value, (list, tuple)) and _any_remote(value))
        for value in values
    )


def _tensors_of(result):
    """A result on remote tensors: tensors again, as torch wraps what NumPy computed."""
    from . import numpy as remote

    if isinstance(result, remote.ndarray):
        return result.tensor
    if isinstance(result, tuple) and type(result) is not tuple:  # a named one
        return type(result)(*map(_tensors_of, result))
    return type(result)(map(_tensors_of, result)) if type(result) in (list, tuple) else result


def __array_ufunc__(self, ufunc, method, *inputs, **options):
    out = options.get("out", ())
    if _any_remote((*inputs, *out, options.get("where", True))):
        from . import numpy as remote

        known = remote.universal_functions.get(ufunc.__name__)
        if known is None:
            raise TypeError(
                f"the universal function {ufunc.__name__} is not part of sojourn.numpy; nothing was computed"
            )
        return _tensors_of(getattr(known, method)(*inputs, **options))
    return _on_host(ufunc, method, inputs, options)


def _on_host(ufunc, method, inputs, options):
    """NumPy's treatment of tensors without this protocol: it computes on their arrays, and wraps the result."""
    if method == "at" and isinstance(inputs[0], torch.Tensor):
        raise TypeError("first operand must be array")
    # Subclasses, too, whose results the tensors' own priority would keep from them.
    arrays = [
        value.__array__() if isinstance(value, torch.Tensor)
        else numpy.asarray(value) if isinstance(value, numpy.ndarray)
        else value
        for value in inputs
    ]  # fmt: skip
    out = options.get("out", ())
    if any(isinstance(value, torch.Tensor) for value in out):
        raise TypeError("return arrays must be of ArrayType")
    result = getattr(ufunc, method)(*arrays, **options)
    if out or method in ("at", "outer"):
        return result
    first = next((value for value in inputs if isinstance(value, torch.Tensor)), None)

    def wrapped(value):
        return value if first is None else first.__array_wrap__(numpy.asarray(value))

    return tuple(map(wrapped, result)) if isinstance(result, tuple) else wrapped(result)


def __array_function__(self, function, _types, args, kwargs):
    if not _any_remote((*args, *kwargs.values())):
        return function._implementation(*args, **kwargs)
    return _tensors_of(call_by_name(function, args, kwargs))


def call_by_name(function, args, kwargs):
    """The function of sojourn.numpy behind one of NumPy's, on arrays or tensors at an owner."""
    from . import numpy as remote

    path = function.__module__.split(".")[1:]
    space = remote if not path or path[0].startswith(("_", "lib")) else getattr(remote, path[0], None)
    known = getattr(space, function.__name__, None)
    if known is None:
        name = ".".join(("numpy", *path, function.__name__))
        raise TypeError(
            f"{name} is not part of sojourn.numpy, and nothing was read from the owner; compute with other functions, or "
            "read the values first: numpy.asarray(x)"
        )
    return known(*args, **kwargs)


def __array_namespace__(self, /, *, api_version=None):
    from . import numpy as remote

    return remote.asarray(self).__array_namespace__(api_version=api_version)


def _operator(ufunc: str, is_reflected: bool) -> Callable[..., Any]:
    """The result of an operator for a remote tensor and an array of NumPy's."""

    def computed(self, array):
        from . import numpy as remote

        function = remote.universal_functions[ufunc]
        return function(array, self).tensor if is_reflected else function(self, array).tensor

    return computed


def _guard(name: str, handler: Callable[..., Any]) -> None:
    original = inspect.getattr_static(torch.Tensor, name)
    if not isinstance(original, types.FunctionType):
        _sojourn.guard_operator(torch.Tensor, name, numpy.ndarray, handler)
        return

    @functools.wraps(original)
    def method(self, other, *args, **kwargs):
        if isinstance(other, numpy.ndarray) and not args and is_remote(self):
            return handler(self, other)
        return original(self, other, *args, **kwargs)

    setattr(torch.Tensor, name, method)


def install() -> None:
    """Adds the protocols and the operators to torch.Tensor, once."""
    if "__array_ufunc__" in torch.Tensor.__dict__:
        return
    for function in (__array_ufunc__, __array_function__, __array_namespace__):
        setattr(torch.Tensor, function.__name__, _OfRemote(function))
    for name, ufunc in _UFUNCS.items():
        _guard(f"__{name}__", _operator(ufunc, is_reflected=False))
        if name not in _COMPARISONS:
            _guard(f"__r{name}__", _operator(ufunc, is_reflected=True))
