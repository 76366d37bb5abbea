# SPDX-License-Identifier: Apache-2.0
"""Attack: somebody on the network reads what a client and an owner say over `tcp://`, and takes the session. Neither side
says it without encryption now, but on one machine with a flag; `sojourn-owner cert` shows who is at the other end."""

import hashlib
import os
import pathlib
import re
import ssl
import stat
import subprocess

import pytest
from imports_support import ROOT, tool

import sojourn

OPEN = [
    "10.0.0.5:7000",
    "0.0.0.0:7000",
    "*:7000",
    "[::]:7000",
    "127.0.0.1.example.org:7000",
    "127.1:7000",
    "example.org:7000",
]
HERE = ["127.0.0.1:0", "127.0.3.7:0", "localhost:0", "[::1]:0"]


def refused_by_owner(store, *options) -> str:
    command = [ROOT / "build/bin/sojourn-owner", "serve", "--store", store, *options]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done.stdout + done.stderr  # wrong usage
    return done.stderr


def refused_by_client(address, **options) -> str:
    with pytest.raises(sojourn.ConnectionLost) as refusal:
        sojourn.connect(address, timeout=5, **options)
    return str(refusal.value)


@pytest.mark.parametrize("place", [*OPEN, *HERE])
def test_tcp_without_encryption_is_refused(place, tmp_path):
    address, found = (
        f"tcp://{place}",
        f"'tcp://{place}' is not encrypted; expected tls+tcp://{place} (or, for tests on one",
    )
    instead = address if place in HERE else "tcp://127.0.0.1:PORT"
    config = tmp_path / "owner.toml"
    config.write_text(f'listen = "{address}"\n')
    for options in (["--listen", address], ["--config", config]):
        assert f"{found} machine, {instead} with --plain-tcp)" in refused_by_owner(tmp_path / "store", *options)
    assert f"{found} machine, {instead} with plain_tcp=True)" in refused_by_client(address)


@pytest.mark.parametrize("place", OPEN)
def test_no_flag_opens_other_machines(place, tmp_path):
    address, config = f"tcp://{place}", tmp_path / "owner.toml"
    config.write_text(f'listen = "{address}"\nplain_tcp = true\n')
    for options in (["--listen", address, "--plain-tcp"], ["--config", config]):
        assert "is not encrypted" in refused_by_owner(tmp_path / "store", *options)
    assert "is not encrypted" in refused_by_client(address, plain_tcp=True)


def test_flags_take_booleans(tmp_path):
    with pytest.raises(sojourn.Error, match="plain_tcp must be True or False, got 'no'"):
        sojourn.connect("tcp://127.0.0.1:9", plain_tcp="no")
    config = tmp_path / "owner.toml"
    config.write_text('listen = "ipc://o.sock"\nplain_tcp = "no"\n')
    assert "line 2: 'plain_tcp' is 'no', expected true or false" in refused_by_owner(tmp_path, "--config", config)
    for line, shown in (("", "false"), ("plain_tcp = true\n", "true")):
        config.write_text(line)
        text = tool("status", "--store", tmp_path / "store", "--config", config)
        assert f"\n  plain_tcp = {shown}\n" in text


def cert(store, *options) -> tuple[str, bytes, str]:
    """What the command says, the certificate in the store as DER, the digest that it shows."""
    text = tool("cert", "--store", store, *options)
    pem = (pathlib.Path(store) / "certificate.pem").read_text()
    end = "-----END CERTIFICATE-----"
    der = ssl.PEM_cert_to_DER_cert(pem[: pem.index(end) + len(end)] + "\n")
    return text, der, re.search(r"^digest +([0-9a-f]{64}) \(SHA-256\)$", text, re.MULTILINE)[1]


def test_the_certificate_is_shown(tmp_path):
    store = tmp_path / "store"
    key = tool("key", "--store", store).strip()
    before = os.umask(0)
    try:
        text, der, digest = cert(store)
    finally:
        os.umask(before)
    assert digest == hashlib.sha256(der).hexdigest()
    path = store / "certificate.pem"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and "PRIVATE KEY" in path.read_text()
    assert str(path) in text and "name         sojourn-owner, from 2020-01-01 to 2099-12-31" in text
    assert (
        f"signed by    {key}" in text
        and f'connects with sojourn.connect("tls+tcp://HOST:PORT", owner_key="{key}")' in text
    )
    assert "start it again" not in text and cert(store) == (text, der, digest)
    renewed, other, its = cert(store, "--renew")
    assert other != der and its == hashlib.sha256(other).hexdigest() != digest
    assert "a running server keeps the certificate that it has; start it again" in renewed
    assert cert(store)[1:] == (other, its) and tool("key", "--store", store).strip() == key


def test_a_certificate_that_others_may_read_is_refused(tmp_path):
    store, path = tmp_path / "store", tmp_path / "store" / "certificate.pem"
    _, der, _ = cert(store)
    path.chmod(0o640)
    command = [ROOT / "build/bin/sojourn-owner", "cert", "--store", str(store)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert f"other users may read the certificate's key '{path}'; restrict it with: chmod 600 {path}" in done.stderr
    path.chmod(0o600)
    assert cert(store)[1] == der
    path.write_text("nonsense")
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and "create another one with: sojourn-owner cert --renew" in done.stderr
    assert cert(store, "--renew")[1] != der


def test_an_owners_key_needs_a_channel_that_shows_it(tmp_path):
    with pytest.raises(sojourn.Error, match="owner_key can only be checked with an identity"):
        sojourn.connect(f"ipc://{tmp_path}/o.sock", owner_key="0" * 64)
    with pytest.raises(sojourn.Error, match="owner_key has 3 characters, expected the 64 hexadecimal digits"):
        sojourn.connect("tls+tcp://127.0.0.1:9", owner_key="abc")
