# SPDX-License-Identifier: Apache-2.0
"""Whole columns of a private table, scaled together: each keeps its own bounds, so noise is that of columns in [-1, 1].

The oracles are NumPy's values, and standard errors from what one row can move a sum by: Laplace noise of a share epsilon
for a vector of which a row moves the magnitudes by `moved` has the deviation sqrt(2) moved / epsilon.
"""

import numpy as np
import pytest
import torch
from private_support import make_table

import sojourn

# Of little in common: hulls would cost 10 to 1,000 times.
BOUNDS = {"age": (18, 100), "dose": (0, 0.25), "smoker": (0, 1), "visits": (0, 400), "same": (3, 3), "score": (0, 1)}


@pytest.fixture
def data(rng):
    generator = np.random.default_rng(rng.getrandbits(64))
    rows = rng.randrange(300, 500)
    draw = {name: generator.uniform(low, high, rows) for name, (low, high) in BOUNDS.items()}
    return draw | {"smoker": draw["smoker"] < 0.4, "visits": draw["visits"].astype(np.int64)}


@pytest.fixture
def table(data):
    with sojourn.local() as owner:
        owner.register("people", data, policy="private", bounds=BOUNDS)
        owner.grant("people", epsilon=1000, delta=1e-5)
        yield owner.dataset("people")


def truth(data, names):
    return torch.from_numpy(np.stack([scaled_alone(data, name) for name in names], axis=1))


def scaled_alone(data, name):
    low, high = BOUNDS[name]
    return (data[name] - (low + high) / 2) * (2 / (high - low) if high > low else 1)


def apart(table, names):
    """Each column scaled alone."""
    return torch.stack([table.scaled(table.rows(name, dtype=torch.float32)) for name in names], dim=1)


def covariance(x):
    centred = x - x.mean(0)
    return centred.T @ centred / (len(x) - 1)


NAMES = ["age", "dose", "visits"]
# A statistic, and what a row moves the magnitudes of its numbers by, as a function of the number of rows; None for
# those of several sums, whose noise is compared with that of columns that were scaled alone.
STATISTICS = {
    "sum": (lambda x: x.sum(0), lambda n: 3),
    "mean": (lambda x: x.mean(0), lambda n: 3 / n),
    "mean_of_one": (lambda x: x[:, 1].mean(), lambda n: 1 / n),
    "products": (lambda x: x.T @ x / len(x), lambda n: 9 / n),
    "total": (lambda x: x.sum(), lambda n: 3),
    "histogram": (lambda x: torch.histc(x[:, 0], bins=4, min=-1, max=1), lambda n: 1),
    "count": (lambda x: (x[:, 2] > 0.2525).sum(), lambda n: 0.5),  # between two numbers of visits
    "products_of_two": (lambda x: (x[:, 0] * x[:, 2]).mean(), lambda n: 1 / n),
    "covariance": (covariance, None),
    "deviation": (lambda x: x[:, :2].std(0), None),
}


@pytest.mark.parametrize("name", STATISTICS)
def test_noise_is_that_of_columns_scaled_alone(name, table, data):
    statistic, moved = STATISTICS[name]
    together = sojourn.publish(statistic(table.scaled(table.rows(NAMES))), epsilon=1.0)
    if moved is not None:
        least = 2**0.5 * moved(len(table))
        np.testing.assert_allclose(np.asarray(together.stderr), least, rtol=0.02)
    alone = sojourn.publish(statistic(apart(table, NAMES)), epsilon=1.0)
    if alone.stderr is not None:
        np.testing.assert_allclose(np.asarray(together.stderr), np.asarray(alone.stderr), rtol=0.02)
    else:
        assert together.stderr is None
    if together.stderr is not None:
        wrong = (together.value - statistic(truth(data, NAMES))).abs().double()
        assert (wrong <= 20 * torch.as_tensor(together.stderr)).all()


@pytest.mark.parametrize("name", STATISTICS)
def test_values_are_those_of_numpy(name, data):
    """At a price that leaves hardly any noise: no standard error of its own decides what is near enough."""
    wanted = in_numpy(name, np.stack([scaled_alone(data, column) for column in NAMES], axis=1))
    with sojourn.local() as owner:
        table = make_table(owner, data, BOUNDS)
        found = sojourn.publish(STATISTICS[name][0](table.scaled(table.rows(NAMES))), epsilon=2.0**17)
    # float32's rounding of a sum over rows is part of what is allowed.
    np.testing.assert_allclose(np.asarray(found.value), wanted, rtol=1e-4, atol=2e-4)


def in_numpy(name, x):
    """The statistic, written a second time."""
    return {
        "sum": lambda: x.sum(0),
        "mean": lambda: x.mean(0),
        "mean_of_one": lambda: x[:, 1].mean(),
        "products": lambda: np.einsum("ni,nj->ij", x, x) / len(x),
        "total": lambda: x.sum(),
        "histogram": lambda: np.histogram(x[:, 0], bins=4, range=(-1, 1))[0],
        "count": lambda: np.count_nonzero(x[:, 2] > 0.2525),
        "products_of_two": lambda: np.mean(x[:, 0] * x[:, 2]),
        "covariance": lambda: np.cov(x, rowvar=False),
        "deviation": lambda: np.std(x[:, :2], axis=0, ddof=1),
    }[name]()


@pytest.mark.filterwarnings("error")
def test_no_column_is_clamped(table):
    """Every column of a table, of any dtype, also one of a single value; parts of a table; columns by their names."""
    names = list(BOUNDS)
    first, other = table.split(0.6)
    for rows, count, scaled in (
        (table, 6, lambda: table.scaled(table.rows())),
        (table, 6, lambda: table.scaled(table.rows(dtype=torch.float64))),
        (table, 6, lambda: table.scaled(table.rows(names[::-1], dtype=torch.int64))),
        (first, 6, lambda: table.scaled(first.rows(names))),
        (other, 3, lambda: other.scaled(other.rows(names)[:, 1:4], names[1:4])),
        (table, 3, lambda: table.scaled(table.rows(names)[:, ::2], names[::2])),
    ):
        x = scaled()
        assert x.shape == (len(rows), count) and x.is_floating_point()
        published = sojourn.publish(x.sum(0), epsilon=1.0)
        stderr = torch.as_tensor(published.stderr).numpy()
        # A column of one value moves nothing. Of the others each moves the sum by 1.
        assert (stderr <= 1.02 * 2**0.5 * count).all() and (stderr.max() >= 0.98 * 2**0.5 * min(count, 5)), count


def test_raw_columns_have_their_own_bounds(table, data):
    names = ["visits", "dose", "age"]
    views = (
        lambda x, k: x[:, k],
        lambda x, k: x.double()[:, k],
        lambda x, k: x.T[k],
        lambda x, k: x.unbind(1)[k],
        lambda x, k: x[:, k : k + 1],
    )
    for k, name in enumerate(names):
        low, high = BOUNDS[name]
        for view in views:
            published = sojourn.publish(view(table.rows(names), k).mean(), epsilon=1.0)
            np.testing.assert_allclose(published.stderr, (high - low) / 2 * 2**0.5 / len(table), rtol=0.02)
            assert abs(float(published) - data[name].mean()) < 20 * published.stderr
    part = sojourn.publish(table.rows(names)[10:50:2, 1].sum(), epsilon=1.0)
    np.testing.assert_allclose(part.stderr, 0.125 * 2**0.5, rtol=0.02)
    assert abs(float(part) - data["dose"][10:50:2].sum()) < 20 * part.stderr


def test_what_was_computed_is_not_taken_for_columns(table):
    """Neither a computed tensor nor one that was written to lies between its bounds: the default clamps rows to 10."""
    text = "clamped to 10.00, the default: its range depends on numbers of the script that the proof does not know"
    for computed in (lambda: table.rows(NAMES) * 2, lambda: table.rows(NAMES).mul_(2)):
        with pytest.warns(UserWarning, match=text):
            published = sojourn.publish(table.scaled(computed(), NAMES).mean(0), epsilon=1.0)
        np.testing.assert_allclose(published.stderr, 10 * 6**0.5 / len(table), rtol=0.02)


def dumped(folder):
    """Names of the ops of the one program that follows."""
    (text,) = [path.read_text() for path in folder.glob("*/04-core.mlir")]
    return [line.split("= sojourn.")[1].split()[0] for line in text.splitlines() if "= sojourn." in line]


@pytest.mark.parametrize("policy", ["open", "private"])
def test_columns_of_equal_bounds_and_open_tables_are_one_op(policy, data, monkeypatch, tmp_path):
    for names, ops in ((["smoker", "score"], 1), (NAMES, 1 if policy == "open" else 3)):
        monkeypatch.setenv("SOJOURN_DUMP", str(tmp_path / str(len(names))))
        with sojourn.local() as owner:
            table = owner.register("t", data, policy=policy, bounds=BOUNDS)
            owner.grant("t", epsilon=10, delta=1e-5)
            with sojourn.step():
                x = table.scaled(table.rows(names))
                sojourn.publish(x.sum(0), **({} if policy == "open" else {"epsilon": 1.0}))
        found = dumped(tmp_path / str(len(names)))
        assert found.count("sub") == found.count("mul") == ops, found
        assert found.count("read_rows") == 1 and found.count("concat") == (ops > 1)


@pytest.mark.parametrize("names", [NAMES, ["dose"]], ids=["several", "one"])
def test_statistics_of_a_batch_are_clamped_to_their_bound(names, table):
    """As of one column: a batch has the noise of its bound, which rows of scaled columns never exceed."""
    bound = len(names) ** 0.5
    found = []
    for x, limit in zip(table.batches(names, size=40), (bound, None)):
        with sojourn.step():
            found.append(sojourn.publish(table.scaled(x).mean(0), bound=limit))
    bounded, default = (np.asarray(each.stderr) for each in found)
    np.testing.assert_allclose(default / bounded, 10 / bound, rtol=1e-3)


def test_gradients_pass_through(table):
    """A sum over rows of the gradient by the columns: the factor of each, times the rows, and no row changes it."""
    x = table.rows(NAMES).requires_grad_()
    table.scaled(x).sum().backward()
    factors = np.array([2 / (high - low) for low, high in (BOUNDS[name] for name in NAMES)])
    found = sojourn.publish(x.grad.sum(0), epsilon=1.0, bound=100.0)
    assert found.stderr == 0
    np.testing.assert_allclose(np.asarray(found), factors * len(table), rtol=1e-5)
