# SPDX-License-Identifier: Apache-2.0
"""The weights of a compiled program's run: `Program.state`. Oracle: the same training in eager PyTorch."""

import copy
import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from private_support import DELTA, make_table, numpy_rng, own_owner  # noqa: F401
from torch import nn

import sojourn

ROWS, FEATURES = 70, ["a", "b"]
COLUMNS = {"a": torch.float64, "b": torch.float64, "y": torch.int64}
BOUNDS = {"a": (-1.0, 1.0), "b": (-1.0, 1.0), "y": (0, 1)}
OPTIMIZERS = {
    "sgd": lambda parameters, is_eager: torch.optim.SGD(parameters, lr=0.3),
    "momentum": lambda parameters, is_eager: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "adam": lambda parameters, is_eager: torch.optim.Adam(parameters, lr=0.05, capturable=not is_eager),
}


def network():
    """The normalization takes a bias before it away: its gradient is rounding alone, which Adam would make large."""
    return nn.Sequential(nn.Linear(2, 4, bias=False), nn.BatchNorm1d(4, momentum=0.2), nn.Tanh(), nn.Linear(4, 2))


def columns(rng, rows=ROWS):
    return {"a": rng.uniform(-1, 1, rows), "b": rng.uniform(-1, 1, rows), "y": rng.integers(0, 2, rows)}


def step_on(model, optimizer, x, y):
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()


def compiled(start, optimizer="sgd", epochs=2, short=None, returned=lambda model, optimizer: model, **table):
    kept = {}

    def init():
        kept["model"] = copy.deepcopy(start).to(device)
        kept["optimizer"] = OPTIMIZERS[optimizer](kept["model"].parameters(), False)
        return returned(kept["model"], kept["optimizer"])

    def train(x, y):
        step_on(kept["model"], kept["optimizer"], x, y)
        return ()

    with sojourn.offline() as device:
        return sojourn.compile(
            train,
            init=init,
            tables={"t": sojourn.table_spec(ROWS, COLUMNS, **table)},
            batches=lambda t: t.batches(FEATURES, label="y", size=16, epochs=epochs, drop_last=short is None),
            short=short,
        )


def eager(start, table, optimizer="sgd", epochs=2, drop_last=True):
    model = copy.deepcopy(start)
    update = OPTIMIZERS[optimizer](model.parameters(), True)
    for x, y in table.batches(FEATURES, label="y", size=16, epochs=epochs, drop_last=drop_last):
        step_on(model, update, x, y)
    return model


@pytest.mark.parametrize("short", [None, ROWS % 16])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_state_is_that_of_eager_training(optimizer, short, owner, rng, seed, tmp_path):
    torch.manual_seed(seed)
    start, data = network(), columns(rng)
    compiled(start, optimizer, short=short).save(tmp_path / "train.sojourn")
    program = sojourn.load(tmp_path / "train.sojourn")
    owner.register("t", data, policy="open")
    expected = eager(start, sojourn.plain(data), optimizer, drop_last=short is None)
    for _ in range(2):  # a second run begins anew
        program.run(owner, per_trip=3)
        before = owner.counters()["round_trips"]
        state = program.state()
        assert owner.counters()["round_trips"] == before + 1
        torch.testing.assert_close(state, dict(expected.state_dict()), rtol=1e-4, atol=1e-5)
    model = network()
    model.load_state_dict(state)
    x = torch.tensor(np.stack([data["a"], data["b"]], 1), dtype=torch.float32)
    torch.testing.assert_close(model.eval()(x), expected.eval()(x), rtol=1e-4, atol=1e-5)


def test_weights_after_every_number_of_steps(owner, rng, seed):
    """Runs that fail keep the state after the last committed step; a program of given inputs takes any number."""
    torch.manual_seed(seed)
    start = nn.Linear(2, 2)
    kept = {}

    def init():
        kept["model"] = copy.deepcopy(start).to(device)
        kept["optimizer"] = torch.optim.SGD(kept["model"].parameters(), lr=0.1, momentum=0.5)
        return {"model": kept["model"], "first": kept["model"].weight, "optimizer": kept["optimizer"]}

    with sojourn.offline() as device:
        program = sojourn.compile(
            lambda x, y: step_on(kept["model"], kept["optimizer"], x, y) or (),
            init=init,
            inputs=[sojourn.spec((8, 2)), sojourn.spec((8,), torch.int64)],
        )
    with pytest.raises(sojourn.Error, match="has not run here yet"):
        program.state()
    model = copy.deepcopy(start)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    batches = []
    for steps in range(5):
        program.run(owner, batches)
        state = program.state()
        assert state["optimizer"] is None
        torch.testing.assert_close(state["model"], dict(model.state_dict()), rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(state["first"], model.weight.detach(), rtol=1e-5, atol=1e-6)
        batches.append((torch.rand(8, 2), torch.randint(0, 2, (8,))))
        step_on(model, optimizer, *batches[-1])
        assert len(batches) == steps + 1
    with pytest.raises(sojourn.Error, match="compiled for"):
        program.run(owner, [*batches[:2], (torch.rand(3, 2), torch.zeros(3, dtype=torch.int64))])
    expected = copy.deepcopy(start)
    optimizer = torch.optim.SGD(expected.parameters(), lr=0.1, momentum=0.5)
    for batch in batches[:2]:
        step_on(expected, optimizer, *batch)
    torch.testing.assert_close(program.state()["model"], dict(expected.state_dict()), rtol=1e-5, atol=1e-6)


def test_weights_that_were_trained_on_a_private_table(owner, rng, seed):
    """They carry noise already: with hardly any of it they are those of eager training on all rows."""
    torch.manual_seed(seed)
    start = nn.Sequential(nn.Linear(2, 4), nn.LayerNorm(4), nn.Linear(4, 2))
    program = compiled(start, policy="private", bounds=BOUNDS)
    table = make_table(owner, columns(rng), BOUNDS, name="t")
    with sojourn.privacy(table, noise_multiplier=0.01, delta=DELTA, clip=10.0) as run:
        program.run(owner)
        spent = owner.budget("t").epsilon_left
        state = program.state()
    assert owner.budget("t").epsilon_left >= spent and run.taken == 10
    assert list(state) == list(start.state_dict())
    moved = [(state[name] - value).abs().max().item() for name, value in start.state_dict().items()]
    assert all(np.isfinite(moved)) and max(moved) > 1e-3


def test_values_that_may_not_leave_stay(owner, rng):
    """A step that keeps rows in a tensor of the state."""
    kept = {}

    def init():
        kept["rows"] = torch.zeros(8, 1, dtype=torch.float32, device=device)
        return kept["rows"]

    def keep(x):
        kept["rows"].copy_(x[:8])
        return ()

    with sojourn.offline() as device:
        program = sojourn.compile(
            keep,
            init=init,
            tables={"t": sojourn.table_spec(ROWS, {"a": torch.float64})},
            batches=lambda t: t.batches(["a"], size=16, drop_last=True),
        )
    data = {"a": rng.uniform(-1, 1, ROWS)}
    owner.register("open", data, policy="open")
    program.run(owner, tables={"t": "open"})
    assert program.state().shape == (8, 1)
    make_table(owner, data, {"a": (-1, 1)}, name="t")
    with pytest.raises(sojourn.Error):
        program.run(owner)
        program.state()


def test_results_of_init_without_tensors(owner):
    """Programs whose init returns something else are compiled as ever, and have no state to read."""
    for returned in (None, 7, ["a"], object()):
        with sojourn.offline() as device:
            program = sojourn.compile(lambda: (), init=lambda returned=returned: returned)
        assert device.type == "owner"
        with pytest.raises(sojourn.Error, match="init returned no module or tensor"):
            program.state()


DEEP = "[" * 200_000
DAMAGED = {
    "cut": (lambda described: described[: len(described) // 2], "JSONDecodeError"),
    "too_deep": (lambda described: DEEP, "RecursionError"),
    "tree_too_deep": (lambda described: json.dumps({**json.loads(described), "tree": DEEP}), "RecursionError"),
    "nothing_read": (lambda described: json.dumps({**json.loads(described), "read": []}), "ValueError"),
    "more_read": (lambda described: json.dumps({**json.loads(described), "read": [True] * 9}), "StopIteration"),
    "another_kind": (lambda described: "[1, 2]", "TypeError"),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_description_of_the_state_is_an_error(damage, owner, rng, tmp_path):
    change, reason = DAMAGED[damage]
    program = compiled(network())
    program._artifact.state_tree = change(program._artifact.state_tree)
    program.save(tmp_path / "train.sojourn")
    program = sojourn.load(tmp_path / "train.sojourn")
    owner.register("t", columns(rng), policy="open")
    program.run(owner)
    text = rf"does not say how its state nests \({reason}.*: the file is damaged, compile it again"
    with pytest.raises(sojourn.Error, match=text):
        program.state()
