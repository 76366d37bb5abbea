# SPDX-License-Identifier: Apache-2.0
"""Ahead of time against tracing: 20 steps each, from Python and, without Python, from C++."""

import pathlib
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from ahead_support import OPTIMIZERS, STEPS, Device, batches, compiled, network, rates, train
from owner_process import OwnerProcess
from torch import nn

import sojourn

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = ROOT / "build/bin"


@pytest.fixture
def fresh():
    """A generator with a fresh seed, printed on failure."""
    seed = torch.seed()
    print("seed", seed)
    torch.manual_seed(seed)
    return torch.Generator().manual_seed(seed % 2**31)


@pytest.fixture
def shape(fresh):
    """Batch, features, hidden, classes; drawn per run."""
    return tuple(int(torch.randint(low, high, (), generator=fresh)) for low, high in ((1, 8), (1, 9), (1, 9), (2, 5)))


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_twenty_steps_equal_tracing(kind, shape, fresh, tmp_path):
    state = network(shape).state_dict()
    data = list(batches(kind, shape, fresh))
    compiled(kind, shape, state).save(tmp_path / "step.sojourn")
    program = sojourn.load(tmp_path / "step.sojourn")
    assert program.inputs[0] == sojourn.spec((shape[0], shape[1]), torch.float64)

    with sojourn.local() as owner:
        before = owner._embedded.requests
        ahead = program.run(owner, data)
        assert owner._embedded.requests - before == STEPS + 1  # init, then one trip per step

    with sojourn.local() as owner:
        model = network(shape, state)
        optimizer = OPTIMIZERS[kind](model.parameters())
        sojourn.to_owner(model, owner, optimizer)
        step = sojourn.step(train)
        for (x, y, *rate), result in zip(data, ahead):
            loss = step(model, optimizer, x.to(owner.device), y.to(owner.device), *(rate or [None]))
            traced = sojourn.publish({"loss": loss, "parameters": list(model.parameters())})
            torch.testing.assert_close(result["loss"], traced["loss"].detach(), rtol=0, atol=0)
            for ours, theirs in zip(result["parameters"], traced["parameters"]):
                torch.testing.assert_close(ours, theirs.detach(), rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["sgd-momentum", "schedule"])
def test_twenty_steps_equal_eager(kind, shape, fresh):
    state = network(shape).state_dict()
    data = list(batches(kind, shape, fresh))
    with sojourn.local() as owner:
        ahead = compiled(kind, shape, state).run(owner, data)
    model = network(shape, state)
    optimizer = OPTIMIZERS[kind](model.parameters())
    for (x, y, *rate), result in zip(data, ahead):
        loss = train(model, optimizer, x, y, *(rate or [None]))
        torch.testing.assert_close(result["loss"], loss.detach(), rtol=1e-10, atol=1e-12)
        for ours, theirs in zip(result["parameters"], model.parameters()):
            torch.testing.assert_close(ours, theirs.detach(), rtol=1e-10, atol=1e-12)


def refusal(optimizer_of):
    kept = {}

    def init():
        model = network((4, 3, 5, 2))
        optimizer = optimizer_of(model.parameters())
        kept.update(model=sojourn.to_owner(model, Device(device), optimizer), optimizer=optimizer, rate=0.1)

    def step(x, y):
        kept["rate"] *= 0.5
        rate = kept["rate"] if isinstance(kept["optimizer"], torch.optim.SGD) else None
        return train(kept["model"], kept["optimizer"], x, y, rate)

    with sojourn.offline() as device:
        with pytest.raises(sojourn.Unsupported) as refused:
            sojourn.compile(
                step, init=init, inputs=[sojourn.spec((4, 3), torch.float64), sojourn.spec((4,), torch.int64)]
            )
    return str(refused.value)


def test_numbers_that_change_are_refused_with_line_and_way_out():
    text = refusal(lambda parameters: torch.optim.Adam(parameters))
    assert "changes from step to step" in text and "capturable" in text and "ahead_support.py:" in text
    text = refusal(lambda parameters: torch.optim.SGD(parameters, lr=0.1))
    assert "sojourn.number()" in text and "ahead_support.py:" in text


def test_texts_of_every_phase(shape, tmp_path):
    program = compiled("sgd-momentum", shape, None)
    for phase in ("captured", "functional", "promoted", "decomposed", "core"):
        for call in ("init", "first", "steady"):
            assert "func.func @step" in program.text(phase, call)
    assert "sojourn.aten" in program.text("captured") and "sojourn.aten" not in program.text("core")
    program.save(tmp_path / "step.sojourn")
    loaded = sojourn.load(tmp_path / "step.sojourn")
    assert "sojourn.dot" in loaded.text("core")
    with pytest.raises(sojourn.Error, match="core form only"):
        loaded.text("captured")
    with pytest.raises(sojourn.Error, match="phases:"):
        program.text("late")


def test_wrong_inputs_are_named(shape):
    program = compiled("sgd-momentum", shape, None)
    with sojourn.local() as owner:
        x, y = torch.zeros(shape[0], shape[1], dtype=torch.float64), torch.zeros(shape[0], dtype=torch.int64)
        with pytest.raises(sojourn.Error, match=r"takes 2 inputs \(x, y\), got 1"):
            program.run(owner, [(x,)])
        with pytest.raises(sojourn.Error, match=r"input 0 \(x\) is Float.*compiled for Double"):
            program.run(owner, [(x.float(), y)])


SAME_BYTES = """
import sys, torch, sojourn
sys.path.insert(0, {folder!r})
import ahead_support
program = ahead_support.compiled("sgd-momentum", (3, 4, 5, 2), None)
print(*(program.program_hash(call) for call in ("init", "first", "steady")))
"""


def test_equal_ops_give_equal_bytes_in_every_process():
    code = SAME_BYTES.format(folder=str(pathlib.Path(__file__).parent))
    run = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(2)]
    here = compiled("sgd-momentum", (3, 4, 5, 2), None)
    hashes = " ".join(here.program_hash(call) for call in ("init", "first", "steady"))
    assert run[0].stdout.strip() == run[1].stdout.strip() == hashes


def test_traced_program_equals_compiled_one():
    """With data or without: the owner sees the same content hash."""
    sizes = (3, 4, 5, 2)
    state = network(sizes).state_dict()
    program = compiled("sgd-momentum", sizes, state)
    with sojourn.local() as owner:
        model = network(sizes, state)
        optimizer = OPTIMIZERS["sgd-momentum"](model.parameters())
        sojourn.to_owner(model, owner, optimizer)
        sojourn.flush()
        for _ in range(3):
            with sojourn.step():
                x = torch.randn(3, 4, dtype=torch.float64).to(owner.device)
                y = torch.randint(2, (3,)).to(owner.device)
                loss = train(model, optimizer, x, y, None)
                sojourn.publish([loss, *model.parameters()])
                del x, y, loss
        ran = {info["hash"] for info in owner.programs()}
    assert program.program_hash("steady") in ran


@pytest.fixture
def served(tmp_path):
    process = OwnerProcess(tmp_path)
    yield process.address
    assert process.close() == 0


def run(*command):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("options", [[], ["--scheduled"]], ids=["momentum", "schedule"])
def test_cpp_compiles_and_runs_without_python(served, tmp_path, fresh, options):
    path, values = tmp_path / "step.sojourn", tmp_path / "values.pt"
    done = run(BIN / "compile-step", path, "--batch", 5, "--features", 3, "--hidden", 4, *options)
    assert done.returncode == 0, done.stderr
    done = run(BIN / "run-step", path, served, "--steps", STEPS, "--seed", 7, "--save", values)
    assert done.returncode == 0, done.stderr
    assert "round trips per step: 1\n" in done.stdout
    for tool in ("compile-step", "run-step"):
        assert "libpython" not in run("ldd", BIN / tool).stdout
    record = torch.load(values, weights_only=False)
    assert len(record) == STEPS
    # Eager training from the weights after step 1 must give every later step.
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    momentum = None
    for index, (previous, current) in enumerate(zip(record, record[1:]), start=1):
        rate = 0.1 * 0.9**index if options else 0.1
        with torch.no_grad():
            for parameter, value in zip(model.parameters(), previous[3:]):
                parameter.copy_(value)
        loss = F.cross_entropy(model(current[0]), current[1])
        torch.testing.assert_close(current[2], loss.detach(), rtol=1e-5, atol=1e-6)
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        steps = [(before - after) / rate for before, after in zip(previous[3:], current[3:])]
        if momentum is not None:
            for buffer, gradient, step in zip(momentum, gradients, steps):
                torch.testing.assert_close(step, 0.9 * buffer + gradient, rtol=1e-3, atol=1e-4)
        momentum = steps


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_cpp_runs_what_python_compiled(served, tmp_path, fresh, kind):
    """Adam (capturable) too, which libtorch's own C++ Adam cannot record: bitwise as traced from Python."""
    sizes = (4, 3, 5, 2)
    state = network(sizes).state_dict()
    path, values = tmp_path / "step.sojourn", tmp_path / "values.pt"
    compiled(kind, sizes, state).save(path)
    done = run(BIN / "run-step", path, served, "--steps", STEPS, "--save", values)
    assert done.returncode == 0, done.stderr
    with sojourn.local() as owner:
        model = network(sizes, state)
        optimizer = OPTIMIZERS[kind](model.parameters())
        sojourn.to_owner(model, owner, optimizer)
        step = sojourn.step(train)
        for rate, (x, y, *published) in zip(rates(kind), torch.load(values, weights_only=False), strict=True):
            loss = step(model, optimizer, x.to(owner.device), y.to(owner.device), rate)
            for ours, theirs in zip(published, sojourn.publish([loss, *model.parameters()]), strict=True):
                torch.testing.assert_close(ours, theirs.detach(), rtol=0, atol=0)


def test_cpp_tools_say_what_is_wrong(tmp_path):
    for tool in ("compile-step", "run-step"):
        assert run(BIN / tool, "--help").returncode == 0
        assert run(BIN / tool).returncode != 0
    done = run(BIN / "run-step", tmp_path / "none", "ipc:///nowhere")
    assert done.returncode == 1 and "cannot read" in done.stderr
