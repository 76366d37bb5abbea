# SPDX-License-Identifier: Apache-2.0
"""Corners where a device of one's own goes wrong first: eager's values, dtypes and strides, and eager's errors.

Numbers that are ignored, windows of storages, `out=`, operands that overlap, modes of differentiation over views, layouts
that are not held. Values are read outside of steps.
"""

import itertools
import random

import pytest
import torch
import torch.nn.functional as F
from remote_support import shared_owner
from torch import nn
from torch.autograd import forward_ad

import sojourn

# What torch says of nested tensors, of C++ Functions, and of reads that cost a trip.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
NAN, INF = float("nan"), float("inf")
CASES = {}


def case(name, function, *inputs):
    """`inputs`: functions that draw them, or tensors."""
    assert name not in CASES
    CASES[name] = (function, inputs)


def square():
    return torch.randn(4, 4)


def cube():
    return torch.randn(3, 4, 4)


def nans():
    return torch.full((4, 4), NAN)


def index():
    return torch.tensor([[0, 1, 2, 3]])


def empty(x, *sizes, dtype=torch.float32):
    return torch.empty(*sizes, dtype=dtype, device=x.device)


for beta, alpha in ((0, 1), (1, 0), (0, 0), (0.0, 1.0), (1.0, 0.0), (0.5, 2.0)):
    more = {"beta": beta, "alpha": alpha}
    first = lambda n, x, beta=beta: n if beta == 0 else x
    second = lambda n, x, alpha=alpha: n if alpha == 0 else x
    case(f"addmm {more}", lambda n, x, a=first, b=second, m=more: torch.addmm(a(n, x), b(n, x), x, **m), nans, square)
    case(
        f"addmv {more}",
        lambda n, x, a=first, b=second, m=more: torch.addmv(a(n, x)[0], b(n, x), x[0], **m),
        nans,
        square,
    )
    case(
        f"addbmm {more}",
        lambda n, x, a=first, b=second, m=more: torch.addbmm(a(n, x), b(n, x)[None], x[None], **m),
        nans,
        square,
    )
    case(
        f"baddbmm {more}",
        lambda n, x, a=first, b=second, m=more: torch.baddbmm(a(n, x)[None], b(n, x)[None], x[None], **m),
        nans,
        square,
    )
    case(
        f"addr {more}", lambda n, x, a=first, b=second, m=more: torch.addr(a(n, x), b(n, x)[0], x[0], **m), nans, square
    )

case("hypot", torch.hypot, torch.tensor([INF, NAN, -INF, 3.0, 0.0]), torch.tensor([NAN, INF, NAN, 4.0, 0.0]))
for alpha in (False, True):
    case(
        f"add of booleans, alpha {alpha}",
        lambda x, y, alpha=alpha: torch.add(x, y, alpha=alpha),
        torch.tensor([True, False, False]),
        torch.tensor([True, True, False]),
    )
case("as_strided_copy of a part", lambda x: torch.as_strided_copy(x[1:], (2, 2), (4, 1)), square)
case("as_strided_copy of a transpose", lambda x: torch.as_strided_copy(x.t(), (2, 2), (4, 1), 3), square)
case("as_strided_scatter", lambda x, y: torch.as_strided_scatter(x, y[:2, :2], (2, 2), (4, 1), 5), square, square)
case(
    "as_strided_scatter of a part",
    lambda x, y: torch.as_strided_scatter(x[1:], y[:2, :2], (2, 2), (4, 1), 5),
    square,
    square,
)
case("multi_margin_loss of floats", F.multi_margin_loss, square, torch.tensor([0.0, 1.0, 2.0, 3.0]))
case(
    "multi_margin_loss with two weights",
    lambda x, y: F.multi_margin_loss(x, y, weight=x[0, :2]),
    square,
    torch.tensor([0, 1, 2, 3]),
)
case("multi_margin_loss", lambda x, y: F.multi_margin_loss(x, y, weight=x[0]), square, torch.tensor([0, 1, 2, 3]))
case("all, out", lambda x: torch.all(x > 0, out=empty(x, dtype=torch.bool)), square)
case("all of a dim, out", lambda x: torch.all(x > 0, 1, out=empty(x, 4, dtype=torch.bool)), square)
case("min, out", lambda x: torch.min(x, out=empty(x)), square)
case("min of a dim, out", lambda x: torch.min(x, 1, out=(empty(x, 4), empty(x, 4, dtype=torch.long))), square)
case("norm, out", lambda x: torch.norm(x, 2, 1, out=empty(x, 4)), square)
case("scatter, out", lambda x, i: torch.scatter(x, 0, i, x * 2, out=empty(x, 4, 4)), square, index)
case("scatter of a number, out", lambda x, i: torch.scatter(x, 0, i, 3.0, out=empty(x, 4, 4)), square, index)
case("scatter, reduce, out", lambda x, i: torch.scatter(x, 0, i, x, reduce="add", out=empty(x, 4, 4)), square, index)
case("matmul of batches, out", lambda x: torch.matmul(x, x, out=empty(x, 3, 4, 4)), cube)
case("matmul by one matrix, out", lambda x: torch.matmul(x, x[0], out=empty(x, 3, 4, 4)), cube)
case("matmul by a vector, out", lambda x: torch.matmul(x, x[0, 0], out=empty(x, 3, 4)), cube)
case("matmul, out of another dtype", lambda x: torch.matmul(x, x, out=empty(x, 3, 4, 4, dtype=torch.float64)), cube)
case("transpose_copy, out", lambda x: torch.transpose_copy(x, 0, 1, out=empty(x, 4, 4)), square)
case("t_copy, out", lambda x: torch.t_copy(x, out=empty(x, 4, 4)), square)
case("a transpose added in place", lambda x: x.add_(x.t()), square)
case("a shift added in place", lambda x: x[1:].add_(x[:-1]), square)
case("a transpose copied", lambda x: x.copy_(x.t()), square)
case("a shift as out", lambda x: torch.mul(x[:-1], 2, out=x[1:]), square)
case("itself added in place", lambda x: x.add_(x), square)
case("parts that only lie between each other", lambda x: x[:, ::2].add_(x[:, 1::2]).clone(), square)
case("halves added in place", lambda x: x[:2].add_(x[2:]), square)
case("cat into its input", lambda x: torch.cat([x[:2], x[2:]], out=x), square)
case(
    "bytes resampled",
    lambda x: F.interpolate(x, size=3),
    torch.randint(0, 255, (1, 2, 4, 4), dtype=torch.uint8),
)

VIEWS = {
    "view": lambda x: x.view(2, 8) * 2,
    "transpose": lambda x: x.t().sin(),
    "slices": lambda x: x[1:] * x[:-1],
    "circular padding": lambda x: F.pad(x[None, None], (1, 1, 1, 1), mode="circular").sin(),
    "pooling, channels last": lambda x: F.avg_pool2d(
        x[None, None].contiguous(memory_format=torch.channels_last), 2
    ).sin(),
    "diagonal": lambda x: torch.diag(x).sin(),
    "product": lambda x: x.prod(),
    "product of a dim": lambda x: x.prod(1),
    "parts": lambda x: torch.stack(x.unbind(1)).sin(),
    "expand": lambda x: x[0].expand(3, 4) * 2,
}


def dual(function, x, tangent):
    with forward_ad.dual_level():
        return tuple(forward_ad.unpack_dual(function(forward_ad.make_dual(x, tangent))))


for name, function in VIEWS.items():
    case(f"jvp, {name}", lambda x, t, f=function: torch.func.jvp(f, (x,), (t,)), square, square)
    case(f"grad of torch.func, {name}", lambda x, f=function: torch.func.grad(lambda x: f(x).sum())(x), square)
    case(f"forward mode, {name}", lambda x, t, f=function: dual(f, x, t), square, square)


def averaged(x):
    model = nn.Linear(4, 4, bias=False).to(x.device)
    with torch.no_grad():
        model.weight.copy_(x)
    average = torch.optim.swa_utils.AveragedModel(model)
    for _ in range(3):
        with torch.no_grad():
            model.weight.mul_(0.5)
        average.update_parameters(model)
    return average.module.weight.detach(), int(average.n_averaged)


def scaled(x):
    model = nn.Linear(4, 4, bias=False).to(x.device)
    with torch.no_grad():
        model.weight.copy_(x)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(x.device.type, init_scale=4.0, growth_interval=2)
    scales = []
    for step in range(5):
        optimizer.zero_grad()
        loss = model(x).sum() * (INF if step == 3 else 1.0)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    return model.weight.detach(), scales


def checked(x):
    with torch.autograd.detect_anomaly():
        leaf = x.clone().requires_grad_()
        (leaf * 2).sum().backward()
    return leaf.grad, torch.autograd.gradcheck(torch.sin, (x.double().requires_grad_(),))


case("AveragedModel", averaged, square)
case("GradScaler", scaled, square)
case("anomaly mode and gradcheck", checked, square)
case("numbers above 2^63", lambda x: x * float(2**64), square)


def outcome(function, inputs):
    """Values as the CPU has them, or the error."""
    try:
        result = torch.utils._pytree.tree_leaves(function(*inputs))
    except Exception as failure:
        return failure
    return [leaf.detach().cpu() if isinstance(leaf, torch.Tensor) else leaf for leaf in result]


@pytest.mark.parametrize("name", CASES)
def test_corner(seed, name):
    function, inputs = CASES[name]
    drawn = [each if isinstance(each, torch.Tensor) else each() for each in inputs]
    device = shared_owner().device
    expected = outcome(function, [x.clone() for x in drawn])
    found = outcome(function, [x.clone().to(device) for x in drawn])
    if isinstance(expected, Exception):
        assert isinstance(found, type(expected)), f"eager: {expected!r}; here {found!r}"
        assert "INTERNAL ASSERT" not in str(found)
        return
    assert not isinstance(found, Exception), found
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected):
        if isinstance(theirs, torch.Tensor):
            assert ours.dtype == theirs.dtype and ours.stride() == theirs.stride()
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6, equal_nan=True)
        else:
            assert ours == theirs


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "nearest"])
def test_bytes_are_resampled_as_eager_does(seed, mode):
    """By its fixed-point weights, which are off by one where the exact result is between two."""
    x = torch.randint(0, 256, (2, 3, 5, 4), dtype=torch.uint8)
    found = F.interpolate(x.to(shared_owner().device), scale_factor=2, mode=mode).cpu()
    assert torch.equal(found, F.interpolate(x, scale_factor=2, mode=mode))


FORMS = {
    "sparse": lambda: torch.eye(3).to_sparse(),
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    "jagged": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
    "quantized": lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_that_no_owner_holds(form):
    with pytest.raises(sojourn.Unsupported, match="use dense ones"):
        FORMS[form]().to(shared_owner().device)


@pytest.mark.parametrize(
    "sizes, strides", [((2, 2), (4, 1)), ((2, 2), (1, 1)), ((3, 2), (1, 5)), ((2, 3), (1, 2)), ((2,), (0,))]
)
def test_tensors_with_gaps_and_shared_elements(device, seed, sizes, strides):
    value = torch.randn(sizes)
    for make in (
        lambda place: torch.empty_strided(sizes, strides, device=place),
        lambda place: torch.ones(2, device=place).new_empty_strided(sizes, strides),
    ):
        ours, theirs = make(device), make("cpu")
        assert ours.stride() == theirs.stride() and not ours._is_view()
        if torch._debug_has_internal_overlap(theirs) == 0:
            ours.copy_(value), theirs.copy_(value)
            assert torch.equal(ours.cpu(), theirs)


def test_resize(device, seed):
    x = torch.randn(4, 6)
    for sizes in ((2, 3), (24,), (3, 2, 4), (0, 5), ()):
        ours, theirs = x.to(device).clone().resize_(sizes), x.clone().resize_(sizes)
        assert ours.shape == theirs.shape and ours.stride() == theirs.stride() and torch.equal(ours.cpu(), theirs)
    ours, theirs = x.to(device), x.clone()
    ours[1:].resize_(3), theirs[1:].resize_(3)
    ours[1:].resize_(3).fill_(2.0), theirs[1:].resize_(3).fill_(2.0)
    assert torch.equal(ours.cpu(), theirs)
    with pytest.raises(sojourn.Unsupported, match="clone"):
        ours[1:].resize_(50)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, out: torch.gather(x, 0, x.new_zeros(x.shape).long(), out=out),
        lambda x, out: torch.mm(x, x, out=out),
        lambda x, out: torch.neg(x, out=out),
        lambda x, out: torch.amax(x, 0, out=out),
        lambda x, out: torch.where(x > 0, x, x, out=out),
    ],
)
def test_an_out_of_another_type_is_refused_as_eager_does(device, call):
    x = torch.randn(3, 3)
    for put in (lambda t: t, lambda t: t.to(device)):
        with pytest.raises(RuntimeError, match="[Dd]type|type"):
            call(put(x), put(torch.zeros(0, dtype=torch.float64)))


def test_an_out_of_another_type_is_cast_into_as_eager_does(device, seed):
    x = torch.randn(3, 3)
    for call in (torch.exp, lambda t, out: torch.add(t, t, out=out), lambda t, out: torch.cumsum(t, 0, out=out)):
        here, there = torch.zeros(3, 3, dtype=torch.float64), torch.zeros(3, 3, dtype=torch.float64).to(device)
        call(x, out=here)
        call(x.to(device), out=there)
        torch.testing.assert_close(there.cpu(), here, rtol=1e-6, atol=1e-6)


def test_numbers_beyond_the_largest_integer(device, seed):
    for number in (2**63, 2**63 + 5, 2**64 - 1):
        for function in (
            lambda x: x * number, lambda x: x.add(number), lambda x: x > number, lambda x: x.clone().fill_(number),
            lambda x: torch.full((2,), number, dtype=torch.float64, device=x.device),
        ):  # fmt: skip
            x = torch.randn(3)
            assert torch.equal(function(x.to(device)).cpu(), function(x))
    with pytest.raises(RuntimeError, match="cannot be converted to type int64_t without overflow"):
        torch.ones(2, dtype=torch.int64, device=device) * 2**63


def test_compressed_tensors_are_refused_at_the_border(device, seed):
    dense = torch.eye(3)
    for there in (dense.to_sparse_csr(), dense.to_sparse_csc(), dense.to_sparse()):
        with pytest.raises(sojourn.Unsupported, match="to_dense"):
            there.to(device)
        assert torch.equal(there.to(torch.float64).to_dense(), dense.double())


def test_dropout_of_flags(device, seed):
    g, mask = torch.ones(4, dtype=torch.bool), torch.tensor([True, False, True, True])
    backward = torch.ops.aten.native_dropout_backward
    ours, theirs = backward(g.to(device), mask.to(device), 2.0), backward(g, mask, 2.0)
    assert ours.dtype == theirs.dtype and torch.equal(ours.cpu(), theirs)


def test_strides_of_rrelu(device, seed):
    x = torch.randn(3, 4).t()
    for training in (False, True):
        assert torch.rrelu(x.to(device), training=training).stride() == torch.rrelu(x, training=training).stride()


POOLS = {
    "max_pool1d": (1, lambda x: F.max_pool1d(x, 4, 2, 1, return_indices=True)),
    "max_pool2d": (2, lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True)),
    "max_pool2d, windows that share much": (2, lambda x: F.max_pool2d(x, 7, 1, 3, return_indices=True)),
    "max_pool2d, ceil": (2, lambda x: F.max_pool2d(x, 3, 3, 0, ceil_mode=True, return_indices=True)),
    "max_pool3d": (3, lambda x: F.max_pool3d(x, 3, 2, 1, return_indices=True)),
    "adaptive_max_pool1d": (1, lambda x: F.adaptive_max_pool1d(x, 3, return_indices=True)),
    "adaptive_max_pool2d": (2, lambda x: F.adaptive_max_pool2d(x, (2, 4), return_indices=True)),
    "adaptive_max_pool2d, uneven": (2, lambda x: F.adaptive_max_pool2d(x, (3, 5), return_indices=True)),
    "adaptive_max_pool3d, uneven": (3, lambda x: F.adaptive_max_pool3d(x, 3, return_indices=True)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", POOLS)
def test_the_last_nan_of_a_window_is_its_largest(device, seed, name, dtype):
    dims, pool = POOLS[name]
    x = torch.randn(2, 3, *(8,) * dims).to(dtype)
    x[torch.rand(x.shape) < 0.3] = NAN
    found, weights = [], None
    for place in ("cpu", device):
        leaf = x.to(place).requires_grad_()
        value, where = pool(leaf)
        weights = torch.randint(-3, 4, value.shape).to(dtype) if weights is None else weights
        (slope,) = torch.autograd.grad(value, leaf, weights.to(place))
        found.append([part.detach().cpu() for part in (value, where, slope)])
    for theirs, ours in zip(*found):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("shape", [(2, 3, 9), (3, 8)])
def test_max_pool1d_is_a_view_only_where_it_differentiates(device, seed, shape):
    """Of another result of it, as eager's is; strides and versions are eager's."""
    drawn = torch.randn(shape)
    for needs, enabled, turned in itertools.product((False, True), repeat=3):
        x = drawn.mT.contiguous().mT if turned else drawn
        found = []
        for place in ("cpu", device):
            leaf = x.to(place).requires_grad_(needs)
            with torch.set_grad_enabled(enabled):
                y = torch.max_pool1d(leaf, 3, 2, 1)
            slope = torch.autograd.grad(y.sum(), leaf)[0].cpu() if y.requires_grad else None
            found.append([y.detach().cpu(), slope, y.stride(), y._is_view(), y._version, y.requires_grad])
        (theirs, slope, *facts), (ours, there, *others) = found
        assert others == facts and torch.equal(ours, theirs)
        assert slope is None or torch.equal(there, slope)
    with torch.inference_mode():
        y = torch.max_pool1d(drawn.to(device), 2)
        assert y.is_inference() and torch.equal(y.cpu(), torch.max_pool1d(drawn, 2))


FILLS = {
    "fill_": lambda x, n: x.fill_(n),
    "fill_ of none": lambda x, n: x[:0].fill_(n),
    "fill": torch.fill,
    "full": lambda x, n: torch.full((3,), n, dtype=x.dtype, device=x.device),
    "full_like": torch.full_like,
    "new_full": lambda x, n: x.new_full((3,), n),
    "masked_fill": lambda x, n: x.masked_fill(x > 0, n),
    "masked_fill_": lambda x, n: x.masked_fill_(x > 0, n),
    "index_fill": lambda x, n: x.index_fill(0, torch.tensor([1], device=x.device), n),
    "index_fill_": lambda x, n: x.index_fill_(0, torch.tensor([1], device=x.device), n),
    "scatter": lambda x, n: x.scatter(0, torch.tensor([1], device=x.device), n),
    "fill_diagonal_": lambda x, n: x.expand(3, 3).clone().fill_diagonal_(n),
    "constant padding": lambda x, n: F.pad(x, (1, 0), value=n),
    "scalar_tensor": lambda x, n: torch.scalar_tensor(n, dtype=x.dtype, device=x.device),
    "an element": lambda x, n: x.__setitem__(1, n) or x,
    "masked elements": lambda x, n: x.__setitem__(x > 0, n) or x,
}
NUMBERS = [1e300, 1e39, 3.5e38, 65520.0, 65000.0, 300, -1, -200, 2**40, 2.0**70, 1.5, INF, -INF, NAN, True]


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32, torch.int64],
)
@pytest.mark.parametrize("name", FILLS)
def test_numbers_that_do_not_fit(seed, name, dtype):
    device = shared_owner().device
    x = torch.randint(0, 3, (3,)).to(dtype)
    for number in NUMBERS:
        if dtype == torch.uint8 and number == -200:
            continue  # eager wraps it in one way or the other, as the op
        expected, found = outcome(FILLS[name], (x.clone(), number)), outcome(FILLS[name], (x.to(device), number))
        if isinstance(expected, Exception):
            assert type(found) is type(expected), f"{number}: eager {expected!r}; here {found!r}"
            assert str(found).splitlines()[0] == str(expected).splitlines()[0], number
        else:
            assert not isinstance(found, Exception), f"{number}: {found!r}"
            torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [None, torch.bool, torch.complex64, torch.float16, torch.float32, torch.int8])
@pytest.mark.parametrize(
    "range_", [(0, 1, 0), (0, -1, 1), (1, 0, 1), (0, INF, 1), (0, NAN, 1), (0, 5, NAN), (0, 1e39, 1e39), (0, 5, 2)]
)
def test_ranges_are_refused_as_eager_does(device, range_, dtype):
    function = lambda place: torch.arange(*range_, dtype=dtype, device=place)
    expected, found = outcome(function, ("cpu",)), outcome(function, (device,))
    if isinstance(expected, Exception):
        assert type(found) is type(expected) and str(found).splitlines()[0] == str(expected).splitlines()[0]
    else:
        assert torch.equal(found[0], expected[0])


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64], ids=str)
def test_integer_ramps_have_integer_ends(device, seed, dtype):
    draw = random.Random(seed)
    least = 0 if dtype == torch.uint8 else -60
    for _ in range(20):
        ends, steps = (draw.uniform(least, 60), draw.uniform(least, 60)), draw.choice([1, 2, 5, 50])
        ours, theirs = (torch.linspace(*ends, steps, dtype=dtype, device=place) for place in (device, "cpu"))
        exact = torch.linspace(*map(int, ends), steps, dtype=torch.float64)
        sure = (exact - exact.round()).abs() > 1e-9  # else the last bit of the step decides
        sure[0] = sure[-1] = True
        assert torch.equal(ours.cpu()[sure], theirs[sure]), (ends, steps)
        # Powers are below 2^7 and seldom near an integer, where the library's last bit would decide.
        powers = [draw.uniform(0, 4), draw.uniform(0, 4)]
        ours, theirs = (torch.logspace(*powers, steps, base=2.7, dtype=dtype, device=p) for p in (device, "cpu"))
        assert torch.equal(ours.cpu(), theirs), (powers, steps)
