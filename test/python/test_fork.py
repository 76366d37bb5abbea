# SPDX-License-Identifier: Apache-2.0
"""A session, an embedded owner and what it has paid belong to the process that opened them; a fork of it is refused."""

import os
import pathlib
import pickle
import re
import subprocess
import sys
import textwrap
import threading

import pytest
import torch
from owner_process import OwnerProcess
from private_support import DELTA, make_table, numpy_rng, own_owner  # noqa: F401 (fixtures)
from torch import nn

import sojourn

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
ROWS, SIZE = 400, 20
BOUNDS = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
TWO_PROCESSES = re.compile(r"opened by process (\d+), and this is process (\d+), a fork of it")
SECONDS = 60


def in_fork(work):
    """What `work` returns or raises in a child made by fork: (class name, text) of an exception."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            try:
                answer = work()
            except BaseException as failure:
                answer = (type(failure).__name__, str(failure))
            os.write(writing, pickle.dumps(answer))
        finally:
            os._exit(0)
    os.close(writing)
    timer = threading.Timer(SECONDS, os.kill, (child, 9))  # a child that waits for a lock waits for ever
    timer.start()
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    assert os.waitpid(child, 0)[1] == 0, f"the child did not answer within {SECONDS} seconds"
    timer.cancel()
    return pickle.loads(answer)


def assert_refused(answer, cls="Error"):
    name, text = answer
    assert name == cls, answer
    parent, child = TWO_PROCESSES.search(text).groups()
    assert int(parent) == os.getpid() != int(child), text


def columns(rng):
    return {name: torch.from_numpy(rng.random(ROWS)).float() for name in BOUNDS}


class Training:
    """A linear model and its steps on private batches."""

    def __init__(self, owner, table):
        self.model = nn.Linear(1, 1).to(owner.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.batches = iter(table.batches(["x"], label="y", size=SIZE, epochs=10))

        @sojourn.step
        def step(x, y):
            loss = ((self.model(x).squeeze(-1) - y) ** 2).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

        self._step = step

    def take(self, count):
        for _ in range(count):
            self._step(*next(self.batches))


def test_whatever_a_fork_asks_of_its_parents_owner_is_refused_by_name(owner, rng):
    table = make_table(owner, columns(rng), BOUNDS)
    model = nn.Linear(1, 1).to(owner.device)
    tensor = torch.ones(3).to(owner.device) + 1
    scale = sojourn.step(lambda x: x * 2, replay=True)
    for _ in range(4):
        scale(tensor)

    @sojourn.step
    def step():
        return tensor * 2

    asked = {
        "op": lambda: tensor + 1,
        "step": step,
        "replayed step": lambda: scale(tensor),
        "loop": lambda: sojourn.loop(lambda x: x * 2, [(tensor,)] * 3),
        "upload": lambda: torch.ones(2).to(owner.device),
        "factory": lambda: torch.zeros(2, device=owner.device),
        "module": lambda: model(tensor[:1]),
        "read": lambda: tensor.sum().item(),
        "publish": lambda: sojourn.publish(table["x"].mean(), epsilon=0.1),
        "batches": lambda: next(iter(table.batches(["x"], size=SIZE, epochs=1))),
        "privacy": lambda: sojourn.privacy(table, epsilon=1, size=SIZE, epochs=1).__enter__(),
        "grant": lambda: owner.grant("people", epsilon=1, delta=DELTA),
        "budget": lambda: owner.budget("people"),
        "register": lambda: owner.register("more", {"x": torch.ones(3)}, policy="open"),
        "defaults": lambda: owner.set_defaults("people", clip=2.0),
        "datasets": owner.datasets,
        "dataset": lambda: owner.dataset("people"),
        "programs": owner.programs,
    }
    left = owner.budget("people").epsilon_left
    for what, ask in asked.items():
        print(what)
        assert_refused(in_fork(ask))
    assert owner.budget("people").epsilon_left == left
    assert sojourn.publish((tensor, scale(tensor)))[1].tolist() == [4, 4, 4]  # what was pending is the parent's still


def test_a_program_compiled_ahead_runs_at_no_owner_of_the_parent(owner):
    with sojourn.offline():
        program = sojourn.compile(lambda x: x * 2, inputs=[sojourn.spec((3,))])
    assert program.run(owner, [(torch.ones(3),)])[0].tolist() == [2, 2, 2]
    assert_refused(in_fork(lambda: program.run(owner, [(torch.ones(3),)])))


def test_a_parent_pays_for_its_own_steps_alone(rng):
    data, left, taken = columns(rng), [], []
    for forks in (False, True):
        with sojourn.local() as owner:
            table = make_table(owner, data, BOUNDS, epsilon=20)
            with sojourn.privacy(table, noise_multiplier=1, delta=DELTA, size=SIZE, epochs=10) as run:
                training = Training(owner, table)
                training.take(3)
                if forks:  # steps of a block that is paid for, in a run that is open: the copy has 61 of them left
                    for _ in range(3):
                        assert_refused(in_fork(lambda: training.take(17)))
                training.take(4)
                taken.append((run.taken, run.epsilon))
            left.append(owner.budget("people").epsilon_left)
    assert taken[0] == taken[1] and taken[0][0] == 7
    assert left[0] == left[1]


def test_a_fork_leaves_a_run_of_its_parent_without_a_word(owner, rng):
    table = make_table(owner, columns(rng), BOUNDS)

    def leave(run):
        run.__exit__(None, None, None)
        return "left"

    with sojourn.privacy(table, noise_multiplier=1, delta=DELTA, size=SIZE, epochs=10) as run:
        training = Training(owner, table)
        training.take(2)
        assert in_fork(lambda: leave(run)) == "left"
        assert in_fork(owner.close) is None
        training.take(1)
        assert run.taken == 3


def test_a_fork_has_owners_of_its_own(owner):
    pending = torch.ones(3).to(owner.device) + 1

    def work():
        with sojourn.local() as own:
            x = torch.arange(4.0).to(own.device)
            return sojourn.publish((x * 2).sum()).item()

    assert in_fork(work) == 12
    assert sojourn.publish(pending).tolist() == [2, 2, 2]


def test_processes_share_a_store_that_each_opened_itself(tmp_path, rng):
    with sojourn.local(tmp_path) as owner:
        make_table(owner, columns(rng), BOUNDS, epsilon=5)
        sojourn.publish(owner.dataset("people")["x"].mean(), epsilon=0.5)
        before = owner.budget("people").epsilon_left

        def work():
            with sojourn.local(tmp_path) as own:
                sojourn.publish(own.dataset("people")["x"].mean(), epsilon=0.5)
                return own.budget("people").epsilon_left

        after = in_fork(work)
        assert after < before
        assert owner.budget("people").epsilon_left == after
        sojourn.publish(owner.dataset("people")["x"].mean(), epsilon=0.5)
        assert owner.budget("people").epsilon_left < after


def test_a_lock_that_another_thread_holds_does_not_stop_a_fork(owner):
    """The other thread is in a step when the process forks: in the child its locks are held for ever."""
    tensor = torch.ones(3).to(owner.device) + 1
    sojourn.flush()
    within, go_on = threading.Event(), threading.Event()

    def hold():
        import _sojourn

        def handle(request):
            if within.armed:
                within.set()
                go_on.wait(SECONDS)
            return inner.handle(request)

        inner = _sojourn.EmbeddedOwner()
        within.armed = False
        session = _sojourn.Session(handle, "slow")
        within.session = session
        x = torch.ones(2).to(torch.device("owner", session.index))
        within.armed = True
        sojourn.publish(x + 1)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert within.wait(SECONDS)
        slow = torch.device("owner", within.session.index)
        assert_refused(in_fork(lambda: torch.ones(2, device=slow)))
        assert_refused(in_fork(lambda: within.session.datasets()))
        assert_refused(in_fork(lambda: tensor + 1))
    finally:
        within.armed = False
        go_on.set()
        thread.join()
    assert sojourn.publish(tensor).tolist() == [2, 2, 2]


def run_script(folder, text, *arguments):
    """Runs a script; what it printed, and nothing on its error stream."""
    script = pathlib.Path(folder) / "script.py"
    script.write_text(textwrap.dedent(text))
    path = os.pathsep.join([*sys.path])
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=3 * SECONDS,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0 and not done.stderr, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout.split()


LOADING = """
    import gc, os, sys
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    import sojourn

    owner = sojourn.local(sys.argv[1], profile=sys.argv[1] + "/profile")
    table = owner.register("t", {"x": torch.rand(100)}, bounds={"x": (0, 1)})
    owner.grant("t", epsilon=5, delta=1e-5)
    sojourn.publish(table["x"].mean(), epsilon=0.5)
    weight = torch.ones(1).to(owner.device)
    pending = weight + 1
    left = owner.budget("t").epsilon_left
    total = 0.0
    for epoch in range(2):
        for (rows,) in DataLoader(TensorDataset(torch.ones(40, 1)), batch_size=10, num_workers=2):
            total += sojourn.publish((rows.to(owner.device) * weight).sum()).item()
    print(total, sojourn.publish(pending).item(), owner.budget("t").epsilon_left == left, flush=True)  # forks flush, too
    for how in ("return", "exit", "gc"):
        if os.fork() == 0:
            if how == "gc":
                del owner, table, weight, pending
                gc.collect()
            sys.exit(0)  # with all that ends of processes and of objects do
        assert os.wait()[1] == 0
    sojourn.publish(table["x"].mean(), epsilon=0.5)
    print(owner.budget("t").epsilon_left < left, sojourn.publish(weight * 3).item())
    owner.close()
    print(len(sojourn.local(sys.argv[1]).datasets()))
"""


def test_workers_of_a_data_loader_never_notice_the_owner(tmp_path):
    assert run_script(tmp_path, LOADING, tmp_path / "store") == ["80.0", "2.0", "True", "True", "3.0", "1"]


SPAWNING = """
    import multiprocessing, sys
    import torch

    import sojourn


    def work(address, answers):
        with sojourn.connect(address) as owner:
            answers.put(sojourn.publish(torch.ones(3).to(owner.device).sum()).item())


    if __name__ == "__main__":
        owner = sojourn.connect(sys.argv[1])
        tensor = torch.ones(2).to(owner.device)
        context = multiprocessing.get_context("spawn")
        answers = context.Queue()
        processes = [context.Process(target=work, args=(sys.argv[1], answers)) for _ in range(2)]
        for process in processes:
            process.start()
        print(answers.get(timeout=100), answers.get(timeout=100))
        for process in processes:
            process.join()
        print(sojourn.publish(tensor.sum()).item(), *(process.exitcode for process in processes))
"""


@pytest.fixture
def served(tmp_path):
    process = OwnerProcess(tmp_path)
    yield process
    process.close()


def test_spawned_processes_connect_to_a_served_owner(served, tmp_path):
    assert run_script(tmp_path, SPAWNING, served.address) == ["3.0", "3.0", "2.0", "0", "0"]


FORKING = """
    import os, sys
    import torch

    import sojourn

    owner = sojourn.connect(sys.argv[1])
    tensor = torch.ones(2).to(owner.device)
    pending = tensor + 1
    for ask in (lambda: tensor + 1, lambda: owner.datasets(), lambda: sojourn.connect(sys.argv[1])):
        if os.fork() == 0:
            try:
                ask()
            except sojourn.Error as failure:
                spawn = 'multiprocessing.get_context("spawn")' in str(failure)
                print(type(failure).__name__, f"opened by process {os.getppid()}, and this is process {os.getpid()}" in
                      str(failure), spawn, flush=True)
            sys.exit(0)
        assert os.wait()[1] == 0
    print(sojourn.publish(pending).tolist(), flush=True)
"""


def test_a_fork_of_a_client_is_refused_and_its_parent_goes_on(served, tmp_path):
    printed = run_script(tmp_path, FORKING, served.address)
    assert printed == ["Error", "True", "True"] * 2 + ["ConnectionLost", "True", "True", "[2.0,", "2.0]"]
