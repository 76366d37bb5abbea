# SPDX-License-Identifier: Apache-2.0
"""What a publish that is refused leaves behind: what was pending beside it is still there, and nothing was paid."""

import pytest
import torch
from private_support import DELTA, make_table, numpy_rng, own_owner  # noqa: F401
from torch import nn

import sojourn

ROWS, GRANT = 200, 2.0


@pytest.fixture
def arrays(rng):
    return {"age": rng.uniform(18, 100, ROWS), "dose": rng.uniform(0, 10, ROWS)}


@pytest.fixture
def table(owner, arrays):
    return make_table(owner, arrays, {"age": (18, 100), "dose": (0, 10)}, GRANT)


def test_after_a_refusal_a_value_is_published_in_another_way(table, arrays):
    doubled = table["age"] * 2
    with pytest.raises(sojourn.Refused, match="row"):
        sojourn.publish(doubled, epsilon=0.1)  # a value per row
    with pytest.raises(sojourn.Refused):
        sojourn.publish(doubled.median(), epsilon=0.1)
    mean = sojourn.publish(doubled.mean(), epsilon=1.0)
    assert float(mean) == pytest.approx(2 * arrays["age"].mean(), abs=12 * mean.stderr)


def test_after_the_budget_was_too_small(owner, table, arrays):
    doubled, before = table["age"] * 2, owner.budget("people").epsilon_left
    for epsilon in (50, 20, 5):
        with pytest.raises(sojourn.BudgetExhausted):
            sojourn.publish(doubled.mean(), epsilon=epsilon)
        assert owner.budget("people").epsilon_left == before
    mean = sojourn.publish(doubled.mean(), epsilon=1.0)
    assert float(mean) == pytest.approx(2 * arrays["age"].mean(), abs=12 * mean.stderr)


def test_what_was_pending_keeps_its_values(owner, table, rng):
    """Of open tensors and uploads; a write in place that was pending happens once."""
    host = torch.from_numpy(rng.normal(size=5))
    state = host.to(owner.device)
    sojourn.flush()
    state.add_(1)
    noise = torch.rand_like(state)
    ages = table["age"]
    for epsilon, error in ((50, sojourn.BudgetExhausted), (0.1, sojourn.Refused)):
        with pytest.raises(error):
            sojourn.publish(ages.mean() if epsilon == 50 else ages, epsilon=epsilon)
        if epsilon == 50:
            kept = sojourn.publish((state + noise * 0, noise))
            torch.testing.assert_close(kept[0], host + 1)
            state.add_(1)
    torch.testing.assert_close(sojourn.publish(state), host + 2)
    torch.testing.assert_close(sojourn.publish(noise), kept[1])


def test_steps_that_cost_something_are_not_tried_again(owner, table):
    """A training step that the budget does not pay is dropped with its publish: weights are what they were."""
    model = nn.Linear(1, 1, dtype=torch.float64)
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sojourn.to_owner(model, owner, optimizer)
    sojourn.flush()
    with sojourn.privacy(table, noise_multiplier=0.01, delta=DELTA):
        loss = (model(table["age"][:, None]) - table["dose"][:, None]).square().mean()
        loss.backward()
        optimizer.step()
        with pytest.raises(sojourn.BudgetExhausted):
            sojourn.publish(loss.detach())
        left = sojourn.publish(model.state_dict())
    for name, value in weights.items():
        torch.testing.assert_close(left[name], value)
    assert owner.budget("people").epsilon_left == GRANT


def test_an_explicit_step_is_dropped_whole(owner, table):
    counter = torch.zeros(1).to(owner.device)
    sojourn.flush()
    with pytest.raises(sojourn.Refused):
        with sojourn.step():
            counter.add_(1)
            sojourn.publish(table["age"], epsilon=0.1)
    assert sojourn.publish(counter).item() == 0


def test_refused_again_and_again(owner, table, rng):
    """However often the owner refuses what is published, what was pending beside it is lost for none of it."""
    host = torch.from_numpy(rng.normal(size=5))
    state, ages = host.to(owner.device), table["age"] * 1
    sojourn.flush()  # the owner alone knows now that what was computed of ages is private
    state.add_(1)
    thrice = state * 3
    for attempt in range(3):
        with pytest.raises(sojourn.Refused):
            sojourn.publish(ages.mean(), epsilon=0.1)
        with pytest.raises(sojourn.BudgetExhausted):
            sojourn.publish(table["age"].mean(), epsilon=50)
        state.add_(1)
    torch.testing.assert_close(sojourn.publish((state, thrice)), (host + 4, (host + 1) * 3))
    assert owner.budget("people").epsilon_left == GRANT


def test_beside_an_op_that_cannot_be_compiled(owner, table):
    """What neither may be published nor stay is gone at once, and the next flush does not fail for it."""
    counter, numbers = torch.zeros(1, dtype=torch.float64).to(owner.device), torch.arange(1, 5).to(owner.device)
    sojourn.flush()
    kept = counter + 5
    counter.add_(table["age"].median())
    torch.geqrf(torch.ones(300, 300).to(owner.device))
    with pytest.raises(sojourn.Unsupported, match="reflections"):
        sojourn.publish(table["age"], epsilon=0.1)
    assert sojourn.publish(numbers).tolist() == [1, 2, 3, 4]
    del kept
