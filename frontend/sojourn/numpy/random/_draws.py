# SPDX-License-Identifier: Apache-2.0
"""Draws of continuous distributions at an owner, of one shape each, out of uniform and normal ones.

Where numbers are proposed and refused, a fixed number of rounds is drawn, so many that all of them refuse with a chance
below 1e-9; such a number keeps its first proposal.
"""

from __future__ import annotations

import math

import torch

__all__ = ["Draws", "first_accepted", "whole"]

_LARGEST = math.nextafter(2.0**63, 0.0)  # what int64 holds
_GAMMA_ROUNDS = 8  # each refuses below 0.05
_VONMISES_ROUNDS = 20  # below 0.35
_ZIPF_ROUNDS = 18  # below 0.31


def first_accepted(proposed: torch.Tensor, accepted: torch.Tensor) -> torch.Tensor:
    """Along the first dimension, the rounds."""
    at = accepted.to(torch.uint8).argmax(0, keepdim=True)
    return proposed.gather(0, at).squeeze(0)


class Draws:
    """Of one call: draws of `shape` at a device. `generator`: gives each random op a seed."""

    def __init__(self, generator: torch.Generator, device: torch.device, shape: tuple[int, ...]):
        self.generator, self.device, self.shape = generator, device, shape

    def of(self, *shape: int) -> Draws:
        """The same source, with another shape."""
        return Draws(self.generator, self.device, shape)

    def number(self, value: float) -> torch.Tensor:
        return torch.full((), value, dtype=torch.float64, device=self.device)

    # Of one native op.

    def uniform(self, dtype=torch.float64, rounds: int | None = None) -> torch.Tensor:
        """In [0, 1)."""
        return torch.rand(self._rounds(rounds), dtype=dtype, device=self.device, generator=self.generator)

    def normal(self, dtype=torch.float64, rounds: int | None = None) -> torch.Tensor:
        return torch.randn(self._rounds(rounds), dtype=dtype, device=self.device, generator=self.generator)

    def exponential(self, dtype=torch.float64, rounds: int | None = None) -> torch.Tensor:
        empty = torch.empty(self._rounds(rounds), dtype=dtype, device=self.device)
        return empty.exponential_(generator=self.generator)

    def cauchy(self) -> torch.Tensor:
        return torch.empty(self.shape, dtype=torch.float64, device=self.device).cauchy_(generator=self.generator)

    def words(self, rounds: int | None = None) -> torch.Tensor:
        """63 random bits in int64."""
        empty = torch.empty(self._rounds(rounds), dtype=torch.int64, device=self.device)
        return empty.random_(generator=self.generator)

    def order(self, n: int) -> torch.Tensor:
        """The numbers below n in random order."""
        return torch.randperm(n, device=self.device, generator=self.generator)

    def _rounds(self, rounds: int | None) -> tuple[int, ...]:
        return self.shape if rounds is None else (rounds, *self.shape)

    # Compositions. Parameters are f64 tensors that broadcast to the shape.

    def log_gamma(self, a: torch.Tensor) -> torch.Tensor:
        """The logarithm of a gamma variate (Marsaglia and Tsang, 2000); -inf for a = 0."""
        a = a.expand(self.shape)
        isSmall = a < 1
        d = torch.where(isSmall, a + 1, a) - 1 / 3
        z = self.normal(rounds=_GAMMA_ROUNDS)
        root = 1 + z / torch.sqrt(9 * d)
        log_v = 3 * torch.log(root.clamp(min=1e-300))
        bound = 0.5 * z * z + d * (1 - torch.exp(log_v) + log_v)
        accepted = (root > 0) & (-self.exponential(rounds=_GAMMA_ROUNDS) < bound)
        drawn = torch.log(d) + first_accepted(log_v, accepted)
        # A variate of a + 1 times u ** (1 / a).
        return torch.where(isSmall, drawn - self.exponential() / a, drawn)

    def gamma(self, a: torch.Tensor) -> torch.Tensor:
        return torch.exp(self.log_gamma(a))

    def chisquare(self, df: torch.Tensor) -> torch.Tensor:
        return 2 * self.gamma(df / 2)

    def beta(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.log_gamma(a) - self.log_gamma(b))

    def student(self, df: torch.Tensor) -> torch.Tensor:
        return self.normal() * torch.exp(0.5 * (torch.log(df / 2) - self.log_gamma(df / 2)))

    def triangular(self, left: torch.Tensor, mode: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        u, width = self.uniform(), right - left
        below = u * width <= mode - left
        rising = left + torch.sqrt(u * width * (mode - left))
        return torch.where(below, rising, right - torch.sqrt((1 - u) * width * (right - mode)))

    def wald(self, mean: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        """Michael, Schucany and Haas (1976): one of the two roots."""
        r = mean * self.normal().square() / (2 * scale)
        ratio = 1 + r + torch.sqrt(r * (r + 2))
        # The smaller root over the mean is 1 / ratio, the larger one ratio.
        return torch.where(self.uniform() * (1 + 1 / ratio) <= 1, mean / ratio, mean * ratio)

    def vonmises(self, mu: torch.Tensor, kappa: torch.Tensor) -> torch.Tensor:
        """Best and Fisher (1979); for a kappa above 1e6 a wrapped normal variate, in [-pi, pi]."""
        k = kappa.clamp(1e-100, 1e6)
        s = (1 + torch.sqrt(1 + 4 * k * k)) / (2 * k)
        z = torch.cos(math.pi * self.uniform(rounds=_VONMISES_ROUNDS))
        w = (1 + s * z) / (s + z)
        y = k * (s - w)
        v = 1 - self.uniform(rounds=_VONMISES_ROUNDS)
        accepted = (y * (2 - y) >= v) | (torch.log(y / v) + 1 - y >= 0)
        angle = torch.acos(first_accepted(w, accepted).clamp(-1, 1))
        angle = torch.where(self.uniform() < 0.5, -angle, angle)
        angle = torch.where(kappa > 1e6, self.normal() / torch.sqrt(kappa.clamp(min=1.0)), angle)
        return torch.remainder(mu + angle + math.pi, 2 * math.pi) - math.pi

    # Of whole numbers without a bound, in f64.

    def geometric(self, p: torch.Tensor) -> torch.Tensor:
        return torch.ceil(-self.exponential() / torch.log1p(-p)).clamp(min=1.0)

    def logseries(self, p: torch.Tensor) -> torch.Tensor:
        """Kemp (1981)."""
        v = 1 - self.uniform()
        q = -torch.expm1(torch.log1p(-p) * self.uniform())
        large = torch.floor(1 + torch.log(v) / torch.log(q)).clamp(min=1.0)
        small = torch.where((v >= q) | (v >= p), 1.0, 2.0)
        return torch.where((v < p) & (v <= q * q), large, small)

    def zipf(self, a: torch.Tensor) -> torch.Tensor:
        """Devroye (1986), X.6.1. A larger a than 61 gives 2 with a chance below 1e-18."""
        power = (a - 1).clamp(max=60.0)
        least = torch.exp(-power * math.log(2.0**63))
        u = self.uniform(rounds=_ZIPF_ROUNDS)
        x = torch.floor(torch.exp(-torch.log(u * least + (1 - u)) / power)).clamp(1.0, _LARGEST)
        less = torch.expm1(power * torch.log1p(1 / x))  # (1 + 1/x) ** (a - 1), less 1
        share = -torch.expm1(-power * math.log(2.0))
        v = self.uniform(rounds=_ZIPF_ROUNDS)
        return first_accepted(x, v * x * less <= (1 + less) * share)


def whole(drawn: torch.Tensor) -> torch.Tensor:
    """As int64; larger numbers give about 2**63."""
    return drawn.clamp(max=_LARGEST).to(torch.int64)
