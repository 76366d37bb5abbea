# SPDX-License-Identifier: Apache-2.0
"""Exceptions. None is a TypeError, because Tensor's binary operators swallow TypeErrors."""


class Error(RuntimeError):
    """Base class of Sojourn's exceptions; invalid shapes and arguments raise torch's own errors."""


class ValueNeeded(Error):
    """Python asked for the value of a remote tensor. Publish it, or keep the computation on tensors."""


class Refused(Error):
    """The value may not leave the owner this way, or the owner's policy forbids it."""


class BudgetExhausted(Refused):
    """The budget on a private table is missing or does not admit the release. Values already paid for are not lost."""


class Unsupported(Error, NotImplementedError):
    """An op, dtype or form that cannot be recorded or compiled."""


class OwnerError(Error):
    """The owner answered with an error."""


class ConnectionLost(Error):
    """No owner answered. The text says whether the step may have run."""


class VersionMismatch(Error):
    """Client and owner speak different versions."""


class DeadlineExceeded(Error, TimeoutError):
    """The deadline of a loop passed before its last step; `steps` and `results` show its progress."""
