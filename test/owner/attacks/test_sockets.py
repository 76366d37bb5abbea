# SPDX-License-Identifier: Apache-2.0
"""Attack: the socket's file. Every account of the machine could connect, and a server deleted whatever file stood where
its socket was to be."""

import os
import pathlib
import stat
import subprocess
import sys

import pytest
import torch

import sojourn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
from owner_process import ROOT, OwnerProcess


def modes(path: pathlib.Path) -> tuple[int, int]:
    """Of the file and of its folder."""
    return stat.S_IMODE(path.lstat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)


def test_the_account_of_the_server_alone_connects(tmp_path):
    folder = tmp_path / "made" / "here"
    (tmp_path / "made").mkdir()
    before = os.umask(0)  # hides nothing
    try:
        process = OwnerProcess(tmp_path, f"ipc://{folder}/o.sock")
    finally:
        os.umask(before)
    try:
        assert modes(folder / "o.sock") == (0o600, 0o700)
        with sojourn.connect(process.address) as owner:
            assert (torch.ones(2).to(owner.device) + 1).tolist() == [2, 2]
    finally:
        assert process.close() == 0


def test_a_folder_that_is_there_keeps_its_mode(tmp_path):
    tmp_path.chmod(0o755)
    process = OwnerProcess(tmp_path)
    try:
        assert modes(tmp_path / "o.sock") == (0o600, 0o755)
    finally:
        assert process.close() == 0


def a_file(path):
    path.write_bytes(b"precious")


def a_link(path):
    (path.parent / "target").write_bytes(b"precious")
    path.symlink_to("target")


def a_dead_link(path):
    path.symlink_to("nowhere")


def a_folder(path):
    path.mkdir()


@pytest.mark.parametrize("make", [a_file, a_link, a_dead_link, a_folder])
def test_what_is_not_a_socket_stays(tmp_path, make):
    path = tmp_path / "o.sock"
    make(path)
    before = path.lstat()
    command = [ROOT / "build/bin/sojourn-owner", "serve", "--store", tmp_path / "store", "--listen", f"ipc://{path}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    what = "a folder" if make is a_folder else "a file that is not a socket"
    assert f"there is {what}, which stays as it is; listen on another path, or remove it" in done.stderr
    after = path.lstat()
    assert (after.st_ino, after.st_mode, after.st_size) == (before.st_ino, before.st_mode, before.st_size)
    if make is a_link:
        assert path.read_bytes() == b"precious"


def test_the_socket_of_a_server_that_was_killed_is_replaced(tmp_path):
    first = OwnerProcess(tmp_path)
    os.kill(first.pid, 9)
    first._process.wait(20)
    assert (tmp_path / "o.sock").is_socket()
    second = OwnerProcess(tmp_path)
    try:
        with sojourn.connect(second.address) as owner:
            assert (torch.ones(2).to(owner.device) + 1).tolist() == [2, 2]
    finally:
        assert second.close() == 0
