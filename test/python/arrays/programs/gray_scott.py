# SPDX-License-Identifier: Apache-2.0
"""Gray-Scott's reaction of two diffusing substances on a torus, by finite differences in single precision."""

import numpy as np

FEED, KILL = 0.055, 0.062
DIFFUSION_U, DIFFUSION_V = np.float32(0.16), np.float32(0.08)
STEPS = 40
RECORDED = 8  # steps between records


def inputs(rng, scale=1):
    """Two concentrations with some noise: u, v [32, 32 scale], float32; and a map of walls (bool)."""
    height, width = 32, 32 * scale
    u = 1 - 0.05 * rng.random((height, width))
    v = 0.05 * rng.random((height, width))
    u[12:20, 10:22], v[12:20, 10:22] = 0.5, 0.25
    wall = rng.random((height, width)) < 0.03
    return {"u": u.astype("float32"), "v": v.astype("float32"), "wall": wall}


def wrap_around(padded):
    """Copies the outer cells to the border of the other side."""
    padded[0, :] = padded[-2, :]
    padded[-1, :] = padded[1, :]
    padded[:, 0] = padded[:, -2]
    padded[:, -1] = padded[:, 1]


def laplacian(padded, out):
    """Of the cells without the border: nine points."""
    np.multiply(padded[1:-1, 1:-1], -3, out=out)
    out += 0.5 * (padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:])
    out += 0.25 * (padded[:-2, :-2] + padded[:-2, 2:] + padded[2:, :-2] + padded[2:, 2:])
    return out


def rolled_gradient(field):
    """Its size by central differences on the torus."""
    across = np.roll(field, -1, axis=1) - np.roll(field, 1, axis=1)
    down = np.roll(field, -1, axis=0) - np.roll(field, 1, axis=0)
    return np.hypot(across, down) / 2


def blocks(field, size):
    """Means over blocks of cells."""
    h, w = field.shape
    return field.reshape(h // size, size, w // size, size).mean(axis=(1, 3))


def run(u, v, wall):
    first, second = np.pad(u, 1, mode="wrap"), np.pad(v, 1, mode="wrap")
    inner_u, inner_v = first[1:-1, 1:-1], second[1:-1, 1:-1]
    du, dv = np.empty_like(u), np.empty_like(v)
    records = np.zeros((STEPS // RECORDED, 4), dtype=np.float32)
    for step in range(STEPS):
        if step % RECORDED == 0:
            row = records[step // RECORDED]
            row[:2] = inner_u.mean(), inner_v.mean()
            row[2], row[3] = inner_v.max(), inner_v.std()
        wrap_around(first)
        wrap_around(second)
        laplacian(first, du)
        laplacian(second, dv)
        reaction = inner_u * inner_v**2
        du *= DIFFUSION_U
        du -= reaction
        du += FEED * (1 - inner_u)
        dv *= DIFFUSION_V
        dv += reaction
        dv -= (FEED + KILL) * inner_v
        inner_u += du
        inner_v += dv
        inner_v[wall] = 0
        np.clip(inner_u, 0, 1, out=inner_u)

    slope = rolled_gradient(inner_v)
    heavy = inner_v.astype(np.float64)
    rows, columns = np.indices(heavy.shape)
    mass = heavy.sum()
    density, edges = np.histogram(inner_v, bins=8, range=(0, 0.5))
    transform = np.fft.fft2(heavy - heavy.mean())
    power = np.fft.fftshift(np.abs(transform) ** 2)
    return {
        "u": inner_u,
        "v": inner_v,
        "records": records,
        "slope": slope,
        "steepest": slope.max(axis=1),
        "blocks": blocks(inner_v, 4),
        "center": np.stack([(rows * heavy).sum(), (columns * heavy).sum()]) / mass,
        "inside": (inner_v > 0.1).mean(),
        "density": density,
        "edges": edges,
        "power": power[16],
        "profile": np.trapezoid(inner_v, dx=0.5, axis=0),
        "quadrants": np.block([[heavy[:2, :2], heavy[:2, -2:]], [heavy[-2:, :2], heavy[-2:, -2:]]]),
    }
