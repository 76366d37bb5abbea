# SPDX-License-Identifier: Apache-2.0
"""Operands of two dtypes, and calls at the edge of what type inference takes: eager's values or a clear error.

A child process runs each group, so that a compiler that ends its process is a failing test and not the end of all."""

import itertools
import subprocess
import sys

import pytest
import torch
from remote_support import assert_same, shared_owner
from torch.nn import functional as F

import sojourn

DTYPES = [torch.float64, torch.float32, torch.bfloat16]
PAIRS = [pair for pair in itertools.product(DTYPES, repeat=2) if pair[0] != pair[1]]
LOSSES = {
    "mse": F.mse_loss,
    "l1": F.l1_loss,
    "smooth_l1": F.smooth_l1_loss,
    "huber": F.huber_loss,
    "binary_cross_entropy": lambda x, y, **k: F.binary_cross_entropy(x.sigmoid(), y.sigmoid(), **k),
    "binary_cross_entropy_with_logits": lambda x, y, **k: F.binary_cross_entropy_with_logits(x, y.sigmoid(), **k),
    "kl_div": lambda x, y, **k: F.kl_div(F.log_softmax(x, 0), F.softmax(y, 0), **k),
    "poisson_nll": F.poisson_nll_loss,
    "hinge_embedding": lambda x, y, **k: F.hinge_embedding_loss(x, y.detach().sign(), **k),
    "margin_ranking": lambda x, y, **k: F.margin_ranking_loss(x, y, torch.ones_like(x), **k),
    "cosine_embedding": lambda x, y, **k: F.cosine_embedding_loss(x[None], y[None], torch.ones_like(x[:1]), **k),
    "cross_entropy of probabilities": lambda x, y, **k: F.cross_entropy(x, F.softmax(y, 0), **k),
}


def outcome(function, x, y, **options):
    """Loss and gradients, or the error; a remote step says what it cannot compile when it is sent."""
    x, y = x.requires_grad_(), y.requires_grad_()
    try:
        loss = function(x, y, **options)
        loss.sum().backward()
        return sojourn.publish([loss.detach(), x.grad, y.grad]), None
    except (RuntimeError, TypeError, ValueError) as error:
        return None, error


@pytest.mark.parametrize("name", LOSSES)
def test_losses_of_two_dtypes(seed, name):
    device = shared_owner().device
    for (first, second), reduction in itertools.product(PAIRS, ["mean", "sum", "none"]):
        x, y = torch.randn(5).to(first), torch.randn(5).to(second)
        here, refusal = outcome(LOSSES[name], x.clone(), y.clone(), reduction=reduction)
        there, error = outcome(LOSSES[name], x.to(device), y.to(device), reduction=reduction)
        what = f"{name} of {first} and {second}, {reduction}"
        if refusal is not None:
            assert error is not None, f"{what}: eager says {refusal}"
            continue
        assert error is None, f"{what}: {error}"
        narrow = torch.bfloat16 in (first, second)
        assert_same(there, here, what, rtol=4e-2 if narrow else 2e-5, atol=2e-2 if narrow else 1e-6)


CHILD = """
import torch, sojourn
from torch.nn import functional as F
device = sojourn.local().device
def remote(*shape, dtype=torch.float32, grad=False):
    return torch.randn(*shape).to(dtype).to(device).requires_grad_(grad)
try:
    {body}
    print("value")
except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError) as error:
    print("error", str(error).splitlines()[0])
"""
ODD = {
    "mse of two dtypes": "l = F.mse_loss(remote(4, dtype=torch.float64, grad=True), remote(4)); l.backward(); sojourn.publish(l)",
    "no outputs of split": "torch.split_with_sizes_copy(remote(4), [1, 3], out=[]); sojourn.flush()",
    "half outputs of split": "torch.split_with_sizes_copy(remote(4), [1, 3], out=[remote(1)]); sojourn.flush()",
    "matmul of two dtypes": "sojourn.publish(remote(2, 2) @ remote(2, 2, dtype=torch.float64))",
    "conv of two dtypes": "sojourn.publish(F.conv1d(remote(1, 1, 4), remote(1, 1, 2, dtype=torch.float64)))",
    "where of bool and complex": "sojourn.publish(torch.where(remote(3) > 0, remote(3) > 1, remote(3).to(torch.complex64)))",
    "bmm of wrong sizes": "sojourn.publish(torch.bmm(remote(2, 3, 4), remote(2, 3, 4)))",
    "lerp of two dtypes": "sojourn.publish(torch.lerp(remote(3), remote(3), remote(3, dtype=torch.float64)))",
    "soft margin of two dtypes": "sojourn.publish(F.soft_margin_loss(remote(3), remote(3, dtype=torch.float64)))",
    "cat of none": "sojourn.publish(torch.cat([]))",
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_odd_calls_never_end_the_process(name):
    done = subprocess.run([sys.executable, "-c", CHILD.format(body=ODD[name])], capture_output=True, text=True)
    assert done.returncode == 0, f"{name}: {done.returncode}\n{done.stdout}{done.stderr[-2000:]}"
    assert done.stdout.startswith(("value", "error")), done.stdout
