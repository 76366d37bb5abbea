# SPDX-License-Identifier: Apache-2.0
"""What a step's message says: handles of values, and arguments of its program (`runtime/wire/Sojourn.fbs`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import limits, wire
from .errors import need
from .program import Arg, Program


def _handles(listed: np.ndarray, first: int, count: int) -> list[int]:
    """A list, then a range."""
    need(count <= limits.BINDINGS_MAX, f"a range has {count} handles, expected up to {limits.BINDINGS_MAX}")
    return listed.tolist() + [(first + index) % 2**64 for index in range(count)]


def results_of(step: wire.Record) -> list[int]:
    """Handles of the values that the step keeps, in order of the program's results of kind "keep"."""
    return _handles(step.results, step.first_result, step.result_count)


def releases_of(step: wire.Record) -> list[int]:
    """Handles of the values that go with the step."""
    return _handles(step.releases, step.first_release, step.release_count)


def arguments(program: Program, step: wire.Record, take: Callable[[int, Arg, Any], Any]) -> list:
    """The program's arguments: what `take(index, argument, given)` makes of what the message gives for each.

    Given for a state is its handle, for an upload and a table the record of the message, for a slot and a seed the
    bits of the number. Raises OwnerError unless there are as many as the program takes.
    """
    lists = {
        "state": step.states.tolist(), "upload": step.uploads, "slot": step.slots.tolist(),
        "seed": step.seeds.tolist(), "table": step.tables,
    }  # fmt: skip
    given = {}
    for kind, values in lists.items():
        wanted = sum(arg.kind == kind for arg in program.args)
        need(len(values) == wanted, f"step gives {len(values)} {kind} arguments, the program takes {wanted}")
        given[kind] = iter(values)
    return [take(index, arg, next(given[arg.kind])) for index, arg in enumerate(program.args)]
