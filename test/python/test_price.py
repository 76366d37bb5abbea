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


HUGE = {
    "operations": ("operations", many_products),
    "arena": ("bytes of arena", lambda x: x.expand(1 << 10, 1 << 22).exp().cumsum(1).sum()),
}


def test_recorded_steps(seed, tmp_path):
    assert TESTS.exists(), "passes-tests is not built; run tools/setup"
    for name, optimizer in PAIRS:
        make, data = MODELS[name]
        x = data(7)
        texts = texts_of(make().double(), optimizer, x, torch.randint(0, 3, (len(x),)))
        (tmp_path / f"{name}_{optimizer}.mlir").write_text(texts["core"])
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
