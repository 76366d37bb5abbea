# SPDX-License-Identifier: Apache-2.0
"""Training at an owner is training on the CPU: 20 steps, every value, gradient, buffer, parameter and state.

Sizes and inputs are new in each run. The embedded owner with the default optimizers runs always;
every combination of model, optimizer, form, precision and owner is the `slow` sweep.
"""

import copy
import functools

import pytest
import torch
from torch import nn
from training_support import (
    MODELS,
    OPTIMIZERS,
    Case,
    Recurrent,
    Transformer,
    assert_same_float64,
    assert_within_band,
    train,
    zero_gradients,
)

STEPS = 20


def combinations(quick) -> list:
    found = []
    for kind in ("embedded", "ipc", "numpy"):
        for model in MODELS:
            for optimizer in OPTIMIZERS:
                for foreach in (False, True):
                    marks = () if quick(kind, model, optimizer, foreach) else pytest.mark.slow
                    name = f"{kind}-{model}-{optimizer}-{'foreach' if foreach else 'plain'}"
                    found.append(pytest.param(kind, model, optimizer, foreach, marks=marks, id=name))
    return found


def quick64(kind, model, optimizer, foreach):
    return (kind == "embedded" and (foreach or optimizer == "adam")) or (optimizer == "adamw" and foreach)


def quick32(kind, model, optimizer, foreach):
    return kind == "embedded" and optimizer == "sgd" and foreach


@pytest.mark.parametrize("kind, model, optimizer, foreach", combinations(quick64))
def test_float64(kind, model, optimizer, foreach, rng, make_owner):
    case = MODELS[model](rng, STEPS, smooth=False)
    make = functools.partial(OPTIMIZERS[optimizer], foreach=foreach)
    assert_same_float64(train(case, make, make_owner(kind)), train(case, make), case)


@pytest.mark.parametrize("kind, model, optimizer, foreach", combinations(quick32))
def test_float32(kind, model, optimizer, foreach, rng, seed, make_owner):
    double = MODELS[model](rng, STEPS, smooth=True)
    case = double.to(torch.float32)
    make = functools.partial(OPTIMIZERS[optimizer], foreach=foreach)
    generator = torch.Generator().manual_seed(seed)
    perturbed = lambda: train(case.perturbed(generator), make)
    eager = train(case, make)
    exact = train(double, make)
    zero = zero_gradients(exact, eager)
    assert_within_band(train(case, make, make_owner(kind)), eager, exact, case, perturbed, zero)


def large(model, rng):
    """A case whose tensors exceed the cache blocks and thread grains that small ones fit in."""
    labels = lambda size, classes: torch.randint(0, classes, (size,))
    size = rng.choice([63, 64, 65])
    if model == "mlp":
        module = nn.Sequential(nn.Linear(784, 257), nn.ReLU(), nn.Linear(257, 256), nn.GELU(), nn.Linear(256, 10))
        batch = lambda: (torch.randn(size, 784).double(), labels(size, 10))
    elif model == "cnn":
        layers = [nn.Conv2d(3, 17, 3, padding=1), nn.BatchNorm2d(17), nn.ReLU(), nn.MaxPool2d(2)]
        module = nn.Sequential(*layers, nn.Conv2d(17, 16, 3, stride=2), nn.SiLU(), nn.Flatten(), nn.Linear(784, 10))
        batch = lambda: (torch.randn(16, 3, 32, 32).double(), labels(16, 10))
    elif model == "lstm":
        module = Recurrent(rng)
        module.features, module.lstm = 33, nn.LSTM(33, 65, num_layers=2, batch_first=True)
        module.head = nn.Linear(65, 3)
        batch = lambda: (torch.randn(size, 9, 33).double(), labels(size, 3))
    else:
        module = Transformer(rng, "gelu")
        module.embedding, module.position = nn.Embedding(1000, 66), nn.Parameter(torch.randn(33, 66))
        layer = nn.TransformerEncoderLayer(66, 6, 257, 0.0, "gelu", batch_first=True)
        module.layers, module.head = nn.ModuleList([layer, copy.deepcopy(layer)]), nn.Linear(66, 3)
        batch = lambda: (torch.randint(0, 1000, (7, 33)), labels(7, 3))
    drifting = ("1.running_mean",) if model == "cnn" else ()
    return Case(module.double(), [batch() for _ in range(4)], drifting)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("model", MODELS)
def test_larger_sizes(model, threads, rng, embedded):
    case = large(model, rng)
    make = functools.partial(OPTIMIZERS["adamw"], foreach=True)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        run = train(case, make, embedded)
    finally:
        torch.set_num_threads(before)
    assert_same_float64(run, train(case, make), case)
