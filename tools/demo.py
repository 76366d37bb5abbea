# SPDX-License-Identifier: Apache-2.0
"""Compares runs of examples/breast_cancer.py: on the CPU, at an embedded owner, at a served one, on a private table.
With --owners N: at a group of N served owners.

Each run is a separate process, as a user would start it; the runs of the last picture share one.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from rich.console import Console
from rich.table import Table
from tqdm import tqdm

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "examples/breast_cancer.py"
OWNER_TOOL = ROOT / "build/bin/sojourn-owner"
START_LIMIT_S = 60
PRICES = (0.5, 1, 2, 3, 5, 8)
# A log has no width of its own.
console = Console() if sys.stdout.isatty() else Console(width=120)


def say(text):
    console.print(f"\n[bold]{text}[/bold]")


def example():
    """The script as a module."""
    sys.path.insert(0, str(SCRIPT.parent))
    import breast_cancer

    return breast_cancer


def train(where, name, arguments, out, *further):
    """One run of the script; its report as a dict."""
    report = out / f"{name}.json"
    environment = dict(os.environ)
    if where != "none":
        environment["SOJOURN_DUMP"] = str(out / f"ir-{name}")
    options = ["--owner", where, "--epochs", arguments.epochs, "--batch", arguments.batch, "--seed", arguments.seed]
    command = [sys.executable, SCRIPT, *options, *further, "--report", report]
    done = subprocess.run([str(part) for part in command], env=environment, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(f"demo: the run '{name}' failed with exit code {done.returncode}")
    return json.loads(report.read_text())


def owner_tool(*options):
    done = subprocess.run([OWNER_TOOL, *map(str, options)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(f"demo: sojourn-owner {options[0]} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def write_source(folder):
    """The table and its bounds as files that a data owner would import."""
    import pyarrow
    import pyarrow.parquet

    script = example()
    table, rules = folder / "breast_cancer.parquet", folder / "bounds.toml"
    pyarrow.parquet.write_table(pyarrow.table(script.source()), table)
    rules.write_text("".join(f'"{name}" = [{lower}, {upper}]\n' for name, (lower, upper) in script.BOUNDS.items()))
    return table, rules, script.NAME


@contextlib.contextmanager
def served_owner(log):
    """Starts `sojourn-owner serve` with the table in another process; yields its address."""
    with tempfile.TemporaryDirectory(prefix="sojourn-demo-") as made:
        folder = pathlib.Path(made)
        store, address = folder / "store", f"ipc://{folder}/owner.sock"
        table, rules, name = write_source(folder)
        owner_tool("import", table, "--name", name, "--policy", "open", "--anyone", "--bounds", rules, "--store", store)
        console.print(owner_tool("datasets", "--store", store).splitlines()[0], highlight=False)
        with open(log, "w") as output:
            command = [str(OWNER_TOOL), "serve", "--store", str(store), "--listen", address]
            server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        try:
            deadline = time.monotonic() + START_LIMIT_S
            while "listening on" not in log.read_text():
                if server.poll() is not None or time.monotonic() > deadline:
                    sys.exit(f"demo: sojourn-owner serve did not start:\n{log.read_text()}")
                time.sleep(0.05)
            yield address
            log.with_name("owner-programs.txt").write_text(owner_tool("programs", "--store", store))
        finally:
            server.terminate()
            try:
                server.wait(timeout=10)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def train_over_members(arguments, out):
    """The script over the rows of several served owners, and on plain tensors with the same batches."""
    from members import Members

    count = arguments.owners
    say(f"1. The script on plain CPU tensors, with the batches of {count} owners")
    plain = train("none", "plain-parts", arguments, out, "--parts", count)
    say(f"2. The same script over the tables of {count} served owners, linked over ipc")
    script = example()
    with tempfile.TemporaryDirectory(prefix="sojourn-demo-") as made:
        tables = [script.source(part, count) for part in range(count)]
        with Members(pathlib.Path(made), tables, script.NAME, script.BOUNDS) as members:
            for name, table in zip(members.names, tables):
                console.print(f"{name}: {len(table[script.LABEL])} rows", highlight=False)
            group = train(",".join(members.addresses), "group", arguments, out)
            steps, sent = group["steps"], members.bytes_between()
            keys = dict(zip(members.names, members.keys))

    summary = Table(title="one script, its rows in one table or at several owners", title_justify="left")
    summary.add_column("")
    summary.add_column("plain CPU", justify="right")
    summary.add_column(f"{count} owners", justify="right")
    summary.add_row("loss of the last epoch", f"{plain['losses'][-1]:.6f}", f"{group['losses'][-1]:.6f}")
    summary.add_row("test accuracy", f"{plain['accuracy']:.4f}", f"{group['accuracy']:.4f}")
    summary.add_row("largest parameter difference", "-", f"{largest_difference(group, plain):.2e}")
    summary.add_row("messages to each owner per step", "-", f"{group['round_trips_per_step'] / count:g}")
    summary.add_row("bytes sent to each owner per warm step", "-", f"{group['bytes_up_per_warm_step'] / count:.0f}")
    summary.add_row("bytes between owners per step", "-", f"{sent / steps:.0f}")
    summary.add_row(
        "steps per second (warm)", f"{plain['warm_steps_per_second']:.0f}", f"{group['warm_steps_per_second']:.0f}"
    )
    console.print()
    console.print(summary)
    say(f"On {count} machines")
    for name in keys:
        others = [other for other in keys if other != name]
        lines = [
            *(
                f"sojourn-owner peer add {other} --key {keys[other]} --address tls+tcp://{other}.example:7444"
                for other in others
            ),
            f"sojourn-owner share {script.NAME} --with {','.join(others)} --as clear",
            "sojourn-owner serve --listen tls+tcp://0.0.0.0:7443 --peers tls+tcp://0.0.0.0:7444",
        ]
        console.print(f"\n# {name}, whose key 'sojourn-owner key' prints", highlight=False)
        console.print("\n".join(lines), highlight=False, soft_wrap=True)
    connect = ", ".join(
        f'sojourn.connect("tls+tcp://{name}.example:7443", owner_key="{keys[name][:8]}...")' for name in keys
    )
    console.print(
        f"\n# the scientist, in Python\nparties = sojourn.parties({connect})", highlight=False, soft_wrap=True
    )


def largest_difference(report, reference):
    return max(
        abs(mine - other)
        for name, values in report["parameters"].items()
        for mine, other in zip(values, reference["parameters"][name], strict=True)
    )


def sweep(arguments):
    """Accuracy on plain test rows, per price (None: the open table) and seed."""
    import torch

    torch.set_num_threads(1)  # the steps are small
    script = example()
    jobs = [(epsilon, arguments.seed + seed) for epsilon in (None, *PRICES) for seed in range(arguments.seeds)]
    found: dict = {}
    for epsilon, seed in tqdm(jobs, desc="training at each price", unit="run"):
        table, owner = script.open_table("none" if epsilon is None else "local", epsilon)
        report = script.train(table, owner, arguments.epochs, arguments.batch, seed, epsilon, quiet=True)
        found.setdefault(epsilon, []).append(report["accuracy"])
        if owner is not None:
            owner.close()
    return found


def print_comparison(reports):
    plain = reports["plain CPU"]
    losses = Table(title="loss per epoch", title_justify="left")
    losses.add_column("epoch", justify="right")
    for name in reports:
        losses.add_column(name, justify="right")
    for epoch in range(len(plain["losses"])):
        losses.add_row(str(epoch + 1), *(f"{report['losses'][epoch]:.6f}" for report in reports.values()))
    console.print(losses)

    summary = Table(title="the same script in four places", title_justify="left")
    summary.add_column("")
    for name in reports:
        summary.add_column(name, justify="right")

    def row(title, text):
        summary.add_row(title, *(text(report) for report in reports.values()))

    def remote(text):
        return lambda report: "-" if report is plain else text(report)

    def private(text):
        return lambda report: text(report["privacy"]) if "privacy" in report else "-"

    def same(report):
        return "-" if "privacy" in report else f"{largest_difference(report, plain):.2e}"

    row("test accuracy", lambda r: f"{r['accuracy']:.4f}")
    row("price: epsilon", private(lambda p: f"{p['epsilon']:.3g}"))
    row("at delta", private(lambda p: f"{p['delta']:g}"))
    row("noise multiplier", private(lambda p: f"{p['noise_multiplier']:.3g}"))
    row("sampling rate", private(lambda p: f"{p['sampling_rate']:.3g}"))
    row("largest parameter difference from plain", remote(same))
    row("training steps", lambda r: str(r["steps"]))
    row("round trips per step", remote(lambda r: f"{r['round_trips_per_step']:g}"))
    row("bytes sent per warm step", remote(lambda r: f"{r['bytes_up_per_warm_step']:.0f}"))
    row("bytes received per warm step", remote(lambda r: f"{r['bytes_down_per_warm_step']:.0f}"))
    row("programs compiled", remote(lambda r: str(r["programs_compiled"])))
    row("steps per second (warm)", lambda r: f"{r['warm_steps_per_second']:.0f}")
    console.print(summary)


def plot(path, fill, **labels):
    """A picture with one pair of axes, which `fill` draws on."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    fill(axes)
    axes.set(**labels)
    axes.grid(alpha=0.3, which="both")
    axes.legend()
    figure.savefig(path, dpi=140)
    plt.close(figure)


def draw_losses(reports, path):
    """The loss curves of the open table in one picture; those of a private run are mostly noise."""

    def fill(axes):
        curves = [(name, report) for name, report in reports.items() if "privacy" not in report]
        for (name, report), style in zip(curves, ("-", "--", ":")):
            epochs = range(1, len(report["losses"]) + 1)
            axes.plot(epochs, report["losses"], style, linewidth=2 if style == "-" else 3, label=name)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_yscale("log")

    title = "Breast-cancer table: one script, three places"
    plot(path, fill, xlabel="epoch", ylabel="mean training loss", title=title)


def draw_accuracy(found, path):
    """Accuracy against price: each run is a point, the mean is a line."""

    def mean(epsilon):
        return sum(found[epsilon]) / len(found[epsilon])

    def fill(axes):
        axes.axhline(mean(None), linestyle="--", color="0.4", label="open table")
        axes.plot(PRICES, [mean(epsilon) for epsilon in PRICES], linewidth=2, label="private table, mean")
        points = [(epsilon, accuracy) for epsilon in PRICES for accuracy in found[epsilon]]
        axes.scatter(*zip(*points), alpha=0.5, zorder=3, label="one run")
        axes.set_xscale("log", base=2)
        axes.set_xticks(PRICES, [f"{epsilon:g}" for epsilon in PRICES])

    title = "Breast-cancer table: the cost of privacy"
    plot(path, fill, xlabel="epsilon of the training run", ylabel="accuracy on plain test rows", title=title)


def main():
    parser = argparse.ArgumentParser(prog="tools/demo", description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20, help="passes over the training rows (20)")
    parser.add_argument("--batch", type=int, default=64, help="rows per batch (64)")
    parser.add_argument("--seed", type=int, default=0, help="seed of weights, split and batches (0)")
    parser.add_argument("--epsilon", type=float, default=3.0, help="price of the run on the private table (3)")
    parser.add_argument("--seeds", type=int, default=3, help="runs for each price of the second picture (3)")
    parser.add_argument(
        "--owners", type=int, default=1, help="train over the tables of so many served owners instead: 2 to 8"
    )
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("sojourn-demo"), help="folder to write")
    arguments = parser.parse_args()
    out = arguments.out.resolve()
    if arguments.seeds < 1 or not 0 < arguments.epsilon < float("inf"):
        parser.error("--seeds must be at least 1, --epsilon above 0 and finite")
    if not 1 <= arguments.owners <= 8:
        parser.error("--owners must be 1 to 8")
    for old in [out / "ir-embedded", out / "ir-served", out / "ir-private"]:
        shutil.rmtree(old, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    if arguments.owners > 1:
        return train_over_members(arguments, out)

    say("1. The script on plain CPU tensors")
    reports = {"plain CPU": train("none", "plain", arguments, out)}
    say("2. The same script at an owner inside its process")
    reports["embedded owner"] = train("local", "embedded", arguments, out)
    say("3. The same script at a separate `sojourn-owner serve`, over ipc")
    with served_owner(out / "owner.log") as address:
        reports["owner over ipc"] = train(address, "served", arguments, out)

    say(f"4. The same script on a private table, with ({arguments.epsilon:g}, 1e-5)-differential privacy")
    name = f"private, ε = {arguments.epsilon:g}"
    reports[name] = train("local", "private", arguments, out, "--epsilon", arguments.epsilon)
    say("5. Accuracy at other prices")
    found = sweep(arguments)

    console.print()
    print_comparison(reports)
    draw_losses(reports, out / "loss.png")
    draw_accuracy(found, out / "accuracy.png")
    (out / "accuracy.json").write_text(json.dumps({"open" if e is None else f"{e:g}": a for e, a in found.items()}))
    console.print(
        "\nThe private table's accuracy is that of its published weights, on plain test rows; its losses carry noise."
        "\nPrograms compiled for training: one for the first step, which creates the optimizer's state, one for later"
        "\nsteps, and one for the short last batch of an epoch. Batches of a private table have one size."
    )
    console.print(
        f"IR of every phase, programs, reports, loss.png and accuracy.png are in {out}", highlight=False, soft_wrap=True
    )
    wrong = [name for name, report in reports.items() if name != "plain CPU" and report["round_trips_per_step"] != 1]
    if wrong:
        sys.exit(f"demo: not exactly one round trip per step: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
