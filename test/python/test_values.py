# SPDX-License-Identifier: Apache-2.0
"""Goal: a named value is found by later connections of its identity alone, trained as it was left, with its label.

Method: scripts as people write them, at embedded owners and at a served one from several processes, against eager torch.
"""

import copy
import datetime
import gc
import json
import subprocess
import sys

import pytest
import torch
from hospital_support import ROOT, command, hospital_with_patients  # noqa: F401 (the fixture `hospital`)
from torch import nn

import _sojourn
import sojourn
from sojourn.owner import Owner


class Embedded:
    """An owner in this process, to which several connections are opened one after another."""

    def __init__(self):
        self.owner = _sojourn.EmbeddedOwner()

    def connect(self):
        return Owner(_sojourn.Session(self.owner, "local"), "local", self.owner)


class Served:
    """A served owner, of which `ada` is a client."""

    def __init__(self, hospital, address):
        self.address, self.identity = address, hospital.add_client("ada")

    def connect(self):
        return sojourn.connect(self.address, identity=self.identity)


@pytest.fixture(name="place", params=["embedded", "served"])
def place_of_values(request, seed):
    if request.param == "embedded":
        yield Embedded()
    else:
        hospital = request.getfixturevalue("hospital")
        with hospital.serving() as address:
            yield Served(hospital, address)


def read(tensor):
    return sojourn.publish(tensor).value


def test_a_later_connection_finds_the_value(place):
    value = torch.randn(3, 4)
    with place.connect() as owner:
        kept = value.to(owner.device)
        sojourn.name(kept, "weights", tags=["b", "a"])  # pending: it is sent first
        pending = kept * 2
        sojourn.name(pending, "twice", tags="a")
        assert [each.name for each in owner.values()] == ["twice", "weights"]
    before = datetime.datetime.now(datetime.UTC)
    with place.connect() as owner:
        assert torch.equal(read(owner.value("weights")), value)
        assert torch.equal(read(owner.value("twice")), value * 2)
        assert [each.name for each in owner.values(tag="b")] == ["weights"]
        assert repr(owner.values(tag="none")) == "no values with names"
        found = owner.values(tag="b")[0]
        assert (found.tags, found.dtype, found.shape, found.bytes) == (("a", "b"), torch.float32, (3, 4), 48)
        assert found.named < before and found.lease == datetime.timedelta(days=7)
        lines = repr(owner.values()).splitlines()
        assert lines[0].split() == ["name", "tags", "dtype", "shape", "bytes", "named", "used"]
        assert lines[2].startswith("weights  a, b  float32  [3, 4]  48 ")
        assert "<td>float32</td>" in owner.values()._repr_html_()
        owner.release("weights")
        with pytest.raises(sojourn.Error, match="no value has the name 'weights'; names are 'twice'"):
            owner.value("weights")


@pytest.mark.parametrize("how", ["plain", "step", "replay", "loop"])
def test_training_keeps_the_name(place, how):
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)).double()
    twin = copy.deepcopy(model)
    xs = torch.randn(12, 6, 3, dtype=torch.float64)

    def trainer(model):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        def train(x):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()

        return train

    def run(train, xs):
        if how == "loop":
            sojourn.loop(train, xs, per_trip=4)
            return
        wrapped = {"plain": train, "step": sojourn.step(train), "replay": sojourn.step(replay=True)(train)}[how]
        for x in xs:
            wrapped(x)

    expected = trainer(twin)
    with place.connect() as owner:
        model.to(owner.device)
        sojourn.name(model, "model")
        run(trainer(model), xs[:7].to(owner.device).unbind())
        for x in xs[:7]:
            expected(x)
    with place.connect() as owner:
        found = owner.value("model")
        assert set(found) == set(twin.state_dict())
        again = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)).double()
        again.load_state_dict(found, assign=True)
        again.requires_grad_()
        run(trainer(again), xs[7:].to(owner.device).unbind())
        expected = trainer(twin)  # momentum begins anew in both
        for x in xs[7:]:
            expected(x)
    with place.connect() as owner:
        for key, value in owner.value("model").items():
            torch.testing.assert_close(read(value), twin.state_dict()[key])


def test_a_step_that_fails_leaves_the_value(place):
    with place.connect() as owner:
        weight = torch.ones(3).to(owner.device)
        sojourn.name(weight, "w")
        with pytest.raises(ZeroDivisionError), sojourn.step():
            weight.mul_(5)
            1 / 0
        weight = weight + 1  # another value: the name stays with the old one
        sojourn.flush()
    with place.connect() as owner:
        assert torch.equal(read(owner.value("w")), torch.ones(3))


def test_forms_of_values(place):
    image = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    values = {
        "image": image,
        "number": torch.tensor(3.5, dtype=torch.float64),
        "empty": torch.zeros(0, 3),
        "bits": torch.tensor([True, False]),
        "complex": torch.randn(2, dtype=torch.complex64),
        "half": torch.randn(3).bfloat16(),
        "reshaped": torch.arange(6.0),
    }
    with place.connect() as owner:
        kept = {key: value.to(owner.device) for key, value in values.items()}
        kept["reshaped"], values["reshaped"] = (each["reshaped"].reshape(2, 1, 3) for each in (kept, values))
        sojourn.name(kept, "all of them")
    with place.connect() as owner:
        found = owner.value("all of them")
        assert list(found) == sorted(values)
        for key, value in values.items():
            assert (found[key].dtype, found[key].stride()) == (value.dtype, value.stride()), key
            assert torch.equal(read(found[key]), value), key
        assert owner.values()[-1].shape == (2, 1, 3)
        found["image"][0, 1] = 7
        found["reshaped"][1, 0, 2] = 9
        sojourn.flush()
    image[0, 1], values["reshaped"][1, 0, 2] = 7, 9
    with place.connect() as owner:
        assert torch.equal(read(owner.value("all of them.image")), image)
        assert torch.equal(read(owner.value("all of them.reshaped")), values["reshaped"])


def test_names_move_and_end(place):
    with place.connect() as owner:
        first, second = torch.ones(2).to(owner.device), torch.zeros(2).to(owner.device)
        sojourn.name(first, "w")
        sojourn.name(second, "w")
        first.add_(1)  # it has lost the name
        sojourn.name(first, "first")
        sojourn.name({"x": torch.ones(1).to(owner.device)}, "pair")
        with pytest.raises(sojourn.Error, match=r"1 other values have names of 'pair' \('pair.x'\)"):
            sojourn.name({"y": torch.ones(1).to(owner.device)}, "pair")
        owner.release("pair")
        sojourn.name({"y": torch.ones(1).to(owner.device)}, "pair")
    with place.connect() as owner:
        assert torch.equal(read(owner.value("w")), torch.zeros(2))
        assert torch.equal(read(owner.value("first")), torch.full((2,), 2.0))
        for name in ("w", "first", "pair"):
            owner.release(name)
        assert owner.values() == []


def test_small_values_with_names_are_not_gathered(place):
    with place.connect() as owner:
        gc.collect()
        _sojourn.set_gathering(owner.counters()["live_handles"] + 64, 16, 4)
        try:
            kept = []
            for number in range(200):
                with sojourn.step():
                    kept.append(torch.full((), float(number)).to(owner.device) * 2)
                if number == 10:
                    sojourn.name(kept[10], "early")
            sojourn.name(kept[20], "gathered before")
            with torch.no_grad():
                kept[10].add_(1)
                kept[20].add_(2)
            sojourn.flush()
        finally:
            _sojourn.set_gathering()
    with place.connect() as owner:
        assert float(read(owner.value("early"))) == 21
        assert float(read(owner.value("gathered before"))) == 42


def test_values_of_private_tables_stay_private():
    place = Embedded()
    with place.connect() as owner:
        table = owner.register("people", {"a": torch.rand(64)}, bounds={"a": (0, 1)})
        rows = owner.register("free", {"a": torch.rand(64)}, policy="open")["a"] * 2
        with sojourn.step():
            kept = table["a"].mean()
        with pytest.raises(sojourn.Refused) as before:
            kept.cpu()
        sojourn.name(kept, "mean")
        sojourn.name(rows, "rows")
        with pytest.raises(sojourn.Error, match="columns of a private table, which each step reads anew"):
            sojourn.name(table["a"], "column")
    with place.connect() as owner:
        with pytest.raises(sojourn.Refused) as after:
            owner.value("mean").cpu()
        assert "people" in str(after.value) and "private" in str(before.value)
        with pytest.raises(sojourn.Refused):
            read(owner.value("mean") * 0 + 1)
        assert torch.equal(read(owner.value("rows")), read(owner.dataset("free")["a"] * 2))


def test_of_groups_values_have_no_names(rng):
    owners = [sojourn.local() for _ in range(2)]
    group = sojourn.parties(*owners)
    at_group = torch.ones(2).to(group.device) * 2
    with pytest.raises(sojourn.Error, match="no connection to one owner|value of a group has no name"):
        sojourn.name(at_group, "x")
    own = torch.ones(2).to(owners[0].device)
    sojourn.name(own, "x")
    borrowed = own.to(group.device)
    borrowed.add_(1)  # a value of its own
    group.session.flush()
    assert torch.equal(read(owners[0].value("x")), torch.ones(2))
    for each in (group, *owners):
        each.close()


def test_other_clients_see_nothing(hospital):
    ada, bob = hospital.add_client("ada"), hospital.add_client("bob")
    with hospital.serving() as address:
        with sojourn.connect(address, identity=ada) as owner:
            sojourn.name(torch.ones(2).to(owner.device), "secret", tags=["t"])
        with sojourn.connect(address, identity=bob) as owner:
            assert owner.values() == owner.values(tag="t") == []
            for ask in (owner.value, owner.release):
                with pytest.raises(sojourn.Error, match="no value has the name 'secret'; none has a name"):
                    ask("secret")
            sojourn.name(torch.zeros(3).to(owner.device), "secret")
            owner.release("secret")
        with sojourn.connect(address) as owner:
            value = torch.ones(1).to(owner.device)
            for ask in (
                lambda: sojourn.name(value, "secret"),
                lambda: owner.value("secret"),
                lambda: owner.release("secret"),
            ):
                with pytest.raises(sojourn.Refused, match="sojourn keygen FILE.*identity=FILE"):
                    ask()
        with sojourn.connect(address, identity=ada) as owner:
            assert torch.equal(read(owner.value("secret")), torch.ones(2))


LATER = """
import sys, torch, sojourn
with sojourn.connect(sys.argv[1], identity=sys.argv[2]) as owner:
    weights = owner.value("weights")
    with sojourn.step():
        weights.mul_(3)
"""


def test_from_another_process_and_by_the_data_owner(hospital):
    ada = hospital.add_client("ada")
    hospital.add_client("bob")
    assert "no server runs on the store" in hospital("values", code=1)
    with hospital.serving() as address:
        assert hospital("values") == "no values with names\n"
        owner = sojourn.connect(address, identity=ada)
        sojourn.name(torch.ones(2, 3).to(owner.device), "weights", tags=["trial"])
        owner.close()
        subprocess.run([sys.executable, "-c", LATER, address, ada], check=True, cwd=ROOT)
        head, _, line = hospital("values").splitlines()
        assert head.split() == ["client", "name", "tags", "dtype", "shape", "bytes", "named", "last", "used", "lease"]
        assert line.startswith("ada     weights  trial  f32    [2, 3]  24 ") and line.endswith("6 d 23 h")
        with sojourn.connect(address, identity=ada) as owner:
            value = owner.value("weights")
            assert torch.equal(read(value), torch.full((2, 3), 3.0))
            assert hospital("values", "--client", "ada").splitlines()[-1].endswith("in use")
        assert hospital("values", "--client", "bob") == "no values with names\n"
        (told,) = json.loads(hospital("values", "--json"))["values"]
        assert (told["client"], told["name"], told["shape"], told["bytes"]) == ("ada", "weights", [2, 3], 24)
        status = json.loads(hospital("status", "--json"))["servers"][0]
        assert status["values"]["named"] == 1 and status["values"]["bytes"] > 0
        assert "1 with names" in hospital("status")
        error = hospital("values release", "weights", "--client", "bob", code=1)
        assert "of client 'bob' no value has the name 'weights'" in error
        released = hospital("values release", "weights", "--client", "ada")
        assert released == "value 'weights' of client 'ada' released\n"
        assert hospital("values") == "no values with names\n"
        assert json.loads(hospital("status", "--json"))["servers"][0]["values"]["bytes"] == 0
        with sojourn.connect(address, identity=ada) as owner:
            sojourn.name(torch.ones(1).to(owner.device), "weights")
    with hospital.serving() as address, sojourn.connect(address, identity=ada) as owner:
        with pytest.raises(sojourn.Error, match="A name goes .* when the owner's server ends"):
            owner.value("weights")
    assert "--client" in command("sojourn-owner", "values", "release", "--help")
    assert "end with it" in command("sojourn-owner", "values", "--help")


def test_the_numpy_owner_has_no_names():
    with sojourn.local(runtime="numpy") as owner:
        value = torch.ones(2).to(owner.device)
        for ask in (
            lambda: sojourn.name(value, "x"),
            owner.values,
            lambda: owner.value("x"),
            lambda: owner.release("x"),
        ):
            with pytest.raises(sojourn.Unsupported, match="no names for values.*native runtime"):
                ask()


def replies_changed(change, request_change=None):
    """A connection whose replies to TakeValues and ListValues are changed as bytes of a NamedValues."""
    from sojourn_wire.NamedValues import NamedValues
    from sojourn_wire.Reply import Reply
    from sojourn_wire.ReplyBody import ReplyBody

    embedded = _sojourn.EmbeddedOwner()

    def handle(request):
        data = bytearray(embedded.handle(request_change(bytearray(request)) if request_change else request))
        reply = Reply.GetRootAs(data, 0)
        if change and reply.BodyType() == ReplyBody.NamedValues:
            body = NamedValues()
            body.Init(reply.Body().Bytes, reply.Body().Pos)
            data = change(data, body) or data
        return bytes(data)

    return Owner(_sojourn.Session(handle, "changed"), "changed", embedded)


def field(value, slot):
    """Where a field of a table lies in its bytes."""
    return value._tab.Pos + value._tab.Offset(slot)


def vector(value, slot):
    return value._tab.Vector(value._tab.Offset(slot))


HOSTILE = {
    "name": (lambda data, body: data.replace(b"weights", b"\xff\xfeights"), "value with a name that is not UTF-8"),
    "tag": (lambda data, body: data.replace(b"trial", b"tri\xffl"), "value with a tag that is not UTF-8"),
    "element": (
        lambda data, body: data.__setitem__(field(body.Values(0), 8), 99),
        "describes a value of unknown element type",
    ),
    "sizes": (
        lambda data, body: data.__setitem__(
            slice(at := vector(body.Values(0), 10), at + 8), (2**62).to_bytes(8, "little")
        ),
        "describes value 'weights' with impossible sizes",
    ),
    "negative": (
        lambda data, body: data.__setitem__(slice(at := vector(body.Values(0), 10), at + 8), b"\xff" * 8),
        "describes value 'weights' with impossible sizes",
    ),
    "none": (
        lambda data, body: data.__setitem__(slice(at := vector(body, 4) - 4, at + 4), bytes(4)),
        "describes 0 values, expected 1",
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_owners_that_violate_the_protocol(kind):
    change, expected = HOSTILE[kind]
    state = {"on": False}
    owner = replies_changed(lambda data, body: change(data, body) if state["on"] else None)
    sojourn.name(torch.ones(2, 3).to(owner.device), "weights", tags=["trial"])
    state["on"] = True
    with pytest.raises(sojourn.OwnerError, match=expected):
        _sojourn.take_values(owner.session, ["weights"])
    owner.close()


def test_strides_that_fit_no_tensor_are_left_out():
    def change(data, body):
        at = vector(body.Values(0), 12)
        data[at : at + 16] = (7).to_bytes(8, "little") * 2

    with replies_changed(change) as owner:
        sojourn.name(torch.arange(6.0).reshape(2, 3).to(owner.device), "weights")
        value = owner.value("weights")
        assert value.stride() == (3, 1)
        assert torch.equal(read(value), torch.arange(6.0).reshape(2, 3))


def test_an_owner_of_an_older_release():
    from sojourn_wire.Request import Request
    from sojourn_wire.RequestBody import RequestBody

    def older(data):
        request = Request.GetRootAs(data, 0)
        if request.BodyType() >= RequestBody.NameValues:
            data[field(request, 4)] = 99
        return bytes(data)

    with replies_changed(None, older) as owner:
        with pytest.raises(sojourn.Unsupported, match="older release, which has no names for values"):
            owner.values()
