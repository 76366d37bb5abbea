# SPDX-License-Identifier: Apache-2.0
"""Sums of rows that share an index, as an embedding's gradient needs them: eager's values, and bits that do not depend
on the number of threads."""

import pytest
import torch
from remote_support import assert_same, shared_owner
from torch.nn import functional as F

import sojourn


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize("draw", range(12))
def test_index_add(rng, threads, draw):
    rows, width, count = rng.choice([1, 3, 50, 700]), rng.choice([0, 1, 7, 64, 129]), rng.choice([0, 1, 40, 900])
    kind = rng.choice([torch.float32, torch.float64, torch.float16, torch.int64])
    x, u = torch.randint(-9, 9, (rows, width)).to(kind), torch.randint(-9, 9, (count, width)).to(kind)
    if kind == torch.float32:
        x, u = torch.randn(rows, width), torch.randn(count, width)
        u[torch.rand(u.shape) < 0.02] = rng.choice([float("nan"), float("inf"), -float("inf")])
    index = torch.randint(rows, (count,))
    device = shared_owner().device
    results = []
    for number in (1, 2, 3):
        threads(number)
        results.append(sojourn.publish(x.to(device).index_add(0, index.to(device), u.to(device))))
    what = f"{rows} rows of {width}, {count} more, {kind}"
    for result in results:
        assert torch.equal(result.nan_to_num(7), results[0].nan_to_num(7)), what
    if kind.is_floating_point and kind != torch.float16:
        assert_same(results[0], x.double().index_add(0, index, u.double()).to(kind), what, rtol=1e-5, atol=1e-4)
    elif kind == torch.int64:
        assert_same(results[0], x.index_add(0, index, u), what)


@pytest.mark.parametrize("draw", range(6))
def test_gradient_of_an_embedding(rng, threads, draw):
    words, width = rng.choice([1, 30, 5000]), rng.choice([1, 33, 128])
    tokens = torch.randint(words, (rng.randint(1, 8), rng.randint(1, 300)))
    weight, gradient = torch.randn(words, width), torch.randn(*tokens.shape, width)
    exact = weight.double().requires_grad_()
    F.embedding(tokens, exact).backward(gradient.double())
    device, results = shared_owner().device, []
    for number in (1, 2):
        threads(number)
        mine = weight.to(device).requires_grad_()
        F.embedding(tokens.to(device), mine).backward(gradient.to(device))
        results.append(sojourn.publish(mine.grad))
    assert torch.equal(results[0], results[1])
    assert_same(results[0], exact.grad.float(), f"{words} words of {width}", rtol=1e-5, atol=1e-4)
