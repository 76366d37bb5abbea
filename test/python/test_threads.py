# SPDX-License-Identifier: Apache-2.0
"""Threads: each records and steps for itself; what they share is what an owner has committed."""

import gc
import subprocess
import sys
import threading
import time

import pytest
import torch
import torch.nn.functional as F
from remote_support import Count, assert_same, shared_owner

import _sojourn
import sojourn

F64 = torch.float64


def in_threads(*functions):
    """Runs the functions at once; raises the first failure."""
    results, failures = [None] * len(functions), []

    def call(position, function):
        try:
            results[position] = function()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=call, args=pair) for pair in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    if failures:
        raise failures[0]
    return results


def trainer(where, state, data, explicit=True):
    """Trains a model of its own; returns its parameters and losses."""

    def run():
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)).to(F64)
        model.load_state_dict(state)
        model.to(where)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        losses = []
        for x, y in data:

            def step():
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x.to(where)), y.to(where))
                loss.backward()
                optimizer.step()
                return loss.detach()

            if explicit:
                losses.append(sojourn.step(step)())
            else:
                losses.append(step())
                sojourn.flush()
        return sojourn.publish([*losses, *(p.detach() for p in model.parameters())])

    return run


def tasks(count):
    for _ in range(count):
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)).to(F64)
        yield model.state_dict(), [(torch.randn(5, 3, dtype=F64), torch.randint(0, 2, (5,))) for _ in range(8)]


@pytest.mark.parametrize("runtime", ["native", "numpy"])
@pytest.mark.parametrize("explicit", [True, False], ids=["steps", "flushes"])
def test_two_threads_train_at_one_session(seed, runtime, explicit):
    owner, work = shared_owner(runtime), list(tasks(2))
    expected = [trainer("cpu", *task)() for task in work]
    with Count(owner) as count:
        found = in_threads(*(trainer(owner.device, *task, explicit) for task in work))
    assert_same(found, expected, rtol=1e-9)
    assert count.of["steps"] == 2 * (8 + 1)


def test_two_threads_train_at_two_owners(seed):
    work = list(tasks(2))
    expected = [trainer("cpu", *task)() for task in work]
    with sojourn.local() as first, sojourn.local() as second:
        found = in_threads(*(trainer(owner.device, *task) for owner, task in zip((first, second), work)))
        assert_same(found, expected, rtol=1e-9)


def test_committed_values_are_everybodys(owner, device):
    x = torch.arange(3.0).to(device)
    y = x * 2
    sojourn.flush()
    results = in_threads(*(lambda k=k: sojourn.publish(y + k) for k in range(4)))
    assert [r.tolist() for r in results] == [[k, 2 + k, 4 + k] for k in range(4)]


def test_unsent_results_of_another_thread(owner, device):
    x = torch.ones(3).to(device)
    sojourn.flush()
    y = x * 2  # not sent
    for use in (lambda: y + 1, lambda: sojourn.publish(y), lambda: y.add_(1), lambda: y[1:] * 2):
        with pytest.raises(sojourn.Error, match=r"another thread.*not sent.*sojourn.flush\(\) there"):
            in_threads(use)
    # Nothing of it hurt the thread that owns them.
    assert sojourn.publish(y).tolist() == [2, 2, 2]
    assert in_threads(lambda: sojourn.publish(y + 1))[0].tolist() == [3, 3, 3]


def test_unsent_writes_of_another_thread(owner, device):
    x = torch.ones(3).to(device)
    sojourn.flush()
    x.add_(1)
    with pytest.raises(sojourn.Error, match="another thread has written"):
        in_threads(lambda: x * 2)
    sojourn.flush()
    y = x * 2
    with pytest.raises(sojourn.Error, match="another thread has used"):
        in_threads(lambda: x.add_(1))
    assert sojourn.publish([x, y])[0].tolist() == [2, 2, 2]
    in_threads(lambda: (x.add_(1), sojourn.flush()))
    assert sojourn.publish(x).tolist() == [3, 3, 3]


def test_steps_of_threads_are_apart(owner, device):
    """One thread's step is dropped and nested while the other's goes on."""
    entered, left = threading.Event(), threading.Event()
    x = torch.ones(2).to(device)
    sojourn.flush()

    def dropped():
        with pytest.raises(KeyError):
            with sojourn.step():
                x * 5
                entered.set()
                assert left.wait(60)
                raise KeyError
        return sojourn.publish(x)

    def kept():
        assert entered.wait(60)
        try:
            with sojourn.step():
                with sojourn.step():
                    y = x * 3
                published = sojourn.publish(y)
                assert not published.ready
            return published.value
        finally:
            left.set()

    results = in_threads(dropped, kept)
    assert results[0].tolist() == [1, 1] and results[1].tolist() == [3, 3]


def told_as_ended(use):
    """What `use` raises once the thread has ended for C++ too, which Python's join does not wait for."""
    end = time.monotonic() + 60
    while True:
        with pytest.raises(sojourn.Error) as caught:
            use()
        if "another thread" not in str(caught.value) or time.monotonic() > end:
            return str(caught.value)
        time.sleep(0.01)


def test_a_thread_that_ends_with_an_open_trace(owner, device):
    gc.collect()
    sojourn.flush()
    before = owner.counters()["live_handles"]
    x = torch.ones(3).to(device)
    sojourn.flush()
    kept = in_threads(lambda: (x * 2, torch.full((2,), 7.0).to(device), x))[0]
    assert "the thread that recorded it ended before it was sent" in told_as_ended(lambda: kept[0] + 1)
    # An upload holds its own value, a committed one the owner's.
    assert sojourn.publish(kept[1]).tolist() == [7, 7] and sojourn.publish(kept[2]).tolist() == [1, 1, 1]

    def inside():
        _sojourn.step_begin()
        return x + 1

    left = in_threads(inside)[0]
    assert "ended before it was sent" in told_as_ended(lambda: left + 1)
    x = kept = left = None
    gc.collect()
    sojourn.flush()
    assert owner.counters()["live_handles"] <= before


def test_a_released_handle_that_another_threads_trace_needs(owner, device):
    x = torch.ones(3).to(device)
    sojourn.flush()
    y = x * 2
    del x  # its handle is needed until y is sent
    in_threads(lambda: sojourn.publish(torch.ones(1).to(device)))
    assert sojourn.publish(y).tolist() == [2, 2, 2]


def test_backward_in_a_thread_of_its_own(owner, device, seed):
    w = torch.randn(3, dtype=F64)

    def gradient(where):
        leaf = w.to(where).requires_grad_()
        (leaf * leaf).sum().backward()
        return sojourn.publish(leaf.grad)

    assert torch.equal(in_threads(lambda: gradient(device))[0], gradient("cpu"))


def test_backward_on_the_engines_own_thread_is_refused(owner, device):
    def run():
        w = torch.ones(3, dtype=F64).to(device).requires_grad_()
        loss = (w * 2).sum()
        with torch.autograd.set_multithreading_enabled(True):
            loss.backward()

    with pytest.raises(sojourn.Error, match="set_multithreading_enabled"):
        in_threads(run)


def fragile(name):
    """An embedded owner behind a transport that can be made to fail."""
    embedded = _sojourn.EmbeddedOwner()
    state = {"fails": False}

    def handle(request):
        if state["fails"]:
            raise sojourn.ConnectionLost(f"the cable of {name} is out")
        return embedded.handle(request)

    return _sojourn.Session(handle, name), state


def test_a_step_over_two_owners_where_one_fails(seed):
    session, state = fragile("far")
    far = torch.device("owner", session.index)
    with sojourn.local() as near:
        a, b = torch.ones(2).to(near.device), torch.ones(2).to(far)
        sojourn.flush()
        state["fails"] = True
        with pytest.raises(sojourn.ConnectionLost) as caught:
            with sojourn.step():
                here, there = a * 2, b * 2
                published = sojourn.publish([a + 1, b + 1])
        text = str(caught.value)
        assert "cable of far" in text and "unknown whether the owner ran" in text
        assert f"committed at: {near.device} (local)" in text and f"failed at: {far} (far)" in text
        state["fails"] = False
        assert sojourn.publish(here).tolist() == [2, 2]
        with pytest.raises(sojourn.Error, match="unknown whether the step ran"):
            there + 1
        with pytest.raises(sojourn.Error, match="unknown"):
            published.value
        assert sojourn.publish([a, b])[1].tolist() == [1, 1]
    session.close()


def test_a_step_over_two_owners_sends_to_both_before_it_waits():
    """Each owner answers only once the other has been asked."""
    embedded = [_sojourn.EmbeddedOwner() for _ in range(2)]
    barrier, meet = threading.Barrier(2, timeout=60), False

    def handle(which):
        def call(request):
            if meet:
                barrier.wait()
            return embedded[which].handle(request)

        return call

    sessions = [_sojourn.Session(handle(k), f"owner {k}") for k in range(2)]
    x = [torch.full((2,), float(k)).to(torch.device("owner", s.index)) for k, s in enumerate(sessions)]
    sojourn.flush()
    meet = True
    with sojourn.step():
        published = sojourn.publish([t + 1 for t in x])
    meet = False
    assert [v.tolist() for v in published.value] == [[1, 1], [2, 2]]
    for session in sessions:
        session.close()


def test_owners_of_other_threads_are_not_waited_for():
    """A thread's step is under way at one owner until this thread has made steps at another one."""
    embedded = [_sojourn.EmbeddedOwner() for _ in range(2)]
    under_way, made = threading.Event(), threading.Event()
    waits, waited = False, []

    def handle(which):
        def call(request):
            if waits and which == 0:
                under_way.set()
                waited.append(made.wait(20))
            return embedded[which].handle(request)

        return call

    sessions = [_sojourn.Session(handle(k), f"owner {k}") for k in range(2)]
    # This thread has used both.
    x, y = [torch.full((2,), float(k)).to(torch.device("owner", s.index)) for k, s in enumerate(sessions)]
    sojourn.flush()

    def slow():
        with sojourn.step():
            x.add_(1)

    waits = True
    thread = threading.Thread(target=slow)
    thread.start()
    assert under_way.wait(20)
    for _ in range(2):
        with sojourn.step():
            y.add_(1)
        y.add_(1)
        sojourn.flush()
    assert sojourn.publish(y).tolist() == [5, 5]
    made.set()
    thread.join()
    waits = False
    assert waited == [True], "the steps here waited for the other owner"
    assert sojourn.publish(x).tolist() == [1, 1]
    for session in sessions:
        session.close()


DEADLOCK = """
import faulthandler, sys, threading
import torch, sojourn, _sojourn
faulthandler.dump_traceback_later(120, exit=True)
sys.setswitchinterval(1e-5)
owner = sojourn.local()
phases = []

def flushing():
    for k in range(1, 13):
        _sojourn.set_phase_listener(lambda phase, text: phases.append(len(text)))
        sojourn.publish(torch.ones(k, 2).to(owner.device) + 1)

def compiling():
    for k in range(1, 13):
        with sojourn.offline() as device:
            program = sojourn.compile(lambda x: x * 2, inputs=[sojourn.spec((k,))])
        program.text("core")
        program._artifact.text(2)

threads = [threading.Thread(target=f) for f in (flushing, compiling, flushing)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert phases
print("done")
"""


def test_compiling_and_the_interpreter_do_not_wait_for_each_other():
    """Threads compile with a listener and with lines to resolve, with and without the interpreter held."""
    run = subprocess.run([sys.executable, "-c", DEADLOCK], capture_output=True, text=True, timeout=180)
    assert run.returncode == 0 and "done" in run.stdout, run.stderr[-4000:]
