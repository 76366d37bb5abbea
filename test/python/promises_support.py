# SPDX-License-Identifier: Apache-2.0
"""The same function here and there, compared leaf by leaf."""

import torch


def both(device, run):
    """The same function of a mover here and there; its tensors have to be equal."""
    ours, theirs = run(lambda t: t.to(device)), run(lambda t: t.clone())
    flat = [torch.utils._pytree.tree_leaves(side) for side in (ours, theirs)]
    assert len(flat[0]) == len(flat[1])
    for a, b in zip(*flat):
        if isinstance(b, torch.Tensor):
            torch.testing.assert_close(a.detach().cpu(), b.detach(), rtol=1e-10, atol=1e-12)
        else:
            assert a == b


def leaf(put, x):
    return put(x).requires_grad_()
