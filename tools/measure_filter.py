# SPDX-License-Identifier: Apache-2.0
"""The cost of a filter's grid of orders and weights: admitted epsilon over that of the best order, on random lists.

    python tools/measure_filter.py [--lists 600] [--seed 1] [--least 0.3]

The best order is taken over all integer orders. Prints the table of runtime/privacy/README.md. Filters are implemented
here again, with NumPy in double precision; test/runtime/privacy/test_tightness.py measures the library, with the same
lists.
"""

import argparse
import math
import pathlib
import random
import sys

import numpy as np
from scipy.special import gammaln, logsumexp

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "test/runtime/privacy"))
from accounting_support import ORDERS, log_uniform, random_events

ALL = np.arange(2, 1025)
FIRST = [2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256, 1024]
EVEN = sorted({round(2 * 512 ** (k / 99)) for k in range(100)})
PICKS = np.arange(2, 1025)[None, :]
WAYS = gammaln(ALL + 1)[:, None] - gammaln(PICKS + 1) - gammaln(np.maximum(ALL[:, None] - PICKS, 0) + 1)
# Where condition (1) of Filter.cpp is looked at.
XS = np.geomspace(1 / 1100, 40, 260)


def sampled(q, rho):
    if q == 1:
        return ALL * rho
    gain = PICKS * (PICKS - 1) * rho
    logs = np.where(gain > 40, gain, np.log(np.expm1(np.minimum(gain, 41))))
    terms = WAYS + (ALL[:, None] - PICKS) * math.log1p(-q) + PICKS * math.log(q) + logs
    terms[PICKS > ALL[:, None]] = -np.inf
    return np.minimum(np.logaddexp(0, logsumexp(terms, axis=1)) / (ALL - 1), ALL * rho)


def pure(epsilon):
    logs = (ALL - 1) * epsilon + np.log(-np.expm1(-ALL * epsilon)) + np.log(-np.expm1(-(ALL - 1) * epsilon))
    return np.minimum(np.logaddexp(0, logs - math.log1p(math.exp(-epsilon))) / (ALL - 1), epsilon)


def divergences(events):
    """Epsilon of a list, at all integer orders."""
    total = np.zeros(len(ALL))
    for kind, given, count in events:
        if kind == "gaussian":
            total += count * ALL / (2 * given["sigma"] ** 2)
        elif kind == "sampled":
            total += count * sampled(given["q"], 0.5 / given["sigma"] ** 2)
        else:
            total += count * pure(given["epsilon"])
    return total


def weights(orders, epsilon, delta, shift, stands):
    """The orders' shares of delta, as Filter.cpp states them; before, every order had an equal share."""
    usual = math.log(1e6)
    length = usual * (min(max(math.log(1 / delta), math.log(1e3)), math.log(1e12)) / usual) ** 0.25
    peak = 1 + shift * math.sqrt(length) * (math.sqrt(length + epsilon) + math.sqrt(length)) / epsilon
    near = stands * np.exp(-8 * np.log(orders / min(max(peak, 2), 1024)) ** 2)
    return 15 / 16 * (0.96 * near / near.sum() + 0.04 * stands / stands.sum())


def admitted(orders, shares, total, epsilon, delta, is_mixed):
    heights = np.log(shares * delta) + (orders - 1) * (epsilon - total)
    if not is_mixed:
        return (heights >= (orders - 1) * np.log1p(-1 / orders) - np.log(orders)).any()
    return (logsumexp(heights[:, None] + (orders - 1)[:, None] * XS, axis=0) >= np.log(-np.expm1(-XS))).all()


def smallest(orders, total, delta, is_mixed, shift, is_even):
    logs = np.log(orders)
    ends = np.concatenate([[2 * logs[0] - logs[1]], logs, [2 * logs[-1] - logs[-2]]])
    stands = np.ones(len(orders)) if is_even else (ends[2:] - ends[:-2]) / 2
    low, high = 1e-4, 1e3
    while high > low * (1 + 1e-5):
        middle = math.sqrt(low * high)
        shares = weights(orders, middle, delta, shift, stands)
        if admitted(orders, shares, total[orders - 2], middle, delta, is_mixed):
            high = middle
        else:
            low = middle
    return high


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lists", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--least", type=float, default=0.3, help="skip lists whose best order has less")
    options = parser.parse_args()
    fresh, lists = random.Random(options.seed), []
    for _ in range(options.lists):
        events, delta = random_events(fresh), log_uniform(fresh, 1e-8, 1e-4)
        total = divergences(events)
        best = (total + np.log1p(-1 / ALL) - np.log(delta * ALL) / (ALL - 1)).min()
        if options.least <= best <= 100:
            lists.append((total, delta, best))
    print(f"{len(lists)} lists of seed {options.seed}\n| filter | median | 90 % | 99 % | most |\n|---|---|---|---|---|")
    for name, orders, is_mixed, shift, is_even in (
        ("13 orders, best one alone (before)", FIRST, False, 0.62, True),
        ("13 orders, mixed", FIRST, True, 0.62, True),
        ("22 orders, best one alone", ORDERS, False, 0.62, False),
        ("22 orders, mixed, peak as before (c = 0.62)", ORDERS, True, 0.62, False),
        ("22 orders, mixed, c = 0.56", ORDERS, True, 0.56, False),
        ("22 orders, mixed, c = 0.50", ORDERS, True, 0.50, False),
        (f"{len(EVEN)} orders, mixed, c = 0.56", EVEN, True, 0.56, False),
    ):
        orders = np.array(orders)
        found = [smallest(orders, t, delta, is_mixed, shift, is_even) / best for t, delta, best in lists]
        columns = " | ".join(f"{value:.3f}" for value in (*np.quantile(found, [0.5, 0.9, 0.99]), max(found)))
        print(f"| {name} | {columns} |", flush=True)


if __name__ == "__main__":
    main()
