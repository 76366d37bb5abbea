# SPDX-License-Identifier: Apache-2.0
"""The array API standard: every name with every argument, dtypes, the description of the namespace, constants."""

import inspect
import types

import arrays_api_support as api
import numpy
import pytest
from arrays_api_support import np, strict
from hypothesis import given
from hypothesis import strategies as st

import sojourn

FLAGS = ("Device", "ArrayAPIStrictFlags", "set_array_api_strict_flags", "get_array_api_strict_flags",
         "reset_array_api_strict_flags")  # fmt: skip
LATER = ("broadcast_shapes", "isin")  # than the version of the standard
OPEN = inspect.signature(strict.astype).parameters["device"].default


def _names(space, prefix=""):
    return [
        prefix + name for name in space.__all__
        if name not in FLAGS and name not in LATER and not isinstance(getattr(space, name), types.ModuleType)
    ]  # fmt: skip


NAMES = _names(strict) + _names(strict.linalg, "linalg.") + _names(strict.fft, "fft.")
FUNCTIONS = [name for name in NAMES if isinstance(api.named(strict, name), types.FunctionType)]

F, G = numpy.array([[0.5, -0.25, 0.75], [0.25, 0.5, -0.5]]), numpy.array([0.5, 1.5, 2.5])
WHOLES, S = numpy.array([[3, 1, 2], [6, 5, 4]]), numpy.array([[2.0, 0.5], [0.5, 1.0]])
B, C = numpy.array([True, False, True]), F + 1j * F[:, ::-1]
STEPS = {"axis": 0, "keepdims": True}
WHOLE = {"bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift", "bitwise_invert"}

#: A call of each function with every argument of the standard's by keyword that can be given so.
CALLS: dict[str, tuple[tuple, dict]] = {
    "__array_namespace_info__": ((), {}),
    "acosh": ((G + 1,), {}), "conj": ((C,), {}), "imag": ((C,), {}), "real": ((C,), {}), "clip": ((F, -0.5, 0.5), {}),
    "logical_not": ((B,), {}), **{f"logical_{name}": ((B, ~B), {}) for name in ("and", "or", "xor")},
    "asarray": ((F,), {"dtype": "float32", "device": None, "copy": True}),
    "arange": ((1, 9, 2), {"dtype": "int32", "device": None}),
    "empty": (((2, 0),), {"dtype": "int8", "device": None}), "empty_like": ((F[:0],), {"dtype": "int8", "device": None}),
    "eye": ((3, 4), {"k": 1, "dtype": "float32", "device": None}),
    "from_dlpack": ((F,), {"device": None, "copy": True}),
    "full": (((2,), 3), {"dtype": "int8", "device": None}), "full_like": ((F, 3), {"dtype": "int8", "device": None}),
    "linspace": ((0, 1, 5), {"dtype": "float32", "device": None, "endpoint": False}),
    "meshgrid": ((G, G), {"indexing": "ij"}),
    **{name: (((2, 3),), {"dtype": "int16", "device": None}) for name in ("ones", "zeros")},
    **{name: ((F,), {"dtype": "int16", "device": None}) for name in ("ones_like", "zeros_like")},
    "tril": ((F,), {"k": 1}), "triu": ((F,), {"k": 1}), "astype": ((F, "float32"), {"copy": True, "device": None}),
    "broadcast_arrays": ((F, G), {}), "broadcast_to": ((G, (2, 3)), {}), "can_cast": (("int8", "int16"), {}),
    "finfo": (("float32",), {}), "iinfo": (("int8",), {}), "isdtype": (("int8", "integral"), {}),
    "result_type": (("int8", "int16"), {}), "take": ((F, numpy.array([1, 0])), {"axis": 1}),
    "take_along_axis": ((F, WHOLES % 3), {"axis": 1}), "matmul": ((F, F.T), {}), "tensordot": ((F, F), {"axes": 2}),
    "matrix_transpose": ((F,), {}), "vecdot": ((F, G), {"axis": -1}), "concat": (((F, F),), {"axis": 1}),
    "expand_dims": ((F, 1), {}), "flip": ((F,), {"axis": 0}), "moveaxis": ((F, 0, 1), {}),
    "permute_dims": ((F, (1, 0)), {}), "repeat": ((F, 2), {"axis": 0}), "reshape": ((F, (3, 2)), {"copy": True}),
    "roll": ((F, 1), {"axis": 0}), "squeeze": ((F[:1], 0), {}), "stack": (((F, F),), {"axis": 1}),
    "tile": ((F, (2, 1)), {}), "unstack": ((F,), {"axis": 1}), "argmax": ((F,), STEPS), "argmin": ((F,), STEPS),
    "nonzero": ((WHOLES,), {}), "count_nonzero": ((WHOLES,), STEPS), "where": ((B, F, G), {}),
    "searchsorted": ((G, F), {"side": "right", "sorter": numpy.array([0, 1, 2])}),
    **{f"unique_{name}": ((WHOLES,), {}) for name in ("all", "counts", "inverse", "values")},
    **{name: ((WHOLES,), {"axis": 0, "descending": True, "stable": True}) for name in ("sort", "argsort")},
    **{f"cumulative_{name}": ((F,), {"axis": 0, "dtype": "float32", "include_initial": True}) for name in ("sum", "prod")},
    **dict.fromkeys(("max", "min", "mean"), ((F,), STEPS)),
    **{name: ((F,), {"dtype": "float32", **STEPS}) for name in ("sum", "prod")},
    **{name: ((F,), {"correction": 1.0, **STEPS}) for name in ("std", "var")},
    "all": ((B,), STEPS), "any": ((B,), STEPS),
    "diff": ((F,), {"axis": 1, "n": 2, "prepend": F[:, :1], "append": F[:, :1]}),
    "linalg.cholesky": ((S,), {"upper": True}), "linalg.cross": ((F, F[:, ::-1].copy()), {"axis": -1}),
    "linalg.diagonal": ((F,), {"offset": 1}), "linalg.matmul": ((F, F.T), {}), "linalg.matrix_transpose": ((F,), {}),
    **{f"linalg.{name}": ((S,), {}) for name in ("det", "eigh", "eigvalsh", "inv", "slogdet", "svdvals")},
    "linalg.matrix_norm": ((F,), {"keepdims": True, "ord": 1}), "linalg.matrix_power": ((S, 3), {}),
    "linalg.matrix_rank": ((F,), {"rtol": 1e-9}), "linalg.outer": ((G, G), {}), "linalg.pinv": ((F,), {"rtol": 1e-9}),
    "linalg.qr": ((F,), {"mode": "reduced"}), "linalg.solve": ((S, S), {}), "linalg.svd": ((S,), {"full_matrices": False}),
    "linalg.tensordot": ((F, F), {"axes": 2}), "linalg.trace": ((F,), {"offset": 1, "dtype": "float32"}),
    "linalg.vecdot": ((F, G), {"axis": -1}), "linalg.vector_norm": ((F,), {"axis": 0, "keepdims": True, "ord": 1}),
    **{f"fft.{name}": ((C,), {"n": 4, "axis": 0, "norm": "ortho"}) for name in ("fft", "ifft", "irfft", "hfft")},
    **{f"fft.{name}": ((F,), {"n": 4, "axis": 0, "norm": "ortho"}) for name in ("rfft", "ihfft")},
    **{f"fft.{name}": ((C,), {"s": (2, 4), "axes": (0, 1), "norm": "ortho"}) for name in ("fftn", "ifftn", "irfftn")},
    "fft.rfftn": ((F,), {"s": (2, 4), "axes": (0, 1), "norm": "ortho"}),
    **{f"fft.{name}": ((5,), {"d": 0.5, "dtype": "float32", "device": None}) for name in ("fftfreq", "rfftfreq")},
    "fft.fftshift": ((F,), {"axes": 0}), "fft.ifftshift": ((F,), {"axes": 0}),
}  # fmt: skip
DECOMPOSITIONS = {
    "linalg.eigh",
    "linalg.qr",
    "linalg.svd",
}  # which are unique up to signs; see test_arrays_api_linalg.py


def _call(name):
    """A call of the table; of functions of one or two arrays: with floats, or integers."""
    if name in CALLS:
        return CALLS[name]
    number = len(inspect.signature(api.named(strict, name)).parameters)
    return (WHOLES, numpy.array([1, 2, 3]))[:number] if name in WHOLE else (F, G)[:number], {}


def _dtypes(change, value):
    """Names of dtypes as those of a side."""
    if isinstance(value, str) and value in api.DTYPES:
        return getattr(strict if change is api.theirs else np, value)
    return change(value)


def _at_the_owner(name, there):
    """Functions that make arrays from nothing or from host values."""
    return {"device": there.device} if "device" in _call(name)[1] else {}


def test_every_name_is_there():
    assert [name for name in NAMES if not _has(np, name)] == []
    assert [name for name in dir(type(strict.empty(0))) if _public(name) and not hasattr(np.ndarray, name)] == []


def _has(space, name):
    *parents, last = name.split(".")
    for each in parents:
        space = getattr(space, each)
    return hasattr(space, last)


def _public(name):
    return (name.startswith("__") or not name.startswith("_")) and name not in (
        "__annotations__",
        "__buffer__",
        "__module__",
    )


def test_the_table_of_calls_has_every_argument_of_the_standards():
    for name in FUNCTIONS:
        parameters = inspect.signature(api.named(strict, name)).parameters.values()
        positional, by_name = _call(name)
        assert set(by_name) == {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}, name
        if all(each.kind is not each.VAR_POSITIONAL for each in parameters):
            assert len(positional) == sum(each.kind is not each.KEYWORD_ONLY for each in parameters), name


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_take_the_arguments(name, there):
    positional, by_name = _call(name)
    options = {key: _dtypes(api.ours, value) for key, value in by_name.items()} | _at_the_owner(name, there)
    arguments = [_dtypes(api.ours, each) for each in positional]
    api.tried[name] += 1
    found = api.named(np, name)(*arguments, **options)
    if name == "from_dlpack":
        expected = F
    else:
        options = {key: _dtypes(api.theirs, value) for key, value in by_name.items()}
        expected = api.named(strict, name)(*(_dtypes(api.theirs, each) for each in positional), **options)
    if name in DECOMPOSITIONS:
        assert [each.shape for each in found] == [each.shape for each in expected] and found._fields == expected._fields
    elif name in ("finfo", "iinfo"):
        assert all(getattr(found, each) == getattr(expected, each) for each in ("bits", "max", "min"))
        assert name == "iinfo" or (found.eps, found.smallest_normal) == (expected.eps, expected.smallest_normal)
    elif name == "result_type":
        assert found == numpy.dtype("int16")
    elif name != "__array_namespace_info__":
        assert not api.difference(api.host(found), api.host(expected), ulps=32, signs=False)
        if isinstance(found, np.ndarray):
            assert found.device == there.device


def test_functions_that_a_step_refuses_are_those_whose_results_have_no_known_size(there):
    """Every other function records without reading."""
    refused = set()
    for name in FUNCTIONS:
        positional, by_name = _call(name)
        try:
            with sojourn.step():
                arguments = [_dtypes(api.ours, each) for each in positional]
                options = {key: _dtypes(api.ours, value) for key, value in by_name.items()} | _at_the_owner(name, there)
                api.named(np, name)(*arguments, **options)
        except (sojourn.Error, sojourn.Refused) as error:
            print(name, error)
            refused.add(name)
    assert refused == {name.removeprefix("size of ") for name in api.DIFFERENCES if name.startswith("size of ")}


def test_defaults_are_the_standards():
    differing = {}
    for name in FUNCTIONS:
        ours = (
            inspect.signature(api.named(np, name)).parameters if not isinstance(api.named(np, name), np.ufunc) else {}
        )
        for key, each in inspect.signature(api.named(strict, name)).parameters.items():
            if each.default is each.empty or key not in ours:
                continue
            found = ours[key].default
            is_unset = found is None or found is numpy._NoValue
            if found != each.default and not (is_unset and each.default in UNSET.get(key, (None, False))):
                differing[f"{name}({key}={found})"] = each.default
    assert differing == {"eye(dtype=<class 'float'>)": None}, differing


#: What a default that says nothing means, beside None and False: every sort is stable, and so on.
UNSET = {"stable": (True,), "norm": ("backward",), "device": (OPEN,), "copy": (OPEN,)}


def test_every_difference_has_its_test():
    kinds = ("dtype ", "sums of uint8", "unchecked matrices", "dlpack", "size of ")
    assert [name for name in api.DIFFERENCES if not name.startswith(kinds)] == []


# The array.


def test_attributes_and_conversions(there):
    x = np.asarray(F)
    assert (x.dtype, x.device, x.ndim, x.shape, x.size) == (np.float64, there.device, 2, (2, 3), 6)
    assert not api.difference(api.host(x.T), F.T) and not api.difference(api.host(x.mT), F.T)
    with pytest.raises(ValueError, match="matrix transpose"):
        np.asarray(G).mT
    for version in (None, "2021.12", "2022.12", "2023.12", api.VERSION):
        assert x.__array_namespace__(api_version=version) is np
    with pytest.raises(ValueError, match="unknown"):
        x.__array_namespace__(api_version="1999.12")
    for kind, value in ((bool, True), (int, 3), (float, 2.5), (complex, 1 + 2j)):
        assert kind(np.asarray(value)) == value
    assert list(range(9))[np.asarray(4)] == 4
    assert x.to_device(there.device).device == there.device and x.to_device(there.device) is not None
    with pytest.raises(ValueError, match="stream"):
        x.to_device(there.device, stream=1)


def test_memory_is_not_shared_with_this_process():
    x = np.asarray(F)
    assert "dlpack" in api.DIFFERENCES
    for call in (x.__dlpack__, x.__dlpack_device__, lambda: x.__dlpack__(max_version=(1, 0), copy=True)):
        with pytest.raises(BufferError):
            call()


# The namespace.


def test_constants():
    assert (np.e, np.pi, np.inf, np.newaxis) == (strict.e, strict.pi, strict.inf, None) and np.nan != np.nan
    assert np.__array_api_version__ == api.VERSION


def test_description(there):
    info, reference = np.__array_namespace_info__(), strict.__array_namespace_info__()
    found, expected = info.capabilities(), reference.capabilities()
    assert set(found) == set(expected) and found["boolean indexing"] and found["data-dependent shapes"]
    most = found["max dimensions"]
    assert api.host(np.ones((1,) * most) + 1).ndim == most
    with pytest.raises(sojourn.Unsupported, match=f"at most {most} dims"):
        api.host(np.ones((1,) * (most + 1)) + 1)
    assert info.default_device() == there.device and there.device in info.devices()
    assert np.asarray([1.0]).device == info.default_device()
    defaults = info.default_dtypes(device=there.device)
    assert set(defaults) == set(reference.default_dtypes())
    made = {"real floating": 1.0, "complex floating": 1j, "integral": 1}
    assert all(np.asarray(value).dtype == defaults[kind] for kind, value in made.items())
    assert np.argmax(np.asarray(G)).dtype == defaults["indexing"]


KINDS = [None, "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric",
         ("bool", "integral")]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_dtypes(kind):
    found = np.__array_namespace_info__().dtypes(kind=kind)
    expected = strict.__array_namespace_info__().dtypes(kind=kind)
    absent = {name.removeprefix("dtype ") for name in api.DIFFERENCES if name.startswith("dtype ")}
    assert set(found) == set(expected) - absent
    assert all(dtype == getattr(np, name) for name, dtype in found.items())
    for name in set(expected) & absent:
        with pytest.raises(TypeError, match="not held by owners"):
            np.zeros(2, dtype=getattr(np, name))


@pytest.mark.parametrize("name", api.DTYPES)
def test_kinds_of_dtypes(name):
    for kind in KINDS[1:]:
        assert np.isdtype(getattr(np, name), kind) == strict.isdtype(getattr(strict, name), kind)
        assert np.isdtype(np.zeros(1, dtype=name).dtype, kind) == strict.isdtype(getattr(strict, name), kind)
    for other in api.DTYPES:
        if numpy.dtype(name).kind == numpy.dtype(other).kind:  # the standard leaves the others open
            api.tried["can_cast"] += 1
            expected = strict.can_cast(getattr(strict, name), getattr(strict, other))
            assert np.can_cast(np.zeros(1, dtype=name), getattr(np, other)) == expected
        try:
            expected = strict.result_type(getattr(strict, name), getattr(strict, other))
        except TypeError:
            continue
        api.tried["result_type"] += 1
        assert np.result_type(np.zeros(1, dtype=name), getattr(np, other)) == expected._np_dtype
        assert np.result_type(getattr(np, name), np.zeros(1, dtype=other)) == expected._np_dtype


@api.examples(60)
@given(st.data())
def test_astype(data):
    x = data.draw(api.array(small=True))
    to = data.draw(st.sampled_from(api.DTYPES))
    if x.dtype.kind == "c" and numpy.dtype(to).kind != "c":
        return  # the standard refuses it, and so does array_api_strict; NumPy takes the real part
    if x.dtype.kind in "if" and numpy.dtype(to).kind == "u":
        x = abs(x)
    expected = x.astype(to)
    api.tried["astype"] += 1
    assert not api.difference(api.host(np.astype(np.asarray(x), getattr(np, to))), expected)
    same = np.astype(np.asarray(x), x.dtype, copy=True)
    same[...] = 1
    assert not api.difference(api.host(np.astype(same, to)), numpy.ones_like(x).astype(to))


def test_totals(capsys):
    with capsys.disabled():
        print(f"\n{api.totals('names, arguments, dtypes')}")
