# SPDX-License-Identifier: Apache-2.0
"""Many groups over the same three served owners, in all their orders, beside one group: part of `tools/bench --parties`.

Clients are processes with up to 13 groups each, which take their steps at the same time.
"""

import itertools
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "build/python"))

from members import Members

import sojourn

ROWS, FEATURES = 400, [f"x{k}" for k in range(32)]
#: Groups of each client process, steps of each group, seconds until all have begun.
ONE, MANY = ([1], 400, 10.0), ([13, 13, 13, 13, 12], 40, 60.0)


def columns(seed: int) -> dict[str, torch.Tensor]:
    x = torch.randn(ROWS, 32, generator=torch.Generator().manual_seed(seed))
    return {name: x[:, at] for at, name in enumerate(FEATURES)} | {"y": (x.sum(1) > 0).long()}


def training(model: nn.Module):
    """A step of SGD on a batch of rows and labels; returns the loss."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    @sojourn.step(replay=True)
    def train(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return train


def trainer(group: sojourn.Parties):
    """Takes one step and returns its seconds."""
    train = training(nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 2)).to(group.device))
    batches = iter(group.rows("t").batches(FEATURES, label="y", size=64, epochs=10_000, drop_last=True))

    def take() -> float:
        x, y = next(batches)
        begin = time.perf_counter()
        train(x, y)
        return time.perf_counter() - begin

    return take


def run_client(addresses: list[str], groups: int, steps: int, start: float) -> dict:
    """Seconds of each step, and from the first to the last one. All groups begin at `start`, of the clock."""
    torch.set_num_threads(1)
    owners = [sojourn.connect(address) for address in addresses]
    orders = list(itertools.permutations(owners))
    ready = threading.Barrier(groups + 1)
    times: list[float] = []

    def work(number: int) -> None:
        take = trainer(sojourn.parties(*orders[number % len(orders)]))
        for _ in range(4):  # traced, then replayed
            take()
        ready.wait()
        ready.wait()
        times.extend([take() for _ in range(steps)])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(groups)]
    for thread in threads:
        thread.start()
    ready.wait()
    late = time.time() - start
    time.sleep(max(0.0, -late))
    begin = time.perf_counter()
    ready.wait()
    for thread in threads:
        thread.join()
    return {"times": times, "seconds": time.perf_counter() - begin, "late": late}


def measure() -> list[dict]:
    found = []
    with (
        tempfile.TemporaryDirectory(prefix="sojourn-bench-") as folder,
        Members(pathlib.Path(folder), [columns(at) for at in range(3)], "t") as members,
    ):
        for groups, steps, lead in (ONE, MANY):
            start = time.time() + lead
            command = [sys.executable, __file__, json.dumps(members.addresses)]
            clients = [
                subprocess.Popen([*command, str(count), str(steps), str(start)], stdout=subprocess.PIPE, text=True)
                for count in groups
            ]
            reports = [json.loads(client.communicate()[0]) for client in clients]
            if any(report["late"] > 0 for report in reports):
                raise SystemExit(f"bench: clients needed more than {lead} s to begin")
            times = sorted(itertools.chain.from_iterable(report["times"] for report in reports))
            found.append(
                {
                    "groups": sum(groups),
                    "steps_per_second": len(times) / max(report["seconds"] for report in reports),
                    "median_ms": 1e3 * statistics.median(times),
                    "p99_ms": 1e3 * times[int(0.99 * (len(times) - 1))],
                    "most_ms": 1e3 * times[-1],
                }
            )
    return found


if __name__ == "__main__":
    addresses, groups, steps, start = sys.argv[1:]
    print(json.dumps(run_client(json.loads(addresses), int(groups), int(steps), float(start))))
