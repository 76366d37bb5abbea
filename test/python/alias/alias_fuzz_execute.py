# SPDX-License-Identifier: Apache-2.0
"""Runs a program: its ops on tensors of any device, what is seen of the registers afterwards, and the modes of a step."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import warnings
import zlib
from typing import Any

import torch
from alias_fuzz_memory import Hazard, check, check_cast, overlaps_itself
from alias_fuzz_ops import CONTROLS, SPECS
from alias_fuzz_program import Base, Op, Program, Ref

import sojourn

ROUNDS = {"step": 1, "repeat": 3, "replay": 4, "loop": 4, "outside": 1, "failing": 1}
_PER_TRIP = 2


def inputs_of(program: Program, round: int) -> dict[str, torch.Tensor]:
    """The arguments of a round, on the CPU. Values have few bits, so that sums are exact in any order."""
    made = {}
    for each in program.inputs:
        if isinstance(each, Base):
            generator = torch.Generator().manual_seed(zlib.crc32(f"{program.seed}:{round}:{each.name}".encode()))
            whole = torch.randint(-8, 9, each.shape, generator=generator)
            if each.dtype.is_complex:
                made[each.name] = torch.complex(
                    whole / 4.0, torch.randint(-8, 9, each.shape, generator=generator) / 4.0
                ).to(each.dtype)
            elif each.dtype.is_floating_point:
                made[each.name] = (whole / 4.0).to(each.dtype)
            else:
                made[each.name] = whole > 0 if each.dtype == torch.bool else whole.abs().to(each.dtype)
        else:
            made[each.name] = torch.tensor(each.values, dtype=each.dtype)
    return made


def placed(program: Program, values: dict[str, torch.Tensor], device) -> dict[str, torch.Tensor]:
    """The arguments at a device, with new objects and new memory."""
    made = {}
    for each in program.inputs:
        value = values[each.name]
        made[each.name] = value.clone() if str(device) == "cpu" else value.to(device)
        if isinstance(each, Base) and each.grad:
            made[each.name].requires_grad_()
    return made


class Missing(Exception):
    """An argument was not made."""


class Machine:
    """Registers, and what happened to them."""

    def __init__(self, registers: dict[str, torch.Tensor], check_hazards: bool, after=None):
        self.registers: dict[str, Any] = dict(registers)
        self.born = {name: value._version for name, value in registers.items()}
        self.failures: dict[int, BaseException | None] = {}  # by the number of the op; None: skipped
        self.reads: dict[int, torch.Tensor] = {}
        self.check_hazards, self.after = check_hazards, after
        self.is_remote = False

    def run(self, ops: list[Op], first: int = 0) -> None:
        for number, op in enumerate(ops, first):
            try:
                self.one(number, op)
            except Missing:
                self.failures[number] = None

    def one(self, number: int, op: Op) -> None:
        args = tuple(self.resolve(arg) for arg in op.args)
        options = {key: self.resolve(value) for key, value in op.options.items()}
        if op.name in CONTROLS:
            self.control(number, op, args)
            return
        spec = SPECS[op.name]
        if self.check_hazards:
            check(spec, args)
            if op.name == "backward" and any(overlaps_itself(v) for n, v in self.live().items() if n.endswith(".grad")):
                raise Hazard("adds to a gradient whose elements share memory")
            if op.name == "to":
                check_cast(*args)
        if self.after is not None:
            self.after.begin(args)
        try:
            with way_of(op):
                found = spec.run(*args, **options)
        except Exception as failure:
            self.failures[number] = failure
            return
        if op.outs:
            made = found if isinstance(found, (tuple, list)) else (found,)
            for name, value in zip(op.outs, made):
                self.registers[name] = value
                if value is not None:
                    self.born[name] = value._version
        if self.after is not None:
            self.after(self, op, args)

    def control(self, number: int, op: Op, args) -> None:
        if op.name == "drop":
            del self.registers[op.args[0].name]
        elif op.name == "read":
            self.reads[number] = args[0].detach().cpu().clone()
        elif op.name == "flush" and self.is_remote:
            sojourn.flush()

    def resolve(self, arg):
        if isinstance(arg, Ref):
            value = self.registers.get(arg.name)
            if value is None:
                raise Missing
            return value
        if isinstance(arg, list):
            return [self.resolve(each) for each in arg]
        return arg

    def live(self) -> dict[str, torch.Tensor]:
        """The registers, and the gradients of leaves, by name."""
        found = {name: value for name, value in self.registers.items() if value is not None}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of gradients of tensors that are no leaves
            gradients = {f"{name}.grad": asked(value, "grad") for name, value in found.items()}
        return {**found, **{name: value for name, value in gradients.items() if isinstance(value, torch.Tensor)}}


def asked(x: torch.Tensor, name: str):
    """An attribute, or the error that torch has for it: some views cannot tell their gradient."""
    try:
        return getattr(x, name)
    except RuntimeError as failure:
        return "RuntimeError" if isinstance(failure, RuntimeError) else type(failure).__name__


def way_of(op: Op):
    if op.way in ("no_grad", "before"):
        return torch.no_grad()
    if op.way == "enable_grad":
        stack = contextlib.ExitStack()
        stack.enter_context(torch.no_grad())
        stack.enter_context(torch.enable_grad())
        return stack
    return contextlib.nullcontext()


def layout(x: torch.Tensor) -> dict[str, Any]:
    return {
        "dtype": x.dtype,
        "shape": tuple(x.shape),
        "stride": x.stride(),
        "offset": x.storage_offset(),
        "bytes": x.untyped_storage().nbytes(),
    }


def groups(keys: dict[str, Any]) -> dict[str, str]:
    """The first name with the same key, for each name."""
    first: dict[Any, str] = {}
    return {name: first.setdefault(key, name) for name, key in keys.items()}


def facts_of(live: dict[str, torch.Tensor], born: dict[str, int] | None) -> dict[str, dict[str, Any]]:
    """What is seen of tensors without their values; the part about autograd only where `born` is given."""
    facts = {name: layout(value) for name, value in live.items()}
    storages = {name: value.untyped_storage() for name, value in live.items()}
    for name, first in groups({name: storage._cdata for name, storage in storages.items()}).items():
        facts[name]["storage of"] = first
    if born is not None:
        for name, first in groups({name: id(value) for name, value in live.items()}).items():
            facts[name]["same object as"] = first
        for name, value in live.items():
            facts[name] |= {
                "requires_grad": asked(value, "requires_grad"),
                "is_leaf": asked(value, "is_leaf"),
                "has grad_fn": asked(value, "grad_fn") is not None,
            }
            if name in born:
                facts[name]["version"] = value._version - born[name]
    return facts


@dataclasses.dataclass
class Outcome:
    """Of one round."""

    values: dict[str, torch.Tensor] = dataclasses.field(default_factory=dict)
    facts: dict[str, dict[str, Any]] | None = None  # None: not seen, for the function did not run
    layouts: dict[str, dict[str, Any]] | None = None  # of what a call returned
    failures: dict[int, BaseException | None] = dataclasses.field(default_factory=dict)
    reads: dict[int, torch.Tensor] = dataclasses.field(default_factory=dict)
    left: dict[str, torch.Tensor | None] = dataclasses.field(default_factory=dict)  # of arguments and their gradients
    versions: dict[str, int] = dataclasses.field(default_factory=dict)  # of arguments, how much they grew


class Failing(Exception):
    """Raised in a step."""


@dataclasses.dataclass
class Parts:
    before: list[Op]
    failing: list[Op]  # of a step that raises at its end
    ops: list[Op]

    @property
    def first(self) -> int:
        """The number of the first op of the step."""
        return len(self.before) + len(self.failing)


def parts_of(program: Program) -> Parts:
    """The ops before the step, in a step that fails, and in it."""
    count = next((at for at, op in enumerate(program.ops) if op.way != "before"), len(program.ops))
    end = next((at + 1 for at, op in enumerate(program.ops) if op.name == "fail"), count)
    return Parts(program.ops[:count], program.ops[count:end], program.ops[end:])


def run_eager(program: Program, round: int, check_hazards=True, after=None) -> Outcome:
    values = inputs_of(program, round)
    machine = Machine(placed(program, values, "cpu"), check_hazards, after)
    parts = parts_of(program)
    machine.run(parts.before)
    given, old = dict(machine.registers), {k: v._version for k, v in machine.registers.items()}
    machine.run(parts.ops, parts.first)
    live = machine.live()
    return Outcome(
        {name: value.detach().clone() for name, value in live.items()},
        facts_of(live, machine.born),
        facts_of({**given, **live}, None),
        machine.failures,
        machine.reads,
        left_of(given) if program.mode != "outside" else {},
        {name: value._version - old[name] for name, value in given.items()},
    )


def left_of(given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor | None]:
    """What a call has left in its arguments and their gradients."""
    found: dict[str, torch.Tensor | None] = {name: value.detach().cpu().clone() for name, value in given.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of tensors that are no leaves
        gradients = {f"{name}.grad": asked(value, "grad") for name, value in given.items()}
    for name, value in gradients.items():
        found[name] = value.detach().cpu().clone() if isinstance(value, torch.Tensor) else None
    return found


def typed(program: Program) -> set[str]:
    """Registers that may see their memory as another type: a call that returns one is never replayed."""
    seen: set[str] = set()
    for op in program.ops:
        group = SPECS[op.name].group if op.name in SPECS else ""
        changes = op.name in ("view_as_real", "view_as_complex", "real", "imag") or group == "typed views"
        if changes or (group in ("views", "detached", "results") and seen & set(op.refs())):
            seen |= set(op.outs)
        if op.name == "set_data" and seen & set(op.refs()):
            seen |= set(op.refs()[:1])
    return seen


class Remote:
    """Runs programs at an owner; a test of the fuzzer replaces `machine`."""

    def __init__(self, device, machine=Machine):
        self.device, self.machine = device, machine
        self.traced = self.replayed = 0
        self.reasons: collections.Counter[str] = collections.Counter()  # of programs that were never replayed

    def run(self, program: Program) -> list[Outcome]:
        runs = {
            "step": self._steps, "repeat": self._steps, "failing": self._steps, "replay": self._replay, "loop": self._loop,
        }  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return runs.get(program.mode, self._outside)(program, ROUNDS[program.mode])

    def arguments(self, program: Program, round: int) -> Machine:
        """The registers before the step."""
        machine = self.machine(placed(program, inputs_of(program, round), self.device), False)
        machine.is_remote = True
        parts = parts_of(program)
        machine.run(parts.before)
        if parts.failing:
            self.fail(program, machine, parts)
        return machine

    def fail(self, program: Program, machine: Machine, parts: Parts) -> None:
        """Runs a step that raises, on the same tensors. Only their versions tell of it."""
        if program.seed % 2:
            sojourn.flush()
        old = {name: value._version for name, value in machine.registers.items()}
        lost = self.machine(machine.registers, False)
        lost.is_remote = True
        with contextlib.suppress(Failing), sojourn.step():
            lost.run(parts.failing, len(parts.before))
            raise Failing
        lost.failures.clear()  # their frames hold tensors, whose graphs would still hold accumulators of gradients
        for name, value in machine.registers.items():
            machine.born[name] += value._version - old[name]

    def _function(self, program: Program, born: list[Machine]):
        """A function of the step's arguments. Each run appends to `seen`."""
        parts = parts_of(program)
        names = list(born[0].registers)
        seen: list[Outcome] = []
        kept_back = typed(program) if program.mode in ("replay", "loop") else set()

        def body(*tensors):
            machine = self.machine(dict(zip(names, tensors)), False)
            machine.born = dict(born[len(seen)].born) if len(seen) < len(born) else machine.born
            machine.failures |= born[0].failures
            machine.run(parts.ops, parts.first)
            live = machine.live()
            seen.append(Outcome({}, facts_of(live, machine.born), None, machine.failures, machine.reads))
            # Some views refuse every use of their gradient, and a replay returns no graph.
            plain = {n: value if asked(value, "grad_fn") is None else value.detach() for n, value in live.items()}
            published = {n: value.detach() for n, value in plain.items() if not program.late or n in kept_back}
            return [sojourn.publish(published), {n: value for n, value in plain.items() if n not in kept_back}]

        return body, seen

    def _finish(self, outcome: Outcome, result, machine: Machine, old) -> Outcome:
        published, returned = result
        values = dict(published)
        values |= sojourn.publish({name: value for name, value in returned.items() if name not in values})
        outcome.values = {name: torch.as_tensor(value.value) for name, value in values.items()}
        given = machine.registers
        outcome.layouts = facts_of({**given, **returned}, None)
        outcome.left = left_of(given)
        outcome.versions = {name: value._version - old[name] for name, value in given.items()}
        return outcome

    def _steps(self, program: Program, rounds: int) -> list[Outcome]:
        machines = [self.arguments(program, round) for round in range(rounds)]
        body, seen = self._function(program, machines)
        step, outcomes = sojourn.step(body), []
        for machine in machines:
            old = {name: value._version for name, value in machine.registers.items()}
            result = step(*machine.registers.values())
            outcomes.append(self._finish(seen[-1], result, machine, old))
        return outcomes

    def _replay(self, program: Program, rounds: int) -> list[Outcome]:
        machines = self._sent(program, rounds)
        body, seen = self._function(program, machines)
        step, outcomes = sojourn.step(body, replay=True), []
        for machine in machines:
            old, ran = {name: value._version for name, value in machine.registers.items()}, len(seen)
            result = step(*machine.registers.values())
            outcome = seen[-1] if len(seen) > ran else Outcome(failures=seen[-1].failures)
            outcomes.append(self._finish(outcome, result, machine, old))
        self._count(step)
        return outcomes

    def _count(self, step) -> None:
        self.traced += step.traced
        self.replayed += step.replayed
        if not step.replayed and step.reasons:
            self.reasons[step.reasons[-1].split("; ", 1)[-1]] += 1

    def _sent(self, program: Program, rounds: int) -> list[Machine]:
        """Arguments of all calls. They are sent first, or the first call would differ by its uploads from the others."""
        machines = [self.arguments(program, round) for round in range(rounds)]
        sojourn.flush()
        return machines

    def _loop(self, program: Program, rounds: int) -> list[Outcome]:
        machines = self._sent(program, rounds)
        body, seen = self._function(program, machines)
        old = [{name: value._version for name, value in machine.registers.items()} for machine in machines]
        results = sojourn.loop(body, [tuple(m.registers.values()) for m in machines], per_trip=_PER_TRIP)
        outcomes = []
        for at, (machine, result) in enumerate(zip(machines, results)):
            outcome = seen[at] if at < len(seen) else Outcome(failures=seen[-1].failures)
            outcomes.append(self._finish(outcome, result, machine, old[at]))
        self._count(body._sojourn_replay)
        return outcomes

    def _outside(self, program: Program, rounds: int) -> list[Outcome]:
        machine = self.arguments(program, 0)
        parts = parts_of(program)
        old = {name: value._version for name, value in machine.registers.items()}
        given = dict(machine.registers)
        pieces: list[list[tuple[int, Op]]] = [[]]
        for number, op in enumerate(parts.ops, parts.first):
            pieces[-1].append((number, op))
            if op.name == "boundary":
                pieces.append([])
        for at, piece in enumerate(pieces):
            # Every second piece is a step; there nothing is read.
            with sojourn.step() if at % 2 else contextlib.nullcontext():
                for number, op in piece:
                    if at % 2 == 0 or op.name != "read":
                        machine.run([op], number)
        live = machine.live()
        facts = facts_of(live, machine.born)
        plain = [value.detach() for value in live.values()]
        # Reads take what this process knows of a storage, publishes do not.
        values = [value.cpu() for value in plain] if program.seed % 2 else sojourn.publish(plain)
        layouts = facts_of({**given, **live}, None)
        versions = {name: value._version - old[name] for name, value in given.items()}
        values = dict(zip(live, values))
        return [Outcome(values, facts, layouts, machine.failures, machine.reads, {}, versions)]
