# SPDX-License-Identifier: Apache-2.0
"""Models and optimizers whose recorded steps are looked at phase by phase."""

import copy

import torch
import torch.nn.functional as F
from torch import nn

import _sojourn
import sojourn


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 4, num_layers=2, batch_first=True)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


class Convolutional(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(2, 3, 3, padding=1),
            nn.BatchNorm2d(3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(3, 4, 2, stride=2),
            nn.ReLU(),
        )
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(7, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True, activation="gelu")
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.layer(self.embedding(x)).mean(1))


class Aliases(nn.Module):
    """Views written through views, seen by their base and their siblings, all under autograd."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 6))
        self.register_buffer("seen", torch.zeros(4, 6))

    def forward(self, x):
        y = x @ self.weight
        base = y.clone()
        base[1:3, ::2] = base[0:2, 1::2].clone() * 2
        first, second = base.narrow(1, 0, 3), base.narrow(1, 3, 3)
        first.mul_(second.clone())
        base.diagonal().add_(1)
        base.t()[2].sub_(0.5)
        base[[0, 2]] = base[[2, 0]].clone()
        base[base.shape[0] - 1].copy_(second.sum(1)[:1].expand(6))
        windows = base.unfold(1, 3, 1).sum((1, 2))
        tiles = base.unfold(1, 2, 2).sum((1, 2))
        left, right = base.chunk(2, 1)
        strided = (left * right).sum() + base.as_strided((2, 3), (6, 2), 1).sum()
        with torch.no_grad():
            self.seen[1:].add_(self.weight.detach()[:3])
            self.seen.t()[0].fill_(3)
            torch.add(self.seen[0], 1, out=self.seen[0])
        flat = base.reshape(-1).view(3, -1)
        return torch.stack([windows, tiles, flat.sum().expand(len(windows)) + strided], 1)


MODELS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 3)), lambda n: torch.randn(n, 5).double()),
    "cnn": (Convolutional, lambda n: torch.randn(n, 2, 9, 9).double()),
    "lstm": (Recurrent, lambda n: torch.randn(n, 4, 3).double()),
    "cnn_channels_last": (
        lambda: Convolutional().to(memory_format=torch.channels_last),
        lambda n: torch.randn(n, 2, 9, 9).double().to(memory_format=torch.channels_last),
    ),
    "transformer": (Attention, lambda n: torch.randint(0, 7, (n, 5))),
    "aliases": (Aliases, lambda n: torch.randn(4, 4).double()),
}
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, foreach=False),
    "adamw_foreach": lambda p: torch.optim.AdamW(p, lr=0.01, foreach=True, amsgrad=True),
    "adam_fused": lambda p: torch.optim.Adam(p, lr=0.01, fused=True),
    "sgd_fused": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01, fused=True),
    "adagrad": lambda p: torch.optim.Adagrad(p),
    "rmsprop": lambda p: torch.optim.RMSprop(p, momentum=0.9),
}


def texts_of(model, optimizer, x, y):
    """Texts of the steady step by phase."""
    with sojourn.local() as owner:
        model = copy.deepcopy(model)
        optimizer = OPTIMIZERS[optimizer](model.parameters())
        sojourn.to_owner(model, owner, optimizer)
        sojourn.flush()

        @sojourn.step
        def step(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        remote = x.to(owner.device), y.to(owner.device)
        step(*remote)
        texts = {}
        _sojourn.set_phase_listener(texts.__setitem__)
        try:
            step(*remote)
        finally:
            _sojourn.set_phase_listener(None)
        return texts


PAIRS = [(name, o) for name in MODELS for o in OPTIMIZERS if name == "mlp" or o in ("sgd", "adam", "adam_fused")]
