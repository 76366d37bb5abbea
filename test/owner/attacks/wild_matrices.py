# SPDX-License-Identifier: Apache-2.0
"""Matrices whose elements have any magnitude, and a program that factors many of them at an embedded owner.

Run as `python wild_matrices.py SEED SECONDS OP...`; prints the number of matrices of each op, one per line.
"""

import itertools
import sys
import time

import numpy as np
import torch

SIZES = [(1, 1), (2, 2), (3, 3), (5, 5), (8, 8), (3, 7), (9, 4), (33, 33)]
DTYPES = [np.float64, np.float32]
MATRICES = 48  # of one step


def wild(generator, shape, dtype, complex_=False):
    """A finite tensor of random bits, or of magnitudes up to the largest and down to the smallest of its dtype."""
    if complex_:
        return torch.complex(wild(generator, shape, dtype), wild(generator, shape, dtype))
    bits = np.dtype(f"u{np.dtype(dtype).itemsize}")
    widest = 37 if dtype == np.float32 else 307
    style = generator.integers(4)
    if style == 0:
        found = generator.integers(0, np.iinfo(bits).max, shape, dtype=bits, endpoint=True).view(dtype)
        found = np.where(np.isfinite(found), found, 0)
    else:
        exponents = [
            lambda: generator.choice((-widest, 0, widest), shape),
            lambda: generator.uniform(-widest, widest, shape),
            lambda: widest * generator.choice((-1, -0.5, 0, 0.5, 1), shape),
        ][style - 1]()
        found = generator.uniform(-1, 1, shape) * 10.0**exponents
    found = np.where(generator.random(shape) < generator.choice((0, 0.1, 0.5)), 0, found)
    return torch.from_numpy(np.ascontiguousarray(found.astype(dtype)))


def spoiled(generator, x):
    """The matrices, a few of them with an infinity or NaN."""
    number = complex if x.is_complex() else float
    for matrix in generator.choice(len(x), 3):
        x[matrix].view(-1)[generator.integers(x[matrix].numel())] = number(generator.choice((np.inf, np.nan)))
    return x


def _ldl(x):
    factors, pivots, info = torch.linalg.ldl_factor_ex(x)
    return torch.linalg.ldl_solve(factors, pivots, x), info


# Op -> function, and whether it takes matrices that are not square.
OPS = {
    "eig": (torch.linalg.eig, False),
    "eigh": (torch.linalg.eigh, False),
    "svd": (lambda x: torch.linalg.svd(x, full_matrices=True), True),
    "qr": (lambda x: torch.linalg.qr(x, mode="complete"), True),
    "lu": (torch.linalg.lu_factor_ex, True),
    "ldl": (_ldl, False),
    "cholesky": (torch.linalg.cholesky_ex, False),
    "triangular": (lambda x: torch.linalg.solve_triangular(x, x, upper=True), False),
}


def factor(ops, seed, seconds):
    import sojourn

    generator = np.random.default_rng(seed)
    torch.set_num_threads(1)
    until = time.monotonic() + seconds
    counts = dict.fromkeys(ops, 0)
    cases = list(itertools.product(ops, SIZES, DTYPES, (False, True)))
    cases = [case for case in cases if OPS[case[0]][1] or case[1][0] == case[1][1]]
    with sojourn.local() as owner:
        for turn in itertools.count():
            for op, size, dtype, complex_ in cases:
                if turn > 0 and time.monotonic() > until:
                    return counts
                x = spoiled(generator, wild(generator, (MATRICES, *size), dtype, complex_))
                for result in OPS[op][0](x.to(owner.device)):
                    result.cpu()
                counts[op] += MATRICES


if __name__ == "__main__":
    for name, count in factor(sys.argv[3:], int(sys.argv[1]), float(sys.argv[2])).items():
        print(name, count)
