# SPDX-License-Identifier: Apache-2.0
"""Measures the cost of a step at an owner, against eager and torch.compile, in one interleaved run.

Each number of threads runs in a separate process (tools/bench_worker.py), so that every pool starts
with it. Prints tables and writes the same results as JSON.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile

import bench_channels
import bench_history
import bench_private
import bench_replays
from bench_models import CASES
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORKER = ROOT / "tools/bench_worker.py"
RECORD_BENCH = ROOT / "build/bin/bench-record"
# Of a warm step, over eager's time in the same run: traced, replayed at an embedded owner, looped over ipc.
AIMS = {
    "30-64-2/64": (1.2, 0.2, 0.15),
    "784-256-256-10/512": (0.92, 0.90, 0.88),
    "cnn/64": (0.70, 0.68, 0.68),
    "gpt/8": (0.92, 0.90, 0.90),
    "lstm/32": (0.8, 0.5, 0.5),
}
# A log has no width of its own.
console = Console() if sys.stdout.isatty() else Console(width=160)


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def measure(threads, arguments):
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads))
    environment.pop("SOJOURN_DUMP", None)
    options = ["--threads", threads, "--rounds", arguments.rounds] + (["--no-compile"] if arguments.no_compile else [])
    options += ["--beside", arguments.beside.resolve()] if arguments.beside else []
    options += ["--cases", *arguments.cases] if arguments.cases else []
    command = [sys.executable, WORKER, *options]
    with subprocess.Popen(
        [str(part) for part in command], env=environment, stdout=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stdout is not None
        text = worker.stdout.read()
    if worker.returncode != 0:
        sys.exit(f"bench: the worker with {threads} threads failed with exit code {worker.returncode}")
    return json.loads(text)


def record_from_cpp():
    """Cost per recorded op from C++, if the benchmark program was built."""
    if not RECORD_BENCH.exists():
        return None
    done = subprocess.run([RECORD_BENCH, "--benchmark_format=json"], capture_output=True, text=True)
    if done.returncode != 0:
        return {"error": done.stderr.strip()[-300:]}
    scale = {"ns": 1e-3, "us": 1.0, "ms": 1e3}
    found = json.loads(done.stdout)["benchmarks"]
    return {entry["name"]: entry["real_time"] * scale[entry["time_unit"]] for entry in found}


def number(value, form="{:.0f}"):
    return "-" if value is None else form.format(value)


def case_columns(table):
    table.add_column("network", justify="left", no_wrap=True)
    for title in ("batch", "threads"):
        table.add_column(title, justify="right", no_wrap=True)


def case_cells(run, case):
    return case["network"], str(case["batch"]), str(run["threads"])


def print_steps(runs):
    title = "warm training step, Adam or AdamW in its default form (medians, microseconds)"
    table = Table(title=title, title_justify="left")
    case_columns(table)
    names = ("eager", "compile", "embedded", "replayed", "ipc", "looped")
    besides = (
        ["embedded beside", "ipc beside", "looped beside"]
        if any("ipc beside" in case["step_us"] for run in runs for case in run["cases"])
        else []
    )
    for title in (*names, *besides, "roofline"):
        table.add_column(title, justify="right")
    for run in runs:
        for case in run["cases"]:
            step = case["step_us"]
            shown = (number(step.get(name)) for name in (*names, *besides))
            table.add_row(*case_cells(run, case), *shown, number(case["roofline_us"]))
    console.print(table)


def print_ratios(runs):
    """Medians of the ratios of each round, with an asterisk where an aim is missed."""
    table = Table(title="the same as ratios; the aim in brackets, * where it is missed", title_justify="left")
    case_columns(table)
    table.add_column("roofline\n/ eager", justify="right")
    aimed = ("embedded/eager", "replayed/eager", "looped/eager")
    others = ["compile/eager", "embedded/compile", "replayed/compile", "looped/compile", "ipc/embedded"]
    if any(case["ratios"]["embedded/beside"] for run in runs for case in run["cases"]):
        others += ["embedded/beside", "ipc/beside", "looped/beside"]
    for title in (*aimed, *others):
        table.add_column(title.replace("/", "\n/ "), justify="right", no_wrap=True)

    def shown(ratio, aim):
        if ratio is None or aim is None:
            return number(ratio, "{:.2f}")
        return f"{ratio:.2f}{'*' if ratio > aim else ''} ({aim:g})"

    for run in runs:
        for case in run["cases"]:
            aims = AIMS.get(f"{case['network']}/{case['batch']}", (None,) * len(aimed))
            ratio = case["ratios"]
            cells = [shown(ratio[name], aim) for name, aim in zip(aimed, aims)]
            cells += [number(ratio[name], "{:.2f}") for name in others]
            floor = number(case["roofline_us"] / case["step_us"]["eager"], "{:.2f}")
            table.add_row(*case_cells(run, case), floor, *cells)
    console.print(table)


def print_costs(runs):
    table = Table(title="cost of a step besides its arithmetic (embedded)", title_justify="left")
    for title in (
        "network",
        "batch",
        "threads",
        "ops",
        "Python us",
        "cold ms",
        "second ms",
        "up B",
        "trips",
        "compile cold s",
    ):
        table.add_column(title, justify="left" if title == "network" else "right")
    for run in runs:
        for case in run["cases"]:
            table.add_row(
                case["network"],
                str(case["batch"]),
                str(run["threads"]),
                number(case["ops_per_step"]),
                number(case["python_us"]),
                number(case["cold_ms"], "{:.0f}"),
                number(case["second_ms"], "{:.0f}"),
                number(case["bytes_up_per_step"]),
                number(case["round_trips_per_step"], "{:g}"),
                number(case["torch_compile_cold_s"], "{:.1f}"),
            )
    console.print(table)


def print_replays(runs):
    title = "replayed steps with an integer argument or a bound, and without (medians, microseconds); * above the aim"
    table = Table(title=title, title_justify="left")
    for heading in ("step", "threads", "with", "without", f"ratio ({bench_replays.AIM:g})"):
        table.add_column(heading, justify="left" if heading == "step" else "right")
    for name in runs[0]["replays_us"]:
        for run in runs:
            costs = run["replays_us"][name]
            ratio = f"{costs['ratio']:.2f}{'*' if costs['ratio'] > bench_replays.AIM else ''}"
            table.add_row(name, str(run["threads"]), number(costs["with"]), number(costs["without"]), ratio)
    console.print(table)


def print_record(runs, cpp):
    title = "recording single ops from Python (microseconds), and the ratio to eager's cost on a 4x4 tensor"
    table = Table(title=title, title_justify="left")
    for heading in ("op", "threads", "median", "best", "recorded/eager"):
        table.add_column(heading, justify="left" if heading == "op" else "right")
    for name in runs[0]["record_us"]:
        for run in runs:
            costs = run["record_us"][name]
            shown = (number(costs[key], "{:.2f}") for key in ("recorded", "best", "ratio"))
            table.add_row(name, str(run["threads"]), *shown)
    console.print(table)
    if cpp is None:
        console.print("from C++: build/bin/bench-record was not built")
    else:
        for name, cost in cpp.items():
            console.print(f"from C++: {name}: {cost if isinstance(cost, str) else f'{cost:.2f} us'}", highlight=False)


def analysed(arguments):
    """The owner's work on a program before its first run; see tools/bench_private.py."""
    results = []
    table = Table(title="analysis, rewrite and proof of a private training step (medians)", title_justify="left")
    for title in ("network", "ops", "ms", "ms per 1,000 ops", "aim"):
        table.add_column(title, justify="left" if title == "network" else "right")
    for name in tqdm(bench_private.NETWORKS, desc="analysis", unit="network"):
        with tempfile.TemporaryDirectory(prefix="sojourn-bench-") as folder:
            case = bench_private.child([name, "--analysis", "--rounds", arguments.rounds], 1, dump=folder)
        results.append(case)
        costs = (number(case[key], "{:.1f}") for key in ("ms", "ms_per_1000_ops"))
        table.add_row(case["network"], f"{case['ops']:,}", *costs, f"{bench_private.ANALYSIS_MS_MOST}")
    console.print(table)
    return results


def analysis(arguments):
    arguments.json.write_text(json.dumps({"analysis": analysed(arguments)}, indent=1) + "\n")
    console.print(f"JSON: {arguments.json}", highlight=False)


def parties(arguments):
    """Steps of groups beside those of one owner; see tools/bench_parties.py and tools/bench_networks.py."""
    if arguments.networks:
        import bench_networks  # loads torch and the package

        found = bench_networks.measure(arguments.rounds, arguments.flower)
        bench_networks.show(found)
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")
        console.print(f"JSON: {arguments.json}", highlight=False)
        return
    import bench_groups  # loads torch and the package, as the next
    import bench_parties

    found = {}
    for threads in arguments.threads:
        console.print(f"\n{threads} thread(s)")
        found[threads] = bench_parties.measure(arguments.rounds, threads)
        bench_parties.show(found[threads])
    served = bench_parties.measure_served(arguments.rounds)
    bench_parties.show_served(served)
    groups = bench_groups.measure()
    bench_parties.show_groups(groups)
    arguments.json.write_text(json.dumps({"parties": found, "served": served, "groups": groups}, indent=1) + "\n")
    console.print(f"JSON: {arguments.json}", highlight=False)


def arrays(arguments):
    """Programs of NumPy's as steps of sojourn.numpy; see tools/bench_numpy.py."""
    import bench_numpy  # loads torch and the package

    found = bench_numpy.measure(arguments.rounds)
    bench_numpy.show(found)
    arguments.json.write_text(json.dumps({"numpy": found}, indent=1) + "\n")
    console.print(f"JSON: {arguments.json}", highlight=False)


def private(arguments):
    """Private steps compared with plain ones and with Opacus; see tools/bench_private.py."""
    if importlib.util.find_spec("opacus") is None:
        sys.exit("bench: --privacy compares with Opacus: pip install --no-deps -r tools/requirements-bench.txt")
    results = []
    table = Table(title="private training step, Adam (medians; ratios of paired rounds)", title_justify="left")
    headings = (
        "network",
        "size",
        "slots",
        "threads",
        "plain ms",
        "private ms",
        "coins ms",
        "Opacus ms",
        "with noise ms",
    )
    ratios = {
        "private/plain*": "private without noise/plain",
        "aim": None,
        "private/Opacus*": "without noise/opacus",
        "private/Opacus": "with noise/opacus",
        "slots/size": "slots/expected",
    }
    for title in (*headings, *ratios, "peak MiB", "Opacus MiB"):
        table.add_column(title, justify="left" if title == "network" else "right")
    remarks = []
    cases = [(threads, name) for threads in arguments.threads for name in bench_private.NETWORKS]
    for threads, name in tqdm(cases, desc="private steps", unit="case"):
        case = bench_private.child([name, "--rounds", arguments.rounds, "--threads", threads], threads)
        peaks = {
            variant: bench_private.child(
                [name, "--peak", variant, "--size", case["expected"], "--threads", threads], threads
            )["mib"]
            for variant in ("private", case["opacus"])
            if variant
        }
        case |= {"threads": threads, "peak_mib": peaks}
        results.append(case)
        ms, found = case["ms"], case["ratios"]
        noisy = [time for title, time in ms.items() if title.startswith("opacus") and title.endswith("noise")]
        table.add_row(
            case["network"],
            str(case["expected"]),
            str(case["slots"]),
            str(threads),
            *(number(value, "{:.1f}") for value in (ms["plain"], ms["private"])),
            number(ms["private"] - ms["private without noise"], "{:.1f}"),
            number(ms.get(case["opacus"]), "{:.1f}"),
            number(min(noisy, default=None), "{:.1f}"),
            *(f"{case['aim']:.1f}" if key is None else number(found[key], "{:.2f}") for key in ratios.values()),
            number(peaks["private"]),
            number(peaks.get(case["opacus"])),
        )
        remarks += case["remarks"]
    console.print(table)
    console.print("* without drawing the noise. plain: batches of as many rows as slots. Opacus: exactly `size` rows.")
    for line in sorted(set(remarks)):
        console.print(f"remark: {line}", highlight=False)
    found = {"private": results, "analysis": analysed(arguments)}
    arguments.json.write_text(json.dumps(found, indent=1) + "\n")
    console.print(f"JSON: {arguments.json}", highlight=False)


def main():
    words = sys.argv[1:]
    if "--channels" in words:  # it has options of its own
        return bench_channels.main([word for word in words if word != "--channels"])
    parser = argparse.ArgumentParser(prog="tools/bench", description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="thread counts (1 2)")
    parser.add_argument("--rounds", type=int, default=30, help="interleaved rounds of each case (30)")
    parser.add_argument("--privacy", action="store_true", help="compare private steps with plain ones and with Opacus")
    parser.add_argument(
        "--analysis", action="store_true", help="time the owner's work on a private program before its first run"
    )
    parser.add_argument(
        "--parties", action="store_true", help="compare steps of groups of owners with those of one owner"
    )
    parser.add_argument(
        "--networks", action="store_true", help="with --parties: networks on images alone, beside their bounds"
    )
    parser.add_argument(
        "--flower",
        metavar="PYTHON",
        help="with --networks: one with flwr[simulation], whose rounds are measured beside",
    )
    parser.add_argument("--numpy", action="store_true", help="compare steps of sojourn.numpy with NumPy")
    parser.add_argument(
        "--channels", action="store_true", help="what times tell of private rows; see tools/bench --channels --help"
    )
    parser.add_argument("--cases", nargs="+", choices=CASES, metavar="CASE", help=f"only these: {', '.join(CASES)}")
    parser.add_argument("--no-compile", action="store_true", help="skip torch.compile")
    parser.add_argument("--beside", type=pathlib.Path, help="another built checkout, measured in turns")
    parser.add_argument("--json", type=pathlib.Path, default=pathlib.Path("sojourn-bench.json"), help="file to write")
    parser.add_argument("--history", action="store_true", help="add the ratios to docs/bench-history.csv")
    arguments = parser.parse_args()
    if arguments.parties:
        return parties(arguments)
    if arguments.numpy:
        return arrays(arguments)
    if arguments.privacy or arguments.analysis:
        return private(arguments) if arguments.privacy else analysis(arguments)
    runs = [measure(threads, arguments) for threads in arguments.threads]
    settings = {"processor": processor(), "cores": os.cpu_count(), **runs[0]["settings"]}
    console.print("\n[bold]settings, the same for every side[/bold]")
    for name, value in settings.items():
        console.print(f"  {name}: {value}", highlight=False)
    for run in runs:
        peak = run["peaks"]
        console.print(
            f"  peaks, {run['threads']} thread(s): {peak['flops_s'] / 1e9:.0f} GFlop/s, {peak['bytes_s'] / 1e9:.1f} GB/s",
            highlight=False,
        )
    console.print()
    print_steps(runs)
    print_ratios(runs)
    print_costs(runs)
    print_replays(runs)
    cpp = record_from_cpp()
    print_record(runs, cpp)
    for line in sorted({line for run in runs for line in run["remarks"]}):
        console.print(f"remark: {line}", highlight=False)
    arguments.json.write_text(json.dumps({"settings": settings, "runs": runs, "record_cpp_us": cpp}, indent=1) + "\n")
    console.print(f"JSON: {arguments.json}", highlight=False)
    if arguments.history:
        bench_history.append(settings, runs)
        console.print(f"history: {bench_history.HISTORY.relative_to(ROOT)}", highlight=False)


if __name__ == "__main__":
    sys.exit(main())
