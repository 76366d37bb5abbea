# SPDX-License-Identifier: Apache-2.0
"""The array API standard: functions of elements, operators, type promotion, special values."""

import operator

import arrays_api_support as api
import numpy
import pytest
from arrays_api_support import np
from hypothesis import given
from hypothesis import strategies as st

#: Functions by the dtypes that they take.
ONE = [
    (api.BOOLS, "bitwise_invert logical_not"), (api.INTS, "bitwise_invert ceil floor trunc"), (api.COMPLEX, "real imag"),
    (api.FLOATS, "ceil floor trunc signbit"), (api.NUMERIC, "conj isfinite isinf isnan negative positive round"),
    (api.NUMERIC, "sign square abs"), (api.FLOATS, "acos acosh asin asinh atan atanh cos cosh exp expm1"),
    (api.FLOATS, "log log1p log2 log10 reciprocal sin sinh sqrt tan tanh"),
]  # fmt: skip
TWO = [
    (api.BOOLS, "bitwise_and bitwise_or bitwise_xor logical_and logical_or logical_xor"),
    (api.INTS, "bitwise_and bitwise_or bitwise_xor"), (api.REAL, "greater greater_equal less less_equal maximum minimum"),
    (api.REAL, "remainder floor_divide add multiply subtract"), (api.REAL, "pow"), (api.DTYPES, "equal not_equal"),
    (api.FLOATS, "atan2 copysign hypot logaddexp nextafter divide"),
]  # fmt: skip
ANALYTIC = ("acos acosh asin asinh atan atanh cos cosh exp expm1 log log1p log2 log10 reciprocal sin sinh sqrt tan tanh "
            "square abs conj real imag sign negative").split()  # fmt: skip


@pytest.mark.parametrize("dtypes, names", ONE)
def test_functions_of_one_array(dtypes, names):
    @api.examples(50)
    @given(api.array(dtypes))
    def check(x):
        for found, name in zip(api.agree_all(names.split(), x), names.split()):
            assert found is not None or (x.dtype.kind == "c" and name in ("conj", "round")) or name == "conj", name

    check()


@pytest.mark.parametrize("dtypes, names", TWO)
def test_functions_of_two_arrays(dtypes, names):
    @api.examples(80)
    @given(api.pair(dtypes))
    def check(xs):
        api.agree_all(names.split(), *xs)

    check()


@pytest.mark.parametrize("name", ["bitwise_left_shift", "bitwise_right_shift"])
@api.examples(30)
@given(data=st.data())
def test_shifts(name, data):
    x, by = data.draw(api.pair(api.INTS))
    # Beyond the width of the elements the standard leaves the result open.
    by = by.astype(numpy.int64) % (numpy.promote_types(x.dtype, by.dtype).itemsize * 8 - 1)
    api.agree(name, x, by.astype(data.draw(st.sampled_from(api.INTS))))


@st.composite
def _moderate(draw):
    """Complex numbers, none of which is large."""
    part = st.floats(-12, 12, width=32, allow_subnormal=False).map(lambda x: x if abs(x) > 0.1 else 0.0)
    shape = draw(api.shapes())
    values = draw(st.lists(st.builds(complex, part, part), min_size=27, max_size=27))
    return numpy.array(values[: int(numpy.prod(shape))], draw(st.sampled_from(api.COMPLEX))).reshape(shape)


@api.examples(60)
@given(_moderate())
def test_functions_of_complex_numbers(x):
    assert all(found is not None for found in api.agree_all(ANALYTIC, x, ulps=128, signs=False))


@api.examples(60)
@given(_moderate(), _moderate())
def test_functions_of_two_complex_arrays(x, y):
    try:
        numpy.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        y = x[::-1] if x.ndim else x
    api.agree_all(["add", "subtract", "multiply", "divide", "equal"], x, y, ulps=256, signs=False)
    base, exponent = numpy.where(x == 0, x.dtype.type(1), x), numpy.asarray(numpy.clip(y.real, -3, 3).astype(y.dtype))
    assert api.agree("pow", base, exponent, ulps=256, signs=False) is not None


# Special values, as the standard lists them.

NAMED = {"pi": numpy.pi, "pi/2": numpy.pi / 2, "pi/4": numpy.pi / 4, "3pi/4": 3 * numpy.pi / 4, "eps": 5e-324}
SPECIAL = """
abs        nan:nan -0:0 -inf:inf
acos       nan:nan 2:nan -2:nan 1:0
acosh      nan:nan 0.5:nan 1:0 inf:inf
asin       nan:nan 2:nan -2:nan 0:0 -0:-0
asinh      nan:nan 0:0 -0:-0 inf:inf -inf:-inf
atan       nan:nan 0:0 -0:-0 inf:pi/2 -inf:-pi/2
atanh      nan:nan -2:nan 2:nan -1:-inf 1:inf 0:0 -0:-0
ceil       inf:inf -inf:-inf 0:0 -0:-0 nan:nan -0.5:-0
cos        nan:nan 0:1 -0:1 inf:nan -inf:nan
cosh       nan:nan 0:1 -0:1 inf:inf -inf:inf
exp        nan:nan 0:1 -0:1 inf:inf -inf:0
expm1      nan:nan 0:0 -0:-0 inf:inf -inf:-1
floor      inf:inf -inf:-inf 0:0 -0:-0 nan:nan
log        nan:nan -1:nan 0:-inf -0:-inf 1:0 inf:inf
log1p      nan:nan -2:nan -1:-inf -0:-0 0:0 inf:inf
log2       nan:nan -1:nan 0:-inf -0:-inf 1:0 inf:inf 8:3
log10      nan:nan -1:nan 0:-inf -0:-inf 1:0 inf:inf 1000:3
negative   0:-0 -0:0 inf:-inf nan:nan
reciprocal 0:inf -0:-inf inf:0 -inf:-0 nan:nan
round      inf:inf -inf:-inf 0:0 -0:-0 nan:nan 0.5:0 1.5:2 2.5:2 -0.5:-0
sign       -2:-1 -0:0 0:0 3:1 nan:nan
sin        nan:nan 0:0 -0:-0 inf:nan -inf:nan
sinh       nan:nan 0:0 -0:-0 inf:inf -inf:-inf
sqrt       nan:nan -1:nan 0:0 -0:-0 inf:inf
square     -0:0 -inf:inf nan:nan
tan        nan:nan 0:0 -0:-0 inf:nan -inf:nan
tanh       nan:nan 0:0 -0:-0 inf:1 -inf:-1
trunc      inf:inf -inf:-inf 0:0 -0:-0 nan:nan -0.5:-0
add        nan,1:nan 1,nan:nan inf,-inf:nan -inf,inf:nan inf,inf:inf inf,1:inf 1,-inf:-inf -0,-0:-0 -0,0:0 0,-0:0 1,-1:0
atan2      nan,1:nan 1,nan:nan 1,0:pi/2 1,-0:pi/2 0,1:0 0,0:0 0,-0:pi 0,-1:pi -0,1:-0 -0,0:-0 -0,-0:-pi -0,-1:-pi
atan2      -1,0:-pi/2 -1,-0:-pi/2 1,inf:0 1,-inf:pi -1,inf:-0 -1,-inf:-pi inf,1:pi/2 -inf,1:-pi/2 inf,inf:pi/4
atan2      inf,-inf:3pi/4 -inf,inf:-pi/4 -inf,-inf:-3pi/4
copysign   nan,1:nan 1,-0:-1 -1,0:1 0,-1:-0 inf,-1:-inf
divide     nan,1:nan 1,nan:nan inf,inf:nan inf,-inf:nan 0,0:nan 0,-0:nan 1,0:inf 1,-0:-inf -1,0:-inf 1,inf:0 1,-inf:-0
divide     inf,2:inf inf,-2:-inf 0,2:0 0,-2:-0
floor_divide nan,1:nan 0,0:nan 0,2:0 7,-2:-4 -7,2:-4 7,2:3 1,inf:0 -1,-inf:0 -1,inf:-1
remainder  nan,1:nan 1,nan:nan 1,0:nan inf,1:nan 7,3:1 -7,3:2 7,-3:-2 -7,-3:-1 0,2:0 -0,2:0 1,inf:1 -1,inf:inf 1,-inf:-inf
hypot      inf,nan:inf nan,-inf:inf 1,nan:nan inf,1:inf 0,-0:0 3,4:5
logaddexp  nan,1:nan 1,nan:nan inf,1:inf -inf,-inf:-inf -inf,2:2
maximum    nan,1:nan 1,nan:nan inf,1:inf -inf,1:1
minimum    nan,1:nan 1,nan:nan inf,1:1 -inf,1:-inf
multiply   nan,1:nan inf,0:nan -inf,0:nan inf,-2:-inf -inf,-inf:inf 0,-1:-0 -0,-0:0
nextafter  nan,1:nan 1,nan:nan 1,1:1 0,1:eps
pow        1,nan:1 nan,0:1 nan,-0:1 nan,1:nan 2,inf:inf 2,-inf:0 1,inf:1 -1,inf:1 0.5,inf:0 0.5,-inf:inf inf,2:inf inf,-2:0
pow        -inf,3:-inf -inf,2:inf -inf,-3:-0 -inf,-2:0 0,2:0 0,-2:inf -0,3:-0 -0,2:0 -0,-3:-inf -0,-2:inf -8,0.5:nan 2,10:1024
subtract   inf,inf:nan -0,0:-0 0,0:0 inf,1:inf 1,inf:-inf
"""


def _value(text):
    sign, name = (-1.0, text[1:]) if text.startswith("-") else (1.0, text)
    return sign * NAMED.get(name, 0) if name in NAMED else sign * float(name)


@pytest.mark.parametrize("line", SPECIAL.strip().splitlines(), ids=lambda line: line.split()[0])
def test_special_values(line):
    name, *cases = line.split()
    for dtype in api.FLOATS[1:] if "eps" in line else api.FLOATS:
        given = [tuple(map(_value, case.split(":")[0].split(","))) for case in cases]
        columns = [numpy.array(column, dtype) for column in zip(*given)]
        expected = numpy.array([_value(case.split(":")[1]) for case in cases], dtype)
        api.agree(name, *columns, expected=expected, ulps=2)


@pytest.mark.parametrize("name", [name for dtypes, names in TWO if "float64" in dtypes for name in names.split()])
def test_pairs_of_special_values(name):
    values = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e30, numpy.inf, -numpy.inf, numpy.nan]
    x, y = (each.ravel() for each in numpy.meshgrid(values, values))
    for dtype in api.FLOATS:
        assert api.agree(name, x.astype(dtype), y.astype(dtype)) is not None


#: Complex values for which the standard has results, and other ones.
COMPLEX_SPECIAL = {
    "exp": {complex(numpy.inf, 0): complex(numpy.inf, 0), complex(-numpy.inf, numpy.inf): 0j, 0j: 1 + 0j},
    "log": {0j: complex(-numpy.inf, 0), complex(numpy.inf, numpy.inf): complex(numpy.inf, numpy.pi / 4)},
    "sqrt": {complex(-4, 0): 2j, complex(-9, -0.0): -3j, complex(1, numpy.inf): complex(numpy.inf, numpy.inf)},
    "tanh": {complex(numpy.inf, 1): 1 + 0j, 0j: 0j},
    "acosh": {0j: complex(0, numpy.pi / 2), complex(numpy.inf, 1): complex(numpy.inf, 0)},
    "asinh": {0j: 0j, complex(numpy.inf, 1): complex(numpy.inf, 0)}, "atanh": {0j: 0j, 1 + 0j: complex(numpy.inf, 0)},
    "expm1": {0j: 0j, complex(-numpy.inf, 1): -1 + 0j}, "log1p": {-1 + 0j: complex(-numpy.inf, 0), 0j: 0j},
    "sinh": {0j: 0j}, "cosh": {0j: 1 + 0j},
    "abs": {complex(numpy.inf, numpy.nan): numpy.inf, complex(numpy.nan, -numpy.inf): numpy.inf, 3 + 4j: 5.0},
}  # fmt: skip


@pytest.mark.parametrize("name", list(COMPLEX_SPECIAL))
def test_special_complex_values(name):
    expected = numpy.array(list(COMPLEX_SPECIAL[name].values()))
    found = api.host(api.call(np, api.ours, name, [numpy.array(list(COMPLEX_SPECIAL[name]))], {}))
    for part in ("real", "imag"):
        assert not api.difference(getattr(found, part), getattr(expected, part), ulps=8, signs=False), (name, found)


#: Arguments for which formulas by parts lose digits, or have NaN for infinity.
HARD = {
    "sinh": [1e-9 + 1e-9j, complex(numpy.inf, 0), 720 + 1j], "cosh": [-720 + 0.0625j, complex(numpy.inf, 0)],
    "tan": [0.5 + 800j], "log2": [0j, complex(0, numpy.inf)], "log10": [0j, complex(0, numpy.inf)],
    "expm1": [1e-9 + 1e-5j], "asin": [complex(numpy.inf, 0)], "asinh": [complex(1, numpy.inf)],
    "atan": [complex(0, numpy.inf)], "atanh": [complex(1, numpy.inf)], "pow": [0j], "log1p": [complex(-2, -0.0)],
}  # fmt: skip


@pytest.mark.parametrize("name", list(HARD))
def test_complex_functions_of_hard_arguments(name):
    x = numpy.array(HARD[name])
    with numpy.errstate(all="ignore"):
        expected = x**x if name == "pow" else api.named(numpy, name)(x)
    found = api.host(api.call(np, api.ours, name, [x, x] if name == "pow" else [x], {}))
    for part in ("real", "imag"):
        assert not api.difference(getattr(found, part), getattr(expected, part), ulps=8, signs=False), (found, expected)


# Operators.

OPERATORS = [
    (api.NUMERIC, "add sub"), (api.REAL, "mul floordiv mod lt le gt ge"), (api.REAL, "pow"), (api.FLOATS, "truediv"),
    (api.BOOLS + api.INTS, "and_ or_ xor"), (api.DTYPES, "eq ne"), (api.INTS, "lshift rshift"),
]  # fmt: skip


def _small(y):
    """Counts for shifts: within the width of the smallest elements."""
    return (y.astype(numpy.int64) % 7).astype(y.dtype)


@pytest.mark.parametrize("dtypes, names", OPERATORS)
def test_operators(dtypes, names):
    functions = [getattr(operator, name) for name in names.split()]

    @api.examples(50)
    @given(st.data())
    def check(data):
        x, y = data.draw(api.pair(dtypes, finite=True))
        api.agree_all(functions, x, _small(y) if "shift" in names else y)
        scalar = _scalar(data, x.dtype, names)
        api.agree_all(functions, x, scalar)
        if "shift" not in names:
            api.agree_all(functions, scalar, x)

    check()


def _scalar(data, dtype, names):
    """A Python number that the standard lets meet arrays of the dtype."""
    kinds = {"b": [st.booleans()], "u": [st.integers(0, 200)], "i": [st.integers(-100, 100)]}
    kinds["f"] = [*kinds["i"], st.floats(-1e3, 1e3, width=32, allow_subnormal=False)]
    kinds["c"] = kinds["f"] + [st.builds(complex, *kinds["i"] * 2)]
    found = data.draw(st.one_of(kinds[dtype.kind]))
    return abs(found) % 7 if "shift" in names else found


@api.examples(40)
@given(x=api.array())
def test_operators_of_one_array(x):
    api.agree_all([operator.neg, operator.pos, operator.abs, operator.invert], x)


def _in_place(function):
    def in_place(a, b):
        view = a[...]  # shows that the memory is the same
        a = function(a, b)
        return a, view

    in_place.__name__ = function.__name__
    return in_place


@pytest.mark.parametrize("dtypes, names", OPERATORS)
def test_operators_in_place(dtypes, names):
    functions = [
        _in_place(getattr(operator, "i" + name.strip("_")))
        for name in names.split() if hasattr(operator, "i" + name.strip("_"))
    ]  # fmt: skip

    @api.examples(30)
    @given(st.data())
    def check(data):
        x, y = data.draw(api.pair(dtypes, finite=True))
        api.agree_all(functions, x, _small(y) if "shift" in names else y)
        api.agree_all(functions, x, _scalar(data, x.dtype, names))

    if functions:
        check()


@pytest.mark.parametrize("dtype", api.DTYPES)
def test_promotion(dtype, rng):
    """Of all pairs of dtypes and of numbers: the dtype of the sum, or of the equality."""
    for other in (*api.DTYPES, True, 3, 2.5, 1j):
        x = numpy.ones(2, dtype)
        y = numpy.ones((3, 1), other) if isinstance(other, str) else other
        for name in ("mul", "eq"):
            api.agree(getattr(operator, name), x, y)
            api.agree(getattr(operator, name), y, x)


def test_totals(capsys):
    with capsys.disabled():
        print(f"\n{api.totals('elements, operators, promotion')}")
