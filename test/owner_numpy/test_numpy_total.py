# SPDX-License-Identifier: Apache-2.0
"""Core ops are total: whatever the rules let through also runs, and gives what it declares.

Every op starts from a valid form; then dims, attributes, element types and operands are changed at
random. Most results are refused; no accepted one may fail in its kernel, for any values.
"""

import random

import numpy as np
import pytest
from numpy_forms import FORMS, TABLE, build, change
from numpy_oracle import values

from sojourn_numpy import OwnerError, decode, errors, run
from sojourn_numpy.datasets import make_dataset
from sojourn_numpy.types import NAMES
from sojourn_numpy.verify import RULES


def test_every_rule_has_a_form():
    assert set(FORMS) == set(RULES)


@pytest.mark.parametrize("name", sorted(FORMS))
def test_what_is_accepted_runs(rng, name):
    dice, table = random.Random(int(rng.integers(1 << 60))), make_dataset("d", {"a": np.arange(5.0), "b": np.arange(5)})
    accepted = 0
    for round_ in range(150):
        p = build(name)
        for _ in range(0 if round_ == 0 else dice.randint(1, 4)):
            change(p, dice)
        try:
            program = decode(p.encode())
        except OwnerError as error:
            assert error.code in (errors.MALFORMED, errors.LIMIT, errors.UNSUPPORTED), error.message
            assert round_ > 0, error.message
            continue
        if sum(getattr(type_, "numel", 0) for type_ in program.types) > 100_000:
            continue
        args = []
        for arg in program.args:
            args.append(table if arg.kind == "table" else values(rng, NAMES[arg.type.element], arg.type.shape))
        if any(arg.kind == "table" and arg.type != TABLE for arg in program.args):
            continue
        before = [None if arg is table else arg.copy() for arg in args]
        run(program, args)  # checks each result against its declared type
        for now, then in zip(args, before):
            assert then is None or now.tobytes() == then.tobytes(), "an operand was written"
        accepted += 1
    assert accepted >= 2
