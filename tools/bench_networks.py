# SPDX-License-Identifier: Apache-2.0
"""Networks on images over served owners, beside their bounds: `tools/bench --parties --networks`.

Joint steps, in the clear and under masks, are taken in turns with the members' steps on their own rows. A bound is made
of parts that are measured alone: the bytes between members over one Unix socket between two processes, one member's
masks after another on the machine's cores, and the round trip of a head and its fields over such a socket. "waits" is
the time that a step which adds up one number of each member takes beyond such steps of the members alone.

Loops of the first network are compared with the members' own loops, which run at the same time.

Then the mean of a model's copies at three owners, beside a move of as many bytes from owner to owner; and rounds of local
training, beside those of Flower where `--flower` names a Python that has it (bench_flower.py).
"""

import concurrent.futures
import contextlib
import ctypes
import ctypes.util
import itertools
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from rich.console import Console
from rich.table import Table
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "build/python"))

from bench_groups import training
from members import Members

import sojourn

console = Console(width=160)
ROWS, CLASSES = 1_920, 10
MEMBERS = (2, 3, 5)
FRAME_BYTES = 32 + 128  # of a frame without terms
#: Of the bound of a network whose sums are large, and of the mean of copies.
LINKS_MOST, COPIES_MOST = 1.3, 2.5
#: Of a joint loop beside the members' own ones; steps of a loop, and of a message.
LOOP_MOST, LOOP_STEPS, LOOP_TRIP = 1.4, 256, 64


@dataclass(frozen=True)
class Case:
    name: str
    network: Callable[[], nn.Module]
    size: int
    shape: tuple[int, ...]  # of the column of a row
    bound: str  # "links": own + 1.3 x (bytes and masks); "trips": own + two round trips; "own": 1.25 x own


CASES = (
    Case("MLP 32-64-2", lambda: nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 2)), 64, (32,), "trips"),
    Case(
        "MLP 784-256-256-10",
        lambda: nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, CLASSES)),
        96,
        (784,),
        "links",
    ),
    Case(
        "CNN 28x28",
        lambda: nn.Sequential(
            nn.Conv2d(1, 16, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 16, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(256, CLASSES),
        ),
        96,
        (1, 28, 28),
        "own",
    ),
)


def columns(case: Case, rows: int, seed: int) -> dict[str, torch.Tensor]:
    x = torch.randn(rows, *case.shape, generator=torch.Generator().manual_seed(seed))
    return {"x": x, "y": (x.flatten(1).sum(1) > 0).long()}


class RawLink:
    """A Unix socket to a process that reads all, and answers with a byte."""

    def __init__(self):
        self.near, far = socket.socketpair()
        self.child = os.fork()
        if self.child == 0:
            self.near.close()
            with contextlib.suppress(OSError):
                self._echo(far)
            os._exit(0)
        far.close()

    @staticmethod
    def _echo(far) -> None:
        memory = memoryview(bytearray(1 << 20))
        while head := far.recv(8, socket.MSG_WAITALL):
            left = int.from_bytes(head, "little")
            while left > 0:
                left -= far.recv_into(memory, min(left, len(memory)))
            far.sendall(b"!")

    def seconds(self, size: int) -> float:
        """Of so many bytes there, and one back."""
        data = b"x" * size
        begin = time.perf_counter()
        self.near.sendall(size.to_bytes(8, "little") + data[:FRAME_BYTES])
        self.near.sendall(memoryview(data)[FRAME_BYTES:])
        self.near.recv(1)
        return time.perf_counter() - begin

    def close(self) -> None:
        self.near.close()
        os.waitpid(self.child, 0)


def masks_seconds(size: int, members: int) -> float:
    """Of the streams of all members for terms of so many bytes each, on as many cores as there are."""
    sodium = ctypes.CDLL(ctypes.util.find_library("sodium"))
    out, key = ctypes.create_string_buffer(max(1, size)), bytes(40)
    begin = time.perf_counter()
    for _ in range(members - 1):
        sodium.crypto_stream_chacha20(out, ctypes.c_ulonglong(size), key[:8], key[8:])
    return (time.perf_counter() - begin) * members / min(members, os.cpu_count() or 1)


def replayed(places, size: int) -> Callable[[], float]:
    """A step of models on tables, all in one message to each owner; returns its seconds. Without a model: a sum."""
    models = [model for model, _ in places]
    optimizers = [model and torch.optim.SGD(model.parameters(), lr=0.01) for model in models]

    @sojourn.step(replay=True)
    def train(*batches):
        losses = []
        for (x, y), model, optimizer in zip(batches, models, optimizers):
            if model is None or optimizer is None:
                losses.append(y.sum())
                continue
            optimizer.zero_grad()
            losses.append(nn.functional.cross_entropy(model(x), y))
            losses[-1].backward()
            optimizer.step()
        return losses

    drawn = [iter(table.batches("x", label="y", size=size, epochs=10_000, drop_last=True)) for _, table in places]

    def take() -> float:
        batches = [next(each) for each in drawn]
        begin = time.perf_counter()
        train(*batches)
        return time.perf_counter() - begin

    for _ in range(6):  # traced, then replayed
        take()
    return take


def measure_case(case: Case, members: int, rounds: int, folder: pathlib.Path, tick) -> dict:
    tables = [columns(case, ROWS // members, at) for at in range(members)]
    with Members(folder, tables, "t") as served, contextlib.ExitStack() as ends:
        owners = [ends.enter_context(sojourn.connect(address)) for address in served.addresses]
        torch.manual_seed(0)
        own = [(case.network().to(owner.device), owner.dataset("t")) for owner in owners]
        steps = {"own": replayed(own, max(1, case.size // members))}
        steps["sum_own"] = replayed([(None, owner.dataset("t")) for owner in owners], 1)
        for kind in ("clear", "masked")[: 2 if members > 2 else 1]:
            group = sojourn.parties(*owners, sums=kind)
            ends.callback(group.close)
            steps[kind] = replayed([(case.network().to(group.device), group.rows("t"))], case.size)
            if kind == "clear":
                steps["sum"] = replayed([(None, group.rows("t"))], members)
        between = {}
        for kind, take in steps.items():
            before = served.bytes_between()
            for _ in range(4):
                take()
            between[kind] = (served.bytes_between() - before) // 4
        link = RawLink()
        ends.callback(link.close)
        taken: dict[str, list[float]] = {kind: [] for kind in (*steps, "trip", "masks", *map("bytes_{}".format, steps))}
        numbers = sum(parameter.numel() for parameter in case.network().parameters())
        for _ in range(rounds):
            for kind, take in steps.items():
                taken[kind].append(take())
                taken[f"bytes_{kind}"].append(link.seconds(max(FRAME_BYTES, between[kind])))
            taken["trip"].append(min(link.seconds(FRAME_BYTES) for _ in range(10)))
            taken["masks"].append(masks_seconds(8 * numbers, members))
            tick()
    us = {kind: 1e6 * statistics.median(times) for kind, times in taken.items()}
    kinds = [kind for kind in steps if kind in ("clear", "masked")]
    return {
        "network": case.name,
        "members": members,
        "bound": case.bound,
        "us": us,
        "between": between,
        "waits": 1e6 * statistics.median(a - b for a, b in zip(taken["sum"], taken["sum_own"])),
        "ratio": {kind: statistics.median(a / b for a, b in zip(taken[kind], taken["own"])) for kind in kinds},
        "of_bound": {kind: us[kind] / bound_of(case.bound, us, kind) for kind in kinds},
    }


def bound_of(bound: str, us: dict[str, float], kind: str) -> float:
    if bound == "own":
        return 1.25 * us["own"]
    if bound == "trips":
        return us["own"] + 2 * us["trip"]
    return us["own"] + LINKS_MOST * (us[f"bytes_{kind}"] + (us["masks"] if kind == "masked" else 0))


def looped(model: nn.Module, table, size: int) -> Callable[[], float]:
    """Trains in messages of some steps; returns the seconds of a step."""
    train = training(model)
    drawn = iter(table.batches("x", label="y", size=size, epochs=100_000, drop_last=True))

    def take() -> float:
        begin = time.perf_counter()
        sojourn.loop(train, itertools.islice(drawn, LOOP_STEPS), per_trip=LOOP_TRIP)
        return (time.perf_counter() - begin) / LOOP_STEPS

    take()  # traced, then replayed
    return take


def measure_loops(members: int, rounds: int, folder: pathlib.Path, tick) -> dict:
    case = CASES[0]
    tables = [columns(case, ROWS // members, at) for at in range(members)]
    with Members(folder, tables, "t") as served, contextlib.ExitStack() as ends:
        owners = [ends.enter_context(sojourn.connect(address)) for address in served.addresses]
        torch.manual_seed(0)
        share = max(1, case.size // members)
        own = [looped(case.network().to(owner.device), owner.dataset("t"), share) for owner in owners]
        pool = ends.enter_context(concurrent.futures.ThreadPoolExecutor(members))
        joint = {}
        for kind in ("clear", "masked") if members >= 3 else ("clear",):
            group = sojourn.parties(*owners, sums=kind)
            ends.callback(group.close)
            joint[kind] = looped(case.network().to(group.device), group.rows("t"), case.size)
        taken: dict[str, list[float]] = {kind: [] for kind in ("own", *joint)}
        for _ in range(rounds):
            taken["own"].append(max(pool.map(lambda take: take(), own)))
            for kind, take in joint.items():
                taken[kind].append(take())
            tick()
    us = {kind: 1e6 * statistics.median(times) for kind, times in taken.items()}
    ratio = {kind: statistics.median(a / b for a, b in zip(taken[kind], taken["own"])) for kind in joint}
    return {"members": members, "us": us, "ratio": ratio}


def measure_average(rounds: int, folder: pathlib.Path, tick) -> dict:
    """The mean of three copies of 2.5 million numbers, beside a move of as many from one owner to another over the same
    links, and their bytes over a socket."""
    torch.manual_seed(0)
    side = 1_581
    network = nn.Linear(side, side)
    with Members(folder, [{"y": torch.arange(4)}] * 3, "t") as served, contextlib.ExitStack() as ends:
        owners = [ends.enter_context(sojourn.connect(address)) for address in served.addresses]
        group = ends.enter_context(contextlib.closing(sojourn.parties(*owners)))
        copies = {owner: nn.Linear(side, side).to(owner.device) for owner in owners}
        ends.enter_context(contextlib.closing(sojourn.parties(*owners[:2])))
        model = network.to(group.device)
        value = torch.randn(side, side + 1).to(owners[0].device)
        sojourn.flush()
        link = RawLink()
        ends.callback(link.close)
        size = 4 * sum(parameter.numel() for parameter in network.parameters())
        taken: dict[str, list[float]] = {"average": [], "move": [], "socket": []}
        for number in range(rounds + 3):
            begin = time.perf_counter()
            sojourn.average(model, copies)
            sojourn.flush()
            times = {"average": time.perf_counter() - begin, "socket": link.seconds(size)}
            begin = time.perf_counter()
            value.to(owners[1].device)
            times["move"] = time.perf_counter() - begin
            for kind, seconds in times.items():
                if number >= 3:
                    taken[kind].append(seconds)
            tick()
        before = served.bytes_between()
        sojourn.average(model, copies)
        sojourn.flush()
        between = served.bytes_between() - before
    ms = {kind: 1e3 * statistics.median(times) for kind, times in taken.items()}
    ratio = statistics.median(a / b for a, b in zip(taken["average"], taken["move"]))
    return {"bytes": size, "between": between, "ms": ms, "ratio": ratio}


#: Of a round of local training: owners, rows of each, rows of a step, steps. As bench_flower.py has them.
ROUND_OWNERS, ROUND_ROWS, ROUND_SIZE, ROUND_STEPS = 3, 640, 32, 8


def measure_round(rounds: int, folder: pathlib.Path, tick) -> list[float]:
    """Seconds of rounds of local steps at three owners, each followed by the mean of their models, which all of them
    have."""
    case = CASES[1]
    tables = [columns(case, ROUND_ROWS, at) for at in range(ROUND_OWNERS)]
    with Members(folder, tables, "t") as served, contextlib.ExitStack() as ends:
        owners = [ends.enter_context(sojourn.connect(address)) for address in served.addresses]
        group = ends.enter_context(contextlib.closing(sojourn.parties(*owners)))
        torch.manual_seed(0)
        model = case.network().to(group.device)
        copies = {owner: case.network().to(owner.device) for owner in owners}
        take = replayed([(copies[owner], owner.dataset("t")) for owner in owners], ROUND_SIZE)
        seconds = []
        for _ in range(rounds + 2):
            begin = time.perf_counter()
            for _ in range(ROUND_STEPS):
                take()
            sojourn.average(model, copies)
            for copy in copies.values():
                copy.load_state_dict(model.state_dict())
            sojourn.flush()
            seconds.append(time.perf_counter() - begin)
            tick()
    return seconds[2:]


def flower_rounds(python: str, rounds: int) -> list[float]:
    """The same of Flower, by a Python that has it; torch is this one's."""
    variables = {**os.environ, "PYTHONPATH": str(pathlib.Path(torch.__file__).parents[1])}
    command = [python, str(pathlib.Path(__file__).with_name("bench_flower.py")), str(rounds + 1)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{python} runs no rounds of Flower (flwr[simulation]==1.42.0):\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])[1:]  # its processes start in the first


def measure(rounds: int, flower: str | None = None) -> dict:
    torch.set_num_threads(1)
    from rich.progress import Progress

    cases = [(case, members) for case in CASES for members in MEMBERS]
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task("networks", total=(len(cases) + len(MEMBERS) + 2) * rounds + 5)
        found = []
        for case, members in cases:
            with tempfile.TemporaryDirectory(prefix="sojourn-bench-") as folder:
                progress.update(bar, description=f"{case.name}, {members} owners")
                found.append(measure_case(case, members, rounds, pathlib.Path(folder), lambda: progress.advance(bar)))
        loops = []
        for members in MEMBERS:
            with tempfile.TemporaryDirectory(prefix="sojourn-bench-") as folder:
                progress.update(bar, description=f"loops, {members} owners")
                loops.append(measure_loops(members, rounds, pathlib.Path(folder), lambda: progress.advance(bar)))
        with tempfile.TemporaryDirectory(prefix="sojourn-bench-") as folder:
            progress.update(bar, description="mean of copies")
            average = measure_average(rounds, pathlib.Path(folder), lambda: progress.advance(bar))
        with tempfile.TemporaryDirectory(prefix="sojourn-bench-") as folder:
            progress.update(bar, description="local rounds")
            local = {"sojourn": measure_round(rounds, pathlib.Path(folder), lambda: progress.advance(bar))}
            local |= {"flower": flower_rounds(flower, rounds)} if flower else {}
    return {"networks": found, "loops": loops, "average": average, "rounds": local}


BOUNDS = {
    "own": "1.25 x own",
    "trips": "own + 2 round trips",
    "links": f"own + {LINKS_MOST} (bytes + masks)",
}


def show(found: dict) -> None:
    table = Table(title="replayed training steps of served owners, beside their bounds (medians of paired rounds)")
    titles = (
        "network",
        "owners",
        "own us",
        "sums",
        "joint us",
        "/own",
        "between, B",
        "bytes us",
        "masks us",
        "trip us",
        "waits us",
    )
    for title in (*titles, "bound", "/bound"):
        table.add_column(title, justify="left" if title in ("network", "bound", "sums") else "right")
    for case in found["networks"]:
        us = case["us"]
        for kind, ratio in case["ratio"].items():
            table.add_row(
                case["network"],
                str(case["members"]),
                f"{us['own']:.0f}",
                kind,
                f"{us[kind]:.0f}",
                f"{ratio:.2f}",
                f"{case['between'][kind]:.0f}",
                f"{us[f'bytes_{kind}']:.0f}",
                f"{us['masks']:.0f}" if kind == "masked" else "-",
                f"{us['trip']:.0f}",
                f"{case['waits']:.0f}",
                BOUNDS[case["bound"]],
                f"{case['of_bound'][kind]:.2f}",
            )
    console.print(table)
    for loop in found["loops"]:
        for kind, ratio in loop["ratio"].items():
            console.print(
                f"step of a loop of {CASES[0].name}, {loop['members']} owners, {kind}: {loop['us'][kind]:.0f} us; own "
                f"loops: {loop['us']['own']:.0f} us; {ratio:.2f} times them (bound: {LOOP_MOST})",
                highlight=False,
            )
    average = found["average"]
    console.print(
        f"mean of copies of {average['bytes'] / 1e6:.1f} MB at three owners: {average['ms']['average']:.1f} ms, "
        f"{average['between'] / 1e6:.1f} MB between them; a move of as many bytes between two of them: "
        f"{average['ms']['move']:.1f} ms; {average['ratio']:.2f} times it (bound: {COPIES_MOST}); over a bare socket: "
        f"{average['ms']['socket']:.1f} ms",
        highlight=False,
    )
    for name, seconds in found["rounds"].items():
        console.print(
            f"round of {ROUND_STEPS} local steps of {CASES[1].name} at each of {ROUND_OWNERS}, {name}: "
            f"{1e3 * statistics.median(seconds):.1f} ms",
            highlight=False,
        )
