# SPDX-License-Identifier: Apache-2.0
"""What the remote tests share: one owner per runtime, seeds that are printed, comparison with eager."""

import inspect
import secrets

import torch

import sojourn

_owners = {}


def shared_owner(runtime: str = "native") -> sojourn.Owner:
    """One owner per runtime for the whole run: a process has a bounded number of them."""
    if runtime not in _owners:
        _owners[runtime] = sojourn.local(runtime=runtime)
    return _owners[runtime]


def fresh_seed(label: str) -> int:
    """A new seed per run; pytest shows the line of a test that fails."""
    seed = secrets.randbits(32)
    print(f"{label}: seed {seed}")
    return seed


def here(offset: int = 0) -> str:
    """`file:line` of the caller, `offset` lines further down: what an error must name."""
    frame = inspect.currentframe().f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno + offset}"


def assert_same(remote, eager, what="", rtol=1e-6, atol=1e-9):
    """The published tree equals the eager one: shape, dtype, value; NaN equals NaN."""
    remote = sojourn.publish(remote)
    flat_remote, spec_remote = torch.utils._pytree.tree_flatten(remote)
    flat_eager, spec_eager = torch.utils._pytree.tree_flatten(eager)
    assert spec_remote == spec_eager, what
    for position, (a, b) in enumerate(zip(flat_remote, flat_eager)):
        if isinstance(b, torch.Tensor):
            b = b.detach()
            assert a.dtype == b.dtype and a.shape == b.shape, (
                f"{what}[{position}]: {a.dtype}{a.shape}, eager {b.dtype}{b.shape}"
            )
            torch.testing.assert_close(
                a, b, rtol=rtol, atol=atol, equal_nan=True, msg=lambda m: f"{what}[{position}]: {m}"
            )
        else:
            assert a == b, what


class Count:
    """Differences of an owner's counters over a block."""

    def __init__(self, owner):
        self.owner = owner

    def __enter__(self):
        sojourn.flush()
        self.before = self.owner.counters()
        return self

    def __exit__(self, *exception):
        after = self.owner.counters()
        self.of = {name: after[name] - self.before[name] for name in after}
        # The owner of a long run forgets programs, and each then costs a trip more.
        self.round_trips = self.of["round_trips"] - self.of["programs_resent"]
