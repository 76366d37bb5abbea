# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F841 (examples name what they compute)
"""Refusals of values that a script asks of tensors at their owner."""

import io
import pickle

import numpy as np
import torch
import torch.nn.functional as F
from errors_support import example

import sojourn
from sojourn import Error, Refused, Unsupported, ValueNeeded


@example(ValueNeeded, "A number from a tensor inside a step", "aten::_local_scalar_dense", "publish", "example.py:2")
def _(x):
    with sojourn.step():
        total = x.sum().item()


@example(ValueNeeded, "A Python branch on a tensor inside a step", "asked for the value", "torch.where")
def _(x):
    with sojourn.step():
        if x.sum() > 0:
            x = x * 2


@example(ValueNeeded, "torch code that reads a value inside a step", "torch/optim/lbfgs.py", "outside of explicit")
def _(x):
    p = torch.nn.Parameter(x.clone())
    optimizer = torch.optim.LBFGS([p])
    with sojourn.step():
        optimizer.step(lambda: p.square().sum())


@example(
    ValueNeeded,
    "A GradScaler that reads a value inside a step",
    "RMSprop",
    "use SGD, Adam, AdamW or Adagrad",
)
def _(x):
    p = torch.nn.Parameter(x.clone())
    optimizer, scaler = torch.optim.RMSprop([p]), torch.amp.GradScaler("owner")
    with sojourn.step():
        scaler.scale(p.square().sum()).backward()
        scaler.step(optimizer)


@example(ValueNeeded, "A published value used before the end of its step", "read it after the step has ended")
def _(x):
    with sojourn.step():
        total = sojourn.publish(x.sum())
        print(total + 1)


@example(ValueNeeded, "Closeness of two tensors inside a step", "aten::allclose", "publish the comparison")
def _(x):
    with sojourn.step():
        torch.allclose(x, x + 1)


@example(
    ValueNeeded, "A read with a separate round trip under sojourn.strict()", "a separate round trip", "example.py:3"
)
def _(x):
    with sojourn.strict():
        total = x.sum()
        total.item()


@example(ValueNeeded, "A boolean index inside a step", "aten::index", "torch.where(mask, x, 0)", "depends on values")
def _(x):
    with sojourn.step():
        positive = x[x > 0]


@example(
    ValueNeeded, "A write through a boolean index and another index inside a step", "aten::index_put",
    "torch.where(mask, value, x)",
)  # fmt: skip
def _(x):
    with sojourn.step():
        x[x[:, 0] > 0, torch.tensor([0, 1], device=x.device)] = 1.0


@example(ValueNeeded, "Positions of nonzero elements inside a step", "aten::nonzero", "use a mask with torch.where")
def _(x):
    with sojourn.step():
        rows = x.nonzero()


@example(ValueNeeded, "masked_select inside a step", "aten::masked_select", "torch.where(mask, x, 0)")
def _(x):
    with sojourn.step():
        x.masked_select(x > 0)


@example(ValueNeeded, "Unique values inside a step", "aten::_unique2", "use sort or a one-hot sum")
def _(x):
    with sojourn.step():
        x.unique()


@example(ValueNeeded, "Unique consecutive values inside a step", "aten::unique_consecutive", "use sort")
def _(x):
    with sojourn.step():
        x.unique_consecutive()


@example(
    ValueNeeded, "Repeat counts at the owner inside a step", "aten::repeat_interleave", "pass an integer or output_size"
)
def _(x):
    with sojourn.step():
        times = x[:, 0].long()
        x.repeat_interleave(times, dim=0)


@example(ValueNeeded, "A bincount without a number of bins inside a step", "aten::bincount", "minlength")
def _(x):
    with sojourn.step():
        x[0].long().bincount()


@example(ValueNeeded, "Sizes of parts at the owner inside a step", "aten::tensor_split", "pass integers")
def _(x):
    with sojourn.step():
        x.tensor_split(x[0, :2].long())


@example(ValueNeeded, "A read on an offline device", "an offline device, which only records", "sojourn.publish")
def _():
    with sojourn.offline() as device:
        x = torch.ones(3, device=device)
        torch.save(x, io.BytesIO())


@example(ValueNeeded, "one_hot without the number of classes inside a step", "aten::one_hot", "pass num_classes=")
def _(x):
    with sojourn.step():
        F.one_hot(x.long())


@example(ValueNeeded, "A factorization with an error check", "aten::linalg_cholesky_ex", "pass check_errors=False")
def _(x):
    torch.linalg.cholesky_ex(x @ x.mT, check_errors=True)


@example(ValueNeeded, "An assertion on values inside a step", "aten::_assert_async", "publish the condition")
def _(x):
    with sojourn.step():
        torch._assert_async(x.sum() > 0, "a library's text")


@example(Refused, "A copy to the CPU inside a step", "would move to cpu", "sojourn.publish(tensor)", "example.py:2")
def _(x):
    with sojourn.step():
        here = x.cpu()


@example(Refused, "A copy into a CPU tensor inside a step", "would be copied to cpu", "only by sojourn.publish")
def _(x):
    with sojourn.step():
        torch.zeros(2, 3).copy_(x)


@example(Refused, "A NumPy array of a tensor inside a step", "Tensor.numpy", "shape=(2, 3)", "sojourn.publish(tensor)")
def _(x):
    with sojourn.step():
        x.numpy()


@example(Refused, "Saving a tensor inside a step", "cannot be pickled or saved", "save it after the step")
def _(x):
    with sojourn.step():
        pickle.dumps(x)


@example(Refused, "A write into a CPU tensor", "aten::add_", "a tensor on cpu", "only by sojourn.publish")
def _(x):
    torch.zeros(2, 3).add_(x)


@example(Refused, "A move to another owner inside a step", "publish it at the first owner")
def _(x):
    with sojourn.local() as other, sojourn.step():
        x.to(other.device)


@example(Unsupported, "The memory of a tensor", "Tensor.share_memory_", "no memory in this process", "publish it")
def _(x):
    x.share_memory_()


@example(Unsupported, "The bytes of a storage", "UntypedStorage.tolist", "of size 24", "read the tensor with .cpu()")
def _(x):
    x.untyped_storage().tolist()


@example(Unsupported, "A write into a storage", "UntypedStorage.resize_", "keeps its own storage", "x.data or copy_")
def _(x):
    x.untyped_storage().resize_(0)


@example(Unsupported, "A remote tensor for another process", "does not go to another process", "send tensor.cpu()")
def _(x):
    torch.multiprocessing.SimpleQueue().put(x)


@example(
    Unsupported, "An address of a tensor that is too large", "too few of", "addresses are left", "no tensor of this"
)
def _():
    with sojourn.offline() as device:
        torch.empty(2**61 - 1, device=device).data_ptr()


@example(Error, "A value of a dropped step", "this tensor has no value", "dropped", "recompute it")
def _(x):
    try:
        with sojourn.step():
            double = x * 2
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    double + 1


@example(Error, "A published value of a dropped step", "this published value never arrived", "dropped")
def _(x):
    try:
        with sojourn.step():
            total = sojourn.publish(x.sum())
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    print(total.value)


@example(RuntimeError, "A deep copy of a tensor with a gradient history", "explicitly by the user", "deepcopy")
def _(x):
    import copy

    copy.deepcopy(x.requires_grad_() * 2)


@example(TypeError, "A function of NumPy's without a counterpart", "is not part of sojourn.numpy", "numpy.asarray(x)")
def _(x):
    np.savetxt("values.txt", x)


@example(TypeError, "A universal function of NumPy's without a counterpart", "isnat is not part of sojourn.numpy")
def _(x):
    np.isnat(x)
