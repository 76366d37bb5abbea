# SPDX-License-Identifier: Apache-2.0
"""Linear algebra: what torch gives on the CPU, an owner gives too; where torch raises, NaN and info."""

import pytest
import torch
from remote_support import assert_same

# The second runtime works column by column: another order of sums, relative to factors of size about sqrt(n).
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-11}


def definite(*shape, dtype=torch.float64):
    """Symmetric matrices [..., n, n] with eigenvalues of at least 1."""
    a = torch.randn(*shape, shape[-1], dtype=dtype)
    return a @ a.mT + torch.eye(shape[-1], dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("shape", [(1,), (7,), (0,), (3, 5), (2, 0, 4), (40, 12), (3, 130)], ids=str)
@pytest.mark.parametrize("upper", [False, True])
def test_cholesky(device, seed, shape, dtype, upper):
    x = definite(*shape, dtype=dtype)
    garbage = torch.full_like(x, torch.nan)
    x = x.triu() + garbage.tril(-1) if upper else x.tril() + garbage.triu(1)
    expected, found = (torch.linalg.cholesky_ex(a, upper=upper) for a in (x, x.to(device)))
    assert found.L.stride() == expected.L.stride()
    assert_same([*found], [*expected], rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_matrices_without_a_factor(device, seed, dtype):
    size = 9
    x = definite(4, size + 3, size, dtype=dtype)
    for order in range(1, size + 1):
        x[0, order, order - 1, order - 1] = -1
        x[1, order, order - 1, order - 1] = torch.nan
        x[2, order] = torch.eye(size, dtype=dtype)
        x[2, order, order - 1, order - 1] = 0
    expected, found = torch.linalg.cholesky_ex(x), torch.linalg.cholesky_ex(x.to(device))
    numbers = torch.arange(1, size + 1, dtype=torch.int32).expand(3, size)
    info = torch.zeros(4, size + 3, dtype=torch.int32)
    info[:3, 1 : size + 1] = numbers
    assert torch.equal(expected.info, info)
    factors = expected.L.masked_fill((info > 0)[..., None, None], torch.nan)
    assert_same([*found], [factors, info], rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
