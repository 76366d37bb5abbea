# SPDX-License-Identifier: Apache-2.0
"""Sources of the numbers that ops take: float arguments, rates of optimizers, and torch's computations from those."""

from __future__ import annotations

from typing import Any

import torch

import _sojourn

KNOWN_OPTIMIZERS = (
    torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adamax, torch.optim.Adagrad,
    torch.optim.Adadelta, torch.optim.RMSprop, torch.optim.RAdam, torch.optim.NAdam,
)  # fmt: skip
"""Optimizers whose ops follow from their options and whose numbers frontend/replay/Rates.h computes."""


def takes_lists(group: dict) -> bool:
    """Whether a step of RAdam whose counts are on the host runs in its form for lists, whose ops are the same in every
    step. The other form chooses by the count."""
    return not group["differentiable"] and group["eps"] > 0


def obstacle_of(optimizer) -> str:
    """The reason why steps of an optimizer cannot be replayed, or an empty text."""
    name = type(optimizer).__name__
    if type(optimizer) not in KNOWN_OPTIMIZERS:
        return f"the numbers that {name} computes from its step count are unknown"
    if type(optimizer) is torch.optim.RAdam and not all(
        group["capturable"] or takes_lists(group) for group in optimizer.param_groups
    ):
        return "RAdam chooses its ops by its step count where differentiable=True or eps=0; give it capturable=True"
    return ""


def is_counter(name: str, value) -> bool:
    """Whether an entry of an optimizer's state counts its steps on the host."""
    return (
        name == "step"
        and isinstance(value, torch.Tensor)
        and value.device.type == "cpu"
        and value.dtype in (torch.float32, torch.float64)
        and value.numel() == 1
    )


def is_product(name: str, value) -> bool:
    """Whether an entry of an optimizer's state is NAdam's product of momenta on the host."""
    return name == "mu_product" and is_counter("step", value)


def host_state(optimizer) -> dict[tuple, tuple[float, Any]]:
    """Numbers that an optimizer keeps on the host, with their holders, by parameter and name."""
    return {
        (parameter, name): (float(value), value)
        for parameter, state in optimizer.state.items()
        for name, value in state.items()
        if isinstance(value, (int, float))
        or (isinstance(value, torch.Tensor) and value.device.type == "cpu" and value.numel() == 1)
    }


def rates_of(optimizer) -> list:
    """Names and values of its float hyper-parameters, by group."""
    return [_sojourn.rates_of(group) for group in optimizer.param_groups]


def changed_on_host(optimizers, rates, before) -> tuple[str, list[torch.Tensor]]:
    """Changes on the host that a replay would not repeat, and the counters that advanced by one step."""
    advanced = []
    for optimizer, then, state in zip(optimizers, rates, before):
        if rates_of(optimizer) != then:
            return "it changes an optimizer's rates; call the scheduler after the step", []
        for (parameter, name), (value, holder) in host_state(optimizer).items():
            grown = value - state.get((parameter, name), (value, None))[0]
            if grown == 1 and is_counter(name, holder):
                advanced.append(holder)
            elif grown and not (type(optimizer) is torch.optim.NAdam and is_product(name, holder)):
                return f"{type(optimizer).__name__} keeps '{name}' on the host, which is not a step count", []
    return "", advanced


class Numbers:
    """Possible sources of a call's numbers: base numbers (float arguments, rates) and numbers computed from them."""

    def __init__(self, optimizers, floats: list[float], advanced: list[torch.Tensor]):
        moving = set(map(id, advanced))
        groups = []
        self.products: list[tuple[torch.Tensor, int]] = []  # with the place of their group among those that have some
        places = 0
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                states = [optimizer.state[p] for p in group["params"] if p in optimizer.state]
                states = [state for state in states if is_counter("step", state.get("step"))]
                advancing = [state for state in states if id(state["step"]) in moving]
                counts = [state["step"] for state in advancing or states]
                products = [s["mu_product"] for s in advancing if is_product("mu_product", s.get("mu_product"))]
                self.products += [(product, places) for product in products]
                places += bool(products)
                rectifies = type(optimizer) is torch.optim.RAdam and not group["capturable"]
                groups.append((group, counts, bool(advancing), rectifies, products))
        self.sources = _sojourn.NumberSources(groups)
        self.base, self.values = self.read(floats, after_call=True)

    def read(self, floats: list[float], after_call: bool = False) -> tuple[list[float], list[float]]:
        """`after_call`: the call has advanced its counters. The formulas are in frontend/replay/Rates.h."""
        return self.sources.read(floats, after_call)
