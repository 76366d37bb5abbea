# SPDX-License-Identifier: Apache-2.0
"""New arrays, ranges, grids and index sets, beside NumPy."""

import inspect
import io

import numpy
import pytest
import torch
from arrays_support import DTYPES, compare, difference, draw, host

import sojourn
import sojourn.numpy as np
from sojourn.numpy import _creation, _index_sets, _ranges

F32 = numpy.float32


@pytest.mark.parametrize("module", (_creation, _ranges, _index_sets), ids=lambda m: m.__name__)
def test_signatures(module):
    def plain(function):
        return [(each.name, each.kind, each.default) for each in inspect.signature(function).parameters.values()]

    for name in module.__all__:
        if name not in ("mgrid", "ogrid", "array", "fromstring"):  # array takes device, too
            assert plain(getattr(np, name)) == plain(getattr(numpy, name)), name


@pytest.mark.parametrize("dtype", (*DTYPES, None, float, int, complex, bool, torch.float32))
def test_constants(rng, dtype):
    def asked(value):
        return {"dtype": numpy.float32 if value is torch.float32 else value}

    for shape in ((), 3, (2, 3), [0, 2], (numpy.int64(2), 1), -1, (2, -1), 1.5):
        for name in ("zeros", "ones"):
            compare(name, shape, **asked(dtype))
        for value in (0, 1, 2.5, True):
            compare("full", shape, value, **asked(dtype))
    assert np.zeros(2, dtype).dtype == numpy.zeros(2, asked(dtype)["dtype"]).dtype
    assert np.empty((2, 3), dtype).shape == (2, 3) and np.empty(2, dtype).dtype == np.zeros(2, dtype).dtype
    for k in (0, 1, -1, 5, -5):
        compare("eye", 3, 4, k, **asked(dtype))
        compare("tri", 3, 4, k, **asked(dtype))
    compare("identity", 3, **asked(dtype))
    compare("eye", 0)
    compare("eye", -1)
    compare("tri", 2)


def test_full(rng):
    for value in (
        300,
        -1,
        1e10,
        numpy.float32(2),
        numpy.int8(3),
        [1, 2, 3],
        draw(rng, "float32", (2, 1)),
        draw(rng, "int8", 2),
        1j,
        numpy.nan,
        numpy.array(2),
    ):
        compare("full", (2, 3), value)
        compare("full_like", draw(rng, "int8", (2, 3)), value)
        compare("full_like", draw(rng, "float32", (2, 3)), value, dtype="float64")
        # Negative floats as uint8 are undefined.
        compare("full", (2, 3), numpy.abs(value) if isinstance(value, numpy.ndarray) else value, "uint8")
    made = np.full((2, 3), np.asarray(F32(4)))
    made[0, 0] = 1
    assert host(made).tolist() == [[1, 4, 4], [4, 4, 4]]


@pytest.mark.parametrize("dtype", DTYPES)
def test_like(rng, dtype):
    x = draw(rng, dtype, (2, 3))
    for to in (None, "float32", "bool"):
        for shape in (None, 4, (1, 2), ()):
            compare("zeros_like", x, to, shape=shape)
            compare("ones_like", x, dtype=to, shape=shape)
            compare("full_like", x, 1, dtype=to, shape=shape)
            assert np.empty_like(np.asarray(x), to, shape=shape).dtype == numpy.empty_like(x, to).dtype
    assert type(np.zeros_like(x)) is np.ndarray and np.zeros_like([1, 2]).dtype == numpy.int64


def test_array(rng, there):
    x = draw(rng, "float32", (2, 3))
    y = np.asarray(x)
    for value in (
        1,
        [1, 2.5],
        ((1, 2), (3, 4)),
        [],
        x,
        [True, 2],
        [[1], [2, 3]],
        "text",
        None,
        numpy.zeros(2, "uint16"),
        x[::-1],
        x.astype(">f4"),
    ):
        try:
            expected = numpy.array(value)
            held = expected.dtype.newbyteorder("=") in np._dtypes.TORCH
        except ValueError:
            held = False
        if held:
            assert not difference(np.array(value), expected.astype(expected.dtype.newbyteorder("=")))
        else:
            with pytest.raises((TypeError, ValueError)):
                np.array(value)
    compare("array", x, "int8")
    compare("array", x, ndmin=4)
    compare("array", [x, x])
    compare("array", [[x[0], [1, 2, 3]], [[4, 5, 6], x[1]]])
    assert not np.shares_memory(np.array(y), y) and np.shares_memory(np.array(y, copy=None), y)
    assert np.array(y, copy=False).tensor is y.tensor and np.asanyarray(y).tensor is y.tensor
    with pytest.raises(ValueError, match="copy=False"):
        np.array(x, copy=False)
    with pytest.raises(ValueError, match="ndmax"):
        np.array(x, ndmax=1)
    assert np.array(x, device=there).device == there.device and np.array(x, like=y).device == there.device
    assert np.zeros(2, device=there.device).device == there.device
    with pytest.raises(TypeError, match="is no owner's"):
        np.zeros(2, device="cpu")
    for name in ("ascontiguousarray", "asfortranarray", "asarray_chkfinite", "copy", "asanyarray"):
        for value in (x, x.T, draw(rng, "int8", ()), draw(rng, "bool", (0, 2))):
            compare(name, value)
    assert np.asfortranarray(y).strides == numpy.asfortranarray(x).strides and np.ascontiguousarray(y.T).strides == (
        8,
        4,
    )
    compare("asarray_chkfinite", numpy.array([1, numpy.nan]))
    compare("asarray_chkfinite", numpy.array([1, 2]), "float32")
    assert not np.shares_memory(np.copy(y), y)


def test_from_elsewhere(rng):
    x = draw(rng, "float64", 4)
    compare("frombuffer", x.tobytes())
    compare("frombuffer", x.tobytes(), "float32", 3, 8)
    compare("frombuffer", b"abc", "uint8")
    compare("frombuffer", b"abc", "float32")
    assert not difference(np.fromiter(iter(range(5)), "float32"), numpy.arange(5, dtype="float32"))
    assert not difference(np.fromiter((k * k for k in range(9)), int, 3), numpy.array([0, 1, 4]))
    compare("fromstring", "1 2.5 3", sep=" ")
    compare("fromstring", "1, 2, 3", int, 2, sep=",")
    assert not difference(np.from_dlpack(x), x)
    assert not difference(np.from_dlpack(torch.arange(3)), numpy.arange(3))
    assert np.from_dlpack(np.asarray(x)).shape == (4,)
    assert io  # the file functions live elsewhere


@pytest.mark.parametrize(
    "args",
    (
        (5,), (0,), (-3,), (2, 9), (2, 9, 3), (9, 2, -2), (5.5,), (0, 1, 0.1), (1, 0, -0.25), (0, 5, 0), (0.0, 1.0, 0.0), (F32(3),), (F32(0), F32(2), F32(0.3)),
        (0, F32(2)), (numpy.int8(4),), (numpy.uint8(2), numpy.uint8(9)), (True,), (1, 3.5), (0, numpy.inf), (numpy.nan,), (2**40, 2**40 + 3), (3j,), (0.5, 4),
        (10, 0), (numpy.array(4),), (-1.5, 1.5, 0.5), (0, 10, numpy.int16(3)), (1, 2, 0.3333),
    ),
)  # fmt: skip
@pytest.mark.parametrize("dtype", (None, "int8", "int64", "float16", "float32", "float64", "complex64", "bool"))
def test_arange(args, dtype):
    compare("arange", *args, dtype=dtype)
    if len(args) == 3:
        compare("arange", args[0], stop=args[1], step=args[2], dtype=dtype)


@pytest.mark.parametrize(
    "bounds",
    (
        (0, 1),
        (3, -2),
        (2.5, 2.5),
        (0, 5e-324),
        (1j, 2),
        (F32(0), F32(1)),
        (-1, 10**6),
        (True, 4),
        (0, numpy.inf),
        (numpy.int8(100), numpy.int8(-100)),
    ),
)
@pytest.mark.parametrize("num", (0, 1, 2, 7, 50, -1, 2.5))
def test_linspace(bounds, num):
    for endpoint in (True, False):
        for dtype in (None, "float32", "int64", "float16", "complex64", "bool"):
            if dtype == "int64" and bounds[1] == numpy.inf:
                continue  # the conversion is undefined
            compare("linspace", *bounds, num, endpoint, dtype=dtype)
        compare("linspace", *bounds, num, endpoint, retstep=True)


@pytest.mark.parametrize("axis", (0, 1, -1, 2, 3))
@pytest.mark.parametrize("endpoint", (True, False))
def test_spaces_of_arrays(rng, axis, endpoint):
    for first, last in ((draw(rng, "float32", 3), draw(rng, "float32", 3)), (draw(rng, "int8", (2, 1)), 5), (0.5, draw(rng, "float64", 3)),
                        (draw(rng, "float32", 3), draw(rng, "float64", (2, 1))), (draw(rng, "complex64", 2), 3), (draw(rng, "bool", 2), draw(rng, "int64", 2)),
                        (draw(rng, "float32", ()), draw(rng, "float32", ()))):  # fmt: skip
        for num in (0, 1, 4):
            compare("linspace", first, last, num, endpoint, axis=axis)
            compare("linspace", first, last, num, endpoint, True, axis=axis)
            compare("linspace", first, last, num, endpoint, axis=axis, dtype="complex64")
            compare("logspace", first, last, num, endpoint, axis=axis, rtol=1e-5)
            compare("logspace", first, last, num, endpoint, 2.0, axis=axis, rtol=1e-5)
            compare(
                "logspace",
                numpy.abs(first),
                2,
                num,
                endpoint,
                base=numpy.array([2.0, 3.0])[:, None, None],
                axis=axis,
                rtol=1e-5,
            )
        if not isinstance(first, float) and first.dtype != bool:
            compare("geomspace", numpy.abs(first) + 1, 7, 5, endpoint, axis=axis, rtol=1e-5)


@pytest.mark.parametrize(
    "bounds", ((1, 1000), (1000, 1), (-1000, -1), (0, 2), (1, 0), (1j, 1000j), (-1, 2 + 1j), (F32(1), F32(8)), (2, 2))
)
@pytest.mark.parametrize("num", (0, 1, 2, 4, 9, -1))
def test_geomspace(bounds, num):
    for endpoint in (True, False):
        for dtype in (None, "float32", "complex64"):
            compare("geomspace", *bounds, num, endpoint, dtype=dtype, rtol=1e-6)
            if not isinstance(bounds[1], complex):
                compare("logspace", 0, 3, num, endpoint, bounds[0], dtype=dtype, rtol=1e-6)


def test_spaces_of_integers():
    compare("geomspace", 1, 1000, 2, dtype=int)
    compare("logspace", 0, 1, 2, base=7.0, dtype="int8")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", ((), (0,), (4,), (3, 4), (4, 2), (2, 3, 3), (0, 3)))
def test_matrices(rng, dtype, shape):
    x = draw(rng, dtype, shape, special=True)
    for k in (0, 1, -1, 7, -7):
        for name in ("tril", "triu", "diag", "diagflat"):
            compare(name, x, k)
    for count in (None, 0, 1, 3, -1):
        for increasing in (False, True):
            compare("vander", draw(rng, dtype, shape), count, increasing)


def test_diag_is_a_view():
    x = np.zeros((2, 2))
    np.diag(x)[:] = 3
    assert host(x).tolist() == [[3, 0], [0, 3]]


@pytest.mark.parametrize("indexing", ("xy", "ij", "x"))
@pytest.mark.parametrize("sparse", (False, True))
def test_meshgrid(rng, indexing, sparse):
    v = [draw(rng, dtype, n) for dtype, n in (("float32", 3), ("int8", 2), ("bool", 4), ("complex64", 1))]
    for count in range(5):
        for copy in (True, False):
            compare("meshgrid", *v[:count], sparse=sparse, indexing=indexing, copy=copy)
    compare("meshgrid", v[0], 2.5, sparse=sparse, indexing=indexing)
    compare("meshgrid", v[0], draw(rng, "int8", (2, 2)), sparse=sparse, indexing=indexing)
    one, two = np.meshgrid(np.arange(2), np.arange(3))
    one[0, 0] = 7
    assert host(one).tolist() == [[7, 1], [0, 1], [0, 1]] and host(two).tolist() == [[0, 0], [1, 1], [2, 2]]


def test_grids():
    for sparse in (False, True):
        for dtype in (int, "float32", "int8"):
            for dimensions in ((2, 3), (), (4,), (0, 2), (2, 1, 3)):
                compare("indices", dimensions, dtype, sparse)
    for key in (
        numpy.s_[0:3],
        numpy.s_[0:1:5j],
        numpy.s_[0:3, 1:4],
        numpy.s_[0:1:0.3, 2:5],
        numpy.s_[0:1:3j, 0:2],
        numpy.s_[3:0:-1, :2, 0:1:2j],
    ):
        for name in ("mgrid", "ogrid"):
            found, expected = getattr(np, name)[key], getattr(numpy, name)[key]
            assert not difference(host(found), expected), (name, key)
            assert type(found) is (np.ndarray if isinstance(expected, numpy.ndarray) else tuple)
    for shape in ((2, 3), (3,), (0, 2)):
        for dtype in (int, float, "float32"):
            compare("fromfunction", lambda *x: x[0] * 2 + x[-1], shape, dtype=dtype)
    compare("fromfunction", lambda x, y, scale: x * scale, (2, 2), scale=3)


def test_index_sets(rng):
    for n in (0, 1, 3):
        for k in (0, 1, -1):
            for m in (None, 2, 5):
                compare("tril_indices", n, k, m)
                compare("triu_indices", n, k=k, m=m)
        compare("diag_indices", n)
        compare("diag_indices", n, 3)
        compare("mask_indices", n, numpy.triu, 1)
        assert not difference(host(np.mask_indices(n, np.tril)), list(numpy.mask_indices(n, numpy.tril)))
    for shape in ((2, 3), (3, 3), (3,), (2, 2, 2), ()):
        x = draw(rng, "float32", shape)
        for name in ("tril_indices_from", "triu_indices_from", "diag_indices_from"):
            compare(name, x)
    compare("ix_", draw(rng, "int64", 3), draw(rng, "bool", 4), [0, 1])
    compare("ix_", draw(rng, "int64", 3), draw(rng, "int8", (2, 2)))
    compare("ix_", draw(rng, "float32", 0))
    x = draw(rng, "float32", (3, 4))
    assert not difference(np.asarray(x)[np.tril_indices(3)], x[numpy.tril_indices(3)])
    assert not difference(np.asarray(x)[np.ix_(np.arange(2), np.arange(3))], x[numpy.ix_([0, 1], [0, 1, 2])])


def test_in_a_step(rng):
    x, v = draw(rng, "float32", (3, 4)), draw(rng, "float32", 3)

    def function(np, x, v):
        made = np.full((2, 3), v)
        made[0, 0] = 1
        return [
            np.zeros(3), np.ones_like(x), made, np.arange(0, 1, 0.25), np.linspace(np.min(v), np.max(v), 5), np.linspace(0, 1, 5), np.logspace(0, 1, 3),
            np.geomspace(1, 8, 4), np.eye(3, 4, 1), np.tri(3), np.tril(x), np.diag(v, 1), np.diag(x[:, :3]), np.vander(v, 3), *np.meshgrid(v, x[0]),
            np.indices((2, 3)), np.mgrid[0:2, 0:3], x[np.triu_indices(3)], np.array(x, copy=True), np.fromfunction(lambda i, j: i + j, (2, 2)), np.copy(x),
        ]  # fmt: skip

    found = sojourn.step(lambda: function(np, np.asarray(x), np.asarray(v)))()
    assert not difference(host(found), function(numpy, x, v))
