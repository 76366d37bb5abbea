#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures a served owner with many clients: small steps per second, times of their replies and fairness.

It also measures them beside clients with large steps, and the time until a server listens. Clients are threads of
`bench-serving` and connect over ipc (`--tls`: and over TLS), without an identity. `--beside FOLDER` measures server and
clients of another built checkout in the same rounds, in turns.
"""

import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from rich.console import Console
from rich.table import Table

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Clients with small steps, with large ones.
CASES = [(1, 0), (4, 0), (16, 0), (64, 0), (8, 16)]


def serve(root, folder, over_tls):
    """A server that listens, and the seconds that it took for that."""
    address, printed = f"ipc://{folder}/owner.sock", pathlib.Path(folder, "log")
    if over_tls:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            address = f"tls+tcp://127.0.0.1:{probe.getsockname()[1]}"
    command = [root / "build/bin/sojourn-owner", "serve", "--store", f"{folder}/store", "--listen", address]
    with printed.open("w") as log:
        begin = time.perf_counter()
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
    while "listening on" not in printed.read_text():
        if server.poll() is not None:
            sys.exit("bench_serving: no owner: " + printed.read_text())
        time.sleep(0.002)
    return server, address, time.perf_counter() - begin


def measure(root, over_tls, small, large, seconds):
    with tempfile.TemporaryDirectory(prefix="sojourn-bench-") as folder:
        server, address, ready = serve(root, folder, over_tls)
        try:
            command = [root / "build/bin/bench-serving", address, small, large, seconds]
            environment = dict(os.environ, OPENBLAS_NUM_THREADS="1", XDG_CONFIG_HOME=folder)
            done = subprocess.run(
                [str(word) for word in command], capture_output=True, text=True, timeout=600, env=environment
            )
            if done.returncode != 0:
                sys.exit(f"bench_serving: {done.stderr}")
            return json.loads(done.stdout) | {"ready_s": ready}
        finally:
            server.kill()
            server.wait()


def main():
    parser = argparse.ArgumentParser(prog="tools/bench_serving.py", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each case (3)")
    parser.add_argument("--seconds", type=float, default=4, help="seconds of each measurement (4)")
    parser.add_argument("--beside", type=pathlib.Path, metavar="FOLDER", help="another built checkout")
    parser.add_argument("--tls", action="store_true", help="also over TLS")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="also write the results here")
    arguments = parser.parse_args()
    roots = {"this": (ROOT, False)}
    if arguments.tls:
        roots["this, TLS"] = (ROOT, True)
    if arguments.beside:
        roots["beside"] = (arguments.beside.resolve(), False)
    results = []
    for small, large in CASES:
        found: dict = {name: [] for name in roots}
        for number in range(arguments.rounds):
            for name in sorted(roots, reverse=number % 2 == 0):  # who goes first alternates
                found[name].append(measure(*roots[name], small, large, arguments.seconds))
        for name, rounds in found.items():
            medians = {key: statistics.median(each[key] for each in rounds) for key in rounds[0]}
            results.append({"small": small, "large": large, "server": name} | medians)
            print(results[-1], file=sys.stderr, flush=True)
    table = Table(title="small steps at a served owner (medians)", title_justify="left")
    titles = ("small clients", "large clients", "server", "steps/s", "p50 us", "p99 us", "fairness", "ready s")
    for title in titles:
        table.add_column(title, justify="right")
    for each in results:
        numbers = (f"{each['steps_per_second']:.0f}", f"{each['p50_us']:.0f}", f"{each['p99_us']:.0f}")
        cells = (*numbers, f"{each['fairness']:.2f}", f"{each['ready_s']:.2f}")
        table.add_row(str(each["small"]), str(each["large"]), each["server"], *cells)
    Console(width=None if sys.stdout.isatty() else 120).print(table)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
