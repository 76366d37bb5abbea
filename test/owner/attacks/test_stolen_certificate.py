# SPDX-License-Identifier: Apache-2.0
"""Attack: the key of a certificate was stolen, and the data owner has renewed the certificate. A client opens its session
at the owner; then its connection breaks, and the thief answers the next one with the old certificate. The client went on
with its session, in clear for the thief."""

import contextlib
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import sys
import threading

import pytest
import torch

import sojourn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
from frames_support import HEAD
from owner_process import ROOT, OwnerProcess

INTRODUCTION = 1  # the kind of a frame that asks for the certificate


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def read(stream, size):
    data = b""
    while len(data) < size:
        part = stream.recv(size - len(data))
        if not part:
            raise OSError("the end")
        data += part
    return data


def unchecked(port):
    """A TLS connection of somebody who does not care for certificates."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(socket.create_connection(("127.0.0.1", port)))


class Relay:
    """Passes bytes on, and from `evil` on answers by itself with a stolen certificate and its introduction."""

    def __init__(self, owner, certificate, introduction):
        self.owner, self.introduction, self.evil = owner, introduction, False
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate)
        self.open, self.read, self.asked = [], bytearray(), 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self.serve, args=(self.listener.accept()[0],), daemon=True).start()

    def serve(self, client):
        with contextlib.suppress(OSError, ssl.SSLError):
            if not self.evil:
                server = socket.create_connection(("127.0.0.1", self.owner))
                self.open += [client, server]
                threading.Thread(target=self.pump, args=(client, server), daemon=True).start()
                self.pump(server, client)
                return
            inside = self.context.wrap_socket(client, server_side=True)
            while True:
                head = read(inside, HEAD.size)
                if HEAD.unpack(head)[1] == INTRODUCTION:
                    self.asked += 1
                    inside.sendall(HEAD.pack(b"SJN1", INTRODUCTION, 0, len(self.introduction), 0) + self.introduction)
                else:
                    self.read += head + read(inside, HEAD.unpack(head)[3])

    def pump(self, source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        self.cut(source, target)

    def cut(self, *streams):
        for stream in streams:
            with contextlib.suppress(OSError):
                stream.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("known", ["by its key", "by its first answer"])
def test_a_session_goes_on_with_its_certificate_alone(tmp_path, known):
    def tool(*words):
        command = [ROOT / "build/bin/sojourn-owner", *words, "--store", tmp_path / "store"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    subprocess.run([ROOT / "build/bin/sojourn", "keygen", tmp_path / "ada"], check=True, capture_output=True)
    tool("client", "add", "ada", "--key", tmp_path / "ada.pub")
    port = free_port()
    process = OwnerProcess(tmp_path, f"tls+tcp://127.0.0.1:{port}")
    with unchecked(port) as wire:
        wire.sendall(HEAD.pack(b"SJN1", INTRODUCTION, 0, 0, 0))
        introduction = read(wire, HEAD.unpack(read(wire, HEAD.size))[3])
    shutil.copy(tmp_path / "store/certificate.pem", tmp_path / "stolen.pem")
    assert process.close() == 0
    tool("cert", "--renew")
    process = OwnerProcess(tmp_path, f"tls+tcp://127.0.0.1:{port}")
    relay = Relay(port, tmp_path / "stolen.pem", introduction)
    key = {"owner_key": re.search("[0-9a-f]{64}", tool("key"))[0]} if known == "by its key" else {}
    try:
        owner = sojourn.connect(f"tls+tcp://127.0.0.1:{relay.port}", identity=tmp_path / "ada", timeout=10, **key)
        x = torch.tensor([1.0]).to(owner.device)
        assert (x + 1).tolist() == [2]
        relay.evil = True
        relay.cut(*relay.open)
        with pytest.raises(
            sojourn.ConnectionLost, match="another certificate than the one that this session began with"
        ):
            (x + torch.tensor([12345.678]).to(owner.device)).tolist()
        assert relay.asked > 0 and not relay.read, "the thief was asked, and got nothing of the session"
        with pytest.raises(sojourn.ConnectionLost):
            owner.close()
    finally:
        relay.listener.close()
        assert process.close() == 0
