# SPDX-License-Identifier: Apache-2.0
"""K-means: farthest-point start, Lloyd's iterations, inertia, and silhouettes of the clusters."""

import numpy as np

CLUSTERS = 4
ITERATIONS = 10


def inputs(rng, scale=1):
    """Points of four groups, shuffled: x [n, 3]."""
    n = 60 * scale
    centers = rng.normal(size=(CLUSTERS, 3)) * 3
    x = centers[rng.integers(0, CLUSTERS, n)] + rng.normal(size=(n, 3))
    return {"x": x}


def squared_distances(x, centers):
    """[n, k], by the expanded square, which needs no array of [n, k, d]."""
    d2 = (x**2).sum(axis=1)[:, np.newaxis] - 2 * x @ centers.T + (centers**2).sum(axis=1)
    return np.maximum(d2, 0, out=d2)


def farthest_points(x, k):
    """The point nearest to the mean, then k - 1 times the point farthest from those chosen."""
    centers = np.empty((k, x.shape[1]))
    nearest = ((x - x.mean(axis=0)) ** 2).sum(axis=1)
    centers[0] = x[np.argmin(nearest)]
    nearest = ((x - centers[0]) ** 2).sum(axis=1)
    for j in range(1, k):
        centers[j] = x[np.argmax(nearest)]
        nearest = np.minimum(nearest, ((x - centers[j]) ** 2).sum(axis=1))
    return centers


def update(x, labels, centers):
    """Means of the clusters; an empty one keeps its center."""
    sums = np.zeros_like(centers)
    counts = np.zeros(len(centers))
    np.add.at(sums, labels, x)
    np.add.at(counts, labels, 1)
    is_empty = counts == 0
    counts[is_empty] = 1
    return np.where(is_empty[:, None], centers, sums / counts[:, None])


def silhouettes(x, labels, k):
    """Of each point: (b - a) / max(a, b), with mean distances a to its own cluster and b to the next one."""
    members = (labels[:, None] == np.arange(k)).astype(float)
    counts = members.sum(axis=0)
    distances = np.sqrt(((x[:, None, :] - x[None, :, :]) ** 2).sum(axis=-1))
    total = distances @ members
    own = counts[labels]
    a = np.take_along_axis(total, labels[:, None], axis=1)[:, 0] / np.maximum(own - 1, 1)
    others = total / np.maximum(counts, 1)
    others[members.astype(bool) | (counts == 0)] = np.inf
    b = others.min(axis=1)
    return np.where(own > 1, (b - a) / np.maximum(np.maximum(a, b), 1e-12), 0.0)


def run(x):
    centers = farthest_points(x, CLUSTERS)
    inertias = np.zeros(ITERATIONS)
    for i in range(ITERATIONS):
        d2 = squared_distances(x, centers)
        labels = d2.argmin(axis=1)
        inertias[i] = d2.min(axis=1).sum()
        centers = update(x, labels, centers)
    # Clusters are numbered by the first coordinate of their centers.
    order = np.argsort(centers[:, 0])
    centers = centers[order]
    labels = np.argmin(squared_distances(x, centers), axis=1)
    score = silhouettes(x, labels, CLUSTERS)
    sizes = (labels[:, None] == np.arange(CLUSTERS)).sum(axis=0)
    return {
        "centers": centers,
        "labels": labels,
        "sizes": sizes,
        "inertias": inertias,
        "has_converged": np.abs(np.diff(inertias))[-1] <= 1e-9 * inertias[-1],
        "silhouette": score.mean(),
        "worst": np.sort(score)[:5],
    }
