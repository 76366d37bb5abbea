# SPDX-License-Identifier: Apache-2.0
"""searchsorted and bucketize beside eager: few elements are compared one by one, many are halved."""

import math

import pytest
import torch


@pytest.mark.parametrize("size", [0, 1, 5, 32, 33, 64, 100, 1000])
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_one_sequence(device, seed, size, right, dtype):
    edges = (torch.randn(size) * 20).to(dtype).sort().values
    values = torch.cat([(torch.randn(4, 50) * 20).to(dtype).flatten(), edges])
    if dtype.is_floating_point:
        values = torch.cat([values, torch.tensor([math.nan, math.inf, -math.inf, 0.0], dtype=dtype)])
    for of in (values, values[:200].view(4, 50)):
        ours = torch.searchsorted(edges.to(device), of.to(device), right=right)
        assert torch.equal(ours.cpu(), torch.searchsorted(edges, of, right=right))
        ours = torch.bucketize(of.to(device), edges.to(device), right=right, out_int32=True)
        assert torch.equal(ours.cpu(), torch.bucketize(of, edges, right=right, out_int32=True))
    assert torch.bucketize(3, edges.to(device)).item() == torch.bucketize(3, edges).item()


@pytest.mark.parametrize("size", [7, 90])
def test_a_sequence_for_each_row(device, seed, size):
    edges, values = torch.randn(3, 2, size), torch.randn(3, 2, 40)
    order = edges.argsort(-1)
    for side in ("left", "right"):
        wanted = torch.searchsorted(edges.sort(-1).values, values, side=side)
        assert torch.equal(
            torch.searchsorted(edges.sort(-1).values.to(device), values.to(device), side=side).cpu(), wanted
        )
        ours = torch.searchsorted(edges.to(device), values.to(device), side=side, sorter=order.to(device))
        assert torch.equal(ours.cpu(), wanted)
    edges = edges.sort(-1).values
    edges[0, 1, -3:] = math.nan
    assert torch.equal(torch.searchsorted(edges.to(device), values.to(device)).cpu(), torch.searchsorted(edges, values))
