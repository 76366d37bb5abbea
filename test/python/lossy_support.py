# SPDX-License-Identifier: Apache-2.0
"""A wire that loses, doubles, delays and reorders messages, by a seed, and training that has to come through it.

A real client and a real owner are in one process; the wire lies between them. `python lossy_support.py --runs 10000`
runs as many seeds; tests take some hundreds.
"""

import argparse
import collections
import gc
import json
import pathlib
import random
import sys
import time
import traceback

import torch

import _sojourn
import sojourn

DELTA = 1e-5
ROWS = 12
BOUNDS = {"a": (0.0, 8.0), "b": (0.0, 8.0)}


class Lossy:
    """The owner's end of a wire. A session over it sees what a socket can do to requests and replies."""

    def __init__(self, owner):
        self.owner, self.random = owner, random.Random(0)
        self.rate, self.share = 0.0, 0.3  # of faults among requests; of late copies that arrive before a request
        self.late: list[bytes] = []  # copies of requests that are still on their way
        self.faults: collections.Counter = collections.Counter()

    def _arrives(self, request: bytes) -> bytes:
        return self.owner.handle(request)

    def deliver(self, share: float) -> None:
        """Late copies arrive, in any order; nobody hears the replies."""
        self.random.shuffle(self.late)
        staying = [request for request in self.late if self.random.random() >= share]
        coming = [request for request in self.late if request not in staying]
        self.late = staying
        for request in coming:
            self.faults["late"] += 1
            self._arrives(request)

    def handle(self, request: bytes) -> bytes:
        if self.rate == 0:
            return self._arrives(request)
        self.deliver(self.share)
        if self.random.random() >= self.rate:
            return self._arrives(request)
        fault = self.random.choice(
            ("request lost", "reply lost", "doubled", "delayed", "doubled late", "reply delayed")
        )
        self.faults[fault] += 1
        if fault == "doubled":
            self._arrives(request)
            return self._arrives(request)
        if fault == "doubled late":
            self.late.append(request)
            return self._arrives(request)
        if fault in ("delayed", "reply delayed"):
            self.late.append(request)
        if fault in ("reply lost", "reply delayed"):
            self._arrives(request)
        raise sojourn.ConnectionLost("the cable is out")


class World:
    """An owner with a private and an open table, and a session with it over a wire."""

    def __init__(self, timeout_ms: int):
        gc.collect()  # closed owners of earlier tests count as long as a tensor on them lives
        self.embedded = _sojourn.EmbeddedOwner()
        self.wire = Lossy(self.embedded)
        self.session = _sojourn.Session(self.wire.handle, "lossy", timeout_ms)
        self.owner = sojourn.owner.Owner(self.session, "lossy", self.embedded)
        rows = torch.arange(ROWS, dtype=torch.float64)
        self.open = self.owner.register("open", {"a": rows % 5, "b": rows % 3}, policy="open")
        self.private = self.owner.register("people", {"a": rows % 7, "b": rows % 4}, policy="private", bounds=BOUNDS)
        self.owner.grant("people", epsilon=2.0**12, delta=DELTA)
        self.device = self.owner.device

    def left(self) -> float:
        return self.owner.budget("people").epsilon_left

    def close(self) -> None:
        self.wire.rate, self.wire.late = 0.0, []
        self.owner.close()
        self.session = self.owner = self.open = self.private = None


class Training:
    """Steps in whole numbers of doubles, so that every order of sums gives the same bits. `count` counts them."""

    def __init__(self, world: World):
        self.world = world
        device = world.device
        self.count = torch.zeros((), dtype=torch.float64).to(device)
        self.weights = torch.arange(3, dtype=torch.float64).to(device)
        self.made = torch.ones(2, dtype=torch.float64).to(device)
        sojourn.flush()

    def update(self, x: torch.Tensor):
        """Writes to weights, with an upload, and publishes."""
        with sojourn.step():
            self.count.add_(1)
            self.weights.add_(x.to(self.world.device)).remainder_(1021)
            return sojourn.publish(self.weights.sum())

    def bare(self, x: torch.Tensor):
        """Two of these are equal byte by byte, but for their numbers."""
        with sojourn.step():
            self.count.add_(1)
            self.weights.mul_(3).remainder_(1021)

    def rebind(self, x: torch.Tensor):
        """Makes a value of its own, and releases the one before."""
        with sojourn.step():
            self.count.add_(1)
            made = torch.remainder(self.made * 5 + self.weights[:2], 1021)
        self.made = made

    def table(self, x: torch.Tensor):
        """Rows of an open table meet the weights."""
        with sojourn.step():
            self.count.add_(1)
            self.weights.add_(self.world.open["a"].sum() + self.world.open["b"].sum()).remainder_(1021)
            return sojourn.publish(self.world.open["a"] * 2)

    def release(self, x: torch.Tensor):
        """A private release: its price, and a step that counts."""
        with sojourn.step():
            self.count.add_(1)
            return sojourn.publish(self.world.private["b"].sum(), epsilon=0.5)

    def many(self, x: torch.Tensor):
        """A large upload, which goes ahead in parts."""
        with sojourn.step():
            self.count.add_(1)
            big = torch.full((500,), float(x[0]), dtype=torch.float64).to(self.world.device)
            self.weights.add_(big.sum()).remainder_(1021)

    def state(self) -> list[list[float]]:
        return [value.tolist() for value in sojourn.publish([self.count.reshape(1), self.weights, self.made])]

    KINDS = (update, bare, rebind, table, release, many)


class Eager:
    """The same in plain PyTorch."""

    def __init__(self):
        self.count, self.weights, self.made = (
            0,
            torch.arange(3, dtype=torch.float64),
            torch.ones(2, dtype=torch.float64),
        )
        rows = torch.arange(ROWS, dtype=torch.float64)
        self.rows = (rows % 5).sum() + (rows % 3).sum()

    def take(self, kind: str, x: torch.Tensor) -> None:
        self.count += 1
        if kind == "update":
            self.weights = (self.weights + x) % 1021
        elif kind == "bare":
            self.weights = self.weights * 3 % 1021
        elif kind == "rebind":
            self.made = (self.made * 5 + self.weights[:2]) % 1021
        elif kind == "table":
            self.weights = (self.weights + self.rows) % 1021
        elif kind == "many":
            self.weights = (self.weights + 500 * x[0]) % 1021

    def state(self) -> list[list[float]]:
        return [[float(self.count)], self.weights.tolist(), self.made.tolist()]


def persistent(ask):
    """What `ask` gives; asked again where no reply came."""
    for _ in range(200):
        try:
            return ask()
        except sojourn.ConnectionLost:
            pass
    raise AssertionError("no reply in 200 tries")


def run(world: World, seed: int, steps: int = 8) -> collections.Counter:
    """One training over the lossy wire, beside eager; what went wrong on the way."""
    draws = random.Random(seed)
    wire = world.wire
    wire.random, wire.faults, wire.late = random.Random(seed + 1), collections.Counter(), []
    training, eager = Training(world), Eager()
    before, releases = world.left(), 0
    wire.rate, wire.share = draws.choice((0.15, 0.3, 0.6)), draws.choice((0.05, 0.2, 0.5))
    for _ in range(steps):
        kind = draws.choice(Training.KINDS).__name__
        x = torch.tensor([draws.randrange(1021) for _ in range(3)], dtype=torch.float64)
        releases += kind == "release"
        made = training.made
        while True:
            try:
                getattr(training, kind)(x)
                break
            except sojourn.ConnectionLost as failure:
                wire.faults["told"] += 1
                if "not sent" in str(failure):
                    continue
                # As the error advises: a step counter says whether it ran.
                if persistent(lambda: sojourn.publish(training.count)).item() == eager.count + 1:
                    break
        eager.take(kind, x)
        if kind == "rebind" and training.made is made:
            # It ran, but its result is lost with the reply: as from a checkpoint.
            training.made = eager.made.to(world.device)
    wire.rate = 0.0
    wire.deliver(1.0)  # whatever was still on its way
    assert training.state() == eager.state(), f"seed {seed}: {wire.faults}"
    after = world.left()
    assert spent(world, before, after, releases), (
        f"seed {seed}: {releases} releases, {before} to {after}; {wire.faults}"
    )
    return wire.faults


def spent(world: World, before: float, after: float, releases: int) -> bool:
    """Whether the budget shrank by what so many releases cost without faults, in the same state of an owner's books."""
    twin = world.twin
    assert twin.left() == before
    for _ in range(releases):
        with sojourn.step():
            sojourn.publish(twin.private["b"].sum(), epsilon=0.5)
    return twin.left() == after


def runs(seeds, each: int = 25, timeout_ms: int = 0) -> collections.Counter:
    """Runs per seed; a fresh owner and session after so many. Their faults in all."""
    total: collections.Counter = collections.Counter()
    _sojourn.set_first_pause(0)
    _sojourn.set_upload_bounds(1000, 333)
    world = twin = None
    try:
        for at, seed in enumerate(seeds):
            if at % each == 0:
                if world:
                    world.close()
                    twin.close()
                world, twin = World(timeout_ms), World(0)
                world.twin = twin
            total.update(run(world, seed))
            total["runs"] += 1
    finally:
        _sojourn.set_first_pause(20)
        _sojourn.set_upload_bounds(64 << 20, 8 << 20)
        if world:
            world.close()
            twin.close()
    return total


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--counts", type=pathlib.Path, help="file to write counts to, for tools/check")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**30))
    given = parser.parse_args()
    gc.freeze()  # what a lost step has lost is looked for among all objects
    begin, half = time.monotonic(), given.runs // 2
    print(f"seeds from {given.seed}", flush=True)
    passed = failed = 0
    for name, timeout, first, count in (
        ("once more", 0, given.seed, half),
        ("until it answers", 60_000, given.seed + half, given.runs - half),
    ):
        faults: collections.Counter = collections.Counter()
        for at in range(first, first + count, 250):
            seeds = range(at, min(at + 250, first + count))
            try:
                faults.update(runs(seeds, timeout_ms=timeout))
                passed += len(seeds)
            except AssertionError:
                traceback.print_exc()
                failed += 1
            print(f"{name}: {dict(faults)}, {time.monotonic() - begin:.0f} s", flush=True)
    print(f"{given.runs} runs in {time.monotonic() - begin:.0f} s, {failed} groups of them failed", flush=True)
    if given.counts:
        given.counts.write_text(json.dumps({"passed": passed, "failed": failed}))
    sys.exit(failed > 0)
