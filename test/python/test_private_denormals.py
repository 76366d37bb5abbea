# SPDX-License-Identifier: Apache-2.0
"""Denormal numbers in steps on private rows: they count as 0, so that no reply is late for them.

The oracle is eager torch in the same mode of the processor; torch without it gives other values, so the test can fail.
"""

import numpy as np
import pytest
import torch
from private_support import flushed_denormals, make_table, numpy_rng, own_owner  # noqa: F401

import sojourn

ROWS = 64


def scaled(x, y, least):
    return (x * (0.25 / least)).clamp(0, 1).mean()


def small_products(x, y, least):
    return (y * (least / 2) * (0.5 / least)).clamp(0, 1).mean()


def sums(x, y, least):
    return ((x + x) * (0.25 / least)).clamp(0, 1).mean()


def positive(x, y, least):
    return (x > 0).to(y.dtype).mean()


def quotients(x, y, least):
    return (y * least / (y + 3) * (0.5 / least)).clamp(0, 1).mean()


def products_of_matrices(x, y, least):
    weights = torch.linspace(0.1, 1, 4, dtype=y.dtype).to(y.device)[:, None] * (0.25 / least)
    return (torch.stack([x, x * 0.5, x * 0.25, x], 1) @ weights).clamp(0, 1).mean()


PROGRAMS = [scaled, small_products, sums, positive, quotients, products_of_matrices]


@pytest.fixture
def columns(rng):
    """`x`: half of the numbers denormal, the others up to four times the smallest normal one; `y`: in [0, 1]."""

    def make(dtype):
        least = float(torch.finfo(dtype).smallest_normal)
        x = least * np.where(rng.random(ROWS) < 0.5, rng.uniform(0.1, 0.9, ROWS), rng.uniform(1, 4, ROWS))
        return {"x": torch.tensor(x).to(dtype), "y": torch.tensor(rng.random(ROWS)).to(dtype)}, least

    return make


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["f64", "f32"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_denormals_count_as_zero(owner, columns, program, dtype):
    plain, least = columns(dtype)
    table = make_table(owner, plain, {"x": (-1, 1), "y": (0, 1)})
    found = float(sojourn.publish(program(table["x"], table["y"], least), epsilon=2.0**16, bound=1.0))
    with flushed_denormals():
        expected = float(program(plain["x"], plain["y"], least))
    assert found == pytest.approx(expected, abs=5e-3)
    assert abs(float(program(plain["x"], plain["y"], least)) - expected) > 0.02, "the mode makes no difference here"


def test_denormals_of_open_tables_are_kept(owner, columns):
    plain, least = columns(torch.float64)
    table = make_table(owner, plain, {"x": (-1, 1), "y": (0, 1)}, policy="open")
    for program in PROGRAMS:
        found = float(sojourn.publish(program(table["x"], table["y"], least)))
        assert found == pytest.approx(float(program(plain["x"], plain["y"], least)), rel=1e-6)
