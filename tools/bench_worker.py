# SPDX-License-Identifier: Apache-2.0
"""One process of tools/bench: runs all cases with one number of threads and prints its result as JSON.

Per case the variants (eager, torch.compile, embedded owner, replayed there, ipc owner, 64 steps in one trip there) take
turns within every round, so that a noisy moment affects all of them; ratios are medians of the ratios of each round.
With `--beside` the owners of another built checkout take their turns as well, in a second process of
this file that executes commands (`--follow`).
"""

import argparse
import contextlib
import functools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import bench_replays
import torch
import torch.nn.functional as F
from bench_models import CASES, needs, peaks, roofline_us
from tqdm import tqdm

import sojourn

# Another checkout's packages may be measured by this file: the tools are those of the packages.
ROOT = pathlib.Path(sojourn.__file__).resolve().parent.parent.parent
ROUND_SECONDS = 0.04  # each variant runs about this long in one round
REMARKS: set[str] = set()


def trainer(model, optimizer, update=None):
    update = update or optimizer.step

    def train(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        update()
        return loss.detach()

    return train


class Variant:
    """One way to run the step: `once()` runs it, `after()` frees its leftovers."""

    def __init__(self, case, owner=None, compiled=False, replay=False):
        model = case.model()
        x, y = case.data()
        optimizer = case.optimizer(model)
        if owner is not None:
            sojourn.to_owner(model, owner, optimizer)
            x, y = x.to(owner.device), y.to(owner.device)
            sojourn.flush()
        if compiled:
            # The update alone: a scheduler's wrapper around `step` breaks the graph.
            update = torch.compile(optimizer.step, fullgraph=False)
            self.body = trainer(torch.compile(model), optimizer, update)
        else:
            self.body = trainer(model, optimizer)
        self.step = (
            self.body if owner is None else sojourn.step(replay=True)(self.body) if replay else sojourn.step(self.body)
        )
        self.inputs = (x, y)

    steps = 1  # in one call of `once`

    def once(self):
        self.step(*self.inputs)

    def timed(self):
        begin = time.perf_counter()
        self.once()
        return (time.perf_counter() - begin) / self.steps

    def settle(self):
        """Warms up, and returns the number of steps per round."""
        for _ in range(5):
            self.once()
        return max(1, round(ROUND_SECONDS / self.steps / statistics.median(self.timed() for _ in range(5))))

    def median(self, repeats):
        return statistics.median(self.timed() for _ in range(repeats))

    def record_seconds(self):
        """Time of the step's Python and recording alone, without the owner's work."""
        with sojourn.step():
            begin = time.perf_counter()
            loss = self.body(*self.inputs)
            seconds = time.perf_counter() - begin
            del loss
        return seconds


class Looped(Variant):
    """A loop that sends several steps in one message."""

    steps = 64

    def once(self):
        sojourn.loop(self.body, [self.inputs] * self.steps, per_trip=self.steps)


class Beside:
    """The variants of another checkout, in a process that waits while this process measures."""

    def __init__(self, checkout, threads):
        environment = dict(os.environ, PYTHONPATH=str(checkout / "build/python"))
        # Its libraries name the folder that they were built in, which may be this one.
        environment["LD_LIBRARY_PATH"] = str(checkout / "build/lib")
        command = [sys.executable, __file__, "--threads", str(threads), "--follow", str(checkout)]
        self.process: Any = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, **question):
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"bench: the other checkout failed with exit code {self.process.wait()}")
        return json.loads(line)

    def variants(self, case):
        self.ask(case=case.name)
        return {f"{key} beside": BesideVariant(self, key) for key in ("embedded", "ipc", "looped")}

    def end(self):
        self.process.stdin.close()
        self.process.wait()


class BesideVariant:
    def __init__(self, beside, key):
        self.beside, self.key = beside, key

    def settle(self):
        return self.beside.ask(settle=self.key)

    def median(self, repeats):
        return self.beside.ask(median=self.key, repeats=repeats)


def follow(checkout):
    """Executes the commands of Beside, line by line."""
    embedded, variants = sojourn.local(), {}
    with served_owner(checkout) as served:
        for line in sys.stdin:
            question = json.loads(line)
            answer = None
            if "case" in question:
                case = CASES[question["case"]]
                variants = {
                    "embedded": Variant(case, embedded),
                    "ipc": Variant(case, served),
                    "looped": Looped(case, served),
                }
            elif "settle" in question:
                answer = variants[question["settle"]].settle()
            else:
                answer = variants[question["median"]].median(question["repeats"])
            print(json.dumps(answer), flush=True)


def grown(before):
    after = sojourn.counters()
    return {key: after[key] - before[key] for key in after if isinstance(after[key], (int, float)) and key in before}


def make_compiled(case):
    """The torch.compile variant, warmed up, and the time of the warm-up; None if it cannot run."""
    torch._dynamo.reset()
    try:
        variant = Variant(case, compiled=True)
        begin = time.perf_counter()
        variant.once()
        return variant, time.perf_counter() - begin
    except Exception as error:
        REMARKS.add(f"torch.compile is not available here: {type(error).__name__}: {str(error).splitlines()[0][:120]}")
        return None, None


def measure_case(case, embedded, served, beside, arguments, peak, bar):
    variants = {"eager": Variant(case)}
    compile_cold = None
    if not arguments.no_compile:
        variant, compile_cold = make_compiled(case)
        if variant:
            variants["compile"] = variant
    variants["embedded"] = Variant(case, embedded)
    cold = [variants["embedded"].timed() for _ in range(2)]
    variants["replayed"] = Variant(case, embedded, replay=True)
    if served is not None:
        variants["ipc"] = Variant(case, served)
        variants["looped"] = Looped(case, served)
    if beside is not None:
        variants |= beside.variants(case)
    repeats = {key: variant.settle() for key, variant in variants.items()}

    medians: dict = {key: [] for key in variants}
    for _ in range(arguments.rounds):
        for key, variant in variants.items():
            medians[key].append(variant.median(repeats[key]))
        bar.update()

    owner_step = variants["embedded"]
    before = sojourn.counters()
    for _ in range(20):
        owner_step.once()
    used = grown(before)
    before = sojourn.counters()
    recording = [owner_step.record_seconds() for _ in range(50)]
    ops = grown(before)["ops_recorded"] / len(recording)

    def ratio(over, under):
        if over in medians and under in medians:
            return statistics.median(a / b for a, b in zip(medians[over], medians[under]))
        return None

    need = needs(case)
    return {
        "network": case.network,
        "batch": case.batch,
        "needs": need,
        "roofline_us": roofline_us(need, peak),
        "step_us": {key: statistics.median(values) * 1e6 for key, values in medians.items()},
        "best_us": {key: min(values) * 1e6 for key, values in medians.items()},
        "ratios": {
            "embedded/eager": ratio("embedded", "eager"),
            "compile/eager": ratio("compile", "eager"),
            "embedded/compile": ratio("embedded", "compile"),
            "replayed/compile": ratio("replayed", "compile"),
            "replayed/eager": ratio("replayed", "eager"),
            "looped/eager": ratio("looped", "eager"),
            "looped/compile": ratio("looped", "compile"),
            "ipc/embedded": ratio("ipc", "embedded"),
            "embedded/beside": ratio("embedded", "embedded beside"),
            "ipc/beside": ratio("ipc", "ipc beside"),
            "looped/beside": ratio("looped", "looped beside"),
        },
        "ops_per_step": ops,
        "python_us": statistics.median(recording) * 1e6,
        "cold_ms": cold[0] * 1e3,
        "second_ms": cold[1] * 1e3,
        "bytes_up_per_step": used["bytes_up"] / 20,
        "round_trips_per_step": used["round_trips"] / 20,
        "torch_compile_cold_s": compile_cold,
    }


def record_single_ops(owner, rounds=60, calls=200):
    """Microseconds per call of single ops, recorded in bulk, compared with eager on a tiny tensor.

    Eager's figure is the cost of torch's own Python layer and dispatch; rounds of both alternate.
    """
    here = torch.ones(4, 4)
    there = here.to(owner.device)
    ops = {
        "add": lambda x: x + x,
        "mul by a Python float": lambda x: x * 0.5,
        "relu": lambda x: torch.relu(x),
        "mm": lambda x: torch.mm(x, x),
        "t (a view)": lambda x: x.t(),
        "sum over a dimension": lambda x: x.sum(1),
    }
    costs = {}
    for name, op in ops.items():
        samples: dict[str, list[float]] = {"eager": [], "recorded": []}
        for _ in range(rounds):
            for side, tensor in (("eager", here), ("recorded", there)):
                begin = time.perf_counter()
                for _ in range(calls):
                    op(tensor)
                samples[side].append((time.perf_counter() - begin) / calls * 1e6)
            sojourn.flush()
        costs[name] = {
            "recorded": statistics.median(samples["recorded"]),
            "best": min(samples["recorded"]),
            "ratio": statistics.median(a / b for a, b in zip(samples["recorded"], samples["eager"])),
        }
    return costs


@contextlib.contextmanager
def served_owner(checkout=ROOT):
    """Starts an owner in another process over ipc, on as many processors as torch has threads here. Its store needs a
    table, so it gets a tiny one."""
    processors = sorted(os.sched_getaffinity(0))[: torch.get_num_threads()]
    own = functools.partial(os.sched_setaffinity, 0, processors)
    tool = str(checkout / "build/bin/sojourn-owner")
    with tempfile.TemporaryDirectory(prefix="sojourn-bench-") as folder:
        store, address, printed = f"{folder}/store", f"ipc://{folder}/owner.sock", pathlib.Path(folder, "log")
        pathlib.Path(folder, "tiny.csv").write_text("a,b\n1,2\n3,4\n")
        imported = [tool, "import", f"{folder}/tiny.csv", "--name", "tiny", "--policy", "open", "--store", store]
        subprocess.run(imported, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        command = [tool, "serve", "--store", store, "--listen", address]
        with printed.open("w") as log:
            server = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, preexec_fn=own
            )
        try:
            for _ in range(600):
                if "listening on" in printed.read_text() or server.poll() is not None:
                    break
                time.sleep(0.05)
            if "listening on" not in printed.read_text():
                raise RuntimeError("sojourn-owner serve did not start: " + printed.read_text())
            yield sojourn.connect(address)
        finally:
            server.terminate()
            server.wait()


def settings(threads):
    blas = [line for line in torch.__config__.show().splitlines() if "BLAS" in line or "MKL" in line]
    return {
        "torch": torch.__version__,
        "threads": f"torch {torch.get_num_threads()} (OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS')})",
        "vector instructions": torch.backends.cpu.get_cpu_capability(),
        "BLAS": "mkldnn " + str(torch.backends.mkldnn.is_available()) + ("; " + blas[0].strip() if blas else ""),
        "OPENBLAS_CORETYPE": os.environ.get("OPENBLAS_CORETYPE", "unset"),
        "ATEN_CPU_CAPABILITY": os.environ.get("ATEN_CPU_CAPABILITY", "unset"),
        "GLIBC_TUNABLES": os.environ.get("GLIBC_TUNABLES", "unset"),
        "inputs": "resident on each side before timing; the loss stays on the side that computes it",
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--cases", nargs="*", choices=CASES)
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--beside", type=pathlib.Path)
    parser.add_argument("--follow", type=pathlib.Path)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.follow:
        return follow(arguments.follow)
    beside = Beside(arguments.beside, arguments.threads) if arguments.beside else None
    embedded = sojourn.local()
    cases = [CASES[name] for name in arguments.cases or CASES]
    peak = peaks()
    bar = tqdm(total=len(cases) * arguments.rounds, desc=f"bench, {arguments.threads} thread(s)", unit="round")
    with served_owner() as served, bar:
        results = [measure_case(case, embedded, served, beside, arguments, peak, bar) for case in cases]
        record = record_single_ops(embedded)
        replays = bench_replays.measure(embedded, arguments.rounds)
    if beside is not None:
        beside.end()
    result = {
        "threads": arguments.threads,
        "peaks": peak,
        "settings": settings(arguments.threads),
        "cases": results,
        "record_us": record,
        "replays_us": replays,
        "remarks": sorted(REMARKS),
    }
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
