# SPDX-License-Identifier: Apache-2.0
"""Ahead of time: compile a training step without data and without an owner, run it later."""

from __future__ import annotations

import collections.abc
import contextlib
import dataclasses
import threading

import torch
from torch.utils import _pytree as pytree

import _sojourn

from .errors import Error
from .publish import Published

_CALLS = ("init", "first", "steady")
_PHASES = ("captured", "functional", "promoted", "decomposed", "core")


class _Offline(threading.local):
    """The calling thread's recording devices, innermost last."""

    def __init__(self):
        self.recorders: list = []


_offline = _Offline()
_compiling = threading.RLock()  # there is one listener for the whole process


@dataclasses.dataclass(frozen=True)
class spec:
    """Shape and dtype of an input whose contents come at run time."""

    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float32
    is_number: bool = False


def number() -> spec:
    """An input that the step receives as a Python float: a scheduled learning rate, say.

    The step may use it or its negative as an op's number; what is computed from it in Python
    cannot be followed and is refused.
    """
    return spec((), torch.float64, True)


@contextlib.contextmanager
def offline():
    """A device that only records: `with sojourn.offline() as device: program = sojourn.compile(...)`."""
    torch.autograd.set_multithreading_enabled(False)
    recorder = _sojourn.Offline()
    _offline.recorders.append(recorder)
    try:
        yield torch.device("owner", recorder.index)
    finally:
        _offline.recorders.remove(recorder)


class Program:
    """A compiled training step: `init`, the first step (optimizers make their state there), the steady step."""

    def __init__(self, artifact, texts: dict[tuple[str, str], str] | None = None):
        self._artifact = artifact
        self._texts = texts or {}

    def save(self, path) -> None:
        """Writes one file; `sojourn.load` and C++ (`sojourn::Artifact::load`) read it."""
        self._artifact.save(str(path))

    def text(self, phase: str = "core", call: str = "steady") -> str:
        """IR of `call` ("init", "first", "steady") after `phase` ("captured" .. "core").

        A loaded program knows its core form only.
        """
        if call not in _CALLS or phase not in _PHASES:
            raise Error(f"no text for {call!r} at {phase!r}; calls: {', '.join(_CALLS)}; phases: {', '.join(_PHASES)}")
        if (call, phase) in self._texts:
            return self._texts[call, phase]
        if phase != "core":
            raise Error(f"a loaded program holds its core form only, not {phase!r}; compile it here to see every phase")
        return self._artifact.text(_CALLS.index(call))

    def program_bytes(self, call: str = "steady") -> bytes:
        """The encoded program, as it travels."""
        return self._artifact.program(_CALLS.index(call))

    def program_hash(self, call: str = "steady") -> str:
        """Content hash by which an owner knows the program."""
        return self._artifact.hash(_CALLS.index(call)).hex()

    @property
    def inputs(self) -> list[spec]:
        """What each step takes."""
        return [spec(tuple(shape), dtype, is_number) for shape, dtype, is_number in self._artifact.inputs]

    def run(self, owner, batches: collections.abc.Iterable, progress: bool = False) -> list:
        """Runs `init`, then one step (one round trip) per element of `batches`.

        An element is a tuple of CPU tensors (floats for numbers) as `inputs` says. Returns what each step published.
        """
        run = _sojourn.ArtifactRun(self._artifact, owner._session)
        if progress:
            import tqdm

            batches = tqdm.tqdm(batches, unit="step")
        published = []
        for batch in batches:
            batch = (batch,) if isinstance(batch, torch.Tensor) else tuple(batch)
            values = [torch.tensor(v, dtype=torch.float64) if isinstance(v, (int, float)) else v for v in batch]
            published.append(self._nest(run.step(values)))
        return published

    def _nest(self, leaves: list):
        if not self._artifact.output_tree:
            return leaves
        return pytree.tree_unflatten(leaves, pytree.treespec_loads(self._artifact.output_tree))


def compile(step_fn, init=None, inputs: collections.abc.Sequence[spec] = ()) -> Program:
    """Compiles `step_fn(*inputs)` for later; call it inside `with sojourn.offline() as device`.

    `init()` builds models and optimizers on `device`; its random numbers are drawn at each run.
    What `step_fn` returns is published by each step of a run. Raises `Unsupported` if a number
    changes from step to step: pass it as an input (`sojourn.number()`), or use `capturable=True`.
    """
    if not _offline.recorders:
        raise Error("sojourn.compile records without an owner: call it inside `with sojourn.offline() as device:`")
    texts: dict[tuple[str, str], str] = {}
    compiled: list[dict[str, str]] = []
    trees = []

    thread = threading.get_ident()

    def listen(phase, text):
        if threading.get_ident() != thread:
            return  # another thread's program
        if phase == "captured":
            compiled.append({})
        compiled[-1][phase] = text

    def one_step(tensors):
        tree = step_fn(*(t.item() if entry.is_number else t for t, entry in zip(tensors, inputs)))
        if isinstance(tree, Published):
            leaves, tree_spec = tree._leaves, tree._spec
        else:
            leaves, tree_spec = pytree.tree_flatten(tree)
            remote = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
            if len(remote) != len(leaves):
                raise Error("a compiled step returns tensors only (or a tree of them)")
            _sojourn.publish(remote)
        trees.append(tree_spec)

    with _compiling:
        _sojourn.set_phase_listener(listen)
        _sojourn.step_begin()
        try:
            artifact = _sojourn.compile_artifact(
                _offline.recorders[-1],
                init or (lambda: None),
                one_step,
                [(list(entry.shape), entry.dtype, entry.is_number) for entry in inputs],
            )
        finally:
            _sojourn.set_phase_listener(None)
            _sojourn.step_abort()
    try:
        artifact.output_tree = pytree.treespec_dumps(trees[-1])
    except NotImplementedError:
        artifact.output_tree = ""
    # A trace that repeats an earlier one compiles once: texts go by order of first compilation.
    names = list(_CALLS)
    for name, phases in zip(names, compiled):
        for phase, text in phases.items():
            texts[name, phase] = text
    return Program(artifact, texts)


def load(path) -> Program:
    """Reads a program that `Program.save` wrote."""
    return Program(_sojourn.Artifact.load(str(path)))
