# SPDX-License-Identifier: Apache-2.0
"""The checker: candidates of one level after the other, in modules of many, until the time is up."""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import math
import random
import time

import numpy as np
import rule_idioms
import rule_reads
from rule_candidates import binary, is_write, nullary, texts_of, writes
from rule_check import STARTS, Check, Domains, Extent, Found
from rule_operands import TABLES, Operand, tensor, usable
from rule_programs import (
    BY_NAME,
    Instance,
    Tools,
    Values,
    facts_of,
    facts_of_operands,
    idiom,
    resolve,
    values_of,
)

MODULE = 480  # instances per process
SHARES = {1: [1], 2: [0.25, 1], 3: [0.15, 0.45, 1]}  # of the time, when each depth ends
LARGEST = 16  # elements of what deeper candidates are built on


@dataclasses.dataclass
class Options:
    depth: int = 1
    seconds: float = 30.0
    seed: int = 0
    most: int = 50_000  # choices of its operands' arrays up to which a candidate gets all of them
    sample: int = 1500  # of more, so many at random
    native: bool = False
    ops: frozenset = frozenset()  # these alone, at every depth; all where it is empty
    stop_at: int = 0  # violations after which to stop; 0: never
    tools: Tools = dataclasses.field(default_factory=Tools)


@dataclasses.dataclass
class Report:
    """What was checked and found."""

    seed: int
    depth: int
    candidates: int = 0
    total: int = 0
    instances: int = 0
    extent: dict = dataclasses.field(default_factory=collections.Counter)  # rule_check.Extent to candidates
    sampled: dict = dataclasses.field(default_factory=collections.Counter)  # by op, those that got arrays at random
    failed: int = 0
    seconds: float = 0.0
    runs: int = 0
    native: int = 0
    by_depth: dict = dataclasses.field(default_factory=collections.Counter)
    coverage: dict = dataclasses.field(default_factory=collections.Counter)  # (op, label of an operand's fact)
    results: dict = dataclasses.field(default_factory=collections.Counter)  # (op, label of a result's fact)
    judged: dict = dataclasses.field(default_factory=collections.Counter)
    found: dict = dataclasses.field(default_factory=dict)  # key to [count, depth, Instance, Found]


class Driver:
    def __init__(self, options: Options, progress=lambda report, share: None):
        self.options, self.progress = options, progress
        self.random, self.rng = random.Random(options.seed), np.random.default_rng(options.seed)
        self.report = Report(options.seed, options.depth)
        self.domains = Domains(facts_of_operands(options.tools), self.rng)
        self.lists = rule_reads.lists_of_draws(self.domains)
        self.domains.paid = rule_reads.paid_draws(self.domains)
        self.numbers, self.owner = 0, None
        self.begin = self.until = time.monotonic()

    # Candidates.

    def _instance(self, op: str, text: str, chains: dict[str, Operand]) -> Instance:
        self.numbers += 1
        before = []
        for name, operand in chains.items():
            if f"%{name}" in text:
                before += [line for line in operand.chain if line not in before]
        return Instance(op, (text,), self.numbers, before=tuple(before))

    def first_level(self) -> list[Instance]:
        operands = usable()
        texts = list(nullary())
        for x in operands:
            texts += texts_of(x)
            for y in operands:
                if not (x.few and y.few and x is not y) and not (self._is_plain(x) and self._is_plain(y)):
                    texts += binary(x, y)
        for x in operands:
            if x.name in WRITTEN:
                for index in operands:
                    texts += [t for u in operands if is_write(x, index, u) and not u.few for t in writes(x, index, u)]
        found = [self._instance(op, text, {}) for op, text in dict.fromkeys(texts)]
        for op, lines in rule_idioms.all_idioms():
            self.numbers += 1
            found.append(idiom(op, lines, self.numbers))
        for lines in rule_reads.candidates():
            self.numbers += 1
            found.append(rule_reads.instance(lines, self.numbers))
        return found

    def _is_plain(self, x: Operand) -> bool:
        """Public, and nothing more is known of it; constants, too."""
        fact = self.domains.fact_of(x)
        is_known = not fact.range.is_everything and x.element[0] not in "iu"
        return fact.kind == "public" and not fact.distinct and (not is_known or (x.fixed and not x.shape))

    def next_level(self, representatives: list[Operand]) -> list[Instance]:
        partners = [each for each in usable() if not each.few]
        found = []
        for x in representatives:
            texts = list(texts_of(x)) + list(binary(x, x))
            for y in [*partners, *self.random.sample(representatives, min(6, len(representatives)))]:
                texts += [*binary(x, y), *binary(y, x)]
            texts = list(dict.fromkeys(texts))
            chains = {each.name: each for each in representatives}
            for op, text in self.random.sample(texts, min(len(texts), 80)):
                found.append(self._instance(op, text, chains))
        return found

    def _ordered(self, instances: list[Instance]) -> list[Instance]:
        """At random, and rare ones early: ops with operands of the same facts are a group, and a part of the time sees
        something of each."""
        groups = collections.defaultdict(list)
        for each in instances:
            if not self.options.ops or each.op in self.options.ops:
                groups[each.op, *sorted(self._labels(each))].append(each)
        keyed = []
        for group in groups.values():
            self.random.shuffle(group)
            keyed += [(rank / math.sqrt(len(group)), each.number, each) for rank, each in enumerate(group)]
        return [each for *_, each in sorted(keyed, key=lambda key: key[:2])]

    def _labels(self, each: Instance) -> set[str]:
        names = [name for name in each.operands() if name not in TABLES and (name in BY_NAME or each.before)]
        return {self._label(name, each) for name in names} or {"none"}

    # Levels.

    def run(self) -> Report:
        level = self._ordered(self.first_level())
        self.report.total = len(level)
        checked: list[Instance] = []
        for depth in range(1, self.options.depth + 1):
            # Deeper levels have no end: each gets its part of the time, the first the smallest.
            self.until = self.begin + self.options.seconds * (SHARES[self.options.depth][depth - 1])
            if depth == 1:
                self._level(level, checked, {}, depth)
                continue
            below, checked = checked, []
            while not self._is_over() and (part := self._representatives(below, 30)):
                known = {
                    name: type_ for x in part for names, types, *_ in x.chain for name, type_ in _typed(names, types)
                }
                self._level(self._ordered(self.next_level(part)), checked, known, depth)
        self.report.seconds = time.monotonic() - self.begin
        return self.report

    def _is_over(self) -> bool:
        enough = self.options.stop_at and self.report.failed >= self.options.stop_at
        return bool(enough) or time.monotonic() > self.until

    def _level(self, level: list[Instance], checked: list[Instance], known: dict[str, str], depth: int) -> None:
        parts = [level[begin : begin + MODULE] for begin in range(0, len(level), MODULE)]
        with concurrent.futures.ThreadPoolExecutor(1) as ahead:
            following = ahead.submit(self._prepare, parts[0], known) if parts else None
            for k, part in enumerate(parts):
                if self._is_over():
                    break
                valid, values = following.result()
                following = ahead.submit(self._prepare, parts[k + 1], known) if k + 1 < len(parts) else None
                self.report.candidates += len(part)
                self._check(valid, values, depth)
                checked += valid
                self.progress(self.report, (k + 1) / len(parts))

    def _prepare(self, part: list[Instance], known: dict[str, str]) -> tuple[list[Instance], Values | None]:
        """The valid ones of a module with their facts, and their program; while the module before is checked."""
        valid = resolve(self.options.tools, part, known)
        if valid:
            self._facts(valid)
        plain = [each for each in valid if each.op != "read_rows"]
        return valid, values_of(self.options.tools, plain) if plain else None

    def _representatives(self, checked: list[Instance], count: int) -> list[Operand]:
        """Results that deeper candidates are built on: one per op, type and fact."""
        found = {}
        for each in self.random.sample(checked, len(checked)):
            if each.op == "read_rows" or len(each.texts) > 1:
                continue
            for name, (shape, element), fact in zip(each.names(0), each.types[0], each.facts[0]):
                dull = fact.kind == "mixed" or (fact.kind == "public" and not fact.distinct)
                if not dull and 0 < math.prod(shape) <= LARGEST:
                    key = (
                        each.op,
                        shape,
                        element,
                        fact.label(),
                        fact.slots,
                        fact.stride,
                        fact.first,
                        fact.step,
                        fact.present is None,
                    )
                    found.setdefault(key, Operand(name, element, shape, fact=fact, chain=each.chain()))
        # Each of another line: results of one op have one chain.
        chosen = {each.chain[-1][0]: each for each in found.values()}
        return self.random.sample(list(chosen.values()), min(count, len(chosen)))

    # Modules.

    @staticmethod
    def _lines(instances: list[Instance]) -> tuple[list[str], dict]:
        """All lines in order, and where those of an instance (by number) and of a chain (by name) begin."""
        lines, at = [], {}
        for each in instances:
            for names, _, text, _ in each.before:
                if names[0] not in at:
                    at[names[0]] = len(lines)
                    lines.append(", ".join("%" + name for name in names) + " = " + text)
            at[each.number] = len(lines)
            lines += each.lines()
        return lines, at

    def _facts(self, valid: list[Instance]) -> None:
        lines, at = self._lines(valid)
        facts = facts_of(self.options.tools, lines)
        for each in valid:
            first = at[each.number]
            each.facts = [list(facts[first + k]) for k in range(len(each.texts))]
            # Draws and cuts have the numbers of this module, also those of the lines in front.
            each.before = tuple((n, t, text, tuple(facts[at[n[0]]])) for n, t, text, _ in each.before)

    def _check(self, valid: list[Instance], values: Values | None, depth: int) -> None:
        plain = [each for each in valid if each.op != "read_rows"]
        for each in valid:
            if each.op == "read_rows":
                check = rule_reads.ReadCheck(each, self.domains, self.lists, self.rng)
                self._count(each, check.run(), [check], depth)
                continue
            most, sample = self.options.most, min(self.options.most, self.options.sample)
            checks = [
                Check(each, values, self.domains, most, sample, self.rng, start)
                for start in (STARTS if self._has_start(each) else STARTS[:1])
            ]
            self.report.runs += sum(check.count for check in checks)
            self._count(each, [found for check in checks for found in check.run()], checks, depth)
        if self.options.native and plain:
            self._check_native(plain, values, depth)

    def _check_native(self, plain: list[Instance], values: Values, depth: int) -> None:
        from rule_native import Native, check_module, is_bound  # it loads torch

        self.owner = self.owner or Native()
        bound = [each for each in plain if is_bound(each)]
        if not bound:
            return
        plain, values = bound, values if len(bound) == len(plain) else values_of(self.options.tools, bound)
        failed = set()
        for each, found in check_module(self.owner, values, plain, self.domains, self.rng):
            self._fail(each, found, depth, " (native)")
            failed.add(each.number)
        self.report.native += len(plain)
        self.report.failed += len(failed)

    def _has_start(self, each: Instance) -> bool:
        """Whether its slots depend on where a part begins."""
        facts = [fact for line in each.chain() for fact in line[3]]
        facts += [self.domains.fact_of(BY_NAME[name]) for name in each.operands() if name in BY_NAME]
        return "s" in each.operands() or any(fact.among for fact in facts)

    def _count(self, each: Instance, found: list[Found], checks, depth: int) -> None:
        report = self.report
        report.instances += 1
        report.by_depth[depth] += 1
        report.extent[checks[0].extent] += 1
        report.sampled[each.op] += checks[0].extent == Extent.SAMPLE
        for check in checks:
            report.judged.update(check.judged)
        report.coverage.update((each.op, label) for label in self._labels(each))
        report.results.update({(each.op, fact.label()) for fact in each.facts[-1]})
        report.failed += bool(found)
        for one in found:
            self._fail(each, one, depth)

    def _label(self, name: str, each: Instance) -> str:
        if name not in BY_NAME:
            return "public"
        fact = self.domains.fact_of(BY_NAME[name])
        return "per row, coins" if fact.kind == "per row" and fact.secrets else fact.label()

    def _fail(self, each: Instance, found: Found, depth: int, where: str = "") -> None:
        key = (found.predicate + where, each.op, found.fact.kind, found.fact.label())
        entry = self.report.found.setdefault(key, [0, depth, each, found])
        entry[0] += 1


WRITTEN = {"zer", "zer22", "zer32", "zeri", "w", "w22", "n", "a", "a32", "a22", "sum", "sum22", "der", "mix", "b"}
WRITTEN |= {"zerf", "zerh", "zerb", "hf", "ch", "cb", "sumh"}


def _typed(names, types):
    return [(name, tensor(*type_)) for name, type_ in zip(names, types)]
