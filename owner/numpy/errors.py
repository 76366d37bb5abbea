# SPDX-License-Identifier: Apache-2.0
"""The one exception of this owner: it becomes an Error reply."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")

# ErrorCode of runtime/wire/Messages.fbs.
MALFORMED, VERSION, LIMIT, SESSION, HANDLE, DATASET, REFUSED, UNSUPPORTED, EXECUTION, INTERNAL = range(10)


class OwnerError(ValueError):
    """An error of a request: `code` is an ErrorCode, `location` the scientist's line."""

    def __init__(self, code: int, message: str, op: str = "", location: str = ""):
        super().__init__(message)
        self.code, self.message, self.op, self.location = code, message, op, location


def need(condition: bool, message: str, code: int = MALFORMED) -> None:
    """Checks input from outside; never used for internal errors."""
    if not condition:
        raise OwnerError(code, message)


def found(thing: T | None, message: str, code: int = MALFORMED) -> T:
    """Returns the result of a look-up, or raises where it is None."""
    if thing is None:
        raise OwnerError(code, message)
    return thing
