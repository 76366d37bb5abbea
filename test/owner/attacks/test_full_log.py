# SPDX-License-Identifier: Apache-2.0
"""Attack: filling the log of programs. It took 100,000 programs by anybody, a minute's work, and then refused everyone
for ever; and nothing told who was refused what."""

import collections
import contextlib
import pathlib
import random
import re
import signal
import sqlite3
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

import sojourn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
from owner_process import ROOT, OwnerProcess

ROW = re.compile(r"^([0-9a-f]{16})  ('[^']*'|\S+) +(\d+) ", re.M)


class Served:
    """A served owner with a small log: of a client with an identity 4 programs, of the others 2."""

    def __init__(self, folder: pathlib.Path, *options: str):
        self.folder, self.process = folder, None
        for name in ("ada", "bob"):
            subprocess.run([ROOT / "build/bin/sojourn", "keygen", folder / name], check=True, capture_output=True)
            self("client", "add", name, "--key", folder / f"{name}.pub")
        self.process = OwnerProcess(folder, None, *options)

    def command(self, *words) -> list[str]:
        return [str(word) for word in (ROOT / "build/bin/sojourn-owner", *words, "--store", self.folder / "store")]

    def __call__(self, *words) -> str:
        done = subprocess.run(self.command(*words), capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def connect(self, name=None):
        return sojourn.connect(self.process.address, identity=self.folder / name if name else None)

    def close(self) -> int:
        """Steps that committed."""
        assert self.process.close() == 0
        return int(re.search(r"closed after \d+ requests and (\d+) steps", self.process.log())[1])

    def archives(self) -> list[pathlib.Path]:
        return sorted((self.folder / "store" / "programs").glob("*.db"))


def runs(listing: str) -> dict[tuple[str, str], int]:
    """By program and client; an archive has one row of a program for each time that it was moved there."""
    found: collections.Counter[tuple[str, str]] = collections.Counter()
    for program, client, count in ROW.findall(listing):
        found[program, client] += int(count)
    return dict(found)


def total(*listings: str) -> int:
    return sum(sum(runs(listing).values()) for listing in listings)


def compute(owner, size: int, generator) -> None:
    """A program that no other size has."""
    given = torch.from_numpy(generator.uniform(-1, 1, size))
    result = (given.to(owner.device) * 3).sum().item()
    assert result == pytest.approx((given * 3).sum().item())


def test_nobody_fills_it_for_others(tmp_path, generator):
    served = Served(tmp_path, "--max-programs", "40")
    with served.connect() as stranger, served.connect("ada") as ada, served.connect("bob") as bob:
        compute(bob, 1, generator)
        of_bob = runs(served("programs"))
        for size in range(2, 22):
            compute(stranger, size, generator)
            compute(ada, size, generator)
        compute(bob, 1, generator)
    listing = served("programs")
    apart = listing.index("programs of clients without an identity; ")
    assert re.match(r"programs of clients without an identity; \d+ older ones went for newer ones\n", listing[apart:])
    known, unknown = runs(listing[:apart]), runs(listing[apart:])
    assert {client for _, client in known} == {"ada", "bob"}
    assert len(unknown) == 2 and all(client.startswith("'") for _, client in unknown)
    assert {key: 2 * count for key, count in of_bob.items()} == {key: known[key] for key in of_bob}
    assert sum(client == "ada" for _, client in known) <= 4
    archives = served.archives()
    assert archives and all(path.name.startswith("ada-") and str(path) in listing for path in archives)
    older = [served("programs", "--from", path) for path in archives]
    steps = served.close()
    dropped = int(re.search(r"(\d+) older ones", listing)[1])
    assert total(listing, *older) + dropped == steps
    program = next(iter(runs(older[0])))[0]
    text = served("programs", "--from", archives[0], "--text", program)
    assert "// client ada, 1 runs" in text and "test_full_log.py:" in text


def test_a_store_that_was_filled_serves_again(tmp_path, generator):
    """The log as the attack leaves it, written at once; the schema is that of releases before shares, too."""
    served = Served(tmp_path)
    served.close()
    with contextlib.closing(sqlite3.connect(tmp_path / "store" / "catalogue.db")) as database, database:
        rows = ((number.to_bytes(32, "little"), "'x'", 1, 1, "// lines", number, number) for number in range(100_000))
        database.executemany("INSERT INTO programs VALUES(?, ?, ?, ?, ?, ?, ?)", rows)
    served.process = OwnerProcess(tmp_path)
    with served.connect() as stranger, served.connect("ada") as ada:
        compute(ada, 3, generator)
        compute(stranger, 4, generator)
    steps = served.close()
    listing = served("programs")
    assert {client for _, client in runs(listing)} > {"ada", "'x'"}
    dropped = int(re.search(r"(\d+) older ones", listing)[1])
    assert total(listing) + dropped == 100_000 + steps and dropped == 500


def test_a_killed_archive_loses_nothing(tmp_path, generator):
    """Archives are written, killed and written again while a client works."""
    dice = random.Random(int(generator.integers(2**32)))
    served = Served(tmp_path)
    files = [tmp_path / f"{number}.db" for number in range(3)]
    with served.connect("ada") as ada, served.connect("bob") as bob:
        for _ in range(25):
            for _ in range(4):
                compute(dice.choice([ada, bob]), dice.randrange(1, 60), generator)
            command = served.command("programs", "--archive", dice.choice(files))
            archiver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(dice.uniform(0, 0.12))
            compute(dice.choice([ada, bob]), dice.randrange(1, 60), generator)
            archiver.send_signal(signal.SIGKILL)
            archiver.wait()
        compute(ada, 70, generator)
        served("programs", "--archive", files[0])
        compute(ada, 70, generator)
    steps = served.close()
    listings = [served("programs", "--from", path) for path in files if path.exists() and path.stat().st_size]
    assert total(served("programs"), *listings) == steps
    assert total(served("programs")) > 0
    served("programs", "--archive", files[0])
    assert served("programs").startswith("no program has run yet")


def test_the_log_tells_who_was_refused_what(tmp_path, generator):
    np.savez(tmp_path / "t.npz", age=generator.uniform(0, 1, 20))
    served = Served(tmp_path)
    begin = time.monotonic()
    served("import", tmp_path / "t.npz", "--name=ages", "--policy=open", "--bound=age=0:1", "--anyone")
    with served.connect() as stranger, served.connect("ada") as ada:
        tables = {name: owner.dataset("ages") for name, owner in (("'", stranger), ("ada", ada))}
        served("access", "ages", "--none")
        for table in tables.values():
            with pytest.raises(sojourn.Error, match="has no access to table 'ages'"):
                table["age"].mean().item()
        log = served.process.log()
        reason = "client 'ada' has no access to table 'ages'; ask the data owner for: sojourn-owner access ages --add"
        assert f"request refused: Refused to ada, Step on 'ages': {reason} ada\n" in log
        assert re.search(r"request refused: Refused to '[^']+', Step on 'ages': a client without an identity", log)
        for _ in range(200):
            with pytest.raises(sojourn.Error):
                tables["'"]["age"].mean().item()
        with pytest.raises(sojourn.Error):
            tables["ada"]["age"].mean().item()
    served.close()
    lines = re.findall(r"request refused: Refused to '.*", served.process.log())
    untold = re.findall(r"requests refused: (\d+) more to clients without an identity", served.process.log())
    assert len(lines) <= 50 + time.monotonic() - begin + 1, "a burst, and one for each second"
    assert len(lines) + sum(map(int, untold)) >= 201, "each value is asked for once or twice"
    assert served.process.log().count("request refused: Refused to ada, ") >= 2, "others have their own lines"
