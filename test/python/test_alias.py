# SPDX-License-Identifier: Apache-2.0
"""Views and writes through them, against eager torch: every live tensor and every gradient.

Each case is a function of a device and inputs; it runs once on the CPU and once at the owner,
under three schedules: one program, one program per statement group, and inside a step.
"""

import pytest
import torch
from remote_support import assert_same, fresh_seed, shared_owner

import sojourn

F64 = torch.float64
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


class Run:
    """One execution of a case: makes inputs, may cut the program between statements."""

    def __init__(self, device, seed, cut=False):
        self.device, self.cut_steps = device, cut
        self.generator = torch.Generator().manual_seed(seed)
        self.leaves = []

    def randn(self, *shape, grad=False):
        value = torch.randn(*shape, dtype=F64, generator=self.generator).to(self.device)
        if grad:
            value.requires_grad_()
            self.leaves.append(value)
        return value

    def cut(self):
        if self.cut_steps and self.device != "cpu":
            sojourn.flush()

    def gradients(self, loss):
        self.cut()
        return list(torch.autograd.grad(loss, self.leaves, allow_unused=True))


@case
def write_to_a_view_seen_through_the_base(r):
    x = r.randn(4, 6, grad=True)
    base = x * 2
    view = base[1:3, ::2]
    r.cut()
    view.mul_(r.randn(2, 3))
    return base, view, r.gradients((base.sin() * view.sum()).sum())


@case
def write_to_a_view_seen_through_a_sibling(r):
    x = r.randn(5, 4, grad=True)
    base = x + 1
    a, b = base[:, 1:3], base.t()[2]
    r.cut()
    a.add_(b.unsqueeze(1))
    r.cut()
    b.mul_(3)
    return base, a, b, r.gradients(a.pow(2).sum() + (b * base[:, 0]).sum())


@case
def chunk(r):
    x = r.randn(6, 3, grad=True)
    base = x.clone()
    # Autograd lets no one write to outputs of a multi-view op; a detached base shares its data.
    first, second, third = base.detach().chunk(3)
    r.cut()
    first.copy_(second * 2)
    third.zero_()
    return base, first, second, third, r.gradients((base.chunk(2)[0] * base.chunk(2)[1]).sum())


@case
def split_with_gradient(r):
    x = r.randn(7, 2, grad=True)
    base = x * 1.5
    parts = [base.narrow(0, 0, 3), base.narrow(0, 3, 4)]
    parts[0].exp_()
    r.cut()
    loose = base.split([2, 5])
    return base, parts, list(loose), r.gradients((base * loose[1].sum()).sum())


@case
def diagonal(r):
    x = r.randn(5, 5, grad=True)
    base = x.cos()
    diagonal = base.diagonal(1)
    diagonal.mul_(r.randn(4))
    r.cut()
    base.diagonal(-2).fill_(0.25)
    return base, diagonal, r.gradients((base @ base).sum())


@case
def unfold(r):
    x = r.randn(9, grad=True)
    base = x * 3
    windows = base.unfold(0, 3, 3)
    r.cut()
    windows[1].mul_(r.randn(3))
    overlapping = base.unfold(0, 4, 2)
    return base, windows, overlapping, r.gradients((overlapping.pow(2)).sum())


@case
def transpose_in_place(r):
    x = r.randn(3, 4, grad=True)
    y = x * 2
    r.cut()
    y.transpose_(0, 1)
    y[0].mul_(5)
    y.t_()
    r.cut()
    y.t_()
    return y, r.gradients((y @ r.randn(3, 2)).pow(2).sum())


@case
def unsqueeze_in_place(r):
    x = r.randn(3, grad=True)
    y = x * 2
    y.unsqueeze_(1)
    r.cut()
    y.mul_(r.randn(3, 1))
    return y, r.gradients((y * r.randn(1, 4)).sum())


@case
def squeeze_in_place(r):
    x = r.randn(2, 1, 3, grad=True)
    y = x.sin()
    other = y[:, 0]
    y.squeeze_(1)
    r.cut()
    return y.add_(1), other, r.gradients((y * other).sum())


@case
def resize_of_an_empty_tensor(r):
    y = torch.empty(0, dtype=F64, device=r.device)
    y.resize_(2, 3)
    r.cut()
    y.copy_(r.randn(2, 3))
    same = y.resize_(2, 3)
    return y, same is y


@case
def out_argument(r):
    a, b = r.randn(3, 4), r.randn(4)
    whole = r.randn(3, 4)
    base = r.randn(5, 4)
    alias = base[1:4]
    empty = torch.empty(0, dtype=F64, device=r.device)
    r.cut()
    torch.add(a, b, out=whole)
    torch.mul(a, b, out=alias)
    torch.matmul(a, b, out=empty)
    return whole, base, alias, empty


@case
def setitem_with_slices(r):
    x = r.randn(4, 5, grad=True)
    value = r.randn(2, 2, grad=True)
    y = x * 1
    y[1:3, ::3] = value * 2
    r.cut()
    y[-1] = 7.0
    y[..., 1] = y[..., 2]
    return y, r.gradients((y.pow(3)).sum())


@case
def setitem_with_integer_tensors(r):
    x = r.randn(5, 4, grad=True)
    value = r.randn(3, 4, grad=True)
    y = x + 0
    rows = torch.tensor([4, 0, 2], device=r.device)
    y[rows] = value.sin()
    r.cut()
    columns = torch.tensor([1, 3, 0], device=r.device)
    y[rows, columns] = 0.5
    return y, y[rows], r.gradients((y * y[rows].sum()).sum())


@case
def mask_of_public_shape(r):
    x = r.randn(4, 3, grad=True)
    y = x * 2
    mask = y > 0
    r.cut()
    y.masked_fill_(mask, -1.5)
    z = torch.where(mask, y, x)
    return y, z, r.gradients((y * 3 + z.pow(2)).sum())


@case
def copy_into_a_view(r):
    x = r.randn(3, 4, grad=True)
    row = r.randn(4, grad=True)
    y = x.clone()
    y[1].copy_(row)
    r.cut()
    y.t()[0:2].copy_(r.randn(2, 1))
    y[2] += row
    return y, r.gradients((y.exp() * y).sum())


@case
def as_strided_then_in_place(r):
    x = r.randn(4, 5, grad=True)
    y = x * 1
    window = y.as_strided((2, 3), (5, 1), 6)
    r.cut()
    window.mul_(r.randn(2, 3))
    skewed = y.as_strided((3, 2), (6, 2), 1)
    skewed.sub_(0.5)
    return y, window, skewed, r.gradients(y.pow(2).sum() + window.sum() * skewed.sum())


@case
def data_then_in_place(r):
    x = r.randn(4, grad=True)
    y = x * 2
    y.data.mul_(3)
    r.cut()
    x.data[1:3] += 1
    return x, y, r.gradients((y * x).sum())


@case
def detach_then_in_place(r):
    x = r.randn(4, 2, grad=True)
    y = x + 1
    shared = y.detach()[::2]
    shared.neg_()
    r.cut()
    shared.t()[0].add_(10)
    return y, shared, r.gradients((y.sum() * x).sum())


@case
def set_data(r):
    x = r.randn(3, grad=True)
    y = r.randn(5)
    alias = y[1:]
    z = r.randn(2)
    z.data = alias
    r.cut()
    z.mul_(2)
    w = torch.nn.Parameter(r.randn(2))
    w.data = x.detach()
    w.data.add_(1)
    return x, y, alias, z, w, r.gradients(x.pow(2).sum())


@pytest.mark.parametrize("schedule", ["one-program", "cut", "step"])
@pytest.mark.parametrize("name", CASES)
def test_case(name, schedule):
    seed = fresh_seed(name)
    device = shared_owner().device
    expected = CASES[name](Run("cpu", seed))
    if schedule == "step":
        with sojourn.step():
            got = CASES[name](Run(device, seed))
    else:
        got = CASES[name](Run(device, seed, cut=schedule == "cut"))
    assert_same(got, expected, name)


def both_fail(function, text):
    """Runs on the CPU and at the owner: the same exception, whose text has `text`."""
    failures = []
    for device in ("cpu", shared_owner().device):
        with pytest.raises(RuntimeError, match=text) as caught:
            function(device)
        failures.append(caught.value)
    assert type(failures[0]) is type(failures[1])


def test_in_place_on_a_view_of_a_leaf():
    def write(device):
        x = torch.ones(3, 2, device=device, requires_grad=True)
        x[0].mul_(2)

    both_fail(write, "a view of a leaf Variable that requires grad is being used in an in-place operation")


def test_multi_view_in_place():
    def write(device):
        x = torch.ones(4, device=device, requires_grad=True) * 1
        x.split(2)[0].mul_(2)

    both_fail(write, "is a view and is being modified inplace. This view is the output of a function that returns")


def test_modified_after_save():
    def write(device):
        x = torch.ones(4, device=device, requires_grad=True)
        y = x.exp()
        y.add_(1)
        y.sum().backward()

    both_fail(write, "has been modified by an inplace operation")


def test_write_to_an_expanded_tensor():
    def write(device):
        torch.ones(3, 1, device=device).expand(3, 4).add_(1)

    both_fail(write, "more than one element of the written-to tensor refers to a single memory location")


def test_fill_of_an_expanded_tensor():
    """Which writes one number wherever elements share memory, in eager too."""

    def run(device):
        x = torch.arange(12.0, device=device).view(3, 1, 4)
        versions = [x._version]
        x[1:].expand(2, 5, 4)[:, 1:, ::3].fill_(7)
        x[0, 0, 1].expand(3, 2).zero_()
        x[0].expand(4, 4).T[2].fill_(-1)
        versions.append(x._version)
        return x, versions

    (ours, counts), (theirs, wanted) = run(shared_owner().device), run("cpu")
    assert torch.equal(ours.cpu(), theirs) and counts == wanted


def test_parts_of_complex_numbers_are_views():
    seed = fresh_seed("parts of complex numbers")
    results = []
    for device in ("cpu", shared_owner().device):
        torch.manual_seed(seed)
        pairs = torch.randn(3, 2).to(device)
        numbers = torch.view_as_complex(pairs)
        numbers.imag.mul_(2)
        numbers.real[1:] += numbers.imag[:2]
        pairs[0] = 5
        results.append([pairs, numbers, numbers.conj()])
    for theirs, ours in zip(*results):
        assert torch.equal(ours.cpu(), theirs)


def test_resize():
    x = torch.arange(4.0).to(shared_owner().device)
    assert x.resize_(2).tolist() == [0, 1]
    assert x.resize_(4).tolist() == [0, 1, 2, 3]
    assert x.resize_(6)[:4].tolist() == [0, 1, 2, 3]
    view = x[2:]
    with pytest.raises(sojourn.Unsupported, match="resize_.*other tensors may share; clone"):
        view.resize_(5)
    with pytest.raises(sojourn.Unsupported, match="resize_.*other tensors may share; clone"):
        x.resize_(7)


def test_views_stay_views_over_many_flushes():
    seed = fresh_seed("views over flushes")
    results = []
    for device in ("cpu", shared_owner().device):
        torch.manual_seed(seed)
        base = torch.randn(4, 6, dtype=F64).to(device)
        views = [base[1:3], base.t()[::2], base.diagonal(), base.reshape(3, 8)]
        rounds = []
        for i in range(5):
            with sojourn.step():
                views[i % 4].add_(torch.randn((), dtype=F64).to(device))
                views[(i + 1) % 4].mul_(views[(i + 1) % 4].sum())
            rounds.append(base.sum())
            if i == 2:
                views.append(views[1][1])
                views[-1].neg_()
        results.append([base, views, rounds])
    assert_same(results[1], results[0], "views")
    # Half of the views die; the others still show writes.
    for base, views, rounds in results:
        del views[0::2]
        base.mul_(2)
        views[0][0].zero_()
    assert_same(results[1], results[0], "surviving views")
