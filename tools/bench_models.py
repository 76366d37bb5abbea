# SPDX-License-Identifier: Apache-2.0
"""The networks that tools/bench trains, their batches and optimizers, and a lower bound of a step's time.

`roofline_us` divides the multiplications of a step by this machine's fastest matrix product. It divides the bytes that
every order of work must move (parameters, gradients, moments, each kept activation) by its fastest copy. The result is
a lower bound, not a promise.
"""

import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode


def perceptron(*sizes):
    layers = []
    for inner, outer in zip(sizes, sizes[1:]):
        layers += [nn.Linear(inner, outer), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def convolutional():
    layers = []
    for inner, outer in ((3, 32), (32, 64), (64, 64)):
        layers += [nn.Conv2d(inner, outer, 3, padding=1), nn.BatchNorm2d(outer), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 4 * 4, 10))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.back = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        rows, length, width = x.shape
        parts = self.qkv(self.norms[0](x)).view(rows, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(rows, length, width))
        return x + self.back(F.gelu(self.wide(self.norms[1](x))))


class Transformer(nn.Module):
    def __init__(self, words=1000, length=64, width=128, heads=4, layers=4):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, x):
        places = self.places(torch.arange(x.shape[1], device=x.device))
        return self.head(self.norm(self.blocks(self.words(x) + places))).flatten(0, 1)


class Recurrent(nn.Module):
    def __init__(self, width=128, layers=2, classes=10):
        super().__init__()
        self.lstm, self.head = nn.LSTM(width, width, layers, batch_first=True), nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


class Residual(nn.Module):
    """Two convolutions and a shortcut, which a convolution of single pixels brings to another size."""

    def __init__(self, inner, outer, stride):
        super().__init__()
        self.first = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(outer) for _ in range(2))
        self.shortcut = nn.Sequential()
        if stride > 1 or inner != outer:
            self.shortcut = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))

    def forward(self, x):
        inside = F.relu(self.norms[0](self.first(x)))
        return F.relu(self.norms[1](self.second(inside)) + self.shortcut(x))


def residual():
    stem = [nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    blocks = [Residual(*block) for block in ((16, 16, 1), (16, 32, 2), (32, 32, 1), (32, 64, 2))]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


class VisionTransformer(nn.Module):
    def __init__(self, size=32, patch=4, width=128, heads=4, layers=4, classes=10):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, width) / 50)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width), enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        patches = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(len(x), -1, -1), patches], 1) + self.places
        return self.head(self.encoder(x)[:, 0])


class Tables(nn.Module):
    """Categories in a table of embeddings each, beside numbers, as models of clicks and of records have them."""

    def __init__(self, sizes=(1000, 5000, 200, 20000), numbers=13, width=32):
        super().__init__()
        self.numbers = numbers
        self.tables = nn.ModuleList(nn.Embedding(size, width) for size in sizes)
        self.head = perceptron(len(sizes) * width + numbers, 128, 64, 2)

    def forward(self, x):
        found = [table(x[:, self.numbers + i].long()) for i, table in enumerate(self.tables)]
        return self.head(torch.cat([x[:, : self.numbers], *found], 1))


def records(batch, generator, sizes=(1000, 5000, 200, 20000), numbers=13):
    categories = [torch.randint(size, (batch, 1), generator=generator) for size in sizes]
    x = torch.cat([torch.randn(batch, numbers, generator=generator), *categories], 1)
    return x, torch.randint(2, (batch,), generator=generator)


def adam(model):
    return torch.optim.Adam(model.parameters())


def adamw(model):
    return torch.optim.AdamW(model.parameters())


class Case:
    """A network, its optimizer, its batches of (x, y), and their name."""

    def __init__(self, network, batch, make, inputs, optimizer=adam):
        self.network, self.batch, self.make, self.inputs, self.optimizer = network, batch, make, inputs, optimizer
        self.name = f"{network}/{batch}"

    def model(self):
        torch.manual_seed(0)
        return self.make()

    def data(self):
        return self.inputs(self.batch, torch.Generator().manual_seed(1))


def rows(classes, *shape):
    return lambda batch, generator: (
        torch.randn(batch, *shape, generator=generator),
        torch.randint(classes, (batch,), generator=generator),
    )


def tokens(batch, generator, words=1000, length=64):
    text = torch.randint(words, (batch, length + 1), generator=generator)
    return text[:, :-1].contiguous(), text[:, 1:].flatten()


def plain(sizes, batch):
    return Case("-".join(map(str, sizes)), batch, lambda: perceptron(*sizes), rows(sizes[-1], sizes[0]))


CASES = {
    case.name: case
    for case in (
        *(plain(sizes, batch) for sizes in ((784, 256, 256, 10), (30, 64, 2)) for batch in (64, 512)),
        Case("cnn", 64, convolutional, rows(10, 3, 32, 32)),
        Case("gpt", 8, Transformer, tokens, adamw),
        Case("lstm", 32, Recurrent, rows(10, 32, 128)),
        Case("residual", 32, residual, rows(10, 3, 32, 32)),
        Case("vit", 8, VisionTransformer, rows(10, 3, 32, 32), adamw),
        Case("tables", 256, Tables, records),
    )
}


def peaks():
    """Bytes per second of a copy larger than the caches, and operations per second of a product of f32."""
    source, target = torch.ones(1 << 26), torch.empty(1 << 26)
    left, right, out = torch.ones(1536, 1536), torch.ones(1536, 1536), torch.empty(1536, 1536)

    def best(work):
        def once():
            begin = time.perf_counter()
            work()
            return time.perf_counter() - begin

        return min(once() for _ in range(7))

    seconds = best(lambda: target.copy_(source)), best(lambda: torch.mm(left, right, out=out))
    return {"bytes_s": 2 * source.nbytes / seconds[0], "flops_s": 2 * 1536**3 / seconds[1]}


def needs(case):
    """Operations of a step's products and convolutions, and the bytes that it must move.

    An optimizer reads gradient, parameter and two moments and writes three of them back; the gradient was written
    before. A layer's output is written, read by the next layer, and read once more in the backward pass, where its
    gradient is written and read.
    """
    model = case.model()
    x, y = case.data()
    moved = 0

    def count(module, arguments, result):
        nonlocal moved
        moved += 5 * (result[0] if isinstance(result, tuple) else result).nbytes

    for module in model.modules():
        if not list(module.children()):
            module.register_forward_hook(count)
    counter = FlopCounterMode(display=False)
    with counter:
        F.cross_entropy(model(x), y).backward()
    moved += 8 * sum(parameter.nbytes for parameter in model.parameters())
    flops = counter.get_total_flops()
    if case.network == "lstm":  # one call that the counter does not look into
        lstm = model.lstm
        flops += 3 * 2 * x.shape[0] * x.shape[1] * sum(w.numel() for w in lstm.parameters() if w.dim() == 2)
    return {"flops": flops, "bytes": moved}


def roofline_us(need, peak):
    return max(need["flops"] / peak["flops_s"], need["bytes"] / peak["bytes_s"]) * 1e6
