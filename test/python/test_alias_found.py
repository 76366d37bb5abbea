# SPDX-License-Identifier: Apache-2.0
"""Programs that the alias fuzzer found and shrank (alias/alias_fuzz.py): each once differed from eager torch."""

import pathlib
import sys

import pytest
from remote_support import shared_owner

sys.path.insert(0, str(pathlib.Path(__file__).parent / "alias"))
from alias_fuzz_compare import judge
from alias_fuzz_execute import Remote
from alias_fuzz_program import MODES, parse

FOUND: dict[str, str] = {}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", FOUND)
@pytest.mark.filterwarnings("ignore")
def test_found(name, mode):
    verdict = judge(parse(FOUND[name]).replace(mode=mode), Remote(shared_owner().device))
    assert verdict.kind == "same", verdict.text
