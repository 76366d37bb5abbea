# SPDX-License-Identifier: Apache-2.0
"""Sorts and top-k of short and long lines beside torch's stable sort: ties, zeros of both signs, NaN, infinities."""

import pytest
import torch

import sojourn

DTYPES = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
          torch.float32, torch.float64]  # fmt: skip
LONG = 5000  # sorted by digits


def lines(dtype, size):
    seed = torch.seed() % 2**31
    print("seed", seed)
    torch.manual_seed(seed)
    if dtype == torch.bool:
        return torch.randint(0, 2, (3, size)).bool()
    if not dtype.is_floating_point:
        limits = torch.iinfo(dtype)
        few = torch.randint(max(limits.min, -20), 20, (3, size)).to(dtype)
        few[0, : min(size, 2)] = torch.tensor([limits.min, limits.max], dtype=dtype)[:size]
        return few
    x = (torch.randn(3, size) * 4).to(dtype)
    x[1] = x[1].round()  # ties
    special = [0.0, -0.0, float("nan"), float("inf"), -0.0, 0.0, float("-inf"), float("nan")]
    x[0, : min(size, 8)] = torch.tensor(special, dtype=dtype)[:size]
    return x


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("size", [1, 7, 300, LONG])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sorts_are_stable(dtype, size, descending):
    x = lines(dtype, size)
    with sojourn.local() as owner:
        remote = x.to(owner.device)
        for dim in (1, 0):
            expected = torch.sort(x, dim=dim, descending=descending, stable=True)
            found = sojourn.publish(list(torch.sort(remote, dim=dim, descending=descending, stable=True)))
            assert torch.equal(found[1], expected.indices)
            torch.testing.assert_close(found[0], expected.values, rtol=0, atol=0, equal_nan=True)
            if dtype.is_floating_point:
                assert torch.equal(torch.signbit(found[0]), torch.signbit(expected.values))


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("k", [1, 40, LONG // 2, LONG])
@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_the_first_of_a_sort(dtype, k, largest):
    x = lines(dtype, LONG)
    expected = torch.sort(x, dim=1, descending=largest, stable=True)
    with sojourn.local() as owner:
        found = sojourn.publish(list(torch.topk(x.to(owner.device), k, 1, largest)))
        assert torch.equal(found[1], expected.indices[:, :k])
        torch.testing.assert_close(found[0], expected.values[:, :k], rtol=0, atol=0, equal_nan=True)


def test_both_runtimes_sort_alike():
    x = lines(torch.float32, LONG)
    found = []
    for runtime in ("native", "numpy"):
        with sojourn.local(runtime=runtime) as owner:
            found.append(sojourn.publish(list(torch.sort(x.to(owner.device), 1))))
    assert torch.equal(found[0][1], found[1][1])
