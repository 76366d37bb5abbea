# SPDX-License-Identifier: Apache-2.0
"""Optimizers and training helpers that look at values in Python. For remote tensors they use the same formulas over
tensors, or torch's own switch, so that a step reads no value. LBFGS searches by values and is unchanged."""

from __future__ import annotations

import functools
import math
import warnings

import torch
from torch.amp import grad_scaler
from torch.nn.utils import clip_grad
from torch.optim import _adafactor, asgd, radam
from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook

import _sojourn

from . import connections
from .errors import ValueNeeded
from .rates import takes_lists
from .tensor import is_remote

_TAKE_FOUND_INF = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad)
"""Optimizers whose fused forms take the decision to skip as a tensor."""


def _hint(text: str) -> None:
    warnings.warn(text, stacklevel=connections.callers_depth())


def _rates_at_owner(original):
    """ASGD with rates and counters at the owner: torch's form for CUDA graphs, in the precision of Python's numbers."""

    @functools.wraps(original)
    def step(params, grads, axs, mus, etas, state_steps, **kwargs):
        if kwargs["differentiable"] or not params or not all(map(is_remote, (*params, *mus, *etas))):
            return original(params, grads, axs, mus, etas, state_steps, **kwargs)
        wide_mus, wide_etas = ([number.to(torch.float64, copy=True) for number in numbers] for numbers in (mus, etas))
        steps = [count.to(param.device, torch.float64, copy=True) for count, param in zip(state_steps, params)]
        original(params, grads, axs, wide_mus, wide_etas, steps, **(kwargs | {"capturable": True, "foreach": False}))
        for kept, wide in zip((*mus, *etas), (*wide_mus, *wide_etas)):
            kept.copy_(wide.to(torch.get_default_dtype()))  # as torch's rates pass through tensors of that type
        for count in state_steps:
            count += 1

    return step


def _not_below(number: torch.Tensor, least: float) -> torch.Tensor:
    """Python's `max(least, number)`, which is `least` for NaN."""
    return torch.where(number > least, number, least)


def _adafactor_over_tensors(original):
    """Adafactor (Shazeer and Stern, arXiv:1804.04235; torch's variant) with norms that stay tensors, in float64 like
    Python's numbers."""

    @functools.wraps(original)
    def step(params, grads, row_vars, col_vars, variances, state_steps, **kwargs):
        scaled = kwargs.get("grad_scale") is not None or kwargs.get("found_inf") is not None  # which it refuses
        if scaled or not params or not all(map(is_remote, params)) or any(map(is_remote, state_steps)):
            return original(params, grads, row_vars, col_vars, variances, state_steps, **kwargs)
        lr, decay, eps2 = kwargs["lr"], kwargs["weight_decay"], kwargs["eps2"]
        for param, grad, rows, columns, variance, count in zip(
            params, grads, row_vars, col_vars, variances, state_steps, strict=True
        ):
            eps1 = torch.finfo(param.dtype).eps if kwargs["eps1"] is None else kwargs["eps1"]
            size = math.sqrt(param.numel())
            count += 1
            new_share = count.item() ** kwargs["beta2_decay"]
            most = 1 / math.sqrt(count.item())
            rate = lr.clamp(max=most) if isinstance(lr, torch.Tensor) else min(lr, most)
            rate = _not_below(param.norm(2).double() / size, eps2) * rate
            if kwargs["maximize"]:
                grad = -grad
            if decay != 0:
                param.mul_(1 - lr * decay)
            if grad.dim() > 1:
                rows.lerp_(grad.norm(dim=-1, keepdim=True).square() / grad.size(-1), new_share)
                columns.lerp_(grad.norm(dim=-2, keepdim=True).square() / grad.size(-2), new_share)
                estimate = (rows @ columns) / rows.mean(dim=-2, keepdim=True).clamp(min=eps1)
            else:
                variance.lerp_(grad * grad, new_share)
                estimate = variance
            update = estimate.clamp(min=eps1 * eps1).rsqrt() * grad
            rate = rate / _not_below(update.norm(2).double() / (size * kwargs["d"]), 1.0)
            wide = torch.promote_types(param.dtype, torch.float32)
            param.copy_(param.to(wide) - update.to(wide) * rate.to(wide))

    return step


def _rectifying_lists(original):
    """RAdam in torch's form for lists, whose ops are the same in every step, so that steps can be replayed."""

    @functools.wraps(original)
    def step(params, grads, exp_avgs, exp_avg_sqs, state_steps, **kwargs):
        if not kwargs["capturable"] and takes_lists(kwargs) and params and all(map(is_remote, params)):
            kwargs["foreach"] = True
        return original(params, grads, exp_avgs, exp_avg_sqs, state_steps, **kwargs)

    return step


def _loading(original):
    """Keeps NAdam's product of momenta on the CPU, also after its state was loaded. torch leaves a count of steps where
    it is: one from an owner would not go with parameters on the CPU."""

    @functools.wraps(original)
    def process(param, value, param_id, param_groups, key=None):
        if is_remote(value) and not is_remote(param):
            value = value.to(param.device)
        if key == "mu_product" and is_remote(param) and value.device.type == "cpu":
            (group,) = (group for group in param_groups if param_id in group["params"])
            if not group.get("capturable"):
                return value.to(param.dtype) if param.is_floating_point() else value
        return original(param, value, param_id, param_groups, key)

    return process


def _total_norm(original):
    """Inside a step a warning replaces the check for finite gradients, which would read a value."""

    @functools.wraps(original)
    def total_norm(tensors, norm_type=2.0, error_if_nonfinite=False, foreach=None):
        if error_if_nonfinite and _sojourn.step_active():
            tensors = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
            if any(map(is_remote, tensors)):
                _hint(
                    "error_if_nonfinite=True is ignored inside a step: the norm stays at the owner and is not "
                    "checked; publish the norm that clip_grad_norm_ returns and check it after the step, or clip "
                    "outside of explicit steps"
                )
                error_if_nonfinite = False
        return original(tensors, norm_type, error_if_nonfinite, foreach)

    return total_norm


def _takes_found_inf(optimizer) -> None:
    """Sets fused=True, with which GradScaler passes found_inf on and does not read it."""
    if type(optimizer) not in _TAKE_FOUND_INF or any(group["differentiable"] for group in optimizer.param_groups):
        raise ValueNeeded(
            f"inside a step GradScaler would read whether gradients are finite, to skip {type(optimizer).__name__}'s "
            "update; use SGD, Adam, AdamW or Adagrad, whose fused forms decide at the owner, or call it outside of "
            "explicit steps"
        )
    for group in optimizer.param_groups:
        group["fused"], group["foreach"] = True, False
        for param in group["params"]:
            state = optimizer.state.get(param, {})
            if isinstance(state.get("step"), torch.Tensor):
                state["step"] = state["step"].to(param.device, torch.float32)
    optimizer._step_supports_amp_scaling = True
    _hint(
        f"GradScaler inside a step: {type(optimizer).__name__} is switched to fused=True, which skips a step with "
        "non-finite gradients at the owner; pass fused=True to the optimizer"
    )


def _scaled_step(original):
    @functools.wraps(original)
    def step(self, optimizer, *args, **kwargs):
        if (
            self.is_enabled()
            and _sojourn.step_active()
            and not getattr(optimizer, "_step_supports_amp_scaling", False)
            and any(is_remote(param) for group in optimizer.param_groups for param in group["params"])
        ):
            _takes_found_inf(optimizer)
        return original(self, optimizer, *args, **kwargs)

    return step


def _differentiable_one_by_one(optimizer, args, kwargs) -> None:
    """Torch's SGD takes lists by default where a device has them, also for a step that is differentiated: lists write
    over values that its gradient needs. On CPU tensors its default is one by one."""
    for group in optimizer.param_groups:
        if group.get("differentiable") and group.get("foreach", True) is None and any(map(is_remote, group["params"])):
            group["foreach"] = False


def install() -> None:
    """Installs the replacements, once."""
    if hasattr(asgd.asgd, "_sojourn"):
        return
    register_optimizer_step_pre_hook(_differentiable_one_by_one)
    asgd.asgd = _rates_at_owner(asgd.asgd)
    asgd.asgd._sojourn = True  # type: ignore[attr-defined]  # a mark of ours
    radam.radam = _rectifying_lists(radam.radam)
    _adafactor.adafactor = _adafactor_over_tensors(_adafactor.adafactor)
    Optimizer._process_value_according_to_param_policy = staticmethod(  # type: ignore[method-assign]  # torch has no hook for it
        _loading(Optimizer._process_value_according_to_param_policy)
    )
    clip_grad._get_total_norm = torch.nn.utils.get_total_norm = _total_norm(clip_grad._get_total_norm)
    grad_scaler.GradScaler.step = _scaled_step(grad_scaler.GradScaler.step)  # type: ignore[method-assign]  # torch has no hook for it
