# SPDX-License-Identifier: Apache-2.0
"""Forks of a client of a served owner: they end in any way, say nothing to the owner, and their parent trains on."""

import os
import pathlib
import re
import subprocess
import sys
import textwrap

import pytest
from owner_process import OwnerProcess
from proxy_support import free_address

SECONDS = 120


@pytest.fixture(params=["ipc", "tcp"])
def served(request, tmp_path):
    process = OwnerProcess(tmp_path, free_address() if request.param == "tcp" else None)
    yield process
    assert process.close() == 0


def run_script(folder, text, *arguments):
    script = pathlib.Path(folder) / "script.py"
    script.write_text(textwrap.dedent(text))
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


LOADING = """
    import sys
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    import sojourn

    torch.manual_seed(int(sys.argv[2]))
    data = TensorDataset(torch.rand(60, 3), torch.rand(60, 1))
    first = nn.Linear(3, 1)
    ends = []
    owner = sojourn.connect(sys.argv[1], plain_tcp=True)
    for place, workers in ((owner.device, 2), ("cpu", 0)):
        model = nn.Linear(3, 1)
        model.load_state_dict(first.state_dict())
        model = model.to(place)
        optimizer = torch.optim.Adam(model.parameters())

        @sojourn.step
        def train(x, y):
            optimizer.zero_grad()
            loss = ((model(x.to(place)) - y.to(place)) ** 2).mean()
            loss.backward()
            optimizer.step()
            return sojourn.publish(loss.detach()) if workers else loss.detach()

        for epoch in range(2):
            for x, y in DataLoader(data, batch_size=10, num_workers=workers):
                train(x, y)
        ends.append(model.weight.detach().cpu())
    torch.testing.assert_close(*ends, rtol=1e-5, atol=1e-6)
    owner.close()
    print("trained")
"""


def test_a_data_loader_with_workers_beside_training(served, tmp_path, seed):
    done = run_script(tmp_path, LOADING, served.address, seed)
    assert done.stdout == "trained\n" and not done.stderr


ENDING = """
    import gc, multiprocessing, os, sys
    import torch

    import sojourn


    def leave(how):
        global owner, tensor, pending, published
        if how == "exit":
            sys.exit(0)
        if how == "_exit":
            os._exit(0)
        if how == "raise":
            raise RuntimeError("of the child")
        if how == "gc":
            del owner, tensor, pending
            gc.collect()
            sys.exit(0)
        if how == "close":
            owner.close()
            owner.__exit__(None, None, None)
            sys.exit(0)
        if how == "use":
            tensor + 1


    owner = sojourn.connect(sys.argv[1], plain_tcp=True)
    tensor = torch.ones(2).to(owner.device)
    pending = tensor + 1
    sojourn.publish(tensor)
    context = multiprocessing.get_context("fork")
    for how in ("exit", "_exit", "raise", "gc", "close", "use"):
        child = os.fork()
        if child == 0:
            leave(how)
        print(how, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        worker = context.Process(target=leave, args=(how,))
        worker.start()
        worker.join()
        print("process", how, worker.exitcode, flush=True)
    print(sojourn.publish(pending + tensor).tolist(), owner.counters()["round_trips"])
    owner.close()
"""


def test_whatever_way_a_fork_ends(served, tmp_path):
    done = run_script(tmp_path, ENDING, served.address)
    failing = ("raise", "use")
    expected = []
    for how in ("exit", "_exit", "raise", "gc", "close", "use"):
        # An exception in a fork of the script itself ends that as a script.
        expected += [f"{how} {int(how in failing)}", f"process {how} {int(how in failing)}"]
    lines = done.stdout.splitlines()
    assert lines[:-1] == expected
    values, trips = lines[-1].rsplit(" ", 1)
    assert values == "[3.0, 3.0]"
    # Nothing was said to the owner but by the parent.
    assert served.requests(int(trips) + 1) == int(trips) + 1 == served.settled()
    used = re.findall(
        r"Error: this session with the owner at .* was opened by process (\d+), and this is process (\d+)", done.stderr
    )
    assert len(used) == 2 and len({parent for parent, _ in used}) == 1 and len({child for _, child in used}) == 2
    assert 'multiprocessing.get_context("spawn")' in done.stderr


EMBEDDING = """
    import gc, multiprocessing, os, sys
    import torch

    import sojourn

    local = sojourn.local(sys.argv[2])
    table = local.register("t", {"x": torch.rand(100)}, bounds={"x": (0, 1)})
    local.grant("t", epsilon=5, delta=1e-5)
    served = sojourn.connect(sys.argv[1], plain_tcp=True)
    here, there = torch.ones(2).to(local.device), torch.ones(2).to(served.device)
    sojourn.publish([here, there])
    sojourn.publish(table["x"].mean(), epsilon=0.5)
    left = local.budget("t").epsilon_left


    def work(answers):
        told = []
        for ask in (lambda: here + 1, lambda: there + 1, lambda: local.budget("t"), lambda: sojourn.publish(there)):
            try:
                ask()
            except sojourn.Error as failure:
                told.append("a fork of it" in str(failure))
        with sojourn.local() as own:  # an owner of its own works
            told.append(sojourn.publish(torch.ones(3).to(own.device).sum()).item())
        answers.put(told)


    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    workers = [context.Process(target=work, args=(answers,)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        print(answers.get(timeout=100))
    for worker in workers:
        worker.join()
    print([worker.exitcode for worker in workers], local.budget("t").epsilon_left == left)
    print(sojourn.publish(here + here).tolist(), sojourn.publish(there * 3).tolist())
    served.close()
    local.close()
"""


def test_a_process_with_an_owner_of_its_own_and_a_served_one(served, tmp_path):
    done = run_script(tmp_path, EMBEDDING, served.address, tmp_path / "own")
    assert done.stdout.splitlines() == [str([True] * 4 + [3.0])] * 3 + ["[0, 0, 0] True", "[2.0, 2.0] [3.0, 3.0]"]
    assert not done.stderr
