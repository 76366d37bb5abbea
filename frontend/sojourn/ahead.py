# SPDX-License-Identifier: Apache-2.0
"""Ahead of time: compile a training step without data and without an owner, run it later."""

from __future__ import annotations

import collections.abc
import contextlib
import itertools
import json
import numbers
import re
import threading

import torch
from torch.utils import _pytree as pytree

import _sojourn

from . import checks, connections, current
from .ahead_steps import State, loops_of, names_of, need_all_published, specs_of
from .checks import integer, shown, within
from .errors import Error
from .loop import PER_TRIP_MOST, bar, length
from .owner import Owner
from .parties import Parties, parties
from .privacy import Quote
from .publish import noting_states
from .published import Published, plain
from .specs import spec, table_spec
from .table import Batches

_CALLS = ("init", "first", "steady", "short")
_PHASES = ("captured", "functional", "promoted", "decomposed", "core")


class _Offline(threading.local):
    """The calling thread's recording devices, innermost last."""

    def __init__(self):
        self.recorders: list = []


_offline = _Offline()
_compiling = threading.RLock()  # there is one listener for the whole process


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
    """A compiled training step: `init`, the first step (which creates optimizer state) and the steady step."""

    def __init__(self, artifact, texts: dict[tuple[str, str], str] | None = None):
        if not isinstance(artifact, _sojourn.Artifact):
            raise Error(
                f"a program is made by sojourn.compile(...) or read by sojourn.load(path), got {shown(artifact)}"
            )
        self._artifact = artifact
        self._texts = texts or {}
        self._run: _sojourn.ArtifactRun | None = None

    def save(self, path) -> None:
        """Writes one file; `sojourn.load` and C++ (`sojourn::Artifact::load`) read it."""
        self._artifact.save(checks.path("path", path))

    def text(self, phase: str = "core", call: str = "steady") -> str:
        """IR of `call` ("init", "first", "steady", "short", "variant 1") after `phase` ("captured" .. "core").

        A loaded program has only its core form.
        """
        if call not in self._calls or phase not in _PHASES:
            calls = ", ".join(self._calls)
            raise Error(f"no text for {shown(call)} at {shown(phase)}; calls: {calls}; phases: {', '.join(_PHASES)}")
        if (call, phase) in self._texts:
            return self._texts[call, phase]
        if phase != "core":
            raise Error(f"a loaded program holds its core form only, not {phase!r}; compile it here to see every phase")
        return self._artifact.text(self._number_of(call))

    @property
    def _calls(self) -> tuple[str, ...]:
        variants = tuple(f"variant {at + 1}" for at in range(self._artifact.variants))
        return (_CALLS if self._artifact.short_rows and not variants else _CALLS[:3]) + variants

    def program_bytes(self, call: str = "steady") -> bytes:
        """The encoded program, as sent to owners."""
        return self._artifact.program(self._number_of(call))

    def program_hash(self, call: str = "steady") -> str:
        """Content hash that identifies the program at an owner, in hexadecimal."""
        return self._artifact.hash(self._number_of(call)).hex()

    def _number_of(self, call: str) -> int:
        checks.choice("call", call, self._calls)
        return _CALLS.index(call) if call in _CALLS else len(_CALLS) + self._calls[3:].index(call)

    @property
    def inputs(self) -> list[spec]:
        """The inputs of each step."""
        return [spec(tuple(shape), *others) for shape, *others in self._artifact.inputs]

    @property
    def tables(self) -> dict[str, table_spec]:
        """The required form of each owner's table, with the columns that the steps read."""
        return {
            table.name: table_spec(
                table.rows,
                {c.name: (c.dtype, c.shape) if c.shape else c.dtype for c in table.columns},
                {c.name: c.bounds for c in table.columns if c.bounds is not None} or None,
                table.policy or None,
                table.defaults,
                {c.name: c.categories for c in table.columns if c.categories is not None} or None,
                table.party or None,
            )
            for table in self._artifact.tables
        }

    @property
    def parties(self) -> tuple[str, ...]:
        """Names of the parties whose tables the steps read, in the order of their roles; () for one owner's program.

        The order is that in which `tables` of `sojourn.compile` first name them.
        """
        return tuple(self._artifact.parties)

    @property
    def steps(self) -> int | None:
        """Number of steps in the tables' batches, from the row counts of their descriptions.

        None if the steps take no batches of a table, or if a description has no row count.
        """
        return self._artifact.steps

    def run(
        self,
        owner,
        batches: collections.abc.Iterable | None = None,
        progress: bool = False,
        tables: collections.abc.Mapping[str, str] | None = None,
        per_trip: int = 1,
    ) -> list:
        """Runs `init`, then the steps. Returns the published values of each step; `state` then reads the weights.

        `owner`: an owner, or for a program with `parties` a dict of party -> owner, or a group (`sojourn.parties`) whose
        members play the parties in their order. With a dict the run makes the group, each party another owner. One owner
        that plays all parties runs the program by itself, over tables that are all its own.

        `batches`: an iterable with one element per step, a tuple of CPU tensors (floats for numbers) that
        match `inputs`. A program without inputs, over batches of the owner's tables, needs no `batches`:
        the steps of all the tables' batches run, and no data is sent. `tables`: table of the program ->
        name of the owner's dataset (in a group that of its party's owner); a table that is left out uses the dataset with
        the table's name.
        Raises `Error` if a dataset does not exist or does not match the program's `tables`.

        The row count of the owner's table determines the batches per epoch and the price of a step on a
        private table. Raises `Error` if a last batch would be short and was not left out when the
        program was compiled (`drop_last=True`).

        `per_trip`: steps in each round trip; inputs beyond 32 MiB are split over several round trips. Each
        step commits and is charged separately. If a step fails or is interrupted, the earlier steps remain
        committed. The exception has the attributes `steps`, the number of committed steps, and `results`,
        their published values.

        Steps on a private table follow the open `sojourn.privacy(...)` of one of the run's tables, like
        the steps of a loop; without one the table's defaults apply.
        """
        if isinstance(owner, collections.abc.Mapping):
            owner = self._players(owner)
        if not isinstance(owner, (Owner, Parties)):
            raise Error(f"a program runs at an owner (sojourn.local, sojourn.connect), got {checks.shown(owner)}")
        tables, total = checks.mapping("tables", tables, "the program's tables to names of datasets"), None
        if not all(isinstance(dataset, str) for dataset in tables.values()):
            raise Error(f"tables must map the program's tables to names of datasets, got {checks.shown(tables)}")
        checks.flag("progress", progress)
        if batches is not None:
            checks.iterable("batches", batches)
        if batches is None and (self.inputs or not self._artifact.takes_batches):
            raise Error(
                f"each step takes {len(self.inputs)} inputs: pass an iterable with a tuple of them for every step"
            )
        per_trip = integer("per_trip", per_trip, 1)
        if per_trip > PER_TRIP_MOST:
            raise Error(f"per_trip is {per_trip}, an owner takes up to {PER_TRIP_MOST} steps in one message")
        self._run = None  # an earlier run's values are released
        run = self._run = _sojourn.ArtifactRun(self._artifact, owner.session, tables)
        bound = run.artifact  # its tables have the rows of the owner's
        if batches is None:
            batches, total = itertools.repeat((), bound.steps), bound.steps
        self._declare(owner, tables, bound)
        results: list = []
        with bar(progress, length(batches) if total is None else total) as shown:
            try:
                for trip in _trips(batches, per_trip):
                    self._run_trip(run, trip, results, shown)
            except BaseException as failure:
                failure.steps, failure.results = len(results), results  # type: ignore[attr-defined]  # our own, on any exception
                raise
        return results

    def _players(self, given: collections.abc.Mapping) -> Owner | Parties:
        """The owner that plays all parties, or a group of those that play one each."""
        for name, owner in given.items():
            if not isinstance(name, str) or not isinstance(owner, Owner):
                raise Error(
                    f"a dict of owners must map the program's parties to owners, got {shown(name)}: {shown(owner)}"
                )
        count = _sojourn.players(self._artifact, {name: owner.session for name, owner in given.items()})
        owners = [given[name] for name in self.parties]
        return owners[0] if count == 1 else parties(*owners)

    def _run_trip(self, run, trip: list, results: list, shown) -> None:
        before = len(results)
        published, committed, failure = run.steps(trip, lambda steps: shown(before + steps))
        results += map(self._nest, published)
        results += [None] * (committed - len(published))  # their values are lost
        shown(len(results))
        connections.tell()
        if failure is not None:
            raise failure

    def state(self):
        """The values of the result of `init` after the last run; one round trip.

        ::

            program.run(owner)
            model.load_state_dict(program.state())  # init ended with `return model`

        A module gives its state dict, a tensor its value; a tuple, list or dict of these is nested alike, with None for
        anything else. After a run that failed or was interrupted, the values are those after its last committed step.
        Raises `Error` before the first run, and if `init` returned no module or tensor; `Refused` if the policy of a
        table keeps a value at the owner. Weights that were trained on a private table carry their noise already.
        """
        if not self._artifact.state_tree:
            raise Error(
                "this program has no readable state: its init returned no module or tensor; let init return the model "
                "and compile again"
            )
        if self._run is None:
            raise Error("this program has not run here yet; call run(owner) before state()")
        values = self._run.state()
        try:
            described, left = json.loads(self._artifact.state_tree), iter(values)
            leaves = [next(left) if is_read else None for is_read in described["read"]]
            return pytree.tree_unflatten(leaves, pytree.treespec_loads(described["tree"]))
        except Exception as failure:  # whatever json and torch say of a damaged description
            raise Error(
                f"the program does not say how its state nests ({failure!r}): the file is damaged, compile it again"
            ) from failure

    def quote(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        noise_multiplier: float | None = None,
        steps: int | None = None,
        table: str | None = None,
        rows: int | None = None,
    ) -> Quote:
        """The price of a run on a private table, or the noise for a run that costs `epsilon`; contacts no owner.

        `delta`: that of the budget to be charged, above 0 and below 1. `epsilon`: price of the whole run;
        it determines the noise. `noise_multiplier`: determines the price. With neither, the defaults of
        the `table_spec` apply, or else an owner's default, 1. `steps`: default: all batches. `table`: the
        private table to quote, if the program has several. `rows`: row count of the owner's table, on
        which the price depends; default: that of its `table_spec`. Releases with a separate price are
        charged in addition.
        """
        known = [name for name, described in self.tables.items() if described.policy == "private"]
        if table is not None:
            checks.text("table", table)
        if table is None and len(known) != 1:
            raise Error(
                f"the program reads {len(known)} private tables ({', '.join(known) or 'none'}); "
                + ("say which: quote(..., table=...)" if known else 'describe one: table_spec(..., policy="private")')
            )
        if delta is None:
            raise Error("give delta: offline there is no budget to take it from")
        if epsilon is not None and noise_multiplier is not None:
            raise Error("give epsilon (the noise follows) or noise_multiplier (the price follows), not both")
        terms = (
            within("delta", delta, checks.DELTA),
            0.0 if epsilon is None else within("epsilon", epsilon, checks.EPSILON),
            0.0 if noise_multiplier is None else within("noise_multiplier", noise_multiplier, checks.NOISE_MULTIPLIER),
        )
        count = None if steps is None else integer("steps", steps, 0)
        given = None if rows is None else integer("rows", rows, 1)
        return Quote(*self._artifact.quote(known[0] if table is None else table, *terms, count, given))

    def _declare(self, owner, tables: dict[str, str], bound) -> None:
        """Declares the run's draws to the open `sojourn.privacy`."""
        run = current.run()
        if run is None or not run.is_private or run.session is not owner.session:
            return
        for name, rows, size in bound.draws:
            if tables.get(name, name) == run.table:
                run.declare(run.table, rows, size, bound.epochs, bound.steps)

    def _nest(self, leaves: list):
        try:
            tree = self._artifact.output_tree
            return pytree.tree_unflatten(leaves, pytree.treespec_loads(tree)) if tree else leaves
        except Exception as failure:  # whatever torch says of a damaged description
            raise Error(
                f"the compiled step does not say how its {len(leaves)} results nest ({failure!r}): the file is damaged, "
                "compile it again"
            ) from failure


def _trips(batches, per_trip: int):
    """Inputs of the steps of each trip, as CPU tensors."""
    steps = iter(batches)
    while trip := list(itertools.islice(steps, per_trip)):
        yield [[_input(value) for value in _inputs(batch)] for batch in trip]


def _inputs(batch) -> tuple:
    """The inputs of one step; one tensor or number alone is the only input."""
    if isinstance(batch, torch.Tensor) or checks.is_number(batch):
        return (batch,)
    if not isinstance(batch, (tuple, list)):
        raise Error(f"batches must give a tuple of tensors and numbers for each step, got {shown(batch)}")
    return tuple(batch)


def _input(value) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value
    if not isinstance(value, numbers.Real):
        raise Error(f"an input of a step must be a tensor or a number, got {shown(value)}")
    return torch.tensor(float(value), dtype=torch.float64)


def compile(
    step_fn,
    init=None,
    inputs: collections.abc.Sequence[spec] = (),
    tables: collections.abc.Mapping[str, table_spec] | None = None,
    batches: collections.abc.Callable[..., Batches | collections.abc.Sequence[Batches]] | None = None,
    short: int | None = None,
) -> Program:
    """Compiles `step_fn(*batch, *inputs)` for later; call it inside `with sojourn.offline() as device`.

    `init()` builds models and optimizers on `device`; its random numbers are drawn at each run. If it returns the model
    (or tensors, or a tuple or dict of models and tensors), `Program.state` reads the weights after a run.
    Each step of a run publishes the values that `step_fn` returns. Raises `Unsupported` if a number
    changes from step to step: pass it as an input (`sojourn.number()`), or use `capturable=True`.

    `tables`: name of your choice -> `table_spec` of an owner's table. `batches` is called once, before
    `init`, with a `Table` for each name as a keyword argument. It returns the batches of the training
    loop, taken from a table or from one of its splits::

        sojourn.compile(
            train, init=init,
            tables={"patients": sojourn.table_spec(569, {"age": torch.float64, "y": torch.int64})},
            batches=lambda patients: patients.batches(["age"], label="y", size=64, epochs=3, drop_last=True),
        ).run(owner)

    runs `for x, y in table.batches(...): train(x, y)`. Each step takes the next batch; given a list of
    batches, it takes the next one of each. Tables that name a `party` make it a step of several owners: take the batches
    of `sojourn.pooled(a, b)`, for tables of the described row counts, or of each table, joined by `torch.cat` in
    `step_fn`, for tables of any. A compiled step has one shape, so a last batch that is short,
    or may be short, raises `Error`. `drop_last=True` leaves it out. `short=25` also compiles a second step,
    for a last batch of 25 rows, if the steps take batches of one open table.
    """
    if not _offline.recorders:
        raise Error("sojourn.compile records without an owner: call it inside `with sojourn.offline() as device:`")
    checks.function("step_fn", step_fn)
    for name, given in (("batches", batches), ("init", init)):
        if given is not None:
            checks.function(name, given)
    inputs = specs_of(inputs)
    loops = loops_of(
        _offline.recorders[-1], checks.mapping("tables", tables, "names to sojourn.table_spec(...)"), batches
    )
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

    before: list[int] = []  # arguments before the inputs

    def one_step(tensors):
        left = iter(tensors)
        served = [each for loop in loops for each in loop.arguments(list(itertools.islice(left, len(loop.columns))))]
        before[:] = [len(served)]
        given = (t.item() if entry.is_number else t for t, entry in zip(left, inputs))
        with noting_states() as states:
            tree = step_fn(*served, *given)
        leaves, tree_spec = pytree.tree_flatten(plain(tree))
        if states or any(isinstance(leaf, Published) for leaf in leaves):
            need_all_published(leaves, states)
        else:
            other = next((leaf for leaf in leaves if not isinstance(leaf, torch.Tensor)), leaves)
            if other is not leaves:
                raise Error(
                    f"a compiled step must return tensors (or a tree of them), got {type(other).__name__}; return () "
                    "to publish nothing"
                )
            _sojourn.publish(leaves)
        trees.append(tree_spec)

    state = State(_offline.recorders[-1].index)

    def first():
        state.made = None if init is None else init()

    snapshots = dict(current.step.snapshots)
    with _compiling:
        _sojourn.set_phase_listener(listen)
        _sojourn.step_begin()
        try:
            artifact = _sojourn.compile_artifact(
                _offline.recorders[-1],
                first,
                one_step,
                [(list(entry.shape), entry.dtype, entry.is_number) for entry in inputs],
                [loop.recorded for loop in loops],
                None if short is None else integer("short", short, 1),
                state.tensors,
            )
        finally:
            _sojourn.set_phase_listener(None)
            _sojourn.step_abort()
            # Optimizers of the compiled step, and with them its device, live no longer than their owner.
            current.step.snapshots.clear()
            current.step.snapshots.update(snapshots)
    artifact.name_inputs(names_of(step_fn, inputs, *before))
    try:
        artifact.output_tree = pytree.treespec_dumps(trees[-1])
    except NotImplementedError:
        artifact.output_tree = ""
    artifact.state_tree = state.description
    # A trace that repeats an earlier one compiles once, so a call's texts are those that ended in its program.
    by_core = {_operations(phases["core"]): phases for phases in compiled if "core" in phases}
    program = Program(artifact)
    for name in filter(program.program_bytes, program._calls):
        for phase, text in by_core.get(_operations(program.text(call=name)), {}).items():
            texts[name, phase] = text
    return Program(artifact, texts)


def _operations(text: str) -> str:
    """What equal programs have in common: the functions of a module, without their places in the source."""
    lines = [line for line in text.splitlines() if not line.startswith(("#loc", "module"))]
    return re.sub(r" loc\((?:#loc\d*|unknown)\)", "", "\n".join(lines))


def load(path) -> Program:
    """Reads a program that `Program.save` wrote.

    Raises `Error` if the file is not a program or any byte of it has changed, and `VersionMismatch` if
    another version wrote it.
    """
    return Program(_sojourn.Artifact.load(checks.path("path", path)))
