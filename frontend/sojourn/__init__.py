# SPDX-License-Identifier: Apache-2.0
"""Sojourn: ordinary PyTorch on data that stays with its owner.

::

    owner = sojourn.local()
    table = owner.register("patients", "patients.csv", policy="open")
    model = nn.Linear(30, 2)
    optimizer = torch.optim.Adam(model.parameters())
    sojourn.to_owner(model, owner, optimizer)

    @sojourn.step
    def train(x, y):
        ...

    for x, y in table.batches(features=[...], label="y", size=64, epochs=3):
        loss = train(x, y)              # one round trip
    print(sojourn.publish(loss))
"""

import os as _os

import torch as _torch

import _sojourn

from . import device as _device
from . import errors as _errors
from . import tensor as _tensor
from .ahead import Program, compile, load, number, offline, spec
from .errors import ConnectionLost, Error, OwnerError, Refused, Unsupported, ValueNeeded, VersionMismatch
from .module import to_owner
from .owner import Owner, connect, local
from .philox import batch_indices
from .plain import plain
from .publish import Published, publish
from .step import flush, step
from .table import Table

_sojourn.install(_errors, _os.path.dirname(_torch.__file__) + _os.sep, _os.path.dirname(__file__) + _os.sep)
_device.install()
_tensor.install()

__version__ = "0.1.0"


def counters() -> dict[str, int]:
    """Counters since start, summed over open connections.

    round_trips, bytes_up, bytes_down; ops_recorded; shapes_from_rules and shapes_from_python
    (metas of Python, never used by these rules); programs_compiled, cache_hits; steps,
    steps_dropped; uploads; live_handles (values kept at owners for this process).
    """
    total: dict[str, int] = {}
    for counts in _sojourn.all_counters():
        for name, value in counts.items():
            total[name] = total.get(name, 0) + value
    total["shape_sources"] = {
        "rules": total.pop("shapes_from_rules", 0),
        "python": total.pop("shapes_from_python", 0),
    }
    return total


__all__ = [
    "ConnectionLost",
    "Error",
    "Owner",
    "OwnerError",
    "Program",
    "Published",
    "Refused",
    "Table",
    "Unsupported",
    "ValueNeeded",
    "VersionMismatch",
    "batch_indices",
    "compile",
    "connect",
    "counters",
    "flush",
    "load",
    "local",
    "number",
    "offline",
    "plain",
    "publish",
    "spec",
    "step",
    "to_owner",
]
