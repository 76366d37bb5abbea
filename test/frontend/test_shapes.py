# SPDX-License-Identifier: Apache-2.0
"""Shape rules against eager, op by op: PyTorch's own sample inputs and short training runs.

`libshapes_check.so` sits below autograd and compares the rule of every op that runs with what the
CPU returned: sizes, strides, dtype, view offset, and error texts where eager throws.
"""

import ctypes
import pathlib
import secrets

import pytest
import torch
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "build" / "lib" / "libshapes_check.so"
checker = ctypes.CDLL(str(LIBRARY))
checker.shapesCheckReport.restype = ctypes.c_char_p

# Ops that training of the usual networks records; each must have been seen with a rule.
SEED = secrets.randbits(32)


def report():
    return checker.shapesCheckReport().decode()


@pytest.fixture(autouse=True)
def seeded():
    print("seed", SEED)
    torch.manual_seed(SEED)
    checker.shapesCheckStart()
    yield
    checker.shapesCheckStop()


def size(low=1, high=9):
    return int(torch.randint(low, high, ()))


def expect_no_difference():
    text = report()
    print(text)
    first = text.splitlines()[0]
    assert "0 ops differ" in first, text
    unruled = [line for line in text.splitlines() if line.startswith("U ")]
    return {line.split()[1] for line in unruled if line.startswith("U aten::")}


OPTIMIZERS = {
    "sgd": lambda p, **k: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-3, **k),
    "adam": lambda p, **k: torch.optim.Adam(p, lr=1e-3, weight_decay=1e-2, amsgrad=True, **k),
    "adamw": lambda p, **k: torch.optim.AdamW(p, lr=1e-3, **k),
}


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.embed = nn.Embedding(11, width)
        self.layer = nn.TransformerEncoderLayer(width, 2, 2 * width, dropout=0.1, activation="gelu", batch_first=True)
        self.head = nn.Linear(width, 11)

    def forward(self, tokens):
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        return self.head(self.layer(self.embed(tokens), mask)).flatten(0, 1)


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.rnn = kind(3, 5, num_layers=2, batch_first=True, dropout=0.2, bidirectional=True)
        self.head = nn.Linear(10, 4)

    def forward(self, x):
        return self.head(self.rnn(x)[0][:, -1])


def networks():
    batch = size()
    yield nn.Sequential(nn.Linear(7, 5), nn.ReLU(), nn.Dropout(0.3), nn.Linear(5, 4)), torch.randn(batch, 7), (batch,)
    image = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, groups=8),
        nn.GroupNorm(2, 8),
        nn.SiLU(),
        nn.AvgPool2d(2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 4),
    )
    x = torch.randn(batch + 1, 3, 15, 17)
    yield image, x, (batch + 1,)
    yield image.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last), (batch + 1,)
    tokens = torch.randint(0, 11, (batch, 6))
    yield Attention(8), tokens, (batch * 6,)
    yield Recurrent(nn.LSTM), torch.randn(batch, 4, 3), (batch,)
    yield Recurrent(nn.GRU), torch.randn(batch, 4, 3), (batch,)


@pytest.mark.parametrize("options", [{"foreach": True}, {"foreach": False}, {"fused": True}], ids=str)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training(optimizer, options):
    with torch.backends.mkldnn.flags(enabled=True):
        for module, x, targets in networks():
            updates = OPTIMIZERS[optimizer](module.parameters(), **options)
            y = torch.randint(0, 4, targets)
            for _ in range(2):
                updates.zero_grad()
                nn.functional.cross_entropy(module(x), y).backward()
                updates.step()
            module.eval()
            module(x)
    unruled = expect_no_difference()
    allowed = {
        "aten::_scaled_dot_product_flash_attention_for_cpu",
        "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
        "aten::_local_scalar_dense",
        "aten::mkldnn_rnn_layer",
        "aten::mkldnn_rnn_layer_backward",
        "aten::is_pinned",
        "aten::resize_",
        "aten::_nested_tensor_from_mask_left_aligned",
        "aten::_transformer_encoder_layer_fwd",
        "aten::equal",
        "aten::set_.source_Storage",
    }
    assert unruled <= allowed, unruled - allowed
