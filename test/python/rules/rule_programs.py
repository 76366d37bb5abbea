# SPDX-License-Identifier: Apache-2.0
"""Programs around candidates, through sojourn-opt and sojourn-translate: types of results, facts, decoded ops.

Two programs hold the same lines. That of facts computes operands with their producers, from tables, so that they get
their facts; that of values takes operands as uploads, so that they can be any arrays.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import pathlib
import re
import subprocess
import tempfile
import time

from rule_batches import Table
from rule_candidates import results_of
from rule_facts import Fact, parse
from rule_operands import BOUNDS, OPEN, OPERANDS, ROWS, TABLE_ROWS, TABLES, Operand, parse_tensor, tensor, usable

from sojourn_numpy import decode
from sojourn_numpy.parts import PartRows, Side, rows_of

ROOT = pathlib.Path(__file__).resolve().parents[3]
USED = re.compile(r"%(\w+)")
_OP = re.compile(r"sojourn\.(\w+)")
_TYPES = re.compile(r"tensor<(?:[^<>]|<[^<>]*>)*>")
_PART = re.compile(r"(?:part|split) = \[([^\]]*)\]")
_REMARK = re.compile(r"^<stdin>:(\d+):\d+: remark: (.*)$", re.M)


class ToolError(Exception):
    """A tool did not do what every module of the checker asks of it."""


@dataclasses.dataclass
class Tools:
    """Where the tools are; `opt` may be another build of sojourn-opt, with a rule that is broken on purpose."""

    opt: pathlib.Path = ROOT / "build/bin/sojourn-opt"
    translate: pathlib.Path = ROOT / "build/bin/sojourn-translate"

    def run(self, command, text: str, attempts: int = 3) -> subprocess.CompletedProcess:
        for left in reversed(range(attempts)):
            try:
                done = subprocess.run([str(word) for word in command], input=text, capture_output=True, text=True)
                if done.returncode >= 0 or not left:
                    return done
            except OSError:  # it is being linked
                if not left:
                    raise
            time.sleep(2)
        raise AssertionError


@dataclasses.dataclass(eq=False)
class Instance:
    """One candidate: its lines behind those of the operands that are chains, and what its results are."""

    op: str
    texts: tuple[str, ...]  # behind "="; earlier results are %i{number}_{line}
    number: int = -1
    idiom: bool = False
    before: tuple = ()  # (names, types, text) of chains that operands are
    types: list = dataclasses.field(default_factory=list)  # per line, the types of its results
    facts: list = dataclasses.field(default_factory=list)  # per line, the facts of its results

    def names(self, line: int) -> list[str]:
        op = _OP.match(self.texts[line])
        count = len(self.types[line]) if self.types else results_of(op[1] if op else "")
        return [f"i{self.number}_{line}" + (f"_{k}" if k else "") for k in range(count)]

    def lines(self) -> list[str]:
        return [", ".join("%" + name for name in self.names(k)) + " = " + text for k, text in enumerate(self.texts)]

    def chain(self) -> tuple:
        """All lines, as (names, types, text, facts), with those of operands first."""
        own = [
            (tuple(self.names(k)), tuple(self.types[k]), text, tuple(self.facts[k]))
            for k, text in enumerate(self.texts)
        ]
        return (*self.before, *own)

    def operands(self) -> list[str]:
        """Names of what its lines use and do not define, in order."""
        defined = {name for names, *_ in self.before for name in names}
        found: dict[str, None] = {}
        texts = [(names, text) for names, _, text, _ in self.before] + [
            (self.names(k), t) for k, t in enumerate(self.texts)
        ]
        for names, text in texts:
            found.update(dict.fromkeys(name for name in USED.findall(text) if name not in defined))
            defined.update(names)
        return list(found)


def idiom(op: str, lines: tuple[str, ...], number: int) -> Instance:
    """An instance of several lines, whose results are named {k}."""
    names, texts = {}, []
    for k, line in enumerate(lines):
        result, text = line.split(" = ", 1)
        names[result.strip("{}")] = f"%i{number}_{k}"
        texts.append(re.sub(r"\{(\d)\}", lambda found: names[found[1]], text))
    return Instance(op, tuple(texts), number, idiom=True)


def part_of(text: str) -> PartRows:
    """The rows that the text of a sample_rows draws from."""
    found = _PART.search(text)
    items = [item.split() for item in found[1].split(", ")] if found else []
    return rows_of(TABLE_ROWS[USED.findall(text)[3]], tuple(Side(float(f), side == "other") for side, f in items))


BY_NAME = {each.name: each for each in usable()}


def _type_of(name: str, known: dict[str, str]) -> str:
    return TABLES.get(name) or known.get(name) or BY_NAME[name].type


def resolve(tools: Tools, instances: list[Instance], known: dict[str, str]) -> list[Instance]:
    """Those that are valid, with the types of their results. `known`: types of operands that are chains."""
    valid = []
    for begin in range(0, len(instances), 3000):
        parts = []
        for k, each in enumerate(instances[begin : begin + 3000]):
            own = {name for line in range(len(each.texts)) for name in each.names(line)}
            used = dict.fromkeys(name for text in each.texts for name in USED.findall(text) if name not in own)
            arguments = ", ".join(f"%{name}: {_type_of(name, known)}" for name in used)
            parts.append(f"func.func @c{k}({arguments}) {{\n" + "\n".join(each.lines()) + "\nreturn\n}")
        done = tools.run([tools.opt, "-", "--split-input-file", "--mlir-print-op-generic"], "\n// -----\n".join(parts))
        for block in done.stdout.split("// -----"):
            name = re.search(r'sym_name = "c(\d+)"', block)
            ops = re.findall(r'^.*= "sojourn\..* -> (.*)$', block, re.M)
            if name and ops:
                each = instances[begin + int(name[1])]
                each.types = [[parse_tensor(text) for text in _TYPES.findall(op)] for op in ops]
                if len(each.types) == len(each.texts):
                    valid.append(each)
    return valid


def module(arguments: list[tuple[str, str, str]], lines: list[str], results: list[tuple[str, str]]) -> tuple[str, int]:
    """The text, and the line of the first op."""
    listed = ", ".join(f'%{name}: {type_} {{sojourn.kind = "{kind}"}}' for name, type_, kind in arguments)
    kinds = ", ".join(f'{type_} {{sojourn.result = "publish"}}' for _, type_ in results)
    names = ", ".join("%" + name for name, _ in results)
    head = 'module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {\n'
    head += f"func.func @step({listed}) -> ({kinds}) {{\n"
    tail = f"\nreturn {names} : {', '.join(type_ for _, type_ in results)}\n}}\n}}\n"
    return head + "\n".join(lines) + tail, 3


def _producers() -> list[str]:
    return [line for each in OPERANDS for line in each.lines]


def _fact_arguments() -> list[tuple[str, str, str]]:
    kind = lambda name: {"s": "slot", "seed": "seed"}.get(name, "upload")
    listed = [(each.name, each.type, kind(each.name)) for each in OPERANDS if each.is_argument]
    return listed + [(name, type_, "table") for name, type_ in TABLES.items()]


def _known() -> str:
    """What the owner knows, as an option: bounds of columns, rows of the table that has any, and which table is open."""
    return f"{BOUNDS} rows={ROWS} open-tables={[name for name, *_ in _fact_arguments()].index(OPEN)}"


def facts_of(tools: Tools, lines: list[str]) -> list[list[Fact]]:
    """The facts of each line's results, behind the producers of all operands."""
    before = _producers()
    text, first = module(_fact_arguments(), before + lines, [("ramp", "tensor<3xi64>")])
    done = tools.run([tools.opt, "-", f"--sojourn-rows={_known()}"], text)
    if done.returncode:
        raise ToolError(f"sojourn-opt --sojourn-rows: {done.stderr[-2000:]}")
    found = collections.defaultdict(list)
    for at, remark in _REMARK.findall(done.stderr):
        if not remark.startswith(("result #", "noise point")):
            found[int(at) - first].append(parse(remark))
    return [found[k] for k in range(len(before) + len(lines))][len(before) :]


def facts_of_operands(tools: Tools) -> dict[str, Fact]:
    """The fact of each leaf."""
    found = {}
    lines = _producers()
    text, first = module(_fact_arguments(), lines, [("ramp", "tensor<3xi64>")])
    done = tools.run([tools.opt, "-", f"--sojourn-rows={_known()}"], text)
    if done.returncode:
        raise ToolError(f"sojourn-opt --sojourn-rows: {done.stderr[-2000:]}")
    for at, remark in _REMARK.findall(done.stderr):
        if first <= int(at) < first + len(lines) and not remark.startswith(("result #", "noise point")):
            found[USED.match(lines[int(at) - first])[1]] = parse(remark)
    return found


def encoded(tools: Tools, text: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="sojourn-rules-") as folder:
        path = pathlib.Path(folder) / "program.bin"
        done = tools.run([tools.translate, "encode", "-", "-o", path], text)
        if done.returncode:
            raise ToolError(f"sojourn-translate encode: {done.stderr[-2000:]}")
        return path.read_bytes()


# Values -----------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Values:
    """A decoded program whose arguments are operands, then tables: the number of each value, the op of each line."""

    program: object
    data: bytes
    numbers: dict[str, int]
    op_of: dict[str, int]  # by the name of a line's first result
    arguments: list[Operand]
    tables: dict[int, Table]
    table_names: list[str]  # in order
    results: list[str]  # names of all results, as they are published

    @functools.cached_property
    def makers(self) -> dict[int, int]:
        """The op that each value comes from."""
        ops = enumerate(self.program.ops)
        return {op.first_result + k: i for i, op in ops for k in range(len(op.result_types))}


def values_of(tools: Tools, instances: list[Instance]) -> Values:
    """The lines of all instances over uploads of their operands. All results are published."""
    lines: dict[str, tuple] = {}  # name of the first result to (names, types, text)
    leaves: dict[str, Operand] = {}
    tables: dict[str, None] = {}

    def need(name: str) -> None:
        if name in TABLES:
            tables[name] = None
            return
        each = BY_NAME[name]
        if each.fixed and name not in lines:
            for line in each.lines:
                for used in USED.findall(line.split(" = ", 1)[1]):
                    need(used)
                lines[name] = ((name,), ((each.shape, each.element),), line.split(" = ", 1)[1])
        elif not each.fixed:
            leaves[name] = each

    for each in instances:
        for name in each.operands():
            need(name)
    for each in instances:
        for names, types, text, _ in each.chain():
            lines.setdefault(names[0], (names, types, text))
    arguments = list(leaves.values())
    results = [(name, tensor(*type_)) for names, types, _ in lines.values() for name, type_ in zip(names, types)]
    # The NumPy owner holds open tables and draws no coins; a draw that is read nowhere is an order of its positions.
    plain = lambda text: re.sub(r", expected = \d+", "", text)
    texts = [", ".join("%" + name for name in names) + " = " + plain(text) for names, _, text in lines.values()]
    listed = [(each.name, each.type, "upload") for each in arguments] + [
        (name, TABLES[name], "table") for name in tables
    ]
    text, _ = module(listed, texts, results)
    data = encoded(tools, text)
    program = decode(data)
    numbers = {name: k for k, (name, *_) in enumerate(listed)}
    op_of = {}
    for k, (names, _, _) in enumerate(lines.values()):
        op_of[names[0]] = k
        numbers.update({name: program.ops[k].first_result + j for j, name in enumerate(names)})
    rows = {numbers[name]: Table(TABLE_ROWS[name]) for name in tables}
    return Values(program, data, numbers, op_of, arguments, rows, list(tables), [name for name, _ in results])
