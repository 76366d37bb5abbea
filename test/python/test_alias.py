# SPDX-License-Identifier: Apache-2.0
"""Views and writes through them, against eager torch: every live tensor and every gradient.

Each case is a function of a device and inputs; it runs once on the CPU and once at the owner,
under three schedules: one program, one program per statement group, and inside a step.
"""

import random

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


def test_real_and_imag_views_are_refused():
    device = shared_owner().device
    with pytest.raises(sojourn.Unsupported, match="(?i)complex"):
        torch.view_as_complex(torch.ones(3, 2, device=device))
    with pytest.raises(sojourn.Unsupported, match="(?i)complex"):
        torch.ones(3, dtype=torch.complex64).to(device)


def test_resize_of_contents_is_refused():
    x = torch.ones(4, device=shared_owner().device)
    with pytest.raises(sojourn.Unsupported, match="resize_.*reshape or torch.empty"):
        x.resize_(2)


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


class Program:
    """A random sequence of views and writes over few bases; the same on every device."""

    def __init__(self, seed, steps):
        rng = random.Random(seed)
        self.bases = [[rng.randint(1, 4) for _ in range(rng.randint(1, 3))] for _ in range(2)]
        self.seed, self.decisions = seed, [[rng.random() for _ in range(10)] for _ in range(steps)]

    def run(self, device, upto=None):
        generator = torch.Generator().manual_seed(self.seed)
        live = [torch.randn(*shape, dtype=F64, generator=generator).to(device) for shape in self.bases]
        for decision in self.decisions[:upto]:
            self.step(live, decision, device)
        return live

    def step(self, live, d, device):
        pick = lambda r, n: int(r * n) % n
        x = live[pick(d[0], len(live))]
        other = live[pick(d[1], len(live))]
        dim = pick(d[2], x.dim()) if x.dim() else 0
        kind = pick(d[3], 22)
        add = live.append
        if kind == 0 and x.dim():
            start = pick(d[4], x.size(dim)) if x.size(dim) else 0
            add(x.narrow(dim, start, pick(d[5], x.size(dim) - start + 1)))
        elif kind == 1 and x.dim():
            add(x.transpose(dim, pick(d[4], x.dim())))
        elif kind == 2 and x.dim() and x.size(dim):
            add(x.select(dim, pick(d[4], x.size(dim))))
        elif kind == 3:
            add(x.unsqueeze(dim))
        elif kind == 4 and x.dim() >= 2:
            add(x.diagonal(pick(d[4], 3) - 1))
        elif kind == 5 and x.dim():
            add(x[tuple(slice(None, None, 2) if i == dim else slice(None) for i in range(x.dim()))])
        elif kind == 6:
            add(x.reshape(-1))
        elif kind == 7 and x.dim() and x.size(dim) >= 2:
            add(x.unfold(dim, 2, 1 + pick(d[4], 2)))
        elif kind == 8:
            add(x.detach())
        elif kind == 9 and x.numel():
            add(
                x.as_strided((1 + pick(d[4], 2),), (1,), x.storage_offset())
                if x.numel() > 1 and x.is_contiguous()
                else x.view_as(x)
            )
        elif kind == 10 and x.dim():
            add(x.contiguous().view(x.shape[::1]))
        elif kind == 11:
            add(x * d[4] + (other.sum() if d[5] < 0.5 else 1.0))
        elif kind == 12 and len(live) > 3:
            del live[pick(d[4], len(live))]
        elif kind == 13:
            add(x.squeeze())
        elif kind == 14 and x.dim():
            add(torch.cat([x, x * 2], dim))
        elif kind == 15:
            sojourn.flush() if d[4] < 0.3 else None
        elif kind == 16 and x.dim():
            x.transpose_(dim, pick(d[4], x.dim()))
        elif kind == 17 and d[4] < 0.5:
            x.data = other.detach()
        elif any(s == 0 and n > 1 for s, n in zip(x.stride(), x.shape)) or self.overlaps(x):
            return
        elif kind == 18:
            x.mul_(0.5 + d[4])
        elif kind == 19:
            x.add_(other.sum().detach().clone(), alpha=0.1)
        elif kind == 20:
            x.copy_(
                (other.reshape(-1)[:1].clone() if other.numel() else torch.ones(1, dtype=F64, device=device))
                .reshape((1,) * x.dim())
                .expand(x.shape)
            )
        elif kind == 21 and x.dim() and x.size(dim):
            x[(slice(None),) * dim + (pick(d[4], x.size(dim)),)] = d[5]
        else:
            x.clamp_(-2 + d[4], 3)

    @staticmethod
    def overlaps(x):
        """Whether two elements share a place (unfold); writes to those have no defined order."""
        places = torch.zeros((), dtype=torch.long)
        for dim, (size, stride) in enumerate(zip(x.shape, x.stride())):
            places = places.unsqueeze(-1) + torch.arange(size) * stride
        return places.unique().numel() != places.numel()


@pytest.mark.parametrize("runtime,count", [("native", 250), ("numpy", 60)])
def test_random_programs(runtime, count):
    device = shared_owner(runtime).device
    seed = fresh_seed("random programs")
    for i in range(count):
        program = Program(seed + i, steps=30)
        if matches(program, device) is None:
            continue
        # The shortest prefix that differs.
        for length in range(1, 31):
            if failure := matches(program, device, length):
                pytest.fail(
                    f"program {seed + i} differs after {length} steps: {program.decisions[length - 1]}: {failure}"
                )


def matches(program, device, upto=None):
    try:
        assert_same(program.run(device, upto), program.run("cpu", upto), f"program {program.seed}")
    except (AssertionError, RuntimeError) as failure:
        return failure
    return None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_random_views_with_gradients(dtype):
    """Random chains of views of a non-leaf, written in the middle, then differentiated."""
    seed = fresh_seed("random gradients")
    for i in range(12):
        results = []
        for device in ("cpu", shared_owner().device):
            rng = random.Random(seed + i)
            generator = torch.Generator().manual_seed(seed + i)
            x = torch.randn(4, 3, 5, dtype=dtype, generator=generator).to(device).requires_grad_()
            base = x * 1.25
            view = base
            for _ in range(rng.randint(1, 4)):
                choice = rng.randrange(5)
                if choice == 0 and view.dim():
                    view = view.transpose(rng.randrange(view.dim()), rng.randrange(view.dim()))
                elif choice == 1 and view.dim() > 1:
                    dim = rng.randrange(view.dim())
                    view = view.select(dim, rng.randrange(view.size(dim)))
                elif choice == 2 and view.dim():
                    dim = rng.randrange(view.dim())
                    start = rng.randrange(view.size(dim))
                    view = view.narrow(dim, start, view.size(dim) - start)
                elif choice == 3 and view.dim() > 1:
                    view = view.diagonal(0, 0, 1)
                else:
                    view = view.unsqueeze(rng.randrange(view.dim() + 1))
            view.mul_(rng.random()).add_(base.detach().sum() * 0.01)
            loss = (base * base.flip(0)).sum() + view.pow(2).sum()
            results.append([base, view, torch.autograd.grad(loss, x)[0]])
        tolerance = 1e-9 if dtype == F64 else 1e-4
        assert_same(results[1], results[0], f"gradients {seed + i}", rtol=tolerance, atol=tolerance)
