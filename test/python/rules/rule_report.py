# SPDX-License-Identifier: Apache-2.0
"""What a run of the checker says: counterexamples to read, the page docs/rules.md, counts for tools/check."""

from __future__ import annotations

import collections
import json
import pathlib
import re

import numpy as np
from rule_check import Found
from rule_driver import Report
from rule_operands import OPERANDS, TABLES, tensor
from rule_predicates import SENTENCES, sentence
from rule_programs import BY_NAME, ROOT, USED, Instance, module

COLUMNS = [
    "none",
    "public",
    "no number twice",
    "no row twice",
    "per row",
    "per row, a part",
    "per row, coins",
    "sum",
    "derived",
    "mixed",
]


def core_ops() -> list[str]:
    """Names of dialect/CoreOps.def, in its order."""
    text = (ROOT / "dialect/CoreOps.def").read_text()
    return re.findall(r"^SOJOURN_CORE_OP\((\w+), \d, implemented", text, re.MULTILINE)


# A counterexample -------------------------------------------------------------------------------------------------------


def program_of(each: Instance) -> str:
    """The smallest program with the candidate, for sojourn-opt --sojourn-rows."""
    maker = {USED.match(line)[1]: line for operand in OPERANDS for line in operand.lines}
    needed: dict[str, None] = {}

    def need(name: str) -> None:
        if name in maker and name not in needed:
            for used in USED.findall(maker[name])[1:]:
                need(used)
        needed[name] = None

    for name in each.operands():
        need(name)
    kind = lambda name: {"s": "slot", "seed": "seed"}.get(name, "table" if name in TABLES else "upload")
    type_of = lambda name: TABLES.get(name) or BY_NAME[name].type
    order = ["upload", "slot", "seed", "table"]
    arguments = sorted((name for name in needed if name not in maker), key=lambda name: order.index(kind(name)))
    lines = [line for operand in OPERANDS for line in operand.lines if USED.match(line)[1] in needed]
    for names, _, text, _ in each.before:
        lines.append(", ".join("%" + name for name in names) + " = " + text)
    last = (each.names(len(each.texts) - 1)[0], tensor(*each.types[-1][0]))
    listed = [(name, type_of(name), kind(name)) for name in arguments]
    return module(listed, lines + each.lines(), [last])[0]


def _shown(x) -> str:
    return np.array2string(np.asarray(x), separator=", ", threshold=64).replace("\n", "")


def counterexample(found: Found, each: Instance, depth: int, count: int = 1, where: str = "") -> str:
    """A broken fact with the simplest runs that break it."""
    lines = [f"rule of '{each.op}': {found.predicate}{where} does not hold, at depth {depth} ({count} such)"]
    lines.append(f"  meaning: {sentence(found.predicate)}")
    lines += ["  " + line for line in each.lines()]
    lines.append(f"  claimed of %{found.result}: {found.fact.text}")
    if found.detail:
        lines.append(f"  but {found.detail}:")
    for name, x in found.given.items():
        other = found.other[name] if found.other else x
        same = found.other is None or np.asarray(x).tobytes() == np.asarray(other).tobytes()
        lines.append(f"    %{name} = {_shown(x)}" + ("" if same else f" and {_shown(other)}"))
    lines.append(f"  gives %{found.result} = " + " and ".join(map(_shown, found.values)))
    return "\n".join([*lines, "  the program:", *("    " + line for line in program_of(each).splitlines())])


def counterexamples(report: Report) -> str:
    parts = []
    for (predicate, *_), (count, depth, each, found) in report.found.items():
        where = " on the native runtime" if predicate.endswith("(native)") else ""
        parts.append(counterexample(found, each, depth, count, where))
    return "\n\n".join(parts)


# Counts -----------------------------------------------------------------------------------------------------------------


def summary(report: Report) -> str:
    rate = report.instances / max(report.seconds, 1e-9)
    depths = ", ".join(f"{count} at depth {depth}" for depth, count in sorted(report.by_depth.items()))
    ops = {op for op, _ in report.coverage}
    cut = (
        ""
        if report.candidates >= report.total
        else f"{report.candidates} of {report.total} texts when the time was up; "
    )
    return (
        f"{report.instances} candidates of {len(ops)} ops ({depths}), {report.complete} of them for all values; "
        f"{report.runs} runs, {sum(report.judged.values())} facts judged, {report.native} also native; {cut}"
        f"{report.seconds:.0f} s, {rate:.0f} a second; {report.failed} broken; seed {report.seed}"
    )


def write_counts(report: Report, path: pathlib.Path) -> None:
    """For tools/check: candidates that passed and failed."""
    counts = {"passed": report.instances - report.failed, "failed": report.failed, "skipped": 0}
    path.write_text(json.dumps(counts))


def write_page(report: Report, path: pathlib.Path) -> None:
    path.write_text(page(report))


def page(report: Report) -> str:
    """docs/rules.md."""
    text = [
        "# Rules of rows, and how they are checked",
        "",
        "What each fact of the row analysis means, and which ops were checked with which facts of their operands. Written by",
        "`tools/rules --report`; the facts are those of `dialect/rows/Fact.h`, the checker is `test/python/rules/`.",
        "",
        "## What a fact means",
        "",
        "Tables T and U differ in one row r, coins c and d of an owner's draw in one slot; v(T, c) is a value in a run. Each fact",
        "is one predicate of `test/python/rules/rule_predicates.py`.",
        "",
        "| fact | holds when |",
        "|---|---|",
    ]
    seen = set()
    for name in SENTENCES:
        if sentence(name) not in seen:
            seen.add(sentence(name))
            text.append(f"| {name} | {sentence(name)} |")
    text += [
        "",
        "`secret` and `payable` are not facts of a value yet: the predicates stand, and no remark claims them.",
        "",
        "## The last run",
        "",
        f"{summary(report)}.",
        "",
        "| predicate | judged |",
        "|---|---|",
        *(f"| {name} | {count} |" for name, count in sorted(report.judged.items())),
        "",
        "## Ops by facts of their operands",
        "",
        "Candidates that were valid ops and were checked; a candidate counts once per different fact among its operands. An empty",
        "place means that no candidate of that kind was met: the op takes no such operand, or the time was up.",
        "",
        "| op | " + " | ".join(COLUMNS) + " | results |",
        "|---|" + "---|" * (len(COLUMNS) + 1),
    ]
    results = collections.defaultdict(set)
    for op, label in report.results:
        results[op].add(label)
    for op in core_ops():
        counts = [str(report.coverage[op, label] or "") for label in COLUMNS]
        kinds = ", ".join(label for label in COLUMNS if label in results[op])
        text.append(f"| `{op}` | " + " | ".join(counts) + f" | {kinds} |")
    missing = [op for op in core_ops() if not any(of == op for of, _ in report.coverage)]
    if missing:
        text += ["", f"Without a candidate: {', '.join(f'`{op}`' for op in missing)}."]
    return "\n".join(text) + "\n"
