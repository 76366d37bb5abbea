# SPDX-License-Identifier: Apache-2.0
"""Processes of the alias fuzzer. Eager torch on a CPU ends some of them: such programs are counted apart, and the others
of the batch run again."""

from __future__ import annotations

import collections
import multiprocessing
import pathlib
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import wait

from alias_fuzz_totals import Totals

BATCH = 2000  # programs of a process
_TOLD_EVERY = 10.0  # seconds


class Progress:
    """What a worker is doing, in a file that outlives it: the seed that runs, and the programs before it."""

    def __init__(self, path: pathlib.Path):
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self.write(-1, 0)

    def write(self, seed: int, done: int) -> None:
        # One write of the same length, so that a reader sees one state.
        with self.path.open("r+b" if self.path.exists() else "wb", buffering=0) as file:
            file.write(f"{seed:<20} {done:<10}\n".encode())

    def read(self) -> tuple[int, int]:
        seed, done = self.path.read_text().split()
        return int(seed), int(done)


class Worker:
    """A process with a batch of seeds, and its totals once it has ended."""

    def __init__(self, run: Callable, seeds: list[int], progress: Progress, settings: tuple):
        self.seeds, self.progress = seeds, progress
        progress.write(-1, 0)
        context = multiprocessing.get_context("spawn")
        self.receiver, sender = context.Pipe(duplex=False)
        self.process = context.Process(target=run, args=(sender, seeds, progress.path, *settings))
        self.process.start()
        sender.close()

    def finish(self) -> Totals | None:
        """None: the process died."""
        try:
            totals = self.receiver.recv()
        except EOFError:
            totals = None
        self.process.join()
        return totals if self.process.exitcode == 0 else None


class Workers:
    """Runs seeds in so many processes. `run(sender, seeds, path, *settings)` sends the totals of a batch; `eager(seed)`
    runs one program in eager torch alone."""

    def __init__(self, count: int, run: Callable, eager: Callable, folder: pathlib.Path, settings: tuple):
        self.run, self.eager, self.settings = run, eager, settings
        self.free = [Progress(folder / f"current{number}") for number in range(count)]
        self.busy: list[Worker] = []
        self.again: collections.deque[list[int]] = collections.deque()
        self.totals = Totals()

    def all(self, batches: Iterator[list[int]], expected: int | None) -> Totals:
        begin = told = time.monotonic()
        try:
            while True:
                while self.free and (seeds := self.again.popleft() if self.again else next(batches, None)):
                    self.busy.append(Worker(self.run, seeds, self.free.pop(), self.settings))
                if not self.busy:
                    return self.totals
                ended = wait([worker.receiver for worker in self.busy], timeout=_TOLD_EVERY)
                for worker in [worker for worker in self.busy if worker.receiver in ended]:
                    self.take(worker)
                if time.monotonic() - told >= _TOLD_EVERY:
                    told = time.monotonic()
                    self.tell(told - begin, expected)
        finally:
            for worker in self.busy:
                worker.process.terminate()

    def take(self, worker: Worker) -> None:
        self.busy.remove(worker)
        self.free.append(worker.progress)
        totals = worker.finish()
        if totals is not None:
            self.totals.add(totals)
            return
        seed, _ = worker.progress.read()
        if seed < 0:
            raise RuntimeError(f"a worker ended before its first program, with {worker.process.exitcode}; see above")
        (self.totals.torch_died if self.dies_in_torch(seed) else self.totals.died).append(seed)
        if rest := [each for each in worker.seeds if each != seed]:
            self.again.append(rest)

    def dies_in_torch(self, seed: int) -> bool:
        process = multiprocessing.get_context("spawn").Process(target=self.eager, args=(seed,))
        process.start()
        process.join()
        return process.exitcode != 0

    def tell(self, seconds: float, expected: int | None) -> None:
        done = self.totals.programs + sum(worker.progress.read()[1] for worker in self.busy)
        of = f" of {expected}" if expected else ""
        differences = self.totals.verdicts["difference"] + len(self.totals.died)
        print(f"[alias] {done}{of} programs, {done / seconds:.0f}/s, {differences} differences so far", flush=True)
