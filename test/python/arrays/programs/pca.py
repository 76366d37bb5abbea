# SPDX-License-Identifier: Apache-2.0
"""Principal components: explained variance, scores, whitening, reconstruction, and outliers by Hotelling's T2."""

import numpy as np

COMPONENTS = 3


def inputs(rng, scale=1):
    """Correlated measurements with a few missing ones: x [n, 6], NaN where missing; fresh [n / 2, 6] of later days."""
    n, d = 80 * scale, 6
    mixing = [4.0, 2.5, 1.6, 1.0, 0.6, 0.4] * rng.normal(size=(d, d))
    mean = 10 * rng.normal(size=d)
    x = rng.normal(size=(n, d)) @ mixing.T + mean
    fresh = rng.normal(size=(n // 2, d)) @ mixing.T + mean
    x[rng.random(size=x.shape) < 0.02] = float("nan")
    return {"x": x, "fresh": fresh}


def impute(x):
    """Missing measurements as the median of their column."""
    middle = np.nanmedian(x, axis=0)
    return np.where(np.isnan(x), middle, x)


def fixed_signs(vectors):
    """Columns turned so that the entry largest in size is positive."""
    largest = np.argmax(np.abs(vectors), axis=0)
    signs = np.sign(vectors[largest, np.arange(vectors.shape[1])])
    return vectors * signs


def principal_components(z):
    """Variances and directions (columns), the largest first."""
    n = z.shape[0]
    covariance = z.T @ z / (n - 1)
    values, vectors = np.linalg.eigh(covariance)
    values, vectors = values[::-1], vectors[:, ::-1]
    return values, fixed_signs(vectors)


def run(x, fresh):
    filled = impute(x)
    mean = filled.mean(axis=0)
    spread = filled.std(axis=0, ddof=1)
    z = (filled - mean) / spread

    values, vectors = principal_components(z)
    ratio = values / values.sum()
    cumulative = np.cumsum(ratio)
    needed = np.searchsorted(cumulative, 0.9) + 1  # components for 90 % of the variance

    loadings = vectors[:, :COMPONENTS]
    scores = z @ loadings
    whitened = scores / np.sqrt(values[:COMPONENTS])
    rebuilt = scores @ loadings.T * spread + mean
    error = np.sqrt(np.mean((rebuilt - filled) ** 2, axis=0))

    # The same by singular values.
    singular = np.linalg.svd(z, compute_uv=False)
    by_svd = singular**2 / (z.shape[0] - 1)

    t2 = np.sum(whitened**2, axis=1)
    outliers = np.argsort(t2)[::-1][:5]
    limit = np.percentile(t2, 95)

    later = (fresh - mean) / spread
    later_scores = later @ loadings
    residual = later - later_scores @ loadings.T
    distance = np.linalg.norm(residual, axis=1)
    return {
        "values": values,
        "ratio": ratio,
        "needed": needed,
        "loadings": loadings,
        "scores": scores,
        "covariance of whitened": np.cov(whitened, rowvar=False),
        "correlation": np.corrcoef(filled.T),
        "error": error,
        "gap": np.abs(by_svd - values).max(),
        "singular": singular,
        "outliers": outliers,
        "flagged": (t2 > limit).sum(),
        "distance": distance,
        "later scores": later_scores,
    }
