# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F841 (examples name what they compute)
"""Refusals of ops that cannot be recorded or compiled, and of tensors that cannot be combined."""

import torch
import torch.nn.functional as F
from errors_support import example

import sojourn
from sojourn import Error, Unsupported


@example(
    Error,
    "A CPU tensor in an op with remote tensors",
    "aten::add",
    "cpu tensor of shape [2, 3]",
    "tensor.to(owner.device)",
)
def _(x):
    x + torch.ones(2, 3)


@example(
    Error,
    "Tensors of two owners in one op",
    "operands are at two places (owner:",
    "parties = sojourn.parties(a, b), with rows by",
)
def _(x):
    with sojourn.local() as other:
        x + torch.ones(2, 3, device=other.device)


@example(
    Unsupported, "Complex numbers of half precision", "dtype ComplexHalf is not supported", "complex64 or complex128"
)
def _(x):
    x.to(torch.complex32)


@example(Unsupported, "Complex numbers in an op without complex support", "aten::floor", "compute with their parts")
def _(x):
    x.to(torch.complex64).floor()


@example(Unsupported, "A storage on the device", "a storage without a tensor cannot be made", "map_location")
def _(x):
    torch.UntypedStorage(16, device=x.device)


@example(
    Unsupported,
    "The memory of a CPU tensor",
    "aten::set_.source_Tensor",
    "it takes the memory of",
    "move that tensor first",
)
def _(x):
    x.set_(torch.tensor(1.0))


@example(Unsupported, "Data of another place for a computed tensor", "move a computed tensor", "move a leaf")
def _(x):
    (x.requires_grad_() * 2).data = torch.ones(2, 3)


@example(Unsupported, "Data of another place inside of a step", "inside of a step; move it before", "copy_")
def _(x):
    with sojourn.step():
        x.data = torch.ones(2, 3)


@example(Unsupported, "A result into an empty window", "out= is an empty window", "pass a separate empty tensor")
def _(x):
    torch.add(x, 1, out=torch.zeros(3, device=x.device)[1:1])


@example(Unsupported, "A result into a conjugate view", "write through a conjugate or negated view", "resolve_neg()")
def _(x):
    square = torch.complex(x.mT @ x, x.mT @ x)
    torch.mm(square, square, out=square.clone().conj())


@example(Unsupported, "Sparse tensors", "aten::", "sparse tensors are not supported; use dense ones")
def _(x):
    x.to_sparse()


@example(Unsupported, "Sparse gradients", "sparse", "sparse=False")
def _(x):
    weight = torch.ones(9, 2, device=x.device).requires_grad_()
    F.embedding(x.long(), weight, sparse=True).sum().backward()


@example(Unsupported, "Other tensor layouts", "sparse, nested and quantized tensors are not supported", "to_dense()")
def _(x):
    indices = torch.zeros(1, 1, dtype=torch.long, device=x.device)
    torch.sparse_coo_tensor(indices, x[0, :1], (3,))


@example(Unsupported, "Quantized tensors", "quantized tensors are not supported")
def _(x):
    torch.quantize_per_tensor(x, 0.1, 0, torch.quint8)


@example(Unsupported, "Release of a tensor's storage", "aten::set_", "make a new tensor")
def _(x):
    x.set_()


@example(Unsupported, "Storage of another tensor", "a remote tensor keeps its own storage; assign x.data or copy_")
def _(x):
    x.set_(torch.ones(3).untyped_storage())


@example(Unsupported, "Removal of a tensor's storage", "aten::set_", "make a new tensor")
def _(x):
    x.set_()


@example(Unsupported, "An unsupported operator", "aten::hash_tensor", "dialect/STATUS.md", "example.py:1")
def _(x):
    torch.hash_tensor(x)


@example(Unsupported, "An operator of another library", "demo::twice", "register_decomposition")
def _(x):
    with torch.library._scoped_library("demo", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda t: t * 2, "CPU")
        torch.ops.demo.twice(x)


@example(Unsupported, "resize_ to more elements", "aten::resize_", "clone() it first, or use torch.empty")
def _(x):
    x.resize_(4, 4)


@example(Unsupported, "out= of another shape", "out= has another shape", "of shape [2, 3]")
def _(x):
    torch.add(x, x, out=x.new_empty(5)[1:])


@example(
    Unsupported, "Strides beyond the tensor", "reach outside a tensor of 6 elements", "stay inside the base tensor"
)
def _(x):
    x.as_strided_((4, 4), (4, 1))


@example(Unsupported, "An op unknown to the compiler", "convolves booleans", "convert to integers", ":2")
def _(x):
    ones = torch.ones(1, 1, 3, dtype=torch.bool, device=x.device)
    total = torch.conv1d(ones, ones)
    sojourn.flush()


@example(Error, "A tensor that depends on a refused op", "this tensor has no value", "convolves booleans")
def _(x):
    ones = torch.ones(1, 1, 3, dtype=torch.bool, device=x.device)
    total = torch.conv1d(ones, ones)
    try:
        sojourn.flush()
    except sojourn.Unsupported:
        total + 1


@example(RuntimeError, "Mismatched shapes, as in eager", "must match the size")
def _(x):
    x + torch.ones(4, device=x.device)


@example(Unsupported, "A write of bytes to booleans", "aten::zero_", "tensor.view(dtype).clone()")
def _(x):
    mask = x > 0
    mask.view(torch.uint8).zero_()
