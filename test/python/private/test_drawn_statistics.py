# SPDX-License-Identifier: Apache-2.0
"""Statistics of the owner's draws, published in a step: means of the rows drawn over the rows expected, whatever is
computed of them then; and sums that stay sums.

The step is recorded at an owner with a private table, made private, and run on NumPy with coins of zero and a draw of
the test's own. The oracle knows the rows that were drawn and the expected size, and neither slots nor cuts.
"""

import itertools
import re

import numpy as np
import pytest
import torch
from core_form import tool
from paired import results_of
from private_step import PrivateStep, encode

import sojourn
from sojourn_numpy import decode
from sojourn_numpy.datasets import make_dataset

BOUNDS = {"a": (-2, 6), "b": (0, 1)}
SIZES = itertools.count(11)  # an expected size of its own for each program: one that was compiled is not dumped again


def moments(x, size):
    """Mean and mean of products over the rows expected."""
    return x.sum(0) / size, x.T @ x / size


def covariance(x, size, correction=1):
    mean, products = moments(x, size)
    # A step divides by slots less the correction; what stands for the slots is the expected size.
    return (products - np.outer(mean, mean)) * covariance.slots / (covariance.slots - correction)


def variance(x, size, correction=1):
    """More rows than expected can bring it below 0, which is 0 then."""
    return np.maximum(np.diag(covariance(x, size, correction)), 0)


def correlation(x, size):
    c = covariance(x, size)
    with np.errstate(invalid="ignore"):
        deviation = np.sqrt(np.diag(c))
    return np.clip(c / np.outer(deviation, deviation), -1, 1)  # as torch does


CASES = {
    "mean": (lambda x: x.mean(0), lambda x, n: x.sum(0) / n),
    "sum": (lambda x: x.sum(0), lambda x, n: x.sum(0)),
    "scaled_mean": (lambda x: x.mean(0) * 2.5, lambda x, n: 2.5 * x.sum(0) / n),
    "mean_of_all": (lambda x: x.mean(), lambda x, n: x.sum() / (2 * n)),
    "expected_mean": (lambda x: x.sum(0) / 7, lambda x, n: x.sum(0) / 7),
    "root_of_mean_square": (lambda x: x.square().mean(0).sqrt(), lambda x, n: np.sqrt((x**2).sum(0) / n)),
    "square_of_mean": (lambda x: x.mean(0) ** 2, lambda x, n: (x.sum(0) / n) ** 2),
    "var": (lambda x: x.var(0), variance),
    "var_population": (lambda x: x.var(0, unbiased=False), lambda x, n: variance(x, n, 0)),
    "std": (lambda x: x.std(0), lambda x, n: np.sqrt(variance(x, n))),
    "var_of_one": (lambda x: x[:, 0].var(), lambda x, n: variance(x, n)[0]),
    "mean_and_var": (
        lambda x: torch.stack([x.mean(0), x.var(0)]),
        lambda x, n: np.stack([x.sum(0) / n, variance(x, n)]),
    ),
    "cov": (lambda x: torch.cov(x.T), covariance),
    "corrcoef": (lambda x: torch.corrcoef(x.T), correlation),
    "ratio": (lambda x: x[:, 0].sum() / x[:, 1].sum(), lambda x, n: x[:, 0].sum() / x[:, 1].sum()),
}


def recorded(statistic, arrays, size, monkeypatch, folder) -> str:
    """Core form of a step that publishes the statistic of a batch of the owner's."""
    monkeypatch.setenv("SOJOURN_DUMP", str(folder))
    with sojourn.local() as owner:
        table = owner.register("t", arrays, policy="private", bounds=BOUNDS)
        owner.grant("t", epsilon=50, delta=1e-5)
        with sojourn.step():
            sojourn.publish(statistic(next(iter(table.batches(["a", "b"], size=size, dtype=torch.float64)))))
    (dump,) = folder.glob("*/04-core.mlir")
    # Without locations, and with the numbers of Python as the step's own.
    tool("sojourn-translate", "encode", dump, "-o", folder / "plain.bin")
    return tool("sojourn-translate", "decode", folder / "plain.bin", "-o", "-").stdout


@pytest.mark.parametrize("name", CASES)
def test_values(name, seed, monkeypatch, tmp_path):
    statistic, oracle = CASES[name]
    rng = np.random.default_rng(seed)
    size, rows = next(SIZES), 300
    arrays = {"a": rng.uniform(-2, 6, rows), "b": rng.uniform(0, 1, rows)}
    arrays["b"] = (arrays["b"] + (arrays["a"] + 2) / 8) / 2
    text = recorded(statistic, arrays, size, monkeypatch, tmp_path)
    plain = decode(encode(re.sub(r", expected = \d+", "", text)))  # NumPy's owner draws nothing in secret
    step = PrivateStep(plain, text, f"bounds=a=-2:6,b=0:1 rows={rows} noise-multiplier=1e-6 metric-bound=1e6")
    (draw,) = step.draws
    (slots,) = step.program.args[draw].type.shape
    covariance.slots = slots
    drawn = rng.permutation(rows)[: rng.integers(size // 2, min(2 * size, slots))]
    numbers = np.full(slots, -1)
    numbers[rng.permutation(slots)[: len(drawn)]] = drawn
    # 2.5 is the one number that a case holds; which batch it is, the slots of whole numbers, a draw does not ask.
    given = [
        make_dataset("t", arrays) if arg.kind == "table" else np.asarray(2.5).astype(arg.type.dtype)
        for arg in plain.args
    ]
    values = step.run(step.args(given, draw=numbers))
    published = [k for k, result in enumerate(step.program.results) if result.kind == "publish"]
    x = np.stack([arrays["a"], arrays["b"]], 1)[drawn]
    np.testing.assert_allclose(results_of(step.program, values)[published[0]], oracle(x, size), rtol=1e-7, atol=1e-7)
