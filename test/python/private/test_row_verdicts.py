# SPDX-License-Identifier: Apache-2.0
"""What an owner makes of each program of the corpus: how much is noised, or what it refuses, where and why."""

import re

import pytest
from corpus import ACCEPTED, CASES, REFUSED, SEVERAL
from private_step import make_private
from programs import record

# Tensors in the gradient's release, and numbers of the published results that are releases of their own.
NOISED = {
    "mlp": 4, "linear": 2, "mse": 4, "bce": 4, "huber": 4, "hinge": 4, "nll": 4, "kl": 4, "smoothed": 4,
    "class_weights": 4, "sample_weights": 4, "sum": 4, "mean_by_hand": 4, "one_hot": 4, "masked": 4, "penalty": 4,
    "two_losses": 4, "layer_norm": 6, "dropout": 4, "deep": 8, "softplus": 4, "prelu": 5, "residual": 6,
    "weight_norm": 5,  # at the effective weight
    "bilinear": 2,
    "shared": 6, "tied_autoencoder": 2, "frozen_batch_norm": 6, "cnn_avg": 8, "cnn_flat": 8, "cnn_grouped": 8,
    "cnn_dilated": 8, "cnn_strided": 8, "cnn_instance": 8, "conv1d": 4, "deconv": 4, "gpt": 17, "gpt_deep": 29,
    "gpt_manual": 17, "gpt_tied": 16, "gpt_padded": 17,
    "lstm": 5, "lstm_time_first": 5, "lstm_words": 6, "lstm_deep": 8, "gru": 6, "rnn": 5,  # b_ih and b_hh have one gradient
    "attention": 10, "encoder": 16, "embedding_bag": 3, "momentum": 4, "nesterov": 4, "weight_decay": 4, "adam": 4,
    "adam_fused": 4, "adam_amsgrad": 4, "adamw": 4, "adamw_capturable": 4, "rmsprop": 4, "adagrad": 4,
    "weighted_gradients": 8, "mixed_gradients": 8, "scaled_twice": 8,  # each loss's gradients
    "clip_norm": 4, "clip_value": 4, "centred": 4, "kept_gradients": 4, "published_loss": (4, 1),
    "published_accuracy": (4, 2), "accumulated": 4, "half_batch": 4, "every_second": 4, "linear_loss": 1,
}  # fmt: skip

MEETS = "per-row values meet a value that was summed over rows"
# The op at which it fails, and the text.
REFUSALS = {
    "uploaded_weights": ("mul", MEETS),
    "batch_norm": ("sub", MEETS),
    "cnn_batch_norm": ("sub", MEETS),
    "contrastive": ("dot", "each row meets other rows of the batch"),
    "standardised": ("sub", MEETS),
    "sorted_rows": ("sort", "runs along rows"),
    "neighbours": ("slice", "takes a single row out of the batch"),
    "batch_norm_twice": ("sub", MEETS),
    "published_rows": (None, "a value per row of private data is published; reduce it over the rows first"),
    "running_loss": (None, "a sum over private rows is kept without noise in a tensor that the model does not train"),
    "batch_of_one": ("read_rows", "reads fewer than 2 rows"),
}


def test_table_is_complete():
    assert NOISED.keys() | REFUSALS.keys() | SEVERAL == CASES.keys() and len(CASES) >= 47
    assert set(ACCEPTED) == NOISED.keys() and set(REFUSED) == REFUSALS.keys()


@pytest.mark.parametrize("name", NOISED)
def test_accepted(name):
    r = record(name)
    done = make_private(r.text, r.bounds)
    assert done.code == 0, done.stderr[:2000]
    tensors, metrics = NOISED[name] if isinstance(NOISED[name], tuple) else (NOISED[name], 0)
    assert re.findall(r"remark: gradient of (\d+) tensors", done.stderr) == [str(tensors)]
    assert len(re.findall(r"remark: published result \d+", done.stderr)) == metrics
    assert f"8 rows, {1 + metrics} releases" in done.stderr
    parameters = sum(p.numel() for p in r.model.parameters())
    (numbers,) = re.findall(r"gradient of .* tensors: .*?, (\d+) numbers", done.stderr)
    assert int(numbers) <= 2 * parameters


@pytest.mark.parametrize("name", REFUSALS)
def test_refused(name):
    done = make_private(record(name).text, record(name).bounds)
    op, text = REFUSALS[name]
    assert done.code == 1
    (error,) = re.findall(r"<stdin>:\d+:\d+: error: (.*)", done.stderr)
    assert text in error, error
    if op is not None:
        assert f": '{op}' " in error and re.search(rf"error: .*\n.*sojourn\.{op} ", done.stderr), done.stderr[:500]


@pytest.mark.parametrize("name", ["mlp", "gpt", "masked", "mse", "lstm"])
def test_without_bounds(name):
    """Gradients are clipped, and a count of rows is bounded by the slots, whatever the columns hold."""
    done = make_private(record(name).text, "")
    assert done.code == 0, done.stderr[:2000]


def test_unbounded_divisor():
    """Nothing bounds a sum of weights that are features: it has no public constant."""
    done = make_private(record("sample_weights").text, "")
    assert done.code == 1 and MEETS in done.stderr


def test_divisors_are_named():
    """What was put in the place of a private divisor is said."""
    for name, number in (("masked", 8), ("class_weights", 24), ("sample_weights", 32), ("gpt_padded", 48)):
        done = make_private(record(name).text, record(name).bounds)
        found = re.findall(r"replaced by its largest possible value, ([\d.]+)", done.stderr)
        assert [round(float(x), 2) for x in found] == [number], f"{name}: {done.stderr[:500]}"
