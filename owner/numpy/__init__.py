# SPDX-License-Identifier: Apache-2.0
"""Sojourn's second runtime: a whole owner for open tables, in Python on NumPy."""

from .errors import OwnerError
from .owner import NumpyOwner
from .program import decode
from .run import run

__all__ = ["NumpyOwner", "OwnerError", "decode", "run"]
