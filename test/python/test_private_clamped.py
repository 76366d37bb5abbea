# SPDX-License-Identifier: Apache-2.0
"""Sums that are known to be at least 0 are so with their noise, too: what is released is clamped there, which is free."""

import math

import numpy as np
import pytest
import torch
from private_support import make_table, numpy_rng, own_owner  # noqa: F401 (fixtures)

import sojourn

ROWS, TIMES = 6, 60
SMALL = 0.2  # an epsilon whose noise is much larger than any of these sums


@pytest.fixture
def values(rng):
    return rng.uniform(0, 0.5, ROWS)


@pytest.fixture
def table(owner, values):
    columns = {"x": torch.from_numpy(values), "z": torch.from_numpy(values - 0.25)}
    return make_table(owner, columns, {"x": (0, 3), "z": (-1, 1)})


SUMS = {
    "sum": (lambda t: t["x"].sum(), lambda x: x.sum()),
    "mean": (lambda t: t["x"].mean(), lambda x: x.mean()),
    "squares": (lambda t: (t["x"] ** 2).sum(), lambda x: (x**2).sum()),
    "norm": (lambda t: t["x"].norm(), lambda x: math.sqrt((x**2).sum())),
    "count": (lambda t: (t["x"] > 0.25).sum(), lambda x: (x > 0.25).sum()),
    "of signed values": (lambda t: (t["z"] ** 2).sum(), lambda x: ((x - 0.25) ** 2).sum()),
}


@pytest.mark.parametrize("name", SUMS)
def test_what_is_never_negative_is_released_so(name, table, values):
    remote, plain = SUMS[name]
    released = [sojourn.publish(remote(table), epsilon=SMALL).item() for _ in range(TIMES)]
    assert all(number >= 0 for number in released), released  # NaN is not
    assert 0 in released and any(number > 0 for number in released), "noise this large goes below 0 about half the time"
    exact = sojourn.publish(remote(table), epsilon=50_000).item()
    assert exact == pytest.approx(plain(values), rel=1e-2)


def test_what_may_be_negative_is_not_clamped(table, values):
    released = [sojourn.publish(table["z"].sum(), epsilon=SMALL).item() for _ in range(TIMES)]
    assert min(released) < 0 < max(released)


def test_a_clamp_is_all_that_happens_to_the_noise(table, values):
    """At 0 lies the probability of all that is below; beyond, the noise is what it was."""
    released = np.array([sojourn.publish(table["x"].sum(), epsilon=SMALL).item() for _ in range(400)])
    scale, true = sojourn.quote(table["x"].sum(), epsilon=SMALL).stderr / math.sqrt(2), values.sum()
    at_zero = 0.5 * math.exp(-true / scale)
    spread = math.sqrt(at_zero * (1 - at_zero) / len(released))
    assert abs((released == 0).mean() - at_zero) < 6 * spread
    above = (released > true).mean()
    assert abs(above - 0.5) < 6 * math.sqrt(0.25 / len(released))


@pytest.mark.parametrize("name", ["sum", "mean", "squares", "count"])
def test_the_standard_error_is_that_of_the_noise(name, table):
    remote = SUMS[name][0]
    quoted = sojourn.quote(remote(table), epsilon=SMALL).stderr
    published = sojourn.publish(remote(table), epsilon=SMALL)
    assert published.stderr == pytest.approx(quoted) and quoted > 0
    bound = {"sum": 1.5, "mean": 1.5 / ROWS, "squares": 4.5, "count": 0.5}[name]
    assert quoted == pytest.approx(math.sqrt(2) * bound / SMALL, rel=0.06)  # a pure epsilon costs a little more


def test_a_clamp_of_the_script_itself_states_its_noise(table):
    published = sojourn.publish(torch.relu(table["z"].sum()), epsilon=SMALL)
    assert published.stderr == pytest.approx(math.sqrt(2) / SMALL, rel=0.06)


def test_metrics_of_batches_are_clamped_and_gradients_are_not(owner, rng):
    x = torch.from_numpy(rng.uniform(0, 0.01, 200))
    table = make_table(owner, {"x": x}, {"x": (0, 3)}, name="batches")
    weight = torch.zeros(1, dtype=torch.float64, device=owner.device, requires_grad=True)
    metrics = []
    for batch in table.batches("x", size=20, epochs=4, dtype=torch.float64):
        with sojourn.step():
            ((weight * batch - 1) ** 2).mean().backward()
            metrics.append(sojourn.publish(batch.sum()))
            with torch.no_grad():
                weight += weight.grad
                weight.grad = None
    assert all(metric.item() >= 0 for metric in metrics) and 0 in [metric.item() for metric in metrics]
