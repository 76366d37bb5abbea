# SPDX-License-Identifier: Apache-2.0
"""One function here and on the CPU, compared with its gradients."""

import torch


def _cosines(x):
    smooth = torch.arange(x.numel(), dtype=torch.float64).cos()
    return (torch.complex(smooth, smooth.sin()) if x.is_complex() else smooth).view(x.shape).to(x.dtype)


def both(device, function, *given, grad=False, loose=None):
    """Results here and there, with the gradients of their sums weighted by cosines; within `loose`, or what the dtype
    gives."""

    def run(*tensors):
        tensors = [x.clone().requires_grad_(grad) for x in tensors]
        results = list(torch.utils._pytree.tree_leaves(function(*tensors)))
        found = [x.detach() for x in results]
        if grad:
            smooth = [x for x in results if x.requires_grad and x.numel()]
            weights = [_cosines(x).to(x.device) for x in smooth]
            found += torch.autograd.grad(smooth, tensors, weights, allow_unused=True)
        return found

    wanted, got = run(*given), run(*(x.to(device) for x in given))
    for ours, theirs in zip(got, wanted, strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
            within = loose or (1e-9 if theirs.dtype in (torch.float64, torch.complex128) else 1e-3)
            torch.testing.assert_close(ours.cpu(), theirs, rtol=within, atol=within, equal_nan=True)
    return got, wanted


def same_strides(got, wanted):
    for ours, theirs in zip(got, wanted, strict=True):
        if theirs.numel():
            assert ours.stride() == theirs.stride(), (theirs.shape, ours.stride(), theirs.stride())
