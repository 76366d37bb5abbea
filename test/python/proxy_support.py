# SPDX-License-Identifier: Apache-2.0
"""Between a client and a served owner: connections that break after so many bytes, or stand still."""

import pathlib
import socket
import threading
import time


class CuttingProxy:
    """Each connection breaks after as many bytes as `draw()` says, of both directions together. Where that says None, it
    is asked again with the next bytes."""

    def __init__(self, folder: pathlib.Path, target: str, draw):
        self.address = f"ipc://{folder}/proxy.sock"
        self.cuts, self.holds = 0, False
        self._target, self._draw = target.removeprefix("ipc://"), draw
        self._lock = threading.Lock()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(f"{folder}/proxy.sock")
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            try:
                far.connect(self._target)
            except OSError:
                near.close()
                continue
            left = [None]
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(source, target, left), daemon=True).start()

    def _pump(self, source, target, left):
        try:
            while data := source.recv(65536):
                while self.holds:
                    time.sleep(0.02)
                with self._lock:
                    left[0] = self._draw() if left[0] is None else left[0]
                    if left[0] is not None:
                        data = data[: left[0]]
                        left[0] -= len(data)
                    over = left[0] == 0
                    self.cuts += over and bool(data)
                target.sendall(data)
                if over:
                    break
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.holds = False
        self._listener.close()


def free_address() -> str:
    """A TCP address of this machine that was free a moment ago; without encryption."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"
