# SPDX-License-Identifier: Apache-2.0
"""Lightning 2 on an owner's device: `Trainer(accelerator=OwnerAccelerator(owner))`, and `Fabric` likewise."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import torch

import _sojourn

from ..errors import Error
from ..frameworks import trust
from ..module import device_of

_found = [name for name in ("lightning", "pytorch_lightning") if importlib.util.find_spec(name) is not None]
if not _found:
    raise Error("sojourn.integrations.lightning needs Lightning 2: pip install lightning")
# By name: type checkers need not have it.
_pytorch = importlib.import_module({"lightning": "lightning.pytorch"}.get(_found[0], _found[0]))
_fabric = importlib.import_module({"lightning": "lightning.fabric"}.get(_found[0], "lightning_fabric"))
_Base: Any = _pytorch.accelerators.Accelerator


class OwnerAccelerator(_Base):  # type: ignore[misc]  # whose types are not installed
    """Lightning's view of an owner (an `Owner`, or its device).

    ::

        trainer = lightning.Trainer(accelerator=OwnerAccelerator(owner), devices=1, max_epochs=3)
        trainer.fit(module, table.batches(features, label="y", size=64))

    The trainer moves the module to the owner. Batches of a table are at the owner already; batches of a `DataLoader`
    are uploaded. As with Lightning's other accelerators, the module is on the CPU after `fit`. `lightning.Fabric` takes
    the same argument, and leaves modules at the owner.
    """

    def __init__(self, owner):
        self._device = device_of(owner)
        trust("lightning", "pytorch_lightning")

    def setup_device(self, device: torch.device) -> None:
        """Lightning knows no device of ours yet; `setup` says which."""

    def setup(self, trainer) -> None:
        strategy = trainer.strategy
        if not isinstance(strategy, _pytorch.strategies.SingleDeviceStrategy):
            raise Error(
                f"an owner is a single device, but the trainer has the strategy {type(strategy).__name__}; leave out "
                "strategy=, and give devices=1"
            )
        strategy._root_device = self._device

    def teardown(self) -> None:
        pass

    def get_device_stats(self, device) -> dict[str, Any]:
        return {}

    @staticmethod
    def parse_devices(devices):
        if isinstance(devices, (list, tuple)):
            devices = len(devices)
        if devices not in (1, "1", "auto"):
            raise Error(f"an owner is a single device: devices must be 1, got {devices!r}")
        return 1

    @staticmethod
    def get_parallel_devices(devices) -> list[torch.device]:
        return [torch.device("owner")]

    @staticmethod
    def auto_device_count() -> int:
        return 1

    @staticmethod
    def is_available() -> bool:
        return _sojourn.connected_count() > 0

    @staticmethod
    def name() -> str:
        return "owner"


def _place_fabric() -> None:
    """Fabric's strategy for one device gets the CPU for every accelerator but Lightning's, and asks ours nothing."""
    strategy = _fabric.strategies.SingleDeviceStrategy
    original = strategy.root_device.fget

    def root_device(self) -> torch.device:
        accelerator = self.accelerator
        return accelerator._device if isinstance(accelerator, OwnerAccelerator) else original(self)

    strategy.root_device = property(root_device)


_place_fabric()
