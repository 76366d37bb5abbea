# SPDX-License-Identifier: Apache-2.0
"""Clipped sums of float32 steps, which are added up in float32 where the bound pays for it.

Oracle: per-sample gradients in float64. What one row moves stays within the proved sensitivity.
"""

import numpy as np
import pytest
import torch
from corpus import ACCEPTED, CASES, ROWS
from paired import with_rows
from private_step import PrivateStep, absent, encode, total_norm
from programs import record
from sums import by_torch

from sojourn_numpy import decode
from sojourn_numpy.datasets import make_dataset

F32 = torch.float32
BY_TORCH = [name for name in ACCEPTED if CASES[name].exact]
SLACK = 2.0**-7  # the most that rounding may cost a bound


@pytest.mark.parametrize("name", BY_TORCH)
def test_sums_by_torch(name):
    by_torch(record(name, F32, 0.1), 1e-4)


@pytest.mark.parametrize(
    "name", ["mlp", "layer_norm", "cnn_avg", "cnn_flat", "lstm", "attention", "gpt_tied", "conv1d"]
)
def test_removal(name):
    """A row that goes away moves what is released by no more than the sensitivity that was proved."""
    r = record(name, F32, 0.1)
    step = PrivateStep(r.program, r.text, f"{r.bounds} clip={0.01 * len(r.rows)!r}")
    (site,) = step.sites
    args = step.args(r.args)
    whole = step.units(step.run(args))
    for slot in range(len(r.rows)):
        rest = step.units(step.run(args, absent([slot])))
        moved = total_norm([whole[coin] - rest[coin] for coin in step.coins])
        assert moved <= site.sensitivity


@pytest.mark.parametrize("number", [np.nan, np.inf, 1e30, 1e-30])
@pytest.mark.parametrize("name", ["mlp", "layer_norm", "cnn_avg", "lstm", "attention", "conv1d"])
def test_broken_rows(name, number, rng):
    """A row of such numbers counts nothing, or at most the bound if its norm is finite; and changes nothing else."""
    r = record(name, F32, 0.1)
    slot = rng.randrange(len(r.rows))
    step = PrivateStep(r.program, r.text, f"bounds=y=0:2 rows={ROWS} clip={0.01 * len(r.rows)!r}")
    (site,) = step.sites

    def spoil(column, values):
        if values.dtype.kind == "f":
            values[int(r.rows[slot])] = number

    spoiled = step.units(step.run(step.args(with_rows(r.args, spoil))))
    without = step.units(step.run(step.args(r.args), absent([slot])))
    moved = total_norm([spoiled[coin] - without[coin] for coin in step.coins])
    assert np.isfinite(moved) and moved <= site.sensitivity
    if not np.isfinite(number):
        assert moved == 0


def layer(rows: int, inner: int, outer: int) -> str:
    """One step on a whole table: y = x w' + b, and the gradients of |y|^2 / 2."""

    def t(*shape):
        return f"tensor<{'x'.join(map(str, shape))}xf32>"

    none, index = "lhs_batch = [], rhs_batch = []", f"tensor<{rows}xi64>"
    table = f'!sojourn.table<{rows}, "x": {inner}xf32>'
    return f"""module attributes {{sojourn.phase = "core", sojourn.promotion = "torch"}} {{
  func.func @step(%w: {t(outer, inner)} {{sojourn.kind = "state"}}, %b: {t(outer)} {{sojourn.kind = "state"}},
                  %t: {table} {{sojourn.kind = "table"}})
      -> ({t(outer, inner)} {{sojourn.result = "commit", sojourn.target = 0 : i64}},
          {t(outer)} {{sojourn.result = "commit", sojourn.target = 1 : i64}}) {{
    %i = sojourn.iota dim = 0 : {index}
    %x = sojourn.read_rows %t, %i, columns = ["x"] : {table}, {index} -> {t(rows, inner)}
    %h = sojourn.dot %x, %w, {none}, lhs_contract = [1], rhs_contract = [1]
      : {t(rows, inner)}, {t(outer, inner)} -> {t(rows, outer)}
    %b0 = sojourn.broadcast %b, dims = [1] : {t(outer)} -> {t(rows, outer)}
    %y = sojourn.add %h, %b0 : {t(rows, outer)}, {t(rows, outer)}
    %gw = sojourn.dot %y, %x, {none}, lhs_contract = [0], rhs_contract = [0]
      : {t(rows, outer)}, {t(rows, inner)} -> {t(outer, inner)}
    %gb = sojourn.reduce_sum %y, dims = [0] : {t(rows, outer)}
    %w1 = sojourn.sub %w, %gw : {t(outer, inner)}, {t(outer, inner)}
    %b1 = sojourn.sub %b, %gb : {t(outer)}, {t(outer)}
    return %w1, %b1 : {t(outer, inner)}, {t(outer)}
  }}
}}
"""


@pytest.mark.parametrize("rows", [96, 408, 600, 997])
def test_many_rows(rows, rng):
    """More rows than f32 may add in one go: by blocks, or in f64 where no blocks fit (a prime number of rows)."""
    generator, inner, outer = np.random.default_rng(rng.getrandbits(64)), 7, 5
    x = generator.uniform(-1, 1, (rows, inner)).astype(np.float32)
    w, b = (generator.normal(size=shape).astype(np.float32) for shape in ((outer, inner), (outer,)))
    text = layer(rows, inner, outer)
    plain = decode(encode(text))
    y = x.astype(np.float64) @ w.T.astype(np.float64) + b
    norms = np.sqrt((y**2).sum(1) * ((x.astype(np.float64) ** 2).sum(1) + 1))
    bound = float(np.median(norms))
    step = PrivateStep(plain, text, f"bounds=x=-1:1 loss-is-sum clip={bound!r}")
    (site,) = step.sites
    # Beyond the grid, each row's f32 term is rounded once at least.
    slack = (site.sensitivity - np.sqrt(site.numbers)) * 2.0**site.exponent / bound - 1
    assert (rows * 2.0**-24 < slack < SLACK) if rows != 997 else slack < 1e-5
    args = step.args([w, b, make_dataset("t", {"x": x})])
    sums = step.sums(step.run(args))
    scaled = y * np.minimum(1, bound / norms)[:, None]
    for coin, expected in zip(site.coins, (scaled.T @ x, scaled.sum(0))):
        worst = np.abs(sums[coin] - expected).max() / np.abs(expected).max()
        assert worst < (1e-5 if rows != 997 else 1e-6)
    units = step.units(step.run(args))
    for slot in rng.sample(range(rows), 5):
        other = x.copy()
        other[slot] = generator.uniform(-1, 1, inner)
        moved = step.units(step.run(step.args([w, b, make_dataset("t", {"x": other})])))
        # Another row in its place is a row that goes and one that comes.
        assert total_norm([units[coin] - moved[coin] for coin in step.coins]) <= 2 * site.sensitivity


@pytest.mark.parametrize("times", [1.001, 1.5, 4.0, 1e9])
def test_tiny_clips(times, rng):
    """Clips so small that a factor has no exact f32: the row counts 0 or stays within what was proved."""
    generator, rows, scale = np.random.default_rng(rng.getrandbits(64)), 24, 2.0**48
    x = generator.uniform(0.5, 1, (rows, 7)).astype(np.float32)
    text = (
        layer(rows, 7, 5)
        .replace("sojourn.dot %x,", "sojourn.dot %far,")
        .replace("sojourn.dot %y, %x,", "sojourn.dot %y, %far,")
    )
    text = text.replace(
        "    %h = ",
        f"    %many = sojourn.constant {scale!r} : f32\n"
        f"    %far = sojourn.mul %x, %many : tensor<{rows}x7xf32>, tensor<f32>\n    %h = ",
    )
    w = (generator.normal(size=(5, 7)) / 8).astype(np.float32)
    far = x.astype(np.float64) * scale
    norms = np.sqrt(((far @ w.T.astype(np.float64)) ** 2).sum(1) * ((far**2).sum(1) + 1))
    bound = float(norms.max() * 2.0**-150 * times)
    step = PrivateStep(decode(encode(text)), text, f"bounds=x=0:1 loss-is-sum clip={bound!r}")
    (site,) = step.sites
    assert site.sensitivity * 2.0**site.exponent < bound * (1 + SLACK)  # else it is added up in f64
    whole = step.units(step.run(step.args([w, np.zeros(5, np.float32), make_dataset("t", {"x": x})])))
    for slot in {int(norms.argmax()), *rng.sample(range(rows), 4)}:
        other = x.copy()
        other[slot] = 0
        rest = step.units(step.run(step.args([w, np.zeros(5, np.float32), make_dataset("t", {"x": other})])))
        assert total_norm([whole[coin] - rest[coin] for coin in step.coins]) <= site.sensitivity
