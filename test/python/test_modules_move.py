# SPDX-License-Identifier: Apache-2.0
"""`module.to(device)` moves parameters in place: ties, optimizers built before, classes and attributes stay, both ways."""

import copy
import threading

import pytest
import torch
import torch.nn.functional as F
from remote_support import assert_same, shared_owner
from torch import nn

import sojourn


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(7, 4), nn.Linear(4, 7, bias=False)
        self.head.weight = self.words.weight
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("table", torch.arange(4.0).double())
        self.norm.register_buffer("table", self.table)

    def forward(self, x):
        return self.head(self.norm(self.words(x)) + self.table.to(self.head.weight.dtype))


class Marked(nn.Parameter):
    """One with a class and an attribute of its own."""


def trained(model, optimizer, batches, place):
    for x, y in batches:
        optimizer.zero_grad()
        F.cross_entropy(model(x.to(place)), y.to(place)).backward()
        optimizer.step()


def batches(count):
    return [(torch.randint(0, 7, (6,)), torch.randint(0, 7, (6,))) for _ in range(count)]


WAYS = {
    "to": lambda model, owner: model.to(owner.device),
    "to a string": lambda model, owner: model.to(str(owner.device)),
    "to like a tensor": lambda model, owner: model.to(torch.zeros((), device=owner.device).double()),
    "owner()": lambda model, owner: model.owner(owner.device.index),
    "to_owner": lambda model, owner: sojourn.to_owner(model, owner),
    "to_owner of a device": lambda model, owner: sojourn.to_owner(model, owner.device),
}


@pytest.mark.parametrize("way", WAYS)
def test_an_optimizer_built_before_trains_the_moved_model(owner, seed, way):
    model = Tied().double()
    beside = copy.deepcopy(model)
    parameters = list(model.parameters())
    optimizer, other = (torch.optim.Adam(each.parameters(), lr=0.1) for each in (model, beside))
    assert WAYS[way](model, owner) is model
    assert all(ours is before for ours, before in zip(model.parameters(), parameters))
    assert model.head.weight is model.words.weight and model.norm.table is model.table
    assert {tensor.device for tensor in model.state_dict().values()} == {owner.device}
    data = batches(6)
    trained(model, optimizer, data, owner.device)
    trained(beside, other, data, "cpu")
    assert_same(model.state_dict(), beside.state_dict(), rtol=1e-9, atol=1e-12)
    # And home again.
    sojourn.flush()
    model.zero_grad()
    beside.zero_grad()
    model.cpu()
    assert all(ours is before for ours, before in zip(model.parameters(), parameters))
    assert model.head.weight is model.words.weight and model.norm.table is model.table
    assert model.head.weight.device.type == "cpu"
    for key, value in beside.state_dict().items():
        torch.testing.assert_close(model.state_dict()[key], value, rtol=1e-9, atol=1e-12)


OPTIMIZERS = {
    "Adagrad": lambda parameters: torch.optim.Adagrad(parameters, lr=0.1),
    "Adagrad, one by one": lambda parameters: torch.optim.Adagrad(parameters, lr=0.1, foreach=False),
    "Adam": lambda parameters: torch.optim.Adam(parameters, lr=0.1, amsgrad=True),
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "RMSprop": lambda parameters: torch.optim.RMSprop(parameters, lr=0.01, momentum=0.9),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_state_that_is_older_than_the_move_follows(owner, seed, name):
    """Adagrad's is there from the start, the others' after a step; the message says how it moves."""
    model = Tied().double()
    beside = copy.deepcopy(model)
    optimizer, other = (OPTIMIZERS[name](each.parameters()) for each in (model, beside))
    data = batches(5)
    if not name.startswith("Adagrad"):
        trained(model, optimizer, data[:2], "cpu")
        trained(beside, other, data[:2], "cpu")
    model.to(owner.device)
    again, late = copy.deepcopy((model, optimizer))  # a step that is refused half way changes state
    with pytest.raises(sojourn.Refused, match=r"optimizer.load_state_dict\(optimizer.state_dict\(\)\)"):
        trained(again, late, data[2:3], owner.device)
    optimizer.load_state_dict(optimizer.state_dict())
    trained(model, optimizer, data[2:], owner.device)
    trained(beside, other, data[2:], "cpu")
    assert_same(model.state_dict(), beside.state_dict(), rtol=1e-9, atol=1e-12)


def test_classes_attributes_and_gradients_stay(device, seed):
    model = nn.Linear(3, 2)
    model.weight = Marked(model.weight.detach())
    model.weight.group = "slow"
    model.bias.requires_grad_(False)
    model(torch.ones(1, 3)).sum().backward()
    slope = model.weight.grad.clone()
    model.to(device)
    assert type(model.weight) is Marked and model.weight.group == "slow" and not model.bias.requires_grad
    assert torch.equal(model.weight.grad.cpu(), slope) and model.weight.grad.device == device


def test_lazy_modules(device, seed):
    torch.manual_seed(seed)
    lazy = nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.LazyLinear(2)).to(device)
    x = torch.randn(3, 5)
    out = lazy(x.to(device))
    assert lazy[0].weight.device == device and lazy[0].weight.shape == (4, 5) and type(lazy[0]) is nn.Linear
    twin = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 2))
    twin.load_state_dict(torch.utils._pytree.tree_map(lambda t: t.cpu(), dict(lazy.state_dict())))
    assert_same(out, twin(x), rtol=1e-5, atol=1e-6)


def test_conversions_at_the_owner(device, seed):
    model = Tied().to(device)
    parameters = list(model.parameters())
    model.double()
    assert all(ours is before for ours, before in zip(model.parameters(), parameters))
    assert model.head.weight is model.words.weight and model.head.weight.dtype == torch.float64
    model.to(torch.float32)
    assert model.head.weight.dtype == torch.float32


def test_what_cannot_move_says_so(device, seed):
    model = nn.Linear(3, 2)
    loss = model(torch.ones(1, 3, requires_grad=True)).sum()  # its graph holds the weight
    with pytest.raises(sojourn.Error, match="still used by an autograd graph"):
        model.to(device)
    del loss
    model.to(device)
    with pytest.raises(sojourn.Error, match="expected an owner or its device"):
        sojourn.to_owner(model, "cpu")
    with pytest.raises(TypeError):
        model.to(3.5, "x")


def test_moves_on_several_threads(device, seed):
    """Moving one way or another is each thread's own matter: torch's switch for it is one for all."""
    inside, leave = threading.Event(), threading.Event()

    class Slow(nn.Linear):
        def _apply(self, fn, recurse=True):
            inside.set()
            assert leave.wait(60)
            return super()._apply(fn, recurse)

    slow = Slow(3, 2)
    parameters = list(slow.parameters())
    thread = threading.Thread(target=slow.to, args=(device,))
    thread.start()
    assert inside.wait(60)
    other = nn.Linear(3, 2)
    other.to(device)
    assert not torch.__future__.get_swap_module_params_on_conversion()
    leave.set()
    thread.join()
    assert not torch.__future__.get_swap_module_params_on_conversion()
    assert all(now is then and now.device == device for now, then in zip(slow.parameters(), parameters))


def test_states_are_loaded_across(device, seed):
    model, there = Tied(), Tied().to(device)
    there.load_state_dict(model.state_dict())
    assert_same(there.state_dict(), model.state_dict())
    other = Tied()
    other.load_state_dict(there.state_dict())
    for key, value in model.state_dict().items():
        assert torch.equal(other.state_dict()[key], value)


@pytest.mark.filterwarnings("ignore:a value is read here")
def test_pinned_loaders(seed):
    """`DataLoader(pin_memory=True)` gives what it gives without."""
    data = torch.utils.data.TensorDataset(torch.arange(12.0).reshape(6, 2), torch.arange(6))
    loaders = [torch.utils.data.DataLoader(data, batch_size=4, pin_memory=pin) for pin in (False, True)]
    for plain, pinned in zip(*loaders):
        for a, b in zip(plain, pinned):
            assert torch.equal(a, b) and torch.equal(b.to(shared_owner().device, non_blocking=True).cpu(), a)
    assert torch.equal(torch.ones(3).pin_memory(), torch.ones(3))
    assert torch.empty(3, pin_memory=True).shape == (3,)


def test_functions_whose_body_runs_later():
    async def coroutine(x):
        return x

    def generator(x):
        yield x

    async def both(x):
        yield x

    for function, kind in ((coroutine, "async"), (generator, "a generator"), (both, "an async generator")):
        for decorate in (sojourn.step, sojourn.step(replay=True)):
            with pytest.raises(TypeError, match=f"is {kind}, whose body runs later"):
                decorate(function)


def test_a_device_lives_until_it_is_closed():
    device = sojourn.local().device
    x = torch.ones(3, device=device)
    assert (x + 1).tolist() == [2.0, 2.0, 2.0]
    assert torch.owner.device_count() >= 1
    devices = [sojourn.local().device for _ in range(40)]  # the oldest make room
    assert torch.ones(2, device=devices[-1]).sum().item() == 2
