# SPDX-License-Identifier: Apache-2.0
"""x[key], x[key] = value and np.add.at beside NumPy."""

import warnings

import numpy
import pytest
import torch
from arrays_support import DTYPES, difference, draw

import sojourn
import sojourn.numpy as np
from sojourn.numpy import _indexing as indexing

pytestmark = pytest.mark.filterwarnings("ignore")
HOST = numpy.arange(60.0).reshape(3, 4, 5)
ARRAY = numpy.array
EVEN = HOST % 2 == 0
KEYS = [
    0, -1, numpy.int8(2), slice(1, None), slice(None, None, -1), slice(5, 2), (slice(None), slice(3, 0, -2)), ..., None,
    (None, 0), (..., 0), (), (0, 0, 0), (0, slice(None), slice(None, None, -2)), (slice(None), 0, slice(None, None, -1)),
    [0, 2], [-1, 0], [], ARRAY([], int), ARRAY([[0, -3], [1, 2]]), ARRAY(1), ARRAY([1, 2], "uint8"), ARRAY([-1], "int16"),
    (0, slice(None), [1, 2]), ([0, 1], ..., [1, 2]), ([0, 1], [1, 2]), (slice(None), [0, 1], ..., [1, 2]),
    (slice(None), [0, 1], None, [1, 2]), ([0, 1], None, [1, 2]), (slice(None, None, -1), [0, 1], 0), (0, [1, 2]),
    (slice(None), 0, [1, 2]), (ARRAY(1), slice(None), [1, 2]), (0, slice(None), ARRAY(2)), (ARRAY([[0], [1]]), ARRAY([1, 2, 3])),
    (slice(None), slice(None, None, -1), [0, 1]), (slice(2, 0, -1), [0, 1]), (..., None, [1, 2]), (slice(None), [0, 1], [0, 1]),
    EVEN, EVEN[:, :, 0], EVEN[:, 0, 0], (slice(None), EVEN[1]), (slice(None), EVEN[0], ...), (EVEN[:, 0, 0], 0),
    ([True, False, True], slice(None, None, -2)), ([True, False, True], slice(None), [0, 4]), (EVEN[:, 0, 0], slice(None), [1]),
    (slice(None, None, -1), EVEN[0]), (slice(None, None, -1), 0, EVEN[0, 0]), (slice(None), 0, slice(None, None, -1), None),
    True, False, (True, [0, 1]), (slice(None), True), ARRAY(True), ARRAY(False), EVEN & False, (EVEN & False)[0, 0, :3],
]  # fmt: skip
WRONG = [
    5, -4, (0, 0, 0, 0), (0, 9), [5], (slice(None), [-5]), 1.0, "a", ARRAY([1.5]), (slice(None), EVEN[:, 0, 0]), (..., ...),
    ([0, 1], [0, 1, 2]), (0, 0, 0, EVEN[0, 0]), [0.5], {}, (EVEN, 0),
]  # fmt: skip


def remote_key(key):
    if isinstance(key, tuple):
        return tuple(map(remote_key, key))
    return np.asarray(key) if isinstance(key, numpy.ndarray) else key


def outcome(function):
    try:
        return function()
    except Exception as error:
        return error


def assert_got(value, key):
    expected = value[key]
    for each in (key, remote_key(key)):
        problem = difference(np.asarray(value)[each], expected)
        assert not problem, f"{value.shape} {each}: {problem}"


def assert_written(value, key, written):
    """With the key and the value at the host and at the owner."""
    expected = value.copy()
    expected[key] = written
    summed = value.copy()
    adds = numpy.ndim(written) <= value[key].ndim
    if adds:
        numpy.add.at(summed, key, written)
    for each in (key, remote_key(key)):
        for content in (written, remote_key(written)):
            array = np.asarray(value)
            array = array.copy()
            array[each] = content
            problem = difference(array, expected)
            assert not problem, f"{value.shape} {each} = {written!r}: {problem}"
            if not adds:
                continue
            array = np.asarray(value).copy()
            indexing.accumulate(array, each, content)
            problem = difference(array, summed)
            assert not problem, f"{value.shape} {each} += {written!r}: {problem}"


def values_for(rng, shape):
    """A number, and arrays that are broadcast to the shape."""
    yield 2.5
    for size in (shape, shape[1:], (1, *shape), tuple(1 if rng.random() < 0.5 else n for n in shape)):
        yield rng.normal(size=size)


@pytest.mark.parametrize("k", range(len(KEYS)))
def test_keys(k, rng):
    key = KEYS[k]
    assert_got(HOST, key)
    for value in values_for(rng, HOST[key].shape):
        try:
            HOST.copy()[key] = value
        except (TypeError, ValueError):
            continue
        assert_written(HOST, key, value)


@pytest.mark.parametrize("k", range(len(WRONG)))
def test_errors(k):
    expected = outcome(lambda: HOST[WRONG[k]])
    assert isinstance(expected, IndexError)
    for key in (WRONG[k], remote_key(WRONG[k])):
        found = outcome(lambda: np.asarray(HOST)[key])
        assert type(found) is type(expected) and str(found) == str(expected)
        found = outcome(lambda: np.asarray(HOST).__setitem__(key, 1))
        assert type(found) is type(expected)


@pytest.mark.parametrize(
    "key, value",
    [
        (0, numpy.ones(3)), (slice(0, 2), numpy.ones((3, 4, 5))), ([0, 1], numpy.ones(3)), ((0, 0, 0), numpy.ones(2)),
        ((0, 0, 0), [1.0]), (EVEN, numpy.ones(7)), (EVEN, numpy.ones((1, 2))), (None, numpy.ones((1, 3, 4, 5, 2))),
        ((slice(None), EVEN[0]), numpy.ones(7)), (EVEN[:, 0, 0], numpy.ones((2, 3, 5))), (ARRAY(1), numpy.ones(4)),
        (..., "text"), (..., 1j), (..., [[1.0], [1.0, 2.0]]), (slice(2, 0, -1), numpy.ones((3, 4, 5))),
    ],
)  # fmt: skip
def test_errors_of_values(key, value):
    expected = outcome(lambda: HOST.copy().__setitem__(key, value))
    assert isinstance(expected, (TypeError, ValueError))
    found = outcome(lambda: np.asarray(HOST).__setitem__(key, value))
    assert type(found) is type(expected) and str(found) == str(expected)
    found = outcome(lambda: np.asarray(HOST).__setitem__(key, remote_key(value)))
    assert isinstance(found, (TypeError, ValueError)) or not isinstance(value, numpy.ndarray)


def test_masks_at_the_owner_with_too_long_values():
    """The number of ones is not read."""
    array = np.asarray(numpy.zeros(4))
    array[np.asarray([True, False, True, True])] = numpy.arange(1.0, 6.0)
    assert array.tolist() == [1, 0, 2, 3]


def random_key(rng, shape):
    key: list = []
    axis = 0
    while axis < len(shape):
        n = shape[axis]
        kind = rng.choice(["int", "slice", "new", "array", "mask", "dots", "stop", "0-d", "wide"])
        if kind == "stop":
            break
        if kind == "new":
            key.append(None)
            continue
        if kind == "dots":
            if any(each is Ellipsis for each in key):
                continue
            key.append(...)
            axis = int(rng.integers(axis, len(shape) + 1))
            continue
        if kind == "slice" or n == 0:
            start, stop = (None if rng.random() < 0.4 else int(rng.integers(-n - 2, n + 3)) for _ in range(2))
            step = None if rng.random() < 0.4 else int(rng.choice([-3, -2, -1, 1, 2, 3]))
            key.append(slice(start, stop, step))
        elif kind == "int":
            key.append(int(rng.integers(-n, n)))
        elif kind == "0-d":
            key.append(numpy.array(rng.integers(-n, n)))
        elif kind == "array":
            key.append(rng.integers(-n, n, 2))
        elif kind == "wide":
            key.append(rng.integers(-n, n, (2, 1)))
        else:
            mask = numpy.zeros(n, bool)
            mask[rng.permutation(n)[:2]] = True
            key.append(mask)
        axis += 1
    return tuple(key)


def distinct(key, shape):
    """Whether a key names every place once."""
    counts = numpy.zeros(shape)
    numpy.add.at(counts, key, 1)
    return counts.max(initial=0) <= 1


def test_random_keys(rng):
    done = 0
    while done < 60:
        shape = tuple(int(n) for n in rng.choice([1, 2, 3, 4, 5], rng.integers(1, 5)))
        value = rng.normal(size=shape)
        key = random_key(rng, shape)
        try:
            expected = value[key]
        except IndexError as error:
            found = outcome(lambda: np.asarray(value)[key])
            assert isinstance(found, IndexError), (shape, key, error, found)
            continue
        done += 1
        assert_got(value, key)
        if not distinct(key, shape):
            continue
        for written in (1.5, rng.normal(size=expected.shape), rng.normal(size=expected.shape[1:])):
            try:
                value.copy()[key] = written
            except (TypeError, ValueError):
                continue
            assert_written(value, key, written)


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype, rng):
    value = draw(rng, dtype, (4, 3))
    for key in (1, (slice(None), -1), [2, 0], value != 0, (slice(None, None, -1), [1])):
        assert_got(value, key)
        for other in DTYPES:
            written = draw(rng, other, value[key].shape)
            if dtype == "uint8" and written.dtype.kind in "fc":
                written = abs(written)  # what negative floats become as unsigned integers depends on the machine
            array, expected = np.asarray(value).copy(), value.copy()
            expected[key] = written
            array[remote_key(key)] = np.asarray(written)
            assert not difference(array, expected), (dtype, other, key)
            array[key] = written
            assert not difference(array, expected), (dtype, other, key)
    for number in (True, 3, -1, 300, 2.5, numpy.nan, 1j, numpy.float32(1.5), numpy.int64(300), numpy.complex64(1j)):
        for key in ((0, 0), 1, [0, 1], value != 0):
            expected, array = value.copy(), np.asarray(value).copy()
            error = outcome(lambda: expected.__setitem__(key, number))
            found = outcome(lambda: array.__setitem__(key, number))
            assert type(found) is type(error) and str(found) == str(error), (dtype, number, key)
            assert not difference(array, expected), (dtype, number, key)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "float32", "complex64"])
def test_accumulate(dtype, rng):
    value = draw(rng, dtype, (5, 2))
    index = rng.integers(-5, 5, 20)
    for written in (draw(rng, dtype, (20, 2)), draw(rng, dtype, (2,)), draw(rng, dtype, ())):
        expected, array = value.copy(), np.asarray(value).copy()
        numpy.add.at(expected, index, written)
        np.add.at(array, np.asarray(index), np.asarray(written))
        assert not difference(array, expected)


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (3, 0), (1,)])
def test_small_shapes(shape, rng):
    value = rng.normal(size=shape)
    for key in (
        (),
        ...,
        None,
        slice(None),
        slice(None, None, -1),
        [],
        numpy.array([], int),
        value > 0,
        True,
        (..., None),
    ):
        expected = outcome(lambda: value[key])
        if isinstance(expected, Exception):
            assert isinstance(outcome(lambda: np.asarray(value)[key]), type(expected))
            continue
        assert_got(value, key)
        assert_written(value, key, 2.5)


def test_views_and_copies():
    array = np.asarray(numpy.zeros((3, 4)))
    array[1][2] = 5
    array[:, 1][...] = 2
    array[::2].fill(1)
    array[[0]][:] = 9
    array[::-1][0] = 9  # a copy, unlike NumPy's view
    assert array.tolist() == [[1, 1, 1, 1], [0, 2, 5, 0], [1, 1, 1, 1]]
    same = array[...]
    same[0, 0] = 7
    assert float(array[0, 0]) == 7


def test_overlaps(rng):
    value = rng.normal(size=(4, 3))
    array = np.asarray(value).copy()
    for left, right in ((slice(1, None), slice(None, -1)), ([1, 2], slice(0, 2)), (slice(None), slice(None, None, -1))):
        value[left] = value[right].copy()
        array[left] = array[right]
        assert not difference(array, value)
    array[:] = array.T[:, :1].T[0, 0]
    assert not difference(array, numpy.full((4, 3), value[0, 0]))


def test_torch_keys_and_values():
    array = np.asarray(numpy.arange(12.0)).reshape(3, 4)
    index = torch.tensor([2, 0])
    assert array[index].tolist() == array[index.to(array.device)].tolist() == [[8, 9, 10, 11], [0, 1, 2, 3]]
    assert array[[np.asarray(2), 0]].tolist() == [[8, 9, 10, 11], [0, 1, 2, 3]]
    array[0] = torch.ones(4)
    array[1] = torch.zeros(4).to(array.device)
    array[2] = [np.asarray(3.0), 1, 2, np.asarray(4)]
    assert array.tolist() == [[1, 1, 1, 1], [0, 0, 0, 0], [3, 1, 2, 4]]


def test_in_a_step(rng):
    value = rng.normal(size=(4, 5))
    index, mask, row = rng.integers(-4, 4, 3), value > 0, value[0] > 0

    def body(x, index, mask, row, add):
        a = x[1:, ::-2]
        b = x[index, None, :3]
        c = x.copy()
        c[mask] = 0
        c[:, row] = 1.5
        c[index, 1] = 7
        add(c, index, 1)
        c[0, ::-1] = x[1]
        c[mask] += 2 * x[0, 0]
        return a, b, c

    @sojourn.step
    def step(x, index, mask, row):
        return body(x, index, mask, row, np.add.at)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = step(*map(np.asarray, (value, index, mask, row)))
    expected = body(value, index, mask, row, numpy.add.at)
    assert not difference(list(found), list(expected))
