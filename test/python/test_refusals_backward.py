# SPDX-License-Identifier: Apache-2.0
"""What is refused in backward: the exception's class, the op, and both lines, that of backward and that of the op."""

import pytest
import torch
import torch.nn.functional as F
from remote_support import here, shared_owner

import sojourn


@pytest.fixture
def device():
    return shared_owner().device


class ReadsInBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * float(g.sum())


def test_backward_errors_name_both_lines(device):
    """torch decides in backward that the gradient is sparse: the forward line and the backward() line are named."""
    weight = torch.rand(3, 4, device=device, requires_grad=True)
    rows = torch.tensor([0, 2], device=device)
    forward = here(1)
    y = F.embedding(rows, weight * 2, sparse=True)
    loss = (y * 3).sum()
    with pytest.raises(sojourn.Unsupported, match="sparse") as caught:
        backward = here(1)
        loss.backward()
    text = str(caught.value)
    assert f"at {backward}" in text and f"backward of the op at {forward}" in text, text


def written(t, values):
    """The gradient of what was written through a mask is what the mask selects."""
    mask = torch.arange(3, device=t.device) != 1
    return (t * 1).index_put((mask,), values)  # "index_put"


BACKWARD_ONLY = {
    "index_put": lambda t: written(t, t[0] * 2),
}


@pytest.mark.parametrize("name", BACKWARD_ONLY)
def test_gradients_that_read_values(device, name):
    """Forward runs; torch's own formula of the gradient asks for a value."""
    leaf = torch.rand(3, 4, device=device, requires_grad=True)
    loss = BACKWARD_ONLY[name](leaf).sum()
    sojourn.flush()
    with sojourn.step(), pytest.raises(sojourn.ValueNeeded, match="torch.where") as caught:
        backward = here(1)
        loss.backward()
    text = str(caught.value)
    assert f"at {backward} (backward of the op at {__file__}:" in text, text
    line = int(text.split(f"backward of the op at {__file__}:")[1].split(")")[0])
    assert (
        f'"{name}"' in open(__file__).read().splitlines()[line - 1]
        or "_ONLY[name](leaf).sum()" in open(__file__).read().splitlines()[line - 1]
    )


def test_custom_backward_errors_name_both_lines(device):
    leaf = torch.rand(3, 4, device=device, requires_grad=True)
    y = ReadsInBackward.apply(leaf * 3)
    with sojourn.step(), pytest.raises(sojourn.ValueNeeded) as caught:
        backward = here(1)
        y.sum().backward()
    text = str(caught.value)
    assert f"at {backward} (backward of the op at {__file__}:" in text, text
    assert "_local_scalar_dense" in text and "publish" in text


def test_backward_errors_inside_a_step_and_on_a_thread(device):
    leaf = torch.rand(3, device=device, requires_grad=True)
    # A thread of the engine has no step: what arrives there is refused with what to do.
    with torch.autograd.set_multithreading_enabled(True):
        y = ReadsInBackward.apply(leaf)
        with pytest.raises(sojourn.Error, match="set_multithreading_enabled"):
            y.sum().backward()
    with torch.autograd.set_multithreading_enabled(False):
        ReadsInBackward.apply(leaf).sum().backward()  # a value may be read here
    with pytest.raises(sojourn.ValueNeeded, match="test_refusals_backward.py"):
        with sojourn.step():
            ReadsInBackward.apply(leaf).sum().backward()
