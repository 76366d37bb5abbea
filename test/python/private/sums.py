# SPDX-License-Identifier: Apache-2.0
"""Clipped sums of recorded steps by torch.func, and how they are compared."""

from __future__ import annotations

import copy

import numpy as np
import torch
from private_step import PrivateStep, reached

PARTS_OF_A_BATCH = {"half_batch": (range(4), 2.0), "every_second": (range(0, 8, 2), 2.0)}


def per_sample(r) -> dict[str, np.ndarray]:
    """By torch in float64, per parameter [slots, *shape]: the part of the loss's gradient that each row has."""
    loss, model, y = r.case.single or r.case.loss, copy.deepcopy(r.model).double(), r.y
    x = r.x.double() if r.x.is_floating_point() else r.x
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    class Called:
        def __init__(self, values):
            self.values = values

        def __call__(self, *inputs):
            return torch.func.functional_call(model, self.values, inputs)

        def parameters(self):
            return self.values.values()

    def one(values, row, label):
        return loss(Called(values), row[None], None if label is None else label[None])

    gradient = torch.func.grad(one)
    try:
        found = torch.func.vmap(gradient, in_dims=(None, 0, None if y is None else 0))(parameters, x, y)
    except (RuntimeError, NotImplementedError):  # nn.LSTM and others have no batching rule
        rows = [gradient(parameters, x[k], None if y is None else y[k]) for k in range(len(x))]
        found = {name: torch.stack([row[name] for row in rows]) for name in parameters}
    scale = 1 / len(x) if r.case.mean else 1.0
    return {name: g.numpy() * scale for name, g in found.items()}


def options_of(r, bound: float, more: str = "") -> str:
    """Options for a bound in units of the graph's gradients."""
    clip = bound * len(r.rows) if r.case.mean else bound
    return f"{r.bounds} clip={clip!r} {'' if r.case.mean else 'loss-is-sum'} {more}"


def clipped(parts: list, factors) -> np.ndarray:
    return sum(part * factor for part, factor in zip(parts, factors))


def assert_close(found, expected, scale: float, what: str, tolerance: float):
    worst = np.abs(found.reshape(-1) - expected.reshape(-1)).max(initial=0.0) / scale
    assert worst <= tolerance, f"{what} differs by {worst:.3g} of {scale:.3g}"


def coin_of(step: PrivateStep, state: int) -> int:
    """The coin that reaches the commit of a state."""
    commits = [k for k, result in enumerate(step.program.results) if result.kind == "commit" and result.target == state]
    (coin,) = [coin for coin in step.coins if set(commits) & reached(step.program, coin)]
    return coin


def by_torch(r, tolerance: float) -> PrivateStep:
    """Compares what a private step sums with torch's per-sample gradients, about half of them clipped."""
    gradients = per_sample(r)
    if r.name in PARTS_OF_A_BATCH:
        keep, scale = PARTS_OF_A_BATCH[r.name]
        for g in gradients.values():
            g *= scale
            g[[k for k in range(len(r.rows)) if k not in keep]] = 0
    step = PrivateStep(r.program, r.text, options_of(r, 1.0))
    owners = {name: coin_of(step, r.argument_of(name)) for name in gradients}
    # Parameters whose gradients are one value are released once.
    released = {coin: name for name, coin in owners.items()}
    square = sum((gradients[name].reshape(len(r.rows), -1) ** 2).sum(1) for name in released.values())
    norms = np.sqrt(square)
    bound = float(np.median(norms[norms > 0]))
    step = PrivateStep(r.program, r.text, options_of(r, bound))
    sums = step.sums(step.run(step.args(r.args)))
    factors = np.minimum(1, bound / np.maximum(norms, 1e-300))
    assert (factors < 1).any() and (factors == 1).any()
    assert set(released) == set(step.sites[0].coins)
    for parameter, coin in owners.items():
        assert_close(
            sums[coin],
            clipped(list(gradients[parameter]), factors),
            bound,
            f"{r.name}: {parameter}",
            tolerance,
        )
    return step
