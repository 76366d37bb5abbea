# SPDX-License-Identifier: Apache-2.0
"""What a replay could get wrong, and is traced or asked for anew: numbers, generators, leaves, prices, contexts."""

import functools
import warnings

import pytest
import torch
import torch.nn.functional as F
from remote_support import shared_owner
from replay_support import OPTIMIZERS, Twins, batches, differing, plain, same
from torch import nn

import sojourn

UNFIT = {
    "RAdam that chooses its ops": (plain, lambda p: torch.optim.RAdam(p, lr=0.01, eps=0.0), "give it capturable=True"),
    "an optimizer of one's own": (plain, type("Own", (torch.optim.NAdam,), {}), "computes from its step count"),
    "a rate on the CPU": (plain, lambda p: torch.optim.SGD(p, lr=torch.tensor(0.05)), "CPU tensor"),
    "two steps in a call": (lambda m, o, x, y: (plain(m, o, x, y), plain(m, o, x, y)), OPTIMIZERS["Adam"], "count"),
    "a branch by the CPU's generator": (
        lambda m, o, x, y: plain(m, o, x, y) if torch.rand(()) < 0.5 else m(x).sum().detach(), OPTIMIZERS["SGD"],
        "random numbers"),
    "manual_seed": (
        lambda m, o, x, y: (torch.manual_seed(7), F.dropout(m(x)).sum().detach())[1], OPTIMIZERS["SGD"], "manual_seed"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNFIT)
def test_what_is_no_matter_of_records_is_traced(seed, name):
    body, optimizer, why = UNFIT[name]
    step, told = differing(body, batches(12), optimizer=optimizer)
    assert why in told and step.replayed == 0, (told, sojourn.explain())


def test_numbers_of_cpu_tensors(seed):
    """What Python reads of an argument is traced; a constant that the call itself makes is the same in each."""
    device = shared_owner().device
    read = sojourn.step(lambda x, t: x * t.item() + x[: int(t.max() * 2)].sum(), replay=True)
    with pytest.warns(UserWarning, match="computes with a CPU tensor"):
        for value in (0.5, 0.5, 0.5, 0.75, 1.5):
            x, t = torch.randn(4).to(device), torch.tensor([value])
            same(read(x, t), x * value + x[: int(value * 2)].sum())
    assert read.replayed == 0
    made = sojourn.step(lambda x: x * torch.tensor(0.5).add(1).item(), replay=True)
    for _ in range(5):
        x = torch.randn(4).to(device)
        same(made(x), x * 1.5)
    assert made.replayed == 3, sojourn.explain()


def test_checkpointed_dropout_is_recomputed_with_its_own_seed(seed):
    def body(model, optimizer, x, y):
        optimizer.zero_grad()
        hidden = torch.utils.checkpoint.checkpoint(lambda x: F.dropout(model[0](x), 0.5), x, use_reentrant=False)
        F.cross_entropy(model[2](hidden.relu()), y).backward()
        optimizer.step()

    differing(body, batches(8))


def test_numbers_by_which_python_decides(seed):
    """Branches, bounds and lengths that a float argument chooses are those of each call."""

    def branch(model, optimizer, x, y, weight):
        loss = model(x).square().mean()
        return (loss / weight if weight > 0.3 else loss * min(1.0, weight * 1)).detach()

    weights = [0.5, 0.4, 0.6, 0.2, 0.25, 0.0, 0.7, 1.0, 0.35, 0.1]
    step, _ = differing(branch, [(*given, weight) for given, weight in zip(batches(10), weights)])
    assert step.traced > 5

    def dropped(model, optimizer, x, y, p):
        return F.dropout(model(x), p).sum().detach()

    differing(dropped, [(*given, p) for given, p in zip(batches(8), [0.5, 0.4, 0.3, 0.2, 0.0, 0.0, 1.0, 0.5])])


def test_gradients_of_leaves_that_no_module_call_shows(seed):
    """Weights passed as arguments, parts of modules that are never called themselves, gradients used outside."""

    device = shared_owner().device
    differing(lambda m, o, x, y: F.cross_entropy(m(x), y).backward(), batches(6))
    step = sojourn.step(lambda w, x: (w * x).square().sum().backward(), replay=True)
    for call in range(6):
        x = torch.randn(6).to(device)
        w = torch.randn(6).to(device).requires_grad_()
        step(w, x)
        same(w.grad, 2 * w.detach() * x * x)
    assert step.replayed >= 3, sojourn.explain()

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(6, 2, batch_first=True)

        def forward(self, x):
            return self.attention(x[None], x[None], x[None])[0]

    def attend(model, optimizer, x, y):
        model(x).square().mean().backward()

    twins = Twins(device, Attention, OPTIMIZERS["Adam"], attend)
    for given in batches(8):
        twins(*given)
        for optimizer in twins.optimizers:
            optimizer.step()
            optimizer.zero_grad()
    twins.check(4)


def test_training_on_the_cpu_goes_on(seed):
    model, twin = (nn.Linear(4, 2) for _ in range(2))
    twin.load_state_dict(model.state_dict())
    optimizers = [torch.optim.Adam(m.parameters()) for m in (model, twin)]

    def train(model, optimizer, x):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    step = sojourn.step(functools.partial(train, twin, optimizers[1]), replay=True)
    for _ in range(8):
        x = torch.randn(3, 4)
        train(model, optimizers[0], x)
        step(x)
    same(model.state_dict(), twin.state_dict())
    assert step.replayed == 0


def test_autocast_around_the_loop(seed):
    device = shared_owner().device
    model = nn.Linear(6, 3).to(device)
    step = sojourn.step(lambda x: model(x), replay=True)
    x = torch.randn(4, 6).to(device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            with torch.autocast("owner", dtype=torch.bfloat16):
                found = [step(x) for _ in range(4)]
                same(found[-1], model(x).detach())
            with torch.no_grad():
                model.weight.mul_(2.0)


def test_columns_scale_by_their_own_bounds(seed):
    owner = sojourn.local()
    columns = {name: torch.rand(20) * scale for name, scale in zip("abcd", (1, 2, 30, 40))}
    bounds = {name: (0.0, float(scale)) for name, scale in zip("abcd", (1, 2, 30, 40))}
    table = owner.register("t", columns, policy="open", bounds=bounds)
    step = sojourn.step(lambda x: table.scaled(x).sum(0), replay=True)
    for names in (["a", "b"], ["a", "b"], ["a", "b"], ["c", "d"], ["c", "d"], ["a", "d"]):
        x = table.rows(names)
        same(step(x), table.scaled(x).sum(0))


def test_priced_publishes_are_traced(seed):
    left = []
    for replay in (False, True):
        owner = sojourn.local()
        table = owner.register("p", {"a": torch.rand(100)}, policy="private", bounds={"a": (0.0, 1.0)})
        owner.grant("p", epsilon=100, delta=1e-5)
        step = sojourn.step(lambda x, epsilon: sojourn.publish(x.sum(), epsilon=epsilon), replay=replay)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            errors = [step(table.rows("a"), epsilon).stderr for epsilon in (4.0, 4.0, 4.0, 4.0, 0.5)]
        assert errors[-1] > 4 * errors[0]
        assert not replay or (step.replayed == 0 and "a price" in str(told[0].message))
        left.append(owner.budget("p").epsilon_left)
    assert left[0] == left[1]


def test_owners_that_end_are_not_kept(seed):
    step = sojourn.step(lambda x: x * 2, replay=True)
    for _ in range(20):
        owner = sojourn.local()
        for _ in range(4):
            same(step(torch.ones(2).to(owner.device)), torch.full((2,), 2.0))
        owner.close()


def test_an_owner_that_was_used_before_may_be_closed(seed):
    other, device = sojourn.local(), shared_owner().device
    pending = torch.ones(3).to(other.device) * 2
    step = sojourn.step(lambda x: x * 2, replay=True)
    for number in range(6):
        if number == 1:
            same(pending, torch.full((3,), 2.0))
        if number == 3:
            other.close()
        x = torch.randn(3).to(device)
        same(step(x), x * 2)
    assert step.replayed == 4, sojourn.explain()
