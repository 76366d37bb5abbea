# SPDX-License-Identifier: Apache-2.0
"""Runs random programs of views and writes at an owner and in eager torch, and compares all that is seen.

    python test/python/alias/alias_fuzz.py --seconds 60            # with a fresh seed, which is printed
    python test/python/alias/alias_fuzz.py --programs 1000 --seed 7 # programs 7, 8, ...
    python test/python/alias/alias_fuzz.py --only 17 --print        # one program, and its text

The programs of seeds.txt run first. build/fuzz/alias/current has the seed of the program that runs, if the process dies. The exit status is 1 after a difference, or if too few programs ran to the end.
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import json
import os
import pathlib
import re
import secrets
import statistics
import sys
import time
import warnings

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[2] / "build/python")]

import torch  # noqa: E402 (after the path)
from alias_fuzz_compare import Verdict, judge  # noqa: E402
from alias_fuzz_execute import Remote  # noqa: E402
from alias_fuzz_generate import KINDS, generate, shares  # noqa: E402
from alias_fuzz_program import Program  # noqa: E402
from alias_fuzz_shrink import as_test, shrink  # noqa: E402

import sojourn  # noqa: E402

SEEDS = HERE / "seeds.txt"
CURRENT = HERE.parents[2] / "build/fuzz/alias/current"
_SHRUNK_MOST = 3  # of one category; of the others the seeds are told
_LEAST_COMPARED = 0.9
_DESCRIBED_MOST = 20000  # programs whose kinds are counted


def committed_seeds() -> list[int]:
    """Seeds of programs that have found something, or reached much."""
    lines = (line.split("#")[0].strip() for line in SEEDS.read_text().splitlines())
    return [int(line) for line in lines if line]


class Run:
    """Programs, one after another, and what came of them."""

    def __init__(self, remote: Remote, kinds: list[str] = KINDS, tries: int = 300):
        self.remote, self.kinds, self.tries = remote, kinds, tries
        self.verdicts: collections.Counter[str] = collections.Counter()
        self.refusals: collections.Counter[str] = collections.Counter()
        self.modes: collections.Counter[str] = collections.Counter()
        self.refused_programs = 0
        self.known: collections.Counter[str] = collections.Counter()
        self.categories: collections.Counter[str] = collections.Counter()
        self.programs: list[Program] = []
        self.found: list[tuple[int, Program, Verdict]] = []
        self.seconds = 0.0

    def one(self, seed: int) -> None:
        begin = time.monotonic()
        program = generate(seed, self.kinds)
        if len(self.programs) < _DESCRIBED_MOST:
            self.programs.append(program)
        verdict = judge(program, self.remote)
        self.seconds += time.monotonic() - begin
        self.verdicts[verdict.kind] += 1
        self.modes[program.mode] += 1
        self.refused_programs += bool(verdict.refusals)
        for op, text in verdict.refusals:
            if op == "the step":
                print(f"[alias] seed {seed}: refused as a whole: {text[:150]}", flush=True)
            self.refusals[f"{op}: {reason_of(text)}"] += 1
        if verdict.kind == "known":
            self.known[verdict.known] += 1
        if verdict.kind == "difference":
            self.fail(seed, verdict)

    def fail(self, seed: int, verdict: Verdict) -> None:
        assert verdict.program is not None
        self.categories[verdict.category] += 1
        print(f"[alias] seed {seed}: {verdict.category}: {verdict.text[:300]}", flush=True)
        if self.categories[verdict.category] > _SHRUNK_MOST:
            return
        small = smallest(verdict.program, self.remote, verdict.category, self.tries)
        again = judge(small, self.remote)
        self.found.append((seed, small, again))
        print(
            f"[alias] shrunken, for test_alias_found.py:\n\n{as_test(small, f'seed {seed}')}\n# {again.text}\n",
            flush=True,
        )

    def tell(self) -> None:
        total = sum(self.verdicts.values())
        rate = total / self.seconds if self.seconds else 0.0
        print(f"[alias] {total} programs in {self.seconds:.0f} s ({rate:.0f}/s): {dict(self.verdicts)}")
        print(f"[alias] modes {dict(self.modes)}; calls traced {self.remote.traced}, replayed {self.remote.replayed}")
        for reason, count in self.remote.reasons.most_common(8):
            print(f"[alias] never replayed: {count} because {reason}")
        if not total:
            return
        lengths = [len(program.ops) for program in self.programs]
        print(f"[alias] ops of a program: median {statistics.median(lengths)}, {min(lengths)} to {max(lengths)}")
        kinds = sorted(shares(self.programs).items(), key=lambda item: item[1])
        print(f"[alias] shares of programs with a kind: {', '.join(f'{kind} {share:.1%}' for kind, share in kinds)}")
        print(f"[alias] {self.refused_programs} programs had a refusal ({self.refused_programs / total:.1%}):")
        for text, count in self.refusals.most_common(30):
            print(f"[alias]   {count} ({count / total:.2%}) {text}")
        for text, count in self.known.items():
            print(f"[alias] known: {count} ({count / total:.2%}) {text}")
        for category, count in self.categories.most_common():
            print(f"[alias] differences: {count} {category}")

    @property
    def failed(self) -> bool:
        total = sum(self.verdicts.values())
        compared = self.verdicts["same"] + self.verdicts["known"]
        return bool(self.verdicts["difference"]) or compared < _LEAST_COMPARED * total


def reason_of(text: str) -> str:
    """A refusal without its place."""
    text = text.split(": ", 1)[-1].split(" (torch/")[0][:110]
    return re.sub(r"written to as \w+,", "written to as another type,", text)


def smallest(program: Program, remote: Remote, category: str, tries: int) -> Program:
    def fails(candidate: Program) -> bool:
        verdict = judge(candidate, remote)
        return verdict.kind == "difference" and verdict.category == category

    return shrink(program, fails, tries)


def arguments_of(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, help="so many (default: as the time allows)")
    parser.add_argument("--seconds", type=float, help="so long")
    parser.add_argument("--seed", type=int, help="of the first program (default: a fresh one)")
    parser.add_argument("--only", type=int, nargs="+", default=[], help="the programs of these seeds")
    parser.add_argument("--without", nargs="+", default=[], metavar="KIND", help="kinds of ops to leave out")
    parser.add_argument("--runtime", default="native", choices=["native", "numpy"])
    parser.add_argument("--print", action="store_true", help="print each program")
    parser.add_argument("--counts", type=pathlib.Path, help="write passed and failed programs as JSON")
    arguments = parser.parse_args(words)
    if unknown := set(arguments.without) - set(KINDS):
        parser.error(f"no kind is named {', '.join(sorted(unknown))}; the kinds are {', '.join(KINDS)}")
    if not arguments.only and arguments.programs is None and arguments.seconds is None:
        arguments.seconds = 60.0
    return arguments


def main() -> int:
    arguments = arguments_of()
    torch.set_num_threads(1)
    faulthandler.enable()
    warnings.simplefilter("ignore")  # of what programs do
    owner = sojourn.local(runtime=arguments.runtime)
    run = Run(Remote(owner.device), [kind for kind in KINDS if kind not in arguments.without])
    seed = secrets.randbits(32) if arguments.seed is None else arguments.seed
    end = time.monotonic() + arguments.seconds if arguments.seconds else None
    seeds = arguments.only
    if not seeds:
        print(f"[alias] seed {seed}", flush=True)
        seeds = [] if arguments.without else committed_seeds()
    CURRENT.parent.mkdir(parents=True, exist_ok=True)
    current = os.open(CURRENT, os.O_WRONLY | os.O_CREAT)
    done, following = 0, iter(seeds)
    while arguments.programs is None or done < arguments.programs:
        if end is not None and time.monotonic() >= end:
            break
        chosen = next(following, None)
        if chosen is None:
            if arguments.only:
                break
            chosen, seed = seed, seed + 1
        if arguments.print:
            print(generate(chosen, run.kinds), "\n", flush=True)
        os.pwrite(current, f"{chosen:<20}\n".encode(), 0)
        run.one(chosen)
        done += 1
    run.tell()
    if arguments.counts:
        total = sum(run.verdicts.values())
        counts = {"passed": total - run.verdicts["difference"], "failed": run.verdicts["difference"], "skipped": 0}
        arguments.counts.write_text(json.dumps(counts))
    owner.close()
    return 1 if run.failed else 0


if __name__ == "__main__":
    sys.exit(main())
