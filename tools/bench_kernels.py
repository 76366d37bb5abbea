#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures each family of kernels on one thread and on several, to show which kernels use the threads.

Two processes, one per number of threads, take turns at the same programs. Times come from the owner,
by instruction (`sojourn.local(profile=...)`), and bits are compared.
"""

import argparse
import hashlib
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADER = re.compile(r"plan \d+: (\d+) runs?, \d+ instructions?, ([\d.]+) ms")


def cases():
    """Name: inputs' shapes, and the program over them. Each takes about a millisecond on one thread."""
    import torch
    import torch.nn.functional as F

    i = torch.arange(4000) * 7919 % 4000
    along = (torch.arange(2000 * 512) * 7919 % 2000).reshape(2000, 512)
    image = (16, 32, 56, 56)
    words = torch.arange(16384) * 7919 % 5000

    def slope(function):
        """The gradient of the function's result with respect to its first argument."""

        def run(x, *more):
            x = x.detach().requires_grad_()
            y = function(x, *more)
            y.backward(torch.ones_like(y))
            return x.grad

        return run

    def slopes(function):
        """The gradients with respect to all arguments."""

        def run(*arguments):
            leaves = [x.detach().requires_grad_() for x in arguments]
            y = function(*leaves)
            y.backward(torch.ones_like(y))
            return [leaf.grad for leaf in leaves]

        return run

    return {
        "chain": ([(2000, 512)], lambda x: torch.tanh(x * 0.5 + 1) * x),
        "random": ([(2000, 512)], lambda x: x + torch.rand_like(x)),
        "take": ([(4000, 256), i], lambda x, i: x.index_select(0, i)),
        "put": ([(4000, 256), (4000, 256), i], lambda x, u, i: x.index_add(0, i, u)),
        "take_along": ([(2000, 512), along], lambda x, i: x.gather(0, i)),
        "put_along": ([(2000, 512), (2000, 512), along], lambda x, u, i: x.scatter_add(0, i, u)),
        "pad": ([(2000, 512)], lambda x: F.pad(x, (3, 5, 7, 9))),
        "concat": ([(1000, 512), (1000, 512)], lambda a, b: torch.cat([a, b], 1)),
        "transpose": ([(2000, 512)], lambda x: x.t().contiguous()),
        "scan": ([(2000, 512)], lambda x: x.cumsum(1)),
        "sort": ([(256, 512)], lambda x: x.sort(1).values),
        "topk": ([(256, 512)], lambda x: x.topk(8, 1).values),
        "max pool": ([image], lambda x: F.max_pool2d(x, 2)),
        "max pool, slope": ([image], slope(lambda x: F.max_pool2d(x, 2).square())),
        "embedding, slope": ([(5000, 128), words], slope(lambda x, i: F.embedding(i, x).square())),
        "softmax, slope": ([(2000, 512)], slope(lambda x: torch.softmax(x, 1).square())),
        "layer norm, slope": ([(2000, 512)], slope(lambda x: F.layer_norm(x, (512,)).square())),
        "average pool": ([image], lambda x: F.avg_pool2d(x, 3, 1, 1)),
        "sum": ([(2000, 512)], lambda x: x.sum(1)),
        "sum to one": ([(2000, 512)], lambda x: x.sum()),
        "max": ([(2000, 512)], lambda x: x.amax(0)),
        "product": ([(512, 512), (512, 512)], lambda a, b: a @ b),
        "small products": ([(64, 64, 64), (64, 64, 64)], lambda a, b: a @ b),
        "convolution": ([image, (32, 32, 3, 3)], lambda x, w: F.conv2d(x, w, padding=1)),
        "convolution, slope": (
            [image, (32, 32, 3, 3)],
            lambda x, w: torch.cat(
                [part.flatten() for part in slopes(lambda x, w: F.conv2d(x, w, padding=1).square())(x, w)]
            ),
        ),
        "one image": ([(1, 64, 56, 56), (64, 64, 3, 3)], lambda x, w: F.conv2d(x, w, padding=1)),
    }


def follow(threads):
    """Executes commands, line by line: begin CASE, run STEPS, end."""
    import torch

    import sojourn

    torch.set_num_threads(threads)
    known = cases()
    print(json.dumps(list(known)), flush=True)
    for line in sys.stdin:
        word, _, rest = line.strip().partition(" ")
        answer: str | float | None = None
        if word == "begin":
            shapes, body = known[rest]
            folder = tempfile.TemporaryDirectory(prefix="sojourn-bench-")
            owner = sojourn.local(profile=folder.name)
            torch.manual_seed(0)
            host = [entry if isinstance(entry, torch.Tensor) else torch.randn(entry) for entry in shapes]
            inputs = [tensor.to(owner.device) for tensor in host]
            sojourn.flush()
            with sojourn.step():
                value = sojourn.publish(body(*inputs))
            answer = hashlib.sha256(value.value.numpy().tobytes()).hexdigest() if rest != "random" else ""
        elif word == "run":
            for _ in range(int(rest)):
                with sojourn.step():
                    result = body(*inputs)
                del result
        else:
            del inputs
            owner.close()
            del owner
            texts = [file.read_text() for file in pathlib.Path(folder.name).glob("plan-*.txt")]
            runs, total = max((int(match[1]), float(match[2])) for text in texts if (match := HEADER.match(text)))
            folder.cleanup()
            answer = total / runs * 1e3
        print(json.dumps(answer), flush=True)


class Worker:
    def __init__(self, threads):
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads), PYTHONPATH=str(ROOT / "build/python"))
        command = [sys.executable, __file__, "--follow", str(threads)]
        self.process: Any = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.cases = self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"bench_kernels: a worker failed with exit code {self.process.wait()}")
        return json.loads(line)

    def ask(self, question):
        self.process.stdin.write(question + "\n")
        self.process.stdin.flush()
        return self.answer()


def main():
    parser = argparse.ArgumentParser(prog="tools/bench_kernels.py", description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2, help="the second number of threads (2)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each case (5)")
    parser.add_argument("--steps", type=int, default=60, help="steps per round (60)")
    parser.add_argument("--cases", nargs="*", help="only these cases")
    parser.add_argument("--follow", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.follow:
        return follow(arguments.follow)
    workers = [Worker(1), Worker(arguments.threads)]
    unknown = set(arguments.cases or []) - set(workers[0].cases)
    if unknown:
        parser.error(f"unknown cases: {', '.join(sorted(unknown))}; expected {', '.join(workers[0].cases)}")
    print(f"{os.cpu_count()} cores, medians of {arguments.rounds} rounds of {arguments.steps} steps, microseconds\n")
    print(f"{'kernel':18}{'1 thread':>12}{f'{arguments.threads} threads':>12}{'speedup':>9}  bits")
    for case in arguments.cases or workers[0].cases:
        times, same = [], True
        for _ in range(arguments.rounds):
            digests = [worker.ask(f"begin {case}") for worker in workers]
            same = same and digests[0] == digests[1]
            for worker in workers:
                worker.ask(f"run {arguments.steps}")
            times.append([worker.ask("end") for worker in workers])
        one, several = (statistics.median(column) for column in zip(*times))
        speedup = statistics.median(a / b for a, b in times)
        print(
            f"{case:18}{one:12.0f}{several:12.0f}{speedup:9.2f}  {'' if case == 'random' else 'equal' if same else 'DIFFERENT'}",
            flush=True,
        )


if __name__ == "__main__":
    main()
