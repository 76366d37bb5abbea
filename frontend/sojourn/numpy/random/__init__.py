# SPDX-License-Identifier: Apache-2.0
"""Random arrays, drawn at an owner: `default_rng`, `Generator`, and the functions of NumPy's module.

Distributions, shapes and dtypes are NumPy's; the numbers for a seed are not. The functions of the module use one hidden
generator of the process, which `seed` starts anew; they draw at `place()`, or where a parameter lives.
"""

from numpy.random import MT19937, PCG64, PCG64DXSM, SFC64, BitGenerator, Philox, SeedSequence

from . import _legacy
from ._generator import Generator, default_rng
from ._legacy import *  # noqa: F403

__all__ = [
    "MT19937", "PCG64", "PCG64DXSM", "SFC64", "BitGenerator", "Generator", "Philox", "SeedSequence", "default_rng",
    *_legacy.__all__,
]  # fmt: skip
