# SPDX-License-Identifier: Apache-2.0
"""Selection by index and by mask, writes, diagonals, parts of complex arrays, and functions over elements."""

import inspect

import numpy
import pytest
from arrays_support import DTYPES, compare, difference, draw, remote

import sojourn
import sojourn.numpy as np

pytestmark = pytest.mark.filterwarnings("ignore")
ARRAY = numpy.array
SHAPES = [(), (0,), (5,), (3, 4), (2, 0, 3), (2, 3, 4)]
NAMES = [
    "take", "take_along_axis", "put_along_axis", "put", "place", "putmask", "choose", "compress", "extract", "select",
    "piecewise", "where", "nonzero", "flatnonzero", "argwhere", "diagonal", "fill_diagonal", "ravel_multi_index",
    "unravel_index", "real", "imag", "iscomplex", "isreal", "ndenumerate", "ndindex", "apply_along_axis",
    "apply_over_axes", "vectorize",
]  # fmt: skip


def compare_written(name, array, *args, **kwargs):
    """As `compare`, of a function that writes into its first argument: with host and with remote arguments."""
    expected = array.copy()
    try:
        getattr(numpy, name)(expected, *args, **kwargs)
    except Exception as error:
        with pytest.raises((TypeError, ValueError, IndexError, OverflowError)) as found:
            getattr(np, name)(np.asarray(array).copy(), *args, **kwargs)
        assert type(found.value) is type(error), (name, found.value, error)
        return
    for given in (args, remote(args)):
        found = np.asarray(array).copy()
        assert getattr(np, name)(found, *given, **kwargs) is None
        problem = difference(found, expected)
        assert not problem, f"{name} {array!r} {given} {kwargs}: {problem}"


@pytest.mark.parametrize("name", NAMES)
def test_signatures(name):
    expected = inspect.signature(getattr(numpy, name)).parameters
    found = inspect.signature(getattr(np, name)).parameters
    found = {key: value for key, value in found.items() if key not in ("size", "fill_value")}
    assert [(p.name, p.default, p.kind) for p in found.values()] == [
        (p.name, p.default, p.kind) for p in expected.values()
    ]
    # Without remote arguments, NumPy answers.
    assert getattr(np, name).__doc__


def test_host_arguments():
    assert isinstance(np.take([1, 2], [0]), numpy.ndarray) and isinstance(np.where([True], 1, 2), numpy.ndarray)
    assert isinstance(np.nonzero(ARRAY([1]))[0], numpy.ndarray) and isinstance(np.compress([1], [1]), numpy.ndarray)
    assert (
        np.where([1])[0].tolist() == [0] and np.argwhere([1]).tolist() == [[0]] and np.extract([1], [3]).tolist() == [3]
    )
    assert isinstance(np.ndenumerate([1]), numpy.ndenumerate)
    assert np.nonzero(ARRAY([0, 1]), size=2)[0].tolist() == [1, 0]


# Elements by index.


@pytest.mark.parametrize("dtype", DTYPES)
def test_take(dtype, rng):
    for shape in SHAPES:
        value = draw(rng, dtype, shape)
        for axis in (None, *range(-len(shape), len(shape)), 7):
            size = value.size if axis is None else shape[axis] if axis < len(shape) else 3
            for of in ((), (3,), (2, 1), (0,)):
                index = rng.integers(-size, size, of) if size else numpy.zeros(of, int)
                compare("take", value, index, axis)
                for mode in ("wrap", "clip"):
                    compare("take", value, rng.integers(-9, 9, of), axis, mode=mode)
    compare("take", value, [1, 0], axis=1)
    compare("take", value, 1, axis=1)
    compare("take", value, ARRAY([1, 0], "uint8"), 1)


def test_take_errors():
    value = np.asarray(numpy.arange(3))
    for call in (
        lambda m, x: m.take(x, [0, 5]), lambda m, x: m.take(x, ARRAY([1.0])), lambda m, x: m.take(x, [1], mode="x"),
        lambda m, x: m.take(x, [1], out=m.asarray(ARRAY([1.0], "float32"))), lambda m, x: m.take(x, [1], out=m.asarray([1, 2])),
        lambda m, x: m.take(x[:0], [1]), lambda m, x: m.take(x, [-4]), lambda m, x: m.take(x, 0, 1),
    ):  # fmt: skip
        with pytest.raises((TypeError, ValueError, IndexError)) as expected:
            call(numpy, numpy.arange(3))
        with pytest.raises(type(expected.value)) as found:
            call(np, value)
        assert str(found.value) == str(expected.value)
    out = np.asarray(numpy.zeros(2, "int64"))
    assert np.take(value, [2, 1], out=out) is out and out.tolist() == [2, 1]
    with pytest.raises(TypeError, match="zeros_like"):
        np.take(value, [1], out=numpy.zeros(1, int))


def test_along_axis(rng):
    for shape in ((5,), (3, 4), (2, 3, 4), (0, 3), (3, 0)):
        value = rng.normal(size=shape)
        for axis in range(-len(shape), len(shape)):
            order = numpy.argsort(value, axis)
            compare("take_along_axis", value, order, axis)
            compare("take_along_axis", value, order - shape[axis], axis=axis)
            compare("take_along_axis", value, order.astype("int8"), axis=axis)
            compare_written("put_along_axis", value, order, rng.normal(size=shape), axis)
            compare_written("put_along_axis", value, order, 7, axis)
            if 0 not in shape:
                top = numpy.expand_dims(numpy.argmax(value, axis), axis)
                compare("take_along_axis", value, top, axis=axis)
                compare_written("put_along_axis", value, top, 99.5, axis)
                compare_written("put_along_axis", value, top - shape[axis], rng.normal(size=top.shape), axis)
                one = numpy.zeros((1,) * len(shape), int)
                compare("take_along_axis", value, one, axis=axis)
                compare_written("put_along_axis", value, one, 99.5, axis)
                if axis % len(shape):
                    compare("take_along_axis", value[:1], order, axis=axis)
                    compare("take_along_axis", value, order[:1], axis=axis)
        flat = numpy.argsort(value, axis=None)
        compare("take_along_axis", value, flat, None)
        compare_written("put_along_axis", value, flat, numpy.arange(flat.size), None)
    value = rng.normal(size=(2, 3))
    compare("take_along_axis", value, ARRAY([[0], [1], [1]]), axis=1)
    compare("take_along_axis", value, ARRAY([0]), axis=1)
    compare("take_along_axis", value, ARRAY([[0.5]]), axis=1)
    compare("take_along_axis", value, ARRAY([[0]]), axis=None)
    compare("take_along_axis", value, ARRAY([[0]]), axis=3)
    compare_written("put_along_axis", value, ARRAY([[0], [1]]), ARRAY([1.0, 2.0]), 1)
    compare_written("put_along_axis", value, ARRAY([[9], [1]]), 1.0, 1)
    compare_written("put_along_axis", value[:1], ARRAY([[0], [1]]), 1.0, 1)
    with pytest.raises(IndexError, match="index 9 is out of bounds for axis 1 with size 3"):
        np.take_along_axis(np.asarray(value), ARRAY([[9]]), 1)


# Writes.


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "float16", "float64", "complex64"])
def test_put(dtype, rng):
    for shape in ((5,), (3, 4), (2, 3, 2), (0,), ()):
        value = draw(rng, dtype, shape)
        for content in (1, 3, [1], [1, 0], draw(rng, dtype, (2, 2)), []):
            index = rng.permutation(value.size)[:3] - value.size
            compare_written("put", value, index, content)
            compare_written("put", value, [0], content)
            compare_written(
                "put", value, rng.permutation(9)[: value.size // 2], content, mode="clip" if value.size else "raise"
            )
    value = draw(rng, dtype, (3, 4))
    compare_written("put", value, [12], 1)
    compare_written("put", value, [0, 13], 1, mode="wrap")
    compare_written("put", value, [], 1)
    compare_written("put", value, [0, 0], [1, 0])
    compare_written("put", value, [1], 300)
    compare_written("put", value, [1], ARRAY([1.5]))
    turned, expected = np.asarray(value).copy(), value.copy()
    np.put(turned.T, [1, 4], [1, 0])
    numpy.put(expected.T, [1, 4], [1, 0])
    assert not difference(turned, expected)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "float16", "float64", "complex64"])
def test_masks(dtype, rng):
    for shape in ((6,), (3, 4), (2, 3, 2), (0,), (0, 3), ()):
        value, mask = draw(rng, dtype, shape), draw(rng, "bool", shape)
        for content in (1, [1, 0, 1], draw(rng, dtype, (2, 2)), draw(rng, dtype, shape)):
            if numpy.size(content):
                compare_written("place", value, mask, content)
            compare_written("putmask", value, mask, content)
        compare_written("place", value, mask.astype("float32"), 1)
        compare_written("putmask", value, mask, [])
        compare_written("putmask", value, mask, 300)
        array = np.asarray(value).copy()
        np.place(array, mask & False, [])
        assert not difference(array, value)
        with pytest.raises(ValueError, match="empty"):
            np.place(array, np.asarray(mask), [])
        compare_written("place", value, numpy.ones(40, bool), [1])
        compare_written("putmask", value, numpy.ones(40, bool), [1])
        compare("extract", mask, value)
        compare("extract", mask.astype("int8"), value)
        for axis in (None, *range(-len(shape), len(shape))):
            size = value.size if axis is None else shape[axis]
            for length in {max(size - 1, 0), size}:
                compare("compress", draw(rng, "bool", length), value, axis)
                compare("compress", draw(rng, "float32", length), value, axis=axis)
    value = np.asarray(rng.normal(size=(3, 4)))
    assert np.compress([True, False, True, False, False], value, axis=0).shape == (2, 4)
    for call in (lambda m, x: m.compress([[1]], x), lambda m, x: m.compress([0, 0, 1], x, 1, out=x)):
        with pytest.raises(ValueError):
            call(numpy, numpy.zeros((3, 4)))
        with pytest.raises(ValueError):
            call(np, value)
    with pytest.raises(IndexError, match="out of bounds for axis 0"):
        np.compress(np.asarray([0, 0, 0, 0, 1]), value, 0)
    with pytest.raises(ValueError, match="1-d"):
        np.compress(value > 0, value)


@pytest.mark.parametrize("name", ["put", "place", "putmask", "fill_diagonal", "put_along_axis"])
def test_writes_into_host_arrays(name):
    index = np.asarray([[1, 0], [0, 1]])
    args = (index,) if name == "fill_diagonal" else (index, 1, 0) if name == "put_along_axis" else (index, 1)
    with pytest.raises(TypeError, match="host array"):
        getattr(np, name)(numpy.zeros((2, 2)), *args)


# Choices.


@pytest.mark.parametrize("dtype", DTYPES)
def test_where(dtype, rng):
    for other in (*DTYPES, True, 2, 300, 2.5, 1j):
        x = draw(rng, dtype, (3, 4))
        y = draw(rng, other, (4,)) if isinstance(other, str) else other
        for condition in (x != 0, x, draw(rng, "float32", (3, 1)), True):
            compare("where", condition, x, y)
            compare("where", condition, y, x)
    compare("where", x, [1, 2, 3, 4], 7)
    compare("where", x, x, [[1.5], [2.5], [0]])
    compare("where", x[0] > 0, 1, 0) if dtype != "complex64" else None


def test_where_errors(rng):
    x = rng.normal(size=3)
    compare("where", x, x)
    with pytest.raises(ValueError, match=r"operands could not be broadcast together with shapes \(3,\) \(2,\) \(\) "):
        np.where(np.asarray(x), [1, 2], 3)
    with pytest.raises(ValueError, match="size"):
        np.where(np.asarray(x), 1, 2, size=2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_nonzero(dtype, rng):
    for shape in SHAPES:
        value = draw(rng, dtype, shape, special=True)
        if shape:
            compare("nonzero", value)
            compare("where", value)
        compare("flatnonzero", value)
        compare("argwhere", value)
    with pytest.raises(ValueError, match="0d"):
        np.nonzero(np.asarray(1.0))


def test_fixed_sizes(rng):
    value = (rng.random((3, 4)) < 0.5).astype("float32")
    array, expected = np.asarray(value), numpy.nonzero(value)
    count = len(expected[0])
    for size in (0, 3, 12, 20):
        shown = min(size, count)
        for fill in (None, -5, (7, 8)):
            fills = fill if isinstance(fill, tuple) else (fill or 0,) * 2
            wanted = [numpy.append(each[:shown], [last] * (size - shown)) for each, last in zip(expected, fills)]
            found = np.nonzero(array, size=size, fill_value=fill)
            assert not difference(found, tuple(each.astype("int64") for each in wanted))
            assert not difference(
                np.argwhere(array, size=size, fill_value=fill), numpy.stack(wanted, 1).astype("int64")
            )
            assert not difference(np.where(array, size=size, fill_value=fill)[1], wanted[1].astype("int64"))
        wanted = numpy.append(numpy.flatnonzero(value)[:shown], [3] * (size - shown)).astype("int64")
        assert not difference(np.flatnonzero(array, size=size, fill_value=3), wanted)
        row = value[:, 0] > 0
        rows = min(size, int(row.sum()))
        wanted = numpy.append(value[row][:rows], numpy.full((size - rows, 4), 9, "float32"), axis=0)
        for condition in (row, np.asarray(row)):
            assert not difference(np.compress(condition, array, axis=0, size=size, fill_value=9), wanted)
        wanted = numpy.append(value[value > 0][:shown] * 2, numpy.zeros(size - shown, "float32"))
        assert not difference(np.extract(array, array * 2, size=size), wanted)
    with pytest.raises(ValueError, match="2 axes"):
        np.nonzero(array, size=2, fill_value=(1, 2, 3))


def test_choose(rng):
    choices = [rng.normal(size=(3, 4)), rng.normal(size=4), rng.normal(size=(3, 1))]
    for index in (
        rng.integers(0, 3, (3, 4)),
        rng.integers(0, 3, 4),
        ARRAY(1),
        rng.integers(0, 3, (2, 3, 1)).astype("uint8"),
    ):
        compare("choose", index, choices)
        compare("choose", index - 5, choices, mode="wrap")
        compare("choose", index * 3 - 2, choices, mode="clip")
    compare("choose", ARRAY([0, 1]), [ARRAY([1, 2], "int8"), 300])
    compare("choose", ARRAY([True, False]), [ARRAY([1, 2], "int8"), 1.5])
    compare("choose", ARRAY([1, 0]), numpy.arange(6).reshape(3, 2))
    compare("choose", ARRAY([1.0, 0]), [1, 2])
    compare("choose", ARRAY([1, 0, 1]), [numpy.ones(2), 2])
    compare("choose", ARRAY([1, 0]), [1, 2], mode="x")
    with pytest.raises(ValueError, match="invalid entry in choice array"):
        np.choose([0, 2], [np.asarray([1, 2]), 3])
    out = np.asarray(numpy.zeros(2))
    assert np.choose(np.asarray([1, 0]), [5.0, 6.0], out) is out and out.tolist() == [6, 5]


def test_select_and_piecewise(rng):
    x = rng.normal(size=(3, 4)).astype("float32")
    compare("select", [x > 1, x < 0], [x, x * 2])
    compare("select", [x > 1, x < 0], [x, ARRAY([1, 2, 3, 4])], 5)
    compare("select", [x > 1, ARRAY([True, False, False, True])], [1, 2], 3.5)
    compare("select", [x > 1], [x.astype("int8")], default=2)
    compare("select", [x], [x])
    compare("select", [x > 0], [x, x])
    for call in ([x > 1, lambda v: v * 2], [x > 1, 7, lambda v: -v], [(x > 1), 3]):
        condition, functions = call[0], call[1:]
        compare("piecewise", x, [condition], functions)
        compare("piecewise", x, condition, functions)
        compare("piecewise", (x * 9).astype("int32"), [condition], functions)
    compare("piecewise", x, [x < 0, x > -1], [lambda v, k, b=0: v * k + b, 1], 3, b=2)
    compare("piecewise", x, [x[:, 0] < 0], [1, 2])
    compare("piecewise", x[0], ARRAY([x[0] > 0, x[1] > 0]), [1, 2, 3])
    compare("piecewise", ARRAY(2.5), ARRAY([True, False]), [1, 2])
    compare("piecewise", x, [x < 0], [1, 2, 3])
    compare("piecewise", x, [x[:2] < 0], [1])
    compare("piecewise", ARRAY(3.0), [ARRAY(True)], [1, 2])
    compare("piecewise", ARRAY(3.0), ARRAY(False), [1, 2])


# Diagonals, flat indices, parts.


@pytest.mark.parametrize("dtype", DTYPES)
def test_diagonals(dtype, rng):
    for shape in ((3, 3), (2, 5), (5, 2), (2, 3, 4), (0, 2), (2, 0)):
        value = draw(rng, dtype, shape)
        for offset in (-7, -1, 0, 2, 9):
            compare("diagonal", value, offset)
            compare("diagonal", value, offset, -1, 0)
        for content in (1, [1, 0], draw(rng, dtype, (3,))):
            for wrap in (False, True):
                if len(shape) == 2 and shape[1]:
                    compare_written("fill_diagonal", value, content, wrap)
    compare_written("fill_diagonal", draw(rng, dtype, (3, 3, 3)), draw(rng, dtype, (3,)))
    compare_written("fill_diagonal", draw(rng, dtype, (7, 2)), draw(rng, dtype, (3,)), wrap=True)
    compare_written("fill_diagonal", draw(rng, dtype, (3,)), 1)
    compare_written("fill_diagonal", draw(rng, dtype, (3, 3)), [])
    for args in ((draw(rng, dtype, (2,)),), (value, 0, 1, 1), (value, 0, 5, 1)):
        compare("diagonal", *args)
    view = np.asarray(draw(rng, "float64", (3, 3)))
    np.diagonal(view)[...] = 5
    assert float(view[1, 1]) == 5


def test_flat_indices(rng):
    for dims in ((3, 4), (5,), (2, 3, 4), 6):
        shape = dims if isinstance(dims, tuple) else (dims,)
        flat = rng.integers(0, numpy.prod(shape), (2, 5))
        for order in "CF":
            compare("unravel_index", flat, dims, order)
            rows = numpy.unravel_index(flat, dims, order)
            compare("ravel_multi_index", rows, dims, order=order)
            compare("ravel_multi_index", tuple(row.astype("int8") for row in rows), dims, order=order)
            for mode in ("wrap", "clip", ("wrap", "clip", "clip")[: len(shape)]):
                compare("ravel_multi_index", tuple(row * 3 - 2 for row in rows), dims, mode, order)
    compare("unravel_index", ARRAY(5), (3, 4))
    compare("unravel_index", ARRAY(0), ())
    compare("unravel_index", ARRAY([1.0]), (3, 4))
    compare("ravel_multi_index", ARRAY([[0, 1], [1, 2]]), (2, 3))
    compare("ravel_multi_index", (ARRAY([0]), ARRAY([1, 2])), (2, 3))
    compare("ravel_multi_index", (ARRAY([0]),), (2, 3))
    compare("ravel_multi_index", (ARRAY([0.0]), ARRAY([1])), (2, 3))
    compare("ravel_multi_index", (ARRAY([0]), ARRAY([1])), (2, 3), mode="x")
    with pytest.raises(ValueError, match="invalid entry in coordinates array"):
        np.ravel_multi_index((np.asarray([0]), [9]), (2, 3))


@pytest.mark.parametrize("dtype", DTYPES)
def test_parts(dtype, rng):
    for shape in SHAPES:
        value = draw(rng, dtype, shape)
        if dtype == "complex64" and shape == (5,):
            value.imag[1] = 0
        for name in ("real", "imag", "iscomplex", "isreal"):
            compare(name, value)
            compare(name, [value, value])


# Functions over elements.


def test_ndenumerate(rng):
    for shape in SHAPES:
        value = rng.normal(size=shape)
        found = list(np.ndenumerate(np.asarray(value)))
        assert [(index, float(element)) for index, element in found] == list(numpy.ndenumerate(value))
    assert list(np.ndindex(2, 1)) == [(0, 0), (1, 0)]


def test_along_lines(rng):
    value = rng.normal(size=(2, 3, 4))
    for axis in (-1, 0, 1, 2):
        for function in (
            lambda x: x[0], lambda x: x * 2, lambda x: x[:, None] * x[:2], lambda x: 3, lambda x, k, b=1: x * k + b,
        ):  # fmt: skip
            arguments = ({"k": 3} if "k" in inspect.signature(function).parameters else {},)
            compare("apply_along_axis", function, axis, value, **arguments[0])
    compare("apply_along_axis", lambda x: x, 3, value)
    compare("apply_along_axis", lambda x: x, 0, value[:, :0])
    for axes in (0, [0, 2], (-1, 1)):
        compare("apply_over_axes", lambda x, axis: x * (axis + 1), value, axes)
        compare("apply_over_axes", lambda x, axis: x[(slice(None),) * axis + (0,)], value, axes)
    compare("apply_over_axes", lambda x, axis: x[0, 0], value, 1)


def test_vectorize(rng):
    x, y = rng.normal(size=(2, 3)), rng.normal(size=3).astype("float32")

    def function(a, b=2.0):
        """Adds."""
        return a * b + 1

    ours, theirs = np.vectorize(function), numpy.vectorize(function)
    assert ours.__doc__ == "Adds." and ours.__name__ == "function"
    for args, kwargs in (((x,), {}), ((x, y), {}), ((x, 3.0), {}), ((x,), {"b": y}), ((x[0, 0],), {"b": x})):
        given = [np.asarray(args[0]), *args[1:]]
        assert not difference(ours(*given, **kwargs), theirs(*args, **kwargs))
        given = [np.asarray(arg) if isinstance(arg, numpy.ndarray) else arg for arg in args]
        assert not difference(ours(np.asarray(args[0]), *given[1:], **remote_of(kwargs)), theirs(*args, **kwargs))
    many = np.vectorize(lambda a, b: (a, a + b), otypes="fd")
    expected = numpy.vectorize(lambda a, b: (a, a + b), otypes="fd")
    assert not difference(many(np.asarray(x), y), expected(x, y))
    assert not difference(many(np.asarray(x[:0]), 1), expected(x[:0], 1))
    with pytest.raises(ValueError, match="size 0"):
        ours(np.asarray(x[:0]))
    with pytest.raises(NotImplementedError, match="apply_along_axis"):
        np.vectorize(function, signature="(n)->(n)")(np.asarray(x))
    kept = np.vectorize(lambda a, table: a * table[1], excluded=["table", 1])
    assert not difference(kept(np.asarray(x), [1, 2]), x * 2)

    @np.vectorize(otypes=[float])
    def decorated(a):
        return a - 1

    assert not difference(decorated(np.asarray(x)), x - 1)
    assert isinstance(decorated(x), numpy.ndarray)


def remote_of(kwargs):
    return {key: np.asarray(value) for key, value in kwargs.items()}


# Steps.


def test_in_a_step(rng):
    value, index = rng.normal(size=(4, 5)), rng.integers(0, 5, (4, 2))

    def body(m, x, index):
        written = m.take(x, index[:, 0], axis=1)
        m.put_along_axis(written, index[:, :1] % 4, 3.5, 1)
        m.putmask(written, written > 1, [1.0, 2.0])
        m.place(written, written < -1, [7.0, 8.0, 9.0])
        m.put(written, index[0], [4, 5])
        m.fill_diagonal(written, 0)
        return (
            written, m.take_along_axis(x, index, 1), m.where(x > 0, x, -1), m.choose(index % 2, [1.5, index]),
            m.select([x > 1, x < 0], [x, 2 * x], 9), m.piecewise(x, [x > 0], [lambda v: v * 2, 3]), m.diagonal(x, 1),
            m.ravel_multi_index((index[:, 0], index[:, 1]), (5, 5)), *m.unravel_index(index, (2, 3)),
            m.apply_along_axis(lambda v: v[1:] * v[0], 0, x), m.vectorize(lambda v: v + 1)(x[0]),
        )  # fmt: skip

    @sojourn.step
    def step(x, index):
        fixed = (
            *np.nonzero(x > 0, size=20, fill_value=-1),
            np.extract(x > 0, x, size=20),
            np.compress(x[0] > 0, x, 1, size=3),
        )
        return (*body(np, x, index), *fixed)

    found = step(np.asarray(value), np.asarray(index))
    expected = body(numpy, value, index)
    assert not difference(list(found[: len(expected)]), list(expected))
    rows, columns, elements, compressed = found[len(expected) :]
    count = int((value > 0).sum())
    assert not difference([rows[:count], columns[:count]], list(numpy.nonzero(value > 0)))
    assert (numpy.asarray(rows)[count:] == -1).all()
    assert not difference(elements, numpy.append(value[value > 0], numpy.zeros(20 - count)))
    assert compressed.shape == (4, 3)
