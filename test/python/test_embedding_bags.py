# SPDX-License-Identifier: Apache-2.0
"""Bags of embeddings beside eager: sums, means and maxima, with padding, weights per sample, and empty bags."""

import itertools

import pytest
import torch
import torch.nn.functional as F

CASES = [
    case
    for case in itertools.product(("sum", "mean", "max"), (None, 2), (False, True), (False, True))
    if not (case[3] and case[0] != "sum")
]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("mode, padding, last, weighted", CASES)
def test_bags(device, seed, mode, padding, last, weighted, dtype):
    table, index = torch.randn(10, 3).to(dtype), torch.randint(10, (12,))
    offsets = torch.tensor([0, 0, 3, 7, 7] + [12] * last)
    weights = torch.randn(12).to(dtype) if weighted else None

    def run(place):
        rows = table.to(place).requires_grad_()
        scale = weights.to(place).requires_grad_() if weighted else None
        y = F.embedding_bag(
            index.to(place), rows, offsets.to(place), mode=mode, padding_idx=padding, include_last_offset=last,
            per_sample_weights=scale,
        )  # fmt: skip
        total = (y * torch.arange(y.numel(), dtype=dtype, device=place).view_as(y)).sum()
        return [y.detach(), *torch.autograd.grad(total, [rows, scale] if weighted else [rows])]

    loose = {"rtol": 0.03, "atol": 0.2} if dtype == torch.bfloat16 else {}
    for ours, theirs in zip(run(device), run("cpu"), strict=True):
        torch.testing.assert_close(ours.cpu(), theirs, **loose)


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_gradients_by_frequency(device, seed, mode):
    """Divided by how often a row is taken. Eager's CPU kernel divides by the counts of other rows; CUDA's does this."""
    table, index = torch.randn(6, 2, dtype=torch.float64), torch.tensor([1, 1, 4, 1, 0, 4])
    offsets = torch.tensor([0, 2, 5])
    plain, scaled = (
        torch.autograd.grad(
            F.embedding_bag(
                index.to(place), rows, offsets.to(place), mode=mode, scale_grad_by_freq=place != "cpu"
            ).square().sum(),
            rows,
        )[0].cpu()
        for place in ("cpu", device)
        for rows in [table.to(place).requires_grad_()]
    )  # fmt: skip
    torch.testing.assert_close(scaled, plain / index.bincount(minlength=6).clamp(min=1)[:, None])


def test_matrices_of_indices_and_refusals(device, seed):
    table, index = torch.randn(7, 4), torch.randint(7, (5, 3))
    torch.testing.assert_close(F.embedding_bag(index.to(device), table.to(device)).cpu(), F.embedding_bag(index, table))
    module = torch.nn.EmbeddingBag(7, 4, mode="max").to(device)
    assert module(index.to(device)).shape == (5, 4)
    with pytest.raises(Exception, match="sparse"):
        rows = table.to(device).requires_grad_()
        F.embedding_bag(index.to(device), rows, sparse=True).sum().backward()
        rows.grad.cpu()
