# SPDX-License-Identifier: Apache-2.0
"""The names of the namespace beside NumPy's: how many are there, and what their signatures are."""

import inspect
import pathlib
import subprocess
import sys

import numpy
import pytest

import sojourn.numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))
import numpy_names  # noqa: E402

AIM = 0.9


@pytest.mark.parametrize("space", list(numpy_names.SPACES))
def test_nine_of_ten_names_are_there(space):
    there, total = numpy_names.coverage(space)
    missing = [name for name, state in numpy_names.states(space).items() if state == "missing"]
    assert there >= AIM * total, missing


def test_the_page_lists_every_name():
    page = subprocess.run(
        [sys.executable, ROOT / "tools/numpy_names.py"], capture_output=True, text=True, check=True
    ).stdout
    for space in numpy_names.SPACES:
        for name in numpy_names.states(space):
            assert f"`{name}`" in page, name


def test_names_left_out_are_names_of_numpys():
    assert set(np._names.LEFT_OUT) <= set(numpy.__all__)
    assert not set(np._names.LEFT_OUT) & np._names.NUMPYS


def _parameters(function) -> list[str] | None:
    try:
        return [
            name for name, each in inspect.signature(function).parameters.items()
            if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
        ]  # fmt: skip
    except (TypeError, ValueError):
        return None


def test_functions_take_numpys_arguments():
    """All of NumPy's parameters are there, by name, in NumPy's order where they are positional."""
    differing = {}
    for name, state in numpy_names.states("numpy").items():
        ours, theirs = getattr(np, name, None), getattr(numpy, name)
        if state != "own" or isinstance(theirs, (numpy.ufunc, type)) or not callable(theirs) or inspect.isclass(ours):
            continue
        expected, found = _parameters(theirs), _parameters(ours)
        if expected is None or found is None:
            continue
        lacking = [each for each in expected if each not in found and each not in ("a1", "a2")]
        if lacking:
            differing[name] = lacking
    assert not differing, differing


def test_every_method_of_numpys_array_is_there_or_says_why_not():
    absent = [name for name in dir(numpy.ndarray) if not name.startswith("__") and not hasattr(np.ndarray, name)]
    assert absent == []
    x = np.asarray([1.0, 2.0])
    for name in np._methods._NO_MEMORY:
        with pytest.raises(AttributeError, match=f"a remote array has no {name}: "):
            getattr(x, name)
