# SPDX-License-Identifier: Apache-2.0
"""Random programs of many ops on both runtimes: what one-op tests cannot see.

The native runtime's chains, windows, in-place reuse and memory plan only matter where ops meet. All
arithmetic here is exact in both runtimes (wrapping integers, single IEEE operations), so the results
are equal, not close; a warm run on other inputs must agree as well.
"""

import random

import numpy as np
import torch  # noqa: F401  (loads libtorch before the extension)
from canonical_form import canonical
from numpy_builder import Client, ProgramBuilder, published, t
from numpy_oracle import values

import _sojourn
from sojourn_numpy import NumpyOwner

PROGRAMS = 150
OPS = 120
ELEMENTS = ["i64", "i64", "f32", "bf16", "i32", "u8", "f64"]
# 1 and odd sizes, and enough elements for several blocks of a chain and several threads.
SIZES = [1, 1, 2, 3, 5, 7, 16, 67, 129]


class Writer:
    """Grows a program op by op over a pool of values."""

    def __init__(self, dice: random.Random):
        self.dice, self.p, self.pool, self.made = dice, ProgramBuilder(), [], 0

    def arg(self, element, shape):
        self.pool.append((self.p.arg("upload", t(element, *shape)), element, tuple(shape)))

    def op(self, name, operands, element, shape, **attrs):
        if int(np.prod(shape, dtype=np.int64)) > 40_000:
            return
        value = self.p.op(name, [v for v, _, _ in operands], t(element, *shape), **attrs)
        self.pool.append((value, element, tuple(shape)))
        self.made += 1

    def pick(self, want=lambda element, shape: True):
        fits = [v for v in self.pool if want(v[1], v[2])]
        # Recent values more often: long chains, and old values that die late.
        return self.dice.choice(fits[-8:] if self.dice.random() < 0.6 else fits) if fits else None

    def mate(self, value):
        """An operand beside `value`: same shape or rank 0."""
        return self.pick(lambda element, shape: element == value[1] and shape in (value[2], ()))

    def grow(self):
        dice, x = self.dice, self.pick()
        _, element, shape = x
        rank, isfloat = len(shape), element in ("f32", "f64", "bf16")
        kind = dice.choice(
            "binary binary binary unary convert compare broadcast reshape transpose slice reverse update dynamic concat pad "
            "take put_along reduce dot iota".split()
        )
        if kind == "binary":
            other = self.mate(x)
            names = ["add", "sub", "mul", "max", "min"] + (
                [] if isfloat else ["and", "or", "xor", "div", "rem", "shl", "shr"]
            )
            self.op(
                dice.choice(names), [x, other] if dice.random() < 0.5 or other[2] == () else [other, x], element, shape
            )
        elif kind == "unary":
            self.op(
                dice.choice(["neg", "abs", "sign"] + (["floor", "round"] if isfloat else ["not"])), [x], element, shape
            )
        elif kind == "convert":
            to = dice.choice(ELEMENTS)
            self.op("convert", [x], to, shape)
        elif kind == "compare":
            other, third = self.mate(x), self.mate(x)
            predicate = dice.choice(["eq", "ne", "lt", "le", "gt", "ge"])
            value = self.p.op("compare", [x[0], other[0]], t("i1", *shape), predicate=predicate)
            self.op("select", [(value, "i1", shape), other, third], element, shape)
        elif kind == "broadcast":
            new = list(shape)
            dims = []
            for k, size in enumerate(shape):
                if dice.random() < 0.4:
                    new_dim = dice.choice(SIZES)
                    dims.append(("new", new_dim))
                dims.append(("old", dice.choice(SIZES) if size == 1 else size))
            if dice.random() < 0.5 or not dims:
                dims.append(("new", dice.choice(SIZES)))
            new = [size for _, size in dims]
            if len(new) <= 4:
                where = [k for k, (what, _) in enumerate(dims) if what == "old"]
                self.op("broadcast", [x], element, new, dims=where)
        elif kind == "reshape":
            numel = int(np.prod(shape, dtype=np.int64))
            divisors = [d for d in range(1, min(numel, 200) + 1) if numel % d == 0]
            first = dice.choice(divisors)
            self.op("reshape", [x], element, dice.choice([(numel,), (first, numel // first), (1, numel, 1)]))
        elif kind == "transpose" and rank > 1:
            perm = dice.sample(range(rank), rank)
            self.op("transpose", [x], element, [shape[k] for k in perm], perm=perm)
        elif kind == "slice" and rank:
            start = [dice.randrange(size) for size in shape]
            limit = [dice.randint(low + 1, size) for low, size in zip(start, shape)]
            stride = [dice.choice([1, 1, 1, 2]) for _ in shape]
            new = [(high - low + step - 1) // step for low, high, step in zip(start, limit, stride)]
            self.op("slice", [x], element, new, start=start, limit=limit, stride=stride)
        elif kind == "reverse" and rank:
            self.op("reverse", [x], element, shape, dims=sorted(dice.sample(range(rank), dice.randint(1, rank))))
        elif kind == "update" and rank:
            u = self.pick(lambda e, s: e == element and len(s) == rank and all(a <= b for a, b in zip(s, shape)))
            start = [dice.randint(0, size - inner) for size, inner in zip(shape, u[2])]
            self.op("update_slice", [x, u], element, shape, start=start, stride=[1] * rank)
        elif kind == "dynamic" and rank:
            dims = sorted(dice.sample(range(rank), dice.randint(1, rank)))
            sizes = [dice.randint(1, shape[dim]) for dim in dims]
            part = [dict(zip(dims, sizes)).get(dim, size) for dim, size in enumerate(shape)]
            # Numbers of the run: mostly far outside, where they are clamped.
            starts, moved = ([self.pick(lambda e, s: e == "i64" and s == ()) for _ in dims] for _ in range(2))
            self.op("dynamic_slice", [x, *starts], element, part, dims=dims, sizes=sizes)
            u = self.pool[-1]
            if u[1:] == (element, tuple(part)):
                self.op("dynamic_update_slice", [x, u, *moved], element, shape, dims=dims)
        elif kind == "concat" and rank:
            dim = dice.randrange(rank)
            others = self.pick(
                lambda e, s: (
                    e == element and len(s) == rank and s[:dim] + s[dim + 1 :] == shape[:dim] + shape[dim + 1 :]
                )
            )
            new = list(shape)
            new[dim] += others[2][dim]
            self.op("concat", [x, others], element, new, dim=dim)
        elif kind == "pad" and rank:
            zero = self.pick(lambda e, s: e == element and s == ())
            if zero:
                low, high = [dice.randint(-1, 2) for _ in shape], [dice.randint(-1, 2) for _ in shape]
                inner = [dice.choice([0, 0, 1]) for _ in shape]
                new = [size + a + b + c * (size - 1) for size, a, b, c in zip(shape, low, high, inner)]
                if min(new) > 0:
                    self.op("pad", [x, zero], element, new, low=low, high=high, interior=inner)
        elif kind == "take" and rank:
            i = self.pick(lambda e, s: e in ("i64", "i32", "u8") and len(s) <= 1)
            dim = dice.randrange(rank)
            self.op("take", [x, i], element, shape[:dim] + i[2] + shape[dim + 1 :], dim=dim)
        elif kind == "put_along" and rank and not isfloat:
            u = self.mate(x)
            i = self.pick(lambda e, s: e in ("i64", "i32", "u8") and s == shape)
            if i and u[2] == shape:
                what = dice.choice(["set", "add", "mul", "max", "min"])
                self.op("put_along", [x, i, u], element, shape, dim=dice.randrange(rank), kind=what)
        elif kind == "reduce" and rank:
            dims = sorted(dice.sample(range(rank), dice.randint(1, rank)))
            new = [size for k, size in enumerate(shape) if k not in dims]
            names = ["reduce_max", "reduce_min"] + ([] if isfloat else ["reduce_sum", "reduce_prod"])
            self.op(dice.choice(names), [x], element, new, dims=dims)
        elif kind == "dot" and element == "i64" and rank == 2:
            y = self.pick(lambda e, s: e == "i64" and len(s) == 2 and (s[0] == shape[1] or s[1] == shape[1]))
            if y:
                axis = 0 if y[2][0] == shape[1] else 1
                new = [shape[0], y[2][1 - axis]]
                self.op("dot", [x, y], "i64", new, lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[axis])
        elif kind == "iota" and rank:
            self.op("iota", [], element, shape, dim=dice.randrange(rank))


def equal(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b, equal_nan=a.dtype.kind not in "iub")


def test_random_programs_give_equal_results(rng):
    clients = [Client(_sojourn.EmbeddedOwner()), Client(NumpyOwner())]
    dice = random.Random(int(rng.integers(1 << 60)))
    for number in range(PROGRAMS):
        w = Writer(dice)
        for element in dict.fromkeys(ELEMENTS):
            w.arg(element, ())
            w.arg(element, [dice.choice(SIZES) for _ in range(dice.randint(1, 2))])
        while w.made < OPS:
            w.grow()
        args = [v for v in w.pool if v[0] < len(w.p.args)]
        made = w.pool[len(args) :]
        # A few results, among them one value twice and arguments passed on.
        for value in [*dice.sample(made, 5), made[-1], made[-1], args[dice.randrange(len(args))]]:
            w.p.result("publish", value[0])
        data = canonical(w.p).encode()
        for run in range(3):
            uploads = [values(rng, element, shape, edges=True) for _, element, shape in args]
            replies = [client.step(data, uploads=uploads) for client in clients]
            for reply in replies:
                assert reply.kind == "Done", (number, reply.message)
            for at, (ours, theirs) in enumerate(zip(*(published(reply) for reply in replies))):
                message = f"program {number}, run {run}, result {at}"
                assert equal(ours, theirs), message + save(data)


def save(data: bytes) -> str:
    import tempfile

    with tempfile.NamedTemporaryFile(suffix=".program", delete=False) as file:
        file.write(data)
    return f"; the program is {file.name}"
