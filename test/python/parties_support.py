# SPDX-License-Identifier: Apache-2.0
"""Tables of hospitals, and a model that trains over them: for tests of groups of owners."""

import torch
from torch import nn

import sojourn

COLUMNS = ["age", "dose", "pulse"]


def columns(rows: int, rng) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(rng.randrange(2**31))
    table = {name: (torch.randn(rows, generator=generator) * 2 + 1).clamp(-8, 8) for name in COLUMNS}
    table["image"] = torch.randint(0, 255, (rows, 4, 4), generator=generator, dtype=torch.uint8)
    table["relapse"] = torch.randint(0, 2, (rows,), generator=generator)
    return table


class Hospitals:
    """Some owners with a table each, shared on a level, and the same tables as plain ones."""

    def __init__(self, rows, rng, share="clear"):
        self.data = [columns(count, rng) for count in rows]
        self.owners = [sojourn.local() for _ in rows]
        for owner, table in zip(self.owners, self.data):
            owner.register("patients", table, policy="open", bounds={"age": (-9, 9), "dose": (-20, 9)})
        if share:
            self.share(share)
        self.parties = sojourn.parties(*self.owners)
        self.table = self.parties.rows("patients")
        plain = [
            sojourn.plain(table, name="patients", bounds={"age": (-9, 9), "dose": (-20, 9)}) for table in self.data
        ]
        self.pooled = sojourn.pooled(*plain)

    def share(self, level):
        for owner in self.owners:
            owner.share("patients", [other for other in self.owners if other is not owner], level)

    def all(self, column: str) -> torch.Tensor:
        return torch.cat([table[column] for table in self.data])

    def close(self):
        for each in [self.parties, *self.owners]:
            each.close()


def made_hospitals(rng, counts: range, **defaults):
    """For a fixture: makes `Hospitals` of these numbers of rows, or of three random ones, and closes them."""
    made = []

    def make(*rows, **options):
        made.append(Hospitals(rows or [rng.choice(counts) for _ in range(3)], rng, **{**defaults, **options}))
        return made[-1]

    yield make
    for each in made:
        each.close()


def network(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 2))


def trained(
    table, device, seed: int, steps=sojourn.step, make=torch.optim.Adam, epochs=2, size=24, model=network, drop=False
):
    net = (model if isinstance(model, nn.Module) else model(seed)).to(device)
    optimizer = make(net.parameters(), lr=0.05)
    losses = []

    @steps
    def train(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    for x, y in table.batches(COLUMNS, label="relapse", size=size, epochs=epochs, seed=seed, drop_last=drop):
        losses.append(train(x, y))
    return net, losses


def plain_step(function):
    return function


def close(found, expected, tolerance=2e-5):
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
