# SPDX-License-Identifier: Apache-2.0
"""Poisson, binomial and hypergeometric counts: sums of independent Bernoulli variates, by one method.

With parameters on the host that are single numbers: inversion, by a table that is made here. Else where the variance is
below 4: inversion over 36 numbers about the mean; else ratio of uniforms (Stadlober, 1990) in 26 rounds, each of which
refuses with a chance below 0.45. Two errors below 1e-9 per number: mass outside of the 36, and no round that accepts.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from ._draws import Draws, first_accepted

__all__ = ["binomial", "counts", "hypergeometric", "parts_binomial", "parts_hypergeometric", "poisson"]

_TABLE_MOST = 1 << 16
_SMALL = 4.0  # a variance
_BELOW, _ABOVE = 14, 21  # of the mean, for a small variance
_ROUNDS = 26
_SLOPE, _SHIFT = 2 * math.sqrt(2 / math.e), 3 - 2 * math.sqrt(3 / math.e)


class Law:
    """A distribution on 0..high."""

    def __init__(self, mean, variance, mode, high, log_ratio: Callable[[torch.Tensor], torch.Tensor], back=None):
        """`log_ratio`: of a distance to the mode, the logarithm of the chance over that of the mode. `back`: from the
        count to the one asked for."""
        self.mean, self.variance, self.mode, self.high = mean, variance, mode, high
        self._log_ratio, self.back = log_ratio, back or (lambda k: k)

    def log_ratio(self, k: torch.Tensor) -> torch.Tensor:
        inside = (k >= 0) & (k <= self.high)
        return torch.where(inside, self._log_ratio(torch.where(inside, k - self.mode, 0.0)), -math.inf)


def _stirling(x):
    """log(gamma(x)) less (x - 0.5) log(x) - x, up to a constant; x at least 20."""
    square = x * x
    return (1 / 12 - 1 / (360 * square) + 1 / (1260 * square * square)) / x


def _rise(m: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
    """log((m + d)! / m!), without the cancellation of two large logarithms."""
    x, y = m + 1, m + d + 1
    large = (x >= 20) & (y >= 20)
    near, far = torch.where(large, x, 20.0), torch.where(large, y, 20.0)
    smooth = (near - 0.5) * torch.log1p((far - near) / near) + (far - near) * (torch.log(far) - 1)
    smooth = smooth + _stirling(far) - _stirling(near)
    return torch.where(large, smooth, torch.lgamma(y) - torch.lgamma(x))


def poisson(lam: torch.Tensor) -> Law:
    mode = torch.floor(lam)
    return Law(lam, lam, mode, torch.full_like(lam, math.inf), lambda d: torch.xlogy(d, lam) - _rise(mode, d))


def binomial(n: torch.Tensor, p: torch.Tensor) -> Law:
    q = torch.minimum(p, 1 - p)
    mode, odds = torch.floor((n + 1) * q), q / (1 - q)
    return Law(
        n * q, n * q * (1 - q), mode, n,
        lambda d: torch.xlogy(d, odds) - _rise(mode, d) - _rise(n - mode, -d),
        lambda k: torch.where(p > 0.5, n - k, k),
    )  # fmt: skip


def hypergeometric(good: torch.Tensor, bad: torch.Tensor, sample: torch.Tensor) -> Law:
    """The law of the rarer kind's count in the sample or its rest, the smaller one."""
    total = good + bad
    few, many, drawn = torch.minimum(good, bad), torch.maximum(good, bad), torch.minimum(sample, total - sample)
    mean = drawn * few / total.clamp(min=1.0)
    variance = mean * (many / total.clamp(min=1.0)) * ((total - drawn) / (total - 1).clamp(min=1.0))
    mode = torch.floor((drawn + 1) * ((few + 1) / (total + 2)))

    def log_ratio(d):
        into = _rise(mode, d) + _rise(many - drawn + mode, d)
        return -into - _rise(few - mode, -d) - _rise(drawn - mode, -d)

    def back(k):
        k = torch.where(good > bad, drawn - k, k)
        return torch.where(2 * sample > total, good - k, k)

    return Law(mean, variance, mode, torch.minimum(few, drawn), log_ratio, back)


def counts(
    draws: Draws, law: Callable[..., Law], *parameters: torch.Tensor, least: float = 0.0, most: float = math.inf
) -> torch.Tensor:
    """Draws as f64. `parameters`: all on the CPU or all at the owner. `least`, `most`: known limits of variances."""
    if all(x.device.type == "cpu" for x in parameters):
        here = law(*parameters)
        if all(x.dim() == 0 for x in parameters) and (drawn := _by_table(draws, here)) is not None:
            return drawn
        if here.variance.numel():
            least, most = float(here.variance.min()), float(here.variance.max())
    there = [x.to(draws.device).expand(draws.shape) for x in parameters]
    of = law(*there)
    if most < _SMALL:
        return of.back(_by_sums(draws, of))
    if least >= _SMALL:
        return of.back(_by_rounds(draws, of))
    return of.back(torch.where(of.variance < _SMALL, _by_sums(draws, of), _by_rounds(draws, of)))


def _by_table(draws: Draws, law: Law) -> torch.Tensor | None:
    mean, reach = float(law.mean), 9.5 * math.sqrt(float(law.variance)) + 40
    low, high = max(0, math.floor(mean - reach)), min(float(law.high), math.ceil(mean + reach))
    if high - low >= _TABLE_MOST:
        return None
    k = torch.arange(low, int(high) + 1, dtype=torch.float64)
    running = torch.exp(law.log_ratio(k)).cumsum(0)
    values = law.back(k)
    at = torch.searchsorted((running / running[-1]).to(draws.device), draws.uniform(), right=True)
    if len(values) == 1:
        return torch.full(draws.shape, float(values[0]), dtype=torch.float64, device=draws.device)
    step = float(values[1] - values[0])  # 1 or -1
    return at.to(torch.float64) * step + float(values[0])


def _by_sums(draws: Draws, law: Law) -> torch.Tensor:
    low = torch.floor(law.mean) - _BELOW
    steps = torch.arange(_BELOW + _ABOVE + 1, dtype=torch.float64, device=draws.device)
    steps = steps.reshape(-1, *[1] * len(draws.shape))
    running = torch.exp(law.log_ratio(low + steps)).cumsum(0)
    passed = running <= draws.uniform() * running[-1]
    return low + passed.sum(0).to(torch.float64)


def _by_rounds(draws: Draws, law: Law) -> torch.Tensor:
    u = 1 - draws.uniform(rounds=_ROUNDS)
    slope = _SLOPE * torch.sqrt(law.variance + 0.5) + _SHIFT
    k = torch.floor(law.mean + 0.5 + slope * (draws.uniform(rounds=_ROUNDS) - 0.5) / u)
    accepted = 2 * torch.log(u) <= law.log_ratio(k)
    return first_accepted(torch.minimum(k.clamp(min=0.0), law.high), accepted)


def _halves(x: torch.Tensor) -> list[torch.Tensor]:
    """Sums of ever more parts of the last dimension: of all, of two halves, ..., of each; its size a power of two."""
    levels = [x]
    while levels[0].shape[-1] > 1:
        pairs = levels[0].unflatten(-1, (-1, 2))
        levels.insert(0, pairs.sum(-1))
    return levels


def _padded(x: torch.Tensor) -> torch.Tensor:
    size = x.shape[-1]
    return torch.nn.functional.pad(x, (0, (1 << max(size - 1, 0).bit_length()) - size))


def _split(draws: Draws, total: torch.Tensor, levels: list[torch.Tensor], law, size: int) -> torch.Tensor:
    """Splits totals into two parts, and these, till each has one entry. `law`: from (total, all, left) to the left."""
    parts = total.unsqueeze(-1)
    for whole, halves in zip(levels, levels[1:]):
        left = halves.unflatten(-1, (-1, 2))[..., 0]
        first = law(draws.of(*parts.shape), parts, whole, left)
        parts = torch.stack((first, parts - first), -1).flatten(-2)
    return parts[..., :size]


def parts_binomial(draws: Draws, n: torch.Tensor, p: torch.Tensor, most: float) -> torch.Tensor:
    """Multinomial counts. `n`: f64 of the shape of the draws. `most`: a limit of n. `p`: of more dimensions by one."""

    def law(source, total, whole, left):
        share = torch.where(whole > 0, left / torch.where(whole > 0, whole, 1.0), 0.0).clamp(0.0, 1.0)
        return counts(source, binomial, total, share, most=most / 4)

    return _split(draws, n.expand(draws.shape), _halves(_padded(p)), law, p.shape[-1])


def parts_hypergeometric(draws: Draws, colors: torch.Tensor, sample: torch.Tensor, most: float) -> torch.Tensor:
    """Counts of each color in a sample without replacement."""

    def law(source, total, whole, left):
        return counts(source, hypergeometric, left, whole - left, total, most=most / 4)

    return _split(draws, sample.expand(draws.shape), _halves(_padded(colors)), law, colors.shape[-1])
