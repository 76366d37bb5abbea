# SPDX-License-Identifier: Apache-2.0
"""Attack: steps within the limits that take far longer than their price says, memory that it does not mention, or end in
an error of the owner's own. tools/prices.py measures every op; here are those that were wrong."""

import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import sojourn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tools"))
from price_cases import cases
from price_long import long_cases

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.mark.alone
def test_ops_that_were_cheap_cost_what_they_take():
    command = [sys.executable, ROOT / "tools/prices.py", "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert int(done.stdout.splitlines()[-1].split()[0]) > 40


def test_each_op_has_cases():
    """A constant is part of the program."""
    listed = set(re.findall(r"^\| `(\w+)` \|", (ROOT / "dialect/STATUS.md").read_text(), re.MULTILINE))
    assert len(listed) > 90
    assert listed - {"constant"} <= {re.match(r"sojourn\.(\w+)", case.op)[1] for case in [*cases(), *long_cases()]}


@pytest.fixture(scope="module")
def device():
    with sojourn.local() as owner:
        yield owner.device


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_remainders_of_any_two_numbers(generator, device, dtype):
    """Bit by bit as C's fmod, which takes thousands of steps where exponents are far apart."""
    bits = np.dtype(f"u{np.dtype(dtype).itemsize}")
    a, b = (generator.integers(0, np.iinfo(bits).max, 100_000, dtype=bits, endpoint=True).view(dtype) for _ in range(2))
    near = generator.integers(1, 1000, 20_000).astype(dtype)
    a, b = np.concatenate([a, near * dtype(0.37), a[:20_000]]), np.concatenate([b, near[::-1], near])
    special = np.array([0, -0.0, np.inf, -np.inf, np.nan, np.finfo(dtype).max, np.finfo(dtype).smallest_subnormal])
    special = np.concatenate([special, [1, -3, np.finfo(dtype).tiny]]).astype(dtype)
    first, second = (x.ravel() for x in np.meshgrid(special, special))
    a, b = np.concatenate([a, first]), np.concatenate([b, second])
    found = torch.fmod(torch.from_numpy(a).to(device), torch.from_numpy(b).to(device)).cpu().numpy()
    with np.errstate(all="ignore"):
        expected = np.fmod(a, b)
    np.testing.assert_array_equal(found, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(expected)[numbers])


def _slopes(x, w, of):
    x, w = (value.detach().requires_grad_() for value in (x, w))
    y = F.conv2d(x, w, padding=1, stride=of)
    y.square().sum().backward()
    return [value.detach().cpu() for value in (y, x.grad, w.grad)]


@pytest.mark.parametrize("stride", [1, 3])
def test_doubles_are_convolved_in_groups_of_images(generator, device, stride):
    """Columns of all images at once are twenty times as large as these."""
    x = torch.from_numpy(generator.standard_normal((53, 5, 64, 64)))
    w = torch.from_numpy(generator.standard_normal((4, 5, 5, 5)))
    for found, expected in zip(_slopes(x.to(device), w.to(device), stride), _slopes(x, w, stride)):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-8)


def test_windows_of_doubles_beyond_memory_are_refused_before_they_are_built(device):
    """67 GiB of columns for 32 MiB of values."""
    x, w = (torch.zeros(1, 1, size, size, dtype=torch.float64, device=device) for size in (2048, 64))
    with pytest.raises(sojourn.Error, match=r"bytes of (arena|scratch in one op), expected at most \d+"):
        F.conv2d(x, w).sum().cpu()


@pytest.mark.parametrize("dims", [4, 7, 9, 12])
def test_transforms_along_many_dims(generator, device, dims):
    """The library refuses more than seven."""
    x = torch.from_numpy(generator.standard_normal([2, 3, *[2] * (dims - 2)]))
    whole = torch.fft.fftn(x.to(device)).cpu().numpy()
    np.testing.assert_allclose(whole, np.fft.fftn(x.numpy()), atol=1e-9)
    np.testing.assert_allclose(torch.fft.ifftn(torch.from_numpy(whole).to(device)).cpu().real, x, atol=1e-9)
    half = torch.fft.rfftn(x.to(device)).cpu()
    np.testing.assert_allclose(half, np.fft.rfftn(x.numpy()), atol=1e-9)
    np.testing.assert_allclose(torch.fft.irfftn(half.to(device), s=x.shape).cpu(), x, atol=1e-9)


SHORT_OF_MEMORY = """
import re, resource, sys
import torch
import torch.nn.functional as F
import sojourn

with sojourn.local() as owner:
    x, w = (torch.ones(1, 1, size, size, dtype=torch.float64).to(owner.device) for size in (192, 96))
    y = F.conv2d(x[..., :100, :100], w).sum().cpu()
    used = int(re.search(r"VmSize:\\s+(\\d+)", open("/proc/self/status").read())[1]) << 10
    resource.setrlimit(resource.RLIMIT_AS, (used + (400 << 20), resource.RLIM_INFINITY))
    try:
        F.conv2d(x, w).sum().cpu()
    except sojourn.Error as error:
        print(error)
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(float(F.conv2d(x, w)[0, 0, 0, 0].cpu()) == 96 * 96)
"""


def test_a_step_to_which_the_system_refuses_memory_is_an_error_of_its_own():
    """650 MiB of columns where 400 MiB are left."""
    done = subprocess.run(
        [sys.executable, "-c", SHORT_OF_MEMORY],
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "not enough memory for the run" in done.stdout
    assert "Limit" in done.stdout
    assert done.stdout.splitlines()[-1] == "True"
