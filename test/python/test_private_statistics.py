# SPDX-License-Identifier: Apache-2.0
"""Statistics of a private table: recorded as a scientist writes them, made private, and compared with torch's values.

The rewritten program runs on the NumPy owner with its coins as inputs. Without noise, and on a grid that is fine enough
to see nothing of, it gives what torch gives in float64; noise moves it; and a changed row moves what noise is added to by
no more than the sensitivity that is paid for.
"""

import gc
import itertools
import os
import pathlib
import re
import subprocess

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import sojourn
import sojourn_numpy.owner as numpy_owner
from sojourn_numpy import decode
from sojourn_numpy.run import run

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("SOJOURN_BIN", ROOT / "build/bin"))
BOUNDS = {"a": (-8, 8), "b": (-3, 5), "c": (0, 4), "d": (18, 100), "k": (0, 3), "m": (0, 3), "e": (20, 30)}
FLOATS, INTEGERS = "abcd", "kme"
# A noise of a millionth of the sensitivity, so that its grid is finer than the comparison.
FINE = "noise-multiplier=1e-6"
# A program that was compiled already is not dumped again: each table has a number of rows of its own.
ROWS = itertools.count(40)


def centred(x):
    return x - x.mean(0)


def covariance(x):
    return centred(x).T @ centred(x) / (len(x) - 1)


def correlation(x):
    z = centred(x) / x.std(0)
    return z.T @ z / (len(x) - 1)


def correlation_from_covariance(x):
    c = covariance(x)
    deviation = c.diagonal().sqrt()
    return c / deviation[:, None] / deviation[None, :]


def hot(labels, classes=4):
    return F.one_hot(labels, classes).double()


def matches(t):
    return hot(t["k"]) * (t["k"] == t["m"])[:, None]


def columns(t):
    return torch.stack([t["a"], t["b"], t["c"]], 1)


def apart(t):
    """Columns whose bounds have little in common."""
    return torch.stack([t["a"], t["d"], t["c"]], 1)


def edges(t, *numbers):
    return torch.tensor(numbers, dtype=torch.float64).to(t["a"].device)


def slope(a, b):
    return (centred(a) * centred(b)).sum() / centred(a).square().sum()


# A function of the columns, and how many numbers it releases at least: one per sum of what rows hold.
CASES = {
    "count": (lambda t: (t["a"] > 0.5).sum(), 1),
    "sum": (lambda t: t["a"].sum(), 1),
    "sum_columns": (lambda t: columns(t).sum(0), 3),
    "mean": (lambda t: t["b"].mean(), 1),
    "var": (lambda t: t["a"].var(), 2),
    "var_population": (lambda t: columns(t).var(0, unbiased=False), 6),
    "std": (lambda t: t["b"].std(), 2),
    "std_columns": (lambda t: columns(t).std(0), 6),
    "var_by_hand": (lambda t: (t["a"] - t["a"].mean()).pow(2).mean(), 2),
    "second_moment": (lambda t: t["a"].pow(2).mean() - t["a"].mean() ** 2, 2),
    "skewness": (lambda t: (centred(t["a"]) ** 3).mean() / t["a"].std() ** 3, 3),
    "kurtosis": (lambda t: ((centred(t["b"]) / t["b"].std()) ** 4).mean(), 4),
    "histogram_of_classes": (lambda t: F.one_hot(t["k"], 4).sum(0), 4),
    "histogram_of_buckets": (lambda t: F.one_hot(torch.bucketize(t["a"], edges(t, -4.0, 0.0, 2.0)), 4).sum(0), 4),
    "histogram_of_edges": (
        lambda t: (
            (t["a"][:, None] >= edges(t, -8.0, -2.0, 3.0)) & (t["a"][:, None] < edges(t, -2.0, 3.0, 8.5))
        ).sum(0),
        3,
    ),
    "histogram_by_addition": (lambda t: torch.zeros_like(t["a"][:4]).index_add(0, t["k"], torch.ones_like(t["a"])), 4),
    "histogram_between": (lambda t: torch.histc(t["a"], bins=5, min=-6, max=7.5), 5),
    "histogram_and_edges": (lambda t: torch.histogram(t["b"], bins=4, range=(-2.5, 5.0)).hist, 4),
    "histogram_of_given_edges": (lambda t: torch.histogram(t["a"], edges(t, -5.0, -1.5, 0.0, 6.0)).hist, 3),
    "count_per_class": (lambda t: torch.bincount(t["k"], minlength=4), 4),
    "count_of_more_classes": (lambda t: torch.bincount(t["k"], minlength=7), 7),
    "sum_per_class": (lambda t: torch.bincount(t["k"], weights=t["a"], minlength=4), 4),
    "sum_per_class_by_scatter": (lambda t: torch.zeros_like(t["a"][:4]).scatter_add(0, t["k"], t["a"]), 4),
    "sums_per_class": (
        lambda t: torch.zeros_like(columns(t)[:4]).scatter_add(0, t["k"][:, None].expand(-1, 3), columns(t)),
        12,
    ),
    "mean_per_class_by_scatter": (
        lambda t: torch.zeros_like(t["a"][:4]).scatter_reduce(0, t["k"], t["a"], "mean", include_self=False),
        8,
    ),
    "crosstab_of_counts": (lambda t: torch.bincount(t["k"] * 4 + t["m"], minlength=16).reshape(4, 4), 16),
    "cov": (lambda t: torch.cov(columns(t).T), 12),
    "cov_of_one": (lambda t: torch.cov(t["b"], correction=0), 2),
    "corrcoef": (lambda t: torch.corrcoef(columns(t).T), 12),
    "masked_mean": (lambda t: torch.where(t["k"] == 1, t["a"], 0).sum() / (t["k"] == 1).sum(), 2),
    "mean_squared_error": (lambda t: F.mse_loss(t["a"], t["b"]), 1),
    "crosstab": (lambda t: hot(t["k"]).T @ hot(t["m"]), 16),
    "crosstab_of_one_number": (lambda t: F.one_hot(t["k"] * 4 + t["m"], 16).sum(0).reshape(4, 4), 16),
    "gram": (lambda t: columns(t).T @ columns(t), 9),
    "covariance": (lambda t: covariance(columns(t)), 12),
    "covariance_of_two": (lambda t: (centred(t["a"]) * centred(t["b"])).mean(), 3),
    "correlation": (lambda t: correlation_from_covariance(columns(t)), 12),
    "correlation_of_two": (
        lambda t: (centred(t["a"]) / t["a"].std() * (centred(t["b"]) / t["b"].std())).sum() / (len(t["a"]) - 1),
        5,
    ),
    "slope": (lambda t: slope(t["a"], t["b"]), 4),
    "confusion": (lambda t: hot(t["k"]).T @ hot((t["a"] > 0).long() + 2 * (t["b"] > 1).long()), 16),
    "accuracy": (lambda t: (t["k"] == t["m"]).double().mean(), 1),
    "accuracy_per_class": (lambda t: matches(t).sum(0) / hot(t["k"]).sum(0), 8),
    "mean_per_class": (lambda t: (hot(t["k"]) * t["a"][:, None]).sum(0) / hot(t["k"]).sum(0), 8),
    # A float of a script is a slot, which the tool knows no number of: such rows are clamped to 10.
    "var_of_a_float_multiple": (lambda t: (t["a"] * 0.25).var(), 2),
    "std_of_a_float_multiple": (lambda t: (0.1 * columns(t)).std(0), 6),
    "power": (lambda t: t["c"].pow(1.5).mean(), 1),
    "mean_by_shares": (lambda t: (t["c"] / t["c"].sum() * t["a"]).sum(), 2),
    "scaled_by_a_sum": (lambda t: (t["a"] * (t["c"] / t["c"].sum())).sum(), 2),
    "sum_and_total": (lambda t: (t["a"].sum(), t["a"].sum() + t["b"].sum()), 2),
    "sum_and_both_added": (lambda t: (t["c"].sum(), (t["a"].sum() + t["b"].sum()) - t["c"].sum()), 2),
    "mean_far_from_zero": (lambda t: t["d"].mean(), 1),
    "var_far_from_zero": (lambda t: t["d"].var(), 2),
    "std_of_logarithms": (lambda t: t["d"].log().std(), 2),
    "kurtosis_far_from_zero": (lambda t: ((centred(t["d"]) / t["d"].std()) ** 4).mean(), 4),
    "slope_far_from_zero": (lambda t: slope(t["d"], t["b"]), 4),
    "geometric_mean": (lambda t: t["d"].log().mean().exp(), 1),
    "harmonic_mean": (lambda t: 1 / (1 / t["d"]).mean(), 1),
    "sums_apart": (lambda t: apart(t).sum(0), 3),
    "means_of_columns": (lambda t: apart(t).T.mean(1), 3),
    "std_apart": (lambda t: apart(t).std(0), 6),
    "cov_apart": (lambda t: torch.cov(apart(t).T), 12),
    "covariance_apart": (lambda t: covariance(apart(t)), 12),
    "corrcoef_apart": (lambda t: torch.corrcoef(apart(t).T), 12),
    "variance_of_all": (lambda t: apart(t).var(), 2),
    "sum_of_all": (lambda t: apart(t).sum(), 1),
    "sum_of_integers": (lambda t: t["e"].sum(), 1),
    "mean_of_integers": (lambda t: t["e"].double().mean(), 1),
    "sums_that_are_added": (lambda t: t["d"].sum() + t["c"].sum(), 1),
    "sums_that_are_subtracted": (lambda t: t["d"].sum() - t["c"].sum(), 1),
    "sum_of_a_part": (lambda t: t["d"][:20].sum(), 1),
    "mean_of_each_second": (lambda t: t["d"][1::2].mean(), 1),
    "weighted_mean": (lambda t: (t["c"] * t["a"]).sum() / t["c"].sum(), 2),
    "several": (
        lambda t: (t["a"].mean(), t["a"].std(), covariance(columns(t)), F.one_hot(t["k"], 4).sum(0), t["a"].mean() * 2),
        18,
    ),
}  # fmt: skip
# What neither ranges nor algebra bound.
REFUSED = {
    "median": (lambda t: t["a"].median(), "'sort' runs along rows"),
    "quantile": (lambda t: t["a"].quantile(0.25), "'sort' runs along rows"),
    "largest": (lambda t: t["a"].max(), "'reduce_max' is taken over rows"),
    "deviation": (
        lambda t: centred(t["a"]).abs().mean(),
        "'sub' per-row values meet a value that was summed over rows",
    ),
    "standardised": (lambda t: (t["a"] - t["a"].mean()) / t["a"].std(), "'sub' per-row values meet"),
    "pairs": (lambda t: (columns(t) @ columns(t).T).sum(), "'dot' each row meets other rows of the batch"),
    "product": (lambda t: t["c"].prod(), "'reduce_prod' is taken over rows"),
    "column": (lambda t: t["a"], "a value per row of private data is published"),
}


def draw_table(rng, rows, floats=np.float64):
    table = {name: np.array([rng.uniform(*BOUNDS[name]) for _ in range(rows)], floats) for name in FLOATS}
    return table | {name: np.array([rng.randint(*BOUNDS[name]) for _ in range(rows)]) for name in INTEGERS}


def tensors(arrays):
    return {name: torch.from_numpy(column) for name, column in arrays.items()}


class Recorded:
    """What a scientist's statistic is in core form, and the arguments that the NumPy owner ran it with."""

    def __init__(self, statistic, arrays, monkeypatch, folder):
        seen = []

        def spy(program, args, watch=None):
            seen.append(list(args))
            return run(program, args, watch)

        gc.collect()  # owners of earlier tests run what is pending when they close: not among what is seen here
        monkeypatch.setattr(numpy_owner, "run", spy)
        monkeypatch.setenv("SOJOURN_DUMP", str(folder))
        owner = sojourn.local(runtime="numpy")
        owner.register("t", arrays, policy="open", bounds={name: BOUNDS[name] for name in arrays})
        table = owner.dataset("t")
        with sojourn.step():  # outside of steps, sizes of open tables would be read first
            found = statistic({name: table[name] for name in arrays})
            published = sojourn.publish(found if isinstance(found, tuple) else (found,))
        self.values = published.value
        self.args = seen[-1]
        dumps = sorted(folder.glob("*/04-core.mlir"))
        self.text = dumps[-1].read_text() if dumps else None


def tool(name, *arguments, text):
    return subprocess.run([BIN / name, *arguments], input=text, capture_output=True)


def bounds_option():
    return "bounds=" + ",".join(f"{name}={low}:{high}" for name, (low, high) in BOUNDS.items())


class Private:
    """The rewritten program, with coins as its last uploads."""

    def __init__(self, text, folder, options=FINE):
        done = tool(
            "sojourn-opt",
            "-",
            f"--sojourn-make-private={bounds_option()} {options} coins-as-uploads",
            text=text.encode(),
        )
        assert done.returncode == 0, done.stderr.decode()[:2000]
        self.remarks = done.stderr.decode()
        path = folder / "private.bin"
        encoded = tool("sojourn-translate", "encode", "-", "-o", path, text=done.stdout)
        assert encoded.returncode == 0, encoded.stderr.decode()
        self.program = decode(path.read_bytes())
        self.sites = [
            (int(numbers), float(sensitivity))
            for numbers, sensitivity in re.findall(r", (\d+) numbers, sensitivity (\S+) and noise", self.remarks)
        ]

    def run(self, args, coin=lambda shape: np.zeros(shape, np.int64), gone=None):
        """Published values, and per coin the sum in units of its grid; of a table without row `gone`."""
        reads = {op.operands[1] for op in self.program.ops if op.name == "read_rows"}
        first = sum(arg.kind in ("state", "upload") for arg in self.program.args)
        count = len(self.program.args) - len(args)
        coins = [coin(self.program.args[first - count + k].type.shape) for k in range(count)]
        units = []

        def watch(index, op, results):
            if op.name == "round":
                units.append(results[0])
            if op.first_result in reads:
                results[0][results[0] == gone] = -1

        values = run(self.program, args[: first - count] + coins + args[first - count :], watch)
        published = [v for v, result in zip(values, self.program.results, strict=True) if result.kind == "publish"]
        return published, units


def norm_of_difference(one, two):
    return np.sqrt(sum(((u - v) ** 2).sum() for u, v in zip(one, two, strict=True)))


@pytest.mark.parametrize("name", CASES)
def test_values_and_sensitivity(name, rng, monkeypatch, tmp_path):
    statistic, least = CASES[name]
    rows = next(ROWS)
    arrays = draw_table(rng, rows)
    recorded = Recorded(statistic, arrays, monkeypatch, tmp_path)
    private = Private(recorded.text, tmp_path)
    expected = statistic(tensors(arrays))
    expected = expected if isinstance(expected, tuple) else (expected,)

    values, units = private.run(recorded.args)
    assert len(values) == len(expected)
    for value, want in zip(values, expected, strict=True):
        np.testing.assert_allclose(value, want.numpy(), rtol=1e-9, atol=1e-9)

    numbers = sum(count for count, _ in private.sites)
    assert numbers == least, private.sites

    # Noise reaches every result.
    noised, _ = private.run(recorded.args, lambda shape: np.full(shape, 1 << 46))
    for value, want in zip(noised, values, strict=True):
        assert not np.array_equal(value, want)

    # A row that is gone: one share at most. Another row in the place of one: two.
    paid = np.sqrt(sum(sensitivity**2 for _, sensitivity in private.sites))
    _, less = private.run(recorded.args, gone=rng.randrange(rows))
    assert norm_of_difference(units, less) <= paid
    changed = {key: column.copy() for key, column in arrays.items()}
    row = rng.randrange(rows)
    for key, column in changed.items():
        column[row] = BOUNDS[key][rng.randrange(2)]  # the ends of the range move sums most
    other = Recorded(statistic, changed, monkeypatch, tmp_path / "other")
    _, moved = private.run(other.args)
    assert norm_of_difference(units, moved) <= 2 * paid


def span(f, low, high):
    """How far f of a row in the bounds is from the middle, at most, of an f that only rises or falls."""
    return abs(f(high) - f(low)) / 2


# What a row moves each sum by at most, from the bounds of its columns. A sum over rows is taken around the middle of what
# a row may be; a row that is gone counts as that.
MOVES = {
    "mean": (lambda t: t["d"].mean(), [41]),
    "sum_around_zero": (lambda t: t["a"].sum(), [8]),
    "var": (lambda t: t["d"].var(), [41, 41**2 / 2]),
    "several_of_one_column": (lambda t: (t["d"].mean(), t["d"].var(), t["d"].std()), [41, 41**2 / 2]),
    "cov_of_one": (lambda t: torch.cov(t["d"]), [41, 41**2 / 2]),
    "cov_of_two": (lambda t: (centred(t["d"]) * centred(t["c"])).mean(), [41, 2, 41 * 2]),
    "second_moment": (lambda t: t["d"].square().mean(), [span(np.square, 18, 100)]),
    "sums_apart": (lambda t: apart(t).sum(0), [41 * 3**0.5]),
    "covariance_apart": (lambda t: covariance(apart(t)), [41 * 3**0.5, 41**2 * 3]),
    "integers": (lambda t: t["e"].sum(), [5]),
    "count": (lambda t: (t["d"] > 60).sum(), [0.5]),
    "share": (lambda t: (t["d"] > 60).double().mean(), [0.5]),
    "all_of_them": (lambda t: (t["d"] > t["c"]).double().mean(), [1]),
    "one_hot": (lambda t: F.one_hot(t["k"], 4).sum(0), [1]),
    "sum_per_class": (lambda t: torch.bincount(t["k"], weights=t["d"], minlength=4), [100]),
    "logarithm": (lambda t: t["d"].log().mean(), [span(np.log, 18, 100)]),
    "reciprocal": (lambda t: (1 / t["d"]).mean(), [span(np.reciprocal, 18.0, 100.0)]),
    "var_of_logarithms": (lambda t: t["d"].log().var(), [span(np.log, 18, 100), span(np.log, 18, 100) ** 2 / 2]),
    "power": (lambda t: t["d"].pow(t["a"] / 8).mean(), [span(lambda p: 100.0**p, -1, 1)]),
    "entropy": (lambda t: (t["d"] * t["d"].log()).mean(), [(100 * np.log(100) - 18 * np.log(18)) / 2]),
    "added": (lambda t: t["d"].sum() + t["c"].sum(), [43]),
    # Shares c_i / sum(c) need no sum of d, and so do not get one.
    "weighted": (lambda t: (t["c"] / t["c"].sum() * t["d"]).sum(), [2, 200]),
    # Columns that may be 0: a logarithm is infinite there, and a mask that it is multiplied by leaves NaN of it. The
    # default bound clamps what a row adds.
    "logarithm_of_zero": (lambda t: t["c"].log().sum(), [10]),
    "logarithm_under_a_mask": (lambda t: (t["c"].log() * (t["c"] > 1)).sum(), [10]),
    "reciprocal_under_a_mask": (lambda t: ((t["d"] > 50) / t["c"]).sum(), [10]),
    "logarithm_around_zero": (lambda t: t["b"].log().sum(), [10]),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVES)
def test_moves(name, rng, monkeypatch, tmp_path):
    statistic, bounds = MOVES[name]
    rows = next(ROWS)
    arrays = draw_table(rng, rows)
    private = Private(Recorded(statistic, arrays, monkeypatch, tmp_path).text, tmp_path)
    found = [float(bound) for bound in re.findall(r": bound (\S+), ", private.remarks)]
    np.testing.assert_allclose(sorted(found), sorted(bounds), rtol=1e-6)
    assert ("is clamped to 10" in private.remarks) == (10 in bounds)


TIGHT = ("mean", "sum_around_zero", "second_moment", "integers", "share", "logarithm", "reciprocal", "power", "added")


@pytest.mark.parametrize("name", TIGHT)
def test_moves_are_met(name, rng, monkeypatch, tmp_path):
    """A row at an end of the bounds moves the sum by all that is paid for, and not by more."""
    statistic, _ = MOVES[name]
    arrays = draw_table(rng, next(ROWS))
    for column in arrays:
        arrays[column][0], arrays[column][1] = BOUNDS[column]
    arrays["a"][:2] = 8  # d ** -1 is no end
    recorded = Recorded(statistic, arrays, monkeypatch, tmp_path)
    private = Private(recorded.text, tmp_path)
    _, units = private.run(recorded.args)
    moved = max(norm_of_difference(units, private.run(recorded.args, gone=row)[1]) for row in (0, 1))
    ((_, paid),) = private.sites
    assert 0.999 * paid <= moved <= paid


@pytest.mark.parametrize("name", ["var", "std_columns", "covariance", "correlation"])
def test_columns_of_f32(name, rng, monkeypatch, tmp_path):
    """Sums of f32 values are made in f64; only the numbers that leave are rounded."""
    statistic, _ = CASES[name]
    arrays = draw_table(rng, next(ROWS), np.float32)
    recorded = Recorded(statistic, arrays, monkeypatch, tmp_path)
    expected = statistic({k: v.double() if v.is_floating_point() else v for k, v in tensors(arrays).items()})
    (value,), _ = Private(recorded.text, tmp_path).run(recorded.args)
    assert value.dtype == np.float32
    np.testing.assert_allclose(value, expected.numpy(), rtol=2e-5, atol=2e-5)


def test_noise_makes_no_variance_negative(rng, monkeypatch, tmp_path):
    """A constant column under noise that lowers its sum of squares: a deviation of 0, not NaN."""
    arrays = draw_table(rng, next(ROWS))
    arrays["b"][:] = rng.uniform(-3, 5)
    recorded = Recorded(CASES["std"][0], arrays, monkeypatch, tmp_path)
    private = Private(recorded.text, tmp_path, "noise-multiplier=1")
    for coin in (0, -(1 << 24), 1 << 24):
        (value,), _ = private.run(recorded.args, lambda shape, coin=coin: np.full(shape, coin))
        assert np.isfinite(value) and value >= 0


WIDTHS = np.array([8.0, 41.0, 2.0])  # half of those of apart()
SHARED = {
    "sums": (lambda t: apart(t).sum(0), WIDTHS),
    "means": (lambda t: apart(t).T.mean(1), WIDTHS),
    "squares": (lambda t: apart(t).square().sum(0), None),
    "products": (lambda t: centred(apart(t)).T @ centred(apart(t)), np.outer(WIDTHS, WIDTHS)),
}


@pytest.mark.parametrize("name", SHARED)
def test_noise_that_columns_share(name, rng, monkeypatch, tmp_path):
    """Of columns that are released together each has noise of its own width; of what is no column all have the same."""
    statistic, widths = SHARED[name]
    recorded = Recorded(statistic, draw_table(rng, next(ROWS)), monkeypatch, tmp_path)
    private = Private(recorded.text, tmp_path, "noise-multiplier=1")
    coins = iter([0, 1 << 24])  # products: the sums first
    coin = lambda shape: np.full(shape, next(coins, 1 << 24) if name == "products" else 1 << 24)
    (plain,), _ = private.run(recorded.args)
    (noised,), _ = private.run(recorded.args, coin)
    noise = noised - plain
    widths = np.ones(3) if widths is None else widths
    np.testing.assert_allclose(noise / noise.flat[0], widths / widths.flat[0], rtol=1e-6)


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name, rng, monkeypatch, tmp_path):
    statistic, reason = REFUSED[name]
    recorded = Recorded(statistic, draw_table(rng, next(ROWS)), monkeypatch, tmp_path)
    done = tool("sojourn-opt", "-", f"--sojourn-make-private={bounds_option()}", text=recorded.text.encode())
    assert done.returncode == 1
    assert reason in done.stderr.decode()
