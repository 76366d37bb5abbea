# SPDX-License-Identifier: Apache-2.0
"""Numbers beside tensors, and dtypes that do not go together: results and refusals of eager."""

import pytest
import torch
import torch.nn.functional as F
from eager_support import same_strides
from remote_support import shared_owner

import sojourn

HALVES = [torch.float16, torch.bfloat16]
#: In eager a factor of halves is read in f32, a summand is rounded to their type.
BESIDE_HALVES = {
    "mul": lambda x, k: x * k, "number first": lambda x, k: k * x, "div": lambda x, k: x / k, "add": lambda x, k: x + k,
    "sub": lambda x, k: x - k, "rsub": lambda x, k: k - x, "rdiv": lambda x, k: k / x, "floor": lambda x, k: x // k,
    "trunc": lambda x, k: torch.div(x, k, rounding_mode="trunc"), "mul_": lambda x, k: x.clone().mul_(k),
    "foreach": lambda x, k: torch._foreach_mul([x, x + 1], k), "foreach div": lambda x, k: torch._foreach_div([x], [k]),
    "less": lambda x, k: x < k,
}  # fmt: skip


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", BESIDE_HALVES)
def test_numbers_beside_halves(device, seed, name, dtype):
    x = torch.randn(300).to(dtype)
    for number in (0.1, 0.3, 3.0, 7):
        wanted = torch.utils._pytree.tree_leaves(BESIDE_HALVES[name](x, number))
        found = torch.utils._pytree.tree_leaves(BESIDE_HALVES[name](x.to(device), number))
        for ours, theirs in zip(found, wanted, strict=True):
            assert ours.dtype == theirs.dtype
            assert torch.equal(ours.cpu(), theirs), number


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_numbers_that_no_half_holds(device, dtype):
    """A scale of losses: what it is multiplied by may be a half again."""
    x = torch.tensor([0.0, 0.25, 1e-3, -2e-4]).to(dtype)
    for call in (
        lambda x: x * 65536,
        lambda x: x * 65536.0,
        lambda x: x / 70000.0,
        lambda x: x / 1e-8,
        lambda x: 1e6 * x,
    ):
        torch.testing.assert_close(call(x.to(device)).cpu(), call(x), rtol=0, atol=0, equal_nan=True)


U8 = torch.tensor([7, 9], dtype=torch.uint8)
TOO_LARGE = {
    "clamp": lambda x: x.clamp(max=256), "clamp min": lambda x: x.clamp(min=300), "pow": lambda x: x.pow(300),
    "alpha": lambda x: torch.add(x, x, alpha=300), "alpha of sub": lambda x: torch.sub(x, x, alpha=300),
    "alpha of rsub": lambda x: torch.rsub(x, x, alpha=300), "addcmul": lambda x: torch.addcmul(x, x, x, value=300),
    "threshold": lambda x: F.threshold(x, 300, 1), "hardtanh": lambda x: F.hardtanh(x.int(), -(2**40), 2**40),
    "index_add": lambda x: x.index_add(0, torch.tensor([0, 1], device=x.device), x, alpha=300),
    "addmm": lambda x: torch.addmm(x[None, :1], x[None, :1], x[None, :1], beta=300),
    "addr": lambda x: torch.addr(x[None, :1], x[:1], x[:1], alpha=300), "int32": lambda x: x.int().clamp(min=2**40),
}  # fmt: skip


@pytest.mark.parametrize("name", TOO_LARGE)
def test_integers_that_do_not_fit(device, name):
    for place in ("cpu", device):
        with pytest.raises(RuntimeError, match="without overflow"):
            TOO_LARGE[name](U8.to(place))


def test_integers_that_wrap(device):
    """Operands do, and bounds that are floats make floats."""
    for call in (
        lambda x: x + 300, lambda x: x * 300, lambda x: x == 300, lambda x: torch.fmod(x, 300), lambda x: x.clamp(max=1e30),
        lambda x: x.clamp(min=-1), lambda x: torch.add(x, x, alpha=3), lambda x: 300 ** (x % 3), lambda x: (1 << 40) ** x.int(),
    ):  # fmt: skip
        ours, theirs = call(U8.to(device)).cpu(), call(U8)
        assert ours.dtype == theirs.dtype and torch.equal(ours, theirs)


def test_integers_beside_floats(device):
    """Whether 1.5 is one of them, and where it belongs."""
    x, pairs = torch.arange(4), torch.tensor([[0, 2, 4], [1, 3, 5]])
    for call in (
        lambda x: torch.isin(x, 1.5), lambda x: torch.isin(1.5, x), lambda x: torch.isin(1, x), lambda x: torch.isin(x, 2),
        lambda x: torch.isin(x, torch.tensor([0.5, 3.0], device=x.device)), lambda x: torch.isin(1.0, x, invert=True),
        lambda x: torch.searchsorted(x, 1.5), lambda x: torch.searchsorted(x, 2.0, right=True),
        lambda x: torch.bucketize(2.5, x), lambda x: torch.bucketize(torch.tensor([0.5, 2.0], device=x.device), x),
        lambda x: torch.searchsorted(pairs.to(x.device), torch.tensor([[0.5], [3.5]], device=x.device)),
    ):  # fmt: skip
        ours, theirs = call(x.to(device)).cpu(), call(x)
        assert ours.shape == theirs.shape and torch.equal(ours, theirs)


def test_draws_by_numbers(device, seed):
    for call in (lambda d: torch.normal(0.0, 1.0, (3, 4), device=d), lambda d: torch.normal(0, 1, (5,), device=d)):
        ours, theirs = call(device), call("cpu")
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape and ours.cpu().isfinite().all()


KINDS = {
    "f": torch.float32, "d": torch.float64, "i": torch.int64, "b": torch.bool, "h": torch.float16,
}  # fmt: skip
LOSSES = [
    "mse_loss", "smooth_l1_loss", "huber_loss", "soft_margin_loss", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "l1_loss",
]  # fmt: skip


def outcome(call):
    try:
        return call()
    except Exception as error:
        return error


@pytest.mark.parametrize("pair", ["fd", "df", "fi", "if", "ii", "fb", "bb", "fh", "hh", "ff"])
@pytest.mark.parametrize("name", LOSSES)
def test_losses_of_two_dtypes(device, seed, name, pair):
    """The value and its gradient, or eager's exception at the same call."""
    a, b = torch.rand(4).to(KINDS[pair[0]]), torch.rand(4).to(KINDS[pair[1]])
    loss = getattr(F, name)

    def run(place):
        x = a.to(place).detach()
        value = loss(x, b.to(place))
        if not x.is_floating_point():
            return [value]
        x = x.clone().requires_grad_()
        return [value, outcome(lambda: torch.autograd.grad(loss(x, b.to(place)), x)[0])]

    theirs, ours = outcome(lambda: run("cpu")), outcome(lambda: run(device))
    if isinstance(theirs, Exception):
        assert isinstance(ours, type(theirs)), (ours, theirs)
        return
    assert not isinstance(ours, Exception), ours
    for mine, their in zip(ours, theirs, strict=True):
        if isinstance(their, Exception):
            assert isinstance(mine, type(their)), (mine, their)
        else:
            assert mine.dtype == their.dtype
            loose = 2e-3 if their.dtype == torch.float16 else 1e-5
            torch.testing.assert_close(mine.detach().cpu(), their.detach(), rtol=loose, atol=loose)


REFUSED = {
    "multilabel margin, float target": lambda d: F.multilabel_margin_loss(torch.rand(2, 3, device=d), torch.rand(2, 3, device=d)),
    "cross entropy, double weight": lambda d: F.cross_entropy(
        torch.rand(2, 3, device=d), torch.tensor([0, 1], device=d), weight=torch.rand(3, device=d).double()),
    "multi margin, double weight": lambda d: F.multi_margin_loss(
        torch.rand(2, 3, device=d), torch.tensor([0, 1], device=d), weight=torch.rand(3, device=d).double()),
    "masked_scatter, double source": lambda d: torch.rand(3, device=d).masked_scatter(
        torch.tensor([True, False, True], device=d), torch.rand(3, device=d).double()),
    "cat into integers": lambda d: torch.cat([torch.rand(2, device=d)] * 2, out=torch.empty(4, dtype=torch.int64, device=d)),
    "addr, boolean beta": lambda d: torch.addr(torch.ones(2, 2, device=d), torch.ones(2, device=d), torch.ones(2, device=d), beta=False),
    "addr, float beta of integers": lambda d: torch.addr(
        torch.ones(2, 2, device=d).long(), torch.ones(2, device=d).long(), torch.ones(2, device=d).long(), beta=0.5),
    "all into floats": lambda d: torch.all(torch.rand(2, 3, device=d) > 0, 1, out=torch.empty(2, device=d)),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_dtypes_that_do_not_go_together(name):
    theirs, ours = outcome(lambda: REFUSED[name]("cpu")), outcome(lambda: REFUSED[name](shared_owner().device))
    assert isinstance(theirs, Exception) and isinstance(ours, type(theirs)), (ours, theirs)


def test_products_that_are_ignored(device, seed):
    """alpha = 0: what is added has the result's shape nevertheless."""
    for call in (
        lambda d: torch.addmv(torch.ones(1, device=d), torch.ones(2, 3, device=d), torch.ones(3, device=d), beta=0.5, alpha=0),
        lambda d: torch.addmm(torch.ones(3, device=d), torch.ones(2, 3, device=d), torch.ones(3, 3, device=d), beta=2, alpha=0),
    ):  # fmt: skip
        torch.testing.assert_close(call(device).cpu(), call("cpu"))


def test_truth_into_bytes(device, seed):
    x = torch.randn(3, 4)
    for call in (torch.all, torch.any):
        ours, theirs = (torch.empty(3, dtype=torch.uint8, device=place) for place in (device, "cpu"))
        call(x.to(device) > 0, 1, out=ours), call(x > 0, 1, out=theirs)
        assert torch.equal(ours.cpu(), theirs)


def test_layouts(device, seed):
    x = torch.randn(4, 4)
    same_strides([torch.rsub(x.to(device).t(), x.to(device))], [torch.rsub(x.t(), x)])
    wide = torch.arange(3.0).view(3, 1)

    def scattered(x):
        return torch.as_strided_scatter(x.expand(3, 2), torch.tensor([9.0], device=x.device), (1,), (1,))

    ours, theirs = scattered(wide.to(device)), scattered(wide)
    assert torch.equal(ours.cpu(), theirs) and ours.stride() == theirs.stride()


def test_results_into_empty_windows(device):
    """They grow in the storage that they are a window of."""
    for place in ("cpu", device):
        x = torch.zeros(4, device=place)
        torch.add(torch.ones(2, device=place), 1, out=x[1:1])
        assert x.tolist() == [0, 2, 2, 0]
        wide = torch.zeros(2, dtype=torch.float64, device=place)
        torch.add(torch.ones(2, device=place), 1, out=wide.view(torch.float32)[1:1])
        assert wide.view(torch.float32).tolist() == [0, 2, 2, 0]
    for size in (1, 4, 5):
        assert torch.equal(torch.fft.fftfreq(size, 0.5, device=device).cpu(), torch.fft.fftfreq(size, 0.5))
        assert torch.equal(torch.fft.rfftfreq(size, device=device).cpu(), torch.fft.rfftfreq(size))
    x = torch.zeros(4, device=device)
    with pytest.raises(sojourn.Unsupported, match="do not fit behind its offset"):
        torch.add(torch.ones(9, device=device), 1, out=x[2:2])
    empty = torch.zeros(0, device=device)
    with pytest.raises(sojourn.Unsupported, match="empty window of a tensor of 0 elements"):
        torch.add(torch.ones(2, device=device), 1, out=empty.view(-1))


INDEX = torch.zeros(4, 4, dtype=torch.int64)
ELSEWHERE = {
    "scatter_": lambda x, i: x.scatter_(0, i, x), "scatter_add_": lambda x, i: x.scatter_add_(0, i, x),
    "gather": lambda x, i: torch.gather(x, 0, i, out=x), "index_select": lambda x, i: torch.index_select(x, 0, i[0], out=x),
    "index_add_": lambda x, i: x.index_add_(0, i[0], x), "index_copy_": lambda x, i: x.index_copy_(0, i[0], x),
    "cat": lambda x, i: torch.cat([x], out=x), "put_": lambda x, i: x.put_(i, x), "take": lambda x, i: torch.take(x, i, out=x),
    "index_reduce_": lambda x, i: x.index_reduce_(0, i[0], x, "prod"), "foreach": lambda x, i: torch._foreach_add_([x], [x.t()]),
}  # fmt: skip


@pytest.mark.parametrize("name", ELSEWHERE)
def test_writes_to_what_is_read_elsewhere(device, name):
    for place in ("cpu", device):
        with pytest.raises(RuntimeError, match="single memory location"):
            ELSEWHERE[name](torch.rand(4, 4, device=place), INDEX.to(place))
