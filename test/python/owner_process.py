# SPDX-License-Identifier: Apache-2.0
"""A served owner as a process of its own."""

import os
import pathlib
import re
import signal
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


class OwnerProcess:
    """`sojourn-owner serve` on this machine, and what its own log says of the requests that reached it.

    Its replies leave at once unless the options say otherwise: the machine does other things beside a test, and steps on
    private tables would take longer than their time now and then.
    """

    def __init__(
        self, folder: pathlib.Path, address: str | None = None, *options: str, environment: dict[str, str] | None = None
    ):
        self.address, self.store = address or f"ipc://{folder}/o.sock", folder / "store"
        self._log = folder / "log"
        if self.address.startswith("tcp:"):
            options = (*options, "--plain-tcp")
        if "--headroom" not in options:
            options = (*options, "--headroom", "0")
        command = [ROOT / "build/bin/sojourn-owner", "serve", "--store", self.store, "--listen", self.address, *options]
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [*command, "--verbose"], stdout=log, stderr=log, env=os.environ | (environment or {})
            )
        self.pid = self._process.pid
        # Not the socket's file: it is there once its name is bound, and nobody is let in before the owner listens.
        self._wait(lambda: f"listening on {self.address}\n" in self.log())
        assert "listening on" in self.log(), f"sojourn-owner does not listen after 20 seconds:\n{self.log()}"

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def resident(self) -> int:
        """Bytes of memory."""
        return int(pathlib.Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    def log(self) -> str:
        return self._log.read_text()

    def requests(self, at_least: int = 0) -> int:
        """Requests answered so far. A line is written after its reply, so wait for those that are known of."""
        self._wait(lambda: self._lines() >= at_least)
        return self._lines()

    def settled(self) -> int:
        """Requests answered, once no further line comes."""
        count = -1
        while count != self._lines():
            count = self._lines()
            time.sleep(0.05)
        return count

    def _lines(self) -> int:
        return len(re.findall(r"request of \d+ bytes, reply of", self.log()))

    def _wait(self, condition, seconds=20):
        end = time.monotonic() + seconds
        while not condition() and time.monotonic() < end:
            assert self._process.poll() is None, f"sojourn-owner ended with {self._process.returncode}:\n{self.log()}"
            time.sleep(0.002)

    def close(self) -> int:
        """Interrupts the server; its exit status."""
        self._process.send_signal(signal.SIGINT)
        try:
            return self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
