# SPDX-License-Identifier: Apache-2.0
"""What a `sojourn.privacy` shows of itself: steps and price are what the owner charged, whatever ways a loop takes.

Oracle: the budget after the run is over, when the owner has returned what was not used.
"""

import contextlib
import re
import warnings

import pytest
import torch
import torch.nn.functional as F
from private_support import DELTA, make_table, numpy_rng, own_owner  # noqa: F401
from torch import nn

import sojourn

ROWS, SIZE, GRANT = 96, 16, 50.0
STEPS = ROWS // SIZE


def columns(rng):
    return {"a": rng.uniform(0, 1, ROWS), "b": rng.uniform(-1, 1, ROWS), "y": rng.integers(0, 2, ROWS)}


BOUNDS = {"a": (0, 1), "b": (-1, 1), "y": (0, 1)}


@pytest.fixture
def table(owner, rng):
    return make_table(owner, columns(rng), BOUNDS, GRANT)


def stepper(owner):
    """A step that trains on each of its batches."""
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sojourn.to_owner(model, owner, optimizer)

    @sojourn.step
    def train(*batches):
        optimizer.zero_grad()
        sum(F.cross_entropy(model(x), y) for x, y in batches).backward()
        optimizer.step()

    train.model = model
    return train


def batches(table, epochs=1):
    return table.batches(["a", "b"], label="y", size=SIZE, epochs=epochs)


def check(owner, run, taken):
    """After the run: what it shows is what was paid."""
    assert run.taken == taken
    assert run.epsilon == pytest.approx(GRANT - owner.budget("people").epsilon_left, rel=1e-6, abs=1e-9)
    assert (run.epsilon > 0) == (taken > 0)


def test_a_refused_step_is_not_shown(owner, table):
    train = stepper(owner)
    with sojourn.privacy(table, epsilon=60, delta=DELTA) as run:
        with pytest.raises(sojourn.BudgetExhausted):
            for batch in batches(table, epochs=2):
                train(batch)
        assert (run.taken, run.epsilon) == (0, 0)
    check(owner, run, taken=0)


def test_a_step_beyond_the_plan_is_not_shown(owner, table):
    train = stepper(owner)
    with sojourn.privacy(table, epsilon=3, delta=DELTA) as run:
        loop = batches(table, epochs=2)
        for batch in loop:
            train(batch)
        with pytest.raises(sojourn.BudgetExhausted, match="plan has 12 steps"):
            train(next(iter(loop)))
    check(owner, run, taken=12)


@pytest.mark.parametrize("publishes", [False, True])
def test_a_batch_that_no_step_uses_is_not_shown(owner, table, publishes):
    train = stepper(owner)
    with sojourn.privacy(table, epsilon=3, delta=DELTA) as run:
        for number, batch in enumerate(batches(table)):
            if number == 4:
                break
            train(batch)
        if publishes:
            sojourn.publish(train.model.state_dict())
    check(owner, run, taken=4)


def test_batches_of_two_iterators_are_two_draws(owner, table):
    train = stepper(owner)
    with sojourn.privacy(table, noise_multiplier=2.0, delta=DELTA) as run:
        for one, other in zip(batches(table), batches(table)):
            train(one, other)
    check(owner, run, taken=STEPS)
    assert run.epsilon == pytest.approx(run.quote(2 * STEPS).epsilon, rel=1e-6)


def test_different_batches_in_a_step_are_two_draws(owner, table):
    train = stepper(owner)
    with sojourn.privacy(table, noise_multiplier=2.0, delta=DELTA) as run:
        loop = iter(batches(table))
        for one in loop:
            train(one, next(loop))
    check(owner, run, taken=STEPS // 2)
    assert run.epsilon == pytest.approx(run.quote(STEPS).epsilon, rel=1e-6)


@pytest.mark.parametrize(
    "terms", [{"epsilon": 3, "size": ROWS, "epochs": 30}, {"noise_multiplier": 4.0}], ids=["plan", "no plan"]
)
def test_whole_tables_are_counted_and_what_is_left_comes_back(owner, table, terms):
    train = stepper(owner)
    with sojourn.privacy(table, delta=DELTA, **terms) as run:
        for _ in range(3):
            train((table.rows(["a", "b"]), table["y"]))
        noise = run.noise_multiplier
    check(owner, run, taken=3)
    # Three Gaussian releases of all rows are one with a third of the variance.
    alone = sojourn.privacy(table, noise_multiplier=noise / 3**0.5, delta=DELTA, size=ROWS, epochs=1)
    assert run.epsilon == pytest.approx(alone.quote().epsilon, rel=1e-6)


def test_what_is_left_comes_back_where_the_price_cannot_be_told(owner, table, monkeypatch):
    """The end of a run reaches the owner although the client fails to say what the run cost."""

    def fails(run):
        raise sojourn.Error("no price today")

    train = stepper(owner)
    with pytest.raises(sojourn.Error, match="no price today"):
        with sojourn.privacy(table, noise_multiplier=4.0, delta=DELTA) as run:
            for _ in range(3):
                train((table.rows(["a", "b"]), table["y"]))
            held = GRANT - owner.budget("people").epsilon_left
            monkeypatch.setattr(sojourn.privacy, "_spent", fails)
    monkeypatch.undo()
    check(owner, run, taken=3)
    assert run.epsilon < held, "a block of steps was held, and 3 were taken"


def test_values_with_prices_of_their_own_are_beside_the_run(owner, table):
    with sojourn.privacy(table, noise_multiplier=2.0, delta=DELTA) as run:
        loop = batches(table)
        sojourn.publish(table["a"].mean(), epsilon=0.5)
        assert (run.taken, run.epsilon) == (0, 0)
        train = stepper(owner)
        for batch in loop:
            train(batch)
    assert run.taken == STEPS
    assert run.epsilon == pytest.approx(run.quote().epsilon, rel=1e-9)


def test_an_exception_in_a_step_is_not_shown(owner, table):
    train = stepper(owner)
    with sojourn.privacy(table, epsilon=3, delta=DELTA) as run:
        for number, batch in enumerate(batches(table)):
            if number == 2:
                with pytest.raises(TypeError):
                    train(batch, None)
            else:
                train(batch)
    check(owner, run, taken=STEPS - 1)


def test_an_exception_in_the_loop_ends_the_run(owner, table):
    train = stepper(owner)
    with pytest.raises(KeyError), sojourn.privacy(table, epsilon=3, delta=DELTA) as run:
        for number, batch in enumerate(batches(table)):
            if number == 2:
                raise KeyError
            train(batch)
    check(owner, run, taken=2)


def test_a_loop_over_epochs(owner, table):
    train = stepper(owner)
    with sojourn.privacy(table, epsilon=1, delta=DELTA, epochs=3) as run:
        for _ in range(3):
            for batch in batches(table):
                train(batch)
        assert run.steps == 3 * STEPS == run.taken
        with pytest.raises(
            sojourn.Error, match=r"epochs=3: 18 steps, of which 18 are taken, and these .* 6 more"
        ) as said:
            batches(table)
        assert "privacy(..., epochs=4)" in str(said.value)
    check(owner, run, taken=3 * STEPS)
    assert run.epsilon == pytest.approx(1, abs=1e-3)


def test_parts_of_a_plan_of_any_length(owner, table):
    train = stepper(owner)
    with sojourn.privacy(table, epsilon=1, delta=DELTA, epochs=3) as run:
        for epochs in (1, 2):
            for batch in batches(table, epochs):
                train(batch)
    check(owner, run, taken=3 * STEPS)
    with sojourn.privacy(table, epsilon=1, delta=DELTA, epochs=3):
        with pytest.raises(sojourn.Error, match="epochs=3: 18 steps, of which 0 are taken, and these batches have 24"):
            batches(table, epochs=4)
        with pytest.raises(sojourn.Error, match="declared with size=16, but the batches have size=8"):
            batches(table)
            table.batches(["a"], size=8)


def test_without_epochs_the_first_batches_fix_the_plan(owner, table):
    train = stepper(owner)
    with sojourn.privacy(table, epsilon=1, delta=DELTA) as run:
        with pytest.raises(sojourn.Error, match="epochs=1, set by the first batches of the run: 6 steps") as said:
            for _ in range(3):
                for batch in batches(table):
                    train(batch)
        assert "privacy(..., epochs=2)" in str(said.value)
    check(owner, run, taken=STEPS)


def test_a_run_is_entered_once(owner, table):
    with sojourn.privacy(table, epsilon=1, delta=DELTA) as run:
        with pytest.raises(sojourn.Error, match="already entered: a run is one `with` block"):
            run.__enter__()
    with pytest.raises(sojourn.Error, match="already entered"), run:
        pass


def test_what_is_known_is_printed_at_once(owner, table):
    part, _ = table.split(0.5, seed=3)
    with sojourn.privacy(part, epsilon=3, delta=1e-6, epochs=20, clip=0.5, loss="sum") as run:
        text = repr(run)
        for known in ("epsilon 3 at delta 1e-06", "48 rows", "20 epochs", "clipped to 0.5,", "a sum over the batch"):
            assert known in text
        assert text.endswith(
            "the noise multiplier follows from size, which comes with the batches or as privacy(..., size=)"
        )
    with sojourn.privacy(table, noise_multiplier=1.5, size=32) as run:
        text = repr(run)
        for known in ("noise multiplier 1.5 at delta 1e-05", "96 rows", "batches of 32, sampling rate 0.3333"):
            assert known in text
        assert "the price follows from epochs" in text
    owner.set_defaults("people", noise_multiplier=2.5, clip=3.0)
    with sojourn.privacy(owner.dataset("people")) as run:
        text = repr(run)
        assert "the table's default noise multiplier, 2.5" in text and "clipped to 3, the table's default" in text
        assert "size and epochs, which come with the batches" in text
    with sojourn.privacy(table, epsilon=3, size=SIZE, epochs=2) as run:
        multiplier = run.noise_multiplier
        assert f"noise multiplier {multiplier:.4g}, sampling rate 0.1667 of 96 rows" in repr(run)


def noted(step) -> list[str]:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        step()
    note = "divisor of the loss was replaced"
    return [f"{warning.filename}: {warning.message}" for warning in told if note in str(warning.message)]


@pytest.mark.parametrize("declared", [True, False])
def test_a_changed_divisor_is_told_by_the_first_step(owner, table, declared):
    """A loss over valid labels only is divided by a count that is private; it is told once, where the step is called."""
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sojourn.to_owner(model, owner, optimizer)

    @sojourn.step
    def train(x, y):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y, ignore_index=1).backward()
        optimizer.step()

    def loop():
        told = []
        for x, y in batches(table):
            told.append(noted(lambda x=x, y=y: train(x, y)))
        return told

    if declared:
        with sojourn.privacy(table, noise_multiplier=2.0, delta=DELTA):
            told = loop()
    else:
        told = loop()
    assert len(told[0]) == 1 and told[0][0].startswith(__file__)
    # The second step brings no weights along, and is a program of its own; later ones were told of.
    assert not any(told[2:])


def test_open_tables_have_plans_that_cost_nothing(owner, rng):
    table = owner.register("open", columns(rng), policy="open", bounds=BOUNDS)
    train = stepper(owner)
    with sojourn.privacy(table, epsilon=3, size=7) as run:
        for batch in batches(table, epochs=2):
            train(batch)
        assert run.steps == 2 * STEPS and run.noise_multiplier == 0 and run.epsilon == 0
        assert run.sampling_rate == pytest.approx(SIZE / ROWS)
        assert (run.quote().epsilon, run.quote().steps) == (0, 2 * STEPS)
        assert "nothing is charged" in str(run.quote()) and "nothing is spent" in repr(run)


BAD = {
    "size": [0, -1, 1.5, "x"],
    "epochs": [0, -1, 2.5, True],
    "metric_share": ["x", -0.1, 0.96, True, float("nan")],
    "clip": [1e-300, 1e300, 0, "x"],
    "noise_multiplier": [1e-300, 2.0**21, 0, float("inf")],
    "epsilon": [1e300, 0, float("nan"), None.__class__],
    "delta": [1.0, 0, 2],
}


@pytest.mark.parametrize("name, value", [(name, value) for name, values in BAD.items() for value in values])
def test_bad_numbers_are_named(table, name, value):
    with pytest.raises(sojourn.Error, match=f"{name} must be") as refusal:
        sojourn.privacy(table, **{name: value})
    assert re.search(r"(number|integer)", str(refusal.value)) and repr(value) in str(refusal.value)


def test_quotes_of_less_than_no_steps(table):
    run = sojourn.privacy(table, epsilon=1, delta=DELTA, size=SIZE, epochs=1)
    with pytest.raises(sojourn.Error, match="steps must be an integer of at least 0, got -1"):
        run.quote(-1)
    assert run.quote(0).epsilon == 0


def test_budgets_of_tables_that_are_not_there(owner, table):
    with pytest.raises(sojourn.Error, match="typo.*people"):
        owner.budget("typo")
    with pytest.raises(sojourn.Error, match="name must be a str"):
        owner.budget(3)


def test_batches_that_outlive_their_step(owner, table):
    """Drawn in the step that is sent first, whether another was dropped before. Kept for a later one they cost nothing
    more, and what comes of them stays."""
    train = stepper(owner)
    with sojourn.privacy(table, noise_multiplier=2.0, delta=DELTA) as run:
        collected = list(batches(table))[:3]
        with pytest.raises(TypeError):
            train(collected[0], None)
        train(collected[0], collected[1])
        sojourn.publish(train.model.state_dict())
        with pytest.warns(UserWarning, match="can no longer be published.*'people', read by an earlier step"):
            train(collected[1], collected[2])
        train(collected[1], collected[2])  # told once
    check(owner, run, taken=1)
    assert run.epsilon == pytest.approx(run.quote(2).epsilon, rel=1e-6)
    with pytest.raises(sojourn.Refused, match="may not leave the owner"):
        sojourn.publish(train.model.state_dict())


@pytest.mark.parametrize("between", [False, True], ids=["together", "flushed between"])
def test_two_optimizers_without_a_declared_step(owner, table, between):
    """Both updates of a batch travel together, and both models may be published; parted, the second says what to do."""
    models = [nn.Linear(2, 2) for _ in range(2)]
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
    for model, optimizer in zip(models, optimizers):
        sojourn.to_owner(model, owner, optimizer)
    told = pytest.warns(UserWarning, match="two updates from one batch, put both in one @sojourn.step")
    with told if between else contextlib.nullcontext(), sojourn.privacy(table, noise_multiplier=2.0, delta=DELTA):
        for x, _ in batches(table):
            optimizers[0].zero_grad()
            models[0](x).square().mean().backward()
            optimizers[0].step()
            if between:
                sojourn.flush()
            optimizers[1].zero_grad()
            models[1](models[0](x)).square().mean().backward()
            optimizers[1].step()
        sojourn.flush()
    sojourn.publish(models[0].state_dict())
    with pytest.raises(sojourn.Refused, match="may not leave") if between else contextlib.nullcontext():
        sojourn.publish(models[1].state_dict())


def test_two_updates_on_a_batch_are_paid_twice(owner, table):
    models = [nn.Linear(2, 2) for _ in range(2)]
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
    for model, optimizer in zip(models, optimizers):
        sojourn.to_owner(model, owner, optimizer)
    with sojourn.privacy(table, noise_multiplier=2.0, delta=DELTA) as run:
        for x, y in batches(table):
            with sojourn.step():
                for model, optimizer in zip(models, optimizers):
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
    check(owner, run, taken=STEPS)


def test_batches_and_the_whole_table_in_one_run(owner, table):
    train = stepper(owner)
    with sojourn.privacy(table, noise_multiplier=3.0, delta=DELTA, epochs=2) as run:
        for x, y in batches(table):
            train((x, y), (table.rows(["a", "b"]), table["y"]))
    check(owner, run, taken=STEPS)


def test_metrics_with_and_without_prices_in_a_step(owner, table):
    train = stepper(owner)
    with sojourn.privacy(table, noise_multiplier=2.0, delta=DELTA) as run:
        for number, (x, y) in enumerate(batches(table)):
            with sojourn.step():
                sojourn.publish(x.sum(), bound=2.0, epsilon=0.25 if number % 2 else None)
            if number == 3:
                break
        with sojourn.step():
            train.model(x)  # rows that nothing comes of
    assert run.taken == 2
    assert run.epsilon == pytest.approx(run.quote(2).epsilon, rel=1e-6)
    assert GRANT - owner.budget("people").epsilon_left > run.epsilon + 0.1


def test_an_inner_run_has_its_own_price(owner, table, rng):
    other = owner.register("others", columns(rng), policy="private", bounds=BOUNDS)
    owner.grant("others", epsilon=GRANT, delta=DELTA)
    train = stepper(owner)
    with sojourn.privacy(table, epsilon=2, delta=DELTA, epochs=2) as run:
        for batch in batches(table):
            train(batch)
        with sojourn.privacy(other, epsilon=1, delta=DELTA) as inner:
            with pytest.raises(sojourn.Refused, match="noise is not known yet.* size=, epochs="):
                train((table.rows(["a", "b"]), table["y"]))
            for batch in batches(other):
                train(batch)
        assert inner.epsilon == pytest.approx(1, abs=1e-3) and inner.taken == STEPS
        for batch in batches(table):
            train(batch)
    check(owner, run, taken=2 * STEPS)
    assert inner.epsilon == pytest.approx(GRANT - owner.budget("others").epsilon_left, rel=1e-6)


def test_steps_before_the_noise_is_known_are_refused(owner, table):
    """Terms of its own were asked for: the table's defaults do not stand in for them."""
    train = stepper(owner)
    whole = table.rows(["a", "b"]), table["y"]
    with sojourn.privacy(table, epsilon=2, delta=DELTA) as run:
        with pytest.raises(sojourn.Refused, match="noise is not known yet"):
            train(whole)
        sojourn.publish(table["a"].mean(), epsilon=0.5)  # has a price of its own
        for batch in batches(table):
            train(batch)
    assert run.taken == STEPS and run.epsilon == pytest.approx(2, abs=1e-3)
    # Charges compose to less than their sum.
    assert run.epsilon < GRANT - owner.budget("people").epsilon_left <= run.epsilon + 0.5 + 1e-6
