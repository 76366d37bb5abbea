# SPDX-License-Identifier: Apache-2.0
"""What sojourn-make-private releases, in float64 on the NumPy owner: clipped sums and noise, exactly.

Two oracles that share nothing with the rewrite: per-sample gradients by torch.func, and the plain program with all but
one slot of every cut left out. The clip bound is the median of the norms, so that about half of the rows are clipped.
"""

import functools
import re

import numpy as np
import pytest
import torch
from corpus import ACCEPTED, CASES, ROWS
from paired import results_of, run, with_rows
from private_step import Points, PrivateStep, absent, encode, reached, total_norm
from programs import record
from sums import assert_close, by_torch, clipped, options_of

from sojourn_numpy import decode
from sojourn_numpy.datasets import make_dataset

F64 = torch.float64
TOLERANCE = 1e-10
BY_PARTS = [name for name in ACCEPTED if not CASES[name].divided]
BY_TORCH = [name for name in ACCEPTED if CASES[name].exact]


@functools.cache
def points_of(name: str, dtype=F64, lr=0.1) -> tuple:
    """Of a plain step: the recorded program, its noise points, its values and each slot's parts."""
    r = record(name, dtype, lr)
    points = Points(r, r.bounds)
    values = _values(r)
    parts = [points.parts(values, slot) for slot in range(len(r.rows))]
    return r, points, values, parts


def _values(r):
    return run(r.program, r.args)


def norms_of(parts, points) -> np.ndarray:
    return np.array([total_norm([part[point] for point in points]) for part in parts])


@pytest.mark.parametrize("way", ["flat", "per-layer"])
@pytest.mark.parametrize("name", BY_PARTS)
def test_sums_of_parts(name, way):
    """Every gradient of every accepted step: the sum of its slots' parts, each clipped."""
    r, points, _, parts = points_of(name)
    chosen = points.gradients()
    norms = norms_of(parts, chosen)
    bound = float(np.median(norms))
    step = PrivateStep(r.program, r.text, options_of(r, bound, "per-layer" if way == "per-layer" else ""))
    sums = step.sums(step.run(step.args(r.args)))
    coins = step.sites[0].coins
    assert step.sites[0].what == f"gradient of {len(chosen)} tensors" and len(coins) == len(chosen)
    for coin, point in zip(coins, chosen):
        each = bound
        if way == "per-layer":
            norms, each = norms_of(parts, [point]), bound / np.sqrt(len(chosen))
        with np.errstate(divide="ignore"):
            factors = np.minimum(1, each / norms)
        assert_close(
            sums[coin],
            clipped([part[point] for part in parts], factors),
            bound,
            f"{name} at value {point}",
            TOLERANCE,
        )


@pytest.mark.parametrize("name", BY_TORCH)
def test_sums_by_torch(name):
    """The clipped sums are those of torch's per-sample gradients, parameter by parameter."""
    by_torch(record(name, F64, 0.1), TOLERANCE)


@pytest.mark.parametrize("name", BY_PARTS)
def test_unclipped(name):
    """A bound that no row reaches leaves the gradient as it is."""
    r, points, values, parts = points_of(name)
    norms = norms_of(parts, points.gradients())
    step = PrivateStep(r.program, r.text, options_of(r, 1.01 * float(norms.max())))
    sums = step.sums(step.run(step.args(r.args)))
    for coin, point in zip(step.sites[0].coins, points.gradients()):
        assert_close(sums[coin], values[point], float(norms.max()), f"{name} at value {point}", TOLERANCE)


@pytest.mark.parametrize("name", BY_PARTS)
def test_removal(name, rng):
    """A row that goes away moves all sums of a release together by at most the bound; one that is absent counts 0."""
    r, points, _, parts = points_of(name)
    chosen = points.gradients()
    norms = norms_of(parts, chosen)
    bound = float(np.median(norms))
    step = PrivateStep(r.program, r.text, options_of(r, bound))
    args = step.args(r.args)
    whole = step.sums(step.run(args))
    coins = step.sites[0].coins
    factors = np.zeros(len(r.rows))
    for slot in range(len(r.rows)):
        rest = step.sums(step.run(args, absent([slot])))
        moved = total_norm([whole[coin] - rest[coin] for coin in coins])
        assert moved <= bound * (1 + 1e-9), f"slot {slot} moves by {moved / bound} of the bound"
        least = min(bound, norms[slot])
        assert least * (1 - TOLERANCE) <= moved <= least * (1 + TOLERANCE)
        factors[slot] = moved / norms[slot] if norms[slot] else 0.0
    gone = rng.sample(range(len(r.rows)), 3)
    rest = step.sums(step.run(args, absent(gone)))
    factors[gone] = 0
    for coin, point in zip(coins, chosen):
        assert_close(
            rest[coin], clipped([part[point] for part in parts], factors), bound, f"{name} without {gone}", TOLERANCE
        )
    nobody = step.sums(step.run(args, absent(range(len(r.rows)))))
    assert all((nobody[coin] == 0).all() for coin in coins)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, 1e30, -1e300])
@pytest.mark.parametrize(
    "name", ["mlp", "layer_norm", "cnn_avg", "cnn_flat", "lstm", "attention", "shared", "tied_autoencoder", "conv1d"]
)
def test_broken_rows(name, number, rng):
    """A row of such numbers counts nothing, or at most the bound if its norm is finite; and changes nothing else."""
    r = record(name, F64, 0.1)
    slot, bound = rng.randrange(len(r.rows)), 0.01
    step = PrivateStep(r.program, r.text, f"bounds=y=0:2 rows={ROWS} clip={bound * len(r.rows)!r}")

    def spoil(column, values):
        if values.dtype.kind == "f":
            values[int(r.rows[slot])] = number

    coins = step.sites[0].coins
    spoiled = step.sums(step.run(step.args(with_rows(r.args, spoil))))
    without = step.sums(step.run(step.args(r.args), absent([slot])))
    moved = total_norm([spoiled[coin] - without[coin] for coin in coins])
    assert moved <= bound * (1 + 1e-9)
    if not np.isfinite(number):
        assert all((spoiled[coin] == without[coin]).all() for coin in coins)


@pytest.mark.parametrize("name", ["mlp", "momentum", "adam", "gpt_tied", "cnn_avg", "kept_gradients"])
def test_noise(name, rng):
    """Noise is the coins in units of the grid, exactly, and adds to what is kept as p.grad."""
    r = record(name, F64, 0.1)
    generator = np.random.default_rng(rng.getrandbits(64))
    step = PrivateStep(r.program, r.text, options_of(r, 0.01))
    (site,) = step.sites
    coins = {
        coin: generator.integers(-3 * site.noise, 3 * site.noise, step.program.args[coin].type.shape)
        for coin in step.coins
    }
    one, two = (step.run(step.args(r.args, given)) for given in ({}, coins))
    judged = set()
    for k, result in enumerate(step.program.results):
        reaching = [coin for coin in step.coins if k in reached(step.program, coin)]
        size = step.program.types[result.value].numel
        if result.kind != "keep" or len(reaching) != 1 or size != coins[reaching[0]].size:
            continue
        (coin,) = reaching
        difference = two[result.value] - one[result.value]
        assert (difference.reshape(-1) == coins[coin].reshape(-1) * 2.0**site.exponent).all()
        judged.add(coin)
    assert judged == set(step.coins), "every gradient is kept"


def test_sampled_draw(rng):
    """With the owner's draw the row numbers are a coin, and what is released is per expected row, not per slot."""
    r, points, values, parts = points_of("mlp")
    expected = 5
    text, count = re.subn(r"(sample_rows .* of %\w+)", rf"\1, expected = {expected}", r.text)
    assert count == 1 and "!sojourn.table<?, " in text
    bound = 0.02
    step = PrivateStep(r.program, text, options_of(r, bound))
    assert f"{expected} of 40 rows expected in 8 slots" in step.remarks and len(step.draws) == 1
    rows = np.array(r.rows)
    gone = rng.sample(range(8), 3)
    rows[gone] = -1
    coins = {coin: np.full(step.program.args[coin].type.shape, 1000) for coin in step.coins}
    values = step.run(step.args(r.args, coins, draw=rows))
    chosen = points.gradients()
    factors = np.minimum(1, bound / norms_of(parts, chosen))
    factors[gone] = 0
    sums, (site,) = step.sums(values), step.sites
    for coin, point in zip(step.coins, chosen):
        assert_close(sums[coin], clipped([part[point] for part in parts], factors), bound, "a sampled step", TOLERANCE)
    quiet = step.run(step.args(r.args, {}, draw=rows))
    for k, result in enumerate(step.program.results):
        reaching = [coin for coin in step.coins if k in reached(step.program, coin)]
        if result.kind == "keep" and len(reaching) == 1:
            difference = values[result.value] - quiet[result.value]
            noise = 1000 * 2.0**site.exponent * 8 / expected
            assert np.abs(difference - noise).max() <= 1e-12 * noise


HISTOGRAM = """module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
  func.func @step(%t: !sojourn.table<9, "k" : i64> {sojourn.kind = "table"})
      -> (tensor<5xi64> {sojourn.result = "publish"}, tensor<2xi64> {sojourn.result = "publish"}) {
    %i = sojourn.iota dim = 0 : tensor<8xi64>
    %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<9, "k" : i64>, tensor<8xi64> -> tensor<8xi64>
    %zero = sojourn.constant 0 : i64
    %one = sojourn.constant 1 : i64
    %z = sojourn.broadcast %zero, dims = [] : tensor<i64> -> tensor<5xi64>
    %u = sojourn.broadcast %one, dims = [] : tensor<i64> -> tensor<8xi64>
    %h = sojourn.put "add" %z, %k, %u, dim = 0 : tensor<5xi64>, tensor<8xi64>, tensor<8xi64>
    %s = sojourn.reduce_sum %k, dims = [0] : tensor<8xi64>
    %r = sojourn.reshape %s : tensor<i64> -> tensor<1xi64>
    %p = sojourn.pad %r, %zero, low = [0], high = [1], interior = [0] : tensor<1xi64>, tensor<i64>
    return %h, %p : tensor<5xi64>, tensor<2xi64>
  }
}
"""


def test_integers(rng):
    """A histogram and a sum of integers: released as integers, exact but for the noise."""
    plain = decode(encode(HISTOGRAM))
    step = PrivateStep(plain, HISTOGRAM, "bounds=k=0:4")
    column = np.array([rng.randrange(5) for _ in range(9)])
    table = [make_dataset("t", {"k": column})]
    histogram, total = results_of(step.program, step.run(step.args(table)))
    assert (histogram == np.bincount(column[:8], minlength=5)).all() and (total == [column[:8].sum(), 0]).all()
    assert [site.numbers for site in step.sites] == [5, 2]
    shifts = {
        coin: np.full(step.program.args[coin].type.shape, 3 * 2**-site.exponent)
        for site in step.sites
        for coin in site.coins
    }
    noised = results_of(step.program, step.run(step.args(table, shifts)))
    assert (noised[0] == histogram + 3).all() and (noised[1] == total + 3).all()


@pytest.mark.parametrize("name", ["published_loss", "published_accuracy"])
def test_metrics(name):
    """A published metric is a release of its own: each row's part clamped to its bound."""
    r = record(name, F64, 0.1)
    points = Points(r, r.bounds)
    values = _values(r)
    parts = [points.parts(values, slot) for slot in range(len(r.rows))]
    bound = float(np.median([abs(part[points.metric(6)[0]]) for part in parts]))
    step = PrivateStep(r.program, r.text, options_of(r, 0.01, f"metric-bound={bound!r}"))
    sums = step.sums(step.run(step.args(r.args)))
    for site in step.sites[1:]:
        result = int(re.fullmatch(r"published result (\d+)", site.what)[1])
        (point,), (coin,) = points.metric(result), site.coins
        each = np.array([float(part[point]) for part in parts])
        # What is proved to be small is not clipped: a row's part of an accuracy is at most 1.
        most = 1.0 if set(np.unique(each)) <= {0.0, 1.0} else bound
        assert_close(sums[coin], np.clip(each, -most, most).sum(), bound, site.what, TOLERANCE)


CANCELLING = """module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
  func.func @step(%w: tensor<32x32xf64> {sojourn.kind = "state"},
                  %t: !sojourn.table<8, "x": 2x32xf64, "y": 2x32xf64> {sojourn.kind = "table"})
      -> (tensor<32x32xf64> {sojourn.result = "commit", sojourn.target = 0 : i64}) {
    %i = sojourn.iota dim = 0 : tensor<8xi64>
    %x = sojourn.read_rows %t, %i, columns = ["x"]
      : !sojourn.table<8, "x": 2x32xf64, "y": 2x32xf64>, tensor<8xi64> -> tensor<8x2x32xf64>
    %y = sojourn.read_rows %t, %i, columns = ["y"]
      : !sojourn.table<8, "x": 2x32xf64, "y": 2x32xf64>, tensor<8xi64> -> tensor<8x2x32xf64>
    %h = sojourn.dot %x, %w, lhs_batch = [], rhs_batch = [], lhs_contract = [2], rhs_contract = [0]
      : tensor<8x2x32xf64>, tensor<32x32xf64> -> tensor<8x2x32xf64>
    %d = sojourn.add %h, %y : tensor<8x2x32xf64>, tensor<8x2x32xf64>
    %g = sojourn.dot %x, %d, lhs_batch = [], rhs_batch = [], lhs_contract = [0, 1], rhs_contract = [0, 1]
      : tensor<8x2x32xf64>, tensor<8x2x32xf64> -> tensor<32x32xf64>
    %n = sojourn.sub %w, %g : tensor<32x32xf64>, tensor<32x32xf64>
    return %n : tensor<32x32xf64>
  }
}
"""


def test_norms_that_cancel(rng):
    """Two terms of a row that all but cancel: of the ghost norm rounding alone is left, and the row still is clipped."""
    generator = np.random.default_rng(rng.getrandbits(64))
    plain = decode(encode(CANCELLING))
    step = PrivateStep(plain, CANCELLING, "bounds=*=-1e9:1e9 loss-is-sum clip=1")
    (coin,) = step.coins
    for _ in range(5):
        x, y = (1e8 * generator.normal(size=(8, 1, 32)) for _ in "xy")
        other = -y * (1 + 1e-10 * generator.normal(size=y.shape))
        columns = {"x": np.concatenate([x, x], 1), "y": np.concatenate([y, other], 1)}
        exact = np.einsum("rti,rtj->rij", columns["x"], columns["y"])
        assert np.sqrt((exact**2).sum((1, 2))).min() > 1e4  # no row is small

        def sums(gone=()):
            there = np.isin(np.arange(8), gone, invert=True)[:, None, None]
            table = {name: values * there for name, values in columns.items()}  # a row of zeros adds nothing
            return step.sums(step.run(step.args([np.zeros((32, 32)), make_dataset("t", table)])))[coin]

        whole = sums()
        for slot in range(8):
            moved = total_norm([whole - sums([slot])])
            assert moved <= 1 + 1e-6, f"slot {slot} moves by {moved} of a bound of 1"
        assert total_norm([whole]) > 0 and total_norm([sums(range(8))]) == 0


TABLE = '!sojourn.table<8, "x": 32xf64, "y": 32xf64, "z": 32xf64, "v": 32xf64>'


def use(x: str, y: str) -> str:
    """The gradient of |x w + y|^2 / 2."""
    dot = f"    %{{}} = sojourn.dot %{x}, %{{}}, lhs_batch = [], rhs_batch = [], lhs_contract = [{{}}], rhs_contract = [0]\n"
    reads = "".join(
        f'    %{name} = sojourn.read_rows %t, %i, columns = ["{name}"] : {TABLE}, tensor<8xi64> -> tensor<8x32xf64>\n'
        for name in (x, y)
    )
    return f"""{reads}{dot.format(f"h{x}", "w", 1)}      : tensor<8x32xf64>, tensor<32x32xf64> -> tensor<8x32xf64>
    %d{x} = sojourn.add %h{x}, %{y} : tensor<8x32xf64>, tensor<8x32xf64>
{dot.format(f"g{x}", f"d{x}", 0)}      : tensor<8x32xf64>, tensor<8x32xf64> -> tensor<32x32xf64>
"""


SUBTRACTED = f"""module attributes {{sojourn.phase = "core", sojourn.promotion = "torch"}} {{
  func.func @step(%w: tensor<32x32xf64> {{sojourn.kind = "state"}}, %t: {TABLE} {{sojourn.kind = "table"}})
      -> (tensor<32x32xf64> {{sojourn.result = "commit", sojourn.target = 0 : i64}}) {{
    %i = sojourn.iota dim = 0 : tensor<8xi64>
{use("x", "y")}{use("z", "v")}    %g = sojourn.sub %gx, %gz : tensor<32x32xf64>, tensor<32x32xf64>
    %n = sojourn.sub %w, %g : tensor<32x32xf64>, tensor<32x32xf64>
    return %n : tensor<32x32xf64>
  }}
}}
"""


def test_uses_that_are_subtracted(rng):
    """A weight that is used twice, once subtracted, by rows whose two parts are alike: their difference is clipped."""
    generator = np.random.default_rng(rng.getrandbits(64))
    plain = decode(encode(SUBTRACTED))
    columns = {name: generator.normal(size=(8, 32)) for name in "xy"}
    columns["z"] = columns["x"] + 0.5 * generator.normal(size=(8, 32))
    columns["v"] = np.array([1, -1] * 4)[:, None] * columns["y"] + 0.5 * generator.normal(size=(8, 32))
    parts = np.einsum("ri,rj->rij", columns["x"], columns["y"]) - np.einsum("ri,rj->rij", columns["z"], columns["v"])
    norms = np.sqrt((parts**2).sum((1, 2)))
    bound = float(np.median(norms))
    step = PrivateStep(plain, SUBTRACTED, f"bounds=*=-9:9 loss-is-sum clip={bound!r}")
    (coin,) = step.coins
    sums = step.sums(step.run(step.args([np.zeros((32, 32)), make_dataset("t", columns)])))[coin]
    expected = (parts * np.minimum(1, bound / norms)[:, None, None]).sum(0)
    assert_close(sums, expected, bound, "a difference of two uses", TOLERANCE)


def tied(way: str) -> str:
    """One weight as embedding and as output: d' W[ids], and u at the rows that were looked up."""
    table = '!sojourn.table<8, "ids": 2xi64, "d": 2x64xf64, "u": 2x64xf64>'
    read = "sojourn.read_rows %t, %i, columns = "
    return f"""module attributes {{sojourn.phase = "core", sojourn.promotion = "torch"}} {{
  func.func @step(%w: tensor<64x64xf64> {{sojourn.kind = "state"}}, %t: {table} {{sojourn.kind = "table"}})
      -> (tensor<64x64xf64> {{sojourn.result = "commit", sojourn.target = 0 : i64}}) {{
    %i = sojourn.iota dim = 0 : tensor<8xi64>
    %ids = {read}["ids"] : {table}, tensor<8xi64> -> tensor<8x2xi64>
    %d = {read}["d"] : {table}, tensor<8xi64> -> tensor<8x2x64xf64>
    %u = {read}["u"] : {table}, tensor<8xi64> -> tensor<8x2x64xf64>
    %e = sojourn.take %w, %ids, dim = 0 : tensor<64x64xf64>, tensor<8x2xi64>
    %out = sojourn.dot %d, %e, lhs_batch = [], rhs_batch = [], lhs_contract = [0, 1], rhs_contract = [0, 1]
      : tensor<8x2x64xf64>, tensor<8x2x64xf64> -> tensor<64x64xf64>
    %zero = sojourn.constant 0.0 : f64
    %zeros = sojourn.broadcast %zero, dims = [] : tensor<f64> -> tensor<64x64xf64>
    %in = sojourn.put "add" %zeros, %ids, %u, dim = 0 : tensor<64x64xf64>, tensor<8x2xi64>, tensor<8x2x64xf64>
    %g = sojourn.{way} %out, %in : tensor<64x64xf64>, tensor<64x64xf64>
    %n = sojourn.sub %w, %g : tensor<64x64xf64>, tensor<64x64xf64>
    return %n : tensor<64x64xf64>
  }}
}}
"""


@pytest.mark.parametrize("way", ["add", "sub"])
def test_tied_weight(way, rng):
    """The norm of a weight that rows look up and multiply with: rows whose two uses point one way, and the other."""
    generator = np.random.default_rng(rng.getrandbits(64))
    text = tied(way)
    plain = decode(encode(text))
    w = generator.normal(size=(64, 64))
    ids = generator.integers(0, 64, (8, 2))
    ids[:2] = ids[:2, :1]  # one word twice
    d = 0.1 * generator.normal(size=(8, 2, 64))
    np.put_along_axis(d, ids[:, :, None], 1.0, 2)  # where both uses meet
    u = np.array([1, -1] * 4)[:, None, None] * w[ids] + 0.1 * generator.normal(size=(8, 2, 64))
    hot = np.eye(64)[ids]
    sign = 1 if way == "add" else -1
    parts = np.einsum("rtv,rti->rvi", d, w[ids]) + sign * np.einsum("rtv,rti->rvi", hot, u)
    norms = np.sqrt((parts**2).sum((1, 2)))
    bound = float(norms.min() / 2)
    step = PrivateStep(plain, text, f"bounds=ids=0:63 loss-is-sum clip={bound!r}")
    assert step.text.count("sojourn.take_along") == 1, "the norm is made from both uses"
    (coin,) = step.coins
    sums = step.sums(step.run(step.args([w, make_dataset("t", {"ids": ids, "d": d, "u": u})])))[coin]
    assert_close(sums, (parts * (bound / norms)[:, None, None]).sum(0), bound, f"{way} of two uses", TOLERANCE)
