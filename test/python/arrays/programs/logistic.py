# SPDX-License-Identifier: Apache-2.0
"""Logistic regression by Newton's method with a ridge penalty: errors, z values, ROC area, calibration."""

import numpy as np

ITERATIONS = 12
PENALTY = 0.5
GROUPS = 5


def inputs(rng, scale=1):
    """Patients: age in years (int64), sex (bool), biomarkers [n, 3], and readmission (int8)."""
    n = 120 * scale
    age = rng.integers(20, 90, n)
    sex = rng.random(n) < 0.5
    markers = rng.normal(size=(n, 3))
    risk = 0.04 * (age - 55) + 0.5 * sex + markers @ rng.normal(size=3) + rng.logistic(size=n)
    return {"age": age, "sex": sex, "markers": markers, "readmitted": (risk > 0).astype("int8")}


def design(age, sex, markers):
    """[n, 7]: intercept, standardized age, its square, sex, biomarkers."""
    years = (age - age.mean()) / age.std()
    return np.column_stack([np.ones(len(age)), years, years**2, sex, markers])


def sigmoid(t):
    return np.where(t >= 0, 1 / (1 + np.exp(-np.abs(t))), np.exp(-np.abs(t)) / (1 + np.exp(-np.abs(t))))


def log_likelihood(x, y, beta):
    score = x @ beta
    return np.sum(y * score - np.logaddexp(0, score))


def fit(x, y, penalty):
    """The coefficients, the inverse Hessian, and the penalized likelihood before each step."""
    d = x.shape[1]
    beta = np.zeros(d)
    ridge = np.full(d, penalty)
    ridge[0] = 0  # the intercept is free
    history = []
    for _ in range(ITERATIONS):
        p = sigmoid(x @ beta)
        gradient = x.T @ (y - p) - ridge * beta
        hessian = (x * (p * (1 - p))[:, None]).T @ x + np.diag(ridge)
        history.append(log_likelihood(x, y, beta) - 0.5 * np.dot(ridge, beta**2))
        beta += np.linalg.solve(hessian, gradient)
    p = sigmoid(x @ beta)
    hessian = np.einsum("ni,n,nj->ij", x, p * (1 - p), x) + np.diag(ridge)
    return beta, np.linalg.inv(hessian), np.array(history)


def roc_area(y, p):
    """The chance that a readmitted patient has the larger probability, by ranks."""
    ranks = np.empty(len(p))
    ranks[np.argsort(p)] = np.arange(1, len(p) + 1)
    ones = y.sum()
    zeros = len(y) - ones
    return (np.sum(ranks * y) - ones * (ones + 1) / 2) / (ones * zeros)


def calibration(y, p, groups):
    """Mean probability and share of events in groups of increasing probability."""
    edges = np.quantile(p, np.linspace(0, 1, groups + 1)[1:-1])
    group = np.searchsorted(edges, p, side="right")
    members = group == np.arange(groups)[:, None]
    counts = members.sum(axis=1)
    return counts, members @ p / counts, members @ y / counts


def run(age, sex, markers, readmitted):
    x = design(age, sex, markers)
    y = readmitted.astype(np.float64)
    beta, covariance, history = fit(x, y, PENALTY)
    errors = np.sqrt(np.diag(covariance))
    p = sigmoid(x @ beta)
    null = np.log(y.mean() / (1 - y.mean()))
    counts, expected, observed = calibration(y, p, GROUPS)
    predicted = p >= 0.5
    confusion = np.array([[(~predicted & (y == 0)).sum(), (predicted & (y == 0)).sum()],
                          [(~predicted & (y == 1)).sum(), (predicted & (y == 1)).sum()]])  # fmt: skip
    fitted, empty = log_likelihood(x, y, beta), len(y) * (y.mean() * null - np.logaddexp(0, null))
    return {
        "beta": beta,
        "errors": errors,
        "z": beta / errors,
        "odds ratios": np.exp(beta[1:, None] + errors[1:, None] * np.array([-1.96, 0, 1.96])),
        "history": history,
        "area": roc_area(y, p),
        "brier": np.mean((p - y) ** 2),
        "pseudo R2": 1 - fitted / empty,
        "confusion": confusion,
        "sizes": counts,
        "expected": expected,
        "observed": observed,
        "hosmer": np.sum(counts * (observed - expected) ** 2 / (expected * (1 - expected))),
    }
