# SPDX-License-Identifier: Apache-2.0
"""Publish: the only exit for values."""

from __future__ import annotations

import contextlib
import os
import sys
import threading

import torch
from torch.utils import _pytree as pytree

import _sojourn

from .errors import Refused, ValueNeeded

_LIBRARIES = (os.path.dirname(torch.__file__) + os.sep, os.path.dirname(__file__) + os.sep)


class _OpenStep(threading.local):
    """Where the thread's open step publishes: a refusal that comes with its reply names these lines."""

    def __init__(self):
        self.lines: list[str] = []


_open = _OpenStep()


def _callers_line() -> str:
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_LIBRARIES):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def forget_lines() -> None:
    """What a dropped step published will not be refused."""
    _open.lines.clear()


@contextlib.contextmanager
def naming_lines():
    """Around whatever ends a step: adds the lines that published in it to a refusal."""
    try:
        yield
    except Refused as refusal:
        if _open.lines:
            raise Refused(f"{refusal} [published at {', '.join(dict.fromkeys(_open.lines))}]") from None
        raise
    finally:
        _open.lines.clear()


class Published:
    """Values on their way out: the same tree as was published, with CPU tensors for leaves.

    Filled by the reply of the step it was made in; reading it earlier raises `ValueNeeded`. On CPU
    tensors the same class holds the values, so one script serves both.
    """

    def __init__(self, leaves: list, spec):
        self._leaves = leaves
        self._spec = spec
        self._step = _sojourn.current_step()

    @property
    def ready(self) -> bool:
        """Whether `value` can be read."""
        return not self._waits() and all(
            not isinstance(leaf, _sojourn.Published) or leaf.ready for leaf in self._leaves
        )

    def _waits(self) -> bool:
        return self._step != 0 and self._step == _sojourn.current_step()

    @property
    def value(self):
        """The tree of CPU tensors."""
        if self._waits():
            raise ValueNeeded(
                "a value published inside a step is filled by the step's reply; read it after the step has ended"
            )
        self._leaves = [leaf.value() if isinstance(leaf, _sojourn.Published) else leaf for leaf in self._leaves]
        return pytree.tree_unflatten(self._leaves, self._spec)

    def item(self):
        """The number in a published tensor of one element."""
        return self.value.item()

    def __float__(self) -> float:
        return float(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __format__(self, spec: str) -> str:
        return format(self.item() if spec else self, spec) if spec else repr(self)

    def __repr__(self) -> str:
        return f"Published({self.value!r})" if self.ready else "Published(<filled when the step ends>)"


def publish(tree):
    """Asks the owner for values. `tree`: a tensor or any nesting of lists, tuples and dicts of them.

    Outside a step: ends the implicit step (one round trip) and returns the tree with CPU tensors.
    Inside a step: returns a `Published`, filled by the step's own reply. CPU tensors pass through
    as copies. Raises `Refused` where the owner's policy keeps a value.
    """
    leaves, spec = pytree.tree_flatten(tree)
    remote = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.device.type == "owner"]
    states = iter(())
    if remote:
        states = iter(_sojourn.publish(remote))
        _open.lines.append(_callers_line())
    values = []
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            values.append(next(states) if leaf.device.type == "owner" else leaf.detach().clone())
        else:
            values.append(leaf)
    published = Published(values, spec)
    if _sojourn.step_active():
        return published
    if remote:
        with naming_lines():
            _sojourn.flush()
    return published.value
