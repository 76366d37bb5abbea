# SPDX-License-Identifier: Apache-2.0
"""A few steps of training through each layer, activation, loss and optimizer of torch.nn, against eager.

Values, gradients, buffers, parameters and optimizer state; one round trip per step, two programs.
What the owner cannot do is refused with a reason, and leaves optimizer and module as they were.
"""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from training_support import TOLERANCE, Meter, difference, state_of

import sojourn


def doubles(*shape):
    return lambda: torch.randn(*shape).double()


def words(*shape):
    return lambda: torch.randint(0, 7, shape)


class Apply(nn.Module):
    """A function of a module and its input."""

    def __init__(self, module, function):
        super().__init__()
        self.module, self.function = module, function

    def forward(self, x):
        return self.function(self.module, x)


first = lambda module: Apply(module, lambda m, x: m(x)[0])
after = lambda module, channels=1: nn.Sequential(nn.Conv2d(channels, 4, 1), module)
causal = lambda x: nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device, dtype=x.dtype)
attention = lambda **more: Apply(
    nn.MultiheadAttention(6, 2, batch_first=True), lambda m, x: m(x, x, x, attn_mask=causal(x), **more)[0]
)

LAYERS = {
    "gru": (lambda: first(nn.GRU(4, 5, 2)), doubles(3, 2, 4)),
    "rnn": (lambda: first(nn.RNN(4, 5)), doubles(3, 1, 4)),
    "lstm-both-ways": (lambda: first(nn.LSTM(4, 5, 2, bidirectional=True)), doubles(3, 2, 4)),
    "lstm-projected": (lambda: first(nn.LSTM(4, 5, proj_size=3)), doubles(3, 2, 4)),
    "lstm-cell": (lambda: first(nn.LSTMCell(4, 5)), doubles(3, 4)),
    "gru-cell": (lambda: nn.GRUCell(4, 5), doubles(3, 4)),
    "conv1d-groups": (lambda: nn.Conv1d(2, 4, 3, padding=1, groups=2), doubles(2, 2, 7)),
    "conv3d": (lambda: nn.Conv3d(1, 2, 2), doubles(2, 1, 4, 4, 3)),
    "conv-transpose": (
        lambda: nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1, output_padding=1),
        doubles(2, 2, 5, 5),
    ),
    "conv-depthwise": (lambda: nn.Conv2d(4, 8, 3, groups=4, dilation=2, padding=2), doubles(1, 4, 7, 7)),
    "conv-same": (lambda: nn.Conv2d(2, 3, 4, padding="same"), doubles(2, 2, 7, 7)),
    "conv-reflect": (lambda: nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect"), doubles(2, 2, 7, 7)),
    "conv-circular": (lambda: nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular"), doubles(2, 2, 7, 7)),
    "group-norm": (lambda: after(nn.GroupNorm(2, 4), 2), doubles(2, 2, 5, 5)),
    "instance-norm": (
        lambda: after(nn.InstanceNorm2d(4, affine=True, track_running_stats=True), 2),
        doubles(2, 2, 5, 5),
    ),
    "batch-norm-1d": (lambda: nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 2)), doubles(6, 4)),
    "batch-norm-3d": (lambda: nn.BatchNorm3d(2), doubles(2, 2, 3, 3, 3)),
    "layer-norm": (lambda: nn.LayerNorm((3, 4)), doubles(2, 3, 4)),
    "rms-norm": (lambda: nn.RMSNorm(4), doubles(2, 3, 4)),
    "response-norm": (lambda: after(nn.LocalResponseNorm(2), 2), doubles(2, 2, 5, 5)),
    "max-pool-ceil": (lambda: after(nn.MaxPool2d(3, 2, 1, ceil_mode=True)), doubles(2, 1, 8, 8)),
    "max-pool-dilated": (lambda: after(nn.MaxPool2d(2, 1, dilation=2)), doubles(2, 1, 7, 8)),
    "avg-pool-ceil": (
        lambda: after(nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False)),
        doubles(2, 1, 8, 8),
    ),
    "adaptive-max-pool": (lambda: after(nn.AdaptiveMaxPool2d(3)), doubles(2, 1, 8, 8)),
    "adaptive-avg-pool": (lambda: after(nn.AdaptiveAvgPool2d((3, 2))), doubles(2, 1, 8, 7)),
    "pool-1d": (lambda: nn.Sequential(nn.Conv1d(1, 2, 1), nn.MaxPool1d(2), nn.AvgPool1d(2)), doubles(2, 1, 8)),
    "pool-power": (lambda: after(nn.LPPool2d(2, 2)), doubles(2, 1, 8, 8)),
    "upsample-bilinear": (lambda: after(nn.Upsample(scale_factor=2, mode="bilinear")), doubles(2, 1, 4, 4)),
    "upsample-nearest": (lambda: after(nn.Upsample(scale_factor=2)), doubles(2, 1, 4, 4)),
    "pixel-shuffle": (lambda: after(nn.PixelShuffle(2)), doubles(2, 1, 4, 4)),
    "attention": (lambda: attention(need_weights=False), doubles(2, 5, 6)),
    "attention-weights": (lambda: attention(need_weights=True), doubles(2, 1, 6)),
    "attention-causal": (
        lambda: Apply(nn.Linear(6, 6), lambda m, x: F.scaled_dot_product_attention(m(x), x, x, is_causal=True)),
        doubles(2, 5, 6),
    ),
    "decoder": (
        lambda: Apply(nn.TransformerDecoderLayer(6, 2, 8, 0.0, batch_first=True), lambda m, x: m(x, x * 2)),
        doubles(2, 5, 6),
    ),
    "embedding-padding": (lambda: nn.Embedding(7, 4, padding_idx=1), words(3, 5)),
    "embedding-frequency": (lambda: nn.Embedding(7, 4, scale_grad_by_freq=True), words(3, 5)),
    "bilinear": (lambda: Apply(nn.Bilinear(4, 4, 3), lambda m, x: m(x, x.cos())), doubles(5, 4)),
    "weight-norm": (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(4, 5)), doubles(3, 4)),
    "spectral-norm": (lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(4, 5)), doubles(3, 4)),
}

ACTIVATIONS = {
    "CELU": (), "ELU": (), "GELU": (), "GLU": (), "Hardshrink": (), "Hardsigmoid": (), "Hardswish": (),
    "Hardtanh": (), "LeakyReLU": (), "LogSigmoid": (), "LogSoftmax": (-1,), "Mish": (), "PReLU": (), "ReLU6": (),
    "SELU": (), "SiLU": (), "Sigmoid": (), "Softmin": (-1,), "Softplus": (), "Softshrink": (), "Softsign": (),
    "Tanhshrink": (), "Threshold": (0.1, 0.2),
}  # fmt: skip
# Eager's kernels of these two hold 1/6 as a float32 even for float64 tensors.
LOOSE = {"Hardsigmoid": 1e-7, "Hardswish": 1e-7}

ones = lambda o, *shape: torch.ones(shape, dtype=o.dtype, device=o.device)
LOSSES = {
    "mse": lambda o, t: F.mse_loss(o, t),
    "l1": lambda o, t: F.l1_loss(o, t),
    "smooth-l1": lambda o, t: F.smooth_l1_loss(o, t),
    "huber": lambda o, t: F.huber_loss(o, t, delta=0.3),
    "bce-logits": lambda o, t: F.binary_cross_entropy_with_logits(o, (t > 0).to(o.dtype)),
    "bce": lambda o, t: F.binary_cross_entropy(o.sigmoid(), (t > 0).to(o.dtype)),
    "kl": lambda o, t: F.kl_div(o.log_softmax(1), t.softmax(1), reduction="batchmean"),
    "smoothed": lambda o, t: F.cross_entropy(o, t.argmax(1), label_smoothing=0.1),
    "weighted": lambda o, t: F.cross_entropy(o, t.argmax(1), weight=ones(o, o.shape[1]).cumsum(0)),
    "ignored": lambda o, t: F.cross_entropy(o, t.argmax(1) * (t[:, 0] > 0), ignore_index=0, reduction="sum"),
    "soft-labels": lambda o, t: F.cross_entropy(o, t.softmax(1)),
    "multi-margin": lambda o, t: F.multi_margin_loss(o, t.argmax(1)),
    "cosine": lambda o, t: F.cosine_embedding_loss(o, t, ones(o, o.shape[0])),
    "triplet": lambda o, t: F.triplet_margin_loss(o, t + 1, t - 1),
    "poisson": lambda o, t: F.poisson_nll_loss(o, t.abs()),
    "soft-margin": lambda o, t: F.soft_margin_loss(o, t.sign()),
    "ranking": lambda o, t: F.margin_ranking_loss(o, t, t.sign()),
}

OPTIMIZERS = {
    "RMSprop": {"lr": 0.01, "momentum": 0.5, "centered": True},
    "Adagrad": {"lr": 0.01},
    "Adamax": {"lr": 0.01},
    "NAdam": {"lr": 0.01},
    "RAdam": {"lr": 0.01},
    "Adadelta": {"lr": 0.1},
    "Rprop": {"lr": 0.01},
    "Adam amsgrad": {"lr": 0.01, "amsgrad": True},
    "Adam maximize": {"lr": 0.01, "maximize": True},
    "SGD nesterov": {"lr": 0.01, "momentum": 0.9, "nesterov": True},
}
FUSED = {"Adam": {"lr": 0.01}, "AdamW": {"lr": 0.01, "amsgrad": True}, "SGD": {"lr": 0.01, "momentum": 0.9}}


def weighted_square(out):
    """A loss under which no gradient cancels."""
    weight = torch.arange(1, out.numel() + 1, dtype=out.dtype, device=out.device)
    return (out.square() * weight.reshape(out.shape)).mean()


def assert_trains(make_module, make_input, make_optimizer, loss, counted, tolerance=TOLERANCE):
    module, batch = make_module().double(), make_input()
    twin, results = copy.deepcopy(module), []
    for net, meter in ((module, Meter()), (twin, Meter(counted))):
        optimizer = make_optimizer(net.parameters())
        meter.move(net, optimizer)

        def step(x):
            optimizer.zero_grad()
            value = loss(net(x), x)
            value.backward()
            gradients = {name: p.grad for name, p in net.named_parameters()}
            optimizer.step()
            return sojourn.publish({"loss": value} | gradients)

        step = meter.step(step)
        run = {f"step {index} {k}": v for index in range(4) for k, v in step(batch).value.items()}
        results.append(run | sojourn.publish(state_of(net, optimizer)))
    meter.assert_steady(programs=2)
    assert results[0].keys() == results[1].keys()
    for name, expected in results[0].items():
        allowed = tolerance * max(1.0, float(expected.detach().abs().max()))
        assert difference(results[1][name].detach(), expected.detach()) <= allowed, name


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)


BOTH = pytest.mark.parametrize("kind", ["embedded", pytest.param("numpy", marks=pytest.mark.slow)])


@BOTH
@pytest.mark.parametrize("layer", LAYERS)
def test_layer(layer, kind, make_owner, seed):
    make_module, make_input = LAYERS[layer]
    assert_trains(make_module, make_input, sgd, lambda out, x: weighted_square(out), make_owner(kind))


@BOTH
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation(name, kind, make_owner, seed):
    make = lambda: nn.Sequential(nn.Linear(4, 6), getattr(nn, name)(*ACTIVATIONS[name]))
    loss = lambda out, x: weighted_square(out)
    assert_trains(make, doubles(3, 4), sgd, loss, make_owner(kind), LOOSE.get(name, TOLERANCE))


@BOTH
@pytest.mark.parametrize("loss", LOSSES)
def test_loss(loss, kind, make_owner, seed):
    assert_trains(lambda: nn.Linear(5, 5), doubles(7, 5), sgd, LOSSES[loss], make_owner(kind))


def network():
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))


@BOTH
@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer(name, foreach, kind, make_owner, seed):
    make = lambda parameters: getattr(torch.optim, name.split()[0])(parameters, foreach=foreach, **OPTIMIZERS[name])
    assert_trains(network, doubles(5, 4), make, lambda out, x: weighted_square(out), make_owner(kind))


@BOTH
@pytest.mark.parametrize("name", FUSED)
def test_fused_optimizer(name, kind, make_owner, seed):
    make = lambda parameters: getattr(torch.optim, name)(parameters, fused=True, **FUSED[name])
    assert_trains(network, doubles(5, 4), make, lambda out, x: weighted_square(out), make_owner(kind))


def test_learning_rate_in_a_tensor(embedded, seed):
    make = lambda parameters: torch.optim.Adam(parameters, lr=torch.tensor(0.01, dtype=torch.float64))
    assert_trains(network, doubles(5, 4), make, lambda out, x: weighted_square(out), embedded)


def test_refused_optimizer(embedded, seed):
    """It reads values in Python: refused at the line, with nothing sent and nothing changed."""
    module = network().double()
    optimizer = torch.optim.LBFGS(module.parameters())
    sojourn.to_owner(module, embedded.owner, optimizer)
    x = torch.randn(5, 4).double().to(embedded.device)
    before, requests = sojourn.publish(module.state_dict()), embedded.requests()

    def closure():
        optimizer.zero_grad()
        loss = module(x).square().mean()
        loss.backward()
        return loss

    with pytest.raises((sojourn.ValueNeeded, sojourn.Unsupported), match="test_training_layers.py"):
        with sojourn.step():
            closure()
            optimizer.step(closure)
    assert embedded.requests() == requests
    assert all(torch.equal(value, before[key]) for key, value in sojourn.publish(module.state_dict()).items())
    assert not any(optimizer.state.values())
