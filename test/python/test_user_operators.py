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


def kept(boxes, scores, threshold):
    """The best boxes, without those that overlap a better one: how many there are depends on values."""
    order, left = [], scores.argsort(descending=True).tolist()
    while left:
        best = left.pop(0)
        order.append(best)
        low, high = (torch.maximum, torch.minimum)
        sides = (high(boxes[best, 2:], boxes[left, 2:]) - low(boxes[best, :2], boxes[left, :2])).clamp(min=0)
        areas = (boxes[:, 2:] - boxes[:, :2]).prod(1)
        shared = sides.prod(1)
        ratio = shared / (areas[best] + areas[left] - shared)
        left = [k for k, each in zip(left, ratio.tolist()) if each <= threshold]
    return torch.tensor(order)


@pytest.mark.filterwarnings("ignore:a value is read here")
@pytest.mark.parametrize("dispatch", ["plain", "autocast", "inference"])
def test_operators_with_kernels_for_other_devices_alone(device, seed, dispatch):
    """As torchvision registers nms and roi_align; each way out that the text names works."""
    library = torch.library.Library(f"sojournboxes{dispatch}", "FRAGMENT")
    library.define("nms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    library.define("fill_(Tensor(a!) boxes, Tensor[] by) -> ()")
    library.impl("nms", kept, "CPU")
    library.impl("fill_", lambda boxes, by: boxes.fill_(float(by[0])), "CPU")
    ops = getattr(torch.ops, f"sojournboxes{dispatch}")
    corners = torch.rand(9, 2)
    boxes, scores = torch.cat([corners, corners + torch.rand(9, 2)], 1), torch.rand(9)
    there = boxes.to(device), scores.to(device)
    mode = {"plain": torch.enable_grad, "autocast": lambda: torch.autocast("owner"), "inference": torch.inference_mode}
    with mode[dispatch]():
        calls = {
            "nms": lambda: ops.nms(*there, 0.3),
            "nms, mixed": lambda: ops.nms(boxes, there[1], 0.3),
            "nms, with a gradient": lambda: ops.nms(there[0] * boxes.to(device).requires_grad_(), there[1], 0.3),
            "fill_": lambda: ops.fill_(there[0], [there[1]]),
        }
        for name, call in calls.items():
            for block in (torch.enable_grad, sojourn.step):
                with pytest.raises(sojourn.Unsupported, match="no kernel for device owner") as caught, block():
                    call()
                text = str(caught.value)
                assert f"sojournboxes{dispatch}::{name.split(',')[0]} at {__file__}" in text
                for way_out in ("register_decomposition", 'register_kernel(op, "owner")', "x.cpu()"):
                    assert way_out in text
        found = ops.nms(there[0].cpu(), there[1].cpu(), 0.3)
        assert torch.equal(found, kept(boxes, scores, 0.3))
        torch.library.register_kernel(
            ops.nms.default, "owner", lambda b, s, t: kept(b.cpu(), s.cpu(), t).to(b.device), lib=library
        )
        assert torch.equal(ops.nms(*there, 0.3).cpu(), found)
        assert torch.equal(there[0].cpu(), boxes)
    library._destroy()
