# SPDX-License-Identifier: Apache-2.0
"""Runs examples/breast_cancer.py on the CPU, at an embedded owner and at a served one, and compares.

Each run is a process of its own, so that each is what a user would start.
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

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "examples/breast_cancer.py"
OWNER_TOOL = ROOT / "build/bin/sojourn-owner"
START_LIMIT_S = 60
# A log has no width of its own.
console = Console() if sys.stdout.isatty() else Console(width=120)


def say(text):
    console.print(f"\n[bold]{text}[/bold]")


def train(where, name, arguments, out):
    """One run of the script; its report as a dict."""
    report = out / f"{name}.json"
    environment = dict(os.environ)
    if where != "none":
        environment["SOJOURN_DUMP"] = str(out / f"ir-{name}")
    options = ["--owner", where, "--epochs", arguments.epochs, "--batch", arguments.batch, "--seed", arguments.seed]
    command = [sys.executable, SCRIPT, *options, "--report", report]
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
    """The table and its bounds as the files that an owner would import."""
    import pyarrow
    import pyarrow.parquet

    sys.path.insert(0, str(SCRIPT.parent))
    import breast_cancer

    arrays, bounds = breast_cancer.source()
    table, rules = folder / "breast_cancer.parquet", folder / "bounds.toml"
    pyarrow.parquet.write_table(pyarrow.table(arrays), table)
    rules.write_text("".join(f'"{name}" = [{lower}, {upper}]\n' for name, (lower, upper) in bounds.items()))
    return table, rules, breast_cancer.NAME


@contextlib.contextmanager
def served_owner(log):
    """A `sojourn-owner serve` in its own process, holding the table; gives its address."""
    with tempfile.TemporaryDirectory(prefix="sojourn-demo-") as folder:
        folder = pathlib.Path(folder)
        store, address = folder / "store", f"ipc://{folder}/owner.sock"
        table, rules, name = write_source(folder)
        owner_tool("import", table, "--name", name, "--policy", "open", "--bounds", rules, "--store", store)
        console.print(owner_tool("datasets", "--store", store).splitlines()[0], highlight=False)
        with open(log, "w") as output:
            command = [OWNER_TOOL, "serve", "--store", store, "--listen", address]
            server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        try:
            deadline = time.monotonic() + START_LIMIT_S
            while not (folder / "owner.sock").exists():
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


def largest_difference(report, reference):
    return max(
        abs(mine - other)
        for name, values in report["parameters"].items()
        for mine, other in zip(values, reference["parameters"][name], strict=True)
    )


def print_comparison(reports):
    plain = reports["plain CPU"]
    losses = Table(title="loss per epoch", title_justify="left")
    losses.add_column("epoch", justify="right")
    for name in reports:
        losses.add_column(name, justify="right")
    for epoch in range(len(plain["losses"])):
        losses.add_row(str(epoch + 1), *(f"{report['losses'][epoch]:.6f}" for report in reports.values()))
    console.print(losses)

    summary = Table(title="the same script, side by side", title_justify="left")
    summary.add_column("")
    for name in reports:
        summary.add_column(name, justify="right")

    def row(title, text):
        summary.add_row(title, *(text(report) for report in reports.values()))

    def remote(text):
        return lambda report: "-" if report is plain else text(report)

    row("test accuracy", lambda r: f"{r['accuracy']:.4f}")
    row("largest parameter difference from plain", remote(lambda r: f"{largest_difference(r, plain):.2e}"))
    row("training steps", lambda r: str(r["steps"]))
    row("round trips per step", remote(lambda r: f"{r['round_trips_per_step']:g}"))
    row("bytes sent per warm step", remote(lambda r: f"{r['bytes_up_per_warm_step']:.0f}"))
    row("bytes received per warm step", remote(lambda r: f"{r['bytes_down_per_warm_step']:.0f}"))
    row("programs compiled", remote(lambda r: str(r["programs_compiled"])))
    row("steps per second (warm)", lambda r: f"{r['warm_steps_per_second']:.0f}")
    console.print(summary)


def draw(reports, path):
    """Both loss curves in one picture."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for (name, report), style in zip(reports.items(), ("-", "--", ":")):
        epochs = range(1, len(report["losses"]) + 1)
        axes.plot(epochs, report["losses"], style, linewidth=2 if style == "-" else 3, label=name)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set(xlabel="epoch", ylabel="mean training loss", title="Breast-cancer table: one script, three places")
    axes.set_yscale("log")
    axes.grid(alpha=0.3, which="both")
    axes.legend()
    figure.savefig(path, dpi=140)


def main():
    parser = argparse.ArgumentParser(prog="tools/demo", description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20, help="passes over the training rows (20)")
    parser.add_argument("--batch", type=int, default=64, help="rows of a batch (64)")
    parser.add_argument("--seed", type=int, default=0, help="seed of weights, split and batches (0)")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("sojourn-demo"), help="folder to write")
    arguments = parser.parse_args()
    out = arguments.out.resolve()
    for old in [out / "ir-embedded", out / "ir-served"]:
        shutil.rmtree(old, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)

    say("1. The script on plain CPU tensors")
    reports = {"plain CPU": train("none", "plain", arguments, out)}
    say("2. The same script at an owner inside its process")
    reports["embedded owner"] = train("local", "embedded", arguments, out)
    say("3. The same script at a separate `sojourn-owner serve`, over ipc")
    with served_owner(out / "owner.log") as address:
        reports["owner over ipc"] = train(address, "served", arguments, out)

    console.print()
    print_comparison(reports)
    draw(reports, out / "loss.png")
    console.print(f"\nIR of every phase, programs, reports and loss.png are in {out}", highlight=False, soft_wrap=True)
    wrong = [name for name, report in reports.items() if "owner" in name and report["round_trips_per_step"] != 1]
    if wrong:
        sys.exit(f"demo: not exactly one round trip per step: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
