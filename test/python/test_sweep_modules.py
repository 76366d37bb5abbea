# SPDX-License-Identifier: Apache-2.0
"""A quick part of the sweeps over module_db and optim_db: one sample of each module, each set of options of each
optimizer, at the native owner. tools/sweep.py does all; and what the sweeps have found stays mended."""

import types

import pytest
import sweep_modules_support
import sweep_optimizers_support
import sweep_reviewed_support
import torch
import torch.nn.functional as F
from remote_support import assert_same, shared_owner
from torch import nn
from torch.testing._internal.common_modules import FunctionInput, ModuleInput

MODULES, OPTIMIZERS = sweep_modules_support.entries(), sweep_optimizers_support.entries()
#: Each way in one type; tools/sweep.py has all in both.
QUICK = [("float64", ("plain", "capturable", "resumed")), ("float32", ("foreach", "fused", "differentiable"))]


def check(found, name, parts):
    for part in parts:
        outcomes = set(found.get(part, {})) - {"pass"}
        if sweep_reviewed_support.reason(name, part):
            outcomes -= {"refused", "late", "other error", "wrong"}
        assert not outcomes, found["notes"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODULES)
def test_module(name):
    sweep = sweep_modules_support.Sweep(shared_owner(), 1)
    check(sweep.entry(MODULES[name], torch.float32), name, sweep_modules_support.PARTS)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype, parts", QUICK, ids=[dtype for dtype, _ in QUICK])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer(name, dtype, parts):
    found = sweep_optimizers_support.Sweep(shared_owner(), 30, parts).entry(OPTIMIZERS[name], getattr(torch, dtype))
    check(found, name, parts)
    if name != "SparseAdam" and "plain" in parts:
        assert found["plain"]["pass"] == len(OPTIMIZERS[name].optim_inputs_func("cpu"))


class Wrong(torch.optim.Optimizer):
    """Steps that are off in the tenth digit at an owner, or leave other state there."""

    def __init__(self, params, kind=""):
        super().__init__(params, {"kind": kind})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for x in group["params"]:
                is_there = x.device.type == "owner"
                x.sub_(x.grad, alpha=0.1 * (1 + 1e-8) if is_there and group["kind"] == "values" else 0.1)
                if is_there and group["kind"] == "state":
                    self.state[x]["more"] = torch.ones(())


@pytest.mark.parametrize("kind, outcome", [("", "pass"), ("values", "wrong"), ("state", "metadata")])
def test_an_optimizer_that_differs_is_found(kind, outcome):
    info = types.SimpleNamespace(
        name="Wrong", optim_cls=Wrong, only_supports_sparse_grads=False, step_requires_closure=False,
        optim_inputs_func=lambda device: [types.SimpleNamespace(kwargs={"kind": kind})],
    )  # fmt: skip
    found = sweep_optimizers_support.Sweep(shared_owner(), 1, ("plain",)).entry(info, torch.float64)
    assert found["plain"] == {outcome: 1}, found


class Off(nn.Module):
    """A module that is off at an owner in one place."""

    def __init__(self, kind=""):
        super().__init__()
        self.kind, self.weight = kind, nn.Parameter(torch.randn(3))
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        kind = self.kind if x.device.type == "owner" else ""
        self.count += 2.0 if kind == "buffer" else 1.0
        y = x * (self.weight.detach() if kind == "gradient" else self.weight)
        if kind == "metadata":
            return y.t().contiguous().t()
        return F.dropout(y, 0.5, self.training) if self.kind == "draws" else y * (1 + 1e-3 * (kind == "values"))


@pytest.mark.parametrize(
    "kind, part, outcome",
    [
        ("", "train", "pass"),
        ("", "train gradient", "pass"),
        ("values", "eval", "wrong"),
        ("buffer", "train", "wrong"),
        ("metadata", "train", "metadata"),
        ("gradient", "eval gradient", "wrong"),
        ("draws", "train", "wrong"),
        ("draws", "eval", "pass"),
    ],
)
def test_a_module_that_differs_is_found(kind, part, outcome):
    def inputs(info, device, dtype, requires_grad, training):
        x = torch.randn(4, 3, dtype=dtype, requires_grad=requires_grad)
        return [ModuleInput(FunctionInput(kind), FunctionInput(x))]

    info = types.SimpleNamespace(
        name="Off", module_cls=Off, module_inputs_func=inputs, is_lazy=False, module_error_inputs_func=None
    )
    found = sweep_modules_support.Sweep(shared_owner(), 1, (part,)).entry(info, torch.float32)
    assert found[part] == {outcome: 1}, found


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("powers", [(1, 2, 1), (2, 1, 2.0), (2.0, 1.0)])
def test_the_power_of_a_margin_loss_differs_between_calls(device, seed, reduction, powers):
    """One program serves all of them: what p is, the run may be the first to know."""
    x, target = torch.randn(5, 7) * 3, torch.randint(0, 7, (5,))
    for p in powers:
        found = []
        for place in ("cpu", device):
            leaf = x.clone().to(place).requires_grad_()
            loss = F.multi_margin_loss(leaf, target.to(place), p=p, reduction=reduction)
            (slope,) = torch.autograd.grad(loss.sum(), leaf)
            found.append([loss.detach(), slope])
        assert_same(found[1], found[0], f"p = {p}", rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "shape, target, options, text",
    [
        ((5, 10), (3,), {}, "Expected target size"),
        ((5, 0), (5,), {}, "Expected non-empty vector or matrix"),
        ((2, 3, 4), (2,), {}, "Expected non-empty vector or matrix"),
        ((5, 10), (5,), {"p": 3}, "only p == 1 and p == 2 supported"),
    ],
)
def test_what_margin_losses_refuse(device, shape, target, options, text):
    for place in ("cpu", device):
        x, labels = torch.randn(shape, device=place), torch.zeros(target, dtype=torch.long, device=place)
        with pytest.raises((RuntimeError, ValueError), match=text):
            F.multi_margin_loss(x, labels, **options)


@pytest.mark.parametrize("shape", [(7, 5), (5,), (3, 5, 2, 4)])
@pytest.mark.parametrize("ignored", [-100, 2])
def test_smoothed_labels_with_weights(device, seed, shape, ignored):
    """Their mean is one over weights; ATen selects the rows that count, which is about values."""
    classes = 0 if len(shape) == 1 else 1
    x, weight = torch.randn(shape).double(), torch.rand(5).double() + 0.1
    target = torch.randint(0, 5, shape[:classes] + shape[classes + 1 :])
    if target.dim():
        target.view(-1)[0] = ignored
    for options in ({"label_smoothing": 0.3}, {"label_smoothing": 1.0}, {"label_smoothing": 0.3, "reduction": "sum"}):
        found = []
        for place in ("cpu", device):
            leaf = x.clone().to(place).requires_grad_()
            loss = F.cross_entropy(leaf, target.to(place), weight.to(place), ignore_index=ignored, **options)
            (slope,) = torch.autograd.grad(loss, leaf)
            found.append([loss.detach(), slope])
        assert_same(found[1], found[0], str(options), rtol=1e-9, atol=1e-12)
    with torch.inference_mode():
        expected = F.cross_entropy(x, target, weight, ignore_index=ignored, label_smoothing=0.1)
        found = F.cross_entropy(
            *(each.to(device) for each in (x, target, weight)), ignore_index=ignored, label_smoothing=0.1
        )
        assert_same(found, expected, rtol=1e-9)


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad])
def test_fused_steps_of_a_parameter_without_dimensions(device, seed, optimizer):
    start, slopes = torch.randn(()), torch.randn(5)
    ends = []
    for place in ("cpu", device):
        parameter = start.clone().to(place).requires_grad_()
        stepping = optimizer([parameter], lr=0.1, weight_decay=0.1, fused=True)
        for slope in slopes:
            parameter.grad = slope.to(place)
            stepping.step()
        ends.append(parameter.detach())
    assert_same(ends[1], ends[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
@pytest.mark.parametrize("dims", [2, 3])
def test_padding_keeps_the_layout(device, seed, mode, dims):
    form = torch.channels_last if dims == 2 else torch.channels_last_3d
    x = torch.randn(2, 3, *(5, 4, 6)[:dims]).contiguous(memory_format=form)
    pads = (1, 2, 0, 3, 2, 1)[: 2 * dims]
    expected, found = F.pad(x, pads, mode=mode), F.pad(x.to(device), pads, mode=mode)
    assert found.stride() == expected.stride()
    assert_same(found, expected)
