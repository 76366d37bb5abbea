# SPDX-License-Identifier: Apache-2.0
"""Steps of sojourn.numpy beside NumPy on the same values: ten programs, and the time to record a call.

The programs are those of test/python/arrays/programs, at sizes where NumPy takes a millisecond or more. Each runs as one
replayed step in one round trip; times are taken in turns.
"""

from __future__ import annotations

import pathlib
import statistics
import sys
import time
import types
from typing import Any

import numpy
import torch

import sojourn
import sojourn.numpy as np

PROGRAMS = pathlib.Path(__file__).resolve().parent.parent / "test/python/arrays/programs"
STEP_AIM, RECORD_AIM = 1.1, 2.0  # ratio; microseconds more than torch's call
SEED = 7


def load(path: pathlib.Path, is_remote: bool):
    """A program's module; of the remote one the import is another, and nothing else."""
    source = path.read_text()
    if is_remote:
        source = source.replace("import numpy as np\n", "import sojourn.numpy as np\n")
    module = types.ModuleType(path.stem)
    exec(compile(source, str(path), "exec"), module.__dict__)
    return module


def sized(module) -> tuple[float, dict]:
    """The smallest scale at which NumPy takes a millisecond, and inputs of it."""
    for scale in (1, 2, 4, 8, 16, 32, 64):
        inputs = module.inputs(numpy.random.default_rng(SEED), scale)
        module.run(**inputs)
        begin = time.perf_counter()
        module.run(**inputs)
        if time.perf_counter() - begin >= 1e-3:
            break
    return scale, inputs


def programs(owner, rounds: int) -> dict[str, dict]:
    """Per program: medians in milliseconds, and of the ratios of each round."""
    found = {}
    for path in sorted(PROGRAMS.glob("*.py")):
        plain, remote = load(path, False), load(path, True)
        scale, inputs = sized(plain)
        step = sojourn.step(remote.run, replay=True)
        given = {name: np.asarray(value, device=owner) for name, value in inputs.items()}

        def at_owner():
            step(**given)

        for _ in range(4):
            at_owner()
        before = sojourn.counters()["round_trips"]
        at_owner()
        trips = sojourn.counters()["round_trips"] - before
        times: dict[str, list[float]] = {"numpy": [], "owner": []}
        for _ in range(rounds):
            for name, function in (("numpy", lambda: plain.run(**inputs)), ("owner", at_owner)):
                begin = time.perf_counter()
                function()
                times[name].append(time.perf_counter() - begin)
        ratios = [a / b for a, b in zip(times["owner"], times["numpy"])]
        found[path.stem] = {
            "scale": scale, "numpy": 1e3 * statistics.median(times["numpy"]),
            "owner": 1e3 * statistics.median(times["owner"]), "ratio": statistics.median(ratios), "trips": trips,
        }  # fmt: skip
    return found


def recording(owner, rounds: int) -> dict[str, tuple[float, float]]:
    """Microseconds to record a call of torch's, and the same call of NumPy's."""
    x: Any = np.asarray(numpy.ones(4), device=owner)
    t = x.tensor
    x_mask: Any = x > 0
    t_mask = x_mask.tensor
    calls = {
        "add": (lambda: torch.add(t, t), lambda: np.add(x, x)), "x * 2": (lambda: t * 2, lambda: x * 2),
        "exp": (lambda: torch.exp(t), lambda: np.exp(x)), "x < 1": (lambda: t < 1, lambda: x < 1),
        "sum": (lambda: torch.sum(t), lambda: np.sum(x)), "x[1:]": (lambda: t[1:], lambda: x[1:]),
        "mean, axis 0": (lambda: torch.mean(t, 0), lambda: np.mean(x, axis=0)),
        "where": (lambda: torch.where(t_mask, t, 0.0), lambda: np.where(x_mask, x, 0.0)),
        "reshape": (lambda: t.reshape(2, 2), lambda: np.reshape(x, (2, 2))),
        "concatenate": (lambda: torch.cat([t, t]), lambda: np.concatenate([x, x])),
    }  # fmt: skip
    found: dict[str, list[list[float]]] = {name: [[], []] for name in calls}
    count = 200

    @sojourn.step
    def record():
        for name, pair in calls.items():
            for at, call in enumerate(pair):
                begin = time.perf_counter()
                for _ in range(count):
                    call()
                found[name][at].append(1e6 * (time.perf_counter() - begin) / count)

    for _ in range(rounds):
        record()
    return {name: (statistics.median(a), statistics.median(b)) for name, (a, b) in found.items()}


def measure(rounds: int) -> dict:
    """Both parts, at an owner in this process."""
    torch.set_num_threads(1)
    with sojourn.local() as owner, np.on(owner):
        return {"programs": programs(owner, rounds), "recording": recording(owner, rounds)}


def show(found: dict) -> None:
    print(f"\nprograms of NumPy's as one replayed step (aim: at most {STEP_AIM} of NumPy)")
    print(f"  {'program':<12} {'scale':>5} {'NumPy ms':>9} {'step ms':>9} {'ratio':>6}  trips")
    for name, row in found["programs"].items():
        mark = "" if row["ratio"] <= STEP_AIM else "  above the aim"
        print(
            f"  {name:<12} {row['scale']:>5} {row['numpy']:>9.2f} {row['owner']:>9.2f} {row['ratio']:>6.2f}  {row['trips']}{mark}"
        )
    print(f"\nrecording a call, us (aim: at most {RECORD_AIM} more than torch's)")
    for name, (theirs, ours) in found["recording"].items():
        mark = "" if ours - theirs <= RECORD_AIM else "  above the aim"
        print(f"  {name:<14} torch {theirs:5.2f}  NumPy {ours:5.2f}  + {ours - theirs:5.2f}{mark}")


if __name__ == "__main__":
    show(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 9))
