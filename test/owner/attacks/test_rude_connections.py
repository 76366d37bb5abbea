# SPDX-License-Identifier: Apache-2.0
"""Attack: connections that close without waiting. Bursts of three requests and a close jammed the reaper of nng 1.6:
every later connection kept its descriptor, and at 1,024 no client was served."""

import contextlib
import os
import pathlib
import secrets
import socket
import struct
import sys
import time

import torch

import sojourn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
from owner_process import OwnerProcess

HELLO = b"\0SP\0" + struct.pack(">HH", 0x30, 0)  # nng's protocol number of a requester
CONNECTIONS = 10_000


def message(body: bytes) -> bytes:
    """A request as nng frames it over ipc: kind, length, request id, body."""
    body = struct.pack(">I", 0x80000000 | secrets.randbits(31)) + body
    return b"\1" + struct.pack(">Q", len(body)) + body


def rude(kind: int, generator) -> list[bytes]:
    """The pieces that a connection writes before it closes."""
    body = generator.bytes(int(generator.integers(200)))
    if kind == 0:
        return []
    if kind == 1:
        return [HELLO[: int(generator.integers(1, 8))]]
    if kind == 2:
        return [HELLO, message(body)[: int(generator.integers(1, 13))]]
    return [HELLO] + [message(body)] * int(generator.choice((1, 2, 3, 5, 30)))


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def test_connections_that_close_at_once_keep_no_descriptor(generator, tmp_path):
    process = OwnerProcess(tmp_path)
    try:
        with sojourn.connect(process.address) as owner:
            before = descriptors(process.pid)
            for _ in range(CONNECTIONS):
                with socket.socket(socket.AF_UNIX) as client:
                    client.connect(process.address.removeprefix("ipc://"))
                    try:
                        for piece in rude(int(generator.integers(4)), generator):
                            client.sendall(piece)
                    except BrokenPipeError:
                        pass  # the owner was quicker
            end = time.monotonic() + 20
            while descriptors(process.pid) > before + 4 and time.monotonic() < end:
                time.sleep(0.05)
            assert descriptors(process.pid) <= before + 4
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
            for _ in range(4):
                client = stack.enter_context(socket.socket(socket.AF_UNIX))
                client.connect(process.address.removeprefix("ipc://"))
                client.settimeout(5)
                client.sendall(HELLO)
                try:  # garbage, each with an error as its reply, until the server closes
                    for _ in range(20_000):
                        client.sendall(message(b"no request"))
                except (BrokenPipeError, ConnectionResetError, TimeoutError):
                    pass
            for i in range(20):
                assert (x + i).tolist() == [1 + i] * 3
            assert "replies that its client does not take is closed" in process.log()
    finally:
        assert process.close() == 0
