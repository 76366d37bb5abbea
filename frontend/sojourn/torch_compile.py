# SPDX-License-Identifier: Apache-2.0
"""torch.compile and torch.export beside owners: each step is compiled anyway, so both leave remote tensors alone."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import torch

from . import connections
from .errors import Unsupported
from .tensor import is_remote

_told: list[bool] = []


def _is_at_owner(value, depth: int = 2) -> bool:
    """Whether a value is a remote tensor, or holds one: a module, an optimizer, a list."""
    if isinstance(value, torch.Tensor):
        return is_remote(value)
    if isinstance(value, torch.nn.Module):
        return any(map(is_remote, value.parameters())) or any(map(is_remote, value.buffers()))
    if isinstance(value, torch.optim.Optimizer):
        return any(is_remote(each) for group in value.param_groups for each in group["params"])
    if depth > 0 and isinstance(value, (list, tuple)):
        return any(_is_at_owner(each, depth - 1) for each in value)
    if depth > 0 and isinstance(value, dict):
        return any(_is_at_owner(each, depth - 1) for each in value.values())
    return False


def _hint() -> None:
    if not _told:
        _told.append(True)
        warnings.warn(
            "torch.compile does nothing for tensors at an owner, because each step is compiled there already; leave it "
            "out (reported once)",
            stacklevel=connections.callers_depth(),
        )


def _skipping(convert):
    """torch's conversion of a frame, which runs frames with remote tensors as they are, this time and inside."""
    from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy
    from torch._dynamo.types import ConvertFrameReturn

    @functools.wraps(convert)
    def converted(self, frame, cache_entry, frame_state):
        if _is_at_owner(list(frame.f_locals.values())):
            _hint()
            strategy = _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP)
            return ConvertFrameReturn(frame_exec_strategy=strategy, apply_to_code=False)
        return convert(self, frame, cache_entry, frame_state)

    return converted


def _install_compile() -> None:
    original = torch.compile

    @functools.wraps(original)
    def compile(*args, **kwargs):
        from torch._dynamo import convert_frame  # here, because importing it takes a second

        if not hasattr(convert_frame.CatchErrorsWrapper.__call__, "_sojourn"):
            call: Any = _skipping(convert_frame.CatchErrorsWrapper.__call__)
            call._sojourn = True  # a mark of ours
            wrapper: Any = convert_frame.CatchErrorsWrapper  # torch has no hook for it
            wrapper.__call__ = call
        return original(*args, **kwargs)

    torch.compile = compile


def _install_export() -> None:
    original = torch.export.export

    @functools.wraps(original)
    def export(mod, args=(), kwargs=None, **options):
        if _is_at_owner(mod) or _is_at_owner([*args]) or _is_at_owner(kwargs or {}):
            raise Unsupported(
                "torch.export takes no tensors at an owner; compile the step for later with sojourn.compile, or export "
                "a copy on the CPU: torch.export.export(copy.deepcopy(model).cpu(), args)"
            )
        return original(mod, args, kwargs, **options)

    torch.export.export = export


def install() -> None:
    """Installs both, once."""
    if not hasattr(torch.export.export, "_sojourn"):
        _install_compile()
        _install_export()
        torch.export.export._sojourn = True  # type: ignore[attr-defined]  # a mark of ours
