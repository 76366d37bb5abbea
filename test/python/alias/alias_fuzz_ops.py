# SPDX-License-Identifier: Apache-2.0
"""What the ops of the alias fuzzer's programs do, on tensors of any device, and what they write to."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch

# An element of the result is computed from the elements at the same place, so the written window may be read as well.
ELEMENTWISE = "elementwise"
# One number is written everywhere, so that elements may share memory.
UNIFORM = "uniform"
# Anything else.
FREE = "free"


@dataclasses.dataclass(frozen=True)
class Spec:
    run: Callable
    group: str
    writes: tuple[int, ...] = ()  # positions of arguments that are written to
    style: str = FREE
    rounds: bool = False  # results may differ by a rounding


SPECS: dict[str, Spec] = {}


def _add(group, writes=(), style=FREE, rounds=False, **functions):
    for name, function in functions.items():
        SPECS[name] = Spec(function, group, writes, style, rounds)


def _at(dim, index):
    return (slice(None),) * dim + (index,)


def _set(x, key, value):
    x[key] = value


def _set_data(x, value):
    x.data = value


def _set_grad(x, value):
    x.grad = value


def _iadd(x, key, value):
    x[key] += value


def _imul(x, key, value):
    x[key] *= value


def _loss(tensors, square):
    total = 0.0
    for x in tensors:
        x = torch.view_as_real(x) if x.is_complex() else x
        total = total + (x * x if square else x).sum()
    return total


def _grad(tensors, inputs, square=False):
    return torch.autograd.grad(_loss(tensors, square), inputs, retain_graph=True, allow_unused=True)


_add(
    "views",
    cut=lambda x, dim, start, stop, step: x[_at(dim, slice(start, stop, step))],
    select=lambda x, dim, at: x.select(dim, at),
    narrow=lambda x, dim, start, length: x.narrow(dim, start, length),
    getitem=lambda x, key: x[key],
    transpose=lambda x, a, b: x.transpose(a, b),
    permute=lambda x, dims: x.permute(dims),
    T=lambda x: x.mT if x.dim() > 2 else x.T,
    movedim=lambda x, a, b: x.movedim(a, b),
    expand=lambda x, shape: x.expand(shape),
    unfold=lambda x, dim, size, step: x.unfold(dim, size, step),
    diagonal=lambda x, offset, a, b: x.diagonal(offset, a, b),
    squeeze=lambda x, *dim: x.squeeze(*dim),
    unsqueeze=lambda x, dim: x.unsqueeze(dim),
    view=lambda x, shape: x.view(shape),
    reshape=lambda x, shape: x.reshape(shape),
    flatten=lambda x, *dims: x.flatten(*dims),
    unflatten=lambda x, dim, sizes: x.unflatten(dim, sizes),
    view_as=lambda x: x.view_as(x),
    chunk=lambda x, count, dim: x.chunk(count, dim),
    split=lambda x, sizes, dim: x.split(sizes, dim),
    unbind=lambda x, dim: x.unbind(dim),
    as_strided=lambda x, shape, strides, offset: x.as_strided(shape, strides, offset),
    view_as_real=lambda x: torch.view_as_real(x),
    view_as_complex=lambda x: torch.view_as_complex(x),
    real=lambda x: x.real,
    imag=lambda x: x.imag,
)
_add(
    "typed views",
    view_dtype=lambda x, dtype: x.view(dtype),
    view_width=lambda x, dtype: x.view(dtype),
)
_add("detached", detach=lambda x: x.detach(), data=lambda x: x.data)
_add(
    "own view in place",
    transpose_=lambda x, a, b: x.transpose_(a, b),
    unsqueeze_=lambda x, dim: x.unsqueeze_(dim),
    squeeze_=lambda x: x.squeeze_(),
    as_strided_=lambda x, shape, strides, offset: x.as_strided_(shape, strides, offset),
    detach_=lambda x: x.detach_(),
)
_add("set_data", set_data=_set_data)
_add(
    "in place",
    (0,),
    ELEMENTWISE,
    True,
    add_=lambda x, y, **options: x.add_(y, **options),
    add_number_=lambda x, y: x.add_(y),
    sub_=lambda x, y: x.sub_(y),
    mul_=lambda x, y: x.mul_(y),
    mul_number_=lambda x, y: x.mul_(y),
    neg_=lambda x: x.neg_(),
    abs_=lambda x: x.abs_(),
    clamp_=lambda x, low, high: x.clamp_(low, high),
    sin_=lambda x: x.sin_(),
    addcmul_=lambda x, y, z, **options: x.addcmul_(y, z, **options),
    lerp_=lambda x, y, weight: x.lerp_(y, weight),
    copy_=lambda x, y: x.copy_(y),
    logical_not_=lambda x: x.logical_not_(),
    where_=lambda x, mask, y: torch.where(mask, x, y, out=x),
)
_add("in place", (0,), UNIFORM, fill_=lambda x, y: x.fill_(y), zero_=lambda x: x.zero_())
_add(
    "indexed writes",
    (0,),
    FREE,
    True,
    fill_tensor_=lambda x, y: x.fill_(y),
    index_add_=lambda x, dim, index, y: x.index_add_(dim, index, y),
    index_copy_=lambda x, dim, index, y: x.index_copy_(dim, index, y),
    index_fill_=lambda x, dim, index, y: x.index_fill_(dim, index, y),
    index_put_=lambda x, index, y: x.index_put_((index,), y, accumulate=True),
    scatter_=lambda x, dim, index, y: x.scatter_(dim, index, y),
    scatter_add_=lambda x, dim, index, y: x.scatter_add_(dim, index, y),
    masked_fill_=lambda x, mask, y: x.masked_fill_(mask, y),
    masked_scatter_=lambda x, mask, y: x.masked_scatter_(mask, y),
)
_add(
    "setitem",
    (0,),
    FREE,
    True,
    setitem_int=lambda x, dim, at, y: _set(x, _at(dim, at), y),
    setitem_slice=lambda x, dim, start, stop, step, y: _set(x, _at(dim, slice(start, stop, step)), y),
    setitem_all=lambda x, y: _set(x, Ellipsis, y),
    setitem_mask=lambda x, mask, y: _set(x, mask, y),
    setitem_index=lambda x, dim, index, y: _set(x, _at(dim, index), y),
    setitem_list=lambda x, places, y: _set(x, places, y),
    iadd_slice=lambda x, dim, start, stop, y: _iadd(x, _at(dim, slice(start, stop)), y),
    imul_int=lambda x, at, y: _imul(x, at, y),
)
_add(
    "out=",
    (0,),
    ELEMENTWISE,
    True,
    add_out=lambda out, a, b: torch.add(a, b, out=out),
    mul_out=lambda out, a, b: torch.mul(a, b, out=out),
    neg_out=lambda out, a: torch.neg(a, out=out),
)
_add(
    "out=",
    (0,),
    FREE,
    True,
    sum_out=lambda out, a, dim: torch.sum(a, dim, out=out),
    cat_out=lambda out, parts, dim: torch.cat(parts, dim, out=out),
)
_add("out=", rounds=True, fresh_out=lambda a, b: torch.add(a, b, out=torch.empty(0, dtype=a.dtype, device=a.device)))
# An empty window takes the shape of the result, and with it the memory behind its offset.
_add("out=", rounds=True, empty_out=lambda x, dim, start, a, b: torch.add(a, b, out=x.narrow(dim, start, 0)))
_add(
    "foreach",
    (0,),
    ELEMENTWISE,
    True,
    foreach_add_=lambda xs, ys, **options: torch._foreach_add_(xs, ys, **options),
    foreach_mul_=lambda xs, y: torch._foreach_mul_(xs, y),
    foreach_addcmul_=lambda xs, ys, zs, value: torch._foreach_addcmul_(xs, ys, zs, value),
    foreach_lerp_=lambda xs, ys, weight: torch._foreach_lerp_(xs, ys, weight),
    foreach_copy_=lambda xs, ys: torch._foreach_copy_(xs, ys),
    foreach_neg_=lambda xs: torch._foreach_neg_(xs),
)
_add("foreach", (0,), UNIFORM, foreach_zero_=lambda xs: torch._foreach_zero_(xs))
_add("foreach", rounds=True, foreach_add=lambda xs, y: torch._foreach_add(xs, y))
_add(
    "results",
    clone=lambda x: x.clone(),
    contiguous=lambda x: x.contiguous(),
    to=lambda x, dtype: x.to(dtype),
    zeros_like=lambda x: torch.zeros_like(x),
    cat=lambda parts, dim: torch.cat(parts, dim),
    stack=lambda parts: torch.stack(parts),
    greater=lambda x, y: x > y,
    flip=lambda x, dims: x.flip(dims),
    index_select=lambda x, dim, index: x.index_select(dim, index),
    gather_rows=lambda x, index: x[index],
)
_add(
    "results",
    rounds=True,
    add=lambda x, y, **options: torch.add(x, y, **options),
    sub=lambda x, y: x - y,
    mul=lambda x, y: x * y,
    mul_number=lambda x, y: x * y,
    where=lambda mask, x, y: torch.where(mask, x, y),
    sum=lambda x, *dim: x.sum(*dim),
    mean=lambda x: x.mean(),
    cumsum=lambda x, dim: x.cumsum(dim),
    matmul=lambda x: x @ x.mT,
    amax=lambda x, dim: x.amax(dim),
)
_add("autograd", rounds=True, grad=_grad, grad_of=lambda x: x.grad)
_add(
    "autograd",
    rounds=True,
    backward=lambda tensors, square, retain: _loss(tensors, square).backward(retain_graph=retain),
)
_add(
    "autograd",
    set_grad=_set_grad,
    fill_grad=lambda x, value: _set_grad(x, torch.full_like(x, value, requires_grad=False)),
    requires_grad_=lambda x, on: x.requires_grad_(on),
    retain_grad=lambda x: x.retain_grad(),
)
# Ops of the executor: a register dies, a value is read, the pending work is sent, a step begins or ends, a step raises.
CONTROLS = {"drop", "read", "flush", "boundary", "fail"}
