# SPDX-License-Identifier: Apache-2.0
"""The open connections of this process, and what their owners have to say after a step."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import warnings
import weakref

import torch

import _sojourn

from . import defaults

LIBRARIES = (os.path.dirname(torch.__file__) + os.sep, os.path.dirname(__file__) + os.sep)
_sessions: weakref.WeakSet = weakref.WeakSet()


def remember(session) -> None:
    """Of a session that was opened; it is forgotten with its owner."""
    _sessions.add(session)


def session_of(tensor: torch.Tensor):
    """The session that a remote tensor is at, or None."""
    return next((session for session in list(_sessions) if session.index == tensor.device.index), None)


class _Drawn(threading.local):
    """Rows that the calling thread has drawn or read inside of a run and not sent yet."""

    def __init__(self):
        self.reads: list = []
        self.has_priced = self.has_unpriced = self.has_trained = False

    def clear(self) -> None:
        self.__init__()


_drawn = _Drawn()


def note_read(run, kind: str, key) -> None:
    """Rows of the run's table were asked for. `kind`: "draw" or "whole"; equal keys in one step are one read."""
    _drawn.reads.append((run, kind, key, _ops(run._session())))


@contextlib.contextmanager
def publishing(has_price: bool):
    """Around a publish, which records copies: they are no use of rows that were read before."""
    sessions = {id(run): run._session() for run, *_ in _drawn.reads}
    before = {number: _ops(session) for number, session in sessions.items()}
    yield
    for index, (run, kind, key, ops) in enumerate(_drawn.reads):
        number = id(run)
        if ops == before[number]:
            _drawn.reads[index] = (run, kind, key, _ops(sessions[number]))
    _drawn.has_priced |= has_price
    _drawn.has_unpriced |= not has_price


def note_update() -> None:
    """An optimizer steps in what the thread sends next."""
    _drawn.has_trained = True


def forget() -> None:
    """What the thread has recorded was dropped."""
    _drawn.clear()


def _ops(session) -> int:
    return session.counters()["ops_recorded"]


@contextlib.contextmanager
def sending():
    """Around whatever sends: once the owner has accepted a step, its run has paid for the rows in it."""
    sessions = {id(run): run._session() for run, *_ in _drawn.reads}
    before = {number: session.counters() for number, session in sessions.items()}
    try:
        yield
    finally:
        if not _sojourn.step_active():
            for number, counters in before.items():
                if sessions[number].counters()["steps"] > counters["steps"]:
                    _charge(number, counters["ops_recorded"])
            _drawn.clear()


def _charge(number: int, ops: int) -> None:
    # Rows that no op has used cost nothing, as those of a batch that a loop was left with. Nor do those of
    # values with prices of their own: they are paid for beside the run.
    is_beside = _drawn.has_priced and not (_drawn.has_unpriced or _drawn.has_trained)
    reads = {(kind, key) for run, kind, key, at in _drawn.reads if id(run) == number and ops > at}
    if reads and not is_beside:
        run = next(run for run, *_ in _drawn.reads if id(run) == number)
        run._charge(sum(kind == "draw" for kind, _ in reads), sum(kind == "whole" for kind, _ in reads))


def tell() -> None:
    """After steps: what defaults cost, and what an owner changed in a new program."""
    defaults.tell()
    for session in list(_sessions):
        for note in dict.fromkeys(_sojourn.take_notes(session)):
            warnings.warn(note, stacklevel=_callers_depth())


def _callers_depth() -> int:
    """Frames from the caller of this function to the first that is the user's."""
    frame, depth = sys._getframe(1), 1
    while frame.f_back is not None and (
        frame.f_code.co_filename.startswith(LIBRARIES) or frame.f_code.co_filename == contextlib.__file__
    ):
        frame, depth = frame.f_back, depth + 1
    return depth
