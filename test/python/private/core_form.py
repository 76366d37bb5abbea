# SPDX-License-Identifier: Apache-2.0
"""sojourn-opt and sojourn-translate as functions, and their remarks by op and by result."""

from __future__ import annotations

import bisect
import dataclasses
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[3]
BIN = pathlib.Path(os.environ.get("SOJOURN_BIN", ROOT / "build/bin"))


@dataclasses.dataclass
class Done:
    code: int
    stdout: str
    stderr: str


def tool(name: str, *arguments, text: str | None = None, may_fail: bool = False) -> Done:
    """Runs a tool of the build; `text` is its standard input."""
    command = [BIN / name, *map(str, arguments)]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    assert may_fail or done.returncode == 0, f"{name} {arguments}: {done.stderr[-3000:]}"
    assert done.returncode in (0, 1), f"{name} {arguments} crashed with {done.returncode}: {done.stderr[-3000:]}"
    return Done(done.returncode, done.stdout, done.stderr)


@dataclasses.dataclass
class Fact:
    """A remark of sojourn-rows: what is known of one value."""

    kind: str  # public, per row, sum over rows, derived from sums over rows, mixed
    text: str
    draw: int = -1
    slots: int = 0
    stride: int = 0
    first: int = 0
    step: int = 1
    among: int | None = None  # it begins at a number of the run, within so many slots
    cuts: tuple[int, ...] = ()
    influence: float | None = None  # Euclidean
    influence_sum: float | None = None
    influence_largest: float | None = None
    secrets: tuple[int, ...] = ()  # draws whose coins may reach it
    unpaid: tuple[int, ...] = ()  # draws at which no private table is read
    nonzeros: int | None = None  # of a slot that holds a row
    low: float | None = None
    high: float | None = None
    present: tuple[float, float] | None = None  # in slots that hold a row, where that is closer
    distinct: str = ""  # row numbers: "row" (none twice) or "number"


_KIND = re.compile(r"(public|per row|sum over rows|derived from sums over rows|mixed)\b(.*)", re.S)
_UNPAID = re.compile(r", not paid by draws ([\d, ]+)$")
_SECRET = re.compile(r", secret of draws ([\d, ]+)$")
_DISTINCT = re.compile(r", no (row|number) twice$")
_RANGE = re.compile(r", in \[([^,\]]+), ([^\]]+)\]( or NaN)?$")
_PER_ROW = re.compile(
    r": draw (\d+), (\d+) slots, stride (\d+)(?:, from slot (-?\d+) by (\d+))?"
    r"(?:, of (\d+) from a run-time position)?"
)
_PRESENT = re.compile(r", rows in \[([^,\]]+), ([^\]]+)\]( or NaN)?$")
_NONZEROS = re.compile(r", at most (\d+) not zero$")
_CUTS = re.compile(r": cuts ([\d, ]*?)(?:, one row moves it by ([^ ,]+)(?: \(sum ([^,]+), largest ([^)]+)\))?)?$")


def parse_fact(text: str) -> Fact:
    kind, rest = _KIND.fullmatch(text).groups()
    fact = Fact(kind, text)
    if kind == "mixed":
        return fact
    if unpaid := _UNPAID.search(rest):
        fact.unpaid = tuple(map(int, unpaid[1].split(", ")))
        rest = rest[: unpaid.start()]
    if secret := _SECRET.search(rest):
        fact.secrets = tuple(map(int, secret[1].split(", ")))
        rest = rest[: secret.start()]
    if distinct := _DISTINCT.search(rest):
        fact.distinct = distinct[1]
        rest = rest[: distinct.start()]
    bounds = _RANGE.search(rest)
    if bounds:
        if not bounds[3]:
            fact.low, fact.high = float(bounds[1]), float(bounds[2])
        rest = rest[: bounds.start()]
    present = _PRESENT.search(rest)
    if present:
        fact.present = None if present[3] else (float(present[1]), float(present[2]))
        rest = rest[: present.start()]
    if nonzeros := _NONZEROS.search(rest):
        fact.nonzeros = int(nonzeros[1])
        rest = rest[: nonzeros.start()]
    if kind == "per row":
        found = _PER_ROW.fullmatch(rest)
        fact.draw, fact.slots, fact.stride = (int(found[k]) for k in (1, 2, 3))
        if found[4]:
            fact.first, fact.step = int(found[4]), int(found[5])
        fact.among = int(found[6]) if found[6] else None
    elif kind != "public":
        found = _CUTS.fullmatch(rest)
        fact.cuts = tuple(int(cut) for cut in found[1].split(", "))
        if found[2]:
            norm, total, largest = (float(found[k] or found[2]) for k in (2, 3, 4))
            fact.influence, fact.influence_sum, fact.influence_largest = norm, total, largest
    else:
        assert rest == "", text
    return fact


@dataclasses.dataclass
class Rows:
    """What sojourn-rows says of one program."""

    values: dict[int, list[Fact]]  # by line of the op, counted from the program's first line
    results: list[Fact]
    points: list[tuple[int, tuple[int, ...]]]  # line and cuts


SPLIT = "// -----\n"
_REMARK = re.compile(r"^<stdin>:(\d+):\d+: remark: (.*)$", re.M)


def rows_of(texts: list[str], options: str = "") -> list[Rows]:
    """sojourn-rows of several programs in one process."""
    texts = [text if text.endswith("\n") else text + "\n" for text in texts]
    done = tool("sojourn-opt", "-", "--split-input-file", f"--sojourn-rows={options}", text=SPLIT.join(texts))
    starts = [1]
    for text in texts:
        starts.append(starts[-1] + text.count("\n") + 1)
    found = [Rows({}, [], []) for _ in texts]
    for at, remark in _REMARK.findall(done.stderr):
        program = bisect.bisect_right(starts, int(at)) - 1
        where = int(at) - starts[program] + 1
        result, point = re.fullmatch(r"result #\d+ is (.*)", remark), re.fullmatch(r"noise point of cuts (.*)", remark)
        if result:
            found[program].results.append(parse_fact(result[1]))
        elif point:
            found[program].points.append((where, tuple(map(int, point[1].split(", ")))))
        else:
            found[program].values.setdefault(where, []).append(parse_fact(remark))
    return found


_OP = re.compile(r"\s*%\w+(?::\d+)?(?:, %\w+)* = \"?sojourn\.")


def op_lines(text: str) -> list[int]:
    """Numbers of the lines with the ops of @step, in order; the terminator is not among them."""
    return [k + 1 for k, line in enumerate(text.split("\n")) if _OP.match(line)]


def facts_by_value(program, text: str, found: Rows) -> dict[int, Fact]:
    """Facts by the value numbers of the decoded program."""
    lines, facts = op_lines(text), {}
    assert len(lines) == len(program.ops), f"{len(lines)} lines of ops, {len(program.ops)} ops"
    for op, line in zip(program.ops, lines):
        assert len(found.values.get(line, [])) == len(op.result_types), (
            f"remarks of line {line}: {found.values.get(line)}"
        )
        for k, fact in enumerate(found.values[line]):
            facts[op.first_result + k] = fact
    return facts
