# SPDX-License-Identifier: Apache-2.0
"""Holes of the past as a script may write them: sums of some slots, sums of finite numbers that are NaN, batches that are
kept. What no recorder writes is in test/owner/PrivateHolesTest.cpp."""

import math

import numpy as np
import pytest
import torch

import sojourn

ROWS, SIZE = 400, 20


@pytest.fixture
def table(seed):
    owner = sojourn.local()
    bits = np.random.default_rng(seed).integers(0, 2, (ROWS, 64)) * 2.0 - 1
    columns = {"one": np.ones(ROWS), "bits": bits}
    made = owner.register("holes", columns, policy="private", bounds={"one": (0, 1), "bits": (-1, 1)})
    owner.grant("holes", epsilon=1e6, delta=1e-6)
    return made


def test_a_part_of_the_slots_holds_its_share_of_the_rows(table):
    """Drawn rows once filled the slots from the front, so that one row's draw moved the others."""
    batches = iter(table.batches("one", size=SIZE, seed=0))
    slots = next(batches).shape[0]
    part = slots // 3

    @sojourn.step
    def sums():
        x = next(batches)
        return {
            "front": sojourn.publish(x[:part].sum(), epsilon=400.0),
            "back": sojourn.publish(x[-part:].sum(), epsilon=400.0),
            "other": sojourn.publish(x[1::3].sum(), epsilon=400.0),
        }

    found = [sums() for _ in range(12)]
    share = SIZE / slots
    for name in ("front", "back", "other"):
        count = part if name != "other" else len(range(1, slots, 3))
        mean = sum(float(each[name]) for each in found) / len(found)
        error = math.sqrt(count * share / len(found)) + max(each[name].stderr for each in found)
        assert abs(mean - count * share) < 6 * error, f"{name}: {mean}, expected {count * share} +- {error}"


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_number_that_is_always_one_tells_nothing(table, dtype):
    """A sum of 64 terms of the largest magnitude is NaN, or infinite, by the row."""
    huge = torch.finfo(dtype).max

    def always_one():
        total = (table["bits"].to(dtype) * huge).sum(1)
        return torch.clamp(total, 1, 1)

    with pytest.raises(sojourn.Refused, match="a value per row"):
        sojourn.publish(always_one(), epsilon=1.0)
    value = sojourn.publish(torch.clamp((table["bits"].to(dtype) * huge).sum(1), -1, 1).sum(), epsilon=1.0, bound=1.0)
    assert math.isfinite(float(value))


def test_a_kept_batch_stays(table):
    """Rows of a batch, and values computed from them, stay at the owner: in later steps, too."""
    batches = iter(table.batches("one", size=SIZE))

    @sojourn.step
    def keep():
        x = next(batches)
        sojourn.publish(x.sum(), epsilon=1.0)
        return x * 1, (x > 0).sum(), x.sort().values, x.cumsum(0)

    for value in keep():
        with pytest.raises(sojourn.Refused):
            sojourn.publish(value)
        with pytest.raises(sojourn.Refused):
            sojourn.publish(value.neg().sum())


def test_a_factor_behind_a_sum_hides_no_row(table):
    """The bound is divided by the factors; f64 cannot clip to 1e-200, and squares of 1e-170 are 0 to it."""
    with pytest.raises(sojourn.Refused, match="expected a bound from 2\\^-400"):
        sojourn.publish((table["one"] * 1e-170).sum() / 1e-200, epsilon=1.0, delta=1e-6, bound=1.0)
    value = sojourn.publish((table["one"] * 1e-100).sum() / 1e-90, epsilon=1.0, delta=1e-6, bound=1.0)
    assert abs(float(value) - ROWS * 1e-10) < 8 * value.stderr < 1
