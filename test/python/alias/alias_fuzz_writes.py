# SPDX-License-Identifier: Apache-2.0
"""Arguments at random for writes, results and autograd in the alias fuzzer's programs."""

from __future__ import annotations

import torch
from alias_fuzz_choices import CHOICES, WEIGHTS, Unfit, choice, has_dims
from alias_fuzz_program import DTYPES, Ref


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
with_number("fill_", 1.5, None)
with_number("setitem_all", 0.7, None)
alone("neg_")
alone("abs_", 0.7, lambda v: number(v) and not v.is_complex())
alone("zero_", 1, None)
alone("sin_", 0.7, real_float)
alone("logical_not_", 2, lambda v: v.dtype == torch.bool)
alone("clone", 1, None)
alone("contiguous", 1, None)
alone("zeros_like", 0.7, None)
alone("mean", 0.7, real_float)


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
    places = p.rng.sample(range(value.size(dim)), count) if distinct else [p.rng.randrange(value.size(dim)) for _ in range(count)]
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


def suits(shape, target) -> bool:
    try:
        return torch.broadcast_shapes(shape, target) == torch.Size(target)
    except RuntimeError:
        return False


def lanes(p, value, distinct):
    """An index of scatter along the first dim, and a source of at least its shape."""
    rows = value.size(0)
    source, found = p.pick(
        lambda v: v.dtype == value.dtype and v.dim() == value.dim() and all(a >= b for a, b in zip(v.shape[1:], value.shape[1:])) and v.numel()
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


def out_of(p, fits=number):
    return p.pick(lambda v: fits(v) and not v.requires_grad)


def plain_alike(p, value):
    """Without a gradient, which out= does not take."""
    names = p.names(lambda v: v.dtype == value.dtype and not v.requires_grad and suits(v.shape, value.shape))
    return Ref(p.rng.choice(names))


@choice(1.2)
def add_out(p):
    out, value = out_of(p)
    a = p.names(lambda v: v.dtype == value.dtype and not v.requires_grad and v.shape == value.shape)
    return out, Ref(p.rng.choice(a)), plain_alike(p, value)


@choice()
def mul_out(p):
    return add_out(p)


@choice()
def neg_out(p):
    out, value = out_of(p)
    a = p.names(lambda v: v.dtype == value.dtype and not v.requires_grad and v.shape == value.shape)
    return out, Ref(p.rng.choice(a))


@choice(3.5)
def sum_out(p):
    out, value = out_of(p, lambda v: v.dim() < 3)
    fits = lambda v: v.dtype == value.dtype and v.dim() and not v.requires_grad and v.shape[1:] == value.shape
    return out, p.pick(fits)[0], 0


@choice(3.5)
def cat_out(p):
    out, value = out_of(p, lambda v: v.dim() and v.size(0) > 1)
    rest = value.shape[1:]
    parts = p.names(lambda v: v.dtype == value.dtype and v.dim() and v.shape[1:] == rest and not v.requires_grad)
    chosen, left = [], value.size(0)
    for name in p.rng.sample(parts, len(parts)):
        if 0 < p.registers[name].size(0) <= left:
            chosen.append(Ref(name))
            left -= p.registers[name].size(0)
    if left or not chosen:
        raise Unfit
    return out, chosen, 0


@choice()
def fresh_out(p):
    a, value = out_of(p)
    return a, plain_alike(p, value)


def several(p, fits, most=3):
    """Registers that differ, mostly of one dtype."""
    _, first = p.pick(fits)
    names = p.names(lambda v: fits(v) and v.dtype == first.dtype)
    return [Ref(name) for name in p.rng.sample(names, min(len(names), p.rng.randint(2, most)))]


def partners(p, xs):
    """For each tensor one of its shape, in a list."""
    ys = []
    for x in xs:
        value = p.registers[x.name]
        same = p.names(lambda v: v.shape == value.shape and v.dtype == value.dtype)
        ys.append(Ref(p.rng.choice(same)))
    return ys


@choice()
def foreach_add_(p):
    xs = several(p, number)
    return ((xs, partners(p, xs)), {"alpha": 2}) if p.rng.random() < 0.3 else (xs, partners(p, xs))


@choice()
def foreach_mul_(p):
    xs = several(p, number)
    return xs, partners(p, xs) if p.rng.random() < 0.5 else 2


@choice()
def foreach_addcmul_(p):
    xs = several(p, number)
    return xs, partners(p, xs), partners(p, xs), 2


@choice(0.8)
def foreach_lerp_(p):
    xs = several(p, real_float)
    return xs, partners(p, xs), 0.5


@choice()
def foreach_copy_(p):
    xs = several(p, lambda v: True)
    return xs, partners(p, xs)


@choice(0.8)
def foreach_neg_(p):
    return (several(p, number),)


@choice(0.8)
def foreach_zero_(p):
    return (several(p, lambda v: True),)


@choice(0.8)
def foreach_add(p):
    return several(p, number, 2), 2


@choice(1.2)
def to(p):
    x, value = p.pick(lambda v: not v.is_complex())
    return x, p.rng.choice([dtype for dtype in DTYPES.values() if not dtype.is_complex and dtype != value.dtype])


@choice()
def cat(p):
    x, value = p.pick(lambda v: v.dim() and v.numel() < 24)
    others = p.names(lambda v: v.dim() == value.dim() and v.shape[1:] == value.shape[1:] and v.numel() < 24)
    return [x, Ref(p.rng.choice(others))], 0


@choice(0.8)
def stack(p):
    x, value = p.pick(lambda v: v.numel() < 24 and v.dim() < 4)
    others = p.names(lambda v: v.shape == value.shape and v.dtype == value.dtype)
    return ([x, Ref(p.rng.choice(others))],)


@choice(1.5)
def greater(p):
    x, _ = p.pick(lambda v: number(v) and not v.is_complex() and v.dim() > 0)
    return x, 0


@choice(0.8)
def flip(p):
    x, value = p.pick(has_dims(1))
    return x, (p.dim(value),)


@choice(0.8)
def index_select(p):
    x, value = p.pick(has_dims(1))
    dim = p.dim(value, 1)
    return x, dim, p.constant(torch.int64, p.indices(value.size(dim), False))


@choice(0.8)
def gather_rows(p):
    x, value = p.pick(has_dims(1))
    return x, p.constant(torch.int64, p.indices(value.size(0), False))


@choice(0.7)
def amax(p):
    x, value = p.pick(lambda v: v.dim() and not v.is_complex())
    return x, p.dim(value, 1)


@choice()
def where(p):
    x, value = p.pick()
    return p.mask(value), x, p.other(value)


@choice(1.2)
def sum__(p):
    x, value = p.pick()
    return (x, p.dim(value)) if value.dim() and p.rng.random() < 0.6 else (x,)


@choice(0.7)
def cumsum(p):
    x, value = p.pick(has_dims(1))
    return x, p.dim(value)


@choice(0.8)
def matmul(p):
    return (p.pick(lambda v: v.dim() == 2 and v.numel() and (real_float(v) and v.element_size() > 2))[0],)


def differentiable(p):
    return p.names(lambda v: v.requires_grad)


@choice(4.5)
def backward(p):
    names = differentiable(p)
    if not names:
        raise Unfit
    chosen = p.rng.sample(names, min(len(names), p.rng.randint(1, 3)))
    return [Ref(name) for name in chosen], p.rng.random() < 0.5, p.rng.random() < 0.85


@choice(2.5)
def grad(p):
    names = differentiable(p)
    if not names:
        raise Unfit
    chosen = p.rng.sample(names, min(len(names), p.rng.randint(1, 2)))
    inputs = p.rng.sample(names, min(len(names), p.rng.randint(1, 2)))
    return [Ref(name) for name in chosen], [Ref(name) for name in inputs], p.rng.random() < 0.5


@choice(3)
def grad_of(p):
    return (p.pick(lambda v: v.is_leaf and v.grad is not None)[0],)


@choice(2)
def set_grad(p):
    x, value = p.pick(lambda v: v.is_leaf and v.requires_grad)
    if p.rng.random() < 0.2:
        return x, None
    same = p.names(lambda v: v.dtype == value.dtype and v.shape == value.shape and v is not value)
    if not same:
        raise Unfit
    return x, Ref(p.rng.choice(same))


@choice(1.3)
def requires_grad_(p):
    x, value = p.pick(lambda v: v.is_leaf and (v.is_floating_point() or v.is_complex()))
    return x, p.rng.random() < 0.75


@choice(1.2)
def retain_grad(p):
    return (p.pick(lambda v: v.requires_grad)[0],)


@choice(1.5)
def drop(p):
    names = p.names()
    if len(names) < 5:
        raise Unfit
    return (Ref(p.rng.choice(names)),)


@choice(3.5)
def read(p):
    return (p.pick()[0],)


@choice(2.5)
def flush(p):
    return ()


@choice(2.5)
def boundary(p):
    return ()
