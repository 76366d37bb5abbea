# SPDX-License-Identifier: Apache-2.0
"""Kalman filter and Rauch-Tung-Striebel smoother of moving targets with missing positions, for many tracks at once."""

import numpy as np

INTERVAL = 0.5
ACCELERATION = 0.3  # standard deviation of the noise that drives the targets
POSITION = 0.8  # standard deviation of measured positions


def inputs(rng, scale=1):
    """Measured positions of 5 tracks in 25 intervals: [tracks, times, 2], NaN where a measurement is missing."""
    tracks, times = 5 * scale, 25
    velocity = rng.normal(size=(tracks, 1, 2)) + 0.3 * rng.normal(size=(tracks, times, 2)).cumsum(axis=1)
    position = INTERVAL * velocity.cumsum(axis=1)
    measured = position + POSITION * rng.normal(size=position.shape)
    measured[rng.random((tracks, times)) < 0.15] = float("nan")
    return {"measured": measured}


def model():
    """Transition and noise of (x, y, vx, vy), and the observation of positions."""
    step = np.eye(4)
    step[[0, 1], [2, 3]] = INTERVAL
    push = np.vstack([0.5 * INTERVAL**2 * np.eye(2), INTERVAL * np.eye(2)])
    noise = ACCELERATION**2 * push @ push.T
    sees = np.eye(2, 4)
    return step, noise, sees, POSITION**2 * np.eye(2)


def filtered(measured):
    """Means and covariances before and after each measurement, and the log-likelihood of each track."""
    step, noise, sees, error = model()
    tracks, times, _ = measured.shape
    is_there = ~np.isnan(measured).any(axis=-1)
    known = np.nan_to_num(measured)

    mean = np.zeros((tracks, 4))
    mean[:, :2] = np.where(is_there[:, 0, None], known[:, 0], 0.0)
    covariance = np.tile(np.diag([4.0, 4.0, 9.0, 9.0]), (tracks, 1, 1))
    likelihood = np.zeros(tracks)
    before, after = [], []
    for t in range(times):
        if t:
            mean = mean @ step.T
            covariance = step @ covariance @ step.T + noise
        before.append((mean, covariance))
        surprise = known[:, t] - mean @ sees.T
        spread = sees @ covariance @ sees.T + error
        gain = np.linalg.solve(spread, sees @ covariance).transpose(0, 2, 1)
        gain = gain * is_there[:, t, None, None]
        mean = mean + np.einsum("nij,nj->ni", gain, surprise)
        rest = np.eye(4) - gain @ sees
        # Joseph's form keeps the covariance symmetric.
        covariance = rest @ covariance @ rest.swapaxes(1, 2) + gain @ error @ gain.swapaxes(1, 2)
        distance = np.sum(surprise * np.linalg.solve(spread, surprise[..., None])[..., 0], axis=1)
        _, logdet = np.linalg.slogdet(spread)
        likelihood -= 0.5 * np.where(is_there[:, t], distance + logdet + 2 * np.log(2 * np.pi), 0)
        after.append((mean, covariance))
    return before, after, likelihood


def smoothed(before, after):
    """Means and covariances given all measurements."""
    step = model()[0]
    mean, covariance = after[-1]
    means, covariances = [mean], [covariance]
    for t in reversed(range(len(after) - 1)):
        m, p = after[t]
        next_m, next_p = before[t + 1]
        back = np.linalg.solve(next_p, step @ p).swapaxes(-1, -2)
        mean = m + (back @ (mean - next_m)[..., np.newaxis]).squeeze(-1)
        covariance = p + back @ (covariance - next_p) @ back.swapaxes(-1, -2)
        means.append(mean)
        covariances.append(covariance)
    return np.stack(means[::-1], axis=1), np.stack(covariances[::-1], axis=1)


def run(measured):
    before, after, likelihood = filtered(measured)
    means, covariances = smoothed(before, after)
    plain = np.stack([mean for mean, _ in after], axis=1)
    deviations = np.sqrt(np.diagonal(covariances, axis1=-2, axis2=-1))
    residual = measured - means[..., :2]
    speed = np.hypot(means[..., 2], means[..., 3])
    steps = np.diff(means[..., :2], axis=1)
    return {
        "filtered": plain,
        "smoothed": means,
        "deviations": deviations,
        "likelihood": likelihood,
        "total": likelihood.sum(),
        "residual": np.sqrt(np.nanmean(residual**2, axis=(1, 2))),
        "missing": np.isnan(measured[..., 0]).sum(axis=1),
        "change": np.abs(means - plain).max(axis=(0, 1)),
        "fastest": speed.argmax(axis=1),
        "length": np.linalg.norm(steps, axis=-1).sum(axis=-1),
        "heading": np.unwrap(np.arctan2(steps[..., 1], steps[..., 0]), axis=1)[:, -1],
    }
