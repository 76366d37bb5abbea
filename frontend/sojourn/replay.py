# SPDX-License-Identifier: Apache-2.0
"""Replay: sends a step's recorded ops again, with the call's own tensors, numbers and seeds, without its function.

A call is *traced* (the function runs) until two traces of alike calls are equal; then it is *replayed*. Alike calls
have arguments of the same structure, shapes and dtypes, the same modules in the same modes, the same parameters in
their places and the same optimizers. Each number that an op takes needs a known source: it is always the same, or it is
a number argument, a number that Python's arithmetic makes of those (followed.py), a hyper-parameter in an optimizer's
`param_groups`, or a value that a stock optimizer computes from those and its step count.
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
from torch.utils import _pytree as pytree

import _sojourn

from . import connections, programs
from .current import columns_of
from .errors import Error, Unsupported
from .followed import Computed, Followed, Looked, StandIn, plain
from .gradients import drop_lost_gradients, is_leaf
from .integers import Integers
from .keys import Same, flatten, has_dicts, key_of, keys_of, values_of
from .published import Published
from .rates import Numbers, changed_on_host, host_state, obstacle_of, rates_of
from .uses import HostOps, Uses, before_module, reached_from, tracing, unfit

_KINDS_MOST, _PLANS_MOST = 16, 8  # per function and thread, per kind of call; those not used for longest go
_REASONS_MOST = 32
_STALE = "a CPU tensor or an array that it uses was changed in place; pass it as an argument"
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
        self.computed: Computed | None = None  # what ops take of free integers
        self.base: list[float] = []
        self.varied: set[int] = set()
        self.looked: set[int] = set()  # float arguments by whose value Python decided something
        self.outputs: tuple = ()
        self.host: Any = None  # the numbers on the host that a call changes
        self.generators: list[torch.Generator] | None = None  # beside torch's own, of the last traced call
        self.is_armed = False
        self.is_single = False  # returns one tensor that it computed
        self.ready: Any = None  # the next call, where it needs no look from here
        self.keys: tuple | None = None  # of its dicts of arguments

    def matches(self) -> bool:
        return self.structure == self.uses.structure() and self.watched.is_at(self.places)

    def arm(self, is_armed: bool) -> None:
        self.is_armed, self.ready = is_armed, None
        self.is_single = is_armed and self.outputs[0] == [("computed",)] and self.outputs[1] == _ONE

    def floats(self, integers: list[int], floats: list[float]) -> list[float] | None:
        """Float arguments and the numbers that follow from free integers; None where those differ in kind."""
        computed = [] if self.computed is None else self.computed(integers, floats)
        return None if computed is None else floats + computed

    def may_take(self, floats: list[float]) -> bool:
        """Whether these are as in the traced calls, or at places where numbers have differed."""
        return all(at in self.varied or now == self.base[at] for at, now in enumerate(floats))

    def make_ready(self, args: tuple, leaves: list, free: list[int]) -> None:
        """Prepares for calls that follow a replayed call with these arguments."""
        if self.ready is not None or (keys := keys_of(args, leaves)) is None:
            return
        if _sojourn.ReadyCall.can_take(tuple(leaves)):
            self.keys = keys if has_dicts(keys) else None
            may_vary = [at in self.varied and at not in self.looked for at in range(len(self.base))]
            assert self.numbers is not None  # of every plan that was armed
            self.ready = _sojourn.ReadyCall(
                self.call, self.watched, self.places, self.structure, *self.uses.references(), self.numbers.sources,
                self.base, may_vary, self.host, [at in free for at in range(len(leaves))], self.computed, tuple(leaves),
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
        self.integers: collections.OrderedDict[tuple, Integers] = collections.OrderedDict()
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
            leaves = args if plan.keys is None else values_of(args, plan.keys)
            try:
                made = None if leaves is None else plan.ready.repeat(leaves)
            except BaseException:
                drop_lost_gradients()
                raise
            if made is not None:
                self.replayed += 1
                connections.tell()
                return plan.results(made, leaves)
        if _sojourn.step_active():
            return self._function(*args, **kwargs)  # joins the outer step
        return self._call(args, kwargs, None)

    def within(self, loop: Loop, args, is_quiet: bool):
        """A call of a loop. If it is replayed, its step waits for the trip's message, and the loop keeps its result.

        `is_quiet`: since the previous call, only the loop's code has run.
        """
        last = self._local.last if is_quiet else None
        if last is not None:
            plan, quiet, columns, types, keys = last
            leaves = args if keys is None else values_of(args, keys)
            if leaves is not None and _are_alike(leaves, types, columns):
                floats = plan.floats([leaf for leaf in leaves if type(leaf) is int], [])
                if floats is not None and plan.may_take(floats):
                    loop.expect(plan, leaves)
                    tensors = [leaf for leaf in leaves if type(leaf) is not int]
                    if quiet.repeat(tensors, floats, loop.calls) is not None:
                        self.replayed += 1
                        return None
        return self._call(args, {}, loop)

    def _call(self, args, kwargs, loop: Loop | None):
        self._local.last = self._local.plan = None
        leaves, spec = flatten(args, kwargs)
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        floats = [float(leaf) for leaf in leaves if isinstance(leaf, float)]
        form = key_of(leaves, spec)
        known = _latest(self._local.integers, form, Integers)
        values, free = known.note(leaves)
        kind = _latest(self._local.kinds, (form, values), _Kind)
        plan = next((plan for plan in kind.plans if plan.matches()), None)
        if plan is not None and plan.is_armed:
            entry = _sojourn.CallEntry(tensors, plan.watched)
            reason = self._cannot(plan, entry, floats, [leaves[at] for at in free])
            if not reason:
                result = self._replay(plan, entry, args, leaves, free, loop)
                if loop is None and not kwargs:
                    plan.make_ready(args, leaves, free)
                    self._local.plan = plan if plan.ready is not None else None
                return result
        else:
            reason = "no earlier call is alike" if plan is None else "only one alike call was traced so far"
        if loop is not None:
            loop.send()
        if obstacle := known.obstacle(leaves, self._function, spec):
            self._warn(obstacle)
        if not free:
            return self._trace(kind, plan, reason, leaves, spec, tensors, floats, loop, Followed(), free)
        followed = Followed()
        given = [leaf for leaf in tensors if leaf.requires_grad and is_leaf(leaf)]
        before = torch.get_rng_state(), [(leaf, leaf.grad) for leaf in (*kind.uses.parameters(), *given)]
        try:
            return self._trace(kind, plan, reason, leaves, spec, tensors, floats, loop, followed, free)
        except (TypeError, RuntimeError) as failure:
            if isinstance(failure, Error):
                raise
            # It may be C code that takes no stand-in for an integer: the call is made once more, with the integers.
            followed.looks |= dict.fromkeys(free, "its code in C needs the integer itself")
            torch.set_rng_state(before[0])
            for leaf, gradient in before[1]:
                leaf.grad = gradient
        finally:
            known.fix(followed.looks)
        return self._call(args, kwargs, loop)

    def _cannot(self, plan: _Plan, entry, floats: list[float], integers: list[int]) -> str:
        """The reason to trace a call, or an empty text."""
        assert plan.numbers is not None  # of every plan that was armed
        given = plan.floats(integers, floats)
        if given is None:
            return "a number computed from an integer argument has another type"
        floats = given
        base, values = self._local.base, self._local.values = plan.numbers.read(floats)
        for position, (now, then) in enumerate(zip(base, plan.base, strict=True)):
            if now != then and (position not in plan.varied or position in plan.looked):
                why = ", and Python decides by it" if position in plan.looked else " for the first time"
                return f"a number changed from {then} to {now}{why}"
        if any(map(math.isnan, values)):
            return "an optimizer's counts of steps differ"
        if plan.call.is_stale:
            return _STALE
        if not plan.call.fits(entry):
            return "a tensor or its layout changed for the first time"
        if not plan.call.determines(values):
            return "a number has several possible sources, which now differ"
        return ""

    def _replay(self, plan: _Plan, entry, args, leaves, free: list[int], loop: Loop | None):
        self.replayed += 1
        if loop is not None:
            assert plan.numbers is not None  # of every plan that was armed
            loop.expect(plan, leaves)
            loop.calls.add(plan.call, entry, self._local.values, plan.host)
            tensors = [leaf for leaf in leaves if type(leaf) is torch.Tensor and not leaf.requires_grad]
            if len(tensors) + len(free) == len(leaves) and (keys := keys_of(args, leaves)) is not None:
                quiet = _sojourn.QuietCall(plan.call, plan.watched, plan.numbers.sources, tensors, plan.host)
                columns = [columns_of(leaf) for leaf in leaves]
                types = [type(leaf) for leaf in leaves]
                self._local.last = plan, quiet, columns, types, keys if has_dicts(keys) else None
            return None
        try:
            made = _sojourn.replay_step(plan.call, entry, self._local.values, plan.host)
        except BaseException:
            drop_lost_gradients()
            raise
        connections.tell()
        return plan.results(made, leaves)

    def _trace(self, kind: _Kind, plan, reason, leaves, spec, tensors, floats, loop, followed: Followed, free):
        try:
            return self._traced(kind, plan, reason, leaves, spec, tensors, floats, loop, followed, free)
        finally:
            followed.end()

    def _traced(self, kind: _Kind, plan, reason, leaves, spec, tensors, floats, loop, followed: Followed, free):
        kind.uses.prune()
        for value in (*leaves, *reached_from(self._function)):
            if isinstance(value, torch.nn.Module):
                kind.uses.add_module(value)
        if plan is None or plan.uses != kind.uses:
            plan = _Plan(kind.uses)
        uses = Uses(kind.uses)
        optimizers = uses.optimizers
        rates, before = [rates_of(o) for o in optimizers], [host_state(o) for o in optimizers]
        places = kind.uses.places()
        entry = _sojourn.CallEntry(tensors, plan.watched)
        entry.watch(plan.generators)
        args, kwargs, given = _given(leaves, spec, followed, free)
        host = HostOps()
        with self._step() if loop is None else self._step(_trip=loop.trip):
            with host:
                result = self._run(uses, host, args, kwargs)
            result = _detached(result, given)
            found, tree = pytree.tree_flatten(result)
            kinds, computed, published = _kinds(found, given)
            call = _sojourn.CapturedCall(entry, computed, published, host.read(self._function, tensors))
            plan.generators = call.generators
            changed, advanced = changed_on_host(optimizers, rates, before)
            unknown = "".join(filter(None, map(obstacle_of, optimizers)))
            obstacle = call.obstacle or unknown or host.found or changed or kind.uses.exchanges(places)
            obstacle = obstacle or unfit(leaves, uses)
            floats += followed.numbers([leaves[at] for at in free], floats)
            # Without a word for any owner nothing was a step.
            reason += (
                "; it records nothing"
                if call.empty
                else self._compare(plan, call, obstacle, uses, (kinds, tree), floats, advanced, followed)
            )
        self.traced += 1
        self.reasons.append(f"call {self.traced + self.replayed}: {reason}")
        uses.prune()
        if plan.uses == uses and plan not in kind.plans:
            kind.plans.append(plan)
            del kind.plans[:-_PLANS_MOST]
        kind.uses = uses
        place = {"argument": lambda k: leaves[k[1]], "constant": lambda k: k[1]}
        return pytree.tree_unflatten([place[k[0]](k) if k[0] in place else f for k, f in zip(kinds, found)], tree)

    def _run(self, uses: Uses, host: HostOps, args, kwargs):
        outer = tracing.uses, tracing.host
        tracing.uses, tracing.host = uses, host
        hook = torch.nn.modules.module.register_module_forward_pre_hook(before_module)
        try:
            return self._function(*args, **kwargs)
        finally:
            hook.remove()
            tracing.uses, tracing.host = outer

    def _compare(self, plan: _Plan, call, obstacle: str, uses: Uses, outputs, floats, advanced, followed) -> str:
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
        if followed.looks:
            plan.call = None
            plan.arm(False)
            return "; something depends on an integer argument: " + ", ".join(followed.looks.values())
        before, difference, computed = plan.call, "", followed.computed()
        call.note(numbers.values)
        if before is not None:
            difference = "it computed other numbers" if plan.computed != computed else call.differs(before)
            difference = difference or ("" if plan.outputs == outputs else "it returned another tree")
        repeats = before is not None and not difference and len(numbers.base) == len(plan.base)
        if repeats and (why := call.explain(before)):
            raise Unsupported(
                f"{self._name()} cannot be replayed: {why}: no argument, rate or counter explains it; pass it as a "
                "float argument of the function, or trace each call (without replay=True)"
            )
        if repeats:
            plan.varied.update(at for at, pair in enumerate(zip(numbers.base, plan.base)) if pair[0] != pair[1])
        plan.looked |= followed.looked
        plan.computed = computed
        plan.call, plan.numbers, plan.base, plan.outputs = call, numbers, numbers.base, outputs
        plan.host = _sojourn.HostNumbers(advanced, numbers.products)
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


def _are_alike(leaves, types: list[type], columns: list) -> bool:
    return [type(leaf) for leaf in leaves] == types and columns == [columns_of(leaf) for leaf in leaves]


def _latest(known: collections.OrderedDict, key, make):
    """The value at the key, now the newest of those that are kept."""
    found = known.setdefault(key, make())
    known.move_to_end(key)
    while len(known) > _KINDS_MOST:
        known.popitem(last=False)
    return found


def _given(leaves, spec, followed: Followed, free: list[int]):
    """Arguments for a traced call, with numbers that are followed, and the leaves as passed."""
    given = []
    for at, leaf in enumerate(leaves):
        if isinstance(leaf, float):
            leaf = followed.number(float(leaf))
        given.append(followed.integer(leaf, at) if at in free else leaf)
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
        return leaf.detach() if is_ours and leaf.requires_grad and not is_leaf(leaf) else leaf

    return pytree.tree_map(detach, result)


def _kinds(found, leaves):
    """How each returned leaf is made again, the computed tensors and the published values."""
    kinds: list[tuple] = []
    computed: list[torch.Tensor] = []
    published: list = []
    for leaf in found:
        place = next((at for at, given in enumerate(leaves) if given is leaf), None)
        is_followed = type(leaf) in (Looked, StandIn)
        if place is not None and (is_followed or isinstance(leaf, torch.Tensor)):
            kinds.append(("argument", place))
        elif isinstance(leaf, torch.Tensor) and leaf.device.type == "owner":
            kinds.append(("computed",))
            computed.append(leaf)
        elif isinstance(leaf, Published) and isinstance(leaf.recorded, _sojourn.Published):
            kinds.append(("published", len(published)))
            published.append(leaf.recorded)
        elif isinstance(leaf, (bool, int, float, str, bytes, type(None))):
            kinds.append(("constant", plain(leaf, "it is returned")))
        else:
            kinds.append(("other", Same(leaf)))
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
