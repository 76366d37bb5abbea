# SPDX-License-Identifier: Apache-2.0
"""Many steps in one trip: a training loop whose steps travel together."""

from __future__ import annotations

import collections.abc
import contextlib
import copy
import functools
import time

import torch

import _sojourn

from . import connections
from .checks import integer, positive
from .errors import DeadlineExceeded, Error
from .gradients import drop_lost_gradients
from .replay import Replay
from .step import step, unwrapped
from .table import Batches

PER_TRIP_MOST = 4096  # owner/Limits.h



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
    if isinstance(schedulers, torch.optim.lr_scheduler.LRScheduler):
        schedulers = (schedulers,)
    for scheduler in schedulers:
        if not isinstance(scheduler, torch.optim.lr_scheduler.LRScheduler):
            raise Error(f"schedulers must be of torch.optim.lr_scheduler, got {type(scheduler).__name__}")
    if deadline is not None:
        deadline = positive("deadline", deadline)
    total = len(batches) if hasattr(batches, "__len__") else None
    with bar(progress, total) as shown:
        # Nothing but the loop runs while it takes the next of these.
        is_quiet = isinstance(batches, (list, tuple, Batches)) and not schedulers
        run = _Run(train, per_trip, tuple(schedulers), deadline, shown, is_quiet)
        try:
            for batch in batches:
                run.call(batch if isinstance(batch, (tuple, list)) else (batch,))
            run.send()
        except BaseException as failure:
            run.end(failure)
            raise
    connections.tell()
    return run.results


class _Run:
    """One call of `loop`."""

    def __init__(self, train, per_trip: int, schedulers: tuple, deadline: float | None, shown, is_quiet: bool):
        self._replay = _replay_of(train)
        self._alone = [0]  # steps that had a trip of their own
        # It refers to no method of this object, which would keep itself alive.
        self._trip = _sojourn.Trip(per_trip, deadline, functools.partial(_follow, shown, self._alone))
        self._schedulers, self._deadline, self._shown = schedulers, deadline, shown
        self._is_quiet = False  # until the first call has looked at everything
        self._may_be_quiet = is_quiet
        self._end = None if deadline is None else time.monotonic() + deadline
        # Of the steps that are held, or were on a trip that failed: counts that went on (None: not yet), and schedulers
        # before they did.
        self._counters: list[list[torch.Tensor] | None] = []
        self._before: list = []
        self._sent = 0  # steps held before these
        self.results: list = []

    @property
    def steps(self) -> int:
        """That have committed. Those that travel together do so before what is traced after them."""
        return self._alone[0] + self._trip.committed

    def call(self, args) -> None:
        if self._end is not None and time.monotonic() >= self._end:
            self._trip.send()
            raise self._late()
        held = len(self._counters)
        result = self._replay.within(self._trip, self._counters, args, self._is_quiet)
        self._is_quiet = self._may_be_quiet
        if self._trip.is_stopped:
            raise self._late()
        if len(self._counters) == held:
            self._alone[0] += 1
        self.results.append(result)
        if self._schedulers:
            self._before.append([_Scheduled(scheduler) for scheduler in self._schedulers])
            for scheduler in self._schedulers:
                scheduler.step()
        if self._trip.committed == self._sent + len(self._counters):
            self._forget()

    def send(self) -> None:
        self._trip.send()
        if self._trip.is_stopped:
            raise self._late()
        self._forget()

    def end(self, failure: BaseException) -> None:
        """Steps whose calls have returned are sent, also where something else failed; then all is as they left it."""
        if not self._trip.is_over:
            with contextlib.suppress(Exception):
                self._trip.send()
        kept = self._trip.committed - self._sent
        for counters in self._counters[kept:]:
            _sojourn.advance(counters or [], -1.0)
        for scheduled in reversed(self._before[kept:]):
            for each in scheduled:
                each.restore()
        if len(self._counters) > kept:
            drop_lost_gradients()
        self._shown(self.steps)
        failure.steps, failure.results = self.steps, self.results[: self.steps]

    def _late(self) -> DeadlineExceeded:
        return DeadlineExceeded(
            f"the deadline of {self._deadline:g} seconds has passed after {self.steps} steps; they are committed"
        )

    def _forget(self) -> None:
        """All that was held has committed."""
        self._sent += len(self._counters)
        self._counters.clear()
        self._before.clear()
        self._shown(self.steps)


def _follow(shown, alone: list[int], committed: int) -> None:
    shown(alone[0] + committed)


class _Scheduled:
    """A scheduler and its optimizer's rates before a step of it."""

    def __init__(self, scheduler):
        self._scheduler = scheduler
        self._entries = {name: copy.copy(value) for name, value in vars(scheduler).items()}
        self._groups = [{k: v for k, v in g.items() if k != "params"} for g in scheduler.optimizer.param_groups]

    def restore(self) -> None:
        vars(self._scheduler).clear()
        vars(self._scheduler).update(self._entries)
        for group, saved in zip(self._scheduler.optimizer.param_groups, self._groups):
            group.update(saved)


def _replay_of(train) -> Replay:
    """Of a function one, so that a second loop knows what the first has seen."""
    if isinstance(train, Replay):
        return train
    function = unwrapped(train)
    replay = getattr(function, "_sojourn_replay", None) or Replay(function, step)
    with contextlib.suppress(AttributeError):  # a bound method has no place for it
        function._sojourn_replay = replay
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
