# SPDX-License-Identifier: Apache-2.0
"""Entries of PyTorch's own database of modules (`module_db`) at an owner, beside eager: for test_sweep_modules.py and
tools/sweep.py.

Each sample's module is built on the CPU, and once more at the owner from its `state_dict`. In train and in eval mode:
what forward gives (metadata and values), and what it leaves in buffers; gradients of parameters and inputs; the layout
that torch calls channels last; and what eager refuses.
"""

from __future__ import annotations

import collections
import copy

import sweep_reviewed_support
import sweep_support
import torch
from sweep_support import Failed, Skipped, moved, tensors_of
from torch.nn.utils.rnn import PackedSequence
from torch.testing._internal.common_modules import ModuleErrorEnum, module_db

PARTS = ["train", "eval", "train gradient", "eval gradient", "channels last", "wrong inputs"]
DTYPES = ("float32", "float64")


def entries() -> dict:
    """Of module_db, by name."""
    return {info.name: info for info in module_db}


def dtypes_of(info) -> list:
    return [dtype for dtype in info.supported_dtypes("cpu") if dtype.is_floating_point]


def _opened(tree):
    """With the fields of packed sequences as leaves."""
    return torch.utils._pytree.tree_map(
        lambda x: tuple(x) if isinstance(x, PackedSequence) else x,
        tree,
        is_leaf=lambda x: isinstance(x, PackedSequence),
    )


def _moved(tree, device, grad: bool):
    def move(x):
        if not isinstance(x, PackedSequence):
            return moved(x, device, grad)
        data, sizes, *order = x
        return PackedSequence(moved(data, device, grad), sizes, *(moved(o, device, False) for o in order))

    return torch.utils._pytree.tree_map(move, tree, is_leaf=lambda x: isinstance(x, PackedSequence))


def _doubled(tree):
    def wide(x):
        if isinstance(x, PackedSequence):
            return PackedSequence(wide(x.data), *x[1:])
        if not isinstance(x, torch.Tensor) or x.dtype != torch.float32:
            return x
        return x.detach().double().requires_grad_(x.requires_grad)

    return torch.utils._pytree.tree_map(wide, tree, is_leaf=lambda x: isinstance(x, PackedSequence))


def without_draws(module):
    """The same with nothing dropped."""
    for child in module.modules():
        if isinstance(child, torch.nn.modules.dropout._DropoutNd):
            child.p = 0.0
        elif isinstance(getattr(child, "dropout", None), float):
            child.dropout = 0.0
    return module


_FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}


def _channels_last(x):
    """As `Module.to(memory_format=)` does it: by the number of dimensions."""
    if not isinstance(x, torch.Tensor) or x.dim() not in _FORMATS:
        return x
    return x.detach().contiguous(memory_format=_FORMATS[x.dim()]).requires_grad_(x.requires_grad)


def _is_channels_last(x) -> bool:
    """With a batch, or without."""
    return any(y.dim() in _FORMATS and y.is_contiguous(memory_format=_FORMATS[y.dim()]) for y in (x, x.unsqueeze(0)))


class Sweep(sweep_support.Sweep):
    """Samples of modules at one owner."""

    def __init__(self, owner, samples: int = 30, parts=tuple(PARTS)):
        super().__init__(owner, samples, parts)

    def entry(self, info, dtype) -> dict:
        counted = collections.defaultdict(collections.Counter)
        notes: dict[str, str] = {}
        tries = {"train": self.forward, "eval": self.forward, "train gradient": self.gradient,
                 "eval gradient": self.gradient, "channels last": self.channels_last}  # fmt: skip
        for part in (part for part in self.parts if part in tries):
            training = not part.startswith("eval")
            torch.manual_seed(0)
            made = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training)
            for number, sample in list(enumerate(made))[:: max(1, len(made) // self.samples)][: self.samples]:
                run = lambda part=part, sample=sample: tries[part](info, sample, dtype, training)
                self._count(counted, notes, part, number, run)
        if "wrong inputs" in self.parts and info.module_error_inputs_func:
            make = info.module_error_inputs_func
            for training in (True, False):
                made = make(info, device="cpu", dtype=dtype, requires_grad=False, training=training)
                for number, wrong in enumerate(made[: self.samples]):
                    run = lambda wrong=wrong: self.wrong(info, wrong, dtype)
                    self._count(counted, notes, "wrong inputs", number, run)
        return {part: dict(counts) for part, counts in counted.items()} | {"notes": notes}

    # -- Parts -------------------------------------------------------------------------------------------------------

    def forward(self, info, sample, dtype, training):
        here, there, is_random = self._modules(info, sample, dtype, training)
        before = copy.deepcopy(here)
        _, wanted = self._eager(lambda: self._with_inputs(here, sample, "cpu", False))
        _, got = self._tried(lambda: self._with_inputs(there, sample, self.device, False))
        truth = lambda: self._wide(info, sample, training, before)[0]
        self._alike(_opened(wanted), _opened(got), is_random, truth, strides=True)
        buffers = [dict(module.named_buffers()) for module in (here, there)]
        if list(buffers[0]) != list(buffers[1]):
            raise Failed("metadata", f"buffers {list(buffers[1])}, expected {list(buffers[0])}")
        self._alike(*buffers, is_random, None, strides=False)

    def gradient(self, info, sample, dtype, training):
        self._compare_gradients(info, sample, dtype, training, None)

    def channels_last(self, info, sample, dtype, training):
        """Values, metadata and gradients of what is laid out so."""
        if not any(x.dim() in (4, 5) for x in tensors_of(_tree(sample))):
            raise Skipped
        self._compare_gradients(info, sample, dtype, training, _channels_last)

    def wrong(self, info, wrong, dtype):
        """Of what eager refuses."""
        sample = wrong.module_error_input

        def refusal(device):
            try:
                module = self._built(info, sample, dtype).to(device)
                if wrong.error_on is ModuleErrorEnum.FORWARD_ERROR:
                    [x.cpu() for x in tensors_of(_opened(self._with_inputs(module, sample, device, False)[1]))]
            except Exception as error:
                return error

        self._compare_refusals(refusal("cpu"), refusal(self.device))

    # -- What they share ---------------------------------------------------------------------------------------------

    def _built(self, info, sample, dtype):
        torch.manual_seed(3)
        args, kwargs = copy.deepcopy((sample.constructor_input.args, sample.constructor_input.kwargs))
        return info.module_cls(*args, **kwargs).to(dtype)

    def _with_inputs(self, module, sample, device, grad, lay=None):
        tree = _moved(_tree(sample), device, grad)
        args, kwargs = torch.utils._pytree.tree_map(lay, tree) if lay else tree
        torch.manual_seed(5)
        return (args, kwargs), module(*args, **kwargs)

    def _modules(self, info, sample, dtype, training, lay=None):
        """On the CPU and at the owner, with the same parameters; and whether its values are draws."""
        here = self._eager(lambda: self._built(info, sample, dtype)).train(training)
        there = self._tried(lambda: self._built(info, sample, dtype).to(self.device)).train(training)
        if info.is_lazy:  # parameters come with the first inputs, at each place
            self._eager(lambda: self._with_inputs(here, sample, "cpu", False))
            self._tried(lambda: self._with_inputs(there, sample, self.device, False))
        is_random = self._is_random(here, sample)
        if is_random and info.name not in sweep_reviewed_support.DRAWS:
            raise Failed("wrong", "its values are draws, and it is not among the reviewed ones")
        if is_random:
            without_draws(there)
            is_random = self._is_random(without_draws(here), sample)
        if lay:
            for module in (here, there):
                for parameter in module.parameters():
                    parameter.data = lay(parameter.data)
        missing = self._tried(lambda: there.load_state_dict(here.state_dict()))
        if missing.missing_keys or missing.unexpected_keys:
            raise Failed("metadata", f"state_dict: {missing}")
        return here, there, is_random

    def _is_random(self, module, sample) -> bool:
        """By what one state gives twice."""
        state, found = copy.deepcopy(module.state_dict()), []
        for seed in (5, 6):
            args, kwargs = _moved(_tree(sample), "cpu", False)
            torch.manual_seed(seed)
            found.append(tensors_of(_opened(self._eager(lambda: module(*args, **kwargs)))))
            module.load_state_dict(state)
        return not all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(*found, strict=True))

    def _compare_gradients(self, info, sample, dtype, training, lay):
        """Of parameters and inputs; where they are laid out anew also what it gives."""
        here, there, is_random = self._modules(info, sample, dtype, training, lay)
        before = copy.deepcopy(here)
        inputs, wanted = self._eager(lambda: self._with_inputs(here, sample, "cpu", True, lay))
        others, got = self._tried(lambda: self._with_inputs(there, sample, self.device, True, lay))
        wanted, got = tensors_of(_opened(wanted)), tensors_of(_opened(got))
        if lay:
            # Which convolutions keep the layout in eager hangs on its threads and kernels; here all do.
            strides = not (info.module_memformat_affects_out and all(map(_is_channels_last, got)))
            self._alike(wanted, got, is_random, lambda: self._wide(info, sample, training, before)[0], strides)
        theirs, ours = self._gradients(
            (list(here.parameters()), _opened(inputs)), wanted, (list(there.parameters()), _opened(others)), got
        )
        truth = lambda: self._wide_gradients(*self._wide(info, sample, training, before), wanted)
        self._alike(theirs, ours, is_random, truth, strides=False)

    def _alike(self, wanted, got, is_random, truth, strides):
        """`_compare`, which asks an operator whether it draws."""
        pairs = list(zip(tensors_of(wanted), tensors_of(got), strict=True))
        for theirs, ours in pairs:
            self._check_metadata(theirs, ours, strides)
        if is_random:
            self._values([ours for _, ours in pairs])
            return
        self._close([theirs for theirs, _ in pairs], [ours for _, ours in pairs], truth)

    def _wide(self, info, sample, training, module):
        """What the module gives in float64, with its leaves."""
        wide = self._built(info, sample, torch.float64).train(training)
        args, kwargs = _doubled(_moved(_tree(sample), "cpu", True))
        if info.is_lazy:
            wide(*args, **kwargs)
        wide.load_state_dict(module.state_dict())
        if info.name in sweep_reviewed_support.DRAWS:
            without_draws(wide)
        torch.manual_seed(5)
        return tensors_of(_opened(wide(*args, **kwargs))), [*wide.parameters(), *tensors_of(_opened((args, kwargs)))]

    def _wide_gradients(self, outputs, leaves, like):
        outputs = [x for x in outputs if x.requires_grad and x.numel()]
        torch.manual_seed(9)
        weights = [torch.randn(x.shape, dtype=x.dtype).double() for x in like if x.requires_grad and x.numel()]
        leaves = [x for x in leaves if x.requires_grad]
        return [x for x in torch.autograd.grad(outputs, leaves, weights, allow_unused=True) if x is not None]


def _tree(sample):
    return list(sample.forward_input.args), dict(sample.forward_input.kwargs)
