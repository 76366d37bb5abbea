# SPDX-License-Identifier: Apache-2.0
"""Methods and attributes of arrays beside those of NumPy's."""

import copy
import pickle

import numpy
import pytest
import torch
from arrays_support import DTYPES, difference, draw, host

import sojourn
import sojourn.numpy as np

CALLS = {
    "all": (), "any": (0,), "argmax": (1,), "argmin": (), "argsort": (1,), "clip": (-1, 1), "conj": (), "cumprod": (0,),
    "cumsum": (1,), "diagonal": (), "dot": (numpy.ones(4),), "max": (0,), "mean": (), "min": (1,), "prod": (0,),
    "repeat": (2,), "round": (1,), "std": (0,), "sum": (0,), "swapaxes": (0, 1), "take": ([2, 0], 1), "trace": (),
    "var": (), "argpartition": (1, 0), "squeeze": (), "flatten": (), "ravel": (), "transpose": (), "reshape": (2, 6),
    "copy": (), "tolist": (), "tobytes": (), "astype": ("float32",), "compress": ([True, False, True], 0),
    "nonzero": (),
}  # fmt: skip


@pytest.mark.parametrize("name", list(CALLS))
def test_methods(name, rng):
    x = draw(rng, "float64", (3, 4))
    found, expected = (getattr(each, name)(*CALLS[name]) for each in (np.asarray(x), x.copy()))
    if isinstance(expected, bytes):
        assert found == expected
    else:
        assert not difference(host(found), expected)


def test_searchsorted_choose_and_put(rng):
    x = numpy.sort(draw(rng, "float64", (5,)))
    assert not difference(host(np.asarray(x).searchsorted([0.0, 9.0])), x.searchsorted([0.0, 9.0]))
    picks = numpy.array([0, 1, 0])
    assert not difference(host(np.asarray(picks).choose([[1, 2, 3], [4, 5, 6]])), picks.choose([[1, 2, 3], [4, 5, 6]]))
    found, expected = np.asarray(x), x.copy()
    found.put([0, 3], [7.0, 8.0])
    expected.put([0, 3], [7.0, 8.0])
    assert not difference(host(found), expected)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_sorting_in_place(axis, rng):
    x = draw(rng, "float64", (3, 4))
    found, expected = np.asarray(x), x.copy()
    found.sort(axis)
    expected.sort(axis)
    assert not difference(host(found), expected)
    found = np.asarray(x)
    found.partition(1, axis=axis)
    assert not difference(host(np.sort(found, axis=axis)), expected)
    with pytest.raises(ValueError, match="cannot be resized in place"):
        found.resize(2, 6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 2)])
def test_attributes(dtype, shape, rng):
    x = draw(rng, dtype, shape)
    y = np.asarray(x)
    for name in ("shape", "dtype", "ndim", "size", "itemsize", "nbytes"):
        assert getattr(y, name) == getattr(x, name), name
    for name in ("T", "real", "imag"):
        assert not difference(host(getattr(y, name)), getattr(x, name))
    assert not difference(host(y.copy()), x)
    if x.ndim:
        assert len(y) == len(x) and len(list(y)) == len(x)
    else:
        for call in (len, list):
            with pytest.raises(TypeError):
                call(y)


def test_scalars(rng):
    for value in (numpy.float64(2.5), numpy.int64(3), numpy.bool_(True), numpy.complex128(1 + 2j)):
        y = np.asarray(numpy.asarray(value))
        assert y.item() == value and bool(y) == bool(value) and y.tolist() == value
        if value.dtype.kind in "fib":
            assert float(y) == float(value) and int(y) == int(value)
        assert complex(y) == complex(value) and f"{y}" == f"{value}"
    assert list(range(5))[np.asarray(3)] == 3
    for bad, kind in ((np.asarray(2.5), TypeError), (np.asarray([1]), TypeError)):
        with pytest.raises(kind):
            range(bad)
    with pytest.raises(ValueError, match="ambiguous"):
        bool(np.asarray([1, 2]))
    with pytest.raises(TypeError, match="not made by its class"):
        np.ndarray((2,))
    with pytest.raises(TypeError, match="unhashable"):
        hash(np.asarray(1))


def test_copies_and_pickles(rng):
    x = draw(rng, "float32", (3,))
    y = np.asarray(x)
    for made in (copy.copy(y), copy.deepcopy(y), pickle.loads(pickle.dumps(y))):
        assert isinstance(made, np.ndarray)
        made += 1.0
        assert not difference(host(made), x + numpy.float32(1))
    assert not difference(host(y), x)


def test_views_share_memory(rng):
    x = draw(rng, "float64", (3, 4))
    y, expected = np.asarray(x), x.copy()
    for part, reference in (
        (y[1], expected[1]),
        (y.T[2], expected.T[2]),
        (y.reshape(-1)[3:5], expected.reshape(-1)[3:5]),
    ):
        part += 10.0
        reference += 10.0
    y.real[0] = 5.0
    expected[0] = 5.0
    assert not difference(host(y), expected)
    assert not difference(host(y.view("int64")), expected.view("int64"))


def test_reprs():
    assert repr(np.asarray([1.5, 2.0])) == "array([1.5, 2. ])" and str(np.asarray([1, 2])) == "[1 2]"
    with sojourn.step():
        x = np.asarray([1.5]) * 2
        assert repr(x) == "array(<at the owner>, shape=(1,), dtype=float64)"


def test_arrays_without_a_place_name_the_owners(there):
    with sojourn.local():
        assert np.zeros(2).device == there.device  # inside `on`
        np._convert._places.devices.clear()
        with pytest.raises(sojourn.Error, match=r"owners are connected.*device=owner, or surround"):
            np.zeros(2)
        assert np.zeros(2, device=there).device == there.device
        np._convert._places.devices.append(there.device)
    with pytest.raises(TypeError, match="is no owner's"):
        np.on("cpu")
    with pytest.raises(TypeError, match="dtype uint16 is not held by owners"):
        np.asarray(numpy.zeros(2, numpy.uint16))
    with pytest.raises(TypeError, match="bfloat16 has no NumPy dtype"):
        np.asarray(torch.zeros(2, dtype=torch.bfloat16).to(there.device))
