# SPDX-License-Identifier: Apache-2.0
"""A mixture of Gaussians with full covariances, by expectation and maximization in logarithms."""

import numpy as np

COMPONENTS = 3
ITERATIONS = 15
FLOOR = 1e-3  # added to variances


def inputs(rng, scale=1):
    """Points of three groups: x [n, 2], and the responsibilities to start from [n, 3]."""
    n = 90 * scale
    centers = rng.normal(size=(COMPONENTS, 2)) * 4
    shapes = rng.normal(size=(COMPONENTS, 2, 2))
    group = rng.integers(0, COMPONENTS, n)
    noise = rng.normal(size=(n, 2))
    x = centers[group] + (shapes[group] @ noise[:, :, None])[:, :, 0] + 0.3 * rng.normal(size=(n, 2))
    start = rng.dirichlet([1.0] * COMPONENTS, n)
    start[range(n), group] += 1
    return {"x": x, "start": start / start.sum(axis=1, keepdims=True)}


def logsumexp(a, axis):
    top = a.max(axis=axis, keepdims=True)
    return np.squeeze(top, axis) + np.log(np.exp(a - top).sum(axis=axis))


def maximize(x, responsibilities):
    """Weights, means and covariances from soft memberships."""
    n, d = x.shape
    counts = responsibilities.sum(axis=0) + 10 * np.finfo(float).eps
    means = responsibilities.T @ x / counts[:, None]
    covariances = np.empty((COMPONENTS, d, d))
    for k in range(COMPONENTS):
        centered = x - means[k]
        covariances[k] = (responsibilities[:, k, None] * centered).T @ centered / counts[k]
        covariances[k].flat[:: d + 1] += FLOOR
    return counts / n, means, covariances


def log_densities(x, means, covariances):
    """[n, k], by Cholesky factors."""
    factors = np.linalg.cholesky(covariances)
    centered = x[None] - means[:, None]  # [k, n, d]
    scaled = np.linalg.solve(factors, centered.transpose(0, 2, 1))  # [k, d, n]
    half = np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)
    d = x.shape[1]
    return -0.5 * (scaled**2).sum(axis=1).T - half - 0.5 * d * np.log(2 * np.pi)


def run(x, start):
    n, d = x.shape
    responsibilities = start
    history = []
    for _ in range(ITERATIONS):
        weights, means, covariances = maximize(x, responsibilities)
        joint = log_densities(x, means, covariances) + np.log(weights)
        evidence = logsumexp(joint, axis=1)
        responsibilities = np.exp(joint - evidence[:, None])
        history.append(evidence.mean())
    history = np.stack(history)

    order = np.argsort(weights)[::-1]
    weights, means, covariances = weights[order], means[order], covariances[order]
    labels = responsibilities[:, order].argmax(axis=1)
    entropy = -np.sum(responsibilities * np.log(np.clip(responsibilities, 1e-300, None)), axis=1)
    parameters = COMPONENTS * (d + d * (d + 1) // 2) + COMPONENTS - 1
    total = n * history[-1]

    # The ellipses of the components: axes and angles.
    values, vectors = np.linalg.eigh(covariances)
    angle = np.degrees(np.arctan2(vectors[:, 1, -1], vectors[:, 0, -1])) % 180

    # Densities on a grid.
    low, high = x.min(axis=0), x.max(axis=0)
    axes = low + np.linspace(0, 1, 8)[:, None] * (high - low)
    gx, gy = np.meshgrid(axes[:, 0], axes[:, 1], indexing="ij")
    grid = np.stack([gx.ravel(), gy.ravel()], axis=1)
    density = np.exp(logsumexp(log_densities(grid, means, covariances) + np.log(weights), axis=1)).reshape(8, 8)
    return {
        "weights": weights,
        "means": means,
        "covariances": covariances,
        "labels": labels,
        "history": history,
        "rises": (np.diff(history) > -1e-9).all(),
        "aic": 2 * parameters - 2 * total,
        "bic": parameters * np.log(n) - 2 * total,
        "unsure": np.flip(np.sort(entropy))[:10],
        "axes": np.sqrt(values),
        "angle": np.sin(2 * np.radians(angle)),  # an angle of 0 is one of 180
        "density": density,
        "mass": density.sum() * np.prod((high - low) / 7),
    }
