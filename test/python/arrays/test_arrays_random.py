# SPDX-License-Identifier: Apache-2.0
"""Distributions of sojourn.numpy.random beside scipy.stats and NumPy's own samples.

Seeds are those of the cases: a run is reproducible. A right sampler fails a case for fewer than one seed in 10^6.
"""

import math

import numpy
import pytest
from scipy import stats

import sojourn.numpy as np

N = 20_000
CHANCE = 1e-7  # of each check to fail by chance


def generator(case: str):
    seed = sum(ord(letter) * 131**at for at, letter in enumerate(case)) % 2**32
    print(f"{case}: seed {seed}")
    return np.random.default_rng(seed)


def check_moments(x, mean: float, deviation: float):
    sigmas = abs(float(x.mean()) - mean) / (deviation / math.sqrt(x.size))
    assert sigmas < 5.5, f"mean {x.mean()}, expected {mean}: {sigmas:.1f} sigma"


def check_continuous(x, law):
    assert numpy.isfinite(x).all()
    found = stats.kstest(x.ravel(), law.cdf)
    assert found.pvalue > CHANCE, (found, x.mean(), law.mean(), x.std(), law.std())
    if math.isfinite(law.std()) and math.isfinite(law.stats(moments="k")):
        check_moments(x, law.mean(), law.std())


def check_counts(x, law):
    """A chi-square test; values of small chance are put together, tails included."""
    assert x.dtype == numpy.int64
    if law.dist.name == "zipf":
        edges = numpy.arange(1, 60)
        cdf = numpy.cumsum(law.pmf(edges))  # SciPy's own sums take all memory
    else:
        edges = numpy.unique(law.ppf(numpy.linspace(1e-3, 1 - 1e-3, 60))).astype(int)
        cdf = law.cdf(edges)
    chances = numpy.diff(numpy.concatenate(([0.0], cdf, [1.0])))
    found = numpy.bincount(numpy.searchsorted(edges, x.ravel()), minlength=len(edges) + 1)
    expected = chances * x.size
    large = expected > 5
    found = numpy.append(found[large], found[~large].sum())
    expected = numpy.append(expected[large], expected[~large].sum())
    kept = expected > 1e-9
    assert found[~kept].sum() == 0
    found, expected = found[kept], expected[kept]
    if len(found) > 1:
        statistic = float(((found - expected) ** 2 / expected).sum())
        assert stats.chi2.sf(statistic, len(found) - 1) > CHANCE, (statistic, len(found), found, expected)


# Name, arguments, the law.
CONTINUOUS = [
    ("random", (), stats.uniform()),
    ("uniform", (-2, 3), stats.uniform(-2, 5)),
    ("standard_normal", (), stats.norm()),
    ("normal", (1.5, 2.5), stats.norm(1.5, 2.5)),
    ("lognormal", (0.5, 0.7), stats.lognorm(0.7, scale=math.exp(0.5))),
    ("standard_exponential", (), stats.expon()),
    ("exponential", (3.0,), stats.expon(scale=3)),
    ("standard_cauchy", (), stats.cauchy()),
    ("laplace", (1.0, 2.0), stats.laplace(1, 2)),
    ("logistic", (1.0, 2.0), stats.logistic(1, 2)),
    ("gumbel", (1.0, 2.0), stats.gumbel_r(1, 2)),
    ("rayleigh", (2.0,), stats.rayleigh(scale=2)),
    ("triangular", (-1.0, 0.5, 3.0), stats.triang(0.375, -1, 4)),
    ("triangular", (0.0, 0.0, 1.0), stats.triang(0, 0, 1)),
    ("triangular", (0.0, 1.0, 1.0), stats.triang(1, 0, 1)),
    ("wald", (2.0, 3.0), stats.invgauss(2 / 3, scale=3)),
    ("wald", (50.0, 0.5), stats.invgauss(100, scale=0.5)),
    ("standard_gamma", (0.05,), stats.gamma(0.05)),
    ("standard_gamma", (1.0,), stats.gamma(1)),
    ("gamma", (0.7, 2.0), stats.gamma(0.7, scale=2)),
    ("gamma", (40.0, 0.5), stats.gamma(40, scale=0.5)),
    ("gamma", (1e8, 1.0), stats.gamma(1e8)),
    ("beta", (0.3, 0.4), stats.beta(0.3, 0.4)),
    ("beta", (5.0, 2.0), stats.beta(5, 2)),
    ("chisquare", (0.5,), stats.chi2(0.5)),
    ("chisquare", (9,), stats.chi2(9)),
    ("noncentral_chisquare", (0.5, 2.0), stats.ncx2(0.5, 2)),
    ("noncentral_chisquare", (6.0, 40.0), stats.ncx2(6, 40)),
    ("noncentral_chisquare", (4.0, 0.0), stats.chi2(4)),
    ("f", (5, 12), stats.f(5, 12)),
    ("noncentral_f", (5, 12, 3.0), stats.ncf(5, 12, 3)),
    ("standard_t", (1.5,), stats.t(1.5)),
    ("standard_t", (30,), stats.t(30)),
    ("pareto", (6.0,), stats.lomax(6)),
    ("power", (0.4,), stats.powerlaw(0.4)),
    ("power", (3.0,), stats.powerlaw(3)),
    ("weibull", (0.8,), stats.weibull_min(0.8)),
    ("vonmises", (0.0, 0.0), stats.uniform(-math.pi, 2 * math.pi)),
    ("vonmises", (0.0, 1e-9), stats.uniform(-math.pi, 2 * math.pi)),
    ("vonmises", (0.0, 0.7), stats.vonmises_line(0.7)),
    ("vonmises", (0.0, 60.0), stats.vonmises_line(60)),
    ("vonmises", (0.0, 9e5), stats.norm(0, 9e5**-0.5)),
    ("vonmises", (0.0, 4e6), stats.norm(0, 5e-4)),
]

COUNTS = [
    ("poisson", (0.0,), stats.poisson(0)),
    ("poisson", (0.3,), stats.poisson(0.3)),
    ("poisson", (3.9,), stats.poisson(3.9)),
    ("poisson", (4.1,), stats.poisson(4.1)),
    ("poisson", (60.0,), stats.poisson(60)),
    ("poisson", (3e8,), stats.poisson(3e8)),
    ("binomial", (0, 0.4), stats.binom(0, 0.4)),
    ("binomial", (1, 0.3), stats.binom(1, 0.3)),
    ("binomial", (12, 1.0), stats.binom(12, 1)),
    ("binomial", (12, 0.0), stats.binom(12, 0)),
    ("binomial", (15, 0.8), stats.binom(15, 0.8)),
    ("binomial", (100, 0.5), stats.binom(100, 0.5)),
    ("binomial", (1000, 0.985), stats.binom(1000, 0.985)),
    ("binomial", (10**9, 1e-8), stats.binom(10**9, 1e-8)),
    ("binomial", (10**12, 0.4), stats.norm(4e11, math.sqrt(2.4e11))),
    ("hypergeometric", (5, 7, 4), stats.hypergeom(12, 5, 4)),
    ("hypergeometric", (7, 5, 10), stats.hypergeom(12, 7, 10)),
    ("hypergeometric", (0, 5, 3), stats.hypergeom(5, 0, 3)),
    ("hypergeometric", (5, 0, 3), stats.hypergeom(5, 5, 3)),
    ("hypergeometric", (60, 200, 100), stats.hypergeom(260, 60, 100)),
    ("hypergeometric", (200, 60, 180), stats.hypergeom(260, 200, 180)),
    ("hypergeometric", (10**8, 3 * 10**8, 10**6), stats.norm(250000, math.sqrt(187500 * (1 - 1 / 400)))),
    ("negative_binomial", (3, 0.4), stats.nbinom(3, 0.4)),
    ("negative_binomial", (0.5, 0.02), stats.nbinom(0.5, 0.02)),
    ("geometric", (0.3,), stats.geom(0.3)),
    ("geometric", (1.0,), stats.geom(1.0)),
    ("geometric", (0.001,), stats.geom(0.001)),
    ("logseries", (0.2,), stats.logser(0.2)),
    ("logseries", (0.97,), stats.logser(0.97)),
    ("zipf", (1.3,), stats.zipf(1.3)),
    ("zipf", (4.0,), stats.zipf(4.0)),
]


def placed(arguments, where: str):
    """Single parameters as numbers, as a host array, or as remote arrays."""
    if where == "numbers":
        return arguments
    if where == "host array":
        return tuple(numpy.full((2, 1), each) for each in arguments)
    return tuple(np.asarray(numpy.full((2, 1), each)) for each in arguments)


@pytest.mark.parametrize("where", ["numbers", "remote"])
@pytest.mark.parametrize("at", range(len(CONTINUOUS)), ids=lambda at: f"{CONTINUOUS[at][0]}{CONTINUOUS[at][1]}")
def test_continuous(at, where):
    name, arguments, law = CONTINUOUS[at]
    if where == "remote" and not arguments:
        return
    rng = generator(f"{name}{arguments}{where}")
    x = numpy.asarray(getattr(rng, name)(*placed(arguments, where), size=(2, N // 2)))
    assert x.shape == (2, N // 2) and x.dtype == numpy.float64
    check_continuous(x, law)


@pytest.mark.parametrize("where", ["numbers", "host array", "remote"])
@pytest.mark.parametrize("at", range(len(COUNTS)), ids=lambda at: f"{COUNTS[at][0]}{COUNTS[at][1]}")
def test_counts(at, where):
    name, arguments, law = COUNTS[at]
    rng = generator(f"{name}{arguments}{where}")
    x = numpy.asarray(getattr(rng, name)(*placed(arguments, where), size=(2, N // 2)))
    assert x.shape == (2, N // 2)
    if isinstance(law.dist, stats.rv_continuous):
        check_continuous((x + numpy.random.default_rng(0).random(x.shape) - 0.5), law)
    else:
        check_counts(x, law)


def test_parameters_broadcast():
    rng = generator("broadcast")
    means, scales = numpy.array([[0.0], [100.0]]), np.asarray(numpy.array([1.0, 10.0, 0.1]))
    x = numpy.asarray(rng.normal(means, scales, size=(N, 2, 3)))
    for row, mean in enumerate((0, 100)):
        for column, scale in enumerate((1, 10, 0.1)):
            check_continuous(x[:, row, column], stats.norm(mean, scale))
    lam = numpy.array([0.5, 3.0, 4.5, 1000.0])
    for given in (lam, np.asarray(lam), np.asarray(lam.astype("float32"))):
        x = numpy.asarray(rng.poisson(given, size=(N, 4)))
        for at, each in enumerate(lam):
            check_counts(x[:, at], stats.poisson(each))
    x = numpy.asarray(rng.binomial(np.asarray(numpy.array([3, 50, 400])), [0.5, 0.9, 0.25], size=(N, 3)))
    for at, (n, p) in enumerate(((3, 0.5), (50, 0.9), (400, 0.25))):
        check_counts(x[:, at], stats.binom(n, p))


@pytest.mark.parametrize("name", ["random", "standard_normal", "standard_exponential", "standard_gamma"])
def test_single_precision(name):
    rng = generator(f"{name} float32")
    law = {"random": stats.uniform(), "standard_normal": stats.norm(), "standard_exponential": stats.expon()}
    leading = (2.5,) if name == "standard_gamma" else ()
    x = getattr(rng, name)(*leading, size=N, dtype=numpy.float32)
    assert x.dtype == numpy.float32
    check_continuous(numpy.asarray(x).astype(float), law.get(name, stats.gamma(2.5)))


@pytest.mark.parametrize(
    "low,high",
    [(0, 2), (-3, 10), (0, 1000), (0, 3 * 2**30), (-(2**31), 2**31), (5, 2**40), (0, 3 * 2**61), (-(2**63), 2**63)],
)
@pytest.mark.parametrize("where", ["numbers", "host array", "remote"])
def test_integers(low, high, where):
    rng = generator(f"integers {low} {high} {where}")
    endpoint = high == 2**63
    bounds = (low, high - 1 if endpoint else high)
    if where != "numbers":
        bounds = tuple(numpy.full((2, 1), each) for each in bounds)
    if where == "remote":
        bounds = tuple(map(np.asarray, bounds))
    x = numpy.asarray(rng.integers(*bounds, size=(2, N // 2), endpoint=endpoint))
    assert x.dtype == numpy.int64 and x.min() >= low and x.max() <= high - 1
    width = min(high - low, 64)
    bins = numpy.array([(int(each) - low) * width // (high - low) for each in x.ravel()])
    expected = (
        numpy.bincount([at * width // (high - low) for at in range(high - low)])
        if high - low < 4096
        else numpy.ones(width)
    )
    expected = expected / expected.sum() * x.size
    statistic = ((numpy.bincount(bins, minlength=width) - expected) ** 2 / expected).sum()
    assert stats.chi2.sf(statistic, width - 1) > CHANCE
    # The lowest bits, too.
    if high - low > 4096 and (high - low) % 4096 == 0:
        counts = numpy.bincount(((x.ravel() - low) % 16).astype(int), minlength=16)
        assert stats.chi2.sf(((counts - N / 16) ** 2 / (N / 16)).sum(), 15) > CHANCE


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "int32", "int64"])
def test_integers_of_a_dtype(dtype):
    rng = generator(f"integers {dtype}")
    low, high = (0, 2) if dtype == "bool" else (0, 256) if dtype == "uint8" else (-100, 100)
    x = rng.integers(low, high, size=N, dtype=dtype)
    assert x.dtype == numpy.dtype(dtype)
    values, counts = numpy.unique(numpy.asarray(x), return_counts=True)
    assert len(values) == high - low and values[0] == low and values[-1] == high - 1
    assert stats.chisquare(counts).pvalue > CHANCE
    assert rng.integers(3, dtype=dtype if dtype != "bool" else "int8").shape == ()


@pytest.mark.parametrize("where", ["host", "remote"])
def test_dirichlet(where):
    rng = generator(f"dirichlet {where}")
    alpha = numpy.array([0.2, 1.5, 7.0])
    x = numpy.asarray(rng.dirichlet(np.asarray(alpha) if where == "remote" else alpha, size=(2, N // 2)))
    assert x.shape == (2, N // 2, 3)
    numpy.testing.assert_allclose(x.sum(-1), 1)
    for at, each in enumerate(alpha):
        check_continuous(x[..., at], stats.beta(each, alpha.sum() - each))
    x = numpy.asarray(rng.dirichlet([0, 1, 1], size=5))
    assert (x[:, 0] == 0).all() and numpy.asarray(rng.dirichlet([0, 0])).tolist() == [0, 0]
    tiny = numpy.asarray(rng.dirichlet([1e-3, 1e-3], size=N))
    check_moments(tiny[:, 0], 0.5, 0.5)


@pytest.mark.parametrize("where", ["host", "remote"])
@pytest.mark.parametrize("n", [0, 3, 200, 10**6])
def test_multinomial(n, where):
    rng = generator(f"multinomial {n} {where}")
    shares = numpy.array([0.1, 0.0, 0.45, 0.15, 0.3])
    x = numpy.asarray(rng.multinomial(*((n, shares) if where == "host" else map(np.asarray, (n, shares))), size=N // 4))
    assert x.shape == (N // 4, 5) and x.dtype == numpy.int64 and (x.sum(-1) == n).all() and (x >= 0).all()
    for at, share in enumerate(shares):
        check_counts(x[:, at], stats.binom(n, share))
    if n:
        covariance = numpy.cov(x[:, 0], x[:, 2])[0, 1]
        deviation = n * math.sqrt((0.1 * 0.45) ** 2 + 0.09 * 0.2475) / math.sqrt(N // 4)
        assert abs(covariance + n * 0.045) < 6 * deviation + 1e-9 * n, covariance


def test_multinomial_of_several():
    rng = generator("multinomials")
    x = rng.multinomial([[3], [40]], np.asarray(numpy.array([[0.5, 0.5], [0.2, 0.8], [1.0, 0.0]])), size=(500, 2, 3))
    x = numpy.asarray(x)
    assert x.shape == (500, 2, 3, 2) and (x.sum(-1) == [[3], [40]]).all() and (x[:, :, 2, 1] == 0).all()
    check_counts(x[:, 1, 1, 0], stats.binom(40, 0.2))


@pytest.mark.parametrize("where", ["host", "remote"])
@pytest.mark.parametrize("sample", [0, 4, 150, 330])
def test_multivariate_hypergeometric(sample, where):
    rng = generator(f"colors {sample} {where}")
    colors = numpy.array([100, 3, 200, 30])
    given = colors if where == "host" else np.asarray(colors)
    x = numpy.asarray(rng.multivariate_hypergeometric(given, sample, size=N // 4, method="count"))
    assert x.shape == (N // 4, 4) and (x.sum(-1) == sample).all() and (x >= 0).all() and (x <= colors).all()
    for at, color in enumerate(colors):
        check_counts(x[:, at], stats.hypergeom(333, color, sample))


@pytest.mark.parametrize("where", ["host", "remote"])
@pytest.mark.parametrize("method", ["svd", "eigh", "cholesky"])
def test_multivariate_normal(method, where):
    rng = generator(f"normals {method} {where}")
    mean, cov = numpy.array([1.0, -2.0, 0.0]), numpy.array([[2.0, 0.6, 0.1], [0.6, 1.0, -0.3], [0.1, -0.3, 0.5]])
    given = (mean, cov) if where == "host" else (np.asarray(mean), np.asarray(cov))
    x = numpy.asarray(rng.multivariate_normal(*given, size=(2, N // 2), method=method))
    assert x.shape == (2, N // 2, 3)
    for direction in ([1, 0, 0], [0, 1, 0], [1, 1, 1], [1, -2, 3]):
        along = numpy.array(direction, float)
        check_continuous(x @ along, stats.norm(mean @ along, math.sqrt(along @ cov @ along)))
    assert rng.multivariate_normal(*given).shape == (3,)
