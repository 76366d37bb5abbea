# SPDX-License-Identifier: Apache-2.0
"""Draws that are written alike are still two: of two iterators, and of two parts of one size."""

import torch
from torch import nn

import sojourn

ROWS = 400


def private_table(name):
    owner = sojourn.local()
    x = torch.rand(ROWS, dtype=torch.float64) * 2 - 1
    part = torch.cat([torch.zeros(ROWS // 2), torch.ones(ROWS // 2)]).long()
    table = owner.register(name, {"x": x, "part": part}, policy="private", bounds={"x": (-1, 1), "part": (0, 1)})
    owner.grant(name, epsilon=1e5, delta=1e-6)
    return owner, table


def test_two_iterators_draw_two_batches(seed):
    _, table = private_table("iterators")
    first, second = iter(table.batches("x", size=40, seed=0)), iter(table.batches("x", size=40, seed=0))

    @sojourn.step
    def sums():
        x, y = next(first), next(second)
        return {"x": sojourn.publish(x.sum(), epsilon=400.0), "y": sojourn.publish(y.sum(), epsilon=400.0)}

    found = [sums() for _ in range(4)]
    apart = [abs(float(each["x"]) - float(each["y"])) for each in found]
    # Equal batches would differ by noise alone.
    assert max(apart) > 50 * max(each["x"].stderr for each in found), apart


def test_one_batch_is_one_draw_however_often_it_is_read(seed):
    _, table = private_table("once")
    batches = iter(table.batches("x", label="part", size=40))

    @sojourn.step
    def shares():
        _, part = next(batches)
        return {
            "second": sojourn.publish((part == 1).sum(), epsilon=400.0),
            "parts": sojourn.publish(nn.functional.one_hot(part, 2).sum(0), epsilon=400.0),
        }

    for _ in range(3):
        found = shares()
        assert abs(float(found["second"]) - float(found["parts"].value[1])) < 1


def test_parts_of_one_size_are_trained_on_in_one_step(seed):
    owner, table = private_table("parts")
    parts = table.split(0.5, seed=3)
    assert len(parts[0]) == len(parts[1])
    model = nn.Linear(1, 2).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sojourn.to_owner(model, owner, optimizer)

    @sojourn.step
    def train(x, y, x2, y2):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x[:, None].double()), y)
        other = nn.functional.cross_entropy(model(x2[:, None].double()), y2)
        (loss + other).backward()
        optimizer.step()

    before = owner.budget("parts").epsilon_left
    iterators = [iter(part.batches("x", label="part", size=20)) for part in parts]
    for _ in range(3):
        train(*next(iterators[0]), *next(iterators[1]))
    assert owner.budget("parts").epsilon_left < before
    assert all(torch.isfinite(value).all() for value in sojourn.publish(model.state_dict()).values())
