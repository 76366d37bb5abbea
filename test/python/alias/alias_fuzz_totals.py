# SPDX-License-Identifier: Apache-2.0
"""Counts of a run of the alias fuzzer: verdicts, refusals, lengths and kinds of programs. Those of workers are added."""

from __future__ import annotations

import collections
import dataclasses
import re
import statistics

from alias_fuzz_compare import Verdict
from alias_fuzz_generate import shares
from alias_fuzz_program import Program

LEAST_COMPARED = 0.9


@dataclasses.dataclass
class Totals:
    verdicts: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    refusals: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)  # by op and reason
    modes: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    known: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)  # by reason
    categories: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)  # of differences
    lengths: collections.Counter[int] = dataclasses.field(default_factory=collections.Counter)
    # Programs with an op of the kind.
    kinds: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    # Reasons of programs that were never replayed.
    reasons: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    refused_programs: int = 0
    traced: int = 0
    replayed: int = 0
    torch_died: list[int] = dataclasses.field(default_factory=list)  # seeds
    died: list[int] = dataclasses.field(default_factory=list)

    def count(self, program: Program, verdict: Verdict) -> None:
        self.verdicts[verdict.kind] += 1
        self.modes[program.mode] += 1
        self.lengths[len(program.ops)] += 1
        self.kinds.update({kind: int(share) for kind, share in shares([program]).items()})
        self.refused_programs += bool(verdict.refusals)
        self.refusals.update(f"{op}: {reason_of(text)}" for op, text in verdict.refusals)
        if verdict.kind == "known":
            self.known[verdict.known] += 1
        if verdict.kind == "difference":
            self.categories[verdict.category] += 1

    def add(self, other: Totals) -> None:
        for field in dataclasses.fields(Totals):
            mine, theirs = getattr(self, field.name), getattr(other, field.name)
            if isinstance(mine, collections.Counter):
                mine.update(theirs)
            else:
                setattr(self, field.name, mine + theirs)

    @property
    def programs(self) -> int:
        return self.verdicts.total()

    @property
    def failed(self) -> bool:
        compared = self.verdicts["same"] + self.verdicts["known"]
        begun = self.programs + len(self.torch_died) + len(self.died)
        return bool(self.verdicts["difference"] or self.died) or not begun or compared < LEAST_COMPARED * begun

    def tell(self, seconds: float) -> None:
        total = self.programs
        rate = total / seconds if seconds else 0.0
        print(f"[alias] {total} programs in {seconds:.0f} s ({rate:.0f}/s): {dict(self.verdicts)}")
        print(f"[alias] modes {dict(self.modes)}; calls traced {self.traced}, replayed {self.replayed}")
        for reason, count in self.reasons.most_common(8):
            print(f"[alias] never replayed: {count} because {reason}")
        for seed in self.torch_died:
            print(f"[alias] seed {seed}: eager torch alone ends the process; left out")
        for seed in self.died:
            print(f"[alias] seed {seed}: THE PROCESS DIED; plays again with --only {seed}")
        if not total:
            return
        lengths = list(self.lengths.elements())
        print(f"[alias] ops of a program: median {statistics.median(lengths)}, {min(lengths)} to {max(lengths)}")
        kinds = ", ".join(f"{kind} {count / total:.1%}" for kind, count in reversed(self.kinds.most_common()))
        print(f"[alias] shares of programs with a kind: {kinds}")
        print(f"[alias] {self.refused_programs} programs had a refusal ({self.refused_programs / total:.1%}):")
        for text, count in self.refusals.most_common(30):
            print(f"[alias]   {count} ({count / total:.2%}) {text}")
        for text, count in self.known.items():
            print(f"[alias] known: {count} ({count / total:.2%}) {text}")
        for category, count in self.categories.most_common():
            print(f"[alias] differences: {count} {category}")


def reason_of(text: str) -> str:
    """A refusal without its place and its sizes."""
    text = text.split(": ", 1)[-1].split(" (torch/")[0]
    text = re.sub(r"written to as \w+,", "written to as another type,", text)
    return re.sub(r"\b\d+\b", "N", text)[:110]
