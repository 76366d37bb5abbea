# SPDX-License-Identifier: Apache-2.0
"""The key of a call: equal keys, alike calls, as far as arguments and torch's settings say."""

from __future__ import annotations

import math
import operator

import torch
from torch.overrides import _get_current_function_mode_stack
from torch.utils import _pytree as pytree
from torch.utils._device import DeviceContext

from .current import columns_of
from .gradients import is_leaf

_PLAIN = (torch.Tensor, float, int, str, bytes, type(None))


def flatten(args: tuple, kwargs: dict):
    """Leaves of the arguments and their structure; flat arguments skip pytree, which costs more than a small replay."""
    if all(isinstance(value, _PLAIN) for value in (*args, *kwargs.values())):
        return [*args, *kwargs.values()], (len(args), *kwargs)
    return pytree.tree_flatten((args, kwargs))


def keys_of(args, leaves) -> tuple | None:
    """The keys for `values_of`; None if a leaf is neither an argument nor the value of a dict."""
    keys = tuple(tuple(value) if type(value) is dict else None for value in args)
    values = values_of(args, keys)
    assert values is not None  # these are its own keys
    return keys if len(values) == len(leaves) and all(map(operator.is_, values, leaves)) else None


def values_of(args, keys: tuple) -> tuple | None:
    """The arguments, each dict replaced by its values. `keys`: of each argument those of the dict, None for no dict.

    None where the arguments have other keys.
    """
    if len(args) != len(keys):
        return None
    values: list = []
    for value, expected in zip(args, keys):
        if expected is None:
            values.append(value)
        elif type(value) is dict and tuple(value) == expected:
            values += value.values()
        else:
            return None
    return tuple(values)


def has_dicts(keys: tuple) -> bool:
    return any(each is not None for each in keys)


class Same:
    """An argument that is compared by identity."""

    def __init__(self, value):
        self._value = value

    def __eq__(self, other):
        return isinstance(other, Same) and self._value is other._value

    def __hash__(self):
        return id(self._value)


def key_of(leaves, spec) -> tuple:
    parts = [
        spec, torch.get_default_dtype(), _function_modes(), torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(), torch.is_autocast_enabled("owner") and torch.get_autocast_dtype("owner"),
    ]  # fmt: skip
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            parts += (leaf.device, leaf.dtype, leaf.shape, leaf.stride(), leaf.storage_offset(), leaf.requires_grad)
            parts += (leaf.is_conj(), leaf.is_neg())
            parts.append(leaf.requires_grad and is_leaf(leaf) and (None if leaf.grad is None else leaf.grad.stride()))
            columns = columns_of(leaf)
            parts.append(columns and tuple(columns))
        elif isinstance(leaf, float):
            # Python often asks for these; what else it decides by a number is noticed.
            parts += (float, leaf == 0, leaf == 1, leaf < 0, math.isfinite(leaf))
        elif type(leaf) is int:
            parts.append(int)  # its value is the business of Integers
        elif isinstance(leaf, (int, str, bytes, torch.dtype, torch.device, type(None))):
            parts += (type(leaf), leaf)
        else:
            parts.append(Same(leaf))
    return tuple(parts)


def _function_modes() -> tuple:
    """The open modes of torch's functions; for `with torch.device(...)` the device."""
    modes = _get_current_function_mode_stack()
    return tuple(mode.device if isinstance(mode, DeviceContext) else Same(mode) for mode in modes)
