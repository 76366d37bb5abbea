# SPDX-License-Identifier: Apache-2.0
"""Constants, ramps and Philox, against a plain Philox in Python integers."""

import math

import numpy as np
import pytest
from numpy_builder import ProgramBuilder, run_op, t
from numpy_oracle import dtype, dtypes, same

from sojourn_numpy import OwnerError, decode, philox, run


def plain_philox(counter, key):
    """Salmon et al. 2011, one block, in Python integers."""
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & 0xFFFFFFFF, (p0 >> 32) ^ c[3] ^ k[1], p0 & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def plain_words(seed, stream, count):
    seed &= (1 << 64) - 1
    words = []
    for block in range(-(-count // 4)):
        words += plain_philox((block & 0xFFFFFFFF, block >> 32, stream, 0), (seed & 0xFFFFFFFF, seed >> 32))
    return words[:count]


def test_published_vectors():
    assert [f"{w:08x}" for w in plain_philox((0,) * 4, (0, 0))] == ["6627e8d5", "e169c58d", "bc57ac4c", "9b00dbd8"]
    ours = philox.philox(0, 0, 0, 0, (0, 0))
    assert [f"{int(w):08x}" for w in ours] == ["6627e8d5", "e169c58d", "bc57ac4c", "9b00dbd8"]
    ones = philox.philox(*[0xFFFFFFFF] * 4, (0xFFFFFFFF, 0xFFFFFFFF))
    assert [f"{int(w):08x}" for w in ones] == ["408f276d", "41c83b0e", "a20bc7c6", "6d5451fd"]


def draw(op, seed, stream, result):
    return run_op(op, [np.array(seed, np.int64)], result, stream=stream)


SEEDS = [0, 1, -1, 2**63 - 1, -(2**63), 0x123456789ABCDEF]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_numbers(rng, seed):
    stream = int(rng.integers(1 << 32))
    bits = draw("rng_bits", seed, stream, t("i64", 3, 5))
    same(bits, np.array(plain_words(seed, stream, 15), np.int64).reshape(3, 5))
    u = draw("rng_uniform", seed, stream, t("f32", 7))
    same(u, np.array([(w >> 8) * 2.0**-24 for w in plain_words(seed, stream, 7)], np.float32))
    w = plain_words(seed, stream, 14)
    u = draw("rng_uniform", seed, stream, t("f64", 7))
    same(u, np.array([((w[2 * i + 1] << 32 | w[2 * i]) >> 11) * 2.0**-53 for i in range(7)]))
    z = draw("rng_normal", seed, stream, t("f32", 7))
    for i in range(7):
        u1, u2 = (w[2 * i] >> 8) * 2.0**-24, (w[2 * i + 1] >> 8) * 2.0**-24
        assert math.isclose(
            z[i], math.sqrt(-2 * math.log(1 - u1)) * math.cos(2 * math.pi * u2), rel_tol=1e-7, abs_tol=1e-12
        )
    z = draw("rng_normal", seed, stream, t("f64", 3))
    for i in range(3):
        u1, u2 = (((w[4 * i + k + 1] << 32 | w[4 * i + k]) >> 11) * 2.0**-53 for k in (0, 2))
        assert math.isclose(
            z[i], math.sqrt(-2 * math.log(1 - u1)) * math.cos(2 * math.pi * u2), rel_tol=1e-12, abs_tol=1e-15
        )


@pytest.mark.parametrize("op, name", [("rng_bits", "i64"), ("rng_uniform", "f32"), ("rng_normal", "f64")])
def test_empty_draws(op, name):
    assert draw(op, 1, 0, t(name, 2, 0)).shape == (2, 0)
    assert draw(op, 1, 0, t(name)).shape == ()


def test_moments(rng):
    """Uniform and normal draws have the moments of their names."""
    seed = int(rng.integers(1 << 62))
    u, z = (draw(op, seed, 0, t("f32", 400, 500)).astype(np.float64) for op in ("rng_uniform", "rng_normal"))
    assert abs(u.mean() - 0.5) < 5e-3 and abs(u.var() - 1 / 12) < 2e-3 and 0 <= u.min() and u.max() < 1
    assert abs(z.mean()) < 1.2e-2 and abs(z.var() - 1) < 2e-2 and np.isfinite(z).all()


@pytest.mark.parametrize("name", dtypes("BZF"))
def test_constants(name):
    numbers = {
        "B": [True, False],
        "Z": [0, 1, 100, -1, 255],
        "F": [0.0, -0.0, 1.5, math.inf, -math.inf, math.nan, 2.0**-149, 1e-40],
    }
    for value in numbers["B" if name == "i1" else "F" if name in dtypes("F") else "Z"]:
        with np.errstate(over="ignore"):
            held = np.asarray(value).astype(dtype(name)).astype(np.asarray(value).dtype)
        if held != value and not math.isnan(value):
            with pytest.raises(OwnerError, match=f"attribute 'value' of kind .* and type {name} has"):
                run_op("constant", [], t(name), value=value)
            continue
        y = run_op("constant", [], t(name), value=value)
        same(y, np.asarray(np.int64(value) if name in dtypes("Z") else value).astype(dtype(name)))
        if name in dtypes("F"):
            assert np.signbit(y.astype(np.float64)) == np.signbit(value)


@pytest.mark.parametrize("name", dtypes("ZF"))
def test_iota(name):
    for shape, dim in (((300,), 0), ((2, 3), 1), ((2, 3), 0), ((2, 0, 3), 1)):
        expected = np.arange(shape[dim]).reshape([-1 if d == dim else 1 for d in range(len(shape))])
        expected = np.broadcast_to(expected, shape)
        expected = expected.astype(np.float32) if name in ("f16", "bf16") else expected
        same(run_op("iota", [], t(name, *shape), dim=dim), expected.astype(dtype(name)))


def test_intermediates_are_watched_and_freed():
    """The callback sees every op once; a value is gone after its last use."""
    import weakref

    p = ProgramBuilder()
    x = p.arg("upload", t("f32", 4))
    for _ in range(5):
        x = p.op("exp", [x], t("f32", 4))
    p.result("publish", x)
    seen, alive = [], []

    class Watched(np.ndarray):
        pass

    def watch(index, op, results):
        seen.append((index, op.name))
        alive.append(weakref.ref(results[0]))
        assert sum(ref() is not None for ref in alive) <= 2

    run(decode(p.encode()), [np.zeros(4, np.float32).view(Watched)], watch)
    assert seen == [(k, "exp") for k in range(5)]
