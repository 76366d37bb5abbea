# SPDX-License-Identifier: Apache-2.0
"""Groups with a member that is busy: steps are repeated, run once, and give what they would have given."""

import signal
import threading
import time
import warnings

import pytest
import torch
from parties_support import COLUMNS, close, columns, plain_step, trained

import _sojourn
import sojourn
from sojourn.owner import Owner
from sojourn_numpy import OwnerError, replies, wire

LIMIT, BUSY = 2, 13


class Gate:
    """Before an embedded owner: answers steps of groups with errors, as long as there are any, and passes others on."""

    def __init__(self, name: str):
        self.owner, self.errors, self.answered = _sojourn.EmbeddedOwner(), [], 0
        self.steps = self.from_step = 0
        self.session = Owner(_sojourn.Session(self.handle, name), name, self.owner)

    def handle(self, request):
        if wire.read(request, "Request", b"SJM1").body_type == "Step":
            self.steps += 1
            error = self.errors.pop(0) if self.errors and self.steps > self.from_step else None
            if error:
                self.answered += 1
                return replies.error(OwnerError(*error))
        return self.owner.handle(request)

    def is_busy(self, times: int, after: int = 0):
        """For so many requests, `after` others."""
        self.from_step = self.steps + after
        self.errors = [(BUSY, "this owner had no worker process within 500 ms")] * times
        self.answered = 0


class Pair:
    """A group of two owners with a table each; bob is behind a gate."""

    def __init__(self, rng):
        self.data = [columns(rows, rng) for rows in (36, 24)]
        self.bob = Gate("bob")
        self.owners = [sojourn.local(), self.bob.session]
        for owner, table in zip(self.owners, self.data):
            owner.register("patients", table, policy="open")
        for owner, other in zip(self.owners, reversed(self.owners)):
            owner.share("patients", [other], level="clear")
        self.parties = sojourn.parties(*self.owners)
        self.table = self.parties.rows("patients")
        self.pooled = sojourn.pooled(*(sojourn.plain(table, name="patients") for table in self.data))

    def total(self, column="age"):
        return sojourn.publish(self.table[column].double().sum())

    def expected(self, column="age"):
        return torch.cat([table[column] for table in self.data]).double().sum()

    def retries(self):
        return self.parties.counters()["busy_retries"]


@pytest.fixture
def pair(rng):
    _sojourn.set_busy_pauses(first=5, longest=40)
    made = Pair(rng)
    yield made
    made.bob.errors = []
    for each in [made.parties, *made.owners]:
        each.close()
    made.bob.session = None  # it holds the gate's `handle`: no garbage collector sees that circle
    _sojourn.set_busy_pauses()


def test_a_busy_member_is_asked_again(pair, rng):
    seed = rng.randrange(1000)
    expected, plain_losses = trained(pair.pooled, "cpu", seed, plain_step)
    pair.bob.errors = [
        (BUSY, "this owner had no place within 500 ms") if rng.random() < 0.5 else None for _ in range(8)
    ]
    busy = sum(error is not None for error in pair.bob.errors)
    net, losses = trained(pair.table, pair.parties.device, seed)
    for name, value in sojourn.publish(net.state_dict()).items():
        close(value, expected.state_dict()[name], 2e-4)
    close(torch.stack([sojourn.publish(loss) for loss in losses]), torch.stack(plain_losses).detach(), 2e-4)
    assert not pair.bob.errors and pair.retries() == pair.bob.answered == busy


def test_retries_are_counted_and_a_long_wait_is_told_once(pair):
    _sojourn.set_busy_pauses(first=20, longest=20, told=2_000)
    for times, told in ((1, False), (5, True), (5, False)):
        before = pair.retries()
        pair.bob.is_busy(times)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            close(pair.total(), pair.expected(), 1e-9)
        assert pair.retries() - before == times
        texts = [str(each.message) for each in caught if "until none of these owners was busy" in str(each.message)]
        assert len(texts) == told, texts
        assert all("and was tried 6 times: run fewer groups over the same owners" in text for text in texts)
    assert sojourn.counters()["busy_retries"] >= 11


def test_uploads_travel_once(pair):
    _sojourn.set_upload_bounds(1000, 4000)
    try:
        values = torch.rand(3000, dtype=torch.float64)
        total = pair.table["age"].double().sum() + values.to(pair.parties.device).sum()
        before = pair.parties.counters()
        pair.bob.is_busy(4)
        close(sojourn.publish(total), pair.expected() + values.sum(), 1e-9)
        after = pair.parties.counters()
    finally:
        _sojourn.set_upload_bounds(64 << 20, 8 << 20)
    assert after["busy_retries"] - before["busy_retries"] == 4
    assert after["upload_parts"] - before["upload_parts"] == 2 * 6  # 24,000 bytes to each of both


def test_a_step_is_given_up_with_what_to_do(pair):
    before = pair.retries()
    _sojourn.set_busy_pauses(first=5, longest=20, most=1_500)
    pair.bob.is_busy(12)
    begin = time.monotonic()
    told = r"at bob: Busy: this owner had no worker process within 500 ms\. It was tried \d+ times in \d s: run fewer"
    with pytest.raises(sojourn.OwnerError, match=told):
        pair.total()
    assert time.monotonic() - begin < 20
    assert pair.retries() - before == pair.bob.answered - 1 > 1
    pair.bob.is_busy(0)
    close(pair.total("dose"), pair.expected("dose"), 1e-9)


@pytest.mark.parametrize("code", [LIMIT, BUSY])
def test_a_refusal_of_one_member_ends_the_step_at_the_others(pair, code):
    """The other one has begun, and would wait for half a minute."""
    _sojourn.set_busy_pauses(most=0)
    pair.bob.errors = [(code, "the owner has no room for further requests")]
    begin = time.monotonic()
    with pytest.raises(sojourn.OwnerError, match="at bob: (Limit|Busy): the owner has no room for further requests"):
        pair.total()
    assert time.monotonic() - begin < 10
    close(pair.total(), pair.expected(), 1e-9)


@pytest.mark.parametrize("pause", [60_000, 1], ids=["in a pause", "between attempts"])
def test_ctrl_c_ends_the_wait(pair, pause):
    _sojourn.set_busy_pauses(first=pause, longest=pause)
    pair.bob.is_busy(1000)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(1.5, signal.raise_signal, [signal.SIGINT])
    begin = time.monotonic()
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            pair.total()
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - begin < 20
    assert pair.bob.answered == 1 if pause > 1 else 1 < pair.bob.answered < 1000
    pair.bob.is_busy(0)
    close(pair.total(), pair.expected(), 1e-9)


def descent(pair, count, busy=(0,), **options):
    """Steps of gradient descent in a loop: the weights, the losses of those that ran, and why it ended.

    `busy`: what is said to bob's gate before the loop.
    """
    weights = torch.zeros(3, dtype=torch.float64).to(pair.parties.device)
    rows = torch.stack([pair.table[name].double() for name in COLUMNS], 1)
    sojourn.flush()
    pair.bob.is_busy(*busy)

    def step(x):
        residual = x @ weights - 1
        weights.sub_(0.01 * 2 * (x.T @ residual) / len(x))
        return residual.square().mean()

    try:
        return weights, sojourn.loop(step, [(rows,)] * count, per_trip=4, **options), None
    except sojourn.Error as error:
        return weights, error.results[: error.steps], error


def plain_descent(pair, count):
    weights = torch.zeros(3, dtype=torch.float64)
    x = torch.stack([torch.cat([table[name] for table in pair.data]).double() for name in COLUMNS], 1)
    losses = []
    for _ in range(count):
        residual = x @ weights - 1
        losses.append(residual.square().mean())
        weights = weights - 0.01 * 2 * (x.T @ residual) / len(x)
    return weights, losses


def test_a_loop_goes_on_after_busy_messages(pair):
    before = pair.retries()
    weights, losses, failure = descent(pair, 13, busy=(2, 3))
    assert failure is None and pair.retries() - before == 2
    expected, plain_losses = plain_descent(pair, 13)
    close(sojourn.publish(weights), expected, 1e-9)
    close(torch.stack([sojourn.publish(loss) for loss in losses]), torch.stack(plain_losses), 1e-9)


@pytest.mark.parametrize("after", [0, 4], ids=["a traced call", "a message of several steps"])
def test_a_deadline_ends_the_wait(pair, after):
    _sojourn.set_busy_pauses(first=60_000, longest=60_000)
    begin = time.monotonic()
    weights, losses, failure = descent(pair, 30, busy=(1000, after), deadline=2)
    assert isinstance(failure, sojourn.DeadlineExceeded), failure
    assert 1.5 < time.monotonic() - begin < 20
    pair.bob.is_busy(0)
    assert failure.steps >= after
    expected, plain_losses = plain_descent(pair, failure.steps)
    close(sojourn.publish(weights), expected, 1e-9)  # as the last step that ran left them
    for loss, plain in zip(losses, plain_losses, strict=True):
        close(sojourn.publish(loss), plain, 1e-9)
    weights, losses, failure = descent(pair, 6)
    assert failure is None
    close(sojourn.publish(weights), plain_descent(pair, 6)[0], 1e-9)
