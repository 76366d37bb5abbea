# SPDX-License-Identifier: Apache-2.0
"""Attack: another account of the machine reads the store. Tables and catalogue had the modes that the umask left them,
and a folder that others used was made private without a word."""

import os
import pathlib
import stat
import subprocess
import sys

import pytest
from imports_support import COMMAND, ROOT, bring, tool

import sojourn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
from owner_process import OwnerProcess


@pytest.fixture(params=[0o000, 0o022, 0o027, 0o777], ids=oct)
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(store: pathlib.Path) -> dict[str, str]:
    found = [store, *store.rglob("*")]
    return {path.name: oct(stat.S_IMODE(path.lstat().st_mode)) for path in found if not path.is_socket()}


def assert_private(store: pathlib.Path, *expected: str):
    found = modes(store)
    assert found.keys() >= set(expected)
    for path in [store, *store.rglob("*")]:
        assert stat.S_IMODE(path.lstat().st_mode) == (0o700 if path.is_dir() else 0o600), (path, found)


def test_files_of_a_store(umask, tmp_path):
    table, store = tmp_path / "t.csv", tmp_path / "made" / "store"
    table.write_text("who,x\na,0.5\nb,0.25\n")
    table.chmod(0o644)
    (tmp_path / "made").mkdir()
    (tmp_path / "made").chmod(0o755)
    bring(table, store, "--subject=who", "--bound=x=0:1", code=0)
    assert_private(store, "catalogue.db", "ledger.sqlite", "owner.key", "subjects.key", "datasets", "head")
    subprocess.run([ROOT / "build/bin/sojourn", "keygen", tmp_path / "ada.key"], check=True, capture_output=True)
    assert stat.S_IMODE((tmp_path / "ada.key").stat().st_mode) == 0o600
    tool("client", "add", "ada", "--key", tmp_path / "ada.key.pub", "--store", store)
    tool("budget", "cap", "t", "--epsilon=1", "--delta=1e-5", "--store", store)
    assert_private(store)
    assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == 0o755


def test_files_of_a_store_in_use(tmp_path):
    before = os.umask(0)
    try:
        process = OwnerProcess(tmp_path)
        try:
            with sojourn.connect(process.address) as owner:
                owner.datasets()
                assert_private(process.store, "catalogue.db-wal", "catalogue.db-shm", "ledger.sqlite-wal")
        finally:
            assert process.close() == 0
    finally:
        os.umask(before)


def test_files_of_an_embedded_owner(umask, tmp_path, generator):
    """Whose process has the umask of the user."""
    x = generator.uniform(0, 1, 3)
    with sojourn.local(tmp_path / "store") as owner:
        owner.register("t", {"who": ["a", "b", "c"], "x": x}, policy="open")
        owner.register("u", {"who": [1, 2, 3], "x": x}, subject="who", bounds={"x": (0, 1)})
        owner.grant("u", epsilon=1, delta=1e-5)
        assert_private(tmp_path / "store", "catalogue.db-wal", "ledger.sqlite-wal", "ledger.sqlite.lock")
    assert_private(tmp_path / "store", "catalogue.db", "ledger.sqlite")


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o701, 0o777, 0o1777], ids=oct)
def test_a_shared_folder_is_refused_and_keeps_its_mode(mode, tmp_path):
    table, store = tmp_path / "t.csv", tmp_path / "shared"
    table.write_text("x\n0.5\n")
    store.mkdir()
    (store / "of others").write_text("precious")
    store.chmod(mode)
    for shown in (
        bring(table, store, "--policy=open"),
        tool("datasets", "--store", store, code=1),
        tool("serve", "--listen", f"ipc://{tmp_path}/o.sock", "--store", store, code=1),
    ):
        assert f"'{store}' has mode {mode:04o}" in shown and f"chmod 700 '{store}'" in shown
    with pytest.raises(sojourn.Error, match=f"has mode {mode:04o}, so that other accounts may enter it"):
        sojourn.local(store)
    assert stat.S_IMODE(store.stat().st_mode) == mode and os.listdir(store) == ["of others"]
    subprocess.run(["chmod", "700", store], check=True)
    bring(table, store, "--policy=open", code=0)
    assert (store / "of others").read_text() == "precious"


def test_a_store_of_an_older_release(tmp_path):
    """Its folder was private, its files had the modes that the umask left them; what is not ours stays as it is."""
    table, store = tmp_path / "t.csv", tmp_path / "store"
    table.write_text("who,x\na,0.5\nb,0.25\n")
    bring(table, store, "--subject=who", "--bound=x=0:1", code=0)
    (store / "notes.txt").write_text("")
    for path in store.rglob("*"):
        if not path.name.endswith(".key"):
            path.chmod(0o755 if path.is_dir() else 0o644)
    tool("datasets", "--store", store)
    assert modes(store).pop("notes.txt") == "0o644"
    (store / "notes.txt").unlink()
    assert_private(store, "catalogue.db")


@pytest.mark.parametrize("what", ["a file", "below a file", "a dead link"])
def test_a_store_that_cannot_be_made(what, tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to("nowhere")
    store = tmp_path / {"a file": "file", "below a file": "file/store", "a dead link": "link"}[what]
    done = subprocess.run([COMMAND, "key", "--store", store], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and f"cannot create the store '{store}'" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a folder to another account")
def test_a_store_of_another_account_is_left_alone(tmp_path):
    """Files that root makes in it are not readable for the account that serves it."""
    store = tmp_path / "store"
    store.mkdir(mode=0o700)
    os.chown(store, 4242, 4242)
    command = [ROOT / "build/bin/sojourn-owner", "datasets", "--store", store]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and list(store.iterdir()) == []
    assert f"the store '{store}' belongs to the account '4242', and this is 'root'; run the command as" in done.stderr
