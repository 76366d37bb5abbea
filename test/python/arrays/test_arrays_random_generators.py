# SPDX-License-Identifier: Apache-2.0
"""Generators of sojourn.numpy.random: state, places, sizes and errors, orders and choices, steps, the module's functions."""

import copy
import inspect
import pickle

import numpy
import pytest
import torch
from scipy import stats

import sojourn
import sojourn.numpy as np

CHANCE = 1e-7  # of each check to fail by chance
PUBLIC = [name for name in dir(numpy.random.Generator) if not name.startswith("_")]
DRAWS = {
    "beta": (2.0, 3.0), "binomial": (9, 0.4), "chisquare": (3,), "choice": (5,), "dirichlet": ([1.0, 2.0],),
    "exponential": (), "f": (3, 4), "gamma": (0.5,), "geometric": (0.2,), "gumbel": (), "hypergeometric": (5, 6, 7),
    "integers": (9,), "laplace": (), "logistic": (), "lognormal": (), "logseries": (0.4,), "multinomial": (5, [0.4, 0.6]),
    "multivariate_hypergeometric": ([3, 4], 2), "multivariate_normal": ([0.0, 1.0], [[1.0, 0.1], [0.1, 2.0]]),
    "negative_binomial": (3, 0.5), "noncentral_chisquare": (3, 1.0), "noncentral_f": (3, 4, 1.0), "normal": (),
    "pareto": (3.0,), "poisson": (), "power": (2.0,), "random": (), "rayleigh": (), "standard_cauchy": (),
    "standard_exponential": (), "standard_gamma": (2.0,), "standard_normal": (), "standard_t": (3,),
    "triangular": (0, 1, 3), "uniform": (), "vonmises": (0.0, 1.0), "wald": (1.0, 2.0), "weibull": (2.0,), "zipf": (3.0,),
}  # fmt: skip


def values(*arrays):
    """Of several, in one round trip."""
    return [x.numpy() for x in sojourn.publish([x.tensor for x in arrays])]


def test_names_and_signatures():
    for name in PUBLIC:
        ours = getattr(np.random.Generator, name)
        if name != "bit_generator":
            theirs = inspect.signature(getattr(numpy.random.Generator, name))
            assert str(inspect.signature(ours).replace(return_annotation=inspect.Signature.empty)) == str(theirs), name
    for name in ("seed", "rand", "randn", "randint", "random", "random_sample", "normal", "uniform", "choice"):
        assert callable(getattr(np.random, name))
    assert set(DRAWS) | {"bit_generator", "bytes", "spawn", "permutation", "permuted", "shuffle"} == set(PUBLIC)
    assert np.random.SeedSequence is numpy.random.SeedSequence and set(np.random.__all__) <= set(dir(np.random))


@pytest.mark.parametrize("name", DRAWS)
def test_sizes_and_states(name):
    """Shapes and dtypes are NumPy's, equal states give equal numbers, and torch's generators have no part."""
    sizes = (None, (), 3, (2, 3), (0, 2), numpy.int64(2), [2, 1])
    before, host = torch.get_rng_state(), numpy.random.default_rng(5)
    one, two, other = np.random.default_rng(5), np.random.default_rng(5), np.random.default_rng(6)
    for size in sizes:
        x = getattr(one, name)(*DRAWS[name], size=size)
        expected = numpy.asarray(getattr(host, name)(*DRAWS[name], size=size))
        assert isinstance(x, np.ndarray) and (x.shape, x.dtype) == (expected.shape, expected.dtype), (name, size)
    large, next_one = (getattr(one, name)(*DRAWS[name], size=300) for _ in range(2))
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(1)
    for size in sizes:
        other.random(3)
        again = getattr(two, name)(*DRAWS[name], size=size)
    large_again, unlike = getattr(two, name)(*DRAWS[name], size=300), getattr(other, name)(*DRAWS[name], size=300)
    found = values(x, again, large, large_again, next_one, unlike)
    assert numpy.array_equal(found[0], found[1]) and numpy.array_equal(found[2], found[3])
    assert not numpy.array_equal(found[2], found[4]) and not numpy.array_equal(found[2], found[5])


def test_states_are_of_the_bit_generator():
    rng = np.random.Generator(numpy.random.PCG64(3))
    state = rng.bit_generator.state
    first = rng.normal(size=4)
    rng.bit_generator.state = state
    again = rng.normal(size=4)
    moved = copy.deepcopy(rng)
    third, pickled = rng.random(3), pickle.loads(pickle.dumps(moved))
    results = values(first, again, third, moved.random(3), pickled.random(3))
    assert numpy.array_equal(results[0], results[1])
    assert numpy.array_equal(results[2], results[3]) and numpy.array_equal(results[2], results[4])
    assert "PCG64" in repr(rng) and np.random.default_rng(rng) is rng
    for bits in (np.random.MT19937, np.random.Philox, np.random.SFC64, np.random.PCG64DXSM):
        one, two = (np.random.Generator(bits(9)).random(5) for _ in range(2))
        assert numpy.array_equal(*values(one, two))
    assert rng.bytes(5) != rng.bytes(5) and len(rng.bytes(3)) == 3
    with pytest.raises((TypeError, AttributeError)):
        np.random.Generator(3)
    for wrong, kind in ((-1, ValueError), ("a", TypeError)):
        with pytest.raises(kind):
            np.random.default_rng(wrong)
    unlike = values(np.random.default_rng().random(9), np.random.default_rng().random(9))
    assert not numpy.array_equal(*unlike)


def test_children_are_independent():
    one, two = (np.random.default_rng(np.random.SeedSequence(8)).spawn(2) for _ in range(2))
    a, b, c = values(one[0].random(2000), one[1].random(2000), two[0].random(2000))
    assert numpy.array_equal(a, c) and abs(numpy.corrcoef(a, b)[0, 1]) < 0.13
    with pytest.raises(OverflowError):
        one[0].spawn(-1)


def test_neighbours_are_independent():
    """Also draws of one generator at successive states, and of two with near seeds."""
    rng = np.random.default_rng(0)
    found = [x - 0.5 for x in values(rng.random(20_000), rng.random(20_000), np.random.default_rng(1).random(20_000))]
    pairs = [(found[0], found[1]), (found[0], found[2]), (found[0][1:], found[0][:-1]), (found[0] ** 2, found[1] ** 2)]
    for a, b in pairs:
        assert abs(numpy.corrcoef(a, b)[0, 1]) * len(a) ** 0.5 < 5.5


def test_places(there):
    other = sojourn.local()
    assert np.random.default_rng(0, device=other).random(2).device == other.device
    near = np.asarray(numpy.ones(2), device=other)
    assert np.random.default_rng(0).normal(near).device == other.device
    assert np.random.default_rng(0).spawn(1)[0].random(2).device == there.device
    with pytest.raises(TypeError):
        np.random.default_rng(0, device="cpu")


def test_out():
    rng = np.random.default_rng(0)
    for name, leading in (
        ("random", ()),
        ("standard_normal", ()),
        ("standard_exponential", ()),
        ("standard_gamma", (2.0,)),
    ):
        for dtype in ("float32", "float64"):
            out = np.asarray(numpy.full((2, 3), -9, dtype))
            assert getattr(rng, name)(*leading, dtype=dtype, out=out) is out
            assert getattr(rng, name)(*leading, size=(2, 3), dtype=dtype, out=out) is out
            assert (numpy.asarray(out) > -9).all() and len(numpy.unique(numpy.asarray(out))) == 6
            with pytest.raises(ValueError):
                getattr(rng, name)(*leading, size=(3, 2), dtype=dtype, out=out)
        with pytest.raises(TypeError):
            getattr(rng, name)(*leading, dtype="float32", out=np.asarray(numpy.zeros(2)))
        with pytest.raises(TypeError):
            getattr(rng, name)(*leading, out=numpy.zeros(2))
        with pytest.raises(TypeError):
            getattr(rng, name)(*leading, dtype="float16", size=2)
    with pytest.raises(ValueError):
        rng.standard_gamma([1.0, 2.0], out=np.asarray(numpy.zeros(3)))


ERRORS = [
    ("gamma", (-1,)), ("gamma", ([1, -1],)), ("normal", (0, -1)), ("poisson", (1e20,)), ("poisson", (-1,)), ("beta", (0, 1)),
    ("binomial", (3, 1.5)), ("binomial", (-3, 0.5)), ("geometric", (0,)), ("logseries", (1,)), ("zipf", (1,)),
    ("hypergeometric", (3, 4, 8)), ("triangular", (1, 0, 2)), ("triangular", (1, 1, 1)), ("uniform", (0, numpy.inf)),
    ("vonmises", (0, -1)), ("wald", (0, 1)), ("standard_t", (0,)), ("power", (0,)), ("f", (0, 1)), ("weibull", (-1,)),
    ("noncentral_chisquare", (1, -1)), ("negative_binomial", (0, 0.5)), ("normal", ("a",)), ("normal", (1j,)),
    ("normal", (0, [1, 2], 3)), ("normal", (0, [1, 2], (2, 1))), ("normal", (0, 1, -1)), ("normal", (0, 1, 2.5)),
    ("normal", ([1, 2], [1, 2, 3])), ("random", (2, "int32")), ("random", ("a",)),
    ("integers", (0,)), ("integers", (5, 3)), ("integers", (0, 300, 2, "uint8")), ("integers", (3, None, 2, "float32")),
    ("integers", ([1, 2], [3, 4], 3)), ("integers", (0, 2**64)), ("integers", (-1, 5, 2, "bool")),
    ("choice", (0, 1)), ("choice", (-1,)), ("choice", ([], 1)), ("choice", (2.5,)), ("choice", (5, 6, False)),
    ("choice", (5, 3, True, [0.2] * 4)), ("choice", (5, 3, False, [0.5, 0.5, 0, 0, 0])), ("choice", (5, 3, True, [[0.2] * 5])),
    ("choice", (5, 3, True, [0.3] * 5)), ("choice", (5, 3, True, [-1, 1, 1, 0, 0])), ("choice", (5, -1)),
    ("choice", (5, 3, True, [numpy.nan, 1, 1, 0, 0])), ("choice", ([[1, 2]], 1, True, None, 5)),
    ("permutation", (2.5,)), ("permutation", ([[1, 2]], 5)), ("permuted", (5,)), ("shuffle", (5,)), ("shuffle", ([1, 2], 1)),
    ("multinomial", (5, [0.5, 0.6, 0.1])), ("multinomial", (-1, [0.5, 0.5])), ("multinomial", (3, 0.5)), ("multinomial", (3, [])),
    ("multinomial", ([5, 6], [0.5, 0.5], 3)), ("multinomial", (3, [1.5, -0.5])), ("dirichlet", ([-1, 1],)), ("dirichlet", ([[1, 1]],)),
    ("multivariate_hypergeometric", ([3, 4], 8)), ("multivariate_hypergeometric", ([3, -4], 5)),
    ("multivariate_hypergeometric", ([3, 4], 5, None, "x")), ("multivariate_normal", ([[0, 0]], [[1, 0], [0, 1]])),
    ("multivariate_normal", ([0, 0, 0], [[1, 0], [0, 1]])), ("multivariate_normal", ([0, 0], [[1, 2], [2, 1]], 1, "raise")),
    ("multivariate_normal", ([0, 0], [[1, 0], [0, 1]], 1, "x")),
]  # fmt: skip


@pytest.mark.parametrize("at", range(len(ERRORS)), ids=lambda at: f"{ERRORS[at]}")
def test_errors(at):
    name, arguments = ERRORS[at]
    with pytest.raises(Exception) as expected:
        getattr(numpy.random.default_rng(0), name)(*arguments)
    with pytest.raises(expected.type):
        getattr(np.random.default_rng(0), name)(*arguments)


#: Bounds around the ends of int64: a range of two numbers at either end, whole ranges, and one too many.
ENDS = [
    (2**63 - 2, 2**63), (-(2**63), 2 - 2**63), (0, 2**63), (-(2**63), 2**63), (0, 2.0**63), (0, numpy.uint64(2**63)),
    ([0, 2**63 - 1], [5, 2**63]), (0, numpy.array([2**63, 5], "uint64")), (2**63,), (2**63 + 1,), (2**63, 2**63 + 5),
    (0, 2**63 + 2048.0), (0, 1e30), (-(2**63) - 1, 0), (0, [5, 2**63 + 1]), (0, 2**64), (0, numpy.inf), (2.9,), (0.5, 3.9),
]  # fmt: skip


@pytest.mark.parametrize("at", range(len(ENDS)), ids=lambda at: f"{ENDS[at]}")
@pytest.mark.parametrize("name", ["integers", "endpoint", "randint"])
def test_integers_at_the_ends_of_int64(at, name):
    def drawn(random):
        if name == "randint":
            return random.randint(*ENDS[at])
        return random.default_rng(3).integers(*ENDS[at], endpoint=name == "endpoint")

    low, high = (0, *ENDS[at])[-2:]
    try:
        expected = drawn(numpy.random)
    except (ValueError, OverflowError) as error:
        with pytest.raises(type(error)):
            drawn(np.random)
        return
    found = numpy.asarray(drawn(np.random))
    assert found.dtype == "int64" and found.shape == numpy.shape(expected)
    for least, each, most in zip(*(numpy.ravel(side) for side in numpy.broadcast_arrays(
        numpy.array(low, object), found.astype(object), numpy.array(high, object)
    ))):  # fmt: skip
        assert int(least) <= each <= int(most) - (name != "endpoint")


def test_what_owners_do_not_hold():
    with pytest.raises(TypeError, match="uint32"):
        np.random.default_rng(0).integers(3, size=2, dtype="uint32")
    with pytest.warns(RuntimeWarning):
        np.random.default_rng(0).multivariate_normal([0, 0], [[1, 2], [2, 1]], size=0)


# Orders and choices.


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("weights", [None, "host", "remote"])
def test_choice_of_numbers(weights, replace):
    rng, share = np.random.default_rng(4), numpy.array([0.1, 0.0, 0.5, 0.25, 0.15])
    p = None if weights is None else share if weights == "host" else np.asarray(share)
    if replace:
        x = numpy.asarray(rng.choice(5, (2, 5000), p=p))
        expected = numpy.full(5, 0.2) if weights is None else share
        found = numpy.bincount(x.ravel(), minlength=5)
        assert x.shape == (2, 5000) and found[expected == 0].sum() == 0
        assert stats.chisquare(found[expected > 0], expected[expected > 0] * 10_000).pvalue > CHANCE
        return
    # Ordered pairs without replacement.
    draws = [rng.choice(5, 2, replace=False, p=p) for _ in range(600)]
    pairs = numpy.stack(values(*draws))
    chance = numpy.full(5, 0.2) if weights is None else share
    expected = numpy.outer(chance, chance) / (1 - chance)[:, None]
    numpy.fill_diagonal(expected, 0)
    found = numpy.zeros((5, 5))
    numpy.add.at(found, (pairs[:, 0], pairs[:, 1]), 1)
    kept = expected > 0
    assert found[~kept].sum() == 0
    assert stats.chisquare(found[kept], expected[kept] * 600).pvalue > CHANCE
    assert rng.choice(5, (2, 2), False, None if p is None else p).shape == (2, 2)


def test_choice_of_entries():
    rng, table = np.random.default_rng(4), numpy.arange(24).reshape(4, 6)
    for given in (table, np.asarray(table), np.asarray(table).tensor):
        for size, axis in ((None, 0), (None, 1), ((2, 3), 1), (5, -1), (0, 0)):
            x = rng.choice(given, size, axis=axis)
            assert (
                x.shape == numpy.random.default_rng(0).choice(table, size, axis=axis).shape and x.dtype == table.dtype
            )
        x = numpy.asarray(rng.choice(given, 6, replace=False, axis=1))
        assert (numpy.sort(x, 1) == table).all() and (x[0] + 6 == x[1]).all()
    assert rng.choice([2.5, 3.5], 3).dtype == numpy.float64 and rng.choice(0, 0).shape == (0,)
    assert rng.choice(numpy.array(3), 2).shape == (2,)
    soft = numpy.full(3, 1 / 3, "float32")
    assert rng.choice(3, 2, p=soft).shape == (2,) and rng.choice(3, p=np.asarray(soft)).shape == ()


def test_permutations():
    rng, table = np.random.default_rng(4), numpy.arange(20).reshape(4, 5)
    assert numpy.asarray(rng.permutation(7)).sum() == 21 and rng.permutation(0).shape == (0,)
    for given in (table, np.asarray(table)):
        x = numpy.asarray(rng.permutation(given, axis=1))
        assert (numpy.sort(x, 1) == table).all() and (x[0] + 5 == x[1]).all()
        rows = numpy.asarray(rng.permuted(given, axis=1))
        assert (numpy.sort(rows, 1) == table).all() and not (rows[0] + 5 == rows[1]).all()
        assert (numpy.sort(numpy.asarray(rng.permuted(given)).ravel()) == table.ravel()).all()
    x = np.asarray(table)
    assert rng.permuted(x, axis=0, out=x) is x and (numpy.sort(numpy.asarray(x), 0) == table).all()
    assert rng.shuffle(x, axis=1) is None and (numpy.sort(numpy.asarray(x).ravel()) == table.ravel()).all()
    row = np.asarray(numpy.arange(9))
    rng.shuffle(row[3:])
    assert numpy.asarray(row)[:3].tolist() == [0, 1, 2] and sorted(numpy.asarray(row)) == list(range(9))
    here = list(range(30))
    rng.shuffle(here)
    assert here != sorted(here) and sorted(here) == list(range(30))
    with pytest.raises(ValueError):
        rng.permuted(x, out=np.asarray(numpy.zeros(3)))
    with pytest.raises(numpy.exceptions.AxisError):
        rng.shuffle(x, axis=2)


def test_orders_are_uniform():
    rng = np.random.default_rng(11)
    rows = numpy.asarray(rng.permuted(numpy.tile(numpy.arange(4), (6000, 1)), axis=1))
    _, counts = numpy.unique(rows @ [64, 16, 4, 1], return_counts=True)
    assert len(counts) == 24 and stats.chisquare(counts).pvalue > CHANCE
    orders = numpy.stack(values(*[rng.permutation(3) for _ in range(600)]))
    _, counts = numpy.unique(orders @ [9, 3, 1], return_counts=True)
    assert len(counts) == 6 and stats.chisquare(counts).pvalue > CHANCE


# Steps.


def drawn(rng, x):
    """Some of each kind, and an array that depends on remote parameters."""
    rate = np.exp(x)
    order = np.asarray(x.tensor.clone())
    rng.shuffle(order)
    return [
        rng.normal(x, 2.0), rng.poisson(rate), rng.poisson(3.5, 5), rng.binomial(40, 0.3, 4), rng.gamma(rate), rng.integers(9, size=3),
        rng.multinomial(20, [0.2, 0.8], 2), rng.dirichlet(rate), rng.choice(x, 4, p=np.asarray(rate.tensor / rate.tensor.sum())), order,
        rng.permuted(x), rng.choice(x.shape[0], 2, replace=False), rng.vonmises(0.0, rate), rng.zipf(3.0, 2),
        rng.hypergeometric(9, np.asarray(x.tensor.to(torch.int64)) + 20, 7), rng.integers(0, 2**50, 3),
    ]  # fmt: skip


def test_steps():
    x = np.asarray(numpy.linspace(-1, 2, 6))

    @sojourn.step
    def step(x):
        return drawn(inside, x)

    inside, outside = np.random.default_rng(3), np.random.default_rng(3)
    for _ in range(2):
        for a, b in zip(values(*step(x)), values(*drawn(outside, x)), strict=True):
            numpy.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("source", ["generator", "module"])
def test_a_replayed_step_draws_anew(source):
    rng = np.random.default_rng(3) if source == "generator" else np.random
    x = np.asarray(numpy.linspace(-1, 2, 6))

    def function(x):
        return rng.normal(size=4) + 0.0, rng.poisson(np.exp(x))

    step = sojourn.step(function, replay=True)
    calls = [numpy.concatenate(values(*step(x))) for _ in range(6)]
    assert len({tuple(call) for call in calls}) == 6 and step.replayed >= 3, step.explain()
    if source == "generator":
        rng = np.random.default_rng(3)
        for call in calls:
            assert numpy.array_equal(call, numpy.concatenate(values(*function(x))))


def test_programs_are_used_again(there):
    rng = np.random.default_rng(3)

    @sojourn.step
    def step(scale):
        return rng.normal(scale, 2.0 * scale, 4), rng.gamma(scale, size=3)

    step(1.0), step(1.5)
    before = there.counters()["programs_compiled"]
    for at in range(4):
        step(0.25 + at)
    assert there.counters()["programs_compiled"] == before


# The functions of the module.


def test_the_module():
    np.random.seed(7)
    a = [
        np.random.rand(2, 3),
        np.random.randn(4),
        np.random.randint(3, 9, 5),
        np.random.permutation(6),
        np.random.choice(9, 3),
    ]
    np.random.seed(7)
    b = [
        np.random.rand(2, 3),
        np.random.randn(4),
        np.random.randint(3, 9, 5),
        np.random.permutation(6),
        np.random.choice(9, 3),
    ]
    for x, y in zip(values(*a), values(*b)):
        assert numpy.array_equal(x, y)
    assert [x.shape for x in a] == [(2, 3), (4,), (5,), (6,), (3,)]
    for name in (
        "random",
        "random_sample",
        "standard_normal",
        "uniform",
        "normal",
        "exponential",
        "standard_cauchy",
        "poisson",
    ):
        assert getattr(np.random, name)(size=(2, 2)).shape == (2, 2) and getattr(np.random, name)().shape == ()
    assert np.random.rand().shape == () and np.random.randint(5).dtype == numpy.int64
    assert np.random.binomial(5, 0.5, 3).shape == (3,) and np.random.randint(3, dtype="int8").dtype == numpy.int8
    x = np.asarray(numpy.arange(5))
    np.random.shuffle(x)
    assert sorted(numpy.asarray(x)) == [0, 1, 2, 3, 4]
    for wrong, kind in (
        (lambda: np.random.rand(-1), ValueError), (lambda: np.random.choice([[1, 2]]), ValueError),
        (lambda: np.random.seed(-1), ValueError), (lambda: np.random.randint(1, 1), ValueError),
        (lambda: np.random.permutation(5.0), IndexError), (lambda: np.random.normal(0, -1), ValueError),
    ):  # fmt: skip
        with pytest.raises(kind):
            wrong()
    before = torch.get_rng_state()
    np.random.rand(3)
    assert torch.equal(before, torch.get_rng_state())
