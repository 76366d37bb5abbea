# SPDX-License-Identifier: Apache-2.0
"""Clients of a served owner: who they are, what they may learn, and what the owner's commands say of it.

Everything runs as people run it: `sojourn keygen`, `sojourn-owner` commands beside a server, `sojourn.connect`.
"""

import concurrent.futures
import os
import pathlib
import re
import stat
import struct

import pytest
import torch
import torch.nn.functional as F
from frames_support import Connection
from hospital_support import DELTA, ROWS, command, hospital_with_patients  # noqa: F401 (the fixture `hospital`)
from torch import nn

import sojourn


def mean(owner, table="patients", column="age", epsilon=0.5):
    return sojourn.publish(owner.dataset(table)[column].mean(), epsilon=epsilon)


def test_two_clients_have_budgets_of_their_own(hospital):
    ada, bob = hospital.add_client("ada"), hospital.add_client("bob")
    hospital.grant("ada", "patients", 2)
    hospital.grant("bob", "patients", 0.75)
    with hospital.serving() as address:
        with sojourn.connect(address, identity=ada) as first, sojourn.connect(address, identity=bob) as second:
            assert (first.account, second.account) == ("ada", "bob")
            assert first.key == second.key == hospital("key").strip()
            answer = mean(first, epsilon=1.0)
            assert abs(answer.value - hospital.data["age"].mean()) < 20 * answer.stderr
            assert first.budget("patients").epsilon_left == pytest.approx(1, abs=1e-2)
            assert second.budget("patients").epsilon_left == pytest.approx(0.75)
            mean(second)
            with pytest.raises(sojourn.BudgetExhausted, match=r"client 'bob' on dataset 'patients', epsilon 0.75"):
                mean(second)
            mean(first)
            assert "budget left: epsilon 0.5" in repr(first.dataset("patients"))
            assert "budget left: epsilon 0.25 of 0.75 at delta 1e-05" in repr(second.dataset("patients"))
            assert "defaults: noise multiplier 1, clip 1, metric bound 10" in repr(second.dataset("patients"))
            assert "budget left" in second.dataset("patients")._repr_html_()
    shown = hospital("budget show")
    assert re.search(r"ada +patients +2 +1e-05 +1\.[45]", shown) and re.search(
        r"bob +patients +0.75 +1e-05 +0\.5", shown
    )
    assert "the ledger is intact" in hospital("ledger verify")
    listed = hospital("ledger show --client bob")
    assert "published result" in listed and not re.search(r"\bada\b", listed)  # a key may hold these letters


def test_without_an_identity_there_is_no_budget(hospital):
    hospital.add_client("ada")
    hospital.grant("ada", "patients", 2)
    hospital("access patients --anyone")
    with hospital.serving() as address, sojourn.connect(address) as owner:
        assert owner.account == "" and owner.key is None
        assert not owner.budget("patients").granted
        assert repr(owner.dataset("patients")).endswith("no budget")
        with pytest.raises(sojourn.BudgetExhausted, match=r"this connection has no identity: connect with sojourn"):
            mean(owner)
        with pytest.raises(sojourn.Error, match="sojourn-owner budget grant CLIENT patients --epsilon E --delta D"):
            owner.grant("patients", epsilon=1, delta=DELTA)


def test_a_client_without_a_grant_is_told_the_command(hospital):
    ada = hospital.add_client("ada")
    with hospital.serving() as address, sojourn.connect(address, identity=ada) as owner:
        with pytest.raises(sojourn.Error, match="has no dataset 'patients'.*sojourn-owner access patients --add ada"):
            mean(owner)
        hospital("access patients --add ada")
        with pytest.raises(sojourn.BudgetExhausted, match="sojourn-owner budget grant ada patients --epsilon E"):
            mean(owner)
        hospital.grant("ada", "patients", 1)  # a running server knows at once
        mean(owner)
        hospital("budget revoke ada patients")  # and with it the access
        with pytest.raises(sojourn.Error, match="has no dataset 'patients'"):
            mean(owner, epsilon=0.1)
        hospital("access patients --add ada")
        with pytest.raises(sojourn.BudgetExhausted):
            mean(owner, epsilon=0.1)


def test_a_stranger_and_a_lost_key_are_refused(hospital, tmp_path):
    stranger = tmp_path / "stranger.key"
    command("sojourn", "keygen", stranger)
    public = pathlib.Path(f"{stranger}.pub").read_text().split()[-1]
    with hospital.serving() as address:
        with pytest.raises(sojourn.Refused, match=f"no client of this owner has the key {public}"):
            sojourn.connect(address, identity=stranger)
        with pytest.raises(sojourn.Error, match="there is no identity .*create one with: sojourn keygen"):
            sojourn.connect(address, identity=tmp_path / "none.key")
        with pytest.raises(sojourn.Error, match="is not a client's secret key"):
            os.chmod(f"{stranger}.pub", 0o600)
            sojourn.connect(address, identity=f"{stranger}.pub")
        stranger.chmod(0o644)
        with pytest.raises(sojourn.Error, match="other users may read the client's secret key"):
            sojourn.connect(address, identity=stranger)
        with pytest.raises(sojourn.Error, match="identity=FILE too"):
            sojourn.connect(address, owner_key="0" * 64)


def test_the_owner_is_known_again(hospital, tmp_path):
    """The first owner at an address is noted; another one there, or that one elsewhere, is refused."""
    ada = hospital.add_client("ada")
    key = hospital("key").strip()
    known = pathlib.Path(f"{ada}.owners")
    with hospital.serving() as address:
        for _ in range(2):
            sojourn.connect(address, identity=ada).close()
        assert known.read_text() == f"{key} {address}\n"
        assert stat.S_IMODE(known.stat().st_mode) == 0o600
        other = "ab" * 32
        with pytest.raises(sojourn.Refused, match=f"has the key {key}, expected {other}"):
            sojourn.connect(address, identity=ada, owner_key=other)
        with pytest.raises(sojourn.Error, match="owner_key has 3 characters, expected the 64 hexadecimal digits"):
            sojourn.connect(address, identity=ada, owner_key="abc")
        known.write_text(f"{other} {address}\n")
        with pytest.raises(sojourn.Refused, match=f"has the key {key}, but had {other} before"):
            sojourn.connect(address, identity=ada)
        sojourn.connect(address, identity=ada, owner_key=key).close()
        known.write_text(f"{key} ipc:///run/elsewhere.sock\n")
        with pytest.raises(sojourn.Refused, match="is known from another address, ipc:///run/elsewhere.sock"):
            sojourn.connect(address, identity=ada)
        known.unlink()
        known.mkdir()
        with pytest.raises(sojourn.Error, match="cannot store the owner's key"):
            sojourn.connect(address, identity=ada)


def test_what_passes_between_is_of_no_use_to_others(hospital, tmp_path):
    """A recorded proof opens nothing; who passes another owner's challenge on gets a signature for nobody."""
    import _sojourn

    ada = hospital.add_client("ada")
    with hospital.serving() as address, sojourn.connect(address) as plain:
        honest = relay(address)
        recorded = []

        def tap(request):
            recorded.append(bytes(request))
            return honest(request)

        session = _sojourn.Session(tap, "tapped", 60000, str(ada), "")
        assert session.account == "ada" and len(recorded) == 2
        with pytest.raises(sojourn.Refused, match="this challenge was already answered"):
            _sojourn.Session(replay(recorded[1], honest), "replayed", 60000)
        session.close()

        # An owner of the attacker's own, which shows its own key and hands on the hospital's challenge.
        attacker = _sojourn.EmbeddedOwner()
        with pytest.raises(sojourn.Refused, match="does not hold the key"):
            _sojourn.Session(shows_other_key(honest, attacker.key), "attacker", 60000, str(ada), "")
        # One that passes on everything is known from elsewhere.
        sojourn.connect(address, identity=ada, owner_key=hospital("key").strip()).close()
        pathlib.Path(f"{ada}.owners").write_text(f"{hospital('key').strip()} {address}\n")
        with pytest.raises(sojourn.Refused, match="is known from"):
            _sojourn.Session(honest, "in between", 60000, str(ada), "")
        assert plain.account == ""


def relay(address):
    """Requests to a served owner as a function of bytes."""

    def call(request):
        with Connection(address) as peer:
            return peer.handle(bytes(request))

    return call


def replay(proof, honest):
    """A transport that answers a plain Hello with what a recorded proof gets."""
    return lambda request: honest(proof)


def shows_other_key(honest, other_key):
    def call(request):
        from sojourn_wire.Challenge import Challenge
        from sojourn_wire.Reply import Reply
        from sojourn_wire.ReplyBody import ReplyBody

        data = bytearray(honest(request))
        reply = Reply.GetRootAs(data, 0)
        if reply.BodyType() == ReplyBody.Challenge:
            body = Challenge()
            body.Init(reply.Body().Bytes, reply.Body().Pos)
            begin = body._tab.Vector(body._tab.Offset(6))
            data[begin : begin + 32] = bytes.fromhex(other_key)
        return bytes(data)

    return call


def test_an_owner_that_knows_no_identities(hospital):
    import _sojourn
    import sojourn_numpy

    ada = hospital.add_client("ada")
    with pytest.raises(sojourn.Refused, match="knows no clients; connect without an identity"):
        _sojourn.Session(sojourn_numpy.NumpyOwner().handle, "numpy", 60000, str(ada), "")

    # A release before identities sees a Hello that says nothing of one.
    from sojourn_wire.Hello import Hello
    from sojourn_wire.Request import Request

    old = _sojourn.EmbeddedOwner()

    def handle(request):
        data = bytearray(request)
        body = Request.GetRootAs(data, 0)
        if body.BodyType() == 1:
            hello = Hello()
            hello.Init(body.Body().Bytes, body.Body().Pos)
            table = hello._tab
            vtable = table.Pos - int.from_bytes(data[table.Pos : table.Pos + 4], "little", signed=True)
            data[vtable + 12 : vtable + 16] = bytes(4)
        return old.handle(bytes(data))

    with pytest.raises(sojourn.Refused, match="does not support identities; connect without an identity"):
        _sojourn.Session(handle, "old", 60000, str(ada), "")


def test_the_cap_stops_the_second_client(hospital):
    hospital("budget cap patients", "--epsilon", 1, "--delta", DELTA)
    ada, bob = hospital.add_client("ada"), hospital.add_client("bob")
    for client in ("ada", "bob"):
        hospital.grant(client, "patients", 0.9)
    with hospital.serving() as address:
        with sojourn.connect(address, identity=ada) as first, sojourn.connect(address, identity=bob) as second:
            mean(first, epsilon=0.7)
            assert second.budget("patients").epsilon_left == pytest.approx(0.9)
            with pytest.raises(sojourn.BudgetExhausted, match="cap on the people of 'patients' over all clients"):
                mean(second, epsilon=0.7)


def test_tables_of_the_same_people_share_the_cap(hospital):
    hospital.add_table("visits", "--population", "ward")
    hospital.add_table("labs", "--population", "ward")
    hospital("budget cap visits", "--epsilon", 1, "--delta", DELTA)
    ada = hospital.add_client("ada")
    for table in ("visits", "labs", "patients"):
        hospital.grant("ada", table, 1)
    with hospital.serving() as address, sojourn.connect(address, identity=ada) as owner:
        mean(owner, "visits", epsilon=0.7)
        with pytest.raises(sojourn.BudgetExhausted, match="cap on the people of 'ward' over all clients"):
            mean(owner, "labs", epsilon=0.7)
        mean(owner, "patients", epsilon=0.7)
        both = owner.dataset("visits")["age"].mean() + owner.dataset("labs")["age"].mean()
        with pytest.raises(sojourn.Refused, match="hold the same people"):
            sojourn.publish(both, epsilon=0.01)
    assert re.search(r"ward +visits, labs +1 ", hospital("budget show labs"))


def test_a_restart_forgets_nothing_that_was_spent(hospital):
    ada = hospital.add_client("ada")
    hospital.grant("ada", "patients", 1)
    for left in (0.6, 0.2):
        with hospital.serving() as address, sojourn.connect(address, identity=ada) as owner:
            mean(owner, epsilon=0.4)
            assert owner.budget("patients").epsilon_left == pytest.approx(left, abs=0.02)
    with hospital.serving() as address, sojourn.connect(address, identity=ada) as owner:
        with pytest.raises(sojourn.BudgetExhausted):
            mean(owner, epsilon=0.4)
    assert "the ledger is intact" in hospital("ledger verify")


def test_clients_at_once_keep_to_their_own(hospital):
    identities = {name: hospital.add_client(name) for name in ("ada", "bob", "eve", "sue")}
    for number, name in enumerate(identities):
        hospital.grant(name, "patients", 0.5 + number / 4)
    with hospital.serving() as address:

        def spend(name):
            with sojourn.connect(address, identity=identities[name]) as owner:
                grants = {owner.budget("patients").epsilon for _ in range(20)}
                mean(owner, epsilon=0.25)
                return grants, owner.account, owner.budget("patients").epsilon_left

        with concurrent.futures.ThreadPoolExecutor() as pool:
            for number, (name, (grants, account, left)) in enumerate(zip(identities, pool.map(spend, identities))):
                assert grants == {0.5 + number / 4} and account == name
                assert left == pytest.approx(0.25 + number / 4, abs=0.01)


def test_a_receipt_is_checked_and_a_changed_one_refused(hospital):
    ada = hospital.add_client("ada")
    hospital.grant("ada", "patients", 1)
    with hospital.serving() as address, sojourn.connect(address, identity=ada) as owner:
        receipt = mean(owner).receipt
        key = owner.key
    assert receipt.verify(key) and receipt.verify(hospital("key"))
    assert receipt.client == "ada" and receipt.relation == "null_one"
    assert receipt.price[0]["dataset"] == "patients" and receipt.price[0]["epsilon"] == pytest.approx(0.5, rel=1e-3)
    assert "paid     epsilon 0.5 at delta 1e-05 (null_one) from 'patients'" in repr(receipt)
    assert f"entry {receipt.entry}, {receipt.entry_hash}" in repr(receipt)
    signed = bytes(receipt)
    assert sojourn.Receipt(signed) == receipt
    assert re.search(rf"\n{receipt.entry} +\S+ \S+ +sealed", "\n" + hospital("ledger show"))
    for position in range(len(signed)):
        changed = bytearray(signed)
        changed[position] ^= 1
        with pytest.raises(sojourn.Error, match="not a receipt|not signed by this owner, or was changed"):
            sojourn.Receipt(bytes(changed)).verify(key)
    with pytest.raises(sojourn.Error, match="not signed by this owner"):
        receipt.verify("ab" * 32)
    with pytest.raises(sojourn.Error, match="the owner's key has 2 characters, expected the 64"):
        receipt.verify("ab")
    with pytest.raises(sojourn.Error, match="made of the bytes"):
        sojourn.Receipt({"what": "everything"})


def test_training_at_a_served_owner_uses_its_defaults_and_is_logged(hospital):
    ada = hospital.add_client("ada")
    hospital.grant("ada", "patients", 8)
    hospital("defaults patients --noise-multiplier 4 --clip 0.5")
    with hospital.serving() as address, sojourn.connect(address, identity=ada) as owner:
        table = owner.dataset("patients")
        assert table.defaults == (4, 0.5, 10)
        model = nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        sojourn.to_owner(model, owner, optimizer)

        @sojourn.step
        def train(x, y):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()

        with sojourn.privacy(table, delta=DELTA) as run:
            for x, y in table.batches(["age", "weight"], label="ill", size=16, epochs=1):
                train(x, y)
        assert run.noise_multiplier == 4 and "clipped to 0.5" in repr(run)
        assert owner.budget("patients").epsilon_left == pytest.approx(8 - run.epsilon, rel=1e-3)
        assert torch.isfinite(sojourn.publish(model.state_dict())["weight"]).all()
    programs = hospital("programs")
    assert "of ada, on private dataset 'patients': noise multiplier 4, clip 0.5, loss averaged" in programs
    assert re.search(r"gradient of 2 tensors, 6 numbers: rows are combined at \S+, \S*test_identities.py:\d+", programs)
    assert "one row moves it by at most" in programs and "a part of the step's price" in programs
    name = re.search(r"program (\w+) of ada, on private", programs)[1]
    assert f"// program {name}" in hospital("programs --text", name)


def test_keygen_says_what_to_do_and_never_overwrites(tmp_path):
    path = tmp_path / "me.key"
    text = command("sojourn", "keygen", path)
    assert f"sojourn-owner client add NAME --key {path}.pub" in text
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    secret, public = path.read_text().split()[-1], pathlib.Path(f"{path}.pub").read_text().split()[-1]
    assert secret not in text and public in text and len(secret) == len(public) == 64
    assert "never overwritten" in command("sojourn", "keygen", path, code=1)
    assert "cannot make" in command("sojourn", "keygen", tmp_path / "no" / "folder.key", code=1)
    assert path.read_text().split()[-1] == secret
    assert "keygen" in command("sojourn", "--help") and "FILE.pub" in command("sojourn", "keygen", "--help")
    assert "A subcommand is required" in command("sojourn", code=2)


def test_a_stated_key_of_another_size_is_an_error():
    """The key by which owners of a group know each other, as an owner states it in its welcome."""
    import _sojourn

    embedded = _sojourn.EmbeddedOwner()
    stated = struct.pack("<I", 32) + bytes.fromhex(embedded.key)
    seen = []

    def handle(request):
        reply = bytes(embedded.handle(request))
        seen.append(reply.count(stated))
        return reply.replace(stated, struct.pack("<I", 31) + stated[4:])

    with pytest.raises(sojourn.Error, match="the owner states a key of 31 bytes, expected 32; ask the data owner"):
        _sojourn.Session(handle, "far")
    assert seen[0] == 1
