# SPDX-License-Identifier: Apache-2.0
"""How values of the sweep over op_db are compared where eager's own are no measure: what is rounded, and what picks among
equals."""

from __future__ import annotations

import sweep_reviewed_support
import torch

HALVES = (torch.float16, torch.bfloat16)


def doubled_type(dtype):
    return torch.complex128 if dtype.is_complex else torch.float64


def doubled(tree):
    """In f64 and complex128, leaves as leaves; and so what is asked for in halves."""

    def wide(x):
        if isinstance(x, torch.dtype) and x in HALVES:
            return torch.float64
        if not isinstance(x, torch.Tensor) or x.dtype not in (torch.float32, torch.complex64, *HALVES):
            return x
        return x.detach().to(doubled_type(x.dtype)).requires_grad_(x.requires_grad)

    return torch.utils._pytree.tree_map(wide, tree)


def nearer(ours, theirs, truth) -> bool:
    """Whether the largest error is at most twice eager's."""
    if truth.dtype != doubled_type(ours.dtype) or truth.shape != ours.shape or not truth.isfinite().all():
        return False
    return bool((ours - truth).abs().max() <= 2 * (theirs - truth).abs().max())


def nearer_half(ours, theirs, truth) -> bool:
    """Whether each element is the truth rounded once, within torch's tolerance, or misses it by one rounding more than
    eager's does at most. Eager on the CPU makes many halves in several rounded steps, or overflows on the way; an owner
    computes wide and rounds once, so eager's own halves are no measure, and its f64 is."""
    if truth.dtype != torch.float64 or truth.shape != ours.shape:
        return False
    info = torch.finfo(ours.dtype)
    rounded = truth.to(ours.dtype)
    rtol = {torch.float16: 1e-3, torch.bfloat16: 1.6e-2}[ours.dtype]
    good = torch.isclose(ours, rounded, rtol=rtol, atol=1e-5, equal_nan=True)
    good |= (ours == theirs) | (ours.isnan() & theirs.isnan())
    unit = truth.abs().clamp(min=info.tiny) * info.eps
    good |= theirs.isfinite() & ((ours - truth).abs() <= (theirs - truth).abs() + unit)
    return bool(good.all())


def is_as_good(ours, theirs, truth, several: bool) -> bool:
    """Whether a value that is off eager's is good beside the one in f64. Of halves in `several` recorded steps, as those
    of a gradient, each is rounded at either side: they are judged as f32 is, by the largest error."""
    if ours.dtype in (torch.float32, torch.complex64):
        return nearer(ours, theirs, truth)
    return ours.dtype in HALVES and (nearer_half(ours, theirs, truth) or (several and nearer(ours, theirs, truth)))


def picked_dim(op, sample) -> int:
    place = sweep_reviewed_support.PICKS[op.name][0]
    if place is None:
        return 0
    return sample.kwargs.get("dim", sample.args[place] if len(sample.args) > place else -1)


def grouped(op, sample, gradient):
    """The gradient of what picks among equals, in the order of what it is of; of equal ones in its own."""
    dim, x = picked_dim(op, sample), torch.atleast_1d(sample.input.detach())
    rising = torch.atleast_1d(gradient).sort(dim)
    order = x.gather(dim, rising.indices).sort(dim=dim, stable=True).indices
    return rising.values.gather(dim, order)


def check_picks(op, sample, wanted, got) -> None:
    """Values as eager's, and indices that pick the same ones, each once: which of equal ones comes first is free."""
    dim, x = picked_dim(op, sample), torch.atleast_1d(sample.input.detach())
    size = x.shape[dim]

    def picked(index):
        # Dimensions that were not kept; of a number all.
        index = index.unsqueeze(dim) if index.dim() < x.dim() else index
        return x.gather(dim, index), index.sort(dim).values

    theirs, ours = wanted[-1], got[-1]
    if ours.numel() and (int(ours.min()) < 0 or int(ours.max()) >= size):
        raise AssertionError(f"an index is outside of {size} elements")
    (expected, _), (found, order) = picked(theirs), picked(ours)
    if ours.numel() and bool((order.diff(dim=dim) == 0).any()):
        raise AssertionError("an index comes twice")
    for mine, their in [*zip(got[:-1], wanted[:-1]), (found, expected)]:
        torch.testing.assert_close(mine, their.detach(), rtol=0, atol=0, equal_nan=True, check_stride=False)
