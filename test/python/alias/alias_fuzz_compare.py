# SPDX-License-Identifier: Apache-2.0
"""Compares a program's outcome at an owner with eager's, and tells refusals and roundings from differences."""

from __future__ import annotations

import dataclasses
import traceback

import torch
from alias_fuzz_execute import Outcome, Remote, run_eager
from alias_fuzz_memory import Hazard
from alias_fuzz_ops import SPECS
from alias_fuzz_program import Op, Program

import sojourn

_REFUSALS_MOST = 6  # of one program; each is taken out
_NOISES = 3


@dataclasses.dataclass
class Verdict:
    kind: str  # "same", "difference", "refused", "hazard", "rounding"
    text: str = ""
    category: str = ""  # of a difference
    refusals: list[tuple[str, str]] = dataclasses.field(default_factory=list)  # op, text
    program: Program | None = None  # without what was refused


def judge(program: Program, remote: Remote) -> Verdict:
    """Runs a program both ways. Ops that Sojourn refuses are taken out, and the rest is run again."""
    refusals: list[tuple[str, str]] = []
    for _ in range(_REFUSALS_MOST):
        verdict = _judge_once(program, remote)
        if verdict.kind != "refused":
            verdict.refusals, verdict.program = refusals, program
            return verdict
        refusals += verdict.refusals
        removed = verdict.category
        if removed == "":
            break
        program = program.replace(ops=[op for at, op in enumerate(program.ops) if at != int(removed)])
    return Verdict("refused", refusals=refusals, program=program)


def _judge_once(program: Program, remote: Remote) -> Verdict:
    wanted: list[Outcome] = []
    found = None
    try:
        found = remote.run(program)
        failure = None
    except Exception as caught:
        failure = caught
    rounds = range(len(found)) if found is not None else range(1)
    try:
        wanted = [run_eager(program, round) for round in rounds]
    except Hazard as hazard:
        return Verdict("hazard", str(hazard))
    if failure is not None:
        if isinstance(failure, (sojourn.Unsupported, sojourn.Refused, sojourn.ValueNeeded)):
            return Verdict("refused", refusals=[("the step", _first_line(failure))])
        text = "".join(traceback.format_exception(failure))[-1500:]
        return Verdict("difference", f"the step raised {type(failure).__name__}: {failure}\n{text}", "raised")
    assert found is not None
    for round, (ours, theirs) in enumerate(zip(found, wanted)):
        verdict = _compare(program, round, ours, theirs)
        if verdict is not None:
            return verdict
    return Verdict("same")


def _first_line(failure) -> str:
    return str(failure).splitlines()[0]


def _compare(program: Program, round: int, ours: Outcome, theirs: Outcome) -> Verdict | None:
    where = f"round {round}: "
    if verdict := _compare_failures(program, where, ours, theirs):
        return verdict
    for seen, ought, what in ((ours.facts, theirs.facts, "fact"), (ours.layouts, theirs.layouts, "layout")):
        if seen is not None and ought is not None and (text := _compare_facts(seen, ought)):
            return Verdict("difference", where + text[1], f"{what} {text[0]}")
    if ours.versions != theirs.versions:
        names = [name for name in theirs.versions if ours.versions.get(name) != theirs.versions[name]]
        text = f"versions of arguments grew by {[ours.versions.get(n) for n in names]}, in eager by {[theirs.versions[n] for n in names]}: {names}"
        return Verdict("difference", where + text, "argument versions")
    pairs = [(name, ours.values.get(name), value) for name, value in theirs.values.items()]
    pairs += [(f"read {at}", ours.reads[at], value) for at, value in theirs.reads.items() if at in ours.reads]
    differing = [(name, seen, ought) for name, seen, ought in pairs if not _equal(seen, ought)]
    if not differing:
        return None
    name, seen, ought = differing[0]
    text = f"{where}{name} is {_shown(seen)}, in eager {_shown(ought)} (and {len(differing) - 1} others)"
    kind = "rounding" if _is_rounding(program, round, differing) else "difference"
    return Verdict(kind, text, "value")


def _compare_failures(program, where, ours: Outcome, theirs: Outcome) -> Verdict | None:
    for at in sorted({*ours.failures, *theirs.failures}):
        a, b = ours.failures.get(at, False), theirs.failures.get(at, False)
        if (a is None and b is None) or (a and b and isinstance(a, type(b))):
            continue
        op = program.ops[at]
        if isinstance(a, (sojourn.Unsupported, sojourn.Refused, sojourn.ValueNeeded)):
            return Verdict("refused", category=str(at), refusals=[(op.name, _first_line(a))])
        say = lambda failure: (
            "does nothing wrong" if failure is False else "is skipped" if failure is None else f"raises {failure!r}"
        )
        return Verdict("difference", f"{where}{op} {say(a)}, in eager {say(b)}", "failure")
    return None


def _compare_facts(seen, ought) -> tuple[str, str] | None:
    if list(seen) != list(ought):
        odd = sorted(set(seen) ^ set(ought))
        if odd:
            return "names", f"live are {', '.join(odd)} on one side alone"
    for name, facts in ought.items():
        for key, value in facts.items():
            if seen[name].get(key) != value:
                return key, f"{name}: {key} is {seen[name].get(key)}, in eager {value}"
    return None


def _shown(value) -> str:
    return "nothing" if value is None else f"{value.dtype} {value.tolist()}"


def _equal(a, b) -> bool:
    if a is None or a.dtype != b.dtype or a.shape != b.shape:
        return False
    if torch.equal(a, b):
        return True
    if not (b.dtype.is_floating_point or b.dtype.is_complex) or not b.numel():
        return False
    a, b = _wide(a), _wide(b)
    return torch.allclose(a, b, rtol=1e-6, atol=0, equal_nan=True)


def _wide(x: torch.Tensor) -> torch.Tensor:
    x = torch.view_as_real(x.resolve_conj()) if x.is_complex() else x
    return x.double()


def _is_rounding(program: Program, round: int, differing) -> bool:
    """Whether eager itself differs as much once each of its results is moved by a rounding."""
    spread: dict[str, torch.Tensor] = {}
    exact = _noted(run_eager(program, round, check_hazards=False))
    for seed in range(_NOISES):
        noisy = _noted(run_eager(program, round, False, Noise(seed)))
        for name, value in exact.items():
            if name not in noisy or noisy[name].shape != value.shape:
                continue
            off = _distance(noisy[name], value)
            spread[name] = torch.maximum(spread[name], off) if name in spread else off
    for name, seen, ought in differing:
        if seen is None or seen.dtype != ought.dtype or seen.shape != ought.shape:
            return False
        if name not in spread or not bool((_distance(seen, ought) <= 64 * spread[name]).all()):
            return False
    return True


def _noted(outcome: Outcome) -> dict[str, torch.Tensor]:
    return {**outcome.values, **{f"read {at}": value for at, value in outcome.reads.items()}}


def _distance(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    a, b = _wide(a), _wide(b)
    off = (a - b).abs()
    off[(a == b) | (a.isnan() & b.isnan())] = 0  # infinities among them
    return off.nan_to_num(nan=float("inf"))


class Noise:
    """Moves results of arithmetic by a rounding, without torch counting it."""

    def __init__(self, seed: int):
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, machine, op: Op, args) -> None:
        spec = SPECS[op.name]
        if not spec.rounds:
            return
        touched = [machine.registers[name] for name in op.outs if machine.registers.get(name) is not None]
        for at in spec.writes:
            touched += args[at] if isinstance(args[at], list) else [args[at]]
        if spec.group == "autograd":
            touched += [value for name, value in machine.live().items() if name.endswith(".grad")]
        for value in touched:
            self.move(value.data)

    def move(self, x: torch.Tensor) -> None:
        x = torch.view_as_real(x) if x.is_complex() else x
        if x.is_floating_point():
            signs = torch.randint(-1, 2, x.shape, generator=self.generator)
            try:
                x.copy_((x.double() * (1 + torch.finfo(x.dtype).eps * signs)).to(x.dtype))
            except RuntimeError:
                pass  # elements share memory
