# SPDX-License-Identifier: Apache-2.0
"""Special functions at the owner beside torch.special: values, edges, types, gradients; what bounds their time."""

import math

import pytest
import torch

import sojourn

UNARY = [
    "airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "entr", "erfcx", "i0", "i0e", "i1", "i1e",
    "log_ndtr", "modified_bessel_i0", "modified_bessel_i1", "modified_bessel_k0", "modified_bessel_k1", "ndtri",
    "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "spherical_bessel_j0",
]  # fmt: skip
POLYNOMIALS = [
    f"{shifted}chebyshev_polynomial_{kind}" for shifted in ("", "shifted_") for kind in "tuvw"
] + ["hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"]  # fmt: skip
LOOSE = {torch.float64: 2e-7, torch.float32: 2e-5}
#: torch's own Bessel functions of f64 are good to six digits and its Airy function to five; SciPy's are better.
LOOSE_BY_NAME = {"airy_ai": 2e-5} | {f"bessel_{kind}": 2e-5 for kind in ("j0", "j1", "y0", "y1")}


def same(ours, theirs, rtol=None):
    tolerance = rtol or LOOSE[theirs.dtype]
    torch.testing.assert_close(ours.cpu(), theirs, rtol=tolerance, atol=tolerance, equal_nan=True)


def positions(dtype):
    return torch.cat([torch.randn(40, dtype=dtype) * 3, torch.rand(20, dtype=dtype), torch.tensor([0.0, 1.0, -1.0, math.nan], dtype=dtype)])  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_variable(device, seed, name, dtype):
    x = positions(dtype)
    function = getattr(torch.special, name)
    same(function(x.to(device)), function(x), LOOSE_BY_NAME.get(name))
    into = torch.empty_like(x).to(device)
    function(x.to(device), out=into)
    same(into, function(x), LOOSE_BY_NAME.get(name))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(device, seed, name, dtype):
    function = getattr(torch.special, name)
    x = torch.cat([torch.rand(60, dtype=dtype) * 2 - 1, torch.randn(20, dtype=dtype), torch.tensor([1.0, -1.0, 0.0], dtype=dtype)])  # fmt: skip
    n = torch.randint(-2, 9, x.shape).to(dtype)
    loose = 2e-4 if dtype == torch.float32 else 1e-9
    same(function(x.to(device), n.to(device)), function(x, n), rtol=loose)
    same(function(x.to(device), 5), function(x, 5), rtol=loose)
    same(function(0.25, n.to(device)), function(0.25, n), rtol=loose)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_zeta_and_incomplete_gamma(device, seed, dtype):
    a, b = (torch.cat([torch.rand(60, dtype=dtype) * 9, torch.tensor([0.0, 1.0, 2.0, 3.0], dtype=dtype)]) for _ in "ab")
    for function in (torch.special.zeta, torch.special.gammainc, torch.special.gammaincc, torch.igamma, torch.igammac):
        same(function(a.to(device), b.to(device)), function(a, b))
    below = -torch.rand(20, dtype=dtype) * 50
    three = torch.full_like(below, 3.0)
    same(torch.special.zeta(three.to(device), below.to(device)), torch.special.zeta(three, below))
    same(torch.special.zeta(3.0, b.to(device)), torch.special.zeta(3.0, b))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", range(6))
def test_polygamma(device, seed, n, dtype):
    x = torch.rand(50, dtype=dtype) * 8 + 0.1
    same(torch.polygamma(n, x.to(device)), torch.polygamma(n, x))
    if n == 1:
        below = -torch.rand(20, dtype=torch.float64) * 20
        same(torch.polygamma(1, below.to(device)), torch.polygamma(1, below), rtol=1e-6)
        assert torch.polygamma(1, torch.tensor([torch.inf]).to(device)).item() == 0


GRADIENTS = {
    "digamma": torch.digamma,
    "polygamma": lambda x: torch.polygamma(2, x),
    "lgamma": torch.lgamma,
    "i0": torch.special.i0,
    "i0e": torch.special.i0e,
    "i1": torch.special.i1,
    "i1e": torch.special.i1e,
    "erfcx": torch.special.erfcx,
    "ndtri": lambda x: torch.special.ndtri(x / 10),
    "log_ndtr": torch.special.log_ndtr,
    "entr": torch.special.entr,
    "xlog1py": lambda x: torch.special.xlog1py(x, x + 1),
    "zeta": lambda x: torch.special.zeta(torch.full_like(x, 2.5), x),
    "igamma": lambda x: torch.igamma(torch.full_like(x, 2.5), x),
    "igammac": lambda x: torch.igammac(torch.full_like(x, 2.5), x),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(device, seed, name):
    x = torch.rand(30, dtype=torch.float64) * 6 + 0.2
    here, there = x.clone().requires_grad_(), x.to(device).requires_grad_()
    results = []
    for leaf in (here, there):
        y = GRADIENTS[name](leaf)
        results.append((y, torch.autograd.grad(y.square().sum(), leaf)[0]))
    same(results[1][0].detach(), results[0][0].detach())
    same(results[1][1], results[0][1])


WINDOWS = {
    "bartlett": torch.bartlett_window,
    "blackman": torch.blackman_window,
    "hamming": torch.hamming_window,
    "hamming by numbers": lambda n, periodic, **kw: torch.hamming_window(n, periodic, 0.6, 0.3, **kw),
    "hann": torch.hann_window,
    "kaiser": torch.kaiser_window,
    "kaiser by number": lambda n, periodic, **kw: torch.kaiser_window(n, periodic, 5.5, **kw),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", WINDOWS)
def test_windows(device, name, dtype):
    for size in (0, 1, 2, 7, 12):
        for periodic in (True, False):
            window = WINDOWS[name](size, periodic, dtype=dtype)
            same(WINDOWS[name](size, periodic, dtype=dtype, device=device), window, 1e-6)


def test_types_are_eager_s(device, seed):
    whole = torch.randint(1, 6, (20,))
    half = torch.rand(20).bfloat16()
    for function in (torch.special.i1e, torch.special.erfcx, torch.special.bessel_j0):
        ours, theirs = function(whole.to(device)), function(whole)
        assert ours.dtype == theirs.dtype == torch.float32
        same(ours, theirs)
    ours, theirs = torch.i0(half.to(device)), torch.i0(half)
    assert ours.dtype == theirs.dtype == torch.bfloat16
    assert torch.equal(ours.cpu(), theirs)
    mixed = torch.special.zeta(whole.to(device), torch.full((20,), 1.5, dtype=torch.float64).to(device))
    assert mixed.dtype == torch.float64


def test_time_is_bounded(device, seed):
    """What would run for as long as a value says is NaN instead."""
    x = torch.full((3,), 0.5).to(device)
    degrees = torch.tensor([4096.0, 4097.0, math.inf]).to(device)
    values = torch.special.legendre_polynomial_p(x, degrees).cpu()
    assert values[0].abs() < 1 and values[1:].isnan().all()
    far = torch.special.zeta(torch.full((2,), 3.0).to(device), torch.tensor([-4095.5, -1e9]).to(device)).cpu()
    assert not far[0].isnan() and far[1].isnan()


def test_orders_below_0_are_refused(device):
    with pytest.raises((RuntimeError, sojourn.Error), match="polygamma|order"):
        torch.polygamma(-1, torch.ones(2).to(device)).cpu()
