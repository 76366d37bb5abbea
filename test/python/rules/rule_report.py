# SPDX-License-Identifier: Apache-2.0
"""The results of a run of the checker: counterexamples, the page docs/rules.md, counts for tools/check."""

from __future__ import annotations

import collections
import json
import pathlib
import re

import numpy as np
from clip_check import ClipReport
from rule_check import Extent, Found
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
    lines = [f"rule of '{each.op}': {found.predicate}{where} does not hold, at depth {depth} ({count} times)"]
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
    names = {Extent.ALL: "for all values", Extent.FEWER: "for all arrays of fewer values", Extent.SAMPLE: "for some"}
    counted = ", ".join(f"{report.extent[extent]} {name}" for extent, name in names.items())
    cut = (
        ""
        if report.candidates >= report.total
        else f"{report.candidates} of {report.total} texts when the time was up; "
    )
    return (
        f"{report.instances} candidates of {len(ops)} ops ({depths}), {counted}; "
        f"{report.runs} runs, {sum(report.judged.values())} facts judged, {report.native} also native; {cut}"
        f"{report.seconds:.0f} s, {rate:.0f} a second; {report.failed} broken; seed {report.seed}"
    )


def write_counts(path: pathlib.Path, report: Report, clips: ClipReport | None) -> None:
    """For tools/check: candidates and rewritten programs that passed and failed."""
    programs, failed = (sum(clips.made.values()), len({each.text for each in clips.broken})) if clips else (0, 0)
    passed = report.instances - report.failed + programs - failed
    counts = {"passed": passed, "failed": report.failed + failed, "skipped": 0}
    path.write_text(json.dumps(counts))


def write_page(path: pathlib.Path, report: Report, most: int, clips: ClipReport | None) -> None:
    path.write_text(page(report, most, clips))


def page(report: Report, most: int, clips: ClipReport | None) -> str:
    """docs/rules.md. `most` is Options.most."""
    sampled = report.sampled.most_common(9)
    text = [
        "# Rules of the row analysis and their checks",
        "",
        "The meaning of each fact of the row analysis, and the ops that were checked, by the facts of their operands.",
        "Written by `tools/rules --report`. The facts are in `dialect/rows/Fact.h`, the checker in `test/python/rules/`.",
        "",
        "## Meaning of the facts",
        "",
        "Tables T and U differ in one row r; coins c and d of an owner's draw differ in one slot; v(T, c) is a value in a",
        "run. Each fact is one predicate of `test/python/rules/rule_predicates.py`.",
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
        "`sojourn-rows` prints all of them. It prints `secret of draws` if a draw of the owner reaches a value, `not paid by",
        "draws` if a draw without a private table does, and the norms of an influence if they are three numbers.",
        "",
        "## Tested operands",
        "",
        "Operands are all arrays of at most three elements over at most six stated values of their type that their fact admits",
        "(`rule_values.py`). Larger shapes use as many of these values as give at most 256 arrays. Candidates with at",
        f"most {most} choices of operands get all of them, others a random selection. Sums are also added in another",
        "order: positives first, then negatives. If a part begins at a number of the run, four such numbers are tested.",
        "",
        "| candidates | operands |",
        "|---|---|",
        *(f"| {report.extent[extent]} | {extent.value} |" for extent in Extent),
        "",
        "Most random selections are for writes (three operands) and pairs of operands with four elements each:",
        "",
        "| op | " + " | ".join(f"`{op}`" for op, _ in sampled) + " |",
        "|---|" + "---|" * len(sampled),
        "| at random | " + " | ".join(str(count) for _, count in sampled) + " |",
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
        "Numbers of checked candidates that were valid ops. A candidate counts once per different fact among its operands.",
        "An empty place means that no such candidate was found: the op takes no such operand, or the time was up.",
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
    text += _rewritten(clips) if clips else []
    return "\n".join(text) + "\n"


def _rewritten(clips: ClipReport) -> list[str]:
    return [
        "",
        "## Rewritten programs",
        "",
        "Random programs after `sojourn-make-private` on the NumPy owner, with and without one row: the change before the",
        "noise, relative to the reported sensitivity.",
        "",
        "| sums are | programs | pairs of runs | largest part |",
        "|---|---|---|---|",
        *(f"| {way} | {clips.made[way]} | {clips.pairs[way]} | {clips.largest[way]:.4f} |" for way in clips.made),
        "",
        f"{clips.refused} more programs were refused, {len(clips.broken)} pairs moved further; seed {clips.seed}.",
    ]
