# SPDX-License-Identifier: Apache-2.0
"""Parts of floats and their neighbours, to the bit."""

import pytest
import torch
from eager_support import both

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


def floats(dtype):
    """Random bit patterns of every magnitude, and the corners."""
    width = torch.finfo(dtype).bits
    whole = {16: torch.int16, 32: torch.int32, 64: torch.int64}[width]
    bits = torch.randint(-(2 ** (width - 1)), 2 ** (width - 1) - 1, (500,), dtype=torch.int64).to(whole)
    info = torch.finfo(dtype)
    least = torch.tensor([1, 2, 3, 1000], dtype=whole).view(dtype)
    corners = torch.tensor(
        [0.0, -0.0, 1.0, -1.0, 0.5, torch.inf, -torch.inf, torch.nan, info.max, info.min, info.tiny, -info.tiny],
        dtype=dtype,
    )
    below = torch.tensor([info.tiny], dtype=dtype).view(whole).sub(1).view(dtype)
    return torch.cat([bits.view(dtype), least, -least, corners, below, -below])


def bits_of(x):
    """Integers; every NaN is one."""
    whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]
    return torch.where(x.isnan(), torch.full((), torch.nan, dtype=x.dtype), x).view(whole)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_mantissa_and_exponent(device, seed, dtype):
    x = floats(dtype)
    ours, theirs = torch.frexp(x.to(device)), torch.frexp(x)
    assert ours.exponent.dtype == torch.int32 and ours.mantissa.dtype == dtype
    assert torch.equal(bits_of(ours.mantissa.cpu()), bits_of(theirs.mantissa))
    assert torch.equal(ours.exponent.cpu(), theirs.exponent)


def test_mantissas_have_gradients(device, seed):
    both(device, lambda x: torch.frexp(x).mantissa, torch.randn(3, 4, dtype=torch.float64), grad=True)
    x = torch.randn(4, 3)
    assert torch.frexp(x.mT.to(device)).mantissa.stride() == torch.frexp(x.mT).mantissa.stride()
    mantissa, exponent = torch.empty(0).to(device), torch.empty(0, dtype=torch.int32).to(device)
    torch.frexp(x.to(device), out=(mantissa, exponent))
    assert torch.equal(torch.ldexp(mantissa, exponent).cpu(), x)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_neighbours(device, seed, dtype):
    x = floats(dtype)
    for y in (x.flip(0), x.roll(1), x, -x, torch.zeros_like(x), torch.full_like(x, torch.inf)):
        wanted = torch.nextafter(x, y)
        assert torch.equal(bits_of(torch.nextafter(x.to(device), y.to(device)).cpu()), bits_of(wanted))
    row, column = x[:20], x[20:40, None]
    found = torch.nextafter(row.to(device), column.to(device)).cpu()
    assert torch.equal(bits_of(found), bits_of(torch.nextafter(row, column)))


def test_neighbours_have_gradients(device, seed):
    x, y = torch.randn(2, 7, dtype=torch.float64)
    try:
        both(device, torch.nextafter, x, y, grad=True)
    except NotImplementedError as error:  # eager's own
        assert "derivative for aten::nextafter is not implemented" in str(error)
    z = x.to(device)
    z.nextafter_(y.to(device))
    assert torch.equal(z.cpu(), x.nextafter(y))


BAD = {
    "only supports floating-point dtypes": lambda x: torch.frexp(x),
    "\"nextafter_cpu\" not implemented for 'Long'": lambda x: torch.nextafter(x, x),
}


@pytest.mark.parametrize("text", BAD)
def test_bad_arguments(device, text):
    x = torch.arange(3)
    for given in (x, x.to(device)):
        with pytest.raises((RuntimeError, NotImplementedError), match=text):
            BAD[text](given)
