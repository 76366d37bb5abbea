# SPDX-License-Identifier: Apache-2.0
"""The models, losses and optimizers of the corpus (see programs.py), each small.

A case's `loss(model, x, y)` is a mean over rows unless `mean` is false: the tests ask torch for the gradient of one
row alone by calling it on a batch of one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
import torch.nn.functional as F
from corpus_models import (
    CLASSES,
    WORDS,
    Attention,
    Autoencoder,
    Bag,
    Bilinear,
    Cnn,
    Conv1d,
    Deconv,
    Encoder,
    Gated,
    Gpt,
    Neighbours,
    Recurrent,
    Residual,
    Shared,
    SortedRows,
    Standardised,
    WordRecurrent,
    frozen_batch_norm,
    mlp,
    next_word,
    relu,
    scalar,
)
from torch import nn

import sojourn

ROWS = 40
FEATURES = tuple(f"f{k}" for k in range(6))
# Declared bounds of each column.
COLUMNS = dict.fromkeys(FEATURES, (-2.0, 2.0)) | {
    "y": (0, CLASSES - 1), "flag": (0, 1), "masked": (-100, CLASSES - 1), "image": (0.0, 1.0), "series": (-1.0, 1.0),
    "ids": (0, WORDS - 1), "pair": (-1.0, 1.0),
}  # fmt: skip


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1)


def cross_entropy(model, x, y):
    return F.cross_entropy(model(x), y)


@dataclasses.dataclass
class Case:
    model: Callable[[], nn.Module]
    loss: Callable = cross_entropy
    features: str | tuple = FEATURES
    label: str | None = "y"
    size: int = 8
    optimizer: Callable = sgd
    before: Callable | None = None  # of the model, between backward and step
    returns: Callable = lambda model, loss, x: loss.detach()
    train: Callable | None = None  # a step of its own
    mean: bool = True  # the loss is a mean over rows
    exact: bool = True  # torch on the CPU computes the same gradients of single rows
    single: Callable | None = None  # the loss whose gradient is one row's part; None: `loss`
    divided: bool = False  # the loss is divided by a private number, for which the owner puts the most that it can be

    def step(self, model, optimizer, x, y=None):
        if self.train is not None:
            return self.train(model, optimizer, x, y)
        optimizer.zero_grad()
        loss = self.loss(model, x, y)
        loss.backward()
        if self.before is not None:
            self.before(model)
        optimizer.step()
        return self.returns(model, loss, x)


def contrastive(model, x, y):
    z = F.normalize(model(x), dim=1)
    return F.cross_entropy(z @ z.t() * 3, torch.arange(len(x), device=x.device))


def masked(model, x, y, reduction="mean"):
    return F.cross_entropy(model(x), y, ignore_index=-100, reduction=reduction)


def padded(model, x, y, reduction="mean"):
    """Word 0 is padding."""
    logits = model(x[:, :-1]).reshape(-1, WORDS)
    return F.cross_entropy(logits, x[:, 1:].reshape(-1), ignore_index=0, reduction=reduction)


def by_hand(model, x, y):
    logits = model(x)
    return -(logits.log_softmax(1) * F.one_hot(y, CLASSES)).sum(1).mean()


def weighted(model, x, y, reduction="mean"):
    weight = torch.arange(1, 4, device=x.device).to(x.dtype)
    return F.cross_entropy(model(x), y, weight=weight, reduction=reduction)


def uploaded_weights(model, x, y):
    return F.cross_entropy(model(x), y, weight=torch.tensor([1.0, 2.0, 0.5], dtype=x.dtype, device=x.device))


def sample_losses(model, x, y):
    weight = x[:, 0].abs() + x[:, 1].abs()
    return (F.cross_entropy(model(x), y, reduction="none") * weight).sum(), weight.sum()


def sample_weighted(model, x, y):
    losses, weights = sample_losses(model, x, y)
    return losses / weights


def penalised(model, x, y):
    return cross_entropy(model, x, y) + 0.01 * sum((p**2).sum() for p in model.parameters())


def binary(model, x, y):
    return F.binary_cross_entropy_with_logits(model(x).squeeze(1), y.to(x.dtype))


def squared(model, x, y):
    return F.mse_loss(model(x).squeeze(1), y.to(x.dtype))


def accumulate(model, optimizer, x, y):
    """Two halves of a batch, one after the other."""
    optimizer.zero_grad()
    for part, label in zip(x.chunk(2), y.chunk(2)):
        (F.cross_entropy(model(part), label) / 2).backward()
    optimizer.step()


def weighted_gradients(model, optimizer, x, y):
    """Gradients of two losses, one of them scaled before they are added."""
    optimizer.zero_grad()
    logits, parameters = model(x), list(model.parameters())
    first = torch.autograd.grad(F.cross_entropy(logits, y), parameters, retain_graph=True)
    other = torch.autograd.grad(logits.square().mean(), parameters)
    for parameter, a, b in zip(parameters, first, other):
        parameter.grad = a + 0.5 * b
    optimizer.step()


def mixed_gradients(model, optimizer, x, y):
    """To the gradient of one loss the mean over elements of that of another."""
    optimizer.zero_grad()
    logits, parameters = model(x), list(model.parameters())
    first = torch.autograd.grad(F.cross_entropy(logits, y), parameters, retain_graph=True)
    other = torch.autograd.grad(logits.square().mean(), parameters)
    for parameter, a, b in zip(parameters, first, other):
        parameter.grad = a - b.mean()
    optimizer.step()


def scaled_twice(model, optimizer, x, y):
    """Half of the first gradient is left when the second one is added to it."""
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    for parameter in model.parameters():
        parameter.grad.mul_(0.5)
    model(x).square().mean().backward()
    optimizer.step()


def half_a_batch(model, optimizer, x, y):
    optimizer.zero_grad()
    F.cross_entropy(model(x[:4]), y[:4]).backward()
    optimizer.step()


def every_second(model, optimizer, x, y):
    optimizer.zero_grad()
    F.cross_entropy(model(x[::2]), y[::2]).backward()
    optimizer.step()


def two_losses(model, x, y):
    logits = model(x)
    return F.cross_entropy(logits, y) + 0.1 * F.mse_loss(logits[:, 0], x[:, 0])


def two_steps(model, optimizer, x, y):
    for _ in range(2):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def three_updates(model, optimizer, x, y):
    """Each with the gradient at what the last one gave, by an optimizer that remembers."""
    for _ in range(3):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def reconstruct(model, x, y):
    return F.mse_loss(model.back(model.code(x)), x)


def classify(model, x, y):
    return F.cross_entropy(model.head(model.code(x)), y)


def two_optimizers(model, optimizer, x, y):
    """An autoencoder takes a step, then a classifier on the code that it has learnt by then."""
    for loss, parts in ((reconstruct, (model.code, model.back)), (classify, (model.code, model.head))):
        parameters = [p for part in parts for p in part.parameters()]
        optimizer.zero_grad()
        loss(model, x, y).backward()
        with torch.no_grad():
            for parameter in parameters:
                parameter -= 0.1 * parameter.grad


class Coded(nn.Module):
    def __init__(self):
        super().__init__()
        self.code = nn.Sequential(nn.Linear(6, 4), nn.Tanh())
        self.back, self.head = nn.Linear(4, 6), nn.Linear(4, CLASSES)


def words_twice(model, optimizer, x, y=None):
    """Embeddings are looked up again once they were updated."""
    for _ in range(2):
        optimizer.zero_grad()
        next_word(model, x, None).backward()
        optimizer.step()


def masked_twice(model, optimizer, x, y):
    """Each update divides by the number of rows with a label."""
    for _ in range(2):
        optimizer.zero_grad()
        masked(model, x, y).backward()
        optimizer.step()


def updated_statistics(model, optimizer, x, y):
    """Two updates do not make batch normalization provable."""
    two_steps(model, optimizer, x, y)


def published_rows(model, optimizer, x, y):
    optimizer.zero_grad()
    logits = model(x)
    F.cross_entropy(logits, y).backward()
    optimizer.step()
    sojourn.publish(logits.detach())


def published_accuracy(model, optimizer, x, y):
    optimizer.zero_grad()
    logits = model(x)
    loss = F.cross_entropy(logits, y)
    loss.backward()
    optimizer.step()
    sojourn.publish({"loss": loss.detach(), "accuracy": (logits.argmax(1) == y).float().mean()})


def running_loss(model, optimizer, x, y):
    """Adds the loss up in a buffer."""
    optimizer.zero_grad()
    loss = F.cross_entropy(model[0](x), y)
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        model[1].total += loss


class Total(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(()))


class Buffered(nn.Sequential):
    def forward(self, x):
        return self[0](x)


def clip_norm(model):
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)


def clip_value(model):
    torch.nn.utils.clip_grad_value_(model.parameters(), 0.1)


def centred(model):
    for parameter in model.parameters():
        parameter.grad.sub_(parameter.grad.mean())


def keeping(model, loss, x):
    return [loss.detach()] + [p.grad for p in model.parameters()]


def publishing(model, loss, x):
    sojourn.publish(loss.detach())


def adam(**options):
    return lambda parameters: torch.optim.Adam(parameters, lr=1e-2, **options)


IMAGE, SERIES, IDS = {"features": "image"}, {"features": "series"}, {"features": "ids", "label": None}

CASES: dict[str, Case] = {
    # Losses.
    "mlp": Case(relu),
    "linear": Case(lambda: nn.Linear(6, CLASSES)),
    "mse": Case(scalar, squared),
    "bce": Case(mlp(nn.GELU, outputs=1), binary, label="flag"),
    "huber": Case(scalar, lambda m, x, y: F.smooth_l1_loss(m(x).squeeze(1), y.to(x.dtype))),
    "hinge": Case(relu, lambda m, x, y: F.multi_margin_loss(m(x), y)),
    "nll": Case(mlp(nn.SiLU), lambda m, x, y: F.nll_loss(m(x).log_softmax(1), y)),
    "kl": Case(relu, lambda m, x, y: F.kl_div(m(x).log_softmax(1), x[:, :CLASSES].softmax(1), reduction="batchmean")),
    "smoothed": Case(mlp(nn.SiLU), lambda m, x, y: F.cross_entropy(m(x), y, label_smoothing=0.1)),
    "class_weights": Case(relu, weighted, single=lambda m, x, y: weighted(m, x, y, "sum") / 3, divided=True),
    "sample_weights": Case(relu, sample_weighted, single=lambda m, x, y: sample_losses(m, x, y)[0] / 4, divided=True),
    "sum": Case(relu, lambda m, x, y: F.cross_entropy(m(x), y, reduction="sum"), mean=False),
    "mean_by_hand": Case(relu, lambda m, x, y: F.cross_entropy(m(x), y, reduction="none").mean()),
    "one_hot": Case(relu, by_hand),
    "masked": Case(relu, masked, label="masked", single=lambda m, x, y: masked(m, x, y, "sum"), divided=True),
    "penalty": Case(relu, penalised, single=cross_entropy),
    "two_losses": Case(relu, two_losses),
    # Layers.
    "layer_norm": Case(mlp(lambda: nn.LayerNorm(5), nn.ReLU)),
    "dropout": Case(mlp(nn.ReLU, lambda: nn.Dropout(0.3)), exact=False),
    "deep": Case(
        lambda: nn.Sequential(*(m for _ in range(3) for m in (nn.Linear(6, 6), nn.ELU())), nn.Linear(6, CLASSES))
    ),
    "softplus": Case(mlp(nn.Softplus, nn.Sigmoid, nn.Hardtanh)),
    "prelu": Case(mlp(nn.PReLU)),
    "residual": Case(Residual),
    "weight_norm": Case(Gated, exact=False),
    "bilinear": Case(Bilinear, features="pair"),
    "shared": Case(Shared),
    "tied_autoencoder": Case(Autoencoder, lambda m, x, y: F.mse_loss(m(x), x), label=None),
    "frozen_batch_norm": Case(frozen_batch_norm, exact=False),
    "cnn_avg": Case(Cnn, **IMAGE),
    "cnn_flat": Case(lambda: Cnn(head="flat"), **IMAGE),
    "cnn_grouped": Case(lambda: Cnn(head="flat", groups=2), **IMAGE),
    "cnn_dilated": Case(lambda: Cnn(dilation=2, head="flat"), **IMAGE),
    "cnn_strided": Case(lambda: Cnn(stride=2), **IMAGE),
    "cnn_instance": Case(lambda: Cnn(lambda c: nn.InstanceNorm2d(c, affine=True)), **IMAGE),
    "conv1d": Case(Conv1d, **SERIES),
    "deconv": Case(Deconv, lambda m, x, y: F.mse_loss(m(x), x), features="image", label=None),
    "gpt": Case(Gpt, next_word, **IDS),
    "gpt_deep": Case(lambda: Gpt(layers=2), next_word, **IDS),
    "gpt_manual": Case(lambda: Gpt(fused=False, dropout=0.2), next_word, exact=False, **IDS),
    "gpt_tied": Case(lambda: Gpt(tied=True), next_word, **IDS),
    "gpt_padded": Case(Gpt, padded, single=lambda m, x, y: padded(m, x, y, "sum") / 6, divided=True, **IDS),
    "lstm": Case(Recurrent, **SERIES),
    "lstm_time_first": Case(lambda: Recurrent(batch_first=False), **SERIES),
    "lstm_words": Case(WordRecurrent, next_word, **IDS),
    "lstm_deep": Case(lambda: Recurrent(layers=2), **SERIES),
    "gru": Case(lambda: Recurrent(nn.GRU), **SERIES),
    "rnn": Case(lambda: Recurrent(nn.RNN), **SERIES),
    "attention": Case(Attention, **SERIES),
    "encoder": Case(Encoder, **SERIES),
    "embedding_bag": Case(Bag, features="ids"),
    # Optimizers, and what happens to gradients.
    "momentum": Case(relu, optimizer=lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)),
    "nesterov": Case(relu, optimizer=lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True)),
    "weight_decay": Case(relu, optimizer=lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=1e-2)),
    "adam": Case(relu, optimizer=adam()),
    "adam_fused": Case(relu, optimizer=adam(fused=True)),
    "adam_amsgrad": Case(relu, optimizer=adam(amsgrad=True)),
    "adamw": Case(relu, optimizer=lambda p: torch.optim.AdamW(p, lr=1e-2)),
    "adamw_capturable": Case(relu, optimizer=lambda p: torch.optim.AdamW(p, lr=1e-2, capturable=True)),
    "rmsprop": Case(relu, optimizer=lambda p: torch.optim.RMSprop(p, lr=1e-2)),
    "adagrad": Case(relu, optimizer=lambda p: torch.optim.Adagrad(p, lr=1e-2)),
    "weighted_gradients": Case(relu, train=weighted_gradients, exact=False),
    "mixed_gradients": Case(relu, train=mixed_gradients, exact=False),
    "scaled_twice": Case(relu, train=scaled_twice, exact=False),
    "clip_norm": Case(relu, before=clip_norm, optimizer=adam(), exact=False),
    "clip_value": Case(relu, before=clip_value),
    "centred": Case(relu, before=centred),
    "kept_gradients": Case(relu, returns=keeping),
    "published_loss": Case(relu, returns=publishing),
    "published_accuracy": Case(relu, train=published_accuracy),
    "accumulated": Case(relu, train=accumulate),
    "half_batch": Case(relu, train=half_a_batch, exact=False),
    "every_second": Case(relu, train=every_second, exact=False),
    "linear_loss": Case(lambda: nn.Linear(6, 1, bias=False), lambda m, x, y: (m(x).squeeze(1) * (2 * y - 3)).mean()),
    # Updates that follow one another.
    "two_steps": Case(relu, train=two_steps),
    "three_momentum": Case(relu, train=three_updates, optimizer=lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)),
    "three_adam": Case(relu, train=three_updates, optimizer=adam()),
    "two_optimizers": Case(Coded, train=two_optimizers),
    "masked_twice": Case(relu, train=masked_twice, label="masked"),
    "words_twice": Case(Gpt, train=words_twice, **IDS),
    # What no clipping can make private, or not in this version.
    "uploaded_weights": Case(relu, uploaded_weights),  # an owner that looks at what is uploaded knows a bound
    "batch_norm": Case(mlp(lambda: nn.BatchNorm1d(5), nn.ReLU)),
    "cnn_batch_norm": Case(lambda: Cnn(nn.BatchNorm2d), **IMAGE),
    "contrastive": Case(relu, contrastive),
    "standardised": Case(Standardised),
    "sorted_rows": Case(SortedRows),
    "neighbours": Case(Neighbours),
    "batch_norm_twice": Case(mlp(lambda: nn.BatchNorm1d(5), nn.ReLU), train=updated_statistics),
    "published_rows": Case(relu, train=published_rows),
    "running_loss": Case(lambda: Buffered(relu(), Total()), train=running_loss),
    "batch_of_one": Case(relu, size=1),
}

# What sojourn-make-private refuses; why, is in test_row_verdicts.py.
REFUSED = {
    "uploaded_weights", "batch_norm", "cnn_batch_norm", "contrastive",
    "standardised", "sorted_rows", "neighbours", "batch_norm_twice", "published_rows", "running_loss", "batch_of_one",
}  # fmt: skip
# Steps with several releases of gradients: test_several_updates.py.
SEVERAL = {"two_steps", "three_momentum", "three_adam", "two_optimizers", "masked_twice", "words_twice"}
ACCEPTED = [name for name in CASES if name not in REFUSED | SEVERAL]
