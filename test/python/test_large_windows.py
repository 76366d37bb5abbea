# SPDX-License-Identifier: Apache-2.0
"""Pools whose windows are large and overlap much share their work between windows: eager's values all the same."""

import pytest
import torch
from remote_support import assert_same, shared_owner
from torch.nn import functional as F


def numbers(*shape):
    """Many ties, and a NaN."""
    x = torch.randint(-3, 4, shape).double()
    x.view(-1)[torch.randint(0, x.numel(), ())] = float("nan")
    return x


SUMS = {
    "line": lambda x: F.avg_pool1d(x(1, 2, 5000), 2400, 1, 1200),
    "line with a stride": lambda x: F.avg_pool1d(x(2, 1, 9001), 4001, 3, 2000),
    "plane": lambda x: F.avg_pool2d(x(1, 2, 81, 90), (40, 37), 1, (20, 18)),
    "plane beside a line": lambda x: F.avg_pool2d(x(1, 1, 3, 4000), (1, 1999), (1, 1), (0, 900)),
    "volume": lambda x: F.avg_pool3d(x(1, 1, 20, 21, 22), (10, 11, 9), 1, (5, 5, 4)),
}
MAXIMA = {
    "line": lambda x: F.max_pool1d(x(1, 2, 5000), 2400, 1, 1200, return_indices=True),
    "dilated line": lambda x: F.max_pool1d(x(1, 1, 6000), 1000, 2, 500, dilation=3, return_indices=True),
    "plane": lambda x: F.max_pool2d(x(1, 2, 81, 90), (40, 37), 1, (20, 18), return_indices=True),
    "volume": lambda x: F.max_pool3d(x(1, 1, 20, 21, 22), (10, 11, 9), 1, (5, 5, 4), return_indices=True),
}


def both(call, data):
    """What the call gives at the owner and in eager, of the same data."""
    device, made = shared_owner().device, []

    def fresh(*shape):
        made.append(data(*shape))
        return made[-1]

    here = call(fresh)
    return call(lambda *_: made[0].to(device)), here


@pytest.mark.parametrize("name", SUMS)
def test_sums(seed, name):
    there, here = both(SUMS[name], lambda *shape: torch.randn(shape, dtype=torch.float64))
    assert_same(there, here, name, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", MAXIMA)
def test_maxima_and_where_they_are(seed, name):
    for data in (lambda *shape: torch.randint(-3, 4, shape).double(), lambda *shape: torch.randn(shape)):
        there, here = both(MAXIMA[name], data)
        assert_same(there[0], here[0], name)
        assert_same(there[1], here[1], name, rtol=0, atol=0)


@pytest.mark.parametrize("name", MAXIMA)
def test_nan_wins(seed, name):
    there, here = both(MAXIMA[name], numbers)
    assert_same(there[0], here[0], name)
