# SPDX-License-Identifier: Apache-2.0
"""Private training on several tensors of one draw: networks of branches, their clipping, their price, their refusals.

Oracles: eager PyTorch row by row (every row in every batch, hardly any noise), and the price and budget of the same
network over all columns in one tensor.
"""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from branches_support import Branches, scaling, stepper
from private_support import DELTA, PLENTY, make_table, numpy_rng, own_owner  # noqa: F401
from torch import nn

import sojourn

ROWS = 64
BOUNDS = {"scan": (-1, 1), "a": (-2, 2), "b": (-1, 1), "code": (0, 4), "y": (0, 1)}
INPUTS = {"image": "scan", "row": ["a", "b"], "code": "code"}


@pytest.fixture
def data(rng):
    return {
        "scan": rng.uniform(-1, 1, (ROWS, 1, 4, 4)).astype(np.float32),
        "a": rng.uniform(-2, 2, ROWS),
        "b": rng.uniform(-1, 1, ROWS),
        "code": rng.integers(0, 5, ROWS),
        "y": rng.integers(0, 2, ROWS),
    }


def register(owner, data, epsilon=PLENTY, name="people"):
    return make_table(owner, data, BOUNDS, epsilon, name)


def network(seed):
    torch.manual_seed(seed)
    return Branches(image=(1, 4, 4), codes=5, columns=2, classes=2)


def private_stepper(model, forward=None, rate=0.5):
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    return stepper(forward or model, optimizer, lambda loss: sojourn.publish(loss, bound=20.0))


def tensors(data):
    """The batch of all rows, its columns between -1 and 1."""
    row = torch.tensor(np.stack([data["a"] / 2, data["b"]], 1), dtype=torch.float32)
    batch = {"image": torch.from_numpy(data["scan"]), "row": row, "code": torch.from_numpy(data["code"])}
    return batch, torch.from_numpy(data["y"])


def clipped_step(model, data, rate, clip):
    """Row by row: the norm over all parameters of all branches is clipped, then the mean is taken. The loss before."""
    batch, labels = tensors(data)
    total = [torch.zeros_like(p) for p in model.parameters()]
    losses, norms = [], []
    for k in range(ROWS):
        loss = F.cross_entropy(model({name: x[k : k + 1] for name, x in batch.items()}), labels[k : k + 1])
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        norm = torch.sqrt(sum((g**2).sum() for g in gradients))
        for sums, gradient in zip(total, gradients):
            sums += gradient * torch.clamp(clip / norm, max=1)
        losses.append(loss.item())
        norms.append(norm.item())
    with torch.no_grad():
        for parameter, sums in zip(model.parameters(), total):
            parameter -= rate * sums / ROWS
    return np.mean(losses), norms


@pytest.mark.parametrize("how", ["step", "replay", "loop"])
def test_a_row_is_clipped_over_all_branches(owner, data, seed, how):
    table = register(owner, data)
    model, eager = (network(seed) for _ in range(2))
    steps, rate = 6, 0.25  # a larger rate makes more of the noise of early steps than the bound below allows
    wanted, norms = clipped_step(eager, data, 0.0, 1.0)
    clip = float(min(norms) + np.median(norms)) / 2  # most rows are clipped, some are not
    assert min(norms) < clip < max(norms)
    train = private_stepper(model.to(owner.device), scaling(model, table.scaled), rate)
    with sojourn.privacy(table, noise_multiplier=0.02, delta=DELTA, clip=clip) as run:
        batches = table.batches(INPUTS, label="y", size=ROWS, epochs=steps)
        if how == "loop":
            published = sojourn.loop(train, batches, per_trip=3)
        else:
            step = sojourn.step(train, replay=how == "replay")
            published = [step(batch, y) for batch, y in batches]
            assert how == "step" or step.replayed >= steps - 3, sojourn.explain()
    assert run.taken == steps
    for loss in published:
        wanted, _ = clipped_step(eager, data, rate, clip)
        assert abs(float(loss) - wanted) < 6 * loss.stderr + 0.05
    weights = sojourn.publish(model.state_dict())
    noise = rate * 0.02 * clip / ROWS * np.sqrt(steps)
    for name, value in eager.state_dict().items():
        assert (weights[name] - value).abs().max() < 12 * noise + 1e-3, name


class Columns(nn.Module):
    """The same work on one tensor of plain columns, cut into the two branches, or on two tensors."""

    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(2, 4), nn.Linear(1, 4)
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        one, other = (x[:, :2], x[:, 2:]) if isinstance(x, torch.Tensor) else (x["one"], x["other"])
        return self.head(torch.tanh(torch.cat([self.one(one), self.other(other)], 1)))


def test_it_costs_what_one_tensor_costs(owner, data):
    found = {}
    for name, features in {"cut": ["a", "b", "code"], "two": {"one": ["a", "b"], "other": ["code"]}}.items():
        table = register(owner, data, epsilon=5.0, name=name)
        train = sojourn.step(private_stepper(Columns().to(owner.device)))
        with sojourn.privacy(table, epsilon=3.0, delta=DELTA, epochs=2) as run:
            errors = {train(x, y).stderr for x, y in table.batches(features, label="y", size=8, epochs=2)}
        assert run.taken == 16 and len(errors) == 1
        found[name] = run.epsilon, run.noise_multiplier, errors, owner.budget(name).epsilon_left
    assert found["cut"] == found["two"]
    assert found["two"][0] == pytest.approx(3.0, abs=1e-3)


def test_a_part_of_the_table_with_replay(owner, data, seed):
    table = register(owner, data, epsilon=50.0)
    part, _ = table.split(0.75, seed=seed)
    model = network(seed).to(owner.device)
    found = []
    for replay in (False, True):
        train = sojourn.step(private_stepper(model, scaling(model, table.scaled)), replay=replay)
        with sojourn.privacy(part, noise_multiplier=1.0, delta=DELTA) as run:
            for batch, y in part.batches(INPUTS, label="y", size=16, epochs=4):
                assert len({x.shape[0] for x in (*batch.values(), y)}) == 1 and y.shape[0] > 16
                train(batch, y)
        found.append((run.taken, run.epsilon))
    assert train.replayed >= 8, sojourn.explain()
    assert found[0] == found[1] and found[0][0] == 12


def test_slots_explain_sizes(owner, data):
    batch, _ = next(iter(register(owner, data).batches(INPUTS, label="y", size=8)))
    with pytest.raises(RuntimeError, match="slots"):
        batch["image"].view(8, 16)


def joined(batch):
    return torch.cat([batch["row"], batch["image"].flatten(1)], 1)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda batch: batch["row"], "per row of private data"),
        (joined, "per row of private data"),
        (lambda batch: joined(batch).amax(), "taken over rows"),
        (lambda batch: batch["row"].cumsum(0).sum(), "runs along rows"),
    ],
)
def test_what_is_refused_stays_refused(owner, data, make, text):
    table = register(owner, data, epsilon=5.0)
    batch, _ = next(iter(table.batches(INPUTS, label="y", size=16)))
    with pytest.raises(sojourn.Refused, match=text):
        sojourn.publish(make(batch), epsilon=1.0)
    assert owner.budget("people").epsilon_left == 5.0


@pytest.mark.parametrize("other", [{"row": ["a", "b"]}, INPUTS], ids=["other features", "the next batch"])
def test_two_batches_stay_two_draws(owner, data, seed, other):
    table = register(owner, data, epsilon=5.0)
    model = network(seed).to(owner.device)
    one = iter(table.batches(INPUTS, label="y", size=16))
    two = one if other is INPUTS else iter(table.batches(other, label="y", size=16))
    with sojourn.privacy(table, noise_multiplier=1.0, delta=DELTA):
        (batch, y), (later, _) = next(one), next(two)
        with pytest.raises(sojourn.Refused, match="different draws of rows; one batch may hold several tensors"):
            sojourn.step(private_stepper(model))({**batch, "row": later["row"]}, y)
    assert owner.budget("people").epsilon_left == 5.0


def test_rows_that_meet_are_refused(owner, data):
    table = register(owner, data, epsilon=5.0)
    model = nn.Sequential(nn.Linear(18, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).to(owner.device)
    train = sojourn.step(private_stepper(model, lambda batch: model(joined(batch))))
    with pytest.raises(sojourn.Refused, match="summed over rows"):
        train(*next(iter(table.batches(INPUTS, label="y", size=16))))
    assert owner.budget("people").epsilon_left == 5.0


def test_statistics_of_two_tensors(owner, data):
    """Of whole columns by name, and of one draw: rows of both tensors correspond."""
    table = register(owner, data)
    x = table.rows({"row": ["a", "b"], "code": "code"})
    crossed = sojourn.publish((x["row"] * x["code"][:, None]).mean(0), epsilon=1000.0)
    wanted = (np.stack([data["a"], data["b"]], 1) * data["code"][:, None]).mean(0)
    np.testing.assert_allclose(np.asarray(crossed), wanted, atol=0.1)
    with sojourn.privacy(table, noise_multiplier=0.02, delta=DELTA), sojourn.step():
        batch = next(iter(table.batches({"row": ["a", "b"], "code": "code"}, size=ROWS)))
        drawn = sojourn.publish((batch["row"] * batch["code"][:, None]).sum(0) / ROWS, bound=9.0)
    np.testing.assert_allclose(np.asarray(drawn.value), wanted, atol=0.1)


def test_the_same_script_on_plain_and_open_tables(owner, data, seed):
    found = []
    for table in (sojourn.plain(data, bounds=BOUNDS), make_table(owner, data, BOUNDS, name="open", policy="open")):
        model = network(seed).to(table.rows("a").device)
        train = sojourn.step(private_stepper(model, scaling(model, table.scaled)))
        with sojourn.privacy(table, epsilon=1.0, delta=DELTA, epochs=2) as run:
            found.append([float(train(x, y)) for x, y in table.batches(INPUTS, label="y", size=12, epochs=2)])
        assert run.epsilon == 0
    np.testing.assert_allclose(*found, rtol=1e-4, atol=1e-5)


def test_compiled_without_data(owner, data, seed):
    """The compiled step is the traced one's price; with every row and hardly any noise it is eager training."""
    columns = {"scan": (torch.float32, (1, 4, 4)), "a": torch.float64, "b": torch.float64} | dict.fromkeys(
        ("code", "y"), torch.int64
    )
    kept, steps, rate = {}, 4, 0.25
    state = network(seed).state_dict()
    eager = network(seed)
    _, norms = clipped_step(eager, data, 0.0, 1.0)
    clip = 2 * float(np.median(norms))  # hardly any row is clipped

    def init():
        model = network(seed)
        model.to(device)
        kept["train"] = private_stepper(model, scaling(model, kept["table"].scaled), rate)
        return model

    def batches(people):
        kept["table"] = people
        return people.batches(INPUTS, label="y", size=ROWS, epochs=steps)

    with sojourn.offline() as device:
        program = sojourn.compile(
            lambda batch, y: kept["train"](batch, y),
            init=init,
            tables={"people": sojourn.table_spec(ROWS, columns, bounds=BOUNDS, policy="private")},
            batches=batches,
        )
    table = register(owner, data)
    with sojourn.privacy(table, noise_multiplier=0.01, delta=DELTA, clip=clip) as run:
        losses = program.run(owner)
    assert run.epsilon == pytest.approx(program.quote(noise_multiplier=0.01, delta=DELTA).epsilon, rel=1e-6)
    for loss in losses:
        wanted, _ = clipped_step(eager, data, rate, clip)
        assert abs(float(loss) - wanted) < 0.15  # of which noise has a deviation near 0.015
    allowed = 12 * rate * 0.01 * clip / ROWS * np.sqrt(steps) + 1e-3
    for name, value in eager.state_dict().items():
        assert (program.state()[name] - value).abs().max() < allowed, name
    assert max((eager.state_dict()[name] - value).abs().max() for name, value in state.items()) > 1.5 * allowed
