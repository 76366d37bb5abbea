# SPDX-License-Identifier: Apache-2.0
"""Spectra of recorded signals: Welch's method, band powers, filters, envelopes, coherence and autocorrelation."""

import numpy as np

RATE = 128.0  # samples per second
WINDOW, HOP = 128, 64
BANDS = {"delta": (1, 4), "theta": (4, 8), "alpha": (8, 13), "beta": (13, 30)}


def inputs(rng, scale=1):
    """Signals of 4 channels: [channels, samples], int16 as a device stores them; and the volts of one count."""
    channels, samples = 4 * scale, 512
    time = rng.standard_normal((channels, samples)).cumsum(axis=1) * 0.2  # a slow drift
    phase = 2 * 3.141592653589793 / RATE * rng.uniform(8, 12, (channels, 1))
    wave = (phase * range(samples) + rng.uniform(0, 6, (channels, 1)) + 0j) * 1j
    alpha = (2.718281828459045**wave).real
    counts = 60 * alpha + 20 * time + 15 * rng.normal(size=time.shape)
    return {"counts": counts.round().astype("int16"), "volts": rng.uniform(0.4e-6, 0.6e-6, (channels, 1))}


def detrended(signal):
    """Without the straight line that fits best."""
    time = np.linspace(-1, 1, signal.shape[-1])
    slope = signal @ time / (time @ time)
    return signal - signal.mean(axis=-1, keepdims=True) - slope[..., None] * time


def frames(signal):
    """Windows of WINDOW samples, HOP apart: [channels, frames, WINDOW]."""
    count = (signal.shape[-1] - WINDOW) // HOP + 1
    at = HOP * np.arange(count)[:, None] + np.arange(WINDOW)
    return signal[:, at]


def welch(signal):
    """Frequencies, and the spectrum of each frame: [channels, frames, frequencies], complex."""
    window = np.hanning(WINDOW)
    parts = frames(signal)
    parts = (parts - parts.mean(axis=-1, keepdims=True)) * window
    spectrum = np.fft.rfft(parts, axis=-1) / np.sqrt(RATE * (window**2).sum())
    spectrum[..., 1:-1] *= np.sqrt(2)
    return np.fft.rfftfreq(WINDOW, 1 / RATE), spectrum


def band_powers(frequency, density):
    """[channels, bands]."""
    powers = []
    for low, high in BANDS.values():
        inside = (frequency >= low) & (frequency < high)
        powers.append(np.trapezoid(np.where(inside, density, 0), frequency, axis=-1))
    return np.stack(powers, axis=-1)


def bandpass(signal, low, high):
    """By the Fourier transform, with edges of a cosine of 1 Hz."""
    n = signal.shape[-1]
    frequency = np.fft.rfftfreq(n, d=1 / RATE)
    rising = np.clip(frequency - low + 0.5, 0, 1)
    falling = np.clip(high - frequency + 0.5, 0, 1)
    gain = 0.5 - 0.5 * np.cos(np.pi * np.minimum(rising, falling))
    return np.fft.irfft(np.fft.rfft(signal) * gain, n=n)


def analytic(signal):
    """The signal with its Hilbert transform as imaginary part."""
    n = signal.shape[-1]
    gain = np.zeros(n)
    gain[0] = gain[n // 2] = 1
    gain[1 : n // 2] = 2
    return np.fft.ifft(np.fft.fft(signal, axis=-1) * gain)


def autocorrelation(signal, lags):
    """[channels, lags], by a transform padded with zeros."""
    n = signal.shape[-1]
    centered = signal - signal.mean(axis=-1, keepdims=True)
    spectrum = np.fft.fft(centered, 2 * n)
    covariance = np.fft.ifft(np.abs(spectrum) ** 2).real[..., :lags] / n
    return covariance / covariance[..., :1]


def run(counts, volts):
    signal = detrended(counts * volts * 1e6)
    frequency, spectrum = welch(signal)
    density = np.mean(np.abs(spectrum) ** 2, axis=1)
    powers = band_powers(frequency, density)
    total = powers.sum(axis=-1, keepdims=True)

    share = density[:, 1:] / density[:, 1:].sum(axis=-1, keepdims=True)
    entropy = -(share * np.log2(share)).sum(axis=-1) / np.log2(share.shape[-1])
    cumulative = share.cumsum(axis=-1)
    edge = frequency[1:][np.argmax(cumulative >= 0.95, axis=-1)]

    cross = np.einsum("cft,dft->cdt", spectrum, spectrum.conj()) / spectrum.shape[1]
    power = np.einsum("cct->ct", cross).real
    coherence = np.abs(cross) ** 2 / (power[:, None] * power[None, :])

    alpha = bandpass(signal, *BANDS["alpha"])
    wave = analytic(alpha)
    envelope = np.abs(wave)
    turns = np.diff(np.unwrap(np.angle(wave)), axis=-1) * RATE / (2 * np.pi)
    lags = autocorrelation(signal, 64)
    crossings = (np.signbit(signal[:, 1:]) != np.signbit(signal[:, :-1])).sum(axis=1)
    smooth = np.apply_along_axis(np.convolve, 1, signal, np.full(5, 0.2), mode="same")
    energy = (np.abs(np.fft.fft(signal)) ** 2).sum(axis=-1) / signal.shape[-1]
    return {
        "frequency": frequency,
        "density": density,
        "decibels": 10 * np.log10(density),
        "powers": powers,
        "relative": powers / total,
        "peak": frequency[np.argmax(density[:, 5:20], axis=1) + 5],
        "entropy": entropy,
        "edge": edge,
        "coherence": coherence[..., 8:13].mean(axis=-1),
        "spectrum": spectrum[:, 0],
        "alpha": alpha,
        "envelope": envelope,
        "rhythm": np.median(turns, axis=-1),
        "lags": lags,
        "crossings": crossings,
        "smooth": smooth,
        "loud": np.percentile(envelope, [50, 90, 99], axis=-1),
        "parseval": energy / (signal**2).sum(axis=-1),
        "range": np.ptp(signal, axis=-1),
    }
