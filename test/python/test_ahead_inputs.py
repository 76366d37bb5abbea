# SPDX-License-Identifier: Apache-2.0
"""Goal: inputs that a compiled step was not compiled for are refused before anything runs. The text has the input, its
type and the expected one.

Tables and columns are in test_ahead_tables.py, and C++ in test/frontend/ArtifactInputsTest.cpp.
"""

import pathlib
import re
import subprocess
import uuid

import numpy as np
import pytest
import torch

import sojourn

BIN = pathlib.Path(__file__).resolve().parents[2] / "build/bin"
X, Y = "Double[2, 3] on cpu", "Long[2] on cpu"


def compiled():
    """A step of a matrix, classes and a number; it keeps a sum."""
    kept = {}

    def init():
        kept["sum"] = torch.zeros((), dtype=torch.float64, device=device)
        return kept["sum"]

    def step(x, y, factor):
        kept["sum"].add_(x.sum() * factor + y.sum())
        return kept["sum"]

    inputs = [sojourn.spec((2, 3), torch.float64), sojourn.spec((2,), torch.int64), sojourn.number()]
    with sojourn.offline() as device:
        return sojourn.compile(step, init=init, inputs=inputs)


@pytest.fixture
def given(seed):
    return torch.randn(2, 3, dtype=torch.float64), torch.randint(9, (2,)), float(torch.rand(()))


def told(found, wanted, position=0):
    return f"input {position} ({'x y factor'.split()[position]}) is {found}, but the step was compiled for {wanted}"


#: Wrong inputs, made of right ones, and the text of their error.
WRONG = {
    "none": (lambda x, y, f: (), "the compiled step takes 3 inputs (x, y, factor), got 0"),
    "missing": (lambda x, y, f: (x, y), "the compiled step takes 3 inputs (x, y, factor), got 2"),
    "additional": (lambda x, y, f: (x, y, f, f), "the compiled step takes 3 inputs (x, y, factor), got 4"),
    "alone": (lambda x, y, f: x, "the compiled step takes 3 inputs (x, y, factor), got 1"),
    "shape": (lambda x, y, f: (x.t(), y, f), told("Double[3, 2] on cpu", X)),
    "rank": (lambda x, y, f: (x[None], y, f), told("Double[1, 2, 3] on cpu", X)),
    "broadcast": (lambda x, y, f: (x[:1], y, f), told("Double[1, 3] on cpu", X)),
    "dtype": (lambda x, y, f: (x.float(), y, f), told("Float[2, 3] on cpu", X)),
    "integer": (lambda x, y, f: (x, y.int(), f), told("Int[2] on cpu", Y, 1)),
    "complex": (lambda x, y, f: (x.to(torch.complex128), y, f), told("ComplexDouble[2, 3] on cpu", X)),
    "order": (lambda x, y, f: (y, x, f), told("Long[2] on cpu", X)),
    "number for a tensor": (lambda x, y, f: (f, y, f), told("Double[] on cpu", X)),
    "tensor for a number": (lambda x, y, f: (x, y, x), told(X, "Double[] on cpu", 2)),
    "float32 for a number": (lambda x, y, f: (x, y, torch.tensor(f)), told("Float[] on cpu", "Double[] on cpu", 2)),
    "meta": (lambda x, y, f: (x.to("meta"), y, f), told("Double[2, 3] on meta", X)),
    "sparse": (lambda x, y, f: (x.to_sparse(), y, f), "input 0 (x) is "),
    "array": (lambda x, y, f: (x.numpy(), y, f), "must be a tensor or a number, got array("),
    "nothing": (lambda x, y, f: (x, None, f), "must be a tensor or a number, got None"),
    "text": (lambda x, y, f: (x, y, "fast"), "must be a tensor or a number, got 'fast'"),
    "imaginary": (lambda x, y, f: (x, y, 1j), "must be a tensor or a number, got 1j"),
    "list": (lambda x, y, f: (x, y.tolist(), f), "must be a tensor or a number, got ["),
    "dict": (
        lambda x, y, f: {"x": x, "y": y, "f": f},
        "batches must give a tuple of tensors and numbers for each step",
    ),
}


@pytest.fixture(scope="module")
def program():
    return compiled()


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("place", ["first", "third", "third of a trip"])
def test_a_wrong_input_is_named(wrong, place, program, given, owner):
    """The steps before it have run, unless it came in one round trip with them; a later run is right."""
    change, text = WRONG[wrong]
    x, y, factor = given
    before = 0 if place == "first" else 2
    with pytest.raises(sojourn.Error, match=re.escape(text)) as refused:
        program.run(owner, [given] * before + [change(*given)], per_trip=3 if "trip" in place else 1)
    ran = before if place == "third" else 0
    assert refused.value.steps == len(refused.value.results) == ran
    step = float(x.sum() * factor + y.sum())
    assert program.state().item() == pytest.approx(ran * step)
    assert [value.item() for value in program.run(owner, [given] * 3)] == pytest.approx([step, 2 * step, 3 * step])


def test_an_input_at_an_owner_is_refused(program, given, owner):
    x, y, factor = given
    with pytest.raises(sojourn.Error, match=re.escape(told(f"Double[2, 3] on {owner.device}", X))):
        program.run(owner, [(x.to(owner.device), y, factor)])


def test_views_are_the_values_that_they_show(program, given, owner):
    """Other strides, one row for all, lazy conjugates and negatives, gradients, a parameter, integers for the number."""
    x, y, factor = given
    lazy = torch.randn(2, 3, dtype=torch.complex128).conj()
    row = x.clone()[0].expand(2, 3)
    views = [
        x.t().contiguous().t(),
        lazy.imag,
        torch._neg_view(x),
        row,
        x.clone().requires_grad_(),
        torch.nn.Parameter(x),
    ]
    assert lazy.imag.is_neg() and torch._neg_view(x).is_contiguous()
    found = program.run(
        owner, [(each, y, factor) for each in views] + [(x, y, 2), (x, y, True), (x, y, np.float32(0.5))]
    )
    each = [float(view.detach().resolve_neg().sum() * factor + y.sum()) for view in views]
    each += [float(x.sum() * number + y.sum()) for number in (2, 1, 0.5)]
    assert [value.item() for value in found] == pytest.approx(np.cumsum(each).tolist())


def test_a_lazy_conjugate(owner, seed):
    with sojourn.offline():
        program = sojourn.compile(lambda x: (x * 2).imag.sum(), inputs=[sojourn.spec((3,), torch.complex128)])
    x = torch.randn(3, dtype=torch.complex128)
    found = program.run(owner, [(x,), (x.conj(),)])
    assert found[0].item() == pytest.approx(float(2 * x.imag.sum()))
    assert found[1].item() == pytest.approx(float(-2 * x.imag.sum()))


NAMES = {
    "of parameters": (lambda x, y: x + y, ("", ""), ["x", "y"]), "their own": (lambda x, y: x + y, ("rows", ""), ["rows", "y"]),
    "of the first ones": (lambda x, y, more=0: x + y + more, ("", ""), ["x", "y"]),
    "none": (lambda *tensors: sum(tensors), ("", ""), ["", ""]), "of one": (lambda x, *others: x + sum(others), ("", ""), ["x", ""]),
    "beyond ASCII": (lambda größe, y: größe + y, ("", ""), ["", "y"]),
}  # fmt: skip


@pytest.mark.parametrize("kind", NAMES)
def test_names_of_inputs(kind, owner, tmp_path):
    step, own, names = NAMES[kind]
    with sojourn.offline():
        program = sojourn.compile(step, inputs=[sojourn.spec((2,), name=name) for name in own])
    program.save(tmp_path / "step.sojourn")
    for each in (program, sojourn.load(tmp_path / "step.sojourn")):
        assert [entry.name for entry in each.inputs] == names
        shown = f" ({names[1]})" if names[1] else ""
        with pytest.raises(sojourn.Error, match=re.escape(f"input 1{shown} is Float[3]")):
            each.run(owner, [(torch.ones(2), torch.ones(3))])


def test_names_behind_batches(owner):
    """Arguments that the owner draws come first."""
    owner.register(f"names-{uuid.uuid4().hex}", {"a": np.arange(6.0)}, policy="open")
    with sojourn.offline():
        program = sojourn.compile(
            lambda rows, rate: (rows.sum() * rate).detach(),
            inputs=[sojourn.number()],
            tables={"t": sojourn.table_spec(None, {"a": torch.float64})},
            batches=lambda t: t.batches(["a"], size=3, drop_last=True),
        )
    assert [entry.name for entry in program.inputs] == ["rate"]


@pytest.mark.parametrize("name", ["x" * 129, "a\nb", "ä", 3, None])
def test_names_that_no_text_could_show(name):
    with pytest.raises(sojourn.Error, match="name must be a str of up to 128 printable ASCII characters"):
        sojourn.spec((2,), name=name)


@pytest.mark.parametrize("change", ["count", "shape", "dtype", "kind"])
def test_cpp_says_the_same(change, program, given, owner_process, tmp_path):
    x, y, factor = given
    factor = torch.tensor(factor, dtype=torch.float64)
    wrong, text = {
        "count": ([x, y], "the compiled step takes 3 inputs (x, y, factor), got 2"),
        "shape": ([x.t(), y, factor], told("Double[3, 2] on cpu", X)),
        "dtype": ([x, y.int(), factor], told("Int[2] on cpu", Y, 1)),
        "kind": ([x, y, "fast"], "step 1 has an input that is String, expected a tensor"),
    }[change]
    program.save(tmp_path / "step.sojourn")
    torch.save([[x, y, factor], wrong], tmp_path / "inputs.pt")
    command = [BIN / "run-step", tmp_path / "step.sojourn", owner_process.address, "--inputs", tmp_path / "inputs.pt"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stderr.startswith("run-step: ") and text in done.stderr, done.stderr


def test_uploads_that_nothing_uses_are_left_out(owner):
    """They may change from call to call; those that are used stay in their places."""
    count = torch.tensor(0)
    with sojourn.offline() as device:

        def step(x):
            count.add_(1)
            for unused in (count, torch.full((2, 3), float(count)), torch.full((5,), float(count))):
                unused.to(device)
            return x * torch.tensor([2.0, 3.0]).to(device) + torch.tensor(7.0).to(device)

        program = sojourn.compile(step, inputs=[sojourn.spec((2,))])
    x = torch.randn(2)
    (found,) = program.run(owner, [(x,)])
    torch.testing.assert_close(found, x * torch.tensor([2.0, 3.0]) + 7)
