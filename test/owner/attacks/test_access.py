# SPDX-License-Identifier: Apache-2.0
"""Attack: asking for what is somebody else's. A client without an identity read an open table of 20 million values in
0.2 s, saw the description of every private one, and had steps on it proved and run that keep what they read.
"""

import pathlib
import re
import secrets
import subprocess
import sys

import numpy as np
import pytest
import torch

import sojourn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "build/python"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "owner_numpy"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
from frames_support import Connection
from numpy_builder import Client, ProgramBuilder, t
from owner_process import ROOT, OwnerProcess

from sojourn_numpy.types import NAMES, TableType

ROWS, DELTA = 200, 1e-5


class Store:
    """A data owner's store with a server: an open and a private table of the same rows, for no client yet."""

    def __init__(self, folder: pathlib.Path, generator):
        self.folder = folder
        self.age = generator.uniform(0, 1, ROWS)
        np.savez(folder / "t.npz", age=self.age)
        terms = ["--bound=age=0:1", "--rows-are-subjects"]
        for policy in ("open", "private"):
            self("import", folder / "t.npz", f"--name={policy}", f"--policy={policy}", *terms)
        for name in ("ada", "bob"):
            subprocess.run([ROOT / "build/bin/sojourn", "keygen", folder / name], check=True, capture_output=True)
            self("client", "add", name, "--key", folder / f"{name}.pub")
        self("budget", "cap", "private", "--epsilon=8", f"--delta={DELTA}")
        self.process = OwnerProcess(folder)

    def __call__(self, *words, code=0) -> str:
        command = [ROOT / "build/bin/sojourn-owner", *words, "--store", self.folder / "store"]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def grant(self, client, epsilon):
        self("budget", "grant", client, "private", f"--epsilon={epsilon}", f"--delta={DELTA}")

    def connect(self, name=None):
        return sojourn.connect(self.process.address, identity=self.folder / name if name else None)

    def versions(self) -> dict[str, str]:
        return dict(re.findall(r"^(\w+): .* version (\w+)$", self("datasets"), re.M))

    def programs(self) -> str:
        return self("programs")


@pytest.fixture
def store(tmp_path, generator):
    made = Store(tmp_path, generator)
    try:
        yield made
    finally:
        assert made.process.close() == 0


class Wire(Connection):
    steps = 0


@pytest.fixture
def stranger(store):
    """A client without an identity that writes its own messages."""
    wire = Wire(store.process.address)
    yield Client(wire)
    wire.close()


def reading(kind: str) -> bytes:
    """All rows of a table, published or kept."""
    program = ProgramBuilder()
    table = program.arg("table", TableType(ROWS, (("age", NAMES.index("f64")),)))
    for name in ("iota", "dim", "read_rows"):
        program.string(name)  # in the order of their use, which the owner wants
    rows = program.op("iota", [], t("i64", ROWS), dim=0)
    program.result(kind, program.op("read_rows", [table, rows], t("f32", ROWS, 1), columns=["age"]))
    return program.encode()


def step(client, table: tuple[str, str], kind: str = "keep", **fields):
    kept = {"results": [secrets.randbits(40) + 1]} if kind == "keep" else {}
    return client.step(reading(kind), tables=[table], **kept, **fields)


def test_a_stranger_reads_no_open_table(store, stranger):
    version = store.versions()["open"]
    reply = step(stranger, ("open", version), "publish")
    assert reply.kind == "Error" and reply.code == 6
    assert reply.message == (
        "a client without an identity has no access to table 'open'; connect with sojourn.connect(address, "
        "identity=FILE), using an identity that the data owner knows, and ask the data owner for: sojourn-owner access "
        "open --add CLIENT"
    )
    store("access", "open", "--anyone")
    stranger.steps = 0
    reply = step(stranger, ("open", version), "publish")
    assert reply.kind == "Done", reply.message
    assert np.array_equal(np.frombuffer(reply.published[0].data.tobytes(), np.float32), store.age.astype(np.float32))


def test_a_stranger_keeps_nothing_of_a_private_table(store, stranger):
    """Also where anyone may see the description: no proof is made, and no program is noted."""
    version = store.versions()["private"]
    for access, text in (("--none", "has no access to table 'private'"), ("--anyone", "needs a budget")):
        store("access", "private", access)
        for spending in ({}, {"sequence": 1}):
            reply = step(stranger, ("private", version), **spending)
            assert reply.kind == "Error" and text in reply.message
    assert "no program has run yet" in store.programs()


def test_names_are_not_told(store, stranger):
    versions = store.versions()
    texts = set()
    for name in ("open", "private", "nowhere", "Open"):
        for version in ("0123456789abcdef", versions.get(name, "")):
            for send_program in (True, False):  # nor whether the owner holds the program
                reply = step(stranger, (name, version), send_program=send_program)
                texts.add((reply.code, reply.message.replace(f"'{name}'", "NAME").replace(f"access {name} ", "NAME ")))
    assert len(texts) == 1, texts
    assert stranger.send("GetBudget", session=stranger.session, dataset="private").granted == 0


def test_a_stranger_sees_no_description(store, stranger):
    for fields in ({}, {"session": stranger.session}):
        assert stranger.send("ListDatasets", **fields).datasets == []
    assert stranger.send("ListDatasets", session=stranger.session + 1).kind == "Error"
    with store.connect() as owner, store.connect("ada") as ada:
        assert owner.datasets() == ada.datasets() == []
        with pytest.raises(sojourn.Error, match="has no dataset 'private'.*sojourn-owner access private --add ada"):
            ada.dataset("private")
        store("access", "open", "--clients", "ada")
        store("access", "private", "--anyone")
        assert [table.name for table in owner.datasets()] == ["private"]
        assert sorted(table.name for table in ada.datasets()) == ["open", "private"]
        assert np.array_equal(ada.dataset("open")["age"].cpu().numpy(), store.age)
    assert [each.name for each in stranger.send("ListDatasets").datasets] == ["private"]


def test_a_client_reads_what_it_was_given(store, stranger):
    store("access", "open", "--add", "ada")
    version = store.versions()["open"]
    with store.connect("bob") as bob:
        with pytest.raises(sojourn.Error, match="has no dataset 'open'"):
            bob.dataset("open")
    assert step(stranger, ("open", version), "publish").kind == "Error"
    with store.connect("ada") as ada:
        assert np.array_equal(ada.dataset("open")["age"].cpu().numpy(), store.age)


def test_a_private_table_needs_access_and_a_rest_of_a_grant(store):
    store("access", "private", "--clients", "ada,bob")
    store.grant("ada", 1)
    with store.connect("ada") as ada, store.connect("bob") as bob:
        for ask in (lambda: bob.dataset("private")["age"].mean(), lambda: bob.dataset("private")["age"] * 2):
            with pytest.raises(
                sojourn.BudgetExhausted, match="client 'bob' has no budget on private dataset 'private'"
            ):
                ask()
                sojourn.flush()
        answer = sojourn.publish(ada.dataset("private")["age"].mean(), epsilon=1)
        assert abs(answer.value - store.age.mean()) < 20 * answer.stderr
        with pytest.raises(sojourn.BudgetExhausted, match="epsilon 1 at delta 1e-05, is spent"):
            kept = ada.dataset("private")["age"] * 2
            sojourn.flush()
            del kept
        store.grant("ada", 2)
        assert sojourn.publish(ada.dataset("private")["age"].mean(), epsilon=0.5).receipt.client == "ada"


@pytest.mark.parametrize("what", ["open table", "private table", "kept value"])
def test_access_that_is_withdrawn_is_gone_in_sessions_that_live(store, what):
    store.grant("ada", 4)
    store("access", "open", "--add", "ada")
    with store.connect("ada") as ada:
        tables = {name: ada.dataset(name) for name in ("open", "private")}
        kept = tables["private"]["age"] * 2
        assert sojourn.publish(tables["private"]["age"].mean(), epsilon=0.5).receipt.client == "ada"
        store("access", "open", "--none")
        store("budget", "revoke", "ada", "private")
        assert ada.datasets() == []
        with pytest.raises(sojourn.Refused) as failure:
            if what == "open table":
                tables["open"].rows("age").cpu()
            elif what == "private table":
                sojourn.publish(tables["private"].rows("age").mean(), epsilon=0.5)
            else:
                kept += 1
                sojourn.flush()
        table = "open" if what == "open table" else "private"
        assert f"client 'ada' has no access to table '{table}'" in str(failure.value)
        assert ("from which a value that this step uses was computed" in str(failure.value)) == (what == "kept value")
        store("access", table, "--add", "ada")
        if what == "kept value":
            sojourn.flush()
    with store.connect("ada") as ada:
        x = torch.ones(3).to(ada.device)
        assert torch.equal(sojourn.publish(x + 1), torch.full((3,), 2.0))


def test_the_commands_tell_and_change_who_has_access(store):
    assert "access for no client" in store("datasets")
    assert store("access", "open") == "open: access for no client\n"
    assert store("access", "open", "--clients", "bob,ada") == "open: access for ada, bob\n"
    assert store("access", "open", "--remove", "bob") == "open: access for ada\n"
    assert store("access", "open", "--anyone") == "open: access for anyone\n"
    assert store("access", "open", "--none") == "open: access for no client\n"
    assert "steps also need a grant" in store("access", "private", "--anyone")
    assert "no client is named 'eve'; add it with: sojourn-owner client add eve" in store(
        "access", "open", "--add", "eve", code=1
    )
    assert "no dataset is named 'nowhere'" in store("access", "nowhere", "--none", code=1)
    store("access", "open", "--none", "--anyone", code=2)
    rows = ["import", store.folder / "t.npz", "--policy=open", "--name"]
    assert "no client is named 'eve'" in store(*rows, "t", "--clients", "eve,ada", code=1)
    assert "access for ada" in store(*rows, "t", "--clients", "ada")
    assert "access for anyone" in store(*rows, "u", "--anyone")
    store.grant("bob", 1)
    assert store("access", "private").startswith("private: access for anyone\n")
    store("access", "private", "--clients", "ada")
    store.grant("bob", 2)
    assert store("access", "private") == "private: access for ada, bob\n"
    store("budget", "revoke", "bob", "private")
    assert store("access", "private") == "private: access for ada\n"
