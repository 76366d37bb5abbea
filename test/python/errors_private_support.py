# SPDX-License-Identifier: Apache-2.0
"""Refusals of private tables: what cannot be proved to be private, and the way out."""

import torch
import torch.nn.functional as F
from errors_support import example

import sojourn
from sojourn import Error, Refused


@example(
    Refused, "A value per row", "a value per row of private data is published", "mean, sum", "published at example.py:1"
)
def _(funded):
    sojourn.publish(funded["age"], epsilon=0.1)


@example(Refused, "The largest value", "'reduce_max' is taken over rows", "their extrema have none")
def _(funded):
    sojourn.publish(funded["age"].max(), epsilon=0.1)


@example(Refused, "A median", "runs along rows", "their order has none")
def _(funded):
    sojourn.publish(funded["age"].median(), epsilon=0.1)


@example(Refused, "Distances from the mean", "meet a value that was summed over rows", "publish that sum first")
def _(funded):
    age = funded["age"].double()
    sojourn.publish((age - age.mean()).abs().mean(), epsilon=0.1)


@example(Refused, "A single row", "takes a single row out of the batch")
def _(funded):
    sojourn.publish(funded["age"][3], epsilon=0.1)


@example(Refused, "Some of the rows", "takes a part of the dim that holds rows")
def _(funded):
    x = funded.rows(["age", "dose"]).reshape(-1)
    sojourn.publish(x[:11].sum(), epsilon=0.1)


@example(Refused, "The order of rows", "turns the order of rows round")
def _(funded):
    sojourn.publish((funded["age"].flip(0) * funded["age"]).sum(), epsilon=0.1)


@example(Refused, "Rows beside rows", "operands have their rows in different places")
def _(funded):
    age = funded["age"]
    sojourn.publish((age[:, None] - age[None, :]).abs().sum(), epsilon=0.1)


@example(Refused, "Products of rows", "each row meets other rows of the batch", "cannot be trained privately")
def _(funded):
    x = funded.rows(["age", "dose"])
    sojourn.publish((x @ x.mT).exp().sum(), epsilon=0.1)


@example(Refused, "Rows by number", "rows of the batch by number")
def _(funded, device):
    numbers = torch.tensor([0, 5, 9], device=device)
    sojourn.publish(funded["age"][numbers].sum(), epsilon=0.1)


@example(Refused, "Rows that are padded", "pads the dim that holds rows")
def _(funded):
    sojourn.publish(F.pad(funded["dose"], (1, 1)).sum(), epsilon=0.1)


@example(Refused, "Rows one after another", "puts batches of rows one after another", "a step of its own")
def _(funded):
    sojourn.publish(torch.cat([funded["age"], funded["age"]]).sum(), epsilon=0.1)


@example(Refused, "Rows written over", "writes a part of the dim that holds rows")
def _(funded):
    dose = funded["dose"].clone()
    dose[:10] = 0.0
    sojourn.publish(dose.sum(), epsilon=0.1)


@example(Refused, "Rows in one matrix", "for those of a matrix")
def _(funded):
    x = funded.rows(["age", "dose"]).double()[None].mT
    sojourn.publish(torch.linalg.cholesky(x.expand(96, 2, 96)[:, :, :2]).sum(), epsilon=0.1)


@example(Refused, "Pooling over rows", "over the dim that holds rows")
def _(funded):
    sojourn.publish(F.max_pool1d(funded["dose"][None, None], 2).sum(), epsilon=0.1)


@example(Refused, "A filter that is made of rows", "the weight of a convolution depends on rows")
def _(funded, device):
    signal = torch.ones(1, 1, 200, dtype=torch.float64, device=device)
    sojourn.publish(F.conv1d(signal, funded["dose"][None, None]).sum(), epsilon=0.1)


@example(Refused, "A convolution along rows", "rows are not the batch dim of a convolution")
def _(funded, device):
    weight = torch.ones(1, 1, 3, dtype=torch.float64, device=device)
    sojourn.publish(F.conv1d(funded["dose"][None, None], weight).sum(), epsilon=0.1)


@example(Refused, "Rows chosen by rows", "by rows")
def _(funded):
    sojourn.publish(funded["dose"][funded["ill"]].sum(), epsilon=0.1)


@example(Refused, "Places chosen by rows", "reads or writes along rows")
def _(funded):
    sojourn.publish(funded["dose"].gather(0, funded["age"]).sum(), epsilon=0.1)


@example(Refused, "Rows that write over each other", "rows write over each other")
def _(funded, device):
    total = torch.zeros(2, dtype=torch.float64, device=device)
    sojourn.publish(total.index_put((funded["ill"],), funded["dose"]), epsilon=0.1)


@example(Refused, "Rows that are added onto something", "rows are added onto something else than zeros")
def _(funded, device):
    total = torch.ones(2, dtype=torch.float64, device=device)
    sojourn.publish(total.index_add(0, funded["ill"], funded["dose"]), epsilon=0.1)


@example(Refused, "Rows that are written by number", "writes rows of the batch by number")
def _(funded, device):
    numbers = torch.tensor([0, 5, 9], device=device)
    dose = funded["dose"].index_copy(0, numbers, torch.zeros(3, dtype=torch.float64, device=device))
    sojourn.publish(dose.sum(), epsilon=0.1)


@example(Refused, "Rows over several dims", "rows are spread over several dims of an operand")
def _(funded, device):
    x = funded["dose"].reshape(8, 12)
    sojourn.publish((x + x.sum(0)).abs().sum(), epsilon=0.1)


@example(
    Refused, "Batch normalization", "meet a value that was summed over rows", "GroupNorm, LayerNorm", "example.py:7"
)
def _(funded, device):
    model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with sojourn.privacy(funded, noise_multiplier=1.0):
        for x, y in funded.batches(["age", "dose"], label="ill", size=16):
            with sojourn.step():
                F.cross_entropy(model(x), y).backward()
                optimizer.step()


@example(Refused, "A loss that compares rows with each other", "rows")
def _(funded, model, optimizer):
    with sojourn.privacy(funded, noise_multiplier=1.0):
        for x, y in funded.batches(["age", "dose"], label="ill", size=16):
            with sojourn.step():
                out = model(x)
                labels = torch.arange(len(out), device=out.device)
                F.cross_entropy(out @ out.mT, labels).backward()
                optimizer.step()


@example(Refused, "A running sum that nobody trains", "publish it inside of the step, and add up what was published")
def _(funded, device):
    total = torch.zeros((), device=device)
    sojourn.flush()
    with sojourn.privacy(funded, noise_multiplier=1.0):
        for x in funded.batches(["dose"], size=16):
            with sojourn.step():
                total += x.mean()


@example(Refused, "Two draws in one value", "operands hold different draws of rows")
def _(funded):
    first, second = (next(iter(funded.batches(["dose"], size=16))) for _ in range(2))
    with sojourn.privacy(funded, noise_multiplier=1.0), sojourn.step():
        sojourn.publish((first * second).sum(), bound=1.0)


@example(Refused, "Matrix products of less precision than float32", "less precision than float32", '"highest"')
def _(funded):
    torch.set_float32_matmul_precision("medium")
    try:
        sojourn.publish(funded["dose"].mean(), epsilon=0.1)
    finally:
        torch.set_float32_matmul_precision("highest")


@example(Error, "Batches of a private table in their order", "drawn at the owner, at random; leave out shuffle=False")
def _(patients):
    patients.batches(["age"], size=8, shuffle=False)
