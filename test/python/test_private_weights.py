# SPDX-License-Identifier: Apache-2.0
"""Losses on private tables whose divisor holds a client's own tensor: class weights, weights of positive examples.

A loss that is divided by the weights of the labels that a batch happens to have makes each gradient depend on every row.
The most that they can sum to stands in their place, and the owner knows it from the tensor that it received. Oracle: eager
training on the whole table, where every row is in every batch and the noise hardly shows, with that divisor written out.
"""

import re
import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from private_support import DELTA, make_table, numpy_rng, own_owner  # noqa: F401
from torch import nn

import sojourn

ROWS = 96
BOUNDS = {"a": (-1, 1), "b": (-1, 1), "y": (0, 2)}


@pytest.fixture
def data(rng):
    return {"a": rng.uniform(-1, 1, ROWS), "b": rng.uniform(-1, 1, ROWS), "y": rng.integers(0, 3, ROWS)}


@pytest.fixture
def table(owner, data):
    return make_table(owner, data, BOUNDS)


def loss_of(logits, y, weight):
    return F.cross_entropy(logits, y, weight=weight)


def train(model, batches, weight, loss=loss_of, lr=0.5):
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)

    @sojourn.step
    def step(x, y):
        optimizer.zero_grad()
        value = loss(model(x), y, weight)
        value.backward()
        optimizer.step()
        return sojourn.publish(value.detach(), bound=50.0)

    return [float(step(x, y).value) for x, y in batches]


def noted(warned) -> float:
    """The divisor that the owner says it took."""
    texts = [str(w.message) for w in warned if "divisor of the loss was replaced" in str(w.message)]
    (number,) = {float(re.search(r", (\d[\d.]*)$", text)[1]) for text in texts}  # once for each program
    return number


@pytest.mark.parametrize("weights", [[0.5, 1.0, 2.0], [0.3, 0.7, 2.1], [0.25, 0.25, 0.25], [0.0, 0.01, 0.013]], ids=str)
def test_class_weights(owner, table, data, rng, weights):
    model = nn.Linear(2, 3)
    eager = nn.Linear(2, 3)
    eager.load_state_dict(model.state_dict())
    sojourn.to_owner(model, owner)
    weight = torch.tensor(weights)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with sojourn.privacy(table, noise_multiplier=0.02, delta=DELTA, clip=20.0):
            batches = table.batches(["a", "b"], label="y", size=ROWS, epochs=4)
            losses = train(model, batches, weight.to(owner.device))
    divisor = noted(warned)
    assert max(weights) * ROWS * (1 - 1e-3) <= divisor <= max(weights) * ROWS * 9 / 8 * (1 + 1e-3)
    exact = all(w == 0 or np.frexp(w)[0] * 16 % 1 == 0 for w in weights)
    assert not exact or divisor == pytest.approx(max(weights) * ROWS, rel=1e-4)

    def written_out(logits, y, weight):
        return F.cross_entropy(logits, y, weight=weight, reduction="sum") / divisor

    x = torch.from_numpy(np.stack([data["a"], data["b"]], 1)).float()
    expected = train(eager, [(x, torch.from_numpy(data["y"]))] * 4, weight, written_out)
    # Noise of 0.02 * 20 / 96 in each of nine numbers, four times, at a rate of 0.5; of the loss 50 times 0.02 / 96.
    found = sojourn.publish(model.state_dict())
    for name, value in eager.state_dict().items():
        np.testing.assert_allclose(found[name], value, atol=6 * 0.5 * 2 * 0.02 * 20 / 96)
    np.testing.assert_allclose(losses, expected, atol=0.3)


def test_weights_of_drawn_batches_stand_for_the_rows_expected(owner, table, data):
    """The divisor that is noted is that of a batch of the expected size, whatever slots it has."""
    model = nn.Linear(2, 3)
    sojourn.to_owner(model, owner)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with sojourn.privacy(table, noise_multiplier=1.0, delta=DELTA):
            batches = table.batches(["a", "b"], label="y", size=12, epochs=1)
            train(model, batches, torch.tensor([1.0, 2.0, 0.5]).to(owner.device))
    assert noted(warned) == pytest.approx(24, rel=1e-4)


def test_weights_of_positive_examples(owner, table, data, rng):
    def loss(logits, y, weight):
        return F.binary_cross_entropy_with_logits(logits[:, 0], (y == 1).float(), pos_weight=weight)

    model, eager = nn.Linear(2, 1), nn.Linear(2, 1)
    eager.load_state_dict(model.state_dict())
    sojourn.to_owner(model, owner)
    weight = torch.tensor(3.5)
    with sojourn.privacy(table, noise_multiplier=0.02, delta=DELTA, clip=20.0):
        train(model, table.batches(["a", "b"], label="y", size=ROWS, epochs=3), weight.to(owner.device), loss)
    x = torch.from_numpy(np.stack([data["a"], data["b"]], 1)).float()
    train(eager, [(x, torch.from_numpy(data["y"]))] * 3, weight, loss)
    found = sojourn.publish(model.state_dict())
    for name, value in eager.state_dict().items():
        np.testing.assert_allclose(found[name], value, atol=6 * 0.5 * 2 * 0.02 * 20 / 96)


@pytest.mark.parametrize("weights", [[-1.0, -2.0, -0.5], [1.0, float("nan"), 1.0], [1.0, float("inf"), 1.0]], ids=str)
def test_weights_that_bound_nothing_are_refused(owner, table, weights):
    model = nn.Linear(2, 3)
    sojourn.to_owner(model, owner)
    with sojourn.privacy(table, noise_multiplier=1.0, delta=DELTA):
        with pytest.raises(sojourn.Refused, match="meet a value that was summed"):
            train(
                model, table.batches(["a", "b"], label="y", size=12, epochs=1), torch.tensor(weights).to(owner.device)
            )


def test_other_weights_are_another_proof(owner, table):
    """A proof holds for the weights that it was made with, and is made once for them."""
    model = nn.Linear(2, 3)
    sojourn.to_owner(model, owner)
    notes = []
    for most in (1.0, 4.0, 1.0, 4.0, 1.0):
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            with sojourn.privacy(table, noise_multiplier=1.0, delta=DELTA):
                batches = table.batches(["a", "b"], label="y", size=12, epochs=1)
                train(model, batches, torch.tensor([0.5, 0.5, most]).to(owner.device))
        told = "\n".join(str(w.message) for w in warned)
        notes.append([float(n) for n in re.findall(r"divisor of the loss was .*, (\d[\d.]*)$", told, re.MULTILINE)])
    # Steps that bring the model or the weights along are programs of their own, all of them known after three runs.
    assert notes[0] == pytest.approx([12] * len(notes[0]), rel=1e-4) and notes[0]
    assert notes[1] == pytest.approx([48] * len(notes[1]), rel=1e-4) and notes[1]
    # The second run's program, whose proof does not hold for the third's weights.
    assert notes[2] == pytest.approx([12] * len(notes[2]), rel=1e-4) and notes[2]
    assert not notes[3] and not notes[4]
