# SPDX-License-Identifier: Apache-2.0
"""Replay: sends a step's recorded ops again, with the call's own tensors, numbers and seeds, without its function.

A call is *traced* (the function runs) until two traces of alike calls are equal; then it is *replayed*. Alike calls
have arguments of the same structure, shapes and dtypes, the same modules in the same modes, the same parameters in
their places and the same optimizers. Each number that an op takes needs a known source: it is always the same, or it is
a float argument, a hyper-parameter in an optimizer's `param_groups`, or a value that a stock optimizer computes from
those and its step count.
"""

from __future__ import annotations

import collections
import functools
import math
import threading
import warnings
import weakref
from typing import Any

import torch
from torch.overrides import _get_current_function_mode_stack
from torch.utils import _pytree as pytree
from torch.utils._device import DeviceContext

import _sojourn

from . import connections, programs
from .errors import Unsupported
from .gradients import drop_lost_gradients
from .published import Published
from .rates import Looked, Numbers, changed_on_host, host_state, rates_of
from .table import _COLUMNS
from .uses import HostOps, Uses, before_module, reached_from, tracing, unfit

_KINDS_MOST, _PLANS_MOST = 16, 8  # per function and thread, per kind of call; those not used for longest go
_REASONS_MOST = 32
_ONE = pytree.tree_flatten(0)[1]
_replays: weakref.WeakSet[Replay] = weakref.WeakSet()


class _Plan:
    """Alike calls: the last traced call, and the data to replay it."""

    def __init__(self, uses: Uses):
        self.uses = Uses(uses)
        self.structure = uses.structure()
        self.watched = _sojourn.Watched(uses.parameters(), uses.state())
        self.places = self.watched.places()
        self.call: Any = None  # captured
        self.numbers: Numbers | None = None
        self.base: list[float] = []
        self.varied: set[int] = set()
        self.looked: set[int] = set()  # float arguments by whose value Python decided something
        self.outputs: tuple = ()
        self.counters: list[torch.Tensor] = []
        self.is_armed = False
        self.is_single = False  # returns one tensor that it computed
        self.ready: Any = None  # the next call, where it needs no look from here

    def matches(self) -> bool:
        return self.structure == self.uses.structure() and self.watched.is_at(self.places)

    def arm(self, is_armed: bool) -> None:
        self.is_armed, self.ready = is_armed, None
        self.is_single = is_armed and self.outputs[0] == [("computed",)] and self.outputs[1] == _ONE

    def make_ready(self, args: tuple) -> None:
        """Prepares for calls that follow a replayed call with these arguments."""
        if self.ready is None and _sojourn.ReadyCall.can_take(args):
            may_vary = [at in self.varied and at not in self.looked for at in range(len(self.base))]
            assert self.numbers is not None  # of every plan that was armed
            self.ready = _sojourn.ReadyCall(
                self.call, self.watched, self.places, self.structure, *self.uses.references(), self.numbers.sources,
                self.base, may_vary, self.counters, args,
            )  # fmt: skip

    def results(self, made, leaves):
        """The return value of a replayed call."""
        if self.is_single:
            return made.outputs[0]
        kinds, spec = self.outputs
        outputs, results = iter(made.outputs), []
        for kind in kinds:
            if kind[0] == "computed":
                results.append(next(outputs))
            elif kind[0] == "argument":
                results.append(leaves[kind[1]])
            elif kind[0] == "published":
                results.append(Published(made.published[kind[1]]))
            else:
                results.append(kind[1])
        return pytree.tree_unflatten(results, spec)


class _Kind:
    """Calls with arguments of one structure: the objects they use, and a plan for each state of those."""

    def __init__(self):
        self.uses = Uses()
        self.plans: list[_Plan] = []


class Loop:
    """The calls of a loop since the last time all calls had committed."""

    def __init__(self, trip, send):
        """`send`: sends the held calls, which then have committed."""
        self.trip, self.send = trip, send
        self.calls = _sojourn.LoopedCalls(trip)
        self._expected: list[tuple[_Plan, tuple | list]] = []

    def expect(self, plan: _Plan, leaves) -> None:
        """Notes the plan and the arguments of a call before its replay, so that every replayed call has them."""
        del self._expected[len(self.calls) :]
        self._expected.append((plan, leaves))

    def result(self, at: int):
        plan, leaves = self._expected[at]
        return plan.results(self.calls.made(at), leaves)

    def clear(self) -> None:
        self._expected.clear()
        self.calls.clear()


class _Local(threading.local):
    """State of the calling thread: its kinds of calls, and its last replayed call."""

    def __init__(self):
        self.kinds: collections.OrderedDict[tuple, _Kind] = collections.OrderedDict()
        self.plan: _Plan | None = None  # of the call before, where that says what the next one takes
        self.last = None  # of a loop
        self.values: list[float] = []


class Replay:
    """A step's function and the state of its calls. Made by `sojourn.step(replay=True)`."""

    def __init__(self, function, step):
        functools.update_wrapper(self, function)
        self._function, self._step = function, step
        self._local = _Local()
        self.traced = self.replayed = 0
        self.reasons: collections.deque[str] = collections.deque(maxlen=_REASONS_MOST)
        self._warned: set[str] = set()
        _replays.add(self)

    def is_of(self, function) -> bool:
        return self._function is function

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args, **kwargs):
        plan = self._local.plan
        if plan is not None and not kwargs:
            try:
                made = plan.ready.repeat(args)
            except BaseException:
                drop_lost_gradients()
                raise
            if made is not None:
                self.replayed += 1
                connections.tell()
                return plan.results(made, args)
        if _sojourn.step_active():
            return self._function(*args, **kwargs)  # joins the outer step
        return self._call(args, kwargs, None)

    def within(self, loop: Loop, args, is_quiet: bool):
        """A call of a loop. If it is replayed, its step waits for the trip's message, and the loop keeps its result.

        `is_quiet`: since the previous call, only the loop's code has run.
        """
        last = self._local.last if is_quiet else None
        if last is not None and all(type(leaf) is torch.Tensor for leaf in args):
            plan, quiet, columns = last
            if columns == [getattr(leaf, _COLUMNS, None) for leaf in args]:
                loop.expect(plan, args)
                if quiet.repeat(list(args), loop.calls) is not None:
                    self.replayed += 1
                    return None
        return self._call(args, {}, loop)

    def _call(self, args, kwargs, loop: Loop | None):
        self._local.last = self._local.plan = None
        leaves, spec = _flatten(args, kwargs)
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        floats = [float(leaf) for leaf in leaves if isinstance(leaf, float)]
        kind = self._kind(_key(leaves, spec))
        plan = next((plan for plan in kind.plans if plan.matches()), None)
        if plan is not None and plan.is_armed:
            entry = _sojourn.CallEntry(tensors, plan.watched)
            reason = self._cannot(plan, entry, floats)
            if not reason:
                result = self._replay(plan, entry, leaves, loop)
                if loop is None and not kwargs:
                    plan.make_ready(args)
                    self._local.plan = plan if plan.ready is not None else None
                return result
        else:
            reason = "no earlier call is alike" if plan is None else "only one alike call was traced so far"
        if loop is not None:
            loop.send()
        return self._trace(kind, plan, reason, leaves, spec, tensors, floats, loop)

    def _kind(self, key: tuple) -> _Kind:
        kinds = self._local.kinds
        kind = kinds.setdefault(key, _Kind())
        kinds.move_to_end(key)
        while len(kinds) > _KINDS_MOST:
            kinds.popitem(last=False)
        return kind

    def _cannot(self, plan: _Plan, entry, floats: list[float]) -> str:
        """The reason to trace a call, or an empty text."""
        assert plan.numbers is not None  # of every plan that was armed
        base, values = self._local.base, self._local.values = plan.numbers.read(floats)
        for position, (now, then) in enumerate(zip(base, plan.base, strict=True)):
            if now != then and (position not in plan.varied or position in plan.looked):
                why = ", and Python decides by it" if position in plan.looked else " for the first time"
                return f"a number changed from {then} to {now}{why}"
        if any(map(math.isnan, values)):
            return "an optimizer's counts of steps differ"
        if not plan.call.fits(entry):
            return "a tensor or its layout changed for the first time"
        if not plan.call.determines(values):
            return "a number has several possible sources, which now differ"
        return ""

    def _replay(self, plan: _Plan, entry, leaves, loop: Loop | None):
        self.replayed += 1
        if loop is not None:
            assert plan.numbers is not None  # of every plan that was armed
            loop.expect(plan, leaves)
            loop.calls.add(plan.call, entry, self._local.values, plan.counters)
            if all(type(leaf) is torch.Tensor and not leaf.requires_grad for leaf in leaves):
                quiet = _sojourn.QuietCall(plan.call, plan.watched, plan.numbers.sources, leaves, plan.counters)
                self._local.last = plan, quiet, [getattr(leaf, _COLUMNS, None) for leaf in leaves]
            return None
        _sojourn.step_begin()
        try:
            made = plan.call.repeat(entry, self._local.values)
        except BaseException:
            _sojourn.step_abort()
            raise
        try:
            _sojourn.step_end()
        except BaseException:
            drop_lost_gradients()
            raise
        connections.tell()
        made.settle()
        _sojourn.advance(plan.counters, 1.0)
        return plan.results(made, leaves)

    def _trace(self, kind: _Kind, plan, reason, leaves, spec, tensors, floats, loop):
        kind.uses.prune()
        for value in (*leaves, *reached_from(self._function)):
            if isinstance(value, torch.nn.Module):
                kind.uses.add_module(value)
        if plan is None or plan.uses != kind.uses:
            plan = _Plan(kind.uses)
        uses = Uses(kind.uses)
        optimizers = uses.optimizers
        rates, before = [rates_of(o) for o in optimizers], [host_state(o) for o in optimizers]
        entry = _sojourn.CallEntry(tensors, plan.watched)
        entry.watch_generator()
        looked: set[int] = set()
        args, kwargs, given = _followed(leaves, spec, looked)
        host = HostOps()
        with self._step() if loop is None else self._step(_trip=loop.trip):
            with host:
                result = self._run(uses, host, args, kwargs)
            result = _detached(result, given)
            found, tree = pytree.tree_flatten(result)
            kinds, computed, published = _kinds(found, given)
            call = _sojourn.CapturedCall(entry, computed, published)
            changed, advanced = changed_on_host(optimizers, rates, before)
            obstacle = call.obstacle or host.found or changed or unfit(leaves, uses)
            # Without a word for any owner nothing was a step.
            reason += (
                "; it records nothing"
                if call.empty
                else self._compare(plan, call, obstacle, uses, (kinds, tree), floats, advanced, looked)
            )
        self.traced += 1
        self.reasons.append(f"call {self.traced + self.replayed}: {reason}")
        uses.prune()
        if plan.uses == uses and plan not in kind.plans:
            kind.plans.append(plan)
            del kind.plans[:-_PLANS_MOST]
        kind.uses = uses
        return pytree.tree_unflatten([leaves[k[1]] if k[0] == "argument" else f for k, f in zip(kinds, found)], tree)

    def _run(self, uses: Uses, host: HostOps, args, kwargs):
        outer = tracing.uses, tracing.host
        tracing.uses, tracing.host = uses, host
        hook = torch.nn.modules.module.register_module_forward_pre_hook(before_module)
        try:
            return self._function(*args, **kwargs)
        finally:
            hook.remove()
            tracing.uses, tracing.host = outer

    def _compare(self, plan: _Plan, call, obstacle: str, uses: Uses, outputs, floats, advanced, looked) -> str:
        """Arms the plan if the call repeats the previous one. Raises for a number without a known source."""
        numbers = Numbers(uses.optimizers, floats, advanced)
        if any(map(math.isnan, numbers.values)):
            obstacle = obstacle or "an optimizer's counts of steps differ within a group"
        if obstacle:
            plan.call = None
            plan.arm(False)
            if plan.uses == uses:  # else a first call, which may make what later ones only use
                self._warn(obstacle)
            return f"; {obstacle}"
        before, difference = plan.call, ""
        if before is not None:
            difference = call.differs(before) or ("" if plan.outputs == outputs else "it returned another tree")
        repeats = before is not None and not difference and len(numbers.base) == len(plan.base)
        if why := call.explain(numbers.values, before if repeats else None):
            raise Unsupported(
                f"{self._name()} cannot be replayed: {why}: no argument, rate or counter explains it; pass it as a "
                "float argument of the function, or trace each call (without replay=True)"
            )
        if repeats:
            plan.varied.update(at for at, pair in enumerate(zip(numbers.base, plan.base)) if pair[0] != pair[1])
        plan.looked |= looked
        plan.call, plan.numbers, plan.base, plan.outputs = call, numbers, numbers.base, outputs
        plan.counters = advanced
        plan.arm(repeats)
        return f"; {difference}" if difference else ""

    def _warn(self, obstacle: str) -> None:
        """Warns once per reason and function."""
        if obstacle not in self._warned:
            self._warned.add(obstacle)
            warnings.warn(f"{self._name()} is traced, not replayed: {obstacle}", stacklevel=connections.callers_depth())

    def _name(self) -> str:
        code = getattr(self._function, "__code__", None)
        place = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
        return f"{getattr(self._function, '__qualname__', repr(self._function))}{place}"

    def explain(self) -> str:
        lines = [f"{self._name()}: {self.replayed} calls replayed, {self.traced} traced"]
        return "\n  traced ".join([*lines, *self.reasons])


def _key(leaves, spec) -> tuple:
    parts = [
        spec, torch.get_default_dtype(), _function_modes(), torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(), torch.is_autocast_enabled("owner") and torch.get_autocast_dtype("owner"),
    ]  # fmt: skip
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            parts += (leaf.device, leaf.dtype, leaf.shape, leaf.stride(), leaf.storage_offset(), leaf.requires_grad)
            parts += (leaf.is_conj(), leaf.is_neg())
            parts.append(leaf.requires_grad and leaf.is_leaf and (None if leaf.grad is None else leaf.grad.stride()))
            parts.append(getattr(leaf, _COLUMNS, None) and tuple(getattr(leaf, _COLUMNS)))
        elif isinstance(leaf, float):
            # Python often asks for these; what else it decides by a number is noticed.
            parts += (float, leaf == 0, leaf == 1, leaf < 0, math.isfinite(leaf))
        elif isinstance(leaf, (int, str, bytes, torch.dtype, torch.device, type(None))):
            parts += (type(leaf), leaf)
        else:
            parts.append(_Same(leaf))
    return tuple(parts)


def _function_modes() -> tuple:
    """The open modes of torch's functions; for `with torch.device(...)` the device."""
    modes = _get_current_function_mode_stack()
    return tuple(mode.device if isinstance(mode, DeviceContext) else _Same(mode) for mode in modes)


def _followed(leaves, spec, looked: set[int]):
    """Arguments for a traced call, with floats that note Python's decisions by them, and the leaves as passed."""
    given, at = [], 0
    for leaf in leaves:
        if isinstance(leaf, float):
            leaf, at = Looked(leaf, at, looked), at + 1
        given.append(leaf)
    if isinstance(spec, tuple):
        count, *names = spec
        return given[:count], dict(zip(names, given[count:])), given
    args, kwargs = pytree.tree_unflatten(given, spec)
    return args, kwargs, given


def _detached(result, given):
    """A replay has no graph to return, so a traced call returns none."""
    own = set(map(id, given))

    def detach(leaf):
        is_ours = isinstance(leaf, torch.Tensor) and leaf.device.type == "owner" and id(leaf) not in own
        return leaf.detach() if is_ours and leaf.requires_grad and not leaf.is_leaf else leaf

    return pytree.tree_map(detach, result)


_PLAIN = (torch.Tensor, float, int, str, bytes, type(None))


def _flatten(args: tuple, kwargs: dict):
    """Leaves of the arguments and their structure; flat arguments skip pytree, which costs more than a small replay."""
    if all(isinstance(value, _PLAIN) for value in (*args, *kwargs.values())):
        return [*args, *kwargs.values()], (len(args), *kwargs)
    return pytree.tree_flatten((args, kwargs))


class _Same:
    """An argument that is compared by identity."""

    def __init__(self, value):
        self._value = value

    def __eq__(self, other):
        return isinstance(other, _Same) and self._value is other._value

    def __hash__(self):
        return id(self._value)


def _kinds(found, leaves):
    """How each returned leaf is made again, the computed tensors and the published values."""
    kinds: list[tuple] = []
    computed: list[torch.Tensor] = []
    published: list = []
    for leaf in found:
        place = next((at for at, given in enumerate(leaves) if given is leaf), None)
        if isinstance(leaf, torch.Tensor) and place is not None:
            kinds.append(("argument", place))
        elif isinstance(leaf, torch.Tensor) and leaf.device.type == "owner":
            kinds.append(("computed",))
            computed.append(leaf)
        elif isinstance(leaf, Published) and isinstance(leaf._state, _sojourn.Published):
            kinds.append(("published", len(published)))
            published.append(leaf._state)
        elif isinstance(leaf, (bool, int, float, str, bytes, type(None))):
            kinds.append(("constant", leaf))
        else:
            kinds.append(("other", _Same(leaf)))
    return kinds, computed, published


def explain() -> str:
    """Reasons for this process's compilations and traces, as text to print.

    For each program compiled since start (the last 256): its difference from the nearest earlier program (op, argument,
    old and new value) and the line. The logger `sojourn.programs` reports each at its compilation (level INFO). For
    each function under `sojourn.step(replay=True)`: replayed calls, traced calls, and the reasons of the last traces.
    """
    connections.take_programs()
    replays = [replay.explain() for replay in _replays] or ["no function is under sojourn.step(replay=True)"]
    return "\n".join([*replays, "\n  ".join(programs.explain())])
