# SPDX-License-Identifier: Apache-2.0
"""Integers that differ from step to step: one program serves for all of their values, beside eager, at both runtimes."""

import logging

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import sojourn

N, D = 12, 6


def compiled(owner) -> int:
    return owner.counters()["programs_compiled"]


#: name: (function of x [12, 6], b [12, 6] that it may write to, k in 1..5; programs at most)
CASES = {
    "row": (lambda x, b, k: x[k] * 2, 2),
    "rows": (lambda x, b, k: x[k : k + 5].sum(0), 2),
    "column": (lambda x, b, k: x[:, k].cumsum(0), 2),
    "element": (lambda x, b, k: x[k, k % 3 + 1] * 3, 3),
    "columns by two": (lambda x, b, k: x[:, k - 1 : k + 2 : 2] + 1, 3),  # the last is one column
    "rows by two": (lambda x, b, k: x[k : k + 7 : 2] * x[1, 1], 2),
    "from the end": (lambda x, b, k: x[-k - 5 : N - k] + 1, 2),
    "window of a transpose": (lambda x, b, k: x.t()[k : k + 1, 2:8] * 2, 2),
    "flat": (lambda x, b, k: x.view(-1)[k * 7 : k * 7 + 10] * 2, 4),
    "in three dims": (lambda x, b, k: x.view(3, 4, 6)[:, k % 4, k : k + 1] - 1, 3),
    "split": (lambda x, b, k: x.split(2)[k] * 2, 2),
    "unfold": (lambda x, b, k: x[:, k].unfold(0, 3, 2).sum(1), 2),
    "expanded": (lambda x, b, k: x[k].expand(4, D) * 2, 2),
    "two integers": (lambda x, b, k: x[k] + x[2 * k], 2),
    "one integer twice": (lambda x, b, k: x[k] + b[k], 2),
    "factor": (lambda x, b, k: x * k + k, 2),
    "alpha": (lambda x, b, k: torch.add(x, b, alpha=k), 2),
    "compare": (lambda x, b, k: (x > k).float() + (x.long() == k), 2),
    "clamp": (lambda x, b, k: x.clamp(-k, k), 2),
    "full": (lambda x, b, k: x + torch.full((D,), k, device=x.device), 2),
    "full of bytes": (lambda x, b, k: torch.full((D,), 250 + k, dtype=torch.int32, device=x.device) + x.int(), 2),
    "arange": (lambda x, b, k: x + torch.arange(k, k + D, device=x.device), 2),
    "arange by": (lambda x, b, k: x[:5] + torch.arange(k, 6 * k, k, device=x.device)[:, None], 2),
    "arange back": (lambda x, b, k: torch.arange(k + 6, k, -1, device=x.device) * x, 2),
    "big": (lambda x, b, k: torch.arange(2**40 + k, 2**40 + k + 3, device=x.device), 2),
    "roll": (lambda x, b, k: x.roll(k, 0), 2),
    "roll back": (lambda x, b, k: x.roll((-k, 3 * k), (0, 1)), 2),
    "roll flat": (lambda x, b, k: x.roll(5 * k), 2),
    "tril": (lambda x, b, k: x.tril(k - 2) + x.triu(-k), 2),
    "masked_fill": (lambda x, b, k: x.masked_fill(x > 0, k), 2),
    "write a row": (lambda x, b, k: (b.__setitem__(k, x[0]), b.clone())[1], 2),
    "write a number": (lambda x, b, k: (b.__setitem__((slice(k, k + 2), k), k), b.clone())[1], 3),
    "write in place": (lambda x, b, k: (b[:, k].mul_(2), b[k].add_(x[k]), b.sum(1))[-1], 3),
    "write by two": (lambda x, b, k: (b[k - 1 : k + 6 : 3, 1:5:2].copy_(x[:3, :2]), b * 1)[-1], 2),
    "write and read elsewhere": (lambda x, b, k: (b[k].zero_(), b[2] + b[k], b[k - 1 : k + 1] * 2)[1:], 4),
    "halves": (lambda x, b, k: x.bfloat16()[k] * k + torch.full((D,), 300 + k, device=x.device).bfloat16(), 2),
    "power": (lambda x, b, k: x.abs().pow(k), 3),
}


def run(name, x, b, k):
    y = CASES[name][0](x, b, k)
    return y if isinstance(y, tuple) else (y,)


@pytest.mark.parametrize("name", CASES)
def test_values_are_eagers_and_programs_few(owner, device, seed, name):
    x, b = torch.randn(N, D), torch.randn(N, D)

    @sojourn.step
    def there(x, b, k):
        return [sojourn.publish(y) for y in (*run(name, x, b, k), b)]

    made = 0
    for k in [1, 2, 3, 4, 5, 2, 5, 1]:
        mine = b.clone()
        wanted = run(name, x.clone(), mine, k)
        moved = x.to(device), b.to(device)
        sojourn.flush()
        before = compiled(owner)
        got = there(*moved, k)
        made += compiled(owner) - before
        for ours, theirs in zip(got, [*wanted, mine], strict=True):
            torch.testing.assert_close(ours.value, theirs, rtol=1e-6, atol=1e-6)
    assert made <= CASES[name][1], sojourn.explain()


GRADIENTS = {
    "row": lambda x, k: (x[k] ** 2).sum(),
    "rows": lambda x, k: (x[k : k + 5] ** 2).sum(),
    "columns by two": lambda x, k: (x[:, k - 1 : k + 2 : 2] ** 3).sum(),
    "from the end": lambda x, k: (x[-k - 3 : -k] ** 2).sum(),
    "element": lambda x, k: x[k, k] ** 2,
    "split": lambda x, k: (x.split(2)[k] ** 2).sum(),
    "select_scatter": lambda x, k: (torch.select_scatter(x, x[0] * 3, 0, k) ** 2).sum(),
    "slice_scatter": lambda x, k: (torch.slice_scatter(x, x[:2] * 3, 0, k, k + 2) ** 2).sum(),
    "roll": lambda x, k: (x.roll(k, 1) * x).sum(),
    "tril": lambda x, k: (x.tril(k) ** 2).sum(),
    "write": lambda x, k: (x.clone().index_fill(0, torch.tensor([0], device=x.device), k)[k : k + 2] ** 2).sum(),
    "weight": lambda x, k: k * (x**2).mean() - x.mean() * k,
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_eagers_and_programs_few(owner, device, seed, name):
    x = torch.randn(N, D, dtype=torch.float64)

    @sojourn.step
    def gradient(x, k):
        GRADIENTS[name](x, k).backward()
        return sojourn.publish(x.grad)

    made = 0
    for k in [1, 3, 2, 5, 4, 1]:
        mine = x.clone().requires_grad_()
        GRADIENTS[name](mine, k).backward()
        there = x.to(device).requires_grad_()
        sojourn.flush()
        before = compiled(owner)
        torch.testing.assert_close(gradient(there, k).value, mine.grad, rtol=1e-12, atol=1e-12)
        made += compiled(owner) - before
    # The gradient of `split` joins it with zeros: which of them it is, is which operand.
    assert made <= (5 if name == "split" else 3), sojourn.explain()


def test_the_first_form_is_the_special_one_and_the_general_one_comes_beside_it(owner, device, seed):
    x = torch.randn(N + 3, D).to(device)  # of a shape that no other test has
    sojourn.flush()
    made = []
    for k in (1, 1, 2, 1, 3):
        before = compiled(owner)
        sojourn.publish(x[k] * 2)
        made.append(compiled(owner) - before)
    assert made == [1, 0, 1, 0, 0]


def test_integers_that_part_and_join(owner, device, seed):
    """Equal in all sightings: one slot. Once they part, another program serves, and that one for both."""
    x = torch.randn(N + 4, D)
    there = x.to(device)
    sojourn.flush()
    made = []
    for j, k in [(1, 1), (2, 2), (3, 3), (3, 4), (5, 5), (2, 7), (1, 1)]:
        before = compiled(owner)
        torch.testing.assert_close(sojourn.publish(there[j] - 2 * there[k]), x[j] - 2 * x[k])
        made.append(compiled(owner) - before)
    assert made == [1, 1, 0, 1, 0, 0, 0]


def test_an_integer_that_decides_how_stays_part_of_the_program(owner, device, seed):
    x = torch.randn(D, D)
    there = x.to(device)
    for dim in (0, 1, 0, 1):
        torch.testing.assert_close(sojourn.publish(there.sum(dim)), x.sum(dim))
    made = []
    for correction in (0, 1, 2, 1, 0, 2):
        before = compiled(owner)
        wanted = torch.var(x, dim=0, correction=correction)
        torch.testing.assert_close(sojourn.publish(torch.var(there, dim=0, correction=correction)), wanted)
        made.append(compiled(owner) - before)
    assert made[3:] == [0, 0, 0], made


def test_windows_that_may_meet_are_told_apart(owner, device, seed):
    """Two windows of one tensor that a call writes: whether they meet depends on integers, and stays so."""
    x = torch.randn(N, D)
    there = x.to(device)
    for j, k in [(0, 1), (2, 3), (4, 1), (5, 2), (1, 0)]:
        torch._foreach_mul_([x[j], x[k]], 2)
        torch._foreach_mul_([there[j], there[k]], 2)
        torch.testing.assert_close(sojourn.publish(there), x)


def test_a_language_model_cut_into_windows(owner, device, seed):
    """Truncated backpropagation: windows by step, hidden states carried over, a target one further."""
    steps, vocabulary, hidden, length = 14, 11, 8, 5
    tokens = torch.randint(vocabulary, (steps * length + 1, 3))

    def train(place):
        torch.manual_seed(7)
        embed, cell = nn.Embedding(vocabulary, hidden), nn.LSTM(hidden, hidden)
        head = nn.Linear(hidden, vocabulary)
        parameters = [*embed.parameters(), *cell.parameters(), *head.parameters()]
        optimizer = torch.optim.SGD(parameters, 0.5)
        data = tokens.to(place)
        if place != "cpu":
            for module in (embed, cell, head):
                module.to(place)
        state, losses = None, []
        for k in range(0, steps * length, length):
            x, y = data[k : k + length], data[k + 1 : k + 1 + length]
            optimizer.zero_grad()
            out, state = cell(embed(x), state)
            state = tuple(part.detach() for part in state)
            loss = F.cross_entropy(head(out).view(-1, vocabulary), y.reshape(-1))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    wanted = train("cpu")
    before = compiled(owner)
    got = train(device)
    assert compiled(owner) - before <= 8, sojourn.explain()
    assert max(abs(a - b) for a, b in zip(got, wanted)) < 1e-4


def test_explain_says_why(owner, device, seed, caplog):
    x = torch.randn(N + 5, D).to(device)
    sojourn.flush()
    with caplog.at_level(logging.INFO, "sojourn.programs"):
        for k in (1, 2, 3):
            sojourn.publish(x[k] * 2)
        sojourn.publish(x[1:3] * 2)
    told = [line for line in sojourn.explain().splitlines() if "programs compiled" not in line]
    general = [line for line in told if "from now on it is a run-time number" in line]
    assert general and "along dim 0 of its storage is 2, was 1" in general[-1], told
    assert "test_integers_vary.py" in general[-1]
    assert any("sizes" in line or "result is" in line for line in told[-1:]), told[-1]
    assert any("from now on" in record.getMessage() for record in caplog.records)
