# SPDX-License-Identifier: Apache-2.0
"""The price of recorded training steps is no less than what the executor plans for them."""

import os
import pathlib
import subprocess

import pytest
import torch
from phase_models import MODELS, PAIRS, texts_of
from remote_support import shared_owner

import sojourn

TESTS = pathlib.Path(__file__).resolve().parents[2] / "build/bin/passes-tests"


def many_products(x):
    """2^40 operations each, with little memory."""
    x = y = x.expand(1 << 13, 1 << 13)
    for _ in range(12):
        y = y @ x
    return y.sum()


class Repeated(torch.nn.Module):
    """Weights of f32 that many products share, for as long as a step lasts."""

    def __init__(self, width):
        super().__init__()
        self.inner, self.outer = torch.nn.Linear(width, width), torch.nn.Linear(width, width)

    def forward(self, x):
        h = x[:, 0]
        for k in range(x.shape[1]):
            h = torch.tanh(self.inner(h) + self.outer(x[:, k]))
        return h


HUGE = {
    "operations": ("operations", many_products),
    "arena": ("bytes of arena", lambda x: x.expand(1 << 10, 1 << 22).exp().cumsum(1).sum()),
}


def test_recorded_steps(seed, tmp_path):
    assert TESTS.exists(), "passes-tests is not built; run tools/setup --tests"
    for name, optimizer in PAIRS:
        make, data = MODELS[name]
        x = data(7)
        texts = texts_of(make().double(), optimizer, x, torch.randint(0, 3, (len(x),)))
        (tmp_path / f"{name}_{optimizer}.mlir").write_text(texts["core"])
    for width, rows, length in ((20, 8, 2), (32, 16, 5), (70, 9, 12)):
        x = torch.randn(rows, length, width)
        texts = texts_of(Repeated(width), "adam", x, torch.randint(0, width, (rows,)))
        (tmp_path / f"repeated_{width}.mlir").write_text(texts["core"])
    done = subprocess.run(
        [TESTS, "--gtest_filter=*RecordedPrograms"],
        env={**os.environ, "SOJOURN_PRICE_MODULES": str(tmp_path)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0 and "1 test" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("name", HUGE)
def test_what_costs_too_much_is_refused_before_it_is_built(name):
    what, function = HUGE[name]
    x = torch.ones(1, 1).to(shared_owner().device)
    with pytest.raises(sojourn.Error, match=f"{what}, expected at most"):
        sojourn.publish(function(x))
    assert sojourn.publish(x + 1).item() == 2
