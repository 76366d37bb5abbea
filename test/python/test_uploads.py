# SPDX-License-Identifier: Apache-2.0
"""Large uploads go ahead of their step in parts, over connections that break too."""

import pathlib
import socket
import tempfile
import threading
import time

import pytest
import torch
from remote_support import shared_owner

import _sojourn
import sojourn


@pytest.fixture(autouse=True)
def small_bounds():
    """A step's message holds 1000 bytes of uploads; a part is 333 bytes."""
    _sojourn.set_upload_bounds(1000, 333)
    yield
    _sojourn.set_upload_bounds(64 << 20, 8 << 20)


def parts(size: int) -> int:
    return -(-size // 333)


@pytest.mark.parametrize("kind", ["native", "numpy", "ipc"])
def test_values_arrive_and_a_step_is_one_round_trip(kind, seed, request):
    owner = sojourn.connect(request.getfixturevalue("owner_process").address) if kind == "ipc" else shared_owner(kind)
    sizes = [1, 120, 125, 126, int(torch.randint(127, 3000, ()))]
    tensors = [torch.randn(size, dtype=torch.float64) for size in sizes] + [torch.rand(1500) < 0.5, torch.zeros(0)]
    sojourn.flush()
    before = owner.counters()
    remote = [tensor.to(owner.device) for tensor in tensors]
    for back, tensor in zip(sojourn.publish(remote), tensors):
        assert back.dtype == tensor.dtype and torch.equal(back, tensor)
    after = owner.counters()
    assert after["round_trips"] - before["round_trips"] == 1
    # The largest go ahead, until the others fit the message.
    rest, ahead = sorted(8 * size for size in sizes) + [1500], []
    while sum(rest) > 1000:
        ahead.append(max(rest))
        rest.remove(ahead[-1])
    assert after["upload_parts"] - before["upload_parts"] == sum(map(parts, ahead))
    if kind == "ipc":
        owner.close()


def test_a_failing_step_leaves_nothing_behind():
    with sojourn.local() as owner:
        column = owner.register("p", {"a": [1.0, 2.0]}, policy="private", bounds={"a": (0, 2)})["a"]
        x = torch.randn(1000)
        remote = x.to(owner.device)
        with pytest.raises(sojourn.Refused):
            with sojourn.step():
                sojourn.publish(column.sum())
                remote.mul_(2)
        assert owner.counters()["upload_parts"] == parts(4000) + 1  # the last one drops it
        assert torch.equal(sojourn.publish(remote), x)


class BreakingProxy:
    """Between client and owner: every connection breaks after some bytes towards the owner."""

    def __init__(self, folder: pathlib.Path, target: str, limits: list[int]):
        self.address = f"ipc://{folder}/proxy.sock"
        self.connections, self.hangs = 0, False
        self._target, self._limits = target.removeprefix("ipc://"), limits
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(f"{folder}/proxy.sock")
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            far.connect(self._target)
            threading.Thread(target=self._pump, args=(near, far, None), daemon=True).start()
            threading.Thread(target=self._pump, args=(far, near, 1 << 40), daemon=True).start()

    def _pump(self, source, target, limit):
        try:
            if limit is None:
                # A client whose connection broke may ask first whether somebody listens: such a connection has no byte.
                limit = 0
                if source.recv(1, socket.MSG_PEEK):
                    limit = self._limits.pop(0) if self._limits else 1 << 40
                    self.connections += 1
            while limit > 0 and (data := source.recv(min(limit, 65536))):
                while self.hangs:
                    time.sleep(0.05)
                target.sendall(data)
                limit -= len(data)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.hangs = False
        self._listener.close()


def test_an_upload_goes_on_where_a_broken_connection_left_it(owner_process, seed):
    with tempfile.TemporaryDirectory(prefix="sojourn-") as folder:
        # Bytes of handshake, hello and some parts; each break is within or between parts.
        limits = torch.randint(1500, 6000, (2,)).tolist()
        proxy = BreakingProxy(pathlib.Path(folder), owner_process.address, list(limits))
        owner = sojourn.connect(proxy.address, timeout=10)
        x = torch.randn(5000)
        assert torch.equal(sojourn.publish(x.to(owner.device)), x), limits
        assert proxy.connections == 3
        counters = owner.counters()
        # Nothing that had arrived was sent again: a break costs the part under way and a question.
        assert parts(20000) < counters["upload_parts"] <= parts(20000) + 2 * 5
        owner.close()
        proxy.close()


def test_many_uploads_of_one_step():
    with sojourn.local() as owner:
        tensors = [torch.full((1 + k % 3,), float(k)) for k in range(1500)]
        back = sojourn.publish([tensor.to(owner.device) for tensor in tensors])
        assert all(torch.equal(a, b) for a, b in zip(back, tensors))
        assert owner.counters()["round_trips"] == 2  # hello and the step


@pytest.mark.alone
def test_an_owner_that_hangs_is_waited_for_once(owner_process):
    with tempfile.TemporaryDirectory(prefix="sojourn-") as folder:
        proxy = BreakingProxy(pathlib.Path(folder), owner_process.address, [])
        owner = sojourn.connect(proxy.address, timeout=0.5)
        remote = torch.randn(5000).to(owner.device)
        proxy.hangs = True
        begin = time.monotonic()
        with pytest.raises(sojourn.ConnectionLost, match="an upload was in progress"):
            sojourn.flush()
        assert time.monotonic() - begin < 5
        assert remote.shape == (5000,)
        proxy.close()


def test_an_owner_that_goes_away_is_told(owner_process):
    with tempfile.TemporaryDirectory(prefix="sojourn-") as folder:
        proxy = BreakingProxy(pathlib.Path(folder), owner_process.address, [3000] + [1] * 50)
        owner = sojourn.connect(proxy.address, timeout=1)
        remote = torch.randn(5000).to(owner.device)
        with pytest.raises(sojourn.ConnectionLost, match="could not .* the owner at"):
            sojourn.flush()
        assert remote.shape == (5000,)
        proxy.close()
