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
    """Moves a module's parameters and buffers to `owner` (an `Owner`, a group, or its device); returns the module.

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
    swap = torch.utils.swap_tensors
    torch.utils.swap_tensors = functools.wraps(swap)(lambda t1, t2: exchange(t1, t2) if _swapping.now else swap(t1, t2))
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
    """Keeps parameters, ties, shared buffers and optimizers intact during a move.

    torch creates new parameters where it cannot exchange their memory; in here it exchanges what the objects stand for.
    """
    shared = _shared_buffers(module)
    before, _swapping.now = _swapping.now, True
    try:
        yield
    except RuntimeError as failure:
        if isinstance(failure.__cause__, Error):  # torch's says less
            raise failure.__cause__ from failure.__cause__.__cause__
        raise
    finally:
        _swapping.now = before
        for places in shared:
            first_module, first_name = places[0]
            for other, name in places[1:]:
                other._buffers[name] = first_module._buffers[first_name]


def exchange(moved: torch.Tensor, other: torch.Tensor) -> None:
    """Makes `moved` the tensor that `other` is; class, attributes and hooks of `moved` stay.

    `torch.utils.swap_tensors` refuses a tensor that an autograd graph uses. Here the graph keeps the tensor of before,
    with its values, and its gradients are added to `moved.grad`.
    """
    hooks, late_hooks = moved._backward_hooks, moved._post_accumulate_grad_hooks
    try:
        torch._C._swap_tensor_impl(moved, other)
    except RuntimeError as failure:
        raise Error(
            f"a {type(moved).__name__} of shape {tuple(moved.shape)} cannot move, because a weak reference of C++ holds "
            f"it ({failure}); move the module before it is compiled or traced"
        ) from failure
    if hooks:
        moved._backward_hooks = hooks
    if late_hooks:
        moved._post_accumulate_grad_hooks = late_hooks
    held = other._use_count() > 1  # type: ignore[attr-defined]  # torch's stubs leave it out
    if held and other.is_leaf and other.requires_grad:
        other.register_post_accumulate_grad_hook(functools.partial(_deliver, moved))


def _deliver(parameter: torch.Tensor, before: torch.Tensor) -> None:
    """Adds the gradient of a graph from before a move to the moved parameter's, and runs its hooks."""
    slope, before.grad = before.grad, None
    assert slope is not None
    slope = slope.to(parameter.device, parameter.dtype)
    if parameter.grad is None:
        parameter.grad = slope
    elif torch.is_grad_enabled():  # create_graph=True
        parameter.grad = parameter.grad + slope
    else:
        parameter.grad.add_(slope)
    for hook in tuple((parameter._post_accumulate_grad_hooks or {}).values()):
        hook(parameter)


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
