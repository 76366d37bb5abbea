# SPDX-License-Identifier: Apache-2.0
"""Arrays joined and split, beside NumPy."""

import itertools

import numpy
import pytest
import torch
from arrays_support import DTYPES, compare, difference, draw, host

import sojourn
import sojourn.numpy as np

STACKS = ("vstack", "hstack", "dstack", "column_stack", "stack", "concatenate", "concat")


@pytest.mark.parametrize("first, second", itertools.product(DTYPES, DTYPES))
def test_dtypes(rng, first, second):
    x, y = draw(rng, first, (2, 3), special=True), draw(rng, second, (2, 3))
    compare("concatenate", [x, y])
    compare("stack", (x, y), 1)
    compare("append", x, y, 0)
    compare("block", [[x, y]])
    assert not difference(np.r_[np.asarray(x), np.asarray(y)], numpy.r_[x, y])


@pytest.mark.parametrize("axis", (None, 0, 1, -1, -3, 2, 3))
@pytest.mark.parametrize("name", ("concatenate", "concat", "stack"))
def test_axes(rng, name, axis):
    for shapes in (
        [(2, 3), (2, 3)], [(2, 3), (1, 3)], [(2, 3), (2, 1)], [(3,), (0,)], [(2, 3), (0, 3)], [(2, 3), (0,)], [(), ()], [(2, 3, 4)] * 3, [(2,), (2, 3)],
        [(0,), (2, 3)], [(0, 3), (0, 3)], [(5,)], [],
    ):  # fmt: skip
        compare(name, [draw(rng, "float32", shape) for shape in shapes], axis)
    compare(name, draw(rng, "float32", (2, 3, 4)), axis)


@pytest.mark.parametrize("name", STACKS)
def test_stacks(rng, name):
    for shapes in ([(3,), (3,)], [(3,), (2,)], [(2, 3), (2, 3)], [(3,), (2, 3)], [(2,), (2, 3)], [(), ()], [(2, 3, 4), (2, 3, 4)], [(2, 3), (2, 3, 1)],
                   [(1, 3), (3,)], [(0,), (2,)], [(3,)]):  # fmt: skip
        compare(name, [draw(rng, "float32", shape) for shape in shapes])
        compare(name, tuple(draw(rng, "int8", shape) for shape in shapes))
    compare(name, draw(rng, "float32", (2, 3)))
    compare(name, [draw(rng, "float32", 3), [1, 2, 3], numpy.arange(3)])
    compare(name, [draw(rng, "float32", ()), 2.5])


@pytest.mark.parametrize("name", ("concatenate", "stack", "vstack", "hstack"))
def test_dtype_and_casting(rng, name):
    arrays = [draw(rng, "float32", 3), draw(rng, "int64", 3)]
    for dtype in (None, "float32", "int8", "complex64", "bool"):
        for casting in ("no", "safe", "same_kind", "unsafe"):
            compare(name, arrays, dtype=dtype, casting=casting)


def test_out(rng):
    x, y = draw(rng, "float32", (2, 3)), draw(rng, "int8", (2, 3))
    for name, shape in (("concatenate", (4, 3)), ("stack", (2, 2, 3))):
        ours, reference = getattr(np, name), getattr(numpy, name)
        out, expected = np.zeros(shape), numpy.zeros(shape)
        assert ours([np.asarray(x), np.asarray(y)], out=out) is out
        reference([x, y], out=expected)
        assert not difference(out, expected)
        with pytest.raises(ValueError, match="wrong shape"):
            ours([np.asarray(x), np.asarray(y)], out=np.zeros(3))
        with pytest.raises(TypeError, match="Cannot cast"):
            ours([np.asarray(x), np.asarray(y)], out=np.zeros(shape, int))
        with pytest.raises(TypeError, match="both were provided"):
            ours([np.asarray(x)], out=out, dtype=float)
        with pytest.raises(TypeError, match="not at an owner"):
            ours([np.asarray(x)], out=expected)


def test_error_texts(rng):
    for shapes, axis in (([(2, 3), (2, 4)], 0), ([(2,), (2, 3)], 0), ([()], 0), ([(2,)], 1)):
        arrays = [draw(rng, "float32", shape) for shape in shapes]
        with pytest.raises(Exception) as expected:
            numpy.concatenate(arrays, axis)
        with pytest.raises(type(expected.value)) as found:
            np.concatenate([np.asarray(x) for x in arrays], axis)
        assert str(found.value) == str(expected.value)


def test_block(rng):
    a, b, c, v = (
        draw(rng, "float32", (2, 2)),
        draw(rng, "int8", (2, 3)),
        draw(rng, "bool", (1, 5)),
        draw(rng, "float32", 3),
    )
    for arrays in (a, [a, b], [[a, b], [c]], [[a], [a]], [[[a, a]], [[a, a]]], [v, 1.0], [v, [1]], [[v], [v]], [a, []], [[a, b], c], [[a, b], [a]], [], [v, v, 2],
                   [[a, (1, 2)]], [[a, b], [c, 1]]):  # fmt: skip
        compare("block", arrays)


@pytest.mark.parametrize("axis", (0, 1, -1, 2, 3))
@pytest.mark.parametrize(
    "sections", (1, 2, 3, 4, 6, 0, -1, [2], [1, 3], (3, 1), [0, 9], [-2], [], numpy.array([1, 2]), numpy.int64(2), 1.5, [1, 1, 5])
)  # fmt: skip
def test_split(rng, sections, axis):
    if isinstance(sections, numpy.ndarray):
        sections = sections.tolist()
    for shape in ((4, 6, 2), (6,), (0, 4), ()):
        x = draw(rng, "float32", shape)
        compare("split", x, sections, axis)
        compare("array_split", x, sections, axis)
        if axis == 0:
            for name in ("hsplit", "vsplit", "dsplit"):
                compare(name, x, sections)


def test_unstack(rng):
    for shape in ((), (3,), (0, 2), (2, 3, 4)):
        for axis in (0, 1, -1, 3):
            compare("unstack", draw(rng, "float32", shape), axis=axis)


def test_r_and_c(rng):
    v, m, i = draw(rng, "float32", 3), draw(rng, "float64", (2, 3)), draw(rng, "int8", 3)
    keys = (
        v, (v, v), (v, 1), (v, 2.5, 1j), (i, 300.0), (i, 2), (slice(3), i), (slice(0, 1, 4j), v), (m, m), ("-1", m, m), ("0,2", v, v), ("0,2,0", v, v),
        ("1,2,0", v, i), ("0,3", m, m), ("0,3,1", m, m), ("0,2,0", slice(3), v), (v, numpy.float64(3)), (v, [1, 2]), (m, v), ("x", v), (v, "1"), (v, True),
        ("1,3,-1", v, v), ("2,3,0", m, m),
    )  # fmt: skip
    for name in ("r_", "c_"):
        for key in keys:
            there = tuple(
                np.asarray(x) if isinstance(x, numpy.ndarray) else x for x in (key if type(key) is tuple else (key,))
            )
            there = there if type(key) is tuple else there[0]
            try:
                expected = getattr(numpy, name)[key]
            except ValueError:
                with pytest.raises(ValueError):
                    getattr(np, name)[there]
                continue
            problem = difference(getattr(np, name)[there], expected)
            assert not problem, (name, key, problem)
        assert type(getattr(np, name)[1:3, 4:6]) is numpy.ndarray
        assert len(getattr(np, name)) == 0
    with pytest.raises(ValueError, match="matrices are not supported"):
        np.r_["r", np.asarray(v)]


def test_torch_tensors_and_other_devices(rng, there):
    x = torch.arange(3.0).to(there.device)
    assert not difference(np.concatenate([x, np.ones(2)]), numpy.r_[0.0, 1, 2, 1, 1])
    assert type(np.concatenate([numpy.ones(2), numpy.ones(2)])) is numpy.ndarray


def test_in_a_step(rng):
    x, y, v = draw(rng, "float32", (2, 3)), draw(rng, "int8", (2, 3)), draw(rng, "float32", 4)

    def function(np, x, y, v):
        left, right = np.split(v, 2)
        return [
            np.concatenate([x, y]), np.stack([x, y], -1), np.vstack([x, y]), np.hstack([x, y]), np.dstack([x, y]), np.column_stack([left, right]),
            np.block([[x, y], [x, y]]), np.r_[v, 1, 2:5], np.c_[left, right], *np.array_split(v, 3), *np.unstack(x, axis=1),
        ]  # fmt: skip

    found = sojourn.step(lambda: function(np, np.asarray(x), np.asarray(y), np.asarray(v)))()
    assert not difference(host(found), function(numpy, x, y, v))
