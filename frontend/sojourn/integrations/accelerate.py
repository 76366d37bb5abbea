# SPDX-License-Identifier: Apache-2.0
"""Hugging Face's `accelerate.Accelerator` and `transformers.Trainer` on an owner's device."""

from __future__ import annotations

import os
import sys

import torch

from ..errors import Error
from ..frameworks import trust
from ..module import device_of

#: The variable by which accelerate (1.0 or newer) and transformers take a device that they do not know.
VARIABLE = "ACCELERATE_TORCH_DEVICE"


def use(owner) -> torch.device:
    """Lets `accelerate.Accelerator()` and `transformers.Trainer` train at `owner` (an `Owner`, or its device).

    ::

        sojourn.integrations.accelerate.use(owner)
        accelerator = accelerate.Accelerator()
        model, optimizer = accelerator.prepare(model, optimizer)

    Sets the environment variable ACCELERATE_TORCH_DEVICE, so both also see the owner if the variable is set by hand.
    accelerate chooses its device once for each process. Raises `Error` if it has already chosen another one. Returns
    the device.
    """
    device = device_of(owner)
    state = getattr(sys.modules.get("accelerate.state"), "PartialState", None)
    chosen = state._shared_state.get("device") if state is not None else None
    if chosen is not None and chosen != device:
        raise Error(
            f"accelerate has already chosen device '{chosen}' in this process; call "
            "sojourn.integrations.accelerate.use(owner) before the first Accelerator, Trainer or TrainingArguments"
        )
    os.environ[VARIABLE] = str(device)
    trust("accelerate", "transformers")
    return device
