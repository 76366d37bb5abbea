# SPDX-License-Identifier: Apache-2.0
"""Number arguments of a traced call, followed through Python: numbers computed from them, and decisions by them.

A float argument is a `Looked`, a float that notes decisions by its value. An integer argument that differs between
calls is a `StandIn`, an object that is no integer to C code: **its value can be reached through its methods only**.
Arithmetic gives another one and notes the formula; an op takes the value as its number and notes that; any other use is
a look, after which calls are alike only if the integer is equal. When the call ends, each `StandIn` becomes the plain
number that it stood for, wherever the function has put it.
"""

from __future__ import annotations

import math
import operator
import sys
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

import _sojourn

from .connections import is_users

_LINES_MOST = 1000
_EXACT_MOST = 2**53  # whole numbers up to it are exact as floats


class _Source(NamedTuple):
    """The origin of a followed number: its name in the formulas, the integer and float arguments behind it."""

    name: str
    integers: frozenset[int]
    floats: frozenset[int]


class _StoodFor(NamedTuple):
    followed: Followed
    source: _Source
    value: int | float


_stood_for: dict[int, _StoodFor] = {}  # by id of the stand-in


class Computed:
    """Numbers that ops of a call take, as a function of its integers and floats: the formulas of a traced call."""

    def __init__(self, lines: list[str], taken: list[tuple], integers: int, floats: int):
        self._key = tuple(lines), tuple(taken), integers, floats
        names = [", ".join(f"{kind}{k}" for k in range(count)) for kind, count in (("i", integers), ("f", floats))]
        given = [f"({known},) = {kind}" for known, kind in zip(names, ("integers", "floats")) if known]
        text = "\n    ".join(["def compute(integers, floats):", *given, *lines])
        namespace: dict[str, Any] = {}
        exec(f"{text}\n    return ({''.join(f'{name}, ' for name, *_ in taken)})", namespace)  # our names and numbers
        self._compute, self._taken = namespace["compute"], taken

    def __eq__(self, other):
        return isinstance(other, Computed) and self._key == other._key

    def __call__(self, integers: list[int], floats: list[float]) -> list[float] | None:
        """The numbers as floats; None if a formula fails, or if an op cannot take its result as in the traced call."""
        try:
            values = self._compute(integers, floats)
        except (ArithmeticError, TypeError, ValueError):
            return None
        for value, (_, kind, form) in zip(values, self._taken):
            if type(value) is not kind or not _is_exact(value) or (form is not None and form != _form(value)):
                return None
        return [float(value) for value in values]


def _is_exact(value: int | float) -> bool:
    return abs(value) <= _EXACT_MOST if type(value) is int else value == value


def _form(value: int | float) -> tuple[bool, ...]:
    """The properties of a coefficient by which torch decides."""
    return value == 0, value == 1, value < 0, math.isfinite(value)


class Followed:
    """The followed numbers of one traced call."""

    def __init__(self):
        self.looked: set[int] = set()  # float arguments by whose value Python decided something
        self.looks: dict[int, str] = {}  # by integer argument: what depends on its value, and where
        self.is_over = False
        self._lines: list[str] = []
        self._taken: list[tuple] = []
        self._stand_ins: list[Any] = []
        self._integers = self._floats = 0

    def integer(self, value: int, leaf: int) -> Any:
        """A stand-in for an integer argument."""
        self._integers += 1
        return self._stand_in(value, _Source(f"i{self._integers - 1}", frozenset([leaf]), frozenset()))

    def number(self, value: float) -> Looked:
        """A float argument."""
        self._floats += 1
        at = self._floats - 1
        return Looked(value, self, _Source(f"f{at}", frozenset(), frozenset([at])))

    def computed(self) -> Computed | None:
        """The numbers that ops take of integers and formulas, None if there are none."""
        if not (self._lines or self._taken):
            return None
        return Computed(self._lines, self._taken, self._integers, self._floats)

    def numbers(self, integers: list[int], floats: list[float]) -> list[float]:
        """The numbers that ops of this call have taken."""
        computed = self.computed()
        return [] if computed is None else computed(integers, floats) or []

    def end(self) -> None:
        """Makes plain numbers of all stand-ins."""
        self.is_over = True
        for stand_in in self._stand_ins:
            _stand_ins.end(stand_in, _stood_for.pop(id(stand_in)).value)
        self._stand_ins.clear()

    def look(self, source: _Source, what: str) -> None:
        """Notes that something depends on the value."""
        self.looked |= source.floats
        for leaf in source.integers - self.looks.keys():
            self.looks[leaf] = f"{what} ({_line()})"

    def take(self, source: _Source, value: int | float, form: tuple | None) -> None:
        if not _is_exact(value):
            self.look(source, "it is too large a number")
        elif (taken := (source.name, type(value), form)) not in self._taken:
            self._taken.append(taken)

    def derive(self, text: str, value, *sources: _Source):
        """The result of a formula."""
        source = _Source(
            f"v{len(self._lines)}",
            frozenset().union(*(each.integers for each in sources)),
            frozenset().union(*(each.floats for each in sources)),
        )
        if self.is_over:
            return value
        if type(value) not in (int, float) or len(self._lines) >= _LINES_MOST:
            self.look(source, "a number computed from it is not followed")
            return value
        self._lines.append(f"{source.name} = {text}")
        if source.integers:
            return self._stand_in(value, source)
        self.take(source, value, None)  # ops do not tell that they take a float
        return Looked(value, self, source)

    def _stand_in(self, value: int | float, source: _Source):
        stand_in = _stand_ins.make(value)
        self._stand_ins.append(stand_in)
        _stood_for[id(stand_in)] = _StoodFor(self, source, value)
        return stand_in


def _line() -> str:
    frame = sys._getframe(2)
    while frame.f_back is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


class Looked(float):
    """A float argument in a traced call, or a number computed from it; notes decisions by its value."""

    _followed: Followed
    _source: _Source

    def __new__(cls, value, followed: Followed, source: _Source):
        self = super().__new__(cls, value)
        self._followed, self._source = followed, source
        return self


class _Members:
    """Of the type `StandIn`."""

    __array_ufunc__ = None  # NumPy's scalars leave arithmetic to it

    @property  # type: ignore[misc]  # for isinstance
    def __class__(self):
        return type(_stood_for[id(self)].value)

    def __getattr__(self, name):
        value = _stood_for[id(self)].value
        if hasattr(value, name):
            value = _value(self, f"its attribute '{name}' is read")
        return getattr(value, name)

    def __array__(self, dtype=None, copy=None):
        import numpy

        return numpy.array(_value(self, "NumPy takes it"), dtype)

    def __reduce_ex__(self, protocol):
        return type(value := _value(self, "it is copied")), (value,)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    @staticmethod
    def __torch_function__(function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if _takes_numbers(function, args, kwargs):
            args = args[0], _taken(args[1])
            if "alpha" in kwargs and args[0].is_floating_point():
                kwargs = {"alpha": _taken(kwargs["alpha"], is_coefficient=True)}
        what = f"{getattr(function, '__name__', 'an op')} takes it as something else than a factor or a summand"
        args, kwargs = pytree.tree_map(lambda leaf: _value(leaf, what), (args, kwargs))
        return function(*args, **kwargs)


def _value(leaf, what: str):
    """The value of a stand-in after a look; anything else as it is."""
    if type(leaf) is not StandIn:
        return leaf
    known = _stood_for[id(leaf)]
    known.followed.look(known.source, what)
    return known.value


def _taken(leaf, is_coefficient: bool = False):
    """The value of a stand-in that an op takes as its number; anything else as it is."""
    if type(leaf) is not StandIn:
        return leaf
    known = _stood_for[id(leaf)]
    known.followed.take(known.source, known.value, _form(known.value) if is_coefficient else None)
    return known.value


# Ops whose kernels, gradients and recording take the number as it is, and decide nothing by it.
_TAKERS = {
    getattr(owner, name)
    for owner in (torch, torch.Tensor)
    for base in ("add", "sub", "subtract", "mul", "multiply", "div", "divide", "true_divide", "rsub")
    for name in (base, base + "_", f"__{base}__", f"__r{base}__", f"__i{base}__")
    if hasattr(owner, name)
} | {torch.Tensor.__truediv__, torch.Tensor.__rtruediv__, torch.Tensor.__itruediv__}


def _takes_numbers(function, args, kwargs) -> bool:
    """Whether a function takes its second argument as a number of the op, and `alpha` as a coefficient."""
    return (
        len(args) == 2
        and isinstance(args[0], torch.Tensor)
        and args[0].device.type == "owner"
        and not args[0].is_complex()
        and kwargs.keys() <= {"alpha"}
        and function in _TAKERS
    )


def plain(number, what: str = "it is combined with an object that is no number of Python's"):
    """The value of a followed number, after a look; anything else as it is."""
    if type(number) is Looked:
        number._followed.look(number._source, what)
        return float.__pos__(number)
    return _value(number, what)


def _operand(other, followed: Followed) -> tuple[str, Any, tuple[_Source, ...]] | None:
    """How a formula names a number, its value and its source; None for anything else than Python's own numbers."""
    if type(other) is StandIn and _stood_for[id(other)].followed is followed:
        known = _stood_for[id(other)]
        return known.source.name, known.value, (known.source,)
    if type(other) is Looked and other._followed is followed:
        return other._source.name, float.__pos__(other), (other._source,)
    other = plain(other)  # of another call
    if type(other) in (int, bool, float):
        return (f"({other!r})" if math.isfinite(other) else f"float('{other!r}')"), other, ()
    return None


def _binary(name: str, symbol: str, is_reflected: bool):
    operation = getattr(operator, name)

    def method(self, other, *more):
        if isinstance(other, torch.Tensor) and type(other) is not StandIn:
            return NotImplemented  # it asks for the number
        followed = _followed_by(self)
        mine, theirs = _operand(self, followed), _operand(other, followed)
        if more or mine is None or theirs is None:
            value = plain(self)
            return (
                operation(other, value)
                if is_reflected
                else pow(value, other, *more)
                if more
                else operation(value, other)
            )
        left, right = (theirs, mine) if is_reflected else (mine, theirs)
        sources = left[2] + right[2]
        try:
            value = operation(left[1], right[1])
        except ArithmeticError:
            for source in sources:
                followed.look(source, "a computation fails for some of its values")
            raise
        return followed.derive(f"{left[0]} {symbol} {right[0]}", value, *sources)

    return method


def _followed_by(number) -> Followed:
    return number._followed if type(number) is Looked else _stood_for[id(number)].followed


def _unary(name: str, symbol: str):
    operation = getattr(operator, name)

    def method(self):
        followed = _followed_by(self)
        text, value, sources = _operand(self, followed)  # type: ignore[misc]  # a followed number has a name
        return followed.derive(f"{symbol}({text})", operation(value), *sources)

    return method


for _name, _symbol in (("add", "+"), ("sub", "-"), ("mul", "*"), ("truediv", "/"), ("floordiv", "//"), ("mod", "%"),
                       ("pow", "**")):  # fmt: skip
    for _kind in (Looked, _Members):
        setattr(_kind, f"__{_name}__", _binary(_name, _symbol, is_reflected=False))
        setattr(_kind, f"__r{_name}__", _binary(_name, _symbol, is_reflected=True))
for _name, _symbol in (("neg", "-"), ("pos", "+"), ("abs", "abs")):
    for _kind in (Looked, _Members):
        setattr(_kind, f"__{_name}__", _unary(_name, _symbol))


def _looking(what: str, operation, is_reflected: bool = False):
    def method(self, *others):
        value, given = plain(self, what), [plain(other, what) for other in others]
        return operation(*given, value) if is_reflected else operation(value, *given)

    return method


_LOOKS = {
    "it is compared": {f"__{name}__": getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "it is tested": {"__bool__": bool},
    "it is a key": {"__hash__": hash},
    "it is shown": {"__format__": format, "__str__": str, "__repr__": repr},
    "it is an index, a size or the end of a range": {"__index__": operator.index},
    "it is converted or rounded": {"__int__": int, "__float__": float, "__complex__": complex, "__trunc__": math.trunc,
                                   "__floor__": math.floor, "__ceil__": math.ceil, "__round__": round},
    "its digits are used": {"__divmod__": divmod, "__and__": operator.and_, "__or__": operator.or_,
                            "__xor__": operator.xor, "__lshift__": operator.lshift, "__rshift__": operator.rshift,
                            "__invert__": operator.invert},
}  # fmt: skip
for _what, _operations in _LOOKS.items():
    for _name, _operation in _operations.items():
        for _kind in (Looked, _Members) if hasattr(float, _name) else (_Members,):
            setattr(_kind, _name, _looking(_what, _operation))
            if _what == "its digits are used" and _name != "__invert__":
                setattr(_kind, f"__r{_name[2:]}", _looking(_what, _operation, is_reflected=True))
Looked.is_integer = _looking("it is converted or rounded", float.is_integer)  # type: ignore[method-assign]

_IGNORED = {"__module__", "__dict__", "__weakref__", "__doc__"}
_stand_ins = _sojourn.StandIns({name: member for name, member in vars(_Members).items() if name not in _IGNORED})
StandIn = _stand_ins.type
"""Type of objects that stand for an integer argument of a traced call, or for a number computed from one."""
