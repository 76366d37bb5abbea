# SPDX-License-Identifier: Apache-2.0
"""Served owners that know each other, each with a part of a table: for tools/demo and tools/bench."""

import contextlib
import json
import pathlib
import subprocess
import time
from typing import Any

import numpy as np

OWNER_TOOL = pathlib.Path(__file__).resolve().parent.parent / "build/bin/sojourn-owner"
START_LIMIT_S = 60
NAMES = ("alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi")


class Members:
    """Servers of open tables that all other members may see in the clear; to be closed."""

    def __init__(self, folder: pathlib.Path, tables: list[dict], name: str, bounds: dict | None = None):
        """`tables`: of each member, columns by name. `folder`: takes the stores and the servers' logs."""
        self.names = NAMES[: len(tables)]
        self.folders = [folder / member for member in self.names]
        self.addresses = [f"ipc://{place}/owner.sock" for place in self.folders]
        self.peers = [f"ipc://{place}/peers.sock" for place in self.folders]
        self.keys: list[str] = []
        self.servers: list[subprocess.Popen] = []
        ranges = [f"--bound={column}={lower}:{upper}" for column, (lower, upper) in (bounds or {}).items()]
        for place, table in zip(self.folders, tables):
            place.mkdir(parents=True)
            arrays: dict[str, Any] = {column: np.asarray(values) for column, values in table.items()}
            np.savez(place / "table.npz", **arrays)
            self.command(place, "import", place / "table.npz", "--name", name, "--policy=open", "--anyone", *ranges)
            self.keys.append(self.command(place, "key").strip())
        for at, place in enumerate(self.folders):
            others = [other for other in range(len(tables)) if other != at]
            for other in others:
                self.command(
                    place, "peer", "add", self.names[other], "--key", self.keys[other], "--address", self.peers[other]
                )
            if others:
                shared = ",".join(self.names[other] for other in others)
                self.command(place, "share", name, "--with", shared, "--as", "clear")
        try:
            self._serve()
        except BaseException:
            self.close()
            raise

    @staticmethod
    def command(place: pathlib.Path, *words) -> str:
        """The output of a command of one data owner."""
        done = subprocess.run(
            [OWNER_TOOL, *map(str, words), "--store", place / "store"],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode != 0:
            raise SystemExit(f"sojourn-owner {words[0]} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def _serve(self) -> None:
        logs = [place / "server.log" for place in self.folders]
        for place, address, peers, log in zip(self.folders, self.addresses, self.peers, logs):
            command = [str(OWNER_TOOL), "serve", "--store", str(place / "store"), "--listen", address, "--peers", peers]
            with log.open("w") as output:
                self.servers.append(
                    subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
                )
        deadline = time.monotonic() + START_LIMIT_S
        for server, log in zip(self.servers, logs):
            while "listening on" not in log.read_text():
                if server.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"sojourn-owner serve did not start:\n{log.read_text()}")
                time.sleep(0.02)

    def bytes_between(self) -> int:
        """Sent by all members over their links so far."""
        return sum(
            json.loads(self.command(place, "status", "--json"))["servers"][0]["peers"]["bytes_sent"]
            for place in self.folders
        )

    def close(self) -> None:
        for server in self.servers:
            server.terminate()
        for server in self.servers:
            try:
                server.wait(timeout=10)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()

    def __enter__(self) -> "Members":
        return self

    def __exit__(self, *_) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.close()
