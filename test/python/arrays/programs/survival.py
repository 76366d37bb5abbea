# SPDX-License-Identifier: Apache-2.0
"""Survival of patients: Kaplan-Meier and Nelson-Aalen curves, the log-rank test, and Cox regression."""

import numpy as np

HORIZON = 60  # days
ITERATIONS = 8


def inputs(rng, scale=1):
    """Patients: days under observation (int32), whether they died, which treatment they had, and x [n, 3] (float32)."""
    n = 100 * scale
    treated = rng.integers(0, 2, n).astype(bool)
    x = rng.normal(size=(n, 3)).astype("float32")
    lasts = 50 * rng.exponential(size=n) * 2.0 ** (treated - x[:, 0] + 0.5 * x[:, 1])
    leaves = rng.uniform(5, 1.5 * HORIZON, n)
    died = lasts <= leaves
    days = lasts * died + leaves * ~died
    return {"days": days.astype("int32") + 1, "died": died, "treated": treated, "x": x}


def life_table(days, died, chosen=True):
    """Patients at risk and deaths on each day: two of [HORIZON]."""
    day = np.arange(1, HORIZON + 1)
    at_risk = ((days[:, None] >= day) & np.atleast_1d(chosen)[:, None]).sum(axis=0)
    deaths = ((days[:, None] == day) & (died & chosen)[:, None]).sum(axis=0)
    return at_risk, deaths


def curves(at_risk, deaths):
    """Kaplan-Meier with Greenwood's errors on the log-log scale, and Nelson-Aalen's hazard."""
    share = np.divide(deaths, at_risk, out=np.zeros(HORIZON), where=at_risk > 0)
    survival = np.cumprod(1 - share)
    left = at_risk - deaths
    terms = np.where(left > 0, deaths / np.maximum(at_risk * left, 1), 0)
    variance = np.cumsum(terms)
    logarithm = np.log(np.clip(survival, 1e-12, 1 - 1e-12))
    width = 1.96 * np.sqrt(variance) / np.abs(logarithm)
    bounds = np.exp(logarithm * np.exp(width)), np.exp(logarithm * np.exp(-width))
    return survival, bounds, np.cumsum(share)


def median_survival(survival):
    """The first day with survival of at most a half; NaN if there is none."""
    is_below = survival <= 0.5
    return np.where(is_below.any(), 1.0 + np.argmax(is_below), np.nan)


def log_rank(days, died, treated):
    """The statistic, of one degree of freedom, and observed and expected deaths of the treated."""
    n, d = life_table(days, died)
    n1, d1 = life_table(days, died, treated)
    known = np.maximum(n, 1)
    expected = d * n1 / known
    variance = expected * (n - n1) * (n - d) / (known * np.maximum(n - 1, 1))
    return (d1 - expected).sum() ** 2 / variance.sum(), d1.sum(), expected.sum()


def sums_from(values, first):
    """Of rows in order of time: sums over all rows from `first` to the end."""
    return np.cumsum(values[::-1], axis=0)[::-1][first]


def cox(x, days, died):
    """Log hazard ratios by Newton's method on Breslow's likelihood; their covariance; likelihoods."""
    order = np.argsort(days, kind="stable")
    x, days, event = x[order], days[order], died[order].astype(float)
    first = np.searchsorted(days, days)  # the first row of the same day
    products = x[:, :, None] * x[:, None, :]
    beta = np.zeros(x.shape[1])
    likelihoods = []
    for _ in range(ITERATIONS):
        score = x @ beta
        weight = np.exp(score)
        total = sums_from(weight, first)
        mean = sums_from(weight[:, None] * x, first) / total[:, None]
        second = sums_from(weight[:, None, None] * products, first) / total[:, None, None]
        likelihoods.append(np.sum(event * (score - np.log(total))))
        gradient = event @ (x - mean)
        information = np.einsum("n,nij->ij", event, second - mean[:, :, None] * mean[:, None, :])
        beta = beta + np.linalg.solve(information, gradient)
    return beta, np.linalg.inv(information), np.array(likelihoods)


def concordance(score, days, died):
    """The share of comparable pairs in which the patient with the larger score dies first."""
    is_first = (days[:, None] < days) & died[:, None]
    larger = score[:, None] > score
    return np.count_nonzero(is_first & larger) / np.count_nonzero(is_first)


def run(days, died, treated, x):
    at_risk, deaths = life_table(days, died)
    survival, (low, high), hazard = curves(at_risk, deaths)
    by_group = np.array([curves(*life_table(days, died, group))[0] for group in (treated, ~treated)])
    statistic, observed, expected = log_rank(days, died, treated)

    covariates = np.hstack((treated[:, None], x)).astype(np.float64)
    covariates -= covariates.mean(axis=0)
    beta, covariance, likelihoods = cox(covariates, days, died)
    errors = np.sqrt(covariance.diagonal())
    score = covariates @ beta
    cases = np.array([life_table(days, died, (score >= low) & (score < high))[0][[0, 14, 29]]
                      for low, high in ((-np.inf, 0), (0, np.inf))])  # fmt: skip
    return {
        "at risk": at_risk,
        "deaths": deaths,
        "survival": survival,
        "low": low,
        "high": high,
        "hazard": hazard,
        "by group": by_group,
        "medians": np.stack([median_survival(curve) for curve in (survival, *by_group)]),
        "mean in the horizon": by_group[:, :-1].sum(axis=1) + 1,
        "log rank": statistic,
        "observed": observed,
        "expected": expected,
        "beta": beta,
        "hazard ratios": np.exp(beta + np.multiply.outer([-1.96, 0.0, 1.96], errors)),
        "wald": (beta / errors) ** 2,
        "likelihoods": likelihoods,
        "test": 2 * (likelihoods[-1] - likelihoods[0]),
        "concordance": concordance(score, days, died),
        "cases": cases,
    }
