# SPDX-License-Identifier: Apache-2.0
"""Entries of PyTorch's own test database (`op_db`) at an owner, beside eager: for test_sweep.py and tools/sweep.py.

Each sample is tried in several parts: forward (metadata and values), gradient, second order, forward mode, in place,
into `out=`, on inputs with gaps, under vmap, and what eager refuses. A part's outcome is one of OUTCOMES.
"""

from __future__ import annotations

import collections

import sweep_reviewed_support
import torch
from sweep_values_support import check_picks, doubled, grouped, is_as_good
from torch.autograd import forward_ad
from torch.testing._internal.common_methods_invocations import op_db

import sojourn

#: From the best to the worst. "refused" is when it is called, by a class of `sojourn.errors` or as torch refuses what a
#: device lacks; "late" is one when it is sent.
OUTCOMES = ["pass", "refused", "late", "other error", "metadata", "wrong", "internal", "crash"]
DTYPES = ("float32",)
PARTS = ["forward", "gradient", "second", "forward mode", "in place", "out", "gaps", "vmap", "errors"]


def entries() -> dict:
    """Of op_db, by name."""
    return {op.name + (f".{op.variant_test_name}" if op.variant_test_name else ""): op for op in op_db}


def dtypes_of(op) -> list:
    return list(op.supported_dtypes("cpu"))


def tensors_of(tree) -> list:
    return [x for x in torch.utils._pytree.tree_leaves(tree) if isinstance(x, torch.Tensor)]


def is_random(op, sample) -> bool:
    """Whether its values are draws, or memory as it was found: other ones at an owner than on the CPU."""
    if "empty" in op.name or "wrapper_set_seed" in getattr(getattr(op.op, "__code__", None), "co_names", ()):
        return True  # torch's tests seed what is called
    found: list = []
    for seed in (5, 6):
        torch.manual_seed(seed)
        try:
            tree = moved(_tree(sample), "cpu", False)
            found.append(tensors_of(sample.output_process_fn_grad(op.op(tree[0], *tree[1], **tree[2]))))
        except Exception:
            return False
    pairs = [(a, b) for a, b in zip(*found) if a.layout == torch.strided]
    return not all(bool(((a == b) | ((a != a) & (b != b))).all()) for a, b in pairs)


def moved(tree, device, grad: bool):
    """The same tree elsewhere: dense strides as they are, leaves that require gradients as leaves."""

    def move(x):
        if isinstance(x, torch.device) or (isinstance(x, str) and x == "cpu"):
            return device
        if not isinstance(x, torch.Tensor):
            return x
        if hasattr(x, "stays"):
            return x.clone()
        there = x.detach().clone() if device == "cpu" else x.detach().to(device)
        if x.layout == torch.strided and x.numel() and there.stride() != x.stride() and _is_dense(x):
            there = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=device).copy_(there)
        return there.requires_grad_(grad and x.requires_grad)

    return torch.utils._pytree.tree_map(move, tree)


def _is_dense(x) -> bool:
    reach = 1
    for stride, size in sorted((st, si) for st, si in zip(x.stride(), x.shape) if si > 1):
        if stride != reach:
            return False
        reach *= size
    return True


def spread(x):
    """The same values with gaps between them."""
    if not isinstance(x, torch.Tensor) or x.dim() == 0 or x.layout != torch.strided:
        return x
    wide = torch.zeros(*x.shape[:-1], 2 * x.shape[-1], dtype=x.dtype, device=x.device)
    wide[..., ::2] = x.detach()
    return wide[..., ::2].requires_grad_(x.requires_grad)


class Failed(Exception):
    """A part has come to an outcome."""

    def __init__(self, outcome: str, note: str):
        super().__init__(note)
        self.outcome, self.note = outcome, note


class Skipped(Exception):
    """Eager does not do it either."""


#: Whose indices torch wants on the CPU, whatever the device is.
ON_THE_CPU = {"tensor_split"}


class Sweep:
    """Samples of entries at one owner."""

    def __init__(self, owner, samples: int = 30, parts=("forward", "gradient")):
        self.device, self.samples, self.parts = owner.device, samples, parts

    def entry(self, op, dtype) -> dict:
        """Per part how often each outcome came, and `notes`: the first text of each that is not a pass."""
        counted = collections.defaultdict(collections.Counter)
        notes: dict[str, str] = {}
        torch.manual_seed(0)
        grads = op.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
        try:
            samples = list(op.sample_inputs("cpu", dtype, requires_grad=grads))
        except Exception as error:  # not of this dtype after all
            return {"skipped": f"{type(error).__name__}: {error}"[:200]}
        for sample in samples if op.name in ON_THE_CPU else ():
            for x in tensors_of(sample.args):
                x.stays = True
        step = max(1, len(samples) // self.samples)
        chosen = list(enumerate(samples))[::step][: self.samples]

        def count(part, number, run):
            self._count(counted, notes, part, number, run)

        tries = {
            "forward": self.forward, "gradient": self.gradient, "second": self.second, "forward mode": self.dual,
            "in place": self.in_place, "out": self.out, "gaps": self.gaps, "vmap": self.vmap,
        }  # fmt: skip
        for number, sample in chosen:
            for part in self.parts:
                if part in tries and (grads or part not in ("gradient", "second", "forward mode")):
                    count(part, number, lambda part=part: tries[part](op, sample, grads))
        if "errors" in self.parts and op.error_inputs_func:
            for number, wrong in enumerate(list(op.error_inputs("cpu"))[: self.samples]):
                count("errors", number, lambda: self.error(op, wrong))
        return {part: dict(counts) for part, counts in counted.items()} | {"notes": notes}

    # -- Parts -------------------------------------------------------------------------------------------------------

    def forward(self, op, sample, grads):
        _, wanted, _, got = self._both(op, sample, False)

        def truth():
            return tensors_of(self._called(op, doubled(moved(_tree(sample), "cpu", False)), sample))

        self._compare(op, sample, wanted, got, strides=True, truth=truth)

    def gradient(self, op, sample, grads):
        here, wanted, there, got = self._both(op, sample, True)
        theirs, ours = self._gradients(here, wanted, there, got)
        if is_random(op, sample):
            self._values(ours)
            return

        if self._is_free(op, sample):
            theirs, ours = ([grouped(op, sample, x) for x in side] for side in (theirs, self._values(ours)))
            self._close(theirs, ours)
            return
        self._close(theirs, ours, lambda: self._truth(op, sample, wanted, twice=False), several=True)

    def second(self, op, sample, grads):
        if not op.supports_gradgrad:
            raise Skipped
        here, wanted, there, got = self._both(op, sample, True)
        theirs, ours = self._gradients(here, wanted, there, got, create_graph=True)
        theirs, ours = self._gradients(here, theirs, there, ours)
        if is_random(op, sample):
            self._values(ours)
            return
        self._close(theirs, ours, lambda: self._truth(op, sample, wanted, twice=True), several=True)

    def dual(self, op, sample, grads):
        if not op.supports_forward_ad:
            raise Skipped
        with forward_ad.dual_level():
            torch.manual_seed(7)
            given = [torch.randn_like(x) for x in tensors_of(_tree(sample)) if x.requires_grad]

            def run(device, wide=False):
                tangents = iter(doubled(given) if wide else moved(given, device, False))

                def make(x):
                    is_leaf = isinstance(x, torch.Tensor) and x.requires_grad
                    return forward_ad.make_dual(x.detach(), next(tangents)) if is_leaf else x

                tree = moved(_tree(sample), device, True)
                tree = torch.utils._pytree.tree_map(make, doubled(tree) if wide else tree)
                torch.manual_seed(5)
                return [forward_ad.unpack_dual(x).tangent for x in tensors_of(self._called(op, tree, sample))]

            theirs = self._eager(lambda: run("cpu"))
            ours = self._tried(lambda: run(self.device))
            if is_random(op, sample):
                return
            if any((a is None) != (b is None) and (a if a is not None else b).any() for a, b in zip(theirs, ours)):
                raise Failed("wrong", "a tangent is there on one side only")
            there = [place for place, (a, b) in enumerate(zip(theirs, ours)) if a is not None and b is not None]

            def truth():
                wide = run("cpu", wide=True)
                return [wide[place] for place in there]

            self._close([theirs[i] for i in there], [ours[i] for i in there], truth, several=True)

    def in_place(self, op, sample, grads):
        call = op.inplace_variant
        if call is None or sample.broadcasts_input or sample.input is sample.args:
            raise Skipped

        def run(device):
            tree = moved(_tree(sample), device, False)
            torch.manual_seed(5)
            result = call(tree[0], *tree[1], **tree[2])
            return tree[0], result

        wanted = self._eager(lambda: run("cpu"))
        got = self._tried(lambda: run(self.device))
        if isinstance(wanted[1], torch.Tensor) and (got[0] is not got[1] or got[0]._version != wanted[0]._version):
            raise Failed("metadata", "the result is not the input, or its version is not eager's")
        self._compare(op, sample, wanted[0], got[0], strides=True)

    def out(self, op, sample, grads):
        if not op.supports_out:
            raise Skipped

        def run(device):
            tree = moved(_tree(sample), device, False)
            torch.manual_seed(5)
            result = self._called(op, tree, sample)
            if not tensors_of(result) or not isinstance(result, (torch.Tensor, tuple)):
                raise Skipped
            into = torch.utils._pytree.tree_map(lambda x: torch.zeros_like(x), result)
            torch.manual_seed(5)
            op.op(tree[0], *tree[1], **tree[2], out=into)
            return sample.output_process_fn_grad(into)

        wanted = self._eager(lambda: run("cpu"))
        got = self._tried(lambda: run(self.device))
        self._compare(op, sample, wanted, got, strides=True)

    def gaps(self, op, sample, grads):
        def run(device, wide=False):
            tree = moved(_tree(sample), device, False)
            tree = torch.utils._pytree.tree_map(spread, doubled(tree) if wide else tree)
            torch.manual_seed(5)
            return self._called(op, tree, sample)

        wanted = self._eager(lambda: run("cpu"))
        got = self._tried(lambda: run(self.device))
        self._compare(op, sample, wanted, got, strides=False, truth=lambda: tensors_of(run("cpu", wide=True)))

    def vmap(self, op, sample, grads):
        if is_random(op, sample) or not isinstance(sample.input, torch.Tensor):
            raise Skipped

        def run(device, wide=False):
            tree = moved(_tree(sample), device, False)
            first, args, kwargs = doubled(tree) if wide else tree
            # A factor keeps what is sorted so, and what is definite.
            batch = torch.stack([first, first * 0.75 if first.is_floating_point() else first])
            return torch.func.vmap(lambda x: self._called(op, (x, args, kwargs), sample))(batch)

        def truth():
            return tensors_of(run("cpu", wide=True))

        wanted = self._eager(lambda: run("cpu"))
        got = self._tried(lambda: run(self.device))
        self._compare(op, sample, wanted, got, strides=False, truth=truth, picks=False)

    def error(self, op, wrong):
        """Of what eager refuses."""
        sample = wrong.sample_input

        def refusal(device):
            try:
                torch.manual_seed(5)
                result = self._called(op, moved(_tree(sample), device, False), None)
                [x.cpu() for x in tensors_of(result)]
            except Exception as error:
                return error

        self._compare_refusals(refusal("cpu"), refusal(self.device))

    # -- What they share ---------------------------------------------------------------------------------------------

    def _count(self, counted, notes, part, number, run):
        """Tries a part with one sample: what comes of it is counted, and noted if it is no pass."""
        try:
            run()
            outcome, note = "pass", ""
        except Skipped:
            return
        except Failed as failed:
            outcome, note = failed.outcome, failed.note
        counted[part][outcome] += 1
        if outcome != "pass":
            notes.setdefault(f"{part} {outcome}", f"sample {number}: {note}"[:400])

    def _called(self, op, tree, sample):
        result = op.op(tree[0], *tree[1], **tree[2])
        return sample.output_process_fn_grad(result) if sample is not None else result

    def _eager(self, run):
        try:
            return run()
        except Exception as error:
            raise Skipped from error

    def _tried(self, run):
        try:
            return run()
        except Exception as error:
            raise self._failed(error, "refused") from error

    def _both(self, op, sample, grad):
        def run(device):
            tree = moved(_tree(sample), device, grad)
            torch.manual_seed(5)
            return tree, self._called(op, tree, sample)

        here, wanted = self._eager(lambda: run("cpu"))
        there, got = self._tried(lambda: run(self.device))
        return here, wanted, there, got

    def _gradients(self, here, wanted, there, got, create_graph=False):
        """Of all outputs with fixed weights, for all leaves: those that are there."""
        outputs = [(a, b) for a, b in zip(tensors_of(wanted), tensors_of(got)) if a.requires_grad and a.numel()]
        if not outputs:
            raise Skipped
        torch.manual_seed(9)
        weights = [torch.randn(a.shape, dtype=a.dtype) for a, _ in outputs]

        def run(side, leaves, device):
            leaves = [x for x in tensors_of(leaves) if x.requires_grad]
            return torch.autograd.grad(
                [pair[side] for pair in outputs], leaves, [w.to(device) for w in weights],
                allow_unused=True, create_graph=create_graph,
            )  # fmt: skip

        theirs = self._eager(lambda: run(0, here, "cpu"))
        ours = self._tried(lambda: run(1, there, self.device))
        if any((a is None) != (b is None) and (a if a is not None else b).any() for a, b in zip(theirs, ours)):
            raise Failed("wrong", "a gradient is there on one side only")
        pairs = [(a, b) for a, b in zip(theirs, ours) if a is not None and b is not None]
        return [a for a, _ in pairs], [b for _, b in pairs]

    def _truth(self, op, sample, wanted, twice):
        """Gradients in f64, those that are there."""
        tree = doubled(moved(_tree(sample), "cpu", True))
        torch.manual_seed(5)
        outputs, like = tensors_of(self._called(op, tree, sample)), tensors_of(wanted)
        leaves = [x for x in tensors_of(tree) if x.requires_grad]
        dtypes = [x.dtype for x in tensors_of(_tree(sample)) if x.requires_grad]
        for create_graph in (True, False) if twice else (False,):
            pairs = [(x, y) for x, y in zip(outputs, like) if x.requires_grad and x.numel()]
            torch.manual_seed(9)
            weights = [torch.randn(y.shape, dtype=y.dtype).to(x.dtype) for x, y in pairs]
            outputs = torch.autograd.grad(
                [x for x, _ in pairs], leaves, weights, allow_unused=True, create_graph=create_graph
            )
            like = [x.to(dtype) for x, dtype in zip(outputs, dtypes) if x is not None]
            outputs = [x for x in outputs if x is not None]
        return outputs

    def _compare(self, op, sample, wanted, got, strides, truth=None, picks=True):
        pairs = list(zip(tensors_of(wanted), tensors_of(got), strict=True))
        random = is_random(op, sample)
        for theirs, ours in pairs:
            self._check_metadata(theirs, ours, strides and not random)
        if random:
            self._values([ours for _, ours in pairs])
            return
        if picks and op.name != "msort" and self._is_free(op, sample):
            try:
                return check_picks(op, sample, tensors_of(wanted), self._values(tensors_of(got)))
            except AssertionError as error:
                raise Failed("wrong", " ".join(str(error).split())) from error
        self._close([theirs for theirs, _ in pairs], [ours for _, ours in pairs], truth)

    def _is_free(self, op, sample) -> bool:
        """To choose among equals."""
        return op.name in sweep_reviewed_support.PICKS and sample.kwargs.get("stable") is not True

    def _check_metadata(self, theirs, ours, strides):
        if theirs.layout != torch.strided:
            raise Failed("metadata", f"{theirs.layout} was expected")
        if (theirs.shape, theirs.dtype) != (ours.shape, ours.dtype) or (
            strides and theirs.numel() > 1 and _real_strides(theirs) != _real_strides(ours)
        ):
            raise Failed("metadata", f"{_described(ours)}, expected {_described(theirs)}")

    def _compare_refusals(self, theirs, ours):
        self._settle()
        if theirs is None:
            raise Skipped
        if ours is None:
            raise Failed("wrong", f"eager says {type(theirs).__name__}: {theirs}, nothing is said here")
        if not isinstance(ours, type(theirs)):
            self._check_internal(ours)
        if not isinstance(ours, (type(theirs), sojourn.Error, NotImplementedError)):
            raise Failed("other error", f"{type(ours).__name__}: {ours}; eager: {type(theirs).__name__}: {theirs}")

    def _values(self, ours):
        try:
            return [x.detach().cpu() if x.device.type != "cpu" else x for x in ours]
        except Exception as error:
            raise self._failed(error, "late") from error

    def _close(self, wanted, ours, truth=None, several=False):
        """`truth`: makes the values in f64. What is off eager's may be nearer to them than eager's own."""
        for place, (theirs, mine) in enumerate(zip(wanted, self._values(ours), strict=True)):
            is_single = theirs.dtype in (torch.float32, torch.complex64)  # or made of such
            tolerance = {"rtol": 1e-4, "atol": 1e-5} if is_single else {}
            theirs, mine = theirs.detach(), mine.resolve_conj().resolve_neg()
            try:
                torch.testing.assert_close(mine, theirs, equal_nan=True, check_stride=False, **tolerance)
            except AssertionError as error:
                if truth and is_as_good(mine, theirs, truth()[place], several):
                    continue
                raise Failed("wrong", " ".join(str(error).split())) from error

    def _check_internal(self, error):
        if "INTERNAL ASSERT" in str(error) or isinstance(error, (AssertionError, SystemError)):
            raise Failed("internal", _text(error)) from error

    def _failed(self, error, outcome) -> Failed:
        self._settle()
        self._check_internal(error)
        if isinstance(error, (Skipped, Failed)):
            return error
        if not isinstance(error, (sojourn.Error, NotImplementedError, torch.OutOfMemoryError)):
            outcome = "other error"
        return Failed(outcome, _text(error))

    def _settle(self):
        """What is left pending belongs to nobody."""
        try:
            sojourn.flush()
        except Exception:
            pass


def _tree(sample):
    return sample.input, list(sample.args), dict(sample.kwargs)


def _text(error) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def _real_strides(x):
    return tuple(stride for stride, size in zip(x.stride(), x.shape) if size > 1)


def _described(x) -> str:
    return f"{str(x.dtype).removeprefix('torch.')}{list(x.shape)} strides {list(x.stride())}"
