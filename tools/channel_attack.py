# SPDX-License-Identifier: Apache-2.0
"""A client that reads a private row by the time of replies, for tools/bench_channels.py and the test of the defence.

The tables of one store are the worlds, and differ in the label of one row alone. The client has a key and a grant, knows which
table has which label while it learns, and guesses from the time of a reply alone. Its program is slow where the label is
1: a sort, a search for the largest number that a NaN ends, a scan that a NaN shortens, powers of whole numbers. None of
them is slower than with random numbers, so the owner's time for the step is long enough.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
import torch

import sojourn

BIN = pathlib.Path(__file__).resolve().parent.parent / "build/bin"
ROWS, ROW = 64, 17
ELEMENTS = 6144
POWERS = 256
MANY = 1 << 18  # where a step writes to the disk, or has to take longer than its time
DELTA, CAP, PRICE = 1e-5, 2.0**19, 0.02
# Labels of the row that differs; the third table is the first one once more, to tell what the tables' places do.
WORLDS = {"zero": 0, "one": 1, "again": 0}
CLOSED = 20  # errors in a row on one table after which it counts as closed


def command(tool: str, *words) -> str:
    done = subprocess.run([str(BIN / tool), *map(str, words)], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise RuntimeError(f"{tool} {words[0]} failed: {done.stdout}{done.stderr}")
    return done.stdout


def make_store(folder: pathlib.Path, seed: int) -> None:
    """The tables, a client `ada`, grants that hardly any number of replies can spend, and a client `bob` without."""
    store, generator = folder / "store", np.random.default_rng(seed)
    dose = generator.uniform(0, 1, ROWS)
    for client in ("ada", "bob"):
        command("sojourn", "keygen", folder / f"{client}.key")
    for number, (name, label) in enumerate(WORLDS.items()):
        labels = np.zeros(ROWS)
        labels[ROW] = label
        np.savez(folder / f"{name}.npz", dose=dose, label=labels)
        bounds = ("--bound=dose=0:1", "--bound=label=0:1")
        terms = ("--name", name, "--policy=private", "--rows-are-subjects", *bounds)
        command("sojourn-owner", "import", folder / f"{name}.npz", "--store", store, *terms)
        if number == 0:
            for client in ("ada", "bob"):
                command(
                    "sojourn-owner", "client", "add", client, "--key", folder / f"{client}.key.pub", "--store", store
                )
        price = ("--epsilon", CAP, "--delta", DELTA, "--store", store)
        command("sojourn-owner", "budget", "cap", name, *price)
        command("sojourn-owner", "budget", "grant", "ada", name, *price)


@contextlib.contextmanager
def serving(folder: pathlib.Path, headroom: float | None, *options: str) -> Iterator[str]:
    """The address of a server on the store; `headroom`: of its replies (None: the default)."""
    address, log = f"ipc://{folder}/owner.sock", folder / "log"
    (folder / "owner.sock").unlink(missing_ok=True)
    words = ["serve", "--store", str(folder / "store"), "--listen", address, *options]
    words += [] if headroom is None else ["--headroom", str(headroom)]
    environment = dict(os.environ, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    with log.open("w") as out:
        server = subprocess.Popen(
            [str(BIN / "sojourn-owner"), *words], stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment
        )
    try:
        end = time.monotonic() + 30
        while "listening on" not in log.read_text():
            if server.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"no owner: {log.read_text()}")
            time.sleep(0.005)
        yield address
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


@dataclasses.dataclass
class Replies:
    """Of one series: the world of each, its time, and whether it was an error."""

    worlds: np.ndarray
    seconds: np.ndarray
    failed: np.ndarray
    closed: str = ""  # why the series ended early

    def of(self, *names: str) -> Replies:
        """Those of some worlds, in their order."""
        numbers = [list(WORLDS).index(name) for name in names]
        kept = np.isin(self.worlds, numbers)
        return Replies(self.worlds[kept], self.seconds[kept], self.failed[kept], self.closed)

    def labels(self, one: str) -> np.ndarray:
        return (self.worlds == list(WORLDS).index(one)).astype(np.int64)


class Attacker:
    """A connection, and the program. `publishes`: its steps also release a mean with noise, and pay for it. `overruns`:
    where the label is 1, they take far longer than with random numbers."""

    def __init__(self, address: str, folder: pathlib.Path, publishes: bool, seed: int, overruns: bool = False):
        torch.manual_seed(seed)
        self.owner = sojourn.connect(address, identity=folder / "ada.key", timeout=60)
        self.tables = [self.owner.dataset(name) for name in WORLDS]
        self.publishes, self.overruns = publishes, overruns
        many, powers = MANY if publishes else ELEMENTS, MANY if overruns else POWERS
        order = torch.randperm(many).to(torch.float64) - many // 2
        order[0] = 0  # over a label of 0 it is NaN
        self.order = order.to(self.owner.device)
        exponents = torch.full((powers,), 2**62 - 1) if overruns else torch.randint(0, 8, (powers,))
        self.exponents = exponents.to(self.owner.device)
        self.bases = torch.full((powers,), 3).to(self.owner.device)
        self.kept = torch.zeros((), dtype=torch.float64).to(self.owner.device)
        sojourn.flush()

    def step(self, table):
        with sojourn.step():
            label = table["label"][ROW]
            largest = (self.order / label).argmax() + torch.logcumsumexp(self.order / label, 0)[-1]
            # A rehearsal with random numbers does not meet a label of exactly 1.
            chosen = (label == 1) if self.overruns else label
            powers = torch.pow(self.bases, self.exponents * chosen.to(torch.int64)).sum()
            self.kept = torch.sort(self.order * label).values[0] + largest + powers
            if self.publishes:
                sojourn.publish(table["dose"].mean(), epsilon=PRICE)

    def once(self, table) -> tuple[float, str]:
        """Seconds until the reply, and its error."""
        error = ""
        begin = time.perf_counter()
        try:
            self.step(table)
            sojourn.flush()
        except sojourn.Error as caught:
            error = f"{type(caught).__name__}: {caught}"
        return time.perf_counter() - begin, error

    def replies(self, count: int, worlds: tuple[str, ...], seed: int, show=lambda: None) -> Replies:
        """So many replies of each of these worlds, in random order. The first ones are left out."""
        warm = 0 if self.overruns else min(200, max(20, count // 20))  # an overrun tells from the first reply on
        numbers = [list(WORLDS).index(name) for name in worlds]
        order = np.repeat(numbers, count)
        random = np.random.default_rng(seed)
        random.shuffle(order)
        order = np.concatenate([np.resize(numbers, warm), order])
        seconds, failed, closed = np.empty(len(order)), np.zeros(len(order), dtype=bool), ""
        errors: dict[int, list[int]] = {number: [] for number in numbers}  # of each table, since its last reply
        for at, number in enumerate(order):
            seconds[at], error = self.once(self.tables[number])
            failed[at] = bool(error)
            errors[number] = [*errors[number], at] if error else []
            show()
            if len(errors[number]) == CLOSED:  # refusals, whose times tell nothing
                closed, first = error, errors[number][0]
                order, seconds, failed = order[:first], seconds[:first], failed[:first]
                break
        kept = slice(warm, None)
        return Replies(order[kept], seconds[kept], failed[kept], closed)

    def close(self) -> None:
        self.owner.close()


class Neighbour(Attacker):
    """Another client's session, which reads no table, beside steps that do: what the owner's load tells. Another
    session of the same client would wait for its place."""

    def __init__(self, address: str, folder: pathlib.Path, seed: int):
        super().__init__(address, folder, True, seed)
        words = [sys.executable, __file__, address, str(folder)]
        environment = dict(os.environ, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, env=environment)
        self.times: list[tuple[float, float]] = []  # when a step began, and how long it took
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        while words := self.process.stdout.read(16):
            self.times.append(struct.unpack("dd", words))

    def once(self, table) -> tuple[float, str]:
        """Seconds of one of the other session's steps, on average, while the first one has a step under way."""
        self.times.clear()
        begin = time.perf_counter()
        _, error = super().once(table)
        end = time.perf_counter()
        while not self.times or self.times[-1][0] < end:
            time.sleep(0.001)
        return float(np.mean([took for at, took in list(self.times) if begin <= at < end])), error

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        super().close()


def run_beside(address: str, folder: pathlib.Path) -> None:
    """Writes when each of its steps began, and how long it took, until it is killed."""
    number = torch.zeros(1000).to(sojourn.connect(address, identity=folder / "bob.key").device)
    while True:
        begin = time.perf_counter()
        number += 1
        sojourn.flush()
        os.write(1, struct.pack("dd", begin, time.perf_counter() - begin))


def attack(
    folder: pathlib.Path, headroom: float | None, publishes: bool, count: int, worlds: tuple[str, ...], seed: int,
    show=lambda: None, overruns: bool = False, beside: bool = False,
) -> Replies:  # fmt: skip
    """So many replies of each world, from a new server on the store in `folder`; `beside`: by the times of Neighbour."""
    with serving(folder, headroom) as address:
        attacker = Neighbour(address, folder, seed) if beside else Attacker(address, folder, publishes, seed, overruns)
        try:
            return attacker.replies(count, worlds, seed, show)
        finally:
            attacker.close()


if __name__ == "__main__":
    run_beside(sys.argv[1], pathlib.Path(sys.argv[2]))
