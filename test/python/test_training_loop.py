# SPDX-License-Identifier: Apache-2.0
"""What real training loops do around a step: results of the CPU, one round trip each, nothing compiled twice."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from training_support import MODELS, Meter, assert_same_script, draw, odd, state_of

import sojourn


@pytest.fixture
def network(rng):
    """Makes the same small network each time, and its random batches in float64."""
    features, hidden, size = draw(rng, 7), odd(rng, 9) + 2, draw(rng, 9)

    def make(*more):
        return nn.Sequential(nn.Linear(features, hidden), nn.Tanh(), *more, nn.Linear(hidden, 3)).double()

    def batch(rows=size):
        return torch.randn(rows, features).double(), torch.randint(0, 3, (rows,))

    make.batch, make.size = batch, size
    return make


def ordinary(module, optimizer, x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(module(x), y)
    loss.backward()
    optimizer.step()
    return loss


def test_kept_losses(network, counted, seed):
    """Losses kept in a list, and detached ones, are handles: they change no program."""

    def script(meter):
        module = network()
        optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
        meter.move(module, optimizer)
        step, losses, detached = meter.step(ordinary), [], []
        for _ in range(12):
            losses.append(step(module, optimizer, *network.batch()))
            detached.append(losses[-1].detach())
        return losses, detached, sum(detached), state_of(module, optimizer)

    assert_same_script(script, counted, seed).assert_steady(programs=2)


def test_dropped_and_kept_losses_alternate(network, embedded, seed):
    """Whether a loss is kept may differ from step to step; the programs are few."""

    def script(meter):
        module = network()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        meter.move(module, optimizer)
        step, losses = meter.step(ordinary), []
        for index in range(12):
            loss = step(module, optimizer, *network.batch())
            if index % 3 == 0:
                losses.append(loss)
            del loss
        return losses, state_of(module, optimizer)

    assert_same_script(script, embedded, seed).assert_steady(4)


@pytest.mark.parametrize("set_to_none", [True, False])
def test_accumulation_in_one_step(network, counted, seed, set_to_none):
    def accumulate(module, optimizer, *batches):
        optimizer.zero_grad(set_to_none)
        total = 0
        for x, y in zip(batches[::2], batches[1::2]):
            loss = F.cross_entropy(module(x), y) / 3
            loss.backward()
            total = total + loss.detach()
        optimizer.step()
        return total

    def script(meter):
        module = network()
        optimizer = torch.optim.AdamW(module.parameters(), lr=0.01)
        meter.move(module, optimizer)
        step = meter.step(accumulate)
        totals = [step(module, optimizer, *network.batch(), *network.batch(), *network.batch()) for _ in range(6)]
        return totals, state_of(module, optimizer)

    assert_same_script(script, counted, seed).assert_steady(programs=2)


def test_accumulation_over_steps(network, embedded, seed):
    """Every third step updates; after two rounds no program is new."""

    def micro(module, optimizer, x, y, update):
        loss = F.cross_entropy(module(x), y) / 3
        loss.backward()
        if update:
            optimizer.step()
            optimizer.zero_grad()
        return loss.detach()

    def script(meter):
        module = network()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
        meter.move(module, optimizer)
        step = meter.step(micro)
        losses = [step(module, optimizer, *network.batch(), index % 3 == 2) for index in range(15)]
        return losses, state_of(module, optimizer)

    assert_same_script(script, embedded, seed).assert_steady(6, programs=4)


@pytest.mark.parametrize("foreach", [None, True, False])
def test_clipping(network, counted, seed, foreach):
    def clipped(module, optimizer, x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(module(x), y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(module.parameters(), 0.05, foreach=foreach)
        nn.utils.clip_grad_value_(module.parameters(), 0.02, foreach=foreach)
        optimizer.step()
        return loss, norm

    def script(meter):
        module = network()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.5, momentum=0.9)
        meter.move(module, optimizer)
        step = meter.step(clipped)
        return [step(module, optimizer, *network.batch()) for _ in range(8)], state_of(module, optimizer)

    assert_same_script(script, counted, seed).assert_steady(programs=2)


def test_tied_weights(counted, rng, seed):
    """Embedding and head share one parameter, two norms one buffer."""
    words, width, size, length = odd(rng, 9) + 2, draw(rng, 6), draw(rng, 5), draw(rng, 6)

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.head = nn.Embedding(words, width), nn.Linear(width, words)
            self.head.weight = self.embedding.weight
            self.register_buffer("seen", torch.zeros(()))
            self.register_buffer("alias", self.seen)

        def forward(self, x):
            with torch.no_grad():
                self.seen += 1
            return self.head(torch.tanh(self.embedding(x)))

    def train(module, optimizer, x):
        optimizer.zero_grad()
        loss = F.cross_entropy(module(x).flatten(0, 1), x.flatten())
        loss.backward()
        optimizer.step()
        return loss

    def script(meter):
        module = Tied().double()
        # Conversion of dtype unties buffers on the CPU too.
        module.alias = module.seen
        optimizer = torch.optim.Adam(module.parameters(), lr=0.05)
        meter.move(module, optimizer)
        assert module.head.weight is module.embedding.weight and module.alias is module.seen
        step = meter.step(train)
        losses = [step(module, optimizer, torch.randint(words, (size, length))) for _ in range(8)]
        return losses, state_of(module, optimizer), module.alias

    assert_same_script(script, counted, seed).assert_steady(programs=2)


SCHEDULERS = {
    "step": lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 3, gamma=0.5),
    "cosine": lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10),
    "one-cycle": lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=20),
    "warm-up": lambda optimizer: torch.optim.lr_scheduler.LinearLR(optimizer, 0.01, total_iters=5),
}


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_scheduler_outside_the_step(network, embedded, seed, scheduler, foreach):
    """A learning rate (and OneCycle's momentum) that moves each step is a slot, not a new program."""

    def script(meter):
        module = network()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01, foreach=foreach)
        schedule = SCHEDULERS[scheduler](optimizer)
        meter.move(module, optimizer)
        step, losses = meter.step(ordinary), []
        for _ in range(15):
            losses.append(step(module, optimizer, *network.batch()))
            schedule.step()
        return losses, optimizer.param_groups[0]["lr"], state_of(module, optimizer)

    assert_same_script(script, embedded, seed).assert_steady(programs=2)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_equal_hyper_parameters(network, counted, seed, optimizer):
    """Numbers that happen to be equal at first, or to become 0 or 1, stay apart: no merge by value."""

    def script(meter):
        module = network()
        if optimizer == "sgd":
            made = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.1, dampening=0.1, weight_decay=0.1)
        else:
            made = torch.optim.Adam(module.parameters(), lr=0.9, betas=(0.9, 0.9), weight_decay=0.9)
        meter.move(module, made)
        step, losses = meter.step(ordinary), []
        for rate in [None, None, None, 0.01, 0.1, 1.0, 0.5, 0.1]:
            for group in made.param_groups:
                group["lr"] = rate or group["lr"]
            losses.append(step(module, made, *network.batch()))
        return losses, state_of(module, made)

    assert_same_script(script, counted, seed).assert_steady(programs=2)


def test_parameter_groups_and_two_optimizers(network, embedded, seed):
    def train(module, optimizers, x, y):
        loss = F.cross_entropy(module(x), y)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        return loss

    def script(meter):
        module = network()
        first, last = module[0], module[-1]
        groups = [{"params": [first.weight], "lr": 0.01}, {"params": [first.bias], "lr": 0.1, "weight_decay": 0.3}]
        optimizers = [
            torch.optim.AdamW(groups),
            torch.optim.SGD(last.parameters(), lr=0.1, nesterov=True, momentum=0.5),
        ]
        meter.move(module)
        step = meter.step(train)
        losses = [step(module, optimizers, *network.batch()) for _ in range(8)]
        return losses, [state_of(module, optimizer) for optimizer in optimizers]

    assert_same_script(script, embedded, seed).assert_steady(programs=2)


def test_train_and_eval(counted, rng, seed):
    """A CNN that trains and is evaluated in turn: batch statistics, then running ones; two programs each."""

    def evaluate(module, x, y):
        with torch.no_grad():
            scores = module(x)
            return F.cross_entropy(scores, y), (scores.argmax(1) == y).double().mean()

    def script(meter):
        rng.seed(seed)
        case = MODELS["cnn"](rng, 6, smooth=True)
        optimizer = torch.optim.SGD(case.module.parameters(), lr=0.05, momentum=0.9)
        meter.move(case.module, optimizer)
        train, test, results = meter.step(ordinary), meter.step(evaluate), []
        for x, y in case.batches:
            case.module.train()
            results.append(train(case.module, optimizer, x, y))
            case.module.eval()
            results.append(test(case.module, x, y))
        return results, state_of(case.module, optimizer)

    assert_same_script(script, counted, seed).assert_steady(3, programs=3)


def test_short_last_batch(network, embedded, rng, seed):
    """An epoch's last batch is short: its own program, compiled once (twice where state is made in it)."""
    sizes = [network.size + 2, network.size + 2, draw(rng, network.size)]

    def script(meter):
        module = network()
        optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
        meter.move(module, optimizer)
        step = meter.step(ordinary)
        losses = [step(module, optimizer, *network.batch(rows)) for _ in range(4) for rows in sizes]
        return losses, state_of(module, optimizer)

    assert_same_script(script, embedded, seed).assert_steady(3, programs=3)


def test_published_in_the_step(network, counted, seed):
    """Publishing is part of the step's own reply, also every other step."""

    def train(module, optimizer, x, y, show):
        loss = ordinary(module, optimizer, x, y)
        return sojourn.publish({"loss": loss, "first": [module[0].weight, module[0].bias.grad]}) if show else None

    def script(meter):
        module = network()
        optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
        meter.move(module, optimizer)
        step = meter.step(train)
        shown = [step(module, optimizer, *network.batch(), index % 2 == 0) for index in range(10)]
        return [found.value for found in shown if found]

    assert_same_script(script, counted, seed).assert_steady(4, programs=4)


def test_frozen_and_unfrozen_layers(network, embedded, seed):
    """requires_grad switched between steps: another program, and back again without one."""

    def script(meter):
        module = network()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
        meter.move(module, optimizer)
        step, losses = meter.step(ordinary), []
        for frozen in [False, False, True, True, False, True, False, True]:
            module[0].requires_grad_(not frozen)
            losses.append(step(module, optimizer, *network.batch()))
        return losses, state_of(module, optimizer)

    assert_same_script(script, embedded, seed).assert_steady(4)


def test_state_dict_and_resumed_training(network, embedded, seed):
    """State dicts published, loaded into a fresh module and optimizer, and training goes on as without a break."""

    def script(meter):
        module = network()
        optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
        meter.move(module, optimizer)
        step = meter.step(ordinary)
        for _ in range(3):
            step(module, optimizer, *network.batch())
        saved = sojourn.publish([module.state_dict(), optimizer.state_dict()])
        resumed = network()
        again = torch.optim.Adam(resumed.parameters(), lr=0.01)
        resumed.load_state_dict(saved[0])
        again.load_state_dict(saved[1])
        meter.move(resumed, again)
        batches = [network.batch() for _ in range(3)]
        for x, y in batches:
            step(module, optimizer, x, y)
            step(resumed, again, x, y)
        first, second = state_of(module, optimizer), state_of(resumed, again)
        return first, [first[name] - second[name] for name in first]

    assert_same_script(script, embedded, seed)


def test_many_steps_compile_nothing(network, embedded, seed):
    """200 steps with a schedule, clipping and kept losses: two programs, live handles do not grow."""
    module = network()
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99)
    meter = Meter(embedded)
    meter.move(module, optimizer)

    def train(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(module(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    step, handles, last = meter.step(train), [], None
    for _ in itertools.repeat(None, 200):
        last = step(*network.batch())
        handles.append(embedded.owner.counters()["live_handles"])
        schedule.step()
    meter.assert_steady(programs=2)
    assert sojourn.publish(last).isfinite()
    assert max(handles[10:]) <= handles[9] + 1, handles
