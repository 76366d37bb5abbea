# SPDX-License-Identifier: Apache-2.0
"""Statistics of tools/bench_channels.py: dudect's t-test, and how much an attacker learns from the time of a reply.

The t-test is that of Reparaz, Balasch and Verbauwhede, "Dude, is my code constant time?" (2017): Welch's t of two
classes, also without the slow tail. Thresholds of the tail come from the samples of both classes together, so that a
crop does not favour one of them.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import scipy.stats

SEPARATE = 4.5  # |t| from which two classes count as different
BLIND = 10.0  # |t| that a leak made on purpose has to reach
CONFIDENCE = 0.999
CROPS = (1.0, *(1 - 0.5 ** (10 * (k + 1) / 20) for k in range(20)))
LEAST = 100  # samples of a class below which a crop says nothing


def welch(one: np.ndarray, two: np.ndarray) -> float:
    """Welch's t; where neither class varies, 0 for equal means and else infinite."""
    if len(one) < 2 or len(two) < 2:
        return 0.0
    difference = float(one.mean() - two.mean())
    error = math.sqrt(one.var(ddof=1) / len(one) + two.var(ddof=1) / len(two))
    return difference / error if error > 0 else math.copysign(math.inf, difference) if difference else 0.0


def largest_t(one: np.ndarray, two: np.ndarray) -> tuple[float, float]:
    """The t of largest size over all crops, and the share of the samples that its crop keeps."""
    one, two = one.astype(np.float64), two.astype(np.float64)
    best = (0.0, 1.0)
    for share, most in zip(CROPS, np.quantile(np.concatenate([one, two]), CROPS)):
        kept = one[one <= most], two[two <= most]
        if share == 1.0 or min(map(len, kept)) >= LEAST:
            best = max(best, (welch(*kept), share), key=lambda found: abs(found[0]))
    return best


def second_order_t(one: np.ndarray, two: np.ndarray) -> float:
    """Welch's t of squared distances from the mean of the class: finds classes that differ in spread alone. The slowest
    hundredth of both together is left out, for a single interruption outweighs all else."""
    most = np.quantile(np.concatenate([one, two]), 0.99)
    parts = [part[part <= most].astype(np.float64) for part in (one, two)]
    return welch(*((part - part.mean()) ** 2 for part in parts if len(part))) if all(map(len, parts)) else 0.0


@dataclasses.dataclass(frozen=True)
class Threshold:
    """Says label 1 above `cut`, or below it."""

    cut: float
    is_above: bool

    def predict(self, times: np.ndarray) -> np.ndarray:
        return (times > self.cut) == self.is_above


def train(times: np.ndarray, labels: np.ndarray) -> Threshold:
    """The threshold with the fewest errors on these."""
    order = np.argsort(times, kind="stable")
    values, ones = times[order], labels[order].astype(np.int64)
    below = np.concatenate([[0], np.cumsum(ones)])  # ones among the first k
    right = (np.arange(len(ones) + 1) - below) + (ones.sum() - below)  # where label 1 is above a cut behind k
    allowed = np.concatenate([[True], values[1:] > values[:-1], [True]])  # no cut between equal times
    best = np.where(allowed, np.abs(2 * right - len(ones)), -1).argmax()
    edges = np.concatenate([[-np.inf], (values[1:] + values[:-1]) / 2, [np.inf]])
    return Threshold(float(edges[best]), bool(2 * right[best] >= len(ones)))


def since_recent(times: np.ndarray, count: int = 64) -> np.ndarray:
    """Each less the median of those before it: an owner's time for a step follows the load of its machine."""
    before = np.concatenate([np.full(count, times[:count].mean()), times[:-1]])
    return times - np.median(np.lib.stride_tricks.sliding_window_view(before, count), axis=1)


def predictions(times: np.ndarray, labels: np.ndarray, recent: np.ndarray) -> np.ndarray:
    """Whether each label is predicted: each half by a threshold that was trained on the other half, over the times or
    over `recent`, whichever was right more often there."""
    half = len(times) // 2
    parts = slice(None, half), slice(half, None)
    right = np.empty(len(times), dtype=bool)
    for learnt, tried in (parts, parts[::-1]):
        rules = [(train(seen[learnt], labels[learnt]), seen) for seen in (times, recent)]
        rule, seen = max(rules, key=lambda each: (each[0].predict(each[1][learnt]) == labels[learnt]).sum())
        right[tried] = rule.predict(seen[tried]) == labels[tried]
    return right


def interval(successes: int, trials: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Clopper and Pearson's bounds on a share, each of which holds with this confidence."""
    beta, wrong = scipy.stats.beta, 1 - confidence
    least = beta.ppf(wrong, successes, trials - successes + 1) if successes else 0.0
    most = beta.ppf(confidence, successes + 1, trials - successes) if successes < trials else 1.0
    return float(least), float(most)


def capacity(success: float) -> float:
    """Bits per use of a binary channel that is right so often."""
    error = min(max(success, 0.5), 1.0)
    return 1 - sum(-p * math.log2(p) for p in (error, 1 - error) if p > 0)


@dataclasses.dataclass(frozen=True)
class Guess:
    """How often an attacker is right by the times of replies, with the bounds of that."""

    trials: int
    success: float
    least: float
    most: float
    replies_per_second: float

    @property
    def bits_per_second(self) -> tuple[float, float]:
        """Measured, and the most that the bound on the success allows."""
        return capacity(self.success) * self.replies_per_second, capacity(self.most) * self.replies_per_second


def guess(seconds: np.ndarray, labels: np.ndarray, failed: np.ndarray | None = None, asked: int = 0) -> Guess:
    """`failed`: replies that were errors. An attacker sees that too, so they count as later than all others. `asked`:
    trials in all; those beyond the replies, because the owner gave no more, are thrown coins."""
    later = np.zeros_like(seconds) if failed is None else failed * (seconds.max() + 1)
    right = predictions(seconds + later, labels, since_recent(seconds) + later)
    trials = max(asked, len(right))
    successes = int(right.sum()) + (trials - len(right)) // 2
    return Guess(trials, successes / trials, *interval(successes, trials), float(1 / seconds.mean()))
