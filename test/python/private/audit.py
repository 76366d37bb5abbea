# SPDX-License-Identifier: Apache-2.0
"""Lower bounds of epsilon from what a mechanism released: each is too high with a chance of at most `level`.

From runs on two neighbours: how often an event happens on each (Clopper and Pearson 1934), in both directions, and for
Gaussian noise what these rates say of its strength (Nasr et al. 2023, section 4). From one run: how many of many canaries,
each there or not by a fair coin, are guessed right (Steinke, Nasr, Jagielski 2023, theorem 5.2)."""

from __future__ import annotations

import math

import numpy as np
import scipy.optimize
import scipy.stats


def rate_between(hits: int, runs: int, level: float) -> tuple[float, float]:
    """Bounds of a rate, each exceeded with a chance of at most `level`."""
    low = scipy.stats.beta.ppf(level, hits, runs - hits + 1) if hits else 0.0
    high = scipy.stats.beta.ppf(1 - level, hits + 1, runs - hits) if hits < runs else 1.0
    return float(low), float(high)


def _rates(one, two, thresholds, level):
    """Bounds of the rates of all events (above or below a threshold) under both, in both directions; `level` for all."""
    one, two = np.asarray(one), np.asarray(two)
    each = level / (4 * 2 * len(thresholds))  # two events, two directions, two rates
    for threshold in thresholds:
        for a, b in ((one, two), (two, one)):
            for hits in (lambda x: int((x > threshold).sum()), lambda x: int((x < threshold).sum())):
                yield rate_between(hits(a), len(a), each)[0], rate_between(hits(b), len(b), each)[1]


def epsilon_of_two(one, two, thresholds, delta: float, level: float) -> float:
    """(epsilon, delta) has to be at least this, whatever the mechanism. `thresholds` must not depend on the samples."""
    found = 0.0
    for low, high in _rates(one, two, thresholds, level):
        if low > delta and high > 0:
            found = max(found, math.log((low - delta) / high))
    return found


def strength_of_two(one, two, thresholds, level: float) -> float:
    """Sensitivity over sigma of Gaussian noise has to be at least this: mu-GDP allows rates up to Phi(mu + Phi^-1(rate))."""
    found = 0.0
    for low, high in _rates(one, two, thresholds, level):
        if low > 0 and high < 1:
            found = max(found, float(scipy.stats.norm.ppf(low) - scipy.stats.norm.ppf(high)))
    return found


def gaussian_epsilon(strength: float, delta: float) -> float:
    """Of Gaussian noise, exactly (Balle and Wang 2018, theorem 8)."""
    cdf, logcdf = scipy.stats.norm.cdf, scipy.stats.norm.logcdf

    def excess(epsilon):
        at = epsilon / strength
        return cdf(strength / 2 - at) - math.exp(epsilon + logcdf(-strength / 2 - at)) - delta

    if strength <= 0 or excess(0.0) <= 0:
        return 0.0
    return float(scipy.optimize.brentq(excess, 0.0, strength**2 / 2 + strength * 40))


def _chance_of_guesses(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """The most that a mechanism of (epsilon, delta) lets `right` of `guesses` be right with, of so many canaries."""
    binomial = scipy.stats.binom(guesses, 1 / (1 + math.exp(-epsilon)))
    below = np.cumsum(binomial.pmf(np.arange(right - 1, -1, -1)))  # P[right > B >= right - i], i = 1, 2, ...
    slope = (below / np.arange(1, right + 1)).max() if right else 0.0
    return float(binomial.sf(right - 1) + 2 * canaries * delta * slope)


def epsilon_of_one(scores, there, parts, delta: float, level: float) -> float:
    """(epsilon, delta) has to be at least this: the `part` of highest scores is guessed to be there, as many of the lowest
    not to be, for each of `parts`, which share `level`."""
    order, there = np.argsort(scores), np.asarray(there, bool)
    found = 0.0
    for part in parts:
        count = int(len(order) * part / 2)
        right = int(there[order[-count:]].sum() + (~there[order[:count]]).sum())

        def shortfall(epsilon, count=count, right=right):
            return math.log(
                max(_chance_of_guesses(len(order), 2 * count, right, epsilon, delta), 1e-300) / (level / len(parts))
            )

        if shortfall(0.0) < 0:
            found = max(found, float(scipy.optimize.bisect(shortfall, 0.0, 30.0, xtol=1e-3)) - 1e-3)
    return found
