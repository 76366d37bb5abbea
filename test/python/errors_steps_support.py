# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F841 (examples name what they compute)
"""Refusals of steps, loops, replays, threads and modules."""

import threading

import torch
from errors_support import example
from torch import nn

import sojourn
from sojourn import DeadlineExceeded, Error, Unsupported, ValueNeeded


def in_a_thread(work):
    """Runs `work` in a separate thread and raises its exception here."""
    failures = []

    def run():
        try:
            work()
        except Exception as failure:
            failures.append(failure)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


@example(TypeError, "sojourn.step of a non-function", "takes a function, got int")
def _():
    sojourn.step(3)


@example(TypeError, "sojourn.step of a generator", "is a generator", "whose body runs later", "with sojourn.step():")
def _():
    @sojourn.step
    def batches():
        yield 1


@example(Error, "Replay of a block", "replay=True is for functions", "@sojourn.step(replay=True)")
def _():
    with sojourn.step(replay=True):
        pass


@example(ValueNeeded, "A search for NaN inside a step", "anomaly mode looks for NaN", "check_nan=False")
def _(x):
    with sojourn.step(), torch.autograd.set_detect_anomaly(True):
        x.clone().requires_grad_().square().sum().backward()


@example(Unsupported, "A replayed step with an unexplained number", "cannot be replayed", "example.py:5", "float")
def _(x):
    numbers = iter(range(10))

    @sojourn.step(replay=True)
    def scale():
        return x * next(numbers) ** 2.5

    for _ in range(5):
        scale()


@example(Error, "sojourn.loop of a non-function", "loop takes a function, got int")
def _():
    sojourn.loop(3, [])


@example(Error, "sojourn.loop inside a step", "creates its own steps", "outside of a step")
def _(x):
    with sojourn.step():
        sojourn.loop(lambda t: t, [(x,)])


@example(Error, "Too many steps in one round trip", "per_trip is 5000, an owner takes up to")
def _(x):
    sojourn.loop(lambda t: t, [(x,)], per_trip=5000)


@example(Error, "A scheduler that needs a metric", "available only after the loop", "step it between loops")
def _(optimizer, x):
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    sojourn.loop(lambda t: t, [(x,)], schedulers=scheduler)


@example(Error, "Invalid scheduler", "must be of torch.optim.lr_scheduler, got str")
def _(x):
    sojourn.loop(lambda t: t, [(x,)], schedulers=["cosine"])


@example(DeadlineExceeded, "Expired deadline", "deadline of 1e-09 seconds", "after 0 steps", "committed")
def _(x):
    sojourn.loop(lambda t: t * 2, ((x,) for _ in range(10**9)), deadline=1e-9)


@example(Error, "Invalid deadline", "deadline must be a number above 0", "got -1")
def _(x):
    sojourn.loop(lambda t: t, [(x,)], deadline=-1)


@example(
    Error, "A tensor computed by another thread", "another thread has computed this tensor", "sojourn.flush() there"
)
def _(x):
    double = x * 2
    in_a_thread(lambda: double + 1)


@example(
    Error, "A tensor written by another thread", "another thread has written to this tensor", "before this thread uses"
)
def _(x):
    sojourn.flush()
    x.add_(1)
    in_a_thread(lambda: x + 1)


@example(
    Error,
    "A write to a tensor in use by another thread",
    "another thread has used and not sent yet",
    "before this thread writes",
)
def _(x):
    sojourn.flush()
    double = x * 2
    in_a_thread(lambda: x.add_(1))


@example(Error, "backward() on a thread of torch's engine", "set_multithreading_enabled(False)", "within sojourn.step")
def _(device):
    def work():
        w = torch.ones(3).to(device).requires_grad_()
        loss = (w * 2).sum()
        with torch.autograd.set_multithreading_enabled(True):
            loss.backward()

    in_a_thread(work)


@example(Error, "A module moved to a non-owner", "expected an owner or its device, got 'cuda'", "module.to('cuda')")
def _():
    sojourn.to_owner(nn.Linear(2, 2), "cuda")


@example(Error, "A module with the optimizer of another module", "SGD holds 2 parameters that are not in this Linear")
def _(owner):
    optimizer = torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1)
    sojourn.to_owner(nn.Linear(2, 2), owner, optimizer)


@example(
    Error,
    "A module moved while C++ holds a weak reference to it",
    "a Parameter of shape (2, 2) cannot move",
    "move the module before it is compiled or traced",
)
def _(device):
    model = nn.Linear(2, 2)
    reference = torch._C._WeakTensorRef(model.weight)
    model.to(device)
