# SPDX-License-Identifier: Apache-2.0
"""Links between served owners with somebody in the middle who writes down all that crosses."""

import contextlib
import socket
import struct
import threading
import time
from dataclasses import dataclass

import numpy as np
from frames_support import HEAD
from served_parties_support import ServedHospitals

PEER = 2  # the kind of frames between owners
FIELDS = struct.Struct("<32s32sQQIIBBBBI32s")  # owner/peers/FrameBytes.h
TERMS, READY, GONE = 0, 1, 3
PATIENCE = 30  # seconds


@dataclass(frozen=True)
class Frame:
    sender: int
    receiver: int
    kind: int
    exchange: int
    ready: int  # the exchange of a Ready that goes with it, or 0
    terms: bytes

    @property
    def shapes(self):
        """A Ready and the terms that it goes with are two: members' clocks decide whether they go together."""
        ready = [(READY, self.ready, 0)] if self.ready else []
        return [*ready, (self.kind, self.exchange, len(self.terms))]

    def words(self) -> np.ndarray:
        return np.frombuffer(self.terms, dtype=np.uint64)


class Tap:
    """One link: passes bytes on, and keeps them by direction."""

    def __init__(self, path: str, target: str):
        self.forth, self.back = [], []  # parts of bytes: of the one that dials, and of the other one
        self._target = target.removeprefix("ipc://")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.socket(socket.AF_UNIX)
                try:
                    far.connect(self._target)
                except OSError:  # it does not listen yet
                    near.close()
                    continue
                for source, target, kept in ((near, far, self.forth), (far, near, self.back)):
                    threading.Thread(target=self._pump, args=(source, target, kept), daemon=True).start()

    @staticmethod
    def _pump(source, target, kept):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                kept.append(data)
                target.sendall(data)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self):
        self._listener.close()


def frames_in(parts: list[bytes], sender: int, receiver: int) -> list[Frame]:
    """The frames of one direction; handshakes and signs of life are left out."""
    data, at, found = b"".join(parts), 0, []
    while at + HEAD.size <= len(data):
        _, kind, _, size, _ = HEAD.unpack_from(data, at)
        body = data[at + HEAD.size : at + HEAD.size + size]
        at += HEAD.size + size
        if kind == PEER and size:
            fields = FIELDS.unpack_from(body)
            found.append(Frame(sender, receiver, fields[6], fields[5], fields[10], body[FIELDS.size :]))
    return found


class TappedHospitals(ServedHospitals):
    """Served owners whose links all pass by a tap."""

    def __init__(self, *arguments, **options):
        self.taps: dict[tuple[int, int], Tap] = {}
        super().__init__(*arguments, **options)

    def way(self, at, other) -> str:
        path = f"{self.folders[at]}/to-{other}.sock"
        self.taps[at, other] = Tap(path, self.peers[other])
        return f"ipc://{path}"

    def frames(self) -> dict[tuple[int, int], list[Frame]]:
        """By sender and receiver, in order."""
        ways = {}
        for (at, other), tap in self.taps.items():
            for sender, receiver, parts in ((at, other, tap.forth), (other, at, tap.back)):
                ways.setdefault((sender, receiver), []).extend(frames_in(parts, sender, receiver))
        return ways

    def frames_of_closed_group(self) -> dict[tuple[int, int], list[Frame]]:
        """All frames; members say goodbye after the client has its answer, so the last ones may be on their way."""
        until = time.monotonic() + PATIENCE
        while True:
            ways = self.frames()
            late = [way for way, frames in ways.items() if not frames or frames[-1].kind != GONE]
            if not late:
                return ways
            assert time.monotonic() < until, f"no goodbye from sender to receiver: {late}"
            time.sleep(0.01)

    def close(self):
        super().close()
        for tap in self.taps.values():
            tap.close()
