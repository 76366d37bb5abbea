# SPDX-License-Identifier: Apache-2.0
"""What one row moves in front of the noise, against the sensitivity that the rewrite reports; `tools/rules` tries more."""

import os
import pathlib
import random

import clip_programs
import pytest
from clip_check import WAYS, ClipCheck, clip_counterexample, clip_summary
from rule_programs import Tools

PROGRAMS = 12  # of each way
OPT = os.environ.get("SOJOURN_OPT")  # another build, with a rule that is broken on purpose


def tools():
    return Tools(opt=pathlib.Path(OPT)) if OPT else Tools()


@pytest.mark.slow
def test_no_row_moves_more_than_is_reported(seed):
    """Programs of each way; SOJOURN_TEST_SEED repeats them."""
    report = ClipCheck(seed, tools()).run(PROGRAMS)
    print(clip_summary(report))
    assert not report.broken, "\n\n".join(map(clip_counterexample, report.broken[:3]))
    assert min(report.pairs.values()) >= 4 * PROGRAMS, clip_summary(report)


def test_half_of_what_is_reported_is_too_little():
    """Rows do move a sum as far as is claimed, so the check can fail."""
    report = ClipCheck(1, tools(), claim=0.5).run(2)
    assert {each.way for each in report.broken} == set(WAYS), clip_summary(report)
    assert "func.func @step" in clip_counterexample(report.broken[0])


def test_programs_hold_every_kind_of_op(rng):
    """Cuts of the four forms, and layouts of rows and of sums."""
    text = ""
    for bounded in (False, True):
        steps = [clip_programs.write(random.Random(rng.random()), bounded) for _ in range(150)]
        text += "".join(step.text for step in steps if step)
    wanted = (
        "reduce_sum dot put conv_grad_weight reshape transpose slice pad concat broadcast convert neg add sub tanh exp"
    )
    assert not [op for op in wanted.split() if f"sojourn.{op} " not in text]
