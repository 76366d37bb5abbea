# SPDX-License-Identifier: Apache-2.0
"""Operators of a user's own library, on remote tensors beside eager ones."""

import pytest
import torch
from promises_support import both, leaf

import sojourn


@pytest.fixture(scope="module")
def operators():
    """Operators of a user's own library: composed, with a body for any device, and with a kernel for the CPU alone."""
    library = torch.library.Library("sojourntests", "FRAGMENT")
    library.define("soft(Tensor x, float beta) -> Tensor")
    library.impl("soft", lambda x, beta: (x * beta).exp().add(1).log() / beta, "CompositeImplicitAutograd")

    @torch.library.custom_op("sojourntests::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @torch.library.custom_op("sojourntests::opaque", mutates_args=(), device_types="cpu")
    def opaque(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(x.numpy() ** 2)

    opaque.register_autograd(
        lambda ctx, grad: grad * 2 * ctx.saved_tensors[0],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )
    yield torch.ops.sojourntests, opaque
    library._destroy()


def test_operators_of_the_user_s_own(device, seed, operators):
    x = torch.randn(4, dtype=torch.float64)
    ops, opaque = operators

    def run(put):
        a = leaf(put, x)
        y = ops.soft(a, 2.0)
        y.sum().backward()
        return y, a.grad, ops.twice(put(x))

    both(device, run)
    # What it is made of at an owner, its user says.
    if not getattr(opaque, "registered", False):
        with pytest.raises((sojourn.Error, NotImplementedError), match="opaque"):
            opaque(torch.ones(3).to(device))
        opaque.register_kernel("owner")(lambda x: x * x)
        opaque.registered = True

    def run_registered(put):
        a = leaf(put, x)
        y = ops.opaque(a)
        y.sum().backward()
        return y, a.grad

    both(device, run_registered)


def test_operators_with_a_shape_rule_and_a_decomposition(device, seed):
    """What torch.library and torch._decomp know of an operator is enough: no kernel for owners."""
    library = torch.library.Library("sojourndecomposed", "FRAGMENT")
    library.define("halves(Tensor x, *, float by=2.0) -> (Tensor, Tensor)")
    library.define("opaque(Tensor x) -> Tensor")
    library.define("kinds(Tensor x, ScalarType dtype, *, MemoryFormat? format=None, Layout? layout=None) -> Tensor")

    def halves(x, *, by=2.0):
        return x / by, x - x / by

    library.impl("halves", lambda x, by=2.0: halves(x, by=by), "CPU")
    torch.library.register_fake("sojourndecomposed::halves", lambda x, *, by=2.0: (x.clone(), x.clone()), lib=library)
    torch.library.register_autograd(
        "sojourndecomposed::halves",
        lambda ctx, first, second: first / ctx.by + second * (1 - 1 / ctx.by),
        setup_context=lambda ctx, inputs, keyword_only_inputs, output: setattr(ctx, "by", keyword_only_inputs["by"]),
        lib=library,
    )
    ops, x = torch.ops.sojourndecomposed, torch.randn(4, dtype=torch.float64)
    for op in (ops.halves, ops.opaque):
        with pytest.raises(sojourn.Unsupported, match="register_decomposition"):
            op(x.to(device))
    torch._decomp.register_decomposition(ops.halves.default)(halves)

    def run(put):
        a = leaf(put, x)
        first, second = ops.halves(a, by=4.0)
        (first * 3 + second).sum().backward()
        return first, second, a.grad

    both(device, run)
    given = []
    torch._decomp.register_decomposition(ops.kinds.default)(
        lambda x, dtype, *, format=None, layout=None: given.append((dtype, format, layout)) or x.to(dtype)
    )
    found = ops.kinds(x.to(device), torch.float32, format=torch.contiguous_format, layout=torch.strided)
    assert found.dtype == torch.float32 and given == [(torch.float32, torch.contiguous_format, torch.strided)]
    torch._decomp.register_decomposition(ops.opaque.default)(lambda x: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        ops.opaque(x.to(device))
    library._destroy()
