# SPDX-License-Identifier: Apache-2.0
"""Private tables from the scientist's side: training, publishing, prices, refusals.

Oracles: eager PyTorch on the whole table (every row in every batch, hardly any noise), the table's
own statistics within the stated error, and the budget's arithmetic.
"""

import math
import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from private_support import DELTA, PLENTY, make_table, numpy_rng, own_owner  # noqa: F401
from torch import nn

import sojourn

ROWS, FEATURES = 96, ["a", "b", "c"]


def columns(rng):
    data = {name: rng.uniform(-1, 1, ROWS) for name in FEATURES}
    return {**data, "y": rng.integers(0, 2, ROWS)}


BOUNDS = {**dict.fromkeys(FEATURES, (-1.0, 1.0)), "y": (0, 1)}


def register(owner, data, epsilon=None, policy="private"):
    return make_table(owner, data, BOUNDS, epsilon, policy=policy)


def network(dtype=torch.float32):
    return nn.Sequential(nn.Linear(3, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 2)).to(dtype)


def stepper(model, optimizer, publish=False):
    @sojourn.step
    def train(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return sojourn.publish(loss.detach(), bound=20.0) if publish else None

    return train


def trainer(owner):
    """A small network at the owner, and its step."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sojourn.to_owner(model, owner, optimizer)
    return model, stepper(model, optimizer)


def test_every_row_and_hardly_any_noise_is_ordinary_training(owner, rng):
    data = columns(rng)
    table = register(owner, data, epsilon=PLENTY)
    model = network()
    eager = network()
    eager.load_state_dict(model.state_dict())
    optimizer, other = (torch.optim.SGD(m.parameters(), lr=0.5, momentum=0.9) for m in (model, eager))
    sojourn.to_owner(model, owner, optimizer)
    x = torch.tensor(np.stack([data[name] for name in FEATURES], 1), dtype=torch.float32)
    y = torch.tensor(data["y"])
    train = stepper(model, optimizer, publish=True)
    with sojourn.privacy(table, noise_multiplier=0.02, delta=DELTA, clip=20.0):
        for inputs, labels in table.batches(FEATURES, label="y", size=ROWS, epochs=5):
            published = train(inputs, labels)
            other.zero_grad()
            loss = F.cross_entropy(eager(x), y)
            loss.backward()
            other.step()
            assert abs(published.value.item() - loss.item()) < 6 * published.stderr
    weights = sojourn.publish(model.state_dict())
    # Noise of 0.4 / 96 per step and coordinate, carried on by the momentum.
    for name, value in eager.state_dict().items():
        assert (weights[name] - value).abs().max() < 0.1, name


def test_what_was_released_is_free_and_stays_what_it_is(owner, rng):
    table = register(owner, columns(rng), epsilon=3)
    model = network()
    optimizer = torch.optim.Adam(model.parameters())
    sojourn.to_owner(model, owner, optimizer)
    train = stepper(model, optimizer)
    with sojourn.privacy(table, epsilon=2, delta=DELTA) as run:
        for x, y in table.batches(FEATURES, label="y", size=16, epochs=2):
            train(x, y)
    assert run.epsilon == pytest.approx(2, abs=1e-3)
    left = owner.budget("people").epsilon_left
    assert left == pytest.approx(1, abs=1e-3)
    first, second = (sojourn.publish(model.state_dict()) for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert owner.budget("people").epsilon_left == left
    gradient = sojourn.publish(next(model.parameters()).grad)
    assert torch.isfinite(gradient).all()


def test_a_run_fits_a_grant_of_its_size_and_not_one_step_more(owner, rng):
    table = register(owner, columns(rng), epsilon=1.5)
    model, train = trainer(owner)
    with sojourn.privacy(table, epsilon=1.5, delta=DELTA) as run:
        batches = table.batches(FEATURES, label="y", size=32, epochs=3)
        assert run.steps == 9 == len(batches)
        for x, y in batches:
            train(x, y)
        before = sojourn.publish(model.state_dict())
        x, y = next(iter(batches))
        with pytest.raises(sojourn.BudgetExhausted, match="9 steps|plan"):
            train(x, y)
    after = sojourn.publish(model.state_dict())
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_plan_that_the_budget_does_not_hold_is_refused_at_once(owner, rng):
    table = register(owner, columns(rng), epsilon=1.0)
    _, train = trainer(owner)
    with sojourn.privacy(table, noise_multiplier=1.0, delta=DELTA):
        x, y = next(iter(table.batches(FEATURES, label="y", size=8, epochs=1000)))
        with pytest.raises(sojourn.BudgetExhausted, match=r"dataset 'people'"):
            train(x, y)
    assert owner.budget("people").epsilon_left == 1.0


def test_a_budget_that_runs_out_in_the_middle_says_what_was_spent(owner, rng):
    table = register(owner, columns(rng), epsilon=3)
    model, train = trainer(owner)
    batches = iter(table.batches(FEATURES, label="y", size=8, epochs=1000))  # no plan: the owner's defaults
    taken = 0
    with pytest.raises(sojourn.BudgetExhausted) as refusal:
        for x, y in batches:
            train(x, y)
            taken += 1
            before = sojourn.publish(model.state_dict())
    assert taken > 0
    price = sojourn.privacy(table, noise_multiplier=1.0, delta=DELTA, size=8, epochs=1000).quote(taken).epsilon
    said = re.search(rf"The run took {taken} steps, which cost epsilon ([0-9.]+)", str(refusal.value))
    assert float(said[1]) == pytest.approx(price, rel=1e-3) and 2 < price < 3
    after = sojourn.publish(model.state_dict())
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_run_that_ends_early_is_charged_for_its_steps(owner, rng):
    table = register(owner, columns(rng), epsilon=3)
    _, train = trainer(owner)
    with sojourn.privacy(table, epsilon=2.5, delta=DELTA) as run:
        for step, (x, y) in enumerate(table.batches(FEATURES, label="y", size=8, epochs=4)):
            train(x, y)
            if step == 4:
                break
    left = owner.budget("people").epsilon_left
    assert 3 - left == pytest.approx(run.quote(5).epsilon, rel=1e-6) == run.epsilon
    assert 3 - left < 2  # not the 2.5 of the whole run


def test_statistics_are_as_close_as_their_errors_say(owner, rng):
    data = columns(rng)
    table = register(owner, data, epsilon=300)
    truth = data["a"].mean()
    for delta in (None, 1e-6):
        values = [sojourn.publish(table["a"].mean(), epsilon=1.0, delta=delta) for _ in range(40)]
        error = values[0].stderr
        # A row moves the mean of numbers in [-1, 1] by at most 1/96; Laplace noise of about that over epsilon.
        assert (0.5 if delta is None else 1) / ROWS < error < (2.5 if delta is None else 8) / ROWS
        found = np.array([float(value) for value in values])
        assert len(set(found)) == 40
        assert abs(found.mean() - truth) < 6 * error / math.sqrt(40)
        assert 0.4 * error < found.std() < 2.2 * error
    count = sojourn.publish((table["y"] == 1).sum(), epsilon=1.0)
    assert abs(int(count) - int(data["y"].sum())) < 12 * count.stderr + 1
    two = sojourn.publish({"sum": table["b"].sum(), "cross": (table["a"] * table["b"]).mean()}, epsilon=5.0)
    assert abs(two.value["sum"] - data["b"].sum()) < 12 * two.stderr["sum"]
    assert abs(two.value["cross"] - (data["a"] * data["b"]).mean()) < 12 * two.stderr["cross"]


def test_a_price_is_what_it_costs_and_comes_with_a_receipt(owner, rng):
    table = register(owner, columns(rng), epsilon=2)
    answer = sojourn.publish(table["a"].mean(), epsilon=0.25)
    receipt = answer.receipt
    assert receipt.client == "local" and receipt.price[0]["dataset"] == "people"
    assert receipt.price[0]["epsilon"] == pytest.approx(0.25, rel=1e-3)
    assert receipt.verify(owner.key)
    assert owner.budget("people").epsilon_left == pytest.approx(1.75, rel=1e-2)
    with pytest.raises(sojourn.BudgetExhausted, match=r"epsilon 2 at delta 1e-05"):
        sojourn.publish(table["a"].mean(), epsilon=1.99)


@pytest.mark.parametrize("delta", [None, 1e-6])
def test_statistics_that_are_published_together_share_a_price(owner, rng, delta):
    table = register(owner, columns(rng), epsilon=3)
    alone = sojourn.quote(table["a"].mean(), epsilon=0.5, delta=delta).stderr
    answer = sojourn.publish(
        {"a": table["a"].mean(), "b": table["b"].mean(), "c": table["c"].mean(), "y": (table["y"] == 1).sum()},
        epsilon=0.5,
        delta=delta,
    )
    # Gaussian noise on four numbers costs what it does on one; four Laplace releases cost no more than their sum.
    price = answer.receipt.price[0]["epsilon"]
    assert price <= 0.5 * (1 + 1e-3) and (delta is None or price == pytest.approx(0.5, rel=1e-2))
    assert owner.budget("people").epsilon_left >= 2.5 * (1 - 1e-3)
    assert answer.stderr["a"] == pytest.approx((4 if delta is None else 2) * alone, rel=1e-3)
    # Another publish in the same step has a price of its own.
    with sojourn.step():
        one = sojourn.publish(table["a"].mean(), epsilon=0.5, delta=delta)
        two = sojourn.publish([table["b"].mean(), table["c"].mean()], epsilon=0.5, delta=delta)
    assert one.stderr == pytest.approx(alone, rel=1e-6)
    assert two.stderr[0] == pytest.approx((2 if delta is None else math.sqrt(2)) * alone, rel=1e-3)


def test_two_draws_in_a_step_are_two_charges(owner, rng):
    table = register(owner, columns(rng), epsilon=50)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sojourn.to_owner(model, owner, optimizer)

    @sojourn.step
    def train(batches):
        optimizer.zero_grad()
        sum(F.cross_entropy(model(x), y) for x, y in batches).backward()
        optimizer.step()

    with sojourn.privacy(table, noise_multiplier=1.0, delta=DELTA) as run:
        train(list(table.batches(FEATURES, label="y", size=16, epochs=1))[:2])
    spent = 50 - owner.budget("people").epsilon_left
    assert spent == pytest.approx(run.quote(2).epsilon, rel=1e-6)
    assert spent > 1.05 * run.quote(1).epsilon


def test_prices_are_known_before_anything_runs(owner, rng):
    table = register(owner, columns(rng))
    run = sojourn.privacy(table, epsilon=3, delta=DELTA, size=16, epochs=10)
    assert "noise multiplier" in repr(run)
    quote = run.quote()
    assert quote.epsilon == pytest.approx(3, rel=1e-3) and quote.steps == 60
    inverse = sojourn.privacy(table, noise_multiplier=run.noise_multiplier, delta=DELTA, size=16, epochs=10)
    assert inverse.quote().epsilon == pytest.approx(quote.epsilon, rel=1e-6)
    assert run.quote(10).epsilon < run.quote(20).epsilon < quote.epsilon


def test_a_run_of_one_step_is_over_at_its_end(owner, rng):
    table = register(owner, columns(rng), epsilon=3)
    _, train = trainer(owner)
    with sojourn.privacy(table, epsilon=2.5, delta=DELTA) as run:
        for x, y in table.batches(FEATURES, label="y", size=8, epochs=4):
            train(x, y)
            break
    assert 3 - owner.budget("people").epsilon_left == pytest.approx(run.quote(1).epsilon, rel=1e-6)


def test_a_run_is_of_the_part_that_its_batches_are_of(owner, rng):
    table = register(owner, columns(rng), epsilon=3)
    part, _ = table.split(0.5, seed=1)
    with sojourn.privacy(part, epsilon=2, delta=DELTA) as run:
        with pytest.raises(sojourn.Error, match="declared for 48 rows of 'people', but the batches are drawn from 96"):
            table.batches(FEATURES, size=8)
        part.batches(FEATURES, size=8)
        assert run.steps == 6


def test_a_run_counts_the_steps_of_its_own_table(owner, rng):
    table = register(owner, columns(rng), epsilon=60)
    other = owner.register("others", columns(rng), policy="open", bounds=BOUNDS)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sojourn.to_owner(model, owner, optimizer)

    @sojourn.step
    def train(*batches):
        optimizer.zero_grad()
        sum(F.cross_entropy(model(x), y) for x, y in batches).backward()
        optimizer.step()

    with sojourn.privacy(table, noise_multiplier=1.0, delta=DELTA) as run:
        pairs = zip(*(t.batches(FEATURES, label="y", size=32) for t in (table, other)))
        for own, open_one in pairs:
            train(own, open_one)
    assert run.epsilon == pytest.approx(run.quote(3).epsilon) == 60 - owner.budget("people").epsilon_left
    assert torch.isfinite(sojourn.publish(model.state_dict())["0.weight"]).all()


def test_a_run_prints_what_is_known_without_a_budget(owner, rng):
    table = register(owner, columns(rng))
    with sojourn.privacy(table, noise_multiplier=2.0) as run:
        table.batches(FEATURES, size=8)
        for part in ("noise multiplier 2", "12 steps", "sampling rate 0.08333", "there is no budget yet"):
            assert part in repr(run)


def test_open_tables_take_the_same_script(owner, rng):
    data = columns(rng)
    table = register(owner, data, policy="open")
    model = network()
    optimizer = torch.optim.Adam(model.parameters())
    sojourn.to_owner(model, owner, optimizer)
    train = stepper(model, optimizer, publish=True)
    with sojourn.privacy(table, epsilon=3, delta=DELTA, epochs=1, clip=1.0) as run:
        losses = [train(x, y).value.item() for x, y in table.batches(FEATURES, label="y", size=32)]
    assert len(losses) == 3 and run.epsilon == 0
    mean = sojourn.publish(table["a"].mean(), epsilon=0.1)
    assert float(mean) == pytest.approx(data["a"].mean()) and mean.stderr == 0


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda t: t["a"], "per row of private data"),
        (lambda t: t["a"].max(), "taken over rows"),
        (lambda t: t["a"].sort().values.mean(), "runs along rows"),
        (lambda t: t["a"].prod(), "taken over rows"),
        (lambda t: t["a"][3], "single row"),
        (lambda t: t["a"].median(), "rows"),
        (lambda t: t["a"].cumsum(0).sum(), "runs along rows"),
        (lambda t: (t["a"].unsqueeze(0) - t["a"].unsqueeze(1)).abs().sum(), "different places"),
    ],
)
def test_what_cannot_be_proved_is_refused_with_the_reason(owner, rng, make, text):
    table = register(owner, columns(rng), epsilon=10)
    with pytest.raises(sojourn.Refused, match=text):
        sojourn.publish(make(table), epsilon=1.0)
    assert owner.budget("people").epsilon_left == 10


def test_batch_norm_and_contrastive_losses_are_refused(owner, rng):
    table = register(owner, columns(rng), epsilon=10)
    losses = {
        "meet a value that was summed over rows": (
            nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)),
            F.cross_entropy,
        ),
        "rows": (
            nn.Linear(3, 4),
            lambda out, y: F.cross_entropy(out @ out.T, torch.arange(len(out), device=out.device)),
        ),
    }
    for text, (model, loss) in losses.items():
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        sojourn.to_owner(model, owner, optimizer)
        x, y = next(iter(table.batches(FEATURES, label="y", size=16)))
        with pytest.raises(sojourn.Refused, match=text), sojourn.step():
            loss(model(x), y).backward()
            optimizer.step()


def test_without_a_price_or_a_budget_nothing_leaves(owner, rng):
    table = register(owner, columns(rng))
    with pytest.raises(sojourn.BudgetExhausted, match=r"owner.grant"):
        sojourn.publish(table["a"].mean(), epsilon=0.5)
    owner.grant("people", epsilon=1, delta=DELTA)
    with pytest.raises(sojourn.Refused, match=r"has no price"):
        sojourn.publish(table["a"].mean())
    assert owner.budget("people").epsilon_left == 1


@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf, True])
def test_impossible_numbers_are_refused_by_name(owner, rng, value):
    table = register(owner, columns(rng), epsilon=1)
    with pytest.raises(sojourn.Error, match="epsilon"):
        sojourn.publish(table["a"].mean(), epsilon=value)
    for name in ("epsilon", "clip", "noise_multiplier"):
        with pytest.raises(sojourn.Error, match=name):
            sojourn.privacy(table, **{name: value})
    with pytest.raises(sojourn.Error, match="epsilon"):
        owner.grant("people", epsilon=value, delta=DELTA)
    assert owner.budget("people").epsilon_left == 1


def test_a_published_value_needs_a_part_of_the_price(owner, rng):
    table = register(owner, columns(rng), epsilon=5)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sojourn.to_owner(model, owner, optimizer)
    train = stepper(model, optimizer, publish=True)
    with sojourn.privacy(table, noise_multiplier=1.0, delta=DELTA, metric_share=0.0):
        x, y = next(iter(table.batches(FEATURES, label="y", size=16)))
        with pytest.raises(sojourn.Refused, match="no share of the step's price"):
            train(x, y)


def test_a_kept_sum_without_noise_is_refused_and_named(owner, rng):
    table = register(owner, columns(rng), epsilon=5)
    total = torch.zeros((), device=owner.device)
    sojourn.flush()
    x = next(iter(table.batches(FEATURES, size=16)))
    with pytest.raises(sojourn.Refused, match="publish the sum inside the step"), sojourn.step():
        total += x.mean()


def test_batches_of_a_private_table_are_the_owners_draw(owner, rng):
    table = register(owner, columns(rng), epsilon=5)
    with pytest.raises(sojourn.Error, match="shuffle=False"):
        table.batches(FEATURES, size=8, shuffle=False)
    batches = table.batches(FEATURES, size=8, epochs=2)
    assert len(batches) == 2 * ROWS // 8
    x = next(iter(batches))
    assert x.shape[0] % 8 == 0 and x.shape[0] > 8
    with pytest.raises(sojourn.Refused):
        sojourn.publish(x, epsilon=1.0)


def test_less_precise_products_are_refused(owner, rng):
    """Under bfloat16 products no bound of rounding holds, so the owner runs no private step."""
    table = register(owner, columns(rng), epsilon=3)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        with pytest.raises(sojourn.Refused, match="less precision than float32 has"):
            sojourn.publish(table["a"].mean(), epsilon=0.1)
    finally:
        torch.set_float32_matmul_precision(before)
    assert sojourn.publish(table["a"].mean(), epsilon=0.1).stderr > 0


def test_batches_made_before_the_run_belong_to_it(owner, rng):
    table = register(owner, columns(rng), epsilon=50)
    _, train = trainer(owner)
    batches = table.batches(FEATURES, label="y", size=8, epochs=1)
    with sojourn.privacy(table, noise_multiplier=0.5, delta=DELTA) as run:
        for x, y in batches:
            train(x, y)
        assert run.steps == 12
    spent = 50 - owner.budget("people").epsilon_left
    assert spent == pytest.approx(run.epsilon, rel=1e-6) and spent > 5
