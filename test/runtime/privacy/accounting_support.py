# SPDX-License-Identifier: Apache-2.0
"""What the tests of prices share: the driver `prices` (SOJOURN_PRICES names another build's), fresh numbers, lists of
events whose total is of a practical size."""

import json
import math
import os
import pathlib
import random
import subprocess

import dp_accounting
import mpmath
import pytest
from dp_accounting import rdp

ROOT = pathlib.Path(__file__).resolve().parents[3]
DRIVER = os.environ.get("SOJOURN_PRICES", ROOT / "build/bin/prices")
ORDERS = [2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024]
UNIT = 2.0**-40

mp = mpmath.mp.clone()
mp.dps = 50


@pytest.fixture(name="fresh")
def fresh_numbers():
    """Fresh numbers each run; pytest shows the seed when a test fails. SOJOURN_TEST_SEED repeats it."""
    seed = int(os.environ.get("SOJOURN_TEST_SEED", random.SystemRandom().randrange(2**32)))
    print(f"SOJOURN_TEST_SEED={seed}")
    return random.Random(seed)


def log_uniform(fresh, low, high):
    return math.exp(fresh.uniform(math.log(low), math.log(high)))


def ask(questions):
    lines = "".join(json.dumps(question) + "\n" for question in questions)
    run = subprocess.run([DRIVER], input=lines, capture_output=True, text=True, check=True)
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(answers) == len(questions)
    return answers


def exact_pure(order, epsilon):
    p = 1 / (1 + mp.exp(-mp.mpf(epsilon)))
    return mp.log(p**order * (1 - p) ** (1 - order) + (1 - p) ** order * p ** (1 - order)) / (order - 1)


def divergences_of(events, orders):
    """By dp-accounting; randomised response, which pure costs are, by mpmath."""
    accountant = rdp.RdpAccountant(orders=orders)
    responses = [0.0] * len(orders)
    for kind, given, count in events:
        if kind == "gaussian":
            accountant.compose(dp_accounting.GaussianDpEvent(given["sigma"]), count)
        elif kind == "sampled":
            inner = dp_accounting.GaussianDpEvent(given["sigma"])
            accountant.compose(dp_accounting.PoissonSampledDpEvent(given["q"], inner), count)
        else:
            responses = [r + count * float(exact_pure(a, given["epsilon"])) for a, r in zip(orders, responses)]
    return [float(a) + b for a, b in zip(accountant._rdp, responses)]


def random_events(fresh):
    """Gaussian, sampled Gaussian and pure events whose total epsilon is of a practical size."""
    events = []
    for _ in range(fresh.choice([1, 1, 2, 2, 3])):
        kind = fresh.choice(["gaussian", "sampled", "sampled", "laplace", "response"])
        count = int(log_uniform(fresh, 1, 20))
        if kind == "gaussian":
            events.append((kind, {"sigma": log_uniform(fresh, 0.7, 30) * math.sqrt(count)}, count))
        elif kind == "sampled":
            q, count = log_uniform(fresh, 1e-3, 0.5), int(log_uniform(fresh, 1, 3000))
            sigma = max(0.6, log_uniform(fresh, 0.3, 6) * q * math.sqrt(count))
            events.append((kind, {"q": q, "sigma": sigma}, count))
        else:
            events.append((kind, {"epsilon": log_uniform(fresh, 0.02, 1.5) / count}, count))
    return events


def question_of(events, delta):
    asked = []
    for kind, given, count in events:
        if kind == "gaussian":
            asked.append({"kind": kind, "rho": 0.5 / given["sigma"] ** 2, "count": count})
        elif kind == "sampled":
            asked.append({"kind": kind, "q": given["q"], "rho": 0.5 / given["sigma"] ** 2, "count": count})
        else:
            asked.append({"kind": "pure", "epsilon": given["epsilon"], "count": count})
    return {"ask": "price", "events": asked, "delta": delta}
