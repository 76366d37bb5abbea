# SPDX-License-Identifier: Apache-2.0
"""Core ops in eager torch, written from their documentation alone."""

import torch
import torch.nn.functional as F

KERNELS = {}


def kernel(function):
    KERNELS[function.__name__.rstrip("_")] = function
    return function


def _elementwise(name, function):
    KERNELS[name] = lambda op, *operands: function(*operands)


for _name, _function in {
    "neg": torch.neg, "abs": torch.abs, "sign": torch.sign, "floor": torch.floor, "ceil": torch.ceil,
    "round": torch.round, "exp": torch.exp, "expm1": torch.expm1, "log": torch.log, "log1p": torch.log1p,
    "sqrt": torch.sqrt, "sin": torch.sin, "cos": torch.cos, "tanh": torch.tanh, "logistic": torch.sigmoid,
    "erf": torch.erf, "erfc": torch.erfc, "add": torch.add, "sub": torch.sub, "mul": torch.mul, "pow": torch.pow,
    "rem": torch.fmod, "max": torch.maximum, "min": torch.minimum, "atan2": torch.atan2, "select": torch.where,
    "and": torch.bitwise_and, "or": torch.bitwise_or, "xor": torch.bitwise_xor,
}.items():  # fmt: skip
    _elementwise(_name, _function)
KERNELS["not"] = lambda op, x: torch.logical_not(x) if x.dtype == torch.bool else torch.bitwise_not(x)


@kernel
def div(op, a, b):
    return a / b if a.dtype.is_floating_point else torch.div(a, b, rounding_mode="trunc")


@kernel
def compare(op, a, b):
    return getattr(torch, op.attrs["predicate"])(a, b)


@kernel
def constant(op):
    return torch.tensor(op.attrs["value"], dtype=op.types[0].dtype)


@kernel
def iota(op):
    type_, dim = op.types[0], op.attrs["dim"]
    line = torch.arange(type_.shape[dim]).to(type_.dtype)
    return line.reshape([-1 if d == dim else 1 for d in range(len(type_.shape))]).expand(type_.shape)


@kernel
def convert(op, x):
    return x.to(op.types[0].dtype)


@kernel
def broadcast(op, x):
    dims, shape = op.attrs["dims"], op.types[0].shape
    sizes = [1] * len(shape)
    for size, dim in zip(x.shape, dims):
        sizes[dim] = size
    return x.reshape(sizes).expand(shape)


@kernel
def reshape(op, x):
    return x.reshape(op.types[0].shape)


@kernel
def transpose(op, x):
    return x.permute(op.attrs["perm"])


def _window(attrs, sizes):
    starts, strides = attrs["start"], attrs["stride"]
    return tuple(slice(s, s + (n - 1) * k + 1 if n else s, k) for s, n, k in zip(starts, sizes, strides))


@kernel
def slice_(op, x):
    triples = zip(op.attrs["start"], op.attrs["limit"], op.attrs["stride"])
    return x[tuple(slice(*triple) for triple in triples)]


@kernel
def update_slice(op, x, u):
    result = x.clone()
    result[_window(op.attrs, u.shape)] = u
    return result


def _moved(op, starts, shape, part):
    first = [0] * len(shape)
    for dim, start in zip(op.attrs["dims"], starts):
        first[dim] = max(0, min(int(start), shape[dim] - part[dim]))
    return tuple(slice(low, low + size) for low, size in zip(first, part))


@kernel
def dynamic_slice(op, x, *starts):
    return x[_moved(op, starts, x.shape, op.types[0].shape)]


@kernel
def dynamic_update_slice(op, x, u, *starts):
    result = x.clone()
    result[_moved(op, starts, x.shape, u.shape)] = u
    return result


@kernel
def reverse(op, x):
    return x.flip(op.attrs["dims"])


@kernel
def concat(op, *xs):
    return torch.cat(xs, op.attrs["dim"])


@kernel
def pad(op, x, value):
    low, high, interior = op.attrs["low"], op.attrs["high"], op.attrs["interior"]
    spread = value.expand([n + max(n - 1, 0) * k for n, k in zip(x.shape, interior)]).clone()
    spread[tuple(slice(None, None, k + 1) for k in interior)] = x
    for dim, (before, after) in enumerate(zip(low, high)):
        for amount, front in ((before, True), (after, False)):
            if amount < 0:
                spread = spread.narrow(dim, -amount if front else 0, spread.shape[dim] + amount)
            elif amount > 0:
                sizes = list(spread.shape)
                sizes[dim] = amount
                piece = value.expand(sizes)
                spread = torch.cat([piece, spread] if front else [spread, piece], dim)
    return spread


@kernel
def dot(op, a, b):
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    left, right = [None] * a.dim(), [None] * b.dim()
    batch = []
    for kind in ("batch", "contract"):
        for i, j in zip(op.attrs[f"lhs_{kind}"], op.attrs[f"rhs_{kind}"]):
            left[i] = right[j] = next(letters)
            if kind == "batch":
                batch.append(left[i])
    free = []
    for side in (left, right):
        for i, letter in enumerate(side):
            if letter is None:
                side[i] = next(letters)
                free.append(side[i])
    result = torch.einsum(f"{''.join(left)},{''.join(right)}->{''.join(batch + free)}", a, b)
    return result.to(op.types[0].dtype)


def _convolution(op, x, w):
    attrs = op.attrs
    function = (F.conv1d, F.conv2d, F.conv3d)[x.dim() - 3]
    return function(x, w, None, attrs["stride"], attrs["padding"], attrs["dilation"], attrs["groups"])


@kernel
def conv(op, x, w):
    return _convolution(op, x, w)


@kernel
def conv_grad_input(op, g, w):
    x = torch.zeros(op.types[0].shape, dtype=g.dtype, requires_grad=True)
    with torch.enable_grad():
        return torch.autograd.grad(_convolution(op, x, w.detach()), x, g)[0]


@kernel
def conv_grad_weight(op, g, x):
    w = torch.zeros(op.types[0].shape, dtype=g.dtype, requires_grad=True)
    with torch.enable_grad():
        return torch.autograd.grad(_convolution(op, x.detach(), w), w, g)[0]


def _reduce(name, function):
    def run(op, x):
        for dim in sorted(op.attrs["dims"], reverse=True):
            x = function(x, dim)
        return x.to(op.types[0].dtype)

    KERNELS[name] = run


_reduce("reduce_sum", lambda x, dim: x.sum(dim))
_reduce("reduce_prod", lambda x, dim: x.prod(dim))
_reduce("reduce_max", lambda x, dim: x.amax(dim))
_reduce("reduce_min", lambda x, dim: x.amin(dim))
KERNELS["argmax"] = lambda op, x: x.argmax(op.attrs["dim"])
KERNELS["argmin"] = lambda op, x: x.argmin(op.attrs["dim"])
KERNELS["cumsum"] = lambda op, x: x.cumsum(op.attrs["dim"])


@kernel
def take(op, x, i):
    dim = op.attrs["dim"]
    found = torch.index_select(x, dim, i.reshape(-1).long())
    return found.reshape(op.types[0].shape)


@kernel
def take_along(op, x, i):
    return torch.gather(x, op.attrs["dim"], i.long())


@kernel
def put(op, x, i, u):
    dim, kind = op.attrs["dim"], op.attrs["kind"]
    flat = i.reshape(-1).long()
    updates = u.reshape(*x.shape[:dim], flat.numel(), *x.shape[dim + 1 :])
    if kind == "add":
        return x.index_add(dim, flat, updates)
    assert kind == "set", kind
    return x.index_copy(dim, flat, updates)


@kernel
def put_along(op, x, i, u):
    dim, kind = op.attrs["dim"], op.attrs["kind"]
    return x.scatter_add(dim, i.long(), u) if kind == "add" else x.scatter(dim, i.long(), u)


@kernel
def pool_max(op, x):
    attrs = op.attrs
    function = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[x.dim() - 3]
    return function(x, attrs["window"], attrs["stride"], attrs["padding"], attrs["dilation"], return_indices=True)


@kernel
def pool_sum(op, x):
    attrs = op.attrs
    spatial = x.dim() - 2
    weight = torch.ones((1, 1, *attrs["window"]), dtype=x.dtype)
    flat = x.reshape(-1, 1, *x.shape[2:])
    function = (F.conv1d, F.conv2d, F.conv3d)[spatial - 1]
    return function(flat, weight, None, attrs["stride"], attrs["padding"], attrs["dilation"]).reshape(op.types[0].shape)
