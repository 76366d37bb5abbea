# SPDX-License-Identifier: Apache-2.0
"""Universal functions beside NumPy's: every pair of dtypes, numbers, keyword arguments and methods."""

import itertools
import pickle

import numpy
import pytest
from arrays_support import DTYPES, UNSIGNED, compare, difference, draw, host, remote

import sojourn
import sojourn.numpy as np

UFUNCS = sorted({getattr(numpy, name).__name__ for name, value in vars(np).items() if isinstance(value, np.ufunc)})
NUMBERS = {"int": 3, "float": 2.5, "complex": 1 + 2j, "truth": True}
VECTORS = {"matvec": ((3, 4), (4,)), "vecmat": ((4,), (4, 3)), "matmul": ((3, 4), (4, 2))}


def _operand(rng, name: str, kind: str, shape):
    # Sums with infinity in a complex product are no matter of the interface.
    return NUMBERS[kind] if kind in NUMBERS else draw(rng, kind, shape, special=name not in VECTORS)


def _allowed(name: str, operands) -> bool:
    """Where NumPy looks at values, or has no defined result."""
    if name in ("power", "float_power") and isinstance(operands[1], numpy.ndarray) and operands[1].dtype.kind == "i":
        return not numpy.any(operands[1] < 0)
    return not (name == "reciprocal" and operands[0].dtype.kind in "iu" and numpy.any(operands[0] == 0))


@pytest.mark.parametrize("name", UFUNCS)
def test_all_pairs_of_dtypes(name, rng):
    ours, reference = getattr(np, name), getattr(numpy, name)
    kinds = itertools.product((*DTYPES, *NUMBERS), repeat=ours.nin)
    found, cases = [], []
    for kind in kinds:
        if all(each in NUMBERS for each in kind):
            continue
        shapes = VECTORS.get(name, ((7,),) * ours.nin)
        operands = [_operand(rng, name, each, shape) for each, shape in zip(kind, shapes)]
        if not _allowed(name, operands):
            continue
        with numpy.errstate(all="ignore"):
            try:
                expected = reference(*operands)
            except (TypeError, ValueError) as error:
                with pytest.raises(type(error).__mro__[-4] if isinstance(error, TypeError) else ValueError):
                    ours(*remote(operands))
                continue
        results = expected if isinstance(expected, tuple) else (expected,)
        if any(numpy.asarray(result).dtype.name in UNSIGNED for result in results):
            continue
        found.append(ours(*remote(operands)))
        cases.append((kind, operands, expected))
    for (kind, operands, expected), result in zip(cases, found):
        problem = difference(host(result), expected)
        assert not problem, f"{name}{kind} of {operands}: {problem}"


@pytest.mark.parametrize("name", ["add", "multiply", "less", "bitwise_and", "arctan2", "floor_divide"])
@pytest.mark.parametrize("shapes", [((), (3,)), ((2, 1, 3), (4, 1)), ((0, 3), (1,)), ((2, 3), (2, 3))])
def test_broadcasting(name, shapes, rng):
    dtype = "int32" if name == "bitwise_and" else "float64"
    compare(name, *(draw(rng, dtype, shape) for shape in shapes))


def test_shapes_that_do_not_broadcast():
    x, y = np.asarray([1.0, 2.0]), np.asarray([1.0, 2.0, 3.0])
    for call in (np.add, np.arctan2, lambda a, b: a * b, lambda a, b: np.add(a, b, dtype="float32")):
        with pytest.raises(ValueError, match=r"could not be broadcast together with shapes \(2,\) \(3,\)"):
            call(x, y)
    with pytest.raises(ValueError, match=r"mismatch in its core dimension 0.*size 2 is different from 3"):
        np.ones((3, 3)) @ np.ones((2, 3))


def test_numbers_beyond_a_dtype_are_infinite():
    x = numpy.ones(2, numpy.float32)
    compare("maximum", x, 1e300)
    compare("fmin", x, -1e300)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32"])
def test_python_integers_have_to_fit(dtype):
    x = np.asarray(numpy.array([1, 2], dtype))
    limits = numpy.iinfo(dtype)
    for number in (limits.max + 1, limits.min - 1):
        with pytest.raises(OverflowError, match=f"Python integer {number} out of bounds for {dtype}"):
            x + number
        for compared in ("less", "greater_equal", "equal", "not_equal"):
            compare(compared, numpy.array([1, 2], dtype), number)


def test_numbers_of_numpy_are_not_weak():
    x = numpy.array([1.5, 2.5], numpy.float32)
    for number in (numpy.float64(2), numpy.float32(2), numpy.int64(3), numpy.int8(3), numpy.bool_(True)):
        compare("multiply", x, number)
        compare("subtract", number, x)
    assert (np.asarray(x) * 2.0).dtype == numpy.float32


@pytest.mark.parametrize("casting", ["no", "equiv", "safe", "same_kind", "unsafe"])
def test_out_where_dtype_and_casting(casting, rng):
    x, y = draw(rng, "int32", (3, 4)), draw(rng, "float32", (3, 4))
    mask = draw(rng, "bool", (3, 4))
    for out_dtype in ("float64", "float32", "int32"):

        def run(module, convert):
            out = convert(numpy.full((3, 4), 7, out_dtype))
            module.add(convert(x), convert(y), out=out, where=convert(mask), casting=casting)
            return out

        try:
            expected = run(numpy, lambda value: value)
        except TypeError:
            with pytest.raises(TypeError):
                run(np, np.asarray)
            continue
        assert not difference(host(run(np, np.asarray)), expected)
    for dtype in ("float64", "float32", "complex128"):
        compare("add", x, y, dtype=dtype)
        compare("exp", y, dtype=dtype)


def test_out_of_two_results_and_by_position():
    x = numpy.array([1.25, -2.5, numpy.inf])
    a, b = np.empty_like(np.asarray(x)), np.empty_like(np.asarray(x))
    found = np.modf(np.asarray(x), out=(a, b))
    assert found[0] is a and found[1] is b
    assert not difference(host([a, b]), list(numpy.modf(x)))
    assert np.negative(np.asarray(x), a) is a
    assert not difference(host(a), -x)
    with pytest.raises(TypeError, match="return arrays must be of ArrayType"):
        np.negative(np.asarray(x), out=numpy.zeros(3))
    with pytest.raises(ValueError, match="non-broadcastable output"):
        np.add(np.asarray(x), np.ones((2, 3)), out=a)


@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "minimum", "logical_and", "logical_or", "subtract",
                                  "bitwise_xor", "hypot"])  # fmt: skip
def test_methods(name, rng):
    dtype = "int64" if name == "bitwise_xor" else "float64"
    x, y = draw(rng, dtype, (3, 4)), draw(rng, dtype, (2,))
    for axis in (0, 1, -1):
        for method in ("reduce", "accumulate"):
            expected = getattr(getattr(numpy, name), method)(x, axis=axis)
            assert not difference(host(getattr(getattr(np, name), method)(np.asarray(x), axis=axis)), expected), (
                axis,
                method,
            )
    if name not in ("subtract",):
        expected = getattr(numpy, name).reduce(x, axis=(0, 1), keepdims=True)
        assert not difference(host(getattr(np, name).reduce(np.asarray(x), axis=(0, 1), keepdims=True)), expected)
    assert not difference(host(getattr(np, name).outer(np.asarray(x), np.asarray(y))), getattr(numpy, name).outer(x, y))
    expected = getattr(numpy, name).reduceat(x, [0, 2, 1], axis=1)
    assert not difference(host(getattr(np, name).reduceat(np.asarray(x), [0, 2, 1], axis=1)), expected)


def test_unbuffered_add(rng):
    x, indices = draw(rng, "float64", (5,)), numpy.array([0, 3, 0, 0, 4])
    for name in ("add", "subtract"):
        expected, found = x.copy(), np.asarray(x)
        getattr(numpy, name).at(expected, indices, 1.5)
        getattr(np, name).at(found, indices, 1.5)
        assert not difference(host(found), expected)
    with pytest.raises(NotImplementedError, match=r"multiply.at"):
        np.multiply.at(np.asarray(x), indices, 2.0)


def test_operators_in_both_orders(rng):
    import operator

    x, y = draw(rng, "float32", (3,)), draw(rng, "int16", (3,)) + numpy.int16(20)
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "le", "eq", "ne", "gt", "ge"):
        function = getattr(operator, name)
        for a, b in ((x, y), (y, x), (x, 2), (2.5, x), (y, 3), (3, y)):
            with numpy.errstate(all="ignore"):
                expected = function(a, b)
            assert not difference(host(function(remote(a), remote(b))), expected), (name, a, b)
            if isinstance(a, numpy.ndarray) and isinstance(b, numpy.ndarray):
                for left, right in ((remote(a), b), (a, remote(b))):
                    assert isinstance(function(left, right), np.ndarray)
                    assert not difference(host(function(left, right)), expected), (name, "mixed")
    z = np.asarray(y)
    z += 1
    z <<= 2
    assert not difference(host(z), (y + 1) << 2)
    with pytest.raises(TypeError, match="Cannot cast ufunc 'add'"):
        z += 1.5


def test_host_values_stay_with_numpy():
    assert isinstance(np.sqrt(2.0), numpy.float64)
    assert isinstance(np.add(numpy.ones(2), 1), numpy.ndarray)


def test_a_ufunc_is_pickled_by_name():
    assert pickle.loads(pickle.dumps(np.add)) is np.add and np.absolute is np.abs


def test_a_step_records_and_replays(rng):
    x, y = draw(rng, "float64", (4, 3)), draw(rng, "int32", (3,))

    @sojourn.step
    def run(a, b):
        c = np.exp(a / 10) + b
        c *= np.sin(a)
        return np.where(c > 0, c, -c), np.maximum(c, 0.5)

    for _ in range(3):
        found = run(np.asarray(x), np.asarray(y))
    c = (numpy.exp(x / 10) + y) * numpy.sin(x)
    assert not difference(host(found), [numpy.where(c > 0, c, -c), numpy.maximum(c, 0.5)])
