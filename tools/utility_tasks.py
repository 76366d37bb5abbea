# SPDX-License-Identifier: Apache-2.0
"""The tasks of bench_utility.py: three tables with their bounds, a model for each, and the length of its training.

Privacy protects one row of a table: a patient's sample, a drawn digit, a note of 32 characters.
"""

import dataclasses
import importlib.util
import pathlib
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parent.parent


@dataclasses.dataclass(frozen=True)
class Task:
    """A table for training. `features` and `label`: arguments of `Table.batches`; `is_scaled`: scaled by its bounds."""

    name: str
    columns: dict[str, np.ndarray]
    bounds: dict[str, tuple[float, float]]
    features: str | list[str]
    label: str
    model: Callable[[], nn.Module]
    size: int
    epochs: int
    rate: float
    clip: float = 1.0
    is_scaled: bool = True

    def loss(self, model, table, x, y):
        return F.cross_entropy(self.scores(model, table, x).flatten(0, -2), y.flatten())

    def scores(self, model, table, x):
        return model(table.scaled(x, self.features) if self.is_scaled else x)


def breast_cancer() -> Task:
    """569 samples of 30 measures, benign or malignant; the table of the example."""
    spec = importlib.util.spec_from_file_location("breast_cancer", ROOT / "examples/breast_cancer.py")
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    features = [name for name in script.BOUNDS if name != script.LABEL]
    return Task(
        name="breast cancer",
        columns=script.source(),
        bounds=script.BOUNDS,
        features=features,
        label=script.LABEL,
        model=lambda: nn.Sequential(nn.Linear(30, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 2)),
        size=64,
        epochs=20,
        rate=1e-2,
    )


class Image(nn.Module):
    """Adds a dim of channels: [B, 8, 8] to [B, 1, 8, 8]."""

    def forward(self, x):
        return x.unsqueeze(1)


def digits() -> Task:
    """1797 handwritten digits of 8 x 8 pixels, each from 0 to 16."""
    from sklearn.datasets import load_digits

    data = load_digits()
    return Task(
        name="digits",
        columns={"image": data.images.astype(np.float32), "digit": data.target.astype(np.int64)},
        bounds={"image": (0, 16), "digit": (0, 9)},
        features="image",
        label="digit",
        model=lambda: nn.Sequential(
            *(Image(), nn.Conv2d(1, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(16, 32, 3, padding=1), nn.GroupNorm(8, 32), nn.ReLU(), nn.Flatten(), nn.Linear(512, 10)),
        ),
        size=128,
        epochs=12,
        rate=1e-2,
    )


ALPHABET = " .abcdefghijklmnopqrstuvwxyz"
NOTE, WIDTH, HEADS = 32, 48, 4
WORDS = {
    "who": ["the patient", "a nurse", "the doctor", "my mother", "her son", "nobody"],
    "does": ["reports", "had", "denies", "notes", "fears", "expects"],
    "how": ["mild", "severe", "no", "some", "daily", "sudden", "less"],
    "what": ["pain", "fever", "cough", "relief", "swelling", "nausea", "bleeding"],
    "when": ["today", "since monday", "at night", "after meals", "for a week", "again"],
}


class Characters(nn.Module):
    """One block of a transformer over characters; [B, T] to [B, T, letters]."""

    def __init__(self):
        super().__init__()
        self.letters, self.places = nn.Embedding(len(ALPHABET), WIDTH), nn.Embedding(NOTE, WIDTH)
        self.before, self.between, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mix, self.join = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, len(ALPHABET))

    def forward(self, x):
        places = torch.arange(x.shape[1], device=x.device).expand(x.shape)
        h = self.letters(x) + self.places(places)
        q, k, v = (part.unflatten(2, (HEADS, -1)).transpose(1, 2) for part in self.mix(self.before(h)).chunk(3, 2))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + self.join(mixed.transpose(1, 2).flatten(2))
        h = h + self.narrow(F.gelu(self.wide(self.between(h))))
        return self.head(self.after(h))


def characters(rows=2500) -> Task:
    """Made-up notes of 33 characters, from sentences of a small grammar. The model predicts the next letter."""
    generator = np.random.default_rng(0)
    lines = []
    for _ in range(rows):
        text = ""
        while len(text) <= NOTE:
            text += " ".join(generator.choice(words) for words in WORDS.values()) + ". "
        lines.append([ALPHABET.index(letter) for letter in text[: NOTE + 1]])
    notes = np.array(lines, dtype=np.int64)
    letters = (0, len(ALPHABET) - 1)
    return Task(
        name="characters",
        columns={"text": notes[:, :-1].copy(), "next": notes[:, 1:].copy()},
        bounds={"text": letters, "next": letters},
        features="text",
        label="next",
        model=Characters,
        size=128,
        epochs=10,
        rate=1e-2,
        is_scaled=False,
    )


TASKS = {"cancer": breast_cancer, "digits": digits, "characters": characters}
