# SPDX-License-Identifier: Apache-2.0
"""Goal: no phase changes what a trace means.

Method: record training steps of the four kinds of network in a process of its own, which dumps every phase. Then
replay each phase here on the same made-up inputs (phases.py) and compare the results: captured form on real storages
with views and in-place calls, functional and promoted form on values, core form with the NumPy kernels. Float64."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

ROOT = Path(__file__).resolve().parents[2]
PHASES = ("captured", "functional", "promoted", "decomposed", "core")


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.lstm, self.head = nn.Embedding(5, 4), nn.LSTM(4, 3, 2, batch_first=True), nn.Linear(3, 3)

    def forward(self, x):
        return self.head(self.lstm(self.embedding(x))[0][:, -1])


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
        self.embedding, self.encoder, self.head = nn.Embedding(5, 4), nn.TransformerEncoder(layer, 1), nn.Linear(4, 3)

    def forward(self, x):
        return self.head(self.encoder(self.embedding(x)).mean(1))


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
    "mlp": (lambda: nn.Sequential(nn.Linear(6, 5), nn.GELU(), nn.LayerNorm(5), nn.Linear(5, 3)), (4, 6)),
    "cnn": (lambda: nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2),
                                  nn.Conv2d(3, 4, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)),
            (4, 2, 6, 6)),
    "cnn_channels_last": (lambda: MODELS["cnn"][0]().to(memory_format=torch.channels_last), (4, 2, 6, 6)),
    "lstm": (Recurrent, None),
    "transformer": (Attention, None),
    "aliases": (Aliases, (4, 4)),
}  # fmt: skip
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda p: torch.optim.Adam(p, foreach=False),
    "adamw_foreach": lambda p: torch.optim.AdamW(p, foreach=True, amsgrad=True),
    "adam_fused": lambda p: torch.optim.Adam(p, fused=True),
    "adagrad": lambda p: torch.optim.Adagrad(p),
    "rmsprop": lambda p: torch.optim.RMSprop(p, momentum=0.9),
}  # fmt: skip


def record(model_name: str, optimizer_name: str) -> None:
    import sojourn

    torch.manual_seed(0)
    make, shape = MODELS[model_name]
    owner, model = sojourn.local(), make().double()
    optimizer = OPTIMIZERS[optimizer_name](model.parameters())
    sojourn.to_owner(model, owner, optimizer)

    @sojourn.step
    def train(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    for _ in range(2):
        x = torch.randn(shape, dtype=torch.float64) if shape else torch.randint(0, 5, (4, 3))
        if model_name == "cnn_channels_last":
            x = x.to(memory_format=torch.channels_last)
        train(x.to(owner.device), torch.randint(0, 3, (4,)).to(owner.device))


def find(folder: Path, phase: str) -> Path:
    return sorted(folder.glob(f"*{phase}.mlir"))[-1]


def same(got, expected, where: str) -> None:
    assert got.shape == expected.shape, where
    if expected.dtype.is_floating_point:
        torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-11, equal_nan=True, msg=lambda m: f"{where}: {m}")
    else:
        assert torch.equal(got, expected), where


QUICK = [("mlp", "adamw_foreach"), ("cnn", "sgd"), ("cnn_channels_last", "adam_fused"), ("lstm", "adam_fused"),
         ("transformer", "sgd"), ("aliases", "adam")]  # fmt: skip
REST = [("mlp", o) for o in OPTIMIZERS if o != "adamw_foreach"] + [("aliases", "adam_fused"), ("lstm", "sgd")]


@pytest.mark.parametrize(("model", "optimizer"), QUICK + [pytest.param(*pair, marks=pytest.mark.slow) for pair in REST])
def test_phases_agree(model, optimizer, tmp_path):
    import phases

    environment = dict(os.environ, SOJOURN_DUMP=str(tmp_path), PYTHONPATH=str(ROOT / "build/python"))
    subprocess.run([sys.executable, __file__, model, optimizer], env=environment, check=True)
    folders = sorted(tmp_path.iterdir())
    assert len(folders) >= 2, "a first and a steady step"
    for folder in folders:
        captured = phases.load(find(folder, "captured"))
        functional = phases.load(find(folder, "functional"))
        states = phases.make_inputs(captured, seed=len(folder.name))
        before = [v.clone() if isinstance(v, torch.Tensor) else v for v in states]
        expected = [v.clone() for v in phases.run(captured, states, strict=False)]
        committed = set(functional.targets)
        for i, (now, old) in enumerate(zip(states, before, strict=True)):
            if captured.arguments[i].kind == "state" and i not in committed:
                same(now, old, f"{folder.name}: argument {i} was written and not committed")
        expected += [states[i] for i in functional.targets]
        assert all(v.isfinite().all() for v in expected), "made-up inputs gave no numbers to compare"
        for phase in PHASES[1:]:
            module = phases.load(find(folder, phase))
            inputs = [v.contiguous() if isinstance(v, torch.Tensor) else v for v in before]
            if phase != "functional":
                inputs = [v if isinstance(v, torch.Tensor) else torch.tensor(v, dtype=torch.float64) for v in inputs]
            results = phases.run(module, inputs, strict=phase == "promoted")
            assert len(results) == len(expected)
            for i, (got, wanted) in enumerate(zip(results, expected, strict=True)):
                same(got, wanted, f"{folder.name}, phase {phase}, result {i}")


if __name__ == "__main__":
    record(sys.argv[1], sys.argv[2])
