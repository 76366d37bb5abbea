# SPDX-License-Identifier: Apache-2.0
"""What is open now: the calling thread's step, and the run of `sojourn.privacy`; and what a tensor knows of its columns."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    import _sojourn


class _Step(threading.local):
    """The calling thread's step: optimizers stepped in it, by id, with the CPU state that an exception restores."""

    def __init__(self):
        self.snapshots: dict[int, _sojourn.OptimizerSnapshot] = {}


step = _Step()


@dataclasses.dataclass(eq=False)
class Run:
    """An open `sojourn.privacy`, as tables and artifacts see it."""

    table: str
    session: _sojourn.Session | None
    is_private: bool
    declare: Callable[[str, int, int, int, int], None]  # table, rows, expected size, epochs, steps in all
    send: Callable[[], None]  # tells the owner of it again


_run: Run | None = None


def run() -> Run | None:
    """The innermost open run."""
    return _run


def set_run(run: Run | None) -> Run | None:
    """Makes it the innermost one; the one before."""
    global _run
    before, _run = _run, run
    return before


_COLUMNS = "_sojourn_columns"


def columns_of(tensor: torch.Tensor) -> str | list[str] | None:
    """The columns that a tensor was read from; None where they are unknown."""
    return getattr(tensor, _COLUMNS, None)


def knowing(tensor: torch.Tensor, columns: str | list[str]) -> torch.Tensor:
    """The tensor, marked with its columns."""
    setattr(tensor, _COLUMNS, columns)
    return tensor
