# SPDX-License-Identifier: Apache-2.0
"""Steps of a group of owners beside steps of single owners: `tools/bench --parties`.

First, members in this process, each with a thread, beside one owner with all rows on the same cores. Then, members as
servers with links over ipc, beside the same servers' steps on their own rows, taken at the same time.
"""

import pathlib
import statistics
import sys
import tempfile
import time

import torch
from rich.console import Console
from rich.table import Table
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "build/python"))

from members import Members

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


SERVED = (2, 3, 5)


class ServedSides:
    """Members as servers: the joint step, in the clear and under masks, and a step of each on its rows, all in one
    message to each."""

    def __init__(self, network, size: int, members: int, folder: pathlib.Path):
        self.served = Members(folder, [columns(ROWS // members, at) for at in range(members)], "t")
        self.owners = [sojourn.connect(address) for address in self.served.addresses]
        self.group = sojourn.parties(*self.owners)
        self.groups = [self.group]
        torch.manual_seed(0)
        self.steps = {"joint": self._step([(network().to(self.group.device), self.group.rows("t"))], size)}
        if members > 2:
            masked = sojourn.parties(*self.owners, sums="masked")
            self.groups.append(masked)
            self.steps["masked"] = self._step([(network().to(masked.device), masked.rows("t"))], size)
        own = [(network().to(owner.device), owner.dataset("t")) for owner in self.owners]
        self.steps["own"] = self._step(own, max(1, size // members))
        self.taken: dict[str, list[float]] = {kind: [] for kind in self.steps}
        self.between = dict.fromkeys(self.steps, 0)
        for _ in range(6):
            for take in self.steps.values():
                take()

    def round(self) -> None:
        for kind, take in self.steps.items():
            before = self.served.bytes_between()
            self.taken[kind].append(take())
            self.between[kind] += self.served.bytes_between() - before

    @staticmethod
    def _step(places, size: int):
        models = [model for model, _ in places]
        optimizers = [torch.optim.SGD(model.parameters(), lr=0.01) for model in models]

        @sojourn.step(replay=True)
        def train(*batches):
            losses = []
            for (x, y), model, optimizer in zip(batches, models, optimizers):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                losses.append(loss)
            return losses

        drawn = [
            iter(table.batches(FEATURES, label="y", size=size, epochs=10_000, drop_last=True)) for _, table in places
        ]

        def take() -> float:
            batches = [next(each) for each in drawn]
            begin = time.perf_counter()
            train(*batches)
            return time.perf_counter() - begin

        return take

    def close(self):
        for each in [*self.groups, *self.owners]:
            each.close()
        self.served.close()


def measure_served(rounds: int) -> list[dict]:
    """Medians and ratios of paired rounds, each network and number of members by itself."""
    torch.set_num_threads(1)
    cases = []
    for name, (network, size) in NETWORKS.items():
        for members in SERVED:
            with tempfile.TemporaryDirectory(prefix="sojourn-bench-") as folder:
                sides = ServedSides(network, size, members, pathlib.Path(folder))
                up = sides.group.counters()["bytes_up"]
                for _ in range(rounds):
                    sides.round()
                joint, own, masked = sides.taken["joint"], sides.taken["own"], sides.taken.get("masked", [])
                cases.append(
                    {
                        "network": name,
                        "members": members,
                        "joint_us": 1e6 * statistics.median(joint),
                        "own_us": 1e6 * statistics.median(own),
                        "p99_us": 1e6 * sorted(joint)[int(0.99 * (len(joint) - 1))],
                        "ratio": statistics.median(a / b for a, b in zip(joint, own)),
                        "bytes_up": (sides.group.counters()["bytes_up"] - up) / rounds / members,
                        "bytes_between": sides.between["joint"] / rounds,
                        "masked_us": 1e6 * statistics.median(masked) if masked else None,
                        "masked_ratio": statistics.median(a / b for a, b in zip(masked, own)) if masked else None,
                        "masked_bytes": sides.between["masked"] / rounds if masked else None,
                        "numbers": sum(p.numel() for p in network().parameters()),
                    }
                )
                sides.close()
    return cases


def show_served(cases: list[dict]) -> None:
    table = Table(title="replayed training step of served owners (medians of paired rounds)")
    titles = ("network", "owners", "joint us", "p99", "own rows us", "joint/own", "up to each, B", "between, B")
    for title in (*titles, "masked us", "masked/own", "between, B"):
        table.add_column(title, justify="left" if title == "network" else "right")
    for case in cases:
        table.add_row(
            case["network"],
            str(case["members"]),
            f"{case['joint_us']:.0f}",
            f"{case['p99_us']:.0f}",
            f"{case['own_us']:.0f}",
            f"{case['ratio']:.2f}",
            f"{case['bytes_up']:.0f}",
            f"{case['bytes_between']:.0f}",
            *(
                f"{case[key]:{form}}" if case[key] is not None else "-"
                for key, form in (("masked_us", ".0f"), ("masked_ratio", ".2f"), ("masked_bytes", ".0f"))
            ),
        )
    console.print(table)


def show_groups(cases: list[dict]) -> None:
    table = Table(title="groups over the same three served owners, in all orders, small MLP, b 64")
    for title in ("groups", "steps per second", "median ms", "p99 ms", "most ms"):
        table.add_column(title, justify="right")
    for case in cases:
        numbers = (case["median_ms"], case["p99_ms"], case["most_ms"])
        table.add_row(str(case["groups"]), f"{case['steps_per_second']:.0f}", *(f"{number:.1f}" for number in numbers))
    console.print(table)
