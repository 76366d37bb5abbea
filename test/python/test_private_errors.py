# SPDX-License-Identifier: Apache-2.0
"""Standard errors of published values: what many releases of one value show, against what each of them states.

Wherever the value is linear in the noise, whatever is computed on the way; and None where it is not. Of n releases the
deviation is known to about 1 / sqrt(2 n), with Laplace noise to 1.6 times that; the bounds below are five times as wide.
"""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from private_support import DELTA, make_table, numpy_rng, own_owner  # noqa: F401

import sojourn

ROWS, RELEASES = 64, 120
WIDTH = 5 * math.sqrt(5 / (4 * RELEASES))  # of the deviation of Laplace noise, whose fourth moment is 6


@pytest.fixture
def table(owner, rng):
    columns = {"a": rng.uniform(0, 8, ROWS), "b": rng.uniform(-1, 1, ROWS).astype(np.float32)}
    columns |= {"k": rng.integers(0, 4, ROWS), "m": rng.integers(0, 3, ROWS)}
    bounds = {"a": (0, 8), "b": (-1, 1), "k": (0, 3), "m": (0, 2)}
    return make_table(owner, columns, bounds)


def counts(t):
    return torch.bincount(t["k"], minlength=4).double()


def public(t, *numbers):
    return torch.tensor(numbers, dtype=torch.float64).to(t["a"].device)


def matrix(t):
    return torch.linspace(-1, 2, 12, dtype=torch.float64).reshape(3, 4).to(t["a"].device)


LINEAR = {
    "sum": lambda t: t["a"].sum(),
    "mean of f32": lambda t: t["b"].mean(),
    "multiple": lambda t: t["a"].mean() * 2.5,
    "part": lambda t: t["a"].sum() / 7,
    "affine": lambda t: 3 - t["a"].mean() * 0.5,
    "smoothed": lambda t: 0.9 * t["a"].mean() + 0.1 / 4,
    "sum of two": lambda t: t["a"].mean() + t["b"].mean(),
    "difference of two": lambda t: t["a"].sum() - 3 * t["b"].sum(),
    "twice the same": lambda t: t["a"].mean() * 2 + t["a"].mean() * 3,
    "nearly cancelled": lambda t: t["a"].mean() - t["a"].mean() * 0.75,
    "counts": counts,
    "whole counts": lambda t: torch.bincount(t["k"], minlength=4),
    "some of them": lambda t: counts(t)[1:3],
    "one of them": lambda t: counts(t)[2],
    "all of them": lambda t: counts(t).sum(),
    "reversed": lambda t: counts(t).flip(0).reshape(2, 2).T,
    "crosstab": lambda t: F.one_hot(t["k"], 4).double().T @ F.one_hot(t["m"], 3).double(),
    "margin of a crosstab": lambda t: (F.one_hot(t["k"], 4).double().T @ F.one_hot(t["m"], 3).double()).sum(1),
    "cumulated by a matrix": lambda t: counts(t) @ torch.ones(4, 4, dtype=torch.float64).triu().to(t["a"].device),
    "public matrix": lambda t: matrix(t) @ counts(t),
    "public vector": lambda t: counts(t) * public(t, 1.0, -2.0, 0.5, 3.0),
    "public weights": lambda t: (counts(t) / public(t, 1.0, 2.0, 4.0, 8.0)).sum(),
    "beside each other": lambda t: torch.stack([t["a"].mean(), t["a"].mean() * 4]),
    "one after another": lambda t: torch.cat([counts(t), t["a"].sum()[None] * 0.01]),
    "whole numbers": lambda t: t["k"].sum(),
    "share": lambda t: (t["a"] > 4).double().mean(),
    "columns": lambda t: t.rows(["a", "b"]).double().mean(0),
    "narrow column": lambda t: t.rows(["a", "b"]).double().mean(0)[1],
    "columns of unlike widths": lambda t: torch.stack([t["a"], t["b"].double() * t["a"], t["k"].double()], 1).sum(0),
    "columns in all": lambda t: t.rows(["a", "b"]).double().sum(),
    "spread": lambda t: t["a"].mean().expand(3) * public(t, 1.0, 2.0, 3.0),
}  # fmt: skip


@pytest.mark.parametrize("delta", [None, 1e-6], ids=["laplace", "gaussian"])
@pytest.mark.parametrize("name", LINEAR)
def test_errors_are_what_releases_show(table, name, delta):
    if delta and "counts" not in name and "public" not in name:
        pytest.skip("the distribution makes no difference to what follows it; some cases are enough")
    value, stated = [], set()
    for _ in range(RELEASES):
        published = sojourn.publish(LINEAR[name](table), epsilon=0.25, delta=delta)
        value.append(published.value.double().numpy())
        stated.add(published.stderr)
    (error,) = stated
    assert error is not None
    deviation = np.std(value, axis=0, ddof=1)
    if np.ptp(deviation) == 0 or deviation.ndim == 0:
        assert (1 - WIDTH) * error < deviation.max() < (1 + WIDTH) * error
    else:  # of the element with most noise
        assert (1 - WIDTH) * error < deviation.max() < (1 + 1.5 * WIDTH) * error
    assert sojourn.quote(LINEAR[name](table), epsilon=0.25, delta=delta).stderr == error


OTHERWISE = {
    "square": lambda t: t["a"].mean() ** 2,
    "product of two": lambda t: t["a"].mean() * t["b"].mean(),
    "ratio": lambda t: t["a"].sum() / counts(t).sum(),
    "inverse": lambda t: 1 / t["a"].mean(),
    "root": lambda t: t["a"].mean().sqrt(),
    "deviation": lambda t: t["a"].std(),
    "clamped": lambda t: t["a"].mean().clamp(0, 8),
    "largest": lambda t: counts(t).max(),
    "rounded": lambda t: t["a"].sum().round(),
    "truncated": lambda t: t["a"].sum().long(),
    "sorted": lambda t: counts(t).sort().values,
}


@pytest.mark.parametrize("name", OTHERWISE)
def test_other_values_state_none(table, name):
    assert sojourn.publish(OTHERWISE[name](table), epsilon=0.25).stderr is None


def test_each_value_has_its_own(table):
    """Values that share their noise are one release, and each knows its error."""
    mean = table["a"].mean()
    found = sojourn.publish(
        {"mean": mean, "scaled": mean * 3, "square": mean**2, "counts": counts(table)}, epsilon=0.25
    )
    assert found.stderr["scaled"] == pytest.approx(3 * found.stderr["mean"], rel=1e-9)
    assert found.stderr["square"] is None and found.stderr["counts"] > found.stderr["mean"] > 0


def test_numbers_of_a_step_count(table):
    """One program and one proof for all learning rates; the error follows the number of the step."""
    errors, values = {}, {}
    with sojourn.privacy(table, noise_multiplier=1.0, delta=DELTA):
        for step, x in enumerate(table.batches(["a"], size=16, epochs=20, dtype=torch.float64)):
            factor = 1.0 + step % 2
            with sojourn.step():
                mean = sojourn.publish(x.mean() * factor, bound=8.0)
            errors.setdefault(factor, set()).add(mean.stderr)
            values.setdefault(factor, []).append(float(mean))
    (one,), (two,) = errors[1.0], errors[2.0]
    assert two == pytest.approx(2 * one, rel=1e-9)
    for factor, error in ((1.0, one), (2.0, two)):
        # The mean of a batch varies too, by its rows and by how many there are.
        assert 0.6 * error < np.std(values[factor]) < 1.6 * math.hypot(error, factor * 8 / math.sqrt(16))


def test_a_smoothed_loss_states_its_error(owner, table):
    model = torch.nn.Linear(1, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sojourn.to_owner(model, owner, optimizer)
    with sojourn.privacy(table, noise_multiplier=1.0, delta=DELTA):
        for x, y in table.batches(["a"], label="k", size=16, epochs=1):
            with sojourn.step():
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
                loss.backward()
                optimizer.step()
                published = sojourn.publish(loss.detach() / 3, bound=5.0)
            assert published.stderr > 0
