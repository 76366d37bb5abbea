# SPDX-License-Identifier: Apache-2.0
"""Programs made to cost the owner's analysis and rewrite much: each ends soon, with an answer or a refusal.

None of them needs a budget: an owner analyses a program before it asks who pays for it.
"""

import pathlib
import re
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = '!sojourn.table<?, "a" : f64>'
SECONDS = 60


def run(body, results, rows="rows=64"):
    """`body` on a batch %x (8 x f32) of a private table; `results`: values of tensor<f32> that are published. `rows`:
    what the owner knows of its number of rows."""
    types = ", ".join('tensor<f32> {sojourn.result = "publish"}' for _ in results)
    text = f"""module attributes {{sojourn.phase = "core", sojourn.promotion = "torch"}} {{
  func.func @step(%seed: tensor<i64> {{sojourn.kind = "seed"}}, %t: {TABLE} {{sojourn.kind = "table"}}) -> ({types}) {{
    %p = sojourn.iota dim = 0 : tensor<8xi64>
    %i = sojourn.sample_rows %p, %seed, %seed of %t, expected = 2
      : tensor<8xi64>, tensor<i64>, tensor<i64>, {TABLE} -> tensor<8xi64>
    %x = sojourn.read_rows %t, %i, columns = ["a"] : {TABLE}, tensor<8xi64> -> tensor<8xf32>
    {body}
    return {", ".join(results)} : {", ".join("tensor<f32>" for _ in results)}
  }}
}}"""
    begin = time.monotonic()
    process = subprocess.run(
        [ROOT / "build/bin/sojourn-opt", "-", f"--sojourn-make-private=bounds=a=0:1 {rows}"],
        input=text,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert process.returncode in (0, 1), process.stderr[-2000:]
    return process, time.monotonic() - begin


def add(name, a, b):
    return f"{name} = sojourn.add {a}, {b} : tensor<f32>, tensor<f32>\n"


SUM = "= sojourn.reduce_sum %x, dims = [0] : tensor<8xf32>\n"


def accepted(process):
    """The remark on the one result that leaves with noise: where it is noised, and in units of what."""
    assert process.returncode == 0, process.stderr[-2000:]
    found = re.findall(
        r"remark: published result 0: bound .* noise \d+ in units of 2\^(-?\d+), .*\n.*?(%\w+) =", process.stderr
    )
    ((unit, value),) = found
    return int(unit), value


@pytest.mark.parametrize("times", [10, 60, 400, 3000])
def test_a_sum_that_doubles_itself(times):
    """Its noise doubles with it, up to the largest bound that noise is made for; from there on the released value does."""
    body = f"%s0 {SUM}" + "".join(add(f"%s{k + 1}", f"%s{k}", f"%s{k}") for k in range(times))
    process, _ = run(body, [f"%s{times}"])
    noised = min(times, 512)
    assert accepted(process) == (noised - 18, f"%s{noised}")


@pytest.mark.parametrize(
    "rows, text",
    [
        ("", "draws rows of a table with an unknown number of rows"),
        ("rows=1", "expects a batch of 2 rows, but there are only 1"),
        ("rows=0", "expects a batch of 2 rows, but there are only 0"),
    ],
)
def test_a_draw_that_nobody_can_price(rows, text):
    """What a row is in with is the expected number over the table's, which the program does not say."""
    process, _ = run(f"%s {SUM}", ["%s"], rows)
    assert process.returncode == 1 and text in process.stderr, process.stderr[-2000:]


def test_a_long_sum_of_many_sums():
    count = 2000
    makers = "".join(
        f"%k{k} = sojourn.constant {k + 1}.0 : f32\n"
        f"%y{k} = sojourn.mul %x, %k{k} : tensor<8xf32>, tensor<f32>\n"
        f"%c{k} = sojourn.reduce_sum %y{k}, dims = [0] : tensor<8xf32>\n"
        for k in range(count)
    )
    body = makers + add("%s1", "%c0", "%c1") + "".join(add(f"%s{k}", f"%s{k - 1}", f"%c{k}") for k in range(2, count))
    process, _ = run(body, [f"%s{count - 1}"])
    assert process.returncode == 1
    assert (
        "error: result #0 would leave without noise: it is mixed: yields a value that is not linear" in process.stderr
    )


def test_more_sums_than_can_be_told_apart():
    count = 6000
    makers = "".join(
        f"%k{k} = sojourn.constant {k + 1}.0 : f32\n"
        f"%y{k} = sojourn.mul %x, %k{k} : tensor<8xf32>, tensor<f32>\n"
        f"%c{k} = sojourn.reduce_sum %y{k}, dims = [0] : tensor<8xf32>\n"
        f"%e{k} = sojourn.exp %c{k} : tensor<f32>\n"
        for k in range(count)
    )
    body = makers + add("%s1", "%e0", "%e1") + "".join(add(f"%s{k}", f"%s{k - 1}", f"%e{k}") for k in range(2, count))
    process, _ = run(body, [f"%s{count - 1}"])
    assert process.returncode == 1
    assert "more sums over rows than the analysis can distinguish" in process.stderr


def test_factors_without_a_bound():
    body = f"%s {SUM}" + "%h = sojourn.constant 3.0e38 : f32\n"
    body += "%y0 = sojourn.mul %s, %h : tensor<f32>, tensor<f32>\n"
    body += "".join(f"%y{k + 1} = sojourn.mul %y{k}, %h : tensor<f32>, tensor<f32>\n" for k in range(20))
    process, _ = run(body, ["%y20"])
    assert accepted(process) == (-18, "%s"), "the sum is noised, what follows is a function of the release"
