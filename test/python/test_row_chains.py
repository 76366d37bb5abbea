# SPDX-License-Identifier: Apache-2.0
"""Goal: rows that are reduced, computed with and spread again within a chain give what exact arithmetic gives, and the
same bits however work is shared.

Method: random programs over rows of many lengths (1, odd ones, blocks and more, NaN and infinities), in f64 by eager as
the truth, on the other runtime as well, and on one thread and on two; the plan's instructions are counted."""

import math
import re

import pytest
import torch
from remote_support import assert_same, shared_owner
from torch.nn import functional as F

import sojourn

DRAWS = range(16)
ROWS = (1, 2, 3, 15, 16, 17, 31, 64, 65, 100, 127, 256, 1000, 1024, 1025, 2049, 5000)
INF, NAN = math.inf, math.nan


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def drawn_shape(rng, most=60_000):
    row = rng.choice(ROWS)
    outer = [rng.choice([1, 2, 3, 7, 20]) for _ in range(rng.randint(1, 2))]
    if rng.random() < 0.3:
        outer.append(max(1, min(400, most // (row * math.prod(outer)))))  # several blocks
    return [*outer, row]


def drawn(rng, shape, special=0.3):
    x = torch.randn(shape) * rng.choice([1.0, 30.0]) + rng.choice([0.0, 0.0, 50.0])
    if rng.random() < special:
        x.view(-1)[rng.randrange(x.numel())] = rng.choice([INF, -INF, NAN])
    return x


def twice(step, tensors, threads, runtime="native"):
    """What the step gives at an owner, with equal bits on one thread and on two."""
    device = shared_owner(runtime).device
    found = []
    for count in (1, 2):
        threads(count)
        found.append(sojourn.publish(sojourn.step(step)(*(tensor.to(device) for tensor in tensors))))
    for one, two in zip(*found):
        bits = {4: torch.int32, 8: torch.int64}[one.element_size()]
        assert torch.equal(one.view(bits), two.view(bits))
    return found[0]


def compare(step, tensors, threads, what, other, rtol=2e-5, atol=2e-5):
    found = twice(step, tensors, threads)
    truth = step(*(tensor.double() if tensor.is_floating_point() else tensor for tensor in tensors))
    truth = tuple(value.to(mine.dtype) for value, mine in zip(truth, found))
    assert_same(found, truth, what, rtol=rtol, atol=atol)
    if other:
        assert_same(twice(step, tensors, threads, "numpy"), truth, what, rtol=rtol, atol=atol)


@pytest.mark.parametrize("draw", DRAWS)
def test_reductions(rng, draw, threads):
    shape = drawn_shape(rng)
    x = drawn(rng, shape, special=0.5)
    dims = tuple(range(rng.randint(0, len(shape) - 1), len(shape))) if rng.random() < 0.5 else (len(shape) - 1,)
    if rng.random() < 0.3:
        dims = tuple({0, len(shape) - 1})  # rows, and then what is left

    def step(x):
        y = x * 0.5
        top, low = y.amax(dims, keepdim=True), y.amin(dims)
        return top, low, y.sum(dims), (y * y).sum(dims), (y - top).exp().sum(dims), torch.log(top.abs() + 1) * y

    compare(
        step,
        [x],
        threads,
        f"{shape} {dims}",
        draw % 4 == 0,
        rtol=2e-5,
        atol=2e-5 * x.nan_to_num(0, 1, 1).abs().sum().item() / 100,
    )


@pytest.mark.parametrize("draw", DRAWS)
def test_softmax(rng, draw, threads):
    shape = drawn_shape(rng)
    x, g = drawn(rng, shape), torch.randn(shape)
    if rng.random() < 0.3:
        x[0] = -INF

    def step(x, g):
        x = x.detach().requires_grad_()
        y = F.softmax(x, -1) if draw % 2 else F.log_softmax(x, -1)
        y.backward(g)
        return y.detach(), x.grad

    compare(step, [x, g], threads, f"{shape}", draw % 4 == 0, rtol=5e-5, atol=2e-5 * shape[-1] ** 0.5)


@pytest.mark.parametrize("draw", DRAWS)
def test_normalization(rng, draw, threads):
    kind = ["layer", "group", "batch", "instance"][draw % 4]
    if kind == "layer":
        shape = drawn_shape(rng)
        features = shape[-1]
    else:
        features = rng.choice([1, 2, 6, 32])
        shape = [rng.choice([1, 2, 5, 16]), features, rng.choice([1, 3, 16, 40]), rng.choice([2, 5, 32])]
    x, g = torch.randn(shape) * rng.choice([0.1, 10]) + rng.choice([0.0, 3.0]), torch.randn(shape)
    weight, bias = torch.randn(features), torch.randn(features)
    if rng.random() < 0.2:
        x.view(-1)[rng.randrange(x.numel())] = rng.choice([INF, NAN])

    def step(x, g, weight, bias):
        leaves = [tensor.detach().requires_grad_() for tensor in (x, weight, bias)]
        if kind == "layer":
            y = F.layer_norm(leaves[0], shape[-1:], *leaves[1:])
        elif kind == "group":
            y = F.group_norm(leaves[0], 2 if features % 2 == 0 else 1, *leaves[1:])
        elif kind == "batch":
            y = F.batch_norm(leaves[0], None, None, *leaves[1:], training=True)
        else:
            y = F.instance_norm(leaves[0], None, None, *leaves[1:])
        y.backward(g)
        return y.detach(), *(leaf.grad for leaf in leaves)

    # In rows of numbers that are nearly equal, the mean's rounding is multiplied by 1 / deviation, twice in gradients.
    short = (
        x.nan_to_num(0, 0, 0).double().view(-1, shape[-1])
        if kind == "layer" and 1 < shape[-1] < 4
        else torch.zeros(1, 1)
    )
    steepest = 1 / (short.var(1, correction=0).min().item() + 1e-5) if len(short) > 1 else 0
    compare(
        step,
        [x, g, weight, bias],
        threads,
        f"{kind} {shape}",
        draw % 8 < 4,
        rtol=2e-4,
        atol=2e-3 * (len(g.view(-1)) ** 0.5 / 30 + 1) + 4 * 2.0**-23 * short.abs().max().item() * steepest,
    )


@pytest.mark.parametrize("draw", range(8))
def test_attention(rng, draw, threads):
    batch, heads, length, width = (
        rng.choice([1, 3]),
        rng.choice([1, 4]),
        rng.choice([1, 7, 33, 64]),
        rng.choice([8, 20]),
    )
    q, k, v, g = (torch.randn(batch, heads, length, width) for _ in range(4))
    causal = bool(draw % 2)
    mask = torch.rand(batch, 1, length, length) < 0.8

    def step(q, k, v, g, mask):
        leaves = [tensor.detach().requires_grad_() for tensor in (q, k, v)]
        y = F.scaled_dot_product_attention(*leaves, attn_mask=None if causal else mask, is_causal=causal)
        y.backward(g)
        return y.detach(), *(leaf.grad for leaf in leaves)

    compare(step, [q, k, v, g, mask], threads, f"{q.shape}", draw < 4, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("draw", range(8))
def test_cross_entropy(rng, draw, threads):
    rows, classes = rng.choice([1, 5, 64, 300]), rng.choice([2, 10, 100, 1000])
    x, y = torch.randn(rows, classes) * 4, torch.randint(classes, (rows,))
    smoothing = rng.choice([0.0, 0.1])

    def step(x, y):
        x = x.detach().requires_grad_()
        loss = F.cross_entropy(x, y, label_smoothing=smoothing)
        loss.backward()
        return loss.detach(), x.grad

    compare(step, [x, y], threads, f"{rows} {classes}", draw < 4, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("draw", DRAWS)
def test_numbers_of_rows_meet_others(rng, draw, threads):
    """Numbers of rows go to other chains, to kernels, out of the step, and come from before the chain."""
    rows, row = rng.choice([2, 8, 33, 64]), rng.choice([2, 8, 20, 64, 700])
    x, y, scale = torch.randn(rows, row), torch.randn(rows, row), torch.rand(rows)
    dtype = rng.choice([torch.float32, torch.float64])
    x = x.to(dtype)

    def step(x, y, scale):
        center = x.mean(1)
        high = (y.to(x.dtype) - center[:, None]).amax(1)
        mixed = center * scale + high.flip(0)  # of another row: after the chain
        z = (x - mixed[:, None]).tanh() * scale[:, None]
        total = z.sum() + center.sum()
        return center, mixed, z, z.t().sum(0), z.t().contiguous().amax(1), total, (z > high[:, None]).sum(1), z - total

    compare(step, [x, y, scale], threads, f"{rows} {row} {dtype}", draw % 4 == 0, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("draw", DRAWS)
def test_numbers_of_channels(rng, draw, threads):
    """One number for each plane: of a window, of what rows gave, and where loops cannot take it as one."""
    planes = rng.choice([(16, 16), (8, 8), (63,), (11, 13), (1, 127), (128,), (31, 67), (50, 100), (7,)])
    shape = (rng.choice([1, 3, 8]), rng.choice([1, 2, 5]), *planes)
    ones = (1,) * len(planes)
    dtype = rng.choice([torch.float32, torch.float32, torch.float64])
    x, y = drawn(rng, shape).to(dtype), torch.randn(shape).to(dtype)
    scale, shift = torch.randn(shape[1], *ones).to(dtype), torch.randn(shape[0], 1, *ones).to(dtype)
    shown = torch.rand(shape[1], *ones) < 0.5
    last = tuple(range(2, len(shape)))

    def step(x, y, scale, shift, shown):
        z = torch.where(shown, x * scale + shift, shift - y)
        high = z.amax(last, keepdim=True)
        both = scale.expand(shape) * shift  # two numbers of a row, and no elements
        kept = (z > shift).to(x.dtype) * both
        counts = torch.where(shown, kept, both).half().float() * scale.half().float()
        return z, z - high, (y < high) & shown, kept, counts.to(x.dtype), (-scale).expand(shape).clone(), both.sum(last)

    found = twice(
        lambda *tensors: tuple(value.to(x.dtype) for value in step(*tensors)), [x, y, scale, shift, shown], threads
    )
    truth = tuple(value.to(x.dtype) for value in step(x, y, scale, shift, shown))
    assert_same(found, truth, f"{shape} {dtype}", rtol=1e-5, atol=1e-5)
    if draw % 4 == 0:
        device = shared_owner("numpy").device
        other = step(*(tensor.to(device) for tensor in (x, y, scale, shift, shown)))
        assert_same(tuple(value.to(x.dtype) for value in other), truth, f"{shape} {dtype}", rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("draw", range(6))
def test_a_row_is_its_own(rng, draw):
    """Bits of a row do not depend on the rows beside it, nor on how many there are."""
    rows, row = rng.randint(3, 200), rng.choice([10, 64, 100, 1000, 3000])
    x = torch.randn(rows, row).to(shared_owner().device)
    first = rng.randint(0, rows - 2)
    part = x[first : first + rng.randint(2, rows - first)].clone()
    for function in (lambda x: F.layer_norm(x, (row,)), lambda x: F.log_softmax(x, -1), lambda x: (x * x).sum(-1)):
        whole, alone = sojourn.publish((function(x), function(part)))
        assert torch.equal(whole[first : first + len(alone)], alone)


def test_one_instruction(tmp_path):
    """A softmax, a normalization, and the gradient of each by its operand are one instruction each."""
    owner = sojourn.local(profile=str(tmp_path))
    x, g = (torch.randn(40, 96).to(owner.device) for _ in range(2))
    with sojourn.step():
        kept = F.layer_norm(F.log_softmax(F.softmax(x, -1), -1), (96,))
    with sojourn.step():
        leaf = x.detach().requires_grad_()
        F.layer_norm(leaf, (96,)).backward(g)
        grad = leaf.grad
    sojourn.publish((kept, grad))
    del kept, grad, leaf, x, g
    owner.close()
    del owner
    plans = [path.read_text() for path in tmp_path.glob("plan-*.txt")]
    chains = [plan for plan in plans if "rows of 96" in plan]
    assert len(chains) == 2, plans
    for plan in chains:
        over = re.findall(r" chain of \d+ over (\d+)| reduce", plan)
        assert [size for size in over if size != "1"] == [str(40 * 96)], plan
