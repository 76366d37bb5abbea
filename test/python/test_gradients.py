# SPDX-License-Identifier: Apache-2.0
"""Gradients that Sojourn writes itself because ATen's formulas read values (frontend/recording/Autograd.cpp)."""

import pytest
import torch
from remote_support import shared_owner

import sojourn

CALLS = {
    "max": lambda t: t.max(),
    "min": lambda t: t.min(),
    "torch.max": lambda t: torch.max(t) * 3,
    "median": lambda t: t.median(),
    "nanmedian": lambda t: t.nanmedian(),
    "prod": lambda t: t.prod(),
    "prod in another dtype": lambda t: t.prod(dtype=torch.float64),
    "prod along a dim": lambda t: t.prod(0),
    "prod keeping the dim": lambda t: t.prod(-1, keepdim=True),
    "prod of a scalar": lambda t: t[0, 0].prod(),
    "max of a scalar": lambda t: t[0, 0].max(),
    "masked_fill with a tensor": lambda t: t.masked_fill(t.detach() > 0.5, t.sum()),
    "masked_fill that broadcasts": lambda t: t[:1].masked_fill(t.detach() > 0.5, t[0, 0]),
    "normalisation": lambda t: ((t - t.min()) / (t.max() - t.min() + 1)).pow(2),
}
DATA = {
    "random": lambda: torch.randn(torch.randint(1, 6, ()), torch.randint(1, 6, ())),
    "ties and zeros": lambda: torch.randint(0, 3, (3, 4)).float(),
    "one zero": lambda: torch.tensor([[0.0, 2.0], [3.0, -4.0]]),
    "NaN": lambda: torch.tensor([[1.0, float("nan")], [float("nan"), 2.0]]),
}


@pytest.mark.parametrize("runtime", ["native", "numpy"])
@pytest.mark.parametrize("name", CALLS)
def test_first_gradients_are_those_of_eager(seed, runtime, name):
    device, call = shared_owner(runtime).device, CALLS[name]
    for kind, make in DATA.items():
        for dtype in (torch.float64, torch.float32, torch.bfloat16):
            here = make().to(dtype).requires_grad_()
            there = here.detach().to(device).requires_grad_()
            weight = torch.rand_like(call(here).detach())
            (call(here) * weight).sum().backward()
            (call(there) * weight.to(device)).sum().backward()
            tolerance = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 2e-2}[dtype]
            torch.testing.assert_close(
                sojourn.publish(there.grad), here.grad, rtol=tolerance, atol=tolerance, equal_nan=True,
                msg=lambda text: f"{kind}, {dtype}, {here.tolist()}: {text}",
            )  # fmt: skip


@pytest.mark.parametrize("name", ["max", "min", "median", "normalisation"])
def test_second_gradients(seed, name):
    device, call = shared_owner().device, CALLS[name]
    here = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    results = []
    for leaf in (here, here.detach().to(device).requires_grad_()):
        (first,) = torch.autograd.grad(call(leaf.tanh()).sum(), leaf, create_graph=True)
        (first * first).sum().backward()
        results.append(leaf.grad)
    torch.testing.assert_close(sojourn.publish(results[1]), results[0], rtol=1e-10, atol=1e-12)


MODES = [name for name in CALLS if "prod" not in name]  # its formula of ops is none that torch.func takes


@pytest.mark.parametrize("name", [*MODES, "sin"])
def test_forward_mode_and_torch_func(seed, name):
    x, tangent = torch.randn(3, 4, dtype=torch.float64), torch.randn(3, 4, dtype=torch.float64)
    device = shared_owner().device
    call = {"sin": torch.sin, **CALLS}[name]

    def function(t):
        return (call(t) * 2).sum()

    expected = [*torch.func.jvp(function, (x,), (tangent,)), torch.func.grad(function)(x)]
    there = x.to(device)
    found = [*torch.func.jvp(function, (there,), (tangent.to(device),)), torch.func.grad(function)(there)]
    for ours, theirs in zip(sojourn.publish(found), expected):
        torch.testing.assert_close(ours, theirs)


def test_products_beyond_their_inputs_type(seed):
    """A wider result type, and intermediate products that leave the type's range."""
    device = shared_owner().device
    for data, call in [
        (torch.tensor([300.0] * 3).half(), lambda t: t.prod(dtype=torch.float32) * 1e-6),
        (torch.tensor([[300.0] * 3]).half(), lambda t: t.prod(1, dtype=torch.float32) * 1e-6),
        (torch.tensor([1e30, 2.0]), lambda t: t.prod() * 1e10),
    ]:
        here = data.clone().requires_grad_()
        there = data.to(device).requires_grad_()
        call(here).sum().backward()
        call(there).sum().backward()
        torch.testing.assert_close(sojourn.publish(there.grad), here.grad)


def test_masked_fill_in_place(seed):
    device = shared_owner().device
    results = []
    for where in ("cpu", device):
        torch.manual_seed(seed)
        leaf, value = torch.randn(3, 4).to(where).requires_grad_(), torch.randn(()).to(where).requires_grad_()
        t = leaf * 2
        assert t.masked_fill_(t > 0, value) is t
        (t * t).sum().backward()
        results.append([t.detach(), leaf.grad, value.grad])
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
            leaf.masked_fill_(leaf > 0, value)
    for ours, theirs in zip(sojourn.publish(results[1]), results[0]):
        torch.testing.assert_close(ours, theirs)
