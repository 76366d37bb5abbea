# SPDX-License-Identifier: Apache-2.0
"""Makes programs at random. Each op runs on the CPU as it is chosen, so that nearly all of them are valid."""

from __future__ import annotations

import random
import warnings

import alias_fuzz_results  # noqa: F401 (it registers its choices, as what it imports does)
import torch
from alias_fuzz_choices import CHOICES, WEIGHTS, Pool, Unfit
from alias_fuzz_execute import Machine, inputs_of, placed
from alias_fuzz_memory import Hazard
from alias_fuzz_ops import CONTROLS, SPECS
from alias_fuzz_program import Base, Op, Program, Ref

KINDS = sorted(CHOICES)
_BEFORE = (
    "cut",
    "narrow",
    "transpose",
    "select",
    "view_as",
    "as_strided",
    "detach",
    "view_width",
    "view_dtype",
    "fill_grad",
)
_MODES = {"step": 9, "repeat": 2, "replay": 3, "loop": 2, "outside": 5, "failing": 2}
_DTYPES = {
    torch.float32: 10, torch.float64: 5, torch.int64: 3, torch.int32: 2, torch.float16: 1, torch.bfloat16: 1,
    torch.uint8: 1, torch.int16: 1, torch.bool: 1.5, torch.complex64: 3,
}  # fmt: skip
_LIVE_MOST, _ELEMENTS_MOST, _SIZE_MOST = 22, 48, 1e3
_RAISING = 0.15  # of the ops that raise, so many stay
# Calls that do these are traced each time.
_NOT_REPLAYED = {
    "set_data",
    "transpose_",
    "unsqueeze_",
    "squeeze_",
    "as_strided_",
    "detach_",
    "requires_grad_",
    "setitem_list",
    "fresh_out",
}
_ONLY_OUTSIDE = {"read", "flush", "boundary"}
# A step that raises does not take these back.
_NOT_UNDONE = {"set_grad", "fill_grad", "requires_grad_", "retain_grad", "detach_"}


def generate(seed: int, kinds: list[str] | None = None) -> Program:
    """The program of a seed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _Maker(seed).make(kinds or KINDS)


class _Maker:
    def __init__(self, seed: int):
        self.rng = rng = random.Random(seed)
        (mode,) = rng.choices(list(_MODES), list(_MODES.values()))
        self.program = Program(seed, mode, mode != "outside" and rng.random() < 0.3)
        for number in range(rng.randint(2, 4)):
            self.program.inputs.append(self.base(number))
        values = placed(self.program, inputs_of(self.program, 0), "cpu")
        self.machine = Machine(values, check_hazards=True)
        self.pool = Pool(rng, self.machine.registers, [])
        self.pool.add_constant = self.add_constant
        self.made, self.fails = 0, False

    def base(self, number: int) -> Base:
        (dtype,) = self.rng.choices(list(_DTYPES), list(_DTYPES.values()))
        dtype = torch.float32 if number == 0 else dtype
        size = lambda: 0 if self.rng.random() < 0.01 else self.rng.randint(1, 4)
        shape = [size() for _ in range(self.rng.randint(1, 3))]
        if self.rng.random() < 0.4:
            shape[-1] = 2
        can = dtype.is_floating_point or dtype.is_complex
        return Base(f"b{number}", dtype, tuple(shape), can and self.rng.random() < (0.8 if number == 0 else 0.4))

    def add_constant(self, constant) -> None:
        self.machine.registers[constant.name] = torch.tensor(constant.values, dtype=constant.dtype)

    def make(self, kinds: list[str]) -> Program:
        for _ in range(self.rng.choice([0, 0, 1, 2, 3])):
            self.add(self.rng.choice(_BEFORE), "before")
        kinds = [kind for kind in kinds if self.program.mode == "outside" or kind not in _ONLY_OUTSIDE]
        if self.program.mode in ("replay", "loop") and self.rng.random() < 0.9:
            kinds = [kind for kind in kinds if kind not in _NOT_REPLAYED]
        if self.program.mode == "failing":
            self.fail([kind for kind in kinds if kind not in _NOT_UNDONE])
        self.extend(kinds, self.rng.randint(18, 40))
        self.program.inputs += self.pool.constants
        return self.program

    def fail(self, kinds: list[str]) -> None:
        """Adds a step that raises. Later ops use none of its results."""
        kept = self.machine
        self.use(Machine(placed(self.program, inputs_of(self.program, 0), "cpu"), check_hazards=True))
        self.machine.registers.update({name: value for name, value in kept.registers.items() if name[0] == "k"})
        self.machine.run(self.program.ops)
        self.fails = True
        self.extend(kinds, self.rng.randint(4, 14))
        self.fails = False
        kept.registers.update({name: value for name, value in self.machine.registers.items() if name[0] == "k"})
        self.use(kept)
        self.program.ops.append(Op("fail"))

    def use(self, machine: Machine) -> None:
        self.machine, self.pool.registers = machine, machine.registers

    def extend(self, kinds: list[str], count: int) -> None:
        """Adds so many ops."""
        weights = [WEIGHTS[kind] for kind in kinds]
        target, way, left = len(self.program.ops) + count, "", 0
        for _ in range(40 * count):
            if len(self.program.ops) >= target:
                break
            if not left:
                way, left = self.rng.choice(["", "", "", "no_grad", "no_grad", "enable_grad"]), self.rng.randint(1, 5)
            (kind,) = self.rng.choices(kinds, weights)
            left -= self.add(kind, way)
            if len(self.pool.names()) > _LIVE_MOST:
                self.add("drop", "")

    def add(self, kind: str, way: str) -> bool:
        """Adds an op of the kind, unless none suits."""
        try:
            chosen = CHOICES[kind](self.pool)
        except (Unfit, IndexError, ValueError, RuntimeError):
            return False
        args, options = chosen if len(chosen) == 2 and isinstance(chosen[1], dict) else (chosen, {})
        if self.fails and (SPECS[kind].writes if kind in SPECS else False):
            way = "no_grad"  # a graph that a write makes would stay
        op = Op(kind, tuple(args), options, (), way)
        if kind in CONTROLS:
            self.machine.one(len(self.program.ops), op)
            self.program.ops.append(op)
            return True
        number = len(self.program.ops)
        op.outs = tuple(f"r{self.made + at}" for at in range(6)) if self.has_results(op) else ()
        try:
            self.machine.one(number, op)
        except Hazard:
            return False
        if failure := self.machine.failures.pop(number, None):
            stays = self.rng.random() < _RAISING and type(failure) is not TypeError and way != "before"
            if not stays or SPECS[kind].group == "foreach":
                return False
            op.outs = ()
            self.program.ops.append(op)
            return True
        made = [name for name in op.outs if name in self.machine.registers]
        values = [self.machine.registers[name] for name in made if self.machine.registers[name] is not None]
        if any(value.numel() > _ELEMENTS_MOST or _is_large(value) for value in values) and kind != "grad_of":
            for name in made:
                del self.machine.registers[name]
            if SPECS[kind].group == "views":
                return False
        if made and not all(name in self.machine.registers for name in made):
            return False
        self.made += len(made)
        op.outs = tuple(made)
        self.program.ops.append(op)
        self.tame(op)
        return True

    def has_results(self, op: Op) -> bool:
        spec = SPECS[op.name]
        quiet = ("set_data", "own view in place")
        return not spec.writes and spec.group not in quiet and op.name not in (
            "backward", "set_grad", "fill_grad", "requires_grad_", "retain_grad"
        )  # fmt: skip

    def tame(self, op: Op) -> None:
        """What has grown is clamped, so that numbers keep few bits."""
        for at in SPECS[op.name].writes:
            targets = op.args[at] if isinstance(op.args[at], list) else [op.args[at]]
            for target in targets:
                value = self.machine.registers[target.name]
                if _is_large(value) and not value.is_complex():
                    small = Op("clamp_", (target, 0, 2), {}, (), "no_grad")
                    try:
                        self.machine.one(len(self.program.ops), small)
                    except Hazard:
                        continue
                    if not self.machine.failures.pop(len(self.program.ops), None):
                        self.program.ops.append(small)


def _is_large(x: torch.Tensor) -> bool:
    if not x.numel() or x.dtype == torch.bool:
        return False
    return bool((x.detach().abs() > _SIZE_MOST).any())


def shares(programs: list[Program]) -> dict[str, float]:
    """The share of programs that have an op of each kind."""
    counts = dict.fromkeys([*KINDS, "no_grad", "enable_grad", "before"], 0)
    for program in programs:
        for kind in {op.name for op in program.ops} | {op.way for op in program.ops if op.way}:
            counts[kind] += 1
    return {kind: count / len(programs) for kind, count in counts.items()}


__all__ = ["KINDS", "Ref", "generate", "shares"]
