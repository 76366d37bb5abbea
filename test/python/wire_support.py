# SPDX-License-Identifier: Apache-2.0
"""A connection between a client and an owner of a test's own, on which a test decides what arrives."""

import pytest
import torch

import _sojourn
import sojourn
import sojourn_numpy


def _fail(*arguments):
    raise ValueError("as a kernel would")


OWNERS = {"native": _sojourn.EmbeddedOwner, "numpy": sojourn_numpy.NumpyOwner}


class Wire:
    """Between a client and an owner, which counts what ran. `fates`: one per request to come.

    "lost": the owner handles it, the reply does not come. "dropped": it never arrives. "restarted":
    the reply does not come, and another owner's process stands there then. "failing" (NumPy alone): a
    kernel fails.
    """

    def __init__(self, kind):
        self.kind, self.owner = kind, OWNERS[kind]()
        self.fates, self.requests = [], []
        self.session = _sojourn.Session(self.handle, "far")
        self.device = torch.device("owner", self.session.index)

    def handle(self, request):
        self.requests.append(request)
        fate = self.fates.pop(0) if self.fates else "fine"
        if fate == "dropped":
            raise sojourn.ConnectionLost("the cable is out")
        if fate == "failing":
            self.owner.watch, watch = _fail, self.owner.watch
            try:
                return self.owner.handle(request)
            finally:
                self.owner.watch = watch
        reply = self.owner.handle(request)
        if fate == "restarted":
            self.owner = OWNERS[self.kind]()
        if fate in ("lost", "restarted"):
            raise sojourn.ConnectionLost("the cable is out")
        return reply


@pytest.fixture(name="wire", params=OWNERS)
def wired_owner(request):
    made = Wire(request.param)
    yield made
    made.fates.clear()
    made.session.close()
    made.session = None  # it holds our `handle`: no garbage collector sees that circle
