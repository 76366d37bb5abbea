# SPDX-License-Identifier: Apache-2.0
"""Hooks and anomaly mode inside of steps, traced and replayed, compared with eager on the CPU."""

import contextlib
import copy
import warnings

import pytest
import torch
import torch.nn.functional as F
from remote_support import shared_owner
from replay_support import OPTIMIZERS, batch, mlp, plain

import sojourn


@contextlib.contextmanager
def removed(handles):
    """Removes hooks at the end, whatever happens between."""
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def of_a_tensor(model, optimizer, x, y):
    optimizer.zero_grad()
    hidden = model[0](x)
    hidden.register_hook(lambda gradient: gradient * 0.5)
    loss = F.cross_entropy(model[2](model[1](hidden)), y)
    loss.backward()
    optimizer.step()
    return loss.detach()


def of_parameters(model, optimizer, x, y):
    handles = [p.register_hook(lambda gradient: gradient.clamp(-0.01, 0.01)) for p in model.parameters()]
    with removed(handles):
        return plain(model, optimizer, x, y)


def of_gradients(model, optimizer, x, y):
    def halve(parameter):
        parameter.grad.mul_(0.5)

    handles = [p.register_post_accumulate_grad_hook(halve) for p in model.parameters()]
    with removed(handles):
        return plain(model, optimizer, x, y)


def of_modules(model, optimizer, x, y):
    handles = [
        model[0].register_forward_pre_hook(lambda module, args: (args[0] * 2,)),
        model[0].register_forward_hook(lambda module, args, result: result + 1),
        model[2].register_full_backward_pre_hook(lambda module, gradients: (gradients[0] * 0.5,)),
        model[2].register_full_backward_hook(lambda module, inner, outer: (inner[0] * 2,)),
    ]
    with removed(handles):
        return plain(model, optimizer, x, y)


def of_saved_tensors(model, optimizer, x, y):
    """Neither of the two hooks undoes the other, so that gradients show both; classes stay integers."""

    def pack(tensor):
        return tensor * 2 if tensor.is_floating_point() else tensor

    def unpack(tensor):
        return tensor / 4 if tensor.is_floating_point() else tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        return plain(model, optimizer, x, y)


def of_several_gradients(model, optimizer, x, y):
    hidden = model[0](x)
    other = hidden.relu()
    seen = []
    optimizer.zero_grad()
    with removed([torch.autograd.graph.register_multi_grad_hook([hidden, other], seen.extend)]):
        F.cross_entropy(model[2](other), y).backward()
    optimizer.step()
    return torch.stack(seen)


def of_optimizers(model, optimizer, x, y):
    def scale(optimizer, args, kwargs):
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad.mul_(0.5)

    with removed([optimizer.register_step_pre_hook(scale)]):
        return plain(model, optimizer, x, y)


def kept_gradient(model, optimizer, x, y):
    optimizer.zero_grad()
    hidden = model[0](x)
    hidden.retain_grad()
    F.cross_entropy(model[2](model[1](hidden)), y).backward()
    optimizer.step()
    return hidden.grad.detach()


def anomalous(model, optimizer, x, y):
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        return plain(model, optimizer, x, y)


BODIES = [of_a_tensor, of_parameters, of_gradients, of_modules, of_saved_tensors, of_several_gradients, of_optimizers,
          kept_gradient, anomalous]  # fmt: skip


@pytest.mark.parametrize("replay", [False, True])
@pytest.mark.parametrize("body", BODIES)
def test_hooks_inside_of_steps(seed, body, replay):
    first, device = mlp(), shared_owner().device
    models = [copy.deepcopy(first), copy.deepcopy(first).to(device)]
    optimizers = [OPTIMIZERS["SGD momentum"](model.parameters()) for model in models]  # shows factors of gradients
    step = sojourn.step(lambda x, y: body(models[1], optimizers[1], x, y), replay=replay)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Anomaly Detection")
        for _ in range(8):
            x, y = batch(torch.device("cpu"))
            found, wanted = step(x.to(device), y.to(device)), body(models[0], optimizers[0], x, y)
            torch.testing.assert_close(sojourn.publish(found), wanted, rtol=1e-4, atol=1e-6)
    for ours, theirs in zip(*(model.parameters() for model in reversed(models))):
        torch.testing.assert_close(sojourn.publish(ours.detach()), theirs.detach(), rtol=1e-4, atol=1e-5)
    assert not replay or step.replayed >= 5, sojourn.explain()


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("replay", [False, True])
def test_a_search_for_nan_is_refused_in_a_step(seed, replay):
    device = shared_owner().device
    model = mlp().to(device)
    optimizer = OPTIMIZERS["Adam"](model.parameters())
    before = copy.deepcopy(model.state_dict())

    def train(x, y):
        with torch.autograd.set_detect_anomaly(True):
            return plain(model, optimizer, x, y)

    for _ in range(2):
        with pytest.raises(sojourn.ValueNeeded, match="anomaly mode looks for NaN.*check_nan=False"):
            sojourn.step(train, replay=replay)(*batch(device))
    for name, value in model.state_dict().items():
        assert torch.equal(sojourn.publish(value), sojourn.publish(before[name]))


@pytest.mark.filterwarnings("ignore:Anomaly Detection", "ignore:a value is read here", "ignore:Error detected")
def test_nan_is_found_outside_of_steps(seed):
    """As on the CPU: the same error, about the same function."""
    device, texts = shared_owner().device, []
    for place in (torch.device("cpu"), device):
        x = torch.randn(3).to(place).requires_grad_()
        with (
            pytest.raises(RuntimeError, match="returned nan values") as failure,
            torch.autograd.set_detect_anomaly(True),
        ):
            (x * 0).sqrt().sum().backward()
        texts.append(str(failure.value))
        x = torch.rand(3).to(place).requires_grad_()
        with torch.autograd.set_detect_anomaly(True):
            x.sqrt().sum().backward()
    assert texts[0] == texts[1]
    sojourn.flush()
