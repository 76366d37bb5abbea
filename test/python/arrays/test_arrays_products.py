# SPDX-License-Identifier: Apache-2.0
"""Products of vectors, matrices and tensors: as NumPy's, integers and bools included."""

import numpy
import pytest
from arrays_support import DTYPES, compare, host
from arrays_support import draw as any_values

import sojourn
import sojourn.numpy as np

PAIRS = (("float32", "int16"), ("uint8", "int8"), ("bool", "int32"), ("float16", "float32"), ("complex64", "float64"), ("int64", "float32"))  # fmt: skip
DOTS = (
    ((), ()), ((), (3,)), ((2, 3), ()), ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((2, 3), (3, 4)), ((2, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)), ((2, 2, 3), (5, 3, 4)), ((3,), (5, 3, 4)), ((0,), (0,)), ((2, 0), (0, 3)), ((0, 2), (2,)), ((3,), (4,)),
    ((2, 3), (2, 3)), ((3,), (2, 2)),
)  # fmt: skip


def draw(rng, dtype, shape):
    """Values whose sums are exact in the dtypes of few digits: sums that almost vanish have no relative precision."""
    x = any_values(rng, dtype, shape)
    return numpy.rint(x) if dtype in ("float16", "float32", "complex64") else x


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shapes", DOTS, ids=str)
def test_dot_inner_outer(rng, dtype, shapes):
    a, b = (draw(rng, dtype, shape) for shape in shapes)
    compare("dot", a, b)
    compare("inner", a, b)
    compare("outer", a, b)
    compare("kron", a, b)
    compare("vdot", a, b)
    if b.ndim == 2:
        compare("inner", a, b.T.copy())


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_of_two_dtypes(rng, pair):
    a, b = draw(rng, pair[0], (3, 4)), draw(rng, pair[1], (4, 3))
    for x, y in ((a, b), (b, a)):
        for name in ("dot", "outer", "kron", "vdot"):
            compare(name, x, y)
        compare("inner", x, y.T.copy())
        compare("tensordot", x, y, axes=1)
        compare("cross", x.reshape(4, 3), y.reshape(4, 3))
        compare("einsum", "ij,jk", x, y)
    compare("dot", a, 2.5)
    compare("dot", 2, a)
    compare("outer", a, [1, 2.5])
    compare("inner", a, 3)


def test_out(rng):
    a = np.asarray(draw(rng, "float64", (3, 3)))
    out = np.asarray(numpy.zeros((3, 3)))
    assert np.dot(a, a, out=out) is out and numpy.allclose(host(out), host(a) @ host(a))
    assert np.einsum("ij->ji", a, out=out) is out and numpy.array_equal(host(out), host(a).T)
    with pytest.raises(ValueError, match="not acceptable"):
        np.dot(a, a, np.asarray(numpy.zeros((3, 3), "float32")))


@pytest.mark.parametrize("dtype", DTYPES)
def test_tensordot(rng, dtype):
    a, b = draw(rng, dtype, (2, 3, 4)), draw(rng, dtype, (3, 4, 2))
    for axes in (
        0,
        1,
        2,
        3,
        ([1, 2], [0, 1]),
        ([-1], [1]),
        (2, 1),
        ([0, 0], [0, 1]),
        ([5], [0]),
        ([0], [0]),
        ([0, 1], [2, 0]),
        ([], []),
    ):
        compare("tensordot", a, b, axes=axes)
    compare("tensordot", a, a[:, :0], axes=([0, 2], [0, 2]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_cross(rng, dtype):
    a, b = draw(rng, dtype, (4, 3)), draw(rng, dtype, (4, 3))
    compare("cross", a, b)
    compare("cross", a[0], b)
    compare("cross", a[:0], b[0])
    compare("cross", a.T.copy(), b.T.copy(), axis=0)
    compare("cross", a.T.copy(), b, axisa=0)
    compare("cross", a, b, axisc=0)
    compare("cross", a[:, :2], b)
    compare("cross", a[:, :2], b[:, 1:])
    compare("cross", a[:, :1], b)
    compare("cross", a, b, axis=3)
    compare("cross", a[0, 0], b)
    compare("cross", a[:3], b)


@pytest.mark.parametrize("dtype", DTYPES)
def test_trace(rng, dtype):
    x = draw(rng, dtype, (3, 4, 5))
    for options in ({}, {"offset": 1}, {"offset": -2}, {"offset": 9}, {"axis1": 2, "axis2": -2}, {"axis1": 1, "axis2": 1}, {"axis2": 7},
                    {"dtype": "float64"}, {"dtype": "complex64"}):  # fmt: skip
        compare("trace", x, **options)
    compare("trace", x[0, 0])
    compare("trace", x[:0])


EINSUMS = (
    "ij,jk->ik", "ij,jk", "ij->ji", "ij->", "ij", "ji", "ii->i", "ii", "ij,ij->i", "i,j->ij", "ij,j->i", "...ij->...ji", "...j,j->...",
    "i...->...", "ij,kj->ki", " i j , j k -> i k ", "aB,Bc", "ij,jk,kl->il", "i,i,i->i", "...,...", "i->ii", "ij->ijk", "ij,j->jj",
    "i->", ",", "", "ij,jk,kl", "i?", "...j->j", "...", "i,ij", "ijk->kji",
)  # fmt: skip


@pytest.mark.parametrize("text", EINSUMS)
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int64", "float16", "float64", "complex64"])
def test_einsum(rng, dtype, text):
    for sizes in ((3, 3, 3), (2, 3, 4), (0, 2, 2)):
        inputs = text.replace(" ", "").split("->")[0].split(",")
        names = sorted(set(text) - set(" ,->.?"))
        size = {name: sizes[i % 3] for i, name in enumerate(names)}
        arrays = []
        for part in inputs:
            shape = []
            for each in part.replace("...", "."):
                shape += [2, 2] if each == "." else [size.get(each, 2)]
            arrays.append(draw(rng, dtype, shape))
        compare("einsum", text, *arrays)
    compare("einsum", text, *arrays[:-1], arrays[0][..., :1] if arrays[0].ndim else arrays[0])


def test_einsum_of_lists_and_options(rng):
    a, b = draw(rng, "float32", (2, 3)), draw(rng, "int16", (3, 4))
    compare("einsum", a, [0, 1], b, [1, 2], [2, 0])
    compare("einsum", a, [0, 1], b, [1, 2])
    compare("einsum", a, [Ellipsis, 1], [1, Ellipsis])
    compare("einsum", a, [0, 60])
    compare("einsum", "ij,jk", a, b, optimize=True)
    compare("einsum", "ij,jk", a, b, dtype="float64")
    compare("einsum", "ij,jk", a, b, dtype="int16")
    compare("einsum", "ij,jk", a, b, dtype="int16", casting="unsafe")
    compare("einsum", "ij,jk", a, b, wrong=1)
    compare("einsum", "ij,jk", a, 3)
    compare("einsum", "ij,", a, 3)
    compare("einsum", "ij,j", a, [1, 2, 3])
    compare("einsum", "ij,j", a[:, :1], numpy.ones(3))
    compare("einsum_path", "ij,jk,kl->il", numpy.ones((2, 8)), numpy.ones((8, 9)), numpy.ones((9, 2)))
    compare("einsum_path", "ij,jk", a, a)
    view = np.asarray(numpy.zeros((3, 3)))
    np.einsum("ii->i", view)._t.fill_(1)
    assert numpy.array_equal(host(view), numpy.eye(3))


def test_in_steps(rng):
    x = draw(rng, "float64", (3, 3))

    def compute(np, x):
        return [np.dot(x, x), np.inner(x, x), np.outer(x, x), np.vdot(x, x), np.tensordot(x, x), np.kron(x, x),
                np.cross(x, x[::1, 0]), np.trace(x), np.einsum("ij,kj->k", x, x)]  # fmt: skip

    found = host(sojourn.step(lambda x: compute(np, x))(np.asarray(x)))
    for ours, theirs in zip(found, compute(numpy, x)):
        assert ours.shape == numpy.shape(theirs) and numpy.allclose(ours, theirs)
