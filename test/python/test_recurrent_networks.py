# SPDX-License-Identifier: Apache-2.0
"""Goal: nn.LSTM, nn.GRU and nn.RNN are one op forwards and one backwards, and give what eager gives.

Method: random networks (layers, directions, biases, layouts, states given or not, frozen weights, results that nobody
uses), values and gradients of f64 beside eager on both runtimes; what one op cannot say (projections, packed sequences,
forward mode, torch.func, second derivatives, halves, errors) goes the way of ATen's composition, with the same results.
"""

import copy

import pytest
import torch
from remote_support import Count, assert_same, shared_owner
from torch import nn

import sojourn

KINDS = {
    "lstm": nn.LSTM,
    "gru": nn.GRU,
    "tanh": lambda *args, **more: nn.RNN(*args, nonlinearity="tanh", **more),
    "relu": lambda *args, **more: nn.RNN(*args, nonlinearity="relu", **more),
}
kinds = pytest.mark.parametrize("kind", KINDS)


def leaves(tree):
    return torch.utils._pytree.tree_leaves(tree)


def drawn_network(rng, kind, **more):
    """A network, its input, and states or None."""
    options = {"num_layers": rng.randint(1, 3), "bias": rng.random() < 0.7, "bidirectional": rng.random() < 0.5}
    options.update(batch_first=rng.random() < 0.5, **more)
    size, hidden, length, rows = rng.randint(1, 5), rng.randint(1, 6), rng.choice([1, 2, 3, 7]), rng.randint(1, 4)
    network = KINDS[kind](size, hidden, **options).double()
    shape = (rows, length, size) if options["batch_first"] else (length, rows, size)
    if rng.random() < 0.15:
        shape, rows = (length, size), None  # one sequence, without a batch
    first = options["num_layers"] * (2 if options["bidirectional"] else 1)
    state = torch.randn(*((first, hidden) if rows is None else (first, rows, hidden))).double()
    states = None
    if rng.random() < 0.5:
        states = (state, torch.randn_like(state)) if kind == "lstm" else state
    if rng.random() < 0.3:
        rng.choice(list(network.parameters())).requires_grad_(False)
    return network, torch.randn(shape).double(), states


def there(device, tree):
    """The same on a device, as leaves that take gradients."""
    return torch.utils._pytree.tree_map_only(torch.Tensor, lambda t: t.detach().to(device).requires_grad_(), tree)


def gradients(network, x, states, used, weights):
    """Results, then the gradients of a weighted sum of those that are used."""
    results = leaves(network(x, states))
    loss = sum((result * weight.to(x.device)).sum() for result, weight, on in zip(results, weights, used) if on)
    inputs = [t for t in [x, *leaves(states), *network.parameters()] if t is not None and t.requires_grad]
    found = torch.autograd.grad(loss, inputs, allow_unused=True)
    return [result.detach() for result in results], [g for g in found if g is not None], len(found)


@kinds
@pytest.mark.parametrize("draw", range(12))
def test_values_and_gradients(rng, owner, kind, draw):
    network, x, states = drawn_network(rng, kind)
    weights = [torch.randn_like(result) for result in leaves(network(x, states))]
    used = [rng.random() < 0.6 for _ in weights]
    used[rng.randrange(len(used))] = True
    expected = gradients(network, there("cpu", x), there("cpu", states), used, weights)
    remote = KINDS[kind](**arguments(network)).double().to(owner.device)
    remote.load_state_dict(network.state_dict())
    for ours, theirs in zip(remote.parameters(), network.parameters()):
        ours.requires_grad_(theirs.requires_grad)
    with Count(owner) as count:
        found = sojourn.step(gradients)(remote, there(owner.device, x), there(owner.device, states), used, weights)
    assert_same(list(found), list(expected), rtol=1e-9, atol=1e-12)
    assert count.of["ops_recorded"] < 40, "more than one op for all steps of a sequence"


def arguments(network):
    """Arguments that make one like it."""
    names = ("input_size", "hidden_size", "num_layers", "bias", "batch_first", "bidirectional")
    return {name: getattr(network, name) for name in names}


@kinds
def test_ops_of_a_sequence(kind, seed):
    """As many for a long sequence as for a short one, with and without gradients."""
    device = shared_owner().device
    network = KINDS[kind](3, 4, 2).to(device)

    def ops(length, trains):
        x = torch.randn(length, 2, 3).to(device)
        network.zero_grad()
        with Count(shared_owner()) as count, torch.set_grad_enabled(trains):
            out = network(x)[0]
            if trains:
                out.sum().backward()
        return count.of["ops_recorded"]

    for trains in (True, False):
        assert ops(2, trains) == ops(50, trains) < 30


@kinds
def test_written_results(kind, seed):
    """Results may be written to before the gradient is taken, as eager's."""
    device = shared_owner().device
    network, x = KINDS[kind](3, 4, 2, batch_first=True).double(), torch.randn(2, 5, 3).double()
    found = []
    for place in ("cpu", device):
        network.to(place)
        network.zero_grad()
        output, state = network(x.to(place))
        output.mul_(2).relu_()
        leaves(state)[0].add_(1)
        (output.sum() + leaves(state)[0].square().sum()).backward()
        found.append([output.detach(), *(parameter.grad.clone() for parameter in network.parameters())])
    assert_same(found[1], found[0], rtol=1e-9, atol=1e-12)


@kinds
@pytest.mark.parametrize("both_ways", [False, True])
def test_second_derivatives(kind, both_ways, seed):
    """A gradient penalty: the gradient's own graph."""
    network = KINDS[kind](3, 4, 2, bidirectional=both_ways).double()
    x, states = torch.randn(4, 2, 3).double(), torch.randn(4 if both_ways else 2, 2, 4).double()
    found = []
    for place in ("cpu", shared_owner().device):
        network.to(place)
        given, state = there(place, x), there(place, states)
        state = (state, state * 0.5) if kind == "lstm" else state
        (slope,) = torch.autograd.grad(network(given, state)[0].square().sum(), given, create_graph=True)
        found.append([slope.detach(), *torch.autograd.grad(slope.square().sum(), [given, *network.parameters()])])
    assert_same(found[1], found[0], rtol=1e-8, atol=1e-11)


@kinds
def test_forward_mode_and_torch_func(kind, seed):
    first, x = KINDS[kind](3, 4).double(), torch.randn(4, 2, 3).double()
    tangent = torch.randn_like(x)

    def run(network, x):
        return torch.func.functional_call(network, dict(network.named_parameters()), (x,))[0]

    found = []
    for place in ("cpu", shared_owner().device):
        network = copy.deepcopy(first).to(place)
        here = [t.to(place) for t in (x, tangent)]
        slope = torch.func.grad(lambda x, network=network: run(network, x).square().sum())(here[0])
        found.append(
            [
                t.detach()
                for t in (*torch.func.jvp(lambda x, network=network: run(network, x), (here[0],), (here[1],)), slope)
            ]
        )
    assert_same(found[1], found[0], rtol=1e-9, atol=1e-12)


@kinds
def test_dropout_between_layers(kind, seed):
    """Everything dropped: the second layer sees zeros. Nothing dropped when it does not train."""
    network, x = KINDS[kind](3, 4, 3, dropout=1.0).double(), torch.randn(5, 2, 3).double()
    found = []
    for place in ("cpu", shared_owner().device):
        network.to(place)
        network.train()
        trained = network(x.to(place))
        network.zero_grad()
        trained[0].sum().backward()
        slopes = [parameter.grad.clone() for parameter in network.parameters()]
        network.eval()
        with torch.no_grad():
            found.append([[t.detach() for t in leaves(trained)], slopes, leaves(network(x.to(place)))])
    assert_same(found[1], found[0], rtol=1e-9, atol=1e-12)


def test_dropout_draws_for_each_layer_and_call(seed):
    device = shared_owner().device
    network = nn.LSTM(3, 200, 2, dropout=0.5).to(device)
    x = torch.randn(6, 2, 3).to(device)
    first, second = sojourn.publish((network(x)[0].detach(), network(x)[0].detach()))
    assert not torch.equal(first, second)
    with torch.no_grad():
        weights = network.weight_ih_l1, network.bias_ih_l1, network.bias_hh_l1
        for weight in network.parameters():
            weight.zero_()
        weights[0].copy_(torch.eye(200).repeat(4, 1))
        network.bias_ih_l0.fill_(10.0)
        gates = sojourn.publish(network(x)[0])  # of what survived, doubled, and of zeros
    zeros = (gates[0] == gates[0].min()).double().mean()
    assert 0.35 < zeros < 0.65


@kinds
def test_weights_in_other_steps(kind, seed):
    """Forward in one step, backward in the next."""
    device = shared_owner().device
    network, x = KINDS[kind](3, 4, 2).double(), torch.randn(5, 2, 3).double()
    found = []
    for place in ("cpu", device):
        network.to(place)
        network.zero_grad()
        output = network(x.to(place))[0]
        sojourn.flush()
        output.square().sum().backward()
        found.append([parameter.grad.clone() for parameter in network.parameters()])
    assert_same(found[1], found[0], rtol=1e-9, atol=1e-12)


def test_what_one_op_cannot_say(seed):
    """Projections, packed sequences and halves are composed of steps, as before."""
    device = shared_owner().device
    projected, x = nn.LSTM(3, 4, 2, proj_size=2).double(), torch.randn(5, 2, 3).double()
    plain = nn.GRU(3, 4).double()
    packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 3]))
    expected = [projected(x)[0].detach(), plain(packed)[0].data.detach()]
    projected.to(device), plain.to(device)
    found = [projected(x.to(device))[0].detach(), plain(packed.to(device))[0].data.detach()]
    assert_same(found, expected, rtol=1e-9, atol=1e-12)
    half, low = nn.LSTM(3, 4).bfloat16(), torch.randn(5, 2, 3).bfloat16()
    expected = half(low)[0].detach().float()
    assert_same(half.to(device)(low.to(device))[0].detach().float(), expected, rtol=0.05, atol=0.02)
    with torch.autocast("owner", dtype=torch.bfloat16):
        assert nn.GRU(3, 4).to(device)(torch.randn(5, 2, 3).to(device))[0].dtype == torch.bfloat16


@pytest.mark.parametrize("shape", [(0, 2, 3), (5, 2, 4), (5, 3)], ids=str)
@kinds
def test_errors_are_eager_s(kind, shape, seed):
    """Of the input's length, of its width, and of a state that does not fit it."""
    network, errors = KINDS[kind](3, 4), []
    state = torch.zeros(1, 7, 4) if shape == (5, 3) else None
    for place in ("cpu", shared_owner().device):
        network.to(place)
        with pytest.raises(Exception) as caught:
            at = state.to(place) if state is not None else None
            network(torch.randn(shape).to(place), (at, at) if kind == "lstm" and at is not None else at)
        errors.append((caught.type, str(caught.value).split("\n")[0]))
    assert errors[0] == errors[1]


def test_the_python_function_takes_what_eager_takes(seed):
    """torch._VF.lstm with tensors of its own, under inference_mode and no_grad."""
    device = shared_owner().device
    network, x = nn.LSTM(3, 4, bidirectional=True), torch.randn(5, 2, 3)
    expected = [t.detach() for t in leaves(network(x))]
    network.to(device)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            assert_same(leaves(network(x.to(device))), expected, rtol=1e-5, atol=1e-6)


def states(net, h):
    return (h, h) if isinstance(net, nn.LSTM) else h


SHARED = {
    "one state twice": lambda net, x, h: net(x, states(net, h))[0],
    "an input made of the state": lambda net, x, h: net(x + h[:, :, :3] ** 2, states(net, h))[0],
    "twice in a row": lambda net, x, h: net(net(x)[0][:, :, :3])[0],
}


@kinds
@pytest.mark.parametrize("way", SHARED)
def test_second_derivatives_of_inputs_that_depend_on_each_other(kind, way, seed):
    first = KINDS[kind](3, 4).double()
    x, h = torch.randn(5, 2, 3).double(), torch.randn(1, 2, 4).double()
    found = []
    for place in ("cpu", shared_owner().device):
        network = copy.deepcopy(first).to(place)
        state = there(place, h)
        leaves_ = [*network.parameters(), *([state] if way != "twice in a row" else [])]
        slopes = torch.autograd.grad(
            SHARED[way](network, x.to(place), state).square().sum(), leaves_, create_graph=True
        )
        found.append([t.detach() for t in slopes])
        found[-1] += torch.autograd.grad(sum(t.square().sum() for t in slopes), leaves_)
    assert_same(found[1], found[0], rtol=1e-8, atol=1e-10)
