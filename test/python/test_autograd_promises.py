# SPDX-License-Identifier: Apache-2.0
"""What torch's autograd documentation promises, on remote tensors beside eager ones."""

import warnings

import pytest
import torch
from promises_support import both, leaf
from torch.autograd import Function, forward_ad


class Cube(Function):
    @staticmethod
    def forward(x):
        return x**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0])

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * grad

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * tangent

    @staticmethod
    def vmap(info, in_dims, x):
        return Cube.apply(x), in_dims[0]


class Halve(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        x.mul_(0.5)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 0.5


class Ordered(Function):
    """Values and positions: the latter have no gradient."""

    @staticmethod
    def forward(ctx, x):
        values, positions = x.sort()
        ctx.mark_non_differentiable(positions)
        ctx.save_for_backward(positions)
        return values, positions

    @staticmethod
    def backward(ctx, grad, _):
        (positions,) = ctx.saved_tensors
        return torch.zeros_like(grad).scatter(0, positions, grad)


class Pair(Function):
    """Which gradients are there, and which are asked for."""

    @staticmethod
    def forward(ctx, x, y, materialize):
        ctx.set_materialize_grads(materialize)
        return x * 2, y * 3

    @staticmethod
    def backward(ctx, first, second):
        Pair.seen = (first is None, second is None, ctx.needs_input_grad)
        return (first * 2 if first is not None else None), (second * 3 if ctx.needs_input_grad[1] else None), None


def test_saved_tensors_and_double_backward(device, seed):
    x = torch.randn(5, dtype=torch.float64)

    def run(put):
        a = leaf(put, x)
        (first,) = torch.autograd.grad(Cube.apply(a).sum(), a, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), a)
        return first, second

    both(device, run)


def test_forward_mode_of_a_function(device, seed):
    x, tangent = torch.randn(2, 5, dtype=torch.float64)

    def run(put):
        with forward_ad.dual_level():
            return forward_ad.unpack_dual(Cube.apply(forward_ad.make_dual(put(x), put(tangent)))).tangent

    both(device, run)
    both(device, lambda put: torch.func.jvp(Cube.apply, (put(x),), (put(tangent),)))


def test_vmap_of_a_function(device, seed):
    x = torch.randn(4, 5, dtype=torch.float64)
    both(device, lambda put: torch.func.vmap(Cube.apply)(put(x)))
    both(device, lambda put: torch.func.vmap(torch.func.grad(lambda row: Cube.apply(row).sum()))(put(x)))


def test_mark_dirty(device, seed):
    x = torch.randn(5, dtype=torch.float64)

    def run(put):
        a = leaf(put, x)
        b = a * 2
        c = Halve.apply(b)
        assert c is b
        (c**2).sum().backward()
        return c, a.grad, c._version

    both(device, run)


def test_mark_non_differentiable(device, seed):
    x = torch.randn(6, dtype=torch.float64)

    def run(put):
        a = leaf(put, x)
        values, positions = Ordered.apply(a)
        assert not positions.requires_grad
        (values * put(torch.arange(6.0, dtype=torch.float64))).sum().backward()
        return values, positions, a.grad

    both(device, run)


@pytest.mark.parametrize("materialize", [False, True])
def test_gradients_that_are_not_there(device, seed, materialize):
    x = torch.randn(3, dtype=torch.float64)

    def run(put):
        a, b = leaf(put, x), put(x)
        Pair.apply(a, b, materialize)[0].sum().backward()
        return a.grad, b.grad, Pair.seen

    both(device, run)


def test_once_differentiable(device, seed):
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, grad):
            return 2 * ctx.saved_tensors[0] * grad

    a = leaf(lambda t: t.to(device), torch.randn(3))
    (first,) = torch.autograd.grad((Square.apply(a) * a).sum(), a, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        first.sum().backward()


def test_retain_grad_and_hooks(device, seed):
    x = torch.randn(4, dtype=torch.float64)

    def run(put):
        seen = []
        a = leaf(put, x)
        b = a * 2
        b.retain_grad()
        handle = b.register_hook(lambda grad: grad * 3)
        a.register_hook(lambda grad: seen.append("leaf"))
        a.register_post_accumulate_grad_hook(lambda t: seen.append("accumulated"))
        b.grad_fn.register_prehook(lambda grads: seen.append("before"))
        b.grad_fn.register_hook(lambda inputs, outputs: seen.append("after"))
        (b**2).sum().backward()
        handle.remove()
        return b.grad, a.grad, seen

    both(device, run)


def test_module_hooks(device, seed):
    first = torch.nn.Linear(3, 2).double()
    x = torch.randn(5, 3, dtype=torch.float64)

    def run(put):
        import copy

        seen, model = [], copy.deepcopy(first)
        model = model.to(put(x).device)
        model.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
        model.register_forward_hook(lambda module, args, output: output + 1)
        model.register_full_backward_hook(lambda module, inputs, outputs: seen.append(outputs[0].shape))
        y = model(put(x))
        y.square().sum().backward()
        return y, model.weight.grad, [tuple(shape) for shape in seen]

    both(device, run)


def test_multi_grad_hooks(device, seed):
    x = torch.randn(4, dtype=torch.float64)

    def run(put):
        seen = []
        a, b = leaf(put, x), leaf(put, x + 1)
        torch.autograd.graph.register_multi_grad_hook((a, b), lambda grads: seen.append(len(grads)))
        (a * b).sum().backward()
        return a.grad, seen

    both(device, run)


def test_saved_tensors_hooks(device, seed):
    x = torch.randn(4, dtype=torch.float64)

    def run(put):
        packed = []

        def pack(tensor):
            packed.append(tuple(tensor.shape))
            return tensor * 2

        a = leaf(put, x)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor / 2):
            y = (a.exp() * a).sum()
        y.backward()
        return a.grad, packed

    both(device, run)


def test_tensors_that_were_saved_may_not_change(device):
    a = torch.ones(3).to(device).requires_grad_()
    b = a * 2
    y = b**2
    b.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_inference_mode(device, seed):
    x = torch.randn(4, dtype=torch.float64)

    def run(put):
        a = leaf(put, x)
        with torch.inference_mode():
            y = a * 2
            z = y.view(2, 2) + 1
        assert y.is_inference() and not y.requires_grad and not z.requires_grad
        with torch.no_grad():
            w = a * 3
        assert not w.is_inference()
        with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
            a * y
        return z, w, y.clone() * a

    both(device, run)


def test_anomaly_mode_names_the_line_of_a_failure(device):
    class Fails(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            raise RuntimeError("as a backward may")

    a = torch.ones(3).to(device).requires_grad_()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with torch.autograd.detect_anomaly(check_nan=False):
            with pytest.raises(RuntimeError, match="as a backward may"):
                Fails.apply(a).sum().backward()
    assert any("Error detected in FailsBackward" in str(each.message) for each in seen)


def test_grad_modes_and_accumulation(device, seed):
    x = torch.randn(4, dtype=torch.float64)

    def run(put):
        a = leaf(put, x)
        for _ in range(3):
            (a**2).sum().backward()
        with torch.set_grad_enabled(False):
            b = a * 2
        with torch.enable_grad():
            c = a * 2
        a.grad.zero_()
        (a * 3).sum().backward(inputs=[a])
        return a.grad, b.requires_grad, c.requires_grad, c.grad_fn is not None

    both(device, run)


def test_jacobians_and_hessians(device, seed):
    x = torch.randn(4, dtype=torch.float64)

    def f(t):
        return (t.sin() * t).cumsum(0)

    for vectorize in (False, True):
        both(device, lambda put: torch.autograd.functional.jacobian(f, put(x), vectorize=vectorize))
    both(device, lambda put: torch.autograd.functional.hessian(lambda t: f(t).sum(), put(x)))
    both(device, lambda put: torch.autograd.functional.vjp(f, put(x), put(x + 1)))
    both(device, lambda put: torch.func.jacrev(f)(put(x)))
    both(device, lambda put: torch.func.jacfwd(f)(put(x)))
    both(device, lambda put: torch.func.hessian(lambda t: f(t).sum())(put(x)))


@pytest.mark.parametrize("number", [2, 2.5])
def test_mixed_operands_in_any_position(device, seed, number):
    x = torch.rand(4, dtype=torch.float64) + 0.5

    def run(put):
        a = leaf(put, x)
        y = [a + number, number - a, a * number, number / a, a**number, number**a]
        scalar = torch.tensor(1.5, dtype=torch.float64)  # rank 0 on the CPU goes with any device
        y += [a + scalar, scalar - a, torch.maximum(a, put(scalar)), torch.where(a > 1, a, number)]
        total = sum(part.sum() for part in y)
        total.backward()
        return y, a.grad

    both(device, run)


class Labelled(torch.Tensor):
    """Carries a word along: the documentation's example of __torch_function__."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        word = next((a.word for a in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(a, Labelled)), None)
        result = super().__torch_function__(func, types, args, kwargs or {})
        if isinstance(result, Labelled):
            result.word = word
        return result


class Scaled:
    """A number times the identity: not a tensor, the documentation's other example."""

    def __init__(self, size, value):
        self.size, self.value = size, value

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is torch.mm:
            a, b = args
            return b * a.value if isinstance(a, Scaled) else a * b.value
        return NotImplemented


def test_torch_function_types_beside_remote_tensors(device, seed):
    x = torch.randn(3, 3, dtype=torch.float64)

    def run(put):
        a = leaf(put, x)
        labelled = a.detach().as_subclass(Labelled)
        labelled.word = "km"
        moved = labelled * a + 1
        assert isinstance(moved, Labelled) and moved.word == "km"
        scaled = torch.mm(Scaled(3, 2.0), a)
        scaled.sum().backward()
        with pytest.raises(TypeError, match="no implementation found|multiple values|Multiple dispatch failed"):
            torch.add(Scaled(3, 2.0), a)
        return moved.as_subclass(torch.Tensor), scaled, a.grad

    both(device, run)


def test_derivatives_over_views_under_vmap(device, seed):
    """Jacobians in forward mode, and hessians: tangents of views have batch dimensions."""
    square, image = torch.randn(3, 3, dtype=torch.float64), torch.randn(1, 1, 3, 4, dtype=torch.float64)
    circular = lambda x: torch.nn.functional.pad(x, (1, 2, 1, 0), mode="circular")
    for function, x in (
        (torch.diag, square), (lambda x: torch.diag(x[0]), square), (circular, image), (lambda x: x.as_strided((2, 2), (3, 1), 1), square),
        (lambda x: x.t()[1:, ::2] * 2, square),
    ):  # fmt: skip
        for transform in (
            torch.func.jacfwd,
            torch.func.jacrev,
            lambda f: torch.func.hessian(lambda x: f(x).pow(3).sum()),
        ):
            torch.testing.assert_close(transform(function)(x.to(device)).cpu(), transform(function)(x))


def test_backward_where_inference_mode_is_left(device, seed):
    x = torch.randn(4, dtype=torch.float64)

    def run(put):
        with torch.inference_mode():
            with torch.inference_mode(False):
                a = leaf(put, x)
                (a * a).sum().backward()
        return a.grad

    both(device, run)
