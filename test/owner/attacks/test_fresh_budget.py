# SPDX-License-Identifier: Apache-2.0
"""Attack: fresh budget for the same people. Tables that are renamed, removed, replaced and imported again, clients that
are removed and added again, and keys that change: whatever the sequence, what was spent on people stays spent. Nor does
a session outlive its client or its key, not even for a reply that the owner remembers.
"""

import pathlib
import random
import re
import secrets
import subprocess
import sys

import numpy as np
import pytest
import torch

import sojourn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
from owner_process import ROOT, OwnerProcess

ROWS, DELTA, GRANT, CAP = 200, 1e-5, 2, 3
NAMES, CLIENTS = ("a", "b"), ("ada", "bob")


class Store:
    """A data owner's store with the private table `a`, two clients that have keys, and no server yet."""

    process = None

    def __init__(self, folder: pathlib.Path, generator):
        self.folder, self.keys = folder, {}
        self.age = generator.uniform(0, 1, ROWS)
        for name, rows in (("t", self.age), ("newer", generator.uniform(0, 1, ROWS + 50))):
            np.savez(folder / f"{name}.npz", age=rows)
        for name in CLIENTS:
            self.keygen(name)
        self.rows("a")

    def keygen(self, client: str) -> pathlib.Path:
        """A new key for a client, which uses it from now on."""
        self.keys[client] = self.folder / f"{client}-{secrets.token_hex(4)}"
        subprocess.run([ROOT / "build/bin/sojourn", "keygen", self.keys[client]], check=True, capture_output=True)
        return self.keys[client].with_suffix(".pub")

    def __call__(self, *words, code: int | None = 0) -> str:
        """A command that ends with this code; None: with 0 or 1."""
        command = [ROOT / "build/bin/sojourn-owner", *words, "--store", self.folder / "store"]
        done = subprocess.run(
            [str(word) for word in command], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL
        )
        assert done.returncode in ((0, 1) if code is None else (code,)), done.stdout + done.stderr
        return done.stdout + done.stderr

    def rows(self, name: str, *more, code: int | None = 0) -> str:
        terms = ["--policy=private", "--bound=age=0:1", "--rows-are-subjects"]
        return self("import", self.folder / "t.npz", "--name", name, *terms, *more, code=code)

    def admit(self, name: str = "a", code: int | None = 0):
        for client in CLIENTS:
            self("client", "add", client, "--key", f"{self.keys[client]}.pub", code=None)
        self("budget", "cap", name, f"--epsilon={CAP}", f"--delta={DELTA}", code=code)
        for client in CLIENTS:
            self("budget", "grant", client, name, f"--epsilon={GRANT}", f"--delta={DELTA}", code=code)

    def serve(self):
        self.process = OwnerProcess(self.folder)

    def connect(self, client: str):
        return sojourn.connect(self.process.address, identity=self.keys[client])

    def spend(self, client: str, epsilon: float, name: str = "a"):
        with self.connect(client) as owner:
            return sojourn.publish(owner.dataset(name)["age"].mean(), epsilon=epsilon)

    def left(self, client: str) -> float:
        """The most that a client could still learn of the people, by any table."""
        with self.connect(client) as owner:
            budgets = [owner.budget(table.name) for table in owner.datasets()]
        return max(
            (
                min(each.epsilon_left, each.epsilon_left if each.common_left is None else each.common_left)
                for each in budgets
            ),
            default=0.0,
        )

    def files(self) -> set[str]:
        return {file.name for file in (self.folder / "store/datasets").iterdir()}


@pytest.fixture
def store(tmp_path, generator):
    made = Store(tmp_path, generator)
    try:
        yield made
    finally:
        if made.process:
            assert made.process.close() == 0


def changes(store: Store) -> dict:
    """Every command that a data owner has for it, careless ones included."""
    commands = {
        "replace a": lambda: store("replace", "a", store.folder / "newer.npz", code=None),
        "import a": lambda: store.rows("a", code=None),  # not b: what the ledger has never seen are new people
    }
    for name in NAMES:
        other = "b" if name == "a" else "a"
        commands[f"rename {name}"] = lambda name=name, other=other: store("rename", name, other, code=None)
        commands[f"remove {name}"] = lambda name=name: store("remove", name, "--yes", code=None)
        commands[f"continue {name}"] = lambda name=name: store.rows(name, "--continue-budget", code=None)
    commands["client remove ada"] = lambda: store("client", "remove", "ada", code=None)
    commands["client add ada"] = lambda: store("client", "add", "ada", "--key", store.keygen("ada"), code=None)
    commands["client add ada again"] = lambda: store(
        "client", "add", "ada", "--continue-budget", "--key", f"{store.keys['ada']}.pub", code=None
    )
    commands["client key ada"] = lambda: store("client", "key", "ada", "--key", store.keygen("ada"), code=None)
    return commands


SEQUENCES = [
    ("rename a", "import a"),
    ("rename a", "remove b", "import a", "continue b"),
    ("remove a", "import a", "continue a", "replace a"),
    ("client key ada", "client remove ada", "client add ada", "client add ada again"),
]


@pytest.mark.parametrize("sequence", [*SEQUENCES, "random"], ids=str)
def test_no_sequence_of_commands_returns_budget(store, sequence, generator):
    """Afterwards the table gets a cap and every client a grant, as a careless data owner gives them again. All short
    sequences are in ../ChangesTest.cpp."""
    store.admit()
    store.serve()
    store.spend("ada", 1.5)
    store.spend("bob", 0.5)
    commands = changes(store)
    if isinstance(sequence, str):
        draw = random.Random(int(generator.integers(2**32)))
        sequence = [draw.choice(list(commands)) for _ in range(6)]
    print(sequence)
    for each in sequence:
        key, text = store.keys["ada"], commands[each]()
        if "sojourn-owner: " in text:
            store.keys["ada"] = key
        print(each, text)
    tables, clients = store("datasets"), store("client", "list")
    names, known = re.findall(r"^(\w): ", tables, re.M), re.findall(r"^(ada|bob) +[0-9a-f]{64}$", clients, re.M)
    assert len(names) < 2, "one file, one set of people"
    for name in names:
        store("budget", "cap", name, f"--epsilon={CAP}", f"--delta={DELTA}")
        for client in known:
            store("budget", "grant", client, name, f"--epsilon={GRANT}", f"--delta={DELTA}")
            # Of ada's 2 are 1.5 spent, of 3 for all 1.99 (as epsilon of both charges together).
            allowed = {"ada": 0.5, "bob": 1.02}[client]
            assert store.left(client) <= allowed + 1e-6, (client, store("budget", "show"))
            with pytest.raises(sojourn.BudgetExhausted):
                store.spend(client, allowed + 0.1, name)
    assert "the ledger is intact" in store("ledger", "verify")


def test_sessions_see_a_renamed_table(store):
    store.admit()
    store.serve()
    with store.connect("ada") as ada:
        table = ada.dataset("a")
        first = sojourn.publish(table["age"].mean(), epsilon=1)
        assert "b; its budgets and access went along" in store("rename", "a", "b")
        with pytest.raises(sojourn.OwnerError) as failure:
            sojourn.publish(table["age"].mean(), epsilon=0.5)
        assert "Dataset: the data owner renamed table 'a' to 'b'; get it again with owner.dataset(\"b\")" in str(
            failure.value
        )
        assert [each.name for each in ada.datasets()] == ["b"]
        assert ada.budget("b").epsilon_left == pytest.approx(1, abs=1e-6)
        second = sojourn.publish(ada.dataset("b")["age"].mean(), epsilon=0.5)
        assert abs(second.value - store.age.mean()) < 20 * second.stderr
        for receipt in (first.receipt, second.receipt):
            assert receipt.verify(ada.key)
    assert "'a' was the name of dataset 'b', which has its budgets" in store.rows("a", code=1)
    assert "'a' was the name of dataset 'b'" in store.rows("a", "--continue-budget", code=1)
    assert "the ledger is intact" in store("ledger", "verify")
    assert "dataset renamed" in store("ledger", "show")


def test_sessions_see_replaced_rows(store):
    store.admit()
    store.serve()
    files = store.files()
    with store.connect("ada") as ada:
        table = ada.dataset("a")
        sojourn.publish(table["age"].mean(), epsilon=1)
        access = store("access", "a")
        assert "250 rows" in store("replace", "a", store.folder / "newer.npz")
        assert not files & store.files(), "the old rows are deleted"
        with pytest.raises(sojourn.OwnerError) as failure:
            sojourn.publish(table["age"].mean(), epsilon=0.5)
        assert "Dataset: the data owner replaced the rows of table 'a'; get it again with owner.dataset(\"a\")" in str(
            failure.value
        )
        again = ada.dataset("a")
        assert len(again) == ROWS + 50 and ada.budget("a").epsilon_left == pytest.approx(1, abs=1e-6)
        assert store("access", "a") == access
        assert sojourn.publish(again["age"].mean(), epsilon=0.5).receipt.verify(ada.key)
        assert ada.budget("a").epsilon_left == pytest.approx(0.5, abs=0.02)


def test_values_of_open_rows_stay_open_until_their_table_goes_or_closes(store):
    store("import", store.folder / "t.npz", "--name=open", "--policy=open", "--rows-are-subjects", "--bound=age=0:1")
    store.admit()
    for client in CLIENTS:
        store("access", "open", "--add", client)
    store.serve()
    with store.connect("ada") as ada:
        kept = ada.dataset("open")["age"] * 2
        sojourn.flush()
        store("replace", "open", store.folder / "newer.npz")
        assert np.array_equal(sojourn.publish(kept).numpy(), store.age * 2)
        store("policy", "open", "private")
        with pytest.raises(sojourn.Refused):
            sojourn.publish(kept + 1)
        assert "is still private; answer y to open it, or add --yes" in store("policy", "open", "open", code=1)
        store("policy", "open", "open", "--yes")
        assert np.array_equal(sojourn.publish(kept + 1).numpy(), store.age * 2 + 1)
        store("remove", "open", "--yes")
        with pytest.raises(sojourn.OwnerError, match="Dataset: the data owner removed table 'open'"):
            sojourn.publish(kept + 2)


def test_a_removed_table_is_gone_for_its_sessions_and_from_the_disk(store):
    store.admit()
    store.serve()
    with store.connect("ada") as ada:
        table = ada.dataset("a")
        kept = table["age"] * 2
        sojourn.publish(table["age"].mean(), epsilon=1.5)
        assert "answer y to delete its rows, or add --yes" in store("remove", "a", code=1)
        assert store.files()
        assert "a is removed; charges to its people remain" in store("remove", "a", "--yes")
        assert not store.files()
        for ask in (lambda: sojourn.publish(table["age"].mean(), epsilon=0.1), lambda: kept.add_(1)):
            with pytest.raises(sojourn.OwnerError, match="Dataset: the data owner removed table 'a'"):
                ask()
                sojourn.flush()
        assert ada.datasets() == []
    assert "no dataset is named 'a'" in store("remove", "a", "--yes", code=1)
    assert "charges to its people still count. Continue its budgets: --continue-budget" in store.rows("a", code=1)
    assert "are those of 'a' in the ledger, not 'others'" in store.rows(
        "a", "--continue-budget", "--population=others", code=1
    )
    assert "access for no client" in store.rows("a", "--continue-budget")
    store.admit()
    assert store.left("ada") == pytest.approx(0.5, abs=1e-6)
    assert "the ledger is intact" in store("ledger", "verify")


def published(client, value: float) -> torch.Tensor:
    """One more than a value, by a step that needs no table."""
    x = torch.full((3,), value).to(client.device)
    return sojourn.publish(x + 1)


def test_a_removed_client_has_no_session(store):
    store.admit()
    store.serve()
    with store.connect("ada") as ada, store.connect("bob") as bob:
        table = ada.dataset("a")
        answer = sojourn.publish(table["age"].mean(), epsilon=1.5)
        assert "its charges remain" in store("client", "remove", "ada")
        for ask in (
            ada.datasets,
            lambda: ada.budget("a"),
            lambda: published(ada, 1),
            lambda: sojourn.publish(table["age"].mean(), epsilon=0.1),
        ):
            with pytest.raises(
                sojourn.Error, match="the data owner removed client 'ada', so its sessions are over|unknown session"
            ):
                ask()
        assert torch.equal(published(bob, 1), torch.full((3,), 2.0))
        with pytest.raises(sojourn.Error, match="no client of this owner has the key"):
            store.connect("ada")
        # It counts for the people: 3 - 1.5 are left for all others.
        assert bob.budget("a").common_left == pytest.approx(1.5, abs=1e-6)
        assert answer.receipt.verify(bob.key)
    shown = store("budget", "show")
    assert "ada (removed)" in shown
    assert "removed; had" in store("client", "list")
    for line in ("client added", "client removed", "grant set"):
        assert line in store("ledger", "show", "--client", "ada")
    assert "was removed, and its charges still count" in store(
        "client", "add", "ada", "--key", f"{store.keys['ada']}.pub", code=1
    )
    assert "this key was that of client 'ada', which was removed" in store(
        "client", "add", "eve", "--key", f"{store.keys['ada']}.pub", code=1
    )
    assert "no client is named 'ada'" in store("access", "a", "--add", "ada", code=1)
    assert "no client is named 'ada'" in store("client", "remove", "ada", code=1)
    store("client", "add", "ada", "--continue-budget", "--key", f"{store.keys['ada']}.pub")
    with store.connect("ada") as ada:
        assert ada.datasets() == []
        store("budget", "grant", "ada", "a", f"--epsilon={GRANT}", f"--delta={DELTA}")
        assert ada.budget("a").epsilon_left == pytest.approx(0.5, abs=1e-6)
    assert "the ledger is intact" in store("ledger", "verify")


def test_another_key_ends_the_sessions_of_the_last_one(store):
    store.admit()
    store.serve()
    old = store.keys["ada"]
    with store.connect("ada") as ada:
        sojourn.publish(ada.dataset("a")["age"].mean(), epsilon=1.5)
        new = store.keygen("ada")
        assert "sessions of its last key are over; its budgets stay" in store("client", "key", "ada", "--key", new)
        with pytest.raises(sojourn.Error, match="the data owner gave client 'ada' another key"):
            published(ada, 1)
    with pytest.raises(sojourn.Error, match="no client of this owner has the key"):
        sojourn.connect(store.process.address, identity=old)
    assert store.left("ada") == pytest.approx(0.5, abs=1e-6)
    assert store.spend("ada", 0.4).receipt.client == "ada"
    for words in (("client", "key", "ada"), ("client", "key", "bob"), ("client", "add", "eve")):
        assert "client 'ada' had this key before and got another one" in store(*words, "--key", f"{old}.pub", code=1)
    assert "already belongs to client 'ada'" in store("client", "key", "bob", "--key", new, code=1)
