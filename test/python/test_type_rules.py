# SPDX-License-Identifier: Apache-2.0
"""One rule set gives results their types: the recorder by it, and promotion finds the same for a trace without types.

The oracle of the recorder is eager torch; that of the pass is the recorder, whose results were compared with eager.
"""

import subprocess

import pytest
import torch
from phase_models import MODELS, OPTIMIZERS, texts_of

import _sojourn
import sojourn


def opt(text, *options):
    done = subprocess.run(["sojourn-opt", *options], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("optimizer", list(OPTIMIZERS))
@pytest.mark.parametrize("model", list(MODELS))
def test_steps_without_types_become_the_same_programs(model, optimizer):
    make, inputs = MODELS[model]
    torch.manual_seed(torch.seed())
    captured = texts_of(make().double(), optimizer, inputs(4), torch.randint(0, 3, (4,)))["captured"]
    untyped = opt(captured, "--sojourn-forget-types")
    assert "!sojourn.unresolved" in untyped
    assert opt(untyped, "--sojourn-to-core") == opt(captured, "--sojourn-to-core")


MIXED = {
    "integers": (torch.int32, torch.int64),
    "bytes": (torch.uint8, torch.int8),
    "flags": (torch.bool, torch.int16),
    "halves": (torch.float16, torch.bfloat16),
    "floats": (torch.float32, torch.float64),
    "integer and float": (torch.int64, torch.float16),
}
CALLS = {
    "add": lambda a, b: a + b,
    "quotient": lambda a, b: a / (b + 2),
    "floor": lambda a, b: torch.div(a, b + 2, rounding_mode="floor"),
    "less": lambda a, b: a < b,
    "both": torch.logical_and,
    "where": lambda a, b: torch.where(a > b, a, b),
    "cat": lambda a, b: torch.cat([a, b]),
    "sum": lambda a, b: (a.sum(), b.sum(0), a.any(), b.all()),
    "scan": lambda a, b: (a.cumsum(0), b.cumprod(0)),
    "extremes": lambda a, b: (*a.max(0), b.argmin(0), *b.sort(0)),
    "number": lambda a, b: (a * 2, b * 2.5, a + True),
    "zero_dim": lambda a, b: (a + b[0, 0], a[0, 0] * b),
    "exp": lambda a, b: (torch.exp(a), torch.sigmoid(b), torch.sqrt(a.abs() if a.dtype != torch.bool else a)),
    "factories": lambda a, b: (
        torch.zeros_like(a),
        torch.full((2,), 3, device=a.device),
        torch.full((2,), 1.5, device=a.device),
        torch.arange(4, device=a.device),
        torch.arange(0, 1, 0.25, device=a.device),
        torch.ones(3, device=a.device),
    ),
    "count": lambda a, b: (a.count_nonzero(0), torch.isnan(b)),
}


def flat(value):
    return list(value) if isinstance(value, tuple) else [value]


@pytest.mark.parametrize("default", [torch.float32, torch.float64, torch.float16], ids=str)
@pytest.mark.parametrize("call", list(CALLS))
@pytest.mark.parametrize("types", list(MIXED))
def test_recorded_types_are_eager_s_and_are_found_again(types, call, default):
    a, b = (torch.randint(0, 2, (4, 3)).to(dtype) for dtype in MIXED[types])
    before = torch.get_default_dtype()
    texts = {}
    with sojourn.local() as owner:
        try:
            torch.set_default_dtype(default)
            try:
                expected = flat(CALLS[call](a, b))
            except (RuntimeError, NotImplementedError) as error:
                with pytest.raises(type(error)):
                    CALLS[call](a.to(owner.device), b.to(owner.device))
                return
            remote = a.to(owner.device), b.to(owner.device)
            _sojourn.set_phase_listener(texts.__setitem__)
            with sojourn.step():
                results = flat(CALLS[call](*remote))
                assert [r.dtype for r in results] == [e.dtype for e in expected]
                values = [sojourn.publish(r) for r in results]
        finally:
            _sojourn.set_phase_listener(None)
            torch.set_default_dtype(before)
        for value, wanted in zip(values, expected):
            torch.testing.assert_close(value.value, wanted, equal_nan=True)
    untyped = opt(texts["captured"], "--sojourn-forget-types")
    assert opt(untyped, "--sojourn-to-core") == opt(texts["captured"], "--sojourn-to-core")


def test_default_dtype_is_part_of_a_trace_and_of_no_program():
    texts = {}

    def listen(phase, text):
        texts.setdefault(phase, []).append(text)

    before = torch.get_default_dtype()
    with sojourn.local() as owner:
        x = torch.arange(5).to(owner.device)
        _sojourn.set_phase_listener(listen)
        try:
            with sojourn.step():
                first = sojourn.publish(x / 2)
                torch.set_default_dtype(torch.float64)
                second = sojourn.publish(x / 2)
                third = sojourn.publish(torch.ones(3, device=owner.device))
            torch.set_default_dtype(before)
            with sojourn.step():
                sojourn.publish(x / 2)
                sojourn.publish(x / 2)
                sojourn.publish(torch.ones(3, device=owner.device))
        finally:
            _sojourn.set_phase_listener(None)
            torch.set_default_dtype(before)
        assert first.value.dtype == torch.float32
        assert second.value.dtype == third.value.dtype == torch.float64
        torch.testing.assert_close(second.value, torch.arange(5) / torch.tensor(2.0, dtype=torch.float64))
    # The second step is another program, though its ops are the same.
    assert len(texts["captured"]) == 2
    assert "sojourn.default_float = f32" in texts["captured"][0]
    assert "sojourn.default_float = f64" in texts["captured"][0]
    assert "sojourn.default_float = f64" not in texts["captured"][1]
    assert all("default_float" not in text for text in texts["core"])
