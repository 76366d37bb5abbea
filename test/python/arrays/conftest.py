# SPDX-License-Identifier: Apache-2.0
"""An owner for the tests of sojourn.numpy, and random values with a printed seed."""

import secrets

import numpy
import pytest

import sojourn
import sojourn.numpy as np


@pytest.fixture(scope="session")
def arrays_owner():
    return sojourn.local()


@pytest.fixture(autouse=True)
def there(arrays_owner):
    with np.on(arrays_owner):
        yield arrays_owner


@pytest.fixture
def rng():
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    return numpy.random.default_rng(seed)
