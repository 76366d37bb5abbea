# SPDX-License-Identifier: Apache-2.0
"""Exceptions. None is a TypeError: Tensor's binary operators swallow that one."""


class Error(RuntimeError):
    """Base of everything that Sojourn raises itself; shapes and arguments fail with torch's own errors."""


class ValueNeeded(Error):
    """Python asked for the value of a remote tensor. Publish it, or keep the computation on tensors."""


class Refused(Error):
    """The value may not leave the owner this way, or the owner's policy keeps it."""


class BudgetExhausted(Refused):
    """The budget on a private table does not admit the release, or there is none. What was paid for is not lost."""


class Unsupported(Error, NotImplementedError):
    """An op, dtype or form that cannot be recorded or compiled."""


class OwnerError(Error):
    """The owner answered with an error."""


class ConnectionLost(Error):
    """Nobody answered. The text says whether the step may have run."""


class VersionMismatch(Error):
    """Client and owner speak different versions."""


class DeadlineExceeded(Error, TimeoutError):
    """The time for a loop was up before its last step; `steps` and `results` tell how far it came."""
