# SPDX-License-Identifier: Apache-2.0
"""A quick part of the sweep over op_db: two samples of each entry at the native owner. tools/sweep.py does all."""

import pytest
import sweep_reviewed_support
import sweep_support
import torch
from remote_support import shared_owner

ENTRIES = sweep_support.entries()
PARTS = ("forward", "gradient")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name, op in ENTRIES.items() if torch.float32 in op.supported_dtypes("cpu")])
def test_entry(name):
    found = sweep_support.Sweep(shared_owner(), 2, PARTS).entry(ENTRIES[name], torch.float32)
    if name in sweep_reviewed_support.OPEN:
        assert set(found["forward"]) <= {"refused", "pass"} and "refused" in found["forward"], found
        return
    for part in PARTS:
        outcomes = set(found.get(part, {})) - {"pass"}
        if sweep_reviewed_support.reason(name, part):
            outcomes -= {"refused", "late", "other error"}
        assert not outcomes, found["notes"]
