# SPDX-License-Identifier: Apache-2.0
"""What the tests of private tables share: an owner of each test's own, NumPy's generator, a table with a budget.

A file that imports `own_owner` and `numpy_rng` has these `owner` and `rng` in place of those of conftest.py: budgets are
spent, so no owner is shared.
"""

import contextlib

import numpy as np
import pytest
import torch

import sojourn

DELTA = 1e-5
PLENTY = 2.0**19  # a grant that hardly any noise can spend


@pytest.fixture(name="rng")
def numpy_rng(seed):
    """NumPy's generator, from the seed."""
    return np.random.default_rng(seed)


@pytest.fixture(name="owner")
def own_owner():
    """An embedded owner of this test alone."""
    with sojourn.local() as owner:
        yield owner


def make_table(owner, columns, bounds, epsilon=PLENTY, name="people", policy="private", **terms):
    """Registers the columns; on a private table each row is a subject, and this process is granted `epsilon` at DELTA
    (None: nothing). The table."""
    table = owner.register(name, columns, policy=policy, bounds=bounds, **terms)
    if policy == "private" and epsilon is not None:
        owner.grant(name, epsilon=epsilon, delta=DELTA)
    return table


@contextlib.contextmanager
def flushed_denormals():
    """Torch and NumPy on this thread compute as owners do in steps on private rows: denormal operands count as 0, and so
    do denormal results. Torch gets one thread, for the mode is a thread's own."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    assert torch.set_flush_denormal(True), "this processor cannot flush denormals"
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
        torch.set_num_threads(threads)
