# SPDX-License-Identifier: Apache-2.0
"""Arguments at random for writes and plain arithmetic in the alias fuzzer's programs."""

from __future__ import annotations

import torch
from alias_fuzz_choices import CHOICES, WEIGHTS, choice, has_dims, suits
from alias_fuzz_program import Ref


def number(v):
    return v.dtype != torch.bool


def real_float(v):
    return v.is_floating_point()


def with_other(name, weight=1.0, fits=number, options=None):
    """An op of a tensor and another that is broadcast to it."""

    def choose(p):
        x, value = p.pick(fits)
        args = x, p.other(value)
        return (args, options(p)) if options and p.rng.random() < 0.4 else args

    CHOICES[name], WEIGHTS[name] = choose, weight


def with_number(name, weight=1.0, fits=number):
    def choose(p):
        x, value = p.pick(fits)
        return x, p.number(value)

    CHOICES[name], WEIGHTS[name] = choose, weight


def alone(name, weight=1.0, fits=number):
    CHOICES[name], WEIGHTS[name] = lambda p: (p.pick(fits)[0],), weight


def alpha(p):
    return {"alpha": p.rng.choice([2, -1, 3])}


with_other("add_", 2, options=alpha)
with_other("sub_")
with_other("mul_", 1.5)
with_other("copy_", 2, None)
with_other("add", options=alpha)
with_other("sub", 0.7)
with_other("mul", 1)
with_number("add_number_", 1.5)
with_number("mul_number_", 1.5)
with_number("mul_number", 1)
with_number("setitem_all", 0.7, None)
alone("neg_")
alone("abs_", 0.7, lambda v: number(v) and not v.is_complex())
alone("sin_", 0.7, real_float)
alone("logical_not_", 2, lambda v: v.dtype == torch.bool)
alone("clone", 1, None)
alone("contiguous", 1, None)
alone("zeros_like", 0.7, None)
alone("mean", 0.7, real_float)


def filled(p):
    """A tensor to fill, often an expanded one."""
    expanded = p.names(lambda v: any(stride == 0 and size > 1 for stride, size in zip(v.stride(), v.shape)))
    if expanded and p.rng.random() < 0.4:
        name = p.rng.choice(expanded)
        return Ref(name), p.registers[name]
    return p.pick()


@choice(1.5)
def fill_(p):
    x, value = filled(p)
    return x, p.number(value)


@choice()
def zero_(p):
    return (filled(p)[0],)


@choice()
def clamp_(p):
    x, _ = p.pick(lambda v: number(v) and not v.is_complex())
    return x, 0 if p.rng.random() < 0.3 else -1, 2


@choice()
def addcmul_(p):
    x, value = p.pick(number)
    return (x, p.other(value), p.other(value)), {"value": 2}


@choice()
def lerp_(p):
    x, value = p.pick(real_float)
    same = p.names(lambda v: v.dtype == value.dtype and v.shape == value.shape)
    return x, Ref(p.rng.choice(same)), 0.5


@choice()
def where_(p):
    x, value = p.pick(lambda v: not v.requires_grad)
    same = p.names(lambda v: v.dtype == value.dtype and v.shape == value.shape and not v.requires_grad)
    return x, p.mask(value), Ref(p.rng.choice(same))


@choice(2.5)
def fill_tensor_(p):
    x, value = p.pick()
    return x, p.pick(lambda v: v.dim() == 0 and (value.is_complex() or not v.is_complex()))[0]


@choice(2)
def index_add_(p):
    x, value = p.pick(lambda v: v.dim() and number(v))
    return indexed(p, x, value, distinct=False)


@choice(2.5)
def index_copy_(p):
    x, value = p.pick(has_dims(1))
    return indexed(p, x, value, distinct=True)


def indexed(p, x, value, distinct):
    """A register of the right shape is rare: choose the index by a register that fits in all other dims."""
    dim = p.dim(value, 1)
    rest = lambda v: [size for at, size in enumerate(v.shape) if at != dim % value.dim()]
    most = value.size(dim) if distinct else 6
    source, found = p.pick(
        lambda v: v.dtype == value.dtype and v.dim() == value.dim() and rest(v) == rest(value) and v.size(dim) <= most
    )
    count = found.size(dim)
    places = (
        p.rng.sample(range(value.size(dim)), count)
        if distinct
        else [p.rng.randrange(value.size(dim)) for _ in range(count)]
    )
    return x, dim, p.constant(torch.int64, places), source


@choice()
def index_fill_(p):
    x, value = p.pick(has_dims(1))
    dim = p.dim(value, 1)
    return x, dim, p.constant(torch.int64, p.indices(value.size(dim), False)), p.number(value)


@choice(1.7)
def index_put_(p):
    x, value = p.pick(lambda v: v.dim() and v.size(0) and number(v))
    index = p.indices(value.size(0), False)
    source = p.pick(lambda v: v.dtype == value.dtype and suits(v.shape, (len(index), *value.shape[1:])))[0]
    return x, p.constant(torch.int64, index), source


def lanes(p, value, distinct):
    """An index of scatter along the first dim, and a source of at least its shape."""
    rows = value.size(0)
    source, found = p.pick(
        lambda v: (
            v.dtype == value.dtype
            and v.dim() == value.dim()
            and all(a >= b for a, b in zip(v.shape[1:], value.shape[1:]))
            and v.numel()
        )
    )
    count = p.rng.randint(1, min(rows, found.size(0)))
    width = value.numel() // rows
    columns = [p.rng.sample(range(rows), count) if distinct else [p.rng.randrange(rows)] * count for _ in range(width)]
    index = torch.tensor(columns).T.reshape(count, *value.shape[1:])
    return p.constant(torch.int64, index.tolist()), source


@choice(2)
def scatter_(p):
    x, value = p.pick(lambda v: v.dim() and v.numel())
    index, source = lanes(p, value, True)
    return x, 0, index, source


@choice(2.5)
def scatter_add_(p):
    x, value = p.pick(lambda v: v.dim() and v.numel() and number(v))
    index, source = lanes(p, value, False)
    return x, 0, index, source


@choice(1.2)
def masked_fill_(p):
    x, value = p.pick()
    return x, p.mask(value), p.number(value)


@choice(1.6)
def masked_scatter_(p):
    x, value = p.pick(lambda v: v.dim())
    return x, p.mask(value), p.pick(lambda v: v.dtype == value.dtype and v.numel() >= value.numel())[0]


@choice(1.2)
def setitem_int(p):
    x, value = p.pick(has_dims(1))
    dim = p.dim(value, 1) % value.dim()
    at = p.rng.randrange(-value.size(dim), value.size(dim))
    return x, dim, at, number_or_tensor(p, value, value.select(dim, at).shape)


def number_or_tensor(p, value, shape):
    return p.number(value) if p.rng.random() < 0.4 else p.other(value, shape)


def bounds(p, value):
    dim = p.dim(value, 1) % value.dim()
    start = p.rng.randrange(value.size(dim))
    return dim, start, p.rng.randint(start + 1, value.size(dim))


@choice(1.2)
def setitem_slice(p):
    x, value = p.pick(has_dims(1))
    dim, start, stop = bounds(p, value)
    step = p.rng.choice([None, 2])
    shape = list(value.shape)
    shape[dim] = len(range(start, stop, step or 1))
    return x, dim, start, stop, step, number_or_tensor(p, value, shape)


@choice(1.2)
def setitem_mask(p):
    x, value = p.pick(has_dims(0 if p.rng.random() < 0.02 else 1))  # torch reads a mask without dims
    return x, p.mask(value), p.number(value)


@choice(1.2)
def setitem_index(p):
    x, value = p.pick(has_dims(1))
    dim = p.dim(value, 1) % value.dim()
    index = p.indices(value.size(dim))
    shape = [*value.shape[:dim], len(index), *value.shape[dim + 1 :]]
    return x, dim, p.constant(torch.int64, index), number_or_tensor(p, value, shape)


@choice(0.7)
def setitem_list(p):
    x, value = p.pick(has_dims(1))
    return x, p.indices(value.size(0)), p.number(value)


@choice()
def iadd_slice(p):
    x, value = p.pick(lambda v: v.dim() and number(v))
    dim, start, stop = bounds(p, value)
    shape = list(value.shape)
    shape[dim] = stop - start
    return x, dim, start, stop, number_or_tensor(p, value, shape)


@choice()
def imul_int(p):
    x, value = p.pick(lambda v: v.dim() and v.size(0) and number(v))
    return x, p.rng.randrange(value.size(0)), p.number(value)
