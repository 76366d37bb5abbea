# SPDX-License-Identifier: Apache-2.0
"""Moving modules (and the optimizers built on them) to an owner."""

from __future__ import annotations

import torch

from .errors import Error


def to_owner(module: torch.nn.Module, owner, optimizer: torch.optim.Optimizer | None = None) -> torch.nn.Module:
    """Moves a module's parameters and buffers to `owner`; returns the module. Identity if `owner` is None.

    Parameters stay the same objects, so ties and the optimizer's references hold; an optimizer that
    has stepped already has its state moved too. Raises `Error` for an optimizer that was built on
    other parameters (a stale one updates nothing that is used).
    """
    if owner is None:
        return module
    device = owner.device
    if optimizer is not None:
        _check_optimizer(module, optimizer)
    shared = _shared_buffers(module)
    swapping = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        module.to(device)
    except RuntimeError as failure:
        if "swap" in str(failure):
            raise Error(
                f"the parameters of {type(module).__name__} are still used by an autograd graph ({failure}); "
                "drop the losses and outputs computed from it, then call to_owner again"
            ) from failure
        raise
    finally:
        torch.__future__.set_swap_module_params_on_conversion(swapping)
    for places in shared:
        first_module, first_name = places[0]
        for other, name in places[1:]:
            other._buffers[name] = first_module._buffers[first_name]
    if optimizer is not None:
        _move_state(optimizer, device)
    return module


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
