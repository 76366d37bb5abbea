# SPDX-License-Identifier: Apache-2.0
"""The cost of a private training step, compared with the plain step of this system and with Opacus.

One process per network and number of threads. In each round plain, private and Opacus steps take
turns; ratios are medians of the ratios of each round. Peak memory is that of a separate process
that runs a few steps. `tools/bench --privacy` calls this file; `tools/bench --analysis` calls it to
time the owner's work on a new program before it runs: analysis, rewrite, proof.

plain: the same step on an open table, with as many rows as the private step has slots.
Opacus: batches of exactly the expected size, so that Opacus pays nothing for hiding the batch's
size; the faster of its hooks and its ghost clipping. With noise: its secure mode's five Gaussians
per number, from torch's own generator instead of the slower secure one.
"""

import argparse
import json
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import time
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

OPT = pathlib.Path(__file__).resolve().parent.parent / "build/bin/sojourn-opt"
ANALYSIS_MS_MOST = 50  # of a program of 1,000 ops
ROUND_SECONDS = 0.3  # each variant runs about this long in one round
PLAIN_MOST = {"mlp": 1.3, "cnn": 1.3, "gpt": 2.0, "lstm": 2.0}
VOCABULARY, LENGTH = 65, 64


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        split = (batch, length, self.heads, width // self.heads)
        q, k, v = (part.reshape(split).transpose(1, 2) for part in self.qkv(self.before(x)).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.between(x))))


class Gpt(nn.Module):
    """4 blocks of width 128, 64 tokens of a vocabulary of 65."""

    def __init__(self, width=128, depth=4, heads=4):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, width), nn.Embedding(LENGTH, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, VOCABULARY)

    def forward(self, x):
        place = torch.arange(x.shape[1], device=x.device).expand(x.shape)
        return self.head(self.norm(self.blocks(self.tokens(x) + self.places(place))))


class Lstm(nn.Module):
    """Hidden size 128, 64 tokens of a vocabulary of 65. `cell`: nn.LSTM or Opacus' own."""

    def __init__(self, cell=nn.LSTM):
        super().__init__()
        self.tokens, self.cell = nn.Embedding(VOCABULARY, 64), cell(64, 128, batch_first=True)
        self.head = nn.Linear(128, VOCABULARY)

    def forward(self, x):
        return self.head(self.cell(self.tokens(x))[0])


def mlp():
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


def cnn():
    def stage(inner, outer):
        return [nn.Conv2d(inner, outer, 3, padding=1), nn.GroupNorm(4, outer), nn.ReLU(), nn.MaxPool2d(2)]

    return nn.Sequential(*stage(1, 16), *stage(16, 32), nn.Flatten(), nn.Linear(32 * 49, 10))


NETWORKS = {"mlp": mlp, "cnn": cnn, "gpt": Gpt, "lstm": Lstm}
TITLES = {
    "mlp": "MLP 784-512-512-10",
    "cnn": "CNN with GroupNorm, 28x28",
    "gpt": "GPT 4x128, 64 tokens",
    "lstm": "LSTM 128, 64 tokens",
}


def data(name):
    """Columns, their bounds, and the expected size of a batch."""
    generator = np.random.default_rng(0)
    if name in ("gpt", "lstm"):
        shape = (20_000, LENGTH)
        x, y = generator.integers(0, VOCABULARY, shape), generator.integers(0, VOCABULARY, shape)
        return {"x": x, "y": y}, {"x": (0, VOCABULARY - 1), "y": (0, VOCABULARY - 1)}, 16
    images = generator.random((60_000, 784) if name == "mlp" else (60_000, 1, 28, 28), dtype=np.float32)
    return {"x": images, "y": generator.integers(0, 10, 60_000)}, {"x": (0, 1), "y": (0, 9)}, 256


def loss_of(model, x, y):
    scores = model(x)
    return F.cross_entropy(scores.flatten(0, -2), y.flatten())


class Ours:
    """A step of this system; `size`: the size of its batches."""

    def __init__(self, name, size, is_private):
        import sojourn

        columns, bounds, _ = data(name)
        torch.manual_seed(0)
        self.owner = sojourn.local()
        table = self.owner.register("rows", columns, policy="private" if is_private else "open", bounds=bounds)
        if is_private:
            self.owner.grant("rows", epsilon=1000, delta=1e-6)
        model = NETWORKS[name]()
        optimizer = torch.optim.Adam(model.parameters())
        sojourn.to_owner(model, self.owner, optimizer)

        @sojourn.step
        def train(x, y):
            optimizer.zero_grad()
            loss_of(model, x, y).backward()
            optimizer.step()

        self.train, self.batches = train, iter(table.batches("x", label="y", size=size, epochs=1000))
        self.values = sum(p.numel() for p in model.parameters())

    def once(self):
        """Runs a step and returns the slots of the batch."""
        x, y = next(self.batches)
        self.train(x, y)
        return len(y)


class Opacus:
    """A step of Opacus on a batch of exactly `size` rows. `mode`: "hooks" or "ghost"."""

    def __init__(self, name, size, mode, noise):
        from opacus import GradSampleModule
        from opacus.grad_sample.grad_sample_module_fast_gradient_clipping import GradSampleModuleFastGradientClipping
        from opacus.layers import DPLSTM
        from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
        from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

        columns, _, _ = data(name)
        torch.manual_seed(0)
        self.x, self.y = (torch.as_tensor(columns[key][:size]) for key in ("x", "y"))
        model = Lstm(DPLSTM) if name == "lstm" else NETWORKS[name]()
        inner = torch.optim.Adam(model.parameters())
        settings = {
            "noise_multiplier": 1.0 if noise else 0.0,
            "max_grad_norm": 1.0,
            "expected_batch_size": size,
            "secure_mode": noise,
        }
        criterion = nn.CrossEntropyLoss(reduction="mean")
        if mode == "ghost":
            self.model = GradSampleModuleFastGradientClipping(model, max_grad_norm=1.0, use_ghost_clipping=True)
            self.optimizer = DPOptimizerFastGradientClipping(inner, **settings)
            self.loss = DPLossFastGradientClipping(self.model, self.optimizer, criterion, "mean")
        else:
            self.model, self.optimizer, self.loss = GradSampleModule(model), DPOptimizer(inner, **settings), criterion

    def once(self):
        self.optimizer.zero_grad()
        scores = self.model(self.x)
        if scores.dim() == 3 and isinstance(self.loss, nn.Module):
            loss = self.loss(scores.transpose(1, 2), self.y)
        elif scores.dim() == 3:
            loss = self.loss(scores.flatten(0, 1), self.y.flatten(), shape=scores.shape)
        else:
            loss = self.loss(scores, self.y)
        loss.backward()
        self.optimizer.step()
        return len(self.y)


def make(variant, name, size):
    kind, _, mode = variant.partition(" ")
    if kind == "opacus":
        return Opacus(name, size, mode.split()[0], noise="noise" in mode)
    return Ours(name, size, is_private=kind == "private")


def settle(variant):
    """Warms up, and returns the number of steps per round."""
    for _ in range(3):
        variant.once()
    begin = time.perf_counter()
    variant.once()
    return max(1, round(ROUND_SECONDS / (time.perf_counter() - begin)))


def timed(variant, repeats):
    """Median seconds of a step, and the seconds of these that the coins took."""
    import _sojourn

    times, coins = [], []
    for _ in range(repeats):
        before, begin = _sojourn.coin_seconds(), time.perf_counter()
        variant.once()
        times.append(time.perf_counter() - begin)
        coins.append(_sojourn.coin_seconds() - before)
    return statistics.median(times), statistics.median(coins)


def measure(name, rounds):
    columns, _, size = data(name)
    del columns
    variants = {"private": make("private", name, size)}
    slots = variants["private"].once()
    variants["plain"] = make("plain", name, slots)
    variants["plain at expected size"] = make("plain", name, size)
    remarks = []
    for mode in ("hooks", "ghost"):
        for noise in ("", " noise"):
            title = f"opacus {mode}{noise}"
            try:
                variants[title] = make(title, name, size)
                variants[title].once()
            except Exception as error:  # a mode that does not cover this network
                variants.pop(title, None)
                remarks.append(f"{TITLES[name]}: {title}: {type(error).__name__}: {str(error)[:120]}")
    repeats = {title: settle(variant) for title, variant in variants.items()}
    seconds: dict[str, list[float]] = {title: [] for title in [*variants, "private without noise"]}
    for _ in range(rounds):
        for title, variant in variants.items():
            whole, coins = timed(variant, repeats[title])
            seconds[title].append(whole)
            if title == "private":
                seconds["private without noise"].append(whole - coins)

    def ratio(a, b):
        return statistics.median(x / y for x, y in zip(seconds[a], seconds[b])) if b in seconds else None

    medians = {title: statistics.median(times) for title, times in seconds.items()}
    best = {}
    for noise in ("", " noise"):
        modes = [f"opacus {mode}{noise}" for mode in ("hooks", "ghost") if f"opacus {mode}{noise}" in medians]
        best[noise] = min(modes, key=medians.__getitem__) if modes else ""
    return {
        "network": TITLES[name],
        "expected": size,
        "slots": slots,
        "values": variants["private"].values,
        "aim": PLAIN_MOST[name],
        "ms": {title: 1e3 * time for title, time in medians.items()},
        "opacus": best[""],
        "ratios": {
            "private without noise/plain": ratio("private without noise", "plain"),
            "private/plain": ratio("private", "plain"),
            "slots/expected": ratio("plain", "plain at expected size"),
            "without noise/opacus": ratio("private without noise", best[""]),
            "with noise/opacus": ratio("private", best[" noise"]),
        },
        "remarks": remarks,
    }


def peak(name, variant, size):
    """Peak MiB of this process minus its memory before the variant was created."""
    import sojourn  # noqa: F401

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    columns, _, _ = data(name)
    own = sum(column.nbytes for column in columns.values()) / 2**20
    del columns
    made = make(variant, name, size)
    for _ in range(4):
        made.once()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return {"mib": grown, "table_mib": own}


def analysis(name, rounds):
    """Milliseconds of sojourn-make-private on the network's steady step: the median over `rounds` processes."""
    _, bounds, size = data(name)
    variant = Ours(name, size, is_private=True)
    for _ in range(3):  # the first ones bring weights and states along
        variant.once()
    program = max(pathlib.Path(os.environ["SOJOURN_DUMP"]).glob("*/04-core.mlir"))
    ops = sum(" = sojourn." in line or ' = "sojourn.' in line for line in program.read_text().splitlines())
    listed = ",".join(f"{column}={low}:{high}" for column, (low, high) in bounds.items())
    options = ["--mlir-timing", "--mlir-timing-display=list", "--mlir-disable-threading", "-o", os.devnull]
    times = []
    for _ in range(rounds):
        command = [str(OPT), str(program), f"--sojourn-make-private=bounds={listed}", *options]
        done = subprocess.run(command, capture_output=True, text=True)
        found = re.search(r"^\s*(\d+\.\d+) .*MakePrivate$", done.stderr, re.M)
        if done.returncode != 0 or found is None:
            sys.exit(f"bench: sojourn-opt on the {TITLES[name]} failed: {done.stderr[-2000:]}")
        times.append(1e3 * float(found[1]))
    middle = statistics.median(times)
    return {"network": TITLES[name], "ops": ops, "ms": middle, "ms_per_1000_ops": 1e3 * middle / ops}


def child(arguments, threads, dump=None):
    """Runs this file in a separate process. `dump`: a folder for the texts of programs."""
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads))
    environment.pop("SOJOURN_DUMP", None)
    if dump is not None:
        environment["SOJOURN_DUMP"] = str(dump)
    command = [sys.executable, __file__, *(str(argument) for argument in arguments)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"bench: {' '.join(command)} failed with exit code {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network", choices=NETWORKS)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--peak", metavar="VARIANT", help="measure the memory of one variant instead of times")
    parser.add_argument("--analysis", action="store_true", help="time the owner's work before a program runs")
    parser.add_argument("--size", type=int, default=0, help="rows of a batch, for --peak")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(arguments.threads)
    if arguments.peak:
        result = peak(arguments.network, arguments.peak, arguments.size)
    elif arguments.analysis:
        result = analysis(arguments.network, arguments.rounds)
    else:
        result = measure(arguments.network, arguments.rounds)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
