# SPDX-License-Identifier: Apache-2.0
"""The module `torch.owner`, the Python interface that torch expects of a device."""

from __future__ import annotations

import types
from typing import Any

import torch

import _sojourn


class _Device:
    """Context that makes `owner:index` current."""

    def __init__(self, index):
        self._index = torch.device("owner", index).index if isinstance(index, int) else torch.device(index).index or 0

    def __enter__(self):
        self._previous = torch._C._accelerator_exchangeDevice(self._index)

    def __exit__(self, *exception):
        torch._C._accelerator_exchangeDevice(self._previous)
        return False


def _states():
    return [torch.Generator("owner").get_state()]


def install() -> None:
    """Registers `torch.owner` and `Tensor.owner()`, `Module.owner()`, `Tensor.is_owner`, once."""
    if hasattr(torch, "owner"):
        return
    module: Any = types.ModuleType("torch.owner", "Device module of Sojourn's owners.")
    module.is_available = lambda: _sojourn.connected_count() > 0
    module.is_initialized = lambda: True
    module.device_count = _sojourn.connected_count
    module.current_device = lambda: torch._C._accelerator_getDeviceIndex()
    module.set_device = lambda index: torch._C._accelerator_setDeviceIndex(torch.device("owner", index).index)
    module.device = _Device
    module.synchronize = lambda device=None: None
    module.empty_cache = lambda: None
    module._is_in_bad_fork = lambda: False
    # Seeds are drawn from torch's CPU generator, which torch.manual_seed has set already.
    module.manual_seed = lambda seed: None
    module.manual_seed_all = lambda seed: None
    module.get_rng_state = lambda device="owner": torch.Generator("owner").get_state()
    module.set_rng_state = lambda state, device="owner": None
    module.get_rng_state_all = _states
    module.set_rng_state_all = lambda states: None
    module.get_amp_supported_dtype = lambda: [torch.bfloat16, torch.float16]
    torch._register_device_module("owner", module)
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=False)
