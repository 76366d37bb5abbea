# SPDX-License-Identifier: Apache-2.0
"""Steps whose ops are recorded in Python, and once more in C++ by test/frontend/SameSteps.cpp."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

import sojourn


def weight(device, *sizes):
    """Weights that need no random numbers."""
    return torch.linspace(-1, 1, math.prod(sizes), device=device).reshape(sizes)


def descend(loss, weights):
    gradients = torch.autograd.grad(loss, weights)
    with torch.no_grad():
        for each, gradient in zip(weights, gradients):
            each.sub_(gradient * 0.1)


class Dense:
    """Two linear layers, by torch's optimizer."""

    inputs = (sojourn.spec((5, 3)), sojourn.spec((5,), torch.int64))

    def init(self, device):
        self.first = weight(device, 4, 3).requires_grad_()
        self.bias = torch.zeros(4, device=device).requires_grad_()
        self.second = weight(device, 2, 4).requires_grad_()
        weights = [self.first, self.bias, self.second]
        # Numbers of libtorch's optimizers are doubles: an integer is another argument of the same op.
        self.optimizer = torch.optim.SGD(weights, lr=0.1, momentum=0.9, dampening=0.0, weight_decay=0.01, foreach=False)

    def step(self, x, y):
        self.optimizer.zero_grad()
        hidden = torch.relu(F.linear(x, self.first, self.bias))
        loss = F.cross_entropy(F.linear(hidden, self.second), y)
        loss.backward()
        self.optimizer.step()
        return loss.detach(), self.first.detach()


class Pictures:
    """Convolution, batch norm with its buffers, pooling, dropout."""

    inputs = (sojourn.spec((2, 2, 6, 6)), sojourn.spec((2,), torch.int64))

    def init(self, device):
        self.kernel = weight(device, 3, 2, 3, 3).requires_grad_()
        self.scale = torch.ones(3, device=device).requires_grad_()
        self.mean, self.variance = torch.zeros(3, device=device), torch.ones(3, device=device)
        self.head = weight(device, 4, 27).requires_grad_()

    def step(self, x, y):
        h = torch.conv2d(x, self.kernel, None, 1, 1)
        h = torch.batch_norm(h, self.scale, None, self.mean, self.variance, True, 0.1, 1e-5, False)
        h = torch.dropout(torch.max_pool2d(torch.relu(h), (2, 2)), 0.25, True)
        loss = F.cross_entropy(F.linear(h.flatten(1), self.head), y)
        descend(loss, [self.kernel, self.scale, self.head])
        return loss.detach(), self.mean * 1


class Words:
    """Embedding, attention, layer norm, GELU."""

    inputs = (sojourn.spec((2, 5), torch.int64), sojourn.spec((2, 5), torch.int64))

    def init(self, device):
        self.words = weight(device, 7, 8).requires_grad_()
        self.mix = weight(device, 24, 8).requires_grad_()
        self.scale = torch.ones(8, device=device).requires_grad_()

    def step(self, x, y):
        x = F.layer_norm(F.embedding(x, self.words), (8,), self.scale)
        q, k, v = (part.view(2, 5, 2, 4).transpose(1, 2) for part in F.linear(x, self.mix).split(8, 2))
        h = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = x + F.gelu(h.transpose(1, 2).reshape(2, 5, 8))
        loss = F.cross_entropy((h @ self.words.t()).flatten(0, 1), y.flatten())
        descend(loss, [self.words, self.mix, self.scale])
        return (loss.detach(),)


class Places:
    """States that change places, views and writes, results of several types, a number."""

    inputs = (sojourn.spec((4, 3), torch.float64), sojourn.number())

    def init(self, device):
        self.near = torch.zeros(4, 3, dtype=torch.float64, device=device)
        self.far = torch.ones(4, 3, dtype=torch.float64, device=device)
        self.count = torch.zeros((), dtype=torch.int64, device=device)

    def step(self, x, factor):
        self.near, self.far = self.far, self.near
        self.near.mul_(factor)
        self.near[1:3].add_(x[:2])
        self.near.t()[1].copy_(self.far.select(1, 2))
        self.count += 1
        joined = torch.cat([self.near, torch.where(x > 0, x, self.far)], 1).cumsum(0)
        values, places = joined.topk(2, 1)
        return joined, values, places, (self.near < self.far).any(1), self.count * 1, joined.float().std(0)


class Recurrent:
    """torch's own layers of recurrent units."""

    inputs = (sojourn.spec((2, 4, 3)), sojourn.spec((2,), torch.int64))

    def init(self, device):
        layer = [weight(device, 20, 3), weight(device, 20, 5), torch.zeros(20, device=device)]
        layer.append(torch.zeros(20, device=device))
        self.weights = [*layer, weight(device, 3, 5)]
        for each in self.weights:
            each.requires_grad_()

    def step(self, x, y):
        zero = torch.zeros(1, 2, 5, device=x.device)
        h = torch.lstm(x, [zero, zero], self.weights[:4], True, 1, 0.0, True, False, True)[0]
        loss = F.cross_entropy(F.linear(h.select(1, 3), self.weights[4]), y)
        descend(loss, self.weights)
        return (loss.detach(),)


STEPS = {"dense": Dense, "pictures": Pictures, "words": Words, "places": Places, "recurrent": Recurrent}
CALLS = ("init", "first", "steady")


def random_input(spec):
    if spec.is_number:
        return float(torch.rand(()))
    if spec.dtype.is_floating_point:
        return torch.rand(spec.shape, dtype=spec.dtype)
    return torch.randint(2, spec.shape, dtype=spec.dtype)


def trace(name, owner, steps=3):
    """The step at an owner, on random data; what each published."""
    made, published = STEPS[name](), []
    with sojourn.step():
        made.init(owner.device)
    for _ in range(steps):
        with sojourn.step():
            given = [random_input(spec) for spec in made.inputs]
            given = [x.to(owner.device) if isinstance(x, torch.Tensor) else x for x in given]
            published.append(sojourn.publish(made.step(*given)))
            del given
    return published


def compiled(name, kind=None):
    """The step without data; of `kind`, a class like that of the name."""
    made = (kind or STEPS[name])()
    with sojourn.offline() as device:
        return sojourn.compile(made.step, init=lambda: made.init(device), inputs=made.inputs)
