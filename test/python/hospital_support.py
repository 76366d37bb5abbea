# SPDX-License-Identifier: Apache-2.0
"""A data owner's store with its commands, clients with identities, and a server on it."""

import contextlib
import pathlib
import subprocess

import numpy as np
import pytest
from owner_process import OwnerProcess

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROWS, DELTA = 64, 1e-5


def command(tool, *arguments, code=0):
    """What a command line tool prints, with its exit status checked."""
    done = subprocess.run([ROOT / "build/bin" / tool, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == code, (arguments, done.returncode, done.stdout + done.stderr)
    return done.stdout + done.stderr


class Hospital:
    """A store of a data owner, with a server on it while `serving`."""

    def __init__(self, folder: pathlib.Path, seed: int):
        self.folder = folder
        self.data = {name: np.random.default_rng(seed).uniform(0, 1, ROWS) for name in ("age", "weight")}
        self.data["ill"] = np.random.default_rng(seed).integers(0, 2, ROWS)
        self.process = None

    def __call__(self, *arguments, code=0):
        first, *rest = arguments
        words = first.split()
        return command("sojourn-owner", *words, *rest, "--store", self.folder / "store", code=code)

    def add_table(self, name, *more):
        path = self.folder / f"{name}.npz"
        np.savez(path, **self.data)
        bounds = [f"--bound={column}=0:1" for column in self.data]
        self("import", path, "--name", name, "--policy=private", "--rows-are-subjects", *bounds, *more)

    def add_client(self, name) -> pathlib.Path:
        identity = self.folder / f"{name}.key"
        command("sojourn", "keygen", identity)
        self("client add", name, "--key", f"{identity}.pub")
        return identity

    def grant(self, client, table, epsilon):
        return self("budget grant", client, table, "--epsilon", epsilon, "--delta", DELTA)

    @contextlib.contextmanager
    def serving(self):
        with contextlib.suppress(FileNotFoundError):
            (self.folder / "o.sock").unlink()
        process = OwnerProcess(self.folder)
        try:
            yield process.address
        finally:
            assert process.close() == 0


@pytest.fixture(name="hospital")
def hospital_with_patients(tmp_path, seed):
    hospital = Hospital(tmp_path, seed)
    hospital.add_table("patients")
    hospital("budget cap patients", "--epsilon", 8, "--delta", DELTA)
    return hospital
