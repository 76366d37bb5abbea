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

from . import data as _data
from . import device as _device
from . import errors as _errors
from . import foreign as _foreign
from . import module as _module
from . import protocols as _protocols
from . import reads as _reads
from . import safetensors_files as _safetensors_files
from . import serialization as _serialization
from . import storage as _storage
from . import tensor as _tensor
from . import torch_checks as _torch_checks
from . import torch_compile as _torch_compile
from . import torch_optimizers as _torch_optimizers
from .ahead import Program, compile, load, offline
from .checks import flag as _flag
from .checks import integer as _integer
from .checks import number as _number
from .connections import INSTALLED as _INSTALLED
from .errors import (
    BudgetExhausted,
    ConnectionLost,
    DeadlineExceeded,
    Error,
    OwnerError,
    Refused,
    Unsupported,
    ValueNeeded,
    VersionMismatch,
)
from .loop import loop
from .module import to_owner
from .owner import Budget, Owner, connect, local
from .parties import Parties, average, parties, pooled
from .privacy import Quote, privacy
from .publish import ReleaseQuote, publish, quote
from .published import Published
from .reads import strict
from .receipt import Receipt
from .replay import explain
from .search import search
from .specs import number, spec, table_spec
from .step import flush, step
from .table import Table, plain
from .values import NamedValue, name

_sojourn.install(
    _errors, _os.path.dirname(_torch.__file__) + _os.sep, _os.path.dirname(__file__) + _os.sep, list(_INSTALLED)
)
_device.install()
_tensor.install()
_protocols.install()
_storage.install()
_module.install()
_data.install()
_torch_checks.install()
_torch_optimizers.install()
_foreign.install()
_reads.install()
_serialization.install()
_torch_compile.install()
_safetensors_files.install()

__version__ = "0.1.0"


def batch_indices(rows: int, size: int, seed: int, epoch: int, drop_last: bool = False) -> list[_torch.Tensor]:
    """The row numbers of each batch of one epoch, in the order that `Table.batches` uses.

    The last batch is short if `size` does not divide `rows`, unless `drop_last` leaves it out.
    The order is a keyed bijection, a Feistel network over Philox4x32-10 (see runtime/Philox.h):
    each row is in exactly one batch, so the rows of an epoch are distinct.
    """
    numbers = {"rows": rows, "size": size, "seed": seed, "epoch": epoch}
    whole = [_integer(name, value) for name, value in numbers.items()]
    return _sojourn.batch_indices(*whole, _flag("drop_last", drop_last))


def split_indices(rows: int, fraction: float, seed: int) -> tuple[_torch.Tensor, _torch.Tensor]:
    """The row numbers of the two tables that `Table.split(fraction, seed)` returns, each in its table's order."""
    return _sojourn.split_indices(_integer("rows", rows), _number("fraction", fraction), _integer("seed", seed))


def counters() -> dict[str, int]:
    """Counters since start, summed over all connections, closed ones too.

    - round_trips: those of steps and of queries
    - upload_parts: requests that carry large uploads ahead of a step
    - looks: queries for the progress of a message of many steps
    - bytes_up, bytes_down
    - ops_recorded
    - programs_compiled, cache_hits
    - programs_resent: programs that an owner had forgotten, each in an extra round trip
    - busy_retries: attempts at steps of a group that were repeated, because one of its owners was busy
    - steps, steps_dropped
    - uploads
    - live_handles: values kept at owners for this process
    - reads: round trips, or parts of them, for values that a script read outside of steps
    """
    return _sojourn.counters()


__all__ = [
    "Budget",
    "BudgetExhausted",
    "ConnectionLost",
    "DeadlineExceeded",
    "Error",
    "NamedValue",
    "Owner",
    "OwnerError",
    "Parties",
    "Program",
    "Published",
    "Quote",
    "Receipt",
    "Refused",
    "ReleaseQuote",
    "Table",
    "Unsupported",
    "ValueNeeded",
    "VersionMismatch",
    "average",
    "batch_indices",
    "compile",
    "connect",
    "counters",
    "explain",
    "flush",
    "load",
    "local",
    "loop",
    "name",
    "number",
    "offline",
    "parties",
    "plain",
    "pooled",
    "privacy",
    "publish",
    "quote",
    "search",
    "spec",
    "split_indices",
    "step",
    "strict",
    "table_spec",
    "to_owner",
]
