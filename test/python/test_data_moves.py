# SPDX-License-Identifier: Apache-2.0
"""`tensor.data = other` moves a tensor between the CPU and an owner, as torch does between the CPU and a GPU."""

import copy
import pickle
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from remote_support import assert_same
from torch import nn

import sojourn


def network():
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2)).double()


def train(model, optimizer, batches, place):
    for x, y in batches:
        optimizer.zero_grad()
        F.cross_entropy(model(x.to(place)), y.to(place)).backward()
        optimizer.step()


def move(model, place):
    """As scripts do that move a model by hand."""
    for parameter in model.parameters():
        parameter.data = parameter.data.to(place)
    for buffer in model.buffers():
        buffer.data = buffer.data.to(place)


def test_a_model_moved_by_hand_trains_with_its_optimizer(device, seed):
    model = network()
    beside = copy.deepcopy(model)
    parameters = list(model.parameters())
    optimizer, other = (torch.optim.SGD(each.parameters(), lr=0.1, momentum=0.9) for each in (model, beside))
    batches = [(torch.randn(5, 3).double(), torch.randint(2, (5,))) for _ in range(4)]
    move(model, device)
    assert all(ours is before for ours, before in zip(model.parameters(), parameters))
    assert {tensor.device for tensor in model.state_dict().values()} == {device}
    assert all(type(each) is nn.Parameter and each.requires_grad for each in parameters)
    train(model, optimizer, batches, device)
    train(beside, other, batches, "cpu")
    assert {parameter.device for parameter in parameters} == {device}
    assert_same(model.state_dict(), beside.state_dict(), rtol=1e-9, atol=1e-12)
    move(model, "cpu")
    assert {tensor.device.type for tensor in model.state_dict().values()} == {"cpu"}
    assert_same(dict(model.state_dict()), dict(beside.state_dict()), rtol=1e-9, atol=1e-12)


def test_gradients_and_hooks_follow(device, seed):
    x, weight = torch.randn(3).double(), torch.randn(3).double()
    ours, theirs = nn.Parameter(weight.clone()), nn.Parameter(weight.clone())
    seen = {}
    for name, each in (("ours", ours), ("theirs", theirs)):
        each.register_hook(lambda slope, name=name: seen.setdefault(name, []).append(slope))
        (each * x).sum().backward()
    ours.data = ours.data.to(device)
    assert ours.grad.device == device
    (ours * x.to(device)).square().sum().backward()
    (theirs * x).square().sum().backward()
    assert_same(ours.grad, theirs.grad)
    assert_same(seen["ours"], seen["theirs"])


def test_a_buffer_takes_a_value_of_the_cpu(device, seed):
    """As libraries set a flag after their first batch; the flag then is a CPU tensor, as next to a GPU."""
    flag = torch.tensor(False).to(device)
    flag.data = torch.tensor(True)
    assert flag.device.type == "cpu" and bool(flag)
    value = torch.randn(2, 3)
    taken = torch.zeros(1)
    taken.data = value.to(device)
    assert taken.device == device
    assert_same(taken, value)
    taken.data = taken.data * 2
    assert_same(taken, value * 2)


def test_what_cannot_move_is_refused_and_stays(device, seed):
    values = torch.randn(3).double()
    leaf = values.to(device).requires_grad_()
    computed = leaf * 2
    with pytest.raises(sojourn.Unsupported, match=r"a computed tensor of shape \(3,\) from 'owner:\d+' to 'cpu'; move"):
        computed.data = torch.ones(3)
    with pytest.raises(sojourn.Unsupported, match=r"of shape \(3,\) from 'owner:\d+' to 'cpu' inside of a step"):
        with sojourn.step():
            leaf.data = torch.ones(3)
    (leaf * 2).sum().backward()
    assert leaf.device == device
    assert_same(leaf, values)
    assert_same(leaf.grad, torch.full((3,), 2.0).double())


def test_tensors_of_the_cpu_are_torchs_own(seed):
    x, other = torch.randn(3), torch.randn(2, 2)
    window = x.data
    window[0] = 5
    assert x[0] == 5 and not window.requires_grad
    x.data = other
    assert x.data_ptr() == other.data_ptr() and x.shape == (2, 2)
    with pytest.raises(TypeError, match="has to be a tensor"):
        x.data = 3
    with pytest.raises(RuntimeError, match="not allowed"):
        del x.data
    assert torch.equal(pickle.loads(pickle.dumps(x)).data, other)
    twice = torch.compile(lambda each: each.data * 2, backend="eager", fullgraph=True)
    assert torch.equal(twice(x), other * 2)


def test_classes_see_the_calls_that_torch_makes():
    """The same script in a process without this package counts the same calls of `__torch_function__`."""
    script = """
import torch

seen = []


class Counted(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        seen.append(len(args))
        return super().__torch_function__(func, types, args, kwargs or {})


x = torch.arange(3.0).as_subclass(Counted)
y = torch.ones(2).as_subclass(Counted)
seen.clear()
x.data
x.data = y
x.data = torch.zeros(4)
print(seen, type(x).__name__, x.shape)
"""
    runs = [
        subprocess.run([sys.executable, "-c", head + script], capture_output=True, text=True, check=True).stdout
        for head in ("", "import sojourn\n")
    ]
    assert runs[0] == runs[1] and "Counted" in runs[0]
