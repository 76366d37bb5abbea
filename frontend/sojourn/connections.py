# SPDX-License-Identifier: Apache-2.0
"""The open connections of this process, and their owners' notes after a step."""

from __future__ import annotations

import os
import secrets
import site
import sys
import sysconfig
import warnings
import weakref
from types import FrameType

import torch

import _sojourn

from . import defaults, programs

_OWN = (os.path.dirname(torch.__file__) + os.sep, os.path.dirname(__file__) + os.sep)


def _installed() -> tuple[str, ...]:
    """Folders of installed libraries and of Python's own."""
    folders = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    folders += [*site.getsitepackages(), site.getusersitepackages(), os.path.dirname(os.path.dirname(torch.__file__))]
    return tuple(dict.fromkeys(folder + os.sep for folder in folders if folder))


INSTALLED = _installed()
# Sessions with their marks; forgotten together with their owners.
_sessions: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
_groups: weakref.WeakSet = weakref.WeakSet()


def remember(session, key: str | None) -> None:
    """Adds an opened session of the owner with this public key."""
    _sessions[session] = f"{key or ''}:{secrets.token_hex(8)}"


def _open():
    return [
        (session, mark) for session, mark in list(_sessions.items()) if not (session.is_elsewhere or session.is_closed)
    ]


def group_at(device: torch.device):
    """The `Parties` behind a device; None for other devices."""
    return next((group for group in list(_groups) if group.session.index == device.index), None)


def remember_group(group) -> None:
    """Adds an opened group, by which tensors are shown."""
    _groups.add(group)


def session_at(device: torch.device):
    """The open connection to one owner behind a device; None for other devices."""
    return next((session for session, _ in _open() if device.type == "owner" and session.index == device.index), None)


def devices() -> list[torch.device]:
    """The devices of the open connections."""
    return [torch.device("owner", session.index) for session, _ in _open()]


def mark_of(device: torch.device) -> str | None:
    """The text for files about the owner behind a device: its public key, and a random name of this connection."""
    return next((mark for session, mark in _open() if session.index == device.index), None)


def marked_device(mark: str) -> torch.device | None:
    """The device of the connection with this mark, else of one to the same owner; None if none is open."""
    key = mark.partition(":")[0]
    same = [
        (known != mark, session.index)
        for session, known in _open()
        if known == mark or (key and known.startswith(f"{key}:"))
    ]
    return torch.device("owner", min(same)[1]) if same else None


def tell() -> None:
    """Reports after steps: the cost of defaults, and an owner's changes to a new program."""
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


def is_users(file: str) -> bool:
    """Whether a file is a script's: of no installed library."""
    return not file.startswith((*_OWN, *INSTALLED, "<frozen "))


def reader() -> FrameType:
    """The innermost frame outside of this package and torch."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back
    return frame


def callers_depth() -> int:
    """Number of frames from the caller of this function to the first frame of user code, else to the outermost."""
    frame, depth = sys._getframe(1), 1
    while frame.f_back is not None and not is_users(frame.f_code.co_filename):
        frame, depth = frame.f_back, depth + 1
    return depth
