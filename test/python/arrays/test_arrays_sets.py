# SPDX-License-Identifier: Apache-2.0
"""Arrays as sets beside NumPy's."""

import numpy
import pytest
from arrays_support import DTYPES, compare, draw

import sojourn
import sojourn.numpy as np


def drawn(rng, dtype, shape):
    """Values of which many are equal; some are NaN where the dtype has it."""
    x = numpy.round(draw(rng, dtype, shape)).astype(dtype)
    if x.dtype.kind in "fc" and x.size > 6:
        x.flat[rng.permutation(x.size)[:3]] = numpy.nan
        x.flat[0] = numpy.inf
    return x


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", ((), (1,), (30,), (4, 6), (2, 3, 4), (0,), (3, 0)))
def test_unique(rng, dtype, shape):
    x = drawn(rng, dtype, shape)
    compare("unique", x)
    for index in (False, True):
        for inverse in (False, True):
            compare("unique", x, return_index=index, return_inverse=inverse, return_counts=True)
    # With indices, for which NumPy sorts stably: NaN is told from NaN by its place.
    compare("unique", x, return_index=True, return_inverse=True, return_counts=True, equal_nan=False)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ("unique_all", "unique_counts", "unique_inverse", "unique_values"))
def test_results(rng, name, dtype):
    x = numpy.round(draw(rng, dtype, (5, 6))).astype(dtype)
    ours, theirs = getattr(np, name)(np.asarray(x)), getattr(numpy, name)(x)
    if name == "unique_values":
        assert numpy.array_equal(numpy.asarray(ours), numpy.sort(theirs))  # whose order is open
        return
    assert type(ours) is type(theirs)
    for field in theirs._fields:
        assert numpy.array_equal(numpy.asarray(getattr(ours, field)), getattr(theirs, field)), field


@pytest.mark.parametrize("dtype", DTYPES)
def test_unique_slices(rng, dtype):
    x = numpy.asarray(draw(rng, dtype, (12, 2, 3)) > 0).astype(dtype)
    x[6:] = x[:6]
    for axis in (0, 1, -1):
        compare("unique", x, axis=axis)
        compare("unique", x, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    compare("unique", x[:, 0], True, True, True, axis=0)
    compare("unique", x[:, 0, 0], True, True, True, axis=0)
    compare("unique", x, axis=3)


@pytest.mark.parametrize("dtype", ("int16", "float32", "complex128"))
def test_sizes(rng, dtype):
    x = numpy.round(draw(rng, dtype, (4, 6))).astype(dtype)
    values, index, counts = numpy.unique(x, return_index=True, return_counts=True)
    inverse = numpy.unique(x, return_inverse=True)[1]
    n = len(values)
    for size in (0, 1, n - 1, n, n + 3):
        found = np.unique(np.asarray(x), True, True, True, size=size, fill_value=7)
        rest = max(size - n, 0)
        expected = [
            numpy.concatenate([values[:size], numpy.full(rest, 7)]), numpy.concatenate([index[:size], [index[0]] * rest]),
            inverse, numpy.concatenate([counts[:size], [0] * rest]),
        ]  # fmt: skip
        for ours, theirs in zip(found, expected):
            assert numpy.array_equal(numpy.asarray(ours), theirs)
    found = numpy.asarray(np.unique(np.asarray(x), size=n + 2))
    assert numpy.array_equal(found, numpy.concatenate([values, values[:1], values[:1]]))
    assert numpy.asarray(np.unique(np.asarray(x[:0]), size=3, fill_value=5)).tolist() == [5, 5, 5]
    rows = numpy.asarray(np.unique(np.asarray(x[[0, 1, 0]]), axis=0, size=3))
    assert numpy.array_equal(rows[:2], numpy.unique(x[:2], axis=0)) or len(numpy.unique(x[:2], axis=0)) == 1
    assert numpy.array_equal(rows[2], rows[0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("other", ("same", "float32", "int64"))
def test_two_arrays(rng, dtype, other):
    for sizes in ((20, 15), (3, 40), (0, 5), (5, 0)):
        x, y = drawn(rng, dtype, sizes[0]), drawn(rng, dtype if other == "same" else other, sizes[1])
        for name in ("intersect1d", "union1d", "setdiff1d", "setxor1d"):
            compare(name, x, y)
        a, b = numpy.unique(x), numpy.unique(y)
        for name in ("intersect1d", "setdiff1d", "setxor1d"):
            compare(name, rng.permutation(a), rng.permutation(b), assume_unique=True)
        if not any(numpy.isnan(each).any() for each in (x, y)):
            compare("intersect1d", x, y, return_indices=True)
        compare("isin", x, y)
        compare("isin", x, y, invert=True)
    compare("union1d", drawn(rng, dtype, (3, 4)), y)
    compare("intersect1d", drawn(rng, dtype, (3, 4)), y)


def test_two_arrays_with_sizes(rng):
    x, y = rng.integers(0, 12, 15), rng.integers(3, 20, 15)
    for name in ("intersect1d", "union1d", "setdiff1d", "setxor1d"):
        expected = getattr(numpy, name)(x, y)
        found = numpy.asarray(getattr(np, name)(np.asarray(x), np.asarray(y), size=25, fill_value=-1))
        assert found.tolist() == expected.tolist() + [-1] * (25 - len(expected))
        found = numpy.asarray(getattr(np, name)(np.asarray(x), np.asarray(y), size=2))
        assert found.tolist() == expected.tolist()[:2]
    found = np.intersect1d(np.asarray(x), np.asarray(y), return_indices=True)
    for ours, theirs in zip(found, numpy.intersect1d(x, y, return_indices=True)):
        assert numpy.array_equal(numpy.asarray(ours), theirs)


@pytest.mark.parametrize("dtype", DTYPES)
def test_isin(rng, dtype):
    for shape in ((), (3, 4), (2, 3, 2), (0,)):
        x = drawn(rng, dtype, shape)
        compare("isin", x, drawn(rng, dtype, (2, 9)))
        compare("isin", x, [1, 2, 3])
        compare("isin", x, 2, invert=True)
        compare("isin", x, drawn(rng, dtype, 0))
        compare("isin", x, drawn(rng, dtype, 9), kind="sort", assume_unique=True)
    compare("isin", x, x, kind="table")
    compare("isin", x, x, kind="tree")
    found = np.isin([1, 2, 3], np.asarray(numpy.array([2, 5])))
    assert numpy.asarray(found).tolist() == [False, True, False]


@pytest.mark.parametrize("dtype", DTYPES)
def test_ediff1d(rng, dtype):
    for shape in ((), (6,), (2, 3), (0,)):
        x = draw(rng, dtype, shape)
        compare("ediff1d", x)
        compare("ediff1d", x, to_end=3)
        compare("ediff1d", x, to_begin=[1, 2], to_end=draw(rng, dtype, (2, 2)))
        compare("ediff1d", x, to_end=1.5)


def test_step(rng):
    x, y = rng.integers(0, 9, 20), rng.integers(0, 9, 20)

    @sojourn.step
    def compute(a, b):
        values, counts = np.unique(a, return_counts=True, size=12, fill_value=-1)
        return (
            values, counts, np.isin(a, b), np.ediff1d(a), np.union1d(a, b, size=9, fill_value=99),
            np.setdiff1d(a, b, size=9, fill_value=99), np.unique_inverse(a, size=9).inverse_indices,
        )  # fmt: skip

    found = [numpy.asarray(each) for each in compute(np.asarray(x), np.asarray(y))]
    values, counts = numpy.unique(x, return_counts=True)
    assert found[0].tolist() == values.tolist() + [-1] * (12 - len(values))
    assert found[1].tolist() == counts.tolist() + [0] * (12 - len(values))
    assert numpy.array_equal(found[2], numpy.isin(x, y)) and numpy.array_equal(found[3], numpy.ediff1d(x))
    for k, expected in ((4, numpy.union1d(x, y)), (5, numpy.setdiff1d(x, y))):
        assert found[k].tolist() == expected.tolist() + [99] * (9 - len(expected))
    assert numpy.array_equal(found[6], numpy.unique_inverse(x).inverse_indices)
    with pytest.raises(sojourn.errors.ValueNeeded, match="pass size="):
        sojourn.step(lambda a: np.unique(a))(np.asarray(x))
