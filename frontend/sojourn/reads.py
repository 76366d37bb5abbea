# SPDX-License-Identifier: Apache-2.0
"""Values that a script reads outside of steps, as on any device, and the cost of such reads."""

from __future__ import annotations

import itertools
import sys
import threading
import warnings
import weakref

import torch
from torch.compiler import is_compiling
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils import _pytree as pytree

import _sojourn

from . import connections, frameworks
from .checks import flag
from .errors import ValueNeeded


class _Told(threading.local):
    """Of a thread: extra round trips by line, whether it refuses them, and whether it reads many values at once."""

    def __init__(self):
        self.lines: dict[tuple, int] = {}
        self.strict = self.together = False


_told = _Told()


class strict:
    """Refuses reads that cost a separate round trip, in the calling thread; `ValueNeeded` names the line.

    ::

        sojourn.strict()       # from here on
        sojourn.strict(False)  # no longer
        with sojourn.strict():
            ...

    It never refuses these reads: a read right after a step's end, which travels with the step; a repeated read of an
    unchanged value, which costs nothing; and `torch.save`, which reads all its values at once.
    """

    def __init__(self, on: bool = True):
        self._before, _told.strict = _told.strict, flag("on", on)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        _told.strict = self._before
        return False


_WAY_OUT = "read it right after optimizer.step(), publish it in the step that computes it, or accumulate on the device"


def _before(is_extra: bool) -> None:
    if is_extra and _told.strict and not _told.together:
        frame = sys._getframe(connections.callers_depth() - 1)
        line = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        raise ValueNeeded(f"a value is read at {line}, which costs a separate round trip; {_WAY_OUT}")


def _after(is_extra: bool) -> None:
    """After values have arrived: a read that was refused costs nothing, and gets no hint."""
    if is_extra and not _told.together:
        _hint()
    connections.tell()


def _hint() -> None:
    depth = connections.callers_depth() - 1
    frame = sys._getframe(depth)
    if not connections.is_users(frame.f_code.co_filename):
        return  # nobody here can change that line
    line = (frame.f_code.co_filename, frame.f_lineno)
    reader = connections.reader()
    place = (*line, reader.f_code.co_filename, reader.f_lineno)
    _told.lines[place] = _told.lines.get(place, 0) + 1
    library = frameworks.library_of(reader.f_code.co_filename)
    # One that runs once is not worth a word; libraries look at sizes in pairs as they start.
    if _told.lines[place] < (2 if library is None else 3) or line in _told.lines:
        return
    _told.lines[line] = 1
    said = f"a value is read here, which costs a separate round trip to the owner each time; {_WAY_OUT}"
    if library is not None:
        said = (
            f"{library} reads values here, each of which costs a separate round trip to the owner; fewer logs, "
            "metrics and progress bars read fewer values"
        )
    warnings.warn(f"{said} (reported once per line)", stacklevel=depth + 1)


def value(tensor: torch.Tensor) -> torch.Tensor:
    """A dense CPU copy of a remote tensor, without a graph."""
    return _sojourn.read_values([tensor.detach()])[0].clone()


def remote_leaves(tree) -> list[torch.Tensor]:
    """The remote tensors of a tree, or of a module with its gradients."""
    if isinstance(tree, torch.nn.Module):
        parameters = list(tree.parameters())
        tree = [*parameters, *tree.buffers(), *(each.grad for each in parameters if each.grad is not None)]
    leaves = (leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor))
    return [leaf.detach() for leaf in leaves if leaf.device.type == "owner"]


class together:
    """Fetches the values of a tree in one round trip; reads inside the block use them."""

    def __init__(self, tree):
        self._tensors = remote_leaves(tree)

    def __enter__(self):
        if self._tensors and not _sojourn.step_active():
            _told.together = True
            try:
                _sojourn.read_values(self._tensors, keep=True)
            finally:
                _told.together = False

    def __exit__(self, *exception):
        _sojourn.forget_read(self._tensors)
        return False


_numbers: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
_count = itertools.count()


def _after_optimizer_step(optimizer, args, kwargs):
    # torch.compile folds the first condition, and then sees none of ours.
    if not is_compiling() and not _sojourn.step_active():
        number = _numbers.get(optimizer)
        if number is None:
            number = _numbers[optimizer] = next(_count)
        _sojourn.mark_step(number)


def install() -> None:
    """Installs the listener and the hook, once."""
    _sojourn.set_read_listener(_before, _after)
    register_optimizer_step_post_hook(_after_optimizer_step)
