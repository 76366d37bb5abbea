# SPDX-License-Identifier: Apache-2.0
"""Replayed calls that follow one another are looked at in C++ alone: whatever may change between two is still noticed.

Each case changes one thing in the middle of a training that is replayed, and compares with the same training traced.
"""

import contextlib
import copy
import threading

import pytest
import torch
from remote_support import shared_owner
from replay_support import OPTIMIZERS, Twins, batch, classify, mlp, plain, same
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook

import sojourn


def rate(number):
    def change(model, optimizer):
        optimizer.param_groups[0]["lr"] = number

    return change


def reloaded(model, optimizer):
    """The group's dict is another one afterwards."""
    state = copy.deepcopy(optimizer.state_dict())
    state["param_groups"][0]["lr"] = 0.5
    optimizer.load_state_dict(state)


def reordered(model, optimizer):
    group = optimizer.param_groups[0]
    group["lr"], group["weight_decay"] = group["weight_decay"] + 0.25, group.pop("lr") / 10


def replaced(model, optimizer):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.data = parameter.detach() * 0.5


def exchanged(model, optimizer):
    model[1] = nn.Tanh()


def hooked(model, optimizer):
    model[0].register_forward_hook(lambda module, args, result: result * 0.5)


def backward_hooked(model, optimizer):
    model[2].register_full_backward_pre_hook(lambda module, gradients: (gradients[0] * 0.5,))


def weight_hooked(model, optimizer):
    model[0].weight.register_hook(lambda gradient: gradient * 0.5)


def gradient_hooked(model, optimizer):
    model[0].weight.register_post_accumulate_grad_hook(lambda weight: weight.grad.mul_(0.5) is None or None)


def before_steps(model, optimizer):
    optimizer.register_step_pre_hook(lambda *args: model[0].weight.grad.mul_(0.5) is None or None)


def after_steps(model, optimizer):
    optimizer.register_step_post_hook(lambda *args: model[0].weight.detach().mul_(0.5) is None or None)


def frozen(model, optimizer):
    model[0].weight.requires_grad_(False)


def without_gradients(model, optimizer):
    for parameter in model.parameters():
        parameter.grad = None


def written(model, optimizer):
    with torch.no_grad():
        model[0].weight.mul_(0.5)


def evaluated(model, optimizer):
    model.eval()


def counted_on(model, optimizer):
    for state in optimizer.state.values():
        if isinstance(state.get("step"), torch.Tensor):
            state["step"] += 7


def counted_apart(model, optimizer):
    for state in list(optimizer.state.values())[:1]:
        if isinstance(state.get("step"), torch.Tensor):
            state["step"] += 1


CHANGES = {
    "nothing": (lambda model, optimizer: None, 0), "a rate": (rate(0.2), 1), "no rate": (rate(0.0), 2),
    "a whole number": (rate(1), 2), "another group": (reloaded, 2), "order of options": (reordered, 3),
    "data of parameters": (replaced, 2), "a module": (exchanged, 2), "a hook": (hooked, 2),
    "a backward hook": (backward_hooked, 2), "a hook of a tensor": (weight_hooked, 2),
    "a hook of a gradient": (gradient_hooked, 2), "a hook before steps": (before_steps, 2),
    "a hook after steps": (after_steps, 2), "a frozen parameter": (frozen, 2), "no gradients": (without_gradients, 2), "values": (written, 0),
    "a mode": (evaluated, 2), "counts": (counted_on, 0), "one count": (counted_apart, 9),
}  # fmt: skip


CASES = [(name, optimizer) for name in CHANGES for optimizer in ("SGD", "SGD momentum", "Adam")]
WHOLE = ("a whole number", "Adam")  # what Adam makes of a rate that is no float is refused


SHARED_HOOKS = {
    "of modules": lambda: nn.modules.module.register_module_forward_hook(
        lambda module, args, result: result * 0.5 if isinstance(module, nn.ReLU) else None),
    "of backward": lambda: nn.modules.module.register_module_full_backward_pre_hook(
        lambda module, gradients: (gradients[0] * 0.5,) if isinstance(module, nn.Linear) else None),
    "of optimizers": lambda: register_optimizer_step_post_hook(
        lambda optimizer, *args: optimizer.param_groups[0]["params"][0].detach().mul_(0.5) is None or None),
}  # fmt: skip


@pytest.mark.parametrize("name", SHARED_HOOKS)
def test_hooks_of_all_modules_or_optimizers(seed, name):
    """Added between two calls, and removed again."""
    device = shared_owner().device
    twins = Twins(device, mlp, OPTIMIZERS["SGD momentum"], plain)
    handle = None
    for number in range(24):
        if number == 8:
            handle = SHARED_HOOKS[name]()
        if number == 16:
            handle.remove()
        twins(*batch(device))
    twins.check(24 - 8)


@pytest.mark.parametrize("name, optimizer", [case for case in CASES if case != WHOLE])
def test_changes_between_calls(seed, name, optimizer):
    """`most`: of the calls after the change that are traced."""
    device = shared_owner().device
    change, most = CHANGES[name]
    twins = Twins(device, mlp, OPTIMIZERS[optimizer], plain)
    for number in range(24):
        if number == 8:
            for pair in zip(twins.models, twins.optimizers):
                change(*pair)
        twins(*batch(device))
    twins.check(24 - 8 - most if most < 9 else 5)


def test_a_rate_that_is_no_float(seed):
    """Of what Adam makes of it nothing tells how it follows from the rate: refused, with the line, and nothing is sent."""
    twins = Twins(shared_owner().device, mlp, OPTIMIZERS["Adam"], plain)
    for _ in range(8):
        twins(*batch(shared_owner().device))
    twins.optimizers[1].param_groups[0]["lr"] = 1
    with pytest.raises(sojourn.Unsupported, match="number"):
        for _ in range(8):
            twins.steps[1](*batch(shared_owner().device))


def test_rates_of_a_group_that_is_replaced_again(seed):
    """After the first time the next group has its options in the same order."""
    device = shared_owner().device
    twins = Twins(device, mlp, OPTIMIZERS["SGD"], plain)
    for number in range(30):
        if number % 10 == 9:
            for optimizer in twins.optimizers:
                state = copy.deepcopy(optimizer.state_dict())
                state["param_groups"][0]["lr"] = 0.5 / number
                optimizer.load_state_dict(state)
        twins(*batch(device))
    twins.check(30 - 9)


@contextlib.contextmanager
def default_dtype(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


SURROUNDINGS = {
    "default dtype": lambda: default_dtype(torch.float64),
    "gradients": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("owner", torch.bfloat16, cache_enabled=False),
    "device": lambda: torch.device("meta"),
}


@pytest.mark.parametrize("name", SURROUNDINGS)
def test_other_surroundings(seed, name):
    device = shared_owner().device

    def body(model, optimizer, x, y):
        noise = torch.zeros(3) if name == "device" else torch.zeros(3, device=device)
        logits = model(x) + (noise.to(x.dtype) if noise.device.type == "owner" else 2.0)
        return (logits.sum(), noise) if noise.device.type == "owner" else logits.sum()

    twins = Twins(device, mlp, OPTIMIZERS["SGD"], body)
    with torch.device(device) if name == "device" else contextlib.nullcontext():
        for _ in range(5):
            twins(*batch(device))
    inputs = batch(device)
    with SURROUNDINGS[name]():
        for _ in range(4):
            results = [step(*inputs) for step in twins.steps]
            leaves = [torch.utils._pytree.tree_leaves(result) for result in results]
            assert [(t.dtype, t.device.type, t.is_inference()) for t in leaves[0]] == [
                (t.dtype, t.device.type, t.is_inference()) for t in leaves[1]
            ]
    assert twins.calls[1] <= 5, sojourn.explain()
    twins(*batch(device))


def test_arguments_of_other_kinds(seed):
    """Sizes, strides, dtypes, places, types, texts and signs: each new kind is traced, and no kind takes another's ops."""
    device = shared_owner().device

    def body(model, optimizer, x, y, scale=1.0, kind="sum"):
        logits = model(x if x.device.type == "owner" else x.to(device)) * scale
        loss = getattr(logits.float(), kind)() + (y.float().mean() if isinstance(y, torch.Tensor) else y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    twins = Twins(device, mlp, OPTIMIZERS["Adam"], body)
    wide = torch.randn(10, 12).to(device)[:, ::2]
    x, y = batch(device)
    kinds = [
        (x, y), (wide, y), (x[:5], y), (x, y[:5]), (x.cpu() if x.device.type == "cpu" else torch.randn(10, 6), y),
        (x, 2), (x, True), (x, 2.0), (x, y, -0.5), (x, y, 0.5), (x, y, 0.0), (x, y, 2), (x, y, 0.5, "mean"),
    ]  # fmt: skip
    for given in kinds:
        for _ in range(4):
            twins(*given)
    for given in kinds:  # all are known: none is traced
        for again in range(2):
            before = twins.calls[1]
            twins(*given)
            assert twins.calls[1] == before, (given[2:], again, sojourn.explain())
    for given in kinds * 2:  # each after one of another kind
        twins(*given)
    twins.check(len(kinds))


def test_calls_in_steps_and_in_threads(seed):
    device = shared_owner().device
    twins = Twins(device, mlp, OPTIMIZERS["Adam"], classify)
    for _ in range(5):
        twins(*batch(device))
    x, y = batch(device)
    for step in twins.steps:
        with sojourn.step():
            step(x, y)  # joins it: the function runs
            step(x, y)
    assert twins.calls[0] - twins.calls[1] == 2
    failures = []

    def elsewhere():
        try:
            for _ in range(4):
                same(*[step(x, y) for step in twins.steps])
        except Exception as failure:
            failures.append(failure)

    sojourn.flush()
    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert not failures
    for _ in range(4):
        twins(*batch(device))
    twins.check(7)


def test_arguments_by_name(seed):
    device = shared_owner().device
    runs = []

    @sojourn.step(replay=True)
    def scaled(x, y, scale=1.0):
        runs.append(scale)
        return (x * scale).sum() - y

    for number in range(30):
        x, y = torch.randn(4).to(device), torch.randn(()).to(device)
        swapped, scale = number % 3 == 1, 0.5 + number
        given = scaled(x, y, scale) if number % 3 == 0 else scaled(y=y, x=x, scale=scale) if swapped else scaled(x, y=y)
        same(given, (x * (1.0 if number % 3 == 2 else scale)).sum() - y)
    assert len(runs) <= 9, sojourn.explain()


def test_a_module_that_is_gone(seed):
    """Modules that died are not looked at; their successor is another one."""
    device = shared_owner().device
    held = [mlp().to(device)]
    optimizer = torch.optim.SGD(held[0].parameters(), lr=0.1)

    @sojourn.step(replay=True)
    def train(x, y):
        return plain(held[0], optimizer, x, y)

    for _ in range(5):
        train(*batch(device))
    held[0] = mlp().to(device)
    optimizer.param_groups[0]["params"] = list(held[0].parameters())
    other = copy.deepcopy(held[0])
    rival = torch.optim.SGD(other.parameters(), lr=0.1)
    for _ in range(5):
        inputs = batch(device)
        same(train(*inputs), sojourn.step(lambda x, y: plain(other, rival, x, y))(*inputs))
    same(held[0].state_dict(), other.state_dict())
