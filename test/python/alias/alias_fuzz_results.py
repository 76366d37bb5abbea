# SPDX-License-Identifier: Apache-2.0
"""Arguments at random for out=, foreach, results and autograd in the alias fuzzer's programs."""

from __future__ import annotations

import torch
from alias_fuzz_choices import Unfit, choice, has_dims, suits
from alias_fuzz_memory import same_storage
from alias_fuzz_program import DTYPES, Ref
from alias_fuzz_writes import number, real_float


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


@choice(2)
def empty_out(p):
    """Mostly with room behind the window; beyond that the storage would grow."""
    x, value = out_of(p, lambda v: number(v) and v.dim())
    dim = p.dim(value)
    start = p.rng.randint(0, value.size(dim))
    room = value.untyped_storage().nbytes() // value.element_size() - value.narrow(dim, start, 0).storage_offset()
    has_room = p.rng.random() < 0.95
    apart = lambda v: v.dtype == value.dtype and not v.requires_grad and not same_storage(v, value)
    a, found = p.pick(lambda v: apart(v) and (v.numel() <= room or not has_room))
    b = p.names(lambda v: apart(v) and suits(v.shape, found.shape))
    return x, dim, start, a, Ref(p.rng.choice(b))


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


@choice(2)
def fill_grad(p):
    x, value = p.pick(lambda v: v.is_leaf and v.requires_grad)
    return x, p.number(value)


@choice(1.3)
def requires_grad_(p):
    x, _ = p.pick(lambda v: v.is_leaf and (v.is_floating_point() or v.is_complex()))
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


@choice(0)
def fail(p):
    return ()
