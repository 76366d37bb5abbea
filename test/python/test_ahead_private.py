# SPDX-License-Identifier: Apache-2.0
"""Steps compiled for private tables without data: quoted offline, refused offline, run under `sojourn.privacy`.

Oracles: the traced loop over the same table, which is the same program at the owner, eager PyTorch on all rows with
hardly any noise, and the prices of `sojourn.privacy`, which the owner charges.
"""

import logging

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from ahead_support import Device
from private_support import DELTA, PLENTY, make_table, numpy_rng, own_owner  # noqa: F401
from torch import nn

import sojourn

ROWS, FEATURES = 96, ["a", "b", "c"]
BOUNDS = {**dict.fromkeys(FEATURES, (-1.0, 1.0)), "y": (0, 1)}
COLUMNS = {**dict.fromkeys(FEATURES, torch.float64), "y": torch.int64}


def columns(rng):
    return {name: rng.uniform(-1, 1, ROWS) for name in FEATURES} | {"y": rng.integers(0, 2, ROWS)}


def register(owner, data, epsilon=PLENTY, name="people", policy="private", bounds=BOUNDS):
    return make_table(owner, data, bounds, epsilon, name, policy)


def spec(**terms):
    return sojourn.table_spec(ROWS, COLUMNS, **{"bounds": BOUNDS, "policy": "private"} | terms)


def network(state=None, middle=nn.LayerNorm):
    model = nn.Sequential(nn.Linear(3, 8), middle(8), nn.Tanh(), nn.Linear(8, 2))
    if state is not None:
        model.load_state_dict(state)
    return model


def setup(at, state, middle=nn.LayerNorm):
    model = network(state, middle)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    sojourn.to_owner(model, at, optimizer)
    return model, optimizer


def train(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return sojourn.publish({"loss": loss.detach(), **model.state_dict()}, bound=20.0)


def compiled(state, size=16, epochs=2, middle=nn.LayerNorm, described=None, part=lambda table: table):
    kept = {}

    def init():
        kept["both"] = setup(Device(device), state, middle)

    with sojourn.offline() as device:
        return sojourn.compile(
            lambda x, y: train(*kept["both"], x, y),
            init=init,
            tables={"people": described or spec()},
            batches=lambda people: part(people).batches(FEATURES, label="y", size=size, epochs=epochs),
        )


@pytest.fixture
def program(tmp_path):
    """Compiled, stored and read again."""

    def make(*args, **terms):
        compiled(*args, **terms).save(tmp_path / "train.sojourn")
        return sojourn.load(tmp_path / "train.sojourn")

    return make


def test_a_run_is_ordinary_training(owner, rng, program):
    """Every row in every batch, and hardly any noise: the weights of each step are those of eager PyTorch."""
    data = columns(rng)
    eager = network()
    ahead = program(eager.state_dict(), size=ROWS, epochs=5)
    table = register(owner, data)
    with sojourn.privacy(table, noise_multiplier=0.02, delta=DELTA, clip=20.0) as run:
        published = ahead.run(owner)
    assert len(published) == 5 == run.steps
    optimizer = torch.optim.SGD(eager.parameters(), lr=0.5, momentum=0.9)
    x = torch.tensor(np.stack([data[name] for name in FEATURES], 1), dtype=torch.float32)
    for ours in published:
        optimizer.zero_grad()
        loss = F.cross_entropy(eager(x), torch.tensor(data["y"]))
        loss.backward()
        optimizer.step()
        for name, value in eager.state_dict().items():
            assert (ours[name] - value).abs().max() < 0.1, name
        assert abs(ours["loss"] - loss.detach()) < 0.5


def test_it_is_the_traced_program(owner, rng, program):
    """At the owner the compiled step is the traced one, one hash: with equal coins their weights are equal."""
    state = network().state_dict()
    ahead = program(state)
    table = register(owner, columns(rng))
    model, optimizer = setup(owner, state)
    sojourn.flush()
    with sojourn.privacy(table, noise_multiplier=1.0, delta=DELTA):
        batches = table.batches(FEATURES, label="y", size=16, epochs=2).recorded
        for index in range(12):
            with sojourn.step():
                train(model, optimizer, *batches.at(index))  # a batch that a loop holds would be a result of the step
    traced = {entry["hash"]: entry["runs"] for entry in owner.programs()}
    with sojourn.privacy(table, noise_multiplier=1.0, delta=DELTA):
        ahead.run(owner)
    after = {entry["hash"]: entry["runs"] for entry in owner.programs()}
    steady = ahead.program_hash("steady")
    assert after[steady] == traced[steady] + 11


def test_it_costs_what_it_was_quoted(owner, rng, program):
    ahead = program(network().state_dict())
    table = register(owner, columns(rng), epsilon=3.0)
    offline = ahead.quote(epsilon=2.5, delta=DELTA)
    with sojourn.privacy(table, epsilon=2.5, delta=DELTA) as run:
        ahead.run(owner, tables={"people": "people"})
        assert offline.noise_multiplier == pytest.approx(run.noise_multiplier, rel=1e-6)
    assert offline.steps == run.steps == 12 and offline.sampling_rate == pytest.approx(16 / ROWS)
    assert 3 - owner.budget("people").epsilon_left == pytest.approx(offline.epsilon, rel=1e-6) == run.epsilon
    assert offline.epsilon == pytest.approx(2.5, rel=1e-3)


def test_both_directions_without_an_owner(program):
    ahead = program(network().state_dict())
    for epsilon in (1.0, 3.0, 8.0):
        quote = ahead.quote(epsilon=epsilon, delta=1e-6)
        assert ahead.quote(noise_multiplier=quote.noise_multiplier, delta=1e-6).epsilon == pytest.approx(quote.epsilon)
        assert quote.epsilon <= epsilon * (1 + 1e-6)
        less = ahead.quote(noise_multiplier=quote.noise_multiplier * 0.999, delta=1e-6)
        assert less.epsilon > quote.epsilon
    few, many = (ahead.quote(noise_multiplier=1.0, delta=1e-6, steps=steps).epsilon for steps in (3, 12))
    assert few < many == ahead.quote(delta=1e-6).epsilon, "a table's own default is 1"
    stated = compiled(network().state_dict(), described=spec(defaults=(2.0, 1.0, 10.0)))
    assert stated.quote(delta=1e-6).noise_multiplier == 2


def test_a_part_of_a_table(owner, rng, program):
    ahead = program(network().state_dict(), part=lambda table: table.split(0.5, seed=3)[0])
    table = register(owner, columns(rng), epsilon=20.0)
    part, _ = table.split(0.5, seed=3)
    with sojourn.privacy(table, noise_multiplier=1.0, delta=DELTA):
        with pytest.raises(sojourn.Error, match="declared for 96 rows of 'people', but the batches are drawn from 48"):
            ahead.run(owner)
    with sojourn.privacy(part, noise_multiplier=1.0, delta=DELTA) as run:
        ahead.run(owner)
    assert run.epsilon == pytest.approx(ahead.quote(noise_multiplier=1.0, delta=DELTA).epsilon, rel=1e-6)


def test_without_terms_the_defaults_stand_and_say_so(owner, rng, program, caplog):
    ahead = program(network().state_dict(), epochs=1)
    register(owner, columns(rng), epsilon=20.0)
    with caplog.at_level(logging.WARNING, "sojourn"):
        ahead.run(owner)
    (line,) = [record.getMessage() for record in caplog.records if record.name == "sojourn"]
    assert "training on private table 'people' uses the owner's defaults: noise multiplier 1, clip 1" in line


def test_what_cannot_be_proved_is_refused_when_it_is_compiled():
    with pytest.raises(sojourn.Refused, match=r"meet a value that was summed over rows.*test_ahead_private.py:"):
        compiled(network(middle=nn.BatchNorm1d).state_dict(), middle=nn.BatchNorm1d)


@pytest.mark.parametrize(
    ("claim", "table", "text"),
    [
        ({"policy": "open"}, {}, "its policy is private, but the step was compiled for open"),
        ({"policy": None}, {}, "it is private, but the batches were compiled for an open table"),
        ({}, {"policy": "open"}, "its policy is open, but the step was compiled for private"),
        (
            {"bounds": BOUNDS | {"b": (-0.5, 0.5)}},
            {},
            r"its column 'b' has bounds \[-1, 1\], but the step was compiled for bounds \[-0.5, 0.5\]",
        ),
        (
            {"defaults": (0.5, 1.0, 10.0)},
            {},
            "its defaults are noise multiplier 1, clip 1 and metric bound 10, but the step was compiled for noise "
            "multiplier 0.5, clip 1 and metric bound 10",
        ),
    ],
    ids=["open", "unstated", "private", "bounds", "defaults"],
)
def test_claims_that_are_not_so_are_refused(owner, rng, claim, table, text):
    """What was described is compared with what the owner has before anything is sent or spent."""
    state = network().state_dict()
    described = spec(**claim)
    # 96 rows by 16: open batches have no short one.
    ahead = compiled(state, described=described)
    register(owner, columns(rng), epsilon=5.0, **table)
    with pytest.raises(sojourn.Error, match=text):
        ahead.run(owner)
    if table.get("policy") != "open":
        assert owner.budget("people").epsilon_left == 5


@pytest.mark.parametrize(
    ("terms", "text"),
    [
        (
            {"bounds": {}},
            "it is private, but column 'a' has no bounds; declare bounds for each column of a private table",
        ),
        ({"policy": "secret"}, "its policy is 'secret', expected 'open', 'private' or none"),
        ({"policy": 3}, 'policy must be "open", "private" or None, got 3'),
        ({"defaults": (1, 2)}, r"defaults must be \(noise multiplier, clip, metric bound\), got \(1, 2\)"),
        ({"defaults": (1, -2, 3)}, "its defaults are noise multiplier 1, clip -2 and metric bound 3, expected three"),
        ({"defaults": (1, float("nan"), 3)}, "expected three numbers above 0, or none"),
    ],
)
def test_impossible_descriptions(terms, text):
    with pytest.raises(sojourn.Error, match=text):
        spec(**terms)


def test_quotes_of_what_has_no_price(program):
    ahead = program(network().state_dict())
    for terms, text in [
        ({"epsilon": 1.0}, "give delta"),
        ({"epsilon": 1.0, "noise_multiplier": 1.0, "delta": DELTA}, "not both"),
        ({"epsilon": -1.0, "delta": DELTA}, "epsilon must be a number above 0"),
        ({"epsilon": 1.0, "delta": 2.0}, "delta must be a number above 0 and below 1"),
        ({"epsilon": 1e-9, "delta": DELTA}, "no amount of noise keeps this run within epsilon"),
        ({"delta": DELTA, "table": "cars"}, "reads no table 'cars'"),
        ({"delta": DELTA, "steps": 0}, "the run has 0 steps, expected at least 1"),
    ]:
        with pytest.raises(sojourn.Error, match=text):
            ahead.quote(**terms)
    open_one = compiled(network().state_dict(), described=spec(policy="open"))
    with pytest.raises(sojourn.Error, match="the program reads 0 private tables"):
        open_one.quote(delta=DELTA)
    with pytest.raises(sojourn.Error, match="was not described as private"):
        open_one.quote(delta=DELTA, table="people")
