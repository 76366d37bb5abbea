# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C while an owner is waited for: answered within a second, and the session goes on."""

import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import pytest
import torch
from owner_process import OwnerProcess
from proxy_support import CuttingProxy, free_address
from served_parties_support import ServedHospitals

import _sojourn
import sojourn

pytestmark = pytest.mark.alone
# Seconds; twice as many while other programs take the processors.
WITHIN = 1.0 if os.getloadavg()[0] <= (os.cpu_count() or 1) else 2.0


@pytest.fixture(autouse=True)
def interruptible():
    """As in a terminal, also where whoever started the tests ignores Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(params=["ipc", "tls"])
def process(request, tmp_path):
    made = OwnerProcess(tmp_path, "tls+" + free_address() if request.param == "tls" else None)
    yield made
    made._process.kill()
    made._process.wait(20)


class Interrupting:
    """`with` it: Ctrl-C after so many seconds, which has to end the block within one more; two for a group, whose
    members share the processors.
    """

    def __init__(self, after: float, within: float = WITHIN):
        self._after, self._within = after, within

    def _interrupt(self):
        self._at = time.monotonic()
        signal.raise_signal(signal.SIGINT)

    def __enter__(self):
        self._timer = threading.Timer(self._after, self._interrupt)
        self._timer.start()
        return self

    def __exit__(self, kind, failure, _):
        now = time.monotonic()
        self._timer.join()
        assert kind is KeyboardInterrupt, f"{kind}: {failure}"
        assert 0 <= now - self._at < self._within
        return True


def squares(x, times):
    """Of 1,400 numbers a side, 400 times: seconds, on a fast machine, too."""
    for _ in range(times):
        x = torch.tanh(x @ x)
    return x.sum()


def test_a_long_step(process):
    owner = sojourn.connect(process.address, plain_tcp=True)
    x, count = torch.rand(1400, 1400).to(owner.device), torch.zeros(2).to(owner.device)
    sojourn.publish(squares(x, 1))
    with Interrupting(0.5):
        with sojourn.step():
            count.add_(1)
            lost = squares(x, 40)
            sojourn.publish(squares(x, 400))
    with pytest.raises(sojourn.Error, match="unknown whether the step ran"):
        lost + 1
    # The owner ends that step before it reads on; it ran once, or not at all.
    assert sojourn.publish(count).tolist() in ([0, 0], [1, 1])
    owner.close()


def test_reads_and_queries(process):
    owner = sojourn.connect(process.address, plain_tcp=True)
    x = torch.rand(1400, 1400).to(owner.device)
    total = squares(x, 400)
    with Interrupting(0.5):
        total.item()
    # The session's turn is taken until that step has ended.
    with Interrupting(0.2):
        sojourn.publish(x + 1)
    begin = time.monotonic()
    owner.close()
    assert time.monotonic() - begin < WITHIN


def test_a_short_step_is_landed_first(process):
    """What ends within the grace has a known outcome."""
    owner = sojourn.connect(process.address, plain_tcp=True)
    x, count = torch.rand(500, 500).to(owner.device), torch.zeros(2).to(owner.device)
    sojourn.publish(squares(x, 20))  # compiles it
    begin = time.monotonic()
    sojourn.publish(squares(x, 20))
    times = max(2, int(20 * 0.3 / (time.monotonic() - begin)))  # about 0.3 s
    kept = []
    with Interrupting(0.1):
        with sojourn.step():
            count.add_(1)
            kept.append(squares(x, times))
        for _ in range(50):  # a signal that another thread gets ends no sleep
            time.sleep(0.1)
    assert sojourn.publish([count, kept[0].isfinite()])[0].tolist() == [1, 1]
    owner.close()


def test_a_loop_of_long_steps(process):
    owner = sojourn.connect(process.address, plain_tcp=True)
    x, count = torch.rand(1400, 1400).to(owner.device), torch.zeros(2).to(owner.device)

    def step(y):
        count.add_(1)
        return squares(x + y, 60)

    y = torch.zeros(()).to(owner.device)
    sojourn.loop(step, [(y,)] * 3)
    with Interrupting(0.7):
        sojourn.loop(step, [(y,)] * 16, 16)
    assert 3 <= sojourn.publish(count)[0].item() < 19
    owner.close()


def test_two_owners_at_once(process, tmp_path):
    with tempfile.TemporaryDirectory(prefix="sojourn-") as folder:
        other = OwnerProcess(pathlib.Path(folder))
        try:
            here, there = (
                sojourn.connect(other.address, plain_tcp=True),
                sojourn.connect(process.address, plain_tcp=True),
            )
            small, x = torch.ones(2).to(here.device), torch.rand(1400, 1400).to(there.device)
            sojourn.publish([small, squares(x, 1)])
            with Interrupting(0.5):
                with sojourn.step():
                    small.add_(1)
                    sojourn.publish(squares(x, 400))
            assert sojourn.publish(small).tolist() == [2, 2]
        finally:
            other._process.kill()
            other._process.wait(20)


@pytest.mark.parametrize("scheme", ["tcp", "tls+tcp"])
def test_connecting_to_one_who_never_speaks(scheme):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"{scheme}://127.0.0.1:{silent.getsockname()[1]}"
        with Interrupting(0.5):
            sojourn.connect(address, plain_tcp=True)
        begin = time.monotonic()
        with pytest.raises(sojourn.ConnectionLost, match="Timed out"):
            sojourn.connect(address, timeout=1, plain_tcp=True)
        assert time.monotonic() - begin < 2


def test_an_upload(process):
    if not process.address.startswith("ipc"):
        pytest.skip("the proxy is over ipc")
    with tempfile.TemporaryDirectory(prefix="sojourn-") as folder:
        proxy = CuttingProxy(folder, process.address, lambda: None)
        owner = sojourn.connect(proxy.address)
        _sojourn.set_upload_bounds(1000, 333)
        try:
            x = torch.rand(5000).to(owner.device)
            proxy.holds = True
            with Interrupting(0.5):
                sojourn.flush()
            proxy.holds = False
            x = torch.rand(5000)
            assert torch.equal(sojourn.publish(x.to(owner.device)), x)
        finally:
            _sojourn.set_upload_bounds(64 << 20, 8 << 20)
            proxy.close()


def test_a_retry(tmp_path):
    """Back-off is interrupted, too."""
    owner = _sojourn.EmbeddedOwner()
    dead = []

    def handle(request):
        if dead:
            raise sojourn.ConnectionLost("the cable is out")
        return owner.handle(request)

    session = _sojourn.Session(handle, "dead", 60_000)
    x = torch.ones(2).to(torch.device("owner", session.index))
    sojourn.flush()
    dead.append(True)
    with Interrupting(0.5):
        sojourn.publish(x + 1)
    dead.clear()
    assert sojourn.publish(x + 1).tolist() == [2, 2]
    session.close()


SCRIPT = """
import sys
import torch
import sojourn

with sojourn.connect(sys.argv[1], plain_tcp=True) as owner:
    x = torch.rand(1400, 1400).to(owner.device)
    sojourn.publish(x.sum())
    print("ready", flush=True)
    sys.excepthook = lambda kind, *_: print(kind.__name__, flush=True)
    with sojourn.step():
        for _ in range(400):
            x = torch.tanh(x @ x)
        sojourn.publish(x.sum())
"""


def test_a_script_ends(process):
    """With the session that its `with` closes."""
    child = subprocess.Popen([sys.executable, "-c", SCRIPT, process.address], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.7)
    begin = time.monotonic()
    child.send_signal(signal.SIGINT)
    assert child.stdout.readline() == "KeyboardInterrupt\n"
    assert time.monotonic() - begin < WITHIN
    child.wait(60)


@pytest.fixture
def group(tmp_path, rng):
    two = ServedHospitals(tmp_path, (20, 31), rng)
    yield sojourn.parties(*two.owners)
    two.close()


def test_a_long_step_of_a_group(group):
    """It ends at all members, which ran it or did not, and the group goes on."""
    x, count = torch.rand(1400, 1400).to(group.device), torch.zeros(2).to(group.device)
    total = group.rows("patients")["age"].sum()
    sojourn.publish([squares(x, 1), total])
    with Interrupting(0.5, 2 * WITHIN):
        with sojourn.step():
            count.add_(1)
            sojourn.publish(squares(x, 400) + group.rows("patients")["age"].sum())
    ran = sojourn.publish(count).tolist()
    assert ran in ([0, 0], [1, 1])
    with sojourn.step():
        count.add_(1)
        after = sojourn.publish(group.rows("patients")["age"].sum())
    assert sojourn.publish(count).tolist() == [each + 1 for each in ran]
    assert after.item() == sojourn.publish(total).item()


def test_a_short_step_of_a_group_is_landed_first(group):
    x, count = torch.rand(500, 500).to(group.device), torch.zeros(2).to(group.device)
    sojourn.publish(squares(x, 20))
    begin = time.monotonic()
    sojourn.publish(squares(x, 20))
    times = max(2, int(20 * 0.3 / (time.monotonic() - begin)))
    kept = []
    with Interrupting(0.1, 2 * WITHIN):
        with sojourn.step():
            count.add_(1)
            kept.append(squares(x, times) + group.rows("patients")["age"].sum())
        for _ in range(50):
            time.sleep(0.1)
    assert sojourn.publish([count, kept[0].isfinite()])[0].tolist() == [1, 1]


def test_a_loop_of_long_steps_of_a_group(group):
    x, count = torch.rand(1400, 1400).to(group.device), torch.zeros(2).to(group.device)
    y = group.rows("patients")["age"].sum() * 0

    def step(y):
        count.add_(1)
        return squares(x + y, 60)

    sojourn.loop(step, [(y,)] * 3)
    for at in (0.7, 0.1):  # after some steps, and in the first one
        before = sojourn.publish(count)[0].item()
        with Interrupting(at, 2 * WITHIN):
            sojourn.loop(step, [(y,)] * 16, 16)
        assert before <= sojourn.publish(count)[0].item() < before + 16
    sojourn.loop(step, [(y,)] * 2)
    assert sojourn.publish(count)[0].item() >= 5
