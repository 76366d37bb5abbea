# SPDX-License-Identifier: Apache-2.0
"""One random op onto a random program (random_programs.Writer), each kind a function; `grow` chooses."""

from __future__ import annotations

import math

from random_programs import SLOTS, Writer

from sojourn_numpy.types import F64, I1, I64, NAMES, TensorType

UNARY = {"F": "neg abs sign floor ceil round exp expm1 log log1p sqrt sin cos tanh logistic erf erfc erfinv lgamma digamma".split(),
         "Z": ["neg", "abs", "sign", "not"], "B": ["not"]}  # fmt: skip
BINARY = {"F": "add add add sub mul mul div rem pow atan2 max min".split(), "B": ["and", "or", "xor", "max", "min"],
          "Z": "add sub mul div rem pow max min and or xor shl shr".split()}  # fmt: skip


def _numel(shape) -> int:
    return math.prod(shape)


def constants(w: Writer):
    kind = w.pick.choice(["f64", "f64", "i64", "f32"])
    number = w.pick.choice([0, 0, 1, 2, -1, 3, 0.5, -2.5, 1e300, 1e-300, 1e-9])
    whole = int(number) if abs(number) < 1e9 else 2**53 + 1
    w.op(
        "constant",
        [],
        TensorType(NAMES.index(kind), ()),
        value=whole if kind == "i64" else float(number) if kind == "f64" else float(min(number, 1e30)),
    )


def source(w: Writer):
    element = w.pick.choice(["f64", "i64", "i64", "f32"])
    shape = w.pick.choice([(SLOTS,), (SLOTS, 3), (3,), (3, SLOTS), (5,)])
    if element == "i64" or w.pick.random() < 0.4:
        w.op("iota", [], TensorType(NAMES.index(element), shape), dim=w.pick.randrange(len(shape)))
    else:
        w.op(w.pick.choice(["rng_uniform", "rng_normal"]), [10], TensorType(NAMES.index(element), shape), stream=3)
    if w.pick.random() < 0.1:
        w.op("rng_bits", [11], TensorType(I64, (SLOTS,)), stream=1)


def convert(w: Writer):
    x = w.some()
    target = w.pick.choice(["f64"] * 4 + ["i64", "i64", "i1", "f32", "i32", "f16", "u8", "bf16", "i8"])
    w.op("convert", [x], TensorType(NAMES.index(target), w.types[x].shape))


def bitcast(w: Writer):
    x = w.some(lambda t: t.element in (F64, I64))
    w.op("bitcast", [x], TensorType(I64 if w.types[x].element == F64 else F64, w.types[x].shape))


def unary(w: Writer):
    x = w.some()
    w.op(w.pick.choice(UNARY[w.types[x].kind]), [x], w.types[x])


def binary(w: Writer):
    x = w.some()
    t = w.types[x]
    y = w.some(lambda u: u.element == t.element and u.shape in (t.shape, ()))
    pair = [x, y] if w.pick.random() < 0.5 else [y, x]
    w.op(w.pick.choice(BINARY[t.kind]), pair, t)


def compare(w: Writer):
    x = w.some()
    t = w.types[x]
    y = w.some(lambda u: u.element == t.element and u.shape in (t.shape, ()))
    w.op("compare", [x, y], TensorType(I1, t.shape), predicate=w.pick.choice(["eq", "ne", "lt", "le", "gt", "ge"]))


def select(w: Writer):
    x = w.some()
    t = w.types[x]
    p = w.some(lambda u: u.element == I1 and u.shape in (t.shape, ()))
    y = w.some(lambda u: u.element == t.element and u.shape in (t.shape, ()))
    if p is not None:
        w.op("select", [p, *((x, y) if w.pick.random() < 0.5 else (y, x))], t)


def one_hot(w: Writer):
    """compare(iota, broadcast(x)): what histograms and class counts are made of."""
    x = w.some(lambda t: t.element == I64 and 1 <= t.rank <= 2)
    t = w.types[x]
    shape = (*t.shape, 4)
    ramp = w.op("iota", [], TensorType(I64, shape), dim=t.rank)
    wide = w.op("broadcast", [x], TensorType(I64, shape), dims=range(t.rank))
    if ramp is not None and wide is not None:
        hot = w.op("compare", [ramp, wide], TensorType(I1, shape), predicate="eq")
        w.op("convert", [hot], TensorType(w.pick.choice([F64, I64]), shape))


def scattered(w: Writer):
    """put_along onto zeros: one-hot labels as a cross-entropy's gradient makes them."""
    i = w.some(lambda t: t.element == I64 and 1 <= t.rank <= 2)
    t = w.types[i]
    columns = t.shape[1] if t.rank == 2 else 1
    index = i if t.rank == 2 else w.op("reshape", [i], TensorType(I64, (*t.shape, 1)))
    u = w.some(lambda v: v.kind in "ZF" and v.shape in (t.shape, (*t.shape[:1], columns)))
    element = w.types[u].element
    update = u if w.types[u].rank == 2 else w.op("reshape", [u], TensorType(element, (*t.shape, 1)))
    zero = w.op("constant", [], TensorType(element, ()), value=0.0 if w.types[u].kind == "F" else 0)
    zeros = w.op("broadcast", [zero], TensorType(element, (t.shape[0], 5)), dims=[])
    kind = w.pick.choice(["set", "set", "add", "max", "mul"])
    put = w.op("put_along", [zeros, index, update], TensorType(element, (t.shape[0], 5)), dim=1, kind=kind)
    if put is not None and w.pick.random() < 0.5:
        w.op("reduce_sum", [put], TensorType(element, (5,)), dims=[0])


def broadcast(w: Writer):
    x = w.some()
    t, shape, dims = w.types[x], [], []
    for size in t.shape:
        if w.pick.random() < 0.3:
            shape.append(w.pick.choice([2, 3, SLOTS]))
        dims.append(len(shape))
        shape.append(w.pick.choice([1, SLOTS]) if size == 1 else size)
    if w.pick.random() < 0.5 or not shape:
        shape.append(w.pick.choice([1, 2, 3]))
    w.op("broadcast", [x], TensorType(t.element, tuple(shape)), dims=dims)


def reshape(w: Writer):
    x = w.some()
    left, shape = w.types[x].numel, []
    while left > 1 and len(shape) < 4:
        divisors = [k for k in range(2, left + 1) if left % k == 0][:6] + [left]
        shape.append(w.pick.choice(divisors))
        left //= shape[-1]
    if left > 1:
        shape.append(left)
    if w.pick.random() < 0.4:
        w.pick.shuffle(shape)
    if w.pick.random() < 0.3:
        shape.insert(w.pick.randrange(len(shape) + 1), 1)
    if _numel(shape) == w.types[x].numel:
        w.op("reshape", [x], TensorType(w.types[x].element, tuple(shape)))


def transpose(w: Writer):
    x = w.some(lambda t: t.rank > 1)
    t = w.types[x]
    perm = w.pick.sample(range(t.rank), t.rank)
    w.op("transpose", [x], TensorType(t.element, tuple(t.shape[k] for k in perm)), perm=perm)


def slice_(w: Writer):
    x = w.some(lambda t: t.rank > 0)
    t = w.types[x]
    start = [0 if w.pick.random() < 0.6 else w.pick.randrange(size) for size in t.shape]
    limit = [size if w.pick.random() < 0.6 else w.pick.randint(a + 1, size) for a, size in zip(start, t.shape)]
    stride = [w.pick.choice([1, 1, 2, 3]) for _ in t.shape]
    shape = tuple((b - a + s - 1) // s for a, b, s in zip(start, limit, stride))
    w.op("slice", [x], TensorType(t.element, shape), start=start, limit=limit, stride=stride)


def reverse(w: Writer):
    x = w.some(lambda t: t.rank > 0)
    t = w.types[x]
    w.op("reverse", [x], t, dims=sorted(w.pick.sample(range(t.rank), w.pick.randint(1, t.rank))))


def update_slice(w: Writer):
    x = w.some(lambda t: t.rank > 0)
    t = w.types[x]
    fits = lambda u: u.element == t.element and u.rank == t.rank and all(a <= b for a, b in zip(u.shape, t.shape))
    u = w.some(lambda v: fits(v) and v.rank > 0)
    start = [w.pick.randint(0, a - b) for a, b in zip(t.shape, w.types[u].shape)]
    w.op("update_slice", [x, u], t, start=start, stride=[1] * t.rank)


def dynamic(w: Writer):
    """A part from where a public number says, and its write elsewhere."""
    x = w.some(lambda t: t.rank > 0)
    t = w.types[x]
    dims = sorted(w.pick.sample(range(t.rank), w.pick.randint(1, t.rank)))
    if not any(u.element == I64 and u.shape == () for u in w.types):
        w.op("constant", [], TensorType(I64, ()), value=w.pick.randint(-1, 3))
    sizes = [size if w.pick.random() < 0.3 else w.pick.randint(1, size) for size in (t.shape[d] for d in dims)]
    starts = [w.some(lambda u: u.element == I64 and u.shape == ()) for _ in dims]
    part = tuple(sizes[dims.index(d)] if d in dims else size for d, size in enumerate(t.shape))
    u = w.op("dynamic_slice", [x, *starts], TensorType(t.element, part), dims=dims, sizes=sizes)
    w.op("dynamic_update_slice", [x, u, *starts], t, dims=dims)


def concat(w: Writer):
    x = w.some(lambda t: t.rank > 0)
    t = w.types[x]
    dim = w.pick.randrange(t.rank)
    other = lambda shape: shape[:dim] + shape[dim + 1 :]
    parts = [x] + [w.some(lambda u: u.element == t.element and u.rank == t.rank and other(u.shape) == other(t.shape))
                   for _ in range(w.pick.choice([1, 1, 2]))]  # fmt: skip
    w.pick.shuffle(parts)
    shape = (*t.shape[:dim], sum(w.types[k].shape[dim] for k in parts), *t.shape[dim + 1 :])
    w.op("concat", parts, TensorType(t.element, shape), dim=dim)


def pad(w: Writer):
    x = w.some(lambda t: t.rank > 0)
    t = w.types[x]
    z = w.some(lambda u: u.element == t.element and u.shape == ())
    low, high = ([w.pick.choice([0, 0, 0, 1, -1]) for _ in t.shape] for _ in "ab")
    interior = [w.pick.choice([0, 0, 0, 1]) for _ in t.shape]
    shape = tuple(n + a + b + c * (n - 1) for n, a, b, c in zip(t.shape, low, high, interior))
    if z is not None and min(shape) > 0:
        w.op("pad", [x, z], TensorType(t.element, shape), low=low, high=high, interior=interior)


def dot(w: Writer):
    x = w.some(lambda t: t.rank > 0 and t.kind in "ZF")
    t = w.types[x]
    y = w.some(lambda u: u.element == t.element and u.rank > 0 and set(u.shape) & set(t.shape))
    u = w.types[y]
    pairs = [(a, b) for a in range(t.rank) for b in range(u.rank) if t.shape[a] == u.shape[b]]
    w.pick.shuffle(pairs)
    batch, contract, left, right = [], [], set(), set()
    for a, b in pairs:
        dice = w.pick.random()
        if a in left or b in right or dice > 0.8:
            continue
        (batch if dice < 0.3 else contract).append((a, b))
        left.add(a)
        right.add(b)
    shape = [t.shape[a] for a, _ in batch]
    shape += [n for k, n in enumerate(t.shape) if k not in left] + [n for k, n in enumerate(u.shape) if k not in right]
    w.op("dot", [x, y], TensorType(t.element, tuple(shape)), lhs_batch=[a for a, _ in batch],
         rhs_batch=[b for _, b in batch], lhs_contract=[a for a, _ in contract], rhs_contract=[b for _, b in contract])  # fmt: skip


def cholesky(w: Writer):
    """Of products with itself, which are definite or nearly so, or of what is square."""
    x = w.some(lambda t: t.rank > 1 and t.kind == "F")
    t, batch = w.types[x], list(range(w.types[x].rank - 2))
    square = TensorType(t.element, (*t.shape[:-2], t.shape[-2], t.shape[-2]))
    if w.pick.random() < 0.7 or t.shape[-1] != t.shape[-2]:
        x = w.op("dot", [x, x], square, lhs_batch=batch, rhs_batch=batch, lhs_contract=[t.rank - 1],
                 rhs_contract=[t.rank - 1])  # fmt: skip
    if x is not None:
        w.op("cholesky", [x], [square, TensorType(I64, t.shape[:-2])])


def _window(w: Writer, sizes):
    taps = [w.pick.choice([1, 2, 2]) if n > 1 else 1 for n in sizes]
    dilation = [w.pick.choice([1, 1, 2]) if n > 2 else 1 for n in sizes]
    padding = [w.pick.choice([0, 0, 1]) if k > 1 else 0 for k in taps]
    stride = [w.pick.choice([1, 1, 2]) for _ in sizes]
    out = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, d, p, s in zip(sizes, taps, dilation, padding, stride)]
    return taps, {"stride": stride, "padding": padding, "dilation": dilation}, out


def pool(w: Writer):
    x = w.some(lambda t: t.rank in (3, 4) and t.kind in "ZF")
    t = w.types[x]
    taps, attrs, out = _window(w, t.shape[2:])
    shape = (*t.shape[:2], *out)
    if min(shape) < 1:
        return
    if w.pick.random() < 0.5:
        w.op("pool_sum", [x], TensorType(t.element, shape), window=taps, **attrs)
    elif all(
        2 * p <= d * (k - 1) + 1 and (p == 0 or n >= d)
        for n, p, k, d in zip(t.shape[2:], attrs["padding"], taps, attrs["dilation"])
    ):
        w.op("pool_max", [x], [TensorType(t.element, shape), TensorType(I64, shape)], window=taps, **attrs)


def conv(w: Writer):
    x = w.some(lambda t: t.rank in (3, 4) and t.kind == "F")
    t = w.types[x]
    groups = w.pick.choice([1, 1, t.shape[1]])
    taps, attrs, out = _window(w, t.shape[2:])
    outputs = groups * w.pick.choice([1, 2])
    kind, attrs = w.pick.choice(["conv", "conv", "input", "weight"]), attrs | {"groups": groups}
    weight, result = (outputs, t.shape[1] // groups, *taps), (t.shape[0], outputs, *out)
    if min(result) < 1 or t.shape[1] % groups:
        return
    is_like = lambda shape: lambda u: u.element == t.element and _numel(shape) <= u.numel
    fill = w.some(is_like(weight), only="public") if kind != "weight" else w.some(is_like(result), mixed=0.0)
    if kind == "conv":
        w_ = _reshaped(w, fill, weight)
        w.op("conv", [x, w_], TensorType(t.element, result), **attrs) if w_ is not None else None
    elif kind == "weight":
        g = _reshaped(w, fill, result)
        w.op("conv_grad_weight", [g, x], TensorType(t.element, weight), **attrs) if g is not None else None
    else:  # x is the gradient of a larger input
        sizes = [(n - 1) * s + d * (k - 1) + 1 - 2 * p
                 for n, s, d, k, p in zip(t.shape[2:], attrs["stride"], attrs["dilation"], taps, attrs["padding"])]  # fmt: skip
        inputs = w.pick.choice([1, 2])
        attrs["groups"] = 1
        w_ = _reshaped(w, w.some(is_like((t.shape[1], inputs, *taps)), only="public"), (t.shape[1], inputs, *taps))
        if w_ is not None and min(sizes) > 0:
            w.op("conv_grad_input", [x, w_], TensorType(t.element, (t.shape[0], inputs, *sizes)), **attrs)


def _reshaped(w: Writer, x: int | None, shape) -> int | None:
    """The first elements of x in that shape."""
    if x is None:
        return None
    t = w.types[x]
    if t.numel == _numel(shape):
        return x if t.shape == tuple(shape) else w.op("reshape", [x], TensorType(t.element, tuple(shape)))
    flat = w.op("reshape", [x], TensorType(t.element, (t.numel,)))
    if flat is None:
        return None
    part = w.op("slice", [flat], TensorType(t.element, (_numel(shape),)), start=[0], limit=[_numel(shape)], stride=[1])
    return w.op("reshape", [part], TensorType(t.element, tuple(shape)))


def reduce(w: Writer):
    x = w.some(lambda t: t.rank > 0)
    t = w.types[x]
    names = ["reduce_max", "reduce_min"] + (["reduce_sum"] * 8 + ["reduce_prod"] if t.kind in "ZF" else [])
    dims = sorted(w.pick.sample(range(t.rank), w.pick.randint(1, t.rank)))
    shape = tuple(n for k, n in enumerate(t.shape) if k not in dims)
    w.op(w.pick.choice(names), [x], TensorType(t.element, shape), dims=dims)


def arg(w: Writer):
    x = w.some(lambda t: t.rank > 0)
    t, dim = w.types[x], w.pick.randrange(w.types[x].rank)
    w.op(w.pick.choice(["argmax", "argmin"]), [x], TensorType(I64, t.shape[:dim] + t.shape[dim + 1 :]), dim=dim)


def scan(w: Writer):
    x = w.some(lambda t: t.rank > 0)
    t = w.types[x]
    names = (
        ["cummax", "cummin"]
        + (["cumsum", "cumsum", "cumprod"] if t.kind in "ZF" else [])
        + (["cumlogsumexp"] if t.kind == "F" else [])
    )
    w.op(w.pick.choice(names), [x], t, dim=w.pick.randrange(t.rank))


def sort(w: Writer):
    x = w.some(lambda t: t.rank > 0)
    t, dim = w.types[x], w.pick.randrange(w.types[x].rank)
    if w.pick.random() < 0.5:
        w.op("sort", [x], [t, TensorType(I64, t.shape)], dim=dim, descending=w.pick.random() < 0.5)
    else:
        k = w.pick.randint(1, t.shape[dim])
        shape = (*t.shape[:dim], k, *t.shape[dim + 1 :])
        w.op(
            "topk",
            [x],
            [TensorType(t.element, shape), TensorType(I64, shape)],
            dim=dim,
            k=k,
            largest=w.pick.random() < 0.5,
        )


def take(w: Writer):
    x = w.some(lambda t: t.rank > 0)
    i = w.some(lambda t: t.element == I64 and t.rank <= 2)
    t, dim = w.types[x], w.pick.randrange(w.types[x].rank)
    w.op("take", [x, i], TensorType(t.element, t.shape[:dim] + w.types[i].shape + t.shape[dim + 1 :]), dim=dim)


def take_along(w: Writer):
    x = w.some(lambda t: t.rank > 0)
    t, dim = w.types[x], w.pick.randrange(w.types[x].rank)
    same = lambda u: u.rank == t.rank and all(a == b for k, (a, b) in enumerate(zip(u.shape, t.shape)) if k != dim)
    i = w.some(lambda u: u.element == I64 and same(u))
    if i is not None:
        w.op("take_along", [x, i], TensorType(t.element, w.types[i].shape), dim=dim)


def put_along(w: Writer):
    x = w.some(lambda t: t.rank > 0 and t.kind in "ZF")
    t, dim = w.types[x], w.pick.randrange(w.types[x].rank)
    same = lambda u: u.rank == t.rank and all(a == b for k, (a, b) in enumerate(zip(u.shape, t.shape)) if k != dim)
    i = w.some(lambda u: u.element == I64 and same(u))
    if i is None:
        return
    u = w.some(lambda v: v.element == t.element and v.shape == w.types[i].shape)
    if u is not None:
        w.op("put_along", [x, i, u], t, dim=dim, kind=w.pick.choice(["set", "add", "max", "min", "mul"]))


def put(w: Writer):
    i = w.some(lambda t: t.element == I64 and 1 <= t.rank <= 2)
    index = w.types[i]
    # Updates that begin with the index's sizes: as an embedding's gradient.
    u = w.some(lambda t: t.kind in "ZF" and t.rank >= index.rank and t.shape[: index.rank] == index.shape)
    if u is None:
        return
    t = w.types[u]
    shape = (5, *t.shape[index.rank :])
    kind = w.pick.choice(["add"] * 5 + ["set", "max"])
    x = w.some(lambda v: v.element == t.element and v.shape == shape) if w.pick.random() < 0.3 else None
    if x is None:
        zero = w.op("constant", [], TensorType(t.element, ()), value=0.0 if t.kind == "F" else 0)
        x = w.op("broadcast", [zero], TensorType(t.element, shape), dims=[])
    w.op("put", [x, i, u], TensorType(t.element, shape), dim=0, kind=kind)


def put_within(w: Writer):
    """Writes along a dim that holds no rows, at public places."""
    x = w.some(lambda t: t.rank > 1 and t.kind in "ZF")
    t, dim = w.types[x], w.pick.randrange(w.types[x].rank)
    i = w.some(lambda u: u.element == I64 and u.rank == 1, mixed=0.0)
    shape = t.shape[:dim] + w.types[i].shape + t.shape[dim + 1 :]
    u = w.some(lambda v: v.element == t.element and v.shape == shape)
    if u is not None:
        w.op("put", [x, i, u], t, dim=dim, kind=w.pick.choice(["set", "add", "min"]))


def mean(w: Writer):
    """A sum over the first rows' dim and what follows it in a statistic."""
    x = w.some(lambda t: t.rank > 0 and t.kind == "F" and t.shape[0] % SLOTS == 0)
    t = w.types[x]
    total = w.op("reduce_sum", [x], TensorType(t.element, t.shape[1:]), dims=[0])
    divisor = w.some(lambda u: u.element == t.element and u.shape == (), mixed=0.3)
    if divisor is not None:
        w.op(w.pick.choice(["div", "mul"]), [total, divisor], w.types[total])


KINDS = [binary] * 5 + [reduce] * 3 + [dot] * 3 + [reshape] * 2 + [transpose] * 2 + [slice_] * 2 + [convert] * 2 + [conv] * 3 + [
    put, put, mean, mean, one_hot, scattered, unary, unary, constants, source, bitcast, compare, select, select, broadcast, broadcast, reverse,
    update_slice, dynamic, concat, pad, pool, arg, scan, sort, cholesky, take, take_along, put_along, put_within,
]  # fmt: skip


def random_program(seed: int, ops: int = 60) -> Writer:
    """About so many ops, with those that draw and read; fewer of these where it is to be short."""
    w = Writer(seed)
    w.wanted = ops
    w.draw_rows(few=ops < 30)
    while len(w.ops) < ops:
        kind = w.pick.choice(KINDS)
        before = len(w.ops)
        try:
            kind(w)
        except (TypeError, IndexError):  # nothing of the wanted type yet
            assert len(w.ops) >= before
    return w
