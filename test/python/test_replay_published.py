# SPDX-License-Identifier: Apache-2.0
"""Published values of replayed steps with a bound: the price and the noise are those of traced ones."""

import pytest
import torch
import torch.nn.functional as F
from private_support import DELTA, make_table, numpy_rng, own_owner  # noqa: F401
from remote_support import shared_owner
from replay_support import same
from torch import nn

import sojourn

ROWS, SIZE, EPOCHS = 400, 40, 3


def columns_of(rng):
    return {"a": rng.uniform(-1, 1, ROWS), "b": rng.uniform(-1, 1, ROWS), "y": rng.integers(0, 2, ROWS)}


BOUNDS = {"a": (-1, 1), "b": (-1, 1), "y": (0, 1)}


def trainer(device, bound, calls):
    torch.manual_seed(5)
    model = nn.Linear(2, 2).to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def train(x, y):
        calls.append(1)
        optimizer.zero_grad()
        losses = F.cross_entropy(model(x), y, reduction="none")
        losses.mean().backward()
        optimizer.step()
        hits = (losses.detach() < 0.7).float().mean()
        return sojourn.publish(losses.mean().detach(), bound=bound), sojourn.publish({"hits": hits}, bound=1.0)

    return train


def each(step, batches):
    return [step(x, y) for x, y in batches]


RUNS = {
    "traced": lambda train, batches: each(sojourn.step(train), batches),
    "replayed": lambda train, batches: each(sojourn.step(train, replay=True), batches),
    "looped": lambda train, batches: sojourn.loop(train, batches, per_trip=8),
}


@pytest.mark.parametrize("bound", [2.0, 0.5])
def test_a_bound_says_the_same_in_each_message(owner, rng, seed, bound):
    columns, found = columns_of(rng), {}
    for name, run in RUNS.items():
        table, calls = make_table(owner, columns, BOUNDS, 100.0, name=name), []
        with sojourn.privacy(table, epsilon=5, delta=DELTA, epochs=EPOCHS) as spent:
            train = trainer(owner.device, bound, calls)
            results = run(train, table.batches(["a", "b"], label="y", size=SIZE, epochs=EPOCHS))
        errors = [(loss.stderr, hits.stderr) for loss, hits in results]
        assert all(abs(float(loss.value)) < 100 * bound for loss, _ in results)
        found[name] = errors, spent.epsilon, spent.taken, owner.budget(name).epsilon_left
        assert len(calls) == (len(results) if name == "traced" else 3), sojourn.explain()
    assert found["traced"] == found["replayed"] == found["looped"]
    assert len({str(each) for each in found["traced"][0]}) == 1 and found["traced"][2] == 30


def test_another_bound_is_another_error(owner, rng, seed):
    """The noise follows the bound, so equal errors above say that it has arrived."""
    columns, errors = columns_of(rng), []
    for name, bound in (("wide", 2.0), ("narrow", 0.5), ("none", None)):
        table = make_table(owner, columns, BOUNDS, 100.0, name=name)
        with sojourn.privacy(table, epsilon=5, delta=DELTA, epochs=EPOCHS):
            train = sojourn.step(trainer(owner.device, bound, []), replay=True)
            batches = table.batches(["a", "b"], label="y", size=SIZE, epochs=EPOCHS)
            errors.append([train(x, y)[0].stderr for x, y in batches])
    assert [len(set(each)) for each in errors] == [1, 1, 1]
    assert errors[0][-1] > 3 * errors[1][-1] and errors[2][-1] != errors[0][-1]


def test_bounds_that_differ_between_calls(owner, rng, seed):
    """A bound that is a float argument belongs to its call, in loops and out of them."""
    columns, bounds = columns_of(rng), [2.0, 2.0, 2.0, 2.0, 0.5, 0.5, 0.5, 0.5, 2.0, 1.0]
    found = {}
    for name in ("traced", "replayed", "looped"):
        table = make_table(owner, columns, BOUNDS, 100.0, name=name)

        def mean(x, y, bound):
            return sojourn.publish(x.square().mean(), bound=bound)

        with sojourn.privacy(table, epsilon=5, delta=DELTA, epochs=1):
            batches = table.batches(["a", "b"], label="y", size=SIZE, epochs=1)
            calls = ((x, y, bound) for (x, y), bound in zip(batches, bounds))
            step = sojourn.step(mean, replay=name == "replayed")
            results = sojourn.loop(mean, calls, 8) if name == "looped" else [step(*call) for call in calls]
        found[name] = [result.stderr for result in results]
    assert found["traced"] == found["replayed"] == found["looped"]
    assert len(set(found["traced"])) == 3


def test_integers_on_private_tables(owner, rng, seed):
    """Numbers of a private step come from the number of its batch: programs, price and noise are those of traced steps."""
    columns, found = columns_of(rng), {}
    for name in ("traced", "replayed", "looped"):
        table = make_table(owner, columns, BOUNDS, 100.0, name=name)
        torch.manual_seed(5)
        model = nn.Linear(2, 2).to(owner.device)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        calls = []

        def train(i, x, y, model=model, optimizer=optimizer, calls=calls):
            calls.append(i)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            (loss * (i + 1) * 0.9**i).backward()
            optimizer.step()
            return sojourn.publish(loss.detach(), bound=2.0)

        with sojourn.privacy(table, epsilon=5, delta=DELTA, epochs=EPOCHS) as spent:
            numbered = enumerate(table.batches(["a", "b"], label="y", size=SIZE, epochs=EPOCHS))
            given = ((i, x, y) for i, (x, y) in numbered)
            step = sojourn.step(train, replay=name == "replayed")
            results = sojourn.loop(train, given, 8) if name == "looped" else [step(*one) for one in given]
        found[name] = [one.stderr for one in results], spent.epsilon, owner.budget(name).epsilon_left
        assert len(calls) == 30 if name == "traced" else len(calls) < 6, sojourn.explain()
    assert found["traced"] == found["replayed"] == found["looped"]


def test_bounds_are_ignored_on_open_tables(seed):
    device = shared_owner().device
    runs = []

    def body(x):
        runs.append(1)
        return sojourn.publish({"mean": x.mean(), "largest": x.max()}, bound=0.1)

    step = sojourn.step(body, replay=True)
    for _ in range(12):
        x = torch.randn(5)
        torch.testing.assert_close(step(x.to(device)).value, {"mean": x.mean(), "largest": x.max()})
    assert len(runs) == 2
    for found, x in zip(sojourn.loop(body, [(x.to(device),) for x in torch.randn(12, 5)]), range(12)):
        assert found.stderr is not None
    assert len(runs) == 4


def test_another_value_published_in_its_place(seed):
    """Which of two values leaves is a part of the comparison, also where all ops are equal."""
    device, turn = shared_owner().device, []

    def body(x):
        turn.append(1)
        a, b = x + 1, x + 1
        return sojourn.publish((a if len(turn) % 2 else b) * 1, bound=3.0), a, b

    step = sojourn.step(body, replay=True)
    for _ in range(6):
        x = torch.randn(3).to(device)
        for leaf in step(x):
            same(leaf.value if isinstance(leaf, sojourn.Published) else leaf, x + 1)
