# SPDX-License-Identifier: Apache-2.0
"""What the tests of private tables share: an owner of each test's own, NumPy's generator, a table with a budget.

A file that imports `own_owner` and `numpy_rng` has these `owner` and `rng` in place of those of conftest.py: budgets are
spent, so no owner is shared.
"""

import numpy as np
import pytest

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
