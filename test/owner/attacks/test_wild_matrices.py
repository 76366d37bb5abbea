# SPDX-License-Identifier: Apache-2.0
"""Attack: matrices that a library's factor cannot take. LAPACK's eig of doubles with magnitudes far from 1 writes beyond
its workspace, and 159 such steps ended a server."""

import ctypes.util
import os
import pathlib
import subprocess
import sys

import mpmath
import numpy as np
import pytest
import torch
from wild_matrices import OPS, wild

import sojourn

CHILD = pathlib.Path(__file__).with_name("wild_matrices.py")
MALLOC_CHECKS = ctypes.util.find_library("c_malloc_debug")


def factored_under_malloc_checks(seed, seconds, ops):
    """Factors in a process of its own whose allocator aborts at the first damage."""
    checks = {"LD_PRELOAD": MALLOC_CHECKS, "MALLOC_CHECK_": "3"}
    command = [sys.executable, CHILD, str(seed), str(seconds), *ops]
    done = subprocess.run(command, env=os.environ | checks, capture_output=True, text=True)
    assert done.returncode == 0, f"seed {seed}: {done.stderr[-2000:]}"
    counts = dict(line.split() for line in done.stdout.splitlines())
    assert set(counts) == set(ops) and all(int(count) > 0 for count in counts.values())


@pytest.mark.skipif(MALLOC_CHECKS is None, reason="glibc's libc_malloc_debug.so.0 is not installed")
def test_factors_of_wild_matrices_keep_the_heap(generator):
    factored_under_malloc_checks(int(generator.integers(2**31)), 10, list(OPS))


@pytest.mark.slow
@pytest.mark.skipif(MALLOC_CHECKS is None, reason="glibc's libc_malloc_debug.so.0 is not installed")
def test_eigenvectors_of_many_wild_matrices_keep_the_heap(generator):
    factored_under_malloc_checks(int(generator.integers(2**31)), 40, ["eig"])


def check_eigenvectors(matrices, within):
    """By mpmath: |A v - lambda v| is small against |A|, whose square no double could hold."""
    with sojourn.local() as owner:
        values, vectors = (y.cpu() for y in torch.linalg.eig(matrices.to(owner.device)))
    count, size = matrices.shape[:2]
    with mpmath.workprec(3000):
        for k in range(count):
            a, largest = mpmath.matrix(matrices[k].tolist()), mpmath.mpf(matrices[k].abs().max().item())
            for j in range(size):
                value, vector = mpmath.mpmathify(values[k, j].item()), mpmath.matrix(vectors[k, :, j].tolist())
                error = mpmath.norm(a * vector - value * vector, mpmath.inf)
                assert error <= within * largest * mpmath.norm(vector, mpmath.inf), matrices[k]
                assert abs(mpmath.norm(vector, 2) - 1) < 1e-12, matrices[k]


def test_eigenvectors_at_any_scale(generator):
    scales = 10.0 ** generator.uniform(-306, 306, (24, 1, 1))
    check_eigenvectors(torch.from_numpy(generator.standard_normal((24, 5, 5)) * scales), within=1e-13)


def test_eigenvectors_of_wild_matrices(generator):
    """Elements of 1e300 beside those of 1e-300, and of random bits."""
    for size in (3, 4, 8):
        for _ in range(8):
            check_eigenvectors(wild(generator, (4, size, size), np.float64), within=1e-13)


def test_small_eigenvalues_of_matrices_far_from_1():
    """Magnitudes that differ by less than 2^128 keep the digits that LAPACK gives them at any scale."""
    for scale in (1.0, 2.0**200, 2.0**-900):
        numbers = torch.tensor([1.0, 2.0**-60, -(2.0**-61)], dtype=torch.float64) * scale
        with sojourn.local() as owner:
            values, vectors = (y.cpu() for y in torch.linalg.eig(torch.diag(numbers).to(owner.device)))
        assert values.real.equal(numbers) and not values.imag.any()
        assert vectors.real.equal(torch.eye(3, dtype=torch.float64)) and not vectors.imag.any()


def test_eigenvectors_that_scaling_would_lose():
    """LAPACK scales rows and columns to equal norms, and the first vector's last element, 5.6e-10, was 0."""
    rows = [
        [4.1841e128, -3.1915e-180, -7.9576e266, -6.0593e189],
        [3.3582e-231, -5.5411e-308, -1.3715e-173, -6.885e284],
        [2.5e30, 8.31e47, -1.7e12, 3.8688e286],
        [-3.7276e286, 6.5918e-77, 2.3543e-220, 6.6915e295],
    ]
    check_eigenvectors(torch.tensor([rows], dtype=torch.float64), within=1e-13)
