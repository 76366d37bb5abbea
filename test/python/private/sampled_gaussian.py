# SPDX-License-Identifier: Apache-2.0
"""The Rényi divergence of the sampled Gaussian, from its definition (Mironov, Talwar, Zhang 2019)."""

import math

import numpy as np
import scipy.special


def rdp_of_sampled_gaussian(order, rate, rho):
    """Of noise with rho = 1 / (2 sigma^2), at an integer order: the sum over how many of its samples hold the row."""
    k = np.arange(order + 1)
    ways = scipy.special.gammaln(order + 1) - scipy.special.gammaln(k + 1) - scipy.special.gammaln(order - k + 1)
    terms = ways + k * math.log(rate) + (order - k) * math.log1p(-rate) + k * (k - 1) * rho
    return scipy.special.logsumexp(terms) / (order - 1)
