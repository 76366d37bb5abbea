# SPDX-License-Identifier: Apache-2.0
"""A thousand steps each: whatever varies from step to step, nothing compiles once each kind of step was seen twice.

Each case is an ordinary script, run beside itself on the CPU; what it logs, and what it has trained, has to agree. Its
kinds of steps return after `period` steps, so that all were seen twice after two periods.
"""

import gc

import pytest
import torch
import torch.nn.functional as F
from remote_support import shared_owner
from torch import nn
from torch.utils.checkpoint import checkpoint

import sojourn

STEPS, PROGRAMS = 1000, 8
DTYPE = torch.float64


@pytest.fixture
def owner():
    """Clients compile: the owner's runtime makes no difference."""
    return shared_owner("native")


class Script:
    """One run at a place. `step(i)` logs what it wants compared."""

    optimizer = torch.optim.SGD
    rate = 0.01
    period = 100

    def __init__(self, place):
        self.place = place
        torch.manual_seed(3)
        self.model = self.build().to(DTYPE)
        self.model.to(place)
        self.opt = self.optimizer(self.model.parameters(), lr=self.rate)
        self.x = torch.randn(8, 4, dtype=DTYPE, generator=torch.Generator().manual_seed(1))
        self.y = torch.randn(8, 1, dtype=DTYPE, generator=torch.Generator().manual_seed(2))
        self.logged = []
        self.begin()

    def build(self):
        return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))

    def begin(self):
        pass

    def batch(self, i):
        return (self.x + i % 5).to(self.place), self.y.to(self.place)

    def loss(self, i, x, y):
        return F.mse_loss(self.model(x), y)

    def step(self, i):
        x, y = self.batch(i)
        self.opt.zero_grad()
        loss = self.loss(i, x, y)
        loss.backward()
        self.opt.step()
        self.after(i, loss)

    def after(self, i, loss):
        if i % 50 == 0:
            self.log(loss)

    def log(self, value):
        self.logged.append(float(value.detach()))

    def finish(self):
        """After the last step."""

    def trained(self):
        return [p.detach().cpu() for p in self.model.parameters()]


class Plain(Script):
    pass


class Schedule(Script):
    def begin(self):
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, 300)

    def after(self, i, loss):
        self.schedule.step()
        super().after(i, loss)


class Adam(Script):
    optimizer, rate = torch.optim.Adam, 1e-3


class AdamW(Adam):
    optimizer = torch.optim.AdamW

    def begin(self):
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(self.opt, 1e-2, total_steps=STEPS)

    def after(self, i, loss):
        self.schedule.step()
        super().after(i, loss)


class Accumulation(Script):
    def step(self, i):
        x, y = self.batch(i)
        loss = self.loss(i, x, y) / 4
        loss.backward()
        if i % 4 == 3:
            self.opt.step()
            self.opt.zero_grad()
        self.after(i, loss)


class Checkpointed(Script):
    def loss(self, i, x, y):
        hidden = checkpoint(self.model[0], x, use_reentrant=False)
        return F.mse_loss(self.model[2](torch.tanh(hidden)), y)


class Dropout(Script):
    """Other draws than on the CPU: what is compared is that the losses fall alike."""

    def build(self):
        return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.1), nn.Linear(8, 1))

    def log(self, value):
        pass

    def trained(self):
        return []


class ShortLastBatch(Script):
    period = 350  # of a short batch whose loss is logged

    def batch(self, i):
        x, y = super().batch(i)
        return (x[:3], y[:3]) if i % 7 == 6 else (x, y)


class TrainAndEval(Script):
    def build(self):
        return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1))

    def after(self, i, loss):
        super().after(i, loss)
        if i % 10 == 9:
            self.model.eval()
            with torch.no_grad():
                value = self.loss(i, *self.batch(3))
            if i % 50 == 49:
                self.log(value)
            self.model.train()


class KeptLosses(Script):
    def begin(self):
        self.losses = []

    def after(self, i, loss):
        self.losses.append(loss.detach())

    def finish(self):
        self.logged.append(float(torch.stack(self.losses).mean()))


class KeptWithGraph(Script):
    """Twenty losses, with the graphs behind them, at a time."""

    def begin(self):
        self.losses = []

    def after(self, i, loss):
        self.losses = [*self.losses[-19:], loss]
        super().after(i, loss)


class Garbage(Script):
    """What a step leaves lives in cycles until the collector comes, at its own times."""

    def loss(self, i, x, y):
        hidden = torch.tanh(self.model[0](x))
        cycle = [hidden, hidden * 2]
        cycle.append(cycle)
        if i % 37 == 5:
            gc.collect()
        loss = F.mse_loss(self.model[2](hidden), y)
        cycle = [loss * 1, x + 1]
        cycle.append(cycle)
        if i % 41 == 7:
            gc.collect()
        return loss

    def after(self, i, loss):
        if i % 41 == 7:
            self.log(loss)


class Logging(Script):
    def after(self, i, loss):
        if i % 10 == 0:
            self.log(loss)
            self.log(self.model[0].weight.grad.norm())


class HiddenState(Script):
    def build(self):
        return nn.ModuleList([nn.LSTMCell(4, 8), nn.Linear(8, 1)])

    def begin(self):
        self.hidden = None

    def loss(self, i, x, y):
        h, c = self.model[0](x, self.hidden)
        self.hidden = h.detach(), c.detach()
        return F.mse_loss(self.model[1](h), y)


class Slices(Script):
    def begin(self):
        self.data = torch.randn(STEPS + 20, 4, dtype=DTYPE, generator=torch.Generator().manual_seed(5)).to(self.place)
        self.target = torch.randn(STEPS + 20, 1, dtype=DTYPE, generator=torch.Generator().manual_seed(6)).to(self.place)

    def batch(self, i):
        return self.data[i : i + 8], self.target[i + 1 : i + 9]


class Columns(Slices):
    """Epochs over parts of one tensor: a loop over `split`, and a column by number."""

    def batch(self, i):
        return self.data.split(8)[i % 100], self.data[8 * (i % 100) : 8 * (i % 100) + 8, i % 4].unsqueeze(1)


class Buffers(Script):
    """A ring of what was predicted, written and read by index."""

    def begin(self):
        self.ring = torch.zeros(64, 8, dtype=DTYPE, device=self.place)

    def loss(self, i, x, y):
        out = self.model(x)
        self.ring[i % 64] = out.detach().squeeze(1)
        return F.mse_loss(out, y) + 0.01 * (out.squeeze(1) - self.ring[(i - 7) % 64]).square().mean()

    def trained(self):
        return [*super().trained(), self.ring.cpu()]


class IntegerWeight(Script):
    def loss(self, i, x, y):
        out = self.model(x)
        return (
            F.mse_loss(out, y) * (i % 9) / 9
            + (i % 7) * 1e-3 * out.square().mean()
            + F.mse_loss(out * (1 + i % 3), y) / (i + 1)
        )


class Counted(Script):
    """An integer counter at the place of the data, and ranges that begin at the step's number."""

    def begin(self):
        self.count = torch.zeros((), dtype=torch.int64, device=self.place)

    def loss(self, i, x, y):
        self.count += i
        positions = torch.arange(i, i + 8, device=self.place).to(DTYPE)[:, None]
        return F.mse_loss(self.model(torch.cat([x[:, :3], torch.sin(positions)], 1)), y)

    def after(self, i, loss):
        if i % 100 == 99:
            self.log(self.count)


SCRIPTS = [Plain, Schedule, Adam, AdamW, Accumulation, Checkpointed, Dropout, ShortLastBatch, TrainAndEval, KeptLosses,
           KeptWithGraph, Garbage, Logging, HiddenState, Slices, Columns, Buffers, IntegerWeight, Counted]  # fmt: skip


@pytest.mark.parametrize("declared", [False, True], ids=["undeclared", "step"])
@pytest.mark.parametrize("make", SCRIPTS, ids=lambda script: script.__name__)
def test_a_thousand_steps(owner, seed, make, declared):
    there, here = make(owner.device), make("cpu")
    step = there.step
    if declared:
        there.log = lambda value: None  # no reads inside of steps
        step = sojourn.step(there.step)
    sojourn.flush()
    compiles = []
    for i in range(STEPS):
        before = owner.counters()["programs_compiled"]
        step(i)
        compiles += [i] * (owner.counters()["programs_compiled"] - before)
    print(f"{make.__name__} compiled at steps {compiles}")
    assert len(compiles) <= PROGRAMS and all(i < 2 * make.period for i in compiles), sojourn.explain()
    for i in range(STEPS):
        here.step(i)
    if not declared:
        torch.testing.assert_close(torch.tensor(there.logged), torch.tensor(here.logged), rtol=1e-8, atol=1e-8)
    there.finish()
    here.finish()
    if there.logged:
        assert there.logged[-1] == pytest.approx(here.logged[-1], rel=1e-8)
    for ours, theirs in zip(there.trained(), here.trained(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-8)
