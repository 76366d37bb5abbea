# SPDX-License-Identifier: Apache-2.0
"""What `sojourn.compile` asks of a step: its inputs, the batches that it takes, its results and its state."""

from __future__ import annotations

import inspect
import json

import torch
from torch.utils import _pytree as pytree

import _sojourn

from . import checks
from .checks import shown
from .errors import Error
from .specs import NAME_MOST, spec, table_spec
from .table import Batches, Table


class State:
    """The result of `init`: its tensors on the recording device, and their nesting."""

    def __init__(self, index: int):
        self._device = torch.device("owner", index)
        self.made: object = None
        self.description = ""

    def tensors(self) -> list[torch.Tensor]:
        """Called after the steps, which may have replaced a module's tensors."""
        leaves, tree = pytree.tree_flatten(self.made)
        held = [dict(leaf.state_dict()) if isinstance(leaf, torch.nn.Module) else leaf for leaf in leaves]
        leaves, tree = pytree.tree_flatten(pytree.tree_unflatten(held, tree))
        read = [isinstance(leaf, torch.Tensor) and leaf.device == self._device for leaf in leaves]
        if not any(read):
            return []
        try:
            self.description = json.dumps({"read": read, "tree": pytree.treespec_dumps(tree)})
        except (NotImplementedError, TypeError):
            return []  # of a class that no file can name
        return [leaf.detach() for leaf, is_read in zip(leaves, read) if is_read]


def specs_of(inputs) -> tuple[spec, ...]:
    """The inputs, which must be a sequence of `spec`."""
    given = None if isinstance(inputs, (str, bytes, spec)) else tuple(checks.iterable("inputs", inputs))
    if given is None or not all(isinstance(entry, spec) for entry in given):
        raise Error(f"inputs must be a sequence of sojourn.spec(shape, dtype) or sojourn.number(), got {shown(inputs)}")
    return given


def names_of(step_fn, inputs: tuple[spec, ...], before: int) -> list[str]:
    """Names of the inputs: their own, else those of the function's parameters behind the first ones."""
    try:
        parameters = list(inspect.signature(step_fn).parameters.values())
    except (TypeError, ValueError):  # of C
        parameters = []
    kinds = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    found = [each.name if each.name.isascii() else "" for each in parameters if each.kind in kinds]
    shown = [name[:NAME_MOST] for name in found[before:]] + [""] * len(inputs)
    return [entry.name or name for entry, name in zip(inputs, shown)]


def need_all_published(leaves: list, states: list) -> None:
    """A run returns what the step published, in that order, so the step has to return just this."""
    returned = [getattr(leaf, "recorded", None) for leaf in leaves]
    if len(returned) != len(states) or any(one is not other for one, other in zip(returned, states)):
        raise Error(
            "a compiled step must return the values that it publishes, each once and in the order of publishing; it "
            f"published {len(states)} and returned {len(leaves)} values, not all the same in this order: return the "
            "results of publish, or return tensors and publish none"
        )


def loops_of(recorder, tables: dict, batches) -> list[Batches]:
    """The batches from which each step takes the next."""
    named = [entry.party for entry in tables.values() if isinstance(entry, table_spec) and entry.party is not None]
    recorder.set_parties(list(dict.fromkeys(named)))
    if not tables and batches is None:
        return []
    if not tables or not callable(batches):
        raise Error(
            "tables and batches must be given together: tables={'train': sojourn.table_spec(...)} describes the "
            "owner's tables, batches=lambda train: train.batches(...) returns the batches of the steps"
        )
    for name, described in tables.items():
        if not isinstance(name, str) or not isinstance(described, table_spec):
            raise Error(f"tables must map names to sojourn.table_spec(...), got {shown(name)}: {shown(described)}")
    made = {name: Table(_sojourn.spec_table(recorder, name, *entry._described())) for name, entry in tables.items()}
    loops = batches(**made)
    loops = [loops] if isinstance(loops, Batches) else loops
    if not isinstance(loops, (list, tuple)) or not all(isinstance(loop, Batches) for loop in loops):
        raise Error(
            f"batches must return the result of table.batches(...) or a list of such results, got {shown(loops)}"
        )
    return list(loops)
