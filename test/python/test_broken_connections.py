# SPDX-License-Identifier: Apache-2.0
"""Owners that are killed or restarted, and connections that break: noticed at once, and nothing runs or is paid twice."""

import os
import pathlib
import signal
import subprocess
import tempfile
import threading
import time

import pytest
import torch
from owner_process import ROOT, OwnerProcess
from proxy_support import CuttingProxy, free_address

import sojourn

ROWS, DELTA = 40, 1e-5


@pytest.fixture(params=["ipc", "tls"])
def served(request, tmp_path):
    """An owner process, which may be dead when the test ends."""
    process = OwnerProcess(tmp_path, "tls+" + free_address() if request.param == "tls" else None)
    yield process
    process._process.kill()
    process._process.wait(20)


def long_step(x, times):
    with sojourn.step():
        for _ in range(times):
            x = torch.tanh(x @ x)
        return sojourn.publish(x.sum())


@pytest.mark.alone
@pytest.mark.parametrize("busy", [True, False], ids=["at a step", "idle"])
def test_a_killed_owner_is_noticed_within_a_second(served, busy):
    with sojourn.connect(served.address, plain_tcp=True) as owner:
        x = torch.rand(800, 800).to(owner.device)
        long_step(x, 1)
        killed = []

        def kill():
            served._process.kill()
            served._process.wait(20)
            killed.append(time.monotonic())

        timer = threading.Timer(0.7 if busy else 0.0, kill)
        timer.start()
        if not busy:
            timer.join()
        told = "unknown whether the owner ran the step" if busy else "the step was not sent"
        with pytest.raises(sojourn.ConnectionLost, match=f"Connection refused.*{told}"):
            long_step(x, 2000)
        timer.join()
        assert time.monotonic() - killed[0] < 1
        begin = time.monotonic()
        for ask in (owner.datasets, lambda: sojourn.publish(x * 2), owner.close):
            with pytest.raises(sojourn.ConnectionLost, match="Connection refused"):
                ask()
        assert time.monotonic() - begin < 3
        owner.close = lambda: None


class Store:
    """A data owner's store with a private table, a client with a budget, and a server that can be restarted."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        torch.manual_seed(0)
        (folder / "t.csv").write_text("a\n" + "\n".join(str(value) for value in torch.rand(ROWS).tolist()) + "\n")
        self("import", folder / "t.csv", "--name=people", "--policy=private", "--bound=a=0:1", "--rows-are-subjects")
        self("client", "add", "ada", "--key", self.newcomer("ada"))
        self("budget", "cap", "people", "--epsilon=65536", "--delta=1e-3")
        self("budget", "grant", "ada", "people", "--epsilon=64", f"--delta={DELTA}")
        self.process = OwnerProcess(folder)

    def __call__(self, *words):
        command = [ROOT / "build/bin/sojourn-owner", *words, "--store", self.folder / "store"]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr

    def restart(self):
        self.process._process.kill()
        self.process._process.wait(20)
        self.process = OwnerProcess(self.folder)

    def newcomer(self, name) -> pathlib.Path:
        subprocess.run([ROOT / "build/bin/sojourn", "keygen", self.folder / name], check=True, capture_output=True)
        return self.folder / f"{name}.pub"

    def connect(self, address=None, name="ada", **options):
        return sojourn.connect(address or self.process.address, identity=self.folder / name, **options)

    def close(self):
        self.process._process.kill()
        self.process._process.wait(20)


@pytest.fixture
def store(tmp_path):
    made = Store(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="module")
def shared_store():
    with tempfile.TemporaryDirectory(prefix="sojourn-") as folder:
        made = Store(pathlib.Path(folder))
        yield made
        made.close()


def test_a_restarted_owner_is_a_typed_error_and_charges_nothing_again(store):
    owner = store.connect()
    count = torch.zeros(3).to(owner.device)

    def release(session):
        with sojourn.step():
            count.add_(1)
            return sojourn.publish(session.dataset("people")["a"].sum(), epsilon=0.5)

    release(owner)
    left = owner.budget("people").epsilon_left
    store.restart()
    for _ in range(2):
        with pytest.raises(sojourn.OwnerError, match="unknown session: .*the owner was restarted; connect again"):
            release(owner)
    with store.connect() as again:
        assert again.budget("people").epsilon_left == left
        sojourn.publish(again.dataset("people")["a"].sum(), epsilon=0.5)
        assert again.budget("people").epsilon_left < left
    owner.close()


def price_of(releases: int) -> float:
    """What so many of the releases below cost a client with the same grant, without any cut."""
    with sojourn.local() as owner:
        table = owner.register("people", {"a": torch.rand(ROWS)}, policy="private", bounds={"a": (0, 1)})
        owner.grant("people", epsilon=64, delta=DELTA)
        before = owner.budget("people").epsilon_left
        for _ in range(releases):
            sojourn.publish(table["a"].sum(), epsilon=0.25)
        return before - owner.budget("people").epsilon_left


@pytest.mark.parametrize("trial", range(12))
def test_connections_cut_anywhere(shared_store, trial, rng, tmp_path):
    """Training and releases through a proxy that cuts each connection after some bytes, in either direction."""
    cuts = [False]
    store, many = shared_store, rng.choice((0.3, 0.6))
    # Within a message, or after some; the longest come through now and then.
    draw = lambda: rng.randrange(6000, 20000) if rng.random() < many else rng.randrange(100, 6000)
    proxy = CuttingProxy(tmp_path, store.process.address, lambda: draw() if cuts[0] else None)
    store("client", "add", f"ada{trial}", "--key", store.newcomer(f"ada{trial}"))
    store("budget", "grant", f"ada{trial}", "people", "--epsilon=64", f"--delta={DELTA}")
    with store.connect(proxy.address, f"ada{trial}", timeout=60) as owner:
        table = owner.dataset("people")
        w = torch.zeros(3, dtype=torch.float64).to(owner.device)
        sojourn.flush()
        expected, releases = torch.zeros(3, dtype=torch.float64), 0
        before = owner.budget("people").epsilon_left
        cuts[0] = True
        for k in range(12):
            x = torch.tensor([rng.randrange(1021) for _ in range(200)], dtype=torch.float64)
            with sojourn.step():
                w.add_(x.to(owner.device).sum()).mul_(3).remainder_(1021)
                if k % 4 == 0:
                    sojourn.publish(table["a"].sum(), epsilon=0.25)
                    releases += 1
            expected = ((expected + x.sum()) * 3) % 1021
        cuts[0] = False
        assert torch.equal(sojourn.publish(w), expected), proxy.cuts
        # What is left is found by bisection; a release more would cost a third.
        assert before - owner.budget("people").epsilon_left == pytest.approx(price_of(releases), rel=1e-4), proxy.cuts
        assert proxy.cuts > 0
    proxy.close()


@pytest.mark.parametrize("scheme", ["tcp", "tls+tcp"])
def test_the_kernel_watches_connections_over_tcp(tmp_path, scheme):
    """A machine that vanishes says nothing; its silence is noticed on both sides (`KeepAlive.h`)."""
    process = OwnerProcess(tmp_path, free_address().replace("tcp", scheme))
    try:
        with sojourn.connect(process.address, plain_tcp=scheme == "tcp") as owner:
            assert (torch.ones(2).to(owner.device) + 1).tolist() == [2, 2]
            port = f":{int(process.address.rpartition(':')[2]):04X}"
            for end, seconds in ((1, 30), (2, 5)):  # the owner's, the client's
                kind, begin = "01", time.monotonic()
                while kind == "01" and time.monotonic() < begin + 20:  # its last bytes are not acknowledged yet
                    lines = [line.split() for line in pathlib.Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
                    (timer,) = (words[5] for words in lines if words[end].endswith(port) and words[3] == "01")
                    kind, left = timer.split(":")
                # Keepalive, in clock ticks.
                assert kind == "02" and int(left, 16) <= (seconds + 1) * os.sysconf("SC_CLK_TCK")
    finally:
        process._process.send_signal(signal.SIGINT)
        assert process._process.wait(20) == 0
