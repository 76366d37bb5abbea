# SPDX-License-Identifier: Apache-2.0
"""Whole columns of a private table, published from in several steps: each step reads them anew and pays for itself.

The oracles are NumPy's values within the noise that is stated, and a second table of the same rows whose columns are read
anew by the test: both must have the same budget left, to the last bit.
"""

import contextlib
import socket
import subprocess
import threading
import time

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from owner_process import ROOT
from private_support import DELTA, make_table, numpy_rng, own_owner  # noqa: F401

import sojourn

ROWS = 300
BOUNDS = {"age": (18, 100), "dose": (0, 4), "kind": (0, 3), "grid": (-1, 1)}
SOJOURN, OWNER = ROOT / "build/bin/sojourn", ROOT / "build/bin/sojourn-owner"


@pytest.fixture
def arrays(rng):
    return {
        "age": rng.uniform(18, 100, ROWS),
        "dose": rng.uniform(0, 4, ROWS),
        "kind": rng.integers(0, 4, ROWS),
        "grid": rng.uniform(-1, 1, (ROWS, 2, 3)),
    }


@pytest.fixture
def table(owner, arrays):
    return make_table(owner, arrays, BOUNDS)


@pytest.fixture
def twin(owner, table, arrays):
    """The same rows under another name, for the test that reads them anew."""
    return make_table(owner, arrays, BOUNDS, name="twin")


def spent(owner, table):
    budget = owner.budget(table.name)
    return budget.epsilon - budget.epsilon_left


def near(published, expected):
    np.testing.assert_allclose(published.value.double().numpy(), expected, atol=12 * max(published.stderr or 0, 1e-9))


STATISTICS = [
    (lambda a: a.mean(), lambda a: a.mean()),
    (lambda a: a.sum(), lambda a: a.sum()),
    (lambda a: (a > 40).double().mean(), lambda a: (a > 40).mean()),
    (lambda a: a.square().mean(), lambda a: (a**2).mean()),
    (lambda a: a.clamp(30, 50).mean(), lambda a: a.clip(30, 50).mean()),
]


def test_a_column_is_published_again_and_again(owner, table, twin, arrays):
    ages, epsilons = table["age"], [0.5, 1.0, 2.0, 4.0, 8.0]
    for (statistic, oracle), epsilon in zip(STATISTICS, epsilons):
        before = spent(owner, table)
        again = sojourn.publish(statistic(ages), epsilon=epsilon)
        anew = sojourn.publish(statistic(twin["age"]), epsilon=epsilon)
        near(again, oracle(arrays["age"]))
        assert again.stderr == anew.stderr
        assert again.receipt.price[0]["epsilon"] == pytest.approx(epsilon, rel=1e-6)
        assert spent(owner, table) > before
        assert spent(owner, table) == spent(owner, twin)
    # Charges compose to no more than their sum.
    assert 8.0 < spent(owner, table) <= sum(epsilons) * (1 + 1e-9)


def test_noise_is_new_each_time(owner, table):
    ages = table["age"]
    # So little noise that no mean becomes negative and is told as 0. Two of them may meet on the grid of the noise.
    values = {float(sojourn.publish(ages.mean(), epsilon=0.1)) for _ in range(5)}
    assert len(values) >= 4


def test_several_columns_and_uses(owner, table, twin, arrays):
    """Two columns in one step, one of them twice; then again, in the other order, in a declared step."""
    a, b = arrays["age"], arrays["dose"]

    def both(ages, doses):
        return (ages * doses).mean(), ages.mean() + ages.square().mean(), doses.std()

    columns = table["age"], table["dose"]
    for source in (lambda: columns, lambda: (twin["age"], twin["dose"])):
        first = sojourn.publish(both(*source()), epsilon=100.0)
        ages, doses = source()
        with sojourn.step():
            second = sojourn.publish((doses.mean(), both(ages, doses)), epsilon=100.0)
        for product, squares, deviation in (first.value, second.value[1]):
            assert float(product) == pytest.approx((a * b).mean(), abs=20)
            assert float(squares) == pytest.approx(a.mean() + (a**2).mean(), rel=0.1)
            assert float(deviation) == pytest.approx(b.std(ddof=1), rel=0.3)
    assert spent(owner, table) == spent(owner, twin)


VIEWS = {
    "part": (lambda a: a[:100], lambda a: a[:100]),
    "each third": (lambda a: a[1::3], lambda a: a[1::3]),
    "reshaped": (lambda a: a.reshape(-1, 1), lambda a: a.reshape(-1, 1)),
    "same type": (lambda a: a.double(), lambda a: a),
    "detached": (lambda a: a.detach(), lambda a: a),
    "unsqueezed": (lambda a: a[None], lambda a: a[None]),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_are_the_column(owner, table, arrays, name):
    view, oracle = VIEWS[name]
    ages = table["age"]
    seen = view(ages)
    sojourn.publish(ages.mean(), epsilon=1.0)
    for _ in range(2):
        near(sojourn.publish(seen.sum(), epsilon=50.0), oracle(arrays["age"]).sum())
    near(sojourn.publish(view(ages).sum(), epsilon=50.0), oracle(arrays["age"]).sum())


def test_columns_of_every_form(owner, table, arrays):
    """Several side by side, of whole numbers, of arrays, in another type, of a part of the table."""
    part, _ = table.split(0.5, seed=3)
    rows = sojourn.split_indices(ROWS, 0.5, 3)[0].numpy()
    cases = [
        (table.rows(["age", "dose"]), np.stack([arrays["age"], arrays["dose"]], 1)),
        (table.rows("dose", dtype=torch.float64), arrays["dose"]),
        (table["kind"], arrays["kind"]),
        (table["grid"], arrays["grid"]),
        (table["grid"][:, 1].T, arrays["grid"][:, 1].T),
        (part["age"], arrays["age"][rows]),
    ]
    for column, expected in cases:
        for _ in range(2):
            near(sojourn.publish(column.double().sum(), epsilon=50.0), expected.sum())


def test_what_was_computed_before_stays(owner, table):
    """A value that an earlier step has computed is no column; nor is one beside it."""
    ages = table["age"]
    scaled, typed = ages * 2, ages.float()
    sojourn.publish(ages.mean(), epsilon=1.0)
    before = spent(owner, table)
    for value in (lambda: scaled.mean(), lambda: typed.sum(), lambda: (ages - scaled).mean(), lambda: scaled[:5].sum()):
        with pytest.raises(sojourn.Refused, match="read the column again|was computed from private rows"):
            sojourn.publish(value(), epsilon=1.0)
    assert spent(owner, table) == before
    sojourn.publish(ages.mean(), epsilon=1.0)


def test_a_column_that_is_written_to_is_none(owner, table, arrays):
    first, second, third = table["age"], table["age"], table["age"]
    view = second[:10]
    sojourn.publish(first.mean() + second.mean() + third.mean(), epsilon=1.0)
    first.add_(1)
    view.zero_()
    for column in (first, second):
        with pytest.raises(sojourn.Refused, match="read the column again"):
            sojourn.publish(column.mean(), epsilon=1.0)
    near(sojourn.publish(third.mean(), epsilon=50.0), arrays["age"].mean())
    with pytest.raises(sojourn.Refused, match="was computed from private rows"):
        with sojourn.step():  # the column as it was, then written to, in one step
            sojourn.publish(third.mean(), epsilon=1.0)
            third.mul_(2)
            sojourn.publish(third.mean(), epsilon=1.0)


def test_a_write_does_not_show_in_what_was_read_before_it(owner, table, arrays):
    ages = table["age"]
    sojourn.publish(ages.mean(), epsilon=1.0)
    with sojourn.step():
        total = ages.sum()
        ages.zero_()
        published = sojourn.publish(total, epsilon=50.0)
    near(published, arrays["age"].sum())


def test_batches_stay_refused(owner, table):
    x = next(iter(table.batches("age", size=30)))
    sojourn.publish(x.sum(), epsilon=1.0)
    with pytest.raises(sojourn.Refused, match="may not leave the owner"):
        sojourn.publish(x.sum(), epsilon=1.0)


def test_a_column_per_row_stays_refused(owner, table):
    ages = table["age"]
    sojourn.publish(ages.mean(), epsilon=1.0)
    before = spent(owner, table)
    with pytest.raises(sojourn.Refused, match="a value per row of private data is published"):
        sojourn.publish(ages, epsilon=1.0)
    with pytest.raises(sojourn.Refused):
        print(ages[3].item())
    assert spent(owner, table) == before
    sojourn.publish(ages.mean(), epsilon=1.0)


def test_columns_are_kept_in_state_as_if_they_were_read_there(owner, table):
    """Whether an earlier step has read a column makes no difference to what a step may do with it."""
    state, old = torch.zeros(ROWS, dtype=torch.float64).to(owner.device), table["age"]
    sojourn.publish(old.mean(), epsilon=1.0)
    before = spent(owner, table)
    for column in (lambda: old, lambda: table["age"]):
        with pytest.raises(sojourn.Refused, match="a value per row of private data is committed"):
            with sojourn.step():
                state.add_(column())
    assert spent(owner, table) == before and sojourn.publish(state).sum() == 0


def test_a_dropped_step_takes_no_column(owner, table, arrays):
    ages = table["age"]
    sojourn.publish(ages.mean(), epsilon=1.0)
    before = spent(owner, table)
    with pytest.raises(ZeroDivisionError):
        with sojourn.step():
            sojourn.publish(ages.sum(), epsilon=1.0)
            1 / 0
    with pytest.raises(ZeroDivisionError):
        with sojourn.step():  # nor does a write that never happened end the column
            ages.add_(1)
            1 / 0
    with pytest.raises(RuntimeError, match="must match"):
        sojourn.publish((ages + torch.zeros(3).to(owner.device)).sum(), epsilon=1.0)
    with pytest.raises(sojourn.BudgetExhausted):
        sojourn.publish(ages.mean(), epsilon=1e6)
    assert spent(owner, table) == before
    near(sojourn.publish(ages.sum(), epsilon=50.0), arrays["age"].sum())


def test_quotes_are_what_is_paid(owner, table):
    ages = table["age"]
    sojourn.publish(ages.mean(), epsilon=1.0)
    quoted = sojourn.quote(ages.mean(), epsilon=0.25)
    assert not quoted.notes and quoted.stderr == sojourn.publish(ages.mean(), epsilon=0.25).stderr


def test_threads_read_for_themselves(owner, table, twin, arrays):
    """Each records its own read; a column that one has read and not sent is that thread's."""
    ages, failures = table["age"], []

    def other(action):
        def run():
            try:
                action()
                sojourn.flush()
            except BaseException as failure:
                failures.append(failure)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join(60)
        assert not thread.is_alive()

    other(lambda: ages.mean())
    assert len(failures) == 1 and "another thread has computed this tensor" in str(failures.pop())
    sojourn.publish(ages.mean(), epsilon=1.0)
    pending = ages.sum()  # in this thread's trace, while others publish
    for _ in range(3):
        other(lambda: near(sojourn.publish(ages.mean(), epsilon=50.0), arrays["age"].mean()))
    other(lambda: ages.add_(1))  # this thread has read what was there before
    assert not failures
    near(sojourn.publish(pending, epsilon=50.0), arrays["age"].sum())
    sojourn.publish(twin["age"].mean(), epsilon=1.0)
    for statistic in (torch.mean, torch.mean, torch.mean, torch.sum):
        sojourn.publish(statistic(twin["age"]), epsilon=50.0)
    assert spent(owner, table) == spent(owner, twin)
    with pytest.raises(sojourn.Refused, match="read the column again"):
        sojourn.publish(ages.mean(), epsilon=1.0)


def test_replay_traces_what_is_published_again(owner, table, twin, arrays):
    """A price is said anew in each call, so that each is traced."""
    ages, published = table["age"], []

    def look(column):
        return sojourn.publish(column.sum(), epsilon=50.0)

    traced = sojourn.step(look, replay=True)
    with pytest.warns(UserWarning, match="is traced, not replayed"):
        for _ in range(4):
            published.append(traced(ages))
    for _ in range(4):
        sojourn.step(look)(twin["age"])
    assert spent(owner, table) == spent(owner, twin)
    for value in published:
        near(value, arrays["age"].sum())


def stepper(owner, seed):
    """A training function, its model, and the calls that ran it."""
    torch.manual_seed(seed)
    model = torch.nn.Linear(2, 4).to(owner.device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    runs = []

    def train(x, y):
        runs.append(None)
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    return train, model, runs


def read(table):
    return table.rows(["age", "dose"]), table["kind"]


def test_what_was_traced_with_new_columns_replays_with_old_ones(owner, table, twin, seed):
    """Replays record what reads the columns of their arguments."""
    old, steps = read(table), 8
    with sojourn.privacy(table, noise_multiplier=2.0, delta=DELTA) as once:
        train, model, runs = stepper(owner, seed)
        train = sojourn.step(train, replay=True)
        for _ in range(4):
            train(*read(table))
        traced = len(runs)
        train(*old)  # in this step for the first time
        for _ in range(3):
            train(*old)
        assert len(runs) == traced < 4
    with sojourn.privacy(twin, noise_multiplier=2.0, delta=DELTA) as anew:
        train, _, _ = stepper(owner, seed)
        train = sojourn.step(train)
        for _ in range(steps):
            train(*read(twin))
    assert once.taken == anew.taken == steps and once.epsilon == anew.epsilon
    assert spent(owner, table) == spent(owner, twin)
    sojourn.publish(model.state_dict())


def test_steps_of_one_message_read_old_columns(owner, table, twin, seed):
    """Steps of a loop that travel together, each with its own read."""
    old, steps = read(table), 12
    with sojourn.privacy(table, noise_multiplier=2.0, delta=DELTA) as once:
        train, model, runs = stepper(owner, seed)
        before = owner.counters()["round_trips"]
        sojourn.loop(train, (read(table) if number < 4 else old for number in range(steps)), 4)
        assert len(runs) < 4 and owner.counters()["round_trips"] - before < steps
    with sojourn.privacy(twin, noise_multiplier=2.0, delta=DELTA) as anew:
        train, _, _ = stepper(owner, seed)
        train = sojourn.step(train)
        for _ in range(steps):
            train(*read(twin))
    assert once.taken == anew.taken == steps and once.epsilon == anew.epsilon
    assert spent(owner, table) == spent(owner, twin)
    sojourn.publish(model.state_dict())


@pytest.mark.parametrize("kind", ["undeclared", "step", "replay", "loop"])
def test_training_on_whole_columns(owner, table, twin, kind, seed):
    """Each update reads the rows it uses, is noised and is paid for, as if the script had read them itself."""
    steps, models = 5, []

    def run(source, trains):
        train, model, _ = stepper(owner, seed)
        models.append(model)
        trains(train, source)

    def undeclared(call, source):
        for _ in range(steps):
            call(*source())
            sojourn.flush()

    def declared(call, source):
        call = sojourn.step(call, replay=kind == "replay")
        for _ in range(steps):
            call(*source())

    def looped(call, source):
        sojourn.loop(call, (source() for _ in range(steps)), 3)

    columns = read(table)
    is_told = kind in ("replay", "loop")
    told = pytest.warns(UserWarning, match="each step reads them anew") if is_told else contextlib.nullcontext()
    with told, sojourn.privacy(table, noise_multiplier=2.0, delta=DELTA) as once:
        run(lambda: columns, {"undeclared": undeclared, "loop": looped}.get(kind, declared))
    with sojourn.privacy(twin, noise_multiplier=2.0, delta=DELTA) as anew:
        run(lambda: read(twin), declared)
    assert once.taken == anew.taken == steps
    assert once.epsilon == anew.epsilon
    assert spent(owner, table) == spent(owner, twin)
    for model in models:
        sojourn.publish(model.state_dict())  # free: paid for


def test_a_closed_owner_says_so(arrays):
    with sojourn.local() as owner:
        ages = make_table(owner, arrays, BOUNDS)["age"]
        sojourn.publish(ages.mean(), epsilon=1.0)
    with pytest.raises(sojourn.Error, match="is closed"):
        ages.mean()


def command(*arguments):
    done = subprocess.run(list(map(str, arguments)), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.fixture
def served(arrays, tmp_path):
    """A client's connection over TCP, and the two tables there."""
    store, columns = tmp_path / "store", {name: arrays[name] for name in ("age", "dose")}
    np.savez(tmp_path / "rows.npz", **columns)
    (tmp_path / "bounds.toml").write_text("".join(f"{name} = {list(BOUNDS[name])}\n" for name in columns))
    command(SOJOURN, "keygen", tmp_path / "ada.key")
    for name in ("people", "twin"):
        command(OWNER, "import", tmp_path / "rows.npz", "--store", store, "--name", name, "--policy", "private",
                "--bounds", tmp_path / "bounds.toml", "--rows-are-subjects")  # fmt: skip
    command(OWNER, "client", "add", "ada", "--store", store, "--key", tmp_path / "ada.key.pub")
    for name in ("people", "twin"):
        command(OWNER, "budget", "cap", name, "--store", store, "--epsilon", 500, "--delta", DELTA)
        command(OWNER, "budget", "grant", "ada", name, "--store", store, "--epsilon", 400, "--delta", DELTA)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [OWNER, "serve", "--store", store, "--listen", address, "--plain-tcp"], stdout=log, stderr=log
        )
    try:
        until = time.monotonic() + 30
        while "listening on" not in (tmp_path / "log").read_text() and time.monotonic() < until:
            time.sleep(0.02)
        with sojourn.connect(address, identity=str(tmp_path / "ada.key"), plain_tcp=True) as owner:
            yield owner, store
    finally:
        process.terminate()
        process.wait(30)


def test_a_served_owner(served, arrays):
    owner, store = served
    table, twin = owner.dataset("people"), owner.dataset("twin")
    ages = table["age"]
    for (statistic, oracle), epsilon in zip(STATISTICS, (2.0, 4.0, 8.0, 16.0, 32.0)):
        near(sojourn.publish(statistic(ages), epsilon=epsilon), oracle(arrays["age"]))
        sojourn.publish(statistic(twin["age"]), epsilon=epsilon)
        assert spent(owner, table) == spent(owner, twin)
    command(OWNER, "policy", "people", "open", "--yes", "--store", store)
    assert float(sojourn.publish(ages.mean())) == pytest.approx(arrays["age"].mean(), rel=1e-6)
    torch.testing.assert_close(sojourn.publish(ages), torch.from_numpy(arrays["age"]))
    command(OWNER, "policy", "people", "private", "--store", store)
    with pytest.raises(sojourn.Refused):
        sojourn.publish(ages)
    sojourn.publish(ages.mean(), epsilon=2.0)
    sojourn.publish(twin["age"].mean(), epsilon=2.0)
    assert spent(owner, table) == spent(owner, twin)
