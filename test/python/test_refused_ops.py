# SPDX-License-Identifier: Apache-2.0
"""A flush with an op that cannot be compiled: what does not depend on it survives."""

import pytest
import torch
from remote_support import assert_same

import sojourn

F64 = torch.float64


def refuse(a, b):
    """Recorded, for its shape is known; the passes do not convolve booleans."""
    return torch.conv1d(a.bool().reshape(1, 1, -1), b[:1].bool().reshape(1, 1, 1)).reshape(-1)


LINE = f"{__file__}:{refuse.__code__.co_firstlineno + 2}"


def test_unrelated_values_survive(owner, device, seed):
    a, b = torch.randint(1, 50, (2, 4))
    x = torch.randn(4, dtype=F64)
    ra, rb, state = a.to(device), b.to(device), x.to(device)
    sojourn.flush()
    before = state * 2
    where = LINE
    bad = refuse(ra, rb)
    after, state_view = state + 3, state[1:]
    state.add_(1)
    dependent = bad + ra
    both = dependent.to(F64) + state
    with pytest.raises(sojourn.Unsupported, match="convolution") as caught:
        sojourn.flush()
    assert where in str(caught.value)
    assert_same([before, after, state, state_view], [x * 2, x + 3, x + 1, (x + 1)[1:]])
    for lost in (bad, dependent, both):
        with pytest.raises(sojourn.Error, match="(?s)no value.*convolution.*") as caught:
            lost + 1
        assert where in str(caught.value)


def test_later_writes_to_what_depends_on_it_are_lost_too(owner, device):
    a, x = torch.arange(1, 5).to(device), torch.ones(4, dtype=torch.int64).to(device)
    y = torch.zeros(4, dtype=torch.int64).to(device)
    sojourn.flush()
    seen = x + 1
    view = x[:2]
    x.add_(refuse(a, a))
    read = view * 2
    y.add_(1)
    with pytest.raises(sojourn.Unsupported, match="convolution"):
        sojourn.flush()
    assert_same([seen, y, a], [torch.full((4,), 2), torch.ones(4, dtype=torch.int64), torch.arange(1, 5)])
    for lost in (x, view, read):
        with pytest.raises(sojourn.Error, match="(?s)no value.*convolution"):
            sojourn.publish(lost)


def test_random_ops_and_numbers_keep_theirs(owner, device, seed):
    def program(where, refused):
        torch.manual_seed(seed)
        a = torch.arange(1, 5, device=where)
        x = torch.ones(4, dtype=F64, device=where)
        first = torch.rand(4, dtype=F64, device=where) * 1.25
        if refused:
            refuse(a, a)
        else:
            torch.initial_seed()
        middle = x * 2.5 + torch.randn(4, dtype=F64, device=where)
        if refused:
            # Reads the refused one and takes a slot.
            (refuse(a, a) * 7.5).sum()
        last = torch.rand(4, dtype=F64, device=where) * 3.75
        return [first, middle, last]

    expected = sojourn.publish(program(device, refused=False))
    found = program(device, refused=True)
    with pytest.raises(sojourn.Unsupported, match="convolution"):
        sojourn.flush()
    assert_same(found, expected, rtol=0, atol=0)


def test_a_publish_that_depends_on_it(owner, device):
    a, x = torch.arange(1, 5).to(device), torch.ones(2).to(device)
    sojourn.flush()
    y = x + 1
    with pytest.raises(sojourn.Unsupported, match="convolution"):
        sojourn.publish({"bad": refuse(a, a), "good": y})
    assert sojourn.publish(y).tolist() == [2, 2]


def test_uploads_and_dead_values_beside_it(owner, device):
    uploaded = torch.full((3,), 4.0).to(device)
    a = torch.arange(1, 5).to(device)
    dead = uploaded * 2
    kept = dead + 1
    del dead
    refuse(a, a)
    with pytest.raises(sojourn.Unsupported):
        sojourn.flush()
    assert_same([kept, uploaded, a], [torch.full((3,), 9.0), torch.full((3,), 4.0), torch.arange(1, 5)])


def test_inside_a_step_the_step_is_dropped(owner, device):
    """What was pending before the step stays."""
    a, x = torch.arange(1, 5).to(device), torch.ones(2).to(device)
    sojourn.flush()
    pending = x * 3
    with pytest.raises(sojourn.Unsupported, match="convolution"):
        with sojourn.step():
            inside = x + 1
            x.add_(5)
            refuse(a, a)
    with pytest.raises(sojourn.Error, match="(?s)no value.*convolution"):
        inside + 1
    assert_same([x, pending], [torch.ones(2), torch.full((2,), 3.0)])


def test_a_refused_op_before_the_step(owner, device):
    a, x = torch.arange(1, 5).to(device), torch.ones(2).to(device)
    sojourn.flush()
    pending, bad = x * 3, refuse(a, a)
    with pytest.raises(sojourn.Unsupported, match="convolution"):
        with sojourn.step():
            x.add_(5)
    with pytest.raises(sojourn.Error, match="(?s)no value.*convolution"):
        bad + 1
    assert_same([x, pending], [torch.ones(2), torch.full((2,), 3.0)])


def test_several_refused_ops_fail_one_flush(owner, device, seed):
    a, b, x = (torch.randint(1, 50, (4,)) for _ in range(3))
    ra, rb, rx = a.to(device), b.to(device), x.to(device)
    lost = [refuse(ra, rb), refuse(rb, rx), refuse(rx, ra) + 1]
    kept = rx * 3
    with pytest.raises(sojourn.Unsupported, match="convolution"):
        sojourn.flush()
    sojourn.flush()
    assert_same([kept], [x * 3])
    for value in lost:
        with pytest.raises(sojourn.Error, match="(?s)no value.*convolution"):
            value + 1
