# SPDX-License-Identifier: Apache-2.0
"""Frameworks that move models: no model leaves an owner for the CPU without a word."""

from __future__ import annotations

import os
import sys
import warnings

from . import connections

_trusted: set[str] = set()
_told: set[str] = set()

_WAYS = {
    "lightning": "Trainer(accelerator=sojourn.integrations.lightning.OwnerAccelerator(owner))",
    "accelerate": "sojourn.integrations.accelerate.use(owner) before the Accelerator is created",
    "transformers": "sojourn.integrations.accelerate.use(owner) before the TrainingArguments are created",
}
_WAYS["pytorch_lightning"] = _WAYS["lightning"]


def trust(*libraries: str) -> None:
    """Notes that the user has told these libraries of an owner; their moves to the CPU get no warning."""
    _trusted.update(libraries)


def tell_of_move(depth: int) -> None:
    """Warns once for each library that moves a model from an owner to the CPU. `depth`: frames up to the mover."""
    library = library_of(sys._getframe(depth + 1).f_code.co_filename)
    if library is None or library in _trusted or library in _told:
        return
    _told.add(library)
    way = _WAYS.get(library, "give it owner.device")
    warnings.warn(
        f"{library} moves a model from its owner to the CPU and would train there; to train at the owner: {way}; if the "
        "model is meant to leave, move it before: model.cpu()",
        stacklevel=connections.callers_depth(),
    )


def library_of(file: str) -> str | None:
    """The installed library that a file belongs to; None for a script's file and for Python's own."""
    if connections.is_users(file):
        return None
    for mark in (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}"):
        _, found, rest = file.rpartition(mark)
        if found:
            return rest.split(os.sep)[0].removesuffix(".py")
    return None
