# SPDX-License-Identifier: Apache-2.0
"""Shapes, axes, broadcasting, order, repetition and margins, beside NumPy."""

import inspect

import numpy
import pytest
import torch
from arrays_support import DTYPES, compare, difference, draw, host

import sojourn
import sojourn.numpy as np
from sojourn.numpy import _joining, _manipulation, _padding, _rearranging

SHAPES = ((), (0,), (5,), (1, 4), (2, 3), (0, 3), (2, 1, 3), (3, 4, 2))


def plain(function):
    return [(each.name, each.kind, each.default) for each in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize("module", (_manipulation, _rearranging, _padding, _joining), ids=lambda m: m.__name__)
def test_signatures(module):
    for name in module.__all__:
        reference = getattr(numpy, name)
        if callable(reference) and name != "broadcast_shapes":
            assert plain(getattr(np, name)) == plain(reference), name


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(rng, dtype):
    x = draw(rng, dtype, (2, 3, 4), special=True)
    v = draw(rng, dtype, 5)
    compare("reshape", x, (4, -1))
    compare("ravel", x, "F")
    compare("transpose", x)
    compare("flip", x, 1)
    compare("roll", x, 5)
    compare("rot90", x)
    compare("tile", x, (2, 1))
    compare("repeat", x, [1, 0, 2], 1)
    compare("resize", v, (3, 4))
    compare("delete", v, [1, 3])
    compare("insert", v, [1, 3], draw(rng, dtype, 2))
    compare("append", x, x)
    compare("broadcast_to", v, (3, 5))
    compare("trim_zeros", v)
    for mode in ("constant", "edge", "reflect", "symmetric", "wrap", "linear_ramp", "mean"):
        compare("pad", x, 2, mode)
    compare("iscomplexobj", x)
    compare("isrealobj", x)


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape(rng, shape):
    x = draw(rng, "float32", shape)
    for name in ("ravel", "transpose", "permute_dims", "matrix_transpose", "squeeze", "atleast_1d", "atleast_2d", "atleast_3d",
                 "flip", "flipud", "fliplr", "rot90", "shape", "ndim", "size", "trim_zeros"):  # fmt: skip
        compare(name, x)
    for axis in (0, -1, 1, 3, -4, (0, 1), (0, 0), (), (-1, 0)):
        compare("flip", x, axis)
        compare("squeeze", x, axis)
        compare("expand_dims", x, axis)
        compare("size", x, axis)
        if shape or axis != ():  # of no dimensions NumPy fails there
            compare("roll", x, 2, axis)
        compare("trim_zeros", x, "f", axis)
    for order in ("C", "F", "A", "K", "X"):
        compare("ravel", x, order)
        compare("reshape", x, -1, order=order)
    compare("reshape", x, shape[::-1], order="F")
    for reps in (2, (), (2, 1), (0, 2), (1, 2, 3), (1, 2, 1, 2), [2], -1):
        compare("tile", x, reps)
    for new in (4, (2, 3), (0,), (), (3, 1, 2), (-1, 2)):
        compare("resize", x, new)


@pytest.mark.parametrize("order", ("C", "F", "A"))
@pytest.mark.parametrize(
    "new", (24, -1, (6, 4), (-1, 2, 2), (2, 3, 4), (5, -1), (-1, -1), (2, 3), [4, 6], (0, -1), (-2, 3))
)
def test_reshape(rng, new, order):
    x = draw(rng, "int32", (2, 3, 4))
    compare("reshape", x, new, order=order)
    compare("reshape", x, new, order)
    compare("reshape", draw(rng, "int32", (0, 3)), new, order=order)


def test_orders_of_transposed_memory(rng):
    x = draw(rng, "float64", (2, 3, 4))
    there = np.asarray(x)
    views = (
        lambda np, y: y.T,
        lambda np, y: np.swapaxes(y, 0, 1),
        lambda np, y: y[:, 1:],
        lambda np, y: np.moveaxis(y, 0, 1),
    )
    for view in views:
        for order in "CFAK":
            ours, reference = view(np, there), view(numpy, x)
            assert not difference(np.ravel(ours, order), numpy.ravel(reference, order))
            if order != "K":
                assert not difference(np.reshape(ours, -1, order), numpy.reshape(reference, -1, order))
        assert np.isfortran(ours) == numpy.isfortran(reference)
    assert np.require(there, requirements="F").strides == numpy.require(x, requirements="F").strides
    assert np.require(there.T, requirements=["C"]).strides == numpy.require(x.T, requirements=["C"]).strides
    with pytest.raises(ValueError, match="Cannot specify both"):
        np.require(there, requirements=["C", "F"])


def test_views_and_copies(rng):
    x = np.asarray(draw(rng, "float32", (2, 3, 4)))
    y = np.asarray(draw(rng, "float32", (1, 3)))
    views = (np.reshape(x, (6, 4)), x.T, np.ravel(x), np.moveaxis(x, 0, 2), np.expand_dims(x, 0), np.split(x, 2)[1], x[0], np.rollaxis(x, 2),
             np.reshape(x, -1, copy=False), np.swapaxes(x, 0, 1), np.matrix_transpose(x), np.unstack(x, axis=1)[0], np.atleast_1d(x))  # fmt: skip
    for view in views:
        assert np.shares_memory(x, view) and np.may_share_memory(view, x)
    copies = (np.reshape(x, -1, copy=True), np.flip(x), np.ravel(x.T), np.tile(x, 1), np.pad(x, 0), np.roll(x, 0), np.roll(x, 0, ()), np.resize(x, 24),
              np.repeat(x, 1), np.append(x, []), np.pad(x, 0, "edge"), np.rot90(x, 0), np.block(x))  # fmt: skip
    for copied in copies:
        assert not np.shares_memory(x, copied)
    assert not np.shares_memory(x[0], x[1]) and not np.may_share_memory(x[0], x[1])
    assert not np.shares_memory(x[..., ::2], x[..., 1::2]) and np.may_share_memory(x[..., ::2], x[..., 1::2])
    assert not np.shares_memory(x, numpy.zeros(3))
    with pytest.raises(ValueError, match="Unable to avoid"):
        np.reshape(x.T, -1, copy=False)
    np.squeeze(y)[1] = 7
    assert float(y[0, 1]) == 7


@pytest.mark.parametrize("axes", (None, (1, 0, 2), (-1, 0, 1), [2, 1, 0], (0, 1), (0, 0, 1), (0, 1, 3), 0))
def test_transpose(rng, axes):
    x = draw(rng, "float32", (2, 3, 4))
    compare("transpose", x, axes)
    compare("permute_dims", x, axes)
    compare("transpose", draw(rng, "float32", 3), axes)


@pytest.mark.parametrize(
    "source, destination",
    ((0, -1), (2, 0), ((0, 1), (-1, -2)), ([0, 2], [1, 0]), (0, 3), (-4, 0), ((0, 0), (1, 2)), ((0, 1), 0), (1, 1)),
)
def test_moveaxis(rng, source, destination):
    compare("moveaxis", draw(rng, "int8", (2, 3, 4)), source, destination)
    if isinstance(source, int) and isinstance(destination, int):
        compare("swapaxes", draw(rng, "int8", (2, 3, 4)), source, destination)


@pytest.mark.parametrize("axis", range(-4, 4))
@pytest.mark.parametrize("start", (-4, -3, -1, 0, 1, 3, 4))
def test_rollaxis(rng, axis, start):
    compare("rollaxis", draw(rng, "int8", (2, 3, 4)), axis, start)


def test_broadcasting(rng):
    x = draw(rng, "float32", (3, 1))
    for new in ((3, 4), (2, 3, 4), 3, (3,), (2, 4), (3, 0), (), (3, -1), (-1, 4)):
        compare("broadcast_to", x, new)
    compare("broadcast_arrays", x, draw(rng, "int8", 4), 3.0)
    compare("broadcast_arrays", x, draw(rng, "int8", 4), draw(rng, "bool", (2, 1, 1)))
    compare("broadcast_arrays", x, draw(rng, "int8", (2, 4)))
    compare("atleast_1d", x, 3.0)
    compare("atleast_2d", x, draw(rng, "int8", 4))
    compare("atleast_3d", x, draw(rng, "int8", 4), 2)
    assert np.broadcast_shapes((2, 1), (3,)) == (2, 3)
    with pytest.raises(ValueError, match=r"remapped shapes \[original->remapped\]: \(3,1\)"):
        np.broadcast_to(np.asarray(x), (2, 4))


@pytest.mark.parametrize(
    "shift, axis",
    ((1, None), (-7, None), (2, 0), (-1, -1), ((1, 2), (0, 1)), (1, (0, 2)), ((1, 2), 1), ((1, 2, 3), (0, 1)), (0, ()), (1, 3), ((1, 2), None), (99, 2)),
)  # fmt: skip
def test_roll(rng, shift, axis):
    x = draw(rng, "float32", (2, 3, 4))
    if (shift, axis) != ((1, 2), None):  # NumPy adds shifts up there
        compare("roll", x, shift, axis)
    else:
        compare("roll", x, 3)
    compare("roll", draw(rng, "float32", (0, 3)), 1)


def test_roll_by_a_remote_shift(rng):
    x = draw(rng, "float32", (2, 5))
    for shift in (0, 3, -8):
        there = np.asarray(numpy.array(shift))
        assert not difference(np.roll(np.asarray(x), there), numpy.roll(x, shift))
        assert not difference(np.roll(np.asarray(x), there, 1), numpy.roll(x, shift, 1))


@pytest.mark.parametrize("k", (-5, -1, 0, 1, 2, 3, 4))
@pytest.mark.parametrize("axes", ((0, 1), (1, 0), (-1, 0), (1, 2), (0, 0), (0, -3), (0, 3), (0,)))
def test_rot90(rng, k, axes):
    compare("rot90", draw(rng, "complex64", (2, 3, 4)), k, axes)


@pytest.mark.parametrize("axis", (None, 0, 1, -1, 2))
@pytest.mark.parametrize("repeats", (0, 1, 3, -1, [2], [1, 2, 0], [1, 2], 1.0, [[1, 2, 0]], numpy.int64(2), True, []))
def test_repeat(rng, repeats, axis):
    compare("repeat", draw(rng, "float32", (2, 3)), repeats, axis)


@pytest.mark.parametrize("axis", (None, 0, 1, -1, 2))
@pytest.mark.parametrize(
    "obj",
    (0, 2, -1, 3, -4, 99, slice(None), slice(1, None), slice(None, None, -2), [0, 2], [-1, 0, 0], [], [5], (1, 2), 1.5, True, [True, False, True],
     numpy.int64(1), [[0, 1]]),
)  # fmt: skip
def test_delete(rng, obj, axis):
    compare("delete", draw(rng, "float32", (4, 3)), obj, axis)


@pytest.mark.parametrize("axis", (None, 0, 1, -1, 2))
@pytest.mark.parametrize(
    "obj", (0, 2, -1, 3, -4, 99, slice(1, None), slice(None, None, -1), [1], [-1], [0, 2], [3, 0, 0], [], [9], [1, 9], [True, False, True], [[0, 1]], 1.5)
)  # fmt: skip
def test_insert(rng, obj, axis):
    x = draw(rng, "float32", (4, 3))
    if isinstance(obj, list) and obj and isinstance(obj[0], bool):
        obj = numpy.array(obj)
        with pytest.raises(TypeError, match="has to be known"):
            np.insert(np.asarray(x), np.asarray(obj), 1)
        ours = np.insert(np.asarray(x), obj, 1.5, axis) if axis != 2 else None
        assert ours is None or not difference(ours, numpy.insert(x, obj, 1.5, axis))
        return
    for values in (
        1,
        2.75,
        draw(rng, "float64", 3),
        draw(rng, "int8", 4),
        draw(rng, "float32", (4, 1)),
        draw(rng, "float32", (2, 3)),
        draw(rng, "float32", (1, 1, 1)),
    ):
        compare("insert", x, obj, values, axis)
    compare("insert", draw(rng, "int8", 5), obj, 2.75)


def test_append(rng):
    x = draw(rng, "float32", (2, 3))
    for values in (1, [1, 2], x, draw(rng, "int64", (1, 3)), draw(rng, "int64", (2, 1))):
        for axis in (None, 0, 1, -1, 2):
            compare("append", x, values, axis)


def test_trim_zeros(rng):
    for values in ([0, 0, 1, 2, 0, 3, 0], [0, 0, 0], [], [1], [numpy.nan, 0.0], [0.0, 1j, 0]):
        for trim in ("fb", "f", "b", "BF", "x", ""):
            compare("trim_zeros", numpy.array(values), trim)
    x = numpy.zeros((5, 6, 3))
    x[1:3, 2:4, 1] = 1
    for axis in (None, 0, 1, (0, 2), (), 3):
        for trim in ("fb", "f", "b"):
            compare("trim_zeros", x, trim, axis)
            compare("trim_zeros", x * 0, trim, axis)


@pytest.mark.parametrize("dtype", ("bool", "uint8", "int32", "float16", "float32", "complex64"))
@pytest.mark.parametrize(
    "width",
    (
        0,
        1,
        5,
        (2, 0),
        ((1, 2),),
        ((0, 3), (4, 1)),
        [[2], [3]],
        ((1, 2), (3, 4), (5, 6)),
        -1,
        1.5,
        [],
        {0: 2},
        {-1: (1, 0)},
    ),
)
def test_pad_widths(rng, dtype, width):
    x = draw(rng, dtype, (2, 3))
    for mode in ("constant", "edge", "reflect", "symmetric", "wrap", "linear_ramp", "mean"):
        compare("pad", x, width, mode)
        if dtype == "float32":
            compare("pad", draw(rng, dtype, (0, 3)), width, mode)
            compare("pad", draw(rng, dtype, ()), width, mode)
            compare("pad", draw(rng, dtype, (1, 3)), width, mode)
    if not dtype.startswith("complex"):
        for mode in ("minimum", "maximum", "median"):
            compare("pad", x, width, mode)
    for mode in ("reflect", "symmetric"):
        compare("pad", x, width, mode, reflect_type="odd")
        compare("pad", draw(rng, dtype, 4), 17, mode, reflect_type="odd")


@pytest.mark.parametrize("dtype", ("uint8", "int32", "float32", "complex64"))
def test_pad_options(rng, dtype):
    x = draw(rng, dtype, (3, 4), special=True)
    for values in (0, 3, 2.75, (1, 2), ((1, 2), (3, 4)), ((1, 2, 3),), [[5], [6]]):
        compare("pad", x, ((2, 1), (0, 3)), constant_values=values)
        compare("pad", draw(rng, dtype, (3, 4)), ((2, 1), (1, 3)), "linear_ramp", end_values=values)
    for length in (None, 1, 2, 9, (1, 2), ((1, 2), (3, 1)), -1):
        for mode in ("mean",) if dtype == "complex64" else ("mean", "median", "maximum", "minimum"):
            compare("pad", x, ((2, 1), (0, 3)), mode, stat_length=length)
    compare("pad", draw(rng, "float64", 3), 1, "maximum", stat_length=0)
    compare("pad", x, 1, "edge", constant_values=1)
    compare("pad", x, 1, "unknown")
    remote = np.asarray(x)
    assert np.pad(remote, 2, "empty").shape == (7, 8)
    with pytest.raises(NotImplementedError, match="assign to slices"):
        np.pad(remote, 1, lambda *_: None)


def test_pad_with_remote_values(rng):
    x = draw(rng, "float32", (3, 4))
    there = np.asarray(x)
    total = np.asarray(numpy.float32(2.5))
    assert not difference(np.pad(there, 1, constant_values=total), numpy.pad(x, 1, constant_values=2.5))
    expected = numpy.pad(x, 2, constant_values=((1, 2.5), (2.5, 4)))
    assert not difference(np.pad(there, 2, constant_values=((1, total), (total, 4))), expected)
    expected = numpy.pad(x, 2, "linear_ramp", end_values=(1, 2.5))
    assert not difference(np.pad(there, 2, "linear_ramp", end_values=(1, total)), expected)


def test_copyto(rng):
    for dtype, src, where in (
        ("float32", 3, True), ("float32", draw(rng, "float32", 3), True), ("float32", draw(rng, "float32", (2, 1)), numpy.array([True, False, True])),
        ("int8", 300, True), ("int8", 2.5, True), ("int8", draw(rng, "float32", 3), True), ("float32", draw(rng, "float32", (2, 2)), True),
        ("float32", 1.5, numpy.array([[True], [False]])), ("float32", draw(rng, "float64", (1, 1, 2, 3)), True), ("float32", 1, numpy.array([1, 0, 1])),
        ("float32", 1j, True), ("float32", [1, 2, 3], True),
    ):  # fmt: skip
        expected = numpy.zeros((2, 3), dtype)
        there = np.asarray(expected)
        kinds: list = []
        for module, to in ((numpy, expected), (np, there)):
            try:
                moved = [np.asarray(x) if module is np and isinstance(x, numpy.ndarray) else x for x in (src, where)]
                assert module.copyto(to, moved[0], where=moved[1]) is None
            except (TypeError, ValueError, OverflowError) as error:
                kinds.append(type(error))
        assert len(kinds) in (0, 2) and kinds[:1] == kinds[1:], (src, kinds)
        assert not difference(there, expected)
    there = np.zeros(2, "int8")
    np.copyto(there, np.asarray(numpy.array([1.5, 2.5])), "unsafe")
    assert host(there).tolist() == [1, 2]
    with pytest.raises(TypeError, match="not at an owner"):
        np.copyto(numpy.zeros(2), there)


def test_astype(rng):
    x = draw(rng, "float32", 4)
    for dtype in ("int8", numpy.float64, float, "complex64"):
        compare("astype", x, dtype)
    there = np.asarray(x)
    assert np.astype(there, "float32", copy=False) is there or np.shares_memory(
        np.astype(there, "float32", copy=False), there
    )
    assert not np.shares_memory(np.astype(there, "float32"), there)
    with pytest.raises(TypeError, match="not held by owners"):
        np.astype(there, "uint16")


def test_host_values_are_numpys():
    assert type(np.reshape(numpy.zeros(4), (2, 2))) is numpy.ndarray
    assert type(np.pad([1, 2], 1)) is numpy.ndarray
    assert np.size([1, 2]) == 2


def test_torch_tensors_are_taken(there):
    x = torch.arange(6.0).to(there.device)
    assert type(np.reshape(x, (2, 3))) is np.ndarray
    assert np.shares_memory(x, np.reshape(x, (2, 3)))


def test_sizes_that_are_not_known():
    x = np.zeros(3)
    for call in (
        lambda: np.delete(x, np.ones(1, int)),
        lambda: np.insert(x, np.ones(1, int), 1),
    ):
        with pytest.raises(TypeError, match="to be known"):
            call()


def test_in_a_step(rng):
    x, y = draw(rng, "float32", (2, 3)), draw(rng, "int8", 4)

    def function(np, x, y):
        z = np.zeros_like(x)
        np.copyto(z, x, where=x > 0)
        return (
            np.reshape(x, (3, 2), order="F"), np.transpose(x), np.flip(y), np.roll(x, 1, 1), np.rot90(x), np.pad(x, 2, "reflect", reflect_type="odd"),
            np.pad(x, (1, 2), "median"), np.pad(y, 3, "wrap"), np.tile(y, (2, 2)), np.repeat(x, [2, 1, 0], 1), np.insert(y, [1, 3], [5, 6]),
            np.delete(y, 2), np.append(x, y), np.resize(y, (2, 5)), np.broadcast_to(y, (2, 4)), np.ravel(x, "K"), np.moveaxis(x, 0, 1), z,
        )  # fmt: skip

    found = sojourn.step(lambda: function(np, np.asarray(x), np.asarray(y)))()
    assert not difference(host(found), list(function(numpy, x, y)))

    @sojourn.step
    def trims():
        return np.trim_zeros(np.asarray(y))

    with pytest.raises(sojourn.Refused, match="trim_zeros"):
        trims()
