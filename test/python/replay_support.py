# SPDX-License-Identifier: Apache-2.0
"""The same training traced and replayed, side by side, for test_replay*.py."""

import copy
import warnings

import torch
import torch.nn.functional as F
from remote_support import shared_owner
from torch import nn

import sojourn


class Twins:
    """One training twice from the same weights: traced in each call, and replayed; both as functions of (x, y, ...)."""

    def __init__(self, device, make, optimizers, body):
        self.calls = [0, 0]
        self.models, self.optimizers, self.steps = [], [], []
        first = make()
        for number, replay in enumerate((False, True)):
            model = copy.deepcopy(first).to(device)
            optimizer = optimizers(model.parameters())

            def run(*args, number=number, model=model, optimizer=optimizer):
                self.calls[number] += 1
                return body(model, optimizer, *args)

            self.models.append(model)
            self.optimizers.append(optimizer)
            self.steps.append(sojourn.step(run, replay=replay))

    def __call__(self, *args):
        """Both, from the same random state; their results have to be equal."""
        state = torch.get_rng_state()
        traced = self.steps[0](*args)
        after = torch.get_rng_state()
        torch.set_rng_state(state)
        replayed = self.steps[1](*args)
        assert torch.equal(torch.get_rng_state(), after), "random numbers were drawn otherwise"
        same(traced, replayed)
        return traced

    def check(self, least: int):
        """States are equal, and at least so many calls were replayed."""
        for ours, theirs in zip(*(model.state_dict().items() for model in self.models)):
            assert ours[0] == theirs[0]
            same(ours[1], theirs[1], ours[0])
        same(*(optimizer.state_dict()["state"] for optimizer in self.optimizers))
        assert self.calls[0] - self.calls[1] >= least, f"{self.calls}: {sojourn.explain()}"


def same(a, b, what=""):
    leaves = [torch.utils._pytree.tree_flatten(tree)[0] for tree in (a, b)]
    assert len(leaves[0]) == len(leaves[1]), what
    for x, y in zip(*leaves):
        if isinstance(x, sojourn.Published):
            same(x.value, y.value, what)
        elif isinstance(x, torch.Tensor):
            assert x.shape == y.shape and x.dtype == y.dtype and x.stride() == y.stride(), what
            x, y = (t if t.device.type == "cpu" else sojourn.publish(t) for t in (x, y))
            assert torch.equal(x.isnan(), y.isnan()) and torch.equal(x.nan_to_num(), y.nan_to_num()), what
        else:
            assert x == y, what


def mlp():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))


def classify(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


def batch(device, size=10):
    return torch.randn(size, 6).to(device), torch.randint(0, 3, (size,)).to(device)


OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.05),
    "SGD momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-3),
    "SGD nesterov": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, foreach=False),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "Adam in loops": lambda p: torch.optim.Adam(p, lr=0.01, foreach=False, weight_decay=0.1),
    "Adam amsgrad": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    "Adam capturable": lambda p: torch.optim.Adam(p, lr=0.01, capturable=True),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.01),
    "Adamax": lambda p: torch.optim.Adamax(p, lr=0.01),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.05, lr_decay=0.01),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5),
    "Adadelta": lambda p: torch.optim.Adadelta(p),
    "RAdam": lambda p: torch.optim.RAdam(p, lr=0.01),
    "RAdam in loops": lambda p: torch.optim.RAdam(p, lr=0.01, foreach=False, betas=(0.8, 0.95), weight_decay=0.1),
    "NAdam": lambda p: torch.optim.NAdam(p, lr=0.01),
    "NAdam in loops": lambda p: torch.optim.NAdam(p, lr=0.01, foreach=False, momentum_decay=0.01, weight_decay=0.1),
    "RAdam capturable": lambda p: torch.optim.RAdam(p, lr=0.01, capturable=True),
    "NAdam capturable": lambda p: torch.optim.NAdam(p, lr=0.01, capturable=True, weight_decay=0.1),
    "RAdam capturable in loops": lambda p: torch.optim.RAdam(p, lr=0.01, capturable=True, foreach=False),
}


def differing(body, calls, make=mlp, optimizer=OPTIMIZERS["SGD"], device=None):
    """Runs both twins over the calls; the replayed one's calls and its warnings."""
    twins = Twins(device or shared_owner().device, make, optimizer, body)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for call in calls:
            twins(*call)
    twins.check(0)
    return twins.steps[1], " ".join(str(warning.message) for warning in told)


def plain(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.detach()


def batches(count, size=10):
    device = shared_owner().device
    return [batch(device, size) for _ in range(count)]
