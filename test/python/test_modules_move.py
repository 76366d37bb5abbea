# SPDX-License-Identifier: Apache-2.0
"""`module.to(device)` moves parameters in place: ties, optimizers built before, classes and attributes stay, both ways."""

import copy
import threading
import weakref

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
    held = torch._C._WeakTensorRef(model.weight)
    with pytest.raises(sojourn.Error, match="a Parameter of shape .2, 3. cannot move"):
        model.to(device)
    del held
    model.to(device)
    with pytest.raises(sojourn.Error, match="expected an owner or its device"):
        sojourn.to_owner(model, "cpu")
    with pytest.raises(TypeError):
        model.to(3.5, "x")


def looped(model, x):
    """Both layers' weights are saved for backward, and one of them twice."""
    hidden = model[2](model[1](model[0](x)))
    return model[2](hidden.sin()).square().sum()


@pytest.mark.parametrize("there", [True, False], ids=["to the owner", "from the owner"])
@pytest.mark.parametrize("has_gradients", [False, True])
@pytest.mark.filterwarnings("ignore:a value is read here")
def test_a_graph_from_before_a_move_gives_its_gradients(device, seed, there, has_gradients):
    """As if nothing had moved: to parameters, which are on the new device, and to inputs, which are where they were."""
    first, second = (device, torch.device("cpu"))[:: -1 if there else 1]
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4)).double()
    twin = copy.deepcopy(model)
    model.to(first)
    parameters, optimizers = list(model.parameters()), [torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, twin)]
    x = torch.randn(5, 3, dtype=torch.float64)
    near, far = x.clone().requires_grad_(), x.to(first, copy=True).requires_grad_()
    losses = [looped(model, far), looped(twin, near)]
    if has_gradients:
        for module in (model, twin):
            module(x.to(module[0].weight.device)).sum().backward()
    slopes = [each.grad for each in parameters]
    model.to(second)
    assert all(ours is before for ours, before in zip(model.parameters(), parameters))
    assert all(each.grad is before for each, before in zip(parameters, slopes))  # or None
    losses[0].backward(retain_graph=True)
    losses[1].backward(retain_graph=True)
    assert {each.grad.device.type for each in parameters} == {second.type} and far.grad.device.type == first.type
    assert_same(
        [far.grad.cpu(), *(p.grad.cpu() for p in parameters)], [near.grad, *(p.grad for p in twin.parameters())]
    )
    losses[0].backward()  # once more, onto what is there
    losses[1].backward()
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad()
    again = [looped(model, x.to(second)), looped(twin, x)]
    for loss in again:
        loss.backward()
    assert_same([p.grad.cpu() for p in parameters], [p.grad for p in twin.parameters()])
    assert_same([again[0].cpu()], [again[1]])


def test_graphs_of_several_moves(device, seed):
    """There and back: each graph keeps the values that it was made of."""
    weight = nn.Linear(2, 1, bias=False).double()
    values, losses = [], []
    x = torch.randn(3, 2, dtype=torch.float64)
    for place in (torch.device("cpu"), device, torch.device("cpu"), device):
        weight.to(place)
        with torch.no_grad():
            weight.weight.mul_(2)
        values.append(weight.weight.detach().cpu())
        losses.append(weight(x.to(place)).square().sum())
    wanted = torch.zeros(1, 2, dtype=torch.float64)
    for value, loss in zip(values, losses):
        leaf = value.clone().requires_grad_()
        (x @ leaf.T).square().sum().backward()
        wanted += leaf.grad
        loss.backward()
    assert weight.weight.grad.device == device
    assert_same(weight.weight.grad, wanted)


def test_hooks_of_parameters_stay_when_they_move(device, seed):
    model, calls = nn.Linear(2, 1), []
    handles = [
        model.weight.register_hook(lambda slope: calls.append("before") or slope * 3),
        model.weight.register_post_accumulate_grad_hook(lambda weight: calls.append(weight is model.weight)),
    ]
    x = torch.ones(1, 2)
    old = model(x).sum()
    model.to(device)
    model(x.to(device)).sum().backward()
    assert calls == ["before", True] and model.weight.grad.tolist() == [[3.0, 3.0]]
    old.backward()
    assert calls == ["before", True] * 2 and model.weight.grad.tolist() == [[6.0, 6.0]]
    for handle in handles:
        handle.remove()
    model(x.to(device)).sum().backward()
    assert len(calls) == 4 and model.weight.grad.tolist() == [[7.0, 7.0]]


def test_weak_references_and_second_derivatives_through_a_move(device, seed):
    model = nn.Linear(2, 1).double()
    seen = weakref.ref(model.weight)
    twin = copy.deepcopy(model)
    data = torch.randn(4, 2, dtype=torch.float64)
    x, y = (data.clone().requires_grad_() for _ in range(2))
    old, beside = model(x).pow(4).sum(), twin(y).pow(4).sum()
    model.to(device)
    assert seen() is model.weight
    for loss in (old, beside):
        loss.backward(create_graph=True)
    assert_same([p.grad for p in model.parameters()], [p.grad.detach() for p in twin.parameters()])
    second = [torch.autograd.grad(m.weight.grad.square().sum(), z)[0] for m, z in ((model, x), (twin, y))]
    assert_same(second[0], second[1])
    model.zero_grad()  # a gradient with a graph refers to its parameter
    twin.zero_grad()
    # And of modules that do not cross, torch's own way is untouched.
    plain = [nn.Parameter(torch.ones(2)) for _ in range(2)]
    kept = (plain[0] * plain[0]).sum()
    with pytest.raises(RuntimeError, match="use_count"):
        torch.utils.swap_tensors(*plain)
    kept.backward()


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
