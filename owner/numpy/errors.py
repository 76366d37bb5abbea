# SPDX-License-Identifier: Apache-2.0
"""The one exception of this owner: it becomes an Error reply."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")

# ErrorCode of runtime/wire/Messages.fbs.
MALFORMED, VERSION, LIMIT, SESSION, HANDLE, DATASET, REFUSED, UNSUPPORTED, EXECUTION, INTERNAL = range(10)


class OwnerError(ValueError):
    """What went wrong, for whom: `code` is an ErrorCode, `location` the scientist's line."""

    def __init__(self, code: int, message: str, op: str = "", location: str = ""):
        super().__init__(message)
        self.code, self.message, self.op, self.location = code, message, op, location


def need(condition: bool, message: str, code: int = MALFORMED) -> None:
    """Checks what came from outside; never used for our own mistakes."""
    if not condition:
        raise OwnerError(code, message)


def found(thing: T | None, message: str, code: int = MALFORMED) -> T:
    """Likewise, of what was looked up."""
    if thing is None:
        raise OwnerError(code, message)
    return thing
