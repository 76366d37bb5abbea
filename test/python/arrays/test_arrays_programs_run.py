# SPDX-License-Identifier: Apache-2.0
"""Ordinary NumPy programs, which run on sojourn.numpy with only their import changed: as they are, in a step, replayed, in
a loop, and ahead of time."""

import pathlib
import types
import warnings

import numpy
import pytest
import torch
from arrays_support import difference, host

import sojourn
import sojourn.numpy as np

FOLDER = pathlib.Path(__file__).parent / "programs"
PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.py"))
HOST_IMPORT, OURS = "import numpy as np\n", "import sojourn.numpy as np\n"
CALLS = 4
pytestmark = pytest.mark.filterwarnings("ignore:a value is read here")  # by the comparison, after the steps


def load(name: str, is_remote: bool) -> types.ModuleType:
    """A program as a module, on NumPy or on this namespace."""
    path = FOLDER / f"{name}.py"
    source = path.read_text()
    assert source.count(HOST_IMPORT) == 1 and source.count("import ") == 1, f"{name} imports NumPy alone, in one line"
    module = types.ModuleType(f"{name}_{'remote' if is_remote else 'host'}")
    text = source.replace(HOST_IMPORT, OURS) if is_remote else source
    exec(compile(text, str(path), "exec"), module.__dict__)
    return module


@pytest.fixture(params=PROGRAMS)
def program(request):
    """A program on NumPy and on this namespace."""
    return load(request.param, False), load(request.param, True)


def expected_of(module, given) -> dict:
    """What NumPy gives, without a warning."""
    kept = {key: value.copy() for key, value in given.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = module.run(**given)
    assert not difference(list(given.values()), list(kept.values())), "run changes its inputs"
    return found


def remote(given) -> dict:
    return {key: np.asarray(value) for key, value in given.items()}


def tolerance(value) -> float:
    """Algorithms in double precision amplify rounding little; in single precision, they start 1e9 times as rough."""
    return 2e-4 if numpy.asarray(value).dtype == numpy.float32 else 1e-8


def check(found, expected) -> None:
    assert list(found) == list(expected)
    others = [key for key, value in found.items() if type(value) is not np.ndarray]
    assert not others, f"no arrays of sojourn: {others}"
    problems = {key: difference(host(found[key]), expected[key], tolerance(expected[key])) for key in expected}
    problems = {key: text for key, text in problems.items() if text}
    assert not problems, "\n".join(f"{key}: {text}" for key, text in problems.items())


def round_trips() -> int:
    return sojourn.counters()["round_trips"]


def test_there_are_ten():
    assert len(PROGRAMS) >= 10


def test_inputs_are_host_arrays(program, rng):
    seed = rng.integers(2**32)
    plain, ours = (module.inputs(numpy.random.default_rng(seed), scale=1) for module in program)
    assert all(type(value) is numpy.ndarray for value in (*plain.values(), *ours.values()))
    assert list(plain) == list(ours) and not difference(list(ours.values()), list(plain.values()))
    larger = program[0].inputs(rng, scale=3)
    assert sum(x.size for x in larger.values()) > 2 * sum(x.size for x in plain.values())


def test_outside_of_steps(program, rng):
    plain, ours = program
    given = plain.inputs(rng)
    check(ours.run(**remote(given)), expected_of(plain, given))


def test_in_a_step(program, rng):
    plain, ours = program
    given = plain.inputs(rng)
    arrays = remote(given)
    sojourn.flush()
    before = round_trips()
    found = sojourn.step(ours.run)(**arrays)
    assert round_trips() == before + 1
    check(found, expected_of(plain, given))


def test_replayed(program, rng):
    plain, ours = program
    step = sojourn.step(ours.run, replay=True)
    for _ in range(CALLS):
        given = plain.inputs(rng)
        arrays = remote(given)
        sojourn.flush()
        before = round_trips()
        found = step(**arrays)
        assert round_trips() == before + 1
        check(found, expected_of(plain, given))
    assert step.replayed >= CALLS - 2, sojourn.explain()


def batches_of(module, rng) -> list[dict]:
    return [module.inputs(rng) for _ in range(CALLS + 1)]


def check_values(found, names, expected) -> None:
    values = {name: numpy.asarray(value) for name, value in zip(names, found, strict=True)}
    problems = {key: difference(values[key], expected[key], tolerance(expected[key])) for key in expected}
    assert not any(problems.values()), problems


def test_in_a_loop(program, rng):
    plain, ours = program
    names: list[str] = []

    @sojourn.step(replay=True)
    def step(*arrays):
        found = ours.run(**dict(zip(given[0], arrays, strict=True)))
        names[:] = list(found)
        return [sojourn.publish(each) for each in found.values()]

    given = batches_of(plain, rng)
    batches = [tuple(map(np.asarray, each.values())) for each in given]
    for found, each in zip(sojourn.loop(step, batches, per_trip=3), given, strict=True):
        check_values([value.value for value in found], names, expected_of(plain, each))


def test_ahead_of_time(program, rng, there):
    """Compiled without an owner and without data, and run on other numbers."""
    plain, ours = program
    given = batches_of(plain, rng)
    names: list[str] = []

    def step(*tensors):
        with np.on(device):
            found = ours.run(**dict(zip(given[0], map(np.asarray, tensors), strict=True)))
        names[:] = list(found)
        return list(found.values())

    specs = [sojourn.spec(value.shape, torch.from_numpy(value).dtype) for value in given[0].values()]
    with sojourn.offline() as device:
        compiled = sojourn.compile(step, inputs=specs)
    inputs = [tuple(map(torch.from_numpy, each.values())) for each in given]
    for found, each in zip(compiled.run(there, inputs, per_trip=2), given, strict=True):
        check_values(found, names, expected_of(plain, each))
