# SPDX-License-Identifier: Apache-2.0
"""Steps of a group of owners beside steps of one owner with all rows: `tools/bench --parties`.

The members are owners of this process, each with a thread of its own, on the cores that the one owner has, too.
"""

import pathlib
import statistics
import sys
import time

import torch
from rich.console import Console
from rich.table import Table
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "build/python"))

import sojourn

console = Console(width=140)
ROWS = 4_096
FEATURES = [f"x{k}" for k in range(32)]
#: Network, batch.
NETWORKS = {
    "linear, b 64": (lambda: nn.Linear(32, 2), 64),
    "MLP 32-256-2, b 256": (lambda: nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 2)), 256),
    "MLP 32-512-512-2, b 1024": (
        lambda: nn.Sequential(nn.Linear(32, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 2)),
        1024,
    ),
}


def columns(rows: int, seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 32, generator=generator)
    return {name: x[:, at] for at, name in enumerate(FEATURES)} | {"y": (x.sum(1) > 0).long()}


class Side:
    """One way to take the steps: a device, a table, a model and a replayed step."""

    def __init__(self, network, size: int, members: int):
        owners = [sojourn.local() for _ in range(members)]
        for at, owner in enumerate(owners):
            owner.register("t", columns(ROWS // members, at), policy="open")
            if members > 1:
                owner.share("t", [other for other in owners if other is not owner])
        group = sojourn.parties(*owners) if members > 1 else None
        self.place = group or owners[0]
        self.owners = owners
        torch.manual_seed(0)
        self.model = network().to(self.place.device)
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

        @sojourn.step(replay=True)
        def train(x, y):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(self.model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        self.train = train
        table = group.rows("t") if group else owners[0].dataset("t")
        batches = table.batches(FEATURES, label="y", size=size, epochs=10_000, drop_last=True)
        self.batches = iter(batches)
        for _ in range(6):  # traced, then replayed
            self.step()

    def step(self) -> float:
        x, y = next(self.batches)
        begin = time.perf_counter()
        self.train(x, y)
        return time.perf_counter() - begin

    def close(self):
        for each in {id(each): each for each in [self.place, *self.owners]}.values():
            each.close()


def measure(rounds: int, threads: int) -> list[dict]:
    """Medians and ratios of paired rounds, each network by itself."""
    torch.set_num_threads(threads)
    cases = []
    for name, (network, size) in NETWORKS.items():
        sides = {f"{members} owners": Side(network, size, members) for members in (1, 2, 3)}
        before = {side: made.place.counters()["bytes_up"] for side, made in sides.items()}
        taken: dict[str, list[float]] = {side: [] for side in sides}
        for _ in range(rounds):
            for side, made in sides.items():
                taken[side].append(made.step())
        one = taken["1 owners"]
        cases.append(
            {
                "network": name,
                "us": {side: 1e6 * statistics.median(times) for side, times in taken.items()},
                "ratios": {
                    side: statistics.median(own / single for own, single in zip(times, one))
                    for side, times in taken.items()
                },
                "bytes_up": {
                    side: (made.place.counters()["bytes_up"] - before[side]) / rounds for side, made in sides.items()
                },
            }
        )
        for made in sides.values():
            made.close()
    return cases


def show(cases: list[dict]) -> None:
    table = Table(title="replayed training step of a group in one process (medians of paired rounds)")
    table.add_column("network")
    for members in (1, 2, 3):
        table.add_column(f"{members} owner{'s' if members > 1 else ''} us", justify="right")
    for members in (2, 3):
        table.add_column(f"{members}/1", justify="right")
    table.add_column("bytes sent, 3 owners", justify="right")
    for case in cases:
        table.add_row(
            case["network"],
            *(f"{value:.0f}" for value in case["us"].values()),
            *(f"{value:.2f}" for side, value in case["ratios"].items() if side != "1 owners"),
            f"{case['bytes_up']['3 owners']:.0f}",
        )
    console.print(table)
