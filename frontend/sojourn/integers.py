# SPDX-License-Identifier: Apache-2.0
"""Integer arguments of calls: the ones that tell calls apart, and the ones that may have any value."""

from __future__ import annotations

import inspect
from typing import Any

from torch.utils import _pytree as pytree

_VALUES_MOST = 4


class Integers:
    """By place among the leaves of the arguments. An integer is *free* once it differs, until something depends on it."""

    def __init__(self):
        self._first: dict[int, int] = {}
        self._free: set[int] = set()
        self._looks: dict[int, str] = {}
        self._values: dict[int, set[int]] = {}

    def note(self, leaves) -> tuple[tuple, list[int]]:
        """The part of a call's key that integers make, and the places of its free integers."""
        places = [at for at, leaf in enumerate(leaves) if type(leaf) is int]
        for at in places:
            if leaves[at] != self._first.setdefault(at, leaves[at]) and at not in self._looks:
                self._free.add(at)
        free = [at for at in places if at in self._free]
        return tuple((at, leaves[at]) for at in places if at not in self._free), free

    def fix(self, looks: dict[int, str]) -> None:
        """Makes these a part of the key from now on; `looks`: the use of each that depends on its value."""
        self._free -= looks.keys()
        self._looks.update(looks)

    def obstacle(self, leaves, function, spec) -> str:
        """Of a traced call: the reason, once an integer on which something depends has had many values; or empty."""
        for at, look in self._looks.items():
            values = self._values.setdefault(at, set())
            values.add(leaves[at])
            if len(values) > _VALUES_MOST:
                del self._values[at]
                return (
                    f"each new value of {_name_of(function, spec, len(leaves), at)} is another step, as {look}; leave "
                    "it out, compute outside what depends on it, or pass a float for a number of ops"
                )
        return ""


def _name_of(function, spec, count: int, at: int) -> str:
    """A name for a leaf of the arguments."""
    if isinstance(spec, tuple):
        position, name = (at, None) if at < spec[0] else (None, spec[1 + at - spec[0]])
    else:
        paths: Any
        paths, _ = pytree.tree_flatten_with_path(pytree.tree_unflatten(list(range(count)), spec))
        group, place = paths[at][0][:2]
        is_position = group.idx == 0  # of (args, kwargs)
        position, name = (place.idx, None) if is_position else (None, place.key)
    try:
        known = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        known = []
    if position is not None and position < len(known):
        name = known[position]
    return f"its argument '{name}'" if name else "an integer of its arguments"
