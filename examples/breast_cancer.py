# SPDX-License-Identifier: Apache-2.0
"""Trains a small classifier on the Wisconsin breast-cancer table, wherever the table is.

    python examples/breast_cancer.py                             # on plain CPU tensors
    python examples/breast_cancer.py --owner local               # at an owner inside this process
    python examples/breast_cancer.py --owner ipc:///run/o.sock   # at a `sojourn-owner serve`

`train` and `evaluate` are the same lines in all three cases. `tools/demo` runs and compares them.
"""

import argparse
import json
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn
from tqdm import tqdm

import sojourn

NAME, LABEL = "breast-cancer", "malignant"


def source():
    """The table as its owner has it: 569 rows, 30 measures and the diagnosis; and its bounds."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    arrays = {name.replace(" ", "_"): data.data[:, k].copy() for k, name in enumerate(data.feature_names)}
    # What anybody may know of such a measure: a power of two above all plausible values.
    bounds = {name: (0.0, 2.0 ** max(0, int(values.max())).bit_length()) for name, values in arrays.items()}
    arrays[LABEL] = (data.target == 0).astype("int64")
    bounds[LABEL] = (0.0, 1.0)
    return arrays, bounds


def open_table(where):
    """The table, and its owner (None on plain CPU tensors)."""
    if where == "none":
        arrays, bounds = source()
        return sojourn.plain(arrays, name=NAME, bounds=bounds), None
    if where == "local":
        owner = sojourn.local()
        arrays, bounds = source()
        owner.register(NAME, arrays, policy="open", bounds=bounds)
    else:
        owner = sojourn.connect(where)
    return owner.dataset(NAME), owner


def train(table, owner, epochs, size, seed):
    """Standardises the features, trains, and measures; returns what `main` reports."""
    features = [column.name for column in table.columns if column.name != LABEL]
    train_rows, test_rows = table.split(0.8, seed=seed)

    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(len(features), 64), nn.ReLU(), nn.Linear(64, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    sojourn.to_owner(model, owner, optimizer)

    with sojourn.step():
        whole = train_rows.rows(features)
        mean, deviation = whole.mean(0), whole.std(0)

    @sojourn.step
    def train_step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model((x - mean) / deviation), y)
        loss.backward()
        optimizer.step()
        return sojourn.publish(loss.detach())

    @sojourn.step
    def evaluate():
        with torch.no_grad():
            scores = model((test_rows.rows(features) - mean) / deviation)
            return sojourn.publish((scores.argmax(1) == test_rows[LABEL]).double().mean())

    batches = train_rows.batches(features, label=LABEL, size=size, epochs=epochs, seed=seed)
    losses, marks = [], []
    for x, y in tqdm(batches, desc=f"training {'on the CPU' if owner is None else 'at the owner'}", unit="step"):
        if len(losses) % batches.per_epoch == 0:
            marks.append((time.perf_counter(), sojourn.counters()))
        losses.append((train_step(x, y), len(y)))
    marks.append((time.perf_counter(), sojourn.counters()))

    accuracy = float(evaluate().value)
    parameters = sojourn.publish({name: value.detach() for name, value in model.named_parameters()})
    return {
        "losses": epoch_means([(float(loss.value), rows) for loss, rows in losses], batches.per_epoch),
        "accuracy": accuracy,
        "parameters": {name: value.flatten().tolist() for name, value in parameters.items()},
        **speed(marks, batches.per_epoch),
    }


def epoch_means(losses, per_epoch):
    """The mean loss of a row, epoch by epoch."""
    epochs = [losses[k : k + per_epoch] for k in range(0, len(losses), per_epoch)]
    return [sum(loss * rows for loss, rows in epoch) / sum(rows for _, rows in epoch) for epoch in epochs]


def speed(marks, per_epoch):
    """Round trips over all steps; bytes and speed over the epochs after the first (warm)."""
    first, last = marks[0], marks[-1]
    warm = marks[1] if len(marks) > 2 else first
    steps, all_steps = per_epoch * (len(marks) - 2 or 1), per_epoch * (len(marks) - 1)

    def grown(key, since):
        return last[1].get(key, 0) - since[1].get(key, 0)

    return {
        "steps": all_steps,
        "round_trips_per_step": grown("round_trips", first) / all_steps,
        "bytes_up_per_warm_step": grown("bytes_up", warm) / steps,
        "bytes_down_per_warm_step": grown("bytes_down", warm) / steps,
        "warm_steps_per_second": steps / (last[0] - warm[0]),
        "programs_compiled": last[1].get("programs_compiled", 0),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--owner", default="none", help="none (plain CPU tensors), local, or the address of an owner")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--report", help="write what was measured to this JSON file")
    arguments = parser.parse_args()
    if arguments.epochs < 1:
        parser.error("--epochs must be at least 1")

    table, owner = open_table(arguments.owner)
    print(table if arguments.report is None else repr(table).splitlines()[0])
    report = train(table, owner, arguments.epochs, arguments.batch, arguments.seed)
    if arguments.report:
        with open(arguments.report, "w") as file:
            json.dump(report, file)
    else:
        print("loss per epoch:", " ".join(f"{loss:.4f}" for loss in report["losses"]))
    print(f"test accuracy: {report['accuracy']:.4f}")


if __name__ == "__main__":
    sys.exit(main())
