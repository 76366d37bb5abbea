# SPDX-License-Identifier: Apache-2.0
"""Every phase of a captured training step, replayed op by op on eager torch, gives one result.

Both runtimes share the passes, so neither can find a pass that is wrong; this can.
"""

import pytest
import torch
from oracle.ir import parse
from oracle.replay import Replay
from phase_models import MODELS, PAIRS, texts_of

PHASES = ["captured", "functional", "promoted", "decomposed", "core"]


def random_inputs(function, rows, classes, vocabulary):
    """Values that a training step may meet: positive second moments, class numbers in range."""
    values = []
    for _, type_, _kind in function.arguments:
        if type_.kind == "scalar":
            values.append(float(torch.rand(()) * 0.5 + 0.25))
        elif type_.dtype.is_floating_point:
            values.append(torch.rand(type_.shape, dtype=type_.dtype) + 0.1)
        else:
            limit = classes if type_.shape == (rows,) else vocabulary
            values.append(torch.randint(0, limit, type_.shape, dtype=type_.dtype))
    return values


@pytest.mark.parametrize(("name", "optimizer"), PAIRS)
def test_each_phase_computes_what_the_trace_computes(name, optimizer):
    seed = torch.seed() % 2**31
    print("seed", seed)
    torch.manual_seed(seed)
    make, data = MODELS[name]
    x = data(int(torch.randint(2, 6, ())))
    rows = len(x)
    y = torch.randint(0, 3, (rows,))
    texts = texts_of(make().double(), optimizer, x, y)
    assert list(texts) == PHASES

    captured = parse(texts["captured"])
    inputs = random_inputs(captured, rows, 3, 4 if name == "aliases" else 7)
    replay = Replay(captured, inputs)
    expected = replay.run()
    written = [value for (_, _, kind), value in zip(captured.arguments, replay.env.values()) if kind == "state"]
    for phase in PHASES[1:]:
        function = parse(texts[phase])
        results = Replay(function, inputs).run()
        assert len(results) >= len(expected)
        for result, reference, attributes in zip(results, expected, function.results):
            assert attributes["sojourn.result"] in ("keep", "publish")
            torch.testing.assert_close(result, reference, rtol=1e-9, atol=1e-11, msg=lambda m: f"{phase}: {m}")
        commits = 0
        for result, attributes in zip(results, function.results):
            if attributes["sojourn.result"] == "commit":
                commits += 1
                torch.testing.assert_close(
                    result, written[attributes["sojourn.target"]], rtol=1e-9, atol=1e-11, msg=lambda m: f"{phase}: {m}"
                )
        assert commits > 0
