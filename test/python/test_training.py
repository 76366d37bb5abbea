# SPDX-License-Identifier: Apache-2.0
"""Training at an owner is training on the CPU: 20 steps, every value, gradient, buffer, parameter and state.

Sizes and inputs are new in each run. The embedded owner with the default optimizers runs always;
every combination of model, optimizer, form, precision and owner is the `slow` sweep.
"""

import functools

import pytest
import torch
from training_support import (
    MODELS,
    OPTIMIZERS,
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
    zero = zero_gradients(train(double, make), eager)
    assert_within_band(train(case, make, make_owner(kind)), eager, case, perturbed, zero)
