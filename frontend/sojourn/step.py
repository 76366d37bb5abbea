# SPDX-License-Identifier: Apache-2.0
"""Steps: the ops recorded between entry and exit travel in one round trip. CPU tensors are not affected."""

from __future__ import annotations

import contextlib
import functools
import inspect
from typing import TYPE_CHECKING, Any

from torch.compiler import is_compiling
from torch.optim.optimizer import register_optimizer_step_pre_hook

import _sojourn

from . import connections, current
from .checks import flag
from .errors import Error
from .gradients import drop_lost_gradients
from .publish import forget_lines, naming_lines
from .replay import Replay


def _before_optimizer_step(optimizer, args, kwargs):
    # torch.compile folds the first condition, and then sees none of ours.
    if not is_compiling() and _sojourn.step_active() and id(optimizer) not in current.step.snapshots:
        current.step.snapshots[id(optimizer)] = _sojourn.OptimizerSnapshot(optimizer)


register_optimizer_step_pre_hook(_before_optimizer_step)


_DEFERRED = (
    (inspect.isasyncgenfunction, "an async generator"),
    (inspect.iscoroutinefunction, "async"),
    (inspect.isgeneratorfunction, "a generator"),
)


def _note_slots(error: BaseException | None) -> None:
    """Adds a hint about the slots of a private batch to errors of torch's Python checks, as in binary_cross_entropy."""
    if isinstance(error, (ValueError, RuntimeError)) and not isinstance(error, Error):
        with contextlib.suppress(Exception):  # the error itself matters more
            if hint := _sojourn.slots_hint(str(error)):
                error.add_note(hint)


class step:
    """Decorator or context manager: one round trip for everything recorded inside.

    ::

        @sojourn.step
        def train(x, y): ...

        with sojourn.step():
            ...

    A step belongs to its thread. Unsent ops that the thread recorded before join it, a nested step joins
    the outer one, and other threads run separate steps. The call returns when the owner's reply has
    arrived. With several owners, each gets its message before any reply is awaited; if one fails, the
    error says which committed. On CPU tensors a step does nothing.

    If Python raises inside, the recorded ops are dropped without a round trip: mutated tensors and the
    state of optimizers stepped inside return to their committed values, and tensors made inside raise
    when used. Gradients that the step made become None. Two effects remain: versions count
    its writes, and a tensor that got a graph by a write in place keeps that graph (`detach_()` ends it).

    `@sojourn.step(replay=True)`: **after two equal calls the function no longer runs.** Its recorded ops are sent
    again, with the call's own tensors and numbers, new seeds, and the rates in `param_groups`; step counts advance.
    Other work of the function in Python (prints, appends, counts) happens only in traced calls. A call with different
    tensors, other arguments, modules' modes, hooks or options is traced; `sojourn.explain()` says why. Later changes of
    globals and closures are ignored, except in modules, and except changes in place of CPU tensors that the function
    uploads (torch does not count those made through `.data` or NumPy's view of the memory). Returned tensors carry no autograd graph.

    Float arguments, and integer arguments that differ between calls, may be numbers of ops: `x * i`, or
    `x * (base * 0.9**i)`. An integer that does more (a branch, an index, a size, text) is traced anew for each value,
    and a warning names it with the line. While a call is traced, such an argument is an object that behaves
    like the integer in Python; for C code that needs an `int`, the function runs once more.

    Some functions cannot be replayed and are traced at each call, after a warning: those that compute with CPU tensors,
    draw from another generator, publish at a price, or step an unknown optimizer. Raises `Unsupported`, with the line,
    for a changing number that follows from no argument, rate or step count of a stock optimizer.
    """

    _replay: bool
    _trip: Any
    _outermost: bool

    def __new__(cls, function=None, *, replay: bool = False, _trip=None):
        self = super().__new__(cls)
        self._replay, self._trip = flag("replay", replay), _trip
        if function is None:
            return self
        if not callable(function):
            raise TypeError(f"sojourn.step takes a function, got {type(function).__name__}")
        for is_kind, kind in _DEFERRED:
            if is_kind(function):
                raise TypeError(
                    f"sojourn.step takes a function that runs when it is called; {getattr(function, '__name__', function)} "
                    f"is {kind}, whose body runs later: put `with sojourn.step():` around the part that is one step"
                )

        if replay:
            return Replay(function, step)

        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            with step():
                return function(*args, **kwargs)

        wrapper._sojourn_step_of = function  # type: ignore[attr-defined]  # a mark of ours
        return wrapper

    if TYPE_CHECKING:
        # Of a function `__new__` makes a function, for which type checkers take an instance.
        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    else:

        def __call__(self, function):
            return step(function, replay=self._replay)

    def __enter__(self):
        if self._replay:
            raise Error("replay=True is for functions: @sojourn.step(replay=True); a block has no calls to repeat")
        # The engine's threads are off until its end: backward runs where it is called.
        self._outermost = _sojourn.step_begin()
        return self

    def __exit__(self, kind, value, traceback):
        if not self._outermost:
            _sojourn.step_end() if kind is None else _sojourn.step_abort()
            return False
        try:
            if kind is None:
                try:
                    with naming_lines():
                        _sojourn.step_end(self._trip)
                except BaseException:
                    self._restore()
                    raise
                connections.tell()
            else:
                try:
                    _note_slots(value)
                finally:
                    _sojourn.step_abort()
                    self._restore()
                    forget_lines()
        finally:
            current.step.snapshots.clear()
        return False

    def _restore(self):
        for snapshot in current.step.snapshots.values():
            snapshot.restore()
        drop_lost_gradients()


def unwrapped(function):
    """The function that `step` wrapped, or `function` itself."""
    return getattr(function, "_sojourn_step_of", function)


def flush() -> None:
    """Ends the thread's implicit step: sends its recorded ops, one round trip per owner.

    If an op cannot be compiled, `flush` raises and loses that op and its dependents; the next flush sends
    the rest. Inside a step it does nothing: the end of the step sends.
    """
    if _sojourn.step_active():
        return
    with naming_lines():
        _sojourn.flush()
    connections.tell()
