# SPDX-License-Identifier: Apache-2.0
"""Runs random programs of views and writes at an owner and in eager torch, and compares all that is seen.

    python test/python/alias/alias_fuzz.py --seconds 60            # with a fresh seed, which is printed
    python test/python/alias/alias_fuzz.py --programs 100000 --seed 7 --workers 2 # programs 7, 8, ... in two processes
    python test/python/alias/alias_fuzz.py --only 17 --print        # one program, and its text

The programs of seeds.txt run first. A program that ends its process is a difference too, unless eager torch alone ends it.
The exit status is 1 after a difference, or if too few programs ran to the end.
"""

from __future__ import annotations

import argparse
import faulthandler
import functools
import itertools
import json
import pathlib
import secrets
import sys
import time
import warnings

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[2] / "build/python")]

import torch  # noqa: E402 (after the path)
from alias_fuzz_compare import Verdict, judge  # noqa: E402
from alias_fuzz_execute import ROUNDS, Remote, run_eager  # noqa: E402
from alias_fuzz_generate import KINDS, generate  # noqa: E402
from alias_fuzz_program import Program  # noqa: E402
from alias_fuzz_shrink import as_test, shrink  # noqa: E402
from alias_fuzz_totals import Totals  # noqa: E402
from alias_fuzz_workers import Progress, Workers  # noqa: E402

import sojourn  # noqa: E402

SEEDS = HERE / "seeds.txt"
FOLDER = HERE.parents[2] / "build/fuzz/alias"
_SHRUNK_MOST = 3  # of one category; of the others the seeds are told


def committed_seeds() -> list[int]:
    """Seeds of programs that have found something, or reached much."""
    lines = (line.split("#")[0].strip() for line in SEEDS.read_text().splitlines())
    return [int(line) for line in lines if line]


class Run:
    """Programs, one after another, and what came of them."""

    def __init__(self, remote: Remote, kinds: list[str] = KINDS, tries: int = 300):
        self.remote, self.kinds, self.tries = remote, kinds, tries
        self.counts = Totals()
        self.found: list[tuple[int, Program, Verdict]] = []
        self.seconds = 0.0

    def one(self, seed: int) -> None:
        begin = time.monotonic()
        program = generate(seed, self.kinds)
        verdict = judge(program, self.remote)
        self.seconds += time.monotonic() - begin
        self.counts.count(program, verdict)
        for op, text in verdict.refusals:
            if op == "the step":
                print(f"[alias] seed {seed}: refused as a whole: {text[:150]}", flush=True)
        if verdict.kind == "difference":
            self.fail(seed, verdict)

    def fail(self, seed: int, verdict: Verdict) -> None:
        assert verdict.program is not None
        print(f"[alias] seed {seed}: {verdict.category}: {verdict.text[:300]}", flush=True)
        if self.counts.categories[verdict.category] > _SHRUNK_MOST:
            return
        small = smallest(verdict.program, self.remote, verdict.category, self.tries)
        again = judge(small, self.remote)
        self.found.append((seed, small, again))
        print(
            f"[alias] shrunken, for test_alias_found.py:\n\n{as_test(small, f'seed {seed}')}\n# {again.text}\n",
            flush=True,
        )

    @property
    def totals(self) -> Totals:
        self.counts.traced, self.counts.replayed = self.remote.traced, self.remote.replayed
        self.counts.reasons = self.remote.reasons
        return self.counts

    def tell(self) -> None:
        self.totals.tell(self.seconds)

    @property
    def failed(self) -> bool:
        return self.counts.failed


def smallest(program: Program, remote: Remote, category: str, tries: int) -> Program:
    def fails(candidate: Program) -> bool:
        verdict = judge(candidate, remote)
        return verdict.kind == "difference" and verdict.category == category

    return shrink(program, fails, tries)


def quiet() -> None:
    torch.set_num_threads(1)
    faulthandler.enable()
    warnings.simplefilter("ignore")  # of programs


def run_batch(sender, seeds: list[int], end: float | None, path: pathlib.Path, runtime: str, kinds: list[str]) -> None:
    """In a worker's process; `end` by the monotonic clock, which all processes share."""
    quiet()
    owner = sojourn.local(runtime=runtime)
    run, progress = Run(Remote(owner.device), kinds), Progress(path)
    for done, seed in enumerate(seeds):
        if end is not None and time.monotonic() >= end:
            break
        progress.write(seed, done)
        run.one(seed)
    sender.send(run.totals)
    owner.close()


def run_eagerly(seed: int, kinds: list[str]) -> None:
    """Runs a program in eager torch alone. Its process tells by its exit status whether torch ended it."""
    quiet()
    program = generate(seed, kinds)
    for round in range(ROUNDS[program.mode]):
        run_eager(program, round, check_hazards=False)


def arguments_of(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, help="so many (default: as the time allows)")
    parser.add_argument("--seconds", type=float, help="so long")
    parser.add_argument("--seed", type=int, help="of the first program (default: a fresh one)")
    parser.add_argument("--workers", type=int, default=1, help="processes (default: 1)")
    parser.add_argument("--only", type=int, nargs="+", default=[], help="the programs of these seeds, in this process")
    parser.add_argument("--without", nargs="+", default=[], metavar="KIND", help="kinds of ops to leave out")
    parser.add_argument("--runtime", default="native", choices=["native", "numpy"])
    parser.add_argument("--print", action="store_true", help="print each program of --only")
    parser.add_argument("--counts", type=pathlib.Path, help="write passed and failed programs as JSON")
    arguments = parser.parse_args(words)
    if unknown := set(arguments.without) - set(KINDS):
        parser.error(f"no kind is named {', '.join(sorted(unknown))}; the kinds are {', '.join(KINDS)}")
    if arguments.workers < 1:
        parser.error(f"--workers must be at least 1, not {arguments.workers}")
    if not arguments.only and arguments.programs is None and arguments.seconds is None:
        arguments.seconds = 60.0
    return arguments


def run_only(arguments, kinds: list[str]) -> Totals:
    quiet()
    owner = sojourn.local(runtime=arguments.runtime)
    run = Run(Remote(owner.device), kinds)
    for seed in arguments.only:
        if arguments.print:
            print(generate(seed, kinds), "\n", flush=True)
        run.one(seed)
    owner.close()
    return run.totals


def main() -> int:
    arguments = arguments_of()
    kinds = [kind for kind in KINDS if kind not in arguments.without]
    begin = time.monotonic()
    if arguments.only:
        totals = run_only(arguments, kinds)
    else:
        seed = secrets.randbits(32) if arguments.seed is None else arguments.seed
        print(f"[alias] seed {seed}", flush=True)
        end = begin + arguments.seconds if arguments.seconds else None
        before = [] if arguments.without else committed_seeds()
        seeds = itertools.islice(itertools.chain(before, itertools.count(seed)), arguments.programs)
        eager = functools.partial(run_eagerly, kinds=kinds)
        workers = Workers(arguments.workers, run_batch, eager, FOLDER, (arguments.runtime, kinds))
        totals = workers.all(seeds, arguments.programs, end)
    totals.tell(time.monotonic() - begin)
    if arguments.counts:
        failed = totals.verdicts["difference"] + len(totals.died)
        passed = totals.programs - totals.verdicts["difference"]
        arguments.counts.write_text(json.dumps({"passed": passed, "failed": failed, "skipped": 0}))
    return 1 if totals.failed else 0


if __name__ == "__main__":
    sys.exit(main())
