# SPDX-License-Identifier: Apache-2.0
"""Uploads that go ahead of a step in parts, at the NumPy owner."""

import numpy as np
import pytest
from numpy_builder import Client, ProgramBuilder, published, t

from sojourn_numpy import NumpyOwner, errors, limits


@pytest.fixture
def client():
    return Client(NumpyOwner())


def part(client, upload, size, offset, data=b""):
    reply = client.send("Upload", session=client.session, upload=upload, size=size, offset=offset, data=data)
    return reply.bytes if reply.kind == "Received" else (reply.code, reply.message)


def publish(client, upload):
    """A step that binds f32 [3] from an upload that was sent ahead and publishes it."""
    p = ProgramBuilder()
    p.result("publish", p.arg("upload", t("f32", 3)))
    return client.step(p.encode(), uploads=[(8, [3], b"", upload)])


def test_parts_join_in_order(client):
    values = np.array([1, 2, 3], np.float32)
    data = values.tobytes()
    assert part(client, 1, 12, 0, data[:5]) == 5
    assert part(client, 1, 12, 0, data[:5]) == 5  # once more: no harm
    assert part(client, 1, 12, 9, data[9:]) == 5  # too early
    assert part(client, 1, 12, 5) == 5  # only asks
    reply = publish(client, 1)
    assert reply.kind == "Error" and "is incomplete" in reply.message
    assert part(client, 1, 12, 5, data[5:]) == 12
    assert published(publish(client, 1))[0].tolist() == values.tolist()
    assert publish(client, 1).kind == "Error"  # consumed


def test_bounds(client, monkeypatch):
    monkeypatch.setattr(limits, "HANDLE_BYTES_MAX", 100)
    monkeypatch.setattr(limits, "UPLOADS_MAX", 2)
    assert part(client, 1, 101, 0)[0] == errors.LIMIT
    assert part(client, 0, 12, 0)[0] == errors.MALFORMED
    assert part(client, 1, 12, 0, b"x" * 12) == 12
    assert part(client, 1, 12, 12, b"x")[0] == errors.MALFORMED
    assert part(client, 1, 13, 12, b"x")[0] == errors.MALFORMED
    assert part(client, 1, 12, 2**64 - 1, b"x")[0] == errors.MALFORMED
    assert part(client, 2, 89, 0)[0] == errors.LIMIT
    assert part(client, 2, 88, 0) == 0
    assert part(client, 3, 1, 0)[0] == errors.LIMIT
    assert part(client, 2, 0, 0) == 0  # dropped
    assert part(client, 3, 88, 0) == 0
