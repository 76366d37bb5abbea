# SPDX-License-Identifier: Apache-2.0
"""Histograms over the range of their values, and over several dimensions: as torch gives them on the CPU."""

import pytest
import torch
from eager_support import both

import sojourn


@pytest.fixture
def values(seed):
    """Hundredths; the ends are such that edges of 8 and 16 bins are binary fractions."""
    x = torch.randint(-99, 100, (60, 3)).double() / 100
    x[0], x[1] = -1, 1
    return x


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_ranges_of_values(device, values, dtype):
    x = values.to(dtype)
    both(device, lambda x: torch.histc(x, 10), x)
    both(device, lambda x: torch.histc(x, 8, min=3, max=3), x)
    both(device, lambda x: torch.histogram(x, 8), x)
    both(device, lambda x: torch.histogram(x, 16, weight=x.square(), density=True), x)
    both(device, lambda x: torch.histogram(x + 3, 8), x)
    out = torch.empty(0, dtype=dtype).to(device)
    torch.histc(x.to(device), 5, out=out)
    assert torch.equal(out.cpu(), torch.histc(x, 5))


def test_ranges_of_one_value_and_of_none(device):
    for x in (torch.ones(5), torch.zeros(0), torch.full((2, 2), -3.5)):
        both(device, lambda x: torch.histc(x, 4), x)
        both(device, lambda x: torch.histogram(x, 4), x)
    both(device, lambda x: list(torch.histogramdd(x, [2, 4])), torch.ones(3, 2))
    both(device, lambda x: list(torch.histogramdd(x, [2, 4])), torch.ones(0, 2))


def test_the_range_of_one_call_is_not_another_ones(device, values):
    """Numbers may change from step to step without a new program; whether there is a range may not."""
    x = values.to(device)
    for low, high in ((0, 0), (-1, 1), (0, 0), (-0.5, 0.5), (0.25, 0.25)):
        assert torch.equal(torch.histc(x, 8, low, high).cpu(), torch.histc(values, 8, low, high))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_several_dimensions(device, values, dtype):
    x = values.to(dtype)

    def weighted(x):
        return torch.histogramdd(x, [4, 2, 8], weight=x[..., 0].square())

    calls = [
        lambda x: torch.histogramdd(x, [4, 2, 8]),
        lambda x: torch.histogramdd(x, 4),
        weighted,
        lambda x: torch.histogramdd(x, [4, 2, 8], density=True),
        lambda x: torch.histogramdd(x, [4, 2, 8], range=(-1.0, 1.0, -0.5, 0.5, 0.0, 4.0)),
        lambda x: torch.histogramdd(x[..., :1], [4], range=(0.25, 0.25)),
        lambda x: torch.histogramdd(x.view(6, 10, 3), [4, 4, 4], weight=x.view(6, 10, 3)[..., 1].abs()),
        lambda x: torch.histogramdd(
            x[:, :2], [torch.tensor(e, dtype=dtype).to(x.device) for e in ([-1, 0, 0.25, 1], [-0.5, 0.75])]
        ),
        lambda x: torch.histogramdd(
            x[:, :2], [torch.tensor(e, dtype=dtype).to(x.device) for e in ([-1.0, 0], [-0.5, 0.1, 0.75])], density=True
        ),
    ]
    for call in calls:
        both(device, lambda x: [call(x).hist, *call(x).bin_edges], x)


def test_inside_of_a_step(device, values):
    x = values.to(device)
    with sojourn.step():
        found = [torch.histc(x, 8), *torch.histogram(x, 8), torch.histogramdd(x, 2).hist]
    wanted = [torch.histc(values, 8), *torch.histogram(values, 8), torch.histogramdd(values, 2).hist]
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours.cpu(), theirs)


def edges(x, *lists):
    return [torch.tensor(each).to(x.device) for each in lists]


BAD = {
    "equal to the innermost dimension": lambda x: torch.histogramdd(x, [3]),
    "bins must be > 0, but got 0 for dimension 1": lambda x: torch.histogramdd(x, [3, 0]),
    "range should have 4 elements, but got 2": lambda x: torch.histogramdd(x, [3, 4], range=(0.0, 1.0)),
    "min should not exceed max": lambda x: torch.histogramdd(x, [3, 4], range=(1.0, 0.0, 0.0, 1.0)),
    "is not finite": lambda x: torch.histogramdd(x, [3, 4], range=(0.0, float("inf"), 0.0, 1.0)),
    "same shape as the input tensor excluding": lambda x: torch.histogramdd(x, [3, 4], weight=x[:3, 0]),
    r"input\(float\), and weight\(double\)": lambda x: torch.histogramdd(x, [3, 4], weight=x[:, 0].double()),
    "not implemented for 'Long'": lambda x: torch.histogramdd(x.long(), [3, 4]),
    "at least 2 dimensions": lambda x: torch.histogramdd(x[0], [3]),
    "bins tensor should have one dimension": lambda x: torch.histogramdd(x, edges(x, [0.0, 1.0], [[0.0, 1.0]])),
    "same dtype": lambda x: torch.histogramdd(x, [e.double() for e in edges(x, [0.0, 1.0], [0.0, 1.0])]),
}  # fmt: skip


@pytest.mark.parametrize("text", BAD)
def test_bad_arguments(device, text):
    x = torch.rand(9, 2)
    for given in (x, x.to(device)):
        with pytest.raises((RuntimeError, NotImplementedError), match=text):
            BAD[text](given)
