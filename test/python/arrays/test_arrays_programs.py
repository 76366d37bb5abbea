# SPDX-License-Identifier: Apache-2.0
"""What steps of sojourn.numpy are recorded as: rules in the module and in ops, and programs of both runtimes."""

import subprocess

import numpy
import pytest
import torch
from arrays_support import DTYPES, difference, draw, host

import _sojourn
import sojourn
import sojourn.numpy as np


def _opt(text: str, *options: str) -> str:
    done = subprocess.run(["sojourn-opt", *options], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def _texts(function, *arguments) -> tuple[dict[str, str], list]:
    texts: dict[str, str] = {}
    _sojourn.set_phase_listener(lambda phase, text: texts.setdefault(phase, text))
    try:
        with sojourn.step():
            made = function(*arguments)
            values = [sojourn.publish(each) for each in made]
    finally:
        _sojourn.set_phase_listener(None)
    return texts, [value.value for value in values]


CALLS = {
    "arithmetic": lambda a, b: (a + b, a * 2, b * 2.5, np.subtract(3, b)),
    "quotient": lambda a, b: (a / (b + 2), np.exp(a), np.sqrt(np.abs(b))),
    "comparison": lambda a, b: (a < b, np.equal(a, b), np.maximum(a, b)),
}


@pytest.mark.parametrize("call", list(CALLS))
@pytest.mark.parametrize("types", [(a, b) for a in DTYPES[1:9] for b in ("int8", "int64", "float16", "float32")])
def test_steps_without_types_become_the_same_programs(call, types, rng):
    """The promotion pass completes a trace whose results have no type, by the rules that the module names."""
    a, b = (numpy.abs(draw(rng, dtype, (3,))) + numpy.dtype(dtype).type(1) for dtype in types)
    texts, values = _texts(CALLS[call], np.asarray(a), np.asarray(b))
    with numpy.errstate(all="ignore"):
        expected = [getattr(each, "tensor", each) for each in map(numpy.asarray, _on_host(call, a, b))]
    assert not difference([numpy.asarray(value) for value in values], expected)
    assert 'sojourn.promotion = "numpy"' in texts["captured"]
    untyped = _opt(texts["captured"], "--sojourn-forget-types")
    assert "!sojourn.unresolved" in untyped
    assert _opt(untyped, "--sojourn-to-core") == _opt(texts["captured"], "--sojourn-to-core")


def _on_host(call: str, a, b):
    return {
        "arithmetic": lambda: (a + b, a * 2, b * 2.5, numpy.subtract(3, b)),
        "quotient": lambda: (a / (b + 2), numpy.exp(a), numpy.sqrt(numpy.abs(b))),
        "comparison": lambda: (a < b, numpy.equal(a, b), numpy.maximum(a, b)),
    }[call]()


@pytest.mark.parametrize("first", ["numpy", "torch"])
def test_rules_of_both_meet_in_one_step(first, there):
    i = torch.tensor([1, 2, 3], dtype=torch.int32).to(there.device)
    x = torch.tensor([0.5, 1.5, 2.5]).to(there.device)

    def both(i, x):
        ours, torchs = (lambda: np.add(np.asarray(i), x)), (lambda: i + x)
        return (ours(), torchs()) if first == "numpy" else (torchs(), ours())

    texts, values = _texts(both, i, x)
    by_first = dict(zip(("numpy", "torch") if first == "numpy" else ("torch", "numpy"), values))
    assert by_first["numpy"].dtype == torch.float64 and by_first["torch"].dtype == torch.float32
    other = "torch" if first == "numpy" else "numpy"
    captured = texts["captured"]
    assert (
        f'sojourn.promotion = "{first}"}} {{' in captured
        or f'sojourn.promotion = "{first}"' in captured.splitlines()[0]
    )
    added = [line for line in captured.splitlines() if "aten.add.Tensor" in line]
    assert [f'sojourn.promotion = "{other}"' in line for line in added] == [False, True]
    assert _opt(captured, "--sojourn-to-core") == _opt(
        _opt(captured, "--sojourn-to-core=to=functional"), "--sojourn-to-core=from=functional"
    )


def test_both_runtimes_agree(rng):
    a, b = draw(rng, "int16", (4, 3)), draw(rng, "float32", (3,))
    found = []
    for runtime in ("native", "numpy"):
        with sojourn.local(runtime=runtime) as owner, np.on(owner):

            @sojourn.step
            def run(x, y):
                z = (x * y + 1) / (np.abs(x) + 1)
                return z, np.exp(-z), z > 0.5

            found.append(host(run(np.asarray(a), np.asarray(b))))
    assert not difference(found[0], found[1])
    assert [each.dtype.name for each in found[0]] == ["float32", "float32", "bool"]


def test_torchs_default_dtype_plays_no_part():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float16)
    try:
        x = np.asarray([1, 2, 3])
        assert (x / 2).dtype == numpy.float64 and (x * 1.5).dtype == numpy.float64
    finally:
        torch.set_default_dtype(before)
