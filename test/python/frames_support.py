# SPDX-License-Identifier: Apache-2.0
"""A served owner's wire, past any client: frames as runtime/stream/Frame.h has them, over a Unix socket."""

import socket
import struct

HEAD = struct.Struct("<4sIQQQ")  # magic, kind, session, bytes of the message, zero
SMALL = 64 << 10  # bytes of a message without a session


def frame(message: bytes, session: int = 0, kind: int = 0, magic: bytes = b"SJN1") -> bytes:
    return HEAD.pack(magic, kind, session, len(message), 0) + message


class Connection:
    """One connection to a served owner."""

    def __init__(self, address: str, timeout: float = 30):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(address.removeprefix("ipc://"))
        self.socket.settimeout(timeout)

    def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise ConnectionResetError("the owner closed the connection")
            data += part
        return data

    def receive(self) -> bytes:
        magic, kind, _, size, zero = HEAD.unpack(self.read(HEAD.size))
        assert (magic, kind, zero) == (b"SJN1", 0, 0)
        return self.read(size)

    def handle(self, request: bytes, session: int = 0) -> bytes:
        self.socket.sendall(frame(request, session))
        return self.receive()

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()
