# SPDX-License-Identifier: Apache-2.0
"""Universal functions. NumPy's own ufunc says which dtypes a call computes in; torch's operator records it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy
import torch

from . import _constants as constants
from . import _kernels as kernels
from ._array import ndarray, wrap
from ._casts import cast
from ._convert import _device_among, axes_of, axis_of, by_numpy, detached, is_remote, tensor
from ._dtypes import INTEGERS, NUMPY, dtype_of, torch_dtype

_NUMBERS = (bool, int, float, complex)


class _Plan:
    """How one combination of operand dtypes is computed."""

    __slots__ = ("casts", "limits", "result")

    def __init__(self, casts, limits, result):
        self.casts = casts  # per operand the dtype to convert to, or None; None: the recorder's rules give the result
        self.limits = limits  # of a Python integer that meets an array of integers, or None
        self.result = result


def _key(operand):
    return operand.dtype if isinstance(operand, torch.Tensor) else type(operand)


class ufunc:
    """A universal function as NumPy's of the same name: attributes, keyword arguments, methods and errors."""

    def __init__(self, host: numpy.ufunc, function: Callable[..., Any], truth: bool = False):
        """`function`: on torch tensors and numbers. `truth`: a comparison, which takes any integer."""
        self._host, self._function, self._truth = host, function, truth
        self._plans: dict[tuple, _Plan] = {}
        self.__name__ = self.__qualname__ = host.__name__
        self.__doc__ = host.__doc__
        self.nin, self.nout, self.nargs, self.identity = host.nin, host.nout, host.nargs, host.identity
        self.signature, self.ntypes, self.types = host.signature, host.ntypes, host.types

    def __repr__(self) -> str:
        return f"<ufunc '{self.__name__}'>"

    def __reduce__(self):
        return _by_name, (self.__name__,)

    def __call__(self, *args, **kwargs):
        if len(args) != self.nin or kwargs:
            return self._general(args, kwargs)
        operands = []
        remote = False
        for x in args:
            if type(x) is ndarray:
                remote = True
                operands.append(x._t)
            elif type(x) in _NUMBERS:
                operands.append(x)
            elif isinstance(x, torch.Tensor) and x.device.type == "owner":
                remote = True
                operands.append(detached(x))
            else:
                return self._general(args, kwargs)
        if not remote:
            return self._host(*args)
        plan = self._plans.get(tuple([x.dtype if isinstance(x, torch.Tensor) else type(x) for x in operands]))
        if plan is None or plan.casts is not None or plan.limits is not None:
            return self._wrapped(self._compute(operands))
        try:
            result = by_numpy(self._function, *operands)
        except RuntimeError as error:
            raise self._told(operands, error) from None
        return wrap(result) if self.nout == 1 else tuple(map(wrap, result))

    def _told(self, operands, error: RuntimeError) -> Exception:
        """Shapes that do not fit, in NumPy's words; any other error as it is."""
        shapes = [tuple(x.shape) for x in operands if isinstance(x, torch.Tensor)]
        try:
            if self.signature is None:
                numpy.broadcast_shapes(*shapes)
            elif max(map(math.prod, shapes)) < 1 << 16:
                self._host(*(numpy.zeros(shape) for shape in shapes))
        except ValueError as told:
            if self.signature is not None:
                return told
            listed = " ".join(str(shape).replace(" ", "") for shape in shapes)
            return ValueError(f"operands could not be broadcast together with shapes {listed} ")
        return ValueError(str(error)) if self.signature is not None else error

    # The general way.

    @staticmethod
    def _wrapped(result):
        return wrap(result) if isinstance(result, torch.Tensor) else tuple(map(wrap, result))

    def _types(self, operands, dtype=None, casting="same_kind"):
        # A bool is no weak number.
        given = tuple(
            NUMPY[x.dtype] if isinstance(x, torch.Tensor) else numpy.dtype(bool) if type(x) is bool else type(x)
            for x in operands
        )
        options: dict[str, Any] = {}
        if dtype is not None:
            options["signature"] = (None,) * self.nin + (dtype_of(dtype),) * self.nout
        return self._host.resolve_dtypes(given + (None,) * self.nout, casting=casting, **options)

    def _plan(self, operands) -> _Plan:
        key = tuple(map(_key, operands))
        plan = self._plans.get(key)
        if plan is None:
            types = self._types(operands)
            inputs, outputs = types[: self.nin], types[self.nin :]
            plan = _Plan([torch_dtype(each) for each in inputs], None, [torch_dtype(each) for each in outputs])
            arrays = [x for x in operands if isinstance(x, torch.Tensor)]
            if int in key and all(x.dtype in INTEGERS for x in arrays) and inputs[0].kind in "iu":
                plan.limits = numpy.iinfo(inputs[0])
            self._plans[key] = plan
        return plan

    def _compute(self, operands):
        """The result, or the tuple of results, as torch tensors."""
        key = tuple(map(_key, operands))
        is_new = key not in self._plans
        plan = self._plan(operands)
        if plan.limits is not None:
            operands = self._checked(operands, plan.limits)
        if is_new and self._lets_recorder_promote(plan, operands):
            # Where the recorder's rules give NumPy's dtype, the promotion pass makes the casts.
            try:
                result = by_numpy(self._function, *operands)
                if result.dtype == plan.result[0]:
                    plan.casts = None
                    return result
            except (RuntimeError, NotImplementedError):
                pass  # torch has no such loop; NumPy has converted operands
        try:
            return self._converting(operands, plan)
        except RuntimeError as error:
            raise self._told(operands, error) from None

    def _converting(self, operands, plan):
        if plan.casts is None:
            return by_numpy(self._function, *operands)
        device = next(x.device for x in operands if isinstance(x, torch.Tensor) and x.device.type == "owner")
        converted = [self._converted(x, to, device) for x, to in zip(operands, plan.casts)]
        result = by_numpy(self._function, *converted)
        if self.nout == 1:
            return result if result.dtype == plan.result[0] else result.to(plan.result[0])
        return tuple(x if x.dtype == to else x.to(to) for x, to in zip(result, plan.result))

    def _lets_recorder_promote(self, plan, operands) -> bool:
        # Of booleans torch computes other things than NumPy, which takes them for int8.
        is_bool = plan.casts[0] != torch.bool and any(
            isinstance(x, torch.Tensor) and x.dtype == torch.bool for x in operands
        )
        return self.nout == 1 and not is_bool and self._function not in kernels.TENSORS_ONLY

    def _converted(self, x, to, device):
        if isinstance(x, torch.Tensor):
            return cast(x, to)
        if self._function not in kernels.TENSORS_ONLY:
            return x
        # A float beyond the dtype's range is infinite.
        with numpy.errstate(over="ignore"):
            number = numpy.asarray(x).astype(NUMPY[to]).item() if type(x) is float else x
        return torch.full((), number, dtype=to, device=device)

    def _checked(self, operands, limits):
        outside = next((x for x in operands if type(x) is int and not limits.min <= x <= limits.max), None)
        if outside is None:
            return operands
        if not self._truth:
            raise OverflowError(f"Python integer {outside} out of bounds for {limits.dtype}")
        clamped = [max(-(2**63), min(2**63 - 1, x)) if type(x) is int else x.to(torch.int64) for x in operands]
        return clamped

    def _general(self, args, options):
        out = options.pop("out", None)
        if len(args) > self.nin:
            if out is not None:
                raise TypeError(f"{self.__name__}() got multiple values for argument 'out'")
            args, out = args[: self.nin], args[self.nin :]
        if len(args) < self.nin:
            raise TypeError(
                f"{self.__name__}() takes from {self.nin} to {self.nargs} positional arguments but {len(args)} were given"
            )
        out = out if out is None or isinstance(out, tuple) else (out,)
        where = options.pop("where", True)
        asked = [*args, *(out or ()), where]
        device = _device_among(asked)
        if device is None:
            more = {**({"out": out} if out else {}), **({} if where is True else {"where": where}), **options}
            return self._host(*args, **more)
        dtype, casting = options.pop("dtype", None), options.pop("casting", "same_kind")
        for name in ("order", "subok"):
            options.pop(name, None)
        core = {name: options.pop(name) for name in ("axis", "axes", "keepdims") if self.signature and name in options}
        if options:
            raise TypeError(f"{self.__name__}() got an unexpected keyword argument '{next(iter(options))}'")
        operands = [self._operand(x, device) for x in args]
        if all(not isinstance(x, torch.Tensor) or x.device.type == "cpu" for x in operands):
            operands = [tensor(x, device=device) for x in args]
        axes = self._core_axes(operands, **core) if core else None
        if axes is not None:
            operands = [_moved_last(x, places) for x, places in zip(operands, axes)]
        if casting not in ("same_kind", "unsafe"):
            self._types(operands, dtype, casting)  # raises where an operand may not be converted
        results = self._cast(operands, dtype, casting) if dtype is not None else self._compute(operands)
        results = (results,) if isinstance(results, torch.Tensor) else tuple(results)
        if axes is not None:
            single = results[0].unsqueeze(-1) if core.get("keepdims") else results[0]
            results = (single.movedim(tuple(range(-len(axes[-1]), 0)), axes[-1]) if axes[-1] else single,)
        if out is None and where is True:
            return self._wrapped(results[0] if self.nout == 1 else results)
        given = self._written(results, out or (None,) * self.nout, where, casting)
        return given[0] if self.nout == 1 else given

    def _core_axes(self, operands, axis=None, axes=None, keepdims=False) -> list[tuple[int, ...]]:
        """Of products: the dimensions of each operand, and of the result, that are multiplied or remain."""
        inputs, output = str(self.signature).split("->")
        counts = [part.count(",") + 1 for part in inputs.strip("()").split("),(")]
        sizes = [x.dim() if isinstance(x, torch.Tensor) else 0 for x in operands]
        counts = list(map(min, counts, sizes))
        is_sum = output == "()"
        if (axis is not None or keepdims) and not is_sum:
            raise TypeError(
                f"{self.__name__}: axis and keepdims are of vecdot only, whose result has no core dimensions"
            )
        if axis is not None and axes is not None:
            raise TypeError("cannot specify both 'axis' and 'axes'")
        if axes is None:
            axes = [-1 if axis is None else axis] * self.nin if is_sum else [tuple(range(-n, 0)) for n in counts]
        found = [(each,) if isinstance(each, int) else tuple(each) for each in axes]
        if len(found) == self.nin:
            found.append((found[0] if keepdims else ()) if is_sum else tuple(range(-output.count(",") - 1, 0)))
        if len(found) != self.nargs:
            raise ValueError("axes should be a list with an entry for all inputs and outputs")
        for size, places, count in zip(sizes, found, counts):
            if len(places) != count:
                raise ValueError(f"{self.__name__}: an operand has {count} core dimensions, and axes has {places}")
            axes_of(places, size)
        return found

    @staticmethod
    def _operand(x, device):
        if type(x) in _NUMBERS:
            return x
        if isinstance(x, numpy.generic):
            dtype_of(x.dtype)
            return torch.from_numpy(numpy.asarray(x))  # of no dimensions: an input of the step
        if type(x) is not numpy.ndarray:
            return tensor(x, device=device)
        sent = constants.find(x, device)
        if sent is None:
            sent = tensor(x, device=device)
            constants.keep(x, sent)
        return sent

    def _cast(self, operands, dtype, casting):
        types = self._types(operands, dtype, casting)
        device = next(x.device for x in operands if isinstance(x, torch.Tensor) and x.device.type == "owner")
        converted = [self._converted(x, torch_dtype(to), device) for x, to in zip(operands, types)]
        try:
            results = by_numpy(self._function, *converted)
        except RuntimeError as error:
            raise self._told(converted, error) from None
        results = (results,) if isinstance(results, torch.Tensor) else results
        return tuple(cast(x, torch_dtype(to)) for x, to in zip(results, types[self.nin :]))

    def _written(self, results, out, where, casting) -> tuple[ndarray, ...]:
        mask = None if where is True else tensor(where, device=results[0].device)
        if mask is not None and mask.dtype != torch.bool:
            raise TypeError(
                f"Cannot cast array data from {NUMPY[mask.dtype]!r} to dtype('bool') according to the rule 'safe'"
            )
        given = []
        for result, target in zip(results, out):
            if target is None:
                full = result if mask is None else result.expand(torch.broadcast_shapes(result.shape, mask.shape))
                given.append(wrap(full if mask is None else torch.where(mask, full, torch.zeros_like(full))))
                continue
            if not is_remote(target):
                raise TypeError("return arrays must be of ArrayType: out lives at the owner, make it with zeros_like")
            to = tensor(target)
            if not numpy.can_cast(NUMPY[result.dtype], NUMPY[to.dtype], casting):
                raise TypeError(
                    f"Cannot cast ufunc '{self.__name__}' output from {NUMPY[result.dtype]!r} to {NUMPY[to.dtype]!r} "
                    f"with casting rule {casting!r}"
                )
            if torch.broadcast_shapes(result.shape, to.shape) != to.shape:
                raise ValueError(
                    f"non-broadcastable output operand with shape {tuple(to.shape)} doesn't match the broadcast shape "
                    f"{tuple(torch.broadcast_shapes(result.shape, to.shape))}"
                )
            value = cast(result, to.dtype)
            to.copy_(value if mask is None else torch.where(mask, value, to))
            given.append(target)
        return tuple(given)

    # Methods of functions of two operands.

    def _binary(self, method: str) -> None:
        if self.nin != 2 or self.nout != 1:
            raise ValueError(f"{method} only supported for binary functions that return a single value")

    def reduce(self, array, axis=0, dtype=None, out=None, keepdims=False, initial=numpy._NoValue, where=True):
        self._binary("reduce")
        options = {"axis": axis, "dtype": dtype, "out": out, "keepdims": keepdims, "where": where}
        if initial is not numpy._NoValue:
            options["initial"] = initial
        if not is_remote(array):
            return self._host.reduce(array, **options)
        from . import _reductions as reductions

        known = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all",
                 "logical_or": "any"}.get(self.__name__)  # fmt: skip
        if known is not None:
            if known in ("all", "any"):
                options.pop("dtype")
                options.pop("initial", None)
            elif known in ("max", "min"):
                options.pop("dtype")
            return getattr(reductions, known)(array, **options)
        found = tensor(array)
        axes = axes_of(axis, found.dim())
        if where is not True:
            raise NotImplementedError(f"{self.__name__}.reduce: where= is not supported; multiply or select before")
        flat = (
            torch.movedim(found, axes, tuple(range(len(axes)))).flatten(0, len(axes) - 1)
            if axes
            else found.unsqueeze(0)
        )
        parts = [wrap(part) for part in flat.unbind()]
        if initial is not numpy._NoValue and initial is not None:
            parts.insert(0, initial)
        elif not parts:
            if self.identity is None:
                raise ValueError(f"zero-size array to reduction operation {self.__name__} which has no identity")
            parts = [wrap(torch.full(flat.shape[1:], self.identity, dtype=flat.dtype, device=flat.device))]
        result = functools.reduce(self, parts)
        made = result if dtype is None else result.astype(dtype)
        if keepdims:
            made = wrap(made._t.reshape([1 if k in axes else n for k, n in enumerate(found.shape)]))
        return made if out is None else _stored(made, out)

    def accumulate(self, array, axis=0, dtype=None, out=None):
        self._binary("accumulate")
        if not is_remote(array):
            return self._host.accumulate(array, axis, dtype, out)
        from . import _reductions as reductions

        found = tensor(array)
        axis = axis_of(axis, found.dim())
        if self.__name__ in ("add", "multiply"):
            function = reductions.cumsum if self.__name__ == "add" else reductions.cumprod
            return function(array, axis, dtype, out)
        if self.__name__ in ("maximum", "minimum"):
            kernel = torch.cummax if self.__name__ == "maximum" else torch.cummin
            made = wrap(kernel(found if dtype is None else found.to(torch_dtype(dtype)), axis).values)
            return made if out is None else _stored(made, out)
        parts = [wrap(part) for part in found.unbind(axis)]
        for k in range(1, len(parts)):
            parts[k] = self(parts[k - 1], parts[k])
        made = wrap(torch.stack([tensor(part, parts[-1]._t.dtype) for part in parts], axis)) if parts else wrap(found)
        made = made if dtype is None else made.astype(dtype)
        return made if out is None else _stored(made, out)

    def outer(self, a, b, /, **kwargs):
        self._binary("outer")
        if not is_remote(a) and not is_remote(b):
            return self._host.outer(a, b, **kwargs)
        device = _device_among([a, b])
        left, right = tensor(a, device=device), tensor(b, device=device)
        return self(wrap(left.reshape(tuple(left.shape) + (1,) * right.dim())), wrap(right), **kwargs)

    def reduceat(self, array, indices, axis=0, dtype=None, out=None):
        self._binary("reduceat")
        if not is_remote(array):
            return self._host.reduceat(array, indices, axis, dtype, out)
        found = tensor(array)
        axis = axis_of(axis, found.dim())
        begins = numpy.asarray(indices).tolist()
        ends = [*begins[1:], found.shape[axis]]
        parts = []
        for begin, end in zip(begins, ends):
            if not 0 <= begin < found.shape[axis]:
                raise IndexError(f"index {begin} out-of-bounds in {self.__name__}.reduceat [0, {found.shape[axis]})")
            part = found.narrow(axis, begin, max(end - begin, 1))
            parts.append(self.reduce(wrap(part), axis=axis, dtype=dtype)._t)
        made = wrap(torch.stack(parts, axis))
        return made if out is None else _stored(made, out)

    def at(self, a, indices, b=None, /) -> None:
        """Unbuffered `a[indices] = function(a[indices], b)`; of add and subtract, and of one operand."""
        if not is_remote(a):
            return self._host.at(a, indices, b) if self.nin == 2 else self._host.at(a, indices)
        target = a if type(a) is ndarray else wrap(tensor(a))
        if self.nin == 1:
            target[indices] = self(target[indices])
            return None
        from ._indexing import accumulate

        if self.__name__ not in ("add", "subtract"):
            raise NotImplementedError(
                f"{self.__name__}.at is not supported on remote arrays: where an index repeats, its order matters; add.at "
                "and subtract.at are, and bincount"
            )
        value = tensor(b, target._t.dtype, target._t.device)
        accumulate(target, indices, wrap(-value if self.__name__ == "subtract" else value))
        return None

    def resolve_dtypes(self, dtypes, **kwargs):
        return self._host.resolve_dtypes(dtypes, **kwargs)


def _moved_last(x: torch.Tensor, axes: tuple[int, ...]) -> torch.Tensor:
    return x.movedim(axes, tuple(range(-len(axes), 0)))


def _stored(made: ndarray, out) -> ndarray:
    """Writes into an argument `out` of a method."""
    target = out[0] if isinstance(out, tuple) else out
    tensor(target).copy_(made._t)
    return target


def _by_name(name: str) -> ufunc:
    return ALL[name]


def _all() -> dict[str, ufunc]:
    made: dict[str, ufunc] = {}
    for name, function in kernels.TABLE.items():
        host = getattr(numpy, name)
        made[host.__name__] = ufunc(host, function, truth=host.__name__ in kernels.COMPARISONS)
    return {
        name: made[getattr(numpy, name).__name__]
        for name in dir(numpy)
        if isinstance(getattr(numpy, name), numpy.ufunc) and getattr(numpy, name).__name__ in made
    }


#: By all names that NumPy has for them.
ALL = _all()
