# SPDX-License-Identifier: Apache-2.0
"""Models of the zoo that read sequences: recurrent networks, transformers, tied embeddings."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn
from zoo_script_support import STEPS, Script


class Sequence(nn.Module):
    def __init__(self, kind, words=30, width=64):
        super().__init__()
        self.embed, self.net = nn.Embedding(words, width), kind(width, 96, num_layers=2, batch_first=True)
        self.head = nn.Linear(96, words)

    def forward(self, x):
        return self.head(self.net(self.embed(x))[0])


class Lstm(Script):
    kind = nn.LSTM

    def build(self):
        return Sequence(self.kind)

    def batch(self):
        text = (self.randint(30, 8, 1) + torch.arange(13) * self.randint(3, 8, 1)) % 30
        return text[:, :-1], text[:, 1:]

    def loss(self, x, y):
        return F.cross_entropy(self.model(x).flatten(0, 1), y.flatten())

    optimizer = staticmethod(lambda parameters: torch.optim.Adam(parameters, lr=3e-3))


class Gru(Lstm):
    kind = nn.GRU


class Tied(nn.Module):
    def __init__(self, words=400, width=128):
        super().__init__()
        self.embed, self.mix = nn.Embedding(words, width), nn.Linear(2 * width, width)
        self.more, self.head = nn.Linear(width, width), nn.Linear(width, words, bias=False)
        self.head.weight = self.embed.weight
        nn.init.normal_(self.embed.weight, std=0.1)

    def forward(self, x):
        return self.head(torch.tanh(self.more(torch.tanh(self.mix(self.embed(x).flatten(1))))))


class TiedEmbeddings(Script):
    optimizer = staticmethod(lambda parameters: torch.optim.AdamW(parameters, lr=3e-3))

    def build(self):
        return Tied()

    def batch(self):
        x = self.randint(400, 16, 2)
        return x, x.sum(1) % 400


class Seq2Seq(nn.Module):
    def __init__(self, words=20, width=48):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.position = nn.Parameter(torch.randn(12, width) * 0.1)
        self.net = nn.Transformer(width, 4, 2, 2, 112, dropout=0.0, batch_first=True)
        self.head = nn.Linear(width, words)

    def forward(self, source, target):
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1], device=source.device)
        place = lambda x: self.embed(x) + self.position[: x.shape[1]]
        padding = source == 0
        y = self.net(place(source), place(target), tgt_mask=mask.to(self.position.dtype), src_key_padding_mask=padding,
                     memory_key_padding_mask=padding)  # fmt: skip
        return self.head(y)


class TransformerScript(Script):
    """Encoder and decoder, with masks; every tenth step looks at a batch in eval mode."""

    def build(self):
        return Seq2Seq()

    def batch(self):
        source = 1 + self.randint(19, 8, 10)
        source[:, 8:] = 0
        return source, source.flip(1)

    def loss(self, source, target):
        return F.cross_entropy(self.model(source, target[:, :-1]).flatten(0, 1), target[:, 1:].flatten())

    def step(self, i):
        loss = super().step(i)
        if i % 10 == 9:
            self.model.eval()
            with torch.no_grad():
                self.loss(*(part.to(self.place) for part in self.data[1]))
            self.model.train()
        return loss


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).split(c, dim=2)
        q, k, v = (z.view(b, t, self.heads, c // self.heads).transpose(1, 2) for z in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).contiguous().view(b, t, c))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    def __init__(self, words=32, width=64, length=12):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks, self.norm = nn.ModuleList(GptBlock(width, 4) for _ in range(2)), nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, x):
        x = self.words(x) + self.places(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class GptScript(Lstm):
    """With warm-up, clipping and groups, as such models are trained."""

    def build(self):
        return Gpt()

    def make_optimizers(self):
        decays = [p for p in self.model.parameters() if p.dim() >= 2]
        others = [p for p in self.model.parameters() if p.dim() < 2]
        groups = [{"params": decays, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
        optimizer = torch.optim.AdamW(groups, lr=2e-3, betas=(0.9, 0.95))
        warm = lambda step: min(1.0, (step + 1) / 5) * (0.55 + 0.45 * math.cos(math.pi * step / STEPS))
        self.schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, warm)
        return [optimizer]

    def step(self, i):
        x, y = (part.to(self.place) for part in self.data[i % self.batches])
        (optimizer,) = self.optimizers
        loss = self.loss(x, y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        optimizer.step()
        self.schedule.step()
        return loss


class Checkpointed(GptScript):
    """Blocks recomputed in backward, gradients accumulated over two batches."""

    def step(self, i):
        (optimizer,) = self.optimizers
        total = 0
        for k in (2 * i, 2 * i + 1):
            x, y = (part.to(self.place) for part in self.data[k % self.batches])
            h = self.model.words(x) + self.model.places(torch.arange(x.shape[1], device=x.device))
            for block in self.model.blocks:
                h = torch.utils.checkpoint.checkpoint(block, h, use_reentrant=False)
            loss = F.cross_entropy(self.model.head(self.model.norm(h)).flatten(0, 1), y.flatten()) / 2
            loss.backward()
            total = total + loss.detach()
        optimizer.step()
        optimizer.zero_grad()
        self.schedule.step()
        return total
