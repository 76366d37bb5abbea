# SPDX-License-Identifier: Apache-2.0
"""Random views and writes through them, against eager torch: every live tensor and every gradient."""

import random

import pytest
import torch
from alias_programs import F64, Program
from remote_support import assert_same, fresh_seed, shared_owner


@pytest.mark.parametrize("runtime,count", [("native", 250), ("numpy", 60)])
def test_random_programs(runtime, count):
    device = shared_owner(runtime).device
    seed = fresh_seed("random programs")
    for i in range(count):
        program = Program(seed + i, steps=30)
        if matches(program, device) is None:
            continue
        # The shortest prefix that differs.
        for length in range(1, 31):
            if failure := matches(program, device, length):
                pytest.fail(
                    f"program {seed + i} differs after {length} steps: {program.decisions[length - 1]}: {failure}"
                )


def matches(program, device, upto=None):
    try:
        assert_same(program.run(device, upto), program.run("cpu", upto), f"program {program.seed}")
    except (AssertionError, RuntimeError) as failure:
        return failure
    return None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_random_views_with_gradients(dtype):
    """Random chains of views of a non-leaf, written in the middle, then differentiated."""
    seed = fresh_seed("random gradients")
    for i in range(12):
        results = []
        for device in ("cpu", shared_owner().device):
            rng = random.Random(seed + i)
            generator = torch.Generator().manual_seed(seed + i)
            x = torch.randn(4, 3, 5, dtype=dtype, generator=generator).to(device).requires_grad_()
            base = x * 1.25
            view = base
            for _ in range(rng.randint(1, 4)):
                choice = rng.randrange(5)
                if choice == 0 and view.dim():
                    view = view.transpose(rng.randrange(view.dim()), rng.randrange(view.dim()))
                elif choice == 1 and view.dim() > 1:
                    dim = rng.randrange(view.dim())
                    view = view.select(dim, rng.randrange(view.size(dim)))
                elif choice == 2 and view.dim():
                    dim = rng.randrange(view.dim())
                    start = rng.randrange(view.size(dim))
                    view = view.narrow(dim, start, view.size(dim) - start)
                elif choice == 3 and view.dim() > 1:
                    view = view.diagonal(0, 0, 1)
                else:
                    view = view.unsqueeze(rng.randrange(view.dim() + 1))
            view.mul_(rng.random()).add_(base.detach().sum() * 0.01)
            loss = (base * base.flip(0)).sum() + view.pow(2).sum()
            results.append([base, view, torch.autograd.grad(loss, x)[0]])
        tolerance = 1e-9 if dtype == F64 else 1e-4
        assert_same(results[1], results[0], f"gradients {seed + i}", rtol=tolerance, atol=tolerance)
