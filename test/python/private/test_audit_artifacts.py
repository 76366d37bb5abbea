# SPDX-License-Identifier: Apache-2.0
"""An audit of what a compiled step gives away when it runs: an artifact that was stored, read again and run under
`sojourn.privacy` at an owner whose coins nobody knows, all steps of a run in one message.

Each of 512 rows moves a weight of its own, by the clip, if it is there (canaries). What a client sees is what every step
publishes: the weights. A lower bound of epsilon (audit.py) stays below the quote but with a chance of LEVEL. Controls are
owners that draw half of the noise that they charge, and that forget to clip: runs on other terms give away as much,
and are held against the quote of the first. Both miss less than once in a million runs, as their bounds stay above the
claim while rates are off by five deviations.
"""

import numpy as np
import torch
from ahead_support import Device
from audit import epsilon_of_two
from private_support import own_owner  # noqa: F401
from torch import nn

import sojourn

LEVEL = 1e-9
CANARIES, EXPECTED, EPOCHS, RUNS = 512, 64, 3, 100
STEPS, RATE, DELTA = EPOCHS * CANARIES // EXPECTED, EXPECTED / CANARIES, 1e-2
NOISE, SIZE, LEARNING_RATE = 1.0, 8.0, 2.0**-10
COLUMNS = {"word": torch.int64, "there": torch.float64}
BOUNDS = {"word": (0, CANARIES - 1), "there": (0.0, 1.0)}


def stored(folder):
    """A step of an embedding, for a table that nobody has yet; a row's gradient has norm SIZE, or 0."""
    kept = {}

    def init():
        model = nn.Embedding(CANARIES, 1, dtype=torch.float64)
        nn.init.zeros_(model.weight)
        optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
        sojourn.to_owner(model, Device(device), optimizer)
        kept["both"] = model, optimizer

    def train(word, there):
        model, optimizer = kept["both"]
        optimizer.zero_grad()
        (model(word).squeeze(1) * there.double() * SIZE).mean().backward()
        optimizer.step()
        return sojourn.publish(model.weight)

    with sojourn.offline() as device:
        program = sojourn.compile(
            train,
            init=init,
            tables={"canaries": sojourn.table_spec(CANARIES, COLUMNS, bounds=BOUNDS, policy="private")},
            batches=lambda canaries: canaries.batches("word", label="there", size=EXPECTED, epochs=EPOCHS),
        )
    program.save(folder / "train.sojourn")
    return sojourn.load(folder / "train.sojourn")


def score(x):
    """The log of the ratio of densities, with the canary over without it, where it moves a sum by 1."""
    return np.log1p(RATE * np.expm1((x - 0.5) / NOISE**2))


def simulated(generator, noise, shift):
    """Scores of runs whose noise and clip are known."""
    shape = (20_000, STEPS)
    return [
        score(generator.normal(0, noise, shape) + moved * (generator.random(shape) < RATE)).sum(1)
        for moved in (shift, 0)
    ]


def played(program, owner, table, noise_multiplier, clip):
    """Scores of all canaries: of those that are there, and of the others."""
    both = [], []
    for _ in range(RUNS):
        with sojourn.privacy(table, noise_multiplier=noise_multiplier, delta=DELTA, clip=clip) as run:
            steps = program.run(owner, per_trip=STEPS)
        assert len(steps) == STEPS == run.steps
        weights = np.stack([np.zeros(CANARIES)] + [step.reshape(-1).numpy() for step in steps])
        total = score(-np.diff(weights, axis=0) * EXPECTED / LEARNING_RATE).sum(0)
        for k in (0, 1):
            both[k].append(total[k::2])
    return [np.concatenate(scores) for scores in both], run


def test_compiled_steps(owner, tmp_path, seed):
    """25,600 canaries there and as many not, each over 24 steps at a rate of 1/8."""
    generator = np.random.default_rng(seed)
    there = (np.arange(CANARIES) % 2 == 0).astype(np.float64)
    data = {"word": np.arange(CANARIES), "there": there}
    table = owner.register("canaries", data, policy="private", bounds=BOUNDS)
    owner.grant("canaries", epsilon=2.0**20, delta=DELTA)
    program = stored(tmp_path)
    thresholds = []
    for noise, shift in ((1, 1), (0.5, 1), (1, SIZE)):
        one, two = simulated(generator, noise, shift)
        thresholds += [*np.quantile(one, (0.02, 0.2, 0.5)), *np.quantile(two, (0.5, 0.9, 0.98, 0.995))]
    audited, run = played(program, owner, table, NOISE, 1.0)
    claim = run.quote(STEPS).epsilon_of_best_order
    assert abs(run.sampling_rate - RATE) < 1e-9
    found, half, loose = (
        epsilon_of_two(*scores, thresholds, DELTA, LEVEL)
        for scores in (
            audited,
            played(program, owner, table, NOISE / 2, 1.0)[0],
            played(program, owner, table, NOISE / SIZE, SIZE)[0],
        )
    )
    print(f"compiled steps: at least {found:.3f} of {claim:.3f}, halved noise {half:.3f}, forgotten clip {loose:.3f}")
    assert 0.05 * claim < found <= claim < min(half, loose)
