# SPDX-License-Identifier: Apache-2.0
"""What the scripts of the zoo have in common: a model, its batches and everybody's training loop."""

from __future__ import annotations

import torch
import torch.nn.functional as F

STEPS = 50


def state_of(optimizer):
    """What an optimizer keeps of its parameters, and the numbers of its groups, by name."""
    kept = optimizer.state_dict()
    found = {f"{index} {key}": value for index, held in kept["state"].items() for key, value in held.items()}
    return found | {f"group {at} {key}": x for at, group in enumerate(kept["param_groups"]) for key, x in group.items()}


class Script:
    """One training run. A subclass says `build()`, `batch(i)` and `loss(...)`; the rest is everybody's loop."""

    optimizer = staticmethod(lambda parameters: torch.optim.Adam(parameters, lr=1e-3))
    batches = 4  #: that the run goes round and round

    def __init__(self, place, dtype):
        self.place, self.dtype = place, dtype
        torch.manual_seed(11)
        self.draws = torch.Generator().manual_seed(12)
        self.model = self.build().to(dtype)
        self.model.to(place)
        self.optimizers = self.make_optimizers()
        self.prepare()
        self.data = [self.batch() for _ in range(self.batches)]

    def make_optimizers(self):
        return [self.optimizer(self.model.parameters())]

    def prepare(self):
        """Once the model is where it trains."""

    def randn(self, *sizes):
        return torch.randn(*sizes, generator=self.draws, dtype=torch.float64).to(self.dtype)

    def randint(self, most, *sizes):
        return torch.randint(most, sizes, generator=self.draws)

    def images(self, channels, size, count=8, classes=10):
        return self.randn(count, channels, size, size), self.randint(classes, count)

    def step(self, i):
        batch = [x.to(self.place) for x in self.data[i % self.batches]]
        (optimizer,) = self.optimizers
        optimizer.zero_grad()
        loss = self.loss(*batch)
        loss.backward()
        optimizer.step()
        return loss

    def loss(self, x, y):
        return F.cross_entropy(self.model(x), y)

    def state(self):
        """All that the run leaves, by name: parameters, buffers, and what optimizers keep."""
        found = dict(self.model.state_dict())
        for number, optimizer in enumerate(self.optimizers):
            found |= {f"optimizer {number} {name}": value for name, value in state_of(optimizer).items()}
        return found

    def parameters(self):
        return sum(p.numel() for p in self.model.parameters())
