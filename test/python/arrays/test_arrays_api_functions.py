# SPDX-License-Identifier: Apache-2.0
"""The array API standard: statistics, searching, sorting, sets; what they have in common by algebra."""

import arrays_api_support as api
import numpy
import pytest
from arrays_api_support import np
from hypothesis import given
from hypothesis import strategies as st


@st.composite
def _reduced(draw, dtypes, many=True, **options):
    """An array and the arguments axis and keepdims."""
    x = draw(api.array(dtypes, **options))
    axes = st.none() | st.integers(-x.ndim, x.ndim - 1) if x.ndim else st.none()
    if many and x.ndim:
        axes |= st.sets(st.integers(0, x.ndim - 1), min_size=0).map(lambda found: tuple(sorted(found)))
    return x, {"axis": draw(axes), "keepdims": draw(st.booleans())}


def _terms(x):
    """Units in the last place that a sum of so many terms may be off, and those of its parts."""
    return 64 * max(x.size, 1)


# Statistics.


@api.examples(120)
@given(_reduced(api.INTS + api.BOOLS), st.booleans())
def test_sums_of_integers(given_, typed):
    x, options = given_
    for name in ("all", "any", "count_nonzero"):
        assert api.agree(name, x, **options) is not None
    for name in ("sum", "prod") if x.dtype.kind != "b" else ():
        expected = None
        if typed or x.dtype == numpy.uint8:
            assert "sums of uint8" in api.DIFFERENCES
            expected = getattr(numpy, name)(x, dtype=numpy.int64, **options)
        assert api.agree(name, x, expected=expected, **options, **({"dtype": np.int64} if typed else {})) is not None


@api.examples(120)
@given(_reduced(api.INEXACT, small=True))
def test_sums_of_floats(given_):
    x, options = given_
    exact = numpy.abs(x).astype(numpy.float64)
    for name in ("sum", "mean") if x.size else ("sum",):
        if name == "mean" and x.dtype.kind == "c":
            continue
        found = api.host(getattr(np, name)(np.asarray(x), **options))
        wide = numpy.complex128 if x.dtype.kind == "c" else numpy.float64
        expected = getattr(numpy, name)(x, dtype=wide, **options)
        room = getattr(numpy, name)(exact, **options) * numpy.finfo(x.dtype).eps * 64
        api.tried[name] += 1
        assert (
            found.dtype == x.dtype and found.shape == expected.shape and numpy.all(numpy.abs(found - expected) <= room)
        )
    wide = {"dtype": np.complex128} if x.dtype.kind == "c" else {"dtype": np.float64}
    assert api.host(np.sum(np.asarray(x), **options, **wide)).dtype == numpy.dtype(wide["dtype"])


@api.examples(80)
@given(_reduced(api.FLOATS, small=True, min_side=1), st.sampled_from([0, 1, 0.5]))
def test_deviations(given_, correction):
    x, options = given_
    axes = range(x.ndim) if options["axis"] is None else numpy.atleast_1d(options["axis"])
    if numpy.prod([x.shape[axis] for axis in axes]) <= correction:
        return
    for name in ("var", "std"):
        api.tried[name] += 1
        found = api.host(getattr(np, name)(np.asarray(x), correction=correction, **options))
        expected = getattr(numpy, name)(x.astype(numpy.float64), correction=correction, **options)
        assert found.dtype == x.dtype and numpy.allclose(
            found, expected, rtol=1e-4, atol=1e-3 if name == "std" else 1e-4
        )


@api.examples(80)
@given(_reduced(api.REAL, min_side=1))
def test_extrema(given_):
    x, options = given_
    assert all(each is not None for each in api.agree_all(["max", "min"], x, signs=False, **options))


@api.examples(60)
@given(_reduced(api.FLOATS, small=True))
def test_products(given_):
    x, options = given_
    api.agree("prod", x, ulps=_terms(x), signs=False, **options)


@api.examples(80)
@given(st.data())
def test_running_sums(data):
    x = data.draw(api.array(api.NUMERIC, small=True, min_dims=1))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    options = {"axis": axis, "include_initial": data.draw(st.booleans())}
    for name in ("cumulative_sum", "cumulative_prod"):
        expected = None
        if x.dtype == numpy.uint8:
            expected = getattr(numpy, name)(x, dtype=numpy.int64, **options)
        terms = x if name == "cumulative_sum" else x / 16 if x.dtype.kind in "fc" else x
        found = api.agree(name, terms.astype(x.dtype), ulps=_terms(x) * 64, signs=False, expected=expected, **options)
        assert found is not None
    # The last one is the sum.
    if x.shape[axis]:
        running, total = np.cumulative_sum(np.asarray(x), axis=axis), np.sum(np.asarray(x), axis=axis)
        assert numpy.allclose(
            api.host(np.take(running, np.asarray([-1]), axis=axis).squeeze(axis)), api.host(total), rtol=1e-5
        )


@api.examples(80)
@given(st.data())
def test_differences(data):
    x = data.draw(api.array(api.NUMERIC, finite=True, small=True, min_dims=1, min_side=1))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    api.agree("diff", x, axis=axis, n=data.draw(st.integers(0, 3)), signs=False)
    shape = list(x.shape)
    shape[axis] = data.draw(st.integers(0, 2))
    ends = {each: numpy.ones(shape, x.dtype) for each in data.draw(st.sets(st.sampled_from(["prepend", "append"])))}
    api.agree("diff", x, axis=axis, signs=False, **ends)
    # A sum of differences ends where it began.
    if x.dtype.kind in "ic" and x.shape[axis] > 1:
        y = np.asarray(x)
        telescoped = api.host(np.sum(np.diff(y, axis=axis), axis=axis, dtype=x.dtype))
        assert numpy.allclose(telescoped, numpy.take(x, -1, axis=axis) - numpy.take(x, 0, axis=axis), atol=1e-3)


# Searching and sorting.


@api.examples(100)
@given(_reduced(api.REAL, many=False, min_side=1))
def test_places_of_extrema(given_):
    x, options = given_
    assert all(each is not None for each in api.agree_all(["argmax", "argmin"], x, **options))


@api.examples(80)
@given(_reduced(api.DTYPES))
def test_counts(given_):
    x, options = given_
    api.agree("count_nonzero", x, **options)
    if x.ndim:
        found = api.agree("nonzero", x)
        assert len(found[0]) == api.host(np.count_nonzero(np.asarray(x)))


@api.examples(80)
@given(st.data())
def test_where(data):
    x, y = data.draw(api.pair())
    condition = data.draw(api.array("bool", shape=numpy.broadcast_shapes(x.shape, y.shape)))
    api.agree("where", condition, x, y)
    if x.dtype.kind in "fc":
        scalar = data.draw(st.integers(-5, 5))
        api.agree("where", condition, x, scalar)
        api.agree("where", condition, scalar, x)


@api.examples(80)
@given(st.data())
def test_searchsorted(data):
    x = numpy.sort(data.draw(api.array(api.REAL, min_dims=1, max_dims=1, max_side=6)))
    y = data.draw(api.array(str(x.dtype)))
    side = data.draw(st.sampled_from(["left", "right"]))
    x, y = (each[~numpy.isnan(each)] for each in (x, y))
    found = api.agree("searchsorted", x, y, side=side)
    expected = numpy.array([sum(x < v if side == "left" else x <= v) for v in y], int)
    assert not api.difference(found, expected)
    order = numpy.array(data.draw(st.permutations(range(len(x)))), numpy.int64)
    api.agree("searchsorted", x[order], y, side=side, sorter=numpy.argsort(order))


@api.examples(100)
@given(st.data())
def test_take(data):
    x = data.draw(api.array(min_dims=1, min_side=1))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    n = x.shape[axis]
    kind = data.draw(st.sampled_from(["int8", "int64"]))
    some = numpy.array(data.draw(st.lists(st.integers(-n, n - 1), max_size=4)), kind)
    assert api.agree("take", x, some, axis=axis) is not None
    if x.ndim == 1:
        api.agree("take", x, some)
    shape = list(x.shape)
    shape[axis] = data.draw(st.integers(1, 3))
    places = data.draw(api.arrays.arrays("int64", tuple(shape), elements=st.integers(-n, n - 1)))
    assert api.agree("take_along_axis", x, places, axis=axis) is not None


@api.examples(100)
@given(st.data())
def test_sorting(data):
    x = data.draw(api.array(api.REAL, min_dims=1))
    options = {"axis": data.draw(st.integers(-x.ndim, x.ndim - 1)), "descending": data.draw(st.booleans())}
    found = api.agree_all(["sort", "argsort"], x, signs=False, stable=True, **options)
    assert all(each is not None for each in found)
    y = np.asarray(x)
    made, order = np.sort(y, **options, stable=False), np.argsort(y, **options, stable=False)
    # Taking in order sorts, and every element is taken once.
    assert not api.difference(api.host(np.take_along_axis(y, order, axis=options["axis"])), api.host(made), signs=False)
    every = np.sort(order, axis=options["axis"])
    ramp = numpy.arange(x.shape[options["axis"]]).reshape(
        [-1 if k == options["axis"] % x.ndim else 1 for k in range(x.ndim)]
    )
    assert not api.difference(api.host(every), numpy.broadcast_to(ramp, x.shape))
    # Neighbours are in order.
    steps = numpy.diff(numpy.moveaxis(api.host(made), options["axis"], -1).astype(float), axis=-1)
    assert not numpy.any(steps > 0 if options["descending"] else steps < 0)


# Sets.


@api.examples(100)
@given(api.array(api.REAL + api.BOOLS))
def test_distinct_values(x):
    x = numpy.where(x == 0, x.dtype.type(0), x)  # -0 is 0
    if x.dtype.kind == "f":  # which NaN of several is which, no order says
        x.flat[numpy.flatnonzero(numpy.isnan(x))[1:]] = 1.0
    tried = ["unique_values", "unique_counts", "unique_inverse", "unique_all"]
    values, counts, inverse, everything = api.agree_all(tried, x)
    y = np.asarray(x)
    names = [np.unique_counts(y)._fields, np.unique_inverse(y)._fields, np.unique_all(y)._fields]
    assert names == [
        ("values", "counts"),
        ("values", "inverse_indices"),
        ("values", "indices", "inverse_indices", "counts"),
    ]
    distinct, first, back, number = everything
    assert numpy.array_equal(x.ravel()[first], distinct, equal_nan=x.dtype.kind == "f") and number.sum() == x.size
    assert back.shape == x.shape and numpy.array_equal(distinct[back], x, equal_nan=x.dtype.kind == "f")
    assert not api.difference([values, counts[0], inverse[0]], [distinct] * 3)


@api.examples(60)
@given(api.array(api.COMPLEX, small=True))
def test_distinct_complex_values(x):
    y = np.asarray(x)
    found = [api.host(each) for each in np.unique_all(y)]
    assert numpy.array_equal(found[0][found[2]], x) and len(set(found[0].tolist())) == len(found[0])
    assert numpy.array_equal(x.ravel()[found[1]], found[0]) and found[3].sum() == x.size


# Algebra.


@api.examples(60)
@given(st.data())
def test_joined_parts_are_the_whole(data):
    x = data.draw(api.array(min_dims=1))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    at = data.draw(st.integers(0, x.shape[axis]))
    y = np.asarray(x)
    parts = np.split(y, [at], axis=axis)
    pairs = [(np.concat(parts, axis=axis), x), (np.flip(np.flip(y, axis=axis), axis=axis), x)]
    if x.shape[axis]:
        pairs.append((np.stack(np.unstack(y, axis=axis), axis=axis), x))
    shift, more = data.draw(st.integers(-9, 9)), data.draw(st.integers(-9, 9))
    pairs.append((np.roll(np.roll(y, shift, axis=axis), more, axis=axis), numpy.roll(x, shift + more, axis=axis)))
    pairs.append((np.roll(np.roll(y, shift), -shift), x))
    pairs.append((np.reshape(np.reshape(y, (-1,)) if x.size else y, x.shape), x))
    order = data.draw(st.permutations(range(x.ndim)))
    pairs.append((np.permute_dims(np.permute_dims(y, tuple(order)), tuple(numpy.argsort(order).tolist())), x))
    pairs.append((np.squeeze(np.expand_dims(y, axis), axis), x))
    pairs.append((np.moveaxis(np.moveaxis(y, axis, 0), 0, axis), x))
    for found, expected in pairs:
        assert not api.difference(api.host(found), expected)


@api.examples(60)
@given(api.array(api.INTS, small=True))
def test_laws_of_arithmetic(x):
    y = np.asarray(x)
    three = np.asarray(numpy.full(x.shape, 3, x.dtype))
    zero = numpy.zeros_like(x)
    laws = [
        (y // three * three + y % three, x), (~(~y), x), (y ^ y, zero), ((y | three) & y, x), (y - y, zero),
        ((y + three) - y, api.host(three)), (y * (three + y), api.host(y * three + y * y)), (np.negative(-y), x),
        (np.maximum(y, three) + np.minimum(y, three), api.host(y + three)), (np.sign(y) * np.abs(y), x),
    ]  # fmt: skip
    for found, expected in laws:
        assert not api.difference(api.host(found), expected)


@api.examples(60)
@given(api.array(api.FLOATS, small=True))
def test_laws_of_functions(x):
    y = np.asarray(x / x.dtype.type(16))
    one = numpy.ones_like(x)
    laws = [
        (np.sin(y) ** 2 + np.cos(y) ** 2, one), (np.exp(np.log(np.abs(y) + 1)), numpy.abs(x / x.dtype.type(16)) + one),
        (np.tan(np.atan(y)), x / x.dtype.type(16)), (np.sqrt(np.square(y)), numpy.abs(x / x.dtype.type(16))),
        (np.sinh(np.asinh(y)), x / x.dtype.type(16)), (np.floor(y) + (y - np.floor(y)), x / x.dtype.type(16)),
        (np.copysign(np.abs(y), y), x / x.dtype.type(16)), (np.log2(np.pow(np.full_like(y, 2.0), y)), x / x.dtype.type(16)),
    ]  # fmt: skip
    for found, expected in laws:
        rtol = 1e-4 if x.dtype == numpy.float32 else 1e-11
        assert found.dtype == x.dtype and numpy.allclose(api.host(found), expected, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_extrema_of_nothing_are_refused(name):
    with pytest.raises(ValueError):
        getattr(np, name)(np.zeros((0, 2)))


def test_totals(capsys):
    with capsys.disabled():
        print(f"\n{api.totals('statistics, searching, sorting, sets')}")
