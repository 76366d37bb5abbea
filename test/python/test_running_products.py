# SPDX-License-Identifier: Apache-2.0
"""Gradients of cumprod and prod, whose formulas in torch ask whether a factor is zero: here inside of a step, where no
value is read, beside eager; wherever zeros are."""

import pytest
import torch

import sojourn

ZEROS = {"none": [], "first": [0], "one": [3], "two": [1, 4], "neighbours": [2, 3], "last": [-1], "three": [0, 2, 5]}
FUNCTIONS = {
    "cumprod": lambda x: x.cumprod(1),
    "cumprod along columns": lambda x: x.cumprod(0),
    "cumprod_": lambda x: (x * 1).cumprod_(-1),
    "prod": lambda x: x.prod(1),
    "prod of all": lambda x: x[:2].prod(),
}


def factors(kind, zeros, dtype=torch.float64):
    x = torch.randn(3, 6, dtype=dtype)
    x[0, zeros] = 0
    if kind:
        x[:, zeros] = 0
    return x


def run(function, x, order):
    """Values, gradients and gradients of gradients, with fixed weights."""
    x = x.detach().requires_grad_()
    found = [function(x)]
    for k in range(order):
        weights = torch.arange(found[-1].numel(), dtype=torch.float64).cos().view(found[-1].shape)
        total = (found[-1] * weights.to(x.device)).sum()
        found += torch.autograd.grad(total.real if x.is_complex() else total, x, create_graph=k + 1 < order)
    return [each.detach() for each in found]


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("zeros", ZEROS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(device, seed, name, zeros, order, dtype):
    x = factors(name != "prod", ZEROS[zeros], dtype)
    with sojourn.step():
        found = sojourn.publish(run(FUNCTIONS[name], x.to(device), order))
    # Each gradient after the first divides by a factor once more, and terms cancel: with a factor of 7e-5 eager's own
    # third one is 8e-10 from the exact number.
    smallest = float(x[x != 0].abs().min())
    atol = max(1e-9, torch.finfo(torch.float64).eps / smallest ** (order - 1))
    for ours, theirs in zip(found.value, run(FUNCTIONS[name], x, order), strict=True):
        torch.testing.assert_close(ours, theirs.resolve_conj(), rtol=1e-9, atol=atol)


def test_infinities_behind_a_zero(device, seed):
    """What a zero hides from a factor does not reach it, as in eager."""
    x = torch.tensor([2.0, 3.0, 0.0, 4.0, 5.0, 0.0, 2.0], dtype=torch.float64)
    for function in (lambda x: x.cumprod(0).log(), lambda x: x.cumprod(0).sqrt(), lambda x: x.cumprod(0).reciprocal()):
        theirs, ours = x.clone().requires_grad_(), x.to(device).requires_grad_()
        function(theirs).sum().backward(), function(ours).sum().backward()
        torch.testing.assert_close(ours.grad.cpu(), theirs.grad, rtol=1e-12, atol=0, equal_nan=True)
    a, b = (torch.rand(9, requires_grad=True, device=place) for place in ("cpu", device))
    b.data = a.detach().to(device)
    for leaf in (a, b):
        leaf.cumprod(0, dtype=torch.float16).sum().backward()
    torch.testing.assert_close(b.grad.cpu(), a.grad, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("zeros", ["none", "two"])
def test_other_modes(device, seed, zeros):
    """Forward mode, vmap, halves and integers; sizes of none and of one."""
    x = factors(True, ZEROS[zeros])
    function = lambda x: x.cumprod(-1)
    tangent = torch.randn_like(x)
    for there, here in zip(
        torch.func.jvp(function, (x.to(device),), (tangent.to(device),)), torch.func.jvp(function, (x,), (tangent,))
    ):
        torch.testing.assert_close(there.cpu(), here, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(torch.func.vmap(function)(x.to(device)).cpu(), torch.func.vmap(function)(x))
    slope = lambda x: torch.func.grad(lambda x: x.cumprod(0).sum())(x)
    torch.testing.assert_close(torch.func.vmap(slope)(x.to(device)).cpu(), torch.func.vmap(slope)(x))
    for y in (x.to(torch.int32), x.bool(), x.half(), x[:, :1], x[:0], x[0, 0]):
        ours, theirs = (
            function(y.to(device)) if y.dim() else y.to(device).cumprod(0),
            function(y) if y.dim() else y.cumprod(0),
        )
        assert ours.dtype == theirs.dtype
        torch.testing.assert_close(ours.cpu(), theirs, rtol=2e-3 if y.dtype == torch.float16 else 1e-9, atol=1e-9)
    assert x.to(device).int().cumprod(0, dtype=torch.float32).dtype == torch.float32
    with pytest.raises(RuntimeError, match="Bad in-place call"):
        x.to(device).cumprod_(0, dtype=torch.float32)
