# SPDX-License-Identifier: Apache-2.0
"""Attack: sessions that are left without a word. Their values stayed for a day, 64 GiB of them whatever the machine has,
so that clients without any identity used up the room of all others."""

import functools
import os
import pathlib
import resource
import subprocess
import sys
import time

import pytest
import torch

import sojourn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "owner_numpy"))
import owner_process
from frames_support import Connection
from numpy_builder import Client
from owner_process import ROOT, OwnerProcess

LEAVER = """
import os, signal, sys, torch, sojourn
owner = sojourn.connect(sys.argv[1])
kept = torch.ones(1000).to(owner.device) * 2
sojourn.flush()
print("kept", flush=True)
if sys.argv[2] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
sys.stdin.read()
"""


def leaver(process, how):
    child = subprocess.Popen(
        [sys.executable, "-c", LEAVER, process.address, how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "kept\n"
    return child


def test_values_of_a_client_that_is_gone_go(tmp_path):
    process = OwnerProcess(tmp_path, None, "--reconnect-seconds", "1")
    try:
        with sojourn.connect(process.address) as owner:
            x = torch.ones(3).to(owner.device) + 1
            sojourn.flush()
            stays = leaver(process, "stays")
            leaver(process, "killed").wait(60)
            end = time.monotonic() + 30
            while "its connection is gone" not in process.log() and time.monotonic() < end:
                time.sleep(0.2)  # and nobody asks for anything
            assert process.log().count("ended: its connection is gone") == 1
            # Who is silent and connected keeps its values.
            time.sleep(2)
            assert (x + 1).tolist() == [3, 3, 3]
            assert process.log().count("ended:") == 1
            stays.communicate("")
            assert stays.returncode == 0
    finally:
        assert process.close() == 0


def test_clients_without_an_identity_keep_an_eighth(tmp_path):
    """Of three eighths of the machine's memory; the bytes are reserved at the first part and none is sent."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    process = OwnerProcess(tmp_path)
    try:
        with sojourn.connect(process.address) as owner:
            many = torch.zeros(1, dtype=torch.int8).to(owner.device).expand(memory // 16 + 2**20)
            with pytest.raises(sojourn.OwnerError, match=r"Limit: .* clients without an identity keep at this owner"):
                kept = many.clone()
                sojourn.flush()
                del kept
            assert (torch.ones(2).to(owner.device) + 1).tolist() == [2, 2]
    finally:
        assert process.close() == 0


class Wire(Connection):
    steps = 0


def test_sessions_without_an_identity_leave_connections_to_others(tmp_path, monkeypatch):
    """A server with few descriptors, whose connections are all of anonymous sessions."""
    tool = ROOT / "build/bin"
    subprocess.run([tool / "sojourn", "keygen", tmp_path / "ada"], check=True, capture_output=True)
    words = ["client", "add", "ada", "--key", tmp_path / "ada.pub", "--store", tmp_path / "store"]
    subprocess.run([tool / "sojourn-owner", *words], check=True, capture_output=True)
    few = functools.partial(resource.setrlimit, resource.RLIMIT_NOFILE, (300, 300))
    with monkeypatch.context() as patch:
        patch.setattr(owner_process.subprocess, "Popen", functools.partial(subprocess.Popen, preexec_fn=few))
        process = OwnerProcess(tmp_path)
    held = []
    try:
        assert "at most 44 connections" in process.log()
        for _ in range(44):
            wire = Wire(process.address, timeout=20)
            held.append((wire, Client(wire)))
        with sojourn.connect(process.address, identity=tmp_path / "ada", timeout=20) as owner:
            assert (torch.ones(2).to(owner.device) + 1).tolist() == [2, 2]
    finally:
        del held
        assert process.close() == 0
