# SPDX-License-Identifier: Apache-2.0
"""NumPy's functions on columns of tables: open ones exact, private ones with noise and a price."""

import numpy
import pytest
import torch
from arrays_support import difference, host

import sojourn
import sojourn.numpy as np

ROWS = 4000
BOUNDS = {"age": (0, 100), "weight": (30, 150)}


def _columns(rng):
    return {"age": rng.uniform(18, 95, ROWS), "weight": rng.uniform(45, 120, ROWS)}


def _tensors(columns):
    return {name: torch.from_numpy(values) for name, values in columns.items()}


ANALYSES = {
    "mean": lambda np, age, weight: np.mean(age),
    "share": lambda np, age, weight: np.mean(np.where(age > 65, 1.0, 0.0)),
    "second moment": lambda np, age, weight: np.sum(weight**2) / 1000,
    "log": lambda np, age, weight: np.mean(np.log(weight)),
}


@pytest.mark.parametrize("name", list(ANALYSES))
def test_open_columns(name, rng):
    columns = _columns(rng)
    with sojourn.local() as owner:
        table = owner.register("visits", _tensors(columns), policy="open")
        found = ANALYSES[name](np, table["age"], table["weight"])
        assert isinstance(found, np.ndarray)
        assert not difference(host(found), ANALYSES[name](numpy, *columns.values()))


@pytest.mark.parametrize("name", list(ANALYSES))
def test_private_columns_have_a_price(name, rng):
    columns = _columns(rng)
    with sojourn.local() as owner:
        table = owner.register("visits", _tensors(columns), policy="private", bounds=BOUNDS)
        owner.grant("visits", epsilon=20.0, delta=1e-6)
        quoted = sojourn.quote(ANALYSES[name](np, table["age"], table["weight"]), epsilon=2.0)
        assert quoted.epsilon == 2.0 and quoted.stderr > 0
        found = sojourn.publish(ANALYSES[name](np, table["age"], table["weight"]), epsilon=2.0)
        expected = float(ANALYSES[name](numpy, *columns.values()))
        # Tails of discrete Laplace noise: exp(-12 * sqrt(2)) is below 1e-7.
        assert 0 < abs(float(found) - expected) < 12 * float(found.stderr)
        assert float(found.stderr) == pytest.approx(quoted.stderr)


def test_private_values_stay(rng):
    with sojourn.local() as owner:
        table = owner.register("visits", _tensors(_columns(rng)), policy="private", bounds=BOUNDS)
        ages = np.asarray(table["age"])
        assert repr(ages).startswith("array(<at") and "shape=(4000,), dtype=float64" in repr(ages)
        for read in (float, numpy.asarray, bool, lambda x: x.item(), lambda x: x.tolist()):
            with pytest.raises(sojourn.Refused, match="price"):
                read(np.mean(ages))
        with pytest.raises(sojourn.Refused):
            sojourn.publish(ages[0])


def test_a_step_publishes(rng):
    columns = _columns(rng)
    with sojourn.local() as owner:
        table = owner.register("visits", _tensors(columns), policy="open")
        ages = np.asarray(table["age"])

        @sojourn.step
        def describe(x):
            return sojourn.publish({"mean": np.mean(x), "std": np.std(x), "oldest": np.max(x)})

        before = sojourn.counters()["round_trips"]
        found = describe(ages)
        assert sojourn.counters()["round_trips"] == before + 1
        age = columns["age"]
        assert not difference([numpy.asarray(found[k].value) for k in ("mean", "std", "oldest")],
                              [age.mean(), age.std(), age.max()])  # fmt: skip
        with (
            pytest.raises(sojourn.Refused, match="inside a step values leave the owner only by sojourn.publish"),
            sojourn.step(),
        ):
            float(np.mean(ages))
