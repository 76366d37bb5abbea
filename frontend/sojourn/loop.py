# SPDX-License-Identifier: Apache-2.0
"""Training loops that send many steps in one round trip."""

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
from .checks import flag, integer, iterable, positive, shown
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

    `train`: a function, with or without `sojourn.step`. As with `sojourn.step(replay=True)`, **after two equal calls
    the function no longer runs**, and the same rules apply. Replayed steps wait until there are `per_trip` of them and
    travel in one message. A traced call (another shape, a changed mode) makes a separate round trip, as do steps at
    several owners and steps with more than 32 MiB of uploads. A message holds steps of one program, so a short last
    batch ends it: 50 epochs of 17 batches take 103 round trips, and 16 with `drop_last=True`. `batches`: any iterable;
    a tuple or list holds the arguments of a call, any other element is the only argument. Values that `train` publishes
    are filled when the loop returns.

    Random numbers are drawn when a step is recorded. After a failure torch's generator is therefore ahead by the
    numbers of the steps that did not run.

    `schedulers`: a scheduler of `torch.optim.lr_scheduler`, or several; each steps after each call. `progress`: shows a
    bar of committed steps. `deadline`: seconds; no step begins later, and the loop raises `DeadlineExceeded`.

    Each step commits and is charged separately, as if it were sent alone. If a step fails, the earlier steps remain
    committed: optimizers' counts and schedulers are those of the last committed step, and gradients are that step's or
    None. Ctrl-C makes the owner stop after the current step. Every exception from the loop has the attributes `steps`,
    the number of committed steps, and `results`, their return values.
    """
    if not callable(train):
        raise Error(f"loop takes a function, got {type(train).__name__}")
    if _sojourn.step_active():
        raise Error("sojourn.loop creates its own steps; call it outside of a step")
    per_trip = integer("per_trip", per_trip, 1)
    if per_trip > PER_TRIP_MOST:
        raise Error(f"per_trip is {per_trip}, an owner takes up to {PER_TRIP_MOST} steps in one message")
    iterable("batches", batches)
    flag("progress", progress)
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
    """One call of `loop`. The trip knows the number of committed steps; everything else follows from it."""

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
        try:
            result = self._replay.within(self._loop, args, self._is_quiet)
        except Error:
            if self._trip.is_late:
                raise self._late() from None
            raise
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
        """Sends the held steps; when it returns, all have committed."""
        self._trip.send()
        self._check()
        self._forget()

    def _check(self) -> None:
        self._trip.raise_failure()
        if self._trip.is_stopped:
            raise self._late()

    def _forget(self) -> None:
        """Clears the calls, which have all committed."""
        self._collect()
        self._base = self._trip.committed
        self._loop.clear()
        for number in [number for number in self._before if number < min(self._scheduled, self._base)]:
            del self._before[number]
        self._shown(self._trip.committed)

    def _collect(self) -> None:
        """Collects the results of committed calls."""
        while self._base <= len(self.results) < min(self._trip.committed, self._base + len(self._loop.calls)):
            self.results.append(self._loop.result(len(self.results) - self._base))

    def end(self, failure: BaseException) -> BaseException:
        """Sends the held steps, also after another failure, and restores the state after the last committed step."""
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
        """Restores the state after the last committed step; it may be interrupted and repeated."""
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
    """A scheduler and its optimizer's rates before one of its steps, with the schedulers inside it."""

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
    """A copy of a list, dict or set, which a scheduler changes in place; other values as they are."""
    return copy.copy(value) if isinstance(value, (list, dict, set)) else value


def _checked(schedulers) -> tuple:
    is_one = isinstance(schedulers, torch.optim.lr_scheduler.LRScheduler)
    try:
        schedulers = (schedulers,) if is_one else tuple(schedulers)
    except TypeError:
        raise Error(f"schedulers must be of torch.optim.lr_scheduler, got {shown(schedulers)}") from None
    for scheduler in schedulers:
        if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
            raise Error(
                "ReduceLROnPlateau needs a metric, which is available only after the loop; step it between loops"
            )
        if not isinstance(scheduler, torch.optim.lr_scheduler.LRScheduler):
            raise Error(f"schedulers must be of torch.optim.lr_scheduler, got {type(scheduler).__name__}")
    return schedulers


def length(batches) -> int | None:
    """The number of batches, if known."""
    try:
        return len(batches)
    except TypeError:
        return None


def _replay_of(train) -> Replay:
    """The replay of a function, which a second loop shares with the first."""
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
    """Shows the number of committed steps."""
    if not progress:
        yield lambda steps: None
        return
    import tqdm

    with tqdm.tqdm(total=total, unit="step") as bar:
        yield functools.partial(_show, bar)


def _show(bar, steps: int) -> None:
    bar.update(steps - bar.n)
