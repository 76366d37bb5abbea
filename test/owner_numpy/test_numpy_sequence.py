# SPDX-License-Identifier: Apache-2.0
"""Steps are counted and run once: repetitions, gaps, other content, lost replies, two threads at once."""

import threading

import numpy as np
import pytest
from numpy_builder import Client, ProgramBuilder, published, request, t

from sojourn_numpy import NumpyOwner, errors, limits
from sojourn_numpy.program import program_hash


def counting_program() -> bytes:
    """state <- state + 1, and the new value is published."""
    p = ProgramBuilder()
    w = p.arg("state", t("f32", 3))
    new = p.op("add", [w, p.op("constant", [], t("f32"), value=1.0)], t("f32", 3))
    p.result("commit", new, 0)
    p.result("publish", new)
    return p.encode()


def keeping_program() -> bytes:
    p = ProgramBuilder()
    p.result("keep", p.arg("upload", t("f32", 3)))
    return p.encode()


@pytest.fixture
def client():
    client = Client(NumpyOwner())
    client.step(keeping_program(), uploads=[np.zeros(3, np.float32)], results=[1])
    return client


def step(client, sequence, program=None, **fields):
    program = program or counting_program()
    fields = {"program": program, "states": [1], **fields}
    return request("Step", session=client.session, sequence=sequence, program_hash=program_hash(program), **fields)


def failed(reply, code, *texts):
    assert reply.kind == "Error" and reply.code == code, reply
    assert all(text in reply.message for text in texts), reply.message


def test_a_repetition_is_answered_and_not_run(client):
    data = step(client, 2)
    first = client.owner.handle(data)
    assert [client.owner.handle(data) for _ in range(3)] == [first] * 3
    assert client.owner.steps == 2
    assert published(client.raw(step(client, 3)))[0].tolist() == [2, 2, 2]


def test_the_same_number_with_other_content_names_both(client):
    assert client.raw(step(client, 2)).kind == "Done"
    failed(
        client.raw(step(client, 2, releases=[1])),
        errors.MALFORMED,
        "step 2 was already committed with other content",
        "this one has",
    )
    assert published(client.raw(step(client, 3)))[0].tolist() == [2, 2, 2]


@pytest.mark.parametrize("sequence", [0, 3, 7, 2**64 - 1])
def test_gaps_are_refused(client, sequence):
    failed(client.raw(step(client, sequence)), errors.MALFORMED, f"number {sequence}, expected 2, or 1 to repeat")
    fresh = Client(client.owner)
    failed(fresh.raw(step(fresh, 0)), errors.MALFORMED, "number 0, expected 1:")
    assert client.owner.steps == 1


def test_what_did_not_run_uses_no_number(client):
    assert client.raw(step(client, 2, program=keeping_program(), states=[])).kind == "Error"  # no upload
    other = Client(client.owner)
    p = ProgramBuilder()
    p.result("publish", p.op("constant", [], t("f32"), value=2.5))
    data = request("Step", session=other.session, sequence=1, program_hash=program_hash(p.encode()))
    assert other.raw(data).kind == "NeedProgram"
    assert other.raw(data).kind == "NeedProgram"
    assert published(other.step(p.encode()))[0] == np.float32(2.5)
    assert published(client.raw(step(client, 2)))[0].tolist() == [1, 1, 1]


def test_a_large_reply_is_remembered_as_committed(client, monkeypatch):
    monkeypatch.setattr(limits, "REMEMBERED_REPLY_BYTES_MAX", 20)
    data = step(client, 2)
    assert client.raw(data).kind == "Done"
    assert client.raw(data).kind == "Committed"
    assert client.owner.steps == 2


def test_an_unknown_session_says_that_the_answer_is_unknown(client):
    client.session ^= 1
    failed(client.raw(step(client, 1)), errors.SESSION, "whether this step ran is unknown")


def test_a_repetition_on_another_thread_waits_for_the_first(client):
    started, go = threading.Event(), threading.Event()

    def hold(index, op, results):
        started.set()
        assert go.wait(30)

    client.owner.watch = hold
    data, answers = step(client, 2), []
    threads = [threading.Thread(target=lambda: answers.append(client.owner.handle(data))) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert started.wait(30)
    go.set()
    for thread in threads:
        thread.join(30)
    assert len(answers) == 3 and len(set(answers)) == 1
    assert client.owner.steps == 2
