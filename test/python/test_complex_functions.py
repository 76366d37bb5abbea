# SPDX-License-Identifier: Apache-2.0
"""Functions of complex numbers where formulas by parts matter: infinities, numbers near zero and far away."""

import numpy
import pytest
import torch

import sojourn

SPECIAL = [
    0j,
    complex(float("inf"), 0),
    complex(0, float("-inf")),
    complex(float("nan"), 1),
    1e300 + 1e300j,
    1 + 2j,
    -0.5 - 0.25j,
]


@pytest.mark.parametrize("name", ["isinf", "isfinite", "isnan"])
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_questions_about_parts(name, dtype):
    x = torch.tensor(SPECIAL, dtype=dtype)
    with sojourn.local() as owner:
        assert getattr(torch, name)(x.to(owner.device)).tolist() == getattr(torch, name)(x).tolist()


@pytest.mark.parametrize("name", ["sinh", "cosh", "tan", "log2", "log10", "expm1"])
def test_functions_near_zero_and_far_away(name):
    torch.manual_seed(torch.seed())
    sizes = 10.0 ** torch.empty(200, dtype=torch.float64).uniform_(-9, 2)
    x = torch.polar(sizes, torch.empty(200, dtype=torch.float64).uniform_(-3.1, 3.1))
    with sojourn.local() as owner:
        found = getattr(torch, name)(x.to(owner.device)).cpu()
    expected = torch.from_numpy(getattr(numpy, name)(x.numpy()))
    torch.testing.assert_close(found.real, expected.real, rtol=1e-12, atol=1e-14 * float(expected.abs().min()))
    torch.testing.assert_close(found.imag, expected.imag, rtol=1e-12, atol=1e-14 * float(expected.abs().min()))


def test_zero_to_the_power_of_zero():
    x = torch.zeros(2, dtype=torch.complex128)
    with sojourn.local() as owner:
        assert (x.to(owner.device) ** x.to(owner.device)).tolist() == [1, 1]
