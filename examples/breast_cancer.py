# SPDX-License-Identifier: Apache-2.0
"""Trains a small classifier on the Wisconsin breast-cancer table, wherever the table is.

    python examples/breast_cancer.py                             # on plain CPU tensors
    python examples/breast_cancer.py --owner local               # at an owner inside this process
    python examples/breast_cancer.py --owner local --epsilon 3   # there, from a private table
    python examples/breast_cancer.py --owner ipc:///run/o.sock   # at a `sojourn-owner serve`
    python examples/breast_cancer.py --owner ADDRESS,ADDRESS     # at several of them, each with a part of the rows

`train` and `evaluate` are the same lines in all cases. `tools/demo` runs and compares them.
"""

import argparse
import copy
import json
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn
from tqdm import tqdm

import sojourn

NAME, LABEL = "breast-cancer", "malignant"
# Of a private table: all that is released of a run may tell a row apart with this probability at most, beside epsilon.
DELTA = 1e-5
# The range of each measure of a cell's nucleus, as the public description of this table prints them, rounded outwards:
# of the mean over a sample, of its standard error, of the mean of the three largest.
RANGES = {
    "radius": ((5, 30), (0, 3), (5, 40)),
    "texture": ((5, 40), (0, 5), (10, 50)),
    "perimeter": ((40, 200), (0, 25), (50, 260)),
    "area": ((100, 2600), (0, 600), (150, 4500)),
    "smoothness": ((0.04, 0.18), (0, 0.04), (0.06, 0.24)),
    "compactness": ((0, 0.4), (0, 0.15), (0, 1.1)),
    "concavity": ((0, 0.45), (0, 0.4), (0, 1.3)),
    "concave_points": ((0, 0.22), (0, 0.06), (0, 0.3)),
    "symmetry": ((0.1, 0.32), (0, 0.08), (0.15, 0.7)),
    "fractal_dimension": ((0.045, 0.1), (0, 0.03), (0.05, 0.21)),
}
BOUNDS = {f"mean_{measure}": ranges[0] for measure, ranges in RANGES.items()}
BOUNDS |= {f"{measure}_error": ranges[1] for measure, ranges in RANGES.items()}
BOUNDS |= {f"worst_{measure}": ranges[2] for measure, ranges in RANGES.items()}
BOUNDS |= {LABEL: (0, 1)}


def source(part=0, parts=1):
    """The table as its owner has it: 569 rows, 30 measures and the diagnosis; or each `parts`-th row."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    arrays = {name.replace(" ", "_"): data.data[:, k].copy() for k, name in enumerate(data.feature_names)}
    arrays[LABEL] = (data.target == 0).astype("int64")
    return {name: column[part::parts] for name, column in arrays.items()}


def open_table(where, epsilon=None, parts=1):
    """The table and its owner, or the group of its owners (None on plain CPU tensors).

    With `epsilon` a local table is private with that budget. A plain table of several `parts` has the batches of a
    group whose members have these parts.
    """
    if where == "none" and parts > 1:
        return sojourn.pooled(
            *(sojourn.plain(source(part, parts), name=NAME, bounds=BOUNDS) for part in range(parts))
        ), None
    if where == "none":
        return sojourn.plain(source(), name=NAME, bounds=BOUNDS), None
    if "," in where:
        parties = sojourn.parties(*map(sojourn.connect, where.split(",")))
        return parties.rows(NAME), parties
    if where == "local":
        owner = sojourn.local()
        owner.register(NAME, source(), policy="private" if epsilon else "open", bounds=BOUNDS)
        if epsilon:
            owner.grant(NAME, epsilon=epsilon, delta=DELTA)
    else:
        owner = sojourn.connect(where)
    return owner.dataset(NAME), owner


def train(table, owner, epochs, size, seed, epsilon=None, measure=0.0, quiet=False):
    """Trains and measures; returns the report of `main`.

    On a private table the run costs `epsilon`; `measure`, if above 0, pays for the accuracy at the owner.
    """
    features = [column.name for column in table.columns if column.name != LABEL]
    train_rows, test_rows = table.split(0.8, seed=seed)

    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(len(features), 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    local_model = copy.deepcopy(model)
    sojourn.to_owner(model, owner, optimizer)

    @sojourn.step
    def train_step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(table.scaled(x)), y)
        loss.backward()
        optimizer.step()
        return sojourn.publish(loss.detach(), bound=2.0)

    @sojourn.step
    def evaluate(model, rows, epsilon=None):
        with torch.no_grad():
            scores = model(rows.scaled(rows.rows(features)))
            return sojourn.publish((scores.argmax(1) == rows[LABEL]).double().mean(), epsilon=epsilon)

    losses, marks = [], []
    place = "on the CPU" if owner is None else "at the owner" if table.policy == "open" else "privately"
    with sojourn.privacy(train_rows, epsilon=epsilon, delta=DELTA, clip=1.0) as run:
        batches = train_rows.batches(features, label=LABEL, size=size, epochs=epochs, seed=seed)
        for x, y in tqdm(batches, desc=f"training {place}", unit="step", disable=quiet):
            if len(losses) % batches.per_epoch == 0:
                marks.append((time.perf_counter(), sojourn.counters()))
            losses.append((train_step(x, y), len(y)))
        marks.append((time.perf_counter(), sojourn.counters()))

    weights = sojourn.publish({name: value.detach() for name, value in model.state_dict().items()})
    report = {
        "losses": epoch_means([(float(loss.value), rows) for loss, rows in losses], batches.per_epoch),
        "parameters": {name: value.flatten().tolist() for name, value in weights.items()},
        **speed(marks, batches.per_epoch),
    }
    if table.policy == "open":
        report["accuracy"] = float(evaluate(model, test_rows))
        return report
    # Weights are free once they were released; here, and seldom elsewhere, there are plain rows to try them on.
    local_model.load_state_dict(weights)
    _, plain_rows = sojourn.plain(source(), name=NAME, bounds=BOUNDS).split(0.8, seed=seed)
    report["accuracy"] = float(evaluate(local_model, plain_rows))
    report["privacy"] = {
        "epsilon": run.quote().epsilon,
        "delta": run.delta,
        "noise_multiplier": run.noise_multiplier,
        "sampling_rate": run.sampling_rate,
    }
    if measure > 0:
        paid = evaluate(model, test_rows, epsilon=measure)
        report["privacy"] |= {"paid_accuracy": float(paid), "paid_stderr": paid.stderr, "paid_epsilon": measure}
    return report


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
    parser.add_argument(
        "--owner",
        default="none",
        help="none (plain CPU tensors), local, the address of an owner, or those of several, separated by commas",
    )
    parser.add_argument(
        "--parts", type=int, default=1, help="with --owner none: the batches of so many owners, each with its rows"
    )
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--epsilon", type=float, help="price of training on a private table; makes the table of local private"
    )
    parser.add_argument(
        "--measure", type=float, default=0.0, help="additional epsilon to pay for the accuracy at the owner"
    )
    parser.add_argument("--report", help="write the measurements to this JSON file")
    arguments = parser.parse_args()
    if arguments.epochs < 1:
        parser.error("--epochs must be at least 1")
    if arguments.owner == "none" and arguments.epsilon is not None:
        parser.error("--epsilon needs a private table: --owner local makes one")
    if not 0 <= arguments.measure < float("inf") or not 0 < (arguments.epsilon or 1.0) < float("inf"):
        parser.error("--epsilon and --measure must be above 0 and finite")

    table, owner = open_table(
        arguments.owner, arguments.epsilon and arguments.epsilon + arguments.measure, arguments.parts
    )
    print(table if arguments.report is None else repr(table).splitlines()[0])
    report = train(
        table, owner, arguments.epochs, arguments.batch, arguments.seed, arguments.epsilon, arguments.measure
    )
    if arguments.report:
        with open(arguments.report, "w") as file:
            json.dump(report, file)
    else:
        print("loss per epoch:", " ".join(f"{loss:.4f}" for loss in report["losses"]))
    print(f"test accuracy: {report['accuracy']:.4f}")
    if price := report.get("privacy"):
        print(
            f"price: epsilon {price['epsilon']:.4g} at delta {price['delta']:g}; noise multiplier "
            f"{price['noise_multiplier']:.3g}, sampling rate {price['sampling_rate']:.3g}, {report['steps']} steps"
        )
        if "paid_accuracy" in price:
            print(
                f"test accuracy at the owner: {price['paid_accuracy']:.3f} +- {price['paid_stderr']:.3f} for epsilon "
                f"{price['paid_epsilon']:g}"
            )
        print(owner.budget(NAME))


if __name__ == "__main__":
    sys.exit(main())
