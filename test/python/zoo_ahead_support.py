# SPDX-License-Identifier: Apache-2.0
"""The zoo's scripts as steps of their inputs alone: the same step traced, compiled without data, and in eager."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import NamedTuple

import torch
from zoo_support import ZOO

import sojourn


class Case(NamedTuple):
    """A step of a script. An artifact repeats one step, so that each other step of a script is another case."""

    name: str
    number: int = 0  #: of the step that is repeated
    batches: int = 1  #: that the step takes


CASES = {name: Case(name, batches=2 if name == "GPT, checkpointed" else 1) for name in ZOO} | {
    "ResNet, with a look": Case("ResNet", number=4),
    "nn.Transformer, with a look": Case("nn.Transformer", number=9),
}


class Form:
    """A script whose batches are arguments of the step.

    Counts and scheduled rates are tensors where the weights are, as an artifact needs them (`capturable`, and a rate
    that is an input); in eager they stay Python's.
    """

    def __init__(self, case: Case, place, dtype):
        self.case, self.is_eager = case, torch.device(place).type == "cpu"
        self.script = ZOO[case.name](place, dtype)
        self.batches, self.script.batches = self.script.data, case.batches
        self.schedule = getattr(self.script, "schedule", None)
        if self.schedule is not None:
            self.script.schedule = types.SimpleNamespace(step=lambda: None)  # the rate comes with the batch
        self.left: dict = {"model": self.script.model}
        average = getattr(self.script, "average", None)
        if average is not None:
            self.left["average"] = average
        self._set_groups(capturable=True)

    def _set_groups(self, **options):
        for group in () if self.is_eager else self._groups():
            group |= {key: value for key, value in options.items() if key in group}

    def _groups(self):
        return [group for optimizer in self.script.optimizers for group in optimizer.param_groups]

    def inputs(self, steps) -> Iterator[list[torch.Tensor]]:
        """CPU tensors of each step: batches, and where the script has a schedule the rate of its groups."""
        for step in range(steps):
            first = step * self.case.batches
            batches = [self.batches[(first + k) % len(self.batches)] for k in range(self.case.batches)]
            given = [x for batch in batches for x in batch]
            if self.schedule is not None:
                rate = self.schedule.base_lrs[0] * self.schedule.lr_lambdas[0](step)
                given.append(torch.tensor(rate, dtype=torch.float64))
            yield given

    def specs(self):
        return [sojourn.spec(tuple(x.shape), x.dtype) for x in next(self.inputs(1))]

    def step(self, *given):
        """Trains once; the loss."""
        if self.schedule is not None:
            *given, rate = given
            for group in self._groups():
                group["lr"] = float(rate) if self.is_eager else rate
        size = len(given) // self.case.batches
        # One batch for every number that the script asks for.
        batches = [tuple(given[at : at + size]) for at in range(0, len(given), size)]
        self.script.data = batches * 2 if self.case.batches == 1 else batches
        loss = self.script.step(self.case.number).detach()
        for at, optimizer in enumerate(self.script.optimizers):
            for index, held in optimizer.state_dict()["state"].items():
                self.left |= {f"optimizer {at} {index} {key}": x for key, x in held.items()}
        return loss


class Found(NamedTuple):
    losses: list[torch.Tensor]
    state: dict[str, torch.Tensor]


def flat(state) -> dict[str, torch.Tensor]:
    """Tensors of `Form.left`, or of the result of `Program.state`, by one name each."""
    found = {}
    for name, value in state.items():
        if isinstance(value, torch.nn.Module):
            value = value.state_dict()
        if isinstance(value, dict):
            found |= {f"{name} {key}": x for key, x in value.items()}
        else:
            found[name] = value
    return {name: x.detach() for name, x in found.items() if isinstance(x, torch.Tensor)}


def compiled(case: Case, dtype, **options):
    """The case without data and without an owner; `options` say whence the batches come, by default as inputs."""
    forms = []
    options = options or {"inputs": Form(case, "cpu", dtype).specs()}

    def init():
        forms.append(Form(case, device, dtype))
        return forms[-1].left  # which is complete after the steps

    with sojourn.offline() as device:
        return sojourn.compile(lambda *given: forms[-1].step(*given), init=init, **options)


def eager(case: Case, dtype, batches) -> Found:
    form = Form(case, "cpu", dtype)
    losses = [form.step(*given) for given in batches]
    return Found(losses, {name: x.clone() for name, x in flat(form.left).items()})


def traced(case: Case, dtype, batches, owner, draws: int) -> Found:
    """The script at an owner, a declared step for each batch, whose draws begin with `draws`."""
    form, losses = Form(case, owner.device, dtype), []
    sojourn.flush()
    torch.manual_seed(draws)
    for given in batches:
        with sojourn.step():
            losses.append(sojourn.publish(form.step(*(x.to(owner.device) for x in given))))
            form.script.data = []
    return Found([loss.value for loss in losses], at_owner(form, owner))


def at_owner(form: Form, owner) -> dict[str, torch.Tensor]:
    """The state of the script that is at its owner."""
    return dict(sojourn.publish({name: x for name, x in flat(form.left).items() if x.device == owner.device}))


def run_python(program, owner, draws: int, *given, **options) -> Found:
    """The losses of a run, and `Program.state`."""
    torch.manual_seed(draws)
    losses = program.run(owner, *given, **options)
    return Found(losses, flat(program.state()))
