# SPDX-License-Identifier: Apache-2.0
"""Groups of served owners, a process each, as their data owners set them up: for tests."""

import socket
import subprocess

import numpy as np
import torch
from owner_process import ROOT, OwnerProcess
from parties_support import columns

import sojourn

BOUNDS = ["--bound", "age=-9:9", "--bound", "dose=-20:9"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class ServedHospitals:
    """Some owners with a table each, as their data owners set them up."""

    def __init__(self, folder, rows, rng, tls=False, share="clear", strangers=(), fill=None):
        self.names = ["alice", "bob", "carol", "dave", "erin"][: len(rows)]
        self.folders = [folder / name for name in self.names]
        self.data = [columns(count, rng) for count in rows]
        if fill is not None:  # the same value in all rows
            self.data = [
                {
                    name: torch.full_like(values, min(fill, 1) if name == "relapse" else fill)
                    for name, values in table.items()
                }
                for table in self.data
            ]
        self.addresses, self.peers = [], []
        for place in self.folders:
            place.mkdir()
            for kind, addresses in (("o", self.addresses), ("peers", self.peers)):
                addresses.append(f"tls+tcp://127.0.0.1:{free_port()}" if tls else f"ipc://{place}/{kind}.sock")
        for at, table in enumerate(self.data):
            file = self.folders[at] / "patients.npz"
            np.savez(file, **{name: value.numpy() for name, value in table.items()})
            self.command(at, "import", file, "--name", "patients", "--policy", "open", "--anyone", *BOUNDS)
        keys = [self.command(at, "key").strip() for at in range(len(rows))]
        for at in range(len(rows)):
            for other, name in enumerate(self.names):
                if other != at and (at, other) not in strangers:
                    self.command(at, "peer", "add", name, "--key", keys[other], "--address", self.way(at, other))
            others = [name for other, name in enumerate(self.names) if other != at and (at, other) not in strangers]
            if share and others:
                self.command(at, "share", "patients", "--with", ",".join(others), "--as", share)
        self.processes = [None] * len(rows)
        for at in range(len(rows)):
            self.serve(at)
        self.owners = [sojourn.connect(address) for address in self.addresses]
        plain = [
            sojourn.plain(table, name="patients", bounds={"age": (-9, 9), "dose": (-20, 9)}) for table in self.data
        ]
        self.pooled = sojourn.pooled(*plain)

    def way(self, at, other) -> str:
        """The address at which an owner reaches another one."""
        return self.peers[other]

    def serve(self, at):
        self.processes[at] = OwnerProcess(self.folders[at], self.addresses[at], "--peers", self.peers[at])

    def command(self, at, *arguments, fails=False) -> str:
        done = subprocess.run(
            [ROOT / "build/bin/sojourn-owner", *map(str, arguments), "--store", self.folders[at] / "store"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stdout + done.stderr

    def close(self):
        for process in self.processes:
            if process and process._process.poll() is None:
                process.close()
