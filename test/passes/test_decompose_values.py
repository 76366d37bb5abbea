# SPDX-License-Identifier: Apache-2.0
"""Goal: every decomposition computes what eager torch computes, values not only shapes.

Method: record single ATen calls of eager runs (forward and backward, also OpInfo samples), write each as functional
form, lower it with sojourn-opt, run the core ops with the NumPy kernels, compare with what eager gave for that call.
"""

from __future__ import annotations

import random

import pytest
import torch
from aten_calls import Call, Capture, Written, compare, interpret, lower
from torch import nn
from torch.nn import functional as F

# ATen multiplies by a sixth in single precision, whatever the element type.
LOOSE = {"aten.hardsigmoid_backward.default": 100}
SEED = random.SystemRandom().randrange(1 << 31)


@pytest.fixture(autouse=True)
def seeded():
    print("seed", SEED)
    torch.manual_seed(SEED)


def check(calls: list[Call]) -> None:
    written = [Written(call, number) for number, call in enumerate(calls)]
    lowered, errors = lower([w.text for w in written])
    wrong = []
    for number, (call, case) in enumerate(zip(calls, written, strict=True)):
        if number not in lowered:
            wrong.append(f"{call.func} does not lower:\n{case.text}")
            continue
        for got, expected in zip(interpret(lowered[number], case.inputs), case.outputs, strict=True):
            if difference := compare(got, expected, LOOSE.get(str(call.func), 1)):
                wrong.append(f"{call.func}: {difference}\n{case.text}")
    assert not wrong, "\n".join(wrong[:5]) + errors[:2000]


def record(*functions, dtype=torch.float64, limit=20) -> list[Call]:
    """Runs forward and backward of each function of no argument; what it returns is summed with random weights."""
    capture = Capture(limit=limit)
    previous = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        for function in functions:
            with capture:
                for value in torch.utils._pytree.tree_leaves(function()):
                    if isinstance(value, torch.Tensor) and value.requires_grad:
                        value.backward(torch.randn_like(value), retain_graph=True)
    finally:
        torch.set_default_dtype(previous)
    assert capture.calls
    return [call for call in capture.calls.values() if "seed" not in call.args and drawn_free(call)]


def drawn_free(call: Call) -> bool:
    tags = call.func.tags
    unset = str(call.func).split(".")[1] in ("empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided")
    # What has a shape only at run time is refused by the recorder.
    return not unset and not {torch.Tag.nondeterministic_seeded, torch.Tag.dynamic_output_shape} & set(tags)


def leaf(*shape) -> torch.Tensor:
    return torch.randn(*shape, requires_grad=True)


ACTIVATIONS = [
    F.relu, F.gelu, lambda x: F.gelu(x, approximate="tanh"), F.silu, F.elu, F.celu, F.selu, F.leaky_relu, F.relu6,
    F.hardtanh, F.hardswish, F.hardsigmoid, F.softplus, F.mish, torch.sigmoid, torch.tanh, F.logsigmoid, F.softshrink,
    F.hardshrink, F.glu, F.softsign, lambda x: F.threshold(x, 0.1, 2.0), lambda x: F.prelu(x, torch.tensor(0.3)),
    lambda x: F.softmax(x, 1), lambda x: F.log_softmax(x, -1), lambda x: torch.logsumexp(x, 0),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_activations(dtype):
    check(record(*(lambda f=f: f(leaf(5, 6) * 3) for f in ACTIVATIONS), dtype=dtype))


def test_softmax_of_masked_rows():
    x = torch.full((3, 4), -torch.inf)
    x[1] = torch.randn(4)
    x[2, 0] = torch.inf
    check(record(*(lambda f=f: f(x, 1) for f in (torch.ops.aten._safe_softmax, F.softmax, F.log_softmax))))
    check(record(lambda: torch.logsumexp(x, 1)))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_halves_are_rounded_once(dtype):
    """What has a factor, a bias or a weight is computed in float32, as ATen does."""
    check(record(
        lambda: torch.sub(leaf(40), leaf(40), alpha=0.3),
        lambda: torch.lerp(leaf(40), leaf(40), 0.3),
        lambda: torch.lerp(leaf(40), leaf(40), 0.8),
        lambda: torch.addmm(leaf(3), leaf(2, 4), leaf(4, 3)),
        lambda: F.layer_norm(leaf(4, 8), (8,), leaf(8), leaf(8)),
        lambda: torch.arange(0, 1, 0.01),
        dtype=dtype,
    ))  # fmt: skip


def test_ignored_rows_may_hold_infinities():
    target = torch.tensor([1, -100, 2, -100])
    x = torch.randn(4, 5, dtype=torch.float64)
    x[1], x[3] = -torch.inf, torch.inf
    calls = record(*(lambda r=r: F.nll_loss(x.requires_grad_(), target, reduction=r) for r in ("none", "mean", "sum")))
    assert any(call.outputs[0].isfinite().all() for call in calls)
    check(calls)


def test_lerp_gives_both_ends_exactly():
    x, y = torch.randn(50, dtype=torch.float32) * 1e6, torch.randn(50, dtype=torch.float32)
    check(record(*(lambda w=w: torch.lerp(x, y, w) for w in (0.0, 0.4999, 0.5, 0.75, 1.0))))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_losses(reduction):
    target = torch.randint(0, 5, (7,))
    target[2] = -100
    weight = torch.rand(5) + 0.1
    probability = torch.rand(7, 5, requires_grad=True, dtype=torch.float64)
    other = torch.rand(7, 5, dtype=torch.float64)
    kind = {"reduction": reduction}
    check(record(
        lambda: F.cross_entropy(leaf(7, 5), target, **kind),
        lambda: F.cross_entropy(leaf(7, 5), target, weight=weight.double(), label_smoothing=0.1, **kind),
        lambda: F.nll_loss(leaf(2, 5, 3, 3), torch.randint(0, 5, (2, 3, 3)), weight=weight.double(), **kind),
        lambda: F.mse_loss(leaf(7, 5), other, **kind),
        lambda: F.l1_loss(leaf(7, 5), other, **kind),
        lambda: F.smooth_l1_loss(leaf(7, 5), other, beta=0.7, **kind),
        lambda: F.huber_loss(leaf(7, 5), other, delta=0.6, **kind),
        lambda: F.binary_cross_entropy(probability, other, **kind),
        lambda: F.binary_cross_entropy_with_logits(leaf(7, 5) * 50, other, pos_weight=weight.double(), **kind),
        lambda: F.kl_div(leaf(7, 5), other, reduction="sum"),
        lambda: F.soft_margin_loss(leaf(7, 5), other.sign(), **kind),
        lambda: F.multi_margin_loss(leaf(7, 5), target.clamp_min(0), **kind),
    ))  # fmt: skip


def test_normalization():
    def batch_norm(train):
        layer = nn.BatchNorm2d(3).train(train)
        layer(torch.randn(4, 3, 5, 2) + 1000)
        return layer(leaf(4, 3, 5, 2) + 1000)

    check(record(
        lambda: batch_norm(True),
        lambda: batch_norm(False),
        lambda: nn.BatchNorm1d(3, affine=False, track_running_stats=False)(leaf(4, 3)),
        lambda: nn.LayerNorm([3, 4])(leaf(2, 3, 4)),
        lambda: nn.LayerNorm(4, elementwise_affine=False)(leaf(2, 3, 4)),
        lambda: nn.GroupNorm(2, 6)(leaf(3, 6, 4)),
        lambda: nn.InstanceNorm1d(3)(leaf(2, 3, 7)),
        lambda: torch._weight_norm(leaf(4, 3), leaf(4, 1), 0),
    ))  # fmt: skip


def test_integers_convolve():
    whole = lambda *shape: torch.randint(-(1 << 62), 1 << 62, shape)
    check(record(
        lambda: F.conv1d(whole(2, 4, 9), whole(6, 4, 3), whole(6), stride=2, padding=1),
        lambda: F.conv2d(whole(2, 4, 9, 8), whole(4, 1, 3, 2), groups=4, dilation=2),
        lambda: F.conv3d(whole(1, 2, 3, 4, 5), whole(2, 2, 2, 2, 1), padding=(1, 0, 2)),
        lambda: F.conv_transpose2d(
            whole(2, 4, 4, 5), whole(4, 3, 3, 2), stride=(2, 3), padding=1, output_padding=1, groups=2
        ),
    ))  # fmt: skip


def test_booleans_meet():
    mask = lambda *shape: torch.rand(shape) < 0.5
    index = torch.randint(0, 3, (6, 4))
    check(record(
        lambda: mask(5, 4).index_add(0, index[:, 0], mask(6, 4)),
        lambda: mask(5, 4).index_put((index,), mask(6, 4, 4), accumulate=True),
        lambda: mask(5, 4).scatter_add(0, index, mask(6, 4)),
        lambda: mask(5, 4).scatter_reduce(0, index, mask(6, 4), "prod", include_self=False),
        lambda: mask(5, 4).scatter_reduce(0, index, mask(6, 4), "sum", include_self=False),
        lambda: mask(5, 4).prod(1, dtype=torch.bool),
        lambda: mask(5, 4).sum(1, dtype=torch.bool),
    ))  # fmt: skip


def test_convolution_and_pooling():
    x = lambda *shape: leaf(2, 4, *shape)
    check(record(
        lambda: nn.Conv1d(4, 6, 3, stride=2, padding=1)(x(9)),
        lambda: nn.Conv2d(4, 4, 3, groups=4, dilation=2, bias=False)(x(9, 8)),
        lambda: nn.Conv3d(4, 2, 2)(x(4, 3, 5)),
        lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2)(x(4, 5)),
        lambda: nn.ConvTranspose1d(4, 2, 3, stride=1, dilation=3, output_padding=2)(x(4)),
        lambda: F.max_pool2d(x(7, 8), 3, 2, 1),
        lambda: F.max_pool2d(x(7, 8), 2, ceil_mode=True),
        lambda: F.max_pool1d(x(7), 2),
        lambda: F.avg_pool2d(x(7, 8), 2),
        lambda: F.avg_pool2d(x(7, 8), 3, 2, 1, ceil_mode=True, count_include_pad=False),
        lambda: F.avg_pool1d(x(7), 3, 2),
        lambda: F.adaptive_avg_pool2d(x(6, 8), (3, 2)),
        lambda: F.adaptive_avg_pool2d(x(7, 5), (3, 2)),
        lambda: F.adaptive_max_pool2d(x(7, 5), (3, 2)),
        lambda: F.interpolate(x(5, 4), scale_factor=2.5, mode="bilinear"),
        lambda: F.interpolate(x(5, 4), size=(3, 9), mode="nearest"),
        lambda: F.interpolate(x(5, 4), size=(3, 9), mode="bicubic"),
        lambda: F.fold(F.unfold(leaf(2, 3, 6, 5), (3, 2), 2, 1, 2), (6, 5), (3, 2), 2, 1, 2),
        lambda: F.pixel_shuffle(x(3, 2), 2),
        lambda: F.pad(x(3, 4), (1, 2, 2, 1), mode="reflect"),
        lambda: F.pad(x(3, 4), (1, -2, 0, 1), value=3.5),
    ))  # fmt: skip


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_sampling(padding):
    kinds = [(mode, align) for mode in ("bilinear", "nearest") for align in (True, False)]
    check(record(*(
        lambda m=m, a=a: F.grid_sample(leaf(2, 3, 4, 5), leaf(2, 3, 2, 2), m, padding, align_corners=a)
        for m, a in kinds
    )))  # fmt: skip


def test_distances():
    check(record(*(lambda p=p: torch.cdist(leaf(2, 4, 3), leaf(5, 3), p) for p in (2.0, 1.0, 3.0, torch.inf))))
    check(record(lambda: torch.renorm(leaf(4, 3) * 5, 2, 0, 1.0), lambda: torch.dist(leaf(4), leaf(4), 3.0)))


def test_indexing():
    index = torch.tensor([3, -1, 0, 3])
    rows = torch.tensor([[0], [2]])
    check(record(
        lambda: leaf(5, 4)[index],
        lambda: leaf(5, 4, 3)[index, :, torch.tensor(1)],
        lambda: leaf(3, 5, 4)[:, index, rows],
        lambda: torch.index_put(leaf(5, 4), (index, rows), leaf(2, 4), accumulate=True),
        lambda: leaf(5, 4).index_add(0, index.abs(), leaf(4, 4), alpha=0.5),
        lambda: leaf(5, 4).gather(1, torch.randint(0, 4, (3, 6))),
        lambda: leaf(5, 4).scatter(0, torch.randint(0, 5, (2, 3)), 2.0),
        lambda: leaf(5, 4).scatter_add(0, torch.randint(0, 5, (3, 4)), leaf(3, 4)),
        lambda: leaf(5, 4).scatter_reduce(0, torch.randint(0, 5, (3, 4)), leaf(3, 4), "amax", include_self=False),
        lambda: F.embedding(torch.tensor([[1, 2], [0, 1]]), leaf(4, 3), padding_idx=0),
        lambda: F.embedding(torch.tensor([1, 1, 2]), leaf(4, 3), scale_grad_by_freq=True),
        lambda: leaf(4, 5).unfold(1, 3, 2) * 1.0,
        lambda: leaf(4, 5).diagonal(1) * 1.0,
        lambda: leaf(4, 5)[1:4:2, -1] * 1.0,
        lambda: torch.cat([leaf(2, 3), leaf(1, 3), torch.empty(0)]).roll(1, 0).flip(1),
        lambda: leaf(3, 3).tril(-1) + leaf(3, 3).triu(1),
        lambda: leaf(2, 3).repeat(2, 1, 3),
        lambda: leaf(5, 4).sort(dim=1, stable=True)[0].topk(2, 0)[0] + leaf(5, 4).median(0)[0],
        lambda: leaf(5, 4).cumsum(0).cumprod(1).cummax(0)[0],
    ))  # fmt: skip


@pytest.mark.parametrize("upper", [False, True])
def test_cholesky(upper):
    a = torch.randn(2, 3, 5, 5, dtype=torch.float64)
    definite = a @ a.mT + torch.eye(5, dtype=torch.float64)
    calls = record(*(lambda x=x: torch.linalg.cholesky_ex(x, upper=upper) for x in (definite, definite[0, 0], a[:0])))
    assert len(calls) == 3
    check(calls)


def test_reductions():
    x = leaf(4, 5)
    orders = [2.0, 1.0, 0.0, 3.0, torch.inf, -torch.inf, 0.5]
    check(record(
        lambda: [x.sum(), x.sum(1, keepdim=True), x.mean(0), x.var(1), x.std(0, correction=0), x.amax(1), x.max()],
        lambda: [x.min(1, keepdim=True), x.argmax(), x.argmin(0), x.prod(1), torch.var_mean(x, 0), x.norm(), x.norm(1)],
        lambda: [torch.linalg.vector_norm(x, order, dim=1) for order in orders],
        lambda: [(x > 0).any(), (x > 0).all(1), (x > 9).sum(), torch.zeros(0, 3).sum(0), torch.zeros(0).any()],
    ))  # fmt: skip


def test_histograms():
    x, labels = torch.randn(6, 7, dtype=torch.float64), torch.randint(0, 5, (30,))
    edges = torch.tensor([-1.0, 0.0, 0.25, 2.0], dtype=torch.float64)
    check(record(
        lambda: torch.histc(x, 7, -1.5, 2.0),
        lambda: torch.histogram(x, 8, range=(-2.0, 2.0), weight=x.square(), density=True),
        lambda: torch.histogram(x, edges),
        lambda: torch.zeros(5).scatter_add(0, labels, torch.randn(30)),
        lambda: torch.ones(6).scatter_reduce(0, labels, torch.randn(30), "mean", include_self=False),
    ))  # fmt: skip


def test_integers_divide_as_in_torch():
    a = torch.tensor([7, -7, 6, -6, 0, 5])
    b = torch.tensor([-3, 3, -3, 4, 5, 2])
    f = torch.tensor([5.5, -5.5, -0.0, torch.inf, torch.nan, 6.0])
    g = torch.tensor([2.0, -2.0, 3.0, 2.0, 1.0, -3.0])
    functions = [torch.floor_divide, torch.remainder, torch.fmod, torch.div, torch.maximum, torch.fmax, torch.copysign]
    modes = [lambda x, y, m=m: torch.div(x, y, rounding_mode=m) for m in ("trunc", "floor")]
    check(record(*(lambda p=p, q=q, h=h: h(p, q) for p, q in ((a, b), (f, g)) for h in functions + modes)))


def cell_gates(count: int, hidden: int):
    return [torch.randn(3, count * hidden, dtype=torch.float64) for _ in range(2)]


def test_lstm_cell():
    """The fused cells have no CPU kernel: the reference is autograd over the formulas of the cell."""
    aten = torch.ops.aten
    first, second = cell_gates(4, 2)
    cx, gh, gc = (torch.randn(3, 2, dtype=torch.float64) for _ in range(3))
    bias = [torch.randn(8, dtype=torch.float64) for _ in range(2)]
    leaves = [t.clone().requires_grad_() for t in (first, second, cx, *bias)]
    i, f, g, o = (leaves[0] + leaves[1] + leaves[3] + leaves[4]).chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * leaves[2] + i * g
    hy = o * cy.tanh()
    workspace = torch.cat([i, f, g, o], 1).detach()
    forward = Call(
        aten._thnn_fused_lstm_cell.default,
        {"input_gates": first, "hidden_gates": second, "cx": cx, "input_bias": bias[0], "hidden_bias": bias[1]},
        [hy, cy, workspace], [],
    )  # fmt: skip
    calls = [forward]
    for grads in ((gh, gc), (gh, None), (None, gc)):
        values = [(v, d) for v, d in zip((hy, cy), grads) if d is not None]
        g1, _, gx, gb, _ = torch.autograd.grad(
            [v for v, _ in values], leaves, [d for _, d in values], retain_graph=True
        )
        arguments = {"grad_hy": grads[0], "grad_cy": grads[1], "cx": cx, "cy": cy.detach(), "workspace": workspace}
        full = {**arguments, "has_bias": True}
        calls.append(Call(aten._thnn_fused_lstm_cell_backward.default, full, [g1, g1, gx, gb, gb], []))
        calls.append(Call(aten._thnn_fused_lstm_cell_backward_impl.default, full, [g1, gx, gb], []))
        bare = {**arguments, "has_bias": False}
        calls.append(Call(aten._thnn_fused_lstm_cell_backward.default, bare, [g1, g1, gx, None, None], []))
    check(calls)


def test_gru_cell():
    aten = torch.ops.aten
    first, second = cell_gates(3, 2)
    hx, gh = (torch.randn(3, 2, dtype=torch.float64) for _ in range(2))
    bias = [torch.randn(6, dtype=torch.float64) for _ in range(2)]
    leaves = [t.clone().requires_grad_() for t in (first, second, hx, *bias)]
    ir, ii, i_n = (leaves[0] + leaves[3]).chunk(3, 1)
    hr, hi, hn = (leaves[1] + leaves[4]).chunk(3, 1)
    r, u = (ir + hr).sigmoid(), (ii + hi).sigmoid()
    n = (i_n + r * hn).tanh()
    hy = n + u * (leaves[2] - n)
    workspace = torch.cat([r, u, n, leaves[2], hn], 1).detach()
    g1, g2, gx, b1, b2 = torch.autograd.grad(hy, leaves, gh)
    named = {"input_gates": first, "hidden_gates": second, "hx": hx, "input_bias": bias[0], "hidden_bias": bias[1]}
    back = {"grad_hy": gh, "workspace": workspace, "has_bias": True}
    check([
        Call(aten._thnn_fused_gru_cell.default, named, [hy, workspace], []),
        Call(aten._thnn_fused_gru_cell_backward.default, back, [g1, g2, gx, b1, b2], []),
    ])  # fmt: skip


N = 40000


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
@pytest.mark.parametrize(
    ("name", "arguments", "mean", "deviation"),
    [
        ("uniform", {"from": -1.0, "to": 3.0}, 1.0, 4 / 12**0.5),
        ("normal_functional", {"mean": 2.0, "std": 0.5}, 2.0, 0.5),
        ("bernoulli.p", {"p": 0.3}, 0.3, 0.21**0.5),
        ("exponential", {"lambd": 2.0}, 0.5, 0.5),
        ("geometric", {"p": 0.25}, 4.0, 12**0.5),
        ("log_normal", {"mean": 0.0, "std": 0.25}, 1.0317, 0.2620),
        ("randint_like", {"high": 10}, 4.5, 8.25**0.5),
        ("random.from", {"from": -5, "to": 5}, -0.5, 8.25**0.5),
    ],
)
def test_distributions(name, arguments, mean, deviation, dtype):
    base, _, overload = name.partition(".")
    func = getattr(getattr(torch.ops.aten, base), overload or "default")
    like = torch.zeros(N, dtype=dtype)
    given = {a.name: arguments.get(a.name) for a in func._schema.arguments}
    given |= {"self": like, "seed": random.Random(SEED).getrandbits(62)}
    case = Written(Call(func, given, [like], []), 0)
    lowered, errors = lower([case.text])
    assert lowered, errors
    drawn = interpret(lowered[0], case.inputs)[0].astype("float64")
    # Six standard errors; halves round the value itself too.
    assert abs(drawn.mean() - mean) < 6 * deviation / N**0.5 + (1e-3 if dtype == torch.float16 else 0)
    assert abs(drawn.std() / deviation - 1) < 0.06


def test_dropout_and_permutation():
    aten = torch.ops.aten
    x = torch.randn(N) + 3
    given = {"input": x, "p": 0.4, "train": True, "seed": SEED}
    case = Written(Call(aten.native_dropout.default, given, [x, x > 0], []), 0)
    y, mask = interpret(lower([case.text])[0][0], case.inputs)
    assert abs(mask.mean() - 0.6) < 6 * (0.24 / N) ** 0.5
    check([
        Call(aten.native_dropout_backward.default,
             {"grad_output": x, "mask": torch.from_numpy(mask), "scale": 1 / 0.6}, [torch.from_numpy(y)], []),
    ])  # fmt: skip
    empty = {a.name: None for a in aten.randperm.default._schema.arguments}
    case = Written(Call(aten.randperm.default, {**empty, "n": 1000, "seed": SEED}, [torch.arange(1000)], []), 0)
    order = interpret(lower([case.text])[0][0], case.inputs)[0]
    assert sorted(order) == list(range(1000)) and list(order) != list(range(1000))


def test_multinomial():
    weights = torch.tensor([[0.0, 1.0, 3.0], [2.0, 0.0, 2.0]])
    func = torch.ops.aten.multinomial.default
    for replacement, samples in ((True, 20000), (False, 2)):
        given = {"self": weights, "num_samples": samples, "replacement": replacement, "generator": None, "seed": SEED}
        shape = torch.zeros(2, samples, dtype=torch.int64)
        case = Written(Call(func, given, [shape], []), 0)
        drawn = torch.from_numpy(interpret(lower([case.text])[0][0], case.inputs)[0])
        assert (weights.gather(1, drawn) > 0).all()
        if replacement:
            assert abs((drawn[0] == 2).double().mean() - 0.75) < 6 * (0.1875 / samples) ** 0.5
        else:
            assert (drawn[:, 0] != drawn[:, 1]).all()


# What training scripts call most; the sweep over all of OpInfo takes a minute and is run by hand.
OPINFO = [
    "add", "sub", "rsub", "mul", "div", "addcmul", "addcdiv", "lerp", "pow", "clamp", "where", "masked_fill", "atan2",
    "hypot", "logaddexp", "xlogy", "nan_to_num", "addmm", "baddbmm", "addbmm", "addmv", "addr", "mv", "dot", "bmm",
    "cat", "stack", "roll", "flip", "index_select", "index_fill", "index_copy", "take", "put", "asinh", "acosh",
    "atanh", "sinh", "cosh", "tan", "asin", "acos", "log2", "log10", "exp2", "rsqrt", "reciprocal", "arange",
    "linspace", "eye", "tril_indices", "searchsorted", "cummax", "kthvalue", "masked_scatter", "diagonal_scatter",
    "nn.functional.bilinear", "nn.functional.interpolate", "nn.functional.adaptive_avg_pool3d",
]  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.int64], ids=str)
def test_opinfo(dtype):
    from torch.testing._internal.common_methods_invocations import op_db

    capture = Capture(limit=5, numel=3000)
    for op in op_db:
        if op.name not in OPINFO or dtype not in op.supported_dtypes("cpu"):
            continue
        differentiable = op.supports_autograd and dtype.is_floating_point
        for count, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=differentiable)):
            if count == 8:
                break
            with capture:
                out = op(sample.input, *sample.args, **sample.kwargs)
                for value in torch.utils._pytree.tree_leaves(out):
                    if isinstance(value, torch.Tensor) and value.requires_grad:
                        value.backward(torch.randn_like(value), retain_graph=True)
    # Which of several equal elements is the k-th is not defined.
    calls = [c for c in capture.calls.values() if not (dtype == torch.int64 and "kthvalue" in str(c.func))]
    check([call for call in calls if drawn_free(call)])
