# SPDX-License-Identifier: Apache-2.0
"""Entries of PyTorch's own database of optimizers (`optim_db`) at an owner, beside eager: for test_sweep_modules.py and
tools/sweep.py.

Each set of options takes ten steps with the same parameters and gradients at both places; parameters and the
optimizer's state are compared. A part is one of torch's ways to compute them, or one of using them.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import sys
from unittest import mock

import sweep_reviewed_support
import sweep_support
import torch
from sweep_support import Failed, Skipped
from torch.testing._internal.common_optimizers import optim_db

import sojourn

PARTS = ["plain", "loop", "foreach", "fused", "differentiable", "capturable", "groups", "resumed", "wrong options"]
DTYPES = ("float32", "float64")
STEPS = 10
#: Of parameters; Muon takes matrices alone.
SHAPES = ((4, 3), (3, 5), (4,), ())
IMPLEMENTATIONS = {"loop": {"foreach": False}} | {x: {x: True} for x in ("foreach", "fused", "differentiable")}


def entries() -> dict:
    """Of optim_db, by name."""
    return {info.name: info for info in optim_db}


def dtypes_of(info) -> list:
    return [torch.float32, torch.float64]


@contextlib.contextmanager
def _capturable_on_cpu():
    """torch refuses it there, by a list of devices; its formulas do not care."""
    places = [m for name, m in sys.modules.items() if name.startswith("torch.optim.")]
    name = "_get_capturable_supported_devices"
    with contextlib.ExitStack() as stack:
        for place in places:
            if hasattr(place, name):
                stack.enter_context(mock.patch.object(place, name, lambda *args, **kwargs: ["cpu", "owner"]))
        yield


class Sweep(sweep_support.Sweep):
    """Sets of options at one owner."""

    def __init__(self, owner, samples: int = 30, parts=tuple(PARTS)):
        super().__init__(owner, samples, parts)

    def entry(self, info, dtype) -> dict:
        counted = collections.defaultdict(collections.Counter)
        notes: dict[str, str] = {}
        for part in self.parts:
            if part == "wrong options":
                made = info.optim_error_inputs_func("cpu", dtype) if info.optim_error_inputs_func else []
                tried = self.wrong
            else:
                made, tried = info.optim_inputs_func("cpu"), self.steps
            for number, sample in enumerate(made[: self.samples]):
                run = lambda part=part, sample=sample, tried=tried: tried(info, sample, dtype, part)
                self._count(counted, notes, part, number, run)
        return {part: dict(counts) for part, counts in counted.items()} | {"notes": notes}

    # -- Parts -------------------------------------------------------------------------------------------------------

    def steps(self, info, sample, dtype, part):
        options = self._options(info, sample, part)
        torch.manual_seed(11)
        shapes = [shape for shape in SHAPES if len(shape) == 2 or info.name != "Muon"]
        start = [torch.randn(shape, dtype=dtype) for shape in shapes]
        # Of very different sizes, and one that is zero at times.
        grads = [
            [torch.randn(shape, dtype=dtype) * 10.0 ** (step % 3 - 1) for shape in shapes] for step in range(STEPS)
        ]
        grads[3][0].zero_()

        def run(device, wide=False):
            def move(x):
                x = x.double() if wide else x.clone()
                return x.to(device).requires_grad_(part == "differentiable")

            parameters, gradients = (
                [move(x).requires_grad_() for x in start],
                [[move(x) for x in each] for each in grads],
            )
            return _flat(*self._run(info, options, part, parameters, gradients))

        with _capturable_on_cpu() if part == "capturable" else contextlib.nullcontext():
            wanted = self._eager(lambda: run("cpu"))
        got = self._tried(lambda: run(self.device))
        truth = None if dtype == torch.float64 else (lambda: run("cpu", wide=True)[1])
        (names, theirs), (others, ours) = wanted, got
        if names != others:
            raise Failed("metadata", f"state {sorted(set(others) ^ set(names))} is at one place only")
        if info.step_requires_closure and dtype == torch.float32:  # quotients of small differences
            kept = [i for i, name in enumerate(names) if name.startswith("parameter")]
            names, theirs, ours = ([side[i] for i in kept] for side in (names, theirs, ours))
        for name, a, b in zip(names, theirs, ours):
            if (a.shape, a.dtype) != (b.shape, b.dtype):
                raise Failed("metadata", f"{name}: {b.dtype}{list(b.shape)}, expected {a.dtype}{list(a.shape)}")
        band = sweep_reviewed_support.band(info.name, part, str(dtype).removeprefix("torch."))
        self._close_to(names, theirs, ours, truth, band)

    def wrong(self, info, sample, dtype, part):
        """Of what torch refuses."""

        def refusal(device):
            given = copy.deepcopy(sample.optimizer_error_input)
            params = given.params if given.params is not None else [torch.ones(1, 1, dtype=dtype)]

            def move(x):
                if isinstance(x, torch.Tensor):
                    return x.detach().to(device).requires_grad_(x.requires_grad)
                return x

            try:
                params = torch.utils._pytree.tree_map(move, params)
                optimizer = info.optim_cls(params, **given.kwargs)
                for group in optimizer.param_groups:
                    for x in group["params"]:
                        x.grad = torch.ones_like(x)
                optimizer.step()
                sojourn.flush()
            except Exception as error:
                return error

        self._compare_refusals(refusal("cpu"), refusal(self.device))

    # -- What they share ---------------------------------------------------------------------------------------------

    def _options(self, info, sample, part) -> dict:
        options = copy.deepcopy(sample.kwargs)
        if part in IMPLEMENTATIONS:
            if part != "loop" and part not in info.supported_impls:
                raise Skipped
            if part == "fused" and "cpu" not in info.supports_fused_on:
                raise Skipped
            if part == "loop" and "foreach" not in info.supported_impls:
                raise Skipped  # as "plain"
            options |= IMPLEMENTATIONS[part]
        elif part == "capturable":
            if not info.has_capturable_arg:
                raise Skipped
            options["capturable"] = True
        return options

    def _run(self, info, options, part, parameters, grads):
        options = copy.deepcopy(options)
        given = parameters
        if part == "groups":
            if not info.supports_param_groups:
                raise Skipped
            rate = float(options.get("lr", 1e-2))
            given = [{"params": parameters[:1], "lr": rate / 2}, {"params": parameters[1:]}]
        leaves = parameters
        if part == "differentiable":  # what is written to is no leaf
            given = parameters = [x.clone() for x in parameters]
        optimizer = info.optim_cls(given, **options)
        # Each step with a closure is twenty.
        for step, now in enumerate(grads[: 2 if info.step_requires_closure else STEPS]):
            if part == "resumed" and step == (1 if info.step_requires_closure else STEPS // 2):
                state = optimizer.state_dict()
                optimizer = info.optim_cls(given, **copy.deepcopy(options))
                optimizer.load_state_dict(state)
            if info.step_requires_closure:
                optimizer.step(self._closure(optimizer, parameters, grads[0]))
                continue
            for x, grad in zip(parameters, now):
                x.grad = grad.to_sparse() if info.only_supports_sparse_grads else grad.clone()
            optimizer.step()
        more = []
        if part == "differentiable":
            inputs = [*leaves, *(grad for now in grads for grad in now)]
            more = torch.autograd.grad(sum(x.square().sum() for x in parameters), inputs, allow_unused=True)
        return parameters, optimizer, more

    def _closure(self, optimizer, parameters, targets):
        """A loss whose gradients are those of a curved bowl."""

        def closure():
            optimizer.zero_grad()
            loss = sum(((x - t) ** 2).sum() + (x - t).sin().sum() for x, t in zip(parameters, targets))
            loss.backward()
            return loss

        return closure

    def _close_to(self, names, theirs, ours, truth, band):
        for place, (name, a, b) in enumerate(zip(names, theirs, self._values(ours))):
            if band or a.dtype == torch.float64:
                _near(name, b, a.detach(), *(band or (1e-9, 1e-12)))
            else:
                self._close([a], [b], (lambda place=place: [truth()[place]]) if truth else None)


def _near(name, ours, theirs, rtol, atol):
    try:
        torch.testing.assert_close(ours, theirs, rtol=rtol, atol=atol, equal_nan=True)
    except AssertionError as error:
        raise Failed("wrong", f"{name}: {' '.join(str(error).split())}") from error


def _flat(parameters, optimizer, gradients):
    """Names and tensors: parameters, what the optimizer keeps of each, and gradients through its steps."""
    found = {f"parameter {i}": x for i, x in enumerate(parameters)}
    for i, x in enumerate(parameters):
        for name, value in sorted(optimizer.state[x].items()):
            for j, one in enumerate(value if isinstance(value, (list, tuple)) else [value]):
                if one is not None:
                    found[f"{name} {i} {j}"] = one if isinstance(one, torch.Tensor) else torch.tensor(one)
    found |= {f"gradient {i}": x for i, x in enumerate(gradients) if x is not None}
    return list(found), list(found.values())
