# SPDX-License-Identifier: Apache-2.0
"""Training with randomness, recomputation and custom functions.

Masks of unmodified models are seen below autograd as the owner makes them, published in the step's
own reply, and fed to eager in place of its own draws.
"""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint
from training_support import (
    OPTIMIZERS,
    Meter,
    assert_same_float64,
    assert_same_script,
    draw,
    loss_and_gradients,
    lstm,
    mlp,
    odd,
    state_of,
    transformer,
)

import sojourn

aten = torch.ops.aten
MODELS = {"mlp": mlp, "lstm": lstm, "transformer": transformer}
STEPS = 20


class SeeMasks(TorchDispatchMode):
    """Keeps the mask of every dropout that the owner's tensors record."""

    def __init__(self):
        super().__init__()
        self.masks = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if function is aten.native_dropout.default:
            self.masks.append(result[1])
        return result


class FeedMasks(TorchDispatchMode):
    """Puts given masks in place of eager's draws, in order."""

    def __init__(self, masks):
        super().__init__()
        self.masks = list(masks)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function is aten.bernoulli_.float:
            return args[0].copy_(self.masks.pop(0))
        assert aten.native_dropout.default is not function and torch.Tag.nondeterministic_seeded not in function.tags
        return function(*args, **(kwargs or {}))


def seen(step):
    def run(module, optimizer, x, y):
        with SeeMasks() as mode:
            published = step(module, optimizer, x, y)
        return published, sojourn.publish(mode.masks)

    return run


def trained(case, make, meter, step, masks=None):
    """The run's tensors by name, and the masks of each step."""
    module = copy.deepcopy(case.module)
    optimizer = make(list(module.parameters()))
    meter.move(module, optimizer)
    found, values = [], []
    step = meter.step(seen(step)) if masks is None else step
    for index, (x, y) in enumerate(case.batches):
        if masks is None:
            published, drawn = step(module, optimizer, x, y)
            found.append(drawn.value)
        else:
            with FeedMasks(masks[index]) as mode:
                published = step(module, optimizer, x, y)
            assert not mode.masks
        values.append(published.value if isinstance(published, sojourn.Published) else published)
    run = {"loss": torch.stack([value["loss"] for value in values])}
    for name in values[0]["gradients"]:
        run[f"gradient {name}"] = torch.stack([value["gradients"][name] for value in values])
    return run | sojourn.publish(state_of(module, optimizer)), found


def assert_fresh(masks):
    """Steps draw anew: masks that are large enough to tell differ from one step to the next."""
    large = [index for index, mask in enumerate(masks[0]) if mask.numel() >= 64]
    for index in large:
        assert all(not torch.equal(a[index], b[index]) for a, b in zip(masks, masks[1:]))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("model", MODELS)
def test_dropout_by_mask(model, optimizer, counted, rng):
    case = MODELS[model](rng, STEPS, smooth=True, dropout=rng.choice([0.1, 0.5, 0.8]))
    make = lambda parameters: OPTIMIZERS[optimizer](parameters, True)
    meter = Meter(counted)
    run, masks = trained(case, make, meter, loss_and_gradients)
    meter.assert_steady(programs=2)
    assert all(masks)
    assert_fresh(masks)
    eager, _ = trained(case, make, Meter(), loss_and_gradients, masks)
    assert_same_float64(run, eager, case)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoint_with_dropout(reentrant, counted, rng):
    """Recomputation draws the masks of the forward pass again, and gradients are those of eager."""
    case = transformer(rng, 6, smooth=True, dropout=0.4)

    def step(module, optimizer, x, y):
        optimizer.zero_grad()
        hidden = module.embedding(x) + module.position
        for layer in module.layers:
            hidden = checkpoint(layer, hidden, use_reentrant=reentrant)
        loss = F.cross_entropy(module.head(hidden.mean(1)), y)
        loss.backward()
        gradients = {name: parameter.grad for name, parameter in module.named_parameters()}
        optimizer.step()
        return sojourn.publish({"loss": loss, "gradients": gradients})

    make = lambda parameters: torch.optim.Adam(parameters, lr=0.01)
    meter = Meter(counted)
    run, masks = trained(case, make, meter, step)
    meter.assert_steady(programs=2)
    for drawn in masks:
        half = len(drawn) // 2
        assert half and all(torch.equal(a, b) for a, b in zip(drawn[:half], drawn[half:], strict=True))
    assert_fresh(masks)
    # Eager without checkpoint: the masks of the forward pass suffice.
    forward = [drawn[: len(drawn) // 2] for drawn in masks]
    eager, _ = trained(case, make, Meter(), loss_and_gradients, forward)
    assert_same_float64(run, eager, case)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoint_without_randomness(reentrant, counted, rng, seed):
    features, hidden, size = draw(rng, 6), odd(rng, 9), draw(rng, 7)

    def train(module, optimizer, x, y):
        optimizer.zero_grad()
        # The reentrant form needs an input that requires a gradient.
        middle = checkpoint(module[1:3], module[0](x), use_reentrant=reentrant, preserve_rng_state=False)
        loss = F.cross_entropy(module[3](middle), y)
        loss.backward()
        optimizer.step()
        return loss

    def script(meter):
        layers = [nn.Linear(features, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Linear(hidden, 3)]
        module = nn.Sequential(*layers).double()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
        meter.move(module, optimizer)
        step = meter.step(train)
        batch = lambda: (torch.randn(size, features).double(), torch.randint(0, 3, (size,)))
        return [step(module, optimizer, *batch()) for _ in range(6)], state_of(module, optimizer)

    assert_same_script(script, counted, seed).assert_steady(programs=2)


def test_seeds_follow_manual_seed(embedded, rng):
    """The same torch seed gives the same masks, another seed others; eval mode draws none."""
    x = torch.ones(odd(rng, 9) + 100).to(embedded.device)

    def draws(seed):
        torch.manual_seed(seed)
        return sojourn.publish([F.dropout(x, 0.5), F.dropout(x, 0.5), F.dropout(x, 0.5, training=False)])

    first, again, other = draws(3), draws(3), draws(4)
    assert all(torch.equal(a, b) for a, b in zip(first, again))
    assert not torch.equal(first[0], other[0]) and not torch.equal(first[0], first[1])
    assert torch.equal(first[2], torch.ones_like(first[2]))


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_distribution(p, counted, seed):
    """Zero with probability p, else 1/(1-p): the share is within 6 standard deviations."""
    size = 20_001
    out = sojourn.publish(F.dropout(torch.ones(size).to(counted.device), p))
    kept = out != 0
    torch.testing.assert_close(out[kept], torch.full_like(out[kept], 1 / (1 - p)))
    assert abs(float(kept.double().mean()) - (1 - p)) < 6 * (p * (1 - p) / size) ** 0.5


class Scaled(torch.autograd.Function):
    """Not the true gradient: only a backward that runs this code gives the compared values."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x * weight

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return 3 * grad * weight, (grad * x).sum(0).clamp(-0.5, 0.5)


class AddInPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.mark_dirty(x)
        x.add_(y)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad, grad * 2


class Split(torch.autograd.Function):
    """Several outputs, one without a gradient."""

    @staticmethod
    def forward(ctx, x):
        largest, index = x.max(1)
        ctx.mark_non_differentiable(index)
        ctx.save_for_backward(index)
        ctx.width = x.shape[1]
        return largest, x.mean(1), index

    @staticmethod
    def backward(ctx, grad_largest, grad_mean, _):
        (index,) = ctx.saved_tensors
        return F.one_hot(index, ctx.width) * grad_largest[:, None] + (grad_mean / ctx.width)[:, None]


def test_custom_functions(counted, rng, seed):
    features, size = draw(rng, 6), draw(rng, 7)

    def train(module, weight, optimizer, x):
        optimizer.zero_grad()
        hidden = Scaled.apply(module(x), weight)
        hidden = AddInPlace.apply(hidden * 2, hidden.tanh())
        largest, mean, index = Split.apply(hidden)
        loss = (largest.square() + mean + index).mean()
        loss.backward()
        gradients = [weight.grad.clone(), module.weight.grad.clone()]
        optimizer.step()
        return loss, gradients, index

    def script(meter):
        module = nn.Linear(features, 5).double()
        module.scale = nn.Parameter(torch.rand(5).double())
        optimizer = torch.optim.AdamW(module.parameters(), lr=0.02)
        meter.move(module, optimizer)
        step = meter.step(train)
        results = [step(module, module.scale, optimizer, torch.randn(size, features).double()) for _ in range(8)]
        return results, state_of(module, optimizer)

    assert_same_script(script, counted, seed).assert_steady(programs=2)


def test_gradient_penalty(counted, rng, seed):
    """Double backward inside a step, with hooks on tensors and a retained gradient."""
    features, hidden, size = draw(rng, 6), odd(rng, 9), draw(rng, 7)

    def train(module, optimizer, x):
        optimizer.zero_grad()
        x = x.detach().requires_grad_()
        middle = torch.tanh(module[0](x))
        middle.retain_grad()
        middle.register_hook(lambda grad: grad * 1.5)
        score = module[1](middle).square().sum()
        (slope,) = torch.autograd.grad(score, x, create_graph=True)
        loss = score / size + (slope.square().sum(1) + 1).sqrt().mean()
        loss.backward()
        optimizer.step()
        return loss, slope.detach(), middle.grad

    def script(meter):
        module = nn.Sequential(nn.Linear(features, hidden), nn.Linear(hidden, 2)).double()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9)
        meter.move(module, optimizer)
        step = meter.step(train)
        results = [step(module, optimizer, torch.randn(size, features).double()) for _ in range(6)]
        return results, state_of(module, optimizer)

    assert_same_script(script, counted, seed).assert_steady(programs=2)
