# SPDX-License-Identifier: Apache-2.0
"""Processes of the alias fuzzer. Eager torch on a CPU ends some of them: such programs are counted apart, and the others
of the batch run again."""

from __future__ import annotations

import collections
import itertools
import multiprocessing
import os
import pathlib
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import wait

from alias_fuzz_totals import Totals

_BATCH = 1000  # programs of a process, which grows with each
_TOLD_EVERY = 10.0  # seconds
_EAGER_MOST = 60.0  # seconds of one program


class Progress:
    """A worker's progress, in a file that outlives it: the seed that runs, and how many programs of the batch are done."""

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

    def __init__(self, run: Callable, seeds: list[int], end: float | None, progress: Progress, settings: tuple):
        self.seeds, self.end, self.progress = seeds, end, progress
        progress.write(-1, 0)
        context = multiprocessing.get_context("spawn")
        self.receiver, sender = context.Pipe(duplex=False)
        self.process = context.Process(target=run, args=(sender, seeds, end, progress.path, *settings))
        self.process.start()
        sender.close()

    def finish(self) -> Totals | None:
        """None: a signal ended the process."""
        try:
            totals = self.receiver.recv()
        except EOFError:
            totals = None
        self.process.join()
        if self.process.exitcode > 0:  # an exception, which it has printed
            raise RuntimeError(
                f"a worker ended with {self.process.exitcode} at seed {self.progress.read()[0]}; see above"
            )
        return totals if self.process.exitcode == 0 else None


class Workers:
    """Runs seeds in so many processes. `run(sender, seeds, end, path, *settings)` sends the totals of a batch, whose
    programs begin before `end`; `eager(seed)` runs one program in eager torch alone."""

    def __init__(self, count: int, run: Callable, eager: Callable, folder: pathlib.Path, settings: tuple):
        self.run, self.eager, self.settings = run, eager, settings
        self.free = [Progress(folder / f"current-{os.getpid()}-{number}") for number in range(count)]
        self.busy: list[Worker] = []
        self.again: collections.deque[tuple[list[int], float | None]] = collections.deque()
        self.totals = Totals()

    def all(self, seeds: Iterator[int], expected: int | None, end: float | None = None) -> Totals:
        begin = told = time.monotonic()
        try:
            while True:
                while self.free and (batch := self.next_batch(seeds, expected, end)):
                    self.busy.append(Worker(self.run, *batch, self.free.pop(), self.settings))
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
            for progress in [*self.free, *(worker.progress for worker in self.busy)]:
                progress.path.unlink(missing_ok=True)

    def next_batch(self, seeds: Iterator[int], expected: int | None, end: float | None):
        """Seeds, and until when they may begin. None: there are no more."""
        if self.again:
            return self.again.popleft()
        if end is not None and time.monotonic() >= end:
            return None
        share = _BATCH if expected is None else min(_BATCH, -(-expected // (len(self.free) + len(self.busy))))
        batch = list(itertools.islice(seeds, share))
        return (batch, end) if batch else None

    def take(self, worker: Worker) -> None:
        """The totals of a worker that has ended. After a signal its programs run again, less the one that ended it."""
        self.busy.remove(worker)
        self.free.append(worker.progress)
        totals = worker.finish()
        if totals is not None:
            self.totals.add(totals)
            return
        seed, done = worker.progress.read()
        if seed < 0:
            raise RuntimeError(f"a worker ended before its first program, with {worker.process.exitcode}; see above")
        (self.totals.torch_died if self.dies_in_torch(seed) else self.totals.died).append(seed)
        for rest, end in ((worker.seeds[:done], None), (worker.seeds[done + 1 :], worker.end)):
            if rest:
                self.again.append((rest, end))

    def dies_in_torch(self, seed: int) -> bool:
        process = multiprocessing.get_context("spawn").Process(target=self.eager, args=(seed,))
        process.start()
        process.join(_EAGER_MOST)
        process.kill()  # if it hangs, which is told as a death
        process.join()
        if process.exitcode > 0:
            raise RuntimeError(f"eager torch raised at seed {seed}; see above")
        return process.exitcode < 0

    def tell(self, seconds: float, expected: int | None) -> None:
        done = self.totals.programs + sum(worker.progress.read()[1] for worker in self.busy)
        of = f" of {expected}" if expected else ""
        differences = self.totals.verdicts["difference"] + len(self.totals.died)
        print(f"[alias] {done}{of} programs, {done / seconds:.0f}/s, {differences} differences so far", flush=True)
