# SPDX-License-Identifier: Apache-2.0
"""Replayed steps with an integer argument or a bound, and the same replays without; times in turns, for tools/bench.

The network is 30-64-2 with 64 rows and Adam. `looped` sends 64 steps in one round trip.
"""

import statistics
import time

import torch
import torch.nn.functional as F
from bench_models import CASES

import sojourn

AIM = 1.2
STEPS = 64
# By name: the function's use of the loss, and the same without what is measured.
PAIRS = {
    "integer, unused": (lambda loss, i: loss.detach(), lambda loss: loss.detach()),
    "integer, a factor": (lambda loss, i: (loss * i).detach(), lambda loss: (loss * 3).detach()),
    "integer, a rate": (lambda loss, i: (loss * (0.5 * 0.999**i)).detach(), lambda loss: (loss * 0.5).detach()),
    "publish(bound=)": (
        lambda loss, i: sojourn.publish(loss.detach(), bound=2.0),
        lambda loss: sojourn.publish(loss.detach()),
    ),
}


def step_of(owner, use, is_numbered):
    case = CASES["30-64-2/64"]
    model = case.model()
    optimizer = case.optimizer(model)
    sojourn.to_owner(model, owner, optimizer)

    def train(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return use(loss)

    def numbered(i, x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return use(loss, i)

    return numbered if is_numbered else train


def measure(owner, rounds):
    """Per pair and way (replayed, looped): medians of both in microseconds, and of their ratios in each round."""
    x, y = (t.to(owner.device) for t in CASES["30-64-2/64"].data())
    sojourn.flush()
    found = {}
    for name, (numbered, plain) in PAIRS.items():
        bodies = {"with": step_of(owner, numbered, True), "without": step_of(owner, plain, False)}
        ways = {
            "replayed": {side: sojourn.step(body, replay=True) for side, body in bodies.items()},
            "looped": bodies,
        }
        for way, functions in ways.items():
            times: dict[str, list[float]] = {"with": [], "without": []}
            for number in range(rounds + 3):
                for side, function in functions.items():
                    calls = [(k, x, y) if side == "with" else (x, y) for k in range(STEPS)]
                    begin = time.perf_counter()
                    if way == "looped":
                        sojourn.loop(function, calls, per_trip=STEPS)
                    else:
                        for call in calls:
                            function(*call)
                    if number >= 3:
                        times[side].append((time.perf_counter() - begin) / STEPS * 1e6)
            found[f"{name}, {way}"] = {
                "with": statistics.median(times["with"]),
                "without": statistics.median(times["without"]),
                "ratio": statistics.median(a / b for a, b in zip(times["with"], times["without"])),
            }
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name, costs in measure(sojourn.local(), 60).items():
        print(f"{name}: {costs['with']:.0f} us, without {costs['without']:.0f} us, ratio {costs['ratio']:.2f}")
