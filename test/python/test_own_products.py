# SPDX-License-Identifier: Apache-2.0
"""Goal: own products and functions of f32 give what exact arithmetic gives, and the same bits however work is shared.

Method: random shapes and layouts (sizes of 1, odd ones, none at all, batches, transposes, NaN and infinities), in f64
by eager as the truth, on the other runtime as well, and on one thread and on two."""

import math
import random

import pytest
import torch
from remote_support import assert_same, shared_owner

import sojourn

DRAWS = range(16)
SIZES = (0, 1, 7, 8, 13, 20, 31, 32, 33, 64, 100, 130)
FUNCTIONS = (torch.exp, torch.sigmoid, torch.tanh, torch.erf)
INF, NAN = math.inf, math.nan


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def laid_out(rng, x):
    """The same values in memory of another order, or behind a gap."""
    kind = rng.choice(["dense", "transposed", "sliced", "batch inside"])
    if kind == "transposed":
        return x.transpose(-1, -2).contiguous().transpose(-1, -2)
    if kind == "sliced":
        return torch.cat([x, torch.zeros_like(x)], -1)[..., : x.shape[-1]]
    if kind == "batch inside" and x.dim() > 2:
        return x.transpose(-3, -2).contiguous().transpose(-3, -2)
    return x


def computed(owner, a, b, layouts):
    """a @ b at an owner: layouts are made there, so that they are windows of its own."""
    a, b = (tensor.to(owner.device) for tensor in (a, b))
    return sojourn.publish(laid_out(layouts[0], a) @ laid_out(layouts[1], b))


@pytest.mark.parametrize("draw", DRAWS)
def test_products(rng, draw, threads):
    batch = rng.choice([(), (), (3,), (2, 5)])
    rows, columns = rng.choice(SIZES), rng.choice(SIZES)
    inner = rng.choice([*SIZES, 600, 1100])
    a, b = torch.randn(*batch, rows, inner), torch.randn(*batch, inner, columns)
    if rng.random() < 0.3 and inner and rows:
        a[..., rng.randrange(rows), rng.randrange(inner)] = rng.choice([INF, -INF, NAN])
    seeds = rng.getrandbits(32), rng.getrandbits(32)
    found = []
    for count in (1, 2):
        threads(count)
        found.append(computed(shared_owner(), a, b, [random.Random(seed) for seed in seeds]))
    what = f"{tuple(a.shape)} @ {tuple(b.shape)}"
    assert torch.equal(found[0].view(torch.int32), found[1].view(torch.int32)), what
    truth = (a.double() @ b.double()).float()
    assert_same(found[0], truth, what, rtol=1e-5, atol=3e-6 * math.sqrt(inner + 1))
    if draw % 4 == 0:
        other = computed(shared_owner("numpy"), a, b, [random.Random(seed) for seed in seeds])
        assert_same(found[0], other, what, rtol=1e-5, atol=3e-6 * math.sqrt(inner + 1))


@pytest.mark.parametrize("draw", range(6))
def test_a_row_is_its_own(rng, draw):
    """Bits of a row do not depend on the rows beside it, nor on how many there are."""
    rows, inner, columns = rng.randint(20, 90), rng.randint(1, 700), rng.choice([32, 50, 130])
    a, b = (tensor.to(shared_owner().device) for tensor in (torch.randn(rows, inner), torch.randn(inner, columns)))
    first = rng.randint(0, rows - 8)
    whole, part = sojourn.publish((a @ b, a[first : first + rng.randint(8, rows - first)] @ b))
    assert torch.equal(whole[first : first + part.shape[0]], part)


@pytest.mark.parametrize("draw", range(8))
def test_one_right_side_for_several_products(rng, draw):
    """Laid out once in a step: for products on both sides of it, and while its memory is somebody else's already."""
    width = rng.choice([20, 32, 70])
    weight, x = torch.randn(width, width), torch.randn(rng.choice([8, 12, 33]), width)
    half = rng.choice([torch.float32, torch.float16, torch.bfloat16])

    def step(weight, x):
        scaled = weight * 0.1
        y, outputs = x, []
        for _ in range(rng.randint(2, 2 + draw)):
            y = torch.tanh(y @ scaled.t() + y @ scaled + 0.5)
            outputs.append(y)
        low = (x.to(half) @ weight.to(half)).float()
        return torch.stack(outputs), low + (x.to(half) @ weight.to(half).t()).float()

    state = rng.getstate()
    expected = step(weight, x)
    rng.setstate(state)
    owner = shared_owner()
    found = sojourn.step(step)(weight.to(owner.device), x.to(owner.device))
    assert_same(found[0], expected[0], "chained", rtol=1e-4, atol=1e-4)
    scale = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}[half]
    assert_same(found[1], expected[1], str(half), rtol=scale, atol=scale * width)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_functions(rng, function, threads):
    """Within 2.5 units of the last place, at any number of elements, and on any number of threads."""
    edges = [0.0, -0.0, INF, -INF, NAN, 1e-45, -1e-38, 88.72283, 88.7229, -87.4, -103.9, -104.1, 3e38, -3e38]
    x = torch.cat([torch.tensor(edges), torch.randn(90_000) * 4, torch.randn(20_000) * 60, torch.randn(9_999) * 1e-3])
    truth = function(x.double())
    unit = torch.maximum(torch.frexp(truth.float().abs()).exponent.double().sub(24).exp2(), torch.tensor(2.0**-149))
    found = []
    for count in (1, 2):
        threads(count)
        found.append(sojourn.publish(function(x.to(shared_owner().device))))
    assert torch.equal(found[0].view(torch.int32), found[1].view(torch.int32))
    value = found[0].double()
    finite = truth.float().isfinite()
    assert torch.equal(value[~finite & ~truth.isnan()], truth[~finite & ~truth.isnan()].float().double())
    assert torch.equal(value.isnan(), truth.isnan())
    errors = ((value - truth).abs() / unit)[finite]
    assert errors.max() < 2.5, f"{errors.max()} at {x[finite][errors.argmax()]}"
    assert torch.equal(found[0].signbit()[~x.isnan()], truth.signbit()[~x.isnan()])
    if function is not torch.exp:
        assert value[~truth.isnan()].abs().max() <= 1
    for count in (0, 1, 5, 2049):
        part = x[100 : 100 + count].to(shared_owner().device)
        assert torch.equal(sojourn.publish(function(part)), found[0][100 : 100 + count]), count


@pytest.mark.parametrize("draw", range(10))
def test_a_sum_takes_its_product(rng, draw, threads):
    """Made in one go to the bits of both: into memory that dies there, or of an argument or a result, which stay."""
    rows, inner, columns = rng.choice([8, 20, 70]), rng.choice([1, 9, 64, 512, 700]), rng.choice([20, 32, 100])
    a, b, more = torch.randn(2, rows, inner), torch.randn(inner, columns), torch.randn(rows, columns)
    if draw % 3 == 0:
        more[0, 0], a[0, 1, 0] = NAN, INF
    turned = draw % 2

    def step(a, b, more, shown):
        first, second = a[0] @ b, a[1] @ b
        start = more * 2.0 if turned else more
        sum_ = second + (first + start) if turned else (start + first) + second
        both = (first, second) if shown else ()  # wanted for themselves, they are added apart
        return sum_ + (a[0] * 0.5) @ b + b.sum(0), start, *both

    owner = shared_owner()
    remote = [tensor.to(owner.device) for tensor in (a, b, more)]
    found = []
    for count in (1, 2):
        threads(count)
        found.append(sojourn.publish(sojourn.step(step)(*remote, False)))
    apart = sojourn.publish(sojourn.step(step)(*remote, True))
    for one, two, other in zip(*found, apart):
        assert torch.equal(one.view(torch.int32), two.view(torch.int32))
        assert torch.equal(one.isnan(), other.isnan())
        assert torch.equal(one.nan_to_num(), other.nan_to_num())
    assert_same(found[0], step(a, b, more, False), f"{rows} {inner} {columns}", rtol=1e-5, atol=1e-5 * math.sqrt(inner))
    assert torch.equal(sojourn.publish(remote[2]).nan_to_num(), more.nan_to_num())
