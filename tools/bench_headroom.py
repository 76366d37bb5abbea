# SPDX-License-Identifier: Apache-2.0
"""Measures what it costs that replies of steps on private rows are held back (owner/ReplyTime.h).

Two servers on one store's data, with `--headroom 0` and with the default, are asked in turn, step by step or message by
message, so that a change of the machine's load meets both. Medians in microseconds per step, their ratio, and the steps
that took longer than their time.
"""

import argparse
import functools
import pathlib
import statistics
import subprocess
import tempfile
import time

import numpy as np
import torch
import torch.nn.functional as F
from channel_attack import command
from torch import nn

import sojourn

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROWS, SIZE, FEATURES = 2048, 64, [f"x{k}" for k in range(30)]


class Server:
    """`sojourn-owner serve` with a private table, and a client that may train on it for long."""

    def __init__(self, folder: pathlib.Path, *options: str):
        folder.mkdir()
        generator = np.random.default_rng(1)
        columns: dict = {name: generator.uniform(-1, 1, ROWS) for name in FEATURES}
        columns["y"] = (columns["x0"] > columns["x1"]).astype(np.int64)
        np.savez(folder / "t.npz", **columns)
        store = ("--store", folder / "store")
        bounds = [f"--bound={name}=-1:1" for name in FEATURES] + ["--bound=y=0:1"]
        command("sojourn", "keygen", folder / "ada.key")
        command(
            "sojourn-owner",
            "import",
            folder / "t.npz",
            *store,
            "--name",
            "t",
            "--policy=private",
            "--rows-are-subjects",
            *bounds,
        )
        command("sojourn-owner", "client", "add", "ada", "--key", folder / "ada.key.pub", *store)
        for action in (("cap", "t"), ("grant", "ada", "t")):
            command("sojourn-owner", "budget", *action, *store, "--epsilon", 2.0**19, "--delta", 1e-5)
        address = f"ipc://{folder}/o.sock"
        self.log = (folder / "log").open("w+")
        words = [ROOT / "build/bin/sojourn-owner", "serve", *store, "--listen", address, *options]
        self.process = subprocess.Popen([str(word) for word in words], stdout=self.log, stderr=self.log)
        while "listening" not in (folder / "log").read_text():
            if self.process.poll() is not None:
                raise RuntimeError((folder / "log").read_text())
            time.sleep(0.01)
        self.owner = sojourn.connect(address, identity=str(folder / "ada.key"))
        self.table = self.owner.dataset("t")
        self.late = 0

    def trainer(self, publishes: bool):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(30, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 2)).to(self.owner.device)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

        @sojourn.step
        def train(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return sojourn.publish(loss.detach(), bound=2.0) if publishes else None

        return train

    def close(self):
        self.owner.close()
        self.process.terminate()
        self.process.wait()


def tried(server: Server, function, *arguments) -> None:
    """Counts a step that took longer than its time in `late`."""
    try:
        function(*arguments)
    except sojourn.Error as error:
        if "took longer" not in str(error):
            raise
        server.late += 1


def step_times(server: Server, publishes: bool, count: int):
    """Yields seconds of each step."""
    train = server.trainer(publishes)
    with sojourn.privacy(server.table, noise_multiplier=2.0, clip=1.0):
        batches = server.table.batches(FEATURES, label="y", size=SIZE, epochs=count * SIZE // ROWS + 2)
        for _, (x, y) in zip(range(count), batches):
            begin = time.perf_counter()
            tried(server, train, x, y)
            yield time.perf_counter() - begin


def loop_times(server: Server, publishes: bool, count: int):
    """Yields seconds per step of loops of some hundred steps, 64 in each message."""
    train, epochs = server.trainer(publishes), 20
    for _ in range(count // 100 + 2):
        begin = time.perf_counter()
        with sojourn.privacy(server.table, noise_multiplier=2.0, clip=1.0):
            batches = server.table.batches(FEATURES, label="y", size=SIZE, epochs=epochs)
            tried(server, functools.partial(sojourn.loop, per_trip=64), train, batches)
        yield (time.perf_counter() - begin) / (epochs * ROWS // SIZE)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=400, help="steps of each kind and server, default 400")
    parser.add_argument("--headroom", default="2", help="of the second server, default 2")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        servers = [
            Server(folder / "open", "--headroom", "0"),
            Server(folder / "held", "--headroom", arguments.headroom, "--overrun-bits", "0"),
        ]
        print("| step | at once, us | held back, us | ratio | took longer |\n|---|---|---|---|---|")
        for title, times, publishes in (
            ("publishes", step_times, True),
            ("publishes nothing", step_times, False),
            ("loop of 64, publishes", loop_times, True),
            ("loop of 64, publishes nothing", loop_times, False),
        ):
            late = servers[1].late
            runs = [times(server, publishes, arguments.steps) for server in servers]
            seconds = [list(part) for part in zip(*zip(*runs))]  # in turn
            first, second = (1e6 * statistics.median(part[1 + len(part) // 10 :]) for part in seconds)
            print(
                f"| {title} | {first:.0f} | {second:.0f} | {second / first:.2f} | {servers[1].late - late} of {len(seconds[1])} |",
                flush=True,
            )
        for server in servers:
            server.close()


if __name__ == "__main__":
    main()
