# SPDX-License-Identifier: Apache-2.0
"""Runs of the zoo's scripts at a place, what they leave, and how far it may be from what eager leaves."""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch
from zoo_script_support import STEPS, Script
from zoo_support import ZOO

import sojourn


class Run(NamedTuple):
    losses: torch.Tensor
    state: dict  #: tensors on the CPU and numbers, by name
    trips: int  #: the most of one step
    programs: int  #: compiled in all
    script: Script


def run(make, place, dtype, steps=STEPS, change=lambda script: None, declared=False) -> Run:
    """Trains; in declared steps the loss is published, else it is read."""
    script = make(place, dtype)
    change(script)
    sojourn.flush()
    before, trips, most, losses = compiled(), trips_needed(), 0, []
    step = sojourn.step(lambda i: sojourn.publish(script.step(i).detach())) if declared else script.step
    for i in range(steps):
        losses.append(step(i).item())
        now = trips_needed()
        most, trips = max(most, now - trips), now
    programs = compiled() - before
    return Run(torch.tensor(losses, dtype=torch.float64), left(script.state()), most, programs, script)


def trips_needed() -> int:
    """The owner of a long run forgets programs, and each then costs a trip more: without these."""
    counters = sojourn.counters()
    return counters.get("round_trips", 0) - counters.get("programs_resent", 0)  # none before the first owner


def compiled() -> int:
    return sojourn.counters().get("programs_compiled", 0)


def left(state):
    return {name: x.detach().cpu() if isinstance(x, torch.Tensor) else x for name, x in state.items()}


@functools.cache
def on_cpu(name, dtype) -> Run:
    return run(ZOO[name], "cpu", dtype)


def largest(x) -> float:
    return float(x.double().abs().max()) if x.numel() else 0.0


def differences(found, wanted):
    """How far each tensor of floats is from eager's, by name; all else is the same."""
    assert found.keys() == wanted.keys()
    far = {}
    for name, expected in wanted.items():
        if not isinstance(expected, torch.Tensor):
            assert found[name] == expected, f"{name}: {found[name]}, eager {expected}"
            continue
        assert found[name].dtype == expected.dtype and found[name].shape == expected.shape, name
        if expected.dtype.is_floating_point:
            far[name] = apart(found[name], expected)
            assert far[name] == far[name], f"{name}: no number"
        else:
            assert torch.equal(found[name], expected), name
    return far


def apart(found, wanted) -> float:
    return largest(found.double() - wanted.double())


#: float64, of a tensor's largest element. Measured: 3e-12 where a gradient is more than rounding.
TOLERANCE = 1e-10
#: Before a norm over a batch, and for attention's keys, a bias has no gradient but rounding, and Adam makes steps of
#: any sign of it, which a running mean follows. Measured: 2e-9.
DRIFTS, DRIFTING = 1e-7, ("bias", "running_mean")
#: Moments of a gradient that is rounding alone (1e-17) are as small as that.
NOTHING = 1e-14


def assert_near(found: Run, wanted: Run, what=""):
    """In float64: losses and state are eager's."""
    assert largest(found.losses - wanted.losses) <= TOLERANCE * largest(wanted.losses), found.losses - wanted.losses
    for name, far in differences(found.state, wanted.state).items():
        tolerance = DRIFTS if name.endswith(DRIFTING) else TOLERANCE
        assert far <= NOTHING + tolerance * largest(wanted.state[name]), f"{what}{name}: differs by {far}"


#: float32: how many times as far from eager as eager itself gets. Moments of rounding alone decide the number: they are
#: squares, and come to four times.
BAND = 8
#: ReLU's kink is met by some runs and not by others, then they part by a thousand times: one in three does in the
#: ResNet. The runs end when the band suffices.
MOST_RUNS = 16
ULP = 2.0**-23


def moved_by_an_ulp(tensors, generator):
    """Each element of the tensors goes up or down an ulp, or stays."""
    with torch.no_grad():
        for x in tensors:
            direction = torch.randint(-1, 2, x.shape, generator=generator).to(x.dtype)
            x.copy_(torch.where(direction == 0, x, torch.nextafter(x, direction * torch.inf)))


def moved(generator):
    """A change of a script: parameters and inputs begin an ulp apart."""
    inputs = lambda script: [x for batch in script.data for x in batch if x.is_floating_point()]
    return lambda script: moved_by_an_ulp([*script.model.parameters(), *inputs(script)], generator)


def outside_of_band(found: Run, wanted: Run, others):
    """In float32: what is further from eager's run than BAND times as far as any of the others, which are eager's too.

    Each tensor has its own band. Runs part in time: a step's loss is held to the most that any run differs by up to
    there. What no other run changes may differ by the ulps of its largest element.
    """
    losses, far = (found.losses - wanted.losses).abs(), differences(found.state, wanted.state)
    band = {name: ULP * largest(wanted.state[name]) for name in far}
    of_losses = torch.full_like(losses, ULP * largest(wanted.losses))
    for other in others:
        of_losses = of_losses.maximum((other.losses - wanted.losses).abs().cummax(0).values)
        band = {name: max(least, apart(other.state[name], wanted.state[name])) for name, least in band.items()}
        outside = {name: (far[name], least) for name, least in band.items() if not far[name] <= BAND * least}
        if not (losses <= BAND * of_losses).all():
            outside["losses"] = losses.tolist(), of_losses.tolist()
        if not outside:
            break
    return outside


def other_runs(name, seed):
    """Eager again: in float64, which rounds nowhere, and with parameters and inputs that begin an ulp apart."""
    yield on_cpu(name, torch.float64)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(MOST_RUNS):
        yield run(ZOO[name], "cpu", torch.float32, change=moved(generator))
