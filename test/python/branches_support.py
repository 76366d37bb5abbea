# SPDX-License-Identifier: Apache-2.0
"""A network of three branches over several tensors of one draw, and its step of training."""

import torch
import torch.nn.functional as F
from torch import nn


class Branches(nn.Module):
    """An image, a code and a row of columns, joined by a head. `image`: channels, height and width."""

    def __init__(self, image, codes, columns, classes):
        super().__init__()
        channels, height, width = image
        size = 3 * (height - 2) * (width - 2)
        self.image = nn.Sequential(nn.Conv2d(channels, 3, 3), nn.Tanh(), nn.Flatten(), nn.Linear(size, 4))
        self.row = nn.Sequential(nn.Linear(columns, 4), nn.LayerNorm(4), nn.Tanh())
        self.code = nn.Embedding(codes, 2)
        self.head = nn.Linear(10, classes)

    def forward(self, batch):
        image = batch["image"] if batch["image"].is_floating_point() else batch["image"].float() / 255
        return self.head(torch.cat([self.image(image), self.row(batch["row"]), self.code(batch["code"])], 1))


def scaling(model, scaled):
    """The network on a batch of which `scaled` scales the row of columns."""
    return lambda batch: model({**batch, "row": scaled(batch["row"])})


def stepper(forward, optimizer, publish):
    """A step of training, which returns what `publish` makes of the loss."""

    def train(batch, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(forward(batch), y)
        loss.backward()
        optimizer.step()
        return publish(loss.detach())

    return train
