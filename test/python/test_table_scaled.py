# SPDX-License-Identifier: Apache-2.0
"""`Table.scaled`: columns brought to [-1, 1] by their declared bounds, on the CPU and at an owner, in steps and ahead of time.

The oracle is the same formula in NumPy's float64.
"""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import sojourn

FEATURES = ["age", "weight", "smoker"]


@pytest.fixture
def data(seed):
    generator = np.random.default_rng(seed)
    rows = int(generator.integers(17, 60))
    return {
        "age": generator.integers(0, 100, rows),
        "weight": generator.normal(70, 12, rows),
        "smoker": generator.random(rows) < 0.3,
        "born": generator.integers(1990, 2021, rows),
        "image": generator.integers(0, 256, (rows, 2, 3)).astype(np.uint8),
        "same": np.full(rows, 3.0),
        "free": generator.normal(size=rows),
        "y": generator.integers(0, 2, rows),
    }


BOUNDS = {
    "age": (0, 120),
    "weight": (20, 250),
    "smoker": (0, 1),
    "born": (1990, 2020),
    "image": (0, 255),
    "same": (3, 3),
    "y": (0, 1),
}


@pytest.fixture(params=["plain", "open", "numpy"])
def table(request, data):
    if request.param == "plain":
        yield sojourn.plain(data, name="people", bounds=BOUNDS)
        return
    with sojourn.local(runtime="numpy" if request.param == "numpy" else "native") as owner:
        yield owner.register("people", data, policy="open", bounds=BOUNDS)


def expected(data, name):
    lower, upper = BOUNDS[name]
    return 2 * (np.clip(data[name].astype(np.float64), lower, upper) - lower) / max(upper - lower, 1) - (upper > lower)


def close(tensor, *columns):
    found = sojourn.publish(tensor)
    torch.testing.assert_close(found.double(), torch.tensor(np.squeeze(np.stack(columns, -1))), rtol=0, atol=1e-6)
    assert found.abs().max() <= 1 + 1e-6


def test_columns_lie_between_minus_one_and_one(table, data):
    listed = table.scaled(table.rows(FEATURES))
    assert listed.dtype == torch.float32
    close(listed, *(expected(data, name) for name in FEATURES))
    close(table.scaled(table.rows("born")), expected(data, "born"))
    close(table.scaled(table["same"]), np.zeros(len(data["same"])))
    images = table.scaled(table.rows("image"))
    assert images.dtype == torch.float32 and images.shape[1:] == (2, 3)
    close(images, expected(data, "image"))
    wide = table.scaled(table["weight"])
    assert wide.dtype == torch.float64
    torch.testing.assert_close(sojourn.publish(wide).numpy(), expected(data, "weight"), rtol=0, atol=1e-14)
    assert sojourn.publish(table.scaled(table["smoker"])).unique().tolist() in ([-1.0], [1.0], [-1.0, 1.0])


def test_columns_of_a_computed_tensor_are_named(table, data):
    x = table.rows(FEATURES)
    with pytest.raises(sojourn.Error, match=r"unknown columns of table 'people' .* scaled\(x, features\)"):
        table.scaled(x + 0)
    close(table.scaled(x + 0, FEATURES), *(expected(data, name) for name in FEATURES))
    close(table.scaled(x[:, 1:], FEATURES[1:]), *(expected(data, name) for name in FEATURES[1:]))


def test_mistakes_are_told(table):
    x = table.rows(FEATURES)
    for columns, text in [
        (["age", "free", "smoker"], "declares no bounds for 'free'.*bounds="),
        (["age", "wieght", "smoker"], "no column 'wieght'"),
        (["age", "weight"], r"2 columns need a tensor of shape \[..., 2\], got"),
        (7, "column name or a list"),
    ]:
        with pytest.raises(sojourn.Error, match=text):
            table.scaled(x, columns)
    with pytest.raises(sojourn.Error, match="takes a tensor"):
        table.scaled([1.0, 2.0])


def losses(table, owner, state):
    model = nn.Linear(3, 2)
    model.load_state_dict(state)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sojourn.to_owner(model, owner, optimizer)
    found = []
    for x, y in table.batches(FEATURES, label="y", size=8, epochs=2, drop_last=True):
        with sojourn.step():
            optimizer.zero_grad()
            loss = F.cross_entropy(model(table.scaled(x)), y)
            loss.backward()
            optimizer.step()
            found.append(sojourn.publish(loss.detach()))
    return torch.tensor([float(loss) for loss in found])


def test_the_same_losses_and_constants_travel_once(data):
    state = nn.Linear(3, 2).state_dict()
    with sojourn.local() as owner:
        table = owner.register("people", data, policy="open", bounds=BOUNDS)
        before = sojourn.counters()["uploads"]
        found = losses(table, owner, state)
        assert sojourn.counters()["uploads"] - before == 2 + 2  # the model's, and centres and widths
    torch.testing.assert_close(found, losses(sojourn.plain(data, bounds=BOUNDS), None, state), rtol=1e-5, atol=1e-5)


def test_a_dropped_step_and_a_closed_owner_lose_nothing(data):
    plain = sojourn.plain(data, bounds=BOUNDS)
    truth = plain.scaled(plain.rows(FEATURES))
    for _ in range(2):
        with sojourn.local() as owner:
            table = owner.register("people", data, policy="open", bounds=BOUNDS)
            for source in (table, plain):  # the bounds of a plain table serve as well
                with pytest.raises(KeyError), sojourn.step():
                    source.scaled(table.rows(FEATURES))
                    raise KeyError
                torch.testing.assert_close(sojourn.publish(source.scaled(table.rows(FEATURES))), truth)


def test_ahead_of_time(data):
    columns = {"age": torch.int64, "weight": torch.float64, "smoker": torch.bool, "y": torch.int64}
    bounds = {name: BOUNDS[name] for name in FEATURES}
    state, made = nn.Linear(3, 2).state_dict(), {}

    def init():
        made["model"] = nn.Linear(3, 2)
        made["model"].load_state_dict(state)
        made["model"].to(made["device"])
        made["optimizer"] = torch.optim.SGD(made["model"].parameters(), lr=0.1)

    def batches(people):
        made["table"] = people
        return people.batches(FEATURES, label="y", size=8, epochs=2, drop_last=True)

    def step(x, y):
        made["optimizer"].zero_grad()
        loss = F.cross_entropy(made["model"](made["table"].scaled(x, FEATURES)), y)
        loss.backward()
        made["optimizer"].step()
        return loss.detach()

    with sojourn.offline() as made["device"]:
        program = sojourn.compile(
            step,
            init=init,
            tables={"people": sojourn.table_spec(len(data["y"]), columns, bounds=bounds)},
            batches=batches,
        )
    with sojourn.local() as owner:
        owner.register("people", data, policy="open", bounds=BOUNDS)
        found = torch.tensor([float(loss) for loss in program.run(owner)])
    torch.testing.assert_close(found, losses(sojourn.plain(data, bounds=BOUNDS), None, state), rtol=1e-5, atol=1e-5)


def test_a_private_step_takes_it(data):
    with sojourn.local() as owner:
        bounds = {**BOUNDS, "free": (-5, 5)}
        table = owner.register("people", data, policy="private", bounds=bounds)
        owner.grant("people", epsilon=60, delta=1e-5)
        found = losses(table, owner, nn.Linear(3, 2).state_dict())
        assert torch.isfinite(found).all()
        centre = sojourn.publish(table.scaled(table["age"]).mean(), epsilon=2.0, delta=1e-6, bound=1.0)
        assert abs(float(centre) - expected(data, "age").mean()) < 12 * centre.stderr
