# SPDX-License-Identifier: Apache-2.0
"""Training programs recorded with the real frontend at the NumPy owner: the corpus of the tests of private steps.

`record(name)` runs three steps and keeps the last one's program, its arguments and the model as it was before.
Models and losses are in corpus.py; what an owner should make of each is in test_row_verdicts.py.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import pathlib
import tempfile

import numpy as np
import torch
from core_form import tool
from corpus import CASES, CLASSES, COLUMNS, ROWS, Case

import sojourn
import sojourn_numpy.owner as owner_module

STEPS = 3


@dataclasses.dataclass
class Recorded:
    """The last step of a case, and what an independent run of it needs."""

    name: str
    case: Case
    program: object  # sojourn_numpy's
    args: list
    text: str  # core form, without locations
    arrays: dict[str, np.ndarray]
    rows: np.ndarray  # row numbers by slot
    model: torch.nn.Module  # on the CPU, before the step
    x: torch.Tensor
    y: torch.Tensor | None

    @property
    def bounds(self) -> str:
        """What the owner knows of the table, as options of sojourn-opt."""
        columns = (f"bounds={name}={low:g}:{high:g}" for name, (low, high) in COLUMNS.items())
        return " ".join([*columns, f"rows={ROWS}"])

    def argument_of(self, parameter: str) -> int:
        """Number of the state argument that holds a parameter of the model."""
        value = dict(self.model.named_parameters())[parameter].detach().numpy()
        states = [k for k, _ in self.program.args_of("state")]
        found = [k for k in states if np.shape(self.args[k]) == value.shape and np.array_equal(self.args[k], value)]
        assert len(found) == 1, f"{parameter} of {self.name} is arguments {found}"
        return found[0]


class _Spy:
    """Sees the bytes of every program that an owner decodes, and the arguments of every run."""

    def __enter__(self):
        self.bytes, self.runs = {}, []
        self._decode, self._run = owner_module.decode, owner_module.run

        def decode(data, debug=b""):
            program = self._decode(data, debug)
            self.bytes[program.hash] = bytes(data)
            return program

        def run(program, args, watch=None):
            self.runs.append((program, list(args)))
            return self._run(program, args, watch)

        owner_module.decode, owner_module.run = decode, run
        return self

    def __exit__(self, *exception):
        owner_module.decode, owner_module.run = self._decode, self._run


def text_of(data: bytes) -> str:
    """Program bytes as core-form text, an op per line."""
    with tempfile.TemporaryDirectory(prefix="sojourn-") as folder:
        path = pathlib.Path(folder) / "program.bin"
        path.write_bytes(data)
        return tool("sojourn-translate", "decode", path, "-o", "-").stdout


def arrays_of(case: Case) -> dict[str, np.ndarray]:
    """A table of ROWS rows within COLUMNS, the same for every case with the same features."""
    generator = np.random.default_rng(7)
    arrays = {}
    for name, (low, high) in COLUMNS.items():
        entry = {"image": (1, 8, 8), "series": (5, 3), "ids": (7,), "pair": (2, 4)}.get(name, ())
        whole = name in ("y", "ids", "masked", "flag", "word")
        draw = (
            generator.integers(low, high, (ROWS, *entry), endpoint=True)
            if whole
            else generator.uniform(low, high, (ROWS, *entry))
        )
        arrays[name] = draw.astype(np.int64 if whole else np.float64)
    arrays["masked"] = np.where(np.arange(ROWS) % 3 == 0, -100, generator.integers(0, CLASSES, ROWS))  # -100: no label
    names = {case.features} if isinstance(case.features, str) else set(case.features)
    return {name: values for name, values in arrays.items() if name in names | {case.label}}


def _batch(recorded_from: dict, case: Case, rows: np.ndarray, dtype: torch.dtype):
    pick = lambda name: torch.from_numpy(recorded_from[name][rows])
    x = pick(case.features) if isinstance(case.features, str) else torch.stack([pick(f) for f in case.features], 1)
    x = x.to(dtype) if x.is_floating_point() else x
    return x, None if case.label is None else pick(case.label)


@functools.cache
def _owner() -> sojourn.Owner:
    """An owner of its own: what another test sent to a shared one is not sent again."""
    return sojourn.local(runtime="numpy")


_sent: dict[bytes, bytes] = {}  # program hash to program


@functools.cache
def record(name: str, dtype: torch.dtype = torch.float32, lr: float | None = None) -> Recorded:
    """The steady step of a case; `lr` replaces its optimizer by plain gradient descent."""
    case = CASES[name]
    owner, arrays = _owner(), arrays_of(case)
    key = f"{name}-{dtype}-{lr}".replace("torch.", "")
    owner.register(key, arrays, policy="open")
    table = owner.dataset(key)
    torch.manual_seed(3)
    model = case.model().to(dtype)
    plain = copy.deepcopy(model)
    parameters = list(model.parameters())
    optimizer = case.optimizer(parameters) if lr is None else torch.optim.SGD(parameters, lr=lr)
    sojourn.to_owner(model, owner, optimizer)
    sojourn.flush()
    whole = isinstance(case.features, str) and arrays[case.features].dtype == np.int64
    step = sojourn.step(functools.partial(case.step, model, optimizer))
    with _Spy() as spy:
        batches = table.batches(case.features, label=case.label, size=case.size, dtype=None if whole else dtype, seed=5)
        held = None  # what a step returns stays alive until the next one, as in a training loop
        for number, batch in enumerate(batches):
            held = step(*batch) if case.label else step(batch)
            sojourn.flush()
            if number == STEPS - 1:
                break
            del batch  # else the next line would read it before its step does
            plain.load_state_dict(sojourn.publish(model.state_dict()))
        sojourn.publish(model.state_dict())  # the step has run once this is here
        del held
    _sent.update(spy.bytes)
    program, args = [(program, args) for program, args in spy.runs if program.args_of("table")][-1]
    rows = np.asarray(sojourn.batch_indices(len(table), case.size, 5, 0)[STEPS - 1])
    x, y = _batch(arrays, case, rows, dtype)
    return Recorded(name, case, program, args, text_of(_sent[program.hash]), arrays, rows, plain, x, y)
