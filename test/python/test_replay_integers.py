# SPDX-License-Identifier: Apache-2.0
"""Integer arguments of replayed calls: each call gives what the function itself gives on the CPU, whatever it does with
them, and those that are numbers of ops at most are replayed."""

import copy
import enum
import json
import math
import random
import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from remote_support import shared_owner
from replay_support import OPTIMIZERS, batch, mlp, same
from torch import nn

import sojourn

COUNT = 14


def tensors(tree):
    return [leaf for leaf in torch.utils._pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def compared(body, calls, seed_of=None):
    """Calls a replayed function on remote tensors and the function itself on the CPU, and compares; the step, warnings."""
    device = shared_owner().device
    step = sojourn.step(body, replay=True)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for x, *numbers in calls:
            found = step(x.to(device), *numbers)
            expected = body(x, *numbers)
            leaves = [torch.utils._pytree.tree_leaves(tree) for tree in (found, expected)]
            assert len(leaves[0]) == len(leaves[1])
            for ours, theirs in zip(*leaves):
                if isinstance(theirs, torch.Tensor):
                    torch.testing.assert_close(sojourn.publish(ours), theirs, equal_nan=True)
                    assert ours.stride() == theirs.stride()
                else:
                    assert type(ours) is type(theirs) and ours == theirs, (numbers, ours, theirs)
    return step, " ".join(str(warning.message) for warning in told)


def calls_of(values):
    return [(torch.randn(4, 3), *(value if isinstance(value, tuple) else (value,))) for value in values]


def decayed(x, i, base=0.5):
    rate = base * 0.9**i
    return x - rate * x


def by_float(x, i, base):
    return x * (base * 2 + i) - base * 0.5 * i


def updated(x, i):
    y = x * 1
    y += i
    y *= i + 1
    y -= i % 5
    y /= 2 + i
    return y.add_(x, alpha=-0.1 * (i + 3))


REPLAYED = {
    "unused": lambda x, i: x * 2,
    "a factor": lambda x, i: x * i,
    "a factor before": lambda x, i: i * x,
    "a summand": lambda x, i: i + x + i,
    "a difference": lambda x, i: (i - x) - (i - 1),
    "a divisor": lambda x, i: x / (i + 1),
    "a dividend": lambda x, i: (i + 1) / x,
    "a function of torch": lambda x, i: torch.add(torch.mul(x, i), i * 2),
    "a decayed rate": decayed,
    "in place": updated,
    "whole numbers": lambda x, i: (x * 4).to(torch.int64) * (i % 3) + i // 2,
    "small integers": lambda x, i: x.sign().to(torch.int8) * 3 + i,
    "Booleans": lambda x, i: (x > 0) * i,
    "an absolute value": lambda x, i: x * abs(5 - i) + -i + +i,
    "returned": lambda x, i: (x + 1, i),
    "a power": lambda x, i: x * 2**i + x / 2.0 ** (i + 1),
    "in a function": lambda x, i: (lambda: x * (i * 0.25))(),
    "summed": lambda x, i: x * sum([i, 1, i]),
}


@pytest.mark.parametrize("name", REPLAYED)
def test_numbers_of_ops_are_replayed(rng, name):
    values = [rng.randrange(0, 40) for _ in range(COUNT)]
    step, told = compared(REPLAYED[name], calls_of([0, 1, 2, *values]))
    assert not told and step.replayed >= COUNT - 2, sojourn.explain()


def printed(x, i):
    if i % 100 == 77:
        print(i)
    return x + 1


def modules(x, i):
    return [torch.sin, torch.cos, torch.tanh][i % 3](x)


def closed_over(x, i):
    def inner():
        return x * 2 if i > 4 else x

    return inner()


def repeated(x, i):
    for _ in range(i % 4):
        x = x + 1
    return x


def caught(x, i):
    try:
        return x * (1 / (i % 3))
    except ZeroDivisionError:
        return x


def kept(x, i):
    table = {0: x, 1: x * 2}
    return table.get(i % 2)


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(context, x, i):
        context.i = i
        return x * i

    @staticmethod
    def backward(context, gradient):
        return gradient * context.i, None


LOOKED_AT = {
    "a branch": lambda x, i: x * 2 if i % 4 == 0 else x,
    "a test": lambda x, i: x * 2 if i else x,
    "its negation": lambda x, i: x * 2 if not i - 3 else x,
    "a condition to print": printed,
    "an index of a list": modules,
    "a key": kept,
    "a closure": closed_over,
    "a range": repeated,
    "text": lambda x, i: (x, f"step {i:03d} {i}"),
    "old text": lambda x, i: (x, "%d" % i, str(i), repr(i)),
    "an exception": caught,
    "a dim of both signs": lambda x, i: x.sum(i % 4 - 2),
    "a dim": lambda x, i: torch.softmax(x, i % 2),
    "a size": lambda x, i: x.new_zeros(i % 4 + 1),
    "a shape": lambda x, i: x.reshape(2 ** (i % 3), -1),
    "a list of sizes": lambda x, i: x.expand([i % 3 + 1, 4, 3]),
    "an index": lambda x, i: x[i % 4],
    "a slice": lambda x, i: x[i % 3 :, : i % 2 + 1],
    "indices": lambda x, i: x[[i % 4, 0]],
    "a conversion": lambda x, i: x * float(i),
    "a rounded number": lambda x, i: x * round(i * 0.3),
    "a function of math": lambda x, i: x * math.exp(-i) if math.cos(i) > 0 else x,
    "max": lambda x, i: x * max(i, 7) + min(i, 3),
    "an exponent": lambda x, i: x**i,
    "a bound": lambda x, i: x.clamp(max=i * 0.1),
    "a value": lambda x, i: torch.full_like(x, i),
    "digits": lambda x, i: x * (i & 3) + (i >> 1) + divmod(i, 3)[1] + i.bit_length(),
    "json": lambda x, i: (x * i, json.dumps({"step": i})),
    "NumPy": lambda x, i: x * float(np.float32(0.5) * i),
    "an array": lambda x, i: x * float(np.array([i, 1]).sum()),
    "returned and computed": lambda x, i: (x, i + 1, i * 0.5),
    "a copy": lambda x, i: x * (copy.deepcopy(i) % 2 or 3),
    "a list by lists": lambda x, i: x * len([0] * i),
    "another type": lambda x, i: x * 2 if isinstance(i, float) else x * i.numerator,
    "dropout": lambda x, i: F.dropout(x, 0.0 * i),
    "a mask": lambda x, i: torch.where(x > i - 5, x, -x),
    "equal words": lambda x, i: x.transpose(i % 4 - 2, 1),
}


@pytest.mark.parametrize("name", LOOKED_AT)
def test_what_depends_on_an_integer_is_traced(rng, name):
    values = [rng.randrange(0, 40) for _ in range(COUNT)]
    _, told = compared(LOOKED_AT[name], calls_of([*range(6), *values, *range(6)]))
    assert "each new value of its argument 'i'" in told and told.count("traced, not replayed") == 1, sojourn.explain()


def test_few_values_are_replayed_one_by_one(seed):
    """As before: a call with a value that was traced twice is replayed, and nothing is told."""
    step, told = compared(lambda x, i: x * 2 if i else x + 1, calls_of([k % 3 for k in range(40)]))
    assert not told and step.replayed >= 30, sojourn.explain()


@pytest.mark.parametrize("body", [by_float, lambda x, i, base: decayed(x, i, base)])
def test_integers_with_floats(rng, body):
    """Formulas of both; a float that changes for the first time is traced once more."""
    step, told = compared(body, calls_of([(k, 0.5 if k < 8 else rng.uniform(0.1, 0.9)) for k in range(30)]))
    assert not told and step.replayed > 18, sojourn.explain()


def test_floats_that_are_decided_by_after_arithmetic(rng):
    def branch(x, w):
        return x * 2 if w * 1 > 0.3 else x

    def converted(x, w):
        return x * 2 if float(w) > 0.3 else x

    for body in (branch, converted):
        step, _ = compared(body, calls_of([0.5, 0.5, 0.4, 0.6, 0.2, 0.1, 0.7] + [rng.random() for _ in range(20)]))
        assert step.replayed < 3, sojourn.explain()


def test_formulas_that_fail_or_change_their_kind(seed):
    """A division by zero raises as it does in the function, though nothing uses its result; so do large numbers."""

    def divided(x, i):
        unused = 1 / (i - 9)  # noqa: F841
        return x * i

    step = sojourn.step(divided, replay=True)
    for i in range(9):
        x = torch.randn(3).to(shared_owner().device)
        same(step(x, i), x * i)
    assert step.replayed >= 5, sojourn.explain()
    with pytest.raises(ZeroDivisionError):
        step(torch.randn(3).to(shared_owner().device), 9)
    compared(lambda x, i: x * 2**i, calls_of([4, 5, 6, 7, -1, -2, 8, 9]))  # integers, then floats
    compared(lambda x, i: x * (i - 6) ** 0.5, calls_of([10, 11, 12, 13, 14]))
    compared(lambda x, i: x * i, calls_of([1, 2, 3, 2**53, 2**53 + 1, 2**62, -(2**63), 4]))
    with pytest.raises((RuntimeError, OverflowError)):
        compared(lambda x, i: x * i, calls_of([1, 2, 3, 4, 2**70]))


def test_a_constant_is_not_taken_for_the_integer(seed):
    step, _ = compared(lambda x, i: x * 2 + i, calls_of([2, 2, 2, 3, 4, 2, 5, 2]))
    compared(lambda x, i: x * 2 + 3, calls_of([2, 3, 4, 3, 2]))
    compared(lambda x, i: x * (i % 2) + i, calls_of([2, 4, 6, 3, 5, 7, 2, 1]))
    assert step.replayed > 2, sojourn.explain()


def test_coefficients_by_which_torch_decides(seed):
    def body(x, i):
        w = x.detach().clone().requires_grad_()
        torch.add(x, w, alpha=0.5 * i).square().sum().backward()
        return w.grad

    compared(body, calls_of([1, 3, 4, 5, 2, 0, 6, 2, 7]))


def test_what_the_function_keeps_are_plain_numbers(seed):
    kept = []

    def body(x, i):
        kept.append({"step": i, "rate": 0.5 * i, "next": (i + 1,)})
        return x * i

    step = sojourn.step(body, replay=True)
    for i in range(1000, 1008):
        x = torch.randn(3).to(shared_owner().device)
        same(step(x, i), x * i)
    assert step.replayed >= 5, sojourn.explain()
    first = [{"step": 1000 + k, "rate": 0.5 * (1000 + k), "next": (1001 + k,)} for k in range(len(kept))]
    assert kept == first and json.loads(json.dumps(kept))[1]["rate"] == first[1]["rate"]
    assert all(type(one["step"]) is int and type(one["rate"]) is float and type(one["next"][0]) is int for one in kept)
    assert {one["step"]: 0 for one in kept}.keys() == {one["step"] for one in first}


def test_gradients_go_back_where_a_call_is_made_once_more(seed):
    """C code that wants the integer itself: the call runs again, from the state before it."""
    device = shared_owner().device
    models = [mlp() for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    models[0].to(device)
    optimizers = [OPTIMIZERS["Adam"](model.parameters()) for model in models]

    def body(model, optimizer, x, y, i):
        (F.cross_entropy(model(x), y) * i).backward()  # on those of the calls before
        optimizer.step()
        json.dumps(i)
        return float(torch.rand(()))

    step = sojourn.step(lambda x, y, i: body(models[0], optimizers[0], x, y, i), replay=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(1, 8):
            x, y = batch(torch.device("cpu"))
            torch.manual_seed(seed + i)
            drawn = step(x.to(device), y.to(device), i)
            torch.manual_seed(seed + i)
            assert drawn == body(models[1], optimizers[1], x, y, i)
    for ours, theirs in zip(*(model.parameters() for model in models)):
        torch.testing.assert_close(sojourn.publish(ours.detach()), theirs.detach())


def test_functions_of_autograd_and_modules(seed):
    compared(lambda x, i: Scale.apply(x, i * 0.5), calls_of(range(1, 9)))
    layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(3))
    remote = copy.deepcopy(layers).to(shared_owner().device)

    step = sojourn.step(lambda x, i: remote[i % 3](x).detach(), replay=True)
    for k in range(24):
        x = torch.randn(4, 3)
        torch.testing.assert_close(sojourn.publish(step(x.to(shared_owner().device), k % 3)), layers[k % 3](x).detach())
    assert step.replayed >= 8, sojourn.explain()


def test_other_kinds_of_integers(seed):
    class Mode(enum.IntEnum):
        PLAIN = 1
        TWICE = 2

    step, told = compared(
        lambda x, mode: x * 2 if mode is Mode.TWICE else -x, calls_of([Mode(1 + k % 2) for k in range(12)])
    )
    assert step.replayed >= 8 and not told
    step, told = compared(lambda x, last: x * 2 if last else -x, calls_of([k % 4 == 3 for k in range(16)]))
    assert step.replayed >= 12 and not told
    step, told = compared(lambda x, i: x * i["step"] + i["others"][0], [
        (torch.randn(3), {"step": k, "others": [7, k]}) for k in range(12)])  # fmt: skip
    assert step.replayed >= 8 and not told
    with pytest.warns(UserWarning, match="an integer of its arguments|its argument 'numbers'"):
        step = sojourn.step(lambda x, numbers: x[numbers[0]], replay=True)
        for k in range(8):
            step(torch.randn(9).to(shared_owner().device), [k])


def test_methods_and_names(seed):
    class Trainer:
        @sojourn.step(replay=True)
        def scaled(self, x, *, i):
            return x * i

        @sojourn.step(replay=True)
        def chosen(self, x, *, position):
            return x[position]

    trainer = Trainer()
    for i in range(8):
        x = torch.randn(9).to(shared_owner().device)
        same(trainer.scaled(x, i=i), x * i)
    assert Trainer.__dict__["scaled"].replayed >= 5
    with pytest.warns(UserWarning, match="'position'.*it is an index|'position'.*__getitem__"):
        for i in range(8):
            x = torch.randn(9).to(shared_owner().device)
            same(trainer.chosen(x, position=i), x[i])


def training(device, first):
    model = copy.deepcopy(first).to(device)
    optimizer = OPTIMIZERS["Adam"](model.parameters())

    def train(i, x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y) * (1 + 0.1 * i)
        loss.backward()
        optimizer.step()
        return sojourn.publish(loss.detach())

    return train, model


@pytest.mark.parametrize("kind", ["native", "numpy"])
def test_enumerated_loops(seed, kind):
    """`sojourn.loop` over enumerated batches sends many steps in a message."""
    owner = shared_owner(kind)
    first = mlp().double()  # Adam makes much of roundings of gradients near zero
    data = [(x.double(), y) for x, y in (batch(torch.device("cpu")) for _ in range(40))]
    ours, model = training(owner.device, first)
    theirs, twin = training(torch.device("cpu"), first)
    expected = [theirs(i, x, y) for i, (x, y) in enumerate(data)]
    remote = [(i, x.to(owner.device), y.to(owner.device)) for i, (x, y) in enumerate(data)]
    sojourn.flush()
    before = owner.counters()["round_trips"]
    losses = sojourn.loop(ours, remote, per_trip=16)
    assert owner.counters()["round_trips"] - before <= 8, sojourn.explain()
    for found, wanted in zip(losses, expected):
        torch.testing.assert_close(found.value, wanted)
    for a, b in zip(model.parameters(), twin.parameters()):
        torch.testing.assert_close(sojourn.publish(a.detach()), b.detach())


def test_random_programs(seed, rng):
    """Random uses of two integers and a float, in random orders of values; none may differ from the function itself."""
    pure = ["i + {}", "i * {}", "i - j", "i % 5", "j // 2", "0.5 * i", "w * i", "i / 3", "2 ** (i % 5)", "w * 0.9 ** j"]
    looks = ["(i > {})", "int(j > i)", "len(range(i % 4))", "[1, 2, 3][j % 3]", "round(w * i)", "(1 if i % 3 else 2)"]
    for _ in range(12):
        terms = [rng.choice(pure + looks if rng.random() < 0.4 else pure).format(rng.randrange(9)) for _ in range(4)]
        body = f"lambda x, i, j, w: (x * ({terms[0]}) + ({terms[1]})) * ({terms[2]}) - ({terms[3]}) / x"
        numbers = [(rng.randrange(12), rng.randrange(3), rng.choice([0.5, 0.25, rng.random()])) for _ in range(16)]
        print(body)
        compared(eval(body), calls_of(numbers))


def test_threads_and_outer_steps(seed):
    device = shared_owner().device
    step = sojourn.step(lambda x, i: x * i, replay=True)
    for i in range(4):
        x = torch.randn(3).to(device)
        same(step(x, i), x * i)
    with sojourn.step():
        found = [step(x, i) for i in range(4)]  # joins it
    for i, one in enumerate(found):
        same(one, x * i)
    assert random.Random(seed).random() < 1
