# SPDX-License-Identifier: Apache-2.0
"""Goal: steps that swap or rotate what they keep are right in every repetition, however they run.

Each kind of exchange is a class over a device. Oracle: the same class on CPU tensors.
"""

import pytest
import torch
import torch.nn.functional as F
from remote_support import assert_same, shared_owner
from torch import nn

import sojourn

TURNS = 11


class Kept:
    """Tensors of three numbers, the same at every place, that a step keeps; all that it returns it keeps, too."""

    def __init__(self, place, first):
        self.place, self.first_values = place, first
        self.kept = [each.to(place, copy=True) for each in first]
        self.prepare()

    def prepare(self):
        pass


class Swapped(Kept):
    """Two names of tensors."""

    def prepare(self):
        self.near, self.far, *_ = self.kept

    def turn(self, x):
        self.near, self.far = self.far, self.near
        self.near = self.near * 0.5 + x
        return self.near * 1, self.far * 1


class SwappedInPlace(Swapped):
    """Two names of tensors, one of which is written."""

    def turn(self, x):
        self.near, self.far = self.far, self.near
        self.near.mul_(0.5).add_(x)
        return self.near * 1, self.far * 1


class OneIsRead(Swapped):
    """Two names of tensors, of which a step reads one."""

    def turn(self, x):
        self.near, self.far = self.far, self.near
        return (self.near + x,)


class OneIsWritten(Swapped):
    """Two names of tensors, of which a step reads and writes one."""

    def turn(self, x):
        self.near, self.far = self.far, self.near
        self.near.add_(x)
        return (self.near * 1,)


class Rotated(Kept):
    """Three names, each of which is the next one after a turn."""

    def prepare(self):
        self.a, self.b, self.c, *_ = self.kept

    def turn(self, x):
        self.a, self.b, self.c = self.b, self.c, self.a
        self.c = self.c + x * self.a
        return self.a * 1, self.b * 1, self.c * 1


class Copied(Rotated):
    """Three buffers whose values move on."""

    def turn(self, x):
        kept = self.a.clone()
        self.a.copy_(self.b)
        self.b.copy_(self.c)
        self.c.copy_(kept).add_(x)
        return self.a * 1, self.b * 1, self.c * 1


class Listed(Kept):
    """A list that turns; every tensor is read in every step."""

    def turn(self, x):
        self.kept.append(self.kept.pop(0))
        self.kept[0] = self.kept[0] * 0.5 + x
        return tuple(each * 1 for each in self.kept)


class ListedOne(Kept):
    """A list that turns; a step reads and writes its first tensor only."""

    def turn(self, x):
        self.kept.append(self.kept.pop(0))
        self.kept[0].add_(x)
        return (self.kept[0] * 1,)


class Delayed(Kept):
    """The last results, of which a step reads the newest and the oldest."""

    def turn(self, x):
        self.kept = [self.kept[0] * 0.5 + self.kept[-1] + x, *self.kept[:-1]]
        return (self.kept[0] * 1,)


class Forgotten(Kept):
    """The last results, of which a step reads the newest only; the oldest one goes."""

    def turn(self, x):
        self.kept = [self.kept[0] * 0.5 + x, *self.kept[:-1]]
        return (self.kept[0] * 1,)


class InTurn(Kept):
    """A tensor of a list is replaced in each step, by a number that Python counts."""

    def prepare(self):
        self.number = 0

    def turn(self, x):
        at = self.number % len(self.kept)
        self.number += 1
        self.kept[at] = self.kept[at] * 0.5 + x
        return (self.kept[at] * 1,)


class Called(Kept):
    """A module whose call is the step, so that replays know what it holds."""

    def prepare(self):
        self.module = Called.Module(self)

    def turn(self, x):
        return self.module(x)

    class Module(nn.Module):
        def __init__(self, kept):
            super().__init__()
            self.forward = kept.forward


class Buffers(Called):
    """Buffers of a module."""

    def prepare(self):
        super().prepare()
        for name, each in zip("abc", self.kept):
            self.module.register_buffer(name, each)

    def forward(self, x):
        module = self.module
        module.a, module.b, module.c = module.b, module.c, module.a
        module.a.mul_(0.5).add_(x)
        return module.a * 1, module.b * 1, module.c * 1


class Layers(Called):
    """Submodules of a module."""

    def prepare(self):
        super().prepare()
        for name, each in zip("ab", self.first_values):
            layer = nn.Linear(3, 1, bias=False, dtype=torch.float64)
            layer.load_state_dict({"weight": each[None]})
            setattr(self.module, name, layer.to(self.place))

    def forward(self, x):
        module = self.module
        module.a, module.b = module.b, module.a
        with torch.no_grad():
            module.a.weight.mul_(0.5).add_(x)
        return (module.a(x).tanh() * module.b.weight).detach(), module.a.weight.detach() * 1


class Data(Kept):
    """Parameters that exchange their data; both are trained."""

    def prepare(self):
        self.first, self.second = (nn.Parameter(each) for each in self.kept[:2])

    def turn(self, x):
        self.first.data, self.second.data = self.second.data, self.first.data
        loss = (self.first * x).sum().tanh() + (self.second + x).square().sum()
        loss.backward()
        with torch.no_grad():
            for each in (self.first, self.second):
                each.sub_(each.grad * 0.1)
                each.grad = None
        return loss.detach(), self.first.detach() * 1, self.second.detach() * 1


class Tensors(Data):
    """Parameters that `swap_tensors` exchanges."""

    def turn(self, x):
        torch.utils.swap_tensors(self.first, self.second)
        loss = (self.first * x).sum().tanh() + (self.second + x).square().sum()
        gradients = torch.autograd.grad(loss, [self.first, self.second])
        with torch.no_grad():
            self.first.sub_(gradients[0] * 0.1)
            self.second.sub_(gradients[1] * 0.2)
        return loss.detach(), self.first.detach() * 1, self.second.detach() * 1


class Moments(Data):
    """An optimizer's moments of two parameters."""

    def prepare(self):
        super().prepare()
        self.optimizer = self.make()

    def make(self):
        return torch.optim.SGD([self.first, self.second], lr=0.1, momentum=0.9)

    def turn(self, x):
        self.optimizer.zero_grad()
        loss = (self.first * x).sum().tanh() + (self.second + x).square().sum()
        loss.backward()
        self.optimizer.step()
        self.exchange()
        return loss.detach(), self.first.detach() * 1, self.second.detach() * 1

    def exchange(self):
        a, b = (self.optimizer.state[each] for each in (self.first, self.second))
        a["momentum_buffer"], b["momentum_buffer"] = b["momentum_buffer"], a["momentum_buffer"]


class Entries(Moments):
    """All that an optimizer keeps of two parameters."""

    def exchange(self):
        state = self.optimizer.state
        state[self.first], state[self.second] = state[self.second], state[self.first]


class Groups(Moments):
    """The groups of two parameters, and so their rates."""

    def make(self):
        groups = [{"params": [self.first], "lr": 0.1}, {"params": [self.second], "lr": 0.03}]
        return torch.optim.SGD(groups, momentum=0.9)

    def exchange(self):
        a, b = self.optimizer.param_groups
        a["params"], b["params"] = b["params"], a["params"]


class Weights(Data):
    """Two parameters of a module that is trained by an optimizer."""

    def prepare(self):
        super().prepare()
        self.module = nn.Module()
        self.module.first, self.module.second = self.first, self.second
        self.optimizer = torch.optim.SGD(self.module.parameters(), lr=0.1, momentum=0.5)

    def turn(self, x):
        module = self.module
        module.first, module.second = module.second, module.first
        self.optimizer.zero_grad()
        loss = (module.first * x).sum().tanh() + (module.second + x).square().sum()
        loss.backward()
        self.optimizer.step()
        return loss.detach(), module.first.detach() * 1, module.second.detach() * 1


class Models(Kept):
    """Two models, each with its optimizer, of which one is trained against the other in turn."""

    def prepare(self):
        self.pairs = []
        for each in self.first_values[:2]:
            model = nn.Linear(3, 1, bias=False, dtype=torch.float64)
            model.load_state_dict({"weight": each[None]})
            model.to(self.place)
            self.pairs.append((model, torch.optim.SGD(model.parameters(), lr=0.1)))

    def turn(self, x):
        self.pairs.reverse()
        (model, optimizer), (other, _) = self.pairs
        optimizer.zero_grad()
        loss = F.mse_loss(model(x[None]), other(x[None]).detach() + x.sum())
        loss.backward()
        optimizer.step()
        return loss.detach(), model.weight.detach() * 1, other.weight.detach() * 1


KINDS = {
    kind.__name__: kind
    for kind in (
        Swapped, SwappedInPlace, OneIsRead, OneIsWritten, Rotated, Copied, Listed, ListedOne, Delayed, Forgotten, InTurn,
        Buffers,
        Layers,
        Data,
        Tensors,
        Moments,
        Entries,
        Groups,
        Weights,
        Models,
    )
}  # fmt: skip


def traced(kind, first, xs, owner):
    there = kind(owner.device, first)
    sojourn.flush()
    step = sojourn.step(lambda x: sojourn.publish(there.turn(x)))
    return [step(x.to(owner.device)).value for x in xs]


def replayed(kind, first, xs, owner):
    there = kind(owner.device, first)
    sojourn.flush()
    step = sojourn.step(lambda x: sojourn.publish(there.turn(x)), replay=True)
    return [step(x.to(owner.device)).value for x in xs]


def looped(kind, first, xs, owner):
    there = kind(owner.device, first)
    sojourn.flush()
    at_owner = [(x.to(owner.device),) for x in xs]
    results = sojourn.loop(lambda x: sojourn.publish(there.turn(x)), at_owner, 4)
    return [[leaf.value for leaf in each] for each in results]


def compiled(kind, first, state_of=None, **options):
    """`state_of`: what a run shall read after any step."""
    made, left = [], {}

    def init():
        made.append(kind(device, first))
        if state_of is not None:
            left["kept"] = state_of(made[0])
        return left

    def step(x):
        returned = made[0].turn(x)
        if state_of is not None:
            left["kept"] = state_of(made[0])
        return returned

    with sojourn.offline() as device:
        return sojourn.compile(step, init=init, **(options or {"inputs": [sojourn.spec((3,), torch.float64)]}))


def ahead(per_trip):
    return lambda kind, first, xs, owner: compiled(kind, first).run(owner, [(x,) for x in xs], per_trip=per_trip)


def undeclared(kind, first, xs, owner):
    there = kind(owner.device, first)
    return [sojourn.publish(there.turn(x.to(owner.device))) for x in xs]


WAYS = {
    "undeclared": undeclared, "traced": traced, "replayed": replayed, "looped": looped, "ahead": ahead(1),
    "ahead, four in a trip": ahead(4),
}  # fmt: skip


#: Kinds whose ops differ from turn to turn: an artifact has one steady step, and says so.
ALTERNATING = ("Groups", "Weights")
RUNS = [(name, way) for name in KINDS for way in WAYS if not (name in ALTERNATING and way.startswith("ahead"))]


@pytest.mark.parametrize("runtime", ["native", "numpy"])
@pytest.mark.parametrize(("name", "way"), RUNS)
def test_every_turn_is_eager_s(name, way, runtime, seed):
    first, xs = start(), torch.randn(TURNS, 3).double() / 2
    here = KINDS[name]("cpu", first)
    expected = [here.turn(x) for x in xs]
    found = WAYS[way](KINDS[name], first, xs, shared_owner(runtime))
    assert len(found) == TURNS
    for number, (ours, theirs) in enumerate(zip(found, expected)):
        assert_same(list(ours), list(theirs), f"turn {number}", rtol=1e-12, atol=1e-12)


def start():
    return list(torch.randn(4, 3).double())


STATES = {
    "Swapped": lambda it: [it.near, it.far],
    "SwappedInPlace": lambda it: [it.near, it.far],
    "OneIsRead": lambda it: [it.near, it.far],
    "OneIsWritten": lambda it: [it.far, it.near],
    "Rotated": lambda it: [it.a, it.b, it.c],
    "Copied": lambda it: [it.c, it.a, it.b],
    "Listed": lambda it: it.kept,
    "ListedOne": lambda it: it.kept,
    "Delayed": lambda it: it.kept,
    "Forgotten": lambda it: it.kept,
    "Layers": lambda it: [it.module.a.weight.detach(), it.module.b.weight.detach()],
    "Buffers": lambda it: list(it.module.state_dict().values()),
    "Data": lambda it: [it.first.detach(), it.second.detach()],
    "Tensors": lambda it: [it.first.detach(), it.second.detach()],
    "Moments": lambda it: [it.first.detach(), it.second.detach()],
    "Entries": lambda it: [it.second.detach(), it.first.detach()],
    "Models": lambda it: [model.weight.detach() for model, _ in it.pairs],
}


@pytest.mark.parametrize("name", STATES)
def test_the_state_is_eager_s_after_any_step(name, seed, tmp_path):
    first, xs = start(), torch.randn(TURNS, 3).double() / 2
    compiled(KINDS[name], first, STATES[name]).save(tmp_path / "step.sojourn")
    program, here = sojourn.load(tmp_path / "step.sojourn"), KINDS[name]("cpu", first)
    for steps in range(1, TURNS + 1):
        here.turn(xs[steps - 1])
        program.run(shared_owner(), [(x,) for x in xs[:steps]], per_trip=1 + steps % 3)
        found = program.state()["kept"]
        assert_same(list(found), list(STATES[name](here)), f"after {steps} steps", rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("rows", [12, 14])
@pytest.mark.parametrize("name", [name for name in STATES if name != "Models"])
def test_the_short_batch_takes_its_place(name, rows, seed):
    """The step for the last batch of an epoch is another program, and stands among the others' turns."""
    first, data = start(), torch.randn(rows, 3).double() / 2

    class Summed(KINDS[name]):
        def turn(self, x):
            return super().turn(x.sum(0))

    batches = lambda rows: rows.batches("x", size=4, epochs=4, dtype=torch.float64)
    program = compiled(
        Summed, first, STATES[name], tables={"rows": sojourn.table_spec(None, {"x": (torch.float64, (3,))})},
        batches=batches, short=rows % 4 or 2,
    )  # fmt: skip
    with sojourn.local() as owner:
        owner.register("rows", {"x": data.numpy()}, policy="open")
        found = program.run(owner, per_trip=3)
        state = program.state()["kept"]
    here = Summed("cpu", first)
    expected = [here.turn(x) for x in batches(sojourn.plain({"x": data.numpy()}))]
    assert len(found) == len(expected) == 4 * -(-rows // 4)
    for number, (ours, theirs) in enumerate(zip(found, expected)):
        assert_same(list(ours), list(theirs), f"turn {number}", rtol=1e-10, atol=1e-10)
    assert_same(list(state), list(STATES[name](here)), "state", rtol=1e-10, atol=1e-10)


class Drained(Kept):
    """A list that ends: each step takes another of its tensors, and none comes back."""

    def turn(self, x):
        return (self.kept.pop() * x,)


class Unseen(Rotated):
    """Names of tensors that the step does not compute with."""

    def turn(self, x):
        self.a, self.b = self.b, self.a
        self.c = self.c + x
        return (self.c * 1,)


REFUSED = {
    "Groups": "different work in its third call than in its second",
    "Weights": "different work in its third call than in its second",
    "Drained": "not in an order that a compiled step can repeat",
    "Unseen": "change places from step to step otherwise than the step takes them",
    "InTurn": "change places from step to step otherwise than the step takes them",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_run_can_follow_is_refused(name, seed):
    kind = {"Drained": Drained, "Unseen": Unseen}.get(name) or KINDS[name]
    state_of = {"Unseen": lambda it: [it.a, it.b, it.c], "InTurn": lambda it: it.kept}.get(name)
    first = list(torch.randn(100 if name == "Drained" else 4, 3).double())
    with pytest.raises(sojourn.Unsupported, match=REFUSED[name]):
        compiled(kind, first, state_of)
