# SPDX-License-Identifier: Apache-2.0
"""What a client says before anything runs: quotes, and refusals on what it knows of the tables.

Oracles: the published value's own stderr, the budget, and the owner's count of requests.
"""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from private_support import DELTA, make_table, numpy_rng, own_owner  # noqa: F401
from torch import nn

import sojourn

ROWS = 120


@pytest.fixture
def table(owner, rng):
    columns = {"a": rng.uniform(0, 4, ROWS), "b": rng.uniform(-1, 1, ROWS), "y": rng.integers(0, 2, ROWS)}
    return make_table(owner, columns, {"a": (0, 4), "b": (-1, 1), "y": (0, 1)}, 50)


VALUES = {
    "mean": lambda t: t["a"].mean(),
    "sum": lambda t: t["b"].sum(),
    "count": lambda t: (t["a"] > 2).sum(),
    "histogram": lambda t: F.one_hot(t["y"], 2).sum(0),
    "scaled before": lambda t: (t["a"] * 0.3).mean(),
    "scaled after": lambda t: t["a"].mean() * 12,
    "clamped": lambda t: (t["a"] * 0.3).clamp(-1, 1).mean(),
    "chosen": lambda t: torch.where(t["y"] == 1, t["a"], torch.zeros((), dtype=torch.float64)).sum(),
}


@pytest.mark.parametrize("delta", [None, 1e-6])
@pytest.mark.parametrize("name", VALUES)
def test_a_quote_is_what_a_publish_then_does(owner, table, name, delta):
    left = owner.budget("people").epsilon_left
    quoted = sojourn.quote(VALUES[name](table), epsilon=0.5, delta=delta)
    assert owner.budget("people").epsilon_left == left
    published = sojourn.publish(VALUES[name](table), epsilon=0.5, delta=delta)
    assert quoted.stderr == published.stderr and quoted.numbers == published.value.numel()
    assert quoted.noise == ("discrete Laplace" if delta is None else "discrete Gaussian")
    assert (quoted.epsilon, quoted.delta) == (0.5, DELTA)  # a price is a grant's, at the delta that the grant has
    assert str(quoted).startswith("epsilon 0.5 at delta 1e-05 for ")
    assert owner.budget("people").epsilon_left < left


@pytest.mark.parametrize("factor, bound", [(0.3, None), (0.3, 2.0), (7.0, 2.0)])
def test_laplace_noise_of_a_value_whose_range_is_a_slot(table, factor, bound):
    """Proved from the number in the slot, or clamped to what was asked; right within the stated error."""
    published = sojourn.publish((table["a"] * factor).sum(), epsilon=0.5, bound=bound)
    # In [0, 4] times the factor: around the middle, or as it is where a bound says what of it counts.
    moves = 2 * factor if bound is None else min(4 * factor, bound)
    # Laplace noise of scale moves / epsilon has sqrt(2) times that for a standard deviation.
    # A grant's highest order admits a little less than its epsilon.
    assert math.sqrt(2) * moves / 0.5 <= published.stderr <= 1.03 * math.sqrt(2) * moves / 0.5


def test_laplace_noise_of_a_vector_that_is_clipped(table):
    """A vector's magnitudes sum to at most the root of its size times its norm: that is what the noise covers."""
    x = torch.stack([table["a"], table["b"], table["a"] * table["b"]], 1)
    quoted = sojourn.quote((x * torch.exp(x)).sum(0), epsilon=1.0, bound=5.0)
    least = math.sqrt(2) * 5 * math.sqrt(3)
    assert quoted.numbers == 3 and least <= quoted.stderr <= 1.03 * least


def test_the_clip_of_a_laplace_sum_holds(table, rng):
    published = sojourn.publish((table["a"] * 0.3).mean(), epsilon=40.0, bound=0.5)
    assert published.stderr < 0.01
    values = sojourn.publish((table["a"] * 0.3).clamp(max=0.5).mean(), epsilon=5.0)
    assert abs(float(published) - float(values)) < 12 * math.hypot(published.stderr, values.stderr)


def test_free_and_open_values_are_quoted_as_free(owner, table, rng):
    open_table = owner.register("open", {"a": rng.uniform(0, 1, 9)}, policy="open")
    assert sojourn.quote(open_table["a"].mean(), epsilon=0.1).noise == "none"
    assert sojourn.quote(torch.ones(3), epsilon=0.1).epsilon == 0
    assert "free" in str(sojourn.quote(open_table["a"].mean(), epsilon=0.1))


def test_a_quote_takes_nothing_away_from_what_is_pending(owner, table):
    mean = table["a"].mean()
    other = table["b"].mean()
    first = sojourn.quote(mean, epsilon=0.2)
    assert sojourn.quote(mean, epsilon=0.2) == first
    assert sojourn.quote(other, epsilon=0.2).stderr < first.stderr
    assert sojourn.publish(mean, epsilon=0.2).stderr == first.stderr


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, True, "1"])
def test_quotes_of_bad_numbers_are_refused(table, value):
    with pytest.raises(sojourn.Error, match="epsilon must be a number above 0"):
        sojourn.quote(table["a"].mean(), epsilon=value)


def test_quotes_of_what_is_refused(table):
    with pytest.raises(sojourn.Refused, match="median|sort|runs along rows|taken over rows"):
        sojourn.quote(table["a"].median(), epsilon=1)
    with pytest.raises(sojourn.Refused, match="per row of private data is published"):
        sojourn.quote(table["a"], epsilon=1)
    with pytest.raises(sojourn.Error, match="takes a tensor or a tree of them, got list"):
        sojourn.quote([1.0, "a"], epsilon=1)
    with pytest.raises(sojourn.Error, match="epsilon must be a number above 0, got None"):
        sojourn.quote(table["a"].mean(), epsilon=None)


UNQUOTABLE = {
    "epsilon too large": ({"epsilon": 1e300}, "epsilon must be a number above 0 and at most"),
    "epsilon too small to say": ({"epsilon": 1e-300}, "epsilon is 1e-300, expected at least 0.0036.* at delta 1e-05"),
    "epsilon that no order shows": ({"epsilon": 1e-3, "delta": 1e-6}, "epsilon is 0.001, expected at least 0.0036"),
    "bound too large": ({"epsilon": 0.1, "bound": 1e300}, r"bound must be a number from 1e-30 to 1e\+30"),
    "bound too small": ({"epsilon": 0.1, "bound": 1e-300}, r"bound must be a number from 1e-30 to 1e\+30"),
    "delta above the grant's": (
        {"epsilon": 0.1, "delta": 1e-4},
        "delta .* a number above 0 and at most 1e-05",
    ),
}


@pytest.mark.parametrize("name", UNQUOTABLE)
def test_a_quote_refuses_what_a_publish_refuses(owner, table, name):
    terms, text = UNQUOTABLE[name]
    left = owner.budget("people").epsilon_left
    for way in (sojourn.quote, sojourn.publish):
        with pytest.raises(sojourn.Error, match=text):
            way(table["a"].mean(), **terms)
    assert owner.budget("people").epsilon_left == left


@pytest.mark.parametrize("bound", [1e-30, 1e30])
def test_bounds_at_the_ends_of_their_range(table, bound):
    quoted = sojourn.quote(table["b"].sum(), epsilon=1.0, bound=bound)
    assert quoted.stderr == sojourn.publish(table["b"].sum(), epsilon=1.0, bound=bound).stderr
    for beyond in (bound * 0.9, bound * 1.1):
        if not 1e-30 <= beyond <= 1e30:
            with pytest.raises(sojourn.Error, match=r"bound must be a number from 1e-30 to 1e\+30"):
                sojourn.quote(table["b"].sum(), epsilon=1.0, bound=beyond)


def test_a_delta_of_ones_own_changes_nothing_about_the_guarantee(table):
    small, large = (sojourn.quote(table["a"].mean(), epsilon=0.1, delta=delta) for delta in (1e-30, DELTA))
    assert small == large and small.delta == DELTA


def test_trees_are_quoted_leaf_by_leaf(owner, table):
    def values():
        return {"mean": table["a"].mean(), "others": [(table["b"].sum(), 3), torch.ones(2)]}

    quoted = sojourn.quote(values(), epsilon=0.5)
    left = owner.budget("people").epsilon_left
    published = sojourn.publish(values(), epsilon=0.5)
    assert quoted["mean"].stderr == pytest.approx(published.stderr["mean"], rel=1e-4)
    (total, three), ones = quoted["others"]
    assert total.stderr == pytest.approx(published.stderr["others"][0][0], rel=1e-4)
    assert three == 3 and ones.noise == "none"
    # The two of them share the price.
    assert 0.45 < left - owner.budget("people").epsilon_left <= 0.5 + 1e-9
    with_delta = sojourn.quote(values(), epsilon=0.5, delta=DELTA)
    published = sojourn.publish(values(), epsilon=0.5, delta=DELTA)
    assert with_delta["mean"].stderr == pytest.approx(published.stderr["mean"], rel=1e-4)


def test_without_a_budget_a_quote_needs_a_delta(rng):
    with sojourn.local() as owner:
        table = owner.register("people", {"a": rng.uniform(0, 4, ROWS)}, policy="private", bounds={"a": (0, 4)})
        with pytest.raises(sojourn.Error, match="no budget is granted, so no delta"):
            sojourn.quote(table["a"].mean(), epsilon=0.5)
        quoted = sojourn.quote(table["a"].mean(), epsilon=0.5, delta=1e-6)
        assert quoted.delta == 1e-6 and quoted.stderr > 0


@pytest.mark.parametrize("number", [np.float32(0.5), np.float64(0.5), np.int64(1), 1])
def test_numbers_of_numpy_are_numbers(table, number):
    assert sojourn.quote(table["a"].mean(), epsilon=number).epsilon == float(number)
    assert sojourn.privacy(table, epsilon=number, delta=DELTA, size=12, epochs=1).quote().epsilon <= float(number)


def refused_by(owner, table, model, loss=F.cross_entropy):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sojourn.to_owner(model, owner, optimizer)
    sojourn.flush()
    before = owner._embedded.requests

    @sojourn.step
    def train(x, y):
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()

    for x, y in table.batches(["a", "b"], label="y", size=16):
        with pytest.raises(sojourn.Refused) as refusal:
            train(x, y)
        return str(refusal.value), owner._embedded.requests - before


def contrastive(z, y):
    return F.cross_entropy(z @ z.t(), torch.arange(len(z), device=z.device))


REFUSED = {
    "batch norm": (
        lambda: nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)),
        F.cross_entropy,
        "GroupNorm",
    ),
    "contrastive": (lambda: nn.Linear(2, 4), contrastive, "compares rows"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_steps_are_refused_before_they_are_sent(owner, table, name):
    """With the op, this file's line and the way out; the program is not sent."""
    make, loss, way_out = REFUSED[name]
    refusal, requests = refused_by(owner, table, make(), loss)
    assert way_out in refusal and "test_private_quotes.py:" in refusal and "private dataset 'people'" in refusal
    assert requests == 1  # whether the table is private still


def test_a_buffer_of_rows_is_the_owners_to_judge(owner, table):
    """Rows kept at the owner may be written over by rows: nothing leaves."""
    kept = table["a"] * 2
    sojourn.flush()
    kept.copy_(table["b"])
    sojourn.flush()
    with pytest.raises(sojourn.Refused):
        sojourn.publish(kept)


def test_what_is_pending_survives_a_quote_that_fails(owner, table):
    mean = table["a"].mean()
    with pytest.raises(sojourn.Refused):
        sojourn.quote(table["b"].median(), epsilon=1)
    assert sojourn.publish(mean, epsilon=1).stderr > 0
