# SPDX-License-Identifier: Apache-2.0
"""Several steps in one message: each commits by itself, and the reply says how far they came."""

import numpy as np
import pytest
from numpy_builder import Client, ProgramBuilder, published, request, t
from numpy_steps import X, add_program, failed

from sojourn_numpy import NumpyOwner, errors, limits, wire


def bump_program() -> bytes:
    """state += slot; publishes the new value and keeps it."""
    p = ProgramBuilder()
    s, k = p.arg("state", t("f32", 3)), p.arg("slot", t("f64"))
    y = p.op("add", [s, p.op("convert", [k], t("f32"))], t("f32", 3))
    p.result("commit", y, 0)
    p.result("publish", y)
    p.result("keep", y)
    return p.encode()


def slot(value: float) -> int:
    return int(np.array(value, np.float64).view(np.uint64))


@pytest.fixture
def client():
    client = Client(NumpyOwner())
    client.step(add_program(), uploads=[0 * X, 0 * X], results=[1])
    return client


def bump(client, *others, **fields):
    """Adds 1, then what the others say, 10 first."""
    parts = [{"slots": [slot(10)]}, {}, {}, {}]
    parts = [part | {"results": [101 + k], "releases": [100 + k]} for k, part in enumerate(parts)]
    for k, changed in others:
        parts[k] |= changed
    fields = {"states": [1], "slots": [slot(1)], "results": [100], **fields}
    return client.step(bump_program(), repetitions=parts, **fields)


def test_each_commits_and_publishes(client):
    reply = bump(client)
    assert reply.kind == "Done" and reply.steps == 5 and reply.failure is None
    np.testing.assert_array_equal(published(reply), np.repeat([[1], [11], [21], [31], [41]], 3, 1))
    assert sorted(client.owner._sessions[client.session].handles) == [1, 104]
    assert client.owner.steps == 6 and client.steps == 2


@pytest.mark.parametrize("changed, code, text", [
    ({"states": [77]}, errors.HANDLE, "unknown handle 77"),
    ({"results": [1], "releases": []}, errors.MALFORMED, "handle 1 is in use"),
    ({"seeds": [3]}, errors.MALFORMED, "1 seed arguments"),
])  # fmt: skip
def test_the_first_that_fails_is_the_last(client, changed, code, text):
    reply = bump(client, (2, changed))
    assert reply.kind == "Done" and reply.steps == 3 and len(published(reply)) == 3
    reply.failure.kind = "Error"
    failed(reply.failure, code, text)
    assert client.owner.steps == 4
    np.testing.assert_array_equal(
        published(bump(client, (0, {"results": [201], "releases": []}), results=[200]))[0], X * 0 + 22
    )


def test_where_the_first_fails_nothing_has_happened(client):
    failed(
        client.step(bump_program(), states=[9], slots=[0], results=[100], repetitions=[{}]), errors.HANDLE, "handle 9"
    )
    assert client.owner.steps == 1


def test_they_are_answered_from_memory(client, monkeypatch):
    sent = []
    monkeypatch.setattr(client, "raw", lambda data, raw=client.raw: sent.append(data) or raw(data))
    bump(client, (1, {"states": [55]}))
    first = client.owner.handle(sent[-1])
    assert first == client.owner.handle(sent[-1]) and client.owner.steps == 3
    monkeypatch.setattr(limits, "REMEMBERED_REPLY_BYTES_MAX", 0)
    bump(client, (1, {"states": [55]}), (0, {"results": [201], "releases": [200]}), results=[200])
    again = wire.read(client.owner.handle(sent[-1]), "Reply", b"SJM1")
    assert again.body_type == "Committed" and again.body.steps == 2 and again.body.failure.code == errors.HANDLE


def test_none_begins_after_the_deadline():
    now = [0.0]
    client = Client(NumpyOwner(clock=lambda: now[0]))
    client.step(add_program(), uploads=[0 * X, 0 * X], results=[1])

    def later(index, op, results):
        now[0] += 0.05  # two ops a step

    client.owner.watch = later
    reply = bump(client, deadline_ms=300)
    assert reply.kind == "Done" and reply.steps == 3 and reply.failure is None


def test_they_are_watched_and_stopped(client):
    seen = []

    def look(index, op, results):
        if index == 0:
            seen.append(client.send("Watch", session=client.session, stop=len(seen) == 3).steps)

    client.owner.watch = look
    assert bump(client).steps == 4
    assert seen == [0, 1, 2, 3]
    client.owner.watch = None
    assert client.send("Watch", session=client.session).steps == 4
    failed(client.send("Watch", session=client.session + 1), errors.SESSION, "unknown or closed")


def test_they_are_limited_in_number_and_in_what_they_publish(client, monkeypatch):
    monkeypatch.setattr(limits, "STEPS_PER_MESSAGE_MAX", 4)
    failed(bump(client), errors.LIMIT, "the message has 5 steps")
    monkeypatch.setattr(limits, "STEPS_PER_MESSAGE_MAX", 5)
    monkeypatch.setattr(limits, "PUBLISHED_BYTES_MAX", 5 * (12 + 256) - 1)
    failed(bump(client), errors.LIMIT, "a reply to 5 steps takes 1340 bytes")
    monkeypatch.setattr(limits, "PUBLISHED_BYTES_MAX", 5 * (12 + 256))
    assert bump(client).steps == 5


def test_uploads_of_the_step_before_serve_again(client):
    reply = client.step(add_program(), uploads=[X, X], results=[10],
                        repetitions=[{"results": [11]}, {"results": [12], "uploads": [X, 3 * X]}])  # fmt: skip
    assert reply.steps == 3
    handles = client.owner._sessions[client.session].handles
    np.testing.assert_array_equal(handles[11], 2 * X)
    np.testing.assert_array_equal(handles[12], 4 * X)


def test_messages_are_read_as_flatc_writes_them():
    data = request("Step", session=1, sequence=2, repetitions=[{"slots": [3], "seeds": [4, 5]}, {}], deadline_ms=7)
    step = wire.read(data, "Request", b"SJM1").body
    assert [part.slots.tolist() for part in step.repetitions] == [[3], []]
    assert step.repetitions[0].seeds.tolist() == [4, 5] and step.deadline_ms == 7
