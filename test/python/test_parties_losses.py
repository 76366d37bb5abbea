# SPDX-License-Identifier: Apache-2.0
"""Losses over the rows of several owners: means whose divisor is a sum over all rows, in one exchange, and as plain
PyTorch has them on all rows.
"""

import pytest
import torch
from parties_support import COLUMNS, made_hospitals
from torch import nn

import sojourn

functional = nn.functional


@pytest.fixture
def hospitals(rng):
    yield from made_hospitals(rng, range(30, 50))


def labels_of_some(y: torch.Tensor, x: torch.Tensor, bound: float) -> torch.Tensor:
    """Rows below the bound have no label."""
    return torch.where(x[:, 0] > bound, y, -100)


def cross_entropy(net, x, y):
    return functional.cross_entropy(net(x), y)


def half_of_the_labels(net, x, y):
    return functional.cross_entropy(net(x), labels_of_some(y, x, 1.0))


def no_label(net, x, y):
    return functional.cross_entropy(net(x), labels_of_some(y, x, 1e6))


def scaled_by_a_number(net, x, y):
    return 3 * functional.cross_entropy(net(x), labels_of_some(y, x, 0.5))


def negative_likelihood(net, x, y):
    return functional.nll_loss(net(x).log_softmax(1), y)


def weighted_mean(net, x, y):
    weights = x[:, 1].abs() + 0.5
    each = functional.cross_entropy(net(x), y, reduction="none")
    return (each * weights).sum() / weights.sum()


def two_losses(net, x, y):
    return functional.cross_entropy(net(x), y) + functional.cross_entropy(net(-x), labels_of_some(y, x, 1.0))


def trained(table, device, loss_of, seed: int, decorate):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2)).double().to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)

    @decorate
    def train(x, y):
        optimizer.zero_grad()
        loss = loss_of(net, x.double(), y)
        loss.backward()
        optimizer.step()
        return loss

    losses = [
        train(x, y) for x, y in table.batches(COLUMNS, label="relapse", size=48, epochs=4, seed=seed, drop_last=True)
    ]
    return net, losses


#: The exchanges of a step, one after another. A sum of weights is no number of rows, and two losses have two numbers.
LOSSES = {
    cross_entropy: 1,
    half_of_the_labels: 1,
    no_label: 1,
    scaled_by_a_number: 1,
    negative_likelihood: 1,
    weighted_mean: 2,
    two_losses: 2,
}


@pytest.mark.parametrize("loss_of", LOSSES, ids=lambda each: each.__name__)
@pytest.mark.parametrize("level", ["clear", "sums"])
def test_a_loss_is_that_of_all_rows(hospitals, rng, loss_of, level):
    three, seed = hospitals(31, 40, 35, share=level), rng.randrange(1000)
    net, losses = trained(three.table, three.parties.device, loss_of, seed, sojourn.step)
    expected, plain = trained(three.pooled, "cpu", loss_of, seed, lambda function: function)
    # In sums each of three terms is rounded to 2^-42, in some tens of sums one after another.
    tolerance = 1e-12 if level == "clear" else 1e-9
    found = torch.stack([sojourn.publish(loss) for loss in losses])
    torch.testing.assert_close(
        found, torch.stack(plain).detach(), rtol=tolerance, atol=tolerance, equal_nan=loss_of is no_label
    )
    for name, value in sojourn.publish(net.state_dict()).items():
        wanted = expected.state_dict()[name]
        assert torch.isfinite(wanted).all()
        torch.testing.assert_close(value, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("loss_of", LOSSES, ids=lambda each: each.__name__)
def test_gradients_do_not_wait_for_the_number_of_labels(hospitals, rng, loss_of):
    three = hospitals(31, 40, 35)
    trained(three.table, three.parties.device, loss_of, rng.randrange(1000), sojourn.step)
    texts = [each["text"] for each in three.parties.programs(with_text=True)]
    exchanges = [
        1 + max(int(line.split()[2].rstrip(",")) for line in text.splitlines() if "// exchange" in line)
        for text in texts
        if "// exchange" in text
    ]
    assert exchanges
    assert set(exchanges) == {LOSSES[loss_of]}
