# SPDX-License-Identifier: Apache-2.0
"""Steps compiled without data, and the files they are stored in: what the tests of ahead-of-time programs share."""

import hashlib

import torch
import torch.nn.functional as F
from torch import nn

import sojourn

STEPS = 20
CHECKSUM_BYTES = 32


def stamped(content: bytes) -> bytes:
    """What is stored in a file: the content and its checksum."""
    return bytes(content) + hashlib.blake2b(content, digest_size=CHECKSUM_BYTES).digest()


def changed_bits(content: bytes, dice, count: int):
    """Files with one bit of their content changed and the checksum made anew: nothing but their meaning is wrong."""
    for _ in range(count):
        position = dice.randrange(len(content))
        changed = bytearray(content)
        changed[position] ^= 1 << dice.randrange(8)
        yield stamped(changed)


class Device:
    """What `to_owner` asks an owner for."""

    def __init__(self, device):
        self.device = device


def network(sizes, state=None):
    model = nn.Sequential(nn.Linear(sizes[1], sizes[2]), nn.ReLU(), nn.Linear(sizes[2], sizes[3])).double()
    if state is not None:
        model.load_state_dict(state)
    return model


OPTIMIZERS = {
    "sgd-momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01, capturable=True),
    "schedule": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, foreach=False),
}


def train(model, optimizer, x, y, rate):
    if rate is not None:
        for group in optimizer.param_groups:
            group["lr"] = rate
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


def rates(kind):
    return [0.1 * 0.9**i for i in range(STEPS)] if kind == "schedule" else [None] * STEPS


def compiled(kind, sizes, state):
    kept = {}

    def init():
        model = network(sizes, state)
        optimizer = OPTIMIZERS[kind](model.parameters())
        kept.update(model=sojourn.to_owner(model, Device(device), optimizer), optimizer=optimizer)

    def step(x, y, rate=None):
        loss = train(kept["model"], kept["optimizer"], x, y, rate)
        return {"loss": loss, "parameters": list(kept["model"].parameters())}

    inputs = [sojourn.spec((sizes[0], sizes[1]), torch.float64), sojourn.spec((sizes[0],), torch.int64)]
    if kind == "schedule":
        inputs.append(sojourn.number())
    with sojourn.offline() as device:
        return sojourn.compile(step, init=init, inputs=inputs)


def batches(kind, sizes, generator):
    for rate in rates(kind):
        x = torch.randn(sizes[0], sizes[1], generator=generator, dtype=torch.float64)
        y = torch.randint(sizes[3], (sizes[0],), generator=generator)
        yield (x, y) if rate is None else (x, y, rate)
