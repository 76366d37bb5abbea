# SPDX-License-Identifier: Apache-2.0
"""NumPy's own functions and arrays where they meet remote tensors and arrays; host tensors as without Sojourn."""

import json
import os
import pathlib
import subprocess
import sys
import types

import numpy
import pytest
import torch
from arrays_support import difference, draw, host

import sojourn
import sojourn.numpy as np

HERE = pathlib.Path(__file__).parent


def _results(*arguments: str) -> dict:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(
        [sys.executable, str(HERE / "host_operators.py"), *arguments], env=environment, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return json.loads(ran.stdout)


def test_host_tensors_are_as_without_sojourn():
    """All operators, in both orders, universal functions and functions, with the texts of errors."""
    plain, ours = _results(), _results("sojourn")
    assert len(plain) > 10_000
    assert {k: (v, ours.get(k)) for k, v in plain.items() if ours.get(k) != v} == {}


SIGNS = ("+", "-", "*", "/", "//", "%", "**", "<", "<=", "==", "!=", ">", ">=")


@pytest.mark.parametrize("sign", [*SIGNS, "&", "|", "^", "<<", ">>", "@"])
@pytest.mark.parametrize("kind", ["tensor", "array"])
def test_operators_with_an_array_of_numpys(sign, kind, rng, there):
    is_bits = sign in ("&", "|", "^", "<<", ">>")
    x = draw(rng, "int64" if is_bits else "float32", (3, 3))
    y = numpy.abs(draw(rng, "int32" if is_bits else "float64", (3, 3))) + (1 if is_bits else 1.0)
    remote = torch.from_numpy(x).to(there.device) if kind == "tensor" else np.asarray(x)
    sojourn.flush()
    before = sojourn.counters()["reads"]
    for left, right, a, b in ((remote, y, x, y), (y, remote, y, x)):
        if sign in ("<<", ">>") and a is y:
            continue  # by negative numbers of bits
        found = eval(f"left {sign} right")
        assert isinstance(found, torch.Tensor if kind == "tensor" else np.ndarray) and found.device == there.device
        with numpy.errstate(all="ignore"):
            expected = eval(f"a {sign} b")
        assert sojourn.counters()["reads"] == before, "a value was read"
        value = numpy.asarray(found)
        before = sojourn.counters()["reads"]
        assert not difference(value, expected)


def test_functions_of_numpy_record(rng, there):
    x = draw(rng, "float64", (4, 3))
    remote = torch.from_numpy(x).to(there.device)
    calls = [
        lambda v: numpy.exp(v), lambda v: numpy.mean(v, axis=0), lambda v: numpy.concatenate([v, v]),
        lambda v: numpy.add(v, numpy.ones(3)), lambda v: numpy.linalg.norm(v), lambda v: numpy.where(v > 0, v, 0.0),
        lambda v: numpy.add.reduce(v), lambda v: numpy.std(v), lambda v: numpy.sort(v, axis=1),
        lambda v: numpy.einsum("ij,kj->ik", v, v), lambda v: numpy.fft.fft(v), lambda v: numpy.modf(v),
    ]  # fmt: skip
    sojourn.flush()
    before = sojourn.counters()["reads"]
    made = [(call(remote), call(np.asarray(remote)), call(x)) for call in calls]
    assert sojourn.counters()["reads"] == before, "a value was read"
    for tensors, arrays, expected in made:
        first = tensors[0] if isinstance(tensors, tuple) else tensors
        assert isinstance(first, torch.Tensor) and first.device == there.device
        assert isinstance(arrays[0] if isinstance(arrays, tuple) else arrays, np.ndarray)
        assert not difference(host(arrays), expected)
        assert not difference([each.cpu().numpy() for each in tensors] if isinstance(tensors, tuple) else tensors.cpu().numpy(),
                              expected)  # fmt: skip


def test_a_function_that_is_missing_reads_nothing(there):
    x = torch.ones(3).to(there.device)
    with pytest.raises(TypeError, match=r"numpy.savetxt is not part of sojourn.numpy, and nothing was read"):
        numpy.savetxt("nothing.txt", x)
    with pytest.raises(TypeError, match=r"isnat is not part of sojourn.numpy"):
        numpy.isnat(x)


def test_a_tensor_with_a_graph_is_refused(there):
    x = torch.ones(3, requires_grad=True, device=there.device)
    with pytest.raises(RuntimeError, match="requires grad"):
        numpy.exp(x)
    with pytest.raises(RuntimeError, match="requires grad"):
        np.asarray(x)
    for write in (
        lambda: np.add(x.detach(), 1.0, out=x),
        lambda: np.add.at(x, [0], 1.0),
        lambda: np.cumsum(x.detach(), out=x),
    ):
        with pytest.raises(RuntimeError, match="requires grad"):
            write()
    assert x.tolist() == [1.0, 1.0, 1.0]
    assert np.asarray(x.detach()).shape == (3,)


def test_the_namespace_is_the_array_apis(there):
    x = torch.ones(3).to(there.device)
    assert x.__array_namespace__() is np and np.asarray(x).__array_namespace__(api_version="2024.12") is np
    assert not hasattr(torch.ones(3), "__array_namespace__")
    with pytest.raises(ValueError, match="array API version"):
        np.asarray(x).__array_namespace__(api_version="1999.1")


def test_memory_is_shared_both_ways(there):
    tensor = torch.zeros(3).to(there.device)
    array = np.asarray(tensor)
    array += 1.0
    array.tensor.mul_(2.0)
    assert tensor.tolist() == [2.0, 2.0, 2.0]


def test_constants_are_sent_once(rng, there):
    x, c = draw(rng, "float64", (1000,)), draw(rng, "float64", (1000,))

    @sojourn.step
    def scaled(a):
        return a * c

    def sent_by(function) -> int:
        before = sojourn.counters()["bytes_up"]
        found = function()
        sojourn.flush()
        grown = sojourn.counters()["bytes_up"] - before
        assert not difference(numpy.asarray(found), x * c)
        return grown

    remote = np.asarray(x)
    sojourn.flush()
    sizes = [sent_by(lambda: scaled(remote)) for _ in range(4)]
    assert sizes[0] > c.nbytes and max(sizes[1:]) < c.nbytes, sizes
    c[3] = 17.0  # other values are sent again
    sizes = [sent_by(lambda: scaled(remote)) for _ in range(3)]
    assert sizes[0] > c.nbytes and sizes[2] < c.nbytes, sizes


HOST_ARRAYS = {
    "as it is": lambda c: c, "a slice": lambda c: c[1:], "backwards": lambda c: c[::-1], "every second": lambda c: c[::2],
    "transposed": lambda c: c.reshape(2, 3).T, "big-endian": lambda c: c.astype(">f8"), "integers": lambda c: c.astype(int),
    "read only": lambda c: numpy.broadcast_to(c, (2, 6)), "one number": lambda c: c[:1].reshape(()),
}  # fmt: skip
USES = {
    "multiplied": lambda a, c: a * c, "from the left": lambda a, c: c * a, "by name": lambda a, c: np.multiply(a, c),
    "in a list": lambda a, c: np.stack([np.sum(a * c), np.asarray(c).sum()]), "computed first": lambda a, c: a * (c * 2),
    "a tensor": lambda a, c: a * np.asarray(torch.tensor(c.tolist(), dtype=torch.float64, device=a.device)),
    "torch's": lambda a, c: a * np.asarray(torch.from_numpy(c.astype(float)).to(a.device)),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.* is traced, not replayed")
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("made", HOST_ARRAYS)
def test_a_replay_takes_the_array_as_it_is(rng, there, made, use):
    """The array is a variable of the surrounding function, and changes between calls."""
    memory = draw(rng, "float64", (6,))
    c = HOST_ARRAYS[made](memory)
    x = draw(rng, "float64", c.shape)
    is_view = numpy.shares_memory(c, memory)

    @sojourn.step(replay=True)
    def step(a):
        return USES[use](a, c)

    remote = np.asarray(x)
    host = USES[use] if use not in ("in a list", "a tensor", "torch's") else None

    def expected():
        if use == "in a list":
            return numpy.stack([numpy.sum(x * c), c.sum()])
        return host(x, c) if host is not None else x * c

    assert not difference(numpy.asarray(remote * c), x * c)  # sent once, outside of the step
    for at in range(14):
        if at in (5, 6, 10):
            (memory if is_view else c)[...] += 1
        assert not difference(numpy.asarray(step(remote)), expected()), at
    assert step.replayed >= 3, step.explain()


@pytest.mark.parametrize("made", HOST_ARRAYS)
def test_a_replay_takes_an_attribute_as_it_is(rng, there, made):
    """An array that the function does not name, uploaded as it is or through a copy."""
    memory = draw(rng, "float64", (6,))
    holder = types.SimpleNamespace(c=HOST_ARRAYS[made](memory))
    x = draw(rng, "float64", holder.c.shape)
    remote = np.asarray(x)
    step = sojourn.step(replay=True)(lambda a: a * holder.c)
    assert not difference(numpy.asarray(remote * holder.c), x * holder.c)  # sent once, outside of the step
    for at in range(12):
        if at in (5, 8):
            (memory if numpy.shares_memory(holder.c, memory) else holder.c)[...] += 1
        assert not difference(numpy.asarray(step(remote)), x * holder.c), at
    assert step.replayed >= 3, step.explain()


def test_a_number_of_an_array_is_pythons(rng, there):
    """As any other number that changes without being an argument."""
    c = draw(rng, "float64", (3,))
    step = sojourn.step(replay=True)(lambda a: a * float(c.sum()))
    remote = np.asarray(draw(rng, "float64", (3,)))
    for _ in range(4):
        assert not difference(numpy.asarray(step(remote)), numpy.asarray(remote) * c.sum())
    c += 1
    with pytest.raises(sojourn.Unsupported, match="pass it as a float argument"):
        step(remote)


def test_a_large_array_around_a_step(rng, there):
    """Comparing it would take longer than a call."""
    c = numpy.zeros((80 << 20) // 8)
    remote = np.asarray(draw(rng, "float64", (3,)))
    step = sojourn.step(replay=True)(lambda a: a * c[:1])
    with pytest.warns(UserWarning, match="an array of 80 MB"):
        for at in range(4):
            c[0] = at
            assert not difference(numpy.asarray(step(remote)), numpy.asarray(remote) * at)
    assert step.replayed == 0
