# SPDX-License-Identifier: Apache-2.0
"""Pooling whose windows are taken line by line, and its gradient: eager's values, whatever borders, ties and threads."""

import pytest
import torch
from remote_support import assert_same, shared_owner
from torch.nn import functional as F

import sojourn

DRAWS = range(30)


def drawn(rng):
    """An image, and the window, stride and padding of a pool over it; sides may hold one window, or be odd."""
    window = [rng.choice([1, 2, 2, 3, 3, 5]) for _ in range(2)]
    stride = [rng.choice([1, 2, 2])] * 2 if rng.random() < 0.8 else [rng.randint(1, 3), rng.randint(1, 3)]
    padding = [rng.randint(0, size // 2) for size in window]
    sides = [size - 2 * pad + rng.choice([0, 1, 7, 16, 40]) for size, pad in zip(window, padding)]
    shape = (rng.randint(1, 3), rng.choice([1, 4]), *(max(side, 1) for side in sides))
    x = torch.randint(-2, 3, shape).float() if rng.random() < 0.5 else torch.randn(shape)
    for value in (float("inf"), -float("inf")):
        x[torch.rand(shape) < rng.choice([0, 0.1])] = value
    return x, {"kernel_size": window, "stride": stride, "padding": padding}


def gradients_of(shape):
    """Some of them negative zeros, which become positive ones where they are added."""
    return torch.where(torch.rand(shape) < 0.1, -0.0, torch.randn(shape))


def pooled(pool, x, settings, gradient=None):
    """Values and the gradient of x, both where x lies."""
    x = x.requires_grad_()
    y = pool(x, **settings)
    gradient = gradients_of(y.shape) if gradient is None else gradient
    y.backward(gradient.to(x.device, x.dtype))
    return y.detach(), x.grad, gradient


@pytest.mark.parametrize("draw", DRAWS)
def test_maxima(rng, draw):
    x, settings = drawn(rng)
    value, grad, gradient = pooled(F.max_pool2d, x.clone(), settings)
    there = pooled(F.max_pool2d, x.to(shared_owner().device), settings, gradient)
    what = f"{tuple(x.shape)} {settings}"
    assert_same(there[0], value, what, rtol=0, atol=0)
    exact = pooled(F.max_pool2d, x.double(), settings, gradient)[1]
    assert_same(there[1], exact.float(), what, rtol=1e-6, atol=1e-6)
    assert torch.equal(torch.signbit(sojourn.publish(there[1])) & (grad == 0), torch.zeros_like(grad, dtype=torch.bool))


@pytest.mark.parametrize("height, window, stride, padding", [
    (1, 2, (1, 2), 1), (1, 4, (1, 2), 2), (1, 3, (1, 2), 1), (1, 2, (2, 1), 1), (2, 2, (3, 2), 1), (5, 5, (3, 2), 0),
    (3, 5, (1, 2), 1),
])  # fmt: skip
@pytest.mark.parametrize("width", [4, 17])
def test_few_lines_and_strides_that_differ(seed, height, window, stride, padding, width):
    """One line may lie in several windows, all of them at the border."""
    x, settings = (
        torch.randn(2, 3, height, width),
        {"kernel_size": (window, 3), "stride": stride, "padding": (padding, 1)},
    )
    value, grad, gradient = pooled(F.max_pool2d, x.clone(), settings)
    there = pooled(F.max_pool2d, x.to(shared_owner().device), settings, gradient)
    assert_same(there[0], value, str(settings), rtol=0, atol=0)
    assert_same(there[1], grad, str(settings), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("draw", DRAWS)
def test_the_last_nan_of_a_window_gets_its_gradient(rng, draw):
    x, settings = drawn(rng)
    x[torch.rand(x.shape) < 0.1] = float("nan")
    device = shared_owner().device
    there, grad, gradient = pooled(F.max_pool2d, x.to(device), settings)
    # Positions that are asked for are found by other loops.
    found = F.max_pool2d(x.to(device), **settings, return_indices=True)
    value, where = F.max_pool2d(x.detach(), **settings, return_indices=True)
    what = f"{tuple(x.shape)} {settings}"
    assert_same(there, value, what, rtol=0, atol=0)
    assert_same(sojourn.publish(found[0]), value, what, rtol=0, atol=0)
    assert torch.equal(sojourn.publish(found[1]), where), what
    expected = torch.zeros(x.shape, dtype=torch.float64).flatten(2)
    expected.scatter_add_(2, where.flatten(2), gradient.double().flatten(2))
    assert_same(grad, expected.view(x.shape).float(), what, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("draw", DRAWS)
def test_averages(rng, draw):
    x, settings = drawn(rng)
    x[~x.isfinite()] = 3
    value, grad, gradient = pooled(F.avg_pool2d, x.double(), settings)
    there = pooled(F.avg_pool2d, x.to(shared_owner().device), settings, gradient)
    what = f"{tuple(x.shape)} {settings}"
    assert_same(there[0], value.float(), what, rtol=1e-6, atol=1e-6)
    assert_same(there[1], grad.float(), what, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("pool, window, stride, padding", [(F.max_pool1d, 2, 2, 0), (F.max_pool1d, 3, 2, 1)])
def test_lines_alone(seed, pool, window, stride, padding):
    x, settings = torch.randn(3, 5, 77), {"kernel_size": window, "stride": stride, "padding": padding}
    value, grad, gradient = pooled(pool, x.clone(), settings)
    there = pooled(pool, x.to(shared_owner().device), settings, gradient)
    assert_same(there[0], value, str(settings), rtol=0, atol=0)
    assert_same(there[1], grad, str(settings), rtol=1e-6, atol=1e-6)


def test_threads_change_no_bit(seed):
    x, threads, results = torch.randn(8, 16, 63, 64), torch.get_num_threads(), []
    gradient = None
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            for settings in ({"kernel_size": 2}, {"kernel_size": 3, "stride": 2, "padding": 1}):
                value, grad, gradient = pooled(F.max_pool2d, x.to(shared_owner().device), settings)
                results.append((count, settings, sojourn.publish(value), gradient, sojourn.publish(grad)))
    finally:
        torch.set_num_threads(threads)
    for count, settings, value, gradient, grad in results:
        mine, expected, _ = pooled(F.max_pool2d, x.clone(), settings, gradient)
        assert torch.equal(value, mine), count
        torch.testing.assert_close(grad, expected, rtol=1e-6, atol=1e-6)


def test_no_gradient_asked_for(seed):
    x = torch.randn(2, 3, 9, 11)
    assert_same(F.max_pool2d(x.to(shared_owner().device), 3, 2, 1), F.max_pool2d(x, 3, 2, 1), "forward", rtol=0, atol=0)
