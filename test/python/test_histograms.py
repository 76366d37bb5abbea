# SPDX-License-Identifier: Apache-2.0
"""Counting by classes and bins, covariances: what torch gives on the CPU, an owner gives too, gradients included."""

import pytest
import torch
import torch.nn.functional as F
from remote_support import assert_same

import sojourn

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


@pytest.fixture
def values(seed):
    """Hundredths, some on edges of bins, and some outside of every range; NaN, infinities.

    Edges that histogram makes are binary fractions below: those of others depend on how eager's linspace is vectorized.
    """
    x = torch.randint(-150, 150, (7, 41)).double() / 100
    x[0, :3] = torch.tensor([torch.nan, torch.inf, -torch.inf])
    return x


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_bins(owner, device, values, dtype):
    x = values.to(dtype)
    calls = [
        lambda x: torch.histc(x, bins=10, min=-1, max=1),
        lambda x: torch.histc(x, bins=7, min=-0.35, max=1.05),
        lambda x: torch.histc(x[1], bins=1, min=-1, max=0.5),
        lambda x: torch.histogram(x, 16, range=(-1.0, 1.0)).hist,
        lambda x: torch.histogram(x, 13, range=(-0.9, 1.1)).bin_edges,
        lambda x: torch.histogram(x, 8, range=(0.25, 0.25)).hist,
        lambda x: torch.histogram(x, torch.tensor([-1.0, -0.25, 0.0, 0.5, 1.25], dtype=dtype).to(x.device)).hist,
        lambda x: torch.histogram(x[2:], 8, range=(-1.0, 1.0), weight=x[2:].square()).hist,
        lambda x: torch.histogram(x[1:], 4, range=(-1.0, 1.0), density=True).hist,
    ]
    loose = dtype in (torch.float16, torch.bfloat16)
    found, expected = [call(x.to(device)) for call in calls], [call(x) for call in calls]
    # Counts are exact; halves round each of eager's additions of weights.
    assert_same([*found[:4], *found[5:7]], [*expected[:4], *expected[5:7]], rtol=0, atol=0)
    kept = [found[4], *found[7:]], [expected[4], *expected[7:]]
    assert_same(*kept, rtol=0.1 if loose else 1e-5, atol=0.05 if loose else 1e-6)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32, torch.int64], ids=str)
def test_classes(owner, device, seed, dtype):
    labels = torch.randint(0, 9, (200,)).to(dtype)
    weights = torch.randn(200)
    calls = [
        lambda y, w: torch.bincount(y, minlength=12),
        lambda y, w: torch.bincount(y, weights=w, minlength=9),
        lambda y, w: torch.bincount(y, weights=w.double(), minlength=10),
        lambda y, w: torch.bincount(y, weights=y, minlength=11),
        lambda y, w: torch.bincount(y[:0], minlength=3),
        lambda y, w: torch.zeros(12, device=y.device).scatter_add(0, y.long(), w),
        lambda y, w: torch.zeros(12, 3, device=y.device).scatter_add(
            0, y.long()[:, None].expand(-1, 3), w[:, None] * torch.arange(3, device=y.device)
        ),
        lambda y, w: torch.ones(12, device=y.device).scatter_reduce(0, y.long(), w, "mean", include_self=False),
        lambda y, w: torch.ones(12, device=y.device).scatter_reduce(0, y.long(), w, "sum", include_self=False),
    ]
    assert_same(
        [call(labels.to(device), weights.to(device)) for call in calls],
        [call(labels, weights) for call in calls],
        rtol=1e-4, atol=1e-4,
    )  # fmt: skip


def test_classes_that_were_not_asked_for_are_not_counted(owner, device):
    """In a step, where nobody knows of them; outside of steps there are as many as in eager."""
    labels = torch.tensor([0, 3, 1, 5, 1, -2]).to(device)
    with sojourn.step():
        counts = torch.bincount(labels, minlength=3)
    assert_same([counts], [torch.tensor([1, 2, 0])])
    assert_same([torch.bincount(labels[:-1], minlength=3)], [torch.tensor([1, 2, 0, 1, 0, 1])])
    with pytest.raises(RuntimeError, match="1-d non-negative"):
        torch.bincount(labels, minlength=3)


def test_counts_in_a_step_are_written_into_given_tensors(owner, device, seed):
    x = torch.rand(50)
    total, remote = torch.zeros(4), torch.zeros(4).to(device)
    torch.histc(x, 4, 0, 1, out=total)
    torch.histc(x.to(device), 4, 0, 1, out=remote)
    assert_same([remote], [total])


BAD = {
    "minlength should be >= 0": lambda x: torch.bincount(x.long(), minlength=-1),
    "only supports 1-d": lambda x: torch.bincount(x.long()[None], minlength=2),
    "not implemented for 'Float'": lambda x: torch.bincount(x, minlength=2),
    "same length as input": lambda x: torch.bincount(x.long(), weights=x[1:], minlength=2),
    "bins must be > 0": lambda x: torch.histc(x, 0, 0, 1),
    "max must be larger than min": lambda x: torch.histc(x, 3, 2, 1),
    "is not finite": lambda x: torch.histc(x, 3, 0, float("inf")),
    "not implemented for 'Long'": lambda x: torch.histc(x.long(), 3, 0, 1),
    "range should have 2 elements": lambda x: torch.histogram(x, 3, range=(0.0, 1.0, 2.0)),
    "same dtype": lambda x: torch.histogram(x, torch.tensor([0.0, 1.0], dtype=torch.float64).to(x.device)),
}


@pytest.mark.parametrize("text", BAD)
def test_bad_arguments(owner, device, text):
    for x in (torch.rand(5), torch.rand(5).to(device)):
        with pytest.raises((RuntimeError, NotImplementedError), match=text):
            BAD[text](x)


@pytest.mark.parametrize("inference", [False, True])
def test_covariances(owner, device, seed, inference):
    x, counts, weights = torch.randn(4, 30, dtype=torch.float64), torch.randint(0, 5, (30,)), torch.rand(30).double()
    integers = torch.randint(-9, 9, (3, 20))
    calls = [
        lambda x, n, w, k: torch.cov(x),
        lambda x, n, w, k: torch.cov(x, correction=0),
        lambda x, n, w, k: torch.cov(x[0]),
        lambda x, n, w, k: torch.cov(k.double()),
        lambda x, n, w, k: torch.cov(x, fweights=n),
        lambda x, n, w, k: torch.cov(x, aweights=w, correction=2),
        lambda x, n, w, k: torch.cov(x, fweights=n, aweights=w),
        lambda x, n, w, k: torch.corrcoef(x),
        lambda x, n, w, k: torch.corrcoef(x[1]),
        lambda x, n, w, k: F.one_hot(k[0] + 9, 18),
    ]
    given = x, counts, weights, integers
    with torch.inference_mode(inference):
        assert_same(
            [call(*(t.to(device) for t in given)) for call in calls],
            [call(*given) for call in calls],
            rtol=1e-9, atol=1e-12,
        )  # fmt: skip
        assert_same([torch.cov(integers.to(device))], [torch.cov(integers)], rtol=1e-5, atol=1e-5)


def test_gradients_of_covariances(owner, device, seed):
    x = torch.randn(3, 12, dtype=torch.float64)
    found = []
    for leaf in (x.to(device), x.clone()):
        leaf.requires_grad_()
        (torch.corrcoef(leaf).square().sum() + torch.cov(leaf, correction=0).sum()).backward()
        found.append(leaf.grad)
    assert_same(found[:1], found[1:], rtol=1e-9, atol=1e-12)


def test_bad_weights_of_covariances(owner, device):
    x = torch.rand(2, 5).to(device)
    for text, bad in {
        "fweights to have integral dtype": {"fweights": x[0]},
        "aweights to have floating point dtype": {"aweights": x[0].long()},
        "same numel as there are observations": {"aweights": x[0, 1:]},
    }.items():
        with pytest.raises(RuntimeError, match=text):
            torch.cov(x, **bad)
    with pytest.warns(UserWarning, match="degrees of freedom"):
        empty = torch.cov(x, correction=5)
    assert not torch.isfinite(sojourn.publish(empty)).any()
