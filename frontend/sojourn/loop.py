# SPDX-License-Identifier: Apache-2.0
"""Many steps in one trip: a training loop whose steps travel together."""

from __future__ import annotations

import collections.abc
import contextlib
import copy
import functools
import time
import types
import weakref

import torch

import _sojourn

from . import connections
from .checks import integer, positive
from .errors import DeadlineExceeded, Error
from .gradients import drop_lost_gradients
from .replay import Loop, Replay
from .step import step, unwrapped
from .table import Batches

PER_TRIP_MOST = 4096  # owner/Limits.h
_DEADLINE_MOST = 1e9  # seconds


def loop(
    train: collections.abc.Callable,
    batches: collections.abc.Iterable,
    per_trip: int = 64,
    *,
    schedulers=(),
    progress: bool = False,
    deadline: float | None = None,
) -> list:
    """`[train(*batch) for batch in batches]`, with up to `per_trip` steps in each round trip.

    ::

        losses = sojourn.loop(train, table.batches(features, label="y", size=64, epochs=10), per_trip=64)

    `train`: a function, under `sojourn.step` or not. As with `sojourn.step(replay=True)` **it runs until two calls are
    equal, and then no longer**; what is said there holds here, too. Steps that were replayed wait until there are
    `per_trip` of them and travel in one message. Whatever is traced (another shape, a changed mode) has a trip of
    its own, and so have steps at several owners and steps with more than 32 MiB of uploads. `batches`: any
    iterable; a tuple or list is the arguments of a call, anything else the only one. What `train` publishes is
    filled when the loop returns.

    Random numbers are drawn when a step is recorded: after a failure torch's generator is ahead by those of the steps
    that did not run.

    `schedulers`: a scheduler of `torch.optim.lr_scheduler`, or several; each makes a step after each call.
    `progress`: a bar of steps that have committed. `deadline`: seconds; no step begins later, and the loop
    raises `DeadlineExceeded`.

    Each step commits by itself and is charged by itself, as if it had come alone. If one fails, those before
    it stand: optimizers' counts and schedulers are those of the last that committed, gradients are its own or None. Ctrl-C
    has the owner stop after the step under way. Whatever the loop raises has the attributes `steps`, how many have
    committed, and `results`, what they returned.
    """
    if not callable(train):
        raise Error(f"loop takes a function, got {type(train).__name__}")
    if _sojourn.step_active():
        raise Error("sojourn.loop makes steps of its own; call it outside of a step")
    per_trip = integer("per_trip", per_trip, 1)
    if per_trip > PER_TRIP_MOST:
        raise Error(f"per_trip is {per_trip}, an owner takes up to {PER_TRIP_MOST} steps in one message")
    schedulers = _checked(schedulers)
    if deadline is not None:
        deadline = positive("deadline", deadline, _DEADLINE_MOST)
    with bar(progress, length(batches)) as shown:
        # Nothing but the loop runs while it takes the next of these.
        is_quiet = type(batches) in (list, tuple, Batches) and not schedulers
        run = _Run(train, per_trip, schedulers, deadline, shown, is_quiet)
        try:
            for batch in batches:
                run.call(batch if isinstance(batch, (tuple, list)) else (batch,))
            run.send()
        except BaseException as failure:
            last = run.end(failure)
            if last is failure:
                raise
            raise last from failure
    connections.tell()
    return run.results


class _Run:
    """One call of `loop`. How many steps have committed, the trip knows; all else follows from that."""

    def __init__(self, train, per_trip: int, schedulers: tuple, deadline: float | None, shown, is_quiet: bool):
        self._replay = _replay_of(train)
        self._trip = _sojourn.Trip(per_trip, deadline, shown)
        run = weakref.ref(self)  # a circle would keep what the calls took until it is found
        self._loop = Loop(self._trip, lambda: run().send())  # type: ignore[union-attr]  # it lives as long as its loop
        self._schedulers, self._deadline, self._shown = schedulers, deadline, shown
        self._is_quiet = False  # until the first call has looked at everything
        self._may_be_quiet = is_quiet
        self._end = None if deadline is None else time.monotonic() + deadline
        self._base = 0  # steps before the loop's calls
        self._scheduled = 0  # steps of the schedulers
        self._before: dict[int, list[_Scheduled]] = {}  # schedulers before such a step, by its number
        self.results: list = []

    def call(self, args) -> None:
        if self._end is not None and time.monotonic() >= self._end:
            self.send()
            raise self._late()
        result = self._replay.within(self._loop, args, self._is_quiet)
        self._is_quiet = self._may_be_quiet
        self._check()
        if not len(self._loop.calls):  # it was traced, and has committed
            self.results.append(result)
            self._base = self._trip.committed
        if self._schedulers:
            self._step_schedulers()
        if self._trip.committed == self._base + len(self._loop.calls):
            self._forget()

    def _step_schedulers(self) -> None:
        self._before[self._scheduled] = [_Scheduled(scheduler) for scheduler in self._schedulers]
        for scheduler in self._schedulers:
            scheduler.step()
        self._scheduled += 1

    def send(self) -> None:
        """All that is held has committed then."""
        self._trip.send()
        self._check()
        self._forget()

    def _check(self) -> None:
        self._trip.raise_failure()
        if self._trip.is_stopped:
            raise self._late()

    def _forget(self) -> None:
        """All calls have committed."""
        self._collect()
        self._base = self._trip.committed
        self._loop.clear()
        for number in [number for number in self._before if number < min(self._scheduled, self._base)]:
            del self._before[number]
        self._shown(self._trip.committed)

    def _collect(self) -> None:
        """Results of the calls that have committed."""
        while self._base <= len(self.results) < min(self._trip.committed, self._base + len(self._loop.calls)):
            self.results.append(self._loop.result(len(self.results) - self._base))

    def end(self, failure: BaseException) -> BaseException:
        """Sends what is held, also where something else failed; then all is as the last step that committed left it."""
        if not self._trip.is_over:
            try:
                self._trip.send()
            except Exception:
                pass  # the first failure is the one to tell
            except BaseException as interrupt:
                failure = interrupt
        while True:
            try:
                self._settle()
                break
            except KeyboardInterrupt as interrupt:
                failure = interrupt  # not before all is in order
        with contextlib.suppress(Exception):
            self._shown(self._trip.committed)
        with contextlib.suppress(Exception):  # an exception may refuse attributes
            failure.steps, failure.results = self._trip.committed, self.results  # type: ignore[attr-defined]  # our own, on any exception
        return failure

    def _settle(self) -> None:
        """May be interrupted, and done again."""
        committed = self._trip.committed
        lost = len(self._loop.calls) > committed - self._base
        self._loop.calls.take_back(max(committed - self._base, 0))
        for number in sorted(self._before, reverse=True):
            if number >= min(committed, self._scheduled):
                for each in self._before[number]:
                    each.restore()
                self._scheduled = min(self._scheduled, number)
                del self._before[number]
        while self._scheduled < committed and self._schedulers:
            self._step_schedulers()
        self._collect()
        self.results += [None] * (committed - len(self.results))  # of a call that was interrupted as it returned
        if lost:
            drop_lost_gradients()

    def _late(self) -> Error:
        steps = f"{self._trip.committed} steps; they are committed"
        if self._deadline is None:
            return Error(f"the loop was stopped after {steps}")
        return DeadlineExceeded(f"the deadline of {self._deadline:g} seconds has passed after {steps}")


class _Scheduled:
    """A scheduler and its optimizer's rates before a step of it; likewise of the schedulers in it."""

    def __init__(self, scheduler):
        self._scheduler = scheduler
        self._entries = {name: _copied(value) for name, value in vars(scheduler).items()}
        self._groups = [{k: v for k, v in g.items() if k != "params"} for g in scheduler.optimizer.param_groups]
        self._inner = [_Scheduled(each) for each in vars(scheduler).get("_schedulers", ())]

    def restore(self) -> None:
        vars(self._scheduler).clear()
        vars(self._scheduler).update({name: _copied(value) for name, value in self._entries.items()})
        for group, saved in zip(self._scheduler.optimizer.param_groups, self._groups):
            group.update(saved)
        for inner in self._inner:
            inner.restore()


def _copied(value):
    """What a scheduler changes in place is a list or a dict of numbers."""
    return copy.copy(value) if isinstance(value, (list, dict, set)) else value


def _checked(schedulers) -> tuple:
    is_one = isinstance(schedulers, torch.optim.lr_scheduler.LRScheduler)
    schedulers = (schedulers,) if is_one else tuple(schedulers)
    for scheduler in schedulers:
        if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
            raise Error(
                "ReduceLROnPlateau decides by a metric, which is there after the loop only; step it between loops"
            )
        if not isinstance(scheduler, torch.optim.lr_scheduler.LRScheduler):
            raise Error(f"schedulers must be of torch.optim.lr_scheduler, got {type(scheduler).__name__}")
    return schedulers


def length(batches) -> int | None:
    """How many there are, if they say."""
    try:
        return len(batches)
    except TypeError:
        return None


def _replay_of(train) -> Replay:
    """Of a function one, so that a second loop knows what the first has seen."""
    if isinstance(train, Replay):
        return train
    function = unwrapped(train)
    if not isinstance(function, types.FunctionType):
        return Replay(function, step)  # a place on an object would be copied and stored with it
    replay = vars(function).get("_sojourn_replay")
    if replay is None or not replay.is_of(function):  # functools.wraps copies what a function carries
        replay = function._sojourn_replay = Replay(function, step)  # type: ignore[attr-defined]  # a mark of ours
    return replay


@contextlib.contextmanager
def bar(progress: bool, total: int | None):
    """Shows how many steps have committed."""
    if not progress:
        yield lambda steps: None
        return
    import tqdm

    with tqdm.tqdm(total=total, unit="step") as bar:
        yield functools.partial(_show, bar)


def _show(bar, steps: int) -> None:
    bar.update(steps - bar.n)
