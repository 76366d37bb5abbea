# SPDX-License-Identifier: Apache-2.0
"""Halves round once: results beside what f64 gives, within half a unit in the last place and what f32 adds to it."""

import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # a read costs a trip
HALVES = (torch.float16, torch.bfloat16)


def factors(number):
    return {
        "add": lambda x, y, z: torch.add(x, y, alpha=number),
        "sub": lambda x, y, z: torch.sub(x, y, alpha=number),
        "lerp": lambda x, y, z: torch.lerp(x, y, number),
        "addcmul": lambda x, y, z: torch.addcmul(x, y, z, value=number),
        "addcdiv": lambda x, y, z: torch.addcdiv(x, y, z, value=number),
        "addr": lambda x, y, z: torch.addr(x, y[0], z[1], beta=number, alpha=1 - number),
        "addmm": lambda x, y, z: torch.addmm(x, y, z, beta=number, alpha=1 - number),
    }


def slack(x, y, z):
    """What f32 may add, from how large the summands are."""
    return (x.abs().max() + y.abs().max() * z.abs().max() * len(x)) * 8 * torch.finfo(torch.float32).eps


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", factors(0))
def test_factors_are_not_halves(name, dtype, device, rng, seed):
    """A factor of 0.3 is no half: rounded to one before, the result has an error of more than its own rounding."""
    for _ in range(4):
        number = rng.uniform(0.1, 0.9)
        given = [(torch.randn(6, 6) + sign).to(dtype) for sign in (0, 0, 4)]
        got = factors(number)[name](*(x.to(device) for x in given)).cpu()
        wide = [x.double() for x in given]
        truth = factors(number)[name](*wide)
        unit = 2.0 ** (truth.abs().log2().floor()) * torch.finfo(dtype).eps
        assert got.dtype == dtype
        off = (got.double() - truth).abs() - unit.clamp(min=torch.finfo(dtype).tiny) / 2 - slack(*wide)
        assert off.max() <= 0, (number, float(off.max()))


@pytest.mark.parametrize("dtype", HALVES)
def test_matrix_exp(device, dtype, seed):
    """Eager's own is noise for halves."""
    for shape in ((1, 1), (4, 4), (2, 3, 3), (0, 3, 3)):
        x = torch.randn(shape).to(dtype)
        got = torch.linalg.matrix_exp(x.to(device))
        assert got.dtype == dtype
        torch.testing.assert_close(got.cpu(), torch.linalg.matrix_exp(x.double()).to(dtype))


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", ["silu", "mish", "gelu"])
def test_slopes_of_activations(name, device, dtype, seed):
    """Near where a slope crosses zero what it is made of cancels: halves on the way would leave no digit."""
    x, g = (torch.randn(2000) * 3).to(dtype), torch.randn(2000).to(dtype)

    def slope(x, g):
        x = x.clone().requires_grad_()
        return torch.autograd.grad(getattr(torch.nn.functional, name)(x), x, g)[0]

    found, truth = slope(x.to(device), g.to(device)).cpu(), slope(x.double(), g.double())
    unit = torch.finfo(dtype).eps * truth.abs().clamp(min=torch.finfo(dtype).tiny)
    assert found.dtype == dtype
    off = (found.double() - truth).abs() - unit - 8 * torch.finfo(torch.float32).eps * g.double().abs()
    assert off.max() <= 0, float((off / unit).max())
