# SPDX-License-Identifier: Apache-2.0
"""Reasons for compilations: logged, and kept for `sojourn.explain()`."""

from __future__ import annotations

import logging
from collections import deque
from typing import NamedTuple

import _sojourn

log = logging.getLogger("sojourn.programs")
_KEPT = 256
_compiled: deque[Compiled] = deque(maxlen=_KEPT)


class Compiled(NamedTuple):
    """One compilation: its reason, and the difference from the nearest earlier program (op, argument, values)."""

    why: str
    op: str
    argument: str
    before: str
    now: str
    file: str
    line: int
    ops: int
    is_general: bool
    seconds: float
    program: str

    def __str__(self) -> str:
        place = f" ({self.file}:{self.line})" if self.file else ""
        return f"{self.program} ({self.ops} ops, {1e3 * self.seconds:.0f} ms): {self.why}{place}"


def take(session) -> None:
    """Logs and keeps the compilations of a session since the last call."""
    for fields in _sojourn.take_explanations(session):
        compiled = Compiled(*fields)
        _compiled.append(compiled)
        log.info("compiled %s", compiled)


def explain() -> list[str]:
    lines = [str(compiled) for compiled in _compiled]
    return [f"{len(lines)} programs compiled" + (", the last ones" if len(lines) == _KEPT else ""), *lines]
