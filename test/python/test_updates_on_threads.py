# SPDX-License-Identifier: Apache-2.0
"""Optimizers over many parameters, small ones and a large one: eager's values, and the same bits on any number of threads."""

import pytest
import torch

import sojourn

OPTIMIZERS = {
    "Adam": lambda parameters: torch.optim.Adam(parameters, lr=1e-2),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=1e-2, amsgrad=True),
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=1e-2, momentum=0.9, weight_decay=1e-3),
    "RMSprop": lambda parameters: torch.optim.RMSprop(parameters, lr=1e-2, centered=True),
}


def trained(owner, make, starts, targets, steps=4):
    """Parameters after some steps towards their targets, at an owner or (None) in eager and f64."""
    place = {"device": owner.device} if owner else {"dtype": torch.float64}
    parameters = [torch.nn.Parameter(start.to(**place)) for start in starts]
    goals = [target.to(**place) for target in targets]
    optimizer = make(parameters)

    def step():
        optimizer.zero_grad()
        sum(((mine - goal) ** 2 * 0.5).sum() for mine, goal in zip(parameters, goals)).backward()
        optimizer.step()

    for _ in range(steps):
        (sojourn.step(step) if owner else step)()
    return [sojourn.publish(mine.detach()) if owner else mine.detach() for mine in parameters]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_values(rng, name):
    shapes = [(rng.randint(1, 70), rng.randint(1, 70)) for _ in range(12)] + [(1,), (3, 0), (300, 301), (2,), (2,)]
    starts, targets = [torch.randn(shape) for shape in shapes], [torch.randn(shape) for shape in shapes]
    expected = trained(None, OPTIMIZERS[name], starts, targets)
    threads, results = torch.get_num_threads(), []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            owner = sojourn.local()
            results.append(trained(owner, OPTIMIZERS[name], starts, targets))
            owner.close()
    finally:
        torch.set_num_threads(threads)
    for result in results:
        for mine, first, exact in zip(result, results[0], expected):
            assert torch.equal(mine, first)
            torch.testing.assert_close(mine.double(), exact, rtol=2e-5, atol=2e-5)
