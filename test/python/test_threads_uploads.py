# SPDX-License-Identifier: Apache-2.0
"""Uploads that one thread has made and others use before it sends: each travels once, with the first step that is sent."""

import concurrent.futures
import contextlib
import copy
import functools
import gc
import queue
import sys
import threading

import pytest
import torch
import torch.nn.functional as F
from remote_support import Count, assert_same, shared_owner
from torch import nn

import sojourn

F64 = torch.float64


@contextlib.contextmanager
def workers(count):
    """Threads that live as long as the block and run one function at a time; calls return what the function returns."""
    pools = [concurrent.futures.ThreadPoolExecutor(1) for _ in range(count)]
    try:
        yield [lambda function, *given, pool=pool: pool.submit(function, *given).result(120) for pool in pools]
    finally:
        for pool in pools:
            pool.shutdown()


@pytest.mark.parametrize("sender", [0, 1])
@pytest.mark.parametrize("is_used", [False, True], ids=["kept", "used"])
def test_an_upload_travels_once(owner, device, seed, is_used, sender):
    """Whoever sends first sends it; ops of the thread that made it, recorded before or after, see the same value."""
    sojourn.flush()
    w, v = torch.randn(30_000, dtype=F64), torch.randn(30_000, dtype=F64)
    with Count(owner) as count, workers(1) as (there,):
        first, second = w.to(device), v.to(device)
        here = [first * 2] if is_used else []
        theirs = there(lambda: first + 1)
        here.append(second * first)
        for send in (sojourn.flush, lambda: there(sojourn.flush))[:: 1 if sender == 0 else -1]:
            send()
        first.add_(1)
        there(sojourn.flush)
        assert_same([*here, second, first], [*([w * 2] if is_used else []), v * w, v, w + 1])
        assert_same(there(lambda: sojourn.publish(theirs)), w + 1)
    assert w.nbytes + v.nbytes <= count.of["bytes_up"] < 1.3 * (w.nbytes + v.nbytes)
    assert count.of["uploads"] == 2


def test_a_thread_trains_a_model_that_another_has_moved(owner, seed):
    """The main thread moves it and waits; it reads the weights afterwards."""
    # No bias before BatchNorm: its gradient is zero but for rounding, of which Adam makes whole steps.
    model = nn.Sequential(nn.Linear(4, 6, bias=False), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 2)).to(F64)
    twin = copy.deepcopy(model)
    batches = [(torch.randn(8, 4, dtype=F64), torch.randint(0, 2, (8,))) for _ in range(6)]

    def train(model, place):
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        for x, y in batches:
            optimizer.zero_grad()
            F.cross_entropy(model(x.to(place)), y.to(place)).backward()
            optimizer.step()
        sojourn.flush()

    train(twin, "cpu")
    model.to(owner.device)  # not sent
    with workers(1) as (there,):
        there(train, model, owner.device)
    assert_same(model.state_dict(), twin.state_dict(), rtol=1e-9)


def test_threads_evaluate_one_model_at_once(owner, seed):
    """Nobody has sent the weights when all of them record; they travel with the first and are one value afterwards."""
    model = nn.Sequential(nn.Linear(200, 400), nn.ReLU(), nn.Linear(400, 3)).to(F64)
    xs = [torch.randn(5, 200, dtype=F64) for _ in range(4)]
    expected = [model(x).detach() for x in xs]
    size = sum(p.nbytes for p in model.parameters())
    recorded = threading.Barrier(4, timeout=60)

    def evaluate(x):
        with torch.no_grad():
            y = model(x.to(owner.device))
            recorded.wait()
            return sojourn.publish(y)

    with Count(owner) as count, concurrent.futures.ThreadPoolExecutor(4) as pool:
        model.to(owner.device)
        found = list(pool.map(evaluate, xs))
    assert_same(found, expected, rtol=1e-9)
    assert size <= count.of["bytes_up"] - sum(x.nbytes for x in xs) < 1.3 * size
    with Count(owner) as count:
        assert_same(model(xs[0].to(owner.device)), expected[0], rtol=1e-9)
    assert count.of["bytes_up"] < size / 2


@pytest.mark.parametrize("has_op", [False, True])
def test_a_producer_of_batches(owner, seed, has_op):
    """A thread that loads batches of a DataLoader and never sends: one trip per step, and nothing of it stays."""
    data = torch.utils.data.TensorDataset(torch.randn(96, 4, dtype=F64), torch.randint(0, 3, (96,)))
    model = nn.Linear(4, 3).to(F64)
    twin = nn.Linear(4, 3).to(F64)
    twin.load_state_dict(model.state_dict())
    model.to(owner.device)
    sojourn.flush()
    ready: queue.Queue = queue.Queue(maxsize=3)
    order = torch.randperm(96).tolist()

    def produce():
        kept = torch.ones(2).to(owner.device) + 1 if has_op else None  # an op that waits in its trace all along
        for x, y in torch.utils.data.DataLoader(data, batch_size=8, sampler=order):
            ready.put((x.to(owner.device), y.to(owner.device)))
        ready.put(None)
        return kept

    def train(model, optimizer, x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (model, twin)]
    step = sojourn.step(lambda x, y: sojourn.publish(train(model, optimizers[0], x, y)))
    losses, handles = [], []
    gc.collect()  # values of earlier tests, in cycles, count for the same owner
    producer = threading.Thread(target=produce)
    with Count(owner) as count:
        producer.start()
        while (batch := ready.get(timeout=60)) is not None:
            losses.append(step(*batch))
            del batch
            handles.append(owner.counters()["live_handles"])
        producer.join(60)
    expected = [
        train(twin, optimizers[1], x, y) for x, y in torch.utils.data.DataLoader(data, batch_size=8, sampler=order)
    ]
    assert_same([loss.value for loss in losses], expected, rtol=1e-9)
    assert_same(model.state_dict(), twin.state_dict(), rtol=1e-9)
    assert count.round_trips == len(losses) == 12
    assert len(set(handles[2:])) == 1, handles


def test_an_upload_of_a_replayed_call_that_another_thread_uses(owner, seed):
    """A call gives its upload away while it is open: its replays upload anew."""
    total = torch.zeros(3, dtype=F64).to(owner.device)
    sojourn.flush()
    with workers(1) as (there,):

        def body(x):
            here = x.to(owner.device)
            y = here * total
            seen = there(lambda: sojourn.publish(here + 1))
            return y, seen

        step = sojourn.step(body)
        for _ in range(4):
            x = torch.randn(3, dtype=F64)
            y, seen = step(x)
            assert_same([y, seen], [x * 0, x + 1])

        handed: list = []

        def quiet(x):
            here = x.to(owner.device)
            handed.append(here)
            if len(handed) < 3:
                there(lambda: sojourn.publish(here * 2))
            return here * 3

        replayed = sojourn.step(quiet, replay=True)
        for _ in range(7):
            x = torch.randn(3, dtype=F64)
            assert_same(replayed(x), x * 3)
        assert replayed.replayed >= 3, sojourn.explain()


def test_a_step_that_is_dropped_keeps_what_it_took_of_another_thread(owner, seed):
    w = torch.randn(4, dtype=F64)
    there_made = w.to(owner.device)
    with workers(1) as (there,):

        def dropped():
            with pytest.raises(KeyError), sojourn.step():
                there_made.mul_(2)
                raise KeyError

        there(dropped)
        assert_same(there_made * 1, w)
        sojourn.flush()
        there(dropped)
        assert_same(there_made, w)


@pytest.mark.parametrize("fails", [False, True])
def test_ids_of_the_other_trace_after_an_upload_has_left(owner, rng, fails):
    """A trace with reads of a table, pending ops and an open step loses uploads from its midst."""
    x = torch.randn(20)
    table = owner.register(f"shared{rng.random()}", {"x": x}, policy="open", bounds={"x": (-9.0, 9.0)})
    sojourn.flush()
    with workers(1) as (there,):
        values = [torch.randn(3) for _ in range(8)]
        uploads = [value.to(owner.device) for value in values]
        rows = table.rows("x")
        kept = uploads[3] * 2 + rows[:3]
        assert_same(there(lambda: sojourn.publish(uploads[0] + uploads[5])), values[0] + values[5])
        kept = kept + table.rows("x")[3:6] + uploads[6]
        try:
            with sojourn.step():
                kept.add_(1)
                inside = torch.ones(3).to(owner.device)
                more = uploads[1] + table.rows("x")[6:9]
                for at in rng.sample([2, 4, 7], 2):
                    there(lambda: sojourn.publish(uploads[at] * 3))
                assert there(lambda: sojourn.publish(inside * 3)).tolist() == [3, 3, 3]
                more = more * 2 + inside + uploads[2]
                if fails:
                    raise KeyError
        except KeyError:
            more = None
        expected = values[3] * 2 + x[:3] + x[3:6] + values[6] + (0 if fails else 1)
        assert_same([kept, rows, *uploads], [expected, x, *values], rtol=1e-5, atol=1e-5)
        if not fails:
            assert_same(more, (values[1] + x[6:9]) * 2 + 1 + values[2], rtol=1e-5, atol=1e-5)


def test_what_a_thread_has_computed_or_written_stays_its_own(owner, device):
    x = torch.ones(3).to(device)
    with workers(1) as (there,):
        y = x * 2
        with pytest.raises(sojourn.Error, match=r"another thread has computed this tensor.*sojourn.flush\(\) there"):
            there(lambda: y + 1)
        there(lambda: x + 1)
        with pytest.raises(sojourn.Error, match="another thread has used and not sent"):
            x.add_(1)
        there(sojourn.flush)
        x.add_(1)
        with pytest.raises(sojourn.Error, match="another thread has written to this tensor"):
            there(lambda: x + 1)
        z = torch.zeros(2).to(device)
        z.add_(1)
        with pytest.raises(sojourn.Error, match="another thread has written to this tensor"):
            there(lambda: z + 1)
        assert sojourn.publish([x, y, z])[0].tolist() == [2, 2, 2]


class Shared:
    """Uploads of several threads, with the values that they have in eager, and what threads have computed of them."""

    def __init__(self, owner, rng, threads):
        self.owner, self.rng = owner, rng
        self.uploads: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.own: list[list[tuple[torch.Tensor, torch.Tensor]]] = [[] for _ in range(threads)]

    def act(self, thread):
        rng, own = self.rng, self.own[thread]
        kind = rng.choice(
            ["upload", "upload", "use", "use", "use", "flush", "drop", "publish", "write", "fail", "step"]
        )
        if kind == "upload":
            value = torch.randn(rng.choice([(3,), (2, 3), ()]), dtype=F64)
            self.uploads.append((value.to(self.owner.device), value))
        elif kind == "drop" and self.uploads:
            self.uploads.pop(rng.randrange(len(self.uploads)))
        elif kind == "flush":
            sojourn.flush()
        elif kind in ("use", "step") and self.uploads:
            given = [rng.choice(self.uploads) for _ in range(rng.randint(1, 3))]
            with sojourn.step() if kind == "step" else contextlib.nullcontext():
                own.append((sum(there.sum() for there, _ in given) * 2, sum(here.sum() for _, here in given) * 2))
        elif kind == "publish" and own:
            there, here = own.pop(rng.randrange(len(own)))
            assert_same(there, here, rtol=1e-9)
        elif kind == "write" and own:
            there, here = rng.choice(own)
            there.add_(1), here.add_(1)
        elif kind == "fail" and self.uploads and own:
            with pytest.raises(KeyError), sojourn.step():
                own[-1][0].add_(rng.choice(self.uploads)[0].sum())
                raise KeyError


@pytest.mark.parametrize("threads", [2, 4])
def test_threads_in_any_order(owner, rng, threads):
    """Uploads, uses, writes, failing steps and flushes in a random order, one thread at a time, as eager."""
    before = owner.counters()["live_handles"]
    shared = Shared(owner, rng, threads)
    with workers(threads) as pools:
        for _ in range(250):
            thread = rng.randrange(threads)
            pools[thread](shared.act, thread)
        for thread, run in enumerate(pools):
            for there, here in shared.own[thread]:
                run(functools.partial(assert_same, there, here, rtol=1e-9))
        for there, here in shared.uploads:
            assert_same(there, here)
        del there, here
        shared.uploads.clear(), shared.own.clear()
        for run in (*pools, lambda function: function()):
            run(sojourn.flush)
        sojourn.flush()
    assert owner.counters()["live_handles"] <= before


def test_threads_at_once(seed):
    """Threads upload, use each other's uploads and send, all at once, with a switch after nearly every bytecode."""
    owner, rounds, threads = shared_owner(), 40, 4
    values = [[torch.randn(16, dtype=F64) for _ in range(rounds)] for _ in range(threads)]
    given: list[queue.Queue] = [queue.Queue() for _ in range(threads)]
    found: list[list] = [[] for _ in range(threads)]

    def work(number):
        kept = []
        for value in values[number]:
            there = value.to(owner.device)
            for other in range(threads):
                given[other].put(there)
            mine = there * 2  # the same upload is in traces of several threads
            theirs = [given[number].get(timeout=60) for _ in range(threads)]
            kept.append((mine, sum(t.sum() for t in theirs)))
            if len(kept) % 3 == 0:
                sojourn.flush()
        found[number] = sojourn.publish(kept)
        return len(kept)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            assert list(pool.map(work, range(threads), timeout=300)) == [rounds] * threads
    finally:
        sys.setswitchinterval(interval)
    total = sum(value.sum() for of in values for value in of)
    for number in range(threads):
        assert_same([mine for mine, _ in found[number]], [value * 2 for value in values[number]])
        # Which uploads met in a sum depends on time; over all rounds each was used once.
        assert_same(sum(part for _, part in found[number]), total, rtol=1e-9)
