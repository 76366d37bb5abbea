# SPDX-License-Identifier: Apache-2.0
"""Refusals of private tables: values that cannot be proved private, and the way out."""

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


@example(Refused, "A maximum", "'reduce_max' is taken over rows", "their extrema have none")
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


@example(Refused, "Some of the rows", "takes a part of a dim that holds rows")
def _(funded):
    x = funded.rows(["age", "dose"]).reshape(-1)
    sojourn.publish(x[:11].sum(), epsilon=0.1)


@example(Refused, "The order of rows", "reverses the order of rows")
def _(funded):
    sojourn.publish((funded["age"].flip(0) * funded["age"]).sum(), epsilon=0.1)


@example(Refused, "Pairs of rows", "operands have their rows in different places")
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


@example(Refused, "Padded rows", "pads the dim that holds rows")
def _(funded):
    sojourn.publish(F.pad(funded["dose"], (1, 1)).sum(), epsilon=0.1)


@example(Refused, "Concatenated rows", "concatenates batches of rows", "a separate step")
def _(funded):
    sojourn.publish(torch.cat([funded["age"], funded["age"]]).sum(), epsilon=0.1)


@example(Refused, "Overwritten rows", "writes a part of the dim that holds rows")
def _(funded):
    dose = funded["dose"].clone()
    dose[:10] = 0.0
    sojourn.publish(dose.sum(), epsilon=0.1)


@example(Refused, "Rows in one matrix", "as the rows of a matrix")
def _(funded):
    x = funded.rows(["age", "dose"]).double()[None].mT
    sojourn.publish(torch.linalg.cholesky(x.expand(96, 2, 96)[:, :, :2]).sum(), epsilon=0.1)


@example(Refused, "Pooling over rows", "over the dim that holds rows")
def _(funded):
    sojourn.publish(F.max_pool1d(funded["dose"][None, None], 2).sum(), epsilon=0.1)


@example(Refused, "A convolution filter made of rows", "the weight of a convolution depends on rows")
def _(funded, device):
    signal = torch.ones(1, 1, 200, dtype=torch.float64, device=device)
    sojourn.publish(F.conv1d(signal, funded["dose"][None, None]).sum(), epsilon=0.1)


@example(Refused, "A convolution along rows", "rows are not the batch dim of a convolution")
def _(funded, device):
    weight = torch.ones(1, 1, 3, dtype=torch.float64, device=device)
    sojourn.publish(F.conv1d(funded["dose"][None, None], weight).sum(), epsilon=0.1)


@example(Refused, "Rows chosen by rows", "chooses rows by values of rows")
def _(funded):
    sojourn.publish(funded["dose"][funded["ill"]].sum(), epsilon=0.1)


@example(Refused, "Positions chosen by rows", "reads or writes along rows")
def _(funded):
    sojourn.publish(funded["dose"].gather(0, funded["age"]).sum(), epsilon=0.1)


@example(Refused, "Rows that overwrite each other", "rows overwrite each other")
def _(funded, device):
    total = torch.zeros(2, dtype=torch.float64, device=device)
    sojourn.publish(total.index_put((funded["ill"],), funded["dose"]), epsilon=0.1)


@example(Refused, "Rows added to a value other than zeros", "adds rows onto values other than zeros")
def _(funded, device):
    total = torch.ones(2, dtype=torch.float64, device=device)
    sojourn.publish(total.index_add(0, funded["ill"], funded["dose"]), epsilon=0.1)


@example(Refused, "Rows written by number", "writes rows of the batch by number")
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


@example(Refused, "A loss that compares rows", "rows")
def _(funded, model, optimizer):
    with sojourn.privacy(funded, noise_multiplier=1.0):
        for x, y in funded.batches(["age", "dose"], label="ill", size=16):
            with sojourn.step():
                out = model(x)
                labels = torch.arange(len(out), device=out.device)
                F.cross_entropy(out @ out.mT, labels).backward()
                optimizer.step()


@example(Refused, "A running sum over steps", "publish the sum inside the step, and add up the published values")
def _(funded, device):
    total = torch.zeros((), device=device)
    sojourn.flush()
    with sojourn.privacy(funded, noise_multiplier=1.0):
        for x in funded.batches(["dose"], size=16):
            with sojourn.step():
                total += x.mean()


@example(Refused, "Two draws in one value", "operands hold different draws of rows", "one batch")
def _(funded):
    first, second = (next(iter(funded.batches(["dose"], size=16))) for _ in range(2))
    with sojourn.privacy(funded, noise_multiplier=1.0), sojourn.step():
        sojourn.publish((first * second).sum(), bound=1.0)


@example(Refused, "Matrix products below float32 precision", "less precision than float32", '"highest"')
def _(funded):
    torch.set_float32_matmul_precision("medium")
    try:
        sojourn.publish(funded["dose"].mean(), epsilon=0.1)
    finally:
        torch.set_float32_matmul_precision("highest")


@example(
    Error, "Unshuffled batches of a private table", "the owner draws its batches at random; leave out shuffle=False"
)
def _(patients):
    patients.batches(["age"], size=8, shuffle=False)
