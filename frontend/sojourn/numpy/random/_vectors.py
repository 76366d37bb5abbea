# SPDX-License-Identifier: Apache-2.0
"""Random vectors: several numbers that depend on each other, in the last dimension."""

from __future__ import annotations

import math
from typing import Any

import numpy
import torch

from .._array import ndarray, wrap
from .._convert import is_remote
from . import _arguments as arguments
from ._arguments import CHECKS, host_tensor
from ._counts import parts_binomial, parts_hypergeometric
from ._draws import whole

__all__ = ["Vectors"]


class Vectors:
    """A part of `Generator`."""

    _draws: Any

    def dirichlet(self, alpha, size=None) -> ndarray:
        a = host_tensor(alpha)
        if a.dim() != 1:
            raise ValueError("alpha must be a one-dimensional sequence")
        if not is_remote(alpha) and bool((a < 0).any()):
            raise ValueError("alpha < 0")
        draws = self._draws((*(arguments.shape_of(size) or ()), len(a)), alpha)
        if len(a) == 0:
            return wrap(torch.zeros(draws.shape, dtype=torch.float64, device=draws.device))
        logs = draws.log_gamma(a.to(draws.device))
        # Without a positive alpha all are 0.
        return wrap(torch.where(logs.amax(-1, keepdim=True) == -math.inf, 0.0, torch.softmax(logs, -1)))

    def multinomial(self, n, pvals, size=None) -> ndarray:
        """Counts, split in halves of the categories by binomial draws; the last of `pvals` is what the others leave."""
        p, count = host_tensor(pvals), host_tensor(n)
        if p.dim() == 0 or p.shape[-1] == 0:
            raise ValueError(
                "pvals must have at least 1 dimension and the last dimension of pvals must be greater than 0."
            )
        if not is_remote(pvals):
            _check_shares(p)
        if not is_remote(n) and bool((count < 0).any()):
            raise ValueError("n < 0")
        most = math.inf if is_remote(n) else float(count.max()) if count.numel() else 0.0
        draws = self._draws(arguments.full_shape(size, tuple(count.shape), tuple(p.shape[:-1])), n, pvals)
        p, count = p.to(draws.device), torch.trunc(count.to(draws.device))
        p = torch.cat((p[..., :-1], (1 - p[..., :-1].sum(-1, keepdim=True)).clamp(min=0.0)), -1)
        return wrap(whole(parts_binomial(draws, count, p, most)))

    def multivariate_hypergeometric(self, colors, nsample, size=None, method="marginals") -> ndarray:
        """Counts, split in halves of the colors by hypergeometric draws, whichever `method`."""
        if method not in ("count", "marginals"):
            raise ValueError('method must be "count" or "marginals".')
        if not is_remote(colors) and not is_remote(nsample):
            CHECKS.multivariate_hypergeometric(colors, nsample, size=0, method="marginals")
        given, sample = host_tensor(colors), host_tensor(nsample)
        if given.dim() != 1:
            raise ValueError("colors must be a one-dimensional sequence of nonnegative integers")
        if sample.dim() != 0:
            raise TypeError("nsample must be an integer")
        most = math.inf if is_remote(nsample) else float(sample)
        draws = self._draws(arguments.shape_of(size) or (), colors, nsample)
        if len(given) == 0:
            return wrap(torch.zeros((*draws.shape, 0), dtype=torch.int64, device=draws.device))
        return wrap(whole(parts_hypergeometric(draws, given.to(draws.device), sample.to(draws.device), most)))

    def multivariate_normal(self, mean, cov, size=None, check_valid="warn", tol=1e-8, *, method="svd") -> ndarray:
        """The factor of `cov` is computed at the owner; `check_valid` is for a `cov` on the host."""
        if method not in ("eigh", "svd", "cholesky"):
            raise ValueError("method must be one of {'eigh', 'svd', 'cholesky'}")
        if check_valid not in ("warn", "raise", "ignore"):
            raise ValueError("check_valid must equal 'warn', 'raise', or 'ignore'")
        center, matrix = host_tensor(mean), host_tensor(cov)
        if center.dim() != 1:
            raise ValueError("mean must be 1 dimensional")
        if matrix.dim() != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ValueError("cov must be 2 dimensional and square")
        if center.shape[0] != matrix.shape[0]:
            raise ValueError("mean and cov must have same length")
        if not is_remote(cov):
            options: Any = {"check_valid": check_valid, "tol": tol, "method": method}
            CHECKS.multivariate_normal(numpy.zeros(len(center)), matrix.numpy(), size=0, **options)
        draws = self._draws((*(arguments.shape_of(size) or ()), len(center)), mean, cov)
        center, matrix = center.to(draws.device), matrix.to(draws.device)
        if method == "cholesky":
            factor = torch.linalg.cholesky(matrix).mT
        elif method == "eigh":
            values, vectors = torch.linalg.eigh(matrix)
            factor = torch.sqrt(values.abs()).unsqueeze(-1) * vectors.mT
        else:
            _, values, vectors = torch.linalg.svd(matrix)
            factor = torch.sqrt(values).unsqueeze(-1) * vectors
        return wrap(center + draws.normal() @ factor)


def _check_shares(p: torch.Tensor) -> None:
    if bool(((p < 0) | (p > 1) | torch.isnan(p)).any()):
        raise ValueError("pvals < 0, pvals > 1 or pvals contains NaNs")
    if bool((p[..., :-1].sum(-1) > 1 + 1e-12).any()):
        raise ValueError("sum(pvals[:-1]) > 1.0")
