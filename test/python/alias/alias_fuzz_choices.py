# SPDX-License-Identifier: Apache-2.0
"""Arguments at random for the views of the alias fuzzer, and what all choices share."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from alias_fuzz_program import Const, Ref

NUMBERS = [-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0]
# By kind of op: the choice of arguments, and how often it is made.
CHOICES: dict[str, Callable] = {}
WEIGHTS: dict[str, float] = {}


class Unfit(Exception):
    """No live tensor suits the kind of op."""


def _fits(fits, value) -> bool:
    try:
        return fits(value)
    except RuntimeError:  # torch refuses to say what the gradient of some views is
        return False


class Pool:
    """The live tensors of a program that is being made, and its constants."""

    def __init__(self, rng: random.Random, registers: dict[str, Any], constants: list[Const]):
        self.rng, self.registers, self.constants = rng, registers, constants
        self.add_constant: Callable[[Const], None] = lambda constant: None

    def names(self, fits=None) -> list[str]:
        return [
            name
            for name, value in self.registers.items()
            if value is not None and name[0] != "k" and (fits is None or _fits(fits, value))
        ]

    def pick(self, fits=None) -> tuple[Ref, torch.Tensor]:
        names = self.names(fits)
        if not names:
            raise Unfit
        name = self.rng.choice(names[-8:] if self.rng.random() < 0.3 else names)
        return Ref(name), self.registers[name]

    def dim(self, x: torch.Tensor, least: int = 0) -> int:
        dims = [dim for dim in range(x.dim()) if x.size(dim) >= least]
        if not dims:
            raise Unfit
        dim = self.rng.choice(dims)
        return dim - x.dim() if self.rng.random() < 0.2 else dim

    def constant(self, dtype: torch.dtype, values: list) -> Ref:
        for each in self.constants:
            if (each.dtype, each.values) == (dtype, values):
                return Ref(each.name)
        made = Const(f"k{len(self.constants)}", dtype, values)
        self.constants.append(made)
        self.add_constant(made)
        return Ref(made.name)

    def indices(self, size: int, distinct=True, least=1) -> list[int]:
        if not size:
            raise Unfit
        if distinct:
            return self.rng.sample(range(size), self.rng.randint(least, size))
        return [self.rng.randrange(size) for _ in range(self.rng.randint(1, 4))]

    def number(self, x: torch.Tensor):
        if x.dtype == torch.bool:
            return self.rng.random() < 0.5
        if x.dtype.is_floating_point or x.dtype.is_complex:
            return self.rng.choice(NUMBERS)
        return self.rng.randint(0 if x.dtype == torch.uint8 else -3, 3)

    def other(self, x: torch.Tensor, shape=None) -> Ref:
        """A tensor that may be written into the shape of x, mostly of its dtype."""
        shape = x.shape if shape is None else shape

        def fits(y):
            if y.dtype.is_complex and not x.dtype.is_complex:
                return False
            return suits(y.shape, shape)

        same = self.names(lambda y: fits(y) and y.dtype == x.dtype)
        if same and self.rng.random() < 0.7:
            return Ref(self.rng.choice(same))
        return self.pick(fits)[0]

    def mask(self, x: torch.Tensor) -> Ref:
        if not x.numel():
            raise Unfit
        fits = lambda y: y.dtype == torch.bool and y.shape == x.shape
        if self.names(fits) and self.rng.random() < 0.5:
            return self.pick(fits)[0]
        return self.constant(torch.bool, torch.tensor(random_bits(self.rng, x.numel())).reshape(x.shape).tolist())


def suits(shape, target) -> bool:
    """Whether a shape is broadcast to the target."""
    if len(shape) > len(target):
        return False
    return all(size in (1, wanted) for size, wanted in zip(reversed(shape), reversed(target)))


def random_bits(rng: random.Random, count: int) -> list[bool]:
    return [rng.random() < 0.5 for _ in range(count)]


def choice(weight: float = 1.0):
    """Registers a function (pool) -> arguments, or (arguments, options), under the op's name."""

    def register(function):
        name = function.__name__.removesuffix("__")
        CHOICES[name], WEIGHTS[name] = function, weight
        return function

    return register


def factors(rng: random.Random, count: int) -> tuple[int, ...]:
    """A shape of so many elements."""
    if count == 0:
        return (0,)
    parts = [d for d in range(1, count + 1) if count % d == 0]
    first = rng.choice(parts)
    second = rng.choice([d for d in parts if (count // first) % d == 0])
    return rng.choice([(count,), (first, count // first), (first, second, count // first // second), (-1, first)])


def has_dims(least: int):
    return lambda x: x.dim() >= least


@choice(2)
def cut(p):
    x, value = p.pick(has_dims(1))
    dim = p.dim(value, 1)
    start = p.rng.randrange(value.size(dim))
    return (
        x,
        abs(dim) if dim >= 0 else dim + value.dim(),
        start,
        p.rng.choice([None, value.size(dim)]),
        p.rng.choice([1, 1, 2]),
    )


@choice(1.5)
def select(p):
    x, value = p.pick(has_dims(1))
    dim = p.dim(value, 1)
    return x, dim, p.rng.randrange(-value.size(dim), value.size(dim))


@choice(1.5)
def narrow(p):
    x, value = p.pick(has_dims(1))
    dim = p.dim(value)
    start = p.rng.randint(0, value.size(dim))
    return (
        x,
        dim,
        start,
        p.rng.randint(0 if p.rng.random() < 0.1 else min(1, value.size(dim) - start), value.size(dim) - start),
    )


@choice(1.5)
def getitem(p):
    x, value = p.pick(has_dims(1))
    key: list[Any] = []
    for size in value.shape:
        kind = p.rng.randrange(4)
        if kind == 0 and size:
            key.append(p.rng.randrange(-size, size))
        elif kind == 1:
            key.append(slice(p.rng.choice([None, 0, 1, -2]), None, p.rng.choice([None, 2])))
        else:
            key.append(slice(None))
    if p.rng.random() < 0.3:
        key.insert(p.rng.randint(0, len(key)), None)
    elif p.rng.random() < 0.3:
        key = [..., *key[-1:]]
    return x, tuple(key)


@choice(1.5)
def transpose(p):
    x, value = p.pick(has_dims(2))
    return x, p.dim(value), p.dim(value)


@choice()
def permute(p):
    x, value = p.pick(has_dims(2))
    return x, tuple(p.rng.sample(range(value.dim()), value.dim()))


@choice()
def T(p):
    return (p.pick(has_dims(2))[0],)


@choice()
def movedim(p):
    x, value = p.pick(has_dims(2))
    return x, p.dim(value), p.dim(value)


@choice()
def expand(p):
    x, value = p.pick(lambda v: v.numel() < 24 and v.dim() < 4)
    shape = [p.rng.randint(2, 3) if size == 1 else p.rng.choice([size, -1]) for size in value.shape]
    return x, tuple([p.rng.randint(1, 3), *shape] if p.rng.random() < 0.5 else shape)


@choice()
def unfold(p):
    x, value = p.pick(has_dims(1))
    dim = p.dim(value, 1)
    return x, dim, p.rng.randint(1, min(3, value.size(dim))), p.rng.randint(1, 2)


@choice()
def diagonal(p):
    x, value = p.pick(has_dims(2))
    a, b = p.rng.sample(range(value.dim()), 2)
    return x, p.rng.randint(-1, 1), a, b


@choice()
def squeeze(p):
    x, value = p.pick()
    return (x, p.dim(value)) if value.dim() and p.rng.random() < 0.5 else (x,)


@choice()
def unsqueeze(p):
    x, value = p.pick(lambda v: v.dim() < 4)
    return x, p.rng.randint(-value.dim() - 1, value.dim())


@choice(1.5)
def view(p):
    x, value = p.pick(lambda v: v.is_contiguous())
    return x, factors(p.rng, value.numel())


@choice()
def reshape(p):
    x, value = p.pick()
    return x, factors(p.rng, value.numel())


@choice()
def flatten(p):
    x, value = p.pick()
    return (x, 0, 1) if value.dim() > 2 and p.rng.random() < 0.5 else (x,)


@choice()
def unflatten(p):
    x, value = p.pick(has_dims(1))
    dim = p.dim(value, 1)
    first = p.rng.choice([d for d in range(1, value.size(dim) + 1) if value.size(dim) % d == 0])
    return x, dim, (first, -1)


@choice(0.7)
def view_as(p):
    return (p.pick()[0],)


@choice()
def chunk(p):
    x, value = p.pick(has_dims(1))
    return x, p.rng.randint(2, 3), p.dim(value, 1)


@choice()
def split(p):
    x, value = p.pick(has_dims(1))
    dim = p.dim(value, 2)
    first = p.rng.randint(1, value.size(dim) - 1)
    return x, [first, value.size(dim) - first], dim


@choice()
def unbind(p):
    return p.pick(lambda v: v.dim() and 0 < v.size(0) < 5)[0], 0


def window(p, value):
    """A window anywhere on the storage; its elements often share memory."""
    held = value.untyped_storage().nbytes() // value.element_size()
    shape = tuple(p.rng.randint(1, 3) for _ in range(p.rng.randint(1, 3)))
    strides = tuple(p.rng.choice([1, 1, 2, 3, 4, 0] if p.rng.random() < 0.3 else [1, 2, 3, 4]) for _ in shape)
    reach = sum((size - 1) * stride for size, stride in zip(shape, strides))
    if reach >= held:
        raise Unfit
    return shape, strides, p.rng.randint(0, held - 1 - reach)


@choice(2)
def as_strided(p):
    x, value = p.pick(lambda v: v.numel() > 1)
    return x, *window(p, value)


@choice(2.5)
def view_as_real(p):
    return (p.pick(lambda v: v.is_complex() and v.dim() < 4)[0],)


@choice(2.5)
def view_as_complex(p):
    fits = lambda v: v.dtype in (torch.float32, torch.float64) and v.dim() and v.size(-1) == 2 and v.stride(-1) == 1
    return (p.pick(fits)[0],)


@choice(2)
def real(p):
    return (p.pick(lambda v: v.is_complex())[0],)


@choice(2)
def imag(p):
    return (p.pick(lambda v: v.is_complex())[0],)


def memory_alike(width: int) -> list[torch.dtype]:
    kinds = {
        1: [torch.uint8, torch.int8],
        2: [torch.int16, torch.float16, torch.bfloat16],
        4: [torch.int32, torch.float32],
        8: [torch.int64, torch.float64, torch.complex64],
        16: [torch.complex128],
    }
    return kinds[width]


@choice(1.5)
def view_dtype(p):
    x, value = p.pick(lambda v: v.element_size() < 16)
    kinds = [dtype for dtype in memory_alike(value.element_size()) if dtype != value.dtype]
    return x, p.rng.choice(kinds or [torch.uint8])


@choice(2)
def view_width(p):
    x, value = p.pick(lambda v: v.dim() and v.stride(-1) == 1 and v.dtype != torch.bool)
    width = value.element_size()
    smaller = [w for w in (1, 2, 4, 8) if w < width]
    larger = [w for w in (2, 4, 8) if w > width and (value.size(-1) * width) % w == 0]
    if not smaller + larger:
        raise Unfit
    return x, p.rng.choice(memory_alike(p.rng.choice(smaller + larger)))


@choice()
def detach(p):
    return (p.pick()[0],)


@choice()
def data(p):
    return (p.pick()[0],)


@choice(1.5)
def transpose_(p):
    x, value = p.pick(lambda v: v.dim() > 1)
    return x, p.dim(value), p.dim(value)


@choice()
def unsqueeze_(p):
    x, value = p.pick(lambda v: v.dim() < 3)
    return x, p.rng.randint(0, value.dim())


@choice(1.5)
def squeeze_(p):
    return (p.pick(lambda v: 1 in v.shape)[0],)


@choice()
def as_strided_(p):
    x, value = p.pick(lambda v: v.numel() > 1)
    return x, *window(p, value)


@choice()
def detach_(p):
    return (p.pick(lambda v: not v._is_view() or p.rng.random() < 0.1)[0],)


@choice(3)
def set_data(p):
    x, value = p.pick()
    same = p.names(lambda v: v.dtype == value.dtype)
    return x, Ref(p.rng.choice(same))
