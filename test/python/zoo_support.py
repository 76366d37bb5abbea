# SPDX-License-Identifier: Apache-2.0
"""The zoo: well-known models and the scripts that train them, ordinary PyTorch throughout.

A script is made for a place (a device) and a dtype, and knows of nothing else: `step(i)` trains once and returns the
loss. What it draws comes from CPU generators of its own, so that runs at two places see the same numbers.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn
from zoo_script_support import STEPS, Script
from zoo_sequences_support import Checkpointed, GptScript, Gru, Lstm, TiedEmbeddings, TransformerScript

__all__ = ["RANDOM", "STEPS", "ZOO", "Script"]


class Mlp(Script):
    def build(self):
        return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 320), nn.GELU(), nn.Linear(320, 10))

    def batch(self):
        return self.randn(16, 64), self.randint(10, 16)


class Cnn(Script):
    """BatchNorm, max, average and adaptive pooling, depthwise and transposed convolutions."""

    def build(self):
        def block(before, after, pool):
            depthwise = nn.Conv2d(before, before, 3, padding=1, groups=before, bias=False)
            return nn.Sequential(depthwise, nn.Conv2d(before, after, 1), nn.BatchNorm2d(after), nn.ReLU(), pool)

        return nn.Sequential(
            nn.Conv2d(3, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2), block(24, 64, nn.AvgPool2d(2)),
            nn.ConvTranspose2d(64, 64, 4, stride=2, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
            block(64, 404, nn.MaxPool2d(3, 2, 1)), nn.AdaptiveAvgPool2d(1), nn.Flatten(), self.regular(), nn.Linear(404, 10),
        )  # fmt: skip

    def regular(self):
        return nn.Dropout(0.0)

    def batch(self):
        return self.images(3, 16)


class CnnDropout(Cnn):
    """The same with dropout that draws: other draws than on the CPU."""

    def regular(self):
        return nn.Dropout(0.2)


class Residual(nn.Module):
    def __init__(self, before, after, stride=1):
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(after), nn.BatchNorm2d(after)
        self.second = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.short = nn.Sequential()
        if stride != 1 or before != after:
            self.short = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x):
        y = self.norm2(self.second(F.relu(self.norm1(self.first(x)), inplace=True)))
        y += self.short(x)
        return F.relu(y, inplace=True)


class ResNet(Script):
    """Every fifth step looks at a batch in eval mode, too."""

    def build(self):
        return nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True), Residual(16, 16),
            Residual(16, 48, 2), Residual(48, 64, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
        )  # fmt: skip

    def batch(self):
        return self.images(3, 12)

    def step(self, i):
        loss = super().step(i)
        if i % 5 == 4:
            self.model.eval()
            with torch.no_grad():
                x, y = (part.to(self.place) for part in self.data[0])
                loss = loss.detach() + 0 * self.loss(x, y)
            self.model.train()
        return loss


class UNet(nn.Module):
    def __init__(self, channels=3, width=16, out=1, learned=True, bilinear=True):
        super().__init__()
        conv = lambda a, b: nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU())
        self.down1, self.down2, self.down3 = conv(channels, width), conv(width, 2 * width), conv(2 * width, 4 * width)
        self.up1 = nn.ConvTranspose2d(4 * width, 2 * width, 2, 2)
        self.up2 = nn.Upsample(scale_factor=2, mode="bilinear" if bilinear else "nearest")
        self.merge1, self.merge2 = conv(4 * width, 2 * width), conv(3 * width, width)
        self.head = nn.Conv2d(width, out, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.down3(F.max_pool2d(b, 2))
        b = self.merge1(torch.cat([self.up1(c), b], 1))
        return self.head(self.merge2(torch.cat([self.up2(b), a], 1)))


class UNetScript(Script):
    def build(self):
        return UNet(width=22)

    def batch(self):
        x = self.randn(4, 3, 16, 16)
        return x, (x.mean(1, keepdim=True) > 0).to(self.dtype)

    def loss(self, x, y):
        return F.binary_cross_entropy_with_logits(self.model(x), y)


class Bags(Script):
    optimizer = staticmethod(lambda parameters: torch.optim.Adagrad(parameters, lr=0.1))

    def build(self):
        return nn.ModuleList([nn.EmbeddingBag(1000, 96, mode="mean"), nn.Linear(96, 96), nn.Linear(96, 4)])

    def batch(self):
        words = self.randint(1000, 60)
        offsets = torch.arange(0, 60, 5)
        return words, offsets, words[offsets] % 4

    def loss(self, words, offsets, y):
        bag, middle, head = self.model
        return F.cross_entropy(head(F.relu(middle(bag(words, offsets)))), y)


class Vit(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.token, self.place = nn.Parameter(torch.zeros(1, 1, width)), nn.Parameter(torch.randn(1, 17, width) * 0.02)
        layer = nn.TransformerEncoderLayer(
            width, 4, 128, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.place
        return self.head(self.encoder(x)[:, 0])


class VitScript(Script):
    def build(self):
        return Vit()

    def batch(self):
        return self.images(3, 16)


class Vae(Script):
    def build(self):
        encode = nn.Sequential(nn.Linear(100, 256), nn.ReLU(), nn.Linear(256, 2 * 16))
        decode = nn.Sequential(nn.Linear(16, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 100))
        return nn.ModuleList([encode, decode])

    def batch(self):
        x = (self.randn(16, 3) @ self.randn(3, 100)).sigmoid()
        return x, self.randn(16, 16)

    def loss(self, x, noise):
        encode, decode = self.model
        mean, log = encode(x).chunk(2, dim=1)
        y = decode(mean + noise * torch.exp(0.5 * log))
        divergence = -0.5 * (1 + log - mean.pow(2) - log.exp()).sum(1).mean()
        return F.mse_loss(y, x, reduction="sum") / len(x) + 0.01 * divergence


class Gan(Script):
    """Two optimizers, a detached sample, and real against false; what falls is how far the means are apart."""

    def build(self):
        generator = nn.Sequential(nn.Linear(16, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 8))
        critic = nn.Sequential(
            nn.Linear(8, 256), nn.LeakyReLU(0.2), nn.Linear(256, 128), nn.LeakyReLU(0.2), nn.Linear(128, 1)
        )
        return nn.ModuleList([generator, critic])

    def make_optimizers(self):
        return [torch.optim.Adam(part.parameters(), lr=1e-3, betas=(0.5, 0.999)) for part in self.model]

    def batch(self):
        return self.randn(32, 8) * 0.1 + 2.0, self.randn(32, 16)

    def step(self, i):
        real, noise = (part.to(self.place) for part in self.data[i % self.batches])
        generator, critic = self.model
        for_generator, for_critic = self.optimizers
        ones, zeros = (
            torch.ones(32, 1, device=self.place, dtype=self.dtype),
            torch.zeros(32, 1, device=self.place, dtype=self.dtype),
        )
        made = generator(noise)
        for_critic.zero_grad()
        loss = F.binary_cross_entropy_with_logits(critic(real), ones)
        loss = loss + F.binary_cross_entropy_with_logits(critic(made.detach()), zeros)
        loss.backward()
        for_critic.step()
        for_generator.zero_grad()
        F.binary_cross_entropy_with_logits(critic(made), ones).backward()
        for_generator.step()
        return (made.mean(0) - real.mean(0)).square().mean()


class Siamese(Script):
    def build(self):
        return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 320), nn.ReLU(), nn.Linear(320, 32))

    def batch(self):
        anchor = self.randn(16, 64)
        return anchor, anchor + 0.3 * self.randn(16, 64), self.randn(16, 64)

    def loss(self, anchor, positive, negative):
        return F.triplet_margin_loss(*(F.normalize(self.model(x)) for x in (anchor, positive, negative)), margin=1.0)


class Graph(nn.Module):
    """Messages along edges: gathered, transformed, scattered and averaged."""

    def __init__(self, width=96):
        super().__init__()
        self.enter = nn.Linear(16, width)
        self.messages = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(3))
        self.updates = nn.ModuleList(nn.GRUCell(width, width) for _ in range(3))
        self.head = nn.Linear(width, 5)

    def forward(self, x, edges):
        source, target = edges
        h = torch.relu(self.enter(x))
        degree = torch.zeros(len(x), device=x.device, dtype=x.dtype).index_add(
            0, target, torch.ones_like(target, dtype=x.dtype)
        )
        for message, update in zip(self.messages, self.updates):
            m = torch.relu(message(torch.cat([h[source], h.index_select(0, target)], 1)))
            gathered = torch.zeros_like(h).scatter_add_(0, target[:, None].expand_as(m), m)
            h = update(gathered / degree.clamp(min=1)[:, None], h)
        return self.head(h)


class GraphScript(Script):
    optimizer = staticmethod(lambda parameters: torch.optim.Adam(parameters, lr=3e-3))

    def build(self):
        return Graph()

    def batch(self):
        return self.randn(30, 16), self.randint(30, 2, 90), self.randint(5, 30)

    def loss(self, x, edges, y):
        return F.cross_entropy(self.model(x, edges), y)


class Denoiser(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(32, width), nn.SiLU(), nn.Linear(width, 2 * width))
        self.enter, self.down = nn.Conv2d(1, width, 3, padding=1), nn.Conv2d(width, 2 * width, 3, 2, 1)
        self.middle = nn.Sequential(
            nn.GroupNorm(8, 2 * width), nn.SiLU(), nn.Conv2d(2 * width, 2 * width, 3, padding=1)
        )
        self.more = nn.Sequential(nn.GroupNorm(8, 2 * width), nn.SiLU(), nn.Conv2d(2 * width, 2 * width, 3, padding=1))
        self.up, self.out = nn.Conv2d(2 * width, width, 3, padding=1), nn.Conv2d(2 * width, 1, 3, padding=1)
        self.attend = nn.MultiheadAttention(2 * width, 4, batch_first=True)

    def forward(self, x, t):
        rates = torch.exp(-math.log(1e4) * torch.arange(16, device=x.device, dtype=x.dtype) / 16)
        angles = t[:, None].to(x.dtype) * rates
        time = self.time(torch.cat([angles.sin(), angles.cos()], 1))
        a = self.enter(x)
        b = self.down(F.silu(a)) + time[:, :, None, None]
        b = b + self.middle(b)
        flat = b.flatten(2).transpose(1, 2)
        b = b + self.attend(flat, flat, flat, need_weights=False)[0].transpose(1, 2).view_as(b)
        b = b + self.more(b)
        up = F.interpolate(self.up(b), scale_factor=2, mode="nearest")
        return self.out(F.silu(torch.cat([up, a], 1)))


class Diffusion(Script):
    """Noise is predicted; the weights' average is kept beside them."""

    optimizer = staticmethod(lambda parameters: torch.optim.AdamW(parameters, lr=2e-3))
    batches = 1

    def build(self):
        self.betas = torch.linspace(1e-4, 0.02, 100, dtype=self.dtype)
        return Denoiser()

    def prepare(self):
        self.average = torch.optim.swa_utils.AveragedModel(
            self.model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
        )

    def batch(self):
        return self.randn(4, 1, 8, 8), self.randn(4, 1, 8, 8), self.randint(100, 4)

    def loss(self, x, noise, t):
        kept = torch.cumprod(1 - self.betas.to(self.place), 0)[t][:, None, None, None]
        return F.mse_loss(self.model(kept.sqrt() * x + (1 - kept).sqrt() * noise, t), noise)

    def step(self, i):
        loss = super().step(i)
        self.average.update_parameters(self.model)
        return loss

    def state(self):
        return super().state() | {f"average {name}": value for name, value in self.average.state_dict().items()}


class Norms(Script):
    """GroupNorm, InstanceNorm, LayerNorm, weight norm and spectral norm."""

    optimizer = staticmethod(lambda parameters: torch.optim.RMSprop(parameters, lr=1e-3))

    def build(self):
        weight = torch.nn.utils.parametrizations.weight_norm
        spectral = torch.nn.utils.parametrizations.spectral_norm
        return nn.Sequential(
            weight(nn.Conv2d(3, 32, 3, padding=1)), nn.GroupNorm(8, 32), nn.ReLU(), nn.AvgPool2d(2),
            spectral(nn.Conv2d(32, 64, 3, padding=1)), nn.InstanceNorm2d(64, affine=True), nn.ReLU(), nn.AvgPool2d(2),
            nn.Flatten(), weight(nn.Linear(64 * 9, 144)), nn.LayerNorm(144), nn.Tanh(), nn.Linear(144, 10),
        )  # fmt: skip

    def batch(self):
        return self.images(3, 12)


class Penalty(Script):
    """A gradient penalty: the gradient of a gradient."""

    def build(self):
        return nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 336), nn.Softplus(), nn.Linear(336, 1))

    def batch(self):
        x = self.randn(16, 64)
        return x, x[:, :1] + x[:, 1:2]

    def loss(self, x, y):
        x = x.requires_grad_()
        out = self.model(x)
        (slope,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        return F.mse_loss(out, y) + 0.1 * (slope.norm(dim=1) - 1).square().mean()


class Functional(Script):
    """Gradients per sample by torch.func, averaged by hand."""

    optimizer = staticmethod(lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, nesterov=True))

    def build(self):
        return nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 320), nn.Tanh(), nn.Linear(320, 10))

    def batch(self):
        return self.randn(8, 64), self.randint(10, 8)

    def step(self, i):
        x, y = (part.to(self.place) for part in self.data[i % self.batches])
        parameters = {name: p.detach() for name, p in self.model.named_parameters()}

        def loss_of(parameters, x, y):
            out = torch.func.functional_call(self.model, parameters, (x[None],))
            return F.cross_entropy(out, y[None])

        each, losses = torch.func.vmap(torch.func.grad_and_value(loss_of), in_dims=(None, 0, 0))(parameters, x, y)
        for name, p in self.model.named_parameters():
            p.grad = each[name].mean(0)
        self.optimizers[0].step()
        return losses.mean()


ZOO = {
    "MLP": Mlp, "CNN": Cnn, "CNN with dropout": CnnDropout, "ResNet": ResNet, "U-Net": UNetScript, "LSTM": Lstm, "GRU": Gru,
    "tied embeddings": TiedEmbeddings, "EmbeddingBag": Bags, "nn.Transformer": TransformerScript, "GPT": GptScript,
    "ViT": VitScript, "VAE": Vae, "GAN": Gan, "siamese": Siamese, "graph network": GraphScript, "diffusion": Diffusion,
    "norms": Norms, "gradient penalty": Penalty, "GPT, checkpointed": Checkpointed, "torch.func": Functional,
}  # fmt: skip
#: What these draw differs from place to place: their losses fall alike, no more.
RANDOM = {"CNN with dropout"}
