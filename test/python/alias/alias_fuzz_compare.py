# SPDX-License-Identifier: Apache-2.0
"""Compares a program's outcome at an owner with eager's, and tells refusals and roundings from differences."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import traceback

import torch
from alias_fuzz_execute import Outcome, Remote, groups, run_eager
from alias_fuzz_memory import Hazard
from alias_fuzz_ops import CONTROLS, SPECS
from alias_fuzz_program import Op, Program

import sojourn

# Differences that stay: patterns of the category, of the text and of the name of an op in the program, and why. Such a
# program counts apart.
_ADDED = (
    "torch adds gradients in place where it alone holds a tensor's memory, which keeps other strides of dims of size 1"
)
_OF_COUNTED = "created in no_grad mode"
_COUNTED = "a step that raises counts its writes, so that views made under no_grad refuse gradients"
KNOWN = [
    ("stride of dims of size 1", "", "", _ADDED),
    ("failure RuntimeError for nothing", r"self.stride\(.*\) must be .* to view", "grad|backward", _ADDED),
    ("failure RuntimeError for", _OF_COUNTED, "^fail$", _COUNTED),
    ("fact is_leaf", "is_leaf is RuntimeError", "^fail$", _COUNTED),
]
# These promise no sign of zero, as all arithmetic of complex numbers.
_SIGNS_FREE = {
    "clamp_", "amax", "sum", "sum_out", "fresh_out", "empty_out", "mean", "cumsum", "matmul", "backward", "grad",
    "index_add_", "index_put_", "scatter_add_",
}  # fmt: skip
# These round between their operands, so that a result may be off by a rounding of what was larger.
_TERMS = {
    "add", "sub", "add_", "sub_", "addcmul_", "lerp_", "foreach_add_", "foreach_addcmul_", "foreach_lerp_", "matmul", "sum",
    "sum_out", "mean", "cumsum", "index_add_", "index_put_", "scatter_add_", "backward", "grad", "add_out", "iadd_slice",
    "fresh_out", "empty_out",
}  # fmt: skip
_REFUSALS_MOST = 6  # of one program; each is taken out
_NOISES = 24


@dataclasses.dataclass
class Verdict:
    kind: str  # "same", "difference", "refused", "hazard", "rounding", "known"
    text: str = ""
    category: str = ""  # of a difference
    known: str = ""  # why one is known
    refusals: list[tuple[str, str]] = dataclasses.field(default_factory=list)  # op, text
    program: Program | None = None  # without what was refused


def judge(program: Program, remote: Remote) -> Verdict:
    """Runs a program both ways. Ops that Sojourn refuses are taken out, and the rest is run again."""
    refusals: list[tuple[str, str]] = []
    for _ in range(_REFUSALS_MOST):
        verdict = _judge_once(program, remote)
        if verdict.kind == "difference":
            for category, text, name, why in KNOWN:
                has_name = any(re.search(name, op.name) for op in program.ops)
                if re.search(category, verdict.category) and re.search(text, verdict.text) and has_name:
                    verdict.kind, verdict.known = "known", why
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
    found = None
    try:
        found = remote.run(program)
        failure = None
    except Exception as caught:
        failure = caught
    rounds = range(len(found)) if found is not None else range(1)
    verdict = _outcome_of(program, found, failure, [run_eager(program, round, check_hazards=False) for round in rounds])
    if verdict.kind == "difference":
        try:
            for round in rounds:
                run_eager(program, round)
        except Hazard as hazard:
            return Verdict("hazard", str(hazard))
    return verdict


def _outcome_of(program: Program, found: list[Outcome] | None, failure, wanted: list[Outcome]) -> Verdict:
    if failure is not None:
        if isinstance(failure, (sojourn.Unsupported, sojourn.Refused, sojourn.ValueNeeded)):
            return Verdict("refused", refusals=[("the step", _first_line(failure))])
        text = "".join(traceback.format_exception(failure))[-1500:]
        return Verdict(
            "difference",
            f"the step raised {type(failure).__name__}: {failure}\n{text}",
            f"raised {type(failure).__name__}",
        )
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
        if seen is not None and ought is not None and (text := _compare_facts(seen, ought, what == "fact")):
            return Verdict("difference", where + text[1], f"{what} {text[0]}")
    return _compare_values(program, round, where, ours, theirs) or _compare_versions(where, ours, theirs)


def _compare_versions(where, ours: Outcome, theirs: Outcome) -> Verdict | None:
    """After all else, for what only counts otherwise hides nothing."""
    if ours.facts is None or theirs.facts is None:
        return None  # a replayed call counts no writes to its arguments
    for name, facts in theirs.facts.items():
        if (seen := ours.facts[name].get("version")) != (ought := facts.get("version")):
            return Verdict("difference", f"{where}{name}: version is {seen}, in eager {ought}", "fact version")
    if ours.versions != theirs.versions:
        names = [name for name in theirs.versions if ours.versions.get(name) != theirs.versions[name]]
        text = f"versions of arguments grew by {[ours.versions.get(n) for n in names]}, in eager by {[theirs.versions[n] for n in names]}: {names}"
        return Verdict("difference", where + text, "argument versions")
    return None


def _compare_values(program: Program, round: int, where, ours: Outcome, theirs: Outcome) -> Verdict | None:
    pairs: list[tuple[str, torch.Tensor | None, torch.Tensor | None]]
    pairs = [(name, ours.values.get(name), value) for name, value in theirs.values.items()]
    pairs += [(f"read {at}", ours.reads[at], value) for at, value in theirs.reads.items() if at in ours.reads]
    pairs += [(f"{name} afterwards", ours.left[name], value) for name, value in theirs.left.items()]
    differing = [(name, seen, ought) for name, seen, ought in pairs if not _equal(seen, ought)]
    if not differing:
        return None
    name, seen, ought = differing[0]
    text = f"{where}{name} is {_shown(seen)}, in eager {_shown(ought)} (and {len(differing) - 1} others)"
    kind = "rounding" if _is_rounding(program, round, differing) else "difference"
    return Verdict(kind, text, "value")


def _compare_failures(program, where, ours: Outcome, theirs: Outcome) -> Verdict | None:
    fails = any(op.name == "fail" for op in program.ops)
    for at in sorted({*ours.failures, *theirs.failures}):
        a, b = ours.failures.get(at, False), theirs.failures.get(at, False)
        if program.ops[at].name in CONTROLS:
            continue  # its argument is missing, or it is in a step, where nothing is read
        if b and SPECS[program.ops[at].name].group == "foreach":
            return Verdict("hazard", "a list of which eager has done a part")
        # Eager may have done a part before another error.
        counted = [fails and _OF_COUNTED in str(failure) for failure in (a, b)]
        if (a is None and b is None) or (a and b and isinstance(a, type(b)) and counted[0] == counted[1]):
            continue
        op = program.ops[at]
        if isinstance(a, (sojourn.Unsupported, sojourn.Refused, sojourn.ValueNeeded)):
            return Verdict("refused", category=str(at), refusals=[(op.name, _first_line(a))])
        say = lambda failure: (
            "does nothing wrong" if failure is False else "is skipped" if failure is None else f"raises {failure!r}"
        )
        if isinstance(b, IndexError) and "out of range" in str(b):
            return Verdict("hazard", "an index beyond its dim")  # the owner clamps or ignores it
        sides = [type(failure).__name__ if failure else "nothing" for failure in (a, b)]
        return Verdict("difference", f"{where}{op} {say(a)}, in eager {say(b)}", f"failure {' for '.join(sides)}")
    return None


def _compare_facts(seen, ought, whole: bool) -> tuple[str, str] | None:
    if whole and (odd := sorted(set(seen) ^ set(ought))):
        return "names", f"live are {', '.join(odd)} on one side alone"
    common = [name for name in ought if name in seen]  # a call need not return all
    for key in ("same object as", "storage of"):
        ours, theirs = (groups({name: side[name].get(key) for name in common}) for side in (seen, ought))
        for name in common:
            if ours[name] != theirs[name]:
                return key, f"{name}: {key} {ours[name]}, in eager {theirs[name]}"
    for name in common:
        for key, value in ought[name].items():
            if seen[name].get(key) != value and key not in ("same object as", "storage of", "version"):
                if key == "stride" and _needed(seen[name]) == _needed(ought[name]):
                    key = "stride of dims of size 1"
                there = seen[name].get(key.split(" of dims")[0])
                return key, f"{name}: {key} is {there}, in eager {value}"
    return None


def _needed(facts) -> list[int]:
    """Strides that say where elements are."""
    return [stride for size, stride in zip(facts["shape"], facts["stride"]) if size > 1 and 0 not in facts["shape"]]


def _shown(value) -> str:
    return "nothing" if value is None else f"{value.dtype} {value.tolist()}"


def _equal(a, b) -> bool:
    if a is None or b is None:
        return a is b
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if torch.equal(a, b):
        return True
    if not (b.dtype.is_floating_point or b.dtype.is_complex) or not b.numel():
        return False
    # Bytes of integers read as floats are often denormal, and sums of those differ in their only digits.
    denormal = torch.finfo(b.dtype).tiny
    return torch.allclose(_wide(a), _wide(b), rtol=1e-6, atol=denormal, equal_nan=True)


def _wide(x: torch.Tensor) -> torch.Tensor:
    if not x.is_complex():
        return x.double()
    # Where one part is not finite, kernels of torch differ in the other (a sum multiplies by a complex 1).
    parts = torch.view_as_real(x.resolve_conj()).double()
    return torch.where(parts.isfinite().all(-1, keepdim=True), parts, torch.nan)


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
        if seen is None or ought is None or seen.dtype != ought.dtype or seen.shape != ought.shape:
            return False
        if name not in spread or not bool((_distance(seen, ought) <= 1024 * spread[name]).all()):
            return False
    return True


def _noted(outcome: Outcome) -> dict[str, torch.Tensor]:
    left = {f"{name} afterwards": value for name, value in outcome.left.items() if value is not None}
    return {**outcome.values, **{f"read {at}": value for at, value in outcome.reads.items()}, **left}


def _distance(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    a, b = _wide(a), _wide(b)
    off = (a - b).abs()
    off[(a == b) | (a.isnan() & b.isnan())] = 0  # infinities among them
    return off.nan_to_num(nan=float("inf"))


def largest(args) -> float:
    """Of the numbers in a call's arguments."""
    tensors = [each for arg in args for each in (arg if isinstance(arg, (list, tuple)) else [arg])]
    return max(
        (
            float(each.detach().abs().nan_to_num(0, 0, 0).max())
            for each in tensors
            if isinstance(each, torch.Tensor) and each.numel() and (each.is_floating_point() or each.is_complex())
        ),
        default=0.0,
    )


class Noise:
    """Moves results of arithmetic by a rounding, without torch counting it."""

    def __init__(self, seed: int):
        self.generator = torch.Generator().manual_seed(seed)
        self.seed, self.scale = seed, 0.0

    def begin(self, args) -> None:
        """Before the op, which may write to what it reads."""
        self.scale = largest(args)

    def __call__(self, machine, op: Op, args) -> None:
        spec = SPECS[op.name]
        converts = op.name.startswith(("to", "copy_", "foreach_copy_", "setitem"))
        negates = op.name.startswith(("neg", "foreach_neg"))
        if not spec.rounds and not converts and not negates:
            return
        touched = [machine.registers[name] for name in op.outs if machine.registers.get(name) is not None]
        for at in spec.writes:
            touched += args[at] if isinstance(args[at], list) else [args[at]]
        if spec.group == "autograd":
            touched += [value for name, value in machine.live().items() if name.endswith(".grad")]
        for value in touched:
            with contextlib.suppress(RuntimeError):  # elements share memory
                if not spec.rounds:
                    if converts and value.dtype in (torch.float16, torch.bfloat16):
                        self.move(value.data, 0.0)  # torch rounds float64 to float32 on the way
                    elif value.is_floating_point():
                        self.mark(value.data)
                    elif value.is_complex() and negates:
                        self.sign(torch.view_as_real(value.data))
                    continue
                self.move(value.data, max(self.scale, largest(args)) if op.name in _TERMS else 0.0)
                if value.is_complex() or (op.name in _SIGNS_FREE and value.is_floating_point()):
                    self.sign(torch.view_as_real(value.data) if value.is_complex() else value.data)

    def mark(self, x: torch.Tensor) -> None:
        """Gives NaN other bits, which arithmetic does not promise and views as other types show."""
        if not bool(x.isnan().any()) or not x.is_contiguous():
            return
        whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]
        free = {torch.float16: 9, torch.bfloat16: 6, torch.float32: 22, torch.float64: 51}[x.dtype]
        bits = x.view(whole)
        other = bits ^ torch.randint(0, 1 << free, x.shape, generator=self.generator).to(whole)
        signs = torch.randint(0, 2, x.shape, generator=self.generator).bool()
        other = torch.where(signs, other ^ torch.iinfo(whole).min, other)
        bits.copy_(torch.where(x.isnan(), other, bits))

    def sign(self, x: torch.Tensor) -> None:
        # The first two give all zeros one sign, so that each has been either.
        both = torch.randint(0, 2, x.shape, generator=self.generator) * 2 - 1
        signs = torch.full(x.shape, 1 - 2 * self.seed) if self.seed < 2 else both
        x.copy_(torch.where(x == 0, torch.zeros_like(x).copysign(signs), x))

    def move(self, x: torch.Tensor, scale: float) -> None:
        x = torch.view_as_real(x) if x.is_complex() else x
        if x.is_floating_point():
            self.mark(x)
            signs = torch.randint(-1, 2, x.shape, generator=self.generator).double()
            if self.seed % 2:  # of any size, for bits that an op shifts out
                signs = torch.rand(x.shape, generator=self.generator, dtype=torch.float64) * 2 - 1
            info = torch.finfo(x.dtype)
            least = (x != 0).double() * (info.eps * info.smallest_normal)  # of numbers too small for a relative one
            moved = x.double() * (1 + info.eps * signs) + least * signs + info.eps * scale * signs
            x.copy_(torch.where((x == 0) & (scale == 0), x, moved.to(x.dtype)))  # zeros keep their sign
