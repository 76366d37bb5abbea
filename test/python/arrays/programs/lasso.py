# SPDX-License-Identifier: Apache-2.0
"""Ridge and lasso regression along paths of penalties, chosen by cross-validation in folds."""

import numpy as np

FOLDS = 4
PENALTIES = 6
ITERATIONS = 60


def inputs(rng, scale=1):
    """x [n, 8], of which three columns matter; y [n]; and the fold of each row."""
    n, d = 64 * scale, 8
    x = rng.normal(size=(n, d)) @ (rng.normal(size=(d, d)) * 0.3 + (rng.permutation(d)[:, None] == range(d)))
    x = x * rng.uniform(0.5, 20, d) + rng.normal(size=d)
    beta = rng.normal(size=d) / x.std(axis=0)
    beta[rng.permutation(d)[3:]] = 0
    y = 3 + x @ beta + 0.5 * rng.normal(size=n)
    return {"x": x, "y": y, "fold": rng.permutation(n) % FOLDS}


def standardized(x, weight):
    """Columns with mean 0 and variance 1 over the rows of weight 1, and the means and deviations."""
    mean = np.average(x, axis=0, weights=weight)
    deviation = np.sqrt(np.average((x - mean) ** 2, axis=0, weights=weight))
    return (x - mean) / deviation, mean, deviation


def ridge_path(z, y, weight, penalties):
    """Coefficients [d, penalties], by one singular value decomposition."""
    root = np.sqrt(weight)
    u, s, vt = np.linalg.svd(z * root[:, None], full_matrices=False)
    rotated = (u.T @ (root * y))[:, None]
    shrunk = s[:, None] / (s[:, None] ** 2 + weight.sum() * penalties)
    return vt.T @ (shrunk * rotated)


def soft(a, by):
    return np.sign(a) * np.maximum(np.abs(a) - by, 0)


def lasso_path(gram, moment, penalties):
    """Coefficients [d, penalties], by accelerated proximal steps for all penalties at once."""
    d = gram.shape[0]
    pace = 1 / np.linalg.norm(gram, 2)
    beta = np.zeros((d, penalties.size))
    ahead = beta.copy()
    momentum = 1.0
    for _ in range(ITERATIONS):
        gradient = gram @ ahead - moment[:, None]
        new = soft(ahead - pace * gradient, pace * penalties)
        next_momentum = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
        ahead = new + (momentum - 1) / next_momentum * (new - beta)
        beta, momentum = new, next_momentum
    return beta


def polished(gram, moment, beta, penalties, sweeps=3):
    """A few sweeps of coordinate descent, which set small coefficients to exact zeros."""
    beta = beta.copy()
    residual = moment[:, None] - gram @ beta
    for _ in range(sweeps):
        for j in range(len(gram)):
            old = beta[j].copy()
            beta[j] = soft(residual[j] + gram[j, j] * old, penalties) / gram[j, j]
            residual -= np.outer(gram[:, j], beta[j] - old)
    return beta


def fit(x, y, weight, penalties):
    """Ridge and lasso coefficients [2, d, penalties] and intercepts [2, penalties], in units of x."""
    z, mean, deviation = standardized(x, weight)
    center = np.average(y, weights=weight)
    centered = y - center
    count = weight.sum()
    gram = (z * weight[:, None]).T @ z / count
    moment = z.T @ (weight * centered) / count
    lasso = polished(gram, moment, lasso_path(gram, moment, penalties), penalties)
    both = np.stack([ridge_path(z, centered, weight, penalties), lasso]) / deviation[:, None]
    return both, center - np.einsum("d,mdp->mp", mean, both)


def errors_in_folds(x, y, fold, penalties):
    """Squared errors of the rows left out: [folds, 2, penalties]."""
    found = np.zeros((FOLDS, 2, penalties.shape[0]))
    for k in range(FOLDS):
        is_out = fold == k
        weight = (~is_out).astype(x.dtype)
        both, intercept = fit(x, y, weight, penalties)
        missed = y[:, None] - (x @ both + intercept[:, None, :])
        found[k] = np.sum(missed**2, axis=1, where=is_out[:, None]) / is_out.sum()
    return found


def run(x, y, fold):
    weight = np.ones(len(y))
    z, _, _ = standardized(x, weight)
    most = np.abs(z.T @ (y - y.mean())).max() / len(y)
    penalties = most * np.geomspace(1, 0.01, PENALTIES)
    both, intercept = fit(x, y, weight, penalties)

    errors = errors_in_folds(x, y, fold, penalties)
    mean, spread = errors.mean(axis=0), errors.std(axis=0, ddof=1) / np.sqrt(FOLDS)
    best = mean.argmin(axis=-1)
    rows = np.arange(2)
    limit = mean[rows, best] + spread[rows, best]
    simplest = np.argmax(mean <= limit[:, None], axis=-1)  # the largest penalty within one standard error
    chosen = both[rows, :, simplest]
    predicted = x @ chosen.T + intercept[rows, simplest]
    missed = y[:, None] - predicted
    return {
        "penalties": penalties,
        "coefficients": both,
        "intercepts": intercept,
        "errors": errors,
        "best": best,
        "simplest": simplest,
        "chosen": chosen,
        "kept": np.count_nonzero(both[1], axis=0),
        "R2": 1 - (missed**2).sum(axis=0) / ((y - y.mean()) ** 2).sum(),
        "worst": np.abs(missed).max(axis=0),
    }
