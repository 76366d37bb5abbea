# SPDX-License-Identifier: Apache-2.0
"""Writes through masks and indices whose gradients ATen forms by values, beside eager."""

import pytest
import torch

import sojourn


def chosen(mask, *sizes):
    return torch.randn(int(mask.sum()), *sizes, dtype=torch.float64)


WRITES = {
    "a number": lambda mask, rows: (mask, torch.tensor(2.5, dtype=torch.float64)),
    "one after another": lambda mask, rows: (mask, chosen(mask)),
    "a row for all": lambda mask, rows: (rows, torch.randn(3, dtype=torch.float64)),
    "a row for all, of one": lambda mask, rows: (rows, torch.randn(1, 3, dtype=torch.float64)),
    "rows": lambda mask, rows: (rows, chosen(rows, 3)),
    "a number per row": lambda mask, rows: (rows, chosen(rows, 1)),
}


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("name", WRITES)
def test_writes_through_masks(device, seed, name, accumulate):
    x, mask, rows = torch.randn(5, 3, dtype=torch.float64), torch.rand(5, 3) > 0.4, torch.rand(5) > 0.4
    where, values = WRITES[name](mask, rows)
    wanted = x.index_put((where,), values, accumulate=accumulate)
    got = x.to(device).index_put((where.to(device),), values.to(device), accumulate=accumulate)
    assert torch.equal(got.cpu(), wanted)
    here, there = x.clone(), x.to(device)
    here[where] = values
    there[where.to(device)] = values.to(device)
    assert torch.equal(there.cpu(), here)


def test_a_mask_behind_a_full_dim(device, seed):
    x, mask = torch.randn(4, 5), torch.rand(5) > 0.5
    here, there = x.clone(), x.to(device)
    here[:, mask] = 3.0
    there[:, mask.to(device)] = 3.0
    assert torch.equal(there.cpu(), here)
    values = torch.randn(4, int(mask.sum()))
    here[:, mask] = values
    there[:, mask.to(device)] = values.to(device)
    assert torch.equal(there.cpu(), here)
    with sojourn.step(), pytest.raises(sojourn.ValueNeeded, match="torch.where"):
        there[:, there[0] > 0] = torch.ones(4, 2).to(device)


def test_gradients_of_what_is_written(device, seed):
    x, index, mask = torch.randn(4, 3, dtype=torch.float64), torch.tensor([0, 2, 0]), torch.rand(4, 3) > 0.5
    value, source = torch.randn((), dtype=torch.float64), torch.randn(12, dtype=torch.float64)
    found = []
    for put in (lambda t: t.clone(), lambda t: t.to(device)):
        leaf, number, many = (put(t).requires_grad_() for t in (x, value, source))
        (leaf.index_fill(0, put(index), number) * put(x)).sum().backward()
        (leaf.masked_scatter(put(mask), many) * put(x)).sum().backward()
        found.append([t.grad.cpu() for t in (leaf, number, many)])
    for ours, theirs in zip(*found):
        torch.testing.assert_close(theirs, ours, rtol=1e-12, atol=1e-12)
