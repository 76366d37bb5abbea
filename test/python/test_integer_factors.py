# SPDX-License-Identifier: Apache-2.0
"""gcd and lcm, and Embedding's max_norm, beside eager."""

import pytest
import torch
import torch.nn.functional as F


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize("function", [torch.gcd, torch.lcm])
def test_common_factors(device, seed, function, dtype):
    info = torch.iinfo(dtype)
    most = min(info.max, 10**9)
    a, b = (torch.randint(max(info.min, -most), most, (200,)).to(dtype) for _ in "ab")
    edges = torch.tensor([0, 1, info.max, info.min, info.max - 1], dtype=dtype)
    a, b = torch.cat([a, edges, edges]), torch.cat([b, edges, edges.flip(0)])
    assert torch.equal(function(a.to(device), b.to(device)).cpu(), function(a, b))
    small = torch.randint(0, 40, (50,)).to(dtype)
    assert torch.equal(
        function(small.to(device), torch.tensor(12, dtype=dtype).to(device)).cpu(),
        function(small, torch.tensor(12, dtype=dtype)),
    )


def test_the_longest_algorithm(device):
    a, b = 1, 1
    while a + b < 2**63:
        a, b = a + b, a
    pair = torch.tensor([a]), torch.tensor([b])
    assert torch.gcd(pair[0].to(device), pair[1].to(device)).item() == 1


@pytest.mark.parametrize("norm", [1.0, 2.0, 3.0, float("inf")])
def test_rows_of_embeddings_are_scaled(device, seed, norm):
    weight, index = torch.randn(9, 4, dtype=torch.float64), torch.tensor([[0, 3, 3], [8, 0, 5]])
    here, there = weight.clone().requires_grad_(), weight.to(device).requires_grad_()
    wanted = F.embedding(index, here, max_norm=0.9, norm_type=norm)
    got = F.embedding(index.to(device), there, max_norm=0.9, norm_type=norm)
    torch.testing.assert_close(got.detach().cpu(), wanted.detach(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(there.detach().cpu(), here.detach(), rtol=1e-12, atol=1e-12)
    wanted.square().sum().backward()
    got.square().sum().backward()
    torch.testing.assert_close(there.grad.cpu(), here.grad, rtol=1e-12, atol=1e-12)
    bag = torch.nn.EmbeddingBag(9, 4, max_norm=0.5, dtype=torch.float64)
    far = torch.nn.EmbeddingBag(9, 4, max_norm=0.5, dtype=torch.float64)
    far.load_state_dict(bag.state_dict())
    far.to(device)
    torch.testing.assert_close(far(index.to(device)).detach().cpu(), bag(index).detach(), rtol=1e-12, atol=1e-12)
