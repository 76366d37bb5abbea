# SPDX-License-Identifier: Apache-2.0
"""What the cases of libraries share: their list, the place where one runs, a plain training loop.

A case is a function of a place. It trains with its library at `place.device` and returns a `Run`: its losses, its
model, and other values that must agree. It runs once on CPU tensors and once at an owner; only the place differs.
"""

from __future__ import annotations

import dataclasses
import importlib
import pathlib
from collections.abc import Callable
from typing import Any

import torch

import sojourn

FOLDER = pathlib.Path(__file__).resolve().parent
#: The modules with cases.
MODULES = [path.stem for path in sorted(FOLDER.glob("cases_*.py"))]


@dataclasses.dataclass
class Place:
    """A device, its owner (None: the CPU), and an empty folder for files."""

    device: torch.device
    owner: sojourn.Owner | None
    folder: pathlib.Path


@dataclasses.dataclass
class Run:
    """What a case computed."""

    losses: list
    model: torch.nn.Module
    values: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Case:
    """`package`: its name at PyPI. `limit`: why it works in part only, as the table says it; empty: it works unchanged.
    `ends_on_cpu`: the library brings models back to the CPU after training, from every device. `still`: patterns of the
    names of parameters that no loss depends on but for rounding, which must stay; all others must change."""

    package: str
    about: str
    run: Callable[[Place], Run]
    limit: str
    ends_on_cpu: bool
    still: tuple[str, ...] = ()


_cases: dict[str, Case] = {}


def case(package: str, about: str, limit: str = "", ends_on_cpu: bool = False, still: tuple[str, ...] = ()):
    """Lists a function as the case of a library; `about` says in the table what it trains."""

    def enter(run):
        assert package not in _cases, f"two cases of {package}"
        _cases[package] = Case(package, about, run, limit, ends_on_cpu, still)
        return run

    return enter


def cases() -> dict[str, Case]:
    """All cases by package, in alphabetical order. Their modules import a library only where its case runs."""
    for name in MODULES:
        importlib.import_module(name)
    return dict(sorted(_cases.items()))


def fit(place: Place, model, data, loss_of, optimizer=torch.optim.SGD, **options) -> list[float]:
    """The plain loop of a script, over batches of CPU tensors; returns the losses."""
    model.to(place.device).train()
    options = options or {"lr": 0.05}
    trained = optimizer([parameter for parameter in model.parameters() if parameter.requires_grad], **options)
    losses = []
    for batch in data:
        batch = [tensor.to(place.device) for tensor in batch]
        trained.zero_grad()
        loss = loss_of(model, *batch)
        loss.backward()
        trained.step()
        losses.append(loss.item())
    return losses


def perceptron(inputs: int = 4, outputs: int = 3) -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(inputs, 16), torch.nn.Tanh(), torch.nn.Linear(16, outputs))


def batches(*draws: Callable[[], torch.Tensor], steps: int = 4) -> list[list[torch.Tensor]]:
    """`steps` batches of drawn tensors."""
    return [[draw() for draw in draws] for _ in range(steps)]
