# SPDX-License-Identifier: Apache-2.0
"""Attack: connections that close without waiting. Bursts of three requests and a close jammed the reaper of nng 1.6:
every later connection kept its descriptor, and at 1,024 no client was served."""

import contextlib
import os
import pathlib
import resource
import secrets
import socket
import sys
import time

import pytest
import torch

import sojourn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
from frames_support import HEAD, SMALL, Connection, frame
from owner_process import OwnerProcess

CONNECTIONS = 10_000


def rude(kind: int, generator) -> list[bytes]:
    """The pieces that a connection writes before it closes."""
    body = generator.bytes(int(generator.integers(200)))
    if kind == 0:
        return []
    if kind == 1:
        return [frame(body)[: int(generator.integers(1, HEAD.size))]]
    if kind == 2:
        return [frame(body + b"more")[:-2]]
    return [frame(body)] * int(generator.choice((1, 2, 3, 5, 30)))


def test_connections_that_close_at_once_keep_no_descriptor(generator, tmp_path):
    process = OwnerProcess(tmp_path)
    try:
        with sojourn.connect(process.address) as owner:
            before = process.descriptors()
            for _ in range(CONNECTIONS):
                with socket.socket(socket.AF_UNIX) as client:
                    client.connect(process.address.removeprefix("ipc://"))
                    try:
                        for piece in rude(int(generator.integers(4)), generator):
                            client.sendall(piece)
                    except BrokenPipeError:
                        pass  # the owner was quicker
            end = time.monotonic() + 20
            while process.descriptors() > before + 4 and time.monotonic() < end:
                time.sleep(0.05)
            assert process.descriptors() <= before + 4
            x = torch.from_numpy(generator.standard_normal(5))
            assert torch.equal((x.to(owner.device) * 3).cpu(), x * 3)
        with sojourn.connect(process.address) as another:
            assert torch.equal((x.to(another.device) + 1).cpu(), x + 1)
    finally:
        assert process.close() == 0


def test_replies_that_nobody_takes(tmp_path):
    """Attack: a connection that sends requests and reads no reply held a thread of the server for each of them."""
    process = OwnerProcess(tmp_path)
    try:
        with sojourn.connect(process.address) as owner, contextlib.ExitStack() as stack:
            x = torch.ones(3).to(owner.device)
            assert (x + 1).tolist() == [2, 2, 2]
            before = process.resident()
            for _ in range(40):
                client = stack.enter_context(Connection(process.address, timeout=0.5))
                try:  # garbage, each with an error as its reply, until the connection takes no more
                    for _ in range(20_000):
                        client.socket.sendall(frame(b"no request"))
                except TimeoutError:
                    pass
            for i in range(20):
                assert (x + i).tolist() == [1 + i] * 3
            assert process.resident() - before < 16 << 20
    finally:
        assert process.close() == 0


def test_promises_of_long_messages(generator, tmp_path):
    """Attack: nng took memory for whatever length a connection announced, before it had said who it was."""
    process = OwnerProcess(tmp_path)
    try:
        with sojourn.connect(process.address) as owner, contextlib.ExitStack() as stack:
            x = torch.from_numpy(generator.standard_normal(5)).to(owner.device)
            sojourn.flush()
            before, size = process.resident(), 64 << 20
            for _ in range(20):  # halves of messages of no session
                client = stack.enter_context(Connection(process.address))
                client.socket.sendall(frame(bytes(size))[: size // 2])
            assert process.resident() - before < 32 << 20
            with Connection(process.address) as whole:  # which is told why, and may go on
                for session in (0, secrets.randbits(63)):
                    assert b"session" in whole.handle(bytes(SMALL + 1), session)
                assert b"not a request" in whole.handle(bytes(SMALL), secrets.randbits(63))
            with Connection(process.address) as far:  # longer than any
                far.socket.sendall(HEAD.pack(b"SJN1", 0, 0, 1 << 40, 0))
                with pytest.raises(ConnectionResetError):
                    far.receive()
            assert (x * 3).sum().isfinite()
    finally:
        assert process.close() == 0


def test_connections_without_a_session_end(tmp_path):
    """Attack: thousands of connections that say nothing, so that no client gets in."""
    process = OwnerProcess(tmp_path)
    try:
        resource.prlimit(os.getpid(), resource.RLIMIT_NOFILE, (10_000, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        with sojourn.connect(process.address) as owner, contextlib.ExitStack() as stack:
            x = torch.ones(3).to(owner.device)
            assert (x + 1).tolist() == [2, 2, 2]
            for _ in range(4_500):
                stack.enter_context(Connection(process.address))
            assert (x + 2).tolist() == [3, 3, 3]
            with sojourn.connect(process.address) as late:
                assert torch.ones(2).to(late.device).tolist() == [1, 1]
            assert process.descriptors() < 4_500
    finally:
        assert process.close() == 0
