# SPDX-License-Identifier: Apache-2.0
"""Objects that a traced call uses beside its arguments: modules, optimizers, tensors of the host."""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref

import numpy
import torch
from torch.compiler import is_compiling
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

import _sojourn

from .gradients import is_leaf
from .memory import REACHED_MOST, bytes_of, is_plain
from .rates import is_counter, is_product


class _Tracing(threading.local):
    """Of the thread's traced call: the modules that run and optimizers that step, and its computations on the host."""

    def __init__(self):
        self.uses: Uses | None = None
        self.host: HostOps | None = None


tracing = _Tracing()


class Uses:
    """Modules and optimizers of alike calls, in the order of first use. Keeps none alive."""

    def __init__(self, other: Uses | None = None):
        self._modules: dict[int, weakref.ref] = dict(other._modules) if other else {}
        self._optimizers: dict[int, weakref.ref] = dict(other._optimizers) if other else {}

    def add_module(self, module) -> None:
        for part in module.modules():
            self._modules.setdefault(id(part), weakref.ref(part))

    def add_optimizer(self, optimizer) -> None:
        self._optimizers.setdefault(id(optimizer), weakref.ref(optimizer))

    def prune(self) -> None:
        """Forgets objects that lived for one call only."""
        for known in (self._modules, self._optimizers):
            for key in [key for key, reference in known.items() if reference() is None]:
                del known[key]

    @property
    def modules(self) -> list:
        return [module for reference in self._modules.values() if (module := reference()) is not None]

    @property
    def optimizers(self) -> list:
        return [optimizer for reference in self._optimizers.values() if (optimizer := reference()) is not None]

    def references(self) -> tuple[list, list]:
        """Weak references to modules and to optimizers."""
        return list(self._modules.values()), list(self._optimizers.values())

    def __eq__(self, other):
        return self._modules == other._modules and self._optimizers == other._optimizers

    def parameters(self) -> list[torch.Tensor]:
        found: dict[int, torch.Tensor] = {}
        for module in self.modules:
            found.update((id(p), p) for p in module._parameters.values() if p is not None)
        for optimizer in self.optimizers:
            found.update((id(p), p) for group in optimizer.param_groups for p in group["params"])
        return list(found.values())

    def state(self) -> list[torch.Tensor]:
        """Buffers, and optimizer state at the owner."""
        found = [b for module in self.modules for b in module._buffers.values() if b is not None]
        for optimizer in self.optimizers:
            for state in optimizer.state.values():
                found += [v for v in state.values() if isinstance(v, torch.Tensor) and v.device.type == "owner"]
        return found

    def places(self) -> dict[tuple, weakref.ref]:
        """Parameters, buffers, submodules and optimizers' state, by what holds each of them."""
        found: dict[tuple, weakref.ref] = {}
        for module in self.modules:
            for held in (module._parameters, module._buffers, module._modules):
                found |= {(id(held), name): weakref.ref(value) for name, value in held.items() if value is not None}
        for optimizer in self.optimizers:
            for at, group in enumerate(optimizer.param_groups):
                found |= {(id(optimizer), at, index): weakref.ref(p) for index, p in enumerate(group["params"])}
            for parameter, state in optimizer.state.items():
                tensors = ((name, value) for name, value in state.items() if isinstance(value, torch.Tensor))
                found |= {(id(optimizer), id(parameter), name): weakref.ref(value) for name, value in tensors}
        return found

    def exchanges(self, before: dict[tuple, weakref.ref]) -> str:
        """The reason not to replay a call after which a place has what another one had, or an empty text."""
        earlier = {id(value) for reference in before.values() if (value := reference()) is not None}
        for place, reference in self.places().items():
            if place in before and before[place]() is not (value := reference()) and id(value) in earlier:
                return "it exchanges tensors of a module or an optimizer, which a replay would leave in their places"
        return ""

    def structure(self):
        """Modes, options and the objects in their places; of numbers only whether they are 0."""
        return _sojourn.Structure(self.modules, self.optimizers)


def before_module(module, args):
    if tracing.uses is not None:
        tracing.uses.add_module(module)


def _before_optimizer(optimizer, args, kwargs):
    if not is_compiling() and tracing.uses is not None and tracing.host is not None:
        tracing.uses.add_optimizer(optimizer)
        tracing.host.add_counters(optimizer)


register_optimizer_step_pre_hook(_before_optimizer)


class HostOps(TorchDispatchMode):
    """Notes the first op of a traced call that computes with an earlier CPU tensor, which no replay would repeat.

    Not such an op: the upload of such a tensor to an owner (`sent` has these tensors), ops on optimizers' step counts,
    which replays advance, and ops on tensors that the call itself makes from constants. `arrays`: NumPy's arrays that
    were uploaded through a copy.
    """

    def __init__(self):
        super().__init__()
        self.found = ""
        self.sent: dict[int, torch.Tensor] = {}  # by id
        self.arrays: dict[int, numpy.ndarray] = {}  # by id
        self._known: set[int] = set()
        self._made: list[torch.Tensor] = []  # alive, so that no other tensor gets its id

    def add_array(self, array) -> None:
        if is_plain(array):
            self.arrays[id(array)] = array

    def read(self, function, given: list[torch.Tensor]) -> list[torch.Tensor]:
        """Host memory that the call may have read, without that of the tensors given to it."""
        taken = set(map(id, given))
        found = [tensor for at, tensor in self.sent.items() if at not in taken]
        reached = {id(array): array for array in reached_from(function) if is_plain(array)}
        for array in reached.values():
            if array.nbytes > REACHED_MOST and not self.found:
                self.found = (
                    f"it reaches an array of {array.nbytes >> 20} MB, and comparing that at each call takes too long; "
                    "pass what it needs of the array as a tensor"
                )
        return found + [bytes_of(array) for array in {**reached, **self.arrays}.values() if not self.found]

    def add_counters(self, optimizer) -> None:
        for state in optimizer.state.values():
            self._known.update(
                id(value) for name, value in state.items() if is_counter(name, value) or is_product(name, value)
            )

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        given = [t for t in pytree.tree_leaves((args, kwargs or {})) if isinstance(t, torch.Tensor)]
        host = [t for t in given if t.device.type == "cpu"]
        made = [t for t in pytree.tree_leaves(result) if isinstance(t, torch.Tensor) and t.device.type == "cpu"]
        # What torch.tensor(...) makes of Python's numbers comes through lift_fresh.
        earlier = [t for t in host if id(t) not in self._known]
        if func is not torch.ops.aten.lift_fresh.default and earlier:
            if not made and any(t.device.type == "owner" for t in (*given, *_tensors(result))):
                self.sent.update((id(t), t) for t in earlier)
            elif not self.found:
                self.found = f"it computes with a CPU tensor ({func}); do that outside, or at the owner"
        else:
            self._known.update(map(id, made))
            self._made += made
        return result


def _tensors(tree) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def reached_from(function):
    """Objects that a function can reach: closure, defaults, globals by its names, and its `__self__`."""
    while isinstance(function, functools.partial):
        yield from (*function.args, *function.keywords.values())
        function = function.func
    yield getattr(function, "__self__", None)
    function = getattr(function, "__func__", function)
    yield from getattr(function, "__defaults__", None) or ()
    yield from (getattr(function, "__kwdefaults__", None) or {}).values()
    for cell in getattr(function, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # not filled yet
            yield cell.cell_contents
    code = getattr(function, "__code__", None)
    if code is not None:
        yield from (function.__globals__[name] for name in code.co_names if name in function.__globals__)


def unfit(leaves, uses: Uses) -> str:
    """The reason why calls with these arguments, modules and optimizers cannot be replayed, or an empty text."""
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad and not is_leaf(leaf):
            return "an argument has an autograd graph from outside of the step"
        if not isinstance(leaf, torch.Tensor) and hasattr(leaf, "__array__"):
            return f"an argument is an array ({type(leaf).__name__}), whose numbers Python may read; pass a tensor"
    for optimizer in uses.optimizers:
        if any(
            isinstance(v, torch.Tensor) and v.device.type == "cpu" for g in optimizer.param_groups for v in g.values()
        ):
            return "an optimizer has a rate that is a CPU tensor; give a float"
    if any(tensor.device.type != "owner" for tensor in (*uses.parameters(), *uses.state())):
        return "it uses parameters or buffers that are not at an owner"
    if torch.is_autocast_enabled("owner") and torch.is_autocast_cache_enabled():
        return "autocast around the step keeps casts of weights from call to call; open autocast inside the step"
    return ""
