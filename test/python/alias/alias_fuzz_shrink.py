# SPDX-License-Identifier: Apache-2.0
"""Makes a failing program small: fewer ops, then plainer ones, as long as it still fails in the same way."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Callable, Iterator

import torch
from alias_fuzz_program import MODES, Base, Op, Program, Ref


def shrink(program: Program, fails: Callable[[Program], bool], tries: int = 600) -> Program:
    """The smallest program found for which `fails` holds; `tries` bounds the programs that are run."""
    left = tries

    def attempt(candidate: Program) -> bool:
        nonlocal left
        left -= 1
        return left > 0 and fails(candidate)

    while left > 0:
        before = str(program)
        program = _fewer(program, attempt)
        for change in (_calmer, _plainer_modes, _plainer_inputs, _plainer_ways, _plainer_args):
            program = _first_of(program, change, attempt)
        program = _fewer(program, attempt)
        if str(program) == before:
            break
    return _named(program)


def _fewer(program: Program, fails) -> Program:
    """Without as many ops as possible, larger pieces first; what needs a missing register is skipped on both sides."""
    size = max(1, len(program.ops) // 2)
    while True:
        at = len(program.ops)
        while at > 0:
            at = max(0, at - size)
            ops = _connected(program.ops[:at] + program.ops[at + size :], program)
            if len(ops) < len(program.ops) and fails(program.replace(ops=ops)):
                program = program.replace(ops=ops)
                at = min(at, len(ops))
        if size == 1:
            return program
        size = max(1, size // 2)


def _connected(ops: list[Op], program: Program) -> list[Op]:
    """Without ops whose registers nobody makes."""
    known, kept = {each.name for each in program.inputs}, []
    for op in ops:
        if all(name in known for name in op.refs()):
            known |= set(op.outs)
            kept.append(op)
    return kept


def _first_of(program: Program, changes: Callable[[Program], Iterator[Program]], fails) -> Program:
    """Takes each change that keeps the failure, until none does."""
    taken = True
    while taken:
        taken = False
        for candidate in changes(program):
            if str(candidate) != str(program) and fails(candidate):
                program, taken = candidate, True
                break
    return program


def _calmer(program: Program) -> Iterator[Program]:
    if program.late:
        yield program.replace(late=False)


def _plainer_modes(program: Program) -> Iterator[Program]:
    for mode in MODES[: MODES.index(program.mode)]:
        yield program.replace(mode=mode)


def _plainer_inputs(program: Program) -> Iterator[Program]:
    used = {name for op in program.ops for name in op.refs()}
    if len(kept := [each for each in program.inputs if each.name in used]) < len(program.inputs):
        yield program.replace(inputs=kept)
    for at, each in enumerate(program.inputs):
        if not isinstance(each, Base):
            continue
        changes = [{"grad": False}] if each.grad else []
        if each.dtype != torch.float32:
            changes.append({"dtype": torch.float32})
        for dim, size in enumerate(each.shape):
            if size > 1:
                changes.append({"shape": (*each.shape[:dim], size - 1, *each.shape[dim + 1 :])})
        if len(each.shape) > 1:
            changes += [{"shape": each.shape[1:]}, {"shape": each.shape[:-1]}]
        for change in changes:
            made = dataclasses.replace(each, **change)  # type: ignore[arg-type]  # of fields by name
            yield program.replace(inputs=[*program.inputs[:at], made, *program.inputs[at + 1 :]])


def _with_op(program: Program, at: int, **changes) -> Program:
    op = dataclasses.replace(program.ops[at], **changes)
    return program.replace(ops=[*program.ops[:at], op, *program.ops[at + 1 :]])


def _plainer_ways(program: Program) -> Iterator[Program]:
    for at, op in enumerate(program.ops):
        if op.way in ("no_grad", "enable_grad") or (
            op.way == "before" and not _is_before(program.ops[at + 1 : at + 2])
        ):
            yield _with_op(program, at, way="")


def _is_before(ops: list[Op]) -> bool:
    return any(op.way == "before" for op in ops)


def _plainer_args(program: Program) -> Iterator[Program]:
    for at, op in enumerate(program.ops):
        if op.options and op.name != "cat":
            yield _with_op(program, at, options={})
        if len(op.outs) > 1:
            yield _with_op(program, at, outs=op.outs[:-1])
        for place, arg in enumerate(op.args):
            for plainer in _plainer(arg, program, op):
                yield _with_op(program, at, args=(*op.args[:place], plainer, *op.args[place + 1 :]))


def _plainer(arg, program: Program, op: Op) -> Iterator:
    if isinstance(arg, Ref):
        # An argument of the step says more than what was computed from it.
        if arg.name[0] == "r":
            for each in program.inputs:
                if isinstance(each, Base):
                    yield Ref(each.name)
    elif isinstance(arg, bool) or arg is None or arg is Ellipsis:
        return
    elif isinstance(arg, (int, float)):
        for number in (0, 1):
            if arg not in (0, 1):
                yield number
    elif isinstance(arg, (list, tuple)):
        if len(arg) > 1:
            for at in range(len(arg)):
                yield type(arg)([*arg[:at], *arg[at + 1 :]])
        for at, each in enumerate(arg):
            for plainer in _plainer(each, program, op):
                yield type(arg)([*arg[:at], plainer, *arg[at + 1 :]])


def _named(program: Program) -> Program:
    """With registers counted from r0."""
    names: dict[str, str] = {}
    for op in program.ops:
        for out in op.outs:
            names.setdefault(out, f"r{len(names)}")

    def renamed(arg):
        if isinstance(arg, Ref):
            return Ref(names.get(arg.name, arg.name))
        return [renamed(each) for each in arg] if isinstance(arg, list) else arg

    ops = [
        dataclasses.replace(
            op,
            args=tuple(map(renamed, op.args)),
            outs=tuple(names[out] for out in op.outs),
            options={key: renamed(value) for key, value in op.options.items()},
        )
        for op in program.ops
    ]
    return program.replace(ops=ops)


def as_test(program: Program, name: str) -> str:
    """A test for test_alias_found.py."""
    body = textwrap.indent(str(program), "    ")
    return f'FOUND["{name}"] = """\n{body}\n"""\n'
