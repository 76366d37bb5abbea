#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the accuracy of private training with Opacus: the same models, rows, epsilon, delta, epochs and clip.

Each side spends epsilon by its own accountant, so their noise differs; both are printed. The accuracy is that of the
released weights on rows that no side trained on. Finished runs are stored in a JSON file, and a later call continues.
Needs Opacus: pip install --no-deps -r tools/requirements-bench.txt
"""

import argparse
import copy
import json
import math
import pathlib
import statistics
import sys
import warnings

import torch
from tqdm import tqdm
from utility_tasks import TASKS

import sojourn

DELTA = 1e-5
SIDES = {"sojourn": "Sojourn", "opacus": "Opacus"}


def parts(table, seed):
    """Rows for training and rows for the test, the same on each side."""
    return table.split(0.8, seed=seed)


def new_model(task, seed):
    torch.manual_seed(seed)
    return task.model()


def accuracy(task, model, seed):
    """The accuracy of a model on the CPU."""
    _, rows = parts(sojourn.plain(task.columns, bounds=task.bounds), seed)
    with torch.no_grad():
        scores = task.scores(model, rows, rows.rows(task.features))
    return (scores.argmax(-1) == rows[task.label]).double().mean().item()


def train_openly(task, seed):
    """Without privacy: the reference accuracy."""
    rows, _ = parts(sojourn.plain(task.columns, bounds=task.bounds), seed)
    model = new_model(task, seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=task.rate)
    for x, y in rows.batches(task.features, label=task.label, size=task.size, epochs=task.epochs, seed=seed):
        optimizer.zero_grad()
        task.loss(model, rows, x, y).backward()
        optimizer.step()
    return {"accuracy": accuracy(task, model, seed)}


def train_sojourn(task, seed, epsilon):
    model = new_model(task, seed)
    released = copy.deepcopy(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=task.rate)
    with sojourn.local() as owner:
        table = owner.register("table", task.columns, policy="private", bounds=task.bounds)
        owner.grant("table", epsilon=epsilon, delta=DELTA)
        rows, _ = parts(table, seed)
        sojourn.to_owner(model, owner, optimizer)

        @sojourn.step
        def step(x, y):
            optimizer.zero_grad()
            task.loss(model, rows, x, y).backward()
            optimizer.step()

        # Nothing is published in a step, so the whole of its price goes into gradients.
        with sojourn.privacy(rows, epsilon=epsilon, delta=DELTA, clip=task.clip, metric_share=0.0) as run:
            for x, y in rows.batches(task.features, label=task.label, size=task.size, epochs=task.epochs):
                step(x, y)
        released.load_state_dict(sojourn.publish(model.state_dict()))
        noise = run.noise_multiplier
    return {"accuracy": accuracy(task, released, seed), "noise": noise}


def train_opacus(task, seed, epsilon):
    import opacus
    from opacus.accountants.utils import get_noise_multiplier
    from opacus.optimizers import DPOptimizer
    from opacus.utils.uniform_sampler import UniformWithReplacementSampler

    rows, _ = parts(sojourn.plain(task.columns, bounds=task.bounds), seed)
    x, y = rows.rows(task.features), rows.rows(task.label)
    rate, steps = task.size / len(rows), task.epochs * math.ceil(len(rows) / task.size)
    noise = get_noise_multiplier(
        target_epsilon=epsilon, target_delta=DELTA, sample_rate=rate, steps=steps, accountant="rdp"
    )
    model = opacus.GradSampleModule(new_model(task, seed))
    optimizer = DPOptimizer(
        torch.optim.Adam(model.parameters(), lr=task.rate),
        noise_multiplier=noise,
        max_grad_norm=task.clip,
        expected_batch_size=task.size,
    )
    for batch in UniformWithReplacementSampler(num_samples=len(rows), sample_rate=rate, steps=steps):
        optimizer.zero_grad()
        task.loss(model, rows, x[batch], y[batch]).backward()
        optimizer.step()
    return {"accuracy": accuracy(task, model._module, seed), "noise": noise}


def jobs(arguments):
    """(key in the file, function that runs it)."""
    tasks = {name: TASKS[name]() for name in arguments.tasks}
    for seed in range(arguments.seeds):
        for name, task in tasks.items():
            yield f"{name}/open/{seed}", lambda task=task, seed=seed: train_openly(task, seed)
            for epsilon in arguments.epsilon:
                for side, train in (("sojourn", train_sojourn), ("opacus", train_opacus)):
                    yield (
                        f"{name}/{side}/{epsilon:g}/{seed}",
                        lambda train=train, task=task, seed=seed, epsilon=epsilon: train(task, seed, epsilon),
                    )


def spread(values):
    """Mean and standard deviation, in percent."""
    return 100 * statistics.mean(values), 100 * (statistics.stdev(values) if len(values) > 1 else 0.0)


def results(found, arguments, name, *kind):
    keys = ["/".join([name, *kind, str(seed)]) for seed in range(arguments.seeds)]
    return [found[key] for key in keys]


def table_text(found, arguments):
    """The tables of docs/utility.md."""
    lines = ["| task | ε | Sojourn | Opacus | difference | noise multipliers |", "|---|---|---|---|---|---|"]
    for name in arguments.tasks:
        title = TASKS[name]().name
        mean, deviation = spread([run["accuracy"] for run in results(found, arguments, name, "open")])
        lines.append(f"| {title} | none | {mean:.1f} ± {deviation:.1f} | | | |")
        for epsilon in arguments.epsilon:
            ours, theirs = (results(found, arguments, name, side, f"{epsilon:g}") for side in SIDES)
            texts = ["{:.1f} ± {:.1f}".format(*spread([run["accuracy"] for run in runs])) for runs in (ours, theirs)]
            mean, deviation = spread([a["accuracy"] - b["accuracy"] for a, b in zip(ours, theirs)])
            difference = f"{mean:+.1f} ± {deviation / math.sqrt(len(ours)):.1f}"
            noise = f"{ours[0]['noise']:.3g}, {theirs[0]['noise']:.3g}"
            lines.append(f"| {title} | {epsilon:g} | {texts[0]} | {texts[1]} | {difference} | {noise} |")
    return "\n".join(lines) + "\n"


def draw(found, arguments, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    count = len(arguments.tasks)
    figure, panels = plt.subplots(1, count, figsize=(3.6 * count, 3.4), layout="constrained", squeeze=False)
    for axes, name in zip(panels[0], arguments.tasks):
        mean, _ = spread([run["accuracy"] for run in results(found, arguments, name, "open")])
        axes.axhline(mean, linestyle="--", color="0.4", label="without privacy")
        for (side, title), shift in zip(SIDES.items(), (0.97, 1.03)):
            points = [
                spread([run["accuracy"] for run in results(found, arguments, name, side, f"{epsilon:g}")])
                for epsilon in arguments.epsilon
            ]
            means, deviations = zip(*points)
            places = [epsilon * shift for epsilon in arguments.epsilon]
            axes.errorbar(places, means, deviations, marker="o", capsize=3, label=title)
        axes.set(title=TASKS[name]().name, xlabel="ε", xscale="log")
        axes.set_xticks(arguments.epsilon, [f"{epsilon:g}" for epsilon in arguments.epsilon])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    panels[0][0].set_ylabel("accuracy in percent")
    panels[0][-1].legend()
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(prog="tools/bench_utility.py", description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS), help="tasks to run (all)")
    parser.add_argument("--epsilon", nargs="+", type=float, default=[1.0, 3.0, 8.0], help="prices (1 3 8)")
    parser.add_argument("--seeds", type=int, default=10, help="runs of each (10)")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch; these models are small (1)")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("sojourn-utility"), help="folder to write")
    arguments = parser.parse_args()
    if arguments.seeds < 1 or not all(0 < epsilon < math.inf for epsilon in arguments.epsilon):
        parser.error("--seeds must be at least 1, every --epsilon above 0 and finite")
    try:
        import opacus
    except ImportError:
        sys.exit("bench_utility: Opacus is missing: pip install --no-deps -r tools/requirements-bench.txt")
    torch.set_num_threads(arguments.threads)
    warnings.filterwarnings("ignore", module="opacus")
    warnings.filterwarnings("ignore", message=".*hook.*", category=UserWarning)

    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / "utility.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    todo = [(key, run) for key, run in jobs(arguments) if key not in found]
    for key, run in (bar := tqdm(todo, unit="run")):
        bar.set_description(key)
        found[key] = run()
        beside = path.with_suffix(".new")
        beside.write_text(json.dumps(found, indent=1) + "\n")
        beside.replace(path)

    text = table_text(found, arguments)
    (arguments.out / "utility.md").write_text(text)
    draw(found, arguments, arguments.out / "utility.png")
    print(text)
    print(
        f"Accuracy in percent, mean and standard deviation of {arguments.seeds} runs, delta {DELTA:g}; the difference is"
    )
    print("the mean over pairs with equal weights and rows, with its standard error.")
    print(f"Opacus {opacus.__version__}, RDP accountant.")
    print(f"utility.json, utility.md and utility.png are in {arguments.out}")


if __name__ == "__main__":
    main()
