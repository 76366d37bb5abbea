# SPDX-License-Identifier: Apache-2.0
"""A network of two layers that classifies, with backpropagation by hand, dropout, and Adam with weight decay."""

import numpy as np

CLASSES, HIDDEN = 3, 12
EPOCHS, BATCH = 2, 16
RATE, DECAY = 0.02, 1e-3
BETA1, BETA2 = 0.9, 0.999
KEEP = 0.8


def inputs(rng, scale=1):
    """x [n, 5] and classes [n] to train on and to test, first weights, an order of rows and dropout masks."""
    n, d = 80 * scale, 5
    centers = 2 * rng.normal(size=(CLASSES, d))
    label, test_label = rng.integers(0, CLASSES, n), rng.integers(0, CLASSES, n // 2)
    return {
        "x": centers[label] + rng.normal(size=(n, d)),
        "label": label,
        "test_x": centers[test_label] + rng.normal(size=(n // 2, d)),
        "test_label": test_label,
        "w1": rng.normal(size=(d, HIDDEN)) * (2 / d) ** 0.5,
        "w2": rng.normal(size=(HIDDEN, CLASSES)) * HIDDEN**-0.5,
        "order": rng.permuted([range(n)] * EPOCHS, axis=1),
        "kept": rng.random((EPOCHS, n, HIDDEN)) < KEEP,
    }


def softmax(z):
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def forward(weights, x, mask=None):
    """Hidden values and probabilities."""
    hidden = np.tanh(x @ weights["w1"] + weights["b1"])
    if mask is not None:
        hidden = hidden * mask / KEEP
    return hidden, softmax(hidden @ weights["w2"] + weights["b2"])


def loss_of(probability, label):
    return -np.log(probability[np.arange(len(label)), label]).mean()


def gradients(weights, x, label, mask):
    """Of the mean cross-entropy and the decay of both layers."""
    hidden, probability = forward(weights, x, mask)
    n = len(x)
    d_logits = probability.copy()
    d_logits[np.arange(n), label] -= 1
    d_logits /= n
    d_hidden = (d_logits @ weights["w2"].T) * mask / KEEP
    plain = hidden * KEEP  # tanh where the mask keeps it; elsewhere the gradient is 0
    d_inner = d_hidden * (1 - plain**2)
    return loss_of(probability, label), {
        "w1": x.T @ d_inner + DECAY * weights["w1"],
        "b1": d_inner.sum(axis=0),
        "w2": hidden.T @ d_logits + DECAY * weights["w2"],
        "b2": d_logits.sum(axis=0),
    }


class Adam:
    """Changes weights in place."""

    def __init__(self, weights):
        self.weights = weights
        self.m = {name: np.zeros_like(value) for name, value in weights.items()}
        self.v = {name: np.zeros_like(value) for name, value in weights.items()}
        self.t = 0

    def step(self, grads):
        self.t += 1
        for name, g in grads.items():
            m, v = self.m[name], self.v[name]
            m *= BETA1
            m += (1 - BETA1) * g
            v *= BETA2
            v += (1 - BETA2) * np.square(g)
            rate = RATE * np.sqrt(1 - BETA2**self.t) / (1 - BETA1**self.t)
            self.weights[name] -= rate * m / (np.sqrt(v) + 1e-8)


def clipped(grads, most):
    """Scaled so that all gradients together have at most this norm."""
    norm = np.sqrt(sum(np.sum(g**2) for g in grads.values()))
    factor = np.minimum(1.0, most / (norm + 1e-12))
    return {name: g * factor for name, g in grads.items()}, norm


def run(x, label, test_x, test_label, w1, w2, order, kept):
    mean, deviation = x.mean(0), x.std(0)
    x, test_x = (x - mean) / deviation, (test_x - mean) / deviation
    weights = {"w1": w1.copy(), "b1": np.zeros(HIDDEN), "w2": w2.copy(), "b2": np.zeros(CLASSES)}
    adam = Adam(weights)
    losses, norms, tests = [], [], []
    for epoch in range(EPOCHS):
        shuffled_x, shuffled_label = x[order[epoch]], label[order[epoch]]
        for start in range(0, len(x), BATCH):
            rows = slice(start, start + BATCH)
            loss, grads = gradients(weights, shuffled_x[rows], shuffled_label[rows], kept[epoch, rows])
            grads, norm = clipped(grads, 1.0)
            adam.step(grads)
            losses.append(loss)
            norms.append(norm)
        tests.append(loss_of(forward(weights, test_x)[1], test_label))

    _, probability = forward(weights, test_x)
    predicted = probability.argmax(axis=1)
    confusion = np.zeros((CLASSES, CLASSES), dtype=int)
    np.add.at(confusion, (test_label, predicted), 1)
    right = confusion.diagonal()
    recall = right / np.maximum(confusion.sum(axis=1), 1)
    precision = right / np.maximum(confusion.sum(axis=0), 1)
    sure = np.partition(probability, CLASSES - 2, axis=1)
    return {
        **weights,
        "losses": np.array(losses),
        "norms": np.array(norms),
        "tests": np.array(tests),
        "probability": probability,
        "accuracy": np.mean(predicted == test_label),
        "confusion": confusion,
        "recall": recall,
        "precision": precision,
        "f1": 2 * precision * recall / np.maximum(precision + recall, 1e-12),
        "margin": (sure[:, -1] - sure[:, -2]).mean(),
    }
