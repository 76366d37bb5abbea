#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures several clients at one served owner: throughput of one and of two streams of steps, and
the owner's memory after 100 programs that each need a large arena.

Clients are separate processes and connect over ipc. `--beside FOLDER` measures another built
checkout in the same rounds, in turns, so that a noisy moment affects both.
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Name: layer sizes, batch. Recording a step takes about as long as running a small one.
CASES = {
    "small": ((30, 64, 2), 64),
    "medium": ((784, 256, 256, 10), 64),
    "large": ((784, 1024, 1024, 10), 512),
}


def client_main(address, case):
    """One stream: answers `run SECONDS` on standard input with the number of steps that it ran."""
    import torch
    import torch.nn.functional as F
    from torch import nn

    import sojourn

    torch.set_num_threads(1)
    torch.manual_seed(0)
    owner = sojourn.connect(address)
    if case == "plans":
        return many_plans(owner)
    sizes, batch = CASES[case]
    layers = [part for a, b in zip(sizes, sizes[1:]) for part in (nn.Linear(a, b), nn.ReLU())]
    model = nn.Sequential(*layers[:-1])
    x, y = torch.randn(batch, sizes[0]), torch.randint(sizes[-1], (batch,))
    optimizer = torch.optim.Adam(model.parameters())
    sojourn.to_owner(model, owner, optimizer)
    x, y = x.to(owner.device), y.to(owner.device)
    sojourn.flush()

    @sojourn.step
    def train(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    for _ in range(5):
        train(x, y)
    print("ready", flush=True)
    for line in sys.stdin:
        end = time.perf_counter() + float(line.split()[1])
        begin, steps = time.perf_counter(), 0
        while time.perf_counter() < end:
            train(x, y)
            steps += 1
        print(json.dumps({"steps": steps, "seconds": time.perf_counter() - begin}), flush=True)


def many_plans(owner, count=100, elements=2_000_000):
    """Programs of different sizes, so that each has a separate plan."""
    import torch

    import sojourn

    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(count):
        with sojourn.step():
            ramp = torch.ones(elements + number, device=owner.device).cumsum(0)
            total = sojourn.publish((ramp.cumsum(0) - ramp).amax())
        expected = (elements + number) * (elements + number - 1) / 2
        assert abs(float(total) / expected - 1) < 1e-2, (float(total), expected)
        del ramp, total
    print(json.dumps({"steps": count}), flush=True)
    sys.stdin.readline()


class Client:
    def __init__(self, root, address, case):
        environment = dict(os.environ, PYTHONPATH=str(root / "build/python"), OMP_NUM_THREADS="1")
        command = [sys.executable, __file__, "--client", address, case]
        self.process: Any = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"bench_parallel: a client failed with exit code {self.process.wait()}")
        return line.strip()

    def tell(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def end(self):
        self.process.stdin.close()
        self.process.wait()


@contextlib.contextmanager
def served(root):
    """Starts an owner of a checkout and returns its address and process."""
    tool = root / "build/bin/sojourn-owner"
    with tempfile.TemporaryDirectory(prefix="sojourn-bench-") as folder:
        address, printed = f"ipc://{folder}/owner.sock", pathlib.Path(folder, "log")
        command = [tool, "serve", "--store", f"{folder}/store", "--listen", address]
        with printed.open("w") as log:
            server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        try:
            while "listening on" not in printed.read_text():
                if server.poll() is not None:
                    sys.exit("bench_parallel: no owner: " + printed.read_text())
                time.sleep(0.05)
            yield address, server
        finally:
            server.terminate()
            server.wait()


def throughput(clients, seconds):
    """Steps per second of all clients together."""
    for client in clients:
        client.tell(f"run {seconds}")
    counts = [json.loads(client.answer()) for client in clients]
    return sum(count["steps"] / count["seconds"] for count in counts)


def measure_case(roots, case, arguments):
    with contextlib.ExitStack() as stack:
        streams = {}
        for name, root in roots.items():
            address, _ = stack.enter_context(served(root))
            streams[name] = [Client(root, address, case) for _ in range(2)]
            for client in streams[name]:
                stack.callback(client.end)
                client.answer()
        rounds: dict = {name: [] for name in roots}
        for number in range(arguments.rounds):
            # Who goes first alternates.
            for name, clients in sorted(streams.items(), reverse=number % 2 == 0):
                one = throughput(clients[:1], arguments.seconds)
                rounds[name].append((one, throughput(clients, arguments.seconds)))
    found = {
        name: {
            "one": statistics.median(one for one, _ in pairs),
            "two": statistics.median(two for _, two in pairs),
            "ratio": statistics.median(two / one for one, two in pairs),
        }
        for name, pairs in rounds.items()
    }
    if "beside" in rounds:
        # By rounds, for a slow moment of the machine hits both.
        pairs = list(zip(rounds["this"], rounds["beside"]))
        found["this / beside"] = {
            "one": statistics.median(this[0] / beside[0] for this, beside in pairs),
            "two": statistics.median(this[1] / beside[1] for this, beside in pairs),
        }
    return found


def memory(server, key):
    for line in pathlib.Path(f"/proc/{server.pid}/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) / 1024
    return float("nan")


def measure_plans(roots):
    result = {}
    for name, root in roots.items():
        with served(root) as (address, server):
            client = Client(root, address, "plans")
            client.answer()
            before = memory(server, "VmRSS")
            client.tell("go")
            client.answer()
            result[name] = {"before": before, "after": memory(server, "VmRSS"), "peak": memory(server, "VmHWM")}
            client.tell("end")
            client.end()
    return result


def main():
    parser = argparse.ArgumentParser(prog="tools/bench_parallel.py", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7, help="rounds of each case (7)")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of one measurement (1)")
    parser.add_argument("--cases", nargs="*", default=[*CASES, "plans"], choices=[*CASES, "plans"])
    parser.add_argument("--beside", type=pathlib.Path, help="another built checkout, measured in turns")
    parser.add_argument("--client", nargs=2, metavar=("ADDRESS", "CASE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.client:
        return client_main(*arguments.client)
    roots = {"this": ROOT} | ({"beside": arguments.beside.resolve()} if arguments.beside else {})
    print(f"{os.cpu_count()} cores, {arguments.rounds} rounds of {arguments.seconds:g} s, medians\n")
    print(f"{'steps per second':24}{'one stream':>12}{'two streams':>12}{'ratio':>8}")
    for case in arguments.cases:
        if case != "plans":
            for name, found in measure_case(roots, case, arguments).items():
                ratio = f"{found['ratio']:8.2f}" if "ratio" in found else ""
                form = "12.1f" if ratio else "12.2f"
                print(f"{case + ', ' + name:24}{found['one']:{form}}{found['two']:{form}}{ratio}", flush=True)
    if "plans" in arguments.cases:
        print(f"\n{'owner, MiB resident':24}{'at start':>12}{'100 plans':>12}{'peak':>8}")
        for name, found in measure_plans(roots).items():
            print(f"{name:24}{found['before']:12.0f}{found['after']:12.0f}{found['peak']:8.0f}")


if __name__ == "__main__":
    main()
