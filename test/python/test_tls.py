# SPDX-License-Identifier: Apache-2.0
"""Served owners over TLS: a program as over any transport, and servers in between that a client does not take."""

import contextlib
import os
import pathlib
import re
import socket
import ssl
import subprocess
import threading
import time

import pytest
import torch
from owner_process import ROOT, OwnerProcess
from proxy_support import free_address
from torch import nn

import sojourn


def tool(*words) -> str:
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def key_of(store) -> str:
    return re.search(r"\b[0-9a-f]{64}\b", tool(ROOT / "build/bin/sojourn-owner", "key", "--store", store))[0]


@contextlib.contextmanager
def serving(folder, address=None):
    folder.mkdir(exist_ok=True)
    process = OwnerProcess(folder, address or "tls+" + free_address())
    try:
        yield process
    finally:
        assert process.close() == 0


class Between:
    """A TLS server with a certificate of its own that passes everything on to another one, and keeps what it read."""

    def __init__(self, folder: pathlib.Path, target: str):
        tool(ROOT / "build/bin/sojourn-owner", "cert", "--store", folder / "between")
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(next((folder / "between").glob("*.pem")))
        self._port = int(target.rpartition(":")[2])
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"tls+tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self.read = b""
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                threading.Thread(target=self._pass, args=(near,), daemon=True).start()

    def _pass(self, near):
        trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        with contextlib.suppress(OSError):
            inner = self._context.wrap_socket(near, server_side=True)
            outer = trusting.wrap_socket(socket.create_connection(("127.0.0.1", self._port)))
            while asked := inner.recv(65536):  # a request and its reply
                self.read += asked
                outer.sendall(asked)
                inner.sendall(outer.recv(65536))

    def close(self):
        self._listener.close()


def test_a_model_trains_as_here(tmp_path, seed):
    x, y = torch.randn(64, 5), torch.randn(64, 1)
    torch.manual_seed(seed)
    here = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1))
    with serving(tmp_path / "one") as process:
        with sojourn.connect(process.address, owner_key=key_of(process.store)) as owner:
            assert owner.key == key_of(process.store)
            torch.manual_seed(seed)
            there = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1)).to(owner.device)
            far_x, far_y = x.to(owner.device), y.to(owner.device)
            for model, given, wanted in ((here, x, y), (there, far_x, far_y)):
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for _ in range(5):
                    optimizer.zero_grad()
                    nn.functional.mse_loss(model(given), wanted).backward()
                    optimizer.step()
            for ours, theirs in zip(there.parameters(), here.parameters()):
                torch.testing.assert_close(ours.detach().cpu(), theirs.detach(), rtol=1e-5, atol=1e-6)
            large = torch.randn(3_000_000)
            assert torch.equal((large.to(owner.device) * 2).cpu(), large * 2)


def test_an_identity_is_shown_over_tls(tmp_path):
    tool(ROOT / "build/bin/sojourn", "keygen", tmp_path / "ada")
    with serving(tmp_path / "one") as process:
        tool(
            ROOT / "build/bin/sojourn-owner", "client", "add", "ada", "--key", tmp_path / "ada.pub",
            "--store", process.store,
        )  # fmt: skip
        with sojourn.connect(process.address, identity=tmp_path / "ada") as owner:
            assert owner.account == "ada" and owner.key == key_of(process.store)


def test_the_first_owner_met_is_the_one_expected(tmp_path):
    address = "tls+" + free_address()
    with serving(tmp_path / "one", address), sojourn.connect(address) as owner:
        first = owner.key
    with serving(tmp_path / "one", address), sojourn.connect(address) as owner:  # started again
        assert owner.key == first
    with serving(tmp_path / "two", address) as process:
        with pytest.raises(sojourn.errors.Refused, match="but had " + first):
            sojourn.connect(address)
        with pytest.raises(sojourn.errors.Refused, match="expected " + first):
            sojourn.connect(address, owner_key=first)
        with sojourn.connect(address, owner_key=key_of(process.store)) as owner:
            assert torch.ones(2).to(owner.device).tolist() == [1, 1]


def test_a_renewed_certificate_is_taken(tmp_path):
    address = "tls+" + free_address()
    with serving(tmp_path / "one", address) as process, sojourn.connect(address) as owner:
        first, store = owner.key, process.store
    tool(ROOT / "build/bin/sojourn-owner", "cert", "--renew", "--store", store)
    with serving(tmp_path / "one", address), sojourn.connect(address) as owner:
        assert owner.key == first
        assert torch.ones(2).to(owner.device).tolist() == [1, 1]


@pytest.mark.parametrize("known", ["by its key", "not at all"])
def test_a_server_in_between_learns_nothing(tmp_path, known):
    """It passes the owner's certificate on, which it does not hold."""
    with serving(tmp_path / "one") as process:
        between = Between(tmp_path, process.address)
        try:
            key = {"owner_key": key_of(process.store)} if known == "by its key" else {}
            with pytest.raises(sojourn.ConnectionLost, match="does not hold the certificate that the owner's key"):
                sojourn.connect(between.address, timeout=5, **key)
            assert b"SJM1" not in between.read and len(between.read) <= 4 * 32  # requests for the certificate
        finally:
            between.close()


def test_what_travels_is_not_to_be_read(tmp_path):
    """Between client and owner a program that copies bytes finds neither what is uploaded nor the session."""
    word = os.urandom(4096)
    seen = []
    with serving(tmp_path / "one") as process:
        listener = socket.create_server(("127.0.0.1", 0))
        port = int(process.address.rpartition(":")[2])

        def copy(source, target):
            with contextlib.suppress(OSError):
                while data := source.recv(65536):
                    seen.append(data)
                    target.sendall(data)

        def accept():
            with contextlib.suppress(OSError):
                while True:
                    near, _ = listener.accept()
                    far = socket.create_connection(("127.0.0.1", port))
                    for ends in ((near, far), (far, near)):
                        threading.Thread(target=copy, args=ends, daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        with sojourn.connect(f"tls+tcp://127.0.0.1:{listener.getsockname()[1]}") as owner:
            x = torch.frombuffer(bytearray(word), dtype=torch.uint8)
            assert torch.equal((x.to(owner.device) ^ 255).cpu(), x ^ 255)
        listener.close()
    everything = b"".join(seen)
    assert len(everything) > 2 * len(word) and word[:16] not in everything and b"SJN1" not in everything


def test_a_server_that_closes_at_once(tmp_path):
    """A relay whose owner is gone: the end comes before, while or after the client begins to speak."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept():
            with contextlib.suppress(OSError):
                while True:
                    listener.accept()[0].close()

        threading.Thread(target=accept, daemon=True).start()
        address = f"tls+tcp://127.0.0.1:{listener.getsockname()[1]}"
        for _ in range(30):
            begin = time.monotonic()
            with pytest.raises(sojourn.ConnectionLost, match="no owner answers"):
                sojourn.connect(address, timeout=20)
            assert time.monotonic() - begin < 5
