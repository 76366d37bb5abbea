# SPDX-License-Identifier: Apache-2.0
"""The modules of the corpus (see corpus.py), each small."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

CLASSES, WORDS = 3, 11


def mlp(*middle, inputs=6, hidden=5, outputs=CLASSES):
    return lambda: nn.Sequential(nn.Linear(inputs, hidden), *(make() for make in middle), nn.Linear(hidden, outputs))


relu = mlp(nn.ReLU)
scalar = mlp(nn.Tanh, outputs=1)


class Cnn(nn.Module):
    def __init__(self, norm=lambda channels: nn.GroupNorm(2, channels), head="avg", groups=1, stride=1, dilation=1):
        super().__init__()
        self.first = nn.Conv2d(1, 4, 3, padding=1, stride=stride)
        self.norm = norm(4)
        self.second = nn.Conv2d(4, 6, 3, padding=dilation, groups=groups, dilation=dilation)
        self.kind = head
        self.head = nn.LazyLinear(CLASSES) if head != "avg" else nn.Linear(6, CLASSES)
        if head != "avg":
            self(torch.zeros(2, 1, 8, 8))

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.first(x))), 2)
        x = F.relu(self.second(x))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1) if self.kind == "avg" else x.flatten(1))


class Conv1d(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv1d(3, 4, 2, stride=2, padding=1), nn.Linear(4, CLASSES)

    def forward(self, x):
        return self.head(torch.tanh(self.conv(x.transpose(1, 2))).mean(2))


class Deconv(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Conv2d(1, 3, 2, stride=2), nn.ConvTranspose2d(3, 1, 2, stride=2)

    def forward(self, x):
        return self.up(torch.tanh(self.down(x)))


class Block(nn.Module):
    def __init__(self, width, heads, fused, dropout):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.heads, self.fused, self.dropout = heads, fused, nn.Dropout(dropout)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(self.norm1(x)).split(c, dim=2))
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            mask = torch.ones(t, t, dtype=torch.bool, device=x.device).tril()
            scores = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).masked_fill(~mask, float("-inf"))
            y = self.dropout(scores.softmax(-1)) @ v
        x = x + self.dropout(self.out(y.transpose(1, 2).reshape(b, t, c)))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)))))


class Gpt(nn.Module):
    def __init__(self, fused=True, dropout=0.0, tied=False, layers=1, width=6):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, width), nn.Embedding(6, width)
        self.blocks = nn.ModuleList(Block(width, 2, fused, dropout) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, WORDS, bias=False)
        if tied:
            self.head.weight = self.words.weight

    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def next_word(model, x, y):
    return F.cross_entropy(model(x[:, :-1]).reshape(-1, WORDS), x[:, 1:].reshape(-1))


class WordRecurrent(nn.Module):
    """The next word at every moment: rows and moments lie in one dim before the last layer."""

    def __init__(self):
        super().__init__()
        self.words, self.cell = nn.Embedding(WORDS, 4), nn.LSTM(4, 5, batch_first=True)
        self.head = nn.Linear(5, WORDS)

    def forward(self, x):
        return self.head(self.cell(self.words(x))[0])


class Recurrent(nn.Module):
    def __init__(self, kind=nn.LSTM, batch_first=True, layers=1):
        super().__init__()
        self.rnn, self.head, self.first = (
            kind(3, 4, num_layers=layers, batch_first=batch_first),
            nn.Linear(4, CLASSES),
            batch_first,
        )

    def forward(self, x):
        y, _ = self.rnn(x if self.first else x.transpose(0, 1))
        return self.head(y[:, -1] if self.first else y[-1])


class Attention(nn.Module):
    """Attention with a learned query, and positions that are added."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.inputs, self.query, self.head = nn.Linear(3, 4), nn.Parameter(torch.randn(1, 1, 4)), nn.Linear(4, CLASSES)
        self.places = nn.Parameter(torch.randn(5, 4) * 0.1)

    def forward(self, x):
        x = self.inputs(x) + self.places
        y, _ = self.attention(self.query.expand(len(x), 1, 4), x, x, need_weights=False)
        return self.head(y[:, 0])


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.inputs = nn.Linear(3, 4)
        self.layer = nn.TransformerEncoderLayer(4, 2, 7, 0.0, "gelu", batch_first=True, norm_first=True)
        self.head = nn.Linear(4, CLASSES)

    def forward(self, x):
        return self.head(self.layer(self.inputs(x)).mean(1))


class Bag(nn.Module):
    """An embedding bag by hand."""

    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(WORDS, 5), nn.Linear(5, CLASSES)

    def forward(self, ids):
        return self.head(self.words(ids).mean(1))


class Shared(nn.Module):
    """One weight at two depths."""

    def __init__(self):
        super().__init__()
        self.inputs, self.middle, self.head = nn.Linear(6, 5), nn.Linear(5, 5), nn.Linear(5, CLASSES)

    def forward(self, x):
        x = torch.tanh(self.inputs(x))
        return self.head(torch.tanh(self.middle(torch.tanh(self.middle(x)))))


class Autoencoder(nn.Module):
    """Decodes with the transpose of the weight that encodes."""

    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(4, 6) * 0.3), nn.Parameter(torch.zeros(4) + 0.1)

    def forward(self, x):
        return torch.tanh(x @ self.weight.t() + self.bias) @ self.weight


class Gated(nn.Module):
    """Parameters that are multiplied, divided and normalised before use."""

    def __init__(self):
        super().__init__()
        self.linear = nn.utils.parametrizations.weight_norm(nn.Linear(6, 5))
        self.scale, self.head = nn.Parameter(torch.rand(5) + 0.5), nn.Linear(5, CLASSES)

    def forward(self, x):
        return self.head(F.silu(self.linear(x)) * self.scale)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.norm, self.head = (
            nn.Linear(6, 6),
            nn.Linear(6, 6, bias=False),
            nn.RMSNorm(6),
            nn.Linear(6, CLASSES),
        )

    def forward(self, x):
        return self.head(self.norm(x + self.b(F.leaky_relu(self.a(x)))))


class Bilinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.meet = nn.Bilinear(4, 4, CLASSES)

    def forward(self, x):
        return self.meet(x[:, 0], x[:, 1])


def frozen_batch_norm():
    model = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, CLASSES))
    model[1].eval()
    return model


class Standardised(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(6, CLASSES)

    def forward(self, x):
        return self.head((x - x.mean(0)) / (x.std(0) + 1e-3))


class SortedRows(Standardised):
    def forward(self, x):
        return self.head(x.sort(0).values)


class Neighbours(Standardised):
    def forward(self, x):
        return self.head(x + x.roll(1, 0))
