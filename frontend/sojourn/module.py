# SPDX-License-Identifier: Apache-2.0
"""Moving modules (and the optimizers built on them) to an owner and back."""

from __future__ import annotations

import contextlib
import functools
import itertools
import threading

import torch

from . import frameworks, reads
from .checks import shown
from .errors import Error


def to_owner(module: torch.nn.Module, owner, optimizer: torch.optim.Optimizer | None = None) -> torch.nn.Module:
    """Moves a module's parameters and buffers to `owner` (an `Owner`, or its device); returns the module.

    Same as `module.to(owner.device)`, but also moves the state of an `optimizer` that has already stepped. Parameters
    stay the same objects, so ties and the optimizer's references hold. Does nothing if `owner` is None. Raises `Error`
    for an optimizer built on other parameters, which would not update the module.
    """
    if not isinstance(module, torch.nn.Module):
        raise Error(f"to_owner moves a torch.nn.Module, got {shown(module)}; tensor.to(owner.device) moves a tensor")
    if optimizer is not None and not isinstance(optimizer, torch.optim.Optimizer):
        raise Error(f"optimizer must be a torch.optim.Optimizer, got {shown(optimizer)}")
    if owner is None:
        return module
    device = device_of(owner)
    if optimizer is not None:
        _check_optimizer(module, optimizer)
    module.to(device)
    if optimizer is not None:
        _move_state(optimizer, device)
    return module


def device_of(owner) -> torch.device:
    """The device of an `Owner`, or an owner's device itself."""
    place = getattr(owner, "device", owner)
    try:
        device = torch.device(place)
    except (RuntimeError, TypeError):
        device = None
    if device is None or device.type != "owner":
        where = "" if device is None else f"; module.to({str(device)!r}) moves it there"
        raise Error(f"expected an owner or its device, got {shown(owner)}{where}")
    return device


class _Swapping(threading.local):
    """Whether this thread moves a module across the border; torch's own switch is one for all threads."""

    now = False


_swapping = _Swapping()


def install() -> None:
    """Makes modules keep their parameters when they move to or from an owner; installed once."""
    if hasattr(torch.nn.Module.to, "_sojourn"):
        return
    asked = torch.__future__.get_swap_module_params_on_conversion
    torch.__future__.get_swap_module_params_on_conversion = functools.wraps(asked)(lambda: _swapping.now or asked())
    _keep_parameters("to", lambda *args, **kwargs: torch._C._nn._parse_to(*args, **kwargs)[0])
    _keep_parameters("to_empty", lambda *, device, recurse=True: device)
    _keep_parameters("cpu", lambda: "cpu")
    _keep_parameters("owner", lambda index=0: f"owner:{index}")


def _keep_parameters(name, target):
    original = getattr(torch.nn.Module, name)

    @functools.wraps(original)
    def method(self, *args, **kwargs):
        try:
            device = target(*args, **kwargs)
        except (TypeError, RuntimeError):
            device = None  # torch says what is wrong
        if device is None or not _crosses(self, torch.device(device)):
            return original(self, *args, **kwargs)
        leaves = torch.device(device).type != "owner"
        if leaves:
            frameworks.tell_of_move(depth=1)
        with reads.together(self if leaves else []), _in_place(self):
            return original(self, *args, **kwargs)

    method._sojourn = True  # type: ignore[attr-defined]  # a mark of ours
    setattr(torch.nn.Module, name, method)


def _crosses(module, device) -> bool:
    """Whether a tensor of the module moves to or from an owner."""
    places = {tensor.device.type for tensor in itertools.chain(module.parameters(), module.buffers())}
    return bool(places - {device.type}) and "owner" in {device.type, *places}


@contextlib.contextmanager
def _in_place(module):
    """Keeps parameters, ties and optimizers intact during a move.

    torch creates new parameters where it cannot exchange their memory. Its swapping keeps the parameters, except
    their classes and attributes and shared buffers, which are restored here.
    """
    parameters = [(parameter, type(parameter), dict(vars(parameter))) for parameter in module.parameters()]
    shared = _shared_buffers(module)
    before, _swapping.now = _swapping.now, True
    try:
        yield
    except RuntimeError as failure:
        if "swap" in str(failure):
            raise Error(
                f"the parameters of {type(module).__name__} are still used by an autograd graph ({failure}); "
                "drop the losses and outputs computed from it, then move it again"
            ) from failure
        raise
    finally:
        _swapping.now = before
        for parameter, kind, attributes in parameters:
            if type(parameter) is not kind:
                parameter.__class__ = kind
            vars(parameter).update(attributes)
        for places in shared:
            first_module, first_name = places[0]
            for other, name in places[1:]:
                other._buffers[name] = first_module._buffers[first_name]


def _check_optimizer(module, optimizer):
    known = {id(parameter) for parameter in module.parameters()}
    stale = [p for group in optimizer.param_groups for p in group["params"] if id(p) not in known]
    if stale:
        raise Error(
            f"{type(optimizer).__name__} holds {len(stale)} parameters that are not in this "
            f"{type(module).__name__}; build the optimizer on module.parameters() and pass both together"
        )


def _move_state(optimizer, device):
    for state in optimizer.state.values():
        for key, value in state.items():
            # A 0-dim CPU tensor is a step counter, which lives on the host.
            if isinstance(value, torch.Tensor) and value.dim() > 0 and value.device != device:
                state[key] = value.to(device)


def _shared_buffers(module):
    places: dict[int, list] = {}
    for child in module.modules():
        for name, buffer in child._buffers.items():
            if buffer is not None:
                places.setdefault(id(buffer), []).append((child, name))
    return [found for found in places.values() if len(found) > 1]
