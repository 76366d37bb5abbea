# SPDX-License-Identifier: Apache-2.0
"""The second reading of slots (passes/SlotReading.h) follows the models of the corpus and says what the analysis says."""

import re

import pytest
from corpus import ACCEPTED
from private_step import make_private
from programs import record

READ = re.compile(r"remark: slots: (\d+) values have two equal readings((?:; \d+ have one, after '\w+')*)$", re.M)


@pytest.mark.parametrize("name", ACCEPTED)
def test_every_value_is_read_twice(name):
    """Values of released results and of what is noised; a contradiction is an error, which test_accepted would see."""
    r = record(name)
    done = make_private(r.text, r.bounds)
    assert done.code == 0, done.stderr[:2000]
    ((alike, once),) = READ.findall(done.stderr)
    ops = len(re.findall(r"= sojourn\.", r.text))
    assert int(alike) > ops / 4, f"{alike} of about {ops} values"
    assert once == "", f"{name}: {once}"
