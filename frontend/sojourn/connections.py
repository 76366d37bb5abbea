# SPDX-License-Identifier: Apache-2.0
"""The open connections of this process, and what their owners have to say after a step."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
import weakref

import torch

import _sojourn

from . import defaults, programs

LIBRARIES = (os.path.dirname(torch.__file__) + os.sep, os.path.dirname(__file__) + os.sep)
_sessions: weakref.WeakSet = weakref.WeakSet()


def remember(session) -> None:
    """Of a session that was opened; it is forgotten with its owner."""
    _sessions.add(session)


def tell() -> None:
    """After steps: what defaults cost, and what an owner changed in a new program."""
    if not _sojourn.take_news():
        return  # nearly always
    defaults.tell()
    for session in list(_sessions):
        for note in dict.fromkeys(_sojourn.take_notes(session)):
            warnings.warn(note, stacklevel=callers_depth())
    take_programs()


def take_programs() -> None:
    for session in list(_sessions):
        programs.take(session)


def callers_depth() -> int:
    """Frames from the caller of this function to the first that is the user's."""
    frame, depth = sys._getframe(1), 1
    while frame.f_back is not None and (
        frame.f_code.co_filename.startswith(LIBRARIES) or frame.f_code.co_filename == contextlib.__file__
    ):
        frame, depth = frame.f_back, depth + 1
    return depth
