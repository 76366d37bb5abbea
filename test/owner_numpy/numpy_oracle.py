# SPDX-License-Identifier: Apache-2.0
"""Fresh inputs with every edge value, and comparison in units in the last place."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from sojourn_numpy.types import CLASSES, DTYPES, NAMES

SHAPES = [(), (1,), (7,), (3, 5), (0,), (2, 0, 3), (5, 1, 3), (1, 1, 1, 1)]
EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, np.inf, -np.inf, np.nan, 1e-30, -1e30, 100.0, -100.0, 88.7, 1e-45]


def dtypes(classes: str):
    return [n for n, c in zip(NAMES, CLASSES) if c in classes]


def dtype(name: str) -> np.dtype:
    return DTYPES[NAMES.index(name)]


def values(rng, name: str, shape, edges: bool = True, scale: float = 3.0) -> np.ndarray:
    """Random numbers of the type; half of them edge values if asked for."""
    d, size = dtype(name), int(np.prod(shape, dtype=np.int64))
    kind = CLASSES[NAMES.index(name)]
    if kind == "B":
        x = rng.integers(0, 2, size).astype(bool)
    elif kind == "Z":
        info = np.iinfo(d)
        x = rng.integers(-5, 6, size).astype(d) if info.min < 0 else rng.integers(0, 11, size).astype(d)
        if edges and size:
            few = rng.choice(np.array([info.min, info.max, 0, 1, info.min + 1], d), size)
            x = np.where(rng.random(size) < 0.3, few, x)
    else:
        with np.errstate(all="ignore"):
            x = rng.normal(0, scale, size)
            if edges and size:
                x = np.where(rng.random(size) < 0.4, rng.choice(EDGES, size), x)
            if kind == "X":
                x = x + 1j * rng.normal(0, scale, size)
            x = x.astype(np.float32).astype(d) if d.itemsize == 2 else x.astype(d)
    return x.astype(d).reshape(shape)


def random_shape(rng, least=1, most=4):
    return tuple(
        int(n) for n in rng.choice([0, 1, 2, 3, 5], rng.integers(least, most + 1), p=[0.06, 0.24, 0.3, 0.2, 0.2])
    )


def ulp(x: np.ndarray, name: str) -> np.ndarray:
    """The spacing of the type at |x| (its smallest normal near 0)."""
    info = ml_dtypes.finfo(dtype(name))
    x = np.maximum(np.abs(np.asarray(x, np.float64)), float(info.tiny))
    return 2.0 ** np.floor(np.log2(np.where(np.isfinite(x), x, 1.0))) * float(info.eps)


def assert_close(actual: np.ndarray, wide: np.ndarray, name: str, ulps: float = 0.51, slack=0.0) -> None:
    """`actual`, of type `name`, against the true value in float64 (or complex128)."""
    assert actual.dtype == dtype(name)
    wide = np.asarray(wide)
    if wide.dtype.kind == "c":
        part = {"c64": "f32", "c128": "f64"}[name]
        scale = ulps * ulp(np.abs(wide), part) + slack
        assert (np.abs(actual.astype(np.complex128) - wide) <= scale).all()
        return
    a, w = actual.astype(np.float64), wide.astype(np.float64)
    assert a.shape == w.shape, (a.shape, w.shape)
    with np.errstate(all="ignore"):
        limit = float(ml_dtypes.finfo(dtype(name)).max)
        overflowed = (np.abs(w) > limit) & (a == np.sign(w) * np.inf)
        good = (np.abs(a - w) <= ulps * ulp(w, name) + slack) | (a == w) | (np.isnan(a) & np.isnan(w)) | overflowed
    bad = np.flatnonzero(~np.atleast_1d(good).reshape(-1))
    assert bad.size == 0, f"{bad.size} differ, first: {a.reshape(-1)[bad[0]]!r} is not {w.reshape(-1)[bad[0]]!r}"


def same(actual: np.ndarray, expected: np.ndarray) -> None:
    """Bit for bit up to the sign of NaN."""
    expected = np.asarray(expected)
    assert actual.dtype == expected.dtype and actual.shape == expected.shape, (actual, expected)
    if actual.dtype.kind in "fcV":
        actual, expected = (x if x.dtype.kind == "c" else x.astype(np.float64) for x in (actual, expected))
    np.testing.assert_array_equal(actual, expected)


def to_torch(x: np.ndarray):
    import torch

    if x.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(np.ascontiguousarray(x).view(np.int16).copy()).view(torch.bfloat16).reshape(x.shape)
    return torch.from_numpy(np.array(x, copy=True, order="C"))


def from_torch(x) -> np.ndarray:
    import torch

    if x.dtype == torch.bfloat16:
        return x.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return x.numpy()
